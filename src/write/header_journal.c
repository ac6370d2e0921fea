/*
 * Changes a header in place, protected by an undo record. The record is a file beside the model.
 * All numbers are little-endian:
 *
 *     8  "TENMAPU1" if only metadata changes, "TENMAPU2" if tensors are renamed too,
 *        "TENMAPU3" and "TENMAPU4" the same for a GGUF file
 *     8  device     8  inode     8  size of the file     8  N, the header's length
 *     N  old header     N  new header     8  FNV-1a of everything before
 *
 * Of a SafeTensors file, the header is the text behind the length field; of a GGUF file, it is
 * everything before the data. The first 8 bytes of the file, that length or GGUF's magic and
 * version, are the same before and after.
 *
 * The record is complete and synced before the first byte of the model changes. While the header's
 * text changes, the first 8 bytes are FF, so that every reader refuses the file instead of seeing a
 * mix of both texts. When they are valid again, the file's times differ from those before the
 * change, so that a reader that started before and finished after detects the mix. Each step is
 * synced before the next.
 */
#include "../format/gguf.h"
#include "../format/json.h"
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char record_magic[7] = {'T', 'E', 'N', 'M', 'A', 'P', 'U'};
/* The digit behind the magic is '1' plus these. */
enum { KIND_RENAMES = 1, KIND_GGUF = 2, RECORD_KINDS = 4 };
enum { RECORD_HEAD = 40, RECORD_TAIL = 8, FIRST_BYTES = 8 };
static const unsigned char closed_first[FIRST_BYTES] = {0xff, 0xff, 0xff, 0xff,
                                                        0xff, 0xff, 0xff, 0xff};

/* Making a record. */

static unsigned char *record_bytes(const tmi_change *change, size_t *size) {
    if (change->length > SIZE_MAX / 4)
        return NULL;
    size_t own = change->gguf ? FIRST_BYTES : 0, text = (size_t)change->length, n = own + text;
    *size = RECORD_HEAD + 2 * n + RECORD_TAIL;
    unsigned char *bytes = malloc(*size);
    if (!bytes)
        return NULL;
    memcpy(bytes, record_magic, sizeof record_magic);
    bytes[7] = (unsigned char)('1' + (change->renames ? KIND_RENAMES : 0) +
                               (change->gguf ? KIND_GGUF : 0));
    tmi_layout_length(bytes + 8, change->identity.device);
    tmi_layout_length(bytes + 16, change->identity.inode);
    tmi_layout_length(bytes + 24, change->identity.size);
    tmi_layout_length(bytes + 32, n);
    memcpy(bytes + RECORD_HEAD, change->first, own);
    memcpy(bytes + RECORD_HEAD + own, change->old_text, text);
    memcpy(bytes + RECORD_HEAD + n, change->first, own);
    memcpy(bytes + RECORD_HEAD + n + own, change->new_text, text);
    tmi_layout_length(bytes + *size - RECORD_TAIL, tmi_fnv(bytes, *size - RECORD_TAIL));
    return bytes;
}

/*
 * Writes the record: it is in place and synced, or absent. Its access rights are no wider than the
 * model's. *own is opened on it so that it can be recognized later; own->fd is -1 if there is no
 * free descriptor.
 */
static int record_write(const tmi_folder *folder, const char *name, int model,
                        const tmi_change *change, tmi_file *own) {
    tmi_atomic_file target;
    bool replaced;
    size_t size;
    unsigned char *bytes = record_bytes(change, &size);
    if (!bytes)
        return ENOMEM;
    int failed = tmi_atomic_file_begin_in(&target, folder, name, name, model);
    if (failed) {
        free(bytes);
        return failed;
    }
    failed = tmi_fd_write(target.fd, 0, bytes, size);
    free(bytes);
    if (failed) {
        tmi_atomic_file_discard(&target);
        return failed;
    }
    (void)tmi_file_dup(own, target.fd);
    failed = tmi_atomic_file_commit(&target, &replaced);
    if (failed && replaced)
        (void)tmi_remove(folder, name);
    return failed;
}

