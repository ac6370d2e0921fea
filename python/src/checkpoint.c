/*
 * The values of a checkpoint's pickle as records, from which tenmap.torch makes objects. The
 * library has read the pickle as data; here its graph becomes lists of Python. Nothing is imported
 * or called.
 *
 * A record is a list: [None, kind, place in the file, ...]. Python puts the object that it makes
 * into the first item. A value in a record is another record, or an atom: None, a bool, a number, a
 * str, bytes, a bytearray, or (). No atom is a list. By kind, more items follow:
 *
 *     "list", "set", "tuple", "frozenset"   a tuple of values
 *     "dict"         a tuple of keys and values by turns
 *     "global"       the module, the name
 *     "object"       what is called or instantiated, the arguments, the state in a tuple, or () if
 *                    there is none, a tuple of items, a tuple of keys and values by turns
 *     "persistent"   its id
 */
#include "core.h"

#include <string.h>

#include "../../src/model/pickled_values.h"

enum { SEGMENT_WORDS = 2, FROZEN_SET = 0x91 };

typedef struct value_walk {
    tpy_handle *handle;
    const tmi_torch_values *values;
    uint32_t *numbers; /* by the first word of a node: the number of its record, from 1 on */
    uint32_t *stack;
    size_t depth;
    PyObject *records, *atoms; /* atoms by their places: each is made once */
} value_walk;

static uint64_t place_of(const value_walk *w, size_t at) {
    const tenmap_shard *shard = tenmap_shard_at(w->handle->model, 0);
    return shard->offset + w->values->pickle_at + at;
}

/* Raises the error that the bytes of an opcode are not what they should be. */
static PyObject *fail_atom(const value_walk *w, size_t at, const char *why) {
    tenmap_error error;
    if (PyErr_Occurred() != NULL && !PyErr_ExceptionMatches(PyExc_ValueError))
        return NULL; /* memory has run out, say */
    PyErr_Clear();
    memset(&error, 0, sizeof error);
    error.status = TENMAP_ERR_FORMAT;
    error.offset = place_of(w, at);
    PyOS_snprintf(error.message, sizeof error.message, "pickle, byte %llu: %s",
                  (unsigned long long)error.offset, why);
    return tpy_handle_fail(w->handle, &error, NULL);
}

/* Atoms. */

/* The line after the opcode, which the library found to end within the pickle. */
static const char *line_of(const value_walk *w, size_t at, size_t *len) {
    enum { LONGEST_LINE = 4096 };
    const tmi_pickle *p = &w->values->pickle;
    const char *line = (const char *)p->bytes + at + 1;
    const char *end = memchr(line, '\n', p->len - at - 1);
    *len = end != NULL ? (size_t)(end - line) : LONGEST_LINE;
    return *len < LONGEST_LINE ? line : NULL;
}

/* A signed little-endian integer of any size. */
static PyObject *big_integer(const char *bytes, size_t size) {
    PyObject *make = PyObject_GetAttrString((PyObject *)&PyLong_Type, "from_bytes");
    PyObject *args = Py_BuildValue("(y#s)", bytes, (Py_ssize_t)size, "little");
    PyObject *keywords = Py_BuildValue("{sO}", "signed", Py_True);
    PyObject *made = NULL;
    if (make != NULL && args != NULL && keywords != NULL)
        made = PyObject_Call(make, args, keywords);
    Py_XDECREF(make);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return made;
}

static uint64_t count_before(const unsigned char *operand, unsigned width) {
    uint64_t count = 0;
    for (unsigned i = width; i-- > 0;)
        count = count << 8 | operand[i];
    return count;
}

/* A number that the library does not read: one of more than 64 bits, or one in a line of text. */
static PyObject *big_number(const value_walk *w, size_t at, unsigned char opcode) {
    const unsigned char *operand = w->values->pickle.bytes + at + 1;
    size_t len;
    if (opcode == 0x8a)
        return big_integer((const char *)operand + 1, operand[0]);
    if (opcode == 0x8b)
        return big_integer((const char *)operand + 4, (size_t)count_before(operand, 4));
    const char *line = line_of(w, at, &len);
    if (line == NULL || opcode == 'S' || opcode == 'V')
        return fail_atom(w, at, "a line of more than 4,096 bytes, or a string without its quotes");
    len -= len > 0 && opcode == 'L' && line[len - 1] == 'L';
    PyObject *text = PyUnicode_DecodeASCII(line, (Py_ssize_t)len, NULL), *made = NULL;
    if (text != NULL)
        made = opcode == 'F' ? PyFloat_FromString(text)
                             : PyObject_CallFunction((PyObject *)&PyLong_Type, "Oi", text, 0);
    Py_XDECREF(text);
    return made != NULL ? made : fail_atom(w, at, "this is no number");
}

