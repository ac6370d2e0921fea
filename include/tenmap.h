/*
 * tenmap: model weights in the SafeTensors and GGUF formats, memory-mapped.
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
 *    tenmap_close needs exclusivity: no other call and no use of a view may run beside it or
 *    follow it.
 *  - With TENMAP_BACKEND_MAP, `data` is the file itself. If another process truncates the file, or
 *    the storage under it fails, touching a page that is gone raises SIGBUS in the thread that
 *    touches it, inside the library too; if another process overwrites it, the bytes change under
 *    you. No library can prevent either. Where files may shrink (network folders, downloads in
 *    progress), open with TENMAP_BACKEND_READ: there every access is a checked read that returns
 *    TENMAP_ERR_IO. Replacing a file by rename is harmless: the model keeps the file that it
 *    opened.
 *  - What the header says is checked completely inside tenmap_open. A model that opened cannot make
 *    the library read outside its file, whatever its bytes. What the tensors mean (values, names,
 *    shapes that your architecture expects) is not checked.
 *  - The library never prints, exits, aborts, or changes signals, locale or the floating-point
 *    mode.
 *  - After fork, the child may go on reading. Each process closes its own handle.
 *  - A model holds one close-on-exec descriptor per shard until it is closed; once it is open, no
 *    path is opened again.
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
/* Of this header, as tenmap_version() says it of the library. */
#define TENMAP_VERSION                                                                             \
    (TENMAP_VERSION_MAJOR * 1000000u + TENMAP_VERSION_MINOR * 1000u + TENMAP_VERSION_PATCH)

/*
 * Libraries can be built without some of their parts, and their programs compiled with the same
 * definitions, so that what is not there is not declared: TENMAP_NO_WRITE, TENMAP_NO_MEASURE and
 * TENMAP_NO_CHECK take those sections, TENMAP_NO_AVX2 and TENMAP_NO_NEON only speed.
 */

/*
 * What stands before every function. Yours if you define it first, as `static` for the two-file form
 * inside one of your own files; or define TENMAP_HIDDEN, and the names stay inside the shared object
 * that they are compiled into. docs/embedding.md has both.
 */
#ifndef TENMAP_API
#if defined(TENMAP_HIDDEN) && (!defined(__GNUC__) || defined(_WIN32))
#define TENMAP_API
#elif defined(TENMAP_HIDDEN)
#define TENMAP_API __attribute__((visibility("hidden")))
#elif defined(_WIN32) && defined(TENMAP_BUILD_SHARED)
#define TENMAP_API __declspec(dllexport)
#elif defined(_WIN32) && defined(TENMAP_USE_SHARED)
#define TENMAP_API __declspec(dllimport)
#elif defined(__GNUC__)
#define TENMAP_API __attribute__((visibility("default")))
#else
#define TENMAP_API
#endif
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
    TENMAP_ERR_RANGE = 10,    /* outside the tensor, the file (options.offset), an integer dtype */
    TENMAP_ERR_BUFFER = 11,   /* destination too small */
    TENMAP_ERR_NO_SPACE = 12, /* disk full, quota used up */
    TENMAP_ERR_CANCELLED = 13
};

/* Element types. Values never change; new ones are appended. */
enum {
    TENMAP_AS_STORED = 0, /* where a dtype is asked for: the tensor's own */
    TENMAP_BOOL = 1,
    TENMAP_F4 = 2,      /* E2M1, two per byte, low nibble first */
    TENMAP_F6_E2M3 = 3, /* 6 bits: element i at bits 6i..6i+5 of a little-endian stream */
    TENMAP_F6_E3M2 = 4, /* likewise */
    TENMAP_U8 = 5,
    TENMAP_I8 = 6,
    TENMAP_F8_E5M2 = 7,
    TENMAP_F8_E4M3 = 8,
    TENMAP_F8_E8M0 = 9,
    TENMAP_F8_E4M3FNUZ = 10,
    TENMAP_F8_E5M2FNUZ = 11,
    TENMAP_I16 = 12,
    TENMAP_U16 = 13,
    TENMAP_F16 = 14,
    TENMAP_BF16 = 15,
    TENMAP_I32 = 16,
    TENMAP_U32 = 17,
    TENMAP_F32 = 18,
    TENMAP_C64 = 19, /* two F32: real, imaginary */
    TENMAP_F64 = 20,
    TENMAP_I64 = 21,
    TENMAP_U64 = 22,
    /*
     * Block dtypes, of GGUF files: so many elements share scales and lie together in so many bytes
     * (tenmap_dtype_block). The values are 62 + the type's number in ggml.
     */
    TENMAP_Q4_0 = 64,
    TENMAP_Q4_1 = 65,
    TENMAP_Q5_0 = 68,
    TENMAP_Q5_1 = 69,
    TENMAP_Q8_0 = 70,
    TENMAP_Q8_1 = 71,
    TENMAP_Q2_K = 72,
    TENMAP_Q3_K = 73,
    TENMAP_Q4_K = 74,
    TENMAP_Q5_K = 75,
    TENMAP_Q6_K = 76,
    TENMAP_Q8_K = 77,
    TENMAP_IQ2_XXS = 78,
    TENMAP_IQ2_XS = 79,
    TENMAP_IQ3_XXS = 80,
    TENMAP_IQ1_S = 81,
    TENMAP_IQ4_NL = 82,
    TENMAP_IQ3_S = 83,
    TENMAP_IQ2_S = 84,
    TENMAP_IQ4_XS = 85,
    TENMAP_IQ1_M = 91,
    TENMAP_TQ1_0 = 96,
    TENMAP_TQ2_0 = 97,
    TENMAP_MXFP4 = 101,
    TENMAP_NVFP4 = 102,
    TENMAP_Q1_0 = 103,
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
    uint64_t index; /* which request, edit or tensor (in file order), where one applies; else 0 */
    /*
     * NUL-terminated UTF-8, one sentence or two, no control characters. For whoever has the model,
     * with remedies in words (docs/errors.md has their flags); only TENMAP_ERR_ARGUMENT, which is for
     * the programmer, names macros.
     */
    char message[480];
} tenmap_error;

/* tenmap_tensor.flags */
enum {
    /*
     * The data is aligned for its element: 1 byte below 16 bits, 4 for C64, for a block dtype as a C
     * struct of its block would be. By its address where it is in memory, by its file offset with
     * TENMAP_BACKEND_READ.
     */
    TENMAP_TENSOR_ALIGNED = 1,
    /*
     * A weight that is stored in parts (TENMAP_OPEN_DEQUANTIZE): data is NULL, and tenmap_read,
     * tenmap_read_slice, tenmap_load, tenmap_measure and the writer's copies compute its values;
     * tenmap_view and tenmap_read_bytes are TENMAP_ERR_UNSUPPORTED. nbytes is the size of a read as
     * its own dtype; shard and file_offset are those of the part that holds the values. Residency is
     * that of all parts, and progress counts their bytes.
     */
    TENMAP_TENSOR_COMPUTED = 2
};

/* One tensor. Owned by the model, reached by pointer, valid until tenmap_close. */
typedef struct tenmap_tensor {
    const char *name; /* UTF-8, NUL-terminated; a hostile name may hold NUL inside: */
    size_t name_len;  /* the length rules */
    tenmap_dtype dtype;
    uint32_t rank; /* 0 for a scalar */
    const uint64_t *shape;
    const void *data; /* into the mapping; NULL with BACKEND_READ, options.io and TENSOR_COMPUTED */
    uint64_t nbytes;
    uint64_t nelems;
    uint64_t file_offset; /* absolute, in its shard's file */
    uint32_t shard;       /* for tenmap_shard_at */
    uint32_t flags;       /* TENMAP_TENSOR_* */
    const tenmap_model *model;
    uint64_t header_position; /* in its file's header as written, from 0 on; __metadata__ aside */
} tenmap_tensor;

/*
 * One file of a model, for pinning, GPU registration and the caller's own I/O. The descriptor and
 * the mapping belong to the model: read with pread, do not move the file offset, do not close. A
 * tensor's bytes are at base + (file_offset - offset), and at file_offset in fd. On Windows it is a
 * descriptor of the C library that tenmap was built with; _get_osfhandle gives the handle.
 */
