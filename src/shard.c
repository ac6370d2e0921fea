/* One file of a model: reading, mapping, parsing its header. */
#include "model.h"
#include "json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The refusal of the system to map, with the way out. */
static tenmap_status fail_map(const tmi_shard *shard, int os_error, tenmap_error *error) {
    if (os_error != ENOMEM)
        return tmi_fail_os(error, os_error,
                           "%s: cannot map the file (open it with "
                           "TENMAP_BACKEND_READ)",
                           tmi_quote_path(shard->shown).text);
    tmi_fail(error, TENMAP_ERR_LIMIT,
             "%s: cannot map %llu bytes: the address space of this process is limited or full "
             "(ulimit -v); open the model with TENMAP_BACKEND_READ, which maps nothing",
             tmi_quote_path(shard->shown).text, (ull)shard->size);
    if (error)
        error->os_error = os_error;
    return TENMAP_ERR_LIMIT;
}

tenmap_status tmi_shard_trust(const tmi_shard *shard, uint64_t offset, uint64_t size,
                              const tenmap_tensor *tensor, tenmap_error *error) {
    uint64_t size_now = offset + size;
    if (!tmi_file_changed(&shard->file, &size_now))
        return TENMAP_OK;
    return tmi_fail_at(
        error, TENMAP_ERR_IO, tensor->shard, offset,
        "%s: cannot trust %llu bytes of tensor %s at byte %llu: another program has %s the "
        "file, which has %llu bytes now; it had %llu when it was opened: open it again",
        tmi_quote_path(shard->shown).text, (ull)size,
        tmi_quote(tensor->name, tensor->name_len).text, (ull)offset,
        size_now < shard->file.size ? "truncated" : "modified", (ull)size_now,
        (ull)shard->file.size);
}

tenmap_status tmi_shard_read(const tmi_shard *shard, uint64_t offset, void *dst, size_t size,
                             const tenmap_tensor *tensor, tenmap_error *error) {
    size_t got;
    int failed = tmi_file_read(&shard->file, offset, dst, size, &got);
    if (!failed && got == size)
        return tensor ? tmi_shard_trust(shard, offset, size, tensor, error) : TENMAP_OK;
    tmi_quoted what = {"the header"};
    if (tensor)
        what = tmi_quote(tensor->name, tensor->name_len);
    const char *kind = tensor ? "tensor " : "";
    if (failed)
        tmi_fail_os(error, failed, "%s: cannot read %llu bytes of %s%s at byte %llu",
                    tmi_quote_path(shard->shown).text, (ull)(size - got), kind, what.text,
                    (ull)(offset + got));
    else
        tmi_fail(
            error, TENMAP_ERR_IO,
            "%s: cannot read %s%s: wanted %llu bytes at byte %llu, got %llu: the file had %llu "
            "bytes when it was opened, and another program has truncated it",
            tmi_quote_path(shard->shown).text, kind, what.text, (ull)size, (ull)offset, (ull)got,
            (ull)shard->file.size);
    if (error) {
        error->status = TENMAP_ERR_IO;
        error->shard = tensor ? tensor->shard : 0;
        error->offset = offset + got;
    }
    return TENMAP_ERR_IO;
}

tenmap_status tmi_shard_read_text(const tmi_shard *shard, uint64_t offset, size_t length,
                                  tmi_block *text, tenmap_error *error) {
    if (length > SIZE_MAX - TMI_JSON_PAD || !tmi_block_take(text, length + TMI_JSON_PAD))
        return tmi_fail_memory(error, length, "the header");
    tenmap_status status = tmi_shard_read(shard, offset, text->bytes, length, NULL, error);
    if (status != TENMAP_OK)
        tmi_block_free(text);
    return status;
}

uint64_t tmi_header_limit(const tenmap_options *options) {
    enum { BY_DEFAULT = 100000000 };
    return options->max_header_bytes ? options->max_header_bytes : BY_DEFAULT;
}

