/* Recognizes LoRA adapters by the names of their tensors, and describes them. */
#include "model/lora_adapter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/config_json.h"
#include "model/gguf_metadata.h"
#include "model/module_numbers.h"
#include "view/json_out.h"

/*
 * LoRA: pairs of small matrices, one down to the rank and one up again. Names end in these words
 * and may go on with ".weight". PEFT names begin with a dot. Diffusers and others appended the
 * words to the name of the module with an underscore.
 */
static const char *const down_ends[] = {
    ".lora_A",    ".lora_down",  "_lora_down",  ".lora_a",           ".lora.down",
    "_lora.down", "_lora1.down", "_lora2.down", ".lora_embedding_A", ".lora_linear_layer.down",
    NULL};

/* The tensors beside the down factors that belong to an adapted module. */
static const char *const other_ends[] = {".lora_B",
                                         ".lora_up",
                                         "_lora_up",
                                         ".lora_b",
                                         ".lora.up",
                                         "_lora.up",
                                         "_lora1.up",
                                         "_lora2.up",
                                         ".lora_embedding_B",
                                         ".lora_linear_layer.up",
                                         ".lora_mid",
                                         ".dora_scale",
                                         ".alpha",
                                         ".diff",
                                         ".diff_b",

                                         ".lora_magnitude_vector",
                                         NULL};

static const char *const magnitude_ends[] = {".lora_magnitude_vector", ".dora_scale", NULL};

static size_t without_end(const char *name, size_t len, const char *end) {
    size_t n = strlen(end);
    return len > n && memcmp(name + len - n, end, n) == 0 ? len - n : len;
}

static size_t without_any(const char *name, size_t len, const char *const *ends) {
    for (; *ends; ends++) {
        size_t n = without_end(name, len, *ends);
        if (n < len)
            return n;
    }
    return len;
}

/*
 * The length of the module's name in that of a tensor that ends in one of the words, or 0. PEFT may
 * keep the adapter's name after the word: ".lora_A.default.weight".
 */
static size_t module_length(const char *name, size_t name_len, const char *const *ends) {
    size_t len = without_end(name, name_len, ".weight"), dot = len;
    size_t n = without_any(name, len, ends);
    if (n < len)
        return n;
    while (dot && name[dot - 1] != '.')
        dot--;
    n = dot ? without_any(name, dot - 1, ends) : len;
    return dot && n < dot - 1 ? n : 0;
}

static bool stored_beside(const tenmap_model *model, const char *name, size_t len,
                          const char *end) {
    text t = {0};
    text_add(&t, name, len);
    text_addf(&t, "%s", end);
    bool found = tenmap_find_n(model, t.bytes, t.len) != NULL;
    text_free(&t);
    return found;
}

/* The length of the module's name in that of a down factor, or 0. */
static size_t down_stem(const tenmap_model *model, const tenmap_tensor *t) {
    size_t stem = t->rank < 2 ? 0 : module_length(t->name, t->name_len, down_ends);
    return stem && !stored_beside(model, t->name, stem, ".weight") &&
                   !stored_beside(model, t->name, stem, ".base_layer.weight")
               ? stem
               : 0;
}

bool belongs_to_adapter(const tenmap_tensor *t) {
    return module_length(t->name, t->name_len, down_ends) ||
           module_length(t->name, t->name_len, other_ends);
}

size_t count_adapted(const tenmap_model *model) {
    size_t count = 0;
    for (size_t i = 0; i < tenmap_count(model); i++)
        count += down_stem(model, tenmap_at(model, i)) > 0;
    return count;
}

/* Where the part after the last dot before `end` begins. */
static size_t last_part(const char *name, size_t end) {
    while (end && name[end - 1] != '.')
        end--;
    return end;
}

/*
 * Adds the name of a module without those of the modules around it: the text after the last dot
 * and, within that, after the last number that is followed by more text. A part that is only a
 * number keeps the part before it: "to_out.0".
 */
