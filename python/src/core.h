/*
 * Internal declarations of tenmap._core. Each file has one subject; module.c puts them together.
 *
 * Ownership: a Model holds a Handle, which owns the tenmap_model. Tensors and the Memory of views
 * hold the Handle too. Closing a Model only drops its reference to the Handle, so the mapping is
 * unmapped with the last view, and tenmap_close always has the exclusivity that it needs. The
 * Handle of a derived model holds the Handles of all models that it is computed from, directly or
 * not.
 *
 * The GIL is released around everything that opens, reads, converts, writes or measures. The
 * caller's code can run meanwhile, and also in callbacks, in finalizers during garbage collection,
 * and wherever an argument is inspected. So a function first takes its references, then parses,
 * then checks, then uses, and none of the caller's code runs between the last two steps.
 *
 * A free-threaded Python has no GIL. There, what several threads may change is used inside of
 * TPY_LOCK, and everything else is never changed after other threads can see it.
 */
#ifndef TENMAP_PYTHON_CORE_H
#define TENMAP_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <tenmap.h>

/*
 * TPY_LOCK(object); ... TPY_UNLOCK(); is a critical section of the object on a free-threaded
 * Python, and does nothing with the GIL. Like the GIL, it is released wherever the thread waits,
 * and in Py_BEGIN_ALLOW_THREADS. No return, break or goto may leave it.
 */
