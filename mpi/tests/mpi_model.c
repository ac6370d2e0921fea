/* A model of every dtype, and requests of all kinds: see mpi_model.h. */
#include "mpi_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t state;

void seed_rolls(uint64_t seed) {
    state = seed * 0x9e3779b97f4a7c15u + 1;
}

uint32_t roll(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (uint32_t)(state >> 32) % below : 0;
}

static void must(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "the test itself failed: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/*
 * Shapes of many ranks. One has seven axes, one has nine; one has rows that are not whole bytes in
 * F4 and F6.
 */
static const struct shape {
    uint32_t rank;
    uint64_t dims[MOST_AXES];
} shapes[] = {{0, {0}},
              {1, {4096}},
              {2, {96, 128}},
              {2, {20, 1000}},
              {3, {8, 24, 40}},
              {4, {4, 6, 10, 16}},
              {2, {0, 16}},
              {1, {24}},
              {7, {2, 2, 2, 2, 3, 4, 8}},
              {2, {160, 96}},
              {3, {5, 3, 8}},
              {2, {8, 33}},
              {9, {2, 1, 2, 1, 2, 3, 1, 4, 8}}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Dtype i is TENMAP_BOOL + i. */
static int count_dtypes(void) {
    int n = 0;
    while (tenmap_dtype_bits(TENMAP_BOOL + (tenmap_dtype)n))
        n++;
    return n;
}

static bool fits(const struct shape *s, tenmap_dtype dtype, uint64_t *bytes) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < s->rank; d++)
        n *= s->dims[d];
    *bytes = n * tenmap_dtype_bits(dtype) / 8;
    return n * tenmap_dtype_bits(dtype) % 8 == 0;
}

/* The tensors of dtypes [from, to), in shapes that each allows. */
static size_t write_header(char *json, size_t room, int from, int to, uint64_t *data) {
    size_t len = (size_t)snprintf(json, room, "{\"__metadata__\":{\"format\":\"pt\"}");
    *data = 0;
    for (int i = from; i < to; i++)
        for (int k = 0; k < SHAPES; k++) {
            uint64_t bytes;
            tenmap_dtype dtype = TENMAP_BOOL + (tenmap_dtype)i;
            const char *name = tenmap_dtype_name(dtype);
            if (!fits(&shapes[k], dtype, &bytes))
                continue;
            len += (size_t)snprintf(json + len, room - len,
                                    ",\"%s.%d\":{\"dtype\":\"%s\",\"shape\":[", name, k, name);
            for (uint32_t d = 0; d < shapes[k].rank; d++)
                len += (size_t)snprintf(json + len, room - len, "%s%" PRIu64, d ? "," : "",
                                        shapes[k].dims[d]);
            len += (size_t)snprintf(json + len, room - len,
                                    "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *data,
                                    *data + bytes);
            *data += bytes;
        }
    len += (size_t)snprintf(json + len, room - len, "}");
    while (len % 8)
        json[len++] = ' ';
    return len;
}

static void write_part(const char *folder, const char *name, int from, int to) {
    enum { ROOM = 1 << 16 };
    char path[4096], *json = malloc(ROOM);
    uint64_t data;
    must(json, "memory");
    uint64_t len = write_header(json, ROOM, from, to, &data);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    must(f, path);
    unsigned char field[8];
    for (int i = 0; i < 8; i++)
        field[i] = (unsigned char)(len >> (8 * i));
    fwrite(field, 8, 1, f);
    fwrite(json, len, 1, f);
    for (uint64_t i = 0; i < data; i++)
        fputc((int)roll(256), f);
    must(fclose(f) == 0, path);
    free(json);
}

static void write_index(const char *folder) {
    char path[4096];
    bool first = true;
    snprintf(path, sizeof path, "%s/parts/model.safetensors.index.json", folder);
    FILE *f = fopen(path, "w");
    must(f, path);
    fprintf(f, "{\"metadata\":{},\"weight_map\":{");
    for (int i = 0; i < count_dtypes(); i++)
        for (int k = 0; k < SHAPES; k++) {
            uint64_t bytes;
            tenmap_dtype dtype = TENMAP_BOOL + (tenmap_dtype)i;
            if (!fits(&shapes[k], dtype, &bytes))
                continue;
            fprintf(f, "%s\"%s.%d\":\"model-0000%d-of-00002.safetensors\"", first ? "" : ",",
                    tenmap_dtype_name(dtype), k, i < 15 ? 1 : 2);
            first = false;
        }
    fprintf(f, "}}");
    must(fclose(f) == 0, path);
}

