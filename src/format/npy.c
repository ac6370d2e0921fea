/* .npy files as a container: one array, which has no name in the file. */
#include "json.h"
#include "numpy.h"

static bool is_npy(const unsigned char *start, size_t len, uint64_t size, uint64_t limit) {
    (void)size, (void)limit;
    return tmi_npy_is_magic(start, len);
}

static tenmap_status find_npy_text(tmi_header_reader *reader, tmi_header_text *text,
                                   tenmap_error *error) {
    const tmi_place *place = reader->place;
    unsigned char start[TMI_NPY_FIRST];
    uint64_t len = place->size < sizeof start ? place->size : sizeof start, length;
    tmi_npy_problem problem;
    tenmap_status status = tmi_header_read(reader, 0, start, len, "the header", error);
    if (status != TENMAP_OK)
        return status;
    if (!tmi_npy_measure(start, len, &length, &problem)) {
        (void)tmi_npy_failed(place, NULL, 0, &problem, error);
        return problem.status;
    }
    return tmi_text_append(reader, text, 0, length, "the header", error);
}

static tenmap_status parse_npy(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error) {
    static const char name[] = "array";
    *header = (tmi_header){.text = text};
    tmi_npy_array array = {.name = name,
                           .name_len = sizeof name - 1,
                           .bytes = place->size,
                           .start = text.bytes,
                           .length = length};
    tenmap_status status = tmi_npy_fill(header, place, &array, 1, error);
    if (status != TENMAP_OK)
        tmi_header_free(header);
    return status;
}

const tmi_container tmi_npy = {
    .name = "npy", .recognize = is_npy, .find_text = find_npy_text, .parse = parse_npy};
