/* hash: prints and verifies digests of files, tensors and models. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "open_model.h"
#include "compare/digest.h"
#include "model/model_files.h"
#include "view/json_out.h"
#include "remote/expected_digest.h"
#include "view/print.h"
#include "remote/remote.h"
#include "model/model_operands.h"
#include "view/progress.h"
#include "tensor_patterns.h"
#include "parallel_for.h"

typedef struct hash_settings {
    const char *verify;
    bool tensors, whole, json, dequantize;
    uint64_t threads;
} hash_settings;

static const option hash_options[] = {
    {0, "verify", "WHAT", OPTION_TEXT, offsetof(hash_settings, verify),
     "Compare with a digest, a list that sha256sum wrote, an hf:// address, a Git LFS pointer or a "
     "folder of pointers; 'cache' stands for the file names in a hub's cache; exit 1 if one "
     "differs"},
    {'t', "tensors", NULL, OPTION_SWITCH, offsetof(hash_settings, tensors),
     "Print a fingerprint of each tensor: of its dtype, shape and bytes"},
    {'m', "model", NULL, OPTION_SWITCH, offsetof(hash_settings, whole),
     "Print one fingerprint of all tensors and their names, whatever their order, shards and "
     "header"},
    {'j', "threads", "N", OPTION_COUNT, offsetof(hash_settings, threads),
     "Use this many threads (as many as there are processors)"},
    {0, "json", NULL, OPTION_SWITCH, offsetof(hash_settings, json), "Print the answer as JSON"},
    {0, "dequantize", NULL, OPTION_SWITCH, offsetof(hash_settings, dequantize),
     "Use the values of quantized weights, as convert --dequantize would write them"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example hash_examples[] = {
    {"tenmap hash llama/ >SHA256SUMS", "the SHA-256 of every shard, as sha256sum writes them"},
    {"tenmap hash --verify SHA256SUMS", "whether these files are still the same"},
    {"tenmap hash model.safetensors --verify pointers/model.safetensors",
     "whether a download is the file that the hub has"},
    {"tenmap hash llama/ --verify hf://ORG/MODEL", "the same, but the hub itself is asked"},
    {"tenmap hash --model llama/ merged.safetensors", "whether two models are the same"},
    {"tenmap hash --tensors model.safetensors", "one line for each tensor"},
    {NULL, NULL},
};

/* The files to hash: those named, and for folders and indexes the shards of their models. */
typedef struct file_entry {
    char *path;
    uint64_t size;
    unsigned char sha256[SHA256_BYTES];
} file_entry;

typedef struct file_list {
    file_entry *items;
    size_t count;
} file_list;

static int add_file(file_list *list, const char *path) {
    struct stat s;
    if (stat(path, &s) != 0)
        return fail(EXIT_FAILED, "'%s': %s", path, os_error_text(errno));
    if (!S_ISREG(s.st_mode))
        return fail(EXIT_FAILED, "'%s' is %s, not a file", path, irregular_kind(&s));
    list->items = need_next(list->items, list->count, sizeof *list->items);
    file_entry *entry = &list->items[list->count++];
    *entry = (file_entry){.path = need_copy(path, strlen(path)), .size = (uint64_t)s.st_size};
    return EXIT_FINE;
}

static int add_operand(file_list *list, const char *path) {
    tenmap_model *model;
    struct stat s;
    size_t len = strlen(path);
    if (is_address(path))
        return fail(EXIT_FAILED,
                    "'%s' is not a local file, and its SHA-256 needs all of its bytes; --model and "
                    "--tensors take addresses",
                    shown_path(path));
    bool index = len > 5 && strcmp(path + len - 5, ".json") == 0;
    if (!index && (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)))
        return add_file(list, path);
    int status = open_model(path, &model);
    if (status)
        return status;
    for (size_t i = 0; !status && i < tenmap_shard_count(model); i++)
        status = add_file(list, tenmap_shard_at(model, i)->path);
    tenmap_close(model);
    return status;
}

