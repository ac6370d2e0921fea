/*
 * Parses the header of a SafeTensors file: eight bytes of length, then JSON. All rules of
 * acceptance are checked here, in the order of docs/format.md; nothing is checked later. Works on
 * bytes in memory and does no I/O.
 *
 * A parse passes over the tensors four times: it reads the JSON, sorts the tensors into file order
 * (most files are already in it), adds the names to the index, and checks the offsets. Between the
 * first pass and the last, four fields of a tenmap_tensor hold other data, so that no second array
 * is needed:
 *
 *     file_offset  data_offsets[0]      nbytes  data_offsets[1]
 *     nelems       hash of the name     flags   unused
 */
#include "format.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

/* The shortest entry that a header can hold: "":{"dtype":"","shape":[],"data_offsets":[0,0]}, */
enum { SHORTEST_ENTRY = 48 };

typedef struct parser {
    tmi_json json;
    tmi_header *header;
    const tmi_place *place;
    tenmap_error *error;
    tenmap_status failed; /* the status that a parsing function's false stands for */
    tenmap_tensor *tensors;
    size_t count;
    bool in_order;     /* so far, the tensors came in file order */
    bool has_metadata; /* __metadata__ was present, null or not */
    bool in_metadata;  /* for error messages */
    /* The tensor whose entry is being read, for error messages; or NULL. */
    const tenmap_tensor *in;
    uint64_t *dim, *dims_end; /* free space for dimensions */
    tmi_text dtype_text;      /* of the last tensor; most often the next one has the same */
    tenmap_dtype dtype;
    char *untouched; /* a padded copy of the original text, if there is a report; else NULL */
    tmi_text field;  /* the key of the last field other than dtype, shape and data_offsets */
    bool skipped;    /* an entry was reported and skipped, so an apparent hole may be its data */
} parser;

/* What a scalar's shape points to, and where a parse starts: a place without free space. */
static uint64_t no_dims[1];

/* Errors. Their offsets are file offsets, so that users can look them up in a hex editor. */

static uint64_t file_position(const parser *p, const char *at) {
    return p->place->offset + TMI_LENGTH_FIELD + (uint64_t)(at - p->json.text);
}

/* The byte at `at`, quoted for an error message. */
static tmi_quoted found_at(const parser *p, const char *at) {
    if (at >= p->json.end) {
        tmi_quoted out = {"the end of the header"};
        return out;
    }
    return tmi_quote(at, tmi_utf8_char((const unsigned char *)at, (size_t)(p->json.end - at)));
}

/* Fails on bad text, with `problem` or else the JSON reader's own problem. Always returns false. */
static bool fail_json(parser *p, const char *problem) {
    const char *at = p->json.at;
    uint64_t offset = file_position(p, at);
    tmi_quoted in = {""}, found = {""};
    problem = problem ? problem : p->json.problem;
    if (p->in)
        in = tmi_quote(p->in->name, p->in->name_len);
    bool expected = strncmp(problem, "expected", 8) == 0;
    if (expected)
        found = found_at(p, at);
    tmi_fail_at(p->error, TENMAP_ERR_FORMAT, p->place->shard, offset,
                "%s: header, byte %llu%s%s: %s%s%s", tmi_quote_path(p->place->path).text,
                (ull)offset,
                p->in            ? ", tensor "
                : p->in_metadata ? ", __metadata__"
                                 : "",
                in.text, problem, expected ? ", found " : "", found.text);
    return false;
}

static bool fail_memory(parser *p, uint64_t bytes) {
    p->failed = tmi_fail_memory(p->error, bytes, "the header's tables");
    return false;
}

/* A rule is broken, and p->error says how. An open fails; a check reports it and goes on. */
static tenmap_status report_broken_rule(parser *p, uint32_t code, const tenmap_tensor *t,
                                        tenmap_status status) {
    if (!TMI_REPORTS(p->place->report) || status != TENMAP_ERR_FORMAT)
        return status;
    tmi_report_failure(p->place->report, code, p->place->shard, t ? t->name : NULL, p->error);
    return TENMAP_OK;
}

