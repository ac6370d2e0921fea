/* A progress bar on stderr, shown if stderr is a terminal and --quiet is not given. */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include <stdint.h>

/* Only one bar at a time. The label is a few words; the total is in bytes. */
void progress_begin(const char *label, uint64_t total);
/* Adds this many bytes. May be called from any thread. Draws at most ten times a second. */
void progress_add(uint64_t bytes);
/* Sets the bytes done so far. May be called from any thread. Suits the library's callbacks. */
void progress_set(uint64_t done);
void progress_end(void);
/* Erases the bar before something else is printed. */
void progress_clear(void);

#endif
