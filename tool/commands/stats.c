/* stats: shows statistics of tensor values, as a table or as histograms. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "open_model.h"
#include "view/text_histogram.h"
#include "view/json_out.h"
#include "view/measure_progress.h"
#include "view/print.h"
#include "model/model_operands.h"
#include "model/value_survey.h"
#include "view/survey_view.h"
#include "remote/remote.h"

enum { ORDER_FILE, ORDER_NAME, ORDER_STD, ORDER_MAX, ORDER_NORM };

typedef struct stats_settings {
    filter wanted;
    bool details, hist, log, counts, json, tsv, dequantize;
    unsigned sort;
    uint64_t threads, bins;
    double low, high;
} stats_settings;

#define AT(field) offsetof(stats_settings, field)
static const option stats_options[] = {
    {'D', "details", NULL, OPTION_SWITCH, AT(details),
     "Show percentiles, where the extreme values and the first NaN are, dead rows and columns, and "
     "where outliers gather"},
    {'H', "hist", NULL, OPTION_SWITCH, AT(hist), "Draw a histogram of each tensor"},
    {0, "log", NULL, OPTION_SWITCH, AT(log), "Draw the bars of histograms on a log scale"},
    {0, "counts", NULL, OPTION_SWITCH, AT(counts),
     "List the bins of each histogram: their edges and counts"},
    {0, "bins", "N", OPTION_COUNT, AT(bins),
     "Divide each histogram into N bins (default: as many as fit, at most 64)"},
    {0, "low", "X", OPTION_REAL, AT(low), "Begin all histograms at X; needs --high"},
    {0, "high", "X", OPTION_REAL, AT(high),
     "End all histograms at X (by default from the least to the greatest value)"},
    {'s', "sort", "file|name|std|max|norm", OPTION_CHOICE, AT(sort),
     "Sort by this; numbers from the largest down, max by magnitude"},
    {'d', "dtype", "DTYPE", OPTION_LIST, AT(wanted.dtypes),
     "Take only tensors of these dtypes: bf16, 'f8*'"},
    {'x', "except", "NAME", OPTION_LIST, AT(wanted.except), "Leave out tensors of these names"},
    {0, "min-size", "SIZE", OPTION_SIZE, AT(wanted.min_bytes),
     "Take only tensors of at least this size"},
    {0, "max-size", "SIZE", OPTION_SIZE, AT(wanted.max_bytes),
     "Take only tensors of at most this size"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Use this many threads (as many as there are processors)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json),
     "Print the answer as JSON; with --hist, the counts too"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv), "Print the answer as tab-separated values"},
    DEQUANTIZE_OPTION(AT(dequantize)),
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example stats_examples[] = {
    {"tenmap stats model.safetensors", "a line for each tensor"},
    {"tenmap stats llama/ -s max '*.weight'", "where the largest weights are"},
    {"tenmap stats --details llama/ lm_head.weight", "percentiles, dead rows, outliers"},
    {"tenmap stats --hist --log llama/ lm_head.weight", "how one tensor is distributed"},
    {"tenmap stats --tsv llama/ | sort -t'\t' -gk8", "for other programs"},
    {NULL, NULL},
};

typedef struct measured {
    const tenmap_tensor *tensor;
    tenmap_stats stats;
    const uint64_t *bins;
    const value_survey *details; /* NULL: not asked for */
} measured;

static double largest_magnitude(const tenmap_stats *s) {
    return fabs(s->min) > fabs(s->max) ? fabs(s->min) : fabs(s->max);
}

/* Larger values first, NaN last. */
static int by_real(double a, double b) {
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a < b) - (a > b);
}

static int by_std(const void *a, const void *b) {
    return by_real(((const measured *)a)->stats.std, ((const measured *)b)->stats.std);
}
static int by_max(const void *a, const void *b) {
    return by_real(largest_magnitude(&((const measured *)a)->stats),
                   largest_magnitude(&((const measured *)b)->stats));
}
static int by_norm(const void *a, const void *b) {
    return by_real(((const measured *)a)->stats.norm, ((const measured *)b)->stats.norm);
}

