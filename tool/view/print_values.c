/* Formats tensor elements as text, and prints arrays as numpy does. */
#include "view/print_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/json_out.h"

/* Deeper arrays are not laid out; one value per line still works for them. */
enum { MAX_SHOWN_RANK = 32, ROW_BLOCK = 1024, MAX_ELEMENT = 8 };

tenmap_dtype shown_dtype(tenmap_dtype stored) {
    bool narrow = tenmap_dtype_kind(stored) == TENMAP_KIND_FLOAT && tenmap_dtype_bits(stored) < 32;
    return narrow ? TENMAP_F32 : stored;
}

/* 0 where the library gives no size: it refuses to read or convert such elements, too. */
static size_t bytes_of_elements(tenmap_dtype dtype, uint64_t count) {
    uint64_t bytes = 0;
    (void)tenmap_dtype_bytes(dtype, count, &bytes);
    return (size_t)bytes;
}

tenmap_status read_shown(const tensor_block *block, tenmap_dtype as, void *dst,
                         tenmap_error *error) {
    tenmap_dtype target = as ? as : block->tensor->dtype, shown = shown_dtype(target);
    size_t count = (size_t)block->count;
    size_t bytes = bytes_of_elements(shown, count);
    if (shown == target || target == block->tensor->dtype)
        return tenmap_read_slice(block->tensor, block->begin, block->end, shown, dst, bytes, 0,
                                 error);
    size_t room = bytes_of_elements(target, count);
    void *rounded = need(room, 1);
    tenmap_status status =
        tenmap_read_slice(block->tensor, block->begin, block->end, target, rounded, room, 0, error);
    if (status == TENMAP_OK)
        status = tenmap_convert(shown, dst, bytes, target, rounded, count, 0, error);
    free(rounded);
    return status;
}

/* With `single`, the text need only read back as the same float. */
static void add_real(text *t, double value, bool single, unsigned digits) {
    char out[40];
    int first = digits ? (int)digits : single ? 6 : 15;
    int last = digits ? first : single ? 9 : 17;
    if (isnan(value)) {
        text_addf(t, "nan");
        return;
    }
    for (int precision = first; precision <= last; precision++) {
        snprintf(out, sizeof out, "%.*g", precision, value);
        if (single ? strtof(out, NULL) == (float)value : strtod(out, NULL) == value)
            break;
    }
    text_add(t, out, strlen(out));
}

static double real_of(tenmap_dtype dtype, const void *element, size_t which) {
    float narrow;
    double wide;
    if (dtype == TENMAP_F64) {
        memcpy(&wide, element, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)element + which * sizeof narrow, sizeof narrow);
    return (double)narrow;
}

/* The element sign-extended, or zero-extended for unsigned dtypes. */
static uint64_t integer_of(tenmap_dtype dtype, const void *element) {
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
    } v;
    memcpy(&v, element, bytes_of_elements(dtype, 1));
    switch (dtype) {
    case TENMAP_I8:
        return (uint64_t)(int64_t)v.i8;
    case TENMAP_I16:
        return (uint64_t)(int64_t)v.i16;
    case TENMAP_I32:
        return (uint64_t)(int64_t)v.i32;
    case TENMAP_U16:
        return v.u16;
    case TENMAP_U32:
        return v.u32;
    case TENMAP_I64:
    case TENMAP_U64:
        return v.u64;
    default:
        return v.u8;
    }
}

static bool is_signed(tenmap_dtype dtype) {
    return dtype == TENMAP_I8 || dtype == TENMAP_I16 || dtype == TENMAP_I32 || dtype == TENMAP_I64;
}

static bool is_real(tenmap_dtype dtype) {
    return dtype == TENMAP_F32 || dtype == TENMAP_F64;
}

