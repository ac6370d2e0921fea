/*
 * What opens and what does not: docs/format.md as a table, one row per rule, in its order. Each row
 * is a header (or a whole file), the number of data bytes after it, and the verdict with the words
 * that the error must contain.
 */
#include "support.h"

#define T "\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]"
#define A "\"a\":{" T "}"

typedef struct rule {
    const char *name;
    const char *json;
    size_t data;
    const char *error; /* NULL: opens */
    size_t count;      /* of tensors, if it opens */
} rule;

static const rule rules[] = {
    {"one tensor", "{" A "}", 16, NULL, 1},
    {"no tensor", "{}", 0, NULL, 0},
    {"4: a header that is not UTF-8 is refused before JSON", "\xff{", 0, "byte 8: not valid UTF-8",
     0},
    {"4: overlong forms", "{\"\xc0\xaf\":1}", 0, "byte 10: not valid UTF-8", 0},
    {"4: raw surrogates", "{\"\xed\xa0\x80\":1}", 0, "byte 10: not valid UTF-8", 0},
    {"4: above U+10FFFF", "{\"\xf4\x90\x80\x80\":1}", 0, "byte 10: not valid UTF-8", 0},
    {"4: a cut character at the end", "{}\xe2\x82", 0, "byte 10: not valid UTF-8", 0},

    {"5: white space anywhere",
     " \t\n\r{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 1 , 1 ] , "
     "\"data_offsets\" : [ 0 , 1 ] } } \n",
     1, NULL, 1},
    {"5: no header at all", "", 4, "byte 8: expected the header to be a JSON object, found the end",
     0},
    {"5: white space only", "    ", 0, "byte 12: expected the header to be a JSON object", 0},
    {"5: a byte order mark", "\xef\xbb\xbf{}", 0, "found \"\\ufeff\"", 0},
    {"5: another type at the top", "[]", 0, "expected the header to be a JSON object, found \"[\"",
     0},
    {"5: a comment", "{/**/}", 0, "byte 9: expected the name of a tensor", 0},
    {"5: a trailing comma", "{" A ",}", 16, "expected the name of a tensor in quotes, found \"}\"",
     0},
    {"5: a second value", "{}{}", 0, "byte 10: expected nothing but white space", 0},
    {"5: a form feed is not white space", "{}\f", 0, "found \"\\u000c\"", 0},
    {"5: a missing brace", "{" A, 16, "expected ',' or '}' after a tensor, found the end", 0},
    {"5: an open string", "{\"a", 0, "a string is not closed", 0},
    {"5: a key without a value", "{\"a\"}", 0, "expected ':' after the name of a tensor", 0},

    {"5: raw control characters in names", "{\"a\x1f\":{" T "}}", 16,
     "byte 11: a string holds a raw control", 0},
    {"5: raw 0x7f is fine", "{\"\x7f\":{" T "}}", 16, NULL, 1},
    {"5: bad escapes", "{\"\\q\":{" T "}}", 16, "after a backslash, found \"q\"", 0},
    {"5: \\U is not \\u", "{\"\\U0041\":{" T "}}", 16, "after a backslash, found \"U\"", 0},
    {"5: a short \\u", "{\"\\u12\":{" T "}}", 16, "four hexadecimal digits", 0},
    {"5: a lone first half", "{\"\\ud800\":{" T "}}", 16, "first half of a pair without", 0},
    {"5: a first half twice", "{\"\\ud800\\ud800\":{" T "}}", 16, "first half of a pair without",
     0},
    {"5: a lone second half", "{\"\\udc00\":{" T "}}", 16, "second half of a pair without", 0},
    {"5: a pair", "{\"\\ud83d\\ude00\":{" T "}}", 16, NULL, 1},
    {"5: control characters in metadata", "{\"__metadata__\":{\"a\":\"\x01\"}}", 0, "raw control",
     0},
    {"5: bad escapes in unknown fields", "{\"a\":{" T ",\"x\":{\"k\":\"\\x\"}}}", 16, "backslash",
     0},
    {"5: bad escapes in unknown keys", "{\"a\":{" T ",\"\\ud800\":1}}", 16, "first half", 0},

    {"5: __metadata__ null", "{\"__metadata__\":null}", 0, NULL, 0},
    {"5: __metadata__ last", "{" A ",\"__metadata__\":{\"k\":\"v\"}}", 16, NULL, 1},
    {"5: __metadata__ escaped", "{\"__metadat\\u0061__\":{\"k\":\"v\"}}", 0, NULL, 0},
    {"5: __metadata__ empty", "{\"__metadata__\":{}}", 0, NULL, 0},
    {"5: __metadata__ as an array", "{\"__metadata__\":[]}", 0, "object of strings, found \"[\"",
     0},
    {"5: __metadata__ with a number", "{\"__metadata__\":{\"k\":1}}", 0,
     "__metadata__: expected a string", 0},
    {"5: __metadata__ with a null", "{\"__metadata__\":{\"k\":null}}", 0, "expected a string", 0},
    {"5: __metadata__ as a broken word", "{\"__metadata__\":nul}", 0, "expected a value", 0},
    {"5: __metadata__ twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0,
     "byte 27: __metadata__ appears twice", 0},
    {"5: __metadata__ twice, one null", "{\"__metadata__\":null,\"__metadata__\":{}}", 0,
     "__metadata__ appears twice", 0},
    {"5: __metadata__ twice, one escaped", "{\"__metadata__\":{},\"__m\\u0065tadata__\":null}", 0,
     "appears twice", 0},
    {"stricter: duplicate metadata keys", "{\"__metadata__\":{\"k\":\"1\",\"\\u006b\":\"2\"}}", 0,
     "the key \"k\" appears twice in __metadata__", 0},

    {"5: an empty name", "{\"\":{" T "}}", 16, NULL, 1},
    {"5: a name with underscores", "{\"__x__\":{" T "}}", 16, NULL, 1},
    {"5: a name with NUL", "{\"a\\u0000b\":{" T "}}", 16, NULL, 1},
    {"stricter: duplicate names", "{" A "," A "}", 16,
     "tensor \"a\" (header, byte 63): the name appears twice; the other is at byte 9", 0},
    {"stricter: duplicate names, one escaped", "{" A ",\"\\u0061\":{" T "}}", 16,
     "the name appears twice", 0},
    {"stricter: an entry as an array", "{\"a\":[\"I32\",[4],[0,16]]}", 16,
     "tensor \"a\": expected an object with dtype", 0},
    {"stricter: a dtype as an object",
     "{\"a\":{\"dtype\":{\"I32\":null},\"shape\":[4],\"data_offsets\":[0,16]}}", 16,
     "expected the dtype as a string", 0},

    {"5: fields in any order", "{\"a\":{\"data_offsets\":[0,16],\"shape\":[4],\"dtype\":\"I32\"}}",
     16, NULL, 1},
    {"5: a missing dtype", "{\"a\":{\"shape\":[4],\"data_offsets\":[0,16]}}", 16,
     "the field dtype is missing", 0},
    {"5: a missing shape", "{\"a\":{\"dtype\":\"I32\",\"data_offsets\":[0,16]}}", 16,
     "the field shape is missing", 0},
    {"5: missing offsets", "{\"a\":{\"dtype\":\"I32\",\"shape\":[4]}}", 16,
     "the field data_offsets is missing", 0},
    {"5: a repeated dtype", "{\"a\":{\"dtype\":\"I32\"," T "}}", 16,
     "the field dtype appears twice", 0},
    {"5: a repeated shape, escaped", "{\"a\":{" T ",\"sh\\u0061pe\":[4]}}", 16,
     "the field shape appears twice", 0},
    {"5: repeated offsets", "{\"a\":{" T ",\"data_offsets\":[0,16]}}", 16,
     "the field data_offsets appears twice", 0},
    {"5: keys are compared after unescaping",
     "{\"a\":{\"\\u0064type\":\"I\\u00332\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16, NULL, 1},
    {"5: one offset", "{\"a\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0]}}", 16,
     "expected two integers", 0},
    {"5: three offsets", "{\"a\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16,16]}}", 16,
     "after two integers", 0},
    {"5: a trailing comma in an entry", "{\"a\":{" T ",}}", 16, "expected a field of the tensor",
     0},
    {"5: an unknown dtype", "{\"a\":{\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[0,16]}}",
     16, "unknown dtype \"F128\"", 0},
    {"5: dtypes in lower case", "{\"a\":{\"dtype\":\"i32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
     16, "unknown dtype \"i32\"", 0},
    {"5: a dtype of GGUF files",
     "{\"a\":{\"dtype\":\"Q4_0\",\"shape\":[32],\"data_offsets\":[0,18]}}", 18,
     "unknown dtype \"Q4_0\"", 0},

    {"5: unknown fields are skipped",
     "{\"a\":{" T ",\"x\":[1,{\"y\":null}],\"z\":true,\"f\":false,\"s\":\"\\n\"}}", 16, NULL, 1},
    {"5: repeats inside them are fine", "{\"a\":{" T ",\"x\":{\"k\":1,\"k\":2},\"x\":-0}}", 16,
     NULL, 1},
    {"5: but must be valid JSON", "{\"a\":{" T ",\"x\":nan}}", 16, "expected a value", 0},
    {"5: unclosed array inside", "{\"a\":{" T ",\"x\":[1}}", 16, "expected ',' or ']'", 0},
    {"5: trailing comma inside", "{\"a\":{" T ",\"x\":[1,]}}", 16, "expected a value, found \"]\"",
     0},
    {"5: a leading zero inside", "{\"a\":{" T ",\"x\":01}}", 16, "leading zero", 0},
    {"5: a bare minus inside", "{\"a\":{" T ",\"x\":-}}", 16, "expected a digit", 0},
    {"5: a bare point inside", "{\"a\":{" T ",\"x\":1.}}", 16, "decimal point", 0},
    {"5: a bare exponent inside", "{\"a\":{" T ",\"x\":1e+}}", 16, "exponent", 0},

    {"5: shape 2.0", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2.0],\"data_offsets\":[0,2]}}", 2,
     "plain non-negative integer", 0},
    {"5: shape 2e0", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2e0],\"data_offsets\":[0,2]}}", 2,
     "plain non-negative integer", 0},
    {"5: shape -0", "{\"a\":{\"dtype\":\"U8\",\"shape\":[-0],\"data_offsets\":[0,0]}}", 0,
     "plain non-negative integer", 0},
    {"5: shape 02", "{\"a\":{\"dtype\":\"U8\",\"shape\":[02],\"data_offsets\":[0,2]}}", 2,
     "plain non-negative integer", 0},
    {"5: shape +2", "{\"a\":{\"dtype\":\"U8\",\"shape\":[+2],\"data_offsets\":[0,2]}}", 2,
     "plain non-negative integer", 0},
    {"5: offset 00000000", "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[00000000,0]}}",
     0, "plain non-negative integer", 0},
    {"5: shape 2^64",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,18446744073709551616],\"data_offsets\":[0,0]}}", 0,
     "at most 18446744073709551615", 0},
    {"5: shape 2^64-1",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,18446744073709551615],\"data_offsets\":[0,0]}}", 0,
     NULL, 1},
    {"5: shape null", "{\"a\":{\"dtype\":\"U8\",\"shape\":null,\"data_offsets\":[0,0]}}", 0,
     "shape as an array", 0},

    {"6: a hole at the start", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2,
     "a hole of 1 byte", 0},
    {"6: a hole between",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[1],\"data_offsets\":[3,4]}}",
     4,
     "tensor \"b\" (header, byte 61): it begins at 3, but the data before it ends at 1: a hole of "
     "2 bytes",
     0},
    {"6: an overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "tensors overlap", 0},
    {"6: the same range twice",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[2],\"data_offsets\":[0,2]}}",
     2, "tensors overlap", 0},
    {"6: end before begin", "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,0]}}", 1,
     "end at 0, before they begin at 1", 0},
    {"6: comes before 7 on one tensor",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615,2],\"data_offsets\":[1,0]}}", 1,
     "before they begin", 0},
    {"7: [2^64-1,1,0] is fine",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615,1,0],\"data_offsets\":[0,0]}}", 0,
     NULL, 1},
    {"7: [2^63,2,0] is not",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808,2,0],\"data_offsets\":[0,0]}}", 0,
     "overflows 64 bits at dimension 2", 0},
    {"7: the product with the bits",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
     "elements of 8 bits overflow", 0},
    {"7: comes before 8",
     "{\"a\":{\"dtype\":\"F4\",\"shape\":[4611686018427387905],\"data_offsets\":[0,0]}}", 0,
     "overflow", 0},
    {"8: half a byte", "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
     "3 elements of F4, 4 bits each, are not a whole number of bytes", 0},
    {"8: comes before 9", "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[3],\"data_offsets\":[0,9]}}", 9,
     "not a whole number of bytes", 0},
    {"8: whole bytes are fine",
     "{\"a\":{\"dtype\":\"F4\",\"shape\":[2,1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"F6_"
     "E3M2\",\"shape\":[4],\"data_offsets\":[1,4]}}",
     4, NULL, 2},
    {"9: too many bytes", "{\"a\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,17]}}", 17,
     "span 17 bytes, but its shape of 4 elements of I32 takes 16", 0},
    {"9: a scalar has one element",
     "{\"a\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,0]}}", 0, "takes 4", 0},
    {"6 to 9 on one tensor before the next",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
     "\"shape\":[4],\"data_offsets\":[9,8]}}",
     8, "tensor \"a\"", 0},
    {"10: truncated", "{" A "}", 10,
     "truncated: 92.4% is there, 73 of 79 bytes; tensor \"a\" is the first that is "
     "not complete",
     0},
    {"10: no data at all", "{" A "}", 0, "truncated: 79.7% is there, 63 of 79 bytes", 0},
    {"10: trailing bytes", "{" A "}", 17, "no tensor claims 1 byte at the end, from byte 79 on", 0},
    {"10: no tensor, but data", "{}", 3, "no tensor claims 3 bytes at the end", 0},
    {"10: comes last", "{\"a\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,15]}}", 3,
     "takes 16", 0},

    {"header order is free",
     "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},\"a\":{\"dtype\":\"I32\","
     "\"shape\":[1],\"data_offsets\":[0,4]}}",
     6, NULL, 2},
    {"empty tensors at a boundary, several at one offset",
     "{\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},\"f\":{\"dtype\":\"F32\","
     "\"shape\":[0,3],\"data_offsets\":[4,4]},\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_"
     "offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
     5, NULL, 4},
    {"an empty tensor past the end",
     "{\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[5,5]},\"a\":{\"dtype\":\"I32\","
     "\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "a hole of 1 byte", 0},
    {"no alignment is demanded",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"F64\","
     "\"shape\":[1],\"data_offsets\":[1,9]}}",
     9, NULL, 2},
};

