/* fit: says how much memory a model needs, in common quantizations, and whether it is there. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fit/kv_cache.h"
#include "fit/quant_plans.h"
#include "fit/saturate.h"
#include "model/model_operands.h"
#include "model/model_profile.h"
#include "model/model_summary.h"
#include "open_model.h"
#include "remote/remote.h"
#include "view/json_out.h"
#include "view/print.h"

enum { DEFAULT_CONTEXT = 8192, LABEL = 12 };

/* The value of --memory where it is not given. */
#define NO_LIMIT UINT64_MAX

typedef struct fit_settings {
    uint64_t memory, batch;
    const char *context;
    tenmap_dtype cache_dtype;
    unsigned as; /* 0: all plans; else one more than the plan's number */
    bool json, tsv;
} fit_settings;

static const fit_settings fit_defaults = {
    .memory = NO_LIMIT, .batch = 1, .cache_dtype = TENMAP_F16};

#define AT(field) offsetof(fit_settings, field)
static const option fit_options[] = {
    {'m', "memory", "SIZE", OPTION_SIZE, AT(memory),
     "Say what fits into this much memory: 24GB, 80GiB"},
    {'c', "context", "TOKENS", OPTION_TEXT, AT(context),
     "Tokens in each sequence: 8192, 32k, 1M (8k, or the model's limit if it is lower)"},
    {'b', "batch", "N", OPTION_COUNT, AT(batch),
     "Sequences at a time, each with a cache of its own (1)"},
    {0, "cache-dtype", "DTYPE", OPTION_DTYPE, AT(cache_dtype),
     "The dtype of the KV cache: f16, f8_e4m3, q8_0, q4_0 (f16)"},
    {0, "as", "all|stored|bf16|fp8|int4|q8_0|q6_k|q5_k_m|q4_k_m|q3_k_m", OPTION_CHOICE, AT(as),
     "Show only this quantization; it decides the exit code"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv), "Print tab-separated values"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example fit_examples[] = {
    {"tenmap fit llama/", "how large it is in common quantizations, with 8k of context"},
    {"tenmap fit --memory 24GB --context 32k llama/", "what fits into 24 GB with 32,768 tokens"},
    {"tenmap fit -m 24GiB --as q4_k_m hf://ORG/NAME && echo yes",
     "whether it fits, before you download it"},
    {"tenmap fit --batch 16 --cache-dtype f8_e4m3 llama/", "for a server with 16 sequences"},
    {NULL, NULL},
};

/* One model, and what is asked about it. */
typedef struct fitting {
    const char *path;
    const fit_settings *set;
    model_profile profile;
    quant_model weights;
    uint64_t context, cache_bytes;
} fitting;

typedef struct fit_row {
    const quant_plan *plan;
    uint64_t weights, total;
    double bits;
    bool fits;
    uint64_t most_context; /* if there is a limit of memory */
} fit_row;

/* Parses "8192", "32k" or "1M": k is 1024, as in the names of models. */
static bool parse_tokens(const char *given, uint64_t *out) {
    char *end;
    uint64_t unit = 1;
    if (!isdigit((unsigned char)*given))
        return false;
    uint64_t number = strtoull(given, &end, 10);
    if (*end == 'k' || *end == 'K')
        unit = 1024;
    else if (*end == 'm' || *end == 'M')
        unit = UINT64_C(1024) * 1024;
    end += unit > 1;
    *out = saturated_product(number, unit);
    return !*end && number && *out < UINT64_C(1) << 40;
}

static uint64_t cache_for(const fitting *f, uint64_t tokens) {
    if (!f->profile.cache.known)
        return 0;
    return saturated_product(kv_cache_bytes(&f->profile.cache, tokens, f->set->cache_dtype),
                             f->set->batch);
}

/* Whether the question is also whether the model fits. */
static bool is_limited(const fitting *f) {
    return f->set->memory != NO_LIMIT;
}

/*
 * The longest context that fits, at most what the model was made for, or what was asked for if that
 * is more; 0: none.
 */
static uint64_t longest_context(const fitting *f, uint64_t weights) {
    uint64_t low = 0, high = f->profile.context_length;
    if (high && high < f->context)
        high = f->context;
    if (!f->profile.cache.known || f->profile.cache.kind == CACHE_NONE || !high ||
        weights > f->set->memory)
        return 0;
    while (low < high) {
        uint64_t middle = high - (high - low) / 2;
        if (cache_for(f, middle) <= f->set->memory - weights)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static fit_row make_row(const fitting *f, const quant_plan *plan) {
    fit_row r = {.plan = plan, .weights = quant_plan_bytes(plan, &f->weights)};
    r.total = saturated_sum(r.weights, f->cache_bytes);
    r.bits = f->profile.params ? 8 * (double)r.weights / (double)f->profile.params : 0;
    r.fits = r.total <= f->set->memory;
    r.most_context = is_limited(f) ? longest_context(f, r.weights) : 0;
    return r;
}

static bool is_asked(const fitting *f, size_t plan) {
    return !f->set->as || f->set->as == plan + 1;
}

/* The plan that decides: the one that was asked for, or the model as it is stored. */
static fit_row deciding_row(const fitting *f) {
    return make_row(f, quant_plan_at(f->set->as ? f->set->as - 1 : 0));
}

/* For people. */

static void print_fact(const char *name, const text *value) {
    printf("  %s%-*s%s", paint(STYLE_DIM), LABEL, name, paint_end());
    if (print_width() > (size_t)2 * (LABEL + 2))
        print_wrapped(value->bytes, LABEL + 2, print_width());
    else
        printf("%s\n", value->bytes);
}

static void add_gib(text *t, uint64_t bytes) {
    text_addf(t, "%.2f GiB", (double)bytes / (1 << 30));
}

static void add_cache(text *t, const fitting *f) {
    const kv_cache *kv = &f->profile.cache;
    if (f->profile.id.adapter.modules) {
        text_addf(t, "that of the base model; the adapter has none of its own");
    } else if (!kv->known) {
        text_addf(t, "unknown: neither config.json nor metadata has layers and heads");
    } else if (kv->kind == CACHE_NONE) {
        text_addf(t, "none: an encoder keeps nothing");
    } else {
        text_add_bytes(t, f->cache_bytes);
        text_addf(t, " (");
        add_gib(t, f->cache_bytes);
        text_addf(t, ") in %s: ", tenmap_dtype_name(f->set->cache_dtype));
        text_add_kv_cache(t, kv);
        if (!kv->by_table)
            text_addf(t, "; the architecture is not known, so ordinary attention is assumed");
    }
}

static void print_facts_of(const fitting *f) {
    text t = {0};
    printf("%s", paint(STYLE_BOLD));
    print_safe(stdout, shown_path(f->path), strlen(shown_path(f->path)));
    printf("%s\n", paint_end());
    text_add_profile(&t, &f->profile);
    if (t.len) {
        printf("  ");
        if (print_width() > 4)
            print_wrapped(t.bytes, 2, print_width());
        else
            printf("%s\n", t.bytes);
    }
    text_clear(&t);
    text_add_grouped(&t, f->context);
    text_addf(&t, " token%s", f->context == 1 ? "" : "s");
    if (f->set->batch > 1)
        text_addf(&t, ", %" PRIu64 " sequences", f->set->batch);
    if (f->profile.context_length && f->context > f->profile.context_length)
        text_addf(&t, ", more than the model was made for");
    print_fact("context", &t);
    text_clear(&t);
    add_cache(&t, f);
    print_fact("KV cache", &t);
    text_free(&t);
}

/* Whether the sizes include the KV cache; those of an adapter do not, nor where it is unknown. */
static bool has_total(const fitting *f) {
    return f->profile.cache.known && !f->profile.id.adapter.modules;
}

static void put_row(table *t, const fitting *f, const fit_row *r) {
    table_put(t, STYLE_CYAN, "  %s", quant_plan_name(r->plan));
    table_put(t, STYLE_NONE, "%.2f", r->bits);
    text_add_bytes(table_cell(t), r->weights);
    table_end_cell(t, STYLE_NONE);
    if (has_total(f))
        text_add_bytes(table_cell(t), r->total);
    else
        text_addf(table_cell(t), "?");
    table_end_cell(t, STYLE_BOLD);
    table_put(t, STYLE_NONE, "%.2f", (double)r->total / (1 << 30));
    if (!is_limited(f))
        return;
    table_put(t, r->fits ? STYLE_GREEN : STYLE_RED, "%s", r->fits ? "yes" : "no");
    if (r->most_context)
        text_add_grouped(table_cell(t), r->most_context);
    else
        text_addf(table_cell(t), "-");
    table_end_cell(t, STYLE_NONE);
}

/* A model that is stored in 16 bits has one row for that, not two. */
static bool is_told_already(const fitting *f, const fit_row *r, size_t plan) {
    return !f->set->as && plan && r->weights == quant_plan_bytes(quant_plan_at(0), &f->weights);
}

static void print_rows(const fitting *f) {
    static const column columns[] = {
        {"  WEIGHTS AS", false, COLUMN_STAYS}, {"BITS", true, COLUMN_STAYS},
        {"WEIGHTS", true, COLUMN_STAYS},       {"WITH CACHE", true, COLUMN_STAYS},
        {"GIB", true, COLUMN_STAYS},           {"FITS", false, COLUMN_STAYS},
        {"MOST CONTEXT", true, COLUMN_SPARE}};
    table *t = table_new(columns, is_limited(f) ? 7 : 5);
    for (size_t i = 0; quant_plan_at(i); i++) {
        fit_row r = make_row(f, quant_plan_at(i));
        if (is_asked(f, i) && !is_told_already(f, &r, i))
            put_row(t, f, &r);
    }
    putchar('\n');
    table_print(t);
    table_free(t);
}

static void print_fit(const fitting *f) {
    print_facts_of(f);
    print_rows(f);
    printf("  %s%s%s\n", paint(STYLE_DIM),
           has_total(f) ? "programs need more, for activations and buffers"
                        : "only the weights are counted; programs need more, for the KV cache, "
                          "activations and buffers",
           paint_end());
}

/* For machines. */

static void json_cache(const fitting *f) {
    const kv_cache *kv = &f->profile.cache;
    json_key("cache");
    json_open('{', true);
    json_key_bool("known", kv->known);
    json_key_text("dtype", tenmap_dtype_name(f->set->cache_dtype), TENMAP_CSTR);
    json_key_uint("bytes", f->cache_bytes);
    json_key_uint("layers", kv->layers);
    json_key_uint("window_layers", kv->window_layers);
    json_key_uint("window", kv->window_layers ? kv->window : 0);
    json_key_uint("values_per_token", saturated_sum(kv->values, kv->window_values));
    json_key_uint("encoder_values_per_token", kv->cross_values);
    json_close();
}

static void json_row(const fitting *f, const fit_row *r) {
    json_open('{', true);
    json_key_text("as", quant_plan_word(r->plan), TENMAP_CSTR);
    json_key_real("bits_per_weight", r->bits);
    json_key_uint("weight_bytes", r->weights);
    json_key_uint("total_bytes", r->total);
    if (is_limited(f)) {
        json_key_bool("fits", r->fits);
        json_key_uint("most_context", r->most_context);
    }
    json_close();
}

static void print_fit_json(const fitting *f) {
    json_open('{', false);
    json_key_text("model", shown_path(f->path), TENMAP_CSTR);
    identity_json(&f->profile.id);
    json_key_uint("params", f->profile.params);
    profile_json(&f->profile, true);
    json_key_uint("context", f->context);
    json_key_uint("batch", f->set->batch);
    json_cache(f);
    if (is_limited(f)) {
        json_key_uint("memory", f->set->memory);
        json_key_bool("fits", deciding_row(f).fits);
    }
    json_key("sizes");
    json_open('[', false);
    for (size_t i = 0; quant_plan_at(i); i++) {
        fit_row r = make_row(f, quant_plan_at(i));
        if (is_asked(f, i))
            json_row(f, &r);
    }
    json_close();
    json_close();
}

static void print_fit_tsv(const fitting *f) {
    static bool titled;
    text path = {0};
    if (!titled)
        puts("model\tas\tbits_per_weight\tweight_bytes\tcache_bytes\ttotal_bytes\tfits"
             "\tmost_context");
    titled = true;
    text_add_field(&path, shown_path(f->path), strlen(shown_path(f->path)));
    for (size_t i = 0; quant_plan_at(i); i++) {
        fit_row r = make_row(f, quant_plan_at(i));
        if (!is_asked(f, i))
            continue;
        printf("%s\t%s\t%.4f\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t", path.bytes,
               quant_plan_word(r.plan), r.bits, r.weights, f->cache_bytes, r.total);
        if (is_limited(f))
            printf("%d\t%" PRIu64 "\n", r.fits, r.most_context);
        else
            puts("\t");
    }
    text_free(&path);
}

static void choose_context(fitting *f) {
    uint64_t own = f->profile.context_length;
    f->context = own && own < DEFAULT_CONTEXT ? own : DEFAULT_CONTEXT;
    if (f->set->context)
        (void)parse_tokens(f->set->context, &f->context);
    f->cache_bytes = cache_for(f, f->context);
}

static int fit_open(const tenmap_model *model, const char *path, bool several,
                    const fit_settings *set) {
    static bool printed;
    fitting f = {.path = path, .set = set};
    summary s;
    schemes known;
    int status = summarize(model, &s);
    if (status)
        return status;
    count_quantized(&s, &known);
    profile_read(&s, &known, false, &f.profile);
    f.weights = quant_model_of(&f.profile.weights, size_named(&f.profile.sizes, "experts"));
    choose_context(&f);
    if (several && printed && !set->json && !set->tsv)
        putchar('\n');
    printed = true;
    (set->json ? print_fit_json : set->tsv ? print_fit_tsv : print_fit)(&f);
    if (is_limited(&f) && !deciding_row(&f).fits)
        status = EXIT_DIFFERENT;
    profile_free(&f.profile);
    schemes_free(&known);
    summary_free(&s);
    return status;
}

static int fit_one(const char *path, bool several, const void *settings) {
    tenmap_model *model;
    int status = open_model(path, &model);
    if (status)
        return status;
    status = fit_open(model, path, several, settings);
    tenmap_close(model);
    return status;
}

static int fit_run(const invocation *call) {
    const fit_settings *set = call->settings;
    uint64_t tokens;
    model_paths paths;
    if (set->context && !parse_tokens(set->context, &tokens))
        return fail(EXIT_USAGE,
                    "--context takes a number of tokens such as 8192, 32k or 1M, not '%s'",
                    set->context);
    if (!set->memory)
        return fail(EXIT_USAGE, "--memory takes the size of the memory, more than 0, such as 24GB");
    if (!set->batch)
        return fail(EXIT_USAGE, "--batch takes the number of sequences, 1 or more");
    if (!tenmap_dtype_block(set->cache_dtype, NULL, NULL))
        return fail(EXIT_USAGE, "--cache-dtype takes a dtype with a size, such as f16 or q8_0");
    expand_model_operands(call->operands, call->operand_count, &paths);
    int status = for_each_model(&paths, set->json, fit_one, set);
    model_paths_free(&paths);
    return status;
}

const command cmd_fit = {
    .name = "fit",
    .summary = "Show how much memory a model needs, and whether it fits",
    .operands = "MODEL...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = fit_options,
    .details =
        "Adds the sizes of the weights and of the KV cache. It reads headers and config.json,\n"
        "or GGUF metadata, but no weights. docs/fit.md has the rules for quantized sizes. BITS\n"
        "is the average over all parameters. fit does not count what else a program needs,\n"
        "such as activations and buffers.\n"
        "\n"
        "Exit: with --memory, 0 if the model fits as it is stored, or in the quantization that\n"
        "--as names; 1 if it does not.",
    .examples = fit_examples,
    .settings_size = sizeof(fit_settings),
    .defaults = &fit_defaults,
    .run = fit_run,
};
