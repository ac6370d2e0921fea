/*
 * Writing models: header text, files that appear complete or not at all, and edits that can be
 * undone.
 */
#ifndef TENMAP_WRITE_H
#define TENMAP_WRITE_H

#include "../values/values.h"

/* A build without writing has none of this. */
#ifndef TENMAP_NO_WRITE

/*
 * The longest header that readers accept by default; longer ones are not written. Of a SafeTensors
 * file the text counts, of a GGUF file everything before the data.
 */
enum { TMI_WRITTEN_HEADER_LIMIT = 100000000 };

/* Bytes for the reason why a format cannot hold something. */
enum { TMI_REFUSAL_ROOM = 160 };

/* header_layout.c: the text of a header, without I/O. */

/* A growing text. Starts zeroed; free bytes with free(). */
typedef struct tmi_buffer {
    char *bytes;
    size_t len, capacity;
    bool failed; /* memory ran out: the text is incomplete */
} tmi_buffer;

void tmi_buffer_add(tmi_buffer *buffer, const char *bytes, size_t len);
void tmi_buffer_text(tmi_buffer *buffer, const char *text);
void tmi_buffer_number(tmi_buffer *buffer, uint64_t n);
/* In quotes, with exactly the escapes that the reference implementation uses. */
void tmi_buffer_json(tmi_buffer *buffer, const char *bytes, size_t len);
/* Appends spaces until the text is `len` bytes long. */
void tmi_buffer_pad(tmi_buffer *buffer, size_t len);

/* Bytes [begin, end) of a tensor that were written. */
typedef struct tmi_written {
    uint64_t begin, end;
} tmi_written;

/* A tensor to be written. Starts with the fields that tmi_names requires. */
typedef struct tmi_planned {
    char *name; /* owned; nothing follows its NUL */
    size_t name_len;
    tenmap_dtype dtype;
    uint32_t rank;
    uint64_t *shape; /* owned */
    uint64_t nbytes, nelems;
    uint64_t begin;     /* offset in the data, once laid out */
    tmi_written *spans; /* sorted, not touching each other; owned */
    size_t span_count, span_capacity;
} tmi_planned;

/* A metadata pair. Starts with the fields that tmi_names requires. */
typedef struct tmi_pair {
    char *key; /* owned, as is the value */
    size_t key_len;
    char *value; /* a string, or the bytes of another value as tenmap_value.raw has them */
    size_t value_len;
    uint32_t type, element_type; /* TENMAP_VALUE_*, as in tenmap_value */
    uint64_t count;
} tmi_pair;

/* Appends "__metadata__":{...} and nothing else. */
void tmi_layout_metadata(tmi_buffer *text, const tmi_pair *pairs, size_t count);

/*
 * A new name for a tensor. Starts with the fields that tmi_names requires. The caller owns all of
 * it.
 */
typedef struct tmi_rename {
    const char *name;
    size_t name_len;
    const char *to;
    size_t to_len;
} tmi_rename;

/* The new names for the tensors of a header. */
typedef struct tmi_renames {
    tmi_rename *items;
    size_t count;
    size_t changes;  /* items whose two names differ; 0 has the same effect as no renames */
    tmi_names names; /* over the items */
    /* Ignores the items and replaces every key with "", to compare what follows the keys. */
    bool empty_keys;
} tmi_renames;

/*
 * Appends every member of a header except __metadata__, separated by commas. `text` begins with "{"
 * and may already have a member. Members keep their exact text, except for keys that `renames`
 * replaces (NULL: none). Returns false if the header is not JSON or memory runs out (text->failed).
 */
bool tmi_layout_others(tmi_buffer *text, const char *header, size_t length,
                       const tmi_renames *renames);

