/*
 * The writer: the caller declares tensors and metadata, then supplies bytes in any order from any
 * thread; at commit the file appears complete or not at all.
 */
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_ALIGNMENT = 2 << 20 };

struct tenmap_writer {
    pthread_mutex_t lock; /* guards everything below except the file's bytes */
    tmi_atomic_file target;
    tenmap_writer_options options;
    tmi_hash_key key;
    tmi_planned *tensors;
    size_t count, capacity;
    tmi_names names;
    tmi_pair *pairs;
    size_t pair_count, pair_capacity;
    tmi_names pair_names;
    uint64_t declared;   /* bytes of all tensors, and of the padding behind each */
    bool laid_out;       /* the header is written and nothing more can be declared */
    uint64_t data_start; /* file offset of the data */
    tenmap_error failed; /* the first failure that spoiled the file, which is then never saved */
};

#define SHOWN(writer) tmi_quote_path((writer)->target.location.shown).text
/* "path": tensor "name", as most errors here begin. */
#define FAIL_WRITE(error, status, writer, t, format, ...)                                          \
    tmi_fail(error, status, "%s: tensor %s: " format, SHOWN(writer),                               \
             tmi_quote((t)->name, (t)->name_len).text, __VA_ARGS__)

/* Creating and freeing. */

static tenmap_status init_writer_options(const tenmap_writer_options *given,
                                         tenmap_writer_options *out, tenmap_error *error) {
    static const tmi_options_kind kind = {"tenmap_writer_options",
                                          "TENMAP_WRITER_OPTIONS_INIT",
                                          sizeof(tenmap_writer_options),
                                          sizeof(tenmap_writer_options),
                                          offsetof(tenmap_writer_options, flags),
                                          TENMAP_WRITER_KEEP_ORDER | TENMAP_WRITER_FOLLOW_LINKS,
                                          0};
    tenmap_status status = tmi_options_copy(&kind, given, out, error);
    if (status != TENMAP_OK)
        return status;
    if (out->format > TENMAP_FORMAT_GGUF)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.format is %u; it must be TENMAP_FORMAT_SAFETENSORS (0) or "
                        "TENMAP_FORMAT_GGUF (1)",
                        (unsigned)out->format);
    if (!out->data_alignment)
        out->data_alignment = out->format == TENMAP_FORMAT_GGUF ? 32 : 8;
    uint32_t alignment = out->data_alignment;
    if (alignment > LARGEST_ALIGNMENT || (alignment & (alignment - 1)))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.data_alignment is %u; it must be a power of two up to %u",
                        (unsigned)alignment, (unsigned)LARGEST_ALIGNMENT);
    if (alignment < 8)
        out->data_alignment = 8;
    if (out->header_slack > TMI_WRITTEN_HEADER_LIMIT)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.header_slack is %u, over the %u that a header may have",
                        (unsigned)out->header_slack, (unsigned)TMI_WRITTEN_HEADER_LIMIT);
    return TENMAP_OK;
}

static void writer_free(tenmap_writer *writer) {
    for (size_t i = 0; i < writer->count; i++) {
        free(writer->tensors[i].name);
        free(writer->tensors[i].shape);
        free(writer->tensors[i].spans);
    }
    for (size_t i = 0; i < writer->pair_count; i++) {
        free(writer->pairs[i].key);
        free(writer->pairs[i].value);
    }
    free(writer->tensors);
    free(writer->pairs);
    tmi_names_free(&writer->names);
    tmi_names_free(&writer->pair_names);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
}

static tenmap_writer *new_writer(const tenmap_writer_options *options) {
    tenmap_writer *writer = tmi_calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    pthread_mutex_init(&writer->lock, NULL);
    writer->target = TMI_NO_ATOMIC_FILE;
    writer->options = *options;
    writer->key = tmi_hash_key_new();
    return writer;
}

