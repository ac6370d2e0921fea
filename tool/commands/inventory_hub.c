/* What an inventory knows of a hub's cache: names of models, files by their digests, leftovers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "commands/inventory.h"
#include "compare/digest.h"
#include "parallel_for.h"
#include "tensor_patterns.h"
#include "view/progress.h"

/* The part of a path after "models--", if a folder of the cache begins there; else NULL. */
static const char *after_models(const char *path) {
    const char *found = NULL, *at = path;
    while ((at = strstr(at, "models--"))) {
        if (at == path || at[-1] == '/')
            found = at + strlen("models--");
        at++;
    }
    return found;
}

bool text_add_hub_name(text *out, const char *path, hub_place *place) {
    enum { SHOWN_DIGITS = 8 };
    const char *name = after_models(path), *slash = name ? strchr(name, '/') : NULL;
    if (!slash || strncmp(slash, "/snapshots/", 11) != 0)
        return false;
    const char *revision = slash + 11;
    size_t len = strcspn(revision, "/");
    for (const char *c = name; c < slash; c++) {
        bool separates = c[0] == '-' && c + 1 < slash && c[1] == '-';
        text_add(out, separates ? "/" : c, 1);
        c += separates;
    }
    *place = (hub_place){.name_len = out->len, .revision = revision, .revision_len = len};
    text_addf(out, "@");
    text_add(out, revision, len < SHOWN_DIGITS ? len : SHOWN_DIGITS);
    const char *file = revision + len;
    if (*file && strcmp(file, "/model.safetensors") != 0)
        text_add(out, file, strlen(file));
    return true;
}

bool is_blobs_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && strcmp(slash, "/blobs") == 0 && after_models(path);
}

bool is_snapshot_folder(const char *path) {
    const char *name = after_models(path), *slash = name ? strchr(name, '/') : NULL;
    return slash && strncmp(slash, "/snapshots/", 11) == 0;
}

bool is_hub_record(const char *name) {
    return strcmp(name, ".no_exist") == 0 || strcmp(name, ".locks") == 0;
}

void add_leftover(inventory *all, leftover_kind kind, const char *folder, const char *name) {
    text path = {0};
    struct stat s;
    if (all->leftover_count == INVENTORY_MOST) {
        all->more = true;
        return;
    }
    text_addf(&path, "%s/%s", folder, name);
    leftover l = {.kind = kind, .path = path.bytes};
    if (kind == LEFTOVER_BLOB && (lstat(path.bytes, &s) != 0 || !S_ISREG(s.st_mode))) {
        text_free(&path);
        return;
    }
    if (kind != LEFTOVER_DANGLING && stat(path.bytes, &s) == 0)
        l.bytes = (uint64_t)s.st_size;
    all->leftovers = need_next(all->leftovers, all->leftover_count, sizeof *all->leftovers);
    all->leftovers[all->leftover_count++] = l;
}

static int by_kind_and_path(const void *a, const void *b) {
    const leftover *x = a, *y = b;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
                              : strcmp(x->path, y->path);
}

void sort_leftovers(inventory *all) {
    if (all->leftover_count)
        qsort(all->leftovers, all->leftover_count, sizeof *all->leftovers, by_kind_and_path);
}

/* Verifying. */

static size_t digest_digits(const char *path) {
    const char *name = strrchr(path, '/') + 1;
    size_t digits = strspn(name, "0123456789abcdef");
    return name[digits] ? 0 : digits;
}

static int verify_one(void *ctx, size_t i) {
    enum { SHA256_DIGITS = 2 * SHA256_BYTES, SHA1_DIGITS = 40 };
    leftover *l = &((inventory *)ctx)->leftovers[i];
    unsigned char digest[SHA256_BYTES];
    char digits[SHA256_DIGITS + 1];
    if (interrupted())
        return EXIT_INTERRUPTED;
    if (l->kind != LEFTOVER_BLOB)
        return EXIT_FINE;
    size_t count = digest_digits(l->path);
    l->verdict = count == SHA1_DIGITS ? BLOB_GIT_NAME : BLOB_OTHER_NAME;
    if (count != SHA256_DIGITS)
        return EXIT_FINE;
    if (sha256_file(l->path, digest) != EXIT_FINE) {
        l->verdict = BLOB_UNREADABLE;
        return EXIT_FINE;
    }
    hex_digits(digest, SHA256_BYTES, digits);
    l->verdict = strcmp(digits, strrchr(l->path, '/') + 1) == 0 ? BLOB_RIGHT : BLOB_WRONG;
    return EXIT_FINE;
}

int verify_blobs(inventory *all, unsigned threads) {
    uint64_t total = 0;
    for (size_t i = 0; i < all->leftover_count; i++)
        total += all->leftovers[i].kind == LEFTOVER_BLOB ? all->leftovers[i].bytes : 0;
    progress_begin("sha256", total);
    int status = parallel_for(threads, all->leftover_count, verify_one, all);
    progress_end();
    return status;
}
