/*
 * A language model on tenmap: ids in, ids out.
 *
 *     llama FOLDER --ids 1,2,3 [-n 32] [--temperature T] [--seed S] [--eos ID] [--threads N] [--time]
 *
 * The folder is as a hub has it. The new ids come on one line, as they are found: always the likeliest,
 * or drawn by chance with a temperature over 0.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "llama.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct request {
    const char *folder, *logits; /* logits: a file for those of each step, as F32; or NULL */
    uint32_t *ids;
    size_t count, wanted;
    float temperature;
    uint64_t seed;
    long eos; /* -1: none */
    unsigned threads;
    int time;
} request;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A whole number up to `most` and nothing else; 0 if it is none. */
static int parse_number(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9')
        return 0;
    *out = strtoull(text, &end, 10);
    return *end == 0 && *out <= most && strlen(text) < 20;
}

static int parse_ids(request *r, char *text) {
    size_t room = strlen(text) / 2 + 1;
    uint64_t id;
    free(r->ids);
    r->ids = calloc(room, sizeof *r->ids);
    r->count = 0;
    for (char *next = text; r->ids && next; r->ids[r->count++] = (uint32_t)id) {
        text = next;
        if ((next = strchr(text, ',')))
            *next++ = 0;
        if (!parse_number(text, UINT32_MAX, &id))
            return 0;
    }
    return r->ids != NULL;
}

static int parse_option(request *r, const char *name, char *value) {
    uint64_t number = 0;
    char *end = value;
    if (strcmp(name, "--ids") == 0)
        return parse_ids(r, value);
    if (strcmp(name, "--logits") == 0)
        return (r->logits = value) != NULL;
    if (strcmp(name, "--temperature") == 0) {
        r->temperature = strtof(value, &end);
        return end != value && *end == 0 && r->temperature >= 0 && r->temperature < 1e6f;
    }
    if (!parse_number(value, strcmp(name, "--seed") == 0 ? UINT64_MAX : INT32_MAX, &number))
        return 0;
    if (strcmp(name, "-n") == 0)
        r->wanted = (size_t)number;
    else if (strcmp(name, "--seed") == 0)
        r->seed = number;
    else if (strcmp(name, "--eos") == 0)
        r->eos = (long)number;
    else if (strcmp(name, "--threads") == 0)
        r->threads = number ? (unsigned)number : processors();
    else
        return 0;
    return 1;
}

static int parse(request *r, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--time") == 0) {
            r->time = 1;
        } else if (argv[i][0] != '-' && !r->folder) {
            r->folder = argv[i];
        } else if (i + 1 == argc || !parse_option(r, argv[i], argv[i + 1])) {
            fprintf(stderr, "llama: not understood: \"%s\"\n", argv[i]);
            return 0;
        } else {
            i++;
        }
    }
    return r->folder && r->count;
}

/* The next number of splitmix64, as a fraction from 0 to below 1. */
static float chance(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ z >> 31) >> 40) * 0x1p-24f;
}

/* The next id; -1 if the logits are not numbers. */
static long choose(const float *logits, size_t n, float temperature, uint64_t *state) {
    size_t best = 0;
    double sum = 0;
    for (size_t i = 1; i < n; i++)
        best = logits[i] > logits[best] || isnan(logits[best]) ? i : best;
    if (!isfinite(logits[best]))
        return -1;
    if (!(temperature > 0))
        return (long)best;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)((logits[i] - logits[best]) / temperature));
    double left = sum * (double)chance(state);
    for (size_t i = 0; i < n; i++)
        if ((left -= exp((double)((logits[i] - logits[best]) / temperature))) < 0)
            return (long)i;
    return (long)best;
}

/* Prints up to `wanted` ids; each goes back in for the next one. */
static int generate(request *r, session *s, size_t vocabulary, FILE *logits_out, double start,
                    tenmap_error *error) {
    const float *logits = session_feed(s, r->ids, r->count);
    double first = 0;
    size_t made = 0;
    long id = -1;
    while (made < r->wanted && (made == 0 || id != r->eos)) {
        if (logits_out && fwrite(logits, sizeof *logits, vocabulary, logits_out) != vocabulary)
            return fail(error, "the logits could not be written");
        id = choose(logits, vocabulary, r->temperature, &r->seed);
        if (id < 0)
            return fail(error,
                        "the logits are not finite: weights of the model are not, or too large");
        printf(made++ ? " %ld" : "%ld", id);
        fflush(stdout);
        first = made == 1 ? now() : first;
        if (made < r->wanted)
            logits = session_feed(s, &(uint32_t){(uint32_t)id}, 1);
    }
    putchar('\n');
    if (r->time)
        fprintf(stderr, "first token: %.1f ms after the process started\n", (first - start) * 1e3);
    if (r->time && made > 1)
        fprintf(stderr, "then: %.2f tokens per second\n", (double)(made - 1) / (now() - first));
    return 1;
}

static int run(request *r, double start, tenmap_error *error) {
    llama_model model;
    pool *threads = NULL;
    session *s = NULL;
    FILE *logits = NULL;
    int good = model_load(&model, r->folder, r->threads, error);
    for (size_t i = 0; good && i < r->count; i++)
        if (r->ids[i] >= model.config.vocabulary)
            good =
                fail(error, "id %" PRIu32 " is not in the vocabulary, which has ids from 0 to %zu",
                     r->ids[i], model.config.vocabulary - 1);
    if (good && r->logits && !(logits = fopen(r->logits, "wb")))
        good = fail(error, "\"%s\" could not be opened for the logits", r->logits);
    if (good && !(threads = pool_create(r->threads)))
        good = fail(error, "out of memory");
    good = good && (s = session_create(&model, threads, r->count + r->wanted, error)) != NULL &&
           generate(r, s, model.config.vocabulary, logits, start, error);
    if (logits && fclose(logits) != 0 && good)
        good = fail(error, "\"%s\" could not be written", r->logits);
    session_free(s);
    pool_free(threads);
    model_unload(&model);
    return good;
}

int main(int argc, char **argv) {
    /* What the system took to start the program counts: the processor time that is used up already. */
    double start = now() - (double)clock() / CLOCKS_PER_SEC;
    request r = {.wanted = 32, .eos = -1, .threads = processors()};
    tenmap_error error;
    int status = 0;
    if (!parse(&r, argc, argv)) {
        fprintf(stderr, "usage: llama FOLDER --ids ID,... [-n COUNT] [--temperature T] [--seed S]\n"
                        "       [--eos ID] [--threads N] [--logits FILE] [--time]\n");
        status = 2;
    } else if (!run(&r, start, &error)) {
        fprintf(stderr, "llama: %s\n", error.message);
        status = 1;
    }
    free(r.ids);
    return status;
}
