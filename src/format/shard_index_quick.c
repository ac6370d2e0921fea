/*
 * A fast path for an index that is written the way almost all are: ASCII JSON without escapes,
 * whose metadata values are plain strings and integers, with no fields other than metadata and
 * weight_map. It accepts a subset of what shard_index.c accepts and reports no errors: at the first
 * unexpected byte it gives up, and shard_index.c, which knows all the rules and has the error
 * messages, starts over.
 *
 * The text is not modified, and no table of names is built: combine_by_index.c notices a name that
 * is listed twice, because it matches each line with a different tensor.
 */
#include "format.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

typedef struct skimmer {
    const char *at, *end; /* TMI_JSON_PAD zero bytes follow `end` */
    tmi_outline *outline;
    const tmi_place *place;
    tmi_names files; /* over outline->files */
    size_t most_files;
    const char *file; /* of the previous line */
    size_t file_len;
    uint32_t file_number;
    bool out_of_memory;
} skimmer;

/* The shortest line: "":"a", */
enum { LINE_AT_LEAST = 7 };

static bool skimmer_lacks_memory(skimmer *s) {
    s->out_of_memory = true;
    return false;
}

static TMI_INLINE void skim_space(skimmer *s) {
    while (tmi_json_is_space(*s->at))
        s->at++;
}

static TMI_INLINE bool skim(skimmer *s, char c) {
    skim_space(s);
    if (*s->at != c)
        return false;
    s->at++;
    return true;
}

