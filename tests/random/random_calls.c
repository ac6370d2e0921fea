/*
 * Makes random calls on small random models: files of both formats, shards, folders, lists,
 * quantized weights, memory, and a tenmap_io that fails, lies about sizes and calls the library;
 * options and ranges of all sizes; callbacks that cancel and call the library; edits, renamings,
 * writers and saves beside open models. It looks for what sanitizers report, calls that do not
 * return, errors without a message, and objects that are not closed.
 *
 *     random_calls [CALLS [SEED]]
 *
 * The folder is made in $TMPDIR. Exits with 1 if something was found.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "random_models.h"
#include "tenmap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODELS = 6, MOST_TENSORS = 64, LARGEST_READ = 1 << 20 };

typedef struct open_model {
    tenmap_model *model;
    unsigned char *bytes; /* of one in memory */
} open_model;

static open_model models[MODELS];
char random_folder[4096];
static long refused, done, found;

static void find(const char *what) {
    fprintf(stderr, "random_calls: %s\n", what);
    found++;
}

/* Checks what must hold for every call. */
static tenmap_status judge(tenmap_status status, const tenmap_error *error) {
    if (status == TENMAP_OK) {
        done++;
        return status;
    }
    refused++;
    if (status < 0 || status > TENMAP_ERR_CANCELLED)
        find("a status that is none");
    if (error->status != status || !error->message[0] ||
        !memchr(error->message, 0, sizeof error->message))
        find("an error without words");
    return status;
}

/* The error of the next call, filled with values that must not be read. */
static tenmap_error *fresh_error(void) {
    static tenmap_error error;
    memset(&error, 0x5a, sizeof error);
    return &error;
}

/* Paths. */

static const char *const names[] = {"a.safetensors",
                                    "b.safetensors",
                                    "g.gguf",
                                    "q",
                                    "q/model.safetensors",
                                    "s",
                                    "s/model.safetensors.index.json",
                                    "s/model.safetensors",
                                    "p-00001-of-00003.gguf",
                                    "p-00002-of-00003.gguf",
                                    "w.safetensors",
                                    ".",
                                    "none",
                                    "q/config.json"};

static const char *some_path(void) {
    static char paths[8][sizeof random_folder + 64];
    static unsigned next;
    char *out = paths[next++ % 8];
    snprintf(out, sizeof paths[0], "%s/%s", random_folder,
             names[draw(sizeof names / sizeof names[0])]);
    return out;
}

/* Files are replaced whole, because mappings would not survive anything else. */
static void put_file(const char *name, made_file file) {
    char path[sizeof random_folder + 64], temp[sizeof random_folder + 64];
    snprintf(path, sizeof path, "%s/%s", random_folder, name);
    snprintf(temp, sizeof temp, "%s/temp", random_folder);
    FILE *f = fopen(temp, "wb");
    if (!f || fwrite(file.bytes, 1, file.size, f) != file.size || fclose(f) != 0 ||
        rename(temp, path) != 0)
        find("a file could not be written");
    free(file.bytes);
}

static void make_files(void) {
    unsigned parts = 1 + (unsigned)draw(3);
    switch (draw(6)) {
    case 0:
        put_file("a.safetensors", make_safetensors("", draw(3) == 0));
        break;
    case 1:
        put_file("b.safetensors", make_safetensors(draw(2) ? "other." : "", draw(4) == 0));
        break;
    case 2:
        put_file("g.gguf", make_gguf(0, 0));
        break;
    case 3:
        put_file("q/model.safetensors", make_quantized());
        put_file("q/config.json", make_config());
        break;
    case 4:
        for (unsigned i = 0; i < parts; i++) {
            char name[32];
            snprintf(name, sizeof name, "p-%05u-of-00003.gguf", i + 1);
            put_file(name, make_gguf(i, 3));
        }
        break;
    default:
        if (draw(4) == 0)
            (void)unlink(some_path());
    }
}

/* Models. */

static open_model *some_model(void) {
    return &models[draw(MODELS)];
}

static const tenmap_tensor *tensor_of(const tenmap_model *m) {
    size_t count = tenmap_count(m);
    const tenmap_tensor *t = count ? tenmap_at(m, draw(count)) : NULL;
    return t && draw(4) == 0 && tenmap_part_at(t, 0) ? tenmap_part_at(t, (uint32_t)draw(3)) : t;
}

