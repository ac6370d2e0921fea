/*
 * Dequantizes weights: codes become numbers, to which scales and zero points are applied as their
 * scheme defines. Each step is one operation in F32. docs/quantized.md has the formulas.
 */
#include "dequantize.h"
#include "conversion_route.h"
#include "cpu.h"

#include <string.h>

static void unpack_words(const unsigned char *words, uint64_t at, size_t count, unsigned bits,
                         uint8_t *fields) {
    unsigned each = 32 / bits, place = (unsigned)(at % each), mask = (1u << bits) - 1;
    for (size_t i = 0; i < count; i++) {
        fields[i] = (uint8_t)(tmi_word_at(words) >> place * bits & mask);
        if (++place == each) {
            place = 0;
            words += 4;
        }
    }
}

/* The bytes of the row that hold fields [at, at+count): sets *first, and returns how many. */
static size_t field_bytes(const tmi_quant_layout *r, uint64_t at, size_t count, uint64_t *first) {
    unsigned each = 32 / r->bits;
    if (r->codes == TMI_CODES_STREAM) {
        *first = at * r->bits / 8;
        return (size_t)(((at + count) * r->bits + 7) / 8 - *first);
    }
    *first = at / each * 4;
    return (size_t)((at + count - 1) / each * 4 + 4 - *first);
}

/* Where the row of a run begins in the part of values. */
static uint64_t row_begin(const tmi_quant_layout *r, const tmi_row_run *run) {
    return run->matrix * r->matrix_bytes + run->row * r->row_bytes;
}

/* Reads unsigned codes of a row. */
static tenmap_status fetch_fields(tmi_dequantizer *s, const tmi_row_run *run, uint8_t *fields,
                                  tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    tmi_packed_down down = {TMI_PART_VALUES, r->matrix_bytes, r->row_bytes};
    uint64_t column = run->column, first;
    size_t count = run->count;
    const unsigned char *bytes;
    if (r->codes == TMI_CODES_DOWN)
        return tmi_read_down(s, &down, run, fields, error);
    size_t size = field_bytes(r, column, count, &first);
    tenmap_status status =
        tmi_quant_bytes(s, TMI_PART_VALUES, row_begin(r, run) + first, size, &bytes, error);
    if (status != TENMAP_OK)
        return status;
    if (r->codes == TMI_CODES_STREAM)
        tmi_unpack_stream(bytes, column, count, r->bits, fields);
    else if (r->codes == TMI_CODES_WORDS)
        unpack_words(bytes, column, count, r->bits, fields);
    else
        tmi_unpack_awq(bytes, column, count, fields);
    return TENMAP_OK;
}

static tenmap_status fetch_table(tmi_dequantizer *s, const tmi_row_run *run, float *values,
                                 tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    const unsigned char *bytes;
    uint64_t at = row_begin(r, run) + run->column / 2;
    size_t odd = (size_t)(run->column % 2);
    tenmap_status status =
        tmi_quant_bytes(s, TMI_PART_VALUES, at, (odd + run->count + 1) / 2, &bytes, error);
    for (size_t i = 0; status == TENMAP_OK && i < run->count; i++) {
        unsigned both = bytes[(odd + i) / 2];
        values[i] = s->table[(odd + i) % 2 ? both & 15 : both >> 4];
    }
    return status;
}

/* Reads elements of a dtype that may be narrower than a byte, or stored in blocks. */
static tenmap_status fetch_dtype(tmi_dequantizer *s, const tmi_row_run *run, float *values,
                                 tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    unsigned within;
    uint64_t at = tmi_byte_of(r->code_dtype, run->column, &within);
    uint64_t end = tmi_bytes_of(r->code_dtype, run->column + run->count);
    const unsigned char *bytes;
    tenmap_status status = tmi_quant_bytes(s, TMI_PART_VALUES, row_begin(r, run) + at,
                                           (size_t)(end - at), &bytes, error);
    if (status != TENMAP_OK)
        return status;
    tmi_elements to = {TENMAP_F32, 0, !TMI_BIG_ENDIAN};
    tmi_elements from = {r->code_dtype, within, true};
    tmi_route(to, values, from, bytes, run->count, TENMAP_CONVERT_NO_STREAM);
    return TENMAP_OK;
}

/* Reads 4-bit codes that begin on a byte boundary. */
static tenmap_status fetch_nibbles(tmi_dequantizer *s, const tmi_row_run *run, float *values,
                                   tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    const unsigned char *bytes = NULL;
    tenmap_status status = tmi_quant_bytes(s, TMI_PART_VALUES, row_begin(r, run) + run->column / 2,
                                           (run->count + 1) / 2, &bytes, error);
    if (status == TENMAP_OK)
        tmi_cpu_kernels()->nibbles(values, bytes, run->count, r->code_bias);
    return status;
}

