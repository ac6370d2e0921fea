/* Chooses the model in a folder, in the order of preference that docs/format.md gives. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATE_INDEX, CANDIDATE_NUMBERED, CANDIDATE_SINGLE };

typedef struct candidate {
    char *name;
    int kind;
    const tmi_container *container; /* of an index: of the files that it lists */
    bool second_choice; /* consolidated, adapter or variant: taken only if nothing else is there */
    /* For name-00002-of-00005.safetensors: the positions of the digits, and their values. */
    size_t digits_at, digits_len, tail_at, rest_at; /* tail: from "-of-" on; rest: after N */
    unsigned number, total;
} candidate;

typedef struct candidates {
    candidate *items; /* sorted by name */
    size_t count, capacity;
    const candidate **numbered; /* the numbered files, set by set, each sorted by number */
    size_t numbered_count;
    const tenmap_io *io; /* lists the folder; NULL: the system does */
    const char *folder;
    bool out_of_memory, too_many;
    bool other_index; /* an index of Flax or TensorFlow was seen */
    char *unusual;    /* a file with a model's ending and another name: the first of them */
} candidates;

static bool ends_with(const char *name, const char *end) {
    size_t len = strlen(name), size = strlen(end);
    return len >= size && memcmp(name + len - size, end, size) == 0;
}

static bool starts_with(const char *name, const char *start) {
    return strncmp(name, start, strlen(start)) == 0;
}

static bool is_number(char c) {
    return c >= '0' && c <= '9';
}

/*
 * Words with which hubs mark a variant of a model: "fp16", "bf16", "fp8_e4m3fn", "int8", "ema",
 * "non_ema".
 */
static bool is_variant_word(const char *word) {
    if (starts_with(word, "ema.") || starts_with(word, "non_ema."))
        return true;
    size_t letters = starts_with(word, "fp") || starts_with(word, "bf") ? 2
                     : starts_with(word, "int")                         ? 3
                                                                        : 0;
    return letters && is_number(word[letters]);
}

static bool is_second_choice(const char *name) {
    if (starts_with(name, "consolidated") || starts_with(name, "adapter_"))
        return true;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
        if (is_variant_word(dot + 1))
            return true;
    return false;
}

/*
 * Reads the digits [at, end) as a number. False if there are none or the number is over
 * TMI_MOST_SHARDS.
 */
static bool read_number(const char *name, size_t at, size_t end, unsigned *out) {
    unsigned value = 0;
    if (at >= end)
        return false;
    for (; at < end; at++) {
        value = value * 10 + (unsigned)(name[at] - '0');
        if (value > TMI_MOST_SHARDS)
            return false;
    }
    *out = value;
    return true;
}

/* PREFIX-i-of-N.safetensors or PREFIX-i-of-N.variant.safetensors, with any number of digits. */
static bool parse_numbered(candidate *c) {
    const char *of = NULL;
    for (const char *at = strstr(c->name, "-of-"); at; at = strstr(at + 1, "-of-"))
        of = at;
    if (!of)
        return false;
    size_t number_end = (size_t)(of - c->name), number_at = number_end, total_at = number_end + 4;
    while (number_at > 0 && is_number(c->name[number_at - 1]))
        number_at--;
    size_t total_end = total_at;
    while (is_number(c->name[total_end]))
        total_end++;
    if (number_at == 0 || c->name[number_at - 1] != '-' || c->name[total_end] != '.')
        return false;
    c->digits_at = number_at;
    c->digits_len = number_end - number_at;
    c->tail_at = number_end;
    c->rest_at = total_end;
    return read_number(c->name, number_at, number_end, &c->number) &&
           read_number(c->name, total_at, total_end, &c->total) && c->total > 0 &&
           c->number <= c->total;
}

/* Whether the name contains ENDING.index, for one of these endings. */
static bool names_index_of(const char *name, const char *const *endings) {
    for (; *endings; endings++)
        for (const char *at = strstr(name, *endings); at; at = strstr(at + 1, *endings))
            if (starts_with(at + strlen(*endings), ".index"))
                return true;
    return false;
}

