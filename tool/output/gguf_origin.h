/*
 * Tensors that come from a GGUF file keep what llama.cpp's converter made of them: its names, and
 * for Llama and its descendants the order of the rows of query and key projections.
 */
#ifndef TOOL_GGUF_ORIGIN_H
#define TOOL_GGUF_ORIGIN_H

#include "output/output_plan.h"

/* Prints what programs that expect the original model have to know; nothing if there is nothing. */
void gguf_origin_print(const plan *p);
/* Writes the key "gguf" into the open object, or nothing. */
void gguf_origin_json(const plan *p);

#endif
