/*
 * A load over the ranks of a process group: mpi/'s plan, schedule and delivery, whose messages
 * tenmap/_group.py sends. group/mpi.h says how.
 *
 * The library's calls run without the GIL, and each call of MPI takes it. An exception, such as
 * Ctrl-C's, is kept until the load has ended on all ranks.
 */
#include "core.h"

#ifdef _WIN32
PyObject *tpy_group_load(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    PyErr_SetString(PyExc_NotImplementedError, "on Windows no model is loaded over a group");
    return NULL;
}
#else

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mpi.h"

/* One load of one rank. The group of the ranks on this rank's host has no messages of its own. */
struct tpy_group {
    tpy_state *state;
    PyObject *engine; /* borrowed: _group.py's Engine */
    PyObject *done;   /* its set of the requests that are done */
    PyObject *failed; /* its list of exceptions */
    PyThreadState *thread;
    PyObject *progress;      /* a callable or NULL */
    PyObject *kind, *raised; /* a kept exception, or NULL */
    int stopped, rank, size, lowest;
    struct tpy_group *hosts;
};

static _Thread_local struct tpy_group *current_group;
static _Thread_local char group_words[MPI_MAX_ERROR_STRING];

static void group_explain(char *text) {
    snprintf(text, MPI_MAX_ERROR_STRING, "%s", group_words);
}

/* Keeps the exception that is set, if it is the first, and describes it for the other ranks. */
static void group_keep(struct tpy_group *group) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    const char *words = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    snprintf(group_words, sizeof group_words, "%.500s", words != NULL ? words : "an exception");
    Py_XDECREF(text);
    PyErr_Clear();
    if (group->raised == NULL) {
        group->kind = kind;
        group->raised = value;
        if (traceback != NULL)
            PyException_SetTraceback(value, traceback);
    } else {
        Py_XDECREF(kind);
        Py_XDECREF(value);
    }
    Py_XDECREF(traceback);
}

/* A number that a method of the engine returns, with the GIL held; -1 if it raised. */
static int64_t group_number(struct tpy_group *group, PyObject *result) {
    int64_t number = result != NULL ? (int64_t)PyLong_AsLongLong(result) : -1;
    Py_XDECREF(result);
    if (PyErr_Occurred() != NULL) {
        group_keep(group);
        return -1;
    }
    return number;
}

/* Memory that a message uses. Its owner outlives every message, or is never freed. */
static PyObject *group_memory(const struct tpy_group *group, const void *data, uint64_t size) {
    tpy_memory *memory = tpy_memory_view(group->state, data, (size_t)size, NULL);
    if (memory != NULL)
        memory->readonly = 0;
    return (PyObject *)memory;
}

/* Whether the request is done: 1, 0, or -1 if it or this check failed. With the GIL held. */
static int group_is_done(struct tpy_group *group, MPI_Request request) {
    PyObject *number = PyLong_FromLongLong(request);
    int done = number != NULL ? PySet_Discard(group->done, number) : -1;
    Py_XDECREF(number);
    if (done == 0 && !group->stopped && PyErr_CheckSignals() != 0) {
        group_keep(group); /* Ctrl-C: the next report of progress cancels the load */
        group->stopped = 1;
    }
    if (done < 0) {
        group_keep(group);
    } else if (PyList_Size(group->failed) > 0) {
        PyObject *words = PySequence_GetItem(group->failed, 0);
        if (words != NULL)
            PyErr_SetObject(PyExc_ConnectionError, words);
        Py_XDECREF(words);
        group_keep(group);
        return -1;
    }
    return done;
}

