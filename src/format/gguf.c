/*
 * GGUF as a container: magic, version and counts, then the metadata, then a row for each tensor,
 * then the tensor data. The header does not state its length, so it is walked once to find its end
 * and once more to parse it (gguf_header.c).
 */
#include "format.h"
#include "gguf.h"

#include <string.h>

/* The first read: most headers without a vocabulary fit into it. */
enum { FIRST_READ = 64 << 10 };

static bool is_gguf(const unsigned char *start, size_t len, uint64_t size, uint64_t limit) {
    (void)size, (void)limit;
    return len >= 4 && memcmp(start, "GGUF", 4) == 0;
}

/* Whether all items of the header are in memory; if not, the problem says why. */
static bool walk_items(tmi_gguf_reader *r) {
    const char *key;
    size_t key_len;
    tenmap_value value;
    tmi_gguf_row row;
    if (!tmi_gguf_begin(r))
        return false;
    for (uint64_t i = 0; i < r->pairs; i++)
        if (!tmi_gguf_pair(r, &key, &key_len, &value))
            return false;
    for (uint64_t i = 0; i < r->tensors; i++)
        if (!tmi_gguf_take_row(r, &row))
            return false;
    return true;
}

/* Each read doubles the text, so all walks together cost about as much as two full ones. */
static tenmap_status find_gguf_text(tmi_header_reader *reader, tmi_header_text *text,
                                    tenmap_error *error) {
    const tmi_place *place = reader->place;
    uint64_t most = place->size < reader->limit ? place->size : reader->limit;
    const unsigned char *bytes = reader->start;
    uint64_t have = reader->len;
    for (;;) {
        tmi_gguf_reader r = {.walk = {.bytes = bytes, .have = have, .size = place->size},
                             .place = place,
                             .error = error};
        if (walk_items(&r)) {
            text->length = r.walk.at;
            return TENMAP_OK;
        }
        if (r.walk.problem != TMI_GGUF_MORE)
            return tmi_gguf_failed(&r);
        if (r.walk.number > reader->limit)
            return tmi_fail_header_limit(reader, r.walk.at, error);
        uint64_t want = have < FIRST_READ / 2 ? FIRST_READ : have * 2;
        want = want > r.walk.number ? want : r.walk.number;
        want = want < most ? want : most;
        tenmap_status status =
            tmi_text_append(reader, text, text->length, want - text->length, "the header", error);
        if (status != TENMAP_OK)
            return status;
        bytes = text->block.bytes;
        have = text->length;
    }
}

static const char *const gguf_endings[] = {".gguf", NULL};
/* A vision projector accompanies the model. */
static const char *const gguf_last[] = {"mmproj", NULL};
static const tmi_folder_names gguf_folder = {.endings = gguf_endings, .last = gguf_last};
static const tmi_split_names gguf_split = {.ending = ".gguf",
                                           .number = "split.no",
                                           .count = "split.count",
                                           .tensors = "split.tensors.count"};

const tmi_container tmi_gguf = {.name = "gguf",
                                .recognize = is_gguf,
                                .find_text = find_gguf_text,
                                .parse = tmi_gguf_parse,
                                .folder = &gguf_folder,
                                .split = &gguf_split};
