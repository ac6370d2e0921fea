/* bench: measures what this machine achieves on this model. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "open_model.h"
#include "view/json_out.h"
#include "view/measure_progress.h"
#include "view/print.h"
#include "remote/remote.h"
#include "view/progress.h"
#include "parallel_for.h"

typedef struct bench_settings {
    uint64_t size, rounds, threads;
    bool json;
} bench_settings;

#define AT(field) offsetof(bench_settings, field)
static const option bench_options[] = {
    {0, "size", "SIZE", OPTION_SIZE, AT(size),
     "Measure with this much of the model's tensors (1GB)"},
    {'n', "rounds", "N", OPTION_COUNT, AT(rounds),
     "Repeat each measurement N times and show the best (5)"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Use this many threads (as many as there are processors)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const bench_settings bench_defaults = {1000000000, 5, 0, false};

static const example bench_examples[] = {
    {"tenmap bench llama/", "open, populate, read, load, convert, measure"},
    {"tenmap bench --threads 1 --size 200MB model.safetensors", "on one thread"},
    {NULL, NULL},
};

/* What the steps operate on. */
typedef struct bench {
    const char *path;
    const bench_settings *set;
    tenmap_model *model;
    selection some; /* the first tensors, up to the given size */
    void *buffer;   /* for one tensor in F32, or as stored */
    size_t buffer_bytes;
    tenmap_stats *stats;
    uint64_t sums[64];
} bench;

/* One operation to time; returns an exit code. */
typedef int bench_step(bench *b);

static int step_open(bench *b) {
    tenmap_model *model;
    int status = open_model(b->path, &model);
    if (!status)
        tenmap_close(model);
    return status;
}

static int step_populate(bench *b) {
    tenmap_error error;
    if (tenmap_advise_list(b->model, b->some.tensors, b->some.count, TENMAP_ADVISE_RELEASE,
                           &error) != TENMAP_OK ||
        tenmap_advise_list(b->model, b->some.tensors, b->some.count, TENMAP_ADVISE_POPULATE,
                           &error) != TENMAP_OK)
        return fail_error(&error);
    return EXIT_FINE;
}

/* Sums the 64-bit words: the fastest way to touch all bytes. */
static int sum_tensor(void *ctx, size_t i) {
    enum { AT_ONCE = 8 };
    bench *b = ctx;
    size_t threads = b->set->threads ? (size_t)b->set->threads : default_threads();
    for (size_t k = 0; k < b->some.count; k++) {
        const tenmap_tensor *t = b->some.tensors[k];
        uint64_t words = t->nbytes / 8 / threads / AT_ONCE * AT_ONCE, sum[AT_ONCE] = {0};
        const unsigned char *at = (const unsigned char *)t->data + i * words * 8;
        for (uint64_t w = 0; w < words; w += AT_ONCE) {
            uint64_t eight[AT_ONCE];
            memcpy(eight, at + w * 8, sizeof eight);
            for (size_t j = 0; j < AT_ONCE; j++)
                sum[j] += eight[j];
        }
        for (size_t j = 0; j < AT_ONCE; j++)
            b->sums[i % 64] += sum[j];
    }
    return EXIT_FINE;
}

static int step_read(bench *b) {
    unsigned threads = b->set->threads ? (unsigned)b->set->threads : default_threads();
    return parallel_for(threads, threads, sum_tensor, b);
}

/*
 * Loads tensor after tensor into one buffer that stays in memory, so that its page faults are not
 * measured.
 */
static int load_as(bench *b, tenmap_dtype as) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error error;
    options.threads = (uint32_t)b->set->threads;
    for (size_t i = 0; i < b->some.count; i++) {
        const tenmap_tensor *t = b->some.tensors[i];
        tenmap_request request = {.tensor = t, .dst = b->buffer, .dst_bytes = b->buffer_bytes};
        request.as = t->dtype == TENMAP_C64 ? (tenmap_dtype)TENMAP_AS_STORED : as;
        if (tenmap_load(b->model, &request, 1, &options, &error) != TENMAP_OK)
            return fail_error(&error);
    }
    return EXIT_FINE;
}

static int step_load(bench *b) {
    return load_as(b, TENMAP_AS_STORED);
}

static int step_convert(bench *b) {
    return load_as(b, TENMAP_F32);
}

static int step_measure(bench *b) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    tenmap_error error;
    options.threads = (uint32_t)b->set->threads;
    if (tenmap_measure(b->some.tensors, b->some.count, &options, b->stats, &error) != TENMAP_OK)
        return fail_error(&error);
    return EXIT_FINE;
}

static const struct bench_line {
    const char *name, *what;
    bench_step *step;
    bool moves_bytes;
} lines[] = {
    {"open", "open and close the model", step_open, false},
    {"populate", "map what is in the page cache", step_populate, true},
    {"read", "add up the bytes where they are mapped", step_read, true},
    {"load", "copy tensors into memory, as stored", step_load, true},
    {"convert", "load tensors as F32", step_convert, true},
    {"measure", "min, max, mean, std and counts", step_measure, true},
};
enum { LINES = sizeof lines / sizeof lines[0], LINE_READ = 2 };

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best time of all rounds, in seconds. */
static int time_line(bench *b, size_t i, double *best) {
    for (uint64_t round = 0; round < b->set->rounds; round++) {
        double start = seconds_now();
        int status = lines[i].step(b);
        double took = seconds_now() - start;
        if (status)
            return status;
        *best = round == 0 || took < *best ? took : *best;
        progress_add(b->some.bytes);
    }
    return EXIT_FINE;
}

