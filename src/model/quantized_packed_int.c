/*
 * Integers packed in 32-bit words: compressed-tensors (pack-quantized), which packs along the rows,
 * and GPTQ and AWQ, which store the weight transposed.
 */
#include "model.h"
#include "quantized.h"

#include <string.h>

static uint64_t words_of(uint64_t count, uint64_t bits) {
    return count / 32 * bits + (count % 32 * bits + 31) / 32;
}

/* The number of words in a row of older files, where no field crosses a word boundary. */
static uint64_t unsplit_words_of(uint64_t count, uint64_t bits) {
    uint64_t each = 32 / bits;
    return count / each + (count % each != 0);
}

/* Deduces bits and packing from the number of words that a row of r->columns columns takes. */
static bool deduce_packing(tmi_quant_layout *r, uint64_t words, uint64_t said) {
    static const uint8_t usual[] = {4, 8, 2, 3, 6, 5, 7, 1};
    for (unsigned old = 0; old < 2; old++)
        for (size_t i = 0; i < sizeof usual; i++) {
            uint64_t bits = usual[i];
            uint64_t wanted = old ? unsplit_words_of(r->columns, bits) : words_of(r->columns, bits);
            if (wanted != words || (said && said != bits))
                continue;
            r->bits = (uint8_t)bits;
            r->codes = old ? TMI_CODES_WORDS : TMI_CODES_STREAM;
            return true;
        }
    return false;
}

/*
 * The last dimension of the weight. Its shape tensor gives it; after many such reads it is computed
 * from config.json's bits and group size instead.
 */
static bool read_packed_columns(tmi_part_finder *f, const tenmap_tensor *t,
                                const tenmap_tensor *shape, const tenmap_tensor *scales,
                                uint64_t *columns) {
    enum { MOST_READ = 4096 }; /* beyond that, config.json gives the shapes */
    unsigned char few[64], *bytes = few;
    uint64_t words = t->shape[t->rank - 1], group = f->config->group, bits = f->config->bits;
    size_t width = shape->dtype == TENMAP_I64 ? 8 : 4;
    if ((shape->dtype != TENMAP_I64 && shape->dtype != TENMAP_I32) || shape->nelems != t->rank)
        return TMI_PART_WRONG(f, t, shape, "expected %u integers", (unsigned)t->rank);
    if (f->parts_read >= MOST_READ && group && bits && words <= UINT64_MAX / 32) {
        *columns = scales->rank == t->rank ? scales->shape[t->rank - 1] * group : words * 32 / bits;
        return true;
    }
    if (shape->nbytes > sizeof few) /* an axis takes at most the 8 bytes that an extent takes */
        bytes = (unsigned char *)(void *)tmi_shape_room(f, t->rank);
    if (!bytes || !tmi_part_read(f, t, shape, bytes, (size_t)shape->nbytes))
        return false;
    const unsigned char *last = bytes + (t->rank - 1) * width;
    *columns = width == 8 ? tmi_file_u64(last)
                          : last[0] | (uint64_t)last[1] << 8 | (uint64_t)last[2] << 16 |
                                (uint64_t)last[3] << 24;
    if (*columns == 0 || *columns / 32 > words)
        return TMI_PART_WRONG(f, t, shape, "it says %llu columns, but a row has %llu words",
                              (ull)*columns, (ull)words);
    return true;
}

/* Zero points are packed down the columns, while codes are packed along the rows. */
static bool find_packed_zeros(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c,
                              size_t cut) {
    tmi_quant_layout *r = &c->layout;
    const tenmap_tensor *zeros = tmi_find_part(f, t, cut, "_zero_point");
    if (!zeros)
        return f->status == TENMAP_OK;
    uint64_t words = words_of(r->scale_rows, r->bits), matrices = tmi_matrices(t->shape, t->rank);
    bool own = !r->scale_shared || matrices == 1; /* each matrix has zero points of its own */
    bool fits = zeros->dtype == TENMAP_I32 && zeros->rank == t->rank && own &&
                zeros->shape[t->rank - 2] == words &&
                zeros->shape[t->rank - 1] == r->scale_columns &&
                zeros->nelems == matrices * words * r->scale_columns &&
                (r->codes == TMI_CODES_STREAM || 32 % r->bits == 0);
    if (!fits)
        return TMI_PART_WRONG(f, t, zeros, "expected I32 [%llu, %llu] with %u bits each",
                              (ull)words, (ull)r->scale_columns, (unsigned)r->bits);
    c->parts[TMI_PART_ZEROS] = zeros;
    r->zeros = TMI_ZEROS_DOWN;
    return true;
}

