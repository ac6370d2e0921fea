/*
 * Shared by the commands that write models: their options, and the plan of what the output will
 * hold. output_write.h writes it.
 */
#ifndef TOOL_OUTPUT_PLAN_H
#define TOOL_OUTPUT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "command.h"
#include "remote/partial_remote_open.h"

/* The settings that every writing command has; its option table starts with OUTPUT_OPTIONS. */
typedef struct output_settings {
    const char *path;
    bool force, dry_run, json;
    bool copy_config, no_config; /* companion files */
    texts meta;                  /* KEY=VALUE */
    bool single;
    uint64_t max_shard; /* bytes of tensor data; 0: not given */
    uint64_t threads;
} output_settings;

/*
 * Entries for the option table of a command whose settings have an output_settings at offset `at`.
 */
#define OUT_AT(at, field) ((at) + offsetof(output_settings, field))
#define OUTPUT_OPTIONS(at)                                                                         \
    {'o', "output", "OUT", OPTION_TEXT, OUT_AT(at, path), "The file or folder to write"},          \
        {'f',                                                                                      \
         "force",                                                                                  \
         NULL,                                                                                     \
         OPTION_SWITCH,                                                                            \
         OUT_AT(at, force),                                                                        \
         "Replace an existing output, in one step, when the new one is complete"},                 \
        {'n',           "dry-run",           NULL,                                                 \
         OPTION_SWITCH, OUT_AT(at, dry_run), "Only print what would be written"},                  \
        {0,           "meta",           "KEY=VALUE",                                               \
         OPTION_LIST, OUT_AT(at, meta), "Set this metadata in the output; the rest is kept"},      \
        {0,                                                                                        \
         "copy-config",                                                                            \
         NULL,                                                                                     \
         OPTION_SWITCH,                                                                            \
         OUT_AT(at, copy_config),                                                                  \
         "Copy config.json, tokenizer and generation files too, as is done from folder to "        \
         "folder"},                                                                                \
        {0,                                                                                        \
         "no-config",                                                                              \
         NULL,                                                                                     \
         OPTION_SWITCH,                                                                            \
         OUT_AT(at, no_config),                                                                    \
         "Copy no config.json and similar files"},                                                 \
        {'j',                                                                                      \
         "threads",                                                                                \
         "N",                                                                                      \
         OPTION_COUNT,                                                                             \
         OUT_AT(at, threads),                                                                      \
         "Copy on this many threads, or over this many connections for an address"},               \
    {                                                                                              \
        0, "json", NULL, OPTION_SWITCH, OUT_AT(at, json), "Report as JSON"                         \
    }
#define SHARD_OPTIONS(at)                                                                          \
    {0,           "max-shard-size",      "SIZE",                                                   \
     OPTION_SIZE, OUT_AT(at, max_shard), "Write shards of at most this size, and their index"},    \
    {                                                                                              \
        0, "single", NULL, OPTION_SWITCH, OUT_AT(at, single),                                      \
            "Write one file even if the input has shards"                                          \
    }
#define END_OF_OPTIONS                                                                             \
    { 0, NULL, NULL, OPTION_SWITCH, 0, NULL }

/* For the details of --help. */
#define OUTPUT_DETAILS                                                                             \
    "If the input has shards, so does the output, and none is larger than the input's largest.\n"  \
    "If the input is a folder or has shards, OUT is a folder. An OUT that ends in .safetensors\n"  \
    "is always one file. Names of other formats (.gguf, .bin, .pt, ...) are refused. With\n"       \
    "--force, OUT may be the input: the new model replaces it in one rename when it is\n"          \
    "complete. Interrupting leaves nothing behind. From folder to folder, config.json and\n"       \
    "the files of the tokenizer and of generation are copied too; existing ones stay unless\n"     \
    "--force is given. The dtype in config.json becomes that of most weights."

typedef struct plan plan;
typedef struct target target;

/* Two names of one tensor: `left` is only named in the metadata. */
typedef struct plan_alias {
    const tenmap_tensor *left, *kept;
} plan_alias;

