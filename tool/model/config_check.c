/* Compares tensor shapes and layer counts with what config.json implies for known architectures. */
#include "model/config_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "architectures/architecture.h"
#include "command.h"
#include "model/config_json.h"
#include "model/gguf_metadata.h"
#include "model/identify_model.h"
#include "model/lora_adapter.h"
#include "model/module_numbers.h"

typedef struct comparison {
    const tenmap_model *model;
    const architecture *architecture;
    model_sizes sizes;
    size_t known_names; /* tensors that a rule or a stack of layers covers */
    void (*say)(void *ctx, const config_finding *found);
    void *ctx;
} comparison;

static void say_note(const comparison *c, const text *message) {
    c->say(c->ctx, &(config_finding){true, NULL, message->bytes});
}

static void say_warning(const comparison *c, const tenmap_tensor *t, const text *message) {
    c->say(c->ctx, &(config_finding){false, t, message->bytes});
}

/*
 * Adds the shape that the expressions give. Returns false if a dimension is not known; otherwise
 * *same says whether the tensor has that shape.
 */
static bool add_expected(text *out, const comparison *c, const char *shape, const tenmap_tensor *t,
                         bool *same) {
    uint32_t rank = 0;
    *same = true;
    text_add(out, "[", 1);
    for (const char *at = shape; *at; at += *at == ',') {
        uint64_t size = size_of_expression(&c->sizes, at, &at);
        if (!size)
            return false;
        text_addf(out, "%s%" PRIu64, rank ? ", " : "", size);
        *same = *same && rank < t->rank && t->shape[rank] == size;
        rank++;
    }
    text_add(out, "]", 1);
    *same = *same && rank == t->rank;
    return true;
}

/* Codes that are packed have another shape than the weight; 8-bit floats are not packed. */
static bool is_packed(const tenmap_tensor *t) {
    return t->dtype != TENMAP_F8_E4M3 && t->dtype != TENMAP_F8_E5M2 && tenmap_quantized_of(t, NULL);
}

static void compare_shape(const comparison *c, const tenmap_tensor *t, const tensor_rule *rule) {
    text line = {0}, expected = {0};
    bool same;
    if (rule->shape && add_expected(&expected, c, rule->shape, t, &same) && !same &&
        !is_packed(t)) {
        text_addf(&line, "tensor \"");
        text_add_safe(&line, t->name, t->name_len);
        text_addf(&line, "\" is ");
        text_add_shape(&line, t);
        text_addf(&line, ", but config.json says %s", expected.bytes);
        say_warning(c, t, &line);
    }
    text_free(&line);
    text_free(&expected);
}

static void compare_shapes(comparison *c) {
    for (size_t i = 0; i < tenmap_count(c->model); i++) {
        const tenmap_tensor *t = tenmap_at(c->model, i);
        tensor_match match;
        if (!match_tensor(c->architecture, t->name, t->name_len, &match))
            continue;
        c->known_names++;
        compare_shape(c, t, match.rule);
    }
}

/* The layer number in a name, within one stack. Adapters need not have every layer. */
static bool layer_of(const comparison *c, const layer_stack *stack, const tenmap_tensor *t,
                     uint64_t *layer) {
    size_t n = strlen(stack->name);
    number_span at = {0};
    bool for_text =
        c->architecture->cache == CACHE_KEY_VALUE || c->architecture->cache == CACHE_LATENT;
    if (for_text && is_other_tower(t->name, t->name_len))
        return false;
    while (number_find(t->name, t->name_len, at.end, &at))
        if (at.begin > n && memcmp(t->name + at.begin - 1 - n, stack->name, n) == 0 &&
            (at.begin == n + 1 || t->name[at.begin - 2 - n] == '.')) {
            *layer = at.value;
            return !belongs_to_adapter(t);
        }
    return false;
}

static void report_layers(const comparison *c, const uint64_t *missing, size_t count,
                          uint64_t layers, uint64_t beyond) {
    text line = {0};
    if (count) {
        text_addf(&line, "config.json has %" PRIu64 " layers, but these are missing: ", layers);
        text_add_ranges(&line, missing, count);
        say_warning(c, NULL, &line);
    } else if (beyond) {
        text_addf(&line, "config.json has %" PRIu64 " layers, but there is one numbered %" PRIu64,
                  layers, beyond);
        say_warning(c, NULL, &line);
    }
    text_free(&line);
}

/*
 * A stack of which no layer is there is left out on purpose: text encoders are stored alone. Layers
 * that predict further tokens follow the others, and need not be there.
 */
static void compare_stack(comparison *c, const layer_stack *stack) {
    enum { MOST_LAYERS = 100000 };
    uint64_t layers = size_named(&c->sizes, stack->count), beyond = 0, layer;
    uint64_t further = size_named(&c->sizes, "extra_layers");
    if (!layers || layers > MOST_LAYERS)
        return;
    bool *there = need(layers, sizeof *there);
    uint64_t *missing = need(layers, sizeof *missing);
    size_t seen = 0, count = 0;
    for (size_t i = 0; i < tenmap_count(c->model); i++)
        if (layer_of(c, stack, tenmap_at(c->model, i), &layer)) {
            seen++;
            if (layer < layers)
                there[layer] = true;
            else if (layer - layers >= further)
                beyond = layer > beyond ? layer : beyond;
        }
    for (uint64_t i = 0; i < layers; i++)
        if (!there[i])
            missing[count++] = i;
    if (seen)
        report_layers(c, missing, count, layers, beyond);
    c->known_names += seen;
    free(there);
    free(missing);
}

static void compare_all(comparison *c) {
    text note = {0};
    for (size_t i = 0; i < MAX_STACKS && c->architecture->stacks[i].name; i++)
        compare_stack(c, &c->architecture->stacks[i]);
    compare_shapes(c);
    if (!c->known_names) {
        text_addf(&note, "--config: no tensor has a name that is known for the model_type in "
                         "config.json, so nothing was compared");
        say_note(c, &note);
    }
    text_free(&note);
}

static void compare_config(comparison *c, const config *from) {
    const char *type = config_text(from, "model_type");
    text note = {0};
    c->architecture = architecture_of_config(from);
    if (is_gguf(c->model)) {
        text_addf(&note, "--config: GGUF has names of its own, so config.json was not compared");
    } else if (!c->architecture) {
        text_addf(&note, "--config: the shapes of model_type '");
        text_add_safe(&note, type ? type : "(none)", strlen(type ? type : "(none)"));
        text_addf(&note, "' are not known, so they were not compared");
    }
    if (note.len) {
        say_note(c, &note);
    } else {
        sizes_of_config(c->architecture, from, &c->sizes);
        compare_all(c);
    }
    text_free(&note);
}

int config_check(const tenmap_model *model, void (*say)(void *ctx, const config_finding *found),
                 void *ctx) {
    char *folder = model_folder(model);
    comparison c = {.model = model, .say = say, .ctx = ctx};
    config from;
    int status = EXIT_FINE;
    if (config_read(folder, "config.json", &from)) {
        compare_config(&c, &from);
        config_free(&from);
    } else {
        status =
            fail(EXIT_FAILED, "--config: there is no config.json in '%s' that can be read", folder);
    }
    free(folder);
    return status;
}
