/* Recipes: what methods need, and the values that parameters have at a tensor. */
#include "blend/recipe.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "remote/remote.h"
#include "view/print.h"

const char *const blend_method_names[BLEND_METHODS] = {
    [BLEND_LINEAR] = "linear",
    [BLEND_SLERP] = "slerp",
    [BLEND_TASK_ARITHMETIC] = "task_arithmetic",
    [BLEND_TIES] = "ties",
    [BLEND_DARE_LINEAR] = "dare_linear",
    [BLEND_DARE_TIES] = "dare_ties",
    [BLEND_PASSTHROUGH] = "passthrough",
};

const char *const blend_parameter_names[PARAMETERS] = {
    [PARAMETER_WEIGHT] = "weight",
    [PARAMETER_DENSITY] = "density",
    [PARAMETER_T] = "t",
    [PARAMETER_LAMBDA] = "lambda",
    [PARAMETER_NORMALIZE] = "normalize",
    [PARAMETER_RESCALE] = "rescale",
    [PARAMETER_INT8_MASK] = "int8_mask",
    [PARAMETER_SCALE] = "scale",
};

#define BIT(p) (1u << (p))

/* Of each method. */
static const struct method_rules {
    bool base, trims, elects;
    unsigned parameters;
} rules[BLEND_METHODS] = {
    [BLEND_LINEAR] = {false, false, false, BIT(PARAMETER_WEIGHT) | BIT(PARAMETER_NORMALIZE)},
    [BLEND_SLERP] = {true, false, false, BIT(PARAMETER_T)},
    [BLEND_PASSTHROUGH] = {false, false, false, BIT(PARAMETER_SCALE)},
#define TASK                                                                                       \
    BIT(PARAMETER_WEIGHT) | BIT(PARAMETER_LAMBDA) | BIT(PARAMETER_NORMALIZE) |                     \
        BIT(PARAMETER_INT8_MASK) | BIT(PARAMETER_RESCALE) | BIT(PARAMETER_DENSITY)
    [BLEND_TASK_ARITHMETIC] = {true, false, false, TASK},
    [BLEND_TIES] = {true, true, true, TASK},
    [BLEND_DARE_LINEAR] = {true, true, false, TASK},
    [BLEND_DARE_TIES] = {true, true, true, TASK},
};

bool is_switch(blend_parameter p) {
    return p == PARAMETER_NORMALIZE || p == PARAMETER_RESCALE || p == PARAMETER_INT8_MASK;
}

bool needs_base(blend_method m) {
    return rules[m].base;
}

bool takes_parameter(blend_method m, blend_parameter p) {
    return rules[m].parameters >> p & 1;
}

bool trims(blend_method m) {
    return rules[m].trims;
}

bool elects_signs(blend_method m) {
    return rules[m].elects;
}

/* Making a recipe. */

size_t recipe_model(blend_recipe *r, const char *path) {
    for (size_t i = 0; i < r->model_count; i++)
        if (strcmp(r->models[i], path) == 0)
            return i;
    r->models = need_next(r->models, r->model_count, sizeof *r->models);
    r->models[r->model_count] = need_copy(path, strlen(path));
    return r->model_count++;
}

blend_slice *recipe_add_slice(blend_recipe *r) {
    r->slices = need_next(r->slices, r->slice_count, sizeof *r->slices);
    r->slices[r->slice_count] = (blend_slice){.base = NO_MODEL};
    return &r->slices[r->slice_count++];
}

blend_source *slice_add_source(blend_slice *s, size_t model) {
    s->sources = need_next(s->sources, s->count, sizeof *s->sources);
    s->sources[s->count] = (blend_source){.model = model, .end = ALL_LAYERS};
    return &s->sources[s->count++];
}

void parameters_set(blend_parameters *p, blend_parameter which, double value) {
    blend_setting *s = &p->items[which];
    s->items = need(1, sizeof *s->items);
    s->items[0].values = need(1, sizeof *s->items[0].values);
    s->items[0].values[0] = value;
    s->items[0].count = s->count = 1;
}

/* Of two that are exchanged, the other one. */
static size_t other_of(const size_t *two, size_t given) {
    return given == two[0] ? two[1] : given == two[1] ? two[0] : given;
}

static void parameters_free(blend_parameters *p) {
    for (size_t i = 0; i < PARAMETERS; i++) {
        blend_setting *s = &p->items[i];
        for (size_t k = 0; k < s->count; k++) {
            free(s->items[k].filter);
            free(s->items[k].values);
        }
        free(s->items);
    }
}

void recipe_free(blend_recipe *r) {
    for (size_t i = 0; i < r->slice_count; i++) {
        for (size_t k = 0; k < r->slices[i].count; k++)
            parameters_free(&r->slices[i].sources[k].parameters);
        parameters_free(&r->slices[i].parameters);
        free(r->slices[i].sources);
    }
    for (size_t i = 0; i < r->model_count; i++)
        free(r->models[i]);
    parameters_free(&r->parameters);
    free(r->slices);
    free(r->models);
    *r = (blend_recipe){0};
}

