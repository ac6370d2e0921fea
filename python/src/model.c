/* The base of tenmap.Model: a mapping of names to tensors, over a Handle that close() drops. */
#include "core.h"

#include <string.h>

typedef struct tpy_model {
    PyObject_HEAD tpy_handle *handle; /* NULL once closed; the model locks it */
} tpy_model;

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)args, (void)keywords;
    return tpy_new_object(type);
}

static void model_dealloc(PyObject *self) {
    tpy_drop(((tpy_model *)self)->handle);
    tpy_free_object(self);
}

/*
 * A new reference to the handle, for tpy_drop; NULL with a ValueError, like closed files, if the
 * model is closed. Any of the caller's code may close the model, and every allocation may collect
 * garbage, which runs such code.
 */
static tpy_handle *hold(PyObject *self) {
    tpy_handle *handle;
    TPY_LOCK(self);
    handle = ((tpy_model *)self)->handle;
    Py_XINCREF((PyObject *)handle);
    TPY_UNLOCK();
    if (handle == NULL)
        PyErr_SetString(PyExc_ValueError, "the model is closed");
    return handle;
}

/* Gives the model this handle, which may be NULL, and drops the one that it had. */
static void swap_handle(PyObject *self, tpy_handle *handle) {
    tpy_model *model = (tpy_model *)self;
    tpy_handle *before;
    TPY_LOCK(self);
    before = model->handle;
    model->handle = handle;
    TPY_UNLOCK();
    tpy_drop(before);
}

/* Parses the flags and numbers of _open; -1 with an exception on failure. */
static int parse_options(PyObject *const *args, tpy_open_options *options) {
    tpy_number threads = TPY_U32("threads"), limit = TPY_U64("max_header_bytes"),
               offset = TPY_U64("offset"), length = TPY_U64("length");
    int *flags[] = {&options->dequantize, &options->read, &options->lenient, &options->partial};
    for (int i = 0; i < 4; i++)
        if ((*flags[i] = PyObject_IsTrue(args[i])) < 0)
            return -1;
    if (!tpy_number_of(args[4], &threads) || !tpy_number_of(args[5], &limit) ||
        !tpy_number_of(args[6], &offset) || !tpy_number_of(args[7], &length) ||
        (options->branches = PyObject_IsTrue(args[8])) < 0)
        return -1;
    options->threads = (unsigned)threads.value;
    options->max_header_bytes = limit.value;
    options->offset = offset.value;
    options->length = length.value;
    return 0;
}

/* Gives a model its handle; NULL if there is none, because opening failed. */
static PyObject *set_handle(PyObject *self, tpy_handle *handle) {
    if (handle == NULL)
        return NULL;
    swap_handle(self, handle);
    Py_RETURN_NONE;
}

/*
 * _open(source, dequantize, read, lenient, partial, threads, max_header_bytes, offset, length,
 * branches)
 */
static PyObject *model_open(PyObject *self, PyTypeObject *defining, PyObject *const *args,
                            Py_ssize_t count, PyObject *names) {
    tpy_state *state = PyType_GetModuleState(defining);
    tpy_open_options options;
    memset(&options, 0, sizeof options);
    if (state == NULL)
        return NULL;
    if (count != 10 || (names != NULL && PyTuple_Size(names) > 0)) {
        PyErr_SetString(PyExc_TypeError, "_open takes 10 arguments");
        return NULL;
    }
    if (parse_options(args + 1, &options) != 0)
        return NULL;
    return set_handle(self, tpy_open(state, args[0], &options));
}

/* _open_values(source, max_header_bytes) */
static PyObject *model_open_values(PyObject *self, PyTypeObject *defining, PyObject *const *args,
                                   Py_ssize_t count, PyObject *names) {
    tpy_state *state = PyType_GetModuleState(defining);
    tpy_number limit = TPY_U64("max_header_bytes");
    tpy_open_options options;
    memset(&options, 0, sizeof options);
    if (state == NULL)
        return NULL;
    if (count != 2 || (names != NULL && PyTuple_Size(names) > 0)) {
        PyErr_SetString(PyExc_TypeError, "_open_values takes 2 arguments");
        return NULL;
    }
    if (!tpy_number_of(args[1], &limit))
        return NULL;
    options.values = 1;
    options.max_header_bytes = limit.value;
    return set_handle(self, tpy_open(state, args[0], &options));
}

