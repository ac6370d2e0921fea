/*
 * The fields of tenmap_want beyond name, dtype and shape, and the options of tenmap_take: blocks,
 * numbers, destinations, appended arenas and the caller's allocator, in every mix, on mapped models
 * and others. Results are compared with tenmap_read_slice.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "model/model.h"

#include "gguf_files.h"

#include <pthread.h>
#include <stddef.h>

/* "w.3" begins at an odd byte. */
static const char fields_json[] =
    "{\"w.0\":{\"dtype\":\"F32\",\"shape\":[4,6],\"data_offsets\":[0,96]},"
    "\"w.1\":{\"dtype\":\"BF16\",\"shape\":[2,3,4],\"data_offsets\":[96,144]},"
    "\"w.2\":{\"dtype\":\"F4\",\"shape\":[3,6],\"data_offsets\":[144,153]},"
    "\"w.3\":{\"dtype\":\"F16\",\"shape\":[3,5],\"data_offsets\":[153,183]},"
    "\"w.70000\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[183,192]},"
    "\"w.4.e.70000\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[192,200]},"
    "\"odd\":{\"dtype\":\"F5\",\"shape\":[8],\"data_offsets\":[200,205]}}";
enum { FIELDS_DATA = 205, MOST_BYTES = 512, TENSORS = 5 };

static tenmap_model *open_fields(void **state, uint32_t backend) {
    const char *path = in_folder(state, "t.safetensors");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = backend;
    options.flags = TENMAP_OPEN_LENIENT;
    char json[sizeof fields_json + 8];
    snprintf(json, sizeof json, "%s", fields_json);
    while (strlen(json) % 8) /* the data begins at a multiple of 8, as writers have it */
        strcat(json, " ");
    write_model(path, json, FIELDS_DATA);
    return must_open(path, &options);
}

/* The blocks that are tried: of the first axis, of the last axis, of all axes. */
enum { CUT_NONE, CUT_ALL, CUT_FIRST_AXIS, CUT_LAST_AXIS, CUT_EMPTY, CUT_ONE, CUTS };

static void make_cut(const tenmap_tensor *t, unsigned cut, uint64_t *begin, uint64_t *end) {
    for (uint32_t d = 0; d < t->rank; d++) {
        begin[d] = 0;
        end[d] = t->shape[d];
        if (cut == CUT_ONE)
            begin[d] = end[d] - 1;
    }
    if (cut == CUT_FIRST_AXIS || cut == CUT_EMPTY)
        begin[0] = 1;
    if (cut == CUT_EMPTY)
        end[0] = 1;
    if (cut == CUT_LAST_AXIS)
        end[t->rank - 1]--;
}

/* What a block is, found element by element. */
typedef struct cut_facts {
    uint64_t first, count;
    bool together;
} cut_facts;

static cut_facts look_at_cut(const tenmap_tensor *t, const uint64_t *begin, const uint64_t *end) {
    cut_facts facts = {0, 0, true};
    for (uint64_t i = 0; i < t->nelems; i++) {
        uint64_t rest = i;
        bool inside = true;
        for (uint32_t d = t->rank; d-- > 0; rest /= t->shape[d])
            inside = inside && rest % t->shape[d] >= begin[d] && rest % t->shape[d] < end[d];
        if (!inside)
            continue;
        if (facts.count == 0)
            facts.first = i;
        facts.together = facts.together && i == facts.first + facts.count;
        facts.count++;
    }
    return facts;
}

/* Whether a mapped tensor's block must be a view if it is taken as stored. */
static bool should_be_view(const tenmap_tensor *t, cut_facts facts, unsigned cut) {
    uint64_t bits = tenmap_dtype_bits(t->dtype), behind = facts.first + facts.count;
    bool bytes_begin = facts.first * bits % 8 == 0;
    bool bytes_end = behind * bits % 8 == 0 || behind == t->nelems;
    return (t->flags & TENMAP_TENSOR_ALIGNED) && facts.together && !TMI_BIG_ENDIAN &&
           (cut == CUT_NONE || (bytes_begin && bytes_end));
}

/* The caller's allocator counts what it has given out. */
typedef struct counting {
    size_t taken, given_back, bytes, alignment, misalign;
    bool refuse;
} counting;

