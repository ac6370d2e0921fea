/* Random numbers and models: see random_models.h. */
#include "random_models.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers. */

static uint64_t state;
static _Atomic uint64_t shared_state;

/* SplitMix64. */
static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);

void draw_begin(uint64_t seed) {
    state = seed;
    atomic_store(&shared_state, ~seed);
}

uint64_t draw(uint64_t limit) {
    uint64_t number = mix(state += step);
    return limit ? number % limit : 0;
}

uint64_t draw_shared(uint64_t limit) {
    uint64_t number = mix(atomic_fetch_add(&shared_state, step) + step);
    return limit ? number % limit : 0;
}

uint64_t draw_size(void) {
    switch (draw(4)) {
    case 0:
        return draw(300);
    case 1:
        return (UINT64_C(1) << draw(64)) + draw(3) - 1;
    case 2:
        return UINT64_MAX - draw(20);
    default:
        return mix(draw(0)) >> draw(64);
    }
}

void draw_fill(void *bytes, size_t size) {
    unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        at[i] = (unsigned char)draw(256);
}

/* Files as they grow. */

typedef struct growing {
    made_file file;
    size_t room;
} growing;

static void put(growing *g, const void *bytes, size_t size) {
    while (g->file.size + size > g->room) {
        g->room = g->room ? g->room * 2 : 4096;
        g->file.bytes = realloc(g->file.bytes, g->room);
        if (!g->file.bytes)
            abort();
    }
    if (size)
        memcpy(g->file.bytes + g->file.size, bytes, size);
    g->file.size += size;
}

