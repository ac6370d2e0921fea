/*
 * The number rules, one row per rule, each on every instruction set and at every position of a
 * vector; then what tenmap_convert refuses. test_kernels.c compares the instruction sets with each
 * other, test_exact.c the roundings with a second implementation.
 */
#include "convert_common.h"

enum { SAT = TENMAP_CONVERT_SATURATE };

typedef struct number_rule {
    const char *says;
    tenmap_dtype from, to;
    uint32_t flags;
    uint64_t in, out;
} number_rule;

#define F(from, to) TENMAP_##from, TENMAP_##to

static const number_rule rules[] = {
    /* Rounded once, to nearest, ties to even; widening is exact. */
    {"a tie goes to the even neighbor below", F(F32, BF16), 0, 0x3f808000, 0x3f80},
    {"a tie goes to the even neighbor above", F(F32, BF16), 0, 0x3f818000, 0x3f82},
    {"just above a tie goes up", F(F32, BF16), 0, 0x3f808001, 0x3f81},
    {"a carry moves to the exponent", F(F32, F16), 0, 0x3ffff000, 0x4000},
    {"half of the smallest subnormal ties to zero", F(F32, F16), 0, 0x33000000, 0x0000},
    {"just above it does not", F(F32, F16), 0, 0x33000001, 0x0001},
    {"the largest subnormal rounds up to normal", F(F32, F16), 0, 0x387ff000, 0x0400},
    {"an F32 subnormal is a BF16 subnormal", F(F32, BF16), 0, 0x00010000, 0x0001},
    {"a BF16 subnormal is an F32 subnormal", F(BF16, F32), 0, 0x8001, 0x80010000},
    {"an F16 subnormal is a normal F32", F(F16, F32), 0, 0x0001, 0x33800000},
    {"an E4M3 subnormal is a normal F16", F(F8_E4M3, F16), 0, 0x01, 0x1800},
    {"an F32 subnormal is a normal F64", F(F32, F64), 0, 0x80000001, 0xb6a0000000000000},
    {"an F64 becomes an F32 subnormal, tie to even", F(F64, F32), 0, 0x3690000000000000, 0},
    {"and above the tie", F(F64, F32), 0, 0xb690000000000001, 0x80000001},

    /* No double rounding: each source lies just beside a tie of the target, beyond F32's reach. */
    {"F64 to BF16 in one rounding", F(F64, BF16), 0, 0x3ff0100000000001, 0x3f81},
    {"F64 to F16 in one rounding", F(F64, F16), 0, 0x3ff0020000000001, 0x3c01},
    {"F64 to F16 in one rounding, from below", F(F64, F16), 0, 0x3ff005ffffffffff, 0x3c01},
    {"F64 to E4M3 in one rounding", F(F64, F8_E4M3), 0, 0x3ff1000000000001, 0x39},
    {"F64 below F32's range still rounds up", F(F64, BF16), 0, 0x3790000000000001, 0x0001},
    {"and ties to zero", F(F64, BF16), 0, 0x3790000000000000, 0x0000},
    {"I32 to BF16 in one rounding", F(I32, BF16), 0, 0x40400001, 0x4e81},
    {"U32 to BF16 in one rounding", F(U32, BF16), 0, 0x80800001, 0x4f01},
    {"I64 to BF16 in one rounding", F(I64, BF16), 0, 0x4040000000000001, 0x5e81},
    {"U64 to BF16 in one rounding", F(U64, BF16), 0, 0x8080000000000001, 0x5f01},
    {"I64 to F32 in one rounding", F(I64, F32), 0, 0x0100000100000001, 0x5b800001},
    {"U64 to F64 in one rounding", F(U64, F64), 0, 0x8000000000000401, 0x43e0000000000001},
    {"F32 to E4M3 in one rounding", F(F32, F8_E4M3), 0, 0x3f880001, 0x39},
    {"F32 to E5M2 in one rounding", F(F32, F8_E5M2), 0, 0x3f900001, 0x3d},
    {"F32 to F4 in one rounding", F(F32, F4), 0, 0x3fa00001, 0x3},

    /* NaN to F64, F32, F16, BF16: sign kept, fraction left-aligned, quiet bit set. */
    {"NaN F32 to F64", F(F32, F64), 0, 0xff800001, 0xfff8000020000000},
    {"NaN F64 to F32", F(F64, F32), 0, 0xfff0000020000000, 0xffc00001},
    {"a NaN whose payload is cut off stays one", F(F64, F32), 0, 0x7ff0000000000001, 0x7fc00000},
    {"NaN F16 to F32", F(F16, F32), 0, 0xfc01, 0xffc02000},
    {"NaN F32 to F16", F(F32, F16), 0, 0xffa02000, 0xff01},
    {"NaN F32 to BF16", F(F32, BF16), 0, 0x7f810000, 0x7fc1},
    {"NaN F32 to BF16, payload below", F(F32, BF16), 0, 0x7f800001, 0x7fc0},
    {"the largest NaN does not overflow", F(F32, BF16), 0, 0xffffffff, 0xffff},
    {"NaN F16 to BF16", F(F16, BF16), 0, 0x7c01, 0x7fc0},
    {"NaN BF16 to F16", F(BF16, F16), 0, 0xff81, 0xfe08},
    {"NaN F64 to F16", F(F64, F16), 0, 0xfff0040000000000, 0xfe01},
    {"NaN E5M2 to F32", F(F8_E5M2, F32), 0, 0xfd, 0xffe00000},
    {"NaN E5M2 to BF16", F(F8_E5M2, BF16), 0, 0x7d, 0x7fe0},
    /* Pure shifts do not quiet. */
    {"BF16 to F32 does not quiet", F(BF16, F32), 0, 0x7f81, 0x7f810000},
    {"E5M2 to F16 does not quiet", F(F8_E5M2, F16), 0, 0xfd, 0xfd00},
    {"a copy does not quiet", F(F32, F32), 0, 0x7f800001, 0x7f800001},
    {"a copy does not saturate", F(F32, F32), SAT, 0x7f800000, 0x7f800000},
    /* NaN to the rest. */
    {"NaN to E5M2", F(F32, F8_E5M2), 0, 0xff800001, 0xfe},
    {"NaN to E4M3", F(F32, F8_E4M3), 0, 0xff800001, 0xff},
    {"NaN to E4M3FNUZ", F(F32, F8_E4M3FNUZ), 0, 0x7f800001, 0x80},
    {"NaN to E5M2FNUZ", F(F32, F8_E5M2FNUZ), 0, 0xff800001, 0x80},
    {"NaN to E8M0", F(F32, F8_E8M0), 0, 0xff800001, 0xff},
    {"NaN to F4", F(F32, F4), 0, 0x7fc00000, 0x8},
    {"NaN to F6", F(F32, F6_E2M3), 0, 0x7fc00000, 0x20},
    {"NaN to the other F6", F(F32, F6_E3M2), 0, 0xffc00000, 0x20},
    {"NaN from E4M3 keeps its sign", F(F8_E4M3, F32), 0, 0xff, 0xffc00000},
    {"NaN from E4M3 to F16", F(F8_E4M3, F16), 0, 0x7f, 0x7e00},
    {"NaN from FNUZ is positive", F(F8_E4M3FNUZ, F32), 0, 0x80, 0x7fc00000},
    {"NaN from the other FNUZ too", F(F8_E5M2FNUZ, F16), 0, 0x80, 0x7e00},
    {"NaN from E8M0 is positive", F(F8_E8M0, BF16), 0, 0xff, 0x7fc0},

    /* Overflow, decided after rounding. */
    {"F64 to F32 below the edge", F(F64, F32), 0, 0x47efffffefffffff, 0x7f7fffff},
    {"F64 to F32 at the edge", F(F64, F32), 0, 0x47effffff0000000, 0x7f800000},
    {"F32 to F16 below the edge", F(F32, F16), 0, 0x477fefff, 0x7bff},
    {"F32 to F16 at the edge, 65520", F(F32, F16), 0, 0xc77ff000, 0xfc00},
    {"F32 to BF16 below the edge", F(F32, BF16), 0, 0x7f7f7fff, 0x7f7f},
    {"F32 to BF16 at the edge", F(F32, BF16), 0, 0x7f7f8000, 0x7f80},
    {"E5M2 below 61440", F(F32, F8_E5M2), 0, 0x476fffff, 0x7b},
    {"E5M2 from 61440 is infinity", F(F32, F8_E5M2), 0, 0xc7700000, 0xfc},
    {"E4M3: 464 is 448", F(F32, F8_E4M3), 0, 0x43e80000, 0x7e},
    {"E4M3 above 464 is NaN", F(F32, F8_E4M3), 0, 0xc3e80001, 0xff},
    {"infinity to E4M3 is NaN", F(F32, F8_E4M3), 0, 0x7f800000, 0x7f},
    {"E4M3FNUZ below 248", F(F32, F8_E4M3FNUZ), 0, 0xc377ffff, 0xff},
    {"E4M3FNUZ from 248", F(F32, F8_E4M3FNUZ), 0, 0x43780000, 0x80},
    {"E5M2FNUZ below 61440", F(F32, F8_E5M2FNUZ), 0, 0x476fffff, 0x7f},
    {"E5M2FNUZ from 61440", F(F32, F8_E5M2FNUZ), 0, 0xc7700000, 0x80},
    {"infinity to FNUZ is NaN", F(F16, F8_E5M2FNUZ), 0, 0xfc00, 0x80},
    {"F4 clamps to 6", F(F32, F4), 0, 0x7f7fffff, 0x7},
    {"F4 clamps infinity", F(F32, F4), 0, 0xff800000, 0xf},
    {"F6_E2M3 clamps to 7.5", F(F32, F6_E2M3), 0, 0x41000000, 0x1f},
    {"F6_E3M2 clamps to 28", F(F32, F6_E3M2), 0, 0xff800000, 0x3f},
    {"an integer overflows too", F(U16, F16), 0, 0xffff, 0x7c00},
    {"U64 to F16", F(U64, F16), 0, 0xffffffffffffffff, 0x7c00},
    /* FNUZ has no -0. */
    {"-0 to FNUZ", F(F32, F8_E4M3FNUZ), 0, 0x80000000, 0x00},
    {"what rounds to -0 in FNUZ", F(F32, F8_E5M2FNUZ), 0, 0x80000001, 0x00},
    {"-0 elsewhere stays", F(F32, F8_E4M3), 0, 0x80000000, 0x80},

    /* SATURATE. */
    {"F64 overflow to F32", F(F64, F32), SAT, 0x7fe0000000000000, 0x7f7fffff},
    {"infinity F32 to F64", F(F32, F64), SAT, 0xff800000, 0xffefffffffffffff},
    {"infinity BF16 to F32", F(BF16, F32), SAT, 0x7f80, 0x7f7fffff},
    {"infinity F16 to F32", F(F16, F32), SAT, 0xfc00, 0xff7fffff},
    {"infinity F16 to BF16", F(F16, BF16), SAT, 0x7c00, 0x7f7f},
    {"infinity BF16 to F16", F(BF16, F16), SAT, 0xff80, 0xfbff},
    {"infinity E5M2 to F16", F(F8_E5M2, F16), SAT, 0x7c, 0x7bff},
    {"infinity E5M2 to E4M3", F(F8_E5M2, F8_E4M3), SAT, 0xfc, 0xfe},
    {"F32 overflow to BF16", F(F32, BF16), SAT, 0x7f7fffff, 0x7f7f},
    {"F32 overflow to F16", F(F32, F16), SAT, 0x7f7fffff, 0x7bff},
    {"F32 overflow to E5M2", F(F32, F8_E5M2), SAT, 0xff800000, 0xfb},
    {"F32 overflow to E4M3", F(F32, F8_E4M3), SAT, 0x43e80001, 0x7e},
    {"F32 overflow to E4M3FNUZ", F(F32, F8_E4M3FNUZ), SAT, 0xff800000, 0xff},
    {"F32 overflow to E5M2FNUZ", F(F32, F8_E5M2FNUZ), SAT, 0x7f800000, 0x7f},
    {"an integer saturates", F(I32, F16), SAT, 0x80000000, 0xfbff},
    {"NaN stays NaN", F(F32, F16), SAT, 0xffc00000, 0xfe00},
    {"NaN stays NaN in BF16", F(F32, BF16), SAT, 0x7f800001, 0x7fc0},
    {"NaN stays NaN in E4M3", F(F32, F8_E4M3), SAT, 0x7fc00000, 0x7f},
    {"NaN stays NaN in a pure shift", F(BF16, F32), SAT, 0x7f81, 0x7f810000},
    {"NaN E5M2 to F16 too", F(F8_E5M2, F16), SAT, 0x7d, 0x7d00},

    /* E8M0. */
    {"E8M0 0x00 is 2^-127", F(F8_E8M0, F32), 0, 0x00, 0x00400000},
    {"E8M0 0x01 is 2^-126", F(F8_E8M0, F32), 0, 0x01, 0x00800000},
    {"E8M0 127 is 1", F(F8_E8M0, F32), 0, 0x7f, 0x3f800000},
    {"E8M0 0xFE is 2^127", F(F8_E8M0, F32), 0, 0xfe, 0x7f000000},
    {"E8M0 0x00 to BF16", F(F8_E8M0, BF16), 0, 0x00, 0x0040},
    {"below 1.5 goes down", F(F32, F8_E8M0), 0, 0x3fbfffff, 0x7f},
    {"1.5 goes up", F(F32, F8_E8M0), 0, 0x3fc00000, 0x80},
    {"1.5 * 2^-127 goes up", F(F32, F8_E8M0), 0, 0x00600000, 0x01},
    {"below that goes down", F(F32, F8_E8M0), 0, 0x005fffff, 0x00},
    {"below 2^-127 is 0x00", F(F32, F8_E8M0), 0, 0x00000001, 0x00},
    {"also from F64", F(F64, F8_E8M0), 0, 0x0000000000000001, 0x00},
    {"F64 just below 1.5 goes down", F(F64, F8_E8M0), 0, 0x3ff7ffffffffffff, 0x7f},
    {"below 1.5 * 2^127 is 0xFE", F(F32, F8_E8M0), 0, 0x7f3fffff, 0xfe},
    {"from there it is 0xFF", F(F32, F8_E8M0), 0, 0x7f400000, 0xff},
    {"or 0xFE saturated", F(F32, F8_E8M0), SAT, 0x7f800000, 0xfe},
    {"zero is 0xFF", F(F32, F8_E8M0), 0, 0x00000000, 0xff},
    {"negatives are 0xFF", F(F32, F8_E8M0), 0, 0xbf800000, 0xff},
    {"zero saturated is 0x00", F(F32, F8_E8M0), SAT, 0x80000000, 0x00},
    {"negatives saturated are 0x00", F(F32, F8_E8M0), SAT, 0xff800000, 0x00},
    {"NaN saturated is 0xFF", F(F32, F8_E8M0), SAT, 0xffc00000, 0xff},

    /* BOOL and integers. */
    {"BOOL 0", F(BOOL, F32), 0, 0x00, 0x00000000},
    {"BOOL 1", F(BOOL, F16), 0, 0x01, 0x3c00},
    {"any other byte is 1", F(BOOL, F32), 0, 0x80, 0x3f800000},
    {"BOOL to F4", F(BOOL, F4), 0, 0xff, 0x2},
    {"I8", F(I8, F32), 0, 0x80, 0xc3000000},
    {"U8", F(U8, F32), 0, 0xff, 0x437f0000},
    {"I16", F(I16, BF16), 0, 0x8000, 0xc700},
    {"I64", F(I64, F64), 0, 0x8000000000000000, 0xc3e0000000000000},
    {"U32 is not signed", F(U32, F32), 0, 0xffffffff, 0x4f800000},

    /* F4 and F6 values. */
    {"F4 0.5", F(F4, F32), 0, 0x1, 0x3f000000},
    {"F4 -6", F(F4, BF16), 0, 0xf, 0xc0c0},
    {"F4 -0", F(F4, F16), 0, 0x8, 0x8000},
    {"F6_E2M3 0.125", F(F6_E2M3, F32), 0, 0x01, 0x3e000000},
    {"F6_E2M3 -7.5", F(F6_E2M3, F32), 0, 0x3f, 0xc0f00000},
    {"F6_E3M2 0.0625", F(F6_E3M2, F32), 0, 0x01, 0x3d800000},
    {"F6_E3M2 28", F(F6_E3M2, F16), 0, 0x1f, 0x4f00},
    {"F6 to the other F6", F(F6_E2M3, F6_E3M2), 0, 0x01, 0x02},
};

