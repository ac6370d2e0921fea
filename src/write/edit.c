/*
 * Edits metadata and tensor names: builds the new header and puts it into the file in place, in a
 * cloned file, or in a copy.
 */
#include "../format/gguf.h"
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * EDIT_SLACK is the free space that a header gets in a new file, so that the next edit fits in
 * place.
 */
enum { EDIT_SLACK = 1024, EDIT_BUFFER = 1 << 20, WIDEST_ALIGNMENT = 4096 };

typedef struct editing_file {
    tmi_location location; /* of the file to change or replace */
    uint32_t flags;
    tmi_file lock; /* holds the lock during the edit */
    tenmap_model *model;
    uint32_t format;        /* TENMAP_FORMAT_* */
    uint32_t alignment;     /* of the data */
    unsigned char first[8]; /* of the file: a length, or GGUF's magic and version */
    uint64_t length;        /* from there to the data */
    tmi_block old;          /* these bytes, followed by TMI_JSON_PAD zeros */
    tmi_pair *pairs;        /* borrowed strings */
    size_t pair_count;
    bool naming; /* tensors are to be renamed */
    tmi_renames renames;
    tmi_gguf_text lists; /* of the new header of a GGUF file */
    tmi_buffer text;     /* of the new header, from the file's byte 8 on */
    tenmap_error *error;
} editing_file;

#define FAIL_EDIT(e, status, format, ...)                                                          \
    tmi_fail((e)->error, status, "%s: " format, tmi_quote_path((e)->location.shown).text,          \
             __VA_ARGS__)
#define FAIL_EDIT_REPLACED(e)                                                                      \
    FAIL_EDIT(e, TENMAP_ERR_IO, "%s", "another program has just replaced the file")
#define FAIL_EDIT_OS(e, failed, what)                                                              \
    tmi_fail_os((e)->error, failed, "%s: %s", tmi_quote_path((e)->location.shown).text, what)

static tenmap_status init_edit_options(const tenmap_edit_options *given, tenmap_edit_options *out,
                                       tenmap_error *error) {
    static const tmi_options_kind kind = {"tenmap_edit_options",
                                          "TENMAP_EDIT_OPTIONS_INIT",
                                          sizeof(tenmap_edit_options),
                                          sizeof(tenmap_edit_options),
                                          offsetof(tenmap_edit_options, flags),
                                          TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE |
                                              TENMAP_EDIT_FOLLOW_LINKS | TENMAP_EDIT_NO_COPY,
                                          offsetof(tenmap_edit_options, reserved)};
    return tmi_options_copy(&kind, given, out, error);
}

/* The alignment that a GGUF file's tensors have. The reader has checked it. */
static uint32_t gguf_alignment(const tenmap_model *model) {
    uint32_t alignment = 32;
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        const unsigned char *raw = m->raw;
        if (tmi_gguf_key_is(m->key, m->key_len, TMI_GGUF_ALIGNMENT))
            alignment =
                raw[0] | (uint32_t)raw[1] << 8 | (uint32_t)raw[2] << 16 | (uint32_t)raw[3] << 24;
    }
    return alignment;
}

/* Reads everything before the data. */
static tenmap_status edit_read(editing_file *e, const tmi_shard *shard) {
    tmi_block first;
    bool gguf = e->format == TENMAP_FORMAT_GGUF;
    uint64_t start = gguf ? shard->view.data_offset : 8 + shard->view.header_bytes;
    tenmap_status status = tmi_read_text(&shard->bytes, 0, 8, "the header", &first, e->error);
    if (status != TENMAP_OK)
        return status;
    memcpy(e->first, first.bytes, sizeof e->first);
    tmi_block_free(&first);
    e->alignment = gguf ? gguf_alignment(e->model) : 8;
    if (gguf && start > TMI_WRITTEN_HEADER_LIMIT)
        return FAIL_EDIT(e, TENMAP_ERR_LIMIT,
                         "its data begins at byte %llu; edits hold everything before the data in "
                         "memory, and that may have %llu bytes: write the model again",
                         (ull)start, (ull)TMI_WRITTEN_HEADER_LIMIT);
    e->length = start - 8;
    return tmi_read_text(&shard->bytes, 8, e->length, "the header", &e->old, e->error);
}

