/*
 * Tensors as DLPack capsules: https://dmlc.github.io/dlpack. Consumers write to what they get, even
 * if it is marked as read-only, which only versioned capsules (1.x) can be. So they get writable
 * memory: on a copy-on-write mapping of the file, or a copy.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* The layouts that the standard fixes. */
typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
} dl_managed;

typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_COPIED = 2, DL_CPU = 1 };

/* DLDataTypeCode of dlpack.h */
enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6,
    DL_FLOAT8_E4M3FN = 10,
    DL_FLOAT8_E4M3FNUZ = 11,
    DL_FLOAT8_E5M2 = 12,
    DL_FLOAT8_E5M2FNUZ = 13,
    DL_FLOAT8_E8M0FNU = 14
};

/*
 * One allocation: the struct of either kind of capsule, what it keeps alive, and its shape and
 * strides.
 */
typedef struct exported {
    dl_managed managed;
    dl_versioned versioned;
    PyObject *memory;
    int64_t numbers[];
} exported;

static const struct {
    tenmap_dtype dtype;
    uint8_t code;
} dl_codes[] = {
    {TENMAP_I8, DL_INT},
    {TENMAP_I16, DL_INT},
    {TENMAP_I32, DL_INT},
    {TENMAP_I64, DL_INT},
    {TENMAP_U8, DL_UINT},
    {TENMAP_U16, DL_UINT},
    {TENMAP_U32, DL_UINT},
    {TENMAP_U64, DL_UINT},
    {TENMAP_F16, DL_FLOAT},
    {TENMAP_F32, DL_FLOAT},
    {TENMAP_F64, DL_FLOAT},
    {TENMAP_BF16, DL_BFLOAT},
    {TENMAP_C64, DL_COMPLEX},
    {TENMAP_BOOL, DL_BOOL},
    {TENMAP_F8_E4M3, DL_FLOAT8_E4M3FN},
    {TENMAP_F8_E4M3FNUZ, DL_FLOAT8_E4M3FNUZ},
    {TENMAP_F8_E5M2, DL_FLOAT8_E5M2},
    {TENMAP_F8_E5M2FNUZ, DL_FLOAT8_E5M2FNUZ},
    {TENMAP_F8_E8M0, DL_FLOAT8_E8M0FNU},
};

static int code_of(tenmap_dtype dtype, uint8_t *code) {
    for (size_t i = 0; i < sizeof dl_codes / sizeof dl_codes[0]; i++)
        if (dl_codes[i].dtype == dtype) {
            *code = dl_codes[i].code;
            return 0;
        }
    PyErr_Format(PyExc_BufferError,
                 "DLPack has no layout for tensors of %s: take .numpy() or .torch()",
                 tenmap_dtype_name(dtype));
    return -1;
}

/*
 * Called when the consumer is done, on any thread of the main interpreter, which is the one that
 * PyGILState knows.
 */
static void let_go(exported *item) {
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_XDECREF(item->memory);
    PyGILState_Release(gil);
    free(item);
}

static void delete_managed(dl_managed *managed) {
    let_go(managed->context);
}

static void delete_versioned(dl_versioned *versioned) {
    let_go(versioned->context);
}

/* Frees a capsule that nobody consumed, which its name shows. */
static void capsule_gone(PyObject *capsule) {
    const char *name = PyCapsule_GetName(capsule);
    if (name == NULL)
        PyErr_Clear();
    else if (strcmp(name, "dltensor") == 0)
        delete_managed(PyCapsule_GetPointer(capsule, name));
    else if (strcmp(name, "dltensor_versioned") == 0)
        delete_versioned(PyCapsule_GetPointer(capsule, name));
}

static void describe(const tpy_tensor *self, const tpy_data *data, uint8_t code, exported *item) {
    uint32_t rank = tpy_rank(self), at = 0;
    int64_t *shape = item->numbers, *strides = item->numbers + rank;
    for (uint32_t d = 0; d < self->tensor->rank; d++) {
        tpy_axis axis = tpy_axis_of(self, d);
        if (axis.kept)
            shape[at++] = (int64_t)axis.count;
    }
    tpy_strides(self, data, strides);
    dl_tensor *tensor = &item->versioned.tensor;
    tensor->data = data->memory->data + data->offset;
    tensor->device.type = DL_CPU;
    tensor->ndim = (int32_t)rank;
    tensor->dtype.code = code;
    tensor->dtype.bits = (uint8_t)tenmap_dtype_bits(tpy_dtype(self));
    tensor->dtype.lanes = 1;
    tensor->shape = shape;
    tensor->strides = strides;
    item->managed.tensor = *tensor;
    item->managed.context = item->versioned.context = item;
    item->managed.deleter = delete_managed;
    item->versioned.deleter = delete_versioned;
    item->versioned.version.major = 1;
    item->versioned.flags = data->copied ? (uint64_t)DL_COPIED : 0;
    item->memory = (PyObject *)data->memory;
}

static PyObject *capsule_of(const tpy_tensor *self, const tpy_data *data, uint8_t code,
                            int versioned) {
    uint32_t rank = tpy_rank(self);
    exported *item = calloc(1, sizeof *item + 2 * (size_t)rank * sizeof item->numbers[0]);
    if (item == NULL)
        return PyErr_NoMemory();
    describe(self, data, code, item);
    PyObject *capsule = versioned
                            ? PyCapsule_New(&item->versioned, "dltensor_versioned", capsule_gone)
                            : PyCapsule_New(&item->managed, "dltensor", capsule_gone);
    if (capsule == NULL)
        free(item);
    return capsule;
}

/* _dlpack(versioned, copy): copy is True, False or None. */
PyObject *tpy_tensor_dlpack(PyObject *object, PyObject *args) {
    tpy_tensor *self = (tpy_tensor *)object;
    int versioned;
    PyObject *copy;
    uint8_t code;
    tpy_data data;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_BufferError, "DLPack capsules may be released by threads that know "
                                           "no sub-interpreter: use a memoryview or .bytes here");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "pO:_dlpack", &versioned, &copy) ||
        code_of(tpy_dtype(self), &code) != 0)
        return NULL;
    int how = copy == Py_True ? TPY_COPY : copy == Py_False ? TPY_PRIVATE : TPY_WRITABLE;
    if (tpy_find_data(self, TENMAP_AS_STORED, how, &data) != 0)
        return NULL;
    PyObject *capsule = NULL;
    if (copy == Py_False && data.copied && tpy_count(self) > 0)
        PyErr_SetString(PyExc_BufferError,
                        "no writable memory has this tensor's elements as DLPack needs them: it "
                        "cannot be exported without a copy; .numpy() gives a read-only view");
    else
        capsule = capsule_of(self, &data, code, versioned);
    if (capsule == NULL)
        Py_DECREF((PyObject *)data.memory);
    return capsule;
}
