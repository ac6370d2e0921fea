/* Expands operands into model paths and runs a command on each. */
#include "model/model_operands.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "metadata.h"
#include "model/model_endings.h"
#include "model/model_files.h"
#include "view/json_out.h"
#include "remote/remote.h"
#include "tensor_patterns.h"

/* Whether this is a shard's name, such as "model-00001-of-00003.safetensors". */
static bool is_part(const char *name) {
    const char *of = strstr(name, "-of-");
    return of && of[4] >= '0' && of[4] <= '9';
}

static void add_path(model_paths *p, char *path) {
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 16;
        p->items = need_more(p->items, p->room, sizeof *p->items);
    }
    p->items[p->count++] = path;
}

static int compare_paths(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return natural_compare(x, strlen(x), y, strlen(y));
}

/* Whether a file of this folder, with this ending, is a model. */
static bool is_model_in(DIR *folder, const char *name, const char *end) {
    return name[0] != '.' && has_ending(name, end) &&
           (!has_shared_ending(name) || begins_as_checkpoint(dirfd(folder), name));
}

/* Whether the file shows that the folder is one model. */
static bool makes_one_model(const char *name, const char *end) {
    return has_ending(name, ".index.json") || strcmp(name, "model.safetensors") == 0 ||
           (has_ending(name, end) &&
            (is_part(name) || (has_shared_ending(name) && is_usual_model_name(name))));
}

/*
 * Adds the models of a folder that holds several, by extension. Returns false if it holds no model,
 * or only one.
 */
static bool add_folder(model_paths *p, const char *folder, const char *end) {
    DIR *list = opendir(folder);
    size_t before = p->count;
    bool one = false;
    for (struct dirent *e; list && !one && (e = readdir(list));) {
        one = makes_one_model(e->d_name, end);
        if (one || !is_model_in(list, e->d_name, end))
            continue;
        size_t n = strlen(folder), size = n + strlen(e->d_name) + 2;
        char *path = need(size, 1);
        snprintf(path, size, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", e->d_name);
        add_path(p, path);
    }
    if (list)
        closedir(list);
    if (!one && p->count - before > 1) {
        qsort(p->items + before, p->count - before, sizeof *p->items, compare_paths);
        return true;
    }
    while (p->count > before)
        free(p->items[--p->count]);
    return false;
}

static bool holds_any(const char *folder, const char *end) {
    DIR *list = opendir(folder);
    bool found = false;
    for (struct dirent *e; list && !found && (e = readdir(list));)
        found = is_model_in(list, e->d_name, end);
    if (list)
        closedir(list);
    return found;
}

/* Adds the models of a folder that holds several, of the preferred ending only. */
static bool add_models_in(model_paths *p, const char *folder) {
    for (const char *const *ending = model_endings; *ending; ending++)
        if (add_folder(p, folder, *ending))
            return true;
        else if (holds_any(folder, *ending))
            return false;
    return false;
}

void expand_model_operands(const char *const *operands, size_t count, model_paths *out) {
    *out = (model_paths){0};
    for (size_t i = 0; i < count; i++) {
        struct stat s;
        if (stat(operands[i], &s) != 0 || !S_ISDIR(s.st_mode) || !add_models_in(out, operands[i]))
            add_path(out, need_copy(operands[i], strlen(operands[i])));
    }
}

void model_paths_free(model_paths *p) {
    for (size_t i = 0; i < p->count; i++)
        free(p->items[i]);
    free(p->items);
    *p = (model_paths){0};
}

/* Files of a folder that are not of the opened model: the first names in order, and how many. */
typedef struct left_out {
    char *names[4];
    size_t shown, count;
} left_out;

static void keep_name(left_out *files, const char *name) {
    const size_t most = sizeof files->names / sizeof files->names[0];
    size_t at = files->shown;
    files->count++;
    while (at > 0 && natural_compare(name, strlen(name), files->names[at - 1],
                                     strlen(files->names[at - 1])) < 0)
        at--;
    if (at == most)
        return;
    if (files->shown == most)
        free(files->names[--files->shown]);
    memmove(files->names + at + 1, files->names + at, (files->shown - at) * sizeof *files->names);
    files->names[at] = need_copy(name, strlen(name));
    files->shown++;
}

static bool is_of_model(const tenmap_model *model, const char *name) {
    for (size_t i = 0; i < tenmap_shard_count(model); i++)
        if (strcmp(base_name(tenmap_shard_at(model, i)->path), name) == 0)
            return true;
    return false;
}

static bool is_model_file(const char *name) {
    return name[0] != '.' && has_model_ending(name) && is_usual_model_name(name);
}

static void print_left_out(const char *path, const tenmap_model *model, const left_out *files) {
    size_t shards = tenmap_shard_count(model);
    text names = {0};
    for (size_t i = 0; i < files->shown; i++) {
        text_addf(&names, i ? ", " : "");
        text_add_safe(&names, files->names[i], strlen(files->names[i]));
    }
    if (files->count > files->shown)
        text_addf(&names, " and %zu more", files->count - files->shown);
    if (shards == 1)
        warn("'%s' holds more than one model: this is %s; left out: %s", path,
             base_name(tenmap_shard_at(model, 0)->path), names.bytes);
    else
        warn("'%s' holds more than one model: this is the one in %zu shards; left out: %s", path,
             shards, names.bytes);
    text_free(&names);
}

void tell_left_out(const char *path, const tenmap_model *model) {
    struct stat s;
    left_out files = {0};
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode) || !tenmap_shard_count(model))
        return;
    DIR *list = opendir(path);
    for (struct dirent *e; list && (e = readdir(list));)
        if (is_model_file(e->d_name) && !is_of_model(model, e->d_name))
            keep_name(&files, e->d_name);
    if (list)
        closedir(list);
    if (files.count)
        print_left_out(path, model, &files);
    while (files.shown)
        free(files.names[--files.shown]);
}

size_t leading_model_count(const char *const *operands, size_t count) {
    struct stat s;
    size_t n = count ? 1 : 0;
    while (n < count && (stat(operands[n], &s) == 0 || is_address(operands[n])))
        n++;
    return n;
}

int for_each_model(const model_paths *p, bool json,
                   int (*one)(const char *path, bool several, const void *settings),
                   const void *settings) {
    bool several = p->count > 1;
    int worst = EXIT_FINE;
    if (several && json)
        json_open('[', false);
    for (size_t i = 0; i < p->count && !interrupted(); i++) {
        int status = one(p->items[i], several, settings);
        worst = status > worst ? status : worst;
    }
    if (several && json)
        json_close();
    return worst;
}
