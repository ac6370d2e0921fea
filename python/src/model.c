/* The base of tenmap.Model: a mapping of names to tensors, over a Handle that close() lets go. */
#include "core.h"

#include <string.h>

typedef struct tpy_model {
    PyObject_HEAD tpy_handle *handle; /* NULL once closed */
} tpy_model;

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)args, (void)keywords;
    return tpy_new_object(type);
}

static void model_dealloc(PyObject *self) {
    tpy_drop(((tpy_model *)self)->handle);
    tpy_free_object(self);
}

/* The handle, or NULL and a ValueError, as closed files raise it. */
static tpy_handle *handle_of(PyObject *self) {
    tpy_handle *handle = ((tpy_model *)self)->handle;
    if (handle == NULL)
        PyErr_SetString(PyExc_ValueError, "the model is closed");
    return handle;
}

/* _open(module, source, dequantize, read, lenient, partial, threads, max_header_bytes, offset, length) */
static PyObject *model_open(PyObject *self, PyTypeObject *defining, PyObject *const *args,
                            Py_ssize_t count, PyObject *names) {
    tpy_model *model = (tpy_model *)self;
    tpy_state *state = PyType_GetModuleState(defining);
    tpy_open_options options;
    memset(&options, 0, sizeof options);
    if (state == NULL)
        return NULL;
    if (count != 9 || (names != NULL && PyTuple_Size(names) > 0)) {
        PyErr_SetString(PyExc_TypeError, "_open takes 9 arguments");
        return NULL;
    }
    options.dequantize = PyObject_IsTrue(args[1]);
    options.read = PyObject_IsTrue(args[2]);
    options.lenient = PyObject_IsTrue(args[3]);
    options.partial = PyObject_IsTrue(args[4]);
    options.threads = (unsigned)PyLong_AsUnsignedLong(args[5]);
    options.max_header_bytes = PyLong_AsUnsignedLongLong(args[6]);
    options.offset = PyLong_AsUnsignedLongLong(args[7]);
    options.length = PyLong_AsUnsignedLongLong(args[8]);
    if (PyErr_Occurred() != NULL)
        return NULL;
    tpy_handle *handle = tpy_open(state, args[0], &options);
    if (handle == NULL)
        return NULL;
    tpy_handle *before = model->handle;
    model->handle = handle;
    tpy_drop(before);
    Py_RETURN_NONE;
}

static PyObject *model_close(PyObject *self, PyObject *unused) {
    tpy_model *model = (tpy_model *)self;
    (void)unused;
    tpy_handle *handle = model->handle;
    model->handle = NULL;
    tpy_drop(handle);
    Py_RETURN_NONE;
}

static PyObject *model_closed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((tpy_model *)self)->handle == NULL);
}

static Py_ssize_t model_length(PyObject *self) {
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? -1 : (Py_ssize_t)tenmap_count(handle->model);
}

/* The tensor of that name; NULL without an exception if there is none. */
static const tenmap_tensor *find(tpy_handle *handle, PyObject *name) {
    Py_ssize_t length;
    if (!PyUnicode_Check(name))
        return NULL;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        PyErr_Clear(); /* a lone surrogate: no tensor is called that */
        return NULL;
    }
    return tenmap_find_n(handle->model, text, (size_t)length);
}

static PyObject *model_subscript(PyObject *self, PyObject *name) {
    tpy_handle *handle = handle_of(self);
    if (handle == NULL)
        return NULL;
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "tensors are found by name, a str, not by %R",
                     (PyObject *)Py_TYPE(name));
        return NULL;
    }
    const tenmap_tensor *tensor = find(handle, name);
    if (tensor == NULL) {
        PyErr_SetObject(PyExc_KeyError, name);
        return NULL;
    }
    return (PyObject *)tpy_tensor_new(handle, tensor);
}

static int model_contains(PyObject *self, PyObject *name) {
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? -1 : find(handle, name) != NULL;
}

/* Something of every tensor of an open model, in file order: item(handle, its number). */
static PyObject *list_tensors(PyObject *self, tpy_item *item) {
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? NULL : tpy_list(tenmap_count(handle->model), item, handle);
}

static PyObject *name_at(void *context, size_t i) {
    tpy_handle *handle = context;
    const tenmap_tensor *tensor = tenmap_at(handle->model, i);
    return PyUnicode_DecodeUTF8(tensor->name, (Py_ssize_t)tensor->name_len, "surrogatepass");
}

