/* Whole models written in one call: to a file, or to a folder in shards. */
#include "core.h"

#include <string.h>

/* What is to be written, and what it stands on until it is. */
typedef struct saving {
    tpy_state *state;
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
}

/* The bytes that dtype and shape ask for; -1 and an exception where the buffer has others. */
static int check_length(const tenmap_source *source, const Py_buffer *buffer, PyObject *name) {
    uint64_t count = 1;
    size_t bytes;
    for (uint32_t d = 0; d < source->rank; d++)
        if (source->shape[d] == 0)
            count = 0;
    for (uint32_t d = 0; count > 0 && d < source->rank; d++) {
        if (source->shape[d] > UINT64_MAX / count) {
            PyErr_Format(PyExc_OverflowError, "%R: a shape with more elements than 64 bits hold",
                         name);
            return -1;
        }
        count *= source->shape[d];
    }
    if (tpy_packed_bytes(source->dtype, count, &bytes) != 0)
        return -1;
    if (bytes != (size_t)buffer->len) {
        PyErr_Format(PyExc_ValueError, "%R: its dtype and shape ask for %zu bytes, but it has %zd",
                     name, bytes, buffer->len);
        return -1;
    }
    return 0;
}

/* (name, dtype, shape, tensor or buffer); flags convert. */
static int add_source(saving *job, PyObject *item, Py_ssize_t i, unsigned flags) {
    tenmap_source *source = &job->sources[i];
    PyObject *name, *shape, *data;
    Py_ssize_t length;
    unsigned dtype;
    if (!PyArg_ParseTuple(item, "OIOO", &name, &dtype, &shape, &data))
        return -1;
    const char *text = tpy_text(name, "the name of a tensor", &length);
    job->shapes[i] = text != NULL ? tpy_parse_shape(shape, &source->rank) : NULL;
    if (job->shapes[i] == NULL)
        return -1;
    source->name = text;
    source->name_len = (size_t)length;
    source->shape = job->shapes[i];
    source->dtype = dtype;
    if (PyObject_TypeCheck(data, job->state->tensor_type)) {
        tpy_tensor *tensor = (tpy_tensor *)data;
        source->tensor = tensor->tensor;
        source->flags = flags;
        return 0;
    }
    if (PyObject_GetBuffer(data, &job->buffers[i], PyBUF_SIMPLE) != 0)
        return -1;
    source->data = job->buffers[i].len > 0 ? job->buffers[i].buf : "";
    return check_length(source, &job->buffers[i], name);
}