void text_add_value(text *t, tenmap_dtype dtype, const void *element, unsigned digits) {
    if (is_real(dtype)) {
        add_real(t, real_of(dtype, element, 0), dtype == TENMAP_F32, digits);
    } else if (dtype == TENMAP_C64) {
        double imaginary = real_of(dtype, element, 1);
        add_real(t, real_of(dtype, element, 0), true, digits);
        text_add(t, signbit(imaginary) && !isnan(imaginary) ? "" : "+",
                 signbit(imaginary) && !isnan(imaginary) ? 0 : 1);
        add_real(t, imaginary, true, digits);
        text_add(t, "j", 1);
    } else if (dtype == TENMAP_BOOL) {
        text_addf(t, "%s", integer_of(dtype, element) ? "true" : "false");
    } else {
        uint64_t number = integer_of(dtype, element);
        bool negative = is_signed(dtype) && number >> 63;
        text_add(t, "-", negative);
        text_add_number(t, negative ? 0 - number : number);
    }
}

void json_value(tenmap_dtype dtype, const void *element) {
    if (is_real(dtype)) {
        json_real(real_of(dtype, element, 0));
    } else if (dtype == TENMAP_C64) {
        json_open('[', true);
        json_real(real_of(dtype, element, 0));
        json_real(real_of(dtype, element, 1));
        json_close();
    } else if (dtype == TENMAP_BOOL) {
        json_bool(integer_of(dtype, element) != 0);
    } else if (is_signed(dtype)) {
        json_int((int64_t)integer_of(dtype, element));
    } else {
        json_uint(integer_of(dtype, element));
    }
}

/*
 * The layout visits everything that is shown twice: first to measure the cells, then to print them.
 * So memory does not depend on the number of elements.
 */
typedef struct layout_run {
    const tenmap_tensor *tensor;
    const slice *of;
    const value_layout *how;
    tenmap_dtype dtype;
    uint64_t *begin, *end; /* the block to read */
    bool measuring;
    size_t before, after; /* columns left of the decimal point, and from the point on */
    size_t width, column; /* of the line; column of the next cell */
    size_t gap;           /* spaces before the next cell if it is on this line */
    text cell;
    char elements[ROW_BLOCK * MAX_ELEMENT];
    tenmap_error error;
} layout_run;

/* Columns before a number's decimal point; words and whole numbers count in full. */
static size_t point_place(const text *cell) {
    size_t n = strcspn(cell->bytes, ".");
    size_t exponent = strcspn(cell->bytes, "e");
    return n == cell->len && exponent < n && cell->bytes[0] != 't' && cell->bytes[0] != 'f'
               ? exponent
               : n;
}

static void line_break(layout_run *r) {
    printf("\n%*s", (int)r->of->out_rank, "");
    r->column = r->of->out_rank;
    r->gap = 0;
}

static void put_value(layout_run *r, const void *element, bool last) {
    text_clear(&r->cell);
    text_add_value(&r->cell, r->dtype, element, r->how->digits);
    size_t place = point_place(&r->cell), rest = r->cell.len - place;
    if (r->measuring) {
        r->before = place > r->before ? place : r->before;
        r->after = rest > r->after ? rest : r->after;
        return;
    }
    if (r->column > r->of->out_rank && r->column + r->before + r->after + 2 > r->width)
        line_break(r);
    printf("%*s%s%s", (int)(r->gap + r->before - place), "", r->cell.bytes, last ? "" : ",");
    r->gap = last ? 0 : r->after - rest + 1;
    r->column += r->before + r->after + 2;
}

static void put_dots(layout_run *r, size_t gap) {
    if (r->measuring)
        return;
    printf("%*s…", (int)r->gap, "");
    r->gap = gap;
    r->column += 1 + gap;
}

/* Prints elements [from, to) of the innermost dimension, at the position in begin and end. */
static tenmap_status put_elements(layout_run *r, uint32_t dim, uint64_t from, uint64_t to,
                                  bool last) {
    size_t size = bytes_of_elements(r->dtype, 1);
    for (uint64_t at = from; at < to;) {
        uint64_t n = to - at < ROW_BLOCK ? to - at : ROW_BLOCK;
        r->begin[dim] = at;
        r->end[dim] = at + n;
        tensor_block block = {r->tensor, r->begin, r->end, n};
        tenmap_status status = read_shown(&block, r->how->as, r->elements, &r->error);
        if (status != TENMAP_OK)
            return status;
        for (uint64_t i = 0; i < n; i++)
            put_value(r, r->elements + i * size, last && at + i + 1 == to);
        at += n;
    }
    return interrupted() ? TENMAP_ERR_CANCELLED : TENMAP_OK;
}