static void put_number(FILE *f, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> (8 * i) & 255), f);
}

/* Blocks of 128 x 128 with a scale each, and a row of its own in another dtype. */
static void write_coded(const char *folder) {
    static const char header[] =
        "{\"a.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[300,640],\"data_offsets\":[0,192000]},"
        "\"a.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[3,5],\"data_offsets\":[192000,192060]"
        "},"
        "\"b.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[256,384],\"data_offsets\":[192060,290364]},"
        "\"b.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[290364,290388]"
        "},"
        "\"norm.weight\":{\"dtype\":\"BF16\",\"shape\":[640],\"data_offsets\":[290388,291668]}}";
    static const struct {
        int bytes;
        bool scales;
    } runs[] = {{192000, false}, {60, true}, {98304, false}, {24, true}, {1280, false}};
    char path[4096];
    snprintf(path, sizeof path, "%s/coded/config.json", folder);
    FILE *f = fopen(path, "w");
    must(f, path);
    fputs("{\"torch_dtype\":\"bfloat16\",\"quantization_config\":{\"quant_method\":\"fp8\","
          "\"weight_block_size\":[128,128]}}",
          f);
    must(fclose(f) == 0, path);
    snprintf(path, sizeof path, "%s/coded/model.safetensors", folder);
    f = fopen(path, "wb");
    must(f, path);
    put_number(f, sizeof header - 1, 8);
    fputs(header, f);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        for (int b = 0; b < runs[i].bytes; b += runs[i].scales ? 4 : 1)
            put_number(f, runs[i].scales ? 0x3c000000u + roll(1 << 24) : roll(255) & 0xfe,
                       runs[i].scales ? 4 : 1);
    must(fclose(f) == 0, path);
}

/* ggml's numbers of types, elements of a block and its bytes: F32, Q4_0, Q8_0, Q4_K, Q6_K. */
static void write_blocks(const char *folder) {
    static const struct {
        uint32_t type, together, bytes;
    } kinds[] = {{0, 1, 4}, {2, 32, 18}, {8, 32, 34}, {12, 256, 144}, {14, 256, 210}};
    enum { KINDS = sizeof kinds / sizeof kinds[0], ROWS = 96, COLUMNS = 1024 };
    char path[4096], name[16];
    uint64_t offset = 0;
    snprintf(path, sizeof path, "%s/blocks.gguf", folder);
    FILE *f = fopen(path, "wb");
    must(f, path);
    fputs("GGUF", f);
    put_number(f, 3, 4);
    put_number(f, KINDS, 8);
    put_number(f, 0, 8);
    for (int i = 0; i < KINDS; i++) {
        put_number(f, (uint64_t)snprintf(name, sizeof name, "blk.%d", i), 8);
        fputs(name, f);
        put_number(f, 2, 4);
        put_number(f, COLUMNS, 8);
        put_number(f, ROWS, 8);
        put_number(f, kinds[i].type, 4);
        put_number(f, offset, 8);
        offset += ROWS * COLUMNS / kinds[i].together * kinds[i].bytes;
        must(offset % 32 == 0, "tensors of whole steps of 32 bytes");
    }
    while (ftell(f) % 32)
        fputc(0, f);
    for (uint64_t i = 0; i < offset; i++)
        fputc((int)roll(256), f);
    must(fclose(f) == 0, path);
}

/* Two layers, as small as possible, with the names by which the example splits tensors. */
static void write_llama(const char *folder) {
    static const struct {
        const char *name;
        int rows, columns;
    } weights[] = {{"self_attn.q_proj.weight", 384, 384}, {"self_attn.k_proj.weight", 128, 384},
                   {"self_attn.v_proj.weight", 128, 384}, {"self_attn.o_proj.weight", 384, 384},
                   {"mlp.gate_proj.weight", 1024, 384},   {"mlp.up_proj.weight", 1024, 384},
                   {"mlp.down_proj.weight", 384, 1024},   {"input_layernorm.weight", 1, 384}};
    enum { WEIGHTS = sizeof weights / sizeof weights[0], LAYERS = 2 };
    char path[4096], json[8192] = "{";
    size_t len = 1;
    uint64_t at = 0, size;
    for (int i = 0; i < LAYERS * WEIGHTS; i++) {
        size = (uint64_t)weights[i % WEIGHTS].rows * (uint64_t)weights[i % WEIGHTS].columns * 2;
        len += (size_t)snprintf(json + len, sizeof json - len,
                                "%s\"model.layers.%d.%s\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],"
                                "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                                i ? "," : "", i / WEIGHTS, weights[i % WEIGHTS].name,
                                weights[i % WEIGHTS].rows, weights[i % WEIGHTS].columns, at,
                                at + size);
        at += size;
    }
    len += (size_t)snprintf(json + len, sizeof json - len, "}");
    snprintf(path, sizeof path, "%s/llama.safetensors", folder);
    FILE *f = fopen(path, "wb");
    must(f, path);
    put_number(f, len, 8);
    fputs(json, f);
    for (uint64_t i = 0; i < at; i++)
        fputc((int)roll(256), f);
    must(fclose(f) == 0, path);
}

