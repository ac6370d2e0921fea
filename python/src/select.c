/*
 * numpy's basic indexing, and reading what it selects.
 *
 * Each dimension of the stored tensor has its own start, step and count, so an index of an index is
 * again one selection, and nothing is read until values are needed.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

tpy_axis tpy_axis_of(const tpy_tensor *self, uint32_t dimension) {
    if (self->axes != NULL)
        return self->axes[dimension];
    tpy_axis whole = {0, 1, self->tensor->shape[dimension], 1};
    return whole;
}

uint64_t *tpy_box(const tpy_tensor *self) {
    uint32_t rank = self->tensor->rank;
    for (uint32_t d = 0; self->axes != NULL && d < rank; d++)
        if (self->axes[d].step != 1)
            return NULL;
    if (self->axes == NULL)
        return NULL;
    uint64_t *box = PyMem_Calloc(2 * (size_t)rank + 1, sizeof *box);
    if (box == NULL)
        PyErr_NoMemory();
    for (uint32_t d = 0; box != NULL && d < rank; d++) {
        box[d] = self->axes[d].start;
        box[rank + d] = self->axes[d].start + self->axes[d].count;
    }
    return box;
}

static PyObject *number_at(void *context, size_t i) {
    return PyLong_FromUnsignedLongLong(((const uint64_t *)context)[i]);
}

/* _box() -> (begin, end) in the whole tensor, as lists; None if the selection has steps. */
PyObject *tpy_tensor_box(PyObject *object, PyObject *unused) {
    const tpy_tensor *self = (tpy_tensor *)object;
    (void)unused;
    uint64_t *box = tpy_box(self);
    if (box == NULL && (self->axes != NULL || PyErr_Occurred() != NULL))
        return PyErr_Occurred() != NULL ? NULL : Py_NewRef(Py_None);
    size_t rank = self->tensor->rank;
    uint64_t *none = box == NULL ? PyMem_Calloc(rank + 1, sizeof *none) : NULL;
    PyObject *begin = NULL, *end = NULL;
    if (box != NULL || none != NULL) {
        begin = tpy_list(rank, number_at, box != NULL ? box : none);
        end = tpy_list(rank, number_at,
                       box != NULL ? box + rank : (void *)(uintptr_t)self->tensor->shape);
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(box);
    PyMem_Free(none);
    if (begin == NULL || end == NULL) {
        Py_XDECREF(begin);
        Py_XDECREF(end);
        return NULL;
    }
    return Py_BuildValue("NN", begin, end);
}

uint64_t tpy_count(const tpy_tensor *self) {
    if (self->axes == NULL)
        return self->tensor->nelems;
    uint64_t count = 1;
    for (uint32_t d = 0; d < self->tensor->rank; d++)
        if (self->axes[d].count == 0)
            return 0;
    for (uint32_t d = 0; d < self->tensor->rank; d++)
        count *= self->axes[d].count; /* at most nelems, which fits */
    return count;
}

uint32_t tpy_rank(const tpy_tensor *self) {
    uint32_t rank = 0;
    for (uint32_t d = 0; d < self->tensor->rank; d++)
        rank += tpy_axis_of(self, d).kept ? 1u : 0u;
    return rank;
}

PyObject *tpy_shape_tuple(const tpy_tensor *self) {
    PyObject *shape = PyTuple_New((Py_ssize_t)tpy_rank(self));
    Py_ssize_t at = 0;
    for (uint32_t d = 0; shape != NULL && d < self->tensor->rank; d++) {
        tpy_axis axis = tpy_axis_of(self, d);
        if (!axis.kept)
            continue;
        PyObject *count = PyLong_FromUnsignedLongLong(axis.count);
        if (count == NULL || PyTuple_SetItem(shape, at++, count) != 0) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

int tpy_packed_bytes(tenmap_dtype dtype, uint64_t count, size_t *bytes) {
    uint64_t size;
    if (tenmap_dtype_bits(dtype) == 0) {
        uint32_t together;
        if (tenmap_dtype_block(dtype, &together, NULL))
            PyErr_Format(PyExc_TypeError,
                         "elements of %s lie in blocks of %u: ask for another dtype, as in "
                         ".numpy(dtype=\"float32\"), or for .bytes of all of them",
                         tenmap_dtype_name(dtype), (unsigned)together);
        else
            PyErr_SetString(PyExc_TypeError, "elements of an unknown dtype have no size: only "
                                             ".bytes of all of them can be read");
        return -1;
    }
    if (!tenmap_dtype_bytes(dtype, count, &size) || size > (uint64_t)PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more bytes than this system can address");
        return -1;
    }
    *bytes = (size_t)size;
    return 0;
}

static int refuse(PyObject *index) {
    if (index == Py_None)
        PyErr_SetString(PyExc_TypeError, "None (a new axis) cannot index a tensor in a file: use "
                                         ".numpy() or .torch() first, then add the axis");
    else
        PyErr_Format(PyExc_TypeError,
                     "tensors are indexed by integers, slices and ..., not by %R: take .numpy() or "
                     ".torch() first",
                     (PyObject *)Py_TYPE(index));
    return -1;
}

/* Applies an integer index; -1 with an IndexError if it is out of range. */
static int choose_integer(tpy_axis *axis, PyObject *index, Py_ssize_t position) {
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred() != NULL)
        return PyErr_ExceptionMatches(PyExc_TypeError) ? (PyErr_Clear(), refuse(index)) : -1;
    uint64_t from_front = i < 0 ? axis->count - (uint64_t) - (i + 1) - 1 : (uint64_t)i;
    if (i < 0 ? (uint64_t) - (i + 1) >= axis->count : from_front >= axis->count) {
        PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for axis %zd with size %llu", i,
                     position, (unsigned long long)axis->count);
        return -1;
    }
    axis->start += (uint64_t)((int64_t)from_front * axis->step);
    axis->step = 1;
    axis->count = 1;
    axis->kept = 0;
    return 0;
}

static int choose_slice(tpy_axis *axis, PyObject *slice) {
    Py_ssize_t start, stop, step;
    if (axis->count > (uint64_t)PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a dimension is too long to be sliced");
        return -1;
    }
    if (PySlice_Unpack(slice, &start, &stop, &step) != 0)
        return -1;
    Py_ssize_t count = PySlice_AdjustIndices((Py_ssize_t)axis->count, &start, &stop, step);
    if (count <= 0) {
        axis->start = 0;
        axis->count = 0;
        axis->step = 1;
        return 0;
    }
    axis->start += (uint64_t)((int64_t)start * axis->step);
    /* A step past the end selects one element, and must not overflow. */
    axis->step = count == 1 ? 1 : (int64_t)step * axis->step;
    axis->count = (uint64_t)count;
    return 0;
}

static int choose(tpy_axis *axis, PyObject *index, Py_ssize_t position) {
    if (PySlice_Check(index))
        return choose_slice(axis, index);
    if (!PyBool_Check(index) && PyIndex_Check(index))
        return choose_integer(axis, index, position);
    return refuse(index);
}

/*
 * Applies the indexes one after the other, each to the next kept dimension; `...` stands for those
 * in between.
 */
static int choose_all(const tpy_tensor *self, tpy_axis *axes, PyObject *key, Py_ssize_t rank) {
    Py_ssize_t given = PyTuple_Size(key), ellipses = 0, position = 0;
    for (Py_ssize_t i = 0; i < given; i++)
        ellipses += PyTuple_GetItem(key, i) == Py_Ellipsis;
    for (Py_ssize_t i = 0; i < given; i++)
        if (PyTuple_GetItem(key, i) == Py_None)
            return refuse(Py_None);
    if (ellipses > 1) {
        PyErr_SetString(PyExc_IndexError, "an index can only have a single ellipsis ('...')");
        return -1;
    }
    if (given - ellipses > rank) {
        PyErr_Format(PyExc_IndexError,
                     "too many indices: the tensor has %zd dimensions, but %zd were indexed", rank,
                     given - ellipses);
        return -1;
    }
    uint32_t d = 0;
    for (Py_ssize_t i = 0; i < given; i++) {
        PyObject *index = PyTuple_GetItem(key, i);
        Py_ssize_t skip = index == Py_Ellipsis ? rank - (given - 1) : 0;
        if (index != Py_Ellipsis)
            skip = 1;
        for (; skip > 0; d++) {
            if (d >= self->tensor->rank)
                return 0;
            if (!tpy_axis_of(self, d).kept)
                continue;
            skip--;
            if (index != Py_Ellipsis && choose(&axes[d], index, position) != 0)
                return -1;
            position++;
        }
    }
    return 0;
}

tpy_axis *tpy_select(const tpy_tensor *self, PyObject *key) {
    uint32_t rank = self->tensor->rank;
    tpy_axis *axes = PyMem_Calloc((size_t)rank + 1, sizeof *axes);
    PyObject *tuple = PyTuple_Check(key) ? Py_NewRef(key) : PyTuple_Pack(1, key);
    if (axes == NULL || tuple == NULL) {
        PyMem_Free(axes);
        Py_XDECREF(tuple);
        if (PyErr_Occurred() == NULL)
            PyErr_NoMemory();
        return NULL;
    }
    for (uint32_t d = 0; d < rank; d++)
        axes[d] = tpy_axis_of(self, d);
    int failed = choose_all(self, axes, tuple, (Py_ssize_t)tpy_rank(self));
    Py_DECREF(tuple);
    if (failed) {
        PyMem_Free(axes);
        return NULL;
    }
    return axes;
}

/* Unpacks elements of 4 or 6 bits to a byte each. */
static void spread(uint32_t bits, const unsigned char *src, uint64_t count, unsigned char *dst) {
    unsigned mask = (1u << bits) - 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = i * bits;
        unsigned low = (unsigned)src[bit / 8] >> (bit % 8);
        unsigned high = bit % 8 + bits > 8 ? (unsigned)src[bit / 8 + 1] << (8 - bit % 8) : 0;
        dst[i] = (unsigned char)((low | high) & mask);
    }
}