static const tenmap_tensor *some_tensor(void) {
    return tensor_of(some_model()->model);
}

static void close_one(open_model *m) {
    tenmap_close(m->model);
    free(m->bytes);
    *m = (open_model){NULL, NULL};
}

/* Uses every inspection call. */
static uint64_t look_at(const tenmap_model *m) {
    uint64_t sum = tenmap_file_size(m) + strlen(tenmap_path(m)) + strlen(tenmap_folder(m));
    for (size_t i = 0; i <= tenmap_count(m); i++) {
        const tenmap_tensor *t = tenmap_at(m, i), *w = tenmap_at_written(m, i);
        if ((t == NULL) != (i == tenmap_count(m)) || (w == NULL) != (t == NULL))
            find("tensors are not as many as they are");
        if (!t)
            break;
        if (strlen(t->name) > t->name_len || tenmap_find_n(m, t->name, t->name_len) != t)
            find("a tensor is not found by its name");
        const tenmap_scheme *s = tenmap_scheme_of(t);
        for (uint32_t p = 0; p < s->part_count; p++)
            sum += tenmap_part_at(t, p)->nbytes + tenmap_part_role(t, p);
        for (uint32_t axis = 0; tenmap_strides(t) && axis < t->rank; axis++)
            sum += tenmap_strides(t)[axis];
        if (tenmap_packing_of(t))
            sum += tenmap_packing_of(t)->rows;
        tenmap_quantized weight;
        if (tenmap_quantized_of(t, &weight))
            for (uint32_t p = 0; p < weight.part_count; p++)
                sum += weight.parts[p]->nbytes + weight.values;
        sum += t->nbytes + strlen(tenmap_dtype_text(t)) + tenmap_shard_at(m, t->shard)->size;
    }
    for (size_t i = 0; i < tenmap_metadata_count(m); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(m, i);
        tenmap_value value, element;
        char text[16];
        tenmap_metadata_value(pair, &value);
        while (tenmap_value_next(&value, &element))
            sum += tenmap_value_text(&element, text, draw(sizeof text + 1));
        sum += strlen(pair->value) + (tenmap_metadata_get(m, pair->key) != NULL);
    }
    for (size_t i = 0; i < tenmap_listed_count(m); i++)
        sum += strlen(tenmap_shard_listed(m, tenmap_listed_at(m, i)));
    for (size_t i = 0; i < tenmap_missing_count(m); i++)
        sum += strlen(tenmap_missing_at(m, i));
    return sum;
}

/* Opening. */

static const tenmap_options *some_options(void) {
    static tenmap_options options;
    static const uint32_t flags[] = {1, 2, 4, 8, 16, 32, 256, 512, 1024, 2048, 4096, 64};
    options = (tenmap_options)TENMAP_OPTIONS_INIT;
    if (draw(8) == 0)
        return NULL;
    options.backend = draw(12) ? (uint32_t)draw(2) : (uint32_t)draw(4);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (draw(i == 11 ? 40 : 4) == 0)
            options.flags |= flags[i];
    options.threads = (uint32_t)(draw(4) ? draw(4) : draw_size());
    options.max_header_bytes = draw(6) ? 0 : draw_size();
    if (draw(8) == 0)
        options.offset = draw_size();
    if (draw(8) == 0)
        options.length = draw_size();
    if (draw(40) == 0)
        options.struct_size = (size_t)draw_size();
    if (options.struct_size > sizeof options && options.struct_size <= 4096)
        options.struct_size = sizeof options;
    if (draw(4) == 0)
        options.io = some_io();
    return &options;
}

static made_file some_file(void) {
    switch (draw(3)) {
    case 0:
        return make_safetensors("", draw(3) == 0);
    case 1:
        return make_gguf(0, draw(6) ? 0 : 2);
    default:
        return make_quantized();
    }
}

static void call_open(void) {
    open_model *m = some_model();
    const tenmap_options *options = some_options();
    tenmap_error *error = fresh_error();
    const char *paths[4];
    close_one(m);
    for (size_t i = 0; i < 4; i++)
        paths[i] = draw(30) ? some_path() : i ? paths[0] : some_path();
    switch (draw(5)) {
    case 0: {
        made_file file = some_file();
        m->bytes = file.bytes;
        (void)judge(tenmap_open_memory(file.bytes, file.size, options, &m->model, error), error);
        break;
    }
    case 1: {
        int fd = open(some_path(), O_RDONLY | O_CLOEXEC);
        (void)judge(tenmap_open_fd(fd, options, &m->model, error), error);
        if (fd >= 0)
            close(fd);
        break;
    }
    case 2:
        (void)judge(tenmap_open_list(paths, draw(5), options, &m->model, error), error);
        break;
    default:
        (void)judge(tenmap_open(paths[0], options, &m->model, error), error);
    }
    (void)look_at(m->model);
}

