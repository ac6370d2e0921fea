/* Views, converted reads, blocks and raw bytes, on both backends. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "model/model.h"
#include "support.h"

#include <unistd.h>

static const uint32_t backends[] = {TENMAP_BACKEND_MAP, TENMAP_BACKEND_READ};

/* A model in a file with one tensor "t"; the caller closes. */
static tenmap_model *one_tensor(void **state, const char *dtype, const char *shape, size_t nbytes,
                                uint32_t backend) {
    char json[512];
    const char *path = in_folder(state, "t.safetensors");
    snprintf(json, sizeof json, "{\"t\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}",
             dtype, shape, nbytes);
    write_model(path, json, nbytes);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = backend;
    return must_open(path, &options);
}

/* The element's bits, found in the simplest way. */
static uint64_t element_bits(const unsigned char *file, uint64_t i, unsigned bits) {
    uint64_t value = 0;
    for (unsigned b = 0; b < bits; b++) {
        uint64_t at = i * bits + b;
        value |= (uint64_t)(file[at / 8] >> (at % 8) & 1) << b;
    }
    return value;
}

static uint64_t result_bits(const unsigned char *dst, uint64_t i, unsigned bits) {
    uint64_t value = 0;
    if (bits < 8)
        return element_bits(dst, i, bits);
    for (unsigned b = 0; b < bits / 8; b++) { /* host order */
        unsigned at = TMI_BIG_ENDIAN ? b : bits / 8 - 1 - b;
        value = value << 8 | dst[i * (bits / 8) + at];
    }
    return value;
}

static void every_dtype_reads_as_itself(void **state) {
    enum { ELEMENTS = 480 };
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        for (size_t b = 0; b < COUNT(backends); b++) {
            unsigned bits = tenmap_dtype_bits(d);
            size_t nbytes = (size_t)ELEMENTS * bits / 8;
            tenmap_model *m = one_tensor(state, tenmap_dtype_name(d), "[480]", nbytes, backends[b]);
            const tenmap_tensor *t = tenmap_at(m, 0);
            unsigned char file[ELEMENTS * 8], dst[ELEMENTS * 8];
            assert_int_equal(tenmap_read_bytes(t, 0, nbytes, file, NULL), TENMAP_OK);
            for (uint64_t first = 0; first < 20; first++)
                for (uint64_t count = 0; count < 40; count++) {
                    size_t need = (size_t)((count * bits + 7) / 8);
                    memset(dst, 0xee, sizeof dst);
                    assert_int_equal(tenmap_read(t, first, count, count % 2 ? d : TENMAP_AS_STORED,
                                                 dst, need, 0, NULL),
                                     TENMAP_OK);
                    if (d == TENMAP_C64)
                        continue; /* two parts of four bytes; the conversion tests check it */
                    for (uint64_t i = 0; i < count; i++)
                        assert_int_equal(result_bits(dst, i, bits),
                                         element_bits(file, first + i, bits));
                    for (uint64_t spare = count * bits; spare < need * 8; spare++)
                        assert_int_equal(dst[spare / 8] >> (spare % 8) & 1, 0);
                    assert_int_equal(dst[need], 0xee);
                }
            tenmap_close(m);
        }
}

static void every_dtype_but_complex_reads_as_f32(void **state) {
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        for (size_t b = 0; b < COUNT(backends); b++) {
            float whole[480], part[480];
            size_t nbytes = (size_t)480 * tenmap_dtype_bits(d) / 8;
            tenmap_model *m = one_tensor(state, tenmap_dtype_name(d), "[480]", nbytes, backends[b]);
            const tenmap_tensor *t = tenmap_at(m, 0);
            tenmap_status status = tenmap_read(t, 0, 480, TENMAP_F32, whole, sizeof whole, 0, NULL);
            assert_int_equal(status, d == TENMAP_C64 ? TENMAP_ERR_UNSUPPORTED : TENMAP_OK);
            for (uint64_t first = 0; status == TENMAP_OK && first < 30; first++) {
                size_t size = (size_t)(480 - first) * sizeof(float);
                assert_int_equal(
                    tenmap_read(t, first, 480 - first, TENMAP_F32, part, size, 0, NULL), TENMAP_OK);
                assert_memory_equal(part, whole + first, size);
            }
            tenmap_close(m);
        }
}

