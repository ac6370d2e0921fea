/* Turns the modules of adapters into steps for the tensors of the base, and checks them. */
#include "lora/lora_mapping.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "lora/lora_modules.h"
#include "lora/lora_shapes.h"
#include "output/output_plan.h"
#include "remote/remote.h"
#include "view/measure_progress.h"
#include "view/print.h"

const char *lora_op_name(lora_op op) {
    static const char *const names[] = {"replace", "add", "low_rank", "dora", "sum"};
    return names[op];
}

static const char *key_of(const tenmap_tensor *t) {
    return shown_name(t->name, t->name_len);
}

static lora_step *add_step(lora_mapping *m, size_t adapter, lora_op op, const tenmap_tensor *onto) {
    m->steps = need_next(m->steps, m->step_count, sizeof *m->steps);
    lora_step *step = &m->steps[m->step_count++];
    *step = (lora_step){.op = op,
                        .adapter = adapter,
                        .target = onto,
                        .name = onto->name,
                        .name_len = onto->name_len,
                        .factor = m->sources[adapter].scale,
                        .alpha = NAN};
    return step;
}

/* The value of a module's alpha tensor; NaN if it has none. */
static int read_alpha(const lora_module *module, double *out) {
    const tenmap_tensor *t = module->parts[LORA_PART_ALPHA];
    tenmap_error error;
    *out = NAN;
    if (!t)
        return EXIT_FINE;
    if (t->nelems != 1)
        return fail(EXIT_FAILED, "the adapter's alpha %s has %" PRIu64 " values instead of one",
                    key_of(t), t->nelems);
    if (tenmap_read(t, 0, 1, TENMAP_F64, out, sizeof *out, 0, &error) != TENMAP_OK)
        return fail_error(&error);
    if (!isfinite(*out))
        return fail(EXIT_FAILED, "the adapter's alpha %s is not finite", key_of(t));
    return EXIT_FINE;
}

/* PEFT scales by an alpha that the file does not have; other programs mean the rank then. */
static bool needs_alpha(const lora_source *source, const lora_module *module,
                        const tenmap_tensor *down) {
    bool alone = module->prefix->place == LORA_ANY_PLACE;
    return module->prefix->peft || source->settings.has_peft ||
           (alone && (strstr(down->name, ".lora_A") || strstr(down->name, ".lora_a") ||
                      strstr(down->name, ".lora_embedding_A")));
}

/* The factor of the module's product. */
static int find_scale(lora_source *source, const lora_module *module, const tenmap_tensor *down,
                      lora_step *step) {
    size_t n = strlen(module->prefix->text);
    lora_module_name name = {module->prefix->text, module->name + n, module->len - n,
                             module->prefix->peft};
    lora_scale scale;
    double alpha;
    int status = read_alpha(module, &alpha);
    if (!status)
        status = lora_scale_of(&source->settings, source->model, &name, step->rank, alpha, &scale);
    if (status)
        return status;
    if (scale.rank && scale.rank != step->rank)
        return fail(EXIT_FAILED,
                    "%s has the rank %" PRIu64 ", but the adapter's settings say %" PRIu64
                    ": they belong to different adapters, or rank_pattern is wrong",
                    key_of(down), step->rank, scale.rank);
    if (isnan(scale.alpha) && needs_alpha(source, module, down))
        return fail(EXIT_FAILED,
                    "'%s' lacks its alpha, without which the scale of %s is unknown: put the "
                    "adapter's adapter_config.json, with lora_alpha, next to it",
                    shown_path(tenmap_path(source->model)), key_of(down));
    if (scale.factor == 0 || !isfinite(scale.factor * source->scale))
        return fail(EXIT_FAILED, "the scale of %s is %g: alpha is %g, and the rank %" PRIu64,
                    key_of(down), scale.factor * source->scale, scale.alpha, step->rank);
    step->alpha = scale.alpha;
    step->factor = scale.factor * source->scale;
    source->rslora = source->rslora || scale.rslora;
    return EXIT_FINE;
}

static int fail_incomplete(const lora_module *module, const char *lacks) {
    return fail(EXIT_FAILED, "the adapter has %s, but %s of the same module is missing",
                key_of(module->first), lacks);
}

/* Adds the product of a module's factors. */
static int map_product(lora_mapping *m, size_t adapter, const lora_module *module,
                       lora_orientation *seen) {
    lora_source *source = &m->sources[adapter];
    bool embedding = module->parts[LORA_PART_EMBED_A] || module->parts[LORA_PART_EMBED_B];
    const tenmap_tensor *down = module->parts[embedding ? LORA_PART_EMBED_A : LORA_PART_DOWN];
    const tenmap_tensor *up = module->parts[embedding ? LORA_PART_EMBED_B : LORA_PART_UP];
    const tenmap_tensor *magnitude = module->parts[LORA_PART_MAGNITUDE];
    if (!down || !up)
        return fail_incomplete(module,
                               down ? "the second factor (B, up)" : "the first factor (A, down)");
    if (source->settings.dora && !magnitude)
        return fail_incomplete(module, "the magnitude (use_dora in adapter_config.json)");
    lora_step *step = add_step(m, adapter, magnitude ? LORA_DORA : LORA_LOW_RANK, module->weight);
    lora_fit fit = {.weight = module->weight,
                    .down = down,
                    .up = up,
                    .magnitude = magnitude,
                    .embedding = embedding,
                    .known = source->settings.has_peft,
                    .fan_in_fan_out = source->settings.fan_in_fan_out};
    int status = lora_fit_factors(&fit, seen);
    step->rank = down->rank ? down->shape[0] : 0;
    step->transposed = fit.transposed;
    step->terms[0] = fit.transposed ? down : up;
    step->terms[1] = fit.transposed ? up : down;
    step->magnitude = magnitude;
    return status ? status : find_scale(source, module, down, step);
}

