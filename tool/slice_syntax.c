/* Parses Python-like slices of tensors and walks over them in blocks. */
#include "slice_syntax.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/print.h"

/* One part between commas, without surrounding spaces. */
typedef struct part {
    const char *at;
    size_t len;
} part;

static part trimmed(const char *at, size_t len) {
    while (len && (*at == ' ' || *at == '\t')) {
        at++;
        len--;
    }
    while (len && (at[len - 1] == ' ' || at[len - 1] == '\t'))
        len--;
    return (part){at, len};
}

/* The text inside the brackets, which are optional. */
static bool inside(const char *given, part *out) {
    *out = trimmed(given, strlen(given));
    bool opens = out->len && out->at[0] == '[';
    bool closes = out->len && out->at[out->len - 1] == ']';
    if (opens && closes)
        *out = trimmed(out->at + 1, out->len - 2);
    return opens == closes;
}

/* Takes the next part off the rest. Returns false at the end. */
static bool next_part(part *rest, part *out) {
    if (!rest->at || !rest->len)
        return false;
    const char *comma = memchr(rest->at, ',', rest->len);
    size_t len = comma ? (size_t)(comma - rest->at) : rest->len;
    *out = trimmed(rest->at, len);
    *rest = comma ? trimmed(comma + 1, rest->len - len - 1) : (part){NULL, 0};
    return true;
}

static bool is_rest(part p) {
    return p.len == 3 && memcmp(p.at, "...", 3) == 0;
}

/* Parses a whole number; *negative means that it counts from the end. */
static bool parse_index(part p, uint64_t *out, bool *negative) {
    char digits[24];
    char *end;
    *negative = p.len && p.at[0] == '-';
    p = trimmed(p.at + *negative, p.len - *negative);
    if (!p.len || p.len >= sizeof digits || p.at[0] < '0' || p.at[0] > '9')
        return false;
    memcpy(digits, p.at, p.len);
    digits[p.len] = '\0';
    errno = 0;
    *out = strtoull(digits, &end, 10);
    return !*end && !errno;
}

/* Parses a bound of a range. As in Python, an out-of-range bound is clamped. */
static bool parse_bound(part p, uint64_t size, uint64_t missing, uint64_t *out) {
    bool negative;
    *out = missing;
    if (!p.len)
        return true;
    if (!parse_index(p, out, &negative))
        return false;
    if (*out > size)
        *out = size;
    if (negative)
        *out = size - *out;
    return true;
}

typedef enum { PART_FINE, PART_WRONG, PART_STEP, PART_OUTSIDE } part_verdict;

static part_verdict parse_range(part p, const char *colon, uint64_t size, uint64_t *begin,
                                uint64_t *end) {
    size_t before = (size_t)(colon - p.at);
    part second = trimmed(colon + 1, p.len - before - 1);
    const char *step = memchr(second.at, ':', second.len);
    if (step) {
        part third = trimmed(step + 1, (size_t)(second.at + second.len - step) - 1);
        if (third.len && !(third.len == 1 && *third.at == '1'))
            return PART_STEP;
        second = trimmed(second.at, (size_t)(step - second.at));
    }
    if (!parse_bound(trimmed(p.at, before), size, 0, begin) ||
        !parse_bound(second, size, size, end))
        return PART_WRONG;
    if (*end < *begin)
        *end = *begin;
    return PART_FINE;
}

/* Parses the part for one dimension; *single: the dimension is removed. */
static part_verdict parse_part(part p, uint64_t size, uint64_t *begin, uint64_t *end,
                               bool *single) {
    const char *colon = p.len ? memchr(p.at, ':', p.len) : NULL;
    bool negative;
    if (colon)
        return parse_range(p, colon, size, begin, end);
    if (!parse_index(p, begin, &negative))
        return PART_WRONG;
    if (negative ? *begin > size : *begin >= size)
        return PART_OUTSIDE;
    if (negative)
        *begin = size - *begin;
    *end = *begin + 1;
    *single = true;
    return PART_FINE;
}

static int fail_part(part_verdict verdict, part p, uint64_t size, uint32_t dim) {
    if (verdict == PART_STEP)
        return fail(EXIT_USAGE, "'%.*s': steps other than 1 are not supported", (int)p.len, p.at);
    if (verdict == PART_OUTSIDE)
        return fail(EXIT_FAILED, "index %.*s is outside dimension %u, which has %llu elements",
                    (int)p.len, p.at, dim, (unsigned long long)size);
    return fail(EXIT_USAGE, "'%.*s' is not a slice; slices look like 3, -1, 0:2, :4 or ...",
                (int)p.len, p.len ? p.at : "");
}