static void known_values(void **state) {
    (void)state;
    static const struct {
        const char *dtype;
        unsigned char bytes[8];
        size_t nbytes;
        float value; /* of element 0 */
    } rows[] = {
        {"F32", {0, 0, 0xc0, 0x3f}, 4, 1.5f},
        {"F16", {0, 0x3e}, 2, 1.5f},
        {"BF16", {0xc0, 0x3f}, 2, 1.5f},
        {"F64", {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 8, 1.5f},
        {"F8_E4M3", {0x3c}, 1, 1.5f},
        {"F8_E5M2", {0x3e}, 1, 1.5f},
        {"F8_E4M3FNUZ", {0x44}, 1, 1.5f},
        {"F8_E5M2FNUZ", {0x42}, 1, 1.5f},
        {"F8_E8M0", {0x80}, 1, 2.0f},
        {"F4", {0x13}, 1, 1.5f},
        {"F6_E2M3", {0x0c, 0, 0}, 3, 1.5f},
        {"F6_E3M2", {0x0e, 0, 0}, 3, 1.5f},
        {"BOOL", {7}, 1, 1.0f},
        {"I8", {0xfe}, 1, -2.0f},
        {"U8", {0xfe}, 1, 254.0f},
        {"I16", {0xfe, 0xff}, 2, -2.0f},
        {"U16", {0xfe, 0xff}, 2, 65534.0f},
        {"I32", {0xfe, 0xff, 0xff, 0xff}, 4, -2.0f},
        {"U32", {0, 0, 0, 0x80}, 4, 2147483648.f},
        {"I64", {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, -2.0f},
        {"U64", {0, 0, 0, 0, 0, 0, 0, 0x80}, 8, 9223372036854775808.f},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[256];
        const char *shape =
            rows[i].dtype[0] == 'F' && rows[i].dtype[1] == '4'                              ? "[2]"
            : rows[i].dtype[0] == 'F' && rows[i].dtype[1] == '6' && rows[i].dtype[2] == '_' ? "[4]"
                                                                                            : "[1]";
        snprintf(json, sizeof json,
                 "{\"t\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}", rows[i].dtype,
                 shape, rows[i].nbytes);
        bytes file = make_model(json, rows[i].nbytes);
        memcpy(file.at + file.size - rows[i].nbytes, rows[i].bytes, rows[i].nbytes);
        tenmap_model *m = must_open_memory(file, NULL);
        float value = -1;
        print_message("           %s\n", rows[i].dtype);
        assert_int_equal(tenmap_read(tenmap_at(m, 0), 0, 1, TENMAP_F32, &value, 4, 0, NULL),
                         TENMAP_OK);
        assert_true(value == rows[i].value);
        tenmap_close(m);
        free(file.at);
    }
}

static void a_view_is_checked(void **state) {
    tenmap_error error;
    bytes file = make_model("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                            "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]},"
                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[5,7]}}",
                            7);
    /* Whatever the header's length is, one of two starts makes f misaligned and one aligned. */
    for (size_t shift = 0; shift < 4; shift++) {
        unsigned char *place = malloc(file.size + 8);
        unsigned char *at = place + shift;
        memcpy(at, file.at, file.size);
        tenmap_model *m;
        assert_int_equal(tenmap_open_memory(at, file.size, NULL, &m, &error), TENMAP_OK);
        const tenmap_tensor *f = tenmap_find(m, "f"), *a = tenmap_find(m, "a");
        bool aligned = (uintptr_t)f->data % 4 == 0;
        assert_int_equal(f->flags & TENMAP_TENSOR_ALIGNED, aligned ? TENMAP_TENSOR_ALIGNED : 0);
        if (TMI_BIG_ENDIAN)
            assert_null(tenmap_view(f, TENMAP_F32, &error));
        else if (aligned)
            assert_ptr_equal(tenmap_view(f, TENMAP_F32, &error), f->data);
        else {
            assert_null(tenmap_view(f, TENMAP_F32, &error));
            check_error(&error, TENMAP_ERR_ALIGNMENT);
        }
        assert_null(tenmap_view(f, TENMAP_BF16, &error));
        check_error(&error, TENMAP_ERR_DTYPE);
        assert_non_null(strstr(error.message, "it holds F32, not BF16"));
        assert_ptr_equal(tenmap_view(a, TENMAP_U8, &error), a->data);
        assert_ptr_equal(tenmap_view(a, TENMAP_AS_STORED, NULL), a->data);
        float value;
        assert_int_equal(tenmap_read(f, 0, 1, TENMAP_F32, &value, 4, 0, NULL), TENMAP_OK);
        tenmap_close(m);
        free(place);
    }
    free(file.at);
    assert_null(tenmap_view(NULL, TENMAP_F32, &error));
    check_error(&error, TENMAP_ERR_ARGUMENT);
    tenmap_model *m = one_tensor(state, "F32", "[1]", 4, TENMAP_BACKEND_READ);
    assert_null(tenmap_view(tenmap_at(m, 0), TENMAP_F32, &error));
    check_error(&error, TENMAP_ERR_UNSUPPORTED);
    tenmap_close(m);
}

