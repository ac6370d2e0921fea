/*
 * What a tensor of a checkpoint is. The functions with which torch rebuilds tensors are known by
 * name. Their arguments say which storage a tensor uses, and how. None of them is called.
 */
#include "pytorch.h"

#include <stdarg.h>
#include <stdio.h>

enum { MOST_WRAPPED = 8, MOST_RANK = 64, KEY_ROOM = 2 * TMI_TORCH_LONGEST_KEY };

static bool no_tensor(tmi_torch_problem *problem, tenmap_status status, uint32_t code,
                      const char *format, ...) TMI_PRINTF(4, 5);

static bool no_tensor(tmi_torch_problem *problem, tenmap_status status, uint32_t code,
                      const char *format, ...) {
    va_list args;
    problem->status = status;
    problem->code = code;
    va_start(args, format);
    vsnprintf(problem->text, sizeof problem->text, format, args);
    va_end(args);
    return false;
}

#define BAD_TENSOR(problem, ...)                                                                   \
    no_tensor(problem, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, __VA_ARGS__)
#define OTHER_TENSOR_KIND(problem, ...)                                                            \
    no_tensor(problem, TENMAP_ERR_UNSUPPORTED, TENMAP_FOUND_FOREIGN, __VA_ARGS__)

/* Which values are tensors. */

bool tmi_torch_is_tensor(const tmi_torch *t, tmi_ref ref) {
    const tmi_pickle *p = &t->pickle;
    if (tmi_is_kind(p, ref, TMI_PICKLE_PERSISTENT)) {
        tmi_ref id = tmi_node(p, ref)[TMI_WORD_ID];
        return tmi_tuple_count(p, id) > 0 && tmi_is_text(p, tmi_tuple_item(p, id, 0), "storage");
    }
    if (!tmi_is_kind(p, ref, TMI_PICKLE_OBJECT))
        return false;
    const uint32_t *node = tmi_node(p, ref);
    const tmi_pickle_global *global = tmi_pickle_global_of(p, node[TMI_WORD_CALLABLE]);
    bool made = global->name[0] != '_' /* a class: makes an instance without a call, too */
                || node[TMI_WORD_KIND] & TMI_MARK_CALLED;
    return made && global->which >= TMI_GLOBAL_TENSOR;
}

/* Whether a call of an unknown function is torch.storage._load_from_bytes: a pickled storage. */
static bool loads_bytes(const tmi_pickle *p, tmi_ref call) {
    static const char load[] = "_load_from_bytes";
    tmi_ref callable = tmi_node(p, call)[TMI_WORD_CALLABLE];
    tmi_atom module, name;
    if (!tmi_is_kind(p, callable, TMI_PICKLE_GLOBAL))
        return false;
    tmi_global_text(p, callable, &module, &name);
    return name.len == sizeof load - 1 && memcmp(name.text, load, name.len) == 0;
}

bool tmi_torch_is_made_by_code(const tmi_torch *t, tmi_ref ref) {
    const tmi_pickle *p = &t->pickle;
    if (!tmi_is_kind(p, ref, TMI_PICKLE_OBJECT))
        return false;
    const uint32_t *node = tmi_node(p, ref);
    if (!(node[TMI_WORD_KIND] & TMI_MARK_CALLED) ||
        tmi_object_global(p, ref)->which != TMI_GLOBAL_UNKNOWN)
        return false;
    tmi_ref args = node[TMI_WORD_ARGS];
    return loads_bytes(p, ref) ||
           (tmi_is_node(args) && tmi_node(p, args)[TMI_WORD_KIND] & TMI_MARK_HOLDS);
}

/* Lists of whole numbers: shapes and strides. */

/* What a torch.Size was made of, or the list itself. */
static tmi_ref list_inside(const tmi_torch *t, tmi_ref list) {
    const tmi_pickle *p = &t->pickle;
    if (!tmi_is_kind(p, list, TMI_PICKLE_OBJECT))
        return list;
    tmi_ref args = tmi_node(p, list)[TMI_WORD_ARGS];
    bool is_size =
        tmi_pickle_global_of(p, tmi_node(p, list)[TMI_WORD_CALLABLE])->which == TMI_GLOBAL_SIZE;
    return is_size && tmi_tuple_count(p, args) == 1 ? tmi_tuple_item(p, args, 0) : TMI_NO_REF;
}

