/*
 * PyTorch checkpoints: which tensors they hold, by which names, and which bytes; what is refused by
 * name; and that code in a pickle is a finding, never run.
 */
#include "model/pickled_values.h"

#include "torch_files.h"

#include <unistd.h>

static const char *torch_folder;

static int begin(void **state) {
    int failed = make_folder(state);
    torch_folder = *state;
    return failed;
}

enum { STORAGE = 96 }; /* 24 floats */

static bytes finish(torch_bytes *p, size_t storages) {
    TORCH_LITERAL(p, ".");
    return make_checkpoint(p, storages, STORAGE);
}

static const tenmap_tensor *tensor_of(const tenmap_model *m, const char *name) {
    const tenmap_tensor *t = tenmap_find(m, name);
    if (!t)
        fail_msg("there is no tensor %s", name);
    return t;
}

/* A file that the next call overwrites. */
static void save_as_file(bytes file, char path[300]) {
    snprintf(path, 300, "%s/model.pt", torch_folder);
    write_file(path, file.at, file.size);
}

/* Refused from memory and from a file, where the check agrees. Frees the file. */
static void refuse(bytes file, tenmap_status status, const char *fragment) {
    char path[300];
    must_fail_memory(file, NULL, status, fragment);
    save_as_file(file, path);
    must_fail(path, NULL, status, fragment);
    free(file.at);
}

static void tensors_see_their_storages(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "\x80\2}(");
    pickle_text(&p, "whole");
    pickle_put_tensor(&p, &(pickle_tensor){"0", 24, 0, {4, 6}, {6, 1}, 2, NULL, NULL});
    pickle_text(&p, "row");
    pickle_put_tensor(&p, &(pickle_tensor){"0", 24, 6, {6}, {1}, 1, NULL, NULL});
    pickle_text(&p, "transposed");
    pickle_put_tensor(&p, &(pickle_tensor){"0", 24, 0, {6, 4}, {1, 6}, 2, NULL, NULL});
    pickle_text(&p, "repeated");
    pickle_put_tensor(&p, &(pickle_tensor){"1", 24, 3, {3, 2}, {0, 1}, 2, NULL, NULL});
    pickle_text(&p, "scalar");
    pickle_put_tensor(&p, &(pickle_tensor){"1", 24, 23, {0}, {0}, 0, NULL, NULL});
    pickle_text(&p, "empty");
    pickle_put_tensor(&p, &(pickle_tensor){"1", 24, 24, {0, 3}, {3, 1}, 2, NULL, NULL});
    pickle_text(&p, "small");
    pickle_put_tensor(
        &p, &(pickle_tensor){"2", 96, 0, {96}, {1}, 1, "UntypedStorage", "float8_e4m3fn"});
    TORCH_LITERAL(&p, "u");
    bytes file = finish(&p, 3);
    tenmap_model *m = must_open_memory(file, NULL);
    float got[24], whole[24];
    tenmap_error error;
    assert_int_equal(tenmap_count(m), 7);
    const tenmap_tensor *t = tensor_of(m, "whole");
    assert_int_equal(t->flags & TENMAP_TENSOR_COMPUTED, 0);
    assert_int_equal(t->nbytes, STORAGE);
    assert_true(t->data == file.at + t->file_offset);
    assert_int_equal(tenmap_read(t, 0, 24, TENMAP_F32, whole, sizeof whole, 0, &error), TENMAP_OK);
    for (size_t i = 0; i < STORAGE; i++)
        assert_int_equal(file.at[t->file_offset + i], pattern_byte(i));
    assert_true(tensor_of(m, "row")->data == (const unsigned char *)t->data + 24);
    const tenmap_tensor *transposed = tensor_of(m, "transposed");
    assert_true(transposed->flags & TENMAP_TENSOR_COMPUTED);
    assert_string_equal(tenmap_scheme_of(transposed)->name, "strided");
    assert_int_equal(tenmap_strides(transposed)[0], 1);
    assert_int_equal(tenmap_strides(transposed)[1], 6);
    assert_null(tenmap_strides(t));
    assert_null(tenmap_strides(NULL));
    assert_int_equal(tenmap_read(transposed, 0, 24, TENMAP_F32, got, sizeof got, 0, &error),
                     TENMAP_OK);
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 4; k++)
            assert_memory_equal(&got[4 * i + k], &whole[6 * k + i], sizeof(float));
    assert_int_equal(
        tenmap_read(tensor_of(m, "repeated"), 0, 6, TENMAP_F32, got, sizeof got, 0, &error),
        TENMAP_OK);
    assert_memory_equal(got, whole + 3, 8);
    assert_memory_equal(got + 4, whole + 3, 8);
    assert_int_equal(tensor_of(m, "scalar")->nelems, 1);
    assert_int_equal(tensor_of(m, "empty")->nbytes, 0);
    assert_int_equal(tensor_of(m, "small")->dtype, TENMAP_F8_E4M3);
    tenmap_close(m);
    free(file.at);
}

/* Puts a vector under a key of the dict that is being filled. */
static void put_named(torch_bytes *p, const char *key) {
    pickle_text(p, key);
    pickle_vector(p, "0", 24);
}

static void put_branch(torch_bytes *p, const char *key, const char *inner) {
    pickle_text(p, key);
    TORCH_LITERAL(p, "}(");
    put_named(p, inner);
    TORCH_LITERAL(p, "u");
}

/* Which branch is the model, and how many tensors the others have. */
static void check_branch(bytes file, uint32_t flags, const char *branch, uint64_t others) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = flags;
    tenmap_model *m = must_open_memory(file, &options);
    const tenmap_shard *shard = tenmap_shard_at(m, 0);
    if (branch)
        assert_string_equal(shard->branch, branch);
    else
        assert_null(shard->branch);
    assert_int_equal(shard->other_tensors, others);
    tenmap_close(m);
}

