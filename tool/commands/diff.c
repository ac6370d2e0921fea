/* diff: compares two models by names, dtypes, shapes, metadata and values. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/relative_change.h"
#include "command.h"
#include "open_model.h"
#include "compare/compare_values.h"
#include "compare/diff.h"
#include "compare/match_tensors.h"
#include "compare/quant_error.h"
#include "metadata.h"
#include "view/print.h"
#include "remote/remote.h"
#include "tensor_patterns.h"

#define AT(field) offsetof(diff_settings, field)
static const option diff_options[] = {
    {'a', "atol", "X", OPTION_REAL, AT(atol), "Values of A and B may differ by X (0)"},
    {'r', "rtol", "X", OPTION_REAL, AT(rtol),
     "Values may also differ by X times the magnitude of A's (0)"},
    {'n', "top", "N", OPTION_COUNT, AT(top), "Show the N tensors that changed most (20)"},
    {0, "headers", NULL, OPTION_SWITCH, AT(headers), "Compare headers only, no values"},
    {0, "any-dtype", NULL, OPTION_SWITCH, AT(any_dtype), "Ignore a difference of dtype alone"},
    {0, "any-metadata", NULL, OPTION_SWITCH, AT(any_metadata), "Ignore differences of metadata"},
    {0, "as-stored", NULL, OPTION_SWITCH, AT(as_stored),
     "Compare what is stored: choose neither --map-names nor --dequantize"},
    {0, "map-names", NULL, OPTION_SWITCH, AT(map_names),
     "Match the names of transformers with those of GGUF, for Llama-like models"},
    {0, "rename", "s/REGEX/NEW/", OPTION_LIST, AT(rename),
     "Rename A's tensors like this before matching; may be given several times"},
    {'x', "except", "NAME", OPTION_LIST, AT(except), "Leave out tensors of these names"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Use this many threads (as many as there are processors)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv),
     "Print a row of tab-separated values for each tensor that differs"},
    DEQUANTIZE_OPTION(AT(dequantize)),
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example diff_examples[] = {
    {"tenmap diff base.safetensors tuned.safetensors", "which tensors changed, and how much"},
    {"tenmap diff f32/ bf16/ --any-dtype --rtol 0.004", "whether a conversion kept the values"},
    {"tenmap diff base/ tuned/ --top 100", "more of what changed, the most changed first"},
    {"tenmap diff base/ base-fp8/", "the quantization error, by tensor and layer"},
    {"tenmap diff base/ tuned/ --tsv | cut -f2,11",
     "names and relative changes, for other programs"},
    {"tenmap diff --headers a/ b/", "names, dtypes, shapes and metadata alone"},
    {"tenmap diff a/ b/ 'model.layers.0.*'", "one layer of both"},
    {"tenmap diff llama/ llama-Q4_K_M.gguf", "the quantization error, by dtype"},
    {"tenmap diff a/ b.gguf --rename 's/^h\\./blk./' --any-dtype --any-metadata",
     "for other names: how to rename them"},
    {NULL, NULL},
};

static bool same_shape(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static bool same_dtype(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->dtype == b->dtype && strcmp(tenmap_dtype_text(a), tenmap_dtype_text(b)) == 0;
}

static bool is_different(const pair *p) {
    return p->found.beyond > 0;
}

/* Sorts by relative change. Pairs with values that cannot be subtracted come first. */
static int by_difference(const void *left, const void *right) {
    const pair *x = left, *y = right;
    const difference *a = &x->found, *b = &y->found;
    if ((a->unlike > 0) != (b->unlike > 0))
        return a->unlike > 0 ? -1 : 1;
    double change = relative_change(x), other = relative_change(y);
    if (isnan(change) != isnan(other))
        return isnan(change) ? 1 : -1;
    if (change != other && !isnan(change))
        return change > other ? -1 : 1;
    if (a->max_abs != b->max_abs)
        return a->max_abs > b->max_abs ? -1 : 1;
    return (a->beyond < b->beyond) - (a->beyond > b->beyond);
}

/* Text output: lists of tensors that only one side has, or that differ, end after this many. */

enum { MOST_SHOWN = 20 };

static void add_side(text *line, const tenmap_tensor *t, bool shapes) {
    if (shapes)
        text_add_shape(line, t);
    else
        text_add_safe(line, tenmap_dtype_text(t), strlen(tenmap_dtype_text(t)));
}

