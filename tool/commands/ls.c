/* ls: lists the tensors of a model as a table, a tree, JSON or tab-separated values. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/json_out.h"
#include "metadata.h"
#include "model/model_operands.h"
#include "model/truncated_file.h"
#include "open_model.h"
#include "remote/partial_remote_open.h"
#include "view/print.h"
#include "remote/remote.h"
#include "tensor_patterns.h"
#include "view/tree.h"

enum { SORT_NAME, SORT_FILE, SORT_SIZE, SORT_PARAMS, SORT_DTYPE };

typedef struct ls_settings {
    filter wanted;
    bool tree, fold, long_form, reverse, json, tsv, dequantize;
    unsigned sort;
    uint64_t depth, threads;
} ls_settings;

#define AT(field) offsetof(ls_settings, field)
static const option ls_options[] = {
    {'t', "tree", NULL, OPTION_SWITCH, AT(tree), "Show a tree of modules, with sums for each"},
    {'D', "depth", "N", OPTION_COUNT, AT(depth), "Show N levels of the tree; implies --tree"},
    {'f', "fold", NULL, OPTION_SWITCH, AT(fold),
     "Show numbered modules with the same contents once; implies --tree"},
    {'l', "long", NULL, OPTION_SWITCH, AT(long_form), "Show file offsets and their alignment too"},
    {'s', "sort", "name|file|size|params|dtype", OPTION_CHOICE, AT(sort),
     "Sort by this (name): numbers in names count as numbers; file is the order in the files; the "
     "largest size or params come first"},
    {'r', "reverse", NULL, OPTION_SWITCH, AT(reverse), "Reverse the order"},
    {'d', "dtype", "DTYPE", OPTION_LIST, AT(wanted.dtypes),
     "Take only tensors of these dtypes: bf16, 'f8*'"},
    {'x', "except", "NAME", OPTION_LIST, AT(wanted.except), "Leave out tensors of these names"},
    {0, "min-size", "SIZE", OPTION_SIZE, AT(wanted.min_bytes),
     "Take only tensors of at least this size"},
    {0, "max-size", "SIZE", OPTION_SIZE, AT(wanted.max_bytes),
     "Take only tensors of at most this size"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Use this many connections for an address (8)"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print the answer as JSON"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv), "Print the answer as tab-separated values"},
    DEQUANTIZE_OPTION(AT(dequantize)),
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example ls_examples[] = {
    {"tenmap ls model.safetensors", "all tensors by name, with layers.2 before layers.10"},
    {"tenmap ls -l -s file model.safetensors", "in the order in which they lie in the file"},
    {"tenmap ls --fold llama/", "a sharded model's modules, with all layers as one"},
    {"tenmap ls llama/ 'model.layers.3.*'", "one layer of it"},
    {"tenmap ls -s size -d f32 llama/", "what is still F32, the largest first"},
    {"tenmap ls --tsv llama/ | cut -f1", "just the names"},
    {"tenmap ls --partial cut.safetensors", "what a truncated file holds, and how much of it"},
    {NULL, NULL},
};

/* What is listed, besides the selected tensors. */
typedef struct listing {
    const tenmap_model *model;
    whole_model whole;
    truncated_file cut;
} listing;

static const char *file_name(const tenmap_tensor *t) {
    return base_name(tenmap_shard_at(t->model, t->shard)->path);
}

static int by_size(const void *a, const void *b) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)a;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)b;
    if (x->nbytes != y->nbytes)
        return x->nbytes > y->nbytes ? -1 : 1;
    return natural_compare(x->name, x->name_len, y->name, y->name_len);
}

static int by_params(const void *a, const void *b) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)a;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)b;
    if (x->nelems != y->nelems)
        return x->nelems > y->nelems ? -1 : 1;
    return natural_compare(x->name, x->name_len, y->name, y->name_len);
}

static int by_dtype(const void *a, const void *b) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)a;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)b;
    int order = strcmp(tenmap_dtype_text(x), tenmap_dtype_text(y));
    return order ? order : natural_compare(x->name, x->name_len, y->name, y->name_len);
}

static void sort_selection(selection *s, const ls_settings *set) {
    static int (*const orders[])(const void *, const void *) = {
        [SORT_SIZE] = by_size, [SORT_PARAMS] = by_params, [SORT_DTYPE] = by_dtype};
    if (set->sort == SORT_NAME)
        selection_sort_natural(s);
    else if (set->sort != SORT_FILE)
        qsort(s->tensors, s->count, sizeof *s->tensors, orders[set->sort]);
    for (size_t i = 0; set->reverse && i < s->count / 2; i++) {
        const tenmap_tensor *swapped = s->tensors[i];
        s->tensors[i] = s->tensors[s->count - 1 - i];
        s->tensors[s->count - 1 - i] = swapped;
    }
}