tenmap_writer *tmi_writer_dry(const char *path, const tenmap_writer_options *given,
                              tenmap_error *error) {
    tenmap_writer_options options;
    if (init_writer_options(given, &options, error) != TENMAP_OK)
        return NULL;
    tenmap_writer *writer = new_writer(&options);
    if (writer)
        writer->target.location.shown = tmi_copy_text(path, strlen(path));
    if (writer && writer->target.location.shown)
        return writer;
    tenmap_writer_abort(writer);
    tmi_fail_memory(error, sizeof *writer, "the writer");
    return NULL;
}

/* Creates it at a path or, if folder is not NULL, at a name in that folder. */
static tenmap_status create_writer(const tmi_folder *folder, const char *name, const char *path,
                                   const tenmap_writer_options *given, tenmap_writer **out,
                                   tenmap_error *error) {
    tenmap_writer_options options;
    tenmap_status status = init_writer_options(given, &options, error);
    if (status != TENMAP_OK)
        return status;
    tenmap_writer *writer = new_writer(&options);
    if (!writer)
        return tmi_fail_memory(error, sizeof *writer, "the writer");
    bool follow = options.flags & TENMAP_WRITER_FOLLOW_LINKS;
    int failed = folder ? tmi_atomic_file_begin_in(&writer->target, folder, name, path, -1)
                        : tmi_atomic_file_begin(&writer->target, path, follow);
    if (failed) {
        writer_free(writer);
        if (failed == TMI_NOT_A_FILE)
            return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                            "%s: it is not a regular file but a device, a pipe or a socket, so it "
                            "is not replaced",
                            tmi_quote_path(path).text);
        return tmi_fail_os(error, failed, "%s: cannot create a file there",
                           tmi_quote_path(path).text);
    }
    *out = writer;
    return TENMAP_OK;
}

tenmap_status tenmap_writer_create(const char *path, const tenmap_writer_options *options,
                                   tenmap_writer **out, tenmap_error *error) {
    if (!out)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the writer's address (out) is NULL");
    *out = NULL;
    if (!path)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the path is NULL");
    return create_writer(NULL, NULL, path, options, out, error);
}

tenmap_status tmi_writer_create_in(const tmi_folder *folder, const char *name, const char *shown,
                                   const tenmap_writer_options *options, tenmap_writer **out,
                                   tenmap_error *error) {
    return create_writer(folder, name, shown, options, out, error);
}

void tenmap_writer_abort(tenmap_writer *writer) {
    if (!writer)
        return;
    tmi_atomic_file_discard(&writer->target);
    writer_free(writer);
}

/* Declaring. */

/* A growing array of records that begin with their names. */
typedef struct named_records {
    const void *items;
    size_t stride, entered; /* the first `entered` records are in the index of names */
} named_records;

/*
 * Enters the next record, whose name has this hash. *twin is an earlier record of the same name, or
 * TMI_NONE. Returns false if memory runs out.
 */
static bool enter_unique(tmi_names *names, const tmi_hash_key *key, named_records all,
                         uint64_t hash, size_t *twin) {
    if (!names->slots && !tmi_names_init(names, key, all.items, all.stride, 64))
        return false;
    names->records = all.items; /* the array may have moved */
    if ((all.entered + 1) * 2 > names->mask + 1 && !tmi_names_double(names, all.entered))
        return false;
    *twin = tmi_names_put(names, all.entered, hash);
    return true;
}

tenmap_status tmi_writer_check_text(const tenmap_writer *writer, const char *what, const char *text,
                                    size_t *len, tenmap_error *error) {
    if (!text)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: %s is NULL", SHOWN(writer), what);
    if (*len == TENMAP_CSTR)
        *len = strlen(text);
    size_t valid = tmi_utf8_valid(text, *len);
    if (valid != *len)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: %s %s is not valid UTF-8 at its byte %llu",
                        SHOWN(writer), what, tmi_quote(text, *len).text, (ull)valid);
    return TENMAP_OK;
}