static void opaque_tensors_are_bytes_only(void **state) {
    (void)state;
    tenmap_options lenient = TENMAP_OPTIONS_INIT;
    lenient.flags = TENMAP_OPEN_LENIENT;
    bytes file = make_model("{\"t\":{\"dtype\":\"U4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2);
    tenmap_model *m = must_open_memory(file, &lenient);
    const tenmap_tensor *t = tenmap_at(m, 0);
    unsigned char dst[16];
    tenmap_error error;
    assert_int_equal(tenmap_read_bytes(t, 0, 2, dst, NULL), TENMAP_OK);
    assert_ptr_equal(tenmap_view(t, TENMAP_OPAQUE, NULL), t->data);
    assert_int_equal(tenmap_read(t, 0, 4, TENMAP_F32, dst, 16, 0, &error), TENMAP_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "tenmap_read_bytes"));
    assert_int_equal(tenmap_read(t, 0, 4, TENMAP_AS_STORED, dst, 16, 0, &error),
                     TENMAP_ERR_UNSUPPORTED);
    tenmap_close(m);
    free(file.at);
}

static void wrong_reads_write_nothing(void **state) {
    for (size_t b = 0; b < COUNT(backends); b++) {
        tenmap_model *m = one_tensor(state, "BF16", "[2,3]", 12, backends[b]);
        const tenmap_tensor *t = tenmap_at(m, 0);
        float dst[8], untouched[8];
        tenmap_error error;
        uint64_t zero[2] = {0, 0}, all[2] = {2, 3}, past[2] = {2, 4}, after[2] = {1, 2},
                 before[2] = {1, 1};
        memset(dst, 0x77, sizeof dst);
        memcpy(untouched, dst, sizeof dst);
        static const struct {
            uint64_t first, count;
            tenmap_dtype as;
            size_t bytes;
            uint32_t flags;
            tenmap_status status;
            const char *error;
        } rows[] = {
            {0, 7, TENMAP_F32, 32, 0, TENMAP_ERR_RANGE, "it has 6 elements; 7 elements from 0 on"},
            {6, 1, TENMAP_F32, 32, 0, TENMAP_ERR_RANGE, "out of range"},
            {7, 0, TENMAP_F32, 32, 0, TENMAP_ERR_RANGE, "out of range"},
            {1, UINT64_MAX, TENMAP_F32, 32, 0, TENMAP_ERR_RANGE, "out of range"},
            {0, 6, TENMAP_F32, 23, 0, TENMAP_ERR_BUFFER,
             "6 elements of F32 take 24 bytes; the destination has 23"},
            {0, 6, TENMAP_I32, 32, 0, TENMAP_ERR_UNSUPPORTED, "BF16"},
            {0, 6, TENMAP_C64, 64, 0, TENMAP_ERR_UNSUPPORTED, "C64"},
            {0, 6, 99, 32, 0, TENMAP_ERR_ARGUMENT, ""},
            {0, 6, TENMAP_OPAQUE, 32, 0, TENMAP_ERR_ARGUMENT, ""},
            {0, 6, TENMAP_F32, 32, 0x80, TENMAP_ERR_ARGUMENT, ""},
        };
        for (size_t i = 0; i < COUNT(rows); i++) {
            assert_int_equal(tenmap_read(t, rows[i].first, rows[i].count, rows[i].as, dst,
                                         rows[i].bytes, rows[i].flags, &error),
                             rows[i].status);
            check_error(&error, rows[i].status);
            if (!strstr(error.message, rows[i].error))
                fail_msg("%s", error.message);
        }
        assert_int_equal(tenmap_read(t, 0, 6, TENMAP_F32, NULL, 32, 0, NULL), TENMAP_ERR_ARGUMENT);
        assert_int_equal(tenmap_read(NULL, 0, 6, TENMAP_F32, dst, 32, 0, NULL),
                         TENMAP_ERR_ARGUMENT);
        assert_int_equal(tenmap_read(t, 6, 0, TENMAP_F32, NULL, 0, 0, NULL), TENMAP_OK);
        assert_int_equal(tenmap_read_slice(t, zero, past, TENMAP_F32, dst, 32, 0, &error),
                         TENMAP_ERR_RANGE);
        assert_non_null(strstr(error.message, "[0, 4) in dimension 1 is not inside [0, 3)"));
        assert_int_equal(tenmap_read_slice(t, after, before, TENMAP_F32, dst, 32, 0, NULL),
                         TENMAP_ERR_RANGE);
        assert_int_equal(tenmap_read_slice(t, NULL, all, TENMAP_F32, dst, 32, 0, NULL),
                         TENMAP_ERR_ARGUMENT);
        assert_int_equal(tenmap_read_slice(t, zero, NULL, TENMAP_F32, dst, 32, 0, NULL),
                         TENMAP_ERR_ARGUMENT);
        assert_int_equal(tenmap_read_slice(t, zero, all, TENMAP_F32, dst, 23, 0, NULL),
                         TENMAP_ERR_BUFFER);
        assert_int_equal(tenmap_read_slice(t, all, all, TENMAP_F32, NULL, 0, 0, NULL),
                         TENMAP_OK); /* empty */
        assert_int_equal(tenmap_read_bytes(t, 0, 13, dst, &error), TENMAP_ERR_RANGE);
        assert_int_equal(tenmap_read_bytes(t, 13, 0, dst, NULL), TENMAP_ERR_RANGE);
        assert_int_equal(tenmap_read_bytes(t, 1, SIZE_MAX, dst, NULL), TENMAP_ERR_RANGE);
        assert_int_equal(tenmap_read_bytes(t, 0, 12, NULL, NULL), TENMAP_ERR_ARGUMENT);
        assert_int_equal(tenmap_read_bytes(NULL, 0, 1, dst, NULL), TENMAP_ERR_ARGUMENT);
        assert_int_equal(tenmap_read_bytes(t, 12, 0, NULL, NULL), TENMAP_OK);
        assert_memory_equal(dst, untouched, sizeof dst);
        tenmap_close(m);
    }
}