/* Whether two open records have the same bytes: those of another edit name another file. */
static bool same_content(int a, int b, uint64_t size) {
    unsigned char left[1024], right[1024];
    const tmi_file of_a = {.fd = a}, of_b = {.fd = b};
    for (uint64_t at = 0; at < size; at += sizeof left) {
        size_t n = size - at < sizeof left ? (size_t)(size - at) : sizeof left, got, got_b;
        if (tmi_file_read(&of_a, at, left, n, &got) || got != n ||
            tmi_file_read(&of_b, at, right, n, &got_b) || got_b != n || memcmp(left, right, n) != 0)
            return false;
    }
    return true;
}

/*
 * Sets *anothers if the name certainly no longer belongs to the open record. Some systems replace a
 * file by a copy, so a file with the same bytes counts as the same. Returns 0, or an errno if this
 * cannot be determined.
 */
static int is_anothers(const tmi_folder *folder, const char *name, int own, bool *anothers) {
    tmi_identity mine = {0}, there = {0};
    int fd = -1, failed = tmi_fd_identity(own, &mine);
    if (!failed)
        failed = tmi_fd_open_read(folder, name, &fd);
    *anothers = failed == ENOENT;
    if (*anothers)
        return 0;
    if (!failed)
        failed = tmi_fd_identity(fd, &there);
    *anothers = !failed && (mine.device != there.device || mine.inode != there.inode) &&
                (mine.size != there.size || !same_content(own, fd, mine.size));
    tmi_fd_close(fd);
    return failed;
}

/*
 * Removes the record. If another program has replaced the file meanwhile, a record there may belong
 * to an edit of the new file, so it stays. Closes `own`.
 */
static int record_remove(const tmi_folder *folder, const char *name, tmi_file *own) {
    bool anothers = false;
    int failed = own->fd >= 0 && !tmi_fd_is_at(own->fd, folder, name)
                     ? is_anothers(folder, name, own->fd, &anothers)
                     : 0;
    tmi_file_close(own);
    return failed || anothers ? failed : tmi_remove(folder, name);
}

/* Changing the header. */

static int put_first_bytes(int fd, const unsigned char first[FIRST_BYTES]) {
    int failed = tmi_fd_write(fd, 0, first, FIRST_BYTES);
    return failed ? failed : tmi_fd_sync(fd);
}

/*
 * Keeps the header invalid until the file's times differ from when it was invalidated. File system
 * clocks advance in steps of milliseconds, or seconds on some systems. A reader that looked at the
 * times before the edit then sees other times after it, however short the edit was.
 */
static int wait_for_clock_tick(int fd, tmi_file *closed) {
    enum { LONGEST_STEP = 1024 }; /* about 2 seconds in all, the coarsest clock step */
    int failed = 0;
    for (unsigned nap = 1; nap <= LONGEST_STEP && !failed && tmi_file_refresh(closed); nap *= 2) {
        tmi_sleep_ms(nap);
        failed = put_first_bytes(fd, closed_first);
    }
    return failed;
}

/* Invalidates the header, writes the text, and makes the header valid again. */
static int put_header(int fd, const unsigned char *first, const char *text, uint64_t length) {
    tmi_file closed = {.fd = fd};
    int failed = put_first_bytes(fd, closed_first);
    (void)tmi_file_refresh(&closed);
    if (!failed)
        failed = tmi_fd_write(fd, FIRST_BYTES, text, (size_t)length);
    if (!failed)
        failed = tmi_fd_sync(fd);
    if (!failed)
        failed = wait_for_clock_tick(fd, &closed);
    return failed ? failed : put_first_bytes(fd, first);
}