static tenmap_status check_open(const tenmap_writer *writer, tenmap_error *error) {
    if (!writer->laid_out)
        return TENMAP_OK;
    return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                    "%s: nothing can be added once bytes have been written, since the header lies "
                    "before them",
                    SHOWN(writer));
}

static tenmap_status add_pair(tenmap_writer *writer, tmi_pair pair, tenmap_error *error) {
    size_t twin, i = writer->pair_count;
    tmi_pair *pairs = tmi_grow(writer->pairs, i, &writer->pair_capacity, sizeof *pairs);
    if (!pairs)
        return tmi_fail_memory(error, i * sizeof *pairs, "the metadata");
    writer->pairs = pairs;
    pairs[i] = pair;
    if (!enter_unique(&writer->pair_names, &writer->key, (named_records){pairs, sizeof *pairs, i},
                      tmi_hash(&writer->key, pair.key, pair.key_len), &twin))
        return tmi_fail_memory(error, i * sizeof(tmi_slot), "the metadata");
    if (twin != TMI_NONE)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: metadata key %s appears twice",
                        SHOWN(writer), tmi_quote(pair.key, pair.key_len).text);
    writer->pair_count++;
    return TENMAP_OK;
}

tenmap_status tmi_writer_add_pair(tenmap_writer *writer, const tmi_pair *pair,
                                  tenmap_error *error) {
    pthread_mutex_lock(&writer->lock);
    tenmap_status status = check_open(writer, error);
    if (status == TENMAP_OK)
        status = add_pair(writer, *pair, error);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

const tenmap_writer_options *tmi_writer_options(const tenmap_writer *writer) {
    return &writer->options;
}

static bool writes_gguf(const tenmap_writer *writer) {
    return writer->options.format == TENMAP_FORMAT_GGUF;
}

static tenmap_status check_dtype(const tenmap_writer *writer, const tmi_planned *t,
                                 tenmap_error *error) {
    bool blocks = tmi_dtype_blocks(t->dtype);
    char text[TMI_REFUSAL_ROOM];
    const char *why;
    if (t->dtype == TENMAP_AS_STORED || (t->dtype >= TMI_DTYPE_COUNT && !blocks))
        return FAIL_WRITE(error, TENMAP_ERR_ARGUMENT, writer, t,
                          "its dtype is %u (%s), which cannot be written", (unsigned)t->dtype,
                          tenmap_dtype_name(t->dtype));
    if (blocks && !writes_gguf(writer))
        return FAIL_WRITE(error, TENMAP_ERR_ARGUMENT, writer, t,
                          "its dtype is %u (%s), which cannot be written to a SafeTensors file; "
                          "GGUF files (TENMAP_FORMAT_GGUF) hold it",
                          (unsigned)t->dtype, tenmap_dtype_name(t->dtype));
    why = writes_gguf(writer) ? tmi_gguf_refuses(t, text) : NULL;
    return why ? FAIL_WRITE(error, TENMAP_ERR_UNSUPPORTED, writer, t, "%s", why) : TENMAP_OK;
}

/* The bytes of whole rows, each of which is whole blocks in a block dtype. */
static int size_of_elements(tenmap_dtype dtype, uint64_t n, uint64_t *bytes) {
    if (!tmi_dtype_blocks(dtype))
        return tmi_whole_bytes(dtype, n, bytes);
    return tmi_dtype_bytes(dtype, n, bytes) ? TMI_BYTES_WHOLE : TMI_BYTES_OVERFLOW;
}

/* Computes elements and bytes of a shape, by the rules that readers will check. */
static tenmap_status size_up(const tenmap_writer *writer, tmi_planned *t, tenmap_error *error) {
    tenmap_status status = check_dtype(writer, t, error);
    if (status != TENMAP_OK)
        return status;
    uint64_t n = 1, bytes = 0;
    bool fits = true;
    for (uint32_t d = 0; d < t->rank; d++) {
        fits = fits && (t->shape[d] == 0 || n <= UINT64_MAX / t->shape[d]);
        n *= t->shape[d];
    }
    int size = size_of_elements(t->dtype, n, &bytes);
    if (!fits || size == TMI_BYTES_OVERFLOW)
        return FAIL_WRITE(error, TENMAP_ERR_ARGUMENT, writer, t,
                          "its shape of %s has more elements than 64 bits can count",
                          tmi_count(t->rank, "dimension").text);
    if (size == TMI_BYTES_PART)
        return FAIL_WRITE(error, TENMAP_ERR_ARGUMENT, writer, t,
                          "%llu elements of %s are not a whole number of bytes", (ull)n,
                          tmi_dtypes[t->dtype].name);
    t->nelems = n;
    t->nbytes = bytes;
    uint64_t room = INT64_MAX / 8 - writer->declared; /* add_planned keeps it from wrapping */
    if (t->nbytes > room || writer->options.data_alignment > room - t->nbytes)
        return FAIL_WRITE(error, TENMAP_ERR_LIMIT, writer, t,
                          "with its %llu bytes the file would be too large for any system",
                          (ull)t->nbytes);
    return TENMAP_OK;
}

static tenmap_status add_planned(tenmap_writer *writer, tmi_planned planned, size_t *id,
                                 tenmap_error *error) {
    size_t twin, i = writer->count;
    tenmap_status status = size_up(writer, &planned, error);
    if (status != TENMAP_OK)
        return status;
    tmi_planned *tensors = tmi_grow(writer->tensors, i, &writer->capacity, sizeof *tensors);
    if (!tensors)
        return tmi_fail_memory(error, i * sizeof *tensors, "the list of tensors");
    writer->tensors = tensors;
    tensors[i] = planned;
    if (i >= UINT32_MAX / 4)
        return tmi_fail(error, TENMAP_ERR_LIMIT, "%s: too many tensors", SHOWN(writer));
    if (!enter_unique(&writer->names, &writer->key, (named_records){tensors, sizeof *tensors, i},
                      tmi_hash(&writer->key, planned.name, planned.name_len), &twin))
        return tmi_fail_memory(error, i * sizeof(tmi_slot), "the list of tensors");
    if (twin != TMI_NONE)
        return FAIL_WRITE(error, TENMAP_ERR_ARGUMENT, writer, &planned, "%s",
                          "the name appears twice");
    writer->declared += planned.nbytes + (writes_gguf(writer) ? writer->options.data_alignment : 0);
    writer->count++;
    if (id)
        *id = i;
    return TENMAP_OK;
}

tenmap_status tenmap_writer_add(tenmap_writer *writer, const char *name, size_t name_len,
                                tenmap_dtype dtype, const uint64_t *shape, uint32_t rank,
                                size_t *id, tenmap_error *error) {
    if (!writer || (rank && !shape))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s is NULL", writer ? "shape" : "writer");
    tenmap_status status = tmi_writer_check_text(writer, "tensor name", name, &name_len, error);
    if (status != TENMAP_OK)
        return status;
    if (name_len == 12 && memcmp(name, "__metadata__", 12) == 0)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: a tensor cannot be called \"__metadata__\": the format reserves that "
                        "name for metadata",
                        SHOWN(writer));
    tmi_planned planned = {.name = tmi_copy_text(name, name_len),
                           .name_len = name_len,
                           .dtype = dtype,
                           .rank = rank,
                           .shape = tmi_calloc(rank, sizeof *shape)};
    pthread_mutex_lock(&writer->lock);
    if (!planned.name || !planned.shape) {
        status = tmi_fail_memory(error, name_len, "a tensor");
    } else {
        if (rank)
            memcpy(planned.shape, shape, rank * sizeof *shape);
        status = check_open(writer, error);
    }
    if (status == TENMAP_OK)
        status = add_planned(writer, planned, id, error);
    pthread_mutex_unlock(&writer->lock);
    if (status != TENMAP_OK) {
        free(planned.name);
        free(planned.shape);
    }
    return status;
}

