/*
 * Presents the parts of quantized weights as a virtual file whose bytes are computed when they are
 * read.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "quantize/quantize.h"

static const char parts_path[] = "quantized.safetensors";

static uint64_t values_bytes(const quantizer *q, const quantized_weight *w) {
    return w->from->nelems / (q->scheme == QUANTIZE_MXFP4 ? 2 : 1);
}

static uint64_t scales_bytes(const quantizer *q, const quantized_weight *w) {
    return quantize_scale_count(q->scheme, w->rows, w->columns) * quantize_scale_width(q->scheme);
}

static uint64_t blocks_across(uint64_t extent) {
    return extent / QUANTIZE_BLOCK + (extent % QUANTIZE_BLOCK != 0);
}

static void add_entry(text *t, char part, size_t weight, const char *dtype, uint64_t rows,
                      uint64_t columns, uint64_t begin, uint64_t end) {
    text_addf(t,
              "%s\"%c%zu\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64 ",%" PRIu64
              "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
              t->len > 9 ? "," : "", part, weight, dtype, rows, columns, begin, end);
}

/*
 * Offsets count from the start of the data while the header is built, and from the start of the
 * file afterwards.
 */
static void lay_out(quantizer *q) {
    text *t = &q->header;
    uint64_t at = 0;
    text_addf(t, "%8s{", "");
    for (size_t i = 0; i < q->count; i++) {
        quantized_weight *w = &q->weights[i];
        bool packed = q->scheme == QUANTIZE_MXFP4, blocks = q->scheme == QUANTIZE_FP8_BLOCK;
        w->values_at = at;
        w->scales_at = at + values_bytes(q, w);
        w->end = at = w->scales_at + scales_bytes(q, w);
        add_entry(t, 'v', i, tenmap_dtype_name(quantize_values_dtype(q->scheme)), w->rows,
                  packed ? w->columns / 2 : w->columns, w->values_at, w->scales_at);
        add_entry(t, 's', i, packed ? "U8" : "F32", blocks ? blocks_across(w->rows) : w->rows,
                  blocks   ? blocks_across(w->columns)
                  : packed ? w->columns / QUANTIZE_GROUP
                           : 1,
                  w->scales_at, w->end);
    }
    text_add(t, "}", 1);
    while (t->len % 8)
        text_add(t, " ", 1);
    for (unsigned k = 0; k < 8; k++)
        t->bytes[k] = (char)(unsigned char)((uint64_t)(t->len - 8) >> (8 * k));
    for (size_t i = 0; i < q->count; i++) {
        q->weights[i].values_at += t->len;
        q->weights[i].scales_at += t->len;
        q->weights[i].end += t->len;
    }
}

static tenmap_status parts_open(void *ctx, const char *path, void **file, uint64_t *size,
                                tenmap_error *error) {
    quantizer *q = ctx;
    if (strcmp(path, parts_path) != 0) {
        *error = (tenmap_error){.status = TENMAP_ERR_NOT_FOUND, .message = "there is no such file"};
        return TENMAP_ERR_NOT_FOUND;
    }
    *file = q;
    *size = q->count ? q->weights[q->count - 1].end : q->header.len;
    return TENMAP_OK;
}

static void parts_close(void *ctx, void *file) {
    (void)ctx;
    (void)file;
}

/*
 * Computes some bytes of one part. `unit` elements form `width` bytes and are computed together;
 * the requested range may begin and end inside a unit.
 */
typedef tenmap_status maker(const quantizer *q, const quantized_weight *w, uint64_t first,
                            size_t count, unsigned char *bytes, tenmap_error *error);

static tenmap_status make_bytes(const quantizer *q, const quantized_weight *w, maker *make,
                                size_t unit, size_t width, uint64_t at, unsigned char *dst,
                                size_t bytes, tenmap_error *error) {
    uint64_t first = at / width, end = (at + bytes + width - 1) / width;
    size_t skip = (size_t)(at - first * width), room = (size_t)(end - first) * width;
    if (!skip && room == bytes)
        return make(q, w, first * unit, (size_t)(end - first) * unit, dst, error);
    unsigned char *whole = need(room, 1);
    tenmap_status status = make(q, w, first * unit, (size_t)(end - first) * unit, whole, error);
    if (status == TENMAP_OK)
        memcpy(dst, whole + skip, bytes);
    free(whole);
    return status;
}

/*
 * Reads bytes of one weight from offset `at`, which lies in it, up to the end of its values or of
 * its scales.
 */
static tenmap_status read_part(const quantizer *q, const quantized_weight *w, uint64_t at,
                               unsigned char *dst, size_t bytes, size_t *done,
                               tenmap_error *error) {
    bool values = at < w->scales_at, packed = q->scheme == QUANTIZE_MXFP4;
    uint64_t left = (values ? w->scales_at : w->end) - at;
    *done = left < bytes ? (size_t)left : bytes;
    if (values)
        return make_bytes(q, w, quantize_codes, packed ? QUANTIZE_GROUP : 1,
                          packed ? QUANTIZE_GROUP / 2 : 1, at - w->values_at, dst, *done, error);
    return make_bytes(q, w, quantize_scales, 1, quantize_scale_width(q->scheme), at - w->scales_at,
                      dst, *done, error);
}

static const quantized_weight *weight_at(const quantizer *q, uint64_t at) {
    size_t low = 0, high = q->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(q->weights[middle].values_at <= at ? &low : &high) = middle;
    }
    return &q->weights[low];
}

static tenmap_status parts_read(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                                tenmap_error *error) {
    const quantizer *q = ctx;
    unsigned char *out = dst;
    tenmap_status status = TENMAP_OK;
    (void)file;
    for (size_t n; status == TENMAP_OK && bytes; offset += n, out += n, bytes -= n) {
        if (offset < q->header.len) {
            size_t left = q->header.len - (size_t)offset;
            n = left < bytes ? left : bytes;
            memcpy(out, q->header.bytes + offset, n);
        } else {
            status = read_part(q, weight_at(q, offset), offset, out, bytes, &n, error);
        }
    }
    return status;
}

int quantizer_open(quantizer *q) {
    tenmap_io io = {.struct_size = sizeof io,
                    .open = parts_open,
                    .read = parts_read,
                    .close = parts_close,
                    .ctx = q,
                    .preferred_bytes = 1 << 20};
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_error error;
    options.io = &io;
    lay_out(q);
    options.max_header_bytes = q->header.len;
    if (tenmap_open(parts_path, &options, &q->model, &error) == TENMAP_OK)
        return EXIT_FINE;
    return fail_error(&error);
}

const tenmap_tensor *quantizer_part(const quantizer *q, size_t weight, unsigned part) {
    char name[32];
    snprintf(name, sizeof name, "%c%zu", part ? 's' : 'v', weight);
    return tenmap_find(q->model, name);
}
