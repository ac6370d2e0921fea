/* XXH3, 128 bits: short inputs, each range of lengths by its own formula, and streams. */
#include "xxh3.h"
#include "cpu.h"

#include <string.h>

static const uint64_t PRIME_1 = 0x9e3779b185ebca87, PRIME_2 = 0xc2b2ae3d27d4eb4f,
                      PRIME_3 = 0x165667b19e3779f9, PRIME_4 = 0x85ebca77c2b2ae63,
                      PRIME_5 = 0x27d4eb2f165667c5, MIX_1 = 0x165667919e3779f9,
                      MIX_2 = 0x9fb21c651e98df25;
static const uint32_t PRIME32_1 = 0x9e3779b1, PRIME32_2 = 0x85ebca77, PRIME32_3 = 0xc2b2ae3d;

/* The longest input of each of the formulas for short inputs. */
enum { TINY = 3, SMALL = 8, MEDIUM = 16, LARGE = 128, LONGEST_SHORT = 240 };

typedef struct halves {
    uint64_t low, high;
} halves;

static uint64_t secret_u64(size_t at) {
    return tmi_xxh3_load(tmi_xxh3_secret + at);
}

static uint32_t load_u32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t reverse_u32(uint32_t x) {
    return x << 24 | (x << 8 & 0xff0000) | (x >> 8 & 0xff00) | x >> 24;
}

static uint64_t reverse_u64(uint64_t x) {
    return (uint64_t)reverse_u32((uint32_t)x) << 32 | reverse_u32((uint32_t)(x >> 32));
}

/* The 128-bit product: tmi_fold gives the exclusive or of its halves. */
static halves multiply(uint64_t a, uint64_t b) {
    return (halves){a * b, tmi_fold(a, b) ^ a * b};
}

static uint64_t avalanche(uint64_t x) {
    x = (x ^ x >> 37) * MIX_1;
    return x ^ x >> 32;
}

/* The stronger mix, of XXH64. */
static uint64_t avalanche_64(uint64_t x) {
    x = (x ^ x >> 33) * PRIME_2;
    x = (x ^ x >> 29) * PRIME_3;
    return x ^ x >> 32;
}

static halves hash_tiny(const unsigned char *in, size_t len) {
    uint32_t low =
        (uint32_t)in[0] << 16 | (uint32_t)in[len / 2] << 24 | in[len - 1] | (uint32_t)len << 8;
    uint32_t swapped = reverse_u32(low), high = swapped << 13 | swapped >> 19;
    uint32_t flip_low = load_u32(tmi_xxh3_secret) ^ load_u32(tmi_xxh3_secret + 4);
    uint32_t flip_high = load_u32(tmi_xxh3_secret + 8) ^ load_u32(tmi_xxh3_secret + 12);
    return (halves){avalanche_64(low ^ flip_low), avalanche_64(high ^ flip_high)};
}

static halves hash_small(const unsigned char *in, size_t len) {
    uint64_t value = load_u32(in) + ((uint64_t)load_u32(in + len - 4) << 32);
    halves h = multiply(value ^ secret_u64(16) ^ secret_u64(24), PRIME_1 + ((uint64_t)len << 2));
    h.high += h.low << 1;
    h.low ^= h.high >> 3;
    h.low = (h.low ^ h.low >> 35) * MIX_2;
    h.low ^= h.low >> 28;
    h.high = avalanche(h.high);
    return h;
}

static halves hash_medium(const unsigned char *in, size_t len) {
    uint64_t first = tmi_xxh3_load(in), last = tmi_xxh3_load(in + len - 8);
    halves m = multiply(first ^ last ^ secret_u64(32) ^ secret_u64(40), PRIME_1);
    m.low += (uint64_t)(len - 1) << 54;
    last ^= secret_u64(48) ^ secret_u64(56);
    m.high += last + (uint64_t)(uint32_t)last * (PRIME32_2 - 1);
    m.low ^= reverse_u64(m.high);
    halves h = multiply(m.low, PRIME_2);
    h.high += m.high * PRIME_2;
    return (halves){avalanche(h.low), avalanche(h.high)};
}

static uint64_t mix_16(const unsigned char *in, size_t secret_at) {
    return tmi_fold(tmi_xxh3_load(in) ^ secret_u64(secret_at),
                    tmi_xxh3_load(in + 8) ^ secret_u64(secret_at + 8));
}

static void mix_32(halves *sum, const unsigned char *a, const unsigned char *b, size_t secret_at) {
    sum->low += mix_16(a, secret_at);
    sum->low ^= tmi_xxh3_load(b) + tmi_xxh3_load(b + 8);
    sum->high += mix_16(b, secret_at + 16);
    sum->high ^= tmi_xxh3_load(a) + tmi_xxh3_load(a + 8);
}

static halves finish_mixed(halves sum, size_t len) {
    uint64_t high = sum.low * PRIME_1 + sum.high * PRIME_4 + (uint64_t)len * PRIME_2;
    return (halves){avalanche(sum.low + sum.high), 0 - avalanche(high)};
}

