/* check: judges a model and lists everything that is wrong or unusual about it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "open_model.h"
#include "model/config_check.h"
#include "view/json_out.h"
#include "view/measure_progress.h"
#include "metadata.h"
#include "model/module_numbers.h"
#include "view/print.h"
#include "remote/remote.h"
#include "model/model_operands.h"

enum { LEVEL_NOTE, LEVEL_WARNING, LEVEL_ERROR };

typedef struct check_settings {
    bool values, config, json;
    unsigned level;
    uint64_t threads;
} check_settings;

#define AT(field) offsetof(check_settings, field)
static const option check_options[] = {
    {'v', "values", NULL, OPTION_SWITCH, AT(values),
     "Read the tensors too, and find NaN, infinities, subnormal numbers, tensors of zeros"},
    {'c', "config", NULL, OPTION_SWITCH, AT(config),
     "Compare with the config.json next to it: layers, vocabulary, shapes of common architectures"},
    {'l', "level", "note|warning|error", OPTION_CHOICE, AT(level),
     "Show findings of this severity and above (note)"},
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

typedef struct finding {
    uint32_t severity, shard, remedy;
    uint64_t offset;
    const char *code;
    char *tensor, *message; /* tensor: NULL if none applies */
} finding;

typedef struct findings {
    finding *items;
    size_t count;
    size_t of[TENMAP_FINDING_ERROR + 1]; /* number of findings by severity */
} findings;

static const struct severity_look {
    const char *name;
    style shown;
} severities[] = {[TENMAP_FINDING_NOTE] = {"note", STYLE_DIM},
                  [TENMAP_FINDING_WARNING] = {"warning", STYLE_YELLOW},
                  [TENMAP_FINDING_ERROR] = {"error", STYLE_RED}};

static char *keep_text(const char *from) {
    size_t size = strlen(from) + 1;
    char *copy = need(size, 1);
    memcpy(copy, from, size);
    return copy;
}

/* Where in a model a finding is. */
typedef struct finding_place {
    uint32_t shard; /* TENMAP_NO_SHARD if none applies */
    uint64_t offset;
    const char *tensor; /* NULL if none applies */
} finding_place;

static void add_finding(findings *list, uint32_t severity, const char *code, finding_place at,
                        const char *message) {
    list->items = need_next(list->items, list->count, sizeof *list->items);
    list->items[list->count++] = (finding){.severity = severity,
                                           .shard = at.shard,
                                           .offset = at.offset,
                                           .code = code,
                                           .tensor = at.tensor ? keep_text(at.tensor) : NULL,
                                           .message = keep_text(message)};
    list->of[severity]++;
}

static finding_place place_of(const tenmap_tensor *t) {
    return t ? (finding_place){t->shard, t->file_offset, t->name}
             : (finding_place){TENMAP_NO_SHARD, 0, NULL};
}

static void take_finding(void *ctx, const tenmap_finding *f) {
    findings *list = ctx;
    text message = {0};
    text_add_error(&message, f->message, f->remedy);
    add_finding(list, f->severity, tenmap_found_name(f->code),
                (finding_place){f->shard, f->offset, f->tensor},
                message.bytes ? message.bytes : "");
    list->items[list->count - 1].remedy = f->remedy;
    text_free(&message);
}

static void free_findings(findings *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].tensor);
        free(list->items[i].message);
    }
    free(list->items);
}

/* Values. */

typedef struct value_rule {
    uint32_t severity;
    const char *code, *what;
} value_rule;

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
        text_addf(&message, "\"");
        const char *file = shown_path(tenmap_shard_at(t->model, t->shard)->path);
        text_add_safe(&message, file, strlen(file));
        text_addf(&message, "\": tensor \"");
        text_add_safe(&message, t->name, t->name_len);
        if (counts[i] == s->count)
            text_addf(&message, "\": all of its %" PRIu64 " values are %s", s->count,
                      rules[i].what);
        else
            text_addf(&message, "\": %" PRIu64 " of its %" PRIu64 " values %s %s", counts[i],
                      s->count, counts[i] == 1 ? "is" : "are", rules[i].what);
        add_finding(list, rules[i].severity, rules[i].code, place_of(t), message.bytes);
        text_free(&message);
    }
}

static int check_values(selection *all, const check_settings *set, findings *list) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    options.threads = (uint32_t)set->threads;
    drop_opaque(all);
    tenmap_stats *stats = need(all->count, sizeof *stats);
    int status = measure_selection(all, &options, stats);
    for (size_t i = 0; !status && i < all->count; i++)
        judge_values(list, all->tensors[i], &stats[i]);
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
    add_finding(list, TENMAP_FINDING_WARNING, "gap", place_of(NULL), message.bytes);
    text_free(&message);
}