static void *count_alloc(void *ctx, size_t size, size_t alignment) {
    counting *c = ctx;
    if (c->refuse)
        return NULL;
    c->taken++;
    c->bytes += size;
    c->alignment = alignment;
    void *memory = NULL;
    assert_true(size > 0 && alignment >= 64 && (alignment & (alignment - 1)) == 0);
    assert_int_equal(posix_memalign(&memory, alignment, size + c->misalign), 0);
    memset(memory, 0xEE, size); /* it need not be zeroed */
    return (unsigned char *)memory + c->misalign;
}

static void count_dealloc(void *ctx, void *memory, size_t size) {
    counting *c = ctx;
    c->given_back++;
    c->bytes -= size;
    free((unsigned char *)memory - c->misalign);
}

enum { WITH_HOOK = 1, WITH_APPEND = 2, WAYS = 4 };

static tenmap_load_options options_for(unsigned way, counting *counts, tenmap_arena *append) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.threads = 1;
    if (way & WITH_HOOK) {
        options.alloc = count_alloc;
        options.dealloc = count_dealloc;
        options.alloc_ctx = counts;
    }
    if (way & WITH_APPEND)
        options.append = append;
    return options;
}

/* One want with all fields, among others. */
enum { DST_NONE, DST_EXACT, DST_SHORT, DSTS };
typedef struct mix {
    unsigned tensor, as, cut, dst, copy, alignment, way;
} mix;

static const tenmap_dtype mix_dtypes[] = {TENMAP_AS_STORED, TENMAP_F32, TENMAP_BF16};

static bool next_mix(mix *m) {
    unsigned *const digits[] = {&m->tensor, &m->as,        &m->cut, &m->dst,
                                &m->copy,   &m->alignment, &m->way};
    static const unsigned limits[] = {TENSORS, COUNT(mix_dtypes), CUTS, DSTS, 2, 2, WAYS};
    for (size_t i = 0; i < COUNT(digits); i++) {
        if (++*digits[i] < limits[i])
            return true;
        *digits[i] = 0;
    }
    return false;
}

static _Alignas(4096) unsigned char mix_dst[MOST_BYTES], expected[MOST_BYTES];

/* An arena with one weight in it, whose bytes must survive whatever is appended. */
static tenmap_arena *earlier_arena(const tenmap_model *m, const void **weight) {
    tenmap_want want = {.name = "w.0", .flags = TENMAP_WANT_COPY};
    tenmap_arena *arena = NULL;
    assert_int_equal(tenmap_take(m, &want, 1, NULL, &arena, NULL), TENMAP_OK);
    assert_non_null(arena);
    *weight = want.data;
    return arena;
}

static void check_mix_taken(const tenmap_want *want, const mix *x, bool view) {
    assert_memory_equal(want->data, expected, (size_t)want->nbytes);
    if (x->dst == DST_EXACT)
        assert_ptr_equal(want->data, want->dst);
    if (want->alignment)
        assert_int_equal((uintptr_t)want->data % want->alignment, 0);
    const unsigned char *from = want->tensor->data, *data = want->data;
    bool is_view = from && data >= from && data <= from + want->tensor->nbytes;
    assert_int_equal(is_view, view);
}

/* Sets `expected` to the bytes that the want must have; returns how many. */
static size_t expect_bytes(const tenmap_want *want, const tenmap_tensor *t, cut_facts *facts) {
    const uint64_t zeros[3] = {0};
    const uint64_t *begin = want->begin ? want->begin : zeros;
    const uint64_t *end = want->end ? want->end : t->shape;
    tenmap_dtype as = want->as ? want->as : t->dtype;
    *facts = look_at_cut(t, begin, end);
    assert_int_equal(tenmap_read_slice(t, begin, end, as, expected, MOST_BYTES, 0, NULL),
                     TENMAP_OK);
    return (size_t)(facts->count * tenmap_dtype_bits(as) + 7) / 8;
}

/* A want with the fields of the mix, and what it must become. */
typedef struct mixed_want {
    tenmap_want want;
    uint64_t begin[3], end[3];
    size_t size;
    bool view, too_small;
} mixed_want;