/* Counts the parts first, since ... stands for all remaining dimensions. */
static int count_parts(part all, uint32_t rank, uint32_t *left) {
    part p;
    size_t parts = 0, rests = 0;
    for (part rest = all; next_part(&rest, &p);) {
        rests += is_rest(p);
        parts += !is_rest(p);
    }
    if (rests > 1)
        return fail(EXIT_USAGE, "a slice has at most one '...'");
    if (parts > rank)
        return fail(EXIT_FAILED, "the slice has %zu dimensions, but the tensor has %u", parts,
                    rank);
    *left = rank - (uint32_t)parts;
    return EXIT_FINE;
}

static int parse_parts(part all, const tenmap_tensor *tensor, slice *out, bool *single) {
    part p;
    uint32_t left = 0, dim = 0;
    int status = count_parts(all, tensor->rank, &left);
    for (part rest = all; !status && next_part(&rest, &p);) {
        if (is_rest(p)) {
            dim += left;
            continue;
        }
        part_verdict verdict =
            parse_part(p, tensor->shape[dim], &out->begin[dim], &out->end[dim], &single[dim]);
        if (verdict != PART_FINE)
            status = fail_part(verdict, p, tensor->shape[dim], dim);
        dim++;
    }
    return status;
}

int slice_parse(const char *given, const tenmap_tensor *tensor, slice *out) {
    part all = {NULL, 0};
    if (given && !inside(given, &all))
        return fail(EXIT_USAGE, "'%s' is not a slice; slices look like '[0:2, :4]'", given);
    bool *single = need(tensor->rank, sizeof *single);
    *out = (slice){.rank = tensor->rank, .count = 1, .whole = true};
    out->begin = need(tensor->rank, sizeof *out->begin);
    out->end = need(tensor->rank, sizeof *out->end);
    out->out_shape = need(tensor->rank, sizeof *out->out_shape);
    out->out_dim = need(tensor->rank, sizeof *out->out_dim);
    for (uint32_t d = 0; d < tensor->rank; d++)
        out->end[d] = tensor->shape[d];
    int status = parse_parts(all, tensor, out, single);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        uint64_t extent = out->end[d] - out->begin[d];
        /* Never more than the elements of the tensor; an empty dimension makes it 0 in the end. */
        out->count *= extent;
        out->whole = out->whole && extent == tensor->shape[d] && !single[d];
        if (!single[d]) {
            out->out_dim[out->out_rank] = d;
            out->out_shape[out->out_rank++] = extent;
        }
    }
    free(single);
    if (status)
        slice_free(out);
    return status;
}

void slice_free(slice *s) {
    free(s->begin);
    free(s->end);
    free(s->out_shape);
    free(s->out_dim);
    *s = (slice){0};
}

void slice_walk_begin(slice_walk *w, const slice *of, uint64_t most) {
    uint64_t inner = 1; /* elements per index of the split dimension */
    *w = (slice_walk){.of = of, .step = 1};
    w->begin = need(of->rank, sizeof *w->begin);
    w->end = need(of->rank, sizeof *w->end);
    for (uint32_t d = 0; d < of->rank; d++) {
        w->begin[d] = of->begin[d];
        w->end[d] = of->end[d];
    }
    for (w->split = of->rank; w->split > 0 && of->count; w->split--) {
        uint64_t extent = of->end[w->split - 1] - of->begin[w->split - 1];
        if (extent > most / inner || w->split == 1)
            break;
        inner *= extent;
    }
    w->split -= w->split > 0;
    w->step = most / inner ? most / inner : 1;
}

/* Advances the split dimension. At its end, the dimensions before it advance like digits. */
static bool advance(slice_walk *w) {
    const slice *s = w->of;
    w->begin[w->split] = w->end[w->split];
    for (uint32_t d = w->split; w->begin[d] == s->end[d]; d--) {
        if (d == 0)
            return false;
        w->begin[d] = s->begin[d];
        w->begin[d - 1]++;
    }
    return true;
}

bool slice_walk_next(slice_walk *w) {
    const slice *s = w->of;
    if (!s->count || (w->started && (!s->rank || !advance(w))))
        return false;
    w->started = true;
    w->count = 1;
    for (uint32_t d = 0; d < s->rank; d++) {
        uint64_t left = s->end[d] - w->begin[d], step = d < w->split ? 1 : w->step;
        if (d <= w->split)
            w->end[d] = w->begin[d] + (left < step ? left : step);
        w->count *= w->end[d] - w->begin[d];
    }
    return true;
}

void slice_walk_end(slice_walk *w) {
    free(w->begin);
    free(w->end);
    *w = (slice_walk){0};
}