static PyObject *tensor_at(void *context, size_t i) {
    tpy_handle *handle = context;
    return (PyObject *)tpy_tensor_new(handle, tenmap_at(handle->model, i));
}

static PyObject *model_names(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_tensors(self, name_at);
}

static PyObject *model_tensors(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_tensors(self, tensor_at);
}

static PyObject *model_iter(PyObject *self) {
    PyObject *names = list_tensors(self, name_at);
    PyObject *iterator = names != NULL ? PyObject_GetIter(names) : NULL;
    Py_XDECREF(names);
    return iterator;
}

static int add_pair(PyObject *dict, const tenmap_metadata *pair) {
    PyObject *key = PyUnicode_DecodeUTF8(pair->key, (Py_ssize_t)pair->key_len, "surrogatepass");
    PyObject *value = tpy_metadata_value(pair);
    int failed = key == NULL || value == NULL;
    if (!failed && PyDict_Contains(dict, key) == 0)
        failed = PyDict_SetItem(dict, key, value) != 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return failed || PyErr_Occurred() != NULL ? -1 : 0;
}

/* metadata of one shard, or of all together: the first shard that has a key counts (shard < 0). */
static PyObject *metadata_of(tpy_handle *handle, long shard) {
    PyObject *dict = PyDict_New();
    size_t n = tenmap_metadata_count(handle->model);
    for (size_t i = 0; dict != NULL && i < n; i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(handle->model, i);
        if (shard >= 0 && pair->shard != (uint32_t)shard)
            continue;
        if (add_pair(dict, pair) != 0) {
            Py_DECREF(dict);
            return NULL;
        }
    }
    return dict;
}

static PyObject *model_metadata(PyObject *self, void *unused) {
    (void)unused;
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? NULL : metadata_of(handle, -1);
}

/* (path, size, header_bytes, data_offset, first_tensor, tensor_count, metadata) */
static PyObject *shard_at(void *context, size_t i) {
    tpy_handle *handle = context;
    const tenmap_shard *shard = tenmap_shard_at(handle->model, i);
    PyObject *path = tpy_decode_path(shard->path);
    PyObject *metadata = metadata_of(handle, (long)i);
    if (path == NULL || metadata == NULL) {
        Py_XDECREF(path);
        Py_XDECREF(metadata);
        return NULL;
    }
    return Py_BuildValue("NKKKnnN", path, (unsigned long long)shard->size,
                         (unsigned long long)shard->header_bytes,
                         (unsigned long long)shard->data_offset, (Py_ssize_t)shard->first_tensor,
                         (Py_ssize_t)shard->tensor_count, metadata);
}

static PyObject *model_shards(PyObject *self, PyObject *unused) {
    (void)unused;
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? NULL : tpy_list(tenmap_shard_count(handle->model), shard_at, handle);
}

static PyObject *missing_at(void *context, size_t i) {
    tpy_handle *handle = context;
    return tpy_decode_path(tenmap_missing_at(handle->model, i));
}

static PyObject *model_missing(PyObject *self, void *unused) {
    (void)unused;
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? NULL
                          : tpy_list(tenmap_missing_count(handle->model), missing_at, handle);
}

static PyObject *model_file_size(PyObject *self, void *unused) {
    (void)unused;
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? NULL : PyLong_FromUnsignedLongLong(tenmap_file_size(handle->model));
}

/* advise(what, tensors or None): populate, prefetch, release, lock, unlock. */
static PyObject *model_advise(PyObject *self, PyObject *args) {
    tpy_handle *handle = handle_of(self);
    unsigned advice;
    PyObject *object;
    tenmap_error error;
    tenmap_status status;
    if (handle == NULL || !PyArg_ParseTuple(args, "IO:_advise", &advice, &object))
        return NULL;
    const tenmap_tensor *tensor = NULL;
    if (object != Py_None) {
        tensor = find(handle, object);
        if (tensor == NULL) {
            PyErr_SetObject(PyExc_KeyError, object);
            return NULL;
        }
    }
    Py_INCREF((PyObject *)handle);
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_advise(handle->model, tensor, advice, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK)
        tpy_handle_fail(handle, &error, NULL);
    Py_DECREF((PyObject *)handle);
    if (status != TENMAP_OK)
        return NULL;
    Py_RETURN_NONE;
}