/* A row of scales that are used in any order is kept in memory, so there must be few. */
static bool check_group_count(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *list,
                              uint64_t groups) {
    return groups <= TMI_MOST_GROUPS ||
           TMI_PART_WRONG(f, t, list, "it lists %llu groups of scales; expected at most %d",
                          (ull)groups, (int)TMI_MOST_GROUPS);
}

static bool find_group_index(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c,
                             size_t cut) {
    const tenmap_tensor *groups = tmi_find_part(f, t, cut, "_g_idx");
    if (!groups)
        return f->status == TENMAP_OK;
    if (groups->dtype != TENMAP_I32 || groups->nelems != c->layout.columns)
        return TMI_PART_WRONG(f, t, groups, "expected I32 [%llu]", (ull)c->layout.columns);
    c->parts[TMI_PART_GROUP_INDEX] = groups;
    return check_group_count(f, t, groups, c->layout.scale_columns);
}

bool tmi_find_packed(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    const size_t cut = strlen("_packed");
    tmi_quant_layout *r = &c->layout;
    if (t->dtype != TENMAP_I32 || !tmi_ends_with(t, "_packed") || t->rank < 2)
        return false;
    c->cut = cut;
    const tenmap_tensor *scales = tmi_find_part(f, t, cut, "_scale");
    const tenmap_tensor *shape = tmi_find_part(f, t, cut, "_shape");
    if (f->status != TENMAP_OK)
        return false;
    if (!scales || !shape)
        return tmi_part_missing(f, t, cut, scales ? "_shape" : "_scale", "packed integers");
    c->parts[TMI_PART_VALUES] = t;
    c->parts[TMI_PART_SHAPE] = shape;
    if (!read_packed_columns(f, t, shape, scales, &r->columns))
        return false;
    r->rows = t->shape[t->rank - 2];
    uint64_t words = t->shape[t->rank - 1];
    if (!deduce_packing(r, words, f->config->bits))
        return TMI_PART_WRONG(
            f, t, shape, "%llu columns%s do not fill a row of %llu words", (ull)r->columns,
            f->config->bits ? " of as many bits as config.json says" : "", (ull)words);
    r->code_bias = 1 << (r->bits - 1);
    r->row_bytes = words * 4;
    r->matrix_bytes = r->rows * r->row_bytes;
    if (!tmi_set_scales(f, t, c, scales, scales->dtype) || !find_packed_zeros(f, t, c, cut) ||
        !find_group_index(f, t, c, cut))
        return false;
    unsigned kind = r->scale_columns > 1 ? 2 : r->scale_rows > 1;
    c->computed.scheme = (tenmap_scheme){tmi_integer_scheme(r->bits, kind), r->bits, 0, 0, 0};
    return tmi_set_last_extent(f, t, r->columns, c);
}

/*
 * GPTQ and AWQ have qweight, qzeros and scales. GPTQ may have g_idx, which lists the group of each
 * row.
 */

typedef struct transposed_parts {
    const tenmap_tensor *scales, *zeros, *groups;
    uint64_t in, out, count; /* inputs, outputs and number of groups */
} transposed_parts;

/* Deduces the bits and the inputs of GPTQ weights. There are `in` * bits / 32 rows of words. */
static bool gptq_rows(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_layout *r,
                      transposed_parts *p) {
    uint64_t words = t->shape[0], zero_words = p->zeros->shape[1];
    uint64_t bits = f->config->bits;
    if (words > UINT64_MAX / 32 || p->out > UINT64_MAX / 32)
        return false;
    if (p->groups)
        bits = p->groups->nelems ? words * 32 / p->groups->nelems : 0;
    else if (words_of(p->out, bits ? bits : 4) != zero_words)
        bits = p->out ? zero_words * 32 / p->out : 0;
    else
        bits = bits ? bits : 4;
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
        return false;
    p->in = p->groups ? p->groups->nelems : words * 32 / bits;
    r->bits = (uint8_t)bits;
    r->codes = TMI_CODES_DOWN;
    r->row_bytes = p->out * 4;
    r->zero_plus_one = strcmp(f->config->format, "gptq_v2") != 0;
    return words_of(p->in, bits) == words && words_of(p->out, bits) == zero_words;
}

static bool awq_rows(const tenmap_tensor *t, tmi_quant_layout *r, transposed_parts *p) {
    p->in = t->shape[0];
    r->bits = 4;
    r->codes = TMI_CODES_AWQ;
    r->row_bytes = t->shape[1] * 4;
    return p->out % 8 == 0 && t->shape[1] == p->out / 8 && p->zeros->shape[1] == p->out / 8;
}