static void take_finding(void *ctx, const tenmap_finding *finding) {
    *(uint64_t *)ctx += strlen(finding->message) + (finding->tensor ? strlen(finding->tensor) : 0);
    if (draw(20) == 0)
        call_back();
}

static void call_check(void) {
    uint64_t sum = 0;
    tenmap_error *error = fresh_error();
    (void)judge(tenmap_check(some_path(), some_options(), take_finding, &sum, error), error);
}

/* Reading. */

/* Memory of exactly so many bytes; NULL now and then. */
static void *room_for(size_t bytes) {
    return draw(30) ? malloc(bytes ? bytes : 1) : NULL;
}

/* Usually the bytes of a tensor; otherwise a random size. */
static size_t some_bytes(const tenmap_tensor *t) {
    uint64_t bytes = draw(4) ? (t ? t->nelems * 8 : 8) : draw_size();
    return bytes > LARGEST_READ ? (size_t)draw(LARGEST_READ) : (size_t)bytes;
}

/* A block inside of the tensor, mostly. */
static void some_block(const tenmap_tensor *t, uint64_t *begin, uint64_t *end) {
    for (uint32_t d = 0; t && d < t->rank && d < 8; d++) {
        begin[d] = draw(t->shape[d] + 1);
        end[d] = begin[d] + draw(t->shape[d] - begin[d] + 1);
        if (draw(30) == 0)
            *(draw(2) ? begin : end) = draw_size();
    }
}

static void call_read(void) {
    const tenmap_tensor *t = some_tensor();
    uint64_t begin[8] = {0}, end[8] = {0};
    tenmap_error *error = fresh_error();
    size_t bytes = some_bytes(t);
    void *dst = room_for(bytes);
    uint64_t first = draw(3) ? 0 : draw_size(), count = t && draw(3) ? t->nelems : draw_size();
    tenmap_dtype as = draw(4) ? (draw(2) ? TENMAP_F32 : TENMAP_AS_STORED) : (tenmap_dtype)draw(110);
    uint32_t flags = draw(3) ? 0 : (uint32_t)draw(9);
    some_block(t, begin, end);
    if (!dst)
        bytes = draw(2) ? 0 : bytes;
    if (!t)
        (void)tenmap_view(NULL, as, error);
    else if (t->rank > 8 || draw(2))
        (void)judge(tenmap_read(t, first, count, as, dst, bytes, flags, error), error);
    else if (draw(2))
        (void)judge(tenmap_read_slice(t, begin, end, as, dst, bytes, flags, error), error);
    else if (draw(2))
        (void)judge(tenmap_read_bytes(t, first, draw(2) ? bytes : 0, dst, error), error);
    else
        (void)judge(
            tenmap_read_as(t, (tenmap_dtype)draw(110), first, count, as, dst, bytes, flags, error),
            error);
    if (t)
        (void)tenmap_view(t, draw(2) ? t->dtype : TENMAP_AS_STORED, draw(2) ? error : NULL);
    free(dst);
}

/* Callbacks that read from the model in use, and cancel. */

static int cancel_now_and_then(void *ctx, uint64_t so_far, uint64_t total) {
    const tenmap_tensor *t = ctx;
    unsigned char byte;
    tenmap_error error;
    if (so_far > total)
        find("more is done than there is");
    if (t && t->nbytes)
        (void)tenmap_read_bytes(t, 0, 1, &byte, &error);
    if (draw_shared(20) == 0)
        call_back();
    return draw_shared(10) == 0;
}

static void take_done(void *ctx, size_t request, tenmap_status status) {
    const tenmap_tensor *t = ctx;
    tenmap_error error;
    (void)request;
    if (status == TENMAP_OK && t && draw_shared(4) == 0)
        (void)tenmap_view(t, TENMAP_AS_STORED, &error);
}

