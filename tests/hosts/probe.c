/*
 * One call of the library, for shell scripts that prepare the place where it runs.
 *
 *     probe make PATH                a small model with room in its header
 *     probe open|read|check PATH     both backends; all bytes compared with what make wrote
 *     probe write PATH               the same model, by a writer
 *     probe large PATH MIB           a model with that much data
 *     probe edit PATH KEY VALUE [in-place|copy]   fails if it went another way
 *     probe value PATH KEY           its value
 *     probe repair PATH
 *     probe save FOLDER [MIB]        two shards and an index
 *     probe hold PATH                locks the file or folder, says "held" and waits for its end
 *
 * Prints TENMAP_OK, or the status and the message, and exits with 0 in either case, so that scripts
 * compare the output. Wrong bytes and wrong usage exit with 1.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tenmap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { SIZE = 1000 };
static unsigned char data[SIZE];

static int say(tenmap_status status, const tenmap_error *e) {
    printf("%s%s%s\n", tenmap_status_name(status), status ? ": " : "", status ? e->message : "");
    return 0;
}

static tenmap_status write_model(const char *path, uint64_t size, uint32_t slack, tenmap_error *e) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *w;
    options.header_slack = slack;
    tenmap_status status = tenmap_writer_create(path, &options, &w, e);
    if (status != TENMAP_OK)
        return status;
    status = tenmap_writer_metadata(w, "k", TENMAP_CSTR, "v", TENMAP_CSTR, e);
    if (status == TENMAP_OK)
        status = tenmap_writer_add(w, "t", TENMAP_CSTR, TENMAP_U8, &size, 1, NULL, e);
    for (uint64_t at = 0; status == TENMAP_OK && at < size; at += SIZE)
        status =
            tenmap_writer_write(w, 0, at, data, size - at < SIZE ? (size_t)(size - at) : SIZE, e);
    if (status == TENMAP_OK)
        return tenmap_writer_commit(w, e);
    tenmap_writer_abort(w);
    return status;
}

static int make(char **a, tenmap_error *e) {
    return say(write_model(a[0], SIZE, 500, e), e);
}

static int large(char **a, tenmap_error *e) {
    return say(write_model(a[0], strtoull(a[1], NULL, 10) << 20, 500, e), e);
}

static int open_with(const char *path, uint32_t backend, tenmap_error *e) {
    unsigned char found[SIZE];
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *m;
    options.backend = backend;
    tenmap_status status = tenmap_open(path, &options, &m, e);
    if (status == TENMAP_OK)
        status = tenmap_read_bytes(tenmap_find(m, "t"), 0, SIZE, found, e);
    if (status == TENMAP_OK && memcmp(found, data, SIZE) != 0)
        exit(1);
    tenmap_close(m);
    return say(status, e);
}

static int open_mapped(char **a, tenmap_error *e) {
    return open_with(a[0], TENMAP_BACKEND_MAP, e);
}

static int open_to_read(char **a, tenmap_error *e) {
    return open_with(a[0], TENMAP_BACKEND_READ, e);
}

static void show(void *ctx, const tenmap_finding *f) {
    (void)ctx;
    if (f->severity > TENMAP_FINDING_NOTE)
        printf("%s: %s\n", tenmap_found_name(f->code), f->message);
}

static int check(char **a, tenmap_error *e) {
    return say(tenmap_check(a[0], NULL, show, NULL, e), e);
}

static int edit(char **a, tenmap_error *e) {
    tenmap_edit one = {a[1], TENMAP_CSTR, a[2], TENMAP_CSTR, NULL};
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    uint32_t how = 0;
    if (a[3] && strcmp(a[3], "copy") == 0)
        options.flags = TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE;
    tenmap_status status = tenmap_edit_metadata(a[0], &one, 1, &options, &how, e);
    if (status == TENMAP_OK && a[3] &&
        how != (*a[3] == 'c' ? TENMAP_EDIT_COPIED : TENMAP_EDIT_IN_PLACE))
        printf("another way: %u ", (unsigned)how);
    return say(status, e);
}

static int value(char **a, tenmap_error *e) {
    tenmap_model *m;
    tenmap_status status = tenmap_open(a[0], NULL, &m, e);
    if (status != TENMAP_OK)
        return say(status, e);
    const char *text = tenmap_metadata_get(m, a[1]);
    printf("%s\n", text ? text : "(none)");
    tenmap_close(m);
    return 0;
}

static int repair(char **a, tenmap_error *e) {
    uint32_t how = 0;
    tenmap_status status = tenmap_repair_metadata(a[0], 0, &how, e);
    if (status == TENMAP_OK)
        printf("%s ", how == TENMAP_REPAIR_FINISHED ? "finished" : "nothing");
    return say(status, e);
}

static int save(char **a, tenmap_error *e) {
    uint64_t mib = a[1] ? strtoull(a[1], NULL, 10) : 0, size = mib ? mib << 20 : SIZE;
    unsigned char *bytes = calloc(1, size);
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_source sources[2] = {{.name = "t"}, {.name = "u"}};
    if (!bytes)
        return 1;
    memcpy(bytes, data, SIZE);
    for (int i = 0; i < 2; i++) {
        sources[i].name_len = TENMAP_CSTR;
        sources[i].data = bytes;
        sources[i].dtype = TENMAP_U8;
        sources[i].shape = &size;
        sources[i].rank = 1;
    }
    options.max_shard_bytes = size;
    tenmap_status status = tenmap_save_sharded(a[0], sources, 2, &options, e);
    free(bytes);
    return say(status, e);
}

static int hold(char **a, tenmap_error *e) {
    int fd = open(a[0], O_RDONLY);
    (void)e;
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        return 1;
    printf("held\n");
    fflush(stdout);
    pause();
    return 0;
}

static const struct {
    const char *name;
    int arguments;
    int (*run)(char **arguments, tenmap_error *e);
} commands[] = {{"make", 1, make},        {"write", 1, make},       {"large", 2, large},
                {"open", 1, open_mapped}, {"check", 1, check},      {"edit", 3, edit},
                {"value", 2, value},      {"repair", 1, repair},    {"save", 1, save},
                {"hold", 1, hold},        {"read", 1, open_to_read}};

int main(int count, char **arguments) {
    tenmap_error e = {.status = TENMAP_OK};
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7 + 3);
    for (size_t i = 0; count > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(arguments[1], commands[i].name) == 0 && count - 2 >= commands[i].arguments)
            return commands[i].run(arguments + 2, &e);
    return 1;
}