/*
 * The long form has no column of parameter counts, since the shape tells them and names need the
 * room.
 */
static void add_tensor(table *t, const tenmap_tensor *tensor, bool long_form) {
    const char *dtype = tenmap_dtype_text(tensor);
    text_add_safe(table_cell(t), tensor->name, tensor->name_len);
    table_end_cell(t, STYLE_NONE);
    text_add_safe(table_cell(t), dtype, strlen(dtype));
    table_end_cell(t, STYLE_CYAN);
    text_add_shape(table_cell(t), tensor);
    table_end_cell(t, STYLE_NONE);
    if (!long_form) {
        text_add_count(table_cell(t), tensor->nelems);
        table_end_cell(t, STYLE_NONE);
    }
    text_add_bytes(table_cell(t), tensor->nbytes);
    table_end_cell(t, STYLE_NONE);
    if (!long_form)
        return;
    text_add_number(table_cell(t), tensor->file_offset);
    table_end_cell(t, STYLE_NONE);
    text_add_number(table_cell(t), alignment_of(tensor->file_offset));
    table_end_cell(t, tensor->flags & TENMAP_TENSOR_ALIGNED ? STYLE_NONE : STYLE_YELLOW);
}

/* The share of a tensor that a truncated file holds. */
static void add_share_there(table *t, const listing *l, const tenmap_tensor *tensor) {
    uint64_t there = bytes_there(&l->cut, tensor);
    bool whole = there == tensor->nbytes;
    text_add_percent(table_cell(t), whole ? 1 : there, whole ? 1 : tensor->nbytes);
    table_end_cell(t, whole ? STYLE_NONE : there ? STYLE_YELLOW : STYLE_RED);
}

static void print_table(const listing *l, const selection *s, bool long_form) {
    static const column brief[] = {{"NAME", false, true},   {"DTYPE", false, false},
                                   {"SHAPE", false, false}, {"PARAMS", true, COLUMN_SPARE},
                                   {"SIZE", true, false},   {"SHARD", true, false}};
    static const column full[] = {{"NAME", false, true},   {"DTYPE", false, false},
                                  {"SHAPE", false, false}, {"SIZE", true, false},
                                  {"OFFSET", true, false}, {"ALIGN", true, COLUMN_SPARE},
                                  {"SHARD", true, false}};
    /* A truncated file is a model by itself, so that at most one of the last columns is shown. */
    bool sharded = whole_shards(&l->whole, l->model) > 1, cut = l->cut.whole_size;
    size_t count = (long_form ? sizeof full : sizeof brief) / sizeof(column);
    column columns[sizeof full / sizeof(column)];
    memcpy(columns, long_form ? full : brief, count * sizeof *columns);
    if (cut)
        columns[count - 1].title = "THERE";
    table *t = table_new(columns, count - !(sharded || cut));
    for (size_t i = 0; i < s->count; i++) {
        add_tensor(t, s->tensors[i], long_form);
        if (cut) {
            add_share_there(t, l, s->tensors[i]);
        } else if (sharded) {
            text_add_number(table_cell(t), whole_shard(&l->whole, s->tensors[i]));
            table_end_cell(t, STYLE_NONE);
        }
    }
    table_print(t);
    table_free(t);
}

static void print_totals(const listing *l, const selection *s) {
    const tenmap_model *model = l->model;
    const whole_model *whole = &l->whole;
    text t = {0};
    text_add_grouped(&t, s->count);
    if (s->count < whole_tensors(whole, model)) {
        text_addf(&t, " of ");
        text_add_grouped(&t, whole_tensors(whole, model));
    }
    text_addf(&t, whole_tensors(whole, model) == 1 ? " tensor, " : " tensors, ");
    text_add_count(&t, s->elements);
    text_addf(&t, s->elements == 1 ? " parameter, " : " parameters, ");
    text_add_bytes(&t, s->bytes);
    if (whole_shards(whole, model) > 1)
        text_addf(&t, " in %zu shards", whole_shards(whole, model));
    if (tenmap_missing_count(model))
        text_addf(&t, " (%zu more missing)", tenmap_missing_count(model));
    printf("%s%s%s\n", paint(STYLE_BOLD), t.bytes, paint_end());
    text_free(&t);
}

