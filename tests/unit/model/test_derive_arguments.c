/*
 * tenmap_derive refuses what does not fit together, names the tensor, and makes a handle like any
 * other: views of stored tensors, shards, metadata, names, residency.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include "../values/derive_models.h"

#include <math.h>

/* Tensors to derive from: F32 "a" 6x4, "b" 6x4, "c" 4x3, "v" 5; I32 "i" 6x4; F4 "f4" 4x4. */
typedef struct sources {
    made_model made;
    bytes file;
    tenmap_model *model;
    const tenmap_tensor *a, *b, *c, *v, *i, *f4;
} sources;

static sources begin_sources(void) {
    static sources s;
    memset(&s, 0, sizeof s);
    made_add(&s.made, "a", TENMAP_F32, 2, (uint64_t[]){6, 4}, true);
    made_add(&s.made, "b", TENMAP_F32, 2, (uint64_t[]){6, 4}, true);
    made_add(&s.made, "c", TENMAP_F32, 2, (uint64_t[]){4, 3}, true);
    made_add(&s.made, "v", TENMAP_F32, 1, (uint64_t[]){5}, true);
    made_add(&s.made, "i", TENMAP_I32, 2, (uint64_t[]){6, 4}, false);
    made_add(&s.made, "f4", TENMAP_F4, 2, (uint64_t[]){4, 4}, false);
    made_add(&s.made, "none", TENMAP_F32, 2, (uint64_t[]){0, 4}, false);
    made_add(&s.made, "s", TENMAP_F32, 0, NULL, true);
    s.file = made_file(&s.made);
    s.model = must_open_memory(s.file, NULL);
    s.a = tenmap_find(s.model, "a"), s.b = tenmap_find(s.model, "b");
    s.c = tenmap_find(s.model, "c"), s.v = tenmap_find(s.model, "v");
    s.i = tenmap_find(s.model, "i"), s.f4 = tenmap_find(s.model, "f4");
    return s;
}

static void end_sources(sources *s) {
    tenmap_close(s->model);
    free(s->file.at);
    made_free(&s->made);
}

static tenmap_status any_call(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                              size_t count, const float *const *terms, float *out,
                              tenmap_error *error) {
    (void)ctx, (void)matrix, (void)row, (void)column, (void)error;
    memcpy(out, terms[0], count * sizeof *out);
    return TENMAP_OK;
}

/* The tensor, second of two of which the first is good, is refused and named. */
static void refused(const sources *s, tenmap_derived d, tenmap_status status,
                    const char *fragment) {
    const tenmap_term good = {.tensor = s->a};
    const tenmap_derived two[2] = {
        {.name = "good", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &good}, d};
    tenmap_error error = {0};
    tenmap_model *model = (tenmap_model *)&error;
    check_refused(tenmap_derive(two, 2, NULL, &model, &error), &error, status, fragment);
    assert_null(model);
    assert_int_equal(error.index, 1);
    if (d.name && strcmp(d.name, "\xff") != 0)
        assert_non_null(strstr(error.message, "derived tensor \"bad\": "));
}

