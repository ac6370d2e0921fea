/* Finds the models below a folder, and what downloads have left there. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "commands/inventory.h"
#include "model/model_endings.h"
#include "model/model_files.h"
#include "tensor_patterns.h"

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
    all->models[all->count++] =
        (inventory_model){.path = path.bytes, .shared_ending = has_shared_ending(name)};
}

typedef struct folder_entry {
    char *path;
    uint64_t depth;
} folder_entry;

/* Identifies a folder, whatever its path. */
typedef struct folder_id {
    uint64_t device, inode;
} folder_id;

typedef struct folder_list {
    folder_entry *items;
    size_t count;
} folder_list;

typedef struct walk {
    folder_list folders, links; /* links are followed when all folders have been visited */
    folder_id *seen;            /* a hash table of the folders that were visited */
    size_t seen_count, seen_room;
    uint64_t most_depth; /* deeper folders are not visited */
    const char *root;    /* as realpath gives it */
} walk;

static void add_folder(folder_list *list, const char *folder, const char *name, uint64_t depth) {
    text path = {0};
    text_addf(&path, "%s%s%s", folder, *name ? "/" : "", name);
    list->items = need_next(list->items, list->count, sizeof *list->items);
    list->items[list->count++] = (folder_entry){path.bytes, depth};
}

/* Adds to a table that has room; false if the folder is in it already. */
static bool put_folder(walk *w, folder_id id) {
    size_t slot = (size_t)((id.inode * 0x9e3779b97f4a7c15u ^ id.device) % w->seen_room);
    for (; w->seen[slot].inode; slot = (slot + 1) % w->seen_room)
        if (w->seen[slot].inode == id.inode && w->seen[slot].device == id.device)
            return false;
    w->seen[slot] = id;
    w->seen_count++;
    return true;
}

/* Whether the folder was not visited before, by this path or another. */
static bool is_new_folder(walk *w, const struct stat *s) {
    if (2 * w->seen_count >= w->seen_room) {
        walk larger = {.seen_room = w->seen_room ? 4 * w->seen_room : 1024};
        larger.seen = need(larger.seen_room, sizeof *larger.seen);
        for (size_t i = 0; i < w->seen_room; i++)
            if (w->seen[i].inode)
                (void)put_folder(&larger, w->seen[i]);
        free(w->seen);
        w->seen = larger.seen;
        w->seen_room = larger.seen_room;
    }
    return put_folder(w, (folder_id){(uint64_t)s->st_dev, (uint64_t)s->st_ino});
}

