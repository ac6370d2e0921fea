/* Measures the norms that DoRA needs, and computes the scales of outputs from them. */
#include "lora/lora_dora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "parallel_for.h"
#include "remote/remote.h"
#include "view/progress.h"

/* Elements at a time. Every read computes with all of A again, so it takes several rows. */
enum { ROWS_AT_ONCE = 32, LEAST_AT_ONCE = 1 << 16, MOST_AT_ONCE = 1 << 20 };

static void add_squares(const lora_dora *d, uint64_t at, const double *values, size_t count,
                        double *sums) {
    uint64_t row = at / d->columns, at_column = at % d->columns;
    for (size_t i = 0; i < count; i++) {
        sums[d->by_column ? at_column : row] += values[i] * values[i];
        if (++at_column == d->columns) {
            at_column = 0;
            row++;
        }
    }
}

static int sum_squares(const lora_dora *d, double *sums) {
    uint64_t most =
        d->columns > MOST_AT_ONCE / ROWS_AT_ONCE ? MOST_AT_ONCE : d->columns * ROWS_AT_ONCE;
    most = most < LEAST_AT_ONCE ? LEAST_AT_ONCE : most;
    double *values = need((size_t)most, sizeof *values);
    tenmap_status status = TENMAP_OK;
    tenmap_error error;
    for (uint64_t n, at = 0; status == TENMAP_OK && !interrupted() && at < d->weight->nelems;
         at += n) {
        n = d->weight->nelems - at < most ? d->weight->nelems - at : most;
        status = tenmap_read(d->weight, at, n, TENMAP_F64, values, (size_t)n * sizeof *values, 0,
                             &error);
        if (status == TENMAP_OK)
            add_squares(d, at, values, (size_t)n, sums);
        progress_add(n * (d->weight->nbytes / (d->weight->nelems ? d->weight->nelems : 1)));
    }
    free(values);
    if (interrupted())
        return EXIT_INTERRUPTED;
    return status == TENMAP_OK ? EXIT_FINE : fail_error(&error);
}

static int measure_one(void *ctx, size_t i) {
    lora_dora *d = ((lora_dora *const *)ctx)[i];
    size_t outputs = (size_t)d->outputs;
    double *scales = need(2 * outputs, sizeof *scales), *magnitudes = scales + outputs;
    tenmap_error error;
    int status = sum_squares(d, scales);
    if (!status && tenmap_read(d->magnitude, 0, outputs, TENMAP_F64, magnitudes,
                               outputs * sizeof *magnitudes, 0, &error) != TENMAP_OK)
        status = fail_error(&error);
    for (size_t k = 0; !status && k < outputs; k++)
        scales[k] = scales[k] > 0 ? magnitudes[k] / sqrt(scales[k]) : 0;
    if (d->exact) {
        d->full = need(outputs, sizeof *d->full);
        memcpy(d->full, scales, outputs * sizeof *d->full);
    } else {
        d->single = need(outputs, sizeof *d->single);
        for (size_t k = 0; k < outputs; k++)
            d->single[k] = (float)scales[k];
    }
    free(scales);
    return status;
}

int lora_measure_norms(lora_dora *const *doras, size_t count) {
    const tenmap_tensor **weights = need(count, sizeof *weights);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        weights[i] = doras[i]->weight;
        bytes += doras[i]->weight->nbytes;
    }
    remote_will_read(weights, count);
    free(weights);
    progress_begin("measuring norms", bytes);
    int status = parallel_for((unsigned)common.threads, count, measure_one, (void *)(size_t)doras);
    progress_end();
    return status == EXIT_INTERRUPTED ? fail(status, "interrupted") : status;
}

void lora_dora_free(lora_dora *d) {
    if (d) {
        free(d->single);
        free(d->full);
    }
    free(d);
}
