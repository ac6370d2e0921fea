/* inventory: lists all models below a folder: what they are, which are broken, what they share. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "command.h"
#include "open_model.h"
#include "model/identify_model.h"
#include "commands/inventory.h"
#include "view/print.h"
#include "remote/remote.h"
#include "model/model_summary.h"

typedef struct inventory_settings {
    bool no_duplicates, verify, json, tsv;
    uint64_t depth, threads;
} inventory_settings;

static const inventory_settings inventory_defaults = {.depth = 8};

#define AT(field) offsetof(inventory_settings, field)
static const option inventory_options[] = {
    {0, "no-duplicates", NULL, OPTION_SWITCH, AT(no_duplicates),
     "Do not look for tensors that several models share, which reads their data"},
    {0, "verify", NULL, OPTION_SWITCH, AT(verify),
     "Compare each file of a hub's cache with its name, which is its SHA-256"},
    {'D', "depth", "N", OPTION_COUNT, AT(depth), "Look into folders N levels deep (8)"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Read on this many threads (as many as there are processors)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv), "Print the models as tab-separated values"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example inventory_examples[] = {
    {"tenmap inventory ~/models", "what is there, what is broken, what shares weights"},
    {"tenmap inventory --no-duplicates /data", "without reading any tensor"},
    {"tenmap inventory --verify ~/.cache/huggingface/hub",
     "whether the downloaded files are undamaged"},
    {"tenmap inventory --json ~/models | jq '.models[].path'", "for scripts"},
    {NULL, NULL},
};

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
        /* An archive of another program is no broken checkpoint. */
        m->foreign = m->shared_ending && error.remedy == TENMAP_REMEDY_CONVERT;
        if (m->foreign)
            return;
        text_add_error(&t, error.message, error.remedy);
        m->broken = t.bytes;
        return;
    }
    m->foreign = m->shared_ending && !tenmap_count(m->model); /* arguments of a training */
    if (m->foreign)
        return;
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
    size_t open_files = 0, most = most_open(), found = all->count;
    bool broken = false;
    seen_files *seen = seen_new();
    all->count = 0;
    for (size_t next = 0; next < found; next++) {
        size_t i = all->count++;
        inventory_model *m = &all->models[i];
        *m = all->models[next];
        if (interrupted())
            continue;
        describe_one(all, seen, i);
        if (m->foreign) {
            close_model(m);
            free(m->path);
            all->count--;
            continue;
        }
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

enum { MODEL_COLUMNS = 5 };

static const char *below(const inventory *all, const char *path) {
    size_t n = strlen(all->top);
    const char *rest = strncmp(path, all->top, n) == 0 ? path + n : path;
    while (*rest == '/')
        rest++;
    return *rest ? rest : path;
}

/* "ORG/NAME@12345678" in a hub's cache, and otherwise the path below the folder. */
static void add_name(text *out, const inventory *all, const inventory_model *m) {
    text name = {0};
    hub_place place;
    if (text_add_hub_name(&name, m->path, &place))
        text_add_safe(out, name.bytes, name.len);
    else
        text_add_safe(out, below(all, m->path), strlen(below(all, m->path)));
    text_free(&name);
}

static void print_name(const inventory *all, const inventory_model *m) {
    text name = {0};
    add_name(&name, all, m);
    fwrite(name.bytes, 1, name.len, stdout);
    text_free(&name);
}

static bool has_hub_names(const inventory *all) {
    text name = {0};
    hub_place place;
    bool found = false;
    for (size_t i = 0; i < all->count && !found; i++)
        found = text_add_hub_name(&name, all->models[i].path, &place);
    text_free(&name);
    return found;
}

static bool is_known(const inventory_model *m) {
    return m->kind || m->adapter.modules;
}

/* The part of a name before the file, "ORG/NAME@12345678", of a model in a hub's cache; else 0. */
static size_t hub_label_len(const text *name, const hub_place *place) {
    enum { SHOWN_DIGITS = 8 };
    size_t digits = place->revision_len < SHOWN_DIGITS ? place->revision_len : SHOWN_DIGITS;
    size_t len = place->name_len + 1 + digits;
    return len < name->len ? len : 0;
}

/* Whether names of files in a hub's cache leave no room for other columns on the terminal. */
static bool has_long_names(const inventory *all) {
    enum { OTHER_COLUMNS = 44 };
    text name = {0};
    size_t widest = 0;
    for (size_t i = 0; print_width() && i < all->count; i++) {
        text_clear(&name);
        add_name(&name, all, &all->models[i]);
        size_t columns = text_columns(name.bytes, name.len);
        widest = columns > widest ? columns : widest;
    }
    text_free(&name);
    return print_width() && widest + OTHER_COLUMNS > print_width();
}

static void put_model(table *t, const inventory_model *m) {
    inventory_add_what(table_cell(t), m);
    table_end_cell(t, is_known(m) || m->quantized ? STYLE_NONE : STYLE_DIM);
    text_add_safe(table_cell(t), m->dtype ? m->dtype : "-", strlen(m->dtype ? m->dtype : "-"));
    text_addf(table_cell(t), m->mixed ? " +" : "");
    table_end_cell(t, STYLE_CYAN);
    text_add_count(table_cell(t), m->params);
    table_end_cell(t, STYLE_NONE);
    text_add_bytes(table_cell(t), m->bytes);
    table_end_cell(t, STYLE_NONE);
}

/*
 * Puts the name of a file below that of its model, which gets a row of its own unless the row
 * before is of the same model. `label` is that of the row before. Returns false if the model is not
 * a file with a name of its own in a hub's cache.
 */
static bool put_name_below(table *t, const inventory_model *m, text *label) {
    text name = {0};
    hub_place place;
    size_t len = text_add_hub_name(&name, m->path, &place) ? hub_label_len(&name, &place) : 0;
    bool same = len && label->len == len && memcmp(label->bytes, name.bytes, len) == 0;
    text_clear(label);
    text_add(label, name.len ? name.bytes : "", len ? len : name.len);
    if (len && !same) {
        text_add_safe(table_cell(t), name.bytes, len);
        for (size_t cell = 0; cell < MODEL_COLUMNS; cell++)
            table_end_cell(t, STYLE_NONE);
    }
    if (len) {
        text_addf(table_cell(t), "  ");
        text_add_safe(table_cell(t), name.bytes + len + 1, name.len - len - 1);
    }
    text_free(&name);
    return len != 0;
}

static void print_models(const inventory *all) {
    /* Nothing in the names of a hub's cache can be left out; other columns go instead. */
    bool hub = has_hub_names(all), below_labels = hub && has_long_names(all);
    uint8_t stays = hub ? COLUMN_SPARE : COLUMN_STAYS;
    const column columns[MODEL_COLUMNS] = {{"PATH", false, hub ? COLUMN_STAYS : COLUMN_SHRINKS},
                                           {"WHAT", false, stays},
                                           {"DTYPE", false, stays},
                                           {"PARAMS", true, COLUMN_SPARE},
                                           {"SIZE", true, COLUMN_STAYS}};
    table *t = table_new(columns, MODEL_COLUMNS);
    text label = {0};
    for (size_t i = 0; i < all->count; i++) {
        const inventory_model *m = &all->models[i];
        if (m->broken)
            continue;
        if (!below_labels || !put_name_below(t, m, &label))
            add_name(table_cell(t), all, m);
        table_end_cell(t, STYLE_NONE);
        put_model(t, m);
    }
    table_print(t);
    table_free(t);
    text_free(&label);
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
        print_name(all, m);
        printf("\n    ");
        if (print_width() > 20)
            print_wrapped(why ? why + 3 : m->broken, 4, print_width());
        else
            printf("%s\n", why ? why + 3 : m->broken);
    }
}

