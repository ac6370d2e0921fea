/* Metadata edits: what changes and what does not, the three ways, records and repair. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef _WIN32
#include <grp.h>
#include <sys/wait.h>
#endif

enum { DATA = 40000 };
/* Escapes, an unknown field, white space and metadata in the middle: all must survive. */
static const char model_json[] =
    " {\"t\\u0041\" : {\"dtype\":\"U8\",\"shape\":[40000],\"data_offsets\":[0,40000],\"x\":[1, "
    "{\"a\\n\":2}]},\"__metadata__\":{\"k\":\"v\",\"\\u00e9\":\"\\\"\"}\t, "
    "\"u\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[40000,40000]}}";

/* With `slack` spaces after the text. */
static void make_file(const char *path, size_t slack) {
    write_model_slack(path, model_json, slack, DATA);
}

static uint32_t must_edit(const char *path, const char *key, const char *value, uint32_t flags) {
    tenmap_edit edit = {key, TENMAP_CSTR, value, TENMAP_CSTR, NULL};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    tenmap_error error = {0};
    uint32_t how = 0;
    options.flags = flags;
    if (tenmap_edit_metadata(path, &edit, 1, &options, &how, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return how;
}

/* The tensors must be unchanged; the metadata is k, é and perhaps `more`. */
static void check_model(const char *path, const char *k, const char *more) {
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_count(m), 2);
    const tenmap_tensor *t = tenmap_find(m, "tA");
    assert_non_null(t);
    assert_int_equal(t->nbytes, DATA);
    for (size_t i = 0; i < DATA; i++)
        assert_true(((const unsigned char *)t->data)[i] == pattern_byte(i));
    const char *value = tenmap_metadata_get(m, "k");
    if (k)
        assert_string_equal(value, k);
    else
        assert_null(value);
    assert_string_equal(tenmap_metadata_get(m, "\xc3\xa9"), "\"");
    if (more)
        assert_string_equal(tenmap_metadata_get(m, "more"), more);
    else
        assert_null(tenmap_metadata_get(m, "more"));
    tenmap_close(m);
}

static void what_fits_is_changed_in_place(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    make_file(path, 100);
    uint64_t inode = inode_of(path);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(must_edit(path, "more", "than before\n\x01", 0), TENMAP_EDIT_IN_PLACE);
    check_model(path, "v", "than before\n\x01");
    assert_int_equal(must_edit(path, "k", "w", 0), TENMAP_EDIT_IN_PLACE);
    assert_int_equal(must_edit(path, "more", NULL, 0), TENMAP_EDIT_IN_PLACE);
    assert_int_equal(must_edit(path, "never there", NULL, 0), TENMAP_EDIT_IN_PLACE);
    check_model(path, "w", NULL);
    assert_int_equal(inode_of(path), inode);
    assert_int_equal(count_names(*state), 1);
    /* A model that is already open is not affected. */
    assert_int_equal(((const unsigned char *)tenmap_at(m, 0)->data)[77], pattern_byte(77));
    tenmap_close(m);
    bytes file = read_whole(path);
    assert_non_null(strstr((char *)file.at + 8, "\"x\":[1, {\"a\\n\":2}]}")); /* unchanged */
    free(file.at);
}

static void the_last_pair_takes_metadata_with_it(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    make_file(path, 0);
    tenmap_edit edits[] = {{"k", 1, NULL, 0, NULL}, {"\xc3\xa9", 2, NULL, 0, NULL}};
    uint32_t how;
    assert_int_equal(tenmap_edit_metadata(path, edits, 2, NULL, &how, NULL), TENMAP_OK);
    assert_int_equal(how, TENMAP_EDIT_IN_PLACE);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_metadata_count(m), 0);
    assert_int_equal(tenmap_count(m), 2);
    tenmap_close(m);
    bytes file = read_whole(path);
    assert_null(strstr((char *)file.at + 8, "__metadata__"));
    free(file.at);
}

