/*
 * Formats are independent of each other: a toy format of the tests (toy_container.c), whose
 * directory lies in pieces at the end of the file, opens, reads and copies like SafeTensors. What
 * it reads of a file is bounded, and folders and split models follow the rules that it states.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io_files.h"
#include "support.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { DATA = 24, FOOTER = 24, PIECE = 16 };

/* A toy under construction. */
typedef struct toy {
    unsigned char at[1024];
    size_t size;
    size_t table, pieces; /* where the table of the directory's pieces is */
} toy;

typedef struct piece {
    uint64_t at, size;
} piece;

static void put(toy *f, const void *from, size_t size) {
    assert_true(f->size + size <= sizeof f->at);
    memcpy(f->at + f->size, from, size);
    f->size += size;
}

static void set_word(toy *f, size_t at, uint64_t word) {
    for (size_t i = 0; i < 8; i++)
        f->at[at + i] = (unsigned char)(word >> 8 * i);
}

static void put_word(toy *f, uint64_t word) {
    put(f, "\0\0\0\0\0\0\0", 8);
    set_word(f, f->size - 8, word);
}

static void put_entry(toy *f, const char *name, tenmap_dtype dtype, const uint64_t *shape,
                      unsigned char rank) {
    unsigned char len = (unsigned char)strlen(name), type = (unsigned char)dtype;
    put(f, &len, 1);
    put(f, name, len);
    put(f, &type, 1);
    put(f, &rank, 1);
    for (unsigned d = 0; d < rank; d++)
        put_word(f, shape[d]);
}

/* The table and the footer. */
static void end_toy(toy *f, const piece *pieces, size_t count) {
    f->table = f->size;
    f->pieces = count;
    for (size_t i = 0; i < count; i++) {
        put_word(f, pieces[i].at);
        put_word(f, pieces[i].size);
    }
    put_word(f, f->table);
    put_word(f, count);
    put(f, "TOYENDS1", 8);
}

/* The tensors a, b and c, of 24 bytes; the directory's first piece lies behind its second. */
static toy make_toy(void) {
    toy f = {.size = 0};
    put(&f, "TOYTENS1", 8);
    for (size_t i = 0; i < DATA; i++)
        put(&f, &(unsigned char){pattern_byte(i)}, 1);
    uint64_t second = f.size;
    put_entry(&f, "b", TENMAP_U8, (const uint64_t[]){2, 3}, 2);
    put_entry(&f, "c", TENMAP_BF16, NULL, 0);
    uint64_t first = f.size;
    put(&f, "\3\0\0\0", 4);
    put_entry(&f, "a", TENMAP_F32, (const uint64_t[]){4}, 1);
    uint64_t end = f.size;
    end_toy(&f, (const piece[]){{first, end - first}, {second, first - second}}, 2);
    return f;
}

static uint64_t directory_bytes(const toy *f) {
    return f->table - 8 - DATA;
}

/* What opening a toy reads of it, apart from its first bytes. */
static uint64_t header_bytes(const toy *f) {
    return directory_bytes(f) + PIECE * f->pieces + FOOTER;
}

static void write_toy(const char *path, const toy *f) {
    write_file(path, f->at, f->size);
}

static void assert_toy(const tenmap_model *m) {
    unsigned char data[DATA];
    size_t at = 0;
    assert_int_equal(tenmap_count(m), 3);
    assert_int_equal(tenmap_find(m, "b")->rank, 2);
    assert_int_equal(tenmap_find(m, "b")->shape[1], 3);
    for (size_t i = 0; i < tenmap_count(m); i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        assert_int_equal(tenmap_read_bytes(t, 0, (size_t)t->nbytes, data, NULL), TENMAP_OK);
        for (uint64_t k = 0; k < t->nbytes; k++)
            assert_int_equal(data[k], pattern_byte(at++));
    }
    assert_int_equal(at, DATA);
}