/* The container of the files that an index of this name lists; NULL if this is no index. */
static const tmi_container *container_of_index(const char *name) {
    const tmi_container *c, *first = NULL;
    if (!ends_with(name, ".json"))
        return NULL;
    for (size_t i = 0; (c = tmi_container_at(i)) != NULL; i++) {
        if (!c->folder->has_index)
            continue;
        if (names_index_of(name, c->folder->endings))
            return c;
        first = first ? first : c;
    }
    return ends_with(name, ".index.json") ? first : NULL;
}

static const tmi_container *container_of_file(const char *name) {
    const tmi_container *c;
    for (size_t i = 0; (c = tmi_container_at(i)) != NULL; i++)
        for (const char *const *ending = c->folder->endings; *ending; ending++)
            if (ends_with(name, *ending))
                return c;
    return NULL;
}

/* Whether files of the container have such names, so that this one counts in a folder. */
static bool has_usual_name(const char *name, const tmi_container *container) {
    const char *const *stem = container->folder->stems;
    for (; stem && *stem; stem++)
        if (starts_with(name, *stem) && (name[strlen(*stem)] == '.' || name[strlen(*stem)] == '-'))
            return true;
    return !container->folder->stems;
}

static bool has_word(const char *name, const char *const *words) {
    for (; words && *words; words++)
        if (strstr(name, *words))
            return true;
    return false;
}

/* Whether the name looks like a file of a model, and of which kind. */
static bool classify_name(candidate *c, bool *other_index) {
    const char *name = c->name;
    if (name[0] == '.')
        return false;
    c->second_choice = is_second_choice(name);
    c->container = container_of_index(name);
    if (c->container) {
        c->kind = CANDIDATE_INDEX;
        if (!tmi_is_other_index(name))
            return true;
        *other_index = true;
        return false;
    }
    c->container = container_of_file(name);
    if (!c->container || !has_usual_name(name, c->container))
        return false;
    if (has_word(name, c->container->folder->last))
        c->second_choice = true;
    c->kind = parse_numbered(c) ? CANDIDATE_NUMBERED : CANDIDATE_SINGLE;
    return true;
}

/* Only for folders of the system: objects of a tenmap_io are judged by their names. */
static bool is_folder_in(const char *folder, const char *name) {
    char *path = tmi_join_path(folder, strlen(folder), name, strlen(name));
    bool is = path && tmi_is_folder(path);
    free(path);
    return is;
}

/* Keeps the first name, in the order of strcmp, of a file that may be a model by another name. */
static bool note_unusual(candidates *list, const char *name) {
    if (name[0] == '.' || !container_of_file(name) ||
        (list->unusual && strcmp(list->unusual, name) <= 0))
        return true;
    free(list->unusual);
    list->unusual = tmi_copy_text(name, strlen(name));
    list->out_of_memory = !list->unusual;
    return list->unusual != NULL;
}

static bool add_candidate(void *ctx, const char *name) {
    candidates *list = ctx;
    list->too_many = list->count == TMI_MOST_LISTED;
    if (list->too_many)
        return false;
    candidate c = {.name = tmi_copy_text(name, strlen(name))};
    if (!c.name) {
        list->out_of_memory = true;
        return false;
    }
    bool is_model = classify_name(&c, &list->other_index);
    if (!is_model || (!list->io && is_folder_in(list->folder, name))) {
        free(c.name);
        return is_model || note_unusual(list, name);
    }
    candidate *items = tmi_grow(list->items, list->count, &list->capacity, sizeof *items);
    if (!items) {
        free(c.name);
        list->out_of_memory = true;
        return false;
    }
    list->items = items;
    items[list->count++] = c;
    return true;
}