typedef struct tenmap_shard {
    const char *path; /* as opened; "" for a descriptor or memory */
    int fd;           /* -1 for memory, and after tenmap_detach */
    uint32_t flags;   /* 0 */
    const void *base; /* the model's first byte in memory (NULL with TENMAP_BACKEND_READ) */
    uint64_t size;    /* its length: the file's, unless options.offset or length chose a part */
    uint64_t header_bytes; /* the JSON text, without its 8-byte length field; of GGUF all of it */
    uint64_t data_offset;  /* where the first tensor's bytes may start, absolute in the file */
    size_t first_tensor;   /* this shard's tensors are [first_tensor, first_tensor+tensor_count) */
    size_t tensor_count;   /* of tenmap_at */
    uint64_t offset;       /* options.offset: where the model starts in the file */
    const char *format;    /* "safetensors" or "gguf" */
} tenmap_shard;

/* What a value of metadata is: tenmap_metadata.type, tenmap_value.type. GGUF's own numbers. */
enum {
    TENMAP_VALUE_U8 = 0,
    TENMAP_VALUE_I8 = 1,
    TENMAP_VALUE_U16 = 2,
    TENMAP_VALUE_I16 = 3,
    TENMAP_VALUE_U32 = 4,
    TENMAP_VALUE_I32 = 5,
    TENMAP_VALUE_F32 = 6,
    TENMAP_VALUE_BOOL = 7,
    TENMAP_VALUE_STRING = 8, /* all that SafeTensors has */
    TENMAP_VALUE_ARRAY = 9,
    TENMAP_VALUE_U64 = 10,
    TENMAP_VALUE_I64 = 11,
    TENMAP_VALUE_F64 = 12
};

/*
 * One pair of a file's metadata: of its __metadata__, or of a GGUF file. Both strings are
 * NUL-terminated and may hold NUL inside. Keys are UTF-8; so are the values of SafeTensors, while
 * strings of GGUF are as the file has them.
 */
typedef struct tenmap_metadata {
    const char *key;
    size_t key_len;
    const char *value; /* a number or a BOOL as text: "32", "1e-05", "true"; "" for an array */
    size_t value_len;
    uint32_t shard;
    uint32_t type;         /* TENMAP_VALUE_* */
    uint32_t element_type; /* of an array's elements; else as type */
    uint32_t reserved;     /* 0 */
    uint64_t count;        /* an array's elements; else 1 */
    const void *raw;       /* the bytes as the file has them: little-endian, of any alignment; */
    uint64_t raw_bytes;    /* a string without its length, an array without its type and count */
} tenmap_metadata;

/* A value by itself, for walking through arrays. The caller's; what it points to is the model's. */
typedef struct tenmap_value {
    uint32_t type, element_type; /* these five are as in tenmap_metadata */
    uint64_t count;
    const void *raw;
    uint64_t raw_bytes;
} tenmap_value;

/* options.backend */
enum {
    TENMAP_BACKEND_MAP = 0, /* tensors are views into a read-only shared mapping */
    /*
     * No mapping: data is NULL, every access is a checked pread. If the file's size or time of
     * modification is no longer what it was when it was opened, the access is TENMAP_ERR_IO: the
     * bytes would not be those that were opened.
     */
    TENMAP_BACKEND_READ = 1
};

/* options.flags */
enum {
    /*
     * Also open what a strict reader refuses: all that the flags from TENMAP_OPEN_TRAILING on allow
     * one by one, and what later versions add to them. Never overlap, never out of bounds.
     */
    TENMAP_OPEN_LENIENT = 1,
    /*
     * Open a model some of whose shards are missing, even all: their tensors are absent
     * (tenmap_missing_at). A shard that is there must be whole.
     */
    TENMAP_OPEN_PARTIAL = 2,
    /* tenmap_open_list: of a name in several of its paths, the last one's tensor is taken. */
    TENMAP_OPEN_LATER_WINS = 8,
    /*
     * Weights that are stored in parts (8-bit or packed values, scales, zero points) appear as one
     * tensor each, named and shaped as in the model before it was quantised, with the flag
     * TENMAP_TENSOR_COMPUTED; the parts are not listed (tenmap_part_at). Their dtype is the one that
     * the model computes in: config.json's, else the scales', else BF16. Opening also reads
     * config.json beside the model, where there is one, and a few small tensors that describe shapes.
     * A part that is missing or does not fit is TENMAP_ERR_FORMAT, which TENMAP_OPEN_LENIENT does not
     * excuse; with TENMAP_OPEN_PARTIAL a weight with a missing part is absent, and its other parts are
     * listed as they are, but for codes that have the weight's own name. docs/quantized.md has the
     * schemes, their formulas, and how they are recognised.
     */
    TENMAP_OPEN_DEQUANTIZE = 4,
    /*
     * tenmap_find also takes the names that a writer left out because they share their data with
     * another tensor: pairs "left out": "kept" of __metadata__, or of the index's metadata, whose
     * value is the name of a tensor and whose key is not (safetensors.torch.save_model writes them,
     * and huggingface_hub). They are found only: tenmap_count and tenmap_at have each tensor once.
     */
    TENMAP_OPEN_ALIASES = 16,
    /*
     * Of an index, open only itself: no shard is looked for, and there are no tensors;
     * tenmap_listed_at has their names and tenmap_shard_listed their files, beside the index in
     * tenmap_folder. What has no index opens as without the flag: tenmap_index_json tells.
     */
    TENMAP_OPEN_INDEX_ONLY = 32,
    /* What TENMAP_OPEN_LENIENT allows, one by one. */
    TENMAP_OPEN_TRAILING = 256,        /* bytes after the last tensor */
    TENMAP_OPEN_HOLES = 512,           /* between tensors */
    TENMAP_OPEN_UNKNOWN_DTYPES = 1024, /* as TENMAP_OPAQUE */
    /* An index that lists tensors its shard lacks: they are taken from another, or are not there. */
    TENMAP_OPEN_STALE_INDEX = 2048,
    TENMAP_OPEN_SUBFOLDERS = 4096 /* shards in folders inside the index's; never outside of it */
};

/*
 * Bytes that are not files of this system: an archive, a network, an engine's own VFS. All four
 * functions may be called from any thread, several at a time. Paths are the path given to
 * tenmap_open, or that path with what follows the last '/' before any '?' replaced by the name of a
 * shard; what stands from the '?' on is kept. Two kinds of addresses differ: in one that begins with
 * http:// or https:// a '%', '?' or '#' in the name is percent-encoded, and behind hf:// and s3:// a
 * '?' is a character like any other.
 *
 * `error` is never NULL and starts empty: a function that fails puts its own sentence there, which
 * reaches the caller as it is, and returns a TENMAP_ERR_*.
 */
typedef struct tenmap_io {
    size_t struct_size; /* sizeof(tenmap_io): lets the struct grow */
    /*
     * What `path` names; TENMAP_ERR_NOT_FOUND if there is none. *size is its length in bytes; *file
     * is handed to the others.
     */
    tenmap_status (*open)(void *ctx, const char *path, void **file, uint64_t *size,
                          tenmap_error *error);
    /*
     * Exactly these bytes, inside the size that open gave, or an error. An object that has changed
     * since it was opened is TENMAP_ERR_IO: the library has no other way to know.
     */
    tenmap_status (*read)(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                          tenmap_error *error);
    /* Once for each open that succeeded, when no read of it is under way. */
    void (*close)(void *ctx, void *file);
    /*
     * May be NULL: then no folder can be opened. Calls `entry` with each name in the folder `path`, of
     * at most 1,024 bytes, and ends early, successfully, if that returns anything but 0.
     * TENMAP_ERR_NOT_FOUND if it is no folder. Asked when open did not find the path.
     */
    tenmap_status (*list)(void *ctx, const char *path,
                          int (*entry)(void *entry_ctx, const char *name), void *entry_ctx,
                          tenmap_error *error);
    void *ctx;                /* handed to all of them */
    uint64_t preferred_bytes; /* a good size for one read; 0: the library's choice */
    uint64_t reserved[4];     /* 0 */
} tenmap_io;

