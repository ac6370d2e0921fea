/*
 * Measures how long it takes to open a model, to find all its tensors by name in a shuffled order,
 * and to close it; and how much memory one open takes.
 *
 *     bench_open                         makes its files, measures all, prints a table
 *     bench_open make FOLDER             makes the files and lists them: PATH TENSORS HEADER_BYTES
 *     bench_open time FILE MILLISECONDS  measures one file for that long
 *     bench_open memory FILE WARM_FILE   opens one file once, in this process
 *
 * A model in several files is named by its index. The last two print the lines that bench/open.sh
 * collects from this program and its peers:
 *
 *     tenmap FILE time REPEATS and, for each of open, find, close and all, MIN_NS MEDIAN_NS
 *     tenmap FILE memory RESIDENT_BYTES PEAK_BYTES (added by the open)
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "model_files.h"
#include "temp_folder.h"
#include "timing.h"

#include <tenmap.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPEATS_AT_LEAST = 5, FILE_COUNT = 8 };
enum { STEP_OPEN, STEP_FIND, STEP_CLOSE, STEP_ALL, STEPS };

static const struct {
    const char *name;
    enum model_family family;
    size_t tensors;
    size_t shards; /* 0: one file; else the name is that of the index */
} model_files[FILE_COUNT] = {
    {"1.safetensors", MODEL_DEEPSEEK, 1, 0},
    {"291.safetensors", MODEL_LLAMA3_8B, MODEL_LLAMA3_8B_TENSORS, 0},
    {"1000.safetensors", MODEL_DEEPSEEK, 1000, 0},
    {"10000.safetensors", MODEL_DEEPSEEK, 10000, 0},
    {"93696.safetensors", MODEL_DEEPSEEK, 93696, 0},
    {"100000.safetensors", MODEL_DEEPSEEK, 100000, 0},
    {"93696.safetensors.index.json", MODEL_DEEPSEEK, 93696, 163}, /* as DeepSeek-V3 has */
    {"500000.safetensors.index.json", MODEL_DEEPSEEK, 500000,
     163}, /* as the largest indexes list */
};

/* The number of tensors; in a smoke run at most that of a Llama-3-8B. */
static size_t tensors_of(size_t i) {
    size_t tensors = model_files[i].tensors;
    return smoke_run() && tensors > MODEL_LLAMA3_8B_TENSORS ? MODEL_LLAMA3_8B_TENSORS : tensors;
}

static bool write_model_file(size_t i, const char *path, uint64_t *header_bytes) {
    enum model_family family = model_files[i].family;
    size_t tensors = tensors_of(i), shards = model_files[i].shards;
    return shards ? model_set_write(path, family, tensors, shards, header_bytes)
                  : model_file_write(path, family, tensors, header_bytes);
}

static tenmap_model *open_model(const char *path) {
    tenmap_model *model;
    tenmap_error error;
    if (tenmap_open(path, NULL, &model, &error) != TENMAP_OK)
        fprintf(stderr, "bench_open: %s\n", error.message);
    return model;
}

/*
 * The names in an order unrelated to the file's. They are in memory in that order, because a caller
 * has usually just made the name that it looks up.
 */
typedef struct name_list {
    const char **names;
    char *text;
    size_t count;
    uint64_t bytes; /* of all tensors together */
} name_list;

static void free_names(name_list *list) {
    free(list->names);
    free(list->text);
    *list = (name_list){NULL, NULL, 0, 0};
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void shuffle(const char **names, size_t count) {
    uint64_t state = 1;
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)(shuffle_next(&state) % i);
        const char *swapped = names[i - 1];
        names[i - 1] = names[j];
        names[j] = swapped;
    }
}

/* Copies the names, which belong to the model until now, into the list's own text. */
static bool own_names(name_list *list) {
    size_t size = 1, used = 0;
    for (size_t i = 0; i < list->count; i++)
        size += strlen(list->names[i]) + 1;
    list->text = malloc(size);
    for (size_t i = 0; list->text && i < list->count; i++) {
        char *copy = list->text + used;
        used += strlen(list->names[i]) + 1;
        strcpy(copy, list->names[i]);
        list->names[i] = copy;
    }
    return list->text != NULL;
}