/* Element i of a packed or plain stream in host order. */
static void put_element(tenmap_dtype dtype, unsigned char *base, size_t i, uint64_t bits) {
    unsigned width = tmi_dtypes[dtype].bits;
    for (unsigned b = 0; b < width; b++) {
        size_t at = i * width + b, byte = at / 8;
        if (TMI_BIG_ENDIAN && width > 8) /* bit b counts from the end of the element */
            byte = i * width / 8 + width / 8 - 1 - b / 8;
        base[byte] =
            (unsigned char)((base[byte] & ~(1u << at % 8)) | (unsigned)(bits >> b & 1) << at % 8);
    }
}

static void the_rules_hold_on_every_instruction_set(void **state) {
    (void)state;
    enum { COUNT = 100 };
    unsigned char src[COUNT * 8], dst[COUNT * 8];
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        const number_rule *rule = &rules[r];
        memset(src, 0, sizeof src);
        for (size_t i = 0; i < COUNT; i++)
            put_element(rule->from, src, i, rule->in);
        tmi_elements element = {rule->to, 0, !TMI_BIG_ENDIAN};
        assert_int_equal(tmi_scalar_one(rule->to, rule->from, rule->in, rule->flags), rule->out);
        FOR_EACH_ISA(isa)
        for (size_t count = 1; count <= COUNT; count += 33) {
            must_convert(rule->to, dst, sizeof dst, rule->from, src, count, rule->flags);
            for (size_t i = 0; i < count; i++) {
                uint64_t got = tmi_scalar_load(&element, dst, i);
                if (got != rule->out)
                    fail_msg("\"%s\" on %s, element %zu: %llx, not %llx", rule->says, isa, i,
                             (unsigned long long)got, (unsigned long long)rule->out);
            }
        }
    }
}