static void make_want(const tenmap_tensor *t, const mix *x, mixed_want *made) {
    tenmap_want *want = &made->want;
    cut_facts facts;
    make_cut(t, x->cut, made->begin, made->end);
    *want = (tenmap_want){.name = "w.%u", .as = mix_dtypes[x->as], .rank = t->rank, .numbers = 1};
    want->layer = x->tensor == 4 ? 70000 : x->tensor;
    want->shape = x->way ? t->shape : NULL; /* of the whole weight, whatever is cut */
    want->flags = x->copy ? TENMAP_WANT_COPY : 0;
    want->alignment = x->alignment ? 4096 : 0;
    want->begin = x->cut ? made->begin : NULL;
    want->end = x->cut ? made->end : NULL;
    made->size = expect_bytes(want, t, &facts);
    made->too_small = x->dst == DST_SHORT && made->size > 0;
    want->dst = x->dst ? mix_dst : NULL;
    want->dst_bytes = x->dst ? made->size - made->too_small : 0;
    uint64_t at = (uintptr_t)t->data + facts.first * tenmap_dtype_bits(t->dtype) / 8;
    made->view = t->data && (want->as == TENMAP_AS_STORED || want->as == t->dtype) && !x->copy &&
                 !x->dst && (!want->alignment || at % 4096 == 0) &&
                 should_be_view(t, facts, x->cut);
}

static void try_fields(const tenmap_model *m, const mix *x) {
    mixed_want made;
    make_want(tenmap_at(m, x->tensor), x, &made);
    tenmap_want wants[3] = {{.name = "w.1", .as = TENMAP_F32},
                            made.want,
                            {.name = "gone", .flags = TENMAP_WANT_OPTIONAL, .nbytes = 77}};
    counting counts = {0};
    const void *kept;
    tenmap_arena *append = earlier_arena(m, &kept), *arena = append;
    tenmap_load_options options = options_for(x->way, &counts, append);
    tenmap_error error;
    tenmap_status status = tenmap_take(m, wants, 3, &options, &arena, &error);
    if (made.too_small) {
        check_refused(status, &error, TENMAP_ERR_BUFFER, "its destination has");
        assert_int_equal(error.index, 1);
        assert_true(!arena && !wants[0].data && !wants[1].data);
        assert_true(!wants[0].nbytes && !wants[1].nbytes);
    } else {
        if (status != TENMAP_OK)
            fail_msg("%s", error.message);
        assert_int_equal(wants[1].nbytes, made.size);
        assert_int_equal(wants[2].nbytes, 0);
        assert_int_equal(wants[0].nbytes, 24 * 4);
        check_mix_taken(&wants[1], x, made.view);
        assert_true(!(x->way & WITH_APPEND) || arena == append);
        assert_int_equal(counts.taken, x->way & WITH_HOOK ? 1 : 0);
    }
    assert_int_equal(tenmap_read(tenmap_at(m, 0), 0, 24, TENMAP_F32, expected, 96, 0, NULL),
                     TENMAP_OK);
    assert_memory_equal(kept, expected, 96);
    if (arena != append)
        tenmap_arena_free(arena);
    tenmap_arena_free(append);
    assert_int_equal(counts.taken, counts.given_back);
    assert_int_equal(counts.bytes, 0);
}

static void every_mix_of_fields_and_options_on_every_backend(void **state) {
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_model *m = open_fields(state, backend);
        mix x = {0};
        do
            try_fields(m, &x);
        while (next_mix(&x));
        tenmap_close(m);
    }
}

