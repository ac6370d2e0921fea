/*
 * Writes the quantization_config for weights quantized by this tool, in the form that other
 * programs read.
 */
#include <string.h>

#include "quantize/quantize.h"

static void add_string(text *t, const char *bytes, size_t len) {
    text_add(t, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20)
            text_addf(t, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            text_addf(t, "\\%c", c);
        else
            text_add(t, bytes + i, 1);
    }
    text_add(t, "\"", 1);
}

static void add_modules(text *t, const char *key, const char *const *kept, const size_t *lens,
                        size_t count) {
    text_addf(t, "    \"%s\": [", key);
    for (size_t i = 0; i < count; i++) {
        text_addf(t, i ? ",\n      " : "\n      ");
        add_string(t, kept[i], lens[i]);
    }
    text_addf(t, count ? "\n    ]" : "]");
}

static void add_deepseek(const char *const *kept, const size_t *lens, size_t count, text *out) {
    text_addf(out, "{\n"
                   "    \"activation_scheme\": \"dynamic\",\n"
                   "    \"fmt\": \"e4m3\",\n"
                   "    \"quant_method\": \"fp8\",\n"
                   "    \"weight_block_size\": [128, 128],\n");
    add_modules(out, "modules_to_not_convert", kept, lens, count);
    text_addf(out, "\n  }");
}

/*
 * For weights with one scale per row, activations are quantized dynamically per token; with MXFP4
 * they are not quantized.
 */
void quantize_config(quantize_scheme scheme, const char *const *kept, const size_t *lens,
                     size_t count, text *out) {
    bool mxfp4 = scheme == QUANTIZE_MXFP4;
    const char *type = scheme == QUANTIZE_INT8_CHANNEL ? "int" : "float";
    if (scheme == QUANTIZE_FP8_BLOCK) {
        add_deepseek(kept, lens, count, out);
        return;
    }
    text_addf(out,
              "{\n"
              "    \"config_groups\": {\n"
              "      \"group_0\": {\n"
              "        \"format\": \"%s\",\n"
              "        \"input_activations\": ",
              mxfp4                             ? "mxfp4-pack-quantized"
              : scheme == QUANTIZE_INT8_CHANNEL ? "int-quantized"
                                                : "float-quantized");
    if (mxfp4)
        text_addf(out, "null");
    else
        text_addf(out,
                  "{\"dynamic\": true, \"num_bits\": 8, \"strategy\": \"token\", "
                  "\"symmetric\": true, \"type\": \"%s\"}",
                  type);
    text_addf(out, ",\n"
                   "        \"output_activations\": null,\n"
                   "        \"targets\": [\"Linear\"],\n"
                   "        \"weights\": {\"dynamic\": false, ");
    text_addf(out,
              mxfp4 ? "\"group_size\": 32, \"num_bits\": 4, \"scale_dtype\": \"torch.uint8\", "
                      "\"strategy\": \"group\", \"symmetric\": true, \"type\": \"%s\", "
                      "\"zp_dtype\": \"torch.uint8\"}\n"
                    : "\"num_bits\": 8, \"strategy\": \"channel\", \"symmetric\": true, "
                      "\"type\": \"%s\"}\n",
              type);
    text_addf(out,
              "      }\n"
              "    },\n"
              "    \"format\": \"%s\",\n",
              mxfp4                             ? "mxfp4-pack-quantized"
              : scheme == QUANTIZE_INT8_CHANNEL ? "int-quantized"
                                                : "float-quantized");
    add_modules(out, "ignore", kept, lens, count);
    text_addf(out, ",\n"
                   "    \"quant_method\": \"compressed-tensors\",\n"
                   "    \"quantization_status\": \"compressed\"\n"
                   "  }");
}
