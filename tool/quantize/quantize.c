/* Computes scales and codes of quantized weights, and measures what quantization loses. */
#include "quantize/quantize.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/progress.h"
#include "parallel_for.h"
#include "remote/remote.h"

/* Elements processed together: whole groups that fit in the L2 cache. */
enum { AT_ONCE = 16384, MOST_MEASURERS = 8 };

static const struct layout {
    const char *name;
    tenmap_dtype codes;          /* the dtype that values are rounded to */
    float largest;               /* largest value of that dtype */
    const char *values, *scales; /* suffixes after the weight's name */
} layouts[] = {
    [QUANTIZE_NONE] = {"none", TENMAP_AS_STORED, 0, "", ""},
    [QUANTIZE_FP8_BLOCK] = {"fp8-block", TENMAP_F8_E4M3, 448, "", "_scale_inv"},
    [QUANTIZE_FP8_CHANNEL] = {"fp8-channel", TENMAP_F8_E4M3, 448, "", "_scale"},
    [QUANTIZE_INT8_CHANNEL] = {"int8-channel", TENMAP_I8, 127, "", "_scale"},
    [QUANTIZE_MXFP4] = {"mxfp4", TENMAP_F4, 6, "_packed", "_scale"},
};

const char *quantize_name(quantize_scheme scheme) {
    return layouts[scheme].name;
}

tenmap_dtype quantize_values_dtype(quantize_scheme scheme) {
    return scheme == QUANTIZE_MXFP4 ? TENMAP_U8 : layouts[scheme].codes;
}

size_t quantize_scale_width(quantize_scheme scheme) {
    return scheme == QUANTIZE_MXFP4 ? 1 : sizeof(float);
}

static uint64_t blocks_of(uint64_t extent) {
    return extent / QUANTIZE_BLOCK + (extent % QUANTIZE_BLOCK != 0);
}

uint64_t quantize_scale_count(quantize_scheme scheme, uint64_t rows, uint64_t columns) {
    return scheme == QUANTIZE_FP8_BLOCK ? blocks_of(rows) * blocks_of(columns)
           : scheme == QUANTIZE_MXFP4   ? rows * (columns / QUANTIZE_GROUP)
                                        : rows;
}

const char *quantize_obstacle(quantize_scheme scheme, const tenmap_tensor *t) {
    if (t->rank != 2)
        return "other than two dimensions";
    if (t->dtype != TENMAP_F64 && t->dtype != TENMAP_F32 && t->dtype != TENMAP_F16 &&
        t->dtype != TENMAP_BF16)
        return "a dtype other than F64, F32, F16 and BF16";
    if (t->nelems == 0)
        return "no elements";
    if (scheme == QUANTIZE_MXFP4 && t->shape[1] % QUANTIZE_GROUP)
        return "rows that are not a multiple of 32";
    return NULL;
}

void quantizer_add(quantizer *q, const tenmap_tensor *t) {
    q->weights = need_next(q->weights, q->count, sizeof *q->weights);
    q->weights[q->count++] =
        (quantized_weight){.from = t, .rows = t->shape[0], .columns = t->shape[1]};
}

char *quantizer_part_name(const quantizer *q, size_t weight, unsigned part, size_t *len) {
    const tenmap_tensor *t = q->weights[weight].from;
    const char *end = part ? layouts[q->scheme].scales : layouts[q->scheme].values;
    char *name = need(t->name_len + strlen(end) + 1, 1);
    memcpy(name, t->name, t->name_len);
    memcpy(name + t->name_len, end, strlen(end) + 1);
    *len = t->name_len + strlen(end);
    return name;
}

/* Scales. */

/* The largest finite magnitude, at least `largest`. */
static float largest_of(const float *values, size_t count, float largest) {
    for (size_t i = 0; i < count; i++) {
        float magnitude = fabsf(values[i]);
        if (magnitude > largest && magnitude <= FLT_MAX)
            largest = magnitude;
    }
    return largest;
}

/* The scale that maps the largest value to the largest code. */
static float scale_for(quantize_scheme scheme, float largest) {
    float scale = largest / layouts[scheme].largest;
    return largest == 0 ? 1 : scale < FLT_MIN ? FLT_MIN : scale;
}

/*
 * The exponent of a group's scale (E8M0). It is the exponent of the group's largest value, rounded
 * to E2M1's one mantissa bit, minus that of 4, the power of two in E2M1's largest value.
 */
