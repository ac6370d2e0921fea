/*
 * Many tensors at once: loading into destinations, and measuring. Ctrl-C and the progress callable
 * can stop both.
 */
#include "core.h"

#include <string.h>

/* Runs on the calling thread, which has released the GIL meanwhile. */
int tpy_report(void *context, uint64_t done, uint64_t total) {
    tpy_progress *progress = context;
    if (progress->raised) /* with an exception pending, no other code may run */
        return 1;
    PyEval_RestoreThread(progress->thread);
    int stop = PyErr_CheckSignals() != 0;
    if (!stop && progress->callable != NULL) {
        PyObject *result = PyObject_CallFunction(progress->callable, "KK", (unsigned long long)done,
                                                 (unsigned long long)total);
        stop = result == NULL;
        Py_XDECREF(result);
    }
    progress->raised |= stop;
    progress->thread = PyEval_SaveThread();
    return stop;
}

void tpy_requests_end(tpy_requests *job) {
    for (Py_ssize_t i = 0; i < job->held; i++)
        PyBuffer_Release(&job->buffers[i]);
    for (Py_ssize_t i = 0; job->corners != NULL && i < job->count; i++)
        PyMem_Free(job->corners[i]);
    PyMem_Free(job->corners);
    PyMem_Free(job->stepped);
    PyMem_Free(job->as);
    PyMem_Free(job->buffers);
    PyMem_Free(job->requests);
    Py_XDECREF(job->items);
}

/* Whether a destination overlaps the bytes of a model in memory, which the load reads. */
static int is_in_model(const tpy_handle *handle, const Py_buffer *into) {
    const char *begin = handle->buffer.buf, *dst = into->buf;
    if (handle->buffer.obj != NULL && into->len > 0 && dst < begin + handle->buffer.len &&
        begin < dst + into->len)
        return 1;
    for (size_t i = 0; i < handle->source_count; i++) /* which have no sources that it has not */
        if (handle->sources[i]->level == 0 && is_in_model(handle->sources[i], into))
            return 1;
    return 0;
}

/*
 * Adds what one item selects: a request of the load if it is a block, otherwise a tensor to read
 * afterwards. -1 with an exception if the destination is too small or memory runs out.
 */
static int add_selection(tpy_requests *job, tpy_tensor *tensor, Py_ssize_t i) {
    tenmap_request request = {.tensor = tensor->tensor, .as = job->as[i]};
    tenmap_dtype dtype = job->as[i] == TENMAP_AS_STORED ? tpy_dtype(tensor) : job->as[i];
    size_t bytes, bits = tenmap_dtype_bits(dtype);
    job->corners[i] = tpy_box(tensor);
    if (job->corners[i] == NULL && PyErr_Occurred() != NULL)
        return -1;
    if (tensor->axes != NULL && job->corners[i] == NULL) {
        if (tpy_packed_bytes(bits > 0 && bits < 8 ? TENMAP_U8 : dtype, tpy_count(tensor), &bytes) !=
            0)
            return -1;
        if ((size_t)job->buffers[i].len < bytes) {
            PyErr_Format(PyExc_ValueError, "an array to fill has %zd bytes, and needs %zu",
                         job->buffers[i].len, bytes);
            return -1;
        }
        job->stepped[i] = tensor;
        return 0;
    }
    if (job->corners[i] != NULL && tensor->tensor->rank > 0) {
        request.begin = job->corners[i];
        request.end = job->corners[i] + tensor->tensor->rank;
    }
    request.dst = job->buffers[i].buf;
    request.dst_bytes = (size_t)job->buffers[i].len;
    job->requests[job->request_count++] = request;
    return 0;
}