static void make_folder(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(mkdir(path, 0777) == 0, path);
}

void write_models(const char *folder) {
    seed_rolls(7);
    make_folder(folder, "parts");
    make_folder(folder, "coded");
    write_part(folder, "model.safetensors", 0, count_dtypes());
    write_part(folder, "parts/model-00001-of-00002.safetensors", 0, 15);
    write_part(folder, "parts/model-00002-of-00002.safetensors", 15, count_dtypes());
    write_index(folder);
    write_coded(folder);
    write_blocks(folder);
    write_llama(folder);
}

const char *model_path(const char *folder, uint32_t model, tenmap_options *options) {
    static const char *const names[MODELS] = {"model.safetensors", "parts", "coded", "blocks.gguf"};
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, names[model]);
    if (model == CODED)
        options->flags |= TENMAP_OPEN_DEQUANTIZE;
    return path;
}

static uint64_t count_of(const load_case *c, size_t i) {
    const tenmap_request *r = &c->requests[i];
    uint64_t n = 1;
    if (!r->begin)
        return r->tensor->nelems;
    for (uint32_t d = 0; d < r->tensor->rank; d++)
        n *= r->end[d] - r->begin[d];
    return n;
}

/*
 * Allocates a destination and loads by tenmap_load what must end up in it; false if the library
 * refuses the request.
 */
static bool finish_request(load_case *c, size_t i, const tenmap_model *model) {
    tenmap_request *r = &c->requests[i];
    tenmap_dtype as = r->as ? r->as : r->tensor->dtype;
    uint32_t together = 1, bytes = 1;
    (void)tenmap_dtype_block(as, &together, &bytes);
    uint64_t n = count_of(c, i), row = r->tensor->rank ? r->tensor->shape[r->tensor->rank - 1] : 1;
    if (r->begin && r->tensor->rank)
        row = r->end[r->tensor->rank - 1] - r->begin[r->tensor->rank - 1];
    size_t size = (size_t)((n + together - 1) / together * bytes);
    if (roll(4) == 0 && row && row % together == 0) {
        r->dst_stride = row / together * bytes + roll(40);
        size = (size_t)(n / row * r->dst_stride);
    }
    c->room[i] = size + 64;
    c->dst[i] = malloc(size + 64);
    c->expected[i] = malloc(size + 64);
    must(c->dst[i] && c->expected[i], "memory");
    memset(c->dst[i], 0x5a, size + 64);
    memset(c->expected[i], 0x5a, size + 64);
    r->dst = c->expected[i] + 3; /* not aligned */
    r->dst_bytes = size + 8;
    tenmap_status status = tenmap_load(model, r, 1, NULL, NULL);
    r->dst = c->dst[i] + 3;
    if (status == TENMAP_OK)
        return true;
    free(c->dst[i]);
    free(c->expected[i]);
    r->dst_stride = 0;
    return false;
}

static void draw_block(load_case *c, size_t i) {
    tenmap_request *r = &c->requests[i];
    for (uint32_t d = 0; d < r->tensor->rank; d++) {
        uint32_t extent = (uint32_t)r->tensor->shape[d];
        uint32_t a = roll(extent + 1), b = roll(extent + 1);
        if (roll(3) == 0) /* often whole, as slices of one axis are */
            a = 0, b = extent;
        c->begin[i][d] = a < b ? a : b;
        c->end[i][d] = a < b ? b : a;
    }
    r->begin = c->begin[i];
    r->end = c->end[i];
}