/* Edits apply in order: a key that one edit removes and another adds comes last. */
static void later_edits_see_what_earlier_ones_did(void **state) {
    static const char *const due[] = {"\xc3\xa9", "new", "k"};
    const char *path = in_folder(state, "m.safetensors");
    tenmap_edit edits[] = {{"k", 1, NULL, 0, NULL},  {"none", 4, NULL, 0, NULL},
                           {"new", 3, "1", 1, NULL}, {"gone", 4, "2", 1, NULL},
                           {"k", 1, "3", 1, NULL},   {"gone", 4, NULL, 0, NULL},
                           {"new", 3, "4", 1, NULL}, {"gone", 4, NULL, 0, NULL}};
    make_file(path, 100);
    assert_int_equal(tenmap_edit_metadata(path, edits, 8, NULL, NULL, NULL), TENMAP_OK);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_metadata_count(m), 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(tenmap_metadata_at(m, i)->key, due[i]);
    assert_string_equal(tenmap_metadata_get(m, "k"), "3");
    assert_string_equal(tenmap_metadata_get(m, "new"), "4");
    tenmap_close(m);
}

static void what_does_not_fit_makes_a_new_file(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    char *value = malloc(5001);
    memset(value, 'x', 5000);
    value[5000] = '\0';
    make_file(path, 0);
    uint64_t inode = inode_of(path);
    uint32_t how = must_edit(path, "more", value, 0);
    assert_true(how == TENMAP_EDIT_CLONED || how == TENMAP_EDIT_COPIED);
    check_model(path, "v", value);
    assert_true(inode_of(path) != inode);
    free(value);
    assert_int_equal(must_edit(path, "k", "fits now", 0), TENMAP_EDIT_IN_PLACE);
    assert_int_equal(must_edit(path, "more", "y", TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE),
                     TENMAP_EDIT_COPIED);
    check_model(path, "fits now", "y");
    assert_int_equal(count_names(*state), 1);
}