/* (resident, cached) bytes of all tensors. */
static PyObject *model_residency(PyObject *self, PyObject *unused) {
    (void)unused;
    tpy_handle *handle = handle_of(self);
    uint64_t resident = 0, cached = 0;
    tenmap_error error;
    tenmap_status status;
    if (handle == NULL)
        return NULL;
    Py_INCREF((PyObject *)handle);
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_resident(handle->model, NULL, &resident, &error);
    if (status == TENMAP_OK)
        status = tenmap_cached(handle->model, NULL, &cached, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK)
        tpy_handle_fail(handle, &error, NULL);
    Py_DECREF((PyObject *)handle);
    if (status != TENMAP_OK)
        return NULL;
    return Py_BuildValue("KK", (unsigned long long)resident, (unsigned long long)cached);
}

/* _private(shard) -> Memory: the whole shard, copy-on-write; None where it cannot be mapped. */
static PyObject *model_private(PyObject *self, PyObject *args) {
    tpy_handle *handle = handle_of(self);
    Py_ssize_t i;
    if (handle == NULL || !PyArg_ParseTuple(args, "n:_private", &i))
        return NULL;
    const tenmap_shard *shard = tenmap_shard_at(handle->model, (size_t)i);
    if (shard == NULL) {
        PyErr_SetString(PyExc_IndexError, "no shard of that number");
        return NULL;
    }
    if (shard->base == NULL)
        Py_RETURN_NONE;
    tpy_memory *memory =
        tpy_memory_private(handle->state, shard->fd, shard->offset, (size_t)shard->size);
    if (memory == NULL && PyErr_Occurred() == NULL)
        Py_RETURN_NONE;
    return (PyObject *)memory;
}

/* (name, dtype, shape, shard, place in the shard, bytes, ready) */
static PyObject *row_at(void *context, size_t i) {
    tpy_handle *handle = context;
    const tenmap_tensor *tensor = tenmap_at(handle->model, i);
    const tenmap_shard *shard = tenmap_shard_at(handle->model, tensor->shard);
    PyObject *shape = PyTuple_New((Py_ssize_t)tensor->rank);
    for (uint32_t d = 0; shape != NULL && d < tensor->rank; d++)
        PyTuple_SetItem(shape, (Py_ssize_t)d, PyLong_FromUnsignedLongLong(tensor->shape[d]));
    return Py_BuildValue("s#sNIKKO", tensor->name, (Py_ssize_t)tensor->name_len,
                         tenmap_dtype_text(tensor), shape, tensor->shard,
                         (unsigned long long)(tensor->file_offset - shard->offset),
                         (unsigned long long)tensor->nbytes,
                         tenmap_view(tensor, TENMAP_AS_STORED, NULL) != NULL ? Py_True : Py_False);
}

/* _table(): what load_file needs of every tensor. ready: mapped, aligned, in this machine's byte order. */
static PyObject *model_table(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_tensors(self, row_at);
}

static PyObject *model_take(PyObject *self, PyObject *args) {
    tpy_handle *handle = handle_of(self);
    return handle == NULL ? NULL : tpy_take_from(handle, args);
}

static PyMethodDef model_methods[] = {
    {"_open", (PyCFunction)(void (*)(void))model_open, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     NULL},
    {"close", model_close, METH_NOARGS,
     "Closes the model to use. Never fails; tensors and arrays made from it stay valid."},
    {"_names", model_names, METH_NOARGS, NULL},
    {"_tensors", model_tensors, METH_NOARGS, NULL},
    {"_shards", model_shards, METH_NOARGS, NULL},
    {"_advise", model_advise, METH_VARARGS, NULL},
    {"_residency", model_residency, METH_NOARGS, NULL},
    {"_private", model_private, METH_VARARGS, NULL},
    {"_table", model_table, METH_NOARGS, NULL},
    {"_take", model_take, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef model_properties[] = {
    {"closed", model_closed, NULL, "Whether close() was called.", NULL},
    {"metadata", model_metadata, NULL,
     "The metadata of the files, as a dict: of strings; of a GGUF file also of numbers, bools and "
     "lists of them. Of several shards the first that has a key counts.",
     NULL},
    {"missing", model_missing, NULL, "The shards that partial=True found missing.", NULL},
    {"file_size", model_file_size, NULL, "Bytes of all files together.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_doc, "The base of tenmap.Model."},
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {Py_tp_getset, model_properties},
    {Py_tp_iter, model_iter},
    {Py_mp_length, model_length},
    {Py_mp_subscript, model_subscript},
    {Py_sq_contains, model_contains},
    {0, NULL},
};

PyType_Spec tpy_model_spec = {"tenmap._core.Model", sizeof(tpy_model), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, model_slots};