static int begin_saving(saving *job, tpy_state *state, PyObject *list, unsigned flags) {
    memset(job, 0, sizeof *job);
    job->state = state;
    Py_ssize_t count = PyList_Size(list);
    if (count < 0)
        return -1;
    job->sources = PyMem_Calloc((size_t)count + 1, sizeof *job->sources);
    job->shapes = PyMem_Calloc((size_t)count + 1, sizeof *job->shapes);
    job->buffers = PyMem_Calloc((size_t)count + 1, sizeof *job->buffers);
    if (job->sources == NULL || job->shapes == NULL || job->buffers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (job->count = 0; job->count < count; job->count++) {
        Py_ssize_t i = job->count;
        if (add_source(job, PyList_GetItem(list, i), i, flags) != 0) {
            job->count++; /* what it holds by now is given back */
            return -1;
        }
    }
    return 0;
}

static PyObject *fail_saving(const saving *job, const tenmap_error *error, PyObject *path) {
    PyObject *name = NULL;
    if (PyErr_Occurred() != NULL)
        return NULL;
    if (error->index < (uint64_t)job->count)
        name = PyUnicode_DecodeUTF8(job->sources[error->index].name,
                                    (Py_ssize_t)job->sources[error->index].name_len, "replace");
    tpy_fail(job->state, error, path, name);
    Py_XDECREF(name);
    return NULL;
}

static int declare(const saving *job, tenmap_writer *writer, PyObject *metadata, PyObject *path) {
    tenmap_error error;
    if (tpy_add_metadata(job->state, writer, metadata) != 0)
        return -1;
    for (Py_ssize_t i = 0; i < job->count; i++) {
        const tenmap_source *source = &job->sources[i];
        if (tenmap_writer_add(writer, source->name, source->name_len, source->dtype, source->shape,
                              source->rank, NULL, &error) != TENMAP_OK) {
            error.index = (uint64_t)i;
            fail_saving(job, &error, path);
            return -1;
        }
    }
    return 0;
}

static PyObject *write_file(const saving *job, const char *path, PyObject *shown,
                            const tenmap_writer_options *options, PyObject *metadata,
                            tenmap_copy_options *copy, tpy_progress *report) {
    tenmap_writer *writer = NULL;
    tenmap_error error;
    tenmap_status status;
    memset(&error, 0, sizeof error);
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_writer_create(path, options, &writer, &error);
    Py_END_ALLOW_THREADS;
    if (status != TENMAP_OK) {
        error.index = (uint64_t)job->count; /* of no tensor */
        return fail_saving(job, &error, shown);
    }
    if (declare(job, writer, metadata, shown) != 0) {
        tenmap_writer_abort(writer);
        return NULL;
    }
    report->thread = PyEval_SaveThread();
    status = tenmap_writer_copy_list(writer, job->sources, (size_t)job->count, copy, &error);
    if (status == TENMAP_OK && !report->raised)
        status = tenmap_writer_commit(writer, &error);
    else
        tenmap_writer_abort(writer);
    PyEval_RestoreThread(report->thread);
    if (status != TENMAP_OK || report->raised)
        return fail_saving(job, &error, shown);
    Py_RETURN_NONE;
}

/* save(path, [(name, dtype, shape, source), ...], metadata, (alignment, slack, flags), convert flags,
   threads, progress) */
PyObject *tpy_save(PyObject *module, PyObject *args) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tpy_progress report = {NULL, NULL, 0};
    PyObject *path_object, *list, *metadata, *progress, *path, *result = NULL;
    unsigned flags;
    saving job;
    if (!PyArg_ParseTuple(args, "OOO(III)IIO:save", &path_object, &list, &metadata,
                          &options.data_alignment, &options.header_slack, &options.flags, &flags,
                          &copy.threads, &progress) ||
        !PyUnicode_FSConverter(path_object, &path))
        return NULL;
    report.callable = progress != Py_None ? progress : NULL;
    copy.progress = tpy_report;
    copy.ctx = &report;
    if (begin_saving(&job, PyModule_GetState(module), list, flags) == 0)
        result = write_file(&job, PyBytes_AsString(path), path_object, &options, metadata, &copy,
                            &report);
    end_saving(&job);
    Py_DECREF(path);
    return result;
}

/* A dict of strings as edits; strings are borrowed from it. None as a value removes a key. */
static tenmap_edit *edits_of(PyObject *dict, size_t *count) {
    PyObject *key, *value;
    Py_ssize_t position = 0, length;
    *count = 0;
    if (dict != Py_None && !PyDict_Check(dict)) {
        PyErr_Format(PyExc_TypeError, "metadata is a dict of strings, not %R",
                     (PyObject *)Py_TYPE(dict));
        return NULL;
    }
    size_t n = dict == Py_None ? 0 : (size_t)PyDict_Size(dict);
    tenmap_edit *edits = PyMem_Calloc(n + 1, sizeof *edits);
    if (edits == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    while (dict != Py_None && *count < n && PyDict_Next(dict, &position, &key, &value)) {
        tenmap_edit *edit = &edits[(*count)++];
        edit->key = tpy_text(key, "a key of metadata", &length);
        edit->key_len = (size_t)length;
        if (edit->key != NULL && value != Py_None) {
            edit->value = tpy_text(value, "a value of metadata", &length);
            edit->value_len = (size_t)length;
        }
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(edits);
            return NULL;
        }
    }
    return edits;
}

static PyObject *write_folder(const saving *job, PyObject *folder, tenmap_save_options *options,
                              tpy_progress *report) {
    PyObject *path;
    tenmap_error error;
    memset(&error, 0, sizeof error);
    if (!PyUnicode_FSConverter(folder, &path))
        return NULL;
    report->thread = PyEval_SaveThread();
    tenmap_status status = tenmap_save_sharded(PyBytes_AsString(path), job->sources,
                                               (size_t)job->count, options, &error);
    PyEval_RestoreThread(report->thread);
    Py_DECREF(path);
    if (status != TENMAP_OK || report->raised)
        return fail_saving(job, &error, folder);
    Py_RETURN_NONE;
}