static tenmap_status fetch_codes(tmi_dequantizer *s, const tmi_row_run *run, float *values,
                                 tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    uint8_t fields[TMI_SOURCE_RUN];
    if (r->codes == TMI_CODES_DTYPE)
        return fetch_dtype(s, run, values, error);
    if (r->codes == TMI_CODES_TABLE)
        return fetch_table(s, run, values, error);
    if (r->codes == TMI_CODES_STREAM && r->bits == 4 && run->column % 2 == 0)
        return fetch_nibbles(s, run, values, error);
    tenmap_status status = fetch_fields(s, run, fields, error);
    for (size_t i = 0; status == TENMAP_OK && i < run->count; i++)
        values[i] = (float)((int32_t)fields[i] - r->code_bias);
    return status;
}

/* Scales a row whose columns have listed groups (g_idx): each value may have a scale of its own. */
static tenmap_status scale_listed(tmi_dequantizer *s, const tmi_row_run *run, float *values,
                                  tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    size_t count = run->count;
    tenmap_status status = tmi_read_groups(s, run->column, count, r->scale_columns, error);
    if (status == TENMAP_OK)
        status = tmi_cache_listed_scales(s, run->matrix, run->row / r->group_rows, count, error);
    for (size_t i = 0, same; status == TENMAP_OK && i < count; i += same) {
        size_t at = (size_t)(s->groups[i] - s->scale_cache.first);
        for (same = 1; i + same < count && s->groups[i + same] == s->groups[i];)
            same++;
        tmi_group_scales by = {s->scale_cache.scales + at, s->scale_cache.zeros + at, same, same};
        tmi_apply_scales(r, &by, values + i, same);
    }
    return status;
}

/*
 * Makes s->scale_cache hold the scales of a run of values. The scale of the first value is number
 * *at. A row of scales that several rows share is read whole, if it fits.
 */
static tenmap_status cache_row_scales(tmi_dequantizer *s, const tmi_row_run *run,
                                      uint64_t scale_row, size_t *at, tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    uint64_t first = run->column / r->group_columns;
    uint64_t last = (run->column + run->count - 1) / r->group_columns;
    bool whole = r->group_rows > 1 && r->scale_columns <= TMI_SOURCE_RUN;
    *at = whole ? (size_t)first : 0;
    return tmi_cache_scales(s, run->matrix, scale_row, whole ? 0 : first,
                            (size_t)(whole ? r->scale_columns : last - first + 1), error);
}

/*
 * How many of `count` values, from `column` on, are in the first of their groups. With column 0
 * this is the size of the other groups, at most `count`.
 */
static size_t values_in_group(const tmi_quant_layout *r, uint64_t column, size_t count) {
    uint64_t head = r->group_columns - column % r->group_columns;
    return head < count ? (size_t)head : count;
}

static tenmap_status dequantize_row(tmi_value_rows *rows, const tmi_row_run *run, float *values,
                                    tenmap_error *error) {
    tmi_dequantizer *s = tmi_dequantizer_of(rows);
    const tmi_quant_layout *r = s->layout;
    bool listed = s->parts[TMI_PART_GROUP_INDEX].tensor != NULL;
    tenmap_status status = fetch_codes(s, run, values, error);
    if (status == TENMAP_OK && listed && !r->transposed)
        return scale_listed(s, run, values, error);
    uint64_t scale_row = run->row / r->group_rows;
    size_t at;
    if (status == TENMAP_OK && listed) {
        status = tmi_read_groups(s, run->row, 1, r->scale_rows, error);
        scale_row = s->groups[0];
    }
    if (status == TENMAP_OK)
        status = cache_row_scales(s, run, scale_row, &at, error);
    if (status != TENMAP_OK)
        return status;
    tmi_group_scales by = {s->scale_cache.scales + at, s->scale_cache.zeros + at,
                           values_in_group(r, run->column, run->count),
                           values_in_group(r, 0, run->count)};
    tmi_apply_scales(r, &by, values, run->count);
    return TENMAP_OK;
}

/* The kernel that dequantizes in one pass, from the code at a column on; NULL: there is none. */
static tmi_dequant_fused *find_fused_kernel(const tmi_quant_layout *r, uint64_t column) {
    const tmi_kernels *k = tmi_cpu_kernels();
    if (r->codes == TMI_CODES_DTYPE && r->bits == 8)
        return r->code_dtype == TENMAP_F8_E4M3 ? k->fused_e4m3
               : r->code_dtype == TENMAP_I8    ? k->fused_i8
                                               : NULL;
    bool four = r->codes == TMI_CODES_DTYPE
                    ? r->code_dtype == TENMAP_F4
                    : r->bits == 4 && (r->codes == TMI_CODES_STREAM || r->codes == TMI_CODES_TABLE);
    return four && column % 2 == 0 ? k->fused4 : NULL;
}