/* Layout: writes the header and reserves space for all bytes. Callers hold the lock. */

static tenmap_status spoil(tenmap_writer *writer, const tenmap_error *why) {
    if (writer->failed.status == TENMAP_OK)
        writer->failed = *why;
    return why->status;
}

static tenmap_status repeat_failure(const tenmap_writer *writer, tenmap_error *error) {
    if (error)
        *error = writer->failed;
    return writer->failed.status;
}

static tenmap_status write_head(tenmap_writer *writer, const tmi_buffer *head, uint64_t data) {
    tenmap_error why;
    int fd = writer->target.fd;
    int failed = tmi_fd_reserve(fd, head->len + data);
    if (failed) {
        tmi_fail_os(&why, failed, "%s: cannot reserve %llu bytes on the disk", SHOWN(writer),
                    (ull)head->len + data);
        return spoil(writer, &why);
    }
    failed = tmi_fd_write(fd, 0, head->bytes, head->len);
    if (failed) {
        tmi_fail_os(&why, failed, "%s: cannot write the header", SHOWN(writer));
        return spoil(writer, &why);
    }
    writer->data_start = head->len;
    writer->laid_out = true;
    return TENMAP_OK;
}

/* Builds the file's bytes before the data if it has only these items. Free head->bytes. */
static tenmap_status build_head(const tenmap_writer *writer, tmi_head_items items, tmi_buffer *head,
                                uint64_t *data_bytes, tenmap_error *error) {
    size_t count = items.tensor_count, pairs = writer->pair_count - items.first_pair;
    tmi_layout layout = {.tensors = count ? writer->tensors + items.first_tensor : NULL,
                         .tensor_count = count,
                         .pairs = pairs ? writer->pairs + items.first_pair : NULL,
                         .pair_count = pairs,
                         .alignment = writer->options.data_alignment,
                         .slack = writer->options.header_slack,
                         .keep_order = writer->options.flags & TENMAP_WRITER_KEEP_ORDER};
    if (!(writes_gguf(writer) ? tmi_gguf_layout_build(&layout, head)
                              : tmi_layout_build(&layout, head))) {
        (void)tmi_fail_memory(error, count * 100, "the header");
        return TENMAP_ERR_MEMORY;
    }
    *data_bytes = layout.data_bytes;
    uint64_t length = writes_gguf(writer) ? head->len : head->len - 8; /* as readers count */
    if (length <= TMI_WRITTEN_HEADER_LIMIT)
        return TENMAP_OK;
    free(head->bytes);
    (void)tmi_fail(error, TENMAP_ERR_LIMIT,
                   "%s: the header would have %llu bytes, over the %llu that readers accept",
                   SHOWN(writer), (ull)length, (ull)TMI_WRITTEN_HEADER_LIMIT);
    return TENMAP_ERR_LIMIT;
}

