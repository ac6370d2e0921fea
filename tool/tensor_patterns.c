/* Matches tensor names against patterns, builds selections, and sorts them. */
#include "tensor_patterns.h"

#include <stdlib.h>
#include <string.h>

#include "view/print.h"
#include "suggest.h"

/*
 * Whether c is in the class that begins after '['. *end is set just after its ']', or to NULL if
 * there is none.
 */
static bool class_match(const char *pattern, char c, const char **end) {
    bool negated = *pattern == '!' || *pattern == '^', found = false;
    const char *p = pattern + negated;
    do {
        if (!*p) {
            *end = NULL;
            return false;
        }
        char low = *p++, high = low;
        if (p[0] == '-' && p[1] && p[1] != ']') {
            high = p[1];
            p += 2;
        }
        found = found || (c >= low && c <= high);
    } while (*p != ']');
    *end = p + 1;
    return found != negated;
}

/*
 * Matches one step of the pattern against one byte. Returns where the pattern continues, or NULL.
 */
static const char *step_match(const char *p, char c) {
    const char *end = NULL;
    if (*p == '?')
        return p + 1;
    if (*p == '[') {
        bool in = class_match(p + 1, c, &end);
        if (end)
            return in ? end : NULL;
    }
    return *p == c && *p ? p + 1 : NULL;
}

