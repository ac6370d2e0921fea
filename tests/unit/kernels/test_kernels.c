/*
 * Compares every instruction set with the scalar oracle, bit for bit: all lengths, all alignments,
 * all inputs of 8 and 16 bits, edge cases of the wider ones, with guard pages, and with the CPU's
 * flush-to-zero modes on.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#endif
#include "convert_common.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONGEST = 300 };

/* Memory that ends at a guard page. */
static unsigned char *guarded(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    unsigned char *start =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(start != MAP_FAILED);
    assert_int_equal(mprotect(start + room, page, PROT_NONE), 0);
    return start + room; /* the end */
}

static const uint32_t all_flags[] = {0, TENMAP_CONVERT_SATURATE, TENMAP_CONVERT_STREAM,
                                     TENMAP_CONVERT_SATURATE | TENMAP_CONVERT_STREAM};

static void every_length_up_to_300_against_guard_pages(void **state) {
    (void)state;
    uint64_t seed = 1;
    unsigned char *src_end = guarded(LONGEST * 8), *dst_end = guarded(LONGEST * 8);
    unsigned char source[LONGEST * 8], want[LONGEST * 8];
    FOR_EACH_PAIR(to, from) {
        fill_edgy(from, source, LONGEST, &seed);
        for (size_t count = 0; count <= LONGEST; count++) {
            size_t src_bytes = stream_bytes(from, count, 0);
            size_t dst_bytes = stream_bytes(to, count, 0);
            uint32_t flags = all_flags[count % 4];
            unsigned char *src = src_end - src_bytes, *dst = dst_end - dst_bytes;
            memcpy(src, source, src_bytes);
            oracle_convert(to, want, from, source, count, flags);
            FOR_EACH_ISA(isa) {
                memset(dst, 0xa5, dst_bytes);
                must_convert(to, dst, dst_bytes, from, src, count, flags);
                must_equal(dst, want, dst_bytes, to, from, "at the end of a page");
            }
        }
    }
}

static void every_alignment_of_source_and_destination(void **state) {
    (void)state;
    enum { COUNT = 145, ROOM = COUNT * 8 + 192 };
    uint64_t seed = 2;
    unsigned char source[COUNT * 8], want[COUNT * 8];
    unsigned char *src = aligned_alloc(64, ROOM / 64 * 64 + 64);
    unsigned char *dst = aligned_alloc(64, ROOM / 64 * 64 + 64);
    assert_true(src && dst);
    FOR_EACH_PAIR(to, from) {
        size_t src_bytes = stream_bytes(from, COUNT, 0), dst_bytes = stream_bytes(to, COUNT, 0);
        fill_edgy(from, source, COUNT, &seed);
        oracle_convert(to, want, from, source, COUNT, 0);
        for (size_t at = 0; at < 64 * 8; at++) {
            size_t d = at % 64, s = (at / 64 * 9 + d * 5) % 64;
            memcpy(src + s, source, src_bytes);
            FOR_EACH_ISA(isa) {
                memset(dst, 0x5a, ROOM);
                uint32_t flags = at & 1 ? TENMAP_CONVERT_STREAM : TENMAP_CONVERT_NO_STREAM;
                must_convert(to, dst + d, dst_bytes, from, src + s, COUNT, flags);
                must_equal(dst + d, want, dst_bytes, to, from, "unaligned");
                for (size_t i = 0; i < ROOM; i++)
                    if ((i < d || i >= d + dst_bytes) && dst[i] != 0x5a)
                        fail_msg("a byte outside the destination was written");
            }
        }
    }
    free(src);
    free(dst);
}

/* Every code of a source of at most 16 bits, at every position within a vector. */
static void every_input_of_8_and_16_bits(void **state) {
    (void)state;
    enum { MOST = 65536 + 64 };
    unsigned char *src = malloc(MOST * 2), *dst = malloc(MOST * 8), *want = malloc(MOST * 8);
    assert_true(src && dst && want);
    FOR_EACH_PAIR(to, from) {
        unsigned width = tmi_dtypes[from].bits;
        if (width > 16)
            continue;
        size_t codes = (size_t)1 << width, count = width == 16 ? codes : 37 * codes;
        for (uint32_t saturate = 0; saturate <= 1; saturate++) {
            for (size_t shift = 0; shift < (width == 16 ? 3 : 2); shift++) {
                for (size_t i = 0; i < count; i++) {
                    /* 37 is odd, so that codes meet every lane. */
                    uint64_t code = (i + shift * 11) % codes;
                    uint16_t two = (uint16_t)code;
                    uint8_t one = (uint8_t)code;
                    if (width == 16)
                        memcpy(src + i * 2, &two, 2);
                    else if (width == 8)
                        src[i] = one;
                }
                if (width < 8)
                    for (size_t i = 0; i < stream_bytes(from, count, 0); i++)
                        src[i] = (unsigned char)(i * 0x9d + shift);
                oracle_convert(to, want, from, src, count, saturate);
                FOR_EACH_ISA(isa) {
                    must_convert(to, dst, MOST * 8, from, src, count, saturate);
                    must_equal(dst, want, stream_bytes(to, count, 0), to, from, "all inputs");
                }
            }
        }
    }
    free(src);
    free(dst);
    free(want);
}

