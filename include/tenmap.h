/*
 * tenmap: model weights in the SafeTensors format, memory-mapped.
 *
 * A model is one file, an index with shards, or a folder; all three open the same way and give the
 * same handle. Opening reads the header and nothing else; tensors are views into the mapping.
 *
 * Read this first:
 *
 *  - Every view (tenmap_tensor, tenmap_shard, tenmap_metadata, names, shapes, data) belongs to the
 *    model and lives until tenmap_close. Views come one pointer at a time so that their structs can
 *    grow at the end: never copy an array of them, never assume their sizeof.
 *  - A model is immutable once open. Any number of threads may use it at the same time.
 * tenmap_close needs exclusivity: no other call and no use of a view may run beside it or follow
 * it.
 *  - With TENMAP_BACKEND_MAP, `data` is the file itself. If another process truncates the file, or
 *    the storage under it fails, touching a page that is gone raises SIGBUS in the thread that
 *    touches it, inside the library too; if another process overwrites it, the bytes change under
 *    you. No library can prevent either. Where files may shrink (network folders, downloads in
 *    progress), open with TENMAP_BACKEND_READ: there every access is a checked read that returns
 *    TENMAP_ERR_IO. Replacing a file by rename is harmless: the model keeps the file that it
 * opened.
 *  - What the header says is checked completely inside tenmap_open. A model that opened cannot make
 *    the library read outside its file, whatever its bytes. What the tensors mean (values, names,
 *    shapes that your architecture expects) is not checked.
 *  - The library never prints, exits, aborts, or changes signals, locale or the floating-point
 * mode.
 *  - After fork, the child may go on reading. Each process closes its own handle.
 *  - A model holds one close-on-exec descriptor per shard until it is closed, and never opens a
 * path twice.
 *
 * Units are bytes unless a name says otherwise; every length that is a size_t may be TENMAP_CSTR
 * for a NUL-terminated string where the comment says so. Paths are UTF-8 on every system.
 */
#ifndef TENMAP_H
#define TENMAP_H

#include <stddef.h>
#include <stdint.h>

#define TENMAP_VERSION_MAJOR 0
#define TENMAP_VERSION_MINOR 1
#define TENMAP_VERSION_PATCH 0

#if defined(_WIN32) && defined(TENMAP_BUILD_SHARED)
#define TENMAP_API __declspec(dllexport)
#elif defined(_WIN32) && defined(TENMAP_USE_SHARED)
#define TENMAP_API __declspec(dllimport)
#elif defined(__GNUC__)
#define TENMAP_API __attribute__((visibility("default")))
#else
#define TENMAP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenmap_model tenmap_model;
typedef int32_t tenmap_status;
typedef uint32_t tenmap_dtype;

/* As a length: the string is NUL-terminated. */
#define TENMAP_CSTR ((size_t)-1)

/* What went wrong, for code. The sentence for people is in tenmap_error. */
enum {
    TENMAP_OK = 0,
    TENMAP_ERR_ARGUMENT = 1,    /* NULL, unknown flag, bad struct_size */
    TENMAP_ERR_MEMORY = 2,      /* an allocation failed */
    TENMAP_ERR_IO = 3,          /* the system refused (os_error), or the file changed */
    TENMAP_ERR_FORMAT = 4,      /* the bytes break a rule */
    TENMAP_ERR_LIMIT = 5,       /* a limit of ours or of the process */
    TENMAP_ERR_UNSUPPORTED = 6, /* this pair of dtypes, this host, this backend */
    TENMAP_ERR_NOT_FOUND = 7,   /* file, shard, tensor */
    TENMAP_ERR_DTYPE = 8,       /* tenmap_view: the tensor has another dtype */
    TENMAP_ERR_ALIGNMENT = 9,   /* tenmap_view: the data is not aligned for its element */
    TENMAP_ERR_RANGE = 10,      /* elements or bytes outside the tensor */
    TENMAP_ERR_BUFFER = 11,     /* destination too small */
    TENMAP_ERR_NO_SPACE = 12,   /* disk full */
    TENMAP_ERR_CANCELLED = 13
};