static void names_take_any_number_from_the_fields(void **state) {
    tenmap_model *m = open_fields(state, TENMAP_BACKEND_MAP);
    tenmap_want wants[] = {
        {.name = "w.%u", .numbers = 1, .layer = 70000},
        {.name = "w.%u.e.%u", .numbers = 2, .layer = 4, .expert = 70000},
        {.name = "w.%u", .numbers = 1}, /* layer 0 */
        {.name = "x.%u.%u",
         .numbers = 2,
         .layer = UINT32_MAX,
         .expert = UINT32_MAX,
         .flags = TENMAP_WANT_OPTIONAL},
    };
    static const uint64_t elements[] = {9, 2, 24};
    tenmap_arena *arena;
    tenmap_error error;
    if (tenmap_take(m, wants, COUNT(wants), NULL, &arena, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < COUNT(elements); i++)
        assert_int_equal(wants[i].tensor->nelems, elements[i]);
    assert_null(wants[3].tensor);
    tenmap_arena_free(arena);
    wants[3].flags = 0;
    check_refused(tenmap_take(m, wants, COUNT(wants), NULL, &arena, &error), &error,
                  TENMAP_ERR_NOT_FOUND, "\"x.4294967295.4294967295\" is missing");
    assert_null(arena);
    tenmap_close(m);
}

static void wrong_fields_are_found_before_the_model_is_looked_at(void **state) {
    static const uint64_t some[2] = {0, 1};
    static _Alignas(8) unsigned char dst[16];
    const struct {
        tenmap_want want;
        const char *says;
    } rows[] = {{{.name = "%u", .numbers = 3}, "more than 2"},
                {{.name = "%u", .numbers = UINT32_MAX}, "more than 2"},
                {{.name = "%u", .numbers = 1, .flags = TENMAP_WANT_LAYER(1)}, "both in its flags"},
                {{.name = "%u", .numbers = 1, .flags = TENMAP_WANT_EXPERT(1)}, "both in its flags"},
                {{.name = "w.0", .layer = 1}, "do not count"},
                {{.name = "w.%u", .numbers = 1, .expert = 1}, "do not count"},
                {{.name = "w.0", .numbers = 1}, "the number of %u in its name"},
                {{.name = "%u", .numbers = 2}, "the number of %u in its name"},
                {{.name = "w.0", .rank = 2, .begin = some}, "only one of its begin and end"},
                {{.name = "w.0", .rank = 2, .end = some}, "only one of its begin and end"},
                {{.name = "w.0", .begin = some, .end = some}, "needs the rank"},
                {{.name = "w.0", .dst_bytes = 1}, "dst is NULL"},
                {{.name = "w.0", .dst = dst + 1, .dst_bytes = 8, .alignment = 8}, "alignment"},
                {{.name = "w.0", .reserved2 = 1}, "reserved"}};
    tenmap_model *m = open_fields(state, TENMAP_BACKEND_MAP);
    tenmap_arena *arena;
    tenmap_error error;
    for (size_t i = 0; i < COUNT(rows); i++) {
        tenmap_want wants[2] = {{.name = "gone"}, rows[i].want};
        check_refused(tenmap_take(m, wants, 2, NULL, &arena, &error), &error, TENMAP_ERR_ARGUMENT,
                      rows[i].says);
        assert_int_equal(error.index, 1);
        assert_true(!arena && !wants[1].data && !wants[1].tensor && !wants[1].nbytes);
    }
    tenmap_close(m);
}

/* A file chooses its shapes: no pair of begin and end beyond the wanted rank is read. */
static void a_block_outside_of_the_weight_is_refused(void **state) {
    static const uint64_t any2[2] = {TENMAP_ANY_EXTENT, TENMAP_ANY_EXTENT};
    static const uint64_t zero[2] = {0, 0}, far[2] = {5, 6}, all[2] = {4, 6}, back[2] = {3, 0};
    static const uint64_t one[1] = {0}, ends[1] = {1};
    const struct {
        tenmap_want want;
        tenmap_status status;
        const char *says;
    } rows[] = {
        {{.name = "w.0", .rank = 2, .shape = any2, .begin = zero, .end = far},
         TENMAP_ERR_RANGE,
         "\"w.0\" is [4, 6]; the block from [0, 0] to [5, 6] is not inside it"},
        {{.name = "w.0", .rank = 2, .begin = back, .end = zero},
         TENMAP_ERR_RANGE,
         "the block from [3, 0] to [0, 0]"},
        {{.name = "w.1", .rank = 2, .begin = zero, .end = all},
         TENMAP_ERR_RANGE,
         "\"w.1\" is [2, 3, 4], not of rank 2"},
        {{.name = "w.0", .rank = 2, .shape = far, .begin = zero, .end = all},
         TENMAP_ERR_RANGE,
         "\"w.0\" is [4, 6], not [5, 6]"},
        {{.name = "odd", .rank = 1, .begin = one, .end = ends},
         TENMAP_ERR_UNSUPPORTED,
         "\"odd\" is \"F5\", of which no block can be taken"},
    };
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_model *m = open_fields(state, backend);
        for (size_t i = 0; i < COUNT(rows); i++) {
            tenmap_want want = rows[i].want;
            tenmap_arena *arena;
            tenmap_error error;
            check_refused(tenmap_take(m, &want, 1, NULL, &arena, &error), &error, rows[i].status,
                          rows[i].says);
            assert_true(!arena && !want.data && !want.tensor && !want.nbytes);
        }
        tenmap_close(m);
    }
}

