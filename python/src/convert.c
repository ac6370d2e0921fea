/* What needs no open model: conversions of plain memory, and checks of files. */
#include "core.h"

#include <string.h>

/* `count` converted elements in new memory; NULL with an exception on failure. */
static tpy_memory *converted(tpy_state *state, tenmap_dtype from, tenmap_dtype to, uint64_t count,
                             uint32_t flags, const void *source) {
    tenmap_error error;
    tenmap_status status;
    size_t bytes;
    tpy_memory *memory =
        tpy_packed_bytes(to, count, &bytes) == 0 ? tpy_memory_new(state, bytes) : NULL;
    if (memory == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_convert(to, memory->data, bytes, from, source, count, flags, &error);
    Py_END_ALLOW_THREADS;
    if (status == TENMAP_OK)
        return memory;
    Py_DECREF((PyObject *)memory);
    tpy_fail(state, &error, NULL, NULL);
    return NULL;
}

/* convert(from, to, count, flags, buffer) -> Memory; elements of 4 and 6 bits are packed. */
PyObject *tpy_convert(PyObject *module, PyObject *args) {
    tpy_state *state = PyModule_GetState(module);
    Py_buffer source;
    tpy_number from = TPY_U32("from"), to = TPY_U32("to"), count = TPY_U64("count"),
               flags = TPY_U32("flags");
    size_t bytes;
    tpy_memory *memory = NULL;
    if (!PyArg_ParseTuple(args, "O&O&O&O&y*:convert", tpy_number_of, &from, tpy_number_of, &to,
                          tpy_number_of, &count, tpy_number_of, &flags, &source))
        return NULL;
    if (tpy_packed_bytes((tenmap_dtype)from.value, count.value, &bytes) == 0) {
        if (bytes != (size_t)source.len)
            PyErr_Format(PyExc_ValueError, "%llu elements of %s take %zu bytes, not %zd",
                         (unsigned long long)count.value,
                         tenmap_dtype_name((tenmap_dtype)from.value), bytes, source.len);
        else
            memory = converted(state, (tenmap_dtype)from.value, (tenmap_dtype)to.value, count.value,
                               (uint32_t)flags.value, source.buf);
    }
    PyBuffer_Release(&source);
    return (PyObject *)memory;
}

/* Findings arrive while the GIL is released. */
typedef struct checking {
    PyThreadState *thread;
    PyObject *findings;
    int failed;
} checking;

/* (severity, code, shard or None, offset, tensor or None, message, remedy) */
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
    return Py_BuildValue("IsNKNNI", finding->severity, tenmap_found_name(finding->code), shard,
                         (unsigned long long)finding->offset, tensor, message, finding->remedy);
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
    tpy_number flags = TPY_U32("flags"), limit = TPY_U64("max_header_bytes");
    tenmap_error error;
    checking job = {NULL, NULL, 0};
    if (!PyArg_ParseTuple(args, "OO&O&:check", &path_object, tpy_number_of, &flags, tpy_number_of,
                          &limit) ||
        !PyUnicode_FSConverter(path_object, &path))
        return NULL;
    options.flags = (uint32_t)flags.value;
    options.max_header_bytes = limit.value;
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