/* The names of all tensors, in the order of the header, with commas. */
static void check_names(bytes file, uint32_t flags, const char *expected) {
    char names[256] = "";
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = flags;
    tenmap_model *m = must_open_memory(file, &options);
    for (size_t position = 0; position < tenmap_count(m); position++)
        for (size_t i = 0; i < tenmap_count(m); i++) {
            const tenmap_tensor *t = tenmap_at(m, i);
            if (t->header_position == position) {
                strcat(names, position ? "," : "");
                strcat(names, t->name);
            }
        }
    assert_string_equal(names, expected);
    tenmap_close(m);
}

static void the_model_is_under_a_known_key(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}(");
    put_branch(&p, "ema", "a");
    put_branch(&p, "state_dict", "b");
    put_branch(&p, "optimizer", "c");
    TORCH_LITERAL(&p, "u");
    bytes file = finish(&p, 1);
    check_names(file, 0, "b");
    check_names(file, TENMAP_OPEN_BRANCHES, "ema.a,state_dict.b,optimizer.c");
    check_branch(file, 0, "state_dict", 2);
    check_branch(file, TENMAP_OPEN_BRANCHES, NULL, 0);
    free(file.at);
    TORCH_LITERAL(&p, "}("); /* one tensor in the root, and the names begin there */
    put_branch(&p, "model", "a");
    put_named(&p, "b");
    TORCH_LITERAL(&p, "u");
    file = finish(&p, 1);
    check_names(file, 0, "model.a,b");
    check_branch(file, 0, NULL, 0);
    free(file.at);
    TORCH_LITERAL(&p, "}("); /* no known key */
    put_branch(&p, "encoder", "a");
    pickle_text(&p, "model");
    TORCH_LITERAL(&p, "}u");
    file = finish(&p, 1);
    check_names(file, 0, "encoder.a");
    free(file.at);
    pickle_vector(&p, "0", 24); /* nothing around it */
    file = finish(&p, 1);
    check_names(file, 0, "tensor");
    free(file.at);
    TORCH_LITERAL(&p, "](");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "}K\7");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "s}\x88");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "se");
    file = finish(&p, 1);
    check_names(file, 0, "0,1.7,2.True");
    free(file.at);
}

/*
 * Branches that are shared again and again would be an error of the model; beside the model, their
 * count ends early. The values after them keep their names.
 */
static void counting_other_branches_is_bounded(void **state) {
    enum { LEVELS = 40 };
    torch_bytes p = {{NULL, 0}, 0};
    tenmap_error error;
    tenmap_model *m;
    (void)state;
    TORCH_LITERAL(&p, "}(");
    put_branch(&p, "model", "a");
    pickle_text(&p, "others");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "q");
    torch_number(&p, 0, 1);
    for (unsigned i = 1; i <= LEVELS; i++) { /* each is a tuple of the last one, twice */
        TORCH_LITERAL(&p, "0h");
        torch_number(&p, i - 1, 1);
        TORCH_LITERAL(&p, "h");
        torch_number(&p, i - 1, 1);
        TORCH_LITERAL(&p, "\x86q");
        torch_number(&p, i, 1);
    }
    pickle_text(&p, "step");
    pickle_int(&p, 7);
    TORCH_LITERAL(&p, "u");
    bytes file = finish(&p, 1);
    m = must_open_memory(file, NULL);
    assert_int_equal(tenmap_count(m), 1);
    assert_string_equal(tenmap_shard_at(m, 0)->branch, "model");
    assert_true(tenmap_shard_at(m, 0)->other_tensors > 100);
    assert_int_equal(tenmap_metadata_count(m), 1);
    assert_string_equal(tenmap_metadata_at(m, 0)->key, "step");
    tenmap_close(m);
    tenmap_options all = TENMAP_OPTIONS_INIT;
    all.flags = TENMAP_OPEN_BRANCHES;
    assert_int_equal(tenmap_open_memory(file.at, file.size, &all, &m, &error), TENMAP_ERR_LIMIT);
    free(file.at);
}

/* Calls a global with one list of one tensor. */
static void put_sequence(torch_bytes *p, const char *name) {
    pickle_global(p, "builtins", name);
    TORCH_LITERAL(p, "(](");
    pickle_vector(p, "0", 24);
    TORCH_LITERAL(p, "etR");
}

/* No tensor is left out because a constructor that is not run would have taken it. */
static void arguments_of_constructors_are_listed(void **state) {
    static const char *const sequences[] = {"list", "tuple", "set", "frozenset"};
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}(");
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
        pickle_text(&p, sequences[i]);
        put_sequence(&p, sequences[i]);
    }
    pickle_text(&p, "slice");
    pickle_global(&p, "builtins", "slice");
    TORCH_LITERAL(&p, "(N");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "tR");
    pickle_text(&p, "remade"); /* what copyreg makes of a subclass of list */
    pickle_global(&p, "copyreg", "_reconstructor");
    TORCH_LITERAL(&p, "(");
    pickle_global(&p, "builtins", "list");
    pickle_global(&p, "builtins", "list");
    TORCH_LITERAL(&p, "](");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "etRu");
    bytes file = finish(&p, 1);
    check_names(file, 0, "list.0,tuple.0,set.0,frozenset.0,slice.1,remade.0");
    free(file.at);
}

/* What a list of pairs makes of its pairs does not hide them where it is a list. */
static void a_list_of_pairs_is_also_a_list(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}(");
    pickle_text(&p, "x");
    pickle_global(&p, "collections", "OrderedDict");
    TORCH_LITERAL(&p, "(](");
    pickle_text(&p, "t");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "\x86"
                      "eq\5tR");
    pickle_text(&p, "state_dict");
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "y");
    TORCH_LITERAL(&p, "h\5su");
    bytes file = finish(&p, 1);
    check_names(file, 0, "y.0.1");
    check_names(file, TENMAP_OPEN_BRANCHES, "x.t,state_dict.y.0.1");
    free(file.at);
}

static void arguments_by_keyword_are_listed(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "\x80\4}");
    pickle_text(&p, "a");
    pickle_global(&p, "my", "Class");
    TORCH_LITERAL(&p, ")}");
    pickle_text(&p, "weight");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "s\x92s");
    bytes file = finish(&p, 1);
    check_names(file, 0, "a.0.weight");
    free(file.at);
}

