/*
 * Finds and copies the files that belong to a model: configuration, tokenizer, generation settings.
 */
#ifndef TOOL_COMPANION_FILES_H
#define TOOL_COMPANION_FILES_H

#include "output/config_edit.h"
#include "output/output_plan.h"

typedef struct companion_files {
    char **names;
    size_t count;
    bool too_many;       /* there are more files than the limit */
    config_edits config; /* how config.json was changed or must be changed */
    char **obsolete;     /* files that describe how the input was quantized, which it replaced */
    size_t obsolete_count;
    bool config_changed;    /* config.json was changed, or would be */
    const char *config_why; /* why config.json was not changed */
} companion_files;

/*
 * Copies these files from the first input's folder to the output's, if both are folders or
 * --copy-config is given, unless --no-config is given. Existing files stay unless --force is given.
 * --dry-run only lists the files. config.json is changed as the plan says, even when the output
 * replaced the input. Files that only describe how the input was quantized are left out. Returns 0
 * or an exit code.
 */
int companion_files_copy(const plan *p, const output_settings *out, const target *to,
                         companion_files *copied);
void companion_files_free(companion_files *files);

#endif