/* Takes the lock first, so that everything read under it stays true. */
static tenmap_status edit_open(editing_file *e) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = TENMAP_BACKEND_READ;
    int failed = tmi_file_open_in(&e->lock, &e->location.folder, e->location.name);
    if (failed)
        return FAIL_EDIT_OS(e, failed, "cannot open it");
    if (e->lock.kind == TMI_FILE_FOLDER)
        return FAIL_EDIT(e, TENMAP_ERR_ARGUMENT, "%s",
                         "it is a folder; headers are edited one file at a time");
    if (e->lock.fd >= 0 && tmi_fd_lock(e->lock.fd) != 0)
        return FAIL_EDIT(e, TENMAP_ERR_IO, "%s", "another program is editing the file right now");
    tenmap_status status =
        tmi_open_edited(&e->lock, e->location.shown, &options, &e->model, e->error);
    if (status != TENMAP_OK)
        return status;
    if (e->model->index_text.bytes)
        return FAIL_EDIT(e, TENMAP_ERR_ARGUMENT, "%s",
                         "it is an index; headers are edited one file at a time");
    const tmi_shard *shard = &e->model->shards[0];
    e->format = shard->container == &tmi_gguf ? TENMAP_FORMAT_GGUF : TENMAP_FORMAT_SAFETENSORS;
    if (shard->container != &tmi_gguf && shard->container != &tmi_safetensors)
        return FAIL_EDIT(e, TENMAP_ERR_UNSUPPORTED,
                         "its %s cannot be edited: it is neither a SafeTensors nor a GGUF file",
                         e->naming ? "names" : "metadata");
    if (!tmi_fd_is_at(e->lock.fd, &e->location.folder, e->location.name))
        return FAIL_EDIT_REPLACED(e);
    return edit_read(e, shard);
}

/* The pairs after the edits. */

/* A key of the file or of an edit, and its current pair. */
typedef struct edited_key {
    const char *key;
    size_t len;
    size_t at; /* index of the pair; TMI_NONE: it has none */
} edited_key;

typedef struct edited_keys {
    edited_key *items;
    size_t count;
    tmi_names names;
} edited_keys;

static edited_key *find_edited_key(edited_keys *keys, const char *key, size_t len) {
    keys->items[keys->count] = (edited_key){key, len, TMI_NONE};
    size_t twin = tmi_names_put(&keys->names, keys->count, tmi_hash(&keys->names.key, key, len));
    return &keys->items[twin == TMI_NONE ? keys->count++ : twin];
}

static tenmap_status check_edit(const editing_file *e, size_t number, const char *what,
                                const char *text, size_t len) {
    size_t valid = tmi_utf8_valid(text, len);
    if (valid == len)
        return TENMAP_OK;
    tenmap_status status =
        FAIL_EDIT(e, TENMAP_ERR_ARGUMENT, "edit %llu: the %s is not valid UTF-8 at its byte %llu",
                  (ull)number, what, (ull)valid);
    if (e->error)
        e->error->index = number;
    return status;
}

/* Whether the pair says how the rest of a GGUF file is read. */
static bool is_structural(const editing_file *e, const tmi_pair *pair) {
    return e->format == TENMAP_FORMAT_GGUF &&
           (tmi_gguf_key_is(pair->key, pair->key_len, TMI_GGUF_ALIGNMENT) ||
            tmi_gguf_key_is(pair->key, pair->key_len, TMI_GGUF_PADDING) ||
            (pair->key_len >= 6 && memcmp(pair->key, "split.", 6) == 0));
}

