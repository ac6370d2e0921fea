/*
 * Parses arguments: integers, lists, dicts, strings, shapes, paths.
 *
 * The caller's code runs here (__index__, __iter__, __fspath__), and again whenever the GIL is
 * released. So whatever is used later is copied, or referenced by us, from the moment when it is
 * first read.
 */
#include "core.h"

#include <string.h>

static int refuse_number(const tpy_number *number, long long value, int beyond) {
    unsigned long long most = number->most;
    if (beyond != 0)
        PyErr_Format(PyExc_OverflowError, "%s must be an integer from 0 to %llu, not %s one",
                     number->name, most, beyond < 0 ? "a smaller" : "a larger");
    else
        PyErr_Format(PyExc_OverflowError, "%s must be an integer from 0 to %llu, not %lld",
                     number->name, most, value);
    return 0;
}

int tpy_number_of(PyObject *object, void *context) {
    tpy_number *number = context;
    if (!PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be an integer, not %R", number->name,
                     (PyObject *)Py_TYPE(object));
        return 0;
    }
    PyObject *integer = PyNumber_Index(object);
    if (integer == NULL)
        return 0;
    int beyond = 0;
    long long small = PyLong_AsLongLongAndOverflow(integer, &beyond);
    number->value = beyond > 0 ? PyLong_AsUnsignedLongLong(integer) : (uint64_t)small;
    Py_DECREF(integer);
    if (beyond > 0 && PyErr_Occurred() != NULL) {
        PyErr_Clear();
        return refuse_number(number, 0, beyond);
    }
    if (beyond < 0 || (beyond == 0 && small < 0) || number->value > number->most)
        return refuse_number(number, small, beyond);
    return 1;
}

PyObject *tpy_items(PyObject *list) {
    if (PyList_Check(list))
        return PyList_AsTuple(list);
    PyErr_Format(PyExc_TypeError, "expected a list, not %R", (PyObject *)Py_TYPE(list));
    return NULL;
}

PyObject *tpy_pairs(PyObject *dict) {
    if (dict == Py_None)
        return PyDict_New();
    if (PyDict_Check(dict))
        return PyDict_Copy(dict);
    PyErr_Format(PyExc_TypeError, "metadata must be a dict of strings, not %R",
                 (PyObject *)Py_TYPE(dict));
    return NULL;
}

const char *tpy_text(PyObject *object, const char *what, Py_ssize_t *length) {
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str, not %R", what,
                     (PyObject *)Py_TYPE(object));
        return NULL;
    }
    return PyUnicode_AsUTF8AndSize(object, length);
}

uint64_t *tpy_parse_shape(PyObject *shape, uint32_t *rank) {
    PyObject *tuple = PySequence_Tuple(shape);
    if (tuple == NULL)
        return NULL;
    Py_ssize_t n = PyTuple_Size(tuple);
    uint64_t *numbers = n <= UINT32_MAX ? PyMem_Calloc((size_t)n + 1, sizeof *numbers) : NULL;
    if (numbers == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; numbers != NULL && i < n; i++) {
        tpy_number extent = TPY_U64("a dimension of a shape");
        if (tpy_number_of(PyTuple_GetItem(tuple, i), &extent)) {
            numbers[i] = extent.value;
        } else {
            PyMem_Free(numbers);
            numbers = NULL;
        }
    }
    Py_DECREF(tuple);
    *rank = (uint32_t)n;
    return numbers;
}
