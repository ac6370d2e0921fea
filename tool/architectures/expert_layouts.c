/* The table of how architectures arrange experts. */
#include "architectures/expert_layouts.h"

#include <string.h>

#include "view/print.h"

static const expert_layout layouts[] = {
    {" mixtral ", "block_sparse_moe", "mlp", {"w1", "w3", "w2"}, EXPERT_ROWS},
    {" qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 ",
     "mlp",
     "mlp",
     {"gate_proj", "up_proj", "down_proj"},
     EXPERT_ROWS},
    {" gpt_oss ", "mlp", "mlp", {"gate_proj", "up_proj", "down_proj"}, EXPERT_INTERLEAVED},
    {" llama4 llama4_text ",
     "feed_forward",
     "feed_forward",
     {"gate_proj", "up_proj", "down_proj"},
     EXPERT_COLUMNS},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

const expert_layout *expert_layout_of_type(const char *type) {
    size_t len = type ? strlen(type) : 0;
    for (size_t i = 0; len && i < LAYOUTS; i++)
        for (const char *at = layouts[i].types; (at = strstr(at, type)); at++)
            if (at > layouts[i].types && at[-1] == ' ' && at[len] == ' ')
                return &layouts[i];
    return NULL;
}

const char *expert_layout_types(void) {
    static text list;
    text_clear(&list);
    for (size_t i = 0; i < LAYOUTS; i++)
        for (const char *at = layouts[i].types + 1; *at; at += strcspn(at, " ") + 1)
            text_addf(&list, "%s%.*s", list.len ? ", " : "", (int)strcspn(at, " "), at);
    return list.bytes;
}

bool experts_are_transposed(const expert_layout *layout) {
    return layout->axes != EXPERT_ROWS;
}