static void take_config_finding(void *ctx, const tenmap_tensor *tensor, const char *message) {
    add_finding(ctx, TENMAP_FINDING_WARNING, "config", place_of(tensor), message);
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
    status = select_tensors(model, &everything, &all);
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

/* Reporting. */

static int verdict_of(const findings *list) {
    return list->of[TENMAP_FINDING_ERROR]     ? EXIT_REJECTED
           : list->of[TENMAP_FINDING_WARNING] ? EXIT_DIFFERENT
                                              : EXIT_FINE;
}

static bool is_shown(const finding *f, const check_settings *set) {
    return f->severity >= TENMAP_FINDING_NOTE + set->level;
}

/*
 * Messages begin with the file in quotes. The verdict already names the model, so a file is named
 * again only if the model has several, without its folder.
 */
static const char *without_path(const char *message, const char *path, text *room) {
    const char *end = end_of_path(message);
    if (!end)
        return message;
    const char *name = end, *own = base_name(path);
    while (name > message + 1 && name[-1] != '/')
        name--;
    size_t len = (size_t)(end - name);
    if (len == strlen(own) && memcmp(name, own, len) == 0)
        return end + 3;
    text_clear(room);
    text_addf(room, "\"%s", name);
    return room->bytes;
}

static void print_findings(const findings *list, const char *path, const check_settings *set) {
    enum { INDENT = 9 };
    text room = {0};
    for (size_t i = 0; i < list->count; i++) {
        const finding *f = &list->items[i];
        if (!is_shown(f, set))
            continue;
        const struct severity_look *look = &severities[f->severity];
        printf("%s%-*s%s", paint(look->shown), INDENT, look->name, paint_end());
        const char *message = without_path(f->message, path, &room);
        if (print_width() > (size_t)2 * INDENT)
            print_wrapped(message, INDENT, print_width());
        else
            printf("%s\n", message);
    }
    text_free(&room);
}

static void print_verdict(const char *path, const findings *list) {
    static const struct {
        style shown;
        const char *said;
    } verdicts[] = {[EXIT_FINE] = {STYLE_GREEN, "fine"},
                    [EXIT_DIFFERENT] = {STYLE_YELLOW, "opens, with warnings"},
                    [EXIT_REJECTED] = {STYLE_RED, "rejected"}};
    int verdict = verdict_of(list);
    const char *before = ": ";
    print_safe(stdout, shown_path(path), strlen(shown_path(path)));
    printf(": %s%s%s", paint(verdicts[verdict].shown), verdicts[verdict].said, paint_end());
    for (uint32_t severity = TENMAP_FINDING_ERROR; severity >= TENMAP_FINDING_NOTE; severity--) {
        size_t count = list->of[severity];
        if (!count)
            continue;
        printf("%s%zu %s%s", before, count, severities[severity].name, count == 1 ? "" : "s");
        before = ", ";
    }
    putchar('\n');
}

static void print_check_json(const char *path, const findings *list, const check_settings *set) {
    static const char *const verdicts[] = {"fine", "warnings", "rejected"};
    json_open('{', false);
    json_key_text("model", shown_path(path), TENMAP_CSTR);
    json_key_text("verdict", verdicts[verdict_of(list)], TENMAP_CSTR);
    json_key_uint("errors", list->of[TENMAP_FINDING_ERROR]);
    json_key_uint("warnings", list->of[TENMAP_FINDING_WARNING]);
    json_key_uint("notes", list->of[TENMAP_FINDING_NOTE]);
    json_key("findings");
    json_open('[', false);
    for (size_t i = 0; i < list->count; i++) {
        const finding *f = &list->items[i];
        if (!is_shown(f, set))
            continue;
        json_open('{', true);
        json_key_text("severity", severities[f->severity].name, TENMAP_CSTR);
        json_key_text("code", f->code, TENMAP_CSTR);
        if (f->shard != TENMAP_NO_SHARD)
            json_key_uint("shard", f->shard);
        json_key_uint("offset", f->offset);
        if (f->tensor)
            json_key_text("tensor", f->tensor, TENMAP_CSTR);
        json_key_text("message", f->message, TENMAP_CSTR);
        if (f->remedy)
            json_key_text("remedy", tenmap_remedy_name(f->remedy), TENMAP_CSTR);
        json_close();
    }
    json_close();
    json_close();
}

static size_t counted[EXIT_FAILED + 1]; /* models by exit code, if there are several */

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

static int check_one(const char *path, bool several, const void *settings) {
    const check_settings *set = settings;
    findings list = {0};
    tenmap_options options = open_options();
    tenmap_error error;
    int status = remote_options(path, &options);
    if (!status)
        fetch_headers(path, &options);
    if (!status && tenmap_check(path, &options, take_finding, &list, &error) != TENMAP_OK)
        status = fail_error(&error);
    remote_opened();
    if (!status && !list.of[TENMAP_FINDING_ERROR])
        status = check_model(path, set, &list);
    if (!status) {
        status = verdict_of(&list);
        if (set->json) {
            print_check_json(path, &list, set);
        } else {
            print_findings(&list, path, set);
            print_verdict(path, &list);
        }
    }
    if (several)
        counted[status <= EXIT_FAILED ? status : EXIT_FAILED]++;
    free_findings(&list);
    return status;
}

static void print_counts(size_t models) {
    static const char *const words[] = {"fine", "with warnings", "rejected", "could not be read"};
    const char *before = ": ";
    printf("%s%zu models%s", paint(STYLE_BOLD), models, paint_end());
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (counted[i]) {
            printf("%s%zu %s", before, counted[i], words[i]);
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
        "values. Notes are worth knowing. The first 32 findings of a kind are shown, the rest\n"
        "are counted.\n"
        "\n"
        "Exit: 0 fine, 1 warnings, 2 rejected, 3 could not be read; for several models, the\n"
        "worst. A folder of single files, such as adapters, stands for all of them. Values are\n"
        "checked only if the model has no errors.",
    .examples = check_examples,
    .settings_size = sizeof(check_settings),
    .run = check_run,
};