static int by_candidate_name(const void *a, const void *b) {
    return strcmp(((const candidate *)a)->name, ((const candidate *)b)->name);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_candidates(candidates *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    free(list->numbered);
    free(list->unusual);
}

/* Numbered sets. Sorting brings the files of each set together, however many digits they have. */

/* 0 if both belong to one set: only the digits of the number differ. */
static int by_set(const candidate *a, const candidate *b) {
    if (a->digits_at != b->digits_at)
        return a->digits_at < b->digits_at ? -1 : 1;
    int order = memcmp(a->name, b->name, a->digits_at);
    if (order == 0 && a->total != b->total)
        return a->total < b->total ? -1 : 1;
    return order ? order : strcmp(a->name + a->rest_at, b->name + b->rest_at);
}

static int by_member(const void *a, const void *b) {
    const candidate *x = *(const candidate *const *)a, *y = *(const candidate *const *)b;
    int order = by_set(x, y);
    if (order == 0 && x->number != y->number)
        order = x->number < y->number ? -1 : 1;
    return order ? order : strcmp(x->name, y->name);
}

/* The first container of which the folder has candidates of the rank; NULL if there are none. */
static const tmi_container *first_container(const candidates *list, bool second_choice) {
    const tmi_container *container;
    for (size_t i = 0; (container = tmi_container_at(i)) != NULL; i++)
        for (size_t k = 0; k < list->count; k++)
            if (list->items[k].container == container &&
                list->items[k].second_choice == second_choice)
                return container;
    return NULL;
}

/*
 * Keeps only the candidates of the preferred container. Files of second choice are taken only if
 * there is nothing else, of any container.
 */
static void prefer_container(candidates *list) {
    const tmi_container *best = first_container(list, false);
    size_t kept = 0;
    if (!best)
        best = first_container(list, true);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].container == best)
            list->items[kept++] = list->items[i];
        else
            free(list->items[i].name);
    list->count = kept;
}

static bool sort_numbered(candidates *list) {
    list->numbered = tmi_calloc(list->count, sizeof(const candidate *));
    if (!list->numbered)
        return false;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind == CANDIDATE_NUMBERED)
            list->numbered[list->numbered_count++] = &list->items[i];
    if (list->numbered_count)
        qsort(list->numbered, list->numbered_count, sizeof(const candidate *), by_member);
    return true;
}

typedef struct numbered_set {
    const candidate *const *members; /* sorted by number; NULL: no set */
    size_t count;
    bool complete;
} numbered_set;

/* The set that begins at numbered[at]. */
static numbered_set set_at(const candidates *list, size_t at) {
    numbered_set set = {&list->numbered[at], 0, true};
    const candidate *first = set.members[0];
    for (; at < list->numbered_count && by_set(list->numbered[at], first) == 0; at++) {
        set.complete = set.complete && list->numbered[at]->number == first->number + set.count;
        set.count++;
    }
    set.complete = set.complete && first->number <= 1 && set.count == first->total;
    return set;
}

static tenmap_status choose_one(tmi_folder_choice *choice, const char *name, tenmap_error *error) {
    choice->names = tmi_calloc(1, sizeof *choice->names);
    if (choice->names)
        choice->names[0] = tmi_copy_text(name, strlen(name));
    choice->count = 1;
    if (choice->names && choice->names[0])
        return TENMAP_OK;
    tmi_folder_choice_free(choice);
    return tmi_fail_memory(error, strlen(name), "a file name");
}

/* The name that the missing file with this number would have. */
static char *name_missing(const candidate *like, unsigned number) {
    size_t room = strlen(like->name) + 16;
    char *name = malloc(room);
    if (name)
        snprintf(name, room, "%.*s%0*u%s", (int)like->digits_at, like->name, (int)like->digits_len,
                 number, like->name + like->tail_at);
    return name;
}

/* One name for each number: the name of the file in the folder, or the name that it would have. */
static tenmap_status choose_set(tmi_folder_choice *choice, numbered_set set, tenmap_error *error) {
    const candidate *first = set.members[0];
    unsigned total = first->total, number = first->number ? 1 : 0;
    size_t at = 0;
    choice->is_set = true;
    choice->names = tmi_calloc(total, sizeof *choice->names);
    for (; choice->names && choice->count < total; number++) {
        while (at < set.count && set.members[at]->number < number)
            at++;
        const candidate *here = at < set.count ? set.members[at] : NULL;
        char *name = here && here->number == number ? tmi_copy_text(here->name, strlen(here->name))
                                                    : name_missing(first, number);
        if (!name)
            break;
        choice->names[choice->count++] = name;
    }
    if (choice->names && choice->count == total) {
        qsort(choice->names, total, sizeof *choice->names, by_text);
        return TENMAP_OK;
    }
    tmi_folder_choice_free(choice);
    return tmi_fail_memory(error, total, "file names");
}