/* The pair that an edit sets; its value is NULL if the edit removes the key. */
static tmi_pair pair_of_edit(const tenmap_edit *edit) {
    const tenmap_value *typed = edit->typed;
    tmi_pair pair = {.key = (char *)(uintptr_t)edit->key,
                     .key_len = edit->key_len == TENMAP_CSTR ? strlen(edit->key) : edit->key_len,
                     .type = TENMAP_VALUE_STRING,
                     .element_type = TENMAP_VALUE_STRING,
                     .count = 1};
    if (edit->value) {
        pair.value = (char *)(uintptr_t)edit->value;
        pair.value_len = edit->value_len == TENMAP_CSTR ? strlen(edit->value) : edit->value_len;
    } else if (typed) {
        pair.value = (char *)(uintptr_t)(typed->raw ? typed->raw : "");
        pair.value_len = (size_t)typed->raw_bytes;
        pair.type = typed->type;
        pair.element_type = typed->element_type;
        pair.count = typed->count;
    }
    return pair;
}

static tenmap_status fail_edit(const editing_file *e, size_t number, tenmap_status status) {
    if (e->error)
        e->error->index = number;
    return status;
}

static tenmap_status check_pair(const editing_file *e, const tmi_pair *pair, size_t number) {
    tenmap_status status = check_edit(e, number, "key", pair->key, pair->key_len);
    if (status == TENMAP_OK && pair->type == TENMAP_VALUE_STRING &&
        e->format == TENMAP_FORMAT_SAFETENSORS)
        status = check_edit(e, number, "value", pair->value, pair->value_len);
    if (status != TENMAP_OK)
        return status;
    status = tmi_pair_check(pair, e->format, tmi_quote_path(e->location.shown), e->error);
    return status == TENMAP_OK ? status : fail_edit(e, number, status);
}

static tenmap_status check_arguments(const editing_file *e, const tenmap_edit *edit,
                                     size_t number) {
    const tenmap_value *typed = edit->typed;
    const char *why = !edit->key                                 ? "the key is NULL"
                      : edit->value && typed                     ? "both value and typed are given"
                      : typed && !typed->raw && typed->raw_bytes ? "typed->raw is NULL"
                      : typed && typed->raw_bytes > TMI_WRITTEN_HEADER_LIMIT
                          ? "typed->raw_bytes are more than a header may have"
                          : NULL;
    if (!why)
        return TENMAP_OK;
    return fail_edit(e, number,
                     FAIL_EDIT(e, TENMAP_ERR_ARGUMENT, "edit %llu: %s", (ull)number, why));
}

/* A removed pair stays in the list without a key until all edits are done. */
static tenmap_status apply_edit(editing_file *e, edited_keys *keys, const tenmap_edit *edit,
                                size_t number) {
    tenmap_status status = check_arguments(e, edit, number);
    if (status != TENMAP_OK || !edit->key)
        return status;
    tmi_pair pair = pair_of_edit(edit);
    if (is_structural(e, &pair))
        return fail_edit(e, number,
                         FAIL_EDIT(e, TENMAP_ERR_ARGUMENT,
                                   "edit %llu: the key %s says how the rest of the file is read, "
                                   "so it cannot be edited: write the model again",
                                   (ull)number, tmi_quote(pair.key, pair.key_len).text));
    edited_key *found = find_edited_key(keys, pair.key, pair.key_len);
    if (!pair.value) {
        if (found->at != TMI_NONE)
            e->pairs[found->at].key = NULL;
        found->at = TMI_NONE;
        return TENMAP_OK;
    }
    status = check_pair(e, &pair, number);
    if (status != TENMAP_OK)
        return status;
    if (found->at == TMI_NONE)
        found->at = e->pair_count++;
    e->pairs[found->at] = pair;
    return TENMAP_OK;
}

