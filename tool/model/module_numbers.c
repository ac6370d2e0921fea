/* Finds module numbers in tensor names, formats ranges of numbers, and detects missing layers. */
#include "model/module_numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 9 };

static bool is_separator(char c) {
    return c == '.' || c == '/' || c == '-' || c == '_';
}

/* Length of the digits at the start of a name if they form a number; else 0. */
static size_t leading_number(const char *name, size_t len) {
    size_t n = 0;
    while (n < len && name[n] >= '0' && name[n] <= '9')
        n++;
    return n <= MOST_DIGITS && (n == len || is_separator(name[n])) ? n : 0;
}

bool number_find(const char *name, size_t len, size_t from, number_span *out) {
    for (size_t at = from; at < len; at++) {
        size_t digits =
            at == 0 || is_separator(name[at - 1]) ? leading_number(name + at, len - at) : 0;
        if (!digits)
            continue;
        *out = (number_span){at, at + digits, 0};
        for (; at < out->end; at++)
            out->value = out->value * 10 + (uint64_t)(name[at] - '0');
        return true;
    }
    return false;
}

size_t name_part_length(const char *name, size_t len) {
    size_t at = leading_number(name, len);
    if (at)
        return at;
    for (; at < len && name[at] != '.' && name[at] != '/'; at++)
        if (is_separator(name[at]) && leading_number(name + at + 1, len - at - 1))
            break;
    return at;
}

void text_add_ranges(text *t, const uint64_t *numbers, size_t count) {
    enum { MOST_RANGES = 6 };
    size_t shown = 0, more = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && numbers[end] <= numbers[end - 1] + 1;)
            end++;
        if (shown == MOST_RANGES) {
            more++;
            continue;
        }
        text_addf(t, "%s%" PRIu64, shown++ ? ", " : "", numbers[i]);
        if (numbers[end - 1] > numbers[i])
            text_addf(t, "…%" PRIu64, numbers[end - 1]);
    }
    if (more)
        text_addf(t, " and %zu more ranges", more);
}

/* Gaps. */

/* One number in one name. */
typedef struct module_number {
    const char *name;
    size_t prefix_len; /* bytes before the number, including the separator */
    uint64_t value, contents;
} module_number;

/* FNV-1a. The hashes of a module's tensors are summed, so their order does not matter. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len) {
    const unsigned char *b = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ b[i]) * 0x100000001b3;
    return hash;
}

static uint64_t contents_of(const tenmap_tensor *t, size_t end) {
    uint64_t hash = mix(0xcbf29ce484222325, t->name + end, t->name_len - end);
    hash = mix(hash, &t->dtype, sizeof t->dtype);
    hash = t->rank ? mix(hash, t->shape, t->rank * sizeof *t->shape) : hash;
    return hash ^ hash >> 29;
}

static int compare_prefixes(const module_number *x, const module_number *y) {
    size_t n = x->prefix_len < y->prefix_len ? x->prefix_len : y->prefix_len;
    int order = memcmp(x->name, y->name, n);
    return order ? order : (x->prefix_len > y->prefix_len) - (x->prefix_len < y->prefix_len);
}

static int by_place(const void *a, const void *b) {
    const module_number *x = a, *y = b;
    int order = compare_prefixes(x, y);
    return order ? order : (x->value > y->value) - (x->value < y->value);
}

static module_number *list_numbers(const selection *s, size_t *count) {
    enum { MOST_PER_NAME = 4, LONGEST = 2000 }; /* nobody writes longer names */
    module_number *list = NULL;
    *count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const tenmap_tensor *t = s->tensors[i];
        number_span at = {0};
        for (size_t k = 0; k < MOST_PER_NAME && t->name_len <= LONGEST &&
                           number_find(t->name, t->name_len, at.end, &at);
             k++) {
            list = need_next(list, *count, sizeof *list);
            list[(*count)++] = (module_number){t->name, at.begin, at.value, contents_of(t, at.end)};
        }
    }
    if (*count)
        qsort(list, *count, sizeof *list, by_place);
    return list;
}

/* The modules of one stack: their numbers and contents. */
typedef struct stack {
    uint64_t *numbers, *contents;
    size_t *tensors;
    size_t count;
} stack;

static void judge_stack(const module_number *first, const stack *s,
                        void (*found)(void *ctx, const number_gap *gap), void *ctx) {
    enum { LEAST_TENSORS = 3 };
    number_gap gap = {first->name, first->prefix_len, s->numbers, s->count, 0};
    for (size_t i = 1; i < s->count; i++) {
        uint64_t missing = s->numbers[i] - s->numbers[i - 1] - 1;
        bool same_contents = s->contents[i] == s->contents[i - 1] &&
                             s->tensors[i] == s->tensors[i - 1] && s->tensors[i] >= LEAST_TENSORS;
        if (same_contents)
            gap.missing += missing;
    }
    if (gap.prefix_len)
        gap.prefix_len--;
    if (gap.missing && gap.missing < s->count)
        found(ctx, &gap);
}

void find_gaps(const selection *s, void (*found)(void *ctx, const number_gap *gap), void *ctx) {
    size_t count;
    module_number *list = list_numbers(s, &count);
    stack now = {need(count, sizeof *now.numbers), need(count, sizeof *now.contents),
                 need(count, sizeof *now.tensors), 0};
    for (size_t at = 0, end; at < count; at = end) {
        now.count = 0;
        for (end = at; end < count && compare_prefixes(&list[at], &list[end]) == 0; end++) {
            if (end == at || list[end].value != list[end - 1].value) {
                now.numbers[now.count] = list[end].value;
                now.contents[now.count] = now.tensors[now.count] = 0;
                now.count++;
            }
            now.contents[now.count - 1] += list[end].contents;
            now.tensors[now.count - 1]++;
        }
        judge_stack(&list[at], &now, found, ctx);
    }
    free(now.numbers);
    free(now.contents);
    free(now.tensors);
    free(list);
}
