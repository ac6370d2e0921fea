/* The plan of an output: its tensors and metadata are collected, checked, written and reported. */
#include "output/output_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output/companion_files.h"
#include "model/dequantized_weights.h"
#include "view/json_out.h"
#include "output/conversion_losses.h"
#include "remote/partial_remote_open.h"
#include "view/print.h"
#include "view/progress.h"
#include "remote/remote.h"

/* Building a plan. */

int plan_open(plan *p, const char *label, const char *const *paths, size_t count) {
    *p = (plan){.label = label};
    p->models = need(count, sizeof *p->models);
    catch_interrupts();
    for (; p->model_count < count; p->model_count++) {
        int status = open_model(paths[p->model_count], &p->models[p->model_count]);
        if (status)
            return status;
        const tenmap_model *model = p->models[p->model_count];
        p->input_tensors += tenmap_count(model);
        if (tenmap_missing_count(model))
            warn("'%s' lacks shards (%zu); their tensors will not be in the output",
                 paths[p->model_count], tenmap_missing_count(model));
    }
    return EXIT_FINE;
}

int plan_open_for_tensors(plan *p, const char *label, const char *path, const char *const *patterns,
                          size_t count) {
    if (!is_address(path))
        return plan_open(p, label, &path, 1);
    *p = (plan){.label = label};
    p->models = need(1, sizeof *p->models);
    catch_interrupts();
    int status = open_for_tensors(path, patterns, count, false, &p->models[0]);
    if (status)
        return status;
    p->model_count = 1;
    p->input_tensors = whole_tensors(p->models[0]);
    if (tenmap_missing_count(p->models[0]))
        warn("'%s' lacks shards (%zu); their tensors will not be in the output", shown_path(path),
             tenmap_missing_count(p->models[0]));
    return EXIT_FINE;
}

void plan_add(plan *p, const tenmap_tensor *tensor) {
    if (p->count == p->room) {
        p->room = p->room ? p->room * 2 : 256;
        p->sources = need_more(p->sources, p->room, sizeof *p->sources);
    }
    p->sources[p->count++] = (tenmap_source){.tensor = tensor};
}

void plan_rename(plan *p, size_t source, char *name, size_t len) {
    if (p->name_count == p->name_room) {
        p->name_room = p->name_room ? p->name_room * 2 : 256;
        p->names = need_more(p->names, p->name_room, sizeof *p->names);
    }
    p->names[p->name_count++] = name;
    p->sources[source].name = name;
    p->sources[source].name_len = len;
}

void plan_free(plan *p) {
    for (size_t i = 0; i < p->model_count; i++)
        tenmap_close(p->models[i]);
    for (size_t i = 0; i < p->name_count; i++)
        free(p->names[i]);
    free(p->models);
    free(p->names);
    free(p->sources);
    free(p->losses);
    free(p->origins);
    *p = (plan){0};
}

const char *plan_name(const plan *p, size_t source, size_t *len) {
    const tenmap_source *s = &p->sources[source];
    *len = s->name ? s->name_len : s->tensor->name_len;
    return s->name ? s->name : s->tensor->name;
}

static tenmap_dtype plan_dtype(const plan *p, size_t source) {
    const tenmap_source *s = &p->sources[source];
    return s->dtype == TENMAP_AS_STORED ? s->tensor->dtype : s->dtype;
}

uint64_t plan_bytes(const plan *p, size_t source) {
    const tenmap_tensor *t = p->sources[source].tensor;
    tenmap_dtype dtype = plan_dtype(p, source);
    uint64_t bits = tenmap_dtype_bits(dtype);
    if (dtype == t->dtype || !bits)
        return t->nbytes;
    return t->nelems / 8 * bits + (t->nelems % 8 * bits + 7) / 8;
}

bool plan_converts(const plan *p, size_t source) {
    return plan_dtype(p, source) != p->sources[source].tensor->dtype;
}

bool plan_is_quantized(const plan *p, size_t source) {
    return p->quantized_model && p->sources[source].tensor->model == p->quantized_model;
}

/* The input tensor that the source came from, for reports; NULL for new scales. */
static const tenmap_tensor *origin_of(const plan *p, size_t source) {
    return plan_is_quantized(p, source) ? p->origins[source] : p->sources[source].tensor;
}

/* Duplicate names. */

static int compare_named(const void *a, const void *b) {
    const named *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);
    if (order || x->len != y->len)
        return order ? order : x->len < y->len ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

void sort_named(named *list, size_t count) {
    qsort(list, count, sizeof *list, compare_named);
}

