/*
 * Memory: bytes with an owner, as a buffer of bytes. numpy arrays and torch tensors are built on
 * it: views of a model's mapping (read-only), copy-on-write mappings, and our own memory.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#endif

enum { KIND_VIEW, KIND_HEAP, KIND_PAGES, KIND_MAPPING, KIND_ARENA };

/* From this size on, tenmap_alloc's huge pages make the first use cheaper than malloc's. */
#define PAGES_FROM ((size_t)1 << 20)

static tpy_memory *new_memory(tpy_state *state, int kind, void *data, size_t size) {
    if (size > (size_t)PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more bytes than this system can address");
        return NULL;
    }
    tpy_memory *memory = tpy_new_object(state->memory_type);
    if (memory == NULL)
        return NULL;
    memory->kind = kind;
    memory->data = data;
    memory->base = data;
    memory->size = size;
    memory->base_size = size;
    return memory;
}

#ifdef __linux__
#define HUGE_PAGE ((size_t)2 << 20)
/* About the time to fill 2 MiB of small pages; a huge page normally takes a tenth of it. */
#define DEAR_NANOSECONDS 1000000
#define SMALL_PAGES_FOR ((size_t)1 << 30)

/* The time that the first touch of a byte takes, in CPU time of this thread. */
static int64_t touch(volatile char *byte) {
    struct timespec begin, end;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin) != 0)
        return 0;
    *byte = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (end.tv_sec - begin.tv_sec) * INT64_C(1000000000) + (end.tv_nsec - begin.tv_nsec);
}

/*
 * A virtual machine that lends its free memory to its host lends it in whole huge pages, and gets
 * it back 4 KiB at a time. There a huge page takes 5 ms to clear instead of 0.2, while smaller
 * pieces of free memory, which were never lent, are as cheap as ever. So the first huge page of an
 * allocation is timed. If it was expensive, small pages are used for a while, as malloc does.
 */
static void choose_pages(tpy_state *state, char *data, size_t size) {
    if (size < HUGE_PAGE)
        return;
    /* Threads that do this at once may lose one of their sizes, which does not matter. */
    size_t left = atomic_load_explicit(&state->small_pages, memory_order_relaxed);
    if (left > 0) {
        left -= size < left ? size : left;
        atomic_store_explicit(&state->small_pages, left, memory_order_relaxed);
        (void)madvise(data, size, MADV_NOHUGEPAGE);
    } else if (touch(data) > DEAR_NANOSECONDS) {
        atomic_store_explicit(&state->small_pages, SMALL_PAGES_FOR, memory_order_relaxed);
        (void)madvise(data + HUGE_PAGE, size - HUGE_PAGE, MADV_NOHUGEPAGE);
    }
}
#else
static void choose_pages(tpy_state *state, char *data, size_t size) {
    (void)state, (void)data, (void)size;
}
#endif

tpy_memory *tpy_memory_new(tpy_state *state, size_t size) {
    int kind = size >= PAGES_FROM ? KIND_PAGES : KIND_HEAP;
    size_t base_size = size;
    void *data = kind == KIND_PAGES ? tpy_pool_take(state, size, &base_size) : NULL;
    int is_fresh = data == NULL;
    if (is_fresh)
        data = kind == KIND_PAGES ? tenmap_alloc(size) : malloc(size > 0 ? size : 1);
    if (data == NULL) {
        PyErr_Format(PyExc_MemoryError, "no memory for %zu bytes", size);
        return NULL;
    }
    if (kind == KIND_PAGES && is_fresh)
        choose_pages(state, data, size);
    tpy_memory *memory = new_memory(state, kind, data, size);
    if (memory != NULL) {
        memory->base_size = base_size;
    } else {
        if (kind == KIND_PAGES)
            tenmap_free(data);
        else
            free(data);
    }
    return memory;
}

tpy_memory *tpy_memory_view(tpy_state *state, const void *data, size_t size, PyObject *owner) {
    tpy_memory *memory = new_memory(state, KIND_VIEW, (void *)(uintptr_t)data, size);
    if (memory != NULL) {
        memory->readonly = 1;
        memory->owner = Py_XNewRef(owner);
    }
    return memory;
}

