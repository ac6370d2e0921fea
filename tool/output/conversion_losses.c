/* Counts what the conversions of a plan lose beyond rounding, and reports it as text or JSON. */
#include "output/conversion_losses.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "model/dequantized_weights.h"
#include "view/json_out.h"
#include "view/print.h"
#include "view/progress.h"
#include "parallel_for.h"
#include "remote/remote.h"

static bool loses(const tenmap_losses *l) {
    return l->overflowed || l->flushed;
}

loss_sum losses_sum(const plan *p) {
    loss_sum sum = {0};
    for (size_t i = 0; p->losses && i < p->count; i++) {
        const tenmap_losses *l = &p->losses[i];
        sum.overflowed += l->overflowed;
        sum.flushed += l->flushed;
        sum.nans += l->nans;
        sum.tensors += loses(l);
        sum.elements += loses(l) ? p->sources[i].tensor->nelems : 0;
    }
    return sum;
}

/* Counting before writing. */

enum { COUNTED_AT_ONCE = 1 << 16 };

/* Counts one source a piece at a time: reads elements as stored, then converts them. */
static int count_source(void *ctx, size_t i) {
    plan *p = ctx;
    const tenmap_source *s = &p->sources[i];
    tenmap_losses *sum = &p->losses[i], lost;
    tenmap_error error;
    if (!plan_rounds(p, i))
        return EXIT_FINE;
    /*
     * Values of a quantized weight are F32 before they are rounded, those that are computed from
     * other tensors F64; neither has values of its nominal dtype.
     */
    tenmap_dtype from = is_dequantized(s->tensor) ? TENMAP_F32
                        : is_derived(s->tensor)   ? TENMAP_F64
                                                  : s->tensor->dtype;
    tenmap_dtype to = plan_dtype(p, i);
    const size_t room = COUNTED_AT_ONCE * sizeof(uint64_t); /* no element is wider */
    char *stored = need(2, room), *result = stored + room;
    uint32_t flags = s->flags;
    /* Saturate, to count losses where writing would stop with an error. */
    if (tenmap_dtype_kind(to) != TENMAP_KIND_FLOAT)
        flags |= TENMAP_CONVERT_SATURATE;
    tenmap_status status = TENMAP_OK;
    for (uint64_t n, at = 0; status == TENMAP_OK && !interrupted() && at < s->tensor->nelems;
         at += n) {
        uint64_t left = s->tensor->nelems - at;
        n = left < COUNTED_AT_ONCE ? left : COUNTED_AT_ONCE;
        status = tenmap_read(s->tensor, at, n, from, stored, room, 0, &error);
        if (status == TENMAP_OK)
            status =
                tenmap_convert_counted(to, result, room, from, stored, n, flags, &lost, &error);
        if (status != TENMAP_OK)
            break;
        sum->overflowed += lost.overflowed;
        sum->flushed += lost.flushed;
        sum->nans += lost.nans;
        progress_add(
            (uint64_t)((double)s->tensor->nbytes * ((double)n / (double)s->tensor->nelems)));
    }
    free(stored);
    if (status != TENMAP_OK)
        return fail_error(&error);
    return interrupted() ? EXIT_INTERRUPTED : EXIT_FINE;
}

int losses_count(plan *p) {
    const tenmap_tensor **counted = need(p->count, sizeof *counted);
    size_t count = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_tensor *t = p->sources[i].tensor;
        if (!plan_rounds(p, i))
            continue;
        bytes += is_dequantized(t) ? t->nelems * sizeof(float) : t->nbytes;
        counted[count++] = t;
    }
    remote_will_read(counted, count);
    free(counted);
    progress_begin("counting losses", bytes);
    int status = parallel_for(0, p->count, count_source, p);
    progress_end();
    return status;
}

/* Reporting. */

/* "overflowed to infinity" and the like, depending on the dtypes that lose values. */
static const char *overflow_words(const plan *p) {
    bool infinite = false, nan = false, largest = false;
    for (size_t i = 0; i < p->count; i++) {
        tenmap_dtype to = plan_dtype(p, i);
        if (!p->losses[i].overflowed)
            continue;
        if ((p->sources[i].flags & TENMAP_CONVERT_SATURATE) || tenmap_dtype_bits(to) < 8 ||
            tenmap_dtype_kind(to) != TENMAP_KIND_FLOAT)
            largest = true;
        else if (tenmap_dtype_bits(to) > 8 || to == TENMAP_F8_E5M2)
            infinite = true;
        else
            nan = true;
    }
    if (infinite + nan + largest > 1)
        return "infinity, NaN or the largest value";
    return infinite ? "infinity" : nan ? "NaN" : "the largest value";
}

