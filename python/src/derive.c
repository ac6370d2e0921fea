/*
 * Derived models: the description of their tensors, as the library wants it, and a Handle that
 * holds those of all models that they are computed from.
 *
 * The caller's code runs while the description is read: closing a model then only drops a
 * reference, because the Tensors in the description hold its Handle.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/*
 * A limit on how many models can be derived from one another: each holds all that it depends on.
 * The library limits how deep tensors are computed, but another name for a tensor does not count.
 */
#define HIGHEST_LEVEL 100

typedef struct deriving {
    PyObject *items; /* keeps names and tensors */
    tenmap_derived *tensors;
    size_t count;
    tpy_handle **sources; /* borrowed from the tensors, until the new handle has them */
    size_t source_count, source_capacity;
} deriving;

static void deriving_end(deriving *job) {
    for (size_t i = 0; job->tensors != NULL && i < job->count; i++) {
        tenmap_derived *t = &job->tensors[i];
        for (uint32_t k = 0; t->terms != NULL && k < t->n; k++) {
            PyMem_Free((void *)(uintptr_t)t->terms[k].shape);
            PyMem_Free((void *)(uintptr_t)t->terms[k].begin);
            PyMem_Free((void *)(uintptr_t)t->terms[k].end);
        }
        PyMem_Free((void *)(uintptr_t)t->terms);
        PyMem_Free((void *)(uintptr_t)t->order);
        PyMem_Free((void *)(uintptr_t)t->shape);
    }
    PyMem_Free(job->tensors);
    PyMem_Free(job->sources);
    Py_XDECREF(job->items);
}

