/* Checks the shapes of factors, magnitudes and differences against the weights of the base. */
#include "lora/lora_shapes.h"

#include <inttypes.h>

#include "command.h"
#include "output/output_plan.h"
#include "view/print.h"

/* A tensor's dimension; 1 beyond its rank. */
static uint64_t dim(const tenmap_tensor *t, uint32_t axis) {
    return axis < t->rank ? t->shape[axis] : 1;
}

/* Whether the axes from `from` on are equal, or 1 where one tensor lacks them. */
static bool same_from(const tenmap_tensor *a, const tenmap_tensor *b, uint32_t from) {
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t i = from; i < rank; i++)
        if (dim(a, i) != dim(b, i))
            return false;
    return true;
}

static bool fits(const lora_fit *f, bool transposed) {
    const tenmap_tensor *w = f->weight;
    if (transposed)
        return w->rank == 2 && f->down->rank == 2 && f->up->rank == 2 &&
               f->down->shape[1] == w->shape[0] && f->up->shape[0] == w->shape[1];
    if (f->up->shape[0] != w->shape[0])
        return false;
    for (uint32_t i = 2; i < f->up->rank; i++)
        if (f->up->shape[i] != 1)
            return false;
    return same_from(f->down, w, 1);
}

static int fail_shapes(const lora_fit *f, const char *what) {
    text t = {0};
    text_addf(&t, "%s ", shown_name(f->down->name, f->down->name_len));
    text_add_shape(&t, f->down);
    text_addf(&t, " and %s ", shown_name(f->up->name, f->up->name_len));
    text_add_shape(&t, f->up);
    text_addf(&t, " %s %s ", what, shown_name(f->weight->name, f->weight->name_len));
    text_add_shape(&t, f->weight);
    int status = fail(EXIT_FAILED,
                      "the shapes do not match: %s; the adapter is for another model, or its "
                      "tensors were changed",
                      t.bytes);
    text_free(&t);
    return status;
}

static int check_rank(const lora_fit *f) {
    if (f->weight->rank < 2 || f->down->rank < 2 || f->up->rank < 2)
        return fail_shapes(f, "need at least two dimensions each, as does");
    if (f->down->shape[0] == 0)
        return fail(EXIT_FAILED, "%s has the rank 0, so there is nothing to apply",
                    shown_name(f->down->name, f->down->name_len));
    if (f->up->shape[1] != f->down->shape[0])
        return fail_shapes(f, "have different ranks; they are for");
    return EXIT_FINE;
}

static int check_magnitude(const lora_fit *f) {
    const tenmap_tensor *m = f->magnitude;
    uint64_t outputs = f->transposed ? f->weight->shape[1] : f->weight->shape[0];
    bool outer = false;
    if (!m)
        return EXIT_FINE;
    /* One axis has all numbers. LyCORIS may have one for each input instead, as [1, inputs]. */
    for (uint32_t i = 0; i < m->rank; i++)
        outer = outer || m->shape[i] == outputs;
    bool inputs = m->rank == 2 && m->shape[0] == 1 && outputs != 1;
    if (m->nelems == outputs && outer && !inputs)
        return EXIT_FINE;
    text t = {0};
    text_add_shape(&t, m);
    int status = fail(EXIT_FAILED,
                      "the magnitudes %s have the shape %s instead of one number for each of the "
                      "%" PRIu64 " outputs of %s%s",
                      shown_name(m->name, m->name_len), t.bytes, outputs,
                      shown_name(f->weight->name, f->weight->name_len),
                      inputs ? "; magnitudes of inputs are not supported" : "");
    text_free(&t);
    return status;
}

int lora_fit_factors(lora_fit *f, lora_orientation *seen) {
    int status = check_rank(f);
    if (status)
        return status;
    bool plain = !f->embedding && fits(f, false);
    bool transposed = (f->embedding || f->known) && fits(f, true);
    if (!plain && !transposed)
        return fail_shapes(f, f->weight->rank > 2 ? "do not make up the convolution"
                                                  : "do not make up");
    f->transposed = plain && transposed ? f->fan_in_fan_out : transposed;
    if (plain && transposed)
        seen->square = f->weight;
    else if (!f->embedding && f->weight->rank == 2 && f->transposed != f->fan_in_fan_out)
        seen->contradicts = f->weight;
    return check_magnitude(f);
}

int lora_check_orientation(const lora_orientation *seen) {
    if (!seen->square || !seen->contradicts)
        return EXIT_FINE;
    return fail(EXIT_FAILED,
                "the shape of %s contradicts fan_in_fan_out in adapter_config.json, and that of "
                "%s fits both ways, so this tool cannot know how its factors lie",
                shown_name(seen->contradicts->name, seen->contradicts->name_len),
                shown_name(seen->square->name, seen->square->name_len));
}

int lora_same_shape(const tenmap_tensor *weight, const tenmap_tensor *term) {
    if (weight->rank == term->rank && same_from(weight, term, 0))
        return EXIT_FINE;
    text t = {0};
    text_addf(&t, "%s ", shown_name(term->name, term->name_len));
    text_add_shape(&t, term);
    text_addf(&t, " of the adapter and %s ", shown_name(weight->name, weight->name_len));
    text_add_shape(&t, weight);
    int status = fail(EXIT_FAILED, "the shapes do not match: %s of the base", t.bytes);
    text_free(&t);
    return status;
}