/* Whether enough findings of this kind were reported; this one is then only counted. */
static bool reported_enough(const parser *p, uint32_t code) {
    return TMI_REPORTS(p->place->report) &&
           tmi_report_full(p->place->report, TENMAP_FINDING_ERROR, code);
}

/*
 * The value that begins at `value` is not what it must be. If it is still valid JSON, a check
 * reports the error and goes on after the value.
 */
static bool resume(parser *p, uint32_t code, const char *value) {
    if (!TMI_REPORTS(p->place->report) || p->failed != TENMAP_ERR_FORMAT)
        return false;
    char *text = p->untouched;
    size_t length = (size_t)(p->json.end - p->json.text);
    tmi_json again = {text, text + (value - p->json.text), text + length, NULL, false};
    unsigned depth = p->in_metadata ? 2 : 1;
    if (!tmi_json_skip(&again, depth))
        return false;
    report_broken_rule(p, code, p->in, TENMAP_ERR_FORMAT);
    p->json.at = p->json.text + (again.at - text);
    p->json.problem = NULL;
    p->in = NULL;
    p->skipped = true;
    return true;
}

/* One tensor breaks a rule: takes the rest of the error message and its arguments. */
#define FAIL_TENSOR(p, t, format, ...)                                                             \
    tmi_fail_at((p)->error, TENMAP_ERR_FORMAT, (p)->place->shard, file_position(p, (t)->name) - 1, \
                "%s: tensor %s (header, byte %llu): " format,                                      \
                tmi_quote_path((p)->place->path).text, tmi_quote((t)->name, (t)->name_len).text,   \
                (ull)file_position(p, (t)->name) - 1, __VA_ARGS__)
