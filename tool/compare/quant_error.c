/* Reports the quantization error of weights: relative error and signal-to-noise ratio. */
#include "compare/quant_error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/relative_change.h"
#include "command.h"
#include "model/dequantized_weights.h"
#include "view/json_out.h"
#include "view/print.h"

bool is_quantized_pair(const pair *p) {
    return is_dequantized(p->a) || is_dequantized(p->b);
}

double snr_of(double relative_error) {
    return relative_error > 0 ? -20 * log10(relative_error) : (double)INFINITY;
}

void text_add_snr(text *t, double relative_error) {
    if (relative_error > 0)
        text_addf(t, "%.1f dB", snr_of(relative_error));
    else
        text_addf(t, "exact");
}

/*
 * The pairs that measure quantization error, different or not, in their order. The caller frees the
 * list.
 */
static pair *quant_error_pairs(const pair *pairs, size_t count, size_t *found, size_t *different) {
    pair *list = need(count, sizeof *list);
    *found = *different = 0;
    for (size_t i = 0; i < count; i++)
        if (is_quantized_pair(&pairs[i])) {
            *different += pairs[i].found.beyond > 0;
            list[(*found)++] = pairs[i];
        }
    return list;
}

/* Sums all pairs as one kind. Equal pairs have no norm here and are left out. */
static change_kind sum_of(const pair *pairs, size_t count) {
    change_kind all = {0};
    for (size_t i = 0; i < count; i++) {
        const difference *d = &pairs[i].found;
        if (!d->different || isnan(relative_change(&pairs[i])))
            continue;
        all.tensors++;
        all.squares += d->sum_squares;
        all.norm += pairs[i].norm_a * pairs[i].norm_a;
        all.max_abs = fmax(all.max_abs, d->max_abs);
    }
    return all;
}

static void put_error(table *t, double error) {
    if (isnan(error)) {
        table_put(t, STYLE_DIM, "-");
        table_put(t, STYLE_DIM, "-");
        return;
    }
    table_put(t, STYLE_NONE, "%.4g", error);
    text_add_snr(table_cell(t), error);
    table_end_cell(t, STYLE_NONE);
}

static void put_quant_error(table *t, const pair *p) {
    const difference *d = &p->found;
    text_add_safe(table_cell(t), p->a->name, p->a->name_len);
    table_end_cell(t, STYLE_NONE);
    table_put(t, STYLE_CYAN, "%s", stored_as(p->a));
    table_put(t, STYLE_CYAN, "%s", stored_as(p->b));
    put_error(t, relative_change(p));
    if (d->unlike || !p->comparable)
        table_put(t, STYLE_RED, "%s", d->unlike ? "NaN/Inf" : "bytes");
    else
        table_put(t, STYLE_NONE, "%.4g", d->max_abs);
    table_put(t, STYLE_NONE, "%.4g", d->count ? d->sum_abs / (double)d->count : 0.0);
}

static void print_quant_error_kinds(const pair *pairs, size_t count) {
    static const column columns[] = {{"KIND", false, COLUMN_SHRINKS},
                                     {"TENSORS", true, COLUMN_STAYS},
                                     {"REL ERROR", true, COLUMN_STAYS},
                                     {"SNR", true, COLUMN_STAYS},
                                     {"LARGEST", true, COLUMN_STAYS}};
    size_t kinds_count;
    change_kind *kinds = change_kinds(pairs, count, false, &kinds_count);
    if (kinds_count) {
        table *t = table_new(columns, sizeof columns / sizeof columns[0]);
        printf("%sby kind of layer:%s\n", paint(STYLE_BOLD), paint_end());
        for (size_t i = 0; i < kinds_count; i++) {
            text_add_safe(table_cell(t), kinds[i].name, strlen(kinds[i].name));
            table_end_cell(t, STYLE_NONE);
            table_put(t, STYLE_NONE, "%zu", kinds[i].tensors);
            put_error(t, kind_change(&kinds[i]));
            table_put(t, STYLE_NONE, "%.4g", kinds[i].max_abs);
        }
        table_print(t);
        table_free(t);
    }
    free_kinds(kinds, kinds_count);
}

size_t print_quant_error(const pair *pairs, size_t count, size_t most) {
    static const column columns[] = {
        {"NAME", false, COLUMN_SHRINKS}, {"A", false, COLUMN_STAYS},
        {"B", false, COLUMN_STAYS},      {"REL ERROR", true, COLUMN_STAYS},
        {"SNR", true, COLUMN_STAYS},     {"LARGEST", true, COLUMN_STAYS},
        {"MEAN ABS", true, COLUMN_SPARE}};
    size_t found, different, shown = 0;
    pair *list = quant_error_pairs(pairs, count, &found, &different);
    if (different) {
        table *t = table_new(columns, sizeof columns / sizeof columns[0]);
        for (size_t i = 0; i < found && shown < most; i++)
            if (list[i].found.beyond) {
                put_quant_error(t, &list[i]);
                shown++;
            }
        table_print(t);
        table_free(t);
        if (different > shown)
            printf("and %zu more that lost less (--top %zu shows all)\n", different - shown,
                   different);
        print_quant_error_kinds(list, found);
        change_kind all = sum_of(list, found);
        text line = {0};
        text_addf(&line, "quantization of %zu weight%s: relative error %.4g, SNR ", all.tensors,
                  all.tensors == 1 ? "" : "s", kind_change(&all));
        text_add_snr(&line, kind_change(&all));
        text_addf(&line, ", largest error %.4g", all.max_abs);
        print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
        text_free(&line);
    }
    free(list);
    return different;
}

static void json_quant_error(const change_kind *kind) {
    double error = kind_change(kind);
    json_key_uint("tensors", kind->tensors);
    json_key_real("relative_error", error);
    json_key_real("snr_db", snr_of(error));
    json_key_real("max_abs", kind->max_abs);
}

void quant_error_json(const pair *pairs, size_t count) {
    size_t found, different, kinds_count;
    pair *list = quant_error_pairs(pairs, count, &found, &different);
    if (different) {
        change_kind all = sum_of(list, found);
        change_kind *kinds = change_kinds(list, found, false, &kinds_count);
        json_key("quantization_error");
        json_open('{', false);
        json_quant_error(&all);
        json_key("weights");
        json_open('[', false);
        for (size_t i = 0; i < found; i++) {
            const pair *p = &list[i];
            if (!p->found.different)
                continue;
            json_open('{', true);
            json_key_text("name", p->a->name, p->a->name_len);
            json_key_text("a", stored_as(p->a), TENMAP_CSTR);
            json_key_text("b", stored_as(p->b), TENMAP_CSTR);
            json_key_real("relative_error", relative_change(p));
            json_key_real("snr_db", snr_of(relative_change(p)));
            json_key_real("max_abs", p->found.max_abs);
            json_close();
        }
        json_close();
        json_key("kinds");
        json_open('[', false);
        for (size_t i = 0; i < kinds_count; i++) {
            json_open('{', true);
            json_key_text("kind", kinds[i].name, TENMAP_CSTR);
            json_quant_error(&kinds[i]);
            json_close();
        }
        json_close();
        json_close();
        free_kinds(kinds, kinds_count);
    }
    free(list);
}