static int hash_one(void *ctx, size_t i) {
    file_entry *entry = &((file_list *)ctx)->items[i];
    return sha256_file(entry->path, entry->sha256);
}

static int hash_files(file_list *list, unsigned threads) {
    uint64_t total = 0;
    for (size_t i = 0; i < list->count; i++)
        total += list->items[i].size;
    progress_begin("sha256", total);
    int status = parallel_for(threads, list->count, hash_one, list);
    progress_end();
    return status;
}

/*
 * Prints as sha256sum does: a name with a backslash or a line break is escaped, and the line begins
 * with a backslash. On a terminal, other control characters are escaped too. A pipe gets the exact
 * name, so that sha256sum -c finds the file.
 */
static void print_sum(const char *digits, const char *path) {
    static const char special[] = "\\\n\r", letters[] = "\\nr";
    text name = {0}, shown = {0};
    printf("%s%s  ", strpbrk(path, special) ? "\\" : "", digits);
    for (; *path; path++) {
        const char *found = strchr(special, *path);
        if (found)
            text_addf(&name, "\\%c", letters[found - special]);
        else
            text_add(&name, path, 1);
    }
    if (print_width())
        text_add_visible(&shown, name.bytes ? name.bytes : "", name.len);
    const text *line = print_width() ? &shown : &name;
    fwrite(line->len ? line->bytes : "", 1, line->len, stdout);
    putchar('\n');
    text_free(&name);
    text_free(&shown);
}

static void print_sums(const file_list *list, bool json) {
    char digits[2 * SHA256_BYTES + 1];
    if (json)
        json_open('[', false);
    for (size_t i = 0; i < list->count; i++) {
        const file_entry *entry = &list->items[i];
        hex_digits(entry->sha256, SHA256_BYTES, digits);
        if (!json) {
            print_sum(digits, entry->path);
            continue;
        }
        json_open('{', true);
        json_key_text("file", entry->path, TENMAP_CSTR);
        json_key_uint("size", entry->size);
        json_key_text("sha256", digits, TENMAP_CSTR);
        json_close();
    }
    if (json)
        json_close();
}

/* Verifying. */

static void report_verdict(const file_entry *entry, const lfs_pointer *want, const char *digits,
                           bool same, bool json) {
    if (json) {
        json_open('{', true);
        json_key_text("file", entry->path, TENMAP_CSTR);
        json_key_bool("same", same);
        json_key_uint("size", entry->size);
        if (want->size != ANY_SIZE)
            json_key_uint("expected_size", want->size);
        if (*digits)
            json_key_text("sha256", digits, TENMAP_CSTR);
        json_key_text("expected_sha256", want->sha256, TENMAP_CSTR);
        json_close();
        return;
    }
    print_safe(stdout, entry->path, strlen(entry->path));
    if (same)
        printf(": %sOK%s\n", paint(STYLE_GREEN), paint_end());
    else if (!*digits)
        printf(": %sFAILED%s: it has %" PRIu64 " bytes, and should have %" PRIu64 "\n",
               paint(STYLE_RED), paint_end(), entry->size, want->size);
    else
        printf(": %sFAILED%s: its sha256 is %s, and should be %s\n", paint(STYLE_RED), paint_end(),
               digits, want->sha256);
}

static bool is_right_size(const file_entry *entry, const lfs_pointer *want) {
    return want->size == ANY_SIZE || entry->size == want->size;
}

/* Reports what was read: `right` are those files of `list` that have the size that they should. */
static int report_verdicts(const file_list *list, const lfs_pointer *wanted, const file_list *right,
                           bool json) {
    int verdict = EXIT_FINE;
    size_t next = 0;
    if (json)
        json_open('[', false);
    for (size_t i = 0; i < list->count; i++) {
        char digits[2 * SHA256_BYTES + 1] = "";
        if (is_right_size(&list->items[i], &wanted[i]))
            hex_digits(right->items[next++].sha256, SHA256_BYTES, digits);
        bool same = strcmp(digits, wanted[i].sha256) == 0;
        report_verdict(&list->items[i], &wanted[i], digits, same, json);
        verdict = same ? verdict : EXIT_DIFFERENT;
    }
    if (json)
        json_close();
    return verdict;
}

