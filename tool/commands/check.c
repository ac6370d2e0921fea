/* check: judges a model and lists everything that is wrong or unusual about it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "open_model.h"
#include "model/checkpoint_branch.h"
#include "model/config_check.h"
#include "model/findings.h"
#include "view/measure_progress.h"
#include "model/module_numbers.h"
#include "view/print.h"
#include "remote/remote.h"
#include "model/model_operands.h"
#include "model/value_survey.h"
#include "view/survey_view.h"

enum { LEVEL_NOTE, LEVEL_WARNING, LEVEL_ERROR };

typedef struct check_settings {
    bool values, config, all, json;
    unsigned level;
    uint64_t threads;
} check_settings;

#define AT(field) offsetof(check_settings, field)
static const option check_options[] = {
    {'v', "values", NULL, OPTION_SWITCH, AT(values),
     "Read the tensors too, and find NaN, infinities, subnormal numbers, tensors of zeros, and "
     "dead rows and columns"},
    {'c', "config", NULL, OPTION_SWITCH, AT(config),
     "Compare with the config.json next to it: layers, vocabulary, shapes of common architectures"},
    {'l', "level", "note|warning|error", OPTION_CHOICE, AT(level),
     "Show findings of this severity and above (note)"},
    {'a', "all", NULL, OPTION_SWITCH, AT(all),
     "Show each finding on its own line, instead of one line for each cause"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Read values on this many threads (as many as there are processors)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example check_examples[] = {
    {"tenmap check model.safetensors", "what is wrong with it, if anything"},
    {"tenmap check --values llama/", "and whether a NaN crept in"},
    {"tenmap check --config llama/", "and whether config.json describes these tensors"},
    {"tenmap check loras/*.safetensors", "one verdict each, then how many are fine"},
    {"tenmap check --json model.safetensors | jq .verdict", "for scripts, like the exit code"},
    {NULL, NULL},
};

/* Values. */

typedef struct value_rule {
    uint32_t severity;
    const char *code, *what;
} value_rule;

/* Begins a message about a tensor: "FILE": tensor "NAME": */
static void add_subject(text *message, const tenmap_tensor *t) {
    const char *file = shown_path(tenmap_shard_at(t->model, t->shard)->path);
    text_addf(message, "\"");
    text_add_safe(message, file, strlen(file));
    text_addf(message, "\": tensor \"");
    text_add_safe(message, t->name, t->name_len);
    text_addf(message, "\": ");
}

static void judge_values(findings *list, const tenmap_tensor *t, const tenmap_stats *s) {
    static const value_rule rules[] = {
        {TENMAP_FINDING_WARNING, "nan", "NaN"},
        {TENMAP_FINDING_WARNING, "infinite", "infinite"},
        {TENMAP_FINDING_WARNING, "all-zero", "zero"},
        {TENMAP_FINDING_NOTE, "subnormal", "subnormal"},
    };
    /* A quarter of the codes of an 8-bit float are subnormal, and more of smaller floats. */
    bool wide = tenmap_dtype_bits(t->dtype) > 8;
    const uint64_t counts[] = {s->nans, s->infinities,
                               s->count > 1 && s->zeros == s->count ? s->count : 0,
                               wide ? s->subnormals : 0};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        text message = {0};
        if (!counts[i])
            continue;
        add_subject(&message, t);
        if (counts[i] == s->count)
            text_addf(&message, "all of its %" PRIu64 " values are %s", s->count, rules[i].what);
        else
            text_addf(&message, "%" PRIu64 " of its %" PRIu64 " values %s %s", counts[i], s->count,
                      counts[i] == 1 ? "is" : "are", rules[i].what);
        findings_add(list, rules[i].severity, rules[i].code, place_of(t), message.bytes);
        text_free(&message);
    }
}

