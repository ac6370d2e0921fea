/*
 * Every read of every tensor: a file is opened from memory with both backends, and each tensor is
 * read as every dtype, in ranges and blocks that the first bytes of the input choose, alone and in
 * one load. All results are compared with the scalar oracle over the file's bytes. Input: PROGRAM
 * bytes, then the file.
 */
#include "input.h"
#include "values/conversion_route.h"
#include "values/values.h"

enum { PROGRAM = 16, MOST_TENSORS = 12, MOST_ELEMENTS = 512, MOST_RANK = 16 };

typedef struct opened {
    const uint8_t *bytes;
    tenmap_model *model;
    input program;
} opened;

static size_t bytes_for(tenmap_dtype dtype, uint64_t count) {
    return ((size_t)count * tenmap_dtype_bits(dtype) + 7) / 8;
}

/* Converts the elements' bits in the file one at a time. */
static void expect(const opened *o, const tenmap_tensor *t, const uint64_t *elements, size_t count,
                   tenmap_dtype as, uint32_t flags, uint8_t *want) {
    tmi_elements from = {t->dtype, 0, true}, to = {as, 0, !TMI_BIG_ENDIAN};
    unsigned bits = tenmap_dtype_bits(as);
    memset(want, 0, bytes_for(as, count));
    if (as == TENMAP_C64) { /* two F32 each, copied */
        for (size_t i = 0; i < 2 * count; i++) {
            tmi_elements half = {TENMAP_F32, 0, true};
            uint64_t v = tmi_scalar_load(&half, o->bytes + t->file_offset,
                                         (size_t)elements[i / 2] * 2 + i % 2);
            uint32_t word = (uint32_t)v;
            memcpy(want + i * 4, &word, 4);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t v = tmi_scalar_load(&from, o->bytes + t->file_offset, (size_t)elements[i]);
        if (as != t->dtype)
            v = tmi_scalar_one(as, t->dtype, v, flags & TENMAP_CONVERT_SATURATE);
        if (bits < 8) {
            for (unsigned b = 0; b < bits; b++)
                want[(i * bits + b) / 8] |= (uint8_t)((v >> b & 1) << (i * bits + b) % 8);
        } else {
            for (unsigned b = 0; b < bits / 8; b++)
                want[i * bits / 8 + (to.little_endian ? b : bits / 8 - 1 - b)] =
                    (uint8_t)(v >> 8 * b);
        }
    }
}

static bool can_read(const tenmap_tensor *t, tenmap_dtype as) {
    return t->dtype != TENMAP_OPAQUE && tmi_convert_check(as, t->dtype, 0, NULL) == TENMAP_OK;
}

/* Integers that do not fit are an error unless they saturate, as the oracle's do. */
static uint32_t flags_of_integers(const tenmap_tensor *t, tenmap_dtype as) {
    bool both = can_read(t, as) && tmi_route_is_integer(as, t->dtype);
    return both ? TENMAP_CONVERT_SATURATE : 0;
}

static uint32_t choose_flags(opened *o, const tenmap_tensor *t, tenmap_dtype as) {
    return (input_byte(&o->program) & TENMAP_CONVERT_SATURATE) | flags_of_integers(t, as);
}

/* Elements [first, first + count) that the program chooses, as this dtype. */
static void check_range(opened *o, const tenmap_tensor *t, tenmap_dtype as) {
    uint64_t first = t->nelems ? input_byte(&o->program) % t->nelems : 0;
    uint64_t count = t->nelems - first, elements[MOST_ELEMENTS];
    uint8_t got[MOST_ELEMENTS * 8], want[MOST_ELEMENTS * 8];
    uint32_t flags = choose_flags(o, t, as);
    tenmap_error error;
    if (count > MOST_ELEMENTS)
        count = MOST_ELEMENTS;
    for (size_t i = 0; i < count; i++)
        elements[i] = first + i;
    fuzz_error_arm(&error);
    tenmap_status status =
        tenmap_read(t, first, count, as, got, bytes_for(as, count), flags, &error);
    fuzz_error_check(&error, status);
    if (!can_read(t, as)) {
        CHECK(status == TENMAP_ERR_UNSUPPORTED);
        return;
    }
    CHECK(status == TENMAP_OK);
    expect(o, t, elements, (size_t)count, as, flags, want);
    CHECK(memcmp(got, want, bytes_for(as, count)) == 0);
}

/* A block that the program chooses: its bounds, and its elements. False if it is too large. */
static bool choose_block(opened *o, const tenmap_tensor *t, uint64_t *begin, uint64_t *end,
                         uint64_t *elements, size_t *count) {
    uint64_t index[MOST_RANK], total = 1;
    if (t->rank > MOST_RANK)
        return false;
    for (uint32_t d = 0; d < t->rank; d++) {
        uint8_t choice = input_byte(&o->program);
        index[d] = begin[d] = t->shape[d] ? (choice & 15) % t->shape[d] : 0;
        end[d] = choice & 128 ? t->shape[d] : begin[d] + (choice >> 4 & 7);
        if (end[d] > t->shape[d])
            end[d] = t->shape[d];
        if (end[d] - begin[d] > MOST_ELEMENTS || (total *= end[d] - begin[d]) > MOST_ELEMENTS)
            return false;
    }
    *count = (size_t)total;
    for (size_t i = 0; i < total; i++) {
        elements[i] = 0;
        for (uint32_t d = 0; d < t->rank; d++)
            elements[i] = elements[i] * t->shape[d] + index[d];
        for (uint32_t d = t->rank; d-- > 0 && ++index[d] == end[d];)
            index[d] = begin[d];
    }
    return true;
}

static void check_block(opened *o, const tenmap_tensor *t, tenmap_dtype as) {
    uint64_t begin[MOST_RANK], end[MOST_RANK], elements[MOST_ELEMENTS];
    uint8_t got[MOST_ELEMENTS * 8], want[MOST_ELEMENTS * 8];
    size_t count;
    tenmap_error error;
    uint32_t flags = choose_flags(o, t, as);
    if (!can_read(t, as) || !choose_block(o, t, begin, end, elements, &count))
        return;
    fuzz_error_arm(&error);
    tenmap_status status =
        tenmap_read_slice(t, begin, end, as, got, bytes_for(as, count), flags, &error);
    fuzz_error_check(&error, status);
    CHECK(status == TENMAP_OK);
    expect(o, t, elements, count, as, flags, want);
    CHECK(memcmp(got, want, bytes_for(as, count)) == 0);
}

/* All tensors in one load, each as the dtype that the program chooses. */
static void check_load(opened *o) {
    tenmap_request requests[MOST_TENSORS];
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error error;
    size_t n = 0;
    memset(requests, 0, sizeof requests);
    options.threads = 1 + input_below(&o->program, 3);
    options.flags = input_below(&o->program, 2);
    for (size_t i = 0; i < tenmap_count(o->model) && n < MOST_TENSORS; i++) {
        const tenmap_tensor *t = tenmap_at(o->model, i);
        tenmap_dtype as = 1 + input_below(&o->program, TMI_DTYPE_COUNT - 1);
        if (t->dtype == TENMAP_OPAQUE || t->nelems > MOST_ELEMENTS)
            continue;
        as = can_read(t, as) ? as : t->dtype;
        size_t bytes = bytes_for(as, t->nelems);
        requests[n++] =
            (tenmap_request){.tensor = t, .as = as, .dst = malloc(bytes + 1), .dst_bytes = bytes};
        requests[n - 1].flags = flags_of_integers(t, as);
    }
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_load(o->model, requests, n, &options, &error);
    fuzz_error_check(&error, status);
    CHECK(status == TENMAP_OK);
    for (size_t i = 0; i < n; i++) {
        uint64_t elements[MOST_ELEMENTS];
        uint8_t want[MOST_ELEMENTS * 8];
        size_t count = (size_t)requests[i].tensor->nelems;
        for (size_t k = 0; k < count; k++)
            elements[k] = k;
        expect(o, requests[i].tensor, elements, count, requests[i].as, requests[i].flags, want);
        CHECK(memcmp(requests[i].dst, want, requests[i].dst_bytes) == 0);
        free(requests[i].dst);
    }
}

static void check_residency(const opened *o) {
    uint64_t bytes;
    for (uint32_t advice = TENMAP_ADVISE_POPULATE; advice <= TENMAP_ADVISE_RELEASE; advice++)
        (void)tenmap_advise(o->model, tenmap_at(o->model, 0), advice, NULL);
    (void)tenmap_resident(o->model, NULL, &bytes, NULL);
    (void)tenmap_cached(o->model, NULL, &bytes, NULL);
}

static void run(const uint8_t *data, size_t size, input program, uint32_t backend, uint32_t flags) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    opened o = {data, NULL, program};
    options.backend = backend;
    options.flags = flags;
    options.max_header_bytes = 1 << 20;
    if (tenmap_open_memory(data, size, &options, &o.model, NULL) != TENMAP_OK)
        return;
    for (size_t i = 0; i < tenmap_count(o.model) && i < MOST_TENSORS; i++)
        for (tenmap_dtype as = 1; as < TMI_DTYPE_COUNT; as++) {
            check_range(&o, tenmap_at(o.model, i), as);
            check_block(&o, tenmap_at(o.model, i), as);
        }
    check_load(&o);
    check_residency(&o);
    tenmap_close(o.model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < PROGRAM || (size >= PROGRAM + 4 && memcmp(data + PROGRAM, "GGUF", 4) == 0))
        return 0; /* fuzz_gguf.c checks GGUF files */
    input program = {data, data + PROGRAM, data};
    /* A copy of the exact size, so that AddressSanitizer detects a read past its end. */
    uint8_t *file = malloc(size > PROGRAM ? size - PROGRAM : 1);
    memcpy(file, data + PROGRAM, size - PROGRAM);
    uint32_t lenient = data[0] & 1 ? TENMAP_OPEN_LENIENT : 0;
    run(file, size - PROGRAM, program, TENMAP_BACKEND_MAP, lenient);
    run(file, size - PROGRAM, program, TENMAP_BACKEND_READ, lenient);
    free(file);
    return 0;
}