/* Element types. Values never change; new ones are appended. */
enum {
    TENMAP_AS_STORED = 0, /* where a dtype is asked for: the tensor's own */
    TENMAP_BOOL = 1,
    TENMAP_F4,      /* E2M1, two per byte, low nibble first */
    TENMAP_F6_E2M3, /* 6 bits: element i at bits 6i..6i+5 of a little-endian stream */
    TENMAP_F6_E3M2, /* likewise */
    TENMAP_U8,
    TENMAP_I8,
    TENMAP_F8_E5M2,
    TENMAP_F8_E4M3,
    TENMAP_F8_E8M0,
    TENMAP_F8_E4M3FNUZ,
    TENMAP_F8_E5M2FNUZ,
    TENMAP_I16,
    TENMAP_U16,
    TENMAP_F16,
    TENMAP_BF16,
    TENMAP_I32,
    TENMAP_U32,
    TENMAP_F32,
    TENMAP_C64, /* two F32: real, imaginary */
    TENMAP_F64,
    TENMAP_I64,
    TENMAP_U64,
    TENMAP_OPAQUE = 255 /* an unknown dtype in a lenient open: bytes only */
};

/*
 * Filled on failure, left alone on success. Owned by the caller; NULL is accepted wherever a
 * pointer to one is taken. This struct is frozen at 512 bytes.
 */
typedef struct tenmap_error {
    tenmap_status status;
    int32_t os_error;  /* errno, where the system refused; else 0 */
    uint32_t shard;    /* which shard, where one applies; else 0 */
    uint32_t reserved; /* 0 */
    uint64_t offset;   /* byte offset in that file, where one applies; else 0 */
    uint64_t index;    /* which request, edit or tensor, where one applies; else 0 */
    char message[480]; /* NUL-terminated UTF-8, one sentence or two, no control characters */
} tenmap_error;

/* tenmap_tensor.flags */
enum { TENMAP_TENSOR_ALIGNED = 1 /* the data is aligned for its element */ };

/* One tensor. Owned by the model, reached by pointer, valid until tenmap_close. */
typedef struct tenmap_tensor {
    const char *name; /* UTF-8, NUL-terminated; a hostile name may hold NUL inside: */
    size_t name_len;  /* the length rules */
    tenmap_dtype dtype;
    uint32_t rank; /* 0 for a scalar */
    const uint64_t *shape;
    const void *data; /* into the mapping, never NULL there; NULL with TENMAP_BACKEND_READ */
    uint64_t nbytes;
    uint64_t nelems;
    uint64_t file_offset; /* absolute, in its shard's file */
    uint32_t shard;       /* for tenmap_shard_at */
    uint32_t flags;       /* TENMAP_TENSOR_* */
    const tenmap_model *model;
} tenmap_tensor;

/*
 * One file of a model, for pinning, GPU registration and the caller's own I/O. The descriptor and
 * the mapping belong to the model: read with pread, do not move the file offset, do not close. A
 * tensor's bytes are at base + (file_offset - offset), and at file_offset in fd.
 */
typedef struct tenmap_shard {
    const char *path; /* as opened; "" for a descriptor or memory */
    int fd;           /* -1 for memory */
    uint32_t flags;   /* 0 */
    const void *base; /* the model's first byte in memory (NULL with TENMAP_BACKEND_READ) */
    uint64_t size;    /* its length: the file's, unless options.offset or length chose a part */
    uint64_t header_bytes; /* the JSON text, without its 8-byte length field */
    uint64_t data_offset;  /* where the first tensor's bytes may start, absolute in the file */
    size_t first_tensor;   /* this shard's tensors are [first_tensor, first_tensor+tensor_count) */
    size_t tensor_count;   /* of tenmap_at */
    uint64_t offset;       /* options.offset: where the model starts in the file */
} tenmap_shard;