/* "q" has two rows of two blocks of 32 elements in 18 bytes. */
static void blocks_of_block_dtypes_are_taken_whole_or_as_floats(void **state) {
    (void)state;
    bytes file = gguf_small();
    tenmap_model *m = must_open_memory(file, NULL);
    const tenmap_tensor *q = tenmap_find(m, "q");
    static const uint64_t begin[2] = {1, 0}, end[2] = {2, 64};
    static const uint64_t inside[2] = {1, 32}, through[2] = {1, 31};
    tenmap_want want = {.name = "q", .rank = 2, .begin = begin, .end = end};
    tenmap_arena *arena;
    tenmap_error error;
    assert_int_equal(tenmap_take(m, &want, 1, NULL, &arena, NULL), TENMAP_OK);
    assert_int_equal(want.nbytes, 36);
    assert_memory_equal(want.data, (const unsigned char *)q->data + 36, 36);
    assert_null(arena);
    want.begin = inside;
    want.flags = TENMAP_WANT_COPY;
    assert_int_equal(tenmap_take(m, &want, 1, NULL, &arena, NULL), TENMAP_OK);
    assert_int_equal(want.nbytes, 18);
    assert_memory_equal(want.data, (const unsigned char *)q->data + 54, 18);
    tenmap_arena_free(arena);
    want.begin = through;
    check_refused(tenmap_take(m, &want, 1, NULL, &arena, &error), &error, TENMAP_ERR_RANGE,
                  "not in whole blocks");
    want.as = TENMAP_F32;
    float values[33];
    assert_int_equal(tenmap_take(m, &want, 1, NULL, &arena, NULL), TENMAP_OK);
    assert_int_equal(want.nbytes, sizeof values);
    assert_int_equal(tenmap_read_slice(q, through, end, TENMAP_F32, values, sizeof values, 0, NULL),
                     TENMAP_OK);
    assert_memory_equal(want.data, values, sizeof values);
    tenmap_arena_free(arena);
    tenmap_close(m);
    free(file.at);
}

static void an_allocator_may_refuse_and_must_align(void **state) {
    tenmap_model *m = open_fields(state, TENMAP_BACKEND_MAP);
    tenmap_want want = {.name = "w.0", .flags = TENMAP_WANT_COPY, .alignment = 1 << 20};
    tenmap_arena *arena;
    tenmap_error error;
    counting counts = {.refuse = true};
    tenmap_load_options options = options_for(WITH_HOOK, &counts, NULL);
    check_refused(tenmap_take(m, &want, 1, &options, &arena, &error), &error, TENMAP_ERR_MEMORY,
                  "weights");
    assert_true(!arena && !want.data && counts.taken == 0);
    counts = (counting){.misalign = 64};
    check_refused(tenmap_take(m, &want, 1, &options, &arena, &error), &error, TENMAP_ERR_ARGUMENT,
                  "not aligned to 1048576 bytes");
    assert_true(!arena && !want.data && counts.taken == 1 && counts.given_back == 1);
    options.dealloc = NULL;
    check_refused(tenmap_take(m, &want, 1, &options, &arena, &error), &error, TENMAP_ERR_ARGUMENT,
                  "options.dealloc is NULL");
    options.dealloc = count_dealloc;
    options.alloc = NULL;
    check_refused(tenmap_load(m, NULL, 0, &options, &error), &error, TENMAP_ERR_ARGUMENT,
                  "options.alloc is NULL");
    tenmap_close(m);
}

static void only_a_take_appends(void **state) {
    tenmap_model *m = open_fields(state, TENMAP_BACKEND_MAP);
    const void *kept;
    tenmap_arena *arena = earlier_arena(m, &kept);
    tenmap_load_options options = options_for(WITH_APPEND, NULL, arena);
    tenmap_error error;
    check_refused(tenmap_load(m, NULL, 0, &options, &error), &error, TENMAP_ERR_ARGUMENT,
                  "options.append");
    check_refused(tenmap_detach(m, &options, &error), &error, TENMAP_ERR_ARGUMENT,
                  "options.append");
    tenmap_arena_free(arena);
    tenmap_close(m);
}

/* A program that was compiled before `append` existed passes a shorter struct. */
static void options_of_an_older_header_are_taken_as_they_were(void **state) {
    tenmap_model *m = open_fields(state, TENMAP_BACKEND_MAP);
    tenmap_load_options options;
    tenmap_want want = {.name = "w.0", .flags = TENMAP_WANT_COPY};
    tenmap_arena *arena;
    memset(&options, 0xAA, sizeof options);
    memset(&options, 0, offsetof(tenmap_load_options, append));
    options.struct_size = offsetof(tenmap_load_options, append);
    assert_int_equal(tenmap_take(m, &want, 1, &options, &arena, NULL), TENMAP_OK);
    assert_non_null(arena);
    tenmap_arena_free(arena);
    tenmap_close(m);
}

static void *free_arena(void *arena) {
    tenmap_arena_free(arena);
    return NULL;
}

