/* Writes a small example model with the names of a two-layer transformer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 32, HIDDEN = 64, VOCABULARY = 128, LAYERS = 2 };

typedef struct demo {
    char json[16384];
    size_t json_len;
    uint64_t data;
} demo;

static void add(demo *d, const char *name, const char *dtype, unsigned element, unsigned rows,
                unsigned columns) {
    uint64_t size = (uint64_t)element * rows * (columns ? columns : 1);
    char shape[32];
    snprintf(shape, sizeof shape, columns ? "%u,%u" : "%u", rows, columns);
    d->json_len += (size_t)snprintf(
        d->json + d->json_len, sizeof d->json - d->json_len,
        ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
        name, dtype, shape, d->data, d->data + size);
    d->data += size;
}

static void describe(demo *d) {
    static const struct {
        const char *name;
        unsigned rows, columns;
    } parts[] = {{"self_attn.q_proj", WIDTH, WIDTH}, {"self_attn.k_proj", WIDTH, WIDTH},
                 {"self_attn.v_proj", WIDTH, WIDTH}, {"self_attn.o_proj", WIDTH, WIDTH},
                 {"mlp.gate_proj", HIDDEN, WIDTH},   {"mlp.up_proj", HIDDEN, WIDTH},
                 {"mlp.down_proj", WIDTH, HIDDEN}};
    char name[96];
    d->json_len = (size_t)snprintf(d->json, sizeof d->json,
                                   "{\"__metadata__\":{\"format\":\"pt\",\"made_by\":\"demo\"}");
    add(d, "model.embed_tokens.weight", "BF16", 2, VOCABULARY, WIDTH);
    for (unsigned i = 0; i < LAYERS; i++) {
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            snprintf(name, sizeof name, "model.layers.%u.%s.weight", i, parts[p].name);
            add(d, name, "BF16", 2, parts[p].rows, parts[p].columns);
        }
        snprintf(name, sizeof name, "model.layers.%u.input_layernorm.weight", i);
        add(d, name, "F32", 4, WIDTH, 0);
    }
    d->json[d->json_len++] = '}';
    while (d->json_len % 8)
        d->json[d->json_len++] = ' ';
}

/* Values near zero, like weights: a sign, an exponent from a small range, any fraction. */
static int write_data(FILE *out, uint64_t bytes) {
    uint32_t state = 12345;
    for (uint64_t i = 0; i < bytes; i += 2) {
        state = state * 1664525u + 1013904223u;
        unsigned value =
            (state >> 16 & 0x8000u) | (0x7au + (state >> 8 & 3u)) << 7 | (state >> 10 & 0x7fu);
        if (putc((int)(value & 0xff), out) == EOF || putc((int)(value >> 8), out) == EOF)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    static demo d;
    if (argc != 2) {
        fprintf(stderr, "usage: demo FILE.safetensors\n");
        return 2;
    }
    describe(&d);
    FILE *out = fopen(argv[1], "wb");
    if (!out) {
        perror(argv[1]);
        return 1;
    }
    for (unsigned i = 0; i < 8; i++)
        putc((int)((uint64_t)d.json_len >> 8 * i & 0xff), out);
    int good = fwrite(d.json, 1, d.json_len, out) == d.json_len && write_data(out, d.data);
    if (fclose(out) != 0 || !good) {
        perror(argv[1]);
        return 1;
    }
    printf("%s: a demo model of %" PRIu64 " bytes\n", argv[1], 8 + d.json_len + d.data);
    return 0;
}
