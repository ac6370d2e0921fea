/*
 * The copy-on-write mapping of each file of a model, which writable views share: a process may have
 * some 65,000 mappings, and models have as many tensors.
 *
 * Still, every view has its own bytes. This file notes which bytes it gave to views, and makes a
 * new mapping when some of them are asked for again. The old one lives as long as its views. The
 * handle locks all of this.
 */
#include "core.h"

#include <stdlib.h>

#ifndef _WIN32
#include <sys/stat.h>
#endif

/* Below this size a copy is cheaper than a new mapping, which costs some microseconds. */
#define MAP_FROM ((uint64_t)128 << 10)

/*
 * Of tensors that share bytes, as those of PyTorch files may: in the mapping of this number, the
 * bytes before the offset `until` in the file are taken.
 */
typedef struct taken_bytes {
    uint64_t mapping, until;
} taken_bytes;

/* Of a file: its latest mapping, and how many there have been. */
typedef struct shared_file {
    tpy_memory *memory;
    uint64_t mapping;
} shared_file;

struct tpy_private {
    shared_file *files;
    size_t *groups;     /* by tensor: the first one that it shares bytes with, or itself */
    taken_bytes *taken; /* by group */
    size_t file_count;
};

void tpy_private_free(tpy_private *self) {
    if (self == NULL)
        return;
    for (size_t i = 0; self->files != NULL && i < self->file_count; i++)
        tpy_drop(self->files[i].memory);
    PyMem_Free(self->files);
    PyMem_Free(self->groups);
    PyMem_Free(self->taken);
    PyMem_Free(self);
}

static int compare_places(const void *a, const void *b) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)a;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x->file_offset < y->file_offset ? -1 : x->file_offset > y->file_offset;
}

/*
 * In the order of their bytes, tensors that share some follow each other. Only those of derived
 * models may be in another order, and only those with bytes in place count. -1 without memory.
 */
static int find_groups(const tenmap_model *model, size_t *groups) {
    size_t count = tenmap_count(model), placed = 0;
    const tenmap_tensor *first = tenmap_at(model, 0);
    const tenmap_tensor **tensors = PyMem_Calloc(count + 1, sizeof(const tenmap_tensor *));
    int ordered = 1;
    if (tensors == NULL)
        return -1;
    for (size_t i = 0; i < count; i++) {
        groups[i] = i;
        if (first[i].data == NULL)
            continue;
        tensors[placed++] = &first[i];
        ordered = ordered &&
                  (placed == 1 || compare_places(&tensors[placed - 2], &tensors[placed - 1]) <= 0);
    }
    if (!ordered)
        qsort(tensors, placed, sizeof(const tenmap_tensor *), compare_places);
    uint64_t end = 0;
    for (size_t i = 0; i < placed; i++) {
        const tenmap_tensor *t = tensors[i];
        int alone = i == 0 || t->shard != tensors[i - 1]->shard || t->file_offset >= end;
        uint64_t own_end = t->file_offset + t->nbytes;
        if (!alone)
            groups[t - first] = groups[tensors[i - 1] - first];
        end = alone || own_end > end ? own_end : end;
    }
    PyMem_Free(tensors);
    return 0;
}

/* The handle's own, with the handle locked; NULL with a MemoryError on failure. */
static tpy_private *private_of(tpy_handle *handle) {
    if (handle->shared != NULL)
        return handle->shared;
    tpy_private *made = PyMem_Calloc(1, sizeof *made);
    if (made != NULL) {
        made->file_count = tenmap_shard_count(handle->model);
        made->files = PyMem_Calloc(made->file_count + 1, sizeof *made->files);
        made->groups = PyMem_Calloc(tenmap_count(handle->model) + 1, sizeof *made->groups);
        made->taken = PyMem_Calloc(tenmap_count(handle->model) + 1, sizeof *made->taken);
    }
    if (made == NULL || made->files == NULL || made->groups == NULL || made->taken == NULL ||
        find_groups(handle->model, made->groups) != 0) {
        tpy_private_free(made);
        PyErr_NoMemory();
        return NULL;
    }
    handle->shared = made;
    return made;
}