static tmi_code_kind code_kind(const tmi_quant_layout *r) {
    if (r->codes == TMI_CODES_STREAM && r->bits == 4 && r->code_bias == 8)
        return TMI_KIND_CENTERED;
    return r->codes == TMI_CODES_DTYPE && r->code_dtype == TENMAP_F4 ? TMI_KIND_E2M1 : TMI_KIND_ANY;
}

/*
 * Whether all scales are 0 or from 2^-100 to 2^100. Codes are 0 or from 2^-9 to 448, so no product
 * is too large or too small for BF16.
 */
static bool scales_keep_normal(const float *scales, size_t count) {
    unsigned beyond = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, scales + i, 4);
        bits &= 0x7fffffff;
        beyond |= bits != 0 && bits - (27u << 23) > 200u << 23;
    }
    return !beyond;
}

/* Dequantizes directly into the destination, if a kernel does all of it. */
static tenmap_status dequantize_fused(tmi_value_rows *rows, const tmi_row_run *values,
                                      tmi_destination *target, tenmap_error *error) {
    tmi_dequantizer *s = tmi_dequantizer_of(rows);
    const tmi_quant_layout *r = s->layout;
    uint64_t column = values->column;
    size_t count = values->count, at;
    tmi_dequant_fused *fused = find_fused_kernel(r, column);
    if (!fused || s->parts[TMI_PART_GROUP_INDEX].tensor ||
        count / r->group_columns + 2 > TMI_SOURCE_RUN)
        return TENMAP_OK;
    tmi_fused_run run = {.count = count,
                         .table = s->table,
                         .high_first = r->codes == TMI_CODES_TABLE,
                         .kind = code_kind(r),
                         .added = r->zeros == TMI_ZEROS_ADDED,
                         .first = values_in_group(r, column, count),
                         .group = values_in_group(r, 0, count)};
    tenmap_status status = cache_row_scales(s, values, values->row / r->group_rows, &at, error);
    if (status == TENMAP_OK)
        status = tmi_quant_bytes(s, TMI_PART_VALUES, row_begin(r, values) + column * r->bits / 8,
                                 (count * r->bits + 7) / 8, &run.codes, error);
    if (status != TENMAP_OK)
        return status;
    run.scales = s->scale_cache.scales + at;
    run.zeros = r->zeros == TMI_ZEROS_NONE ? NULL : s->scale_cache.zeros + at;
    run.tables = &s->tables;
    run.place = at;
    target->done = fused(target->dst, target->as, &run, target->flags);
    size_t groups = count <= run.first ? 1 : 1 + (count - run.first + run.group - 1) / run.group;
    if (target->normal)
        *target->normal = *target->normal && scales_keep_normal(run.scales, groups);
    return TENMAP_OK;
}

/* The shape in a weight's shape part must be the one that its other parts give it. */
static tenmap_status check_shape(tmi_dequantizer *s, tenmap_error *error) {
    const tenmap_tensor *shape = s->parts[TMI_PART_SHAPE].tensor, *t = s->tensor;
    size_t width = shape->dtype == TENMAP_I64 ? 8 : 4;
    const unsigned char *bytes;
    tenmap_status status = TENMAP_OK;
    for (uint32_t d = 0; status == TENMAP_OK && d < t->rank; d++) {
        status = tmi_quant_bytes(s, TMI_PART_SHAPE, d * (uint64_t)width, width, &bytes, error);
        if (status != TENMAP_OK)
            return status;
        uint64_t said = width == 8 ? tmi_file_u64(bytes) : tmi_word_at(bytes);
        if (said != t->shape[d])
            return TMI_FAIL_TENSOR(
                error, TENMAP_ERR_FORMAT, t,
                "its parts give it the shape %s, but its part %s says %llu in dimension %u",
                tmi_shape_text(t->shape, t->rank).text,
                tmi_quote(shape->name, shape->name_len).text, (ull)said, (unsigned)d);
    }
    return status;
}

/* Fills the table of what 4-bit codes stand for before they are scaled. */
static void fill_code_table(tmi_dequantizer *s) {
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int i = 0; i < 16; i++)
        s->table[i] = s->layout->codes != TMI_CODES_DTYPE ? (float)(i - s->layout->code_bias)
                      : i < 8                             ? e2m1[i]
                                                          : -e2m1[i - 8];
}

/* Whether a row's codes, scales and zero points end where those of the next row begin. */
static bool rows_are_contiguous(const tmi_dequantizer *s) {
    const tmi_quant_layout *r = s->layout;
    return !r->transposed && r->group_rows == 1 && r->columns % r->group_columns == 0 &&
           r->row_bytes * 8 == r->columns * r->bits && !s->parts[TMI_PART_GROUP_INDEX].tensor &&
           r->zeros != TMI_ZEROS_ALONG && r->zeros != TMI_ZEROS_DOWN;
}

