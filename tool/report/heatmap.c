/*
 * Draws the heatmap: tensor kinds down, layers across, for the stack with the most tensors. The
 * color shows how far a value is from what is usual for its kind: its logarithm's distance from the
 * median over the layers, in units of the median absolute deviation.
 *
 * If no name has a number that counts layers, modules replace layers. Their names are long, so
 * modules go down and kinds across.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/module_numbers.h"
#include "report.h"

enum { MOST_DOWN = 120, MOST_ACROSS = 400 };
/* In pixels. */
static const double CELL_HEIGHT = 20, LEFT = 300, TOP = 34, BOTTOM = 58;

/* One tensor's position; after sorting, each cell is a run of these. */
typedef struct place {
    const char *stack;
    size_t stack_len;
    uint64_t layer;
    char *kind;
    size_t tensor; /* index in the report */
} place;

typedef struct cell {
    double value; /* NaN: unknown */
    bool there, broken;
    /* In a comparison: the state of all its tensors; REPORT_CHANGED if they differ. */
    report_state state;
    uint32_t color;
} cell;

typedef struct heatmap {
    const report *r;
    report_metric metric;
    FILE *out;
    char **kinds;
    uint64_t *layers;
    /* One tensor of each module, indexed by layer number; NULL if layers are layers. */
    const place **modules;
    size_t rows, columns;           /* kinds, and layers */
    size_t row_total, column_total; /* including those too many to draw */
    cell *cells;                    /* row by row, one row per kind */
    bool removed;                   /* some cells are REPORT_REMOVED */
} heatmap;

static const uint32_t middle_color = 0xedeff1, low_color = 0x2166ac, high_color = 0xd95f0e;
static const uint32_t none_color = 0xf8f9fa, broken_color = 0x7a0c3c;

static int compare_stacks(const place *x, const place *y) {
    size_t n = x->stack_len < y->stack_len ? x->stack_len : y->stack_len;
    int order = memcmp(x->stack, y->stack, n);
    return order ? order : (x->stack_len > y->stack_len) - (x->stack_len < y->stack_len);
}

