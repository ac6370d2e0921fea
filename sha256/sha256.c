/* SHA-256 in plain C, streams over any engine, and HMAC. */
#include "sha256.h"

#include <string.h>

/*
 * A first piece of this size is worth loading libcrypto for. Signatures are of a few hundred bytes.
 */
enum { WORTH_LIBCRYPTO = 64 << 10 };

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
const uint32_t tmi_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned by) {
    return x >> by | x << (32 - by);
}

static uint32_t load_word(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void store_word(unsigned char *at, uint32_t word) {
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(word >> (24 - 8 * i));
}

/* The next 16 words of the message schedule, in place of the last 16. */
static void extend_schedule(uint32_t w[16]) {
    for (size_t i = 0; i < 16; i++) {
        uint32_t old = w[(i + 1) % 16], recent = w[(i + 14) % 16];
        w[i] += (rotate(old, 7) ^ rotate(old, 18) ^ old >> 3) + w[(i + 9) % 16] +
                (rotate(recent, 17) ^ rotate(recent, 19) ^ recent >> 10);
    }
}

static void plain_rounds(uint32_t s[8], const uint32_t w[16], const uint32_t constants[16]) {
    for (size_t i = 0; i < 16; i++) {
        /* s[0] to s[7] are the standard's a to h. Each round moves them down by one place. */
        uint32_t e = s[4], a = s[0];
        uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + constants[i] + w[i];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        s[7] = s[6], s[6] = s[5], s[5] = e, s[4] = s[3] + t1;
        s[3] = s[2], s[2] = s[1], s[1] = a, s[0] = t1 + t2;
    }
}

static void compress_plain(uint32_t words[8], const unsigned char *blocks, size_t count) {
    for (; count > 0; count--, blocks += TMI_SHA256_BLOCK) {
        uint32_t s[8], w[16];
        memcpy(s, words, sizeof s);
        for (size_t i = 0; i < 16; i++)
            w[i] = load_word(blocks + 4 * i);
        for (size_t round = 0; round < 64; round += 16) {
            if (round > 0)
                extend_schedule(w);
            plain_rounds(s, w, tmi_sha256_constants + round);
        }
        for (size_t i = 0; i < 8; i++)
            words[i] += s[i];
    }
}

bool tmi_sha256_begin_with(tmi_sha256 *stream, tmi_sha256_engine engine) {
    /* The first 32 bits of the fractions of the square roots of the first 8 primes. */
    *stream = (tmi_sha256){{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                            0x1f83d9ab, 0x5be0cd19},
                           .compress = compress_plain,
                           .chosen = true};
    if (engine == TMI_SHA256_INSTRUCTIONS)
        stream->compress = tmi_sha256_instructions();
    if (engine == TMI_SHA256_LIBCRYPTO)
        stream->libcrypto = tmi_libcrypto_begin();
    return stream->compress && (engine != TMI_SHA256_LIBCRYPTO || stream->libcrypto);
}

void tmi_sha256_begin(tmi_sha256 *stream) {
    if (!tmi_sha256_begin_with(stream, TMI_SHA256_INSTRUCTIONS))
        (void)tmi_sha256_begin_with(stream, TMI_SHA256_PLAIN);
    stream->chosen = false;
}

static bool prefers_libcrypto(const tmi_sha256 *stream, size_t first_piece) {
#ifdef TENMAP_LINK_LIBCRYPTO
    (void)stream, (void)first_piece;
    return true;
#else
    return stream->compress == compress_plain && first_piece >= WORTH_LIBCRYPTO;
#endif
}

void tmi_sha256_add(tmi_sha256 *stream, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    if (size == 0)
        return;
    if (!stream->chosen && prefers_libcrypto(stream, size))
        stream->libcrypto = tmi_libcrypto_begin();
    stream->chosen = true;
    if (stream->libcrypto) {
        stream->failed = !tmi_libcrypto_add(stream->libcrypto, bytes, size) || stream->failed;
        return;
    }
    size_t held = (size_t)(stream->total % TMI_SHA256_BLOCK);
    stream->total += size;
    if (held) {
        size_t part = TMI_SHA256_BLOCK - held < size ? TMI_SHA256_BLOCK - held : size;
        memcpy(stream->block + held, at, part);
        at += part, size -= part, held += part;
        if (held < TMI_SHA256_BLOCK)
            return;
        stream->compress(stream->words, stream->block, 1);
    }
    stream->compress(stream->words, at, size / TMI_SHA256_BLOCK);
    if (size % TMI_SHA256_BLOCK)
        memcpy(stream->block, at + size - size % TMI_SHA256_BLOCK, size % TMI_SHA256_BLOCK);
}

/* Appends a one bit, zeros, and the length in bits, which ends a block. */
static void end_here(tmi_sha256 *stream, unsigned char out[TMI_SHA256_BYTES]) {
    enum { LENGTH_AT = TMI_SHA256_BLOCK - 8 };
    unsigned char last[2 * TMI_SHA256_BLOCK] = {0};
    size_t held = (size_t)(stream->total % TMI_SHA256_BLOCK);
    size_t blocks = held < LENGTH_AT ? 1 : 2;
    unsigned char *length = last + blocks * TMI_SHA256_BLOCK - 8;
    memcpy(last, stream->block, held);
    last[held] = 0x80;
    store_word(length, (uint32_t)(stream->total >> 29));
    store_word(length + 4, (uint32_t)(stream->total << 3));
    stream->compress(stream->words, last, blocks);
    for (size_t i = 0; i < 8; i++)
        store_word(out + 4 * i, stream->words[i]);
    tmi_wipe(last, sizeof last);
}

bool tmi_sha256_end(tmi_sha256 *stream, unsigned char out[TMI_SHA256_BYTES]) {
    bool good = !stream->failed;
    if (stream->libcrypto)
        good = tmi_libcrypto_end(stream->libcrypto, good ? out : NULL);
    else
        end_here(stream, out);
    tmi_wipe(stream, sizeof *stream);
    return good;
}

bool tmi_sha256_of(const void *bytes, size_t size, unsigned char out[TMI_SHA256_BYTES]) {
    tmi_sha256 stream;
    tmi_sha256_begin(&stream);
    tmi_sha256_add(&stream, bytes, size);
    return tmi_sha256_end(&stream, out);
}

/* The digest of a block, each byte of the key exclusive-or `with`, and then of `bytes`. */
static bool hash_keyed(const unsigned char key[TMI_SHA256_BLOCK], unsigned char with,
                       const void *bytes, size_t size, unsigned char out[TMI_SHA256_BYTES]) {
    unsigned char block[TMI_SHA256_BLOCK];
    tmi_sha256 stream;
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ with;
    tmi_sha256_begin(&stream);
    tmi_sha256_add(&stream, block, sizeof block);
    tmi_sha256_add(&stream, bytes, size);
    tmi_wipe(block, sizeof block);
    return tmi_sha256_end(&stream, out);
}

bool tmi_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                     unsigned char out[TMI_SHA256_BYTES]) {
    unsigned char padded[TMI_SHA256_BLOCK] = {0}, inner[TMI_SHA256_BYTES];
    bool good = true;
    if (key_size > sizeof padded)
        good = tmi_sha256_of(key, key_size, padded);
    else if (key_size > 0)
        memcpy(padded, key, key_size);
    good = good && hash_keyed(padded, 0x36, bytes, size, inner) &&
           hash_keyed(padded, 0x5c, inner, sizeof inner, out);
    tmi_wipe(padded, sizeof padded);
    tmi_wipe(inner, sizeof inner);
    return good;
}

void tmi_wipe(void *secret, size_t size) {
    volatile unsigned char *at = secret;
    for (size_t i = 0; i < size; i++)
        at[i] = 0;
}
