/* Tensors as buffers: tensor.buffer, for everything that reads buffers. */
#include "core.h"

#include <string.h>

/* The struct module's format character for a dtype; NULL if it has none. */
static const char *format_of(tenmap_dtype dtype) {
    switch (dtype) {
    case TENMAP_BOOL:
        return "?";
    case TENMAP_U8:
        return "B";
    case TENMAP_I8:
        return "b";
    case TENMAP_U16:
        return "H";
    case TENMAP_I16:
        return "h";
    case TENMAP_F16:
        return "e";
    case TENMAP_U32:
        return "I";
    case TENMAP_I32:
        return "i";
    case TENMAP_F32:
        return "f";
    case TENMAP_F64:
        return "d";
    case TENMAP_U64:
        return "Q";
    case TENMAP_I64:
        return "q";
    case TENMAP_C64:
        return "Zf"; /* numpy's; ctypes and memoryview show it but cannot unpack it */
    default:
        return NULL;
    }
}

static int fill_shape(const tpy_tensor *self, const tpy_data *data, Py_buffer *view, int rank) {
    Py_ssize_t *numbers = PyMem_Calloc(2 * (size_t)rank + 1, sizeof *numbers);
    int64_t *strides = PyMem_Calloc((size_t)rank + 1, sizeof *strides);
    if (numbers == NULL || strides == NULL) {
        PyMem_Free(numbers);
        PyMem_Free(strides);
        PyErr_NoMemory();
        return -1;
    }
    view->internal = numbers;
    view->shape = numbers;
    view->strides = numbers + rank;
    int at = 0;
    for (uint32_t d = 0; d < self->tensor->rank; d++) {
        tpy_axis axis = tpy_axis_of(self, d);
        if (axis.kept)
            view->shape[at++] = (Py_ssize_t)axis.count;
    }
    tpy_strides(self, data, strides);
    for (int d = 0; d < rank; d++)
        view->strides[d] = (Py_ssize_t)strides[d] * view->itemsize;
    PyMem_Free(strides);
    return 0;
}

static int refuse_buffer(Py_buffer *view, const char *message, const char *dtype) {
    view->obj = NULL;
    PyErr_Format(PyExc_BufferError, message, dtype);
    return -1;
}

/* Clears the fields that the consumer's flags did not ask for. */
static void hold_back(Py_buffer *view, int flags) {
    if ((flags & PyBUF_FORMAT) != PyBUF_FORMAT)
        view->format = NULL;
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
        view->strides = NULL;
    if ((flags & PyBUF_ND) != PyBUF_ND)
        view->shape = NULL;
}

/*
 * Whether the consumer needs contiguous elements, because it cannot follow strides or asks for that
 * order. It gets a copy then.
 */
static int wants_order(int flags) {
    return (flags & PyBUF_STRIDES) != PyBUF_STRIDES ||
           (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
           (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags) {
    tpy_tensor *self = (tpy_tensor *)object;
    const char *dtype = tenmap_dtype_text(self->tensor), *format = format_of(tpy_dtype(self));
    uint32_t rank = tpy_rank(self);
    tpy_data data;
    if (flags & PyBUF_WRITABLE)
        return refuse_buffer(
            view, "the tensor is read-only: use .numpy(writable=True) for a writable array", dtype);
    if (format == NULL)
        return refuse_buffer(
            view, "buffers have no format for %s: take .bytes, .numpy() or .torch() instead",
            dtype);
    for (uint32_t d = 0; d < self->tensor->rank; d++)
        if (tpy_axis_of(self, d).count > (uint64_t)PY_SSIZE_T_MAX)
            return refuse_buffer(view, "%s: a dimension is too long for a buffer", dtype);
    if (rank > PyBUF_MAX_NDIM || (rank > 1 && (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS))
        return refuse_buffer(view, "%s: a buffer has at most 64 dimensions, in C order", dtype);
    view->obj = NULL;
    if (tpy_find_data(self, TENMAP_AS_STORED, TPY_VIEW, &data) != 0)
        return -1;
    if (!data.contiguous && wants_order(flags)) {
        Py_DECREF((PyObject *)data.memory);
        if (tpy_find_data(self, TENMAP_AS_STORED, TPY_COPY, &data) != 0)
            return -1;
    }
    memset(view, 0, sizeof *view);
    view->buf = data.memory->data + data.offset;
    uint64_t element = 1;
    (void)tenmap_dtype_bytes(tpy_dtype(self), 1, &element);
    view->itemsize = (Py_ssize_t)element;
    view->len = (Py_ssize_t)tpy_count(self) * view->itemsize;
    view->readonly = 1;
    view->ndim = (int)rank;
    view->format = (char *)(uintptr_t)format;
    if (fill_shape(self, &data, view, (int)rank) != 0) {
        Py_DECREF((PyObject *)data.memory);
        return -1;
    }
    hold_back(view, flags);
    view->obj = (PyObject *)data.memory; /* its release frees shape and strides, then the bytes */
    return 0;
}

/*
 * Exports a tensor's elements. Tensors themselves are not buffers, because torch.asarray would read
 * such a buffer as one dimension of bytes instead of asking for DLPack.
 */
typedef struct exporter {
    PyObject_HEAD PyObject *tensor;
} exporter;

static void exporter_dealloc(PyObject *self) {
    Py_XDECREF(((exporter *)self)->tensor);
    tpy_free_object(self);
}

static int exporter_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    return get_buffer(((exporter *)self)->tensor, view, flags);
}

static PyType_Slot exporter_slots[] = {
    {Py_tp_doc, "What tensor.buffer is made of."},
    {Py_tp_dealloc, exporter_dealloc},
    {Py_bf_getbuffer, exporter_getbuffer},
    {0, NULL},
};

PyType_Spec tpy_exporter_spec = {"tenmap._core.Exporter", sizeof(exporter), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 exporter_slots};

PyObject *tpy_tensor_buffer(PyObject *self, void *unused) {
    (void)unused;
    exporter *from = tpy_new_object(((tpy_tensor *)self)->handle->state->exporter_type);
    if (from == NULL)
        return NULL;
    from->tensor = Py_NewRef(self);
    PyObject *view = PyMemoryView_FromObject((PyObject *)from);
    Py_DECREF((PyObject *)from); /* the bytes are kept by their Memory */
    return view;
}
