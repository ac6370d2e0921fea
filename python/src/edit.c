/* Changes metadata and tensor names of an existing file in one step. */
#include "core.h"

tenmap_edit *tpy_edits(PyObject *dict, size_t *count) {
    PyObject *key, *value;
    Py_ssize_t position = 0, length;
    size_t n = (size_t)PyDict_Size(dict);
    tenmap_edit *edits = PyMem_Calloc(n + 1, sizeof *edits);
    *count = 0;
    if (edits == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    while (*count < n && PyDict_Next(dict, &position, &key, &value)) {
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

/* {old: new} as renamings, which borrow from the dict; NULL with an exception on failure. */
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

/* Changes names and metadata of a file in one step, both from our own dicts -> how */
static PyObject *edit_file(PyObject *path, PyObject *names_dict, PyObject *edits_dict,
                           uint32_t flags, tpy_state *state, PyObject *shown) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    tenmap_error error;
    tenmap_status status = TENMAP_OK;
    uint32_t how = 0;
    size_t name_count = 0, edit_count = 0;
    tenmap_renaming *names = names_of(names_dict, &name_count);
    tenmap_edit *edits = names != NULL ? tpy_edits(edits_dict, &edit_count) : NULL;
    int readable = edits != NULL;
    options.flags = flags;
    if (readable) {
        const char *text = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS;
        status = tenmap_rename(text, names, name_count, edits, edit_count, &options, &how, &error);
        Py_END_ALLOW_THREADS;
    }
    PyMem_Free(names);
    PyMem_Free(edits);
    if (status != TENMAP_OK)
        return tpy_fail(state, &error, shown, NULL);
    return readable ? PyLong_FromUnsignedLong(how) : NULL;
}

/* rename(path, {old: new} or None, {key: value or None} or None, flags) -> how */
PyObject *tpy_rename(PyObject *module, PyObject *args) {
    PyObject *path_object, *names, *edits, *path, *how = NULL;
    tpy_number flags = TPY_U32("flags");
    if (!PyArg_ParseTuple(args, "OOOO&:rename", &path_object, &names, &edits, tpy_number_of,
                          &flags) ||
        !PyUnicode_FSConverter(path_object, &path))
        return NULL;
    names = tpy_pairs(names);
    edits = names != NULL ? tpy_pairs(edits) : NULL;
    if (edits != NULL)
        how = edit_file(path, names, edits, (uint32_t)flags.value, PyModule_GetState(module),
                        path_object);
    Py_XDECREF(names);
    Py_XDECREF(edits);
    Py_DECREF(path);
    return how;
}
