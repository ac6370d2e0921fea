#include "histogram.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "print.h"

enum { ROWS = 8, EIGHTHS = 8 };

/* In eighths of a row; what is not nothing is seen. */
static unsigned height_of(const histogram *h, uint64_t count, uint64_t most) {
    double share =
        h->log ? log1p((double)count) / log1p((double)most) : (double)count / (double)most;
    unsigned height = (unsigned)lround(share * ROWS * EIGHTHS);
    return count && height == 0 ? 1 : height;
}

static void draw_row(const histogram *h, unsigned row, uint64_t most) {
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    text line = {0};
    size_t end = 0;
    for (uint32_t b = 0; b < h->bins; b++) {
        unsigned height = height_of(h, h->counts[b], most), below = row * EIGHTHS;
        unsigned part = height <= below ? 0 : height - below < EIGHTHS ? height - below : EIGHTHS;
        text_add(&line, blocks[part], strlen(blocks[part]));
        if (part)
            end = line.len;
    }
    printf("  %s%.*s%s\n", paint(STYLE_BLUE), (int)end, line.bytes, paint_end());
    text_free(&line);
}

/* The range at both ends and what the highest bar stands for between them, if there is room. */
static void draw_axis(const histogram *h, uint64_t most) {
    char low[32], high[32], middle[64];
    int left = snprintf(low, sizeof low, "%.4g", h->low);
    int right = snprintf(high, sizeof high, "%.4g", h->high);
    int inside = snprintf(middle, sizeof middle, "highest %" PRIu64 "%s", most,
                          h->log ? ", logarithmic" : "");
    int room = (int)h->bins - left - right;
    if (room < inside + 4)
        inside = 0;
    int before = room > inside ? (room - inside) / 2 : 1;
    int behind = room > inside + before ? room - inside - before : 1;
    printf("  %s%s%*s%.*s%*s%s%s\n", paint(STYLE_DIM), low, before, "", inside, middle, behind, "",
           high, paint_end());
}

void histogram_draw(const histogram *h) {
    uint64_t most = 0;
    for (uint32_t b = 0; b < h->bins; b++)
        most = h->counts[b] > most ? h->counts[b] : most;
    if (most == 0) {
        puts("  no finite value in this range");
        return;
    }
    for (unsigned row = ROWS; row-- > 0;)
        draw_row(h, row, most);
    draw_axis(h, most);
}
