/* Expands operands into model paths and runs a command on each. */
#include "model/model_operands.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/model_endings.h"
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

/*
 * Adds the models of a folder that holds several, by extension. Returns false if it holds no model,
 * or only one.
 */
static bool add_folder(model_paths *p, const char *folder, const char *end) {
    DIR *list = opendir(folder);
    size_t before = p->count;
    bool one = false;
    for (struct dirent *e; list && !one && (e = readdir(list));) {
        one = has_ending(e->d_name, ".index.json") || strcmp(e->d_name, "model.safetensors") == 0 ||
              (has_ending(e->d_name, end) && is_part(e->d_name));
        if (one || e->d_name[0] == '.' || !has_ending(e->d_name, end))
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
        found = e->d_name[0] != '.' && has_ending(e->d_name, end);
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
