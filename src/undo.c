/*
 * Changing a header where it lies, and the undo record that makes this safe. The record is a file
 * beside the model; all numbers are little-endian:
 *
 *     8  "TENMAPU1"
 *     8  device     8  inode     8  size of the file     8  N, the header's length
 *     N  old header     N  new header     8  FNV-1a of everything before
 *
 * It is there, whole and synced, before the first byte of the model changes. While the header's
 * body changes, the length field is 2^64-1, so that every reader refuses the file instead of seeing
 * a mix. Each step is synced before the next.
 */
#include "write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char record_suffix[] = ".tenmap-undo";
static const char record_magic[8] = {'T', 'E', 'N', 'M', 'A', 'P', 'U', '1'};
enum { RECORD_HEAD = 40, RECORD_TAIL = 8 };

static uint64_t checksum(const unsigned char *bytes, size_t len) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t record_number(const unsigned char *at) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

char *tmi_record_path(const char *path) {
    char *real = tmi_resolve(path);
    char *record = real ? tmi_sibling_path(real, record_suffix) : NULL;
    free(real);
    return record;
}

void tmi_record_note(const char *path, tenmap_error *error) {
    char *record = error && path && *path ? tmi_record_path(path) : NULL;
    if (record && tmi_exists(record))
        tmi_fail_more(error,
                      "; an edit of its metadata was interrupted and left the record %s: "
                      "tenmap_repair_metadata finishes or undoes it",
                      tmi_quote_path(record + tmi_folder_part(record)).text);
    free(record);
}

void tmi_record_check(const char *path, tmi_report *report, uint32_t shard) {
    char *record = path && *path ? tmi_record_path(path) : NULL;
    if (record && tmi_exists(record))
        TMI_REPORT(report, WARNING, INTERRUPTED_EDIT, shard, 0, NULL,
                   "%s: an edit of its metadata was interrupted and left the record %s: "
                   "tenmap_repair_metadata finishes or undoes it",
                   tmi_quote_path(path).text,
                   tmi_quote_path(record + tmi_folder_part(record)).text);
    free(record);
}

/* Making a record. */

static unsigned char *record_bytes(const tmi_change *change, size_t *size) {
    if (change->length > SIZE_MAX / 4)
        return NULL;
    size_t n = (size_t)change->length;
    *size = RECORD_HEAD + 2 * n + RECORD_TAIL;
    unsigned char *bytes = malloc(*size);
    if (!bytes)
        return NULL;
    memcpy(bytes, record_magic, 8);
    tmi_layout_length(bytes + 8, change->identity.device);
    tmi_layout_length(bytes + 16, change->identity.inode);
    tmi_layout_length(bytes + 24, change->identity.size);
    tmi_layout_length(bytes + 32, n);
    memcpy(bytes + RECORD_HEAD, change->old_text, n);
    memcpy(bytes + RECORD_HEAD + n, change->new_text, n);
    tmi_layout_length(bytes + *size - RECORD_TAIL, checksum(bytes, *size - RECORD_TAIL));
    return bytes;
}

/* The record in place and synced, or not there. */
static int record_write(const char *path, const tmi_change *change) {
    tmi_target target;
    bool replaced;
    size_t size;
    unsigned char *bytes = record_bytes(change, &size);
    if (!bytes)
        return ENOMEM;
    int failed = tmi_target_begin(&target, path, false);
    if (failed) {
        free(bytes);
        return failed;
    }
    failed = tmi_fd_write(target.fd, 0, bytes, size);
    free(bytes);
    if (failed) {
        tmi_target_discard(&target);
        return failed;
    }
    failed = tmi_target_commit(&target, &replaced);
    if (failed && replaced)
        (void)tmi_remove(path);
    return failed;
}

/* Changing the header. */

static int put_length(int fd, uint64_t length) {
    unsigned char field[8];
    tmi_layout_length(field, length);
    int failed = tmi_fd_write(fd, 0, field, sizeof field);
    return failed ? failed : tmi_fd_sync(fd);
}

