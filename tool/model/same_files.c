/*
 * Finds models that are the same files under several names, since a folder may hold any number of
 * links to one large file. Files are identified by device and inode and looked up in a hash table.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "commands/inventory.h"

/* Identifies one file. */
typedef struct file_id {
    uint64_t device, inode;
} file_id;

typedef struct seen_model {
    file_id *files;
    size_t count;
    uint64_t hash;
    size_t place; /* index in the inventory */
} seen_model;

struct seen_files {
    seen_model *slots; /* a slot is free if its files is NULL */
    size_t count, room;
};

seen_files *seen_new(void) {
    return need(1, sizeof(seen_files));
}

void seen_free(seen_files *seen) {
    for (size_t i = 0; i < seen->room; i++)
        free(seen->slots[i].files);
    free(seen->slots);
    free(seen);
}

static file_id id_of(const struct stat *s) {
    return (file_id){(uint64_t)s->st_dev, (uint64_t)s->st_ino};
}

/* FNV-1a over numbers. */
static uint64_t hash_files(const file_id *files, size_t count) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; i++)
        hash = ((hash ^ files[i].device) * 0x100000001b3 ^ files[i].inode) * 0x100000001b3;
    return hash ^ hash >> 32;
}

/* The files of an open model, or the file at the path of a model that is not open yet. */
static bool find_files(const inventory_model *m, seen_model *out) {
    struct stat s;
    size_t count = m->model ? tenmap_shard_count(m->model) : 1;
    *out = (seen_model){.files = need(count, sizeof *out->files), .count = count};
    bool good = count > 0;
    for (size_t i = 0; good && i < count; i++) {
        int fd = m->model ? tenmap_shard_at(m->model, i)->fd : -1;
        good =
            m->model ? fd >= 0 && fstat(fd, &s) == 0 : stat(m->path, &s) == 0 && S_ISREG(s.st_mode);
        if (good)
            out->files[i] = id_of(&s);
    }
    out->hash = hash_files(out->files, good ? count : 0);
    if (!good)
        free(out->files);
    return good;
}

/* The slot that holds these files, or the free one where they belong. */
static seen_model *find_slot(const seen_files *seen, const seen_model *wanted) {
    size_t at = (size_t)wanted->hash & (seen->room - 1);
    for (; seen->slots[at].files; at = (at + 1) & (seen->room - 1)) {
        const seen_model *s = &seen->slots[at];
        if (s->hash == wanted->hash && s->count == wanted->count &&
            memcmp(s->files, wanted->files, s->count * sizeof *s->files) == 0)
            break;
    }
    return &seen->slots[at];
}

size_t seen_before(const seen_files *seen, const inventory_model *m) {
    seen_model wanted;
    if (!seen->count || !find_files(m, &wanted))
        return SIZE_MAX;
    const seen_model *found = find_slot(seen, &wanted);
    free(wanted.files);
    return found->files ? found->place : SIZE_MAX;
}

static void grow(seen_files *seen) {
    seen_files larger = {.count = seen->count, .room = seen->room ? 2 * seen->room : 64};
    larger.slots = need(larger.room, sizeof *larger.slots);
    for (size_t i = 0; i < seen->room; i++)
        if (seen->slots[i].files)
            *find_slot(&larger, &seen->slots[i]) = seen->slots[i];
    free(seen->slots);
    *seen = larger;
}

void seen_add(seen_files *seen, const inventory_model *m, size_t place) {
    seen_model added;
    if (!find_files(m, &added))
        return;
    if (2 * seen->count >= seen->room)
        grow(seen);
    added.place = place;
    *find_slot(seen, &added) = added;
    seen->count++;
}
