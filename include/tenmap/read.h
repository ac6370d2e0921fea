/*
 * tenmap: open a model, look into it, read and load its tensors, control what stays in memory. This
 * is what an inference engine needs. The opening comment of tenmap.h has the rules for all calls.
 * convert.h has the rules and the flags of conversions; io.h is for models that are not files;
 * quantized.h has the parts of quantized weights.
 */
#ifndef TENMAP_INCLUDE_READ_H
#define TENMAP_INCLUDE_READ_H

#include "convert.h"
#include "io.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tenmap_tensor.flags */
enum {
    /*
     * The data is aligned for its elements: to 1 byte if they are narrower than 16 bits, to 4 bytes
     * for C64, and for block dtypes as a C struct of the block would be. What counts is the address
     * or, with TENMAP_BACKEND_READ, the file offset.
     */
    TENMAP_TENSOR_ALIGNED = 1,
    /*
     * A quantized weight (TENMAP_OPEN_DEQUANTIZE), or a tensor whose elements do not lie one after
     * the other (scheme "strided"). `data` is NULL. Reads, slices, loads, tenmap_measure and the
     * writer's copies compute its values, or copy its elements bit for bit; tenmap_view and
     * tenmap_read_bytes return TENMAP_ERR_UNSUPPORTED. nbytes is the size of a read as its own
     * dtype; shard and file_offset are those of the codes, or of the first element. Residency and
     * progress count all parts. The only part of a strided tensor is the range of the file from its
     * first element to its last, which other tensors may share.
     */
    TENMAP_TENSOR_COMPUTED = 2
};

/* One tensor. Owned by the model, reached by pointer, valid until tenmap_close. */
typedef struct tenmap_tensor {
    const char *name; /* UTF-8, NUL-terminated. A hostile name may hold NUL inside: */
    size_t name_len;  /* this length is authoritative. */
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
    uint64_t header_position; /* in its file's header, from 0; __metadata__ does not count */
} tenmap_tensor;

/*
 * One file of a model, for pinning, GPU registration and the caller's own I/O. The descriptor and
 * the mapping belong to the model: read with pread, do not move the file offset, and do not close
 * it. A tensor's bytes are at base + (file_offset - offset) in memory and at file_offset in fd. On
 * Windows fd belongs to the C library that tenmap was built with; _get_osfhandle gives the handle.
 */
typedef struct tenmap_shard {
    const char *path; /* as opened; "" for a descriptor or memory */
    int fd;           /* -1 for memory, with options.io, and after tenmap_detach */
    uint32_t flags;   /* 0 */
    const void *base; /* this shard's first byte in memory; NULL with BACKEND_READ and options.io */
    uint64_t size;    /* in bytes: the file's, unless options.offset or length select a range */
    /* The JSON text without its 8-byte length field; all of a GGUF or .npy header; a PyTorch file's
       pickle with the table of its storages; a .npz file's headers with the table of its arrays */
    uint64_t header_bytes;
    uint64_t data_offset; /* where the first tensor's bytes may start, absolute in the file */
    size_t first_tensor;  /* this shard's tensors are [first_tensor, first_tensor+tensor_count) */
    size_t tensor_count;  /* of tenmap_at */
    uint64_t offset;      /* options.offset: where the model starts in the file */
    const char *format;   /* "safetensors", "gguf", "pytorch", "npy" or "npz" */
    /* Of a PyTorch file whose tensors lie under one key of its root: that key, "state_dict", and
       how many tensors other branches hold, which TENMAP_OPEN_BRANCHES would list. Else NULL, 0. */
    const char *branch;
    uint64_t other_tensors;
} tenmap_shard;

/*
 * One pair of a file's metadata: of __metadata__, or of a GGUF file. Both strings are
 * NUL-terminated and may also contain NUL. Keys and SafeTensors values are UTF-8; GGUF strings are
 * as the file has them.
 */
typedef struct tenmap_metadata {
    const char *key;
    size_t key_len;
    const char *value; /* a number or a BOOL as text: "32", "1e-05", "true"; "" for an array */
    size_t value_len;
    uint32_t shard;
    uint32_t type;         /* TENMAP_VALUE_* */
    uint32_t element_type; /* of an array's elements; otherwise equal to type */
    uint32_t reserved;     /* 0 */
    uint64_t count;        /* an array's elements; otherwise 1 */
    const void *raw;       /* the bytes as the file has them: little-endian, of any alignment; */
    uint64_t raw_bytes;    /* a string without its length, an array without its type and count */
} tenmap_metadata;

/* A value by itself, for walking through arrays. The caller owns it; it points into the model. */
typedef struct tenmap_value {
    uint32_t type, element_type; /* these five are as in tenmap_metadata */
    uint64_t count;
    const void *raw;
    uint64_t raw_bytes;
} tenmap_value;

/* options.backend */
enum {
    /* Tensors are views into a shared, read-only mapping (private with TENMAP_OPEN_PRIVATE). */
    TENMAP_BACKEND_MAP = 0,
    /*
     * No mapping: `data` is NULL, and every access is a checked pread, which is TENMAP_ERR_IO if
     * the file's size or modification time has changed since it was opened.
     */
    TENMAP_BACKEND_READ = 1
};

