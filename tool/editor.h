/* The user's editor on a piece of text. */
#ifndef TOOL_EDITOR_H
#define TOOL_EDITOR_H

#include "view/print.h"

/*
 * Writes the text to a temporary file, runs $VISUAL, $EDITOR or vi on it, and reads it back into the
 * text. *path is the file's name, to be given to editor_done, or NULL on failure. 0, or an exit code of
 * a failure that has been told.
 */
int editor_run(text *t, char **path);
/* Removes the file, or leaves it there for the user. */
void editor_done(char *path, bool keep);

#endif
