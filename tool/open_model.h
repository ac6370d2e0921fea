/* Opens models with the options that every command takes. */
#ifndef TOOL_OPEN_MODEL_H
#define TOOL_OPEN_MODEL_H

#include <tenmap.h>

/* Translates the common options into library options; remote_options adds what an address needs. */
tenmap_options open_options(void);
/*
 * Opens a path or an address with the common options. Returns 0, or an exit code after printing an
 * error.
 */
int open_model(const char *path, tenmap_model **out);

#endif
