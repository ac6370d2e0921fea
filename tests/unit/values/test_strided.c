/*
 * Tensors that see a storage with strides, as a container declares them: every call that takes a
 * tensor gives the elements that walking the strides by hand gives.
 */
#include "io_files.h"
#include "support.h"

enum { MOST_RANK = 8, MOST_ENTRIES = 250 };

/* A toy file (toy_container.c) under construction: one storage that all tensors see. */
typedef struct toy {
    unsigned char directory[MOST_ENTRIES * 256];
    size_t used;
    uint32_t count;
    unsigned char *storage;
    size_t storage_bytes;
} toy;

typedef struct view {
    char name[16];
    tenmap_dtype dtype;
    uint32_t rank;
    uint64_t at, bytes, offset; /* the storage, in bytes of the data; the rest in elements */
    uint64_t shape[MOST_RANK], strides[MOST_RANK];
} view;

static void put_word(toy *f, uint64_t word) {
    for (int i = 0; i < 8; i++)
        f->directory[f->used++] = (unsigned char)(word >> 8 * i);
}

static void begin_toy(toy *f, size_t storage_bytes) {
    memset(f, 0, sizeof *f);
    f->used = 4; /* the number of tensors */
    f->storage = malloc(storage_bytes);
    f->storage_bytes = storage_bytes;
    assert_non_null(f->storage);
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < storage_bytes; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        f->storage[i] = (unsigned char)(x >> 24);
    }
}

static void add_view(toy *f, const view *v) {
    size_t len = strlen(v->name);
    assert_true(f->used + 32 + len + 16 * v->rank <= sizeof f->directory);
    f->directory[f->used++] = (unsigned char)len;
    memcpy(f->directory + f->used, v->name, len);
    f->used += len;
    f->directory[f->used++] = (unsigned char)(v->dtype | 0x80);
    f->directory[f->used++] = (unsigned char)v->rank;
    for (uint32_t d = 0; d < v->rank; d++)
        put_word(f, v->shape[d]);
    put_word(f, v->at);
    put_word(f, v->bytes);
    put_word(f, v->offset);
    for (uint32_t d = 0; d < v->rank; d++)
        put_word(f, v->strides[d]);
    f->count++;
}

/* The storage, then the directory in two pieces, of which the second comes first in the file. */
static bytes end_toy(toy *f) {
    f->directory[0] = (unsigned char)f->count;
    f->directory[1] = (unsigned char)(f->count >> 8);
    size_t half = f->used / 2, data_end = 8 + f->storage_bytes;
    uint64_t words[6] = {data_end + f->used - half, half, data_end, f->used - half,
                         data_end + f->used,        2};
    bytes file = {malloc(data_end + f->used + 56), data_end + f->used + 56};
    assert_non_null(file.at);
    memcpy(file.at, "TOYTENS1", 8);
    memcpy(file.at + 8, f->storage, f->storage_bytes);
    memcpy(file.at + data_end, f->directory + half, f->used - half);
    memcpy(file.at + data_end + f->used - half, f->directory, half);
    unsigned char *at = file.at + data_end + f->used;
    for (size_t i = 0; i < 48; i++)
        at[i] = (unsigned char)(words[i / 8] >> 8 * (i % 8));
    memcpy(at + 48, "TOYENDS1", 8);
    return file;
}

/* The elements of a block, one by one. Returns how many there are. */
static uint64_t walk_by_hand(const toy *f, const view *v, const uint64_t *begin,
                             const uint64_t *end, unsigned char *out) {
    size_t width = tenmap_dtype_bits(v->dtype) / 8;
    uint64_t index[MOST_RANK], n = 1;
    for (uint32_t d = 0; d < v->rank; d++) {
        index[d] = begin ? begin[d] : 0;
        n *= (end ? end[d] : v->shape[d]) - index[d];
    }
    for (uint64_t i = 0; i < n; i++, out += width) {
        uint64_t at = v->offset;
        for (uint32_t d = 0; d < v->rank; d++)
            at += index[d] * v->strides[d];
        memcpy(out, f->storage + v->at + at * width, width);
        for (uint32_t d = v->rank; d-- > 0;) {
            if (++index[d] < (end ? end[d] : v->shape[d]))
                break;
            index[d] = begin ? begin[d] : 0;
        }
    }
    return n;
}

static uint64_t random_state = 20260101;
static uint64_t random_below(uint64_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % n;
}

