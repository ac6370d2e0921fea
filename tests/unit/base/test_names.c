/* The index over names: found in O(1), whatever the names are. */
#include "base/base.h"
#include "support.h"

/* A model of many tensors of one byte; the caller frees both. */
static bytes many_tensors(size_t count, void (*name)(char *out, size_t i)) {
    char *json = malloc(count * 160 + 16), *at = json, text[64];
    *at++ = '{';
    for (size_t i = 0; i < count; i++) {
        name(text, i);
        at += sprintf(at, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                      i ? "," : "", text, i, i + 1);
    }
    *at++ = '}';
    bytes file = make_model_n(json, (size_t)(at - json), count);
    free(json);
    return file;
}

static void layer_name(char *out, size_t i) {
    sprintf(out, "model.layers.%zu.mlp.experts.%zu.weight", i / 256, i % 256);
}

static void all_of_100000_names_are_found_and_no_other(void **state) {
    (void)state;
    enum { COUNT_OF = 100000 };
    bytes file = many_tensors(COUNT_OF, layer_name);
    tenmap_model *m = must_open_memory(file, NULL);
    char name[64];
    assert_int_equal(tenmap_count(m), COUNT_OF);
    for (size_t i = 0; i < COUNT_OF; i++) {
        layer_name(name, i);
        assert_ptr_equal(tenmap_find(m, name), tenmap_at(m, i));
        strcat(name, "s");
        assert_null(tenmap_find(m, name));
        name[strlen(name) - 2] = '\0';
        assert_null(tenmap_find(m, name));
    }
    tenmap_close(m);
    free(file.at);
}

/*
 * Names chosen to collide. An attacker who knew that the key is zero could make any number of names
 * with the same hash: the first eight bytes of each block cancel the key, so that the product is
 * zero.
 */
static void colliding_name(char *out, size_t i) {
    /* \u0000 eight times, then eight bytes that do not affect the hash, then a common tail. */
    char digits[24];
    snprintf(digits, sizeof digits, "%08zu", i);
    strcpy(out, "");
    for (int k = 0; k < 8; k++)
        strcat(out, "\1");
    strcat(out, digits);
    strcat(out, "tail-of-all-names");
}

static size_t longest_run(const tmi_names *names) {
    size_t longest = 0, run = 0;
    for (size_t i = 0; i <= names->mask; i++) {
        run = names->slots[i].record ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void names_chosen_to_collide_do_not_collide(void **state) {
    (void)state;
    enum { COUNT_OF = 100000 };
    tmi_hash_key known = {{UINT64_C(0x123456789abcdef0), UINT64_C(0x0101010101010101)}};
    struct {
        const char *name;
        size_t len;
    } *records = malloc(COUNT_OF * sizeof *records);
    char *text = malloc(COUNT_OF * 64);
    for (size_t i = 0; i < COUNT_OF; i++) {
        colliding_name(text + i * 64, i);
        records[i].name = text + i * 64;
        records[i].len = strlen(text + i * 64);
        /* The attack works against a known key: every hash is the same. */
        assert_true(tmi_hash(&known, records[i].name, records[i].len) ==
                    tmi_hash(&known, records[0].name, records[0].len));
    }
    for (int round = 0; round < 3; round++) { /* against the random key of a model, it does not */
        tmi_hash_key key = tmi_hash_key_new();
        tmi_names names;
        assert_true(tmi_names_init(&names, &key, records, sizeof *records, COUNT_OF));
        for (size_t i = 0; i < COUNT_OF; i++)
            assert_true(tmi_names_put(&names, i, tmi_hash(&key, records[i].name, records[i].len)) ==
                        TMI_NONE);
        assert_true(longest_run(&names) < 128);
        tmi_names_free(&names);
    }
    free(records);
    free(text);
}

static void the_key_is_new_for_each_model(void **state) {
    (void)state;
    tmi_hash_key a = tmi_hash_key_new(), b = tmi_hash_key_new();
    assert_memory_not_equal(&a, &b, sizeof a);
}

/* Every length, every last byte: a byte that the hash ignored would allow an attack. */
static void every_byte_of_a_name_counts(void **state) {
    (void)state;
    tmi_hash_key key = tmi_hash_key_new();
    char name[80];
    for (size_t len = 0; len < 70; len++) {
        memset(name, 'x', sizeof name);
        uint64_t plain = tmi_hash(&key, name, len);
        assert_true(plain != tmi_hash(&key, name, len + 1));
        for (size_t i = 0; i < len; i++) {
            name[i] = 'y';
            assert_true(plain != tmi_hash(&key, name, len));
            name[i] = 'x';
        }
    }
}

static void a_hundred_thousand_metadata_keys(void **state) {
    (void)state;
    enum { COUNT_OF = 100000 };
    char *json = malloc(COUNT_OF * 32 + 64), *at = json;
    at += sprintf(at, "{\"__metadata__\":{");
    for (int i = 0; i < COUNT_OF; i++)
        at += sprintf(at, "%s\"key%d\":\"%d\"", i ? "," : "", i, i);
    char *tail = at;
    sprintf(at, "}}");
    bytes file = make_model(json, 0);
    tenmap_model *m = must_open_memory(file, NULL);
    assert_int_equal(tenmap_metadata_count(m), COUNT_OF);
    assert_string_equal(tenmap_metadata_get(m, "key99999"), "99999");
    tenmap_close(m);
    free(file.at);
    sprintf(tail, ",\"key4242\":\"again\"}}");
    file = make_model(json, 0);
    must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "\"key4242\" appears twice in __metadata__");
    free(file.at);
    free(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_100000_names_are_found_and_no_other),
        cmocka_unit_test(names_chosen_to_collide_do_not_collide),
        cmocka_unit_test(the_key_is_new_for_each_model),
        cmocka_unit_test(every_byte_of_a_name_counts),
        cmocka_unit_test(a_hundred_thousand_metadata_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