static void sort_measured(measured *list, size_t count, unsigned order) {
    static int (*const orders[])(const void *, const void *) = {
        [ORDER_STD] = by_std, [ORDER_MAX] = by_max, [ORDER_NORM] = by_norm};
    if (order >= ORDER_STD)
        qsort(list, count, sizeof *list, orders[order]);
}

static void put_number(table *t, double x, int digits) {
    if (isnan(x))
        table_put(t, STYLE_DIM, "-");
    else
        table_put(t, STYLE_NONE, "%.*g", digits, x);
}

/* "12%", with a special form for tiny shares. */
static void put_share(table *t, uint64_t part, uint64_t all) {
    double percent = all ? 100 * (double)part / (double)all : 0;
    if (part == 0)
        table_put(t, STYLE_DIM, "0");
    else if (percent < 0.1)
        table_put(t, STYLE_NONE, "<0.1%%");
    else
        table_put(t, STYLE_NONE, percent < 10 ? "%.1f%%" : "%.0f%%", percent);
}

static void put_specials(table *t, const tenmap_stats *s) {
    if (!s->nans && !s->infinities) {
        table_put(t, STYLE_DIM, "0");
        return;
    }
    text *cell = table_cell(t);
    if (s->nans)
        text_addf(cell, "%" PRIu64 " NaN", s->nans);
    if (s->infinities)
        text_addf(cell, "%s%" PRIu64 " Inf", s->nans ? ", " : "", s->infinities);
    table_end_cell(t, STYLE_RED);
}

/*
 * A narrow terminal gets fewer digits, no norm, and the last column only if it has a NaN or an
 * infinity.
 */
static void print_stats_table(const measured *list, size_t count) {
    enum { NARROW = 100, NUMBERS = 5 };
    static const column wide[] = {
        {"NAME", false, true}, {"DTYPE", false, false}, {"MIN", true, false},
        {"MAX", true, false},  {"MEAN", true, false},   {"STD", true, false},
        {"NORM", true, false}, {"ZEROS", true, false},  {"NaN/Inf", true, false}};
    static const column close[] = {{"NAME", false, true},  {"DTYPE", false, false},
                                   {"MIN", true, false},   {"MAX", true, false},
                                   {"MEAN", true, false},  {"STD", true, false},
                                   {"ZEROS", true, false}, {"NaN/Inf", true, false}};
    bool narrow = print_width() && print_width() < NARROW, specials = !narrow;
    for (size_t i = 0; i < count; i++)
        specials = specials || list[i].stats.nans || list[i].stats.infinities;
    size_t columns = narrow ? sizeof close / sizeof close[0] : sizeof wide / sizeof wide[0];
    table *t = table_new(narrow ? close : wide, columns - !specials);
    for (size_t i = 0; i < count; i++) {
        const tenmap_stats *s = &list[i].stats;
        const double numbers[NUMBERS] = {s->min, s->max, s->mean, s->std, s->norm};
        text_add_safe(table_cell(t), list[i].tensor->name, list[i].tensor->name_len);
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_CYAN, "%s", tenmap_dtype_name(list[i].tensor->dtype));
        for (size_t k = 0; k < (size_t)NUMBERS - narrow; k++)
            put_number(t, numbers[k], narrow ? 3 : 4);
        put_share(t, s->zeros, s->count);
        if (specials)
            put_specials(t, s);
    }
    table_print(t);
    table_free(t);
}

static void print_histograms(const measured *list, size_t count, const stats_settings *set,
                             uint32_t bins) {
    for (size_t i = 0; i < count; i++) {
        const tenmap_stats *s = &list[i].stats;
        bool own = !(set->low < set->high);
        histogram h = {list[i].bins, bins, own ? s->min : set->low, own ? s->max : set->high,
                       set->log};
        printf("%s%s", i ? "\n" : "", paint(STYLE_BOLD));
        print_safe(stdout, list[i].tensor->name, list[i].tensor->name_len);
        printf("%s  %s  mean %.4g  std %.4g", paint_end(), tenmap_dtype_name(list[i].tensor->dtype),
               s->mean, s->std);
        if (s->nans || s->infinities)
            printf("  %s%" PRIu64 " NaN, %" PRIu64 " Inf%s", paint(STYLE_RED), s->nans,
                   s->infinities, paint_end());
        putchar('\n');
        if (set->counts)
            histogram_list(&h);
        else
            histogram_draw(&h);
    }
}

