/*
 * Parses the index of a sharded model: {"metadata": {...}, "weight_map": {tensor name: file name}}.
 * It records which tensor is in which file; unknown fields are skipped. Works on bytes in memory
 * and does no I/O.
 */
#include "format.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

typedef struct index_parser {
    tmi_json json;
    tmi_index *index;
    const tmi_place *place;
    tenmap_error *error;
    tenmap_status failed;
    bool has_map, left_out; /* left_out: a listing was reported and not added */
    /* A server's error message in place of the index; bytes is NULL if there is none. */
    tmi_text said;
    tmi_text *files; /* of each listing, until files are numbered */
    size_t file_capacity;
} index_parser;

/*
 * JSON text begins with a brace and contains no zero byte. The length field of any SafeTensors file
 * that can be opened contains one: eight bytes without a zero make a number above 2^56.
 */
bool tmi_index_recognize(const unsigned char *start, size_t len, uint64_t size) {
    size_t at = 0;
    if (memchr(start, 0, len < 8 ? len : 8))
        return false;
    while (at < len && tmi_json_is_space((char)start[at]))
        at++;
    return at == len ? len < size : start[at] == '{'; /* or only white space so far */
}

/* Reports what is wrong at json.at, as `problem` or else the reader's own problem. Always false. */
static bool fail_index(index_parser *p, const char *problem) {
    const char *at = p->json.at;
    uint64_t offset = (uint64_t)(at - p->json.text);
    problem = problem ? problem : p->json.problem;
    tmi_quoted found = {"the end of the file"};
    if (at < p->json.end) {
        size_t size = tmi_utf8_char((const unsigned char *)at, (size_t)(p->json.end - at));
        found = tmi_quote(at, size ? size : 1);
    }
    bool show = strncmp(problem, "expected", 8) == 0 || strncmp(problem, "not valid", 9) == 0;
    p->failed = tmi_fail_at(p->error, TENMAP_ERR_FORMAT, 0, offset, "%s: index, byte %llu: %s%s%s",
                            tmi_quote_path(p->place->path).text, (ull)offset, problem,
                            show ? ", found " : "", show ? found.text : "");
    return false;
}

static bool fail_index_memory(index_parser *p, uint64_t bytes) {
    p->failed = tmi_fail_memory(p->error, bytes, "the index");
    return false;
}

/* A rule of the index is broken, but its JSON is valid: a check reports it and goes on. */
static bool report_index(index_parser *p, uint32_t code, const char *tensor) {
    if (!TMI_REPORTS(p->place->report))
        return false;
    tmi_report_failure(p->place->report, code, TENMAP_NO_SHARD, tensor, p->error);
    return true;
}

/* One component of a path: not empty, not "." or "..", and no name that this system reserves. */
static bool is_plain_part(const char *part, size_t len) {
    return len > 0 && !(len == 1 && part[0] == '.') &&
           !(len == 2 && part[0] == '.' && part[1] == '.') && tmi_is_plain_name(part, len);
}

/* A shard's name must not lead out of the index's folder on any system. */
bool tmi_index_safe_name(const char *name, size_t len, uint32_t flags) {
    bool subfolders = tmi_allows(flags, TENMAP_OPEN_SUBFOLDERS);
    size_t start = 0;
    for (size_t i = 0; i <= len; i++) {
        char c = i < len ? name[i] : '/';
        if (c == '\0' || c == '\\' || (c == '/' && i < len && !subfolders))
            return false;
        if (c == '/') {
            if (!is_plain_part(name + start, i - start))
                return false;
            start = i + 1;
        }
    }
    return true;
}

