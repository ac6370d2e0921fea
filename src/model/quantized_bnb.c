/*
 * NF4 and FP4 of bitsandbytes: two codes per byte, the high half first, over all elements of the
 * weight in order. A table gives the value of each code, and a tensor that holds JSON describes the
 * layout.
 */
#include "model.h"
#include "quantized.h"

#include <stdlib.h>
#include <string.h>

typedef struct bnb_state {
    uint64_t block, nested_block;
    double offset;
    bool offset_wrong; /* it is not a number */
    tenmap_dtype dtype;
    tmi_part_finder *finder;
    uint64_t *shape;     /* in the model's room for shapes, */
    uint32_t rank, room; /* which holds this many extents */
    char kind[8];        /* quant_type; "" if not given */
} bnb_state;

/* Appends the digits from text.bytes[*at] on to *value. False if there are none. */
static bool take_digits(tmi_text text, size_t *at, double *value) {
    size_t first = *at;
    for (; *at < text.len && text.bytes[*at] >= '0' && text.bytes[*at] <= '9'; ++*at)
        *value = *value * 10 + (text.bytes[*at] - '0');
    return *at > first;
}

/* Passes the next character if it is one of these. */
static bool take_one_of(tmi_text text, size_t *at, char one, char other) {
    bool is = *at < text.len && (text.bytes[*at] == one || text.bytes[*at] == other);
    *at += is;
    return is;
}

/*
 * Parses a JSON number; false if the text is not one. The number was a float before it was written,
 * so errors in the last bits of the double are rounded away. Beyond 10^300 in either direction the
 * result is 0 or infinite as a float.
 */
static bool decimal(tmi_text text, double *value) {
    enum { MOST_POWER = 10000 };
    size_t at = 0, point;
    int exponent = 0;
    double power = 0, scale = 1;
    bool negative = take_one_of(text, &at, '-', '-');
    *value = 0;
    if (!take_digits(text, &at, value))
        return false;
    point = at;
    if (take_one_of(text, &at, '.', '.')) {
        if (!take_digits(text, &at, value))
            return false;
        exponent = -(int)(at - point - 1);
    }
    if (take_one_of(text, &at, 'e', 'E')) {
        bool down = take_one_of(text, &at, '-', '+') && text.bytes[at - 1] == '-';
        if (!take_digits(text, &at, &power))
            return false;
        int steps = power < (double)MOST_POWER ? (int)power : MOST_POWER;
        exponent += down ? -steps : steps;
    }
    for (int n = exponent < 0 ? -exponent : exponent; n > 0 && scale < 1e300; n--)
        scale *= 10;
    *value = exponent < 0 ? *value / scale : *value * scale;
    *value = negative ? -*value : *value;
    return at == text.len;
}

/* Doubles the room for the shape when it is full. False if out of memory. */
static bool add_extent(bnb_state *state, uint64_t extent) {
    enum { FIRST_ROOM = 4 };
    if (state->rank == state->room) {
        uint32_t room = state->room ? 2 * state->room : FIRST_ROOM;
        uint64_t *shape = tmi_shape_room(state->finder, room);
        if (!shape)
            return false;
        if (state->rank)
            memcpy(shape, state->shape, state->rank * sizeof *shape);
        state->shape = shape;
        state->room = room;
    }
    state->shape[state->rank++] = extent;
    return true;
}

static bool read_bnb_shape(tmi_json *json, bnb_state *state) {
    if (!tmi_json_take(json, '['))
        return tmi_json_skip(json, 1);
    for (state->rank = 0; tmi_json_peek(json) != ']';) {
        tmi_text text;
        if (!tmi_json_scalar(json, 2, &text) || !add_extent(state, tmi_text_number(text)))
            return false;
        if (!tmi_json_take(json, ',') && tmi_json_peek(json) != ']')
            return tmi_json_fail(json, "expected ',' or ']'");
    }
    json->at++;
    return true;
}

static bool read_bnb_member(tmi_json *json, tmi_text key, void *ctx) {
    bnb_state *state = ctx;
    tmi_text text;
    if (tmi_text_is(key, "shape"))
        return read_bnb_shape(json, state);
    if (!tmi_json_scalar(json, 1, &text))
        return false;
    if (tmi_text_is(key, "blocksize"))
        state->block = tmi_text_number(text);
    else if (tmi_text_is(key, "nested_blocksize"))
        state->nested_block = tmi_text_number(text);
    else if (tmi_text_is(key, "nested_offset"))
        state->offset_wrong = !decimal(text, &state->offset);
    else if (tmi_text_is(key, "dtype"))
        state->dtype = tmi_text_dtype(text);
    else if (tmi_text_is(key, "quant_type"))
        tmi_text_copy(state->kind, sizeof state->kind, text);
    return true;
}

static bool read_bnb_state(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *note,
                           bnb_state *state) {
    tmi_block text = {NULL, 0};
    size_t length = note->nbytes < 65536 ? (size_t)note->nbytes : 65536;
    if (!tmi_block_alloc(&text, length + TMI_JSON_PAD)) {
        f->status = tmi_fail_memory(f->error, length, "the state of a weight");
        return false;
    }
    bool good = tmi_part_read(f, t, note, text.bytes, length);
    if (good && !tmi_annotation_parse(text, length, read_bnb_member, state))
        good = f->status == TENMAP_OK &&
               TMI_PART_WRONG(f, t, note, "expected JSON with blocksize and shape");
    tmi_block_free(&text);
    return good;
}

