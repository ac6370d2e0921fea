/* inventory: lists all models below a folder: what they are, which are broken, what they share. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "open_model.h"
#include "model/identify_model.h"
#include "model/model_endings.h"
#include "commands/inventory.h"
#include "view/json_out.h"
#include "view/print.h"
#include "remote/remote.h"
#include "model/model_summary.h"

typedef struct inventory_settings {
    bool no_duplicates, json;
    uint64_t depth, threads;
} inventory_settings;

static const inventory_settings inventory_defaults = {.depth = 8};

#define AT(field) offsetof(inventory_settings, field)
static const option inventory_options[] = {
    {0, "no-duplicates", NULL, OPTION_SWITCH, AT(no_duplicates),
     "Do not look for tensors that several models share, which reads their data"},
    {'D', "depth", "N", OPTION_COUNT, AT(depth), "Look into folders N levels deep (8)"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Read on this many threads (as many as there are processors)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example inventory_examples[] = {
    {"tenmap inventory ~/models", "what is there, what is broken, what shares weights"},
    {"tenmap inventory --no-duplicates /data", "without reading any tensor"},
    {"tenmap inventory --json ~/models | jq '.models[].path'", "for scripts"},
    {NULL, NULL},
};

/* Finding models. */

/* "model-00001-of-00003.safetensors" belongs to an index, or to a model whose index is missing. */
static bool is_part(const char *name) {
    const char *of = strstr(name, "-of-");
    return of && of > name && of[-1] >= '0' && of[-1] <= '9' && of[4] >= '0' && of[4] <= '9';
}

static void add_found(inventory *all, const char *folder, const char *name) {
    text path = {0};
    text_addf(&path, "%s%s%s", folder, *name ? "/" : "", name);
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : 64;
        all->models = need_more(all->models, all->room, sizeof *all->models);
    }
    all->models[all->count++] = (inventory_model){.path = path.bytes};
}

typedef struct folder_entry {
    char *path;
    uint64_t depth;
} folder_entry;

typedef struct walk {
    folder_entry *folders;
    size_t count;
    uint64_t most_depth; /* deeper folders are not visited */
} walk;

static void add_folder(walk *w, const char *folder, const char *name, uint64_t depth) {
    text path = {0};
    text_addf(&path, "%s%s%s", folder, *name ? "/" : "", name);
    w->folders = need_next(w->folders, w->count, sizeof *w->folders);
    w->folders[w->count++] = (folder_entry){path.bytes, depth};
}

static bool is_folder_at(int fd, const struct dirent *e) {
    struct stat s;
#ifdef DT_DIR
    if (e->d_type != DT_UNKNOWN)
        return e->d_type == DT_DIR; /* links are not followed: they may form cycles */
#endif
    return fstatat(fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode);
}

/*
 * Whether this is "model-00002-of-00003.gguf" beside the first part, which opens all of them. A
 * part without the first is listed by itself.
 */
static bool is_later_part(int fd, const char *name) {
    const char *of = strstr(name, "-of-");
    text first = {0};
    struct stat s;
    if (!is_part(name))
        return false;
    size_t end = (size_t)(of - name), begin = end;
    while (begin && name[begin - 1] >= '0' && name[begin - 1] <= '9')
        begin--;
    text_add(&first, name, begin);
    for (size_t i = begin; i + 1 < end; i++)
        text_add(&first, "0", 1);
    text_addf(&first, "1%s", of);
    bool later = strcmp(first.bytes, name) != 0 && fstatat(fd, first.bytes, &s, 0) == 0;
    text_free(&first);
    return later;
}

/* A folder that is being listed, and counts of what it contains. */
typedef struct open_folder {
    folder_entry at;
    DIR *list;
    size_t singles, parts, indexes;
} open_folder;