static int map_sum(lora_mapping *m, size_t adapter, const tenmap_tensor *onto,
                   const tenmap_tensor *term, double factor) {
    if (!onto)
        return fail(EXIT_FAILED, "the adapter's key %s is for a bias that the base does not have",
                    key_of(term));
    int status = lora_same_shape(onto, term);
    if (status)
        return status;
    lora_step *step = add_step(m, adapter, LORA_SUM, onto);
    step->terms[0] = term;
    step->factor = factor;
    return EXIT_FINE;
}

static int map_module(lora_mapping *m, size_t adapter, const lora_module *module,
                      lora_orientation *seen) {
    static const lora_part factors[] = {LORA_PART_DOWN, LORA_PART_UP, LORA_PART_EMBED_A,
                                        LORA_PART_EMBED_B};
    const tenmap_tensor *const *parts = module->parts;
    const tenmap_tensor *bias = lora_find_bias(module->weight);
    lora_source *source = &m->sources[adapter];
    bool product = false;
    int status = EXIT_FINE;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        product = product || parts[factors[i]];
    if (!product && (parts[LORA_PART_MAGNITUDE] || parts[LORA_PART_UP_BIAS]))
        return fail_incomplete(module, "the first factor (A, down)");
    if (parts[LORA_PART_DIFF])
        status = map_sum(m, adapter, module->weight, parts[LORA_PART_DIFF], source->scale);
    if (!status && parts[LORA_PART_DIFF_BIAS])
        status = map_sum(m, adapter, bias, parts[LORA_PART_DIFF_BIAS], source->scale);
    if (!status && product)
        status = map_product(m, adapter, module, seen);
    if (!status && parts[LORA_PART_UP_BIAS])
        status =
            map_sum(m, adapter, bias, parts[LORA_PART_UP_BIAS], m->steps[m->step_count - 1].factor);
    for (size_t i = 0; i < LORA_PARTS; i++)
        source->applied += parts[i] != NULL;
    if (!status && !product && parts[LORA_PART_ALPHA]) {
        source->applied--;
        lora_ignore(source, parts[LORA_PART_ALPHA], "its module has no factors");
    }
    return status;
}

/* Tensors that are stored as they are: PEFT's modules_to_save, and biases that were trained. */

/* Removes `part`, which a dot or the end follows, from the name. */
static void remove_part(text *name, const char *part) {
    char *found = name->bytes ? strstr(name->bytes, part) : NULL;
    size_t n = strlen(part);
    if (!found || (found[n] && found[n] != '.'))
        return;
    memmove(found, found + n, name->len - (size_t)(found - name->bytes) - n + 1);
    name->len -= n;
}

static int fail_key(const lora_source *source, const tenmap_tensor *key) {
    return fail(EXIT_FAILED,
                "'%s' has the key %s, which is no part of a LoRA that this tool knows; "
                "'tenmap drop' removes keys that should not count",
                shown_path(tenmap_path(source->model)), key_of(key));
}

static int replace_tensor(lora_mapping *m, size_t adapter, const tenmap_tensor *onto,
                          const tenmap_tensor *t) {
    bool fits = onto->rank == t->rank;
    for (uint32_t i = 1; fits && i < t->rank; i++)
        fits = onto->shape[i] == t->shape[i];
    if (!fits || (t->rank < 2 && onto->nelems != t->nelems))
        return lora_same_shape(onto, t);
    if (onto->nelems != t->nelems)
        warn("%s replaces a tensor of the base and has %" PRIu64 " rows instead of %" PRIu64
             ": config.json has to say so too (vocab_size)",
             key_of(t), t->shape[0], onto->shape[0]);
    add_step(m, adapter, LORA_REPLACE, onto)->terms[0] = t;
    return EXIT_FINE;
}

