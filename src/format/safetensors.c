/* SafeTensors as a container: checks the length field (rules 1 to 3) and lists its parsers. */
#include "format.h"

#include <string.h>

static bool is_plausible(const unsigned char *start, size_t len, uint64_t size, uint64_t limit) {
    if (len < 8 || size < 8)
        return false;
    uint64_t n = tmi_file_u64(start);
    return n != 0 && n <= limit && n <= size - 8;
}

static tenmap_status read_length(const tmi_header_reader *reader, uint64_t *length, uint32_t *code,
                                 tenmap_error *error) {
    const tmi_place *place = reader->place;
    const unsigned char *start = reader->start;
    size_t len = reader->len;
    uint64_t limit = reader->limit;
    const char *path = place->path;
    uint64_t n = len >= 8 ? tmi_file_u64(start) : 0;
    bool too_short = place->size < 8 || len < 8;
    if (is_plausible(start, len, place->size, limit)) {
        *length = n;
        return TENMAP_OK;
    }
    /*
     * A plausible length followed by a brace is a truncated file, even if the length's bytes also
     * match another format.
     */
    bool cut = !too_short && n <= limit && len > 8 && start[8] == '{';
    tmi_shown shown = {.remedy = TENMAP_REMEDY_NONE};
    const char *foreign = cut ? NULL : tmi_other_format(start, len, place->size, &shown);
    if (!foreign && !cut && (foreign = tmi_other_by_name(path)) != NULL)
        shown = (tmi_shown){.remedy = TENMAP_REMEDY_CONVERT};
    *code = foreign     ? TENMAP_FOUND_FOREIGN
            : n > limit ? TENMAP_FOUND_LIMIT
                        : TENMAP_FOUND_TRUNCATED;
    if (foreign && shown.len)
        return tmi_remedy(error, shown.remedy,
                          tmi_fail_at(error, TENMAP_ERR_FORMAT, place->shard, place->offset,
                                      "%s: %s; it %s %s", tmi_quote_path(path).text, foreign,
                                      shown.at ? "says" : "begins with",
                                      tmi_quote((const char *)start + shown.at, shown.len).text));
    if (foreign)
        return tmi_remedy(error, shown.remedy,
                          tmi_fail_at(error, TENMAP_ERR_FORMAT, place->shard, place->offset,
                                      "%s: %s", tmi_quote_path(path).text, foreign));
    if (too_short)
        return tmi_remedy(
            error, TENMAP_REMEDY_FETCH_AGAIN,
            tmi_fail_at(error, TENMAP_ERR_FORMAT, place->shard, place->offset,
                        "%s: it has %s, but a SafeTensors file begins with a length field of 8 "
                        "bytes: the download is truncated",
                        tmi_quote_path(path).text, tmi_count(place->size, "byte").text));
    if (n > limit)
        return tmi_remedy(
            error, n > place->size ? TENMAP_REMEDY_NONE : TENMAP_REMEDY_RAISE_HEADER_LIMIT,
            tmi_fail_at(error, TENMAP_ERR_LIMIT, place->shard, place->offset,
                        "%s: the length field says that the header has %llu bytes, over the "
                        "limit of %llu%s",
                        tmi_quote_path(path).text, (ull)n, (ull)limit,
                        n > place->size ? "; the whole file is shorter, so this is not a "
                                          "SafeTensors file"
                                        : " (a higher limit for headers allows it)"));
    if (n > place->size - 8)
        return tmi_remedy(
            error, TENMAP_REMEDY_FETCH_AGAIN,
            tmi_fail_at(error, TENMAP_ERR_FORMAT, place->shard, place->offset,
                        "%s: the length field says that the header has %llu bytes, but only "
                        "%llu follow it: the file is truncated by at least %s",
                        tmi_quote_path(path).text, (ull)n, (ull)(place->size - 8),
                        tmi_count(n - (place->size - 8), "byte").text));
    *length = n; /* also for an empty header: the JSON rules have the error message for it */
    return TENMAP_OK;
}

static tenmap_status find_text(tmi_header_reader *reader, tmi_header_text *text,
                               tenmap_error *error) {
    const tmi_place *place = reader->place;
    uint32_t code;
    text->at = TMI_LENGTH_FIELD;
    tenmap_status status = read_length(reader, &text->length, &code, error);
    if (status != TENMAP_OK && TMI_REPORTS(place->report))
        tmi_report_failure(place->report, code, place->shard, NULL, error);
    return status;
}

static const char *const safetensors_endings[] = {".safetensors", NULL};
static const char *const safetensors_first[] = {
    "model.safetensors", "model.safetensors.index.json", "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json", NULL};
static const tmi_folder_names safetensors_folder = {
    .endings = safetensors_endings, .has_index = true, .first = safetensors_first};

const tmi_container tmi_safetensors = {.name = "safetensors",
                                       .recognize = is_plausible,
                                       .find_text = find_text,
                                       .quick = tmi_safetensors_quick,
                                       .parse = tmi_header_parse,
                                       .folder = &safetensors_folder};
