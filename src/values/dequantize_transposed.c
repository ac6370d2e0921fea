/*
 * Dequantizes weights that are stored transposed. GPTQ's words go down the rows of the stored
 * matrix, so a word holds several values of one row of the tensor. Each field of an AWQ word
 * belongs to a different row of the tensor. For both, the codes of a tile are transposed, since
 * they are smaller than values, and each row of the tensor is then dequantized as if it were stored
 * that way. gpt-oss has scales along the stored rows: these rows are dequantized and then
 * transposed, unless a kernel can scale each value by its own power of two; then the codes are
 * transposed.
 */
#include "dequantize.h"
#include "cpu.h"

#include <string.h>

/* Prefetches the next rows of a matrix: rows that are far apart would otherwise arrive late. */
static void prefetch_rows(const unsigned char *rows, size_t stride, size_t count, size_t bytes) {
#if defined(__GNUC__)
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < bytes; k += 64)
            __builtin_prefetch((const void *)((uintptr_t)rows + i * stride + k), 0, 1);
#else
    (void)rows, (void)stride, (void)count, (void)bytes;
#endif
}

/*
 * Transposes columns of words: line i of the tile gets the words of the tensor's row i, a stream of
 * bits.
 */
static tenmap_status transpose_word_columns(tmi_dequantizer *s, uint64_t matrix,
                                            tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    const tmi_tile *t = &s->out.at;
    tmi_transpose *transpose = tmi_cpu_kernels()->transpose32;
    uint64_t word = (t->row - t->skip) * r->bits / 32;
    uint64_t at = matrix * r->matrix_bytes + word * r->row_bytes + t->column * 4;
    const unsigned char *base = s->parts[TMI_PART_VALUES].base, *bytes;
    size_t words = ((t->skip + t->wide) * r->bits + 31) / 32, stride = (size_t)r->row_bytes;
    for (size_t w = 0, n; w < words; w += n, at += n * r->row_bytes) {
        n = base ? words - w < 8 ? words - w : 8 : 1;
        if (base) {
            bytes = base + at;
            prefetch_rows(w + 8 < words ? bytes + 8 * stride : bytes - w * stride + t->high * 4,
                          stride, 8, t->high * 4);
        } else {
            tenmap_status status =
                tmi_quant_bytes(s, TMI_PART_VALUES, at, t->high * 4, &bytes, error);
            if (status != TENMAP_OK)
                return status;
        }
        transpose((tmi_lines){s->out.tile + w * 4, t->line}, (tmi_const_lines){bytes, stride}, n,
                  t->high, false);
    }
    return TENMAP_OK;
}

/*
 * Transposes rows of words, up to 128 at a time: line t->skip + i of the tile gets the codes of the
 * tensor's row i. The rows are copied together first, since rows that are a power of two apart
 * would evict one another from the cache.
 */
static tenmap_status transpose_word_rows(tmi_dequantizer *s, uint64_t matrix, tenmap_error *error) {
    enum { MOST_WORDS = TMI_SOURCE_RUN / 8 + 1, AT_ONCE = 128, AHEAD = 32 };
    const tmi_quant_layout *r = s->layout;
    const tmi_tile *t = &s->out.at;
    tmi_split_columns *split_columns = tmi_cpu_kernels()->split_columns;
    unsigned char held[32 * MOST_WORDS * 4];
    size_t words = (t->skip + t->high + 7) / 8, bytes = words * 4, stride = (size_t)r->row_bytes;
    size_t most = bytes * AT_ONCE <= sizeof held ? AT_ONCE : AHEAD;
    uint64_t at = matrix * r->matrix_bytes + t->row * r->row_bytes + t->column / 8 * 4;
    for (size_t i = 0; i < t->wide; i += most) {
        const unsigned char *base = s->parts[TMI_PART_VALUES].base, *row;
        size_t n = t->wide - i < most ? t->wide - i : most;
        memset(held + n * bytes, 0, ((0 - n) & 7) * bytes); /* up to a multiple of eight rows */
        for (size_t j = 0; j < n; j++, at += r->row_bytes) {
            tenmap_status status = tmi_quant_bytes(s, TMI_PART_VALUES, at, bytes, &row, error);
            if (status != TENMAP_OK)
                return status;
            if (base)
                prefetch_rows(i + j + AHEAD < t->wide
                                  ? row + AHEAD * stride
                                  : row + AHEAD * stride - t->wide * stride + bytes,
                              stride, 1, bytes);
            memcpy(held + j * bytes, row, bytes);
        }
        split_columns((tmi_lines){s->out.tile + i / 2, t->line}, (tmi_const_lines){held, bytes},
                      (n + 7) & ~(size_t)7, words, r->codes == TMI_CODES_AWQ);
    }
    return TENMAP_OK;
}

