/* Quantized weights are recognized, assembled from their parts, and read by every call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "values/cpu.h"

#include "quantized_weight.h"

#include "quantized_schemes.h"

#include "io_files.h"

#include <sys/mman.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

static tenmap_options dequantize(uint32_t backend) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    options.backend = backend;
    return options;
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static bool is_nan(uint32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000;
}

static void same_floats(const stored_weight *w, const float *got, const float *wanted,
                        uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t a = float_bits(got[i]), b = float_bits(wanted[i]);
        if (a != b && !(is_nan(a) && is_nan(b)))
            fail_msg("%s: element %llu is %.9g (%08x), not %.9g (%08x)", w->label,
                     (unsigned long long)i, (double)got[i], a, (double)wanted[i], b);
    }
}

/* Each value by its formula, in the weight's own order. */
static float *all_values(const stored_weight *w) {
    uint64_t matrices = w->rank > 2 ? w->shape[0] : 1, at = 0;
    float *out = malloc((size_t)(matrices * w->rows * w->columns * 4 + 4));
    assert_non_null(out);
    for (uint64_t m = 0; m < matrices; m++)
        for (uint64_t r = 0; r < w->rows; r++)
            for (uint64_t c = 0; c < w->columns; c++)
                out[at++] = w->value(w, m, r, c);
    return out;
}

static uint64_t elements_of(const stored_weight *w) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < w->rank; d++)
        n *= w->shape[d];
    return n;
}

/* What the model lists: the weight, no part, the plain tensors as they were. */
static const tenmap_tensor *check_listing(const stored_weight *w, const tenmap_model *m) {
    const tenmap_tensor *t = tenmap_find(m, w->name);
    if (!t)
        fail_msg("%s: %s is not listed", w->label, w->name);
    assert_int_equal(tenmap_count(m), 3);
    assert_non_null(tenmap_find(m, "a.norm"));
    assert_string_equal(tenmap_scheme_of(tenmap_find(m, "z.norm"))->name, "none");
    assert_int_equal(t->flags, TENMAP_TENSOR_COMPUTED);
    assert_null(t->data);
    assert_int_equal(t->rank, w->rank);
    for (uint32_t d = 0; d < w->rank; d++)
        assert_int_equal(t->shape[d], w->shape[d]);
    assert_int_equal(t->nelems, elements_of(w));
    assert_int_equal(t->nbytes, t->nelems * tenmap_dtype_bits(t->dtype) / 8);
    if (w->dtype)
        assert_int_equal(t->dtype, w->dtype);
    assert_string_equal(tenmap_scheme_of(t)->name, w->scheme);
    assert_int_equal(tenmap_scheme_of(t)->part_count, w->part_count);
    assert_string_equal(tenmap_part_at(t, 0)->name, w->parts[0].name);
    for (uint32_t i = 0; i < w->part_count; i++) {
        const tenmap_tensor *part = tenmap_part_at(t, i);
        unsigned char first;
        assert_non_null(part);
        if (strcmp(part->name, w->name) != 0)
            assert_null(tenmap_find(m, part->name));
        if (part->nbytes)
            assert_int_equal(tenmap_read_bytes(part, 0, 1, &first, NULL), TENMAP_OK);
    }
    assert_null(tenmap_part_at(t, (uint32_t)w->part_count));
    return t;
}

/* Bytes may differ if both are NaN, whose payload is not promised. */
static void same_elements(const stored_weight *w, tenmap_dtype d, const unsigned char *got,
                          const unsigned char *same, uint64_t count) {
    size_t size = (size_t)((count * tenmap_dtype_bits(d) + 7) / 8);
    tmi_elements elements = {d, 0, !TMI_BIG_ENDIAN};
    if (memcmp(got, same, size) == 0)
        return;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t a = tmi_scalar_load(&elements, got, (size_t)i);
        uint64_t b = tmi_scalar_load(&elements, same, (size_t)i);
        if (a != b && !(is_nan((uint32_t)tmi_scalar_one(TENMAP_F32, d, a, 0)) &&
                        is_nan((uint32_t)tmi_scalar_one(TENMAP_F32, d, b, 0))))
            fail_msg("%s: %s: element %llu is %llx, not %llx", w->label, tenmap_dtype_name(d),
                     (unsigned long long)i, (unsigned long long)a, (unsigned long long)b);
    }
}

/*
 * Each dtype is the F32 value converted once, however the weight is stored and wherever it goes.
 * What follows the values is the same on every backend, so one backend tests all dtypes and flags,
 * and with `few` only the usual ones.
 */
