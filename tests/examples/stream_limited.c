/*
 * Runs examples/stream on a model of five times the memory that it may use, in a control group if
 * one can be made, and compares its peak resident size with two layers.
 *
 *     stream_limited PATH-OF-STREAM
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, LAYERS = 16, TENSORS = 2, TENSOR = 16 * MIB, LAYER = TENSORS * TENSOR };
enum { LIMIT = 100 * MIB, MODEL_OVER_LIMIT = LAYERS * LAYER / LIMIT };

static char folder[4000], model[4096], group[256];

static void clean(void) {
    if (model[0])
        unlink(model);
    rmdir(folder);
    if (group[0])
        rmdir(group);
}

static int give_up(const char *what) {
    fprintf(stderr, "stream_limited: %s: %s\n", what, strerror(errno));
    return 1;
}

/*
 * Writes real bytes to the disk and removes them from the page cache, because cached pages are
 * charged to the process that reads them first.
 */
static int write_layers(void) {
    static uint32_t bytes[MIB / 4];
    char json[LAYERS * TENSORS * 128] = "", *at = json;
    uint64_t end = 0;
    for (int i = 0; i < LAYERS * TENSORS; i++, end += TENSOR)
        at += sprintf(at,
                      "%s\"model.layers.%d.part%d\":{\"dtype\":\"BF16\",\"shape\":[%d],"
                      "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                      i ? "," : "{", i / TENSORS, i % TENSORS, TENSOR / 2, end, end + TENSOR);
    strcpy(at, "}");
    uint64_t length = strlen(json);
    FILE *out = fopen(model, "wb");
    if (!out)
        return 0;
    for (int i = 0; i < 8; i++)
        putc((int)(length >> 8 * i & 0xff), out);
    fputs(json, out);
    for (uint64_t i = 0; i < end / MIB; i++) {
        for (size_t k = 0; k < MIB / 4; k++)
            bytes[k] = (uint32_t)(i * 2654435761u + k * 40503u);
        fwrite(bytes, 1, MIB, out);
    }
    int good = fflush(out) == 0 && fsync(fileno(out)) == 0;
    (void)posix_fadvise(fileno(out), 0, 0, POSIX_FADV_DONTNEED);
    return fclose(out) == 0 && good;
}

static int put_text(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return good;
}

/* A group with the limit, of version 2 or 1; 0 if this process may not make one. */
static int make_group(void) {
    static const char *const places[][2] = {{"/sys/fs/cgroup", "memory.max"},
                                            {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};
    char limit[32];
    snprintf(limit, sizeof limit, "%d", LIMIT);
    for (size_t i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/tenmap-stream-%ld", places[i][0], (long)getpid());
        if (mkdir(group, 0755) == 0) {
            if (put_text(places[i][1], limit))
                return 1;
            rmdir(group);
        }
    }
    group[0] = '\0';
    return 0;
}

/* The peak resident size of a run in bytes; 0 if it failed. Its output goes to `said`. */
static uint64_t run(const char *program, int limited, char *said, size_t room) {
    int pipes[2], status = -1;
    struct rusage usage;
    if (pipe(pipes) != 0)
        return 0;
    pid_t child = fork();
    if (child == 0) {
        if (limited && !put_text("cgroup.procs", "0"))
            _exit(99);
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        execl(program, program, model, (char *)NULL);
        _exit(98);
    }
    close(pipes[1]);
    ssize_t got = child > 0 ? read(pipes[0], said, room - 1) : 0;
    said[got > 0 ? got : 0] = '\0';
    close(pipes[0]);
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
        fprintf(stderr, "stream_limited: the example ended with status 0x%x\n", (unsigned)status);
        return 0;
    }
    return (uint64_t)usage.ru_maxrss * 1024;
}

int main(int argc, char **argv) {
    char limited[512] = "", free_run[512];
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tenmap-stream-XXXXXX", base && *base ? base : "/tmp");
    if (argc != 2 || !mkdtemp(folder))
        return give_up("usage: stream_limited PATH-OF-STREAM");
    atexit(clean);
    snprintf(model, sizeof model, "%s/m.safetensors", folder);
    if (!write_layers())
        return give_up(model);
    int grouped = make_group();
    if (!grouped)
        printf("SKIPPED: no control group can be made here; only the peak is checked\n");
    uint64_t peak = run(argv[1], grouped, limited, sizeof limited);
    uint64_t other = run(argv[1], 0, free_run, sizeof free_run);
    double ratio = (double)peak / (2.0 * LAYER);
    printf("%speak %.1f MiB, %.2f of two layers; model %d MiB, limit %s\n", limited,
           (double)peak / MIB, ratio, LAYERS * LAYER / MIB, grouped ? "100 MiB" : "none");
    if (!peak || !other || ratio > 1.3 || MODEL_OVER_LIMIT < 4)
        return 1;
    const char *sum = strstr(limited, "sum "), *same = strstr(free_run, "sum ");
    return !sum || !same || strcmp(sum, same) != 0;
}
