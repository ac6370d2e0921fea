/*
 * Walks over the values of a checkpoint and names what it finds: the keys on the way, joined by
 * dots. The graph may share values and may contain itself, so there can be far more paths than
 * values. So the names and the steps of the walk have limits, which grow with the pickle.
 */
#include "pytorch.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_NESTED = 1000, MOST_VALUES = 65536 };
enum { NAME_BYTES_PER_BYTE = 8, STEPS_PER_BYTE = 64, LEAST_LIMIT = 65536 };

/* The keys under which checkpoints keep the model. The first one that holds tensors is used. */
static const char *const wrappers[] = {"state_dict", "model_state_dict", "model",  "module",
                                       "net",        "params_ema",       "params", "ema"};
enum { WRAPPERS = sizeof wrappers / sizeof wrappers[0] };

typedef struct torch_frame {
    tmi_pickle_cursor cursor;
    size_t path_used; /* of the path before this value's own part */
    bool holds;
} torch_frame;

typedef struct torch_walk {
    tmi_torch *t;
    tmi_torch_names *names;
    bool values;   /* names plain values, not tensors */
    bool full;     /* no more values are named */
    bool counting; /* only counts tensors; a limit ends the count without an error */
    uint64_t counted;
    uint64_t steps, bytes; /* that are left */
    torch_frame *frames;
    size_t depth;
    char *path;
    size_t path_used, path_capacity;
} torch_walk;

tenmap_status tmi_torch_failed(tmi_torch *t, tenmap_status status, uint32_t code,
                               const char *tensor) {
    if (!TMI_REPORTS(t->place->report))
        return status;
    tmi_report_failure(t->place->report, code, t->place->shard, tensor, t->error);
    return tensor && status != TENMAP_ERR_MEMORY ? TENMAP_OK : status;
}

static tenmap_status fail_walk(torch_walk *w, tenmap_status status, tmi_ref at, const char *why) {
    tmi_torch *t = w->t;
    if (w->counting)
        return status;
    size_t offset = at == TMI_NO_REF  ? 0
                    : tmi_is_node(at) ? tmi_node(&t->pickle, at)[TMI_WORD_AT]
                                      : at >> 1;
    uint32_t code = status == TENMAP_ERR_LIMIT ? TENMAP_FOUND_LIMIT : TENMAP_FOUND_ENTRY;
    return TMI_TORCH_FAIL(t, status, code, t->pickle_at + offset, NULL, "%s: pickle, byte %llu: %s",
                          tmi_quote_path(t->place->path).text, (ull)offset, why);
}

static const char too_many_names[] =
    "the names in it take more than 8 times as much memory as the pickle: values are listed again "
    "and again";

static void enter_value(torch_walk *w, tmi_ref ref, unsigned mode, size_t path_used) {
    w->frames[w->depth++] =
        (torch_frame){tmi_pickle_cursor_at(&w->t->pickle, ref, mode), path_used, false};
}

/* Which values hold tensors. Each value is entered once, and once more if it also lists pairs. */

static tenmap_status leave_holder(torch_walk *w) {
    const torch_frame *frame = &w->frames[--w->depth];
    tmi_ref twice = TMI_NO_REF;
    if (!frame->holds)
        return TENMAP_OK;
    tmi_node(&w->t->pickle, frame->cursor.of)[TMI_WORD_KIND] |= TMI_MARK_HOLDS;
    if (w->depth)
        w->frames[w->depth - 1].holds = true;
    tenmap_status status = tmi_torch_find_twin(w->t, frame->cursor.of, &w->steps, &twice);
    if (status == TENMAP_ERR_LIMIT)
        return fail_walk(w, status, frame->cursor.of, too_many_names);
    if (twice != TMI_NO_REF)
        return fail_walk(w, TENMAP_ERR_FORMAT, twice,
                         "a dict has this key twice, and tensors under it: Python sees the last "
                         "value only");
    return status;
}

