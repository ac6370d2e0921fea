/* Reports what an output has, or with --dry-run would have: totals, changes, losses. */
#include "output/output_write.h"

#include <stdio.h>
#include <string.h>

#include "model/dequantized_weights.h"
#include "output/conversion_losses.h"
#include "output/gguf_origin.h"
#include "output/output_target.h"
#include "output/shared_tensors.h"
#include "view/json_out.h"
#include "view/print.h"

static uint64_t bytes_of_inputs(const plan *p) {
    uint64_t bytes = 0;
    for (size_t m = 0; m < p->model_count; m++)
        for (size_t i = 0; i < tenmap_count(p->models[m]); i++)
            bytes += stored_bytes(tenmap_at(p->models[m], i));
    return bytes;
}

/*
 * Counts shards by the rule of tenmap_save_sharded, which reveals their number only by writing
 * them.
 */
output_totals plan_totals(const plan *p, const target *to) {
    output_totals sum = {.shards = 1};
    uint64_t used = 0;
    for (size_t i = 0; i < p->count; i++) {
        uint64_t bytes = plan_bytes(p, i);
        const tenmap_tensor *origin = plan_origin(p, i);
        sum.before += origin ? stored_bytes(origin) : 0;
        sum.read += stored_bytes(p->sources[i].tensor);
        sum.after += bytes;
        sum.rounded += plan_rounds(p, i);
        sum.converted += plan_converts(p, i) && !is_dequantized(p->sources[i].tensor);
        sum.dequantized += is_dequantized(p->sources[i].tensor);
        sum.quantized += plan_is_quantized(p, i) && origin;
        sum.renamed += p->sources[i].name != NULL && !plan_is_quantized(p, i);
        if (to->folder && used > 0 && (bytes > to->max_shard || used > to->max_shard - bytes)) {
            sum.shards++;
            used = 0;
        }
        used += bytes;
    }
    if (p->rearranged) /* its tensors are parts of others */
        sum.before = sum.read = bytes_of_inputs(p);
    return sum;
}

static void json_names(const char *key, char *const *names, size_t count) {
    json_key(key);
    json_open('[', true);
    for (size_t i = 0; i < count; i++)
        json_text(names[i], TENMAP_CSTR);
    json_close();
}

static void json_config(const companion_files *copied) {
    if (!copied->config.count && !copied->obsolete_count)
        return;
    json_key("config");
    json_open('{', true);
    json_key_bool("changed", copied->config_changed);
    json_key("edits");
    json_open('[', true);
    for (size_t i = 0; i < copied->config.count; i++) {
        const struct config_edit *edit = &copied->config.items[i];
        json_open('{', true);
        json_key_text("key", edit->key, TENMAP_CSTR);
        json_key_text("action", edit->action, TENMAP_CSTR);
        if (edit->value)
            json_key_text("value", edit->value, TENMAP_CSTR);
        else if (edit->number)
            json_key_uint("value", edit->number);
        json_close();
    }
    json_close();
    if (copied->obsolete_count)
        json_names("obsolete_files", copied->obsolete, copied->obsolete_count);
    json_close();
}

void plan_report_json(const plan *p, const output_settings *out, const target *to,
                      const output_totals *sum, const companion_files *copied) {
    json_open('{', false);
    json_key_text("output", out->path, TENMAP_CSTR);
    json_key_bool("written", !out->dry_run);
    json_key_uint("files", sum->shards);
    json_key_uint("tensors", p->count);
    json_key_uint("converted", sum->converted);
    if (sum->dequantized)
        json_key_uint("dequantized", sum->dequantized);
    if (sum->quantized)
        json_key_uint("quantized_weights", sum->quantized);
    json_key_uint("renamed", sum->renamed);
    json_key_uint("bytes_before", sum->before);
    json_key_uint("bytes_after", sum->after);
    json_key("changes");
    json_open('[', false);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        bool changes = plan_converts(p, i) || is_dequantized(s->tensor);
        if ((!changes && !s->name) || plan_is_quantized(p, i))
            continue;
        json_open('{', true);
        json_key_text("name", s->tensor->name, s->tensor->name_len);
        if (s->name)
            json_key_text("new_name", s->name, s->name_len);
        if (changes) {
            json_key_text("dtype", stored_as(s->tensor), TENMAP_CSTR);
            json_key_text("new_dtype", tenmap_dtype_name(plan_dtype(p, i)), TENMAP_CSTR);
            if (p->losses) {
                json_key_uint("overflowed", p->losses[i].overflowed);
                json_key_uint("flushed", p->losses[i].flushed);
                json_key_uint("nans", p->losses[i].nans);
            }
        }
        json_close();
    }
    json_close();
    if (copied->count)
        json_names("copied", copied->names, copied->count);
    json_config(copied);
    gguf_origin_json(p);
    left_out_json(p);
    if (p->losses)
        losses_json(p);
    if (p->report)
        p->report(p, to, true);
    json_close();
}