/* Rows and columns of one value. Padding of vocabularies is a common cause, so it is a note. */
static void judge_lines(findings *list, const tenmap_tensor *t, const value_survey *s) {
    const struct {
        const char *code, *what;
        const line_survey *lines;
    } kinds[] = {{"dead-rows", "row", &s->rows}, {"dead-columns", "column", &s->columns}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        text message = {0};
        if (!kinds[i].lines->zero && !kinds[i].lines->constant)
            continue;
        add_subject(&message, t);
        text_add_dead_lines(&message, kinds[i].lines, kinds[i].what);
        findings_add(list, TENMAP_FINDING_NOTE, kinds[i].code, place_of(t), message.bytes);
        text_free(&message);
    }
}

/* Of integers, which are codes or positions, rows of one value are common. */
static bool may_be_dead(const tenmap_tensor *t, const tenmap_stats *s) {
    return tenmap_dtype_kind(t->dtype) == TENMAP_KIND_FLOAT && s->zeros < s->count;
}

static int check_lines(const selection *all, const tenmap_stats *stats, const check_settings *set,
                       findings *list) {
    survey_options options = {.threads = (unsigned)set->threads, .only_dead = true};
    selection chosen = {need(all->count, sizeof *chosen.tensors), 0, 0, 0};
    value_survey *surveys = need(all->count, sizeof *surveys);
    for (size_t i = 0; i < all->count; i++) {
        if (!may_be_dead(all->tensors[i], &stats[i]))
            continue;
        chosen.tensors[chosen.count++] = all->tensors[i];
        chosen.bytes += all->tensors[i]->nbytes;
    }
    int status = survey_selection(&chosen, NULL, &options, surveys);
    for (size_t i = 0; !status && i < chosen.count; i++)
        judge_lines(list, chosen.tensors[i], &surveys[i]);
    free(surveys);
    selection_free(&chosen);
    return status;
}

static int check_values(selection *all, const check_settings *set, findings *list) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    options.threads = (uint32_t)set->threads;
    drop_opaque(all);
    tenmap_stats *stats = need(all->count, sizeof *stats);
    int status = measure_selection(all, &options, stats);
    for (size_t i = 0; !status && i < all->count; i++)
        judge_values(list, all->tensors[i], &stats[i]);
    if (!status)
        status = check_lines(all, stats, set, list);
    free(stats);
    return status;
}

/* Names. */

static void take_gap(void *ctx, const number_gap *gap) {
    text message = {0};
    findings *list = ctx;
    text_addf(&message, "modules of \"");
    text_add_safe(&message, gap->prefix, gap->prefix_len);
    text_addf(&message, "\" are numbered ");
    text_add_ranges(&message, gap->numbers, gap->count);
    text_addf(&message, ": %" PRIu64 " between them %s missing", gap->missing,
              gap->missing == 1 ? "is" : "are");
    findings_add(list, TENMAP_FINDING_WARNING, "gap", place_of(NULL), message.bytes);
    text_free(&message);
}

/* Without an index, loaders that read it do not find the tensors. GGUF files have none. */
static void look_for_index(const tenmap_model *model, findings *list) {
    const tenmap_shard *first = tenmap_shard_at(model, 0);
    if (first && strcmp(first->format, "safetensors") == 0 && !tenmap_index_json(model, NULL) &&
        tenmap_shard_count(model) + tenmap_missing_count(model) > 1)
        findings_add(list, TENMAP_FINDING_WARNING, "no-index", place_of(NULL),
                     "there is no index (*.safetensors.index.json): the shards were found by their "
                     "names, but transformers and others need it; 'tenmap split' writes one");
}

static void take_config_finding(void *ctx, const config_finding *found) {
    findings_add(ctx, found->note ? TENMAP_FINDING_NOTE : TENMAP_FINDING_WARNING, "config",
                 place_of(found->tensor), found->message);
}

/*
 * Checks that need an open model. tenmap_check returns none, so the path is opened again. Layer
 * gaps are not reported if shards are missing.
 */
static int check_model(const char *path, const check_settings *set, findings *list) {
    tenmap_model *model;
    selection all;
    filter everything = {0};
    int status = open_model(path, &model);
    if (status)
        return status;
    list->pickles = is_checkpoint(model);
    status = select_tensors(model, &everything, &all);
    look_for_index(model, list);
    if (!status && !tenmap_missing_count(model))
        find_gaps(&all, take_gap, list);
    if (!status && set->config)
        status = config_check(model, take_config_finding, list);
    if (!status && set->values)
        status = check_values(&all, set, list);
    if (all.tensors)
        selection_free(&all);
    tenmap_close(model);
    return status;
}

