/*
 * Parses a GGUF header: metadata and tensors with their final fields, or an error for the rule that
 * is broken. Strings stay in place in the text. The byte after each string, which is the first byte
 * of the next item, is set to 0 once that item has been read.
 */
#include "format.h"
#include "gguf.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_ALIGNMENT = 32 };

typedef struct gguf_parser {
    tmi_gguf_reader reader;
    tmi_header *header;
    tenmap_tensor *tensors;
    size_t count;
    uint64_t alignment;
    /* The end of a string value whose next byte has not been read yet; or NULL. */
    char *end_of_value;
    bool in_order;
    bool skipped; /* a row was reported and skipped, so an apparent hole may be its data */
} gguf_parser;

static uint64_t text_offset(const gguf_parser *p, const void *at) {
    return p->reader.place->offset + (uint64_t)((const unsigned char *)at - p->reader.walk.bytes);
}

/* A rule is broken, and the error says how: an open fails, a check reports a finding. */
static tenmap_status report_gguf(gguf_parser *p, uint32_t code, const char *tensor) {
    const tmi_place *place = p->reader.place;
    if (!TMI_REPORTS(place->report))
        return TENMAP_ERR_FORMAT;
    tmi_report_failure(place->report, code, place->shard, tensor, p->reader.error);
    return TENMAP_OK;
}

static bool reported_enough_of(const gguf_parser *p, uint32_t code) {
    tmi_report *report = p->reader.place->report;
    return report && tmi_report_full(report, TENMAP_FINDING_ERROR, code);
}

/*
 * Reports a tensor that breaks a rule. `format` is the end of the error message. The offset is that
 * of the length of the name, in the 8 bytes before it.
 */