static bool is_empty_tuple(const tmi_pickle *p, tmi_ref ref) {
    return ref != TMI_NO_REF && !tmi_is_node(ref) && tmi_atom_of(p, ref).kind == TMI_ATOM_TUPLE;
}

/* Counts no more than MOST_RANK + 1: the list may be long, and many tensors may share it. */
bool tmi_torch_rank(const tmi_torch *t, tmi_ref list, uint32_t *rank) {
    const tmi_pickle *p = &t->pickle;
    tmi_pickle_item item;
    list = list_inside(t, list);
    *rank = 0;
    if (is_empty_tuple(p, list))
        return true;
    if (!tmi_is_kind(p, list, TMI_PICKLE_TUPLE) && !tmi_is_kind(p, list, TMI_PICKLE_LIST))
        return false;
    tmi_pickle_cursor c = tmi_pickle_cursor_at(p, list, TMI_WALK_ITEMS);
    while (*rank <= MOST_RANK && tmi_pickle_next(p, &c, &item))
        ++*rank;
    return true;
}

bool tmi_torch_numbers(const tmi_torch *t, tmi_ref list, uint64_t *out, uint32_t rank) {
    const tmi_pickle *p = &t->pickle;
    tmi_pickle_item item;
    list = list_inside(t, list);
    if (rank == 0)
        return true;
    tmi_pickle_cursor c = tmi_pickle_cursor_at(p, list, TMI_WALK_ITEMS);
    for (uint32_t i = 0; i < rank; i++)
        if (!tmi_pickle_next(p, &c, &item) || !tmi_is_count(p, item.value, &out[i]))
            return false;
    return true;
}

/* Storages. */

/* Finds the storage by its key, which is a string. */
static tmi_torch_storage *find_storage(tmi_torch *t, tmi_ref key, char *shown, size_t *len) {
    *len = 0;
    if (key == TMI_NO_REF || tmi_is_node(key))
        return NULL;
    tmi_atom atom = tmi_atom_of(&t->pickle, key);
    if (atom.kind != TMI_ATOM_TEXT || atom.len > TMI_TORCH_LONGEST_KEY)
        return NULL;
    *len = tmi_atom_text(&atom, shown, KEY_ROOM);
    if (*len == SIZE_MAX) {
        *len = 0;
        return NULL;
    }
    size_t i = tmi_names_find(&t->keys, shown, *len, tmi_hash(&t->place->key, shown, *len));
    return i == TMI_NONE ? NULL : &t->storages[i];
}

/* The part of a storage that a view sees: (key of the view, first element, number of elements). */
static bool take_view(const tmi_torch *t, tmi_ref view, unsigned width, tmi_torch_tensor *out,
                      tmi_torch_problem *problem) {
    enum { FIRST = 1, ELEMENTS = 2, PARTS = 3 };
    const tmi_pickle *p = &t->pickle;
    uint64_t first, elements;
    if (!t->views)
        return OTHER_TENSOR_KIND(problem, "its storage is a view of another one");
    if (tmi_tuple_count(p, view) != PARTS ||
        !tmi_is_count(p, tmi_tuple_item(p, view, FIRST), &first) ||
        !tmi_is_count(p, tmi_tuple_item(p, view, ELEMENTS), &elements))
        return BAD_TENSOR(problem, "its storage is a view that is not described by a key and two "
                                   "whole numbers");
    if (first > out->elements || elements > out->elements - first)
        return no_tensor(problem, TENMAP_ERR_FORMAT, TENMAP_FOUND_SIZE,
                         "its storage is a view of %llu elements from number %llu on, of a storage "
                         "that has %llu",
                         (ull)elements, (ull)first, (ull)out->elements);
    out->elements = elements;
    out->view_at = first * width;
    out->view_bytes = elements * width;
    return true;
}