#ifdef Py_GIL_DISABLED
#define TPY_LOCK(object) Py_BEGIN_CRITICAL_SECTION(object)
#define TPY_UNLOCK() Py_END_CRITICAL_SECTION()
#else
#define TPY_LOCK(object)                                                                           \
    {                                                                                              \
        (void)(object)
#define TPY_UNLOCK() }
#endif

typedef struct tpy_pool tpy_pool;

/* Per interpreter: nothing in this module is global. The module locks what can change. */
typedef struct tpy_state {
    PyTypeObject *memory_type, *handle_type, *model_type, *tensor_type, *writer_type,
        *exporter_type;
    PyObject *tensor_class;                  /* the class of a model's tensors: tenmap.Tensor */
    PyObject *make_error;                    /* tenmap._errors.make */
    PyObject *module;                        /* borrowed */
    tpy_pool *pool;                          /* memory that is kept for later loads, or NULL */
    _Atomic unsigned long long file_objects; /* how many were opened: tells them apart */
    /* Bytes to allocate on small pages before huge ones are tried again. */
    _Atomic size_t small_pages;
} tpy_state;

/* errors.c */

/*
 * Raises tenmap.Error, or the subclass of it that fits, and returns NULL. An exception that a file
 * object raised is raised again as it was. path and tensor may be NULL.
 */
PyObject *tpy_fail(tpy_state *state, const tenmap_error *error, PyObject *path, PyObject *tensor);
/* Raises the exception for a tenmap_error with this status and message. */
PyObject *tpy_fail_with(tpy_state *state, tenmap_status status, const char *message);
/* Py_XDECREF as a function. NULL is allowed. */
void tpy_drop(void *object);
PyTypeObject *tpy_add_type(PyObject *module, PyType_Spec *spec);
/*
 * object.method(), or object.method(argument) if argument is not NULL; it takes ownership of the
 * argument. The method's name is interned: Python's cache of methods keeps every other string.
 */
PyObject *tpy_call_method(PyObject *object, const char *method, PyObject *argument);
void *tpy_new_object(PyTypeObject *type);
void tpy_free_object(void *object);
/* item(context, 0), item(context, 1), ..., `count` of them, as a list. */
typedef PyObject *tpy_item(void *context, size_t i);
PyObject *tpy_list(size_t count, tpy_item *item, void *context);

/* args.c: arguments; the caller's code may run meanwhile */

/* An integer argument: its name, and the largest value allowed. */
typedef struct tpy_number {
    const char *name;
    uint64_t most, value;
} tpy_number;
#define TPY_U32(name)                                                                              \
    { (name), UINT32_MAX, 0 }
#define TPY_U64(name)                                                                              \
    { (name), UINT64_MAX, 0 }
/*
 * For "O&": sets a tpy_number's value; 0 with an exception that names the argument if the object is
 * not such a number.
 */
int tpy_number_of(PyObject *object, void *number);
/* The items of a list, as a tuple that nobody else can change. */
PyObject *tpy_items(PyObject *list);
/* A copy of a dict, empty for None. It keeps the strings, whatever happens to the caller's dict. */
PyObject *tpy_pairs(PyObject *dict);
/* The UTF-8 of a str; NULL with an exception that names `what` on failure. */
const char *tpy_text(PyObject *object, const char *what, Py_ssize_t *length);
/*
 * A sequence of numbers as a shape, allocated with PyMem_Malloc; NULL with an exception if it is
 * not one.
 */
uint64_t *tpy_parse_shape(PyObject *shape, uint32_t *rank);

/* io.c: the GIL from any thread, file objects as a tenmap_io */

typedef struct tpy_gil {
    PyGILState_STATE main_state;
    PyThreadState *own; /* in a sub-interpreter */
} tpy_gil;
tpy_gil tpy_gil_take(PyInterpreterState *interpreter);
void tpy_gil_give(tpy_gil gil);

/* Stands for the path of a file object. */
#define TPY_FILE_OBJECT "<file object>"
typedef struct tpy_io tpy_io;
tpy_io *tpy_io_new(tpy_state *state, PyObject *file);
void tpy_io_free(tpy_io *io);
const tenmap_io *tpy_io_functions(tpy_io *io);
/*
 * -1 with an exception if this thread is inside read() of this file object (NULL: there is none).
 * That read() holds the lock, for which a call that reads, or threads that it starts, would wait
 * forever.
 */
int tpy_io_enter(const tpy_io *io);
/* 1 with the exception set if `message` stands for an exception that this file raised. */
int tpy_io_raise(tpy_io *io, const char *message);

/* memory.c: bytes with an owner, as a buffer */

typedef struct tpy_memory {
    PyObject_HEAD char *data;
    size_t size;
    int readonly;
    int kind;
    void *base; /* the address to free or unmap */
    size_t base_size;
    PyObject *owner; /* of a view */
    int lent;        /* the owner may move its bytes and is asked where they are: torch's storage */
} tpy_memory;

extern PyType_Spec tpy_memory_spec;
tpy_memory *tpy_memory_new(tpy_state *state, size_t size); /* writable, contents undefined */
tpy_memory *tpy_memory_view(tpy_state *state, const void *data, size_t size, PyObject *owner);
/*
 * A copy-on-write mapping of [offset, offset + size) of a file: writable, and the file never
 * changes. NULL without an exception if the system cannot map it: the caller then copies instead.
 */
tpy_memory *tpy_memory_private(tpy_state *state, int fd, uint64_t offset, size_t size);
/* Takes ownership of the arena, even if it fails. */
tpy_memory *tpy_memory_arena(tpy_state *state, tenmap_arena *arena);
/* 0, or -1 with a BufferError if one of these buffers is on lent memory that has moved since. */
int tpy_still_lent(const tpy_state *state, const Py_buffer *buffers, Py_ssize_t count);
PyObject *tpy_new_memory(PyObject *module, PyObject *args);
PyObject *tpy_borrow(PyObject *module, PyObject *args);
PyObject *tpy_assemble(PyObject *module, PyObject *args);

/* pool.c: memory that is kept for later loads */

/* A kept block for `size` bytes, of which it wastes a fifth at most; NULL if there is none. */
void *tpy_pool_take(tpy_state *state, size_t size, size_t *base_size);
/* 1 if the pool, if there is one, keeps this memory of tenmap_alloc. */
int tpy_pool_give(tpy_state *state, void *base, size_t size);
void tpy_pool_free(tpy_pool *pool);
PyObject *tpy_keep_memory(PyObject *module, PyObject *args);

/* handle.c: an open model */

typedef struct tpy_handle tpy_handle;
struct tpy_handle {
    PyObject_HEAD tenmap_model *model;
    tpy_state *state;
    PyObject *module;           /* keeps the state alive */
    PyObject *tensor_class;     /* the class of its tensors, or NULL */
    Py_buffer buffer;           /* of a model in memory; obj is NULL otherwise */
    int dequantize;             /* block dtypes appear as dequantized values */
    tpy_io *io;                 /* of a file object */
    struct tpy_private *shared; /* NULL until a writable view is made; the handle locks it */
    tenmap_io *http;            /* of an address; NULL otherwise */
    /*
     * Of a derived model: all models that it is computed from, each once, derived ones before those
     * that they are derived from. Its level is one more than the highest of theirs.
     */
    tpy_handle **sources;
    size_t source_count;
    unsigned level; /* 0: opened */
};

extern PyType_Spec tpy_handle_spec;
/* The options of tenmap.open. */
typedef struct tpy_open_options {
    int dequantize, lenient, partial, read, branches;
    int values; /* keep the values of a pickle, and list no tensors */
    unsigned threads;
    uint64_t max_header_bytes, offset, length;
} tpy_open_options;
tpy_handle *tpy_open(tpy_state *state, PyObject *source, const tpy_open_options *options);
/* tpy_fail for an error of this model; the path is that of the error's shard. */
PyObject *tpy_handle_fail(tpy_handle *handle, const tenmap_error *error, PyObject *tensor);
/*
 * Called before every call that reads from a model: tpy_io_enter for its file object and for those
 * of the models that it is derived from.
 */
int tpy_handle_enter(const tpy_handle *handle);
/* The handle of this model: the given one, or that of a model that it is derived from. */
tpy_handle *tpy_handle_of(tpy_handle *handle, const tenmap_model *model);
PyObject *tpy_decode_path(const char *path);

/* derive.c: a model computed from others */

/*
 * Makes a derived model from [(name, dtype, op, axis, terms, order, shape), ...]; a term is (tensor
 * or None, factor, shape, begin, end, flags). NULL with an exception on failure.
 */
tpy_handle *tpy_derive(tpy_state *state, PyObject *list);

/* checkpoint.c: the values of a checkpoint, by internal functions of the library */

/* Opens the path, or if it is NULL the handle's buffer. Returns a tenmap_status. */
int tpy_open_values(tpy_handle *handle, const char *path, const tenmap_options *options,
                    tenmap_error *error);
/*
 * (root, records, globals, storages, bytes of the pickle) of a handle that was opened with its
 * values; None if the file is no checkpoint.
 */
PyObject *tpy_pickled_values(tpy_handle *handle);

/* http.c: addresses, where the extension is built with libtenmap-http and finds libcurl */

/* Whether the path is an address that the extension opens itself. */
int tpy_http_takes(const char *path);
/* A tenmap_io for addresses; NULL with an exception on failure. Freed after tenmap_close. */
tenmap_io *tpy_http_new(tpy_state *state);
void tpy_http_free(tenmap_io *io);
/* http_missing() -> None, or why addresses cannot be opened. */
PyObject *tpy_http_missing(PyObject *module, PyObject *unused);

/* private.c: the copy-on-write mapping of each file, shared by writable views */

typedef struct tpy_private tpy_private;
void tpy_private_free(tpy_private *shared);

/* model.c, tensor.c */

extern PyType_Spec tpy_model_spec, tpy_tensor_spec;

/*
 * The selected indexes of one dimension: `count` of them, start, start + step, ... A dimension that
 * was indexed with an integer is not kept.
 */
typedef struct tpy_axis {
    uint64_t start;
    int64_t step;
    uint64_t count;
    int kept;
} tpy_axis;

typedef struct tpy_tensor {
    PyObject_HEAD tpy_handle *handle;
    const tenmap_tensor *tensor;
    tpy_axis *axes; /* tensor->rank of them; NULL: the whole tensor */
} tpy_tensor;

tpy_tensor *tpy_tensor_new(tpy_handle *handle, const tenmap_tensor *tensor);
PyObject *tpy_tensor_name(const tpy_tensor *self);
/*
 * The dtype that its elements appear as: the stored one, except that block dtypes appear as F32 if
 * the model is dequantized.
 */
tenmap_dtype tpy_dtype(const tpy_tensor *self);
/* The argument as a tensor; NULL with a TypeError if it is not one. */
tpy_tensor *tpy_as_tensor(tpy_state *state, PyObject *object);
/*
 * Writable bytes [low, low + bytes) of a tensor, on a copy-on-write mapping of its file. No other
 * view has these bytes. NULL with an exception on failure; NULL without one if the system cannot
 * map them, or if a copy may be made (may_copy) and is cheaper.
 */
tpy_memory *tpy_private_view(const tpy_tensor *self, uint64_t low, uint64_t bytes, int may_copy);

/* select.c: indexing, and reading what was selected */

tpy_axis *tpy_select(const tpy_tensor *self, PyObject *key);
tpy_axis tpy_axis_of(const tpy_tensor *self, uint32_t dimension);
/*
 * The selection as a block: where it begins in each dimension, then where it ends. Allocated with
 * PyMem_Malloc. NULL for a whole tensor, and if the selection has steps; NULL with an exception if
 * memory runs out.
 */
uint64_t *tpy_box(const tpy_tensor *self);
PyObject *tpy_tensor_box(PyObject *self, PyObject *unused);
uint64_t tpy_count(const tpy_tensor *self); /* number of selected elements */
uint32_t tpy_rank(const tpy_tensor *self);  /* number of kept dimensions */
PyObject *tpy_shape_tuple(const tpy_tensor *self);
/* The bytes of `count` packed elements; -1 with an exception if that exceeds size_t. */
int tpy_packed_bytes(tenmap_dtype dtype, uint64_t count, size_t *bytes);
/*
 * Reads the selected elements into dst, in order, without the GIL. Elements of 4 and 6 bits become
 * a byte each. -1 with an exception if that fails.
 */
int tpy_read(const tpy_tensor *self, tenmap_dtype as, void *dst, size_t dst_bytes);
void tpy_pack(uint32_t bits, const unsigned char *src, uint64_t count, unsigned char *dst);

/* data.c: where the selected elements' bytes are */

/* TPY_PRIVATE: writable and in place wherever that is possible, even if a copy is cheaper. */
enum { TPY_VIEW = 0, TPY_WRITABLE = 1, TPY_COPY = 2, TPY_PRIVATE = 3 };
typedef struct tpy_data {
    tpy_memory *memory; /* a new reference */
    size_t offset;      /* of the first element */
    int contiguous;     /* in one run, in order */
    int copied;
} tpy_data;
/* 0, or -1 with an exception. */
int tpy_find_data(const tpy_tensor *self, tenmap_dtype as, int how, tpy_data *out);
/* Strides of the kept dimensions, in elements: tpy_rank numbers. */
void tpy_strides(const tpy_tensor *self, const tpy_data *data, int64_t *strides);
PyObject *tpy_tensor_bytes(PyObject *self, void *unused);
PyObject *tpy_tensor_data(PyObject *self, PyObject *args);
PyObject *tpy_private_shard(PyObject *self, PyObject *args);

/* dlpack.c, buffer.c */

PyObject *tpy_tensor_dlpack(PyObject *self, PyObject *args);
extern PyType_Spec tpy_exporter_spec;
PyObject *tpy_tensor_buffer(PyObject *self, void *unused);

/* load.c: many tensors at once */

/* Where a call of the library reports progress, on the calling thread. */
typedef struct tpy_progress {
    PyObject *callable;    /* or NULL */
    PyThreadState *thread; /* from PyEval_SaveThread */
    int raised;            /* an exception is set: a signal's, or the callable's */
} tpy_progress;
int tpy_report(void *progress, uint64_t done, uint64_t total);
/* What a call loads: requests of the library, and tensors that are read alone after them. */
typedef struct tpy_requests {
    PyObject *items; /* keeps the tensors alive, which keep the handle */
    tenmap_request *requests;
    size_t request_count;
    uint64_t **corners; /* begin and end of each selection, or NULL */
    Py_buffer *buffers;
    tpy_tensor **stepped; /* of an item: its tensor if that has steps and is read alone */
    tenmap_dtype *as;
    Py_ssize_t count, held;
    tpy_handle *handle;
} tpy_requests;
/*
 * Makes the requests from [(tensor, dtype, destination), ...]; -1 with an exception on failure.
 * Ended in any case.
 */
int tpy_requests_begin(tpy_state *state, tpy_requests *job, PyObject *list);
void tpy_requests_end(tpy_requests *job);
/* Raises what a load of these requests reports, unless an exception is set. Returns NULL. */
PyObject *tpy_requests_fail(const tpy_requests *job, const tenmap_error *error);
PyObject *tpy_load(PyObject *module, PyObject *args);
PyObject *tpy_group_load(PyObject *module, PyObject *args); /* group.c */
PyObject *tpy_measure(PyObject *module, PyObject *args);

/* take.c, value.c */

/* The caller holds references to the handle and the arguments. */
PyObject *tpy_take_from(tpy_handle *handle, PyObject *args);
/* The value of a metadata pair: str, int, float, bool, or a list of those. */
PyObject *tpy_metadata_value(const tenmap_metadata *pair);

/* writer.c, save.c, edit.c, convert.c */

extern PyType_Spec tpy_writer_spec;
/* The dict must be the extension's own copy. */
int tpy_add_metadata(tpy_state *state, tenmap_writer *writer, PyObject *metadata);
/* A dict of strings as edits, which borrow from the dict; a value of None removes the key. */
tenmap_edit *tpy_edits(PyObject *dict, size_t *count);
PyObject *tpy_save(PyObject *module, PyObject *args);
PyObject *tpy_save_sharded(PyObject *module, PyObject *args);
PyObject *tpy_rename(PyObject *module, PyObject *args);
PyObject *tpy_check(PyObject *module, PyObject *args);
PyObject *tpy_convert(PyObject *module, PyObject *args);

#endif