/* _derive(list): as tpy_derive */
static PyObject *model_derive(PyObject *self, PyTypeObject *defining, PyObject *const *args,
                              Py_ssize_t count, PyObject *names) {
    tpy_state *state = PyType_GetModuleState(defining);
    if (state == NULL)
        return NULL;
    if (count != 1 || (names != NULL && PyTuple_Size(names) > 0)) {
        PyErr_SetString(PyExc_TypeError, "_derive takes 1 argument");
        return NULL;
    }
    return set_handle(self, tpy_derive(state, args[0]));
}

static PyObject *model_values(PyObject *self, PyObject *unused) {
    (void)unused;
    tpy_handle *handle = hold(self);
    PyObject *values = handle == NULL ? NULL : tpy_pickled_values(handle);
    tpy_drop(handle);
    return values;
}

/* Bytes of the only shard as they are mapped, read-only; None if it is not mapped. */
static PyObject *bytes_at(tpy_handle *handle, uint64_t at, uint64_t bytes) {
    const tenmap_shard *shard = tenmap_shard_at(handle->model, 0);
    if (shard == NULL || at > shard->size || bytes > shard->size - at) {
        PyErr_SetString(PyExc_IndexError, "these bytes are not in the file");
        return NULL;
    }
    if (shard->base == NULL)
        Py_RETURN_NONE;
    return (PyObject *)tpy_memory_view(handle->state, (const char *)shard->base + at, (size_t)bytes,
                                       (PyObject *)handle);
}

/* _bytes(place in the model, bytes) -> Memory or None */
static PyObject *model_bytes(PyObject *self, PyObject *args) {
    tpy_number at = TPY_U64("at"), bytes = {"bytes", PY_SSIZE_T_MAX, 0};
    PyObject *memory = NULL;
    tpy_handle *handle = hold(self);
    if (handle != NULL &&
        PyArg_ParseTuple(args, "O&O&:_bytes", tpy_number_of, &at, tpy_number_of, &bytes))
        memory = bytes_at(handle, at.value, bytes.value);
    tpy_drop(handle);
    return memory;
}

static PyObject *model_close(PyObject *self, PyObject *unused) {
    (void)unused;
    swap_handle(self, NULL);
    Py_RETURN_NONE;
}

static PyObject *model_closed(PyObject *self, void *unused) {
    (void)unused;
    int is_closed;
    TPY_LOCK(self);
    is_closed = ((tpy_model *)self)->handle == NULL;
    TPY_UNLOCK();
    return PyBool_FromLong(is_closed);
}

static Py_ssize_t model_length(PyObject *self) {
    tpy_handle *handle = hold(self);
    Py_ssize_t length = handle == NULL ? -1 : (Py_ssize_t)tenmap_count(handle->model);
    tpy_drop(handle);
    return length;
}

/* The tensor of that name; NULL without an exception if there is none. */
static const tenmap_tensor *find(tpy_handle *handle, PyObject *name) {
    Py_ssize_t length;
    if (!PyUnicode_Check(name))
        return NULL;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        PyErr_Clear(); /* a lone surrogate: no tensor has such a name */
        return NULL;
    }
    return tenmap_find_n(handle->model, text, (size_t)length);
}

static PyObject *model_subscript(PyObject *self, PyObject *name) {
    tpy_handle *handle = hold(self);
    if (handle == NULL)
        return NULL;
    const tenmap_tensor *tensor = find(handle, name);
    PyObject *found = NULL;
    if (tensor != NULL)
        found = (PyObject *)tpy_tensor_new(handle, tensor);
    else if (PyUnicode_Check(name))
        found = tpy_call_method(self, "_missing", Py_NewRef(name));
    else
        PyErr_Format(PyExc_TypeError, "tensors are found by name, a str, not by %R",
                     (PyObject *)Py_TYPE(name));
    tpy_drop(handle);
    return found;
}

