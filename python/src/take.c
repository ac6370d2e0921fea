/*
 * All tensors that a program wants of a model, in one call: views if possible, one allocation for
 * the rest.
 */
#include "core.h"

#include <string.h>

typedef struct taking {
    tpy_handle *handle;
    PyObject *items; /* keeps the names alive */
    tenmap_want *wants;
    uint64_t **shapes;
    Py_ssize_t count;
    tpy_memory *arena; /* for those that are not views */
} taking;

static void end_taking(taking *job) {
    for (Py_ssize_t i = 0; job->shapes != NULL && i < job->count; i++)
        PyMem_Free(job->shapes[i]);
    PyMem_Free(job->wants);
    PyMem_Free(job->shapes);
    Py_XDECREF(job->items);
}

/* (name, dtype, shape or None, flags) */
static int add_want(taking *job, PyObject *item, Py_ssize_t i) {
    tenmap_want *want = &job->wants[i];
    PyObject *name, *shape;
    Py_ssize_t length;
    tpy_number dtype = TPY_U32("dtype"), flags = TPY_U32("flags");
    if (!PyArg_ParseTuple(item, "OO&OO&", &name, tpy_number_of, &dtype, &shape, tpy_number_of,
                          &flags))
        return -1;
    want->name = tpy_text(name, "the name of a tensor", &length);
    if (want->name == NULL)
        return -1;
    if (strlen(want->name) != (size_t)length) {
        PyErr_Format(PyExc_ValueError, "%R: names with NUL inside cannot be taken, only indexed",
                     name);
        return -1;
    }
    if (shape != Py_None) {
        job->shapes[i] = tpy_parse_shape(shape, &want->rank);
        if (job->shapes[i] == NULL)
            return -1;
        want->shape = job->shapes[i];
    }
    want->as = (tenmap_dtype)dtype.value;
    want->flags = (uint32_t)flags.value;
    return 0;
}

/* (tensor, memory) of a want; None for one that is missing. */
static PyObject *taken_at(void *context, size_t i) {
    const taking *job = context;
    const tenmap_want *want = &job->wants[i];
    if (want->tensor == NULL)
        return Py_NewRef(Py_None);
    const tenmap_tensor *tensor = want->tensor;
    int as_stored = want->as == TENMAP_AS_STORED || want->as == tensor->dtype;
    size_t bytes = (size_t)tensor->nbytes;
    if (!as_stored && tpy_packed_bytes(want->as, tensor->nelems, &bytes) != 0)
        return NULL;
    PyObject *owner = (PyObject *)job->handle;
    if (want->data != tensor->data)
        owner = (PyObject *)job->arena;
    tpy_memory *memory = tpy_memory_view(job->handle->state, want->data, bytes, owner);
    PyObject *object = memory != NULL ? (PyObject *)tpy_tensor_new(job->handle, tensor) : NULL;
    if (object == NULL) {
        tpy_drop(memory);
        return NULL;
    }
    return Py_BuildValue("NN", object, (PyObject *)memory);
}

static PyObject *run_taking(taking *job, unsigned threads, PyObject *progress) {
    tpy_progress report = {progress != Py_None ? progress : NULL, NULL, 0};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_arena *arena = NULL;
    tenmap_error error;
    memset(&error, 0, sizeof error);
    options.threads = threads;
    options.progress = tpy_report;
    options.ctx = &report;
    report.thread = PyEval_SaveThread();
    tenmap_status status =
        tenmap_take(job->handle->model, job->wants, (size_t)job->count, &options, &arena, &error);
    PyEval_RestoreThread(report.thread);
    if (status != TENMAP_OK || report.raised) {
        tenmap_arena_free(arena);
        PyObject *name = NULL;
        if (PyErr_Occurred() == NULL && error.index < (uint64_t)job->count)
            name = PyUnicode_FromString(job->wants[error.index].name);
        tpy_handle_fail(job->handle, &error, name);
        Py_XDECREF(name);
        return NULL;
    }
    job->arena = tpy_memory_arena(job->handle->state, arena); /* the arena may be NULL */
    PyObject *list = job->arena != NULL ? tpy_list((size_t)job->count, taken_at, job) : NULL;
    tpy_drop(job->arena);
    return list;
}

/* Makes all wants from the items; -1 with an exception on failure. */
static int begin_taking(taking *job) {
    Py_ssize_t count = PyTuple_Size(job->items);
    job->wants = PyMem_Calloc((size_t)count + 1, sizeof *job->wants);
    job->shapes = PyMem_Calloc((size_t)count + 1, sizeof *job->shapes);
    if (job->wants == NULL || job->shapes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    job->count = count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (add_want(job, PyTuple_GetItem(job->items, i), i) != 0)
            return -1;
    return 0;
}

/*
 * _take([(name, dtype, shape or None, flags), ...], threads, progress) -> [(tensor, memory), ...]
 */
PyObject *tpy_take_from(tpy_handle *handle, PyObject *args) {
    PyObject *list, *progress, *result = NULL;
    tpy_number threads = TPY_U32("threads");
    taking job = {handle, NULL, NULL, NULL, 0, NULL};
    if (!PyArg_ParseTuple(args, "OO&O:_take", &list, tpy_number_of, &threads, &progress))
        return NULL;
    job.items = tpy_items(list);
    if (job.items != NULL && begin_taking(&job) == 0 && tpy_io_enter(handle->io) == 0)
        result = run_taking(&job, (unsigned)threads.value, progress);
    end_taking(&job);
    return result;
}
