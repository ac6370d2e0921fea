/* Describes to callers how the codes and scales of a quantized weight lie in its parts. */
#include "quantized.h"

/* As many fields per word as fit, in their order; 0 if fields cross words. */
static void set_words(tenmap_packing *p, uint32_t word_bits, bool cross) {
    p->word_bits = word_bits;
    p->per_word = cross && word_bits % p->bits != 0 ? 0 : word_bits / p->bits;
    for (uint32_t i = 0; i < p->per_word; i++)
        p->order[i] = (uint8_t)i;
}

static void set_awq_order(tenmap_packing *p) {
    for (uint32_t i = 0; i < 8; i++)
        p->order[i] = (uint8_t)(i % 2 * 4 + i / 2);
}

static void set_high_half_first(tenmap_packing *p) {
    p->order[0] = 1;
    p->order[1] = 0;
}

/* The codes themselves. Every kind of codes is little-endian, from the lowest bit up. */
static void describe_codes(const tmi_quant_weight *c, tenmap_packing *p) {
    const tmi_quant_layout *r = &c->layout;
    uint32_t part_bits = tenmap_dtype_bits(c->parts[TMI_PART_VALUES]->dtype);
    bool in_words = part_bits == 32 && r->codes != TMI_CODES_DTYPE;
    p->bits = r->bits;
    if (r->codes == TMI_CODES_DTYPE) {
        p->code = r->code_dtype;
        p->bits = tenmap_dtype_bits(r->code_dtype);
    }
    if (p->bits == 0) /* a block dtype: its blocks hold more than codes */
        return;
    set_words(p, in_words ? 32 : 8, r->codes != TMI_CODES_WORDS);
    if (r->codes == TMI_CODES_AWQ)
        set_awq_order(p);
    else if (r->codes == TMI_CODES_TABLE)
        set_high_half_first(p);
    p->down = r->codes == TMI_CODES_DOWN;
}

void tmi_packing_describe(tmi_quant_weight *c) {
    const tmi_quant_layout *r = &c->layout;
    tenmap_packing *p = &c->packing;
    *p = (tenmap_packing){.transposed = r->transposed,
                          .scale = r->scale_dtype,
                          .bias = r->code_bias,
                          .scale_op = r->scale,
                          .zeros = r->zeros,
                          .zero_plus_one = r->zero_plus_one,
                          .rows = r->rows,
                          .columns = r->columns,
                          .row_bytes = r->row_bytes,
                          .matrix_bytes = r->matrix_bytes,
                          .group_rows = r->group_rows,
                          .group_columns = r->group_columns,
                          .scale_rows = r->scale_rows,
                          .scale_columns = r->scale_columns,
                          .scales_shared = r->scale_shared,
                          .nested_offset = r->offset,
                          .nested_block = r->nested_block};
    describe_codes(c, p);
}

const tenmap_packing *tenmap_packing_of(const tenmap_tensor *tensor) {
    const tmi_computed *computed = tensor ? tmi_computed_of(tensor) : NULL;
    if (!computed || computed->maker != TMI_MAKER_DEQUANTIZE)
        return NULL;
    const tenmap_packing *p = &tmi_quant_weight_of(computed)->packing;
    return p->bits ? p : NULL;
}