static void check_rule(const rule *r) {
    bytes file = make_model(r->json, r->data);
    tenmap_options read_backend = TENMAP_OPTIONS_INIT;
    read_backend.backend = TENMAP_BACKEND_READ;
    if (r->error) {
        must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, r->error);
        must_fail_memory(file, &read_backend, TENMAP_ERR_FORMAT, r->error);
    } else {
        tenmap_model *model = must_open_memory(file, NULL);
        assert_int_equal(tenmap_count(model), r->count);
        tenmap_close(model);
    }
    free(file.at);
}

static void every_rule_of_acceptance(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        print_message("           %s\n", rules[i].name);
        check_rule(&rules[i]);
    }
}

/* Every file that opens must be refused at every shorter length, and with one more byte. */
static void every_truncation_is_caught(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        if (rules[i].error)
            continue;
        bytes file = make_model(rules[i].json, rules[i].data);
        for (size_t size = 0; size < file.size; size++) {
            tenmap_model *model;
            unsigned char *exact = malloc(size ? size : 1); /* the exact size, for sanitizers */
            memcpy(exact, file.at, size);
            assert_int_not_equal(tenmap_open_memory(exact, size, NULL, &model, NULL), TENMAP_OK);
            assert_null(model);
            free(exact);
        }
        free(file.at);
    }
}