bool same_named(const named *a, const named *b) {
    return a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

static named *sorted_names(const plan *p) {
    named *list = need(p->count, sizeof *list);
    for (size_t i = 0; i < p->count; i++) {
        list[i].name = plan_name(p, i, &list[i].len);
        list[i].at = i;
    }
    sort_named(list, p->count);
    return list;
}

bool plan_find_duplicate_names(const plan *p, size_t *a, size_t *b) {
    named *list = sorted_names(p);
    bool found = false;
    for (size_t i = 1; i < p->count && !found; i++) {
        found = same_named(&list[i - 1], &list[i]);
        *a = list[i - 1].at;
        *b = list[i].at;
    }
    free(list);
    return found;
}

void plan_drop_duplicate_names(plan *p, bool keep_last) {
    named *list = sorted_names(p);
    size_t kept = 0;
    for (size_t i = 1; i < p->count; i++)
        if (same_named(&list[i - 1], &list[i]))
            p->sources[list[keep_last ? i - 1 : i].at].tensor = NULL;
    for (size_t i = 0; i < p->count; i++)
        if (p->sources[i].tensor)
            p->sources[kept++] = p->sources[i];
    p->count = kept;
    free(list);
}

/* Metadata: the pairs of all inputs, each key once, then those of --meta. */

typedef struct pairs {
    tenmap_edit *items;
    size_t count;
} pairs;

static bool same_value(const tenmap_edit *a, const tenmap_edit *b) {
    return a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0;
}

/* Of equal keys one remains: the one from --meta, else the first or the last. */
static void drop_duplicate_keys(const plan *p, pairs *all, size_t from_inputs) {
    named *keys = need(all->count, sizeof *keys);
    for (size_t i = 0; i < all->count; i++)
        keys[i] = (named){all->items[i].key, all->items[i].key_len, i};
    sort_named(keys, all->count);
    for (size_t i = 1; i < all->count; i++) {
        if (!same_named(&keys[i - 1], &keys[i]))
            continue;
        bool later = keys[i].at >= from_inputs || p->last_wins;
        tenmap_edit *a = &all->items[keys[i - 1].at], *b = &all->items[keys[i].at];
        if (keys[i].at < from_inputs && !same_value(a, b))
            warn("the inputs disagree about the metadata %s; the %s counts",
                 shown_name(a->key, a->key_len), later ? "last" : "first");
        if (!later) { /* keep the first next to the rest of its run */
            named first = keys[i - 1];
            keys[i - 1] = keys[i];
            keys[i] = first;
        }
        all->items[keys[i - 1].at].key = NULL;
    }
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].key)
            all->items[kept++] = all->items[i];
    all->count = kept;
    free(keys);
}

/*
 * Whether this is torchao metadata: how a weight is dequantized, under its name, or the list of
 * such weights.
 */
static bool is_torchao_metadata(const tenmap_model *model, const tenmap_metadata *pair) {
    const tenmap_tensor *t = tenmap_find_n(model, pair->key, pair->key_len);
    if (t)
        return is_dequantized(t);
    return common.dequantize && strcmp(pair->key, "tensor_names") == 0;
}

int parse_meta(const char *given, tenmap_edit *out) {
    const char *equals = strchr(given, '=');
    if (!equals || equals == given)
        return fail(EXIT_USAGE, "--meta takes KEY=VALUE, not '%s'", given);
    *out = (tenmap_edit){given, (size_t)(equals - given), equals + 1, strlen(equals + 1)};
    return EXIT_FINE;
}

static int collect_metadata(const plan *p, const output_settings *out, pairs *all) {
    size_t room = out->meta.count;
    for (size_t m = 0; m < p->model_count; m++)
        room += tenmap_metadata_count(p->models[m]);
    *all = (pairs){need(room, sizeof *all->items), 0};
    for (size_t m = 0; m < p->model_count; m++)
        for (size_t i = 0; i < tenmap_metadata_count(p->models[m]); i++) {
            const tenmap_metadata *pair = tenmap_metadata_at(p->models[m], i);
            if (pair->type == TENMAP_VALUE_ARRAY)
                continue; /* e.g. a vocabulary: SafeTensors metadata cannot hold arrays */
            if (is_torchao_metadata(p->models[m], pair))
                continue;
            all->items[all->count++] =
                (tenmap_edit){pair->key, pair->key_len, pair->value, pair->value_len};
        }
    size_t from_inputs = all->count;
    for (size_t i = 0; i < out->meta.count; i++) {
        int status = parse_meta(out->meta.items[i], &all->items[all->count++]);
        if (status)
            return status;
    }
    drop_duplicate_keys(p, all, from_inputs);
    return EXIT_FINE;
}