/* 17 to 128 bytes: pairs of 16 bytes from both ends, the innermost first. */
static halves hash_large(const unsigned char *in, size_t len) {
    halves sum = {(uint64_t)len * PRIME_1, 0};
    for (size_t pairs = (len - 1) / 32 + 1; pairs-- > 0;)
        mix_32(&sum, in + 16 * pairs, in + len - 16 * (pairs + 1), 32 * pairs);
    return finish_mixed(sum, len);
}

static halves hash_longest_short(const unsigned char *in, size_t len) {
    halves sum = {(uint64_t)len * PRIME_1, 0};
    size_t at = 0;
    for (; at < 128; at += 32)
        mix_32(&sum, in + at, in + at + 16, at);
    sum = (halves){avalanche(sum.low), avalanche(sum.high)};
    for (; at + 32 <= len; at += 32)
        mix_32(&sum, in + at, in + at + 16, at - 128 + 3);
    mix_32(&sum, in + len - 16, in + len - 32, 103);
    return finish_mixed(sum, len);
}

static halves hash_short(const unsigned char *in, size_t len) {
    if (len == 0)
        return (halves){avalanche_64(secret_u64(64) ^ secret_u64(72)),
                        avalanche_64(secret_u64(80) ^ secret_u64(88))};
    return len <= TINY     ? hash_tiny(in, len)
           : len <= SMALL  ? hash_small(in, len)
           : len <= MEDIUM ? hash_medium(in, len)
           : len <= LARGE  ? hash_large(in, len)
                           : hash_longest_short(in, len);
}

static uint64_t merge_sums(const uint64_t sums[8], size_t secret_at, uint64_t start) {
    for (size_t i = 0; i < 8; i += 2)
        start += tmi_fold(sums[i] ^ secret_u64(secret_at + 8 * i),
                          sums[i + 1] ^ secret_u64(secret_at + 8 * i + 8));
    return avalanche(start);
}

/* The stripes of the last block, which may be incomplete, and once more the last 64 bytes. */
static halves hash_long(const tmi_xxh3 *stream) {
    uint64_t sums[8];
    memcpy(sums, stream->sums, sizeof sums);
    for (size_t i = 0; i < (stream->held - 1) / TMI_XXH3_STRIPE; i++)
        tmi_xxh3_stripe(sums, stream->bytes + (i + 1) * TMI_XXH3_STRIPE, tmi_xxh3_secret + 8 * i);
    tmi_xxh3_stripe(sums, stream->bytes + stream->held, tmi_xxh3_secret + 121);
    return (halves){merge_sums(sums, 11, stream->total * PRIME_1),
                    merge_sums(sums, 117, ~(stream->total * PRIME_2))};
}

void tmi_xxh3_begin(tmi_xxh3 *stream) {
    const uint64_t start[8] = {PRIME32_3, PRIME_1,   PRIME_2, PRIME_3,
                               PRIME_4,   PRIME32_2, PRIME_5, PRIME32_1};
    memcpy(stream->sums, start, sizeof start);
    stream->total = 0;
    stream->held = 0;
}

/* Adds whole blocks to the sums, and keeps the last 64 bytes, which the end may need. */
static void consume(tmi_xxh3 *stream, const unsigned char *bytes, size_t blocks) {
    tmi_cpu_kernels()->xxh3_blocks(stream->sums, bytes, blocks);
    memcpy(stream->bytes, bytes + blocks * TMI_XXH3_BLOCK - TMI_XXH3_STRIPE, TMI_XXH3_STRIPE);
}

void tmi_xxh3_add(tmi_xxh3 *stream, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    unsigned char *held = stream->bytes + TMI_XXH3_STRIPE;
    stream->total += size;
    while (size > 0) {
        /* A full block is consumed only when a byte follows it: the last one is treated apart. */
        if (stream->held == TMI_XXH3_BLOCK) {
            consume(stream, held, 1);
            stream->held = 0;
        }
        if (stream->held == 0 && size > TMI_XXH3_BLOCK) {
            size_t blocks = (size - 1) / TMI_XXH3_BLOCK;
            consume(stream, at, blocks);
            at += blocks * TMI_XXH3_BLOCK;
            size -= blocks * TMI_XXH3_BLOCK;
        }
        size_t room = TMI_XXH3_BLOCK - stream->held, part = size < room ? size : room;
        memcpy(held + stream->held, at, part);
        stream->held += part;
        at += part;
        size -= part;
    }
}

void tmi_xxh3_add_number(tmi_xxh3 *stream, uint64_t number, size_t width) {
    unsigned char bytes[8];
    for (size_t i = 0; i < width; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    tmi_xxh3_add(stream, bytes, width);
}

void tmi_xxh3_end(const tmi_xxh3 *stream, uint8_t out[TMI_XXH3_BYTES]) {
    halves h = stream->total <= LONGEST_SHORT
                   ? hash_short(stream->bytes + TMI_XXH3_STRIPE, (size_t)stream->total)
                   : hash_long(stream);
    for (size_t i = 0; i < 8; i++) {
        out[i] = (uint8_t)(h.high >> (56 - 8 * i));
        out[8 + i] = (uint8_t)(h.low >> (56 - 8 * i));
    }
}