void tpy_pack(uint32_t bits, const unsigned char *src, uint64_t count, unsigned char *dst) {
    memset(dst, 0, (size_t)((count * bits + 7) / 8));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = i * bits;
        unsigned value = (unsigned)(src[i] & ((1u << bits) - 1)) << (bit % 8);
        dst[bit / 8] = (unsigned char)(dst[bit / 8] | (value & 255));
        if (bit % 8 + bits > 8)
            dst[bit / 8 + 1] = (unsigned char)(dst[bit / 8 + 1] | (value >> 8));
    }
}

/*
 * Reads one selection: walks over the outer dimensions and reads a block of the inner ones at each
 * step.
 */
typedef struct reading {
    const tpy_tensor *self;
    tenmap_dtype as;
    uint32_t bits;          /* of an element of `as` */
    size_t element;         /* bytes in dst; 1 for 4 and 6 bits */
    uint32_t walked;        /* dimensions that are walked one index at a time */
    uint64_t *begin, *end;  /* of the block to read */
    uint64_t block, keep;   /* its elements, and how many of them are selected */
    int thinned;            /* the last dimension has a step: it is read whole, then thinned out */
    unsigned char *dst;     /* advances */
    unsigned char *scratch; /* a block before it is unpacked or thinned out, or NULL */
    unsigned char *spread_to; /* an unpacked block that is still to be thinned out, or NULL */
    tenmap_error *error;
} reading;

