/*
 * The module tenmap._core: its types, its functions, and its state, of which each interpreter has
 * one.
 */
#include "core.h"

static PyObject *set_tensor_class(PyObject *module, PyObject *type) {
    tpy_state *state = PyModule_GetState(module);
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, state->tensor_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a subclass of _core.Tensor");
        return NULL;
    }
    PyObject *before;
    TPY_LOCK(module);
    before = state->tensor_class;
    state->tensor_class = Py_NewRef(type);
    TPY_UNLOCK();
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* dtype_code("BF16") -> its number; 0 if no dtype has that name. */
static PyObject *dtype_code(PyObject *module, PyObject *name) {
    tenmap_dtype dtype = 0;
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text == NULL)
        return NULL;
    return PyLong_FromUnsignedLong(tenmap_dtype_from_name(text, &dtype) ? dtype : 0);
}

static PyObject *dtype_name(PyObject *module, PyObject *code) {
    tpy_number dtype = TPY_U32("dtype");
    (void)module;
    if (!tpy_number_of(code, &dtype))
        return NULL;
    return PyUnicode_FromString(tenmap_dtype_name((tenmap_dtype)dtype.value));
}

static PyObject *dtype_bits(PyObject *module, PyObject *code) {
    tpy_number dtype = TPY_U32("dtype");
    (void)module;
    if (!tpy_number_of(code, &dtype))
        return NULL;
    return PyLong_FromUnsignedLong(tenmap_dtype_bits((tenmap_dtype)dtype.value));
}

/* dtype_bytes(dtype, elements) -> bytes */
static PyObject *dtype_bytes(PyObject *module, PyObject *args) {
    tpy_number dtype = TPY_U32("dtype"), elements = {"elements", UINT64_MAX, 0};
    uint64_t bytes;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&O&:dtype_bytes", tpy_number_of, &dtype, tpy_number_of,
                          &elements))
        return NULL;
    if (!tenmap_dtype_bytes((tenmap_dtype)dtype.value, elements.value, &bytes))
        return PyErr_Format(PyExc_OverflowError, "%llu elements have no size in bytes",
                            (unsigned long long)elements.value);
    return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *pack(PyObject *module, PyObject *args) {
    Py_buffer source;
    tpy_number wanted = {"bits", 6, 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "O&y*:pack", tpy_number_of, &wanted, &source))
        return NULL;
    PyObject *result = NULL;
    uint32_t bits = (uint32_t)wanted.value;
    if (bits != 4 && bits != 6)
        PyErr_SetString(PyExc_ValueError, "elements of 4 or 6 bits are packed");
    else
        result =
            PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(((uint64_t)source.len * bits + 7) / 8));
    if (result != NULL)
        tpy_pack(bits, source.buf, (uint64_t)source.len, (unsigned char *)PyBytes_AsString(result));
    PyBuffer_Release(&source);
    return result;
}

