/*
 * .npz files as a container: zip archives with an entry NAME.npy for each array. This file builds
 * the text of the header: a table of the arrays, their names, and their headers.
 */
#include "json.h"
#include "numpy.h"

#include <stdio.h>
#include <stdlib.h>

/* The text begins with this. Then come `entries` rows, of which `rows` are used, names, headers. */
typedef struct npz_head {
    uint64_t rows, entries, names_bytes;
} npz_head;

typedef struct npz_row {
    uint64_t name_at, name_len; /* in the names; a NUL follows */
    uint64_t at, bytes;         /* of the array with its header, in the model */
    uint64_t length;            /* of the header */
} npz_row;

/* Most headers fit into the first read: numpy fills them up to a multiple of 64 bytes. */
enum { NPZ_FIRST_READ = 128 };

static const tmi_zip_entry *npz_entry(const tmi_zip *zip, size_t i) {
    return (const tmi_zip_entry *)zip->entries.bytes + i;
}

bool tmi_is_npz(const tmi_zip *zip) {
    bool any = false;
    for (size_t i = 0; i < zip->count; i++) {
        if (tmi_zip_ends_in_letters(npz_entry(zip, i), "/data.pkl"))
            return false;
        any = any || tmi_zip_ends_in(npz_entry(zip, i), ".npy");
    }
    return any;
}

/* An archive while its text is built. */
typedef struct npz_writer {
    tmi_header_reader *reader;
    const tmi_zip *zip;
    tmi_header_text *text;
    tenmap_error *error;
    npz_head head;
    uint64_t names_used;
} npz_writer;

/* The place where an array's row goes. The text moves when it grows. */
static npz_row *next_npz_row(const npz_writer *w) {
    char *bytes = w->text->block.bytes;
    return (npz_row *)(void *)(bytes + sizeof(npz_head)) + w->head.rows;
}

static char *npz_names(const npz_writer *w) {
    char *bytes = w->text->block.bytes;
    return bytes + sizeof(npz_head) + w->head.entries * sizeof(npz_row);
}

/* An entry breaks a rule: opening fails; a check goes on without it. */
static tenmap_status fail_npz_entry(const npz_writer *w, const tmi_zip_entry *entry,
                                    const tmi_npy_problem *problem) {
    char *name = tmi_copy_text(entry->name, entry->name_len);
    if (!name)
        return tmi_fail_memory(w->error, entry->name_len, "a name");
    tenmap_status status = tmi_npy_failed(w->reader->place, name, entry->at, problem, w->error);
    free(name);
    return status;
}

/* Whether all readers understand the name in the same way. */
static bool is_npz_name(const tmi_zip_entry *entry, tmi_npy_problem *problem) {
    bool ascii = true;
    for (size_t i = 0; i < entry->name_len; i++)
        ascii = ascii && (unsigned char)entry->name[i] < 0x80;
    const char *why = NULL;
    if (memchr(entry->name, '\0', entry->name_len))
        why = "its name has a byte 0";
    else if (tmi_utf8_valid(entry->name, entry->name_len) != entry->name_len)
        why = "its name is not UTF-8";
    else if (!ascii && !entry->utf8)
        why = "its name is not ASCII, and the archive does not say that it is UTF-8";
    if (!why)
        return true;
    *problem = (tmi_npy_problem){.status = TENMAP_ERR_FORMAT, .code = TENMAP_FOUND_ENTRY};
    snprintf(problem->text, sizeof problem->text, "%s", why);
    return false;
}

/* Makes room for the rows, the names and headers of the usual length. */
static tenmap_status begin_npz_text(npz_writer *w) {
    uint64_t names = 0;
    size_t count = w->zip->count;
    for (size_t i = 0; i < count; i++)
        names += npz_entry(w->zip, i)->name_len + 1;
    /* The directory is in memory, and each of its entries is longer than its name and a row. */
    w->head = (npz_head){.entries = count, .names_bytes = names};
    uint64_t length = sizeof w->head + count * sizeof(npz_row) + names;
    uint64_t room = length + (uint64_t)count * NPZ_FIRST_READ + TMI_JSON_PAD;
    if (room > SIZE_MAX / 2 || !tmi_block_alloc(&w->text->block, (size_t)room))
        return tmi_fail_memory(w->error, room, "the header");
    w->text->length = length;
    w->text->room = (size_t)room;
    return TENMAP_OK;
}