static tenmap_status find_holders(torch_walk *w, tmi_ref root) {
    const tmi_pickle *p = &w->t->pickle;
    tmi_pickle_item item;
    tmi_node(p, root)[TMI_WORD_KIND] |= TMI_MARK_SEEN;
    enter_value(w, root, TMI_WALK_ITEMS, 0);
    while (w->depth) {
        torch_frame *frame = &w->frames[w->depth - 1];
        if (!tmi_pickle_next(p, &frame->cursor, &item)) {
            tenmap_status status = leave_holder(w);
            if (status != TENMAP_OK)
                return status;
            continue;
        }
        if (tmi_torch_is_tensor(w->t, item.value) ||
            tmi_torch_is_made_by_code(w->t, item.value)) { /* so far: by _load_from_bytes */
            frame->holds = true;
            continue;
        }
        if (!tmi_is_node(item.value))
            continue;
        uint32_t *kind = &tmi_node(p, item.value)[TMI_WORD_KIND];
        frame->holds = frame->holds || *kind & TMI_MARK_HOLDS;
        uint32_t seen = item.mode == TMI_WALK_PAIRS ? TMI_MARK_SEEN_AS_PAIRS : TMI_MARK_SEEN;
        if (*kind & seen)
            continue;
        if (w->depth > MOST_NESTED)
            return fail_walk(w, TENMAP_ERR_LIMIT, item.value,
                             "values are nested more than 1,000 deep");
        *kind |= seen;
        enter_value(w, item.value, item.mode, 0);
    }
    return TENMAP_OK;
}

/* Paths. */

static bool spend(uint64_t *left, uint64_t cost) {
    bool enough = cost <= *left;
    *left = enough ? *left - cost : 0;
    return enough;
}

/* Makes room for more bytes in the path. */
static bool extend_path(torch_walk *w, size_t more) {
    if (more > SIZE_MAX / 2 - w->path_used)
        return false;
    size_t need = w->path_used + more;
    if (need <= w->path_capacity)
        return true;
    char *longer = realloc(w->path, need * 2);
    if (!longer)
        return false;
    w->path = longer;
    w->path_capacity = need * 2;
    return true;
}

static bool is_dropped(const tmi_pickle *p, const tmi_pickle_item *item) {
    static const char *const inner[] = {"_parameters", "_buffers", "_modules"};
    for (size_t i = 0; item->attribute && i < sizeof inner / sizeof inner[0]; i++)
        if (tmi_is_text(p, item->key, inner[i]))
            return true;
    return item->whole;
}

/* Writes a key that is no text. */
static size_t print_key(const tmi_pickle *p, const tmi_pickle_item *item, char *out, size_t room) {
    tmi_atom atom = {.kind = TMI_ATOM_BIG};
    if (item->key == TMI_NO_REF)
        return (size_t)snprintf(out, room, "%u", (unsigned)item->index);
    if (!tmi_is_node(item->key))
        atom = tmi_atom_of(p, item->key);
    switch (atom.kind) {
    case TMI_ATOM_INT:
        return (size_t)snprintf(out, room, "%lld", (long long)atom.number);
    case TMI_ATOM_BOOL:
        return (size_t)snprintf(out, room, "%s", atom.number ? "True" : "False");
    case TMI_ATOM_NONE:
        return (size_t)snprintf(out, room, "None");
    default: /* Python would call a method to print it */
        return (size_t)snprintf(out, room, "?%u", (unsigned)item->index);
    }
}

/* Appends the item's part to the path. */
static tenmap_status extend_name(torch_walk *w, const tmi_pickle_item *item) {
    enum { NUMBER_ROOM = 32 };
    const tmi_pickle *p = &w->t->pickle;
    tmi_atom key = {.kind = TMI_ATOM_NONE};
    if (is_dropped(p, item))
        return TENMAP_OK;
    if (item->key != TMI_NO_REF && !tmi_is_node(item->key))
        key = tmi_atom_of(p, item->key);
    uint64_t room = key.kind == TMI_ATOM_TEXT ? 2 * (uint64_t)key.len : 0;
    if (!spend(&w->steps, room) || room > w->bytes || w->path_used > w->bytes - room)
        return fail_walk(w, TENMAP_ERR_LIMIT, item->key, too_many_names);
    if (!extend_path(w, 1 + (size_t)room + NUMBER_ROOM))
        return tmi_fail_memory(w->t->error, room, "the names");
    if (w->path_used)
        w->path[w->path_used++] = '.';
    size_t len = key.kind == TMI_ATOM_TEXT
                     ? tmi_atom_text(&key, w->path + w->path_used, (size_t)room)
                     : print_key(p, item, w->path + w->path_used, NUMBER_ROOM);
    if (len == SIZE_MAX)
        return fail_walk(w, TENMAP_ERR_FORMAT, item->key, "a name is not valid UTF-8");
    w->path_used += len;
    return TENMAP_OK;
}

