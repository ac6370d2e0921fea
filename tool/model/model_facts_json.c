/* Writes what a model is as JSON: its architecture, adapter and quantization. */
#include "model/model_facts_json.h"

#include "model/dequantized_weights.h"
#include "model/gguf_metadata.h"
#include "model/identify_model.h"
#include "model/scheme_summary.h"

static void find_weights(const tenmap_model *model, quantization *q) {
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        tenmap_quantized parts;
        if (is_dequantized(t)) {
            q->weights++;
        } else if (tenmap_quantized_of(t, &parts)) {
            q->weights++;
            q->by_names = q->by_names ? q->by_names : parts.family;
        }
    }
}

void model_facts_json(const tenmap_model *model) {
    identity id;
    schemes known = {0};
    gguf_facts gguf;
    quantization q = {.known = &known, .gguf = gguf_describe(model, &gguf) ? &gguf : NULL};
    identify(model, false, &id);
    find_weights(model, &q);
    if (q.weights)
        schemes_find(model, &known);
    if (known.weights)
        q.weights = known.weights;
    identity_json(&id);
    quantization_json(&q);
    identity_free(&id);
    schemes_free(&known);
    gguf_facts_free(&gguf);
}
