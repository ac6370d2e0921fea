/* Fingerprints of tensors and models, with a progress bar. */
#include "compare/digest.h"

#include <stdlib.h>

#include "command.h"
#include "remote/remote.h"
#include "view/progress.h"

/* The bar begins with the first call, which gives the total. */
static int show_fingerprint_progress(void *ctx, uint64_t done, uint64_t total) {
    bool *begun = ctx;
    if (!*begun)
        progress_begin("fingerprints", total);
    *begun = true;
    progress_set(done);
    return interrupted();
}

int fingerprint_tensors(const tenmap_tensor *const *tensors, size_t count, unsigned threads,
                        fingerprint *out) {
    tenmap_fingerprint_options options = TENMAP_FINGERPRINT_OPTIONS_INIT;
    tenmap_error error;
    bool begun = false;
    options.threads = threads;
    options.progress = show_fingerprint_progress;
    options.ctx = &begun;
    remote_will_read(tensors, count);
    tenmap_status status =
        tenmap_fingerprint_tensors(tensors, count, &options, count ? out->bytes : NULL, &error);
    if (begun)
        progress_end();
    return status == TENMAP_OK ? EXIT_FINE : fail_error(&error);
}

int fingerprint_model(const tenmap_model *model, unsigned threads, fingerprint *tensors,
                      fingerprint *out) {
    size_t count = tenmap_count(model);
    const tenmap_tensor **list = need(count, sizeof *list);
    tenmap_error error;
    for (size_t i = 0; i < count; i++)
        list[i] = tenmap_at(model, i);
    int status = fingerprint_tensors(list, count, threads, tensors);
    free(list);
    if (!status && tenmap_fingerprint_combine(model, count ? tensors->bytes : NULL, out->bytes,
                                              &error) != TENMAP_OK)
        status = fail_error(&error);
    return status;
}