/* Whether a link leads to a folder that contains the root, and so to all that is being listed. */
static bool leads_upwards(const walk *w, const char *path) {
    char *target = realpath(path, NULL);
    size_t len = target ? strlen(target) : 0;
    bool up = target && strncmp(target, w->root, len) == 0 &&
              (len == 1 || w->root[len] == '/' || w->root[len] == '\0');
    free(target);
    return up;
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

/* Formats whose shards have an index. */
typedef enum indexed_format { OF_SAFETENSORS, OF_PYTORCH, INDEXED_FORMATS } indexed_format;

typedef struct format_counts {
    size_t singles, parts, indexes;
} format_counts;

/* A folder that is being listed, and counts of what it contains. */
typedef struct open_folder {
    folder_entry at;
    DIR *list;
    format_counts of[INDEXED_FORMATS];
    size_t others;    /* GGUF files */
    bool is_blobs;    /* of a hub's cache: names of files are digests */
    bool is_snapshot; /* of a hub's cache, or a folder in it: files are links to blobs */
} open_folder;

/* A link of a hub's cache, to a file that is missing. Elsewhere, only models are looked at. */
static bool is_dangling(const open_folder *f, const struct dirent *e) {
    struct stat s;
    return f->is_snapshot && fstatat(dirfd(f->list), e->d_name, &s, 0) != 0 &&
           fstatat(dirfd(f->list), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode);
}

/* A folder, a link to one, or a file that is not a model. */
static void look_at_other(walk *w, inventory *all, open_folder *f, const struct dirent *e) {
    struct stat s;
    if (has_ending(e->d_name, ".incomplete")) {
        add_leftover(all, LEFTOVER_INCOMPLETE, f->at.path, e->d_name);
        return;
    }
    if (f->is_blobs)
        add_leftover(all, LEFTOVER_BLOB, f->at.path, e->d_name);
#ifdef DT_REG
    if (e->d_type == DT_REG)
        return;
#endif
    bool deeper = f->at.depth < w->most_depth && !is_hub_record(e->d_name);
    if (!deeper || fstatat(dirfd(f->list), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (S_ISDIR(s.st_mode))
        add_folder(&w->folders, f->at.path, e->d_name, f->at.depth + 1);
    else if (S_ISLNK(s.st_mode) && fstatat(dirfd(f->list), e->d_name, &s, 0) == 0 &&
             S_ISDIR(s.st_mode))
        add_folder(&w->links, f->at.path, e->d_name, f->at.depth + 1);
}

/* Counts and adds a file, or an index, of a format whose shards have an index. */
static void add_indexed(inventory *all, open_folder *f, const char *name, indexed_format format) {
    format_counts *counts = &f->of[format];
    bool usual = is_usual_model_name(name), index = has_ending(name, ".index.json");
    bool part = !index && usual && is_part(name);
    counts->indexes += index;
    counts->parts += part;
    counts->singles += !index && !part && usual;
    add_found(all, f->at.path, name);
    inventory_model *m = &all->models[all->count - 1];
    m->part_of = part ? 1 + (unsigned)format : 0;
}

static void look_at(walk *w, inventory *all, open_folder *f, const struct dirent *e) {
    struct stat s;
    const char *name = e->d_name;
    bool shared = has_shared_ending(name);
    if (is_dangling(f, e) ||
        (has_model_ending(name) && !shared && fstatat(dirfd(f->list), name, &s, 0) != 0)) {
        add_leftover(all, LEFTOVER_DANGLING, f->at.path, name);
    } else if (has_ending(name, ".safetensors.index.json") || has_ending(name, ".safetensors")) {
        add_indexed(all, f, name, OF_SAFETENSORS);
    } else if (has_ending(name, ".bin.index.json") ||
               (shared && begins_as_checkpoint(dirfd(f->list), name))) {
        add_indexed(all, f, name, OF_PYTORCH);
    } else if (has_model_ending(name) && !shared) {
        f->others++;
        if (!is_later_part(dirfd(f->list), name))
            add_found(all, f->at.path, name);
    } else {
        look_at_other(w, all, f, e);
    }
}

/* Whether the folder itself is the model whose shards of this format lie in it without an index. */
static bool is_set_without_index(const open_folder *f, indexed_format format) {
    const format_counts *counts = &f->of[format], *preferred = &f->of[OF_SAFETENSORS];
    if (format == OF_PYTORCH &&
        (f->others || preferred->singles || preferred->parts || preferred->indexes))
        return false;
    return counts->parts && !counts->indexes && !counts->singles;
}

/* Shards are represented by the index beside them, or by the folder if it holds nothing else. */
static void replace_parts(inventory *all, const open_folder *f, size_t before) {
    size_t kept = before, indexes = 0, singles = 0;
    bool alone[INDEXED_FORMATS];
    for (unsigned k = 0; k < INDEXED_FORMATS; k++) {
        alone[k] = is_set_without_index(f, (indexed_format)k);
        indexes += f->of[k].indexes;
        singles += f->of[k].singles;
    }
    for (size_t i = before; i < all->count; i++) {
        unsigned of = all->models[i].part_of;
        if (of && (f->of[of - 1].indexes || alone[of - 1]))
            free(all->models[i].path);
        else
            all->models[kept++] = all->models[i];
    }
    all->count = kept;
    if (alone[OF_SAFETENSORS] || alone[OF_PYTORCH])
        add_found(all, f->at.path, "");
    else if (indexes == 1 && !singles && kept == before + 1)
        all->models[before].path[strlen(f->at.path)] = '\0'; /* the folder is a shorter name */
}

/* Collects the models of one folder; its subfolders are visited later. */
static void look_into(walk *w, inventory *all, folder_entry at) {
    open_folder f = {
        .at = at, .is_blobs = is_blobs_folder(at.path), .is_snapshot = is_snapshot_folder(at.path)};
    size_t before = all->count;
    struct stat s;
    f.list = opendir(f.at.path);
    if (!f.list) {
        all->unreadable++;
        return;
    }
    if (fstat(dirfd(f.list), &s) != 0 || !is_new_folder(w, &s)) {
        closedir(f.list);
        return;
    }
    all->folders++;
    for (struct dirent *e; !interrupted() && (e = readdir(f.list));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            look_at(w, all, &f, e);
    closedir(f.list);
    replace_parts(all, &f, before);
}

static int by_path(const void *a, const void *b) {
    const inventory_model *x = a, *y = b;
    return natural_compare(x->path, strlen(x->path), y->path, strlen(y->path));
}

static void free_folders(folder_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].path);
    free(list->items);
}

void find_models(const char *top, uint64_t depth, inventory *all) {
    walk w = {.most_depth = depth};
    size_t len = strlen(top), links = 0;
    char *root = need_copy(top, len), *real = realpath(top, NULL);
    while (len > 1 && root[len - 1] == '/')
        root[--len] = '\0';
    w.root = real ? real : root;
    add_folder(&w.folders, root, "", 0);
    for (size_t i = 0; i < w.folders.count && !interrupted(); i++) {
        if (all->folders == INVENTORY_MOST) {
            all->more = true;
            break;
        }
        look_into(&w, all, w.folders.items[i]);
        for (; i + 1 == w.folders.count && links < w.links.count; links++)
            if (!leads_upwards(&w, w.links.items[links].path))
                add_folder(&w.folders, w.links.items[links].path, "", w.links.items[links].depth);
    }
    free_folders(&w.folders);
    free_folders(&w.links);
    free(w.seen);
    free(root);
    free(real);
    if (all->count)
        qsort(all->models, all->count, sizeof *all->models, by_path);
    sort_leftovers(all);
}