/* options.flags */
enum {
    /*
     * Also open files that a strict reader refuses: everything that TENMAP_OPEN_TRAILING and the
     * flags after it allow, including flags that later versions add. Tensors that overlap or lie
     * out of bounds are never allowed.
     */
    TENMAP_OPEN_LENIENT = 1,
    /*
     * Some or all shards may be missing (tenmap_missing_at): their tensors are absent. A shard that
     * is present must be complete.
     */
    TENMAP_OPEN_PARTIAL = 2,
    /* tenmap_open_list: of several tensors with the same name, the last path's is used. */
    TENMAP_OPEN_LATER_WINS = 8,
    /*
     * Show each quantized weight (codes, scales, zero points) as one tensor, with its name and
     * shape from before it was quantized and the flag TENMAP_TENSOR_COMPUTED. Its parts are not
     * listed (tenmap_part_at gives them). Its dtype is the one that the model computes in:
     * config.json's, else the scales', else BF16. Opening also reads config.json beside the model,
     * if there is one, and a few small tensors that describe shapes. A part that is missing or does
     * not fit is TENMAP_ERR_FORMAT, even with TENMAP_OPEN_LENIENT. With TENMAP_OPEN_PARTIAL a
     * weight that lacks a part is absent, and its other parts are listed as they are, except for
     * codes that have the weight's own name. docs/quantized.md has the schemes, their formulas, and
     * how they are recognized.
     */
    TENMAP_OPEN_DEQUANTIZE = 4,
    /*
     * tenmap_find also accepts names that a writer left out because another tensor has their data:
     * pairs "omitted name": "kept name" in __metadata__ or in the index's metadata whose value
     * names a tensor and whose key does not (safetensors.torch.save_model and huggingface_hub write
     * them). Only tenmap_find knows them: tenmap_count and tenmap_at have each tensor once.
     */
    TENMAP_OPEN_ALIASES = 16,
    /*
     * Open only the index. No shard is looked for, and there are no tensors: tenmap_listed_at has
     * their names, tenmap_shard_listed their files, which are relative to tenmap_folder. A model
     * without an index is opened as if the flag were not set; tenmap_index_json tells which was
     * done.
     */
    TENMAP_OPEN_INDEX_ONLY = 32,
    /*
     * The mapping is private and writable (copy-on-write), for engines that apply a LoRA at load or
     * repack weights in place: cast `data` and write to it. Each page that is written takes memory
     * of this process. The file never changes. tenmap_view, tenmap_read, tenmap_load, tenmap_take
     * and tenmap_measure see what was written. TENMAP_LOAD_READ, TENMAP_LOAD_DIRECT, copies, saves
     * and fingerprints see the file. TENMAP_ADVISE_RELEASE does nothing, because it would undo
     * writes. tenmap_detach returns TENMAP_ERR_UNSUPPORTED. If another program changes the file,
     * pages that were not written may change too. A child of fork has its own copy.
     *
     * Thread rule: while one thread writes an element, no other may use it. The caller must ensure
     * that. TENMAP_ERR_ARGUMENT with TENMAP_BACKEND_READ, options.io and tenmap_open_memory.
     */
    TENMAP_OPEN_PRIVATE = 64,
    /*
     * List all tensors of a PyTorch file by their full names ("optimizer.state.0.exp_avg"). Without
     * it, if no tensor lies directly in the root, the model is the first of these keys that holds
     * tensors: state_dict, model_state_dict, model, module, net, params_ema, params, ema; and names
     * begin below it.
     */
    TENMAP_OPEN_BRANCHES = 128,
    /* What TENMAP_OPEN_LENIENT allows, one by one. */
    TENMAP_OPEN_TRAILING = 256,        /* bytes after the last tensor */
    TENMAP_OPEN_HOLES = 512,           /* bytes between tensors that belong to none */
    TENMAP_OPEN_UNKNOWN_DTYPES = 1024, /* as TENMAP_OPAQUE */
    /* The index lists tensors in shards that lack them: others have them, or they are absent. */
    TENMAP_OPEN_STALE_INDEX = 2048,
    TENMAP_OPEN_SUBFOLDERS = 4096 /* shards in folders below the index's own; never outside it */
};

/* Zero is the default for every field. Start from TENMAP_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_options {
    size_t struct_size; /* sizeof(tenmap_options): lets the struct grow */
    uint32_t backend;   /* TENMAP_BACKEND_* */
    uint32_t flags;     /* TENMAP_OPEN_* */
    /*
     * For opening many shards, at most 64. 0: the library decides, up to 8, and without `io` no
     * more than there are CPUs.
     */
    uint32_t threads;
    uint32_t reserved;         /* 0 */
    uint64_t max_header_bytes; /* 0: 100,000,000, the reference's limit; for the index too */
    uint64_t offset, length;   /* a model inside a larger file; length 0: to the end of the file.
                                  For single files, descriptors and memory only. */
    /*
     * Where the model's files are; NULL: on this system. Copied at open; its ctx must live until
     * the model is closed. The model behaves as with TENMAP_BACKEND_READ, and its shards have no
     * descriptors. TENMAP_ERR_ARGUMENT with tenmap_open_fd and tenmap_open_memory.
     */
    const tenmap_io *io;
} tenmap_options;