static void look_at(walk *w, inventory *all, open_folder *f, const struct dirent *e) {
    if (has_ending(e->d_name, ".safetensors.index.json")) {
        f->indexes++;
        add_found(all, f->at.path, e->d_name);
    } else if (has_ending(e->d_name, ".safetensors")) {
        bool part = is_part(e->d_name);
        f->parts += part;
        f->singles += !part;
        add_found(all, f->at.path, e->d_name);
        all->models[all->count - 1].part = part;
    } else if (has_model_ending(e->d_name)) {
        if (!is_later_part(dirfd(f->list), e->d_name))
            add_found(all, f->at.path, e->d_name);
    } else if (f->at.depth < w->most_depth && is_folder_at(dirfd(f->list), e)) {
        add_folder(w, f->at.path, e->d_name, f->at.depth + 1);
    }
}

/* Collects the models of one folder; its subfolders are visited later. */
static void look_into(walk *w, inventory *all, size_t which) {
    open_folder f = {.at = w->folders[which]}; /* copied, since the list may move */
    size_t before = all->count, kept = before;
    f.list = opendir(f.at.path);
    if (!f.list) {
        all->unreadable++;
        return;
    }
    for (struct dirent *e; !interrupted() && (e = readdir(f.list));)
        if (e->d_name[0] != '.')
            look_at(w, all, &f, e);
    closedir(f.list);
    /*
     * Shards are represented by the index beside them, or by the folder if it holds nothing else.
     */
    bool alone = f.parts && !f.indexes && !f.singles;
    for (size_t i = before; i < all->count; i++)
        if (all->models[i].part && (f.indexes || alone))
            free(all->models[i].path);
        else
            all->models[kept++] = all->models[i];
    all->count = kept;
    if (alone) {
        add_found(all, f.at.path, "");
    } else if (f.indexes == 1 && !f.singles && kept == before + 1) {
        all->models[before].path[strlen(f.at.path)] = '\0'; /* the folder is a shorter name */
    }
}

static int by_path(const void *a, const void *b) {
    const inventory_model *x = a, *y = b;
    return natural_compare(x->path, strlen(x->path), y->path, strlen(y->path));
}

static void find_models(const char *top, uint64_t depth, inventory *all) {
    walk w = {.most_depth = depth};
    size_t len = strlen(top);
    char *root = need_copy(top, len);
    while (len > 1 && root[len - 1] == '/')
        root[--len] = '\0';
    add_folder(&w, root, "", 0);
    for (size_t i = 0; i < w.count && !interrupted(); i++)
        look_into(&w, all, i);
    for (size_t i = 0; i < w.count; i++)
        free(w.folders[i].path);
    all->folders = w.count;
    free(w.folders);
    free(root);
    if (all->count)
        qsort(all->models, all->count, sizeof *all->models, by_path);
}

/* Describing models. */

static char *copy_text(const char *said) {
    return said ? need_copy(said, strlen(said)) : NULL;
}

static void describe(inventory_model *m) {
    tenmap_options options = open_options();
    tenmap_error error;
    summary s;
    identity id;
    text t = {0};
    if (tenmap_open(m->path, &options, &m->model, &error) != TENMAP_OK) {
        text_add_error(&t, error.message, error.remedy);
        m->broken = t.bytes;
        return;
    }
    if (summarize(m->model, &s) != EXIT_FINE)
        return;
    m->bytes = tenmap_file_size(m->model);
    m->params = s.params;
    m->tensors = s.all.count;
    if (s.dtype_count)
        m->dtype = need_copy(s.dtypes[0].name, strlen(s.dtypes[0].name));
    m->mixed = s.dtype_count > 1;
    identify(m->model, false, &id);
    m->kind = id.kind.len ? copy_text(id.kind.bytes) : NULL;
    m->source = id.source;
    m->adapter = adapter_copy(&id.adapter);
    m->by_itself = id.by_itself;
    m->quantized = s.scheme != NULL;
    identity_free(&id);
    summary_free(&s);
}

static void close_model(inventory_model *m) {
    tenmap_close(m->model);
    m->model = NULL;
}

