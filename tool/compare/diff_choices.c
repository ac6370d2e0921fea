/*
 * Recognizes that one of two models is GGUF, quantized or a LoRA, and chooses the options with
 * which their values can be compared.
 */
#include <string.h>

#include "compare/diff.h"
#include "model/dequantized_weights.h"
#include "model/gguf_metadata.h"
#include "model/identify_model.h"
#include "model/scheme_summary.h"
#include "remote/remote.h"

static bool is_quantized(const tenmap_model *model) {
    tenmap_quantized found;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (is_dequantized(t) || tenmap_quantized_of(t, &found))
            return true;
    }
    return false;
}

static text *next_note(diff_choices *chosen) {
    return &chosen->notes[chosen->note_count++];
}

static void choose(diff_choices *chosen, const char *name, const char *reason) {
    chosen->options[chosen->option_count] = name;
    chosen->reasons[chosen->option_count++] = reason;
}

/* Opens the quantized side again, with its weights dequantized. */
static bool dequantize_side(tenmap_model **side, const char *name, diff_choices *chosen) {
    schemes found;
    schemes_find(*side, &found);
    bool done = found.weights > 0 && found.model;
    if (done) {
        tenmap_close(*side);
        *side = found.model;
        found.model = NULL;
    } else {
        text *note = next_note(chosen);
        text_addf(note,
                  "%s is quantized, and its codes are compared, because its weights cannot be "
                  "dequantized%s",
                  name, found.problem.len ? ": " : "");
        if (found.problem.len)
            text_add_visible(note, found.problem.bytes, found.problem.len);
    }
    schemes_free(&found);
    return done;
}

static void choose_dequantize(models *m, diff_settings *set) {
    bool a = is_quantized(m->a), b = is_quantized(m->b);
    m->chosen.what_a = a ? "quantized" : m->chosen.what_a;
    m->chosen.what_b = b ? "quantized" : m->chosen.what_b;
    if (set->dequantize || set->as_stored)
        return;
    if (a && b)
        text_addf(next_note(&m->chosen),
                  "both models are quantized, and their codes and scales are "
                  "compared; --dequantize compares their weights");
    else if ((a && dequantize_side(&m->a, "A", &m->chosen)) ||
             (b && dequantize_side(&m->b, "B", &m->chosen))) {
        set->dequantize = true;
        choose(&m->chosen, "--dequantize",
               a ? "A stores codes and scales instead of weights"
                 : "B stores codes and scales instead of weights");
    }
}

static void choose_map_names(models *m, diff_settings *set) {
    bool a = is_gguf(m->a), b = is_gguf(m->b);
    m->chosen.what_a = a ? "GGUF" : m->chosen.what_a;
    m->chosen.what_b = b ? "GGUF" : m->chosen.what_b;
    if (a == b || set->map_names || set->rename.count || set->as_stored)
        return;
    set->map_names = true;
    choose(&m->chosen, "--map-names",
           a ? "A is GGUF, which has names, dtypes and metadata of its own"
             : "B is GGUF, which has names, dtypes and metadata of its own");
}

static void note_adapter(models *m) {
    bool a = count_adapted(m->a) > 0, b = count_adapted(m->b) > 0;
    m->chosen.what_a = a ? "LoRA" : m->chosen.what_a;
    m->chosen.what_b = b ? "LoRA" : m->chosen.what_b;
    if (a != b)
        text_addf(next_note(&m->chosen),
                  "%s is a LoRA, which holds factors of changes instead of weights: apply it to "
                  "its base first (tenmap lora), and compare the result",
                  a ? "A" : "B");
}

void choose_options(models *m, diff_settings *set) {
    choose_map_names(m, set);
    note_adapter(m);
    choose_dequantize(m, set);
}

void note_unmatched(models *m, const diff_settings *set) {
    if (m->chosen.note_count || m->pair_count + m->shape_count > 0 || !tenmap_count(m->a) ||
        !tenmap_count(m->b))
        return;
    text_addf(next_note(&m->chosen),
              "no tensor of A has a name of B, so that no values are "
              "compared: --rename 's/REGEX/NEW/' renames those of A%s",
              set->map_names || set->as_stored ? "" : ", --map-names those of Llama-like models");
}

bool any_dtype(const diff_settings *set) {
    return set->any_dtype || set->map_names;
}

bool any_metadata(const diff_settings *set) {
    return set->any_metadata || set->map_names;
}

void choices_free(diff_choices *chosen) {
    for (size_t i = 0; i < chosen->note_count; i++)
        text_free(&chosen->notes[i]);
}