static void add_module(module_names *names, const char *name, size_t len) {
    number_span at = {0};
    size_t begin = last_part(name, len);
    while (begin > 1 && number_find(name, len, begin, &at) && at.begin == begin &&
           (at.end == len || name[at.end] == '.'))
        begin = last_part(name, begin - 1);
    for (at.end = begin; number_find(name, len, at.end, &at);)
        if (at.end + 1 < len && name[at.end] != '.')
            begin = at.end + 1;
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i].len == len - begin &&
            memcmp(names->items[i].bytes, name + begin, len - begin) == 0)
            return;
    if (names->count == MAX_ADAPTER_NAMES)
        names->incomplete = true;
    else
        text_add(&names->items[names->count++], name + begin, len - begin);
}

static void find_alpha(const tenmap_model *model, const tenmap_tensor *down, size_t stem,
                       adapter *a) {
    text name = {0};
    float value;
    text_add(&name, down->name, stem);
    text_addf(&name, ".alpha");
    const tenmap_tensor *alpha = tenmap_find_n(model, name.bytes, name.len);
    if (alpha && alpha->nelems == 1 &&
        tenmap_read(alpha, 0, 1, TENMAP_F32, &value, sizeof value, 0, NULL) == TENMAP_OK &&
        value >= 0)
        text_addf(&a->alpha, "%g", (double)value);
    text_free(&name);
}

/* MLX stores the factors transposed, so that the rank comes last; its names lack ".weight". */
static uint64_t rank_of(const tenmap_model *model, const tenmap_tensor *down) {
    bool transposed =
        !is_gguf(model) && without_end(down->name, down->name_len, ".lora_a") < down->name_len;
    return down->shape[transposed ? 1 : 0];
}

static void take_down(const tenmap_model *model, const tenmap_tensor *t, size_t stem, adapter *a) {
    uint64_t rank = rank_of(model, t);
    a->modules++;
    a->min_rank = rank < a->min_rank ? rank : a->min_rank;
    a->max_rank = rank > a->max_rank ? rank : a->max_rank;
    if (!a->alpha.len)
        find_alpha(model, t, stem, a);
    /* GGUF puts the word after the name of the whole tensor. */
    add_module(&a->targets, t->name, without_end(t->name, stem, ".weight"));
}

static void take_other(const tenmap_tensor *t, adapter *a) {
    static const char *const ends[] = {".weight", ".bias", NULL};
    static const char *const saved[] = {".modules_to_save.default", ".modules_to_save", NULL};
    if (module_length(t->name, t->name_len, other_ends)) {
        a->dora = a->dora || module_length(t->name, t->name_len, magnitude_ends);
        return;
    }
    a->whole_tensors++;
    add_module(&a->whole, t->name,
               without_any(t->name, without_any(t->name, t->name_len, ends), saved));
}

/* The first of these that is not empty, or NULL. */
static const char *first_known(const char *const *known, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (known[i] && *known[i])
            return known[i];
    return NULL;
}

static bool says_true(const config *c, const char *key) {
    const char *value = config_text(c, key);
    return value && strcmp(value, "true") == 0;
}

/* PEFT writes adapter_config.json; kohya's scripts and llama.cpp write metadata. */
static void read_settings(const tenmap_model *model, const char *folder, adapter *a) {
    config c = {0};
    (void)config_read(folder, "adapter_config.json", &c);
    const char *alphas[] = {config_text(&c, "lora_alpha"),
                            tenmap_metadata_get(model, "ss_network_alpha"),
                            tenmap_metadata_get(model, "adapter.lora.alpha")};
    const char *bases[] = {config_text(&c, "base_model_name_or_path"),
                           tenmap_metadata_get(model, "ss_sd_model_name"),
                           tenmap_metadata_get(model, "ss_base_model_version")};
    const char *alpha = a->alpha.len ? NULL : first_known(alphas, 3), *base = first_known(bases, 3);
    if (alpha)
        text_add_safe(&a->alpha, alpha, strlen(alpha));
    if (base)
        text_add_safe(&a->base_model, base, strlen(base));
    a->rslora = says_true(&c, "use_rslora");
    a->dora = a->dora || says_true(&c, "use_dora");
    config_free(&c);
}

