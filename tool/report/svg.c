/* Draws rectangles, text and legends as SVG, and computes colors, for the pictures of a report. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

/*
 * Writes text for an element or a quoted attribute. XML allows neither control characters, even as
 * references, nor U+FFFE and U+FFFF; text_add_safe has already replaced the control characters.
 */
static void put_xml(FILE *out, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];
        if (c && strchr("<>&\"'", c))
            fprintf(out, "&#%d;", c);
        else if (len - i > 2 && memcmp(bytes + i, "\xef\xbf", 2) == 0 &&
                 ((unsigned char)bytes[i + 2] & 0xfe) == 0xbe)
            fputs("\xef\xbf\xbd", out), i += 2;
        else
            putc(c, out);
    }
}

void svg_begin(FILE *out, double width, double height, const char *title) {
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"system-ui, Helvetica, Arial, sans-serif\">\n"
            "<title>",
            width, height, width, height);
    text safe = {0};
    text_add_safe(&safe, title, strlen(title));
    put_xml(out, safe.bytes, safe.len);
    text_free(&safe);
    fprintf(out, "</title>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width,
            height);
}

void svg_end(FILE *out) {
    fputs("</svg>\n", out);
}

void svg_rect(FILE *out, box at, uint32_t color, const text *tip) {
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#%06x\"", at.x,
            at.y, fmax(0, at.w), fmax(0, at.h), (unsigned)color);
    if (!tip || !tip->len) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    put_xml(out, tip->bytes, tip->len);
    fputs("</title></rect>\n", out);
}

/* Start of the character that ends at `end`. */
static size_t before(const text *t, size_t end) {
    end--;
    while (end && ((unsigned char)t->bytes[end] & 0xc0) == 0x80)
        end--;
    return end;
}

/* Start of the longest suffix that fits into this many columns. */
static size_t tail(const text *whole, size_t columns) {
    size_t at = whole->len, used = 0;
    while (at) {
        size_t next = before(whole, at);
        used += text_columns(whole->bytes + next, at - next);
        if (used > columns)
            break;
        at = next;
    }
    return at;
}

/*
 * Adds as many characters as fit into `columns`, with an ellipsis for the rest. Keeps the end if
 * the text ends in a number, which distinguishes it from its neighbors, or if `last` is set.
 */
static void shorten(text *t, const text *whole, size_t columns, bool last) {
    char end = whole->bytes[whole->len - 1];
    if (last || (end >= '0' && end <= '9')) {
        size_t from = tail(whole, columns - 1);
        text_add(t, "\xe2\x80\xa6", 3);
        text_add(t, whole->bytes + from, whole->len - from);
        return;
    }
    size_t to = 0, used = 0;
    while (to < whole->len) {
        size_t next = to + 1;
        while (next < whole->len && ((unsigned char)whole->bytes[next] & 0xc0) == 0x80)
            next++;
        size_t width = text_columns(whole->bytes + to, next - to);
        if (used + width > columns - 1)
            break;
        used += width;
        to = next;
    }
    text_add(t, whole->bytes, to);
    text_add(t, "\xe2\x80\xa6", 3);
}

void svg_text(FILE *out, label_look look, const char *bytes, size_t len) {
    static const char *const anchors[] = {"start", "middle", "end"};
    text whole = {0}, shown = {0};
    size_t columns = look.room > 0 ? (size_t)(look.room / (look.size * 0.56)) : 0;
    text_add_safe(&whole, bytes, len < 2000 ? len : 2000);
    if (whole.len && text_columns(whole.bytes, whole.len) <= columns)
        text_add(&shown, whole.bytes, whole.len);
    else if (whole.len && columns >= 4)
        shorten(&shown, &whole, columns, look.where == ANCHOR_END);
    if (shown.len) {
        fprintf(out,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" fill=\"#%06x\" text-anchor=\"%s\">",
                look.x, look.y, look.size, (unsigned)look.color, anchors[look.where]);
        put_xml(out, shown.bytes, shown.len);
        fputs("</text>\n", out);
    }
    text_free(&whole);
    text_free(&shown);
}

double svg_legend(FILE *out, double x, double y, const char *words) {
    enum { SIZE = 11 };
    svg_text(out, (label_look){x, y, 2000, SIZE, 0x5b6670, ANCHOR_START}, words, strlen(words));
    return x + 0.58 * (double)SIZE * (double)strlen(words) + 8;
}

double svg_swatch(FILE *out, double x, double y, uint32_t color, const char *words) {
    svg_rect(out, (box){x, y, 10, 10}, color, NULL);
    return svg_legend(out, x + 15, y + 9, words) + 8;
}

