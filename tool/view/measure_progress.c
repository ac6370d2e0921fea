/* Measures a selection of tensors with a progress bar. */
#include "view/measure_progress.h"

#include "remote/remote.h"
#include "view/progress.h"

void drop_opaque(selection *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        const tenmap_tensor *t = s->tensors[i];
        if (t->dtype != TENMAP_OPAQUE) {
            s->tensors[kept++] = t;
            continue;
        }
        s->bytes -= t->nbytes;
        s->elements -= t->nelems;
    }
    s->count = kept;
}

/* The bar begins with the first call, which gives the total. */
static int show_progress(void *ctx, uint64_t done, uint64_t total) {
    bool *begun = ctx;
    if (!*begun)
        progress_begin("reading", total);
    *begun = true;
    progress_set(done);
    return interrupted();
}

int measure_selection(const selection *s, const tenmap_stats_options *options,
                      tenmap_stats *stats) {
    tenmap_stats_options with_bar = *options;
    tenmap_error error;
    bool begun = false;
    with_bar.progress = show_progress;
    with_bar.ctx = &begun;
    remote_will_read(s->tensors, s->count);
    tenmap_status status = tenmap_measure(s->tensors, s->count, &with_bar, stats, &error);
    if (begun)
        progress_end();
    return status == TENMAP_OK ? EXIT_FINE : fail_error(&error);
}