/* Models by verdict, if there are several; the last are those that could not be read. */
static size_t counted[VERDICT_COUNT + 1];

/*
 * tenmap_check reads one shard after another, while an open reads several headers at a time.
 * Opening an address first caches the headers, so the check waits for none. The check itself
 * reports errors.
 */
static void fetch_headers(const char *path, const tenmap_options *options) {
    tenmap_model *model = NULL;
    if (is_address(path))
        (void)tenmap_open(path, options, &model, NULL);
    tenmap_close(model);
}

/* A model with missing shards is checked without them. */
static int check_what_is_there(const char *path, const check_settings *set, findings *list) {
    bool partial = common.partial;
    verdict v = findings_verdict(list);
    if (v == VERDICT_REJECTED)
        return EXIT_FINE;
    common.partial = partial || v == VERDICT_INCOMPLETE;
    int status = check_model(path, set, list);
    common.partial = partial;
    return status;
}

static int check_one(const char *path, bool several, const void *settings) {
    const check_settings *set = settings;
    findings_view view = {path, TENMAP_FINDING_NOTE + set->level, set->all};
    findings list = {0};
    tenmap_options options = open_options();
    tenmap_error error;
    int status = remote_options(path, &options);
    if (!status)
        fetch_headers(path, &options);
    if (!status && tenmap_check(path, &options, findings_take, &list, &error) != TENMAP_OK)
        status = fail_error(&error);
    remote_opened();
    if (!status)
        status = check_what_is_there(path, set, &list);
    if (several)
        counted[status ? VERDICT_COUNT : findings_verdict(&list)]++;
    if (!status) {
        status = verdict_exit_code(findings_verdict(&list));
        if (set->json)
            findings_json(&list, &view);
        else
            findings_print(&list, &view);
    }
    findings_free(&list);
    return status;
}

static void print_counts(size_t models) {
    const char *before = ": ";
    printf("%s%zu models%s", paint(STYLE_BOLD), models, paint_end());
    for (int i = 0; i <= VERDICT_COUNT; i++)
        if (counted[i]) {
            printf("%s%zu %s", before, counted[i],
                   i < VERDICT_COUNT ? verdict_counted_as((verdict)i) : "could not be read");
            before = ", ";
        }
    putchar('\n');
}

static int check_run(const invocation *call) {
    const check_settings *set = call->settings;
    model_paths paths;
    expand_model_operands(call->operands, call->operand_count, &paths);
    int status = for_each_model(&paths, set->json, check_one, set);
    if (paths.count > 1 && !set->json)
        print_counts(paths.count);
    model_paths_free(&paths);
    return status;
}

const command cmd_check = {
    .name = "check",
    .summary = "Check whether a model is sound, and list every finding",
    .operands = "MODEL...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = check_options,
    .details =
        "Errors keep the model from being opened; the first is the one that other commands\n"
        "report. Warnings are about things that open but are probably not intended: misaligned\n"
        "tensors, an index that disagrees with its shards, a gap in numbered layers, NaN\n"
        "values. Notes are worth knowing. Findings that have one cause share a line, with a\n"
        "count and examples. --all and --json list the first 32 of each kind one by one, and\n"
        "count the rest.\n"
        "\n"
        "A pickle in a PyTorch file may name code. Each name is a finding, with the byte of its\n"
        "opcode and whether Python would call it; names that would be called come first. The\n"
        "verdict says whether the pickle wants code or is data only. Nothing in it is run.\n"
        "\n"
        "Exit: 0 fine, 1 warnings, 2 rejected, 3 incomplete (shards are missing) or could not\n"
        "be read; for several models, the largest of their codes. A folder of single files,\n"
        "such as adapters, stands for all of them. Values are checked unless the model is\n"
        "rejected.",
    .examples = check_examples,
    .settings_size = sizeof(check_settings),
    .run = check_run,
};