/* Compares a block with reads of single elements. */
static void check_block(const tenmap_tensor *t, const uint64_t *begin, const uint64_t *end,
                        tenmap_dtype as) {
    unsigned bits = tenmap_dtype_bits(as == TENMAP_AS_STORED ? t->dtype : as);
    uint64_t count = 1, index[8];
    for (uint32_t d = 0; d < t->rank; d++) {
        count *= end[d] - begin[d];
        index[d] = begin[d];
    }
    size_t size = (size_t)((count * bits + 7) / 8);
    unsigned char *dst = malloc(size + 1);
    memset(dst, 0x99, size + 1);
    assert_int_equal(tenmap_read_slice(t, begin, end, as, dst, size, 0, NULL), TENMAP_OK);
    assert_int_equal(dst[size], 0x99);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t flat = 0;
        for (uint32_t d = 0; d < t->rank; d++)
            flat = flat * t->shape[d] + index[d];
        unsigned char one[8] = {0};
        assert_int_equal(tenmap_read(t, flat, 1, as, one, 8, 0, NULL), TENMAP_OK);
        assert_int_equal(result_bits(dst, i, bits), result_bits(one, 0, bits));
        for (uint32_t d = t->rank; d-- > 0;) {
            if (++index[d] < end[d])
                break;
            index[d] = begin[d];
        }
    }
    free(dst);
}