/* Scales of the stored rows' groups. */

/*
 * Whether the listed groups form runs of one length, of which the first and the last may be
 * shorter. Sets the tile's runs.
 */
static bool groups_are_even(tmi_dequantizer *s, tmi_tile *t) {
    size_t first = 1;
    while (first < t->wide && s->groups[first] == s->groups[0])
        first++;
    size_t group = 1;
    while (first + group < t->wide && s->groups[first + group] == s->groups[first])
        group++;
    t->first = first;
    t->group = group < first ? first : group;
    t->runs = 1;
    for (size_t i = first; i < t->wide; i += t->group, t->runs++)
        for (size_t k = i + 1; k < t->wide && k < i + t->group; k++)
            if (s->groups[k] != s->groups[i])
                return false;
    return true;
}

/* Finds the groups of the tile's stored rows: how many there are, and how long they are. */
static tenmap_status find_tile_groups(tmi_dequantizer *s, tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    tmi_tile *t = &s->out.at;
    if (!s->parts[TMI_PART_GROUP_INDEX].tensor) {
        uint64_t head = r->group_rows - t->row % r->group_rows;
        t->first = head < t->wide ? (size_t)head : t->wide;
        t->group = r->group_rows < t->wide ? (size_t)r->group_rows : t->wide;
        t->runs = 1 + (t->wide - t->first + t->group - 1) / t->group;
        return TENMAP_OK;
    }
    tenmap_status status = tmi_read_groups(s, t->row, t->wide, r->scale_rows, error);
    if (status == TENMAP_OK && !groups_are_even(s, t)) {
        t->first = t->group = 1;
        t->runs = t->wide;
    }
    return status;
}

/* Collects the scales and zeros of the groups of each row of the tensor, one after the other. */
static tenmap_status transpose_scales(tmi_dequantizer *s, uint64_t matrix, tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    const tmi_tile *t = &s->out.at;
    bool listed = s->parts[TMI_PART_GROUP_INDEX].tensor != NULL, zeros = r->zeros != TMI_ZEROS_NONE;
    tenmap_status status = TENMAP_OK;
    for (size_t k = 0, i = 0; status == TENMAP_OK && k < t->runs; k++) {
        uint64_t group = listed ? s->groups[i] : (t->row + i) / r->group_rows;
        status = tmi_cache_scales(s, matrix, group, t->column, t->high, error);
        for (size_t n = 0; status == TENMAP_OK && n < t->high; n++)
            s->out.stored[n * t->runs + k] = s->scale_cache.scales[n];
        for (size_t n = 0; status == TENMAP_OK && zeros && n < t->high; n++)
            s->out.transposed_f32[n * t->runs + k] = s->scale_cache.zeros[n];
        i += k ? t->group : t->first;
    }
    return status;
}

/* Whether rows are dequantized as they are stored, and transposed afterwards. */
static bool transposes_values(const tmi_dequantizer *s) {
    const tmi_quant_layout *r = s->layout;
    return r->codes == TMI_CODES_DTYPE && r->code_dtype == TENMAP_F4 && r->group_rows == 1 &&
           r->zeros == TMI_ZEROS_NONE && r->scale == TMI_SCALE_ALONE && !r->scale_shared &&
           tenmap_dtype_bits(r->scale_dtype) == 8;
}

/*
 * Whether the codes of such rows are transposed first instead: each value of a row then has a scale
 * of its own.
 */
static bool transposes_f4_codes(const tmi_dequantizer *s) {
    return transposes_values(s) && tmi_cpu_kernels()->scale_by_powers &&
           s->layout->scale_dtype == TENMAP_F8_E8M0 && s->layout->columns % 8 == 0;
}

