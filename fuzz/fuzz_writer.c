/*
 * The writer's round trip: any sequence of declarations, writes and copies, then a commit. Each
 * call must succeed or fail as a model of the rules predicts. A committed file must be, byte for
 * byte, the one that a second, simple layout makes, and must open to what was written. A file that
 * was not committed must leave no trace.
 */
#if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1 /* mkdtemp */
#endif
#include "input.h"
#include "values/conversion_route.h"
#include "values/values.h"
#include "scratch.h"

enum { MOST_TENSORS = 12, MOST_PAIRS = 6, MOST_RANK = 4, MOST_BYTES = 2048, MOST_CALLS = 64 };

typedef struct planned {
    const char *name;
    size_t name_len;
    tenmap_dtype dtype;
    uint32_t rank;
    uint64_t shape[MOST_RANK], nbytes;
    uint8_t data[MOST_BYTES];
    bool there[MOST_BYTES];
} planned;

typedef struct trial {
    input in;
    tenmap_writer *writer;
    tenmap_writer_options options;
    planned *tensors;
    size_t count;
    struct {
        const char *key, *value;
        size_t key_len, value_len;
    } pairs[MOST_PAIRS];
    size_t pair_count;
    bool laid_out;
    tenmap_model *source;
    tenmap_error error;
} trial;

/* Something to copy from: a few dtypes, among them one below a byte. */
static const char source_header[] =
    "{\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
    "\"c\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[16,18]},"
    "\"d\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[18,34]},"
    "\"e\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[34,34]}}";
enum { SOURCE_DATA = 34 };
static uint8_t source_bytes[8 + sizeof source_header - 1 + SOURCE_DATA];

static tenmap_model *open_source(void) {
    tenmap_model *model;
    size_t length = sizeof source_header - 1;
    source_bytes[0] = (uint8_t)length;
    memcpy(source_bytes + 8, source_header, length);
    for (size_t i = 0; i < SOURCE_DATA; i++)
        source_bytes[8 + length + i] = (uint8_t)(0x3b + i * 29);
    CHECK(tenmap_open_memory(source_bytes, sizeof source_bytes, NULL, &model, NULL) == TENMAP_OK);
    return model;
}

static void must(trial *s, tenmap_status status, bool good) {
    fuzz_error_check(&s->error, status);
    CHECK((status == TENMAP_OK) == good);
}

