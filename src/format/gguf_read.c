/* Reads the items of a GGUF header one by one and writes the error messages for invalid ones. */
#include "format.h"
#include "gguf.h"

#include <stdio.h>
#include <string.h>

/* The least size of a pair (an empty key, a type, one byte) and of a tensor's row. */
enum { FIXED_PART = 24, LEAST_PAIR = 8 + 4 + 1, LEAST_ROW = 8 + 4 + 4 + 8, MOST_DIMS = 4 };

static bool stop_reading(tmi_gguf_reader *r, int problem, uint64_t number, uint64_t at) {
    r->walk.problem = problem;
    r->walk.number = number;
    r->walk.at = at;
    return false;
}

bool tmi_gguf_begin(tmi_gguf_reader *r) {
    tmi_gguf_walk *w = &r->walk;
    uint32_t magic, version;
    if (!tmi_gguf_want(w, FIXED_PART))
        return false;
    (void)tmi_gguf_u32(w, &magic);
    if (memcmp(w->bytes, "GGUF", 4) != 0)
        return stop_reading(r, TMI_GGUF_MAGIC, magic, 0);
    (void)tmi_gguf_u32(w, &version);
    if (version != 2 && version != 3)
        return stop_reading(r, TMI_GGUF_VERSION, version, 4);
    (void)tmi_gguf_u64(w, &r->tensors);
    (void)tmi_gguf_u64(w, &r->pairs);
    uint64_t room = w->size - FIXED_PART;
    if (r->tensors > room / LEAST_ROW)
        return stop_reading(r, TMI_GGUF_TENSORS, r->tensors, 8);
    if (r->pairs > room / LEAST_PAIR)
        return stop_reading(r, TMI_GGUF_PAIRS, r->pairs, 16);
    return true;
}

/* Reads a key or a tensor's name; error messages mention it from now on. */
static bool take_name(tmi_gguf_reader *r, const char **name, size_t *len) {
    uint64_t begin = r->walk.at, length;
    r->item = NULL;
    if (!tmi_gguf_string(&r->walk, name, &length))
        return false;
    *len = (size_t)length; /* it is in memory, so it fits */
    size_t valid = tmi_utf8_valid(*name, *len);
    if (valid != *len)
        return stop_reading(r, TMI_GGUF_UTF8, (unsigned char)(*name)[valid], begin + 8 + valid);
    r->item = *name;
    r->item_len = *len;
    return true;
}

bool tmi_gguf_pair(tmi_gguf_reader *r, const char **key, size_t *key_len, tenmap_value *value) {
    uint32_t type;
    r->in_tensors = false;
    return take_name(r, key, key_len) && tmi_gguf_u32(&r->walk, &type) &&
           tmi_gguf_value(&r->walk, type, value);
}

bool tmi_gguf_take_row(tmi_gguf_reader *r, tmi_gguf_row *row) {
    tmi_gguf_walk *w = &r->walk;
    r->in_tensors = true;
    if (!take_name(r, &row->name, &row->name_len) || !tmi_gguf_u32(w, &row->rank))
        return false;
    if (row->rank > MOST_DIMS)
        return stop_reading(r, TMI_GGUF_RANK, row->rank, w->at - 4);
    for (uint32_t d = 0; d < row->rank; d++)
        if (!tmi_gguf_u64(w, &row->dims[d]))
            return false;
    return tmi_gguf_u32(w, &row->type) && tmi_gguf_u64(w, &row->offset);
}

