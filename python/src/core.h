/*
 * tenmap._core: what its files share. Each file has one subject; module.c puts them together.
 *
 * Objects and who keeps whom: a Model holds a Handle, which owns the tenmap_model; Tensors and the
 * Memory of views hold the Handle too. Closing a Model only lets go of its Handle, so the mapping
 * goes with the last view, and tenmap_close always has the exclusivity that it needs.
 *
 * The GIL is released around everything that opens, reads, converts, writes or measures. Code of
 * the caller's runs meanwhile, in callbacks, in finalizers of a garbage collection, and wherever an
 * argument is looked at. So a function takes its references first, then parses, then checks, and
 * then uses, and no code of the caller's runs between the last two.
 */
#ifndef TENMAP_PYTHON_CORE_H
#define TENMAP_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <tenmap.h>

/* Per interpreter: nothing in this module is global. */
typedef struct tpy_state {
    PyTypeObject *memory_type, *handle_type, *model_type, *tensor_type, *writer_type;
    PyObject *tensor_class; /* what models give out: tenmap.Tensor */
    PyObject *make_error;   /* tenmap._errors.make */
    PyObject *module;       /* borrowed */
    size_t small_pages;     /* bytes to be taken on small pages before huge ones are tried again */
} tpy_state;

/* errors.c */

/*
 * Raises tenmap.Error, or the kin of it that fits, and returns NULL. The exception of a file object
 * comes back as it was raised. path and tensor may be NULL.
 */
PyObject *tpy_fail(tpy_state *state, const tenmap_error *error, PyObject *path, PyObject *tensor);
/* Raises what tenmap_error would say for this status and sentence. */
PyObject *tpy_fail_with(tpy_state *state, tenmap_status status, const char *message);
/* Py_DECREF, for lists of slots to free; NULL is fine. */
void tpy_drop(void *object);
PyTypeObject *tpy_add_type(PyObject *module, PyType_Spec *spec);
void *tpy_new_object(PyTypeObject *type);
void tpy_free_object(void *object);
/* item(context, 0), item(context, 1), ..., `count` of them, as a list. */
typedef PyObject *tpy_item(void *context, size_t i);
PyObject *tpy_list(size_t count, tpy_item *item, void *context);

/* args.c: what callers give; their code runs meanwhile */

/* An integer argument: what it is called, and the most that it may be. */
typedef struct tpy_number {
    const char *name;
    uint64_t most, value;
} tpy_number;
#define TPY_U32(name)                                                                              \
    { (name), UINT32_MAX, 0 }
#define TPY_U64(name)                                                                              \
    { (name), UINT64_MAX, 0 }
/* For "O&": a tpy_number's value; 0 and an exception that names it where the object is none. */
int tpy_number_of(PyObject *object, void *number);
/* The items of a list, as a tuple that nobody else changes. */
PyObject *tpy_items(PyObject *list);
/*
 * A copy of a dict, empty for None: what its strings are stays, whatever becomes of the caller's
 * dict.
 */
PyObject *tpy_pairs(PyObject *dict);
/* UTF-8 of a str; NULL and an exception that says what it was meant for. */
const char *tpy_text(PyObject *object, const char *what, Py_ssize_t *length);
/* An object with numbers, as a shape: PyMem_Malloc'ed, NULL and an exception where it is none. */
uint64_t *tpy_parse_shape(PyObject *shape, uint32_t *rank);

/* io.c: the GIL from any thread, file objects as a tenmap_io */

typedef struct tpy_gil {
    PyGILState_STATE main_state;
    PyThreadState *own; /* in a sub-interpreter */
} tpy_gil;
tpy_gil tpy_gil_take(PyInterpreterState *interpreter);
void tpy_gil_give(tpy_gil gil);

/* What a file object is called where a path is asked for. */
#define TPY_FILE_OBJECT "<file object>"
typedef struct tpy_io tpy_io;
tpy_io *tpy_io_new(PyObject *file);
void tpy_io_free(tpy_io *io);
const tenmap_io *tpy_io_functions(tpy_io *io);
/*
 * Before a call that reads from a model: -1 and an exception if this thread is inside read() of its
 * file (NULL: it has none). It has the lock, which the call, or threads that the call starts, would
 * wait for.
 */
int tpy_io_enter(const tpy_io *io);
/* 1 and the exception set if `message` is that of an exception that this file raised. */
int tpy_io_raise(tpy_io *io, const char *message);

/* memory.c: bytes that somebody keeps alive, as a buffer */

typedef struct tpy_memory {
    PyObject_HEAD char *data;
    size_t size;
    int readonly;
    int kind;
    void *base; /* what is freed or unmapped */
    size_t base_size;
    PyObject *owner; /* of a view */
    int lent; /* the owner says where its bytes are, which may change: a storage of torch's */
} tpy_memory;

extern PyType_Spec tpy_memory_spec;
tpy_memory *tpy_memory_new(tpy_state *state, size_t size); /* writable, its bytes undefined */
tpy_memory *tpy_memory_view(tpy_state *state, const void *data, size_t size, PyObject *owner);
/*
 * [offset, offset + size) of a file, copy-on-write: writable, and the file never changes. NULL
 * without an exception where the system cannot map it: the caller copies instead.
 */
tpy_memory *tpy_memory_private(tpy_state *state, int fd, uint64_t offset, size_t size);
/* Owns the arena from here on, also where it fails. */
tpy_memory *tpy_memory_arena(tpy_state *state, tenmap_arena *arena);
/*
 * 0, or -1 and a BufferError, if memory that one of these stands on was lent and has moved since.
 */
