/* Reads ranges of a file for the container that parses its header, up to a limit in all. */
#include "format.h"
#include "json.h"

#include <string.h>

tenmap_status tmi_fail_header_limit(const tmi_header_reader *reader, uint64_t at,
                                    tenmap_error *error) {
    const tmi_place *place = reader->place;
    tenmap_error unused, *said = error ? error : &unused;
    tmi_fail_at(said, TENMAP_ERR_LIMIT, place->shard, place->offset + at,
                "%s: the header has more than %llu bytes, the limit (a higher limit for headers "
                "allows it)",
                tmi_quote_path(place->path).text, (ull)reader->limit);
    said->remedy = TENMAP_REMEDY_RAISE_HEADER_LIMIT;
    if (TMI_REPORTS(place->report))
        tmi_report_failure(place->report, TENMAP_FOUND_LIMIT, place->shard, NULL, said);
    return TENMAP_ERR_LIMIT;
}

static tenmap_status fail_range(const tmi_header_reader *reader, uint64_t at, uint64_t size,
                                const char *what, tenmap_error *error) {
    const tmi_place *place = reader->place;
    tenmap_error unused, *said = error ? error : &unused;
    tmi_fail_at(said, TENMAP_ERR_FORMAT, place->shard, place->offset,
                "%s: %s, of %s, should be at byte %llu, but the file has %llu bytes: it is "
                "truncated, or damaged",
                tmi_quote_path(place->path).text, what, tmi_count(size, "byte").text,
                (ull)place->offset + at, (ull)place->offset + place->size);
    said->remedy = TENMAP_REMEDY_FETCH_AGAIN;
    if (TMI_REPORTS(place->report))
        tmi_report_failure(place->report, TENMAP_FOUND_TRUNCATED, place->shard, NULL, said);
    return TENMAP_ERR_FORMAT;
}

/* Accounts for a range that is about to be read. */
static tenmap_status take_range(tmi_header_reader *reader, uint64_t at, uint64_t size,
                                const char *what, tenmap_error *error) {
    const tmi_place *place = reader->place;
    if (at > place->size || size > place->size - at)
        return fail_range(reader, at, size, what, error);
    if (size > reader->limit - reader->taken)
        return tmi_fail_header_limit(reader, at, error);
    reader->taken += size;
    return TENMAP_OK;
}

tenmap_status tmi_header_read(tmi_header_reader *reader, uint64_t at, void *dst, uint64_t size,
                              const char *what, tenmap_error *error) {
    tenmap_status status = take_range(reader, at, size, what, error);
    if (status != TENMAP_OK || size == 0)
        return status;
    return reader->read(reader->ctx, reader->place->offset + at, dst, (size_t)size, what, error);
}

/* Makes room for `size` more bytes and the pad; doubles, so that many appends stay linear. */
static bool extend_text(tmi_header_text *text, uint64_t size) {
    uint64_t least = text->length + size; /* both are below the limit and the file's size */
    if (least < size || least > SIZE_MAX / 2 - TMI_JSON_PAD)
        return false;
    size_t room = (size_t)least + TMI_JSON_PAD, twice = 2 * (size_t)text->length;
    tmi_block longer;
    if (room <= text->room)
        return true;
    room = room > twice ? room : twice;
    if (!tmi_block_alloc_dirty(&longer, room))
        return false;
    if (text->length)
        memcpy(longer.bytes, text->block.bytes, (size_t)text->length);
    tmi_block_free(&text->block);
    text->block = longer;
    text->room = room;
    return true;
}

tenmap_status tmi_text_append(tmi_header_reader *reader, tmi_header_text *text, uint64_t at,
                              uint64_t size, const char *what, tenmap_error *error) {
    tenmap_status status = take_range(reader, at, size, what, error);
    if (status != TENMAP_OK || size == 0)
        return status;
    if (!extend_text(text, size))
        return tmi_fail_memory(error, text->length + size, what);
    char *end = (char *)text->block.bytes + text->length;
    text->length += size;
    return reader->read(reader->ctx, reader->place->offset + at, end, (size_t)size, what, error);
}