/* torch would unpickle these bytes in turn; nothing else tells what they hold. */
static void storages_pickled_as_bytes_are_refused(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "\x80\4}");
    pickle_text(&p, "a");
    pickle_global(&p, "torch.storage", "_load_from_bytes");
    TORCH_LITERAL(&p, "C\3abc\x85Rs");
    refuse(finish(&p, 1), TENMAP_ERR_UNSUPPORTED, "_load_from_bytes");
}

/* The same key over and over makes a long path, but no more than 8 times the pickle. */
static void long_paths_are_bounded(void **state) {
    enum { KEY = 60000, LEVELS = 40 };
    torch_bytes p = {{NULL, 0}, 0};
    char *key = malloc(KEY + 1);
    (void)state;
    assert_non_null(key);
    memset(key, 'k', KEY);
    key[KEY] = '\0';
    TORCH_LITERAL(&p, "\x80\4");
    pickle_text(&p, key);
    TORCH_LITERAL(&p, "q\0"
                      "0");
    for (int i = 0; i < LEVELS; i++)
        TORCH_LITERAL(&p, "}h\0");
    pickle_vector(&p, "0", 24);
    for (int i = 0; i < LEVELS; i++)
        TORCH_LITERAL(&p, "s");
    free(key);
    refuse(finish(&p, 1), TENMAP_ERR_LIMIT, "8 times");
}

/* An object of an unknown class is inert: its attributes are looked at, it is never made. */
static void modules_are_data(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    pickle_global(&p, "net", "Model");
    TORCH_LITERAL(&p, ")\x81}(");
    put_branch(&p, "_parameters", "w");
    put_branch(&p, "_buffers", "b");
    pickle_text(&p, "_modules");
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "conv");
    pickle_global(&p, "net", "Conv");
    TORCH_LITERAL(&p, ")\x81}(");
    put_branch(&p, "_parameters", "w");
    TORCH_LITERAL(&p, "ubs");
    TORCH_LITERAL(&p, "ub");
    bytes file = finish(&p, 1);
    check_names(file, 0, "w,b,conv.w");
    free(file.at);
}

static const tenmap_metadata *pair_of(const tenmap_model *m, const char *key) {
    for (size_t i = 0; i < tenmap_metadata_count(m); i++)
        if (strcmp(tenmap_metadata_at(m, i)->key, key) == 0)
            return tenmap_metadata_at(m, i);
    fail_msg("there is no %s", key);
    return NULL;
}

static void plain_values_are_metadata(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}(");
    put_branch(&p, "state_dict", "a");
    pickle_text(&p, "epoch");
    pickle_int(&p, -3);
    pickle_text(&p, "lr");
    TORCH_LITERAL(&p, "G?\xf8\0\0\0\0\0\0");
    pickle_text(&p, "done");
    TORCH_LITERAL(&p, "\x88");
    pickle_text(&p, "hyper_parameters");
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "name");
    pickle_text(&p, "x");
    TORCH_LITERAL(&p, "s");
    pickle_text(&p, "nothing");
    TORCH_LITERAL(&p, "N");
    pickle_text(&p, "epoch"); /* as in Python, the last one counts */
    pickle_int(&p, 5);
    TORCH_LITERAL(&p, "u");
    bytes file = finish(&p, 1);
    tenmap_model *m = must_open_memory(file, NULL);
    assert_int_equal(tenmap_metadata_count(m), 4);
    assert_int_equal(pair_of(m, "epoch")->type, TENMAP_VALUE_I64);
    assert_string_equal(pair_of(m, "epoch")->value, "5");
    assert_int_equal(pair_of(m, "lr")->type, TENMAP_VALUE_F64);
    assert_string_equal(pair_of(m, "lr")->value, "1.5");
    assert_int_equal(pair_of(m, "done")->type, TENMAP_VALUE_BOOL);
    assert_int_equal(pair_of(m, "hyper_parameters.name")->type, TENMAP_VALUE_STRING);
    assert_string_equal(pair_of(m, "hyper_parameters.name")->value, "x");
    tenmap_close(m);
    free(file.at);
}

/* A dict with the tensor "a", described so. */
static bytes with_tensor(const pickle_tensor *t) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "a");
    pickle_put_tensor(&p, t);
    TORCH_LITERAL(&p, "s");
    return finish(&p, 1);
}

#define REFUSE_TENSOR(status, fragment, ...)                                                       \
    refuse(with_tensor(&(pickle_tensor){__VA_ARGS__}), TENMAP_ERR_##status, fragment)

static void tensors_stay_in_their_storages(void **state) {
    (void)state;
    REFUSE_TENSOR(FORMAT, "is not in the file", "9", 24, 0, {24}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "is not in the file", "../data/0", 24, 0, {24}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "is not in the file", "", 24, 0, {24}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "has 96 bytes", "0", 25, 0, {24}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "has 96 bytes", "0", INT64_MIN, 0, {24}, {1}, 1, NULL, NULL);
    /* 4 times this number of elements is 96 in 64 bits. */
    REFUSE_TENSOR(FORMAT, "has 96 bytes", "0", (INT64_C(1) << 62) + 24, 0, {24}, {1}, 1, NULL,
                  NULL);
    REFUSE_TENSOR(FORMAT, "last element", "0", 24, 1, {24}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "last element", "0", 24, 0, {24}, {2}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "last element", "0", 24, INT64_MAX, {1}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "farther than 64 bits", "0", 24, 0, {2, 3}, {INT64_MAX, INT64_MAX}, 2,
                  NULL, NULL);
    REFUSE_TENSOR(FORMAT, "64 bits can count", "0", 24, 0, {INT64_MAX, INT64_MAX}, {0, 0}, 2, NULL,
                  NULL);
    REFUSE_TENSOR(FORMAT, "offset", "0", 24, -1, {24}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "shape", "0", 24, 0, {-1}, {1}, 1, NULL, NULL);
    REFUSE_TENSOR(FORMAT, "strides", "0", 24, 23, {24}, {-1}, 1, NULL, NULL);
    REFUSE_TENSOR(LIMIT, "repeats elements", "0", 24, 0, {INT64_C(1) << 40}, {0}, 1, NULL, NULL);
}

static void other_dtypes_are_named(void **state) {
    (void)state;
    REFUSE_TENSOR(UNSUPPORTED, "complex128", "0", 6, 0, {6}, {1}, 1, "ComplexDoubleStorage", NULL);
    REFUSE_TENSOR(UNSUPPORTED, "QInt8Storage", "0", 96, 0, {96}, {1}, 1, "QInt8Storage", NULL);
    REFUSE_TENSOR(UNSUPPORTED, "bits8", "0", 96, 0, {96}, {1}, 1, "UntypedStorage", "bits8");
    REFUSE_TENSOR(FORMAT, "dtype is unknown", "0", 96, 0, {96}, {1}, 1, "UntypedStorage", "Size");
    REFUSE_TENSOR(FORMAT, "no known type", "0", 96, 0, {96}, {1}, 1, "StrangeStorage", NULL);
}

/* {"a": module.name(a tensor)} */
static bytes with_call(const char *module, const char *name) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "a");
    pickle_global(&p, module, name);
    TORCH_LITERAL(&p, "(");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "\x89NtRs");
    return finish(&p, 1);
}

