/* Writing: layout, refusals, all or nothing, links and modes, copies, threads, a real corpus. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* without it readdir stops at large offsets on 32-bit hosts */
#endif
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static tenmap_writer *must_create(const char *path, const tenmap_writer_options *options) {
    tenmap_error error = {0};
    tenmap_writer *w = NULL;
    if (tenmap_writer_create(path, options, &w, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return w;
}

static size_t must_add(tenmap_writer *w, const char *name, tenmap_dtype dtype, uint64_t n) {
    tenmap_error error = {0};
    size_t id = 99;
    if (tenmap_writer_add(w, name, TENMAP_CSTR, dtype, &n, 1, &id, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return id;
}

static void must_write(tenmap_writer *w, size_t id, uint64_t offset, const void *data, size_t n) {
    tenmap_error error = {0};
    if (tenmap_writer_write(w, id, offset, data, n, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
}

static void must_commit(tenmap_writer *w) {
    tenmap_error error = {0};
    if (tenmap_writer_commit(w, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
}

/* A small model whose only tensor "t" holds one byte, which distinguishes it from others. */
static void write_byte_model(const char *path, unsigned char value) {
    tenmap_writer *w = must_create(path, NULL);
    size_t id = must_add(w, "t", TENMAP_U8, 1);
    must_write(w, id, 0, &value, 1);
    must_commit(w);
}

static int byte_of_model(const char *path) {
    tenmap_model *m = must_open(path, NULL);
    unsigned char value;
    assert_int_equal(tenmap_read_bytes(tenmap_find(m, "t"), 0, 1, &value, NULL), TENMAP_OK);
    tenmap_close(m);
    return value;
}

static void layout_is_the_references(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    tenmap_writer *w = must_create(path, NULL);
    tenmap_error error = {0};
    assert_int_equal(
        tenmap_writer_metadata(w, "k\n", TENMAP_CSTR, "\"\x01\x7f\\\b\f", TENMAP_CSTR, &error),
        TENMAP_OK);
    size_t a = must_add(w, "b", TENMAP_U8, 3), b = must_add(w, "a", TENMAP_U8, 1),
           c = must_add(w, "z", TENMAP_F32, 1), d;
    assert_int_equal(tenmap_writer_add(w, "s", 1, TENMAP_BF16, NULL, 0, &d, &error), TENMAP_OK);
    must_write(w, a, 0, "bbb", 3);
    must_write(w, b, 0, "a", 1);
    must_write(w, c, 0, "zzzz", 4);
    must_write(w, d, 0, "ss", 2);
    must_commit(w);
    const char *text = "{\"__metadata__\":{\"k\\n\":\"\\\"\\u0001\x7f\\\\\\b\\f\"},"
                       "\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                       "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[4,6]},"
                       "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[6,7]},"
                       "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[7,10]}}";
    bytes file = read_whole(path);
    size_t padded = (strlen(text) + 7) / 8 * 8;
    assert_int_equal(file.size, 8 + padded + 10);
    assert_int_equal(file.at[0] | file.at[1] << 8, padded);
    assert_memory_equal(file.at + 8, text, strlen(text));
    for (size_t i = strlen(text); i < padded; i++)
        assert_int_equal(file.at[8 + i], ' ');
    assert_memory_equal(file.at + 8 + padded, "zzzzssabbb", 10);
    free(file.at);
}

static void alignment_slack_and_order_are_options(void **state) {
    NEEDS_FILES();
    const char *path = in_folder(state, "m.safetensors");
    static const uint32_t alignments[] = {0, 1, 8, 64, 4096, 2 << 20};
    for (size_t i = 0; i < COUNT(alignments); i++) {
        tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
        options.data_alignment = alignments[i];
        options.header_slack = 100;
        options.flags = TENMAP_WRITER_KEEP_ORDER;
        tenmap_writer *w = must_create(path, &options);
        size_t a = must_add(w, "a", TENMAP_U8, 1), b = must_add(w, "b", TENMAP_F32, 1);
        must_write(w, b, 0, "1234", 4);
        must_write(w, a, 0, "x", 1);
        must_commit(w);
        tenmap_model *m = must_open(path, NULL);
        const tenmap_shard *shard = tenmap_shard_at(m, 0);
        assert_int_equal(shard->data_offset % (alignments[i] < 8 ? 8 : alignments[i]), 0);
        const char *text = (const char *)shard->base + 8;
        for (size_t k = 1; k <= 100; k++)
            assert_int_equal(text[shard->header_bytes - k], ' ');
        assert_string_equal(tenmap_at(m, 0)->name, "a");
        assert_memory_equal(tenmap_find(m, "b")->data, "1234", 4);
        tenmap_close(m);
    }
}

static void bad_options_are_refused(void **state) {
    tenmap_error error = {0};
    tenmap_writer *w = (tenmap_writer *)&error;
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    const char *path = in_folder(state, "m.safetensors");
    options.data_alignment = 48;
    check_refused(tenmap_writer_create(path, &options, &w, &error), &error, TENMAP_ERR_ARGUMENT,
                  "power of two");
    assert_null(w);
    options.data_alignment = 4 << 20;
    check_refused(tenmap_writer_create(path, &options, &w, &error), &error, TENMAP_ERR_ARGUMENT,
                  "power of two");
    options.data_alignment = 0;
    options.flags = 64;
    check_refused(tenmap_writer_create(path, &options, &w, &error), &error, TENMAP_ERR_ARGUMENT,
                  "0x40");
    options.struct_size = 0;
    check_refused(tenmap_writer_create(path, &options, &w, &error), &error, TENMAP_ERR_ARGUMENT,
                  "TENMAP_WRITER_OPTIONS_INIT");
    check_refused(tenmap_writer_create(NULL, NULL, &w, &error), &error, TENMAP_ERR_ARGUMENT,
                  "NULL");
    check_refused(tenmap_writer_create(*state, NULL, &w, &error), &error, TENMAP_ERR_IO, "folder");
    check_refused(tenmap_writer_create(in_folder(state, "no/m"), NULL, &w, &error), &error,
                  TENMAP_ERR_NOT_FOUND, "no such file or folder");
    assert_int_equal(count_names(*state), 0);
    tenmap_writer_abort(NULL);
}

static void declarations_are_refused_with_a_sentence(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    tenmap_writer *w = must_create(path, NULL);
    tenmap_error e = {0};
    uint64_t one = 1, odd = 3, huge[] = {UINT64_C(1) << 63, 2, 0}, large = (UINT64_C(1) << 61) - 1;
    must_add(w, "t", TENMAP_U8, 1);
    check_refused(tenmap_writer_add(w, "t", 1, TENMAP_F32, &one, 1, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "tensor \"t\": the name appears twice");
    check_refused(tenmap_writer_add(w, "__metadata__", TENMAP_CSTR, TENMAP_U8, &one, 1, NULL, &e),
                  &e, TENMAP_ERR_ARGUMENT, "reserves that name for metadata");
    check_refused(tenmap_writer_add(w, "a\xff", 2, TENMAP_U8, &one, 1, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "not valid UTF-8 at its byte 1");
    check_refused(tenmap_writer_metadata(w, "k", 1, "\xed\xa0\x80", 3, &e), &e, TENMAP_ERR_ARGUMENT,
                  "not valid UTF-8");
    assert_int_equal(tenmap_writer_metadata(w, "k", 1, "v", 1, &e), TENMAP_OK);
    check_refused(tenmap_writer_metadata(w, "k", 1, "w", 1, &e), &e, TENMAP_ERR_ARGUMENT,
                  "metadata key \"k\" appears twice");
    check_refused(tenmap_writer_add(w, "f4", 2, TENMAP_F4, &odd, 1, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "3 elements of F4 are not a whole number of bytes");
    check_refused(tenmap_writer_add(w, "h", 1, TENMAP_U8, huge, 3, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "64 bits");
    check_refused(tenmap_writer_add(w, "h", 1, TENMAP_U8, &large, 1, NULL, &e), &e,
                  TENMAP_ERR_LIMIT, "too large");
    check_refused(tenmap_writer_add(w, "o", 1, TENMAP_OPAQUE, &one, 1, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "OPAQUE");
    check_refused(tenmap_writer_add(w, "q", 1, TENMAP_Q4_0, &one, 1, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "its dtype is 64 (Q4_0), which cannot be written");
    check_refused(tenmap_writer_add(w, "o", 1, TENMAP_U8, NULL, 1, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "shape is NULL");
    must_write(w, 0, 0, "x", 1);
    must_commit(w); /* refusals change nothing */
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_count(m), 1);
    assert_string_equal(tenmap_metadata_get(m, "k"), "v");
    tenmap_close(m);
}

static void writes_are_refused_with_a_sentence(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    tenmap_error e = {0};
    write_byte_model(path, 7);
    tenmap_writer *w = must_create(path, NULL);
    size_t id = must_add(w, "t", TENMAP_U8, 10);
    must_add(w, "u", TENMAP_U8, 4);
    check_refused(tenmap_writer_write(w, id, 8, "xyz", 3, &e), &e, TENMAP_ERR_RANGE,
                  "it has 10 bytes; 3 bytes from 8 on are out of range");
    check_refused(tenmap_writer_write(w, 2, 0, "x", 1, &e), &e, TENMAP_ERR_ARGUMENT, "number 2");
    must_write(w, id, 2, "abc", 3);
    check_refused(tenmap_writer_write(w, id, 4, "x", 1, &e), &e, TENMAP_ERR_ARGUMENT, "overlap");
    check_refused(tenmap_writer_write(w, id, 0, "xxxxxx", 6, &e), &e, TENMAP_ERR_ARGUMENT,
                  "overlap");
    check_refused(tenmap_writer_write(w, id, 0, "xxx", 3, &e), &e, TENMAP_ERR_ARGUMENT, "overlap");
    must_write(w, id, 5, "def", 3);
    must_write(w, id, 0, "AB", 2);
    check_refused(tenmap_writer_add(w, "n", 1, TENMAP_U8, NULL, 0, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "nothing can be added");
    check_refused(tenmap_writer_commit(w, &e), &e, TENMAP_ERR_ARGUMENT,
                  "6 bytes of 2 tensors were never written: \"t\", \"u\"");
    assert_int_equal(byte_of_model(path), 7);
    assert_int_equal(count_names(*state), 1);
}

static void a_header_over_the_limit_is_refused(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    enum { LARGE = 100000000 };
    tenmap_error e = {0};
    char *value = malloc(LARGE);
    memset(value, 'v', LARGE);
    tenmap_writer *w = must_create(path, NULL);
    must_add(w, "t", TENMAP_U8, 0);
    assert_int_equal(tenmap_writer_metadata(w, "k", 1, value, LARGE, &e), TENMAP_OK);
    free(value);
    check_refused(tenmap_writer_commit(w, &e), &e, TENMAP_ERR_LIMIT, "over the 100000000");
    assert_int_equal(count_names(*state), 0);
}

static void an_empty_model_is_a_model(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    must_commit(must_create(path, NULL));
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_count(m), 0);
    tenmap_close(m);
}

static void abort_leaves_no_trace(void **state) {
    tenmap_writer *w = must_create(in_folder(state, "m.safetensors"), NULL);
    must_add(w, "t", TENMAP_U8, 1);
    must_write(w, 0, 0, "x", 1);
    assert_int_equal(count_names(*state), 1);
    tenmap_writer_abort(w);
    assert_int_equal(count_names(*state), 0);
}

static mode_t mode_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void the_mode_is_a_plain_creations_or_the_old_files(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    mode_t before = (mode_t)umask(027);
    write_byte_model(path, 1);
    umask(before);
    assert_int_equal(mode_of(path), 0640);
    static const mode_t modes[] = {0600, 0644, 0444, 0666};
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        write_byte_model(path, 2);
        assert_int_equal(mode_of(path), modes[i]);
    }
    if (getuid() == 0) {
        struct stat st;
        assert_int_equal(chown(path, 1234, 2345), 0);
        write_byte_model(path, 3);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_uid, 1234);
        assert_int_equal(st.st_gid, 2345);
    }
}

static void an_open_model_keeps_its_data(void **state) {
    NEEDS_FILES();
    const char *path = in_folder(state, "m.safetensors");
    write_byte_model(path, 1);
    tenmap_model *m = must_open(path, NULL);
    write_byte_model(path, 2);
    assert_int_equal(*(const unsigned char *)tenmap_find(m, "t")->data, 1);
    assert_int_equal(byte_of_model(path), 2);
    tenmap_close(m);
}

static void links_are_shared_with_nobody(void **state) {
    const char *blob = in_folder(state, "blob"), *link_path = in_folder(state, "m.safetensors");
    struct stat st;
    write_byte_model(blob, 1);
    assert_int_equal(symlink("blob", link_path), 0);
    write_byte_model(link_path, 2);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(byte_of_model(blob), 1);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(link(blob, link_path), 0);
    write_byte_model(link_path, 3);
    assert_int_equal(byte_of_model(blob), 1);
    assert_int_equal(byte_of_model(link_path), 3);
}

static void links_are_followed_when_asked(void **state) {
    const char *blob = in_folder(state, "blob"), *link_path = in_folder(state, "m.safetensors");
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    struct stat st;
    write_byte_model(blob, 1);
    assert_int_equal(symlink("blob", link_path), 0);
    options.flags = TENMAP_WRITER_FOLLOW_LINKS;
    tenmap_writer *w = must_create(link_path, &options);
    must_add(w, "t", TENMAP_U8, 1);
    must_write(w, 0, 0, "\2", 1);
    must_commit(w);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(byte_of_model(blob), 2);
}

static void stale_temporaries_are_removed_and_live_ones_kept(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_text(in_folder(state, ".m.safetensors.tenmap-0123456789abcdef.tmp"), "stale");
    write_text(in_folder(state, ".m.safetensors.tenmap-0123456789abcde.tmp"), "not ours");
    write_text(in_folder(state, ".n.safetensors.tenmap-0123456789abcdef.tmp"), "another path's");
    tenmap_writer *live = must_create(path, NULL);
    assert_int_equal(count_names(*state), 3);
    write_byte_model(path, 1);
    assert_int_equal(count_names(*state), 4); /* the live one is still there */
    must_add(live, "t", TENMAP_U8, 1);
    must_write(live, 0, 0, "\5", 1);
    must_commit(live);
    assert_int_equal(byte_of_model(path), 5);
    assert_int_equal(count_names(*state), 3);
}

static void long_names_and_changed_folders_work(void **state) {
    char name[256], here[4096];
    memset(name, 'n', 255);
    name[255] = '\0';
    write_byte_model(in_folder(state, name), 9);
    assert_int_equal(byte_of_model(in_folder(state, name)), 9);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(*state), 0);
    tenmap_writer *w = must_create("relative.safetensors", NULL);
    assert_int_equal(chdir("/"), 0);
    must_commit(w);
    tenmap_close(must_open(in_folder(state, "relative.safetensors"), NULL));
    assert_int_equal(chdir(here), 0);
}

/* A writer whose name commit would refuse is not created. */
static void names_too_long_for_the_system_fail_at_once(void **state) {
    char name[257];
    tenmap_writer *w = NULL;
    tenmap_error e = {0};
    memset(name, 'n', 256);
    name[256] = '\0';
    assert_int_not_equal(tenmap_writer_create(in_folder(state, name), NULL, &w, &e), TENMAP_OK);
    assert_null(w);
    check_error(&e, e.status);
    if (!strstr(e.message, "too long"))
        fail_msg("message is: %s", e.message);
    assert_int_equal(count_names(*state), 0);
}

static void slack_beyond_any_header_is_refused_at_once(void **state) {
    static const uint32_t slacks[] = {100000001, UINT32_MAX - 100, UINT32_MAX};
    for (size_t i = 0; i < COUNT(slacks); i++) {
        tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
        tenmap_writer *w = NULL;
        tenmap_error e = {0};
        options.header_slack = slacks[i];
        assert_int_equal(tenmap_writer_create(in_folder(state, "m.safetensors"), &options, &w, &e),
                         TENMAP_ERR_ARGUMENT);
        assert_null(w);
        assert_non_null(strstr(e.message, "options.header_slack"));
    }
    assert_int_equal(count_names(*state), 0);
}

/* Threads: each writes every fourth piece of each tensor. */
enum { THREADS = 4, TENSORS = 20, PIECES = 64, PIECE = 1000 };

typedef struct thread_job {
    tenmap_writer *writer;
    size_t number;
} thread_job;

static unsigned char byte_at(size_t tensor, size_t i) {
    return (unsigned char)(tensor * 31 + i * 7 + (i >> 8));
}

static void *write_pieces(void *ctx) {
    const thread_job *job = ctx;
    unsigned char piece[PIECE];
    for (size_t p = job->number; p < PIECES; p += THREADS)
        for (size_t t = 0; t < TENSORS; t++) {
            for (size_t i = 0; i < PIECE; i++)
                piece[i] = byte_at(t, p * PIECE + i);
            if (tenmap_writer_write(job->writer, t, p * PIECE, piece, PIECE, NULL) != TENMAP_OK)
                return ctx;
        }
    return NULL;
}

static void threads_write_at_once(void **state) {
    NEEDS_FILES();
    const char *path = in_folder(state, "m.safetensors");
    tenmap_writer *w = must_create(path, NULL);
    for (size_t t = 0; t < TENSORS; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%02zu", t);
        must_add(w, name, TENMAP_U8, PIECES * PIECE);
    }
    pthread_t threads[THREADS];
    thread_job jobs[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        jobs[i] = (thread_job){w, i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_pieces, &jobs[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    must_commit(w);
    tenmap_model *m = must_open(path, NULL);
    for (size_t t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < PIECES * PIECE; i++)
            assert_true(((const unsigned char *)tenmap_at(m, t)->data)[i] == byte_at(t, i));
    tenmap_close(m);
}

/* Writes every tensor and metadata pair of a model to a new file. */
static void rewrite(const tenmap_model *m, const char *path) {
    tenmap_error e = {0};
    tenmap_writer *w = must_create(path, NULL);
    for (size_t i = 0; i < tenmap_metadata_count(m); i++) {
        const tenmap_metadata *p = tenmap_metadata_at(m, i);
        assert_int_equal(tenmap_writer_metadata(w, p->key, p->key_len, p->value, p->value_len, &e),
                         TENMAP_OK);
    }
    for (size_t i = 0; i < tenmap_count(m); i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        size_t id;
        assert_int_equal(
            tenmap_writer_add(w, t->name, t->name_len, t->dtype, t->shape, t->rank, &id, &e),
            TENMAP_OK);
        assert_int_equal(id, i);
    }
    for (size_t i = 0; i < tenmap_count(m); i++)
        if (tenmap_writer_copy(w, i, tenmap_at(m, i), 0, &e) != TENMAP_OK)
            fail_msg("%s", e.message);
    must_commit(w);
}

static void models_are_equal(const tenmap_model *a, const tenmap_model *b) {
    assert_int_equal(tenmap_count(a), tenmap_count(b));
    assert_int_equal(tenmap_metadata_count(a), tenmap_metadata_count(b));
    for (size_t i = 0; i < tenmap_metadata_count(a); i++) {
        const tenmap_metadata *x = tenmap_metadata_at(a, i), *y = tenmap_metadata_at(b, i);
        assert_int_equal(x->key_len, y->key_len);
        assert_int_equal(x->value_len, y->value_len);
        assert_memory_equal(x->key, y->key, x->key_len);
        assert_memory_equal(x->value, y->value, x->value_len);
    }
    for (size_t i = 0; i < tenmap_count(a); i++) {
        const tenmap_tensor *x = tenmap_at(a, i), *y = tenmap_find_n(b, x->name, x->name_len);
        assert_non_null(y);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->nbytes, y->nbytes);
        if (x->rank)
            assert_memory_equal(x->shape, y->shape, x->rank * sizeof *x->shape);
        if (x->nbytes)
            assert_memory_equal(x->data, y->data, (size_t)x->nbytes);
    }
}

static void corpus_files_survive_a_round_trip(void **state) {
    NEEDS_FILES();
    const char *corpus = getenv("TENMAP_CORPUS");
    char folder[4096], path[8192];
    size_t walked = 0;
    if (!corpus || !*corpus) {
        print_message("SKIPPED: TENMAP_CORPUS does not name a corpus; walked 0 files\n");
        return;
    }
    snprintf(folder, sizeof folder, "%s/real", corpus);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    const struct dirent *e;
    while ((e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        tenmap_model *m = must_open(path, NULL);
        rewrite(m, in_folder(state, "copy.safetensors"));
        tenmap_model *copy = must_open(in_folder(state, "copy.safetensors"), NULL);
        models_are_equal(m, copy);
        tenmap_close(copy);
        tenmap_close(m);
        walked++;
    }
    closedir(dir);
    print_message("           walked %zu real files\n", walked);
    assert_true(walked > 0);
}

static void copies_convert_in_parts(void **state) {
    enum { N = 200001 }; /* several parts and a rest */
    const char *path = in_folder(state, "m.safetensors"), *out = in_folder(state, "o.safetensors");
    float *values = malloc(N * sizeof *values);
    uint16_t *want = malloc(N * sizeof *want);
    for (size_t i = 0; i < N; i++)
        values[i] = (float)i * 0.37f - 1000.0f;
    tenmap_writer *w = must_create(path, NULL);
    size_t id = must_add(w, "t", TENMAP_F32, N);
    unsigned char *file_order = malloc(N * 4);
    for (size_t i = 0; i < N; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        for (int k = 0; k < 4; k++)
            file_order[i * 4 + (size_t)k] = (unsigned char)(bits >> (8 * k));
    }
    must_write(w, id, 0, file_order, N * 4);
    must_commit(w);
    assert_int_equal(tenmap_convert(TENMAP_BF16, want, N * 2, TENMAP_F32, values, N, 0, NULL),
                     TENMAP_OK);
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        tenmap_model *m = must_open(path, &options);
        w = must_create(out, NULL);
        must_add(w, "t", TENMAP_BF16, N);
        assert_int_equal(tenmap_writer_copy(w, 0, tenmap_at(m, 0), 0, NULL), TENMAP_OK);
        must_commit(w);
        tenmap_model *copy = must_open(out, NULL);
        uint16_t *got = malloc(N * sizeof *got);
        assert_int_equal(tenmap_read(tenmap_at(copy, 0), 0, N, TENMAP_BF16, got, N * 2, 0, NULL),
                         TENMAP_OK);
        assert_memory_equal(got, want, N * 2);
        free(got);
        tenmap_close(copy);
        tenmap_close(m);
    }
    free(values);
    free(want);
    free(file_order);
}

static void copies_come_from_memory_and_are_refused(void **state) {
    NEEDS_FILES();
    bytes file = make_model("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    tenmap_model *m = must_open_memory(file, NULL);
    tenmap_error e = {0};
    tenmap_writer *w = must_create(in_folder(state, "m.safetensors"), NULL);
    size_t same = must_add(w, "same", TENMAP_F32, 2), other = must_add(w, "other", TENMAP_F32, 3),
           integer = must_add(w, "integer", TENMAP_I32, 2);
    const tenmap_tensor *t = tenmap_at(m, 0);
    check_refused(tenmap_writer_copy(w, other, t, 0, &e), &e, TENMAP_ERR_RANGE,
                  "it has 3 elements, but the source \"t\" has 2");
    check_refused(tenmap_writer_copy(w, integer, t, 0, &e), &e, TENMAP_ERR_UNSUPPORTED,
                  "F32 to I32");
    check_refused(tenmap_writer_copy(w, 3, t, 0, &e), &e, TENMAP_ERR_ARGUMENT, "number 3");
    check_refused(tenmap_writer_copy(w, same, NULL, 0, &e), &e, TENMAP_ERR_ARGUMENT, "NULL");
    check_refused(tenmap_writer_copy(w, same, t, 64, &e), &e, TENMAP_ERR_ARGUMENT, "flags");
    assert_int_equal(tenmap_writer_copy(w, same, t, 0, &e), TENMAP_OK);
    check_refused(tenmap_writer_copy(w, same, t, 0, &e), &e, TENMAP_ERR_ARGUMENT, "overlap");
    must_write(w, other, 0, "123456789012", 12);
    must_write(w, integer, 0, "12345678", 8);
    must_commit(w);
    tenmap_close(m);
    m = must_open(in_folder(state, "m.safetensors"), NULL);
    assert_memory_equal(tenmap_find(m, "same")->data, file.at + file.size - 8, 8);
    tenmap_close(m);
    free(file.at);
}

/* With TENMAP_BACKEND_READ, a model in memory has no data pointers. */
static void memory_that_is_read_is_copied(void **state) {
    NEEDS_FILES();
    bytes file = make_model("{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = TENMAP_BACKEND_READ;
    tenmap_model *m = must_open_memory(file, &options);
    tenmap_error e = {0};
    tenmap_writer *w = must_create(in_folder(state, "m.safetensors"), NULL);
    size_t id = must_add(w, "t", TENMAP_F32, 2);
    assert_null(tenmap_at(m, 0)->data);
    assert_int_equal(tenmap_writer_copy(w, id, tenmap_at(m, 0), 0, &e), TENMAP_OK);
    must_commit(w);
    tenmap_close(m);
    m = must_open(in_folder(state, "m.safetensors"), NULL);
    assert_memory_equal(tenmap_at(m, 0)->data, file.at + file.size - 8, 8);
    tenmap_close(m);
    free(file.at);
}

static void a_source_that_shrinks_spoils_the_writer(void **state) {
    NEEDS_FILES();
    const char *path = in_folder(state, "m.safetensors"), *out = in_folder(state, "o.safetensors");
    tenmap_error e = {0};
    write_model(path, "{\"t\":{\"dtype\":\"U8\",\"shape\":[5000],\"data_offsets\":[0,5000]}}",
                5000);
    write_byte_model(out, 1);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(truncate(path, 3000), 0);
    tenmap_writer *w = must_create(out, NULL);
    must_add(w, "t", TENMAP_U8, 5000);
    check_refused(tenmap_writer_copy(w, 0, tenmap_at(m, 0), 0, &e), &e, TENMAP_ERR_IO, "truncated");
    check_refused(tenmap_writer_commit(w, &e), &e, TENMAP_ERR_IO, "truncated");
    assert_int_equal(byte_of_model(out), 1);
    tenmap_close(m);
}

typedef struct watching {
    uint64_t done, total, cancel_at;
    size_t calls;
} watching;

/* As stored or converted, mapped or read: bytes that another program wrote are not copied. */
static void a_source_that_is_modified_spoils_the_writer(void **state) {
    NEEDS_FILES();
    for (int i = 0; i < 4; i++) {
        const char *path = in_folder(state, "m.safetensors");
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = i % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        write_model(path, "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
        tenmap_model *m = must_open(path, &options);
        modify_data(path);
        tenmap_writer *w = must_create(in_folder(state, "out.safetensors"), NULL);
        size_t id = must_add(w, "t", i < 2 ? TENMAP_F32 : TENMAP_F64, 2);
        tenmap_error e = {0};
        check_refused(tenmap_writer_copy(w, id, tenmap_at(m, 0), 0, &e), &e, TENMAP_ERR_IO,
                      "another program has modified the file");
        assert_non_null(strstr(e.message, "tensor \"t\""));
        assert_int_not_equal(tenmap_writer_commit(w, NULL), TENMAP_OK);
        assert_int_not_equal(access(in_folder(state, "out.safetensors"), F_OK), 0);
        tenmap_close(m);
    }
}

static int watch(void *ctx, uint64_t done, uint64_t total) {
    watching *seen = ctx;
    assert_true(done >= seen->done && done <= total);
    *seen = (watching){done, total, seen->cancel_at, seen->calls + 1};
    return done >= seen->cancel_at;
}

/* A model of one large tensor, which takes several parts, and 40 small ones. */
enum { LIST_LARGE = 5000003, LIST_SMALL = 40 };

static void declare_list(tenmap_writer *w, tenmap_dtype large, const char *prefix) {
    must_add(w, prefix, large, LIST_LARGE);
    for (size_t i = 0; i < LIST_SMALL; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s%zu", prefix, i);
        must_add(w, name, TENMAP_U8, i);
    }
}

static tenmap_model *make_list(const char *path) {
    float *values = malloc(LIST_LARGE * sizeof *values);
    tenmap_writer *w = must_create(path, NULL);
    declare_list(w, TENMAP_F32, "t");
    for (size_t i = 0; i < LIST_LARGE; i++) {
        union {
            float value;
            unsigned char bytes[4];
        } x = {(float)(i % 4001) - 2000}, y = x;
        const unsigned one = 1;
        for (size_t k = 0; k < 4 && !*(const unsigned char *)&one; k++)
            y.bytes[k] = x.bytes[3 - k];
        values[i] = y.value;
    }
    must_write(w, 0, 0, values, LIST_LARGE * sizeof *values);
    for (size_t i = 0; i < LIST_SMALL; i++)
        must_write(w, i + 1, 0, "0123456789012345678901234567890123456789", i);
    must_commit(w);
    free(values);
    return must_open(path, NULL);
}

static void list_sources(tenmap_source *sources, const tenmap_model *m) {
    memset(sources, 0, (LIST_SMALL + 1) * sizeof *sources);
    for (size_t i = 0; i <= LIST_SMALL; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%zu", i - 1);
        sources[i].tensor = tenmap_find(m, i ? name : "t");
    }
}

static void lists_are_copied_on_threads(void **state) {
    NEEDS_FILES();
    const char *path = in_folder(state, "m.safetensors"), *out = in_folder(state, "o.safetensors");
    tenmap_model *m = make_list(path);
    tenmap_source sources[LIST_SMALL + 1];
    list_sources(sources, m);
    sources[7].tensor = NULL;
    sources[7].data = "abcdef";
    for (uint32_t threads = 0; threads < 4; threads++) {
        tenmap_copy_options options = TENMAP_COPY_OPTIONS_INIT;
        watching seen = {0, 0, UINT64_MAX, 0};
        tenmap_error e = {0};
        options.threads = threads;
        options.progress = watch;
        options.ctx = &seen;
        tenmap_writer *w = must_create(out, NULL);
        declare_list(w, threads == 1 ? TENMAP_F32 : TENMAP_F16, "u");
        if (tenmap_writer_copy_list(w, sources, LIST_SMALL + 1, &options, &e) != TENMAP_OK)
            fail_msg("%s", e.message);
        must_commit(w);
        assert_int_equal(seen.total, LIST_LARGE * 4u + LIST_SMALL * (LIST_SMALL - 1) / 2);
        assert_int_equal(seen.done, seen.total);
        assert_true(seen.calls > 1);
        tenmap_model *copy = must_open(out, NULL);
        const tenmap_tensor *t = tenmap_find(copy, "u");
        for (uint64_t i = 0; i < LIST_LARGE; i += 100003) {
            float value = 0;
            assert_int_equal(tenmap_read(t, i, 1, TENMAP_F32, &value, sizeof value, 0, NULL),
                             TENMAP_OK);
            assert_true(value == (float)(i % 4001) - 2000);
        }
        assert_memory_equal(tenmap_find(copy, "u39")->data, "012345678901234567890", 21);
        assert_memory_equal(tenmap_find(copy, "u6")->data, "abcdef", 6);
        tenmap_close(copy);
    }
    tenmap_close(m);
}

static void lists_are_cancelled_and_refused(void **state) {
    const char *path = in_folder(state, "m.safetensors"), *out = in_folder(state, "o.safetensors");
    tenmap_model *m = make_list(path);
    tenmap_source sources[LIST_SMALL + 1];
    tenmap_copy_options options = TENMAP_COPY_OPTIONS_INIT;
    tenmap_error e = {0};
    list_sources(sources, m);
    for (uint32_t threads = 1; threads < 3; threads++) {
        watching seen = {0, 0, 10000000, 0};
        tenmap_writer *w = must_create(out, NULL);
        options.threads = threads;
        options.progress = watch;
        options.ctx = &seen;
        declare_list(w, TENMAP_BF16, "u");
        check_refused(tenmap_writer_copy_list(w, sources, LIST_SMALL + 1, &options, &e), &e,
                      TENMAP_ERR_CANCELLED, "cancelled");
        check_refused(tenmap_writer_commit(w, &e), &e, TENMAP_ERR_CANCELLED, "cancelled");
    }
    tenmap_writer *w = must_create(out, NULL);
    declare_list(w, TENMAP_BF16, "u");
    sources[3].tensor = NULL;
    check_refused(tenmap_writer_copy_list(w, sources, LIST_SMALL + 1, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "source 3 has neither");
    assert_int_equal(e.index, 3);
    sources[3].tensor = sources[4].tensor;
    check_refused(tenmap_writer_copy_list(w, sources, LIST_SMALL + 1, NULL, &e), &e,
                  TENMAP_ERR_RANGE, "it has 2 elements");
    options.flags = 1;
    check_refused(tenmap_writer_copy_list(w, sources, 1, &options, &e), &e, TENMAP_ERR_ARGUMENT,
                  "flags");
    check_refused(tenmap_writer_copy_list(w, NULL, 1, NULL, &e), &e, TENMAP_ERR_ARGUMENT, "NULL");
    check_refused(tenmap_writer_copy_list(NULL, sources, 1, NULL, &e), &e, TENMAP_ERR_ARGUMENT,
                  "NULL");
    assert_int_equal(tenmap_writer_copy_list(w, NULL, 0, NULL, &e), TENMAP_OK);
    tenmap_writer_abort(w);
    assert_int_equal(count_names(*state), 1);
    tenmap_close(m);
}

/* More names than the writer's first tables hold. */
static void hundreds_of_names_are_kept_apart(void **state) {
    NEEDS_FILES();
    enum { MANY = 300 };
    const char *path = in_folder(state, "m.safetensors");
    tenmap_writer *w = must_create(path, NULL);
    tenmap_error e = {0};
    char name[16];
    uint64_t one = 1;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(tenmap_writer_metadata(w, name, TENMAP_CSTR, "v", 1, &e), TENMAP_OK);
        assert_int_equal(must_add(w, name, TENMAP_U8, 1), i);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        check_refused(tenmap_writer_metadata(w, name, TENMAP_CSTR, "v", 1, &e), &e,
                      TENMAP_ERR_ARGUMENT, "appears twice");
        check_refused(tenmap_writer_add(w, name, TENMAP_CSTR, TENMAP_U8, &one, 1, NULL, &e), &e,
                      TENMAP_ERR_ARGUMENT, "appears twice");
    }
    for (int i = 0; i < MANY; i++)
        must_write(w, (size_t)i, 0, &(unsigned char){(unsigned char)i}, 1);
    must_commit(w);
    tenmap_model *m = must_open(path, NULL);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(*(const unsigned char *)tenmap_find(m, name)->data, i & 255);
        assert_string_equal(tenmap_metadata_get(m, name), "v");
    }
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(layout_is_the_references, empty_folder),
        cmocka_unit_test_setup(alignment_slack_and_order_are_options, empty_folder),
        cmocka_unit_test_setup(bad_options_are_refused, empty_folder),
        cmocka_unit_test_setup(declarations_are_refused_with_a_sentence, empty_folder),
        cmocka_unit_test_setup(writes_are_refused_with_a_sentence, empty_folder),
        cmocka_unit_test_setup(a_header_over_the_limit_is_refused, empty_folder),
        cmocka_unit_test_setup(an_empty_model_is_a_model, empty_folder),
        cmocka_unit_test_setup(abort_leaves_no_trace, empty_folder),
        cmocka_unit_test_setup(the_mode_is_a_plain_creations_or_the_old_files, empty_folder),
        cmocka_unit_test_setup(an_open_model_keeps_its_data, empty_folder),
        cmocka_unit_test_setup(links_are_shared_with_nobody, empty_folder),
        cmocka_unit_test_setup(links_are_followed_when_asked, empty_folder),
        cmocka_unit_test_setup(stale_temporaries_are_removed_and_live_ones_kept, empty_folder),
        cmocka_unit_test_setup(long_names_and_changed_folders_work, empty_folder),
        cmocka_unit_test_setup(names_too_long_for_the_system_fail_at_once, empty_folder),
        cmocka_unit_test_setup(slack_beyond_any_header_is_refused_at_once, empty_folder),
        cmocka_unit_test_setup(threads_write_at_once, empty_folder),
        cmocka_unit_test_setup(corpus_files_survive_a_round_trip, empty_folder),
        cmocka_unit_test_setup(copies_convert_in_parts, empty_folder),
        cmocka_unit_test_setup(copies_come_from_memory_and_are_refused, empty_folder),
        cmocka_unit_test_setup(memory_that_is_read_is_copied, empty_folder),
        cmocka_unit_test_setup(a_source_that_shrinks_spoils_the_writer, empty_folder),
        cmocka_unit_test_setup(a_source_that_is_modified_spoils_the_writer, empty_folder),
        cmocka_unit_test_setup(lists_are_copied_on_threads, empty_folder),
        cmocka_unit_test_setup(lists_are_cancelled_and_refused, empty_folder),
        cmocka_unit_test_setup(hundreds_of_names_are_kept_apart, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
