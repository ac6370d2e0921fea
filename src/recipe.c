/*
 * The values of weights that are stored in parts: codes become numbers, scales and zero points what
 * their scheme says, and each step is one operation in F32. docs/quantized.md has the formulas.
 */
#include "values.h"
#include "source.h"
#include "kernels/kernels.h"

#include <string.h>

/* Files are little-endian. */
static uint32_t word_at(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Where the eight codes of a word are that AWQ's kernels want in this order. */
static const unsigned char mixed_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/* `count` fields of `bits` bits, from field `at` of a stream on. */
static void unpack_stream(const unsigned char *bytes, uint64_t at, size_t count, unsigned bits,
                          uint8_t *fields) {
    unsigned bit = (unsigned)(at * bits % 8), mask = (1u << bits) - 1;
    for (size_t i = 0; i < count; i++, bit += bits) {
        const unsigned char *b = bytes + bit / 8;
        unsigned low = bit % 8, two = b[0] | (low + bits > 8 ? (unsigned)b[1] << 8 : 0);
        fields[i] = (uint8_t)(two >> low & mask);
    }
}

static void unpack_words(const unsigned char *words, uint64_t at, size_t count, unsigned bits,
                         uint8_t *fields) {
    unsigned each = 32 / bits, place = (unsigned)(at % each), mask = (1u << bits) - 1;
    for (size_t i = 0; i < count; i++) {
        fields[i] = (uint8_t)(word_at(words) >> place * bits & mask);
        if (++place == each) {
            place = 0;
            words += 4;
        }
    }
}

static void unpack_mixed(const unsigned char *words, uint64_t at, size_t count, uint8_t *fields) {
    unsigned place = (unsigned)(at % 8);
    for (size_t i = 0; i < count; i++) {
        fields[i] = (uint8_t)(word_at(words) >> mixed_order[place] * 4 & 15);
        if (++place == 8) {
            place = 0;
            words += 4;
        }
    }
}

/* The same field of each word of a row, whose other bits may be in the words of the next row. */
static void unpack_down(const unsigned char *words, const unsigned char *next, size_t count,
                        unsigned low, unsigned bits, uint8_t *fields) {
    unsigned mask = (1u << bits) - 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t field = word_at(words + 4 * i) >> low;
        if (low + bits > 32)
            field |= word_at(next + 4 * i) << (32 - low);
        fields[i] = (uint8_t)(field & mask);
    }
}

/* Which bytes of the row hold fields [at, at+count): the first, and how many. */
static size_t field_bytes(const tmi_recipe *r, uint64_t at, size_t count, uint64_t *first) {
    unsigned each = 32 / r->bits;
    if (r->codes == TMI_CODES_STREAM) {
        *first = at * r->bits / 8;
        return (size_t)(((at + count) * r->bits + 7) / 8 - *first);
    }
    *first = at / each * 4;
    return (size_t)((at + count - 1) / each * 4 + 4 - *first);
}

/* Codes that go down the columns: the fields of row `row` are in one or two rows of words. */
static tenmap_status fetch_down(tmi_source *s, unsigned part, uint64_t matrix_at, uint64_t stride,
                                uint64_t row, uint64_t column, size_t count, uint8_t *fields,
                                tenmap_error *error) {
    unsigned bits = s->recipe->bits, low = (unsigned)(row * bits % 32);
    uint64_t at = matrix_at + row * bits / 32 * stride + column * 4;
    unsigned char held[TMI_SOURCE_RUN * 4];
    const unsigned char *words, *next = NULL;
    tenmap_status status = tmi_source_bytes(s, part, at, count * 4, &words, error);
    if (status == TENMAP_OK && low + bits > 32) {
        memcpy(held, words, count * 4); /* the window moves on */
        words = held;
        status = tmi_source_bytes(s, part, at + stride, count * 4, &next, error);
    }
    if (status == TENMAP_OK)
        unpack_down(words, next, count, low, bits, fields);
    return status;
}

