/* Opens one file of a model: reads, maps and parses its header. */
#include "model.h"
#include "../format/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reports that the system refused to map the file, and what to do instead. */
static tenmap_status fail_map(const tmi_shard *shard, int os_error, tenmap_error *error) {
    if (os_error != ENOMEM)
        return tmi_remedy(error, TENMAP_REMEDY_BACKEND_READ,
                          tmi_fail_os(error, os_error,
                                      "%s: cannot map the file (open it to be read, not mapped)",
                                      tmi_quote_path(shard->bytes.shown).text));
    tmi_fail(error, TENMAP_ERR_LIMIT,
             "%s: cannot map %llu bytes: the address space of this process is limited or full "
             "(ulimit -v); open it to be read, not mapped",
             tmi_quote_path(shard->bytes.shown).text, (ull)shard->size);
    if (error)
        error->os_error = os_error;
    return tmi_remedy(error, TENMAP_REMEDY_BACKEND_READ, TENMAP_ERR_LIMIT);
}

tenmap_status tmi_read_text(const tmi_bytes *bytes, uint64_t offset, uint64_t length,
                            const char *what, tmi_block *text, tenmap_error *error) {
    if (length > SIZE_MAX - TMI_JSON_PAD || !tmi_block_alloc(text, (size_t)length + TMI_JSON_PAD))
        return tmi_fail_memory(error, length, what);
    tenmap_status status =
        tmi_bytes_read(bytes, offset, text->bytes, (size_t)length, (tmi_wanted){what, NULL}, error);
    if (status != TENMAP_OK)
        tmi_block_free(text);
    return status;
}

uint64_t tmi_header_limit(const tenmap_options *options) {
    enum { BY_DEFAULT = 100000000 };
    return options->max_header_bytes ? options->max_header_bytes : BY_DEFAULT;
}

/*
 * Headers that change while they are read. An in-place edit (header_journal.c) closes the header
 * first: its length field is 2^64-1 until the text is complete again, and the file's times differ
 * after that. So bytes that were read between two equal length fields, with the same file times
 * before and after, are consistent. Anything else is read again.
 */
enum { LEAST_START = 8 };
enum { MOST_TRIES = 16, LONGEST_NAP = 32 }; /* nap in ms; less than half a second in total */

tenmap_status tmi_shard_again(tmi_shard *shard, tenmap_error *error) {
    if (shard->tries < MOST_TRIES) {
        unsigned nap = 1u << shard->tries++;
        tmi_sleep_ms(nap < LONGEST_NAP ? nap : LONGEST_NAP);
        (void)tmi_file_refresh(&shard->bytes.file);
        return TENMAP_OK;
    }
    bool edited = tmi_file_locked(&shard->bytes.file, shard->path);
    return tmi_remedy(error, TENMAP_REMEDY_TRY_AGAIN,
                      tmi_fail(error, TENMAP_ERR_IO,
                               "%s: another program is %s right now: try again when it is done",
                               tmi_quote_path(shard->bytes.shown).text,
                               edited ? "editing the file's metadata" : "changing the file"));
}

static const tmi_container *container_of(const tmi_shard *shard, const tenmap_options *options,
                                         const tmi_start *start) {
    return tmi_container_of(start->bytes, start->len, shard->size, tmi_header_limit(options));
}

/* Reads the first bytes as they are now. */
static tenmap_status read_start(tmi_shard *shard, const tenmap_options *options, tmi_start *start,
                                tenmap_error *error) {
    const tmi_file *file = &shard->bytes.file;
    if (options->offset > file->size || options->length > file->size - options->offset)
        return tmi_fail(
            error, TENMAP_ERR_RANGE,
            "%s: the file has %llu bytes; a model at offset %llu with length %llu is out of range",
            tmi_quote_path(shard->bytes.shown).text, (ull)file->size, (ull)options->offset,
            (ull)options->length);
    shard->size = options->length ? options->length : file->size - options->offset;
    /*
     * First reads the fewest bytes by which a format is recognized. If none is, reads more, to tell
     * what the file is instead.
     */
    start->len = shard->size < LEAST_START ? (size_t)shard->size : LEAST_START;
    tmi_wanted wanted = {"the header", NULL};
    tenmap_status status =
        tmi_bytes_read(&shard->bytes, options->offset, start->bytes, start->len, wanted, error);
    if (status != TENMAP_OK || container_of(shard, options, start))
        return status;
    start->len = shard->size < TMI_START ? (size_t)shard->size : TMI_START;
    return tmi_bytes_read(&shard->bytes, options->offset, start->bytes, start->len, wanted, error);
}