static void rule_1_files_under_8_bytes(void **state) {
    (void)state;
    must_fail_memory((bytes){(unsigned char *)"", 0}, NULL, TENMAP_ERR_FORMAT, "the file is empty");
    must_fail_memory((bytes){(unsigned char *)"\2\0\0\0\0\0\0", 7}, NULL, TENMAP_ERR_FORMAT,
                     "it has 7 bytes");
}

static void rule_2_comes_before_rule_3(void **state) {
    (void)state;
    unsigned char over[10] = {0x01, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{', '}'}; /* 100,000,001 */
    must_fail_memory((bytes){over, 10}, NULL, TENMAP_ERR_LIMIT, "over the limit of 100000000");
    memset(over, 0xff, 8); /* not text either, whatever the bytes are */
    must_fail_memory((bytes){over, 10}, NULL, TENMAP_ERR_LIMIT, "over the limit");
    memcpy(over, "\x00\xe1\xf5\x05\0\0\0", 8); /* at the limit: only the file's length is wrong */
    must_fail_memory((bytes){over, 10}, NULL, TENMAP_ERR_FORMAT, "truncated by at least 99999998");
}

static void max_header_bytes_lowers_and_raises_the_limit(void **state) {
    (void)state;
    bytes file = make_model("{" A "}", 16);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.max_header_bytes = file.size - 8 - 16 - 1;
    must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "(a higher limit for headers allows it)");
    options.max_header_bytes++;
    tenmap_close(must_open_memory(file, &options));
    options.max_header_bytes = UINT64_MAX;
    tenmap_close(must_open_memory(file, &options));
    memset(file.at, 0xff, 8); /* a length that would wrap around */
    must_fail_memory(file, &options, TENMAP_ERR_FORMAT, "truncated");
    free(file.at);
}

