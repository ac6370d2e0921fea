/*
 * Where the values of a tensor are: in the file's mapping if they can be used there, in a
 * copy-on-write mapping of the same bytes if they must be writable, else in new memory.
 */
#include "core.h"

#include <string.h>

void tpy_strides(const tpy_tensor *self, const tpy_data *data, int64_t *strides) {
    uint32_t rank = self->tensor->rank, at = tpy_rank(self);
    int64_t stride = tpy_count(self) > 0 ? 1 : 0; /* without elements, extents may be huge */
    for (uint32_t d = rank; d-- > 0;) {
        tpy_axis axis = tpy_axis_of(self, d);
        if (axis.kept)
            strides[--at] = data->contiguous ? stride : stride * axis.step;
        stride *= (int64_t)(data->contiguous ? axis.count : self->tensor->shape[d]);
    }
}

/* Whether the selected elements are contiguous and in order. */
static int is_contiguous(const tpy_tensor *self) {
    int inner_whole = 1;
    for (uint32_t d = self->tensor->rank; self->axes != NULL && d-- > 0;) {
        tpy_axis axis = self->axes[d];
        if (axis.step != 1 || (axis.count != 1 && !inner_whole))
            return 0;
        inner_whole = inner_whole && axis.count == self->tensor->shape[d];
    }
    return 1;
}

/* The lowest selected element, and the bytes from it to the end of the highest. */
static void span_of(const tpy_tensor *self, uint64_t element, uint64_t *first, uint64_t *low,
                    uint64_t *bytes) {
    uint64_t stride = element, lowest = 0, highest = 0;
    *first = 0;
    for (uint32_t d = self->tensor->rank; d-- > 0;) {
        tpy_axis axis = tpy_axis_of(self, d);
        uint64_t last = axis.start + (uint64_t)((int64_t)(axis.count - 1) * axis.step);
        *first += axis.start * stride;
        lowest += (axis.start < last ? axis.start : last) * stride;
        highest += (axis.start < last ? last : axis.start) * stride;
        stride *= self->tensor->shape[d];
    }
    *low = lowest;
    *bytes = highest - lowest + element;
}

/* 1 if `out` now uses the mapping or a private one, 0 if it has to be a copy, -1 on failure. */
static int find_in_place(const tpy_tensor *self, int how, tpy_data *out) {
    const tenmap_tensor *tensor = self->tensor;
    const char *data = tenmap_view(tensor, TENMAP_AS_STORED, NULL);
    if (data == NULL || how == TPY_COPY)
        return 0;
    uint64_t first, low, bytes, element = 1;
    (void)tenmap_dtype_bytes(tensor->dtype, 1, &element);
    span_of(self, element, &first, &low, &bytes);
    if (how == TPY_VIEW) {
        out->memory = tpy_memory_view(self->handle->state, data + low, (size_t)bytes,
                                      (PyObject *)self->handle);
    } else {
        out->memory = tpy_private_view(self, low, bytes, how == TPY_WRITABLE);
        if (out->memory == NULL && PyErr_Occurred() == NULL)
            return 0;
    }
    out->offset = (size_t)(first - low);
    out->contiguous = is_contiguous(self);
    return out->memory != NULL ? 1 : -1;
}

int tpy_find_data(const tpy_tensor *self, tenmap_dtype as, int how, tpy_data *out) {
    tpy_state *state = self->handle->state;
    tenmap_dtype dtype = as == TENMAP_AS_STORED ? tpy_dtype(self) : as;
    uint32_t bits = tenmap_dtype_bits(dtype);
    uint64_t count = tpy_count(self);
    size_t bytes;
    memset(out, 0, sizeof *out);
    /* Elements of 4 and 6 bits take a byte each here. */
    if (tpy_packed_bytes(bits > 0 && bits < 8 ? TENMAP_U8 : dtype, count, &bytes) != 0)
        return -1;
    if (count > 0 && dtype == self->tensor->dtype && bits >= 8) {
        int found = find_in_place(self, how, out);
        if (found != 0)
            return found < 0 ? -1 : 0;
    }
    out->contiguous = 1;
    out->copied = 1;
    out->memory = tpy_memory_new(state, bytes);
    if (out->memory == NULL)
        return -1;
    if (tpy_read(self, dtype, out->memory->data, bytes) != 0) {
        Py_DECREF((PyObject *)out->memory);
        out->memory = NULL;
        return -1;
    }
    out->memory->readonly = how == TPY_VIEW;
    return 0;
}

