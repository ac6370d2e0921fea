/*
 * Metadata values as Python objects: SafeTensors has only strings; GGUF also has numbers, bools and
 * lists.
 */
#include "core.h"

#include <string.h>

/* A number from the file: little-endian, of any alignment. */
static uint64_t number_of(const tenmap_value *value) {
    const unsigned char *raw = value->raw;
    uint64_t number = 0;
    for (uint64_t i = value->raw_bytes; i-- > 0;)
        number = number << 8 | raw[i];
    return number;
}

static PyObject *signed_of(const tenmap_value *value) {
    unsigned spare = 64 - 8 * (unsigned)value->raw_bytes;
    uint64_t number = number_of(value) << spare;
    int64_t shifted;
    memcpy(&shifted, &number, sizeof shifted);
    return PyLong_FromLongLong(shifted / ((int64_t)1 << spare));
}

static PyObject *float_of(const tenmap_value *value) {
    uint64_t number = number_of(value);
    uint32_t low = (uint32_t)number;
    float single;
    double real;
    memcpy(&single, &low, sizeof single);
    memcpy(&real, &number, sizeof real);
    return PyFloat_FromDouble(value->type == TENMAP_VALUE_F32 ? (double)single : real);
}

/* Strings of GGUF need not be UTF-8. Invalid bytes become lone surrogates, as in paths. */
static PyObject *text_of(const char *text, uint64_t length) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "surrogateescape");
}

static PyObject *object_of(tenmap_value *value);

/*
 * The recursion is bounded: the library refuses files whose arrays are nested more than a few
 * levels deep.
 */
static PyObject *list_of(tenmap_value *array) {
    tenmap_value element;
    PyObject *list = PyList_New(0);
    while (list != NULL && tenmap_value_next(array, &element)) {
        PyObject *item = object_of(&element);
        if (item == NULL || PyList_Append(list, item) != 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *object_of(tenmap_value *value) {
    switch (value->type) {
    case TENMAP_VALUE_STRING:
        return text_of(value->raw, value->raw_bytes);
    case TENMAP_VALUE_ARRAY:
        return list_of(value);
    case TENMAP_VALUE_BOOL:
        return PyBool_FromLong(number_of(value) != 0);
    case TENMAP_VALUE_F32:
    case TENMAP_VALUE_F64:
        return float_of(value);
    case TENMAP_VALUE_I8:
    case TENMAP_VALUE_I16:
    case TENMAP_VALUE_I32:
    case TENMAP_VALUE_I64:
        return signed_of(value);
    default:
        return PyLong_FromUnsignedLongLong(number_of(value));
    }
}

PyObject *tpy_metadata_value(const tenmap_metadata *pair) {
    tenmap_value value;
    if (pair->type == TENMAP_VALUE_STRING) /* its raw bytes may hold JSON escapes */
        return text_of(pair->value, pair->value_len);
    tenmap_metadata_value(pair, &value);
    return object_of(&value);
}
