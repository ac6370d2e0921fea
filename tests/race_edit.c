/*
 * Opens race with edits in place: one process changes the metadata of a file over and over, others
 * open it, and every open must return one header or the other, or report that an edit is running.
 * The two headers differ by one byte before long names, so that a mix of them breaks no rule but
 * has a wrong name.
 *
 *     race_edit [OPENS [HEADER-KIB]]
 *
 * Half of the opens are of a header that the quick pass reads, half of one that it does not; of
 * each, every other one is mapped. The folder is made in $TMPDIR. Exits with 1 if there was a mix.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tenmap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 900, READERS = 8 };

typedef struct tally {
    long opens, busy, mixes, errors;
} tally;

/* The names of all tensors, NAME bytes and a NUL each. */
static char *make_names(size_t count) {
    char *names = calloc(count, NAME + 1);
    for (size_t number = 0; names && number < count; number++) {
        char *name = names + number * (NAME + 1);
        for (size_t i = 0; i < NAME; i++)
            name[i] = (char)('a' + (i * 7 + number) % 26);
        for (size_t i = 8, n = number; i-- > 0; n /= 10)
            name[i] = (char)('0' + n % 10);
    }
    return names;
}

/* `count` tensors of one byte each; `space` is where the quick pass accepts none. */
static int make_file(const char *path, const char *names, size_t count, const char *space) {
    FILE *f = fopen(path, "wb");
    if (!f)
        return -1;
    fwrite("\0\0\0\0\0\0\0\0", 1, 8, f);
    fprintf(f, "{\"__metadata__\":{\"k\":\"x\"}");
    for (size_t i = 0; i < count; i++)
        fprintf(f, ",%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", space,
                names + i * (NAME + 1), i, i + 1);
    fprintf(f, "}   ");
    long length = ftell(f) - 8;
    for (size_t i = 0; i < count; i++)
        fputc(0, f);
    rewind(f);
    for (int i = 0; i < 8; i++)
        fputc((int)((unsigned long)length >> (8 * i) & 255), f);
    return fclose(f);
}

static void edit_until_killed(const char *path) {
    for (unsigned long turn = 0;; turn++) {
        tenmap_edit edit = {"k", 1, turn % 2 ? "x" : "xx", TENMAP_CSTR, NULL};
        tenmap_error error;
        uint32_t how;
        if (tenmap_edit_metadata(path, &edit, 1, NULL, &how, &error) != TENMAP_OK) {
            if (error.status == TENMAP_ERR_IO && strstr(error.message, "right now"))
                continue; /* a reader held the lock at that moment */
            fprintf(stderr, "race_edit: the editor: %s\n", error.message);
            _exit(3);
        }
        if (how != TENMAP_EDIT_IN_PLACE)
            _exit(4);
        nanosleep(&(struct timespec){0, (long)(turn * 7919 % 40) * 1000000}, NULL);
    }
}

static int is_mix(const tenmap_model *m, const char *names, size_t count) {
    const char *value = tenmap_metadata_get(m, "k");
    if (tenmap_count(m) != count || tenmap_metadata_count(m) != 1 || !value ||
        (strcmp(value, "x") != 0 && strcmp(value, "xx") != 0))
        return 1;
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        if (t->name_len != NAME || memcmp(t->name, names + i * (NAME + 1), NAME) != 0)
            return 1;
    }
    return 0;
}

static void open_once(const char *path, const char *names, size_t count, uint32_t backend,
                      tally *sum) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *m = NULL;
    tenmap_error error;
    options.backend = backend;
    tenmap_status status = tenmap_open(path, &options, &m, &error);
    sum->opens++;
    if (status == TENMAP_OK) {
        sum->mixes += is_mix(m, names, count);
    } else if (status == TENMAP_ERR_IO && strstr(error.message, "right now: try again")) {
        sum->busy++;
    } else {
        if (sum->errors++ == 0)
            fprintf(stderr, "race_edit: %s\n", error.message);
    }
    tenmap_close(m);
}

/* A reader's process: its tally goes through the pipe. */
static pid_t start_reader(const char *path, const char *names, size_t count, long opens, int to) {
    pid_t child = fork();
    if (child != 0)
        return child;
    tally sum = {0};
    for (long i = 0; i < opens; i++)
        open_once(path, names, count, i % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP, &sum);
    _exit(write(to, &sum, sizeof sum) != sizeof sum);
}

static int race(const char *folder, const char *what, const char *space, const char *names,
                size_t count, long opens) {
    char path[4096];
    int ends[2], status;
    tally sum = {0}, part;
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    if (make_file(path, names, count, space) != 0 || pipe(ends) != 0)
        return 2;
    pid_t editor = fork();
    if (editor == 0)
        edit_until_killed(path);
    for (int i = 0; i < READERS; i++)
        start_reader(path, names, count, opens / READERS, ends[1]);
    for (int i = 0; i < READERS && read(ends[0], &part, sizeof part) == sizeof part; i++) {
        sum.opens += part.opens;
        sum.busy += part.busy;
        sum.mixes += part.mixes;
        sum.errors += part.errors;
    }
    int died = waitpid(editor, &status, WNOHANG) != 0; /* it must run until it is told to end */
    if (!died) {
        kill(editor, SIGKILL);
        waitpid(editor, &status, 0);
    }
    while (wait(&status) > 0)
        ;
    close(ends[0]);
    close(ends[1]);
    printf("%s: %ld opens, %ld refused while an edit ran, %ld mixes, %ld other errors\n", what,
           sum.opens, sum.busy, sum.mixes, sum.errors);
    return died || sum.opens != opens / READERS * READERS || sum.mixes || sum.errors;
}

int main(int argc, char **argv) {
    long opens = argc > 1 ? atol(argv[1]) : 400;
    size_t count = (argc > 2 ? (size_t)atol(argv[2]) : 1024) * 1024 / (NAME + 60);
    const char *base = getenv("TMPDIR");
    char folder[4096], command[4200];
    snprintf(folder, sizeof folder, "%s/tenmap-race-XXXXXX", base ? base : "/tmp");
    char *names = make_names(count);
    if (!names || !mkdtemp(folder))
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = race(folder, "quick pass", "", names, count, opens / 2);
    failed |= race(folder, "slow pass", " ", names, count, opens / 2);
    free(names);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed;
}
