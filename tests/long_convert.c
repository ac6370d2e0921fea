/*
 * Compares the conversion of all 2^32 F32 values with exact.h, on every instruction set. This takes
 * minutes and is not in the default run. Arguments name the target dtypes; the default is BF16,
 * F16, F8_E4M3 and F8_E5M2.
 */
#include "convert_common.h"
#include "exact.h"

#include <stdatomic.h>

enum { CHUNK = 1 << 20, PARTS = 4096 };

typedef struct sweep {
    exact_table table;
    uint32_t flags;
    atomic_ullong wrong;
} sweep;

static void report(sweep *s, uint32_t bits, uint32_t got, uint32_t want) {
    if (atomic_fetch_add(&s->wrong, 1) < 10)
        printf("F32 %08x to %s: %x, not %x\n", bits, tmi_dtypes[s->table.format->dtype].name, got,
               want);
}

static void sweep_part(void *ctx, size_t part) {
    sweep *s = ctx;
    tenmap_dtype to = s->table.format->dtype;
    uint32_t *src = malloc(CHUNK * 4), near = 0;
    unsigned char *dst = malloc(CHUNK * 2);
    tmi_elements element = {to, 0, !TMI_BIG_ENDIAN};
    if (!src || !dst)
        abort();
    for (uint32_t i = 0; i < CHUNK; i++)
        src[i] = (uint32_t)part * CHUNK + i;
    if (tenmap_convert(to, dst, CHUNK * 2, TENMAP_F32, src, CHUNK, s->flags, NULL) != TENMAP_OK)
        abort();
    for (uint32_t i = 0; i < CHUNK; i++) {
        uint32_t got = (uint32_t)tmi_scalar_load(&element, dst, i);
        float value;
        memcpy(&value, &src[i], 4);
        if (value != value) {
            if (!exact_is_nan(s->table.format, got))
                report(s, src[i], got, UINT32_MAX);
            continue;
        }
        uint32_t want = exact_narrow(&s->table, (double)value, s->flags, &near);
        if (got != want)
            report(s, src[i], got, want);
    }
    free(src);
    free(dst);
}

static unsigned long long run_sweep(tenmap_dtype to, uint32_t flags) {
    sweep s = {exact_make(to), flags, 0};
    tmi_parallel(2, PARTS, sweep_part, &s);
    free(s.table.middle);
    printf("%-11s %s%s: %llu of 4294967296 wrong\n", tmi_dtypes[to].name, tenmap_cpu_path(),
           flags ? ", saturating" : "", atomic_load(&s.wrong));
    fflush(stdout);
    return atomic_load(&s.wrong);
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"BF16", "F16", "F8_E4M3", "F8_E5M2"};
    unsigned long long wrong = 0;
    size_t count = argc > 1 ? (size_t)argc - 1 : sizeof usual / sizeof usual[0];
    for (size_t i = 0; i < count; i++) {
        tenmap_dtype to;
        const char *name = argc > 1 ? argv[i + 1] : usual[i];
        if (!tenmap_dtype_from_name(name, &to) || !exact_find(to)) {
            fprintf(stderr, "%s is not a float of at most 16 bits\n", name);
            return 2;
        }
        FOR_EACH_ISA(isa)
        for (uint32_t saturate = 0; saturate <= 1; saturate++)
            wrong += run_sweep(to, saturate);
    }
    return wrong != 0;
}
