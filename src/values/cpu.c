/* What this machine's CPU can do: which kernels to use, and when to use non-temporal stores. */
#include "values.h"
#include "cpu.h"

#include <stdatomic.h>
#include <stddef.h>
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

#ifdef TENMAP_TESTING
static tmi_kernels added_kernels; /* by tmi_cpu_add; without a name there are none */

static bool has_added(void) {
    return added_kernels.name;
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

/*
 * The instruction sets of this build, best first. Each table is filled up from the tables after it
 * that this machine can use. The last one, plain C, runs everywhere.
 */
typedef struct instruction_set {
    const tmi_kernels *kernels;
    bool (*is_available)(void); /* NULL: on every machine that runs this build */
} instruction_set;

static const instruction_set instruction_sets[] = {
#ifdef TENMAP_TESTING
    {&added_kernels, has_added},
#endif
#if TMI_AVX2
    {&tmi_kernels_avx2, has_avx2},
#endif
#if TMI_NEON
    {&tmi_kernels_neon, NULL},
#endif
    {&tmi_kernels_scalar, NULL},
};
enum { SET_COUNT = sizeof instruction_sets / sizeof *instruction_sets, SCALAR_SET = SET_COUNT - 1 };

/* The sets that this machine can use: bit i stands for instruction_sets[i]. */
static unsigned usable_sets(void) {
    unsigned usable = 0;
    for (unsigned i = 0; i < SET_COUNT; i++) {
        const instruction_set *set = &instruction_sets[i];
        bool available = !set->is_available || set->is_available();
        if (i == SCALAR_SET || (available && !is_masked(set->kernels->name)))
            usable |= 1u << i;
    }
    return usable;
}

/* After its name a table holds only function pointers, which are filled in one by one. */
typedef void any_kernel(void);
enum {
    FIRST_ENTRY = offsetof(tmi_kernels, pair),
    ENTRY_COUNT = TMI_DTYPE_COUNT * TMI_DTYPE_COUNT /* pair */
                  + 3 * TMI_DTYPE_COUNT             /* odd, packed_f4, moments */
                  + 2 * TMI_BLOCK_ROWS              /* unpack, unpack_nt */
                  + 17                              /* those that are no arrays */
};
_Static_assert(sizeof(tmi_kernels) == FIRST_ENTRY + ENTRY_COUNT * sizeof(any_kernel *),
               "count a new entry of tmi_kernels here; it must be a function pointer");

/* Gives `filled` the name of a table and all kernels that this table has. */
static void lay_over(tmi_kernels *filled, const tmi_kernels *table) {
    filled->name = table->name;
    for (size_t at = FIRST_ENTRY; at < sizeof *table; at += sizeof(any_kernel *)) {
        any_kernel *kernel;
        memcpy(&kernel, (const unsigned char *)table + at, sizeof kernel);
        if (kernel)
            memcpy((unsigned char *)filled + at, &kernel, sizeof kernel);
    }
}

/* Fills a table: each kernel is that of the best of the sets that has one. */
static void fill_kernels(tmi_kernels *filled, unsigned sets) {
    *filled = tmi_kernels_scalar;
    for (unsigned i = SCALAR_SET; i-- > 0;)
        if (sets >> i & 1)
            lay_over(filled, instruction_sets[i].kernels);
}

/*
 * The table of this process. The thread that puts its process ID into filling_process fills the
 * table and publishes its address with a release store. A child of fork may find its parent's ID
 * and no address: it does not have the parent's thread, so it fills the table itself. Only a child
 * with the same ID, in a PID namespace of its own, would go on with plain C.
 */
static tmi_kernels filled_kernels;
static _Atomic(const tmi_kernels *) chosen_kernels;
static _Atomic long filling_process;

/* Whether this thread is the one that fills the table. */
static bool claim_filling(void) {
    long process = tmi_process(),
         seen = atomic_load_explicit(&filling_process, memory_order_relaxed);
    return seen != process && atomic_compare_exchange_strong(&filling_process, &seen, process);
}

/*
 * A thread that comes while another one fills the table does not wait: this time it gets plain C,
 * which computes the same bits. Filling takes a microsecond or two, since the CPU has been asked
 * before. A thread that has once got the filled table never gets plain C again.
 */
static TMI_NOINLINE const tmi_kernels *choose_kernels(void) {
    unsigned usable = usable_sets();
    if (claim_filling()) {
        fill_kernels(&filled_kernels, usable);
        atomic_store_explicit(&chosen_kernels, &filled_kernels, memory_order_release);
    }
    const tmi_kernels *kernels = atomic_load_explicit(&chosen_kernels, memory_order_acquire);
    return kernels ? kernels : &tmi_kernels_scalar;
}

const tmi_kernels *tmi_cpu_kernels(void) {
    const tmi_kernels *kernels = atomic_load_explicit(&chosen_kernels, memory_order_acquire);
    return TMI_LIKELY(kernels != NULL) ? kernels : choose_kernels();
}

/* The name is right at any time, even while another thread fills the table. */
const char *tenmap_cpu_path(void) {
    const tmi_kernels *kernels = atomic_load_explicit(&chosen_kernels, memory_order_acquire);
    if (kernels)
        return kernels->name;
    unsigned usable = usable_sets(), best = 0;
    while (!(usable >> best & 1))
        best++;
    return instruction_sets[best].kernels->name;
}

#ifdef TENMAP_TESTING
const tmi_kernels *tmi_cpu_find(const char *name) {
    static tmi_kernels found[SET_COUNT];
    unsigned usable = usable_sets();
    for (unsigned i = 0; i < SET_COUNT; i++)
        if ((usable >> i & 1) && !is_masked(name) &&
            strcmp(instruction_sets[i].kernels->name, name) == 0) {
            fill_kernels(&found[i], usable & ~0u << i);
            return &found[i];
        }
    return NULL;
}

void tmi_cpu_use(const tmi_kernels *kernels) {
    atomic_store_explicit(&chosen_kernels, kernels, memory_order_release);
}

void tmi_cpu_add(const tmi_kernels *table) {
    added_kernels = table ? *table : (tmi_kernels){.name = NULL};
    atomic_store(&filling_process, 0);
    tmi_cpu_use(NULL);
}

void tmi_cpu_begin_filling(void) {
    atomic_store(&filling_process, tmi_process());
    tmi_cpu_use(NULL);
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