static void alignment_survives_a_copy(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *w;
    uint64_t n = 8;
    options.data_alignment = 64;
    assert_int_equal(tenmap_writer_create(path, &options, &w, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_add(w, "t", 1, TENMAP_U8, &n, 1, NULL, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_write(w, 0, 0, "12345678", 8, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(w, NULL), TENMAP_OK);
    must_edit(path, "key", "value", TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_shard_at(m, 0)->data_offset % 64, 0);
    assert_memory_equal(tenmap_at(m, 0)->data, "12345678", 8);
    tenmap_close(m);
}

static void shared_files_are_left_alone(void **state) {
    const char *blob = in_folder(state, "blob"), *path = in_folder(state, "m.safetensors");
    struct stat st;
    make_file(blob, 100);
    assert_int_equal(symlink("blob", path), 0);
    assert_true(must_edit(path, "k", "w", 0) != TENMAP_EDIT_IN_PLACE);
    check_model(path, "w", NULL);
    check_model(blob, "v", NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(blob, path), 0);
    assert_true(must_edit(path, "k", "x", 0) != TENMAP_EDIT_IN_PLACE);
    check_model(path, "x", NULL);
    check_model(blob, "v", NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("blob", path), 0);
    assert_int_equal(must_edit(path, "k", "y", TENMAP_EDIT_FOLLOW_LINKS), TENMAP_EDIT_IN_PLACE);
    check_model(blob, "y", NULL);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void edits_are_refused_with_a_sentence(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    tenmap_error e = {0};
    tenmap_edit good = {"k", 1, "w", 1, NULL},
                bad[] = {{"k", 1, "w", 1, NULL}, {"l", 1, "\xff", 1, NULL}};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    uint32_t how = 77;
    make_file(path, 100);
    check_refused(tenmap_edit_metadata(path, bad, 2, NULL, &how, &e), &e, TENMAP_ERR_ARGUMENT,
                  "edit 1: the value is not valid UTF-8");
    assert_int_equal(e.index, 1);
    check_refused(tenmap_edit_metadata(*state, &good, 1, NULL, &how, &e), &e, TENMAP_ERR_ARGUMENT,
                  "folder");
    write_text(in_folder(state, "i.json"), "{\"weight_map\":{\"tA\":\"m.safetensors\"}}");
    check_refused(tenmap_edit_metadata(in_folder(state, "i.json"), &good, 1, NULL, &how, &e), &e,
                  TENMAP_ERR_ARGUMENT, "it is an index");
    check_refused(tenmap_edit_metadata(in_folder(state, "none"), &good, 1, NULL, &how, &e), &e,
                  TENMAP_ERR_NOT_FOUND, "no such file");
    options.flags = 64;
    check_refused(tenmap_edit_metadata(path, &good, 1, &options, &how, &e), &e, TENMAP_ERR_ARGUMENT,
                  "0x40");
    check_refused(tenmap_edit_metadata(NULL, &good, 1, NULL, &how, &e), &e, TENMAP_ERR_ARGUMENT,
                  "NULL");
    check_refused(tenmap_edit_metadata(path, NULL, 1, NULL, &how, &e), &e, TENMAP_ERR_ARGUMENT,
                  "NULL");
    options.flags = TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE | TENMAP_EDIT_NO_COPY;
    check_refused(tenmap_edit_metadata(path, &good, 1, &options, &how, &e), &e,
                  TENMAP_ERR_UNSUPPORTED, "would have to be copied");
    int fd = open(path, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    check_refused(tenmap_edit_metadata(path, &good, 1, NULL, &how, &e), &e, TENMAP_ERR_IO,
                  "another program is editing");
    close(fd);
    assert_int_equal(how, 77);
    check_model(path, "v", NULL);
}

/* Records, made by hand as docs/writing.md describes them. */

static void put_u64(unsigned char *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* Two headers of `n` bytes. */
static void write_record_texts(const char *record, const void *before, const void *after, size_t n,
                               uint64_t inode, uint64_t size) {
    size_t total = 40 + 2 * n + 8;
    unsigned char *r = calloc(1, total);
    memcpy(r, "TENMAPU1", 8);
    put_u64(r + 16, inode);
    put_u64(r + 24, size);
    put_u64(r + 32, n);
    memcpy(r + 40, before, n);
    memcpy(r + 40 + n, after, n);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < total - 8; i++)
        hash = (hash ^ r[i]) * UINT64_C(1099511628211);
    put_u64(r + total - 8, hash);
    write_file(record, r, total);
    free(r);
}

static void write_record(const char *record, const bytes *before, const bytes *after,
                         uint64_t inode, uint64_t size) {
    size_t n = (size_t)(before->at[0] | before->at[1] << 8);
    write_record_texts(record, before->at + 8, after->at + 8, n, inode, size);
}

/* Makes the file that an interrupted edit leaves behind. */
static void interrupt_edit(void **state, const char *path, const char *record) {
    make_file(path, 100);
    bytes before = read_whole(path);
    must_edit(path, "k", "new", 0);
    bytes after = read_whole(path);
    size_t n = (size_t)(before.at[0] | before.at[1] << 8);
    write_record(record, &before, &after, inode_of(path), before.size);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fwrite("\xff\xff\xff\xff\xff\xff\xff\xff", 1, 8, f);
    fwrite(after.at + 8, 1, n / 2, f);
    fwrite(before.at + 8 + n / 2, 1, n - n / 2, f);
    fclose(f);
    free(before.at);
    free(after.at);
    (void)state;
}

static void an_interrupted_edit_is_repaired(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    tenmap_error e = {0};
    tenmap_edit edit = {"k", 1, "x", 1, NULL};
    uint32_t how = 7;
    assert_int_equal(tenmap_repair_metadata(in_folder(state, "none"), 0, &how, &e),
                     TENMAP_ERR_NOT_FOUND);
    for (uint32_t flags = 0; flags < 2; flags++) {
        interrupt_edit(state, path, record);
        must_fail(path, NULL, TENMAP_ERR_LIMIT, "left the record \".m.safetensors.tenmap-undo\"");
        check_refused(tenmap_edit_metadata(path, &edit, 1, NULL, NULL, &e), &e, TENMAP_ERR_LIMIT,
                      "repairing its metadata");
        assert_int_equal(e.remedy, TENMAP_REMEDY_REPAIR);
        if (tenmap_repair_metadata(path, flags, &how, &e) != TENMAP_OK)
            fail_msg("%s", e.message);
        assert_int_equal(how, flags ? TENMAP_REPAIR_UNDONE : TENMAP_REPAIR_FINISHED);
        check_model(path, flags ? "v" : "new", NULL);
        assert_int_equal(tenmap_repair_metadata(path, flags, &how, &e), TENMAP_OK);
        assert_int_equal(how, TENMAP_REPAIR_NOTHING);
        assert_int_equal(count_names(*state), 1);
    }
}

static void records_that_do_not_belong_are_refused(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    tenmap_error e = {0};
    interrupt_edit(state, path, record);
    bytes kept = read_whole(record), model = read_whole(path);
    kept.at[50] ^= 1;
    write_file(record, kept.at, kept.size);
    check_refused(tenmap_repair_metadata(path, 0, NULL, &e), &e, TENMAP_ERR_FORMAT, "damaged");
    kept.at[50] ^= 1;
    write_file(record, kept.at, 30);
    check_refused(tenmap_repair_metadata(path, 0, NULL, &e), &e, TENMAP_ERR_FORMAT, "damaged");
    write_file(record, kept.at, kept.size);
    model.at[20] ^= 1;
    write_file(path, model.at, model.size); /* the same inode, other bytes */
    check_refused(tenmap_repair_metadata(path, 0, NULL, &e), &e, TENMAP_ERR_FORMAT,
                  "changed since");
    model.at[20] ^= 1;
    write_file(path, model.at, model.size - 1);
    check_refused(tenmap_repair_metadata(path, 0, NULL, &e), &e, TENMAP_ERR_FORMAT, "another file");
    const char *other = in_folder(state, "other");
    write_file(other, model.at, model.size);
    assert_int_equal(rename(other, path), 0);
    check_refused(tenmap_repair_metadata(path, 0, NULL, &e), &e, TENMAP_ERR_FORMAT, "another file");
    check_refused(tenmap_repair_metadata(path, 8, NULL, &e), &e, TENMAP_ERR_ARGUMENT, "flags");
    /* If the file opens, an edit removes the record beside it. */
    make_file(path, 100);
    assert_int_equal(must_edit(path, "k", "w", 0), TENMAP_EDIT_IN_PLACE);
    check_model(path, "w", NULL);
    assert_int_equal(count_names(*state), 1);
    free(kept.at);
    free(model.at);
}

/* The model has the good one of two headers; each text is tried as the record's other half. */
static void check_never_written(void **state, const char *other) {
    static const char good[] = "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":"
                               "[2],\"data_offsets\":[0,8],\"x\":1},\"b\":{\"dtype\":\"U8\","
                               "\"shape\":[8],\"data_offsets\":[8,16]}}";
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    char before[256], padded[256];
    size_t n = sizeof before;
    tenmap_error e = {0};
    assert_true(strlen(other) <= n);
    memset(before, ' ', n);
    memset(padded, ' ', n);
    memcpy(before, good, sizeof good - 1);
    memcpy(padded, other, strlen(other));
    bytes model = make_model_n(before, n, 16);
    write_file(path, model.at, model.size);
    for (uint32_t flags = 0; flags < 2; flags++) {
        write_record_texts(record, flags ? padded : before, flags ? before : padded, n,
                           inode_of(path), model.size);
        tenmap_status status = tenmap_repair_metadata(path, flags, NULL, &e);
        bytes there = read_whole(path);
        if (there.size != model.size || memcmp(there.at, model.at, there.size) != 0)
            fail_msg("a record wrote the header %s", other);
        check_refused(status, &e, TENMAP_ERR_FORMAT, "nothing was changed");
        free(there.at);
    }
    free(model.at);
}

static void a_record_can_change_metadata_only(void **state) {
#define MEMBER_A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}"
#define MEMBER_B "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}"
    static const char *const others[] = {
        "",
        "not JSON at all",
        "[]",
        "{}",
        "{\"__metadata__\":{\"k\":1}," MEMBER_A "," MEMBER_B "}",        /* no string */
        "{\"__metadata__\":{\"k\":\"\xff\"}," MEMBER_A "," MEMBER_B "}", /* no UTF-8 */
        "{" MEMBER_A "}",
        "{" MEMBER_A "," MEMBER_B "," MEMBER_B "}",
        "{" MEMBER_B "," MEMBER_A "}", /* an order that no edit makes */
        "{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}," MEMBER_B "}",
        "{\"a\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}," MEMBER_B "}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8],\"x\":1}," MEMBER_B "}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":2}," MEMBER_B "}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16],\"x\":1},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[8,15]}}",
    };
    for (size_t i = 0; i < COUNT(others); i++)
        check_never_written(state, others[i]);
    /* The last of these models, with a correct record. */
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    char text[256];
    bytes model = read_whole(path);
    memset(text, ' ', sizeof text);
    memcpy(text, "{" MEMBER_A "," MEMBER_B "}", strlen("{" MEMBER_A "," MEMBER_B "}"));
    write_record_texts(record, model.at + 8, text, sizeof text, inode_of(path), model.size);
    assert_int_equal(tenmap_repair_metadata(path, 0, NULL, NULL), TENMAP_OK);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_metadata_count(m), 0);
    assert_int_equal(tenmap_count(m), 2);
    tenmap_close(m);
    free(model.at);
}

#ifndef _WIN32
/* A record longer than two headers of this file could be: a sparse file. */
static void a_record_is_no_larger_than_two_headers(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    const uint64_t sizes[] = {2 * (uint64_t)DATA + 5000, 200000049, (uint64_t)1 << 40};
    tenmap_error e = {0};
    interrupt_edit(state, path, record);
    bytes model = read_whole(path);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        int fd = open(record, O_RDWR);
        assert_true(fd >= 0);
        if ((uint64_t)(off_t)sizes[i] == sizes[i] && ftruncate(fd, (off_t)sizes[i]) == 0)
            check_refused(tenmap_repair_metadata(path, 0, NULL, &e), &e, TENMAP_ERR_FORMAT,
                          "two headers of this file");
        close(fd);
    }
    bytes there = read_whole(path);
    assert_memory_equal(there.at, model.at, model.size);
    free(there.at);
    free(model.at);
}

