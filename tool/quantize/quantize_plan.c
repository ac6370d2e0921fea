/*
 * Chooses the weights to quantize, adds their parts to the plan, writes quantization_config and
 * reports losses.
 */
#include "quantize/quantize_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "compare/quant_error.h"
#include "view/json_out.h"
#include "tensor_patterns.h"

static bool ends_weight(const char *name, size_t len) {
    return len > 7 && memcmp(name + len - 7, ".weight", 7) == 0;
}

bool stays_by_default(const tenmap_tensor *t) {
    static const char *const patterns[] = {
        "*embed*",
        "*norm*",
        "*ln_*",
        "*wte.*",
        "*wpe.*",
        "lm_head.*",
        "*.lm_head.*",
        "output.weight",
        "*router*",
        "*.gate.weight",
        "*shared_expert_gate*",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (glob_match(patterns[i], t->name, t->name_len))
            return true;
    return false;
}

/*
 * Weights that vLLM joins into one, which then must all be quantized or all be kept. NULL ends each
 * list.
 */
static const char *const joined_modules[][4] = {
    {"q_proj", "k_proj", "v_proj", NULL},
    {"gate_proj", "up_proj", NULL},
    {"w1", "w3", NULL},
    {"q_a_proj", "kv_a_proj_with_mqa", NULL},
};

/*
 * transformers derives the size of a block from the number of scales, which is wrong if a dimension
 * ends inside a block: it refuses the weight, or scales it wrongly. vLLM refuses such weights where
 * it joins them.
 */
static bool has_whole_blocks(const tenmap_tensor *t) {
    return t->rank == 2 && t->shape[0] % QUANTIZE_BLOCK == 0 && t->shape[1] % QUANTIZE_BLOCK == 0;
}

/* Whether each weight of the list that is in the module `parent` has whole blocks. */
static bool all_have_whole_blocks(const tenmap_model *model, const char *const *list,
                                  const char *parent, size_t len) {
    text name = {0};
    bool whole = true;
    for (; *list && whole; list++) {
        text_clear(&name);
        text_add(&name, parent, len);
        text_addf(&name, "%s.weight", *list);
        const tenmap_tensor *t = tenmap_find_n(model, name.bytes, name.len);
        whole = !t || has_whole_blocks(t);
    }
    text_free(&name);
    return whole;
}

bool is_refused_by_loaders(quantize_scheme scheme, const tenmap_tensor *t) {
    if (scheme != QUANTIZE_FP8_BLOCK || t->rank != 2 || !ends_weight(t->name, t->name_len))
        return false;
    size_t end = t->name_len - 7, begin = end;
    while (begin && t->name[begin - 1] != '.')
        begin--;
    for (size_t i = 0; i < sizeof joined_modules / sizeof joined_modules[0]; i++)
        for (const char *const *word = joined_modules[i]; *word; word++)
            if (strlen(*word) == end - begin && !memcmp(t->name + begin, *word, end - begin))
                return !all_have_whole_blocks(t->model, joined_modules[i], t->name, begin);
    return !has_whole_blocks(t);
}

/* Whether loaders would refuse the source, which could be quantized otherwise. */
static bool was_kept_for_loaders(const plan *p, size_t source, quantize_scheme scheme) {
    const tenmap_tensor *t = p->sources[source].tensor;
    return !plan_is_quantized(p, source) && !stays_by_default(t) && !quantize_obstacle(scheme, t) &&
           is_refused_by_loaders(scheme, t);
}

void refused_print(const plan *p, quantize_scheme scheme) {
    size_t count = 0, first = 0;
    text line = {0};
    for (size_t i = p->count; i-- > 0;)
        if (was_kept_for_loaders(p, i, scheme)) {
            first = i;
            count++;
        }
    if (!count)
        return;
    const tenmap_tensor *t = p->sources[first].tensor;
    text_addf(&line, "%zu weight%s, such as ", count,
              count == 1 ? " stays as it is" : "s stay as they are");
    text_add_safe(&line, t->name, t->name_len);
    text_add(&line, " ", 1);
    text_add_shape(&line, t);
    text_addf(&line, ": transformers and vLLM refuse or misread fp8-block weights whose dimensions "
                     "are not multiples of 128, and vLLM joins them with others, which then stay "
                     "too; --rule 'NAME=quantize' quantizes them anyway");
    print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
    text_free(&line);
}

void refused_json(const plan *p, quantize_scheme scheme) {
    json_key("kept_for_loaders");
    json_open('[', true);
    for (size_t i = 0; i < p->count; i++)
        if (was_kept_for_loaders(p, i, scheme))
            json_text(p->sources[i].tensor->name, p->sources[i].tensor->name_len);
    json_close();
}

size_t count_unfit(const plan *p, quantize_scheme scheme, const char **why) {
    size_t count = 0;
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_tensor *t = p->sources[i].tensor;
        size_t len;
        const char *name = plan_name(p, i, &len);
        if (plan_is_quantized(p, i) || t->rank < 2 || stays_by_default(t) ||
            !ends_weight(name, len))
            continue;
        const char *obstacle = quantize_obstacle(scheme, t);
        if (obstacle && !count)
            *why = obstacle;
        count += obstacle != NULL;
    }
    return count;
}