typedef struct tmi_layout {
    tmi_planned *tensors; /* tmi_layout_build sets their `begin` */
    size_t tensor_count;
    const tmi_pair *pairs;
    size_t pair_count;
    uint32_t alignment; /* of the data's first byte; a power of two, at least 8 */
    uint32_t slack;     /* bytes of the header to leave free */
    bool keep_order;    /* tensors stay in the given order; otherwise sorted by dtype and name */
    uint64_t data_bytes;
} tmi_layout;

/*
 * Builds the file's bytes before the data: length field, text, padding. Returns false if memory
 * runs out. The caller checks the limit on the header's length.
 */
bool tmi_layout_build(tmi_layout *layout, tmi_buffer *head);
/* Stores `n` as a little-endian 64-bit number. */
void tmi_layout_length(unsigned char *field, uint64_t n);

/* gguf_layout.c: the same for GGUF, whose alignment is that of every tensor. */

#define TMI_GGUF_ALIGNMENT "general.alignment"
/* The last pair of a header with spare bytes, which are its elements. */
#define TMI_GGUF_PADDING "tenmap.padding"

/*
 * What keeps a GGUF file from holding the tensor, as the end of an error message ("its name has 70
 * bytes, ..."), written to `text`; NULL: nothing.
 */
const char *tmi_gguf_refuses(const tmi_planned *tensor, char text[TMI_REFUSAL_ROOM]);
bool tmi_gguf_key_is(const char *key, size_t len, const char *known);
/* tmi_layout_build for GGUF. */
bool tmi_gguf_layout_build(tmi_layout *layout, tmi_buffer *head);

/* The two lists that make up a header. Starts zeroed. */
typedef struct tmi_gguf_text {
    tmi_buffer pairs, rows;
    uint64_t pair_count, row_count;
} tmi_gguf_text;

void tmi_gguf_add_pair(tmi_gguf_text *text, const tmi_pair *pair);
/*
 * Adds the rows of a header, which keep everything except the names that `renames` replaces (NULL:
 * none). *end is where the header ends. Returns false if it is not a header or memory runs out.
 */
bool tmi_gguf_add_rows_of(tmi_gguf_text *text, const void *head, size_t len,
                          const tmi_renames *renames, uint64_t *end);
/* The least length of the header, its first 8 bytes included and padding excluded. */
uint64_t tmi_gguf_least(const tmi_gguf_text *text);
uint64_t tmi_gguf_align(uint64_t n, uint32_t alignment);
/* Whether a header of these lists can have the length `start`, where data begins. */
bool tmi_gguf_can_end_at(const tmi_gguf_text *text, uint64_t start, uint32_t alignment);
/* Appends that header from its byte 8 on. */
void tmi_gguf_assemble(const tmi_gguf_text *text, uint64_t start, uint32_t alignment,
                       tmi_buffer *out);
void tmi_gguf_text_free(tmi_gguf_text *text);

/* writer_values.c */

/* Checks that a pair's value is whole, and that a file of this format can hold it. */
tenmap_status tmi_pair_check(const tmi_pair *pair, uint32_t format, tmi_quoted shown,
                             tenmap_error *error);

/* writer.c */

/*
 * Checks a text that the caller declares, which must be UTF-8, and sets its length. `what` names it
 * in the error message.
 */
tenmap_status tmi_writer_check_text(const tenmap_writer *writer, const char *what, const char *text,
                                    size_t *len, tenmap_error *error);
/* Adds a pair, and takes its key and its value from the caller if it succeeds. */
tenmap_status tmi_writer_add_pair(tenmap_writer *writer, const tmi_pair *pair, tenmap_error *error);
/* The options that the writer was made with, and what stands for the default in them. */
const tenmap_writer_options *tmi_writer_options(const tenmap_writer *writer);

/*
 * Claims bytes [offset, offset+bytes) of a tensor for the caller to write; nobody else can claim
 * them afterwards. *at is their offset in the file.
 */
tenmap_status tmi_writer_claim(tenmap_writer *writer, size_t id, uint64_t offset, uint64_t bytes,
                               uint64_t *at, tenmap_error *error);
