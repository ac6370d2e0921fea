/* A temporary folder of the process, removed at exit and on SIGINT, SIGTERM and SIGHUP. */
#ifndef BENCH_TEMP_FOLDER_H
#define BENCH_TEMP_FOLDER_H

#include <stdbool.h>

/*
 * Makes a new folder in TMPDIR, or /tmp. At most one per process. Prints to stderr why it failed.
 */
bool temp_folder_make(void);
/*
 * The path of a file in it, which will be removed with the folder; NULL, with a message on stderr,
 * if there are too many. Call this before the file is made.
 */
const char *temp_folder_file(const char *name);

#endif