static const tenmap_load_options *some_load_options(const tenmap_tensor *t) {
    static tenmap_load_options options;
    options = (tenmap_load_options)TENMAP_LOAD_OPTIONS_INIT;
    if (draw(6) == 0)
        return NULL;
    options.threads = (uint32_t)(draw(6) ? draw(4) : draw_size());
    options.flags = draw(30) ? (uint32_t)draw(4) : (uint32_t)draw_size();
    if (draw(2))
        options.progress = cancel_now_and_then;
    if (draw(2))
        options.done = take_done;
    options.ctx = (void *)(uintptr_t)t;
    return &options;
}

static void call_load(void) {
    enum { MOST = 6 };
    tenmap_request requests[MOST];
    uint64_t begin[MOST][8], end[MOST][8];
    tenmap_error *error = fresh_error();
    const tenmap_model *m = some_model()->model;
    size_t count = draw(MOST + 1);
    memset(begin, 0, sizeof begin);
    memset(end, 0, sizeof end);
    memset(requests, 0, sizeof requests);
    for (size_t i = 0; i < count; i++) {
        tenmap_request *r = &requests[i];
        r->tensor = draw(10) ? tensor_of(m) : some_tensor();
        r->as = draw(3) ? (draw(2) ? TENMAP_F32 : TENMAP_AS_STORED) : (tenmap_dtype)draw(110);
        r->flags = draw(4) ? 0 : (uint32_t)draw(9);
        r->stored_as = draw(6) ? TENMAP_AS_STORED : (tenmap_dtype)draw(110);
        r->dst_bytes = some_bytes(r->tensor);
        r->dst = room_for(r->dst_bytes);
        if (!r->dst)
            r->dst_bytes = 0;
        r->dst_stride = draw(4) ? 0 : draw_size();
        if (draw(2) && r->tensor && r->tensor->rank <= 8) {
            some_block(r->tensor, begin[i], end[i]);
            r->begin = begin[i];
            r->end = draw(30) ? end[i] : NULL;
        }
    }
    (void)judge(tenmap_load(draw(2) ? m : NULL, draw(40) ? requests : NULL, count,
                            some_load_options(tensor_of(m)), error),
                error);
    for (size_t i = 0; i < count; i++)
        free(requests[i].dst);
}

enum { WANT_BYTES = 1000 };

/* A block of the tensor, and a destination that may be too small. */
static void draw_want_fields(tenmap_want *want, const tenmap_tensor *t, unsigned char *dst,
                             uint64_t (*block)[8]) {
    want->numbers = draw(8) ? 0 : (uint32_t)draw(4);
    want->layer = want->numbers ? (uint32_t)draw_size() : 0;
    want->dst = draw(2) ? dst : NULL;
    want->dst_bytes = want->dst || draw(20) == 0 ? (size_t)draw(WANT_BYTES + 1) : 0;
    if (draw(2) || t->rank > 8)
        return;
    some_block(t, block[0], block[1]);
    want->begin = block[0];
    want->end = draw(20) ? block[1] : NULL;
    want->rank = draw(8) ? t->rank : 0;
}

static void call_take(void) {
    enum { MOST = 5 };
    static const char *const wanted[] = {"t0", "t%u", "gone", "m.weight", "x.weight", "%u%u", ""};
    tenmap_want wants[MOST];
    tenmap_arena *arena = NULL;
    tenmap_error *error = fresh_error();
    const tenmap_model *m = some_model()->model;
    size_t count = draw(MOST + 1);
    static unsigned char dst[MOST][WANT_BYTES];
    uint64_t blocks[MOST][2][8] = {{{0}}};
    memset(wants, 0, sizeof wants);
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tensor_of(m);
        wants[i].name = t && draw(3) ? t->name : draw(30) ? wanted[draw(7)] : NULL;
        wants[i].as = draw(2) ? TENMAP_AS_STORED : draw(2) ? TENMAP_F32 : (tenmap_dtype)draw(110);
        wants[i].flags = (draw(2) ? TENMAP_WANT_OPTIONAL : 0) | (draw(3) ? 0 : TENMAP_WANT_COPY);
        if (draw(6) == 0)
            wants[i].flags |= TENMAP_WANT_LAYER(draw_size());
        wants[i].alignment = draw(4) ? 0 : 1u << draw(24);
        if (t && draw(4) == 0) {
            wants[i].shape = t->shape;
            wants[i].rank = t->rank;
        }
        if (t && draw(4) == 0)
            draw_want_fields(&wants[i], t, dst[i], blocks[i]);
    }
    for (size_t takes = 1 + draw(3); takes > 0; takes--) {
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        const tenmap_load_options *given = some_load_options(tensor_of(m));
        tenmap_arena *before = arena;
        if (given)
            options = *given;
        options.append = before;
        if (judge(tenmap_take(m, wants, count, before ? &options : given, &arena, error), error))
            arena = before; /* it was NULL after a failure */
        else if (before && arena != before)
            find("an appended arena that is another one");
    }
    tenmap_arena_free(arena);
}

