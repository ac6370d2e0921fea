/* Tables: stores all cells in one buffer and computes column widths from the contents. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/print.h"

typedef struct cell {
    size_t end;       /* offset in the text of all cells */
    uint32_t columns; /* width on the terminal */
    uint16_t style;
    uint16_t lead; /* bytes at the beginning that are always dim */
} cell;

struct table {
    const column *columns;
    size_t column_count;
    text cells_text;
    cell *cells;
    size_t count, room;
    size_t lead, lead_columns; /* of the current cell */
    /* The layout when printing. */
    size_t *widths;
    bool *gone;         /* columns that are dropped */
    const char *prefix; /* prefix of long names that ~ replaces; NULL: none */
    size_t prefix_len, prefix_columns;
    size_t indent; /* leading spaces of the prefix, which are kept */
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

/*
 * The number of bytes that fill `columns` columns from the start or from the end, in whole
 * characters.
 */
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

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/*
 * Cuts the text between digits from the left until it fits: digits distinguish layers, and the end
 * of a name says more than its beginning. Returns false if cutting everything else is not enough.
 */
static bool shorten_words(text *out, const char *bytes, size_t len, size_t excess) {
    size_t at = 0;
    while (at < len) {
        size_t end = at;
        while (end < len && is_digit(bytes[end]) == is_digit(bytes[at]))
            end++;
        size_t columns = text_columns(bytes + at, end - at), cut = 0;
        if (excess && !is_digit(bytes[at]) && columns > 1) {
            cut = excess + 1 < columns ? excess + 1 : columns;
            size_t tail = bytes_for(bytes + at, end - at, columns - cut, true);
            text_add(out, "…", strlen("…"));
            at = end - tail;
            excess -= cut - 1;
        }
        text_add(out, bytes + at, end - at);
        at = end;
    }
    return excess == 0;
}

/* Adds the text, shortened if it does not fit on a terminal. Returns the columns used. */
static size_t put_text(text *out, const char *bytes, size_t len, size_t columns, size_t width) {
    size_t begin = out->len;
    if (columns <= width || !print_width()) {
        text_add(out, bytes, len);
        return columns;
    }
    if (!shorten_words(out, bytes, len, columns - width)) {
        out->len = begin;
        size_t tail = bytes_for(bytes, len, width - 1, true);
        text_add(out, "…", strlen("…"));
        text_add(out, bytes + len - tail, tail);
    }
    return text_columns(out->bytes + begin, out->len - begin);
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

static const char *cell_bytes(const table *t, size_t i, size_t *len) {
    size_t begin = i ? t->cells[i - 1].end : 0;
    *len = t->cells[i].end - begin;
    return *len ? t->cells_text.bytes + begin : "";
}

/*
 * A cell from a hostile file may be as wide as the file is long, and every other row would be
 * padded to it. So no column is wider than the terminal. Without a terminal nothing is shortened,
 * and such a cell sticks out.
 */
static void measure_widths(table *t) {
    enum { WIDEST = 256 };
    size_t most = print_width() ? print_width() : WIDEST;
    for (size_t c = 0; c < t->column_count; c++)
        t->widths[c] = text_columns(t->columns[c].title, strlen(t->columns[c].title));
    for (size_t i = 0; i < t->count; i++)
        if (t->cells[i].columns > t->widths[i % t->column_count])
            t->widths[i % t->column_count] = t->cells[i].columns;
    for (size_t c = 0; c < t->column_count; c++)
        t->widths[c] = t->widths[c] < most ? t->widths[c] : most;
}

/* By how many columns the table exceeds the terminal; 0 if it fits or there is no terminal. */
static size_t too_wide(const table *t) {
    size_t total = 0;
    for (size_t c = 0; c < t->column_count; c++)
        if (!t->gone[c])
            total += t->widths[c] + (total ? 2 : 0);
    return print_width() && total > print_width() ? total - print_width() : 0;
}

/* Whether all cells of the column are the same, in more than one row. */
static bool says_nothing(const table *t, size_t c) {
    size_t len, n;
    if (t->count <= t->column_count || !*t->columns[c].title)
        return false;
    const char *first = cell_bytes(t, c, &len);
    for (size_t i = c + t->column_count; i < t->count; i += t->column_count) {
        const char *other = cell_bytes(t, i, &n);
        if (n != len || memcmp(first, other, n) != 0)
            return false;
    }
    return true;
}

static void drop_equal_columns(table *t, text *above) {
    for (size_t c = t->column_count; c-- > 0 && too_wide(t);) {
        size_t len;
        if (t->columns[c].room == COLUMN_SHRINKS || !says_nothing(t, c))
            continue;
        t->gone[c] = true;
        const char *said = cell_bytes(t, c, &len);
        text_addf(above, "%s%s ", above->len ? ", " : "in every row: ", t->columns[c].title);
        text_add(above, said, len);
    }
    if (above->len)
        text_add(above, "\n", 1);
}

static bool ends_part(const char *bytes, size_t len) {
    return len && strchr(".-_/", bytes[len - 1]) && bytes[len - 1];
}

/*
 * Finds the common prefix, up to a separator, of all names that are too long for the remaining
 * room.
 */
static void find_prefix(table *t, size_t names, size_t room, text *above) {
    enum { LEAST = 6 };
    size_t len, names_seen = 0;
    for (size_t i = names; i < t->count; i += t->column_count) {
        const char *name = cell_bytes(t, i, &len);
        if (t->cells[i].lead)
            return;
        if (t->cells[i].columns <= room)
            continue;
        names_seen++;
        if (!t->prefix) {
            t->prefix = name;
            t->prefix_len = len;
        } else {
            size_t same = 0;
            while (same < len && same < t->prefix_len && name[same] == t->prefix[same])
                same++;
            t->prefix_len = same;
        }
    }
    while (t->prefix_len && !ends_part(t->prefix, t->prefix_len))
        t->prefix_len--;
    t->prefix_columns = t->prefix_len ? text_columns(t->prefix, t->prefix_len) : 0;
    if (t->prefix_columns < LEAST || names_seen < 2) {
        t->prefix = NULL;
        return;
    }
    while (t->prefix[t->indent] == ' ')
        t->indent++;
    text_add(above, t->prefix, t->indent);
    text_addf(above, "~ stands for ");
    text_add(above, t->prefix + t->indent, t->prefix_len - t->indent);
    text_add(above, "\n", 1);
}

/* Whether the name begins with the prefix that ~ replaces. */
static bool has_prefix(const table *t, size_t i) {
    size_t len;
    const char *name = cell_bytes(t, i, &len);
    return t->prefix && len > t->prefix_len && memcmp(name, t->prefix, t->prefix_len) == 0;
}

static void use_prefix(table *t, size_t names) {
    t->widths[names] = 0;
    for (size_t i = names; i < t->count; i += t->column_count) {
        size_t columns =
            t->cells[i].columns - (has_prefix(t, i) ? t->prefix_columns - t->indent - 1 : 0);
        t->widths[names] = columns > t->widths[names] ? columns : t->widths[names];
    }
}

/* Makes the table fit; `above` receives the lines to print above it. */
static void make_room(table *t, text *above) {
    enum { LEAST_NAME = 12 };
    size_t names = 0;
    while (names < t->column_count && t->columns[names].room != COLUMN_SHRINKS)
        names++;
    if (!too_wide(t))
        return;
    bool shrinks = names < t->column_count;
    if (shrinks)
        drop_equal_columns(t, above);
    if (shrinks && too_wide(t)) {
        size_t width = t->widths[names], over = too_wide(t);
        find_prefix(t, names, width > over ? width - over : 0, above);
        if (t->prefix)
            use_prefix(t, names);
    }
    for (size_t c = t->column_count; c-- > 0 && too_wide(t);)
        t->gone[c] = t->gone[c] || t->columns[c].room == COLUMN_SPARE;
    size_t over = too_wide(t), width = shrinks ? t->widths[names] : 0;
    if (over && width > LEAST_NAME)
        t->widths[names] = width > over + LEAST_NAME ? width - over : LEAST_NAME;
}

static size_t last_shown(const table *t) {
    size_t c = t->column_count;
    while (c > 1 && t->gone[c - 1])
        c--;
    return c - 1;
}

static void put_titles(text *out, const table *t) {
    bool titled = false;
    for (size_t c = 0; c < t->column_count; c++)
        titled = titled || *t->columns[c].title;
    for (size_t c = 0; titled && c < t->column_count; c++) {
        const char *title = t->columns[c].title;
        cell_text what = {title, strlen(title), text_columns(title, strlen(title)), 0};
        if (!t->gone[c])
            put_cell(out, &t->columns[c], what, t->widths[c], STYLE_DIM, c == last_shown(t));
    }
    if (titled)
        text_add(out, "\n", 1);
}

static void put_row_cell(text *out, const table *t, size_t i, text *name) {
    size_t c = i % t->column_count, len;
    const cell *k = &t->cells[i];
    const char *bytes = cell_bytes(t, i, &len);
    cell_text what = {bytes, len, k->columns, k->lead};
    if (t->columns[c].room == COLUMN_SHRINKS && has_prefix(t, i)) {
        text_clear(name);
        text_add(name, bytes, t->indent);
        text_add(name, "~", 1);
        text_add(name, bytes + t->prefix_len, len - t->prefix_len);
        what =
            (cell_text){name->bytes, name->len, k->columns - t->prefix_columns + t->indent + 1, 0};
    }
    if (!t->gone[c])
        put_cell(out, &t->columns[c], what, t->widths[c], (style)k->style, c == last_shown(t));
}

void table_print(table *t) {
    if (t->column_count == 0)
        return;
    text out = {0}, name = {0};
    t->widths = need(t->column_count, sizeof *t->widths);
    t->gone = need(t->column_count, sizeof *t->gone);
    measure_widths(t);
    make_room(t, &out);
    if (out.len) {
        printf("%s%.*s%s", paint(STYLE_DIM), (int)out.len, out.bytes, paint_end());
        text_clear(&out);
    }
    put_titles(&out, t);
    for (size_t i = 0; i < t->count; i++) {
        put_row_cell(&out, t, i, &name);
        if (i % t->column_count + 1 == t->column_count)
            text_add(&out, "\n", 1);
        if (out.len > 1 << 15 || i + 1 == t->count) {
            fwrite(out.bytes, 1, out.len, stdout);
            text_clear(&out);
        }
    }
    if (out.len)
        fwrite(out.bytes, 1, out.len, stdout);
    text_free(&out);
    text_free(&name);
    free(t->widths);
    free(t->gone);
}

void table_free(table *t) {
    text_free(&t->cells_text);
    free(t->cells);
    free(t);
}