static bool parse_listing(index_parser *p) {
    tmi_index *index = p->index;
    tmi_text name, file;
    if (!tmi_json_string(&p->json, &name, "expected the name of a tensor in quotes") ||
        !tmi_json_expect(&p->json, ':', "expected ':' after the name of a tensor"))
        return fail_index(p, NULL);
    char *file_at = (tmi_json_peek(&p->json), p->json.at);
    if (!tmi_json_string(&p->json, &file, "expected the file of a tensor as a string"))
        return fail_index(p, NULL);
    if (!tmi_index_safe_name(file.bytes, file.len, p->place->flags)) {
        uint64_t offset = (uint64_t)(file_at - p->json.text);
        p->failed =
            tmi_fail_at(p->error, TENMAP_ERR_FORMAT, 0, offset,
                        "%s: index, byte %llu: %s, the file of tensor %s, is not a plain "
                        "file name; shards lie beside their index",
                        tmi_quote_path(p->place->path).text, (ull)offset,
                        tmi_quote(file.bytes, file.len).text, tmi_quote(name.bytes, name.len).text);
        p->left_out = true;
        return report_index(p, TENMAP_FOUND_SHARD_NAME, name.bytes);
    }
    tmi_listing *listings =
        tmi_grow(index->listings, index->listing_count, &index->listing_capacity, sizeof *listings);
    if (!listings)
        return fail_index_memory(p, (uint64_t)index->listing_count * 2 * sizeof *listings);
    index->listings = listings;
    tmi_text *files = tmi_grow(p->files, index->listing_count, &p->file_capacity, sizeof *files);
    if (!files)
        return fail_index_memory(p, (uint64_t)index->listing_count * 2 * sizeof *files);
    p->files = files;
    files[index->listing_count] = file;
    listings[index->listing_count++] = (tmi_listing){name.bytes, name.len, 0, false};
    return true;
}

static bool parse_weight_map(index_parser *p) {
    if (p->has_map)
        return fail_index(p, "weight_map appears twice");
    p->has_map = true;
    if (!tmi_json_expect(&p->json, '{', "expected weight_map as an object of file names"))
        return fail_index(p, NULL);
    if (tmi_json_take(&p->json, '}'))
        return true;
    do
        if (!parse_listing(p))
            return false;
    while (tmi_json_take(&p->json, ','));
    return tmi_json_expect(&p->json, '}', "expected ',' or '}' in weight_map")
               ? true
               : fail_index(p, NULL);
}

/* Keeps a pair of strings from the index's metadata: it may be an alias of a tensor. */
static bool add_pair_of_index(index_parser *p, tmi_text key) {
    tmi_index *index = p->index;
    tmi_text value;
    if (!tmi_json_string(&p->json, &value, "expected a string"))
        return fail_index(p, NULL);
    tenmap_metadata *pairs =
        tmi_grow(index->pairs, index->pair_count, &index->pair_capacity, sizeof *pairs);
    if (!pairs)
        return fail_index_memory(p, (uint64_t)index->pair_count * 2 * sizeof *pairs);
    index->pairs = pairs;
    pairs[index->pair_count++] =
        tmi_metadata_text(p->place, key.bytes, key.len, value.bytes, value.len);
    return true;
}

/*
 * Reads metadata.total_size, if it is a plain integer, and keeps pairs if wanted; skips the rest.
 */
static bool parse_index_metadata(index_parser *p) {
    bool keep = p->place->flags & TENMAP_OPEN_ALIASES;
    tmi_json *json = &p->json;
    tmi_text key = {NULL, 0};
    if (tmi_json_peek(json) != '{')
        return tmi_json_skip(json, 1) ? true : fail_index(p, NULL);
    json->at++;
    if (tmi_json_take(json, '}'))
        return true;
    do {
        if (!tmi_json_string(json, &key, "expected a key in quotes") ||
            !tmi_json_expect(json, ':', "expected ':' after a key"))
            return fail_index(p, NULL);
        if (keep && tmi_json_peek(json) == '"') {
            if (!add_pair_of_index(p, key))
                return false;
            continue;
        }
        char *value = json->at;
        if (key.len == 10 && memcmp(key.bytes, "total_size", 10) == 0)
            p->index->has_total_size = tmi_json_u64(json, &p->index->total_size);
        json->at = value;
        json->problem = NULL;
        if (!tmi_json_skip(json, 2))
            return fail_index(p, NULL);
    } while (tmi_json_take(json, ','));
    return tmi_json_expect(json, '}', "expected ',' or '}'") ? true : fail_index(p, NULL);
}

