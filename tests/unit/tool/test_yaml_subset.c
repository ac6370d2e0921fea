/*
 * Recipes: what is read of YAML and JSON, and that everything else is refused with its line. The
 * texts are hostile: deep, large, cut off at every byte, with bytes replaced.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blend/yaml_subset.h"
#include "command.h"

#include "cmocka_all.h" /* last: its macro fail() is not the tool's function */

common_settings common; /* replaces args.c */

/* Writes a tree in one line: {a:[1 "2" ~]}. */
static void write_tree(const yaml_node *n, text *out) {
    switch (n->kind) {
    case YAML_NULL:
        text_addf(out, "~");
        return;
    case YAML_TEXT:
        text_addf(out, n->quoted ? "\"%s\"" : "%s", n->text);
        return;
    default:
        break;
    }
    text_addf(out, n->kind == YAML_MAP ? "{" : "[");
    for (const yaml_node *i = n->first; i; i = i->next) {
        text_addf(out, i == n->first ? "" : " ");
        if (n->kind == YAML_MAP)
            text_addf(out, "%s:", i->key);
        write_tree(i, out);
    }
    text_addf(out, n->kind == YAML_MAP ? "}" : "]");
}

/* The tree, or the error message. The caller frees it. */
static text read_as_text(const char *given, size_t len) {
    text out = {0}, why = {0};
    yaml_node *root;
    /* An exact copy, so that a read behind the end is found. */
    char *bytes = malloc(len ? len : 1);
    assert_non_null(bytes);
    memcpy(bytes, given, len);
    if (yaml_read(bytes, len, &root, &why))
        write_tree(root, &out);
    else
        text_addf(&out, "%s", why.bytes);
    assert_true(root || why.len);
    yaml_free(root);
    text_free(&why);
    free(bytes);
    return out;
}

static void expect(const char *given, const char *expected) {
    text got = read_as_text(given, strlen(given));
    assert_string_equal(got.bytes, expected);
    text_free(&got);
}

static void maps_and_lists_are_read_by_indentation(void **state) {
    (void)state;
    expect("a: 1\nb: two words\n", "{a:1 b:two words}");
    expect("a:\n  b:\n    c: 1\n  d: 2\ne: 3", "{a:{b:{c:1} d:2} e:3}");
    expect("a:\n- 1\n- 2\nb: 3", "{a:[1 2] b:3}");
    expect("a:\n  - 1\n  -\n    - 2\n  - - 3\n    - 4\n", "{a:[1 [2] [3 4]]}");
    expect("- model: a\n  weight: 1\n- model: b\n", "[{model:a weight:1} {model:b}]");
    expect("-\n-\n- \n", "[~ ~ ~]");
    expect("a:\nb: ~\nc: null\n", "{a:~ b:~ c:~}");
    expect("just a text", "just a text");
    expect("---\na: 1\n", "{a:1}");
    expect("\xef\xbb\xbf"
           "a: 1\r\nb:\r\n  - 2\r\n",
           "{a:1 b:[2]}");
}

static void comments_begin_behind_a_blank(void **state) {
    (void)state;
    expect("# one\na: 1 # two\n  # three\nb: x#y\nc: # four\n  - 1 # five\n", "{a:1 b:x#y c:[1]}");
    expect("a: 'x # y'", "{a:\"x # y\"}");
    expect("a: [1, # one\n 2]", "{a:[1 2]}");
}

static void brackets_and_json_are_read(void **state) {
    (void)state;
    expect("a: [1, 2, [3], {b: 4}, ]", "{a:[1 2 [3] {b:4}]}");
    expect("{a: {b: 1, c: }, d: []}", "{a:{b:1 c:~} d:[]}");
    expect("{\"a\":1,\t\"b\":[\n\t{\"c\":\"x\\u00e9\\n\\\"\"}\n]\n}",
           "{a:1 b:[{c:\"x\xc3\xa9\n\"\"}]}");
    expect("[\"\\ud83d\\ude00\"]", "[\"\xf0\x9f\x98\x80\"]");
    expect("a: [http://h/x:1, b]", "{a:[http://h/x:1 b]}");
    expect("- hf://org/name\n- C:\\models\n", "[hf://org/name C:\\models]");
    expect("a: 'it''s'\n'b c': \"\"", "{a:\"it's\" b c:\"\"}");
}