/* Unsigned codes of a row. */
static tenmap_status fetch_fields(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                                  size_t count, uint8_t *fields, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    uint64_t at = matrix * r->matrix_bytes, first;
    const unsigned char *bytes;
    if (r->codes == TMI_CODES_DOWN)
        return fetch_down(s, TMI_PART_VALUES, at, r->row_bytes, row, column, count, fields, error);
    size_t size = field_bytes(r, column, count, &first);
    tenmap_status status =
        tmi_source_bytes(s, TMI_PART_VALUES, at + row * r->row_bytes + first, size, &bytes, error);
    if (status != TENMAP_OK)
        return status;
    if (r->codes == TMI_CODES_STREAM)
        unpack_stream(bytes, column, count, r->bits, fields);
    else if (r->codes == TMI_CODES_WORDS)
        unpack_words(bytes, column, count, r->bits, fields);
    else
        unpack_mixed(bytes, column, count, fields);
    return TENMAP_OK;
}

static tenmap_status fetch_table(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                                 size_t count, float *values, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    const unsigned char *bytes;
    uint64_t at = matrix * r->matrix_bytes + row * r->row_bytes + column / 2;
    size_t odd = (size_t)(column % 2);
    tenmap_status status =
        tmi_source_bytes(s, TMI_PART_VALUES, at, (odd + count + 1) / 2, &bytes, error);
    for (size_t i = 0; status == TENMAP_OK && i < count; i++) {
        unsigned both = bytes[(odd + i) / 2];
        values[i] = s->table[(odd + i) % 2 ? both & 15 : both >> 4];
    }
    return status;
}

/* Elements of a dtype that may be narrower than a byte, or lie in blocks. */
static tenmap_status fetch_dtype(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                                 size_t count, float *values, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    unsigned within;
    uint64_t at = tmi_byte_of(r->code_dtype, column, &within);
    uint64_t end = tmi_bytes_of(r->code_dtype, column + count);
    const unsigned char *bytes;
    tenmap_status status =
        tmi_source_bytes(s, TMI_PART_VALUES, matrix * r->matrix_bytes + row * r->row_bytes + at,
                         (size_t)(end - at), &bytes, error);
    if (status != TENMAP_OK)
        return status;
    tmi_elements to = {TENMAP_F32, 0, !TMI_BIG_ENDIAN};
    tmi_elements from = {r->code_dtype, within, true};
    tmi_route(to, values, from, bytes, count, TENMAP_CONVERT_NO_STREAM);
    return TENMAP_OK;
}

/* Codes of 4 bits that begin at a byte. */
static tenmap_status fetch_nibbles(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                                   size_t count, float *values, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    const tmi_kernels *k = tmi_cpu_kernels();
    const unsigned char *bytes = NULL;
    tenmap_status status = tmi_source_bytes(
        s, TMI_PART_VALUES, matrix * r->matrix_bytes + row * r->row_bytes + column / 2,
        (count + 1) / 2, &bytes, error);
    if (status == TENMAP_OK)
        (k->nibbles ? k->nibbles : tmi_plain_nibbles)(values, bytes, count, r->less);
    return status;
}

static tenmap_status fetch_codes(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                                 size_t count, float *values, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    uint8_t fields[TMI_SOURCE_RUN];
    if (r->codes == TMI_CODES_DTYPE)
        return fetch_dtype(s, matrix, row, column, count, values, error);
    if (r->codes == TMI_CODES_TABLE)
        return fetch_table(s, matrix, row, column, count, values, error);
    if (r->codes == TMI_CODES_STREAM && r->bits == 4 && column % 2 == 0)
        return fetch_nibbles(s, matrix, row, column, count, values, error);
    tenmap_status status = fetch_fields(s, matrix, row, column, count, fields, error);
    for (size_t i = 0; status == TENMAP_OK && i < count; i++)
        values[i] = (float)((int32_t)fields[i] - r->less);
    return status;
}

/* Scales. */

