/* Decides where the output of a plan goes. */
#ifndef TOOL_OUTPUT_TARGET_H
#define TOOL_OUTPUT_TARGET_H

#include "output/output_plan.h"

struct target {
    const char *path;
    bool folder;
    bool created;       /* the folder is new; it is removed if writing fails */
    uint64_t max_shard; /* for a folder */
};

/*
 * Refuses to overwrite without --force, and always refuses to destroy an input. Returns 0 or an
 * exit code.
 */
int choose_target(const plan *p, const output_settings *out, target *to);
/* Whether the first input was given as a folder, here or at an address. */
bool input_is_folder(const plan *p);
/* Whether the path can only be a folder: it ends in a slash, or is an existing folder. */
bool names_folder(const char *path);
int make_target(target *to);
void unmake_target(const target *to);

#endif