#define FAIL_ROW(p, code, t, format, ...)                                                          \
    (reported_enough_of(p, TENMAP_FOUND_##code)                                                    \
         ? TENMAP_OK                                                                               \
         : (tmi_fail_at((p)->reader.error, TENMAP_ERR_FORMAT, (p)->reader.place->shard,            \
                        text_offset(p, (t)->name) - 8,                                             \
                        "%s: tensor %s (header, byte %llu): " format,                              \
                        tmi_quote_path((p)->reader.place->path).text,                              \
                        tmi_quote((t)->name, (t)->name_len).text,                                  \
                        (ull)text_offset(p, (t)->name) - 8, __VA_ARGS__),                          \
            report_gguf(p, TENMAP_FOUND_##code, (t)->name)))

/* The same for a metadata key. */
#define FAIL_KEY(p, code, m, format, ...)                                                          \
    (tmi_fail_at((p)->reader.error, TENMAP_ERR_FORMAT, (p)->reader.place->shard,                   \
                 text_offset(p, (m)->key) - 8, "%s: key %s (header, byte %llu): " format,          \
                 tmi_quote_path((p)->reader.place->path).text,                                     \
                 tmi_quote((m)->key, (m)->key_len).text, (ull)text_offset(p, (m)->key) - 8,        \
                 __VA_ARGS__),                                                                     \
     report_gguf(p, TENMAP_FOUND_##code, NULL))

/*
 * Terminates the previous string value, now that the byte after it has been read. `next` is the end
 * of the next one, or NULL.
 */
static void end_value(gguf_parser *p, char *next) {
    if (p->end_of_value)
        *p->end_of_value = '\0';
    p->end_of_value = next;
}

/* Metadata. */

static bool key_is(const tenmap_metadata *m, const char *key) {
    return m->key_len == strlen(key) && memcmp(m->key, key, m->key_len) == 0;
}

static tenmap_status take_alignment(gguf_parser *p, const tenmap_metadata *m) {
    if (m->type != TENMAP_VALUE_U32)
        return FAIL_KEY(p, METADATA, m,
                        "its type is %u; the alignment of tensors must be a U32 (4)",
                        (unsigned)m->type);
    tmi_gguf_walk w = {.bytes = m->raw, .have = 4, .size = 4};
    uint32_t alignment = 0;
    (void)tmi_gguf_u32(&w, &alignment);
    if (alignment == 0 || (alignment & (alignment - 1)))
        return FAIL_KEY(p, METADATA, m,
                        "the alignment of tensors is %u, which is not a power of two",
                        (unsigned)alignment);
    p->alignment = alignment;
    return TENMAP_OK;
}

/* Reads a non-negative integer of any integer type; false if the value is not one. */
static bool whole_number(const tenmap_metadata *m, uint64_t *out) {
    static const uint32_t whole = 1u << TENMAP_VALUE_U8 | 1u << TENMAP_VALUE_I8 |
                                  1u << TENMAP_VALUE_U16 | 1u << TENMAP_VALUE_I16 |
                                  1u << TENMAP_VALUE_U32 | 1u << TENMAP_VALUE_I32 |
                                  1u << TENMAP_VALUE_U64 | 1u << TENMAP_VALUE_I64;
    if (!(whole >> m->type & 1) || m->value[0] == '-')
        return false;
    *out = 0;
    for (const char *digit = m->value; *digit; digit++)
        *out = *out * 10 + (uint64_t)(*digit - '0');
    return true;
}

/* Handles the keys that affect how the rest of the file is read: the alignment, and the split. */
static tenmap_status apply_gguf_pair(gguf_parser *p, const tenmap_metadata *m) {
    tmi_split *split = &p->header->split;
    if (key_is(m, "general.alignment"))
        return take_alignment(p, m);
    uint64_t *out = key_is(m, "split.no")              ? &split->number
                    : key_is(m, "split.count")         ? &split->count
                    : key_is(m, "split.tensors.count") ? &split->tensors
                                                       : NULL;
    if (!out)
        return TENMAP_OK;
    if (!whole_number(m, out))
        return FAIL_KEY(p, METADATA, m, "it is %s; expected a whole number",
                        m->value_len ? tmi_quote(m->value, m->value_len).text : "an array");
    split->counts_tensors = split->counts_tensors || out == &split->tensors;
    return TENMAP_OK;
}

static void add_gguf_pair(gguf_parser *p, tenmap_metadata *m, const tenmap_value *v) {
    m->type = v->type;
    m->element_type = v->element_type;
    m->count = v->count;
    m->raw = v->raw;
    m->raw_bytes = v->raw_bytes;
    m->shard = p->reader.place->shard;
    char *text = (char *)p->header->text.bytes;
    size_t i = (size_t)(m - p->header->metadata);
    char *number = (char *)p->header->numbers.bytes + i * TMI_NUMBER_ROOM;
    char *key_end = text + (m->key - text) + m->key_len;
    end_value(p, NULL);
    *key_end = '\0'; /* overwrites the type */
    if (v->type == TENMAP_VALUE_STRING) {
        m->value = v->raw;
        m->value_len = (size_t)v->raw_bytes;
        p->end_of_value = text + (m->value - text) + m->value_len;
    } else {
        m->value = number; /* zeroed: "" for an array */
        if (v->type != TENMAP_VALUE_ARRAY)
            m->value_len = tmi_number_text(number, v->type, v->raw);
    }
}

static tenmap_status take_gguf_pairs(gguf_parser *p) {
    tmi_header *h = p->header;
    size_t pairs = (size_t)p->reader.pairs; /* the text holds all of them, so the count fits */
    h->metadata = tmi_calloc(pairs, sizeof *h->metadata);
    if (!h->metadata || !tmi_block_alloc(&h->numbers, pairs * TMI_NUMBER_ROOM + 1))
        return tmi_fail_memory(p->reader.error, (uint64_t)pairs * sizeof *h->metadata,
                               "the header's metadata");
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < pairs && status == TENMAP_OK; i++) {
        tenmap_metadata *m = &h->metadata[i];
        tenmap_value value;
        if (!tmi_gguf_pair(&p->reader, &m->key, &m->key_len, &value))
            return tmi_gguf_failed(&p->reader);
        add_gguf_pair(p, m, &value);
        h->metadata_count = i + 1;
        status = apply_gguf_pair(p, m);
    }
    return status;
}

static tenmap_status check_keys(gguf_parser *p) {
    const tmi_header *h = p->header;
    const tmi_hash_key *key = &p->reader.place->key;
    tmi_names names;
    tenmap_status status = TENMAP_OK;
    if (h->metadata_count < 2)
        return TENMAP_OK;
    if (!tmi_names_init(&names, key, h->metadata, sizeof *h->metadata, h->metadata_count))
        return tmi_fail_memory(p->reader.error, (uint64_t)h->metadata_count * 16,
                               "the index of metadata");
    for (size_t i = 0; i < h->metadata_count && status == TENMAP_OK; i++) {
        const tenmap_metadata *m = &h->metadata[i];
        size_t twin = tmi_names_put(&names, i, tmi_hash(key, m->key, m->key_len));
        if (twin != TMI_NONE && !reported_enough_of(p, TENMAP_FOUND_DUPLICATE_KEY))
            status = FAIL_KEY(p, DUPLICATE_KEY, m, "it appears twice; the other is at byte %llu",
                              (ull)text_offset(p, h->metadata[twin].key) - 8);
    }
    tmi_names_free(&names);
    return status;
}

/* Tensors. */

/* Computes the size from shape and type; *good is false if that fails. */
static tenmap_status size_row(gguf_parser *p, tenmap_tensor *t, uint32_t type, bool *good) {
    uint64_t innermost = t->rank ? t->shape[t->rank - 1] : 1;
    *good = false;
    t->nelems = 1;
    t->dtype = tenmap_dtype_from_ggml(type);
    if (t->dtype == TENMAP_AS_STORED)
        return FAIL_ROW(p, ENTRY, t, "its type %u is unknown", (unsigned)type);
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->shape[d] > INT64_MAX || !tmi_multiply(t->nelems, t->shape[d], &t->nelems))
            return FAIL_ROW(
                p, OVERFLOW, t,
                "the product of its %u dimensions overflows 64 bits at dimension %u, which is %llu",
                (unsigned)t->rank, (unsigned)d + 1, (ull)t->shape[d]);
    const tmi_block_dtype *blocks = tmi_dtype_blocks(t->dtype);
    if (blocks && innermost % blocks->elements)
        return FAIL_ROW(
            p, PART_OF_BYTE, t,
            "its innermost dimension of %s is not a whole number of blocks: a block of %s has %u",
            tmi_count(innermost, "element").text, blocks->name, (unsigned)blocks->elements);
    if (!tmi_dtype_bytes(t->dtype, t->nelems, &t->nbytes) || t->nbytes > INT64_MAX)
        return FAIL_ROW(p, OVERFLOW, t, "%llu elements of %s are more than 64 bits can count",
                        (ull)t->nelems, tenmap_dtype_name(t->dtype));
    *good = true;
    return TENMAP_OK;
}

/* Whether t comes after next in the order of tmi_order_tensors. */
static bool goes_behind(const tenmap_tensor *t, const tenmap_tensor *next) {
    return t->file_offset > next->file_offset ||
           (t->file_offset == next->file_offset && t->nbytes > next->nbytes);
}

/* Reads one row of the table. A check reports a row without a valid size and leaves it out. */
static tenmap_status take_tensor(gguf_parser *p, uint64_t *dims) {
    tenmap_tensor *t = &p->tensors[p->count];
    tmi_gguf_row row;
    bool good;
    if (!tmi_gguf_take_row(&p->reader, &row))
        return tmi_gguf_failed(&p->reader);
    end_value(p, NULL);
    ((char *)p->header->text
         .bytes)[row.name - (const char *)p->header->text.bytes + (ptrdiff_t)row.name_len] =
        '\0'; /* overwrites the rank */
    for (uint32_t d = 0; d < row.rank; d++)
        dims[d] = row.dims[row.rank - 1 - d];
    *t = (tenmap_tensor){.name = row.name,
                         .name_len = row.name_len,
                         .rank = row.rank,
                         .shape = dims,
                         .file_offset = row.offset,
                         .header_position = p->count};
    tenmap_status status = size_row(p, t, row.type, &good);
    p->skipped = p->skipped || !good || row.offset % p->alignment;
    if (status != TENMAP_OK || !good)
        return status;
    if (row.offset % p->alignment)
        return FAIL_ROW(p, OFFSETS, t, "its offset %llu is not a multiple of the alignment, %llu",
                        (ull)row.offset, (ull)p->alignment);
    p->in_order = p->in_order && (p->count == 0 || !goes_behind(&t[-1], t));
    p->count++;
    return TENMAP_OK;
}

static tenmap_status take_tensors(gguf_parser *p) {
    tmi_header *h = p->header;
    enum { MOST_DIMS_OF_A_ROW = 4 };
    size_t rows = (size_t)p->reader.tensors;
    if (rows > SIZE_MAX / 2 / sizeof *p->tensors ||
        !tmi_block_alloc(&h->tensors, rows * sizeof *p->tensors) ||
        !tmi_block_alloc(&h->dims[0], rows * MOST_DIMS_OF_A_ROW * sizeof(uint64_t)))
        return tmi_fail_memory(p->reader.error, (uint64_t)rows * sizeof *p->tensors,
                               "the tensors' table");
    h->dim_blocks = 1;
    p->tensors = h->tensors.bytes;
    uint64_t *dims = h->dims[0].bytes;
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < rows && status == TENMAP_OK; i++)
        status = take_tensor(p, dims + i * MOST_DIMS_OF_A_ROW);
    end_value(p, NULL);
    h->reordered = !p->in_order;
    if (status == TENMAP_OK && !p->in_order && !tmi_order_tensors(&h->tensors, p->count))
        status = tmi_fail_memory(p->reader.error, (uint64_t)p->count * sizeof *p->tensors,
                                 "the tensors' order");
    p->tensors = h->tensors.bytes;
    return status;
}

static tenmap_status check_names(gguf_parser *p) {
    const tmi_hash_key *key = &p->reader.place->key;
    tmi_names *names = &p->header->names;
    tenmap_status status = TENMAP_OK;
    if (p->count >= UINT32_MAX - 1)
        return tmi_fail(p->reader.error, TENMAP_ERR_LIMIT,
                        "%s: the header has more than 2^32 tensors",
                        tmi_quote_path(p->reader.place->path).text);
    if (!tmi_names_init(names, key, p->tensors, sizeof *p->tensors, p->count))
        return tmi_fail_memory(p->reader.error, (uint64_t)p->count * 16, "the index of names");
    for (size_t i = 0; i < p->count && status == TENMAP_OK; i++) {
        const tenmap_tensor *t = &p->tensors[i];
        size_t twin = tmi_names_put(names, i, tmi_hash(key, t->name, t->name_len));
        if (twin != TMI_NONE)
            status =
                FAIL_ROW(p, DUPLICATE_NAME, t, "the name appears twice; the other is at byte %llu",
                         (ull)text_offset(p, p->tensors[twin].name) - 8);
    }
    return status;
}

/* Rounds `end` up to the alignment, where the next data begins; UINT64_MAX on overflow. */
static uint64_t align_up(const gguf_parser *p, uint64_t end) {
    uint64_t spare = -end & (p->alignment - 1);
    return end > UINT64_MAX - spare ? UINT64_MAX : end + spare;
}

/* A lenient open allows holes but never overlap. */
static tenmap_status check_offset(gguf_parser *p, const tenmap_tensor *t, uint64_t expected) {
    const tmi_place *place = p->reader.place;
    bool allowed = tmi_allows(place->flags, TENMAP_OPEN_HOLES) && !place->report;
    if (t->file_offset < expected)
        return FAIL_ROW(p, OVERLAP, t,
                        "it begins at %llu, inside the tensor before it, which ends at %llu: "
                        "tensors overlap",
                        (ull)t->file_offset, (ull)expected);
    if (t->file_offset > expected && !allowed && !p->skipped)
        return FAIL_ROW(
            p, HOLE, t, "it begins at %llu, but the data before it ends at %llu: a hole of %s",
            (ull)t->file_offset, (ull)expected, tmi_count(t->file_offset - expected, "byte").text);
    return TENMAP_OK;
}

static tenmap_status check_file_end(gguf_parser *p, uint64_t last_end, const tenmap_tensor *cut) {
    const tmi_place *place = p->reader.place;
    uint64_t begins = p->header->data_at, size = place->size;
    bool allowed = tmi_allows(place->flags, TENMAP_OPEN_TRAILING) && !place->report;
    if (cut) {
        uint64_t wanted = last_end > UINT64_MAX - begins ? UINT64_MAX : begins + last_end;
        tmi_fail_at(p->reader.error, TENMAP_ERR_FORMAT, place->shard, place->offset + size,
                    "%s: truncated: %s is there, %llu of %llu bytes; tensor %s is the "
                    "first that is not complete: fetch the file again",
                    tmi_quote_path(place->path).text, tmi_share(size, wanted).text, (ull)size,
                    (ull)wanted, tmi_quote(cut->name, cut->name_len).text);
        (void)tmi_remedy(p->reader.error, TENMAP_REMEDY_FETCH_AGAIN, TENMAP_ERR_FORMAT);
        return report_gguf(p, TENMAP_FOUND_TRUNCATED, NULL);
    }
    uint64_t behind = align_up(p, begins + last_end); /* the last tensor may or may not be padded */
    if (size > behind && !allowed && !p->skipped) {
        uint64_t from = place->offset + behind;
        tmi_fail_at(p->reader.error, TENMAP_ERR_FORMAT, place->shard, from,
                    "%s: no tensor claims %s at the end, from byte %llu on (a lenient "
                    "open takes the file as it is)",
                    tmi_quote_path(place->path).text, tmi_count(size - behind, "byte").text,
                    (ull)from);
        (void)tmi_remedy(p->reader.error, TENMAP_REMEDY_ALLOW_LENIENT, TENMAP_ERR_FORMAT);
        return report_gguf(p, TENMAP_FOUND_TRAILING, NULL);
    }
    return TENMAP_OK;
}

/* Gives each tensor its final fields, or reports which rule it breaks. */
static tenmap_status place_tensors(gguf_parser *p, uint64_t length) {
    const tmi_place *place = p->reader.place;
    uint64_t begins = align_up(p, length), expected = 0, last_end = 0;
    if (begins > place->size && p->count == 0)
        begins = place->size; /* a file without tensors need not be padded */
    uint64_t data_size = begins > place->size ? 0 : place->size - begins;
    const tenmap_tensor *cut = NULL;
    p->header->data_at = begins;
    for (size_t i = 0; i < p->count; i++) {
        tenmap_tensor *t = &p->tensors[i];
        tenmap_status status = check_offset(p, t, expected);
        if (status != TENMAP_OK) {
            if (p->reader.error)
                p->reader.error->index = i;
            return status;
        }
        uint64_t begin = t->file_offset;
        uint64_t end = begin > UINT64_MAX - t->nbytes ? UINT64_MAX : begin + t->nbytes;
        bool there = end <= data_size && begins <= place->size;
        cut = cut || there ? cut : t;
        tmi_tensor_set_location(t, place, begins + begin, there, tmi_dtype_align(t->dtype) - 1u);
        last_end = end > last_end ? end : last_end;
        expected = align_up(p, last_end);
    }
    return check_file_end(p, last_end, cut);
}

/* Reports what a header may contain but rarely should. */
static void lint_gguf(const gguf_parser *p) {
    const tmi_place *place = p->reader.place;
    if (p->count == 0)
        TMI_REPORT(place->report, NO_TENSORS, place->shard, place->offset, NULL,
                   "%s: it holds no tensors", tmi_quote_path(place->path).text);
    if (!p->in_order)
        TMI_REPORT(place->report, ORDER, place->shard, place->offset, NULL,
                   "%s: the header does not list the tensors in the order of their data",
                   tmi_quote_path(place->path).text);
    for (size_t i = 0; i < p->count; i++)
        if (p->tensors[i].nbytes == 0)
            TMI_REPORT(place->report, EMPTY_TENSOR, place->shard,
                       text_offset(p, p->tensors[i].name) - 8, p->tensors[i].name,
                       "%s: tensor %s: it has no data", tmi_quote_path(place->path).text,
                       tmi_quote(p->tensors[i].name, p->tensors[i].name_len).text);
}

tenmap_status tmi_gguf_parse(tmi_header *header, const tmi_place *place, tmi_block text,
                             size_t length, tenmap_error *error) {
    gguf_parser p = {.reader = {.walk = {.bytes = text.bytes, .have = length, .size = length},
                                .place = place,
                                .error = error},
                     .header = header,
                     .alignment = USUAL_ALIGNMENT,
                     .in_order = true};
    *header = (tmi_header){.text = text};
    tenmap_status status = tmi_gguf_begin(&p.reader) ? TENMAP_OK : tmi_gguf_failed(&p.reader);
    if (status == TENMAP_OK)
        status = take_gguf_pairs(&p);
    if (status == TENMAP_OK)
        status = check_keys(&p);
    if (status == TENMAP_OK)
        status = take_tensors(&p);
    if (status == TENMAP_OK)
        status = check_names(&p);
    if (status == TENMAP_OK)
        status = place_tensors(&p, length);
    header->count = p.count;
    if (status == TENMAP_OK && TMI_REPORTS(place->report))
        lint_gguf(&p);
    if (status != TENMAP_OK)
        tmi_header_free(header);
    return status;
}
