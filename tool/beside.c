#include "beside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "identify.h"
#include "infile.h"
#include "outfile.h"
#include "print.h"
#include "select.h"

/* Names as programs look for them; indexes and weights are none of these. */
static bool belongs(const char *name) {
    static const char *const patterns[] = {
        "config.json",       "*_config.json", "generation_config.json",
        "tokenizer*",        "vocab.json",    "vocab.txt",
        "merges.txt",        "*.tiktoken",    "special_tokens_map.json",
        "added_tokens.json", "spiece.model",  "sentencepiece*.model",
        "chat_template.*",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (glob_match(patterns[i], name, strlen(name)))
            return true;
    return false;
}

static char *path_in(const char *folder, const char *name) {
    text path = {0};
    text_addf(&path, "%s/%s", folder, name);
    return path.bytes;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void list_beside(const char *folder, beside_files *out) {
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        struct stat s;
        if (!belongs(e->d_name) || fstatat(dirfd(list), e->d_name, &s, 0) != 0 ||
            !S_ISREG(s.st_mode))
            continue;
        out->names = need_next(out->names, out->count, sizeof *out->names);
        out->names[out->count++] = need_copy(e->d_name, strlen(e->d_name));
    }
    if (list)
        closedir(list);
    if (out->count)
        qsort(out->names, out->count, sizeof *out->names, compare_names);
}

static int copy_file(const char *from, const char *to, bool force) {
    enum { BLOCK = 1 << 16 };
    outfile out;
    int fd, status = open_regular(from, &fd);
    if (status)
        return status;
    char *block = need(BLOCK, 1);
    status = outfile_open(&out, to, force);
    for (ssize_t n = 1; !status && n > 0;) {
        n = read(fd, block, BLOCK);
        if (n < 0)
            status = fail(EXIT_FAILED, "'%s': %s", from, os_words(errno));
        else
            status = outfile_write(&out, block, (size_t)n);
        if (status)
            outfile_abort(&out);
        else if (n == 0)
            status = outfile_commit(&out);
    }
    free(block);
    close(fd);
    return status;
}

/* The folder that the output lies in; to be freed. */
static char *target_folder(const target *to) {
    const char *slash = strrchr(to->path, '/');
    if (to->folder)
        return need_copy(to->path, strlen(to->path));
    return slash ? need_copy(to->path, (size_t)(slash - to->path)) : need_copy(".", 1);
}

static bool same_folder(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_wanted(const plan *p, const output_settings *out, const target *to) {
    struct stat s;
    bool folder = stat(tenmap_path(p->models[0]), &s) == 0 && S_ISDIR(s.st_mode);
    return !out->no_config && (out->copy_config || (folder && to->folder));
}

int beside_copy(const plan *p, const output_settings *out, const target *to, beside_files *copied) {
    int status = EXIT_FINE;
    *copied = (beside_files){0};
    if (!p->model_count || !is_wanted(p, out, to))
        return status;
    char *from = model_folder(p->models[0]), *into = target_folder(to);
    beside_files found = {0};
    if (!same_folder(from, into))
        list_beside(from, &found);
    for (size_t i = 0; !status && i < found.count; i++) {
        char *source = path_in(from, found.names[i]), *place = path_in(into, found.names[i]);
        struct stat s;
        bool there = lstat(place, &s) == 0 && !out->force;
        if (!there && !out->dry_run)
            status = copy_file(source, place, out->force);
        if (!status && !there) {
            copied->names = need_next(copied->names, copied->count, sizeof *copied->names);
            copied->names[copied->count++] = need_copy(found.names[i], strlen(found.names[i]));
        }
        free(source);
        free(place);
    }
    beside_free(&found);
    free(from);
    free(into);
    return status;
}

void beside_free(beside_files *files) {
    for (size_t i = 0; i < files->count; i++)
        free(files->names[i]);
    free(files->names);
    *files = (beside_files){0};
}