/* A view of at most 4,096 elements: any strides that stay inside, 0 and overlaps included. */
static view random_view(const toy *f, tenmap_dtype dtype, uint32_t rank) {
    view v = {.dtype = dtype, .rank = rank};
    size_t width = tenmap_dtype_bits(dtype) / 8;
    v.at = random_below(64);
    v.bytes = f->storage_bytes - v.at - random_below(64);
    uint64_t left = 4096, room = v.bytes / width;
    v.offset = random_below(100);
    uint64_t reach = room - 1 - v.offset;
    for (uint32_t d = 0; d < rank; d++) {
        uint64_t most = rank > 4 ? 4 : rank > 2 ? 12 : 70;
        v.shape[d] = 1 + random_below(left < most ? left : most);
        left /= v.shape[d];
        uint64_t limit = v.shape[d] > 1 ? reach / (v.shape[d] - 1) : reach;
        uint64_t kind = random_below(8);
        v.strides[d] = kind == 0   ? 0
                       : kind < 4  ? random_below(limit < 5 ? limit + 1 : 5)
                       : kind == 4 ? 1
                                   : random_below(limit < 600 ? limit + 1 : 600);
        if (v.strides[d] > limit)
            v.strides[d] = limit;
        reach -= (v.shape[d] - 1) * v.strides[d];
    }
    if (rank >= 2 && random_below(2)) { /* the transpose of a matrix */
        uint64_t r = v.shape[rank - 1], c = v.shape[rank - 2];
        memset(v.strides, 0, sizeof v.strides);
        v.strides[rank - 1] = c;
        v.strides[rank - 2] = 1;
        assert_true(r * c <= room - v.offset);
    }
    return v;
}

static tenmap_dtype whole_byte_dtypes(size_t i) {
    size_t n = 0;
    for (tenmap_dtype d = 1; d < 64; d++)
        if (tenmap_dtype_bits(d) >= 8 && n++ == i)
            return d;
    return TENMAP_AS_STORED;
}

/* Reads as stored, in ranges and blocks: bit for bit. */
static void check_elements(const toy *f, const view *v, const tenmap_tensor *t) {
    static unsigned char expected[4096 * 8], got[4096 * 8];
    size_t width = tenmap_dtype_bits(v->dtype) / 8;
    uint64_t n = walk_by_hand(f, v, NULL, NULL, expected);
    assert_int_equal(t->nelems, n);
    assert_int_equal(t->nbytes, n * width);
    for (int i = 0; i < 4; i++) {
        uint64_t first = i ? random_below(n) : 0, count = i ? random_below(n - first) + 1 : n;
        assert_int_equal(tenmap_read(t, first, count, TENMAP_AS_STORED, got, sizeof got, 0, NULL),
                         TENMAP_OK);
        assert_memory_equal(got, expected + first * width, count * width);
    }
    for (int i = 0; i < 4; i++) {
        uint64_t begin[MOST_RANK], end[MOST_RANK];
        for (uint32_t d = 0; d < v->rank; d++) {
            begin[d] = random_below(v->shape[d]);
            end[d] = begin[d] + 1 + random_below(v->shape[d] - begin[d]);
        }
        n = walk_by_hand(f, v, begin, end, expected);
        assert_int_equal(
            tenmap_read_slice(t, begin, end, TENMAP_AS_STORED, got, sizeof got, 0, NULL),
            TENMAP_OK);
        assert_memory_equal(got, expected, n * width);
    }
}

/* Reads as other dtypes: what converting the elements gives. */
static void check_converted(const toy *f, const view *v, const tenmap_tensor *t) {
    static unsigned char elements[4096 * 8], expected[4096 * 8], got[4096 * 8];
    static const tenmap_dtype targets[] = {TENMAP_F32,     TENMAP_F64, TENMAP_BF16,
                                           TENMAP_F8_E4M3, TENMAP_F4,  TENMAP_I16};
    uint64_t n = walk_by_hand(f, v, NULL, NULL, elements);
    for (size_t i = 0; i < COUNT(targets); i++) {
        tenmap_error a, b;
        size_t size = ((size_t)n * tenmap_dtype_bits(targets[i]) + 7) / 8;
        memset(expected, 0, size);
        memset(got, 0, size);
        tenmap_status status = tenmap_convert(targets[i], expected, sizeof expected, v->dtype,
                                              elements, n, TENMAP_CONVERT_SATURATE, &a);
        assert_int_equal(
            tenmap_read(t, 0, n, targets[i], got, sizeof got, TENMAP_CONVERT_SATURATE, &b), status);
        if (status == TENMAP_OK)
            assert_memory_equal(got, expected, size);
        status =
            tenmap_convert(targets[i], expected, sizeof expected, v->dtype, elements, n, 0, &a);
        assert_int_equal(tenmap_read(t, 0, n, targets[i], got, sizeof got, 0, &b), status);
        if (status == TENMAP_ERR_RANGE)
            assert_int_equal(a.index, b.index);
    }
}