static void print_json(const listing *l, const selection *s) {
    json_open('{', false);
    json_key_text("model", shown_path(whole_path(&l->whole, l->model)), TENMAP_CSTR);
    json_key_uint("count", s->count);
    json_key_uint("params", s->elements);
    json_key_uint("bytes", s->bytes);
    json_key("tensors");
    json_open('[', false);
    for (size_t i = 0; i < s->count; i++) {
        const tenmap_tensor *t = s->tensors[i];
        json_open('{', true);
        json_tensor_fields(t);
        json_key_uint("params", t->nelems);
        json_key_uint("bytes", t->nbytes);
        json_key_uint("offset", t->file_offset);
        json_key_bool("aligned", t->flags & TENMAP_TENSOR_ALIGNED);
        json_key_text("file", file_name(t), TENMAP_CSTR);
        if (l->cut.whole_size)
            json_key_uint("bytes_there", bytes_there(&l->cut, t));
        json_close();
    }
    json_close();
    json_close();
}

static void print_tsv(const selection *s) {
    text line = {0};
    puts("name\tdtype\tshape\tparams\tbytes\toffset\taligned\tfile");
    for (size_t i = 0; i < s->count; i++) {
        const tenmap_tensor *t = s->tensors[i];
        const char *dtype = tenmap_dtype_text(t);
        const uint64_t numbers[] = {t->nelems, t->nbytes, t->file_offset,
                                    (t->flags & TENMAP_TENSOR_ALIGNED) != 0};
        text_add_field(&line, t->name, t->name_len);
        text_add(&line, "\t", 1);
        text_add_field(&line, dtype, strlen(dtype));
        text_add(&line, "\t", 1);
        text_add_dims(&line, t);
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
            text_add(&line, "\t", 1);
            text_add_number(&line, numbers[k]);
        }
        text_add(&line, "\t", 1);
        text_add_field(&line, file_name(t), strlen(file_name(t)));
        text_add(&line, "\n", 1);
        fwrite(line.bytes, 1, line.len, stdout);
        text_clear(&line);
    }
    text_free(&line);
}

static bool wants_tree(const ls_settings *set) {
    return set->tree || set->fold || set->depth;
}

static void print_selection(const listing *l, selection *s, const ls_settings *set) {
    bool tree = wants_tree(set);
    if (!tree)
        sort_selection(s, set);
    if (set->json) {
        print_json(l, s);
    } else if (set->tsv) {
        print_tsv(s);
    } else {
        if (tree)
            tree_print(s, set->depth, set->fold);
        else
            print_table(l, s, set->long_form);
        print_totals(l, s);
    }
}

/* With --partial, a truncated file is listed as if it were whole. */
static int open_listing(const char *path, const filter *wanted, listing *l, tenmap_model **model) {
    tenmap_options options = open_options();
    text share = {0};
    *l = (listing){0};
    if (!common.partial || is_address(path) || !open_truncated(path, &options, &l->cut, model)) {
        int status = open_for_tensors(path, wanted->patterns, wanted->pattern_count, false,
                                      &l->whole, model);
        l->model = *model;
        if (!status && !is_address(path))
            tell_left_out(path, *model);
        return status;
    }
    text_add_percent(&share, l->cut.size, l->cut.whole_size);
    warn("'%s' is truncated: %s of it is there", path, share.bytes);
    text_free(&share);
    l->model = *model;
    return EXIT_FINE;
}

static int check_ls_settings(const ls_settings *set) {
    if (set->json + set->tsv + wants_tree(set) > 1)
        return fail(EXIT_USAGE, "--tree, --json and --tsv exclude each other: choose one");
    if (wants_tree(set) && (set->sort || set->reverse || set->long_form))
        return fail(EXIT_USAGE, "a tree has its own order and columns: leave out --sort, "
                                "--reverse and --long");
    return EXIT_FINE;
}

static int ls_run(const invocation *call) {
    const ls_settings *set = call->settings;
    tenmap_model *model = NULL;
    listing l;
    selection chosen;
    filter wanted = set->wanted;
    wanted.patterns = call->operands + 1;
    wanted.pattern_count = call->operand_count - 1;
    int status = check_ls_settings(set);
    if (status)
        return status;
    common.dequantize = set->dequantize;
    status = open_listing(call->operands[0], &wanted, &l, &model);
    if (!status)
        status = select_tensors(model, &wanted, &chosen);
    if (!status) {
        print_selection(&l, &chosen, set);
        selection_free(&chosen);
    }
    tenmap_close(model);
    whole_model_free(&l.whole);
    return status;
}

const command cmd_ls = {
    .name = "ls",
    .summary = "List tensors as a table or a tree",
    .operands = "MODEL [NAME...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = ls_options,
    .details =
        "A NAME with *, ? or [...] is a glob over whole names, where * matches dots too. Any\n"
        "other NAME selects the tensor of that name or, if there is none, all tensors whose\n"
        "names contain it. Sizes are in powers of 1000.",
    .examples = ls_examples,
    .settings_size = sizeof(ls_settings),
    .run = ls_run,
};
