/*
 * Writes JSON to stdout. Objects and arrays nest. Each element goes on its own indented line,
 * unless it is inside one that was opened as compact.
 */
#ifndef TOOL_JSON_OUT_H
#define TOOL_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

/*
 * Sends what follows into a text, on one line, without a line end; NULL: to stdout again. Call it
 * only between whole values, and open every object in the text as compact.
 */
void json_into(text *t);

void json_open(char bracket, bool compact); /* '{' or '[' */
void json_close(void); /* closes the innermost; closing the outermost ends the line */
void json_key(const char *key);
void json_text(const char *bytes, size_t len); /* len may be TENMAP_CSTR; must be UTF-8 */
void json_uint(uint64_t number);
void json_int(int64_t number);
/* Writes the shortest form that reads back the same; null for NaN and infinities. */
void json_real(double number);
void json_bool(bool value);
void json_null(void);

/* Adds a quoted string to a text. */
void text_add_json(text *t, const char *bytes, size_t len);

/* Key and value in one step. */
void json_key_text(const char *key, const char *bytes, size_t len);
void json_key_uint(const char *key, uint64_t number);
void json_key_real(const char *key, double number);
void json_key_bool(const char *key, bool value);
/* Writes "name", "dtype" and "shape" into the open object. */
void json_tensor_fields(const tenmap_tensor *tensor);

#endif