tpy_memory *tpy_memory_private(tpy_state *state, int fd, uint64_t offset, size_t size) {
#ifdef _WIN32
    (void)state, (void)fd, (void)offset, (void)size;
    return NULL;
#else
    struct stat now;
    long page = sysconf(_SC_PAGESIZE);
    size_t before = (size_t)(offset % (uint64_t)page);
    if (fd < 0 || size == 0 || size > (size_t)PY_SSIZE_T_MAX - before || fstat(fd, &now) != 0)
        return NULL;
    if ((uint64_t)now.st_size < offset + size) {
        PyErr_Format(PyExc_OSError,
                     "the file has shrunk to %lld bytes since it was opened: open it again",
                     (long long)now.st_size);
        return NULL;
    }
    char *base = mmap(NULL, before + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd,
                      (off_t)(offset - before));
    if (base == MAP_FAILED)
        return NULL;
    tpy_memory *memory = new_memory(state, KIND_MAPPING, base, before + size);
    if (memory == NULL) {
        munmap(base, before + size);
        return NULL;
    }
    memory->data = base + before;
    memory->size = size;
    return memory;
#endif
}

tpy_memory *tpy_memory_arena(tpy_state *state, tenmap_arena *arena) {
    tpy_memory *memory = new_memory(state, KIND_ARENA, NULL, 0);
    if (memory == NULL)
        tenmap_arena_free(arena);
    else
        memory->base = arena;
    return memory;
}

static void give_back(tpy_memory *memory) {
    switch (memory->kind) {
    case KIND_HEAP:
        free(memory->base);
        break;
    case KIND_PAGES:
        tenmap_free(memory->base);
        break;
    case KIND_ARENA:
        tenmap_arena_free(memory->base);
        break;
#ifndef _WIN32
    case KIND_MAPPING:
        munmap(memory->base, memory->base_size);
        break;
#endif
    default:
        break;
    }
}

/* Whether the pool keeps this memory. At the interpreter's end, the module may be gone. */
static int is_kept(const tpy_memory *memory) {
    PyObject *type, *value, *traceback;
    if (memory->kind != KIND_PAGES)
        return 0;
    PyErr_Fetch(&type, &value, &traceback);
    tpy_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)(uintptr_t)memory));
    PyErr_Restore(type, value, traceback); /* also instead of an exception of that call */
    return state != NULL && tpy_pool_give(state, memory->base, memory->base_size);
}

/*
 * Returning the pages of a whole model to the system takes a while, so other threads may run
 * meanwhile.
 */
static void memory_dealloc(PyObject *self) {
    tpy_memory *memory = (tpy_memory *)self;
    if (memory->kind == KIND_VIEW || memory->kind == KIND_HEAP) {
        give_back(memory);
    } else if (!is_kept(memory)) {
        Py_BEGIN_ALLOW_THREADS;
        give_back(memory);
        Py_END_ALLOW_THREADS;
    }
    Py_XDECREF(memory->owner);
    tpy_free_object(self);
}

/* Calls a method of the owner that returns an address or a size. */
static int ask(PyObject *owner, const char *method, uint64_t *value) {
    tpy_number number = TPY_U64(method);
    PyObject *answer = tpy_call_method(owner, method, NULL);
    int known = answer != NULL && tpy_number_of(answer, &number);
    Py_XDECREF(answer);
    *value = number.value;
    return known ? 0 : -1;
}

/*
 * A torch storage cannot be locked: resizing it frees its memory, no matter who has the address. So
 * it is asked for its address whenever its bytes are about to be used. 0, or -1 with a BufferError
 * if they have moved.
 */
static int check_lent(const tpy_memory *memory) {
    uint64_t begin, bytes, data = (uint64_t)(uintptr_t)memory->data;
    if (!memory->lent || memory->size == 0)
        return 0;
    if (ask(memory->owner, "data_ptr", &begin) != 0 || ask(memory->owner, "nbytes", &bytes) != 0)
        return -1;
    if (data >= begin && bytes >= memory->size && data - begin <= bytes - memory->size)
        return 0;
    PyErr_Format(PyExc_BufferError,
                 "the storage of a torch tensor was resized or moved after it was given, and no "
                 "longer has its %zu bytes: pass the tensor again",
                 memory->size);
    return -1;
}

int tpy_still_lent(const tpy_state *state, const Py_buffer *buffers, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (buffers[i].obj != NULL && Py_TYPE(buffers[i].obj) == state->memory_type &&
            check_lent((const tpy_memory *)buffers[i].obj) != 0)
            return -1;
    return 0;
}

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    tpy_memory *memory = (tpy_memory *)self;
    view->obj = NULL;
    if (check_lent(memory) != 0)
        return -1;
    return PyBuffer_FillInfo(view, self, memory->data, (Py_ssize_t)memory->size, memory->readonly,
                             flags);
}

/* Frees the shape and strides of a tensor's buffer, which names its Memory as the exporter. */
static void memory_releasebuffer(PyObject *self, Py_buffer *view) {
    (void)self;
    PyMem_Free(view->internal);
    view->internal = NULL;
}

