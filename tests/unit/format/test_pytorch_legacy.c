/*
 * PyTorch checkpoints from before torch 1.6: pickles in a row, then the storages. Which files open,
 * and what is refused: pickles and counts that lie, keys and views that two readers could
 * understand differently, and files that are truncated anywhere.
 */
#include "torch_files.h"

static const char *legacy_folder;

static int begin(void **state) {
    int failed = make_folder(state);
    legacy_folder = *state;
    return failed;
}

enum { STORAGE = 96 }; /* 24 floats */

/* {"a": a vector in storage "0"} */
static torch_bytes one_vector(void) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}");
    pickle_text(&p, "a");
    pickle_vector(&p, "0", STORAGE / 4);
    TORCH_LITERAL(&p, "s.");
    return p;
}

static bytes one_file(const legacy_settings *settings) {
    torch_bytes values = one_vector();
    return make_legacy(&values, 1, STORAGE, settings);
}

/* Refused from memory and from a file, where the check agrees. Frees the file. */
static void refuse(bytes file, tenmap_status status, const char *fragment) {
    char path[300];
    must_fail_memory(file, NULL, status, fragment);
    snprintf(path, sizeof path, "%s/model.pt", legacy_folder);
    write_file(path, file.at, file.size);
    must_fail(path, NULL, status, fragment);
    free(file.at);
}