static int model_contains(PyObject *self, PyObject *name) {
    tpy_handle *handle = hold(self);
    int contains = handle == NULL ? -1 : find(handle, name) != NULL;
    tpy_drop(handle);
    return contains;
}

/* A list of item(handle, i) for every tensor of an open model, in file order. */
static PyObject *list_tensors(PyObject *self, tpy_item *item) {
    tpy_handle *handle = hold(self);
    PyObject *list = handle == NULL ? NULL : tpy_list(tenmap_count(handle->model), item, handle);
    tpy_drop(handle);
    return list;
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

/*
 * A dict of the pairs from *next on that belong to shards up to this one. The first pair with a key
 * wins.
 */
static PyObject *metadata_until(tpy_handle *handle, uint32_t shard, size_t *next) {
    PyObject *dict = PyDict_New();
    size_t n = tenmap_metadata_count(handle->model);
    for (; dict != NULL && *next < n; ++*next) {
        const tenmap_metadata *pair = tenmap_metadata_at(handle->model, *next);
        if (pair->shard > shard)
            break;
        if (add_pair(dict, pair) != 0) {
            Py_DECREF(dict);
            return NULL;
        }
    }
    return dict;
}

static PyObject *model_metadata(PyObject *self, void *unused) {
    (void)unused;
    size_t next = 0;
    tpy_handle *handle = hold(self);
    PyObject *dict = handle == NULL ? NULL : metadata_until(handle, UINT32_MAX, &next);
    tpy_drop(handle);
    return dict;
}

/* Pairs are in shard order, so one walk gives each shard its own. */
typedef struct shard_walk {
    tpy_handle *handle;
    size_t next_pair;
} shard_walk;

/*
 * (path, size, header_bytes, data_offset, first_tensor, tensor_count, metadata, format, branch,
 * other_tensors)
 */
static PyObject *shard_at(void *context, size_t i) {
    shard_walk *walk = context;
    const tenmap_shard *shard = tenmap_shard_at(walk->handle->model, i);
    PyObject *path = tpy_decode_path(shard->path);
    PyObject *metadata = metadata_until(walk->handle, (uint32_t)i, &walk->next_pair);
    if (path == NULL || metadata == NULL) {
        Py_XDECREF(path);
        Py_XDECREF(metadata);
        return NULL;
    }
    return Py_BuildValue("NKKKnnNszK", path, (unsigned long long)shard->size,
                         (unsigned long long)shard->header_bytes,
                         (unsigned long long)shard->data_offset, (Py_ssize_t)shard->first_tensor,
                         (Py_ssize_t)shard->tensor_count, metadata, shard->format, shard->branch,
                         (unsigned long long)shard->other_tensors);
}

static PyObject *model_shards(PyObject *self, PyObject *unused) {
    (void)unused;
    shard_walk walk = {hold(self), 0};
    PyObject *list = NULL;
    if (walk.handle != NULL)
        list = tpy_list(tenmap_shard_count(walk.handle->model), shard_at, &walk);
    tpy_drop(walk.handle);
    return list;
}

static PyObject *model_shard_count(PyObject *self, void *unused) {
    (void)unused;
    tpy_handle *handle = hold(self);
    PyObject *count = handle == NULL ? NULL : PyLong_FromSize_t(tenmap_shard_count(handle->model));
    tpy_drop(handle);
    return count;
}

static PyObject *missing_at(void *context, size_t i) {
    tpy_handle *handle = context;
    return tpy_decode_path(tenmap_missing_at(handle->model, i));
}

static PyObject *model_missing(PyObject *self, void *unused) {
    (void)unused;
    tpy_handle *handle = hold(self);
    PyObject *list =
        handle == NULL ? NULL : tpy_list(tenmap_missing_count(handle->model), missing_at, handle);
    tpy_drop(handle);
    return list;
}

static PyObject *model_file_size(PyObject *self, void *unused) {
    (void)unused;
    tpy_handle *handle = hold(self);
    PyObject *size =
        handle == NULL ? NULL : PyLong_FromUnsignedLongLong(tenmap_file_size(handle->model));
    tpy_drop(handle);
    return size;
}

/* populate, prefetch, release, lock or unlock a tensor by name, or all with None. */
static PyObject *advise(tpy_handle *handle, uint32_t advice, PyObject *name) {
    const tenmap_tensor *tensor = name != Py_None ? find(handle, name) : NULL;
    tenmap_error error;
    tenmap_status status;
    if (name != Py_None && tensor == NULL) {
        PyErr_SetObject(PyExc_KeyError, name);
        return NULL;
    }
    if (tpy_handle_enter(handle) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_advise(handle->model, tensor, advice, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK)
        return tpy_handle_fail(handle, &error, NULL);
    Py_RETURN_NONE;
}

/* _advise(advice, name or None) */
static PyObject *model_advise(PyObject *self, PyObject *args) {
    tpy_number advice = TPY_U32("advice");
    PyObject *name, *result = NULL;
    tpy_handle *handle = hold(self);
    if (handle != NULL && PyArg_ParseTuple(args, "O&O:_advise", tpy_number_of, &advice, &name))
        result = advise(handle, (uint32_t)advice.value, name);
    tpy_drop(handle);
    return result;
}

/* (resident, cached) bytes of all tensors. */
static PyObject *model_residency(PyObject *self, PyObject *unused) {
    (void)unused;
    tpy_handle *handle = hold(self);
    uint64_t resident = 0, cached = 0;
    tenmap_error error;
    tenmap_status status;
    if (handle == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_resident(handle->model, NULL, &resident, &error);
    if (status == TENMAP_OK)
        status = tenmap_cached(handle->model, NULL, &cached, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK)
        tpy_handle_fail(handle, &error, NULL);
    tpy_drop(handle);
    if (status != TENMAP_OK)
        return NULL;
    return Py_BuildValue("KK", (unsigned long long)resident, (unsigned long long)cached);
}

/* A copy-on-write mapping of the whole shard; None if it cannot be mapped. */
static PyObject *private_shard(tpy_handle *handle, size_t i) {
    const tenmap_shard *shard = tenmap_shard_at(handle->model, i);
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

/* _private(shard) -> Memory or None */
static PyObject *model_private(PyObject *self, PyObject *args) {
    tpy_number shard = TPY_U32("shard");
    PyObject *memory = NULL;
    tpy_handle *handle = hold(self);
    if (handle != NULL && PyArg_ParseTuple(args, "O&:_private", tpy_number_of, &shard))
        memory = private_shard(handle, (size_t)shard.value);
    tpy_drop(handle);
    return memory;
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

/*
 * _table(): what load_file needs of every tensor. ready: mapped, aligned, in this machine's byte
 * order.
 */
static PyObject *model_table(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_tensors(self, row_at);
}

static PyObject *model_take(PyObject *self, PyObject *args) {
    tpy_handle *handle = hold(self);
    PyObject *taken = handle == NULL ? NULL : tpy_take_from(handle, args);
    tpy_drop(handle);
    return taken;
}

static PyMethodDef model_methods[] = {
    {"_open", (PyCFunction)(void (*)(void))model_open, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     NULL},
    {"_open_values", (PyCFunction)(void (*)(void))model_open_values,
     METH_METHOD | METH_FASTCALL | METH_KEYWORDS, NULL},
    {"_derive", (PyCFunction)(void (*)(void))model_derive,
     METH_METHOD | METH_FASTCALL | METH_KEYWORDS, NULL},
    {"_values", model_values, METH_NOARGS, NULL},
    {"_bytes", model_bytes, METH_VARARGS, NULL},
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
    {"_shard_count", model_shard_count, NULL, NULL, NULL},
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