/* A tuple with items that nobody can change; NULL with a TypeError if it is none. */
static PyObject *as_tuple(PyObject *object) {
    if (PyTuple_Check(object))
        return object;
    PyErr_Format(PyExc_TypeError, "expected a tuple, not %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

/* Numbers, or NULL for None; -1 with an exception if they are neither. */
static int optional_shape(PyObject *object, const uint64_t **numbers, uint32_t *rank) {
    *rank = 0;
    if (object == Py_None)
        return 0;
    *numbers = tpy_parse_shape(object, rank);
    return *numbers != NULL ? 0 : -1;
}

static uint32_t term_rank(const tenmap_term *term) {
    return term->shape != NULL ? term->rank : term->tensor != NULL ? term->tensor->rank : 0;
}

/* The axes of the operation's result, if the library accepts the terms. */
static uint32_t result_rank(const tenmap_derived *t) {
    if (t->op == TENMAP_DERIVE_LOW_RANK && t->n > 0 && t->terms[0].tensor == NULL)
        return 2;
    return (t->n > 0 ? term_rank(&t->terms[0]) : 0) + (t->op == TENMAP_DERIVE_STACK);
}

/* The library reads as many numbers as the result has axes. */
static int parse_order(PyObject *object, tenmap_derived *out) {
    uint32_t rank;
    if (object == Py_None)
        return 0;
    uint64_t *numbers = tpy_parse_shape(object, &rank);
    uint32_t *order = numbers != NULL ? PyMem_Calloc((size_t)rank + 1, sizeof *order) : NULL;
    if (numbers != NULL && order == NULL)
        PyErr_NoMemory();
    if (order != NULL && rank != result_rank(out)) {
        PyErr_Format(PyExc_ValueError, "an order of %u axes is given to %u", (unsigned)rank,
                     (unsigned)result_rank(out));
        PyMem_Free(order);
        order = NULL;
    }
    for (uint32_t i = 0; order != NULL && i < rank; i++)
        order[i] = numbers[i] < UINT32_MAX ? (uint32_t)numbers[i] : UINT32_MAX;
    PyMem_Free(numbers);
    out->order = order;
    return order != NULL ? 0 : -1;
}

/* Notes a model that the new one depends on, once. */
static int add_source(deriving *job, tpy_handle *handle) {
    for (size_t i = job->source_count; i-- > 0;) /* most terms are of a model that came last */
        if (job->sources[i] == handle)
            return 0;
    if (job->source_count == job->source_capacity) {
        size_t capacity = 2 * job->source_capacity + 8;
        tpy_handle **grown = PyMem_Realloc(job->sources, capacity * sizeof(tpy_handle *));
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        job->sources = grown;
        job->source_capacity = capacity;
    }
    job->sources[job->source_count++] = handle;
    return 0;
}

/* (tensor or None, factor, shape, begin, end, flags) */
static int parse_term(tpy_state *state, deriving *job, PyObject *item, tenmap_term *term) {
    PyObject *object, *shape, *begin, *end;
    tpy_number flags = TPY_U32("flags");
    uint32_t begins, ends;
    if (as_tuple(item) == NULL || !PyArg_ParseTuple(item, "OdOOOO&", &object, &term->factor, &shape,
                                                    &begin, &end, tpy_number_of, &flags))
        return -1;
    tpy_tensor *tensor = object != Py_None ? tpy_as_tensor(state, object) : NULL;
    if (object != Py_None && (tensor == NULL || add_source(job, tensor->handle) != 0))
        return -1;
    term->tensor = tensor != NULL ? tensor->tensor : NULL;
    term->flags = (uint32_t)flags.value;
    if (optional_shape(shape, &term->shape, &term->rank) != 0 ||
        optional_shape(begin, &term->begin, &begins) != 0 ||
        optional_shape(end, &term->end, &ends) != 0)
        return -1;
    if ((term->begin != NULL && begins != term_rank(term)) ||
        (term->end != NULL && ends != term_rank(term))) {
        PyErr_SetString(PyExc_ValueError, "a block has a begin and an end for every axis");
        return -1;
    }
    return 0;
}

static int parse_terms(tpy_state *state, deriving *job, PyObject *tuple, tenmap_derived *out) {
    if (as_tuple(tuple) == NULL)
        return -1;
    Py_ssize_t count = PyTuple_Size(tuple);
    tenmap_term *terms =
        count <= UINT32_MAX ? PyMem_Calloc((size_t)count + 1, sizeof *terms) : NULL;
    if (terms == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    out->terms = terms;
    out->n = (uint32_t)count;
    for (uint32_t k = 0; k < out->n; k++)
        if (parse_term(state, job, PyTuple_GetItem(tuple, (Py_ssize_t)k), &terms[k]) != 0)
            return -1;
    return 0;
}

static int parse_name(PyObject *name, tenmap_derived *out) {
    Py_ssize_t length;
    out->name = tpy_text(name, "the name of a tensor", &length);
    if (out->name == NULL)
        return -1;
    if (strlen(out->name) == (size_t)length)
        return 0;
    PyErr_Format(PyExc_ValueError, "the name of a tensor has a null character in it: %R", name);
    return -1;
}

/* (name, dtype, op, axis, terms, order, shape) */
static int parse_tensor(tpy_state *state, deriving *job, PyObject *item, tenmap_derived *out) {
    PyObject *name, *terms, *order, *shape;
    tpy_number dtype = TPY_U32("dtype"), op = TPY_U32("op"), axis = TPY_U32("axis");
    if (as_tuple(item) == NULL ||
        !PyArg_ParseTuple(item, "OO&O&O&OOO", &name, tpy_number_of, &dtype, tpy_number_of, &op,
                          tpy_number_of, &axis, &terms, &order, &shape) ||
        parse_name(name, out) != 0)
        return -1;
    out->dtype = (tenmap_dtype)dtype.value;
    out->op = (uint32_t)op.value;
    out->axis = (uint32_t)axis.value;
    return parse_terms(state, job, terms, out) != 0 || parse_order(order, out) != 0 ||
                   optional_shape(shape, &out->shape, &out->rank) != 0
               ? -1
               : 0;
}

static int deriving_begin(tpy_state *state, deriving *job, PyObject *list) {
    job->items = tpy_items(list);
    if (job->items == NULL)
        return -1;
    size_t count = (size_t)PyTuple_Size(job->items);
    job->tensors = PyMem_Calloc(count + 1, sizeof *job->tensors);
    if (job->tensors == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (job->count = 0; job->count < count;) {
        size_t i = job->count++; /* counted now, so that it is released on failure */
        if (parse_tensor(state, job, PyTuple_GetItem(job->items, (Py_ssize_t)i),
                         &job->tensors[i]) != 0)
            return -1;
    }
    /* The models that these depend on, too: the list grows meanwhile. */
    for (size_t i = 0; i < job->source_count; i++)
        for (size_t k = 0; k < job->sources[i]->source_count; k++)
            if (add_source(job, job->sources[i]->sources[k]) != 0)
                return -1;
    return 0;
}

static int compare_levels(const void *a, const void *b) {
    const tpy_handle *x = *(tpy_handle *const *)a, *y = *(tpy_handle *const *)b;
    return x->level > y->level ? -1 : x->level < y->level;
}

/* Gives the sources to the handle, each with a reference; -1 with an exception. */
static int hold_sources(deriving *job, tpy_handle *handle) {
    for (size_t i = 0; i < job->source_count; i++) {
        const tpy_handle *source = job->sources[i];
        handle->dequantize |= source->dequantize;
        handle->level = source->level >= handle->level ? source->level + 1 : handle->level;
    }
    if (handle->level > HIGHEST_LEVEL) {
        PyErr_Format(PyExc_ValueError,
                     "these models are derived from one another, %u deep: at most %d are allowed",
                     handle->level, HIGHEST_LEVEL);
        return -1;
    }
    if (job->source_count > 0)
        qsort(job->sources, job->source_count, sizeof(tpy_handle *), compare_levels);
    for (size_t i = 0; i < job->source_count; i++)
        Py_INCREF((PyObject *)job->sources[i]);
    handle->sources = job->sources;
    handle->source_count = job->source_count;
    job->sources = NULL;
    return 0;
}

static int run_deriving(deriving *job, tpy_handle *handle) {
    tenmap_error error;
    tenmap_status status;
    memset(&error, 0, sizeof error);
    error.index = UINT64_MAX;
    Py_BEGIN_ALLOW_THREADS;
    status = tenmap_derive(job->tensors, job->count, NULL, &handle->model, &error);
    Py_END_ALLOW_THREADS;
    if (status == TENMAP_OK)
        return 0;
    PyObject *name = NULL;
    if (error.index < job->count)
        name = PyUnicode_FromString(job->tensors[error.index].name);
    tpy_fail(handle->state, &error, NULL, name);
    Py_XDECREF(name);
    return -1;
}

tpy_handle *tpy_derive(tpy_state *state, PyObject *list) {
    deriving job;
    memset(&job, 0, sizeof job);
    tpy_handle *handle = NULL;
    if (deriving_begin(state, &job, list) == 0)
        handle = tpy_new_object(state->handle_type);
    if (handle != NULL) {
        handle->state = state;
        handle->module = Py_NewRef(state->module);
        TPY_LOCK(state->module);
        handle->tensor_class = Py_XNewRef(state->tensor_class);
        TPY_UNLOCK();
        if (hold_sources(&job, handle) != 0 || run_deriving(&job, handle) != 0)
            Py_CLEAR(handle);
    }
    deriving_end(&job);
    return handle;
}