static void print_stats_json(const tenmap_model *model, const measured *list, size_t count,
                             const stats_settings *set, uint32_t bins) {
    json_open('{', false);
    json_key_text("model", shown_path(tenmap_path(model)), TENMAP_CSTR);
    json_key("tensors");
    json_open('[', false);
    for (size_t i = 0; i < count; i++) {
        const tenmap_stats *s = &list[i].stats;
        json_open('{', true);
        json_tensor_fields(list[i].tensor);
        json_key_uint("count", s->count);
        json_key_real("min", s->min);
        json_key_real("max", s->max);
        json_key_real("mean", s->mean);
        json_key_real("std", s->std);
        json_key_real("norm", s->norm);
        json_key_uint("zeros", s->zeros);
        json_key_uint("subnormals", s->subnormals);
        json_key_uint("nans", s->nans);
        json_key_uint("infinities", s->infinities);
        if (list[i].bins) {
            bool own = !(set->low < set->high);
            json_key("histogram");
            json_open('{', true);
            json_key_real("low", own ? s->min : set->low);
            json_key_real("high", own ? s->max : set->high);
            json_key("counts");
            json_open('[', true);
            for (uint32_t b = 0; b < bins; b++)
                json_uint(list[i].bins[b]);
            json_close();
            json_close();
        }
        if (list[i].details)
            survey_json(list[i].tensor, list[i].details);
        json_close();
    }
    json_close();
    json_close();
}

static void print_stats_tsv(const measured *list, size_t count) {
    text line = {0};
    puts("name\tdtype\tcount\tmin\tmax\tmean\tstd\tnorm\tzeros\tsubnormals\tnans\tinfinities");
    for (size_t i = 0; i < count; i++) {
        const tenmap_stats *s = &list[i].stats;
        const double reals[] = {s->min, s->max, s->mean, s->std, s->norm};
        const uint64_t counts[] = {s->zeros, s->subnormals, s->nans, s->infinities};
        text_add_field(&line, list[i].tensor->name, list[i].tensor->name_len);
        text_addf(&line, "\t%s\t%" PRIu64, tenmap_dtype_name(list[i].tensor->dtype), s->count);
        for (size_t k = 0; k < sizeof reals / sizeof reals[0]; k++)
            text_addf(&line, isnan(reals[k]) ? "\tnan" : "\t%.17g", reals[k]);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            text_addf(&line, "\t%" PRIu64, counts[k]);
        text_add(&line, "\n", 1);
        fwrite(line.bytes, 1, line.len, stdout);
        text_clear(&line);
    }
    text_free(&line);
}

/* As many bins as asked for, or as fit the terminal. */
static uint32_t choose_bins(const stats_settings *set) {
    enum { MOST_BY_DEFAULT = 64, MARGIN = 4 };
    size_t width = print_width();
    if (!set->hist)
        return 0;
    if (set->bins)
        return (uint32_t)set->bins;
    return width > MARGIN && width - MARGIN < MOST_BY_DEFAULT ? (uint32_t)(width - MARGIN)
                                                              : MOST_BY_DEFAULT;
}

static void print_measured(const tenmap_model *model, const measured *list, size_t count,
                           const stats_settings *set, uint32_t bins) {
    if (set->json)
        print_stats_json(model, list, count, set, bins);
    else if (set->tsv)
        print_stats_tsv(list, count);
    else if (set->hist)
        print_histograms(list, count, set, bins);
    else if (set->details)
        for (size_t i = 0; i < count; i++)
            survey_print(list[i].tensor, &list[i].stats, list[i].details);
    else
        print_stats_table(list, count);
}

