/* What this machine's CPU can do: which kernels to use, and when to use non-temporal stores. */
#include "values.h"
#include "cpu.h"

#include <stdatomic.h>
#include <string.h>
#ifdef TENMAP_TESTING
#include <stdlib.h>
#endif
#if TMI_AVX2
#include <cpuid.h>
#endif

static const uint64_t MIB = 1 << 20;
/* Smaller results use normal stores, however small the cache is. */
enum { LEAST_STREAM = 4 << 20 };

#if TMI_AVX2

/* Whether the system saves XMM and YMM registers (bits 1 and 2) on a context switch. */
static bool saves_ymm(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

static bool has_avx2(void) {
    unsigned a, b, c, d;
    const unsigned osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29, fma = 1u << 12;
    const unsigned avx2 = 1u << 5;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (~c & (osxsave | avx | f16c | fma)) || !saves_ymm())
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & avx2);
}

/* The bytes of the largest cache that a vendor's deterministic cache leaf reports; 0: none. */
static uint64_t cache_bytes(unsigned leaf) {
    uint64_t largest = 0;
    for (unsigned i = 0; i < 8; i++) {
        unsigned a, b, c, d;
        if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || (a & 0x1f) == 0)
            break;
        uint64_t ways = (b >> 22) + 1, partitions = (b >> 12 & 0x3ff) + 1, line = (b & 0xfff) + 1;
        uint64_t bytes = ways * partitions * line * ((uint64_t)c + 1);
        if ((a & 0x1f) != 2 && bytes > largest) /* 2 is an instruction cache */
            largest = bytes;
    }
    return largest;
}

static uint64_t last_level_cache(void) {
    uint64_t intel = cache_bytes(4), amd = cache_bytes(0x8000001d);
    return intel > amd ? intel : amd;
}

#else

static uint64_t last_level_cache(void) {
    return 0;
}

#endif

/* In test builds TENMAP_CPU_MASK names instruction sets, such as "avx2,neon", that are not used. */
static bool is_masked(const char *name) {
#ifdef TENMAP_TESTING
    const char *mask = getenv("TENMAP_CPU_MASK");
    return mask && strstr(mask, name);
#else
    (void)name;
    return false;
#endif
}

/* The kernels in order, best first; the last ones run on every machine. */
static const tmi_kernels *kernels_at(unsigned i) {
#if TMI_AVX2
    if (i-- == 0)
        return has_avx2() ? &tmi_kernels_avx2 : &tmi_kernels_scalar;
#endif
#if TMI_NEON
    if (i-- == 0)
        return &tmi_kernels_neon;
#endif
    return i == 0 ? &tmi_kernels_scalar : NULL;
}

static _Atomic(const tmi_kernels *) chosen_kernels;

/* Threads that race here choose the same kernels. */
static TMI_NOINLINE const tmi_kernels *choose_kernels(void) {
    const tmi_kernels *best = &tmi_kernels_scalar, *candidate;
    for (unsigned i = 0; (candidate = kernels_at(i)) != NULL; i++)
        if (!is_masked(candidate->name)) {
            best = candidate;
            break;
        }
    atomic_store_explicit(&chosen_kernels, best, memory_order_relaxed);
    return best;
}

/* The tables are constants of the program, so a relaxed load of the pointer is enough. */
const tmi_kernels *tmi_cpu_kernels(void) {
    const tmi_kernels *kernels = atomic_load_explicit(&chosen_kernels, memory_order_relaxed);
    return TMI_LIKELY(kernels != NULL) ? kernels : choose_kernels();
}

#ifdef TENMAP_TESTING
const tmi_kernels *tmi_cpu_find(const char *name) {
    const tmi_kernels *candidate;
    for (unsigned i = 0; (candidate = kernels_at(i)) != NULL; i++)
        if (strcmp(candidate->name, name) == 0 && !is_masked(name))
            return candidate;
    return NULL;
}

void tmi_cpu_use(const tmi_kernels *kernels) {
    atomic_store_explicit(&chosen_kernels, kernels, memory_order_relaxed);
}
#endif

/*
 * Non-temporal stores begin at half of the last-level cache: a result of that size evicts its own
 * source while it is written, so nothing of it would be found in the cache later. The threshold is
 * bounded because virtual machines may report any cache size.
 */
static uint64_t stream_threshold(void) {
    static _Atomic uint64_t threshold;
    uint64_t bytes = atomic_load_explicit(&threshold, memory_order_relaxed);
    if (TMI_UNLIKELY(bytes == 0)) {
        bytes = last_level_cache() / 2;
        if (bytes == 0)
            bytes = 16 * MIB;
        bytes = bytes < LEAST_STREAM ? LEAST_STREAM : bytes > 32 * MIB ? 32 * MIB : bytes;
        atomic_store_explicit(&threshold, bytes, memory_order_relaxed);
    }
    return bytes;
}

/*
 * Asking the CPU for its caches takes microseconds in a virtual machine, so small results do not
 * ask.
 */
bool tmi_cpu_streams(uint64_t bytes) {
    return bytes >= LEAST_STREAM && bytes >= stream_threshold();
}

const char *tenmap_cpu_path(void) {
    return tmi_cpu_kernels()->name;
}
