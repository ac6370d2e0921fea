/*
 * A fast path for a header that is written the way almost all are: compact ASCII JSON without
 * escapes, the fields of each entry in the order dtype, shape, data_offsets, the entries in file
 * order, padded with spaces. It accepts a subset of what safetensors_header.c accepts and reports
 * no errors: at the first unexpected byte, number or name it gives up, and safetensors_header.c,
 * which knows all the rules and has the error messages, starts over.
 *
 * The text passes through a small window that stays in the cache, one read after the other; only
 * the name of each entry is kept. This one pass checks all rules: a header that it reads to the end
 * breaks none.
 */
#include "../base/hash.h"
#include "format.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 16, WINDOW_PAD = 32, PAGE = 4096 };
/* Longer entries and higher ranks are left to safetensors_header.c. */
enum { ENTRY_AT_MOST = 4096, RANK_AT_MOST = 32, METADATA_AT_MOST = 16 };
/* A name's slot is prefetched this many entries before it is used. */
enum { NAMES_AHEAD = 16 };
/* The shortest entry: "":{"dtype":"F4","shape":[],"data_offsets":[0,0]}, */
enum { ENTRY_AT_LEAST = 48 };

/*
 * The text between an entry's name and its offsets, :{"dtype":...,"data_offsets":[ as written, and
 * what it means. Models repeat a handful of these, and tensors may share a shape's memory.
 */
enum { KIND_TEXT = 96, KIND_AT_LEAST = 40, KINDS = 32 };

typedef struct kind {
    char text[KIND_TEXT];
    size_t len; /* 0: none */
    tenmap_dtype dtype;
    uint32_t rank;
    const uint64_t *shape;
    uint64_t nelems, nbytes;
    uintptr_t align_mask;
} kind;

typedef struct reader {
    tmi_header_source source;
    uint64_t next, left;  /* what has not been read into the window yet */
    char *pages;          /* the page-aligned window, with ENTRY_AT_MOST bytes before it */
    const char *at, *end; /* WINDOW_PAD zero bytes follow `end` */
    tmi_header *header;
    const tmi_place *place;
    char *name; /* where the next name goes */
    uint64_t *dim, *dims_end;
    tenmap_tensor *tensors;
    size_t count, indexed;
    const tmi_table_slice *slice; /* holds the tensors, unless they are in the header's own table */
    bool too_many;                /* more tensors than the slice holds */
    uint64_t hashes[NAMES_AHEAD];
    uint64_t expected; /* where the next tensor's data begins */
    uint64_t expected_text[2], expected_mask[2];
    /* The length of that number as text; the two fields above hold the text and its mask. */
    unsigned expected_len;
    uint64_t header_end, data_size;
    bool out_of_memory;
    kind kinds[KINDS];
} reader;

static bool lacks_memory(reader *r) {
    r->out_of_memory = true;
    return false;
}

/*
 * Reads the next bytes and moves the unread rest of the text, less than ENTRY_AT_MOST bytes, right
 * before them. The copy in the kernel is several times slower if the destination's offset in its
 * page is a few bytes beyond the source's, so both get the same offset.
 */
static bool fill_window(reader *r) {
    size_t kept = (size_t)(r->end - r->at);
    size_t wanted = r->left < WINDOW ? (size_t)r->left : WINDOW;
    char *dst = r->pages + r->next % PAGE;
    memmove(dst - kept, r->at, kept);
    if (!r->source.refill(r->source.ctx, r->next, dst, wanted))
        return false;
    r->next += wanted;
    r->left -= wanted;
    r->at = dst - kept;
    r->end = dst + wanted;
    memset(dst + wanted, 0, WINDOW_PAD);
    return true;
}

/* Makes sure that a whole entry is in the window, unless it is longer than ENTRY_AT_MOST. */
static bool want_entry(reader *r) {
    return r->end - r->at >= ENTRY_AT_MOST || r->left == 0 || fill_window(r);
}

/* Consumes exactly these bytes. Compilers reduce a literal to a few word comparisons. */
#define TAKE(r, literal)                                                                           \
    (memcmp((r)->at, (literal), sizeof(literal) - 1) == 0 ? ((r)->at += sizeof(literal) - 1, true) \
                                                          : false)

#if defined(__SSE2__)
static TMI_INLINE __m128i load_sixteen(const char *at) {
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}
#endif