#define REFUSE_PART(part, text, status, fragment)                                                  \
    refuse(one_file(&(legacy_settings){.part = text, .part##_len = sizeof(text) - 1}),             \
           TENMAP_ERR_##status, fragment)

/* The storage is where the tensor says, whatever its address. */
static void opens(bytes file) {
    tenmap_model *m = must_open_memory(file, NULL);
    assert_int_equal(tenmap_count(m), 1);
    const tenmap_tensor *t = tenmap_find(m, "a");
    assert_non_null(t);
    assert_string_equal(tenmap_shard_at(m, 0)->format, "pytorch");
    assert_int_equal(t->flags & TENMAP_TENSOR_COMPUTED, 0);
    assert_true(t->data == file.at + t->file_offset);
    unsigned char stored[STORAGE];
    assert_int_equal(t->nbytes, STORAGE);
    assert_int_equal(tenmap_read_bytes(t, 0, STORAGE, stored, NULL), TENMAP_OK);
    for (size_t i = 0; i < STORAGE; i++)
        assert_int_equal(stored[i], pattern_byte(i));
    tenmap_close(m);
    free(file.at);
}

#define OPENS(part, text)                                                                          \
    opens(one_file(&(legacy_settings){.part = text, .part##_len = sizeof(text) - 1}))

static void every_protocol_opens(void **state) {
    (void)state;
    opens(one_file(NULL));
    OPENS(magic, "L119547037146038801333356L\n.");
    OPENS(magic, "\x80\3\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    OPENS(magic, "\x80\4\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    OPENS(magic, "\x80\4\x95\r\0\0\0\0\0\0\0\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    OPENS(magic, "\x80\5\x95\r\0\0\0\0\0\0\0\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    OPENS(version, "I1001\n.");
    OPENS(version, "L1001L\n.");
    OPENS(system, "(dS'little_endian'\nI01\ns.");
    OPENS(keys, "](U\0010e."); /* as Python 2 wrote strings */
}

static void other_pickles_are_not_checkpoints(void **state) {
    (void)state;
    REFUSE_PART(magic, "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x18.", FORMAT, "almost");
    REFUSE_PART(magic, "\x80\6\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", LIMIT, "not a SafeTensors");
    REFUSE_PART(magic, "L119547037146038801333357L\n.", FORMAT, "almost");
    REFUSE_PART(magic, "\x80\4\x95\r\0\0\0\0\0\0\0\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x18.", FORMAT,
                "this is a Python pickle");
    REFUSE_PART(version, "\x80\2M\xea\3.", UNSUPPORTED, "is not 1001");
    REFUSE_PART(version, "\x80\2J\xff\xff\xff\xff.", UNSUPPORTED, "is not 1001");
    REFUSE_PART(version, "\x80\2].", UNSUPPORTED, "is not 1001");
    REFUSE_PART(version, "\x80\2MM", FORMAT, "pickle");
    REFUSE_PART(version, "\xff", FORMAT, "no such opcode");
    REFUSE_PART(version, "\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\xff", FORMAT, "longer");
    REFUSE_PART(version, "\x80\2T\xff\xff\xff\xff", FORMAT, "negative");
    REFUSE_PART(version, "\x80\2X\xff\xff\xff\xff", FORMAT, "does not end in the file");
}

static void files_of_big_endian_machines_are_refused(void **state) {
    (void)state;
    REFUSE_PART(system, "}X\r\0\0\0little_endian\x89s.", UNSUPPORTED, "byte order is not little");
    REFUSE_PART(system, "}X\r\0\0\0little_endianK\1s.", UNSUPPORTED, "byte order is not little");
    REFUSE_PART(system, "}X\r\0\0\0little_endian]s.", UNSUPPORTED, "byte order is not little");
    REFUSE_PART(system, "}.", UNSUPPORTED, "byte order is not little");
    REFUSE_PART(system, "].", FORMAT, "is not a dict");
    REFUSE_PART(system, "}0.", FORMAT, "another number of values");
    /* As in Python, the last value counts. */
    OPENS(system, "}X\r\0\0\0little_endian\x89sX\r\0\0\0little_endian\x88s.");
    REFUSE_PART(system, "}X\r\0\0\0little_endian\x88sX\r\0\0\0little_endian\x89s.", UNSUPPORTED,
                "byte order is not little");
}

#define TEXT_256                                                                                   \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"                             \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"                             \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"                             \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void keys_and_values_agree(void **state) {
    (void)state;
    REFUSE_PART(keys, "}.", FORMAT, "is not a list");
    REFUSE_PART(keys, "K\1.", FORMAT, "is not a list");
    REFUSE_PART(keys, "](K\1e.", FORMAT, "is not a string of at most 255 bytes");
    REFUSE_PART(keys, "](]e.", FORMAT, "is not a string of at most 255 bytes");
    REFUSE_PART(keys, "](X\0\1\0\0" TEXT_256 "e.", FORMAT, "is not a string of at most 255");
    REFUSE_PART(keys, "(lV0\na.", UNSUPPORTED, "as protocol 0 does");
    REFUSE_PART(keys, "](X\1\0\0\0000X\1\0\0\0000e.", FORMAT, "has the key \"0\" twice");
    REFUSE_PART(keys, "](X\1\0\0\0001e.", FORMAT, "storage \"1\"");
    REFUSE_PART(keys, "].", FORMAT, "bytes follow the last storage");
    REFUSE_PART(keys, "]0.", FORMAT, "another number of values");
    torch_bytes values = one_vector();
    refuse(make_legacy(&values, 0, 0, NULL), TENMAP_ERR_FORMAT, "storage \"0\" is not in the file");
    values = one_vector();
    refuse(make_legacy(&values, 2, STORAGE, NULL), TENMAP_ERR_FORMAT,
           "storage \"1\" (byte 376): the pickle does not name it");
}

/* {"a": a vector of `elements` of this type in storage "0", "b": the same of other ones} */
static bytes with_two(const pickle_tensor *a, const pickle_tensor *b) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}(");
    pickle_text(&p, "a");
    pickle_put_tensor(&p, a);
    pickle_text(&p, "b");
    pickle_put_tensor(&p, b);
    TORCH_LITERAL(&p, "u.");
    return make_legacy(&p, 1, STORAGE, NULL);
}

static void a_storage_has_one_type_and_size(void **state) {
    pickle_tensor floats = {"0", 24, 0, {4}, {1}, 1, NULL, NULL};
    (void)state;
    refuse(with_two(&floats, &(pickle_tensor){"0", 24, 0, {4}, {1}, 1, "HalfStorage", NULL}),
           TENMAP_ERR_FORMAT, "24 elements of FloatStorage in one place");
    refuse(with_two(&floats, &(pickle_tensor){"0", 24, 0, {4}, {1}, 1, "IntStorage", NULL}),
           TENMAP_ERR_FORMAT, "24 of IntStorage in another");
    refuse(with_two(&floats, &(pickle_tensor){"0", 23, 0, {4}, {1}, 1, NULL, NULL}),
           TENMAP_ERR_FORMAT, "23 of FloatStorage in another");
    refuse(with_two(&floats, &(pickle_tensor){"0", 24, 0, {4}, {1}, 1, "NoStorage", NULL}),
           TENMAP_ERR_FORMAT, "no known type");
    refuse(with_two(&floats, &(pickle_tensor){"0", -1, 0, {4}, {1}, 1, NULL, NULL}),
           TENMAP_ERR_FORMAT, "not the number of elements");
    refuse(with_two(&floats, &(pickle_tensor){"1", 24, 0, {4}, {1}, 1, NULL, NULL}),
           TENMAP_ERR_FORMAT, "storage \"1\" is not in the file");
    bytes file = with_two(&floats, &(pickle_tensor){"0", 24, 20, {4}, {1}, 1, NULL, NULL});
    tenmap_close(must_open_memory(file, NULL));
    free(file.at);
}

/* The file with the vector of so many elements, according to the pickle and to the file. */
static bytes with_counts(int64_t pickle, uint64_t file) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}");
    pickle_text(&p, "a");
    pickle_put_tensor(&p, &(pickle_tensor){"0", pickle, 0, {4}, {1}, 1, NULL, NULL});
    TORCH_LITERAL(&p, "s.");
    return make_legacy(&p, 1, STORAGE, &(legacy_settings){.counts = &file});
}

static void counts_that_lie_are_refused(void **state) {
    (void)state;
    refuse(with_counts(24, 23), TENMAP_ERR_FORMAT, "has 23 elements, but the pickle says 24");
    refuse(with_counts(24, UINT64_MAX), TENMAP_ERR_FORMAT, "but the pickle says 24");
    refuse(with_counts(24, 24 + (UINT64_C(1) << 62)), TENMAP_ERR_FORMAT, "the pickle says 24");
    refuse(with_counts(23, 23), TENMAP_ERR_FORMAT, "4 bytes follow the last storage");
    refuse(with_counts(25, 25), TENMAP_ERR_FORMAT,
           "expected 108 bytes from byte 266 on, but the file ends after 104 of them");
    refuse(with_counts(INT64_MAX / 4, INT64_MAX / 4), TENMAP_ERR_FORMAT, "it is truncated");
    refuse(with_counts(INT64_MAX / 2, INT64_MAX / 2), TENMAP_ERR_FORMAT, "64 bits can count");
    refuse(with_counts(INT64_MAX, INT64_MAX), TENMAP_ERR_FORMAT, "64 bits can count");
}

/* {"a": a vector in two storages of floats} */
static bytes two_storages(size_t size, const legacy_settings *settings) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}(");
    pickle_text(&p, "a");
    pickle_vector(&p, "0", (int64_t)size / 4);
    pickle_text(&p, "b");
    pickle_vector(&p, "1", (int64_t)size / 4);
    TORCH_LITERAL(&p, "u.");
    return make_legacy(&p, 2, size, settings);
}

/* Every prefix of a file is an error, which names the storage once the pickles are complete. */
static void truncated_files_are_refused(void **state) {
    bytes file = two_storages(STORAGE, NULL);
    size_t first = file.size - 2 * (STORAGE + 8);
    (void)state;
    for (size_t size = 0; size < file.size; size++) {
        tenmap_model *m;
        tenmap_error error;
        tenmap_status status = tenmap_open_memory(file.at, size, NULL, &m, &error);
        assert_true(status == TENMAP_ERR_FORMAT || (size < 8 && status == TENMAP_ERR_LIMIT));
        check_error(&error, status);
        const char *says = size < 8                     ? ""
                           : size < first               ? "does not end in the file, which has"
                           : size < first + STORAGE + 8 ? "storage \"0\", number 1 of 2"
                                                        : "storage \"1\", number 2 of 2";
        if (!strstr(error.message, says))
            fail_msg("%zu bytes: %s", size, error.message);
        if (size >= 8)
            assert_int_equal(error.remedy, TENMAP_REMEDY_FETCH_AGAIN);
    }
    char path[300];
    snprintf(path, sizeof path, "%s/cut.pt", legacy_folder);
    for (size_t size = 1; size < file.size; size += 13) {
        tenmap_model *m;
        tenmap_error error;
        write_file(path, file.at, size);
        tenmap_status status = tenmap_open(path, NULL, &m, &error);
        check_agrees(path, NULL, status, &error);
    }
    free(file.at);
}

static void bytes_behind_are_refused_unless_allowed(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    legacy_settings more = {.behind = "more"};
    (void)state;
    refuse(one_file(&more), TENMAP_ERR_FORMAT, "4 bytes follow the last storage, at byte 370");
    bytes file = one_file(&more);
    options.flags = TENMAP_OPEN_TRAILING;
    tenmap_close(must_open_memory(file, &options));
    options.flags = TENMAP_OPEN_LENIENT;
    tenmap_close(must_open_memory(file, &options));
    free(file.at);
}

/* A vector in ("storage", FloatStorage, "0", "cpu", 24, view), where `view` are opcodes. */
static void put_view(torch_bytes *p, const char *name, const char *view, size_t len,
                     int64_t elements) {
    pickle_text(p, name);
    pickle_global(p, "torch._utils", "_rebuild_tensor");
    TORCH_LITERAL(p, "((");
    pickle_text(p, "storage");
    pickle_global(p, "torch", "FloatStorage");
    pickle_text(p, "0");
    pickle_text(p, "cpu");
    pickle_int(p, STORAGE / 4);
    torch_put(p, view, len);
    TORCH_LITERAL(p, "tQK\0");
    pickle_tuple(p, &elements, 1);
    pickle_tuple(p, (int64_t[]){1}, 1);
    TORCH_LITERAL(p, "tR");
}

#define PUT_VIEW(p, name, view, elements) put_view(p, name, view, sizeof(view) - 1, elements)

static bytes finish_views(torch_bytes *p) {
    TORCH_LITERAL(p, "u.");
    return make_legacy(p, 1, STORAGE, NULL);
}

static torch_bytes begin_views(void) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}(");
    return p;
}

static void views_see_a_part_of_their_storage(void **state) {
    torch_bytes p = begin_views();
    (void)state;
    PUT_VIEW(&p, "whole", "N", 24);
    PUT_VIEW(&p, "part", "(U\1vK\4K\10t", 8);
    PUT_VIEW(&p, "overlaps", "(U\1wK\6K\10t", 8);
    PUT_VIEW(&p, "again", "(U\1vK\4K\10t", 3); /* the same view */
    PUT_VIEW(&p, "empty", "(U\1xK\x18K\0t", 0);
    bytes file = finish_views(&p);
    tenmap_model *m = must_open_memory(file, NULL);
    const unsigned char *at = tenmap_find(m, "whole")->data;
    assert_int_equal(at[95], pattern_byte(95));
    assert_true((const unsigned char *)tenmap_find(m, "part")->data == at + 16);
    assert_true((const unsigned char *)tenmap_find(m, "overlaps")->data == at + 24);
    assert_true((const unsigned char *)tenmap_find(m, "again")->data == at + 16);
    assert_int_equal(tenmap_find(m, "empty")->nbytes, 0);
    tenmap_close(m);
    free(file.at);
}

#define REFUSE_VIEW(view, elements, status, fragment)                                              \
    do {                                                                                           \
        torch_bytes p_ = begin_views();                                                            \
        PUT_VIEW(&p_, "a", view, elements);                                                        \
        refuse(finish_views(&p_), TENMAP_ERR_##status, fragment);                                  \
    } while (0)

static void views_stay_in_their_storage(void **state) {
    (void)state;
    REFUSE_VIEW("(U\1vK\4K\10t", 9, FORMAT, "last element");
    REFUSE_VIEW("(U\1vK\4K\x15t", 1, FORMAT, "21 elements from number 4 on, of a storage that has");
    REFUSE_VIEW("(U\1vK\x19K\0t", 0, FORMAT, "0 elements from number 25 on");
    REFUSE_VIEW("(U\1vK\1\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ft", 1, FORMAT, "from number 1 on");
    REFUSE_VIEW("(U\1vJ\xff\xff\xff\xffK\1t", 1, FORMAT, "two whole numbers");
    REFUSE_VIEW("(U\1vK\1Nt", 1, FORMAT, "two whole numbers");
    REFUSE_VIEW("(U\1vK\1t", 1, FORMAT, "two whole numbers");
    REFUSE_VIEW("]", 1, FORMAT, "two whole numbers");
    REFUSE_VIEW("(K\1K\1K\1t", 1, FORMAT, "is not a string");
    REFUSE_VIEW("(]K\1K\1t", 1, FORMAT, "is not a string");
    REFUSE_VIEW("(U\0010K\1K\1t", 1, FORMAT, "belongs to two different storages");
}

/* torch takes what the first reference says, so another one may not say something else. */
static void a_view_is_described_in_one_way(void **state) {
    torch_bytes p = begin_views();
    (void)state;
    PUT_VIEW(&p, "a", "(U\1vK\4K\10t", 1);
    PUT_VIEW(&p, "b", "(U\1vK\5K\10t", 1);
    refuse(finish_views(&p), TENMAP_ERR_FORMAT, "the key \"v\" belongs to two different");
    p = begin_views();
    PUT_VIEW(&p, "a", "(U\1vK\4K\10t", 1);
    PUT_VIEW(&p, "b", "(U\1vK\4K\7t", 1);
    refuse(finish_views(&p), TENMAP_ERR_FORMAT, "the key \"v\" belongs to two different");
}

/* One tuple that two storages share as their view. */
static void two_storages_do_not_share_a_view(void **state) {
    torch_bytes p = begin_views();
    (void)state;
    PUT_VIEW(&p, "a", "(U\1vK\4K\10tq\0", 1);
    pickle_text(&p, "b");
    TORCH_LITERAL(&p, "(");
    pickle_text(&p, "storage");
    pickle_global(&p, "torch", "FloatStorage");
    pickle_text(&p, "1");
    TORCH_LITERAL(&p, "NK\x18h\0tQu.");
    refuse(make_legacy(&p, 2, STORAGE, NULL), TENMAP_ERR_FORMAT, "belongs to two different");
}

static void views_in_zip_archives_are_refused(void **state) {
    torch_bytes p = begin_views();
    (void)state;
    PUT_VIEW(&p, "a", "(U\1vK\4K\10t", 8);
    TORCH_LITERAL(&p, "u.");
    refuse(make_checkpoint(&p, 1, STORAGE), TENMAP_ERR_UNSUPPORTED, "is a view of another one");
}

/* References to something else are no storages: classes with their source, and nonsense. */
static void other_references_are_data(void **state) {
    torch_bytes p = begin_views();
    (void)state;
    pickle_text(&p, "module");
    TORCH_LITERAL(&p, "(X\6\0\0\0module");
    pickle_global(&p, "torch.nn", "Linear");
    TORCH_LITERAL(&p, "NNtQ)\x81}(");
    PUT_VIEW(&p, "weight", "N", 24);
    TORCH_LITERAL(&p, "ubX\1\0\0\0xNQX\1\0\0\0y(K\1K\1K\1K\1K\1tQX\1\0\0\0zP0\n");
    TORCH_LITERAL(&p, "X\1\0\0\0u(X\7\0\0\0storageK\1K\1K\1K\1tQ0N");
    bytes file = finish_views(&p);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_BRANCHES;
    tenmap_model *m = must_open_memory(file, &options);
    assert_non_null(tenmap_find(m, "module.weight"));
    assert_int_equal(tenmap_count(m), 1);
    tenmap_close(m);
    free(file.at);
}

typedef struct found_code {
    uint64_t offsets[4];
    size_t count, errors;
} found_code;

static void note_code(void *ctx, const tenmap_finding *f) {
    found_code *found = ctx;
    found->errors += f->severity == TENMAP_FINDING_ERROR;
    if (f->code == TENMAP_FOUND_CODE && found->count < COUNT(found->offsets))
        found->offsets[found->count++] = f->offset;
}

static found_code check_file(bytes file) {
    found_code found = {.count = 0};
    char path[300];
    tenmap_error error;
    snprintf(path, sizeof path, "%s/code.pt", legacy_folder);
    write_file(path, file.at, file.size);
    (void)tenmap_check(path, NULL, note_code, &found, &error);
    for (size_t i = 0; i < found.count; i++)
        assert_memory_equal(file.at + found.offsets[i], "cos\nsystem\n", 11);
    free(file.at);
    return found;
}

/* Each is named once, at its byte. Only the values may name code and open. */
static void code_in_every_pickle_is_a_finding(void **state) {
#define CODE "cos\nsystem\n(X\1\0\0\0xtR"
    torch_bytes p = one_vector();
    (void)state;
    found_code found =
        check_file(one_file(&(legacy_settings){.version = CODE ".", .version_len = sizeof(CODE)}));
    assert_true(found.count == 1 && found.errors > 0);
    found =
        check_file(one_file(&(legacy_settings){.system = CODE ".", .system_len = sizeof(CODE)}));
    assert_true(found.count == 1 && found.errors > 0);
    found = check_file(one_file(&(legacy_settings){.keys = CODE ".", .keys_len = sizeof(CODE)}));
    assert_true(found.count == 1 && found.errors > 0);
    p.out.size--; /* STOP */
    TORCH_LITERAL(&p, "X\1\0\0\0b" CODE "s.");
    bytes file = make_legacy(&p, 1, STORAGE, NULL);
    tenmap_close(must_open_memory(file, NULL));
    found = check_file(file);
    assert_true(found.count == 1 && found.errors == 0);
    p = one_vector();
    p.out.size--;
    TORCH_LITERAL(&p, "X\1\0\0\0b" CODE "s.");
    file = make_legacy(&p, 1, STORAGE, NULL);
    file.size--; /* truncated: the values are not parsed, but their code is named */
    found = check_file(file);
    assert_true(found.count == 1 && found.errors == 1);
    p = one_vector();
    p.out.size--;
    TORCH_LITERAL(&p, CODE "\xff.");
    found = check_file(make_legacy(&p, 1, STORAGE, NULL));
    assert_true(found.count == 1 && found.errors == 1);
}

/* The header: all pickles, and 8 bytes for each storage, wherever they lie. */
static void the_header_has_a_limit(void **state) {
    static const size_t sizes[] = {STORAGE, 100000};
    tenmap_options options = TENMAP_OPTIONS_INIT;
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        bytes file = two_storages(sizes[i], NULL);
        options.max_header_bytes = file.size - 2 * sizes[i];
        tenmap_close(must_open_memory(file, &options));
        options.max_header_bytes--;
        must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "the limit");
        options.max_header_bytes = 100;
        must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "the limit");
        free(file.at);
    }
}

