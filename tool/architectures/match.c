/* Finds the row of a model in the table of architectures, and the rule for a tensor's name. */
#include <ctype.h>
#include <string.h>

#include "architectures/architecture.h"
#include "architectures/rules.h"
#include "model/gguf_metadata.h"

static bool has_word(const char *words, const char *word) {
    size_t len = strlen(word);
    for (const char *at = words; len && at && (at = strstr(at, word)); at++)
        if (at > words && at[-1] == ' ' && at[len] == ' ')
            return true;
    return false;
}

static const architecture *find_type(const char *type) {
    for (const architecture *a = architectures; type && a->types; a++)
        if (has_word(a->types, type))
            return a;
    return NULL;
}

const architecture *architecture_of_config(const config *c) {
    const architecture *found = find_type(config_text(c, "model_type"));
    found = found ? found : find_type(config_text(c, "text_config.model_type"));
    return found ? found : find_type(config_text(c, "llm_config.model_type"));
}

const architecture *architecture_of_gguf(const tenmap_model *model) {
    const char *name = tenmap_metadata_get(model, "general.architecture");
    for (const architecture *a = architectures; name && a->types; a++)
        if (a->gguf && has_word(a->gguf, name))
            return a;
    return NULL;
}

bool is_other_tower(const char *name, size_t len) {
    static const char *const words[] = {"vision", "visual", "audio", "image_", "speech", "talker"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i]);
        for (size_t at = 0; at + n <= len; at++)
            if (memcmp(name + at, words[i], n) == 0)
                return true;
    }
    return false;
}

/* Reads up to nine digits before `end`. Returns where they begin, or `end` if there are none. */
static size_t number_before(const char *name, size_t end, uint64_t *out) {
    enum { MOST_DIGITS = 9 };
    size_t begin = end;
    uint64_t unit = 1;
    *out = 0;
    for (; begin && end - begin < MOST_DIGITS && isdigit((unsigned char)name[begin - 1]); begin--) {
        *out += unit * (uint64_t)(name[begin - 1] - '0');
        unit *= 10;
    }
    return begin;
}

/*
 * Compares from the end, so that no prefix has to be known. The prefix ends with a dot. A rule
 * without numbers does not match inside of numbered modules.
 */
static bool match_rule(const tensor_rule *rule, const char *name, size_t len, uint64_t *layer) {
    size_t left = len;
    *layer = UINT64_MAX;
    for (size_t i = strlen(rule->name); i-- > 0;) {
        if (rule->name[i] == '#') {
            size_t begin = number_before(name, left, layer);
            if (begin == left)
                return false;
            left = begin;
        } else if (!left || name[--left] != rule->name[i]) {
            return false;
        }
    }
    if (left && name[left - 1] != '.')
        return false;
    for (size_t i = 0; *layer == UINT64_MAX && i < left; i++)
        if (isdigit((unsigned char)name[i]) && (i == 0 || name[i - 1] == '.'))
            return false;
    return true;
}

static bool match_list(const tensor_rule *rules, const char *name, size_t len, tensor_match *out) {
    for (out->rule = rules; out->rule->name; out->rule++)
        if (match_rule(out->rule, name, len, &out->layer))
            return true;
    return false;
}

bool match_tensor(const architecture *a, const char *name, size_t len, tensor_match *out) {
    const tensor_rule *const *lists = a ? a->rules : decoder_rules;
    bool for_text = !a || a->cache == CACHE_KEY_VALUE || a->cache == CACHE_LATENT;
    if (for_text && is_other_tower(name, len))
        return false;
    for (; *lists; lists++)
        if (match_list(*lists, name, len, out))
            return true;
    return false;
}

bool match_gguf_tensor(const char *name, size_t len, tensor_match *out) {
    return match_list(gguf_rules, name, len, out);
}