/* Gives the path as a name to a value. */
static tenmap_status name_value(torch_walk *w, tmi_ref value) {
    tmi_torch_names *n = w->names;
    size_t len = w->path_used;
    if (!spend(&w->bytes, len + 1 + sizeof *n->named + sizeof(tenmap_tensor)))
        return fail_walk(w, TENMAP_ERR_LIMIT, value, too_many_names);
    tmi_torch_named *named = tmi_grow(n->named, n->count, &n->capacity, sizeof *named);
    if (named)
        n->named = named;
    while (named && n->text_used + len + 1 > n->text_capacity) {
        char *longer = tmi_grow(n->text, n->text_capacity, &n->text_capacity, 1);
        if (longer)
            n->text = longer;
        else
            named = NULL;
    }
    if (!named)
        return tmi_fail_memory(w->t->error, len, "the names");
    if (len)
        memcpy(n->text + n->text_used, w->path, len);
    n->text[n->text_used + len] = '\0';
    named[n->count++] = (tmi_torch_named){n->text_used, len, value};
    n->text_used += len + 1;
    return TENMAP_OK;
}

/* Whether the walk looks for plain values inside of the item. */
static bool holds_values(const tmi_pickle *p, const tmi_pickle_item *item) {
    if (tmi_is_kind(p, item->value, TMI_PICKLE_DICT))
        return true;
    if (item->mode == TMI_WALK_PAIRS)
        return true;
    if (!tmi_is_kind(p, item->value, TMI_PICKLE_OBJECT))
        return false;
    unsigned which = tmi_object_global(p, item->value)->which;
    return which == TMI_GLOBAL_DICT || which == TMI_GLOBAL_DEFAULTDICT ||
           which == TMI_GLOBAL_NAMESPACE;
}

static bool is_plain_value(const tmi_torch *t, const tmi_pickle_item *item) {
    if (item->key == TMI_NO_REF || tmi_is_node(item->value) || item->value == TMI_NO_REF)
        return false;
    unsigned kind = tmi_atom_of(&t->pickle, item->value).kind;
    return kind == TMI_ATOM_INT || kind == TMI_ATOM_FLOAT || kind == TMI_ATOM_BOOL ||
           kind == TMI_ATOM_TEXT;
}

/* Whether the item gets a name, or is entered because something inside of it may. */
static bool is_named(const torch_walk *w, const tmi_pickle_item *item) {
    return w->values ? is_plain_value(w->t, item)
                     : tmi_torch_is_tensor(w->t, item->value) ||
                           tmi_torch_is_made_by_code(w->t, item->value);
}

static bool is_entered(const torch_walk *w, const tmi_pickle_item *item) {
    const tmi_pickle *p = &w->t->pickle;
    if (!tmi_is_node(item->value))
        return false;
    uint32_t kind = tmi_node(p, item->value)[TMI_WORD_KIND];
    if (kind & TMI_MARK_ON_PATH)
        return false; /* it refers back to what holds it */
    return w->values ? w->depth <= MOST_NESTED && holds_values(p, item) : kind & TMI_MARK_HOLDS;
}

