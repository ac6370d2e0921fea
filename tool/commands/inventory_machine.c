/* Prints an inventory for machines: as JSON and as tab-separated values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "commands/inventory.h"
#include "view/json_out.h"
#include "view/print.h"

void inventory_add_what(text *t, const inventory_model *m) {
    if (m->adapter.modules)
        text_add_adapter_rank(t, &m->adapter);
    else
        text_addf(t, "%s", m->kind ? m->kind : "?");
    text_addf(t, m->quantized ? ", quantized" : "");
}

bool is_damaged(const leftover *l) {
    return l->kind == LEFTOVER_BLOB && l->verdict == BLOB_WRONG;
}

static void json_hub_place(const inventory_model *m) {
    text name = {0};
    hub_place place;
    if (text_add_hub_name(&name, m->path, &place)) {
        json_key_text("model", name.bytes, place.name_len);
        json_key_text("revision", place.revision, place.revision_len);
    }
    text_free(&name);
}

static void json_groups(const inventory *all) {
    json_key("duplicates");
    json_open('[', false);
    for (size_t i = 0; i < all->group_count; i++) {
        const inventory_group *g = &all->groups[i];
        json_open('{', true);
        json_key_uint("tensors", all->models[g->first].tensors);
        json_key_uint("freed_bytes", g->freed);
        json_key("models");
        json_open('[', true);
        for (size_t k = g->first; k < all->count; k++)
            if (all->models[k].group == g->first)
                json_text(all->models[k].path, strlen(all->models[k].path));
        json_close();
        json_close();
    }
    json_close();
}

static void json_shares(const inventory *all) {
    json_key("shared");
    json_open('[', false);
    for (size_t i = 0; i < all->share_count; i++) {
        if (all->shares[i].whole)
            continue;
        json_open('{', true);
        json_key_text("a", all->models[all->shares[i].a].path, TENMAP_CSTR);
        json_key_text("b", all->models[all->shares[i].b].path, TENMAP_CSTR);
        json_key_uint("tensors", all->shares[i].tensors);
        json_key_uint("bytes", all->shares[i].bytes);
        json_close();
    }
    json_close();
}

/* Blobs are listed if they were verified. */
static void json_leftovers(const inventory *all) {
    static const char *const kinds[] = {"incomplete", "dangling", "blobs"};
    static const char *const verdicts[] = {"",           "right",     "wrong", "git_sha1_name",
                                           "other_name", "unreadable"};
    for (leftover_kind kind = LEFTOVER_INCOMPLETE; kind <= LEFTOVER_BLOB; kind++) {
        json_key(kinds[kind]);
        json_open('[', false);
        for (size_t i = 0; i < all->leftover_count; i++) {
            const leftover *l = &all->leftovers[i];
            if (l->kind != kind || (kind == LEFTOVER_BLOB && l->verdict == BLOB_UNREAD))
                continue;
            json_open('{', true);
            json_key_text("path", l->path, TENMAP_CSTR);
            json_key_uint("bytes", l->bytes);
            if (kind == LEFTOVER_BLOB)
                json_key_text("sha256", verdicts[l->verdict], TENMAP_CSTR);
            json_close();
        }
        json_close();
    }
}

void print_inventory_json(const inventory *all) {
    json_open('{', false);
    json_key_text("folder", all->top, TENMAP_CSTR);
    json_key("models");
    json_open('[', false);
    for (size_t i = 0; i < all->count; i++) {
        const inventory_model *m = &all->models[i];
        json_open('{', true);
        json_key_text("path", m->path, TENMAP_CSTR);
        json_hub_place(m);
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
    json_groups(all);
    json_shares(all);
    json_key_bool("duplicates_complete", !all->abridged);
    json_key_uint("not_compared", all->not_compared);
    json_key_uint("unreadable_folders", all->unreadable);
    json_leftovers(all);
    json_close();
}

static void print_tsv_cell(const char *cell, size_t len, bool last) {
    print_safe(stdout, cell, len);
    putchar(last ? '\n' : '\t');
}

static void print_model_tsv(const inventory_model *m) {
    text name = {0}, what = {0};
    hub_place place = {0};
    (void)text_add_hub_name(&name, m->path, &place);
    inventory_add_what(&what, m);
    print_tsv_cell(m->path, strlen(m->path), false);
    print_tsv_cell(name.len ? name.bytes : "", place.name_len, false);
    print_tsv_cell(name.len ? place.revision : "", place.revision_len, false);
    printf("%s\t", m->broken ? "broken" : "model");
    print_tsv_cell(m->broken ? "" : what.bytes, m->broken ? 0 : what.len, false);
    print_tsv_cell(m->dtype ? m->dtype : "", m->dtype ? strlen(m->dtype) : 0, false);
    printf("%" PRIu64 "\t%zu\t%" PRIu64 "\n", m->params, m->tensors, m->bytes);
    text_free(&name);
    text_free(&what);
}

/* Duplicates are not in it: they are about several rows. */
void print_inventory_tsv(const inventory *all) {
    static const char *const kinds[] = {"incomplete", "dangling", "blob"};
    puts("path\tmodel\trevision\tstate\twhat\tdtype\tparams\ttensors\tbytes");
    for (size_t i = 0; i < all->count; i++)
        print_model_tsv(&all->models[i]);
    for (size_t i = 0; i < all->leftover_count; i++) {
        const leftover *l = &all->leftovers[i];
        if (l->kind == LEFTOVER_BLOB && !is_damaged(l))
            continue;
        print_tsv_cell(l->path, strlen(l->path), false);
        printf("\t\t%s\t\t\t\t\t%" PRIu64 "\n", is_damaged(l) ? "damaged" : kinds[l->kind],
               l->bytes);
    }
}