static void rule_3_says_how_much_is_missing(void **state) {
    (void)state;
    bytes file = make_model("{" A "}", 16);
    must_fail_memory((bytes){file.at, 30}, NULL, TENMAP_ERR_FORMAT,
                     "says that the header has 55 bytes, but only 22 follow it: the file is "
                     "truncated by at least 33 bytes");
    free(file.at);
}

static void zero_bytes_are_refused(void **state) {
    (void)state;
    bytes behind = make_model_n("{}\0", 3, 0), inside = make_model_n("{\"a\0\":1}", 8, 0);
    must_fail_memory(behind, NULL, TENMAP_ERR_FORMAT, "expected nothing but white space");
    must_fail_memory(inside, NULL, TENMAP_ERR_FORMAT, "raw control character");
    free(behind.at);
    free(inside.at);
}

/* Nesting: 127 levels, the top object is 1, the entry 2, so 125 inside a field. */
static void nesting_stops_at_127(void **state) {
    (void)state;
    static const char *const open_close[] = {"[", "]", "{\"k\":", "}"};
    for (int object = 0; object < 2; object++)
        for (int depth = 124; depth <= 126; depth++) {
            char json[4096] = "{\"a\":{" T ",\"x\":";
            for (int i = 0; i < depth; i++)
                strcat(json, open_close[object * 2]);
            strcat(json, object ? "1" : "");
            for (int i = 0; i < depth; i++)
                strcat(json, open_close[object * 2 + 1]);
            strcat(json, "}}");
            bytes file = make_model(json, 16);
            if (depth <= 125)
                tenmap_close(must_open_memory(file, NULL));
            else
                must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "more than 127 deep");
            free(file.at);
        }
}