/* The number of the group that a row or a column is in, where the model lists them. */
static tenmap_status listed_groups(tmi_source *s, uint64_t first, size_t count, uint64_t groups,
                                   tenmap_error *error) {
    const unsigned char *bytes;
    tenmap_status status =
        tmi_source_bytes(s, TMI_PART_GROUPS, first * 4, count * 4, &bytes, error);
    for (size_t i = 0; status == TENMAP_OK && i < count; i++) {
        s->groups[i] = word_at(bytes + 4 * i);
        if (s->groups[i] >= groups)
            return TMI_FAIL_TENSOR(error, TENMAP_ERR_FORMAT, s->parts[TMI_PART_GROUPS].tensor,
                                   "its element %llu is %lld, but there are only %llu groups of "
                                   "scales",
                                   (ull)(first + i), (long long)(int32_t)s->groups[i], (ull)groups);
    }
    return status;
}

/* Scales that are quantised themselves: table[code] * nested + offset, each operation rounded. */
static tenmap_status nested_scales(tmi_source *s, uint64_t first, size_t count, float *out,
                                   tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    float *nested = s->kept.zeros; /* such schemes have no zero points */
    const unsigned char *codes;
    uint64_t block = first / r->nested_block;
    size_t blocks = (size_t)((first + count - 1) / r->nested_block - block + 1);
    tenmap_status status =
        tmi_source_floats(s, TMI_PART_NESTED_SCALES, TENMAP_F32, block, blocks, nested, error);
    if (status == TENMAP_OK)
        status = tmi_source_bytes(s, TMI_PART_SCALES, first, count, &codes, error);
    if (status != TENMAP_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        out[i] = s->nested_table[codes[i]];
    tmi_grouped_times(out, count, nested, (size_t)(r->nested_block - first % r->nested_block),
                      (size_t)r->nested_block);
    tmi_grouped_plus(out, count, &r->offset, count, count);
    return TENMAP_OK;
}

/* The scale of the scales; of each matrix its own where there is one for each. */
static tenmap_status take_second(tmi_source *s, uint64_t matrix, tenmap_error *error) {
    const tenmap_tensor *second = s->parts[TMI_PART_SECOND].tensor;
    uint64_t which = second->nelems == 1 ? 0 : matrix;
    if (s->second_of == which)
        return TENMAP_OK;
    s->second_of = which;
    return tmi_source_floats(s, TMI_PART_SECOND, second->dtype, which, 1, &s->second, error);
}

/* One division each: a divisor that might change keeps -ffast-math from multiplying by 1/by. */
static TMI_NOINLINE void divide_all(float *values, size_t count, float by) {
    volatile float divisor = by;
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] / divisor;
}

/* Scales [first, first+count) of all, as the values are multiplied with them. */
static tenmap_status take_scales(tmi_source *s, uint64_t matrix, uint64_t first, size_t count,
                                 float *out, tenmap_error *error) {
    static const float over_127 = 1.0f / 127.0f;
    const tmi_recipe *r = s->recipe;
    if (r->scale == TMI_SCALE_NESTED)
        return nested_scales(s, first, count, out, error);
    tenmap_status status =
        tmi_source_floats(s, TMI_PART_SCALES, r->scale_dtype, first, count, out, error);
    if (status == TENMAP_OK && (r->scale == TMI_SCALE_TIMES || r->scale == TMI_SCALE_OVER))
        status = take_second(s, matrix, error);
    if (status != TENMAP_OK)
        return status;
    if (r->scale == TMI_SCALE_TIMES)
        tmi_grouped_times(out, count, &s->second, count, count);
    else if (r->scale == TMI_SCALE_OVER)
        divide_all(out, count, s->second);
    else if (r->scale == TMI_SCALE_127)
        tmi_grouped_times(out, count, &over_127, count, count);
    return TENMAP_OK;
}

