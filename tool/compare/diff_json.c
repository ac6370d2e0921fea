/* Prints a comparison of two models as JSON. */
#include <math.h>
#include <string.h>

#include "compare/diff.h"
#include "compare/quant_error.h"
#include "compare/relative_change.h"
#include "metadata.h"
#include "model/model_facts_json.h"
#include "remote/remote.h"
#include "view/json_out.h"

static void json_names(const char *key, const tenmap_tensor *const *list, size_t count) {
    json_key(key);
    json_open('[', false);
    for (size_t i = 0; i < count; i++)
        json_text(list[i]->name, list[i]->name_len);
    json_close();
}

static void json_value(const char *key, const tenmap_metadata *side) {
    text shown = {0};
    if (side && side->type == TENMAP_VALUE_ARRAY) {
        metadata_add_value(&shown, side, 0);
        json_key_text(key, shown.bytes, shown.len);
    } else if (side) {
        json_key_text(key, side->value, side->value_len);
    }
    text_free(&shown);
}

static void json_key_side(const tenmap_metadata *any, const tenmap_metadata *a,
                          const tenmap_metadata *b) {
    json_open('{', true);
    json_key_text("key", any->key, any->key_len);
    json_value("a", a);
    json_value("b", b);
    if (are_arrays(a, b))
        json_key_uint("from_element", metadata_first_change(a, b));
    json_close();
}

static void json_changes(const char *key, const pair *list, size_t count) {
    json_key(key);
    json_open('[', false);
    for (size_t i = 0; i < count; i++) {
        json_open('{', true);
        json_key("a");
        json_open('{', true);
        json_tensor_fields(list[i].a);
        json_close();
        json_key("b");
        json_open('{', true);
        json_tensor_fields(list[i].b);
        json_close();
        json_close();
    }
    json_close();
}

static bool same_name(const pair *p) {
    return p->a->name_len == p->b->name_len && memcmp(p->a->name, p->b->name, p->a->name_len) == 0;
}

static void json_values(const models *m) {
    json_key("values");
    json_open('[', false);
    for (size_t i = 0; i < m->pair_count; i++) {
        const pair *p = &m->pairs[i];
        const difference *d = &p->found;
        if (d->different == 0)
            continue;
        json_open('{', true);
        json_key_text("name", p->a->name, p->a->name_len);
        if (!same_name(p))
            json_key_text("name_b", p->b->name, p->b->name_len);
        json_key_uint("count", d->count);
        json_key_uint("different", d->different);
        json_key_uint("beyond_tolerance", d->beyond);
        json_key_uint("nonfinite_mismatches", d->unlike);
        if (m->pairs[i].comparable) {
            json_key_real("max_abs", d->max_abs);
            json_key_real("mean_abs", d->sum_abs / (double)d->count);
            json_key_real("max_rel", d->max_rel);
            json_key_real("mean_rel", d->sum_rel / (double)d->count);
            json_key_real("relative_change", relative_change(&m->pairs[i]));
            json_key_real("cosine", cosine_of(&m->pairs[i]));
        }
        json_close();
    }
    json_close();
}

static void json_model(const char *key, const tenmap_model *model) {
    json_key(key);
    json_open('{', false);
    json_key_text("path", shown_path(tenmap_path(model)), TENMAP_CSTR);
    model_facts_json(model);
    json_close();
}

static void json_choices(const diff_choices *chosen) {
    json_key("chosen_options");
    json_open('[', true);
    for (size_t i = 0; i < chosen->option_count; i++)
        json_text(chosen->options[i], TENMAP_CSTR);
    json_close();
    json_key("notes");
    json_open('[', false);
    for (size_t i = 0; i < chosen->note_count; i++)
        json_text(chosen->notes[i].bytes, chosen->notes[i].len);
    json_close();
}

void print_diff_json(const models *m, const diff_settings *set, bool same) {
    json_open('{', false);
    json_model("a", m->a);
    json_model("b", m->b);
    json_choices(&m->chosen);
    json_key_bool("equal", same);
    json_key_uint("in_both", m->pair_count + m->shape_count);
    json_names("only_in_a", m->found.only_a, m->found.only_a_count);
    json_names("only_in_b", m->found.only_b, m->found.only_b_count);
    json_changes("dtypes", m->dtypes, m->dtype_count);
    json_changes("shapes", m->shapes, m->shape_count);
    json_key("metadata");
    json_open('[', false);
    walk_metadata(m, json_key_side);
    json_close();
    if (!set->headers) {
        json_values(m);
        quant_error_json(m->pairs, m->pair_count);
    }
    json_close();
}
