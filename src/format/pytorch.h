/* Shared by the files of the PyTorch container: what a checkpoint's pickle says about tensors. */
#ifndef TENMAP_PYTORCH_H
#define TENMAP_PYTORCH_H

#include "pickle.h"
#include "zip_archive.h"

/* Storages of longer keys are not found; torch's have at most 20 bytes. */
enum { TMI_TORCH_LONGEST_KEY = 255 };

/* A storage of the file. It begins with its key, so that tmi_names can find it. */
typedef struct tmi_torch_storage {
    const char *key;
    size_t key_len;
    uint64_t at, bytes;            /* counted from the model's first byte */
    const tmi_pickle_global *type; /* what the pickle says first; NULL: nothing, or no known one */
} tmi_torch_storage;

/* A checkpoint while its pickle is turned into tensors. */
typedef struct tmi_torch {
    tmi_pickle pickle;
    const tmi_place *place;
    tenmap_error *error;
    tmi_header *header;
    uint64_t pickle_at; /* where the pickle begins in the model, for errors */
    tmi_torch_storage *storages;
    size_t storage_count;
    tmi_names keys; /* over the storages */
    bool views;     /* a storage may be a part of another one, as in files from before torch 1.6 */
} tmi_torch;

/*
 * The text of the header, as both forms of files give it to the parser: this, then rows, then the
 * keys, then the pickle.
 */
typedef struct tmi_torch_head {
    uint64_t rows, keys_bytes;
    uint64_t pickle_at, pickle_bytes; /* in the model */
    uint64_t views;                   /* of tmi_torch */
} tmi_torch_head;

typedef struct tmi_torch_row {
    uint64_t key_at, key_len; /* in the keys */
    uint64_t at, bytes;       /* of the storage, in the model */
} tmi_torch_row;

/* The parts of such a text. */
typedef struct tmi_torch_text {
    tmi_torch_row *rows;
    char *keys, *pickle;
} tmi_torch_text;

/* pytorch.c */

/*
 * Makes the text, of which the caller fills in rows, keys and pickle. Returns false if memory runs
 * out; text->length says how much was needed.
 */
bool tmi_torch_text_make(const tmi_torch_head *head, tmi_header_text *text, tmi_torch_text *parts);

/* pytorch_legacy.c: files from before torch 1.6. */

/* Whether these are the first bytes of such a file. It needs eight of them, or more. */
bool tmi_torch_is_legacy(const unsigned char *start, size_t len);
/* As tmi_container.find_text. */
tenmap_status tmi_torch_find_legacy(tmi_header_reader *reader, tmi_header_text *text,
                                    tenmap_error *error);

/* pytorch_names.c: which tensors the pickle holds, and by which names. */

/*
 * Ends a failure that t->error describes: a check gets a finding about the tensor, or about the
 * file if it is NULL. Returns OK if a check can go on without the tensor, otherwise `status`.
 */
tenmap_status tmi_torch_failed(tmi_torch *t, tenmap_status status, uint32_t code,
                               const char *tensor);
/* Fails because of byte `at` of the model. */
#define TMI_TORCH_FAIL(t, status, code, at, tensor, ...)                                           \
    (tmi_fail_at((t)->error, status, (t)->place->shard, (t)->place->offset + (at), __VA_ARGS__),   \
     tmi_torch_failed(t, status, code, tensor))

/* A name, and the value that it belongs to. */
typedef struct tmi_torch_named {
    size_t at, len; /* of the name in tmi_torch_names.text, NUL-terminated there */
    tmi_ref value;
} tmi_torch_named;

typedef struct tmi_torch_names {
    char *text;
    size_t text_used, text_capacity;
    tmi_torch_named *named; /* in the order of the pickle */
    size_t count, capacity;
} tmi_torch_names;

/*
 * Names all tensors of the model; with TENMAP_OPEN_BRANCHES those of the file, by their full names.
 */
tenmap_status tmi_torch_find_tensors(tmi_torch *t, tmi_torch_names *names);
/* Names all plain values: numbers, truth values and strings in dicts. */
tenmap_status tmi_torch_find_values(tmi_torch *t, tmi_torch_names *names);
void tmi_torch_names_free(tmi_torch_names *names);

/* pytorch_keys.c */

/*
 * Looks for a key that the dict has twice, in Python's sense, with a tensor in one of its values.
 * Sets *twice to the second one, or leaves it as it is. The marks of values that hold tensors are
 * set. Each item, and each byte of a key, takes a step from *steps: LIMIT if none are left.
 */
tenmap_status tmi_torch_find_twin(tmi_torch *t, tmi_ref dict, uint64_t *steps, tmi_ref *twice);

/* pytorch_tensors.c: what a tensor is. */

/* How the pickle describes a tensor. */
typedef struct tmi_torch_tensor {
    tenmap_dtype dtype;
    tmi_ref shape, strides; /* tuples or lists of `rank` whole numbers */
    uint32_t rank;
    uint64_t offset;   /* of the first element in the storage, in elements */
    uint64_t elements; /* of a bare storage, which has no shape */
    bool bare;
    const tmi_torch_storage *storage;
    uint64_t view_at, view_bytes; /* of the storage, what the tensor may see */
} tmi_torch_tensor;

/* Why a value is no tensor that can be opened. */
typedef struct tmi_torch_problem {
    char text[240];
    tenmap_status status;
    uint32_t code; /* TENMAP_FOUND_* */
} tmi_torch_problem;

/* Whether the value is a storage, or what a known call that makes a tensor would return. */
bool tmi_torch_is_tensor(const tmi_torch *t, tmi_ref ref);
/* Whether an unknown global that gets tensors as arguments would return the value. */
bool tmi_torch_is_made_by_code(const tmi_torch *t, tmi_ref ref);
/* Sets the types of all storages, also of those that no listed tensor uses. */
void tmi_torch_take_types(tmi_torch *t);
/* Describes the tensor; false, with the problem set, if it cannot be opened. */
bool tmi_torch_describe(tmi_torch *t, tmi_ref ref, tmi_torch_tensor *out,
                        tmi_torch_problem *problem);
/* The rank of a tuple, list or torch.Size; false if it is none of them. */
bool tmi_torch_rank(const tmi_torch *t, tmi_ref list, uint32_t *rank);
/* Reads its numbers; false if one is not a whole number, or negative. */
bool tmi_torch_numbers(const tmi_torch *t, tmi_ref list, uint64_t *out, uint32_t rank);

/* pytorch_header.c: turns what was found into the header's tables. */

/* Fails because of t->pickle, which has a problem. */
tenmap_status tmi_torch_fail_pickle(tmi_torch *t);
/* Reports the globals of t->pickle that are code. Each is one finding, with its opcode's byte. */
void tmi_torch_report_code(const tmi_torch *t);
/*
 * Reads the pickle and fills t->header, which is zeroed, with tensors and metadata. The rest of *t
 * is set, except for t->pickle. On failure the header may be filled in part. With TMI_OPEN_VALUES
 * it fills in header->values instead, which takes t->storages; the caller adds the text.
 */
tenmap_status tmi_torch_fill(tmi_torch *t, const unsigned char *pickle, size_t bytes);

/* The values of an open checkpoint, for a caller that makes objects of them (TMI_OPEN_VALUES). */
typedef struct tmi_torch_values {
    tmi_pickle pickle;
    uint64_t pickle_at; /* where it begins, counted from the model's first byte */
    tmi_torch_storage *storages;
    size_t storage_count;
    tmi_block text; /* of the header: the pickle's bytes and the storages' keys lie in it */
} tmi_torch_values;

#endif
