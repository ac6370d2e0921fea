/*
 * SHA-256 and HMAC: the digests of the standards' examples, on every engine and in pieces of any
 * size.
 */
#include "sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct engine {
    const char *name;
    tmi_sha256_engine engine;
} engines[] = {{"plain C", TMI_SHA256_PLAIN},
               {"instructions", TMI_SHA256_INSTRUCTIONS},
               {"libcrypto", TMI_SHA256_LIBCRYPTO}};

enum { ENGINES = sizeof engines / sizeof engines[0] };

static void must_be(const unsigned char digest[TMI_SHA256_BYTES], const char *hex) {
    char got[2 * TMI_SHA256_BYTES + 1];
    for (size_t i = 0; i < TMI_SHA256_BYTES; i++)
        snprintf(got + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(got, hex);
}

/* The digest of `bytes`, `repeat` times. False if the machine does not have this engine. */
static bool hash_with(const struct engine *e, const void *bytes, size_t size, size_t repeat,
                      unsigned char out[TMI_SHA256_BYTES]) {
    tmi_sha256 stream;
    if (!tmi_sha256_begin_with(&stream, e->engine))
        return false;
    for (size_t i = 0; i < repeat; i++)
        tmi_sha256_add(&stream, bytes, size);
    assert_true(tmi_sha256_end(&stream, out));
    return true;
}

/* The examples that NIST publishes for FIPS 180. */
static void test_the_examples_of_nist(void **state) {
    (void)state;
    static const struct {
        const char *message;
        size_t repeat;
        const char *digest;
    } rows[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
         "lmnopqrsmnopqrstnopqrstu",
         1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
        {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (size_t e = 0; e < ENGINES; e++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            unsigned char digest[TMI_SHA256_BYTES];
            if (hash_with(&engines[e], rows[i].message, strlen(rows[i].message), rows[i].repeat,
                          digest))
                must_be(digest, rows[i].digest);
            else if (i == 0)
                print_message("this machine has no %s\n", engines[e].name);
        }
}

/* Every length around the ends of blocks, and every way to cut it in pieces, gives one digest. */
static void test_pieces_and_engines_do_not_matter(void **state) {
    (void)state;
    enum { LONGEST = 3 * TMI_SHA256_BLOCK + 2 };
    unsigned char bytes[LONGEST];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(37 * i + i / 7);
    for (size_t size = 0; size <= LONGEST; size++) {
        unsigned char whole[TMI_SHA256_BYTES], other[TMI_SHA256_BYTES];
        assert_true(hash_with(&engines[0], bytes, size, 1, whole));
        assert_true(tmi_sha256_of(bytes, size, other));
        assert_memory_equal(whole, other, sizeof whole);
        for (size_t e = 0; e < ENGINES; e++)
            for (size_t first = 0; first <= size; first++) {
                tmi_sha256 stream;
                if (!tmi_sha256_begin_with(&stream, engines[e].engine))
                    break;
                tmi_sha256_add(&stream, bytes, first);
                tmi_sha256_add(&stream, bytes + first, (size - first) / 2);
                tmi_sha256_add(&stream, bytes + first + (size - first) / 2,
                               size - first - (size - first) / 2);
                assert_true(tmi_sha256_end(&stream, other));
                assert_memory_equal(whole, other, sizeof whole);
            }
    }
}

/* A stream that begins with a large piece may go to libcrypto, with the same digest. */
static void test_large_pieces(void **state) {
    (void)state;
    enum { SIZE = (1 << 20) + 13 };
    unsigned char *bytes = malloc(SIZE), whole[TMI_SHA256_BYTES], other[TMI_SHA256_BYTES];
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i ^ i >> 8);
    assert_true(hash_with(&engines[0], bytes, SIZE, 1, whole));
    assert_true(tmi_sha256_of(bytes, SIZE, other));
    assert_memory_equal(whole, other, sizeof whole);
    free(bytes);
}

/* Test cases 1 to 4, 6 and 7 of RFC 4231; case 5 is about truncation. */
static void test_hmac_of_rfc_4231(void **state) {
    (void)state;
    unsigned char key[131], data[50], digest[TMI_SHA256_BYTES];
    memset(key, 0x0b, 20);
    assert_true(tmi_hmac_sha256(key, 20, "Hi There", 8, digest));
    must_be(digest, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_true(tmi_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest));
    must_be(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    assert_true(tmi_hmac_sha256(key, 20, data, sizeof data, digest));
    must_be(digest, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    for (size_t i = 0; i < 25; i++)
        digest[i] = (unsigned char)(i + 1);
    memset(data, 0xcd, sizeof data);
    assert_true(tmi_hmac_sha256(digest, 25, data, sizeof data, digest)); /* in place */
    must_be(digest, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
    assert_true(tmi_hmac_sha256(key, sizeof key, text, strlen(text), digest));
    must_be(digest, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    text = "This is a test using a larger than block-size key and a larger than block-size data. "
           "The key needs to be hashed before being used by the HMAC algorithm.";
    assert_true(tmi_hmac_sha256(key, sizeof key, text, strlen(text), digest));
    must_be(digest, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

/* Nothing and no key are allowed, also as null pointers. */
static void test_empty_keys_and_messages(void **state) {
    (void)state;
    unsigned char digest[TMI_SHA256_BYTES];
    assert_true(tmi_hmac_sha256(NULL, 0, NULL, 0, digest));
    must_be(digest, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
    assert_true(tmi_sha256_of(NULL, 0, digest));
    must_be(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void test_wiping(void **state) {
    (void)state;
    char secret[5] = "word";
    tmi_wipe(secret, 3);
    assert_memory_equal(secret, "\0\0\0d", 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_examples_of_nist),
        cmocka_unit_test(test_pieces_and_engines_do_not_matter),
        cmocka_unit_test(test_large_pieces),
        cmocka_unit_test(test_hmac_of_rfc_4231),
        cmocka_unit_test(test_empty_keys_and_messages),
        cmocka_unit_test(test_wiping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
