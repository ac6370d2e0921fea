/* meta: shows and changes a model's metadata. The tensor data stays in place if possible. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "open_model.h"
#include "run_editor.h"
#include "json_string_map.h"
#include "view/json_out.h"
#include "metadata.h"
#include "metadata_values.h"
#include "model/gguf_metadata.h"
#include "view/print.h"
#include "remote/remote.h"
#include "suggest.h"
#include "tensor_patterns.h"

typedef struct meta_settings {
    const char *shard, *type;
    bool json, tsv, dry_run, follow, no_copy, undo;
    texts keep;
} meta_settings;

#define AT(field) offsetof(meta_settings, field)
static const option meta_options[] = {
    {'s', "shard", "N", OPTION_TEXT, AT(shard),
     "Change only this shard: its number from 1, or its file name"},
    {'n', "dry-run", NULL, OPTION_SWITCH, AT(dry_run),
     "Print what would change, and change nothing"},
    {0, "follow", NULL, OPTION_SWITCH, AT(follow),
     "If MODEL is a symbolic link, change its target"},
    {0, "no-copy", NULL, OPTION_SWITCH, AT(no_copy), "Fail rather than copy the model's data"},
    {0, "undo", NULL, OPTION_SWITCH, AT(undo),
     "With repair: restore the file as it was before the edit"},
    {0, "keep", "KEY", OPTION_LIST, AT(keep),
     "With clear: keep these keys; may be a pattern, and may be given more than once"},
    {0, "type", "TYPE", OPTION_TEXT, AT(type),
     "With set, of a GGUF file: string, bool, u8 to u64, i8 to i64, f32 or f64; without it, a key "
     "keeps its type, and a new key is a string"},
    {0, "json", NULL, OPTION_SWITCH, AT(json), "List as JSON"},
    {0, "tsv", NULL, OPTION_SWITCH, AT(tsv), "List as tab-separated values"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

static const example meta_examples[] = {
    {"tenmap meta model.safetensors", "all pairs"},
    {"tenmap meta model.safetensors get format", "one value, as it is"},
    {"tenmap meta model.safetensors set format pt license mit", "two pairs at once"},
    {"tenmap meta model.safetensors rm 'ss_*'", "removes the keys of a training run"},
    {"tenmap meta model.safetensors clear --keep format", "removes everything except the format"},
    {"tenmap meta model.gguf set llama.context_length 8192", "a number keeps its type"},
    {"tenmap meta model.safetensors edit", "all of it in $EDITOR, as JSON"},
    {"tenmap meta model.safetensors repair", "after a crash in the middle of a change"},
    {NULL, NULL},
};

typedef struct meta_call {
    const meta_settings *set;
    const char *path;
    const char **words; /* operands after the action */
    size_t word_count;
    tenmap_model *model;
    metadata_finder pairs;
    size_t first, end; /* the range of shards that --shard selects */
} meta_call;

/* A change, and the bytes of its value if that is a number. */
typedef struct meta_edit {
    tenmap_edit edit;
    const char *shown; /* the value as text; NULL: the key is removed */
    size_t shown_len;
    number_value number;
} meta_edit;

static const char *shard_name(const meta_call *c, size_t shard) {
    return base_name(tenmap_shard_at(c->model, shard)->path);
}

/* A set of GGUF parts has its pairs in the first one; the others have only split.* and the like. */
static int choose_shards(meta_call *c, bool changing) {
    size_t count = tenmap_shard_count(c->model);
    c->first = 0;
    c->end = changing && count && is_gguf(c->model) ? 1 : count;
    if (!c->set->shard)
        return EXIT_FINE;
    char *rest;
    unsigned long number = strtoul(c->set->shard, &rest, 10);
    for (size_t i = 0; i < count; i++) {
        if ((!*rest && number == i + 1) || strcmp(shard_name(c, i), c->set->shard) == 0) {
            c->first = i;
            c->end = i + 1;
            return EXIT_FINE;
        }
    }
    return fail(EXIT_FAILED, "there is no shard '%s'; shards are numbered 1 to %zu", c->set->shard,
                count);
}