/* Layer after layer into one arena, of two models, freed by another thread. */
static void an_arena_grows_over_models_and_is_freed_on_any_thread(void **state) {
    enum { LAYERS = 50 };
    counting counts = {0};
    tenmap_arena *arena = NULL;
    const void *weights[LAYERS];
    for (uint32_t i = 0; i < LAYERS; i++) {
        tenmap_model *m = open_fields(state, i % 2);
        tenmap_want want = {.name = "w.1", .flags = TENMAP_WANT_COPY};
        tenmap_load_options options = options_for(i % 3 ? WITH_HOOK : 0, &counts, NULL);
        options.append = arena;
        tenmap_arena *before = arena;
        assert_int_equal(tenmap_take(m, &want, 1, &options, &arena, NULL), TENMAP_OK);
        assert_true(!before || arena == before);
        weights[i] = want.data;
        assert_int_equal(
            tenmap_read(tenmap_find(m, "w.1"), 0, 24, TENMAP_BF16, expected, 48, 0, NULL),
            TENMAP_OK);
        tenmap_close(m);
    }
    for (size_t i = 0; i < LAYERS; i++)
        assert_memory_equal(weights[i], expected, 48);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_arena, arena), 0);
    pthread_join(thread, NULL);
    assert_int_equal(counts.taken, 33);
    assert_int_equal(counts.given_back, 33);
}

/* A loop may keep its arena in the options themselves. */
static void the_arena_may_be_the_one_of_the_options(void **state) {
    tenmap_model *m = open_fields(state, TENMAP_BACKEND_MAP);
    counting counts = {0};
    tenmap_load_options options = options_for(WITH_HOOK, &counts, NULL);
    for (int i = 0; i < 3; i++) {
        tenmap_want want = {.name = "w.0", .flags = TENMAP_WANT_COPY};
        tenmap_arena *before = options.append;
        assert_int_equal(tenmap_take(m, &want, 1, &options, &options.append, NULL), TENMAP_OK);
        assert_non_null(options.append);
        assert_true(!before || options.append == before);
    }
    tenmap_arena_free(options.append);
    assert_int_equal(counts.taken, 3);
    assert_int_equal(counts.given_back, 3);
    tenmap_close(m);
}

static int cancel_at_once(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return 1;
}

static void a_cancelled_take_gives_back_what_it_took_and_nothing_else(void **state) {
    tenmap_model *m = open_fields(state, TENMAP_BACKEND_READ);
    const void *kept;
    counting counts = {0};
    unsigned char dst[96];
    tenmap_arena *append = earlier_arena(m, &kept), *arena = append;
    tenmap_load_options options = options_for(WITH_HOOK | WITH_APPEND, &counts, append);
    tenmap_want wants[2] = {{.name = "w.1", .as = TENMAP_F32},
                            {.name = "w.0", .dst = dst, .dst_bytes = sizeof dst}};
    options.progress = cancel_at_once;
    assert_int_equal(tenmap_take(m, wants, 2, &options, &arena, NULL), TENMAP_ERR_CANCELLED);
    assert_true(!arena && !wants[0].data && !wants[1].data);
    assert_int_equal(counts.taken, 1);
    assert_int_equal(counts.given_back, 1);
    options.progress = NULL; /* the arena can still be appended to */
    assert_int_equal(tenmap_take(m, wants, 2, &options, &arena, NULL), TENMAP_OK);
    assert_ptr_equal(arena, append);
    assert_memory_equal(kept, dst, sizeof dst);
    tenmap_arena_free(arena);
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_mix_of_fields_and_options_on_every_backend, empty_folder),
        cmocka_unit_test_setup(names_take_any_number_from_the_fields, empty_folder),
        cmocka_unit_test_setup(wrong_fields_are_found_before_the_model_is_looked_at, empty_folder),
        cmocka_unit_test_setup(a_block_outside_of_the_weight_is_refused, empty_folder),
        cmocka_unit_test(blocks_of_block_dtypes_are_taken_whole_or_as_floats),
        cmocka_unit_test_setup(an_allocator_may_refuse_and_must_align, empty_folder),
        cmocka_unit_test_setup(only_a_take_appends, empty_folder),
        cmocka_unit_test_setup(options_of_an_older_header_are_taken_as_they_were, empty_folder),
        cmocka_unit_test_setup(an_arena_grows_over_models_and_is_freed_on_any_thread, empty_folder),
        cmocka_unit_test_setup(the_arena_may_be_the_one_of_the_options, empty_folder),
        cmocka_unit_test_setup(a_cancelled_take_gives_back_what_it_took_and_nothing_else,
                               empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
