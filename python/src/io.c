/*
 * A Python file object as a tenmap_io: seek and read under a lock, from any thread, with the GIL.
 *
 * An exception of the file is kept under a number. The number is in the message that the library
 * passes through, and whoever gets that message raises the exception itself.
 */
#include "core.h"

#include <stdio.h>
#include <string.h>

struct tpy_io {
    tenmap_io functions;
    PyInterpreterState *interpreter;
    PyObject *file;
    PyObject *lock;                /* threading.Lock: makes seek and read one step */
    PyObject *exceptions;          /* number to exception, the latest ones */
    unsigned long long own_number; /* of this file object */
    _Atomic unsigned long long last_number;
    _Atomic unsigned long reader; /* the thread that holds the lock; 0: none */
};

/*
 * If many threads of a call fail at once, the library reports one of them; this limits how many of
 * the exceptions that nobody asks for are kept.
 */
#define KEPT_EXCEPTIONS 1024

#define RAISED "the file object raised an exception, number "

/*
 * In the main interpreter PyGILState handles this thread. In a sub-interpreter a temporary thread
 * state is created, because PyGILState would use the main interpreter's.
 */
tpy_gil tpy_gil_take(PyInterpreterState *interpreter) {
    tpy_gil gil = {PyGILState_LOCKED, NULL};
    if (PyInterpreterState_GetID(interpreter) == 0) {
        gil.main_state = PyGILState_Ensure();
    } else {
        gil.own = PyThreadState_New(interpreter);
        PyEval_RestoreThread(gil.own);
    }
    return gil;
}

void tpy_gil_give(tpy_gil gil) {
    if (gil.own == NULL) {
        PyGILState_Release(gil.main_state);
        return;
    }
    PyThreadState_Clear(gil.own);
    PyEval_SaveThread();
    PyThreadState_Delete(gil.own);
}

static void forget_exception(tpy_io *io, unsigned long long number) {
    PyObject *key = PyLong_FromUnsignedLongLong(number);
    if (key == NULL || PyDict_DelItem(io->exceptions, key) != 0)
        PyErr_Clear();
    Py_XDECREF(key);
}

/* Keeps the current exception, and writes the message that leads to it. */
static tenmap_status keep_exception(tpy_io *io, tenmap_error *error) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    unsigned long long last = ++io->last_number; /* finalizers below may read and fail, too */
    PyObject *number = PyLong_FromUnsignedLongLong(last);
    if (number == NULL || PyDict_SetItem(io->exceptions, number, value) != 0)
        PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    if (last > KEPT_EXCEPTIONS)
        forget_exception(io, last - KEPT_EXCEPTIONS);
    error->status = TENMAP_ERR_IO;
    snprintf(error->message, sizeof error->message, RAISED "%llu of object %llu", last,
             io->own_number);
    return TENMAP_ERR_IO;
}

int tpy_io_raise(tpy_io *io, const char *message) {
    unsigned long long number, object;
    if (io == NULL || strncmp(message, RAISED, sizeof RAISED - 1) != 0 ||
        sscanf(message + sizeof RAISED - 1, "%llu of object %llu", &number, &object) != 2 ||
        object != io->own_number)
        return 0;
    PyObject *key = PyLong_FromUnsignedLongLong(number);
    if (key == NULL)
        return 1;
    PyObject *pop = PyUnicode_InternFromString("pop");
    PyObject *exception =
        pop != NULL ? PyObject_CallMethodObjArgs(io->exceptions, pop, key, Py_None, NULL) : NULL;
    Py_XDECREF(pop);
    Py_DECREF(key);
    int found = exception != Py_None;
    if (found && exception != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    return found;
}

/* Sets *size to the length of the file; -1 with an exception on failure. */
static int file_size(tpy_io *io, uint64_t *size) {
    PyObject *end = PyObject_CallMethod(io->file, "seek", "ii", 0, SEEK_END);
    if (end == NULL)
        return -1;
    Py_DECREF(end);
    end = tpy_call_method(io->file, "tell", NULL);
    if (end == NULL)
        return -1;
    *size = PyLong_AsUnsignedLongLong(end);
    Py_DECREF(end);
    return PyErr_Occurred() != NULL ? -1 : 0;
}

static tenmap_status file_open(void *ctx, const char *path, void **file, uint64_t *size,
                               tenmap_error *error) {
    tpy_io *io = ctx;
    if (strcmp(path, TPY_FILE_OBJECT) != 0) { /* a shard or config.json: there is no folder */
        error->status = TENMAP_ERR_NOT_FOUND;
        snprintf(error->message, sizeof error->message,
                 "\"%.200s\" would lie beside the file object, which has no folder: open a path",
                 path);
        return TENMAP_ERR_NOT_FOUND;
    }
    tpy_gil gil = tpy_gil_take(io->interpreter);
    tenmap_status status = file_size(io, size) == 0 ? TENMAP_OK : keep_exception(io, error);
    *file = io;
    tpy_gil_give(gil);
    return status;
}

/* One read() of the file into dst: the number of bytes, or -1 with an exception. */
static Py_ssize_t read_some(tpy_io *io, char *dst, size_t bytes) {
    PyObject *count = PyLong_FromSize_t(bytes);
    PyObject *got = count != NULL ? tpy_call_method(io->file, "read", count) : NULL;
    if (got == NULL)
        return -1;
    Py_buffer view;
    if (PyObject_GetBuffer(got, &view, PyBUF_SIMPLE) != 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "read() of the file object did not return bytes: open the "
                                      "file in binary mode (\"rb\")");
        Py_DECREF(got);
        return -1;
    }
    Py_ssize_t length = view.len;
    if ((size_t)length > bytes) {
        PyErr_Format(PyExc_ValueError, "read(%zu) of the file object returned %zd bytes", bytes,
                     length);
        length = -1;
    } else if (length > 0) {
        memcpy(dst, view.buf, (size_t)length);
    }
    PyBuffer_Release(&view);
    Py_DECREF(got);
    return length;
}