static void call_measure(void) {
    enum { MOST = 8, BINS = 9 };
    const tenmap_tensor *tensors[MOST];
    tenmap_stats stats[MOST];
    uint64_t histogram[MOST * BINS];
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    tenmap_error *error = fresh_error();
    size_t count = draw(MOST + 1);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = some_tensor();
        if (tensors[i] && tensors[i]->nelems > LARGEST_READ && draw(50))
            tensors[i] = NULL;
        if (tensors[i] && tensors[i]->nelems > UINT64_C(1) << 40)
            tensors[i] = NULL;
    }
    options.threads = (uint32_t)draw(4);
    if (draw(2)) {
        options.bins = 1 + (uint32_t)draw(BINS);
        options.histogram = histogram;
        options.low = draw(2) ? -1 : 0;
        options.high = draw(2) ? 1 : 0;
    }
    if (draw(2)) {
        options.progress = cancel_now_and_then;
        options.ctx = NULL;
    }
    (void)judge(tenmap_measure(tensors, count, draw(6) ? &options : NULL, stats, error), error);
}

static void call_fingerprint(void) {
    tenmap_error *error = fresh_error();
    const tenmap_tensor *t = some_tensor();
    tenmap_fingerprint_options options = TENMAP_FINGERPRINT_OPTIONS_INIT;
    uint8_t out[32];
    if (t && t->nbytes > LARGEST_READ)
        t = NULL;
    options.threads = (uint32_t)draw(4);
    if (draw(2))
        options.progress = cancel_now_and_then;
    if (draw(2) && t)
        (void)judge(tenmap_fingerprint(t->model, 0, out, error), error);
    else
        (void)judge(tenmap_fingerprint_tensors(&t, 1, draw(6) ? &options : NULL, out, error),
                    error);
}

static void call_advise(void) {
    tenmap_error *error = fresh_error();
    const tenmap_model *m = some_model()->model;
    const tenmap_tensor *tensors[3] = {tensor_of(m), draw(10) ? tensor_of(m) : some_tensor(),
                                       tensor_of(m)};
    uint64_t bytes, first = draw(3) ? draw(5000) : draw_size();
    uint64_t range = draw(3) ? draw(5000) : draw_size();
    uint32_t advice = draw(20) ? 1 + (uint32_t)draw(5) : (uint32_t)draw_size();
    if (draw(3) == 0)
        (void)judge(tenmap_advise(m, tensors[0], advice, error), error);
    else if (draw(4) == 0)
        (void)judge(tenmap_advise_range(tensors[0], first, range, advice, error), error);
    else if (draw(8) == 0)
        (void)judge(tenmap_resident_range(tensors[0], first, range, &bytes, error), error);
    else if (draw(8) == 0)
        (void)judge(tenmap_cached_range(tensors[0], first, range, &bytes, error), error);
    else if (draw(2))
        (void)judge(tenmap_advise_list(m, tensors, draw(4), advice, error), error);
    else if (draw(2))
        (void)judge(tenmap_resident(m, tensors[0], &bytes, error), error);
    else
        (void)judge(tenmap_cached(m, tensors[0], &bytes, error), error);
}

static void call_detach(void) {
    tenmap_error *error = fresh_error();
    tenmap_model *m = some_model()->model;
    (void)judge(tenmap_detach(m, some_load_options(tensor_of(m)), error), error);
    (void)look_at(m);
}

/* Writing. */

