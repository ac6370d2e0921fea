/*
 * tenmap: write, edit and save models. The opening comment of tenmap.h says what holds for all
 * calls; docs/writing.md has the details.
 */
#ifndef TENMAP_INCLUDE_WRITE_H
#define TENMAP_INCLUDE_WRITE_H

#include "read.h"

#ifndef TENMAP_NO_WRITE

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Write
 *
 * Declare metadata and tensors, write the bytes in any order from any thread, commit. The layout of
 * a SafeTensors file is that of the reference, byte for byte. A GGUF file (version 3) has pairs and
 * tensors in the order in which they were added. The file appears whole or not at all: a crash, a
 * kill or a full disk leaves what was there before and, at worst, a hidden temporary file, which
 * the next writer to that path removes. Models that are open on the old file keep it.
 */

typedef struct tenmap_writer tenmap_writer;

/* tenmap_writer_options.flags */
enum {
    TENMAP_WRITER_KEEP_ORDER = 1, /* tensors in the order added; some may then be misaligned */
    /* Replace the file that a symbolic link points to; without this flag the link is replaced. */
    TENMAP_WRITER_FOLLOW_LINKS = 2
};

/* The format of a file that is written. Values never change; new ones are appended. */
enum { TENMAP_FORMAT_SAFETENSORS = 0, TENMAP_FORMAT_GGUF = 1 };

/*
 * Zero is the default for every field; NULL means all defaults. The same holds for all options
 * below.
 */
typedef struct tenmap_writer_options {
    size_t struct_size;
    /*
     * SafeTensors: where the data starts; 0 means 8. GGUF: general.alignment, which every tensor
     * has; 0 means 32. A power of two from 8 to 2 MiB.
     */
    uint32_t data_alignment;
    uint32_t header_slack; /* spare header bytes for later metadata edits; see the limit below */
    uint32_t flags;
    uint32_t format; /* TENMAP_FORMAT_* */
} tenmap_writer_options;

#define TENMAP_WRITER_OPTIONS_INIT                                                                 \
    { sizeof(tenmap_writer_options), 0, 0, 0, 0 }

/*
 * A header has at most 100,000,000 bytes, as readers allow by default: the text of a SafeTensors
 * file, everything before the data of a GGUF file. Longer ones are TENMAP_ERR_LIMIT when the first
 * bytes are written, or at commit.
 *
 * End every writer with one commit or abort. The file gets the mode and, if permitted, the owner of
 * the file that it replaces, and never gives more rights. Only regular files are replaced.
 */
TENMAP_API tenmap_status tenmap_writer_create(const char *path,
                                              const tenmap_writer_options *options,
                                              tenmap_writer **out, tenmap_error *error);
/*
 * Lengths are in bytes or TENMAP_CSTR; everything is copied. Names and keys are UTF-8 and unique,
 * and no tensor is called `__metadata__`. A refused call changes nothing. *id (may be NULL) counts
 * from 0. Nothing can be added once bytes have been written.
 */
TENMAP_API tenmap_status tenmap_writer_metadata(tenmap_writer *writer, const char *key,
                                                size_t key_len, const char *value, size_t value_len,
                                                tenmap_error *error);
/*
 * Metadata of any type (TENMAP_VALUE_*), as tenmap_metadata_value gives it: raw is in file order
 * (little-endian), and may be NULL if raw_bytes is 0. A STRING of a GGUF file need not be UTF-8. An
 * array's elements are checked too: their count must be value->count, and together they must take
 * raw_bytes. SafeTensors files hold only strings: other types are TENMAP_ERR_UNSUPPORTED there.
 *
 * GGUF: general.alignment must be options.data_alignment as a U32, split.no, split.count and
 * split.tensors.count must be integers that are not negative, and the library sets tenmap.padding
 * itself; otherwise TENMAP_ERR_ARGUMENT.
 */
TENMAP_API tenmap_status tenmap_writer_value(tenmap_writer *writer, const char *key, size_t key_len,
                                             const tenmap_value *value, tenmap_error *error);
/*
 * Metadata that is an array of n strings, such as the tokens of a vocabulary. `lengths` are in
 * bytes or TENMAP_CSTR; NULL: all strings end with a NUL.
 */
TENMAP_API tenmap_status tenmap_writer_strings(tenmap_writer *writer, const char *key,
                                               size_t key_len, const char *const *strings,
                                               const size_t *lengths, uint64_t n,
                                               tenmap_error *error);