static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len) {
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

static void call_metadata(trial *s) {
    size_t key_len, value_len, n = s->pair_count;
    const char *key = input_text(&s->in, &key_len), *value = input_text(&s->in, &value_len);
    bool good = !s->laid_out && fuzz_utf8(key, key_len) == key_len &&
                fuzz_utf8(value, value_len) == value_len;
    if (n == MOST_PAIRS)
        return;
    for (size_t i = 0; i < n; i++)
        good = good && !same_text(s->pairs[i].key, s->pairs[i].key_len, key, key_len);
    fuzz_error_arm(&s->error);
    must(s, tenmap_writer_metadata(s->writer, key, key_len, value, value_len, &s->error), good);
    if (!good)
        return;
    s->pairs[n].key = key;
    s->pairs[n].key_len = key_len;
    s->pairs[n].value = value;
    s->pairs[n].value_len = value_len;
    s->pair_count++;
}

/* Dimensions are small, or so large that their product must be refused. */
static bool choose_shape(trial *s, planned *t) {
    unsigned __int128 bits = 1;
    bool overflows = false;
    t->rank = input_below(&s->in, MOST_RANK + 1);
    for (uint32_t d = 0; d < t->rank; d++) {
        uint8_t choice = input_byte(&s->in);
        t->shape[d] = choice < 250 ? choice % 9 : UINT64_MAX >> (choice - 250) * 8;
        bits *= t->shape[d];
        overflows = overflows || bits > UINT64_MAX;
        bits = overflows ? 1 : bits;
    }
    bits *= tenmap_dtype_bits(t->dtype);
    if (overflows || bits > UINT64_MAX || bits % 8 != 0)
        return false;
    t->nbytes = (uint64_t)(bits / 8);
    return true;
}

static void call_add(trial *s) {
    planned *t = &s->tensors[s->count];
    size_t id = 777;
    if (s->count == MOST_TENSORS)
        return;
    memset(t, 0, sizeof *t);
    t->name = input_text(&s->in, &t->name_len);
    t->dtype = input_below(&s->in, TMI_DTYPE_COUNT + 2);
    bool known = t->dtype >= TENMAP_BOOL && t->dtype < TMI_DTYPE_COUNT;
    bool good = choose_shape(s, t) && known && !s->laid_out;
    if (good && t->nbytes > MOST_BYTES)
        return; /* allowed, but larger than what is tried here */
    good = good && fuzz_utf8(t->name, t->name_len) == t->name_len &&
           !same_text(t->name, t->name_len, "__metadata__", 12);
    for (size_t i = 0; i < s->count; i++)
        good = good && !same_text(s->tensors[i].name, s->tensors[i].name_len, t->name, t->name_len);
    fuzz_error_arm(&s->error);
    tenmap_status status = tenmap_writer_add(s->writer, t->name, t->name_len, t->dtype, t->shape,
                                             t->rank, &id, &s->error);
    must(s, status, good);
    CHECK(id == (good ? s->count : 777));
    s->count += good;
}

static void call_write(trial *s) {
    size_t id = input_below(&s->in, MOST_TENSORS + 1);
    uint64_t offset = input_below(&s->in, 1 << 9), bytes = input_below(&s->in, 1 << 9);
    uint8_t data[1 << 9] = {0}, seed = input_byte(&s->in);
    bool good =
        id < s->count && offset <= s->tensors[id].nbytes && bytes <= s->tensors[id].nbytes - offset;
    for (uint64_t i = 0; good && i < bytes; i++)
        good = !s->tensors[id].there[offset + i];
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(seed + i * 7);
    fuzz_error_arm(&s->error);
    tenmap_status status =
        tenmap_writer_write(s->writer, id, offset, data, (size_t)bytes, &s->error);
    must(s, status, good);
    s->laid_out = s->laid_out || good;
    for (uint64_t i = 0; good && i < bytes; i++) {
        s->tensors[id].there[offset + i] = true;
        s->tensors[id].data[offset + i] = data[i];
    }
}

/* A whole tensor of the source, converted where the dtypes differ. */
static void call_copy(trial *s) {
    size_t id = input_below(&s->in, MOST_TENSORS);
    const tenmap_tensor *from =
        tenmap_at(s->source, input_below(&s->in, (unsigned)tenmap_count(s->source)));
    uint32_t flags = input_byte(&s->in) & TENMAP_CONVERT_SATURATE;
    planned *t = &s->tensors[id];
    uint64_t elems = 1;
    for (uint32_t d = 0; id < s->count && d < t->rank; d++)
        elems *= t->shape[d];
    if (id < s->count && tmi_route_is_integer(t->dtype, from->dtype))
        flags = TENMAP_CONVERT_SATURATE; /* otherwise integers that do not fit are an error */
    bool good = id < s->count && elems == from->nelems &&
                tmi_convert_check(t->dtype, from->dtype, flags, NULL) == TENMAP_OK;
    for (uint64_t i = 0; good && i < t->nbytes; i++)
        good = !t->there[i];
    fuzz_error_arm(&s->error);
    must(s, tenmap_writer_copy(s->writer, id, from, flags, &s->error), good);
    s->laid_out = s->laid_out || good;
    if (!good || t->nbytes == 0)
        return;
    tmi_elements to = {t->dtype, 0, true}, stored = {from->dtype, 0, true};
    tmi_scalar_convert(to, t->data, stored, from->data, (size_t)elems, flags);
    memset(t->there, true, (size_t)t->nbytes);
}

static bool is_complete(const trial *s) {
    for (size_t t = 0; t < s->count; t++)
        for (uint64_t i = 0; i < s->tensors[t].nbytes; i++)
            if (!s->tensors[t].there[i])
                return false;
    return true;
}

/* Writes the missing bytes, up to 16 at a time, starting from the end. */
static void fill(trial *s) {
    for (size_t t = 0; t < s->count; t++)
        for (uint64_t end = s->tensors[t].nbytes, begin; end > 0; end = begin) {
            planned *p = &s->tensors[t];
            for (begin = end; begin > 0 && end - begin < 16 && !p->there[begin - 1];) {
                p->there[--begin] = true;
                p->data[begin] = (uint8_t)(begin * 3 + t);
            }
            if (begin == end)
                begin--;
            else
                CHECK(tenmap_writer_write(s->writer, t, begin, p->data + begin,
                                          (size_t)(end - begin), NULL) == TENMAP_OK);
        }
}

/* The layout of docs/writing.md, implemented a second time, without regard to speed. */

typedef struct expected {
    uint8_t bytes[1 << 17];
    size_t size;
} expected;

static void put(expected *e, const void *bytes, size_t size) {
    CHECK(size <= sizeof e->bytes - e->size);
    memcpy(e->bytes + e->size, bytes, size);
    e->size += size;
}

static void put_text(expected *e, const char *text) {
    put(e, text, strlen(text));
}

static void put_number(expected *e, uint64_t n) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (ull)n);
    put_text(e, digits);
}