/* Writes the end of an error message whose start names the file, the byte and the item. */
static void describe_problem(const tmi_gguf_reader *r, char *out, size_t room) {
    const tmi_gguf_walk *w = &r->walk;
    ull number = (ull)w->number, left = (ull)(w->size - w->at);
    switch (w->problem) {
    case TMI_GGUF_STRING:
        snprintf(out, room, "the length of a string is %llu bytes, but only %llu follow it", number,
                 left - 8);
        return;
    case TMI_GGUF_COUNT:
        snprintf(out, room,
                 "an array of %llu elements does not fit into the %llu bytes that follow", number,
                 left - 12);
        return;
    case TMI_GGUF_TYPE:
        snprintf(out, room, "the type of a value is %llu; expected 0 to 12", number);
        return;
    case TMI_GGUF_NESTED:
        snprintf(out, room, "arrays are nested more than %d deep", (int)TMI_GGUF_DEPTH);
        return;
    case TMI_GGUF_BOOL:
        snprintf(out, room, "a BOOL is %llu; expected 0 or 1", number);
        return;
    case TMI_GGUF_TENSORS:
    case TMI_GGUF_PAIRS:
        snprintf(out, room, "it announces %llu %s, more than a file of %llu bytes can hold", number,
                 w->problem == TMI_GGUF_PAIRS ? "keys" : "tensors", (ull)w->size);
        return;
    case TMI_GGUF_RANK:
        snprintf(out, room, "it has %llu dimensions; GGUF allows at most 4", number);
        return;
    case TMI_GGUF_UTF8:
        snprintf(out, room, "the %s is not valid UTF-8, found 0x%02llx",
                 r->in_tensors ? "tensor's name" : "key", number);
        return;
    default:
        snprintf(out, room, "expected %s here, but the file ends after %llu: it is truncated",
                 tmi_count(w->number, "byte").text, left);
    }
}

/* GGUF files of a kind that is not supported. */
static const char *other_kind(uint64_t version) {
    if (version == 1)
        return "it is GGUF version 1, which has been obsolete since August 2023: convert the model "
               "again";
    if ((version & 0xffff) == 0 && version != 0)
        return "it is a big-endian GGUF file: convert it to little-endian first "
               "(gguf_convert_endian.py of the gguf package)";
    return "its GGUF version is unknown (expected 2 or 3)";
}

/* What would help: another program for other kinds of files, a whole file for truncated ones. */
static uint32_t gguf_remedy(const tmi_gguf_reader *r) {
    uint64_t version = r->walk.number;
    switch (r->walk.problem) {
    case TMI_GGUF_VERSION:
        return version == 1 || ((version & 0xffff) == 0 && version != 0) ? TENMAP_REMEDY_CONVERT
                                                                         : TENMAP_REMEDY_NONE;
    case TMI_GGUF_ENDS:
        return TENMAP_REMEDY_FETCH_AGAIN;
    default:
        return TENMAP_REMEDY_NONE;
    }
}

static uint32_t code_of(const tmi_gguf_reader *r) {
    switch (r->walk.problem) {
    case TMI_GGUF_MAGIC:
    case TMI_GGUF_VERSION:
        return TENMAP_FOUND_FOREIGN;
    case TMI_GGUF_ENDS:
    case TMI_GGUF_STRING:
    case TMI_GGUF_COUNT:
    case TMI_GGUF_TENSORS:
    case TMI_GGUF_PAIRS:
        return TENMAP_FOUND_TRUNCATED;
    case TMI_GGUF_NESTED:
        return TENMAP_FOUND_LIMIT;
    default:
        return r->in_tensors ? TENMAP_FOUND_ENTRY : TENMAP_FOUND_METADATA;
    }
}

tenmap_status tmi_gguf_failed(tmi_gguf_reader *r) {
    const tmi_place *place = r->place;
    uint64_t offset = place->offset + r->walk.at;
    int problem = r->walk.problem;
    tenmap_status status = problem == TMI_GGUF_NESTED ? TENMAP_ERR_LIMIT : TENMAP_ERR_FORMAT;
    tmi_quoted item = {""};
    char what[256];
    if (problem == TMI_GGUF_MAGIC || problem == TMI_GGUF_VERSION) {
        tmi_fail_at(r->error, status, place->shard, offset, "%s: %s; byte %llu holds 0x%llx",
                    tmi_quote_path(place->path).text,
                    problem == TMI_GGUF_MAGIC ? "this is not a GGUF file"
                                              : other_kind(r->walk.number),
                    (ull)offset, (ull)r->walk.number);
    } else {
        describe_problem(r, what, sizeof what);
        if (r->item)
            item = tmi_quote(r->item, r->item_len);
        tmi_fail_at(r->error, status, place->shard, offset, "%s: header, byte %llu%s%s: %s",
                    tmi_quote_path(place->path).text, (ull)offset,
                    !r->item        ? ""
                    : r->in_tensors ? ", tensor "
                                    : ", key ",
                    item.text, what);
    }
    (void)tmi_remedy(r->error, gguf_remedy(r), status);
    if (TMI_REPORTS(place->report) && r->error)
        tmi_report_failure(place->report, code_of(r), place->shard, NULL, r->error);
    return status;
}
