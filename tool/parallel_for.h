/* Work on several threads: items 0..count-1, each taken once, in order. */
#ifndef TOOL_WORK_H
#define TOOL_WORK_H

#include <stddef.h>

/* As many as there are processors, at most 64. */
unsigned work_threads(void);

/*
 * Calls job(ctx, i) for every item on up to `threads` threads (0: work_threads()), the caller's among
 * them. The first job that does not return 0 stops the others from starting; its value is returned.
 */
int work_run(unsigned threads, size_t count, int (*job)(void *ctx, size_t i), void *ctx);

#endif