static void put_string(expected *e, const char *text, size_t len) {
    put_text(e, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        static const char plain[] = "\"\\\b\t\n\f\r", letters[] = "\"\\btnfr";
        const char *found = c ? strchr(plain, c) : NULL;
        char escape[8];
        if (found)
            snprintf(escape, sizeof escape, "\\%c", letters[found - plain]);
        else
            snprintf(escape, sizeof escape, c < 0x20 ? "\\u%04x" : "%c", c);
        put(e, escape, c >= 0x20 && !found ? 1 : strlen(escape));
    }
    put_text(e, "\"");
}

static bool goes_first(const planned *a, const planned *b) {
    size_t shorter = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->name, b->name, shorter);
    if (a->dtype != b->dtype)
        return a->dtype > b->dtype;
    return order ? order < 0 : a->name_len < b->name_len;
}

static void put_entries(trial *s, expected *e, const planned **order) {
    uint64_t at = 0;
    for (size_t i = 0; i < s->count; i++) {
        const planned *t = order[i];
        if (i > 0 || s->pair_count > 0)
            put_text(e, ",");
        put_string(e, t->name, t->name_len);
        put_text(e, ":{\"dtype\":\"");
        put_text(e, tenmap_dtype_name(t->dtype));
        put_text(e, "\",\"shape\":[");
        for (uint32_t d = 0; d < t->rank; d++) {
            put_text(e, d ? "," : "");
            put_number(e, t->shape[d]);
        }
        put_text(e, "],\"data_offsets\":[");
        put_number(e, at);
        put_text(e, ",");
        put_number(e, at += t->nbytes);
        put_text(e, "]}");
    }
}

static void lay_out_again(trial *s, expected *e, const planned **order) {
    e->size = 0;
    put(e, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t i = 0; i < s->pair_count; i++) {
        put_text(e, i ? "," : "\"__metadata__\":{");
        put_string(e, s->pairs[i].key, s->pairs[i].key_len);
        put_text(e, ":");
        put_string(e, s->pairs[i].value, s->pairs[i].value_len);
    }
    put_text(e, s->pair_count ? "}" : "");
    put_entries(s, e, order);
    put_text(e, "}");
    size_t alignment = s->options.data_alignment < 8 ? 8 : s->options.data_alignment;
    for (size_t slack = s->options.header_slack; slack > 0 || e->size % alignment != 0;
         slack -= slack > 0)
        put_text(e, " ");
    for (size_t i = 0; i < 8; i++)
        e->bytes[i] = (uint8_t)((uint64_t)(e->size - 8) >> 8 * i);
    for (size_t i = 0; i < s->count; i++)
        put(e, order[i]->data, (size_t)order[i]->nbytes);
}