static uint64_t length_of(int64_t step) {
    return (uint64_t)(step < 0 ? -step : step);
}

static void thin(const reading *r, const unsigned char *from) {
    tpy_axis last = r->self->axes[r->self->tensor->rank - 1];
    uint64_t step = length_of(last.step);
    for (uint64_t i = 0; i < r->keep; i++) {
        uint64_t place = (last.step < 0 ? r->keep - 1 - i : i) * step;
        memcpy(r->dst + i * r->element, from + place * r->element, r->element);
    }
}

static tenmap_status read_block(reading *r) {
    unsigned char *into = r->scratch != NULL ? r->scratch : r->dst;
    size_t bytes = (size_t)((r->block * r->bits + 7) / 8);
    tenmap_status status =
        tenmap_read_slice(r->self->tensor, r->begin, r->end, r->as, into, bytes, 0, r->error);
    if (status != TENMAP_OK)
        return status;
    if (r->bits < 8) {
        unsigned char *target = r->spread_to != NULL ? r->spread_to : r->dst;
        spread(r->bits, into, r->block, target);
        into = target;
    }
    if (r->thinned)
        thin(r, into);
    r->dst += r->keep * r->element;
    return TENMAP_OK;
}

static tenmap_status walk(reading *r, uint32_t d) {
    if (d == r->walked)
        return read_block(r);
    tpy_axis axis = r->self->axes[d];
    for (uint64_t i = 0; i < axis.count; i++) {
        r->begin[d] = axis.start + (uint64_t)((int64_t)i * axis.step);
        r->end[d] = r->begin[d] + 1;
        tenmap_status status = walk(r, d + 1);
        if (status != TENMAP_OK)
            return status;
    }
    return TENMAP_OK;
}

/*
 * The walk covers the dimensions up to the last one that has a step. The innermost dimension is not
 * walked if its step is short: it is cheaper to read the elements in between.
 */