static bool transposes_packed_words(const tmi_dequantizer *s) {
    const tmi_quant_layout *r = s->layout;
    return (r->codes == TMI_CODES_DOWN || (r->codes == TMI_CODES_AWQ && r->code_bias == 0)) &&
           r->group_columns == 1 && r->zeros != TMI_ZEROS_ADDED;
}

/* Lines that are not a power of two apart fall into many cache sets. */
static size_t space_lines(size_t bytes) {
    return bytes % 256 ? bytes : bytes + 64;
}

/* Lays out words in a tile, and returns the bytes that they take in all. */
static size_t lay_out_words(const tmi_quant_layout *r, tmi_tile *t) {
    if (r->codes != TMI_CODES_DOWN) {
        t->skip = (unsigned)(t->column % 8);
        t->line = space_lines((t->wide + 7) / 8 * 4);
        return (t->skip + t->high + 7) / 8 * 8 * t->line;
    }
    /*
     * Begin with the word in which the first code begins. If codes cross words, begin at a multiple
     * of 32 codes, which fill whole words.
     */
    unsigned each = 32 % r->bits == 0 ? 32u / r->bits : 32;
    t->skip = (unsigned)(t->row % each);
    t->line = space_lines(((t->skip + t->wide) * r->bits + 31) / 32 * 4);
    return t->high * t->line;
}

/*
 * Reads the scales of a tile whose codes are transposed, as BF16: for each group along the stored
 * rows, one scale of each stored row. Sets *done if the kernel can use all of them.
 */
static tenmap_status read_transposed_powers(tmi_dequantizer *s, uint64_t matrix, bool *done,
                                            tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    const tmi_tile *t = &s->out.at;
    enum { AT_ONCE = 32, MOST_GROUPS = 64 };
    uint64_t first = t->column / r->group_columns;
    size_t groups = (size_t)((t->column + t->high - 1) / r->group_columns - first + 1);
    unsigned beyond = 0;
    unsigned char held[AT_ONCE * MOST_GROUPS] = {0};
    uint16_t line[AT_ONCE];
    if (groups > MOST_GROUPS || groups * t->wide * 2 > sizeof s->scale_bytes)
        return TENMAP_OK;
    for (size_t i = 0, n; i < t->wide; i += n) {
        n = t->wide - i < AT_ONCE ? t->wide - i : AT_ONCE;
        for (size_t k = 0; k < n; k++) {
            uint64_t at = (matrix * r->scale_rows + t->row + i + k) * r->scale_columns + first;
            const unsigned char *bytes;
            tenmap_status status = tmi_quant_bytes(s, TMI_PART_SCALES, at, groups, &bytes, error);
            if (status != TENMAP_OK)
                return status;
            if (s->parts[TMI_PART_SCALES].base)
                prefetch_rows(bytes + AT_ONCE * r->scale_columns, 0, 1, groups);
            memcpy(held + k * groups, bytes, groups);
        }
        for (size_t k = 0; k < n * groups; k++)
            beyond |= (unsigned char)(held[k] - 2) > 250;
        for (size_t g = 0; g < groups; g++) {
            for (size_t k = 0; k < AT_ONCE; k++)
                line[k] = (uint16_t)(held[k * groups + g] << 7);
            if (n == AT_ONCE)
                memcpy(s->scale_bytes + (g * t->wide + i) * 2, line, sizeof line);
            else
                memcpy(s->scale_bytes + (g * t->wide + i) * 2, line, n * 2);
        }
    }
    *done = !beyond;
    return TENMAP_OK;
}