/* Appends the header of the entry to the text. *length is 0 if it is no header. */
static tenmap_status append_npz_header(npz_writer *w, const tmi_zip_entry *entry,
                                       uint64_t *length) {
    static const char what[] = "the header of an array";
    uint64_t before = w->text->length;
    uint64_t first = entry->bytes < NPZ_FIRST_READ ? entry->bytes : NPZ_FIRST_READ;
    tmi_npy_problem problem = {.remedy = TENMAP_REMEDY_NONE};
    *length = 0;
    tenmap_status status = tmi_text_append(w->reader, w->text, entry->at, first, what, w->error);
    if (status != TENMAP_OK)
        return status;
    const unsigned char *start = (const unsigned char *)w->text->block.bytes + before;
    bool good = is_npz_name(entry, &problem) && tmi_npy_measure(start, first, length, &problem);
    if (good && *length > entry->bytes) {
        snprintf(problem.text, sizeof problem.text,
                 "its header has %llu bytes, but the entry has %llu", (ull)*length,
                 (ull)entry->bytes);
        problem.status = TENMAP_ERR_FORMAT;
        problem.code = TENMAP_FOUND_TRUNCATED;
        good = false;
    }
    if (!good) {
        *length = 0;
        w->text->length = before;
        return fail_npz_entry(w, entry, &problem);
    }
    if (*length > first)
        return tmi_text_append(w->reader, w->text, entry->at + first, *length - first, what,
                               w->error);
    w->text->length = before + *length;
    return TENMAP_OK;
}

/* Whether the entry is an array: by its name, or by its first bytes, as numpy sees it. */
static tenmap_status is_npz_array(npz_writer *w, const tmi_zip_entry *entry, bool *is) {
    unsigned char start[TMI_NPY_LEAST];
    *is = tmi_zip_ends_in(entry, ".npy");
    if (*is || entry->bytes < sizeof start)
        return TENMAP_OK;
    tenmap_status status = tmi_header_read(w->reader, entry->at, start, sizeof start,
                                           "an entry of the archive", w->error);
    *is = status == TENMAP_OK && tmi_npy_is_magic(start, sizeof start);
    return status;
}

static tenmap_status take_npz_entry(npz_writer *w, const tmi_zip_entry *entry) {
    uint64_t length;
    bool is;
    tenmap_status status = is_npz_array(w, entry, &is);
    if (status != TENMAP_OK || !is)
        return status;
    status = append_npz_header(w, entry, &length);
    if (status != TENMAP_OK || length == 0)
        return status;
    size_t name_len = entry->name_len - (tmi_zip_ends_in(entry, ".npy") ? strlen(".npy") : 0);
    *next_npz_row(w) = (npz_row){w->names_used, name_len, entry->at, entry->bytes, length};
    memcpy(npz_names(w) + w->names_used, entry->name, name_len);
    w->names_used += name_len + 1; /* the block is zeroed there */
    w->head.rows++;
    return TENMAP_OK;
}

tenmap_status tmi_npz_find_text(tmi_header_reader *reader, const tmi_zip *zip,
                                tmi_header_text *text, tenmap_error *error) {
    npz_writer w = {.reader = reader, .zip = zip, .text = text, .error = error};
    text->container = &tmi_npz;
    tenmap_status status = begin_npz_text(&w);
    for (size_t i = 0; i < zip->count && status == TENMAP_OK; i++)
        status = take_npz_entry(&w, npz_entry(zip, i));
    if (status == TENMAP_OK)
        memcpy(text->block.bytes, &w.head, sizeof w.head);
    return status;
}

static tenmap_status find_npz_text(tmi_header_reader *reader, tmi_header_text *text,
                                   tenmap_error *error) {
    tmi_zip zip;
    tenmap_status status = tmi_zip_read(reader, &zip, error);
    if (status == TENMAP_OK)
        status = tmi_npz_find_text(reader, &zip, text, error);
    tmi_zip_free(&zip);
    return status;
}

static tenmap_status parse_npz(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error) {
    *header = (tmi_header){.text = text};
    const char *bytes = text.bytes;
    npz_head head;
    memcpy(&head, bytes, sizeof head);
    const npz_row *rows = (const npz_row *)(const void *)(bytes + sizeof head);
    const char *names = (const char *)(rows + head.entries);
    const char *start = names + head.names_bytes;
    size_t count = (size_t)head.rows;
    tmi_npy_array *arrays = tmi_calloc(count + 1, sizeof *arrays);
    tenmap_status status = TENMAP_OK;
    (void)length;
    if (!arrays)
        status = tmi_fail_memory(error, count * sizeof *arrays, "the arrays");
    for (size_t i = 0; arrays && i < count; start += rows[i++].length)
        arrays[i] = (tmi_npy_array){.name = names + rows[i].name_at,
                                    .name_len = (size_t)rows[i].name_len,
                                    .at = rows[i].at,
                                    .bytes = rows[i].bytes,
                                    .start = (const unsigned char *)start,
                                    .length = (size_t)rows[i].length};
    if (status == TENMAP_OK)
        status = tmi_npy_fill(header, place, arrays, count, error);
    free(arrays);
    if (status != TENMAP_OK)
        tmi_header_free(header);
    return status;
}

/* It is not in the list of container.c: its first bytes are those of any zip archive. */
const tmi_container tmi_npz = {.name = "npz", .find_text = find_npz_text, .parse = parse_npz};