static PyMethodDef functions[] = {
    {"set_tensor_class", set_tensor_class, METH_O, NULL},
    {"dtype_code", dtype_code, METH_O, NULL},
    {"dtype_name", dtype_name, METH_O, NULL},
    {"dtype_bits", dtype_bits, METH_O, NULL},
    {"dtype_bytes", dtype_bytes, METH_VARARGS, NULL},
    {"pack", pack, METH_VARARGS, NULL},
    {"memory", tpy_new_memory, METH_VARARGS, NULL},
    {"keep_memory", tpy_keep_memory, METH_VARARGS, NULL},
    {"borrow", tpy_borrow, METH_VARARGS, NULL},
    {"assemble", tpy_assemble, METH_VARARGS, NULL},
    {"load", tpy_load, METH_VARARGS, NULL},
    {"group_load", tpy_group_load, METH_VARARGS, NULL},
    {"measure", tpy_measure, METH_VARARGS, NULL},
    {"save", tpy_save, METH_VARARGS, NULL},
    {"save_sharded", tpy_save_sharded, METH_VARARGS, NULL},
    {"rename", tpy_rename, METH_VARARGS, NULL},
    {"check", tpy_check, METH_VARARGS, NULL},
    {"http_missing", tpy_http_missing, METH_NOARGS, NULL},
    {"convert", tpy_convert, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int add_version(PyObject *module) {
    int failed = PyModule_AddStringConstant(module, "version", TENMAP_VERSION_TEXT) != 0 ||
                 PyModule_AddStringConstant(module, "cpu_path", tenmap_cpu_path()) != 0;
    return failed ? -1 : 0;
}

/* The library's numbers that the Python code of the package passes and gets, by their names. */
static const struct {
    const char *name;
    int value;
} constants[] = {
    {"CONVERT_SATURATE", TENMAP_CONVERT_SATURATE},
    {"DERIVE_CONCAT", TENMAP_DERIVE_CONCAT},
    {"DERIVE_LOW_RANK", TENMAP_DERIVE_LOW_RANK},
    {"DERIVE_RENAME", TENMAP_DERIVE_RENAME},
    {"DERIVE_STACK", TENMAP_DERIVE_STACK},
    {"DERIVE_SUM", TENMAP_DERIVE_SUM},
    {"EDIT_CLONED", TENMAP_EDIT_CLONED},
    {"EDIT_COPIED", TENMAP_EDIT_COPIED},
    {"EDIT_FOLLOW_LINKS", TENMAP_EDIT_FOLLOW_LINKS},
    {"EDIT_IN_PLACE", TENMAP_EDIT_IN_PLACE},
    {"EDIT_NO_CLONE", TENMAP_EDIT_NO_CLONE},
    {"EDIT_NO_COPY", TENMAP_EDIT_NO_COPY},
    {"EDIT_NO_IN_PLACE", TENMAP_EDIT_NO_IN_PLACE},
    {"FINDING_ERROR", TENMAP_FINDING_ERROR},
    {"FINDING_NOTE", TENMAP_FINDING_NOTE},
    {"FINDING_WARNING", TENMAP_FINDING_WARNING},
    {"LOAD_DIRECT", TENMAP_LOAD_DIRECT},
    {"LOAD_READ", TENMAP_LOAD_READ},
    {"OPEN_LENIENT", TENMAP_OPEN_LENIENT},
    {"OPEN_PARTIAL", TENMAP_OPEN_PARTIAL},
    {"SAVE_KEEP_OLD", TENMAP_SAVE_KEEP_OLD},
    {"SAVE_KEEP_ORDER", TENMAP_SAVE_KEEP_ORDER},
    {"TERM_TRANSPOSED", TENMAP_TERM_TRANSPOSED},
    {"WANT_OPTIONAL", TENMAP_WANT_OPTIONAL},
    {"WRITER_FOLLOW_LINKS", TENMAP_WRITER_FOLLOW_LINKS},
    {"WRITER_KEEP_ORDER", TENMAP_WRITER_KEEP_ORDER},
    {"VIEW", TPY_VIEW},
    {"WRITABLE", TPY_WRITABLE},
    {"COPY", TPY_COPY},
};

static int add_constants(PyObject *module) {
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) != 0)
            return -1;
    return 0;
}

static int execute(PyObject *module) {
    tpy_state *state = PyModule_GetState(module);
    state->module = module;
    state->memory_type = tpy_add_type(module, &tpy_memory_spec);
    state->handle_type = tpy_add_type(module, &tpy_handle_spec);
    state->model_type = tpy_add_type(module, &tpy_model_spec);
    state->tensor_type = tpy_add_type(module, &tpy_tensor_spec);
    state->writer_type = tpy_add_type(module, &tpy_writer_spec);
    state->exporter_type = tpy_add_type(module, &tpy_exporter_spec);
    if (state->memory_type == NULL || state->handle_type == NULL || state->model_type == NULL ||
        state->tensor_type == NULL || state->writer_type == NULL || state->exporter_type == NULL)
        return -1;
    return add_version(module) != 0 ? -1 : add_constants(module);
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    tpy_state *state = PyModule_GetState(module);
    Py_VISIT(state->memory_type);
    Py_VISIT(state->handle_type);
    Py_VISIT(state->model_type);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->writer_type);
    Py_VISIT(state->exporter_type);
    Py_VISIT(state->tensor_class);
    Py_VISIT(state->make_error);
    return 0;
}

static int clear(PyObject *module) {
    tpy_state *state = PyModule_GetState(module);
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->handle_type);
    Py_CLEAR(state->model_type);
    Py_CLEAR(state->tensor_type);
    Py_CLEAR(state->writer_type);
    Py_CLEAR(state->exporter_type);
    Py_CLEAR(state->tensor_class);
    Py_CLEAR(state->make_error);
    return 0;
}

static void free_module(void *module) {
    tpy_state *state = PyModule_GetState(module);
    clear(module);
    tpy_pool_free(state->pool);
    state->pool = NULL;
}

/*
 * Later versions of Python have slots that 3.11 refuses. They are added only if they are supported.
 */
enum { SLOT_MULTIPLE_INTERPRETERS = 3, OWN_GIL_SUPPORTED = 2 };

static PyModuleDef_Slot slots_since_312[] = {
    {Py_mod_exec, execute},
    {SLOT_MULTIPLE_INTERPRETERS, (void *)(uintptr_t)OWN_GIL_SUPPORTED},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};
static PyModuleDef_Slot slots_of_311[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "tenmap._core",
    .m_doc = "The C API of tenmap: use the package tenmap.",
    .m_size = sizeof(tpy_state),
    .m_methods = functions,
    .m_slots = slots_of_311,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void) {
    if (Py_Version >= 0x030C0000)
        definition.m_slots = slots_since_312;
    return PyModuleDef_Init(&definition);
}
