/* Checks new names for the tensors of a file, alone and all together. No I/O. */
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <stdlib.h>
#include <string.h>

/* Reports a refused renaming. */
#define FAIL_RENAME(c, status, number, format, ...)                                                \
    fail_rename(c, number,                                                                         \
                tmi_fail((c)->error, status, "%s: renaming %llu: " format,                         \
                         tmi_quote_path((c)->shown).text, (ull)(number), __VA_ARGS__))

typedef struct rename_check {
    tmi_renames *out;
    const tenmap_model *model;
    const char *shown;
    tenmap_error *error;
} rename_check;

static tenmap_status fail_rename(const rename_check *c, size_t number, tenmap_status status) {
    if (c->error)
        c->error->index = number;
    return status;
}

/* Checks the new name by itself. */
static tenmap_status check_new_name(const rename_check *c, const tmi_rename *r, size_t number) {
    size_t valid = tmi_utf8_valid(r->to, r->to_len);
    if (valid != r->to_len)
        return FAIL_RENAME(c, TENMAP_ERR_ARGUMENT, number,
                           "the new name %s is not valid UTF-8 at its byte %llu",
                           tmi_quote(r->to, r->to_len).text, (ull)valid);
    if (r->to_len == 12 && memcmp(r->to, "__metadata__", 12) == 0)
        return FAIL_RENAME(c, TENMAP_ERR_ARGUMENT, number,
                           "tensor %s cannot be called \"__metadata__\": the format reserves that "
                           "name for metadata",
                           tmi_quote(r->name, r->name_len).text);
    return TENMAP_OK;
}

static tenmap_status add_rename(const rename_check *c, const tenmap_renaming *given,
                                size_t number) {
    tmi_renames *all = c->out;
    if (!given->name || !given->new_name)
        return FAIL_RENAME(c, TENMAP_ERR_ARGUMENT, number, "the %s is NULL",
                           given->name ? "new name" : "name");
    tmi_rename *r = &all->items[number];
    *r = (tmi_rename){given->name, given->name_len, given->new_name, given->new_name_len};
    if (r->name_len == TENMAP_CSTR)
        r->name_len = strlen(r->name);
    if (r->to_len == TENMAP_CSTR)
        r->to_len = strlen(r->to);
    if (!tenmap_find_n(c->model, r->name, r->name_len))
        return FAIL_RENAME(c, TENMAP_ERR_NOT_FOUND, number, "there is no tensor %s",
                           tmi_quote(r->name, r->name_len).text);
    uint64_t hash = tmi_hash(&all->names.key, r->name, r->name_len);
    if (tmi_names_put(&all->names, number, hash) != TMI_NONE)
        return FAIL_RENAME(c, TENMAP_ERR_ARGUMENT, number, "tensor %s is renamed twice",
                           tmi_quote(r->name, r->name_len).text);
    all->count = number + 1;
    all->changes += r->to_len != r->name_len || memcmp(r->to, r->name, r->to_len) != 0;
    return check_new_name(c, r, number);
}

/* The future name of a tensor. Starts with the fields that tmi_names requires. */
typedef struct later_name {
    const char *name;
    size_t len;
    size_t renaming; /* TMI_NONE: it keeps its name */
} later_name;

static later_name name_later(const tmi_renames *all, const tenmap_tensor *t) {
    uint64_t hash = tmi_hash(&all->names.key, t->name, t->name_len);
    size_t at = tmi_names_find(&all->names, t->name, t->name_len, hash);
    if (at == TMI_NONE)
        return (later_name){t->name, t->name_len, TMI_NONE};
    return (later_name){all->items[at].to, all->items[at].to_len, at};
}

/*
 * Reports that two tensors would have the same name. The names in the file differ, because it
 * opened, so at least one of the two is renamed.
 */
static tenmap_status fail_duplicate_rename(const rename_check *c, const later_name *later, size_t a,
                                           size_t b) {
    const tenmap_tensor *x = tenmap_at(c->model, a), *y = tenmap_at(c->model, b);
    size_t number = later[b].renaming != TMI_NONE ? later[b].renaming : later[a].renaming;
    return FAIL_RENAME(c, TENMAP_ERR_ARGUMENT, number, "%s and %s would both be called %s",
                       tmi_quote(x->name, x->name_len).text, tmi_quote(y->name, y->name_len).text,
                       tmi_quote(later[b].name, later[b].len).text);
}

static tenmap_status enter_later(const rename_check *c, later_name *later, tmi_names *names) {
    for (size_t i = 0; i < tenmap_count(c->model); i++) {
        later[i] = name_later(c->out, tenmap_at(c->model, i));
        size_t twin = tmi_names_put(names, i, tmi_hash(&names->key, later[i].name, later[i].len));
        if (twin != TMI_NONE)
            return fail_duplicate_rename(c, later, twin, i);
    }
    return TENMAP_OK;
}

/* Checks that all future names differ. */
static tenmap_status check_later(const rename_check *c) {
    size_t count = tenmap_count(c->model);
    later_name *later = tmi_calloc(count, sizeof *later);
    tmi_names names = {.slots = NULL};
    tenmap_status status;
    if (!later || !tmi_names_init(&names, &c->out->names.key, later, sizeof *later, count))
        status = tmi_fail_memory(c->error, count, "the new names");
    else
        status = enter_later(c, later, &names);
    tmi_names_free(&names);
    free(later);
    return status;
}

tenmap_status tmi_renames_take(tmi_renames *renames, const tenmap_model *model, const char *shown,
                               const tenmap_renaming *given, size_t n, tenmap_error *error) {
    rename_check check = {renames, model, shown, error};
    tmi_hash_key key = tmi_hash_key_new(); /* names may come from untrusted files */
    tenmap_status status = TENMAP_OK;
    *renames = (tmi_renames){.items = NULL};
    if (n == 0)
        return TENMAP_OK;
    /*
     * At most one more than the number of tensors can be needed: that one is refused, however many
     * follow.
     */
    size_t most = tenmap_count(model) < n ? tenmap_count(model) + 1 : n;
    renames->items = tmi_calloc(most, sizeof *renames->items);
    if (!renames->items ||
        !tmi_names_init(&renames->names, &key, renames->items, sizeof *renames->items, most))
        return tmi_fail_memory(error, most, "the new names");
    for (size_t i = 0; status == TENMAP_OK && i < n; i++)
        status = add_rename(&check, &given[i], i);
    return status == TENMAP_OK ? check_later(&check) : status;
}

void tmi_renames_free(tmi_renames *renames) {
    tmi_names_free(&renames->names);
    free(renames->items);
    *renames = (tmi_renames){.items = NULL};
}

#endif
