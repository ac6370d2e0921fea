/*
 * Models written: the text of headers, files that appear whole or not at all, edits and their undoing.
 */
#ifndef TENMAP_WRITE_H
#define TENMAP_WRITE_H

#include "../values/values.h"

/* Nothing of this is in a build without writing. */
#ifndef TENMAP_NO_WRITE

/* The longest header that readers accept by default: no longer one is written. */
enum { TMI_WRITTEN_HEADER_LIMIT = 100000000 };

/* header_layout.c: the text of a header. No I/O. */

/* Text that grows. Starts zeroed; free bytes with free(). */
typedef struct tmi_buffer {
    char *bytes;
    size_t len, capacity;
    bool failed; /* memory ran out: the text is not whole */
} tmi_buffer;

void tmi_buffer_add(tmi_buffer *buffer, const char *bytes, size_t len);
void tmi_buffer_text(tmi_buffer *buffer, const char *text);
void tmi_buffer_number(tmi_buffer *buffer, uint64_t n);
/* In quotes, with the escapes that the reference uses and no others. */
void tmi_buffer_json(tmi_buffer *buffer, const char *bytes, size_t len);
/* Spaces until the text is `len` long. */
void tmi_buffer_pad(tmi_buffer *buffer, size_t len);

/* Bytes [begin, end) of a tensor that were written. */
typedef struct tmi_written {
    uint64_t begin, end;
} tmi_written;

/* A tensor to be written. Begins as tmi_names wants it. */
typedef struct tmi_planned {
    char *name; /* owned, and behind its NUL nothing else */
    size_t name_len;
    tenmap_dtype dtype;
    uint32_t rank;
    uint64_t *shape; /* owned */
    uint64_t nbytes, nelems;
    uint64_t begin;     /* in the data, once laid out */
    tmi_written *spans; /* in order, apart from each other; owned */
    size_t span_count, span_capacity;
} tmi_planned;

/* A pair of metadata. Begins as tmi_names wants it. */
typedef struct tmi_pair {
    char *key; /* owned, as is the value */
    size_t key_len;
    char *value;
    size_t value_len;
} tmi_pair;

/* "__metadata__":{...}, with nothing before or behind it. */
void tmi_layout_metadata(tmi_buffer *text, const tmi_pair *pairs, size_t count);

/* Another name for a tensor. Begins as tmi_names wants it. All is the caller's. */
typedef struct tmi_rename {
    const char *name;
    size_t name_len;
    const char *to;
    size_t to_len;
} tmi_rename;

/* What the tensors of a header are called in its new text. */
typedef struct tmi_renames {
    tmi_rename *items;
    size_t count;
    size_t changes;  /* items whose names differ: 0 is as good as none */
    tmi_names names; /* over the items */
    bool
        all_alike; /* the items do not count: every key becomes "", to compare what is behind them */
} tmi_renames;

/*
 * Adds every member of a header but __metadata__, behind commas; `text` begins with "{" and may have
 * a member already. But for the keys that `renames` replaces (NULL: none) their texts are as they
 * stand. False if the header is not JSON, or without memory (text->failed).
 */
bool tmi_layout_others(tmi_buffer *text, const char *header, size_t length,
                       const tmi_renames *renames);

typedef struct tmi_layout {
    tmi_planned *tensors; /* their `begin` is set */
    size_t tensor_count;
    const tmi_pair *pairs;
    size_t pair_count;
    uint32_t alignment; /* of the data's first byte; a power of two from 8 on */
    uint32_t slack;     /* bytes of the header to leave free */
    bool keep_order;    /* the tensors as they stand; else by dtype and name */
    uint64_t data_bytes;
} tmi_layout;

/*
 * The file's bytes before the data: length field, text, padding. False without memory. The limit on
 * a header's length is the caller's to check.
 */
bool tmi_layout_build(tmi_layout *layout, tmi_buffer *head);
/* Stores `n` as the length field. */
void tmi_layout_length(unsigned char *field, uint64_t n);

/* writer.c */

/*
 * Takes bytes [offset, offset+bytes) of a tensor for the caller to write: nobody else can have them
 * then. *at is where they go in the file.
 */
tenmap_status tmi_writer_claim(tenmap_writer *writer, size_t id, uint64_t offset, uint64_t bytes,
                               uint64_t *at, tenmap_error *error);
/* The system refused after the claim (an errno): the file can no longer become whole. */
tenmap_status tmi_writer_spoil(tenmap_writer *writer, size_t id, int failed, tenmap_error *error);
/* The same for a failure that *why tells already. */
tenmap_status tmi_writer_spoil_with(tenmap_writer *writer, const tenmap_error *why,
                                    tenmap_error *error);
/* tenmap_writer_create of a name in a folder, which stays the caller's; `shown` is for sentences. */
tenmap_status tmi_writer_create_in(const tmi_folder *folder, const char *name, const char *shown,
                                   const tenmap_writer_options *options, tenmap_writer **out,
                                   tenmap_error *error);
/* A writer without a file, on which declarations can be tried. NULL with an error. End it with
 * abort. */
tenmap_writer *tmi_writer_dry(const char *path, const tenmap_writer_options *options,
                              tenmap_error *error);
/* TENMAP_ERR_LIMIT if a file of tensors [first, first+count) alone had too long a header. */
tenmap_status tmi_writer_check_head(tenmap_writer *dry, size_t first, size_t count,
                                    tenmap_error *error);
/* tenmap_writer_commit; *replaced says whether the new file is there, whatever is returned. */
tenmap_status tmi_writer_commit(tenmap_writer *writer, bool *replaced, tenmap_error *error);
int tmi_writer_fd(const tenmap_writer *writer);
/* A copy of what was declared for a tensor; its pointers stay the writer's. Zeros if it is unknown.
 */
bool tmi_writer_tensor(tenmap_writer *writer, size_t id, tmi_planned *out);
tmi_quoted tmi_writer_shown(const tenmap_writer *writer);

/* copy.c */

/* All that tenmap_writer_copy would refuse before it writes. */
tenmap_status tmi_copy_check(tenmap_writer *writer, size_t id, const tenmap_tensor *tensor,
                             uint32_t flags, tenmap_error *error);
/*
 * Sources that passed the check, as tensors 0 to n-1 of the writer, on threads. `done` of `total`
 * bytes were copied by other calls of the same save; total 0 means that this call is all of it.
 */
tenmap_status tmi_copy_sources(tenmap_writer *writer, const tenmap_source *sources, size_t n,
                               const tenmap_copy_options *options, uint64_t done, uint64_t total,
                               tenmap_error *error);
tenmap_status tmi_take_copy_options(const tenmap_copy_options *given, tenmap_copy_options *out,
                                    tenmap_error *error);

/* renames.c */

/*
 * Checks the names that a caller gives for tensors of an open file; they stay the caller's.
 * tmi_renames_free in either case. Sentences begin with `shown`, the file's path.
 */
tenmap_status tmi_renames_take(tmi_renames *renames, const tenmap_model *model, const char *shown,
                               const tenmap_renaming *given, size_t n, tenmap_error *error);
void tmi_renames_free(tmi_renames *renames);

/* header_journal.c: headers changed where they lie. */

typedef struct tmi_change {
    tmi_identity identity; /* of the file, before */
    uint64_t length;       /* of both texts: the header's place does not change */
    const char *old_text, *new_text;
    bool renames; /* tensors get other names too */
} tmi_change;

/* `fd` is open for writing, its lock is the caller's. */
tenmap_status tmi_change_in_place(const tmi_location *site, int fd, const tmi_change *change,
                                  tenmap_error *error);

#endif
#endif
