/* Exact percentiles in bounded memory: a radix search for the values at the wanted ranks. */
#include "model/percentiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* The bits of a value that each pass narrows. Those of the first decide which values are F32. */
enum { FIRST_BITS = 20, NEXT_BITS = 15, ALL_BITS = 64, NOT_WANTED = 255 };

/* A value that is looked for. */
typedef struct ranked {
    uint64_t key;  /* its first bits, as far as they are known */
    uint64_t rank; /* among the values that begin with these bits, from 0 */
} ranked;

struct percentile_search {
    double wanted[MOST_PERCENTILES];
    size_t wanted_count;
    uint64_t count;
    ranked found[2 * MOST_PERCENTILES]; /* for each percentile the values below and above it */
    unsigned known;                     /* bits of the keys that are known */
    uint64_t seen;                      /* the bits that are set in any value */
    uint64_t *counts; /* of the first pass by the first bits; later NEXT_BITS for each of found */
    uint8_t *index;   /* by the first bits: the first of found that begins with them */
};

/* Keys of finite values are in the order of the values; both zeros have one key. */
static uint64_t key_of(uint64_t bits) {
    const uint64_t sign = (uint64_t)1 << (ALL_BITS - 1);
    return bits == sign ? sign : bits & sign ? ~bits : bits | sign;
}

/* The bits that are not known are zeros in the value. */
static double value_of(uint64_t key, unsigned known) {
    const uint64_t sign = (uint64_t)1 << (ALL_BITS - 1);
    uint64_t bits = known < ALL_BITS ? key << (ALL_BITS - known) : key;
    double value;
    if (!(bits & sign))
        bits = ~(known < ALL_BITS ? bits | (UINT64_MAX >> known) : bits);
    else
        bits &= ~sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static unsigned bits_of_pass(const percentile_search *p) {
    unsigned left = ALL_BITS - p->known;
    return p->known == 0 ? FIRST_BITS : left < NEXT_BITS ? left : NEXT_BITS;
}

/* Where between two ranks a percentile lies. */
static double place_of_percentile(const percentile_search *p, size_t i) {
    return (double)(p->count - 1) * (p->wanted[i] / 100);
}

percentile_search *percentiles_new(const double *wanted, size_t wanted_count, uint64_t count) {
    percentile_search *p = need(1, sizeof *p);
    p->wanted_count = wanted_count < MOST_PERCENTILES ? wanted_count : MOST_PERCENTILES;
    p->count = count;
    memcpy(p->wanted, wanted, p->wanted_count * sizeof *wanted);
    for (size_t i = 0; i < p->wanted_count; i++) {
        uint64_t below = (uint64_t)place_of_percentile(p, i);
        p->found[2 * i].rank = below;
        p->found[2 * i + 1].rank = below + 1 < count ? below + 1 : below;
    }
    p->counts = need((size_t)1 << FIRST_BITS, sizeof *p->counts);
    p->index = need((size_t)1 << FIRST_BITS, sizeof *p->index);
    return p;
}

static void add_first(percentile_search *p, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        if (!isfinite(values[i]))
            continue;
        memcpy(&bits, &values[i], sizeof bits);
        p->seen |= bits;
        p->counts[key_of(bits) >> (ALL_BITS - FIRST_BITS)]++;
    }
}

/* Several of `found` may begin with the same bits; the first of them has the counts. */
static void add_next(percentile_search *p, const double *values, size_t count) {
    unsigned bits_now = bits_of_pass(p), shift = ALL_BITS - p->known;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        if (!isfinite(values[i]))
            continue;
        memcpy(&bits, &values[i], sizeof bits);
        uint64_t key = key_of(bits);
        size_t at = p->index[key >> (ALL_BITS - FIRST_BITS)];
        if (at == NOT_WANTED)
            continue;
        while (at < 2 * p->wanted_count && p->found[at].key != key >> shift)
            at++;
        if (at < 2 * p->wanted_count)
            p->counts[(at << NEXT_BITS) + ((key << p->known) >> (ALL_BITS - bits_now))]++;
    }
}

void percentiles_add(percentile_search *p, const double *values, size_t count) {
    if (p->known)
        add_next(p, values, count);
    else
        add_first(p, values, count);
}

static const uint64_t *counts_for(const percentile_search *p, size_t i) {
    size_t first = 0;
    while (p->known && p->found[first].key != p->found[i].key)
        first++;
    return p->counts + (first << NEXT_BITS);
}

static void index_first_bits(percentile_search *p) {
    memset(p->index, NOT_WANTED, (size_t)1 << FIRST_BITS);
    for (size_t i = 2 * p->wanted_count; i-- > 0;)
        p->index[p->found[i].key >> (p->known - FIRST_BITS)] = (uint8_t)i;
}

bool percentiles_end_pass(percentile_search *p) {
    unsigned bits = bits_of_pass(p);
    ranked next[2 * MOST_PERCENTILES];
    for (size_t i = 0; i < 2 * p->wanted_count; i++) {
        const uint64_t *counts = counts_for(p, i);
        uint64_t digit = 0, rank = p->found[i].rank;
        /* A later rank among the same values is looked for from where the one before was found. */
        if (i && p->found[i].key == p->found[i - 1].key && rank >= p->found[i - 1].rank) {
            digit = next[i - 1].key & (((uint64_t)1 << bits) - 1);
            rank -= p->found[i - 1].rank - next[i - 1].rank;
        }
        while (digit + 1 < (uint64_t)1 << bits && rank >= counts[digit])
            rank -= counts[digit++];
        next[i] = (ranked){p->known ? p->found[i].key << bits | digit : digit, rank};
    }
    memcpy(p->found, next, 2 * p->wanted_count * sizeof *next);
    p->known += bits;
    memset(p->counts, 0, ((size_t)1 << FIRST_BITS) * sizeof *p->counts);
    index_first_bits(p);
    return p->known < ALL_BITS && p->seen << p->known;
}

/* Interpolates from the nearer end, as numpy does. */
void percentiles_get(const percentile_search *p, double *out) {
    for (size_t i = 0; i < p->wanted_count; i++) {
        double below = value_of(p->found[2 * i].key, p->known);
        double above = value_of(p->found[2 * i + 1].key, p->known), step = above - below;
        double part = place_of_percentile(p, i);
        part -= floor(part);
        out[i] = part >= 0.5 ? above - step * (1 - part) : below + step * part;
    }
}

void percentiles_free(percentile_search *p) {
    if (!p)
        return;
    free(p->counts);
    free(p->index);
    free(p);
}