/* The first byte at or after `at` that is not plain ASCII; mostly the string's closing quote. */
static TMI_INLINE const char *plain_end(const char *at) {
#if defined(__SSE2__)
    for (;; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i stop = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                    _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        /* As signed numbers, control characters and non-ASCII bytes are below the space. */
        stop = _mm_or_si128(stop, _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')));
        unsigned found = (unsigned)_mm_movemask_epi8(stop);
        if (found)
            return at + __builtin_ctz(found);
    }
#else
    while (*at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\')
        at++;
    return at;
#endif
}

static TMI_INLINE bool skim_string(skimmer *s, const char **text, size_t *len) {
    if (!skim(s, '"'))
        return false;
    const char *end = plain_end(s->at);
    *text = s->at;
    *len = (size_t)(end - s->at);
    s->at = end + 1;
    return *end == '"';
}

/* Finds or adds a file that differs from the previous line's, and sets its number. */
static TMI_NOINLINE bool skim_file(skimmer *s) {
    tmi_outline *o = s->outline;
    const char *name;
    size_t len;
    if (!skim_string(s, &name, &len) || o->file_count == s->most_files)
        return false;
    uint64_t hash = tmi_hash(&s->files.key, name, len);
    o->files[o->file_count] = (tmi_outlined_file){.listed = {name, len}};
    if (tmi_names_full(&s->files, o->file_count) && !tmi_names_double(&s->files, o->file_count))
        return skimmer_lacks_memory(s);
    size_t known = tmi_names_put(&s->files, o->file_count, hash);
    if (known == TMI_NONE) {
        if (!tmi_index_safe_name(name, len, s->place->flags))
            return false;
        o->files[o->file_count].number = (uint32_t)o->file_count;
        known = o->file_count++;
    }
    s->file = name;
    s->file_len = len;
    s->file_number = (uint32_t)known;
    return true;
}

static TMI_INLINE bool skim_line(skimmer *s) {
    tmi_outline *o = s->outline;
    const char *name;
    size_t len;
    if (!skim_string(s, &name, &len) || !skim(s, ':'))
        return false;
    skim_space(s);
    bool same = (size_t)(s->end - s->at) > s->file_len + 1 && s->at[0] == '"' &&
                s->at[s->file_len + 1] == '"' && memcmp(s->at + 1, s->file, s->file_len) == 0;
    if (TMI_LIKELY(same))
        s->at += s->file_len + 2;
    else if (!skim_file(s))
        return false;
    o->lines[o->count++] = (tmi_line){name, (uint32_t)len, s->file_number};
    o->files[s->file_number].lines++;
    return true;
}

static bool skim_weight_map(skimmer *s) {
    if (s->outline->count || !skim(s, '{'))
        return false;
    do
        if (!skim_line(s))
            return false;
    while (skim(s, ','));
    return skim(s, '}');
}

/* A plain string, or an integer of at most 18 digits. */
static bool skim_value(skimmer *s) {
    const char *text;
    size_t len;
    skim_space(s);
    if (*s->at == '"')
        return skim_string(s, &text, &len);
    const char *start = s->at;
    while (*s->at >= '0' && *s->at <= '9')
        s->at++;
    len = (size_t)(s->at - start);
    return len > 0 && len <= 18 && (*start != '0' || len == 1); /* what follows must be , or } */
}

static bool skim_metadata(skimmer *s) {
    const char *key;
    size_t len;
    if (!skim(s, '{'))
        return false;
    if (skim(s, '}'))
        return true;
    do
        if (!skim_string(s, &key, &len) || !skim(s, ':') || !skim_value(s))
            return false;
    while (skim(s, ','));
    return skim(s, '}');
}

static bool skim_all(skimmer *s) {
    const char *key;
    size_t len;
    if (!skim(s, '{'))
        return false;
    do {
        if (!skim_string(s, &key, &len) || !skim(s, ':'))
            return false;
        bool is_map = len == 10 && memcmp(key, "weight_map", 10) == 0;
        if (!is_map && !(len == 8 && memcmp(key, "metadata", 8) == 0))
            return false;
        if (!(is_map ? skim_weight_map(s) : skim_metadata(s)))
            return false;
    } while (skim(s, ','));
    if (!skim(s, '}'))
        return false;
    skim_space(s);
    return s->at == s->end && s->outline->count > 0;
}

static bool take_outline(skimmer *s, size_t length) {
    tmi_outline *o = s->outline;
    size_t most = length / LINE_AT_LEAST + 1;
    s->most_files = most < TMI_MOST_SHARDS ? most + 1 : TMI_MOST_SHARDS + 1;
    if (most > SIZE_MAX / sizeof *o->lines ||
        !tmi_block_alloc_dirty(&o->block, most * sizeof *o->lines))
        return skimmer_lacks_memory(s);
    o->lines = o->block.bytes;
    o->files = tmi_calloc(s->most_files, sizeof *o->files);
    if (!o->files || !tmi_names_init(&s->files, &s->place->key, o->files, sizeof *o->files, 16))
        return skimmer_lacks_memory(s);
    return true;
}

/* Sorts the files by name, as shard_index.c does, and records where each one went. */
static bool order_files(skimmer *s) {
    tmi_outline *o = s->outline;
    if (o->file_count > TMI_MOST_SHARDS)
        return false;
    o->place_of = tmi_calloc(o->file_count, sizeof *o->place_of);
    if (!o->place_of)
        return skimmer_lacks_memory(s);
    qsort(o->files, o->file_count, sizeof *o->files, tmi_by_file_name);
    for (size_t i = 0; i < o->file_count; i++)
        o->place_of[o->files[i].number] = (uint32_t)i;
    return true;
}

tenmap_status tmi_index_quick(tmi_outline *outline, const tmi_place *place, const char *text,
                              size_t length, bool *done, tenmap_error *error) {
    skimmer s = {.at = text,
                 .end = text + length,
                 .outline = outline,
                 .place = place,
                 .file = text,
                 .file_len = length}; /* longer than any name: the first line has no previous one */
    *outline = (tmi_outline){.count = 0};
    *done = length < UINT32_MAX && take_outline(&s, length) && skim_all(&s) && order_files(&s);
    tmi_names_free(&s.files);
    if (*done)
        return TENMAP_OK;
    tmi_outline_free(outline);
    return s.out_of_memory ? tmi_fail_memory(error, length, "the index") : TENMAP_OK;
}

void tmi_outline_free(tmi_outline *outline) {
    tmi_block_free(&outline->block);
    free(outline->files);
    free(outline->place_of);
    *outline = (tmi_outline){.count = 0};
}
