/* What lies beside a model and belongs to it: configuration, tokenizer, generation settings. */
#ifndef TOOL_BESIDE_H
#define TOOL_BESIDE_H

#include "reshape.h"

typedef struct beside_files {
    char **names;
    size_t count;
} beside_files;

/*
 * Copies them from the first input's folder to the output's: where both are folders, or --copy-config
 * asks for it, and --no-config does not forbid it. What is there already stays, unless --force is given.
 * With --dry-run they are only listed. 0, or an exit code.
 */
int beside_copy(const plan *p, const output_settings *out, const target *to, beside_files *copied);
void beside_free(beside_files *files);

#endif