/* Through tenmap_load, into rows that lie apart. */
static void check_loaded(const toy *f, const view *v, const tenmap_tensor *t, uint32_t flags) {
    static unsigned char expected[4096 * 8], got[4096 * 12];
    size_t width = tenmap_dtype_bits(v->dtype) / 8;
    uint64_t n = walk_by_hand(f, v, NULL, NULL, expected);
    size_t row = (size_t)v->shape[v->rank - 1] * width, stride = row + 4;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.flags = flags;
    if (n * width / row * stride > sizeof got)
        stride = 0;
    tenmap_request request = {
        .tensor = t, .dst = got, .dst_bytes = sizeof got, .dst_stride = stride};
    assert_int_equal(tenmap_load(t->model, &request, 1, &options, NULL), TENMAP_OK);
    for (size_t i = 0; i < n * width / row; i++)
        assert_memory_equal(got + i * (stride ? stride : row), expected + i * row, row);
}

static void every_dtype_and_rank_reads_as_walked_by_hand(void **state) {
    const char *path = in_folder(state, "strided.toy");
    io_files files = {0};
    tenmap_io io = io_files_io(&files);
    static toy f;
    static view views[MOST_ENTRIES];
    begin_toy(&f, 60000);
    for (size_t i = 0; i < MOST_ENTRIES; i++) {
        tenmap_dtype dtype = whole_byte_dtypes(i % 19);
        assert_int_not_equal(dtype, TENMAP_AS_STORED);
        views[i] = random_view(&f, dtype, 1 + (uint32_t)(i / 19) % MOST_RANK);
        snprintf(views[i].name, sizeof views[i].name, "t%zu", i);
        add_view(&f, &views[i]);
    }
    assert_int_equal(whole_byte_dtypes(19), TENMAP_AS_STORED); /* all of them are there */
    bytes file = end_toy(&f);
    write_file(path, file.at, file.size);
    for (int way = 0; way < 4; way++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = way == 1 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        options.io = way == 2 ? &io : NULL;
        tenmap_model *m = way == 3 ? must_open_memory(file, &options) : must_open(path, &options);
        for (size_t i = 0; i < MOST_ENTRIES; i++) {
            const tenmap_tensor *t = tenmap_find(m, views[i].name);
            assert_non_null(t);
            check_elements(&f, &views[i], t);
            check_converted(&f, &views[i], t);
            check_loaded(&f, &views[i], t, way == 0 && i % 2 ? TENMAP_LOAD_READ : 0);
        }
        tenmap_close(m);
    }
    free(file.at);
    free(f.storage);
}

/* A transposed matrix that is larger than any window and buffer, read in every way. */
static void large_transposes_are_read_in_bounded_windows(void **state) {
    const char *path = in_folder(state, "large.toy");
    enum { ROWS = 1100, COLUMNS = 1300, COUNT_ALL = ROWS * COLUMNS };
    io_files files = {0};
    tenmap_io io = io_files_io(&files);
    static toy f;
    static view views[4];
    begin_toy(&f, (size_t)COUNT_ALL * 4);
    views[0] = (view){"t", TENMAP_I32, 2, 0, f.storage_bytes, 0, {COLUMNS, ROWS}, {1, COLUMNS}};
    views[1] = (view){"columns", TENMAP_I32, 2, 0, f.storage_bytes, 7, {ROWS, 40}, {COLUMNS, 1}};
    views[2] = (view){"steps", TENMAP_I16, 1, 0, f.storage_bytes, 1, {COUNT_ALL / 2}, {4}};
    views[3] =
        (view){"batch", TENMAP_U8, 3, 0, f.storage_bytes, 0, {11, 1300, 400}, {520000, 1, 1300}};
    for (size_t i = 0; i < COUNT(views); i++)
        add_view(&f, &views[i]);
    bytes file = end_toy(&f);
    write_file(path, file.at, file.size);
    unsigned char *expected = malloc(f.storage_bytes), *got = malloc(f.storage_bytes * 2);
    float *floats = malloc(f.storage_bytes * 4);
    for (int way = 0; way < 5; way++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_load_options load = TENMAP_LOAD_OPTIONS_INIT;
        options.backend = way == 1 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        options.io = way == 2 ? &io : NULL;
        load.flags = way == 3 ? TENMAP_LOAD_READ : way == 4 ? TENMAP_LOAD_DIRECT : 0;
        tenmap_model *m = must_open(path, &options);
        for (size_t i = 0; i < COUNT(views); i++) {
            const tenmap_tensor *t = tenmap_find(m, views[i].name);
            uint64_t n = walk_by_hand(&f, &views[i], NULL, NULL, expected);
            size_t width = tenmap_dtype_bits(views[i].dtype) / 8;
            tenmap_request requests[2] = {
                {.tensor = t, .dst = got, .dst_bytes = f.storage_bytes},
                {.tensor = t, .as = TENMAP_F32, .dst = floats, .dst_bytes = f.storage_bytes * 4}};
            assert_int_equal(tenmap_load(m, requests, 2, &load, NULL), TENMAP_OK);
            assert_memory_equal(got, expected, n * width);
            assert_int_equal(tenmap_convert(TENMAP_F32, got, f.storage_bytes * 2, views[i].dtype,
                                            expected, n < COUNT_ALL ? n : COUNT_ALL, 0, NULL),
                             TENMAP_OK);
            assert_memory_equal(got, floats, (size_t)(n < COUNT_ALL ? n : COUNT_ALL) * 4);
        }
        tenmap_close(m);
    }
    assert_true(files.largest <= 1 << 20);
    /* Eight requests of at most 5.7 MB each read little more than once. */
    assert_true(files.bytes < UINT64_C(60000000));
    free(floats);
    free(got);
    free(expected);
    free(file.at);
    free(f.storage);
}