/* One pair of a file's __metadata__. Both strings are NUL-terminated and may hold NUL inside. */
typedef struct tenmap_metadata {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
    uint32_t shard;
} tenmap_metadata;

/* options.backend */
enum {
    TENMAP_BACKEND_MAP = 0, /* tensors are views into a read-only shared mapping */
    TENMAP_BACKEND_READ = 1 /* no mapping: data is NULL, every access is a checked pread */
};

/* options.flags */
enum {
    /*
     * Also open: bytes after the last tensor, holes between tensors, unknown dtypes
     * (TENMAP_OPAQUE), an index that lists tensors its shard lacks, shards in subfolders. Never
     * overlap, never out of bounds.
     */
    TENMAP_OPEN_LENIENT = 1,
    /* Open a model some of whose shards are missing: their tensors are absent (tenmap_missing_at).
     */
    TENMAP_OPEN_PARTIAL = 2
};

/* Zero is the default for every field. Start from TENMAP_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_options {
    size_t struct_size; /* sizeof(tenmap_options): lets the struct grow */
    uint32_t backend;   /* TENMAP_BACKEND_* */
    uint32_t flags;     /* TENMAP_OPEN_* */
    uint32_t threads;   /* for opening many shards; 0: the library decides; at most 64 are used */
    uint32_t reserved;  /* 0 */
    uint64_t max_header_bytes; /* 0: 100,000,000, as the reference; also the index's limit */
    uint64_t offset, length;   /* a model inside a larger file; length 0: to the end of the file.
                                  For single files, descriptors and memory only. */
} tenmap_options;

#define TENMAP_OPTIONS_INIT                                                                        \
    { sizeof(tenmap_options), 0, 0, 0, 0, 0, 0, 0 }

/*
 * Open
 *
 * On success *out is the model, to be closed with tenmap_close. On failure *out is NULL, everything
 * taken is given back, and the error names the file, the byte offset, what was found and what was
 * expected. The cost is the header's: no tensor byte is read or faulted in.
 *
 * Thread rule: these may be called from any thread. Opening an index with many shards starts
 * threads and joins them before it returns; library threads block all signals.
 */

/*
 * `path` is a .safetensors file, an index (known by its content, not by its name) or a folder. In a
 * folder, the first of these that is there: model.safetensors, model.safetensors.index.json,
 * diffusion_pytorch_model.safetensors, its index; else the only index; else the only complete
 * numbered set (name-00001-of-00005.safetensors); else the only *.safetensors file. docs/format.md
 * has the details.
 */
TENMAP_API tenmap_status tenmap_open(const char *path, const tenmap_options *options,
                                     tenmap_model **out, tenmap_error *error);

/*
 * A single SafeTensors file behind a descriptor that can be read with pread and, for the MAP
 * backend, mapped. The descriptor is duplicated; the caller's stays open, unchanged, its offset
 * untouched.
 */
TENMAP_API tenmap_status tenmap_open_fd(int fd, const tenmap_options *options, tenmap_model **out,
                                        tenmap_error *error);

/*
 * A single SafeTensors file in memory. The bytes are borrowed until tenmap_close and must not
 * change; the header is copied, so changing it later cannot harm the library.
 */
TENMAP_API tenmap_status tenmap_open_memory(const void *bytes, size_t size,
                                            const tenmap_options *options, tenmap_model **out,
                                            tenmap_error *error);

/* Frees the model and invalidates all its views. NULL is fine. */
TENMAP_API void tenmap_close(tenmap_model *model);

/*
 * Inspect
 *
 * None of these fail, allocate or touch tensor data. A NULL model has no tensors, no shards and no
 * metadata, and its path is "".
 */

TENMAP_API size_t tenmap_count(const tenmap_model *model);
/* File order: shards by file name, then offset, then header order. NULL past the end. */
TENMAP_API const tenmap_tensor *tenmap_at(const tenmap_model *model, size_t i);
/* By exact name, O(1) whatever the names are; NULL if there is none. */
TENMAP_API const tenmap_tensor *tenmap_find(const tenmap_model *model, const char *name);
/* Likewise; `len` in bytes, or TENMAP_CSTR. Finds names that hold NUL. */
TENMAP_API const tenmap_tensor *tenmap_find_n(const tenmap_model *model, const char *name,
                                              size_t len);
