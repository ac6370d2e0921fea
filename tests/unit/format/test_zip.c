/*
 * The zip archives of checkpoints: what two readers could understand differently is refused, with
 * the verdicts of docs/format.md.
 */
#include "torch_files.h"

static const char *zip_folder;

static int begin(void **state) {
    int failed = make_folder(state);
    zip_folder = *state;
    return failed;
}

/* An empty dict: a checkpoint without tensors. */
#define EMPTY_PICKLE "\x80\2}."
#define PICKLE_FILE                                                                                \
    { .name = "m/data.pkl", .data = EMPTY_PICKLE, .size = 4 }

static void zip_opens(const zip_file *files, size_t count, const zip_settings *set) {
    bytes file = make_zip(files, count, set);
    tenmap_model *m = must_open_memory(file, NULL);
    assert_string_equal(tenmap_shard_at(m, 0)->format, "pytorch");
    tenmap_close(m);
    free(file.at);
}

/* Refused from memory and from a file, where the check agrees. */
static void zip_fails(const zip_file *files, size_t count, const zip_settings *set,
                      tenmap_status status, const char *fragment) {
    char path[300];
    bytes file = make_zip(files, count, set);
    must_fail_memory(file, NULL, status, fragment);
    snprintf(path, sizeof path, "%s/archive", zip_folder);
    write_file(path, file.at, file.size);
    must_fail(path, NULL, status, fragment);
    free(file.at);
}

#define ZIP_OPENS(settings, ...)                                                                   \
    do {                                                                                           \
        const zip_file files_[] = {__VA_ARGS__};                                                   \
        zip_opens(files_, COUNT(files_), settings);                                                \
    } while (0)
