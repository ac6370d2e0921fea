/*
 * GGUF: times opening a file, and unpacking blocks.
 *
 *     bench_gguf open FILE         the least and the median time to open and close it
 *     bench_gguf blocks [MIB]      dtypes into F32 of MIB (256) on one thread, compared with the
 *                                  rate of non-temporal stores alone to the same memory
 *
 * All times are processor time, and the two alternate, so that other work on the machine affects
 * both alike.
 */
#include "tenmap.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS = 15, OPENS = 50 };

static int open_file(const char *path) {
    samples s = {0};
    for (int i = 0; i < OPENS; i++) {
        tenmap_model *model;
        tenmap_error error;
        uint64_t begin = spent_ns();
        if (tenmap_open(path, NULL, &model, &error) != TENMAP_OK) {
            fprintf(stderr, "bench_gguf: %s\n", error.message);
            return 1;
        }
        tenmap_close(model);
        samples_add(&s, spent_ns() - begin);
    }
    printf("tenmap open: least %.1f us, median %.1f us\n", (double)samples_min(&s) / 1e3,
           (double)samples_median(&s) / 1e3);
    samples_free(&s);
    return 0;
}

/* Only stores, of a nonzero value: zeros are cheaper on some machines. */
static void store_all(float *dst, size_t count) {
#if defined(__x86_64__)
    for (size_t i = 0; i < count; i += 4)
        _mm_stream_ps(dst + i, _mm_set1_ps(1.5f));
    _mm_sfence();
#else
    for (size_t i = 0; i < count; i++)
        dst[i] = 1.5f;
#endif
}

static double rate_of(samples *s, size_t bytes) {
    double rate = (double)bytes / (double)samples_min(s);
    samples_free(s);
    *s = (samples){0};
    return rate;
}

/* Stores and conversion alternate, so that both meet the same load. */
static void time_dtype(tenmap_dtype dtype, float *dst, const unsigned char *src, size_t bytes) {
    samples stored = {0}, converted = {0};
    size_t count = bytes / sizeof(float);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begin = spent_ns();
        store_all(dst, count);
        uint64_t middle = spent_ns();
        tenmap_convert(TENMAP_F32, dst, bytes, dtype, src, count, 0, NULL);
        samples_add(&converted, spent_ns() - middle);
        samples_add(&stored, middle - begin);
    }
    double stores = rate_of(&stored, bytes), rate = rate_of(&converted, bytes);
    printf("%-8s -> F32: %6.2f GB/s written, %.2f of the stores (%.2f GB/s)\n",
           tenmap_dtype_name(dtype), rate, rate / stores, stores);
}

static int time_blocks(size_t mib) {
    static const tenmap_dtype dtypes[] = {TENMAP_Q4_0,    TENMAP_Q8_0,   TENMAP_Q4_K,  TENMAP_Q5_K,
                                          TENMAP_Q6_K,    TENMAP_IQ4_NL, TENMAP_MXFP4, TENMAP_Q2_K,
                                          TENMAP_IQ2_XXS, TENMAP_IQ4_XS};
    size_t bytes = mib << 20;
    float *dst = tenmap_alloc(bytes);
    unsigned char *src = tenmap_alloc(bytes);
    if (!dst || !src)
        return 1;
    for (size_t i = 0; i < bytes; i++) /* scales below 1, so that nothing is infinite */
        src[i] = (unsigned char)(i * 2654435761u >> 13) & 0x3b;
    store_all(dst, bytes / sizeof(float));
    printf("instruction set: %s\n", tenmap_cpu_path());
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        time_dtype(dtypes[d], dst, src, bytes);
    tenmap_free(dst);
    tenmap_free(src);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "open") == 0)
        return open_file(argv[2]);
    if (argc >= 2 && strcmp(argv[1], "blocks") == 0)
        return time_blocks(argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 256);
    fprintf(stderr, "usage: bench_gguf open FILE | blocks [MIB]\n");
    return 2;
}