/* A pickle that more than one read takes, and strings and lines across their ends. */
static void long_pickles_are_read(void **state) {
    enum { TEXT = 70000 };
    (void)state;
    for (int line = 0; line < 2; line++) {
        torch_bytes p = one_vector();
        char *text = malloc(TEXT + 1);
        assert_non_null(text);
        memset(text, 'k', TEXT);
        text[TEXT] = '\0';
        p.out.size--;
        pickle_text(&p, "b");
        if (line) {
            TORCH_LITERAL(&p, "V");
            torch_put(&p, text, TEXT);
            TORCH_LITERAL(&p, "\ns.");
        } else {
            pickle_text(&p, text);
            TORCH_LITERAL(&p, "s.");
        }
        free(text);
        opens(make_legacy(&p, 1, STORAGE, NULL));
    }
}

/* Lists that repeat one key with two bytes: memory is that of the storages that a file can have. */
static void lists_of_keys_are_bounded(void **state) {
    enum { REPEATED = 100000 };
    tenmap_options options = TENMAP_OPTIONS_INIT;
    torch_bytes keys = {{NULL, 0}, 0};
    (void)state;
    TORCH_LITERAL(&keys, "](X\1\0\0\0000q\0");
    for (size_t i = 0; i < REPEATED; i++)
        TORCH_LITERAL(&keys, "h\0");
    TORCH_LITERAL(&keys, "e.");
    legacy_settings settings = {.keys = (const char *)keys.out.at, .keys_len = keys.out.size};
    bytes file = one_file(&settings);
    must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "twice");
    options.max_header_bytes = file.size;
    must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "the limit");
    free(file.at);
    free(keys.out.at);
}