/* The number of a tensor in its model; -1 if it is not one of the model's list. */
static Py_ssize_t number_of(const tenmap_tensor *tensor) {
    uintptr_t first = (uintptr_t)tenmap_at(tensor->model, 0), own = (uintptr_t)tensor;
    size_t number = (own - first) / sizeof *tensor;
    return first != 0 && own >= first && tenmap_at(tensor->model, number) == tensor
               ? (Py_ssize_t)number
               : -1;
}

#ifndef _WIN32
/* 0, or -1 with an OSError if the file no longer has the bytes before `end`. */
static int check_size(int fd, uint64_t end) {
    struct stat now;
    if (fstat(fd, &now) != 0 || (uint64_t)now.st_size >= end)
        return 0;
    PyErr_Format(PyExc_OSError,
                 "the file has shrunk to %lld bytes since it was opened: open it again",
                 (long long)now.st_size);
    return -1;
}
#else
static int check_size(int fd, uint64_t end) {
    (void)fd, (void)end;
    return 0;
}
#endif

/*
 * Gives a file a new mapping; 0 if it has one now. The caller drops *before when it has
 * noted which bytes it takes: unmapping lets other threads run, which may ask for the same bytes.
 */
static int map_again(tpy_handle *handle, const tenmap_shard *shard, shared_file *file,
                     tpy_memory **before) {
    tpy_memory *made =
        tpy_memory_private(handle->state, shard->fd, shard->offset, (size_t)shard->size);
    if (made == NULL)
        return -1;
    *before = file->memory;
    file->memory = made;
    file->mapping++;
    return 0;
}

/* Bytes [begin, begin + size) of the file of a tensor, which has this number in its model. */
typedef struct wanted_bytes {
    const tenmap_tensor *tensor;
    size_t number;
    uint64_t begin, size;
    int may_copy;
} wanted_bytes;

/*
 * A new reference to a mapping on which nobody else has these bytes, which are taken then. The
 * caller drops *before. NULL as tpy_private_view.
 */
static PyObject *take_bytes(tpy_handle *handle, const wanted_bytes *wanted, tpy_memory **before) {
    const tenmap_tensor *tensor = wanted->tensor;
    tpy_private *shared = private_of(handle);
    if (shared == NULL)
        return NULL;
    shared_file *file = &shared->files[tensor->shard];
    taken_bytes *taken = &shared->taken[shared->groups[wanted->number]];
    int again =
        file->memory != NULL && taken->mapping == file->mapping && wanted->begin < taken->until;
    if (again && wanted->may_copy && wanted->size < MAP_FROM)
        return NULL;
    if ((again || file->memory == NULL) &&
        map_again(handle, tenmap_shard_at(tensor->model, tensor->shard), file, before) != 0)
        return NULL;
    taken->mapping = file->mapping;
    taken->until = wanted->begin + wanted->size;
    return Py_NewRef((PyObject *)file->memory); /* others may map again meanwhile */
}

tpy_memory *tpy_private_view(const tpy_tensor *self, uint64_t low, uint64_t bytes, int may_copy) {
    tpy_handle *handle = self->handle;
    const tenmap_tensor *tensor = self->tensor;
    const tenmap_shard *shard = tenmap_shard_at(tensor->model, tensor->shard);
    Py_ssize_t number = number_of(tensor);
    uint64_t begin = tensor->file_offset + low;
    wanted_bytes wanted = {tensor, (size_t)number, begin, bytes, may_copy};
    tpy_memory *before = NULL;
    PyObject *mapping;
    if (tensor->model != handle->model || shard->fd < 0 || number < 0 ||
        check_size(shard->fd, begin + bytes) != 0)
        return NULL;
    TPY_LOCK(handle);
    mapping = take_bytes(handle, &wanted, &before);
    TPY_UNLOCK();
    tpy_drop(before);
    if (mapping == NULL)
        return NULL;
    const char *data = ((tpy_memory *)mapping)->data + (begin - shard->offset);
    tpy_memory *view = tpy_memory_view(handle->state, data, (size_t)bytes, mapping);
    Py_DECREF(mapping);
    if (view != NULL)
        view->readonly = 0;
    return view;
}