void plan_own_quantized(plan *p, const quantizer *q) {
    p->models = need_more(p->models, p->model_count + 1, sizeof *p->models);
    p->models[p->model_count++] = q->model;
    p->quantized_model = q->model;
    p->quantized_scheme = quantize_name(q->scheme);
}

void plan_add_parts(plan *p, const quantizer *q, size_t weight) {
    for (unsigned part = 0; part < 2; part++) {
        size_t len;
        char *name = quantizer_part_name(q, weight, part, &len);
        plan_add(p, quantizer_part(q, weight, part));
        plan_rename(p, p->count - 1, name, len);
        p->origins = need_more(p->origins, p->count, sizeof *p->origins);
        p->origins[p->count - 1] = part ? NULL : q->weights[weight].from;
    }
}

static bool is_quantized_by_default(const plan *p, size_t source, quantize_scheme scheme) {
    const tenmap_tensor *t = p->sources[source].tensor;
    size_t len;
    const char *name = plan_name(p, source, &len);
    return ends_weight(name, len) && !stays_by_default(t) && !quantize_obstacle(scheme, t) &&
           !is_refused_by_loaders(scheme, t);
}

int plan_quantize_sources(plan *p, quantizer *q) {
    tenmap_source *before = p->sources;
    size_t count = p->count, next = 0;
    for (size_t i = 0; i < count; i++)
        if (is_quantized_by_default(p, i, q->scheme))
            quantizer_add(q, before[i].tensor);
    if (!q->count)
        return fail(EXIT_FAILED,
                    "no weight can be quantized to %s: a name that ends in .weight, "
                    "two dimensions that fit, F64, F32, F16 or BF16",
                    quantize_name(q->scheme));
    int status = quantizer_measure(q);
    if (!status)
        status = quantizer_open(q);
    if (status)
        return status;
    p->sources = NULL;
    p->count = p->room = 0;
    plan_own_quantized(p, q);
    for (size_t i = 0; i < count; i++) {
        if (next < q->count && q->weights[next].from == before[i].tensor) {
            plan_add_parts(p, q, next++);
            continue;
        }
        plan_add(p, before[i].tensor);
        p->sources[p->count - 1] = before[i];
    }
    free(before);
    return EXIT_FINE;
}

/* config.json. */

void plan_quantize_config(const plan *p, const quantizer *q, text *out) {
    static const char head[] = "lm_head";
    const char **kept = need(p->count + 1, sizeof *kept);
    size_t *lens = need(p->count + 1, sizeof *lens), count = 0;
    bool head_known = false;
    for (size_t i = 0; i < p->count; i++) {
        size_t len;
        const char *name = plan_name(p, i, &len);
        bool quantized = plan_is_quantized(p, i);
        size_t stem = strlen(head);
        bool is_head = len > stem && memcmp(name, head, stem) == 0 && name[stem] == '.';
        head_known = head_known || is_head;
        if (!quantized && p->sources[i].tensor->rank == 2 && ends_weight(name, len) &&
            !glob_match("*embed*", name, len) && !glob_match("*norm*", name, len)) {
            kept[count] = name;
            lens[count++] = len - 7;
        }
    }
    if (!head_known) { /* it is tied to the embedding, but still counts as a layer */
        kept[count] = head;
        lens[count++] = strlen(head);
    }
    quantize_config(q->scheme, kept, lens, count, out);
    free(kept);
    free(lens);
}