static void everything_else_is_refused_with_its_line(void **state) {
    (void)state;
    expect("a: 1\nb: &x 2", "line 2: anchors and aliases (& and *) are not read: write the value "
                            "out, or quote it");
    expect("a: *x", "line 1: anchors and aliases (& and *) are not read: write the value out, or "
                    "quote it");
    expect("a: !!int 3", "line 1: tags (!) are not read: leave the tag out, or quote the text");
    expect("a: |\n  x", "line 1: texts over several lines (| and >) are not read");
    expect("a: >-\n  x", "line 1: texts over several lines (| and >) are not read");
    expect("a: x\n  y", "line 2: this line is indented more than the one above, and belongs to "
                        "nothing (a text over several lines is not read)");
    expect("a: \"x\ny\"", "line 1: a quote is missing at the end of the line (a text over several "
                          "lines is not read)");
    expect("a: 1\n\tb: 2", "line 2: a tab before the text: indent with spaces");
    expect("-\ta: 2", "line 1: a tab before the text: indent with spaces");
    expect("a: 1\nb: 2\na: 3", "line 3: this key appears twice");
    expect("{a: 1, a: 2}", "line 1: this key appears twice");
    expect("<<: a", "line 1: merged maps (<<) are not read: write the keys out");
    expect("? a\n: b", "line 1: keys that begin with ? are not read");
    expect("%YAML 1.1\n---\na: 1", "line 1: directives (%) are not read");
    expect("a: 1\n---\nb: 2", "line 2: only one document is read");
    expect("a: 1\n...\n", "line 2: only one document is read");
    expect("a: b: c", "line 1: a second colon on the line: put the text in quotes");
    expect("a: - b", "line 1: a list begins on a line of its own");
    expect("a: 1\n- b", "line 2: an item of a list between the keys of a map");
    expect("  a: 1\n b: 2", "line 2: this line belongs to nothing: look at its indentation");
    expect("a: 1\nb", "line 2: a colon and a blank are missing after the key");
    expect("a: [1, 2", "line 1: a bracket is not closed");
    expect("a: {b: [1}", "line 1: a comma or ] is missing here");
    expect("a: [1,, 2]", "line 1: a value is missing before the comma");
    expect("[a: 1]", "line 1: a comma or ] is missing here");
    expect("a: [1] 2", "line 1: there is more text after the value");
    expect("a: \"\\x41\"",
           "line 1: a backslash must be written \\\\, or begin one of \\\" \\n \\t \\u");
    expect("a: \"\\u12\"", "line 1: \\u takes four hexadecimal digits");
    expect("a: \"\\u0000\"", "line 1: \\u must be a character, and not \\u0000");
    expect("a: \"\\ud800\"", "line 1: \\u must be a character, and not \\u0000");
    expect("a: \xff", "line 1: this is not UTF-8");
    expect("a:\n- \x1b[0m", "line 2: a control character");
    expect("a: 1\rb: 2", "line 1: a carriage return that does not end a line");
    expect("", "line 1: there is nothing here");
    expect("# only a comment\n", "line 2: there is nothing here");
    expect("a: @x", "line 1: a text that begins with % @ ` , ] or } must be in quotes");
    text got = read_as_text("a: x\0y", 6);
    assert_string_equal(got.bytes, "line 1: a control character");
    text_free(&got);
}

/* Reads `before`, then `part` so many times, then `after`. */
static void expect_repeated(const char *before, const char *part, size_t times, const char *after,
                            const char *expected) {
    text all = {0};
    text_addf(&all, "%s", before);
    for (size_t i = 0; i < times; i++)
        text_addf(&all, "%s", part);
    text_addf(&all, "%s", after);
    text got = read_as_text(all.bytes, all.len);
    assert_memory_equal(got.bytes, expected, strlen(expected));
    text_free(&got);
    text_free(&all);
}