/* ("storage", type, key, location, number of elements[, view]) */
static bool describe_storage(tmi_torch *t, tmi_ref ref, tmi_torch_tensor *out,
                             tmi_torch_problem *problem) {
    enum { TYPE = 1, KEY = 2, ELEMENTS = 4, VIEW = 5 };
    const tmi_pickle *p = &t->pickle;
    char key[KEY_ROOM];
    size_t len;
    uint64_t elements, bytes;
    if (!tmi_torch_is_tensor(t, ref) || !tmi_is_kind(p, ref, TMI_PICKLE_PERSISTENT))
        return OTHER_TENSOR_KIND(problem, "its elements are not in a storage of the file");
    tmi_ref id = tmi_node(p, ref)[TMI_WORD_ID];
    uint32_t count = tmi_tuple_count(p, id);
    const tmi_pickle_global *type =
        tmi_pickle_global_of(p, count > TYPE ? tmi_tuple_item(p, id, TYPE) : TMI_NO_REF);
    if (count <= ELEMENTS || type->which != TMI_GLOBAL_STORAGE)
        return BAD_TENSOR(problem, "its storage has no known type");
    tmi_torch_storage *storage = find_storage(t, tmi_tuple_item(p, id, KEY), key, &len);
    if (!storage)
        return no_tensor(problem, TENMAP_ERR_FORMAT, TENMAP_FOUND_INCOMPLETE,
                         "its storage %s is not in the file", tmi_quote(key, len).text);
    if (!tmi_is_count(p, tmi_tuple_item(p, id, ELEMENTS), &elements) ||
        !tmi_multiply(elements, type->bytes, &bytes) || bytes != storage->bytes)
        return no_tensor(problem, TENMAP_ERR_FORMAT, TENMAP_FOUND_SIZE,
                         "its storage %s has %llu bytes, not the number of elements of %s that the "
                         "pickle says",
                         tmi_quote(key, len).text, (ull)storage->bytes, type->what);
    if (storage->type &&
        (storage->type->dtype != type->dtype || storage->type->bytes != type->bytes))
        return BAD_TENSOR(problem, "its storage %s holds %s here and %s elsewhere",
                          tmi_quote(key, len).text, type->what, storage->type->what);
    out->elements = elements;
    out->view_bytes = bytes;
    tmi_ref view = count > VIEW ? tmi_tuple_item(p, id, VIEW) : TMI_NO_REF;
    bool whole =
        count <= VIEW || (!tmi_is_node(view) && tmi_atom_of(p, view).kind == TMI_ATOM_NONE);
    if (!whole && !take_view(t, view, type->bytes, out, problem))
        return false;
    out->storage = storage;
    out->dtype = type->dtype;
    if (type->dtype == TENMAP_AS_STORED)
        return no_tensor(problem, TENMAP_ERR_UNSUPPORTED, TENMAP_FOUND_DTYPE,
                         "its elements are %s, a type that is not known here", type->what);
    return true;
}

void tmi_torch_take_types(tmi_torch *t) {
    enum { TYPE = 1, KEY = 2, ELEMENTS = 4 };
    const tmi_pickle *p = &t->pickle;
    char key[KEY_ROOM];
    size_t len;
    for (uint32_t at = p->first_persistent; at; at = p->nodes.at[at + TMI_WORD_FOLLOWING]) {
        tmi_ref id = p->nodes.at[at + TMI_WORD_ID];
        if (tmi_tuple_count(p, id) <= ELEMENTS)
            continue;
        const tmi_pickle_global *type = tmi_pickle_global_of(p, tmi_tuple_item(p, id, TYPE));
        tmi_torch_storage *storage = find_storage(t, tmi_tuple_item(p, id, KEY), key, &len);
        if (storage && !storage->type && type->which == TMI_GLOBAL_STORAGE)
            storage->type = type;
    }
}

/* Calls. */

/* A call that gives a tensor: of which global, with which arguments. */
typedef struct torch_call {
    const tmi_pickle_global *global;
    tmi_ref args;
} torch_call;

