/*
 * Chooses a snapshot in the folder that a hub's cache keeps for a model. The folder
 * models--ORG--NAME has the bytes of files in blobs, a folder for each revision in snapshots, and
 * the revision of each branch in refs.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

typedef struct hub_names {
    bool snapshots, others; /* seen in the folder itself; others: refs or blobs */
} hub_names;

static bool note_hub_name(void *ctx, const char *name) {
    hub_names *seen = ctx;
    seen->snapshots = seen->snapshots || strcmp(name, "snapshots") == 0;
    seen->others = seen->others || strcmp(name, "refs") == 0 || strcmp(name, "blobs") == 0;
    return !(seen->snapshots && seen->others);
}

typedef struct snapshot_list {
    const tenmap_io *io;
    const char *folder; /* the folder "snapshots" */
    char **names;
    size_t count, capacity;
    bool out_of_memory, too_many;
} snapshot_list;

static bool add_snapshot(void *ctx, const char *name) {
    snapshot_list *list = ctx;
    if (name[0] == '.')
        return true;
    list->too_many = list->count == TMI_MOST_LISTED;
    if (list->too_many)
        return false;
    char *path = tmi_path_inside(list->io, list->folder, name, strlen(name));
    bool is = path && (list->io || tmi_is_folder(path)); /* objects are judged by name */
    list->out_of_memory = !path;
    free(path);
    if (!is)
        return !list->out_of_memory;
    char *copy = tmi_copy_text(name, strlen(name));
    char **names = tmi_grow(list->names, list->count, &list->capacity, sizeof *names);
    list->names = names ? names : list->names;
    if (!copy || !names) {
        free(copy);
        list->out_of_memory = true;
        return false;
    }
    names[list->count++] = copy;
    return true;
}

static int by_snapshot_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reads refs/main without trailing white space; "" if it cannot be read. False if out of memory. */
static bool read_main(const tenmap_io *io, const char *folder, char *text, size_t room) {
    tmi_bytes bytes = TMI_NO_BYTES;
    char *path = tmi_path_inside(io, folder, "refs/main", strlen("refs/main"));
    size_t len = 0;
    if (path && tmi_bytes_open(&bytes, io, path, "it", NULL) == TENMAP_OK) {
        bool fits = bytes.file.kind == TMI_FILE_REGULAR && bytes.file.size < room;
        size_t size = fits ? (size_t)bytes.file.size : 0;
        if (tmi_bytes_read(&bytes, 0, text, size, (tmi_wanted){"it", NULL}, NULL) == TENMAP_OK)
            len = size;
        tmi_bytes_close(&bytes);
    }
    while (len > 0 && (unsigned char)text[len - 1] <= ' ')
        len--;
    text[len] = '\0';
    bool had_memory = path != NULL;
    free(path);
    return had_memory;
}

/*
 * The number of the snapshot, or TMI_NONE. Only listed names are accepted, so no ref can lead
 * elsewhere.
 */
static size_t choose_snapshot(snapshot_list *list, const char *folder) {
    char branch[256];
    if (list->count == 1)
        return 0;
    list->out_of_memory = !read_main(list->io, folder, branch, sizeof branch);
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], branch) == 0)
            return i;
    return TMI_NONE;
}

static tenmap_status fail_snapshots(const snapshot_list *list, const char *folder,
                                    tenmap_error *error) {
    tmi_list names = {.used = 0};
    for (size_t i = 0; i < list->count; i++)
        tmi_list_add(&names, list->names[i], strlen(list->names[i]));
    if (list->count == 0)
        return tmi_remedy(
            error, TENMAP_REMEDY_FETCH_AGAIN,
            tmi_fail(error, TENMAP_ERR_NOT_FOUND,
                     "%s: this is a model's folder in a hub cache, but it holds no snapshot: "
                     "fetch the model again",
                     tmi_quote_path(folder).text));
    return tmi_remedy(
        error, TENMAP_REMEDY_OPEN_ONE,
        tmi_fail(error, TENMAP_ERR_NOT_FOUND,
                 "%s: this is a model's folder in a hub cache with several snapshots, and "
                 "refs/main names none of them; open one of these in its snapshots folder: %s",
                 tmi_quote_path(folder).text, tmi_list_end(&names)));
}

static tenmap_status find_snapshot(snapshot_list *list, char **snapshot, const char *folder,
                                   tenmap_error *error) {
    if (tmi_bytes_list(list->io, list->folder, add_snapshot, list, NULL) != TENMAP_OK)
        return TENMAP_ERR_NOT_FOUND;
    if (list->too_many)
        return tmi_remedy(
            error, TENMAP_REMEDY_OPEN_ONE,
            tmi_fail(error, TENMAP_ERR_LIMIT,
                     "%s: this is a model's folder in a hub cache with more than %d snapshots; "
                     "open one of those in its snapshots folder",
                     tmi_quote_path(folder).text, (int)TMI_MOST_LISTED));
    if (list->count)
        qsort(list->names, list->count, sizeof *list->names, by_snapshot_name);
    size_t chosen = list->out_of_memory ? TMI_NONE : choose_snapshot(list, folder);
    if (chosen == TMI_NONE && !list->out_of_memory)
        return fail_snapshots(list, folder, error);
    if (chosen != TMI_NONE) {
        const char *name = list->names[chosen];
        *snapshot = tmi_path_inside(list->io, list->folder, name, strlen(name));
    }
    return *snapshot ? TENMAP_OK : tmi_fail_memory(error, strlen(folder), "the names in a folder");
}

tenmap_status tmi_hub_cache_choose(char **snapshot, const tenmap_io *io, const char *folder,
                                   tenmap_error *error) {
    hub_names seen = {false, false};
    *snapshot = NULL;
    if (tmi_bytes_list(io, folder, note_hub_name, &seen, NULL) != TENMAP_OK || !seen.snapshots ||
        !seen.others)
        return TENMAP_ERR_NOT_FOUND;
    char *inside = tmi_path_inside(io, folder, "snapshots", strlen("snapshots"));
    if (!inside)
        return tmi_fail_memory(error, strlen(folder), "the path");
    snapshot_list list = {.io = io, .folder = inside};
    tenmap_status status = find_snapshot(&list, snapshot, folder, error);
    for (size_t i = 0; i < list.count; i++)
        free(list.names[i]);
    free(list.names);
    free(inside);
    return status;
}