/* The pair as the file has it. */
static tmi_pair pair_of_file(const editing_file *e, const tenmap_metadata *m) {
    bool gguf = e->format == TENMAP_FORMAT_GGUF;
    return (tmi_pair){.key = (char *)(uintptr_t)m->key,
                      .key_len = m->key_len,
                      .value = (char *)(uintptr_t)(gguf ? (const char *)m->raw : m->value),
                      .value_len = gguf ? (size_t)m->raw_bytes : m->value_len,
                      .type = m->type,
                      .element_type = m->element_type,
                      .count = m->count};
}

static tenmap_status apply_all(editing_file *e, edited_keys *keys, const tenmap_edit *edits,
                               size_t n) {
    size_t had = tenmap_metadata_count(e->model), kept = 0;
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < had; i++) {
        const tenmap_metadata *m = tenmap_metadata_at(e->model, i);
        find_edited_key(keys, m->key, m->key_len)->at = i;
        e->pairs[i] = pair_of_file(e, m);
        if (e->format == TENMAP_FORMAT_GGUF &&
            tmi_gguf_key_is(m->key, m->key_len, TMI_GGUF_PADDING))
            e->pairs[i].key = NULL; /* made anew */
    }
    e->pair_count = had;
    for (size_t i = 0; status == TENMAP_OK && i < n; i++)
        status = apply_edit(e, keys, &edits[i], i);
    for (size_t i = 0; i < e->pair_count; i++)
        if (e->pairs[i].key)
            e->pairs[kept++] = e->pairs[i];
    e->pair_count = kept;
    return status;
}

static tenmap_status apply_edits(editing_file *e, const tenmap_edit *edits, size_t n) {
    size_t had = tenmap_metadata_count(e->model);
    size_t most = n < SIZE_MAX - had ? had + n + 1 : SIZE_MAX;
    tmi_hash_key key = tmi_hash_key_new(); /* edits may come from untrusted files too */
    edited_keys keys = {.items = tmi_calloc(most, sizeof *keys.items)};
    tenmap_status status = TENMAP_OK;
    e->pairs = tmi_calloc(most, sizeof *e->pairs);
    if (!e->pairs || !keys.items ||
        !tmi_names_init(&keys.names, &key, keys.items, sizeof *keys.items, most))
        status = tmi_fail_memory(e->error, most, "the metadata");
    else
        status = apply_all(e, &keys, edits, n);
    tmi_names_free(&keys.names);
    free(keys.items);
    return status;
}

/* Builds the new lists of pairs and of tensors, whose names may change. */
static bool edit_lists(editing_file *e) {
    tmi_block head; /* the first 8 bytes too */
    uint64_t end;
    if (!tmi_block_alloc(&head, (size_t)e->length + 8)) {
        e->lists.rows.failed = true;
        return false;
    }
    memcpy(head.bytes, e->first, 8);
    memcpy((char *)head.bytes + 8, e->old.bytes, (size_t)e->length);
    for (size_t i = 0; i < e->pair_count; i++)
        tmi_gguf_add_pair(&e->lists, &e->pairs[i]);
    bool good = tmi_gguf_add_rows_of(&e->lists, head.bytes, (size_t)e->length + 8,
                                     e->renames.changes > 0 ? &e->renames : NULL, &end);
    tmi_block_free(&head);
    e->text.failed = e->lists.pairs.failed || e->lists.rows.failed;
    return good;
}

/* Builds the new text: the metadata, then every other member unchanged except for renamed keys. */
static bool edit_members(editing_file *e) {
    tmi_buffer_add(&e->text, "{", 1);
    if (e->pair_count > 0)
        tmi_layout_metadata(&e->text, e->pairs, e->pair_count);
    bool good = tmi_layout_others(&e->text, e->old.bytes, (size_t)e->length,
                                  e->renames.changes > 0 ? &e->renames : NULL);
    tmi_buffer_add(&e->text, "}", 1);
    return good;
}

/* The least bytes that the new header needs, its first 8 included. */
static uint64_t least_head(const editing_file *e) {
    return e->format == TENMAP_FORMAT_GGUF ? tmi_gguf_least(&e->lists) : 8 + (uint64_t)e->text.len;
}

