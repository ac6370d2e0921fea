/* get: prints or exports the values of one tensor. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "view/json_out.h"
#include "remote/partial_remote_open.h"
#include "output/npy.h"
#include "output/atomic_file.h"
#include "view/print.h"
#include "remote/remote.h"
#include "tensor_patterns.h"
#include "slice_syntax.h"
#include "view/print_values.h"

enum { SHOW_ALL_UP_TO = 1000, EDGE = 3, TEXT_BLOCK = 1 << 20 };

typedef struct get_settings {
    const char *output;
    tenmap_dtype as;
    bool all, raw_values, tsv, json, raw, bytes, force, dequantize;
    uint64_t precision, threads;
} get_settings;

static const get_settings get_defaults = {.precision = 6};

#define AT(field) offsetof(get_settings, field)
static const option get_options[] = {
    {'o', "output", "FILE", OPTION_TEXT, AT(output),
     "Export to FILE: .npy, or with --bytes anything; - is stdout"},
    {'f', "force", NULL, OPTION_SWITCH, AT(force), "Replace FILE if it exists"},
    {0, "as", "DTYPE", OPTION_DTYPE, AT(as), "Convert the values to this dtype first"},
    {'a', "all", NULL, OPTION_SWITCH, AT(all), "Show all values, however many there are"},
    {'p', "precision", "N", OPTION_COUNT, AT(precision),
     "Show N significant digits (6); 0 for as many as each value has"},
    {0, "raw-values", NULL, OPTION_SWITCH, AT(raw_values), "Print one value per line, exactly"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv),
     "Print one line per row of the last dimension, with tabs between the values, exactly"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "Print JSON: the shape, and the values in one list"},
    {0, "raw", NULL, OPTION_SWITCH, AT(raw),
     "Export bits to .npy: BF16 as uint16, F8 as uint8, instead of float32"},
    {'j', "threads", "N", OPTION_COUNT, AT(threads),
     "Use this many connections for an address (8)"},
    {'b', "bytes", NULL, OPTION_SWITCH, AT(bytes), "Export only the bytes, little-endian"},
    DEQUANTIZE_OPTION(AT(dequantize)),
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example get_examples[] = {
    {"tenmap get model.safetensors lm_head.weight", "its corners, as numpy prints arrays"},
    {"tenmap get model.safetensors layer.0.weight '[0:2, -4:]'", "two rows, four columns"},
    {"tenmap get llama/ model.norm.weight --raw-values", "one value per line"},
    {"tenmap get llama/ model.norm.weight -o norm.npy", "for numpy.load; BF16 becomes float32"},
    {"tenmap get m.safetensors w --bytes -o - | xxd | head", "the bytes in the file"},
    {NULL, NULL},
};

static int find_one(const tenmap_model *model, const char *pattern, const tenmap_tensor **out) {
    selection s;
    filter wanted = {.patterns = &pattern, .pattern_count = 1};
    int status = select_tensors(model, &wanted, &s);
    if (status)
        return status;
    if (s.count == 1) {
        *out = s.tensors[0];
    } else {
        text names = {0};
        for (size_t i = 0; i < s.count && i < 2; i++) {
            text_addf(&names, i ? " and " : "");
            text_add_safe(&names, s.tensors[i]->name, s.tensors[i]->name_len);
        }
        if (s.count)
            fail(EXIT_FAILED, "'%s' matches %zu tensors, among them %s: name one", pattern, s.count,
                 names.bytes);
        else
            fail(EXIT_FAILED, "the model has no tensors");
        status = EXIT_FAILED;
        text_free(&names);
    }
    selection_free(&s);
    return status;
}

/* Prints all three plain forms, a block at a time. */
static int print_plain(const tenmap_tensor *tensor, const slice *s, const get_settings *set) {
    tenmap_error error;
    slice_walk walk;
    text out = {0};
    int status = EXIT_FINE;
    tenmap_dtype dtype = shown_dtype(set->as ? set->as : tensor->dtype);
    uint64_t row = s->out_rank ? s->out_shape[s->out_rank - 1] : 1, at = 0;
    uint64_t size = 0;
    (void)tenmap_dtype_bytes(dtype, 1, &size);
    char *block = need(TEXT_BLOCK, (size_t)size);
    if (s->count == tensor->nelems)
        remote_will_read(&tensor, 1);
    slice_walk_begin(&walk, s, TEXT_BLOCK);
    while (!status && slice_walk_next(&walk)) {
        tensor_block shown = {tensor, walk.begin, walk.end, walk.count};
        if (read_shown(&shown, set->as, block, &error) != TENMAP_OK)
            status = fail_error(&error);
        for (size_t i = 0; !status && i < walk.count; i++) {
            if (set->json) {
                json_value(dtype, block + i * size);
                continue;
            }
            text_add_value(&out, dtype, block + i * size, 0);
            text_add(&out, set->tsv && ++at % row ? "\t" : "\n", 1);
        }
        fwrite(out.len ? out.bytes : "", 1, out.len, stdout);
        text_clear(&out);
        if (ferror(stdout))
            break;
    }
    slice_walk_end(&walk);
    text_free(&out);
    free(block);
    return status;
}