static void check_dtypes(const stored_weight *w, const tenmap_tensor *t, const float *wanted,
                         bool few) {
    static const uint32_t flags[] = {0, TENMAP_CONVERT_STREAM, TENMAP_CONVERT_SATURATE,
                                     TENMAP_CONVERT_STREAM | TENMAP_CONVERT_SATURATE};
    size_t room = (size_t)t->nelems * 8 + 72;
    unsigned char *got = malloc(room), *same = malloc(room);
    assert_non_null(got);
    assert_non_null(same);
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++) {
        if (tenmap_dtype_kind(d) != TENMAP_KIND_FLOAT)
            continue;
        size_t size = (size_t)((t->nelems * tenmap_dtype_bits(d) + 7) / 8);
        bool often = d == TENMAP_F32 || d == TENMAP_BF16 || d == TENMAP_F16;
        if (few && !often && d != TENMAP_F64)
            continue;
        for (size_t i = 0; i < (often && !few ? COUNT(flags) : 1); i++) {
            unsigned char *dst = got + (i % 2 ? -(uintptr_t)got % 64 : (size_t)next_random() % 64);
            memset(dst, 0x5a, size + 1);
            assert_int_equal(tenmap_read(t, 0, t->nelems, d, dst, size, flags[i], NULL), TENMAP_OK);
            assert_int_equal(dst[size], 0x5a);
            assert_int_equal(
                tenmap_convert(d, same, size, TENMAP_F32, wanted, t->nelems, flags[i], NULL),
                TENMAP_OK);
            same_elements(w, d, dst, same, t->nelems);
        }
    }
    free(got);
    free(same);
}

static void random_block(const tenmap_tensor *t, uint64_t *begin, uint64_t *end, uint64_t *count) {
    *count = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        uint64_t a = next_random() % (t->shape[d] + 1), b = next_random() % (t->shape[d] + 1);
        bool whole = next_random() % 4 == 0;
        begin[d] = whole ? 0 : a < b ? a : b;
        end[d] = whole ? t->shape[d] : a < b ? b : a;
        *count *= end[d] - begin[d];
    }
}

/* Cuts a block out of a whole tensor. */
static void cut_block(const tenmap_tensor *t, const float *all, const uint64_t *begin,
                      const uint64_t *end, float *out) {
    uint64_t index[4] = {0}, count = 1, n = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        index[d] = begin[d];
        count *= end[d] - begin[d];
    }
    while (n < count) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < t->rank; d++)
            at = at * t->shape[d] + index[d];
        out[n++] = all[at];
        for (uint32_t d = t->rank; d-- > 0;) {
            if (++index[d] < end[d])
                break;
            index[d] = begin[d];
        }
    }
}

static void check_slices(const stored_weight *w, const tenmap_tensor *t, const float *wanted) {
    size_t room = (size_t)t->nelems * 4 + 4;
    float *got = malloc(room), *cut = malloc(room);
    assert_non_null(got);
    assert_non_null(cut);
    for (unsigned i = 0; i < 40; i++) {
        uint64_t begin[4], end[4], count;
        random_block(t, begin, end, &count);
        cut_block(t, wanted, begin, end, cut);
        assert_int_equal(tenmap_read_slice(t, begin, end, TENMAP_F32, got, room, 0, NULL),
                         TENMAP_OK);
        same_floats(w, got, cut, count);
    }
    for (unsigned i = 0; i < 20 && t->nelems; i++) {
        uint64_t first = next_random() % t->nelems, count = next_random() % (t->nelems - first + 1);
        assert_int_equal(tenmap_read(t, first, count, TENMAP_F32, got, room, 0, NULL), TENMAP_OK);
        same_floats(w, got, wanted + first, count);
    }
    free(got);
    free(cut);
}

static uint64_t last_total, last_done;
static int note_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    last_done = done;
    last_total = total;
    return 0;
}

static void check_load(const stored_weight *w, const tenmap_tensor *t, const float *wanted) {
    static const uint32_t flags[] = {0, TENMAP_LOAD_READ, TENMAP_LOAD_DIRECT};
    size_t room = (size_t)t->nelems * 4 + 4;
    float *got = malloc(2 * room), *cut = malloc(room);
    assert_non_null(got);
    assert_non_null(cut);
    for (size_t i = 0; i < COUNT(flags); i++) {
        uint64_t begin[4], end[4], count;
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        options.flags = flags[i];
        options.threads = 3;
        options.progress = note_progress;
        random_block(t, begin, end, &count);
        cut_block(t, wanted, begin, end, cut);
        tenmap_request requests[2] = {
            {.tensor = t, .as = TENMAP_F32, .dst = got, .dst_bytes = room},
            {.tensor = t,
             .begin = begin,
             .end = end,
             .as = TENMAP_F32,
             .dst = (char *)got + room,
             .dst_bytes = room}};
        assert_int_equal(tenmap_load(t->model, requests, 2, &options, NULL), TENMAP_OK);
        assert_int_equal(last_done, last_total);
        same_floats(w, got, wanted, t->nelems);
        same_floats(w, (float *)(void *)((char *)got + room), cut, count);
    }
    free(got);
    free(cut);
}