static void a_directory_at_the_end_opens_in_every_way(void **state) {
    const char *path = in_folder(state, "toy.bin");
    toy f = make_toy();
    io_files files = {.delay_us = 0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    write_toy(path, &f);
    for (options.backend = TENMAP_BACKEND_MAP; options.backend <= TENMAP_BACKEND_READ;
         options.backend++) {
        tenmap_model *m = must_open(path, &options);
        const tenmap_shard *shard = tenmap_shard_at(m, 0);
        assert_toy(m);
        assert_string_equal(shard->format, "toy");
        assert_int_equal(shard->data_offset, 8);
        assert_int_equal(shard->header_bytes, directory_bytes(&f));
        assert_true((tenmap_at(m, 0)->data != NULL) == (options.backend == TENMAP_BACKEND_MAP));
        tenmap_close(m);
    }
    tenmap_model *m = must_open_memory((bytes){f.at, f.size}, NULL);
    assert_toy(m);
    tenmap_close(m);
    options.backend = TENMAP_BACKEND_READ;
    options.io = &io;
    m = must_open(path, &options);
    assert_int_equal(files.reads, 5); /* the first bytes, the footer, the table, two pieces */
    assert_int_equal(files.bytes, 8 + header_bytes(&f));
    assert_toy(m);
    tenmap_close(m);
}

/* A model may begin anywhere in a file. */
static void ranges_count_from_the_first_byte_of_the_model(void **state) {
    enum { BEFORE = 100, BEHIND = 7 };
    const char *path = in_folder(state, "inside.bin");
    toy f = make_toy();
    unsigned char whole[sizeof f.at + BEFORE + BEHIND] = {0};
    tenmap_options options = TENMAP_OPTIONS_INIT;
    memcpy(whole + BEFORE, f.at, f.size);
    write_file(path, whole, BEFORE + f.size + BEHIND);
    options.offset = BEFORE;
    options.length = f.size;
    for (options.backend = TENMAP_BACKEND_MAP; options.backend <= TENMAP_BACKEND_READ;
         options.backend++) {
        tenmap_model *m = must_open(path, &options);
        assert_toy(m);
        assert_int_equal(tenmap_at(m, 0)->file_offset, BEFORE + 8);
        tenmap_close(m);
    }
}

/* Its pieces lie at the end of the file. */
static void a_fingerprint_covers_the_directory(void **state) {
    enum { BEFORE = 100 };
    const char *path = in_folder(state, "inside.bin");
    const struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    uint8_t prints[4][32];
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.offset = BEFORE;
    for (size_t i = 0; i < COUNT(prints); i++) {
        toy f = make_toy();
        unsigned char whole[sizeof f.at + BEFORE] = {0};
        memcpy(whole + BEFORE, f.at, f.size);
        whole[BEFORE + 8 + DATA + 1] = i < 2 ? 'b' : 'x'; /* the name of the first entry */
        write_file(path, whole, BEFORE + f.size);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        options.backend = i % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        tenmap_model *m = must_open(path, &options);
        assert_non_null(tenmap_find(m, i < 2 ? "b" : "x"));
        assert_int_equal(tenmap_fingerprint(m, 0, prints[i], NULL), TENMAP_OK);
        tenmap_close(m);
    }
    assert_memory_equal(prints[0], prints[1], 32);
    assert_memory_equal(prints[2], prints[3], 32);
    assert_memory_not_equal(prints[0], prints[2], 16);
}

/* Opening must fail in the same way from a file, mapped or read, from memory and through an io. */
static void must_fail_everywhere(const char *path, const toy *f, uint64_t limit,
                                 tenmap_status status, const char *fragment) {
    io_files files = {.delay_us = 0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.max_header_bytes = limit;
    write_toy(path, f);
    for (options.backend = TENMAP_BACKEND_MAP; options.backend <= TENMAP_BACKEND_READ;
         options.backend++)
        must_fail(path, &options, status, fragment);
    options.backend = TENMAP_BACKEND_MAP;
    must_fail_memory((bytes){(unsigned char *)(uintptr_t)f->at, f->size}, &options, status,
                     fragment);
    options.io = &io;
    must_fail(path, &options, status, fragment);
    assert_int_equal(files.opened, files.closed);
}

static void ranges_outside_of_the_file_are_refused(void **state) {
    static const uint64_t far[] = {1 << 20, UINT64_MAX, UINT64_MAX - 15, (uint64_t)1 << 63};
    const char *path = in_folder(state, "toy.bin");
    for (size_t i = 0; i < COUNT(far); i++) {
        toy f = make_toy();
        set_word(&f, f.size - FOOTER, far[i]); /* where the table begins */
        must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "the table, of ");
        f = make_toy();
        set_word(&f, f.size - FOOTER + 8, far[i]); /* the number of pieces */
        must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "the table, of ");
        f = make_toy();
        set_word(&f, f.table, far[i]); /* where a piece begins */
        must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "a piece of the directory, of ");
        f = make_toy();
        set_word(&f, f.table + 8, far[i]); /* its length */
        must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "a piece of the directory, of ");
    }
    toy f = make_toy();
    set_word(&f, f.table, f.size - 3); /* a piece that begins inside and ends outside */
    set_word(&f, f.table + 8, 4);
    must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "a piece of the directory, of 4 bytes");
}

static void all_ranges_together_are_limited(void **state) {
    const char *path = in_folder(state, "toy.bin");
    toy f = make_toy();
    tenmap_options options = TENMAP_OPTIONS_INIT;
    write_toy(path, &f);
    options.max_header_bytes = header_bytes(&f);
    tenmap_model *m = must_open(path, &options);
    assert_toy(m);
    tenmap_close(m);
    for (uint64_t limit = 1; limit < header_bytes(&f); limit++)
        must_fail_everywhere(path, &f, limit, TENMAP_ERR_LIMIT, "the limit");
}

