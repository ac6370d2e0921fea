/* Reports a layout: one line for each kind of name, or every tensor as JSON. */
#include <stdio.h>
#include <string.h>

#include "layout/layout_plan.h"
#include "model/module_numbers.h"
#include "view/json_out.h"

enum { MOST_LINES = 40 };

/* What happens to all tensors whose names differ only in numbers. */
typedef struct kind_line {
    text from, to;
    const char *rule;
    size_t sources, results;
    const tenmap_tensor *last; /* the source counted last: several results may share it */
} kind_line;

/* "model.layers.*.mlp.experts.*.gate_proj.weight" */
static void add_kind(text *out, const char *name, size_t len) {
    number_span n;
    size_t at = 0;
    for (; number_find(name, len, at, &n); at = n.end) {
        text_add_safe(out, name + at, n.begin - at);
        text_add(out, "*", 1);
    }
    text_add_safe(out, name + at, len - at);
}

/* The kinds of the sources, each once: those of the first few, which repeat after that. */
static void add_source_kinds(text *out, const new_tensor *t) {
    text kinds[3] = {{0}};
    for (size_t i = 0; i < t->source_count && i < 3; i++) {
        bool known = false;
        add_kind(&kinds[i], t->sources[i]->name, t->sources[i]->name_len);
        for (size_t k = 0; k < i && !known; k++)
            known = strcmp(kinds[k].bytes, kinds[i].bytes) == 0;
        if (!known)
            text_addf(out, "%s%s", i ? " + " : "", kinds[i].bytes);
    }
    for (size_t i = 0; i < 3; i++)
        text_free(&kinds[i]);
}

static kind_line *line_of(kind_line *lines, size_t *count, const new_tensor *t) {
    kind_line line = {.rule = t->rule};
    size_t i = 0;
    add_kind(&line.to, t->how.name, strlen(t->how.name));
    add_source_kinds(&line.from, t);
    while (i < *count && (strcmp(lines[i].to.bytes, line.to.bytes) != 0 ||
                          strcmp(lines[i].from.bytes, line.from.bytes) != 0))
        i++;
    if (i == *count && i < MOST_LINES) {
        lines[(*count)++] = line;
        return &lines[i];
    }
    text_free(&line.to);
    text_free(&line.from);
    return i < MOST_LINES ? &lines[i] : NULL;
}

static void count_sources(kind_line *line, const new_tensor *t) {
    line->results++;
    line->sources += t->source_count > 1 || t->sources[0] != line->last ? t->source_count : 0;
    line->last = t->sources[0];
}

void layout_print(const layout *l) {
    static const column columns[] = {{"RULE", false, COLUMN_STAYS},
                                     {"FROM", false, COLUMN_SHRINKS},
                                     {"TO", false, COLUMN_STAYS},
                                     {"TENSORS", true, COLUMN_STAYS}};
    kind_line lines[MOST_LINES];
    size_t count = 0, others = 0;
    for (size_t i = 0; i < l->tensor_count; i++) {
        kind_line *line = line_of(lines, &count, &l->tensors[i]);
        if (line)
            count_sources(line, &l->tensors[i]);
        else
            others++;
    }
    table *t = table_new(columns, 4);
    for (size_t i = 0; i < count; i++) {
        table_put(t, STYLE_NONE, "%s", lines[i].rule);
        table_put(t, STYLE_NONE, "%s", lines[i].from.bytes);
        table_put(t, STYLE_YELLOW, "%s", lines[i].to.bytes);
        table_put(t, STYLE_NONE, "%zu → %zu", lines[i].sources, lines[i].results);
        text_free(&lines[i].from);
        text_free(&lines[i].to);
    }
    table_print(t);
    table_free(t);
    if (others)
        printf("and %zu other new tensor%s\n", others, others == 1 ? "" : "s");
}

void layout_json(const layout *l) {
    json_key("layout");
    json_open('[', false);
    for (size_t i = 0; i < l->tensor_count; i++) {
        const new_tensor *t = &l->tensors[i];
        json_open('{', true);
        json_key_text("name", t->how.name, TENMAP_CSTR);
        json_key_text("rule", t->rule, TENMAP_CSTR);
        json_key("sources");
        json_open('[', true);
        for (size_t k = 0; k < t->source_count; k++)
            json_text(t->sources[k]->name, t->sources[k]->name_len);
        json_close();
        json_close();
    }
    json_close();
}