static void edges_of(tenmap_dtype from, size_t rounds, uint64_t seed) {
    enum { COUNT = 4096 };
    static uint64_t src[COUNT], dst[COUNT], want[COUNT];
    for (tenmap_dtype to = TENMAP_BOOL; to < TMI_DTYPE_COUNT; to++) {
        if (!always_converts(to, from))
            continue;
        for (size_t round = 0; round < rounds; round++) {
            fill_edgy(from, (unsigned char *)src, COUNT, &seed);
            uint32_t flags = all_flags[round % 4];
            oracle_convert(to, want, from, src, COUNT, flags);
            FOR_EACH_ISA(isa) {
                must_convert(to, dst, sizeof dst, from, src, COUNT, flags);
                must_equal((unsigned char *)dst, (unsigned char *)want, stream_bytes(to, COUNT, 0),
                           to, from, "edges");
            }
        }
    }
}

static void edges_of_32_and_64_bit_sources(void **state) {
    (void)state;
    edges_of(TENMAP_F32, 64, 3);
    edges_of(TENMAP_F64, 64, 4);
    edges_of(TENMAP_I32, 16, 5);
    edges_of(TENMAP_U32, 16, 6);
    edges_of(TENMAP_I64, 16, 7);
    edges_of(TENMAP_U64, 16, 8);
}

/* The oracle uses integer arithmetic, so its results are right whatever the mode. */
static void the_same_with_flush_to_zero_modes_on(void **state) {
    if (!set_flush_modes(1)) {
        print_message("skipped: no flush-to-zero mode that this test knows\n");
        return;
    }
    every_input_of_8_and_16_bits(state);
    edges_of_32_and_64_bit_sources(state);
    set_flush_modes(0);
}

/* From any bit to any bit, in file order; bits before the first one of the destination are kept. */
static void packed_elements_start_at_any_bit(void **state) {
    (void)state;
    enum { COUNT = 83 };
    uint64_t seed = 9;
    unsigned char src[COUNT * 8 + 8], dst[COUNT * 8 + 8], want[COUNT * 8 + 8];
    FOR_EACH_PAIR(to, from) {
        bool packs = tmi_dtypes[to].bits < 8, unpacks = tmi_dtypes[from].bits < 8;
        if (!packs && !unpacks)
            continue;
        for (size_t i = 0; i < sizeof src; i++)
            src[i] = (unsigned char)(next_random(&seed) >> 32);
        for (unsigned at = 0; at < 64; at++) {
            unsigned dst_bit = packs ? at % 8 : 0, src_bit = unpacks ? at / 8 : 0;
            size_t count = at == 63 ? COUNT : (size_t)(next_random(&seed) % COUNT);
            tmi_elements target = {to, dst_bit, !TMI_BIG_ENDIAN}, source = {from, src_bit, true};
            size_t bytes = count ? stream_bytes(to, count, dst_bit) : 0;
            memset(want, 0xff, sizeof want);
            tmi_scalar_convert(target, want, source, src, count, 0);
            FOR_EACH_ISA(isa) {
                memset(dst, 0xff, sizeof dst);
                tmi_convert_file((tmi_packed){to, dst_bit}, dst, (tmi_packed){from, src_bit}, src,
                                 count, 0);
                must_equal(dst, want, sizeof dst, to, from, "packed");
            }
            if (count)
                assert_int_equal(dst[0] & ((1u << dst_bit) - 1), (1u << dst_bit) - 1);
            unsigned used = (unsigned)((dst_bit + count * tmi_dtypes[to].bits) % 8);
            if (bytes && used)
                assert_int_equal(dst[bytes - 1] >> used, 0);
        }
    }
}

/* Larger than the library's blocks, and large enough to be streamed by default. */
static void long_ranges_in_blocks_and_streams(void **state) {
    (void)state;
    enum { COUNT = 10007 };
    uint64_t seed = 10;
    unsigned char *src = malloc(COUNT * 8 + 1), *dst = malloc(COUNT * 8 + 1);
    unsigned char *want = malloc(COUNT * 8);
    assert_true(src && dst && want);
    FOR_EACH_PAIR(to, from) {
        fill_edgy(from, src + 1, COUNT, &seed);
        for (size_t f = 0; f < 4; f++) {
            oracle_convert(to, want, from, src + 1, COUNT, all_flags[f]);
            FOR_EACH_ISA(isa) {
                for (size_t d = 0; d < 2; d++) {
                    must_convert(to, dst + d, COUNT * 8, from, src + 1, COUNT, all_flags[f]);
                    must_equal(dst + d, want, stream_bytes(to, COUNT, 0), to, from, "long");
                }
            }
        }
    }
    free(src);
    free(dst);
    free(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_up_to_300_against_guard_pages),
        cmocka_unit_test(every_alignment_of_source_and_destination),
        cmocka_unit_test(every_input_of_8_and_16_bits),
        cmocka_unit_test(edges_of_32_and_64_bit_sources),
        cmocka_unit_test(the_same_with_flush_to_zero_modes_on),
        cmocka_unit_test(packed_elements_start_at_any_bit),
        cmocka_unit_test(long_ranges_in_blocks_and_streams),
    };
    FOR_EACH_ISA(isa) print_message("instruction set: %s\n", isa);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