/* A str. Strings of Python 2 ('S', 'T', 'U') are UTF-8, as for torch.load. */
static PyObject *text_of(const value_walk *w, const tmi_atom *atom, size_t at) {
    const char *errors = atom->opcode == 'T' || atom->opcode == 'U' ? NULL : "surrogatepass";
    char *room = NULL;
    const char *text = atom->text;
    size_t len = atom->len;
    if (atom->escaped) {
        room = PyMem_Malloc(2 * len + 1);
        if (room == NULL)
            return PyErr_NoMemory();
        text = room;
        len = tmi_atom_text(atom, room, 2 * len);
    }
    PyObject *made = NULL;
    if (len != SIZE_MAX)
        made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, errors);
    PyMem_Free(room);
    return made != NULL ? made : fail_atom(w, at, "a string is not valid UTF-8");
}

static PyObject *make_atom(const value_walk *w, size_t at) {
    tmi_atom atom = tmi_atom_of(&w->values->pickle, (tmi_ref)(at << 1));
    switch (atom.kind) {
    case TMI_ATOM_BOOL:
        return PyBool_FromLong(atom.number != 0);
    case TMI_ATOM_INT:
        return PyLong_FromLongLong(atom.number);
    case TMI_ATOM_BIG:
        return big_number(w, at, atom.opcode);
    case TMI_ATOM_FLOAT:
        return PyFloat_FromDouble(atom.real);
    case TMI_ATOM_TEXT:
        return text_of(w, &atom, at);
    case TMI_ATOM_BYTES:
        return atom.opcode == 0x96 ? PyByteArray_FromStringAndSize(atom.text, (Py_ssize_t)atom.len)
                                   : PyBytes_FromStringAndSize(atom.text, (Py_ssize_t)atom.len);
    case TMI_ATOM_TUPLE:
        return PyTuple_New(0);
    default:
        return Py_NewRef(Py_None);
    }
}

/* The atom at this place, a new reference; the pickle may use it any number of times. */
static PyObject *atom_at(const value_walk *w, size_t at) {
    PyObject *place = PyLong_FromSize_t(at);
    PyObject *atom = place != NULL ? PyDict_GetItemWithError(w->atoms, place) : NULL;
    if (atom != NULL) {
        Py_INCREF(atom);
    } else if (place != NULL && PyErr_Occurred() == NULL) {
        atom = make_atom(w, at);
        if (atom != NULL && PyDict_SetItem(w->atoms, place, atom) != 0)
            Py_CLEAR(atom);
    }
    Py_XDECREF(place);
    return atom;
}

/* Records. */

/* A value: its record, or the atom. */
static PyObject *value_at(const value_walk *w, tmi_ref ref) {
    if (!tmi_is_node(ref))
        return atom_at(w, ref >> 1);
    return Py_XNewRef(PyList_GetItem(w->records, (Py_ssize_t)w->numbers[ref >> 1] - 1));
}

/* `count` values in a tuple. */
static PyObject *values_at(const value_walk *w, const uint32_t *refs, size_t count) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *value = value_at(w, refs[i]);
        if (value == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, value) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* The items that were added to a node: those in pairs, or the others. */
static PyObject *items_of(const value_walk *w, const uint32_t *node, int pairs) {
    const uint32_t *words = w->values->pickle.nodes.at;
    size_t count = 0, at = 0;
    for (uint32_t s = node[TMI_WORD_FIRST]; s != 0; s = words[s])
        if (!(words[s + 1] & TMI_SEGMENT_PAIRS) == !pairs)
            count += words[s + 1] & ~TMI_SEGMENT_PAIRS;
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t s = node[TMI_WORD_FIRST]; tuple != NULL && s != 0; s = words[s]) {
        if (!(words[s + 1] & TMI_SEGMENT_PAIRS) != !pairs)
            continue;
        for (uint32_t i = 0; tuple != NULL && i < (words[s + 1] & ~TMI_SEGMENT_PAIRS); i++) {
            PyObject *value = value_at(w, words[s + SEGMENT_WORDS + i]);
            if (value == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)at++, value) != 0)
                Py_CLEAR(tuple);
        }
    }
    return tuple;
}