/* Errors for folders that do not hold exactly one model. */

static tenmap_status fail_ambiguous(const candidates *list, tenmap_error *error) {
    tmi_list names = {.used = 0};
    for (size_t i = 0; i < list->count; i++)
        tmi_list_add(&names, list->items[i].name, strlen(list->items[i].name));
    return tmi_remedy(
        error, TENMAP_REMEDY_OPEN_ONE,
        tmi_fail(error, TENMAP_ERR_NOT_FOUND,
                 "%s: the folder holds more than one model; open one of its files: %s",
                 tmi_quote_path(list->folder).text, tmi_list_end(&names)));
}

static bool note_model_file(void *ctx, const char *name) {
    bool unused = false;
    candidate c = {.name = (char *)(uintptr_t)name};
    if (!classify_name(&c, &unused))
        return true;
    *(bool *)ctx = true;
    return false;
}

enum { LOOK_AT_MOST = 256 };

typedef struct subfolders {
    const char *folder;
    char *names[LOOK_AT_MOST];
    size_t count, looked;
} subfolders;

static bool note_subfolder(void *ctx, const char *name) {
    subfolders *found = ctx;
    bool has_model = starts_with(name, "models--"); /* in a hub's cache: hub_cache.c */
    if (name[0] == '.' || !is_folder_in(found->folder, name))
        return true;
    char *path = tmi_join_path(found->folder, strlen(found->folder), name, strlen(name));
    if (path && (has_model || tmi_folder_list(path, note_model_file, &has_model) == 0) && has_model)
        found->names[found->count] = tmi_copy_text(name, strlen(name));
    found->count += found->names[found->count] != NULL;
    free(path);
    return ++found->looked < LOOK_AT_MOST;
}

/* The endings or names of all files that are models: ".safetensors, .gguf or pytorch_model.bin". */
static const char *all_endings(char *out, size_t size) {
    const tmi_container *c;
    const char *before = "", *next = NULL;
    size_t used = 0;
    for (size_t i = 0; (c = tmi_container_at(i)) != NULL; i++)
        for (const char *const *ending = c->folder->endings; *ending; ending++) {
            if (next && used < size)
                used += (size_t)snprintf(out + used, size - used, "%s%s", before, next);
            before = next ? ", " : "";
            next = c->folder->stems ? c->folder->first[0] : *ending;
            if (c->folder->stems)
                break; /* the ending alone does not make it a model */
        }
    if (next && used < size)
        snprintf(out + used, size - used, "%s%s", used ? " or " : "", next);
    return out;
}

static tenmap_status fail_nothing(const candidates *list, tenmap_error *error) {
    char endings[128];
    subfolders found = {.folder = list->folder};
    tmi_list names = {.used = 0};
    if (!list->io)
        (void)tmi_folder_list(list->folder, note_subfolder, &found);
    qsort(found.names, found.count, sizeof *found.names, by_text);
    for (size_t i = 0; i < found.count; i++) {
        tmi_list_add(&names, found.names[i], strlen(found.names[i]));
        free(found.names[i]);
    }
    if (found.count)
        return tmi_remedy(
            error, TENMAP_REMEDY_OPEN_ONE,
            tmi_fail(error, TENMAP_ERR_NOT_FOUND,
                     "%s: this folder itself holds no model, but each of these folders inside "
                     "it does; open one of them: %s",
                     tmi_quote_path(list->folder).text, tmi_list_end(&names)));
    if (list->unusual)
        return tmi_remedy(
            error, TENMAP_REMEDY_OPEN_ONE,
            tmi_fail(error, TENMAP_ERR_NOT_FOUND,
                     "%s: this folder holds no %s file and no index; %s opens by its own path if "
                     "it is a model",
                     tmi_quote_path(list->folder).text, all_endings(endings, sizeof endings),
                     tmi_quote(list->unusual, strlen(list->unusual)).text));
    tmi_fail(error, TENMAP_ERR_NOT_FOUND, "%s: this folder holds no %s file and no index%s",
             tmi_quote_path(list->folder).text, all_endings(endings, sizeof endings),
             list->other_index ? ", only an index of another format: fetch the SafeTensors release"
                               : "");
    return tmi_remedy(error, list->other_index ? TENMAP_REMEDY_CONVERT : TENMAP_REMEDY_NONE,
                      TENMAP_ERR_NOT_FOUND);
}