/* Blocks of strided tensors, as terms of derived ones, in their own shape and in another. */
static void strided_tensors_are_terms(void **state) {
    (void)state;
    static toy f;
    static view views[80];
    static unsigned char expected[4096 * 8], got[4096 * 16];
    begin_toy(&f, 60000);
    for (size_t i = 0; i < COUNT(views); i++) {
        views[i] = random_view(&f, whole_byte_dtypes(i % 19), 2 + (uint32_t)(i % 3));
        snprintf(views[i].name, sizeof views[i].name, "t%zu", i);
        add_view(&f, &views[i]);
    }
    bytes file = end_toy(&f);
    tenmap_model *m = must_open_memory(file, NULL);
    for (size_t i = 0; i < COUNT(views); i++) {
        const view *v = &views[i];
        const tenmap_tensor *t = tenmap_find(m, v->name);
        const uint64_t begin[2] = {0, 1};
        uint64_t columns = v->shape[v->rank - 1], end[2] = {t->nelems / columns, columns};
        size_t width = tenmap_dtype_bits(v->dtype) / 8;
        if (columns < 2)
            continue;
        tenmap_term terms[2] = {{.tensor = t, .shape = end, .rank = 2, .begin = begin, .end = end},
                                {.tensor = t, .shape = end, .rank = 2, .begin = begin, .end = end}};
        const tenmap_derived d = {
            .name = "d", .op = TENMAP_DERIVE_CONCAT, .axis = 1, .n = 2, .terms = terms};
        tenmap_model *derived = NULL;
        assert_int_equal(tenmap_derive(&d, 1, NULL, &derived, NULL), TENMAP_OK);
        walk_by_hand(&f, v, NULL, NULL, expected);
        const tenmap_tensor *both = tenmap_at(derived, 0);
        assert_int_equal(tenmap_read(both, 0, both->nelems, 0, got, (size_t)both->nbytes, 0, NULL),
                         TENMAP_OK);
        for (uint64_t row = 0; row < 2 * end[0]; row++)
            assert_memory_equal(got + row * (columns - 1) * width,
                                expected + (row / 2 * columns + 1) * width, (columns - 1) * width);
        tenmap_close(derived);
    }
    tenmap_close(m);
    free(file.at);
    free(f.storage);
}

static void check_declared(const view *v, tenmap_status status, const char *fragment) {
    static toy f;
    begin_toy(&f, 4096);
    add_view(&f, v);
    bytes file = end_toy(&f);
    must_fail_memory(file, NULL, status, fragment);
    free(file.at);
    free(f.storage);
}

static void what_lies_outside_is_refused_when_it_is_made(void **state) {
    (void)state;
    view v = {"v", TENMAP_F32, 2, 0, 4096, 0, {4, 4}, {1, 4}}, broken;
    const uint64_t huge = UINT64_MAX;
    broken = v, broken.offset = 1009;
    check_declared(&broken, TENMAP_ERR_FORMAT, "its last element is number 1024 of a storage");
    broken = v, broken.strides[0] = 338;
    check_declared(&broken, TENMAP_ERR_FORMAT, "its last element is number 1026 of a storage");
    broken = v, broken.offset = huge;
    check_declared(&broken, TENMAP_ERR_FORMAT, "its last element is number");
    broken = v, broken.strides[0] = huge / 2;
    check_declared(&broken, TENMAP_ERR_FORMAT, "its strides reach farther");
    broken = v, broken.strides[0] = broken.strides[1] = huge / 4;
    check_declared(&broken, TENMAP_ERR_FORMAT, "its strides reach farther");
    broken = v, broken.bytes = 1 << 20;
    check_declared(&broken, TENMAP_ERR_FORMAT, "is not inside the file");
    broken = v, broken.at = huge;
    check_declared(&broken, TENMAP_ERR_FORMAT, "is not inside the file");
    broken = v, broken.at = 4096;
    check_declared(&broken, TENMAP_ERR_FORMAT, "is not inside the file");
    broken = v, broken.shape[0] = broken.shape[1] = UINT64_C(1) << 32;
    broken.strides[0] = broken.strides[1] = 0;
    check_declared(&broken, TENMAP_ERR_FORMAT, "64 bits can count");
    broken = v, broken.shape[0] = 1 << 20, broken.shape[1] = 1 << 10;
    broken.strides[0] = broken.strides[1] = 0;
    check_declared(&broken, TENMAP_ERR_LIMIT, "the limit is 1 GiB");
    static const tenmap_dtype refused[] = {TENMAP_F4, TENMAP_F6_E2M3, TENMAP_Q4_0};
    for (size_t i = 0; i < COUNT(refused); i++) {
        broken = v, broken.dtype = refused[i];
        check_declared(&broken, TENMAP_ERR_FORMAT, "its elements are not whole bytes");
    }
}