static bool call_at(const tmi_torch *t, tmi_ref ref, torch_call *call, tmi_torch_problem *problem) {
    const tmi_pickle *p = &t->pickle;
    if (!tmi_is_kind(p, ref, TMI_PICKLE_OBJECT))
        return BAD_TENSOR(problem, "it should be a tensor, but is another value");
    const uint32_t *node = tmi_node(p, ref);
    *call = (torch_call){tmi_pickle_global_of(p, node[TMI_WORD_CALLABLE]), node[TMI_WORD_ARGS]};
    bool changed = node[TMI_WORD_FIRST] || node[TMI_WORD_STATE] != TMI_NO_REF;
    if (call->global->which != TMI_GLOBAL_UNKNOWN)
        return !changed || BAD_TENSOR(problem, "the pickle gives it items or a state, which would "
                                               "change its elements after it is made");
    tmi_atom module = {.text = "?", .len = 1}, name = module;
    if (tmi_is_kind(p, node[TMI_WORD_CALLABLE], TMI_PICKLE_GLOBAL))
        tmi_global_text(p, node[TMI_WORD_CALLABLE], &module, &name);
    char full[96];
    snprintf(full, sizeof full, "%.*s.%.*s", (int)(module.len < 46 ? module.len : 46), module.text,
             (int)(name.len < 46 ? name.len : 46), name.text);
    return OTHER_TENSOR_KIND(problem, "it would be made by code, %s, which is not run",
                             tmi_quote(full, strlen(full)).text);
}

/* Goes through parameters and subclasses to the call that names the storage. */
static bool find_call(const tmi_torch *t, tmi_ref ref, torch_call *call,
                      tmi_torch_problem *problem) {
    enum { OF = 0, ARGS = 2 };
    const tmi_pickle *p = &t->pickle;
    *call = (torch_call){tmi_pickle_global_of(p, TMI_NO_REF), TMI_NO_REF};
    if (!call_at(t, ref, call, problem))
        return false;
    for (unsigned i = 0; i < MOST_WRAPPED; i++) {
        uint32_t count = tmi_tuple_count(p, call->args);
        switch (call->global->which) {
        case TMI_GLOBAL_TENSOR:
        case TMI_GLOBAL_TENSOR_V3:
            return true;
        case TMI_GLOBAL_NOT_A_TENSOR:
            return OTHER_TENSOR_KIND(problem, "it is %s", call->global->what);
        case TMI_GLOBAL_WRAPPED:
            if (count == 0 || !call_at(t, tmi_tuple_item(p, call->args, OF), call, problem))
                return count ? false : BAD_TENSOR(problem, "a parameter has no tensor");
            break;
        case TMI_GLOBAL_SUBCLASS:
            if (count <= ARGS ||
                !tmi_is_kind(p, tmi_tuple_item(p, call->args, ARGS), TMI_PICKLE_TUPLE))
                return BAD_TENSOR(problem, "a tensor of a subclass has no tensor");
            *call = (torch_call){tmi_pickle_global_of(p, tmi_tuple_item(p, call->args, OF)),
                                 tmi_tuple_item(p, call->args, ARGS)};
            break;
        case TMI_GLOBAL_UNKNOWN:
            return OTHER_TENSOR_KIND(problem, "it would be made by code, which is not run");
        default:
            return BAD_TENSOR(problem, "it should be a tensor, but is another value");
        }
    }
    return no_tensor(problem, TENMAP_ERR_LIMIT, TENMAP_FOUND_LIMIT,
                     "it is a parameter of a parameter, more than %d times", (int)MOST_WRAPPED);
}

/* Whether the tensor's metadata says that torch changes the values when it reads them. */
static bool is_lazy(const tmi_pickle *p, tmi_ref metadata) {
    enum { MOST_LOOKED_AT = 16 };
    tmi_pickle_item item;
    if (!tmi_is_kind(p, metadata, TMI_PICKLE_DICT))
        return tmi_is_node(metadata);
    tmi_pickle_cursor c = tmi_pickle_cursor_at(p, metadata, TMI_WALK_ITEMS);
    for (unsigned i = 0; tmi_pickle_next(p, &c, &item); i++) {
        tmi_atom value = {.kind = TMI_ATOM_BIG};
        if (!tmi_is_node(item.value))
            value = tmi_atom_of(p, item.value);
        if (i >= MOST_LOOKED_AT || value.kind != TMI_ATOM_BOOL || value.number)
            return true;
    }
    return false;
}