/* The length of a header behind which data begins at `start`, as the limit counts it. */
static uint64_t limited_length(const editing_file *e, uint64_t start) {
    return e->format == TENMAP_FORMAT_GGUF ? start : start - 8;
}

static tenmap_status edit_text(editing_file *e) {
    bool good = e->format == TENMAP_FORMAT_GGUF ? edit_lists(e) : edit_members(e);
    if (e->text.failed)
        return tmi_fail_memory(e->error, e->length, "the new header");
    if (!good)
        return FAIL_EDIT(e, TENMAP_ERR_IO, "%s", "the header changed while it was read");
    uint64_t length = limited_length(e, tmi_gguf_align(least_head(e), e->alignment));
    if (length > TMI_WRITTEN_HEADER_LIMIT)
        return FAIL_EDIT(e, TENMAP_ERR_LIMIT,
                         "the header would have %llu bytes, over the %llu that readers accept",
                         (ull)length, (ull)TMI_WRITTEN_HEADER_LIMIT);
    return TENMAP_OK;
}

/* Whether data can begin at `start` behind the new header. */
static bool fits(const editing_file *e, uint64_t start) {
    return e->format == TENMAP_FORMAT_GGUF ? tmi_gguf_can_end_at(&e->lists, start, e->alignment)
                                           : least_head(e) <= start;
}

/* Completes the text, behind which data begins at `start`. Returns false if memory runs out. */
static bool finish_text(editing_file *e, uint64_t start) {
    if (e->format == TENMAP_FORMAT_GGUF) {
        free(e->text.bytes); /* of another start, which was tried before */
        e->text = (tmi_buffer){NULL, 0, 0, false};
        tmi_gguf_assemble(&e->lists, start, e->alignment, &e->text);
    } else {
        tmi_buffer_pad(&e->text, (size_t)(start - 8));
        tmi_layout_length(e->first, start - 8);
    }
    return !e->text.failed;
}

/* Whether another program has written to the file without taking our lock. */
static bool source_changed(const editing_file *e) {
    return tmi_file_changed(&e->model->shards[0].bytes.file, NULL);
}

/* Editing in place. */

/*
 * Whether the file with this identity is the locked file and still has its name. Its descriptor was
 * opened after the lock was taken.
 */
static bool is_locked_file(const editing_file *e, const tmi_identity *identity) {
    tmi_identity locked;
    return tmi_fd_identity(e->lock.fd, &locked) == 0 && locked.device == identity->device &&
           locked.inode == identity->inode &&
           tmi_fd_is_at(e->lock.fd, &e->location.folder, e->location.name);
}

/* *done stays false if the file must not or cannot be changed in place. */
static tenmap_status edit_in_place(editing_file *e, bool *done) {
    tmi_change change = {.length = e->length,
                         .old_text = e->old.bytes,
                         .first = e->first,
                         .renames = e->renames.changes > 0,
                         .gguf = e->format == TENMAP_FORMAT_GGUF};
    int fd = -1;
    tenmap_status status = TENMAP_OK;
    *done = false;
    if (!fits(e, 8 + e->length) || (e->flags & TENMAP_EDIT_NO_IN_PLACE))
        return TENMAP_OK;
    int failed = tmi_fd_open_write(&e->location.folder, e->location.name, &fd);
    if (!failed)
        failed = tmi_fd_identity(fd, &change.identity);
    if (!failed && !is_locked_file(e, &change.identity)) {
        status = FAIL_EDIT_REPLACED(e);
    } else if (!failed && change.identity.regular && change.identity.links == 1) {
        *done = true;
        bool built = finish_text(e, 8 + e->length);
        change.new_text = e->text.bytes;
        if (!built || !change.new_text)
            status = tmi_fail_memory(e->error, e->length, "the new header");
        else if (source_changed(e))
            status = FAIL_EDIT(e, TENMAP_ERR_IO, "%s", "the file changed while it was read");
        else if (memcmp(change.old_text, change.new_text, (size_t)e->length) != 0)
            status = tmi_change_in_place(&e->location, fd, &change, e->error);
    }
    tmi_fd_close(fd);
    return status;
}

