/*
 * .npy arrays and .npz archives: headers of all versions, dtypes and orders, and what is refused,
 * with the verdicts of docs/format.md.
 */
#include "numpy_files.h"

static const char *numpy_folder;

static int begin(void **state) {
    int failed = make_folder(state);
    numpy_folder = *state;
    return failed;
}

/* Refused from memory and from a file, where the check agrees. */
static void refused(bytes file, tenmap_status status, const char *fragment) {
    char path[300];
    must_fail_memory(file, NULL, status, fragment);
    snprintf(path, sizeof path, "%s/file", numpy_folder);
    write_file(path, file.at, file.size);
    must_fail(path, NULL, status, fragment);
    free(file.at);
}

/* Opens it, and checks the only tensor. */
static void opens_as(bytes file, tenmap_dtype dtype, uint32_t rank, const uint64_t *dims) {
    tenmap_model *m = must_open_memory(file, NULL);
    const tenmap_tensor *t = tenmap_at(m, 0);
    assert_string_equal(tenmap_shard_at(m, 0)->format, "npy");
    assert_int_equal(tenmap_count(m), 1);
    assert_string_equal(t->name, "array");
    assert_ptr_equal(tenmap_find(m, "array"), t);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->rank, rank);
    for (uint32_t d = 0; d < rank; d++)
        assert_true(t->shape[d] == dims[d]);
    assert_int_equal(t->file_offset + t->nbytes, file.size);
    tenmap_close(m);
    free(file.at);
}

