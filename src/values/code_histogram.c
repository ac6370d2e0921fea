/*
 * Counts elements by their codes. A processor stores once per clock, and counting is bound by its
 * stores. So bytes are counted two at a time, as 16-bit codes, if there are enough of them to pay
 * for so large a table.
 */
#include "values.h"
#include "histogram.h"

#ifndef TENMAP_NO_MEASURE

#include <string.h>

/*
 * Prefetches the bytes that come next: the processor itself looks no further ahead than the
 * counting that it waits for.
 */
static inline void prefetch_codes_ahead(const unsigned char *src) {
#ifdef __GNUC__
    __builtin_prefetch((const void *)((uintptr_t)src + 1024));
#else
    (void)src;
#endif
}

/* Counts sixteen bytes in two halves, so that neither waits for the other's shifts. */
static inline void count_two_quads(uint32_t *counts, const unsigned char *src) {
    uint64_t a, b;
    memcpy(&a, src, sizeof a);
    memcpy(&b, src + 8, sizeof b);
    for (unsigned k = 0; k < 4; k++) {
        counts[a & 0xffff]++;
        counts[b & 0xffff]++;
        a >>= 16;
        b >>= 16;
    }
}

void tmi_count_words(uint32_t *counts, const unsigned char *src, size_t count) {
    size_t i = 0;
    for (; !TMI_BIG_ENDIAN && i + 32 <= count; i += 32) {
        prefetch_codes_ahead(src + 2 * i);
        for (size_t k = 0; k < 32; k += 8)
            count_two_quads(counts, src + 2 * (i + k));
    }
    for (; i < count; i++)
        counts[src[2 * i] | (uint32_t)src[2 * i + 1] << 8]++;
}

bool tmi_move_counts(uint32_t *counts, uint32_t out[256]) {
    uint32_t any = 0;
    for (size_t i = 0; i < 256; i++)
        any |= counts[i];
    if (!any)
        return false;
    memcpy(out, counts, 256 * sizeof *out);
    memset(counts, 0, 256 * sizeof *out);
    return true;
}

/* Adds the counts of the single bytes of all pairs to `bytes`, and clears the pairs. */
static void add_byte_counts(uint32_t *pairs, uint64_t bytes[256]) {
    uint32_t row[256], columns[256] = {0};
    for (size_t second = 0; second < 256; second++) {
        uint32_t all = 0;
        if (!tmi_move_counts(pairs + 256 * second, row))
            continue;
        for (size_t first = 0; first < 256; first++) {
            columns[first] += row[first];
            all += row[first];
        }
        bytes[second] += all;
    }
    for (size_t first = 0; first < 256; first++)
        bytes[first] += columns[first];
}

static void count_few_bytes(uint64_t counts[256], const unsigned char *src, size_t count) {
    uint32_t parts[4][256] = {{0}};
    size_t i = 0;
    for (; i + 8 <= count; i += 8) { /* equal neighbors do not wait for each other */
        uint64_t eight;
        memcpy(&eight, src + i, sizeof eight);
        for (unsigned k = 0; k < 8; k++)
            parts[k % 4][eight >> (8 * k) & 0xff]++;
    }
    for (; i < count; i++)
        parts[0][src[i]]++;
    for (size_t code = 0; code < 256; code++)
        counts[code] += (uint64_t)parts[0][code] + parts[1][code] + parts[2][code] + parts[3][code];
}

void tmi_count_codes(tenmap_dtype dtype, uint64_t codes[256], uint32_t *pairs,
                     const unsigned char *src, size_t count) {
    tmi_elements elements = {dtype, 0, true};
    size_t bytes = (size_t)tmi_bytes_of(dtype, count);
    if (tmi_dtypes[dtype].bits == 6) {
        for (size_t i = 0; i < count; i++)
            codes[tmi_scalar_load(&elements, src, i)]++;
    } else if (!pairs) {
        count_few_bytes(codes, src, bytes);
    } else {
        tmi_count_words(pairs, src, bytes / 2);
        if (bytes % 2)
            codes[src[bytes - 1]]++;
    }
}

void tmi_end_codes(tenmap_dtype dtype, uint64_t codes[256], uint32_t *pairs) {
    uint64_t bytes[256];
    if (pairs)
        add_byte_counts(pairs, codes);
    if (tmi_dtypes[dtype].bits != 4)
        return;
    memcpy(bytes, codes, sizeof bytes);
    memset(codes, 0, sizeof bytes);
    for (size_t byte = 0; byte < 256; byte++) {
        codes[byte & 15] += bytes[byte];
        codes[byte >> 4] += bytes[byte];
    }
}

#endif
