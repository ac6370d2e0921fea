/* rename: tensors under other names, by regular expression or one by one. */
#include <locale.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "print.h"
#include "reshape.h"

typedef struct rename_settings {
    output_settings out;
    texts maps;
} rename_settings;

static const option rename_options[] = {
    {0, "map", "OLD=NEW", OPTION_LIST, offsetof(rename_settings, maps),
     "Rename this one tensor; expressions do not apply to it"},
    SHARD_OPTIONS(offsetof(rename_settings, out)),
    OUTPUT_OPTIONS(offsetof(rename_settings, out)),
    END_OF_OPTIONS,
};

static const example rename_examples[] = {
    {"tenmap rename model.safetensors 's/^model\\.//' -o out.safetensors", "without a prefix"},
    {"tenmap rename unet/ 's/\\.to_(q|k|v)\\./.\\1_proj./' 's/_/-/g' -o unet2",
     "several, one after the other"},
    {"tenmap rename model.safetensors --map head.weight=lm_head.weight -o out.safetensors",
     "a single tensor"},
    {NULL, NULL},
};

typedef struct substitution {
    regex_t regex;
    char *replacement; /* as given: \1 to \9 and & stand for what was matched */
    bool everywhere;
} substitution;

/* Copies up to an unescaped separator; an escaped one loses its backslash. NULL without one. */
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

/* References that the expression has no group for would silently be empty. */
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

/* As regexec, which would count the bytes that are left each time, where the system can be told them. */
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

/* Applies one substitution as sed does: no empty match right behind another one. Whether it matched. */
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

static void rename_one(plan *p, size_t i, const substitution *list, size_t count) {
    const tenmap_tensor *t = p->sources[i].tensor;
    text now = {0}, next = {0};
    text_add(&now, t->name, t->name_len);
    for (size_t k = 0; k < count; k++) {
        if (!substitute(&list[k], &now, &next))
            continue;
        text swap = now;
        now = next;
        next = swap;
    }
    text_free(&next);
    if (now.len == t->name_len && memcmp(now.bytes, t->name, now.len) == 0)
        text_free(&now);
    else
        plan_rename(p, i, now.bytes, now.len);
}

/* Both names may hold '=': the first one that ends the name of a tensor separates them. */
static int apply_map(plan *p, const char *given) {
    const tenmap_tensor *t = NULL;
    const char *equals = strchr(given, '=');
    if (!equals)
        return fail(EXIT_USAGE, "--map takes OLD=NEW, not '%s'", given);
    size_t len = (size_t)(equals - given);
    for (const char *e = equals; e && !t; e = strchr(e + 1, '=')) {
        t = tenmap_find_n(p->models[0], given, (size_t)(e - given));
        equals = e;
    }
    if (!t)
        return fail(EXIT_FAILED, "there is no tensor %s to rename", shown_name(given, len));
    for (size_t i = 0; i < p->count; i++)
        if (p->sources[i].tensor == t)
            plan_rename(p, i, need_copy(equals + 1, strlen(equals + 1)), strlen(equals + 1));
    return EXIT_FINE;
}

static int check_names(const plan *p, bool any) {
    size_t a, b, len;
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        const char *shown = shown_name(s->tensor->name, s->tensor->name_len);
        if (s->name && !s->name_len)
            return fail(EXIT_FAILED, "tensor %s would have no name at all", shown);
        if (s->name && strcmp(s->name, "__metadata__") == 0)
            return fail(EXIT_FAILED, "tensor %s cannot be called __metadata__", shown);
    }
    if (plan_twins(p, &a, &b)) {
        const tenmap_tensor *x = p->sources[a].tensor, *y = p->sources[b].tensor;
        const char *name = plan_name(p, a, &len);
        return fail(EXIT_FAILED, "%s and %s would both be called %s",
                    shown_name(x->name, x->name_len), shown_name(y->name, y->name_len),
                    shown_name(name, len));
    }
    if (!any)
        warn("no name changes");
    return EXIT_FINE;
}

/* Regular expressions end at NUL: names that hold one stay as they are. */
static int plan_renames(plan *p, const rename_settings *set, const substitution *list,
                        size_t count) {
    size_t with_nul = 0;
    for (size_t i = 0; i < tenmap_count(p->models[0]); i++)
        plan_add(p, tenmap_at(p->models[0], i));
    for (size_t i = 0; i < set->maps.count; i++) {
        int status = apply_map(p, set->maps.items[i]);
        if (status)
            return status;
    }
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_tensor *t = p->sources[i].tensor;
        bool nul = memchr(t->name, '\0', t->name_len) != NULL;
        with_nul += nul && count;
        if (!nul && !p->sources[i].name)
            rename_one(p, i, list, count);
    }
    if (with_nul)
        warn("%zu %s a NUL character and stay%s", with_nul,
             with_nul == 1 ? "name holds" : "names hold",
             with_nul == 1 ? "s as it is" : " as they are");
    return check_names(p, p->name_count > 0);
}

static int rename_run(const invocation *call) {
    const rename_settings *set = call->settings;
    plan p = {0};
    size_t wanted = call->operand_count - 1, count = 0;
    substitution *list = need(wanted, sizeof *list);
    int status = EXIT_FINE;
    if (!wanted && !set->maps.count)
        status = fail(EXIT_USAGE, "say how: 's/^model\\.//', or --map OLD=NEW");
    setlocale(LC_CTYPE, "C.UTF-8"); /* so that . is a character, not a byte */
    for (; !status && count < wanted; count += !status)
        status = parse_substitution(call->operands[count + 1], &list[count]);
    if (!status)
        status = plan_open(&p, "renaming", call->operands, 1);
    if (!status)
        status = plan_renames(&p, set, list, count);
    if (!status)
        status = plan_write(&p, &set->out);
    plan_free(&p);
    while (count--) {
        regfree(&list[count].regex);
        free(list[count].replacement);
    }
    free(list);
    return status;
}

const command cmd_rename = {
    .name = "rename",
    .summary = "Rename tensors by regular expression",
    .operands = "MODEL [s/REGEX/NEW/[g]...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = rename_options,
    .details =
        "Expressions are POSIX extended ones, as sed -E takes them; they apply one after the\n"
        "other. \\1 to \\9 stand for groups, & for all that matched; any character may take\n"
        "the place of the slash. Two tensors that would get one name are refused. Only the\n"
        "index of a model in shards is rebuilt; other files that name tensors are not.\n"
        "\n" OUTPUT_DETAILS,
    .examples = rename_examples,
    .settings_size = sizeof(rename_settings),
    .run = rename_run,
};