tenmap_status tmi_change_in_place(const tmi_location *location, int fd, const tmi_change *change,
                                  tenmap_error *error) {
    char record[TMI_NAME_BYTES];
    tmi_file own = {.fd = -1};
    tmi_journal_name(record, location->name);
    int failed = record_write(&location->folder, record, fd, change, &own);
    if (failed) {
        tmi_file_close(&own);
        return tmi_fail_os(error, failed,
                           "%s: cannot write the record of the edit; nothing was changed",
                           tmi_quote_path(location->shown).text);
    }
    failed = put_header(fd, change->first, change->new_text, change->length);
    if (failed) {
        bool undone = put_header(fd, change->first, change->old_text, change->length) == 0;
        tenmap_status status = tmi_fail_os(
            error, failed, "%s: cannot write the header%s", tmi_quote_path(location->shown).text,
            undone ? "; it is as it was" : " (repairing its metadata can finish or undo it)");
        if (undone)
            (void)record_remove(&location->folder, record, &own);
        else
            (void)tmi_remedy(error, TENMAP_REMEDY_REPAIR, status);
        tmi_file_close(&own);
        return status;
    }
    failed = record_remove(&location->folder, record, &own);
    if (failed)
        return tmi_fail_os(error, failed,
                           "%s: the header is changed, but the record of the edit could not be "
                           "removed",
                           tmi_quote_path(location->shown).text);
    return TENMAP_OK;
}

/* Repairing. */

typedef struct repair {
    tmi_location location;            /* of the model, with links resolved */
    char record_name[TMI_NAME_BYTES]; /* in the same folder */
    tmi_file record_file;             /* stays open until it is removed */
    unsigned char *record;
    size_t record_size;
    unsigned kind;    /* KIND_RENAMES, KIND_GGUF: what the record says */
    int fd;           /* of the model, locked */
    tmi_identity now; /* of the model */
    unsigned char first[FIRST_BYTES];
    uint64_t length; /* of the texts behind them */
    const unsigned char *old_text, *new_text;
    unsigned char *found; /* the file's first 8 + length bytes */
    tenmap_error *error;
} repair;

#define FAIL_REPAIR(r, status, format, ...)                                                        \
    tmi_fail((r)->error, status, "%s: " format "; nothing was changed",                            \
             tmi_quote_path((r)->location.shown).text, __VA_ARGS__)

/* Opens and locks the model first, so that nobody else changes it or its record. */
static tenmap_status repair_open(repair *r) {
    int failed = tmi_fd_open_write(&r->location.folder, r->location.name, &r->fd);
    if (!failed)
        failed = tmi_fd_lock(r->fd);
    if (failed == EWOULDBLOCK)
        return FAIL_REPAIR(r, TENMAP_ERR_IO, "another program is %s the file right now", "editing");
    if (!failed)
        failed = tmi_fd_identity(r->fd, &r->now);
    if (failed)
        return tmi_fail_os(r->error, failed, "%s: cannot open the file for writing",
                           tmi_quote_path(r->location.shown).text);
    if (!r->now.regular)
        return FAIL_REPAIR(r, TENMAP_ERR_ARGUMENT, "it is %s", "not a regular file");
    if (!tmi_fd_is_at(r->fd, &r->location.folder, r->location.name))
        return FAIL_REPAIR(r, TENMAP_ERR_IO, "another program has just %s the file", "replaced");
    return TENMAP_OK;
}

/*
 * Opens the record, which must be a regular file. Anyone can create one in a folder that others can
 * write to, so it is accepted only from users who may change the model anyway.
 */
