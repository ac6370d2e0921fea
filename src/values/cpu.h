/* The kernels that this CPU can run: cpu.c chooses them, once. */
#ifndef TENMAP_CPU_H
#define TENMAP_CPU_H

#include "../kernels/kernels.h"

/*
 * The best kernels of this machine. A kernel that the best instruction set lacks is that of the
 * next one; NULL means that none of them has it, and that other code does its work.
 */
const tmi_kernels *tmi_cpu_kernels(void);
/* Whether a result of this many bytes is too large to stay in the cache. */
bool tmi_cpu_streams(uint64_t bytes);
#ifdef TENMAP_TESTING
/*
 * The named instruction set, filled up from those below it, or NULL if this machine or this build
 * lacks it. Not for several threads at a time.
 */
const tmi_kernels *tmi_cpu_find(const char *name);
void tmi_cpu_use(const tmi_kernels *kernels);
/*
 * Adds a table above the best one, in place of the one added before; NULL removes it. The next
 * tmi_cpu_kernels chooses again.
 */
void tmi_cpu_add(const tmi_kernels *table);
/* Until the next tmi_cpu_add: as if a thread of this process had begun to fill the table. */
void tmi_cpu_begin_filling(void);
#endif

#endif
