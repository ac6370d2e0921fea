/*
 * Detects that the metadata of a file is being edited, or that an edit was interrupted. The undo
 * record that makes the edit safe (header_journal.c) is next to the file until the edit is
 * complete. While the header's text changes, its length field is 2^64-1.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

static const char record_suffix[] = ".tenmap-undo";

bool tmi_edit_closed(const unsigned char *start, size_t len) {
    return len >= 8 && tmi_file_u64(start) == UINT64_MAX;
}

void tmi_journal_name(char out[TMI_NAME_BYTES], const char *file) {
    tmi_sibling_name(out, TMI_NAME_BYTES, file, record_suffix);
}

/* The path of a file's undo record, with links resolved; NULL if out of memory. */
static char *record_path(const char *path) {
    char *real = tmi_resolve(path);
    char *record = real ? tmi_sibling_path(real, record_suffix) : NULL;
    free(real);
    return record;
}

/*
 * Whether an undo record was left behind by an interrupted edit. The record of an edit in progress
 * does not count: an editor holds the lock for as long as its record exists.
 */
static bool is_left(const char *record, const tmi_shard *shard) {
    if (!tmi_exists(record))
        return false;
    return shard->edited_here ||
           (!tmi_file_locked(&shard->bytes.file, shard->path) && tmi_exists(record));
}

void tmi_edit_explain(const tmi_shard *shard, tenmap_error *error) {
    const char *path = shard->path;
    char *record = error && path && *path ? record_path(path) : NULL;
    if (record && is_left(record, shard)) {
        tmi_fail_more(error,
                      "; an edit of its header was interrupted and left the record %s: "
                      "repairing its metadata finishes or undoes it",
                      tmi_quote_path(record + tmi_folder_part(record)).text);
        error->remedy = TENMAP_REMEDY_REPAIR;
    }
    free(record);
}

#ifndef TENMAP_NO_CHECK
void tmi_edit_check(const tmi_shard *shard, tmi_report *report, uint32_t number) {
    const char *path = shard->path;
    char *record = path && *path ? record_path(path) : NULL;
    if (record && is_left(record, shard)) {
        tenmap_error said;
        tmi_fail(&said, TENMAP_OK,
                 "%s: an edit of its header was interrupted and left the record %s: "
                 "repairing its metadata finishes or undoes it",
                 tmi_quote_path(path).text, tmi_quote_path(record + tmi_folder_part(record)).text);
        said.remedy = TENMAP_REMEDY_REPAIR;
        tmi_report_add(report, tmi_found_severity(TENMAP_FOUND_INTERRUPTED_EDIT),
                       TENMAP_FOUND_INTERRUPTED_EDIT, number, NULL, &said);
    }
    free(record);
}
#endif