static unsigned char group_exponent(const float *values) {
    float largest = largest_of(values, QUANTIZE_GROUP, 0);
    uint32_t bits;
    memcpy(&bits, &largest, sizeof bits);
    uint32_t exponent = (bits + 0x200000) >> 23;
    return (unsigned char)(largest == 0 ? 127 : exponent < 2 ? 0 : exponent - 2);
}

static float exponent_value(unsigned char exponent) {
    return ldexpf(1, (int)exponent - 127);
}

/*
 * The scale of element `at` of the weight; *run is the number of elements from there on with the
 * same scale.
 */
static float scale_at(const quantizer *q, const quantized_weight *w, uint64_t at, size_t *run) {
    uint64_t row = at / w->columns, place = at % w->columns;
    if (q->scheme != QUANTIZE_FP8_BLOCK) {
        *run = (size_t)(w->columns - place);
        return w->scales[row];
    }
    uint64_t end = (place / QUANTIZE_BLOCK + 1) * QUANTIZE_BLOCK;
    *run = (size_t)((end < w->columns ? end : w->columns) - place);
    return w->scales[row / QUANTIZE_BLOCK * blocks_of(w->columns) + place / QUANTIZE_BLOCK];
}

/*
 * Encoding: codes of values from element `first` on. The values are overwritten with their scaled
 * form, from which codes are rounded.
 */

static void divide(float *values, size_t count, float scale) {
    for (size_t i = 0; i < count; i++)
        values[i] /= scale;
}

/* Rounds to nearest, ties to even: a float of this size has no fractional bits. */
static void round_to_bytes(const float *values, size_t count, unsigned char *codes) {
    const float whole = 0x1.8p23F;
    for (size_t i = 0; i < count; i++) {
        float kept = values[i] > 127 ? 127 : values[i] < -127 ? -127 : values[i];
        float rounded = (kept + whole) - whole;
        codes[i] = (unsigned char)(isnan(kept) ? 0 : (int)rounded); /* NaN has no code */
    }
}

/* Values of a weight on their way to codes. */
typedef struct encoding {
    float *values;
    unsigned char *codes;
    float *scales; /* receives one scale per value; may be NULL */
} encoding;

static void encode(const quantizer *q, const quantized_weight *w, uint64_t first, size_t count,
                   const encoding *e) {
    float *values = e->values;
    for (size_t at = 0, run; at < count; at += run) {
        float scale;
        if (q->scheme == QUANTIZE_MXFP4) {
            run = QUANTIZE_GROUP;
            scale = exponent_value(group_exponent(values + at));
        } else {
            scale = scale_at(q, w, first + at, &run);
        }
        run = run < count - at ? run : count - at;
        divide(values + at, run, scale);
        for (size_t i = 0; e->scales && i < run; i++)
            e->scales[at + i] = scale;
    }
    if (q->scheme == QUANTIZE_INT8_CHANNEL)
        round_to_bytes(values, count, e->codes);
    else
        (void)tenmap_convert(layouts[q->scheme].codes, e->codes, count, TENMAP_F32, values, count,
                             TENMAP_CONVERT_SATURATE | TENMAP_CONVERT_NO_STREAM, NULL);
}

static void decode(const quantizer *q, const unsigned char *codes, size_t count, float *out) {
    if (q->scheme == QUANTIZE_INT8_CHANNEL)
        for (size_t i = 0; i < count; i++)
            out[i] = (float)(codes[i] < 128 ? (int)codes[i] : (int)codes[i] - 256);
    else
        (void)tenmap_convert(TENMAP_F32, out, count * sizeof *out, layouts[q->scheme].codes, codes,
                             count, TENMAP_CONVERT_NO_STREAM, NULL);
}

static tenmap_status read_values(const quantized_weight *w, uint64_t first, size_t count,
                                 float *values, tenmap_error *error) {
    return tenmap_read(w->from, first, count, TENMAP_F32, values, count * sizeof *values,
                       TENMAP_CONVERT_NO_STREAM, error);
}

tenmap_status quantize_codes(const quantizer *q, const quantized_weight *w, uint64_t first,
                             size_t count, unsigned char *codes, tenmap_error *error) {
    float *values = need(AT_ONCE, sizeof *values);
    tenmap_status status = TENMAP_OK;
    size_t per_byte = q->scheme == QUANTIZE_MXFP4 ? 2 : 1;
    for (size_t at = 0, n; status == TENMAP_OK && at < count; at += n) {
        n = count - at < AT_ONCE ? count - at : AT_ONCE;
        status = read_values(w, first + at, n, values, error);
        if (status == TENMAP_OK)
            encode(q, w, first + at, n, &(encoding){values, codes + at / per_byte, NULL});
    }
    free(values);
    return status;
}

