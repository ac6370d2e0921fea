/* By which endings the tool takes a file for a model. A new file format adds its own. */
#ifndef TOOL_MODEL_ENDINGS_H
#define TOOL_MODEL_ENDINGS_H

#include <stdbool.h>

/* In the library's order of preference; NULL is last. */
extern const char *const model_endings[];

/* Whether the name ends so, with something before it. */
bool has_ending(const char *name, const char *ending);
bool has_model_ending(const char *name);

/*
 * Whether the name ends like a PyTorch checkpoint. Other programs use these endings too, so the
 * file's first bytes decide (begins_as_checkpoint).
 */
bool has_shared_ending(const char *name);
/* Whether the library looks at files of this name and ending in a folder (docs/format.md). */
bool is_usual_model_name(const char *name);

#endif