/* The strides as a tuple, or None if the elements are contiguous. */
static PyObject *strides_tuple(const tpy_tensor *self, const tpy_data *data) {
    uint32_t rank = tpy_rank(self);
    if (data->contiguous)
        return Py_NewRef(Py_None);
    int64_t *strides = PyMem_Calloc((size_t)rank + 1, sizeof *strides);
    if (strides == NULL)
        return PyErr_NoMemory();
    tpy_strides(self, data, strides);
    PyObject *tuple = PyTuple_New((Py_ssize_t)rank);
    for (uint32_t d = 0; tuple != NULL && d < rank; d++)
        PyTuple_SetItem(tuple, (Py_ssize_t)d, PyLong_FromLongLong(strides[d]));
    PyMem_Free(strides);
    return tuple;
}

/* _data(dtype, how) -> (Memory, offset in bytes, strides in elements or None) */
PyObject *tpy_tensor_data(PyObject *object, PyObject *args) {
    tpy_tensor *self = (tpy_tensor *)object;
    tpy_number as = TPY_U32("dtype"), how = {"how", TPY_COPY, 0};
    tpy_data data;
    if (!PyArg_ParseTuple(args, "O&O&:_data", tpy_number_of, &as, tpy_number_of, &how) ||
        tpy_find_data(self, (tenmap_dtype)as.value, (int)how.value, &data) != 0)
        return NULL;
    PyObject *strides = strides_tuple(self, &data);
    if (strides == NULL) {
        Py_DECREF((PyObject *)data.memory);
        return NULL;
    }
    return Py_BuildValue("NnN", (PyObject *)data.memory, (Py_ssize_t)data.offset, strides);
}

/* All bytes of the tensor as the file has them, for any dtype. */
static PyObject *whole_bytes(tpy_tensor *self) {
    const tenmap_tensor *tensor = self->tensor;
    tpy_state *state = self->handle->state;
    if (tensor->data != NULL)
        return (PyObject *)tpy_memory_view(state, tensor->data, (size_t)tensor->nbytes,
                                           (PyObject *)self->handle);
    tenmap_error error;
    tenmap_status status;
    tpy_memory *memory =
        tpy_handle_enter(self->handle) == 0 ? tpy_memory_new(state, (size_t)tensor->nbytes) : NULL;
    if (memory == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_read_bytes(tensor, 0, (size_t)tensor->nbytes, memory->data, &error);
    Py_END_ALLOW_THREADS;
    if (status == TENMAP_OK) {
        memory->readonly = 1;
        return (PyObject *)memory;
    }
    PyObject *name = tpy_tensor_name(self);
    Py_DECREF((PyObject *)memory);
    tpy_handle_fail(self->handle, &error, name);
    Py_XDECREF(name);
    return NULL;
}

/* The selected elements as a file would hold them: contiguous, packed. */
static PyObject *chosen_bytes(tpy_tensor *self) {
    uint32_t bits = tenmap_dtype_bits(tpy_dtype(self));
    tpy_data data;
    size_t bytes;
    if (tpy_packed_bytes(tpy_dtype(self), tpy_count(self), &bytes) != 0)
        return NULL;
    int how = is_contiguous(self) ? TPY_VIEW : TPY_COPY;
    if (tpy_find_data(self, TENMAP_AS_STORED, how, &data) != 0)
        return NULL;
    data.memory->readonly = 1;
    if (bits >= 8)
        return (PyObject *)data.memory;
    tpy_memory *packed = tpy_memory_new(self->handle->state, bytes);
    if (packed != NULL) {
        tpy_pack(bits, (unsigned char *)data.memory->data, tpy_count(self),
                 (unsigned char *)packed->data);
        packed->readonly = 1;
    }
    Py_DECREF((PyObject *)data.memory);
    return (PyObject *)packed;
}

/* A dequantized weight has no bytes of its own in the file: its values are read instead. */
PyObject *tpy_tensor_bytes(PyObject *object, void *unused) {
    tpy_tensor *self = (tpy_tensor *)object;
    (void)unused;
    int whole = self->axes == NULL && !(self->tensor->flags & TENMAP_TENSOR_COMPUTED) &&
                tpy_dtype(self) == self->tensor->dtype;
    PyObject *memory = whole ? whole_bytes(self) : chosen_bytes(self);
    PyObject *view = memory != NULL ? PyMemoryView_FromObject(memory) : NULL;
    Py_XDECREF(memory);
    return view;
}
