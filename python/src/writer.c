/* The base of tenmap.Writer: declare, give bytes, commit. */
#include "core.h"

#include <string.h>

typedef struct tpy_writer {
    PyObject_HEAD tenmap_writer *writer; /* NULL before it is created, and once it has ended */
    tpy_state *state;
    PyObject *module; /* keeps the state */
    int busy;         /* calls that run without the GIL: nothing ends under them */
} tpy_writer;

const char *tpy_text(PyObject *object, const char *what, Py_ssize_t *length) {
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str, not %R", what,
                     (PyObject *)Py_TYPE(object));
        return NULL;
    }
    return PyUnicode_AsUTF8AndSize(object, length);
}

uint64_t *tpy_parse_shape(PyObject *shape, uint32_t *rank) {
    PyObject *tuple = PySequence_Tuple(shape);
    if (tuple == NULL)
        return NULL;
    Py_ssize_t n = PyTuple_Size(tuple);
    uint64_t *numbers = n <= UINT32_MAX ? PyMem_Calloc((size_t)n + 1, sizeof *numbers) : NULL;
    if (numbers == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; numbers != NULL && i < n; i++) {
        PyObject *number = PyNumber_Index(PyTuple_GetItem(tuple, i));
        if (number != NULL)
            numbers[i] = PyLong_AsUnsignedLongLong(number);
        Py_XDECREF(number);
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(numbers);
            numbers = NULL;
        }
    }
    Py_DECREF(tuple);
    *rank = (uint32_t)n;
    return numbers;
}

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
    if (metadata == Py_None)
        return 0;
    if (!PyDict_Check(metadata)) {
        PyErr_Format(PyExc_TypeError, "metadata is a dict of strings, not %R",
                     (PyObject *)Py_TYPE(metadata));
        return -1;
    }
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

static tpy_writer *open_writer(PyObject *self) {
    tpy_writer *writer = (tpy_writer *)self;
    if (writer->writer != NULL)
        return writer;
    PyErr_SetString(PyExc_ValueError, "the writer has ended: it was committed or aborted");
    return NULL;
}

/* Raises unless it went well; None otherwise. */
static PyObject *answer(tpy_writer *writer, tenmap_status status, const tenmap_error *error) {
    if (status != TENMAP_OK)
        return tpy_fail(writer->state, error, NULL, NULL);
    Py_RETURN_NONE;
}

/* _create(path, alignment, slack, flags) */
static PyObject *writer_create(PyObject *self, PyTypeObject *defining, PyObject *const *args,
                               Py_ssize_t count, PyObject *names) {
    tpy_writer *writer = (tpy_writer *)self;
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    PyObject *path;
    tenmap_error error;
    tenmap_status status;
    if (count != 4 || names != NULL || writer->writer != NULL) {
        PyErr_SetString(PyExc_TypeError, "_create takes 4 arguments, once");
        return NULL;
    }
    writer->state = PyType_GetModuleState(defining);
    if (writer->module == NULL)
        writer->module = Py_NewRef(writer->state->module);
    options.data_alignment = (uint32_t)PyLong_AsUnsignedLong(args[1]);
    options.header_slack = (uint32_t)PyLong_AsUnsignedLong(args[2]);
    options.flags = (uint32_t)PyLong_AsUnsignedLong(args[3]);
    if (PyErr_Occurred() != NULL || !PyUnicode_FSConverter(args[0], &path))
        return NULL;
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_create(text, &options, &writer->writer, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK)
        tpy_fail(writer->state, &error, args[0], NULL);
    Py_DECREF(path);
    if (status != TENMAP_OK)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *writer_metadata(PyObject *self, PyObject *metadata) {
    tpy_writer *writer = open_writer(self);
    if (writer == NULL || tpy_add_metadata(writer->state, writer->writer, metadata) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* _add(name, dtype, shape) -> id */
static PyObject *writer_add(PyObject *self, PyObject *args) {
    tpy_writer *writer = open_writer(self);
    PyObject *name, *shape_object;
    unsigned dtype;
    uint32_t rank;
    size_t id;
    Py_ssize_t length;
    tenmap_error error;
    if (writer == NULL || !PyArg_ParseTuple(args, "OIO:_add", &name, &dtype, &shape_object))
        return NULL;
    const char *text = tpy_text(name, "the name of a tensor", &length);
    uint64_t *shape = text != NULL ? tpy_parse_shape(shape_object, &rank) : NULL;
    if (shape == NULL)
        return NULL;
    tenmap_status status =
        tenmap_writer_add(writer->writer, text, (size_t)length, dtype, shape, rank, &id, &error);
    PyMem_Free(shape);
    if (status != TENMAP_OK)
        return tpy_fail(writer->state, &error, NULL, name);
    return PyLong_FromSize_t(id);
}

/* _write(id, offset, buffer): bytes as the file shall have them. */
static PyObject *writer_write(PyObject *self, PyObject *args) {
    tpy_writer *writer = open_writer(self);
    unsigned long long id, offset;
    Py_buffer data;
    tenmap_error error;
    tenmap_status status;
    if (writer == NULL || !PyArg_ParseTuple(args, "KKy*:_write", &id, &offset, &data))
        return NULL;
    writer->busy++;
    Py_BEGIN_ALLOW_THREADS;
    status =
        tenmap_writer_write(writer->writer, (size_t)id, offset, data.buf, (size_t)data.len, &error);
    Py_END_ALLOW_THREADS;
    writer->busy--;
    PyBuffer_Release(&data);
    return answer(writer, status, &error);
}

/* _copy(id, tensor, flags): of an open model, converted if the dtypes differ. */
static PyObject *writer_copy(PyObject *self, PyObject *args) {
    tpy_writer *writer = open_writer(self);
    unsigned long long id;
    unsigned flags;
    PyObject *object;
    tenmap_error error;
    tenmap_status status;
    if (writer == NULL || !PyArg_ParseTuple(args, "KOI:_copy", &id, &object, &flags))
        return NULL;
    tpy_tensor *tensor = tpy_as_tensor(writer->state, object);
    if (tensor == NULL)
        return NULL;
    writer->busy++;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_copy(writer->writer, (size_t)id, tensor->tensor, flags, &error);
    Py_END_ALLOW_THREADS;
    writer->busy--;
    return answer(writer, status, &error);
}

static int is_busy(const tpy_writer *writer) {
    if (writer->busy > 0)
        PyErr_SetString(PyExc_RuntimeError, "another thread is still writing: wait for it first");
    return writer->busy > 0;
}

static PyObject *writer_commit(PyObject *self, PyObject *unused) {
    tpy_writer *writer = open_writer(self);
    tenmap_error error;
    tenmap_status status;
    (void)unused;
    if (writer == NULL || is_busy(writer))
        return NULL;
    tenmap_writer *ending = writer->writer;
    writer->writer = NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_commit(ending, &error);
    Py_END_ALLOW_THREADS;
    return answer(writer, status, &error);
}

static PyObject *writer_abort(PyObject *self, PyObject *unused) {
    tpy_writer *writer = (tpy_writer *)self;
    (void)unused;
    if (is_busy(writer))
        return NULL;
    tenmap_writer *ending = writer->writer;
    writer->writer = NULL;
    Py_BEGIN_ALLOW_THREADS;
    tenmap_writer_abort(ending);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *writer_ended(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((tpy_writer *)self)->writer == NULL);
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