static int measure_and_print(const tenmap_model *model, selection *chosen,
                             const stats_settings *set) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    uint32_t bins = choose_bins(set);
    size_t count = chosen->count;
    tenmap_stats *stats = need(count, sizeof *stats);
    measured *list = need(count, sizeof *list);
    uint64_t *counts = bins ? need(count, bins * sizeof *counts) : NULL;
    value_survey *details = set->details ? need(count, sizeof *details) : NULL;
    options.threads = (uint32_t)set->threads;
    options.bins = bins;
    options.histogram = counts;
    options.low = set->low;
    options.high = set->high;
    int status = measure_selection(chosen, &options, stats);
    if (!status && details)
        status = survey_selection(chosen, stats,
                                  &(survey_options){.threads = (unsigned)set->threads}, details);
    for (size_t i = 0; i < count; i++)
        list[i] = (measured){chosen->tensors[i], stats[i], counts ? counts + i * bins : NULL,
                             details ? &details[i] : NULL};
    if (!status) {
        sort_measured(list, count, set->sort);
        print_measured(model, list, count, set, bins);
    }
    free(details);
    free(counts);
    free(list);
    free(stats);
    return status;
}

static int check_settings_given(const stats_settings *set) {
    enum { MOST_BINS = 1000 };
    if (set->json && set->tsv)
        return fail(EXIT_USAGE, "--json and --tsv exclude each other: choose one");
    if (set->details && (set->tsv || (set->hist && !set->json)))
        return fail(EXIT_USAGE, "--details are shown as text, or with --json: leave out --%s",
                    set->tsv ? "tsv" : "hist");
    if (set->tsv && set->hist)
        return fail(EXIT_USAGE, "--tsv cannot show histograms: use --json");
    if ((set->log || set->counts || set->bins || set->low != 0 || set->high != 0) && !set->hist)
        return fail(EXIT_USAGE,
                    "--log, --counts, --bins, --low and --high are for histograms: add --hist");
    if (set->bins > MOST_BINS)
        return fail(EXIT_USAGE, "--bins takes at most %d", MOST_BINS);
    if ((set->low != 0 || set->high != 0) && !(set->low < set->high))
        return fail(EXIT_USAGE, "--low must be less than --high");
    return EXIT_FINE;
}

/* The settings, and the names after the models. */
typedef struct stats_call {
    const stats_settings *set;
    filter wanted;
} stats_call;

static int stats_one(const char *path, bool several, const void *settings) {
    const stats_call *call = settings;
    const stats_settings *set = call->set;
    tenmap_model *model;
    selection chosen;
    common.dequantize = set->dequantize;
    int status = open_model(path, &model);
    if (status)
        return status;
    status = select_tensors(model, &call->wanted, &chosen);
    if (!status) {
        drop_opaque(&chosen);
        if (set->sort == ORDER_NAME)
            selection_sort_natural(&chosen);
        if (several && !set->json) {
            printf("%s", paint(STYLE_BOLD));
            print_safe(stdout, shown_path(tenmap_path(model)),
                       strlen(shown_path(tenmap_path(model))));
            printf("%s\n", paint_end());
        }
        status = measure_and_print(model, &chosen, set);
        selection_free(&chosen);
    }
    tenmap_close(model);
    return status;
}

static int stats_run(const invocation *call) {
    const stats_settings *set = call->settings;
    size_t models = leading_model_count(call->operands, call->operand_count);
    stats_call all = {set, set->wanted};
    model_paths paths;
    int status = check_settings_given(set);
    if (status)
        return status;
    all.wanted.patterns = call->operands + models;
    all.wanted.pattern_count = call->operand_count - models;
    expand_model_operands(call->operands, models, &paths);
    if (paths.count > 1 && set->tsv)
        status = fail(EXIT_USAGE, "--tsv takes one model; use --json for several");
    else
        status = for_each_model(&paths, set->json, stats_one, &all);
    model_paths_free(&paths);
    return status;
}

const command cmd_stats = {
    .name = "stats",
    .summary = "Measure values: min, max, mean, std, zeros, NaN; histograms",
    .operands = "MODEL... [NAME...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = stats_options,
    .details =
        "Everything except the counts covers finite values only. std is the population standard\n"
        "deviation, norm the Euclidean norm. The numbers are the same on any number of threads\n"
        "and on every CPU. A complex number counts as its two parts. A NAME with *, ? or [...]\n"
        "is a glob. Leading operands that are files or folders are models, the others are\n"
        "names.",
    .examples = stats_examples,
    .settings_size = sizeof(stats_settings),
    .run = stats_run,
};
