/*
 * Keys that a dict of a checkpoint has twice. Python keeps the last value only, so the tensors
 * below the others are not in the checkpoint for torch.
 */
#include "pytorch.h"

/* A key in one form: equal for Python means equal bytes. It begins with its text, for tmi_names. */
typedef struct torch_key {
    const char *text;
    size_t len;
    tmi_ref ref;
    bool holds; /* its value is a tensor, or holds some */
} torch_key;

/* The bytes that numbers take in that form; those of texts follow a letter. */
enum { KEY_NUMBER = 16 };

/* The keys of a dict, one after the other. */
typedef struct key_walk {
    const tmi_torch *t;
    tmi_pickle_cursor outer, inner;
    bool inside;     /* of what the dict was made of */
    uint64_t looked; /* at so many items, of which some have no key */
} key_walk;

static key_walk walk_keys(const tmi_torch *t, tmi_ref dict) {
    key_walk w = {.t = t, .outer = tmi_pickle_cursor_at(&t->pickle, dict, TMI_WALK_ITEMS)};
    return w;
}

static bool next_key(key_walk *w, tmi_pickle_item *item) {
    const tmi_pickle *p = &w->t->pickle;
    for (;; w->looked++) {
        if (w->inside && tmi_pickle_next(p, &w->inner, item)) {
            if (item->key != TMI_NO_REF && !tmi_is_node(item->key))
                return true;
            continue;
        }
        w->inside = false;
        if (!tmi_pickle_next(p, &w->outer, item))
            return false;
        if (item->whole && item->mode == TMI_WALK_PAIRS && tmi_is_node(item->value)) {
            w->inner = tmi_pickle_cursor_at(p, item->value, TMI_WALK_PAIRS);
            w->inside = true;
        } else if (item->key != TMI_NO_REF && !tmi_is_node(item->key)) {
            return true;
        }
    }
}

/* Writes the kind and the bits of a number; returns how many bytes these are. */
static size_t put_key_number(char *out, char kind, uint64_t bits) {
    memset(out, 0, KEY_NUMBER);
    out[0] = kind;
    memcpy(out + 1, &bits, sizeof bits);
    return KEY_NUMBER;
}

/* Writes the key in the form; returns its bytes, 0 if it is not compared. */
static size_t put_key(const tmi_atom *atom, char *out) {
    const double least = -9223372036854775808.0;
    double real = atom->real;
    uint64_t bits;
    size_t len;
    switch (atom->kind) {
    case TMI_ATOM_TEXT:
        out[0] = 't';
        len = tmi_atom_text(atom, out + 1, 2 * atom->len);
        return len == SIZE_MAX ? 0 : 1 + len;
    case TMI_ATOM_BOOL:
    case TMI_ATOM_INT:
        return put_key_number(out, 'n', (uint64_t)atom->number);
    case TMI_ATOM_FLOAT: /* 1.0 and 1 are one key */
        if (real >= least && real < -least && (double)(int64_t)real == real)
            return put_key_number(out, 'n', (uint64_t)(int64_t)real);
        memcpy(&bits, &real, sizeof bits);
        return real < least || real >= least ? put_key_number(out, 'f', bits) : 0;
    case TMI_ATOM_NONE:
        return put_key_number(out, '0', 0);
    default:
        return 0;
    }
}

static size_t key_room(const tmi_atom *atom) {
    return atom->kind == TMI_ATOM_TEXT ? 1 + 2 * atom->len : KEY_NUMBER;
}

static bool value_holds(const tmi_torch *t, tmi_ref value) {
    return tmi_torch_is_tensor(t, value) || tmi_torch_is_made_by_code(t, value) ||
           (tmi_is_node(value) && tmi_node(&t->pickle, value)[TMI_WORD_KIND] & TMI_MARK_HOLDS);
}

/* Enters all keys into the table, until one is there already. */
static void compare_keys(const tmi_torch *t, tmi_ref dict, torch_key *keys, char *text,
                         tmi_names *names, tmi_ref *twice) {
    const tmi_hash_key *hash = &t->place->key;
    key_walk walk = walk_keys(t, dict);
    tmi_pickle_item item;
    size_t count = 0;
    while (next_key(&walk, &item)) {
        tmi_atom atom = tmi_atom_of(&t->pickle, item.key);
        size_t len = put_key(&atom, text);
        if (len == 0)
            continue;
        torch_key *key = &keys[count];
        *key = (torch_key){text, len, item.key, value_holds(t, item.value)};
        size_t twin = tmi_names_put(names, count, tmi_hash(hash, text, len));
        if (twin == TMI_NONE) {
            text += len;
            count++;
        } else if (key->holds || keys[twin].holds) {
            *twice = item.key;
            return;
        }
    }
}

tenmap_status tmi_torch_find_twin(tmi_torch *t, tmi_ref dict, uint64_t *steps, tmi_ref *twice) {
    key_walk walk = walk_keys(t, dict);
    tmi_pickle_item item;
    uint64_t count = 0, room = 0;
    while (next_key(&walk, &item)) {
        tmi_atom atom = tmi_atom_of(&t->pickle, item.key);
        if (atom.len > *steps)
            return TENMAP_ERR_LIMIT;
        *steps -= atom.len;
        count++;
        room += key_room(&atom);
    }
    if (walk.looked + count > *steps)
        return TENMAP_ERR_LIMIT;
    *steps -= walk.looked + count;
    if (count < 2)
        return TENMAP_OK;
    /* Steps bound both. */
    tmi_block block;
    tmi_names names = {.mask = 0};
    uint64_t bytes = count * sizeof(torch_key) + room;
    if (bytes > SIZE_MAX / 2 || !tmi_block_alloc_dirty(&block, (size_t)bytes))
        return tmi_fail_memory(t->error, bytes, "the keys of a dict");
    torch_key *keys = block.bytes;
    tenmap_status status = TENMAP_OK;
    if (tmi_names_init(&names, &t->place->key, keys, sizeof *keys, (size_t)count))
        compare_keys(t, dict, keys, (char *)(keys + count), &names, twice);
    else
        status = tmi_fail_memory(t->error, count * 16, "the keys of a dict");
    tmi_names_free(&names);
    tmi_block_free(&block);
    return status;
}