static void exactly_these_pairs_are_supported(void **state) {
    (void)state;
    for (tenmap_dtype from = TENMAP_BOOL; from < TMI_DTYPE_COUNT; from++)
        for (tenmap_dtype to = TENMAP_BOOL; to < TMI_DTYPE_COUNT; to++) {
            bool complex_one = from == TENMAP_C64 || to == TENMAP_C64;
            bool to_float = tmi_dtypes[to].kind == TENMAP_KIND_FLOAT;
            bool from_float = tmi_dtypes[from].kind == TENMAP_KIND_FLOAT;
            bool allowed = from == to || (!complex_one && (to_float || !from_float));
            unsigned char src[8] = {0}, dst[9];
            tenmap_error error = {0};
            memset(dst, 0x77, sizeof dst);
            tenmap_status status = tenmap_convert(to, dst, 8, from, src, 1, 0, &error);
            assert_int_equal(status, allowed ? TENMAP_OK : TENMAP_ERR_UNSUPPORTED);
            if (!allowed) {
                assert_int_equal(error.status, TENMAP_ERR_UNSUPPORTED);
                assert_non_null(strstr(error.message, tmi_dtypes[from].name));
                assert_non_null(strstr(error.message, tmi_dtypes[to].name));
                for (size_t i = 0; i < sizeof dst; i++)
                    assert_int_equal(dst[i], 0x77);
            }
        }
}

