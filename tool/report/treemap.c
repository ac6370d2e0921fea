/*
 * Draws the treemap: where a model's bytes are, by the paths in its names.
 *
 * Names are sorted, so that everything below a path is contiguous. A group is such a run and the
 * length of its path. The layout is squarified: a row takes items while its worst aspect ratio
 * improves.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/module_numbers.h"
#include "remote/remote.h"
#include "report.h"
#include "tensor_patterns.h"

enum {
    WIDTH = 1200,
    HEIGHT = 620,
    LEGEND = 30,
    STRIP = 18, /* height of a group's label */
    /* Square pixels. A group whose items would be smaller on average is drawn as one. */
    LEAST_AREA = 70,
    MOST_DEPTH = 48
};

typedef struct treemap {
    const report *r;
    FILE *out;
    report_color color;
    const tenmap_tensor **sorted;
    const size_t *place;  /* index in the report of each sorted tensor */
    double *before;       /* bytes of all tensors before this one */
    layer_place *layers;  /* indexed as the report's tensors */
    uint64_t first, last; /* layer numbers */
} treemap;

/* One group or tensor: a run of sorted names and the length of its path in them. */
typedef struct item {
    size_t from, to, path; /* path: bytes including the separator; the whole name for a tensor */
    size_t label;          /* where its label begins */
    double bytes;
    bool tensor;
    size_t rest; /* how many small items it represents, or 0 */
    const tenmap_tensor *first;
} item;

static const uint32_t layer_stops[] = {0x3b4a8c, 0x2f7f9e, 0x35a583, 0x9cc04a, 0xf2c84b};
static const uint32_t other_color = 0xaab3bb;

typedef struct entry {
    const tenmap_tensor *tensor;
    size_t place;
} entry;

static int by_name(const void *a, const void *b) {
    const tenmap_tensor *x = ((const entry *)a)->tensor, *y = ((const entry *)b)->tensor;
    size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, n);
    return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* Where the path part after `at` ends; the name's length if it is the last part. */
static size_t next_path(const tenmap_tensor *t, size_t at) {
    size_t end = at + name_part_length(t->name + at, t->name_len - at);
    return end < t->name_len ? end + 1 : t->name_len;
}

/*
 * End of the run of names from `from` that share its first `path` bytes. All names share the first
 * `same` bytes.
 */