static void a_million_brackets_do_not_recurse(void **state) {
    (void)state;
    size_t count = 1000000;
    char *json = malloc(count + 64);
    int used = sprintf(json, "{\"a\":{\"x\":");
    memset(json + used, '[', count);
    bytes file = make_model_n(json, (size_t)used + count, 0);
    must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "more than 127 deep");
    free(json);
    free(file.at);
}

/* A number in an unknown field must not overflow a double, as the reference computes it. */
static void numbers_of_unknown_fields(void **state) {
    (void)state;
    static const struct {
        const char *number;
        bool good;
    } numbers[] = {
        {"0", true},
        {"-0", true},
        {"1e308", true},
        {"1e309", false},
        {"-1e309", false},
        {"0e999999999999999999999", true},
        {"0.0e999", true},
        {"1e-999999999999999999999", true},
        {"1.7976931348623157e308", true},
        {"1.7976931348623159e308", false},
        {"17976931348623157e292", true},
        {"18446744073709551615e289", false},
        {"17976931348623157081e289", false}, /* rounds up twice */
        {"0.00001e313", true},               /* 1 * 10^308 */
        {"0.00001e314", false},
        {"0.1e309", true}, /* 1 * 10^308 */
        {"1E+308", true},
        {"1e00000000000000000000308", true},
        {"123456789012345678901234567890", true},
        {"1.000000000000000000000000000000000000001", true},
    };
    for (size_t i = 0; i < COUNT(numbers); i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"a\":{" T ",\"x\":%s}}", numbers[i].number);
        bytes file = make_model(json, 16);
        print_message("           %s\n", numbers[i].number);
        if (numbers[i].good)
            tenmap_close(must_open_memory(file, NULL));
        else
            must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "too large for a double");
        free(file.at);
    }
    /* 309 digits: the first 19 or 20 are the significand, the others add to the exponent. */
    for (int digits = 308; digits <= 310; digits++) {
        char json[1024];
        int used = sprintf(json, "{\"a\":{" T ",\"x\":");
        memset(json + used, '9', (size_t)digits);
        strcpy(json + used + digits, "}}");
        bytes file = make_model(json, 16);
        if (digits == 308)
            tenmap_close(must_open_memory(file, NULL));
        else
            must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "too large for a double");
        free(file.at);
    }
}

