/* What a decoder keeps of the tokens that it has read. */
#ifndef TOOL_KV_CACHE_H
#define TOOL_KV_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

#include "architectures/architecture.h"
#include "model/config_json.h"
#include "view/print.h"

/* Values are counted, not bytes; those of one token are summed over the layers that keep it. */
typedef struct kv_cache {
    bool known;    /* false: neither config.json nor metadata has the numbers */
    bool by_table; /* false: the architecture is not in the table; ordinary attention is assumed */
    cache_kind kind;
    uint64_t layers, window_layers; /* layers that keep all tokens; that keep the last `window` */
    uint64_t values, window_values; /* of one token, in all of these layers */
    uint64_t window;
    uint64_t cross_values;               /* of one token of the encoder, in all layers */
    uint64_t cross_tokens;               /* of the encoder; 0: as many as the context */
    uint64_t kv_heads, head, value_head; /* of one layer */
    bool varies;                         /* layers have different numbers of heads */
} kv_cache;

/* `a` may be NULL. One of `c` and `gguf` is NULL; sizes were read from the other. */
void kv_cache_find(const architecture *a, const model_sizes *sizes, const config *c,
                   const tenmap_model *gguf, kv_cache *out);

/* Values for a context of this many tokens; UINT64_MAX if there are too many to count. */
uint64_t kv_cache_values(const kv_cache *kv, uint64_t tokens);
/* Their bytes in a dtype; UINT64_MAX if there are too many to count. Blocks count in full. */
uint64_t kv_cache_bytes(const kv_cache *kv, uint64_t tokens, tenmap_dtype dtype);

/* "32 layers of 8 heads of 128"; nothing if there is no cache. */
void text_add_kv_cache(text *t, const kv_cache *kv);

#endif