/* A file of the wrong size is not read at all. */
static int verify_files(const file_list *list, const lfs_pointer *wanted,
                        const hash_settings *set) {
    file_list right = {need(list->count, sizeof *right.items), 0};
    for (size_t i = 0; i < list->count; i++)
        if (is_right_size(&list->items[i], &wanted[i]))
            right.items[right.count++] = list->items[i];
    int status = hash_files(&right, (unsigned)set->threads);
    if (!status)
        status = report_verdicts(list, wanted, &right, set->json);
    free(right.items);
    return status;
}

static int verify_named(const file_list *list, const hash_settings *set) {
    lfs_pointer *wanted = need(list->count, sizeof *wanted);
    int status = EXIT_FINE;
    if (list->count > 1 && !expects_several(set->verify))
        status = fail(EXIT_USAGE,
                      "there are %zu files: --verify needs a folder that has a pointer for each, a "
                      "file of sha256sum, or an address of their folder",
                      list->count);
    for (size_t i = 0; !status && i < list->count; i++)
        status = read_expected(set->verify, list->items[i].path, &wanted[i]);
    if (!status)
        status = verify_files(list, wanted, set);
    free(wanted);
    return status;
}

static void free_files(file_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].path);
    free(list->items);
}

/*
 * Verifies all files of a list, as sha256sum -c does: names are relative to the current folder. A
 * file that is missing does not keep others from being verified.
 */
static int verify_list(const hash_settings *set) {
    file_list list = {0};
    expected_file *files = NULL;
    size_t count = 0;
    struct stat s;
    if (stat(set->verify, &s) != 0 || !S_ISREG(s.st_mode))
        return fail(EXIT_USAGE, "name the files to compare, unless --verify is a list that "
                                "sha256sum wrote");
    int status = read_sums(set->verify, &files, &count), missing = EXIT_FINE;
    lfs_pointer *wanted = need(count, sizeof *wanted);
    for (size_t i = 0; !status && i < count; i++) {
        wanted[list.count] = files[i].want;
        int failed = add_file(&list, files[i].name);
        missing = failed ? failed : missing;
    }
    if (!status)
        status = verify_files(&list, wanted, set);
    for (size_t i = 0; i < count; i++)
        free(files[i].name);
    free(files);
    free(wanted);
    free_files(&list);
    return missing ? missing : status;
}

static int run_files(const invocation *call, const hash_settings *set) {
    file_list list = {0};
    int status = EXIT_FINE;
    if (!call->operand_count)
        return verify_list(set);
    for (size_t i = 0; !status && i < call->operand_count; i++)
        status = add_operand(&list, call->operands[i]);
    if (!status && set->verify) {
        status = verify_named(&list, set);
    } else if (!status) {
        status = hash_files(&list, (unsigned)set->threads);
        if (!status)
            print_sums(&list, set->json);
    }
    free_files(&list);
    return status;
}

/* Fingerprints. */

typedef struct printed {
    const tenmap_tensor *tensor;
    char digits[2 * FINGERPRINT_BYTES + 1];
} printed;

static int compare_printed(const void *a, const void *b) {
    const tenmap_tensor *x = ((const printed *)a)->tensor, *y = ((const printed *)b)->tensor;
    return natural_compare(x->name, x->name_len, y->name, y->name_len);
}

static void print_fingerprints(const printed *list, size_t count, const char *all) {
    for (size_t i = 0; i < count; i++) {
        printf("%s  ", list[i].digits);
        print_safe(stdout, list[i].tensor->name, list[i].tensor->name_len);
        putchar('\n');
    }
    printf("%s  (all %zu tensors)\n", all, count);
}

static void print_fingerprints_json(const char *path, const printed *list, size_t count,
                                    const char *all) {
    json_open('{', false);
    json_key_text("model", shown_path(path), TENMAP_CSTR);
    json_key_text("fingerprint", all, TENMAP_CSTR);
    json_key("tensors");
    json_open('[', false);
    for (size_t i = 0; i < count; i++) {
        json_open('{', true);
        json_tensor_fields(list[i].tensor);
        json_key_text("fingerprint", list[i].digits, TENMAP_CSTR);
        json_close();
    }
    json_close();
    json_close();
}

