/*
 * Copies a model's companion files (configuration, tokenizer, generation settings) to the output's
 * folder, and adapts config.json.
 */
#include "output/companion_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output/config_edit.h"
#include "model/identify_model.h"
#include "model/model_endings.h"
#include "model/model_files.h"
#include "remote/partial_remote_open.h"
#include "output/atomic_file.h"
#include "output/output_target.h"
#include "view/print.h"
#include "remote/remote.h"
#include "tensor_patterns.h"

/* The file names that programs look for. Indexes and weights are not among them. */
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
    text_add_named(&path, folder, name);
    return path.bytes;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * Names from a folder or a server become local file names, so they must be UTF-8 without characters
 * that a terminal would interpret or not show, and of a valid length.
 */
static bool is_plain(const char *name) {
    enum { LONGEST = 255 };
    size_t len = strlen(name), n;
    uint32_t point;
    for (size_t at = 0; at < len; at += n) {
        n = decode_point((const unsigned char *)name + at, len - at, &point);
        if (!n || unsafe_point(point))
            return false;
    }
    return len <= LONGEST;
}

/* Models have about ten such files; a server or a folder may list any number. */
enum { MOST_BESIDE = 256, MOST_FETCHED = 256 << 20 }; /* files; total bytes fetched */

static int take_name(void *ctx, const char *name) {
    companion_files *out = ctx;
    if (belongs(name) && is_plain(name)) {
        out->too_many = out->count == MOST_BESIDE;
        if (out->too_many)
            return 1;
        out->names = need_next(out->names, out->count, sizeof *out->names);
        out->names[out->count++] = need_copy(name, strlen(name));
    }
    return 0;
}

static int list_companion_files(const char *folder, companion_files *out) {
    bool far = is_address(folder);
    int status = far ? remote_list(folder, take_name, out) : EXIT_FINE;
    DIR *list = far ? NULL : opendir(folder);
    for (struct dirent *e; list && !out->too_many && (e = readdir(list));) {
        struct stat s;
        if (fstatat(dirfd(list), e->d_name, &s, 0) == 0 && S_ISREG(s.st_mode))
            take_name(out, e->d_name);
    }
    if (list)
        closedir(list);
    if (out->count)
        qsort(out->names, out->count, sizeof *out->names, compare_names);
    return status;
}

static int fail_fetch(const char *from, uint64_t size, uint64_t left) {
    if (interrupted())
        return EXIT_INTERRUPTED;
    if (size > left && size != UINT64_MAX)
        return fail(EXIT_FAILED,
                    "'%s' has %" PRIu64
                    " bytes; at most %d bytes of such companion files are fetched, and %" PRIu64
                    " are left: --no-config does not copy these files",
                    from, size, (int)MOST_FETCHED, left);
    return fail(EXIT_FAILED, "'%s' cannot be fetched", from);
}

/*
 * Fetches one file. The largest, tokenizer files, have about ten megabytes. *left is what may still
 * be fetched, in bytes.
 */
static int fetch_file(const char *from, const char *to, bool force, uint64_t *left) {
    atomic_file out;
    char *bytes;
    size_t len;
    uint64_t size = remote_read(from, (size_t)*left, &bytes, &len);
    if (!bytes)
        return fail_fetch(from, size, *left);
    *left -= len;
    int status = atomic_file_open(&out, to, force);
    if (!status) {
        status = atomic_file_write(&out, bytes, len);
        if (status)
            atomic_file_abort(&out);
        else
            status = atomic_file_commit(&out);
    }
    free(bytes);
    return status;
}

static int copy_file(const char *from, const char *to, bool force, uint64_t *left) {
    enum { BLOCK = 1 << 16 };
    atomic_file out;
    if (is_address(from))
        return fetch_file(from, to, force, left);
    int fd, status = open_regular(from, &fd);
    if (status)
        return status;
    char *block = need(BLOCK, 1);
    status = atomic_file_open(&out, to, force);
    for (ssize_t n = 1; !status && n > 0;) {
        n = read(fd, block, BLOCK);
        if (n < 0)
            status = fail(EXIT_FAILED, "'%s': %s", from, os_error_text(errno));
        else
            status = atomic_file_write(&out, block, (size_t)n);
        if (status)
            atomic_file_abort(&out);
        else if (n == 0)
            status = atomic_file_commit(&out);
    }
    free(block);
    close(fd);
    return status;
}