/* _rebuild_tensor_v3 has the dtype as an argument. */
static bool take_torch_dtype(const tmi_pickle *p, tmi_ref ref, tmi_torch_tensor *out,
                             tmi_torch_problem *problem) {
    const tmi_pickle_global *dtype = tmi_pickle_global_of(p, ref);
    if (dtype->which != TMI_GLOBAL_DTYPE)
        return BAD_TENSOR(problem, "its dtype is unknown");
    out->dtype = dtype->dtype;
    if (dtype->dtype == TENMAP_AS_STORED)
        return no_tensor(problem, TENMAP_ERR_UNSUPPORTED, TENMAP_FOUND_DTYPE,
                         "its dtype is %s, which is not known here", dtype->name);
    return true;
}

/* (storage, offset, shape, strides, requires_grad, hooks[, dtype][, metadata]) */
static bool take_call(tmi_torch *t, const torch_call *call, tmi_torch_tensor *out,
                      tmi_torch_problem *problem) {
    enum { STORAGE = 0, OFFSET = 1, SHAPE = 2, STRIDES = 3, LEAST = 4, DTYPE_OR_METADATA = 6 };
    const tmi_pickle *p = &t->pickle;
    tmi_ref args = call->args;
    uint32_t count = tmi_tuple_count(p, args), stride_rank;
    bool v3 = call->global->which == TMI_GLOBAL_TENSOR_V3;
    uint32_t metadata = DTYPE_OR_METADATA + v3;
    if (count < LEAST || (v3 && count <= DTYPE_OR_METADATA))
        return BAD_TENSOR(problem, "it has only %u arguments", (unsigned)count);
    bool stored = describe_storage(t, tmi_tuple_item(p, args, STORAGE), out, problem);
    if (!stored && !(v3 && problem->code == TENMAP_FOUND_DTYPE))
        return false;
    if (v3 && !take_torch_dtype(p, tmi_tuple_item(p, args, DTYPE_OR_METADATA), out, problem))
        return false;
    out->shape = tmi_tuple_item(p, args, SHAPE);
    out->strides = tmi_tuple_item(p, args, STRIDES);
    if (!tmi_is_count(p, tmi_tuple_item(p, args, OFFSET), &out->offset))
        return BAD_TENSOR(problem, "its offset in the storage is not a whole number");
    if (!tmi_torch_rank(t, out->shape, &out->rank) ||
        !tmi_torch_rank(t, out->strides, &stride_rank) || out->rank != stride_rank)
        return BAD_TENSOR(problem, "its shape and its strides do not have the same length");
    if (out->rank > MOST_RANK)
        return no_tensor(problem, TENMAP_ERR_LIMIT, TENMAP_FOUND_LIMIT,
                         "it has more than %d dimensions", (int)MOST_RANK);
    if (count > metadata && is_lazy(p, tmi_tuple_item(p, args, metadata)))
        return OTHER_TENSOR_KIND(problem, "torch conjugates or negates it when it is read");
    return true;
}

bool tmi_torch_describe(tmi_torch *t, tmi_ref ref, tmi_torch_tensor *out,
                        tmi_torch_problem *problem) {
    torch_call call;
    *out = (tmi_torch_tensor){.shape = TMI_NO_REF, .strides = TMI_NO_REF};
    *problem = (tmi_torch_problem){.code = 0};
    if (tmi_is_kind(&t->pickle, ref, TMI_PICKLE_PERSISTENT)) {
        out->bare = true;
        out->rank = 1;
        return describe_storage(t, ref, out, problem);
    }
    return find_call(t, ref, &call, problem) && take_call(t, &call, out, problem);
}