static void bad_descriptions_are_refused(void **state) {
    (void)state;
    sources s = begin_sources();
    const tenmap_term a = {.tensor = s.a}, none = {.tensor = NULL};
    const tenmap_term two[2] = {{.tensor = s.a, .factor = 1}, {.tensor = s.b, .factor = 1}};
    const tenmap_derived good = {.name = "bad", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &a};
    const tenmap_derived sum = {.name = "bad", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = two};
    tenmap_derived d;
    d = good, d.name = NULL;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "derived tensor 1: its name is NULL");
    d = good, d.name = "\xff";
    refused(&s, d, TENMAP_ERR_ARGUMENT, "byte 0 of its name is not valid UTF-8");
    d = good, d.name = "good";
    {
        const tenmap_derived twins[2] = {d, d};
        tenmap_error error = {0};
        tenmap_model *model = NULL;
        check_refused(tenmap_derive(twins, 2, NULL, &model, &error), &error, TENMAP_ERR_ARGUMENT,
                      "it is number 1, and number 0 has the same name");
    }
    d = good, d.op = 0;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its op is 0");
    d = good, d.op = 7;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its op is 7");
    d = good, d.n = 0;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "it has no terms");
    d = good, d.terms = NULL;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "it has no terms");
    d = good, d.n = 2;
    refused(&s, d, TENMAP_ERR_LIMIT, "it has 2 terms, and this op takes at most 1");
    d = sum, d.n = 65;
    refused(&s, d, TENMAP_ERR_LIMIT, "at most 64");
    d = sum, d.op = TENMAP_DERIVE_STACK, d.n = 65537;
    refused(&s, d, TENMAP_ERR_LIMIT, "at most 65536");
    d = sum, d.op = TENMAP_DERIVE_LOW_RANK;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "LOW_RANK takes one, then pairs");
    d = good, d.reserved[3] = 1;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its reserved fields must be 0");
    d = good, d.call = any_call;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "call is set, but its op is not");
    d = good, d.op = TENMAP_DERIVE_CALL;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "call is NULL");
    d = good, d.axis = 1;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "axis is 1, but its op has none");
    d = good, d.rank = 1;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its shape is NULL, but its rank is 1");
    d = good, d.shape = (uint64_t[]){5, 5}, d.rank = 2;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "it has 24 elements, so it cannot have a shape of 25");
    d = good, d.shape = (uint64_t[]){UINT64_MAX, UINT64_MAX}, d.rank = 2;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "it cannot have a shape");
    d = good, d.order = (uint32_t[]){0, 0};
    refused(&s, d, TENMAP_ERR_ARGUMENT, "order[1] is 0: order is no permutation of its 2 axes");
    d = good, d.order = (uint32_t[]){2, 0};
    refused(&s, d, TENMAP_ERR_ARGUMENT, "order[0] is 2");
    d = good, d.terms = &none;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 0: its tensor is NULL");
    d = good, d.dtype = TENMAP_BF16;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its dtype is to be BF16, but its terms are F32");
    d = sum, d.dtype = TENMAP_I32;
    refused(&s, d, TENMAP_ERR_UNSUPPORTED, "its dtype is to be I32");
    d = sum, d.dtype = TENMAP_Q8_0;
    refused(&s, d, TENMAP_ERR_UNSUPPORTED, "its dtype is to be Q8_0");
    d = sum, d.dtype = TENMAP_F4;
    refused(&s, d, TENMAP_ERR_UNSUPPORTED, "its dtype is to be F4");
    d = sum, d.dtype = 63;
    refused(&s, d, TENMAP_ERR_UNSUPPORTED, "its dtype is to be UNKNOWN");
    end_sources(&s);
}