tenmap_status tmi_shard_start(tmi_shard *shard, const tenmap_options *options, tmi_start *start,
                              tenmap_error *error) {
    bool edited = true; /* an editor holds the lock; once it does not, one more read decides */
    start->len = 0;
    tenmap_status status = tmi_bytes_expect_file(&shard->bytes, error);
    if (status == TENMAP_OK)
        status = read_start(shard, options, start, error);
    while (status == TENMAP_OK && tmi_edit_closed(start->bytes, start->len) && edited) {
        edited = !shard->edited_here && tmi_file_locked(&shard->bytes.file, shard->path);
        if (edited)
            status = tmi_shard_again(shard, error);
        else
            (void)tmi_file_refresh(&shard->bytes.file);
        if (status == TENMAP_OK)
            status = read_start(shard, options, start, error);
    }
    return status;
}

/*
 * Whether all bytes read since tmi_shard_start are consistent. If not, the caller can start over.
 */
static bool is_settled(tmi_shard *shard, const tenmap_options *options, const tmi_start *start) {
    unsigned char now[LEAST_START];
    size_t len = shard->size < LEAST_START ? (size_t)shard->size : LEAST_START;
    if (shard->bytes.io)
        return true; /* it detects changed objects by itself */
    bool same = tmi_bytes_read(&shard->bytes, options->offset, now, len, (tmi_wanted){"", NULL},
                               NULL) == TENMAP_OK &&
                memcmp(now, start->bytes, len) == 0;
    return tmi_file_refresh(&shard->bytes.file) && same; /* the read must come first */
}

static void fill_view(tmi_shard *shard, const tenmap_options *options, const unsigned char *base,
                      uint64_t header_bytes) {
    shard->view = (tenmap_shard){.path = shard->path ? shard->path : "",
                                 .fd = shard->bytes.file.fd,
                                 .base = base,
                                 .size = shard->size,
                                 .header_bytes = header_bytes,
                                 .data_offset = options->offset + shard->header.data_at,
                                 .tensor_count = shard->header.count,
                                 .offset = options->offset,
                                 .format = shard->container->name,
                                 .branch = shard->header.branch,
                                 .other_tensors = shard->header.other_tensors};
    shard->header_limit = tmi_header_limit(options);
}

/* Sources for the quick parser: the file in windows, or the whole text of an object. */
static bool refill_from_file(void *ctx, uint64_t offset, void *dst, size_t size) {
    return tmi_bytes_read(ctx, offset, dst, size, (tmi_wanted){"", NULL}, NULL) == TENMAP_OK;
}

typedef struct whole_text {
    const char *bytes;
    uint64_t at; /* in the file */
} whole_text;

static bool refill_from_text(void *ctx, uint64_t offset, void *dst, size_t size) {
    const whole_text *text = ctx;
    memcpy(dst, text->bytes + (offset - text->at), size);
    return true;
}

/* One attempt to parse the header of a shard. */
typedef struct header_attempt {
    tmi_shard *shard;
    const tenmap_options *options;
    tmi_place *place;
    const tmi_start *start;
    tmi_header_text text;
    bool settled; /* false: the file changed during the attempt */
} header_attempt;

/*
 * Runs the quick parser, if the container has one and this is not a check, which needs to know
 * more.
 */
static tenmap_status parse_quickly(header_attempt *a, bool *done, tenmap_error *error) {
    const tmi_container *container = a->shard->container;
    const tmi_header_text *text = &a->text;
    whole_text whole = {text->block.bytes, a->place->offset + text->at};
    tmi_header_source in_memory = {refill_from_text, &whole};
    tmi_header_source in_file = {refill_from_file, &a->shard->bytes};
    if (!container->quick || a->place->report)
        return TENMAP_OK;
    return container->quick(&a->shard->header, a->place, (size_t)text->length,
                            text->block.bytes ? in_memory : in_file, done, error);
}