/* The most groups, members, pairs or files of a kind that are printed. */
enum { MOST_SHOWN = 40 };

static void print_more(size_t count, const char *what) {
    if (count > MOST_SHOWN)
        printf("  and %zu more %s\n", count - MOST_SHOWN, what);
}

static void print_members(const inventory *all, const inventory_group *g) {
    for (size_t i = g->first, shown = 0; i < all->count && shown < MOST_SHOWN; i++) {
        const inventory_model *m = &all->models[i];
        if (m->group != g->first)
            continue;
        shown++;
        printf("    ");
        print_name(all, m);
        puts(m->first != i ? " (the same file)" : "");
    }
    if (g->count > MOST_SHOWN)
        printf("    and %zu more\n", g->count - MOST_SHOWN);
}

static void print_groups(const inventory *all) {
    text line = {0};
    if (all->group_count)
        printf("\n%sDuplicates%s\n", paint(STYLE_BOLD), paint_end());
    for (size_t i = 0; i < all->group_count && i < MOST_SHOWN; i++) {
        const inventory_group *g = &all->groups[i];
        size_t tensors = all->models[g->first].tensors;
        text_clear(&line);
        text_addf(&line, "  %zu models with the same %zu tensor%s: ", g->count, tensors,
                  tensors == 1 ? "" : "s");
        if (g->freed) {
            text_addf(&line, "keeping only one would free ");
            text_add_bytes(&line, g->freed);
        } else {
            text_addf(&line, "links to one file, so nothing would be freed");
        }
        puts(line.bytes);
        print_members(all, g);
    }
    print_more(all->group_count, "groups");
    text_free(&line);
}