static const tenmap_metadata *find_pair(const meta_call *c, size_t shard, const char *key,
                                        size_t len) {
    const metadata_entry *found = metadata_find(&c->pairs, shard, key, len);
    return found ? found->pair : NULL;
}

static bool in_shards(const meta_call *c, const tenmap_metadata *pair) {
    return pair->shard >= c->first && pair->shard < c->end;
}

static int list_tsv(const meta_call *c) {
    text line = {0};
    puts("key\tvalue\tfile");
    for (size_t i = 0; i < tenmap_metadata_count(c->model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(c->model, i);
        const char *file = shard_name(c, pair->shard);
        if (!in_shards(c, pair))
            continue;
        text_clear(&line);
        text_add_field(&line, pair->key, pair->key_len);
        text_add(&line, "\t", 1);
        if (pair->type == TENMAP_VALUE_ARRAY)
            metadata_add_value(&line, pair, 0);
        else
            text_add_field(&line, pair->value, pair->value_len);
        text_add(&line, "\t", 1);
        text_add_field(&line, file, strlen(file));
        puts(line.bytes);
    }
    text_free(&line);
    return EXIT_FINE;
}

static int list_json(const meta_call *c) {
    json_open('[', false);
    for (size_t i = 0; i < tenmap_metadata_count(c->model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(c->model, i);
        if (in_shards(c, pair))
            metadata_json_pair(c->model, pair);
    }
    json_close();
    return EXIT_FINE;
}

static int list(meta_call *c) {
    size_t width = print_width();
    if (c->set->json)
        return list_json(c);
    if (c->set->tsv)
        return list_tsv(c);
    metadata_range range = {c->first, c->end, width ? (width > 60 ? width - 40 : 30) : 0, 0, ""};
    if (metadata_print(c->model, &range) == 0)
        puts("no metadata");
    return EXIT_FINE;
}

static int no_such_key(const meta_call *c, const char *key) {
    suggestion best = {0};
    text word = {0};
    for (size_t i = 0; i < tenmap_metadata_count(c->model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(c->model, i);
        suggest(&best, key, strlen(key), pair->key, pair->key_len);
    }
    text_add_safe(&word, best.word ? best.word : "", best.len);
    int status = best.word
                     ? fail(EXIT_FAILED, "there is no key '%s'; did you mean %s?", key, word.bytes)
                     : fail(EXIT_FAILED, "there is no key '%s'", key);
    text_free(&word);
    return status;
}

/* Prints all elements, one per line, escaped so that each stays on its line. */
static void print_array(const tenmap_metadata *pair) {
    tenmap_value array, element;
    text line = {0};
    tenmap_metadata_value(pair, &array);
    while (tenmap_value_next(&array, &element)) {
        text_clear(&line);
        if (element.type == TENMAP_VALUE_STRING) {
            text_add_safe(&line, element.raw, (size_t)element.raw_bytes);
        } else if (element.type == TENMAP_VALUE_ARRAY) {
            text_addf(&line, "[%llu values]", (unsigned long long)element.count);
        } else {
            char number[40];
            text_add(&line, number, tenmap_value_text(&element, number, sizeof number));
        }
        puts(line.len ? line.bytes : "");
    }
    text_free(&line);
}

/*
 * On a terminal, prints line breaks and tabs, and escapes everything else that it could interpret.
 * A pipe gets the exact value.
 */
static void print_value(const tenmap_metadata *pair) {
    if (pair->type == TENMAP_VALUE_ARRAY) {
        print_array(pair);
        return;
    }
    if (!print_width()) {
        fwrite(pair->value, 1, pair->value_len, stdout);
    } else {
        text safe = {0};
        for (size_t i = 0, n; i < pair->value_len; i += n + 1) {
            const char *at = pair->value + i;
            for (n = 0; i + n < pair->value_len && at[n] != '\n' && at[n] != '\t';)
                n++;
            text_add_visible(&safe, at, n);
            text_add(&safe, at + n, i + n < pair->value_len);
        }
        fwrite(safe.bytes ? safe.bytes : "", 1, safe.len, stdout);
        text_free(&safe);
    }
    putchar('\n');
}

static int get(meta_call *c) {
    const char *key = c->words[0];
    for (size_t shard = c->first; shard < c->end; shard++) {
        const tenmap_metadata *pair = find_pair(c, shard, key, strlen(key));
        if (pair) {
            print_value(pair);
            return EXIT_FINE;
        }
    }
    return no_such_key(c, key);
}

/* Whether the edit changes anything in this shard. */
static bool changes(const meta_call *c, size_t shard, const meta_edit *e) {
    const tenmap_metadata *old = find_pair(c, shard, e->edit.key, e->edit.key_len);
    uint32_t type = e->edit.typed ? e->edit.typed->type : (uint32_t)TENMAP_VALUE_STRING;
    if (!e->shown || !old)
        return (e->shown != NULL) != (old != NULL);
    return old->type != type || old->value_len != e->shown_len ||
           memcmp(old->value, e->shown, e->shown_len) != 0;
}

static void print_change(const meta_call *c, size_t shard, const meta_edit *e) {
    const tenmap_metadata *old = find_pair(c, shard, e->edit.key, e->edit.key_len);
    size_t columns = print_width() ? 30 : 0;
    text t = {0};
    text_addf(&t, "  %s%c%s ",
              paint(!old       ? STYLE_GREEN
                    : e->shown ? STYLE_YELLOW
                               : STYLE_RED),
              !old       ? '+'
              : e->shown ? '~'
                         : '-',
              paint_end());
    text_add_short(&t, e->edit.key, e->edit.key_len, columns);
    text_addf(&t, ": ");
    if (old && old->type == TENMAP_VALUE_ARRAY)
        text_addf(&t, "[%llu values]", (unsigned long long)old->count);
    else if (old)
        text_add_short(&t, old->value, old->value_len, columns);
    text_addf(&t, old && e->shown ? " → " : "");
    if (e->shown)
        text_add_short(&t, e->shown, e->shown_len, columns);
    if (e->edit.typed)
        text_addf(&t, " (%s)", value_type_name(e->edit.typed->type));
    puts(t.bytes);
    text_free(&t);
}

static int edit_shard(const meta_call *c, size_t shard, const tenmap_edit *edits, size_t count) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    tenmap_error error;
    uint32_t how = 0;
    options.flags = (c->set->follow ? (uint32_t)TENMAP_EDIT_FOLLOW_LINKS : 0) |
                    (c->set->no_copy ? (uint32_t)TENMAP_EDIT_NO_COPY : 0);
    if (interrupted())
        return fail(EXIT_INTERRUPTED, "interrupted before %s", shard_name(c, shard));
    if (tenmap_edit_metadata(tenmap_shard_at(c->model, shard)->path, edits, count, &options, &how,
                             &error) != TENMAP_OK)
        return fail_error(&error);
    print_safe(stdout, shard_name(c, shard), strlen(shard_name(c, shard)));
    printf(": %s\n", edit_way(how));
    return EXIT_FINE;
}

/* Applies all edits to all selected shards; shards without changes are left alone. */
static int apply(const meta_call *c, const meta_edit *edits, size_t count) {
    tenmap_edit *needed = need(count, sizeof *needed);
    int status = EXIT_FINE;
    bool any = false;
    catch_interrupts();
    for (size_t shard = c->first; shard < c->end && !status; shard++) {
        size_t n = 0;
        for (size_t i = 0; i < count; i++)
            if (changes(c, shard, &edits[i]))
                needed[n++] = edits[i].edit;
        if (!n)
            continue;
        any = true;
        if (!c->set->dry_run) {
            status = edit_shard(c, shard, needed, n);
            continue;
        }
        print_safe(stdout, shard_name(c, shard), strlen(shard_name(c, shard)));
        puts(":");
        for (size_t i = 0; i < count; i++)
            if (changes(c, shard, &edits[i]))
                print_change(c, shard, &edits[i]);
    }
    if (!any || c->set->dry_run)
        puts(any ? "dry run: nothing was changed" : "nothing to change");
    free(needed);
    return status;
}

static int refuse_value(const char *key, const char *value, size_t len, uint32_t type) {
    text shown = {0};
    text_add_safe(&shown, value, len);
    int status = fail(EXIT_USAGE, "'%s': '%s' is not a value of type %s", key,
                      shown.bytes ? shown.bytes : "", value_type_name(type));
    text_free(&shown);
    return status;
}

/*
 * Describes a change of a key to a value, of which `out` keeps pointers. In a GGUF file the value
 * has the type that --type names, else the key's. Returns 0 or an exit code.
 */
static int make_edit(const meta_call *c, const json_pair *to, meta_edit *out) {
    const tenmap_metadata *old = find_pair(c, c->first, to->key, to->key_len);
    bool gguf = is_gguf(c->model);
    uint32_t type = gguf && old ? old->type : (uint32_t)TENMAP_VALUE_STRING;
    text key = {0};
    *out = (meta_edit){.edit = {to->key, to->key_len, NULL, 0, NULL},
                       .shown = to->value,
                       .shown_len = to->value_len};
    if (c->set->type && !value_type_from_name(c->set->type, &type))
        return fail(EXIT_USAGE,
                    "--type: '%s' is not a type; expected string, bool, u8, u16, u32, u64, i8, "
                    "i16, i32, i64, f32 or f64",
                    c->set->type);
    text_add_safe(&key, to->key, to->key_len);
    int status = EXIT_FINE;
    if (c->set->type && !gguf && type != TENMAP_VALUE_STRING)
        status =
            fail(EXIT_USAGE, "--type %s: only GGUF files have values with types", c->set->type);
    else if (old && type == TENMAP_VALUE_ARRAY)
        status = fail(EXIT_FAILED,
                      "'%s' is an array of %llu values, which cannot be edited as text; give "
                      "--type to replace it by a single value",
                      key.bytes ? key.bytes : "", (unsigned long long)old->count);
    else if (type == TENMAP_VALUE_STRING)
        out->edit.value = to->value, out->edit.value_len = to->value_len;
    else if (!parse_number_value(to->value, to->value_len, type, &out->number))
        status = refuse_value(key.bytes ? key.bytes : "", to->value, to->value_len, type);
    else
        out->edit.typed = &out->number.value;
    text_free(&key);
    return status;
}

static int set_pairs(meta_call *c) {
    if (c->word_count % 2)
        return fail(EXIT_USAGE, "set takes pairs, and '%s' has no value",
                    c->words[c->word_count - 1]);
    size_t count = c->word_count / 2;
    meta_edit *edits = need(count, sizeof *edits);
    int status = EXIT_FINE;
    for (size_t i = 0; i < count && !status; i++) {
        json_pair pair = {.key = (char *)c->words[2 * i],
                          .key_len = strlen(c->words[2 * i]),
                          .value = (char *)c->words[2 * i + 1],
                          .value_len = strlen(c->words[2 * i + 1])};
        status = make_edit(c, &pair, &edits[i]);
    }
    if (!status)
        status = apply(c, edits, count);
    free(edits);
    return status;
}

/* Words that select keys: each is a key or, if no selected shard has that key, a pattern. */
typedef struct key_words {
    const char **words; /* the keys first, sorted; then the patterns */
    size_t key_count, count;
} key_words;

static int compare_words(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_pair_to_word(const void *pair, const void *word) {
    const tenmap_metadata *p = pair;
    const char *w = *(const char *const *)word;
    size_t len = strlen(w), least = p->key_len < len ? p->key_len : len;
    int order = memcmp(p->key, w, least);
    return order ? order : (p->key_len > len) - (p->key_len < len);
}

static bool is_selected(const key_words *k, const tenmap_metadata *pair) {
    if (k->key_count &&
        bsearch(pair, k->words, k->key_count, sizeof *k->words, compare_pair_to_word))
        return true;
    for (size_t i = k->key_count; i < k->count; i++)
        if (glob_match(k->words[i], pair->key, pair->key_len))
            return true;
    return false;
}

/* Whether a selected shard has this key. */
static bool has_key(const meta_call *c, size_t end, const char *key, size_t len) {
    for (size_t shard = c->first; shard < end; shard++)
        if (find_pair(c, shard, key, len))
            return true;
    return false;
}

static bool matches_a_key(const meta_call *c, const char *pattern) {
    for (size_t i = 0; i < tenmap_metadata_count(c->model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(c->model, i);
        if (in_shards(c, pair) && glob_match(pattern, pair->key, pair->key_len))
            return true;
    }
    return false;
}

/* Fails if a word selects no key. The caller frees out->words. */
static int find_keys(const meta_call *c, const char *const *words, size_t count, key_words *out) {
    size_t patterns = 0;
    *out = (key_words){need(count, sizeof *out->words), 0, count};
    for (size_t i = 0; i < count; i++) {
        if (has_key(c, c->end, words[i], strlen(words[i]))) {
            out->words[out->key_count++] = words[i];
            continue;
        }
        if (!strpbrk(words[i], "*?["))
            return no_such_key(c, words[i]);
        if (!matches_a_key(c, words[i]))
            return fail(EXIT_FAILED, "no key matches '%s'", words[i]);
        out->words[count - ++patterns] = words[i];
    }
    qsort(out->words, out->key_count, sizeof *out->words, compare_words);
    return EXIT_FINE;
}

/* A key may contain a NUL. */
static bool key_is(const tenmap_metadata *pair, const char *key) {
    return pair->key_len == strlen(key) && memcmp(pair->key, key, pair->key_len) == 0;
}

/* Whether the pair says how the rest of a GGUF file is read, so that it cannot be removed. */
static bool says_how_to_read(const meta_call *c, const tenmap_metadata *pair) {
    return is_gguf(c->model) &&
           (key_is(pair, "general.alignment") || key_is(pair, "tenmap.padding") ||
            strncmp(pair->key, "split.", 6) == 0);
}

/* Removes the selected keys, or all others. */
static int remove_selected(const meta_call *c, const key_words *keys, bool selected) {
    size_t all = tenmap_metadata_count(c->model), count = 0;
    meta_edit *edits = need(all, sizeof *edits);
    for (size_t i = 0; i < all; i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(c->model, i);
        if (in_shards(c, pair) && is_selected(keys, pair) == selected &&
            (selected || !says_how_to_read(c, pair)) &&
            !has_key(c, pair->shard, pair->key, pair->key_len)) /* once for all shards */
            edits[count++].edit = (tenmap_edit){pair->key, pair->key_len, NULL, 0, NULL};
    }
    int status = apply(c, edits, count);
    free(edits);
    return status;
}

static int remove_keys(meta_call *c) {
    key_words keys;
    int status = find_keys(c, c->words, c->word_count, &keys);
    if (!status)
        status = remove_selected(c, &keys, true);
    free(keys.words);
    return status;
}

static int clear(meta_call *c) {
    key_words keys;
    int status = find_keys(c, c->set->keep.items, c->set->keep.count, &keys);
    if (!status)
        status = remove_selected(c, &keys, false);
    free(keys.words);
    return status;
}

static void as_json(const meta_call *c, text *out) {
    const char *between = "";
    text_addf(out, "{");
    for (size_t i = 0; i < tenmap_metadata_count(c->model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(c->model, i);
        if (pair->shard != c->first || says_how_to_read(c, pair))
            continue;
        text_addf(out, "%s\n  ", between);
        text_add_json(out, pair->key, pair->key_len);
        text_addf(out, ": ");
        text_add_json(out, pair->value, pair->value_len);
        between = ",";
    }
    text_addf(out, "\n}\n");
}

/*
 * Whether the user left the value as as_json showed it: with U+FFFD for each byte that is not
 * UTF-8.
 */
static bool is_as_shown(const tenmap_metadata *pair, const json_pair *edited) {
    text shown = {0};
    for (size_t i = 0, n; i < pair->value_len; i += n + !n) {
        uint32_t point;
        n = decode_point((const unsigned char *)pair->value + i, pair->value_len - i, &point);
        text_add(&shown, n ? pair->value + i : "\xef\xbf\xbd", n ? n : 3);
    }
    bool same = shown.len == edited->value_len &&
                (shown.len == 0 || memcmp(shown.bytes, edited->value, shown.len) == 0);
    text_free(&shown);
    return same;
}

/* Applies the difference between the shard's pairs and the edited ones. */
static int apply_pairs(const meta_call *c, const json_pairs *pairs) {
    size_t old = tenmap_metadata_count(c->model), count = 0;
    meta_edit *edits = need(old + pairs->count, sizeof *edits);
    bool *stays = need(old, sizeof *stays);
    int status = EXIT_FINE;
    for (size_t i = 0; i < pairs->count && !status; i++) {
        const json_pair *p = &pairs->items[i];
        const metadata_entry *found = metadata_find(&c->pairs, c->first, p->key, p->key_len);
        if (found)
            stays[found->place] = true;
        if (found && is_as_shown(found->pair, p))
            continue;
        status = make_edit(c, p, &edits[count++]);
    }
    for (size_t i = 0; i < old; i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(c->model, i);
        if (pair->shard == c->first && !stays[i] && !says_how_to_read(c, pair))
            edits[count++].edit = (tenmap_edit){pair->key, pair->key_len, NULL, 0, NULL};
    }
    if (!status)
        status = apply(c, edits, count);
    free(stays);
    free(edits);
    return status;
}

static bool shards_agree(const meta_call *c) {
    metadata_entry *entries;
    size_t count = metadata_entries(c->model, c->first, c->end, &entries);
    bool agree = true;
    for (size_t i = 0; i < count; i++)
        agree = agree && entries[i].shards == tenmap_shard_count(c->model);
    free(entries);
    return agree;
}

static int edit(meta_call *c) {
    text json = {0}, why = {0};
    json_pairs pairs = {0};
    char *path;
    if (c->end - c->first > 1 && !shards_agree(c))
        return fail(EXIT_FAILED,
                    "the shards differ in metadata: edit one at a time with --shard N");
    as_json(c, &json);
    int status = editor_run(&json, &path);
    if (!status) {
        bool good = json_read_pairs(json.bytes ? json.bytes : "", json.len, &pairs, &why);
        if (good)
            status = apply_pairs(c, &pairs);
        else
            status = fail(EXIT_FAILED, "%s; nothing was changed, and your text is in %s", why.bytes,
                          path);
        editor_done(path, !good);
    }
    json_free_pairs(&pairs);
    text_free(&json);
    text_free(&why);
    return status;
}

static int repair(meta_call *c) {
    static const char *const said[] = {
        [TENMAP_REPAIR_NOTHING] = "nothing to repair",
        [TENMAP_REPAIR_FINISHED] = "repaired: the change was finished",
        [TENMAP_REPAIR_UNDONE] = "repaired: the change was undone",
    };
    tenmap_error error;
    uint32_t how = 0;
    if (c->set->dry_run)
        return fail(EXIT_USAGE,
                    "repair has no --dry-run: it changes only what a crash left half done");
    if (tenmap_repair_metadata(c->path, c->set->undo ? TENMAP_REPAIR_UNDO : 0, &how, &error) !=
        TENMAP_OK)
        return fail_error(&error);
    print_safe(stdout, base_name(c->path), strlen(base_name(c->path)));
    printf(": %s\n", said[how]);
    return EXIT_FINE;
}

static const struct action {
    const char *name, *usage;
    size_t least, most; /* number of operands */
    bool opens;
    int (*run)(meta_call *);
} actions[] = {
    {"get", "get KEY", 1, 1, true, get},
    {"set", "set KEY VALUE...", 2, SIZE_MAX, true, set_pairs},
    {"rm", "rm KEY...", 1, SIZE_MAX, true, remove_keys},
    {"clear", "clear [--keep KEY]...", 0, 0, true, clear},
    {"edit", "edit", 0, 0, true, edit},
    {"repair", "repair", 0, 0, false, repair},
};
static const struct action list_action = {"", "", 0, 0, true, list};

static const struct action *find_action(const char *name) {
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

static int meta_run(const invocation *call) {
    meta_call c = {.set = call->settings, .path = call->operands[0]};
    const struct action *action = &list_action;
    int status = EXIT_FINE;
    if (call->operand_count > 1) {
        action = find_action(call->operands[1]);
        c.words = call->operands + 2;
        c.word_count = call->operand_count - 2;
    }
    if (!action)
        return fail(EXIT_USAGE,
                    "'%s' is not an action; the actions are get, set, rm, clear, edit and "
                    "repair",
                    call->operands[1]);
    if (c.word_count < action->least || c.word_count > action->most)
        return fail(EXIT_USAGE, "usage: tenmap meta MODEL %s", action->usage);
    if (c.set->type && action->run != set_pairs)
        return fail(EXIT_USAGE, "--type needs the action set");
    if (c.set->keep.count && action->run != clear)
        return fail(EXIT_USAGE, "--keep needs the action clear");
    if (is_address(c.path) && action != &list_action && action->run != get)
        return fail(EXIT_USAGE,
                    "'%s' is not a local file, so its metadata cannot be changed; 'tenmap extract' "
                    "and 'tenmap convert' write a local copy",
                    shown_path(c.path));
    if (!action->opens)
        return action->run(&c);
    status = open_model(c.path, &c.model);
    if (!status)
        status = choose_shards(&c, action != &list_action && action->run != get);
    if (!status) {
        metadata_finder_init(&c.pairs, c.model);
        status = action->run(&c);
        metadata_finder_free(&c.pairs);
    }
    tenmap_close(c.model);
    return status;
}

const command cmd_meta = {
    .name = "meta",
    .summary = "Show and change metadata, in place if possible",
    .operands = "MODEL [ACTION [WORD...]]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .options = meta_options,
    .details =
        "Without an action, all pairs are listed. The actions:\n\n"
        "  get KEY           print one value, unescaped\n"
        "  set KEY VALUE...  add or replace pairs\n"
        "  rm KEY...         remove pairs; a KEY may be a pattern: 'ss_*'\n"
        "  clear             remove all pairs, except those that --keep names\n"
        "  edit              edit all pairs in $VISUAL or $EDITOR, as JSON\n"
        "  repair            finish or undo a change after a crash\n\n"
        "If the new header fits into the old one, the file is changed in place. Otherwise a new\n"
        "file shares the data's blocks with the old one, if the file system supports that;\n"
        "otherwise the data is copied. Each file changes completely or not at all. In a sharded\n"
        "model all shards change, unless --shard chooses one. In a split GGUF model, the first\n"
        "file changes, because it has the pairs.\n"
        "\n"
        "A value of a GGUF file keeps its type. An array can be removed; with --type, set\n"
        "replaces it by a single value.",
    .examples = meta_examples,
    .settings_size = sizeof(meta_settings),
    .run = meta_run,
    .second_words = "get|set|rm|clear|edit|repair",
};
