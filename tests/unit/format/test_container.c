/*
 * Formats are independent of each other: a toy format of the tests opens, reads and copies like
 * SafeTensors.
 */
#include "support.h"

/* Three tensors, the last with a name that makes the header longer than its first read. */
static bytes make_toy(void) {
    static const char long_name[] = "a.name.that.is.long.enough.to.need.a.second.look.at.the.file";
    bytes file = {calloc(1, 512), 0};
    unsigned char *at = file.at;
    assert_non_null(at);
    memcpy(at, "TOYTENS1\3\0\0\0", 12);
    at += 12;
    memcpy(at, "\1a\0\1", 4); /* the dtype follows */
    at[2] = TENMAP_F32;
    at[4] = 4;
    at += 12;
    memcpy(at, "\1b\0\2", 4);
    at[2] = TENMAP_U8;
    at[4] = 2;
    at[12] = 3;
    at += 20;
    *at++ = sizeof long_name - 1;
    memcpy(at, long_name, sizeof long_name - 1);
    at += sizeof long_name - 1;
    *at++ = TENMAP_BF16;
    *at++ = 0;
    for (size_t i = 0; i < 16 + 6 + 2; i++)
        *at++ = pattern_byte(i);
    file.size = (size_t)(at - file.at);
    return file;
}

static void assert_toy(const tenmap_model *m) {
    unsigned char data[24];
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
    assert_int_equal(at, 24);
}

static void a_second_container_opens_in_every_way(void **state) {
    const char *path = in_folder(state, "toy.bin");
    bytes file = make_toy();
    tenmap_options options = TENMAP_OPTIONS_INIT;
    write_file(path, file.at, file.size);
    for (options.backend = TENMAP_BACKEND_MAP; options.backend <= TENMAP_BACKEND_READ;
         options.backend++) {
        tenmap_model *m = must_open(path, &options);
        assert_toy(m);
        assert_int_equal(tenmap_shard_at(m, 0)->data_offset, file.size - 24);
        tenmap_close(m);
    }
    tenmap_model *m = must_open_memory(file, NULL);
    assert_toy(m);
    tenmap_close(m);
    free(file.at);
}

static void what_does_not_end_is_refused_in_its_words(void **state) {
    const char *path = in_folder(state, "toy.bin");
    bytes file = make_toy();
    file.at[8] = 200;
    write_file(path, file.at, file.size);
    tenmap_model *m;
    tenmap_error error;
    assert_int_equal(tenmap_open(path, NULL, &m, &error), TENMAP_ERR_FORMAT);
    check_error(&error, TENMAP_ERR_FORMAT);
    assert_non_null(strstr(error.message, "the toy's header does not end"));
    free(file.at);
}

static void it_is_copied_into_safetensors(void **state) {
    const char *path = in_folder(state, "toy.bin"), *out = in_folder(state, "out.safetensors");
    bytes file = make_toy();
    tenmap_error error;
    tenmap_writer *writer;
    write_file(path, file.at, file.size);
    free(file.at);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_container_opens_in_every_way),
        cmocka_unit_test(what_does_not_end_is_refused_in_its_words),
        cmocka_unit_test(it_is_copied_into_safetensors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
