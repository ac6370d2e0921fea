/* Opens only those shards of a remote model that contain the selected tensors. */
#include "remote/partial_remote_open.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "open_model.h"
#include "view/print.h"
#include "remote/remote.h"
#include "tensor_patterns.h"
#include "suggest.h"

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t sort_once(const char **list, size_t count) {
    size_t kept = 0;
    if (count)
        qsort(list, count, sizeof *list, compare_texts);
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(list[kept - 1], list[i]) != 0)
            list[kept++] = list[i];
    return kept;
}

/* Like pattern_selects, but matches the names that the index lists. */
static bool selects_listed(const tenmap_model *index, const char *pattern, const char *name) {
    if (strpbrk(pattern, "*?["))
        return glob_match(pattern, name, strlen(name));
    return tenmap_shard_listed(index, pattern) ? strcmp(pattern, name) == 0
                                               : strstr(name, pattern) != NULL;
}

/*
 * The files of all listed names that the patterns select, each once; `used` marks the patterns that
 * matched.
 */
static const char **files_of(const tenmap_model *index, const char *const *patterns, size_t count,
                             bool *used, size_t *file_count) {
    size_t listed = tenmap_listed_count(index), found = 0;
    const char **files = need(listed, sizeof *files);
    for (size_t i = 0; i < listed; i++) {
        const char *name = tenmap_listed_at(index, i);
        bool in = count == 0;
        for (size_t k = 0; k < count; k++)
            if (selects_listed(index, patterns[k], name))
                in = used[k] = true;
        if (in)
            files[found++] = tenmap_shard_listed(index, name);
    }
    *file_count = sort_once(files, found);
    return files;
}

static int fail_unlisted(const tenmap_model *index, const char *pattern) {
    suggestion best = {0};
    text name = {0};
    for (size_t i = 0; i < tenmap_listed_count(index); i++) {
        const char *listed = tenmap_listed_at(index, i);
        suggest(&best, pattern, strlen(pattern), listed, strlen(listed));
    }
    if (best.word)
        text_add_safe(&name, best.word, best.len);
    int status = best.word ? fail(EXIT_FAILED, "no tensor matches '%s'; did you mean %s?", pattern,
                                  name.bytes)
                           : fail(EXIT_FAILED, "no tensor matches '%s'", pattern);
    text_free(&name);
    return status;
}

static int check_used(const tenmap_model *index, const char *const *patterns, size_t count,
                      bool any, const bool *used) {
    size_t used_count = 0;
    for (size_t i = 0; i < count; i++)
        used_count += used[i];
    if (any && used_count)
        return EXIT_FINE;
    for (size_t i = 0; i < count; i++)
        if (!used[i])
            return fail_unlisted(index, patterns[i]);
    return EXIT_FINE;
}

/* The address of a file in the index: beside the index, with the query of its address. */
static char *address_of(const tenmap_model *index, const char *file) {
    text address = {0};
    text_add_named(&address, tenmap_folder(index), file);
    text_addf(&address, "%s", address_query(tenmap_path(index)));
    return address.bytes;
}

static void keep_whole(const tenmap_model *index, const char *path, whole_model *whole) {
    const char **all = files_of(index, NULL, 0, NULL, &whole->file_count);
    whole->path = need_copy(path, strlen(path));
    whole->tensors = tenmap_listed_count(index);
    whole->files = need(whole->file_count, sizeof *whole->files);
    for (size_t i = 0; i < whole->file_count; i++)
        whole->files[i] = need_copy(all[i], strlen(all[i]));
    free(all);
}

static int open_files(const tenmap_model *index, const char *path, const char **files, size_t count,
                      tenmap_model **out) {
    tenmap_options options = open_options();
    tenmap_error error;
    char **paths = need(count, sizeof *paths);
    int status = remote_options(path, &options);
    for (size_t i = 0; i < count; i++)
        paths[i] = address_of(index, files[i]);
    if (!status && tenmap_open_list((const char *const *)paths, count, &options, out, &error))
        status = fail_error(&error);
    remote_opened();
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    return status;
}

static int open_part(const tenmap_model *index, const char *path, const char *const *patterns,
                     size_t count, bool any, tenmap_model **out) {
    bool *used = need(count, sizeof *used);
    size_t file_count;
    const char **files = files_of(index, patterns, count, used, &file_count);
    int status = check_used(index, patterns, count, any, used);
    if (!status)
        status = open_files(index, path, files, file_count, out);
    free(files);
    free(used);
    return status;
}

int open_for_tensors(const char *path, const char *const *patterns, size_t count, bool any,
                     whole_model *whole, tenmap_model **out) {
    tenmap_model *index;
    tenmap_options options = open_options();
    tenmap_error error;
    *out = NULL;
    if (whole)
        *whole = (whole_model){0};
    /*
     * A lenient open may find a tensor in another shard than the index says, and the index does not
     * list the names of dequantized weights.
     */
    if (!is_address(path) || !count || common.lenient || common.dequantize)
        return open_model(path, out);
    int status = remote_options(path, &options);
    options.flags |= TENMAP_OPEN_INDEX_ONLY;
    if (!status && tenmap_open(path, &options, &index, &error) != TENMAP_OK)
        status = fail_error(&error);
    remote_opened();
    if (status)
        return status;
    if (!tenmap_index_json(index, NULL)) {
        *out = index;
        return EXIT_FINE;
    }
    status = open_part(index, path, patterns, count, any, out);
    if (!status && whole)
        keep_whole(index, path, whole);
    tenmap_close(index);
    return status;
}

void whole_model_free(whole_model *whole) {
    for (size_t i = 0; i < whole->file_count; i++)
        free(whole->files[i]);
    free(whole->files);
    free(whole->path);
    *whole = (whole_model){0};
}

size_t whole_tensors(const whole_model *whole, const tenmap_model *model) {
    return whole->path ? whole->tensors : tenmap_count(model);
}

size_t whole_shards(const whole_model *whole, const tenmap_model *model) {
    return whole->path ? whole->file_count : tenmap_shard_count(model);
}

const char *whole_path(const whole_model *whole, const tenmap_model *model) {
    return whole->path ? whole->path : tenmap_path(model);
}

size_t whole_shard(const whole_model *whole, const tenmap_tensor *tensor) {
    if (!whole->path)
        return (size_t)tensor->shard + 1;
    const char *path = tenmap_shard_at(tensor->model, tensor->shard)->path;
    size_t len = (size_t)(address_query(path) - path), found = (size_t)tensor->shard;
    for (size_t i = 0; i < whole->file_count; i++) {
        text named = {0};
        text_add_named(&named, tenmap_folder(tensor->model), whole->files[i]);
        if (named.len == len && memcmp(named.bytes, path, len) == 0)
            found = i;
        text_free(&named);
    }
    return found + 1;
}
