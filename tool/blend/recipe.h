/*
 * What is to be blended, and how: from a recipe (recipe_read.c) or from the command line. Nothing
 * here opens a model.
 */
#ifndef TOOL_BLEND_RECIPE_H
#define TOOL_BLEND_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/*
 * Bounds on what a recipe may list. A sum takes 64 terms (tenmap_derive), and a model may be named
 * by many slices.
 */
enum { MAX_BLENDED = 64, MAX_SLICES = 4096, MAX_CONDITIONS = 1024, MAX_GRADIENT = 4096 };
#define NO_MODEL SIZE_MAX
#define ALL_LAYERS UINT64_MAX

typedef enum blend_method {
    BLEND_LINEAR,
    BLEND_SLERP,
    BLEND_TASK_ARITHMETIC,
    BLEND_TIES,
    BLEND_DARE_LINEAR,
    BLEND_DARE_TIES,
    BLEND_PASSTHROUGH,
    BLEND_METHODS
} blend_method;
#define BLEND_METHOD_WORDS "linear|slerp|task_arithmetic|ties|dare_linear|dare_ties|passthrough"

typedef enum blend_parameter {
    PARAMETER_WEIGHT,
    PARAMETER_DENSITY,
    PARAMETER_T,
    PARAMETER_LAMBDA,
    PARAMETER_NORMALIZE, /* true or false from here on, except scale */
    PARAMETER_RESCALE,
    PARAMETER_INT8_MASK,
    PARAMETER_SCALE,
    PARAMETERS
} blend_parameter;
bool is_switch(blend_parameter p);

/* The values that a parameter has for tensors whose names contain `filter`. */
typedef struct blend_condition {
    char *filter;   /* NULL: all tensors */
    double *values; /* one; or several, from the first layer to the last */
    size_t count;
} blend_condition;

typedef struct blend_setting {
    blend_condition *items; /* the first that matches counts */
    size_t count;           /* 0: not given */
} blend_setting;

typedef struct blend_parameters {
    blend_setting items[PARAMETERS];
} blend_parameters;

/* Layers of a model. */
typedef struct blend_source {
    size_t model;
    uint64_t begin, end; /* 0 and ALL_LAYERS: all */
    blend_parameters parameters;
    size_t line; /* of the recipe; 0: from the command line */
} blend_source;

/* Layers of the output, each blended from one layer of each source. */
typedef struct blend_slice {
    blend_source *sources;
    size_t count;
    size_t base; /* a model; NO_MODEL: that of the recipe */
    blend_parameters parameters;
    size_t line;
} blend_slice;

/* How values that dare leaves are scaled. */
typedef enum blend_rescale {
    RESCALE_AS_METHOD, /* as the parameter rescale says */
    RESCALE_NO,
    RESCALE_NORM,   /* so that the sum of magnitudes stays: what mergekit does */
    RESCALE_DENSITY /* by 1 / density: what the paper does */
} blend_rescale;

typedef struct blend_recipe {
    const char *path; /* of the recipe; NULL: from the command line */
    blend_method method;
    char **models; /* paths, each once; owned */
    size_t model_count;
    size_t base;    /* of `models`; NO_MODEL: none */
    bool by_layers; /* slices with layers; otherwise one slice that is whole models */
    blend_slice *slices;
    size_t slice_count;
    blend_parameters parameters;
    blend_rescale rescale;
    uint64_t seed;
    tenmap_dtype dtype; /* of the output; TENMAP_AS_STORED: not given */
} blend_recipe;

/* recipe.c */
extern const char *const blend_method_names[BLEND_METHODS];
extern const char *const blend_parameter_names[PARAMETERS];
/* What a method needs and takes. */
bool needs_base(blend_method m);
bool takes_parameter(blend_method m, blend_parameter p);
/* Whether it has masks, so that values are computed as F32 by a function. */
bool trims(blend_method m);
bool elects_signs(blend_method m);
/* The number of the model with this path, which is added if it is new. */
size_t recipe_model(blend_recipe *r, const char *path);
blend_slice *recipe_add_slice(blend_recipe *r);
blend_source *slice_add_source(blend_slice *s, size_t model);
/* The model that is the base of a slice; NO_MODEL: none. */
size_t slice_base(const blend_recipe *r, const blend_slice *s);
/* Exchanges a model with the first one, whose metadata and other files the output gets. */
void recipe_put_first(blend_recipe *r, size_t model);
void parameters_set(blend_parameters *p, blend_parameter which, double value);
/* Checks what does not depend on tensors. Returns 0 or an exit code. */
int recipe_check(const blend_recipe *r);
void recipe_free(blend_recipe *r);
/* Prints "RECIPE, line N: ..." after "tenmap blend: ". */
int recipe_fail(const blend_recipe *r, size_t line, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* A tensor and where it lies, for filters and for values that change from layer to layer. */
typedef struct blend_place {
    const char *name;
    size_t name_len;
    double t; /* 0 at the first layer, 1 at the last; 0 for tensors of no layer */
} blend_place;

/*
 * The value of a parameter at a tensor, of the first scope that gives one. Scopes may be NULL.
 * Returns false if none does.
 */
bool parameter_at(const blend_parameters *const *scopes, size_t scopes_count, blend_parameter which,
                  const blend_place *place, double *out);

/* recipe_read.c: reads a recipe of mergekit, as YAML or JSON. Returns 0 or an exit code. */
int recipe_read(const char *path, blend_recipe *out);

#endif