static void put_number(growing *g, uint64_t number, size_t width) {
    for (size_t i = 0; i < width; i++)
        put(g, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
put_text(growing *g, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(g, text, strlen(text));
}

static void put_random(growing *g, size_t size) {
    for (size_t i = 0; i < size; i++)
        put(g, &(unsigned char){(unsigned char)draw(256)}, 1);
}

/* Changes a few bytes, or removes the end. Files never change their size in place. */
static void harm_file(made_file *file) {
    for (uint64_t i = draw(4); i-- > 0 && file->size;)
        file->bytes[draw(draw(2) ? file->size : 200) % file->size] ^= (unsigned char)draw(256);
    if (draw(4) == 0)
        file->size = (size_t)draw(file->size + 1);
}

/* The length, the text, `data` random bytes. */
static made_file finish_safetensors(growing *text, size_t data) {
    growing g = {{NULL, 0}, 0};
    while (draw(3) == 0)
        put_text(text, " ");
    put_number(&g, text->file.size, 8);
    put(&g, text->file.bytes, text->file.size);
    put_random(&g, data);
    free(text->file.bytes);
    return g.file;
}

static tenmap_dtype draw_dtype(void) {
    tenmap_dtype count = 0;
    while (tenmap_dtype_bits(TENMAP_BOOL + count))
        count++;
    return TENMAP_BOOL + (tenmap_dtype)draw(count);
}

made_file make_safetensors(const char *prefix, bool harm) {
    growing text = {{NULL, 0}, 0};
    size_t at = 0;
    put_text(&text, "{\"__metadata__\":{\"format\":\"pt\"");
    for (uint64_t i = draw(4); i-- > 0;)
        put_text(&text, ",%s\"key %u\":\"%st%u\"", draw(4) ? "" : " ", (unsigned)i, prefix,
                 (unsigned)draw(5));
    put_text(&text, "}");
    for (unsigned i = 0, n = (unsigned)draw(draw(10) ? 9 : 60); i < n; i++) {
        tenmap_dtype dtype = draw_dtype();
        uint64_t elements = 1, dim;
        uint32_t together, bytes;
        (void)tenmap_dtype_block(dtype, &together, &bytes);
        put_text(&text, ",\"%st%u\":{\"dtype\":\"%s\",\"shape\":[", prefix, i,
                 tenmap_dtype_name(dtype));
        for (unsigned d = 0, rank = (unsigned)draw(draw(20) ? 4 : 12); d < rank; d++) {
            dim = draw(30) ? 1 + draw(5) : draw(draw(2) ? 3 : 200);
            dim = elements * dim > 5000 ? 1 : dim;
            elements *= dim;
            put_text(&text, "%llu,", (unsigned long long)dim);
        }
        elements *= together; /* the last dimension is whole bytes of any dtype */
        put_text(&text, "%u],\"data_offsets\":[%zu,", together, at);
        at += (size_t)(elements / together * bytes);
        put_text(&text, "%zu]}", at);
    }
    put_text(&text, "}");
    made_file file = finish_safetensors(&text, at);
    if (harm)
        harm_file(&file);
    return file;
}

static void put_gguf_string(growing *g, const char *text) {
    put_number(g, strlen(text), 8);
    put_text(g, "%s", text);
}

/* Keys with values of every type, arrays in arrays included. */
static void put_gguf_pairs(growing *g, unsigned pairs) {
    static const unsigned widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (unsigned i = 0; i < pairs; i++) {
        char key[16];
        unsigned type = (unsigned)draw(13), count = (unsigned)draw(5);
        snprintf(key, sizeof key, "key.%u", i);
        put_gguf_string(g, key);
        put_number(g, type, 4);
        if (type == TENMAP_VALUE_STRING) {
            put_gguf_string(g, draw(2) ? "t1" : "");
        } else if (type == TENMAP_VALUE_ARRAY) {
            unsigned inner = draw(2) ? TENMAP_VALUE_STRING : TENMAP_VALUE_U16;
            put_number(g, inner, 4);
            put_number(g, count, 8);
            for (unsigned k = 0; k < count; k++)
                inner == TENMAP_VALUE_STRING ? put_gguf_string(g, "token") : put_number(g, k, 2);
        } else {
            put_number(g, type == TENMAP_VALUE_BOOL ? draw(2) : draw(0), widths[type]);
        }
    }
}

static void put_gguf_split(growing *g, unsigned number, unsigned parts) {
    put_gguf_string(g, "split.no");
    put_number(g, TENMAP_VALUE_U16, 4);
    put_number(g, number, 2);
    put_gguf_string(g, "split.count");
    put_number(g, TENMAP_VALUE_U16, 4);
    put_number(g, parts, 2);
}

made_file make_gguf(unsigned number, unsigned parts) {
    static const unsigned types[] = {0, 1, 2, 3, 6, 8, 10, 12, 14, 24, 27, 28, 30, 34, 39};
    growing g = {{NULL, 0}, 0};
    unsigned pairs = (unsigned)draw(6), tensors = (unsigned)draw(7);
    size_t at = 0;
    put_text(&g, "GGUF");
    put_number(&g, 2 + draw(2), 4);
    put_number(&g, tensors, 8);
    put_number(&g, pairs + (parts ? 2 : 0), 8);
    put_gguf_pairs(&g, pairs);
    if (parts)
        put_gguf_split(&g, number, parts);
    for (unsigned i = 0; i < tensors; i++) {
        unsigned type = types[draw(sizeof types / sizeof types[0])];
        static const tenmap_dtype plain[] = {
            [0] = TENMAP_F32,  [1] = TENMAP_F16,  [24] = TENMAP_I8,
            [27] = TENMAP_I64, [28] = TENMAP_F64, [30] = TENMAP_BF16};
        bool is_plain = type < 2 || (type >= 24 && type <= 30);
        uint32_t together, bytes;
        char name[24];
        uint64_t rows = draw(5), blocks = draw(4);
        (void)tenmap_dtype_block(is_plain ? plain[type] : 62 + type, &together, &bytes);
        snprintf(name, sizeof name, "t%u", number * 10 + i);
        put_gguf_string(&g, name);
        put_number(&g, 2, 4);
        put_number(&g, blocks * together, 8);
        put_number(&g, rows, 8);
        put_number(&g, type, 4);
        put_number(&g, at, 8);
        at += (size_t)(rows * blocks * bytes);
        at += (32 - at % 32) % 32;
    }
    while (g.file.size % 32)
        put_number(&g, 0, 1);
    put_random(&g, at);
    if (draw(4) == 0)
        harm_file(&g.file);
    return g.file;
}

/* A tensor's entry; *at is where its bytes begin, and end. */
static void put_entry(growing *text, const char *name, const char *dtype, uint64_t rows,
                      uint64_t columns, unsigned width, size_t *at) {
    size_t begin = *at;
    *at += (size_t)(rows * columns * width);
    put_text(text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
             text->file.size > 1 ? "," : "", name, dtype, (unsigned)rows, (unsigned)columns, begin,
             *at);
}

/* The size, now and then slightly wrong. */
static uint64_t about(uint64_t size) {
    return draw(20) ? size : size + draw(3) - (size > 0);
}

made_file make_quantized(void) {
    growing text = {{NULL, 0}, 0};
    size_t at = 0;
    uint64_t in = 32 * (1 + draw(3)), out = 8 * (1 + draw(4)), rows = draw(150),
             columns = draw(150);
    put_text(&text, "{");
    put_entry(&text, "m.weight", "F8_E4M3", rows, columns, 1, &at);
    if (draw(15))
        put_entry(&text, "m.weight_scale_inv", "F32", about((rows + 127) / 128),
                  about((columns + 127) / 128), 4, &at);
    put_entry(&text, "x.qweight", "I32", in / 8, out, 4, &at);
    put_entry(&text, "x.qzeros", "I32", in / 32, about(out / 8), 4, &at);
    if (draw(15))
        put_entry(&text, "x.scales", "F16", about(in / 32), out, 2, &at);
    put_entry(&text, "t0", "BF16", draw(4), draw(4), 2, &at);
    put_text(&text, "}");
    made_file file = finish_safetensors(&text, at);
    if (draw(8) == 0)
        harm_file(&file);
    return file;
}

made_file make_config(void) {
    static const char *const configs[] = {
        "{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}",
        "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32}}",
        "{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32}}",
        "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":99999999999}}",
        "{}",
        "[",
        ""};
    growing g = {{NULL, 0}, 0};
    put_text(&g, "%s", configs[draw(sizeof configs / sizeof configs[0])]);
    put(&g, "", 0);
    if (!g.file.bytes)
        g.file.bytes = calloc(1, 1);
    return g.file;
}
