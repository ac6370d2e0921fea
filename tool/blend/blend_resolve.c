/* Evaluates the parameters of a recipe for each tensor. */
#include <math.h>
#include <stdlib.h>

#include "blend/blend.h"
#include "remote/remote.h"

typedef struct resolver {
    const blend_recipe *recipe;
    blend_tensor *tensor;
} resolver;

static blend_place place_in_output(const blend_tensor *b) {
    return (blend_place){b->name, b->name_len, b->t};
}

/* A parameter of all sources: from the slice or from the recipe. */
static bool shared_value(const resolver *r, blend_parameter which, double *out) {
    const blend_parameters *scopes[] = {&r->tensor->slice->parameters, &r->recipe->parameters};
    blend_place place = place_in_output(r->tensor);
    return parameter_at(scopes, 2, which, &place, out);
}

static double shared_or(const resolver *r, blend_parameter which, double otherwise) {
    double value;
    return shared_value(r, which, &value) ? value : otherwise;
}

/* A parameter of one source: its own, else that of the slice or of the recipe. */
static bool source_value(const resolver *r, size_t i, blend_parameter which, double *out) {
    const blend_source *s = &r->tensor->slice->sources[i];
    const tenmap_tensor *t = r->tensor->terms[i];
    const blend_parameters *scopes[] = {&s->parameters, &r->tensor->slice->parameters,
                                        &r->recipe->parameters};
    blend_place place = {t->name, t->name_len, r->tensor->t};
    return parameter_at(scopes, 3, which, &place, out);
}

static int fail_missing(const resolver *r, size_t i, const char *what) {
    const blend_tensor *b = r->tensor;
    return recipe_fail(r->recipe, b->slice->sources[i].line,
                       "the recipe gives no %s for %s of '%s'", what,
                       shown_name(b->terms[i]->name, b->terms[i]->name_len),
                       shown_path(r->recipe->models[b->slice->sources[i].model]));
}

/* Weights of all sources, except the base's where that has none. */
static int resolve_weights(resolver *r, bool base_too) {
    blend_tensor *b = r->tensor;
    for (size_t i = 0; i < b->slice->count; i++) {
        if (i == b->base && !base_too)
            continue;
        if (!source_value(r, i, PARAMETER_WEIGHT, &b->weights[i]))
            return fail_missing(r, i, "weight");
    }
    return EXIT_FINE;
}

/* How values that dare leaves are scaled, and whether ties scales at all. */
static bool rescales(const resolver *r) {
    bool dare = r->recipe->method != BLEND_TIES;
    if (r->recipe->rescale != RESCALE_AS_METHOD)
        return r->recipe->rescale != RESCALE_NO;
    return shared_or(r, PARAMETER_RESCALE, dare) != 0;
}

static void set_trim(const resolver *r, size_t i, size_t number, delta_trim *trim) {
    const blend_tensor *b = r->tensor;
    double density = 1;
    bool random = r->recipe->method != BLEND_TIES;
    (void)source_value(r, i, PARAMETER_DENSITY, &density);
    trim->weight = (float)b->weights[i];
    trim->scale = 1;
    trim->kind = density >= 1 ? TRIM_NONE : random ? TRIM_RANDOM : TRIM_MAGNITUDE;
    if (density <= 0)
        trim->kind = TRIM_ALL;
    trim->rescale = rescales(r) && density > 0 && density < 1;
    if (trim->rescale && r->recipe->rescale == RESCALE_DENSITY)
        trim->scale = (float)(1 / density);
    trim->key = random_key(r->recipe->seed, b->name, b->name_len, number);
    trim->below = (uint64_t)ceil(density * 0x1p53);
    trim->kept = 0;
    if (trim->kind == TRIM_MAGNITUDE) {
        trim->kept = (uint64_t)(density * (double)b->terms[i]->nelems);
        trim->kept = trim->kept ? trim->kept : 1;
    }
    if (!b->terms[i]->nelems)
        trim->kind = TRIM_NONE;
}

/* The tensor as matrices of its last two axes, as the function of a derived tensor sees it. */
static void set_matrix(const tenmap_tensor *t, delta_rule *rule) {
    rule->columns = t->rank ? t->shape[t->rank - 1] : 1;
    rule->rows = t->rank > 1 ? t->shape[t->rank - 2] : 1;
}

static void make_rule(const resolver *r) {
    blend_tensor *b = r->tensor;
    size_t count = b->slice->count, number = 0;
    delta_rule *rule = need(1, sizeof *rule + count * sizeof rule->trims[0]);
    set_matrix(b->terms[0], rule);
    rule->elect = elects_signs(r->recipe->method);
    rule->normalize = b->normalize;
    rule->lambda = (float)b->share;
    for (size_t i = 0; i < count; i++)
        if (i != b->base) {
            set_trim(r, i, number, &rule->trims[number]);
            number++;
        }
    rule->count = number;
    b->rule = rule;
}

static int resolve_task(resolver *r) {
    blend_tensor *b = r->tensor;
    int status = resolve_weights(r, false);
    if (status)
        return status;
    b->share = shared_or(r, PARAMETER_LAMBDA, 1);
    b->normalize = shared_or(r, PARAMETER_NORMALIZE, r->recipe->method == BLEND_TIES) != 0;
    if (trims(r->recipe->method))
        make_rule(r);
    return EXIT_FINE;
}

static int resolve_slerp(resolver *r) {
    if (!shared_value(r, PARAMETER_T, &r->tensor->share))
        return fail_missing(r, 0, "t");
    return EXIT_FINE;
}

static int resolve_one(resolver *r) {
    blend_tensor *b = r->tensor;
    double scale;
    if (r->recipe->method == BLEND_PASSTHROUGH) {
        bool scaled = source_value(r, 0, PARAMETER_SCALE, &scale);
        if (scaled && b->moved)
            return recipe_fail(r->recipe, b->slice->line, "%s is %s, which scale cannot scale",
                               shown_name(b->name, b->name_len),
                               tenmap_dtype_name(b->terms[0]->dtype));
        b->moved = !scaled;
        b->share = scaled ? scale : 1;
        return EXIT_FINE;
    }
    if (b->moved)
        return EXIT_FINE;
    b->weights = need(b->slice->count, sizeof *b->weights);
    if (r->recipe->method == BLEND_SLERP)
        return resolve_slerp(r);
    if (needs_base(r->recipe->method))
        return resolve_task(r);
    b->normalize = shared_or(r, PARAMETER_NORMALIZE, true) != 0;
    return resolve_weights(r, true);
}

int blend_resolve(blend_job *job) {
    int status = EXIT_FINE;
    for (size_t i = 0; !status && i < job->count; i++) {
        resolver r = {.recipe = job->recipe, .tensor = &job->tensors[i]};
        status = resolve_one(&r);
        job->moved += job->tensors[i].moved;
    }
    return status;
}