static void what_is_no_plain_tensor_is_refused_by_name(void **state) {
    (void)state;
    refuse(with_call("torch._utils", "_rebuild_qtensor"), TENMAP_ERR_UNSUPPORTED, "tensor \"a\"");
    refuse(with_call("torch._utils", "_rebuild_sparse_tensor"), TENMAP_ERR_UNSUPPORTED, "sparse");
    refuse(with_call("torch._utils", "_rebuild_meta_tensor_no_storage"), TENMAP_ERR_UNSUPPORTED,
           "meta");
    refuse(with_call("os", "system"), TENMAP_ERR_UNSUPPORTED, "\"os.system\", which is not run");
    bytes file = with_call("torch._utils", "_rebuild_parameter");
    check_names(file, 0, "a");
    free(file.at);
}

/* The arguments of _rebuild_tensor_v2 for a vector of 24, but for what follows the storage. */
static void put_arguments(torch_bytes *p, const char *after_storage, size_t size) {
    pickle_tensor t = {.key = "0", .elements = 24};
    TORCH_LITERAL(p, "(");
    pickle_storage(p, &t);
    torch_put(p, after_storage, size);
    TORCH_LITERAL(p, "t");
}

#define PUT_ARGUMENTS(p, after_storage) put_arguments(p, after_storage, sizeof(after_storage) - 1)
#define AS_VECTOR "K\0K\x18\x85K\1\x85\x89N" /* offset, shape, strides, requires_grad, hooks */

/* {"a": a tensor of a subclass, which is rebuilt by module.name} */
static bytes of_subclass(const char *module, const char *name) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "a");
    pickle_global(&p, "torch._tensor", "_rebuild_from_type_v2");
    TORCH_LITERAL(&p, "(");
    pickle_global(&p, module, name);
    pickle_global(&p, "torch", "Tensor");
    PUT_ARGUMENTS(&p, AS_VECTOR);
    TORCH_LITERAL(&p, "}tRs");
    return finish(&p, 1);
}

static void the_tensor_inside_a_subclass_is_listed(void **state) {
    (void)state;
    bytes file = of_subclass("torch._utils", "_rebuild_tensor_v2");
    check_names(file, 0, "a");
    free(file.at);
    refuse(of_subclass("os", "system"), TENMAP_ERR_UNSUPPORTED, "made by code, which is not run");
    refuse(of_subclass("collections", "OrderedDict"), TENMAP_ERR_FORMAT, "is another value");
    refuse(with_call("torch._tensor", "_rebuild_from_type_v2"), TENMAP_ERR_FORMAT,
           "a tensor of a subclass has no tensor");
}

static void parameters_of_parameters_end(void **state) {
    enum { TOO_MANY = 9 };
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "a");
    for (int i = 0; i < TOO_MANY; i++) {
        pickle_global(&p, "torch._utils", "_rebuild_parameter");
        TORCH_LITERAL(&p, "(");
    }
    pickle_vector(&p, "0", 24);
    for (int i = 0; i < TOO_MANY; i++)
        TORCH_LITERAL(&p, "\x89NtR");
    TORCH_LITERAL(&p, "s");
    refuse(finish(&p, 1), TENMAP_ERR_LIMIT, "more than 8 times");
}

/* {"a": a tensor with these arguments} */
static bytes with_arguments(const char *after_storage, size_t size) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "a");
    pickle_global(&p, "torch._utils", "_rebuild_tensor_v2");
    put_arguments(&p, after_storage, size);
    TORCH_LITERAL(&p, "Rs");
    return finish(&p, 1);
}

#define WITH_ARGUMENTS(after_storage) with_arguments(after_storage, sizeof(after_storage) - 1)

static void values_that_torch_changes_are_refused(void **state) {
    (void)state;
    bytes file = WITH_ARGUMENTS(AS_VECTOR "}"); /* nothing is changed */
    check_names(file, 0, "a");
    free(file.at);
    file = WITH_ARGUMENTS(AS_VECTOR "}X\4\0\0\0conj\x89s");
    check_names(file, 0, "a");
    free(file.at);
    refuse(WITH_ARGUMENTS(AS_VECTOR "}X\4\0\0\0conj\x88s"), TENMAP_ERR_UNSUPPORTED, "conjugates");
    refuse(WITH_ARGUMENTS(AS_VECTOR "}X\3\0\0\0neg]s"), TENMAP_ERR_UNSUPPORTED, "negates");
    refuse(WITH_ARGUMENTS(AS_VECTOR "]"), TENMAP_ERR_UNSUPPORTED, "negates");
}

/* A file with one tensor, `behind` after the call that makes it, and the storages "0" and "1". */
static bytes with_behind(const char *behind, size_t size) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "a");
    pickle_vector(&p, "0", 24);
    torch_put(&p, behind, size);
    TORCH_LITERAL(&p, "s");
    return finish(&p, 2);
}
#define WITH_BEHIND(behind) with_behind(behind, sizeof(behind) - 1)
#define OTHER_STORAGE "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0001X\3\0\0\0cpuK\30tQ"