/* A small file cannot ask for much memory by naming the same bytes often. */
static void overlapping_ranges_count_each_time(void **state) {
    enum { TIMES = 20, LIMIT = 2000 };
    const char *path = in_folder(state, "toy.bin");
    toy f = {.size = 0};
    piece pieces[TIMES];
    put(&f, "TOYTENS1", 8);
    for (size_t i = 0; i < 200; i++)
        put(&f, "", 1); /* no tensor, however often it is read */
    for (size_t i = 0; i < TIMES; i++) {
        pieces[i] = (piece){8 + i, 150};
    }
    end_toy(&f, pieces, TIMES);
    must_fail_everywhere(path, &f, LIMIT, TENMAP_ERR_LIMIT, "the limit");
    write_toy(path, &f);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_count(m), 0);
    assert_int_equal(tenmap_shard_at(m, 0)->header_bytes, 150 * TIMES);
    tenmap_close(m);
}

static void directories_that_are_broken_are_refused(void **state) {
    const char *path = in_folder(state, "toy.bin");
    toy f = make_toy();
    f.at[f.size - 1] = 'x';
    must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "does not end in TOYENDS1");
    f = make_toy();
    f.size = 8 + FOOTER - 1;
    must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "has no footer");
    f = make_toy();
    set_word(&f, f.size - FOOTER + 8, 0);
    must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "has no directory");
    f = make_toy();
    set_word(&f, f.table + PIECE + 8, 5);
    must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "ends inside an entry");
    f = make_toy();
    set_word(&f, f.size - FOOTER + 8, 1);
    must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "ends inside an entry");
    f = make_toy();
    f.at[f.table - 16] = 200; /* the number of tensors */
    must_fail_everywhere(path, &f, 0, TENMAP_ERR_FORMAT, "too short for its tensors");
}

static void failing_reads_reach_the_caller(void **state) {
    const char *path = in_folder(state, "toy.bin");
    toy f = make_toy();
    tenmap_options options = TENMAP_OPTIONS_INIT;
    write_toy(path, &f);
    for (long call = 2; call <= 6; call++) { /* call 1 opens the file */
        io_files files = {
            .fail_at = call, .fail_with = TENMAP_ERR_IO, .message = "the store is on fire"};
        tenmap_io io = io_files_io(&files);
        tenmap_model *m;
        tenmap_error error;
        options.io = &io;
        check_refused(tenmap_open(path, &options, &m, &error), &error, TENMAP_ERR_IO,
                      "the store is on fire");
        assert_null(m);
        assert_int_equal(files.opened, files.closed);
    }
}

/* The file is cut after its size was taken. */
static tenmap_status open_longer(void *ctx, const char *path, void **file, uint64_t *size,
                                 tenmap_error *error) {
    io_files *files = ctx;
    tenmap_status status = io_files_io(files).open(files, path, file, size, error);
    *size += 8;
    return status;
}

static void short_reads_are_errors(void **state) {
    const char *path = in_folder(state, "toy.bin");
    toy f = make_toy();
    io_files files = {.delay_us = 0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    write_toy(path, &f);
    io.open = open_longer;
    options.io = &io;
    must_fail(path, &options, TENMAP_ERR_IO, "the store has only 16 of 24 bytes");
}

static void it_is_copied_into_safetensors(void **state) {
    const char *path = in_folder(state, "toy.bin"), *out = in_folder(state, "out.safetensors");
    toy f = make_toy();
    tenmap_error error;
    tenmap_writer *writer;
    write_toy(path, &f);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_writer_create(out, NULL, &writer, &error), TENMAP_OK);
    for (size_t i = 0; i < tenmap_count(m); i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        assert_int_equal(tenmap_writer_add(writer, t->name, t->name_len, t->dtype, t->shape,
                                           t->rank, NULL, &error),
                         TENMAP_OK);
    }
    for (size_t i = 0; i < tenmap_count(m); i++)
        assert_int_equal(tenmap_writer_copy(writer, i, tenmap_at(m, i), 0, &error), TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(writer, &error), TENMAP_OK);
    tenmap_model *copy = must_open(out, NULL);
    for (size_t i = 0; i < tenmap_count(m); i++) {
        const tenmap_tensor *a = tenmap_at(m, i), *b = tenmap_find(copy, a->name);
        assert_non_null(b);
        assert_int_equal(a->nbytes, b->nbytes);
        assert_memory_equal(a->data, b->data, (size_t)a->nbytes);
    }
    tenmap_close(copy);
    tenmap_close(m);
}

/* Folders. */