static tenmap_status take_walk_item(torch_walk *w, const tmi_pickle_item *item) {
    size_t before = w->path_used;
    bool named = is_named(w, item);
    if (!named && !is_entered(w, item))
        return TENMAP_OK;
    if (!named && w->depth > MOST_NESTED)
        return fail_walk(w, TENMAP_ERR_LIMIT, item->value,
                         "values are nested more than 1,000 deep");
    tenmap_status status = w->counting ? TENMAP_OK : extend_name(w, item);
    if (status != TENMAP_OK)
        return status;
    if (w->counting && named) {
        w->counted++;
        return TENMAP_OK;
    }
    if (!named) {
        tmi_node(&w->t->pickle, item->value)[TMI_WORD_KIND] |= TMI_MARK_ON_PATH;
        enter_value(w, item->value, item->mode, before);
        return TENMAP_OK;
    }
    status = name_value(w, item->value);
    w->path_used = before;
    w->full = w->values && w->names->count == MOST_VALUES;
    return status;
}

static tenmap_status name_inside(torch_walk *w, tmi_ref root, unsigned mode) {
    const tmi_pickle *p = &w->t->pickle;
    tenmap_status status = TENMAP_OK;
    tmi_pickle_item item;
    tmi_node(p, root)[TMI_WORD_KIND] |= TMI_MARK_ON_PATH;
    enter_value(w, root, mode, 0);
    while (w->depth && status == TENMAP_OK && !w->full) {
        torch_frame *frame = &w->frames[w->depth - 1];
        if (!spend(&w->steps, 1)) {
            status = fail_walk(w, TENMAP_ERR_LIMIT, TMI_NO_REF, too_many_names);
            break;
        }
        if (tmi_pickle_next(p, &frame->cursor, &item)) {
            status = take_walk_item(w, &item);
            continue;
        }
        w->path_used = frame->path_used;
        tmi_node(p, frame->cursor.of)[TMI_WORD_KIND] &= ~(uint32_t)TMI_MARK_ON_PATH;
        w->depth--;
    }
    for (; w->depth; w->depth--)
        tmi_node(p, w->frames[w->depth - 1].cursor.of)[TMI_WORD_KIND] &=
            ~(uint32_t)TMI_MARK_ON_PATH;
    return status;
}

/* The branch that is the model. */

typedef struct torch_branch {
    tmi_ref value;
    size_t wrapper; /* WRAPPERS: none */
    bool direct;    /* the root itself has a tensor */
} torch_branch;

static void judge_item(const tmi_torch *t, const tmi_pickle_item *item, torch_branch *best) {
    const tmi_pickle *p = &t->pickle;
    size_t i = 0;
    if (tmi_torch_is_tensor(t, item->value) || tmi_torch_is_made_by_code(t, item->value))
        best->direct = true;
    while (i < WRAPPERS && !tmi_is_text(p, item->key, wrappers[i]))
        i++;
    if (i < best->wrapper && tmi_is_node(item->value) &&
        tmi_node(p, item->value)[TMI_WORD_KIND] & TMI_MARK_HOLDS) {
        best->wrapper = i;
        best->value = item->value;
    }
}

/*
 * Finds the value whose tensors are the model: the root, or what a well-known key of it holds. Sets
 * header.branch to that key.
 */
static tmi_ref choose_branch(const tmi_torch *t, tmi_ref root) {
    const tmi_pickle *p = &t->pickle;
    torch_branch best = {.value = root, .wrapper = WRAPPERS};
    tmi_pickle_item item, inner;
    bool is_dict = tmi_is_kind(p, root, TMI_PICKLE_DICT);
    if (tmi_is_kind(p, root, TMI_PICKLE_OBJECT)) {
        unsigned which = tmi_object_global(p, root)->which;
        is_dict = which == TMI_GLOBAL_DICT || which == TMI_GLOBAL_DEFAULTDICT;
    }
    tmi_pickle_cursor c = tmi_pickle_cursor_at(p, root, TMI_WALK_ITEMS);
    while (is_dict && tmi_pickle_next(p, &c, &item)) {
        if (!item.whole || !tmi_is_node(item.value)) {
            judge_item(t, &item, &best);
            continue;
        }
        tmi_pickle_cursor inside = tmi_pickle_cursor_at(p, item.value, item.mode);
        while (tmi_pickle_next(p, &inside, &inner))
            judge_item(t, &inner, &best);
    }
    if (best.direct || best.wrapper == WRAPPERS)
        return root;
    t->header->branch = wrappers[best.wrapper];
    return best.value;
}

