/*
 * Time to the first tensor of a PyTorch checkpoint, and what a command takes.
 *
 *     bench_pytorch first FILE ROUNDS
 *     bench_pytorch run NAME COMMAND [ARGUMENT...]
 *
 * `first` opens FILE, finds its first tensor and reads one element, ROUNDS times. It prints
 * lines of NAME NANOSECONDS, the least of all rounds, and how many bytes of tensors an open alone
 * touched: in this process, and in the page cache, if the file could be dropped from it before.
 * `run` prints NAME, NANOSECONDS and the largest resident size in KiB. bench/pytorch.sh makes the
 * table.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "timing.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tenmap.h>
#include <unistd.h>

static int fail(const char *what) {
    fprintf(stderr, "bench_pytorch: %s\n", what);
    return 1;
}

/* Opens the file and reads one element; false with the error set. */
static bool read_first(const char *path, uint64_t *opened, tenmap_error *error) {
    static double element[4];
    tenmap_model *model = NULL;
    uint64_t begun = now_ns();
    if (tenmap_open(path, NULL, &model, error) != TENMAP_OK)
        return false;
    *opened = now_ns() - begun;
    const tenmap_tensor *first = tenmap_at_written(model, 0);
    bool done = first && tenmap_read(first, 0, 1, TENMAP_AS_STORED, element, sizeof element, 0,
                                     error) == TENMAP_OK;
    tenmap_close(model);
    return done;
}

/*
 * The bytes of tensors in the page cache, and in this process, after an open alone; false if the
 * file could not be dropped from the cache before.
 */
static bool touched_by_open(const char *path, uint64_t *cached, uint64_t *resident) {
    tenmap_model *model = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    fdatasync(fd);
    bool dropped = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    close(fd);
    bool counted = dropped && tenmap_open(path, NULL, &model, NULL) == TENMAP_OK &&
                   tenmap_resident(model, NULL, resident, NULL) == TENMAP_OK &&
                   tenmap_cached(model, NULL, cached, NULL) == TENMAP_OK;
    tenmap_close(model);
    return counted;
}

static int first(const char *path, int rounds) {
    uint64_t least = UINT64_MAX, least_open = UINT64_MAX, cached = 0, resident = 0;
    tenmap_error error = {.message = "no tensor"};
    for (int i = 0; i < rounds; i++) {
        uint64_t opened = 0, begun = now_ns();
        if (!read_first(path, &opened, &error))
            return fail(error.message);
        uint64_t took = now_ns() - begun;
        least = took < least ? took : least;
        least_open = opened < least_open ? opened : least_open;
    }
    printf("tenmap-open %" PRIu64 "\ntenmap-first %" PRIu64 "\n", least_open, least);
    if (touched_by_open(path, &cached, &resident))
        printf("tenmap-cached %" PRIu64 "\ntenmap-resident %" PRIu64 "\n", cached, resident);
    return 0;
}

static int run(const char *name, char **command) {
    struct rusage usage;
    int status = 0;
    uint64_t begun = now_ns();
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0)
        return fail("the command failed");
    printf("%s %" PRIu64 " %ld\n", name, now_ns() - begun, usage.ru_maxrss);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "first") == 0 && atoi(argv[3]) > 0)
        return first(argv[2], atoi(argv[3]));
    if (argc >= 4 && strcmp(argv[1], "run") == 0)
        return run(argv[2], argv + 3);
    return fail("usage: bench_pytorch first FILE ROUNDS | run NAME COMMAND [ARGUMENT...]");
}
