/* Lists findings about a model, joins those of one cause, and prints them with a verdict. */
#include "model/findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "metadata.h"
#include "remote/remote.h"
#include "view/json_out.h"
#include "view/print.h"

static const struct severity_look {
    const char *name;
    style shown;
} severities[] = {[TENMAP_FINDING_NOTE] = {"note", STYLE_DIM},
                  [TENMAP_FINDING_WARNING] = {"warning", STYLE_YELLOW},
                  [TENMAP_FINDING_ERROR] = {"error", STYLE_RED}};

static const struct verdict_look {
    const char *shown, *counted, *json;
    style shown_in;
    int exit_code;
} verdicts[] = {
    [VERDICT_FINE] = {"fine", "fine", "fine", STYLE_GREEN, EXIT_FINE},
    [VERDICT_WARNINGS] = {"opens, with warnings", "with warnings", "warnings", STYLE_YELLOW,
                          EXIT_DIFFERENT},
    [VERDICT_REJECTED] = {"rejected", "rejected", "rejected", STYLE_RED, EXIT_REJECTED},
    [VERDICT_INCOMPLETE] = {"incomplete", "incomplete", "incomplete", STYLE_YELLOW, EXIT_FAILED},
};

int verdict_exit_code(verdict v) {
    return verdicts[v].exit_code;
}

const char *verdict_counted_as(verdict v) {
    return verdicts[v].counted;
}

finding_place place_of(const tenmap_tensor *t) {
    return t ? (finding_place){t->shard, t->file_offset, t->name}
             : (finding_place){TENMAP_NO_SHARD, 0, NULL};
}

void findings_add(findings *list, uint32_t severity, const char *code, finding_place at,
                  const char *message) {
    list->items = need_next(list->items, list->count, sizeof *list->items);
    list->items[list->count++] =
        (finding){.severity = severity,
                  .shard = at.shard,
                  .offset = at.offset,
                  .count = 1,
                  .code = code,
                  .tensor = at.tensor ? need_copy(at.tensor, strlen(at.tensor)) : NULL,
                  .message = need_copy(message, strlen(message))};
    list->of[severity]++;
}

void findings_take(void *ctx, const tenmap_finding *f) {
    findings *list = ctx;
    text message = {0};
    text_add_error(&message, f->message, f->remedy);
    findings_add(list, f->severity, tenmap_found_name(f->code),
                 (finding_place){f->shard, f->offset, f->tensor},
                 message.bytes ? message.bytes : "");
    list->items[list->count - 1].remedy = f->remedy;
    list->items[list->count - 1].count = f->count;
    list->items[list->count - 1].called = f->called;
    if (f->global)
        list->items[list->count - 1].global = need_copy(f->global, strlen(f->global));
    text_free(&message);
}

void findings_free(findings *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].tensor);
        free(list->items[i].message);
        free(list->items[i].global);
    }
    free(list->items);
    *list = (findings){0};
}

static bool has_code(const finding *f, uint32_t code) {
    return strcmp(f->code, tenmap_found_name(code)) == 0;
}

verdict findings_verdict(const findings *list) {
    size_t missing = 0;
    for (size_t i = 0; i < list->count; i++)
        missing += list->items[i].severity == TENMAP_FINDING_ERROR &&
                   has_code(&list->items[i], TENMAP_FOUND_MISSING_SHARD);
    if (list->of[TENMAP_FINDING_ERROR])
        return missing == list->of[TENMAP_FINDING_ERROR] ? VERDICT_INCOMPLETE : VERDICT_REJECTED;
    return list->of[TENMAP_FINDING_WARNING] ? VERDICT_WARNINGS : VERDICT_FINE;
}

/* What the pickles want: "wants-code", "data-only"; NULL: there is none, or it is not known. */
static const char *pickle_verdict(const findings *list) {
    for (size_t i = 0; i < list->count; i++)
        if (has_code(&list->items[i], TENMAP_FOUND_CODE))
            return "wants-code";
    return list->pickles ? "data-only" : NULL;
}

/* Causes. */

enum { MOST_EXAMPLES = 3 };

