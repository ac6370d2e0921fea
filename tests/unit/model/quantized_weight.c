/* Quantized weights for tests. */
#include "kernels/kernels.h"

#include "quantized_weight.h"

static uint32_t random_state = 1;

void seed_random(uint32_t seed) {
    random_state = seed * 2654435761u + 1;
}

uint32_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

stored_part *add_part(stored_weight *w, const char *name, tenmap_dtype dtype, uint32_t rank,
                      const uint64_t *shape) {
    stored_part *p = &w->parts[w->part_count++];
    uint64_t elements = 1;
    *p = (stored_part){.name = name, .dtype = dtype, .rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        p->shape[d] = shape[d];
        elements *= shape[d];
    }
    p->size = (size_t)((elements * tenmap_dtype_bits(dtype) + 7) / 8);
    p->bytes = malloc(p->size + 1);
    assert_non_null(p->bytes);
    for (size_t i = 0; i < p->size; i++)
        p->bytes[i] = (unsigned char)(next_random() >> 11);
    return p;
}

/* Stores a valid scale: not negative, not NaN, of a usual size. */
static void store_scale(unsigned char *at, tenmap_dtype dtype) {
    uint32_t random = next_random();
    float scale = (float)(1 + random % 4096) / 4096.0f * (random & 8192 ? 1.0f : 0.0625f);
    uint32_t bits;
    memcpy(&bits, &scale, 4);
    uint64_t code = tmi_scalar_one(dtype, TENMAP_F32, bits, 0);
    for (unsigned b = 0; b < tenmap_dtype_bits(dtype) / 8; b++)
        at[b] = (unsigned char)(code >> 8 * b);
}

stored_part *add_scales(stored_weight *w, const char *name, tenmap_dtype dtype, uint32_t rank,
                        const uint64_t *shape) {
    stored_part *p = add_part(w, name, dtype, rank, shape);
    tenmap_dtype held = dtype == TENMAP_U8 ? TENMAP_F8_E8M0 : dtype;
    size_t width = tenmap_dtype_bits(dtype) / 8;
    for (size_t i = 0; i < p->size; i += width)
        store_scale(p->bytes + i, held);
    return p;
}

void free_weight(stored_weight *w) {
    for (size_t i = 0; i < w->part_count; i++)
        free(w->parts[i].bytes);
}

static void write_some(void **state, const stored_weight *w, bool norms) {
    static const float plain[4] = {1, 2, 3, 4};
    static const uint64_t four[1] = {4};
    tenmap_writer *writer;
    size_t id[MOST_STORED_PARTS], first = 0, last = 0;
    assert_int_equal(
        tenmap_writer_create(in_folder(state, "model.safetensors"), NULL, &writer, NULL),
        TENMAP_OK);
    if (w->metadata)
        assert_int_equal(
            tenmap_writer_metadata(writer, w->name, TENMAP_CSTR, w->metadata, TENMAP_CSTR, NULL),
            TENMAP_OK);
    if (norms)
        assert_int_equal(
            tenmap_writer_add(writer, "a.norm", TENMAP_CSTR, TENMAP_F32, four, 1, &first, NULL),
            TENMAP_OK);
    for (size_t i = 0; i < w->part_count; i++)
        assert_int_equal(tenmap_writer_add(writer, w->parts[i].name, TENMAP_CSTR, w->parts[i].dtype,
                                           w->parts[i].shape, w->parts[i].rank, &id[i], NULL),
                         TENMAP_OK);
    if (norms) {
        assert_int_equal(
            tenmap_writer_add(writer, "z.norm", TENMAP_CSTR, TENMAP_F32, four, 1, &last, NULL),
            TENMAP_OK);
        assert_int_equal(tenmap_writer_write(writer, first, 0, plain, sizeof plain, NULL),
                         TENMAP_OK);
        assert_int_equal(tenmap_writer_write(writer, last, 0, plain, sizeof plain, NULL),
                         TENMAP_OK);
    }
    for (size_t i = 0; i < w->part_count; i++)
        if (w->parts[i].size)
            assert_int_equal(
                tenmap_writer_write(writer, id[i], 0, w->parts[i].bytes, w->parts[i].size, NULL),
                TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(writer, NULL), TENMAP_OK);
}

void write_weight(void **state, const stored_weight *w) {
    write_some(state, w, true);
    if (w->config)
        write_text(in_folder(state, "config.json"), w->config);
    else
        (void)remove(in_folder(state, "config.json"));
}

void write_parts(void **state, const stored_weight *w) {
    write_some(state, w, false);
}

float part_float(const stored_part *p, tenmap_dtype as, uint64_t i) {
    tmi_elements elements = {as, 0, true};
    uint32_t bits = (uint32_t)tmi_scalar_one(TENMAP_F32, as,
                                             tmi_scalar_load(&elements, p->bytes, (size_t)i), 0);
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

uint32_t part_word(const stored_part *p, uint64_t i) {
    const unsigned char *b = p->bytes + 4 * i;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

unsigned part_field(const stored_part *p, uint64_t byte, uint64_t i, unsigned bits) {
    unsigned value = 0;
    for (unsigned b = 0; b < bits; b++) {
        uint64_t at = byte * 8 + i * bits + b;
        value |= (unsigned)(p->bytes[at / 8] >> (at % 8) & 1) << b;
    }
    return value;
}