/* Reads what all values of the tensor need. */
static tenmap_status begin_tensor(tmi_dequantizer *s, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    s->scale_cache.count = 0;
    s->global_scale_of = UINT64_MAX;
    s->out.rows_contiguous = rows_are_contiguous(s);
    tmi_choose_tile(s);
    if (s->parts[TMI_PART_SHAPE].tensor)
        status = check_shape(s, error);
    if (status == TENMAP_OK && s->parts[TMI_PART_TABLE].tensor)
        status = tmi_quant_floats(s, &(tmi_part_run){TMI_PART_TABLE, TENMAP_F32, 0, 16}, s->table,
                                  error);
    else if (status == TENMAP_OK && s->layout->bits == 4)
        fill_code_table(s);
    if (status == TENMAP_OK && s->parts[TMI_PART_NESTED_TABLE].tensor)
        status = tmi_quant_floats(s, &(tmi_part_run){TMI_PART_NESTED_TABLE, TENMAP_F32, 0, 256},
                                  s->nested_table, error);
    return status;
}

static const tmi_row_ops row_ops = {dequantize_row, dequantize_fused, tmi_transpose_tile,
                                    tmi_transposed_row, tmi_tile_rows};

/* Switches a thread's state to the tensor, unless it is there already. */
static tenmap_status switch_tensor(tmi_dequantizer *s, const tmi_transfer *x, const tmi_window *w,
                                   tenmap_error *error) {
    const tenmap_tensor *t = x->tensor;
    bool reading = w && w->buffer;
    bool ahead = tmi_transfer_is_dense(x);
    if (s->tensor != t || s->reading != reading) {
        const tmi_quant_weight *weight = tmi_quant_weight_of(x->computed);
        s->tensor = NULL;
        s->layout = &weight->layout;
        s->reading = reading;
        s->out.ops = &row_ops;
        s->out.rows = weight->layout.rows;
        s->out.columns = weight->layout.columns;
        s->out.transposed = weight->layout.transposed;
        for (unsigned i = 0; i < TMI_PART_COUNT; i++)
            tmi_part_switch(&s->parts[i], weight->parts[i], reading);
    }
    s->parts[TMI_PART_VALUES].window.ahead = ahead || s->out.transposed;
    s->parts[TMI_PART_VALUES].window.direct_fd = reading ? w->direct_fd : -1;
    if (s->tensor == t)
        return TENMAP_OK;
    s->tensor = t; /* for error messages */
    tenmap_status status = begin_tensor(s, error);
    s->tensor = status == TENMAP_OK ? t : NULL;
    return status;
}

static void begin_dequantize(void *state, const tmi_nested_calls *nested) {
    (void)nested;
    tmi_dequantizer *s = state;
    s->tensor = NULL;
    s->reading = false;
    for (unsigned i = 0; i < TMI_PART_COUNT; i++)
        tmi_part_begin(&s->parts[i]);
    memset(s->tables.scale_bits, 0xff, sizeof s->tables.scale_bits);
}

static void end_dequantize(void *state) {
    tmi_dequantizer *s = state;
    for (unsigned i = 0; i < TMI_PART_COUNT; i++)
        tmi_part_close(&s->parts[i]);
}

static tenmap_status run_dequantize(void *state, const tmi_transfer *x, const tmi_window *w,
                                    uint64_t first, uint64_t count, tenmap_error *error) {
    tmi_dequantizer *s = state;
    uint64_t begin;
    tmi_transfer_extent(x, first, count, &begin, &s->values_end);
    tenmap_status status = switch_tensor(s, x, w, error);
    return status == TENMAP_OK ? tmi_value_rows_run(&s->out, x, first, count, error) : status;
}

static bool dequantizes_in_rows(const tmi_computed *computed, const tmi_nested_calls *nested) {
    (void)nested;
    return !tmi_quant_weight_of(computed)->layout.transposed;
}

/*
 * Codes that are integers or floats of few bits, with integer zero points or none: their magnitudes
 * are known.
 */
static bool dequantizes_to_normal(const tmi_computed *computed, tenmap_dtype as) {
    const tmi_quant_layout *r = &tmi_quant_weight_of(computed)->layout;
    return (as == TENMAP_F32 || as == TENMAP_BF16) && !r->transposed &&
           r->codes != TMI_CODES_TABLE && r->zeros != TMI_ZEROS_ADDED &&
           r->zeros != TMI_ZEROS_DTYPE;
}

const tmi_maker tmi_dequantize_maker = {sizeof(tmi_dequantizer), begin_dequantize,
                                        end_dequantize,          run_dequantize,
                                        dequantizes_in_rows,     dequantizes_to_normal};