static bool find_transposed_parts(tmi_part_finder *f, const tenmap_tensor *t, transposed_parts *p) {
    const size_t cut = strlen("qweight");
    p->scales = tmi_find_part(f, t, cut, "scales");
    p->zeros = tmi_find_part(f, t, cut, "qzeros");
    p->groups = tmi_find_part(f, t, cut, "g_idx");
    if (f->status != TENMAP_OK)
        return false;
    if (!p->scales || !p->zeros)
        return tmi_part_missing(f, t, cut, p->scales ? "qzeros" : "scales", "GPTQ or AWQ");
    if (p->scales->rank != 2 || p->scales->dtype >= TMI_DTYPE_COUNT ||
        tmi_dtypes[p->scales->dtype].kind != TENMAP_KIND_FLOAT ||
        tmi_dtype_width(p->scales->dtype) == 0)
        return TMI_PART_WRONG(f, t, p->scales, "expected floats of shape [groups, out]");
    p->count = p->scales->shape[0];
    p->out = p->scales->shape[1];
    if (p->zeros->rank != 2 || p->zeros->dtype != TENMAP_I32 || p->zeros->shape[0] != p->count)
        return TMI_PART_WRONG(f, t, p->zeros, "expected I32 [%llu, out * bits / 32]",
                              (ull)p->count);
    if (p->groups && (p->groups->dtype != TENMAP_I32 || p->groups->rank != 1))
        return TMI_PART_WRONG(f, t, p->groups, "expected I32 [in]");
    return true;
}

/*
 * Rows share a scale in order, unless g_idx lists their groups. In that case the group size is only
 * informative.
 */
static bool deduce_row_groups(tmi_part_finder *f, const transposed_parts *p, tmi_quant_layout *r) {
    uint64_t said = f->config->group;
    r->group_rows = p->count == 1 ? p->in : 0;
    if (!r->group_rows && said && p->in / said + (p->in % said != 0) == p->count)
        r->group_rows = said;
    else if (!r->group_rows && p->count && p->in % p->count == 0)
        r->group_rows = p->in / p->count;
    return r->group_rows != 0;
}

bool tmi_find_gptq(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c) {
    tmi_quant_layout *r = &c->layout;
    transposed_parts p = {.in = 0};
    if (t->dtype != TENMAP_I32 || !tmi_ends_with(t, "qweight") || t->rank != 2)
        return false;
    c->cut = strlen("qweight");
    c->ending = "weight";
    if (!find_transposed_parts(f, t, &p))
        return false;
    bool gptq = t->shape[1] == p.out;
    if (gptq && strcmp(f->config->format, "gptq_p") == 0)
        return TMI_PART_WRONG(f, t, t,
                              "config.json says \"gptq_p\", which stores the bits of a code apart "
                              "from each other; that layout is not supported");
    if (!(gptq ? gptq_rows(f, t, r, &p) : awq_rows(t, r, &p)) || !deduce_row_groups(f, &p, r))
        return TMI_PART_WRONG(
            f, t, p.scales,
            "with qweight %s and qzeros %s this is neither GPTQ ([in * bits / 32, "
            "out]) nor AWQ ([in, out * bits / 32])",
            tmi_shape_text(t->shape, 2).text, tmi_shape_text(p.zeros->shape, 2).text);
    if (f->config->bits && f->config->bits != r->bits)
        return TMI_PART_WRONG(f, t, p.zeros, "the shapes say %u bits, config.json says %llu",
                              (unsigned)r->bits, (ull)f->config->bits);
    uint64_t said = f->config->group;
    if (said && p.in / said + (p.in % said != 0) != p.count)
        return TMI_PART_WRONG(
            f, t, p.scales,
            "config.json says groups of %llu, which gives %llu groups for %llu inputs", (ull)said,
            (ull)(p.in / said + (p.in % said != 0)), (ull)p.in);
    if (gptq && p.groups && !check_group_count(f, t, p.groups, p.count))
        return false;
    r->rows = p.in;
    r->columns = p.out;
    r->matrix_bytes = t->nbytes;
    r->transposed = true;
    r->zeros = TMI_ZEROS_ALONG;
    r->scale_dtype = p.scales->dtype;
    r->scale_rows = p.count;
    r->scale_columns = p.out;
    r->group_columns = 1;
    c->parts[TMI_PART_VALUES] = t;
    c->parts[TMI_PART_SCALES] = p.scales;
    c->parts[TMI_PART_ZEROS] = p.zeros;
    c->parts[TMI_PART_GROUP_INDEX] = gptq ? p.groups : NULL;
    uint64_t *shape = tmi_shape_room(f, 2);
    if (!shape)
        return false;
    shape[0] = p.out;
    shape[1] = p.in;
    c->rank = 2;
    c->shape = shape;
    const char *name = tmi_integer_scheme(r->bits, p.count > 1 ? 2 : 1);
    c->computed.scheme = (tenmap_scheme){name, r->bits, 0, 0, 0};
    return true;
}