/*
 * Declares a tensor. What GGUF cannot hold is TENMAP_ERR_UNSUPPORTED: names over 63 bytes, more
 * than four axes, dtypes without a ggml number (tenmap_dtype_to_ggml), and rows that are not whole
 * blocks of a block dtype. SafeTensors holds no block dtypes.
 */
TENMAP_API tenmap_status tenmap_writer_add(tenmap_writer *writer, const char *name, size_t name_len,
                                           tenmap_dtype dtype, const uint64_t *shape, uint32_t rank,
                                           size_t *id, tenmap_error *error);
/* File-order (little-endian) bytes, each written once. A failure of the system is final. */
TENMAP_API tenmap_status tenmap_writer_write(tenmap_writer *writer, size_t id, uint64_t offset,
                                             const void *data, size_t bytes, tenmap_error *error);
/*
 * Copies a whole tensor of an open model and converts it (TENMAP_CONVERT_* flags) if the dtypes
 * differ. If the source file's size or modification time has changed since it was opened, the
 * result is TENMAP_ERR_IO on every backend, and the writer can only be aborted. The same holds for
 * lists and sharded saves.
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
    tenmap_dtype dtype; /* TENMAP_AS_STORED: the tensor's own; otherwise it is converted */
    const void *data;   /* all of it, in file order (little-endian) */
    uint32_t flags;     /* TENMAP_CONVERT_* */
    uint32_t reserved;
} tenmap_source;