static tenmap_status open_record(repair *r, bool *absent) {
    int fd = -1, failed = tmi_fd_open_read(&r->location.folder, r->record_name, &fd);
    tmi_file *file = &r->record_file;
    uint64_t owner = 0;
    *absent = failed == ENOENT; /* the edit that it belonged to has ended since */
    if (*absent)
        return TENMAP_OK;
    if (!failed)
        failed = tmi_file_dup(file, fd);
    tmi_fd_close(fd);
    if (failed == ELOOP || failed == EMLINK || failed == ENXIO || (!failed && file->fd < 0))
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT, "the record %s is not a regular file",
                           tmi_quote_path(r->record_name).text);
    if (failed)
        return tmi_fail_os(r->error, failed, "%s: cannot open %s, the record of the edit",
                           tmi_quote_path(r->location.shown).text,
                           tmi_quote_path(r->record_name).text);
    if (!tmi_fd_owner_is_trusted(file->fd, r->fd, &owner))
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "the record %s belongs to user %llu, but the file does not; only that "
                           "user can repair with it",
                           tmi_quote_path(r->record_name).text, (ull)owner);
    return TENMAP_OK;
}

/* Whether these bytes are a record, of which kind, and for which length of a header. */
static bool is_record(const unsigned char *bytes, size_t size, uint64_t *length, unsigned *kind) {
    if (size < RECORD_HEAD + RECORD_TAIL || memcmp(bytes, record_magic, sizeof record_magic) != 0 ||
        bytes[7] < '1' || bytes[7] >= '1' + RECORD_KINDS ||
        tmi_file_u64(bytes + size - RECORD_TAIL) != tmi_fnv(bytes, size - RECORD_TAIL))
        return false;
    size_t texts = size - RECORD_HEAD - RECORD_TAIL;
    *kind = bytes[7] - '1';
    *length = tmi_file_u64(bytes + 32);
    return texts % 2 == 0 && texts / 2 == *length;
}

/* Finds the parts of a record. Returns false if its headers begin differently. */
static bool take_texts(repair *r, uint64_t n) {
    size_t own = r->kind & KIND_GGUF ? FIRST_BYTES : 0;
    const unsigned char *before = r->record + RECORD_HEAD, *after = before + n;
    if (n < own || memcmp(before, after, own) != 0)
        return false;
    r->length = n - own;
    r->old_text = before + own;
    r->new_text = after + own;
    tmi_layout_length(r->first, r->length);
    memcpy(r->first, before, own);
    return true;
}

static tenmap_status read_record(repair *r) {
    const tmi_file *file = &r->record_file;
    uint64_t most = r->now.size, n;
    size_t got = 0;
    if (most > TMI_WRITTEN_HEADER_LIMIT + FIRST_BYTES)
        most = TMI_WRITTEN_HEADER_LIMIT + FIRST_BYTES;
    if (file->size > RECORD_HEAD + 2 * most + RECORD_TAIL)
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "the record %s has %llu bytes, more than two headers of this file need",
                           tmi_quote_path(r->record_name).text, (ull)file->size);
    r->record_size = (size_t)file->size;
    r->record = malloc(r->record_size + 1);
    if (!r->record)
        return tmi_fail_memory(r->error, r->record_size, "the record");
    int failed = tmi_file_read(file, 0, r->record, r->record_size, &got);
    if (failed || got != r->record_size || !is_record(r->record, got, &n, &r->kind) ||
        !take_texts(r, n))
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "the record %s is damaged, or from another version of the library",
                           tmi_quote_path(r->record_name).text);
    return TENMAP_OK;
}

/*
 * Checks that a text of a SafeTensors file is a header of it. Appends its members except the
 * metadata to *others, without their names if those may change.
 */
static tenmap_status judge_json(const repair *r, const unsigned char *text, tmi_buffer *others) {
    const tmi_renames nameless = {.empty_keys = true};
    size_t n = (size_t)r->length;
    tmi_place place = {.path = r->location.shown, .size = r->now.size, .key = tmi_hash_key_new()};
    tmi_header header;
    tmi_block copy;
    if (!tmi_block_alloc(&copy, n + TMI_JSON_PAD))
        return TENMAP_ERR_MEMORY;
    memcpy(copy.bytes, text, n);
    tenmap_status status = tmi_header_parse(&header, &place, copy, n, NULL);
    tmi_buffer_add(others, "{", 1);
    if (status == TENMAP_OK) {
        tmi_header_free(&header);
        (void)tmi_layout_others(others, (const char *)text, n,
                                r->kind & KIND_RENAMES ? &nameless : NULL);
    }
    return status;
}