static void headers_of_all_versions_open(void **state) {
    static const char *const dicts[] = {
        NPY_DICT("<f4", "False", "(2, 3)"),
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{\"shape\":(2,3,),\"fortran_order\":False,\"descr\":\"<f4\",}",
        " \t{ 'shape' : ( 2 , 3 ) , 'descr' :\r\n'<f4' , 'fortran_order' : False } \n\n ",
    };
    (void)state;
    for (unsigned version = 1; version <= 3; version++)
        for (size_t i = 0; i < COUNT(dicts); i++)
            opens_as(make_npy(version, dicts[i], 24), TENMAP_F32, 2, (uint64_t[]){2, 3});
    opens_as(make_npy(1, NPY_DICT("<f8", "False", "(3L,)"), 24), TENMAP_F64, 1, (uint64_t[]){3});
    opens_as(make_npy(2, NPY_DICT("<f8", "False", "(3L, 1L)"), 24), TENMAP_F64, 2,
             (uint64_t[]){3, 1});
    refused(make_npy(3, NPY_DICT("<f8", "False", "(3L,)"), 24), TENMAP_ERR_FORMAT,
            "expected ',' or ')' in the shape, found \"L,)");
    refused(make_npy(4, NPY_DICT("<f8", "False", "(3,)"), 24), TENMAP_ERR_UNSUPPORTED,
            "version 4.0");
    refused(make_npy(0, NPY_DICT("<f8", "False", "(3,)"), 24), TENMAP_ERR_UNSUPPORTED,
            "version 0.0");
    refused(make_npy(0x101, NPY_DICT("<f8", "False", "(3,)"), 24), TENMAP_ERR_UNSUPPORTED,
            "version 1.1");
}

static void shapes_of_all_ranks_open(void **state) {
    (void)state;
    opens_as(make_npy(1, NPY_DICT("<f4", "False", "()"), 4), TENMAP_F32, 0, NULL);
    opens_as(make_npy(1, NPY_DICT("<f4", "True", "( )"), 4), TENMAP_F32, 0, NULL);
    opens_as(make_npy(1, NPY_DICT("<f4", "True", "(0,)"), 0), TENMAP_F32, 1, (uint64_t[]){0});
    opens_as(make_npy(1, NPY_DICT("|u1", "False", "(1, 2, 1, 3, 1)"), 6), TENMAP_U8, 5,
             (uint64_t[]){1, 2, 1, 3, 1});
    /* Beside an empty dimension, others may be of any size. */
    opens_as(make_npy(1, NPY_DICT("<f4", "True", "(9223372036854775808, 4, 0)"), 0), TENMAP_F32, 3,
             (uint64_t[]){UINT64_C(1) << 63, 4, 0});
    char dict[600] = "{'descr': '|u1', 'fortran_order': True, 'shape': (";
    for (int i = 0; i < 64; i++)
        strcat(dict, "1, ");
    strcat(dict, ")}");
    opens_as(make_npy(1, dict, 1), TENMAP_U8, 64,
             (uint64_t[64]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    strcpy(strstr(dict, ")}"), "1)}");
    refused(make_npy(1, dict, 1), TENMAP_ERR_FORMAT, "more than 64 dimensions");
}

static void every_dtype_with_a_counterpart_opens(void **state) {
    static const struct {
        const char *descr;
        tenmap_dtype dtype;
        size_t bytes;
    } rows[] = {{"|b1", TENMAP_BOOL, 1}, {"<b1", TENMAP_BOOL, 1}, {">u1", TENMAP_U8, 1},
                {"|i1", TENMAP_I8, 1},   {"=i1", TENMAP_I8, 1},   {"u1", TENMAP_U8, 1},
                {"<i2", TENMAP_I16, 2},  {"<u2", TENMAP_U16, 2},  {"<i4", TENMAP_I32, 4},
                {"<u4", TENMAP_U32, 4},  {"<i8", TENMAP_I64, 8},  {"<u8", TENMAP_U64, 8},
                {"<f2", TENMAP_F16, 2},  {"<f4", TENMAP_F32, 4},  {"<f8", TENMAP_F64, 8},
                {"<c8", TENMAP_C64, 8}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char dict[100];
        snprintf(dict, sizeof dict, "{'descr':'%s','fortran_order':False,'shape':(3,)}",
                 rows[i].descr);
        opens_as(make_npy(1, dict, 3 * rows[i].bytes), rows[i].dtype, 1, (uint64_t[]){3});
    }
}

static void other_dtypes_are_refused_by_name(void **state) {
    static const struct {
        const char *descr, *fragment;
    } rows[] = {
        {"'>f4'", "big-endian: save it again with x.astype('<f4')"},
        {"'>c8'", "big-endian"},
        {"'f4'", "does not say in which order"},
        {"'=i8'", "does not say in which order"},
        {"'|f4'", "does not say in which order"},
        {"'|O'", "holds Python objects, which only running a pickle would make"},
        {"'O'", "Python objects"},
        {"'|S5'", "strings"},
        {"'<U3'", "strings"},
        {"'|a3'", "strings"},
        {"'<V2'", "bfloat16"},
        {"'|V1'", "raw bytes"},
        {"'<M8[ns]'", "dates"},
        {"'<m8[D]'", "spans of time"},
        {"'<c16'", "complex"},
        {"'<f16'", "long double"},
        {"'<f1'", "ml_dtypes"},
        {"[('a', '<f4'), ('b', '<i4')]", "structured array"},
        {"('<f4', (2,))", "its dtype is an array of another dtype"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char dict[150];
        snprintf(dict, sizeof dict, "{'descr':%s,'fortran_order':False,'shape':(3,)}",
                 rows[i].descr);
        refused(make_npy(1, dict, 48), TENMAP_ERR_UNSUPPORTED, rows[i].fragment);
    }
}

static void hostile_literals_are_refused(void **state) {
    static const struct {
        const char *dict, *fragment;
    } rows[] = {
        {"", "header ends at byte 10, where a dict"},
        {"[]", "expected a dict as Python writes it, found \"[]\""},
        {"{", "the name of a field in quotes"},
        {"{}", "the field descr is missing"},
        {"{,}", "the name of a field in quotes, or '}', found \",}\""},
        {"{'descr'", "':' after the name"},
        {"{'descr':", "the dtype as a string"},
        {"{'descr':'<f4", "the end of a string"},
        {"{'descr':'<f4'", "',' or '}'"},
        {"{'descr':'<f4' 'x'", "',' or '}'"},
        {"{'descr':'\\x3cf4'}", "without escapes"},
        {"{'descr':'<f4\n'}", "without escapes"},
        {"{'d\xc3\xa9':'<f4'}", "without escapes"},
        {"{u'descr':'<f4'}", "the name of a field in quotes"},
        {"{'descr':r'<f4'}", "the dtype as a string"},
        {"{'descr':''}", "unknown dtype \"\""},
        {"{'descr':'<'}", "unknown dtype \"<\""},
        {"{'descr':'<q9'}", "unknown dtype \"<q9\""},
        {"{'descr':'<i3'}", "unknown dtype \"<i3\""},
        {"{'descr':4}", "the dtype as a string, found \"4}\""},
        {"{'descr':'<f4','descr':'<f8'}", "the field descr appears twice"},
        {"{'evil':'<f4'}", "unknown field \"evil\""},
        {"{'':'<f4'}", "unknown field \"\""},
        {"{'fortran_order':1}", "True or False, found \"1}\""},
        {"{'fortran_order':Tru", "True or False"},
        {"{'fortran_order':", "True or False"},
        {"{'shape':3}", "the shape as a tuple"},
        {"{'shape':[3]}", "the shape as a tuple"},
        {"{'shape':(3)}", "',' after the only dimension"},
        {"{'shape':(,)}", "a dimension, found \",)}\""},
        {"{'shape':(3,,4)}", "a dimension"},
        {"{'shape':(3 4)}", "',' or ')' in the shape"},
        {"{'shape':(3,", "a dimension"},
        {"{'shape':(-1,)}", "a dimension, which is not negative"},
        {"{'shape':(+1,)}", "a dimension"},
        {"{'shape':(03,)}", "a dimension"},
        {"{'shape':(0x3,)}", "',' or ')' in the shape"},
        {"{'shape':(1_0,)}", "',' or ')' in the shape"},
        {"{'shape':(1.0,)}", "',' or ')' in the shape"},
        {"{'shape':(True,)}", "a dimension"},
        {"{'shape':((3,),)}", "a dimension"},
        {"{'shape':(18446744073709551616,)}", "does not fit into 64 bits"},
        {"{'shape':(99999999999999999999999999999,)}", "does not fit into 64 bits"},
        {"{'descr':'<f4','shape':(3,)}", "the field fortran_order is missing"},
        {"{'descr':'<f4','fortran_order':False}", "the field shape is missing"},
        {NPY_DICT("<f4", "False", "(3,)") "x", "nothing but white space after the dict"},
        {NPY_DICT("<f4", "False", "(3,)") "{}", "nothing but white space after the dict"},
        {"{'descr':'<f4',__import__('os'):1}", "the name of a field in quotes"},
        {"__import__('os').system('true')", "a dict as Python writes it"},
        {"((((((((((((((((((((((((((((((((", "a dict as Python writes it"},
        {"{'descr':[[[[[[[[[[[[[[[[[[[[[[[[[", "structured array"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool structured = strstr(rows[i].fragment, "structured") != NULL;
        refused(make_npy(1 + (unsigned)i % 3, rows[i].dict, 12),
                structured ? TENMAP_ERR_UNSUPPORTED : TENMAP_ERR_FORMAT, rows[i].fragment);
    }
    bytes zero = make_npy(1, NPY_DICT("<f4", "False", "(3,)"), 12);
    zero.at[zero.size - 13] = 0;
    refused(zero, TENMAP_ERR_FORMAT, "nothing but white space after the dict");
}

static void shapes_that_overflow_are_refused(void **state) {
    static const char *const shapes[] = {"(18446744073709551615,)", "(4294967296, 4294967296)",
                                         "(9223372036854775807, 3)", "(2305843009213693952, 1)",
                                         "(2, 3, 6148914691236517205)"};
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int fortran = 0; fortran < 2; fortran++) {
            char dict[150];
            snprintf(dict, sizeof dict, "{'descr':'<f8','fortran_order':%s,'shape':%s}",
                     fortran ? "True" : "False", shapes[i]);
            refused(make_npy(1, dict, 48), TENMAP_ERR_FORMAT, "more than 64 bits can count");
        }
    refused(make_npy(1, NPY_DICT("|u1", "False", "(1152921504606846976,)"), 48), TENMAP_ERR_FORMAT,
            "it is truncated by 1152921504606846928 bytes");
}

/* The number that these two bytes of a file are, on any host. */
static uint16_t file_u16(const unsigned char *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static void fortran_order_is_strided(void **state) {
    bytes file = make_npy(1, NPY_DICT("<i2", "True", "(2, 3, 4)"), 48);
    uint16_t got[24], expected[24];
    tenmap_model *m = must_open_memory(file, NULL);
    const tenmap_tensor *t = tenmap_at(m, 0);
    const unsigned char *data = file.at + file.size - 48;
    (void)state;
    assert_true(t->flags & TENMAP_TENSOR_COMPUTED);
    assert_null(t->data);
    assert_int_equal(tenmap_read(t, 0, 24, TENMAP_AS_STORED, got, sizeof got, 0, NULL), TENMAP_OK);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 3; j++)
            for (size_t k = 0; k < 4; k++)
                expected[i * 12 + j * 4 + k] = file_u16(data + 2 * (i + 2 * j + 6 * k));
    assert_memory_equal(got, expected, sizeof got);
    tenmap_close(m);
    free(file.at);
    /* If only one dimension matters, both orders are the same. */
    static const char *const plain[] = {"()", "(24,)", "(1, 24, 1)", "(24, 1)", "(3, 0, 4)"};
    for (size_t i = 0; i < COUNT(plain); i++) {
        char dict[150];
        snprintf(dict, sizeof dict, "{'descr':'<i2','fortran_order':True,'shape':%s}", plain[i]);
        file = make_npy(1, dict, i == 0 ? 2 : i == 4 ? 0 : 48);
        m = must_open_memory(file, NULL);
        assert_false(tenmap_at(m, 0)->flags & TENMAP_TENSOR_COMPUTED);
        assert_ptr_equal(tenmap_at(m, 0)->data, file.at + file.size - tenmap_at(m, 0)->nbytes);
        tenmap_close(m);
        free(file.at);
    }
}

/* Each prefix is refused, and so is each header that the file or the limit has no room for. */
static void truncated_arrays_are_refused(void **state) {
    (void)state;
    for (unsigned version = 1; version <= 3; version++) {
        bytes file = make_npy(version, NPY_DICT("<f4", "False", "(2, 3)"), 24);
        for (size_t size = 0; size < file.size; size++)
            must_fail_memory((bytes){file.at, size}, NULL, TENMAP_ERR_FORMAT, "");
        must_fail_memory((bytes){file.at, 8}, NULL, TENMAP_ERR_FORMAT, "only 8 bytes are there");
        must_fail_memory((bytes){file.at, 40}, NULL, TENMAP_ERR_FORMAT, "truncated, or damaged");
        must_fail_memory((bytes){file.at, file.size - 1}, NULL, TENMAP_ERR_FORMAT,
                         "its elements take 24 bytes, but only 23 follow its header: it is "
                         "truncated by 1 byte");
        free(file.at);
    }
    bytes huge = make_npy(2, NPY_DICT("<f4", "False", "(2, 3)"), 24);
    memcpy(huge.at + 8, "\xff\xff\xff\xff", 4);
    refused(huge, TENMAP_ERR_FORMAT, "should be at byte 0, but the file has");
    bytes file = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.max_header_bytes = 64;
    must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "the limit");
    options.max_header_bytes = 8;
    must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "the limit");
    free(file.at);
}

static void bytes_after_an_array_need_a_lenient_open(void **state) {
    char path[300];
    tenmap_options options = TENMAP_OPTIONS_INIT;
    bytes file = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 25);
    (void)state;
    refused(make_npy(1, NPY_DICT("<f4", "True", "(2, 3)"), 1000), TENMAP_ERR_FORMAT,
            "bytes follow its elements");
    must_fail_memory(file, NULL, TENMAP_ERR_FORMAT, "1 byte follows its elements");
    options.flags = TENMAP_OPEN_TRAILING;
    tenmap_model *m = must_open_memory(file, &options);
    assert_int_equal(tenmap_at(m, 0)->nbytes, 24);
    tenmap_close(m);
    snprintf(path, sizeof path, "%s/trailing.npy", numpy_folder);
    write_file(path, file.at, file.size);
    tenmap_close(must_open(path, &options));
    tenmap_error error = {0};
    check_agrees(path, &options, TENMAP_OK, &error);
    free(file.at);
}

/* Archives. */

static void npz_fails(const zip_file *files, size_t count, tenmap_status status,
                      const char *fragment) {
    refused(make_zip(files, count, NULL), status, fragment);
}

#define NPZ_FAILS(status, fragment, ...)                                                           \
    do {                                                                                           \
        const zip_file files_[] = {__VA_ARGS__};                                                   \
        npz_fails(files_, COUNT(files_), TENMAP_ERR_##status, fragment);                           \
    } while (0)

/* The entry of an array that is made before. */
#define NPZ_ENTRY(title, array)                                                                    \
    { .name = title, .data = (array).at, .size = (array).size }

static void archives_open(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24),
          f = make_npy(2, NPY_DICT("<i2", "True", "(3, 2)"), 12),
          long_header =
              make_npy(1,
                       NPY_DICT("|b1", "False",
                                "(1, )") "                                                  "
                                         "                                                  ",
                       1);
    zip_file files[] = {NPZ_ENTRY("a.npy", a),
                        NPZ_ENTRY("layer/f.npy", f),
                        NPZ_ENTRY("long.npy", long_header),
                        NPZ_ENTRY("\xc3\xa9.npy", a),
                        NPZ_ENTRY("bare", a),
                        NPZ_ENTRY(".npy", a),
                        {.name = "notes.txt", .data = "text of some length", .size = 19},
                        {.name = "empty/"}};
    zip_settings wide = {.zip64 = true};
    (void)state;
    files[0].zip64 = true;
    files[1].descriptor = true;
    files[2].padding = 60;
    files[3].flags = 0x800;
    bytes file = make_zip(files, COUNT(files), &wide);
    tenmap_model *m = must_open_memory(file, NULL);
    assert_string_equal(tenmap_shard_at(m, 0)->format, "npz");
    assert_int_equal(tenmap_count(m), 6);
    static const char *const names[] = {"a", "layer/f", "long", "\xc3\xa9", "bare", ""};
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(tenmap_at(m, i)->name, names[i]);
    assert_memory_equal(tenmap_find(m, "a")->data, a.at + a.size - 24, 24);
    assert_int_equal(tenmap_find(m, "long")->dtype, TENMAP_BOOL);
    assert_true(tenmap_find(m, "layer/f")->flags & TENMAP_TENSOR_COMPUTED);
    uint16_t got[6];
    assert_int_equal(
        tenmap_read(tenmap_find(m, "layer/f"), 0, 6, TENMAP_AS_STORED, got, sizeof got, 0, NULL),
        TENMAP_OK);
    assert_int_equal(got[1], file_u16(f.at + f.size - 6));
    tenmap_close(m);
    free(file.at);
    free(a.at);
    free(f.at);
    free(long_header.at);
}

static void the_directory_may_have_another_order(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24);
    zip_file files[] = {NPZ_ENTRY("b.npy", a), NPZ_ENTRY("a.npy", a)};
    uint64_t size = 30 + strlen("b.npy") + a.size;
    (void)state;
    files[0].local_name = "a.npy";
    files[0].moved = size;
    files[1].local_name = "b.npy";
    files[1].moved = (uint64_t)0 - size;
    bytes file = make_zip(files, COUNT(files), NULL);
    tenmap_model *m = must_open_memory(file, NULL);
    assert_string_equal(tenmap_at(m, 0)->name, "a");
    assert_true(tenmap_find(m, "a")->file_offset < tenmap_find(m, "b")->file_offset);
    tenmap_close(m);
    free(file.at);
    free(a.at);
}