/* Packed zero points along a row of scales, as the codes of a row are packed. */
static tenmap_status zeros_along(tmi_source *s, uint64_t row, uint64_t column, size_t count,
                                 uint8_t *fields, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    bool mixed = r->codes == TMI_CODES_MIXED;
    uint64_t row_bytes = (r->scale_columns * r->bits + 31) / 32 * 4, first = 0;
    uint64_t last = (column + count) * r->bits;
    const unsigned char *bytes;
    first = mixed ? column / 8 * 4 : column * r->bits / 8;
    uint64_t end = mixed ? (column + count + 7) / 8 * 4 : (last + 7) / 8;
    tenmap_status status = tmi_source_bytes(s, TMI_PART_ZEROS, row * row_bytes + first,
                                            (size_t)(end - first), &bytes, error);
    if (status != TENMAP_OK)
        return status;
    if (mixed)
        unpack_mixed(bytes, column, count, fields);
    else
        unpack_stream(bytes, column, count, r->bits, fields);
    for (size_t i = 0; r->zero_plus_one && i < count; i++)
        fields[i] = (uint8_t)((fields[i] + 1u) & ((1u << r->bits) - 1));
    return TENMAP_OK;
}

/* The zero points, or what is added, of scales [column, column+count) of row `row` of them. */
static tenmap_status take_zero_points(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                                      size_t count, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    uint8_t fields[TMI_SOURCE_RUN + 1];
    uint64_t at =
        ((r->scale_shared ? 0 : matrix * r->scale_rows) + row) * r->scale_columns + column;
    float *zeros = s->kept.zeros;
    if (r->zeros == TMI_ZEROS_DTYPE || r->zeros == TMI_ZEROS_ADDED)
        return tmi_source_floats(s, TMI_PART_ZEROS, s->parts[TMI_PART_ZEROS].tensor->dtype, at,
                                 count, zeros, error);
    tenmap_status status;
    if (r->zeros == TMI_ZEROS_ALONG) {
        status = zeros_along(s, matrix * r->scale_rows + row, column, count, fields, error);
    } else {
        uint64_t words = (r->scale_rows * r->bits + 31) / 32, stride = r->scale_columns * 4;
        status = fetch_down(s, TMI_PART_ZEROS, matrix * words * stride, stride, row, column, count,
                            fields, error);
    }
    for (size_t i = 0; status == TENMAP_OK && i < count; i++)
        zeros[i] = (float)((int32_t)fields[i] - r->less);
    return status;
}

/* Makes s->kept those of scales [first, first+count) of row `row`. */
static tenmap_status keep_scales(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t first,
                                 size_t count, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    tmi_scales *kept = &s->kept;
    uint64_t all_rows = matrix * r->scale_rows + row;
    uint64_t at = (r->scale_shared ? row : all_rows) * r->scale_columns + first;
    if (kept->count && kept->row == all_rows && kept->first == first && kept->count >= count)
        return TENMAP_OK;
    kept->count = 0;
    tenmap_status status = take_scales(s, matrix, at, count, kept->scales, error);
    if (status == TENMAP_OK && r->zeros != TMI_ZEROS_NONE)
        status = take_zero_points(s, matrix, row, first, count, error);
    if (status != TENMAP_OK)
        return status;
    kept->row = all_rows;
    kept->first = first;
    kept->count = count;
    return TENMAP_OK;
}

/* Values: codes with those that are kept, from number `at` on, `first` of them with that one. */
static void apply_scales(tmi_source *s, size_t at, float *values, size_t count, size_t first,
                         size_t group) {
    const tmi_kernels *k = tmi_cpu_kernels(), *plain = &tmi_kernels_scalar;
    tmi_grouped *times = k->times ? k->times : plain->times;
    const float *scales = s->kept.scales + at, *zeros = s->kept.zeros + at;
    if (s->recipe->zeros == TMI_ZEROS_ADDED) {
        times(values, count, scales, first, group);
        (k->plus ? k->plus : plain->plus)(values, count, zeros, first, group);
        return;
    }
    if (s->recipe->zeros != TMI_ZEROS_NONE)
        (k->minus ? k->minus : plain->minus)(values, count, zeros, first, group);
    times(values, count, scales, first, group);
}