static void print_share(const inventory *all, const inventory_share *s) {
    const inventory_model *a = &all->models[s->a], *b = &all->models[s->b];
    text line = {0};
    text_addf(&line, "  ");
    add_name(&line, all, a);
    text_addf(&line, "\n    ~ ");
    add_name(&line, all, b);
    if (a->tensors == b->tensors)
        text_addf(&line, ": %zu of %zu tensors, ", s->tensors, a->tensors);
    else
        text_addf(&line, ": %zu tensors in common, of %zu and %zu, ", s->tensors, a->tensors,
                  b->tensors);
    text_add_bytes(&line, s->bytes);
    puts(line.bytes);
    text_free(&line);
}

static void print_shared_tensors(const inventory *all) {
    size_t count = 0;
    for (size_t i = 0; i < all->share_count; i++) {
        if (!all->shares[i].shown)
            continue;
        if (!count++)
            printf("\n%sShared tensors%s\n", paint(STYLE_BOLD), paint_end());
        if (count <= MOST_SHOWN)
            print_share(all, &all->shares[i]);
    }
    print_more(count, "pairs");
}

/* Files. */

/* Prints the leftovers of one kind; of blobs, those that are not what their names say. */
static void print_leftovers(const inventory *all, leftover_kind kind, const char *title,
                            const char *what) {
    size_t count = 0;
    text line = {0};
    for (size_t i = 0; i < all->leftover_count; i++) {
        const leftover *l = &all->leftovers[i];
        if (l->kind != kind || (kind == LEFTOVER_BLOB && !is_damaged(l)))
            continue;
        if (!count++)
            printf("\n%s%s%s\n", paint(STYLE_BOLD), title, paint_end());
        if (count > MOST_SHOWN)
            continue;
        text_clear(&line);
        text_addf(&line, "  ");
        text_add_safe(&line, below(all, l->path), strlen(below(all, l->path)));
        text_addf(&line, ": ");
        if (kind != LEFTOVER_DANGLING)
            text_add_bytes(&line, l->bytes);
        text_addf(&line, "%s%s", kind != LEFTOVER_DANGLING ? ", " : "", what);
        puts(line.bytes);
    }
    print_more(count, "files");
    text_free(&line);
}

static size_t count_blobs(const inventory *all, blob_verdict verdict) {
    size_t count = 0;
    for (size_t i = 0; i < all->leftover_count; i++)
        count += all->leftovers[i].kind == LEFTOVER_BLOB && all->leftovers[i].verdict == verdict;
    return count;
}

static bool is_verified(const inventory *all) {
    return count_blobs(all, BLOB_RIGHT) || count_blobs(all, BLOB_WRONG);
}

static void print_verdicts(const inventory *all) {
    size_t git = count_blobs(all, BLOB_GIT_NAME), other = count_blobs(all, BLOB_OTHER_NAME);
    size_t unreadable = count_blobs(all, BLOB_UNREADABLE);
    print_leftovers(all, LEFTOVER_BLOB, "Damaged files", "its SHA-256 is not its name");
    if (is_verified(all))
        printf("\n%zu of %zu blobs have the SHA-256 that their names say",
               count_blobs(all, BLOB_RIGHT),
               count_blobs(all, BLOB_RIGHT) + count_blobs(all, BLOB_WRONG));
    else
        printf("\nNothing was verified: no file here is named by its SHA-256, as those in a hub's "
               "cache are");
    if (unreadable)
        printf("; %zu could not be read", unreadable);
    if (git)
        printf("; %zu not verified: named by Git's SHA-1, which is not a SHA-256", git);
    if (other)
        printf("; %zu not verified: the name is not a digest", other);
    putchar('\n');
}

