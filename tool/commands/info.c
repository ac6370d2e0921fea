/* info: describes a model on one screen. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compare/duplicate_tensors.h"
#include "command.h"
#include "open_model.h"
#include "model/checkpoint_branch.h"
#include "model/gguf_metadata.h"
#include "model/identify_model.h"
#include "model/model_profile.h"
#include "view/json_out.h"
#include "metadata.h"
#include "view/print.h"
#include "remote/remote.h"
#include "model/scheme_summary.h"
#include "model/model_operands.h"
#include "model/model_summary.h"

enum { PIPED_COLUMNS = 200, METADATA_ROWS = 12, LABEL = 12 };

typedef struct info_settings {
    bool json, duplicates, dequantize;
    uint64_t top, threads;
} info_settings;

static const info_settings info_defaults = {.top = 5};

#define AT(field) offsetof(info_settings, field)
static const option info_options[] = {
    {'n', "top", "N", OPTION_COUNT, AT(top), "Show the N largest tensors (5)"},
    {0, "duplicates", NULL, OPTION_SWITCH, AT(duplicates),
     "Look for tensors with the same bytes; this reads some of the data"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Use this many connections for an address (8)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    DEQUANTIZE_OPTION(AT(dequantize)),
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example info_examples[] = {
    {"tenmap info model.safetensors", "size, parameters, dtypes, alignment, metadata"},
    {"tenmap info ~/models/llama", "all shards of a folder together"},
    {"tenmap info --duplicates model.safetensors", "which tensors are stored more than once"},
    {"tenmap info --json model.safetensors | jq .params", "for scripts"},
    {NULL, NULL},
};

static void label(const char *name) {
    printf("  %s%-*s%s", paint(STYLE_DIM), LABEL, name, paint_end());
}

static void print_line(const char *name, const text *value) {
    label(name);
    printf("%s\n", value->bytes);
}

static void describe_size(const summary *s, text *t) {
    size_t shards = tenmap_shard_count(s->model), missing = tenmap_missing_count(s->model);
    text_add_bytes(t, tenmap_file_size(s->model));
    if (tenmap_file_size(s->model) >= 1000) {
        text_addf(t, " (");
        text_add_grouped(t, tenmap_file_size(s->model));
        text_addf(t, " bytes)");
    }
    if (shards != 1)
        text_addf(t, " in %zu shards", shards);
    if (missing)
        text_addf(t, ", %zu more missing", missing);
}

static void describe_start(const summary *s, text *t) {
    if (tenmap_shard_count(s->model) == 1) {
        text_addf(t, "starts at byte ");
        text_add_grouped(t, tenmap_shard_at(s->model, 0)->data_offset);
        text_addf(t, ", aligned to %" PRIu64, s->alignment);
    } else {
        text_addf(t, "starts aligned to %" PRIu64 " in every file", s->alignment);
    }
}

static void describe_alignment(const summary *s, text *t) {
    if (s->misaligned)
        text_addf(t, "%s%zu of %zu tensors are misaligned for their dtype%s", paint(STYLE_YELLOW),
                  s->misaligned, s->all.count, paint_end());
    else if (s->all.count)
        text_addf(t, "every tensor is aligned for its dtype");
}

static void describe_layers(const summary *s, text *t) {
    for (size_t i = 0; i < s->layers_count; i++) {
        text_addf(t, "%s%zu in ", i ? ", " : "", s->found[i].count);
        text_add_safe(t, s->found[i].prefix, s->found[i].len);
    }
}

static void describe_params(const summary *s, text *t) {
    if (s->params_least)
        text_addf(t, "at least ");
    text_add_count(t, s->params);
    if (s->params >= 1000) {
        text_addf(t, " (");
        text_add_grouped(t, s->params);
        text_addf(t, ")");
    }
}

static void describe_quantized(const summary *s, const schemes *known, text *t) {
    if (known->weights)
        text_add_schemes(t, known);
    else if (s->quantized)
        text_addf(t, "%zu weight%s, by the names of tensors: %s", s->quantized,
                  s->quantized == 1 ? "" : "s", s->scheme);
}

/* The line that answers what people ask first. */
static void print_profile(const model_profile *p) {
    enum { INDENT = 2 };
    text t = {0};
    text_add_profile(&t, p);
    if (t.len) {
        printf("%*s", INDENT, "");
        if (print_width() > (size_t)2 * INDENT)
            print_wrapped(t.bytes, INDENT, print_width());
        else
            printf("%s\n", t.bytes);
    }
    text_free(&t);
}