/* Checking. */

const char *shown_name(const char *name, size_t len) {
    static text shown[4];
    static unsigned turn;
    text *t = &shown[turn++ % 4];
    text_clear(t);
    text_add(t, "'", 1);
    text_add_safe(t, name, len < 200 ? len : 200);
    text_add(t, len < 200 ? "'" : "...'", len < 200 ? 1 : 4);
    return t->bytes;
}

/* SafeTensors has no block dtypes. */
static bool has_blocks(tenmap_dtype dtype) {
    return dtype != TENMAP_OPAQUE && tenmap_dtype_bits(dtype) == 0;
}

static int check_sources(const plan *p) {
    tenmap_error error;
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        const char *shown = NULL;
        bool known = s->tensor->dtype != TENMAP_OPAQUE;
        if (has_blocks(plan_dtype(p, i)))
            return fail(EXIT_FAILED,
                        "tensor %s is in blocks of %s, which SafeTensors files cannot hold; "
                        "convert, extract and drop write its values with --to bf16",
                        shown_name(s->tensor->name, s->tensor->name_len),
                        tenmap_dtype_name(plan_dtype(p, i)));
        if (known && tenmap_convert(plan_dtype(p, i), NULL, 0, s->tensor->dtype, NULL, 0, s->flags,
                                    &error) == TENMAP_OK)
            continue;
        shown = shown_name(s->tensor->name, s->tensor->name_len);
        if (known)
            return fail(EXIT_FAILED, "tensor %s: %s", shown, error.message);
        const char *dtype = tenmap_dtype_text(s->tensor);
        return fail(EXIT_FAILED, "tensor %s has the dtype %s, which cannot be written; drop it",
                    shown, shown_name(dtype, strlen(dtype)));
    }
    return EXIT_FINE;
}

/* Reporting. */

typedef struct totals {
    uint64_t before, after;
    uint64_t read; /* of the sources: the total for progress */
    size_t converted, dequantized, quantized, renamed, shards;
} totals;

/*
 * Counts shards by the rule of tenmap_save_sharded, which reveals their number only by writing
 * them.
 */
static totals sum_up(const plan *p, const target *to) {
    totals sum = {.shards = 1};
    uint64_t used = 0;
    for (size_t i = 0; i < p->count; i++) {
        uint64_t bytes = plan_bytes(p, i);
        const tenmap_tensor *origin = origin_of(p, i);
        sum.before += origin ? stored_bytes(origin) : 0;
        sum.read += stored_bytes(p->sources[i].tensor);
        sum.after += bytes;
        sum.converted += plan_converts(p, i) && !is_dequantized(p->sources[i].tensor);
        sum.dequantized += is_dequantized(p->sources[i].tensor);
        sum.quantized += plan_is_quantized(p, i) && origin;
        sum.renamed += p->sources[i].name != NULL && !plan_is_quantized(p, i);
        if (to->folder && used > 0 && (bytes > to->max_shard || used > to->max_shard - bytes)) {
            sum.shards++;
            used = 0;
        }
        used += bytes;
    }
    return sum;
}

static void report_json(const plan *p, const output_settings *out, const target *to,
                        const totals *sum, const companion_files *copied) {
    json_open('{', false);
    json_key_text("output", out->path, TENMAP_CSTR);
    json_key_bool("written", !out->dry_run);
    json_key_uint("files", sum->shards);
    json_key_uint("tensors", p->count);
    json_key_uint("converted", sum->converted);
    if (sum->dequantized)
        json_key_uint("dequantized", sum->dequantized);
    if (sum->quantized)
        json_key_uint("quantized_weights", sum->quantized);
    json_key_uint("renamed", sum->renamed);
    json_key_uint("bytes_before", sum->before);
    json_key_uint("bytes_after", sum->after);
    json_key("changes");
    json_open('[', false);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        bool changes = plan_converts(p, i) || is_dequantized(s->tensor);
        if ((!changes && !s->name) || plan_is_quantized(p, i))
            continue;
        json_open('{', true);
        json_key_text("name", s->tensor->name, s->tensor->name_len);
        if (s->name)
            json_key_text("new_name", s->name, s->name_len);
        if (changes) {
            json_key_text("dtype", stored_as(s->tensor), TENMAP_CSTR);
            json_key_text("new_dtype", tenmap_dtype_name(plan_dtype(p, i)), TENMAP_CSTR);
            if (p->losses) {
                json_key_uint("overflowed", p->losses[i].overflowed);
                json_key_uint("flushed", p->losses[i].flushed);
                json_key_uint("nans", p->losses[i].nans);
            }
        }
        json_close();
    }
    json_close();
    if (copied->count) {
        json_key("copied");
        json_open('[', true);
        for (size_t i = 0; i < copied->count; i++)
            json_text(copied->names[i], TENMAP_CSTR);
        json_close();
    }
    if (copied->config.len) {
        json_key("config");
        json_open('{', true);
        json_key_bool("changed", copied->config_changed);
        json_key_text("changes", copied->config.bytes, copied->config.len);
        json_close();
    }
    if (p->losses)
        losses_json(p);
    if (p->report)
        p->report(p, to, true);
    json_close();
}

