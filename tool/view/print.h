/* Terminal output: colors, names made safe, readable numbers, and tables that fit the width. */
#ifndef TOOL_PRINT_H
#define TOOL_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tenmap.h>

/* Decides on colors and width. Called once, after the common options are known. */
void print_setup(void);

/* Columns of stdout's terminal, or 0 if it is not a terminal; then nothing is shortened. */
size_t print_width(void);

/* Text styles. paint returns the escape sequence, or "" if colors are off. */
typedef enum style {
    STYLE_NONE,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_RED,
    STYLE_GREEN,
    STYLE_YELLOW,
    STYLE_BLUE,
    STYLE_MAGENTA,
    STYLE_CYAN,
    STYLE_COUNT
} style;
const char *paint(style which);
const char *paint_end(void);

/* Prints a text broken at spaces to fit `width` columns, starting at column `indent`. */
void print_wrapped(const char *text, size_t indent, size_t width);

/* A growing text. A zeroed struct is an empty text. */
typedef struct text {
    char *bytes; /* NUL-terminated once something was added */
    size_t len, room;
} text;
void text_add(text *t, const char *bytes, size_t len);
void text_addf(text *t, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/*
 * Adds text from a file so that a terminal cannot interpret it: control characters, bidirectional
 * overrides and invisible characters become \u001b and the like, and a backslash becomes \\.
 */
void text_add_safe(text *t, const char *bytes, size_t len);
/* The same, but backslashes stay: for messages and text meant to be read. */
void text_add_visible(text *t, const char *bytes, size_t len);
/*
 * As text_add_safe, but cut after `columns` columns (0: never), followed by the full length: "abc…
 * (12.3 KB)".
 */
void text_add_short(text *t, const char *bytes, size_t len, size_t columns);
/*
 * Decodes one UTF-8 code point. Returns its length, or 0 if the bytes are invalid. len must not be
 * 0.
 */
size_t decode_point(const unsigned char *s, size_t len, uint32_t *out);
/* Whether a terminal might interpret the code point, or would not show it. */
bool unsafe_point(uint32_t point);
void text_clear(text *t); /* keeps the memory */
void text_free(text *t);
/* Columns that UTF-8 text takes on a terminal. */
size_t text_columns(const char *bytes, size_t len);
void print_safe(FILE *out, const char *bytes, size_t len);

/* "1.50 GB", "312 B": powers of 1000, as in file managers and hubs. */
void text_add_bytes(text *t, uint64_t bytes);
/* "8.03B", "1.2M", "312": parameters. */
void text_add_count(text *t, uint64_t count);
void text_add_number(text *t, uint64_t number);
/* "1,234,567" */
void text_add_grouped(text *t, uint64_t number);
/*
 * Adds a field of tab-separated values: backslash, tab, newline and carriage return become \\, \t,
 * \n and \r; whatever else text_add_safe would change becomes \u001b and the like.
 */
void text_add_field(text *t, const char *bytes, size_t len);
/* "[32, 64]"; machine formats use text_add_dims: "32,64". */
void text_add_shape(text *t, const tenmap_tensor *tensor);
void text_add_dims(text *t, const tenmap_tensor *tensor);

/* Adds a share of a whole as a percentage: "12.5%", "<0.1%"; "0%" only if the part is 0. */
void text_add_percent(text *t, uint64_t part, uint64_t whole);
/*
 * Adds a bar of block characters with a resolution of an eighth of a column; a nonzero share is
 * always visible.
 */
void text_add_bar(text *t, double share, size_t columns);

/*
 * A table: cells are added row by row, then the table is printed with columns as wide as needed. If
 * stdout is a terminal that is too narrow for the one shrinking column, which holds names, the
 * table makes room in this order. It removes columns with the same text in every row, and says that
 * text once on a line above. It replaces the common prefix of long names with ~, which a line above
 * explains. It drops spare columns. It shortens names from the left, but keeps their digits, which
 * distinguish layers.
 */
enum { COLUMN_STAYS = false, COLUMN_SHRINKS = true, COLUMN_SPARE };
typedef struct column {
    const char *title;
    bool right;   /* right-aligned, for numbers */
    uint8_t room; /* COLUMN_*; at most one shrinks; the last spare column goes first */
} column;
typedef struct table table;
table *table_new(const column *columns, size_t count);
/* The current cell: add to its text, then end it. */
text *table_cell(table *t);
void table_end_cell(table *t, style which);
/* Dims what the current cell holds so far, `columns` columns: the lines of a tree. */
void table_lead(table *t, size_t columns);
/* Adds a whole cell in one step. */
void table_put(table *t, style which, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
void table_print(table *t); /* to stdout */
void table_free(table *t);

#endif