/* The path as given to tenmap_open; "" for a descriptor or memory. */
TENMAP_API const char *tenmap_path(const tenmap_model *model);
/* Sum over the shards that are open. */
TENMAP_API uint64_t tenmap_file_size(const tenmap_model *model);
TENMAP_API size_t tenmap_shard_count(const tenmap_model *model);
TENMAP_API const tenmap_shard *tenmap_shard_at(const tenmap_model *model, size_t i);
/* The file names of shards that TENMAP_OPEN_PARTIAL found missing; NULL past the end. */
TENMAP_API size_t tenmap_missing_count(const tenmap_model *model);
TENMAP_API const char *tenmap_missing_at(const tenmap_model *model, size_t i);
/* All shards' __metadata__ in shard order, each in header order. */
TENMAP_API size_t tenmap_metadata_count(const tenmap_model *model);
TENMAP_API const tenmap_metadata *tenmap_metadata_at(const tenmap_model *model, size_t i);
/* The value in the first shard that has the key, or NULL. A linear scan. */
TENMAP_API const char *tenmap_metadata_get(const tenmap_model *model, const char *key);
/* The index's text as read, NUL-terminated, its length in *len (may be NULL); NULL if no index. */
TENMAP_API const char *tenmap_index_json(const tenmap_model *model, size_t *len);
/* The dtype as the header writes it: the one way to tell what a TENMAP_OPAQUE tensor is. */
TENMAP_API const char *tenmap_dtype_text(const tenmap_tensor *tensor);

/*
 * Read
 *
 * dst is the caller's, of any alignment, dst_bytes long; it must not overlap the model's data. A
 * call that fails for its arguments has not written a byte; one that fails with TENMAP_ERR_IO may
 * have written a part. Elements of 4 and 6 bits are packed: results start at bit 0 of dst, take
 * ceil(count*bits/8) bytes, spare bits 0.
 */

/*
 * The bytes themselves, checked: the same dtype (or TENMAP_AS_STORED), aligned for its element,
 * mapped, and a little-endian host, since the file is little-endian. NULL and an error otherwise.
 * TENMAP_OPAQUE tensors are viewed with TENMAP_OPAQUE or TENMAP_AS_STORED.
 */
TENMAP_API const void *tenmap_view(const tenmap_tensor *tensor, tenmap_dtype dtype,
                                   tenmap_error *error);

/*
 * Elements [first, first+count) converted into dst, in the host's byte order, on any backend.
 * Conversions are correctly rounded, once; docs/format.md has the number rules.
 */
TENMAP_API tenmap_status tenmap_read(const tenmap_tensor *tensor, uint64_t first, uint64_t count,
                                     tenmap_dtype as, void *dst, size_t dst_bytes, uint32_t flags,
                                     tenmap_error *error);

/*
 * The block begin[d] <= i[d] < end[d], one pair per dimension, in row-major order. A scalar takes
 * no pairs (begin and end may be NULL). An empty block writes nothing.
 */
TENMAP_API tenmap_status tenmap_read_slice(const tenmap_tensor *tensor, const uint64_t *begin,
                                           const uint64_t *end, tenmap_dtype as, void *dst,
                                           size_t dst_bytes, uint32_t flags, tenmap_error *error);

/* File bytes [offset, offset+bytes) of the tensor as they are: any dtype, opaque ones included. */
TENMAP_API tenmap_status tenmap_read_bytes(const tenmap_tensor *tensor, uint64_t offset,
                                           size_t bytes, void *dst, tenmap_error *error);

/*
 * Convert
 *
 * Every floating-point dtype to every other, integers and BOOL to every floating-point dtype, any
 * dtype to itself as a copy. Correctly rounded, once, to nearest, ties to even; the same bits on
 * every CPU path, whatever the caller set for denormals (the rounding mode is assumed to be
 * nearest). Floating point to integer or BOOL, integer to another integer, and C64 to anything but
 * itself are TENMAP_ERR_UNSUPPORTED.
 */

