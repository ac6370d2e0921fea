/*
 * Dequantizing in one pass: compares the kernels of every instruction set with the same steps taken
 * one at a time for each value, and with the scalar oracle if results have 16 bits.
 */
#include "values/cpu.h"

#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 700, ROUNDS = 6000, FIXED = 96 };

static uint64_t random_state = 7;
static uint32_t next_random(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33);
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Typical scales; with `wild` also values that no model should have. */
static float random_scale(bool wild) {
    static const uint32_t odd[] = {0,          0x80000000, 1,          0x007fffff, 0x00800000,
                                   0x0d000000, 0x0d800000, 0x71800000, 0x72000000, 0x7b000000,
                                   0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00001, 0xbf000001};
    if (wild && next_random() % 4 == 0)
        return float_of(odd[next_random() % (sizeof odd / sizeof *odd)]);
    if (next_random() % 32 == 0)
        return 0;
    return float_of(0x38000000 + next_random() % 0x08000000);
}

typedef struct coded_case {
    tmi_fused_run run;
    tenmap_dtype codes; /* F4 for any code of 4 bits */
    bool wild;
    unsigned char bytes[MOST + 64];
    float table[16], scales[MOST], zeros[MOST];
} coded_case;

static void fill_table(coded_case *c) {
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int i = 0; i < 16; i++)
        c->table[i] = c->run.kind == TMI_KIND_E2M1       ? (i < 8 ? e2m1[i] : -e2m1[i - 8])
                      : c->run.kind == TMI_KIND_CENTERED ? (float)(i - 8)
                                                         : random_scale(false) - 0.5f;
}

static void random_case(coded_case *c, tenmap_dtype codes) {
    static const size_t groups[] = {1, 2, 7, 8, 16, 16, 32, 32, 48, 64, 96, 128};
    memset(c, 0, sizeof *c);
    c->codes = codes;
    c->wild = next_random() % 3 == 0;
    c->run.count = 1 + next_random() % MOST;
    c->run.group = groups[next_random() % (sizeof groups / sizeof *groups)];
    c->run.first = next_random() % 2 ? c->run.group : 1 + next_random() % c->run.group;
    c->run.kind = (tmi_code_kind)(next_random() % 3);
    c->run.high_first = c->run.kind == TMI_KIND_ANY && next_random() % 2;
    c->run.added = next_random() % 2;
    for (size_t i = 0; i < MOST; i++) {
        c->scales[i] = random_scale(c->wild);
        c->zeros[i] = c->run.added ? random_scale(c->wild) : (float)(next_random() % 17);
    }
    for (size_t i = 0; i < sizeof c->bytes; i++) {
        c->bytes[i] = (unsigned char)next_random();
        if (codes == TENMAP_F8_E4M3 && (c->bytes[i] & 0x7f) == 0x7f && next_random() % 64)
            c->bytes[i] = 0x7e;
    }
    fill_table(c);
    c->run.table = c->table;
    c->run.scales = c->scales;
    c->run.zeros = next_random() % 3 ? NULL : c->zeros;
}

static float code_at(const coded_case *c, size_t i) {
    if (c->codes == TENMAP_F4) {
        bool high = (i % 2 == 1) != c->run.high_first;
        return c->table[high ? c->run.codes[i / 2] >> 4 : c->run.codes[i / 2] & 15];
    }
    return float_of((uint32_t)tmi_scalar_one(TENMAP_F32, c->codes, c->run.codes[i], 0));
}

/* Each step is one operation: volatile keeps the compiler from joining two. */
static float value_at(const coded_case *c, size_t i) {
    size_t g = i < c->run.first ? 0 : 1 + (i - c->run.first) / c->run.group;
    volatile float value = code_at(c, i);
    if (c->run.zeros && !c->run.added)
        value = value - c->zeros[g];
    value = value * c->scales[g];
    if (c->run.zeros && c->run.added)
        value = value + c->zeros[g];
    return value;
}

static uint32_t element(const unsigned char *at, size_t width) {
    uint32_t bits = 0;
    uint16_t half;
    if (width == 4) {
        memcpy(&bits, at, 4);
        return bits;
    }
    memcpy(&half, at, 2);
    return half;
}

static bool both_nan(tenmap_dtype as, uint32_t a, uint32_t b) {
    uint32_t most = as == TENMAP_F32 ? 0x7f800000 : as == TENMAP_BF16 ? 0x7f80 : 0x7c00;
    uint32_t magnitude = as == TENMAP_F32 ? 0x7fffffff : 0x7fff;
    return (a & magnitude) > most && (b & magnitude) > most;
}

