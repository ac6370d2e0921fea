/*
 * Matches names of modules with the patterns of PEFT's settings. An adapter may have as many
 * patterns as modules, so each is compiled once, and plain names are compared as they are.
 */
#include "lora/lora_patterns.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "output/output_plan.h"
#include "view/print.h"

/*
 * regcomp writes out what {N} repeats, N times. A regular expression is tried on every module; to
 * compare a name costs hardly anything.
 */
enum { MOST_REPEATS = 256, MOST_GROUPS = 64, MOST_REGEXES = 1024 };

void lora_patterns_take(const config *c, const char *key, lora_patterns *out) {
    size_t n = strlen(key);
    *out = (lora_patterns){0};
    for (size_t i = 0; i < c->count; i++) {
        const config_entry *e = &c->items[i];
        if (strncmp(e->path, key, n) != 0 || e->path[n] != '.')
            continue;
        out->items = need_next(out->items, out->count, sizeof *out->items);
        lora_pattern *p = &out->items[out->count++];
        *p = (lora_pattern){.pattern = e->path + n + 1, .value = e->value};
        p->len = strlen(p->pattern);
    }
}

void lora_patterns_free(lora_patterns *patterns) {
    for (size_t i = 0; i < patterns->count; i++)
        if (patterns->items[i].kind == PATTERN_REGEX)
            regfree(&patterns->items[i].compiled);
    free(patterns->items);
    *patterns = (lora_patterns){0};
}

static int refuse_pattern(const lora_pattern *p, const char *why) {
    return fail(EXIT_FAILED, "adapter_config.json has the pattern %s, which %s",
                shown_name(p->pattern, p->len), why);
}

/* The last byte of the bracket that begins here: "[a-z]". */
static const char *end_of_bracket(const char *at) {
    at += at[1] == '^' ? 2 : 1;
    if (*at == ']')
        at++;
    while (*at && *at != ']')
        at++;
    return *at ? at : at - 1;
}

/* The last byte of the braces that begin here; adds their largest number, "{2,5}". */
static const char *end_of_braces(const char *at, unsigned long *sum) {
    unsigned long most = 0, number = 0;
    for (at++; *at && *at != '}'; at++) {
        number = *at >= '0' && *at <= '9' ? 10 * number + (unsigned long)(*at - '0') : 0;
        number = number > MOST_REPEATS ? MOST_REPEATS + 1 : number;
        most = number > most ? number : most;
    }
    *sum += most;
    return *at ? at : at - 1;
}

static bool is_repeat(char c) {
    return c && strchr("*+?{", c);
}

/* Repeats of repeats take regcomp a time that grows exponentially. Python refuses "a**" too. */
static bool repeats_too_much(const char *pattern) {
    bool inside[MOST_GROUPS] = {false}; /* whether a group that is open has repeats */
    size_t depth = 0;
    unsigned long sum = 0;
    for (const char *at = pattern; *at; at++) {
        bool repeated = false;
        if (*at == '\\' && at[1]) {
            at++;
        } else if (*at == '[') {
            at = end_of_bracket(at);
        } else if (*at == '(') {
            if (++depth == MOST_GROUPS)
                return true;
            inside[depth] = false;
        } else if (*at == ')' && depth) {
            repeated = inside[depth--];
            inside[depth] = inside[depth] || repeated;
        } else if (is_repeat(*at)) {
            inside[depth] = repeated = true;
            at = *at == '{' ? end_of_braces(at, &sum) : at;
        }
        if (repeated && is_repeat(at[1]))
            return true;
    }
    return sum > MOST_REPEATS;
}

/* Whether POSIX reads what begins here otherwise than Python, or not at all. */
static bool is_unread(const char *at) {
    return (at[0] == '(' && at[1] == '?') || (at[0] && strchr("*+?}", at[0]) && at[1] == '?') ||
           (at[0] == '[' && at[1] && strchr(":.=", at[1])) ||
           (at[0] == '\\' && at[1] != 'd' && !strchr(".[](){}*+?|^$\\-", at[1]));
}

/*
 * Python's regular expressions, as far as POSIX reads them alike: re.match("(.*\.)?(PATTERN)$").
 */
static int compile_regex(lora_pattern *p) {
    text full = {0};
    bool read = true;
    text_addf(&full, "^(.*\\.)?(");
    for (const char *at = p->pattern; *at && read; at++) {
        bool digit = at[0] == '\\' && at[1] == 'd', escaped = at[0] == '\\' && !digit;
        read = !is_unread(at);
        text_add(&full, digit ? "[0-9]" : at, digit ? 5 : escaped && at[1] ? 2 : 1);
        at += digit || (escaped && at[1]);
    }
    text_addf(&full, ")$");
    int code = REG_ESPACE;
    if (read && !repeats_too_much(p->pattern))
        code = regcomp(&p->compiled, full.bytes, REG_EXTENDED | REG_NOSUB);
    text_free(&full);
    if (!read)
        return refuse_pattern(p, "this tool cannot read; write the names of modules instead");
    if (code == REG_ESPACE)
        return refuse_pattern(p, "repeats too much; write the names of modules instead");
    if (code)
        return refuse_pattern(p, "is not valid");
    p->kind = PATTERN_REGEX;
    return EXIT_FINE;
}

/* Plain names need no regular expression: their only special character is the dot. */
static int read_pattern(lora_patterns *all, lora_pattern *p) {
    if (!p->pattern[strcspn(p->pattern, "\\[](){}*+?|^$")]) {
        p->kind = PATTERN_NAME;
        return EXIT_FINE;
    }
    if (++all->regexes > MOST_REGEXES)
        return fail(EXIT_FAILED,
                    "adapter_config.json has more than %d patterns that are regular expressions; "
                    "write the names of modules instead",
                    (int)MOST_REGEXES);
    return compile_regex(p);
}

/* Whether the name is the pattern, or ends with a dot and it. A dot in the pattern is any byte. */
static bool ends_with_name(const lora_pattern *p, const char *name, size_t len) {
    if (len < p->len || (len > p->len && name[len - p->len - 1] != '.'))
        return false;
    const char *end = name + len - p->len;
    for (size_t i = p->len; i-- > 0;) /* names differ in their last part mostly */
        if (p->pattern[i] != end[i] && p->pattern[i] != '.')
            return false;
    return true;
}

int lora_patterns_find(lora_patterns *patterns, const char *name, size_t len, const char **value) {
    text module = {0};
    bool found = false;
    int status = EXIT_FINE;
    text_add(&module, name, len);
    for (size_t i = 0; i < patterns->count && !found && !status; i++) {
        lora_pattern *p = &patterns->items[i];
        if (p->kind == PATTERN_UNREAD)
            status = read_pattern(patterns, p);
        if (p->kind == PATTERN_NAME)
            found = ends_with_name(p, name, len);
        else if (!status)
            found = regexec(&p->compiled, module.bytes ? module.bytes : "", 0, NULL, 0) == 0;
        if (found)
            *value = p->value;
    }
    text_free(&module);
    return status;
}