/* A name in the file, as far as it can be shown. */
static PyObject *name_text(const tmi_atom *atom) {
    return PyUnicode_DecodeUTF8(atom->text, (Py_ssize_t)atom->len, "backslashreplace");
}

static PyObject *global_fields(const tmi_pickle *p, tmi_ref global) {
    tmi_atom module, name;
    tmi_global_text(p, global, &module, &name);
    return Py_BuildValue("NN", name_text(&module), name_text(&name));
}

static PyObject *object_fields(const value_walk *w, const uint32_t *node) {
    tmi_ref state = node[TMI_WORD_STATE];
    return Py_BuildValue(
        "NNNNN", value_at(w, node[TMI_WORD_CALLABLE]), value_at(w, node[TMI_WORD_ARGS]),
        values_at(w, &state, state != TMI_NO_REF), items_of(w, node, 0), items_of(w, node, 1));
}

/* The kind of a node, and a tuple of what its record has after the place. */
static PyObject *fields_of(const value_walk *w, tmi_ref ref, const char **kind) {
    const tmi_pickle *p = &w->values->pickle;
    const uint32_t *node = tmi_node(p, ref);
    switch (node[TMI_WORD_KIND] & TMI_KIND_MASK) {
    case TMI_PICKLE_DICT:
        *kind = "dict";
        return Py_BuildValue("(N)", items_of(w, node, 1));
    case TMI_PICKLE_TUPLE:
        *kind = p->bytes[node[TMI_WORD_AT]] == FROZEN_SET ? "frozenset" : "tuple";
        return Py_BuildValue("(N)", values_at(w, node + TMI_TUPLE_WORDS, node[TMI_WORD_COUNT]));
    case TMI_PICKLE_GLOBAL:
        *kind = "global";
        return global_fields(p, ref);
    case TMI_PICKLE_OBJECT:
        *kind = "object";
        return object_fields(w, node);
    case TMI_PICKLE_PERSISTENT:
        *kind = "persistent";
        if (node[TMI_WORD_ID] == TMI_NO_REF)
            return Py_BuildValue("(O)", Py_None);
        return Py_BuildValue("(N)", value_at(w, node[TMI_WORD_ID]));
    default:
        *kind = (node[TMI_WORD_KIND] & TMI_KIND_MASK) == TMI_PICKLE_SET ? "set" : "list";
        return Py_BuildValue("(N)", items_of(w, node, 0));
    }
}