/*
 * Copies the plain bytes of a string, from after its opening quote, to the names and returns the
 * closing quote, or NULL if a byte is not plain. It copies sixteen bytes at a time, so it relies on
 * the room after the names and on the zero bytes after the window.
 */
static TMI_INLINE const char *copy_string(const char *from, char *to) {
#if defined(__SSE2__)
    for (;; from += 16, to += 16) {
        __m128i bytes = load_sixteen(from);
        __m128i stop = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                    _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        /* As signed numbers, control characters and non-ASCII bytes are below the space. */
        stop = _mm_or_si128(stop, _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')));
        unsigned found = (unsigned)_mm_movemask_epi8(stop);
        _mm_storeu_si128((__m128i *)(void *)to, bytes);
        if (found) {
            from += __builtin_ctz(found);
            break;
        }
    }
#else
    while (*from >= ' ' && *from < 0x7f && *from != '"' && *from != '\\')
        *to++ = *from++;
#endif
    return *from == '"' ? from : NULL;
}

/* The same for a string that is kept; sets its text and length. */
static TMI_INLINE bool take_string(reader *r, const char **text, size_t *len) {
    const char *end = copy_string(r->at, r->name);
    if (TMI_UNLIKELY(!end))
        return false;
    *text = r->name;
    *len = (size_t)(end - r->at);
    r->name[*len] = '\0';
    r->name += *len + 1;
    r->at = end + 1;
    return true;
}

/* A plain integer of at most 16 digits. */
static TMI_INLINE bool take_number(reader *r, uint64_t *value) {
    static const uint32_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    const char *at = r->at;
    unsigned digits = tmi_json_digits(at, value);
    if (TMI_UNLIKELY(digits == 0 || (*at == '0' && digits > 1)))
        return false;
    if (digits == 8) {
        uint64_t rest;
        unsigned more = tmi_json_digits(at + 8, &rest);
        *value = *value * tens[more] + rest;
        digits += more;
        if (TMI_UNLIKELY(more == 8))
            return false;
    }
    r->at = at + digits;
    return true;
}

static bool take_dtype(reader *r, kind *k) {
    size_t len = 0;
    while (len < 16 && r->at[len] != '"' && r->at[len] != '\0')
        len++;
    k->dtype = r->at[len] == '"' ? tmi_dtype_find(r->at, len) : TENMAP_AS_STORED;
    r->at += len + 1;
    return k->dtype != TENMAP_AS_STORED;
}

static bool want_dims(reader *r) {
    tmi_header *h = r->header;
    size_t count = (size_t)4 * RANK_AT_MOST << h->dim_blocks / 2;
    if (r->dims_end - r->dim >= RANK_AT_MOST)
        return true;
    if (h->dim_blocks == TMI_DIM_BLOCKS)
        return false;
    if (!tmi_block_alloc_dirty(&h->dims[h->dim_blocks], count * sizeof *r->dim))
        return lacks_memory(r);
    r->dim = h->dims[h->dim_blocks++].bytes;
    r->dims_end = r->dim + count;
    return true;
}

/* Reads a shape, from after its bracket, and computes the number of elements. */
static bool take_shape(reader *r, kind *k) {
    k->nelems = 1;
    if (!want_dims(r))
        return false;
    uint64_t *dim = r->dim;
    k->shape = dim;
    if (*r->at != ']') {
        for (;; r->at++) {
            if (dim - r->dim == RANK_AT_MOST || !take_number(r, dim) ||
                !tmi_multiply(k->nelems, *dim, &k->nelems))
                return false;
            dim++;
            if (*r->at != ',')
                break;
        }
    }
    k->rank = (uint32_t)(dim - r->dim);
    r->dim = dim;
    return true;
}

/* Parses a kind that is not cached: dtype and shape, with rules 7 and 8. */
static TMI_NOINLINE bool take_new_kind(reader *r, kind *k) {
    const char *start = r->at;
    k->len = 0;
    if (!TAKE(r, ":{\"dtype\":\"") || !take_dtype(r, k) || !TAKE(r, ",\"shape\":[") ||
        !take_shape(r, k) || !TAKE(r, "],\"data_offsets\":[") ||
        tmi_whole_bytes(k->dtype, k->nelems, &k->nbytes) != TMI_BYTES_WHOLE)
        return false;
    k->align_mask = tmi_dtypes[k->dtype].align - 1u;
    size_t len = (size_t)(r->at - start);
    if (len <= KIND_TEXT) {
        memcpy(k->text, start, len);
        k->len = len;
    }
    return true;
}

/* Whether a kind's text is at `at`, where at least KIND_TEXT bytes are readable. */
static TMI_INLINE bool is_kind(const kind *k, const char *at) {
#if defined(__SSE2__)
    __m128i differ = _mm_setzero_si128();
    size_t last = k->len - 16; /* the last step may overlap the previous one */
    if (k->len < KIND_AT_LEAST)
        return false;
    for (size_t i = 0; i <= last; i += 16)
        differ =
            _mm_or_si128(differ, _mm_xor_si128(load_sixteen(k->text + i), load_sixteen(at + i)));
    differ =
        _mm_or_si128(differ, _mm_xor_si128(load_sixteen(k->text + last), load_sixteen(at + last)));
    return _mm_movemask_epi8(_mm_cmpeq_epi8(differ, _mm_setzero_si128())) == 0xffff;
#else
    return k->len >= KIND_AT_LEAST && memcmp(k->text, at, k->len) == 0;
#endif
}

/* Reads the kind that comes next; NULL if it is not as expected. */
static TMI_INLINE kind *take_kind(reader *r) {
    uint64_t a, b;
    if (TMI_UNLIKELY(r->end - r->at < KIND_TEXT))
        return take_new_kind(r, &r->kinds[0]) ? &r->kinds[0] : NULL;
    memcpy(&a, r->at + 22, 8); /* the bytes where dtype and shape differ */
    memcpy(&b, r->at + 30, 8);
    kind *k = &r->kinds[((a ^ (b << 24 | b >> 40)) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % KINDS];
    if (TMI_LIKELY(is_kind(k, r->at))) {
        r->at += k->len;
        return k;
    }
    return take_new_kind(r, k) ? k : NULL;
}

/* Remembers the text of the number that ends at `at`, since the next tensor begins there. */
static TMI_INLINE bool expect_begin(reader *r, const char *start, const char *at) {
    unsigned char mask[16] = {0};
    size_t len = (size_t)(at - start);
    if (len > 16)
        return false;
    if (TMI_UNLIKELY(len != r->expected_len)) {
        memset(mask, 0xff, len);
        memcpy(r->expected_mask, mask, 16);
        r->expected_len = (unsigned)len;
    }
    memcpy(r->expected_text, start, 16);
    return true;
}

/* Reads data_offsets, from after the bracket: rules 6 and 9, and rule 10 for the tensors so far. */
static TMI_INLINE bool take_offsets(reader *r, const kind *k) {
    uint64_t text[2], end;
    memcpy(text, r->at, 16);
    if (TMI_UNLIKELY(((text[0] ^ r->expected_text[0]) & r->expected_mask[0]) != 0 ||
                     ((text[1] ^ r->expected_text[1]) & r->expected_mask[1]) != 0))
        return false;
    r->at += r->expected_len;
    if (!TAKE(r, ","))
        return false;
    const char *start = r->at;
    return take_number(r, &end) && end - r->expected == k->nbytes && end >= r->expected &&
           end <= r->data_size && expect_begin(r, start, r->at) && TAKE(r, "]}");
}

/* Sets the fields that follow from a tensor's kind and location. */
static TMI_INLINE void set_location(reader *r, tenmap_tensor *t, const kind *k) {
    t->dtype = k->dtype;
    t->rank = k->rank;
    t->shape = k->shape;
    t->nbytes = k->nbytes;
    t->nelems = k->nelems;
    tmi_tensor_set_location(t, r->place, r->header_end + r->expected, true, k->align_mask);
    r->expected += k->nbytes;
}

/* Adds the next waiting name to the index; false if it is a duplicate. */
static TMI_INLINE bool index_next(reader *r) {
    tmi_names *names = &r->header->names;
    uint64_t hash = r->hashes[r->indexed % NAMES_AHEAD];
    const tenmap_tensor *t = &r->tensors[r->indexed];
    if (TMI_UNLIKELY(tmi_names_full(names, r->indexed)) && !tmi_names_double(names, r->indexed))
        return lacks_memory(r);
    if (TMI_LIKELY(tmi_names_put_first(names, r->indexed, hash, t->name, t->name_len))) {
        r->indexed++;
        return true;
    }
    return tmi_names_put(names, r->indexed++, hash) == TMI_NONE;
}

static bool index_rest(reader *r) {
    while (r->indexed < r->count)
        if (!index_next(r))
            return false;
    return true;
}

/* Reads one tensor, from its opening quote to after its closing brace. */
static bool take_entry(reader *r) {
    tenmap_tensor *t = &r->tensors[r->count];
    const char *name = r->at + 1;
    if (r->slice && TMI_UNLIKELY(r->count == r->slice->count)) {
        r->too_many = true;
        return false;
    }
    if (!TAKE(r, "\"") || !take_string(r, &t->name, &t->name_len))
        return false;
    /* Hash the window, not the copy: bytes that were just written are slow to read back. */
    uint64_t hash = tmi_hash_inline(&r->place->key, name, t->name_len);
    if (!r->slice)
        tmi_names_prefetch(&r->header->names, hash);
    const kind *k = take_kind(r);
    if (!k || !take_offsets(r, k))
        return false;
    if (TMI_UNLIKELY(t->name_len == 12 && memcmp(t->name, "__metadata__", 12) == 0))
        return false;
    set_location(r, t, k);
    t->header_position = r->count;
    if (r->slice) {
        r->slice->hashes[r->count++] = hash;
        return true;
    }
    if (r->count - r->indexed == NAMES_AHEAD && !index_next(r))
        return false;
    r->hashes[r->count % NAMES_AHEAD] = hash;
    r->count++;
    return true;
}

/*
 * Reads a few pairs of short strings, from after the opening brace; duplicate keys are left to
 * safetensors_header.c.
 */
static bool take_metadata(reader *r) {
    tmi_header *h = r->header;
    h->metadata = tmi_calloc(METADATA_AT_MOST, sizeof *h->metadata);
    h->metadata_capacity = METADATA_AT_MOST;
    if (!h->metadata)
        return lacks_memory(r);
    do {
        tenmap_metadata *m = &h->metadata[h->metadata_count];
        if (h->metadata_count == METADATA_AT_MOST || !want_entry(r) || !TAKE(r, "\"") ||
            !take_string(r, &m->key, &m->key_len) || !TAKE(r, ":\"") ||
            !take_string(r, &m->value, &m->value_len))
            return false;
        *m = tmi_metadata_text(r->place, m->key, m->key_len, m->value, m->value_len);
        for (size_t i = 0; i < h->metadata_count; i++)
            if (h->metadata[i].key_len == m->key_len &&
                memcmp(h->metadata[i].key, m->key, m->key_len) == 0)
                return false;
        h->metadata_count++;
    } while (TAKE(r, ","));
    return TAKE(r, "},");
}

static bool take_padding(reader *r) {
    for (;;) {
        while (*r->at == ' ')
            r->at++;
        if (r->at != r->end || r->left == 0)
            return r->at == r->end && r->left == 0;
        if (!fill_window(r))
            return false;
    }
}

/* Guesses the number of tensors from the distance between the first entries' braces. */
static size_t guess_count(const reader *r, size_t length) {
    enum { SAMPLE = 4096 };
    size_t sample = r->end - r->at < SAMPLE ? (size_t)(r->end - r->at) : SAMPLE, braces = 0;
    const char *first = NULL, *last = NULL, *end = r->at + sample;
    for (const char *at = r->at; (at = memchr(at, '{', (size_t)(end - at))); at++) {
        first = first ? first : at;
        last = at;
        braces++;
    }
    if (braces < 2)
        return braces;
    return (size_t)((double)length / (double)(last - first) * (double)(braces - 1)) + 1;
}

/* Where names begin in a block of several headers: after the tmi_block of the previous block. */
enum { NAMES_AT = sizeof(tmi_block) };

static bool take_name_room(reader *r, size_t size) {
    tmi_scratch *s = r->slice ? r->place->scratch : NULL;
    tmi_block block;
    if (!s) {
        bool taken = tmi_block_alloc_dirty(&r->header->text, size);
        r->name = r->header->text.bytes;
        return taken;
    }
    if (!s->names.bytes || s->block_bytes - s->used < size) {
        size_t most = size > s->least_bytes ? size : s->least_bytes;
        if (most > SIZE_MAX - NAMES_AT || !tmi_block_alloc_dirty(&block, most + NAMES_AT))
            return false;
        memcpy(block.bytes, &s->names, sizeof s->names);
        s->names = block;
        s->used = NAMES_AT;
        s->block_bytes = most + NAMES_AT;
    }
    r->name = (char *)s->names.bytes + s->used;
    return true;
}

void tmi_scratch_end(tmi_scratch *scratch) {
    free(scratch->window);
    scratch->window = NULL;
    if (scratch->names.bytes)
        tmi_block_trim_pages(&scratch->names, scratch->used);
}

void tmi_scratch_free(tmi_scratch *scratch) {
    tmi_scratch_end(scratch);
    while (scratch->names.bytes) {
        tmi_block last = scratch->names;
        memcpy(&scratch->names, last.bytes, sizeof last);
        tmi_block_free(&last);
    }
}

/* Allocates the tables of tensors and names. */
static bool take_tables(reader *r, size_t length) {
    tmi_header *h = r->header;
    size_t most = length / ENTRY_AT_LEAST + 1, guess = guess_count(r, length);
    if (length > SIZE_MAX - WINDOW_PAD || !take_name_room(r, length + WINDOW_PAD))
        return lacks_memory(r);
    if (r->slice) {
        h->tensors.bytes = r->tensors = r->slice->tensors;
        h->in_shared_table = true;
        return true;
    }
    if (most > SIZE_MAX / sizeof *r->tensors ||
        !tmi_block_alloc_dirty(&h->tensors, most * sizeof *r->tensors) ||
        !tmi_names_init(&h->names, &r->place->key, h->tensors.bytes, sizeof *r->tensors,
                        guess < most ? guess : most))
        return lacks_memory(r);
    r->tensors = h->tensors.bytes;
    return true;
}

static bool take_all(reader *r, size_t length) {
    if (!fill_window(r) || !TAKE(r, "{\"") || !take_tables(r, length))
        return false;
    if (TAKE(r, "__metadata__\":{")) {
        if (!take_metadata(r))
            return false;
    } else {
        r->at--;
    }
    do
        if (!want_entry(r) || !take_entry(r))
            return false;
    while (TAKE(r, ","));
    return TAKE(r, "}") && take_padding(r) && r->expected == r->data_size &&
           (r->slice || index_rest(r));
}

/* Returns the window of the place's scratch, which keeps it, or one that the caller must free. */
static char *take_header_window(const reader *r, size_t length) {
    tmi_scratch *s = r->place->scratch;
    size_t size = length < WINDOW && !s ? length : WINDOW;
    if (s && s->window)
        return s->window;
    char *window = malloc(size + ENTRY_AT_MOST + (size_t)2 * PAGE + WINDOW_PAD);
    if (s)
        s->window = window;
    return window;
}

tenmap_status tmi_safetensors_quick(tmi_header *header, const tmi_place *place, size_t length,
                                    tmi_header_source source, bool *done, tenmap_error *error) {
    static const char zero[16] = "0";
    reader r = {.source = source,
                .next = place->offset + TMI_LENGTH_FIELD,
                .left = length,
                .header = header,
                .place = place,
                .slice = place->slice,
                .header_end = TMI_LENGTH_FIELD + (uint64_t)length,
                .data_size = place->size - TMI_LENGTH_FIELD - length};
    *header = (tmi_header){.data_at = r.header_end};
    char *window = take_header_window(&r, length);
    if (window) {
        r.pages = window + ENTRY_AT_MOST;
        r.pages += (PAGE - (uintptr_t)r.pages % PAGE) % PAGE;
        r.at = r.end = r.pages;
        (void)expect_begin(&r, zero, zero + 1);
    }
    *done = window ? take_all(&r, length) : lacks_memory(&r);
    if (!place->scratch)
        free(window);
    if (!*done) {
        tmi_header_free(header);
        if (r.too_many) {
            tmi_place alone = *place;
            alone.slice = NULL;
            return tmi_safetensors_quick(header, &alone, length, source, done, error);
        }
        return r.out_of_memory ? tmi_fail_memory(error, length, "the header") : TENMAP_OK;
    }
    header->count = r.count;
    tmi_block_trim_pages(&header->tensors, r.count * sizeof *r.tensors);
    if (r.slice && place->scratch)
        place->scratch->used = (size_t)(r.name - (char *)place->scratch->names.bytes);
    else
        tmi_block_trim_pages(&header->text, (size_t)(r.name - (char *)header->text.bytes));
    return TENMAP_OK;
}