static void print_names(const char *title, const tenmap_tensor *const *list, size_t count) {
    if (count == 0)
        return;
    printf("%s%s (%zu):%s\n", paint(STYLE_BOLD), title, count, paint_end());
    for (size_t i = 0; i < count && i < MOST_SHOWN; i++) {
        text line = {0};
        text_add_safe(&line, list[i]->name, list[i]->name_len);
        text_addf(&line, "  ");
        add_side(&line, list[i], false);
        text_addf(&line, " ");
        add_side(&line, list[i], true);
        printf("  %s\n", line.bytes);
        text_free(&line);
    }
    if (count > MOST_SHOWN)
        printf("  and %zu more\n", count - MOST_SHOWN);
}

static void print_changes(const char *title, const pair *list, size_t count, bool shapes) {
    if (count == 0)
        return;
    printf("%s%s (%zu):%s\n", paint(STYLE_BOLD), title, count, paint_end());
    for (size_t i = 0; i < count && i < MOST_SHOWN; i++) {
        text line = {0};
        text_add_safe(&line, list[i].a->name, list[i].a->name_len);
        text_addf(&line, "  ");
        add_side(&line, list[i].a, shapes);
        text_addf(&line, " -> ");
        add_side(&line, list[i].b, shapes);
        printf("  %s\n", line.bytes);
        text_free(&line);
    }
    if (count > MOST_SHOWN)
        printf("  and %zu more\n", count - MOST_SHOWN);
}

static void print_key(const tenmap_metadata *any, const tenmap_metadata *a,
                      const tenmap_metadata *b) {
    enum { COLUMNS = 40 };
    text line = {0};
    text_add_safe(&line, any->key, any->key_len);
    text_addf(&line, ": ");
    if (a)
        metadata_add_value(&line, a, COLUMNS);
    text_addf(&line, "%s -> %s", a ? "" : "(none)", b ? "" : "(none)");
    if (b)
        metadata_add_value(&line, b, COLUMNS);
    if (are_arrays(a, b))
        text_addf(&line, " (from element %" PRIu64 " on)", metadata_first_change(a, b));
    printf("  %s\n", line.bytes);
    text_free(&line);
}

static void put_real(table *t, double x) {
    if (isnan(x))
        table_put(t, STYLE_DIM, "-");
    else
        table_put(t, STYLE_NONE, "%.4g", x);
}

/* "100%", with special forms for tiny shares and for almost all. */
static void put_percent(table *t, uint64_t part, uint64_t all) {
    double percent = all ? 100 * (double)part / (double)all : 0;
    if (part && percent < 0.1)
        table_put(t, STYLE_NONE, "<0.1%%");
    else if (part < all && percent > 99.9)
        table_put(t, STYLE_NONE, ">99.9%%");
    else
        table_put(t, STYLE_NONE, percent < 10 && part ? "%.1f%%" : "%.0f%%", percent);
}

/*
 * Near 1, one minus the cosine says more than a row of nines. Differences up to 1e-15 are rounding
 * errors of the same direction.
 */
static void put_cosine(table *t, double cosine) {
    if (cosine > 0.999 && 1 - cosine > 1e-15)
        table_put(t, STYLE_NONE, "1 - %.1e", 1 - cosine);
    else
        put_real(t, cosine);
}

static void put_values(table *t, const pair *p, bool tolerant) {
    const difference *d = &p->found;
    const tenmap_tensor *named = pair_tensor(p);
    text_add_safe(table_cell(t), named->name, named->name_len);
    table_end_cell(t, STYLE_NONE);
    put_percent(t, d->different, d->count);
    put_real(t, relative_change(p));
    put_cosine(t, cosine_of(p));
    if (d->unlike || !p->comparable)
        table_put(t, STYLE_RED, "%s", d->unlike ? "NaN/Inf" : "bytes");
    else
        table_put(t, STYLE_NONE, "%.4g", d->max_abs);
    put_real(t, p->comparable && d->count ? d->sum_abs / (double)d->count : (double)NAN);
    put_real(t, p->comparable ? d->max_rel : (double)NAN);
    if (tolerant)
        table_put(t, STYLE_NONE, "%" PRIu64, d->beyond);
}

