/* Tables: cells in one buffer, widths by what is in them. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "print.h"

typedef struct cell {
    size_t end;       /* in the text of all cells */
    uint32_t columns; /* on the terminal */
    uint16_t style;
    uint16_t lead; /* bytes at the beginning that are dim, whatever the style */
} cell;

struct table {
    const column *columns;
    size_t column_count;
    text cells_text;
    cell *cells;
    size_t count, room;
    size_t lead, lead_columns; /* of the cell under way */
};

table *table_new(const column *columns, size_t count) {
    table *t = need(1, sizeof *t);
    t->columns = columns;
    t->column_count = count;
    return t;
}

text *table_cell(table *t) {
    return &t->cells_text;
}

void table_lead(table *t, size_t columns) {
    t->lead = t->cells_text.len - (t->count ? t->cells[t->count - 1].end : 0);
    t->lead_columns = columns;
}

void table_end_cell(table *t, style which) {
    if (t->count == t->room) {
        t->room = t->room ? t->room * 2 : 64;
        t->cells = need_more(t->cells, t->room, sizeof *t->cells);
    }
    size_t begin = (t->count ? t->cells[t->count - 1].end : 0) + t->lead;
    size_t end = t->cells_text.len, columns = t->lead_columns;
    if (end > begin)
        columns += text_columns(t->cells_text.bytes + begin, end - begin);
    uint16_t lead = (uint16_t)(t->lead <= UINT16_MAX ? t->lead : 0);
    t->cells[t->count++] = (cell){end, (uint32_t)columns, (uint16_t)which, lead};
    t->lead = t->lead_columns = 0;
}

void table_put(table *t, style which, const char *format, ...) {
    char line[256];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n > 0)
        text_add(&t->cells_text, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    table_end_cell(t, which);
}

static void fill(text *out, size_t count) {
    static const char spaces[] = "                                                                ";
    for (size_t n; count; count -= n) {
        n = count < sizeof spaces - 1 ? count : sizeof spaces - 1;
        text_add(out, spaces, n);
    }
}

/* The bytes that take `columns` columns from the start, or up to the end: character by character. */
static size_t bytes_for(const char *bytes, size_t len, size_t columns, bool from_end) {
    size_t taken = 0, used = 0;
    while (taken < len) {
        size_t next = taken + 1;
        if (from_end)
            while (next < len && ((unsigned char)bytes[len - next] & 0xc0) == 0x80)
                next++;
        else
            while (next < len && ((unsigned char)bytes[next] & 0xc0) == 0x80)
                next++;
        used += text_columns(from_end ? bytes + len - next : bytes + taken, next - taken);
        if (used > columns)
            break;
        taken = next;
    }
    return taken;
}

/*
 * Shortened where it does not fit on a terminal; the columns that it took. The end of a name tells more
 * than its beginning, which is much the same for all.
 */
static size_t put_text(text *out, const char *bytes, size_t len, size_t columns, size_t width) {
    if (columns <= width || !print_width()) {
        text_add(out, bytes, len);
        return columns;
    }
    size_t head = bytes_for(bytes, len, (width - 1) / 4, false);
    size_t tail = bytes_for(bytes, len, width - 1 - (width - 1) / 4, true);
    text_add(out, bytes, head);
    text_add(out, "…", strlen("…"));
    text_add(out, bytes + len - tail, tail);
    return text_columns(bytes, head) + 1 + text_columns(bytes + len - tail, tail);
}

typedef struct cell_text {
    const char *bytes;
    size_t len, columns, lead;
} cell_text;

static void put_styled(text *out, style which, const char *bytes, size_t len) {
    text_add(out, paint(which), strlen(paint(which)));
    text_add(out, bytes, len);
    text_add(out, paint_end(), strlen(paint_end()));
}

static void put_cell(text *out, const column *c, cell_text what, size_t width, style which,
                     bool last) {
    if (c->right)
        fill(out, what.columns < width ? width - what.columns : 0);
    size_t lead = what.columns <= width ? what.lead : 0;
    if (lead)
        put_styled(out, STYLE_DIM, what.bytes, lead);
    if (which != STYLE_NONE)
        text_add(out, paint(which), strlen(paint(which)));
    size_t used = put_text(out, what.bytes + lead, what.len - lead, what.columns, width);
    if (which != STYLE_NONE)
        text_add(out, paint_end(), strlen(paint_end()));
    if (!last)
        fill(out, (!c->right && used < width ? width - used : 0) + 2);
}

/*
 * One cell of a file's making may be as wide as the file is long, and every other row would be filled up
 * to it. So no column gets wider than a terminal; elsewhere, where nothing is shortened, such a cell
 * sticks out.
 */
static void measure_widths(const table *t, size_t *widths) {
    enum { WIDEST = 256 };
    size_t total = 0, least = 12, most = print_width() ? print_width() : WIDEST;
    for (size_t c = 0; c < t->column_count; c++)
        widths[c] = text_columns(t->columns[c].title, strlen(t->columns[c].title));
    for (size_t i = 0; i < t->count; i++)
        if (t->cells[i].columns > widths[i % t->column_count])
            widths[i % t->column_count] = t->cells[i].columns;
    for (size_t c = 0; c < t->column_count; c++) {
        widths[c] = widths[c] < most ? widths[c] : most;
        total += widths[c] + (c ? 2 : 0);
    }
    if (!print_width() || total <= print_width())
        return;
    for (size_t c = 0; c < t->column_count; c++) {
        size_t over = total - print_width();
        if (t->columns[c].shrinks && widths[c] > least)
            widths[c] = widths[c] > over + least ? widths[c] - over : least;
    }
}

static void put_titles(text *out, const table *t, const size_t *widths) {
    bool titled = false;
    for (size_t c = 0; c < t->column_count; c++)
        titled = titled || *t->columns[c].title;
    for (size_t c = 0; titled && c < t->column_count; c++) {
        const char *title = t->columns[c].title;
        cell_text what = {title, strlen(title), text_columns(title, strlen(title)), 0};
        put_cell(out, &t->columns[c], what, widths[c], STYLE_DIM, c + 1 == t->column_count);
    }
    if (titled)
        text_add(out, "\n", 1);
}

void table_print(table *t) {
    if (t->column_count == 0)
        return;
    size_t *widths = need(t->column_count, sizeof *widths);
    text out = {0};
    size_t begin = 0;
    measure_widths(t, widths);
    put_titles(&out, t, widths);
    for (size_t i = 0; i < t->count; i++) {
        size_t c = i % t->column_count;
        const cell *k = &t->cells[i];
        cell_text what = {k->end > begin ? t->cells_text.bytes + begin : "", k->end - begin,
                          k->columns, k->lead};
        put_cell(&out, &t->columns[c], what, widths[c], (style)k->style, c + 1 == t->column_count);
        if (c + 1 == t->column_count)
            text_add(&out, "\n", 1);
        begin = k->end;
        if (out.len > 1 << 15 || i + 1 == t->count) {
            fwrite(out.bytes, 1, out.len, stdout);
            text_clear(&out);
        }
    }
    if (out.len)
        fwrite(out.bytes, 1, out.len, stdout);
    text_free(&out);
    free(widths);
}

void table_free(table *t) {
    text_free(&t->cells_text);
    free(t->cells);
    free(t);
}
