/* Conversions of plain memory, and checks of files: what needs no open model. */
#include "core.h"

#include <string.h>

/* convert(buffer, from, to, count, flags) -> Memory; elements of 4 and 6 bits are packed. */
PyObject *tpy_convert(PyObject *module, PyObject *args) {
    tpy_state *state = PyModule_GetState(module);
    Py_buffer source;
    unsigned from, to, flags;
    unsigned long long count;
    size_t from_bytes, to_bytes;
    tenmap_error error;
    tenmap_status status;
    tpy_memory *memory = NULL;
    if (!PyArg_ParseTuple(args, "y*IIKI:convert", &source, &from, &to, &count, &flags))
        return NULL;
    if (tpy_packed_bytes(from, count, &from_bytes) == 0 &&
        tpy_packed_bytes(to, count, &to_bytes) == 0) {
        if (from_bytes != (size_t)source.len)
            PyErr_Format(PyExc_ValueError, "%llu elements of %s take %zu bytes, not %zd", count,
                         tenmap_dtype_name(from), from_bytes, source.len);
        else
            memory = tpy_memory_new(state, to_bytes);
    }
    if (memory != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        status = tenmap_convert(to, memory->data, to_bytes, from, source.buf, count, flags, &error);
        Py_END_ALLOW_THREADS;
        if (status != TENMAP_OK) {
            Py_DECREF((PyObject *)memory);
            memory = NULL;
            tpy_fail(state, &error, NULL, NULL);
        }
    }
    PyBuffer_Release(&source);
    return (PyObject *)memory;
}

/* Findings come while the GIL is away. */
typedef struct checking {
    PyThreadState *thread;
    PyObject *findings;
    int failed;
} checking;

/* (severity, code, shard or None, offset, tensor or None, message) */
static PyObject *finding_tuple(const tenmap_finding *finding) {
    PyObject *shard = finding->shard == TENMAP_NO_SHARD ? Py_NewRef(Py_None)
                                                        : PyLong_FromUnsignedLong(finding->shard);
    PyObject *tensor =
        finding->tensor == NULL
            ? Py_NewRef(Py_None)
            : PyUnicode_DecodeUTF8(finding->tensor, (Py_ssize_t)strlen(finding->tensor), "replace");
    PyObject *message =
        PyUnicode_DecodeUTF8(finding->message, (Py_ssize_t)strlen(finding->message), "replace");
    if (shard == NULL || tensor == NULL || message == NULL) {
        Py_XDECREF(shard);
        Py_XDECREF(tensor);
        Py_XDECREF(message);
        return NULL;
    }
    return Py_BuildValue("IsNKNN", finding->severity, tenmap_found_name(finding->code), shard,
                         (unsigned long long)finding->offset, tensor, message);
}

static void found(void *context, const tenmap_finding *finding) {
    checking *job = context;
    PyEval_RestoreThread(job->thread);
    if (!job->failed) {
        PyObject *item = finding_tuple(finding);
        job->failed = item == NULL || PyList_Append(job->findings, item) != 0;
        Py_XDECREF(item);
    }
    job->thread = PyEval_SaveThread();
}

/* check(path, flags, max_header_bytes) -> [finding, ...] */
PyObject *tpy_check(PyObject *module, PyObject *args) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    PyObject *path_object, *path;
    unsigned long long limit;
    tenmap_error error;
    checking job = {NULL, NULL, 0};
    if (!PyArg_ParseTuple(args, "OIK:check", &path_object, &options.flags, &limit) ||
        !PyUnicode_FSConverter(path_object, &path))
        return NULL;
    options.max_header_bytes = limit;
    job.findings = PyList_New(0);
    if (job.findings == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    const char *text = PyBytes_AsString(path);
    job.thread = PyEval_SaveThread();
    tenmap_status status = tenmap_check(text, &options, found, &job, &error);
    PyEval_RestoreThread(job.thread);
    Py_DECREF(path);
    if (status == TENMAP_OK && !job.failed)
        return job.findings;
    Py_DECREF(job.findings);
    return job.failed ? NULL : tpy_fail(PyModule_GetState(module), &error, path_object, NULL);
}