/* flags of tenmap_convert, tenmap_read and tenmap_read_slice */
enum {
    /*
     * Overflow and infinity become the largest finite value of a floating-point destination; NaN
     * stays NaN. Without it they become infinity, NaN where the dtype has no infinity, and the
     * largest value where it has neither (F4, F6). A copy to the same dtype changes nothing.
     */
    TENMAP_CONVERT_SATURATE = 1,
    /*
     * By default the result goes around the cache when it is too large to stay there. STREAM always
     * goes around it, NO_STREAM never; both at once is TENMAP_ERR_ARGUMENT. Hints about speed:
     * results are the same.
     */
    TENMAP_CONVERT_STREAM = 2,
    TENMAP_CONVERT_NO_STREAM = 4
};

/*
 * `count` elements in the host's byte order at src become elements in the host's byte order at dst;
 * no model is involved. Any alignment; the buffers must not overlap; with count 0 they may be NULL.
 * Elements of 4 and 6 bits are packed as in Read. A call that fails has not written a byte.
 */
TENMAP_API tenmap_status tenmap_convert(tenmap_dtype to, void *dst, size_t dst_bytes,
                                        tenmap_dtype from, const void *src, uint64_t count,
                                        uint32_t flags, tenmap_error *error);

/*
 * Write
 *
 * Declare metadata and tensors, then give the bytes, in any order and from any thread, then commit.
 * No tensor needs to be in memory whole. The file is written beside the path under a hidden name
 * and renamed at the end, after a sync: a crash, a kill or a full disk at any point leaves what was
 * there before, and at worst one temporary file, which the next writer to that path removes.
 * Models that are open on the old file, in this process or another, keep it.
 *
 * The layout is the reference's, byte for byte: tensors by dtype (wide ones first), then by name;
 * `__metadata__` first in the header, in the caller's order; data contiguous.
 */

typedef struct tenmap_writer tenmap_writer;

/* tenmap_writer_options.flags */
enum {
    /* Tensors in the order of tenmap_writer_add. Some may then be misaligned for their element. */
    TENMAP_WRITER_KEEP_ORDER = 1,
    /*
     * If the path is a symbolic link, replace the file that it leads to. Without this the link
     * itself gives way to the new file, and what it led to is left alone. Other hard links keep the
     * old file in either case.
     */
    TENMAP_WRITER_FOLLOW_LINKS = 2
};

/* Zero is the default for every field. NULL means all defaults. */
typedef struct tenmap_writer_options {
    size_t struct_size;      /* sizeof(tenmap_writer_options) */
    uint32_t data_alignment; /* where the data starts: 0 means 8, a power of two up to 2 MiB */
    uint32_t header_slack;   /* spare bytes kept in the header for later metadata edits */
    uint32_t flags;          /* TENMAP_WRITER_* */
    uint32_t reserved;       /* 0 */
} tenmap_writer_options;

#define TENMAP_WRITER_OPTIONS_INIT                                                                 \
    { sizeof(tenmap_writer_options), 0, 0, 0, 0 }

/*
 * The new file will have the mode and, where permitted, the owner of the file that it replaces,
 * else what the umask gives. Every writer ends in exactly one commit or abort.
 */
TENMAP_API tenmap_status tenmap_writer_create(const char *path,
                                              const tenmap_writer_options *options,
                                              tenmap_writer **out, tenmap_error *error);

/*
 * One pair of `__metadata__`, one tensor. Lengths in bytes or TENMAP_CSTR; everything is copied.
 * Refused: a name or key twice, a tensor called `__metadata__`, text that is not UTF-8, a shape
 * that is not a whole number of bytes. A refused call changes nothing. *id (may be NULL) is the
 * tensor's number from 0 on. Nothing can be added once bytes have been written.
 */