/* The same for GGUF. What *others gets says all that a reader needs to find the tensors' bytes. */
static tenmap_status judge_gguf(const repair *r, const unsigned char *text, tmi_buffer *others) {
    const tmi_renames nameless = {.empty_keys = true};
    size_t n = (size_t)r->length + FIRST_BYTES;
    tmi_place place = {.path = r->location.shown, .size = r->now.size, .key = tmi_hash_key_new()};
    tmi_gguf_text lists = {.row_count = 0};
    tmi_header header;
    tmi_block copy;
    uint64_t end = 0;
    if (!tmi_block_alloc(&copy, n + TMI_JSON_PAD))
        return TENMAP_ERR_MEMORY;
    memcpy(copy.bytes, r->first, FIRST_BYTES);
    memcpy((char *)copy.bytes + FIRST_BYTES, text, (size_t)r->length);
    bool good = tmi_gguf_add_rows_of(&lists, copy.bytes, n,
                                     r->kind & KIND_RENAMES ? &nameless : NULL, &end);
    tmi_buffer_add(others, lists.rows.bytes, lists.rows.len);
    others->failed = others->failed || lists.rows.failed;
    tmi_gguf_text_free(&lists);
    if (!good) {
        tmi_block_free(&copy);
        return TENMAP_ERR_FORMAT;
    }
    tenmap_status status = tmi_gguf_parse(&header, &place, copy, (size_t)end, NULL);
    if (status != TENMAP_OK)
        return status;
    const uint64_t facts[] = {header.data_at, header.split.number, header.split.count,
                              header.split.tensors, header.split.counts_tensors};
    bool at_the_data = header.data_at == n;
    tmi_buffer_add(others, (const char *)facts, sizeof facts);
    tmi_header_free(&header);
    return at_the_data ? TENMAP_OK : TENMAP_ERR_FORMAT;
}

static tenmap_status judge_text(const repair *r, const unsigned char *text, tmi_buffer *others) {
    tenmap_status status =
        r->kind & KIND_GGUF ? judge_gguf(r, text, others) : judge_json(r, text, others);
    if (status == TENMAP_ERR_MEMORY || others->failed)
        return tmi_fail_memory(r->error, r->length, "the header");
    if (status != TENMAP_OK)
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT, "the record %s holds no header of this file",
                           tmi_quote_path(r->record_name).text);
    return TENMAP_OK;
}

/*
 * Checks that the record changes only metadata and, in a renaming, names: dtypes, shapes, offsets
 * and unknown fields must be the same text in the same order. Nothing else is ever written,
 * whatever a record says.
 */
static tenmap_status repair_judge(const repair *r) {
    tmi_buffer before = {0}, after = {0};
    tenmap_status status = judge_text(r, r->old_text, &before);
    if (status == TENMAP_OK)
        status = judge_text(r, r->new_text, &after);
    if (status == TENMAP_OK &&
        (before.len != after.len ||
         (before.len > 0 && memcmp(before.bytes, after.bytes, before.len) != 0)))
        status =
            FAIL_REPAIR(r, TENMAP_ERR_FORMAT, "the record %s would change more than its metadata%s",
                        tmi_quote_path(r->record_name).text,
                        r->kind & KIND_RENAMES ? " and the names of its tensors" : "");
    free(before.bytes);
    free(after.bytes);
    return status;
}

/* Whether each byte equals that of a or of b. */
static bool is_byte_mix(const unsigned char *found, const unsigned char *a, const unsigned char *b,
                        size_t len) {
    for (size_t i = 0; i < len; i++)
        if (found[i] != a[i] && found[i] != b[i])
            return false;
    return true;
}

/*
 * Checks that the record belongs to this file, and that the file is in a state that the edit can
 * have left.
 */