#define ZIP_FAILS(settings, status, fragment, ...)                                                 \
    do {                                                                                           \
        const zip_file files_[] = {__VA_ARGS__};                                                   \
        zip_fails(files_, COUNT(files_), settings, TENMAP_ERR_##status, fragment);                 \
    } while (0)

static void stored_entries_open(void **state) {
    (void)state;
    zip_file plain = PICKLE_FILE, large = plain, later = plain, padded = plain;
    large.zip64 = later.descriptor = true;
    padded.padding = 60;
    zip_settings wide = {.zip64 = true}, said = {.comment = "hello", .comment_len = 5};
    ZIP_OPENS(NULL, plain);
    ZIP_OPENS(NULL, large);
    ZIP_OPENS(NULL, later);
    ZIP_OPENS(NULL, padded);
    ZIP_OPENS(&wide, large, {.name = "m/data/0", .data = "abcd", .size = 4, .zip64 = true});
    ZIP_OPENS(&said, plain);
    ZIP_OPENS(NULL, plain, {.name = "m/", .size = 0});
}

static void two_entries_of_one_name_are_refused(void **state) {
    (void)state;
    ZIP_FAILS(NULL, FORMAT, "has the same name", PICKLE_FILE, {.name = "m/x"}, {.name = "m/x"});
}

static void the_directory_and_local_headers_agree(void **state) {
    (void)state;
    zip_file name = PICKLE_FILE, size = name, flags = name, crc = name, wide = name;
    name.local_name = "m/evil.pkl";
    size.local_size = 3;
    flags.local_flags = 0x800;
    crc.local_crc = 7;
    wide.zip64 = true;
    wide.local_size = 5;
    ZIP_FAILS(NULL, FORMAT, "another name", name);
    ZIP_FAILS(NULL, FORMAT, "another size", size);
    ZIP_FAILS(NULL, FORMAT, "other flags", flags);
    ZIP_FAILS(NULL, FORMAT, "another checksum", crc);
    ZIP_FAILS(NULL, FORMAT, "another size", wide);
    zip_file moved = PICKLE_FILE;
    moved.moved = 1;
    ZIP_FAILS(NULL, FORMAT, "no local header", moved, {.name = "m/x", .data = "1", .size = 1});
}

static void entries_do_not_overlap(void **state) {
    (void)state;
    /* The second entry lies in the data of the first. */
    zip_file inner = {.name = "m/in", .data = "data", .size = 4};
    torch_bytes b = {{NULL, 0}, 0};
    zip_local(&b, &inner);
    zip_file outer = {.name = "m/out", .data = b.out.at, .size = b.out.size};
    torch_bytes file = {{NULL, 0}, 0};
    zip_local(&file, &outer);
    uint64_t directory = file.out.size;
    zip_record(&file, &outer, 0);
    zip_record(&file, &inner, 30 + strlen("m/out"));
    uint64_t size = file.out.size - directory;
    TORCH_LITERAL(&file, "PK\5\6\0\0\0\0\2\0\2\0");
    torch_number(&file, size, 4);
    torch_number(&file, directory, 4);
    torch_number(&file, 0, 2);
    must_fail_memory(file.out, NULL, TENMAP_ERR_FORMAT, "begins inside of entry");
    free(file.out.at);
    free(b.out.at);
}

static void entries_lie_inside_the_archive(void **state) {
    (void)state;
    zip_file far = PICKLE_FILE, beyond = far;
    far.moved = 1000;
    ZIP_FAILS(NULL, FORMAT, "local header should be at byte", far);
    beyond.directory_size = beyond.local_size = 5000;
    ZIP_FAILS(NULL, FORMAT, "are not inside the archive", beyond);
    zip_file huge = PICKLE_FILE;
    huge.zip64 = true;
    huge.moved = UINT64_MAX - 10;
    ZIP_FAILS(NULL, FORMAT, "local header should be at byte", huge);
}

static void records_of_64_bits_tell_the_truth(void **state) {
    (void)state;
    zip_settings lie = {.zip64 = true, .zip64_count = 1},
                 huge = {.zip64 = true, .zip64_count = UINT64_MAX / 2};
    zip_file plain = PICKLE_FILE, missing = plain;
    ZIP_FAILS(&lie, FORMAT, "directory", plain);
    ZIP_FAILS(&huge, FORMAT, "directory", plain);
    missing.directory_size = UINT32_MAX;
    ZIP_FAILS(NULL, FORMAT, "64-bit sizes are missing", missing);
}

static void bytes_before_the_archive_are_refused(void **state) {
    (void)state;
    zip_settings before = {.prefix = "PK\3\4 a program that unpacks itself"},
                 text = {.prefix = "#!/bin/sh\n"}, into = {.directory_moved = -4};
    ZIP_FAILS(&before, FORMAT, "bytes come before the first entry", PICKLE_FILE);
    ZIP_FAILS(&text, LIMIT, "this is not a SafeTensors file", PICKLE_FILE);
    ZIP_FAILS(&into, FORMAT, "bytes were put before or into the archive", PICKLE_FILE);
}

static void a_comment_is_no_second_end(void **state) {
    (void)state;
    static const char end[] =
        "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"; /* with its NUL: 22 bytes */
    zip_settings comment = {.comment = end, .comment_len = sizeof end}, more = {.more_entries = 1};
    ZIP_FAILS(&comment, FORMAT, "two places look like the end", PICKLE_FILE);
    ZIP_FAILS(&more, FORMAT, "", PICKLE_FILE);
}

static void packed_entries_are_refused_by_name(void **state) {
    (void)state;
    zip_file packed = PICKLE_FILE, secret = packed;
    packed.method = 8;
    secret.flags = 1;
    ZIP_FAILS(NULL, UNSUPPORTED, "it is compressed", packed);
    ZIP_FAILS(NULL, UNSUPPORTED, "it is encrypted", secret);
    ZIP_FAILS(NULL, UNSUPPORTED, "m/notes", PICKLE_FILE, {.name = "m/notes", .method = 8});
}

static void other_archives_are_named(void **state) {
    (void)state;
    ZIP_FAILS(NULL, FORMAT, "this is a Keras archive", {.name = "model.weights.h5"});
    ZIP_FAILS(NULL, FORMAT, "this is a program of torch.export", {.name = "m/archive_format"});
    ZIP_FAILS(NULL, FORMAT, "without FOLDER/data.pkl", {.name = "readme.txt"});
    ZIP_FAILS(NULL, FORMAT, "without FOLDER/data.pkl", {.name = "a/b/data.pkl"});
    ZIP_FAILS(NULL, FORMAT, "two entries FOLDER/data.pkl", PICKLE_FILE, {.name = "n/data.pkl"});
    ZIP_FAILS(NULL, UNSUPPORTED, "TorchScript", PICKLE_FILE, {.name = "m/constants.pkl"});
    ZIP_FAILS(NULL, UNSUPPORTED, "byte order", PICKLE_FILE,
              {.name = "m/byteorder", .data = "big", .size = 3});
}

/* torch takes small and capital letters for the same, so it could read another entry. */
static void names_that_torch_takes_for_the_same_are_refused(void **state) {
    (void)state;
    static const char npy[] = "\x93NUMPY\1\0\x36\0{'descr': '|u1', 'fortran_order': False, "
                              "'shape': (), }\n";
    zip_file shouted = {.name = "m/DATA.PKL", .data = EMPTY_PICKLE, .size = 4};
    zip_file upper = {.name = "m/data/A", .data = "abcd", .size = 4}, lower = upper;
    zip_file array = {.name = "a.npy", .data = npy, .size = sizeof npy};
    lower.name = "M/data/a";
    ZIP_FAILS(NULL, FORMAT, "two entries FOLDER/data.pkl", PICKLE_FILE, shouted);
    ZIP_FAILS(NULL, FORMAT, "capital letters", shouted);
    ZIP_FAILS(NULL, FORMAT, "capital letters", shouted, array);
    ZIP_FAILS(NULL, FORMAT, "differ only in small and capital letters", PICKLE_FILE, upper, lower);
    ZIP_OPENS(NULL, PICKLE_FILE, upper, {.name = "m/data/b", .data = "abcd", .size = 4});
    ZIP_FAILS(NULL, UNSUPPORTED, "byte order", PICKLE_FILE,
              {.name = "m/ByteOrder", .data = "big", .size = 3});
    ZIP_FAILS(NULL, UNSUPPORTED, "TorchScript", PICKLE_FILE, {.name = "M/Constants.pkl"});
}

/* Each prefix of an archive is refused, and no byte more is read than the limit allows. */
static void truncated_archives_are_refused(void **state) {
    (void)state;
    zip_file files[] = {PICKLE_FILE, {.name = "m/data/0", .data = "abcd", .size = 4}};
    zip_settings set = {.zip64 = true};
    bytes file = make_zip(files, COUNT(files), &set);
    for (size_t size = 0; size < file.size; size++)
        must_fail_memory((bytes){file.at, size}, NULL, TENMAP_ERR_FORMAT, "");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.max_header_bytes = 64;
    must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "the limit");
    free(file.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_entries_open),
        cmocka_unit_test(two_entries_of_one_name_are_refused),
        cmocka_unit_test(the_directory_and_local_headers_agree),
        cmocka_unit_test(entries_do_not_overlap),
        cmocka_unit_test(entries_lie_inside_the_archive),
        cmocka_unit_test(records_of_64_bits_tell_the_truth),
        cmocka_unit_test(bytes_before_the_archive_are_refused),
        cmocka_unit_test(a_comment_is_no_second_end),
        cmocka_unit_test(packed_entries_are_refused_by_name),
        cmocka_unit_test(other_archives_are_named),
        cmocka_unit_test(names_that_torch_takes_for_the_same_are_refused),
        cmocka_unit_test(truncated_archives_are_refused),
    };
    return cmocka_run_group_tests(tests, begin, remove_folder);
}