/* The output's folder; the caller frees it. */
static char *target_folder(const target *to) {
    return to->folder ? need_copy(to->path, strlen(to->path)) : folder_of(to->path);
}

static bool same_folder(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_wanted(const plan *p, const output_settings *out, const target *to) {
    return !out->no_config && (out->copy_config || (input_is_folder(p) && to->folder));
}

/* config.json. */

enum { LARGEST_CONFIG = 4 << 20 };

/* Why the text cannot be edited; NULL if it can. */
static const char *unfit_config(const text *json) {
    if (json->len > LARGEST_CONFIG)
        return "is larger than 4 MiB";
    return json->len && config_is_object(json) ? NULL : "is not a JSON object";
}

/*
 * For a config.json that exists but could not be fetched. Another try may succeed, so the file is
 * not replaced.
 */
static const char not_fetched[] = "cannot be fetched, or is larger than 4 MiB";

/*
 * Returns why the file cannot be edited. NULL if it can, or if it does not exist, which leaves
 * `out` empty.
 */
static const char *read_config(const char *path, text *out) {
    char block[4096], *far;
    size_t len;
    struct stat s;
    ssize_t n = 1;
    if (is_address(path)) {
        uint64_t size = remote_read(path, LARGEST_CONFIG, &far, &len);
        text_add(out, far ? far : "", len);
        free(far);
        return out->len ? unfit_config(out) : size ? not_fetched : NULL;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT ? NULL : "cannot be opened";
    bool regular = fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
    while (regular && n > 0 && out->len <= LARGEST_CONFIG) {
        n = read(fd, block, sizeof block);
        if (n > 0)
            text_add(out, block, (size_t)n);
    }
    close(fd);
    return !regular ? "is not a file" : n < 0 ? "cannot be read" : unfit_config(out);
}

static int write_config(const char *path, const text *json, bool force) {
    atomic_file out;
    int status = atomic_file_open(&out, path, force);
    if (status)
        return status;
    status = atomic_file_write(&out, json->bytes, json->len);
    if (!status)
        return atomic_file_commit(&out);
    atomic_file_abort(&out);
    return status;
}

/* Whether the output replaced the input, so that the files beside it now belong to the output. */
static bool took_place(const plan *p, const target *to) {
    const char *input =
        tenmap_shard_count(p->models[0]) ? tenmap_shard_at(p->models[0], 0)->path : "";
    const char *slash = strrchr(input, '/'), *out = strrchr(to->path, '/');
    return to->folder || strcmp(slash ? slash + 1 : input, out ? out + 1 : to->path) == 0;
}

/*
 * Lists the files that describe how the input was quantized, now that the output has replaced it.
 */
static void list_obsolete(const char *folder, companion_files *copied) {
    companion_files found = {0};
    (void)list_companion_files(folder, &found); /* a local folder */
    for (size_t i = 0; i < found.count; i++)
        if (is_quantization_config(found.names[i])) {
            copied->obsolete =
                need_next(copied->obsolete, copied->obsolete_count, sizeof *copied->obsolete);
            copied->obsolete[copied->obsolete_count++] =
                need_copy(found.names[i], strlen(found.names[i]));
        }
    companion_files_free(&found);
}

/* Whether the output is quantized in another way than the input. */
static bool describes_quantization(const plan *p) {
    return p->config && (p->config->dequantized || p->config->quantization);
}

/* The folders of the input and of the output. */
typedef struct folder_pair {
    char *from, *into;
} folder_pair;

/*
 * Writes the edited config.json into the output's folder if allowed; otherwise only records what
 * must be changed.
 */
static int change_config(const plan *p, const output_settings *out, const target *to,
                         const folder_pair *folders, bool wanted, companion_files *copied) {
    char *source = path_in(folders->from, "config.json");
    char *place = path_in(folders->into, "config.json");
    text json = {0};
    struct stat s;
    bool same = same_folder(folders->from, folders->into), there = lstat(place, &s) == 0;
    if (p->config->quantization && to->folder && !out->no_config)
        wanted = true; /* without it no program could read the model */
    bool may = same ? !out->no_config && took_place(p, to) : wanted && (!there || out->force);
    int status = EXIT_FINE;
    const char *unfit = read_config(source, &json);
    /* An unreadable file in the same folder is not overwritten. */
    bool anew = p->config->quantization && !(unfit && same);
    bool silent = !may && !describes_quantization(p); /* the file stays as it is */
    if (unfit == not_fetched) {
        status = fail(EXIT_FAILED, "'%s' %s", shown_path(source), unfit);
        anew = false;
    } else if (unfit && !silent) {
        warn("'%s' %s, so it cannot be changed%s", shown_path(source), unfit,
             anew ? "; the output needs a new one" : "");
    }
    if (unfit)
        text_clear(&json);
    if (json.len == 0 && anew)
        text_addf(&json, "{}\n");
    if (json.len)
        config_apply(&json, p->config, &copied->config);
    copied->config_changed = may && copied->config.count;
    copied->config_why = same ? "config.json remains that of the input"
                         : there && wanted
                             ? "config.json already exists and is kept (--force replaces it)"
                         : out->no_config ? "config.json is not copied (--no-config)"
                                          : "config.json is not copied (--copy-config does it)";
    if (same && may && describes_quantization(p))
        list_obsolete(folders->from, copied);
    if (!status && copied->config_changed && !out->dry_run)
        status = write_config(place, &json, out->force || same);
    free(source);
    free(place);
    text_free(&json);
    return status;
}

static void add_copied(companion_files *copied, const char *name) {
    copied->names = need_next(copied->names, copied->count, sizeof *copied->names);
    copied->names[copied->count++] = need_copy(name, strlen(name));
}

static int copy_companion_files(const plan *p, const output_settings *out,
                                const folder_pair *folders, companion_files *copied) {
    companion_files found = {0};
    uint64_t left = MOST_FETCHED;
    int status = list_companion_files(folders->from, &found);
    if (!status && found.too_many)
        status = fail(EXIT_FAILED,
                      "'%s' has more than %d files that belong to a model (tokenizer* and such), "
                      "the limit for copying: --no-config does not copy them",
                      folders->from, (int)MOST_BESIDE);
    for (size_t i = 0; !status && i < found.count; i++) {
        char *source = path_in(folders->from, found.names[i]);
        char *place = path_in(folders->into, found.names[i]);
        struct stat s;
        bool there = lstat(place, &s) == 0 && !out->force;
        bool is_config = strcmp(found.names[i], "config.json") == 0;
        bool obsolete = describes_quantization(p) && is_quantization_config(found.names[i]);
        bool other = obsolete || (is_config && copied->config_changed);
        if (!there && !out->dry_run && !other)
            status = copy_file(source, place, out->force, &left);
        if (!status && !there && !other)
            add_copied(copied, found.names[i]);
        free(source);
        free(place);
    }
    companion_files_free(&found);
    return status;
}

int companion_files_copy(const plan *p, const output_settings *out, const target *to,
                         companion_files *copied) {
    int status = EXIT_FINE;
    *copied = (companion_files){0};
    if (!p->model_count)
        return status;
    bool wanted = is_wanted(p, out, to);
    folder_pair folders = {model_folder(p->models[0]), target_folder(to)};
    /* A remote config.json that is not copied is not fetched only to say how it differs. */
    if (p->config && (wanted || describes_quantization(p) || !is_address(folders.from)))
        status = change_config(p, out, to, &folders, wanted, copied);
    if (!status && wanted && !same_folder(folders.from, folders.into))
        status = copy_companion_files(p, out, &folders, copied);
    free(folders.from);
    free(folders.into);
    return status;
}

void companion_files_free(companion_files *files) {
    for (size_t i = 0; i < files->count; i++)
        free(files->names[i]);
    free(files->names);
    for (size_t i = 0; i < files->obsolete_count; i++)
        free(files->obsolete[i]);
    free(files->obsolete);
    *files = (companion_files){0};
}