static tenmap_source some_source(unsigned char *data, char *name, size_t room) {
    const tenmap_tensor *t = some_tensor();
    static const uint64_t shape[2] = {3, 5};
    tenmap_source s = {.tensor = draw(3) ? t : NULL, .name_len = TENMAP_CSTR};
    if (s.tensor && s.tensor->nbytes > LARGEST_READ)
        s.tensor = NULL;
    if (!s.tensor || draw(2)) {
        snprintf(name, room, "t%u", (unsigned)draw(draw(8) ? 40 : 3));
        s.name = name;
    }
    s.dtype = s.tensor && draw(2) ? TENMAP_AS_STORED
              : draw(2)           ? TENMAP_F32
                                  : 1 + (tenmap_dtype)draw(22);
    if (!s.tensor) {
        s.shape = shape;
        s.rank = (uint32_t)draw(3);
        s.data = draw(30) ? data : NULL;
    }
    s.flags = draw(3) ? 0 : (uint32_t)draw(9);
    return s;
}

static const tenmap_copy_options *some_copy_options(tenmap_losses *losses) {
    static tenmap_copy_options options;
    options = (tenmap_copy_options)TENMAP_COPY_OPTIONS_INIT;
    options.threads = (uint32_t)draw(4);
    if (draw(2))
        options.progress = cancel_now_and_then;
    if (draw(2))
        options.losses = losses;
    return draw(4) ? &options : NULL;
}

static void call_save(void) {
    enum { MOST = 12 };
    static unsigned char data[3 * 5 * 8];
    static const tenmap_edit pairs[2] = {{"k", TENMAP_CSTR, "v", TENMAP_CSTR, NULL},
                                         {"format", 6, "pt", 2, NULL}};
    tenmap_source sources[MOST];
    tenmap_losses losses[MOST];
    char given[MOST][16], path[sizeof random_folder + 8];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_error *error = fresh_error();
    size_t count = draw(MOST + 1);
    for (size_t i = 0; i < count; i++)
        sources[i] = some_source(data, given[i], sizeof given[i]);
    options.max_shard_bytes = draw(2) ? draw(200) : draw_size();
    options.data_alignment = draw(3) ? 0 : 1u << draw(23);
    options.header_slack = draw(4) ? (uint32_t)draw(3000) : (uint32_t)draw_size();
    options.flags = (uint32_t)draw(4);
    if (options.header_slack > 1 << 20)
        options.header_slack |= UINT32_C(1) << 31; /* refused, because a hundred MB take too long */
    options.metadata = pairs;
    options.metadata_count = draw(3);
    options.copy = some_copy_options(losses);
    snprintf(path, sizeof path, "%s/s", random_folder);
    (void)judge(tenmap_save_sharded(path, sources, count, draw(4) ? &options : NULL, error), error);
}

/* Runs one writer from its beginning to a commit or an abort. */
static void call_writer(void) {
    enum { MOST = 6 };
    static unsigned char data[3 * 5 * 8];
    tenmap_source sources[MOST];
    char given[MOST][16], path[sizeof random_folder + 16];
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *w = NULL;
    tenmap_error *error = fresh_error();
    size_t count = draw(MOST + 1), declared = 0;
    options.data_alignment = draw(3) ? 0 : 1u << draw(23);
    options.header_slack = (uint32_t)draw(3000);
    options.flags = (uint32_t)draw(4);
    snprintf(path, sizeof path, "%s/w.safetensors", random_folder);
    if (judge(tenmap_writer_create(path, &options, &w, error), error) != TENMAP_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        tenmap_source s = some_source(data, given[declared], sizeof given[0]);
        const tenmap_tensor *t = s.tensor;
        tenmap_dtype dtype = t && s.dtype == TENMAP_AS_STORED ? t->dtype : s.dtype;
        if (judge(tenmap_writer_add(w, t && !s.name ? t->name : s.name, TENMAP_CSTR, dtype,
                                    t ? t->shape : s.shape, t ? t->rank : s.rank, NULL, error),
                  error) == TENMAP_OK)
            sources[declared++] = s;
    }
    (void)judge(tenmap_writer_metadata(w, "k", draw(3), "value", draw(5), error), error);
    if (draw(4)) {
        tenmap_losses losses[MOST];
        (void)judge(tenmap_writer_copy_list(w, sources, declared, some_copy_options(losses), error),
                    error);
    } else {
        for (size_t i = 0; i < 4; i++)
            (void)judge(tenmap_writer_write(w, draw(declared + 1), draw(3) ? draw(60) : draw_size(),
                                            data, draw(sizeof data), error),
                        error);
        for (size_t i = 0; i < declared; i++)
            if (sources[i].tensor)
                (void)judge(tenmap_writer_copy(w, i, sources[i].tensor, 0, error), error);
    }
    if (draw(4))
        (void)judge(tenmap_writer_commit(w, error), error);
    else
        tenmap_writer_abort(w);
}