/*
 * Headers that change while they are read. An edit in place (undo.c) closes the header first: its
 * length field is 2^64-1 until the text is whole again, and the file's times are others then. So
 * what was read between two equal length fields, with the same times before and after, is of one
 * piece; anything else is read anew.
 */
enum { MOST_TRIES = 16, LONGEST_NAP = 32 }; /* milliseconds; less than half a second in all */

static bool is_closed(const unsigned char *start, size_t len) {
    static const unsigned char closed[] = "\xff\xff\xff\xff\xff\xff\xff\xff";
    return len >= 8 && memcmp(start, closed, 8) == 0;
}

tenmap_status tmi_shard_again(tmi_shard *shard, tenmap_error *error) {
    if (shard->tries < MOST_TRIES) {
        unsigned nap = 1u << shard->tries++;
        tmi_nap(nap < LONGEST_NAP ? nap : LONGEST_NAP);
        (void)tmi_file_look(&shard->file);
        return TENMAP_OK;
    }
    bool edited = tmi_file_locked(&shard->file, shard->path);
    return tmi_fail(error, TENMAP_ERR_IO,
                    "%s: another program is %s right now: try again when it is done",
                    tmi_quote_path(shard->shown).text,
                    edited ? "editing the file's metadata" : "changing the file");
}

/* The first bytes as they are now. */
static tenmap_status read_start(tmi_shard *shard, const tenmap_options *options,
                                unsigned char *start, size_t *len, tenmap_error *error) {
    const tmi_file *file = &shard->file;
    if (options->offset > file->size || options->length > file->size - options->offset)
        return tmi_fail(error, TENMAP_ERR_RANGE,
                        "%s: the file has %llu bytes; a model at offset %llu with length %llu is "
                        "not inside it",
                        tmi_quote_path(shard->shown).text, (ull)file->size, (ull)options->offset,
                        (ull)options->length);
    shard->size = options->length ? options->length : file->size - options->offset;
    /* The length field alone, unless it cannot be one: then what the file is instead. */
    *len = shard->size < 8 ? (size_t)shard->size : 8;
    tenmap_status status = tmi_shard_read(shard, options->offset, start, *len, NULL, error);
    if (status != TENMAP_OK ||
        tmi_header_plausible(start, *len, shard->size, tmi_header_limit(options)))
        return status;
    *len = shard->size < TMI_START ? (size_t)shard->size : TMI_START;
    return tmi_shard_read(shard, options->offset, start, *len, NULL, error);
}

tenmap_status tmi_shard_start(tmi_shard *shard, const tenmap_options *options, unsigned char *start,
                              size_t *len, tenmap_error *error) {
    if (shard->file.kind != TMI_FILE_REGULAR)
        return tmi_fail(error, TENMAP_ERR_IO, "%s: %s", tmi_quote_path(shard->shown).text,
                        shard->file.kind == TMI_FILE_FOLDER
                            ? "it is a folder where a file is expected"
                            : "not a regular file but a pipe, a socket or a device");
    bool edited = true; /* while it is closed; one look after the edit tells whether it still is */
    tenmap_status status = read_start(shard, options, start, len, error);
    while (status == TENMAP_OK && is_closed(start, *len) && edited) {
        edited = !shard->edited_here && tmi_file_locked(&shard->file, shard->path);
        if (edited)
            status = tmi_shard_again(shard, error);
        else
            (void)tmi_file_look(&shard->file);
        if (status == TENMAP_OK)
            status = read_start(shard, options, start, len, error);
    }
    return status;
}

/* Whether all that was read since tmi_shard_start is of one piece; if not, it can start again. */
static bool is_settled(tmi_shard *shard, const tenmap_options *options,
                       const unsigned char *start) {
    unsigned char now[8];
    size_t got, len = shard->size < 8 ? (size_t)shard->size : 8;
    int failed = tmi_file_read(&shard->file, options->offset, now, len, &got);
    bool same = !failed && got == len && memcmp(now, start, len) == 0;
    return tmi_file_look(&shard->file) && same; /* in this order */
}

