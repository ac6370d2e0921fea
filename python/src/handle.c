/*
 * A Handle owns an open model and what that depends on, until the last Tensor and the last view are
 * gone.
 */
#include "core.h"

#include <string.h>

static void handle_dealloc(PyObject *self) {
    tpy_handle *handle = (tpy_handle *)self;
    tpy_private_free(handle->shared);
    /* Unmapping many pages takes a while, and nobody else has the handle anymore. */
    Py_BEGIN_ALLOW_THREADS;
    tenmap_close(handle->model);
    Py_END_ALLOW_THREADS;
    if (handle->buffer.obj != NULL)
        PyBuffer_Release(&handle->buffer);
    tpy_http_free(handle->http);
    tpy_io_free(handle->io);
    for (size_t i = 0; i < handle->source_count; i++)
        tpy_drop(handle->sources[i]);
    PyMem_Free(handle->sources);
    Py_XDECREF(handle->tensor_class);
    Py_XDECREF(handle->module);
    tpy_free_object(self);
}

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, "An open model: what Models, Tensors and views keep alive."},
    {Py_tp_dealloc, handle_dealloc},
    {0, NULL},
};

PyType_Spec tpy_handle_spec = {"tenmap._core.Handle", sizeof(tpy_handle), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               handle_slots};

PyObject *tpy_decode_path(const char *path) {
    return PyUnicode_DecodeFSDefault(path);
}

PyObject *tpy_handle_fail(tpy_handle *handle, const tenmap_error *error, PyObject *tensor) {
    if (PyErr_Occurred() != NULL || tpy_io_raise(handle->io, error->message))
        return NULL;
    for (size_t i = 0; i < handle->source_count; i++)
        if (tpy_io_raise(handle->sources[i]->io, error->message))
            return NULL;
    const tenmap_shard *shard = tenmap_shard_at(handle->model, error->shard);
    PyObject *path = tpy_decode_path(shard != NULL ? shard->path : tenmap_path(handle->model));
    if (path == NULL)
        return NULL;
    tpy_fail(handle->state, error, path, tensor);
    Py_DECREF(path);
    return NULL;
}

int tpy_handle_enter(const tpy_handle *handle) {
    int refused = tpy_io_enter(handle->io);
    for (size_t i = 0; refused == 0 && i < handle->source_count; i++)
        refused = tpy_io_enter(handle->sources[i]->io);
    return refused;
}

tpy_handle *tpy_handle_of(tpy_handle *handle, const tenmap_model *model) {
    for (size_t i = 0; handle->model != model && i < handle->source_count; i++)
        if (handle->sources[i]->model == model)
            return handle->sources[i];
    return handle;
}

static tenmap_options library_options(const tpy_open_options *asked) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = asked->read ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
    options.flags |= asked->lenient ? TENMAP_OPEN_LENIENT : 0u;
    options.flags |= asked->partial ? TENMAP_OPEN_PARTIAL : 0u;
    options.flags |= asked->dequantize ? TENMAP_OPEN_DEQUANTIZE : 0u;
    options.flags |= asked->branches ? TENMAP_OPEN_BRANCHES : 0u;
    options.threads = asked->threads;
    options.max_header_bytes = asked->max_header_bytes;
    options.offset = asked->offset;
    options.length = asked->length;
    return options;
}

/* The kinds of sources that tenmap.open accepts. */
typedef enum { SOURCE_PATH, SOURCE_BYTES, SOURCE_FILE, SOURCE_NONE } source_kind;

static source_kind kind_of(PyObject *source) {
    if (PyUnicode_Check(source))
        return SOURCE_PATH;
    if (PyObject_CheckBuffer(source))
        return SOURCE_BYTES;
    if (PyObject_HasAttrString(source, "__fspath__"))
        return SOURCE_PATH;
    if (PyObject_HasAttrString(source, "read") && PyObject_HasAttrString(source, "seek"))
        return SOURCE_FILE;
    return SOURCE_NONE;
}

static int open_path(tpy_handle *handle, PyObject *source, tenmap_options *options, int values) {
    PyObject *path;
    tenmap_error error;
    tenmap_status status;
    if (!PyUnicode_FSConverter(source, &path))
        return -1;
    const char *text = PyBytes_AsString(path);
    if (tpy_http_takes(text)) {
        options->io = handle->http = tpy_http_new(handle->state);
        if (handle->http == NULL) {
            Py_DECREF(path);
            return -1;
        }
    }
    Py_BEGIN_ALLOW_THREADS;
    status = values ? (tenmap_status)tpy_open_values(handle, text, options, &error)
                    : tenmap_open(text, options, &handle->model, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK && PyErr_Occurred() == NULL) { /* else Ctrl-C */
        PyObject *shown = tpy_decode_path(text);
        if (shown != NULL)
            tpy_fail(handle->state, &error, shown, NULL);
        Py_XDECREF(shown);
    }
    Py_DECREF(path);
    return status == TENMAP_OK ? 0 : -1;
}

static int open_bytes(tpy_handle *handle, PyObject *source, const tenmap_options *options,
                      int values) {
    tenmap_error error;
    tenmap_status status;
    if (PyObject_GetBuffer(source, &handle->buffer, PyBUF_SIMPLE) != 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS;
    status = values ? (tenmap_status)tpy_open_values(handle, NULL, options, &error)
                    : tenmap_open_memory(handle->buffer.buf, (size_t)handle->buffer.len, options,
                                         &handle->model, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK)
        tpy_fail(handle->state, &error, NULL, NULL);
    return status == TENMAP_OK ? 0 : -1;
}

static int open_file(tpy_handle *handle, PyObject *source, tenmap_options *options) {
    tenmap_error error;
    tenmap_status status;
    handle->io = tpy_io_new(handle->state, source);
    if (handle->io == NULL)
        return -1;
    options->io = tpy_io_functions(handle->io);
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_open(TPY_FILE_OBJECT, options, &handle->model, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK && !tpy_io_raise(handle->io, error.message))
        tpy_fail(handle->state, &error, NULL, NULL);
    return status == TENMAP_OK ? 0 : -1;
}

tpy_handle *tpy_open(tpy_state *state, PyObject *source, const tpy_open_options *asked) {
    tenmap_options options = library_options(asked);
    tpy_handle *handle = tpy_new_object(state->handle_type);
    if (handle == NULL)
        return NULL;
    handle->state = state;
    handle->module = Py_NewRef(state->module);
    TPY_LOCK(state->module);
    handle->tensor_class = Py_XNewRef(state->tensor_class);
    TPY_UNLOCK();
    handle->dequantize = asked->dequantize;
    int opened = -1;
    switch (kind_of(source)) {
    case SOURCE_PATH:
        opened = open_path(handle, source, &options, asked->values);
        break;
    case SOURCE_BYTES:
        opened = open_bytes(handle, source, &options, asked->values);
        break;
    case SOURCE_FILE:
        opened = open_file(handle, source, &options);
        break;
    case SOURCE_NONE:
        PyErr_Format(PyExc_TypeError,
                     "a model is opened from a path, bytes, or a binary file object, not from %R",
                     (PyObject *)Py_TYPE(source));
        break;
    }
    if (opened != 0) {
        Py_DECREF((PyObject *)handle);
        return NULL;
    }
    return handle;
}