static void check_opened(trial *s, const planned **order) {
    tenmap_model *model;
    CHECK(tenmap_open(scratch_path, NULL, &model, NULL) == TENMAP_OK);
    CHECK(tenmap_count(model) == s->count && tenmap_metadata_count(model) == s->pair_count);
    for (size_t i = 0; i < s->pair_count; i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        CHECK(same_text(m->key, m->key_len, s->pairs[i].key, s->pairs[i].key_len));
        CHECK(same_text(m->value, m->value_len, s->pairs[i].value, s->pairs[i].value_len));
    }
    for (size_t i = 0; i < s->count; i++) {
        const planned *want = order[i];
        const tenmap_tensor *t = tenmap_find_n(model, want->name, want->name_len);
        CHECK(t && t->dtype == want->dtype && t->rank == want->rank && t->nbytes == want->nbytes);
        for (uint32_t d = 0; d < t->rank; d++)
            CHECK(t->shape[d] == want->shape[d]);
        CHECK(memcmp(t->data, want->data, (size_t)t->nbytes) == 0);
    }
    tenmap_close(model);
}

static void check_file(trial *s) {
    static expected e;
    const planned *order[MOST_TENSORS];
    for (size_t i = 0; i < s->count; i++) {
        size_t at = i;
        bool sorts = !(s->options.flags & TENMAP_WRITER_KEEP_ORDER);
        for (; sorts && at > 0 && goes_first(&s->tensors[i], order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = &s->tensors[i];
    }
    lay_out_again(s, &e, order);
    size_t size = 0;
    uint8_t *bytes = scratch_read(&size);
    CHECK(bytes && size == e.size && memcmp(bytes, e.bytes, size) == 0);
    free(bytes);
    check_opened(s, order);
}

static void choose_options(trial *s) {
    static const uint32_t alignments[] = {0, 1, 2, 4, 8, 16, 64, 4096, 3, 48, 1u << 31, 1 << 15};
    s->options = (tenmap_writer_options)TENMAP_WRITER_OPTIONS_INIT;
    s->options.data_alignment = alignments[input_below(&s->in, 12)];
    s->options.header_slack = input_below(&s->in, 512);
    s->options.flags = input_byte(&s->in) & TENMAP_WRITER_KEEP_ORDER;
    uint32_t alignment = s->options.data_alignment;
    bool good = (alignment & (alignment - 1)) == 0 && alignment <= 2 << 20;
    fuzz_error_arm(&s->error);
    must(s, tenmap_writer_create(scratch_path, &s->options, &s->writer, &s->error), good);
    CHECK(good == (s->writer != NULL));
}

static void finish(trial *s) {
    uint8_t ending = input_byte(&s->in);
    if (ending % 16 == 15) {
        tenmap_writer_abort(s->writer);
        CHECK(scratch_files(false) == 0);
        return;
    }
    if (ending % 16 < 12)
        fill(s);
    bool good = is_complete(s);
    fuzz_error_arm(&s->error);
    must(s, tenmap_writer_commit(s->writer, &s->error), good);
    CHECK(scratch_files(false) == (good ? 1 : 0));
    if (good) {
        check_file(s);
        CHECK(unlink(scratch_path) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const calls[])(trial *) = {call_metadata, call_add, call_add, call_write,
                                             call_copy};
    static planned tensors[MOST_TENSORS];
    trial s = {.in = {data, data + size, NULL}, .tensors = tensors};
    scratch_begin();
    choose_options(&s);
    if (!s.writer)
        return 0;
    s.source = open_source();
    unsigned most = input_below(&s.in, MOST_CALLS);
    for (unsigned i = 0; i < most && input_left(&s.in) > 1; i++)
        calls[input_below(&s.in, 5)](&s);
    finish(&s);
    tenmap_close(s.source);
    return 0;
}