/* Adds one (tensor, dtype, destination). */
static int add_request(tpy_state *state, tpy_requests *job, PyObject *item, Py_ssize_t i) {
    PyObject *object, *destination;
    tpy_number as = TPY_U32("dtype");
    if (!PyArg_ParseTuple(item, "OO&O", &object, tpy_number_of, &as, &destination))
        return -1;
    tpy_tensor *tensor = tpy_as_tensor(state, object);
    if (tensor == NULL)
        return -1;
    if (job->handle != NULL && tensor->handle != job->handle) {
        PyErr_SetString(PyExc_ValueError, "only tensors of one model can be loaded at a time");
        return -1;
    }
    if (tpy_handle_enter(tensor->handle) != 0)
        return -1;
    if (PyObject_GetBuffer(destination, &job->buffers[i], PyBUF_WRITABLE) != 0)
        return -1;
    job->held = i + 1;
    if (is_in_model(tensor->handle, &job->buffers[i])) {
        PyErr_SetString(PyExc_ValueError, "an array to fill lies in the bytes that the model was "
                                          "opened from: give it memory of its own");
        return -1;
    }
    job->handle = tensor->handle;
    job->as[i] = (tenmap_dtype)as.value;
    return add_selection(job, tensor, i);
}

PyObject *tpy_requests_fail(const tpy_requests *job, const tenmap_error *error) {
    if (PyErr_Occurred() != NULL)
        return NULL;
    PyObject *name = NULL;
    if (error->index < job->request_count) {
        const tenmap_tensor *tensor = job->requests[error->index].tensor;
        name = PyUnicode_DecodeUTF8(tensor->name, (Py_ssize_t)tensor->name_len, "replace");
    }
    tpy_handle_fail(job->handle, error, name);
    Py_XDECREF(name);
    return NULL;
}

static PyObject *run_loading(tpy_requests *job, unsigned threads, unsigned flags,
                             PyObject *progress) {
    tpy_progress report = {progress != Py_None ? progress : NULL, NULL, 0};
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error error;
    memset(&error, 0, sizeof error);
    options.threads = threads;
    options.flags = flags;
    options.progress = tpy_report;
    options.ctx = &report;
    report.thread = PyEval_SaveThread();
    tenmap_status status =
        tenmap_load(job->handle->model, job->requests, job->request_count, &options, &error);
    PyEval_RestoreThread(report.thread);
    if (status != TENMAP_OK || report.raised)
        return tpy_requests_fail(job, &error);
    for (Py_ssize_t i = 0; i < job->count; i++)
        if (job->stepped[i] != NULL && tpy_read(job->stepped[i], job->as[i], job->buffers[i].buf,
                                                (size_t)job->buffers[i].len) != 0)
            return NULL;
    Py_RETURN_NONE;
}

/* Makes all requests from the items; -1 with an exception on failure. */
int tpy_requests_begin(tpy_state *state, tpy_requests *job, PyObject *list) {
    job->items = tpy_items(list);
    if (job->items == NULL)
        return -1;
    job->count = PyTuple_Size(job->items);
    job->requests = PyMem_Calloc((size_t)job->count + 1, sizeof *job->requests);
    job->buffers = PyMem_Calloc((size_t)job->count + 1, sizeof *job->buffers);
    job->corners = PyMem_Calloc((size_t)job->count + 1, sizeof *job->corners);
    job->stepped = PyMem_Calloc((size_t)job->count + 1, sizeof(tpy_tensor *));
    job->as = PyMem_Calloc((size_t)job->count + 1, sizeof *job->as);
    if (job->requests == NULL || job->buffers == NULL || job->corners == NULL ||
        job->stepped == NULL || job->as == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < job->count; i++)
        if (add_request(state, job, PyTuple_GetItem(job->items, i), i) != 0)
            return -1;
    return tpy_still_lent(state, job->buffers, job->count);
}

/* load([(tensor, dtype, destination), ...], threads, flags, progress) */
PyObject *tpy_load(PyObject *module, PyObject *args) {
    tpy_state *state = PyModule_GetState(module);
    PyObject *list, *progress;
    tpy_number threads = TPY_U32("threads"), flags = TPY_U32("flags");
    tpy_requests job;
    memset(&job, 0, sizeof job);
    if (!PyArg_ParseTuple(args, "OO&O&O:load", &list, tpy_number_of, &threads, tpy_number_of,
                          &flags, &progress))
        return NULL;
    PyObject *result = NULL;
    if (tpy_requests_begin(state, &job, list) == 0)
        result = job.count == 0
                     ? Py_NewRef(Py_None)
                     : run_loading(&job, (unsigned)threads.value, (unsigned)flags.value, progress);
    tpy_requests_end(&job);
    return result;
}