static int print_json(const tenmap_tensor *tensor, const slice *s, const get_settings *set) {
    json_open('{', false);
    json_tensor_fields(tensor);
    json_key("value_shape");
    json_open('[', true);
    for (uint32_t d = 0; d < s->out_rank; d++)
        json_uint(s->out_shape[d]);
    json_close();
    json_key("values");
    json_open('[', true);
    int status = print_plain(tensor, s, set);
    json_close();
    json_close();
    return status;
}

static int print_layout(const tenmap_tensor *tensor, const slice *s, const char *given,
                        const get_settings *set) {
    value_layout how = {.as = set->as, .digits = (unsigned)set->precision};
    const char *dtype = tenmap_dtype_text(tensor);
    how.edge = set->all || s->count <= SHOW_ALL_UP_TO ? 0 : EDGE;
    printf("%s", paint(STYLE_BOLD));
    print_safe(stdout, tensor->name, tensor->name_len);
    if (given) {
        printf(*given == '[' ? "" : "[");
        print_safe(stdout, given, strlen(given));
        printf(*given == '[' ? "" : "]");
    }
    printf("%s %s", paint_end(), paint(STYLE_CYAN));
    print_safe(stdout, dtype, strlen(dtype));
    printf("%s%s%s [", set->as ? " as " : "", set->as ? tenmap_dtype_name(set->as) : "",
           paint_end());
    for (uint32_t d = 0; d < s->out_rank; d++)
        printf(d ? ", %llu" : "%llu", (unsigned long long)s->out_shape[d]);
    printf("]\n");
    return values_print(tensor, s, &how);
}

static int show(const tenmap_tensor *tensor, const slice *s, const char *given,
                const get_settings *set) {
    if (tenmap_dtype_kind(tensor->dtype) == TENMAP_KIND_NONE)
        return fail(EXIT_FAILED, "the dtype is unknown; --bytes -o FILE exports its bytes");
    if (set->json)
        return print_json(tensor, s, set);
    if (set->raw_values || set->tsv)
        return print_plain(tensor, s, set);
    return print_layout(tensor, s, given, set);
}

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static int check_settings(const get_settings *set) {
    if (set->json + set->tsv + set->raw_values + (set->output != NULL) > 1)
        return fail(EXIT_USAGE,
                    "--json, --tsv, --raw-values and -o exclude each other: choose one");
    if ((set->bytes || set->raw) && !set->output)
        return fail(EXIT_USAGE, "--%s needs -o FILE, or -o - for stdout",
                    set->bytes ? "bytes" : "raw");
    if (set->force && !set->output)
        return fail(EXIT_USAGE, "--force replaces the FILE of -o, but there is no -o");
    if (set->bytes && set->raw)
        return fail(EXIT_USAGE, "--raw is for .npy files, but --bytes does not write one");
    if (set->precision > 17)
        return fail(EXIT_USAGE, "--precision takes at most 17, which is exact for every dtype");
    if (!set->output || set->bytes)
        return EXIT_FINE;
    if (!is_stdout(set->output) && !ends_with(set->output, ".npy"))
        return fail(EXIT_USAGE,
                    "'%s': the name must end in .npy, or add --bytes to write only the bytes",
                    set->output);
    return EXIT_FINE;
}

