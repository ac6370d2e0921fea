/*
 * A mutator for a configuration and a model, the input of fuzz_quantized.c: it changes one of the
 * two texts, or the data, and sets the lengths to fit, so that mutations get past the first rules.
 * Existing data stays, because later rules look at a seed's shapes and groups. Every fifth time it
 * leaves the bytes as libFuzzer's own mutation made them.
 */
#include "fuzz.h"

enum { MOST_CONFIG = 1 << 12, MOST_HEADER = 1 << 13, MOST_WEIGHTS_DATA = 1 << 12 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

typedef struct parts_input {
    uint8_t config[MOST_CONFIG], header[MOST_HEADER], data[MOST_WEIGHTS_DATA];
    size_t config_size, header_size, data_size;
} parts_input;

static size_t take_piece(uint8_t *out, size_t most, uint64_t claimed, const uint8_t **at,
                         const uint8_t *end) {
    size_t left = (size_t)(end - *at), size = claimed < left ? (size_t)claimed : left;
    size_t kept = size < most ? size : most;
    if (kept)
        memcpy(out, *at, kept);
    *at += size;
    return kept;
}

static void split_input(parts_input *in, const uint8_t *data, size_t size) {
    const uint8_t *at = data + 2, *end = data + size;
    uint64_t length = 0;
    in->config_size =
        take_piece(in->config, MOST_CONFIG, data[0] | (uint64_t)data[1] << 8, &at, end);
    for (size_t i = 8; i-- > 0 && end - at >= 8;)
        length = length << 8 | at[i];
    at += end - at >= 8 ? 8 : end - at;
    in->header_size = take_piece(in->header, MOST_HEADER, length, &at, end);
    in->data_size = take_piece(in->data, MOST_WEIGHTS_DATA, UINT64_MAX, &at, end);
}

/* The largest number before a ']' that fits, which is usually where the last tensor ends. */
static size_t data_end(const uint8_t *text, size_t len) {
    size_t largest = 0;
    for (size_t i = 1; i < len; i++) {
        size_t value = 0;
        if (text[i] < '0' || text[i] > '9' || (text[i - 1] != ',' && text[i - 1] != ' '))
            continue;
        while (i < len && text[i] >= '0' && text[i] <= '9' && value <= MOST_WEIGHTS_DATA)
            value = value * 10 + (size_t)(text[i++] - '0');
        if (i < len && text[i] == ']' && value <= MOST_WEIGHTS_DATA && value > largest)
            largest = value;
    }
    return largest;
}

static size_t join_input(const parts_input *in, uint8_t *data, size_t max_size) {
    size_t size = 2 + in->config_size + 8 + in->header_size + in->data_size;
    if (size > max_size)
        return 0;
    data[0] = (uint8_t)in->config_size;
    data[1] = (uint8_t)(in->config_size >> 8);
    uint8_t *at = data + 2;
    memcpy(at, in->config, in->config_size);
    at += in->config_size;
    for (size_t i = 0; i < 8; i++)
        *at++ = (uint8_t)((uint64_t)in->header_size >> 8 * i);
    memcpy(at, in->header, in->header_size);
    memcpy(at + in->header_size, in->data, in->data_size);
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static parts_input in;
    if (seed % 5 == 0 || size < 10)
        return LLVMFuzzerMutate(data, size, max_size);
    split_input(&in, data, size);
    if (seed % 5 == 1)
        in.config_size = LLVMFuzzerMutate(in.config, in.config_size, MOST_CONFIG);
    else if (seed % 5 == 2 && in.data_size)
        LLVMFuzzerMutate(in.data, in.data_size, in.data_size);
    else
        in.header_size = LLVMFuzzerMutate(in.header, in.header_size, MOST_HEADER);
    size_t wanted = data_end(in.header, in.header_size);
    for (size_t i = in.data_size; i < wanted; i++)
        in.data[i] = (uint8_t)(seed >> i % 24);
    in.data_size = wanted;
    size_t made = join_input(&in, data, max_size);
    return made ? made : LLVMFuzzerMutate(data, size, max_size);
}