#define LONG_STEP 1024

static uint32_t walked_dimensions(const tpy_tensor *self) {
    uint32_t walked = 0, rank = self->tensor->rank;
    for (uint32_t d = 0; self->axes != NULL && d < rank; d++) {
        int64_t step = self->axes[d].step;
        if (step != 1)
            walked = d + 1 == rank && length_of(step) < LONG_STEP ? d : d + 1;
    }
    return walked;
}

static void plan(reading *r) {
    uint32_t rank = r->self->tensor->rank;
    r->walked = walked_dimensions(r->self);
    r->block = r->keep = 1;
    for (uint32_t d = 0; d < rank; d++) {
        tpy_axis axis = tpy_axis_of(r->self, d);
        uint64_t span = (axis.count - 1) * length_of(axis.step) + 1;
        r->begin[d] = axis.step < 0 ? axis.start - (span - 1) : axis.start;
        r->end[d] = r->begin[d] + span;
        if (d >= r->walked) {
            r->block *= span;
            r->keep *= axis.count;
            r->thinned |= axis.step != 1;
        }
    }
}

/* Reads large blocks on several threads; Ctrl-C stops them. */
static tenmap_status load_whole(reading *r, size_t bytes, tpy_progress *progress) {
    tenmap_request request;
    memset(&request, 0, sizeof request);
    request.tensor = r->self->tensor;
    request.begin = r->begin;
    request.end = r->end;
    request.as = r->as;
    request.dst = r->dst;
    request.dst_bytes = bytes;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.progress = tpy_report;
    options.ctx = progress;
    return tenmap_load(r->self->tensor->model, &request, 1, &options, r->error);
}

#define LOAD_FROM ((size_t)4 << 20)

/* Runs without the GIL, except for checking Ctrl-C. */
static tenmap_status carry_out(reading *r, size_t dst_bytes) {
    tpy_progress progress = {NULL, NULL, 0};
    progress.thread = PyEval_SaveThread();
    tenmap_status status = r->walked == 0 && r->scratch == NULL && dst_bytes >= LOAD_FROM
                               ? load_whole(r, dst_bytes, &progress)
                               : walk(r, 0);
    PyEval_RestoreThread(progress.thread);
    return progress.raised && status == TENMAP_OK ? TENMAP_ERR_CANCELLED : status;
}

static int get_scratch(reading *r) {
    size_t bytes = (size_t)((r->block * r->bits + 7) / 8);
    if (r->thinned || r->bits < 8)
        r->scratch = malloc(bytes + 1);
    if (r->thinned && r->bits < 8)
        r->spread_to = malloc((size_t)r->block);
    int missing = (r->scratch == NULL && (r->thinned || r->bits < 8)) ||
                  (r->spread_to == NULL && r->thinned && r->bits < 8);
    if (missing)
        PyErr_NoMemory();
    return missing ? -1 : 0;
}

/* A limit on the recursion, whose depth is the rank, which the file chooses. */
#define DEEPEST 64

int tpy_read(const tpy_tensor *self, tenmap_dtype as, void *dst, size_t dst_bytes) {
    uint32_t rank = self->tensor->rank;
    tenmap_error error;
    memset(&error, 0, sizeof error);
    reading r = {.self = self, .as = as, .dst = dst, .error = &error};
    r.bits = tenmap_dtype_bits(as == TENMAP_AS_STORED ? tpy_dtype(self) : as);
    r.element = r.bits < 8 ? 1 : r.bits / 8;
    if (tpy_count(self) == 0)
        return 0;
    if (tpy_handle_enter(self->handle) != 0)
        return -1;
    if (walked_dimensions(self) > DEEPEST) {
        PyErr_Format(PyExc_ValueError,
                     "a tensor of more than %d dimensions cannot be sliced with steps", DEEPEST);
        return -1;
    }
    r.begin = PyMem_Calloc(2 * (size_t)rank + 1, sizeof *r.begin);
    if (r.begin == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    r.end = r.begin + rank;
    plan(&r);
    tenmap_status status = get_scratch(&r) == 0 ? carry_out(&r, dst_bytes) : TENMAP_ERR_MEMORY;
    free(r.scratch);
    free(r.spread_to);
    PyMem_Free(r.begin);
    if (status == TENMAP_OK)
        return 0;
    PyObject *name = PyErr_Occurred() == NULL ? tpy_tensor_name(self) : NULL;
    tpy_handle_fail(self->handle, &error, name);
    Py_XDECREF(name);
    return -1;
}
