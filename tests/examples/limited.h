/*
 * For tests that run an example with little memory: a control group with a limit, if one can be
 * made, and the peak resident size of a run.
 */
#ifndef TENMAP_TESTS_LIMITED_H
#define TENMAP_TESTS_LIMITED_H

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

enum { MIB = 1 << 20 };

static char folder[4000], model[4096], group[256];

/* Removes the model and the control group; for atexit. */
static void clean(void) {
    if (model[0])
        unlink(model);
    rmdir(folder);
    if (group[0])
        rmdir(group);
}

static int give_up(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

/* Makes the folder, and the path of the model that the test writes there. */
static int make_place(void) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tenmap-limited-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder))
        return 0;
    atexit(clean);
    snprintf(model, sizeof model, "%s/m.safetensors", folder);
    return 1;
}

/* Opens the model's file and writes the JSON of its header. The data comes next. */
static FILE *begin_model(const char *json) {
    uint64_t length = strlen(json);
    FILE *out = fopen(model, "wb");
    for (int i = 0; out && i < 8; i++)
        putc((int)(length >> 8 * i & 0xff), out);
    if (out)
        fputs(json, out);
    return out;
}

/*
 * Writes the model to the disk and removes it from the page cache, because cached pages are charged
 * to the process that reads them first.
 */
static int end_model(FILE *out) {
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
static int make_group(uint64_t bytes) {
    static const char *const places[][2] = {{"/sys/fs/cgroup", "memory.max"},
                                            {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};
    char limit[32];
    snprintf(limit, sizeof limit, "%" PRIu64, bytes);
    for (size_t i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/tenmap-limited-%ld", places[i][0], (long)getpid());
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
static uint64_t run(char *const *arguments, int limited, char *said, size_t room) {
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
        execv(arguments[0], arguments);
        _exit(98);
    }
    close(pipes[1]);
    size_t length = 0;
    ssize_t got = child > 0 ? 1 : 0;
    while (got > 0 && length < room - 1)
        if ((got = read(pipes[0], said + length, room - 1 - length)) > 0)
            length += (size_t)got;
    said[length] = '\0';
    close(pipes[0]);
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
        fprintf(stderr, "the example ended with status 0x%x\n", (unsigned)status);
        return 0;
    }
    return (uint64_t)usage.ru_maxrss * 1024;
}

#endif