/* Many tensors of one small file may not be far larger together than the file. */
static void all_repeated_tensors_together_are_limited(void **state) {
    (void)state;
    view v = {"v", TENMAP_U8, 2, 0, 4096, 0, {1 << 20, 1 << 10}, {0, 1}};
    for (uint32_t count = 16; count <= 17; count++) { /* of 1 GiB each */
        static toy f;
        begin_toy(&f, 4096);
        for (uint32_t i = 0; i < count; i++) {
            snprintf(v.name, sizeof v.name, "v%u", (unsigned)i);
            add_view(&f, &v);
        }
        bytes file = end_toy(&f);
        if (count == 16)
            tenmap_close(must_open_memory(file, NULL));
        else
            must_fail_memory(file, NULL, TENMAP_ERR_LIMIT,
                             "repeat elements up to 18253611008 bytes together; the limit is 16");
        free(file.at);
        free(f.storage);
    }
}

/* One of the numbers that go wrong: small ones, powers of two, the largest, and their neighbors. */
static uint64_t hostile_number(void) {
    switch (random_below(4)) {
    case 0:
        return random_below(9);
    case 1:
        return random_below(5000);
    case 2:
        return UINT64_MAX - random_below(3);
    default:
        return (UINT64_C(1) << random_below(64)) - random_below(2);
    }
}

/* A view of which most numbers are small, so that some are accepted. */
static view hostile_view(void) {
    view v = {"v", TENMAP_U8, (uint32_t)random_below(MOST_RANK + 1), 0, 4096, 0, {0}, {0}};
    do
        v.dtype = (tenmap_dtype)(1 + random_below(24));
    while (tenmap_dtype_bits(v.dtype) < 8);
    for (uint32_t d = 0; d < v.rank; d++) {
        v.shape[d] = random_below(12) ? 1 + random_below(5) : hostile_number();
        v.strides[d] = random_below(12) ? random_below(50) : hostile_number();
    }
    v.at = random_below(6) ? random_below(100) : hostile_number();
    v.bytes = random_below(6) ? random_below(4096) : hostile_number();
    v.offset = random_below(6) ? random_below(60) : hostile_number();
    return v;
}

/* What is past this is far too large, and not exact. */
static const double far = 1e18;

/* Whether all elements lie in the storage, and the storage in the file, counted in doubles. */
static bool lies_inside(const view *v, size_t file_bytes) {
    double width = tenmap_dtype_bits(v->dtype) / 8, n = 1, last = (double)v->offset;
    double room = (double)(v->bytes / (uint64_t)width);
    for (uint32_t d = 0; d < v->rank; d++)
        n = v->shape[d] == 0 || n == 0 ? 0 : n * (double)v->shape[d];
    for (uint32_t d = 0; d < v->rank && n > 0; d++)
        last += v->shape[d] > 1 ? (double)(v->shape[d] - 1) * (double)v->strides[d] : 0;
    return 8 + (double)v->at + (double)v->bytes <= (double)file_bytes && n < far &&
           (n > 0 ? last < room : last <= room) && n * width <= (double)(1 << 30);
}

static void hostile_numbers_are_refused_or_read_inside(void **state) {
    (void)state;
    size_t accepted = 0, refused = 0;
    for (int i = 0; i < 10000; i++) {
        static toy f;
        view v = hostile_view();
        tenmap_model *m = NULL;
        begin_toy(&f, 4096);
        add_view(&f, &v);
        bytes file = end_toy(&f);
        tenmap_status status = tenmap_open_memory(file.at, file.size, NULL, &m, NULL);
        assert_int_equal(status == TENMAP_OK, lies_inside(&v, file.size));
        if (status == TENMAP_OK) {
            const tenmap_tensor *t = tenmap_at(m, 0);
            toy seen = {.storage = file.at + 8}; /* the directory is a part of the file too */
            if (t->nelems > 0 && t->nelems <= 4096) {
                check_elements(&seen, &v, t);
                check_converted(&seen, &v, t);
                accepted++;
            }
        } else {
            refused++;
        }
        tenmap_close(m);
        free(file.at);
        free(f.storage);
    }
    assert_true(accepted > 1000 && refused > 1000);
}

