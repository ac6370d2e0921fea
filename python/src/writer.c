/* The base of tenmap.Writer: declare tensors, write their bytes, commit. */
#include "core.h"

#include <string.h>

/* The writer itself locks these. */
typedef struct tpy_writer {
    PyObject_HEAD tenmap_writer *writer; /* NULL before it is created and after it has ended */
    tpy_state *state;
    PyObject *module; /* keeps the state alive */
    int busy;         /* calls that run without the GIL; the writer must not end before they do */
} tpy_writer;

static int add_pair(tpy_state *state, tenmap_writer *writer, PyObject *key, PyObject *value) {
    Py_ssize_t key_length, value_length;
    tenmap_error error;
    const char *key_text = tpy_text(key, "a key of metadata", &key_length);
    const char *value_text =
        key_text != NULL ? tpy_text(value, "a value of metadata", &value_length) : NULL;
    if (value_text == NULL)
        return -1;
    if (tenmap_writer_metadata(writer, key_text, (size_t)key_length, value_text,
                               (size_t)value_length, &error) == TENMAP_OK)
        return 0;
    tpy_fail(state, &error, NULL, NULL);
    return -1;
}

int tpy_add_metadata(tpy_state *state, tenmap_writer *writer, PyObject *metadata) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(metadata, &position, &key, &value))
        if (add_pair(state, writer, key, value) != 0)
            return -1;
    return 0;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)args, (void)keywords;
    return tpy_new_object(type);
}

static void writer_dealloc(PyObject *self) {
    tpy_writer *writer = (tpy_writer *)self;
    tenmap_writer_abort(writer->writer);
    Py_XDECREF(writer->module);
    tpy_free_object(self);
}

static void refuse_ended(void) {
    PyErr_SetString(PyExc_ValueError, "the writer has ended: it was committed or aborted");
}

/* Called with the writer locked. NULL with a ValueError if it has ended. */
static tpy_writer *open_writer(PyObject *self) {
    tpy_writer *writer = (tpy_writer *)self;
    if (writer->writer != NULL)
        return writer;
    refuse_ended();
    return NULL;
}

/* None for TENMAP_OK; otherwise raises. */
static PyObject *answer(tpy_writer *writer, tenmap_status status, const tenmap_error *error) {
    if (status != TENMAP_OK)
        return tpy_fail(writer->state, error, NULL, NULL);
    Py_RETURN_NONE;
}

/* Creates a library writer for that path; NULL with an exception on failure. */
static tenmap_writer *create(tpy_state *state, PyObject *path, const tenmap_writer_options *options,
                             PyObject *shown) {
    const char *text = PyBytes_AsString(path);
    tenmap_writer *created = NULL;
    tenmap_error error;
    tenmap_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_create(text, options, &created, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK)
        tpy_fail(state, &error, shown, NULL);
    return status == TENMAP_OK ? created : NULL;
}

/* _create(path, alignment, slack, flags) */
static PyObject *writer_create(PyObject *self, PyTypeObject *defining, PyObject *const *args,
                               Py_ssize_t count, PyObject *names) {
    tpy_state *state = PyType_GetModuleState(defining);
    tpy_writer *writer = (tpy_writer *)self;
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tpy_number alignment = TPY_U32("alignment"), slack = TPY_U32("slack"), flags = TPY_U32("flags");
    PyObject *path;
    if (count != 4 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "_create takes 4 arguments");
        return NULL;
    }
    if (!tpy_number_of(args[1], &alignment) || !tpy_number_of(args[2], &slack) ||
        !tpy_number_of(args[3], &flags) || !PyUnicode_FSConverter(args[0], &path))
        return NULL;
    options.data_alignment = (uint32_t)alignment.value;
    options.header_slack = (uint32_t)slack.value;
    options.flags = (uint32_t)flags.value;
    tenmap_writer *created = create(state, path, &options, args[0]);
    Py_DECREF(path);
    if (created == NULL)
        return NULL;
    int is_first;
    TPY_LOCK(self);
    is_first = writer->module == NULL; /* only now, because another call may have run meanwhile */
    if (is_first) {
        writer->state = state;
        writer->module = Py_NewRef(state->module);
        writer->writer = created;
    }
    TPY_UNLOCK();
    if (is_first)
        Py_RETURN_NONE;
    tenmap_writer_abort(created);
    PyErr_SetString(PyExc_TypeError, "a writer is created once");
    return NULL;
}

