/*
 * The interpreter of pickles: it makes values of every opcode, calls nothing, takes memory in
 * proportion to the pickle, and refuses what a real unpickler would refuse.
 */
#include "format/pickle.h"

#include "torch_files.h"

static tmi_pickle read_pickle(const void *text, size_t len, bool *good) {
    tmi_pickle p;
    *good = tmi_pickle_read(&p, text, len);
    return p;
}

#define READ_FAILS(text, expected, fragment)                                                       \
    do {                                                                                           \
        bool good_;                                                                                \
        tmi_pickle p_ = read_pickle(text, sizeof(text) - 1, &good_);                               \
        assert_false(good_);                                                                       \
        assert_int_equal(p_.status, TENMAP_ERR_##expected);                                        \
        if (!strstr(p_.problem, fragment))                                                         \
            fail_msg("\"%s\" does not say \"%s\"", p_.problem, fragment);                          \
        tmi_pickle_free(&p_);                                                                      \
    } while (0)

/* The only atom of a pickle. */
static tmi_atom atom_in(const char *text, size_t len, tmi_pickle *p) {
    bool good;
    *p = read_pickle(text, len, &good);
    if (!good)
        fail_msg("%s", p->problem);
    assert_false(tmi_is_node(p->root));
    return tmi_atom_of(p, p->root);
}

#define IS_KIND(text, expected_kind)                                                               \
    do {                                                                                           \
        tmi_pickle p_;                                                                             \
        assert_int_equal(atom_in(text, sizeof(text) - 1, &p_).kind, TMI_ATOM_##expected_kind);     \
        tmi_pickle_free(&p_);                                                                      \
    } while (0)

#define IS_NUMBER(text, expected_kind, value)                                                      \
    do {                                                                                           \
        tmi_pickle p_;                                                                             \
        tmi_atom atom_ = atom_in(text, sizeof(text) - 1, &p_);                                     \
        assert_int_equal(atom_.kind, TMI_ATOM_##expected_kind);                                    \
        assert_true(atom_.number == (value));                                                      \
        tmi_pickle_free(&p_);                                                                      \
    } while (0)

static void numbers_are_read(void **state) {
    (void)state;
    IS_NUMBER("N.", NONE, 0);
    IS_NUMBER("K\xff.", INT, 255);
    IS_NUMBER("M\1\2.", INT, 513);
    IS_NUMBER("J\xff\xff\xff\xff.", INT, -1);
    IS_NUMBER("J\0\0\0\x80.", INT, INT32_MIN);
    IS_NUMBER("I42\n.", INT, 42);
    IS_NUMBER("I01\n.", BOOL, 1);
    IS_NUMBER("I00\n.", BOOL, 0);
    IS_NUMBER("L-7L\n.", INT, -7);
    IS_NUMBER("L9223372036854775807L\n.", INT, INT64_MAX);
    IS_NUMBER("L-9223372036854775808L\n.", INT, INT64_MIN);
    IS_NUMBER("I-9223372036854775807\n.", INT, -INT64_MAX);
    IS_NUMBER("L\n.", BIG, 0);
    IS_NUMBER("L12345678901234567890123L\n.", BIG, 0);
    IS_KIND("L9223372036854775808L\n.", BIG);
    IS_KIND("L-9223372036854775809L\n.", BIG);
    IS_KIND("I010\n.", BIG); /* 8 for Python */
    IS_KIND("I-01\n.", BIG);
    IS_KIND("L00L\n.", BIG);
    IS_NUMBER("I0\n.", INT, 0);
    IS_NUMBER("L0L\n.", INT, 0);
    IS_NUMBER("\x88.", BOOL, 1);
    IS_NUMBER("\x89.", BOOL, 0);
    IS_NUMBER("\x8a\0.", INT, 0);
    IS_NUMBER("\x8a\1\xff.", INT, -1);
    IS_NUMBER("\x8a\2\xff\0.", INT, 255);
    IS_NUMBER("\x8a\x08\0\0\0\0\0\0\0\x80.", INT, INT64_MIN);
    IS_NUMBER("\x8a\x09\0\0\0\0\0\0\0\0\1.", BIG, 0);
    IS_NUMBER("\x8b\1\0\0\0\5.", INT, 5);
    IS_NUMBER(").", TUPLE, 0);
    tmi_pickle p;
    assert_true(atom_in("G?\xf8\0\0\0\0\0\0.", 10, &p).real == 1.5);
    tmi_pickle_free(&p);
}

static void is_text(const char *pickle, size_t len, const char *text) {
    tmi_pickle p;
    char out[64];
    tmi_atom atom = atom_in(pickle, len, &p);
    assert_int_equal(atom.kind, TMI_ATOM_TEXT);
    assert_int_equal(tmi_atom_text(&atom, out, sizeof out), strlen(text));
    assert_memory_equal(out, text, strlen(text));
    assert_true(tmi_is_text(&p, p.root, text));
    assert_false(tmi_is_text(&p, p.root, "other"));
    tmi_pickle_free(&p);
}
#define IS_TEXT(pickle, text) is_text(pickle, sizeof(pickle) - 1, text)

static void strings_are_read(void **state) {
    (void)state;
    IS_TEXT("X\2\0\0\0ab.", "ab");
    IS_TEXT("U\2ab.", "ab");
    IS_TEXT("T\2\0\0\0ab.", "ab");
    IS_TEXT("\x8c\2ab.", "ab");
    IS_TEXT("\x8d\2\0\0\0\0\0\0\0ab.", "ab");
    IS_TEXT("S'a\\x41\\n'\n.", "aA\n");
    IS_TEXT("Va\\u00e9\\b\n.", "a\xc3\xa9\\b");
    IS_TEXT("V\\U0001f600\n.", "\xf0\x9f\x98\x80");
    IS_TEXT("V\xe9\n.", "\xc3\xa9");
    IS_TEXT("Va\\\\u0041\\\n.", "a\\\\u0041\\");
    IS_TEXT("V\\\\\\u0041\n.", "\\\\A");
    IS_TEXT("S'\\141\\0601\\q\\a\\\\x'\n.", "a01\\q\a\\x");
    IS_TEXT("S'\xc3\\xa9\\303\xa9'\n.", "\xc3\xa9\xc3\xa9"); /* bytes, which are UTF-8 */
    tmi_pickle p;
    char out[8];
    tmi_atom bad = atom_in("X\1\0\0\0\xff.", 7, &p);
    assert_int_equal(tmi_atom_text(&bad, out, sizeof out), SIZE_MAX);
    tmi_pickle_free(&p);
    bad = atom_in("S'\\xe9'\n.", 9, &p);
    assert_int_equal(tmi_atom_text(&bad, out, sizeof out), SIZE_MAX);
    tmi_pickle_free(&p);
    bad = atom_in("V\\ud800\n.", 9, &p);
    assert_int_equal(tmi_atom_text(&bad, out, sizeof out), SIZE_MAX);
    tmi_pickle_free(&p);
}

/* Counts what the root holds. */
static size_t items_in(const char *text, size_t len, unsigned kind) {
    bool good;
    tmi_pickle p = read_pickle(text, len, &good);
    tmi_pickle_item item;
    size_t count = 0;
    if (!good)
        fail_msg("%s", p.problem);
    assert_true(tmi_is_kind(&p, p.root, kind));
    tmi_pickle_cursor c = tmi_pickle_cursor_at(&p, p.root, TMI_WALK_ITEMS);
    while (tmi_pickle_next(&p, &c, &item))
        count++;
    tmi_pickle_free(&p);
    return count;
}
#define HOLDS(text, kind, count)                                                                   \
    assert_int_equal(items_in(text, sizeof(text) - 1, TMI_PICKLE_##kind), count)

static void containers_are_read(void **state) {
    (void)state;
    HOLDS("].", LIST, 0);
    HOLDS("}.", DICT, 0);
    HOLDS("\x8f.", SET, 0);
    HOLDS("(K\1K\2l.", LIST, 2);
    HOLDS("(K\1K\2d.", DICT, 1);
    HOLDS("(K\1K\2t.", TUPLE, 2);
    HOLDS("(K\1K\2\x91.", TUPLE, 2);
    HOLDS("K\1\x85.", TUPLE, 1);
    HOLDS("K\1K\2\x86.", TUPLE, 2);
    HOLDS("K\1K\2K\3\x87.", TUPLE, 3);
    HOLDS("]K\1a(K\2K\3eK\4a.", LIST, 4);
    HOLDS("}K\1K\2s(K\2K\3K\4K\5u.", DICT, 3);
    HOLDS("\x8f(K\2K\3\x90.", SET, 2);
    HOLDS("]q\0h\0a.", LIST, 1);
    HOLDS("]\x94h\0ap5\n0g5\n.", LIST, 1);
    HOLDS("]r\7\0\0\0j\7\0\0\0"
          "0.",
          LIST, 0);
    HOLDS("(K\1(K\2"
          "11(t.",
          TUPLE, 0);
    HOLDS("ccollections\nOrderedDict\n)R(K\1K\2u.", OBJECT, 1);
    HOLDS("ccollections\nOrderedDict\n(]](K\1K\2eatR.", OBJECT, 1);
    HOLDS("\x8c\1m\x8c\1n\x93)\x81}b.", OBJECT, 1);
    HOLDS("(im\nC\nK\1"
          "0.",
          OBJECT, 0);
}

static void broken_pickles_are_refused(void **state) {
    (void)state;
    READ_FAILS("", FORMAT, "without STOP");
    READ_FAILS("N", FORMAT, "without STOP");
    READ_FAILS(".", FORMAT, "than one");
    READ_FAILS("NN.", FORMAT, "than one");
    READ_FAILS("N(.", FORMAT, "than one");
    READ_FAILS("0.", FORMAT, "empty");
    READ_FAILS("2.", FORMAT, "empty");
    READ_FAILS("N(a.", FORMAT, "empty");
    READ_FAILS("](N]a.", FORMAT, "another kind");
    READ_FAILS("NNa.", FORMAT, "another kind");
    READ_FAILS("}Na.", FORMAT, "another kind");
    READ_FAILS("}(Nu.", FORMAT, "without a value");
    READ_FAILS("(Nd.", FORMAT, "without a value");
    READ_FAILS("t.", FORMAT, "no mark");
    READ_FAILS("1.", FORMAT, "no mark");
    READ_FAILS("h\0.", FORMAT, "never put");
    READ_FAILS("Nq\1h\0.", FORMAT, "never put");
    READ_FAILS("gx\n.", FORMAT, "a number");
    READ_FAILS("Np-1\n.", FORMAT, "a number");
    READ_FAILS("X\xff\xff\xff\xff"
               "abc.",
               FORMAT, "longer than the pickle");
    READ_FAILS("T\xff\xff\xff\xff"
               "abc.",
               FORMAT, "negative");
    READ_FAILS("\x8b\xff\xff\xff\xff"
               "abc.",
               FORMAT, "negative");
    READ_FAILS("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
               "abc.",
               FORMAT, "longer than the pickle");
    READ_FAILS("X\1\0", FORMAT, "inside an opcode");
    READ_FAILS("Sabc", FORMAT, "line does not end");
    READ_FAILS("cos\nsystem", FORMAT, "line does not end");
    READ_FAILS("\x80\6N.", FORMAT, "protocol");
    READ_FAILS("\x95\xff\0\0\0\0\0\0\0N.", FORMAT, "frame");
    READ_FAILS("\xff.", FORMAT, "no such opcode");
    READ_FAILS("\x97.", FORMAT, "buffer");
    READ_FAILS("KKR.", FORMAT, "empty");
    READ_FAILS("cos\nsystem\nNR.", FORMAT, "not a tuple");
    READ_FAILS("N)R.", FORMAT, "a string or a number");
    READ_FAILS("K\1K\2\x93.", FORMAT, "no string");
    READ_FAILS("}}b.", FORMAT, "no object");
    READ_FAILS("cm\nC\n)R}b}b.", FORMAT, "twice");
    READ_FAILS("Nr\xff\xff\xff\xff.", LIMIT, "larger than the pickle");
}

/* Bombs: many small opcodes, each of which makes something. */
static void memory_is_bounded(void **state) {
    static const char *const bombs[] = {"]",  "}",     "\x8f",    "(",     "N",
                                        "2",  "\x94",  "]\x94",   "N\x94", "h\x01",
                                        "(t", ")\x85", "cm\nn\n", "c\n\n", "N\x85\x94"};
    enum { BYTES = 1 << 20 };
    (void)state;
    for (size_t i = 0; i < COUNT(bombs); i++) {
        size_t size = strlen(bombs[i]);
        char *text = malloc(BYTES + 16);
        assert_non_null(text);
        memcpy(text, "Nq\1", 3);
        for (size_t at = 3; at < BYTES; at++)
            text[at] = bombs[i][(at - 3) % size];
        bool good;
        tmi_pickle p = read_pickle(text, BYTES, &good);
        assert_false(good);
        assert_true(p.taken * sizeof(uint32_t) <= (size_t)8 * BYTES + 65536);
        assert_true(p.nodes.capacity + p.stack.capacity + p.marks.capacity + p.memo.capacity ==
                    p.taken);
        tmi_pickle_free(&p);
        free(text);
    }
}

/* Binary search needs the order, and a row twice would hide one of them. */
static void the_list_of_globals_is_sorted(void **state) {
    const tmi_pickle_global *g, *before = NULL;
    (void)state;
    for (size_t i = 0; (g = tmi_pickle_global_at(i)) != NULL; before = g, i++) {
        int order = before ? strcmp(before->name, g->name) : -1;
        assert_true(order < 0 || (order == 0 && strcmp(before->module, g->module) < 0));
        assert_int_equal(
            tmi_pickle_find_global(g->module, strlen(g->module), g->name, strlen(g->name)), i + 1);
        assert_true(g->which != TMI_GLOBAL_UNKNOWN);
    }
    static const char *const code[][2] = {{"os", "system"},
                                          {"builtins", "eval"},
                                          {"builtins", "getattr"},
                                          {"torch.storage", "_load_from_bytes"},
                                          {"torch", "load"},
                                          {"torch", "hub.load"},
                                          {"torch._utils", "_rebuild_tensor_v22"},
                                          {"", ""},
                                          {"torch._utils", ""},
                                          {"operator", "attrgetter"},
                                          {"collections", "OrderedDict.fromkeys"}};
    for (size_t i = 0; i < COUNT(code); i++)
        assert_int_equal(
            tmi_pickle_find_global(code[i][0], strlen(code[i][0]), code[i][1], strlen(code[i][1])),
            0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read),    cmocka_unit_test(strings_are_read),
        cmocka_unit_test(containers_are_read), cmocka_unit_test(broken_pickles_are_refused),
        cmocka_unit_test(memory_is_bounded),   cmocka_unit_test(the_list_of_globals_is_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