/* The same as a finding TENMAP_FOUND_*; TENMAP_OK if a check has reported it. */
#define FAIL_RULE(p, code, t, ...)                                                                 \
    (reported_enough(p, TENMAP_FOUND_##code)                                                       \
         ? TENMAP_OK                                                                               \
         : report_broken_rule(p, TENMAP_FOUND_##code, t, FAIL_TENSOR(p, t, __VA_ARGS__)))

/* Rule 5: JSON and types. */

/* Makes room for one more dimension; moves the unfinished shape if its block is full. */
static TMI_NOINLINE bool grow_dims(parser *p, uint64_t **first) {
    tmi_header *h = p->header;
    size_t used = (size_t)(p->dim - *first);
    size_t size = (size_t)(p->json.end - p->json.text) / 8 + 64;
    size = (size / sizeof *p->dim) << h->dim_blocks;
    if (size < 2 * used + 8)
        size = 2 * used + 8;
    if (h->dim_blocks == TMI_DIM_BLOCKS || size > SIZE_MAX / sizeof *p->dim / 2 ||
        !tmi_block_alloc(&h->dims[h->dim_blocks], size * sizeof *p->dim))
        return fail_memory(p, (uint64_t)size * sizeof *p->dim);
    uint64_t *slice = h->dims[h->dim_blocks++].bytes;
    if (used)
        memcpy(slice, *first, used * sizeof *slice);
    *first = slice;
    p->dim = slice + used;
    p->dims_end = slice + size;
    return true;
}

static bool parse_shape(parser *p, tenmap_tensor *t) {
    tmi_json *json = &p->json;
    uint64_t *first = p->dim;
    if (!tmi_json_expect(json, '[', "expected the shape as an array of integers"))
        return fail_json(p, NULL);
    if (!tmi_json_take(json, ']')) {
        do {
            if (TMI_UNLIKELY(p->dim == p->dims_end) && !grow_dims(p, &first))
                return false;
            if (TMI_UNLIKELY(!tmi_json_u64(json, p->dim)))
                return fail_json(p, NULL);
            p->dim++;
        } while (tmi_json_take(json, ','));
        if (!tmi_json_expect(json, ']', "expected ',' or ']' in the shape"))
            return fail_json(p, NULL);
    }
    if ((uint64_t)(p->dim - first) > UINT32_MAX)
        return fail_json(p, "expected a shape of fewer than 2^32 dimensions");
    t->rank = (uint32_t)(p->dim - first);
    t->shape = t->rank ? first : no_dims;
    return true;
}

static bool parse_offsets(parser *p, tenmap_tensor *t) {
    tmi_json *json = &p->json;
    bool good = tmi_json_expect(json, '[', "expected data_offsets as an array of two integers") &&
                tmi_json_u64(json, &t->file_offset) &&
                tmi_json_expect(json, ',', "expected two integers in data_offsets") &&
                tmi_json_u64(json, &t->nbytes) &&
                tmi_json_expect(json, ']', "expected ']' after two integers in data_offsets");
    return TMI_LIKELY(good) ? true : fail_json(p, NULL);
}

/* Entries are added in the order of their names in the text; lookups rely on that order. */
static bool add_opaque(parser *p, const tenmap_tensor *t, const char *text) {
    tmi_header *h = p->header;
    tmi_opaque *slice = tmi_grow(h->opaque, h->opaque_count, &h->opaque_capacity, sizeof *slice);
    if (!slice)
        return fail_memory(p, (uint64_t)h->opaque_count * sizeof *slice);
    h->opaque = slice;
    slice[h->opaque_count++] = (tmi_opaque){t->name, text};
    return true;
}

static bool parse_dtype(parser *p, tenmap_tensor *t) {
    tmi_text text = {p->json.at, 0};
    char *start = (tmi_json_peek(&p->json), p->json.at);
    if (!tmi_json_string(&p->json, &text, "expected the dtype as a string"))
        return fail_json(p, NULL);
    if (p->dtype == TENMAP_AS_STORED || text.len != p->dtype_text.len ||
        memcmp(text.bytes, p->dtype_text.bytes, text.len) != 0) {
        p->dtype = tmi_dtype_find(text.bytes, text.len);
        p->dtype_text = text;
    }
    t->dtype = p->dtype;
    if (TMI_LIKELY(p->dtype != TENMAP_AS_STORED))
        return true;
    t->dtype = TENMAP_OPAQUE;
    if (!add_opaque(p, t, text.bytes))
        return false;
    if (tmi_allows(p->place->flags, TENMAP_OPEN_UNKNOWN_DTYPES) && !p->place->report)
        return true;
    uint64_t offset = file_position(p, start);
    tmi_fail_at(p->error, TENMAP_ERR_FORMAT, p->place->shard, offset,
                "%s: header, byte %llu, tensor %s: unknown dtype %s (a lenient open takes it as "
                "bytes)",
                tmi_quote_path(p->place->path).text, (ull)offset,
                tmi_quote(t->name, t->name_len).text, tmi_quote(text.bytes, text.len).text);
    (void)tmi_remedy(p->error, TENMAP_REMEDY_ALLOW_LENIENT, TENMAP_ERR_FORMAT);
    return report_broken_rule(p, TENMAP_FOUND_DTYPE, t, TENMAP_ERR_FORMAT) == TENMAP_OK;
}

enum { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4, FIELD_OTHER = 0, FIELD_NONE = -1 };

/* Reads the key of an entry's next field. The three known keys are matched as raw bytes. */
static int parse_field_key(parser *p) {
    tmi_json *json = &p->json;
    char *at = (tmi_json_peek(json), json->at);
    int field = FIELD_OTHER;
    if (memcmp(at, "\"dtype\"", 7) == 0) {
        json->at = at + 7;
        field = FIELD_DTYPE;
    } else if (memcmp(at, "\"shape\"", 7) == 0) {
        json->at = at + 7;
        field = FIELD_SHAPE;
    } else if (memcmp(at, "\"data_offsets\"", 14) == 0) {
        json->at = at + 14;
        field = FIELD_OFFSETS;
    } else {
        tmi_text key = {NULL, 0};
        if (!tmi_json_string(json, &key, "expected a field of the tensor")) {
            fail_json(p, NULL);
            return FIELD_NONE;
        }
        p->field = key;
        if (key.len == 5 && memcmp(key.bytes, "dtype", 5) == 0)
            field = FIELD_DTYPE;
        else if (key.len == 5 && memcmp(key.bytes, "shape", 5) == 0)
            field = FIELD_SHAPE;
        else if (key.len == 12 && memcmp(key.bytes, "data_offsets", 12) == 0)
            field = FIELD_OFFSETS;
    }
    if (!tmi_json_expect(json, ':', "expected ':' after the name of a field")) {
        fail_json(p, NULL);
        return FIELD_NONE;
    }
    return field;
}

static bool parse_field(parser *p, tenmap_tensor *t, int *seen) {
    char *key_at = (tmi_json_peek(&p->json), p->json.at);
    int field = parse_field_key(p);
    if (field == FIELD_NONE)
        return false;
    if (*seen & field) {
        p->json.at = key_at;
        return fail_json(p, field == FIELD_DTYPE   ? "the field dtype appears twice"
                            : field == FIELD_SHAPE ? "the field shape appears twice"
                                                   : "the field data_offsets appears twice");
    }
    *seen |= field;
    switch (field) {
    case FIELD_DTYPE:
        return parse_dtype(p, t);
    case FIELD_SHAPE:
        return parse_shape(p, t);
    case FIELD_OFFSETS:
        return parse_offsets(p, t);
    default:
        if (TMI_REPORTS(p->place->report))
            tmi_check_field(p->place, t, p->field.bytes, p->field.len, file_position(p, key_at));
        return tmi_json_skip(&p->json, 2) ? true : fail_json(p, NULL);
    }
}

static bool parse_entry(parser *p, tenmap_tensor *t) {
    tmi_json *json = &p->json;
    int seen = 0;
    p->in = t;
    if (!tmi_json_expect(json, '{', "expected an object with dtype, shape and data_offsets"))
        return fail_json(p, NULL);
    if (tmi_json_peek(json) != '}') {
        do
            if (!parse_field(p, t, &seen))
                return false;
        while (tmi_json_take(json, ','));
    }
    if (!tmi_json_expect(json, '}', "expected ',' or '}' after a field of the tensor"))
        return fail_json(p, NULL);
    if (seen != (FIELD_DTYPE | FIELD_SHAPE | FIELD_OFFSETS)) {
        json->at--;
        return fail_json(p, !(seen & FIELD_DTYPE)   ? "the field dtype is missing"
                            : !(seen & FIELD_SHAPE) ? "the field shape is missing"
                                                    : "the field data_offsets is missing");
    }
    p->in = NULL;
    return true;
}

static bool parse_tensor(parser *p, tmi_text name) {
    tenmap_tensor *t = &p->tensors[p->count];
    t->name = name.bytes;
    t->name_len = name.len;
    const char *value = p->json.at;
    if (!parse_entry(p, t))
        return resume(p, TENMAP_FOUND_ENTRY, value);
    t->nelems = tmi_hash(&p->place->key, name.bytes, name.len);
    t->header_position = p->count;
    if (p->count > 0) {
        const tenmap_tensor *before = t - 1;
        if (t->file_offset < before->file_offset ||
            (t->file_offset == before->file_offset && t->nbytes < before->nbytes))
            p->in_order = false;
    }
    p->count++;
    return true;
}

static bool parse_metadata_pair(parser *p) {
    tmi_header *h = p->header;
    const char *value_at = NULL;
    tmi_text key = {0}, value = {0};
    if (!tmi_json_string(&p->json, &key, "expected a key in quotes") ||
        !tmi_json_expect(&p->json, ':', "expected ':' after a key") ||
        (value_at = p->json.at, !tmi_json_string(&p->json, &value, "expected a string")))
        return fail_json(p, NULL), value_at && resume(p, TENMAP_FOUND_METADATA, value_at);
    tenmap_metadata *slice =
        tmi_grow(h->metadata, h->metadata_count, &h->metadata_capacity, sizeof *slice);
    if (!slice)
        return fail_memory(p, (uint64_t)h->metadata_count * 2 * sizeof *slice);
    h->metadata = slice;
    slice[h->metadata_count++] =
        tmi_metadata_text(p->place, key.bytes, key.len, value.bytes, value.len);
    return true;
}

static bool parse_metadata(parser *p, const char *key) {
    tmi_json *json = &p->json;
    const char *value = json->at;
    if (p->has_metadata) {
        json->at = (char *)(uintptr_t)key;
        fail_json(p, "__metadata__ appears twice");
        return resume(p, TENMAP_FOUND_METADATA, value);
    }
    p->has_metadata = true;
    if (tmi_json_peek(json) == 'n')
        return tmi_json_skip(json, 1) ? true : fail_json(p, NULL);
    if (!tmi_json_expect(json, '{', "expected __metadata__ as an object of strings"))
        return fail_json(p, NULL), resume(p, TENMAP_FOUND_METADATA, value);
    if (tmi_json_take(json, '}'))
        return true;
    p->in_metadata = true;
    do
        if (!parse_metadata_pair(p))
            return false;
    while (tmi_json_take(json, ','));
    if (!tmi_json_expect(json, '}', "expected ',' or '}' after a pair"))
        return fail_json(p, NULL);
    p->in_metadata = false;
    return true;
}

static bool parse_member(parser *p) {
    tmi_text key = {NULL, 0};
    if (!tmi_json_string(&p->json, &key, "expected the name of a tensor in quotes") ||
        !tmi_json_expect(&p->json, ':', "expected ':' after the name of a tensor"))
        return fail_json(p, NULL);
    if (TMI_UNLIKELY(key.len == 12 && memcmp(key.bytes, "__metadata__", 12) == 0))
        return parse_metadata(p, key.bytes - 1);
    return parse_tensor(p, key);
}

static bool parse_top(parser *p) {
    tmi_json *json = &p->json;
    if (!tmi_json_expect(json, '{', "expected the header to be a JSON object"))
        return fail_json(p, NULL);
    if (!tmi_json_take(json, '}')) {
        do
            if (!parse_member(p))
                return false;
        while (tmi_json_take(json, ','));
        if (!tmi_json_expect(json, '}', "expected ',' or '}' after a tensor"))
            return fail_json(p, NULL);
    }
    if (tmi_json_peek(json) != '\0' || json->at != json->end)
        return fail_json(p, "expected nothing but white space after the header's object");
    return true;
}

/* Duplicates: two readers of one file must not find different tensors under the same name. */

static tenmap_status index_tensors(parser *p) {
    enum { AHEAD = 16 };
    tmi_names *names = &p->header->names;
    if (p->count >= UINT32_MAX - 1)
        return tmi_fail(p->error, TENMAP_ERR_LIMIT, "%s: the header has more than 2^32 tensors",
                        tmi_quote_path(p->place->path).text);
    if (!tmi_names_init(names, &p->place->key, p->tensors, sizeof *p->tensors, p->count))
        return tmi_fail_memory(p->error, (uint64_t)p->count * 16, "the index of names");
    for (size_t i = 0; i < p->count; i++) {
        if (i + AHEAD < p->count)
            tmi_names_prefetch(names, p->tensors[i + AHEAD].nelems);
        size_t twin = tmi_names_put(names, i, p->tensors[i].nelems);
        if (TMI_LIKELY(twin == TMI_NONE))
            continue;
        tenmap_status status = FAIL_RULE(p, DUPLICATE_NAME, &p->tensors[i],
                                         "the name appears twice; the other is at byte %llu",
                                         (ull)file_position(p, p->tensors[twin].name) - 1);
        if (status != TENMAP_OK)
            return status;
    }
    return TENMAP_OK;
}

static tenmap_status index_metadata(parser *p) {
    tmi_header *h = p->header;
    tmi_names names;
    tenmap_status status = TENMAP_OK;
    if (h->metadata_count < 2)
        return TENMAP_OK;
    if (!tmi_names_init(&names, &p->place->key, h->metadata, sizeof *h->metadata,
                        h->metadata_count))
        return tmi_fail_memory(p->error, (uint64_t)h->metadata_count * 16, "the index of metadata");
    for (size_t i = 0; i < h->metadata_count && status == TENMAP_OK; i++) {
        const tenmap_metadata *m = &h->metadata[i];
        size_t twin = tmi_names_put(&names, i, tmi_hash(&p->place->key, m->key, m->key_len));
        uint64_t offset = file_position(p, m->key) - 1;
        if (twin == TMI_NONE)
            continue;
        status = tmi_fail_at(p->error, TENMAP_ERR_FORMAT, p->place->shard, offset,
                             "%s: header, byte %llu: the key %s appears twice in __metadata__; the "
                             "other is at byte %llu",
                             tmi_quote_path(p->place->path).text, (ull)offset,
                             tmi_quote(m->key, m->key_len).text,
                             (ull)file_position(p, h->metadata[twin].key) - 1);
        status = report_broken_rule(p, TENMAP_FOUND_DUPLICATE_KEY, NULL, status);
    }
    tmi_names_free(&names);
    return status;
}

/* Rules 6 to 10: offsets and sizes. */

/* Rule 6. A lenient open allows holes but never overlap. */
static tenmap_status check_begin(parser *p, const tenmap_tensor *t, uint64_t begin, uint64_t end,
                                 uint64_t expected) {
    bool allowed = tmi_allows(p->place->flags, TENMAP_OPEN_HOLES);
    if (end < begin)
        return FAIL_RULE(p, OFFSETS, t, "data_offsets end at %llu, before they begin at %llu",
                         (ull)end, (ull)begin);
    if (begin < expected)
        return FAIL_RULE(p, OVERLAP, t,
                         "it begins at %llu, inside the tensor before it, which ends at %llu: "
                         "tensors overlap",
                         (ull)begin, (ull)expected);
    if (begin > expected && (!allowed || p->place->report) && !p->skipped)
        return FAIL_RULE(p, HOLE, t,
                         "it begins at %llu, but the data before it ends at %llu: a hole of %s",
                         (ull)begin, (ull)expected, tmi_count(begin - expected, "byte").text);
    return TENMAP_OK;
}

/* Rules 7 to 9: the shape's size must not overflow, must be whole bytes, must match the offsets. */
static tenmap_status check_size(parser *p, const tenmap_tensor *t, uint64_t stored,
                                uint64_t *nelems) {
    uint64_t elems = 1, bytes = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        if (TMI_UNLIKELY(!tmi_multiply(elems, t->shape[d], &elems)))
            return FAIL_RULE(
                p, OVERFLOW, t,
                "the product of its %u dimensions overflows 64 bits at dimension %u, which is %llu",
                (unsigned)t->rank, (unsigned)d + 1, (ull)t->shape[d]);
    *nelems = elems;
    if (t->dtype == TENMAP_OPAQUE)
        return TENMAP_OK;
    unsigned width = tmi_dtypes[t->dtype].bits;
    int size = tmi_whole_bytes(t->dtype, elems, &bytes);
    if (TMI_UNLIKELY(size == TMI_BYTES_OVERFLOW))
        return FAIL_RULE(p, OVERFLOW, t, "%llu elements of %u bits overflow 64 bits", (ull)elems,
                         width);
    if (TMI_UNLIKELY(size == TMI_BYTES_PART))
        return FAIL_RULE(p, PART_OF_BYTE, t,
                         "%s of %s, %u bits each, are not a whole number of bytes",
                         tmi_count(elems, "element").text, tmi_dtypes[t->dtype].name, width);
    if (TMI_UNLIKELY(bytes != stored))
        return FAIL_RULE(p, SIZE, t,
                         "data_offsets span %llu bytes, but its shape of %llu elements of %s "
                         "takes %llu",
                         (ull)stored, (ull)elems, tmi_dtypes[t->dtype].name, (ull)bytes);
    return TENMAP_OK;
}

/* Rule 10. Truncated files and trailing bytes have their own messages. */
static tenmap_status check_end(parser *p, uint64_t data_size, uint64_t last_end) {
    uint64_t expected = file_position(p, p->json.end) + last_end;
    bool allowed = tmi_allows(p->place->flags, TENMAP_OPEN_TRAILING);
    if (last_end > data_size) {
        const tenmap_tensor *t = p->tensors;
        uint64_t missing = last_end - data_size, size = p->place->size;
        uint64_t wanted = size > UINT64_MAX - missing ? UINT64_MAX : size + missing;
        while (t->file_offset + t->nbytes - file_position(p, p->json.end) <= data_size)
            t++;
        tmi_fail_at(p->error, TENMAP_ERR_FORMAT, p->place->shard, p->place->offset + p->place->size,
                    "%s: truncated: %s is there, %llu of %llu bytes; "
                    "tensor %s is the first that is not complete: fetch the file again",
                    tmi_quote_path(p->place->path).text, tmi_share(size, wanted).text, (ull)size,
                    (ull)wanted, tmi_quote(t->name, t->name_len).text);
        (void)tmi_remedy(p->error, TENMAP_REMEDY_FETCH_AGAIN, TENMAP_ERR_FORMAT);
        return report_broken_rule(p, TENMAP_FOUND_TRUNCATED, NULL, TENMAP_ERR_FORMAT);
    }
    if (last_end < data_size && (!allowed || p->place->report) && !p->skipped) {
        tmi_fail_at(p->error, TENMAP_ERR_FORMAT, p->place->shard, expected,
                    "%s: no tensor claims %s at the end, from byte %llu on (a lenient "
                    "open takes the file as it is)",
                    tmi_quote_path(p->place->path).text,
                    tmi_count(data_size - last_end, "byte").text, (ull)expected);
        (void)tmi_remedy(p->error, TENMAP_REMEDY_ALLOW_LENIENT, TENMAP_ERR_FORMAT);
        return report_broken_rule(p, TENMAP_FOUND_TRAILING, NULL, TENMAP_ERR_FORMAT);
    }
    return TENMAP_OK;
}

/* Gives each tensor its final fields, or reports which rule it breaks. */
static tenmap_status check_tensors(parser *p) {
    const tmi_place *place = p->place;
    uint64_t header_end = p->header->data_at;
    uint64_t data_size = place->size - header_end, expected = 0;
    for (size_t i = 0; i < p->count; i++) {
        tenmap_tensor *t = &p->tensors[i];
        uint64_t begin = t->file_offset, end = t->nbytes, nelems = 0;
        tenmap_status status = TENMAP_OK;
        if (TMI_UNLIKELY(begin != expected || end < begin))
            status = check_begin(p, t, begin, end, expected);
        if (status == TENMAP_OK && end >= begin)
            status = check_size(p, t, end - begin, &nelems);
        if (TMI_UNLIKELY(status != TENMAP_OK)) {
            if (p->error)
                p->error->index = i;
            return status;
        }
        /* A check gets here with offsets that an open rejects. */
        t->nbytes = end < begin ? 0 : end - begin;
        t->nelems = nelems;
        tmi_tensor_set_location(t, place, header_end + begin, end <= data_size,
                                tmi_dtype_align(t->dtype) - 1u);
        expected = end < expected ? expected : end;
    }
    return check_end(p, data_size, expected);
}

/* The additional work of a check: a copy of the text before the parse, the oddities after it. */
static tenmap_status begin_report(parser *p, tmi_block *copy, tmi_blanks *blanks) {
    size_t length = (size_t)(p->json.end - p->json.text);
    if (!tmi_block_alloc(copy, length + TMI_JSON_PAD))
        return tmi_fail_memory(p->error, length, "a copy of the header");
    memcpy(copy->bytes, p->json.text, length);
    p->untouched = copy->bytes;
    *blanks = tmi_check_blanks(p->untouched, length);
    return TENMAP_OK;
}

static bool order_tensors(parser *p) {
    p->header->reordered = !p->in_order;
    if (p->in_order || tmi_order_tensors(&p->header->tensors, p->count))
        return true;
    return fail_memory(p, (uint64_t)p->count * sizeof *p->tensors);
}

static tenmap_status parse_all(parser *p) {
    size_t length = (size_t)(p->json.end - p->json.text);
    size_t valid = tmi_utf8_valid(p->json.text, length);
    if (valid != length) {
        uint64_t offset = file_position(p, p->json.text + valid);
        return tmi_fail_at(p->error, TENMAP_ERR_FORMAT, p->place->shard, offset,
                           "%s: header, byte %llu: not valid UTF-8, found 0x%02x",
                           tmi_quote_path(p->place->path).text, (ull)offset,
                           (unsigned)(unsigned char)p->json.text[valid]);
    }
    size_t most = length / SHORTEST_ENTRY + 1;
    if (most > SIZE_MAX / sizeof *p->tensors ||
        !tmi_block_alloc(&p->header->tensors, most * sizeof *p->tensors))
        return tmi_fail_memory(p->error, (uint64_t)most * sizeof *p->tensors, "the tensors' table");
    p->tensors = p->header->tensors.bytes;
    if (!parse_top(p) || !order_tensors(p))
        return p->failed;
    p->in = NULL;
    tmi_block_trim(&p->header->tensors, p->count * sizeof *p->tensors);
    p->tensors = p->header->tensors.bytes;
    tenmap_status status = index_metadata(p);
    if (status == TENMAP_OK)
        status = index_tensors(p);
    if (status == TENMAP_OK)
        status = check_tensors(p);
    p->header->count = p->count;
    return status;
}

tenmap_status tmi_header_parse(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error) {
    char *bytes = text.bytes;
    parser p = {.json = {bytes, bytes, bytes + length, NULL, false},
                .header = header,
                .place = place,
                .error = error,
                .in_order = true,
                .dim = no_dims,
                .dims_end = no_dims,
                .failed = TENMAP_ERR_FORMAT};
    tmi_block copy = {NULL, 0};
    tmi_blanks blanks = {0};
    tenmap_status status = TENMAP_OK;
    *header = (tmi_header){.text = text, .data_at = TMI_LENGTH_FIELD + (uint64_t)length};
    if (TMI_REPORTS(place->report))
        status = begin_report(&p, &copy, &blanks);
    if (status == TENMAP_OK)
        status = parse_all(&p);
    if (TMI_REPORTS(place->report) && status == TENMAP_OK)
        tmi_check_header(place, header, length, &blanks, p.in_order);
    else if (TMI_REPORTS(place->report) && status == TENMAP_ERR_FORMAT)
        tmi_report_failure(place->report, TENMAP_FOUND_JSON, place->shard, p.in ? p.in->name : NULL,
                           error);
    tmi_block_free(&copy);
    if (status != TENMAP_OK)
        tmi_header_free(header);
    return status;
}

const char *tmi_header_opaque(const tmi_header *header, const tenmap_tensor *t) {
    size_t first = 0, behind = header->opaque_count;
    while (behind - first > 1) {
        size_t middle = first + (behind - first) / 2;
        if ((uintptr_t)header->opaque[middle].name <= (uintptr_t)t->name)
            first = middle;
        else
            behind = middle;
    }
    return behind > first && header->opaque[first].name == t->name ? header->opaque[first].text
                                                                   : "";
}

void tmi_header_drop_tensors(tmi_header *header) {
    tmi_names_free(&header->names);
    if (!header->in_shared_table)
        tmi_block_free(&header->tensors);
    header->tensors = (tmi_block){NULL, 0};
}

void tmi_header_free(tmi_header *header) {
    tmi_header_drop_tensors(header);
    for (unsigned i = 0; i < header->dim_blocks; i++)
        tmi_block_free(&header->dims[i]);
    free(header->metadata);
    free(header->opaque);
    free(header->strided);
    tmi_block_free(&header->numbers);
    tmi_block_free(&header->text);
    if (header->values)
        header->free_values(header->values);
    *header = (tmi_header){.count = 0};
}