static tenmap_status repair_match(repair *r) {
    if (r->now.inode != tmi_file_u64(r->record + 16) || r->now.size != tmi_file_u64(r->record + 24))
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "the record %s belongs to another file (inode %llu of %llu bytes, this "
                           "is %llu of %llu)",
                           tmi_quote_path(r->record_name).text, (ull)tmi_file_u64(r->record + 16),
                           (ull)tmi_file_u64(r->record + 24), (ull)r->now.inode, (ull)r->now.size);
    tmi_file file = {.fd = r->fd};
    size_t n = (size_t)r->length, got = 0;
    r->found = malloc(n + 8);
    if (!r->found)
        return tmi_fail_memory(r->error, r->length, "the header");
    int failed = tmi_file_read(&file, 0, r->found, n + 8, &got);
    if (failed || got != n + 8 || !is_byte_mix(r->found, r->first, closed_first, FIRST_BYTES) ||
        !is_byte_mix(r->found + 8, r->old_text, r->new_text, n))
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "its header is neither the old nor the new one of the record %s: it "
                           "was changed since",
                           tmi_quote_path(r->record_name).text);
    return TENMAP_OK;
}

static tenmap_status repair_settle(repair *r, uint32_t flags, uint32_t *how) {
    size_t n = (size_t)r->length;
    bool open = memcmp(r->found, r->first, FIRST_BYTES) == 0;
    bool is_old = open && memcmp(r->found + 8, r->old_text, n) == 0;
    bool is_new = open && memcmp(r->found + 8, r->new_text, n) == 0;
    bool undo = flags & TENMAP_REPAIR_UNDO;
    int failed = 0;
    if (undo ? !is_old : !is_new)
        failed = put_header(r->fd, r->first, (const char *)(undo ? r->old_text : r->new_text),
                            r->length);
    if (!failed)
        failed = record_remove(&r->location.folder, r->record_name, &r->record_file);
    if (failed)
        return tmi_fail_os(r->error, failed, "%s: cannot repair the header",
                           tmi_quote_path(r->location.shown).text);
    if (how)
        *how = undo ? TENMAP_REPAIR_UNDONE : TENMAP_REPAIR_FINISHED;
    return TENMAP_OK;
}

/* Repairs a file that had a record a moment ago. */
static tenmap_status repair_run(repair *r, uint32_t flags, uint32_t *how) {
    bool absent = false;
    tenmap_status status = repair_open(r);
    if (status == TENMAP_OK)
        status = open_record(r, &absent);
    if (status != TENMAP_OK || absent)
        return status;
    status = read_record(r);
    if (status == TENMAP_OK)
        status = repair_match(r);
    if (status == TENMAP_OK)
        status = repair_judge(r);
    return status == TENMAP_OK ? repair_settle(r, flags, how) : status;
}

tenmap_status tenmap_repair_metadata(const char *path, uint32_t flags, uint32_t *how,
                                     tenmap_error *error) {
    if (how)
        *how = TENMAP_REPAIR_NOTHING;
    if (!path || (flags & ~(uint32_t)TENMAP_REPAIR_UNDO))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, path ? "unknown flags" : "the path is NULL");
    repair r = {.location = TMI_NO_LOCATION, .fd = -1, .record_file = {.fd = -1}, .error = error};
    tenmap_status status = TENMAP_OK;
    int failed = tmi_location_find(&r.location, path, true);
    if (!failed && tmi_is_absent(&r.location.folder, r.location.name))
        failed = ENOENT;
    if (!failed)
        tmi_journal_name(r.record_name, r.location.name);
    if (failed) {
        status = tmi_fail_os(error, failed, "%s: cannot be repaired", tmi_quote_path(path).text);
    } else if (!tmi_is_absent(&r.location.folder, r.record_name)) {
        status = repair_run(&r, flags, how);
    }
    tmi_file_close(&r.record_file);
    tmi_fd_close(r.fd);
    free(r.found);
    free(r.record);
    tmi_location_free(&r.location);
    return status;
}

#endif
