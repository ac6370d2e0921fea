/*
 * Dequantizes weights into BF16 and F32 on one thread, compared with the rate at which non-temporal
 * stores alone write the same memory, and plain FP8 compared with FP8 with scales.
 *
 *     bench_quantized [ROWS COLUMNS [SCHEME]]     8192 and 8192, and every scheme, unless told
 *     bench_quantized --keep PATH BYTES           a model of FP8 in blocks, of about so many bytes
 *
 * Codes and scales are in memory: the file was just written, and is mapped. Times are the thread's
 * processor time; runs alternate, and the least of each counts.
 */
#include "temp_folder.h"
#include "tenmap.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS = 15, MOST_PARTS = 4 };

typedef struct bench_part {
    const char *name;
    tenmap_dtype dtype;
    uint64_t shape[4];
    uint32_t rank;
    unsigned char low, high; /* the range of its bytes */
    const char *text;        /* its contents instead; NULL: such bytes */
} bench_part;

typedef struct bench_scheme {
    const char *label, *weight;
    bool plain8; /* FP8: also compared with the plain conversion */
    bench_part parts[MOST_PARTS];
} bench_scheme;

static void fail_with(const tenmap_error *error) {
    fprintf(stderr, "bench_quantized: %s\n", error->message);
    exit(1);
}

static void write_scheme(const char *path, const bench_scheme *scheme) {
    tenmap_writer *writer;
    tenmap_error error;
    size_t ids[MOST_PARTS], count = 0;
    if (tenmap_writer_create(path, NULL, &writer, &error) != TENMAP_OK)
        fail_with(&error);
    for (; count < MOST_PARTS && scheme->parts[count].name; count++) {
        const bench_part *p = &scheme->parts[count];
        if (tenmap_writer_add(writer, p->name, TENMAP_CSTR, p->dtype, p->shape, p->rank,
                              &ids[count], &error) != TENMAP_OK)
            fail_with(&error);
    }
    uint64_t state = 1;
    for (size_t i = 0; i < count; i++) {
        const bench_part *p = &scheme->parts[i];
        uint64_t elements = 1, bytes;
        for (uint32_t d = 0; d < p->rank; d++)
            elements *= p->shape[d];
        bytes = elements * tenmap_dtype_bits(p->dtype) / 8;
        unsigned char *room = malloc((size_t)bytes);
        for (uint64_t k = 0; room && k < bytes; k++)
            room[k] = (unsigned char)(p->low + shuffle_next(&state) % (p->high - p->low + 1u));
        if (p->dtype == TENMAP_F32 || p->dtype == TENMAP_F16 || p->dtype == TENMAP_BF16)
            for (uint64_t k = 1; room && k < bytes; k += 2) /* numbers below 1 */
                room[k] = 0x3c;
        if (room && strstr(p->name, "_shape")) {
            const bench_part *packed = &scheme->parts[0];
            int32_t shape[2] = {(int32_t)packed->shape[0], (int32_t)packed->shape[1] * 8};
            memcpy(room, shape, sizeof shape);
        }
        if (room && p->text)
            memcpy(room, p->text, (size_t)bytes);
        if (!room || tenmap_writer_write(writer, ids[i], 0, room, (size_t)bytes, &error))
            fail_with(&error);
        free(room);
    }
    if (tenmap_writer_commit(writer, &error) != TENMAP_OK)
        fail_with(&error);
}

/* Only non-temporal stores, of a nonzero value: zeros are cheaper on some machines. */
static void only_store(float *dst, size_t bytes) {
#if defined(__x86_64__)
    for (size_t i = 0; i < bytes / 4; i += 4)
        _mm_stream_ps(dst + i, _mm_set1_ps(1.5f));
    _mm_sfence();
#else
    for (size_t i = 0; i < bytes / 4; i++)
        dst[i] = 1.5f;
#endif
}

static void read_all(const tenmap_tensor *t, tenmap_dtype as, void *dst, samples *s) {
    tenmap_error error;
    size_t bytes = (size_t)t->nelems * (tenmap_dtype_bits(as) / 8);
    uint64_t begin = spent_ns();
    if (tenmap_read(t, 0, t->nelems, as, dst, bytes, 0, &error) != TENMAP_OK)
        fail_with(&error);
    samples_add(s, spent_ns() - begin);
}

