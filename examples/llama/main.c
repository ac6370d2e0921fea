/*
 * A language model on tenmap: takes token ids and prints new ones.
 *
 *     llama FOLDER --ids 1,2,3 [-n 32] [--temperature T] [--seed S] [--eos ID] [--threads N]
 *           [--time]
 *
 * The folder is in the form that hubs use. The new ids are printed on one line as they are found:
 * always the likeliest one, or with a temperature above 0 a random draw.
 */
#define _POSIX_C_SOURCE 200809L
#include "llama.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct request {
    const char *folder, *logits; /* logits: a file for each step's logits, as F32; or NULL */
    uint64_t *ids;
    size_t count;
    uint64_t wanted, seed, threads, eos; /* without --eos, eos is larger than any id */
    double temperature, start;           /* start: of the process */
    int time;
} request;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Parses a whole number and moves *text past it; 0 if there is none. */
static int parse_number(char **text, uint64_t *out) {
    if (**text < '0' || **text > '9')
        return 0;
    *out = strtoull(*text, text, 10);
    return 1;
}

static int parse_ids(request *r, char *text) {
    free(r->ids);
    r->ids = calloc(strlen(text) / 2 + 1, sizeof *r->ids);
    for (r->count = 0; r->ids && parse_number(&text, &r->ids[r->count]); text++) {
        r->count++;
        if (*text != ',')
            return *text == 0;
    }
    return 0;
}

static int parse_option(request *r, const char *name, char *value) {
    uint64_t *number = strcmp(name, "-n") == 0          ? &r->wanted
                       : strcmp(name, "--seed") == 0    ? &r->seed
                       : strcmp(name, "--eos") == 0     ? &r->eos
                       : strcmp(name, "--threads") == 0 ? &r->threads
                                                        : NULL;
    if (number)
        return parse_number(&value, number) && *value == 0 && *number < INT64_MAX;
    if (strcmp(name, "--ids") == 0)
        return parse_ids(r, value);
    if (strcmp(name, "--logits") == 0)
        return (r->logits = value) != NULL;
    if (strcmp(name, "--temperature") != 0 || *value == 0)
        return 0;
    r->temperature = strtod(value, &value);
    return *value == 0 && r->temperature >= 0 && r->temperature < 1e6;
}

static int parse(request *r, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--time") == 0) {
            r->time = 1;
        } else if (argv[i][0] != '-' && !r->folder) {
            r->folder = argv[i];
        } else if (i + 1 < argc && parse_option(r, argv[i], argv[i + 1])) {
            i++;
        } else {
            fprintf(stderr, "llama: not understood: \"%s\"\n", argv[i]);
            return 0;
        }
    }
    return r->folder && r->count;
}

/* The next number of splitmix64, as a fraction between 0 and 1. */
static double chance(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return ((double)((z ^ z >> 31) >> 12) + 0.5) * 0x1p-52;
}

/*
 * The id of the largest logit. Gumbel noise turns that into a random draw. Returns n if no logit is
 * finite.
 */
static size_t choose(const float *logits, size_t n, double temperature, uint64_t *state) {
    double most = -INFINITY;
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        double logit = (double)logits[i];
        if (temperature > 0)
            logit -= temperature * log(-log(chance(state)));
        if (logit > most) {
            most = logit;
            best = i;
        }
    }
    return most < INFINITY ? best : n;
}

/* Prints up to `wanted` ids; each one is the input for the next. */
static int generate(request *r, session *s, FILE *logits_out, tenmap_error *error) {
    size_t vocabulary = s->model->config.vocabulary, made = 0;
    double first = r->start;
    for (uint64_t id = 0; made < r->wanted && (made == 0 || id != r->eos); made++) {
        const float *logits = made ? session_feed(s, &id, 1) : session_feed(s, r->ids, r->count);
        if (logits_out && fwrite(logits, sizeof *logits, vocabulary, logits_out) != vocabulary)
            return fail(error, "the logits could not be written");
        id = choose(logits, vocabulary, r->temperature, &r->seed);
        if (id == vocabulary)
            return fail(error, "the logits are not finite: some weights are not, or too large");
        printf(made ? " %" PRIu64 : "%" PRIu64, id);
        fflush(stdout);
        first = made ? first : now();
    }
    if (putchar('\n') == EOF || fflush(stdout) != 0)
        return fail(error, "the ids could not be written");
    if (r->time && made)
        fprintf(stderr, "first token: %.1f ms after the process started\n",
                (first - r->start) * 1e3);
    if (r->time && made > 1)
        fprintf(stderr, "then: %.2f tokens per second\n", (double)(made - 1) / (now() - first));
    return 1;
}

static int run(request *r, tenmap_error *error) {
    unsigned threads = r->threads ? (unsigned)r->threads : processors();
    llama_model model;
    session s = {0};
    FILE *logits = NULL;
    int good = model_load(&model, r->folder, threads, error);
    size_t ids = model.config.vocabulary;
    for (size_t i = 0; good && i < r->count; i++)
        if (r->ids[i] >= ids)
            good =
                fail(error, "id %" PRIu64 " is not in the vocabulary, which has ids from 0 to %zu",
                     r->ids[i], ids - 1);
    if (good && r->logits && !(logits = fopen(r->logits, "wb")))
        good = fail(error, "\"%s\" could not be opened for the logits", r->logits);
    good = good && session_begin(&s, &model, threads, r->count + r->wanted, error) &&
           generate(r, &s, logits, error);
    if (logits && fclose(logits) != 0 && good)
        good = fail(error, "\"%s\" could not be written", r->logits);
    session_end(&s);
    model_unload(&model);
    return good;
}

int main(int argc, char **argv) {
    /* The time to start the program counts too: the processor time used so far. */
    request r = {
        .start = now() - (double)clock() / CLOCKS_PER_SEC, .wanted = 32, .eos = UINT64_MAX};
    tenmap_error error;
    int status = 0;
    if (!parse(&r, argc, argv)) {
        fprintf(stderr, "usage: llama FOLDER --ids ID,... [-n COUNT] [--temperature T] [--seed S]\n"
                        "       [--eos ID] [--threads N] [--logits FILE] [--time]\n");
        status = 2;
    } else if (!run(&r, &error)) {
        fprintf(stderr, "llama: %s\n", error.message);
        status = 1;
    }
    free(r.ids);
    return status;
}