static void every_block_of_a_small_tensor(void **state) {
    static const struct {
        const char *dtype;
        tenmap_dtype as;
    } pairs[] = {{"BF16", TENMAP_F32},     {"F32", TENMAP_AS_STORED},     {"F4", TENMAP_F32},
                 {"F4", TENMAP_AS_STORED}, {"F6_E3M2", TENMAP_AS_STORED}, {"I64", TENMAP_F16},
                 {"F16", TENMAP_F4}};
    for (size_t p = 0; p < COUNT(pairs); p++)
        for (size_t b = 0; b < COUNT(backends); b++) {
            tenmap_dtype dtype;
            assert_int_equal(tenmap_dtype_from_name(pairs[p].dtype, &dtype), 1);
            size_t nbytes = 3 * 2 * 4 * 4 * tenmap_dtype_bits(dtype) / 8;
            tenmap_model *m = one_tensor(state, pairs[p].dtype, "[3,1,2,4,4]", nbytes, backends[b]);
            const tenmap_tensor *t = tenmap_at(m, 0);
            uint64_t begin[5], end[5];
            for (unsigned code = 0; code < 4000; code++) { /* a fixed walk over many blocks */
                unsigned bits = code * 2654435761u;
                for (uint32_t d = 0; d < 5; d++) {
                    begin[d] = bits % (t->shape[d] + 1);
                    bits /= 5;
                    end[d] = begin[d] + (bits ^ code) % (t->shape[d] - begin[d] + 1);
                }
                check_block(t, begin, end, pairs[p].as);
            }
            tenmap_close(m);
        }
}

static void scalars_and_many_dimensions(void **state) {
    for (size_t b = 0; b < COUNT(backends); b++) {
        tenmap_model *m = one_tensor(state, "I16", "[]", 2, backends[b]);
        float value;
        assert_int_equal(
            tenmap_read_slice(tenmap_at(m, 0), NULL, NULL, TENMAP_F32, &value, 4, 0, NULL),
            TENMAP_OK);
        tenmap_close(m);
        char shape[128] = "[2,2,2,2,2,2,2,1,1,1,1,1,1,1,2,2,2,2,2]";
        m = one_tensor(state, "U8", shape, 4096, backends[b]);
        uint64_t begin[19], end[19];
        for (int i = 0; i < 19; i++) {
            begin[i] = 0;
            end[i] = i >= 7 && i < 14 ? 1 : 2;
        }
        begin[18] = 1; /* every other byte: eleven dimensions to walk */
        unsigned char dst[2048];
        assert_int_equal(
            tenmap_read_slice(tenmap_at(m, 0), begin, end, TENMAP_U8, dst, 2048, 0, NULL),
            TENMAP_OK);
        for (size_t i = 0; i < 2048; i++)
            assert_int_equal(dst[i], pattern_byte(2 * i + 1));
        tenmap_close(m);
    }
}