static const struct {
    const char *what;
    tenmap_dtype to, from;
    size_t dst_bytes;
    uint64_t count;
    uint32_t flags;
    bool null_dst, null_src;
    tenmap_status status;
    const char *says;
} refusals[] = {
    {"dst one byte short", F(F32, BF16), 15, 4, 0, 0, 0, TENMAP_ERR_BUFFER, "take 16"},
    {"packed dst short", F(F4, F32), 2, 5, 0, 0, 0, TENMAP_ERR_BUFFER, "take 3"},
    {"no dst bytes", F(F32, F32), 0, 1, 0, 0, 0, TENMAP_ERR_BUFFER, "0 bytes"},
    {"dst NULL", F(F32, BF16), 16, 4, 0, 1, 0, TENMAP_ERR_ARGUMENT, "dst is NULL"},
    {"src NULL", F(F32, BF16), 16, 4, 0, 0, 1, TENMAP_ERR_ARGUMENT, "src is NULL"},
    {"unknown flag", F(F32, BF16), 16, 4, 8, 0, 0, TENMAP_ERR_ARGUMENT, "0x8"},
    {"both streams", F(F32, BF16), 16, 4, 6, 0, 0, TENMAP_ERR_ARGUMENT, "contradict"},
    {"to AS_STORED", F(AS_STORED, F32), 16, 4, 0, 0, 0, TENMAP_ERR_ARGUMENT, "target"},
    {"from AS_STORED", F(F32, AS_STORED), 16, 4, 0, 0, 0, TENMAP_ERR_ARGUMENT, "source"},
    {"to OPAQUE", F(OPAQUE, F32), 16, 4, 0, 0, 0, TENMAP_ERR_ARGUMENT, "OPAQUE"},
    {"from OPAQUE", F(F32, OPAQUE), 16, 4, 0, 0, 0, TENMAP_ERR_ARGUMENT, "OPAQUE"},
    {"to nothing", 63, TENMAP_F32, 16, 4, 0, 0, 0, TENMAP_ERR_ARGUMENT, "63"},
    {"from nothing", TENMAP_F32, UINT32_MAX, 16, 4, 0, 0, 0, TENMAP_ERR_ARGUMENT, "source"},
    {"count * bits overflows", F(F64, U8), 16, UINT64_MAX / 8, 0, 0, 0, TENMAP_ERR_BUFFER, "2^64"},
    {"just not overflowing", F(F64, F64), 16, UINT64_MAX / 64, 0, 0, 0, TENMAP_ERR_BUFFER, "take"},
    {"flags are checked with count 0", F(F32, BF16), 0, 0, 8, 1, 1, TENMAP_ERR_ARGUMENT, "0x8"},
    {"the pair is checked with count 0", F(I8, F32), 0, 0, 0, 1, 1, TENMAP_ERR_UNSUPPORTED, "I8"},
};