static void fill_view(tmi_shard *shard, const tenmap_options *options, const unsigned char *base,
                      uint64_t header_bytes) {
    shard->view = (tenmap_shard){.path = shard->path ? shard->path : "",
                                 .fd = shard->file.fd,
                                 .base = base,
                                 .size = shard->size,
                                 .header_bytes = header_bytes,
                                 .data_offset = options->offset + 8 + header_bytes,
                                 .tensor_count = shard->header.count,
                                 .offset = options->offset};
}

/* The header's text, parsed. Nothing is made of it if it is not settled. */
static tenmap_status parse_text(tmi_shard *shard, const tenmap_options *options,
                                const tmi_place *place, const unsigned char *start, size_t length,
                                bool *settled, tenmap_error *error) {
    tmi_block text = {NULL, 0};
    tenmap_status status = TENMAP_OK;
    bool done = false;
    if (!place->report) /* which wants to know more than this pass looks at */
        status = tmi_header_quick(&shard->header, place, &shard->file, length, &done, error);
    if (status == TENMAP_OK && !done)
        status = tmi_shard_read_text(shard, options->offset + 8, length, &text, error);
    if (status != TENMAP_OK)
        return status;
    *settled = is_settled(shard, options, start);
    if (!*settled) {
        tmi_block_free(&text);
        tmi_header_free(&shard->header);
        return TENMAP_OK;
    }
    return done ? TENMAP_OK : tmi_header_parse(&shard->header, place, text, length, error);
}

/* One try; *settled is false if the file changed under it. */
static tenmap_status parse_once(tmi_shard *shard, const tenmap_options *options, tmi_place *place,
                                const unsigned char *start, size_t len, bool *settled,
                                tenmap_error *error) {
    uint64_t limit = tmi_header_limit(options), length;
    *settled = true;
    if (!tmi_header_plausible(start, len, shard->size, limit) &&
        !is_settled(shard, options, start)) {
        *settled = false;
        return TENMAP_OK;
    }
    tenmap_status status = tmi_header_length(place, start, len, limit, &length, error);
    if (status != TENMAP_OK) {
        tmi_record_note(shard, error);
        return status;
    }
    if (options->backend == TENMAP_BACKEND_MAP) {
        int failed = tmi_file_map(&shard->file, options->offset, shard->size, &place->base);
        if (failed)
            return fail_map(shard, failed, error);
    }
    if (length > SIZE_MAX)
        return tmi_fail_memory(error, length, "the header");
    status = parse_text(shard, options, place, start, (size_t)length, settled, error);
    if (status == TENMAP_OK && *settled)
        fill_view(shard, options, place->base, length);
    else if (status == TENMAP_ERR_FORMAT)
        tmi_record_note(shard, error);
    return status;
}

tenmap_status tmi_shard_parse(tmi_shard *shard, const tenmap_options *options,
                              const tenmap_model *model, const tmi_hash_key *key, uint32_t number,
                              const unsigned char *start, size_t len, tenmap_error *error) {
    tmi_place place = {.path = shard->shown,
                       .shard = number,
                       .flags = options->flags,
                       .offset = options->offset,
                       .size = shard->size,
                       .model = model,
                       .key = *key,
                       .report = model->report};
    unsigned char anew[TMI_START];
    bool settled;
    if (place.report)
        tmi_record_check(shard, place.report, number);
    tenmap_status status = parse_once(shard, options, &place, start, len, &settled, error);
    while (status == TENMAP_OK && !settled) {
        tmi_file_unmap(&shard->file);
        status = tmi_shard_again(shard, error);
        if (status == TENMAP_OK)
            status = tmi_shard_start(shard, options, anew, &len, error);
        place.size = shard->size;
        if (status == TENMAP_OK)
            status = parse_once(shard, options, &place, anew, len, &settled, error);
    }
    return status;
}

void tmi_shard_close(tmi_shard *shard) {
    tmi_header_free(&shard->header);
    tmi_file_close(&shard->file);
    free(shard->path);
    shard->path = NULL;
}
