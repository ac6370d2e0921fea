/* Prints what is done with the keys of adapters, as tables or JSON. */
#include "lora/lora_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/module_numbers.h"
#include "remote/remote.h"
#include "view/json_out.h"
#include "view/print.h"

/* Rows of the table: equal steps whose names differ only in numbers. */
typedef struct folded {
    text name; /* with * for numbers */
    const lora_step *first;
    size_t count;
} folded;

/* "model.layers.*.mlp.up_proj.weight". Numbers within words stay. */
static void fold_name(text *out, const char *name, size_t len) {
    for (size_t at = 0, end; at < len; at = end + 1) {
        size_t digits = 0;
        for (end = at; end < len && name[end] != '.'; end++)
            digits += name[end] >= '0' && name[end] <= '9';
        if (end > at && digits == end - at)
            text_add(out, "*", 1);
        else
            text_add_safe(out, name + at, end - at);
        if (end < len)
            text_add(out, ".", 1);
    }
}

static int compare_folded(const void *a, const void *b) {
    const folded *x = a, *y = b;
    int order = strcmp(x->name.bytes, y->name.bytes);
    const lora_step *s = x->first, *t = y->first;
    if (order)
        return order;
    if (s->adapter != t->adapter)
        return s->adapter < t->adapter ? -1 : 1;
    if (s->op != t->op)
        return s->op < t->op ? -1 : 1;
    if (s->rank != t->rank)
        return s->rank < t->rank ? -1 : 1;
    if (s->factor != t->factor)
        return s->factor < t->factor ? -1 : 1;
    return (s > t) - (s < t);
}

static bool same_row(const folded *a, const folded *b) {
    const lora_step *s = a->first, *t = b->first;
    return strcmp(a->name.bytes, b->name.bytes) == 0 && s->adapter == t->adapter &&
           s->op == t->op && s->rank == t->rank && s->factor == t->factor;
}

static int compare_first(const void *a, const void *b) {
    const folded *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Returns the number of rows. */
static size_t fold_steps(const lora_mapping *m, folded *rows) {
    size_t count = 0;
    for (size_t i = 0; i < m->step_count; i++) {
        rows[i] = (folded){.first = &m->steps[i], .count = 1};
        text_add(&rows[i].name, "", 0);
        fold_name(&rows[i].name, m->steps[i].name, m->steps[i].name_len);
    }
    qsort(rows, m->step_count, sizeof *rows, compare_folded);
    for (size_t i = 0; i < m->step_count; i++) {
        if (count && same_row(&rows[count - 1], &rows[i])) {
            rows[count - 1].count++;
            text_free(&rows[i].name);
        } else {
            rows[count++] = rows[i];
        }
    }
    qsort(rows, count, sizeof *rows, compare_first);
    return count;
}

static void print_steps(const lora_mapping *m) {
    static const column columns[] = {
        {"TENSOR", false, COLUMN_SHRINKS}, {"COUNT", true, COLUMN_STAYS},
        {"OP", false, COLUMN_STAYS},       {"RANK", true, COLUMN_STAYS},
        {"FACTOR", true, COLUMN_STAYS},    {"ADAPTER", true, COLUMN_SPARE}};
    folded *rows = need(m->step_count, sizeof *rows);
    size_t count = fold_steps(m, rows);
    table *t = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < count; i++) {
        const lora_step *s = rows[i].first;
        bool scaled = s->op != LORA_REPLACE && s->op != LORA_ADD;
        text_add(table_cell(t), rows[i].name.bytes, rows[i].name.len);
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_NONE, "%zu", rows[i].count);
        table_put(t, STYLE_CYAN, "%s", lora_op_name(s->op));
        if (s->rank)
            text_add_number(table_cell(t), s->rank);
        table_end_cell(t, STYLE_NONE);
        if (scaled)
            text_addf(table_cell(t), "%.4g", s->factor);
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_DIM, "%zu", s->adapter + 1);
        text_free(&rows[i].name);
    }
    if (count)
        table_print(t);
    table_free(t);
    free(rows);
}

static void print_wide(text *line) {
    print_wrapped(line->bytes, 0, print_width() ? print_width() : 80);
    text_free(line);
}