/* save_sharded(folder, sources, metadata, max_shard_bytes, (alignment, slack, flags), convert flags,
   threads, progress) */
PyObject *tpy_save_sharded(PyObject *module, PyObject *args) {
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tpy_progress report = {NULL, NULL, 0};
    PyObject *folder, *list, *metadata, *progress, *result = NULL;
    unsigned long long limit;
    unsigned flags;
    saving job;
    if (!PyArg_ParseTuple(args, "OOOK(III)IIO:save_sharded", &folder, &list, &metadata, &limit,
                          &options.data_alignment, &options.header_slack, &options.flags, &flags,
                          &copy.threads, &progress))
        return NULL;
    tenmap_edit *edits = edits_of(metadata, &options.metadata_count);
    if (edits == NULL)
        return NULL;
    report.callable = progress != Py_None ? progress : NULL;
    copy.progress = tpy_report;
    copy.ctx = &report;
    options.copy = &copy;
    options.max_shard_bytes = limit;
    options.metadata = edits;
    if (begin_saving(&job, PyModule_GetState(module), list, flags) == 0)
        result = write_folder(&job, folder, &options, &report);
    end_saving(&job);
    PyMem_Free(edits);
    return result;
}

/* {old: new}, whose texts borrow from the dict; NULL and an exception. */
static tenmap_renaming *names_of(PyObject *dict, size_t *count) {
    PyObject *key, *value;
    Py_ssize_t position = 0, length;
    size_t n = (size_t)PyDict_Size(dict);
    tenmap_renaming *names = PyMem_Calloc(n + 1, sizeof *names);
    *count = 0;
    if (names == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    while (*count < n && PyDict_Next(dict, &position, &key, &value)) {
        tenmap_renaming *name = &names[(*count)++];
        name->name = tpy_text(key, "a name", &length);
        name->name_len = (size_t)length;
        if (name->name != NULL) {
            name->new_name = tpy_text(value, "a name", &length);
            name->new_name_len = (size_t)length;
        }
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(names);
            return NULL;
        }
    }
    return names;
}

/* Names (may be none) and metadata of a file in one step -> how */
static PyObject *edit_file(PyObject *module, PyObject *path_object, PyObject *names_dict,
                           PyObject *edits_dict, const tenmap_edit_options *options) {
    PyObject *path;
    tenmap_error error;
    tenmap_status status;
    uint32_t how = 0;
    size_t name_count = 0, edit_count = 0;
    tenmap_renaming *names = names_of(names_dict, &name_count);
    tenmap_edit *edits = names != NULL ? edits_of(edits_dict, &edit_count) : NULL;
    if (edits == NULL || !PyUnicode_FSConverter(path_object, &path)) {
        PyMem_Free(names);
        PyMem_Free(edits);
        return NULL;
    }
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_rename(text, names, name_count, edits, edit_count, options, &how, &error);
    Py_END_ALLOW_THREADS;
    Py_DECREF(path);
    PyMem_Free(names);
    PyMem_Free(edits);
    if (status != TENMAP_OK)
        return tpy_fail(PyModule_GetState(module), &error, path_object, NULL);
    return PyLong_FromUnsignedLong(how);
}

/* edit_metadata(path, {key: value or None}, flags) -> how */
PyObject *tpy_edit_metadata(PyObject *module, PyObject *args) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    PyObject *path, *edits;
    if (!PyArg_ParseTuple(args, "OOI:edit_metadata", &path, &edits, &options.flags))
        return NULL;
    PyObject *none = PyDict_New();
    if (none == NULL)
        return NULL;
    PyObject *how = edit_file(module, path, none, edits, &options);
    Py_DECREF(none);
    return how;
}

/* rename(path, {old: new}, {key: value or None} or None, flags) -> how */
PyObject *tpy_rename(PyObject *module, PyObject *args) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    PyObject *path, *names, *edits;
    if (!PyArg_ParseTuple(args, "OO!OI:rename", &path, &PyDict_Type, &names, &edits,
                          &options.flags))
        return NULL;
    return edit_file(module, path, names, edits, &options);
}
