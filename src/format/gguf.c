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

static tenmap_status find_gguf_text(const tmi_place *place, const unsigned char *start, size_t len,
                                    uint64_t limit, tmi_extent *text, tenmap_error *error) {
    tmi_gguf_reader r = {
        .walk = {.bytes = start, .have = len, .size = place->size}, .place = place, .error = error};
    if (walk_items(&r)) {
        *text = (tmi_extent){.at = 0, .length = r.walk.at};
        return TENMAP_OK;
    }
    if (r.walk.problem != TMI_GGUF_MORE)
        return tmi_gguf_failed(&r);
    if (r.walk.number > limit) {
        tmi_fail_at(
            error, TENMAP_ERR_LIMIT, place->shard, place->offset + r.walk.at,
            "%s: the header has more than %llu bytes, the limit (a higher limit for headers "
            "allows it)",
            tmi_quote_path(place->path).text, (ull)limit);
        if (TMI_REPORTS(place->report) && error)
            tmi_report_failure(place->report, TENMAP_FOUND_LIMIT, place->shard, NULL, error);
        return TENMAP_ERR_LIMIT;
    }
    /* Each read doubles the size, so all walks together cost about as much as two full ones. */
    uint64_t more = len < FIRST_READ / 2 ? FIRST_READ : (uint64_t)len * 2;
    text->more = more > r.walk.number ? more : r.walk.number;
    return TENMAP_OK;
}

const tmi_container tmi_gguf = {
    .name = "gguf", .recognize = is_gguf, .find_text = find_gguf_text, .parse = tmi_gguf_parse};
