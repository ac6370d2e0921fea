/* Addresses (https://, http://, hf://, s3://), opened by libtenmap-http. */
#include "core.h"

#ifdef TENMAP_PYTHON_HTTP
#include <stdlib.h>
#include <string.h>
#include <tenmap_http.h>

typedef struct address_io {
    tenmap_io io; /* first: what callers have a pointer to */
    PyInterpreterState *interpreter;
} address_io;

/* Ctrl-C ends a call. Its exception stays with the calling thread, which raises it. */
static int stop(void *context) {
    tpy_gil gil = tpy_gil_take(((address_io *)context)->interpreter);
    int stopped = PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0;
    tpy_gil_give(gil);
    return stopped;
}

int tpy_http_takes(const char *path) {
    return tenmap_http_takes(path);
}

tenmap_io *tpy_http_new(tpy_state *state) {
    tenmap_http_options options = TENMAP_HTTP_OPTIONS_INIT;
    tenmap_error error;
    address_io *made = calloc(1, sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    made->interpreter = PyInterpreterState_Get();
    options.stop = stop;
    options.ctx = made;
    if (tenmap_http_create(&options, &made->io, &error) != TENMAP_OK) {
        free(made);
        tpy_fail(state, &error, NULL, NULL);
        return NULL;
    }
    return &made->io;
}

void tpy_http_free(tenmap_io *io) {
    if (io == NULL)
        return;
    Py_BEGIN_ALLOW_THREADS; /* connections end, whose threads may be about to ask stop() */
    tenmap_http_destroy(io);
    Py_END_ALLOW_THREADS;
    free(io);
}

PyObject *tpy_http_missing(PyObject *module, PyObject *unused) {
    tenmap_error error;
    (void)module, (void)unused;
    if (tenmap_http_curl_version(&error) != NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(error.message, (Py_ssize_t)strlen(error.message), "replace");
}
#else
int tpy_http_takes(const char *path) {
    (void)path;
    return 0;
}

tenmap_io *tpy_http_new(tpy_state *state) {
    (void)state;
    return NULL;
}

void tpy_http_free(tenmap_io *io) {
    (void)io;
}

PyObject *tpy_http_missing(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyUnicode_FromString("this build of the package opens no addresses itself");
}
#endif