static size_t folder_len(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Names the same file in another folder, whose config.json may call it something else. */
static void find_kind_in_folder(inventory_model *m, inventory_model *first) {
    size_t len = folder_len(m->path);
    text t = {0};
    if (first->by_itself ||
        (len == folder_len(first->path) && memcmp(m->path, first->path, len) == 0)) {
        m->kind = copy_text(first->kind);
        m->source = first->source;
        return;
    }
    char *folder = need_copy(m->path, len);
    kind_by_config(folder, &t);
    free(folder);
    if (!t.len && !first->named) {
        first->by_names = kind_by_names(first->model);
        first->named = true;
    }
    m->source = t.len ? "config" : "names";
    m->kind = copy_text(t.len ? t.bytes : first->by_names);
    text_free(&t);
}

static void describe_duplicates(inventory_model *m, inventory_model *first) {
    find_kind_in_folder(m, first);
    m->adapter = adapter_copy(&first->adapter);
    m->quantized = first->quantized;
    m->dtype = copy_text(first->dtype);
    m->mixed = first->mixed;
    m->bytes = first->bytes;
    m->params = first->params;
    m->tensors = first->tensors;
}

/* Of models with the same files, only the first stays open. */
static void describe_one(inventory *all, seen_files *seen, size_t i) {
    inventory_model *m = &all->models[i];
    size_t first = seen_before(seen, m);
    m->first = i;
    if (first != SIZE_MAX) {
        describe_duplicates(m, &all->models[first]);
    } else {
        describe(m);
        first = m->model ? seen_before(seen, m) : SIZE_MAX;
        if (first != SIZE_MAX)
            close_model(m);
    }
    m->first = first != SIZE_MAX ? first : i;
}

/*
 * The number of files that the process may have open, minus a reserve. Raises the limit as far as
 * possible.
 */
static size_t most_open(void) {
    struct rlimit limit = {0};
    size_t most = 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
            most = limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
    }
    return most > 128 ? most - 64 : 64;
}

/*
 * Models stay open to be compared, each with one descriptor per shard, up to the process's limit.
 * Models beyond it are not compared. Returns whether any model is broken.
 */
static bool describe_all(inventory *all) {
    size_t open_files = 0, most = most_open();
    bool broken = false;
    seen_files *seen = seen_new();
    for (size_t i = 0; i < all->count && !interrupted(); i++) {
        inventory_model *m = &all->models[i];
        describe_one(all, seen, i);
        broken = broken || m->broken;
        size_t files = m->model ? tenmap_shard_count(m->model) : 0;
        if (m->model && open_files + files > most) {
            close_model(m);
            all->not_compared++;
        } else if (m->model) {
            open_files += files;
            seen_add(seen, m, i);
        }
    }
    seen_free(seen);
    return broken;
}

/* Reporting. */

static const char *below(const inventory *all, const inventory_model *m) {
    size_t n = strlen(all->top);
    const char *rest = strncmp(m->path, all->top, n) == 0 ? m->path + n : m->path;
    while (*rest == '/')
        rest++;
    return *rest ? rest : m->path;
}

static bool is_known(const inventory_model *m) {
    return m->kind || m->adapter.modules;
}

/* "LoRA rank 16", "LlamaForCausalLM, quantized", "?". */
static void add_what(text *t, const inventory_model *m) {
    if (m->adapter.modules)
        text_add_adapter_rank(t, &m->adapter);
    else
        text_addf(t, "%s", m->kind ? m->kind : "?");
    text_addf(t, m->quantized ? ", quantized" : "");
}

static void print_models(const inventory *all) {
    static const column columns[] = {{"PATH", false, COLUMN_SHRINKS},
                                     {"WHAT", false, COLUMN_STAYS},
                                     {"DTYPE", false, COLUMN_STAYS},
                                     {"PARAMS", true, COLUMN_SPARE},
                                     {"SIZE", true, COLUMN_STAYS}};
    table *t = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < all->count; i++) {
        const inventory_model *m = &all->models[i];
        if (m->broken)
            continue;
        text_add_safe(table_cell(t), below(all, m), strlen(below(all, m)));
        table_end_cell(t, STYLE_NONE);
        add_what(table_cell(t), m);
        table_end_cell(t, is_known(m) || m->quantized ? STYLE_NONE : STYLE_DIM);
        text_add_safe(table_cell(t), m->dtype ? m->dtype : "-", strlen(m->dtype ? m->dtype : "-"));
        text_addf(table_cell(t), m->mixed ? " +" : "");
        table_end_cell(t, STYLE_CYAN);
        text_add_count(table_cell(t), m->params);
        table_end_cell(t, STYLE_NONE);
        text_add_bytes(table_cell(t), m->bytes);
        table_end_cell(t, STYLE_NONE);
    }
    table_print(t);
    table_free(t);
}

