/*
 * Decides where a command's output goes, one file or a folder of shards, and refuses to destroy
 * existing models.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/model_endings.h"
#include "model/model_files.h"
#include "remote/partial_remote_open.h"
#include "output/output_target.h"
#include "remote/remote.h"

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static bool is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool names_folder(const char *path) {
    return ends_with(path, "/") || is_folder(path);
}

/* Decides by the extension, since a model's file has one of these. */
static bool is_far_folder(const char *path) {
    return !has_model_ending(path) && !has_ending(path, ".json") && !*address_query(path);
}

bool input_is_folder(const plan *p) {
    const char *path = p->model_count ? whole_path(&p->whole, p->models[0]) : "";
    return is_address(path) ? is_far_folder(path) : is_folder(path);
}

/* The largest shard of the inputs, in bytes of tensor data; 0 if no input has several shards. */
static uint64_t input_shard_size(const plan *p) {
    uint64_t largest = 0;
    for (size_t m = 0; m < p->model_count; m++) {
        size_t shards = tenmap_shard_count(p->models[m]);
        size_t all = m == 0 ? whole_shards(&p->whole, p->models[0]) : shards;
        for (size_t i = 0; all > 1 && i < shards; i++) {
            const tenmap_shard *s = tenmap_shard_at(p->models[m], i);
            uint64_t bytes = s->size - (s->data_offset - s->offset);
            largest = bytes > largest ? bytes : largest;
        }
    }
    return largest;
}

/* Whether the folder holds a model, or a part of one, that a new model would replace or hide. */
static bool holds_model(const char *folder) {
    DIR *list = opendir(folder);
    bool found = false;
    for (struct dirent *e; list && !found && (e = readdir(list));)
        found = e->d_name[0] != '.' && (ends_with(e->d_name, ".safetensors") ||
                                        ends_with(e->d_name, ".safetensors.index.json"));
    if (list)
        closedir(list);
    return found;
}

/* Whether the file is one of several files of an input; replacing it would break that model. */
static bool is_part_of_input(const plan *p, const struct stat *there) {
    for (size_t m = 0; m < p->model_count; m++) {
        const tenmap_model *model = p->models[m];
        bool several = tenmap_shard_count(model) > 1 || tenmap_index_json(model, NULL);
        if (several && is_file_of(model, there))
            return true;
    }
    return false;
}

static int check_free(const plan *p, const output_settings *out, const target *to) {
    struct stat s;
    bool there = lstat(to->path, &s) == 0, leads = stat(to->path, &s) == 0;
    const char *kind = leads ? irregular_kind(&s) : NULL;
    if (kind && !S_ISDIR(s.st_mode))
        return fail(EXIT_FAILED, "'%s' is %s, but a model needs a file or a folder", to->path,
                    kind);
    if (!to->folder && leads && is_part_of_input(p, &s))
        return fail(EXIT_FAILED, "'%s' is a part of the input; choose another output", to->path);
    if (to->folder && there && !is_folder(to->path))
        return fail(EXIT_FAILED, "'%s' is a file; shards need a folder", to->path);
    if (out->force || !there)
        return EXIT_FINE;
    if (!to->folder)
        return fail(EXIT_FAILED, "'%s' already exists; --force replaces it", to->path);
    if (holds_model(to->path))
        return fail(EXIT_FAILED, "'%s' already holds a model; --force replaces it", to->path);
    return EXIT_FINE;
}

int choose_target(const plan *p, const output_settings *out, target *to) {
    if (!out->path || !*out->path)
        return fail(EXIT_USAGE, "say where to write: -o OUT");
    if (out->single && out->max_shard)
        return fail(EXIT_USAGE, "--single and --max-shard-size exclude each other");
    int status = check_output_name(out);
    if (status)
        return status;
    uint64_t inherited = out->single ? 0 : input_shard_size(p);
    bool folder = names_folder(out->path);
    bool file = !folder && ends_with(out->path, ".safetensors");
    if (out->max_shard && file)
        return fail(EXIT_USAGE, "shards go into a folder, but '%s' is the name of a file",
                    out->path);
    if (!folder && ends_with(out->path, ".index.json"))
        return fail(EXIT_USAGE, "'%s' is the name of an index; name its folder instead", out->path);
    bool as_input = !file && (inherited || input_is_folder(p));
    *to = (target){out->path, folder || out->max_shard || as_input, false, 0};
    to->max_shard = out->max_shard ? out->max_shard : inherited ? inherited : UINT64_MAX / 2;
    return check_free(p, out, to);
}

int make_target(target *to) {
    if (!to->folder || is_folder(to->path))
        return EXIT_FINE;
    if (mkdir(to->path, 0777) != 0)
        return fail(EXIT_FAILED, "cannot create the folder '%s': %s", to->path,
                    os_error_text(errno));
    to->created = true;
    return EXIT_FINE;
}

void unmake_target(const target *to) {
    if (to->created)
        (void)rmdir(to->path);
}