static bool is_table(const tenmap_tensor *t, uint64_t entries) {
    return t->dtype == TENMAP_F32 && t->nelems == entries;
}

/* The scales of blocks, which may be quantized themselves. */
static bool find_absmax(tmi_part_finder *f, const tenmap_tensor *t, const bnb_state *state,
                        uint64_t blocks, tmi_quant_weight *c) {
    const tenmap_tensor *absmax = c->parts[TMI_PART_SCALES];
    const tenmap_tensor *nested = tmi_find_part(f, t, 0, ".nested_absmax");
    const tenmap_tensor *table = tmi_find_part(f, t, 0, ".nested_quant_map");
    if (f->status != TENMAP_OK)
        return false;
    bool codes = absmax->dtype == TENMAP_U8;
    if (absmax->nelems != blocks || (!codes && absmax->dtype != TENMAP_F32))
        return TMI_PART_WRONG(f, t, absmax, "expected one for each of %llu blocks", (ull)blocks);
    c->layout.scale_dtype = TENMAP_F32;
    if (!codes)
        return true;
    if (!nested || !table)
        return tmi_part_missing(f, t, 0, nested ? ".nested_quant_map" : ".nested_absmax", "4 bits");
    uint64_t step = state->nested_block;
    if (state->offset_wrong)
        return TMI_PART_WRONG(f, t, c->parts[TMI_PART_ANNOTATION],
                              "expected a number as its nested_offset");
    if (!step || nested->dtype != TENMAP_F32 ||
        nested->nelems != blocks / step + (blocks % step != 0))
        return TMI_PART_WRONG(f, t, nested, "expected one F32 for every %llu of %llu blocks",
                              (ull)step, (ull)blocks);
    if (!is_table(table, 256))
        return TMI_PART_WRONG(f, t, table, "expected F32 [256]");
    c->parts[TMI_PART_NESTED_SCALES] = nested;
    c->parts[TMI_PART_NESTED_TABLE] = table;
    c->layout.scale = TMI_SCALE_NESTED;
    c->layout.nested_block = step;
    c->layout.offset = (float)state->offset;
    return true;
}

static bool bnb_shape(const bnb_state *state, const tenmap_tensor *t, uint64_t *elements) {
    *elements = 1;
    for (uint32_t d = 0; d < state->rank; d++)
        if (!tmi_multiply(*elements, state->shape[d], elements))
            return false;
    return state->rank > 0 && *elements > 0 && t->nelems == *elements / 2 + *elements % 2;
}

bool tmi_find_bnb4(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    tmi_quant_layout *r = &c->layout;
    bnb_state state = {.finder = f};
    uint64_t elements;
    if (t->dtype != TENMAP_U8)
        return false;
    const tenmap_tensor *nf4 = tmi_find_part(f, t, 0, ".quant_state.bitsandbytes__nf4");
    const tenmap_tensor *note =
        nf4 ? nf4 : tmi_find_part(f, t, 0, ".quant_state.bitsandbytes__fp4");
    if (!note || f->status != TENMAP_OK)
        return false;
    const tenmap_tensor *absmax = tmi_find_part(f, t, 0, ".absmax");
    const tenmap_tensor *table = tmi_find_part(f, t, 0, ".quant_map");
    if (!absmax || !table)
        return f->status == TENMAP_OK &&
               tmi_part_missing(f, t, 0, absmax ? ".quant_map" : ".absmax", "4 bits");
    if (!read_bnb_state(f, t, note, &state))
        return false;
    if (state.kind[0] && strcmp(state.kind, nf4 ? "nf4" : "fp4") != 0)
        return TMI_PART_WRONG(f, t, note, "it says %s, but its name does not",
                              tmi_quote(state.kind, strlen(state.kind)).text);
    if (!bnb_shape(&state, t, &elements) || state.block == 0)
        return TMI_PART_WRONG(f, t, note, "its shape %s and blocks of %llu do not match %llu bytes",
                              tmi_shape_text(state.shape, state.rank).text, (ull)state.block,
                              (ull)t->nbytes);
    if (!is_table(table, 16))
        return TMI_PART_WRONG(f, t, table, "expected F32 [16]");
    c->parts[TMI_PART_VALUES] = t;
    c->parts[TMI_PART_SCALES] = absmax;
    c->parts[TMI_PART_TABLE] = table;
    c->parts[TMI_PART_ANNOTATION] = note;
    uint64_t blocks = elements / state.block + (elements % state.block != 0);
    if (!find_absmax(f, t, &state, blocks, c))
        return false;
    r->codes = TMI_CODES_TABLE;
    r->bits = 4;
    r->rows = r->group_rows = r->scale_rows = 1;
    r->columns = elements;
    r->row_bytes = r->matrix_bytes = t->nbytes;
    r->group_columns = state.block;
    r->scale_columns = blocks;
    c->dtype = state.dtype;
    c->rank = state.rank;
    c->shape = state.shape;
    c->computed.scheme = (tenmap_scheme){nf4 ? "nf4" : "fp4", 4, 0, 0, 0};
    return true;
}