/* Chooses among the candidates of one rank: the preferred ones, or those of second choice. */
static tenmap_status choose_among(tmi_folder_choice *choice, const candidates *list,
                                  bool second_choice, bool *any, tenmap_error *error) {
    const candidate *index = NULL, *single = NULL;
    numbered_set complete = {NULL, 0, false}, broken = complete;
    size_t indexes = 0, singles = 0, completes = 0, brokens = 0;
    for (size_t i = 0; i < list->count; i++) {
        const candidate *c = &list->items[i];
        if (c->second_choice != second_choice)
            continue;
        *any = true;
        if (c->kind == CANDIDATE_INDEX) {
            index = c;
            indexes++;
        } else if (c->kind == CANDIDATE_SINGLE) {
            single = c;
            singles++;
        }
    }
    for (size_t i = 0; i < list->numbered_count;) {
        numbered_set set = set_at(list, i);
        i += set.count;
        if (set.members[0]->second_choice != second_choice)
            continue;
        *(set.complete ? &complete : &broken) = set;
        ++*(set.complete ? &completes : &brokens);
    }
    if (indexes == 1)
        return choose_one(choice, index->name, error);
    if (indexes == 0 && completes == 1)
        return choose_set(choice, complete, error);
    if (indexes == 0 && completes == 0 && brokens == 1 && singles == 0 &&
        broken.count < broken.members[0]->total)
        return choose_set(choice, broken, error); /* opening it reports what is missing */
    if (indexes == 0 && completes == 0 && brokens == 0 && singles == 1)
        return choose_one(choice, single->name, error);
    return *any ? fail_ambiguous(list, error) : TENMAP_OK;
}

static tenmap_status choose(tmi_folder_choice *choice, const candidates *list,
                            tenmap_error *error) {
    const char *const *first = list->count ? list->items[0].container->folder->first : NULL;
    for (; first && *first; first++)
        for (size_t i = 0; i < list->count; i++)
            if (strcmp(list->items[i].name, *first) == 0)
                return choose_one(choice, *first, error);
    bool any = false;
    tenmap_status status = choose_among(choice, list, false, &any, error);
    if (!any && status == TENMAP_OK)
        status = choose_among(choice, list, true, &any, error);
    return any ? status : fail_nothing(list, error);
}

tenmap_status tmi_folder_choose(tmi_folder_choice *choice, const tenmap_io *io, const char *path,
                                tenmap_error *error) {
    candidates list = {.folder = path, .io = io};
    *choice = (tmi_folder_choice){.count = 0};
    tenmap_status status = tmi_bytes_list(io, path, add_candidate, &list, error);
    prefer_container(&list);
    if (list.count)
        qsort(list.items, list.count, sizeof *list.items, by_candidate_name);
    if (list.out_of_memory || !sort_numbered(&list)) {
        status = tmi_fail_memory(error, list.count, "the names in a folder");
    } else if (list.too_many) {
        status = tmi_remedy(
            error, TENMAP_REMEDY_OPEN_ONE,
            tmi_fail(error, TENMAP_ERR_LIMIT,
                     "%s: more than %d files in this folder look like parts of a model; open "
                     "one of them by its own path",
                     tmi_quote_path(path).text, (int)TMI_MOST_LISTED));
    } else if (status == TENMAP_OK) {
        status = choose(choice, &list, error);
    }
    free_candidates(&list);
    return status;
}

void tmi_folder_choice_free(tmi_folder_choice *choice) {
    for (size_t i = 0; i < choice->count && choice->names; i++)
        free(choice->names[i]);
    free(choice->names);
    *choice = (tmi_folder_choice){.count = 0};
}

bool tmi_is_numbered_name(const char *name, const char *like) {
    bool unused;
    candidate c = {.name = (char *)(uintptr_t)name};
    const tmi_container *asked = like ? container_of_file(like) : NULL;
    return classify_name(&c, &unused) && c.kind == CANDIDATE_NUMBERED && !c.second_choice &&
           c.container->folder->has_index && (!asked || c.container == asked);
}