void plan_print_renames(const plan *p) {
    static const column columns[] = {{"NAME", false, true}, {"NEW NAME", false, false}};
    table *t = table_new(columns, 2);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        if (!s->name)
            continue;
        text_add_safe(table_cell(t), s->tensor->name, s->tensor->name_len);
        table_end_cell(t, STYLE_NONE);
        text_add_safe(table_cell(t), s->name, s->name_len);
        table_end_cell(t, STYLE_YELLOW);
    }
    table_print(t);
    table_free(t);
}

static void print_tensors(const plan *p) {
    static const column columns[] = {{"NAME", false, true},
                                     {"DTYPE", false, false},
                                     {"SHAPE", false, false},
                                     {"SIZE", true, false}};
    table *t = table_new(columns, 4);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        const tenmap_tensor *origin = plan_origin(p, i);
        size_t len;
        const char *name = plan_name(p, i, &len);
        text_add_safe(table_cell(t), name, len);
        table_end_cell(t, STYLE_NONE);
        if (plan_is_quantized(p, i) && origin)
            table_put(t, STYLE_YELLOW, "%s → %s", stored_as(origin), p->quantized_scheme);
        else if (plan_converts(p, i) || is_dequantized(s->tensor))
            table_put(t, STYLE_YELLOW, "%s → %s", stored_as(s->tensor),
                      tenmap_dtype_name(plan_dtype(p, i)));
        else
            table_put(t, STYLE_CYAN, "%s", tenmap_dtype_text(s->tensor));
        text_add_shape(table_cell(t), s->tensor);
        table_end_cell(t, STYLE_NONE);
        text_add_bytes(table_cell(t), plan_bytes(p, i));
        table_end_cell(t, STYLE_NONE);
    }
    table_print(t);
    table_free(t);
}

/* Prints how config.json was changed, or must be changed. */
static void print_config(const output_settings *out, const companion_files *copied) {
    text line = {0};
    if (!copied->config.count && !copied->obsolete_count)
        return;
    if (copied->config_changed)
        text_addf(&line, "%sconfig.json: ", out->dry_run ? "would change " : "");
    else
        text_addf(&line, "%s; the output needs one with ", copied->config_why);
    text_add_config_edits(&line, &copied->config);
    for (size_t i = 0; i < copied->obsolete_count; i++)
        text_addf(&line, "%s%s is out of date", i || copied->config.count ? "; " : "",
                  copied->obsolete[i]);
    print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
    text_free(&line);
}

void plan_report_text(const plan *p, const output_settings *out, const target *to,
                      const output_totals *sum, const companion_files *copied) {
    text line = {0};
    if (out->dry_run && sum->renamed)
        plan_print_renames(p);
    else if (out->dry_run && p->count)
        print_tensors(p);
    if (p->report)
        p->report(p, to, false);
    losses_print(p);
    text_addf(&line, "%s ", out->dry_run ? "would write" : "wrote");
    text_add_safe(&line, to->path, strlen(to->path));
    if (sum->shards > 1)
        text_addf(&line, " in %zu shards", sum->shards);
    text_add(&line, ": ", 2);
    text_add_grouped(&line, p->count);
    if (p->count < p->input_tensors && !p->rearranged) {
        text_add(&line, " of ", 4);
        text_add_grouped(&line, p->input_tensors);
    }
    text_addf(&line, " tensor%s", p->count == 1 && p->input_tensors <= 1 ? "" : "s");
    if (sum->converted)
        text_addf(&line, ", %zu converted", sum->converted);
    if (sum->dequantized)
        text_addf(&line, ", %zu dequantized", sum->dequantized);
    if (sum->quantized)
        text_addf(&line, ", %zu quantized", sum->quantized);
    if (sum->renamed)
        text_addf(&line, ", %zu renamed", sum->renamed);
    text_add(&line, ", ", 2);
    if (sum->after != sum->before) {
        text_add_bytes(&line, sum->before);
        text_add(&line, " → ", 5);
    }
    text_add_bytes(&line, sum->after);
    puts(line.bytes);
    text_clear(&line);
    for (size_t i = 0; i < copied->count; i++) {
        text_addf(&line, i ? ", " : out->dry_run ? "would copy " : "copied ");
        text_add_safe(&line, copied->names[i], strlen(copied->names[i]));
    }
    if (line.len)
        puts(line.bytes);
    print_config(out, copied);
    gguf_origin_print(p);
    left_out_print(p);
    text_free(&line);
}