static void print_kinds(const change_kind *kinds, size_t count, bool by_dtype) {
    const column columns[] = {{by_dtype ? "DTYPE" : "KIND", false, COLUMN_SHRINKS},
                              {"TENSORS", true, COLUMN_STAYS},
                              {"CHANGED", true, COLUMN_STAYS},
                              {"REL CHANGE", true, COLUMN_STAYS}};
    table *t = table_new(columns, sizeof columns / sizeof columns[0]);
    printf("%sby %s:%s\n", paint(STYLE_BOLD), by_dtype ? "dtype" : "kind of layer", paint_end());
    for (size_t i = 0; i < count && i < MOST_SHOWN; i++) {
        text_add_safe(table_cell(t), kinds[i].name, strlen(kinds[i].name));
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_NONE, "%zu of %zu", kinds[i].changed, kinds[i].tensors);
        put_percent(t, kinds[i].different, kinds[i].count);
        put_real(t, kind_change(&kinds[i]));
    }
    table_print(t);
    table_free(t);
    if (count > MOST_SHOWN)
        printf("and %zu more kinds\n", count - MOST_SHOWN);
}

/*
 * Prints summaries where they add information: by kind if several tensors of a kind changed, and by
 * dtypes.
 */
static void sum_up(const models *m, bool across) {
    size_t count;
    change_kind *kinds = change_kinds(m->pairs, m->pair_count, false, &count);
    if (m->different > count && count)
        print_kinds(kinds, count, false);
    free_kinds(kinds, count);
    kinds = change_kinds(m->pairs, m->pair_count, true, &count);
    if (across && count)
        print_kinds(kinds, count, true);
    free_kinds(kinds, count);
}

static void print_values(const models *m, const diff_settings *set) {
    static const column columns[] = {
        {"NAME", false, COLUMN_SHRINKS},    {"CHANGED", true, COLUMN_STAYS},
        {"REL CHANGE", true, COLUMN_STAYS}, {"COSINE", true, COLUMN_STAYS},
        {"MAX ABS", true, COLUMN_STAYS},    {"MEAN ABS", true, COLUMN_SPARE},
        {"MAX REL", true, COLUMN_SPARE},    {"BEYOND", true, COLUMN_STAYS}};
    bool tolerant = set->atol > 0 || set->rtol > 0;
    size_t shown = 0, most = set->top ? (size_t)set->top : MOST_SHOWN;
    size_t quant_errors = set->headers ? 0 : print_quant_error(m->pairs, m->pair_count, most);
    if (m->different == quant_errors)
        return;
    table *t = table_new(columns, sizeof columns / sizeof columns[0] - !tolerant);
    for (size_t i = 0; i < m->pair_count && shown < most; i++)
        if (is_different(&m->pairs[i]) && !is_quantized_pair(&m->pairs[i])) {
            put_values(t, &m->pairs[i], tolerant);
            shown++;
        }
    table_print(t);
    table_free(t);
    if (m->different - quant_errors > shown)
        printf("and %zu more that changed less (--top %zu shows all)\n",
               m->different - quant_errors - shown, m->different);
    if (!quant_errors)
        sum_up(m, set->map_names);
}

/* Names both sides, so that a saved output says what it is about, and says what follows. */
static void print_sides(const models *m, bool same) {
    const tenmap_model *const sides[] = {m->a, m->b};
    const char *const what[] = {m->chosen.what_a, m->chosen.what_b};
    size_t width = print_width() ? print_width() : 100;
    text line = {0};
    for (size_t i = 0; i < 2; i++) {
        const char *path = shown_path(tenmap_path(sides[i]));
        text_clear(&line);
        text_add_safe(&line, path, strlen(path));
        printf("%s%c%s  %s%s%s\n", paint(STYLE_BOLD), "AB"[i], paint_end(), line.bytes,
               what[i] ? ", " : "", what[i] ? what[i] : "");
    }
    for (size_t i = 0; i < m->chosen.option_count; i++) {
        text_clear(&line);
        text_addf(&line, "chose %s: %s", m->chosen.options[i], m->chosen.reasons[i]);
        print_wrapped(line.bytes, 0, width);
    }
    for (size_t i = 0; !same && i < m->chosen.note_count; i++)
        print_wrapped(m->chosen.notes[i].bytes, 0, width);
    text_free(&line);
}

