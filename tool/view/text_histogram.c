/* Draws histograms with block characters. */
#include "view/text_histogram.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/print.h"

enum { ROWS = 8, EIGHTHS = 8 };

/* Height in eighths of a row; a nonzero count is always visible. */
static unsigned height_of(const histogram *h, uint64_t count, uint64_t most) {
    double share =
        h->log ? log1p((double)count) / log1p((double)most) : (double)count / (double)most;
    unsigned height = (unsigned)lround(share * (double)ROWS * (double)EIGHTHS);
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

/* As tenmap_measure computes them: each operation is rounded to a double. */
static double edge_of(const histogram *h, uint32_t b) {
    double width = h->high - h->low;
    if (b == h->bins)
        return h->high;
    if (isinf(width))
        return 2 * (h->low / 2 + b * ((h->high / 2 - h->low / 2) / h->bins));
    return h->low + b * (width / h->bins);
}

enum { EDGE_ROOM = 32 };

static int edge_text(const histogram *h, uint32_t b, int digits, char *out) {
    return snprintf(out, EDGE_ROOM, "%.*g", digits, edge_of(h, b));
}

static bool edges_differ(const histogram *h, int digits) {
    char before[EDGE_ROOM], now[EDGE_ROOM];
    edge_text(h, 0, digits, before);
    for (uint32_t b = 1; b <= h->bins; b++) {
        edge_text(h, b, digits, now);
        if (strcmp(before, now) == 0)
            return false;
        memcpy(before, now, sizeof before);
    }
    return true;
}

/* The number of digits that distinguishes each edge from the next, at least four. */
static int edge_digits(const histogram *h) {
    enum { FEWEST = 4, MOST = 17 };
    int digits = FEWEST;
    while (digits < MOST && !edges_differ(h, digits))
        digits++;
    return digits;
}

/* Bins between labeled edges: a power of two that leaves room for the labels. */
static uint32_t label_step(const histogram *h, int digits) {
    char label[EDGE_ROOM];
    int widest = 0;
    uint32_t step = 1;
    for (uint32_t b = 0; b <= h->bins; b++) {
        int n = edge_text(h, b, digits, label);
        widest = n > widest ? n : widest;
    }
    while (step < (uint32_t)widest + 2)
        step *= 2;
    return step;
}

/* Draws a ruler whose marks are edges with their values below, if there is room for both ends. */
static void draw_edges(const histogram *h, int digits) {
    uint32_t step = label_step(h, digits);
    char label[EDGE_ROOM], end[EDGE_ROOM];
    size_t end_len = (size_t)edge_text(h, h->bins, digits, end), used = 0;
    text marks = {0}, labels = {0};
    for (uint32_t b = 0; b < h->bins; b++) {
        size_t n = (size_t)edge_text(h, b, digits, label);
        bool room = b % step == 0 && b + n + 2 + end_len <= (size_t)h->bins + 1;
        const char *mark = !b ? "└" : room ? "┴" : "─";
        text_add(&marks, mark, strlen(mark));
        if (!room)
            continue;
        text_addf(&labels, "%*s%s", (int)(b - used), "", label);
        used = b + n;
    }
    printf("  %s%s┘%s\n", paint(STYLE_DIM), marks.bytes, paint_end());
    if (labels.len)
        printf("  %s%s%*s%s%s\n", paint(STYLE_DIM), labels.bytes,
               (int)(h->bins + 1 - end_len - used), "", end, paint_end());
    text_free(&marks);
    text_free(&labels);
}

/* Finds the largest count. Returns false, after printing a remark, if there is nothing to draw. */
static bool fullest(const histogram *h, uint64_t *most) {
    uint64_t sum = 0;
    *most = 0;
    for (uint32_t b = 0; b < h->bins; b++) {
        *most = h->counts[b] > *most ? h->counts[b] : *most;
        sum += h->counts[b];
    }
    if (*most == 0)
        puts("  no finite value in this range");
    else if (sum == 1 && !(h->low < h->high))
        printf("  the only finite value is %.9g\n", h->low);
    else if (!(h->low < h->high))
        printf("  all %" PRIu64 " finite values are %.9g\n", sum, h->low);
    return *most > 0 && h->low < h->high;
}

void histogram_draw(const histogram *h) {
    uint64_t most;
    if (!fullest(h, &most))
        return;
    int digits = edge_digits(h);
    for (unsigned row = ROWS; row-- > 0;)
        draw_row(h, row, most);
    draw_edges(h, digits);
    printf("  %s%" PRIu32 " bin%s of %.4g from %.*g to %.*g; the fullest holds %" PRIu64 "%s%s\n",
           paint(STYLE_DIM), h->bins, h->bins == 1 ? "" : "s", edge_of(h, 1) - edge_of(h, 0),
           digits, h->low, digits, h->high, most, h->log ? "; logarithmic" : "", paint_end());
}

void histogram_list(const histogram *h) {
    enum { BAR = 24 };
    uint64_t most;
    if (!fullest(h, &most))
        return;
    int digits = edge_digits(h), widest = 0;
    char low[EDGE_ROOM], high[EDGE_ROOM], count[EDGE_ROOM];
    for (uint32_t b = 0; b <= h->bins; b++) {
        int n = edge_text(h, b, digits, low);
        widest = n > widest ? n : widest;
    }
    int count_width = snprintf(count, sizeof count, "%" PRIu64, most);
    for (uint32_t b = 0; b < h->bins; b++) {
        text bar = {0};
        edge_text(h, b, digits, low);
        edge_text(h, b + 1, digits, high);
        if (h->counts[b])
            text_add_bar(&bar, (double)height_of(h, h->counts[b], most) / (ROWS * EIGHTHS), BAR);
        printf("  %*s %s %*s  %*" PRIu64 "%s%s%s%s\n", widest, low,
               b + 1 < h->bins ? "to below" : "to      ", widest, high, count_width, h->counts[b],
               bar.len ? "  " : "", paint(STYLE_BLUE), bar.len ? bar.bytes : "", paint_end());
        text_free(&bar);
    }
}