/*
 * Parses the header's text, which is read first if the container has not read it. Discards the
 * result if the file changed meanwhile (a->settled is false).
 */
static tenmap_status parse_text(header_attempt *a, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    tmi_shard *shard = a->shard;
    tmi_header_text *text = &a->text;
    tmi_block *block = &text->block;
    bool done = false;
    uint64_t at = a->options->offset + text->at;
    if (shard->bytes.io && !block->bytes) /* a read may be a network round trip: make it one */
        status = tmi_read_text(&shard->bytes, at, text->length, "the header", block, error);
    if (status == TENMAP_OK)
        status = parse_quickly(a, &done, error);
    if (status == TENMAP_OK && !done && !block->bytes)
        status = tmi_read_text(&shard->bytes, at, text->length, "the header", block, error);
    a->settled = status == TENMAP_OK && is_settled(shard, a->options, a->start);
    if (status == TENMAP_OK && a->settled && !done)
        return shard->container->parse(&shard->header, a->place, *block, (size_t)text->length,
                                       error);
    tmi_block_free(block);
    if (!a->settled)
        tmi_header_free(&shard->header);
    return status;
}

/* Reads a range for a container; as tmi_range_read. */
static tenmap_status read_header_range(const void *ctx, uint64_t offset, void *dst, size_t size,
                                       const char *what, tenmap_error *error) {
    return tmi_bytes_read(ctx, offset, dst, size, (tmi_wanted){what, NULL}, error);
}

/* Lets the container find the header. `place` is the attempt's, or a copy that reports nothing. */
static tenmap_status find_header(header_attempt *a, const tmi_container *container,
                                 const tmi_place *place, tenmap_error *error) {
    tmi_header_reader reader = {.place = place,
                                .start = a->start->bytes,
                                .len = a->start->len,
                                .limit = tmi_header_limit(a->options),
                                .read = read_header_range,
                                .ctx = &a->shard->bytes};
    tmi_header_text *text = &a->text;
    *text = (tmi_header_text){.length = 0};
    tenmap_status status = container->find_text(&reader, text, error);
    if (status != TENMAP_OK) {
        tmi_block_free(&text->block);
    } else if (text->block.bytes) {
        memset((char *)text->block.bytes + text->length, 0, TMI_JSON_PAD);
        tmi_block_trim(&text->block, (size_t)text->length + TMI_JSON_PAD);
    }
    return status;
}

/*
 * The same, but only failures count that are not due to a change of the file (a->settled is false).
 * A container may have to read the text to find its end, and a mix of two headers has no valid one.
 * So a check first looks without reporting anything.
 */
static tenmap_status find_settled_header(header_attempt *a, const tmi_container *container,
                                         tenmap_error *error) {
    tmi_place silent = *a->place;
    silent.report = NULL;
    tenmap_status status = find_header(a, container, &silent, error);
    a->settled = status == TENMAP_OK || is_settled(a->shard, a->options, a->start);
    if (!a->settled)
        return TENMAP_OK;
    if (!TMI_REPORTS(a->place->report))
        return status;
    tmi_block_free(&a->text.block);
    return find_header(a, container, a->place, error);
}

static tenmap_status parse_once(header_attempt *a, tenmap_error *error) {
    tmi_shard *shard = a->shard;
    const tenmap_options *options = a->options;
    const tmi_container *container = container_of(shard, options, a->start);
    a->settled = container || is_settled(shard, options, a->start);
    if (!a->settled)
        return TENMAP_OK;
    if (!container)
        container = tmi_container_for_errors();
    tenmap_status status = find_settled_header(a, container, error);
    if (!a->settled)
        return TENMAP_OK;
    if (status != TENMAP_OK) {
        tmi_edit_explain(shard, error);
        return status;
    }
    if (a->text.container)
        container = a->text.container;
    if (options->backend == TENMAP_BACKEND_MAP && !shard->bytes.io) {
        shard->bytes.file.copy_on_write = options->flags & TENMAP_OPEN_PRIVATE;
        int failed =
            tmi_file_map(&shard->bytes.file, options->offset, shard->size, &a->place->base);
        if (failed) {
            tmi_block_free(&a->text.block);
            return fail_map(shard, failed, error);
        }
    }
    shard->container = container;
    status = parse_text(a, error);
    if (status == TENMAP_OK && a->settled)
        fill_view(shard, options, a->place->base, a->text.length);
    else if (status == TENMAP_ERR_FORMAT)
        tmi_edit_explain(shard, error);
    return status;
}