static void a_record_that_is_no_file_is_refused(void **state) {
    const char *path = in_folder(state, "m.safetensors"), *kept = in_folder(state, "kept");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    tenmap_error e = {0};
    interrupt_edit(state, path, record);
    bytes model = read_whole(path);
    assert_int_equal(rename(record, kept), 0);
    alarm(300); /* a FIFO must not be waited for */
    for (int i = 0; i < 4; i++) {
        if (i == 0)
            assert_int_equal(mkfifo(record, 0666), 0);
        else if (i == 1)
            assert_int_equal(mkdir(record, 0777), 0);
        else
            assert_int_equal(symlink(i == 2 ? "kept" : "nowhere", record), 0);
        check_refused(tenmap_repair_metadata(path, 0, NULL, &e), &e, TENMAP_ERR_FORMAT,
                      "is not a regular file");
        assert_int_equal(i == 1 ? rmdir(record) : unlink(record), 0);
    }
    alarm(0);
    bytes there = read_whole(path);
    assert_memory_equal(there.at, model.at, model.size);
    free(there.at);
    free(model.at);
}

/* Users of a folder that all of them can write. */

enum { ALICE = 54321, BOB = 54322 };

/* tenmap_repair_metadata by a user, in a process of its own; its message goes to *e. */
static tenmap_status repair_as(uid_t user, const char *path, tenmap_error *e) {
    int ends[2], how;
    tenmap_status status = TENMAP_ERR_MEMORY;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        memset(e, 0, sizeof *e);
        /* From inside the folder, since the user may not be able to reach it. */
        char folder[4200];
        const char *name = strrchr(path, '/') + 1;
        snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
        if (chdir(folder) == 0 && setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0)
            status = tenmap_repair_metadata(name, 0, NULL, e);
        bool sent = write(ends[1], &status, sizeof status) == sizeof status &&
                    write(ends[1], e, sizeof *e) == sizeof *e;
        _exit(!sent);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &status, sizeof status), sizeof status);
    assert_int_equal(read(ends[0], e, sizeof *e), sizeof *e);
    close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    return status;
}

