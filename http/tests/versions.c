/*
 * A file that is replaced by another version at any request (versions.py, which runs this program
 * and decides by a seed): what is read is all of the old version, all of the new one, or an error.
 * Never a mix.
 *
 *     versions.py versions [SCHEDULES [FIRST SEED]]
 */
#include "../tenmap_http.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, FILES = 3, PIECES = 5 };
static const char *base;
static unsigned schedules = 400, first_seed;
static atomic_uint old_bytes, new_bytes, errors, mixes, next_seed;

static unsigned char pattern(uint64_t i) {
    return (unsigned char)(i * 131 + (i >> 8) * 17 + (i >> 16));
}

/* What one schedule has read: whether a byte of each version came. */
typedef struct seen {
    bool versions[2], failed, strange;
    char message[256];
} seen;

static void look_at(seen *s, uint64_t at, const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        unsigned char other = bytes[i] ^ pattern(at + i);
        s->strange = s->strange || (other != 0 && other != 255);
        s->versions[other != 0] = true;
    }
}

/* One file of a schedule; threads of the same schedule open several. */
typedef struct job {
    const tenmap_io *io;
    char path[256];
    seen seen;
} job;

static void *read_file(void *ctx) {
    static const struct {
        uint64_t at;
        size_t bytes;
    } pieces[PIECES] = {{0, 100}, {131000, 10000}, {141000, 3000}, {144000, 3000}, {100000, 60001}};
    job *j = ctx;
    tenmap_error error = {.status = TENMAP_OK};
    void *file = NULL;
    uint64_t size = 0;
    unsigned char *room = malloc(70000);
    j->seen.failed = j->io->open(j->io->ctx, j->path, &file, &size, &error) != TENMAP_OK;
    for (size_t i = 0; room && file && !j->seen.failed && i < PIECES; i++) {
        j->seen.failed =
            j->io->read(j->io->ctx, file, pieces[i].at, room, pieces[i].bytes, &error) != TENMAP_OK;
        if (!j->seen.failed)
            look_at(&j->seen, pieces[i].at, room, pieces[i].bytes);
    }
    if (file)
        j->io->close(j->io->ctx, file);
    snprintf(j->seen.message, sizeof j->seen.message, "%.255s", error.message);
    free(room);
    return NULL;
}

/* The files of a model are read one after the other, or at the same time. */
static void read_files(job *jobs, size_t count, bool together) {
    pthread_t threads[FILES];
    for (size_t i = 0; i < count; i++)
        if (!together || pthread_create(&threads[i], NULL, read_file, &jobs[i]) != 0)
            read_file(&jobs[i]);
    for (size_t i = 0; together && i < count; i++)
        pthread_join(threads[i], NULL);
}

/* What the server says of the seed: "KIND, MARKS". */
static void kind_of(const tenmap_io *io, unsigned seed, char *out, size_t room) {
    char path[256];
    tenmap_error error;
    void *file;
    uint64_t size;
    memset(out, 0, room);
    snprintf(path, sizeof path, "%s/kind/%u/x", base, seed);
    if (io->open(io->ctx, path, &file, &size, &error) != TENMAP_OK)
        return;
    if (size < room)
        (void)io->read(io->ctx, file, 0, out, (size_t)size, &error);
    io->close(io->ctx, file);
}

static void count(const seen *all, const char *kind, unsigned seed) {
    if (all->strange || (all->versions[0] && all->versions[1])) {
        atomic_fetch_add(&mixes, 1);
        fprintf(stderr, "FAILED: seed %u (%s): %s\n", seed, kind,
                all->strange ? "bytes of no version" : "bytes of two versions");
    } else if (all->failed) {
        atomic_fetch_add(&errors, 1);
    } else {
        atomic_fetch_add(all->versions[1] ? &new_bytes : &old_bytes, 1);
    }
}

static bool run_schedule(unsigned seed) {
    tenmap_http_options options = TENMAP_HTTP_OPTIONS_INIT;
    tenmap_error error;
    tenmap_io io;
    char kind[64];
    job jobs[FILES];
    seen all = {.failed = false};
    options.endpoint = base;
    options.timeout_ms = 2500;
    options.retries = 4;
    if (tenmap_http_create(&options, &io, &error) != TENMAP_OK) {
        fprintf(stderr, "FAILED: %s\n", error.message);
        return false;
    }
    kind_of(&io, seed, kind, sizeof kind);
    bool model = strncmp(kind, "model", 5) == 0;
    size_t files = model ? FILES : 1;
    memset(jobs, 0, sizeof jobs);
    for (size_t i = 0; i < files; i++) {
        jobs[i].io = &io;
        if (model)
            snprintf(jobs[i].path, sizeof jobs[i].path, "hf://v/%u/%zu.bin", seed, i);
        else
            snprintf(jobs[i].path, sizeof jobs[i].path, "%s/first/%u/x", base, seed);
    }
    read_files(jobs, files, model && seed % 2);
    for (size_t i = 0; i < files; i++) {
        all.failed = all.failed || jobs[i].seen.failed;
        all.strange = all.strange || jobs[i].seen.strange;
        for (int v = 0; v < 2; v++)
            all.versions[v] = all.versions[v] || jobs[i].seen.versions[v];
    }
    count(&all, kind, seed);
    tenmap_http_destroy(&io);
    return true;
}

static void *run(void *ctx) {
    unsigned seed;
    (void)ctx;
    while ((seed = atomic_fetch_add(&next_seed, 1)) < first_seed + schedules)
        if (!run_schedule(seed))
            atomic_fetch_add(&mixes, 1);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    if (argc < 3)
        return 1;
    base = argv[1];
    schedules = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : schedules;
    first_seed = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    atomic_store(&next_seed, first_seed);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%u schedules: the old version %u, the new one %u, an error %u, a mix %u\n", schedules,
           old_bytes, new_bytes, errors, mixes);
    if (!old_bytes || !new_bytes || !errors)
        printf("FAILED: one of these never came\n");
    return mixes || !old_bytes || !new_bytes || !errors;
}
