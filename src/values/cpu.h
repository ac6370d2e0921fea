/* The kernels that this CPU can run: cpu.c chooses them, once. */
#ifndef TENMAP_CPU_H
#define TENMAP_CPU_H

#include "../kernels/kernels.h"

const tmi_kernels *tmi_cpu_kernels(void);
/* Whether a result of this many bytes is too large to stay in the cache. */
bool tmi_cpu_streams(uint64_t bytes);
#ifdef TENMAP_TESTING
/* The named instruction set, or NULL if this machine or this build lacks it. */
const tmi_kernels *tmi_cpu_find(const char *name);
void tmi_cpu_use(const tmi_kernels *kernels);
#endif

#endif