static void print_diff(const models *m, const diff_settings *set, bool same) {
    print_sides(m, same);
    print_names("only in A", m->found.only_a, m->found.only_a_count);
    print_names("only in B", m->found.only_b, m->found.only_b_count);
    if (!any_dtype(set))
        print_changes("different dtypes", m->dtypes, m->dtype_count, false);
    print_changes("different shapes", m->shapes, m->shape_count, true);
    if (m->metadata && !any_metadata(set)) {
        printf("%sdifferent metadata (%zu):%s\n", paint(STYLE_BOLD), m->metadata, paint_end());
        walk_metadata(m, print_key);
    }
    print_values(m, set);
    printf("%s%s%s: ", paint(same ? STYLE_GREEN : STYLE_YELLOW), same ? "equal" : "different",
           paint_end());
    if (set->headers)
        printf("%zu tensors in both, values not compared", m->pair_count + m->shape_count);
    else
        printf("%zu of %zu tensors in both have %s values", m->equal,
               m->pair_count + m->shape_count,
               set->atol > 0 || set->rtol > 0 ? "close" : "the same");
    if (m->permuted)
        printf("; %zu compared in llama.cpp's order of rows", m->permuted);
    if (m->found.only_a_count || m->found.only_b_count)
        printf("; %zu only in A, %zu only in B", m->found.only_a_count, m->found.only_b_count);
    putchar('\n');
}

static bool any_selects(const char *const *patterns, size_t count, const tenmap_tensor *t) {
    for (size_t i = 0; i < count; i++)
        if (pattern_selects(patterns[i], t))
            return true;
    return false;
}

typedef struct chosen {
    const char *const *patterns;
    size_t count;
    const texts *except;
} chosen;

static bool is_chosen(const chosen *c, const tenmap_tensor *t) {
    return c->count == 0 || any_selects(c->patterns, c->count, t);
}

static bool is_excepted(const chosen *c, const tenmap_tensor *t) {
    return any_selects(c->except->items, c->except->count, t);
}

static void keep_chosen(const chosen *c, const tenmap_tensor **list, size_t *count) {
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (is_chosen(c, list[i]) && !is_excepted(c, list[i]))
            list[kept++] = list[i];
    *count = kept;
}

/* A pair is selected by either of its names. */
static void sort_pairs(models *m, const chosen *c) {
    size_t most = m->found.pair_count;
    m->dtypes = need(most, sizeof *m->dtypes);
    m->shapes = need(most, sizeof *m->shapes);
    m->pairs = need(most, sizeof *m->pairs);
    for (size_t i = 0; i < most; i++) {
        const pair *p = &m->found.pairs[i];
        if ((!is_chosen(c, p->a) && !is_chosen(c, p->b)) || is_excepted(c, p->a) ||
            is_excepted(c, p->b))
            continue;
        m->permuted += p->head_rows > 0;
        if (!same_dtype(p->a, p->b))
            m->dtypes[m->dtype_count++] = *p;
        if (p->is_part || same_shape(p->a, p->b))
            m->pairs[m->pair_count++] = *p;
        else
            m->shapes[m->shape_count++] = *p;
    }
    free(m->found.pairs);
    m->found.pairs = NULL;
}

/* A name may exist on one side only, so it is an error only if both sides lack it. */
static int match_models(models *m, const invocation *call, const diff_settings *set) {
    chosen c = {call->operands + 2, call->operand_count - 2, &set->except};
    match_rules rules = {.map_names = set->map_names, .rename_count = set->rename.count};
    substitution *renames = NULL;
    int status = substitutions_parse(set->rename.items, set->rename.count, &renames);
    rules.renames = renames;
    if (!status)
        status = match_tensors(m->a, m->b, &rules, &m->found);
    substitutions_free(renames, set->rename.count);
    if (status)
        return status;
    keep_chosen(&c, m->found.only_a, &m->found.only_a_count);
    keep_chosen(&c, m->found.only_b, &m->found.only_b_count);
    sort_pairs(m, &c);
    if (c.count &&
        m->found.only_a_count + m->found.only_b_count + m->pair_count + m->shape_count == 0)
        return fail(EXIT_FAILED, "neither model has a tensor of that name");
    return EXIT_FINE;
}

