/* report: writes an HTML report that shows what is inside a model, and pictures of it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "open_model.h"
#include "model/model_endings.h"
#include "view/print.h"
#include "remote/remote.h"
#include "report/report.h"

typedef struct report_settings {
    const char *output, *title, *compare, *treemap, *heatmap;
    bool no_stats, force, dequantize;
    report_request request;
    /* color is a report_color. metric is a report_metric + 1, or 0 to choose by what is known. */
    unsigned color, metric;
} report_settings;

#define AT(field) offsetof(report_settings, field)
static const option report_options[] = {
    {'o', "output", "FILE", OPTION_TEXT, AT(output),
     "Write the report to this file (the model's name with .html, in this folder); -: stdout"},
    {'f', "force", NULL, OPTION_SWITCH, AT(force), "Replace existing files"},
    {'c', "compare", "OTHER", OPTION_TEXT, AT(compare),
     "Show what changed compared with this model, such as the base of a fine-tune"},
    {0, "hist", "NAME", OPTION_LIST, AT(request.hist), "Make histograms of these tensors only"},
    {0, "hist-limit", "SIZE", OPTION_SIZE, AT(request.hist_limit),
     "Make histograms of all tensors if their data is at most this much (8GB)"},
    {0, "no-stats", NULL, OPTION_SWITCH, AT(no_stats), "Read headers only, and measure no values"},
    DEQUANTIZE_OPTION(AT(dequantize)),
    {0, "title", "TEXT", OPTION_TEXT, AT(title), "Use this heading"},
    {0, "treemap", "FILE", OPTION_TEXT, AT(treemap), "Draw the treemap into this file, as SVG"},
    {0, "color-by", "auto|dtype|layer|change", OPTION_CHOICE, AT(color),
     "Color the treemap of --treemap by this (auto: depends on the data)"},
    {0, "heatmap", "FILE", OPTION_TEXT, AT(heatmap),
     "Draw the heat map of the layers into this file, as SVG"},
    {0, "metric", "auto|norm|max|zeros|broken|change|size", OPTION_CHOICE, AT(metric),
     "Show this in the heat map of --heatmap; broken counts NaN and Inf (auto: depends on the "
     "data)"},
    {'j', "threads", "N", OPTION_COUNT, AT(request.threads),
     "Read values on this many threads (as many as there are processors)"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example report_examples[] = {
    {"tenmap report model.safetensors", "writes model.html, to be opened in a browser"},
    {"tenmap report llama/ -o llama.html --no-stats", "at once, from the headers alone"},
    {"tenmap report tuned/ --compare base/ -o tuned.html", "what a fine-tune changed"},
    {"tenmap report base-fp8/ --compare base/ --dequantize -o cost.html",
     "what quantization changed"},
    {"tenmap report model.safetensors --treemap map.svg --heatmap heat.svg",
     "pictures for a paper or a bug report"},
    {NULL, NULL},
};

static const char report_details[] =
    "Writes one HTML file that needs no network: a treemap of bytes and parameters,\n"
    "element types and shapes, a heat map of the layers, a table of all tensors with\n"
    "search and histograms, the files, the metadata, and every finding of 'tenmap check'.\n"
    "Values are read to measure them, unless --no-stats is given. With --dequantize,\n"
    "quantized weights are one tensor each, sizes are those of their values, and\n"
    "--compare shows what quantization changed. With --treemap or --heatmap, the report is\n"
    "written only if -o is given.";

static const report_settings report_defaults = {.request = {.hist_limit = UINT64_C(8000000000)}};

static void drop_ending(text *t, const char *ending) {
    if (!has_ending(t->bytes, ending))
        return;
    t->len -= strlen(ending);
    t->bytes[t->len] = '\0';
}

/* "model.html" for "path/to/model.safetensors", "llama.html" for "models/llama/". */
static char *default_output(const char *model) {
    text t = {0};
    model = shown_path(model);
    size_t end = strlen(model);
    while (end > 1 && model[end - 1] == '/')
        end--;
    size_t start = end;
    while (start && model[start - 1] != '/')
        start--;
    text_add(&t, model + start, end - start);
    if (strcmp(t.bytes, ".") == 0 || strcmp(t.bytes, "..") == 0 || strcmp(t.bytes, "/") == 0) {
        text_clear(&t);
        text_add(&t, "model", 5);
    }
    for (const char *const *ending = model_endings; *ending; ending++)
        drop_ending(&t, *ending);
    drop_ending(&t, ".index.json");
    drop_ending(&t, ".json");
    text_add(&t, ".html", 5);
    return t.bytes;
}

static int wrong_choices(const report_settings *set) {
    bool wants_values = set->metric >= 1 + METRIC_NORM && set->metric <= 1 + METRIC_BROKEN;
    if (set->no_stats && set->request.hist.count)
        return fail(EXIT_USAGE, "--hist needs values, but --no-stats reads none: leave out one");
    if (set->no_stats && wants_values)
        return fail(EXIT_USAGE, "this --metric needs values, but --no-stats reads none");
    if (!set->compare && (set->color == COLOR_CHANGE || set->metric == 1 + METRIC_CHANGE))
        return fail(EXIT_USAGE, "'change' needs a second model: --compare OTHER");
    return 0;
}

static report_metric metric_of(const report_settings *set) {
    if (set->metric)
        return (report_metric)(set->metric - 1);
    return set->compare ? METRIC_CHANGE : set->no_stats ? METRIC_SIZE : METRIC_NORM;
}

typedef struct outputs {
    report_file page, treemap, heatmap;
} outputs;

/* Runs stat on the folder part of a path, with a "." after it. */
static bool stat_folder(const char *path, size_t len, struct stat *out) {
    text folder = {0};
    text_add(&folder, path, len);
    text_add(&folder, ".", 1);
    bool found = stat(folder.bytes, out) == 0;
    text_free(&folder);
    return found;
}

/* Refuses two outputs with the same path; one would overwrite the other. */
static int apart(const char *a, const char *b) {
    if (!a || !b)
        return 0;
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    size_t at_a = slash_a ? (size_t)(slash_a - a) + 1 : 0;
    size_t at_b = slash_b ? (size_t)(slash_b - b) + 1 : 0;
    struct stat in_a, in_b;
    bool same = is_stdout(a) && is_stdout(b);
    if (!same && strcmp(a + at_a, b + at_b) == 0 && stat_folder(a, at_a, &in_a) &&
        stat_folder(b, at_b, &in_b))
        same = in_a.st_dev == in_b.st_dev && in_a.st_ino == in_b.st_ino;
    return same ? fail(EXIT_USAGE, "'%s' and '%s' are the same file: each output needs its own", a,
                       b)
                : 0;
}

static int begin_outputs(const report_settings *set, const char *page, const report *r,
                         outputs *out) {
    int status = apart(page, set->treemap);
    if (!status)
        status = apart(page, set->heatmap);
    if (!status)
        status = apart(set->treemap, set->heatmap);
    if (!status && page)
        status = report_file_begin(&out->page, page, "HTML", set->force, r);
    if (!status && set->treemap)
        status = report_file_begin(&out->treemap, set->treemap, "SVG", set->force, r);
    if (!status && set->heatmap)
        status = report_file_begin(&out->heatmap, set->heatmap, "SVG", set->force, r);
    return status;
}

static int commit(report_file *f) {
    text line = {0};
    uint64_t bytes = 0;
    if (!f->out)
        return 0;
    bool named = f->file.temporary != NULL;
    int status = report_file_commit(f, &bytes);
    if (!status && named && !common.quiet) {
        text_addf(&line, "wrote ");
        text_add_safe(&line, f->file.path, strlen(f->file.path));
        text_addf(&line, " (");
        text_add_bytes(&line, bytes);
        fprintf(stderr, "%s)\n", line.bytes);
        text_free(&line);
    }
    return status;
}

static int write_outputs(const report_settings *set, const report *r, outputs *out) {
    if (out->page.out)
        report_write_page(r, out->page.out);
    if (out->treemap.out)
        report_write_treemap(r, (report_color)set->color, out->treemap.out);
    if (out->heatmap.out)
        report_write_heatmap(r, metric_of(set), out->heatmap.out);
    int status = commit(&out->page);
    if (!status)
        status = commit(&out->treemap);
    if (!status)
        status = commit(&out->heatmap);
    return status;
}

static int make_report(const report_settings *set, const char *page, const tenmap_model *model,
                       const tenmap_model *base) {
    report r = {.title = set->title, .model = model, .base = base};
    report_request request = set->request;
    outputs out = {0};
    request.stats = !set->no_stats;
    int status = begin_outputs(set, page, &r, &out);
    if (!status)
        status = report_gather(&r, model, base, &request);
    if (!status)
        status = write_outputs(set, &r, &out);
    report_file_abort(&out.page);
    report_file_abort(&out.treemap);
    report_file_abort(&out.heatmap);
    report_free(&r);
    return status;
}

static int report_run(const invocation *call) {
    const report_settings *set = call->settings;
    tenmap_model *model = NULL, *base = NULL;
    bool pictures_only = !set->output && (set->treemap || set->heatmap);
    char *named = default_output(call->operands[0]);
    const char *page = set->output ? set->output : pictures_only ? NULL : named;
    int status = wrong_choices(set);
    common.dequantize = set->dequantize;
    if (!status)
        status = open_model(call->operands[0], &model);
    if (!status && set->compare)
        status = open_model(set->compare, &base);
    if (!status)
        status = make_report(set, page, model, base);
    tenmap_close(base);
    tenmap_close(model);
    free(named);
    return status;
}

const command cmd_report = {
    .name = "report",
    .summary = "Write an HTML report on a model",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .options = report_options,
    .details = report_details,
    .examples = report_examples,
    .settings_size = sizeof(report_settings),
    .defaults = &report_defaults,
    .run = report_run,
};