void plan_print_renames(const plan *p) {
    static const column columns[] = {{"NAME", false, true}, {"NEW NAME", false, false}};
    table *t = table_new(columns, 2);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        if (!s->name)
            continue;
        text_add_safe(table_cell(t), s->tensor->name, s->tensor->name_len);
        table_end_cell(t, STYLE_NONE);
        text_add_safe(table_cell(t), s->name, s->name_len);
        table_end_cell(t, STYLE_YELLOW);
    }
    table_print(t);
    table_free(t);
}

static void print_tensors(const plan *p) {
    static const column columns[] = {{"NAME", false, true},
                                     {"DTYPE", false, false},
                                     {"SHAPE", false, false},
                                     {"SIZE", true, false}};
    table *t = table_new(columns, 4);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        const tenmap_tensor *origin = origin_of(p, i);
        size_t len;
        const char *name = plan_name(p, i, &len);
        text_add_safe(table_cell(t), name, len);
        table_end_cell(t, STYLE_NONE);
        if (plan_is_quantized(p, i) && origin)
            table_put(t, STYLE_YELLOW, "%s → %s", stored_as(origin), p->quantized_scheme);
        else if (plan_converts(p, i) || is_dequantized(s->tensor))
            table_put(t, STYLE_YELLOW, "%s → %s", stored_as(s->tensor),
                      tenmap_dtype_name(plan_dtype(p, i)));
        else
            table_put(t, STYLE_CYAN, "%s", tenmap_dtype_text(s->tensor));
        text_add_shape(table_cell(t), s->tensor);
        table_end_cell(t, STYLE_NONE);
        text_add_bytes(table_cell(t), plan_bytes(p, i));
        table_end_cell(t, STYLE_NONE);
    }
    table_print(t);
    table_free(t);
}

/* Prints how config.json was changed, or must be changed. */
static void print_config(const output_settings *out, const companion_files *copied) {
    text line = {0};
    if (!copied->config.len)
        return;
    if (copied->config_changed)
        text_addf(&line, "%sconfig.json: ", out->dry_run ? "would change " : "");
    else
        text_addf(&line, "%s; the output needs one with ", copied->config_why);
    text_add(&line, copied->config.bytes, copied->config.len);
    print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
    text_free(&line);
}

static void report_text(const plan *p, const output_settings *out, const target *to,
                        const totals *sum, const companion_files *copied) {
    text line = {0};
    if (out->dry_run && sum->renamed)
        plan_print_renames(p);
    else if (out->dry_run && p->count)
        print_tensors(p);
    if (p->report)
        p->report(p, to, false);
    losses_print(p);
    text_addf(&line, "%s ", out->dry_run ? "would write" : "wrote");
    text_add_safe(&line, to->path, strlen(to->path));
    if (sum->shards > 1)
        text_addf(&line, " in %zu shards", sum->shards);
    text_add(&line, ": ", 2);
    text_add_grouped(&line, p->count);
    if (p->count < p->input_tensors) {
        text_add(&line, " of ", 4);
        text_add_grouped(&line, p->input_tensors);
    }
    text_addf(&line, " tensor%s", p->count == 1 && p->input_tensors <= 1 ? "" : "s");
    if (sum->converted)
        text_addf(&line, ", %zu converted", sum->converted);
    if (sum->dequantized)
        text_addf(&line, ", %zu dequantized", sum->dequantized);
    if (sum->quantized)
        text_addf(&line, ", %zu quantized", sum->quantized);
    if (sum->renamed)
        text_addf(&line, ", %zu renamed", sum->renamed);
    text_add(&line, ", ", 2);
    if (sum->after != sum->before) {
        text_add_bytes(&line, sum->before);
        text_add(&line, " → ", 5);
    }
    text_add_bytes(&line, sum->after);
    puts(line.bytes);
    text_clear(&line);
    for (size_t i = 0; i < copied->count; i++) {
        text_addf(&line, i ? ", " : out->dry_run ? "would copy " : "copied ");
        text_add_safe(&line, copied->names[i], strlen(copied->names[i]));
    }
    if (line.len)
        puts(line.bytes);
    print_config(out, copied);
    text_free(&line);
}