/* An error counts bytes from the file's first one, not from the model's. */
static void errors_count_from_the_start_of_the_file(void **state) {
    enum { BEFORE = 64 };
    tenmap_options options = TENMAP_OPTIONS_INIT;
    bytes file = two_storages(STORAGE, NULL), moved = {calloc(1, file.size + BEFORE), 0};
    (void)state;
    assert_non_null(moved.at);
    moved.size = file.size + BEFORE;
    memcpy(moved.at + BEFORE, file.at, file.size);
    options.offset = BEFORE;
    tenmap_model *m = must_open_memory(moved, &options);
    const tenmap_tensor *t = tenmap_find(m, "b");
    assert_int_equal(t->file_offset, moved.size - STORAGE);
    assert_true(t->data == moved.at + t->file_offset);
    tenmap_close(m);
    moved.at[moved.size - STORAGE - 8]++;
    char expected[64];
    snprintf(expected, sizeof expected, "storage \"1\" (byte %zu)", moved.size - STORAGE - 8);
    must_fail_memory(moved, &options, TENMAP_ERR_FORMAT, expected);
    free(moved.at);
    free(file.at);
}

/* A file whose first block is the header of a tar entry, too, with a sum written as `form` says. */
static bytes tar_too(const char *form, bool is_signed, int wrong) {
    enum { FILLER = 600, BLOCK = 512, SUM_AT = 148, SUM_BYTES = 8 };
    torch_bytes system = {{NULL, 0}, 0};
    TORCH_LITERAL(&system, "\x80\2}(X\x0d\0\0\0little_endian\x88X\1\0\0\0xT\x58\2\0\0");
    for (size_t i = 0; i < FILLER; i++)
        TORCH_LITERAL(&system, "a");
    TORCH_LITERAL(&system, "u.");
    bytes file = one_file(
        &(legacy_settings){.system = (const char *)system.out.at, .system_len = system.out.size});
    free(system.out.at);
    int sum = SUM_BYTES * ' ';
    for (size_t i = 0; i < BLOCK; i++)
        if (i < SUM_AT || i >= SUM_AT + SUM_BYTES)
            sum += is_signed && file.at[i] >= 0x80 ? file.at[i] - 0x100 : file.at[i];
    sum += wrong;
    char digits[SUM_BYTES + 8] = "";
    snprintf(digits, sizeof digits, form, (unsigned)sum);
    memcpy(file.at + SUM_AT, digits, SUM_BYTES);
    if (form[0] == '\x80') {
        memset(file.at + SUM_AT + 1, 0, SUM_BYTES - 1);
        file.at[SUM_AT + SUM_BYTES - 2] = (unsigned char)(sum >> 8);
        file.at[SUM_AT + SUM_BYTES - 1] = (unsigned char)sum;
    }
    return file;
}