static bool shuffled_names(const char *path, name_list *list) {
    tenmap_model *model = open_model(path);
    list->count = tenmap_count(model);
    list->names = calloc(list->count ? list->count : 1, sizeof *list->names);
    bool good = model && list->names;
    for (size_t i = 0; good && i < list->count; i++) {
        list->names[i] = tenmap_at(model, i)->name;
        list->bytes += tenmap_at(model, i)->nbytes;
    }
    if (good)
        shuffle(list->names, list->count);
    good = good && own_names(list);
    tenmap_close(model);
    return good;
}

/*
 * Times each step of one round. Each tensor that was found is accessed, as the reference does to
 * make a view. False if the file does not open or a name is not found.
 */
static bool time_once(const char *path, const name_list *list, uint64_t *took) {
    tenmap_model *model;
    const tenmap_tensor *tensor;
    uint64_t bytes = 0;
    uint64_t start = now_ns();
    if (tenmap_open(path, NULL, &model, NULL) != TENMAP_OK)
        return false;
    uint64_t opened = now_ns();
    for (size_t i = 0; i < list->count; i++)
        if ((tensor = tenmap_find(model, list->names[i])) != NULL)
            bytes += tensor->nbytes;
    uint64_t looked = now_ns();
    tenmap_close(model);
    uint64_t closed = now_ns();
    took[STEP_OPEN] = opened - start;
    took[STEP_FIND] = looked - opened;
    took[STEP_CLOSE] = closed - looked;
    took[STEP_ALL] = closed - start;
    return bytes == list->bytes;
}

typedef struct result {
    size_t repeats;
    uint64_t min[STEPS], median[STEPS];
} result;

static bool time_file(const char *path, uint64_t milliseconds, result *out) {
    name_list list = {NULL, NULL, 0, 0};
    samples steps[STEPS] = {{.count = 0}};
    bool good = shuffled_names(path, &list);
    uint64_t until = now_ns() + milliseconds * 1000000, took[STEPS];
    while (good && (now_ns() < until || steps[0].count < REPEATS_AT_LEAST)) {
        good = time_once(path, &list, took);
        for (int s = 0; good && s < STEPS; s++)
            good = samples_add(&steps[s], took[s]);
    }
    out->repeats = steps[0].count;
    for (int s = 0; s < STEPS; s++) {
        out->min[s] = samples_min(&steps[s]);
        out->median[s] = samples_median(&steps[s]);
        samples_free(&steps[s]);
    }
    free_names(&list);
    if (!good)
        fprintf(stderr, "bench_open: %s: a round failed\n", path);
    return good;
}

static bool print_time(const char *path, uint64_t milliseconds) {
    result r;
    if (!time_file(path, milliseconds, &r))
        return false;
    printf("tenmap %s time %zu", path, r.repeats);
    for (int s = 0; s < STEPS; s++)
        printf(" %" PRIu64 " %" PRIu64, r.min[s], r.median[s]);
    putchar('\n');
    return true;
}

/* A line of /proc/self/status in bytes; 0 if there is none. */
static uint64_t status_bytes(const char *field) {
    char line[256];
    unsigned long long kib = 0;
    size_t len = strlen(field);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, field, len) == 0 && line[len] == ':')
            kib = strtoull(line + len + 1, NULL, 10);
    if (status)
        fclose(status);
    return kib * 1024;
}

/* Resets the peak to what is resident now, if the kernel allows it. */
static void reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

/* A small model is opened first, so that the program's own pages are not counted. */
static bool print_memory(const char *path, const char *warm_path) {
    tenmap_model *warm = open_model(warm_path);
    tenmap_close(warm);
    (void)status_bytes("VmRSS");
    reset_peak();
    uint64_t before = status_bytes("VmRSS");
    tenmap_model *model = open_model(path);
    uint64_t after = status_bytes("VmRSS"), peak = status_bytes("VmHWM");
    tenmap_close(model);
    if (!warm || !model)
        return false;
    printf("tenmap %s memory %" PRIu64 " %" PRIu64 "\n", path, after > before ? after - before : 0,
           peak > before ? peak - before : 0);
    return true;
}