static int group_pending(struct tpy_group *group, int64_t number, MPI_Request *request) {
    int done = number < 0 ? -1 : 0;
    if (request != NULL) {
        *request = number < 0 ? MPI_REQUEST_NULL : number;
        return done < 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
    }
    while (done == 0) {
        struct timespec pause = {0, 50000};
        done = group_is_done(group, number);
        PyThreadState *thread = PyEval_SaveThread();
        if (done == 0)
            nanosleep(&pause, NULL);
        PyEval_RestoreThread(thread);
    }
    return done < 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int group_start(MPI_Comm group, const char *kind, group_bytes bytes, MPI_Request *request) {
    PyEval_RestoreThread(group->thread);
    PyObject *memory = group_memory(group, bytes.data, bytes.size);
    PyObject *result = memory != NULL ? PyObject_CallMethod(group->engine, kind, "Oii", memory,
                                                            bytes.rank, bytes.tag)
                                      : NULL;
    Py_XDECREF(memory);
    int code = group_pending(group, group_number(group, result), request);
    group->thread = PyEval_SaveThread();
    return code;
}

static int group_reduce(MPI_Comm group, group_numbers numbers, MPI_Request *request) {
    uint64_t size = (uint64_t)numbers.count * (numbers.type & 15);
    if (group->hosts == NULL) { /* the ranks of this host: the least of their numbers */
        memcpy(numbers.out, &group->lowest, sizeof group->lowest);
        return MPI_SUCCESS;
    }
    memcpy(numbers.out, numbers.in, (size_t)size);
    PyEval_RestoreThread(group->thread);
    PyObject *memory = group_memory(group, numbers.out, size);
    PyObject *result = memory != NULL
                           ? PyObject_CallMethod(group->engine, "reduce", "Oii", memory,
                                                 (int)(numbers.type & 15), numbers.maximum)
                           : NULL;
    Py_XDECREF(memory);
    int code = group_pending(group, group_number(group, result), request);
    group->thread = PyEval_SaveThread();
    return code;
}

/* Each rank broadcasts its part; ranks without one do not. */
static int group_gather(MPI_Comm group, group_parts parts) {
    char *out = parts.out;
    for (int rank = 0; rank < group->size; rank++) {
        uint64_t size = parts.size, place = (uint64_t)rank * parts.size;
        if (parts.counts != NULL) {
            size = (uint64_t)parts.counts[rank] * parts.size;
            place = (uint64_t)parts.places[rank] * parts.size;
        }
        if (size == 0)
            continue;
        if (rank == group->rank)
            memcpy(out + place, parts.in, (size_t)size);
        group_bytes bytes = {out + place, size, rank, 0};
        if (group_start(group, "broadcast", bytes, NULL) != MPI_SUCCESS)
            return MPI_ERR_OTHER;
    }
    return MPI_SUCCESS;
}

static int group_test_some(int count, MPI_Request *requests, int *finished, int *which) {
    struct tpy_group *group = current_group;
    int active = 0, code = MPI_SUCCESS;
    *finished = 0;
    PyEval_RestoreThread(group->thread);
    for (int i = 0; i < count && code == MPI_SUCCESS; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        active++;
        int done = group_is_done(group, requests[i]);
        if (done > 0) {
            requests[i] = MPI_REQUEST_NULL;
            which[(*finished)++] = i;
        }
        code = done < 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
    }
    group->thread = PyEval_SaveThread();
    if (active == 0)
        *finished = MPI_UNDEFINED;
    return code;
}

static int group_test(MPI_Request *request, int *done) {
    int which, finished;
    int code = group_test_some(1, request, &finished, &which);
    *done = finished != 0;
    return code;
}

static int group_hosts(MPI_Comm group, MPI_Comm *hosts) {
    *hosts = group->hosts;
    return MPI_SUCCESS;
}

static int group_rank(MPI_Comm group) {
    return group->rank;
}

static int group_size(MPI_Comm group) {
    return group->size;
}

#include "tenmap_mpi_load.h"

static int group_report(void *context, uint64_t done, uint64_t total) {
    struct tpy_group *group = context;
    PyEval_RestoreThread(group->thread);
    int stop = group->stopped || PyErr_CheckSignals() != 0;
    if (!stop && group->progress != NULL) {
        PyObject *result = PyObject_CallFunction(group->progress, "KK", (unsigned long long)done,
                                                 (unsigned long long)total);
        stop = result == NULL;
        Py_XDECREF(result);
    }
    if (PyErr_Occurred() != NULL)
        group_keep(group);
    group->stopped |= stop;
    group->thread = PyEval_SaveThread();
    return stop;
}

/* An attribute of the engine that is a number; -1 with an exception if it is not. */
static int group_attribute(PyObject *engine, const char *name) {
    PyObject *value = PyObject_GetAttrString(engine, name);
    long number = value != NULL ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    return (int)number;
}

static PyObject *run_group(struct tpy_group *group, tpy_requests *job,
                           tenmap_mpi_options *options) {
    tenmap_mpi_counts counts;
    tenmap_error error;
    memset(&counts, 0, sizeof counts);
    memset(&error, 0, sizeof error);
    options->counts = &counts;
    options->progress = group_report;
    options->ctx = group;
    struct tpy_group *outer = current_group;
    current_group = group;
    group->thread = PyEval_SaveThread();
    tenmap_status status = tenmap_mpi_load(group, job->handle != NULL ? job->handle->model : NULL,
                                           job->requests, job->request_count, options, &error);
    PyEval_RestoreThread(group->thread);
    current_group = outer;
    if (group->raised != NULL) {
        PyErr_Restore(group->kind, group->raised, NULL);
        return NULL;
    }
    if (status != TENMAP_OK && job->handle == NULL)
        return Py_NewRef(Py_None); /* the caller raises why this rank has no model */
    if (status != TENMAP_OK)
        return tpy_requests_fail(job, &error);
    return Py_BuildValue("KKKKKK", (unsigned long long)counts.read,
                         (unsigned long long)counts.wanted, (unsigned long long)counts.sent,
                         (unsigned long long)counts.received, (unsigned long long)counts.buffers,
                         (unsigned long long)counts.plan);
}

/*
 * group_load([(tensor, dtype, destination), ...], model, engine, (threads, flags, chunk_bytes),
 * progress) -> (read, wanted, sent, received, buffers, plan). model: one of its tensors, or None if
 * this rank has failed: then all ranks fail, and the result is None.
 */
PyObject *tpy_group_load(PyObject *module, PyObject *args) {
    tpy_state *state = PyModule_GetState(module);
    PyObject *list, *any, *engine, *progress, *result = NULL;
    tpy_number threads = TPY_U32("threads"), flags = TPY_U32("flags"),
               chunk = TPY_U64("chunk_bytes");
    tenmap_mpi_options options = TENMAP_MPI_OPTIONS_INIT;
    struct tpy_group hosts = {.state = state}, group = {.state = state, .hosts = &hosts};
    tpy_requests job;
    memset(&job, 0, sizeof job);
    if (!PyArg_ParseTuple(args, "OOO(O&O&O&)O:group_load", &list, &any, &engine, tpy_number_of,
                          &threads, tpy_number_of, &flags, tpy_number_of, &chunk, &progress))
        return NULL;
    tpy_tensor *tensor = any != Py_None ? tpy_as_tensor(state, any) : NULL;
    group.engine = engine;
    group.progress = progress != Py_None ? progress : NULL;
    group.done = PyObject_GetAttrString(engine, "done");
    group.failed = group.done != NULL ? PyObject_GetAttrString(engine, "failed") : NULL;
    group.rank = group.failed != NULL ? group_attribute(engine, "rank") : -1;
    group.size = group_attribute(engine, "size");
    hosts.lowest = group_attribute(engine, "lowest");
    options.threads = (uint32_t)threads.value;
    options.flags = (uint32_t)flags.value;
    options.chunk_bytes = chunk.value;
    if (PyErr_Occurred() == NULL && (!PySet_Check(group.done) || !PyList_Check(group.failed)))
        PyErr_SetString(PyExc_TypeError, "the engine lacks its set or its list");
    if (PyErr_Occurred() == NULL && tpy_requests_begin(state, &job, list) == 0) {
        tpy_handle *found = job.handle;
        job.handle = tensor != NULL ? tensor->handle : NULL;
        if (found != NULL && found != job.handle)
            PyErr_SetString(PyExc_ValueError, "the tensors to load are of another model");
        else
            result = run_group(&group, &job, &options);
    }
    Py_XDECREF(group.done);
    Py_XDECREF(group.failed);
    tpy_requests_end(&job);
    return result;
}
#endif