/* Without elements, neither the other dimensions nor the strides matter. */
static void a_tensor_without_elements_reaches_nowhere(void **state) {
    static toy f;
    const char *path = in_folder(state, "empty.toy");
    view v = {"empty", TENMAP_F32, 3, 0, 4096, 0, {UINT64_MAX, 0, UINT64_MAX}, {UINT64_MAX, 7, 1}};
    float got;
    begin_toy(&f, 4096);
    add_view(&f, &v);
    bytes file = end_toy(&f);
    write_file(path, file.at, file.size);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_at(m, 0)->nelems, 0);
    assert_int_equal(tenmap_at(m, 0)->nbytes, 0);
    assert_int_equal(tenmap_read(tenmap_at(m, 0), 0, 0, TENMAP_F32, &got, 0, 0, NULL), TENMAP_OK);
    tenmap_close(m);
    free(file.at);
    free(f.storage);
}

/* One model of a plain storage, a contiguous view, a transpose, and an expanded row. */
static tenmap_model *open_small(void **state, toy *f, view views[3]) {
    const char *path = in_folder(state, "small.toy");
    begin_toy(f, 4096);
    views[0] = (view){"flat", TENMAP_F32, 2, 64, 2048, 4, {3, 5}, {5, 1}};
    views[1] = (view){"turned", TENMAP_F32, 2, 64, 2048, 4, {5, 3}, {1, 5}};
    views[2] = (view){"wide", TENMAP_U16, 2, 64, 2048, 9, {1000, 7}, {0, 1}};
    for (size_t i = 0; i < 64; i++) /* numbers, so that measures are numbers */
        memcpy(f->storage + 64 + 4 * i, &(float){(float)i - 7.5f}, 4);
    for (size_t i = 0; i < 3; i++)
        add_view(f, &views[i]);
    bytes file = end_toy(f);
    write_file(path, file.at, file.size);
    free(file.at);
    return must_open(path, NULL);
}

static void contiguous_views_are_plain_tensors(void **state) {
    static toy f;
    view views[3];
    tenmap_model *m = open_small(state, &f, views);
    const tenmap_tensor *flat = tenmap_find(m, "flat"), *turned = tenmap_find(m, "turned");
    assert_int_equal(flat->flags & TENMAP_TENSOR_COMPUTED, 0);
    assert_memory_equal(flat->data, f.storage + 64 + 16, 60);
    assert_int_equal(turned->flags, TENMAP_TENSOR_COMPUTED);
    assert_null(turned->data);
    assert_string_equal(tenmap_scheme_of(turned)->name, "strided");
    assert_int_equal(tenmap_scheme_of(turned)->bits, 32);
    const tenmap_tensor *part = tenmap_part_at(turned, 0);
    assert_int_equal(tenmap_scheme_of(turned)->part_count, 1);
    assert_null(tenmap_part_at(turned, 1));
    assert_int_equal(part->nelems, 15);
    assert_int_equal(part->file_offset, flat->file_offset);
    assert_memory_equal(part->data, f.storage + 64 + 16, 60);
    assert_int_equal(tenmap_part_at(tenmap_find(m, "wide"), 0)->nbytes, 14);
    tenmap_close(m);
    free(f.storage);
}

/* Opening reads bytes of parts, not elements. */
static void a_strided_shape_tells_no_number_of_values(void **state) {
    (void)state;
    for (uint64_t stride = 1; stride <= 2; stride++) {
        static toy f;
        view codes = {"w_packed", TENMAP_U8, 2, 64, 1024, 0, {4, 8}, {8, 1}};
        view scales = {"w_scale", TENMAP_F32, 2, 64, 1024, 0, {4, 1}, {1, 1}};
        view shape = {"w_shape", TENMAP_I64, 1, 0, 64, 0, {2}, {stride}};
        tenmap_quantized weight;
        begin_toy(&f, 4096);
        memset(f.storage, 0, 64);
        f.storage[0] = 4, f.storage[8] = 16, f.storage[16] = 15;
        add_view(&f, &codes);
        add_view(&f, &scales);
        add_view(&f, &shape);
        bytes file = end_toy(&f);
        tenmap_model *m = must_open_memory(file, NULL);
        assert_true(tenmap_quantized_of(tenmap_find(m, "w_packed"), &weight));
        assert_int_equal(weight.values, stride == 1 ? 64 : 0);
        tenmap_close(m);
        free(file.at);
        free(f.storage);
    }
}

static void what_needs_bytes_of_its_own_is_refused(void **state) {
    static toy f;
    view views[3];
    float got[15];
    tenmap_error error;
    tenmap_model *m = open_small(state, &f, views);
    const tenmap_tensor *t = tenmap_find(m, "turned");
    assert_null(tenmap_view(t, TENMAP_F32, &error));
    check_refused(TENMAP_ERR_UNSUPPORTED, &error, TENMAP_ERR_UNSUPPORTED,
                  "its elements do not lie one after the other (strided), so there is nothing to "
                  "view");
    check_refused(tenmap_read_bytes(t, 0, 4, got, &error), &error, TENMAP_ERR_UNSUPPORTED,
                  "and has no bytes of its own");
    check_refused(tenmap_read_as(t, TENMAP_U8, 0, 4, TENMAP_U8, got, 4, 0, &error), &error,
                  TENMAP_ERR_UNSUPPORTED, "so it has no bytes of its own");
    check_refused(tenmap_read(t, 0, 16, TENMAP_F32, got, sizeof got, 0, &error), &error,
                  TENMAP_ERR_RANGE, "out of range");
    check_refused(tenmap_read(t, 0, 15, TENMAP_F32, got, 4, 0, &error), &error, TENMAP_ERR_BUFFER,
                  "take 60 bytes");
    tenmap_close(m);
    free(f.storage);
}