static int compare_models(models *m, const diff_settings *set, bool *same) {
    tolerance within = {set->atol, set->rtol};
    int status = EXIT_FINE;
    m->metadata = walk_metadata(m, NULL);
    if (!set->headers)
        status = compare_pairs(m->pairs, m->pair_count, within, (unsigned)set->threads);
    if (!set->headers && !status)
        status = measure_changes(m->pairs, m->pair_count, set->map_names, (unsigned)set->threads);
    for (size_t i = 0; i < m->pair_count; i++)
        ++*(is_different(&m->pairs[i]) ? &m->different : &m->equal);
    qsort(m->pairs, m->pair_count, sizeof *m->pairs, by_difference);
    *same = !m->found.only_a_count && !m->found.only_b_count && !m->shape_count && !m->different &&
            (!m->dtype_count || any_dtype(set)) && (!m->metadata || any_metadata(set));
    return status;
}

static int wrong_settings(const diff_settings *set) {
    if (!(set->atol >= 0) || !(set->rtol >= 0))
        return fail(EXIT_USAGE, "a tolerance must be a number that is not negative");
    if (set->as_stored && (set->map_names || set->dequantize))
        return fail(EXIT_USAGE, "--as-stored excludes --map-names and --dequantize");
    if (set->json && set->tsv)
        return fail(EXIT_USAGE, "--json and --tsv exclude each other: choose one");
    return EXIT_FINE;
}

static void free_models(models *m) {
    matches_free(&m->found);
    choices_free(&m->chosen);
    free(m->dtypes);
    free(m->shapes);
    free(m->pairs);
    tenmap_close(m->a);
    tenmap_close(m->b);
}

static int diff_run(const invocation *call) {
    diff_settings set = *(const diff_settings *)call->settings;
    models m = {0};
    bool same = false;
    int status = wrong_settings(&set);
    if (status)
        return status;
    common.dequantize = set.dequantize;
    status = open_model(call->operands[0], &m.a);
    if (!status)
        status = open_model(call->operands[1], &m.b);
    if (!status) {
        choose_options(&m, &set);
        status = match_models(&m, call, &set);
    }
    if (!status && call->operand_count == 2)
        note_unmatched(&m, &set);
    if (!status)
        status = compare_models(&m, &set, &same);
    if (!status)
        (set.json ? print_diff_json : set.tsv ? print_diff_tsv : print_diff)(&m, &set, same);
    free_models(&m);
    return status ? status : same ? EXIT_FINE : EXIT_DIFFERENT;
}

const command cmd_diff = {
    .name = "diff",
    .summary = "Compare two models, headers and values",
    .operands = "A B [NAME...]",
    .min_operands = 2,
    .max_operands = SIZE_MAX,
    .options = diff_options,
    .details =
        "Values are compared as real numbers, whatever their dtypes; NaN equals NaN. A value is\n"
        "beyond the tolerance if it differs from A's by more than atol + rtol * |A's|. Relative\n"
        "differences are |a - b| / max(|a|, |b|); means are over all elements. CHANGED is the\n"
        "share of elements that differ. REL CHANGE is the norm of the difference divided by the\n"
        "norm of A's tensor; rows are sorted by it. COSINE is the cosine similarity. A kind is\n"
        "a set of names that differ only in numbers; its change is computed over all its\n"
        "tensors. The order of tensors and their distribution over shards do not matter.\n"
        "--dequantize compares weights that are quantized on one side by their values. REL\n"
        "ERROR is the norm of the difference divided by the norm of A's weight; SNR is the same\n"
        "ratio in dB.\n"
        "\n"
        "If exactly one model is GGUF, diff chooses --map-names. If exactly one is quantized,\n"
        "it chooses --dequantize. It prints what it chose. With --as-stored it chooses neither.\n"
        "\n"
        "--map-names knows llama.cpp's names for the weights of Llama-like models, including\n"
        "experts, and the order in which it stores the rows of query and key projections.\n"
        "Differences of dtype and metadata are then ignored. Gemma's norms are larger by one\n"
        "in GGUF.\n"
        "\n"
        "Exit: 0 equal (within the tolerance), 1 different, 2 rejected, 3 could not be read.",
    .examples = diff_examples,
    .settings_size = sizeof(diff_settings),
    .run = diff_run,
};
