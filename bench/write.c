/*
 * Writing compared with what the system can do with as many bytes in the same run: raw write() and
 * copy_file_range(), each with fsync. Rounds alternate, so that a slow moment of the disk affects
 * all; the least time of each counts. One line per measurement: name, bytes, nanoseconds.
 *     bench_write [--bytes N] [--edit-bytes N] [--rounds N] [--keep PATH]
 * --keep leaves a model for peers to read at PATH and measures nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "temp_folder.h"
#include "tenmap.h"
#include "timing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TENSOR_BYTES = 64 << 20, CHUNK = 8 << 20 };

static uint64_t total = UINT64_C(3) << 30, edit_total = UINT64_C(10) << 30;
static unsigned rounds = 3;
static unsigned char *data; /* TENSOR_BYTES of it, written again for each tensor */

static void stop(const char *what, const tenmap_error *error) {
    fprintf(stderr, "%s: %s\n", what, error ? error->message : "failed");
    exit(1);
}

static void check(bool good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* The system alone. */

/* Reserves the space first if asked to: the writer does so, and it can be much faster. */
static uint64_t raw_write(const char *path, bool reserve) {
    uint64_t start = now_ns();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    check(fd >= 0, path);
    if (reserve)
        (void)!fallocate(fd, 0, 0, (off_t)total);
    for (uint64_t at = 0; at < total; at += CHUNK)
        check(write(fd, data + at % TENSOR_BYTES, CHUNK) == CHUNK, "write");
    check(fsync(fd) == 0, "fsync");
    close(fd);
    return now_ns() - start;
}

static uint64_t raw_copy(const char *from_path, uint64_t offset, const char *path, bool reserve) {
    uint64_t start = now_ns();
    int from = open(from_path, O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    off_t in = (off_t)offset;
    check(from >= 0 && to >= 0, path);
    if (reserve)
        (void)!fallocate(to, 0, 0, (off_t)total);
    for (uint64_t left = total; left > 0;) {
        ssize_t n = copy_file_range(from, &in, to, NULL, left < 1 << 30 ? left : 1 << 30, 0);
        check(n > 0, "copy_file_range");
        left -= (uint64_t)n;
    }
    check(fsync(to) == 0, "fsync");
    close(from);
    close(to);
    return now_ns() - start;
}

/* The library. */

static tenmap_writer *begin(const char *path, uint64_t bytes, tenmap_dtype dtype) {
    tenmap_error error;
    tenmap_writer *w;
    uint64_t n = bytes * 8 / tenmap_dtype_bits(dtype);
    uint64_t each = (uint64_t)TENSOR_BYTES * 8 / tenmap_dtype_bits(TENMAP_F32);
    if (tenmap_writer_create(path, NULL, &w, &error) != TENMAP_OK)
        stop(path, &error);
    for (unsigned i = 0; n > 0; i++) {
        char name[32];
        uint64_t size = n < each ? n : each;
        snprintf(name, sizeof name, "layers.%04u.weight", i);
        if (tenmap_writer_add(w, name, TENMAP_CSTR, dtype, &size, 1, NULL, &error) != TENMAP_OK)
            stop(name, &error);
        n -= size;
    }
    return w;
}

static uint64_t our_write(const char *path, uint64_t bytes) {
    tenmap_error error;
    uint64_t start = now_ns();
    tenmap_writer *w = begin(path, bytes, TENMAP_F32);
    for (uint64_t at = 0; at < bytes; at += TENSOR_BYTES)
        if (tenmap_writer_write(w, (size_t)(at / TENSOR_BYTES), 0, data, TENSOR_BYTES, &error))
            stop("tenmap_writer_write", &error);
    if (tenmap_writer_commit(w, &error) != TENMAP_OK)
        stop("tenmap_writer_commit", &error);
    return now_ns() - start;
}

/* A line of /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *key) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            sscanf(line + strlen(key), ": %lu", &kb);
    if (f)
        fclose(f);
    return (uint64_t)kb * 1024;
}

static uint64_t our_copy(const char *from, const char *path, tenmap_dtype to, uint64_t *peak) {
    tenmap_error error;
    tenmap_model *m;
    uint64_t start = now_ns();
    if (tenmap_open(from, NULL, &m, &error) != TENMAP_OK)
        stop(from, &error);
    FILE *clear = fopen("/proc/self/clear_refs", "w"); /* the peak starts from here */
    if (clear) {
        fputs("5", clear);
        fclose(clear);
    }
    uint64_t before = status_bytes("VmRSS");
    tenmap_writer *w = begin(path, to == TENMAP_F32 ? total : total / 2, to);
    for (size_t i = 0; i < tenmap_count(m); i++)
        if (tenmap_writer_copy(w, i, tenmap_at(m, i), 0, &error) != TENMAP_OK)
            stop("tenmap_writer_copy", &error);
    uint64_t most = status_bytes("VmHWM");
    *peak = most > before ? most - before : 0;
    if (tenmap_writer_commit(w, &error) != TENMAP_OK)
        stop("tenmap_writer_commit", &error);
    tenmap_close(m);
    return now_ns() - start;
}

/* *how says which way was taken. */
static uint64_t our_edit(const char *path, const char *value, uint32_t flags, uint32_t *how) {
    tenmap_error error;
    tenmap_edit edit = {"note", TENMAP_CSTR, value, TENMAP_CSTR, NULL};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    options.flags = flags;
    uint64_t start = now_ns();
    if (tenmap_edit_metadata(path, &edit, 1, &options, how, &error) != TENMAP_OK)
        stop("tenmap_edit_metadata", &error);
    return now_ns() - start;
}

static void line(const char *name, uint64_t bytes, uint64_t ns) {
    printf("%s\t%llu\t%llu\n", name, (unsigned long long)bytes, (unsigned long long)ns);
    fflush(stdout);
}

static void least(uint64_t *best, uint64_t ns) {
    if (*best == 0 || ns < *best)
        *best = ns;
}

static void measure_writing(const char *model, const char *out) {
    enum { WAYS = 7 };
    static const char *const names[WAYS] = {"write raw",     "write reserved", "write tenmap",
                                            "copy raw",      "copy reserved",  "copy tenmap",
                                            "convert tenmap"};
    uint64_t t[WAYS] = {0}, peak = 0, most = 0;
    tenmap_model *m;
    our_write(model, total);
    if (tenmap_open(model, NULL, &m, NULL) != TENMAP_OK)
        stop(model, NULL);
    uint64_t offset = tenmap_shard_at(m, 0)->data_offset;
    tenmap_close(m);
    for (unsigned i = 0; i < rounds * WAYS; i++) {
        unsigned way = (i + i / WAYS) % WAYS; /* each round starts with another */
        unlink(out);
        least(&t[way], way < 2    ? raw_write(out, way == 1)
                       : way == 2 ? our_write(out, total)
                       : way < 5  ? raw_copy(model, offset, out, way == 4)
                       : way == 5 ? our_copy(model, out, TENMAP_F32, &peak)
                                  : our_copy(model, out, TENMAP_BF16, &peak));
        most = peak > most ? peak : most;
    }
    for (unsigned way = 0; way < WAYS; way++)
        line(names[way], way == WAYS - 1 ? total / 2 : total, t[way]);
    line("convert peak memory", most, 0);
    unlink(out);
}

static void measure_edits(const char *model) {
    uint64_t in_place = 0, rewrite = 0, cloned = 0;
    uint32_t how = 0;
    our_write(model, edit_total);
    (void)our_edit(model, "a first note", 0, &how); /* leaves room for the next edit */
    for (unsigned i = 0; i < rounds; i++) {
        least(&in_place, our_edit(model, i % 2 ? "one" : "two", 0, &how));
        if (how != TENMAP_EDIT_IN_PLACE)
            stop("the edit was not in place", NULL);
        uint64_t ns = our_edit(model, i % 2 ? "three" : "four", TENMAP_EDIT_NO_IN_PLACE, &how);
        if (how == TENMAP_EDIT_CLONED)
            least(&cloned, ns);
        else
            least(&rewrite, ns);
    }
    if (how == TENMAP_EDIT_CLONED)
        least(&rewrite,
              our_edit(model, "five", TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE, &how));
    line("edit in place", edit_total, in_place);
    if (cloned)
        line("edit cloned", edit_total, cloned);
    line("edit by rewriting", edit_total, rewrite);
}

int main(int argc, char **argv) {
    const char *keep = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--bytes") == 0)
            total = strtoull(argv[i + 1], NULL, 10) / TENSOR_BYTES * TENSOR_BYTES;
        else if (strcmp(argv[i], "--edit-bytes") == 0)
            edit_total = strtoull(argv[i + 1], NULL, 10) / TENSOR_BYTES * TENSOR_BYTES;
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--keep") == 0)
            keep = argv[i + 1];
    }
    data = malloc(TENSOR_BYTES);
    check(data != NULL, "malloc");
    for (size_t i = 0; i < TENSOR_BYTES / 4; i++) {
        float value = (float)(i % 1000) * 0.001f;
        memcpy(data + i * 4, &value, 4);
    }
    if (keep) {
        our_write(keep, total);
        return 0;
    }
    if (!temp_folder_make())
        return 1;
    const char *model = temp_folder_file("model.safetensors"), *out = temp_folder_file("out");
    if (!model || !out)
        return 1;
    if (total)
        measure_writing(model, out);
    if (edit_total)
        measure_edits(model);
    free(data);
    return 0;
}