static void print_identity(const identity *id) {
    text t = {0};
    if (id->kind.len) {
        text_addf(&t, "%s, %s", id->kind.bytes,
                  strcmp(id->source, "config") == 0     ? "according to config.json"
                  : strcmp(id->source, "metadata") == 0 ? "according to its metadata"
                                                        : "judging by its names");
        print_line("model", &t);
    }
    text_clear(&t);
    text_add_adapter(&t, &id->adapter);
    if (t.len)
        print_line("adapter", &t);
    text_clear(&t);
    text_add_tied(&t, &id->tied);
    if (t.len)
        print_line("tied", &t);
    text_free(&t);
}

static void print_gguf(const summary *s) {
    gguf_facts facts;
    if (!gguf_describe(s->model, &facts))
        return;
    static const struct {
        const char *name;
        void (*add)(text *t, const gguf_facts *facts);
    } rows[] = {{"context", text_add_context},
                {"tokenizer", text_add_tokenizer},
                {"quantized", text_add_file_type}};
    text t = {0};
    if (facts.name.len)
        print_line("name", &facts.name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        text_clear(&t);
        rows[i].add(&t, &facts);
        if (t.len)
            print_line(rows[i].name, &t);
    }
    text_free(&t);
    gguf_facts_free(&facts);
}

/* Which branch of a checkpoint is the model. */
static void print_branch(const tenmap_model *model) {
    checkpoint_branch branch = find_branch(model);
    text t = {0};
    if (!branch.name)
        return;
    text_addf(&t, "%s%s", branch.name, branch.others ? "; " : "");
    text_add_other_branches(&t, &branch);
    print_line("branch", &t);
    text_free(&t);
}

/* What headers are written in. Containers that have no word here go by their own name. */
static const char *header_language(const tenmap_model *model) {
    const tenmap_shard *first = tenmap_shard_at(model, 0);
    if (!first || strcmp(first->format, "safetensors") == 0)
        return "JSON";
    if (strcmp(first->format, "pytorch") == 0)
        return "pickle";
    if (strcmp(first->format, "npy") == 0 || strcmp(first->format, "npz") == 0)
        return "numpy";
    return strcmp(first->format, "gguf") == 0 ? "GGUF" : first->format;
}

static void print_facts(const summary *s, const schemes *known) {
    text t = {0};
    model_profile profile;
    profile_read(s, known, true, &profile);
    print_profile(&profile);
    print_identity(&profile.id);
    profile_free(&profile);
    print_gguf(s);
    print_branch(s->model);
    describe_size(s, &t);
    print_line("size", &t);
    text_clear(&t);
    text_add_grouped(&t, s->all.count);
    print_line("tensors", &t);
    text_clear(&t);
    describe_params(s, &t);
    print_line("parameters", &t);
    text_clear(&t);
    describe_quantized(s, known, &t);
    if (t.len)
        print_line("quantized", &t);
    text_clear(&t);
    describe_layers(s, &t);
    if (t.len)
        print_line("layers", &t);
    text_clear(&t);
    text_add_bytes(&t, s->header_bytes);
    text_addf(&t, " of %s", header_language(s->model));
    if (s->all.count)
        text_addf(&t, ", %" PRIu64 " bytes per tensor", s->header_bytes / s->all.count);
    print_line("header", &t);
    text_clear(&t);
    describe_start(s, &t);
    print_line("data", &t);
    text_clear(&t);
    describe_alignment(s, &t);
    if (t.len)
        print_line("alignment", &t);
    text_free(&t);
}

static void title(const char *what) {
    printf("\n%s%s%s\n", paint(STYLE_BOLD), what, paint_end());
}

static void print_dtypes(const summary *s) {
    static const column columns[] = {{"", false, false},
                                     {"", false, false},
                                     {"", true, false},
                                     {"", true, false},
                                     {"", false, false}};
    size_t width = print_width() >= 120 ? 64 : 32;
    if (!s->dtype_count)
        return;
    title("Bytes per dtype");
    table *t = table_new(columns, 5);
    for (size_t i = 0; i < s->dtype_count; i++) {
        const dtype_share *d = &s->dtypes[i];
        double share = s->all.bytes ? (double)d->bytes / (double)s->all.bytes : 0;
        text_add(table_cell(t), "  ", 2);
        text_add_safe(table_cell(t), d->name, strlen(d->name));
        table_end_cell(t, STYLE_CYAN);
        text_add_bar(table_cell(t), share, width);
        table_end_cell(t, STYLE_BLUE);
        text_add_bytes(table_cell(t), d->bytes);
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_NONE, "%.1f%%", 100 * share);
        text_add_grouped(table_cell(t), d->tensors);
        text_addf(table_cell(t), d->tensors == 1 ? " tensor" : " tensors");
        table_end_cell(t, STYLE_DIM);
    }
    table_print(t);
    table_free(t);
}

