/*
 * Blends models by a recipe: finds the tensors that belong together (blend_tensors.c), measures
 * what methods need to know about whole tensors (blend_measure.c), and describes the results to
 * tenmap_derive (blend_methods.c). docs/blend.md has the formulas.
 */
#ifndef TOOL_BLEND_H
#define TOOL_BLEND_H

#include "blend/recipe.h"
#include "output/output_plan.h"

/* Which of the differences between a model and the base are left, and what they are scaled by. */
typedef enum trim_kind {
    TRIM_NONE, /* all are left */
    TRIM_ALL,  /* none is */
    TRIM_MAGNITUDE,
    TRIM_RANDOM
} trim_kind;

typedef struct delta_trim {
    trim_kind kind;
    /* MAGNITUDE: the bits of the least magnitude that is left, and the last element that has it. */
    uint32_t least;
    uint64_t last;
    uint64_t kept; /* how many elements are left */
    /* RANDOM */
    uint64_t key;
    uint64_t below; /* an element is left if its 53-bit number is below */
    bool rescale;   /* by the scale, which is 1 until the magnitudes were measured */
    float scale;
    float weight;
} delta_trim;

/* The context of the function that computes ties and dare. */
typedef struct delta_rule {
    uint64_t rows, columns; /* of a matrix of the tensor */
    size_t count;           /* models beside the base, whose terms come after its */
    bool elect, normalize;
    float lambda;
    delta_trim trims[];
} delta_rule;

typedef struct blend_tensor {
    char *name; /* in the output; owned */
    size_t name_len;
    const blend_slice *slice;
    double t;                    /* see blend_place */
    const tenmap_tensor **terms; /* one for each source of the slice; owned */
    size_t base;                 /* of `terms`; NO_MODEL: none */
    bool moved;                  /* not computed: integers, which are equal in all models */
    double *weights;             /* of terms; NULL: moved */
    double share;                /* slerp's t; lambda; passthrough's scale */
    bool normalize;
    double norms[2], dot; /* of slerp's two terms */
    delta_rule *rule;     /* of ties and dare */
} blend_tensor;

typedef struct blend_job {
    const blend_recipe *recipe;
    plan *p; /* its models are those of the recipe */
    blend_tensor *tensors;
    size_t count;
    uint64_t layers_before, layers_after; /* by layers: of the first model, and of the output */
    size_t *layer_from;                   /* for each layer of the output, that of its source */
    size_t moved;                         /* tensors */
} blend_job;

/*
 * Matches the tensors of the models by their names. A name or a shape that does not match is an
 * error that lists it. Returns 0 or an exit code.
 */
int blend_find_tensors(blend_job *job);
/* Evaluates the parameters for every tensor. Returns 0 or an exit code. */
int blend_resolve(blend_job *job);
/*
 * Reads the values of all models as often as the method needs, and fills in what it finds. Returns
 * 0 or an exit code.
 */
int blend_measure(blend_job *job, unsigned threads);
/* Makes the model of the results, and adds its tensors to the plan. Returns 0 or an exit code. */
int blend_derive(blend_job *job, tenmap_dtype to);
/* Call it after plan_free: the derived model uses the rules. */
void blend_free(blend_job *job);

/* blend_random.c: the place of the numbers of a tensor and of a model among all random numbers. */
uint64_t random_key(uint64_t seed, const char *name, size_t name_len, uint64_t model);
/* Number `index` of those: 53 bits. */
uint64_t random_number(uint64_t key, uint64_t index);

/* blend_methods.c: the difference that is left at an element; `index` counts in the tensor. */
float trimmed(const delta_trim *trim, float delta, uint64_t index);

#endif