typedef struct measuring {
    PyObject *items; /* keeps the tensors */
    const tenmap_tensor **tensors;
    tenmap_stats *stats;
    uint64_t *histogram;
    unsigned bins;
    Py_ssize_t count;
    tpy_handle *handle;
} measuring;

static PyObject *count_at(void *context, size_t i) {
    return PyLong_FromUnsignedLongLong(((const uint64_t *)context)[i]);
}

/* (count, zeros, subnormals, nans, infinities, min, max, mean, std, norm, histogram or None) */
static PyObject *stats_at(void *context, size_t i) {
    const measuring *job = context;
    const tenmap_stats *s = &job->stats[i];
    PyObject *counts = job->bins > 0 ? tpy_list(job->bins, count_at, job->histogram + i * job->bins)
                                     : Py_NewRef(Py_None);
    if (counts == NULL)
        return NULL;
    return Py_BuildValue("KKKKKdddddN", (unsigned long long)s->count, (unsigned long long)s->zeros,
                         (unsigned long long)s->subnormals, (unsigned long long)s->nans,
                         (unsigned long long)s->infinities, s->min, s->max, s->mean, s->std,
                         s->norm, counts);
}

static PyObject *run_measuring(measuring *job, tenmap_stats_options *options, PyObject *progress) {
    tpy_progress report = {progress != Py_None ? progress : NULL, NULL, 0};
    tenmap_error error;
    memset(&error, 0, sizeof error);
    options->progress = tpy_report;
    options->ctx = &report;
    options->histogram = options->bins > 0 ? job->histogram : NULL;
    job->bins = options->bins;
    report.thread = PyEval_SaveThread();
    tenmap_status status =
        tenmap_measure(job->tensors, (size_t)job->count, options, job->stats, &error);
    PyEval_RestoreThread(report.thread);
    if (status != TENMAP_OK || report.raised)
        return PyErr_Occurred() != NULL ? NULL : tpy_handle_fail(job->handle, &error, NULL);
    return tpy_list((size_t)job->count, stats_at, job);
}

static int add_measured(tpy_state *state, measuring *job, PyObject *object, Py_ssize_t i) {
    tpy_tensor *tensor = tpy_as_tensor(state, object);
    if (tensor == NULL)
        return -1;
    if (tensor->axes != NULL) {
        PyErr_SetString(PyExc_ValueError, "only whole tensors can be measured, not slices of them");
        return -1;
    }
    job->tensors[i] = tensor->tensor;
    job->handle = tensor->handle;
    return tpy_handle_enter(tensor->handle);
}

static int begin_measuring(tpy_state *state, measuring *job, uint32_t bins) {
    job->count = PyTuple_Size(job->items);
    job->tensors = PyMem_Calloc((size_t)job->count + 1, sizeof *job->tensors);
    job->stats = PyMem_Calloc((size_t)job->count + 1, sizeof *job->stats);
    if ((size_t)job->count <= SIZE_MAX / ((size_t)bins + 1))
        job->histogram = PyMem_Calloc((size_t)job->count * bins + 1, sizeof *job->histogram);
    if (job->tensors == NULL || job->stats == NULL || job->histogram == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < job->count; i++)
        if (add_measured(state, job, PyTuple_GetItem(job->items, i), i) != 0)
            return -1;
    return 0;
}

/* measure([tensor, ...], bins, low, high, threads, progress) */
PyObject *tpy_measure(PyObject *module, PyObject *args) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    PyObject *list, *progress, *result = NULL;
    tpy_number bins = TPY_U32("bins"), threads = TPY_U32("threads");
    measuring job;
    memset(&job, 0, sizeof job);
    if (!PyArg_ParseTuple(args, "OO&ddO&O:measure", &list, tpy_number_of, &bins, &options.low,
                          &options.high, tpy_number_of, &threads, &progress))
        return NULL;
    options.bins = (uint32_t)bins.value;
    options.threads = (unsigned)threads.value;
    job.items = tpy_items(list);
    if (job.items != NULL && begin_measuring(PyModule_GetState(module), &job, options.bins) == 0)
        result = job.count == 0 ? PyList_New(0) : run_measuring(&job, &options, progress);
    PyMem_Free(job.tensors);
    PyMem_Free(job.stats);
    PyMem_Free(job.histogram);
    Py_XDECREF(job.items);
    return result;
}
