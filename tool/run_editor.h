/* Runs the user's editor on a piece of text. */
#ifndef TOOL_RUN_EDITOR_H
#define TOOL_RUN_EDITOR_H

#include "view/print.h"

/*
 * Writes the text to a temporary file, runs $VISUAL, $EDITOR or vi on it, and reads the result back
 * into the text. *path is the file's name, to be passed to editor_done, or NULL on failure. Returns
 * 0, or an exit code after printing an error.
 */
int editor_run(text *t, char **path);
/* Removes the file, or with `keep` leaves it for the user. Frees the path. */
void editor_done(char *path, bool keep);

#endif