static void takes_and_measures_see_the_elements(void **state) {
    static toy f;
    view views[3];
    unsigned char expected[15 * 4];
    tenmap_arena *arena;
    tenmap_model *m = open_small(state, &f, views);
    tenmap_want wants[2] = {{.name = "turned", .rank = 2, .shape = views[1].shape},
                            {.name = "flat"}};
    assert_int_equal(tenmap_take(m, wants, 2, NULL, &arena, NULL), TENMAP_OK);
    walk_by_hand(&f, &views[1], NULL, NULL, expected);
    assert_memory_equal(wants[0].data, expected, sizeof expected);
    assert_memory_equal(wants[1].data, tenmap_find(m, "flat")->data, 60);
    tenmap_arena_free(arena);
    const tenmap_tensor *both[2] = {wants[0].tensor, wants[1].tensor};
    tenmap_stats stats[2];
    assert_int_equal(tenmap_measure(both, 2, NULL, stats, NULL), TENMAP_OK);
    assert_int_equal(stats[0].count, 15);
    assert_int_equal(stats[0].nans, stats[1].nans);
    assert_int_equal(stats[0].zeros, stats[1].zeros);
    assert_true(stats[0].min == stats[1].min && stats[0].max == stats[1].max);
    assert_true(stats[0].mean == stats[1].mean);
    tenmap_close(m);
    free(f.storage);
}

/* Every dtype, on more elements than a unit has: as its copy in a plain tensor is measured. */
static void measures_are_those_of_a_plain_copy(void **state) {
    const char *path = in_folder(state, "m.toy"), *out = *state;
    enum { ROWS = 1030, COLUMNS = 1100 };
    static toy f;
    begin_toy(&f, (size_t)ROWS * COLUMNS * 8);
    for (size_t i = 0; i < 19; i++) {
        view v = {"", whole_byte_dtypes(i), 2,           0, f.storage_bytes,
                  0,  {COLUMNS, ROWS},      {1, COLUMNS}};
        snprintf(v.name, sizeof v.name, "t%zu", i);
        add_view(&f, &v);
    }
    bytes file = end_toy(&f);
    write_file(path, file.at, file.size);
    free(file.at);
    tenmap_model *m = must_open(path, NULL);
    tenmap_source sources[19] = {{0}};
    const tenmap_tensor *tensors[38];
    for (size_t i = 0; i < 19; i++)
        sources[i].tensor = tensors[i] = tenmap_at(m, i);
    assert_int_equal(tenmap_save_sharded(out, sources, 19, NULL, NULL), TENMAP_OK);
    tenmap_model *copy = must_open(in_folder(state, "model.safetensors"), NULL);
    for (size_t i = 0; i < 19; i++)
        tensors[19 + i] = tenmap_find(copy, tensors[i]->name);
    tenmap_stats stats[38];
    assert_int_equal(tenmap_measure(tensors, 19, NULL, stats, NULL), TENMAP_OK);
    assert_int_equal(tenmap_measure(tensors + 19, 19, NULL, stats + 19, NULL), TENMAP_OK);
    for (size_t i = 0; i < 19; i++)
        assert_memory_equal(&stats[i], &stats[19 + i], sizeof stats[i]);
    tenmap_close(copy);
    tenmap_close(m);
    free(f.storage);
}

static void residency_is_that_of_the_range_that_is_touched(void **state) {
    const char *path = in_folder(state, "r.toy");
    static toy f;
    begin_toy(&f, 1 << 20);
    view v = {"v", TENMAP_F32, 2, 0, f.storage_bytes, 65536, {100, 100}, {1, 100}};
    add_view(&f, &v);
    bytes file = end_toy(&f);
    write_file(path, file.at, file.size);
    free(file.at);
    tenmap_model *m = must_open(path, NULL);
    const tenmap_tensor *t = tenmap_at(m, 0);
    uint64_t all = 0, cached = 0;
    for (uint32_t advice = TENMAP_ADVISE_POPULATE; advice <= TENMAP_ADVISE_RELEASE; advice++)
        assert_int_equal(tenmap_advise(m, t, advice, NULL), TENMAP_OK);
    assert_int_equal(tenmap_advise(m, t, TENMAP_ADVISE_POPULATE, NULL), TENMAP_OK);
    assert_int_equal(tenmap_resident(m, t, &all, NULL), TENMAP_OK);
    assert_int_equal(all, 40000);
    assert_int_equal(tenmap_cached(m, t, &cached, NULL), TENMAP_OK);
    assert_int_equal(cached, 40000);
    tenmap_close(m);
    free(f.storage);
}