/* The library's message begins with the path in quotes, which is already printed. */
static void print_broken(const inventory *all) {
    bool titled = false;
    for (size_t i = 0; i < all->count; i++) {
        const inventory_model *m = &all->models[i];
        if (!m->broken)
            continue;
        const char *why = end_of_path(m->broken);
        if (!titled)
            printf("\n%sBroken%s\n", paint(STYLE_BOLD), paint_end());
        titled = true;
        printf("  %s✗%s ", paint(STYLE_RED), paint_end());
        print_safe(stdout, below(all, m), strlen(below(all, m)));
        printf("\n    ");
        if (print_width() > 20)
            print_wrapped(why ? why + 3 : m->broken, 4, print_width());
        else
            printf("%s\n", why ? why + 3 : m->broken);
    }
}

static void print_shared_tensors(const inventory *all) {
    enum { MOST_SHOWN = 40 };
    text line = {0};
    if (all->share_count)
        printf("\n%sShared tensors%s\n", paint(STYLE_BOLD), paint_end());
    for (size_t i = 0; i < all->share_count && i < MOST_SHOWN; i++) {
        const inventory_share *s = &all->shares[i];
        const inventory_model *a = &all->models[s->a], *b = &all->models[s->b];
        bool whole = s->tensors == a->tensors && s->tensors == b->tensors;
        text_clear(&line);
        text_addf(&line, "  ");
        text_add_safe(&line, below(all, a), strlen(below(all, a)));
        text_addf(&line, whole ? "\n    = " : "\n    ~ ");
        text_add_safe(&line, below(all, b), strlen(below(all, b)));
        text_addf(&line, ": ");
        if (whole)
            text_addf(&line, "the same %zu tensor%s", s->tensors, s->tensors == 1 ? "" : "s");
        else
            text_addf(&line, "%zu of %zu and of %zu tensors", s->tensors, a->tensors, b->tensors);
        text_addf(&line, ", ");
        text_add_bytes(&line, s->bytes);
        puts(line.bytes);
    }
    if (all->share_count > MOST_SHOWN)
        printf("  and %zu more pairs\n", all->share_count - MOST_SHOWN);
    text_free(&line);
}

static void print_inventory(const inventory *all, const inventory_settings *set) {
    size_t broken = 0;
    uint64_t bytes = 0;
    text line = {0};
    for (size_t i = 0; i < all->count; i++) {
        broken += all->models[i].broken != NULL;
        bytes += all->models[i].bytes;
    }
    if (all->count > broken)
        print_models(all);
    print_broken(all);
    if (!set->no_duplicates)
        print_shared_tensors(all);
    text_addf(&line, "%s%zu model%s, ", all->count ? "\n" : "", all->count,
              all->count == 1 ? "" : "s");
    text_add_bytes(&line, bytes);
    if (broken)
        text_addf(&line, "; %zu broken", broken);
    if (all->not_compared)
        text_addf(&line, "; %zu not compared (more than this process may open)", all->not_compared);
    if (all->abridged)
        text_addf(&line, "; not every pair that shares tensors is listed");
    if (all->unreadable)
        text_addf(&line, "; %zu folders could not be read", all->unreadable);
    puts(line.bytes);
    text_free(&line);
}