static void bad_terms_are_refused(void **state) {
    (void)state;
    sources s = begin_sources();
    tenmap_term t[3] = {{.tensor = s.a}};
    tenmap_derived d = {.name = "bad", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = t};
    const tenmap_term a = t[0];
    t[0].flags = 2;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 0: unknown flags 0x2");
    t[0] = a, t[0].reserved[1] = 1;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its reserved fields must be 0");
    t[0] = a, t[0].begin = (uint64_t[]){0, 0};
    refused(&s, d, TENMAP_ERR_ARGUMENT, "end is NULL; set both begin and end, or neither");
    t[0] = a, t[0].end = (uint64_t[]){0, 0};
    refused(&s, d, TENMAP_ERR_ARGUMENT, "begin is NULL");
    t[0] = a, t[0].rank = 2;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its shape is NULL, but its rank is 2");
    t[0] = a, t[0].factor = 1;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its factor is 1, but this term has none");
    t[0] = a, t[0].factor = NAN;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "is not finite");
    t[0] = a, t[0].shape = (uint64_t[]){5, 5}, t[0].rank = 2;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "has 24 elements, so it cannot be taken as a shape of 25");
    t[0] = a, t[0].begin = (uint64_t[]){0, 3}, t[0].end = (uint64_t[]){6, 5};
    refused(&s, d, TENMAP_ERR_RANGE, "the block's [3, 5) in dimension 1 of tensor \"a\"");
    t[0].begin = (uint64_t[]){4, 0}, t[0].end = (uint64_t[]){3, 4};
    refused(&s, d, TENMAP_ERR_RANGE, "the block's [4, 3) in dimension 0");
    t[0] = a, t[0].tensor = s.v, t[0].flags = TENMAP_TERM_TRANSPOSED;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "it has 1 axes, and only a matrix can be taken transposed");
    t[0] = a, t[0].tensor = s.f4, t[0].flags = TENMAP_TERM_TRANSPOSED;
    refused(&s, d, TENMAP_ERR_UNSUPPORTED, "elements of F4 are not whole bytes");
    d.op = TENMAP_DERIVE_SUM;
    t[0] = a;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "its factor is 0; leave the term out");
    t[0].factor = INFINITY;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "is not finite");
    t[0].factor = 1, t[0].tensor = s.i;
    refused(&s, d, TENMAP_ERR_UNSUPPORTED, "term 0 is I32; only floating-point numbers");
    d.n = 2;
    t[0].tensor = s.a;
    t[1] = (tenmap_term){.tensor = s.c, .factor = 1};
    refused(&s, d, TENMAP_ERR_ARGUMENT, "dimension 0 of term 1 is 4, but that of term 0 is 6");
    t[1].tensor = s.v;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 1 has 1 axes, but term 0 has 2 (nothing broadcasts)");
    t[0].factor = t[1].factor = 0;
    d.op = TENMAP_DERIVE_CONCAT;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 1 has 1 axes, but term 0 has 2");
    t[1].tensor = s.i;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 1 is I32, but term 0 is F32");
    t[1].tensor = s.c;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "dimension 1 of term 1 is 3, but that of term 0 is 4");
    d.axis = 2;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "axis is 2, but it has 2 axes");
    d.op = TENMAP_DERIVE_STACK, d.axis = 3;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "axis is 3, but it has 3 axes");
    end_sources(&s);
}

static void bad_products_are_refused(void **state) {
    (void)state;
    sources s = begin_sources();
    tenmap_term t[3] = {
        {.tensor = s.a, .factor = 1}, {.tensor = s.b, .factor = 1}, {.tensor = s.c}};
    tenmap_derived d = {.name = "bad", .op = TENMAP_DERIVE_LOW_RANK, .n = 3, .terms = t};
    refused(&s, d, TENMAP_ERR_ARGUMENT, "B @ A of terms 1 and 2 is 6 x 3, but term 0 is 6 x 4");
    t[2].tensor = s.a;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "B, term 1, has 4 columns, but A, term 2, has 6 rows");
    t[2].tensor = s.c, t[0].tensor = s.v;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 0: it has 1 axes, so it is no matrix");
    t[0] = (tenmap_term){.tensor = NULL, .flags = TENMAP_TERM_TRANSPOSED};
    refused(&s, d, TENMAP_ERR_ARGUMENT, "it has no tensor, so it has no shape");
    t[0] = (tenmap_term){.tensor = NULL};
    t[1].tensor = NULL;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 1: its tensor is NULL");
    t[1].tensor = s.b, t[2].factor = 1;
    refused(&s, d, TENMAP_ERR_ARGUMENT, "term 2: its factor is 1, but this term has none");
    t[2].factor = 0;
    tenmap_close(must_derive(&d, 1)); /* without a base */
    end_sources(&s);
}