static size_t run_end(const treemap *m, size_t from, size_t to, size_t same, size_t path) {
    const tenmap_tensor *t = m->sorted[from];
    size_t low = from + 1, high = to;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const tenmap_tensor *u = m->sorted[middle];
        if (u->name_len >= path && memcmp(t->name + same, u->name + same, path - same) == 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * The next item of a group. A chain of groups with one part each becomes one item, including the
 * last.
 */
static item next_item(const treemap *m, size_t from, size_t to, size_t path) {
    const tenmap_tensor *t = m->sorted[from];
    item it = {.from = from, .to = from + 1, .path = next_path(t, path), .label = path, .first = t};
    if (it.path < t->name_len)
        it.to = run_end(m, from, to, path, it.path);
    while (it.to - it.from > 1) {
        const tenmap_tensor *last = m->sorted[it.to - 1];
        size_t longer = next_path(t, it.path);
        if (longer == t->name_len || last->name_len < longer ||
            memcmp(t->name + it.path, last->name + it.path, longer - it.path) != 0)
            break;
        it.path = longer;
    }
    it.tensor = it.to - it.from == 1;
    it.bytes = m->before[it.to] - m->before[it.from];
    return it;
}

static int by_bytes(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return natural_compare(x->first->name, x->first->name_len, y->first->name, y->first->name_len);
}

/* Combines items that would be too small to see into one, so that areas stay correct. */
static size_t join_small(item *items, size_t count, double bytes, double area) {
    size_t cut = 0;
    double sum = 0;
    while (cut < count && items[cut].bytes * area >= 9 * bytes)
        cut++;
    if (count - cut < 2)
        return count;
    for (size_t i = cut; i < count; i++)
        sum += items[i].bytes;
    items[cut].rest = count - cut;
    items[cut].bytes = sum;
    return cut + 1;
}

/*
 * The items of a group, largest first, without empty ones. Items of equal size are in natural order
 * of names, so layers are in order.
 */
static item *items_of(const treemap *m, const item *group, size_t *count) {
    size_t room = 16;
    item *items = need(room, sizeof *items);
    *count = 0;
    for (size_t at = group->from; at < group->to;) {
        item it = next_item(m, at, group->to, group->path);
        at = it.to;
        if (it.bytes <= 0)
            continue;
        if (*count == room)
            items = need_more(items, room *= 2, sizeof *items);
        items[(*count)++] = it;
    }
    qsort(items, *count, sizeof *items, by_bytes);
    return items;
}

static size_t largest_in(const treemap *m, const item *it) {
    size_t best = it->from;
    for (size_t i = it->from; i < it->to; i++)
        if (m->sorted[i]->nbytes > m->sorted[best]->nbytes)
            best = i;
    return best;
}

static uint32_t color_of(const treemap *m, size_t i) {
    const layer_place *at = &m->layers[m->place[i]];
    if (m->color == COLOR_DTYPE)
        return color_of_dtype(tenmap_dtype_text(m->sorted[i]));
    if (m->color == COLOR_CHANGE)
        return color_of_change(&m->r->changes[m->place[i]]);
    if (!at->found)
        return other_color;
    double span = m->last > m->first ? (double)(m->last - m->first) : 1;
    return color_along(layer_stops, 5, (double)(at->layer - m->first) / span);
}

/* The label without the separator at its end. */
static size_t label_len(const treemap *m, const item *it) {
    size_t end = it->tensor ? m->sorted[it->from]->name_len : it->path;
    return end - it->label - (!it->tensor && end > it->label);
}

static void draw_rest(const treemap *m, const item *it, box at) {
    text tip = {0};
    text_addf(&tip, "%zu more, ", it->rest);
    text_add_bytes(&tip, (uint64_t)it->bytes);
    svg_rect(m->out, at, 0xc6ced4, &tip);
    if (at.h > 17)
        svg_text(m->out, (label_look){at.x + 5, at.y + 14, at.w - 10, 11, 0x1b2228, ANCHOR_START},
                 tip.bytes, tip.len);
    text_free(&tip);
}

static void draw_leaf(const treemap *m, const item *it, box at) {
    const tenmap_tensor *t = m->sorted[it->from];
    uint32_t color = color_of(m, largest_in(m, it));
    text tip = {0}, size = {0};
    size_t shown = it->tensor ? t->name_len : it->path;
    text_add_bytes(&size, (uint64_t)it->bytes);
    text_add_safe(&tip, t->name, shown < 1000 ? shown : 1000);
    text_addf(&tip, ", %s", size.bytes);
    svg_rect(m->out, at, color, &tip);
    if (at.h > 17)
        svg_text(m->out,
                 (label_look){at.x + 5, at.y + 14, at.w - 10, 11, color_ink(color), ANCHOR_START},
                 t->name + it->label, label_len(m, it));
    if (at.h > 34 && at.w > 60)
        svg_text(m->out,
                 (label_look){at.x + 5, at.y + 28, at.w - 10, 10, color_ink(color), ANCHOR_START},
                 size.bytes, size.len);
    text_free(&tip);
    text_free(&size);
}

static void draw_items(const treemap *m, const item *items, size_t count, box at, int depth);

static void draw_item(const treemap *m, const item *it, box at, int depth) {
    static const uint32_t frames[] = {0xe9edf0, 0xdfe5e9, 0xd4dce1};
    double gap = depth ? 0.7 : 1.5;
    box in = {at.x + gap, at.y + gap, at.w - 2 * gap, at.h - 2 * gap};
    size_t count = 0;
    if (in.w < 0.8 || in.h < 0.8)
        in = at;
    if (it->rest) {
        draw_rest(m, it, in);
        return;
    }
    item *items = !it->tensor && depth < MOST_DEPTH && in.w > 26 && in.h > 26
                      ? items_of(m, it, &count)
                      : NULL;
    if (!items || in.w * in.h <= (double)LEAST_AREA * (double)count) {
        draw_leaf(m, it, in);
        free(items);
        return;
    }
    const char *label = m->sorted[it->from]->name + it->label;
    double strip = in.w > 54 && in.h > 44 ? STRIP : 2;
    svg_rect(m->out, in, frames[depth < 2 ? depth : 2], NULL);
    if (strip > 2) {
        text size = {0};
        size_t len = label_len(m, it);
        text_add_bytes(&size, (uint64_t)it->bytes);
        svg_text(m->out, (label_look){in.x + 6, in.y + 13, in.w - 12, 11, 0x1b2228, ANCHOR_START},
                 label, len);
        if ((double)(len + size.len + 2) * 6.6 < in.w - 12)
            svg_text(m->out,
                     (label_look){in.x + in.w - 6, in.y + 13, in.w, 10.5, 0x5b6670, ANCHOR_END},
                     size.bytes, size.len);
        text_free(&size);
    }
    box inside = {in.x + 2, in.y + strip, in.w - 4, in.h - strip - 2};
    count = join_small(items, count, it->bytes, inside.w * inside.h);
    draw_items(m, items, count, inside, depth + 1);
    free(items);
}

/* How many items form the next row along a side, and their sum. */
static size_t next_row(const item *items, size_t count, double scale, double side, double *sum) {
    double worst = INFINITY;
    size_t n = 0;
    *sum = 0;
    while (n < count) {
        double area = (*sum + items[n].bytes) * scale;
        double a = side * side * items[0].bytes * scale / (area * area);
        double b = area * area / (side * side * items[n].bytes * scale);
        if (fmax(a, b) > worst)
            break;
        worst = fmax(a, b);
        *sum += items[n++].bytes;
    }
    return n;
}

static void draw_items(const treemap *m, const item *items, size_t count, box at, int depth) {
    double left = 0;
    for (size_t i = 0; i < count; i++)
        left += items[i].bytes;
    while (count && at.w > 0 && at.h > 0 && left > 0) {
        double scale = at.w * at.h / left, sum, along = 0;
        bool flat = at.w < at.h;
        double side = flat ? at.w : at.h;
        size_t n = next_row(items, count, scale, side, &sum);
        double thick = fmin(sum * scale / side, flat ? at.h : at.w);
        for (size_t i = 0; i < n; i++) {
            double length = items[i].bytes / sum * side;
            draw_item(m, &items[i],
                      flat ? (box){at.x + along, at.y, length, thick}
                           : (box){at.x, at.y + along, thick, length},
                      depth);
            along += length;
        }
        if (flat)
            at.y += thick, at.h -= thick;
        else
            at.x += thick, at.w -= thick;
        left -= sum;
        items += n;
        count -= n;
    }
}

static double legend_text(const treemap *m, double x, const char *words) {
    return svg_legend(m->out, x, HEIGHT + 20, words);
}

static double legend_swatch(const treemap *m, double x, uint32_t color, const char *words) {
    return svg_swatch(m->out, x, HEIGHT + 11, color, words);
}

static void legend_dtypes(const treemap *m) {
    const char *seen[24];
    size_t count = 0;
    double x = 4;
    for (size_t i = 0; i < m->r->count && count < 24; i++) {
        const char *name = tenmap_dtype_text(m->r->tensors[i]);
        size_t k = 0;
        while (k < count && strcmp(seen[k], name) != 0)
            k++;
        if (k < count)
            continue;
        seen[count++] = name;
        x = legend_swatch(m, x, color_of_dtype(name), name);
    }
}

static void draw_legend(const treemap *m) {
    double x = 4;
    char number[48];
    if (m->color == COLOR_DTYPE) {
        legend_dtypes(m);
        return;
    }
    if (m->color == COLOR_CHANGE)
        x = legend_text(m, legend_swatch(m, x, 0xb7c1ca, "unchanged"), "0.01 %");
    else if (m->first <= m->last) {
        snprintf(number, sizeof number, "layer %llu", (unsigned long long)m->first);
        x = legend_text(m, x, number);
    }
    if (m->color == COLOR_CHANGE || m->first <= m->last) {
        svg_scale(m->out, (box){x, HEIGHT + 11, 120, 10},
                  m->color == COLOR_CHANGE ? change_stops : layer_stops, 5);
        snprintf(number, sizeof number, "%llu", (unsigned long long)m->last);
        x = legend_text(m, x + 128,
                        m->color == COLOR_CHANGE ? "100 % relative change and more" : number);
    }
    if (m->color == COLOR_LAYER)
        legend_swatch(m, x + 8, other_color, "outside layers");
    else {
        x = legend_swatch(m, x + 8, 0x1f9e83, "only here");
        x = legend_swatch(m, x, 0x4b5d8c, "only in the other");
        legend_swatch(m, x, 0xb3264d, "gained NaN or Inf");
    }
}

static void find_layers(treemap *m) {
    m->first = UINT64_MAX;
    m->layers = layers_find(m->r);
    for (size_t i = 0; i < m->r->count; i++) {
        if (!m->layers[i].found)
            continue;
        m->first = m->layers[i].layer < m->first ? m->layers[i].layer : m->first;
        m->last = m->layers[i].layer > m->last ? m->layers[i].layer : m->last;
    }
}

/* The most common dtype's share of the bytes. */
static double main_share(const report *r) {
    struct {
        const char *name;
        double bytes;
    } seen[64];
    size_t count = 0;
    double all = 0, most = 0;
    for (size_t i = 0; i < r->count; i++) {
        const char *name = tenmap_dtype_text(r->tensors[i]);
        size_t k = 0;
        while (k < count && strcmp(seen[k].name, name) != 0)
            k++;
        all += (double)r->tensors[i]->nbytes;
        if (k == sizeof seen / sizeof seen[0])
            continue;
        if (k == count) {
            seen[count].name = name;
            seen[count++].bytes = 0;
        }
        seen[k].bytes += (double)r->tensors[i]->nbytes;
        most = seen[k].bytes > most ? seen[k].bytes : most;
    }
    return all > 0 ? most / all : 0;
}

/* If one dtype has nearly all bytes, colors show layers, provided that there are any. */
static report_color choose_color(const treemap *m) {
    if (m->r->changes)
        return COLOR_CHANGE;
    return main_share(m->r) < 0.95 || m->first > m->last ? COLOR_DTYPE : COLOR_LAYER;
}

void report_write_treemap(const report *r, report_color color, FILE *out) {
    entry *entries = need(r->count, sizeof *entries);
    size_t *place = need(r->count, sizeof *place), count;
    treemap m = {.r = r, .out = out, .color = color, .place = place};
    m.sorted = need(r->count, sizeof *m.sorted);
    m.before = need(r->count + 1, sizeof *m.before);
    for (size_t i = 0; i < r->count; i++)
        entries[i] = (entry){r->tensors[i], i};
    qsort(entries, r->count, sizeof *entries, by_name);
    for (size_t i = 0; i < r->count; i++) {
        m.sorted[i] = entries[i].tensor;
        place[i] = entries[i].place;
        m.before[i + 1] = m.before[i] + (double)m.sorted[i]->nbytes;
    }
    free(entries);
    find_layers(&m);
    if (color == COLOR_AUTO)
        m.color = choose_color(&m);
    svg_begin(out, WIDTH, HEIGHT + LEGEND, r->title ? r->title : shown_path(tenmap_path(r->model)));
    item whole = {.to = r->count, .bytes = m.before[r->count]};
    item *items = items_of(&m, &whole, &count);
    count = join_small(items, count, whole.bytes, (double)WIDTH * (double)HEIGHT);
    draw_items(&m, items, count, (box){0, 0, WIDTH, HEIGHT}, 0);
    if (!count)
        svg_text(out, (label_look){16, 32, WIDTH, 13, 0x5b6670, ANCHOR_START},
                 "every tensor is empty", 21);
    draw_legend(&m);
    svg_end(out);
    free(items);
    free(m.sorted);
    free(place);
    free(m.layers);
    free(m.before);
}