/* The tensors of the output in order, and the layout of the output. */
struct plan {
    const char *label; /* for the progress bar: "converting" */
    tenmap_model **models;
    size_t model_count;
    whole_model whole; /* of the first model, if only a part of it is open */
    /*
     * The model whose tensors are the sources, if they are computed from those of `models`; owned,
     * and closed before them. Then only the first of `models` gives metadata. NULL: none.
     */
    tenmap_model *derived;
    /*
     * The derived model only moves what the input has, each element once. Nothing is rounded,
     * unless quantized weights are dequantized.
     */
    bool rearranged;
    tenmap_source *sources; /* every source has a tensor */
    size_t count, room;
    char **names; /* new names, owned */
    size_t name_count, name_room;
    uint32_t alignment; /* of the start of the data; 0: the default */
    bool keep_order;
    bool last_wins; /* if inputs disagree about metadata, the last input wins */
    bool strict;    /* write nothing if a conversion loses values */
    /* One per source if any is converted and its values were read; else NULL. */
    tenmap_losses *losses;
    size_t input_tensors; /* of all models */
    plan_alias *shared;   /* see shared_tensors.h */
    size_t shared_count;
    const tenmap_metadata **left_pairs; /* set by plan_collect_metadata */
    size_t left_pair_count;
    /*
     * For weights being quantized: the model of their parts, which the plan closes, and for each
     * source the tensor that the part came from (NULL for scales). `origins` is as long as
     * `sources` was when the last part was added.
     */
    const tenmap_model *quantized_model;
    const char *quantized_scheme; /* "fp8-block" */
    const tenmap_tensor **origins;
    const struct config_change *config; /* changes to config.json; NULL: none */
    /* Output of the command's own: lines before the summary, or keys of the JSON object. */
    void (*report)(const plan *p, const target *to, bool json);
    const void *report_ctx;
};

/*
 * Opens the models; from here on SIGINT cancels. Returns 0 or an exit code. Call plan_free in
 * either case.
 */
int plan_open(plan *p, const char *label, const char *const *paths, size_t count);
/*
 * As plan_open, for one model of which only the tensors that the patterns select are needed (see
 * partial_remote_open.h).
 */
int plan_open_for_tensors(plan *p, const char *label, const char *path, const char *const *patterns,
                          size_t count);
void plan_add(plan *p, const tenmap_tensor *tensor);
/*
 * Makes a model of these tensors, whose terms are tensors of the plan's models, and adds all of its
 * tensors in their order. Returns 0 or an exit code.
 */
int plan_derive(plan *p, const tenmap_derived *tensors, size_t count);
/* Takes ownership of `name`, which was allocated with malloc. */
void plan_rename(plan *p, size_t source, char *name, size_t len);
const char *plan_name(const plan *p, size_t source, size_t *len);
uint64_t plan_bytes(const plan *p, size_t source); /* in the output */
bool plan_converts(const plan *p, size_t source);  /* to another dtype */
/* Whether values are rounded on their way to the output, and some may be lost. */
bool plan_rounds(const plan *p, size_t source);
bool plan_is_quantized(const plan *p, size_t source); /* a part of a weight being quantized */
/*
 * Finds the first pair, by name, of sources with the same output name. Returns false if there is
 * none.
 */
bool plan_find_duplicate_names(const plan *p, size_t *a, size_t *b);
/* If several sources have one name, keeps the first or the last of them. */
void plan_drop_duplicate_names(plan *p, bool keep_last);
/* Parses one KEY=VALUE of --meta; *out points into `given`. Returns 0 or an exit code. */
int parse_meta(const char *given, tenmap_edit *out);
void plan_free(plan *p);

tenmap_dtype plan_dtype(const plan *p, size_t source); /* in the output */
/* The input tensor that the source came from, for reports; NULL for new scales. */
const tenmap_tensor *plan_origin(const plan *p, size_t source);

/*
 * The dtype of most elements of floating-point tensors in the output if that differs from the
 * inputs'; TENMAP_AS_STORED if it does not.
 */
tenmap_dtype plan_main_dtype(const plan *p);

/*
 * The metadata of all inputs, each key once, then that of --meta. The caller frees `items`.
 *
 * In SafeTensors files, a pair whose value is the name of a tensor means that its key is another
 * name of it. Elsewhere a pair does not mean that, so such pairs are left out (left_pairs). Tensors
 * from PyTorch files get the pair "format": "pt", as programs that load them with torch expect.
 */
typedef struct output_metadata {
    tenmap_edit *items;
    size_t count;
} output_metadata;
int plan_collect_metadata(plan *p, const output_settings *out, output_metadata *all);
/* Checks that every tensor can be written as planned. Returns 0 or an exit code. */
int plan_check(const plan *p);
/*
 * Refuses a block dtype (Q4_K) that --to or --rule asks for, since no file that is written can hold
 * it. `by` is the option that asks. Returns 0 or an exit code.
 */
int check_output_dtype(const char *by, tenmap_dtype to);
/*
 * Refuses the name of a file in a format that is not written (x.gguf). plan_write does it too; a
 * command that works for long before that calls it first. Returns 0 or an exit code.
 */
int check_output_name(const output_settings *out);

/*
 * A name from a model, quoted and made safe for an error message. The last four results stay valid.
 * Not thread-safe.
 */
const char *shown_name(const char *name, size_t len);

/* A name with its index, for finding equal names. */
typedef struct named {
    const char *name;
    size_t len, at;
} named;
void sort_named(named *list, size_t count); /* by name, then by index */
bool same_named(const named *a, const named *b);

#endif