/* torch would set the tensor to another storage, and its elements to other values. */
static void what_changes_a_tensor_later_is_refused(void **state) {
    (void)state;
    refuse(WITH_BEHIND("(" OTHER_STORAGE "K\0(K\30t(K\1ttb"), TENMAP_ERR_FORMAT,
           "items or a state");
    refuse(WITH_BEHIND("K\0K\1s"), TENMAP_ERR_FORMAT, "a value that is no dict");
    refuse(WITH_BEHIND("2K\0K\1s0"), TENMAP_ERR_FORMAT, "a value that is no dict");
    refuse(WITH_BEHIND("K\0a"), TENMAP_ERR_FORMAT, "items or a state");
    refuse(WITH_BEHIND("0" OTHER_STORAGE "}b"), TENMAP_ERR_FORMAT, "a storage is given a state");
    refuse(WITH_BEHIND("ctorch\nTensor\n}b0"), TENMAP_ERR_FORMAT, "is given attributes");
    bytes file = WITH_BEHIND("cmy.code\nConfig\n}b0"); /* a check reports it as code */
    check_names(file, 0, "a");
    free(file.at);
}

/* {"a": what `module.name` makes of a tensor and of attributes, "b": the same storage} */
static bytes with_attributes(const char *module, const char *name, const char *attributes,
                             size_t size) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "}(");
    put_named(&p, "b");
    pickle_text(&p, "a");
    pickle_global(&p, module, name);
    TORCH_LITERAL(&p, "(");
    if (strcmp(module, "torch._tensor") == 0) {
        pickle_global(&p, "torch._utils", "_rebuild_tensor_v2");
        pickle_global(&p, "torch", "Tensor");
        PUT_ARGUMENTS(&p, AS_VECTOR);
    } else {
        pickle_vector(&p, "0", 24);
        TORCH_LITERAL(&p, "\x89N");
    }
    torch_put(&p, attributes, size);
    TORCH_LITERAL(&p, "tRu");
    return finish(&p, 1);
}

static void check_attributes(const char *attributes, size_t size, bool opens) {
    static const char *const makers[][2] = {{"torch._utils", "_rebuild_parameter_with_state"},
                                            {"torch._tensor", "_rebuild_from_type_v2"}};
    for (size_t i = 0; i < 2; i++) {
        bytes file = with_attributes(makers[i][0], makers[i][1], attributes, size);
        if (!opens) {
            refuse(file, TENMAP_ERR_FORMAT, "an attribute that sets its elements");
            continue;
        }
        check_names(file, 0, "b,a");
        free(file.at);
    }
}
#define ATTRIBUTES(text, opens) check_attributes(text, sizeof(text) - 1, opens)

/* The setters of data, real and imag change elements, also those of other tensors. */
static void attributes_that_set_elements_are_refused(void **state) {
    (void)state;
    ATTRIBUTES("}(X\4\0\0\0dataK\1X\4\0\0\0tag2K\1u", false);
    ATTRIBUTES("}X\4\0\0\0realK\1s", false);
    ATTRIBUTES("}(X\3\0\0\0tagK\1X\4\0\0\0imagK\1u", false);
    ATTRIBUTES("}V\\u0064\\U00000061t\\u0061\nK\1s", false);
    ATTRIBUTES("}S'\\144\\x61ta'\nK\1s", false);
    ATTRIBUTES("N}X\4\0\0\0dataK\1s\x86", false);
    ATTRIBUTES("ccollections\nOrderedDict\n)RX\4\0\0\0dataK\1s", false);
    ATTRIBUTES("ccollections\nOrderedDict\n(](X\4\0\0\0dataK\1\x86"
               "etR",
               false);
    ATTRIBUTES("}(X\3\0\0\0tagK\1X\5\0\0\0data2K\1u", true);
    ATTRIBUTES("}X\3\0\0\0tagX\4\0\0\0datas}\x86", true);
    ATTRIBUTES("ccollections\nOrderedDict\n)RX\3\0\0\0tagK\1s", true);
    ATTRIBUTES("N", true);
}

/* Also where a rebuilt tensor is what is rebuilt, in arguments that nothing else calls. */
static void attributes_inside_of_a_subclass_are_seen(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}");
    pickle_text(&p, "a");
    pickle_global(&p, "torch._tensor", "_rebuild_from_type_v2");
    TORCH_LITERAL(&p, "(");
    pickle_global(&p, "torch._utils", "_rebuild_parameter_with_state");
    pickle_global(&p, "torch.nn.parameter", "Parameter");
    TORCH_LITERAL(&p, "(");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "\x89N}X\4\0\0\0dataK\1stNtRs");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, "an attribute that sets its elements");
}

/* A class makes a tensor by a call, and without one. */
static void classes_of_tensors_make_tensors(void **state) {
    static const char *const makes[] = {"R", "\x81"};
    static const char *const wrappers[] = {"Parameter", "Buffer"};
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        TORCH_LITERAL(&p, "}(");
        put_named(&p, "b");
        pickle_text(&p, "a");
        pickle_global(&p, "torch", "Tensor");
        TORCH_LITERAL(&p, "](K\1K\2e\x85");
        torch_put(&p, makes[i], 1);
        TORCH_LITERAL(&p, "u");
        refuse(finish(&p, 1), TENMAP_ERR_UNSUPPORTED, "elements the pickle itself gives");
        TORCH_LITERAL(&p, "}");
        pickle_text(&p, "a");
        pickle_global(&p, "torch.nn.parameter", wrappers[i]);
        pickle_vector(&p, "0", 24);
        TORCH_LITERAL(&p, "\x85");
        torch_put(&p, makes[i], 1);
        TORCH_LITERAL(&p, "s");
        bytes file = finish(&p, 1);
        check_names(file, 0, "a");
        free(file.at);
    }
}