/* Editing by way of a new file. */

/* The smallest offset at or above `least` that is congruent to `like` modulo `unit`. */
static uint64_t congruent(uint64_t least, uint64_t like, uint64_t unit) {
    uint64_t at = least / unit * unit + like % unit;
    return at < least ? at + unit : at;
}

static int edit_head(editing_file *e, int fd, uint64_t data_start) {
    if (!finish_text(e, data_start))
        return ENOMEM;
    int failed = tmi_fd_write(fd, 0, e->first, sizeof e->first);
    return failed ? failed : tmi_fd_write(fd, 8, e->text.bytes, e->text.len);
}

static int copy_span(const editing_file *e, uint64_t from, int fd, uint64_t to, uint64_t size) {
    const tmi_file *file = &e->model->shards[0].bytes.file;
    size_t got = 0;
    char *buffer = malloc(EDIT_BUFFER);
    int failed = buffer ? 0 : ENOMEM;
    while (!failed && size > 0) {
        size_t part = size < EDIT_BUFFER ? (size_t)size : EDIT_BUFFER;
        failed = tmi_file_read(file, from, buffer, part, &got);
        if (!failed && got != part)
            failed = EIO;
        if (!failed)
            failed = tmi_fd_write(fd, to, buffer, part);
        from += part;
        to += part;
        size -= part;
    }
    free(buffer);
    return failed;
}

/*
 * Shares the whole blocks of the data and copies the bytes before the first one. The last block may
 * be partial only if it is the last one of the source, so sharing fails if the source has grown
 * meanwhile.
 */
static int edit_cloned(editing_file *e, int fd) {
    const tmi_shard *shard = &e->model->shards[0];
    uint64_t block = tmi_fd_block(fd), old_start = 8 + e->length;
    uint64_t shared = congruent(old_start, 0, block);
    uint64_t unit = e->alignment > block ? e->alignment : block; /* both are powers of two */
    uint64_t start = congruent(least_head(e) + EDIT_SLACK, old_start, unit);
    if (shard->size <= shared || (e->flags & TENMAP_EDIT_NO_CLONE) ||
        limited_length(e, start) > TMI_WRITTEN_HEADER_LIMIT)
        return EOPNOTSUPP;
    int failed = tmi_fd_clone(shard->bytes.file.fd, shared, fd, start + (shared - old_start),
                              shard->size - shared);
    if (failed)
        return EOPNOTSUPP;
    failed = edit_head(e, fd, start);
    return failed ? failed : copy_span(e, old_start, fd, start, shared - old_start);
}

static int edit_copied(editing_file *e, int fd) {
    const tmi_shard *shard = &e->model->shards[0];
    uint64_t old_start = 8 + e->length, size = shard->size - old_start, done;
    uint64_t alignment = old_start & (~old_start + 1);
    if (alignment > WIDEST_ALIGNMENT)
        alignment = WIDEST_ALIGNMENT;
    if (alignment < e->alignment)
        alignment = e->alignment;
    uint64_t start = congruent(least_head(e) + EDIT_SLACK, 0, alignment);
    if (limited_length(e, start) > TMI_WRITTEN_HEADER_LIMIT)
        start = congruent(least_head(e), 0, e->alignment);
    int failed = tmi_fd_reserve(fd, 0); /* a failed clone may have left data */
    if (!failed)
        failed = tmi_fd_reserve(fd, start + size);
    if (!failed)
        failed = edit_head(e, fd, start);
    if (failed)
        return failed;
    failed = tmi_fd_copy(shard->bytes.file.fd, old_start, fd, start, size, &done);
    if (failed && failed != EOPNOTSUPP)
        return failed;
    return done < size ? copy_span(e, old_start + done, fd, start + done, size - done) : 0;
}