static void print_largest(const summary *s, uint64_t top) {
    static const column columns[] = {
        {"", false, true}, {"", false, false}, {"", false, false}, {"", true, false}};
    if (!s->all.count || !top)
        return;
    title("Largest tensors");
    table *t = table_new(columns, 4);
    for (size_t i = 0; i < s->all.count && i < top; i++) {
        const tenmap_tensor *tensor = s->all.tensors[i];
        const char *dtype = tenmap_dtype_text(tensor);
        text_add(table_cell(t), "  ", 2);
        text_add_safe(table_cell(t), tensor->name, tensor->name_len);
        table_end_cell(t, STYLE_NONE);
        text_add_safe(table_cell(t), dtype, strlen(dtype));
        table_end_cell(t, STYLE_CYAN);
        text_add_shape(table_cell(t), tensor);
        table_end_cell(t, STYLE_NONE);
        text_add_bytes(table_cell(t), tensor->nbytes);
        table_end_cell(t, STYLE_NONE);
    }
    table_print(t);
    table_free(t);
}

static void print_metadata(const summary *s) {
    size_t width = print_width() > 60 ? print_width() - 40 : print_width() ? 30 : PIPED_COLUMNS;
    if (!tenmap_metadata_count(s->model))
        return;
    title("Metadata");
    metadata_range range = {0, tenmap_shard_count(s->model), width, METADATA_ROWS, "  "};
    metadata_print(s->model, &range);
    printf("  %s'tenmap meta' shows %s%s\n", paint(STYLE_DIM),
           is_checkpoint(s->model) ? "all of it; in PyTorch files it cannot be changed"
                                   : "and changes it",
           paint_end());
}

/* Adds the count, then one name per line: together they would exceed the width of a terminal. */
static void add_group(text *t, const duplicate_group *g) {
    enum { MOST_NAMES = 4 };
    text_addf(t, "  %zu times ", g->count);
    text_add_bytes(t, g->tensors[0]->nbytes);
    for (size_t i = 0; i < g->count && i < MOST_NAMES; i++) {
        text_addf(t, "\n    ");
        text_add_safe(t, g->tensors[i]->name, g->tensors[i]->name_len);
    }
    if (g->count > MOST_NAMES)
        text_addf(t, "\n    and %zu more", g->count - MOST_NAMES);
}

static void print_duplicates(const duplicates *d) {
    enum { MOST_GROUPS = 12 };
    text t = {0};
    title("Stored more than once");
    for (size_t i = 0; i < d->count && i < MOST_GROUPS; i++) {
        text_clear(&t);
        add_group(&t, &d->groups[i]);
        puts(t.bytes);
    }
    if (d->count > MOST_GROUPS)
        printf("  %zu more that save less (--json lists all)\n", d->count - MOST_GROUPS);
    text_clear(&t);
    text_add_bytes(&t, d->bytes);
    if (d->count)
        printf("  %s of the data %s copies\n", t.bytes, d->bytes == 1 ? "is" : "are");
    else
        puts("  no tensor");
    if (d->constant_tensors)
        printf("  %snot counted: %zu tensors of only one value, such as all zeros or all ones%s\n",
               paint(STYLE_DIM), d->constant_tensors, paint_end());
    text_free(&t);
}

static void json_duplicates(const duplicates *d) {
    json_key("duplicates");
    json_open('[', false);
    for (size_t i = 0; i < d->count; i++) {
        json_open('{', true);
        json_key_uint("bytes", d->groups[i].tensors[0]->nbytes);
        json_key("names");
        json_open('[', true);
        for (size_t k = 0; k < d->groups[i].count; k++)
            json_text(d->groups[i].tensors[k]->name, d->groups[i].tensors[k]->name_len);
        json_close();
        json_close();
    }
    json_close();
    json_key_uint("duplicate_bytes", d->bytes);
    json_key_uint("constant_tensors", d->constant_tensors);
}