static void report_fingerprints(const char *path, const tenmap_model *model,
                                const hash_settings *set, const fingerprint *prints,
                                const char *all) {
    size_t count = tenmap_count(model);
    printed *list = need(count, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i].tensor = tenmap_at(model, i);
        hex_digits(prints[i].bytes, FINGERPRINT_BYTES, list[i].digits);
    }
    qsort(list, count, sizeof *list, compare_printed);
    if (set->json)
        print_fingerprints_json(path, list, count, all);
    else
        print_fingerprints(list, count, all);
    free(list);
}

static int fingerprint_one(const char *path, const hash_settings *set) {
    tenmap_model *model;
    int status = open_model(path, &model);
    if (status)
        return status;
    char digits[2 * FINGERPRINT_BYTES + 1];
    fingerprint *prints = need(tenmap_count(model), sizeof *prints), all;
    status = fingerprint_model(model, (unsigned)set->threads, prints, &all);
    if (!status) {
        hex_digits(all.bytes, FINGERPRINT_BYTES, digits);
        if (set->tensors) {
            report_fingerprints(path, model, set, prints, digits);
        } else if (set->json) {
            json_open('{', true);
            json_key_text("model", shown_path(path), TENMAP_CSTR);
            json_key_text("fingerprint", digits, TENMAP_CSTR);
            json_close();
        } else {
            print_sum(digits, shown_path(path));
        }
    }
    free(prints);
    tenmap_close(model);
    return status;
}

static int run_fingerprints(const invocation *call, const hash_settings *set) {
    bool array = set->json && call->operand_count > 1;
    int status = EXIT_FINE;
    if (set->tensors && call->operand_count > 1)
        return fail(EXIT_USAGE, "--tensors takes one model");
    if (array)
        json_open('[', false);
    for (size_t i = 0; !status && i < call->operand_count; i++)
        status = fingerprint_one(call->operands[i], set);
    if (array && !status)
        json_close();
    return status;
}

static int hash_all(const invocation *call) {
    const hash_settings *set = call->settings;
    bool prints = set->tensors || set->whole;
    if (prints && set->verify)
        return fail(EXIT_USAGE, "--verify compares files; leave out --tensors and --model");
    if (!call->operand_count && !set->verify)
        return fail(EXIT_USAGE, "usage: tenmap hash MODEL...; --help says more");
    if (!prints && set->dequantize)
        return fail(EXIT_USAGE, "--dequantize is about values; it needs --tensors or --model");
    common.dequantize = set->dequantize;
    return prints ? run_fingerprints(call, set) : run_files(call, set);
}

static int hash_run(const invocation *call) {
    model_paths paths;
    expand_model_operands(call->operands, call->operand_count, &paths);
    const invocation each = {call->settings, (const char **)paths.items, paths.count};
    int status = hash_all(&each);
    model_paths_free(&paths);
    return status;
}

const command cmd_hash = {
    .name = "hash",
    .summary = "Print the SHA-256 of files, or fingerprints of tensors and models",
    .operands = "MODEL...",
    .min_operands = 0,
    .max_operands = SIZE_MAX,
    .options = hash_options,
    .details =
        "Without options, prints the SHA-256 of each file, in the format of sha256sum. A folder\n"
        "or an index stands for the shards of its model, a folder of several models for all of\n"
        "them, and any other file for itself. --verify SHA256SUMS, without MODEL, checks all\n"
        "files of the list, whose names are relative to the current folder.\n"
        "\n"
        "Fingerprints are 128 bits of XXH3. They are fast, and protect against accidents, not\n"
        "against forgery. Renaming a tensor changes the model's fingerprint, not the tensor's.",
    .examples = hash_examples,
    .settings_size = sizeof(hash_settings),
    .run = hash_run,
};
