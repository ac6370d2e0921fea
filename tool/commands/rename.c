/* rename: renames tensors, by regular expression or one by one. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/json_out.h"
#include "metadata.h"
#include "view/print.h"
#include "output/output_write.h"
#include "compare/regex_rename.h"

typedef struct rename_settings {
    output_settings out;
    texts maps;
    bool in_place, follow, no_copy;
} rename_settings;

static const option rename_options[] = {
    {0, "map", "OLD=NEW", OPTION_LIST, offsetof(rename_settings, maps),
     "Rename one tensor; expressions do not apply to it"},
    {'i', "in-place", NULL, OPTION_SWITCH, offsetof(rename_settings, in_place),
     "Change MODEL itself; its data stays in place if the new names fit into the header"},
    {0, "follow", NULL, OPTION_SWITCH, offsetof(rename_settings, follow),
     "With --in-place: if MODEL is a symbolic link, change its target"},
    {0, "no-copy", NULL, OPTION_SWITCH, offsetof(rename_settings, no_copy),
     "With --in-place: fail rather than copy the model's data"},
    SHARD_OPTIONS(offsetof(rename_settings, out)),
    OUTPUT_OPTIONS(offsetof(rename_settings, out)),
    END_OF_OPTIONS,
};

static const example rename_examples[] = {
    {"tenmap rename model.safetensors 's/^model\\.//' -o out.safetensors", "without a prefix"},
    {"tenmap rename unet/ 's/\\.to_(q|k|v)\\./.\\1_proj./' 's/_/-/g' -o unet2",
     "several, one after the other"},
    {"tenmap rename model.safetensors --map head.weight=classifier.weight -o out.safetensors",
     "a single tensor"},
    {"tenmap rename model.safetensors 's/^model\\.//' --in-place",
     "in the file itself, in moments"},
    {NULL, NULL},
};

static void rename_one(plan *p, size_t i, const substitution *list, size_t count) {
    const tenmap_tensor *t = p->sources[i].tensor;
    text now = {0};
    substitute_all(list, count, t->name, t->name_len, &now);
    if (now.len == t->name_len && memcmp(now.bytes, t->name, now.len) == 0)
        text_free(&now);
    else
        plan_rename(p, i, now.bytes, now.len);
}

/* Both names may contain '=': the first one that ends a tensor's name separates them. */
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
            return fail(EXIT_FAILED, "tensor %s would have an empty name", shown);
        if (s->name && strcmp(s->name, "__metadata__") == 0)
            return fail(EXIT_FAILED, "tensor %s cannot be called __metadata__", shown);
    }
    if (plan_find_duplicate_names(p, &a, &b)) {
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

/* Regular expressions stop at NUL, so names that contain one are not renamed. */
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

/* Renaming in place. */

/* Refuses sharded models: the index lists the names, and several files cannot change atomically. */
static int check_in_place(const plan *p, const rename_settings *set, const char *given) {
    const output_settings *out = &set->out;
    if (out->path || out->single || out->max_shard || out->copy_config || out->no_config)
        return fail(EXIT_USAGE, "--in-place changes the model itself: leave out -o and the options "
                                "about what -o writes");
    if (tenmap_shard_count(p->models[0]) != 1 || tenmap_index_json(p->models[0], NULL))
        return fail(EXIT_FAILED,
                    "'%s' has an index or several files, which cannot change in one step: write a "
                    "new one with -o OUT; with --force, OUT may be '%s'",
                    given, given);
    return EXIT_FINE;
}

static void report_in_place(const plan *p, const rename_settings *set, const char *path,
                            uint32_t how) {
    text line = {0};
    if (set->out.json) {
        json_open('{', false);
        json_key_text("output", path, TENMAP_CSTR);
        json_key_bool("written", !set->out.dry_run);
        if (how)
            json_key_text("method", edit_method(how), TENMAP_CSTR);
        json_key_uint("tensors", p->count);
        json_key_uint("renamed", p->name_count);
        json_key("changes");
        json_open('[', false);
        for (size_t i = 0; i < p->count; i++) {
            const tenmap_source *s = &p->sources[i];
            if (!s->name)
                continue;
            json_open('{', true);
            json_key_text("name", s->tensor->name, s->tensor->name_len);
            json_key_text("new_name", s->name, s->name_len);
            json_close();
        }
        json_close();
        json_close();
        return;
    }
    if (set->out.dry_run && p->name_count)
        plan_print_renames(p);
    text_add_safe(&line, base_name(path), strlen(base_name(path)));
    if (!p->name_count && !set->out.meta.count) {
        printf("%s: nothing to change\n", line.bytes);
        text_free(&line);
        return;
    }
    text_addf(&line, ": %s%zu of %zu tensor%s", set->out.dry_run ? "would rename " : "",
              p->name_count, p->count, p->count == 1 ? "" : "s");
    if (how)
        text_addf(&line, " renamed, %s", edit_way(how));
    puts(line.bytes);
    text_free(&line);
}

static int change_in_place(const plan *p, const rename_settings *set, const char *path) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    tenmap_renaming *names = need(p->name_count, sizeof *names);
    tenmap_edit *edits = need(set->out.meta.count, sizeof *edits);
    tenmap_error error;
    size_t count = 0;
    uint32_t how = 0;
    int status = EXIT_FINE;
    options.flags = (set->follow ? (uint32_t)TENMAP_EDIT_FOLLOW_LINKS : 0) |
                    (set->no_copy ? (uint32_t)TENMAP_EDIT_NO_COPY : 0);
    for (size_t i = 0; i < set->out.meta.count && !status; i++)
        status = parse_meta(set->out.meta.items[i], &edits[i]);
    for (size_t i = 0; i < p->count; i++) {
        const tenmap_source *s = &p->sources[i];
        if (s->name)
            names[count++] =
                (tenmap_renaming){s->tensor->name, s->tensor->name_len, s->name, s->name_len};
    }
    if (!status && !set->out.dry_run &&
        tenmap_rename(path, names, count, edits, set->out.meta.count, &options, &how, &error) !=
            TENMAP_OK)
        status = fail_error(&error);
    if (!status)
        report_in_place(p, set, path, how);
    free(names);
    free(edits);
    return status;
}