static void too_many_elements_are_refused(void **state) {
    (void)state;
    sources s = begin_sources();
    enum { MANY = 65536 };
    tenmap_term *t = calloc(MANY, sizeof *t);
    const tenmap_tensor *last = s.a;
    tenmap_model *models[8];
    tenmap_error error = {0};
    size_t count = 0;
    tenmap_status status = TENMAP_OK;
    assert_non_null(t);
    while (count < 8) { /* each 65,536 times as many elements */
        for (size_t i = 0; i < MANY; i++)
            t[i].tensor = last;
        tenmap_derived d = {.name = "bad", .op = TENMAP_DERIVE_STACK, .n = MANY, .terms = t};
        status = tenmap_derive(&d, 1, NULL, &models[count], &error);
        if (status != TENMAP_OK || count == 1)
            break;
        last = tenmap_at(models[count++], 0);
    }
    assert_int_equal(status, TENMAP_OK); /* 24 * 2^32 elements in 2 steps */
    assert_int_equal(tenmap_at(models[1], 0)->nelems, UINT64_C(24) << 32);
    last = tenmap_at(models[1], 0);
    for (size_t i = 0; i < MANY; i++)
        t[i].tensor = last;
    tenmap_derived d = {.name = "bad", .op = TENMAP_DERIVE_CONCAT, .n = MANY, .terms = t};
    status = tenmap_derive(&d, 1, NULL, &models[2], &error);
    assert_int_equal(status, TENMAP_OK); /* 24 * 2^48 elements, 96 * 2^48 bytes */
    last = tenmap_at(models[2], 0);
    for (size_t i = 0; i < MANY; i++)
        t[i].tensor = last;
    tenmap_model *model = NULL;
    check_refused(tenmap_derive(&d, 1, NULL, &model, &error), &error, TENMAP_ERR_LIMIT,
                  "are more than 64 bits can count");
    d.n = 1000; /* fits into 64 bits, and its bytes do not into 63 */
    check_refused(tenmap_derive(&d, 1, NULL, &model, &error), &error, TENMAP_ERR_LIMIT,
                  "are more bytes than 63 bits can count");
    uint64_t byte = 0;
    assert_int_equal(tenmap_read(last, last->nelems - 1, 1, 0, &byte, sizeof byte, 0, NULL), 0);
    for (size_t i = 3; i-- > 0;)
        tenmap_close(models[i]);
    free(t);
    end_sources(&s);
}

static void depth_is_limited_to_eight(void **state) {
    (void)state;
    sources s = begin_sources();
    const tenmap_tensor *last = s.a;
    tenmap_model *models[9];
    tenmap_error error = {0};
    for (size_t i = 0; i < 9; i++) {
        const tenmap_term t = {.tensor = last, .factor = 2};
        const tenmap_derived d = {.name = "deep", .op = TENMAP_DERIVE_SUM, .n = 1, .terms = &t};
        models[i] = NULL;
        tenmap_status status = tenmap_derive(&d, 1, NULL, &models[i], &error);
        if (i == 8) {
            check_refused(status, &error, TENMAP_ERR_LIMIT, "9 deep; at most 8 are allowed");
            break;
        }
        assert_int_equal(status, TENMAP_OK);
        last = tenmap_at(models[i], 0);
    }
    float *got = must_read(last, TENMAP_F32), *from = must_read(s.a, TENMAP_F32);
    for (size_t i = 0; i < 24; i++)
        assert_true(got[i] == 256 * from[i]);
    free(got);
    free(from);
    for (size_t i = 8; i-- > 0;)
        tenmap_close(models[i]);
    end_sources(&s);
}

