/* Writes whole models in one call: to a file, or to a folder in shards. */
#include "core.h"

#include <string.h>

/* What is to be written, and what must stay alive until then. */
typedef struct saving {
    tpy_state *state;
    PyObject *items;    /* keeps names and tensors alive */
    PyObject *metadata; /* our own copy of the dict */
    PyObject *shown;    /* the path as given; and as bytes */
    PyObject *path;
    unsigned flags; /* of conversions */
    tenmap_copy_options copy;
    tpy_progress report;
    tenmap_source *sources;
    uint64_t **shapes;
    Py_buffer *buffers;
    Py_ssize_t count;
} saving;

static void end_saving(saving *job) {
    for (Py_ssize_t i = 0; job->shapes != NULL && i < job->count; i++)
        PyMem_Free(job->shapes[i]);
    for (Py_ssize_t i = 0; job->buffers != NULL && i < job->count; i++)
        if (job->buffers[i].obj != NULL)
            PyBuffer_Release(&job->buffers[i]);
    PyMem_Free(job->sources);
    PyMem_Free(job->shapes);
    PyMem_Free(job->buffers);
    Py_XDECREF(job->items);
    Py_XDECREF(job->metadata);
    Py_XDECREF(job->path);
}

/* Checks that the buffer has as many bytes as dtype and shape need; -1 with an exception if not. */
static int check_length(const tenmap_source *source, const Py_buffer *buffer, PyObject *name) {
    uint64_t count = 1;
    size_t bytes;
    for (uint32_t d = 0; d < source->rank; d++)
        if (source->shape[d] == 0)
            count = 0;
    for (uint32_t d = 0; count > 0 && d < source->rank; d++) {
        if (source->shape[d] > UINT64_MAX / count) {
            PyErr_Format(PyExc_OverflowError,
                         "%R: its shape has more elements than 64 bits can count", name);
            return -1;
        }
        count *= source->shape[d];
    }
    if (tpy_packed_bytes(source->dtype, count, &bytes) != 0)
        return -1;
    if (bytes != (size_t)buffer->len) {
        PyErr_Format(PyExc_ValueError, "%R: its dtype and shape need %zu bytes, but it has %zd",
                     name, bytes, buffer->len);
        return -1;
    }
    return 0;
}

/* (name, dtype, shape, tensor or buffer) */
static int add_source(saving *job, PyObject *item, Py_ssize_t i) {
    tenmap_source *source = &job->sources[i];
    PyObject *name, *shape, *data;
    Py_ssize_t length;
    tpy_number dtype = TPY_U32("dtype");
    if (!PyArg_ParseTuple(item, "OO&OO", &name, tpy_number_of, &dtype, &shape, &data))
        return -1;
    const char *text = tpy_text(name, "the name of a tensor", &length);
    job->shapes[i] = text != NULL ? tpy_parse_shape(shape, &source->rank) : NULL;
    if (job->shapes[i] == NULL)
        return -1;
    source->name = text;
    source->name_len = (size_t)length;
    source->shape = job->shapes[i];
    source->dtype = (tenmap_dtype)dtype.value;
    if (PyObject_TypeCheck(data, job->state->tensor_type)) {
        tpy_tensor *tensor = (tpy_tensor *)data;
        source->tensor = tensor->tensor;
        source->flags = job->flags;
        return tpy_handle_enter(tensor->handle);
    }
    if (PyObject_GetBuffer(data, &job->buffers[i], PyBUF_SIMPLE) != 0)
        return -1;
    source->data = job->buffers[i].len > 0 ? job->buffers[i].buf : "";
    return check_length(source, &job->buffers[i], name);
}

/*
 * Reads everything that the caller passed, in an order that leaves nothing to be read later: first
 * the path, the metadata and the items, then the buffers.
 */