static void broken_archives_are_refused(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24),
          big = make_npy(1, NPY_DICT(">f4", "False", "(2, 3)"), 24),
          more = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 30);
    zip_file packed = NPZ_ENTRY("a.npy", a), good = NPZ_ENTRY("a.npy", a);
    (void)state;
    packed.method = 8;
    NPZ_FAILS(UNSUPPORTED,
              "save the archive again with numpy.savez instead of numpy.savez_compressed", packed);
    NPZ_FAILS(FORMAT, "another array has the same name", good, NPZ_ENTRY("a", a));
    NPZ_FAILS(FORMAT, "another entry", good, good);
    NPZ_FAILS(FORMAT, "array \"x.npy\"", good, {.name = "x.npy", .data = "text", .size = 4});
    NPZ_FAILS(FORMAT, "does not begin with \\x93NUMPY", {.name = "x.npy", .data = "", .size = 0});
    NPZ_FAILS(FORMAT, "only 9 bytes are there", {.name = "x.npy", .data = a.at, .size = 9});
    NPZ_FAILS(FORMAT, "its header has 77 bytes, but the entry has 60",
              {.name = "x.npy", .data = a.at, .size = 60});
    NPZ_FAILS(FORMAT, "it is truncated by 1 byte",
              {.name = "x.npy", .data = a.at, .size = a.size - 1});
    NPZ_FAILS(FORMAT, "bytes follow its elements", NPZ_ENTRY("x.npy", more));
    NPZ_FAILS(UNSUPPORTED, "array \"x\" (byte 171): dtype \">f4\"", good, NPZ_ENTRY("x.npy", big));
    NPZ_FAILS(FORMAT, "its name is not UTF-8", NPZ_ENTRY("\xff.npy", a));
    NPZ_FAILS(FORMAT, "does not say that it is UTF-8", NPZ_ENTRY("\xc3\xa9.npy", a));
    free(a.at);
    free(big.at);
    free(more.at);
}