static void ten_thousand_dimensions_and_long_names(void **state) {
    (void)state;
    size_t dims = 10000, name = 100000;
    char *json = malloc(name + 2 * dims + 256), *at = json;
    at += sprintf(at, "{\"");
    memset(at, 'n', name);
    at += name;
    at += sprintf(at, "\":{\"dtype\":\"U8\",\"shape\":[1");
    for (size_t i = 1; i < dims; i++)
        at += sprintf(at, ",1");
    at += sprintf(at, "],\"data_offsets\":[0,1]}}");
    bytes file = make_model(json, 1);
    tenmap_model *model = must_open_memory(file, NULL);
    const tenmap_tensor *t = tenmap_at(model, 0);
    assert_int_equal(t->rank, dims);
    assert_int_equal(t->name_len, name);
    for (size_t i = 0; i < dims; i++)
        assert_int_equal(t->shape[i], 1);
    assert_ptr_equal(tenmap_find(model, t->name), t);
    tenmap_close(model);
    free(json);
    free(file.at);
}

static void lenient_opens_what_is_listed_and_no_more(void **state) {
    (void)state;
    tenmap_options lenient = TENMAP_OPTIONS_INIT;
    lenient.flags = TENMAP_OPEN_LENIENT;
    static const rule opens[] = {
        {"trailing bytes", "{" A "}", 20, NULL, 1},
        {"holes",
         "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[1],\"data_offsets\":[5,6]}}",
         6, NULL, 2},
        {"unknown dtypes", "{\"a\":{\"dtype\":\"F4_E2M1\",\"shape\":[3],\"data_offsets\":[0,2]}}",
         2, NULL, 1},
    };
    static const rule refused[] = {
        {"overlap",
         "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "overlap", 0},
        {"out of bounds", "{" A "}", 15, "truncated: 98.7% is there, 78 of 79 bytes", 0},
        {"out of bounds, opaque", "{\"a\":{\"dtype\":\"?\",\"shape\":[3],\"data_offsets\":[0,20]}}",
         2, "truncated", 0},
        {"an opaque tensor over another",
         "{\"a\":{\"dtype\":\"?\",\"shape\":[3],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "overlap", 0},
        {"sizes that do not match",
         "{\"a\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,15]}}", 15, "takes 16", 0},
        {"duplicate names", "{" A "," A "}", 16, "twice", 0},
    };
    for (size_t i = 0; i < COUNT(opens); i++) {
        bytes file = make_model(opens[i].json, opens[i].data);
        tenmap_model *model = must_open_memory(file, &lenient);
        assert_int_equal(tenmap_count(model), opens[i].count);
        tenmap_close(model);
        must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "");
        free(file.at);
    }
    for (size_t i = 0; i < COUNT(refused); i++) {
        bytes file = make_model(refused[i].json, refused[i].data);
        must_fail_memory(file, &lenient, TENMAP_ERR_FORMAT, refused[i].error);
        free(file.at);
    }
}

static void opaque_tensors_keep_their_dtypes_text(void **state) {
    (void)state;
    tenmap_options lenient = TENMAP_OPTIONS_INIT;
    lenient.flags = TENMAP_OPEN_LENIENT;
    bytes file = make_model("{\"a\":{\"dtype\":\"U4\",\"shape\":[3,5],\"data_offsets\":[0,8]},"
                            "\"b\":{\"shape\":[],\"data_offsets\":[8,9],\"dtype\":\"w\\u0065ird\"},"
                            "\"c\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[9,11]}}",
                            11);
    tenmap_model *model = must_open_memory(file, &lenient);
    const tenmap_tensor *a = tenmap_find(model, "a"), *b = tenmap_find(model, "b");
    assert_int_equal(a->dtype, TENMAP_OPAQUE);
    assert_string_equal(tenmap_dtype_text(a), "U4");
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->shape[0], 3);
    assert_int_equal(a->shape[1], 5);
    assert_int_equal(a->nelems, 15);
    assert_int_equal(a->nbytes, 8);
    assert_string_equal(tenmap_dtype_text(b), "weird");
    assert_int_equal(b->rank, 0);
    assert_string_equal(tenmap_dtype_text(tenmap_find(model, "c")), "BF16");
    assert_string_equal(tenmap_dtype_text(NULL), "UNKNOWN");
    tenmap_close(model);
    free(file.at);
}