tenmap_status tmi_writer_check_head(tenmap_writer *dry, tmi_head_items items, tenmap_error *error) {
    tmi_buffer head;
    uint64_t data_bytes;
    tenmap_status status = build_head(dry, items, &head, &data_bytes, error);
    if (status == TENMAP_OK)
        free(head.bytes);
    return status;
}

static tenmap_status lay_out(tenmap_writer *writer, tenmap_error *error) {
    tmi_buffer head;
    uint64_t data_bytes;
    if (writer->failed.status != TENMAP_OK)
        return repeat_failure(writer, error);
    if (writer->laid_out)
        return TENMAP_OK;
    const tmi_head_items all = {.tensor_count = writer->count};
    tenmap_status status = build_head(writer, all, &head, &data_bytes, error);
    if (status != TENMAP_OK)
        return status;
    if (write_head(writer, &head, data_bytes) != TENMAP_OK)
        status = repeat_failure(writer, error);
    free(head.bytes);
    return status;
}

/* Spans: which bytes of a tensor have been written. */

/* The position in the list for a span that begins at `begin`. */
static size_t span_place(const tmi_planned *t, uint64_t begin) {
    size_t low = 0, high = t->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->spans[middle].begin < begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool span_insert(tmi_planned *t, size_t at, tmi_written span) {
    if (t->span_count == t->span_capacity) {
        size_t wanted = t->span_capacity ? t->span_capacity * 2 : 1; /* most tensors need 1 */
        if (wanted > SIZE_MAX / sizeof span)
            return false;
        tmi_written *moved = realloc(t->spans, wanted * sizeof span);
        if (!moved)
            return false;
        t->spans = moved;
        t->span_capacity = wanted;
    }
    memmove(t->spans + at + 1, t->spans + at, (t->span_count - at) * sizeof span);
    t->spans[at] = span;
    t->span_count++;
    return true;
}

/*
 * Records [begin, end), which may touch existing spans but not overlap them. The caller holds the
 * lock.
 */
static tenmap_status span_add(const tenmap_writer *writer, tmi_planned *t, uint64_t begin,
                              uint64_t end, tenmap_error *error) {
    size_t at = span_place(t, begin);
    bool has_before = at > 0, has_behind = at < t->span_count;
    if ((has_before && t->spans[at - 1].end > begin) || (has_behind && t->spans[at].begin < end))
        return FAIL_WRITE(error, TENMAP_ERR_ARGUMENT, writer, t,
                          "bytes [%llu, %llu) overlap bytes that were written before", (ull)begin,
                          (ull)end);
    bool joins_before = has_before && t->spans[at - 1].end == begin;
    bool joins_behind = has_behind && t->spans[at].begin == end;
    if (joins_before && joins_behind) {
        t->spans[at - 1].end = t->spans[at].end;
        memmove(t->spans + at, t->spans + at + 1, (t->span_count - at - 1) * sizeof *t->spans);
        t->span_count--;
    } else if (joins_before) {
        t->spans[at - 1].end = end;
    } else if (joins_behind) {
        t->spans[at].begin = begin;
    } else if (!span_insert(t, at, (tmi_written){begin, end})) {
        return tmi_fail_memory(error, t->span_capacity * 2 * sizeof *t->spans,
                               "the list of writes");
    }
    return TENMAP_OK;
}

/* The caller holds the lock. */
static tenmap_status claim_bytes(tenmap_writer *writer, size_t id, uint64_t offset, uint64_t bytes,
                                 uint64_t *at, tenmap_error *error) {
    if (id >= writer->count)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: tensor number %llu is out of range: there are %llu", SHOWN(writer),
                        (ull)id, (ull)writer->count);
    tmi_planned *t = &writer->tensors[id];
    if (offset > t->nbytes || bytes > t->nbytes - offset)
        return FAIL_WRITE(error, TENMAP_ERR_RANGE, writer, t,
                          "it has %llu bytes; %llu bytes from %llu on are out of range",
                          (ull)t->nbytes, (ull)bytes, (ull)offset);
    tenmap_status status = lay_out(writer, error);
    if (status == TENMAP_OK && bytes > 0)
        status = span_add(writer, t, offset, offset + bytes, error);
    if (status == TENMAP_OK)
        *at = writer->data_start + t->begin + offset;
    return status;
}