/*
 * Shares or copies the data into the new file. EOPNOTSUPP: it cannot be shared and must not be
 * copied.
 */
static int edit_fill(editing_file *e, int fd, uint32_t *way) {
    int failed = edit_cloned(e, fd);
    *way = TENMAP_EDIT_CLONED;
    if (failed != EOPNOTSUPP || (e->flags & TENMAP_EDIT_NO_COPY))
        return failed;
    *way = TENMAP_EDIT_COPIED;
    return edit_copied(e, fd);
}

/* `failed` is 0 if the source was seen to change, even if it looks unchanged again now. */
static tenmap_status fail_fill(const editing_file *e, int failed) {
    if (!failed || source_changed(e))
        return FAIL_EDIT(e, TENMAP_ERR_IO, "%s",
                         "it changed while it was copied; the edit replaced nothing");
    if (failed == EOPNOTSUPP)
        return FAIL_EDIT(e, TENMAP_ERR_UNSUPPORTED, "%s",
                         "the new text does not fit into the header and this file system "
                         "cannot share blocks, so the data would have to be copied");
    return FAIL_EDIT_OS(e, failed, "cannot write the new file; nothing was changed");
}

static tenmap_status fail_commit(const editing_file *e, int failed, bool replaced) {
    if (failed == TMI_NOT_AS_OPENED)
        return source_changed(e) ? fail_fill(e, 0) : FAIL_EDIT_REPLACED(e);
    return FAIL_EDIT_OS(e, failed,
                        replaced ? "replaced, durability unknown: its folder could not be synced"
                                 : "cannot put the new file in place; nothing was changed");
}

static tenmap_status edit_replace(editing_file *e, uint32_t *way) {
    tmi_atomic_file target;
    bool replaced = false;
    int failed = tmi_atomic_file_begin_in(&target, &e->location.folder, e->location.name,
                                          e->location.shown, -1);
    if (failed == TMI_NOT_A_FILE)
        return FAIL_EDIT_REPLACED(e);
    if (failed)
        return FAIL_EDIT_OS(e, failed, "cannot create a file beside it");
    target.expected = &e->model->shards[0].bytes.file;
    failed = edit_fill(e, target.fd, way);
    if (failed || source_changed(e)) {
        tmi_atomic_file_discard(&target);
        return fail_fill(e, failed);
    }
    failed = tmi_atomic_file_commit(&target, &replaced);
    return failed ? fail_commit(e, failed, replaced) : TENMAP_OK;
}

/*
 * Removes an old record. A file that opens needs none: the record belongs to an edit that is
 * settled, or to a file that has replaced this one, which is reported.
 */
static tenmap_status drop_record(const editing_file *e) {
    char record[TMI_NAME_BYTES];
    tmi_journal_name(record, e->location.name);
    bool absent = tmi_is_absent(&e->location.folder, record);
    if (!absent && !tmi_fd_is_at(e->lock.fd, &e->location.folder, e->location.name))
        return FAIL_EDIT_REPLACED(e);
    int failed = absent ? 0 : tmi_remove(&e->location.folder, record);
    return failed ? FAIL_EDIT_OS(e, failed, "cannot remove the record of an earlier edit")
                  : TENMAP_OK;
}

/* The changes that the caller asks for. */
typedef struct edit_wishes {
    const tenmap_renaming *names;
    size_t name_count;
    const tenmap_edit *edits;
    size_t edit_count;
} edit_wishes;

/*
 * Refuses to rename tensors of a shard: its index, or a reader of a set without one, would still
 * look for the old names.
 */
static tenmap_status refuse_shard(const editing_file *e) {
    if (!tmi_is_numbered_name(e->location.name, NULL))
        return TENMAP_OK;
    return FAIL_EDIT(e, TENMAP_ERR_ARGUMENT,
                     "it is one of several files of a model%s; to rename its tensors, save the "
                     "model again",
                     e->format == TENMAP_FORMAT_GGUF ? "" : ", whose index lists the names");
}