/* The whole walk. */

static tenmap_status begin_walk(torch_walk *w) {
    uint64_t len = w->t->pickle.len;
    w->steps = STEPS_PER_BYTE * len + LEAST_LIMIT;
    w->bytes = NAME_BYTES_PER_BYTE * len + LEAST_LIMIT;
    w->frames = tmi_calloc(MOST_NESTED + 2, sizeof *w->frames);
    return w->frames ? TENMAP_OK
                     : tmi_fail_memory(w->t->error, MOST_NESTED * sizeof *w->frames, "the names");
}

static void end_walk(torch_walk *w) {
    free(w->frames);
    free(w->path);
}

/* Counts the tensors outside of the branch that was named; at least as many, if a limit is met. */
static uint64_t count_others(torch_walk *w, tmi_ref root) {
    size_t named = w->names->count;
    if (!w->t->header->branch)
        return 0;
    w->counting = true;
    w->steps = STEPS_PER_BYTE * (uint64_t)w->t->pickle.len + LEAST_LIMIT;
    (void)name_inside(w, root, TMI_WALK_ITEMS);
    return w->counted > named ? w->counted - named : 0;
}

/* A file that holds one tensor and nothing around it. */
static tenmap_status name_alone(torch_walk *w, tmi_ref root) {
    static const char name[] = "tensor";
    if (!extend_path(w, sizeof name))
        return tmi_fail_memory(w->t->error, sizeof name, "the names");
    memcpy(w->path, name, sizeof name);
    w->path_used = sizeof name - 1;
    return name_value(w, root);
}

tenmap_status tmi_torch_find_tensors(tmi_torch *t, tmi_torch_names *names) {
    torch_walk w = {.t = t, .names = names};
    tmi_ref root = t->pickle.root;
    tenmap_status status = begin_walk(&w);
    if (status == TENMAP_OK && tmi_torch_is_tensor(t, root)) {
        status = name_alone(&w, root);
    } else if (status == TENMAP_OK && tmi_is_node(root)) {
        status = find_holders(&w, root);
        w.steps = STEPS_PER_BYTE * (uint64_t)t->pickle.len + LEAST_LIMIT;
        bool by_code = status == TENMAP_OK && tmi_torch_is_made_by_code(t, root);
        bool all = t->place->flags & TENMAP_OPEN_BRANCHES;
        if (by_code)
            status = name_alone(&w, root);
        else if (status == TENMAP_OK &&
                 tmi_node(&t->pickle, root)[TMI_WORD_KIND] & TMI_MARK_HOLDS) {
            tmi_ref branch = all ? root : choose_branch(t, root);
            status = name_inside(&w, branch, TMI_WALK_ITEMS);
        }
        if (status == TENMAP_OK)
            t->header->other_tensors = count_others(&w, root);
    }
    end_walk(&w);
    return status;
}

/* If the names of values would take too much memory, the rest of the values is left out. */
tenmap_status tmi_torch_find_values(tmi_torch *t, tmi_torch_names *names) {
    tenmap_error ignored, *error = t->error;
    torch_walk w = {.t = t, .names = names, .values = true};
    tmi_pickle_item root = {.key = TMI_NO_REF, .value = t->pickle.root};
    tenmap_status status = begin_walk(&w);
    const tmi_place *place = t->place;
    tmi_place silent = *place;
    silent.report = NULL;
    t->error = &ignored;
    t->place = &silent;
    if (status == TENMAP_OK && holds_values(&t->pickle, &root))
        status = name_inside(&w, t->pickle.root, TMI_WALK_ITEMS);
    t->error = error;
    t->place = place;
    end_walk(&w);
    if (status == TENMAP_ERR_MEMORY)
        return tmi_fail_memory(t->error, t->pickle.len, "the metadata");
    return TENMAP_OK;
}

void tmi_torch_names_free(tmi_torch_names *names) {
    free(names->text);
    free(names->named);
    *names = (tmi_torch_names){.count = 0};
}