/* The peak of print_memory in a separate process; UINT64_MAX if that failed. */
static uint64_t memory_in_child(const char *path, const char *warm_path) {
    int ends[2];
    uint64_t peak = UINT64_MAX;
    fflush(stdout);
    if (pipe(ends) != 0)
        return peak;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        execl("/proc/self/exe", "bench_open", "memory", path, warm_path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    if (!answer || fscanf(answer, "%*s %*s %*s %*s %" SCNu64, &peak) != 1)
        peak = UINT64_MAX;
    if (answer)
        fclose(answer);
    if (child > 0)
        waitpid(child, NULL, 0);
    return peak;
}

static bool make_files(const char *folder) {
    char path[1024];
    uint64_t header_bytes;
    for (size_t i = 0; i < FILE_COUNT; i++) {
        int len = snprintf(path, sizeof path, "%s/%s", folder, model_files[i].name);
        if (len < 0 || (size_t)len >= sizeof path || !write_model_file(i, path, &header_bytes))
            return false;
        printf("%s %zu %" PRIu64 "\n", path, tensors_of(i), header_bytes);
    }
    return true;
}

static void print_row(size_t tensors, uint64_t header_bytes, const result *r, uint64_t peak) {
    static const char *const words[STEPS] = {"open", "find", "close", "all"};
    for (int s = 0; s < STEPS; s++) {
        printf("%8zu %10" PRIu64 "  %-5s %12" PRIu64 " %12" PRIu64 " %10.1f %10.1f", tensors,
               header_bytes, words[s], r->min[s], r->median[s], (double)r->min[s] / (double)tensors,
               (double)r->median[s] / (double)tensors);
        if (s == STEP_OPEN && peak != UINT64_MAX)
            printf(" %8.2f", (double)peak / (double)header_bytes);
        putchar('\n');
    }
}

static bool register_shards(size_t i) {
    char name[MODEL_SHARD_NAME];
    bool good = true;
    for (size_t s = 0; s < model_files[i].shards && good; s++) {
        model_shard_name(name, model_files[i].name, s, model_files[i].shards);
        good = temp_folder_file(name) != NULL;
    }
    return good;
}

/* Measures everything, with files that are removed afterwards. */
static bool measure_all(void) {
    const uint64_t milliseconds = smoke_run() ? 1 : 1000;
    const char *warm_path = NULL;
    if (!temp_folder_make())
        return false;
    printf("%8s %10s  %-5s %12s %12s %10s %10s %8s\n", "tensors", "header", "step", "min ns",
           "median ns", "ns/tensor", "median", "RSS/hdr");
    for (size_t i = 0; i < FILE_COUNT; i++) {
        const char *path = temp_folder_file(model_files[i].name);
        uint64_t header_bytes;
        result r;
        if (!path || !register_shards(i) || !write_model_file(i, path, &header_bytes) ||
            !time_file(path, milliseconds, &r))
            return false;
        if (!warm_path)
            warm_path = path;
        print_row(tensors_of(i), header_bytes, &r, memory_in_child(path, warm_path));
    }
    return true;
}

int main(int argc, char **argv) {
    bool good;
    if (argc == 1) {
        good = measure_all();
    } else if (argc == 3 && strcmp(argv[1], "make") == 0) {
        good = make_files(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "time") == 0) {
        good = print_time(argv[2], strtoull(argv[3], NULL, 10));
    } else if (argc == 4 && strcmp(argv[1], "memory") == 0) {
        good = print_memory(argv[2], argv[3]);
    } else {
        fputs("usage: bench_open [make FOLDER | time FILE MILLISECONDS | memory FILE WARM_FILE]\n",
              stderr);
        return 2;
    }
    return good && fflush(stdout) == 0 ? 0 : 1;
}
