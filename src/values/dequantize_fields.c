/* Unpacks fields of a few bits: the codes and the zero points of quantized weights. */
#include "dequantize.h"
#include "../kernels/kernels.h"

#include <string.h>

void tmi_unpack_stream(const unsigned char *bytes, uint64_t at, size_t count, unsigned bits,
                       uint8_t *fields) {
    unsigned bit = (unsigned)(at * bits % 8), mask = (1u << bits) - 1;
    for (size_t i = 0; i < count; i++, bit += bits) {
        const unsigned char *b = bytes + bit / 8;
        unsigned low = bit % 8, two = b[0] | (low + bits > 8 ? (unsigned)b[1] << 8 : 0);
        fields[i] = (uint8_t)(two >> low & mask);
    }
}

void tmi_unpack_awq(const unsigned char *words, uint64_t at, size_t count, uint8_t *fields) {
    unsigned place = (unsigned)(at % 8);
    for (size_t i = 0; i < count; i++) {
        fields[i] = (uint8_t)(tmi_word_at(words) >> tmi_awq_order[place] * 4 & 15);
        if (++place == 8) {
            place = 0;
            words += 4;
        }
    }
}

/*
 * Unpacks the same field of each word of a row. Its high bits may be in the words of the next row.
 */
static void unpack_down(const unsigned char *words, const unsigned char *next, size_t count,
                        unsigned low, unsigned bits, uint8_t *fields) {
    unsigned mask = (1u << bits) - 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t field = tmi_word_at(words + 4 * i) >> low;
        if (low + bits > 32)
            field |= tmi_word_at(next + 4 * i) << (32 - low);
        fields[i] = (uint8_t)(field & mask);
    }
}

/* The fields of a row are in one row of words, or cross into the next. */
tenmap_status tmi_read_down(tmi_dequantizer *s, const tmi_packed_down *packed,
                            const tmi_row_run *run, uint8_t *fields, tenmap_error *error) {
    unsigned bits = s->layout->bits, low = (unsigned)(run->row * bits % 32);
    uint64_t at = run->matrix * packed->matrix_bytes + run->row * bits / 32 * packed->row_bytes +
                  run->column * 4;
    size_t bytes = run->count * 4;
    unsigned char held[TMI_MOST_SCALES * 4];
    const unsigned char *words, *next = NULL;
    tenmap_status status = tmi_quant_bytes(s, packed->part, at, bytes, &words, error);
    if (status == TENMAP_OK && low + bits > 32) {
        memcpy(held, words, bytes); /* the next call may move the window */
        words = held;
        status = tmi_quant_bytes(s, packed->part, at + packed->row_bytes, bytes, &next, error);
    }
    if (status == TENMAP_OK)
        unpack_down(words, next, run->count, low, bits, fields);
    return status;
}
