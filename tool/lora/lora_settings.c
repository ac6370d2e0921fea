/* Reads what an adapter says about its scale, and refuses adapters of other kinds. */
#include "lora/lora_settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "output/output_plan.h"
#include "remote/remote.h"

/* A setting of PEFT that changes what the factors mean, or what they are added to. */
typedef struct other_meaning {
    const char *key, *why;
} other_meaning;

static const other_meaning other_meanings[] = {
    {"target_parameters", "adapts parameters of modules (target_parameters)"},
    {"trainable_token_indices", "trains single tokens (trainable_token_indices)"},
    {"layer_replication", "repeats layers of its base (layer_replication)"},
    {"alora_invocation_tokens", "is an Activated LoRA, which applies only after some tokens"},
    {"arrow_config", "chooses between adapters for each token (arrow_config)"},
    {"use_bdlora", "has block-diagonal factors (use_bdlora)"},
    {"kasa_config", "has singular values of its own (kasa_config)"},
    {"monteclora_config", "samples its factors (monteclora_config)"},
    {"megatron_config", "is for Megatron's parallel layers (megatron_config)"},
};

/* Ways to begin a training that change the base too. */
static const char *const changes_base[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

static bool is_set(const char *value) {
    return value && *value && strcmp(value, "false") != 0 && strcmp(value, "null") != 0;
}

/* Whether the key has a value, or is an array or an object that is not empty. */
static bool has_value(const config *c, const char *key) {
    size_t n = strlen(key);
    for (size_t i = 0; i < c->count; i++) {
        const char *path = c->items[i].path;
        if (strncmp(path, key, n) == 0 && (path[n] == '.' || path[n] == '\0') &&
            is_set(c->items[i].value))
            return true;
    }
    return false;
}

static const char *value_of(const config *c, const char *prefix, const char *key) {
    size_t n = strlen(prefix);
    for (size_t i = 0; i < c->count; i++)
        if (strncmp(c->items[i].path, prefix, n) == 0 && strcmp(c->items[i].path + n, key) == 0)
            return strcmp(c->items[i].value, "null") == 0 ? NULL : c->items[i].value;
    return NULL;
}

static int refuse_kinds(const lora_settings *s, const char *path) {
    const char *type = value_of(&s->peft, "", "peft_type");
    const char *init = value_of(&s->peft, "", "init_lora_weights");
    if (type && strcmp(type, "LORA") != 0)
        return fail(EXIT_FAILED,
                    "'%s' is an adapter of the type %s (adapter_config.json); lora applies "
                    "LoRA and DoRA only: peft applies others (merge_and_unload)",
                    shown_path(path), shown_name(type, strlen(type)));
    for (size_t i = 0; i < sizeof other_meanings / sizeof other_meanings[0]; i++)
        if (has_value(&s->peft, other_meanings[i].key))
            return fail(EXIT_FAILED,
                        "'%s' %s; lora cannot apply that: peft does (merge_and_unload)",
                        shown_path(path), other_meanings[i].why);
    if (is_set(value_of(&s->peft, "", "use_qalora")))
        return fail(EXIT_FAILED, "'%s' is a QA-LoRA (use_qalora); lora cannot apply it",
                    shown_path(path));
    for (size_t i = 0; init && i < sizeof changes_base / sizeof changes_base[0]; i++)
        if (strncasecmp(init, changes_base[i], strlen(changes_base[i])) == 0)
            return fail(EXIT_FAILED,
                        "'%s' was trained on a changed base (init_lora_weights is %s), so its "
                        "factors do not fit the original one; save it with peft's "
                        "path_initial_model_for_weight_conversion",
                        shown_path(path), shown_name(init, strlen(init)));
    return EXIT_FINE;
}

int lora_settings_read(const tenmap_model *adapter, lora_settings *out) {
    const char *diffusers = tenmap_metadata_get(adapter, "lora_adapter_metadata");
    *out = (lora_settings){0};
    out->has_peft = config_read(tenmap_folder(adapter), "adapter_config.json", &out->peft);
    if (out->peft.unreadable)
        return fail(EXIT_FAILED,
                    "'%s' has an adapter_config.json that is not JSON of at most 4 MiB, so its "
                    "scale is unknown; copy that file again, complete",
                    shown_path(tenmap_path(adapter)));
    if (diffusers && !config_parse(diffusers, strlen(diffusers), &out->diffusers))
        return fail(EXIT_FAILED,
                    "'%s' has the metadata lora_adapter_metadata, which is not JSON, so its scale "
                    "is unknown; 'tenmap meta' can correct or remove it",
                    shown_path(tenmap_path(adapter)));
    out->fan_in_fan_out = is_set(value_of(&out->peft, "", "fan_in_fan_out"));
    out->dora = is_set(value_of(&out->peft, "", "use_dora"));
    if (out->peft.incomplete || out->diffusers.incomplete)
        return fail(
            EXIT_FAILED,
            "'%s': a key in the adapter's settings is longer than 256 bytes, so alpha_pattern "
            "cannot be read; shorten its patterns",
            shown_path(tenmap_path(adapter)));
    return refuse_kinds(out, tenmap_path(adapter));
}

static void scope_free(lora_scope *scope) {
    lora_patterns_free(&scope->ranks);
    lora_patterns_free(&scope->alphas);
}

void lora_settings_free(lora_settings *s) {
    scope_free(&s->scope);
    config_free(&s->peft);
    config_free(&s->diffusers);
}

/* Finds the settings of one model of the adapter: `prefix` is "unet." in diffusers' metadata. */
static void read_scope(lora_scope *scope, const config *c, const char *prefix) {
    text key = {0};
    scope_free(scope);
    *scope = (lora_scope){.of = c, .prefix = prefix};
    scope->rank = value_of(c, prefix, "r");
    scope->alpha = value_of(c, prefix, "lora_alpha");
    scope->rslora = is_set(value_of(c, prefix, "use_rslora"));
    text_addf(&key, "%srank_pattern", prefix);
    lora_patterns_take(c, key.bytes, &scope->ranks);
    text_clear(&key);
    text_addf(&key, "%salpha_pattern", prefix);
    lora_patterns_take(c, key.bytes, &scope->alphas);
    text_free(&key);
}

static int read_scale(lora_scope *scope, const lora_module_name *module, const char **rank,
                      const char **alpha) {
    *rank = scope->rank;
    *alpha = scope->alpha;
    int status = lora_patterns_find(&scope->ranks, module->name, module->len, rank);
    return status ? status : lora_patterns_find(&scope->alphas, module->name, module->len, alpha);
}

static int parse_real(const char *given, const char *what, double *out) {
    char *end;
    *out = strtod(given, &end);
    if (end == given || *end || !isfinite(*out))
        return fail(EXIT_FAILED, "the adapter's %s is %s, which is not a number", what,
                    shown_name(given, strlen(given)));
    return EXIT_FINE;
}

int lora_scale_of(lora_settings *s, const tenmap_model *adapter, const lora_module_name *module,
                  uint64_t rank, double given, lora_scale *out) {
    const char *ranks = NULL, *alphas = NULL;
    bool peft = s->has_peft && !s->diffusers.count;
    const config *c = peft ? &s->peft : &s->diffusers;
    const char *prefix = peft ? "" : module->prefix;
    const char *gguf = tenmap_metadata_get(adapter, "adapter.lora.alpha");
    double said = 0;
    *out = (lora_scale){.alpha = given};
    if (s->scope.of != c || strcmp(s->scope.prefix, prefix) != 0)
        read_scope(&s->scope, c, prefix);
    int status = isnan(given) ? read_scale(&s->scope, module, &ranks, &alphas) : EXIT_FINE;
    if (!status && isnan(given) && !alphas && gguf)
        alphas = gguf;
    if (!status && alphas)
        status = parse_real(alphas, "alpha", &out->alpha);
    if (!status && ranks)
        status = parse_real(ranks, "rank", &said);
    if (status)
        return status;
    out->rank = said > 0 && said < 9e15 ? (uint64_t)said : 0;
    out->rslora = isnan(given) && s->scope.rslora;
    out->factor = isnan(out->alpha) ? 1
                  : out->rslora     ? out->alpha / sqrt((double)rank)
                                    : out->alpha / (double)rank;
    return EXIT_FINE;
}
