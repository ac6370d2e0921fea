/* Typed metadata values from the text that a user gives. */
#ifndef TOOL_METADATA_VALUES_H
#define TOOL_METADATA_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/* A number or a BOOL, and the value that points to its bytes. It must not be moved. */
typedef struct number_value {
    unsigned char raw[8];
    tenmap_value value;
} number_value;

/* "u32"; "unknown" for a number that is no type. */
const char *value_type_name(uint32_t type);
/* Finds a TENMAP_VALUE_* by its name. Returns false for other names, and for arrays. */
bool value_type_from_name(const char *name, uint32_t *type);

/*
 * Reads a number, or "true" or "false" for a BOOL. Returns false if the text is not a value of this
 * type, all of it, within the type's range. `type` is neither STRING nor ARRAY.
 */
bool parse_number_value(const char *text, size_t len, uint32_t type, number_value *out);

#endif