/* A copy as a plain tensor has the same values and the same statistics. */
static void check_copies(void **state, const stored_weight *w, const tenmap_tensor *t,
                         const float *wanted) {
    const char *path = in_folder(state, "plain.out");
    tenmap_source sources[1] = {{.tensor = t, .dtype = TENMAP_AS_STORED}};
    tenmap_losses lost[1];
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    copy.losses = next_random() % 4 ? lost : NULL;
    tenmap_writer *writer;
    assert_int_equal(tenmap_writer_create(path, NULL, &writer, NULL), TENMAP_OK);
    assert_int_equal(
        tenmap_writer_add(writer, t->name, t->name_len, t->dtype, t->shape, t->rank, NULL, NULL),
        TENMAP_OK);
    assert_int_equal(tenmap_writer_copy_list(writer, sources, 1, &copy, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(writer, NULL), TENMAP_OK);
    tenmap_model *plain = must_open(path, NULL);
    const tenmap_tensor *p = tenmap_at(plain, 0);
    size_t size = (size_t)t->nbytes + 1;
    unsigned char *a = malloc(size), *b = malloc(size);
    assert_int_equal(tenmap_read(p, 0, p->nelems, TENMAP_AS_STORED, a, size, 0, NULL), TENMAP_OK);
    assert_int_equal(tenmap_read(t, 0, t->nelems, TENMAP_AS_STORED, b, size, 0, NULL), TENMAP_OK);
    assert_memory_equal(a, b, (size_t)t->nbytes);
    tenmap_stats made, stored;
    uint64_t bins[2][16];
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    options.bins = 16;
    options.threads = 2;
    options.progress = note_progress;
    options.histogram = bins[0];
    assert_int_equal(tenmap_measure(&t, 1, &options, &made, NULL), TENMAP_OK);
    assert_int_equal(last_done, last_total);
    options.histogram = bins[1];
    assert_int_equal(tenmap_measure(&p, 1, &options, &stored, NULL), TENMAP_OK);
    assert_memory_equal(&made, &stored, sizeof made);
    assert_memory_equal(bins[0], bins[1], sizeof bins[0]);
    if (copy.losses) { /* losses are counted as if the values had been stored */
        tenmap_losses known = {0};
        assert_int_equal(tenmap_convert_counted(t->dtype, a, size, TENMAP_F32, wanted, t->nelems, 0,
                                                &known, NULL),
                         TENMAP_OK);
        if (memcmp(&known, lost, sizeof known) != 0)
            fail_msg("%s: %llu overflowed, %llu flushed, %llu NaN", w->label,
                     (unsigned long long)lost->overflowed, (unsigned long long)lost->flushed,
                     (unsigned long long)lost->nans);
    }
    free(a);
    free(b);
    tenmap_close(plain);
    remove(path);
}

static void check_refusals(const tenmap_tensor *t) {
    char byte;
    tenmap_error error;
    assert_null(tenmap_view(t, TENMAP_AS_STORED, &error));
    check_error(&error, TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(error.remedy, TENMAP_REMEDY_READ);
    assert_int_equal(tenmap_read_bytes(t, 0, 1, &byte, &error), TENMAP_ERR_UNSUPPORTED);
    check_error(&error, TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(error.remedy, TENMAP_REMEDY_READ);
    assert_int_equal(tenmap_read(t, 0, 1, TENMAP_I32, &byte, 1, 0, &error), TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(tenmap_read_as(t, TENMAP_U8, 0, 1, TENMAP_U8, &byte, 1, 0, &error),
                     TENMAP_ERR_UNSUPPORTED);
    check_error(&error, TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(error.remedy, TENMAP_REMEDY_PARTS);
}

/* Advice about a weight is about its parts. Pages are locked, so that they stay in memory. */
static void check_advice(const tenmap_tensor *t) {
    tenmap_error error;
    bool kept = false;
#ifdef __linux__
    const tenmap_shard *shard = tenmap_shard_at(t->model, 0);
    kept = shard->base && syscall(SYS_mlock2, shard->base, shard->size, MLOCK_ONFAULT) == 0;
#endif
    assert_int_equal(tenmap_advise(t->model, t, TENMAP_ADVISE_POPULATE, &error), TENMAP_OK);
    uint64_t resident, all = 0;
    for (uint32_t i = 0; i < tenmap_scheme_of(t)->part_count; i++)
        all += tenmap_part_at(t, i)->nbytes;
    if (kept && tenmap_resident(t->model, t, &resident, &error) == TENMAP_OK)
        assert_int_equal(resident, all);
}

/* Everything about one weight, on one backend. */
static void check_weight(void **state, const stored_weight *w, uint32_t backend,
                         const float *wanted) {
    tenmap_options options = dequantize(backend);
    tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
    const tenmap_tensor *t = check_listing(w, m);
    size_t room = (size_t)t->nelems * 4;
    float *got = malloc(room + 4);
    assert_non_null(got);
    assert_int_equal(tenmap_read(t, 0, t->nelems, TENMAP_F32, got, room, 0, NULL), TENMAP_OK);
    same_floats(w, got, wanted, t->nelems);
    free(got);
    check_dtypes(w, t, wanted, backend == TENMAP_BACKEND_READ);
    check_slices(w, t, wanted);
    check_load(w, t, wanted);
    check_copies(state, w, t, wanted);
    check_refusals(t);
    check_advice(t);
    tenmap_close(m);
}

static void check_cases(void **state, make_weight *const *cases, size_t count) {
    static const char *const paths[] = {"scalar", "avx2", "neon"};
    for (size_t k = 0; k < count; k++) {
        stored_weight w = {.label = NULL};
        seed_random((uint32_t)k + 1);
        cases[k](&w);
        write_weight(state, &w);
        float *wanted = all_values(&w);
        for (size_t i = 0; i < COUNT(paths); i++) {
            const tmi_kernels *kernels = tmi_cpu_find(paths[i]), *best = tmi_cpu_kernels();
            if (!kernels)
                continue;
            tmi_cpu_use(kernels);
            check_weight(state, &w, TENMAP_BACKEND_MAP, wanted);
            check_weight(state, &w, TENMAP_BACKEND_READ, wanted);
            tmi_cpu_use(best);
        }
        free(wanted);
        free_weight(&w);
    }
}

static void every_scheme_on_every_path(void **state) {
    check_cases(state, quantized_cases, quantized_case_count);
}

static void every_shape_on_every_path(void **state) {
    check_cases(state, quantized_shapes, quantized_shape_count);
}

/* The weight exists, and read at once it has the values of its formula. */
static void check_all_values(const stored_weight *w, const tenmap_model *m) {
    const tenmap_tensor *t = check_listing(w, m);
    float *wanted = all_values(w), *got = malloc((size_t)t->nelems * 4);
    assert_int_equal(tenmap_read(t, 0, t->nelems, TENMAP_F32, got, (size_t)t->nelems * 4, 0, NULL),
                     TENMAP_OK);
    same_floats(w, got, wanted, t->nelems);
    free(wanted);
    free(got);
}

/* config.json is looked for beside the object, through the caller's functions as on a disk. */
static void config_comes_through_the_callers_io(void **state) {
    io_files files = {.fail_at = 0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = dequantize(0);
    char path[300];
    stored_weight w = {.label = NULL};
    fp8_block(&w); /* FP8 in blocks, BF16 by its config.json */
    write_weight(state, &w);
    options.io = &io;
    snprintf(path, sizeof path, "%s", in_folder(state, "model.safetensors"));
    tenmap_model *m = must_open(path, &options);
    check_all_values(&w, m);
    tenmap_close(m);
    assert_int_equal(files.opened, 2); /* the model and its config.json */
    assert_int_equal(files.opened, files.closed);
    write_text(in_folder(state, "config.json"), "{");
    must_fail(path, &options, TENMAP_ERR_FORMAT, "config.json");
    (void)remove(in_folder(state, "config.json"));
    m = must_open(path, &options); /* without one, the scales decide */
    assert_int_equal(tenmap_find(m, w.name)->dtype, TENMAP_F32);
    tenmap_close(m);
    free_weight(&w);
}

/* A read of a few elements fetches the codes of their row, and not a window of codes after it. */
static void a_short_read_fetches_few_codes(void **state) {
    io_files files = {.fail_at = 0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = dequantize(0);
    stored_weight w = {.label = NULL};
    float got[8];
    fp8_block(&w); /* FP8 in blocks: a code is a byte */
    write_weight(state, &w);
    options.io = &io;
    tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
    const tenmap_tensor *t = tenmap_find(m, w.name);
    uint64_t before = files.bytes, others = 0;
    for (uint32_t i = 1; i < tenmap_scheme_of(t)->part_count; i++)
        others += tenmap_part_at(t, i)->nbytes;
    assert_int_equal(tenmap_read(t, 0, 8, TENMAP_F32, got, sizeof got, 0, NULL), TENMAP_OK);
    assert_true(t->shape[0] > 1);
    assert_true(files.bytes - before <= t->shape[1] + others);
    tenmap_close(m);
    free_weight(&w);
}

/*
 * The parts of a weight may be in different files of a list; without one of them the weight is
 * absent.
 */
static void parts_in_two_files_are_one_weight(void **state) {
    tenmap_options options = dequantize(0);
    char first[300], second[300];
    for (size_t k = 0; k < quantized_case_count; k += 5) {
        stored_weight w = {.label = NULL}, head, tail;
        tenmap_error error;
        tenmap_model *m;
        seed_random((uint32_t)k + 1);
        quantized_cases[k](&w);
        head = tail = w;
        head.part_count = 1;
        tail.part_count = w.part_count - 1;
        memmove(tail.parts, tail.parts + 1, tail.part_count * sizeof *tail.parts);
        snprintf(first, sizeof first, "%s", in_folder(state, "first.safetensors"));
        snprintf(second, sizeof second, "%s", in_folder(state, "model.safetensors"));
        write_weight(state, &head);
        (void)remove(first);
        assert_int_equal(rename(second, first), 0);
        write_parts(state, &tail);
        const char *paths[2] = {first, second};
        if (tenmap_open_list(paths, 2, &options, &m, &error) != TENMAP_OK)
            fail_msg("%s: %s", w.label, error.message);
        const tenmap_tensor *t = check_listing(&w, m);
        assert_string_equal(tenmap_part_at(t, 0)->name, w.parts[0].name);
        assert_int_not_equal(tenmap_part_at(t, 0)->shard, tenmap_part_at(t, 1)->shard);
        float *wanted = all_values(&w), *got = malloc((size_t)t->nelems * 4 + 4);
        assert_int_equal(
            tenmap_read(t, 0, t->nelems, TENMAP_F32, got, (size_t)t->nelems * 4, 0, NULL),
            TENMAP_OK);
        same_floats(&w, got, wanted, t->nelems);
        check_load(&w, t, wanted);
        tenmap_close(m);
        free(wanted);
        free(got);
        free_weight(&w);
        (void)remove(first);
    }
}

/*
 * Writes model.safetensors without part `gone` of the weight, which an index lists there or in
 * another shard.
 */
static void write_without(void **state, const stored_weight *w, size_t gone, const char *shard) {
    stored_weight rest = *w;
    char index[4096];
    int used = snprintf(index, sizeof index, "{\"weight_map\": {\"a.norm\": \"model.safetensors\"");
    for (size_t i = 0; i < w->part_count; i++)
        used += snprintf(index + used, sizeof index - (size_t)used, ",\n\"%s\": \"%s\"",
                         w->parts[i].name, i == gone ? shard : "model.safetensors");
    snprintf(index + used, sizeof index - (size_t)used, "}}");
    write_text(in_folder(state, "parts.index.json"), index);
    memmove(rest.parts + gone, rest.parts + gone + 1,
            (--rest.part_count - gone) * sizeof *rest.parts);
    write_weight(state, &rest);
}

/*
 * How many of the existing parts are listed if another one is missing: codes with the weight's name
 * are not.
 */
static size_t listed_parts(const stored_weight *w, size_t there) {
    return there - (strcmp(w->parts[0].name, w->name) == 0);
}

/*
 * A part that the index lists belongs to the weight, even if it is optional in general: without its
 * zero points or groups the values would be wrong.
 */
static void parts_that_the_index_lists_are_missed(void **state) {
    tenmap_options partial = dequantize(0), lenient = dequantize(0);
    partial.flags |= TENMAP_OPEN_PARTIAL;
    lenient.flags |= TENMAP_OPEN_LENIENT;
    for (size_t k = 0; k < quantized_case_count; k++) {
        stored_weight w = {.label = NULL};
        seed_random((uint32_t)k + 1);
        quantized_cases[k](&w);
        for (size_t gone = 1; gone < w.part_count; gone++) {
            write_without(state, &w, gone, "missing.safetensors");
            tenmap_model *m = must_open(in_folder(state, "parts.index.json"), &partial);
            assert_int_equal(tenmap_count(m), 2 + listed_parts(&w, w.part_count - 1));
            for (size_t i = 0; i < tenmap_count(m); i++)
                assert_false(tenmap_at(m, i)->flags & TENMAP_TENSOR_COMPUTED);
            tenmap_close(m);
            write_without(state, &w, gone, "model.safetensors");
            must_fail(in_folder(state, "parts.index.json"), &lenient, TENMAP_ERR_FORMAT,
                      "is missing");
        }
        free_weight(&w);
    }
}

/* config.json is beside the index, wherever its shards are. */
static void config_lies_beside_the_index(void **state) {
    tenmap_options options = dequantize(0);
    options.flags |= TENMAP_OPEN_SUBFOLDERS;
    stored_weight w = {.label = NULL};
    char from[300], index[4096];
    gptq_v2(&w); /* without config.json its zero points are one less */
    write_weight(state, &w);
    snprintf(from, sizeof from, "%s", in_folder(state, "model.safetensors"));
    assert_int_equal(mkdir(in_folder(state, "deep"), 0777), 0);
    assert_int_equal(mkdir(in_folder(state, "deep/er"), 0777), 0);
    assert_int_equal(rename(from, in_folder(state, "deep/er/model.safetensors")), 0);
    snprintf(index, sizeof index, "{\"weight_map\": {\"%s\": \"deep/er/model.safetensors\"}}",
             w.parts[0].name);
    write_text(in_folder(state, "deep.index.json"), index);
    tenmap_model *m = must_open(in_folder(state, "deep.index.json"), &options);
    check_all_values(&w, m);
    tenmap_close(m);
    free_weight(&w);
    (void)remove(in_folder(state, "deep/er/model.safetensors"));
    (void)remove(in_folder(state, "deep/er"));
    (void)remove(in_folder(state, "deep"));
    (void)remove(in_folder(state, "deep.index.json"));
}

/* With "quantization": null the model is plain, and its 32-bit words are not MLX codes. */
static void no_quantization_is_not_mlx(void **state) {
    tenmap_options options = dequantize(0);
    stored_weight w = {.config = "{\"quantization\": null}"};
    add_part(&w, "b.weight", TENMAP_U32, 2, SHAPE(4, 8));
    write_weight(state, &w);
    tenmap_close(must_open(in_folder(state, "model.safetensors"), &options));
    w.config = "{\"quantization\": {\"bits\": 4}}";
    write_weight(state, &w);
    must_fail(in_folder(state, "model.safetensors"), &options, TENMAP_ERR_FORMAT,
              "\"b.scales\" is missing");
    free_weight(&w);
}

/* If a part is missing, the rest is not taken as a weight of another scheme. */
static void what_is_left_of_a_weight_is_no_other_weight(void **state) {
    tenmap_options partial = dequantize(0);
    stored_weight w = {.label = NULL};
    partial.flags |= TENMAP_OPEN_PARTIAL;
    add_part(&w, "b.weight", TENMAP_I8, 2, SHAPE(4, 32)); /* two codes in each, or one */
    add_part(&w, "b.weight_scale", TENMAP_F8_E4M3, 2, SHAPE(4, 4));
    write_weight(state, &w);
    tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &partial);
    assert_int_equal(tenmap_count(m), 3);
    assert_null(tenmap_find(m, "b.weight"));
    assert_string_equal(tenmap_scheme_of(tenmap_find(m, "b.weight_scale"))->name, "none");
    tenmap_close(m);
    free_weight(&w);
}

/* Scales that would fit but have fewer axes than the codes are not FP4 scales. */
static void scales_of_fewer_axes_are_no_part(void **state) {
    tenmap_options options = dequantize(0);
    stored_weight w = {.label = NULL};
    add_part(&w, "b.weight", TENMAP_U8, 4, SHAPE(1, 2, 4, 16));
    add_part(&w, "b.weight_scale", TENMAP_U8, 1, SHAPE(1));
    write_weight(state, &w);
    tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
    assert_int_equal(tenmap_count(m), 4);
    tenmap_close(m);
    free_weight(&w);
}

/* One scale per row, or one in all, also fits weights with empty rows or without rows. */
static void empty_weights_have_scales_too(void **state) {
    static const uint64_t shapes[][4] = {
        {0, 64, 1, 1}, {64, 0, 64, 1}, {0, 0, 1, 1}, {64, 0, 1, 1}, {0, 64, 0, 1}};
    tenmap_options options = dequantize(0);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        stored_weight w = {.label = NULL};
        add_part(&w, "b.weight", TENMAP_F8_E4M3, 2, shapes[i]);
        add_scales(&w, "b.weight_scale", TENMAP_F32, 2, shapes[i] + 2);
        write_weight(state, &w);
        tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
        const tenmap_tensor *t = tenmap_find(m, "b.weight");
        assert_int_equal(t->flags, TENMAP_TENSOR_COMPUTED);
        assert_int_equal(t->nbytes, 0);
        assert_int_equal(tenmap_read(t, 0, 0, TENMAP_F32, NULL, 0, 0, NULL), TENMAP_OK);
        tenmap_close(m);
        free_weight(&w);
    }
}

/* Without the flag nothing changes, and config.json is not read. */
static void without_the_flag_parts_are_tensors(void **state) {
    stored_weight w = {.label = NULL};
    fp8_block(&w);
    w.config = "{ this is no JSON";
    write_weight(state, &w);
    tenmap_model *m = must_open(in_folder(state, "model.safetensors"), NULL);
    assert_int_equal(tenmap_count(m), 2 + w.part_count);
    for (size_t i = 0; i < w.part_count; i++)
        assert_string_equal(tenmap_scheme_of(tenmap_find(m, w.parts[i].name))->name, "none");
    assert_null(tenmap_part_at(tenmap_at(m, 0), 0));
    tenmap_close(m);
    tenmap_options options = dequantize(0);
    must_fail(in_folder(state, "model.safetensors"), &options, TENMAP_ERR_FORMAT, "config.json");
    free_weight(&w);
}

/* Parts that do not fit, each with what was found and what was expected. */
static void wrong_parts_are_named(void **state) {
    tenmap_options options = dequantize(0);
    char path[300];
    snprintf(path, sizeof path, "%s", in_folder(state, "model.safetensors"));
    for (size_t k = 0; k < broken_case_count; k++) {
        stored_weight w = {.label = NULL};
        broken_cases[k].make(&w);
        write_weight(state, &w);
        must_fail(path, &options, TENMAP_ERR_FORMAT, broken_cases[k].fragment);
        if (broken_cases[k].missing) { /* a partial open lists the other parts as they are */
            tenmap_options partial = options;
            partial.flags |= TENMAP_OPEN_PARTIAL;
            tenmap_model *m = must_open(path, &partial);
            assert_int_equal(tenmap_count(m), 2 + listed_parts(&w, w.part_count));
            tenmap_close(m);
        }
        options.flags |= TENMAP_OPEN_LENIENT;
        must_fail(path, &options, TENMAP_ERR_FORMAT, broken_cases[k].fragment);
        options.flags &= ~(uint32_t)TENMAP_OPEN_LENIENT;
        free_weight(&w);
    }
}

/* What shows only when values are read: groups that do not exist, a shape that differs. */
static void parts_are_checked_at_first_use(void **state) {
    tenmap_options options = dequantize(0);
    for (size_t k = 0; k < late_case_count; k++) {
        stored_weight w = {.label = NULL};
        tenmap_error error;
        late_cases[k].make(&w);
        write_weight(state, &w);
        tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
        const tenmap_tensor *t = tenmap_find(m, w.name);
        float *room = malloc((size_t)t->nelems * 4);
        assert_int_equal(
            tenmap_read(t, 0, t->nelems, TENMAP_F32, room, (size_t)t->nelems * 4, 0, &error),
            TENMAP_ERR_FORMAT);
        check_error(&error, TENMAP_ERR_FORMAT);
        if (!strstr(error.message, late_cases[k].fragment))
            fail_msg("%s", error.message);
        free(room);
        tenmap_close(m);
        free_weight(&w);
    }
}

/* A config.json that is not JSON, or makes no sense, is an error or ignored, never worse. */
static void hostile_configs_are_refused(void **state) {
    static const char *const texts[] = {"",
                                        "[]",
                                        "{",
                                        "{\"quantization_config\": {\"bits\": }}",
                                        "{\"quantization_config\": [1, 2",
                                        "\xff\xfe"};
    static const char *const odd[] = {
        "{}", "{\"quantization_config\": 7}", "{\"quantization_config\": {\"quant_method\": 9}}",
        "{\"quantization_config\": {\"weight_block_size\": [[1]], \"bits\": 1e99}}",
        "{\"dtype\": null, \"text_config\": {\"dtype\": [\"x\"]}}"};
    tenmap_options options = dequantize(0);
    stored_weight w = {.label = NULL};
    fp8_block(&w);
    for (size_t i = 0; i < COUNT(texts); i++) {
        w.config = texts[i];
        write_weight(state, &w);
        must_fail(in_folder(state, "model.safetensors"), &options, TENMAP_ERR_FORMAT,
                  "config.json");
    }
    for (size_t i = 0; i < COUNT(odd); i++) {
        w.config = odd[i];
        write_weight(state, &w);
        tenmap_close(must_open(in_folder(state, "model.safetensors"), &options));
    }
    free_weight(&w);
}

/* A pipe would read as an empty text, which would be reported as bad JSON. */
static void a_config_that_is_no_file_is_named(void **state) {
#ifndef _WIN32
    tenmap_options options = dequantize(0);
    stored_weight w = {.label = NULL};
    fp8_block(&w);
    w.config = "{}";
    write_weight(state, &w);
    tenmap_model *model;
    tenmap_error error;
    char config[4096];
    snprintf(config, sizeof config, "%s", in_folder(state, "config.json"));
    assert_int_equal(remove(config), 0);
    assert_int_equal(mkfifo(config, 0600), 0);
    tenmap_status status =
        tenmap_open(in_folder(state, "model.safetensors"), &options, &model, &error);
    assert_int_equal(remove(config), 0); /* always: another test would hang on it */
    assert_int_equal(status, TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "not a regular file but a pipe"));
    free_weight(&w);
#else
    (void)state;
#endif
}

/* Infinity and NaN, which Python writes into some configurations, though they are not JSON. */
static void what_python_writes_in_configs_is_taken(void **state) {
    tenmap_options options = dequantize(0);
    stored_weight w = {.label = NULL};
    fp8_block(&w);
    w.config = "{\"time_step_limit\": [0.0, Infinity], \"a\": -Infinity, \"b\": NaN, \"c\": 1e999, "
               "\"quantization_config\": {\"quant_method\": \"fp8\", \"scale\": Infinity}}";
    write_weight(state, &w);
    tenmap_close(must_open(in_folder(state, "model.safetensors"), &options));
    static const char *const none[] = {"{\"a\": Infinite}", "{\"a\": -NaN}", "{\"a\": -",
                                       "{\"a\": Inf", "{\"a\": Nan}"};
    for (size_t i = 0; i < COUNT(none); i++) {
        w.config = none[i];
        write_weight(state, &w);
        must_fail(in_folder(state, "model.safetensors"), &options, TENMAP_ERR_FORMAT,
                  "config.json");
    }
    free_weight(&w);
}

/* The weight is listed with this shape, and has these values, which are freed. */
static void check_axes(void **state, const stored_weight *w, float *wanted, uint32_t rank,
                       const uint64_t *shape) {
    float *got = malloc((size_t)elements_of(w) * 4);
    write_weight(state, w);
    for (uint32_t backend = TENMAP_BACKEND_MAP; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = dequantize(backend);
        tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
        const tenmap_tensor *t = tenmap_find(m, w->name);
        assert_non_null(t);
        assert_string_equal(tenmap_scheme_of(t)->name, w->scheme);
        assert_int_equal(t->rank, rank);
        for (uint32_t d = 0; d < rank; d++)
            assert_int_equal(t->shape[d], shape[d]);
        assert_int_equal(
            tenmap_read(t, 0, t->nelems, TENMAP_F32, got, (size_t)elements_of(w) * 4, 0, NULL),
            TENMAP_OK);
        same_floats(w, got, wanted, elements_of(w));
        tenmap_close(m);
    }
    free(got);
    free(wanted);
}

static void set_axes(stored_part *p, uint32_t rank, const uint64_t *shape) {
    p->rank = rank;
    memcpy(p->shape, shape, rank * sizeof *shape);
}

/* bitsandbytes declares a shape; the other schemes take that of their values. */
static void weights_have_any_number_of_axes(void **state) {
    static const char text[] = "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": "
                               "\"float16\", \"shape\": [2, 5, 1, 5, 13, 1, 1, 10, 1]}";
    stored_weight w = {.label = NULL};
    make_bnb4(&w, "NF4 of nine axes", 50, 130, 64, false, false);
    stored_part *note = &w.parts[w.part_count - 1];
    assert_true(note->size >= sizeof text - 1);
    memcpy(note->bytes, text, sizeof text - 1);
    note->size = note->shape[0] = sizeof text - 1;
    check_axes(state, &w, all_values(&w), 9, (const uint64_t[]){2, 5, 1, 5, 13, 1, 1, 10, 1});
    free_weight(&w);

    w = (stored_weight){.label = NULL};
    make_pairs(&w, "MXFP4 of seven axes", 4, 30, 64, 32, "b.weight_packed", TENMAP_U8,
               "b.weight_scale", TENMAP_U8);
    float *wanted = all_values(&w); /* the formulas are for two axes */
    set_axes(&w.parts[0], 7, (const uint64_t[]){1, 2, 1, 3, 1, 5, 32});
    set_axes(&w.parts[1], 7, (const uint64_t[]){1, 2, 1, 3, 1, 5, 2});
    check_axes(state, &w, wanted, 7, (const uint64_t[]){1, 2, 1, 3, 1, 5, 64});
    free_weight(&w);

    w = (stored_weight){.label = NULL};
    make_affine(&w, "MLX of six axes", 4, 12, 128, 64, "int4-affine", NULL);
    wanted = all_values(&w);
    for (size_t i = 0; i < w.part_count; i++) {
        uint64_t last = w.parts[i].shape[1];
        set_axes(&w.parts[i], 6, (const uint64_t[]){2, 1, 1, 3, 2, last});
    }
    check_axes(state, &w, wanted, 6, (const uint64_t[]){2, 1, 1, 3, 2, 128});
    free_weight(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_on_every_path),
        cmocka_unit_test(every_shape_on_every_path),
        cmocka_unit_test(config_comes_through_the_callers_io),
        cmocka_unit_test(parts_in_two_files_are_one_weight),
        cmocka_unit_test(parts_that_the_index_lists_are_missed),
        cmocka_unit_test(config_lies_beside_the_index),
        cmocka_unit_test(no_quantization_is_not_mlx),
        cmocka_unit_test(what_is_left_of_a_weight_is_no_other_weight),
        cmocka_unit_test(scales_of_fewer_axes_are_no_part),
        cmocka_unit_test(empty_weights_have_scales_too),
        cmocka_unit_test(without_the_flag_parts_are_tensors),
        cmocka_unit_test(wrong_parts_are_named),
        cmocka_unit_test(a_short_read_fetches_few_codes),
        cmocka_unit_test(parts_are_checked_at_first_use),
        cmocka_unit_test(hostile_configs_are_refused),
        cmocka_unit_test(a_config_that_is_no_file_is_named),
        cmocka_unit_test(what_python_writes_in_configs_is_taken),
        cmocka_unit_test(weights_have_any_number_of_axes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