static void a_name_with_a_zero_is_refused(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24);
    zip_file files[] = {NPZ_ENTRY("aXb.npy", a)};
    bytes file = make_zip(files, 1, NULL);
    (void)state;
    for (size_t i = 0; i + 7 < file.size; i++)
        if (memcmp(file.at + i, "aXb.npy", 7) == 0)
            file.at[i + 1] = '\0';
    refused(file, TENMAP_ERR_FORMAT, "its name has a byte 0");
    free(a.at);
}

/* What an archive is does not depend on the order of its entries, nor on the file's name. */
static void the_entries_tell_what_an_archive_is(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24);
    zip_file pickle = {.name = "m/data.pkl", .data = "\x80\2}.", .size = 4};
    (void)state;
    for (int first = 0; first < 2; first++) {
        zip_file files[] = {NPZ_ENTRY("x.npy", a), NPZ_ENTRY("y.npy", a)};
        files[first] = pickle;
        bytes file = make_zip(files, 2, NULL);
        tenmap_model *m = must_open_memory(file, NULL);
        assert_string_equal(tenmap_shard_at(m, 0)->format, "pytorch");
        assert_int_equal(tenmap_count(m), 0);
        tenmap_close(m);
        free(file.at);
    }
    NPZ_FAILS(FORMAT, "without FOLDER/data.pkl", NPZ_ENTRY("array", a));
    refused(make_zip(NULL, 0, NULL), TENMAP_ERR_FORMAT, "zip archive without entries");
    free(a.at);
}