tenmap_status tmi_writer_claim(tenmap_writer *writer, size_t id, uint64_t offset, uint64_t bytes,
                               uint64_t *at, tenmap_error *error) {
    pthread_mutex_lock(&writer->lock);
    tenmap_status status = claim_bytes(writer, id, offset, bytes, at, error);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

tenmap_status tmi_writer_spoil(tenmap_writer *writer, size_t id, int failed, tenmap_error *error) {
    tenmap_error why;
    pthread_mutex_lock(&writer->lock);
    const tmi_planned *t = &writer->tensors[id];
    tmi_fail_os(&why, failed, "%s: tensor %s: cannot write", SHOWN(writer),
                tmi_quote(t->name, t->name_len).text);
    tenmap_status status = spoil(writer, &why);
    pthread_mutex_unlock(&writer->lock);
    if (error)
        *error = why;
    return status;
}

tenmap_status tmi_writer_spoil_with(tenmap_writer *writer, const tenmap_error *why,
                                    tenmap_error *error) {
    pthread_mutex_lock(&writer->lock);
    tenmap_status status = spoil(writer, why);
    pthread_mutex_unlock(&writer->lock);
    if (error)
        *error = *why;
    return status;
}

tenmap_status tenmap_writer_write(tenmap_writer *writer, size_t id, uint64_t offset,
                                  const void *data, size_t bytes, tenmap_error *error) {
    uint64_t at = 0;
    if (!writer || (!data && bytes))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s is NULL", writer ? "data" : "writer");
    tenmap_status status = tmi_writer_claim(writer, id, offset, bytes, &at, error);
    if (status != TENMAP_OK)
        return status;
    int failed = tmi_fd_write(writer->target.fd, at, data, bytes);
    return failed ? tmi_writer_spoil(writer, id, failed, error) : TENMAP_OK;
}

int tmi_writer_fd(const tenmap_writer *writer) {
    return writer->target.fd;
}

bool tmi_writer_tensor(tenmap_writer *writer, size_t id, tmi_planned *out) {
    pthread_mutex_lock(&writer->lock);
    bool known = id < writer->count;
    *out = known ? writer->tensors[id] : (tmi_planned){.name = NULL};
    pthread_mutex_unlock(&writer->lock);
    return known;
}

tmi_quoted tmi_writer_shown(const tenmap_writer *writer) {
    return tmi_quote_path(writer->target.location.shown);
}

/* Committing. */

static tenmap_status check_complete(const tenmap_writer *writer, tenmap_error *error) {
    tmi_list names = {.used = 0};
    uint64_t missing = 0;
    for (size_t i = 0; i < writer->count; i++) {
        const tmi_planned *t = &writer->tensors[i];
        uint64_t there = 0;
        for (size_t s = 0; s < t->span_count; s++)
            there += t->spans[s].end - t->spans[s].begin;
        missing += t->nbytes - there;
        if (there != t->nbytes)
            tmi_list_add(&names, t->name, t->name_len);
    }
    if (names.count == 0)
        return TENMAP_OK;
    return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: %s of %s were never written: %s",
                    SHOWN(writer), tmi_count(missing, "byte").text,
                    tmi_count(names.count, "tensor").text, tmi_list_end(&names));
}

tenmap_status tmi_writer_commit(tenmap_writer *writer, bool *replaced, tenmap_error *error) {
    *replaced = false;
    tenmap_status status = writer->failed.status == TENMAP_OK ? check_complete(writer, error)
                                                              : repeat_failure(writer, error);
    if (status == TENMAP_OK)
        status = lay_out(writer, error);
    if (status != TENMAP_OK) {
        tenmap_writer_abort(writer);
        return status;
    }
    tmi_quoted path = tmi_quote_path(writer->target.location.shown);
    int failed = tmi_atomic_file_commit(&writer->target, replaced);
    writer_free(writer);
    if (!failed)
        return TENMAP_OK;
    return *replaced ? tmi_fail_os(error, failed,
                                   "%s: replaced, durability unknown: the new file is there, but "
                                   "its folder could not be synced",
                                   path.text)
                     : tmi_fail_os(error, failed,
                                   "%s: cannot put the new file in place; nothing "
                                   "was changed",
                                   path.text);
}

tenmap_status tenmap_writer_commit(tenmap_writer *writer, tenmap_error *error) {
    bool replaced;
    if (!writer)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the writer is NULL");
    return tmi_writer_commit(writer, &replaced, error);
}

#endif