static int begin_saving(saving *job, PyObject *module, PyObject *list, PyObject *metadata) {
    job->state = PyModule_GetState(module);
    job->copy.progress = tpy_report;
    job->copy.ctx = &job->report;
    if (!PyUnicode_FSConverter(job->shown, &job->path))
        return -1;
    job->metadata = tpy_pairs(metadata);
    job->items = job->metadata != NULL ? tpy_items(list) : NULL;
    if (job->items == NULL)
        return -1;
    Py_ssize_t count = PyTuple_Size(job->items);
    job->sources = PyMem_Calloc((size_t)count + 1, sizeof *job->sources);
    job->shapes = PyMem_Calloc((size_t)count + 1, sizeof *job->shapes);
    job->buffers = PyMem_Calloc((size_t)count + 1, sizeof *job->buffers);
    if (job->sources == NULL || job->shapes == NULL || job->buffers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (job->count = 0; job->count < count; job->count++) {
        Py_ssize_t i = job->count;
        if (add_source(job, PyTuple_GetItem(job->items, i), i) != 0) {
            job->count++; /* counted now, so that it is released on failure */
            return -1;
        }
    }
    return 0;
}

static PyObject *fail_saving(const saving *job, const tenmap_error *error) {
    PyObject *name = NULL;
    if (PyErr_Occurred() != NULL)
        return NULL;
    if (error->index < (uint64_t)job->count)
        name = PyUnicode_DecodeUTF8(job->sources[error->index].name,
                                    (Py_ssize_t)job->sources[error->index].name_len, "replace");
    tpy_fail(job->state, error, job->shown, name);
    Py_XDECREF(name);
    return NULL;
}

static int declare(const saving *job, tenmap_writer *writer) {
    tenmap_error error;
    if (tpy_add_metadata(job->state, writer, job->metadata) != 0)
        return -1;
    for (Py_ssize_t i = 0; i < job->count; i++) {
        const tenmap_source *source = &job->sources[i];
        if (tenmap_writer_add(writer, source->name, source->name_len, source->dtype, source->shape,
                              source->rank, NULL, &error) != TENMAP_OK) {
            error.index = (uint64_t)i;
            fail_saving(job, &error);
            return -1;
        }
    }
    return tpy_still_lent(job->state, job->buffers, job->count);
}

static PyObject *write_file(saving *job, const tenmap_writer_options *options) {
    const char *path = PyBytes_AsString(job->path);
    tenmap_writer *writer = NULL;
    tenmap_error error;
    tenmap_status status;
    memset(&error, 0, sizeof error);
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_create(path, options, &writer, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK) {
        error.index = (uint64_t)job->count; /* stands for no tensor */
        return fail_saving(job, &error);
    }
    if (declare(job, writer) != 0) {
        tenmap_writer_abort(writer);
        return NULL;
    }
    job->report.thread = PyEval_SaveThread();
    status = tenmap_writer_copy_list(writer, job->sources, (size_t)job->count, &job->copy, &error);
    if (status == TENMAP_OK && !job->report.raised)
        status = tenmap_writer_commit(writer, &error);
    else
        tenmap_writer_abort(writer);
    PyEval_RestoreThread(job->report.thread);
    if (status != TENMAP_OK || job->report.raised)
        return fail_saving(job, &error);
    Py_RETURN_NONE;
}

/* The numeric arguments that both kinds of saving share. */
typedef struct save_numbers {
    tpy_number limit, alignment, slack, flags, convert, threads;
} save_numbers;

static const save_numbers save_defaults = {
    TPY_U64("max_shard_bytes"), TPY_U32("alignment"), TPY_U32("slack"),
    TPY_U32("flags"),           TPY_U32("flags"),     TPY_U32("threads"),
};

static void start_job(saving *job, const save_numbers *numbers, PyObject *path,
                      PyObject *progress) {
    memset(job, 0, sizeof *job);
    job->shown = path;
    job->flags = (unsigned)numbers->convert.value;
    job->copy = (tenmap_copy_options)TENMAP_COPY_OPTIONS_INIT;
    job->copy.threads = (unsigned)numbers->threads.value;
    job->report.callable = progress != Py_None ? progress : NULL;
}

/*
 * save(path, [(name, dtype, shape, source), ...], metadata, (alignment, slack, flags), convert
 * flags, threads, progress)
 */
PyObject *tpy_save(PyObject *module, PyObject *args) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    save_numbers n = save_defaults;
    PyObject *path, *list, *metadata, *progress, *result = NULL;
    saving job;
    if (!PyArg_ParseTuple(args, "OOO(O&O&O&)O&O&O:save", &path, &list, &metadata, tpy_number_of,
                          &n.alignment, tpy_number_of, &n.slack, tpy_number_of, &n.flags,
                          tpy_number_of, &n.convert, tpy_number_of, &n.threads, &progress))
        return NULL;
    options.data_alignment = (uint32_t)n.alignment.value;
    options.header_slack = (uint32_t)n.slack.value;
    options.flags = (uint32_t)n.flags.value;
    start_job(&job, &n, path, progress);
    if (begin_saving(&job, module, list, metadata) == 0)
        result = write_file(&job, &options);
    end_saving(&job);
    return result;
}

static PyObject *write_folder(saving *job, tenmap_save_options *options) {
    const char *path = PyBytes_AsString(job->path);
    tenmap_error error;
    memset(&error, 0, sizeof error);
    tenmap_edit *edits = tpy_edits(job->metadata, &options->metadata_count);
    if (edits == NULL || tpy_still_lent(job->state, job->buffers, job->count) != 0) {
        PyMem_Free(edits);
        return NULL;
    }
    options->metadata = edits;
    options->copy = &job->copy;
    job->report.thread = PyEval_SaveThread();
    tenmap_status status =
        tenmap_save_sharded(path, job->sources, (size_t)job->count, options, &error);
    PyEval_RestoreThread(job->report.thread);
    PyMem_Free(edits);
    if (status != TENMAP_OK || job->report.raised)
        return fail_saving(job, &error);
    Py_RETURN_NONE;
}

/*
 * save_sharded(folder, sources, metadata, max_shard_bytes, (alignment, slack, flags), convert
 * flags, threads, progress)
 */
PyObject *tpy_save_sharded(PyObject *module, PyObject *args) {
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    save_numbers n = save_defaults;
    PyObject *folder, *list, *metadata, *progress, *result = NULL;
    saving job;
    if (!PyArg_ParseTuple(args, "OOOO&(O&O&O&)O&O&O:save_sharded", &folder, &list, &metadata,
                          tpy_number_of, &n.limit, tpy_number_of, &n.alignment, tpy_number_of,
                          &n.slack, tpy_number_of, &n.flags, tpy_number_of, &n.convert,
                          tpy_number_of, &n.threads, &progress))
        return NULL;
    options.max_shard_bytes = n.limit.value;
    options.data_alignment = (uint32_t)n.alignment.value;
    options.header_slack = (uint32_t)n.slack.value;
    options.flags = (uint32_t)n.flags.value;
    start_job(&job, &n, folder, progress);
    if (begin_saving(&job, module, list, metadata) == 0)
        result = write_folder(&job, &options);
    end_saving(&job);
    return result;
}