/* Only the last * is ever retried, so the time is at most the product of both lengths. */
bool glob_match(const char *pattern, const char *name, size_t len) {
    const char *star = NULL;
    size_t i = 0, again = 0;
    while (i < len) {
        const char *next = step_match(pattern, name[i]);
        if (*pattern == '*') {
            star = ++pattern;
            again = i;
        } else if (next) {
            pattern = next;
            i++;
        } else if (star) {
            pattern = star;
            i = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

static bool contains(const char *name, size_t len, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; n <= len && i <= len - n; i++)
        if (memcmp(name + i, word, n) == 0)
            return true;
    return false;
}

bool pattern_selects(const char *pattern, const tenmap_tensor *tensor) {
    if (strpbrk(pattern, "*?["))
        return glob_match(pattern, tensor->name, tensor->name_len);
    const tenmap_tensor *exact = tenmap_find(tensor->model, pattern);
    return exact ? exact == tensor : contains(tensor->name, tensor->name_len, pattern);
}

static bool dtype_selected(const texts *dtypes, const tenmap_tensor *t) {
    char upper[64] = "";
    const char *name = tenmap_dtype_text(t);
    for (size_t i = 0; i < dtypes->count; i++) {
        tenmap_dtype named;
        if (parse_dtype(dtypes->items[i], &named) && t->dtype == named)
            return true;
        size_t n = strlen(dtypes->items[i]);
        for (size_t k = 0; k <= n && n < sizeof upper; k++) {
            char c = dtypes->items[i][k];
            upper[k] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
        }
        if (n < sizeof upper && glob_match(upper, name, strlen(name)))
            return true;
    }
    return dtypes->count == 0;
}

static bool selects(const filter *f, const tenmap_tensor *t, bool *used) {
    bool in = f->pattern_count == 0;
    for (size_t i = 0; i < f->pattern_count; i++) {
        if (pattern_selects(f->patterns[i], t))
            in = used[i] = true;
    }
    for (size_t i = 0; in && i < f->except.count; i++)
        in = !pattern_selects(f->except.items[i], t);
    return in && t->nbytes >= f->min_bytes && (!f->max_bytes || t->nbytes <= f->max_bytes) &&
           dtype_selected(&f->dtypes, t);
}

/*
 * Compares with a whole name, and with modules in it: "lm_heda" is close to lm_head in
 * "lm_head.weight". The suggestion is the whole name.
 */
static void suggest_tensor(suggestion *best, const char *pattern, const tenmap_tensor *t) {
    size_t end = t->name_len;
    suggest(best, pattern, strlen(pattern), t->name, t->name_len);
    while (end && t->name[end - 1] != '.')
        end--;
    for (size_t begin = 0; begin + 1 < end; begin++) {
        suggestion module = *best;
        if (begin && t->name[begin - 1] != '.')
            continue;
        suggest(&module, pattern, strlen(pattern), t->name + begin, end - 1 - begin);
        if (module.word != best->word)
            *best = (suggestion){t->name, t->name_len, module.distance};
    }
}

/* Adds the name that was probably meant, or the first name as an example. */
static void name_hint(const tenmap_model *model, const char *pattern, text *out) {
    enum { MOST_COLUMNS = 60 };
    const tenmap_tensor *first = tenmap_at(model, 0);
    suggestion best = {0};
    for (size_t i = 0; i < tenmap_count(model); i++)
        suggest_tensor(&best, pattern, tenmap_at(model, i));
    text_addf(out, best.word ? "did you mean " : "the first one is called ");
    if (best.word)
        text_add_safe(out, best.word, best.len);
    else
        text_add_short(out, first->name, first->name_len, MOST_COLUMNS);
    text_addf(out, best.word ? "?" : "");
}

static int nothing_selected(const tenmap_model *model, const char *pattern) {
    if (!pattern)
        return fail(EXIT_FAILED, "these filters leave no tensor");
    text hint = {0};
    name_hint(model, pattern, &hint);
    int code = fail(EXIT_FAILED, "no tensor matches '%s'; %s", pattern, hint.bytes);
    text_free(&hint);
    return code;
}

int select_tensors(const tenmap_model *model, const filter *wanted, selection *out) {
    size_t count = tenmap_count(model);
    bool *used = need(wanted->pattern_count, sizeof *used);
    int status = EXIT_FINE;
    *out = (selection){need(count, sizeof *out->tensors), 0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (!selects(wanted, t, used))
            continue;
        out->tensors[out->count++] = t;
        out->bytes += t->nbytes;
        out->elements += t->nelems;
    }
    for (size_t i = 0; !status && count && i < wanted->pattern_count; i++)
        if (!used[i])
            status = nothing_selected(model, wanted->patterns[i]);
    if (!status && count && !out->count)
        status = nothing_selected(model, NULL);
    free(used);
    if (status)
        selection_free(out);
    return status;
}

void selection_free(selection *s) {
    free(s->tensors);
    *s = (selection){0};
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Compares runs of digits: without leading zeros, the longer one is larger. */
static int compare_numbers(const char **a, const char *a_end, const char **b, const char *b_end) {
    while (*a < a_end && **a == '0')
        ++*a;
    while (*b < b_end && **b == '0')
        ++*b;
    const char *x = *a, *y = *b;
    while (*a < a_end && is_digit(**a))
        ++*a;
    while (*b < b_end && is_digit(**b))
        ++*b;
    size_t n = (size_t)(*a - x), m = (size_t)(*b - y);
    if (n != m)
        return n < m ? -1 : 1;
    return memcmp(x, y, n);
}

size_t common_prefix(const char *a, const char *b, size_t len) {
    size_t i = 0;
    while (i + 8 <= len && memcmp(a + i, b + i, 8) == 0)
        i += 8;
    while (i < len && a[i] == b[i])
        i++;
    return i;
}

int natural_compare(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t shorter = a_len < b_len ? a_len : b_len, same = common_prefix(a, b, shorter);
    while (same > 0 && is_digit(a[same - 1])) /* they may differ inside a number */
        same--;
    const char *x = a + same, *y = b + same, *a_end = a + a_len, *b_end = b + b_len;
    while (x < a_end && y < b_end) {
        if (is_digit(*x) && is_digit(*y)) {
            int order = compare_numbers(&x, a_end, &y, b_end);
            if (order)
                return order;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++;
            y++;
        }
    }
    if (x < a_end || y < b_end)
        return x < a_end ? 1 : -1;
    int order = memcmp(a, b, shorter);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* Sorts names stored beside their tensors, so that comparing need not access the tensors. */
void selection_sort_names(selection *s, int (*compare)(const void *, const void *)) {
    name_entry *entries = need(s->count, sizeof *entries);
    for (size_t i = 0; i < s->count; i++)
        entries[i] = (name_entry){s->tensors[i]->name, s->tensors[i]->name_len, s->tensors[i]};
    qsort(entries, s->count, sizeof *entries, compare);
    for (size_t i = 0; i < s->count; i++)
        s->tensors[i] = entries[i].tensor;
    free(entries);
}

static int compare_names(const void *a, const void *b) {
    const name_entry *x = a, *y = b;
    return natural_compare(x->name, x->len, y->name, y->len);
}

void selection_sort_natural(selection *s) {
    selection_sort_names(s, compare_names);
}

uint64_t alignment_of(uint64_t offset) {
    uint64_t power = 1;
    while (power < 4096 && offset % (2 * power) == 0)
        power *= 2;
    return power;
}
