/* Parses sed-like substitutions, s/REGEX/NEW/g, and applies them to names. */
#include "compare/regex_rename.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/*
 * Copies up to an unescaped separator; an escaped one loses its backslash. Returns NULL if there is
 * none.
 */
static char *take_field(const char **at, char separator) {
    char *field = need(strlen(*at) + 1, 1);
    size_t n = 0;
    const char *p = *at;
    for (; *p && *p != separator; p++) {
        if (*p == '\\' && p[1] == separator)
            p++;
        else if (*p == '\\' && p[1])
            field[n++] = *p++;
        field[n++] = *p;
    }
    if (!*p) {
        free(field);
        return NULL;
    }
    *at = p + 1;
    return field;
}

/* Rejects references to groups that the expression does not have; they would silently be empty. */
static int check_references(const substitution *s, const char *given) {
    for (const char *p = s->replacement; *p; p++) {
        if (*p != '\\' || !p[1])
            continue;
        p++;
        if (*p >= '1' && *p <= '9' && (size_t)(*p - '0') > s->regex.re_nsub)
            return fail(EXIT_USAGE, "'%s' refers to \\%c, but has %zu groups", given, *p,
                        s->regex.re_nsub);
    }
    return EXIT_FINE;
}

static int parse_substitution(const char *given, substitution *out) {
    const char *at = given + 2;
    char *pattern = NULL;
    int code = 0;
    *out = (substitution){.replacement = NULL};
    if (given[0] == 's' && given[1] && given[1] != '\\')
        pattern = take_field(&at, given[1]);
    if (pattern)
        out->replacement = take_field(&at, given[1]);
    bool valid = out->replacement && (!*at || strcmp(at, "g") == 0);
    out->everywhere = valid && *at == 'g';
    if (valid)
        code = regcomp(&out->regex, pattern, REG_EXTENDED);
    free(pattern);
    if (!valid || code) {
        char why[200] = "it should look like 's/^model\\.//' or 's/a/b/g'";
        if (code)
            regerror(code, &out->regex, why, sizeof why);
        free(out->replacement);
        fail(EXIT_USAGE, "'%s' is not a substitution: %s", given, why);
        return EXIT_USAGE;
    }
    int status = check_references(out, given);
    if (status) {
        regfree(&out->regex);
        free(out->replacement);
    }
    return status;
}

static void add_replacement(text *to, const substitution *s, const char *name,
                            const regmatch_t *match) {
    for (const char *p = s->replacement; *p; p++) {
        int group = *p == '&' ? 0 : *p == '\\' && p[1] >= '0' && p[1] <= '9' ? p[1] - '0' : -1;
        p += *p == '\\' && p[1];
        if (group < 0)
            text_add(to, p, 1);
        else if (match[group].rm_so >= 0)
            text_add(to, name + match[group].rm_so,
                     (size_t)(match[group].rm_eo - match[group].rm_so));
    }
}

/*
 * Like regexec, but passes the length if the system supports it; otherwise each call would count
 * the remaining bytes.
 */
static bool matches(const substitution *s, const char *name, size_t len, regmatch_t *match,
                    int flags) {
#ifdef REG_STARTEND
    match[0] = (regmatch_t){.rm_so = 0, .rm_eo = (regoff_t)len};
    flags |= REG_STARTEND;
#else
    (void)len;
#endif
    return regexec(&s->regex, name, 10, match, flags) == 0;
}

/*
 * Applies one substitution as sed does: no empty match right after another match. Returns whether
 * it matched.
 */
static bool substitute(const substitution *s, const text *from, text *to) {
    const char *name = from->bytes, *end = name + from->len;
    regmatch_t match[10];
    int flags = 0;
    bool found = false, behind = false;
    text_clear(to);
    while (matches(s, name, (size_t)(end - name), match, flags)) {
        bool empty = match[0].rm_eo == match[0].rm_so;
        text_add(to, name, (size_t)match[0].rm_so);
        if (!empty || !behind || match[0].rm_so > 0) {
            add_replacement(to, s, name, match);
            found = true;
        }
        name += match[0].rm_eo;
        bool at_end = !*name;
        if (empty && *name)
            do /* a character, not a byte */
                text_add(to, name++, 1);
            while (((unsigned char)*name & 0xc0) == 0x80);
        if (!s->everywhere || at_end)
            break;
        behind = !empty;
        flags = REG_NOTBOL;
    }
    text_add(to, name, (size_t)(end - name));
    return found;
}

void substitute_all(const substitution *list, size_t count, const char *name, size_t len,
                    text *out) {
    text next = {0};
    text_clear(out);
    text_add(out, name, len);
    for (size_t k = 0; k < count; k++) {
        if (!substitute(&list[k], out, &next))
            continue;
        text swap = *out;
        *out = next;
        next = swap;
    }
    text_free(&next);
}

int substitutions_parse(const char *const *given, size_t count, substitution **out) {
    substitution *list = need(count, sizeof *list);
    setlocale(LC_CTYPE, "C.UTF-8"); /* so that . is a character, not a byte */
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        int status = parse_substitution(given[i], &list[i]);
        if (status) {
            substitutions_free(list, i);
            return status;
        }
    }
    *out = list;
    return EXIT_FINE;
}

void substitutions_free(substitution *list, size_t count) {
    for (size_t i = 0; list && i < count; i++) {
        regfree(&list[i].regex);
        free(list[i].replacement);
    }
    free(list);
}