/* torch reads the list when it makes the tensor, and sees no items that are added later. */
static void shapes_do_not_grow_after_the_tensor_is_made(void **state) {
    static const char grows[] = "items are added to a value that a call has copied";
    (void)state;
    bytes file = WITH_ARGUMENTS("K\0]K\30a]K\1a\x89N");
    check_names(file, 0, "a");
    free(file.at);
    torch_bytes p = {{NULL, 0}, 0};
    for (unsigned how = 0; how < 3; how++) { /* lists, a torch.Size, and in a subclass */
        TORCH_LITERAL(&p, "](]q\1K\2a]q\2K\1a");
        if (how == 2) {
            pickle_global(&p, "torch._tensor", "_rebuild_from_type_v2");
            TORCH_LITERAL(&p, "(");
        }
        pickle_global(&p, "torch._utils", "_rebuild_tensor_v2");
        if (how == 2)
            pickle_global(&p, "torch", "Tensor");
        TORCH_LITERAL(&p, "(" OTHER_STORAGE "K\0");
        if (how == 1) {
            pickle_global(&p, "torch", "Size");
            TORCH_LITERAL(&p, "h\1\x85Rh\2\x89NtR");
        } else {
            TORCH_LITERAL(&p, "h\1h\2\x89Nt");
            if (how == 2)
                TORCH_LITERAL(&p, "}t");
            TORCH_LITERAL(&p, "R");
        }
        TORCH_LITERAL(&p, "h\1K\2ah\2K\1ae");
        refuse(finish(&p, 2), TENMAP_ERR_FORMAT, grows);
    }
}

/* So does a dict or a list that is made of others. */
static void arguments_do_not_grow_after_the_call(void **state) {
    static const char *const makes[] = {"collections\nOrderedDict", "collections\nOrderedDict",
                                        "builtins\nset"};
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    for (unsigned how = 0; how < 3; how++)
        for (unsigned grows = 0; grows < 2; grows++) {
            TORCH_LITERAL(&p, "](");
            torch_put(&p, how ? "]q\1" : "}q\1", 3);
            if (how < 2)
                TORCH_LITERAL(&p, "X\1\0\0\0w");
            pickle_vector(&p, "0", 24);
            torch_put(&p,
                      how == 0   ? "s"
                      : how == 1 ? "\x86"
                                   "a"
                                 : "a",
                      how == 1 ? 2 : 1);
            TORCH_LITERAL(&p, "0c");
            torch_put(&p, makes[how], strlen(makes[how]));
            TORCH_LITERAL(&p, "\nh\1\x85R");
            if (grows && how == 0)
                TORCH_LITERAL(&p, "h\1X\1\0\0\0vK\1s0");
            else if (grows)
                TORCH_LITERAL(&p, "h\1K\1a0");
            TORCH_LITERAL(&p, "e");
            bytes file = finish(&p, 1);
            if (grows) {
                refuse(file, TENMAP_ERR_FORMAT, "a value that a call has copied");
                continue;
            }
            check_names(file, 0, how < 2 ? "0.w" : "0.0");
            free(file.at);
        }
}

static void ranks_have_a_bound(void **state) {
    enum { TOO_MANY = 65 };
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    bytes file = WITH_ARGUMENTS("K\0))"); /* the empty tuple as one opcode: a scalar */
    check_names(file, 0, "a");
    free(file.at);
    TORCH_LITERAL(&p, "K\0");
    for (int list = 0; list < 2; list++) {
        TORCH_LITERAL(&p, "(");
        for (int i = 0; i < TOO_MANY; i++)
            TORCH_LITERAL(&p, "K\1");
        TORCH_LITERAL(&p, "t");
    }
    refuse(with_arguments((const char *)p.out.at, p.out.size), TENMAP_ERR_LIMIT,
           "more than 64 dimensions");
    free(p.out.at);
}

static void count_code(void *ctx, const tenmap_finding *f) {
    uint64_t *offset = ctx;
    if (f->code == TENMAP_FOUND_CODE) {
        assert_int_equal(f->severity, TENMAP_FINDING_WARNING);
        assert_string_equal(f->global, "os.system");
        assert_int_equal(f->called, 1);
        *offset = f->offset;
    } else {
        assert_null(f->global);
    }
    assert_true(f->severity != TENMAP_FINDING_ERROR);
}

/* The file opens, and a check says where the code is. */
static void code_is_a_finding(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    char path[300];
    tenmap_error error;
    uint64_t offset = 0;
    (void)state;
    TORCH_LITERAL(&p, "}(");
    put_named(&p, "a");
    pickle_text(&p, "evil");
    size_t at = p.out.size;
    pickle_global(&p, "os", "system");
    pickle_text(&p, "touch /tmp/tenmap-was-here");
    TORCH_LITERAL(&p, "\x85Ru");
    bytes file = finish(&p, 1);
    save_as_file(file, path);
    assert_int_equal(tenmap_check(path, NULL, count_code, &offset, &error), TENMAP_OK);
    assert_int_equal(file.at[offset], 'c');
    assert_memory_equal(file.at + offset, "cos\nsystem\n", 11);
    assert_int_equal(offset, 30 + strlen("m/data.pkl") + at);
    check_names(file, 0, "a");
    assert_int_not_equal(access("/tmp/tenmap-was-here", F_OK), 0);
    free(file.at);
}

typedef struct code_seen {
    unsigned called, imported;
    uint64_t more;
} code_seen;

static void note_code(void *ctx, const tenmap_finding *f) {
    code_seen *seen = ctx;
    if (f->code != TENMAP_FOUND_CODE)
        return;
    if (!f->global) {
        assert_int_equal(f->called, 0);
        seen->more = f->count;
    } else if (f->called) {
        assert_int_equal(seen->imported, 0);
        assert_string_equal(f->global, "a\\u0001.system");
        seen->called++;
    } else {
        assert_string_equal(f->global, "my.code.Config");
        seen->imported++;
    }
}