/* Larger than the READ backend's window, so that it moves. */
static void large_reads_and_columns(void **state) {
    enum { ROWS = 700, COLUMNS = 1500 };
    for (size_t b = 0; b < COUNT(backends); b++) {
        tenmap_model *m = one_tensor(state, "U16", "[700,1500]", ROWS * COLUMNS * 2, backends[b]);
        const tenmap_tensor *t = tenmap_at(m, 0);
        float *dst = malloc(ROWS * COLUMNS * sizeof *dst);
        uint16_t *raw = malloc(ROWS * COLUMNS * 2);
        assert_int_equal(
            tenmap_read(t, 0, ROWS * COLUMNS, TENMAP_F32, dst, ROWS * COLUMNS * 4, 0, NULL),
            TENMAP_OK);
        assert_int_equal(
            tenmap_read(t, 0, ROWS * COLUMNS, TENMAP_U16, raw, ROWS * COLUMNS * 2, 0, NULL),
            TENMAP_OK);
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            uint16_t expected = (uint16_t)(pattern_byte(2 * i) | pattern_byte(2 * i + 1) << 8);
            assert_true(dst[i] == (float)expected && raw[i] == expected);
        }
        static const uint64_t widths[] = {1, 3, 700, 1499};
        for (size_t w = 0; w < COUNT(widths); w++) {
            uint64_t begin[2] = {5, 1}, end[2] = {ROWS - 1, 1 + widths[w]};
            assert_int_equal(
                tenmap_read_slice(t, begin, end, TENMAP_F32, dst, ROWS * COLUMNS * 4, 0, NULL),
                TENMAP_OK);
            size_t k = 0;
            for (uint64_t r = begin[0]; r < end[0]; r++)
                for (uint64_t c = begin[1]; c < end[1]; c++)
                    assert_true(dst[k++] == (float)raw[r * COLUMNS + c]);
        }
        free(dst);
        free(raw);
        tenmap_close(m);
    }
}

/*
 * With TENMAP_BACKEND_READ, a file that shrinks after opening gives an error with the numbers,
 * never a signal.
 */
static void a_file_that_shrinks_is_an_error_with_the_numbers(void **state) {
    NEEDS_FILES();
    tenmap_model *m = one_tensor(state, "F32", "[1000]", 4000, TENMAP_BACKEND_READ);
    const tenmap_tensor *t = tenmap_at(m, 0);
    const char *path = in_folder(state, "t.safetensors");
    uint64_t full = tenmap_file_size(m);
    float dst[1000];
    tenmap_error error;
    assert_int_equal(truncate(path, (off_t)full - 1000), 0);
    static const struct {
        tenmap_dtype as;
        uint64_t first, count;
        tenmap_status status;
    } rows[] = {{TENMAP_F32, 0, 0, TENMAP_OK},
                {TENMAP_F32, 0, 750, TENMAP_ERR_IO}, /* readable, but perhaps not what was opened */
                {TENMAP_F32, 0, 751, TENMAP_ERR_IO},
                {TENMAP_F16, 0, 1000, TENMAP_ERR_IO},
                {TENMAP_F32, 999, 1, TENMAP_ERR_IO}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        tenmap_status status =
            tenmap_read(t, rows[i].first, rows[i].count, rows[i].as, dst, sizeof dst, 0, &error);
        assert_int_equal(status, rows[i].status);
        if (status == TENMAP_OK)
            continue;
        check_error(&error, TENMAP_ERR_IO);
        char numbers[128];
        snprintf(numbers, sizeof numbers, "had %llu", (unsigned long long)full);
        assert_non_null(strstr(error.message, numbers));
        assert_non_null(strstr(error.message, "tensor \"t\""));
        assert_non_null(strstr(error.message, "truncated"));
    }
    assert_int_equal(tenmap_read_bytes(t, 3000, 1, dst, &error), TENMAP_ERR_IO);
    uint64_t begin = 0, end = 1000;
    assert_int_equal(tenmap_read_slice(t, &begin, &end, TENMAP_F32, dst, sizeof dst, 0, &error),
                     TENMAP_ERR_IO);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(tenmap_read_bytes(t, 0, 1, dst, &error), TENMAP_ERR_IO);
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_reads_as_itself),
        cmocka_unit_test(every_dtype_but_complex_reads_as_f32),
        cmocka_unit_test(known_values),
        cmocka_unit_test(a_view_is_checked),
        cmocka_unit_test(opaque_tensors_are_bytes_only),
        cmocka_unit_test(wrong_reads_write_nothing),
        cmocka_unit_test(every_block_of_a_small_tensor),
        cmocka_unit_test(scalars_and_many_dimensions),
        cmocka_unit_test(large_reads_and_columns),
        cmocka_unit_test(a_file_that_shrinks_is_an_error_with_the_numbers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