static void what_is_refused_writes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        unsigned char src[32] = {0}, dst[32];
        tenmap_error error = {0};
        memset(dst, 0x77, sizeof dst);
        tenmap_status status =
            tenmap_convert(refusals[i].to, refusals[i].null_dst ? NULL : dst, refusals[i].dst_bytes,
                           refusals[i].from, refusals[i].null_src ? NULL : src, refusals[i].count,
                           refusals[i].flags, &error);
        if (status != refusals[i].status || error.status != status ||
            !strstr(error.message, refusals[i].says))
            fail_msg("%s: %s, \"%s\"", refusals[i].what, tenmap_status_name(status), error.message);
        assert_int_equal(tenmap_convert(refusals[i].to, refusals[i].null_dst ? NULL : dst,
                                        refusals[i].dst_bytes, refusals[i].from,
                                        refusals[i].null_src ? NULL : src, refusals[i].count,
                                        refusals[i].flags, NULL),
                         status);
        for (size_t k = 0; k < sizeof dst; k++)
            assert_int_equal(dst[k], 0x77);
    }
}

static void no_elements_need_no_buffers(void **state) {
    (void)state;
    FOR_EACH_PAIR(to, from)
    assert_int_equal(tenmap_convert(to, NULL, 0, from, NULL, 0, 0, NULL), TENMAP_OK);
}