/* Columns whose groups are listed: each value has a scale of its own. */
static tenmap_status scale_listed(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                                  size_t count, float *values, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    tenmap_status status = listed_groups(s, column, count, r->scale_columns, error);
    for (size_t i = 0; status == TENMAP_OK && i < count; i++) {
        size_t same = 1;
        while (i + same < count && s->groups[i + same] == s->groups[i])
            same++;
        status = keep_scales(s, matrix, row / r->group_rows, s->groups[i], 1, error);
        if (status == TENMAP_OK)
            apply_scales(s, 0, values + i, same, same, same);
        i += same - 1;
    }
    return status;
}

static tenmap_status make_row(tmi_source *s, uint64_t matrix, uint64_t row, uint64_t column,
                              size_t count, float *values, tenmap_error *error) {
    const tmi_recipe *r = s->recipe;
    bool listed = s->parts[TMI_PART_GROUPS].tensor != NULL;
    tenmap_status status = fetch_codes(s, matrix, row, column, count, values, error);
    if (status == TENMAP_OK && listed && !r->transposed)
        return scale_listed(s, matrix, row, column, count, values, error);
    uint64_t scale_row = row / r->group_rows, first = column / r->group_columns;
    uint64_t last = (column + count - 1) / r->group_columns;
    if (status == TENMAP_OK && listed) {
        status = listed_groups(s, row, 1, r->scale_rows, error);
        scale_row = s->groups[0];
    }
    /* What several rows share is taken whole, where it fits. */
    bool whole = r->group_rows > 1 && r->scale_columns <= TMI_SOURCE_RUN;
    if (status == TENMAP_OK)
        status = keep_scales(s, matrix, scale_row, whole ? 0 : first,
                             (size_t)(whole ? r->scale_columns : last - first + 1), error);
    if (status != TENMAP_OK)
        return status;
    uint64_t head = r->group_columns - column % r->group_columns;
    apply_scales(s, (size_t)(whole ? first : 0), values, count, head < count ? (size_t)head : count,
                 r->group_columns < count ? (size_t)r->group_columns : count);
    return TENMAP_OK;
}

/* The shape that a weight's own tensor tells must be the one that its parts make. */
static tenmap_status check_shape(tmi_source *s, tenmap_error *error) {
    const tenmap_tensor *shape = s->parts[TMI_PART_SHAPE].tensor, *t = s->tensor;
    size_t width = shape->dtype == TENMAP_I64 ? 8 : 4;
    const unsigned char *bytes;
    tenmap_status status =
        tmi_source_bytes(s, TMI_PART_SHAPE, 0, (size_t)shape->nbytes, &bytes, error);
    for (uint32_t d = 0; status == TENMAP_OK && d < t->rank; d++) {
        uint64_t said =
            width == 8 ? tmi_file_u64(bytes + 8 * (size_t)d) : word_at(bytes + 4 * (size_t)d);
        if (said != t->shape[d])
            return TMI_FAIL_TENSOR(
                error, TENMAP_ERR_FORMAT, t,
                "its parts make it %s, but its part %s says %llu in dimension %u",
                tmi_shape_text(t->shape, t->rank).text,
                tmi_quote(shape->name, shape->name_len).text, (ull)said, (unsigned)d);
    }
    return status;
}

static tenmap_status begin_recipe(tmi_source *s, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    s->kept.count = 0;
    s->second_of = UINT64_MAX;
    if (s->parts[TMI_PART_SHAPE].tensor)
        status = check_shape(s, error);
    if (status == TENMAP_OK && s->parts[TMI_PART_TABLE].tensor)
        status = tmi_source_floats(s, TMI_PART_TABLE, TENMAP_F32, 0, 16, s->table, error);
    if (status == TENMAP_OK && s->parts[TMI_PART_NESTED_TABLE].tensor)
        status =
            tmi_source_floats(s, TMI_PART_NESTED_TABLE, TENMAP_F32, 0, 256, s->nested_table, error);
    return status;
}

const tmi_maker tmi_recipe_maker = {begin_recipe, make_row};