tenmap_status tmi_transpose_tile(tmi_value_rows *rows, uint64_t matrix, const tmi_tile *tile,
                                 bool *done, tenmap_error *error) {
    enum { LEAST_SCALED_BY_POWERS = 32 }; /* shorter rows are better transposed as values */
    tmi_dequantizer *s = tmi_dequantizer_of(rows);
    s->out.at = *tile;
    *done = false;
    if (tile->wide > TMI_SOURCE_RUN || tile->high > TMI_SOURCE_RUN)
        return TENMAP_OK;
    if (transposes_f4_codes(s) && tile->wide >= LEAST_SCALED_BY_POWERS &&
        lay_out_words(s->layout, &s->out.at) <= sizeof s->out.tile) {
        tenmap_status status = read_transposed_powers(s, matrix, done, error);
        return status == TENMAP_OK && *done ? transpose_word_rows(s, matrix, error) : status;
    }
    if (!transposes_packed_words(s))
        return TENMAP_OK;
    tenmap_status status = find_tile_groups(s, error);
    if (status != TENMAP_OK || s->out.at.runs * tile->high > TMI_TILE_VALUES ||
        lay_out_words(s->layout, &s->out.at) > sizeof s->out.tile)
        return status;
    *done = true;
    status = transpose_scales(s, matrix, error);
    if (status != TENMAP_OK)
        return status;
    return s->layout->codes == TMI_CODES_DOWN ? transpose_word_columns(s, matrix, error)
                                              : transpose_word_rows(s, matrix, error);
}

/* Computes a row of the tensor in which each value has a scale of its own. */
static void scale_row_by_powers(tmi_dequantizer *s, size_t i, float *values,
                                tmi_destination *target) {
    const tmi_tile *t = &s->out.at;
    uint64_t columns = s->layout->group_columns;
    size_t group = (size_t)((t->column + i) / columns - t->column / columns);
    const unsigned char *line = s->out.tile + (t->skip + i) * t->line;
    tmi_cpu_kernels()->scale_by_powers(
        target ? (void *)target->dst : values, target ? target->as : TENMAP_F32, line,
        s->scale_bytes + group * t->wide * 2, t->wide, target ? target->flags : 0);
    if (target)
        target->done = true;
}

/*
 * A row of the tensor is a stream of bits. AWQ's begins with its line, GPTQ's may begin within a
 * word.
 */
void tmi_transposed_row(tmi_value_rows *rows, size_t i, float *values, tmi_destination *target) {
    tmi_dequantizer *s = tmi_dequantizer_of(rows);
    const tmi_quant_layout *r = s->layout;
    const tmi_tile *t = &s->out.at;
    if (r->codes == TMI_CODES_DTYPE) {
        scale_row_by_powers(s, i, values, target);
        return;
    }
    bool awq_order = r->codes == TMI_CODES_AWQ;
    size_t skip = awq_order ? 0 : t->skip;
    const unsigned char *line =
        s->out.tile + (awq_order ? t->skip + i : i) * t->line + skip * r->bits / 8;
    tmi_group_scales by = {s->out.stored + i * t->runs, s->out.transposed_f32 + i * t->runs,
                           t->first, t->group};
    tmi_dequant_fused *fused = tmi_cpu_kernels()->fused4;
    uint8_t fields[TMI_SOURCE_RUN];
    if (target && fused && r->bits == 4 && skip % 2 == 0) {
        tmi_fused_run run = {.codes = line,
                             .count = t->wide,
                             .table = s->table,
                             .scales = by.scales,
                             .zeros = r->zeros == TMI_ZEROS_NONE ? NULL : by.zeros,
                             .first = t->first,
                             .group = t->group};
        target->done = fused(target->dst, target->as, &run, target->flags);
        if (target->done)
            return;
    }
    tmi_unpack_stream(line, skip, t->wide, r->bits, fields);
    for (size_t k = 0; k < t->wide; k++)
        values[k] = (float)((int32_t)fields[k] - r->code_bias);
    tmi_apply_scales(r, &by, values, t->wide);
}

/*
 * Reads the scales of a tile's lines: *groups for each line, of which the first is that of the
 * first column. Sets *groups to 0 if they do not fit.
 */