#define TENMAP_IO_INIT                                                                             \
    {                                                                                              \
        sizeof(tenmap_io), 0, 0, 0, 0, 0, 0, {                                                     \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* Zero is the default for every field. Start from TENMAP_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_options {
    size_t struct_size; /* sizeof(tenmap_options): lets the struct grow */
    uint32_t backend;   /* TENMAP_BACKEND_* */
    uint32_t flags;     /* TENMAP_OPEN_* */
    /*
     * For opening many shards; 0: the library decides, by the CPUs, or with `io` up to 8, since they
     * wait more than they work. At most 64 are used.
     */
    uint32_t threads;
    uint32_t reserved;         /* 0 */
    uint64_t max_header_bytes; /* 0: 100,000,000, as the reference; also the index's limit */
    uint64_t offset, length;   /* a model inside a larger file; length 0: to the end of the file.
                                  For single files, descriptors and memory only. */
    /*
     * Where the model's files are, instead of on this system; NULL: the system's files. Copied at
     * open; its ctx must live until the model is closed. Nothing is mapped then: the model is as with
     * TENMAP_BACKEND_READ, and its shards have no descriptors. For paths only: with tenmap_open_fd
     * and tenmap_open_memory it is TENMAP_ERR_ARGUMENT.
     */
    const tenmap_io *io;
} tenmap_options;

#define TENMAP_OPTIONS_INIT                                                                        \
    { sizeof(tenmap_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Open
 *
 * On success *out is the model, to be closed with tenmap_close. On failure *out is NULL, everything
 * taken is given back, and the error names the file, the byte offset, what was found and what was
 * expected. The cost is the header's: no tensor byte is read or faulted in.
 *
 * A header or an index that another program changes while it is read is read again, for less than
 * half a second; then it is TENMAP_ERR_IO, which says that an edit is running: never a mix of what
 * was there before an edit in place (tenmap_edit_metadata) and what is there after it.
 *
 * Thread rule: these may be called from any thread. Opening an index with many shards starts
 * threads and joins them before it returns. Library threads block all signals but those that a
 * thread raises itself (SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS): your handler for SIGBUS
 * runs on the thread that touched the page, whichever it is.
 */

/*
 * `path` is a .safetensors file, an index, a GGUF file (all known by their content, not by their
 * names; the first of a GGUF model's parts opens all of them) or a folder. In a
 * folder, the first of these that is there: model.safetensors, model.safetensors.index.json,
 * diffusion_pytorch_model.safetensors, its index; else the only index; else the only complete
 * numbered set (name-00001-of-00005.safetensors); else the only *.safetensors file; else likewise
 * with *.gguf. docs/format.md has the details. The folder that a hub's cache keeps a model in
 * (models--ORG--NAME) opens as the snapshot that its refs/main names, or the only one.
 */
TENMAP_API tenmap_status tenmap_open(const char *path, const tenmap_options *options,
                                     tenmap_model **out, tenmap_error *error);

/*
 * Several files as one model: parts (consolidated.00, consolidated.01), components, a base and what
 * is laid over it. Each of the `n` paths is what tenmap_open takes, indexes and folders too, and is
 * opened by the same options; options.offset and length are for one path only. Shards, tensors and
 * metadata come path after path, in the order given. A name in two paths is TENMAP_ERR_FORMAT, which
 * names both files, unless TENMAP_OPEN_LATER_WINS asks for the later one; inside one path the rules of
 * tenmap_open hold. With TENMAP_OPEN_PARTIAL a path that is not there counts as a missing shard
 * (tenmap_missing_at has it as given).
 *
 * tenmap_path and tenmap_folder are those of the first path; tenmap_index_json is that of the first
 * index, tenmap_listed_at has the listings of all. Where a path cannot be opened error.index is its
 * number, and error.shard counts inside it.
 */
TENMAP_API tenmap_status tenmap_open_list(const char *const *paths, size_t n,
                                          const tenmap_options *options, tenmap_model **out,
                                          tenmap_error *error);

/*
 * A single SafeTensors or GGUF file behind a descriptor that can be read with pread and, for the MAP
 * backend, mapped. The descriptor is duplicated; the caller's stays open, unchanged, its offset
 * untouched.
 */
TENMAP_API tenmap_status tenmap_open_fd(int fd, const tenmap_options *options, tenmap_model **out,
                                        tenmap_error *error);

/*
 * A single SafeTensors or GGUF file in memory. The bytes are borrowed until tenmap_close and must not
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
/*
 * The same tensors in the order in which they are written: shards by file name, then
 * header_position, which in some files is not the order of the data. O(1). NULL past the end.
 */
TENMAP_API const tenmap_tensor *tenmap_at_written(const tenmap_model *model, size_t i);
/*
 * By exact name, O(1) whatever the names are; NULL if there is none. With TENMAP_OPEN_ALIASES the
 * result of another name for a tensor is that tensor, with its own name.
 */
TENMAP_API const tenmap_tensor *tenmap_find(const tenmap_model *model, const char *name);
/* Likewise; `len` in bytes, or TENMAP_CSTR. Finds names that hold NUL. */
TENMAP_API const tenmap_tensor *tenmap_find_n(const tenmap_model *model, const char *name,
                                              size_t len);
/* The path as given to tenmap_open; "" for a descriptor or memory. */
TENMAP_API const char *tenmap_path(const tenmap_model *model);
/*
 * The folder that the model's files lie in, where config.json and the tokenizer would lie: "FOLDER" for
 * "FOLDER/model.safetensors", "." for a path without a folder, the path itself where that is a folder.
 * No '/' stands at its end but for a root. With options.io it is what precedes the last '/' before
 * any '?', "" if there is none. "" for a descriptor or memory.
 */
TENMAP_API const char *tenmap_folder(const tenmap_model *model);
/* Sum over the shards that are open. */
TENMAP_API uint64_t tenmap_file_size(const tenmap_model *model);
TENMAP_API size_t tenmap_shard_count(const tenmap_model *model);
TENMAP_API const tenmap_shard *tenmap_shard_at(const tenmap_model *model, size_t i);
/*
 * The shards that TENMAP_OPEN_PARTIAL found missing, as the index names them, or as tenmap_open_list
 * got them; NULL past the end.
 */
TENMAP_API size_t tenmap_missing_count(const tenmap_model *model);
TENMAP_API const char *tenmap_missing_at(const tenmap_model *model, size_t i);
/*
 * The file that the index lists this tensor in, as the index names it, whether that file is there or
 * not; NULL if the index does not list it, or there is no index. By exact name, O(1).
 */
TENMAP_API const char *tenmap_shard_listed(const tenmap_model *model, const char *name);
/* The names that the index lists, in its order, NUL-terminated; NULL past the end. */
TENMAP_API size_t tenmap_listed_count(const tenmap_model *model);
TENMAP_API const char *tenmap_listed_at(const tenmap_model *model, size_t i);
/* All shards' metadata in shard order, each in header order. */
TENMAP_API size_t tenmap_metadata_count(const tenmap_model *model);
TENMAP_API const tenmap_metadata *tenmap_metadata_at(const tenmap_model *model, size_t i);
/* The value in the first shard that has the key, or NULL. A linear scan. */
TENMAP_API const char *tenmap_metadata_get(const tenmap_model *model, const char *key);
/* The pair's value. Arrays are walked with tenmap_value_next, elements of one width also by raw. */
TENMAP_API void tenmap_metadata_value(const tenmap_metadata *pair, tenmap_value *out);
/*
 * Takes the first element off an array, without copying: 1 and *element, which may be an array too;
 * 0 if there is none, or *array is no array. Neither may be NULL, nor both the same.
 */
TENMAP_API int tenmap_value_next(tenmap_value *array, tenmap_value *element);
/*
 * The text of a value that is no array, as tenmap_metadata.value has it, NUL-terminated in `room`
 * bytes at out and cut if it is longer; its whole length in bytes.
 */
TENMAP_API size_t tenmap_value_text(const tenmap_value *value, char *out, size_t room);
/* The index's text as read, NUL-terminated, its length in *len (may be NULL); NULL if no index. */
TENMAP_API const char *tenmap_index_json(const tenmap_model *model, size_t *len);
/*
 * The dtype as the header writes it, until close: the one way to tell what a TENMAP_OPAQUE tensor is.
 * Unescaped text from the file; "UNKNOWN" for NULL.
 */
TENMAP_API const char *tenmap_dtype_text(const tenmap_tensor *tensor);

/*
 * Read
 *
 * dst is the caller's, of any alignment, dst_bytes long; it must not overlap the model's data. A
 * call that fails for its arguments has not written a byte; one that fails with TENMAP_ERR_IO, or with
 * TENMAP_ERR_RANGE for an integer that does not fit, may have written a part. Elements of 4 and 6 bits
 * are packed: results start at bit 0 of dst, take ceil(count*bits/8) bytes, spare bits 0.
 */

/* flags of whatever converts: reads, requests, copies, tenmap_convert */
enum {
    /*
     * Overflow and infinity become the largest finite value of a floating-point destination, and
     * integers the nearest value that an integer destination has; NaN stays NaN. Without it they
     * become infinity, NaN where the dtype has no infinity, and the largest value where it has neither
     * (F4, F6). A copy to the same dtype changes nothing.
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
 * The bytes themselves, checked: the same dtype (or TENMAP_AS_STORED), aligned for its element,
 * mapped, and a little-endian host, since the file is little-endian. NULL and an error otherwise.
 * TENMAP_OPAQUE tensors are viewed with TENMAP_OPAQUE or TENMAP_AS_STORED.
 */
TENMAP_API const void *tenmap_view(const tenmap_tensor *tensor, tenmap_dtype dtype,
                                   tenmap_error *error);

/*
 * Elements [first, first+count) converted into dst, in the host's byte order, on any backend. Block
 * dtypes are read as floats from any element on; as they are stored, by whole blocks only (else
 * TENMAP_ERR_RANGE), and so with slices and loads.
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

/*
 * The same for bytes that are another dtype than the header says: F4 blocks kept as U8, F8 as I8,
 * BF16 as U16, a dtype that is TENMAP_OPAQUE here. The tensor's bytes are taken for elements of
 * `stored_as`, one after the other, in the file's byte order; `first` and `count` are in those, and
 * TENMAP_AS_STORED as `as` means them. Any dtype of a known width will do, wider or narrower, as long
 * as the tensor's bytes are a whole number of its elements: TENMAP_ERR_UNSUPPORTED otherwise. With
 * TENMAP_AS_STORED as `stored_as` it is tenmap_read.
 */
TENMAP_API tenmap_status tenmap_read_as(const tenmap_tensor *tensor, tenmap_dtype stored_as,
                                        uint64_t first, uint64_t count, tenmap_dtype as, void *dst,
                                        size_t dst_bytes, uint32_t flags, tenmap_error *error);

/* File bytes [offset, offset+bytes) of the tensor as they are: any dtype, opaque ones included. */
TENMAP_API tenmap_status tenmap_read_bytes(const tenmap_tensor *tensor, uint64_t offset,
                                           size_t bytes, void *dst, tenmap_error *error);

/*
 * Weights in parts
 */

/* How a tensor is stored; the library's, until tenmap_close. */
typedef struct tenmap_scheme {
    const char
        *name;     /* "none", "fp8-block", "int4-group", "mxfp4", "q4_k", ...: docs/quantized.md */
    uint32_t bits; /* of a stored value; 0 for "none" */
    uint32_t group_rows;    /* values of so many rows and columns, of the last two axes, */
    uint32_t group_columns; /* share a scale; 0: all of that axis */
    uint32_t part_count;    /* 0 for a tensor that is not computed */
} tenmap_scheme;

/*
 * Never NULL: "none" for NULL and for a tensor that is stored as its elements. Block dtypes have the
 * scheme of their name in lower case, without parts: TENMAP_Q4_K is "q4_k", 4 bits, groups of 1 x 32.
 */
TENMAP_API const tenmap_scheme *tenmap_scheme_of(const tenmap_tensor *tensor);
/*
 * The i-th part of a TENMAP_TENSOR_COMPUTED tensor, as it is stored, the values first; NULL if there
 * are no more. Every call that takes a tensor takes parts; tenmap_at and tenmap_find do not give them.
 */
TENMAP_API const tenmap_tensor *tenmap_part_at(const tenmap_tensor *tensor, uint32_t i);

/*
 * Residency
 *
 * What of a mapped model is in memory. Opening brings nothing in, and the system loads pages as
 * they are touched and drops them when memory is short; these calls say it in advance. They round
 * to whole pages (4 KiB on most systems): bringing in and locking take every page that holds a byte
 * of the tensor, releasing and unlocking only pages that hold nothing of another tensor, so a
 * neighbour's data is never dropped by surprise. On a model with TENMAP_BACKEND_READ or in memory
 * every advice does nothing, successfully.
 *
 * Thread rule: any number of threads may call these, on the same tensors too. A tensor that one
 * thread releases while another uses it is only slower. After fork, prefetching and locks do not
 * carry over to the child; it may give advice of its own.
 */

/* advice */
enum {
    /*
     * Mapped and in memory when it returns. On a file that was truncated since, or whose storage
     * fails, it returns TENMAP_ERR_IO with os_error EFAULT, and never raises a signal. Nothing
     * holds the pages there: if they are more than fits, the first are gone at the end. What is
     * being prefetched anyway is prefetched first, and waited for.
     */
    TENMAP_ADVISE_POPULATE = 1,
    /*
     * The same in the background, in the order of the calls, 16 MiB at a time, on one thread per
     * model that starts with the first such advice and ends with tenmap_close. Nothing reports
     * failure: whoever uses the bytes later meets it. POPULATE each part before it is used: it
     * waits for this thread, where touching what is not there yet reads it a second way.
     */
    TENMAP_ADVISE_PREFETCH = 2,
    /*
     * Unmaps the pages from this process and forgets prefetching of them that has not begun (16 MiB
     * under way may still come in). The page cache may keep them, as memory that the system can
     * take at any time; views stay valid and load again when touched. A system that maps files in
     * huge pages (2 MiB) unmaps those at both ends whole: a neighbour there stays in the page cache
     * and pays one fault when it is next touched.
     */
    TENMAP_ADVISE_RELEASE = 3,
    /*
     * Brought in and kept. TENMAP_ERR_LIMIT if that is over the limit of this process. Locks do not
     * nest. Locked pages must be unlocked before they can be released.
     */
    TENMAP_ADVISE_LOCK = 4,
    TENMAP_ADVISE_UNLOCK = 5
};

/* One tensor of the model, or all of it with NULL. */
TENMAP_API tenmap_status tenmap_advise(const tenmap_model *model, const tenmap_tensor *tensor,
                                       uint32_t advice, tenmap_error *error);

/*
 * Several tensors at once, in any order; they are taken in file order. A page that two neighbours
 * of the list share is inside. A tensor that is NULL or another model's is TENMAP_ERR_ARGUMENT,
 * with its place in error.index; after another error, those before it in the file have been done.
 */
TENMAP_API tenmap_status tenmap_advise_list(const tenmap_model *model,
                                            const tenmap_tensor *const *tensors, size_t count,
                                            uint32_t advice, tenmap_error *error);

/*
 * How many bytes of the tensor (NULL: of all tensors) are mapped in this process, which is what its
 * RSS counts; 0 with TENMAP_BACKEND_READ. TENMAP_ERR_UNSUPPORTED where the system does not tell
 * (Linux tells). Each byte counts for its own tensor only, so answers add up. The answer may be old
 * when it arrives.
 */
TENMAP_API tenmap_status tenmap_resident(const tenmap_model *model, const tenmap_tensor *tensor,
                                         uint64_t *bytes, tenmap_error *error);

/*
 * How many bytes of them are in the page cache, whoever brought them in; 0 for a model in memory.
 * Linux tells this only to those who own the file or may write to it: to others all bytes seem to
 * be there.
 */
TENMAP_API tenmap_status tenmap_cached(const tenmap_model *model, const tenmap_tensor *tensor,
                                       uint64_t *bytes, tenmap_error *error);

/*
 * Load
 *
 * Many tensors, or blocks of them, converted into the caller's buffers, on several threads, in the
 * order in which they lie in the files, whatever their order here.
 */

/* One of them. Zero what you do not use. */
typedef struct tenmap_request {
    const tenmap_tensor *tensor;
    const uint64_t *begin, *end; /* as in tenmap_read_slice; NULL, NULL: the whole tensor */
    tenmap_dtype as;             /* TENMAP_AS_STORED: the tensor's own */
    uint32_t flags;              /* TENMAP_CONVERT_* */
    void *dst;                   /* no byte written by two requests, none inside a model's data */
    size_t dst_bytes;
    /*
     * What the tensor's bytes are taken for, as in tenmap_read_as; TENMAP_AS_STORED: its own dtype.
     * For begin, end and rows the last dimension is scaled, [8, 16] of U8 being [8, 32] of F4 and
     * [8, 4] of F32; a last dimension that is no whole number of elements is TENMAP_ERR_UNSUPPORTED.
     */
    tenmap_dtype stored_as;
    uint32_t reserved; /* 0 */
    /*
     * Bytes from the start of one row in dst to the next; 0: rows lie together. A row is the
     * innermost dimension of the block, or of the tensor; a block of n dimensions has as many rows as
     * the product of the others. The bytes between rows are left alone, so that two requests may
     * interleave theirs. At least the bytes of a row; rows of 4- and 6-bit elements must be whole
     * bytes. dst_bytes must hold (rows - 1) * dst_stride and one row.
     */
    uint64_t dst_stride;
} tenmap_request;

/* load_options.flags */
enum {
    /*
     * Checked reads, as with TENMAP_BACKEND_READ, even on a mapped model: a file that shrinks or
     * changes is TENMAP_ERR_IO and no SIGBUS.
     */
    TENMAP_LOAD_READ = 1,
    /*
     * Likewise, around the page cache, which then keeps what it had: for models that are read once.
     * Where the file system cannot, as TENMAP_LOAD_READ. While it runs, a load holds one more
     * descriptor per shard. A copy without conversion needs no buffer where dst and the data
     * have the same place in a block of 4096 bytes (512 on most disks).
     */
    TENMAP_LOAD_DIRECT = 2
};

/* Start from TENMAP_LOAD_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_load_options {
    size_t struct_size; /* sizeof(tenmap_load_options): lets the struct grow */
    uint32_t threads;   /* 0: the library decides; at most 64 are used, the caller's among them */
    uint32_t flags;     /* TENMAP_LOAD_* */
    /*
     * Called on the caller's thread every few MiB with the bytes of the file that are done, of all
     * that were asked for: first with 0, last with total. Anything but 0 cancels, but for the last.
     */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    /*
     * Called once for each request, never under a lock of the library: with TENMAP_OK on the thread
     * that finished it, as soon as all of its dst is written, several at the same time on several
     * threads; with another status on the caller's thread, when all others have stopped:
     * TENMAP_ERR_CANCELLED for those that were left undone. Not at all if the arguments were wrong.
     */
    void (*done)(void *ctx, size_t request, tenmap_status status);
    void *ctx; /* for both */
} tenmap_load_options;

#define TENMAP_LOAD_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_load_options), 0, 0, NULL, NULL, NULL }

/*
 * All requests must be of this model; with NULL they may be of any models, opened in any way. Loads
 * all of them, or says which could not be: error.index is its number, the message names its
 * tensor. All arguments are checked before a byte is written. With an error or a cancel
 * (TENMAP_ERR_CANCELLED) every thread has stopped when it returns; what was written by then is not
 * defined, but for requests that `done` reported as TENMAP_OK. The callbacks may use the model, but
 * must not close it.
 */
TENMAP_API tenmap_status tenmap_load(const tenmap_model *model, const tenmap_request *requests,
                                     size_t count, const tenmap_load_options *options,
                                     tenmap_error *error);

/*
 * Detach
 *
 * A mapping shows the file: truncate it and its readers die of SIGBUS, overwrite it and their weights
 * change. This reads a mapped model once into memory of this process's own, on huge pages where there
 * are some, and puts it where the mapping was. Every view, tensor.data and shard.base stays valid, at
 * its address, with its bytes, also while it happens, for any number of reading threads. Afterwards
 * the file is closed and may be truncated, replaced, deleted or unmounted.
 *
 * It takes as much memory as the files have bytes; at any time, only what is under way, 16 MiB for each
 * thread, is there twice. options are tenmap_load's: TENMAP_LOAD_DIRECT reads around the page cache,
 * straight into place; progress counts bytes of the files; `done` is called on the caller's thread, by
 * the number of the shard, when that is in memory. Callbacks must not call tenmap_detach or advise.
 *
 * TENMAP_ERR_IO if a file is not as it was when it was opened. After an error or a cancel
 * (TENMAP_ERR_CANCELLED) all bytes can be read as before: some from memory, the rest from the mapping.
 * Calling it again goes on; calling it when all is done does nothing.
 *
 * On what is detached, TENMAP_ADVISE_RELEASE, PREFETCH and POPULATE do nothing, tenmap_cached is 0, and
 * TENMAP_LOAD_READ and DIRECT copy from memory; locks are taken again. Other threads' advice waits until
 * it has ended. shard.fd becomes -1: nobody may use it meanwhile. What a device or another library has
 * registered of the mapping must be registered again. Like tenmap_close it is for the model's owner, but
 * others may read at the same time. A child of fork has the bytes as of the fork.
 *
 * TENMAP_ERR_UNSUPPORTED for models that are not mapped (TENMAP_BACKEND_READ, tenmap_io, memory), and on
 * systems other than Linux.
 */
TENMAP_API tenmap_status tenmap_detach(tenmap_model *model, const tenmap_load_options *options,
                                       tenmap_error *error);

/*
 * Take
 *
 * What an engine wants of a model, in one call: these weights, in this dtype and of this shape. Those
 * that are so already are used where they lie; the others are converted, on several threads, into one
 * allocation, the arena.
 */

/* tenmap_want.flags */
enum {
    TENMAP_WANT_OPTIONAL = 1, /* if there is none of that name, data and tensor are NULL */
    TENMAP_WANT_COPY = 2      /* into the arena even if a view would do: to outlive the model */
};
/*
 * Numbers for the %u in a name, to be or'ed into the flags: the first %u is the layer's, the second
 * the expert's; with only one of the two, there is one %u. Up to 4093; larger ones are
 * TENMAP_ERR_ARGUMENT. Without a number a name is taken as it is.
 *
 *     {.name = "model.layers.%u.mlp.up_proj.weight", .flags = TENMAP_WANT_LAYER(7)}
 */
#define TENMAP_WANT_LAYER(n) (((uint64_t)(n) < 4094u ? (uint32_t)(n) + 1u : 4095u) << 8)
#define TENMAP_WANT_EXPERT(n) (((uint64_t)(n) < 4094u ? (uint32_t)(n) + 1u : 4095u) << 20)

/* In tenmap_want.shape: this dimension may be of any extent. */
#define TENMAP_ANY_EXTENT ((uint64_t)-1)

/* One weight. Zero what you do not use. */
typedef struct tenmap_want {
    const char *name;      /* NUL-terminated; needed during the call only */
    tenmap_dtype as;       /* TENMAP_AS_STORED: whatever it is stored as */
    uint32_t rank;         /* of the shape; with shape NULL: the rank that it must have, 0: any */
    const uint64_t *shape; /* that it must have; NULL: any. Needed during the call only */
    uint32_t flags;        /* TENMAP_WANT_* */
    uint32_t alignment;    /* of data, a power of two up to 2 MiB; 0: the element's */
    /*
     * Out: the weight in the host's byte order, row-major, packed as in Read. A view into the mapping
     * if dtype, alignment, byte order and backend allow it, else a place in the arena, which begins on
     * a cache line (64 bytes).
     */
    const void *data;
    const tenmap_tensor *tensor; /* out: where it came from; until close */
    uint64_t reserved[2];        /* 0 */
} tenmap_want;

typedef struct tenmap_arena tenmap_arena;

/*
 * Fills data and tensor of every want, or says in one error which could not be had: the first few by
 * name, each with what is wrong with it, then how many more. Its status is that of the first of them,
 * whose number is error.index: TENMAP_ERR_NOT_FOUND for one that is missing, TENMAP_ERR_RANGE for
 * another shape, TENMAP_ERR_UNSUPPORTED for a dtype that does not convert. On failure all data and
 * tensor are NULL, *arena too, and nothing is kept.
 *
 * *arena is NULL when all are views; else end it with tenmap_arena_free. It is memory of its own on
 * huge pages (tenmap_alloc), which outlives the model; views do not. All tensors of a model without a
 * mapping are copied. Conversion is tenmap_read's. A name may be wanted twice.
 *
 * options are tenmap_load's, whose rules hold for progress and cancelling; progress counts the bytes
 * that are copied. `done` is called once for each want, by its number, with data in place: for views,
 * and for optional ones that are missing, on the caller's thread before the load begins.
 */
TENMAP_API tenmap_status tenmap_take(const tenmap_model *model, tenmap_want *wants, size_t n,
                                     const tenmap_load_options *options, tenmap_arena **arena,
                                     tenmap_error *error);
/* NULL is fine; any thread may. */
TENMAP_API void tenmap_arena_free(tenmap_arena *arena);

/*
 * Memory for destinations: zeroed, aligned to 2 MiB, on huge pages where the system has them, which
 * makes its first use several times cheaper than malloc's. Meant for whole models and layers, not
 * for small pieces: each takes whole pages and one more. NULL if memory is out. NULL is fine to
 * free; any thread may.
 */
TENMAP_API void *tenmap_alloc(size_t bytes);
TENMAP_API void tenmap_free(void *memory);

/*
 * Convert
 *
 * Every floating-point dtype to every other, integers and BOOL to every floating-point dtype and to
 * each other, any dtype to itself as a copy. Floating point: correctly rounded, once, to nearest, ties
 * to even; the same bits on every CPU path, whatever the caller set for denormals (the rounding mode is
 * assumed to be nearest). Integers to integers: the same value, or TENMAP_ERR_RANGE, whose message names
 * the first element that does not fit, with its value (of copies on several threads, the first one that
 * was met); with TENMAP_CONVERT_SATURATE the nearest value that fits. BOOL counts as 0 and 1. Floating
 * point to integer or BOOL, and C64 to anything but itself, are TENMAP_ERR_UNSUPPORTED.
 *
 * Block dtypes convert to every floating-point dtype: to F32 by the formula of their format, then
 * rounded once more where something narrower is wanted; a NaN is 0x7fc00000 before that. Nothing
 * converts into them.
 */

/*
 * `count` elements in the host's byte order at src become elements in the host's byte order at dst;
 * no model is involved. Any alignment; the buffers must not overlap; with count 0 they may be NULL.
 * Elements of 4 and 6 bits are packed as in Read. Blocks are as files have them, on every host, and
 * src begins with a whole one. A call that fails has not written a byte. After
 * TENMAP_ERR_RANGE error.index is the number of the element.
 */
TENMAP_API tenmap_status tenmap_convert(tenmap_dtype to, void *dst, size_t dst_bytes,
                                        tenmap_dtype from, const void *src, uint64_t count,
                                        uint32_t flags, tenmap_error *error);

/*
 * What a conversion did to elements beyond rounding them. C64 counts in parts. To F8_E8M0, which has
 * neither zero nor sign, zeros and negative numbers count as overflowed; nothing becomes zero there.
 */
typedef struct tenmap_losses {
    /*
     * Became infinity, NaN or the largest value, though they were none of these: finite ones beyond
     * the largest, decided after rounding, and infinities that did not stay infinite.
     */
    uint64_t overflowed;
    uint64_t flushed; /* became zero, though they were not */
    uint64_t nans;    /* were NaN already */
    uint64_t reserved[5];
} tenmap_losses;

/*
 * tenmap_convert, and what it lost: *losses is set on success, left alone on failure; NULL counts
 * nothing. The source is looked at while it is in the cache.
 */
TENMAP_API tenmap_status tenmap_convert_counted(tenmap_dtype to, void *dst, size_t dst_bytes,
                                                tenmap_dtype from, const void *src, uint64_t count,
                                                uint32_t flags, tenmap_losses *losses,
                                                tenmap_error *error);

#ifndef TENMAP_NO_WRITE
/*
 * Write
 *
 * Declare metadata and tensors, give the bytes in any order from any thread, commit. The layout is
 * the reference's, byte for byte. The file appears whole or not at all: a crash, a kill or a full
 * disk leaves what was there, and at worst a hidden temporary, which the next writer to that path
 * removes. Models that are open on the old file keep it. docs/writing.md has the details.
 */

typedef struct tenmap_writer tenmap_writer;

/* tenmap_writer_options.flags */
enum {
    TENMAP_WRITER_KEEP_ORDER = 1, /* tensors as they are added; some may be misaligned then */
    /* Replace the file that a symbolic link leads to; without it the link itself gives way. */
    TENMAP_WRITER_FOLLOW_LINKS = 2
};

/* Zero is the default for every field; NULL means all defaults. So with all options below. */
typedef struct tenmap_writer_options {
    size_t struct_size;
    uint32_t data_alignment; /* where the data starts: 0 means 8, a power of two up to 2 MiB */
    uint32_t header_slack;   /* spare header bytes for later metadata edits; up to 100,000,000 */
    uint32_t flags, reserved;
} tenmap_writer_options;

#define TENMAP_WRITER_OPTIONS_INIT                                                                 \
    { sizeof(tenmap_writer_options), 0, 0, 0, 0 }

/*
 * Every writer ends in one commit or abort. The file gets the mode and, where permitted, the owner of
 * the one before, and never wider rights. What is no regular file is not replaced.
 */
TENMAP_API tenmap_status tenmap_writer_create(const char *path,
                                              const tenmap_writer_options *options,
                                              tenmap_writer **out, tenmap_error *error);
/*
 * Lengths in bytes or TENMAP_CSTR; everything is copied. Names and keys are UTF-8, each there once,
 * no tensor is called `__metadata__`. A refused call changes nothing. *id (may be NULL) counts from
 * 0. Nothing can be added once bytes have been written.
 */
TENMAP_API tenmap_status tenmap_writer_metadata(tenmap_writer *writer, const char *key,
                                                size_t key_len, const char *value, size_t value_len,
                                                tenmap_error *error);
TENMAP_API tenmap_status tenmap_writer_add(tenmap_writer *writer, const char *name, size_t name_len,
                                           tenmap_dtype dtype, const uint64_t *shape, uint32_t rank,
                                           size_t *id, tenmap_error *error);
/* File-order (little-endian) bytes; none may be written twice. A failure of the system is final. */
TENMAP_API tenmap_status tenmap_writer_write(tenmap_writer *writer, size_t id, uint64_t offset,
                                             const void *data, size_t bytes, tenmap_error *error);
/*
 * A whole tensor of an open model, converted (TENMAP_CONVERT_* flags) if the dtypes differ. On every
 * backend, a file whose size or time of modification is no longer what it was when it was opened is
 * TENMAP_ERR_IO, and the writer can only be aborted; so it is in lists and in sharded saves.
 */
TENMAP_API tenmap_status tenmap_writer_copy(tenmap_writer *writer, size_t id,
                                            const tenmap_tensor *tensor, uint32_t flags,
                                            tenmap_error *error);

/* Where the bytes of a tensor to be written come from. */
typedef struct tenmap_source {
    const tenmap_tensor *tensor; /* of an open model; NULL: data is used, and all fields count */
    const char *name;            /* NULL: the tensor's own */
    size_t name_len;             /* or TENMAP_CSTR */
    const uint64_t *shape;       /* with a tensor, NULL means its own */
    uint32_t rank;
    tenmap_dtype dtype; /* TENMAP_AS_STORED: the tensor's own; else it is converted */
    const void *data;   /* all of it, in file order (little-endian) */
    uint32_t flags;     /* TENMAP_CONVERT_* */
    uint32_t reserved;
} tenmap_source;

/* How many tensors are copied. Start from TENMAP_COPY_OPTIONS_INIT. */
typedef struct tenmap_copy_options {
    size_t struct_size;
    uint32_t threads; /* 0: the library decides; at most 64 are used, the caller's among them */
    uint32_t flags;   /* 0 */
    /*
     * On the caller's thread, in bytes of the sources: first with 0, every few MiB, last with total.
     * Anything but 0 cancels.
     */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    /*
     * One for each source, or NULL: what its conversion lost, set when the call succeeds and of no
     * value when it fails. Sources that keep their dtype are copied without a look: all 0.
     */
    tenmap_losses *losses;
} tenmap_copy_options;

#define TENMAP_COPY_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_copy_options), 0, 0, NULL, NULL, NULL }

/*
 * Source i becomes tensor i of the writer, for all n, on several threads, in memory of a few MiB. Of
 * a source only tensor, data and flags count here: the rest was declared. All sources are checked
 * before a byte is written; error.index says which failed. After a failure or a cancel
 * (TENMAP_ERR_CANCELLED) no thread is left, and the writer can only be aborted.
 */
TENMAP_API tenmap_status tenmap_writer_copy_list(tenmap_writer *writer,
                                                 const tenmap_source *sources, size_t n,
                                                 const tenmap_copy_options *options,
                                                 tenmap_error *error);

/*
 * All or nothing; frees the writer in either case. Refused while bytes are missing. "Replaced,
 * durability unknown" in the message: the file is there, but its folder could not be synced.
 */
TENMAP_API tenmap_status tenmap_writer_commit(tenmap_writer *writer, tenmap_error *error);
TENMAP_API void tenmap_writer_abort(tenmap_writer *writer); /* leaves no trace; NULL is fine */

/*
 * Edit metadata: in place if the new header fits into the old one and the file has one name, else as
 * a new file that shares the data's blocks, else as a copy. A crash in the middle of an edit in place
 * leaves a file that no reader opens and a record beside it; tenmap_open's error names the record.
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
    size_t struct_size;
    uint32_t flags, reserved;
} tenmap_edit_options;

#define TENMAP_EDIT_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_edit_options), 0, 0 }

enum { TENMAP_EDIT_IN_PLACE = 1, TENMAP_EDIT_CLONED = 2, TENMAP_EDIT_COPIED = 3 }; /* *how */

/* All edits or none; *how (may be NULL) says which way. */
TENMAP_API tenmap_status tenmap_edit_metadata(const char *path, const tenmap_edit *edits, size_t n,
                                              const tenmap_edit_options *options, uint32_t *how,
                                              tenmap_error *error);

/* A tensor and what it is to be called. */
typedef struct tenmap_renaming {
    const char *name;
    size_t name_len; /* or TENMAP_CSTR */
    const char *new_name;
    size_t new_name_len; /* or TENMAP_CSTR */
} tenmap_renaming;

/*
 * Other names for tensors of one file, and edits of its metadata (may be none), in one step and by the
 * ways of tenmap_edit_metadata: neither data nor the order of the tensors changes. All names or none,
 * and all at once, so that tensors can swap theirs. Refused, with error.index: TENMAP_ERR_NOT_FOUND
 * for a tensor that is not there; TENMAP_ERR_ARGUMENT for one that is given twice, a name that two
 * would have, "__metadata__", and what is not UTF-8. Files that list names elsewhere are not changed,
 * so a file whose name is that of a shard ("-00001-of-00003") is refused too: save such a model anew.
 */
TENMAP_API tenmap_status tenmap_rename(const char *path, const tenmap_renaming *names, size_t n,
                                       const tenmap_edit *edits, size_t edit_count,
                                       const tenmap_edit_options *options, uint32_t *how,
                                       tenmap_error *error);

enum { TENMAP_REPAIR_UNDO = 1 }; /* flags: back to the old header; else on to the new one */
enum { TENMAP_REPAIR_NOTHING = 0, TENMAP_REPAIR_FINISHED = 1, TENMAP_REPAIR_UNDONE = 2 }; /* *how */

/*
 * Settles an interrupted edit or renaming; refuses if the record and the file do not belong together,
 * and writes nothing but a header with the same dtypes, shapes and offsets.
 */
TENMAP_API tenmap_status tenmap_repair_metadata(const char *path, uint32_t flags, uint32_t *how,
                                                tenmap_error *error);

/*
 * Save in shards, into a folder that exists: a new shard whenever the next tensor would make one
 * larger than max_shard_bytes, then the index; what fits into one file becomes model.safetensors.
 * Over an existing model, a rename is the one moment of change, and the old files go after it.
 */

/* tenmap_save_options.flags */
enum {
    TENMAP_SAVE_KEEP_OLD = 1,  /* old shards stay */
    TENMAP_SAVE_KEEP_ORDER = 2 /* as TENMAP_WRITER_KEEP_ORDER, in each shard */
};

typedef struct tenmap_save_options {
    size_t struct_size;
    uint64_t max_shard_bytes;              /* of tensor data; 0: 5,000,000,000 */
    uint32_t data_alignment, header_slack; /* as in tenmap_writer_options */
    uint32_t flags, reserved;
    const tenmap_edit *metadata; /* pairs for every shard */
    size_t metadata_count;
    const tenmap_copy_options *copy; /* threads, progress over all shards; NULL: defaults */
} tenmap_save_options;

#define TENMAP_SAVE_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_save_options), 0, 0, 0, 0, 0, NULL, 0, NULL }

/* A call that fails before the rename leaves the folder as it was. */
TENMAP_API tenmap_status tenmap_save_sharded(const char *folder, const tenmap_source *sources,
                                             size_t n, const tenmap_save_options *options,
                                             tenmap_error *error);
#endif

/*
 * Check
 *
 * What tenmap_open decides, with all its reasons and everything that is merely odd.
 */

/* tenmap_finding.severity */
enum {
    TENMAP_FINDING_NOTE = 1,    /* allowed, and worth knowing */
    TENMAP_FINDING_WARNING = 2, /* opens, but something is likely not as it was meant */
    TENMAP_FINDING_ERROR = 3    /* tenmap_open refuses the model with these options */
};

/*
 * tenmap_finding.code: what kind of finding. Values never change; new ones are appended. These are
 * errors, but for those that options.flags allow, which are warnings then:
 */
enum {
    TENMAP_FOUND_UNREADABLE = 1,      /* a shard that the system does not let us read */
    TENMAP_FOUND_MISSING_SHARD = 2,   /* one for all together, then one for each */
    TENMAP_FOUND_FOREIGN = 3,         /* not a SafeTensors file: a Git LFS pointer, a zip, ... */
    TENMAP_FOUND_LIMIT = 4,           /* max_header_bytes, the most shards, the most tensors */
    TENMAP_FOUND_TRUNCATED = 5,       /* the file is shorter than its header says */
    TENMAP_FOUND_JSON = 6,            /* not UTF-8, not JSON; ends the check of that header */
    TENMAP_FOUND_ENTRY = 7,           /* an entry that is not dtype, shape and data_offsets */
    TENMAP_FOUND_METADATA = 8,        /* not an object of strings, or there twice */
    TENMAP_FOUND_DTYPE = 9,           /* an unknown one */
    TENMAP_FOUND_DUPLICATE_NAME = 10, /* of a tensor, in a header or in the index */
    TENMAP_FOUND_DUPLICATE_KEY = 11,  /* in __metadata__ */
    TENMAP_FOUND_OFFSETS = 12,        /* data_offsets that end before they begin */
    TENMAP_FOUND_OVERLAP = 13,
    TENMAP_FOUND_HOLE = 14,
    TENMAP_FOUND_OVERFLOW = 15,     /* a size that 64 bits do not hold */
    TENMAP_FOUND_PART_OF_BYTE = 16, /* 4- or 6-bit elements that end inside a byte */
    TENMAP_FOUND_SIZE = 17,         /* data_offsets and shape do not agree */
    TENMAP_FOUND_TRAILING = 18,     /* bytes after the last tensor */
    TENMAP_FOUND_INCOMPLETE = 19,   /* a tensor that a truncated file has not, or not all of */
    TENMAP_FOUND_INDEX = 20,        /* not JSON, or no weight_map */
    TENMAP_FOUND_SHARD_NAME = 21,   /* a shard that would lie outside of the index's folder */
    /* Listed in a shard that lacks it (an error); in another shard than listed (a warning). */
    TENMAP_FOUND_NOT_IN_SHARD = 22,
    /* Oddities: warnings, or notes where nothing can come of it. */
    TENMAP_FOUND_NOT_LISTED = 23,    /* in a shard, but not in the index */
    TENMAP_FOUND_IN_TWO_SHARDS = 24, /* an error where no index says which one counts */
    TENMAP_FOUND_EXTRA_SHARD = 25,   /* a numbered file beside the index that it does not name */
    TENMAP_FOUND_TOTAL_SIZE = 26,    /* the index's: missing (a note), or wrong */
    TENMAP_FOUND_MISALIGNED = 27,    /* a tensor that cannot be used in place */
    TENMAP_FOUND_DATA_START = 28,    /* the data does not begin at a multiple of 8 */
    TENMAP_FOUND_WHITE_SPACE = 29,   /* around or inside the header's JSON */
    TENMAP_FOUND_SLACK = 30,         /* a header that is longer than it need be */
    TENMAP_FOUND_ORDER = 31,         /* the header's order is not that of the data */
    TENMAP_FOUND_UNKNOWN_FIELD = 32, /* in a tensor's entry */
    TENMAP_FOUND_NO_FORMAT = 33,     /* no "format" in the metadata */
    TENMAP_FOUND_EMPTY_TENSOR = 34,
    TENMAP_FOUND_NO_TENSORS = 35,
    TENMAP_FOUND_NAME = 36,             /* empty, a control character, outer spaces, __x__ */
    TENMAP_FOUND_INTERRUPTED_EDIT = 37, /* the record of one lies beside the file */
    /* With TENMAP_OPEN_DEQUANTIZE: parts of a weight that do not fit, or config.json does (an error). */
    TENMAP_FOUND_PARTS = 38
};

/* tenmap_finding.shard of what concerns the index, the folder or the model as a whole. */
#define TENMAP_NO_SHARD ((uint32_t)-1)

/* One finding. It and its strings live until the callback returns. */
typedef struct tenmap_finding {
    uint32_t severity;   /* TENMAP_FINDING_* */
    uint32_t code;       /* TENMAP_FOUND_* */
    uint32_t shard;      /* by file name, missing ones counted; 0 for a single file */
    uint32_t reserved;   /* 0 */
    uint64_t offset;     /* in that file, where one applies; else 0 */
    const char *tensor;  /* its name, NUL-terminated, where one applies; else NULL */
    const char *message; /* a sentence, as in tenmap_error: it names the file and the tensor */
} tenmap_finding;

#ifndef TENMAP_NO_CHECK
/*
 * Calls `found` with everything that is wrong or odd about what `path` holds, on the caller's
 * thread, in the order in which it is met. If tenmap_open refuses the model with these options,
 * there is at least one error, and the first is tenmap_open's; if it opens, there is none. (Limits
 * of the process, its descriptors and its address space, are not looked at: shards are opened one at
 * a time, and none is mapped.) After a broken rule
 * the check goes on with the next tensor and the next shard; only text that is not JSON ends it for
 * that file. Of each code and severity the first 32 come one by one; in the end one finding says
 * how many more there were.
 *
 * TENMAP_OK if the check could be carried out, whatever it found. Otherwise, as with a path that
 * does not exist or a folder without one model in it, the error says why; findings may have come
 * before it. Reads headers only, no tensor data; time and memory are linear in them (but for a sort
 * where tensors are out of order). options.backend and threads do not matter.
 */
TENMAP_API tenmap_status tenmap_check(const char *path, const tenmap_options *options,
                                      void (*found)(void *ctx, const tenmap_finding *finding),
                                      void *ctx, tenmap_error *error);

/* "hole" for TENMAP_FOUND_HOLE, for machines; "unknown" for a value that is none. Static. */
TENMAP_API const char *tenmap_found_name(uint32_t code);
#endif

#ifndef TENMAP_NO_MEASURE
/*
 * Measure
 *
 * What the values of tensors are like, in one pass over them at close to the speed of memory: a
 * reduction that never has a whole tensor in memory.
 */

/*
 * Of one tensor; the caller's. BOOL counts as 0 and 1, C64 as twice as many F32, block dtypes as F32;
 * U64 and I64 beyond 2^53 are rounded to F64 first. NaN and infinities are counted and otherwise left out.
 */
typedef struct tenmap_stats {
    uint64_t count;      /* elements (C64: parts) */
    uint64_t zeros;      /* of either sign */
    uint64_t subnormals; /* as the dtype has them: not zero, and below its least normal number */
    uint64_t nans, infinities;
    double min, max; /* of the finite values; NaN where there are none */
    double mean;     /* likewise */
    double std;      /* likewise: the population's, sum((x - mean)^2) / n under the root */
    double norm;     /* sqrt(sum(x^2)) of the finite values; 0 where there are none */
    uint64_t reserved[4];
} tenmap_stats;

/* Start from TENMAP_STATS_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_stats_options {
    size_t struct_size; /* sizeof(tenmap_stats_options): lets the struct grow */
    uint32_t threads;   /* 0: the library decides; at most 64 are used, the caller's among them */
    uint32_t flags;     /* 0 */
    uint32_t bins;      /* of the histogram, with one; else 0 */
    uint32_t reserved;  /* 0 */
    /*
     * The range of every histogram; low == high: each tensor's own, from its min to its max, which
     * takes a second pass. Bin b counts edge(b) <= x < edge(b + 1), the last one x == high too, and
     * edge(b) is low + b * ((high - low) / bins), each operation rounded to F64: exactly what
     * numpy.histogram(x, numpy.linspace(low, high, bins + 1)) counts of x as float64. What is outside,
     * NaN and infinities are in no bin. A tensor of equal values has all of them in bin 0 of its own range. Where more bins than
     * numbers lie between low and high some begin at the same one: the last of them counts.
     */
    double low, high;
    uint64_t *histogram; /* n * bins counts, tensor after tensor; NULL: none */
    /* As in tenmap_load_options: on the caller's thread, bytes done of all; not 0 cancels. */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
} tenmap_stats_options;

#define TENMAP_STATS_OPTIONS_INIT                                                                  \
    { sizeof(tenmap_stats_options), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL }

/*
 * Measures n tensors, of one model or of several, on any backend, into out[0..n). Counts, min and max
 * are exact. std and norm are right to 1e-12 of themselves, mean to 1e-12 of the larger of itself and
 * std, for every dtype, whatever the values: also where std is tiny beside the mean, where squares
 * would overflow or underflow, and where outliers are. Except for
 * - results below the least normal F64, 2.2e-308: they are right to 4.9e-324;
 * - a norm beyond the largest F64, which is infinite (mean and std cannot be beyond it);
 * - U64 and I64 beyond 2^53, see above: it is the rounded ones that are measured.
 * The numbers do not depend on the number of threads, and the paths for different CPUs give the same
 * bits. Nor do they depend on what the caller set for denormals, but for mean, std and norm of F64
 * subnormals.
 *
 * TENMAP_OPAQUE is TENMAP_ERR_UNSUPPORTED, before anything is read. error.index is the tensor's
 * number. After an error or a cancel (TENMAP_ERR_CANCELLED) what is in out and in the histogram is
 * not defined. What the page cache lacks of a mapped tensor is brought in as with
 * TENMAP_ADVISE_POPULATE, a few MiB at a time.
 */
TENMAP_API tenmap_status tenmap_measure(const tenmap_tensor *const *tensors, size_t n,
                                        const tenmap_stats_options *options, tenmap_stats *out,
                                        tenmap_error *error);
#endif

/*
 * Names and numbers
 */

/* Bits per element; 0 for a block dtype, an unknown one, TENMAP_AS_STORED and TENMAP_OPAQUE. */
TENMAP_API uint32_t tenmap_dtype_bits(tenmap_dtype dtype);
/*
 * The elements that lie together in whole bytes, and those bytes: 32 and 18 for TENMAP_Q4_0, 4 and 3
 * for TENMAP_F6_E2M3, 1 and 4 for TENMAP_F32. 1, and *elements and *bytes (each may be NULL); 0, and
 * they are left alone, for an unknown dtype, TENMAP_AS_STORED and TENMAP_OPAQUE.
 */
TENMAP_API int tenmap_dtype_block(tenmap_dtype dtype, uint32_t *elements, uint32_t *bytes);
enum {
    TENMAP_KIND_NONE = 0, /* of an unknown dtype, TENMAP_AS_STORED and TENMAP_OPAQUE */
    TENMAP_KIND_BOOL = 1,
    TENMAP_KIND_UINT = 2,
    TENMAP_KIND_INT = 3,
    TENMAP_KIND_FLOAT = 4,
    TENMAP_KIND_COMPLEX = 5
};
/* What kind of number an element is: TENMAP_KIND_*; those of block dtypes are floating-point. */
TENMAP_API uint32_t tenmap_dtype_kind(tenmap_dtype dtype);
/* "BF16", as headers write it, "Q4_K" as ggml does; "UNKNOWN" for an unknown one. Static. */
TENMAP_API const char *tenmap_dtype_name(tenmap_dtype dtype);
/* 1 and *out (may be NULL) if it is exactly the name that tenmap_dtype_name gives; else 0. */
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