static void depth_count_and_size_are_bounded(void **state) {
    (void)state;
    expect_repeated("", "[", 32, "", "line 1: a bracket is not closed");
    expect_repeated("", "[", 33, "", "line 1: more than 32 levels of maps and lists");
    expect_repeated("", "{a: ", 400000 / 4, "", "line 1: more than 32 levels of maps and lists");
    expect_repeated("", "- ", 32, "x", "[[[[");
    expect_repeated("", "- ", 500000, "x", "line 1: more than 32 levels of maps and lists");
    expect_repeated("", "- x\n", 65535, "", "[x x");
    expect_repeated("", "- x\n", 65536, "", "line 65536: more than 65,536 values");
    expect_repeated("[", "1,", 100000, "]", "line 1: more than 65,536 values");
    expect_repeated("# ", "x", 1 << 20, "", "line 1: the text is larger than 1 MiB");
    text all = {0};
    for (size_t i = 0; i <= 256; i++)
        text_addf(&all, "k%zu: 1\n", i);
    text got = read_as_text(all.bytes, all.len);
    assert_string_equal(got.bytes, "line 257: more than 256 keys in one map");
    text_free(&got);
    text_free(&all);
}

static void cut_and_changed_texts_are_read_or_refused(void **state) {
    (void)state;
    static const char sample[] =
        "---\n# a\nmerge_method: ties\nmodels:\n- model: 'a'\n  parameters:"
        "\n    weight: [0, {b: \"\\u00e9\"}] # c\n  -\nx: ~\n";
    static const char bytes[] = "\t\n\r '\"[]{}:,#&-\\\0\xc3";
    char text_bytes[sizeof sample];
    for (size_t len = 0; len < sizeof sample; len++) {
        text got = read_as_text(sample, len);
        assert_non_null(got.bytes);
        text_free(&got);
        for (size_t i = 0; i < sizeof bytes && len; i++) {
            memcpy(text_bytes, sample, sizeof sample);
            text_bytes[len - 1] = bytes[i];
            got = read_as_text(text_bytes, sizeof sample - 1);
            assert_non_null(got.bytes);
            text_free(&got);
        }
    }
}

static yaml_node plain(const char *value) {
    return (yaml_node){.kind = YAML_TEXT, .text = (char *)(uintptr_t)value};
}

static void numbers_are_decimal_and_finite(void **state) {
    (void)state;
    static const char *const good[] = {"0", "-1.5", "+2", ".5", "1e-3", "3."};
    static const char *const bad[] = {"",   "x",   "0x10", "inf", "nan", "1e999",
                                      "1,", "1_0", "-",    "e",   "1 2", "--1"};
    double value;
    size_t whole;
    bool on;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        yaml_node n = plain(good[i]);
        assert_true(yaml_number(&n, &value));
        n.quoted = true;
        assert_false(yaml_number(&n, &value));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        yaml_node n = plain(bad[i]);
        assert_false(yaml_number(&n, &value));
    }
    yaml_node seven = plain("7"), large = plain("1234567890"), yes = plain("True"),
              no = plain("no");
    assert_true(yaml_whole(&seven, &whole) && whole == 7);
    assert_false(yaml_whole(&large, &whole));
    assert_true(yaml_bool(&yes, &on) && on);
    assert_true(yaml_bool(&no, &on) && !on);
    assert_false(yaml_bool(&seven, &on));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_and_lists_are_read_by_indentation),
        cmocka_unit_test(comments_begin_behind_a_blank),
        cmocka_unit_test(brackets_and_json_are_read),
        cmocka_unit_test(everything_else_is_refused_with_its_line),
        cmocka_unit_test(depth_count_and_size_are_bounded),
        cmocka_unit_test(cut_and_changed_texts_are_read_or_refused),
        cmocka_unit_test(numbers_are_decimal_and_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