/*
 * Something that may surprise. `code` is that of check for the same finding; `count` is 0 if there
 * is nothing to count.
 */
typedef struct oddity {
    const char *code;
    uint64_t count;
    const char *message;
} oddity;

/* Calls `say` for each oddity: the text output prints a line, the JSON output adds an object. */
static void find_oddities(const summary *s, const schemes *known,
                          void (*say)(const oddity *found)) {
    text t = {0};
    const struct {
        const char *code;
        uint64_t count;
        const char *one, *many;
    } odd[] = {
        {"misaligned", s->misaligned,
         "tensor is not aligned for its dtype, so it has no zero-copy view",
         "tensors are not aligned for their dtype, so they have no zero-copy view"},
        {"empty-tensor", s->empty, "tensor has no elements", "tensors have no elements"},
        {"name", s->strange, "name is empty or has invisible characters",
         "names are empty or have invisible characters"},
        {"unclaimed-bytes", s->unclaimed, "byte belongs to no tensor", "bytes belong to no tensor"},
        {"missing-shard", tenmap_missing_count(s->model), "shard is missing", "shards are missing"},
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        if (!odd[i].count)
            continue;
        text_clear(&t);
        text_add_grouped(&t, odd[i].count);
        text_addf(&t, " %s", odd[i].count == 1 ? odd[i].one : odd[i].many);
        say(&(oddity){odd[i].code, odd[i].count, t.bytes});
    }
    if (known->problem.len) {
        text_clear(&t);
        text_addf(&t, "quantized weights cannot be dequantized: ");
        text_add_visible(&t, known->problem.bytes, known->problem.len);
        say(&(oddity){"not-dequantizable", 0, t.bytes});
    }
    if (s->alignment < 8)
        say(&(oddity){"data-start", 0, "the data does not start at a multiple of 8"});
    text_free(&t);
}

static bool oddities_titled;

static void say_line(const oddity *found) {
    if (!oddities_titled)
        title("Oddities");
    oddities_titled = true;
    printf("  %s•%s %s\n", paint(STYLE_YELLOW), paint_end(), found->message);
}

static void say_json(const oddity *found) {
    json_open('{', true);
    json_key_text("code", found->code, TENMAP_CSTR);
    if (found->count)
        json_key_uint("count", found->count);
    json_key_text("message", found->message, TENMAP_CSTR);
    json_close();
}

static void print_people(const summary *s, const schemes *known, uint64_t top,
                         const duplicates *found) {
    printf("%s", paint(STYLE_BOLD));
    print_safe(stdout, shown_path(tenmap_path(s->model)),
               strlen(shown_path(tenmap_path(s->model))));
    printf("%s\n", paint_end());
    print_facts(s, known);
    print_dtypes(s);
    print_largest(s, top);
    print_metadata(s);
    if (found)
        print_duplicates(found);
    find_oddities(s, known, say_line);
}

static void json_files(const summary *s) {
    json_key("files");
    json_open('[', false);
    for (size_t i = 0; i < tenmap_shard_count(s->model); i++) {
        const tenmap_shard *shard = tenmap_shard_at(s->model, i);
        json_open('{', true);
        json_key_text("file", base_name(shard->path), TENMAP_CSTR);
        json_key_uint("bytes", shard->size);
        json_key_uint("header_bytes", shard->header_bytes);
        json_key_uint("data_offset", shard->data_offset);
        json_key_uint("tensors", shard->tensor_count);
        json_close();
    }
    json_close();
    json_key("missing_files");
    json_open('[', false);
    for (size_t i = 0; i < tenmap_missing_count(s->model); i++)
        json_text(tenmap_missing_at(s->model, i), TENMAP_CSTR);
    json_close();
}

static void json_tensors(const summary *s, uint64_t top) {
    json_key("dtypes");
    json_open('[', false);
    for (size_t i = 0; i < s->dtype_count; i++) {
        json_open('{', true);
        json_key_text("dtype", s->dtypes[i].name, TENMAP_CSTR);
        json_key_uint("tensors", s->dtypes[i].tensors);
        json_key_uint("params", s->dtypes[i].params);
        json_key_uint("bytes", s->dtypes[i].bytes);
        json_close();
    }
    json_close();
    json_key("layers");
    json_open('[', false);
    for (size_t i = 0; i < s->layers_count; i++) {
        json_open('{', true);
        json_key_text("prefix", s->found[i].prefix, s->found[i].len);
        json_key_uint("count", s->found[i].count);
        json_close();
    }
    json_close();
    json_key("largest");
    json_open('[', false);
    for (size_t i = 0; i < s->all.count && i < top; i++) {
        json_open('{', true);
        json_tensor_fields(s->all.tensors[i]);
        json_key_uint("bytes", s->all.tensors[i]->nbytes);
        json_close();
    }
    json_close();
}