/* Reporting. */

static double error_of(const quantize_loss *l) {
    return l->norm > 0 ? sqrt(l->squares / l->norm) : 0;
}

static int by_error(const void *a, const void *b) {
    const quantized_weight *const *x = a, *const *y = b;
    double left = error_of(&(*x)->lost), right = error_of(&(*y)->lost);
    if (left != right)
        return left > right ? -1 : 1;
    return (*x > *y) - (*x < *y);
}

static void put_weight(table *t, const quantized_weight *w) {
    const quantize_loss *l = &w->lost;
    text_add_safe(table_cell(t), w->from->name, w->from->name_len);
    table_end_cell(t, STYLE_NONE);
    table_put(t, STYLE_NONE, "%.4g", error_of(l));
    text_add_snr(table_cell(t), error_of(l));
    table_end_cell(t, STYLE_NONE);
    table_put(t, STYLE_NONE, "%.4g", l->largest);
    text_add_grouped(table_cell(t), l->overflowed);
    table_end_cell(t, l->overflowed ? STYLE_RED : STYLE_DIM);
    text_add_grouped(table_cell(t), l->flushed);
    table_end_cell(t, STYLE_NONE);
}

/* "425,961 (0.4%)"; a count of zero needs no share. */
static void add_share(text *line, uint64_t part, uint64_t whole) {
    text_add_grouped(line, part);
    if (!part)
        return;
    text_addf(line, " (");
    text_add_percent(line, part, whole);
    text_add(line, ")", 1);
}

void quantize_print(const quantizer *q) {
    enum { MOST_SHOWN = 5 };
    static const column columns[] = {
        {"NAME", false, COLUMN_SHRINKS},    {"REL ERROR", true, COLUMN_STAYS},
        {"SNR", true, COLUMN_STAYS},        {"LARGEST", true, COLUMN_STAYS},
        {"OVERFLOWED", true, COLUMN_STAYS}, {"TO ZERO", true, COLUMN_STAYS}};
    const quantized_weight **list = need(q->count, sizeof *list);
    text line = {0};
    uint64_t elements = 0;
    for (size_t i = 0; i < q->count; i++) {
        list[i] = &q->weights[i];
        elements += q->weights[i].from->nelems;
    }
    qsort(list, q->count, sizeof *list, by_error);
    table *t = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < q->count && i < MOST_SHOWN; i++)
        put_weight(t, list[i]);
    table_print(t);
    table_free(t);
    free(list);
    if (q->count > MOST_SHOWN)
        printf("and %zu more that lose less\n", q->count - MOST_SHOWN);
    text_addf(&line, "%zu weight%s in %s: relative error %.4g, SNR ", q->count,
              q->count == 1 ? "" : "s", quantize_name(q->scheme), error_of(&q->lost));
    text_add_snr(&line, error_of(&q->lost));
    text_addf(&line, ", largest error %.4g; ", q->lost.largest);
    add_share(&line, q->lost.overflowed, elements);
    text_addf(&line, " overflowed, ");
    add_share(&line, q->lost.flushed, elements);
    text_addf(&line, " became zero");
    if (q->lost.nans) {
        text_addf(&line, ", ");
        text_add_grouped(&line, q->lost.nans);
        text_addf(&line, q->lost.nans == 1 ? " was NaN" : " were NaN");
    }
    print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
    text_free(&line);
}

static void json_loss(const quantize_loss *l) {
    json_key_real("relative_error", error_of(l));
    json_key_real("snr_db", snr_of(error_of(l)));
    json_key_real("max_abs", l->largest);
    json_key_uint("overflowed", l->overflowed);
    json_key_uint("flushed", l->flushed);
    json_key_uint("nans", l->nans);
}

void quantize_json(const quantizer *q) {
    json_key("quantization_error");
    json_open('{', false);
    json_key_text("scheme", quantize_name(q->scheme), TENMAP_CSTR);
    json_loss(&q->lost);
    json_key("weights");
    json_open('[', false);
    for (size_t i = 0; i < q->count; i++) {
        json_open('{', true);
        json_key_text("name", q->weights[i].from->name, q->weights[i].from->name_len);
        json_loss(&q->weights[i].lost);
        json_close();
    }
    json_close();
    json_close();
}