static void check_owners(void **state, uid_t record_owner, uid_t caller, bool believed) {
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    tenmap_error e = {0};
    interrupt_edit(state, path, record);
    assert_int_equal(chown(path, ALICE, ALICE), 0);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(chown(record, record_owner, record_owner), 0);
    assert_int_equal(chmod(record, 0644), 0); /* whatever the umask is */
    bytes model = read_whole(path);
    tenmap_status status = repair_as(caller, path, &e);
    if (believed && status != TENMAP_OK)
        fail_msg("record of %u, repaired by %u: %s", (unsigned)record_owner, (unsigned)caller,
                 e.message);
    if (!believed) {
        check_refused(status, &e, TENMAP_ERR_FORMAT, "belongs to user");
        bytes there = read_whole(path);
        assert_memory_equal(there.at, model.at, model.size);
        free(there.at);
    }
    free(model.at);
    (void)unlink(path);
    (void)unlink(record);
}

static void a_record_of_another_user_is_not_believed(void **state) {
    if (getuid() != 0) {
        print_message("SKIPPED: no root: records of other users not tried\n");
        return;
    }
    for (int sticky = 0; sticky < 2; sticky++) {
        assert_int_equal(chmod(*state, sticky ? 01777 : 0777), 0);
        check_owners(state, ALICE, ALICE, true);
        check_owners(state, ALICE, 0, true);
        check_owners(state, 0, 0, true);
        check_owners(state, BOB, ALICE, false);
        check_owners(state, BOB, 0, false);
        if (!sticky) { /* a user can remove another user's record at the end */
            check_owners(state, 0, ALICE, true);
            check_owners(state, ALICE, BOB, true);
            check_owners(state, BOB, BOB, true);
        }
    }
    assert_int_equal(chmod(*state, 0700), 0);
}
#endif