tenmap_status quantize_scales(const quantizer *q, const quantized_weight *w, uint64_t first,
                              size_t count, unsigned char *bytes, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    if (q->scheme != QUANTIZE_MXFP4) {
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &w->scales[first + i], sizeof bits);
            for (unsigned k = 0; k < 4; k++)
                bytes[4 * i + k] = (unsigned char)(bits >> (8 * k));
        }
        return status;
    }
    enum { GROUPS = AT_ONCE / QUANTIZE_GROUP };
    float *values = need(AT_ONCE, sizeof *values);
    for (size_t at = 0, n; status == TENMAP_OK && at < count; at += n) {
        n = count - at < GROUPS ? count - at : GROUPS;
        status = read_values(w, (first + at) * QUANTIZE_GROUP, n * QUANTIZE_GROUP, values, error);
        for (size_t i = 0; status == TENMAP_OK && i < n; i++)
            bytes[at + i] = group_exponent(values + i * QUANTIZE_GROUP);
    }
    free(values);
    return status;
}

/*
 * Measuring: works on strips of 128 rows, which contain everything that a block's scale depends on.
 */

typedef struct strips {
    quantizer *q;
    quantize_loss *lost; /* one per strip */
    size_t count;
} strips;

/* Buffers for measuring one strip. */
typedef struct bench {
    float *values, *scaled, *back, *scales;
    unsigned char *codes;
} bench;

/* Adds the losses of b->values. b->back holds the decoded codes, and b->scales their scales. */
static void add_losses(quantize_loss *lost, const bench *b, size_t count) {
    double squares = 0, norm = 0, largest = lost->largest;
    for (size_t i = 0; i < count; i++) {
        float value = b->values[i];
        if (!(fabsf(value) <= FLT_MAX)) {
            *(isnan(value) ? &lost->nans : &lost->overflowed) += 1;
            continue;
        }
        double error = fabs((double)value - (double)(b->back[i] * b->scales[i]));
        lost->flushed += b->back[i] == 0 && value != 0;
        squares += error * error;
        norm += (double)value * (double)value;
        largest = error > largest ? error : largest;
    }
    lost->squares += squares;
    lost->norm += norm;
    lost->largest = largest;
}

static void add_up(quantize_loss *to, const quantize_loss *from) {
    to->overflowed += from->overflowed;
    to->flushed += from->flushed;
    to->nans += from->nans;
    to->squares += from->squares;
    to->norm += from->norm;
    to->largest = fmax(to->largest, from->largest);
}

static quantized_weight *weight_of_strip(const quantizer *q, size_t strip) {
    size_t low = 0, high = q->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(q->weights[middle].first_strip <= strip ? &low : &high) = middle;
    }
    return &q->weights[low];
}

/* Measures rows [row, end), whose scales are known. */
static tenmap_status measure_rows(const strips *all, size_t strip, uint64_t row, uint64_t end,
                                  bench *b, tenmap_error *error) {
    const quantizer *q = all->q;
    const quantized_weight *w = weight_of_strip(q, strip);
    uint64_t first = row * w->columns, count = (end - row) * w->columns;
    encoding scaled = {b->scaled, b->codes, b->scales};
    tenmap_status status = TENMAP_OK;
    for (uint64_t at = 0; status == TENMAP_OK && at < count && !interrupted(); at += AT_ONCE) {
        size_t n = count - at < AT_ONCE ? (size_t)(count - at) : AT_ONCE;
        status = read_values(w, first + at, n, b->values, error);
        if (status != TENMAP_OK)
            break;
        memcpy(b->scaled, b->values, n * sizeof *b->scaled);
        encode(q, w, first + at, n, &scaled);
        decode(q, b->codes, n, b->back);
        add_losses(&all->lost[strip], b, n);
    }
    return status;
}

static tenmap_status row_scale(const quantizer *q, quantized_weight *w, uint64_t row, bench *b,
                               tenmap_error *error) {
    float largest = 0;
    tenmap_status status = TENMAP_OK;
    for (uint64_t at = 0; status == TENMAP_OK && at < w->columns; at += AT_ONCE) {
        size_t n = w->columns - at < AT_ONCE ? (size_t)(w->columns - at) : AT_ONCE;
        status = read_values(w, row * w->columns + at, n, b->values, error);
        if (status == TENMAP_OK)
            largest = largest_of(b->values, n, largest);
    }
    w->scales[row] = scale_for(q->scheme, largest);
    return status;
}

