/*
 * Reports what a header may contain but rarely should. Only a check does this, never an open. Works
 * on what safetensors_header.c has parsed; does no I/O.
 */
#include "format.h"
#include "json.h"

#ifndef TENMAP_NO_CHECK

#include <string.h>

/* The reference implementation pads to a multiple of 8, which takes at most this many bytes. */
enum { MOST_PADDING = 7 };

tmi_blanks tmi_check_blanks(const char *text, size_t length) {
    tmi_blanks blanks = {0, 0, 0, false};
    size_t end = length;
    bool in_string = false;
    while (end > 0 && tmi_json_is_space(text[end - 1])) {
        blanks.other_than_spaces |= text[--end] != ' ';
        blanks.behind++;
    }
    while (blanks.before < end && tmi_json_is_space(text[blanks.before]))
        blanks.before++;
    for (size_t i = blanks.before; i < end; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string)
            blanks.inside += tmi_json_is_space(text[i]);
    }
    return blanks;
}

static void lint_blanks(const tmi_place *place, size_t length, const tmi_blanks *blanks) {
    tmi_report *r = place->report;
    tmi_quoted path = tmi_quote_path(place->path);
    uint64_t start = place->offset + 8;
    if (blanks->before)
        TMI_REPORT(r, WHITE_SPACE, place->shard, start, NULL,
                   "%s: %s of white space before the header's JSON; some readers require it to "
                   "begin with '{'",
                   path.text, tmi_count(blanks->before, "byte").text);
    if (blanks->inside)
        TMI_REPORT(r, WHITE_SPACE, place->shard, start, NULL,
                   "%s: %s of white space inside the header's JSON, which the reference "
                   "implementation does not write",
                   path.text, tmi_count(blanks->inside, "byte").text);
    if (blanks->other_than_spaces)
        TMI_REPORT(r, WHITE_SPACE, place->shard, start + length - blanks->behind, NULL,
                   "%s: the header is padded with something other than spaces", path.text);
    if (blanks->behind > MOST_PADDING)
        TMI_REPORT(r, SLACK, place->shard, start + length - blanks->behind, NULL,
                   "%s: the header ends in %s of white space, which leaves room for metadata or "
                   "aligns the "
                   "data",
                   path.text, tmi_count(blanks->behind, "byte").text);
}

void tmi_check_field(const tmi_place *place, const tenmap_tensor *t, const char *key,
                     size_t key_len, uint64_t offset) {
    TMI_REPORT(place->report, UNKNOWN_FIELD, place->shard, offset, t->name,
               "%s: tensor %s (header, byte %llu): the field %s means nothing in this format and "
               "is ignored",
               tmi_quote_path(place->path).text, tmi_quote(t->name, t->name_len).text, (ull)offset,
               tmi_quote(key, key_len).text);
}

/* Says what is odd about a name; NULL if nothing is. */
static const char *lint_name(const char *name, size_t len) {
    enum { LONG_NAME = 1024 };
    if (len == 0)
        return "the name is empty";
    if (len > LONG_NAME)
        return "the name is longer than 1024 bytes";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return "the name holds a control character";
    if (name[0] == ' ' || name[len - 1] == ' ')
        return "the name begins or ends with a space";
    if (len > 4 && memcmp(name, "__", 2) == 0 && memcmp(name + len - 2, "__", 2) == 0)
        return "names of the form __x__ are reserved for the format";
    return NULL;
}

/* Where the tensor's entry begins in the file: at the quote before its name. */
static uint64_t entry_offset(const tmi_place *place, const tmi_header *header,
                             const tenmap_tensor *t) {
    return place->offset + 8 + (uint64_t)(t->name - (const char *)header->text.bytes) - 1;
}

static void lint_tensor(const tmi_place *place, const tmi_header *header, size_t length,
                        const tenmap_tensor *t) {
    tmi_report *r = place->report;
    const char *odd = lint_name(t->name, t->name_len);
    uint64_t entry = entry_offset(place, header, t), end = place->offset + place->size;
    if (odd)
        TMI_REPORT(r, NAME, place->shard, entry, t->name, "%s: tensor %s (header, byte %llu): %s",
                   tmi_quote_path(place->path).text, tmi_quote(t->name, t->name_len).text,
                   (ull)entry, odd);
    if (t->nbytes == 0)
        TMI_REPORT(r, EMPTY_TENSOR, place->shard, entry, t->name,
                   "%s: tensor %s (header, byte %llu): it has no data",
                   tmi_quote_path(place->path).text, tmi_quote(t->name, t->name_len).text,
                   (ull)entry);
    else if (!(t->flags & TENMAP_TENSOR_ALIGNED))
        TMI_REPORT(r, MISALIGNED, place->shard, t->file_offset, t->name,
                   "%s: tensor %s begins at byte %llu, which is not a multiple of %u, the "
                   "alignment of %s: it cannot be used in place",
                   tmi_quote_path(place->path).text, tmi_quote(t->name, t->name_len).text,
                   (ull)t->file_offset, (unsigned)tmi_dtypes[t->dtype].align,
                   tmi_dtypes[t->dtype].name);
    uint64_t begin = t->file_offset - place->offset - 8 - length;
    uint64_t data = place->size - 8 - length;
    uint64_t there = begin >= data ? 0 : data - begin;
    if (t->nbytes > there)
        TMI_REPORT(r, INCOMPLETE, place->shard, end, t->name,
                   "%s: tensor %s: only %s of it is in the file, %llu of %llu bytes",
                   tmi_quote_path(place->path).text, tmi_quote(t->name, t->name_len).text,
                   tmi_share(there, t->nbytes).text, (ull)there, (ull)t->nbytes);
}

/* The reference libraries record which framework wrote a file; some loaders require it. */
static void lint_metadata(const tmi_place *place, const tmi_header *header) {
    tmi_report *r = place->report;
    for (size_t i = 0; i < header->metadata_count; i++)
        if (header->metadata[i].key_len == 6 && memcmp(header->metadata[i].key, "format", 6) == 0)
            return;
    TMI_REPORT(r, NO_FORMAT, place->shard, place->offset, NULL,
               "%s: its metadata has no \"format\" (such as \"pt\"), which some loaders require",
               tmi_quote_path(place->path).text);
}

void tmi_check_header(const tmi_place *place, const tmi_header *header, size_t length,
                      const tmi_blanks *blanks, bool in_order) {
    tmi_report *r = place->report;
    const tenmap_tensor *tensors = header->tensors.bytes;
    uint64_t data = place->offset + 8 + length;
    lint_blanks(place, length, blanks);
    if (data % 8 != 0)
        TMI_REPORT(r, DATA_START, place->shard, data, NULL,
                   "%s: the data begins at byte %llu, which is not a multiple of 8: the header was "
                   "not padded",
                   tmi_quote_path(place->path).text, (ull)data);
    lint_metadata(place, header);
    if (header->count == 0)
        TMI_REPORT(r, NO_TENSORS, place->shard, place->offset, NULL, "%s: it holds no tensors",
                   tmi_quote_path(place->path).text);
    if (!in_order)
        TMI_REPORT(r, ORDER, place->shard, place->offset + 8, NULL,
                   "%s: the header does not list the tensors in the order of their data",
                   tmi_quote_path(place->path).text);
    for (size_t i = 0; i < header->count; i++)
        lint_tensor(place, header, length, &tensors[i]);
}

#endif