static void errors_carry_the_offset_and_the_tensor(void **state) {
    (void)state;
    tenmap_error error;
    tenmap_model *model;
    bytes file = make_model("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                            "\"b\":{\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[1,2]}}",
                            2);
    assert_int_equal(tenmap_open_memory(file.at, file.size, NULL, &model, &error),
                     TENMAP_ERR_FORMAT);
    assert_int_equal(error.offset, 61);
    assert_int_equal(file.at[error.offset], '"');
    assert_int_equal(error.index, 1);
    assert_int_equal(error.os_error, 0);
    free(file.at);
}

static void names_in_messages_are_escaped_and_shortened(void **state) {
    (void)state;
    char json[4096], name[3000];
    tenmap_error error;
    tenmap_model *model;
    strcpy(name, "\\u001b[31m\\n\\u202e\\u0000");
    for (int i = 0; i < 600; i++)
        strcat(name, "\xc3\xa9"); /* two bytes each: a cut must not fall between them */
    snprintf(json, sizeof json, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}",
             name);
    bytes file = make_model(json, 2);
    assert_int_equal(tenmap_open_memory(file.at, file.size, NULL, &model, &error),
                     TENMAP_ERR_FORMAT);
    check_error(&error, TENMAP_ERR_FORMAT);
    assert_non_null(strstr(error.message, "\"\\u001b[31m\\n\\u202e\\u0000\xc3\xa9"));
    assert_non_null(strstr(error.message, "\xc3\xa9...\xc3\xa9"));
    assert_non_null(strstr(error.message, "takes 1"));
    free(file.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_of_acceptance),
        cmocka_unit_test(every_truncation_is_caught),
        cmocka_unit_test(rule_1_files_under_8_bytes),
        cmocka_unit_test(rule_2_comes_before_rule_3),
        cmocka_unit_test(max_header_bytes_lowers_and_raises_the_limit),
        cmocka_unit_test(rule_3_says_how_much_is_missing),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(nesting_stops_at_127),
        cmocka_unit_test(a_million_brackets_do_not_recurse),
        cmocka_unit_test(numbers_of_unknown_fields),
        cmocka_unit_test(ten_thousand_dimensions_and_long_names),
        cmocka_unit_test(lenient_opens_what_is_listed_and_no_more),
        cmocka_unit_test(opaque_tensors_keep_their_dtypes_text),
        cmocka_unit_test(errors_carry_the_offset_and_the_tensor),
        cmocka_unit_test(names_in_messages_are_escaped_and_shortened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