static void calls_without_what_they_need_are_refused(void **state) {
    (void)state;
    sources s = begin_sources();
    const tenmap_term t = {.tensor = s.a};
    const tenmap_derived d = {.name = "d", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &t};
    tenmap_error error = {0};
    tenmap_model *model = NULL;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    check_refused(tenmap_derive(&d, 1, NULL, NULL, &error), &error, TENMAP_ERR_ARGUMENT, "(out)");
    check_refused(tenmap_derive(NULL, 1, NULL, &model, &error), &error, TENMAP_ERR_ARGUMENT,
                  "there is no tensor to derive");
    check_refused(tenmap_derive(&d, 0, NULL, &model, &error), &error, TENMAP_ERR_ARGUMENT,
                  "there is no tensor to derive");
    assert_int_equal(tenmap_derive(&d, 1, &options, &model, NULL), TENMAP_OK);
    tenmap_close(model);
    options.backend = TENMAP_BACKEND_READ;
    check_refused(tenmap_derive(&d, 1, &options, &model, &error), &error, TENMAP_ERR_ARGUMENT,
                  "its options are NULL or all defaults");
    options.struct_size = 3;
    assert_int_equal(tenmap_derive(&d, 1, &options, &model, NULL), TENMAP_ERR_ARGUMENT);
    end_sources(&s);
}