/* Names that are only imported cannot hide a call: a limited number of findings is listed. */
static void calls_come_first_among_code(void **state) {
    enum { IMPORTED = 40 };
    torch_bytes p = {{NULL, 0}, 0};
    char path[300];
    tenmap_error error;
    code_seen seen = {0, 0, 0};
    (void)state;
    TORCH_LITERAL(&p, "](");
    for (unsigned i = 0; i < IMPORTED; i++)
        pickle_global(&p, "my.code", "Config");
    pickle_global(&p, "a\1", "system");
    TORCH_LITERAL(&p, ")Re");
    bytes file = finish(&p, 1);
    save_as_file(file, path);
    assert_int_equal(tenmap_check(path, NULL, note_code, &seen, &error), TENMAP_OK);
    assert_int_equal(seen.called, 1);
    assert_int_equal(seen.imported, 31);
    assert_int_equal(seen.more, IMPORTED - 31);
    free(file.at);
}

static void a_name_belongs_to_one_tensor(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}(");
    put_named(&p, "a.b");
    put_branch(&p, "a", "b");
    TORCH_LITERAL(&p, "u");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, "two tensors have the name \"a.b\"");
    TORCH_LITERAL(&p, "}X\1\0\0\0\xff");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "s");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, "UTF-8");
}

/* {first: a vector, second: the same, or a number} */
static bytes with_two_keys(const char *begin, const char *first, size_t first_len,
                           const char *second, size_t second_len, bool number) {
    torch_bytes p = {{NULL, 0}, 0};
    torch_put(&p, begin, strlen(begin));
    TORCH_LITERAL(&p, "(");
    torch_put(&p, first, first_len);
    pickle_vector(&p, "0", 24);
    torch_put(&p, second, second_len);
    if (number)
        TORCH_LITERAL(&p, "K\1");
    else
        pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "u");
    return finish(&p, 1);
}
#define TWO_KEYS(first, second, number)                                                            \
    with_two_keys("}", first, sizeof(first) - 1, second, sizeof(second) - 1, number)

/* Python sees the last value of a key, so the tensors of the others are not in the file for it. */
static void a_dict_has_each_key_once(void **state) {
    static const char twice[] = "a dict has this key twice";
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    refuse(TWO_KEYS("X\1\0\0\0w", "X\1\0\0\0w", true), TENMAP_ERR_FORMAT, twice);
    refuse(TWO_KEYS("X\1\0\0\0w", "U\1w", true), TENMAP_ERR_FORMAT, twice);
    refuse(TWO_KEYS("X\1\0\0\0w", "V\\u0077\n", true), TENMAP_ERR_FORMAT, twice);
    refuse(TWO_KEYS("K\1", "\x88", false), TENMAP_ERR_FORMAT, twice);
    refuse(TWO_KEYS("K\1", "G?\xf0\0\0\0\0\0\0", false), TENMAP_ERR_FORMAT, twice);
    refuse(TWO_KEYS("G?\xf8\0\0\0\0\0\0", "G?\xf8\0\0\0\0\0\0", false), TENMAP_ERR_FORMAT, twice);
    refuse(TWO_KEYS("N", "N", false), TENMAP_ERR_FORMAT, twice);
    bytes file = TWO_KEYS("K\1", "X\1\0\0\0002", false);
    check_names(file, 0, "1,2");
    free(file.at);
    /* Other values may be there twice: the last one counts. */
    file = TWO_KEYS("X\1\0\0\0eK\1X\1\0\0\0w", "X\1\0\0\0e", true);
    check_names(file, 0, "w");
    free(file.at);
    static const char *const roots[] = {"}", "ccollections\nOrderedDict\n)R"};
    for (size_t i = 0; i < 2; i++) {
        torch_put(&p, roots[i], strlen(roots[i]));
        TORCH_LITERAL(&p, "(");
        put_branch(&p, "state_dict", "a");
        put_branch(&p, "state_dict", "b");
        TORCH_LITERAL(&p, "u");
        refuse(finish(&p, 1), TENMAP_ERR_FORMAT, twice);
    }
    TORCH_LITERAL(&p, "}(");
    put_branch(&p, "state_dict", "a");
    pickle_text(&p, "state_dict");
    TORCH_LITERAL(&p, "K\1u");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, twice);
    TORCH_LITERAL(&p, "ccollections\nOrderedDict\n]"); /* in its arguments, then as an item */
    pickle_text(&p, "w");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "\x86"
                      "a\x85RX\1\0\0\0wK\1s");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, twice);
}

static void a_storage_has_one_type(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}(");
    put_named(&p, "a");
    pickle_text(&p, "b");
    pickle_put_tensor(&p, &(pickle_tensor){"0", 48, 0, {48}, {1}, 1, "HalfStorage", NULL});
    TORCH_LITERAL(&p, "u");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, "elsewhere");
    /* In a branch that is not the model, too: older torch takes the first type for both. */
    TORCH_LITERAL(&p, "}(");
    pickle_text(&p, "optimizer");
    TORCH_LITERAL(&p, "}(");
    pickle_text(&p, "b");
    pickle_put_tensor(&p, &(pickle_tensor){"0", 48, 0, {48}, {1}, 1, "HalfStorage", NULL});
    TORCH_LITERAL(&p, "u");
    put_branch(&p, "state_dict", "a");
    TORCH_LITERAL(&p, "u");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, "elsewhere");
}

static void bytes_after_the_pickle_are_refused(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}.cos\nsystem\n");
    refuse(finish(&p, 1), TENMAP_ERR_FORMAT, "follow the end of the pickle");
}

/* Lists of lists: the graph is small, the ways through it are not. */
static void shared_values_are_no_bomb(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "](");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "e");
    for (unsigned char i = 0; i < 60; i++) {
        torch_put(&p, (unsigned char[]){'q', i, '0', ']', '(', 'h', i, 'h', i, 'e'}, 10);
    }
    refuse(finish(&p, 1), TENMAP_ERR_LIMIT, "again and again");
    TORCH_LITERAL(&p, "]q\0(h\0"); /* a list that holds itself */
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "h\0e");
    bytes file = finish(&p, 1);
    check_names(file, 0, "1");
    free(file.at);
    for (size_t i = 0; i < 1100; i++)
        TORCH_LITERAL(&p, "](");
    pickle_vector(&p, "0", 24);
    for (size_t i = 0; i < 1100; i++)
        TORCH_LITERAL(&p, "e");
    refuse(finish(&p, 1), TENMAP_ERR_LIMIT, "1,000 deep");
}