static PyObject *memory_address(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(((tpy_memory *)self)->data);
}

static PyObject *memory_readonly(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((tpy_memory *)self)->readonly);
}

static Py_ssize_t memory_length(PyObject *self) {
    return (Py_ssize_t)((tpy_memory *)self)->size;
}

static PyGetSetDef memory_properties[] = {
    {"address", memory_address, NULL, "Where its first byte is.", NULL},
    {"readonly", memory_readonly, NULL, "Whether it may not be written to.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "Bytes that are kept alive by this object, as a buffer."},
    {Py_tp_dealloc, memory_dealloc},
    {Py_tp_getset, memory_properties},
    {Py_sq_length, memory_length},
    {Py_bf_getbuffer, memory_getbuffer},
    {Py_bf_releasebuffer, memory_releasebuffer},
    {0, NULL},
};

PyType_Spec tpy_memory_spec = {"tenmap._core.Memory", sizeof(tpy_memory), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               memory_slots};

/* memory(size): new and writable. */
PyObject *tpy_new_memory(PyObject *module, PyObject *args) {
    tpy_number size = {"size", PY_SSIZE_T_MAX, 0};
    if (!PyArg_ParseTuple(args, "O&:memory", tpy_number_of, &size))
        return NULL;
    return (PyObject *)tpy_memory_new(PyModule_GetState(module), (size_t)size.value);
}

/*
 * borrow(address, size, owner, writable=False, lent=False): bytes of another owner. lent: the owner
 * has data_ptr() and nbytes(), like torch's storages, and is asked again before each use.
 */
PyObject *tpy_borrow(PyObject *module, PyObject *args) {
    tpy_number address = {"address", UINTPTR_MAX, 0}, size = {"size", PY_SSIZE_T_MAX, 0};
    PyObject *owner;
    int writable = 0, lent = 0;
    if (!PyArg_ParseTuple(args, "O&O&O|pp:borrow", tpy_number_of, &address, tpy_number_of, &size,
                          &owner, &writable, &lent))
        return NULL;
    if (size.value > 0 && (address.value == 0 || size.value > UINTPTR_MAX - address.value)) {
        PyErr_Format(PyExc_ValueError, "an address of %llu has no %llu bytes behind it",
                     (unsigned long long)address.value, (unsigned long long)size.value);
        return NULL;
    }
    tpy_memory *memory = tpy_memory_view(
        PyModule_GetState(module), (void *)(uintptr_t)address.value, (size_t)size.value, owner);
    if (memory == NULL)
        return NULL;
    memory->readonly = !writable;
    memory->lent = lent;
    if (check_lent(memory) != 0) {
        Py_DECREF((PyObject *)memory);
        return NULL;
    }
    return (PyObject *)memory;
}

static PyObject *assemble_parts(const tpy_state *state, PyObject *parts, Py_buffer *views,
                                Py_ssize_t n) {
    size_t total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyObject_GetBuffer(PyTuple_GetItem(parts, i), &views[i], PyBUF_SIMPLE) != 0)
            return NULL;
        total += (size_t)views[i].len;
        if (total > (size_t)PY_SSIZE_T_MAX)
            return PyErr_NoMemory();
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    char *dst = result != NULL ? PyBytes_AsString(result) : NULL;
    if (dst == NULL || tpy_still_lent(state, views, n) != 0) {
        Py_XDECREF(result);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (views[i].len > 0)
            memcpy(dst, views[i].buf, (size_t)views[i].len);
        dst += views[i].len;
    }
    Py_END_ALLOW_THREADS;
    return result;
}

/* assemble([buffer, ...]) -> bytes, one after the other. */
PyObject *tpy_assemble(PyObject *module, PyObject *args) {
    PyObject *list, *result = NULL;
    if (!PyArg_ParseTuple(args, "O:assemble", &list))
        return NULL;
    PyObject *parts = tpy_items(list);
    if (parts == NULL)
        return NULL;
    Py_ssize_t n = PyTuple_Size(parts);
    Py_buffer *views = PyMem_Calloc((size_t)n + 1, sizeof *views);
    if (views == NULL)
        PyErr_NoMemory();
    else
        result = assemble_parts(PyModule_GetState(module), parts, views, n);
    for (Py_ssize_t i = 0; views != NULL && i < n; i++)
        PyBuffer_Release(&views[i]); /* a buffer that was not obtained has nothing to release */
    PyMem_Free(views);
    Py_DECREF(parts);
    return result;
}