/*
 * Computes the scales of all blocks of a strip. Rows are read in storage order; `scales` first
 * collects each block's largest magnitude.
 */
static tenmap_status block_scales(const quantizer *q, quantized_weight *w, uint64_t row,
                                  uint64_t end, bench *b, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    uint64_t across = blocks_of(w->columns);
    float *scales = w->scales + row / QUANTIZE_BLOCK * across;
    for (uint64_t at = row * w->columns; at < end * w->columns;) {
        uint64_t left = end * w->columns - at;
        size_t n = left < AT_ONCE ? (size_t)left : AT_ONCE;
        status = read_values(w, at, n, b->values, error);
        if (status != TENMAP_OK)
            return status;
        for (size_t i = 0, run; i < n; i += run) {
            uint64_t block = (at + i) % w->columns / QUANTIZE_BLOCK;
            (void)scale_at(q, w, at + i, &run);
            run = run < n - i ? run : n - i;
            scales[block] = largest_of(b->values + i, run, scales[block]);
        }
        at += n;
    }
    for (uint64_t i = 0; i < across; i++)
        scales[i] = scale_for(q->scheme, scales[i]);
    return status;
}

static int measure_strip(void *ctx, size_t i) {
    strips *all = ctx;
    quantizer *q = all->q;
    quantized_weight *w = weight_of_strip(q, i);
    uint64_t row = (i - w->first_strip) * (uint64_t)QUANTIZE_BLOCK;
    uint64_t end = row + QUANTIZE_BLOCK < w->rows ? row + QUANTIZE_BLOCK : w->rows;
    tenmap_error error;
    tenmap_status status = TENMAP_OK;
    if (interrupted())
        return fail(EXIT_INTERRUPTED, "interrupted");
    float *room = need((size_t)4 * AT_ONCE, sizeof *room);
    bench b = {room, room + AT_ONCE, NULL, NULL, need(AT_ONCE, 1)};
    b.back = b.scaled + AT_ONCE;
    b.scales = b.back + AT_ONCE;
    bool by_row = q->scheme != QUANTIZE_FP8_BLOCK && q->scheme != QUANTIZE_MXFP4;
    if (q->scheme == QUANTIZE_FP8_BLOCK)
        status = block_scales(q, w, row, end, &b, &error);
    for (uint64_t r = row; by_row && status == TENMAP_OK && r < end; r++)
        status = row_scale(q, w, r, &b, &error);
    if (status == TENMAP_OK)
        status = measure_rows(all, i, row, end, &b, &error);
    free(room);
    free(b.codes);
    progress_add((end - row) * w->columns * sizeof(float));
    return status == TENMAP_OK ? EXIT_FINE : fail_error(&error);
}

static void announce_weights(const quantizer *q) {
    const tenmap_tensor **tensors = need(q->count, sizeof *tensors);
    for (size_t i = 0; i < q->count; i++)
        tensors[i] = q->weights[i].from;
    remote_will_read(tensors, q->count);
    free(tensors);
}

int quantizer_measure(quantizer *q) {
    strips all = {.q = q};
    uint64_t bytes = 0;
    for (size_t i = 0; i < q->count; i++) {
        quantized_weight *w = &q->weights[i];
        uint64_t scales = quantize_scale_count(q->scheme, w->rows, w->columns);
        if (q->scheme != QUANTIZE_MXFP4)
            w->scales = need((size_t)scales, sizeof *w->scales);
        w->first_strip = all.count;
        all.count += (size_t)blocks_of(w->rows);
        bytes += w->from->nelems * sizeof(float);
    }
    all.lost = need(all.count, sizeof *all.lost);
    unsigned threads = default_threads();
    announce_weights(q);
    progress_begin("measuring", bytes);
    int status = parallel_for(threads < MOST_MEASURERS ? threads : MOST_MEASURERS, all.count,
                              measure_strip, &all);
    progress_end();
    for (size_t i = 0; !status && i < all.count; i++) {
        add_up(&weight_of_strip(q, i)->lost, &all.lost[i]);
        add_up(&q->lost, &all.lost[i]);
    }
    free(all.lost);
    return status ? status : interrupted() ? EXIT_INTERRUPTED : EXIT_FINE;
}

void quantizer_free(quantizer *q) {
    for (size_t i = 0; i < q->count; i++)
        free(q->weights[i].scales);
    free(q->weights);
    text_free(&q->header);
    *q = (quantizer){0};
}
