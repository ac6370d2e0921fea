/*
 * Takes decisions from a fuzzer's bytes, one after the other; once they are used up, zeros or the
 * same bytes again. Small integers come from single bytes, so that a change of one byte changes one
 * decision.
 */
#ifndef TENMAP_FUZZ_INPUT_H
#define TENMAP_FUZZ_INPUT_H

#include "fuzz.h"

typedef struct input {
    const uint8_t *at, *end;
    const uint8_t *again; /* where to continue at the end; NULL: zeros follow */
} input;

static inline size_t input_left(const input *in) {
    return (size_t)(in->end - in->at);
}

static inline uint8_t input_byte(input *in) {
    if (in->at == in->end && in->again)
        in->at = in->again;
    return in->at < in->end ? *in->at++ : 0;
}

/* Below `limit`, which is at most 65536. */
static inline unsigned input_below(input *in, unsigned limit) {
    unsigned value = input_byte(in);
    if (limit > 256)
        value |= (unsigned)input_byte(in) << 8;
    return limit ? value % limit : 0;
}

/* A text of up to 15 bytes, in place; its length precedes it. */
static inline const char *input_text(input *in, size_t *len) {
    size_t wanted = input_byte(in) & 15;
    const char *text = (const char *)in->at;
    *len = wanted < input_left(in) ? wanted : input_left(in);
    in->at += *len;
    return *len ? text : "";
}

#endif
