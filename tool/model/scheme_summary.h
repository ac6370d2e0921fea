/*
 * Summarizes how a model's weights are quantized, as the library understands them: each scheme with
 * its share.
 */
#ifndef TOOL_SCHEME_SUMMARY_H
#define TOOL_SCHEME_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "model/gguf_metadata.h"
#include "view/print.h"

typedef struct scheme_share {
    const char *name; /* "int4-group" */
    uint32_t bits, group_rows, group_columns;
    size_t weights;
    uint64_t params, bytes; /* of all parts */
} scheme_share;

typedef struct schemes {
    scheme_share *items; /* most parameters first */
    size_t count, weights;
    uint64_t params;     /* over all tensors of the model, with weights dequantized */
    tenmap_model *model; /* opened for this and still open, because it owns the names; NULL: none */
    text problem;        /* why the weights cannot be dequantized; empty: they can */
} schemes;

/*
 * Uses the model itself if it was opened with dequantized weights; otherwise opens it again that
 * way. Reads config.json and small tensors that describe others.
 */
void schemes_find(const tenmap_model *model, schemes *out);
void schemes_free(schemes *s);

/* "196 weights in fp8-block (128x128), 8.00 bits a value; 2 in int8-channel, ..." */
void text_add_schemes(text *t, const schemes *s);

/* How a model is quantized. */
typedef struct quantization {
    size_t weights;         /* quantized weights; 0: none */
    const char *by_names;   /* what the names of tensors suggest: "GPTQ or AWQ"; NULL: nothing */
    const schemes *known;   /* by the library; NULL or empty: not known */
    const gguf_facts *gguf; /* NULL: another format */
} quantization;
/* Writes the key "quantization" into the open object, or nothing if the model is not quantized. */
void quantization_json(const quantization *q);

#endif