/* Options for copying many tensors. Start from TENMAP_COPY_OPTIONS_INIT. */
typedef struct tenmap_copy_options {
    size_t struct_size;
    uint32_t threads; /* 0: the library decides; at most 64, the caller's included */
    uint32_t flags;   /* 0 */
    /*
     * Called on the caller's thread, in bytes of the sources: first with 0, then every few MiB,
     * last with total. A nonzero return cancels.
     */
    int (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    /*
     * One for each source, or NULL: what its conversion lost. Set when the call succeeds, undefined
     * when it fails. Sources that keep their dtype are copied without being examined: all counts
     * are 0.
     */
    tenmap_losses *losses;
} tenmap_copy_options;

#define TENMAP_COPY_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_copy_options), 0, 0, NULL, NULL, NULL }

/*
 * Source i becomes tensor i of the writer, for all n, on several threads, in a few MiB of memory.
 * Only tensor, data and flags of a source are used here: the rest was declared. All sources are
 * checked before a byte is written; error.index says which one failed. After a failure or a cancel
 * (TENMAP_ERR_CANCELLED) no thread is left, and the writer can only be aborted.
 */
TENMAP_API tenmap_status tenmap_writer_copy_list(tenmap_writer *writer,
                                                 const tenmap_source *sources, size_t n,
                                                 const tenmap_copy_options *options,
                                                 tenmap_error *error);

/*
 * All or nothing: frees the writer in either case. Fails if bytes are missing. If the message says
 * "replaced, durability unknown", the file is in place but its folder could not be synced.
 */
TENMAP_API tenmap_status tenmap_writer_commit(tenmap_writer *writer, tenmap_error *error);
TENMAP_API void tenmap_writer_abort(tenmap_writer *writer); /* leaves no trace; NULL is allowed */

/*
 * Edit metadata: in place if the new header fits into the old one and the file has one name, else
 * as a new file that shares the data's blocks, else as a copy. A crash in the middle of an edit in
 * place leaves a file that no reader opens and an undo record beside it; tenmap_open's error names
 * the record.
 *
 * GGUF files are edited in the same ways. Free bytes of their header are the elements of a last
 * pair, "tenmap.padding". Edits of that key, of general.alignment and of split.* are
 * TENMAP_ERR_ARGUMENT: they say how the rest of the file is read. Files whose data begins behind
 * byte 100,000,000 are TENMAP_ERR_LIMIT.
 *
 * Keys, values and names stay the caller's, and must not change during the call.
 */
typedef struct tenmap_edit {
    const char *key;
    size_t key_len;    /* or TENMAP_CSTR */
    const char *value; /* a string; NULL: `typed` counts */
    size_t value_len;  /* or TENMAP_CSTR */
    /*
     * A value of any type, as in tenmap_writer_value. NULL, with a NULL value, removes the key if
     * it exists. Giving both is TENMAP_ERR_ARGUMENT.
     */
    const tenmap_value *typed;
} tenmap_edit;

/* tenmap_edit_options.flags */
enum {
    TENMAP_EDIT_NO_IN_PLACE = 1,  /* always a new file */
    TENMAP_EDIT_NO_CLONE = 2,     /* never by sharing blocks */
    TENMAP_EDIT_FOLLOW_LINKS = 4, /* edit the file that a symbolic link points to */
    TENMAP_EDIT_NO_COPY = 8       /* TENMAP_ERR_UNSUPPORTED instead of copying the data */
};

typedef struct tenmap_edit_options {
    size_t struct_size;
    uint32_t flags, reserved;
} tenmap_edit_options;

#define TENMAP_EDIT_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_edit_options), 0, 0 }

enum { TENMAP_EDIT_IN_PLACE = 1, TENMAP_EDIT_CLONED = 2, TENMAP_EDIT_COPIED = 3 }; /* *how */

/* All edits or none; *how (may be NULL) says which way was taken. */
TENMAP_API tenmap_status tenmap_edit_metadata(const char *path, const tenmap_edit *edits, size_t n,
                                              const tenmap_edit_options *options, uint32_t *how,
                                              tenmap_error *error);

/* A tensor and its new name. */
typedef struct tenmap_renaming {
    const char *name;
    size_t name_len; /* or TENMAP_CSTR */
    const char *new_name;
    size_t new_name_len; /* or TENMAP_CSTR */
} tenmap_renaming;

/*
 * Renames tensors of one file and edits its metadata (edit_count may be 0), in one step and in the
 * ways of tenmap_edit_metadata: neither the data nor the order of the tensors changes. All names
 * change at once or none does, so tensors can swap names. Refused, with error.index:
 * TENMAP_ERR_NOT_FOUND for a tensor that does not exist; TENMAP_ERR_ARGUMENT for one that is given
 * twice, a name that two tensors would have, "__metadata__", and text that is not UTF-8. Files that
 * list names elsewhere are not changed, so a file with the name of a shard ("-00001-of-00003") is
 * refused too: save such a model anew. In a GGUF file, a new name over 63 bytes is
 * TENMAP_ERR_UNSUPPORTED.
 */
TENMAP_API tenmap_status tenmap_rename(const char *path, const tenmap_renaming *names, size_t n,
                                       const tenmap_edit *edits, size_t edit_count,
                                       const tenmap_edit_options *options, uint32_t *how,
                                       tenmap_error *error);

enum { TENMAP_REPAIR_UNDO = 1 }; /* flags: back to the old header; otherwise on to the new one */
enum { TENMAP_REPAIR_NOTHING = 0, TENMAP_REPAIR_FINISHED = 1, TENMAP_REPAIR_UNDONE = 2 }; /* *how */

/*
 * Finishes or undoes an interrupted edit or renaming. Refuses if the record and the file do not
 * belong together, and writes only a header with the same dtypes, shapes and offsets.
 */
TENMAP_API tenmap_status tenmap_repair_metadata(const char *path, uint32_t flags, uint32_t *how,
                                                tenmap_error *error);

/*
 * Save in shards, into an existing folder: a new shard begins whenever the next tensor would make
 * one larger than max_shard_bytes, then the index is written. A model that fits into one file
 * becomes model.safetensors. One rename replaces an existing model, and its old files are removed
 * after that.
 *
 * GGUF: model.gguf, or a split set without an index, whose first part is put in place last. The
 * keys of split.* are set by the save, and giving one is TENMAP_ERR_ARGUMENT. So are a folder with
 * a SafeTensors model, and TENMAP_SAVE_KEEP_OLD over a GGUF model.
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
    uint32_t flags;
    uint32_t format;             /* TENMAP_FORMAT_* */
    const tenmap_edit *metadata; /* pairs for every shard; GGUF: for the first part */
    size_t metadata_count;
    const tenmap_copy_options *copy; /* threads, progress over all shards; NULL: defaults */
} tenmap_save_options;

#define TENMAP_SAVE_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_save_options), 0, 0, 0, 0, 0, NULL, 0, NULL }

/* A call that fails before the rename leaves the folder as it was. */
TENMAP_API tenmap_status tenmap_save_sharded(const char *folder, const tenmap_source *sources,
                                             size_t n, const tenmap_save_options *options,
                                             tenmap_error *error);

#ifdef __cplusplus
}
#endif

#endif

#endif