/* Whether a server's error response has its message under this key. */
static bool is_error_key(tmi_text key) {
    static const char *const keys[] = {"error", "errors", "message", "detail"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (key.len == strlen(keys[i]) && memcmp(key.bytes, keys[i], key.len) == 0)
            return true;
    return false;
}

static bool parse_index_member(index_parser *p) {
    tmi_text key = {NULL, 0};
    if (!tmi_json_string(&p->json, &key, "expected a key in quotes") ||
        !tmi_json_expect(&p->json, ':', "expected ':' after a key"))
        return fail_index(p, NULL);
    if (key.len == 10 && memcmp(key.bytes, "weight_map", 10) == 0)
        return parse_weight_map(p);
    if (key.len == 8 && memcmp(key.bytes, "metadata", 8) == 0)
        return parse_index_metadata(p);
    if (!p->said.bytes && is_error_key(key) && tmi_json_peek(&p->json) == '"')
        return tmi_json_string(&p->json, &p->said, "expected a string") ? true
                                                                        : fail_index(p, NULL);
    return tmi_json_skip(&p->json, 1) ? true : fail_index(p, NULL);
}

/* The text is valid JSON but not an index. Always false. */
static bool fail_no_index(index_parser *p) {
    tmi_quoted path = tmi_quote_path(p->place->path);
    if (p->has_map)
        p->failed = tmi_fail(p->error, TENMAP_ERR_FORMAT,
                             "%s: the index's weight_map is empty: it names no shard", path.text);
    else if (p->said.bytes)
        p->failed =
            tmi_remedy(p->error, TENMAP_REMEDY_FETCH_AGAIN,
                       tmi_fail(p->error, TENMAP_ERR_FORMAT, "%s: " TMI_SERVER_ERROR "; it says %s",
                                path.text, tmi_quote(p->said.bytes, p->said.len).text));
    else
        p->failed =
            tmi_fail(p->error, TENMAP_ERR_FORMAT,
                     "%s: this is JSON text without a weight_map, so it is not the index of "
                     "a model",
                     path.text);
    return false;
}

static bool parse_index_top(index_parser *p) {
    tmi_json *json = &p->json;
    if (tmi_json_peek(json) == '\0' && json->at == json->end) {
        p->failed = tmi_remedy(p->error, TENMAP_REMEDY_FETCH_AGAIN,
                               tmi_fail(p->error, TENMAP_ERR_FORMAT, "%s: " TMI_ONLY_BLANKS,
                                        tmi_quote_path(p->place->path).text));
        return false;
    }
    if (!tmi_json_expect(json, '{', "expected the index to be a JSON object"))
        return fail_index(p, NULL);
    if (!tmi_json_take(json, '}')) {
        do
            if (!parse_index_member(p))
                return false;
        while (tmi_json_take(json, ','));
        if (!tmi_json_expect(json, '}', "expected ',' or '}' after a field of the index"))
            return fail_index(p, NULL);
    }
    if (tmi_json_peek(json) != '\0' || json->at != json->end)
        return fail_index(p, "expected nothing but white space after the index's object");
    return p->has_map && p->index->listing_count > 0 ? true : fail_no_index(p);
}

/* Rejects two lines for one tensor: they could name two files. */
static bool index_listings(index_parser *p) {
    tmi_index *index = p->index;
    if (!tmi_names_init(&index->names, &p->place->key, index->listings, sizeof *index->listings,
                        index->listing_count))
        return fail_index_memory(p, (uint64_t)index->listing_count * 16);
    for (size_t i = 0; i < index->listing_count; i++) {
        const tmi_listing *l = &index->listings[i];
        size_t twin =
            tmi_names_put(&index->names, i, tmi_hash(&p->place->key, l->name, l->name_len));
        if (twin == TMI_NONE)
            continue;
        uint64_t offset = (uint64_t)(l->name - p->json.text) - 1;
        p->failed = tmi_fail_at(p->error, TENMAP_ERR_FORMAT, 0, offset,
                                "%s: index, byte %llu: tensor %s appears twice in weight_map; the "
                                "other is at byte %llu",
                                tmi_quote_path(p->place->path).text, (ull)offset,
                                tmi_quote(l->name, l->name_len).text,
                                (ull)(index->listings[twin].name - p->json.text) - 1);
        if (!report_index(p, TENMAP_FOUND_DUPLICATE_NAME, l->name))
            return false;
    }
    return true;
}

int tmi_by_file_name(const void *a, const void *b) {
    const tmi_listed_file *x = a, *y = b;
    size_t shorter = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, shorter);
    return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* Builds the list of distinct files, sorted by name, and each listing's number in it. */
static bool number_files(index_parser *p) {
    tmi_index *index = p->index;
    tmi_names seen = {.slots = NULL};
    index->files = tmi_calloc(index->listing_count, sizeof *index->files);
    if (!index->files || !tmi_names_init(&seen, &p->place->key, index->files, sizeof *index->files,
                                         index->listing_count))
        return fail_index_memory(p, (uint64_t)index->listing_count * sizeof *index->files);
    for (size_t i = 0; i < index->listing_count; i++) {
        tmi_text file = p->files[i];
        uint64_t hash = tmi_hash(&p->place->key, file.bytes, file.len);
        index->files[index->file_count] = (tmi_listed_file){file.bytes, file.len};
        if (tmi_names_put(&seen, index->file_count, hash) == TMI_NONE)
            index->file_count++;
    }
    tmi_names_free(&seen);
    if (index->file_count > TMI_MOST_SHARDS) {
        p->failed = tmi_fail(p->error, TENMAP_ERR_LIMIT,
                             "%s: the index names %llu files, over the limit of %d shards",
                             tmi_quote_path(p->place->path).text, (ull)index->file_count,
                             (int)TMI_MOST_SHARDS);
        return false;
    }
    qsort(index->files, index->file_count, sizeof *index->files, tmi_by_file_name);
    for (size_t i = 0; i < index->listing_count; i++) {
        tmi_listed_file key = {p->files[i].bytes, p->files[i].len};
        if (i > 0 && tmi_by_file_name(&key, &index->files[index->listings[i - 1].file]) == 0) {
            index->listings[i].file = index->listings[i - 1].file;
            continue;
        }
        const tmi_listed_file *found =
            bsearch(&key, index->files, index->file_count, sizeof key, tmi_by_file_name);
        index->listings[i].file = (size_t)(found - index->files);
    }
    return true;
}

tenmap_status tmi_index_parse(tmi_index *index, const tmi_place *place, tmi_block text,
                              size_t length, tenmap_error *error) {
    char *bytes = text.bytes;
    index_parser p = {.json = {bytes, bytes, bytes + length, NULL, false},
                      .index = index,
                      .place = place,
                      .error = error,
                      .failed = TENMAP_ERR_FORMAT};
    *index = (tmi_index){.text = text};
    p.json.at += tmi_utf8_valid(bytes, length);
    bool good = p.json.at == p.json.end;
    if (!good)
        fail_index(&p, "not valid UTF-8");
    p.json.at = bytes;
    good = good && parse_index_top(&p) && index_listings(&p) && number_files(&p);
    free(p.files);
    bool all_left_out = p.left_out && index->listing_count == 0;
    if (!good && p.failed == TENMAP_ERR_FORMAT && !all_left_out)
        report_index(&p, TENMAP_FOUND_INDEX, NULL);
    if (!good)
        tmi_index_free(index);
    return good ? TENMAP_OK : p.failed;
}

void tmi_index_free(tmi_index *index) {
    tmi_names_free(&index->names);
    free(index->listings);
    free(index->files);
    free(index->tensors);
    free(index->pairs);
    tmi_block_free(&index->text);
    *index = (tmi_index){.listing_count = 0};
}