/* Closed to readers, the text, open again. */
static int put_header(int fd, const char *text, uint64_t length) {
    int failed = put_length(fd, UINT64_MAX);
    if (!failed)
        failed = tmi_fd_write(fd, 8, text, (size_t)length);
    if (!failed)
        failed = tmi_fd_sync(fd);
    return failed ? failed : put_length(fd, length);
}

tenmap_status tmi_change_in_place(const char *path, int fd, const tmi_change *change,
                                  tenmap_error *error) {
    char *record = tmi_record_path(path);
    if (!record)
        return tmi_fail_memory(error, strlen(path), "the record's path");
    int failed = record_write(record, change);
    tenmap_status status = TENMAP_OK;
    if (failed) {
        status = tmi_fail_os(error, failed,
                             "%s: cannot write the record of the edit; nothing was "
                             "changed",
                             tmi_quote_path(path).text);
        free(record);
        return status;
    }
    failed = put_header(fd, change->new_text, change->length);
    if (failed) {
        bool undone = put_header(fd, change->old_text, change->length) == 0;
        status = tmi_fail_os(
            error, failed, "%s: cannot write the header%s", tmi_quote_path(path).text,
            undone ? "; it is as it was" : " (tenmap_repair_metadata can finish or undo it)");
        if (undone)
            (void)tmi_remove(record);
        free(record);
        return status;
    }
    failed = tmi_remove(record);
    if (failed)
        status = tmi_fail_os(error, failed,
                             "%s: the metadata is changed, but the record of the edit could not be "
                             "removed",
                             tmi_quote_path(path).text);
    free(record);
    return status;
}

/* Repairing. */

typedef struct repair {
    const char *path;
    char *record_path;
    unsigned char *record;
    size_t record_size;
    int fd;
    uint64_t length;
    const unsigned char *old_text, *new_text;
    unsigned char *found; /* the file's first 8 + length bytes */
    tenmap_error *error;
} repair;

#define FAIL_REPAIR(r, status, format, ...)                                                        \
    tmi_fail((r)->error, status, "%s: " format "; nothing was changed",                            \
             tmi_quote_path((r)->path).text, __VA_ARGS__)

static tenmap_status repair_load(repair *r) {
    tmi_file file;
    size_t got = 0;
    int failed = tmi_file_open(&file, r->record_path);
    if (failed)
        return tmi_fail_os(r->error, failed, "%s: cannot open the record of the edit",
                           tmi_quote_path(r->record_path).text);
    r->record_size = file.size > SIZE_MAX / 4 ? 0 : (size_t)file.size;
    r->record = file.fd < 0 ? NULL : malloc(r->record_size + 1);
    if (r->record)
        failed = tmi_file_read(&file, 0, r->record, r->record_size, &got);
    tmi_file_close(&file);
    if (!r->record)
        return tmi_fail_memory(r->error, r->record_size, "the record");
    size_t n = r->record_size;
    bool whole = !failed && got == n && n >= RECORD_HEAD + RECORD_TAIL &&
                 memcmp(r->record, record_magic, 8) == 0 &&
                 record_number(r->record + n - RECORD_TAIL) == checksum(r->record, n - RECORD_TAIL);
    r->length = whole ? record_number(r->record + 32) : 0;
    if (!whole || (n - RECORD_HEAD - RECORD_TAIL) / 2 != r->length ||
        (n - RECORD_HEAD - RECORD_TAIL) % 2)
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "the record %s is damaged, or of another version of the library",
                           tmi_quote_path(r->record_path).text);
    r->old_text = r->record + RECORD_HEAD;
    r->new_text = r->old_text + r->length;
    return TENMAP_OK;
}

/* Whether each byte is one or the other. */
static bool is_mix(const unsigned char *found, const unsigned char *a, const unsigned char *b,
                   size_t len) {
    for (size_t i = 0; i < len; i++)
        if (found[i] != a[i] && found[i] != b[i])
            return false;
    return true;
}