static PyObject *writer_metadata(PyObject *self, PyObject *metadata) {
    PyObject *pairs = tpy_pairs(metadata);
    int failed;
    if (pairs == NULL)
        return NULL;
    TPY_LOCK(self);
    tpy_writer *writer = open_writer(self);
    failed = writer == NULL || tpy_add_metadata(writer->state, writer->writer, pairs) != 0;
    TPY_UNLOCK();
    Py_DECREF(pairs);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* The writer, in which a call may now run without the GIL until leave(). NULL if it has ended. */
static tpy_writer *enter(PyObject *self) {
    tpy_writer *writer;
    TPY_LOCK(self);
    writer = open_writer(self);
    if (writer != NULL)
        writer->busy++;
    TPY_UNLOCK();
    return writer;
}

static void leave(tpy_writer *writer) {
    TPY_LOCK(writer);
    writer->busy--;
    TPY_UNLOCK();
}

/* _add(name, dtype, shape) -> id */
static PyObject *writer_add(PyObject *self, PyObject *args) {
    PyObject *name, *shape_object;
    tpy_number dtype = TPY_U32("dtype");
    uint32_t rank;
    size_t id;
    Py_ssize_t length;
    tenmap_error error;
    if (!PyArg_ParseTuple(args, "OO&O:_add", &name, tpy_number_of, &dtype, &shape_object))
        return NULL;
    const char *text = tpy_text(name, "the name of a tensor", &length);
    uint64_t *shape = text != NULL ? tpy_parse_shape(shape_object, &rank) : NULL;
    if (shape == NULL)
        return NULL;
    tpy_writer *writer;
    tenmap_status status = TENMAP_OK;
    TPY_LOCK(self);
    writer = open_writer(self);
    if (writer != NULL)
        status = tenmap_writer_add(writer->writer, text, (size_t)length, (tenmap_dtype)dtype.value,
                                   shape, rank, &id, &error);
    TPY_UNLOCK();
    PyMem_Free(shape);
    if (writer == NULL)
        return NULL;
    if (status != TENMAP_OK)
        return tpy_fail(writer->state, &error, NULL, name);
    return PyLong_FromSize_t(id);
}

/* _write(id, offset, buffer): bytes as the file will hold them. */
static PyObject *writer_write(PyObject *self, PyObject *args) {
    tpy_number id = {"id", SIZE_MAX, 0}, offset = TPY_U64("offset");
    Py_buffer data;
    tenmap_error error;
    tenmap_status status;
    if (!PyArg_ParseTuple(args, "O&O&y*:_write", tpy_number_of, &id, tpy_number_of, &offset, &data))
        return NULL;
    tpy_writer *writer = enter(self);
    if (writer == NULL) {
        PyBuffer_Release(&data);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_write(writer->writer, (size_t)id.value, offset.value, data.buf,
                                 (size_t)data.len, &error);
    Py_END_ALLOW_THREADS;
    leave(writer);
    PyBuffer_Release(&data);
    return answer(writer, status, &error);
}

/* _copy(id, tensor, flags): a tensor of an open model, converted if the dtypes differ. */
static PyObject *writer_copy(PyObject *self, PyObject *args) {
    tpy_number id = {"id", SIZE_MAX, 0}, flags = TPY_U32("flags");
    PyObject *object;
    tenmap_error error;
    tenmap_status status;
    if (!PyArg_ParseTuple(args, "O&OO&:_copy", tpy_number_of, &id, &object, tpy_number_of, &flags))
        return NULL;
    tpy_writer *writer = enter(self);
    if (writer == NULL)
        return NULL;
    tpy_tensor *tensor = tpy_as_tensor(writer->state, object);
    if (tensor == NULL || tpy_handle_enter(tensor->handle) != 0) {
        leave(writer);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_copy(writer->writer, (size_t)id.value, tensor->tensor,
                                (uint32_t)flags.value, &error);
    Py_END_ALLOW_THREADS;
    leave(writer);
    return answer(writer, status, &error);
}

static int is_busy(const tpy_writer *writer) {
    if (writer->busy > 0)
        PyErr_SetString(PyExc_RuntimeError, "another thread is still writing: wait for it first");
    return writer->busy > 0;
}

/*
 * The library's writer, which no call of this one uses any more: NULL if it has ended; with a
 * RuntimeError if another thread is still writing.
 */
static tenmap_writer *end(tpy_writer *writer) {
    tenmap_writer *ending = NULL;
    TPY_LOCK(writer);
    if (!is_busy(writer)) {
        ending = writer->writer;
        writer->writer = NULL;
    }
    TPY_UNLOCK();
    return ending;
}

static PyObject *writer_commit(PyObject *self, PyObject *unused) {
    tpy_writer *writer = (tpy_writer *)self;
    tenmap_error error;
    tenmap_status status;
    (void)unused;
    tenmap_writer *ending = end(writer);
    if (ending == NULL) {
        if (PyErr_Occurred() == NULL)
            refuse_ended();
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_commit(ending, &error);
    Py_END_ALLOW_THREADS;
    return answer(writer, status, &error);
}

static PyObject *writer_abort(PyObject *self, PyObject *unused) {
    tpy_writer *writer = (tpy_writer *)self;
    (void)unused;
    tenmap_writer *ending = end(writer);
    if (ending == NULL && PyErr_Occurred() != NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    tenmap_writer_abort(ending);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *writer_ended(PyObject *self, void *unused) {
    (void)unused;
    int has_ended;
    TPY_LOCK(self);
    has_ended = ((tpy_writer *)self)->writer == NULL;
    TPY_UNLOCK();
    return PyBool_FromLong(has_ended);
}

static PyMethodDef writer_methods[] = {
    {"_create", (PyCFunction)(void (*)(void))writer_create,
     METH_METHOD | METH_FASTCALL | METH_KEYWORDS, NULL},
    {"_metadata", writer_metadata, METH_O, NULL},
    {"_add", writer_add, METH_VARARGS, NULL},
    {"_write", writer_write, METH_VARARGS, NULL},
    {"_copy", writer_copy, METH_VARARGS, NULL},
    {"_commit", writer_commit, METH_NOARGS, NULL},
    {"_abort", writer_abort, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef writer_properties[] = {
    {"ended", writer_ended, NULL, "Whether it was committed or aborted.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "The base of tenmap.Writer."}, {Py_tp_new, writer_new},
    {Py_tp_dealloc, writer_dealloc},           {Py_tp_methods, writer_methods},
    {Py_tp_getset, writer_properties},         {0, NULL},
};

PyType_Spec tpy_writer_spec = {"tenmap._core.Writer", sizeof(tpy_writer), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, writer_slots};
