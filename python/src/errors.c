/* Errors of the library as exceptions, and a few helpers that every type needs. */
#include "core.h"

#include <string.h>

/* tenmap._errors.make, which is imported at the first failure; a new reference. */
static PyObject *make_error_of(tpy_state *state) {
    PyObject *make, *before;
    TPY_LOCK(state->module);
    make = Py_XNewRef(state->make_error);
    TPY_UNLOCK();
    if (make != NULL)
        return make;
    PyObject *module = PyImport_ImportModule("tenmap._errors");
    make = module != NULL ? PyObject_GetAttrString(module, "make") : NULL;
    Py_XDECREF(module);
    if (make == NULL)
        return NULL;
    TPY_LOCK(state->module);
    before = state->make_error; /* another failure may have set it meanwhile */
    state->make_error = Py_NewRef(make);
    TPY_UNLOCK();
    Py_XDECREF(before);
    return make;
}

PyObject *tpy_fail(tpy_state *state, const tenmap_error *error, PyObject *path, PyObject *tensor) {
    if (PyErr_Occurred() != NULL)
        return NULL;
    PyObject *make = make_error_of(state);
    if (make == NULL)
        return NULL;
    PyObject *exception = NULL;
    PyObject *text =
        PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
    if (text != NULL)
        exception =
            PyObject_CallFunction(make, "iOiIKKOO", (int)error->status, text, (int)error->os_error,
                                  (unsigned int)error->remedy, (unsigned long long)error->offset,
                                  (unsigned long long)error->index, path != NULL ? path : Py_None,
                                  tensor != NULL ? tensor : Py_None);
    Py_XDECREF(text);
    Py_DECREF(make);
    if (exception != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

PyObject *tpy_fail_with(tpy_state *state, tenmap_status status, const char *message) {
    tenmap_error error;
    memset(&error, 0, sizeof error);
    error.status = status;
    strncpy(error.message, message, sizeof error.message - 1);
    return tpy_fail(state, &error, NULL, NULL);
}

void tpy_drop(void *object) {
    Py_XDECREF((PyObject *)object);
}

PyTypeObject *tpy_add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL)
        return NULL;
    if (PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type) != 0) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

void *tpy_new_object(PyTypeObject *type) {
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

void tpy_free_object(void *object) {
    PyTypeObject *type = Py_TYPE((PyObject *)object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

PyObject *tpy_list(size_t count, tpy_item *item, void *context) {
    /*
     * A garbage collection in between can show the list to the caller's code, so it must have no
     * empty slots.
     */
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *each = item(context, i);
        if (each == NULL || PyList_Append(list, each) != 0)
            Py_CLEAR(list);
        Py_XDECREF(each);
    }
    return list;
}

PyObject *tpy_call_method(PyObject *object, const char *method, PyObject *argument) {
    PyObject *name = PyUnicode_InternFromString(method);
    PyObject *result =
        name != NULL ? PyObject_CallMethodObjArgs(object, name, argument, NULL) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(argument);
    return result;
}