void draw_case(load_case *c, const tenmap_model *model) {
    static const tenmap_dtype targets[] = {TENMAP_AS_STORED, TENMAP_AS_STORED, TENMAP_F32,
                                           TENMAP_BF16,      TENMAP_F16,       TENMAP_F8_E4M3,
                                           TENMAP_F4,        TENMAP_F64,       TENMAP_F6_E2M3};
    memset(c, 0, sizeof *c);
    size_t n = roll(5) == 0 ? 0 : roll(MOST_DRAWN + 1);
    uint32_t near = roll((uint32_t)tenmap_count(model));
    while (c->count < n) {
        tenmap_request *r = &c->requests[c->count];
        memset(r, 0, sizeof *r);
        /* Half of them among a few tensors, so that ranks overlap. */
        uint32_t which = roll(2) ? roll((uint32_t)tenmap_count(model))
                                 : (near % 7 * 11 + roll(4)) % (uint32_t)tenmap_count(model);
        r->tensor = tenmap_at(model, which);
        r->as = targets[roll(sizeof targets / sizeof targets[0])];
        r->flags = roll(3) == 0 ? TENMAP_CONVERT_SATURATE : 0;
        if (roll(3))
            draw_block(c, c->count);
        bool as_bytes = roll(8) == 0 && tenmap_dtype_bits(r->tensor->dtype) == 16 && !r->begin;
        if (as_bytes)
            r->as = TENMAP_AS_STORED;
        if (!finish_request(c, c->count, model))
            continue;
        if (as_bytes && r->dst_stride == 0 && !(r->tensor->flags & TENMAP_TENSOR_COMPUTED)) {
            r->stored_as = TENMAP_U8; /* the same bytes by another name */
            r->flags = 0;
        }
        c->count++;
    }
}

void whole_case(load_case *c, const tenmap_model *model, tenmap_dtype as) {
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < tenmap_count(model) && c->count < MOST_REQUESTS; i++) {
        tenmap_request *r = &c->requests[c->count];
        memset(r, 0, sizeof *r);
        r->tensor = tenmap_at(model, i);
        r->as = as;
        if (finish_request(c, c->count, model))
            c->count++;
    }
}

long compare_case(const load_case *c) {
    for (size_t i = 0; i < c->count; i++)
        if (memcmp(c->dst[i], c->expected[i], c->room[i]) != 0)
            return (long)i;
    return -1;
}

void keep_requests(load_case *c, bool (*keep)(const tenmap_tensor *)) {
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (!keep(c->requests[i].tensor)) {
            free(c->dst[i]);
            free(c->expected[i]);
            continue;
        }
        c->requests[kept] = c->requests[i];
        c->dst[kept] = c->dst[i];
        c->expected[kept] = c->expected[i];
        c->room[kept++] = c->room[i];
    }
    c->count = kept;
}

void free_case(load_case *c) {
    for (size_t i = 0; i < c->count; i++) {
        free(c->dst[i]);
        free(c->expected[i]);
    }
    c->count = 0;
}

/*
 * Marks the wanted bytes of a tensor in a map with one byte for each; for a tensor of more than
 * eight axes, all bytes from the first wanted one to the last.
 */
static void mark_wanted(const load_case *c, const tenmap_tensor *t, unsigned char *map) {
    uint32_t together = 1, bytes = 1; /* of elements that come together, as those of 6 bits do */
    (void)tenmap_dtype_block(t->dtype, &together, &bytes);
    for (size_t i = 0; i < c->count; i++) {
        const tenmap_request *r = &c->requests[i];
        uint64_t first = UINT64_MAX, last = 0;
        if (r->tensor != t)
            continue;
        for (uint64_t e = 0; e < t->nelems; e++) {
            uint64_t rest = e;
            bool inside = true;
            for (uint32_t d = t->rank; d-- > 0 && r->begin;) {
                uint64_t at = rest % t->shape[d];
                rest /= t->shape[d];
                inside = inside && at >= r->begin[d] && at < r->end[d];
            }
            if (!inside)
                continue;
            memset(map + e / together * bytes, 1, bytes);
            first = e < first ? e : first;
            last = e;
        }
        for (; t->rank > 8 && first < last; first++)
            memset(map + first / together * bytes, 1, bytes);
    }
}

uint64_t bytes_wanted_once(MPI_Comm comm, const tenmap_model *model, const load_case *c) {
    uint64_t total = 0, size = 0, at = 0;
    for (size_t i = 0; i < tenmap_count(model); i++)
        size += tenmap_at(model, i)->nbytes;
    unsigned char *map = calloc((size_t)size + 1, 1);
    must(map && size < INT32_MAX, "memory");
    for (size_t i = 0; i < tenmap_count(model); i++) {
        mark_wanted(c, tenmap_at(model, i), map + at);
        at += tenmap_at(model, i)->nbytes;
    }
    MPI_Allreduce(MPI_IN_PLACE, map, (int)size, MPI_UNSIGNED_CHAR, MPI_MAX, comm);
    for (uint64_t b = 0; b < size; b++)
        total += map[b];
    free(map);
    return total;
}