/* Names of keys that were ignored, by reason. */
static void print_ignored(const lora_source *source) {
    enum { MOST_NAMED = 2 };
    for (size_t i = 0; i < source->ignored_count; i++) {
        const char *why = source->ignored[i].why;
        size_t count = 0, shown = 0;
        text line = {0};
        if (i && source->ignored[i - 1].why == why)
            continue; /* runs of one reason are reported once */
        for (size_t k = i; k < source->ignored_count && source->ignored[k].why == why; k++)
            count++;
        text_addf(&line, "ignored %zu key%s, %s: ", count, count == 1 ? "" : "s", why);
        for (; shown < count && shown < MOST_NAMED; shown++) {
            const tenmap_tensor *key = source->ignored[i + shown].key;
            text_addf(&line, shown ? ", " : "");
            text_add_safe(&line, key->name, key->name_len);
        }
        text_addf(&line, count > shown ? ", ..." : "");
        print_wide(&line);
    }
}

static int compare_reasons(const void *a, const void *b) {
    const lora_ignored *x = a, *y = b;
    int order = strcmp(x->why, y->why);
    return order ? order : (x->key > y->key) - (x->key < y->key);
}

static void sort_ignored(const lora_source *source) {
    if (source->ignored_count)
        qsort(source->ignored, source->ignored_count, sizeof *source->ignored, compare_reasons);
}

void lora_print(const lora_mapping *m) {
    print_steps(m);
    for (size_t i = 0; i < m->source_count; i++) {
        const lora_source *source = &m->sources[i];
        text line = {0};
        text_addf(&line, "adapter %zu: ", i + 1);
        const char *path = shown_path(tenmap_path(source->model));
        text_add_safe(&line, path, strlen(path));
        text_addf(&line, ", %s%s", source->dialect, source->rslora ? ", rsLoRA" : "");
        if (source->scale != 1)
            text_addf(&line, ", scale %g", source->scale);
        text_addf(&line, ", %zu of %zu keys applied", source->applied, tenmap_count(source->model));
        print_wide(&line);
        sort_ignored(source);
        print_ignored(source);
    }
}

static void source_json(const lora_source *source) {
    json_open('{', false);
    json_key_text("path", shown_path(tenmap_path(source->model)), TENMAP_CSTR);
    json_key_text("dialect", source->dialect, TENMAP_CSTR);
    json_key_real("scale", source->scale);
    json_key_bool("rslora", source->rslora);
    json_key_uint("keys", tenmap_count(source->model));
    json_key_uint("applied", source->applied);
    json_key("ignored");
    json_open('[', false);
    sort_ignored(source);
    for (size_t i = 0; i < source->ignored_count; i++) {
        const lora_ignored *ignored = &source->ignored[i];
        json_open('{', true);
        json_key_text("key", ignored->key->name, ignored->key->name_len);
        json_key_text("reason", ignored->why, TENMAP_CSTR);
        json_close();
    }
    json_close();
    json_close();
}

static void step_json(const lora_step *s) {
    bool product = s->op == LORA_LOW_RANK || s->op == LORA_DORA;
    json_open('{', true);
    json_key_text("name", s->name, s->name_len);
    json_key_text("op", lora_op_name(s->op), TENMAP_CSTR);
    json_key_uint("adapter", s->adapter);
    json_key("terms");
    json_open('[', true);
    for (size_t i = 0; i < 2 && s->terms[i]; i++)
        json_text(s->terms[i]->name, s->terms[i]->name_len);
    json_close();
    if (product || s->op == LORA_SUM)
        json_key_real("factor", s->factor);
    if (product) {
        json_key_bool("transposed", s->transposed);
        json_key_uint("rank", s->rank);
        json_key_real("alpha", s->alpha);
    }
    if (s->magnitude)
        json_key_text("magnitude", s->magnitude->name, s->magnitude->name_len);
    json_close();
}

void lora_json(const lora_mapping *m) {
    json_key("adapters");
    json_open('[', false);
    for (size_t i = 0; i < m->source_count; i++)
        source_json(&m->sources[i]);
    json_close();
    json_key("adapted");
    json_open('[', false);
    for (size_t i = 0; i < m->step_count; i++)
        step_json(&m->steps[i]);
    json_close();
}