void svg_scale(FILE *out, box at, const uint32_t *stops, size_t count) {
    enum { STEPS = 48 };
    for (int i = 0; i < STEPS; i++) {
        double width = at.w / (double)STEPS;
        box part = {at.x + at.w * i / (double)STEPS, at.y, width + (i + 1 < STEPS ? 0.6 : 0), at.h};
        svg_rect(out, part, color_along(stops, count, (double)i / (STEPS - 1)), NULL);
    }
}

uint32_t color_between(uint32_t from, uint32_t to, double share) {
    uint32_t out = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double a = (double)(from >> shift & 255), b = (double)(to >> shift & 255);
        out |= (uint32_t)lrint(a + (b - a) * share) << shift;
    }
    return out;
}

uint32_t color_along(const uint32_t *stops, size_t count, double at) {
    double x = (at > 0 ? at < 1 ? at : 1 : 0) * (double)(count - 1);
    size_t i = x >= (double)(count - 1) ? count - 2 : (size_t)x;
    return color_between(stops[i], stops[i + 1], x - (double)i);
}

/* Relative luminance as WCAG defines it. */
static double luminance(uint32_t color) {
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double s = (double)(color >> (16 - 8 * i) & 255) / 255;
        sum += weights[i] * (s <= 0.03928 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4));
    }
    return sum;
}

/* Black and white have the same contrast, 4.58, on a luminance of 0.179. */
uint32_t color_ink(uint32_t background) {
    return luminance(background) > 0.179 ? 0x000000 : 0xffffff;
}

uint32_t color_of_dtype(const char *dtype) {
    static const struct {
        const char *name;
        uint32_t color;
    } colors[] = {
        {"F64", 0x7a5195},     {"F32", 0x2f6fb0},         {"F16", 0x5ab0de},
        {"BF16", 0x1f9e83},    {"F8_E4M3", 0xe69f00},     {"F8_E5M2", 0xd1662a},
        {"F8_E8M0", 0xb98a1d}, {"F8_E4M3FNUZ", 0xf0b94d}, {"F8_E5M2FNUZ", 0xe08a55},
        {"F6_E2M3", 0xc4a000}, {"F6_E3M2", 0xa38600},     {"F4", 0xd9c64a},
        {"I8", 0xc0568c},      {"U8", 0xd98ab5},          {"I16", 0xa0447a},
        {"U16", 0xc77aa6},     {"I32", 0x8c5fa8},         {"U32", 0xab86c4},
        {"I64", 0x6b4c9a},     {"U64", 0x9079bd},         {"BOOL", 0x7d8790},
        {"C64", 0x4b5d8c},     {"Q4_0", 0xe08e45},        {"Q4_1", 0xd9a066},
        {"Q5_0", 0xb5838d},    {"Q5_1", 0xc9a3ab},        {"Q8_0", 0x4c956c},
        {"Q8_1", 0x7fb491},    {"Q2_K", 0xbc4749},        {"Q3_K", 0xd66853},
        {"Q4_K", 0xe6a23c},    {"Q5_K", 0xb08968},        {"Q6_K", 0x6a994e},
        {"Q8_K", 0x386641},    {"MXFP4", 0xc78d2b},       {"NVFP4", 0x8fb339},
    };
    /* Other dtypes get a color from their letters, so that two of them usually differ. */
    static const uint32_t more[] = {0x9b5de5, 0x00a6a6, 0xd1495b, 0x5f7a61,
                                    0x8d6a9f, 0xcc7722, 0x3f88c5, 0x8a8f98};
    uint32_t letters = 0;
    for (size_t i = 0; i < sizeof colors / sizeof colors[0]; i++)
        if (strcmp(colors[i].name, dtype) == 0)
            return colors[i].color;
    for (const char *c = dtype; *c; c++)
        letters = letters * 31 + (unsigned char)*c;
    return more[letters % (sizeof more / sizeof more[0])];
}

const uint32_t change_stops[CHANGE_STOPS] = {0xf3d9a4, 0xee9d3c, 0xd1532a, 0x8c1f3f, 0x4b0f45};

uint32_t color_of_change(const report_change *change) {
    if (change->state == REPORT_ADDED)
        return 0x1f9e83;
    if (change->state == REPORT_REMOVED)
        return 0x4b5d8c;
    if (change->gained > 0)
        return 0xb3264d;
    if (isnan(change->relative))
        return 0xaab3bb;
    if (change->relative == 0)
        return 0xb7c1ca;
    return color_along(change_stops, CHANGE_STOPS, (log10(change->relative) + 4) / 4);
}