static void truncated_archives_are_refused(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24);
    zip_file files[] = {NPZ_ENTRY("a.npy", a), NPZ_ENTRY("b.npy", a)};
    bytes file = make_zip(files, COUNT(files), NULL);
    (void)state;
    for (size_t size = 0; size < file.size; size++)
        must_fail_memory((bytes){file.at, size}, NULL, TENMAP_ERR_FORMAT, "");
    must_fail_memory((bytes){file.at, file.size - 1}, NULL, TENMAP_ERR_FORMAT,
                     "this is a NumPy archive (.npz) without its end");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    for (uint64_t limit = 1; limit < 400; limit++) {
        options.max_header_bytes = limit;
        must_fail_memory(file, &options, TENMAP_ERR_LIMIT, "the limit");
    }
    free(file.at);
    free(a.at);
}

/* A fingerprint reads the header again, and so finds a file that became another one. */
static void fingerprints_cover_the_headers(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24);
    unsigned char first[32], second[32];
    tenmap_error error;
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s/print.npz", numpy_folder);
    zip_file files[] = {NPZ_ENTRY("a.npy", a), NPZ_ENTRY("b.npy", a)};
    bytes file = make_zip(files, 2, NULL);
    write_file(path, file.at, file.size);
    tenmap_model *m = must_open(path, NULL), *again = must_open(path, NULL);
    assert_int_equal(tenmap_fingerprint(m, 0, first, &error), TENMAP_OK);
    assert_int_equal(tenmap_fingerprint(again, 0, second, &error), TENMAP_OK);
    assert_memory_equal(first, second, sizeof first);
    tenmap_close(again);
    free(file.at);
    files[0] = (zip_file){.name = "m/data.pkl", .data = "\x80\2}.", .size = 4};
    file = make_zip(files, 2, NULL);
    write_file(path, file.at, file.size);
    assert_int_equal(tenmap_fingerprint(m, 0, second, &error), TENMAP_ERR_IO);
    check_error(&error, TENMAP_ERR_IO);
    tenmap_close(m);
    free(file.at);
    free(a.at);
}

