/*
 * The base of tenmap.Tensor: a tensor of a model, or a selection of it by indexing. Nothing is read
 * here.
 */
#include "core.h"

#include <string.h>

static tpy_tensor *tensor_of(PyTypeObject *type, tpy_handle *handle, const tenmap_tensor *tensor) {
    tpy_tensor *self = tpy_new_object(type);
    if (self != NULL) {
        Py_INCREF((PyObject *)handle);
        self->handle = handle;
        self->tensor = tensor;
    }
    return self;
}

tpy_tensor *tpy_tensor_new(tpy_handle *handle, const tenmap_tensor *tensor) {
    tpy_state *state = handle->state;
    PyTypeObject *type =
        handle->tensor_class != NULL ? (PyTypeObject *)handle->tensor_class : state->tensor_type;
    return tensor_of(type, handle, tensor);
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)type, (void)args, (void)keywords;
    PyErr_SetString(PyExc_TypeError, "tensors come from a model: tenmap.open(path)[name]");
    return NULL;
}

static void tensor_dealloc(PyObject *self) {
    tpy_tensor *tensor = (tpy_tensor *)self;
    PyMem_Free(tensor->axes);
    tpy_drop(tensor->handle);
    tpy_free_object(self);
}

tpy_tensor *tpy_as_tensor(tpy_state *state, PyObject *object) {
    if (PyObject_TypeCheck(object, state->tensor_type))
        return (tpy_tensor *)object;
    PyErr_Format(PyExc_TypeError, "expected a tenmap.Tensor, not %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

PyObject *tpy_tensor_name(const tpy_tensor *self) {
    return PyUnicode_DecodeUTF8(self->tensor->name, (Py_ssize_t)self->tensor->name_len,
                                "surrogatepass");
}

/* Whether this is a block dtype of GGUF. */
static int in_blocks(tenmap_dtype dtype) {
    return tenmap_dtype_bits(dtype) == 0 && tenmap_dtype_block(dtype, NULL, NULL);
}

tenmap_dtype tpy_dtype(const tpy_tensor *self) {
    tenmap_dtype stored = self->tensor->dtype;
    return self->handle->dequantize && in_blocks(stored) ? TENMAP_F32 : stored;
}

static PyObject *tensor_name(PyObject *self, void *unused) {
    (void)unused;
    return tpy_tensor_name((tpy_tensor *)self);
}

static PyObject *tensor_dtype(PyObject *self, void *unused) {
    (void)unused;
    const tpy_tensor *tensor = (tpy_tensor *)self;
    tenmap_dtype dtype = tpy_dtype(tensor);
    const char *text = dtype != tensor->tensor->dtype ? tenmap_dtype_name(dtype)
                                                      : tenmap_dtype_text(tensor->tensor);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *tensor_code(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(tpy_dtype((tpy_tensor *)self));
}

/* The dtype that a derived model moves its elements as. */
static PyObject *tensor_stored(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(((tpy_tensor *)self)->tensor->dtype);
}

static PyObject *tensor_shape(PyObject *self, void *unused) {
    (void)unused;
    return tpy_shape_tuple((tpy_tensor *)self);
}

static PyObject *tensor_ndim(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(tpy_rank((tpy_tensor *)self));
}

static PyObject *tensor_size(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(tpy_count((tpy_tensor *)self));
}

static PyObject *tensor_nbytes(PyObject *self, void *unused) {
    (void)unused;
    tpy_tensor *tensor = (tpy_tensor *)self;
    size_t bytes;
    if (tensor->axes == NULL && tpy_dtype(tensor) == tensor->tensor->dtype)
        return PyLong_FromUnsignedLongLong(tensor->tensor->nbytes);
    if (tpy_packed_bytes(tpy_dtype(tensor), tpy_count(tensor), &bytes) != 0)
        return NULL;
    return PyLong_FromSize_t(bytes);
}

static PyObject *tensor_shard(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(((tpy_tensor *)self)->tensor->shard);
}

static PyObject *tensor_offset(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(((tpy_tensor *)self)->tensor->file_offset);
}

static PyObject *tensor_scheme(PyObject *self, void *unused) {
    (void)unused;
    const tenmap_tensor *tensor = ((tpy_tensor *)self)->tensor;
    return PyUnicode_FromString(in_blocks(tensor->dtype) ? tenmap_dtype_name(tensor->dtype)
                                                         : tenmap_scheme_of(tensor)->name);
}

static PyObject *tensor_family(PyObject *self, void *unused) {
    const tenmap_tensor *tensor = ((tpy_tensor *)self)->tensor;
    tenmap_quantized weight;
    int found;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS; /* it may read from the caller's object */
    found = tenmap_quantized_of(tensor, &weight);
    Py_END_ALLOW_THREADS;
    return found ? PyUnicode_FromString(weight.family) : Py_NewRef(Py_None);
}

static PyObject *tensor_mapped(PyObject *self, void *unused) {
    (void)unused;
    const tpy_tensor *tensor = (tpy_tensor *)self;
    return PyBool_FromLong(tpy_dtype(tensor) == tensor->tensor->dtype &&
                           tenmap_view(tensor->tensor, TENMAP_AS_STORED, NULL) != NULL);
}

static PyObject *tensor_whole(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((tpy_tensor *)self)->axes == NULL);
}

static PyObject *tensor_subscript(PyObject *self, PyObject *key) {
    tpy_tensor *tensor = (tpy_tensor *)self;
    tpy_axis *axes = tpy_select(tensor, key);
    if (axes == NULL)
        return NULL;
    tpy_tensor *chosen = tensor_of(Py_TYPE(self), tensor->handle, tensor->tensor);
    if (chosen == NULL) {
        PyMem_Free(axes);
        return NULL;
    }
    chosen->axes = axes;
    return (PyObject *)chosen;
}

static Py_ssize_t tensor_length(PyObject *self) {
    tpy_tensor *tensor = (tpy_tensor *)self;
    for (uint32_t d = 0; d < tensor->tensor->rank; d++) {
        tpy_axis axis = tpy_axis_of(tensor, d);
        if (!axis.kept)
            continue;
        if (axis.count <= (uint64_t)PY_SSIZE_T_MAX)
            return (Py_ssize_t)axis.count;
        PyErr_SetString(PyExc_OverflowError, "the first dimension is too long for len()");
        return -1;
    }
    PyErr_SetString(PyExc_TypeError, "len() of a tensor without dimensions");
    return -1;
}

/* `if tensor:` is ambiguous, so it is refused. */
static int tensor_bool(PyObject *self) {
    (void)self;
    PyErr_SetString(
        PyExc_TypeError,
        "the truth of a tensor is ambiguous: ask for its size, or read it with .numpy()");
    return -1;
}

typedef struct part_walk {
    tpy_handle *handle;
    const tenmap_tensor *tensor;
} part_walk;

/* (role, tensor) */
static PyObject *part_at(void *context, size_t i) {
    const part_walk *walk = context;
    const tenmap_tensor *found = tenmap_part_at(walk->tensor, (uint32_t)i);
    tpy_tensor *part = tpy_tensor_new(tpy_handle_of(walk->handle, found->model), found);
    if (part == NULL)
        return NULL;
    return Py_BuildValue("IN", tenmap_part_role(walk->tensor, (uint32_t)i), (PyObject *)part);
}

/* _parts() -> [(role, tensor), ...], empty unless the tensor is made of several. */
static PyObject *tensor_parts(PyObject *self, PyObject *unused) {
    part_walk walk = {((tpy_tensor *)self)->handle, ((tpy_tensor *)self)->tensor};
    uint32_t count = 0;
    (void)unused;
    while (tenmap_part_at(walk.tensor, count) != NULL)
        count++;
    return tpy_list(count, part_at, &walk);
}

static PyMethodDef tensor_methods[] = {
    {"_data", tpy_tensor_data, METH_VARARGS, NULL},
    {"_parts", tensor_parts, METH_NOARGS, NULL},
    {"_dlpack", tpy_tensor_dlpack, METH_VARARGS, NULL},
    {"_box", tpy_tensor_box, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tensor_properties[] = {
    {"name", tensor_name, NULL, "Its name.", NULL},
    {"dtype", tensor_dtype, NULL, "Its element type as files write it: \"BF16\".", NULL},
    {"shape", tensor_shape, NULL, "Its dimensions, as a tuple.", NULL},
    {"ndim", tensor_ndim, NULL, "How many dimensions it has.", NULL},
    {"size", tensor_size, NULL, "How many elements it has.", NULL},
    {"nbytes", tensor_nbytes, NULL, "Bytes of its elements, as stored.", NULL},
    {"shard", tensor_shard, NULL, "The number of the file that it lies in: model.shards[shard].",
     NULL},
    {"offset", tensor_offset, NULL, "Where the (whole) tensor begins in its file, in bytes.", NULL},
    {"scheme", tensor_scheme, NULL,
     "How its values are stored where that is in several parts (dequantize=True) or in blocks: "
     "\"fp8-block\", \"Q4_K\"; else \"none\".",
     NULL},
    {"family", tensor_family, NULL,
     "Who writes quantized weights so, if it holds the codes of one: \"GPTQ or AWQ\"; else None.",
     NULL},
    {"mapped", tensor_mapped, NULL, "Whether its bytes can be used in place, without a copy.",
     NULL},
    {"bytes", tpy_tensor_bytes, NULL,
     "Its bytes as the file has them, as a read-only memoryview: in place where the tensor is "
     "mapped.",
     NULL},
    {"buffer", tpy_tensor_buffer, NULL,
     "Its elements as a read-only memoryview with format, shape and strides, in place where the "
     "tensor is mapped. BufferError for dtypes that have no format character.",
     NULL},
    {"_code", tensor_code, NULL, NULL, NULL},
    {"_stored", tensor_stored, NULL, NULL, NULL},
    {"_whole", tensor_whole, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_doc, "The base of tenmap.Tensor."},
    {Py_tp_new, tensor_new},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_properties},
    {Py_mp_length, tensor_length},
    {Py_mp_subscript, tensor_subscript},
    {Py_nb_bool, tensor_bool},
    {0, NULL},
};

PyType_Spec tpy_tensor_spec = {"tenmap._core.Tensor", sizeof(tpy_tensor), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, tensor_slots};
