/*
 * tenmap_load over the network compared with curl: loads all tensors of a model at an address over
 * N connections into memory that was used before, and fetches the same bytes by N curl processes,
 * an N-th each, and discards them.
 *
 *     bench_http ADDRESS ROUNDS CONNECTIONS
 *
 * Prints a line for each round, and the least time of both. bench/http.sh runs a server for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "timing.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenmap.h>
#include <tenmap_http.h>

enum { MOST = 64 };
extern char **environ;

typedef struct job {
    const char *address;
    unsigned connections;
    tenmap_io io;
    tenmap_model *model;
    tenmap_request *requests;
    size_t count;
    uint64_t bytes; /* of the file */
} job;

static int fail(const tenmap_error *error) {
    fprintf(stderr, "bench_http: %s\n", error->message);
    return 1;
}

static int start(job *j, tenmap_error *error) {
    tenmap_http_options http = TENMAP_HTTP_OPTIONS_INIT;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    http.connections = j->connections;
    options.io = &j->io;
    if (tenmap_http_create(&http, &j->io, error) != TENMAP_OK ||
        tenmap_open(j->address, &options, &j->model, error) != TENMAP_OK)
        return 1;
    j->count = tenmap_count(j->model);
    j->bytes = tenmap_file_size(j->model);
    j->requests = calloc(j->count, sizeof *j->requests);
    for (size_t i = 0; j->requests && i < j->count; i++) {
        const tenmap_tensor *t = tenmap_at(j->model, i);
        char *room = malloc((size_t)t->nbytes);
        if (!room)
            return 1;
        memset(room, 1, (size_t)t->nbytes);
        j->requests[i].tensor = t;
        j->requests[i].dst = room;
        j->requests[i].dst_bytes = (size_t)t->nbytes;
    }
    return j->requests ? 0 : 1;
}

static int load_once(job *j, uint64_t *ns, tenmap_error *error) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.threads = j->connections;
    uint64_t begun = now_ns();
    tenmap_status status = tenmap_load(j->model, j->requests, j->count, &options, error);
    *ns = now_ns() - begun;
    return status == TENMAP_OK ? 0 : 1;
}

/* One process for each part; all are waited for. */
static int curl_once(const job *j, uint64_t *ns) {
    pid_t children[MOST];
    unsigned started = 0;
    int failed = 0;
    uint64_t begun = now_ns(), each = j->bytes / j->connections;
    for (; started < j->connections; started++) {
        char range[64];
        uint64_t first = each * started,
                 last = started + 1 == j->connections ? j->bytes - 1 : first + each - 1;
        snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)first,
                 (unsigned long long)last);
        char *words[] = {(char *)"curl", (char *)"-sSf", (char *)"-o",       (char *)"/dev/null",
                         (char *)"-r",   range,          (char *)j->address, NULL};
        if (posix_spawnp(&children[started], "curl", NULL, NULL, words, environ) != 0)
            break;
    }
    failed = started < j->connections;
    while (started > 0) {
        int ended;
        failed |= waitpid(children[--started], &ended, 0) < 0 || ended != 0;
    }
    *ns = now_ns() - begun;
    return failed;
}

static int run(job *j, unsigned rounds, tenmap_error *error) {
    samples ours = {0}, theirs = {0}, ratios = {0};
    double gb = (double)j->bytes / 1e9;
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t mine, other;
        if (load_once(j, &mine, error) != 0)
            return fail(error);
        if (curl_once(j, &other) != 0) {
            fprintf(stderr, "bench_http: curl failed\n");
            return 1;
        }
        printf("round %u: tenmap_load %.2f GB/s, %u x curl %.2f GB/s\n", i + 1,
               gb / (double)mine * 1e9, j->connections, gb / (double)other * 1e9);
        fflush(stdout);
        /* The ratio of two consecutive runs, in thousandths: a busy machine affects both. */
        if (!samples_add(&ours, mine) || !samples_add(&theirs, other) ||
            !samples_add(&ratios, other * 1000 / mine))
            return 1;
    }
    double best = gb / (double)samples_min(&ours) * 1e9,
           peer = gb / (double)samples_min(&theirs) * 1e9;
    printf("best: tenmap_load %.2f GB/s, %u x curl %.2f GB/s, ratio %.2f; median of the rounds' "
           "ratios %.2f\n",
           best, j->connections, peer, best / peer, (double)samples_median(&ratios) / 1000);
    samples_free(&ours);
    samples_free(&theirs);
    samples_free(&ratios);
    return 0;
}

int main(int argc, char **argv) {
    tenmap_error error = {.status = TENMAP_OK};
    job j = {.address = argc > 3 ? argv[1] : NULL};
    if (argc != 4)
        return fprintf(stderr, "usage: bench_http ADDRESS ROUNDS CONNECTIONS\n"), 1;
    unsigned rounds = (unsigned)strtoul(argv[2], NULL, 10);
    j.connections = (unsigned)strtoul(argv[3], NULL, 10);
    if (j.connections < 1 || j.connections > MOST)
        return fprintf(stderr, "bench_http: 1 to 64 connections\n"), 1;
    int status = start(&j, &error);
    status = status ? fail(&error) : run(&j, rounds, &error);
    for (size_t i = 0; j.requests && i < j.count; i++)
        free(j.requests[i].dst);
    free(j.requests);
    tenmap_close(j.model);
    tenmap_http_destroy(&j.io);
    return status;
}
