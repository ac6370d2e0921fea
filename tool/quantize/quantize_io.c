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

/* A part of a weight, as the header describes it. */
typedef struct header_entry {
    const char *dtype;
    uint64_t rows, columns, begin, end; /* the last two are offsets */
} header_entry;

static void add_entry(text *t, char part, size_t weight, const header_entry *e) {
    text_addf(t,
              "%s\"%c%zu\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64 ",%" PRIu64
              "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
              t->len > 9 ? "," : "", part, weight, e->dtype, e->rows, e->columns, e->begin, e->end);
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
        header_entry values = {.dtype = tenmap_dtype_name(quantize_values_dtype(q->scheme)),
                               .rows = w->rows,
                               .columns = packed ? w->columns / 2 : w->columns,
                               .begin = w->values_at,
                               .end = w->scales_at};
        header_entry scales = {.dtype = packed ? "U8" : "F32",
                               .rows = blocks ? blocks_across(w->rows) : w->rows,
                               .columns = blocks   ? blocks_across(w->columns)
                                          : packed ? w->columns / QUANTIZE_GROUP
                                                   : 1,
                               .begin = w->scales_at,
                               .end = w->end};
        add_entry(t, 'v', i, &values);
        add_entry(t, 's', i, &scales);
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
 * How the bytes of a part are computed: `unit` elements form `width` bytes and are computed
 * together.
 */
typedef struct part_maker {
    tenmap_status (*make)(const quantizer *q, const quantized_weight *w, uint64_t first,
                          size_t count, unsigned char *bytes, tenmap_error *error);
    size_t unit, width;
} part_maker;

/* Bytes of a part to compute. They may begin and end inside a unit. */
typedef struct part_bytes {
    uint64_t at; /* in the part */
    unsigned char *dst;
    size_t count;
} part_bytes;

static tenmap_status make_bytes(const quantizer *q, const quantized_weight *w, part_maker m,
                                part_bytes wanted, tenmap_error *error) {
    uint64_t first = wanted.at / m.width;
    uint64_t end = (wanted.at + wanted.count + m.width - 1) / m.width;
    size_t skip = (size_t)(wanted.at - first * m.width), room = (size_t)(end - first) * m.width;
    if (!skip && room == wanted.count)
        return m.make(q, w, first * m.unit, (size_t)(end - first) * m.unit, wanted.dst, error);
    unsigned char *whole = need(room, 1);
    tenmap_status status =
        m.make(q, w, first * m.unit, (size_t)(end - first) * m.unit, whole, error);
    if (status == TENMAP_OK)
        memcpy(wanted.dst, whole + skip, wanted.count);
    free(whole);
    return status;
}

static const quantized_weight *weight_at(const quantizer *q, uint64_t at) {
    size_t low = 0, high = q->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(q->weights[middle].values_at <= at ? &low : &high) = middle;
    }
    return &q->weights[low];
}

/*
 * Reads bytes from offset `at` of the virtual file, which lies in a weight, up to the end of its
 * values or of its scales. Sets *count, the bytes wanted, to those that were read.
 */
static tenmap_status read_part(const quantizer *q, uint64_t at, unsigned char *dst, size_t *count,
                               tenmap_error *error) {
    const quantized_weight *w = weight_at(q, at);
    bool values = at < w->scales_at, packed = q->scheme == QUANTIZE_MXFP4;
    part_maker codes = {quantize_codes, packed ? QUANTIZE_GROUP : 1,
                        packed ? QUANTIZE_GROUP / 2 : 1};
    part_maker scales = {quantize_scales, 1, quantize_scale_width(q->scheme)};
    uint64_t left = (values ? w->scales_at : w->end) - at;
    *count = left < *count ? (size_t)left : *count;
    part_bytes wanted = {at - (values ? w->values_at : w->scales_at), dst, *count};
    return make_bytes(q, w, values ? codes : scales, wanted, error);
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
            n = bytes;
            status = read_part(q, offset, out, &n, error);
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
