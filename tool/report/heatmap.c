/*
 * The heat map as a picture: tensor kinds down, layers across, of the stack with the most tensors.
 * Colour says how far a value lies from what is usual for its kind: the median over the layers, in
 * units of the median absolute deviation, of logarithms.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { MOST_ROWS = 120, MOST_COLUMNS = 400, CELL_HEIGHT = 20, LEFT = 260, TOP = 34, BOTTOM = 58 };

/* One tensor's place; cells are runs of these once they are sorted. */
typedef struct place {
    const char *stack;
    size_t stack_len;
    uint64_t layer;
    char *kind;
    size_t tensor; /* in the report */
} place;

typedef struct cell {
    double value; /* NaN: nothing known */
    bool there, broken;
} cell;

typedef struct heatmap {
    const report *r;
    report_metric metric;
    FILE *out;
    char **kinds;
    uint64_t *layers;
    size_t rows, columns;
    cell *cells; /* row by row */
} heatmap;

static const uint32_t middle_color = 0xedeff1, low_color = 0x2166ac, high_color = 0xd95f0e;
static const uint32_t none_color = 0xf8f9fa, broken_color = 0x7a0c3c;

static int compare_stacks(const place *x, const place *y) {
    size_t n = x->stack_len < y->stack_len ? x->stack_len : y->stack_len;
    int order = memcmp(x->stack, y->stack, n);
    return order ? order : (x->stack_len > y->stack_len) - (x->stack_len < y->stack_len);
}

/* By stack, then in the order of the report. */
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

/* The places of all tensors with a layer. Names with NUL inside take part up to it. */
static place *find_places(const report *r, size_t *count) {
    place *places = need(r->count, sizeof *places);
    layer_place at = {0};
    *count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const tenmap_tensor *t = r->tensors[i];
        if (layer_find(t->name, t->name_len, &at))
            places[(*count)++] = (place){t->name, at.stack_len, at.layer, copy_text(&at.kind), i};
    }
    text_free(&at.kind);
    qsort(places, *count, sizeof *places, by_stack);
    return places;
}

/* The longest run of one stack. */
static size_t largest_stack(const place *places, size_t count, size_t *length) {
    size_t best = 0;
    *length = 0;
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1; end < count && compare_stacks(&places[at], &places[end]) == 0;)
            end++;
        if (end - at > *length) {
            best = at;
            *length = end - at;
        }
    }
    return best;
}

/* What a tensor adds to its cell. Sums of squares and counts become the value in finish_cell. */
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
    if (m->metric == METRIC_CHANGE) {
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

/* The layers of a stack in order, each once. */
static void find_columns(heatmap *m, const place *places, size_t count) {
    m->layers = need(count, sizeof *m->layers);
    for (size_t i = 0; i < count; i++)
        m->layers[i] = places[i].layer;
    qsort(m->layers, count, sizeof *m->layers, by_number);
    for (size_t i = 0; i < count; i++)
        if (!i || m->layers[i] != m->layers[m->columns - 1])
            m->layers[m->columns++] = m->layers[i];
    if (m->columns > MOST_COLUMNS)
        m->columns = MOST_COLUMNS;
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
        cells[c].there = true;
        cells[c].broken = cells[c].broken || (s && s->known && s->nan + s->inf > 0);
        unknown[c] = !add_tensor(m, run[i]->tensor, &sums[c]) || unknown[c];
    }
    for (size_t c = 0; c < m->columns; c++)
        cells[c].value = cells[c].there && !unknown[c] ? finish(m->metric, sums[c]) : NAN;
    free(sums);
    free(unknown);
}

/* Kinds in the order of their first tensor, so that a layer reads as it is built. */
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
    m->rows = kinds < MOST_ROWS ? kinds : MOST_ROWS;
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

/* A kind's usual value and how far its layers spread, in decades; false where nothing is known. */
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
    if (isnan(c->value))
        return none_color;
    if (m->metric == METRIC_CHANGE)
        return color_of_change(&(report_change){.state = REPORT_CHANGED, .relative = c->value});
    if (m->metric == METRIC_ZEROS)
        return color_of_level(c->value);
    if (m->metric == METRIC_BROKEN)
        return color_of_level(c->value > 0);
    if (!known || c->value <= 0)
        return color_of_level(known ? -1 : 0);
    return color_of_level((log10(c->value) - middle) / spread / 6);
}

