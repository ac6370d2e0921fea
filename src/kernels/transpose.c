/* Transposes matrices in plain C. */
#include "kernels.h"

#include <string.h>

const uint8_t tmi_awq_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};

void tmi_scalar_split_columns(tmi_lines to, tmi_const_lines rows, size_t count, size_t words,
                              bool awq_order) {
    unsigned char *line = to.bytes;
    for (size_t w = 0; w < words; w++)
        for (size_t p = 0; p < 8; p++, line += to.stride) {
            size_t field = awq_order ? tmi_awq_order[p] : p;
            const unsigned char *from = rows.bytes + 4 * w + field / 2;
            unsigned low = (unsigned)(field % 2 * 4);
            for (size_t i = 0; i < count; i += 2)
                line[i / 2] = (unsigned char)((from[i * rows.stride] >> low & 15) |
                                              (from[(i + 1) * rows.stride] >> low & 15) << 4);
        }
}

/* One square at a time, so that whole cache lines are read and written. */
#define SCALAR_TRANSPOSE(name, width)                                                              \
    void name(tmi_lines to, tmi_const_lines from, size_t rows, size_t columns, bool stream) {      \
        enum { SQUARE = 16 };                                                                      \
        (void)stream;                                                                              \
        for (size_t r = 0; r < rows; r += SQUARE)                                                  \
            for (size_t c = 0; c < columns; c += SQUARE)                                           \
                for (size_t k = c; k < columns && k < c + SQUARE; k++)                             \
                    for (size_t i = r; i < rows && i < r + SQUARE; i++)                            \
                        memcpy(to.bytes + k * to.stride + i * (width),                             \
                               from.bytes + i * from.stride + k * (width), width);                 \
    }

SCALAR_TRANSPOSE(tmi_scalar_transpose16, 2)
SCALAR_TRANSPOSE(tmi_scalar_transpose32, 4)