/* Sorts by stack, then in the report's order. */
static int by_stack(const void *a, const void *b) {
    const place *x = a, *y = b;
    int order = compare_stacks(x, y);
    return order ? order : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static int by_kind(const void *a, const void *b) {
    const place *x = *(const place *const *)a, *y = *(const place *const *)b;
    int order = strcmp(x->kind, y->kind);
    return order ? order : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static char *copy_text(const text *t) {
    char *copy = need(t->len + 1, 1);
    memcpy(copy, t->bytes, t->len);
    return copy;
}

/* The positions of all tensors with a layer. A name with a NUL counts up to it. */
static place *find_places(const report *r, size_t *count) {
    place *places = need(r->count, sizeof *places);
    layer_place *layers = layers_find(r);
    text kind = {0};
    *count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const tenmap_tensor *t = r->tensors[i];
        if (!layers[i].found)
            continue;
        layer_kind(&kind, t, &layers[i]);
        places[(*count)++] =
            (place){t->name, layers[i].stack_len, layers[i].layer, copy_text(&kind), i};
    }
    text_free(&kind);
    free(layers);
    qsort(places, *count, sizeof *places, by_stack);
    return places;
}

/* The longest run of one stack with more than one layer; its length is 0 if there is none. */
static size_t largest_stack(const place *places, size_t count, size_t *length) {
    size_t best = 0;
    *length = 0;
    for (size_t at = 0, end; at < count; at = end) {
        bool several = false;
        for (end = at + 1; end < count && compare_stacks(&places[at], &places[end]) == 0; end++)
            several = several || places[end].layer != places[at].layer;
        if (several && end - at > *length) {
            best = at;
            *length = end - at;
        }
    }
    return best;
}

/* Where the last part of a name begins. */
static size_t last_part(const tenmap_tensor *t) {
    size_t at = 0;
    for (;;) {
        size_t end = at + name_part_length(t->name + at, t->name_len - at);
        if (end >= t->name_len)
            return at;
        at = end + 1;
    }
}

static int by_tensor(const void *a, const void *b) {
    const place *x = *(const place *const *)a, *y = *(const place *const *)b;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Treats modules as layers, numbered in the order of their first tensors. */
static place *find_modules(const report *r, const place ***modules) {
    place *places = need(r->count, sizeof *places);
    const place **firsts = need(r->count, sizeof *firsts);
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const tenmap_tensor *t = r->tensors[i];
        size_t at = last_part(t);
        bool named = at < t->name_len;
        const char *part = named ? t->name + at : "(itself)";
        char *kind = need_copy(part, named ? t->name_len - at : strlen(part));
        places[i] = (place){t->name, at ? at - 1 : 0, 0, kind, i};
    }
    qsort(places, r->count, sizeof *places, by_stack);
    for (size_t i = 0; i < r->count; i++)
        if (!i || compare_stacks(&places[i - 1], &places[i]) != 0)
            firsts[count++] = &places[i];
    qsort(firsts, count, sizeof *firsts, by_tensor);
    for (size_t m = 0; m < count; m++) {
        place *at = places + (firsts[m] - places);
        for (place *p = at; p < places + r->count && compare_stacks(at, p) == 0; p++)
            p->layer = m;
    }
    *modules = firsts;
    return places;
}

/*
 * Accumulates the tensors of a cell. finish_cell turns sums of squares and counts into the value.
 */
typedef struct parts {
    double sum, weight;
} parts;

static bool add_tensor(const heatmap *m, size_t i, parts *p) {
    const report_stats *s = m->r->stats ? &m->r->stats[i] : NULL;
    const tenmap_tensor *t = m->r->tensors[i];
    if (m->metric == METRIC_SIZE) {
        p->sum += (double)t->nbytes;
        return true;
    }
    if (m->metric == METRIC_CHANGE && m->r->changes) {
        double x = m->r->changes[i].relative;
        p->sum += isnan(x) ? 0 : x * x;
        p->weight += !isnan(x);
        return true;
    }
    if (!s || !s->known)
        return false;
    if (m->metric == METRIC_NORM)
        p->sum += s->norm * s->norm;
    else if (m->metric == METRIC_MAX)
        p->sum = fmax(p->sum, fmax(fabs(s->min), fabs(s->max)));
    else if (m->metric == METRIC_ZEROS)
        p->sum += (double)s->zeros, p->weight += (double)t->nelems;
    else
        p->sum += (double)s->nan + (double)s->inf;
    return true;
}

static double finish(report_metric metric, parts p) {
    if (metric == METRIC_NORM)
        return sqrt(p.sum);
    if (metric == METRIC_CHANGE)
        return p.weight > 0 ? sqrt(p.sum / p.weight) : NAN;
    if (metric == METRIC_ZEROS)
        return p.weight > 0 ? p.sum / p.weight : 0;
    return p.sum;
}

static size_t column_of(const heatmap *m, uint64_t layer) {
    const uint64_t *found = bsearch(&layer, m->layers, m->columns, sizeof layer, by_number);
    return found ? (size_t)(found - m->layers) : SIZE_MAX;
}

/* Lists the layers of a stack in order, each once. */
static void find_columns(heatmap *m, const place *places, size_t count) {
    m->layers = need(count, sizeof *m->layers);
    for (size_t i = 0; i < count; i++)
        m->layers[i] = places[i].layer;
    qsort(m->layers, count, sizeof *m->layers, by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || m->layers[i] != m->layers[m->columns - 1])
            m->layers[m->columns++] = m->layers[i];
    m->column_total = m->columns;
    size_t most = m->modules ? MOST_DOWN : MOST_ACROSS;
    if (m->columns > most)
        m->columns = most;
}

static void fill_row(heatmap *m, size_t row, const place *const *run, size_t count) {
    parts *sums = need(m->columns, sizeof *sums);
    bool *unknown = need(m->columns, sizeof *unknown);
    cell *cells = m->cells + row * m->columns;
    for (size_t i = 0; i < count; i++) {
        size_t c = column_of(m, run[i]->layer);
        if (c == SIZE_MAX)
            continue;
        const report_stats *s = m->r->stats ? &m->r->stats[run[i]->tensor] : NULL;
        const report_change *change = m->r->changes ? &m->r->changes[run[i]->tensor] : NULL;
        if (change)
            cells[c].state =
                !cells[c].there || cells[c].state == change->state ? change->state : REPORT_CHANGED;
        cells[c].there = true;
        cells[c].broken = cells[c].broken || (s && s->known && s->nan + s->inf > 0) ||
                          (change && change->gained > 0);
        unknown[c] = !add_tensor(m, run[i]->tensor, &sums[c]) || unknown[c];
    }
    for (size_t c = 0; c < m->columns; c++)
        cells[c].value = cells[c].there && !unknown[c] ? finish(m->metric, sums[c]) : NAN;
    free(sums);
    free(unknown);
}

/* Sorts kinds by their first tensor, so that rows follow the structure of a layer. */
static int by_first(const void *a, const void *b) {
    const place *x = **(const place *const *const *)a, *y = **(const place *const *const *)b;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void find_rows(heatmap *m, const place *places, size_t count) {
    const place **sorted = need(count, sizeof *sorted);
    const place ***starts = need(count, sizeof *starts);
    size_t kinds = 0;
    for (size_t i = 0; i < count; i++)
        sorted[i] = &places[i];
    qsort(sorted, count, sizeof *sorted, by_kind);
    for (size_t i = 0; i < count; i++)
        if (!i || strcmp(sorted[i]->kind, sorted[i - 1]->kind) != 0)
            starts[kinds++] = &sorted[i];
    qsort(starts, kinds, sizeof *starts, by_first);
    size_t most = m->modules ? MOST_ACROSS : MOST_DOWN;
    m->row_total = kinds;
    m->rows = kinds < most ? kinds : most;
    m->kinds = need(m->rows, sizeof *m->kinds);
    m->cells = need(m->rows * m->columns, sizeof *m->cells);
    for (size_t r = 0; r < m->rows; r++) {
        const place *const *run = starts[r];
        size_t n = 1;
        while (run + n < sorted + count && strcmp(run[n]->kind, run[0]->kind) == 0)
            n++;
        m->kinds[r] = run[0]->kind;
        fill_row(m, r, run, n);
    }
    free(sorted);
    free(starts);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/*
 * A kind's usual value and the spread over its layers, in decades. Returns false if nothing is
 * known.
 */
static bool usual(const heatmap *m, size_t row, double *middle, double *spread) {
    double *values = need(m->columns, sizeof *values);
    size_t n = 0;
    for (size_t c = 0; c < m->columns; c++) {
        double v = m->cells[row * m->columns + c].value;
        if (v > 0)
            values[n++] = log10(v);
    }
    if (n) {
        *middle = median(values, n);
        for (size_t i = 0; i < n; i++)
            values[i] = fabs(values[i] - *middle);
        *spread = fmax(0.02, 1.4826 * median(values, n));
    }
    free(values);
    return n > 0;
}

static uint32_t color_of_level(double level) {
    double at = level < -1 ? -1 : level > 1 ? 1 : level;
    return at < 0 ? color_between(middle_color, low_color, -at)
                  : color_between(middle_color, high_color, at);
}

static uint32_t color_of_cell(const heatmap *m, const cell *c, bool known, double middle,
                              double spread) {
    if (m->metric == METRIC_CHANGE || c->state == REPORT_REMOVED)
        return color_of_change(
            &(report_change){.state = c->state, .relative = c->value, .gained = c->broken});
    if (isnan(c->value))
        return none_color;
    if (m->metric == METRIC_ZEROS)
        return color_of_level(c->value);
    if (m->metric == METRIC_BROKEN)
        return color_of_level(c->value > 0);
    if (!known || c->value <= 0)
        return color_of_level(known ? -1 : 0);
    return color_of_level((log10(c->value) - middle) / spread / 6);
}

static void color_cells(heatmap *m) {
    for (size_t row = 0; row < m->rows; row++) {
        double middle = 0, spread = 1;
        bool known = usual(m, row, &middle, &spread);
        for (size_t c = 0; c < m->columns; c++) {
            cell *at = &m->cells[row * m->columns + c];
            m->removed = m->removed || (at->there && at->state == REPORT_REMOVED);
            at->color = color_of_cell(m, at, known, middle, spread);
        }
    }
}

/* A module's name is the path of its tensors without the last part. */
static void add_layer(text *t, const heatmap *m, size_t c) {
    const place *p = m->modules ? m->modules[m->layers[c]] : NULL;
    if (!p)
        text_addf(t, "%llu", (unsigned long long)m->layers[c]);
    else if (p->stack_len)
        text_add_safe(t, p->stack, p->stack_len);
    else
        text_addf(t, "(top)");
}

static void draw_cell(const heatmap *m, size_t row, size_t c, box where) {
    const cell *at = &m->cells[row * m->columns + c];
    text tip = {0};
    if (!at->there)
        return;
    text_addf(&tip, m->modules ? "" : "layer ");
    add_layer(&tip, m, c);
    text_addf(&tip, ", ");
    text_add_safe(&tip, m->kinds[row], strlen(m->kinds[row]));
    if (at->state == REPORT_REMOVED)
        text_addf(&tip, ": only in the other");
    else if (isnan(at->value))
        text_addf(&tip, m->metric == METRIC_CHANGE ? ": nothing to compare" : ": not measured");
    else
        text_addf(&tip, ": %.4g", at->value);
    if (at->broken)
        text_addf(&tip, ", holds NaN or Inf");
    svg_rect(m->out, where, at->color, &tip);
    if (at->broken)
        svg_text(m->out,
                 (label_look){where.x + where.w / 2, where.y + 15, 20, 14,
                              color_ink(at->color) == 0xffffff ? 0xffffff : broken_color,
                              ANCHOR_MIDDLE},
                 "\xc3\x97", 2);
    text_free(&tip);
}

static void draw_cells(const heatmap *m, double width) {
    for (size_t row = 0; row < m->rows; row++)
        for (size_t c = 0; c < m->columns; c++) {
            size_t down = m->modules ? c : row, across = m->modules ? row : c;
            draw_cell(m, row, c,
                      (box){LEFT + (double)across * width, TOP + (double)down * CELL_HEIGHT,
                            width - 1, CELL_HEIGHT - 1});
        }
}

static size_t rows_drawn(const heatmap *m) {
    return m->modules ? m->columns : m->rows;
}

/* Draws the names at the left and below, as many as there is room for. */
static void draw_axes(const heatmap *m, double width) {
    size_t across = m->modules ? m->rows : m->columns;
    size_t every = m->modules ? 1 : (size_t)ceil(30 / width);
    text label = {0};
    for (size_t i = 0; i < rows_drawn(m); i++) {
        text_clear(&label);
        if (m->modules)
            add_layer(&label, m, i);
        else
            text_add(&label, m->kinds[i], strlen(m->kinds[i]));
        svg_text(m->out,
                 (label_look){LEFT - 10, TOP + (double)i * CELL_HEIGHT + 14, LEFT - 14, 11,
                              0x1b2228, ANCHOR_END},
                 label.bytes, label.len);
    }
    for (size_t i = 0; i < across; i += every) {
        text_clear(&label);
        if (m->modules)
            text_add(&label, m->kinds[i], strlen(m->kinds[i]));
        else
            add_layer(&label, m, i);
        svg_text(m->out,
                 (label_look){LEFT + ((double)i + 0.5) * width,
                              TOP + (double)rows_drawn(m) * CELL_HEIGHT + 14,
                              m->modules ? width - 4 : 60, 10.5, 0x5b6670, ANCHOR_MIDDLE},
                 label.bytes, label.len);
    }
    text_free(&label);
}

static const char *const metric_words[] = {"Norm",        "Largest value",   "Share of zeros",
                                           "NaN and Inf", "Relative change", "Size"};

static void draw_legend(const heatmap *m) {
    const uint32_t robust[] = {low_color, middle_color, high_color};
    bool relative =
        m->metric != METRIC_CHANGE && m->metric != METRIC_ZEROS && m->metric != METRIC_BROKEN;
    const char *low = relative                     ? "lower than usual for its kind"
                      : m->metric == METRIC_CHANGE ? "0.01 %"
                      : m->metric == METRIC_ZEROS  ? "0 %"
                                                   : "none";
    const char *high = relative                     ? "higher"
                       : m->metric == METRIC_CHANGE ? "100 % relative change and more"
                       : m->metric == METRIC_BROKEN ? "some"
                                                    : "100 %";
    double y = TOP + (double)rows_drawn(m) * CELL_HEIGHT + 32, x = LEFT;
    x = svg_legend(m->out, x, y + 9, low);
    if (m->metric == METRIC_CHANGE)
        svg_scale(m->out, (box){x, y, 120, 10}, change_stops, CHANGE_STOPS);
    else
        svg_scale(m->out, (box){x, y, 120, 10}, relative ? robust : robust + 1, relative ? 3 : 2);
    x = svg_legend(m->out, x + 128, y + 9, high) + 8;
    if (m->metric == METRIC_CHANGE)
        x = svg_swatch(m->out, x, y, color_of_change(&(report_change){.state = REPORT_ADDED}),
                       "only here");
    if (m->removed)
        svg_swatch(m->out, x, y, color_of_change(&(report_change){.state = REPORT_REMOVED}),
                   "only in the other");
}

static void add_left_out(text *t, size_t shown, size_t total, const char *what) {
    if (shown < total)
        text_addf(t, ", the first %zu of %zu %s", shown, total, what);
}

static void add_title(const heatmap *m, const place *stack, text *title) {
    text_addf(title, "%s by %s and kind", metric_words[m->metric], m->modules ? "module" : "layer");
    if (!m->modules && stack->stack_len) {
        text_addf(title, ", ");
        text_add(title, stack->stack, stack->stack_len);
    }
    add_left_out(title, m->columns, m->column_total, m->modules ? "modules" : "layers");
    add_left_out(title, m->rows, m->row_total, "kinds");
}

static void draw(heatmap *m, const place *stack) {
    size_t across = m->modules ? m->rows : m->columns;
    double width = fmin(m->modules ? 120 : 56, fmax(7, 900.0 / (double)across));
    double wide = fmax(960, LEFT + width * (double)across + 12);
    text title = {0};
    add_title(m, stack, &title);
    color_cells(m);
    svg_begin(m->out, wide, TOP + (double)rows_drawn(m) * CELL_HEIGHT + BOTTOM, title.bytes);
    svg_text(m->out, (label_look){LEFT, 20, wide - LEFT, 13, 0x1b2228, ANCHOR_START}, title.bytes,
             title.len);
    draw_cells(m, width);
    draw_axes(m, width);
    draw_legend(m);
    svg_end(m->out);
    text_free(&title);
}

static void draw_nothing(FILE *out) {
    static const char words[] = "This model has no tensors.";
    svg_begin(out, 480, 60, words);
    svg_text(out, (label_look){16, 34, 460, 13, 0x5b6670, ANCHOR_START}, words, strlen(words));
    svg_end(out);
}

static void free_places(place *places, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(places[i].kind);
    free(places);
}

void report_write_heatmap(const report *r, report_metric metric, FILE *out) {
    size_t count, length;
    place *places = find_places(r, &count);
    heatmap m = {.r = r, .metric = metric, .out = out};
    size_t at = largest_stack(places, count, &length);
    if (!length) {
        free_places(places, count);
        places = find_modules(r, &m.modules);
        at = 0;
        length = count = r->count;
    }
    if (length) {
        find_columns(&m, places + at, length);
        find_rows(&m, places + at, length);
        draw(&m, &places[at]);
    } else {
        draw_nothing(out);
    }
    free_places(places, count);
    free(m.modules);
    free(m.kinds);
    free(m.layers);
    free(m.cells);
}