void recipe_put_first(blend_recipe *r, size_t model) {
    char *path = r->models[0];
    r->models[0] = r->models[model];
    r->models[model] = path;
    size_t swapped[] = {0, model};
    for (size_t i = 0; i < r->slice_count; i++) {
        blend_slice *s = &r->slices[i];
        for (size_t k = 0; k < s->count; k++)
            s->sources[k].model = other_of(swapped, s->sources[k].model);
        s->base = other_of(swapped, s->base);
    }
    r->base = other_of(swapped, r->base);
}

int recipe_fail(const blend_recipe *r, size_t line, const char *format, ...) {
    char message[600];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof message, format, list);
    va_end(list);
    if (r->path && line)
        return fail(EXIT_FAILED, "'%s', line %zu: %s", shown_path(r->path), line, message);
    if (r->path)
        return fail(EXIT_FAILED, "'%s': %s", shown_path(r->path), message);
    return fail(EXIT_USAGE, "%s", message);
}

/* Checking. */

size_t slice_base(const blend_recipe *r, const blend_slice *s) {
    return s->base == NO_MODEL ? r->base : s->base;
}

static bool has_source(const blend_slice *s, size_t model) {
    for (size_t i = 0; i < s->count; i++)
        if (s->sources[i].model == model)
            return true;
    return false;
}

static int check_parameters(const blend_recipe *r, const blend_parameters *p, size_t line) {
    for (size_t i = 0; i < PARAMETERS; i++)
        if (p->items[i].count && !takes_parameter(r->method, (blend_parameter)i))
            return recipe_fail(r, line, "the method %s has no parameter %s",
                               blend_method_names[r->method], blend_parameter_names[i]);
    return EXIT_FINE;
}

static int check_layers(const blend_recipe *r, const blend_slice *s) {
    for (size_t i = 0; i < s->count; i++) {
        const blend_source *a = &s->sources[0], *b = &s->sources[i];
        if (a->end - a->begin != b->end - b->begin)
            return recipe_fail(r, b->line,
                               "the sources of a slice need as many layers each: %" PRIu64
                               " and %" PRIu64,
                               a->end - a->begin, b->end - b->begin);
        for (size_t k = 0; k < i; k++)
            if (s->sources[k].model == b->model)
                return recipe_fail(r, b->line, "'%s' is given twice",
                                   shown_path(r->models[b->model]));
    }
    return EXIT_FINE;
}

static int check_slice(const blend_recipe *r, const blend_slice *s) {
    const char *method = blend_method_names[r->method];
    size_t base = slice_base(r, s);
    int status = check_parameters(r, &s->parameters, s->line);
    for (size_t i = 0; !status && i < s->count; i++)
        status = check_parameters(r, &s->sources[i].parameters, s->sources[i].line);
    if (status)
        return status;
    if (needs_base(r->method) && base == NO_MODEL)
        return recipe_fail(r, s->line, "%s needs a base: %s", method,
                           r->path ? "base_model" : "--base MODEL");
    if (needs_base(r->method) && !has_source(s, base))
        return recipe_fail(r, s->line, "the base is not among the sources of this slice");
    if (r->method == BLEND_SLERP && s->count != 2)
        return recipe_fail(r, s->line, "slerp takes two models, not %zu", s->count);
    if (r->method == BLEND_PASSTHROUGH && s->count != 1)
        return recipe_fail(r, s->line, "passthrough takes one source for each slice, not %zu",
                           s->count);
    if (s->count > MAX_BLENDED)
        return recipe_fail(r, s->line, "more than %d models", MAX_BLENDED);
    return check_layers(r, s);
}

int recipe_check(const blend_recipe *r) {
    int status = check_parameters(r, &r->parameters, 0);
    for (size_t i = 0; !status && i < r->slice_count; i++)
        status = check_slice(r, &r->slices[i]);
    return status;
}

/* Values. */

static bool contains(const blend_place *place, const char *part) {
    size_t len = strlen(part);
    for (size_t i = 0; len <= place->name_len && i <= place->name_len - len; i++)
        if (memcmp(place->name + i, part, len) == 0)
            return true;
    return false;
}

/* Between the values whose places in the list are nearest to t; a switch is never between. */
static double value_at(const blend_condition *c, double t, bool whole) {
    double scaled = t * (double)(c->count - 1);
    size_t low = (size_t)scaled, high = low + 1 < c->count ? low + 1 : low;
    double part = scaled - (double)low;
    if (whole || low == high || part == 0)
        return c->values[low];
    return (1 - part) * c->values[low] + part * c->values[high];
}

bool parameter_at(const blend_parameters *const *scopes, size_t scopes_count, blend_parameter which,
                  const blend_place *place, double *out) {
    for (size_t s = 0; s < scopes_count; s++) {
        const blend_setting *setting = scopes[s] ? &scopes[s]->items[which] : NULL;
        for (size_t i = 0; setting && i < setting->count; i++) {
            const blend_condition *c = &setting->items[i];
            if (c->filter && strcmp(c->filter, "*") != 0 && !contains(place, c->filter))
                continue;
            *out = value_at(c, place->t, is_switch(which));
            return true;
        }
    }
    return false;
}