/* The reads alternate, so that all of them meet the same load. */
static void time_reads(const bench_scheme *scheme, const tenmap_tensor *t,
                       const tenmap_tensor *plain, tenmap_dtype as, void *dst) {
    size_t bytes = (size_t)t->nelems * (tenmap_dtype_bits(as) / 8);
    samples made = {0}, stored = {0}, plainly = {0};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin = spent_ns();
        only_store(dst, bytes);
        samples_add(&stored, spent_ns() - begin);
        read_all(t, as, dst, &made);
        if (plain)
            read_all(plain, as, dst, &plainly);
    }
    double ns = (double)samples_min(&made);
    printf("| %-20s | %-4s | %6.2f | %.2f |", scheme->label, tenmap_dtype_name(as),
           (double)bytes / ns, (double)samples_min(&stored) / ns);
    if (plain)
        printf(" %.2f |\n", (double)samples_min(&plainly) / ns);
    else
        printf("      |\n");
    samples_free(&made);
    samples_free(&stored);
    samples_free(&plainly);
}

static void time_scheme(const char *path, const bench_scheme *scheme, void *dst) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model, *raw;
    tenmap_error error;
    write_scheme(path, scheme);
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    if (tenmap_open(path, &options, &model, &error) != TENMAP_OK ||
        tenmap_open(path, NULL, &raw, &error) != TENMAP_OK)
        fail_with(&error);
    const tenmap_tensor *t = tenmap_find(model, scheme->weight);
    if (!t || !(t->flags & TENMAP_TENSOR_COMPUTED)) {
        fprintf(stderr, "bench_quantized: %s: no quantized weight\n", scheme->label);
        exit(1);
    }
    const tenmap_tensor *plain = scheme->plain8 ? tenmap_find(raw, scheme->parts[0].name) : NULL;
    time_reads(scheme, t, plain, TENMAP_BF16, dst);
    time_reads(scheme, t, plain, TENMAP_F32, dst);
    tenmap_close(model);
    tenmap_close(raw);
}