static tenmap_status read_tile_scales(tmi_dequantizer *s, uint64_t matrix, const tmi_tile *t,
                                      size_t *groups, tenmap_error *error) {
    const tmi_quant_layout *r = s->layout;
    uint64_t first = t->column / r->group_columns;
    *groups = (size_t)((t->column + t->high - 1) / r->group_columns - first + 1);
    if (t->wide * *groups > TMI_TILE_VALUES) {
        *groups = 0;
        return TENMAP_OK;
    }
    for (size_t i = 0; i < t->wide; i++) {
        uint64_t at = (matrix * r->scale_rows + t->row + i) * r->scale_columns + first;
        const unsigned char *bytes;
        tenmap_status status = tmi_quant_bytes(s, TMI_PART_SCALES, at, *groups, &bytes, error);
        if (status != TENMAP_OK)
            return status;
        memcpy(s->scale_bytes + i * *groups, bytes, *groups);
    }
    tmi_convert_file((tmi_packed){TENMAP_F32, 0}, s->out.stored, (tmi_packed){r->scale_dtype, 0},
                     s->scale_bytes, *groups * t->wide, TENMAP_CONVERT_NO_STREAM);
    return TENMAP_OK;
}

tenmap_status tmi_tile_rows(tmi_value_rows *rows, uint64_t matrix, const tmi_tile *t,
                            tmi_destination *target, tenmap_error *error) {
    tmi_dequantizer *s = tmi_dequantizer_of(rows);
    const tmi_quant_layout *r = s->layout;
    tmi_dequant_fused *fused = tmi_cpu_kernels()->fused4;
    size_t groups = 0;
    if (!fused || !transposes_values(s) || t->column % 2)
        return TENMAP_OK;
    tenmap_status status = read_tile_scales(s, matrix, t, &groups, error);
    uint64_t head = r->group_columns - t->column % r->group_columns;
    tmi_fused_run run = {.count = t->high,
                         .table = s->table,
                         .kind = TMI_KIND_E2M1,
                         .first = head < t->high ? (size_t)head : t->high,
                         .group = (size_t)r->group_columns};
    target->done = status == TENMAP_OK && groups > 0;
    for (size_t i = 0; target->done && i < t->wide; i++) {
        uint64_t at = matrix * r->matrix_bytes + (t->row + i) * r->row_bytes + t->column / 2;
        status = tmi_quant_bytes(s, TMI_PART_VALUES, at, (t->high + 1) / 2, &run.codes, error);
        if (status == TENMAP_OK && s->parts[TMI_PART_VALUES].base)
            prefetch_rows(run.codes + 8 * r->row_bytes, (size_t)r->row_bytes, 1, t->high / 2);
        run.scales = s->out.stored + i * groups;
        target->done = status == TENMAP_OK && fused(target->dst + i * t->line, target->as, &run,
                                                    target->flags & TENMAP_CONVERT_SATURATE);
    }
    return status;
}

/*
 * How many stored rows of a tile fit into the windows of all parts that have rows of their own, so
 * that the next columns of the first row are still there after the last row. At least one: its
 * columns are read in order.
 */
static size_t rows_in_windows(const tmi_dequantizer *s) {
    enum { MOST_ROWS = 8 };
    const tmi_quant_layout *r = s->layout;
    uint64_t fit = r->row_bytes ? tmi_quant_window(s, TMI_PART_VALUES) / r->row_bytes : MOST_ROWS;
    fit = fit ? fit : 1;
    if (r->codes == TMI_CODES_DOWN) /* a row of words holds several stored rows */
        fit *= 32 / r->bits;
    uint64_t scales = r->scale_columns * tmi_dtype_width(r->scale_dtype);
    if (r->group_rows == 1 && scales && fit > tmi_quant_window(s, TMI_PART_SCALES) / scales)
        fit = tmi_quant_window(s, TMI_PART_SCALES) / scales;
    return fit > MOST_ROWS ? MOST_ROWS : fit ? (size_t)fit : 1;
}

/*
 * Tiles have long rows in the destination, each written in one piece, and take as much of each
 * stored row as the tile has room for: each stored row may be in a page of its own, and one cache
 * line from each takes as long as four. Tiles that are dequantized as they are stored take longer
 * pieces of stored rows.
 */
void tmi_choose_tile(tmi_dequantizer *s) {
    bool words = transposes_packed_words(s) || transposes_f4_codes(s), lines = transposes_values(s);
    s->out.wide = words ? 1024 : 256;
    s->out.high = words || lines ? 512 : 64;
    if (!s->parts[TMI_PART_VALUES].base) {
        s->out.wide = s->out.transposed ? rows_in_windows(s) : 1;
        s->out.high = TMI_SOURCE_RUN; /* so that reads along the stored rows are long */
    }
}