static tenmap_status put_dimension(layout_run *r, uint32_t out);

static void between_rows(layout_run *r, uint32_t out) {
    if (r->measuring)
        return;
    putchar(',');
    for (uint32_t i = out + 1; i < r->of->out_rank; i++)
        putchar('\n');
    printf("%*s", (int)out + 1, "");
}

/*
 * Prints items [from, to) of one dimension; each except the very last is followed by a separator.
 */
static tenmap_status put_items(layout_run *r, uint32_t out, uint64_t from, uint64_t to, bool last) {
    uint32_t dim = r->of->out_dim[out];
    tenmap_status status = TENMAP_OK;
    if (out + 1 == r->of->out_rank)
        return put_elements(r, dim, from, to, last);
    for (uint64_t i = from; i < to && status == TENMAP_OK; i++) {
        r->begin[dim] = i;
        r->end[dim] = i + 1;
        status = put_dimension(r, out + 1);
        if (!(last && i + 1 == to))
            between_rows(r, out);
    }
    return status;
}

static tenmap_status put_dimension(layout_run *r, uint32_t out) {
    uint32_t dim = r->of->out_dim[out];
    uint64_t begin = r->of->begin[dim], end = r->of->end[dim], edge = r->how->edge;
    bool innermost = out + 1 == r->of->out_rank;
    tenmap_status status;
    if (!r->measuring)
        putchar('[');
    if (innermost)
        r->column = r->of->out_rank;
    if (!edge || end - begin <= 2 * edge) {
        status = put_items(r, out, begin, end, true);
    } else {
        status = put_items(r, out, begin, begin + edge, false);
        put_dots(r, innermost ? 2 : 0);
        if (!innermost)
            between_rows(r, out);
        if (status == TENMAP_OK)
            status = put_items(r, out, end - edge, end, true);
    }
    if (!r->measuring)
        putchar(']');
    return status;
}

/*
 * Prints [] if there are no elements, as numpy does: dimensions beside a 0 may be arbitrarily
 * large.
 */
static tenmap_status put_all(layout_run *r) {
    if (!r->of->count) {
        printf(r->measuring ? "" : "[]");
        return TENMAP_OK;
    }
    memcpy(r->begin, r->of->begin, r->of->rank * sizeof *r->begin);
    memcpy(r->end, r->of->end, r->of->rank * sizeof *r->end);
    if (r->of->out_rank)
        return put_dimension(r, 0);
    tensor_block block = {r->tensor, r->begin, r->end, 1};
    tenmap_status status = read_shown(&block, r->how->as, r->elements, &r->error);
    if (status == TENMAP_OK)
        put_value(r, r->elements, true);
    return status;
}

int values_print(const tenmap_tensor *tensor, const slice *s, const value_layout *layout) {
    if (s->out_rank > MAX_SHOWN_RANK)
        return fail(EXIT_FAILED, "%u dimensions are too many for a layout; --raw-values shows them",
                    s->out_rank);
    layout_run *r = need(1, sizeof *r);
    r->tensor = tensor;
    r->of = s;
    r->how = layout;
    r->dtype = shown_dtype(layout->as ? layout->as : tensor->dtype);
    r->begin = need(s->rank, sizeof *r->begin);
    r->end = need(s->rank, sizeof *r->end);
    r->width = print_width() ? print_width() : 80;
    r->measuring = true;
    tenmap_status status = put_all(r);
    r->measuring = false;
    if (status == TENMAP_OK)
        status = put_all(r);
    if (status == TENMAP_OK)
        putchar('\n');
    int code = status == TENMAP_OK              ? EXIT_FINE
               : status == TENMAP_ERR_CANCELLED ? fail(EXIT_INTERRUPTED, "interrupted")
                                                : fail_error(&r->error);
    text_free(&r->cell);
    free(r->begin);
    free(r->end);
    free(r);
    return code;
}