/* torch tries tar archives first, and would unpickle what is in one. */
static void a_tar_archive_is_no_checkpoint(void **state) {
    static const char what[] = "a tar archive at the same time";
    (void)state;
    refuse(tar_too("%06o", false, 0), TENMAP_ERR_FORMAT, what);
    refuse(tar_too(" %o ", false, 0), TENMAP_ERR_FORMAT, what);
    refuse(tar_too("\x80%o", false, 0), TENMAP_ERR_FORMAT, what);
    refuse(tar_too("%06o", true, 0), TENMAP_ERR_FORMAT, what);
    opens(tar_too("%06o", false, 1));
}

/* Each byte of the header changed: it opens, or it is refused; nothing else happens. */
static void damaged_headers_are_data(void **state) {
    torch_bytes p = begin_views();
    (void)state;
    PUT_VIEW(&p, "a", "(U\1vK\4K\10t", 8);
    PUT_VIEW(&p, "b", "N", 24);
    bytes file = finish_views(&p);
    for (size_t at = 0; at < file.size - STORAGE; at++)
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_protocol_opens),
        cmocka_unit_test(other_pickles_are_not_checkpoints),
        cmocka_unit_test(files_of_big_endian_machines_are_refused),
        cmocka_unit_test(keys_and_values_agree),
        cmocka_unit_test(a_storage_has_one_type_and_size),
        cmocka_unit_test(counts_that_lie_are_refused),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(bytes_behind_are_refused_unless_allowed),
        cmocka_unit_test(views_see_a_part_of_their_storage),
        cmocka_unit_test(views_stay_in_their_storage),
        cmocka_unit_test(a_view_is_described_in_one_way),
        cmocka_unit_test(two_storages_do_not_share_a_view),
        cmocka_unit_test(views_in_zip_archives_are_refused),
        cmocka_unit_test(other_references_are_data),
        cmocka_unit_test(code_in_every_pickle_is_a_finding),
        cmocka_unit_test(the_header_has_a_limit),
        cmocka_unit_test(long_pickles_are_read),
        cmocka_unit_test(lists_of_keys_are_bounded),
        cmocka_unit_test(errors_count_from_the_start_of_the_file),
        cmocka_unit_test(a_tar_archive_is_no_checkpoint),
        cmocka_unit_test(damaged_headers_are_data),
    };
    return cmocka_run_group_tests(tests, begin, remove_folder);
}