/* What the model is, in the fields that diff and report have too, and what only GGUF says. */
static void json_facts(const summary *s, const schemes *known) {
    model_profile profile;
    gguf_facts gguf;
    quantization q = {s->quantized, s->scheme, known, NULL};
    if (gguf_describe(s->model, &gguf)) {
        gguf_json(&gguf);
        q.gguf = &gguf;
    }
    profile_read(s, known, true, &profile);
    identity_json(&profile.id);
    quantization_json(&q);
    profile_json(&profile, !q.gguf);
    profile_free(&profile);
    gguf_facts_free(&gguf);
}

static void print_json(const summary *s, const schemes *known, uint64_t top,
                       const duplicates *found) {
    json_open('{', false);
    json_key_text("model", shown_path(tenmap_path(s->model)), TENMAP_CSTR);
    json_facts(s, known);
    json_key_uint("bytes", tenmap_file_size(s->model));
    json_key_uint("data_bytes", s->all.bytes);
    json_key_uint("header_bytes", s->header_bytes);
    json_key_uint("tensors", s->all.count);
    checkpoint_branch branch = find_branch(s->model);
    branch_json(&branch);
    json_key_uint("params", s->params);
    json_key_bool("params_exact", !s->params_least);
    json_key_uint("elements", s->all.elements);
    json_key_uint("misaligned", s->misaligned);
    json_key_uint("data_alignment", s->alignment);
    json_files(s);
    json_tensors(s, top);
    json_key("metadata");
    json_open('[', false);
    for (size_t i = 0; i < tenmap_metadata_count(s->model); i++)
        metadata_json_pair(s->model, tenmap_metadata_at(s->model, i));
    json_close();
    if (found)
        json_duplicates(found);
    json_key("findings");
    json_open('[', false);
    find_oddities(s, known, say_json);
    json_close();
    json_close();
}

static int info_one(const char *path, bool several, const void *settings) {
    static bool printed;
    const info_settings *set = settings;
    tenmap_model *model;
    summary s = {0};
    duplicates found = {0}, *asked = set->duplicates ? &found : NULL;
    common.dequantize = set->dequantize;
    int status = open_model(path, &model);
    if (status)
        return status;
    if (asked)
        status = find_duplicates(model, asked);
    if (!status)
        status = summarize(model, &s);
    if (!status) {
        schemes known;
        count_quantized(&s, &known);
        oddities_titled = false;
        if (several && !set->json && printed)
            putchar('\n');
        printed = true;
        if (set->json)
            print_json(&s, &known, set->top, asked);
        else
            print_people(&s, &known, set->top, asked);
        schemes_free(&known);
        summary_free(&s);
    }
    duplicates_free(&found);
    tenmap_close(model);
    return status;
}

static int info_run(const invocation *call) {
    const info_settings *set = call->settings;
    model_paths paths;
    expand_model_operands(call->operands, call->operand_count, &paths);
    int status = for_each_model(&paths, set->json, info_one, set);
    model_paths_free(&paths);
    return status;
}

const command cmd_info = {
    .name = "info",
    .summary = "Show what a model is: size, parameters, dtypes, metadata, oddities",
    .operands = "MODEL...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = info_options,
    .details =
        "The line below the path says what the model is, as far as that is known: architecture,\n"
        "parameters, context length, vocabulary, dtype or quantization, and the base model of\n"
        "an adapter. In a mixture of experts, active parameters are those that one token uses.\n"
        "\n"
        "Layers are guessed from names: they are numbered modules. Alignment is that of the\n"
        "data in the file; a misaligned tensor can be read, but not viewed in place.\n"
        "--duplicates samples tensors of equal dtype and shape, and compares those with equal\n"
        "samples byte for byte.",
    .examples = info_examples,
    .settings_size = sizeof(info_settings),
    .defaults = &info_defaults,
    .run = info_run,
};