/* A finding, and those that have the same cause. */
typedef struct cause {
    const finding *first;
    bool joined;   /* whether others join it */
    uint64_t more; /* findings beside the first */
    const finding *examples[MOST_EXAMPLES];
    size_t example_count;
} cause;

static bool is_about_file(const finding *f) {
    return f->shard != TENMAP_NO_SHARD && !f->tensor;
}

/* What is cut off a truncated file takes tensors with it; other findings of a kind are alike. */
static bool same_cause(const finding *first, const finding *f) {
    if (first->severity != f->severity)
        return false;
    if (has_code(first, TENMAP_FOUND_TRUNCATED))
        return has_code(f, TENMAP_FOUND_INCOMPLETE) &&
               (f->shard == first->shard || f->shard == TENMAP_NO_SHARD);
    /* One that stands for several names no tensor. */
    return strcmp(first->code, f->code) == 0 && (!first->tensor == !f->tensor || f->count > 1);
}

/*
 * Whether findings of this kind are joined. A few findings about tensors are more useful one by
 * one. What is missing or cut off is one thing, and so is a finding that files share.
 */
static bool is_joined(const findings *list, const finding *first) {
    enum { FEW = 3 };
    uint64_t count = 0;
    if (has_code(first, TENMAP_FOUND_CODE))
        return false; /* each names something else */
    if (is_about_file(first) || has_code(first, TENMAP_FOUND_MISSING_SHARD))
        return true;
    for (size_t i = 0; i < list->count; i++)
        count += same_cause(first, &list->items[i]) ? list->items[i].count : 0;
    return count > FEW;
}

static cause *find_cause(cause *causes, size_t count, const finding *f) {
    for (size_t i = 0; i < count; i++)
        if (same_cause(causes[i].first, f))
            return &causes[i];
    return NULL;
}

/* The causes in the order of their first findings. There are few, because most findings join. */
static cause *find_causes(const findings *list, bool each, size_t *count) {
    cause *causes = need(list->count, sizeof *causes);
    *count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const finding *f = &list->items[i];
        cause *known = each ? NULL : find_cause(causes, *count, f);
        if (known && known->joined) {
            known->more += f->count;
            if (known->example_count < MOST_EXAMPLES && f->count == 1)
                known->examples[known->example_count++] = f;
        } else {
            causes[(*count)++] = (cause){.first = f, .joined = !each && is_joined(list, f)};
        }
    }
    return causes;
}

/* The file that a message begins with, with its quotes; false if it names none. */
static bool add_file(text *t, const char *message) {
    const char *end = end_of_path(message), *name = end;
    while (name && name > message + 1 && name[-1] != '/')
        name--;
    if (end)
        text_addf(t, "\"%.*s\"", (int)(end - name), name);
    return end != NULL;
}

static void add_example(text *t, const finding *f) {
    if (f->tensor) {
        text_addf(t, "\"");
        text_add_safe(t, f->tensor, strlen(f->tensor));
        text_addf(t, "\"");
    } else if (!add_file(t, f->message)) {
        text_addf(t, "…");
    }
}

/* " (and 19 more tensors: "b", "c", "d", …)" */
static void add_more(text *t, const cause *c) {
    bool cut = has_code(c->first, TENMAP_FOUND_TRUNCATED);
    bool tensors = cut || c->first->tensor, files = !tensors && is_about_file(c->first);
    if (c->more < 1 + (uint64_t)cut || has_code(c->first, TENMAP_FOUND_MISSING_SHARD))
        return;
    text_addf(t, cut ? " (" : " (and ");
    text_add_grouped(t, c->more);
    text_addf(t, "%s%s%s%s", cut ? "" : " more",
              tensors ? " tensor"
              : files ? " file"
                      : "",
              (tensors || files) && c->more > 1 ? "s" : "",
              !cut           ? ""
              : c->more == 1 ? " is not complete"
                             : " are not complete");
    /* The message about a truncated file names the first of its tensors. */
    for (size_t i = 0; !cut && i < c->example_count; i++) {
        text_addf(t, i ? ", " : ": ");
        add_example(t, c->examples[i]);
    }
    text_addf(t, !cut && c->more > c->example_count && c->example_count ? ", …)" : ")");
}