TENMAP_API tenmap_status tenmap_writer_metadata(tenmap_writer *writer, const char *key,
                                                size_t key_len, const char *value, size_t value_len,
                                                tenmap_error *error);
TENMAP_API tenmap_status tenmap_writer_add(tenmap_writer *writer, const char *name, size_t name_len,
                                           tenmap_dtype dtype, const uint64_t *shape, uint32_t rank,
                                           size_t *id, tenmap_error *error);

/*
 * Bytes [offset, offset+bytes) of a tensor in file order (little-endian), from any thread. No byte
 * may be written twice. After a failure of the system the writer can only be ended.
 */
TENMAP_API tenmap_status tenmap_writer_write(tenmap_writer *writer, size_t id, uint64_t offset,
                                             const void *data, size_t bytes, tenmap_error *error);

/*
 * A whole tensor of an open model, which may be another dtype and another shape of as many
 * elements: inside the kernel where the dtypes are the same, else converted (flags: those of
 * tenmap_convert), a few hundred kilobytes at a time.
 */
TENMAP_API tenmap_status tenmap_writer_copy(tenmap_writer *writer, size_t id,
                                            const tenmap_tensor *tensor, uint32_t flags,
                                            tenmap_error *error);

/*
 * All or nothing, and frees the writer in either case. Refused while bytes are missing. Only with
 * TENMAP_OK is the new file known to outlast a power failure; a message that says "replaced,
 * durability unknown" means that it is there, but its folder could not be synced.
 */
TENMAP_API tenmap_status tenmap_writer_commit(tenmap_writer *writer, tenmap_error *error);
/* Leaves no trace. NULL is fine. */
TENMAP_API void tenmap_writer_abort(tenmap_writer *writer);

/*
 * Edit metadata
 *
 * Changes pairs of a single file's `__metadata__`; everything else of the header stays as it is. In
 * place if the new header fits into the old one's length and the file has one name: data does not
 * move, and models that are open go on undisturbed. Else on file systems that can share blocks a
 * new file with the same data, else a copy; both replace the file as a writer does.
 *
 * While a header is changed in place, its length field is 2^64-1, so that readers refuse the file,
 * and a record beside it (".name.tenmap-undo") holds both headers. A crash in between leaves that
 * state; tenmap_open then names the record, and tenmap_repair_metadata settles it.
 */

typedef struct tenmap_edit {
    const char *key;
    size_t key_len;    /* or TENMAP_CSTR */
    const char *value; /* NULL removes the key, if it is there */
    size_t value_len;  /* or TENMAP_CSTR */
} tenmap_edit;

/* tenmap_edit_options.flags */
enum {
    TENMAP_EDIT_NO_IN_PLACE = 1,  /* always a new file */
    TENMAP_EDIT_NO_CLONE = 2,     /* never by sharing blocks */
    TENMAP_EDIT_FOLLOW_LINKS = 4, /* a symbolic link: edit the file that it leads to */
    TENMAP_EDIT_NO_COPY = 8       /* TENMAP_ERR_UNSUPPORTED instead of copying the data */
};

typedef struct tenmap_edit_options {
    size_t struct_size; /* sizeof(tenmap_edit_options) */
    uint32_t flags;     /* TENMAP_EDIT_* */
    uint32_t reserved;  /* 0 */
} tenmap_edit_options;

#define TENMAP_EDIT_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_edit_options), 0, 0 }

enum { TENMAP_EDIT_IN_PLACE = 1, TENMAP_EDIT_CLONED = 2, TENMAP_EDIT_COPIED = 3 }; /* *how */

/* `how` may be NULL. All edits or none. A new file gets about 1 KB of room for later edits. */
TENMAP_API tenmap_status tenmap_edit_metadata(const char *path, const tenmap_edit *edits, size_t n,
                                              const tenmap_edit_options *options, uint32_t *how,
                                              tenmap_error *error);

/* flags, and *how, of tenmap_repair_metadata */
enum { TENMAP_REPAIR_UNDO = 1 /* back to the old header; else on to the new one */ };
enum { TENMAP_REPAIR_NOTHING = 0, TENMAP_REPAIR_FINISHED = 1, TENMAP_REPAIR_UNDONE = 2 };