/* A toy of one U8 with the given name; `parts` above 0: it is part `number` of them. */
static toy make_part(const char *name, uint64_t number, uint64_t parts, uint64_t tensors) {
    toy f = {.size = 0};
    put(&f, "TOYTENS1x", 9);
    size_t at = f.size;
    put(&f, parts ? "\1\0\0\x80" : "\1\0\0\0", 4);
    if (parts) {
        put_word(&f, number);
        put_word(&f, parts);
        put_word(&f, tensors);
    }
    put_entry(&f, name, TENMAP_U8, NULL, 0);
    end_toy(&f, (const piece[]){{at, f.size - at}}, 1);
    return f;
}

static void add_toy(void **state, const char *file, const char *tensor) {
    toy f = make_part(tensor, 0, 0, 0);
    write_toy(in_folder(state, file), &f);
}

/* The folder opens as a model with this tensor. */
static void must_choose(void **state, const char *tensor) {
    tenmap_model *m = must_open(*state, NULL);
    assert_non_null(tenmap_find(m, tensor));
    tenmap_close(m);
}

static void a_folder_prefers_as_its_containers_say(void **state) {
    must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND,
              "no .safetensors, .gguf, pytorch_model.bin or .toy file");
    add_toy(state, "a.helper.toy", "helper");
    must_choose(state, "helper"); /* nothing else is there */
    add_toy(state, "b.toy", "b");
    must_choose(state, "b");
    add_toy(state, "c.toy", "c");
    must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND, "more than one model");
    add_toy(state, "best.toy", "best");
    must_choose(state, "best");
    write_model(in_folder(state, "x.safetensors"),
                "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    must_choose(state, "x");
}

static void an_index_lists_files_of_its_container(void **state) {
    add_toy(state, "m-00001-of-00002.toy", "a");
    add_toy(state, "m-00002-of-00002.toy", "b");
    write_text(in_folder(state, "m.toy.index.json"),
               "{\"weight_map\":{\"a\":\"m-00001-of-00002.toy\",\"b\":\"m-00002-of-00002.toy\"}}");
    tenmap_model *m = must_open(*state, NULL);
    assert_int_equal(tenmap_count(m), 2);
    assert_int_equal(tenmap_shard_count(m), 2);
    tenmap_close(m);
    /* The index of a preferred container hides it; this one lists a file that is not there. */
    write_text(in_folder(state, "m.safetensors.index.json"),
               "{\"weight_map\":{\"a\":\"gone.safetensors\"}}");
    must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND, "gone.safetensors");
}

static void parts_are_found_by_the_first(void **state) {
    const char *first = in_folder(state, "m-00001-of-00002.toy");
    const char *second = in_folder(state, "m-00002-of-00002.toy");
    toy a = make_part("a", 0, 2, 2), b = make_part("b", 1, 2, 2);
    write_toy(first, &a);
    write_toy(second, &b);
    for (int folder = 0; folder < 2; folder++) {
        tenmap_model *m = must_open(folder ? (const char *)*state : first, NULL);
        assert_int_equal(tenmap_count(m), 2);
        assert_int_equal(tenmap_shard_count(m), 2);
        tenmap_close(m);
    }
    b = make_part("b", 0, 2, 2);
    write_toy(second, &b);
    must_fail(first, NULL, TENMAP_ERR_FORMAT, "part 1 of 2 (part, parts), but its name says");
    b = make_part("b", 1, 2, 2);
    write_toy(second, &b);
    a = make_part("a", 0, 2, 3);
    write_toy(first, &a);
    must_fail(first, NULL, TENMAP_ERR_FORMAT, "the first says that there are 3 (all)");
    const char *other = in_folder(state, "other.toy");
    write_toy(other, &a);
    must_fail(other, NULL, TENMAP_ERR_NOT_FOUND,
              "first of 2 parts (parts), but its name does not end in -00001-of-00002.toy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_directory_at_the_end_opens_in_every_way, empty_folder),
        cmocka_unit_test_setup(ranges_count_from_the_first_byte_of_the_model, empty_folder),
        cmocka_unit_test_setup(a_fingerprint_covers_the_directory, empty_folder),
        cmocka_unit_test_setup(ranges_outside_of_the_file_are_refused, empty_folder),
        cmocka_unit_test_setup(all_ranges_together_are_limited, empty_folder),
        cmocka_unit_test_setup(overlapping_ranges_count_each_time, empty_folder),
        cmocka_unit_test_setup(directories_that_are_broken_are_refused, empty_folder),
        cmocka_unit_test_setup(failing_reads_reach_the_caller, empty_folder),
        cmocka_unit_test_setup(short_reads_are_errors, empty_folder),
        cmocka_unit_test_setup(it_is_copied_into_safetensors, empty_folder),
        cmocka_unit_test_setup(a_folder_prefers_as_its_containers_say, empty_folder),
        cmocka_unit_test_setup(an_index_lists_files_of_its_container, empty_folder),
        cmocka_unit_test_setup(parts_are_found_by_the_first, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