#define TENMAP_OPTIONS_INIT                                                                        \
    { sizeof(tenmap_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Open
 *
 * On success *out is the model; close it with tenmap_close. On failure *out is NULL, everything is
 * released, and the error names the file, the byte offset, what was found and what was expected.
 * Opening costs as much as reading the header: no tensor byte is read or faulted in, except for the
 * small tensors that TENMAP_OPEN_DEQUANTIZE reads.
 *
 * If another program changes a header or an index while it is being read, the library reads it
 * again, for up to half a second; after that, TENMAP_ERR_IO says that an edit is running. A model
 * never mixes what was there before an edit in place (tenmap_edit_metadata) with what is there
 * after it.
 *
 * Thread rule: any thread may call these. Opening an index with many shards starts threads and
 * joins them before it returns. Library threads block all signals except those that a thread raises
 * itself (SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS), so that your handler for SIGBUS runs
 * on whichever thread touched the page.
 */

/*
 * `path` is a .safetensors file, an index, a GGUF file or a folder. Files are recognized by
 * content, not by name. The first file of a split GGUF model opens all of them. In a folder, the
 * first of these that exists is opened: model.safetensors, model.safetensors.index.json,
 * diffusion_pytorch_model.safetensors, its index; else the only index; else the only complete
 * numbered set (name-00001-of-00005.safetensors); else the only *.safetensors file; else likewise
 * with *.gguf. docs/format.md has the details. A model's folder in a hub's cache
 * (models--ORG--NAME) opens as the snapshot that its refs/main names, or as the only snapshot.
 */
TENMAP_API tenmap_status tenmap_open(const char *path, const tenmap_options *options,
                                     tenmap_model **out, tenmap_error *error);

/*
 * Opens several files as one model: pieces of it (consolidated.00, consolidated.01), components, or
 * a base model and files that replace some of its tensors. Each of the `n` paths follows the rules
 * of tenmap_open, with the same options; options.offset and length need a single path. Shards,
 * tensors and metadata come path after path, in the order given. If two paths have a tensor of the
 * same name, the result is TENMAP_ERR_FORMAT, and the message names both files, unless
 * TENMAP_OPEN_LATER_WINS asks for the later one. With TENMAP_OPEN_PARTIAL a path that does not
 * exist counts as a missing shard (tenmap_missing_at has it as given).
 *
 * tenmap_path and tenmap_folder return those of the first path, and tenmap_index_json that of the
 * first index; tenmap_listed_at covers all indexes. If a path cannot be opened, error.index is its
 * number, and error.shard is the number of a shard within that path.
 */
TENMAP_API tenmap_status tenmap_open_list(const char *const *paths, size_t n,
                                          const tenmap_options *options, tenmap_model **out,
                                          tenmap_error *error);

/*
 * Opens a single SafeTensors or GGUF file behind a descriptor that pread can read and, for the MAP
 * backend, mmap can map. The descriptor is duplicated: the caller's stays open, and its offset does
 * not move.
 */
TENMAP_API tenmap_status tenmap_open_fd(int fd, const tenmap_options *options, tenmap_model **out,
                                        tenmap_error *error);

/*
 * The same for a file in memory. The bytes are borrowed until tenmap_close and must not change. The
 * header is copied, so even a caller that changes it cannot harm the library.
 */
TENMAP_API tenmap_status tenmap_open_memory(const void *bytes, size_t size,
                                            const tenmap_options *options, tenmap_model **out,
                                            tenmap_error *error);

/* Frees the model and invalidates all its views. NULL is allowed. */
TENMAP_API void tenmap_close(tenmap_model *model);

/*
 * Inspect
 *
 * None of these fail, allocate or touch tensor data. A NULL model has no tensors, shards or
 * metadata, and its path is "". Indices count from 0; past the end the result is NULL.
 */

TENMAP_API size_t tenmap_count(const tenmap_model *model);
/* In file order: shards by file name, then begin offset, end offset, header order. */
TENMAP_API const tenmap_tensor *tenmap_at(const tenmap_model *model, size_t i);
/* In the order of the headers, not of the data: shards by file name, then header_position. O(1). */
TENMAP_API const tenmap_tensor *tenmap_at_written(const tenmap_model *model, size_t i);
/*
 * The tensor of exactly this name, or NULL. O(1), whatever the names are. For an alias
 * (TENMAP_OPEN_ALIASES), the tensor that it stands for, under that tensor's own name.
 */
TENMAP_API const tenmap_tensor *tenmap_find(const tenmap_model *model, const char *name);
/* The same; `len` in bytes, or TENMAP_CSTR. Finds names that hold NUL. */
TENMAP_API const tenmap_tensor *tenmap_find_n(const tenmap_model *model, const char *name,
                                              size_t len);
/* The path as given to tenmap_open; "" for a descriptor or memory. */
TENMAP_API const char *tenmap_path(const tenmap_model *model);
/*
 * The folder of the model's files, where config.json and the tokenizer would be: "FOLDER" for
 * "FOLDER/model.safetensors", "." for a path without a folder, the path itself if it is a folder.
 * Only a root ends in '/'. With options.io, everything from the first '?' on is ignored, and the
 * folder is what precedes the last '/', or "" if there is none. "" for a descriptor or memory.
 */
TENMAP_API const char *tenmap_folder(const tenmap_model *model);
/* Sum over the shards that are open. */
TENMAP_API uint64_t tenmap_file_size(const tenmap_model *model);
TENMAP_API size_t tenmap_shard_count(const tenmap_model *model);
TENMAP_API const tenmap_shard *tenmap_shard_at(const tenmap_model *model, size_t i);
/* Shards that TENMAP_OPEN_PARTIAL found missing, as the index or tenmap_open_list names them. */
TENMAP_API size_t tenmap_missing_count(const tenmap_model *model);
TENMAP_API const char *tenmap_missing_at(const tenmap_model *model, size_t i);
/*
 * The file in which the index lists the tensor of exactly this name, as the index names it, whether
 * it exists or not. NULL if the index does not list the tensor, or there is no index. O(1).
 */
TENMAP_API const char *tenmap_shard_listed(const tenmap_model *model, const char *name);
/* The names that the index lists, in its order, NUL-terminated. */
TENMAP_API size_t tenmap_listed_count(const tenmap_model *model);
TENMAP_API const char *tenmap_listed_at(const tenmap_model *model, size_t i);
/* All shards' metadata in shard order, each in header order. */
TENMAP_API size_t tenmap_metadata_count(const tenmap_model *model);
TENMAP_API const tenmap_metadata *tenmap_metadata_at(const tenmap_model *model, size_t i);
/* The value in the first shard that has the key, or NULL. A linear scan. */
TENMAP_API const char *tenmap_metadata_get(const tenmap_model *model, const char *key);
/*
 * The pair's value. Walk arrays with tenmap_value_next; fixed-width elements may be read from raw.
 */
TENMAP_API void tenmap_metadata_value(const tenmap_metadata *pair, tenmap_value *out);
/*
 * Takes the next element of an array, without copying: *array is then the rest. Returns 1 and sets
 * *element, which may itself be an array; returns 0 if no element is left or *array is not an
 * array. Neither may be NULL, and they must be different objects.
 */
TENMAP_API int tenmap_value_next(tenmap_value *array, tenmap_value *element);
/*
 * Writes the text of a value that is not an array, as in tenmap_metadata.value, NUL-terminated and
 * cut to `room` bytes. Returns its full length in bytes.
 */
TENMAP_API size_t tenmap_value_text(const tenmap_value *value, char *out, size_t room);
/* The index's text as read, NUL-terminated, its length in *len (may be NULL); NULL if no index. */
TENMAP_API const char *tenmap_index_json(const tenmap_model *model, size_t *len);
/*
 * The dtype as the header writes it, also for TENMAP_OPAQUE. Unescaped text from the file, valid
 * until close; "UNKNOWN" for NULL.
 */
TENMAP_API const char *tenmap_dtype_text(const tenmap_tensor *tensor);

/*
 * Read
 *
 * dst belongs to the caller, may have any alignment, is dst_bytes long, and must not overlap the
 * model's data. A call that fails because of its arguments writes nothing. A call that fails with
 * TENMAP_ERR_IO, or with TENMAP_ERR_RANGE for an integer that does not fit, may have written some
 * of dst. convert.h describes conversion, packing and `flags` (TENMAP_CONVERT_*).
 */

/*
 * The tensor's bytes themselves. They must have this dtype (or TENMAP_AS_STORED), be aligned for
 * their element, and be mapped. On a big-endian host, they must also need no alignment beyond one
 * byte, since files are little-endian. Otherwise the result is NULL and an error. View
 * TENMAP_OPAQUE tensors with TENMAP_OPAQUE or TENMAP_AS_STORED.
 */
TENMAP_API const void *tenmap_view(const tenmap_tensor *tensor, tenmap_dtype dtype,
                                   tenmap_error *error);

/*
 * Converts elements [first, first+count) into dst, in the host's byte order, on any backend. Block
 * dtypes can be read as floats starting at any element; as they are stored, only in whole blocks
 * (otherwise TENMAP_ERR_RANGE). The same holds for slices and loads.
 */
TENMAP_API tenmap_status tenmap_read(const tenmap_tensor *tensor, uint64_t first, uint64_t count,
                                     tenmap_dtype as, void *dst, size_t dst_bytes, uint32_t flags,
                                     tenmap_error *error);

/*
 * Reads the block begin[d] <= i[d] < end[d], one pair per dimension, in row-major order. For a
 * scalar, begin and end may be NULL. An empty block writes nothing.
 */
TENMAP_API tenmap_status tenmap_read_slice(const tenmap_tensor *tensor, const uint64_t *begin,
                                           const uint64_t *end, tenmap_dtype as, void *dst,
                                           size_t dst_bytes, uint32_t flags, tenmap_error *error);

/*
 * Reads bytes whose dtype is not the one in the header: F4 blocks kept as U8, F8 as I8, BF16 as
 * U16, a dtype that is TENMAP_OPAQUE here. The tensor's bytes are interpreted as elements of
 * `stored_as`, one after the other, in the file's byte order. `first` and `count` count these
 * elements. If `as` is TENMAP_AS_STORED, it means `stored_as`. Any dtype of a known width is
 * allowed if the tensor's bytes are a whole number of its elements; otherwise
 * TENMAP_ERR_UNSUPPORTED. If `stored_as` is TENMAP_AS_STORED, this is tenmap_read.
 */
TENMAP_API tenmap_status tenmap_read_as(const tenmap_tensor *tensor, tenmap_dtype stored_as,
                                        uint64_t first, uint64_t count, tenmap_dtype as, void *dst,
                                        size_t dst_bytes, uint32_t flags, tenmap_error *error);

/* The tensor's file bytes [offset, offset+bytes) as they are: any dtype, opaque ones included. */
TENMAP_API tenmap_status tenmap_read_bytes(const tenmap_tensor *tensor, uint64_t offset,
                                           size_t bytes, void *dst, tenmap_error *error);

/*
 * How the elements of a tensor with the scheme "strided" lie in its part: the distance from one
 * index to the next, in elements, for each of its `rank` axes; 0 repeats an axis. Element 0 is the
 * part's first. NULL for all other tensors, whose elements lie one after the other or are computed.
 * Owned by the library, valid until tenmap_close.
 */
TENMAP_API const uint64_t *tenmap_strides(const tenmap_tensor *tensor);

/*
 * Residency
 *
 * Which pages of a mapped model are in memory. Opening brings nothing in; the system loads pages as
 * they are touched and drops them when memory is short. These calls control in advance which pages
 * are loaded or dropped, in whole pages (4 KiB on most systems). Populating, prefetching and
 * locking cover every page that holds a byte of the tensor; releasing and unlocking cover only
 * pages that hold no byte of another tensor. On a model with TENMAP_BACKEND_READ or in memory,
 * every call of tenmap_advise succeeds and does nothing.
 *
 * Thread rule: any number of threads may call these, on the same tensors too. If one thread
 * releases a tensor that another uses, the other only becomes slower. A child of fork inherits
 * neither prefetching nor locks, and may give advice of its own.
 */

/* advice */
enum {
    /*
     * The pages are mapped and in memory when the call returns. If the file has been truncated
     * since it was opened, or its storage fails, the result is TENMAP_ERR_IO with os_error EFAULT,
     * never a signal. The pages are not locked: if they do not all fit, the first ones have been
     * dropped again when the call returns. If the same bytes are queued for prefetching, the
     * prefetching thread reads them next, and this call waits for it.
     */
    TENMAP_ADVISE_POPULATE = 1,
    /*
     * The same in the background, in the order of the calls, 16 MiB at a time, on one thread per
     * model that starts with the first such advice and ends with tenmap_close. Failures are not
     * reported here: the code that later uses the bytes meets them. POPULATE each piece before you
     * use it: that waits for this thread, whereas touching pages that are not in memory yet reads
     * them a second time.
     */
    TENMAP_ADVISE_PREFETCH = 2,
    /*
     * Unmaps the pages from this process and cancels prefetching of them that has not begun (up to
     * 16 MiB under way may still come in). The page cache may keep them, as memory that the system
     * can take back at any time. Views stay valid and load again when touched. If the system maps
     * the file in huge pages (2 MiB), the huge pages at both ends are unmapped whole: neighboring
     * tensors in them stay in the page cache and cost one fault when they are touched next.
     */
    TENMAP_ADVISE_RELEASE = 3,
    /*
     * Brings the pages in and keeps them in memory. TENMAP_ERR_LIMIT beyond what this process may
     * lock. Locks do not nest. Locked pages must be unlocked before they can be released. If
     * locking fails, only the pages that were locked before stay locked.
     */
    TENMAP_ADVISE_LOCK = 4,
    TENMAP_ADVISE_UNLOCK = 5
};

/* Advice about one tensor of the model, or about all of it with NULL. */
TENMAP_API tenmap_status tenmap_advise(const tenmap_model *model, const tenmap_tensor *tensor,
                                       uint32_t advice, tenmap_error *error);

/*
 * Advice about several tensors in any order; they are processed in file order. A page that two
 * tensors in the list share is covered, even if advice about either of them alone would not cover
 * it. TENMAP_ERR_ARGUMENT if a tensor is NULL or of another model; error.index is its position.
 * After any other error, the tensors that precede the failing one in the file have been processed.
 */
TENMAP_API tenmap_status tenmap_advise_list(const tenmap_model *model,
                                            const tenmap_tensor *const *tensors, size_t count,
                                            uint32_t advice, tenmap_error *error);

/*
 * How many bytes of the tensor (NULL: of all) are mapped in this process, as its RSS counts them; 0
 * with TENMAP_BACKEND_READ. TENMAP_ERR_UNSUPPORTED on systems that do not tell (Linux and Windows
 * do). Each byte counts for its own tensor only. The answer may be out of date when it arrives.
 */
TENMAP_API tenmap_status tenmap_resident(const tenmap_model *model, const tenmap_tensor *tensor,
                                         uint64_t *bytes, tenmap_error *error);

/*
 * How many bytes of the tensor (NULL: of all) are in the page cache, whoever brought them in; 0 for
 * a model in memory. For users who neither own the file nor may write to it, Linux reports all
 * bytes as cached.
 */
TENMAP_API tenmap_status tenmap_cached(const tenmap_model *model, const tenmap_tensor *tensor,
                                       uint64_t *bytes, tenmap_error *error);

/*
 * The same for bytes [first_byte, first_byte + bytes) of one tensor, counted from its first byte.
 * Such a range may be one expert of a tensor that holds all experts of a layer, or the rows that a
 * rank needs. The range is treated like a tensor, and the rest of the tensor like its neighbors:
 * releasing an expert leaves the pages that it shares with the next one. A range of 0 bytes is
 * allowed and covers nothing.
 *
 * TENMAP_ERR_RANGE if the range is not inside the tensor. TENMAP_ERR_UNSUPPORTED for a
 * TENMAP_TENSOR_COMPUTED tensor, which has no bytes of its own; its parts have (tenmap_part_at).
 */
TENMAP_API tenmap_status tenmap_advise_range(const tenmap_tensor *tensor, uint64_t first_byte,
                                             uint64_t bytes, uint32_t advice, tenmap_error *error);
TENMAP_API tenmap_status tenmap_resident_range(const tenmap_tensor *tensor, uint64_t first_byte,
                                               uint64_t bytes, uint64_t *resident,
                                               tenmap_error *error);
TENMAP_API tenmap_status tenmap_cached_range(const tenmap_tensor *tensor, uint64_t first_byte,
                                             uint64_t bytes, uint64_t *cached, tenmap_error *error);

/*
 * Load
 *
 * Converts many tensors, or blocks of them, into the caller's buffers, on several threads, in file
 * order, whatever the order of the requests.
 */

/* One request. Zero the fields that you do not use. */
typedef struct tenmap_request {
    const tenmap_tensor *tensor;
    const uint64_t *begin, *end; /* as in tenmap_read_slice; NULL, NULL: the whole tensor */
    tenmap_dtype as;             /* TENMAP_AS_STORED: the tensor's own */
    uint32_t flags;              /* TENMAP_CONVERT_* */
    void *dst;                   /* no byte written by two requests, none inside a model's data */
    size_t dst_bytes;
    /*
     * As in tenmap_read_as; TENMAP_AS_STORED: the tensor's own. begin, end and rows count elements
     * of this dtype in the last dimension: [8, 16] of U8 is [8, 32] of F4 and [8, 4] of F32. That
     * dimension must be a whole number of elements (otherwise TENMAP_ERR_UNSUPPORTED).
     */
    tenmap_dtype stored_as;
    uint32_t reserved; /* 0 */
    /*
     * Bytes from the start of one row in dst to the next; 0: rows are contiguous. A row is the
     * innermost dimension of the block or tensor, and `rows`, below, is the product of the others.
     * Bytes between rows are not touched, so requests may interleave their rows. The stride must be
     * at least the bytes of a row; rows of 4- and 6-bit elements must be whole bytes. dst_bytes
     * must be at least (rows - 1) * dst_stride plus the bytes of one row.
     */
    uint64_t dst_stride;
} tenmap_request;

/* load_options.flags */
enum {
    /*
     * Checked reads, as with TENMAP_BACKEND_READ, even on a mapped model: a file that shrinks or
     * changes is TENMAP_ERR_IO instead of SIGBUS.
     */
    TENMAP_LOAD_READ = 1,
    /*
     * Checked reads that bypass the page cache and leave its contents alone: for models that are
     * read once. Same as TENMAP_LOAD_READ if the file system cannot do that. The load holds one
     * more descriptor per shard while it runs. A copy without conversion needs no buffer if the
     * address in dst and the offset in the file are equal modulo 4096 (modulo 512 on most disks).
     */
    TENMAP_LOAD_DIRECT = 2
};

/* Memory that tenmap_take allocated; see there. */
typedef struct tenmap_arena tenmap_arena;

/* Start from TENMAP_LOAD_OPTIONS_INIT; NULL means all defaults. */
typedef struct tenmap_load_options {
    size_t struct_size; /* sizeof(tenmap_load_options): lets the struct grow */
    uint32_t threads;   /* 0: the library decides; at most 64, the caller's included */
    uint32_t flags;     /* TENMAP_LOAD_* */
    /*
     * Called on the caller's thread every few MiB with the number of file bytes done and the total
     * of all requests: first with done 0, last with done equal to total. A nonzero return cancels;
     * the final call's return is ignored.
     */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    /*
     * Called once for each request, never under a lock of the library. With TENMAP_OK: on the
     * thread that finished the request, as soon as all of its dst is written, possibly on several
     * threads at a time. With another status: on the caller's thread, after all other threads have
     * stopped; TENMAP_ERR_CANCELLED for requests that were not done. Not called if an argument is
     * wrong.
     */
    void (*done)(void *ctx, size_t request, tenmap_status status);
    void *ctx; /* for both */
    /*
     * For tenmap_take only; elsewhere TENMAP_ERR_ARGUMENT. The arena of an earlier take, of any
     * model. This take adds its copies to that arena, and sets *arena to it. No other thread may
     * use or free it during the call. If the call fails, the arena stays as it was.
     */
    tenmap_arena *append;
    /*
     * For tenmap_take only; elsewhere ignored. Set both functions or neither. alloc supplies the
     * memory for the copies instead of tenmap_alloc, such as pinned memory or memory of one NUMA
     * node. It is called at most once, on the caller's thread, with at least 1 byte and with an
     * alignment that is a power of two from 64 bytes to 2 MiB. The memory need not be zeroed. If
     * alloc returns NULL, the call returns TENMAP_ERR_MEMORY; if the memory lacks that alignment,
     * TENMAP_ERR_ARGUMENT. The arena keeps dealloc and alloc_ctx until it is freed. The thread that
     * frees it calls dealloc, with the bytes that alloc was asked for; if the take fails, that is
     * the caller's thread.
     */
    void *(*alloc)(void *alloc_ctx, size_t bytes, size_t alignment);
    void (*dealloc)(void *alloc_ctx, void *memory, size_t bytes);
    void *alloc_ctx;
} tenmap_load_options;

#define TENMAP_LOAD_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_load_options), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/*
 * All requests must be for tensors of this model; if `model` is NULL, they may be for tensors of
 * any models, opened in any way. All arguments are checked before a byte is written. error.index is
 * the number of the request that failed, and the message names its tensor. After an error or a
 * cancel (TENMAP_ERR_CANCELLED) every thread has stopped, and the contents of all dst are
 * undefined, except for requests that `done` reported as TENMAP_OK. The callbacks may use the model
 * but must not close it.
 */
TENMAP_API tenmap_status tenmap_load(const tenmap_model *model, const tenmap_request *requests,
                                     size_t count, const tenmap_load_options *options,
                                     tenmap_error *error);

/*
 * Detach
 *
 * A mapping shows the file as it is: if somebody truncates the file, readers get SIGBUS; if
 * somebody overwrites it, their weights change. tenmap_detach reads a mapped model once into memory
 * of this process, on huge pages where possible, and puts that memory in the mapping's place. Every
 * view, tensor.data and shard.base keeps its address and its bytes, for any number of reading
 * threads, even while the call runs. Afterwards the file is closed and may be truncated, replaced,
 * deleted or unmounted.
 *
 * It takes as much memory as the files have bytes. At most 16 MiB per thread are in memory twice at
 * a time. The options are those of tenmap_load: TENMAP_LOAD_DIRECT bypasses the page cache and
 * reads straight into place; progress counts bytes of the files; `done` is called on the caller's
 * thread with a shard's number once that shard is in memory. Callbacks must not call tenmap_detach,
 * tenmap_advise or tenmap_advise_list.
 *
 * TENMAP_ERR_IO if a file has changed since it was opened. After an error or a cancel
 * (TENMAP_ERR_CANCELLED) all bytes can be read as before, from memory or from the mapping. Calling
 * it again continues where it stopped; once everything is detached, a call does nothing.
 *
 * On detached memory, TENMAP_ADVISE_RELEASE, PREFETCH and POPULATE do nothing, tenmap_cached is 0,
 * and TENMAP_LOAD_READ and DIRECT copy from memory; pages that were locked by TENMAP_ADVISE_LOCK
 * are locked again. tenmap_advise on other threads waits until the call ends. shard.fd becomes -1,
 * and nobody may use it while the call runs. Parts of the mapping that were registered with a
 * device or another library must be registered again. As with tenmap_close, only the model's owner
 * may make this call, but others may read while it runs. A child of fork has the bytes that the
 * model had at the time of the fork.
 *
 * TENMAP_ERR_UNSUPPORTED for models that are not mapped (TENMAP_BACKEND_READ, tenmap_io, memory),
 * and on systems other than Linux.
 */
TENMAP_API tenmap_status tenmap_detach(tenmap_model *model, const tenmap_load_options *options,
                                       tenmap_error *error);

/*
 * Take
 *
 * All weights that an engine wants from a model, in one call, by name, dtype and shape. Weights
 * that already have that dtype and layout are used in place, as views. The others are converted, on
 * several threads, into one allocation, the arena, or into the caller's memory.
 */

/* tenmap_want.flags */
enum {
    TENMAP_WANT_OPTIONAL = 1, /* if no tensor has the name, data and tensor are NULL */
    TENMAP_WANT_COPY = 2 /* copied into the arena even if a view would do: to outlive the model */
};
/*
 * Numbers that replace %u in a name; OR them into the flags. With both, the first %u is the layer
 * and the second the expert; with only one of them, the name has one %u. Numbers go up to 4093;
 * larger ones are TENMAP_ERR_ARGUMENT. The fields `numbers`, `layer` and `expert` do the same
 * without that limit. Without a number, a name is taken literally.
 *
 *     {.name = "model.layers.%u.mlp.up_proj.weight", .flags = TENMAP_WANT_LAYER(7)}
 */
#define TENMAP_WANT_LAYER(n) (((uint64_t)(n) < 4094u ? (uint32_t)(n) + 1u : 4095u) << 8)
#define TENMAP_WANT_EXPERT(n) (((uint64_t)(n) < 4094u ? (uint32_t)(n) + 1u : 4095u) << 20)

/* In tenmap_want.shape: this dimension may have any extent. */
#define TENMAP_ANY_EXTENT ((uint64_t)-1)

/* One weight. Zero the fields that you do not use. */
typedef struct tenmap_want {
    const char *name;      /* NUL-terminated; used during the call only */
    tenmap_dtype as;       /* TENMAP_AS_STORED: whatever it is stored as */
    uint32_t rank;         /* of shape; with shape NULL: the rank that it must have, 0: any */
    const uint64_t *shape; /* that it must have; NULL: any. Used during the call only */
    uint32_t flags;        /* TENMAP_WANT_* */
    uint32_t alignment;    /* of data, a power of two up to 2 MiB; 0: the element's */
    /*
     * Out: the weight in the host's byte order, row-major, packed. A view into the mapping if
     * dtype, alignment, byte order and backend allow it; else in the arena, aligned to 64 bytes, or
     * to `alignment` if that is more.
     */
    const void *data;
    const tenmap_tensor *tensor; /* out: where it came from; valid until close */
    uint64_t reserved[2];        /* 0 */
    uint64_t nbytes;             /* out: the bytes of data; 0 if an optional weight is missing */
    /*
     * A slice of the weight, as in tenmap_read_slice: the share of one rank, one expert of a stack.
     * NULL, NULL: the whole weight. Both point to `rank` numbers, so set `rank` or a shape; the
     * shape is that of the whole weight. The library reads them during the call only. A slice whose
     * elements are contiguous may be a view. TENMAP_ERR_RANGE if the slice is not inside the
     * weight, or if it cuts through a block of a block dtype that is taken as stored.
     */
    const uint64_t *begin, *end;
    /*
     * How many %u the name has. With 1, `layer` replaces it. With 2, `layer` replaces the first and
     * `expert` the second. Fields that are not used are 0. TENMAP_ERR_ARGUMENT if the flags have
     * numbers too.
     */
    uint32_t numbers, layer, expert;
    uint32_t reserved2; /* 0 */
    /*
     * The caller's memory for this weight. The weight is copied there and `data` is set to dst; it
     * is never a view. NULL: the library decides. No two wants may write the same byte, and none
     * may write inside a model's data. TENMAP_ERR_BUFFER if dst_bytes is too small. dst may have
     * any alignment if `alignment` is 0, and must have that alignment otherwise. After a failure
     * the contents of dst are undefined.
     */
    void *dst;
    size_t dst_bytes;
} tenmap_want;

/*
 * Fills data and tensor of every want, or lists in one error which ones failed: the first few by
 * name, each with its reason, then how many more. The status is that of the first failure, whose
 * number is error.index: TENMAP_ERR_NOT_FOUND if it is missing, TENMAP_ERR_RANGE if its shape
 * differs or the slice is not inside it, TENMAP_ERR_BUFFER if its destination is too small,
 * TENMAP_ERR_UNSUPPORTED if its dtype does not convert. On failure all data, tensor and *arena are
 * NULL, all nbytes are 0, and nothing is kept.
 *
 * *arena is options.append if that was given. Otherwise it is NULL if all weights are views or in
 * the caller's memory. Free an arena with tenmap_arena_free. It is separate memory, on huge pages
 * (tenmap_alloc) or from options.alloc, and may outlive the model; views may not. All tensors of a
 * model without a mapping are copied. A name may be wanted twice.
 *
 * Options, progress and cancelling are as in tenmap_load; progress counts the bytes that are
 * copied. `done` is called once for each want, with its number, when its data is in place; for
 * views and missing optional wants, this happens on the caller's thread, before the load begins.
 */
TENMAP_API tenmap_status tenmap_take(const tenmap_model *model, tenmap_want *wants, size_t n,
                                     const tenmap_load_options *options, tenmap_arena **arena,
                                     tenmap_error *error);
/* Frees what was appended to the arena, too. NULL is allowed. Any thread may call this. */
TENMAP_API void tenmap_arena_free(tenmap_arena *arena);

/*
 * Memory for destinations: zeroed, aligned to 2 MiB, on huge pages if the system has them, so that
 * touching it for the first time is several times cheaper than with malloc. Not for small pieces:
 * each allocation takes whole pages, plus one page. NULL if memory runs out. tenmap_free accepts
 * NULL, on any thread.
 */
TENMAP_API void *tenmap_alloc(size_t bytes);
TENMAP_API void tenmap_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
