/* A progress bar on stderr, where that is a terminal and --quiet is not given. */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include <stdint.h>

/* One at a time. The label is a few words; the total is in bytes. */
void progress_begin(const char *label, uint64_t total);
/* From any thread: this many bytes more. Draws ten times a second at most. */
void progress_add(uint64_t bytes);
/* From any thread: this many bytes in all. Fits the library's callbacks. */
void progress_set(uint64_t done);
void progress_end(void);
/* Takes the bar away before something else is printed. */
void progress_clear(void);

#endif