static void count_finding(void *ctx, const tenmap_finding *finding) {
    if (finding->severity == TENMAP_FINDING_ERROR)
        ++*(int *)ctx;
}

/* A check names every bad array, and what is odd about a good one. */
static void a_check_goes_on_after_a_bad_array(void **state) {
    bytes a = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 24),
          big = make_npy(1, NPY_DICT(">f4", "False", "(2, 3)"), 24),
          none = make_npy(1, NPY_DICT("<f4", "False", "(0,)"), 0),
          more = make_npy(1, NPY_DICT("<f4", "False", "(2, 3)"), 30);
    zip_file files[] = {
        NPZ_ENTRY("big.npy", big),   NPZ_ENTRY("a.npy", a),
        NPZ_ENTRY("more.npy", more), {.name = "text.npy", .data = "text", .size = 4},
        NPZ_ENTRY("none.npy", none), NPZ_ENTRY("a", a)};
    bytes file = make_zip(files, COUNT(files), NULL);
    char path[300];
    int errors = 0;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    (void)state;
    snprintf(path, sizeof path, "%s/bad.npz", numpy_folder);
    write_file(path, file.at, file.size);
    must_fail(path, &options, TENMAP_ERR_FORMAT, "array \"text.npy\"");
    tenmap_error error;
    assert_int_equal(tenmap_check(path, NULL, count_finding, &errors, &error), TENMAP_OK);
    assert_int_equal(errors, 4);
    free(file.at);
    free(a.at);
    free(big.at);
    free(none.at);
    free(more.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_all_versions_open),
        cmocka_unit_test(shapes_of_all_ranks_open),
        cmocka_unit_test(every_dtype_with_a_counterpart_opens),
        cmocka_unit_test(other_dtypes_are_refused_by_name),
        cmocka_unit_test(hostile_literals_are_refused),
        cmocka_unit_test(shapes_that_overflow_are_refused),
        cmocka_unit_test(fortran_order_is_strided),
        cmocka_unit_test(truncated_arrays_are_refused),
        cmocka_unit_test(bytes_after_an_array_need_a_lenient_open),
        cmocka_unit_test(archives_open),
        cmocka_unit_test(the_directory_may_have_another_order),
        cmocka_unit_test(broken_archives_are_refused),
        cmocka_unit_test(a_name_with_a_zero_is_refused),
        cmocka_unit_test(the_entries_tell_what_an_archive_is),
        cmocka_unit_test(truncated_archives_are_refused),
        cmocka_unit_test(fingerprints_cover_the_headers),
        cmocka_unit_test(a_check_goes_on_after_a_bad_array),
    };
    return cmocka_run_group_tests(tests, begin, remove_folder);
}
