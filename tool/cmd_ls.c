/* ls: the tensors of a model. */
#include <inttypes.h>
#include <stdlib.h>

#include "command.h"
#include "json_out.h"
#include "print.h"
#include "select.h"

typedef struct ls_settings {
    filter wanted;
    bool json, tsv;
} ls_settings;

#define AT(field) offsetof(ls_settings, field)
static const option ls_options[] = {
    {'d', "dtype", "DTYPE", OPTION_LIST, AT(wanted.dtypes), "Only these dtypes: bf16, 'f8*'"},
    {'x', "except", "NAME", OPTION_LIST, AT(wanted.except), "Not these names"},
    {0, "min-size", "SIZE", OPTION_SIZE, AT(wanted.min_bytes),
     "Only tensors of at least this size"},
    {0, "max-size", "SIZE", OPTION_SIZE, AT(wanted.max_bytes), "Only tensors of at most this size"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "As JSON"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv), "As tab-separated values"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example ls_examples[] = {
    {"tenmap ls model.safetensors", "all tensors, in the order of the file"},
    {"tenmap ls llama/ 'model.layers.3.*'", "those of one layer of a sharded model"},
    {NULL, NULL},
};

static void print_table(const selection *s) {
    static const column columns[] = {{"NAME", false, true},
                                     {"DTYPE", false, false},
                                     {"SHAPE", false, false},
                                     {"SIZE", true, false}};
    table *t = table_new(columns, 4);
    for (size_t i = 0; i < s->count; i++) {
        const tenmap_tensor *tensor = s->tensors[i];
        text_add_safe(table_cell(t), tensor->name, tensor->name_len);
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_CYAN, "%s", tenmap_dtype_text(tensor));
        text_add_shape(table_cell(t), tensor);
        table_end_cell(t, STYLE_NONE);
        text_add_bytes(table_cell(t), tensor->nbytes);
        table_end_cell(t, STYLE_NONE);
    }
    table_print(t);
    table_free(t);
}

static int ls_run(const invocation *call) {
    const ls_settings *set = call->settings;
    tenmap_model *model;
    selection chosen;
    filter wanted = set->wanted;
    wanted.patterns = call->operands + 1;
    wanted.pattern_count = call->operand_count - 1;
    int status = open_model(call->operands[0], &model);
    if (status)
        return status;
    status = select_tensors(model, &wanted, &chosen);
    if (!status) {
        print_table(&chosen);
        selection_free(&chosen);
    }
    tenmap_close(model);
    return status;
}

const command cmd_ls = {
    .name = "ls",
    .summary = "List tensors as a table or a tree",
    .operands = "MODEL [NAME...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = ls_options,
    .examples = ls_examples,
    .settings_size = sizeof(ls_settings),
    .run = ls_run,
};