static int read_all(tpy_io *io, uint64_t offset, char *dst, size_t bytes) {
    PyObject *where = PyLong_FromUnsignedLongLong(offset);
    PyObject *place = where != NULL ? tpy_call_method(io->file, "seek", where) : NULL;
    if (place == NULL)
        return -1;
    Py_DECREF(place);
    while (bytes > 0) {
        size_t part = bytes < (1u << 30) ? bytes : 1u << 30;
        Py_ssize_t got = read_some(io, dst, part);
        if (got < 0)
            return -1;
        if (got == 0) {
            PyErr_Format(PyExc_EOFError, "the file object ended %zu bytes early", bytes);
            return -1;
        }
        dst += got;
        bytes -= (size_t)got;
    }
    return 0;
}

int tpy_io_enter(const tpy_io *io) {
    if (io == NULL || io->reader != PyThread_get_thread_ident())
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the read() of the file object uses the model that is "
                                        "being read from it, which it must not do");
    return -1;
}

static int lock_file(tpy_io *io) {
    if (tpy_io_enter(io) != 0)
        return -1;
    PyObject *locked = tpy_call_method(io->lock, "acquire", NULL);
    Py_XDECREF(locked);
    if (locked != NULL)
        io->reader = PyThread_get_thread_ident();
    return locked != NULL ? 0 : -1;
}

static void unlock_file(tpy_io *io) {
    io->reader = 0;
    PyObject *released = tpy_call_method(io->lock, "release", NULL);
    if (released == NULL)
        PyErr_Clear();
    Py_XDECREF(released);
}

static tenmap_status file_read(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                               tenmap_error *error) {
    tpy_io *io = ctx;
    (void)file;
    tenmap_status status = TENMAP_OK;
    tpy_gil gil = tpy_gil_take(io->interpreter);
    if (lock_file(io) != 0) {
        status = keep_exception(io, error);
    } else {
        if (read_all(io, offset, dst, bytes) != 0)
            status = keep_exception(io, error);
        unlock_file(io);
    }
    tpy_gil_give(gil);
    return status;
}

/* tenmap_close calls this without the GIL; tpy_io_free drops the references. */
static void file_close(void *ctx, void *file) {
    (void)ctx;
    (void)file;
}

tpy_io *tpy_io_new(tpy_state *state, PyObject *file) {
    tpy_io *io = PyMem_Calloc(1, sizeof *io);
    if (io == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    PyObject *threading = PyImport_ImportModule("_thread");
    io->lock = threading != NULL ? PyObject_CallMethod(threading, "allocate_lock", NULL) : NULL;
    Py_XDECREF(threading);
    io->exceptions = PyDict_New();
    io->file = Py_NewRef(file);
    io->own_number = ++state->file_objects;
    io->interpreter = PyInterpreterState_Get();
    if (io->lock == NULL || io->exceptions == NULL) {
        tpy_io_free(io);
        return NULL;
    }
    io->functions = (tenmap_io)TENMAP_IO_INIT;
    io->functions.open = file_open;
    io->functions.read = file_read;
    io->functions.close = file_close;
    io->functions.ctx = io;
    return io;
}

const tenmap_io *tpy_io_functions(tpy_io *io) {
    return &io->functions;
}

void tpy_io_free(tpy_io *io) {
    if (io == NULL)
        return;
    Py_XDECREF(io->lock);
    Py_XDECREF(io->exceptions);
    Py_XDECREF(io->file);
    PyMem_Free(io);
}
