/* What lies beside a model and belongs to it: configuration, tokenizer, generation settings. */
#ifndef TOOL_BESIDE_H
#define TOOL_BESIDE_H

#include "view/print.h"
#include "output/output_plan.h"

typedef struct beside_files {
    char **names;
    size_t count;
    bool too_many;          /* more than are taken */
    text config;            /* how config.json was changed, or has to be; empty: not at all */
    bool config_changed;    /* it was, or would be */
    const char *config_why; /* why it was not */
} beside_files;

/*
 * Copies them from the first input's folder to the output's: where both are folders, or --copy-config
 * asks for it, and --no-config does not forbid it. What is there already stays, unless --force is given.
 * With --dry-run they are only listed. config.json is changed as the plan says, also where the output took
 * the input's place; files that only tell how the input was quantised are left out. 0, or an exit code.
 */
int beside_copy(const plan *p, const output_settings *out, const target *to, beside_files *copied);
void beside_free(beside_files *files);

#endif