static void draw_row(const heatmap *m, size_t row, double width) {
    double middle = 0, spread = 1, y = TOP + (double)row * CELL_HEIGHT;
    bool known = usual(m, row, &middle, &spread);
    svg_text(m->out, LEFT - 10, y + 14, LEFT - 14, 11, 0x1b2228, ANCHOR_END, m->kinds[row],
             strlen(m->kinds[row]));
    for (size_t c = 0; c < m->columns; c++) {
        const cell *at = &m->cells[row * m->columns + c];
        box where = {LEFT + (double)c * width, y, width - 1, CELL_HEIGHT - 1};
        text tip = {0};
        if (!at->there)
            continue;
        text_addf(&tip, "layer %llu, ", (unsigned long long)m->layers[c]);
        text_add_safe(&tip, m->kinds[row], strlen(m->kinds[row]));
        text_addf(&tip, ": %.4g", at->value);
        svg_rect(m->out, where, color_of_cell(m, at, known, middle, spread), &tip);
        if (at->broken)
            svg_text(m->out, where.x + where.w / 2, y + 15, 20, 14, broken_color, ANCHOR_MIDDLE,
                     "\xc3\x97", 2);
        text_free(&tip);
    }
}

static void draw_axis(const heatmap *m, double width) {
    size_t every = (size_t)ceil(30 / width);
    char number[24];
    for (size_t c = 0; c < m->columns; c += every) {
        int n = snprintf(number, sizeof number, "%llu", (unsigned long long)m->layers[c]);
        svg_text(m->out, LEFT + ((double)c + 0.5) * width, TOP + (double)m->rows * CELL_HEIGHT + 14,
                 60, 10.5, 0x5b6670, ANCHOR_MIDDLE, number, (size_t)n);
    }
}

static const char *const metric_words[] = {"Norm",        "Largest value",   "Share of zeros",
                                           "NaN and Inf", "Relative change", "Size"};

static void draw_legend(const heatmap *m) {
    static const uint32_t change[] = {0xf3d9a4, 0xee9d3c, 0xd1532a, 0x8c1f3f, 0x4b0f45};
    const uint32_t robust[] = {low_color, middle_color, high_color};
    bool relative =
        m->metric != METRIC_CHANGE && m->metric != METRIC_ZEROS && m->metric != METRIC_BROKEN;
    const char *low = relative                     ? "lower than usual for its kind"
                      : m->metric == METRIC_CHANGE ? "0.01 %"
                      : m->metric == METRIC_ZEROS  ? "0 %"
                                                   : "none";
    const char *high = relative ? "higher" : m->metric == METRIC_BROKEN ? "some" : "100 %";
    double y = TOP + (double)m->rows * CELL_HEIGHT + 32, x = LEFT + 5.6 * (double)strlen(low) + 8;
    svg_text(m->out, LEFT, y + 9, 400, 11, 0x5b6670, ANCHOR_START, low, strlen(low));
    if (m->metric == METRIC_CHANGE)
        svg_scale(m->out, (box){x, y, 120, 10}, change, 5);
    else
        svg_scale(m->out, (box){x, y, 120, 10}, relative ? robust : robust + 1, relative ? 3 : 2);
    svg_text(m->out, x + 128, y + 9, 400, 11, 0x5b6670, ANCHOR_START, high, strlen(high));
}

static void draw(const heatmap *m, const place *stack) {
    double width = fmin(56, fmax(7, 900.0 / (double)m->columns));
    double wide = fmax(640, LEFT + width * (double)m->columns + 12);
    text title = {0};
    text_addf(&title, "%s by layer and kind, ", metric_words[m->metric]);
    text_add(&title, stack->stack, stack->stack_len);
    svg_begin(m->out, wide, TOP + (double)m->rows * CELL_HEIGHT + BOTTOM, title.bytes);
    svg_text(m->out, LEFT, 20, wide - LEFT, 13, 0x1b2228, ANCHOR_START, title.bytes, title.len);
    for (size_t row = 0; row < m->rows; row++)
        draw_row(m, row, width);
    draw_axis(m, width);
    draw_legend(m);
    svg_end(m->out);
    text_free(&title);
}

int report_write_heatmap(const report *r, report_metric metric, FILE *out) {
    size_t count, length;
    place *places = find_places(r, &count);
    heatmap m = {.r = r, .metric = metric, .out = out};
    size_t at = largest_stack(places, count, &length);
    int status = 0;
    if (count) {
        find_columns(&m, places + at, length);
        find_rows(&m, places + at, length);
        draw(&m, &places[at]);
    } else {
        status = fail(EXIT_FAILED, "no name has a layer number in it, so there is no heat map");
    }
    for (size_t i = 0; i < count; i++)
        free(places[i].kind);
    free(places);
    free(m.kinds);
    free(m.layers);
    free(m.cells);
    return status;
}