/* Text. */

/*
 * Messages begin with the file in quotes. The verdict already names the model, so a file is named
 * again only if the model has several, without its folder.
 */
static void add_without_path(text *t, const char *message, const char *path) {
    const char *end = end_of_path(message), *own = base_name(path), *name = end;
    while (name && name > message + 1 && name[-1] != '/')
        name--;
    bool is_own = end && (size_t)(end - name) == strlen(own) && memcmp(name, own, strlen(own)) == 0;
    text_addf(t, "%s%s", end && !is_own ? "\"" : "", is_own ? end + 3 : end ? name : message);
}

static void print_cause(const cause *c, const char *path) {
    enum { INDENT = 9 };
    const struct severity_look *look = &severities[c->first->severity];
    text line = {0};
    add_without_path(&line, c->first->message, path);
    add_more(&line, c);
    printf("%s%-*s%s", paint(look->shown), INDENT, look->name, paint_end());
    if (print_width() > (size_t)2 * INDENT)
        print_wrapped(line.bytes, INDENT, print_width());
    else
        printf("%s\n", line.bytes);
    text_free(&line);
}

static void print_verdict(const char *path, const findings *list, const size_t *counts) {
    const char *before = ": ", *pickle = pickle_verdict(list);
    verdict v = findings_verdict(list);
    print_safe(stdout, shown_path(path), strlen(shown_path(path)));
    printf(": %s%s%s", paint(verdicts[v].shown_in), verdicts[v].shown, paint_end());
    if (pickle && strcmp(pickle, "wants-code") == 0)
        printf("; %sthe pickle wants code%s", paint(STYLE_RED), paint_end());
    else if (pickle)
        printf("; the pickle is data only");
    for (uint32_t severity = TENMAP_FINDING_ERROR; severity >= TENMAP_FINDING_NOTE; severity--) {
        size_t count = counts[severity];
        if (!count)
            continue;
        printf("%s%zu %s%s", before, count, severities[severity].name, count == 1 ? "" : "s");
        before = ", ";
    }
    putchar('\n');
}

void findings_print(const findings *list, const findings_view *view) {
    size_t count, of[TENMAP_FINDING_ERROR + 1] = {0};
    cause *causes = find_causes(list, view->each, &count);
    for (size_t i = 0; i < count; i++) {
        of[causes[i].first->severity]++;
        if (causes[i].first->severity >= view->least_severity)
            print_cause(&causes[i], view->path);
    }
    print_verdict(view->path, list, of);
    free(causes);
}

/* JSON. */

static void finding_json(const finding *f) {
    json_open('{', true);
    json_key_text("severity", severities[f->severity].name, TENMAP_CSTR);
    json_key_text("code", f->code, TENMAP_CSTR);
    if (f->shard != TENMAP_NO_SHARD)
        json_key_uint("shard", f->shard);
    json_key_uint("offset", f->offset);
    if (f->tensor)
        json_key_text("tensor", f->tensor, TENMAP_CSTR);
    if (f->count != 1)
        json_key_uint("count", f->count);
    if (f->global) {
        json_key_text("global", f->global, TENMAP_CSTR);
        json_key_bool("called", f->called);
    }
    json_key_text("message", f->message, TENMAP_CSTR);
    if (f->remedy)
        json_key_text("remedy", tenmap_remedy_name(f->remedy), TENMAP_CSTR);
    json_close();
}

void findings_json(const findings *list, const findings_view *view) {
    json_open('{', false);
    json_key_text("model", shown_path(view->path), TENMAP_CSTR);
    json_key_text("verdict", verdicts[findings_verdict(list)].json, TENMAP_CSTR);
    if (pickle_verdict(list))
        json_key_text("pickle", pickle_verdict(list), TENMAP_CSTR);
    json_key_uint("errors", list->of[TENMAP_FINDING_ERROR]);
    json_key_uint("warnings", list->of[TENMAP_FINDING_WARNING]);
    json_key_uint("notes", list->of[TENMAP_FINDING_NOTE]);
    json_key("findings");
    json_open('[', false);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].severity >= view->least_severity)
            finding_json(&list->items[i]);
    json_close();
    json_close();
}