/* GGUF has shorter names than the other formats. */
static tenmap_status check_new_names(const editing_file *e) {
    char text[TMI_REFUSAL_ROOM];
    for (size_t i = 0; e->format == TENMAP_FORMAT_GGUF && i < e->renames.count; i++) {
        const tmi_rename *r = &e->renames.items[i];
        const tmi_planned named = {.name_len = r->to_len, .dtype = TENMAP_F32};
        const char *why = tmi_gguf_refuses(&named, text);
        if (why)
            return fail_edit(e, i,
                             FAIL_EDIT(e, TENMAP_ERR_UNSUPPORTED, "renaming %llu, to %s: %s",
                                       (ull)i, tmi_quote(r->to, r->to_len).text, why));
    }
    return TENMAP_OK;
}

static tenmap_status edit_run(editing_file *e, const edit_wishes *wishes, uint32_t *way) {
    bool done = false;
    tenmap_status status = edit_open(e);
    if (status == TENMAP_OK && e->naming)
        status = refuse_shard(e);
    if (status == TENMAP_OK)
        status = tmi_renames_take(&e->renames, e->model, e->location.shown, wishes->names,
                                  wishes->name_count, e->error);
    if (status == TENMAP_OK)
        status = check_new_names(e);
    if (status == TENMAP_OK)
        status = apply_edits(e, wishes->edits, wishes->edit_count);
    if (status == TENMAP_OK)
        status = edit_text(e);
    if (status == TENMAP_OK)
        status = drop_record(e);
    if (status == TENMAP_OK)
        status = edit_in_place(e, &done);
    *way = TENMAP_EDIT_IN_PLACE;
    if (status != TENMAP_OK || done)
        return status;
    return edit_replace(e, way);
}

static tenmap_status edit_file(const char *path, const edit_wishes *wishes,
                               const tenmap_edit_options *given, uint32_t *how,
                               tenmap_error *error) {
    tenmap_edit_options options;
    uint32_t way;
    if (!path || (wishes->edit_count && !wishes->edits) || (wishes->name_count && !wishes->names))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s NULL",
                        !path                                  ? "path is"
                        : wishes->edit_count && !wishes->edits ? "edits are"
                                                               : "names are");
    tenmap_status status = init_edit_options(given, &options, error);
    if (status != TENMAP_OK)
        return status;
    editing_file e = {.flags = options.flags,
                      .naming = wishes->name_count > 0,
                      .error = error,
                      .lock = {.fd = -1}};
    int failed = tmi_location_find(&e.location, path, options.flags & TENMAP_EDIT_FOLLOW_LINKS);
    if (failed)
        return tmi_fail_os(error, failed, "%s: cannot open it", tmi_quote_path(path).text);
    status = edit_run(&e, wishes, &way);
    if (status == TENMAP_OK && how)
        *how = way;
    free(e.text.bytes);
    tmi_gguf_text_free(&e.lists);
    free(e.pairs);
    tmi_renames_free(&e.renames);
    tmi_block_free(&e.old);
    tenmap_close(e.model);
    tmi_file_close(&e.lock);
    tmi_location_free(&e.location);
    return status;
}

tenmap_status tenmap_edit_metadata(const char *path, const tenmap_edit *edits, size_t n,
                                   const tenmap_edit_options *options, uint32_t *how,
                                   tenmap_error *error) {
    const edit_wishes wishes = {.edits = edits, .edit_count = n};
    return edit_file(path, &wishes, options, how, error);
}

tenmap_status tenmap_rename(const char *path, const tenmap_renaming *names, size_t n,
                            const tenmap_edit *edits, size_t edit_count,
                            const tenmap_edit_options *options, uint32_t *how,
                            tenmap_error *error) {
    const edit_wishes wishes = {names, n, edits, edit_count};
    return edit_file(path, &wishes, options, how, error);
}

#endif