static int map_whole(lora_mapping *m, size_t adapter, const tenmap_tensor *t) {
    lora_source *source = &m->sources[adapter];
    const lora_prefix *prefix = lora_prefix_of(t->name, t->name_len);
    text name = {0};
    if (strstr(t->name, ".original_module.")) {
        lora_ignore(source, t, "the module before it was trained");
        return EXIT_FINE;
    }
    if (!prefix->peft && !source->settings.has_peft) {
        if (!m->component)
            return fail_key(source, t);
        lora_ignore(source, t, "not of the --component");
        return EXIT_FINE;
    }
    text_add(&name, t->name, t->name_len);
    remove_part(&name, ".modules_to_save.default");
    remove_part(&name, ".modules_to_save");
    remove_part(&name, ".base_layer");
    const tenmap_tensor *onto = lora_find_tensor(m->names, name.bytes, name.len);
    int status = onto ? replace_tensor(m, adapter, onto, t) : EXIT_FINE;
    if (!onto) {
        lora_step *step = add_step(m, adapter, LORA_ADD, t);
        size_t len = name.len;
        const char *stripped = prefix->peft ? lora_strip_prefixes(name.bytes, &len) : name.bytes;
        step->name = step->own_name = need_copy(stripped, len);
        step->name_len = len;
        step->terms[0] = t;
    }
    source->applied++;
    text_free(&name);
    return status;
}

static const char *dialect_of(const lora_source *source, const lora_modules *modules) {
    const char *format = tenmap_shard_at(source->model, 0)->format;
    const lora_module *first = NULL;
    for (size_t i = 0; !first && i < modules->count; i++)
        first = modules->items[i].ignored ? NULL : &modules->items[i];
    if (strcmp(format, "gguf") == 0)
        return "llama.cpp";
    if (first && first->prefix->underscores)
        return "kohya";
    return !first || first->prefix->peft || source->settings.has_peft ? "PEFT" : "diffusers";
}

/* Two keys of one adapter that replace or add the same tensor: one of them would be lost. */
static int refuse_whole_twice(const lora_mapping *m, size_t first) {
    named *names = need(m->step_count - first, sizeof *names);
    size_t count = 0;
    int status = EXIT_FINE;
    for (size_t i = first; i < m->step_count; i++)
        names[count++] = (named){m->steps[i].name, m->steps[i].name_len, i};
    sort_named(names, count);
    for (size_t i = 1; i < count && !status; i++)
        if (same_named(&names[i - 1], &names[i]))
            status = fail(EXIT_FAILED,
                          "the adapter's keys %s and %s are both stored as %s; 'tenmap drop' "
                          "removes the one that should not count",
                          key_of(m->steps[names[i - 1].at].terms[0]),
                          key_of(m->steps[names[i].at].terms[0]),
                          shown_name(names[i].name, names[i].len));
    free(names);
    return status;
}

static int map_source(lora_mapping *m, size_t adapter) {
    lora_source *source = &m->sources[adapter];
    lora_orientation seen = {0};
    lora_modules modules = {0};
    size_t first = m->step_count;
    int status = lora_settings_read(source->model, &source->settings);
    if (!status)
        status = lora_modules_find(m, source, &modules);
    for (size_t i = 0; !status && i < modules.whole_count; i++)
        status = map_whole(m, adapter, modules.whole[i]);
    if (!status)
        status = refuse_whole_twice(m, first);
    for (size_t i = 0; !status && i < modules.count; i++)
        if (interrupted())
            status = fail(EXIT_INTERRUPTED, "interrupted");
        else if (!modules.items[i].ignored)
            status = map_module(m, adapter, &modules.items[i], &seen);
    if (!status)
        status = lora_check_orientation(&seen);
    source->dialect = status ? "" : dialect_of(source, &modules);
    lora_modules_free(&modules);
    return status;
}

int lora_map(lora_mapping *m) {
    int status = EXIT_FINE;
    m->names = lora_base_names_new(m->base);
    for (size_t i = 0; !status && i < m->source_count; i++)
        status = map_source(m, i);
    return status;
}

void lora_mapping_free(lora_mapping *m) {
    for (size_t i = 0; i < m->step_count; i++)
        free(m->steps[i].own_name);
    for (size_t i = 0; i < m->source_count; i++) {
        lora_settings_free(&m->sources[i].settings);
        free(m->sources[i].ignored);
    }
    lora_base_names_free(m->names);
    free(m->sources);
    free(m->steps);
}

int lora_check_values(const lora_mapping *m) {
    selection all = {.tensors = need(3 * m->step_count, sizeof *all.tensors)};
    for (size_t i = 0; i < m->step_count; i++) {
        const lora_step *s = &m->steps[i];
        const tenmap_tensor *terms[] = {s->terms[0], s->terms[1], s->magnitude};
        for (size_t k = 0; k < 3; k++)
            if (terms[k] && s->op != LORA_ADD && s->op != LORA_REPLACE)
                all.tensors[all.count++] = terms[k];
    }
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    tenmap_stats *stats = need(all.count, sizeof *stats);
    int status = all.count ? measure_selection(&all, &options, stats) : EXIT_FINE;
    for (size_t i = 0; !status && i < all.count; i++)
        if (stats[i].nans || stats[i].infinities)
            status =
                fail(EXIT_FAILED,
                     "the adapter's %s has values that are not finite (%" PRIu64 " NaN, %" PRIu64
                     " infinite): its training failed, or the file is damaged",
                     key_of(all.tensors[i]), stats[i].nans, stats[i].infinities);
    free(stats);
    free(all.tensors);
    return status;
}