static void print_inventory(const inventory *all, const inventory_settings *set) {
    size_t broken = 0;
    uint64_t bytes = 0, own_bytes = 0; /* of all rows; of their files, each counted once */
    text line = {0};
    for (size_t i = 0; i < all->count; i++) {
        broken += all->models[i].broken != NULL;
        bytes += all->models[i].bytes;
        own_bytes += all->models[i].first == i ? all->models[i].bytes : 0;
    }
    if (all->count > broken)
        print_models(all);
    print_broken(all);
    print_leftovers(all, LEFTOVER_INCOMPLETE, "Incomplete downloads", "not complete");
    print_leftovers(all, LEFTOVER_DANGLING, "Dangling links", "the file that it names is missing");
    if (set->verify)
        print_verdicts(all);
    if (!set->no_duplicates) {
        print_groups(all);
        print_shared_tensors(all);
    }
    text_addf(&line, "%s%zu model%s, ", all->count ? "\n" : "", all->count,
              all->count == 1 ? "" : "s");
    text_add_bytes(&line, bytes);
    if (own_bytes != bytes) {
        text_addf(&line, " (");
        text_add_bytes(&line, own_bytes);
        text_addf(&line, " on disk, because some are links to the same files)");
    }
    if (broken)
        text_addf(&line, "; %zu broken", broken);
    if (all->not_compared)
        text_addf(&line, "; %zu not compared (more than this process may open)", all->not_compared);
    if (all->abridged)
        text_addf(&line, "; not every pair that shares tensors is listed");
    if (all->unreadable)
        text_addf(&line, "; %zu folders could not be read", all->unreadable);
    if (all->more)
        text_addf(&line, "; more than %d folders or files, the limit: others are not listed",
                  (int)INVENTORY_MOST);
    puts(line.bytes);
    text_free(&line);
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
    for (size_t i = 0; i < all->leftover_count; i++)
        free(all->leftovers[i].path);
    free(all->leftovers);
    free(all->groups);
    free(all->models);
    free(all->shares);
}

/* Verifies files and finds duplicates, if that is wanted. */
static int compare_all(inventory *all, const inventory_settings *set) {
    int status = EXIT_FINE;
    if (set->verify && !interrupted())
        status = verify_blobs(all, (unsigned)set->threads);
    if (!status && !set->no_duplicates && !interrupted())
        status = find_cross_model_duplicates(all, (unsigned)set->threads);
    if (!status && !set->no_duplicates)
        group_models(all);
    return status;
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
    if (set->json && set->tsv)
        return fail(EXIT_USAGE, "--json and --tsv exclude each other: choose one");
    catch_interrupts();
    find_models(all.top, set->depth, &all);
    bool broken = describe_all(&all);
    int status = compare_all(&all, set);
    if (!status && interrupted())
        status = fail(EXIT_INTERRUPTED, "interrupted");
    if (!status) {
        if (set->json)
            print_inventory_json(&all);
        else if (set->tsv)
            print_inventory_tsv(&all);
        else
            print_inventory(&all, set);
        bool left = all.leftover_count && all.leftovers[0].kind != LEFTOVER_BLOB;
        bool damaged = count_blobs(&all, BLOB_WRONG) || count_blobs(&all, BLOB_UNREADABLE);
        bool unverified = set->verify && !is_verified(&all);
        status = broken || left || damaged || unverified ? EXIT_DIFFERENT : EXIT_FINE;
    }
    inventory_free(&all);
    return status;
}

const command cmd_inventory = {
    .name = "inventory",
    .summary = "List models below a folder, which are broken, and what they share",
    .operands = "FOLDER",
    .min_operands = 1,
    .max_operands = 1,
    .options = inventory_options,
    .details =
        "A model is a .safetensors or .gguf file, a .bin, .pt, .pth or .ckpt file in which\n"
        "PyTorch has saved tensors, or an index with its shards; the files of a split GGUF\n"
        "model count as one. The search enters hidden folders, follows links to\n"
        "folders, and visits each folder once. config.json or the tensor names tell what a\n"
        "model is. Models in a hub's cache are shown as ORG/NAME@REVISION. Interrupted\n"
        "downloads, and links whose file is missing, are listed too.\n"
        "\n"
        "Shared tensors are found by fingerprints, whatever their names. They show which\n"
        "fine-tune still has the weights of which base. A tensor is read in full only if its\n"
        "dtype, its shape and a sample of its bytes match a tensor of another model. Models\n"
        "with the same tensors form a group.\n"
        "\n"
        "Exit: 1 if a model is broken, a download is incomplete, a link's file is missing, a\n"
        "file is damaged, or --verify finds nothing to verify.",
    .examples = inventory_examples,
    .settings_size = sizeof(inventory_settings),
    .defaults = &inventory_defaults,
    .run = inventory_run,
};