static int append_new(PyObject *list, PyObject *item) {
    int failed = item == NULL || PyList_Append(list, item) != 0;
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

static int fill_record(const value_walk *w, uint32_t word, PyObject *record) {
    tmi_ref ref = word << 1 | 1;
    const char *kind = "";
    PyObject *fields = fields_of(w, ref, &kind);
    size_t at = tmi_node(&w->values->pickle, ref)[TMI_WORD_AT];
    Py_ssize_t count = fields != NULL ? PyTuple_Size(fields) : -1;
    int failed = count < 0 || PyList_Append(record, Py_None) != 0 ||
                 append_new(record, PyUnicode_InternFromString(kind)) != 0 ||
                 append_new(record, PyLong_FromUnsignedLongLong(place_of(w, at))) != 0;
    for (Py_ssize_t i = 0; !failed && i < count; i++)
        failed = PyList_Append(record, PyTuple_GetItem(fields, i)) != 0;
    Py_XDECREF(fields);
    return failed ? -1 : 0;
}

/* Which nodes the root holds. */

static void visit(value_walk *w, tmi_ref ref) {
    if (tmi_is_node(ref) && w->numbers[ref >> 1] == 0) {
        w->numbers[ref >> 1] = 1;
        w->stack[w->depth++] = ref >> 1;
    }
}

static void visit_inside(value_walk *w, const uint32_t *node) {
    const uint32_t *words = w->values->pickle.nodes.at;
    unsigned kind = node[TMI_WORD_KIND] & TMI_KIND_MASK;
    if (kind == TMI_PICKLE_TUPLE) {
        for (uint32_t i = 0; i < node[TMI_WORD_COUNT]; i++)
            visit(w, node[TMI_TUPLE_WORDS + i]);
    } else if (kind == TMI_PICKLE_PERSISTENT) {
        visit(w, node[TMI_WORD_ID]);
    } else if (kind != TMI_PICKLE_GLOBAL) {
        for (uint32_t s = node[TMI_WORD_FIRST]; s != 0; s = words[s])
            for (uint32_t i = 0; i < (words[s + 1] & ~TMI_SEGMENT_PAIRS); i++)
                visit(w, words[s + SEGMENT_WORDS + i]);
        if (kind == TMI_PICKLE_OBJECT) {
            visit(w, node[TMI_WORD_CALLABLE]);
            visit(w, node[TMI_WORD_ARGS]);
            visit(w, node[TMI_WORD_STATE]);
        }
    }
}

/* Numbers the nodes in the order in which the pickle makes them. Returns how many there are. */
static uint32_t number_nodes(value_walk *w) {
    const tmi_pickle *p = &w->values->pickle;
    uint32_t count = 0;
    visit(w, p->root);
    while (w->depth > 0)
        visit_inside(w, p->nodes.at + w->stack[--w->depth]);
    for (size_t i = 0; i < p->nodes.used; i++)
        if (w->numbers[i] != 0)
            w->numbers[i] = ++count;
    return count;
}

static PyObject *new_record(void *context, size_t i) {
    (void)context, (void)i;
    return PyList_New(0);
}

static int make_records(value_walk *w) {
    uint32_t count = number_nodes(w);
    w->records = tpy_list(count, new_record, NULL);
    w->atoms = PyDict_New();
    if (w->records == NULL || w->atoms == NULL)
        return -1;
    for (size_t i = 0; i < w->values->pickle.nodes.used; i++)
        if (w->numbers[i] != 0 &&
            fill_record(w, (uint32_t)i,
                        PyList_GetItem(w->records, (Py_ssize_t)w->numbers[i] - 1)) != 0)
            return -1;
    return 0;
}

/* Every global that the file names, also of values that it drops again: {(module, name): place}. */
static PyObject *globals_of(const value_walk *w) {
    const tmi_pickle *p = &w->values->pickle;
    PyObject *globals = PyDict_New();
    for (uint32_t at = p->first_global; globals != NULL && at != 0;
         at = p->nodes.at[at + TMI_WORD_NEXT]) {
        PyObject *key = global_fields(p, at << 1 | 1);
        PyObject *place = PyLong_FromUnsignedLongLong(place_of(w, p->nodes.at[at + TMI_WORD_AT]));
        int there = key != NULL && place != NULL ? PyDict_Contains(globals, key) : -1;
        if (there < 0 || (there == 0 && PyDict_SetItem(globals, key, place) != 0))
            Py_CLEAR(globals);
        Py_XDECREF(key);
        Py_XDECREF(place);
    }
    return globals;
}

/* {key: (place in the model, bytes)} */
static PyObject *storages_of(const value_walk *w) {
    PyObject *storages = PyDict_New();
    for (size_t i = 0; storages != NULL && i < w->values->storage_count; i++) {
        const tmi_torch_storage *s = &w->values->storages[i];
        PyObject *key = PyUnicode_DecodeUTF8(s->key, (Py_ssize_t)s->key_len, "surrogateescape");
        PyObject *range =
            Py_BuildValue("KK", (unsigned long long)s->at, (unsigned long long)s->bytes);
        if (key == NULL || range == NULL || PyDict_SetItem(storages, key, range) != 0)
            Py_CLEAR(storages);
        Py_XDECREF(key);
        Py_XDECREF(range);
    }
    return storages;
}

PyObject *tpy_pickled_values(tpy_handle *handle) {
    value_walk w = {.handle = handle, .values = tmi_values_of(handle->model)};
    PyObject *made = NULL;
    if (w.values == NULL)
        Py_RETURN_NONE;
    const tmi_pickle *p = &w.values->pickle;
    w.numbers = PyMem_Calloc(p->nodes.used + 1, sizeof *w.numbers);
    w.stack = PyMem_Calloc(p->nodes.used + 1, sizeof *w.stack);
    if (w.numbers == NULL || w.stack == NULL)
        PyErr_NoMemory();
    else if (make_records(&w) == 0)
        made = Py_BuildValue("NONNn", value_at(&w, p->root), w.records, globals_of(&w),
                             storages_of(&w), (Py_ssize_t)p->end);
    PyMem_Free(w.numbers);
    PyMem_Free(w.stack);
    Py_XDECREF(w.records);
    Py_XDECREF(w.atoms);
    return made;
}

int tpy_open_values(tpy_handle *handle, const char *path, const tenmap_options *options,
                    tenmap_error *error) {
    const Py_buffer *buffer = &handle->buffer;
    return path != NULL ? tmi_open_values(path, options, &handle->model, error)
                        : tmi_open_values_memory(buffer->buf, (size_t)buffer->len, options,
                                                 &handle->model, error);
}