static void put_time(table *t, double seconds) {
    if (seconds < 1e-3)
        table_put(t, STYLE_NONE, "%.1f us", seconds * 1e6);
    else if (seconds < 1)
        table_put(t, STYLE_NONE, "%.2f ms", seconds * 1e3);
    else
        table_put(t, STYLE_NONE, "%.3f s", seconds);
}

static void print_bench(const bench *b, const double *times) {
    static const column columns[] = {{"STEP", false, false},
                                     {"TIME", true, false},
                                     {"GB/s", true, false},
                                     {"OF READ", true, false},
                                     {"WHAT", false, false}};
    text line = {0};
    table *t = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < LINES; i++) {
        table_put(t, STYLE_BOLD, "%s", lines[i].name);
        put_time(t, times[i]);
        if (lines[i].moves_bytes) {
            table_put(t, STYLE_NONE, "%.2f", (double)b->some.bytes / times[i] / 1e9);
            table_put(t, STYLE_NONE, "%.2f", times[LINE_READ] / times[i]);
        } else {
            table_put(t, STYLE_DIM, "-");
            table_put(t, STYLE_DIM, "-");
        }
        table_put(t, STYLE_DIM, "%s", lines[i].what);
    }
    table_print(t);
    table_free(t);
    text_add_bytes(&line, b->some.bytes);
    printf("%s in %zu tensors, %u threads, %s; the best of %llu\n", line.bytes, b->some.count,
           b->set->threads ? (unsigned)b->set->threads : default_threads(), tenmap_cpu_path(),
           (unsigned long long)b->set->rounds);
    text_free(&line);
}

static void print_bench_json(const bench *b, const double *times) {
    json_open('{', false);
    json_key_text("model", b->path, TENMAP_CSTR);
    json_key_uint("tensors", b->some.count);
    json_key_uint("bytes", b->some.bytes);
    json_key_uint("threads", b->set->threads ? b->set->threads : default_threads());
    json_key_text("cpu_path", tenmap_cpu_path(), TENMAP_CSTR);
    json_key("steps");
    json_open('[', false);
    for (size_t i = 0; i < LINES; i++) {
        json_open('{', true);
        json_key_text("step", lines[i].name, TENMAP_CSTR);
        json_key_real("seconds", times[i]);
        if (lines[i].moves_bytes)
            json_key_real("bytes_per_second", (double)b->some.bytes / times[i]);
        json_close();
    }
    json_close();
    json_close();
}

/* Takes the first tensors up to the given size, and a buffer for the largest of them in F32. */
static void choose_tensors(bench *b) {
    size_t kept = 0;
    uint64_t bytes = 0, largest = 0;
    drop_opaque(&b->some);
    while (kept < b->some.count && bytes < b->set->size) {
        const tenmap_tensor *t = b->some.tensors[kept++];
        uint64_t wide = t->nelems * 4 > t->nbytes ? t->nelems * 4 : t->nbytes;
        bytes += t->nbytes;
        largest = wide > largest ? wide : largest;
    }
    b->some.count = kept;
    b->some.bytes = bytes;
    b->buffer_bytes = (size_t)largest;
}

static int run_lines(bench *b) {
    double times[LINES] = {0};
    int status = EXIT_FINE;
    b->buffer = tenmap_alloc(b->buffer_bytes + 1);
    b->stats = need(b->some.count, sizeof *b->stats);
    if (!b->buffer)
        status = fail_memory();
    progress_begin("measuring", LINES * b->set->rounds * b->some.bytes);
    for (size_t i = 0; !status && i < LINES; i++)
        status = time_line(b, i, &times[i]);
    progress_end();
    if (!status && b->set->json)
        print_bench_json(b, times);
    else if (!status)
        print_bench(b, times);
    free(b->stats);
    tenmap_free(b->buffer);
    return status;
}

static int bench_run(const invocation *call) {
    bench b = {.path = call->operands[0], .set = call->settings};
    filter everything = {0};
    if (b.set->rounds == 0)
        return fail(EXIT_USAGE, "--rounds must be at least 1");
    if (is_address(b.path))
        return fail(
            EXIT_USAGE,
            "bench measures the memory and disks of this machine: download the model first");
    int status = open_model(b.path, &b.model);
    if (status)
        return status;
    status = select_tensors(b.model, &everything, &b.some);
    if (!status) {
        choose_tensors(&b);
        status =
            b.some.bytes ? run_lines(&b) : fail(EXIT_FAILED, "the model holds no data to read");
        selection_free(&b.some);
    }
    tenmap_close(b.model);
    return status;
}

const command cmd_bench = {
    .name = "bench",
    .summary = "Measure how fast this machine works on a model",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .options = bench_options,
    .details =
        "Each step is repeated and the best time counts, so the file is in the page cache in\n"
        "all but the first round. `read`, which adds up the bytes in the mapping, is the upper\n"
        "bound for the others. Rates count the bytes of the file, whatever is written.",
    .examples = bench_examples,
    .settings_size = sizeof(bench_settings),
    .defaults = &bench_defaults,
    .run = bench_run,
};