tenmap_status tmi_shard_parse(tmi_shard *shard, const tenmap_options *options,
                              const tmi_membership *of, const tmi_start *start,
                              tenmap_error *error) {
    tmi_place place = {.path = shard->bytes.shown,
                       .shard = of->number,
                       .flags = options->flags,
                       .offset = options->offset,
                       .size = shard->size,
                       .model = of->model,
                       .key = of->model->key,
                       .report = of->model->report,
                       .slice = of->slice,
                       .scratch = of->scratch};
    header_attempt attempt = {.shard = shard, .options = options, .place = &place, .start = start};
    tmi_start anew;
    if (TMI_REPORTS(place.report))
        tmi_edit_check(shard, place.report, of->number);
    tenmap_status status = parse_once(&attempt, error);
    while (status == TENMAP_OK && !attempt.settled) {
        tmi_file_unmap(&shard->bytes.file);
        status = tmi_shard_again(shard, error);
        if (status == TENMAP_OK)
            status = tmi_shard_start(shard, options, &anew, error);
        place.size = shard->size;
        attempt.start = &anew;
        if (status == TENMAP_OK)
            status = parse_once(&attempt, error);
    }
    return status;
}

/* Reports that the file is no longer the one that was opened. */
static tenmap_status fail_header_changed(const tmi_place *place, tenmap_error *error) {
    return tmi_remedy(error, TENMAP_REMEDY_OPEN_AGAIN,
                      tmi_fail_at(error, TENMAP_ERR_IO, place->shard, place->offset,
                                  "%s: another program has changed the file since it was opened: "
                                  "open it again",
                                  tmi_quote_path(place->path).text));
}

tenmap_status tmi_shard_read_header(const tenmap_model *model, size_t i, tmi_block *text,
                                    tenmap_error *error) {
    const tmi_shard *shard = &model->shards[i];
    const tmi_place place = {.path = shard->bytes.shown,
                             .shard = (uint32_t)i,
                             .offset = shard->view.offset,
                             .size = shard->size,
                             .model = model,
                             .key = model->key};
    unsigned char start[TMI_START];
    size_t len = shard->size < TMI_START ? (size_t)shard->size : TMI_START;
    tmi_header_reader reader = {.place = &place,
                                .start = start,
                                .len = len,
                                .limit = shard->header_limit,
                                .read = read_header_range,
                                .ctx = &shard->bytes};
    tmi_header_text found = {.length = 0};
    tenmap_status status = tmi_bytes_read(&shard->bytes, place.offset, start, len,
                                          (tmi_wanted){"the header", NULL}, error);
    if (status == TENMAP_OK)
        status = shard->container->find_text(&reader, &found, error);
    if (status == TENMAP_OK && found.length == shard->view.header_bytes && !found.block.bytes)
        status = tmi_read_text(&shard->bytes, place.offset + found.at, found.length, "the header",
                               &found.block, error);
    if (status != TENMAP_ERR_MEMORY &&
        (found.length != shard->view.header_bytes || tmi_bytes_changed(&shard->bytes, NULL)))
        status = fail_header_changed(&place, error);
    if (status == TENMAP_OK)
        *text = found.block;
    else
        tmi_block_free(&found.block);
    return status;
}

void tmi_shard_close(tmi_shard *shard) {
    tmi_header_free(&shard->header);
    tmi_bytes_close(&shard->bytes);
    tmi_detached_end(shard);
    free(shard->path);
    free(shard->name);
    shard->path = shard->name = NULL;
}
