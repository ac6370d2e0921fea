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
    uint64_t **shapes, **corners; /* corners: begin and end of a slice */
    Py_ssize_t count;
    tpy_memory *arena; /* for those that are not views */
} taking;

static void end_taking(taking *job) {
    for (Py_ssize_t i = 0; job->shapes != NULL && i < job->count; i++)
        PyMem_Free(job->shapes[i]);
    for (Py_ssize_t i = 0; job->corners != NULL && i < 2 * job->count; i++)
        PyMem_Free(job->corners[i]);
    PyMem_Free(job->corners);
    PyMem_Free(job->wants);
    PyMem_Free(job->shapes);
    Py_XDECREF(job->items);
}

/* Adds a slice: (begin, end), of the same length. */
static int add_corners(taking *job, PyObject *slice, Py_ssize_t i) {
    tenmap_want *want = &job->wants[i];
    PyObject *begin, *end;
    uint32_t rank, end_rank;
    if (!PyArg_ParseTuple(slice, "OO", &begin, &end))
        return -1;
    uint64_t **corners = job->corners + 2 * i;
    corners[0] = tpy_parse_shape(begin, &rank);
    corners[1] = corners[0] != NULL ? tpy_parse_shape(end, &end_rank) : NULL;
    if (corners[1] == NULL)
        return -1;
    if (rank != end_rank || (want->shape != NULL && want->rank != rank)) {
        PyErr_SetString(PyExc_ValueError, "begin, end and shape of a slice differ in length");
        return -1;
    }
    want->rank = rank;
    want->begin = rank > 0 ? corners[0] : NULL;
    want->end = rank > 0 ? corners[1] : NULL;
    return 0;
}

/* (name, dtype, shape or None, flags), and (begin, end) of a slice or None */
static int add_want(taking *job, PyObject *item, Py_ssize_t i) {
    tenmap_want *want = &job->wants[i];
    PyObject *name, *shape, *slice = Py_None;
    Py_ssize_t length;
    tpy_number dtype = TPY_U32("dtype"), flags = TPY_U32("flags");
    if (!PyArg_ParseTuple(item, "OO&OO&|O", &name, tpy_number_of, &dtype, &shape, tpy_number_of,
                          &flags, &slice))
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
    return slice == Py_None ? 0 : add_corners(job, slice, i);
}

/* (tensor, memory) of a want; None for one that is missing. */
static PyObject *taken_at(void *context, size_t i) {
    const taking *job = context;
    const tenmap_want *want = &job->wants[i];
    if (want->tensor == NULL)
        return Py_NewRef(Py_None);
    const tenmap_tensor *tensor = want->tensor;
    uintptr_t data = (uintptr_t)want->data, whole = (uintptr_t)tensor->data;
    int is_view = whole != 0 && data >= whole && data - whole < tensor->nbytes;
    PyObject *owner = is_view ? (PyObject *)job->handle : (PyObject *)job->arena;
    tpy_memory *memory =
        tpy_memory_view(job->handle->state, want->data, (size_t)want->nbytes, owner);
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
    job->corners = PyMem_Calloc(2 * (size_t)count + 1, sizeof *job->corners);
    if (job->wants == NULL || job->shapes == NULL || job->corners == NULL) {
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
 * _take([(name, dtype, shape or None, flags, (begin, end) or None), ...], threads, progress)
 * -> [(tensor, memory), ...]
 */
PyObject *tpy_take_from(tpy_handle *handle, PyObject *args) {
    PyObject *list, *progress, *result = NULL;
    tpy_number threads = TPY_U32("threads");
    taking job = {.handle = handle};
    if (!PyArg_ParseTuple(args, "OO&O:_take", &list, tpy_number_of, &threads, &progress))
        return NULL;
    job.items = tpy_items(list);
    if (job.items != NULL && begin_taking(&job) == 0 && tpy_handle_enter(handle) == 0)
        result = run_taking(&job, (unsigned)threads.value, progress);
    end_taking(&job);
    return result;
}
