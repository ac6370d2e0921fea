/* Finds layers that an output lacks, and closes the gaps in their numbers. */
#include "output/dropped_layers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/module_numbers.h"
#include "view/json_out.h"

/* A tensor of a numbered module. */
typedef struct layer_tensor {
    const char *name;
    size_t prefix_len;
    uint64_t number;
    bool kept;
} layer_tensor;

static int compare_stacks(const layer_tensor *x, const layer_tensor *y) {
    size_t n = x->prefix_len < y->prefix_len ? x->prefix_len : y->prefix_len;
    int order = memcmp(x->name, y->name, n);
    return order ? order : (x->prefix_len > y->prefix_len) - (x->prefix_len < y->prefix_len);
}

static int by_stack(const void *a, const void *b) {
    const layer_tensor *x = a, *y = b;
    int order = compare_stacks(x, y);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* Sources are in the order of the model's tensors, so one pass tells which of them are kept. */
static layer_tensor *list_layer_tensors(const plan *p, size_t *count) {
    const tenmap_model *model = p->models[0];
    layer_tensor *list = need(tenmap_count(model), sizeof *list);
    size_t next = 0;
    *count = 0;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        bool kept = next < p->count && p->sources[next].tensor == t;
        number_span at;
        next += kept;
        if (number_find(t->name, t->name_len, 0, &at))
            list[(*count)++] = (layer_tensor){t->name, at.begin, at.value, kept};
    }
    if (*count)
        qsort(list, *count, sizeof *list, by_stack);
    return list;
}

/* Adds the stack of these tensors if its numbers have no gap and some layers are dropped. */
static void add_stack(dropped_layers *out, const layer_tensor *list, size_t count) {
    layer_stack s = {.prefix = list->name, .prefix_len = list->prefix_len};
    s.kept = need(count, sizeof *s.kept);
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        bool next = i == 0 || list[i].number != list[i - 1].number;
        whole = list[i].number == s.count + next - 1;
        s.count += next;
        if (whole)
            s.kept[s.count - 1] = s.kept[s.count - 1] || list[i].kept;
    }
    s.numbers = need(s.count, sizeof *s.numbers);
    for (size_t i = 0; whole && i < s.count; i++) {
        s.numbers[i] = s.left;
        s.left += s.kept[i];
    }
    if (whole && s.left && s.left < s.count) {
        out->stacks = need_next(out->stacks, out->count, sizeof *out->stacks);
        out->stacks[out->count++] = s;
    } else {
        free(s.kept);
        free(s.numbers);
    }
}

void find_dropped_layers(const plan *p, dropped_layers *out) {
    size_t count;
    layer_tensor *list = list_layer_tensors(p, &count);
    *out = (dropped_layers){0};
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1; end < count && compare_stacks(&list[at], &list[end]) == 0;)
            end++;
        add_stack(out, list + at, end - at);
    }
    free(list);
}

void dropped_layers_free(dropped_layers *d) {
    for (size_t i = 0; i < d->count; i++) {
        free(d->stacks[i].kept);
        free(d->stacks[i].numbers);
    }
    free(d->stacks);
    *d = (dropped_layers){0};
}

bool has_gap(const layer_stack *s) {
    for (size_t i = 0; i < s->left; i++)
        if (!s->kept[i])
            return true;
    return false;
}

static int compare_prefix(const void *key, const void *item) {
    const layer_tensor *x = key;
    const layer_stack *s = item;
    layer_tensor y = {.name = s->prefix, .prefix_len = s->prefix_len};
    return compare_stacks(x, &y);
}

void renumber_layers(plan *p, const dropped_layers *d) {
    for (size_t i = 0; d->count && i < p->count; i++) {
        const tenmap_tensor *t = p->sources[i].tensor;
        number_span at;
        if (!number_find(t->name, t->name_len, 0, &at))
            continue;
        layer_tensor key = {.name = t->name, .prefix_len = at.begin};
        const layer_stack *s =
            bsearch(&key, d->stacks, d->count, sizeof *d->stacks, compare_prefix);
        if (!s || s->numbers[at.value] == at.value)
            continue;
        text name = {0};
        text_add(&name, t->name, at.begin);
        text_addf(&name, "%zu", s->numbers[at.value]);
        text_add(&name, t->name + at.end, t->name_len - at.end);
        plan_rename(p, i, name.bytes, name.len);
    }
}

void print_layer_gaps(const dropped_layers *d) {
    for (size_t i = 0; i < d->count; i++) {
        const layer_stack *s = &d->stacks[i];
        uint64_t *left = need(s->left, sizeof *left);
        text line = {0};
        size_t n = 0;
        for (size_t k = 0; k < s->count; k++)
            if (s->kept[k])
                left[n++] = k;
        text_addf(&line, "note: of the %zu layers in ", s->count);
        text_add_safe(&line, s->prefix, s->prefix_len ? s->prefix_len - 1 : 0);
        text_addf(&line, ", only ");
        text_add_ranges(&line, left, n);
        text_addf(&line,
                  " %s left, and programs expect numbers without a gap; --renumber closes it",
                  n == 1 ? "is" : "are");
        if (has_gap(s))
            print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
        text_free(&line);
        free(left);
    }
}

void layer_gaps_json(const dropped_layers *d) {
    json_key("layer_gaps");
    json_open('[', true);
    for (size_t i = 0; i < d->count; i++) {
        const layer_stack *s = &d->stacks[i];
        if (!has_gap(s))
            continue;
        json_open('{', true);
        json_key_text("prefix", s->prefix, s->prefix_len ? s->prefix_len - 1 : 0);
        json_key_uint("layers", s->count);
        json_key_uint("left", s->left);
        json_close();
    }
    json_close();
}