/* Writing. */

static int on_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)total;
    progress_set(done);
    return interrupted();
}

static tenmap_status declare_all(const plan *p, const pairs *metadata, tenmap_writer *writer,
                                 tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; status == TENMAP_OK && i < metadata->count; i++) {
        const tenmap_edit *m = &metadata->items[i];
        status = tenmap_writer_metadata(writer, m->key, m->key_len, m->value, m->value_len, error);
    }
    for (size_t i = 0; status == TENMAP_OK && i < p->count; i++) {
        const tenmap_tensor *t = p->sources[i].tensor;
        size_t len;
        const char *name = plan_name(p, i, &len);
        status =
            tenmap_writer_add(writer, name, len, plan_dtype(p, i), t->shape, t->rank, NULL, error);
    }
    return status;
}

static tenmap_status write_file(const plan *p, const target *to, const pairs *metadata,
                                const tenmap_copy_options *copy, tenmap_error *error) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *writer;
    options.data_alignment = p->alignment;
    options.flags = p->keep_order ? TENMAP_WRITER_KEEP_ORDER : 0;
    tenmap_status status = tenmap_writer_create(to->path, &options, &writer, error);
    if (status != TENMAP_OK)
        return status;
    status = declare_all(p, metadata, writer, error);
    if (status == TENMAP_OK)
        status = tenmap_writer_copy_list(writer, p->sources, p->count, copy, error);
    if (status == TENMAP_OK && !interrupted())
        return tenmap_writer_commit(writer, error);
    tenmap_writer_abort(writer);
    if (status == TENMAP_OK)
        *error = (tenmap_error){.status = TENMAP_ERR_CANCELLED};
    return error->status;
}

static tenmap_status write_folder(const plan *p, const target *to, const pairs *metadata,
                                  const tenmap_copy_options *copy, tenmap_error *error) {
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    options.max_shard_bytes = to->max_shard;
    options.data_alignment = p->alignment;
    options.flags = p->keep_order ? TENMAP_SAVE_KEEP_ORDER : 0;
    options.metadata = metadata->items;
    options.metadata_count = metadata->count;
    options.copy = copy;
    return tenmap_save_sharded(to->path, p->sources, p->count, &options, error);
}

static int write_target(const plan *p, const output_settings *out, target *to,
                        const pairs *metadata, uint64_t bytes) {
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tenmap_error error;
    copy.progress = on_progress;
    copy.losses = p->losses;
    copy.threads = (uint32_t)(out->threads < 64 ? out->threads : 64);
    int code = make_target(to);
    if (code)
        return code;
    progress_begin(p->label, bytes);
    tenmap_status status = to->folder ? write_folder(p, to, metadata, &copy, &error)
                                      : write_file(p, to, metadata, &copy, &error);
    progress_end();
    if (status == TENMAP_OK)
        return EXIT_FINE;
    unmake_target(to);
    return fail_error(&error);
}

/* With --strict, counts losses first and refuses to write if values would be lost. */
static int count_strictly(plan *p, const output_settings *out) {
    int status = losses_count(p);
    loss_sum sum = losses_sum(p);
    if (status || !sum.tensors)
        return status;
    if (!out->json)
        losses_print(p);
    return fail(EXIT_DIFFERENT, "%" PRIu64 " elements would be lost, so --strict wrote nothing",
                sum.overflowed + sum.flushed);
}

int plan_write(plan *p, const output_settings *out) {
    target to;
    pairs metadata = {0};
    int status = choose_target(p, out, &to);
    if (!status)
        status = check_sources(p);
    if (!status)
        status = collect_metadata(p, out, &metadata);
    if (!status) {
        totals sum = sum_up(p, &to);
        if (sum.converted + sum.dequantized && (!out->dry_run || p->strict))
            p->losses = need(p->count, sizeof *p->losses);
        if (p->strict && p->losses)
            status = count_strictly(p, out);
        companion_files copied = {0};
        if (!status && !out->dry_run)
            status = write_target(p, out, &to, &metadata, sum.read);
        if (!status)
            status = companion_files_copy(p, out, &to, &copied);
        if (!status && out->json)
            report_json(p, out, &to, &sum, &copied);
        else if (!status)
            report_text(p, out, &to, &sum, &copied);
        companion_files_free(&copied);
    }
    free(metadata.items);
    return status;
}