/* Names of whole tensors and of rows that lie together cost nothing. */
static void renames_are_views(void **state) {
    (void)state;
    sources s = begin_sources();
    const uint64_t rows[2] = {2, 0}, behind[2] = {5, 4}, flat[1] = {24}, column[2] = {0, 1};
    const uint64_t odd[2] = {1, 1}, end[2] = {2, 3};
    const tenmap_term t[6] = {{.tensor = s.a},
                              {.tensor = s.a, .begin = rows, .end = behind},
                              {.tensor = s.f4},
                              {.tensor = s.a, .begin = column, .end = behind},
                              {.tensor = tenmap_find(s.model, "none")},
                              {.tensor = s.f4, .begin = odd, .end = end}};
    tenmap_derived d[5] = {{.name = "whole", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &t[0]},
                           {.name = "flat",
                            .op = TENMAP_DERIVE_RENAME,
                            .n = 1,
                            .terms = &t[0],
                            .rank = 1,
                            .shape = flat},
                           {.name = "rows", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &t[1]},
                           {.name = "f4", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &t[2]},
                           {.name = "none", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &t[4]}};
    tenmap_model *m = must_derive(d, 5);
    for (size_t i = 0; i < 5; i++) {
        const tenmap_tensor *v = tenmap_at(m, i);
        assert_int_equal(v->flags & TENMAP_TENSOR_COMPUTED, 0);
        assert_string_equal(v->name, d[i].name);
        assert_ptr_equal(v, tenmap_find(m, d[i].name));
        assert_ptr_equal(v->model, m);
        assert_string_equal(tenmap_scheme_of(v)->name, "none");
        assert_int_equal(v->header_position, i);
        assert_ptr_equal(v, tenmap_at_written(m, i));
    }
    assert_ptr_equal(tenmap_at(m, 0)->data, s.a->data);
    assert_ptr_equal(tenmap_at(m, 1)->data, s.a->data);
    assert_int_equal(tenmap_at(m, 1)->rank, 1);
    assert_ptr_equal(tenmap_view(tenmap_at(m, 2), TENMAP_F32, NULL), (const float *)s.a->data + 8);
    assert_int_equal(tenmap_at(m, 2)->nbytes, 48);
    assert_int_equal(tenmap_at(m, 2)->file_offset, s.a->file_offset + 32);
    assert_int_equal(tenmap_at(m, 3)->nbytes, s.f4->nbytes);
    float raw[12];
    assert_int_equal(tenmap_read_bytes(tenmap_at(m, 2), 0, sizeof raw, raw, NULL), TENMAP_OK);
    assert_memory_equal(raw, (const float *)s.a->data + 8, sizeof raw);
    tenmap_close(m);
    d[0].terms = &t[3];
    m = must_derive(d, 1);
    assert_int_equal(tenmap_at(m, 0)->flags, TENMAP_TENSOR_COMPUTED);
    assert_null(tenmap_at(m, 0)->data);
    tenmap_error error = {0};
    assert_null(tenmap_view(tenmap_at(m, 0), 0, &error));
    check_error(&error, TENMAP_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "it is derived from other tensors (derived)"));
    assert_int_equal(tenmap_read_bytes(tenmap_at(m, 0), 0, 1, raw, &error), TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(tenmap_read_as(tenmap_at(m, 0), TENMAP_I32, 0, 1, 0, raw, 4, 0, &error),
                     TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(error.remedy, TENMAP_REMEDY_PARTS);
    tenmap_close(m);
    d[0].terms = &t[5], d[0].name = "bad"; /* part of a row of half bytes: 0x.a 0xb. */
    refused(&s, d[0], TENMAP_ERR_UNSUPPORTED, "elements of F4 are not whole bytes");
    end_sources(&s);
}

/* The model has the shards of its terms in the order of their use, and the first one's metadata. */
static void the_model_is_a_handle_like_any_other(void **state) {
    sources s = begin_sources();
    char *one = strdup(in_folder(state, "one.safetensors"));
    char *two = strdup(in_folder(state, "two.safetensors"));
    write_file(one, s.file.at, s.file.size);
    write_file(two, s.file.at, s.file.size);
    tenmap_model *m1 = must_open(one, NULL), *m2 = must_open(two, NULL);
    const tenmap_tensor *a1 = tenmap_find(m1, "a"), *a2 = tenmap_find(m2, "a");
    const tenmap_term t[5] = {{.tensor = a2, .factor = 1},
                              {.tensor = a1, .factor = 1},
                              {.tensor = tenmap_find(m1, "b"), .factor = 2},
                              {.tensor = NULL},
                              {.tensor = s.a}};
    tenmap_derived d[3] = {{.name = "z", .op = TENMAP_DERIVE_SUM, .n = 3, .terms = t},
                           {.name = "b", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &t[4]},
                           {.name = "c", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = t}};
    tenmap_model *m = must_derive(d, 3);
    assert_int_equal(tenmap_count(m), 3);
    assert_string_equal(tenmap_path(m), two);
    assert_string_equal(tenmap_folder(m), tenmap_folder(m2));
    assert_string_equal(tenmap_metadata_get(m, "made"), "here");
    assert_int_equal(tenmap_shard_count(m), 3);
    assert_ptr_equal(tenmap_shard_at(m, 0), tenmap_shard_at(m2, 0));
    assert_ptr_equal(tenmap_shard_at(m, 1), tenmap_shard_at(m1, 0));
    assert_ptr_equal(tenmap_shard_at(m, 2), tenmap_shard_at(s.model, 0));
    assert_null(tenmap_shard_at(m, 3));
    assert_int_equal(tenmap_file_size(m), 3 * s.file.size);
    assert_null(tenmap_index_json(m, NULL));
    assert_null(tenmap_find(m, "a"));
    const tenmap_tensor *z = tenmap_find(m, "z");
    assert_ptr_equal(z, tenmap_at(m, 0));
    assert_int_equal(z->shard, 0);
    assert_int_equal(z->file_offset, a2->file_offset);
    assert_int_equal(z->nbytes, 96);
    assert_string_equal(tenmap_scheme_of(z)->name, "derived");
    assert_int_equal(tenmap_scheme_of(z)->part_count, 3);
    assert_ptr_equal(tenmap_part_at(z, 0), a2);
    assert_ptr_equal(tenmap_part_at(z, 1), a1);
    assert_null(tenmap_part_at(z, 3));
    assert_int_equal(tenmap_part_role(z, 2), TENMAP_PART_TERM);
    assert_int_equal(tenmap_part_role(z, 3), 0);
    assert_null(tenmap_packing_of(z));
    assert_int_equal(tenmap_quantized_of(z, NULL), 0);
    tenmap_error error = {0};
    uint8_t print[32];
    check_refused(tenmap_detach(m, NULL, &error), &error, TENMAP_ERR_UNSUPPORTED,
                  "the model is derived");
    check_refused(tenmap_fingerprint(m, 0, print, &error), &error, TENMAP_ERR_UNSUPPORTED,
                  "the model is derived");
    uint64_t held = 0, part = 0;
    for (uint32_t advice = TENMAP_ADVISE_POPULATE; advice <= TENMAP_ADVISE_RELEASE; advice++) {
        assert_int_equal(tenmap_advise(m, NULL, advice, &error), TENMAP_OK);
        assert_int_equal(tenmap_advise(m, z, advice, &error), TENMAP_OK);
    }
    assert_int_equal(tenmap_cached(m, z, &held, &error), TENMAP_OK);
    assert_int_equal(held, 3 * 96); /* all terms: they have just been read */
    assert_int_equal(tenmap_cached(m, NULL, &held, &error), TENMAP_OK);
    assert_int_equal(held, 3 * 96);
    assert_int_equal(tenmap_resident(m, z, &part, &error), TENMAP_OK);
    assert_true(part <= held);
    assert_int_equal(tenmap_advise_range(z, 0, 1, TENMAP_ADVISE_POPULATE, &error),
                     TENMAP_ERR_UNSUPPORTED);
    assert_int_equal(tenmap_detach(m1, NULL, &error), TENMAP_OK);
    float *sums = must_read(z, TENMAP_F32), *a = must_read(a1, 0), *b = must_read(s.b, 0);
    for (size_t i = 0; i < 24; i++)
        assert_true(sums[i] == a[i] + a[i] + 2 * b[i]);
    assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_POPULATE, &error), TENMAP_OK);
    free(sums);
    free(a);
    free(b);
    tenmap_close(m);
    tenmap_close(m1);
    tenmap_close(m2);
    end_sources(&s);
    free(one);
    free(two);
}