/* A file system with reflinks, if this machine can make one. */
static void blocks_are_shared_where_the_file_system_can(void **state) {
    const char *image = in_folder(state, "image"), *mount_point = in_folder(state, "xfs");
    char command[16384], path[4096], value[3000];
    assert_int_equal(mkdir(mount_point, 0777), 0);
    snprintf(command, sizeof command,
             "truncate -s 320M %s && mkfs.xfs -q -m reflink=1 %s >/dev/null 2>&1 && "
             "mount -o loop %s %s 2>/dev/null",
             image, image, image, mount_point);
    if (getuid() != 0 || system(command) != 0) {
        print_message("SKIPPED: no root, no mkfs.xfs or no loop device: reflinks not tried\n");
        return;
    }
    snprintf(path, sizeof path, "%s/m.safetensors", mount_point);
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    make_file(path, 0);
    uint32_t how = must_edit(path, "more", value, TENMAP_EDIT_NO_COPY);
    if (how == TENMAP_EDIT_CLONED)
        check_model(path, "v", value);
    snprintf(command, sizeof command, "umount %s", mount_point);
    assert_int_equal(system(command), 0);
    assert_int_equal(how, TENMAP_EDIT_CLONED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_fits_is_changed_in_place, empty_folder),
        cmocka_unit_test_setup(the_last_pair_takes_metadata_with_it, empty_folder),
        cmocka_unit_test_setup(later_edits_see_what_earlier_ones_did, empty_folder),
        cmocka_unit_test_setup(what_does_not_fit_makes_a_new_file, empty_folder),
        cmocka_unit_test_setup(alignment_survives_a_copy, empty_folder),
        cmocka_unit_test_setup(shared_files_are_left_alone, empty_folder),
        cmocka_unit_test_setup(edits_are_refused_with_a_sentence, empty_folder),
        cmocka_unit_test_setup(an_interrupted_edit_is_repaired, empty_folder),
        cmocka_unit_test_setup(records_that_do_not_belong_are_refused, empty_folder),
        cmocka_unit_test_setup(a_record_can_change_metadata_only, empty_folder),
#ifndef _WIN32
        cmocka_unit_test_setup(a_record_is_no_larger_than_two_headers, empty_folder),
        cmocka_unit_test_setup(a_record_that_is_no_file_is_refused, empty_folder),
        cmocka_unit_test_setup(a_record_of_another_user_is_not_believed, empty_folder),
#endif
        cmocka_unit_test_setup(blocks_are_shared_where_the_file_system_can, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
