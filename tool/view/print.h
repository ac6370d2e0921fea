/*
 * What goes to the terminal: colours, names made safe, numbers for people, tables that fit.
 */
#ifndef TOOL_PRINT_H
#define TOOL_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tenmap.h>

/* Decides about colours and the width, once, after the common options are known. */
void print_setup(void);

/* Columns of stdout's terminal, or 0 where it is none: then nothing is shortened. */
size_t print_width(void);

/* Styles of text; the escape sequence, or "" where colours are off. */
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

/* Breaks a text at spaces so that it stays within `width` columns, from column `indent` on. */
void print_wrapped(const char *text, size_t indent, size_t width);

/* A growing text. Zero is an empty one. */
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
 * Adds text that came from a file so that no terminal can obey it: control characters, bidirectional
 * overrides and invisible ones come out as \u001b and the like, a backslash as \\.
 */
void text_add_safe(text *t, const char *bytes, size_t len);
/* The same, but a backslash stays one: for sentences and for text that is meant to be read. */
void text_add_visible(text *t, const char *bytes, size_t len);
/* As text_add_safe, cut after `columns` columns (0: never), with how long all of it is: "abc… (12.3 KB)". */
void text_add_short(text *t, const char *bytes, size_t len, size_t columns);
/* One code point of valid or invalid UTF-8; its length, 0 where the bytes are none. len is not 0. */
size_t decode_point(const unsigned char *s, size_t len, uint32_t *out);
/* What a terminal might obey, or what would not be seen. */
bool unsafe_point(uint32_t point);
void text_clear(text *t); /* keeps the memory */
void text_free(text *t);
/* Columns that UTF-8 text takes on a terminal. */
size_t text_columns(const char *bytes, size_t len);
void print_safe(FILE *out, const char *bytes, size_t len);

/* "1.50 GB", "312 B": powers of 1000, as file managers and hubs count. */
void text_add_bytes(text *t, uint64_t bytes);
/* "8.03B", "1.2M", "312": parameters. */
void text_add_count(text *t, uint64_t count);
void text_add_number(text *t, uint64_t number);
/* "1,234,567" */
void text_add_grouped(text *t, uint64_t number);
/*
 * A field of tab-separated values: backslash, tab, newline, carriage return come out as \\, \t, \n,
 * \r, and whatever else text_add_safe would change as \u001b.
 */
void text_add_field(text *t, const char *bytes, size_t len);
/* "[32, 64]"; machine formats use text_add_dims: "32,64". */
void text_add_shape(text *t, const tenmap_tensor *tensor);
void text_add_dims(text *t, const tenmap_tensor *tensor);

/* A bar of block characters, to an eighth of a column; a share that is not 0 is seen. */
void text_add_bar(text *t, double share, size_t columns);

/*
 * A table: cells are added row by row, then it is printed with columns as wide as they need. Where
 * stdout is a terminal that is too narrow for the one column that shrinks, which holds names, room
 * is made in this order: columns that say the same in every row go, and a line above says it once; what
 * the long names begin with becomes ~, which is told above too; spare columns go; then names are
 * shortened, from the left, but for their digits, which tell layers apart.
 */
enum { COLUMN_STAYS = false, COLUMN_SHRINKS = true, COLUMN_SPARE };
typedef struct column {
    const char *title;
    bool right;   /* numbers */
    uint8_t room; /* COLUMN_*; one at most shrinks; of the spare ones the last goes first */
} column;
typedef struct table table;
table *table_new(const column *columns, size_t count);
/* The cell under way: add to the text, then end it. */
text *table_cell(table *t);
void table_end_cell(table *t, style which);
/* What the cell under way holds so far, so many columns, will be dim: lines of a tree. */
void table_lead(table *t, size_t columns);
/* In one step. */
void table_put(table *t, style which, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
void table_print(table *t); /* to stdout */
void table_free(table *t);

#endif