/* The file that the record is about, in a state that the edit can have left. */
static tenmap_status repair_match(repair *r) {
    static const unsigned char closed[] = "\xff\xff\xff\xff\xff\xff\xff\xff";
    tmi_identity now;
    unsigned char length[8];
    int failed = tmi_fd_open_write(r->path, &r->fd);
    if (!failed)
        failed = tmi_fd_lock(r->fd);
    if (failed == EWOULDBLOCK)
        return FAIL_REPAIR(r, TENMAP_ERR_IO, "another program is %s the file right now", "editing");
    if (!failed)
        failed = tmi_fd_identity(r->fd, &now);
    if (failed)
        return tmi_fail_os(r->error, failed, "%s: cannot open the file for writing",
                           tmi_quote_path(r->path).text);
    if (now.inode != record_number(r->record + 16) || now.size != record_number(r->record + 24))
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "the record %s belongs to another file (inode %llu of %llu bytes, this "
                           "is %llu of %llu)",
                           tmi_quote(r->record_path + tmi_folder_part(r->record_path),
                                     strlen(r->record_path + tmi_folder_part(r->record_path)))
                               .text,
                           (ull)record_number(r->record + 16), (ull)record_number(r->record + 24),
                           (ull)now.inode, (ull)now.size);
    tmi_file file = {.fd = r->fd};
    size_t n = (size_t)r->length, got = 0;
    r->found = malloc(n + 8);
    if (!r->found)
        return tmi_fail_memory(r->error, r->length, "the header");
    failed = tmi_file_read(&file, 0, r->found, n + 8, &got);
    tmi_layout_length(length, r->length);
    if (failed || got != n + 8 || !is_mix(r->found, length, closed, 8) ||
        !is_mix(r->found + 8, r->old_text, r->new_text, n))
        return FAIL_REPAIR(r, TENMAP_ERR_FORMAT,
                           "its header is neither the old nor the new one of the record %s: it "
                           "was changed since",
                           tmi_quote_path(r->record_path).text);
    return TENMAP_OK;
}

static tenmap_status repair_settle(repair *r, uint32_t flags, uint32_t *how) {
    size_t n = (size_t)r->length;
    bool open = record_number(r->found) == r->length;
    bool is_old = open && memcmp(r->found + 8, r->old_text, n) == 0;
    bool is_new = open && memcmp(r->found + 8, r->new_text, n) == 0;
    bool undo = flags & TENMAP_REPAIR_UNDO;
    int failed = 0;
    if (undo ? !is_old : !is_new)
        failed = put_header(r->fd, (const char *)(undo ? r->old_text : r->new_text), r->length);
    if (!failed)
        failed = tmi_remove(r->record_path);
    if (failed)
        return tmi_fail_os(r->error, failed, "%s: cannot repair the header",
                           tmi_quote_path(r->path).text);
    if (how)
        *how = undo ? TENMAP_REPAIR_UNDONE : TENMAP_REPAIR_FINISHED;
    return TENMAP_OK;
}

tenmap_status tenmap_repair_metadata(const char *path, uint32_t flags, uint32_t *how,
                                     tenmap_error *error) {
    if (how)
        *how = TENMAP_REPAIR_NOTHING;
    if (!path || (flags & ~(uint32_t)TENMAP_REPAIR_UNDO))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, path ? "unknown flags" : "the path is NULL");
    repair r = {.fd = -1, .error = error};
    char *real = tmi_resolve(path);
    r.path = real;
    r.record_path = tmi_record_path(path);
    tenmap_status status = TENMAP_OK;
    if (!real || !r.record_path) {
        status = tmi_fail_memory(error, strlen(path), "the path");
    } else if (!tmi_exists(real)) {
        status = tmi_fail_os(error, ENOENT, "%s: cannot be repaired", tmi_quote_path(real).text);
    } else if (tmi_exists(r.record_path)) {
        status = repair_load(&r);
        if (status == TENMAP_OK)
            status = repair_match(&r);
        if (status == TENMAP_OK)
            status = repair_settle(&r, flags, how);
    }
    tmi_fd_close(r.fd);
    free(r.found);
    free(r.record);
    free(r.record_path);
    free(real);
    return status;
}