int tpy_still_lent(const tpy_state *state, const Py_buffer *buffers, Py_ssize_t count);
PyObject *tpy_new_memory(PyObject *module, PyObject *args);
PyObject *tpy_borrow(PyObject *module, PyObject *args);
PyObject *tpy_assemble(PyObject *module, PyObject *args);

/* handle.c: an open model */

typedef struct tpy_handle {
    PyObject_HEAD tenmap_model *model;
    tpy_state *state;
    PyObject *module; /* keeps the state */
    Py_buffer buffer; /* of a model in memory; obj is NULL otherwise */
    int dequantize;   /* blocks appear as the values that they stand for */
    tpy_io *io;       /* of a file object */
} tpy_handle;

extern PyType_Spec tpy_handle_spec;
/* What a caller of tenmap.open asks for. */
typedef struct tpy_open_options {
    int dequantize, lenient, partial, read;
    unsigned threads;
    uint64_t max_header_bytes, offset, length;
} tpy_open_options;
tpy_handle *tpy_open(tpy_state *state, PyObject *source, const tpy_open_options *options);
/* tpy_fail for what went wrong with this model: the path is the shard's. */
PyObject *tpy_handle_fail(tpy_handle *handle, const tenmap_error *error, PyObject *tensor);
PyObject *tpy_decode_path(const char *path);

/* model.c, tensor.c */

extern PyType_Spec tpy_model_spec, tpy_tensor_spec;

/*
 * Elements start, start + step, ...: `count` of them; a dimension that an integer chose is not
 * kept.
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
    tpy_axis *axes; /* tensor->rank of them; NULL: all of it */
} tpy_tensor;

tpy_tensor *tpy_tensor_new(tpy_handle *handle, const tenmap_tensor *tensor);
PyObject *tpy_tensor_name(const tpy_tensor *self);
/*
 * What its elements appear as: as stored, but for blocks of a model that is dequantized, which are
 * F32.
 */
tenmap_dtype tpy_dtype(const tpy_tensor *self);
/* The tensor as an argument: NULL and a TypeError if it is none. */
tpy_tensor *tpy_as_tensor(tpy_state *state, PyObject *object);

/* select.c: indexes, and the reading of what they choose */

tpy_axis *tpy_select(const tpy_tensor *self, PyObject *key);
tpy_axis tpy_axis_of(const tpy_tensor *self, uint32_t dimension);
uint64_t tpy_count(const tpy_tensor *self); /* elements chosen */
uint32_t tpy_rank(const tpy_tensor *self);  /* dimensions kept */
PyObject *tpy_shape_tuple(const tpy_tensor *self);
/* Bytes of `count` elements, packed; -1 and an exception if that is no size_t. */
int tpy_packed_bytes(tenmap_dtype dtype, uint64_t count, size_t *bytes);
/*
 * Reads what is chosen into dst, in order, without the GIL. Elements of 4 and 6 bits become a byte
 * each. -1 and an exception if that fails.
 */
int tpy_read(const tpy_tensor *self, tenmap_dtype as, void *dst, size_t dst_bytes);
void tpy_pack(uint32_t bits, const unsigned char *src, uint64_t count, unsigned char *dst);

/* data.c: where the bytes of what is chosen are */

enum { TPY_VIEW = 0, TPY_WRITABLE = 1, TPY_COPY = 2 };
typedef struct tpy_data {
    tpy_memory *memory; /* a new reference */
    size_t offset;      /* of the first element */
    int contiguous;     /* in one run, in their order */
    int copied;
} tpy_data;
/* 0, or -1 with an exception. */
int tpy_find_data(const tpy_tensor *self, tenmap_dtype as, int how, tpy_data *out);
/* Of the kept dimensions, in elements: tpy_rank numbers. */
void tpy_strides(const tpy_tensor *self, const tpy_data *data, int64_t *strides);
PyObject *tpy_tensor_bytes(PyObject *self, void *unused);
PyObject *tpy_tensor_data(PyObject *self, PyObject *args);
PyObject *tpy_private_shard(PyObject *self, PyObject *args);

/* dlpack.c, buffer.c */

PyObject *tpy_tensor_dlpack(PyObject *self, PyObject *args);
int tpy_tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);

/* load.c: many tensors at once */

/* What a call of the library reports its progress to, on the thread that called. */
typedef struct tpy_progress {
    PyObject *callable;    /* or NULL */
    PyThreadState *thread; /* from PyEval_SaveThread */
    int raised;            /* an exception is set: a signal's, or the callable's */
} tpy_progress;
int tpy_report(void *progress, uint64_t done, uint64_t total);
PyObject *tpy_load(PyObject *module, PyObject *args);
PyObject *tpy_measure(PyObject *module, PyObject *args);

/* take.c, value.c */

/* The caller holds the handle, and the arguments. */
PyObject *tpy_take_from(tpy_handle *handle, PyObject *args);
/* The value of a pair of metadata: str, int, float, bool, or a list of them. */
PyObject *tpy_metadata_value(const tenmap_metadata *pair);

/* writer.c, save.c, edit.c, convert.c */

extern PyType_Spec tpy_writer_spec;
/* Of a dict that is the extension's own. */
int tpy_add_metadata(tpy_state *state, tenmap_writer *writer, PyObject *metadata);
/* A dict of strings as edits, which borrow from it; None as a value removes a key. */
tenmap_edit *tpy_edits(PyObject *dict, size_t *count);
PyObject *tpy_save(PyObject *module, PyObject *args);
PyObject *tpy_save_sharded(PyObject *module, PyObject *args);
PyObject *tpy_rename(PyObject *module, PyObject *args);
PyObject *tpy_check(PyObject *module, PyObject *args);
PyObject *tpy_convert(PyObject *module, PyObject *args);

#endif