/* A tensor of a dtype that is not known keeps its name and its bytes. */
static void opaque_tensors_are_renamed_only(void **state) {
    (void)state;
    bytes file = make_model("{\"x\":{\"dtype\":\"F3\",\"shape\":[8],\"data_offsets\":[0,3]}}", 3);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_UNKNOWN_DTYPES;
    tenmap_model *from = must_open_memory(file, &options);
    tenmap_term t[2] = {{.tensor = tenmap_at(from, 0)}, {.tensor = tenmap_at(from, 0)}};
    tenmap_derived d = {.name = "bad", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = t};
    tenmap_error error = {0};
    tenmap_model *m = must_derive(&d, 1), *none = NULL;
    assert_string_equal(tenmap_dtype_text(tenmap_at(m, 0)), "F3");
    assert_int_equal(tenmap_at(m, 0)->nbytes, 3);
    tenmap_close(m);
    t[0].begin = (uint64_t[]){0}, t[0].end = (uint64_t[]){4};
    assert_int_equal(tenmap_derive(&d, 1, NULL, &none, &error), TENMAP_ERR_UNSUPPORTED);
    t[0] = t[1], d.op = TENMAP_DERIVE_CONCAT, d.n = 2;
    assert_int_equal(tenmap_derive(&d, 1, NULL, &none, &error), TENMAP_ERR_UNSUPPORTED);
    d.op = TENMAP_DERIVE_SUM, t[0].factor = t[1].factor = 1;
    assert_int_equal(tenmap_derive(&d, 1, NULL, &none, &error), TENMAP_ERR_UNSUPPORTED);
    tenmap_close(from);
    free(file.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptions_are_refused),
        cmocka_unit_test(bad_terms_are_refused),
        cmocka_unit_test(bad_products_are_refused),
        cmocka_unit_test(too_many_elements_are_refused),
        cmocka_unit_test(depth_is_limited_to_eight),
        cmocka_unit_test(calls_without_what_they_need_are_refused),
        cmocka_unit_test(renames_are_views),
        cmocka_unit_test_setup(the_model_is_a_handle_like_any_other, empty_folder),
        cmocka_unit_test(opaque_tensors_are_renamed_only),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