static void print_inventory_json(const inventory *all) {
    json_open('{', false);
    json_key_text("folder", all->top, TENMAP_CSTR);
    json_key("models");
    json_open('[', false);
    for (size_t i = 0; i < all->count; i++) {
        const inventory_model *m = &all->models[i];
        json_open('{', true);
        json_key_text("path", m->path, TENMAP_CSTR);
        if (m->broken) {
            json_key_text("error", m->broken, TENMAP_CSTR);
        } else {
            if (m->kind) {
                json_key_text("architecture", m->kind, TENMAP_CSTR);
                json_key_text("architecture_source", m->source, TENMAP_CSTR);
            }
            adapter_json(&m->adapter);
            json_key_bool("quantized", m->quantized);
            if (m->dtype)
                json_key_text("dtype", m->dtype, TENMAP_CSTR);
            json_key_bool("mixed_dtypes", m->mixed);
            json_key_uint("params", m->params);
            json_key_uint("tensors", m->tensors);
            json_key_uint("bytes", m->bytes);
        }
        json_close();
    }
    json_close();
    json_key("duplicates");
    json_open('[', false);
    for (size_t i = 0; i < all->share_count; i++) {
        json_open('{', true);
        json_key_text("a", all->models[all->shares[i].a].path, TENMAP_CSTR);
        json_key_text("b", all->models[all->shares[i].b].path, TENMAP_CSTR);
        json_key_uint("tensors", all->shares[i].tensors);
        json_key_uint("bytes", all->shares[i].bytes);
        json_close();
    }
    json_close();
    json_key_bool("duplicates_complete", !all->abridged);
    json_key_uint("not_compared", all->not_compared);
    json_key_uint("unreadable_folders", all->unreadable);
    json_close();
}

static void inventory_free(inventory *all) {
    for (size_t i = 0; i < all->count; i++) {
        tenmap_close(all->models[i].model);
        free(all->models[i].path);
        free(all->models[i].broken);
        free(all->models[i].kind);
        adapter_free(&all->models[i].adapter);
        free(all->models[i].dtype);
    }
    free(all->models);
    free(all->shares);
}

static int inventory_run(const invocation *call) {
    const inventory_settings *set = call->settings;
    inventory all = {.top = call->operands[0]};
    struct stat s;
    if (is_address(all.top))
        return fail(EXIT_USAGE,
                    "inventory looks through a local folder; 'tenmap info' takes an address");
    if (stat(all.top, &s) != 0)
        return fail(EXIT_FAILED, "'%s': %s", all.top, os_error_text(errno));
    if (!S_ISDIR(s.st_mode))
        return fail(EXIT_FAILED, "'%s' is not a folder; 'tenmap info' shows one model", all.top);
    catch_interrupts();
    find_models(all.top, set->depth, &all);
    bool broken = describe_all(&all);
    int status = EXIT_FINE;
    if (!set->no_duplicates && !interrupted())
        status = find_cross_model_duplicates(&all, (unsigned)set->threads);
    if (interrupted())
        status = fail(EXIT_INTERRUPTED, "interrupted");
    if (!status) {
        if (set->json)
            print_inventory_json(&all);
        else
            print_inventory(&all, set);
        status = broken ? EXIT_DIFFERENT : EXIT_FINE;
    }
    inventory_free(&all);
    return status;
}

const command cmd_inventory = {
    .name = "inventory",
    .summary = "List all models below a folder, which are broken, and what they share",
    .operands = "FOLDER",
    .min_operands = 1,
    .max_operands = 1,
    .options = inventory_options,
    .details =
        "A model is a .safetensors or .gguf file, or an index with its shards; the files of a\n"
        "split GGUF model count as one. Links to folders and hidden folders are not followed.\n"
        "The kind of a model is taken from its config.json or its names.\n"
        "\n"
        "Shared tensors are found by fingerprints, whatever their names: they show which\n"
        "fine-tune still has the weights of which base. Only tensors that match another model's\n"
        "in dtype, shape and a sample of bytes are read in full. Exit: 1 if a model is broken.",
    .examples = inventory_examples,
    .settings_size = sizeof(inventory_settings),
    .defaults = &inventory_defaults,
    .run = inventory_run,
};