static void call_edit(void) {
    static const char *const texts[] = {"k", "format", "", "a longer text than the others are",
                                        "\xff"};
    tenmap_edit edits[3];
    tenmap_renaming renames[2];
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    tenmap_error *error = fresh_error();
    char new_names[2][16];
    const tenmap_model *m = some_model()->model;
    size_t count = draw(4), named = draw(3);
    uint32_t how;
    for (size_t i = 0; i < 3; i++)
        edits[i] = (tenmap_edit){draw(30) ? texts[draw(4)] : NULL, draw(9) ? TENMAP_CSTR : 0,
                                 draw(3) ? texts[draw(5)] : NULL, TENMAP_CSTR, NULL};
    for (size_t i = 0; i < 2; i++) {
        const tenmap_tensor *t = tensor_of(m);
        snprintf(new_names[i], sizeof new_names[i], "t%u", (unsigned)draw(20));
        renames[i] =
            (tenmap_renaming){t ? t->name : "t0", t ? t->name_len : 2, new_names[i], TENMAP_CSTR};
    }
    options.flags = (uint32_t)draw(16);
    switch (draw(3)) {
    case 0:
        (void)judge(tenmap_edit_metadata(some_path(), edits, count, &options, &how, error), error);
        break;
    case 1:
        (void)judge(tenmap_rename(some_path(), renames, named, edits, count, &options, &how, error),
                    error);
        break;
    default:
        (void)judge(tenmap_repair_metadata(some_path(), (uint32_t)draw(3), &how, error), error);
    }
}

static void call_convert(void) {
    tenmap_error *error = fresh_error();
    tenmap_dtype to = (tenmap_dtype)draw(110);
    tenmap_dtype from = draw(2) ? tenmap_dtype_from_ggml((uint32_t)draw(50)) : (uint32_t)draw(110);
    uint64_t count = draw(4) ? draw(600) : draw_size();
    size_t bytes = draw(4) ? 600 * 8 : (size_t)draw(600);
    tenmap_losses losses;
    void *dst = malloc(bytes + 1), *src = calloc(1, 600 * 16);
    uint32_t together = 1, size = 16;
    if (tenmap_dtype_block(from, &together, &size) && count > 600u * 16 / size * together)
        count = 600u * 16 / size * together;
    if (draw(2))
        draw_fill(src, 600 * 16);
    (void)judge(tenmap_convert_counted(to, dst, bytes, from, src, count, (uint32_t)draw(9),
                                       draw(2) ? &losses : NULL, error),
                error);
    free(dst);
    free(src);
}

int main(int count, char **arguments) {
    static void (*const calls[])(void) = {call_open,   call_open,    call_open,        call_read,
                                          call_read,   call_read,    call_load,        call_load,
                                          call_take,   call_measure, call_fingerprint, call_advise,
                                          call_detach, call_check,   call_save,        call_writer,
                                          call_edit,   call_edit,    call_convert,     make_files};
    long wanted = count > 1 ? atol(arguments[1]) : 4000;
    const char *temp = getenv("TMPDIR");
    draw_begin(count > 2 ? strtoull(arguments[2], NULL, 0) : 1);
    snprintf(random_folder, sizeof random_folder - 64, "%s/random-XXXXXX", temp ? temp : "/tmp");
    char path[sizeof random_folder + 8], command[sizeof random_folder + 16];
    if (!mkdtemp(random_folder))
        return 1;
    snprintf(path, sizeof path, "%s/q", random_folder);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/s", random_folder);
    (void)mkdir(path, 0700);
    for (int i = 0; i < 40; i++)
        make_files();
    for (long i = 0; i < wanted; i++)
        calls[draw(sizeof calls / sizeof calls[0])]();
    for (size_t i = 0; i < MODELS; i++)
        close_one(&models[i]);
    if (random_io_found() != 0)
        find("a tenmap_io was read outside of its objects, or some are still open");
    printf("%ld calls: %ld done, %ld refused, %ld found\n", wanted, done, refused, found);
    snprintf(command, sizeof command, "rm -rf '%s'", random_folder);
    return system(command) != 0 || found > 0;
}
