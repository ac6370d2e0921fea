/* By which endings the tool takes a file for a model. A new file format adds its own. */
#ifndef TOOL_MODEL_ENDINGS_H
#define TOOL_MODEL_ENDINGS_H

#include <stdbool.h>

/* In the library's order of preference; NULL is last. */
extern const char *const model_endings[];

/* Whether the name ends so, with something before it. */
bool has_ending(const char *name, const char *ending);
bool has_model_ending(const char *name);

#endif