/* Saved as they are and converted, with losses counted: as plain contiguous tensors. */
static void copies_are_plain_and_contiguous(void **state) {
    const char *out = *state;
    static toy f;
    view views[3];
    static unsigned char expected[7000 * 2];
    tenmap_model *m = open_small(state, &f, views);
    tenmap_source sources[4] = {{.tensor = tenmap_find(m, "turned")},
                                {.tensor = tenmap_find(m, "wide")},
                                {.tensor = tenmap_find(m, "flat")},
                                {.tensor = tenmap_find(m, "turned"),
                                 .name = "half",
                                 .name_len = TENMAP_CSTR,
                                 .dtype = TENMAP_BF16}};
    assert_int_equal(tenmap_save_sharded(out, sources, 4, NULL, NULL), TENMAP_OK);
    tenmap_model *copy = must_open(in_folder(state, "model.safetensors"), NULL);
    const tenmap_tensor *t = tenmap_find(copy, "turned");
    walk_by_hand(&f, &views[1], NULL, NULL, expected);
    assert_int_equal(t->flags & TENMAP_TENSOR_COMPUTED, 0);
    assert_memory_equal(t->data, expected, 60);
    unsigned char half[30];
    assert_int_equal(tenmap_convert(TENMAP_BF16, half, 30, TENMAP_F32, expected, 15, 0, NULL),
                     TENMAP_OK);
    assert_memory_equal(tenmap_find(copy, "half")->data, half, 30);
    walk_by_hand(&f, &views[2], NULL, NULL, expected);
    assert_memory_equal(tenmap_find(copy, "wide")->data, expected, 14000);
    tenmap_close(copy);
    tenmap_close(m);
    free(f.storage);
}

/* The first integer that does not fit is reported, however the elements are read. */
static void the_first_misfit_is_reported(void **state) {
    const char *path = in_folder(state, "misfit.toy");
    enum { ROWS = 500, COLUMNS = 700, FIRST = 33 * ROWS + 100, SECOND = 40 * ROWS + 3 };
    static toy f;
    begin_toy(&f, (size_t)ROWS * COLUMNS * 4);
    memset(f.storage, 0, f.storage_bytes);
    view v = {"v", TENMAP_I32, 2, 0, f.storage_bytes, 0, {COLUMNS, ROWS}, {1, COLUMNS}};
    f.storage[4 * (100 * COLUMNS + 33) + 2] = 1; /* 65536 */
    f.storage[4 * (3 * COLUMNS + 40) + 2] = 1;   /* earlier in the storage, later in the tensor */
    add_view(&f, &v);
    bytes file = end_toy(&f);
    write_file(path, file.at, file.size);
    free(file.at);
    for (uint32_t backend = TENMAP_BACKEND_MAP; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_error error;
        static int16_t got[ROWS * COLUMNS];
        options.backend = backend;
        tenmap_model *m = must_open(path, &options);
        const tenmap_tensor *t = tenmap_at(m, 0);
        check_refused(tenmap_read(t, 0, t->nelems, TENMAP_I16, got, sizeof got, 0, &error), &error,
                      TENMAP_ERR_RANGE, "is 65536, which does not fit into I16");
        assert_int_equal(error.index, FIRST);
        assert_int_equal(error.offset, t->file_offset + 4 * (100 * COLUMNS + 33));
        check_refused(tenmap_read(t, FIRST + 1, t->nelems - FIRST - 1, TENMAP_I16, got, sizeof got,
                                  0, &error),
                      &error, TENMAP_ERR_RANGE, "is 65536");
        assert_int_equal(error.index, SECOND);
        tenmap_close(m);
    }
    free(f.storage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_and_rank_reads_as_walked_by_hand),
        cmocka_unit_test(large_transposes_are_read_in_bounded_windows),
        cmocka_unit_test(strided_tensors_are_terms),
        cmocka_unit_test(what_lies_outside_is_refused_when_it_is_made),
        cmocka_unit_test(all_repeated_tensors_together_are_limited),
        cmocka_unit_test(hostile_numbers_are_refused_or_read_inside),
        cmocka_unit_test(a_tensor_without_elements_reaches_nowhere),
        cmocka_unit_test(contiguous_views_are_plain_tensors),
        cmocka_unit_test(a_strided_shape_tells_no_number_of_values),
        cmocka_unit_test(what_needs_bytes_of_its_own_is_refused),
        cmocka_unit_test(takes_and_measures_see_the_elements),
        cmocka_unit_test(measures_are_those_of_a_plain_copy),
        cmocka_unit_test(residency_is_that_of_the_range_that_is_touched),
        cmocka_unit_test(copies_are_plain_and_contiguous),
        cmocka_unit_test(the_first_misfit_is_reported),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