static int rename_write(plan *p, const rename_settings *set, const char *given) {
    if (!set->in_place)
        return plan_write(p, &set->out);
    int status = check_in_place(p, set, given);
    return status ? status : change_in_place(p, set, tenmap_shard_at(p->models[0], 0)->path);
}

static int rename_run(const invocation *call) {
    const rename_settings *set = call->settings;
    plan p = {0};
    size_t wanted = call->operand_count - 1;
    substitution *list = NULL;
    int status = EXIT_FINE;
    if (!wanted && !set->maps.count)
        status = fail(EXIT_USAGE, "say how to rename: 's/^model\\.//', or --map OLD=NEW");
    else if (!set->out.path && !set->in_place)
        status = fail(EXIT_USAGE, "say where to write: -o OUT, or --in-place to change the model "
                                  "itself");
    else if ((set->follow || set->no_copy) && !set->in_place)
        status = fail(EXIT_USAGE, "--follow and --no-copy need --in-place");
    if (!status)
        status = substitutions_parse(call->operands + 1, wanted, &list);
    if (!status)
        status = plan_open(&p, "renaming", call->operands, 1);
    if (!status)
        status = plan_renames(&p, set, list, wanted);
    if (!status)
        status = rename_write(&p, set, call->operands[0]);
    plan_free(&p);
    substitutions_free(list, wanted);
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
        "Expressions are POSIX extended ones, as in sed -E, and apply one after the other. \\1\n"
        "to \\9 stand for groups, & for the whole match; any character may replace the slash.\n"
        "Two tensors may not get the same name. The index of a sharded model is rebuilt; other\n"
        "files that name tensors are not.\n"
        "\n"
        "--in-place changes one file itself: all names or none. If they fit into the header,\n"
        "the data stays in place. Otherwise a new file shares the data's blocks, if the file\n"
        "system supports that; otherwise the data is copied. After a crash, 'tenmap meta MODEL\n"
        "repair' finishes or undoes the change.\n"
        "\n" OUTPUT_DETAILS,
    .examples = rename_examples,
    .settings_size = sizeof(rename_settings),
    .run = rename_run,
};