/* Reports an impossible conversion before anything is printed or created. */
static int check_conversion(const tenmap_tensor *tensor, tenmap_dtype as) {
    tenmap_error error;
    if (!as || tenmap_convert(as, NULL, 0, tensor->dtype, NULL, 0, 0, &error) == TENMAP_OK)
        return EXIT_FINE;
    return fail_error(&error);
}

/*
 * Splits NAME[0:2], as written in Python, into name and slice if no tensor has the full name.
 * Returns the name, which the caller frees, or NULL if there is no slice.
 */
static char *split_slice(const tenmap_model *model, const char *name, const char **slice_text) {
    const char *bracket = strrchr(name, '[');
    size_t len = strlen(name);
    if (!bracket || bracket == name || name[len - 1] != ']' || tenmap_find(model, name))
        return NULL;
    char *stem = need_copy(name, (size_t)(bracket - name));
    if (tenmap_find(model, stem)) {
        *slice_text = bracket;
        return stem;
    }
    free(stem);
    return NULL;
}

/* NAME[0:2] may mean a tensor of that name, or a slice of the tensor before the bracket. */
static int open_for(const char *path, const char *name, tenmap_model **out) {
    const char *bracket = strrchr(name, '['), *names[2] = {name, NULL};
    size_t count = 1;
    char *stem = NULL;
    if (bracket && bracket > name && name[strlen(name) - 1] == ']')
        names[count++] = stem = need_copy(name, (size_t)(bracket - name));
    int status = open_for_tensors(path, names, count, true, NULL, out);
    free(stem);
    return status;
}

static int get_run(const invocation *call) {
    const get_settings *set = call->settings;
    const char *given = call->operand_count > 2 ? call->operands[2] : NULL;
    char *stem = NULL;
    tenmap_model *model = NULL;
    const tenmap_tensor *tensor;
    slice s;
    common.dequantize = set->dequantize;
    int status = check_settings(set);
    if (!status && set->output && is_stdout(set->output) && isatty(STDOUT_FILENO) == 1)
        status = fail(EXIT_USAGE,
                      "binary data is not written to a terminal: redirect it, or name a file");
    if (!status)
        status = open_for(call->operands[0], call->operands[1], &model);
    if (!status && !given)
        stem = split_slice(model, call->operands[1], &given);
    if (!status)
        status = find_one(model, stem ? stem : call->operands[1], &tensor);
    if (!status)
        status = check_conversion(tensor, set->as);
    if (!status)
        status = slice_parse(given, tensor, &s);
    if (!status) {
        const export_form form = {set->as, set->raw, set->bytes, set->force,
                                  (unsigned)(set->threads < 64 ? set->threads : 64)};
        status = set->output ? export_tensor(model, tensor, &s, &form, set->output)
                             : show(tensor, &s, given, set);
        slice_free(&s);
    }
    tenmap_close(model);
    free(stem);
    return status;
}

const command cmd_get = {
    .name = "get",
    .summary = "Show the values of a tensor or slice, or export them",
    .operands = "MODEL NAME [SLICE]",
    .min_operands = 2,
    .max_operands = 3,
    .options = get_options,
    .details =
        "A SLICE is written as in Python, with or without brackets: '[0:2, :4]', '-1', '...,\n"
        "0'. An index removes its dimension, a range past the end is cut, and steps are not\n"
        "supported. More than 1000 values are summarized by the first and last three of each\n"
        "dimension, unless --all is given. NAME may be a glob that matches one tensor, and\n"
        "NAME[0:2] is NAME with its SLICE.",
    .examples = get_examples,
    .settings_size = sizeof(get_settings),
    .defaults = &get_defaults,
    .run = get_run,
};