void find_adapter(const tenmap_model *model, const char *folder, adapter *a) {
    *a = (adapter){.min_rank = UINT64_MAX};
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        size_t stem = down_stem(model, t);
        if (stem)
            take_down(model, t, stem, a);
    }
    if (!a->modules)
        return;
    for (size_t i = 0; i < tenmap_count(model); i++)
        if (!down_stem(model, tenmap_at(model, i)))
            take_other(tenmap_at(model, i), a);
    read_settings(model, folder, a);
}

static void add_rank(text *t, const adapter *a) {
    text_addf(t, " rank %" PRIu64, a->min_rank);
    if (a->max_rank != a->min_rank)
        text_addf(t, " to %" PRIu64, a->max_rank);
}

void text_add_adapter_rank(text *t, const adapter *a) {
    text_addf(t, "LoRA");
    add_rank(t, a);
}

static void add_names(text *t, const module_names *names) {
    enum { MOST_SHOWN = 8 };
    for (size_t i = 0; i < names->count && i < MOST_SHOWN; i++) {
        text_addf(t, i ? ", " : "");
        text_add_safe(t, names->items[i].bytes, names->items[i].len);
    }
    if (names->count > MOST_SHOWN || names->incomplete)
        text_addf(t, " and more");
}

void text_add_adapter(text *t, const adapter *a) {
    if (!a->modules)
        return;
    text_addf(t, "LoRA,");
    add_rank(t, a);
    if (a->alpha.len)
        text_addf(t, ", alpha %s", a->alpha.bytes);
    text_addf(t, "%s%s", a->rslora ? ", rsLoRA" : "", a->dora ? ", DoRA" : "");
    text_addf(t, ", %zu module%s: ", a->modules, a->modules == 1 ? "" : "s");
    add_names(t, &a->targets);
    if (!a->whole_tensors)
        return;
    text_addf(t, "; %zu whole tensor%s: ", a->whole_tensors, a->whole_tensors == 1 ? "" : "s");
    add_names(t, &a->whole);
}

static void names_json(const char *key, const module_names *names) {
    json_key(key);
    json_open('[', true);
    for (size_t i = 0; i < names->count; i++)
        json_text(names->items[i].bytes, names->items[i].len);
    json_close();
}

void adapter_json(const adapter *a) {
    char *end = NULL;
    if (!a->modules)
        return;
    json_key("adapter");
    json_open('{', true);
    json_key_text("type", "lora", TENMAP_CSTR);
    json_key_uint("rank", a->max_rank);
    json_key_uint("min_rank", a->min_rank);
    double alpha = a->alpha.len ? strtod(a->alpha.bytes, &end) : 0;
    if (a->alpha.len && end != a->alpha.bytes && *end == '\0')
        json_key_real("alpha", alpha);
    json_key_bool("rslora", a->rslora);
    json_key_bool("dora", a->dora);
    json_key_uint("modules", a->modules);
    names_json("targets", &a->targets);
    json_key_bool("targets_complete", !a->targets.incomplete);
    json_key_uint("whole_tensors", a->whole_tensors);
    names_json("whole", &a->whole);
    json_key_bool("whole_complete", !a->whole.incomplete);
    if (a->base_model.len)
        json_key_text("base_model", a->base_model.bytes, a->base_model.len);
    json_close();
}

static void copy_text_of(text *to, const text *from) {
    *to = (text){0};
    if (from->len)
        text_add(to, from->bytes, from->len);
}

adapter adapter_copy(const adapter *a) {
    adapter copy = *a;
    copy_text_of(&copy.alpha, &a->alpha);
    copy_text_of(&copy.base_model, &a->base_model);
    for (size_t i = 0; i < MAX_ADAPTER_NAMES; i++) {
        copy_text_of(&copy.targets.items[i], &a->targets.items[i]);
        copy_text_of(&copy.whole.items[i], &a->whole.items[i]);
    }
    return copy;
}

void adapter_free(adapter *a) {
    text_free(&a->alpha);
    text_free(&a->base_model);
    for (size_t i = 0; i < MAX_ADAPTER_NAMES; i++) {
        text_free(&a->targets.items[i]);
        text_free(&a->whole.items[i]);
    }
    *a = (adapter){0};
}