/* Largest share of lost elements first; overflow before flushing to zero. */
typedef struct loser {
    size_t source;
    double overflowed, flushed;
} loser;

static int by_share(const void *a, const void *b) {
    const loser *x = a, *y = b;
    if (x->overflowed != y->overflowed)
        return x->overflowed > y->overflowed ? -1 : 1;
    if (x->flushed != y->flushed)
        return x->flushed > y->flushed ? -1 : 1;
    return (x->source > y->source) - (x->source < y->source);
}

static void print_worst(const plan *p, size_t count) {
    enum { MOST_SHOWN = 5 };
    static const column columns[] = {{"NAME", false, true},
                                     {"DTYPE", false, false},
                                     {"ELEMENTS", true, false},
                                     {"OVERFLOWED", true, false},
                                     {"TO ZERO", true, false}};
    loser *list = need(count, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++)
        if (loses(&p->losses[i])) {
            double all = (double)p->sources[i].tensor->nelems;
            list[n++] = (loser){i, (double)p->losses[i].overflowed / all,
                                (double)p->losses[i].flushed / all};
        }
    qsort(list, n, sizeof *list, by_share);
    table *t = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < n && i < MOST_SHOWN; i++) {
        const tenmap_source *s = &p->sources[list[i].source];
        const tenmap_losses *l = &p->losses[list[i].source];
        tenmap_dtype to = plan_dtype(p, list[i].source);
        text_add_safe(table_cell(t), s->tensor->name, s->tensor->name_len);
        table_end_cell(t, STYLE_NONE);
        table_put(t, STYLE_YELLOW, "%s → %s", stored_as(s->tensor), tenmap_dtype_name(to));
        text_add_grouped(table_cell(t), s->tensor->nelems);
        table_end_cell(t, STYLE_NONE);
        text_add_grouped(table_cell(t), l->overflowed);
        table_end_cell(t, l->overflowed ? STYLE_RED : STYLE_DIM);
        text_add_grouped(table_cell(t), l->flushed);
        table_end_cell(t, l->flushed ? STYLE_YELLOW : STYLE_DIM);
    }
    table_print(t);
    table_free(t);
    if (n > MOST_SHOWN)
        printf("and %zu more tensors\n", n - MOST_SHOWN);
    free(list);
}

void losses_print(const plan *p) {
    loss_sum sum = losses_sum(p);
    text line = {0};
    if (!sum.tensors)
        return;
    text_addf(&line, "values are lost in %zu tensor%s: ", sum.tensors, sum.tensors == 1 ? "" : "s");
    text_add_grouped(&line, sum.overflowed + sum.flushed);
    text_addf(&line, " of ");
    text_add_grouped(&line, sum.elements);
    text_addf(&line, " elements (");
    text_add_percent(&line, sum.overflowed + sum.flushed, sum.elements);
    text_add(&line, ")", 1);
    if (sum.overflowed) {
        text_addf(&line, "; ");
        text_add_grouped(&line, sum.overflowed);
        text_addf(&line, " overflowed to %s", overflow_words(p));
    }
    if (sum.flushed) {
        text_addf(&line, "; ");
        text_add_grouped(&line, sum.flushed);
        text_addf(&line, " became zero");
    }
    fputs(paint(STYLE_YELLOW), stdout);
    print_wrapped(line.bytes, 0, print_width() ? print_width() : 100);
    fputs(paint_end(), stdout);
    print_worst(p, sum.tensors);
    text_free(&line);
}

void losses_json(const plan *p) {
    loss_sum sum = losses_sum(p);
    json_key("losses");
    json_open('{', true);
    json_key_uint("tensors", sum.tensors);
    json_key_uint("overflowed", sum.overflowed);
    json_key_uint("flushed", sum.flushed);
    json_key_uint("nans", sum.nans);
    json_close();
}
