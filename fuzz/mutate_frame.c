/*
 * A mutator that knows the frame of a file: it changes the JSON text, then sets the length field
 * and the amount of data to fit, so that mutations get past the first rules. Every fourth time it
 * leaves the bytes as libFuzzer's own mutation made them. FRAME_PREFIX bytes before the file, if a
 * target has them, are mutated separately.
 */
#include "fuzz.h"

#ifndef FRAME_PREFIX
#define FRAME_PREFIX 0
#endif

enum { MOST_TEXT = 1 << 16, MOST_DATA = 1 << 10 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* The largest number before a ']' that fits, which is usually where the last tensor ends. */
static size_t data_wanted(const uint8_t *text, size_t len, size_t most) {
    size_t largest = 0;
    for (size_t i = 0; i < len; i++) {
        size_t value = 0;
        if (text[i] < '0' || text[i] > '9' || (i > 0 && text[i - 1] != ',' && text[i - 1] != ' '))
            continue;
        while (i < len && text[i] >= '0' && text[i] <= '9' && value <= most)
            value = value * 10 + (size_t)(text[i++] - '0');
        if (i < len && text[i] == ']' && value <= most && value > largest)
            largest = value;
    }
    return largest;
}

static size_t mutate_file(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static uint8_t text[MOST_TEXT];
    size_t len = size > 8 ? size - 8 : 0;
    uint64_t claimed = 0;
    for (size_t i = 8; i-- > 0 && size >= 8;)
        claimed = claimed << 8 | data[i];
    if (claimed < len)
        len = (size_t)claimed;
    size_t most = max_size - 8 < MOST_TEXT ? max_size - 8 : MOST_TEXT;
    if (len > most)
        len = most;
    if (len)
        memcpy(text, data + 8, len);
    len = LLVMFuzzerMutate(text, len, most);
    size_t room = max_size - 8 - len;
    size_t tail = data_wanted(text, len, room < MOST_DATA ? room : MOST_DATA);
    for (size_t i = 0; i < 8; i++)
        data[i] = (uint8_t)((uint64_t)len >> 8 * i);
    memcpy(data + 8, text, len);
    for (size_t i = 0; i < tail; i++)
        data[8 + len + i] = (uint8_t)(seed >> i % 24);
    return 8 + len + tail;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    if (seed % 4 == 0 || max_size < FRAME_PREFIX + 64 || size < FRAME_PREFIX)
        return LLVMFuzzerMutate(data, size, max_size);
    if (FRAME_PREFIX && seed % 4 == 1) {
        LLVMFuzzerMutate(data, FRAME_PREFIX, FRAME_PREFIX);
        return size;
    }
    return FRAME_PREFIX +
           mutate_file(data + FRAME_PREFIX, size - FRAME_PREFIX, max_size - FRAME_PREFIX, seed);
}