/*
 * Settles an edit that was interrupted. Refuses, changing nothing, if the record and the file do
 * not belong together. Without a record there is nothing to do, which is no error.
 */
TENMAP_API tenmap_status tenmap_repair_metadata(const char *path, uint32_t flags, uint32_t *how,
                                                tenmap_error *error);

/*
 * Save a model in shards
 *
 * Into a folder that exists: tensors in the order given, a new shard whenever the next tensor would
 * make it larger than max_shard_bytes, then model.safetensors.index.json. A model that fits into
 * one file is saved as model.safetensors, without an index. Where there is no model yet, shards are
 * called model-00001-of-00003.safetensors; over an existing one they get new names
 * (model-<8 hex>-00001-of-...), and the rename of the index, or of model.safetensors, is the one
 * moment at which the new model takes the old one's place. Then the old files are removed. A crash
 * leaves one whole model, and files that the next save removes.
 */

/* One tensor to save: bytes in memory, or a tensor of an open model. */
typedef struct tenmap_source {
    const tenmap_tensor *tensor; /* NULL: data is used, and all fields below count */
    const char *name;            /* NULL: the tensor's own */
    size_t name_len;             /* or TENMAP_CSTR */
    const uint64_t *shape;       /* with a tensor, NULL means its own */
    uint32_t rank;
    tenmap_dtype dtype; /* TENMAP_AS_STORED: the tensor's own; else it is converted */
    const void *data;   /* in file order (little-endian), all of it */
    uint32_t flags;     /* TENMAP_CONVERT_* */
    uint32_t reserved;  /* 0 */
} tenmap_source;

/* tenmap_save_options.flags */
enum {
    /* Old shards stay. Refused where an old model.safetensors would hide the new index. */
    TENMAP_SAVE_KEEP_OLD = 1
};

typedef struct tenmap_save_options {
    size_t struct_size;          /* sizeof(tenmap_save_options) */
    uint64_t max_shard_bytes;    /* of tensor data; 0: 5,000,000,000 */
    uint32_t data_alignment;     /* as in tenmap_writer_options */
    uint32_t header_slack;       /* likewise */
    uint32_t flags;              /* TENMAP_SAVE_* */
    uint32_t reserved;           /* 0 */
    const tenmap_edit *metadata; /* pairs for every shard */
    size_t metadata_count;
} tenmap_save_options;

#define TENMAP_SAVE_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_save_options), 0, 0, 0, 0, 0, 0, 0 }

/* A call that fails before the rename leaves the folder as it was. */
TENMAP_API tenmap_status tenmap_save_sharded(const char *folder, const tenmap_source *sources,
                                             size_t n, const tenmap_save_options *options,
                                             tenmap_error *error);

/*
 * Names and numbers
 */

/* Bits per element; 0 for an unknown one, TENMAP_AS_STORED and TENMAP_OPAQUE. */
TENMAP_API uint32_t tenmap_dtype_bits(tenmap_dtype dtype);
/* "BF16", as headers write it; "UNKNOWN" for an unknown one. Static. */
TENMAP_API const char *tenmap_dtype_name(tenmap_dtype dtype);
/* 1 and *out (may be NULL) if the name is one that headers use, exactly; else 0. */
TENMAP_API int tenmap_dtype_from_name(const char *name, tenmap_dtype *out);
/* "TENMAP_ERR_FORMAT"; "TENMAP_ERR_UNKNOWN" for a value that is none. Static. */
TENMAP_API const char *tenmap_status_name(tenmap_status status);
/* The instruction set that conversions use here: "avx2", "neon" or "scalar". Static. */
TENMAP_API const char *tenmap_cpu_path(void);
/* Of the library at run time: major * 1,000,000 + minor * 1,000 + patch. */
TENMAP_API uint32_t tenmap_version(void);

#ifdef __cplusplus
}
#endif

#endif