/*
 * Records that a write failed after the claim; `failed` is an errno. The file can no longer be
 * completed.
 */
tenmap_status tmi_writer_spoil(tenmap_writer *writer, size_t id, int failed, tenmap_error *error);
/* Like tmi_writer_spoil, for a failure that *why already describes. */
tenmap_status tmi_writer_spoil_with(tenmap_writer *writer, const tenmap_error *why,
                                    tenmap_error *error);
/*
 * tenmap_writer_create for a name in a folder that stays the caller's; `shown` is for error
 * messages.
 */
tenmap_status tmi_writer_create_in(const tmi_folder *folder, const char *name, const char *shown,
                                   const tenmap_writer_options *options, tenmap_writer **out,
                                   tenmap_error *error);
/*
 * Creates a writer without a file, for checking declarations. NULL with an error. End it with
 * tenmap_writer_abort.
 */
tenmap_writer *tmi_writer_dry(const char *path, const tenmap_writer_options *options,
                              tenmap_error *error);
/* What one file of a model has: some of the tensors, and all pairs from first_pair on. */
typedef struct tmi_head_items {
    size_t first_tensor, tensor_count, first_pair;
} tmi_head_items;
/* Returns TENMAP_ERR_LIMIT if a file of only these items would have too long a header. */
tenmap_status tmi_writer_check_head(tenmap_writer *dry, tmi_head_items items, tenmap_error *error);
/*
 * tenmap_writer_commit, but *replaced says whether the new file is in place, whatever is returned.
 */
tenmap_status tmi_writer_commit(tenmap_writer *writer, bool *replaced, tenmap_error *error);
int tmi_writer_fd(const tenmap_writer *writer);
/*
 * Copies a tensor's declaration to *out; its pointers stay the writer's. Returns false, with *out
 * zeroed, if there is no such tensor.
 */
bool tmi_writer_tensor(tenmap_writer *writer, size_t id, tmi_planned *out);
tmi_quoted tmi_writer_shown(const tenmap_writer *writer);

/* copy.c */

/* Checks everything that tenmap_writer_copy would refuse before it writes. */
tenmap_status tmi_copy_check(tenmap_writer *writer, size_t id, const tenmap_tensor *tensor,
                             uint32_t flags, tenmap_error *error);
/* How far the earlier copies of one save have come, in bytes. total 0: there is only one copy. */
typedef struct tmi_copied {
    uint64_t done, total;
} tmi_copied;
/* Copies sources that passed the check, as tensors 0 to n-1 of the writer, on several threads. */
tenmap_status tmi_copy_sources(tenmap_writer *writer, const tenmap_source *sources, size_t n,
                               const tenmap_copy_options *options, tmi_copied before,
                               tenmap_error *error);
tenmap_status tmi_init_copy_options(const tenmap_copy_options *given, tenmap_copy_options *out,
                                    tenmap_error *error);

/* renames.c */

/*
 * Checks the new names that a caller gives for tensors of an open file; they stay the caller's.
 * Call tmi_renames_free whether or not it succeeds. Error messages begin with `shown`, the file's
 * path.
 */
tenmap_status tmi_renames_take(tmi_renames *renames, const tenmap_model *model, const char *shown,
                               const tenmap_renaming *given, size_t n, tenmap_error *error);
void tmi_renames_free(tmi_renames *renames);

/* header_journal.c: headers changed in place. */

typedef struct tmi_change {
    tmi_identity identity; /* of the file, before the change */
    uint64_t length;       /* of both texts: the header keeps its size */
    const char *old_text, *new_text;
    const unsigned char *first; /* the 8 bytes before them, which stay as they are */
    bool renames;               /* tensors are renamed too */
    bool gguf;                  /* else a SafeTensors file */
} tmi_change;

/* `fd` is open for writing, and the caller holds its lock. */
tenmap_status tmi_change_in_place(const tmi_location *location, int fd, const tmi_change *change,
                                  tenmap_error *error);

#endif
#endif