static void check_values(const coded_case *c, const unsigned char *got, tenmap_dtype as,
                         uint32_t flags) {
    size_t width = as == TENMAP_F32 ? 4 : 2;
    for (size_t i = 0; i < c->run.count; i++) {
        float value = value_at(c, i);
        uint32_t bits, wanted;
        memcpy(&bits, &value, 4);
        wanted = as == TENMAP_F32 ? bits
                                  : (uint32_t)tmi_scalar_one(as, TENMAP_F32, bits,
                                                             flags & TENMAP_CONVERT_SATURATE);
        uint32_t found = element(got + i * width, width);
        if (found != wanted && !both_nan(as, found, wanted))
            fail_msg("%s to %s, kind %d, element %zu of %zu, groups of %zu and %zu: %08x, not %08x",
                     tenmap_dtype_name(c->codes), tenmap_dtype_name(as), (int)c->run.kind, i,
                     c->run.count, c->run.first, c->run.group, found, wanted);
    }
}

/*
 * Whether the kernel did the run. What it does must be right, and it must not write past the end.
 */
static bool try_run(tmi_dequant_fused *coded, const coded_case *c, tenmap_dtype as, uint32_t flags,
                    void (*fence)(void)) {
    size_t size = c->run.count * (as == TENMAP_F32 ? 4 : 2), shift = next_random() % 3 ? 0 : 4;
    unsigned char *room = tenmap_alloc(MOST * 4 + 2 * FIXED);
    assert_non_null(room);
    unsigned char *dst = room + FIXED + shift;
    memset(room, 0x5a, MOST * 4 + 2 * FIXED);
    bool done = coded(dst, as, &c->run, flags);
    if (fence)
        fence();
    for (size_t i = 0; i < FIXED; i++)
        assert_true(room[i] == 0x5a && dst[size + i % (FIXED - shift)] == 0x5a);
    if (done)
        check_values(c, dst, as, flags);
    tenmap_free(room);
    return done;
}

/* Tables are kept from one run to the next, for any scales. */
static tmi_table_cache kept_tables;

static void check_kernel(const tmi_kernels *k, tmi_dequant_fused *coded, tenmap_dtype codes) {
    static const tenmap_dtype results[] = {TENMAP_F32, TENMAP_BF16, TENMAP_F16};
    static const uint32_t flags[] = {0, TENMAP_CONVERT_STREAM, TENMAP_CONVERT_SATURATE};
    static coded_case c;
    static float before[MOST];
    bool wild_before = false;
    memset(kept_tables.scale_bits, 0xff, sizeof kept_tables.scale_bits);
    size_t done = 0, wanted = 0;
    for (int round = 0; coded && round < ROUNDS; round++) {
        tenmap_dtype as = results[next_random() % 3];
        uint32_t flag = flags[next_random() % 3];
        random_case(&c, codes);
        size_t size = codes == TENMAP_F4 ? (c.run.count + 1) / 2 : c.run.count;
        /* The codes end exactly where readable memory ends. */
        unsigned char *exact = malloc(size);
        assert_non_null(exact);
        memcpy(exact, c.bytes, size);
        c.run.codes = exact;
        c.run.tables = next_random() % 4 ? &kept_tables : NULL;
        c.run.place = next_random() % 300;
        if (next_random() % 2 && round && c.wild == wild_before)
            memcpy(c.scales, before, sizeof before);
        memcpy(before, c.scales, sizeof before);
        wild_before = c.wild;
        bool did = try_run(coded, &c, as, flag, k->fence);
        bool whole = c.run.first % 2 == 0 && c.run.group % 2 == 0 && !c.wild && !c.run.zeros;
        if (whole && codes != TENMAP_F8_E4M3 && !(as == TENMAP_F32 && flag)) {
            wanted++;
            done += did;
        }
        free(exact);
    }
    assert_int_equal(done, wanted); /* the kernel must do ordinary runs itself */
}

static void runs_of_codes(void **state) {
    static const char *const names[] = {"avx2", "neon"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const tmi_kernels *k = tmi_cpu_find(names[i]);
        if (!k)
            continue;
        check_kernel(k, k->fused4, TENMAP_F4);
        check_kernel(k, k->fused_e4m3, TENMAP_F8_E4M3);
        check_kernel(k, k->fused_i8, TENMAP_I8);
    }
}

