/*
 * XXH3: every instruction set gives the digests of the reference implementation, however the bytes
 * are cut into pieces. If libxxhash was there at build time, it is the judge of many lengths.
 */
#include "convert_common.h"
#include "values/xxh3.h"

#include <stdlib.h>
#ifdef TENMAP_HAVE_XXHASH
#include <xxhash.h>
#endif

enum { MANY = 5000, LARGE = 3 << 20 };

/* Bytes that every test computes in the same way. */
static unsigned char *make_bytes(size_t size) {
    unsigned char *bytes = malloc(size);
    uint32_t x = 1;
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(x >> 24);
    }
    return bytes;
}

static void hash_whole(const void *bytes, size_t size, uint8_t out[TMI_XXH3_BYTES]) {
    tmi_xxh3 stream;
    tmi_xxh3_begin(&stream);
    tmi_xxh3_add(&stream, bytes, size);
    tmi_xxh3_end(&stream, out);
}

/* In pieces of up to `most` bytes, some of them empty. */
static void hash_pieces(const unsigned char *bytes, size_t size, size_t most, uint64_t *random,
                        uint8_t out[TMI_XXH3_BYTES]) {
    tmi_xxh3 stream;
    tmi_xxh3_begin(&stream);
    for (size_t at = 0; at < size;) {
        size_t piece = (size_t)(next_random(random) % (most + 1));
        piece = piece < size - at ? piece : size - at;
        tmi_xxh3_add(&stream, bytes + at, piece);
        at += piece;
    }
    tmi_xxh3_end(&stream, out);
}

/* Digests of the reference implementation, one or more for each of its formulas. */
static void test_known_digests(void **state) {
    (void)state;
    static const struct {
        size_t size;
        const char *digest;
    } rows[] = {
        {0, "99aa06d3014798d86001c324468d497f"},    {1, "beff62be44bc9be4429e81bc6744101c"},
        {3, "9dce807f4a9aaa5632dbb5c7774cc94f"},    {4, "9772187e76395ea05def542b8e8255bb"},
        {8, "29a3277f85f28675da3ca77f4508da63"},    {9, "57fc1cef528bd18785e53a642b77ffab"},
        {16, "f8ae1a6f144fb00b4c6929dc65a535a0"},   {17, "0ad716e7cfed9dc843287186cdfec85d"},
        {96, "6eea949b1d64d297bc2bc1d3d2a98617"},   {97, "3abe16c7b27cae022dc297aec6120b11"},
        {128, "2b83749a25627c556772960c7e09e15b"},  {129, "d2c5fdf14399d768d15020c0444d308f"},
        {240, "b2c3c2aa029b2279e16f608e11e76335"},  {241, "e75e577a31d24834d6afac6f8fa85b01"},
        {1024, "1ac8856c8b289d9abb9f0c3761cdfd54"}, {1025, "15379a00bb4cec9895edccc1adc4d895"},
        {2048, "dda6abe2811d8216278f7a6a39416b51"}, {4999, "72604d15ecc8f661ea18e5dd8fd15f51"},
    };
    unsigned char *bytes = make_bytes(MANY);
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t digest[TMI_XXH3_BYTES];
        char hex[2 * TMI_XXH3_BYTES + 1];
        hash_whole(bytes, rows[i].size, digest);
        for (size_t k = 0; k < TMI_XXH3_BYTES; k++)
            snprintf(hex + 2 * k, 3, "%02x", digest[k]);
        if (strcmp(hex, rows[i].digest) != 0)
            fail_msg("%s: %zu bytes: %s, not %s", isa, rows[i].size, hex, rows[i].digest);
    }
    free(bytes);
}

/* Neither the instruction set nor the pieces change a digest, at any alignment. */
static void test_pieces_and_instruction_sets_do_not_matter(void **state) {
    (void)state;
    unsigned char *bytes = make_bytes(MANY);
    uint64_t random = 88172645463325252u;
    for (size_t size = 0; size < MANY; size += 1 + size / 500) {
        uint8_t expected[TMI_XXH3_BYTES], got[TMI_XXH3_BYTES];
        const unsigned char *from = bytes + (size < MANY - 8 ? size % 8 : 0);
        assert_true(use_isa(ISA_COUNT - 1)); /* plain C */
        hash_whole(from, size, expected);
        FOR_EACH_ISA(isa)
        for (size_t most = 1; most < 3000; most = 3 * most + 61) {
            hash_pieces(from, size, most, &random, got);
            if (memcmp(got, expected, sizeof got) != 0)
                fail_msg("%s: %zu bytes in pieces of up to %zu", isa, size, most);
        }
    }
    free(bytes);
}

/* A digest can be taken in the middle of a stream, which then goes on. */
static void test_a_stream_goes_on_after_a_digest(void **state) {
    (void)state;
    unsigned char *bytes = make_bytes(MANY);
    tmi_xxh3 stream;
    uint8_t got[TMI_XXH3_BYTES], expected[TMI_XXH3_BYTES];
    tmi_xxh3_begin(&stream);
    for (size_t size = 0; size <= MANY - 250; size += 250) {
        tmi_xxh3_end(&stream, got);
        hash_whole(bytes, size, expected);
        assert_memory_equal(got, expected, sizeof got);
        tmi_xxh3_add(&stream, bytes + size, 250);
    }
    free(bytes);
}

static void test_libxxhash_agrees(void **state) {
    (void)state;
#ifdef TENMAP_HAVE_XXHASH
    unsigned char *bytes = make_bytes(LARGE);
    uint64_t random = 88172645463325252u;
    FOR_EACH_ISA(isa)
    for (size_t size = 0; size <= LARGE; size += size < MANY ? 1 : 700001) {
        XXH128_canonical_t expected;
        uint8_t whole[TMI_XXH3_BYTES], pieces[TMI_XXH3_BYTES];
        XXH128_canonicalFromHash(&expected, XXH3_128bits(bytes, size));
        hash_whole(bytes, size, whole);
        hash_pieces(bytes, size, size < 100 ? 8 : size / 3, &random, pieces);
        if (memcmp(whole, expected.digest, sizeof whole) != 0 ||
            memcmp(pieces, expected.digest, sizeof pieces) != 0)
            fail_msg("%s: %zu bytes", isa, size);
    }
    free(bytes);
#else
    print_message("skipped: built without libxxhash (Debian: libxxhash-dev)\n");
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_digests),
        cmocka_unit_test(test_pieces_and_instruction_sets_do_not_matter),
        cmocka_unit_test(test_a_stream_goes_on_after_a_digest),
        cmocka_unit_test(test_libxxhash_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