static void packed_layouts_are_as_documented(void **state) {
    (void)state;
    const float three[] = {0.5f, 6.0f, -1.0f}, five[] = {0.125f, 7.5f, 0.0f, -0.0f, 1.0f};
    unsigned char f4[3] = {0xee, 0xee, 0xee}, f6[5] = {0xee, 0xee, 0xee, 0xee, 0xee};
    must_convert(TENMAP_F4, f4, 2, TENMAP_F32, three, 3, 0);
    assert_int_equal(f4[0], 0x71); /* low nibble first */
    assert_int_equal(f4[1], 0x0a); /* spare bits 0 */
    assert_int_equal(f4[2], 0xee);
    must_convert(TENMAP_F6_E2M3, f6, 4, TENMAP_F32, five, 5, 0);
    assert_int_equal(f6[0], 0xc1); /* 000001, and the low bits of 011111 above it */
    assert_int_equal(f6[1], 0x07);
    assert_int_equal(f6[2], 0x80);
    assert_int_equal(f6[3], 0x08);
    assert_int_equal(f6[4], 0xee);
}

/* File order is little-endian; both results are in the host's order. */
static void file_order_is_little_endian(void **state) {
    (void)state;
    const unsigned char file[] = {0x80, 0x3f, 0x01, 0xc0}, c64[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float f32[2];
    uint16_t bf16[2];
    uint32_t parts[2];
    tmi_convert_file((tmi_packed){TENMAP_F32, 0}, f32, (tmi_packed){TENMAP_BF16, 0}, file, 2, 0);
    assert_true(f32[0] == 1.0f && f32[1] == -2.015625f);
    tmi_convert_file((tmi_packed){TENMAP_BF16, 0}, bf16, (tmi_packed){TENMAP_BF16, 0}, file, 2, 0);
    assert_int_equal(bf16[0], 0x3f80);
    assert_int_equal(bf16[1], 0xc001);
    tmi_convert_file((tmi_packed){TENMAP_C64, 0}, parts, (tmi_packed){TENMAP_C64, 0}, c64, 1, 0);
    assert_int_equal(parts[0], 0x04030201);
    assert_int_equal(parts[1], 0x08070605);
}

static void the_path_has_a_name(void **state) {
    (void)state;
    FOR_EACH_ISA(isa) assert_string_equal(tenmap_cpu_path(), isa);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rules_hold_on_every_instruction_set),
        cmocka_unit_test(exactly_these_pairs_are_supported),
        cmocka_unit_test(what_is_refused_writes_nothing),
        cmocka_unit_test(no_elements_need_no_buffers),
        cmocka_unit_test(packed_layouts_are_as_documented),
        cmocka_unit_test(file_order_is_little_endian),
        cmocka_unit_test(the_path_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