/* Each byte of the pickle changed: it opens, or it is refused; nothing else happens. */
static void damaged_pickles_are_data(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&p, "}(");
    put_branch(&p, "model", "a");
    pickle_text(&p, "epoch");
    pickle_int(&p, 3);
    TORCH_LITERAL(&p, "u");
    bytes file = finish(&p, 1);
    size_t begin = 30 + strlen("m/data.pkl");
    for (size_t at = begin; at < begin + 250; at++)
        for (unsigned change = 1; change < 256; change++) {
            tenmap_model *m;
            tenmap_error error;
            file.at[at] ^= (unsigned char)change;
            if (tenmap_open_memory(file.at, file.size, NULL, &m, &error) == TENMAP_OK)
                for (size_t i = 0; i < tenmap_count(m); i++) {
                    const tenmap_tensor *t = tenmap_at(m, i);
                    assert_true(!t->data || t->file_offset + t->nbytes <= file.size);
                }
            tenmap_close(m);
            file.at[at] ^= (unsigned char)change;
        }
    free(file.at);
}

/*
 * For a caller that makes objects: all values and storages are there, and no tensor is listed, so
 * no rule about names and kinds of tensors applies.
 */
static void values_are_kept_for_callers_that_ask(void **state) {
    torch_bytes p = {{NULL, 0}, 0};
    char path[300];
    (void)state;
    TORCH_LITERAL(&p, "\x80\2}(");
    put_branch(&p, "a", "b");
    put_named(&p, "a.b"); /* the same name: tenmap_open refuses it */
    pickle_text(&p, "code");
    pickle_global(&p, "posix", "system");
    TORCH_LITERAL(&p, "u");
    bytes file = finish(&p, 2);
    must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "two tensors");
    save_as_file(file, path);
    for (int from_memory = 0; from_memory < 2; from_memory++) {
        tenmap_model *m;
        tenmap_error error;
        tenmap_status status = from_memory
                                   ? tmi_open_values_memory(file.at, file.size, NULL, &m, &error)
                                   : tmi_open_values(path, NULL, &m, &error);
        assert_int_equal(status, TENMAP_OK);
        assert_int_equal(tenmap_count(m), 0);
        assert_int_equal(tenmap_metadata_count(m), 0);
        const tmi_torch_values *v = tmi_values_of(m);
        assert_int_equal(v->storage_count, 2);
        assert_int_equal(v->storages[1].bytes, STORAGE);
        assert_memory_equal(v->storages[1].key, "1", v->storages[1].key_len);
        assert_memory_equal(v->pickle.bytes, file.at + v->pickle_at, v->pickle.len);
        assert_true(tmi_is_kind(&v->pickle, v->pickle.root, TMI_PICKLE_DICT));
        assert_true(v->pickle.first_global != 0);
        tenmap_close(m);
    }
    free(file.at);
}

static void values_are_kept_of_valid_checkpoints_only(void **state) {
    static const char other[] = "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[0],"
                                "\"data_offsets\":[0,0]}}               ";
    tenmap_options options = TENMAP_OPTIONS_INIT;
    torch_bytes p = {{NULL, 0}, 0};
    tenmap_model *m;
    tenmap_error error;
    (void)state;
    TORCH_LITERAL(&p, "\x80\2}(");
    bytes file = finish(&p, 1);
    assert_int_equal(tmi_open_values_memory(file.at, file.size, NULL, &m, &error),
                     TENMAP_ERR_FORMAT);
    assert_null(m);
    options.flags = TMI_OPEN_VALUES; /* no flag of the API */
    must_fail_memory(file, &options, TENMAP_ERR_ARGUMENT, "unknown bits");
    free(file.at);
    assert_int_equal(tmi_open_values_memory(other, 8 + 64, NULL, &m, &error), TENMAP_OK);
    assert_null(tmi_values_of(m));
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_see_their_storages),
        cmocka_unit_test(the_model_is_under_a_known_key),
        cmocka_unit_test(counting_other_branches_is_bounded),
        cmocka_unit_test(arguments_of_constructors_are_listed),
        cmocka_unit_test(a_list_of_pairs_is_also_a_list),
        cmocka_unit_test(arguments_by_keyword_are_listed),
        cmocka_unit_test(storages_pickled_as_bytes_are_refused),
        cmocka_unit_test(long_paths_are_bounded),
        cmocka_unit_test(modules_are_data),
        cmocka_unit_test(plain_values_are_metadata),
        cmocka_unit_test(tensors_stay_in_their_storages),
        cmocka_unit_test(other_dtypes_are_named),
        cmocka_unit_test(what_is_no_plain_tensor_is_refused_by_name),
        cmocka_unit_test(the_tensor_inside_a_subclass_is_listed),
        cmocka_unit_test(parameters_of_parameters_end),
        cmocka_unit_test(values_that_torch_changes_are_refused),
        cmocka_unit_test(what_changes_a_tensor_later_is_refused),
        cmocka_unit_test(attributes_that_set_elements_are_refused),
        cmocka_unit_test(attributes_inside_of_a_subclass_are_seen),
        cmocka_unit_test(classes_of_tensors_make_tensors),
        cmocka_unit_test(shapes_do_not_grow_after_the_tensor_is_made),
        cmocka_unit_test(arguments_do_not_grow_after_the_call),
        cmocka_unit_test(ranks_have_a_bound),
        cmocka_unit_test(code_is_a_finding),
        cmocka_unit_test(calls_come_first_among_code),
        cmocka_unit_test(a_name_belongs_to_one_tensor),
        cmocka_unit_test(a_dict_has_each_key_once),
        cmocka_unit_test(a_storage_has_one_type),
        cmocka_unit_test(bytes_after_the_pickle_are_refused),
        cmocka_unit_test(shared_values_are_no_bomb),
        cmocka_unit_test(damaged_pickles_are_data),
        cmocka_unit_test(values_are_kept_for_callers_that_ask),
        cmocka_unit_test(values_are_kept_of_valid_checkpoints_only),
    };
    return cmocka_run_group_tests(tests, begin, remove_folder);
}