/* Weights of 64 MiB, each with its scales. */
static int write_model(const char *path, uint64_t bytes) {
    enum { SIDE = 8192, BLOCKS = SIDE / 128, MOST_WEIGHTS = 256 };
    static const uint64_t shape[2] = {SIDE, SIDE}, blocks[2] = {BLOCKS, BLOCKS};
    static unsigned char codes[SIDE * SIDE];
    static float scales[BLOCKS * BLOCKS];
    size_t ids[MOST_WEIGHTS][2], count = (size_t)(bytes / sizeof codes);
    tenmap_writer *writer;
    tenmap_error error;
    uint64_t state = 1;
    count = count < 1 ? 1 : count > MOST_WEIGHTS ? MOST_WEIGHTS : count;
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)(shuffle_next(&state) % 0x7f);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        scales[i] = (float)(1 + shuffle_next(&state) % 1000) / 65536;
    if (tenmap_writer_create(path, NULL, &writer, &error) != TENMAP_OK)
        fail_with(&error);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%zu.weight", i);
        if (tenmap_writer_add(writer, name, TENMAP_CSTR, TENMAP_F8_E4M3, shape, 2, &ids[i][0],
                              &error) != TENMAP_OK)
            fail_with(&error);
        snprintf(name, sizeof name, "model.layers.%zu.weight_scale_inv", i);
        if (tenmap_writer_add(writer, name, TENMAP_CSTR, TENMAP_F32, blocks, 2, &ids[i][1],
                              &error) != TENMAP_OK)
            fail_with(&error);
    }
    for (size_t i = 0; i < count; i++)
        if (tenmap_writer_write(writer, ids[i][0], 0, codes, sizeof codes, &error) != TENMAP_OK ||
            tenmap_writer_write(writer, ids[i][1], 0, scales, sizeof scales, &error) != TENMAP_OK)
            fail_with(&error);
    if (tenmap_writer_commit(writer, &error) != TENMAP_OK)
        fail_with(&error);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--keep") == 0)
        return write_model(argv[2], strtoull(argv[3], NULL, 10));
    const uint64_t r = argc > 2 ? strtoull(argv[1], NULL, 10) : 8192;
    const uint64_t c = argc > 2 ? strtoull(argv[2], NULL, 10) : 8192;
    if (r % 128 || c % 128 || !r || !c) {
        fprintf(stderr, "usage: bench_quantized [ROWS COLUMNS], both multiples of 128\n");
        return 2;
    }
    char nf4[128];
    snprintf(nf4, sizeof nf4,
             "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": "
             "[%llu, %llu]}",
             (unsigned long long)r, (unsigned long long)c);
    const bench_scheme schemes[] = {
        {"FP8 block",
         "m.weight",
         true,
         {{"m.weight", TENMAP_F8_E4M3, {r, c}, 2, 0, 0x7e, NULL},
          {"m.weight_scale_inv", TENMAP_F32, {r / 128, c / 128}, 2, 0, 255, NULL}}},
        {"INT4 group",
         "m.weight",
         false,
         {{"m.weight_packed", TENMAP_I32, {r, c / 8}, 2, 0, 255, NULL},
          {"m.weight_scale", TENMAP_BF16, {r, c / 32}, 2, 0, 255, NULL},
          {"m.weight_shape", TENMAP_I32, {2}, 1, 0, 0, NULL}}},
        {"MXFP4",
         "m.weight",
         false,
         {{"m.weight_packed", TENMAP_U8, {r, c / 2}, 2, 0, 255, NULL},
          {"m.weight_scale", TENMAP_U8, {r, c / 32}, 2, 110, 140, NULL}}},
        {"NVFP4",
         "m.weight",
         false,
         {{"m.weight", TENMAP_U8, {r, c / 2}, 2, 0, 255, NULL},
          {"m.weight_scale", TENMAP_F8_E4M3, {r, c / 16}, 2, 8, 0x7e, NULL},
          {"m.weight_scale_2", TENMAP_F32, {1}, 1, 0, 255, NULL}}},
        {"NF4",
         "m.weight",
         false,
         {{"m.weight", TENMAP_U8, {r * c / 2, 1}, 2, 0, 255, NULL},
          {"m.weight.absmax", TENMAP_F32, {r * c / 64}, 1, 0, 255, NULL},
          {"m.weight.quant_map", TENMAP_F32, {16}, 1, 0, 255, NULL},
          {"m.weight.quant_state.bitsandbytes__nf4", TENMAP_U8, {strlen(nf4)}, 1, 0, 255, nf4}}},
        {"MLX 4 bits",
         "m.weight",
         false,
         {{"m.weight", TENMAP_U32, {r, c / 8}, 2, 0, 255, NULL},
          {"m.scales", TENMAP_BF16, {r, c / 64}, 2, 0, 255, NULL},
          {"m.biases", TENMAP_BF16, {r, c / 64}, 2, 0, 255, NULL}}},
        {"GPTQ (transposed)",
         "m.weight",
         false,
         {{"m.qweight", TENMAP_I32, {c / 8, r}, 2, 0, 255, NULL},
          {"m.qzeros", TENMAP_I32, {c / 128, r / 8}, 2, 0, 255, NULL},
          {"m.scales", TENMAP_F16, {c / 128, r}, 2, 0, 255, NULL}}},
        {"AWQ (transposed)",
         "m.weight",
         false,
         {{"m.qweight", TENMAP_I32, {c, r / 8}, 2, 0, 255, NULL},
          {"m.qzeros", TENMAP_I32, {c / 128, r / 8}, 2, 0, 255, NULL},
          {"m.scales", TENMAP_F16, {c / 128, r}, 2, 0, 255, NULL}}},
        {"gpt-oss (transposed)",
         "m",
         false,
         {{"m_blocks", TENMAP_U8, {1, r, c / 32, 16}, 4, 0, 255, NULL},
          {"m_scales", TENMAP_U8, {1, r, c / 32}, 3, 110, 140, NULL}}},
    };
    void *dst = tenmap_alloc((size_t)(r * c * 4));
    if (!dst || !temp_folder_make())
        return 1;
    const char *path = temp_folder_file("weight.safetensors");
    printf("%llu x %llu values, one thread, %s\n\n", (unsigned long long)r, (unsigned long long)c,
           tenmap_cpu_path());
    printf("| scheme | into | GB/s written | of plain stores | of plain F8 "
           "|\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (argc < 4 || strcmp(argv[3], schemes[i].label) == 0)
            time_scheme(path, &schemes[i], dst);
    tenmap_free(dst);
    return 0;
}
