/* Writes what a plan says: one file or a folder of shards, complete or not at all. */
#include "output/output_write.h"

#include <inttypes.h>
#include <stdlib.h>

#include "output/conversion_losses.h"
#include "output/output_target.h"
#include "remote/remote.h"
#include "view/progress.h"

static int on_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)total;
    progress_set(done);
    return interrupted();
}

static tenmap_status declare_all(const plan *p, const output_metadata *metadata,
                                 tenmap_writer *writer, tenmap_error *error) {
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

static tenmap_status write_file(const plan *p, const target *to, const output_metadata *metadata,
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

static tenmap_status write_folder(const plan *p, const target *to, const output_metadata *metadata,
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

/* Announces what the copies read: sources, and the weights that are quantized. */
static void announce_sources(const plan *p) {
    const tenmap_tensor **tensors = need(p->count, sizeof *tensors);
    size_t count = 0;
    for (size_t i = 0; i < p->count; i++)
        if (plan_origin(p, i))
            tensors[count++] = plan_origin(p, i);
    remote_will_read(tensors, count);
    free(tensors);
}

static int write_target(const plan *p, const output_settings *out, target *to,
                        const output_metadata *metadata, uint64_t bytes) {
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tenmap_error error;
    copy.progress = on_progress;
    copy.losses = p->losses;
    copy.threads = (uint32_t)(out->threads < 64 ? out->threads : 64);
    int code = make_target(to);
    if (code)
        return code;
    announce_sources(p);
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
    output_metadata metadata = {0};
    const config_change *given = p->config;
    config_change change = given ? *given : (config_change){0};
    /* Of a derived model, the command knows which dtype there was before. */
    if (!change.dequantized && !change.quantization && !(p->derived && change.dtype))
        change.dtype = plan_main_dtype(p);
    int status = choose_target(p, out, &to);
    if (given || change.dtype)
        p->config = &change;
    if (!status)
        status = plan_check(p);
    if (!status)
        status = plan_collect_metadata(p, out, &metadata);
    if (!status) {
        output_totals sum = plan_totals(p, &to);
        if (sum.rounded && (!out->dry_run || p->strict))
            p->losses = need(p->count, sizeof *p->losses);
        if (p->strict && p->losses)
            status = count_strictly(p, out);
        companion_files copied = {0};
        if (!status && !out->dry_run)
            status = write_target(p, out, &to, &metadata, sum.read);
        if (!status)
            status = companion_files_copy(p, out, &to, &copied);
        if (!status && out->json)
            plan_report_json(p, out, &to, &sum, &copied);
        else if (!status)
            plan_report_text(p, out, &to, &sum, &copied);
        companion_files_free(&copied);
    }
    p->config = given;
    free(metadata.items);
    return status;
}