/* An entry that is marked as empty has no table, even if the bits of a scale equal the mark. */
static void a_scale_like_the_mark_of_an_empty_place_has_no_table(void **state) {
    static coded_case c;
    const tmi_kernels *k = tmi_cpu_find("avx2");
    (void)state;
    if (!k || !k->fused_e4m3)
        return;
    memset(&kept_tables, 0xff, sizeof kept_tables);
    memset(kept_tables.bytes, 0x3c, sizeof kept_tables.bytes); /* what fresh memory might hold */
    c.codes = TENMAP_F8_E4M3;
    c.run.codes = c.bytes;
    c.run.count = c.run.first = c.run.group = 64;
    c.run.scales = c.scales;
    c.run.tables = &kept_tables;
    memset(c.bytes, 0x38, sizeof c.bytes); /* 1.0 */
    memset(c.scales, 0xff, sizeof c.scales);
    (void)try_run(k->fused_e4m3, &c, TENMAP_BF16, 0, k->fence);
}

/* Compares values of E2M1, each with a power of two, with the oracle. */
static void check_across(const tmi_kernels *k, tenmap_dtype as, uint32_t flags) {
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    unsigned char codes[MOST / 2 + 1], powers[MOST * 2], *room = tenmap_alloc(MOST * 4 + 2 * FIXED);
    size_t count = 1 + next_random() % MOST, width = as == TENMAP_F32 ? 4 : 2;
    bool narrow = next_random() % 2;
    unsigned char *dst = room + FIXED + (next_random() % 3 ? 0 : 4);
    assert_non_null(room);
    memset(room, 0x5a, MOST * 4 + 2 * FIXED);
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)next_random();
    for (size_t i = 0; i < count; i++) {
        uint32_t exponent = narrow ? 110 + next_random() % 40 : 2 + next_random() % 251;
        uint16_t power = (uint16_t)(exponent << 7);
        memcpy(powers + 2 * i, &power, 2);
    }
    k->scale_by_powers(dst, as, codes, powers, count, flags);
    if (k->fence)
        k->fence();
    for (size_t i = 0; i < count; i++) {
        unsigned code = codes[i / 2] >> i % 2 * 4 & 15;
        volatile float value = code < 8 ? e2m1[code] : -e2m1[code - 8];
        value = value * float_of(element(powers + 2 * i, 2) << 16);
        float made = value;
        uint32_t bits;
        memcpy(&bits, &made, 4);
        uint32_t wanted =
            as == TENMAP_F32
                ? bits
                : (uint32_t)tmi_scalar_one(as, TENMAP_F32, bits, flags & TENMAP_CONVERT_SATURATE);
        assert_int_equal(element(dst + i * width, width), wanted);
    }
    for (size_t i = 0; i < FIXED - 4; i++)
        assert_true(room[i] == 0x5a && dst[count * width + i] == 0x5a);
    tenmap_free(room);
}

static void powers_across(void **state) {
    static const tenmap_dtype results[] = {TENMAP_F32, TENMAP_BF16, TENMAP_F16};
    static const uint32_t flags[] = {0, TENMAP_CONVERT_STREAM, TENMAP_CONVERT_SATURATE};
    const tmi_kernels *k = tmi_cpu_find("avx2");
    (void)state;
    for (int round = 0; k && round < ROUNDS; round++)
        check_across(k, results[round % 3], flags[next_random() % 3]);
}

/* Transposed codes: compares vectors with plain C, which spells out the order. */
static void codes_turned(void **state) {
    enum { ROWS = 168, WORDS = 27, LINE = ROWS / 2 + 5, STRIDE = WORDS * 4 + 3 };
    static unsigned char rows[ROWS * STRIDE], a[WORDS * 8 * LINE], b[sizeof a];
    const tmi_kernels *k = tmi_cpu_find("avx2");
    (void)state;
    for (int round = 0; k && round < 200; round++) {
        size_t count = (1 + next_random() % (ROWS / 8)) * 8, words = 1 + next_random() % WORDS;
        bool awq_order = round % 2;
        for (size_t i = 0; i < sizeof rows; i++)
            rows[i] = (unsigned char)next_random();
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        tmi_const_lines from = {rows, STRIDE};
        k->split_columns((tmi_lines){a, LINE}, from, count, words, awq_order);
        tmi_scalar_split_columns((tmi_lines){b, LINE}, from, count, words, awq_order);
        assert_memory_equal(a, b, sizeof a);
        for (size_t c = 0; c < words * 8; c++) {
            size_t r = next_random() % count;
            size_t field = awq_order ? tmi_awq_order[c % 8] : c % 8;
            unsigned code = rows[r * STRIDE + c / 8 * 4 + field / 2] >> field % 2 * 4 & 15;
            assert_int_equal(a[c * LINE + r / 2] >> r % 2 * 4 & 15, code);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_codes),
        cmocka_unit_test(a_scale_like_the_mark_of_an_empty_place_has_no_table),
        cmocka_unit_test(powers_across), cmocka_unit_test(codes_turned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
