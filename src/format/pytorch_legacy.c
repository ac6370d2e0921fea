/*
 * PyTorch checkpoints from before torch 1.6, which torch.save still writes without
 * _use_new_zipfile_serialization. Five pickles lie in a row: a magic number, the protocol's
 * version, the system that wrote the file, the values, and a list of keys. Then come the storages
 * in the order of the keys, each after the number of its elements. Only the values tell how long an
 * element is. So this file reads them to find the storages, and pytorch_header.c reads them again.
 */
#include "pytorch.h"

#include <string.h>

enum { PART_MAGIC, PART_VERSION, PART_SYSTEM, PART_VALUES, PART_KEYS, PARTS };
static const char *const part_names[PARTS] = {"magic number", "protocol's version", "system",
                                              "values", "storages' keys"};

enum { FIRST_LEGACY_READ = 64 << 10, LEGACY_COUNT_BYTES = 8, LEGACY_VERSION = 1001 };

/* Each begins with its key, so that tmi_names can find it. */
typedef struct legacy_storage {
    const char *key;
    size_t key_len;
    uint64_t at, bytes;            /* of the elements, counted from the model's first byte */
    uint64_t elements;             /* that the pickle says */
    const tmi_pickle_global *type; /* NULL: the pickle has not named the storage */
} legacy_storage;

typedef struct legacy_view {
    const char *key;
    size_t key_len;
    const legacy_storage *of;
    uint64_t first, elements;
} legacy_view;

/* A file while its storages are found. */
typedef struct legacy_file {
    tmi_header_reader *reader;
    tmi_torch t;          /* for errors; its pickle is the part that was read last */
    tmi_header_text raw;  /* the first bytes of the file: all pickles, and what follows them */
    uint64_t ends[PARTS]; /* of the pickles; 0: not found */
    tmi_block block;      /* holds the storages */
    legacy_storage *storages;
    size_t count;  /* of the storages, without those for which the file has no room */
    size_t listed; /* of the keys in the file */
    uint64_t keys_bytes;
    tmi_names keys; /* over the storages */
} legacy_file;

#define FAIL_LEGACY(f, status, code, at, ...)                                                      \
    TMI_TORCH_FAIL(&(f)->t, TENMAP_ERR_##status, TENMAP_FOUND_##code, at, NULL, __VA_ARGS__)
#define LEGACY_PATH(f) tmi_quote_path((f)->reader->place->path).text
/* A byte of the model as a byte of the file. */
#define LEGACY_AT(f, at) ((ull)((f)->reader->place->offset + (at)))

/* The magic number 0x1950a86a20f9469cfc6c, as the protocols write it. */
bool tmi_torch_is_legacy(const unsigned char *start, size_t len) {
    static const char decimal[] = "L119547037146038801333356L\n.";
    static const char binary[] = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    enum { LEAST = 8, PROTOCOL = 2, FRAME = 11, FRAMED_FROM = 4, LAST_PROTOCOL = 5 };
    const char *magic = binary;
    size_t size = sizeof binary - 1, at = PROTOCOL;
    if (len < LEAST)
        return false;
    if (start[0] == 'L') {
        magic = decimal;
        size = sizeof decimal - 1;
        at = 0;
    } else if (start[0] != 0x80 || start[1] < PROTOCOL || start[1] > LAST_PROTOCOL) {
        return false;
    } else if (start[1] >= FRAMED_FROM && start[PROTOCOL] == 0x95) {
        at = FRAME;
    }
    /* The file may end in the middle, and the first bytes that are read may, too. */
    enum { ENOUGH = 6 };
    size_t have = len > at ? len - at : 0;
    have = have < size ? have : size;
    return have >= ENOUGH && memcmp(start + at, magic, have) == 0;
}

/*
 * Whether the file begins with the header of a tar archive, too, of which torch would unpickle the
 * entries: it tries that form first. Only the header's sum makes it one. Python reads its digits
 * leniently, so all others are skipped here.
 */
static bool is_tar_too(const unsigned char *start, uint64_t len) {
    enum { TAR_BLOCK = 512, SUM_AT = 148, SUM_BYTES = 8, BASE_256 = 0x80 };
    uint64_t said = 0;
    int64_t unsigned_sum = (int64_t)SUM_BYTES * ' ', signed_sum = unsigned_sum;
    if (len < TAR_BLOCK)
        return false;
    bool binary = start[SUM_AT] & BASE_256;
    for (unsigned i = SUM_AT + binary; i < SUM_AT + SUM_BYTES && (binary || start[i]); i++)
        if (binary)
            said = said << 8 | start[i];
        else if (start[i] >= '0' && start[i] <= '7')
            said = said << 3 | (start[i] - (unsigned)'0');
    for (unsigned i = 0; i < TAR_BLOCK; i++)
        if (i < SUM_AT || i >= SUM_AT + SUM_BYTES) {
            unsigned_sum += start[i];
            signed_sum += start[i] < 0x80 ? start[i] : start[i] - 0x100;
        }
    return said == (uint64_t)unsigned_sum || (signed_sum >= 0 && said == (uint64_t)signed_sum);
}

/* The pickles. */

static const unsigned char *raw_bytes(const legacy_file *f) {
    return f->raw.block.bytes;
}

static uint64_t part_begins(const legacy_file *f, unsigned part) {
    return part ? f->ends[part - 1] : 0;
}

/* Reads more, at least up to byte `need`; each read doubles what was read before. */
static tenmap_status read_on(legacy_file *f, uint64_t need, unsigned part) {
    const tmi_header_reader *reader = f->reader;
    uint64_t size = reader->place->size, limit = reader->limit, have = f->raw.length;
    if (need > size) {
        uint64_t begin = part_begins(f, part);
        return tmi_remedy(
            f->t.error, TENMAP_REMEDY_FETCH_AGAIN,
            FAIL_LEGACY(f, FORMAT, TRUNCATED, size,
                        "%s: the pickle of the %s, from byte %llu on, does not end in the file, "
                        "which has %llu bytes: it is truncated, or damaged",
                        LEGACY_PATH(f), part_names[part], LEGACY_AT(f, begin), LEGACY_AT(f, size)));
    }
    if (need > limit)
        return tmi_fail_header_limit(reader, have, f->t.error);
    uint64_t want = have < FIRST_LEGACY_READ / 2 ? FIRST_LEGACY_READ : 2 * have;
    want = want > need ? want : need;
    want = want < size ? want : size;
    want = want < limit ? want : limit;
    return tmi_text_append(f->reader, &f->raw, have, want - have, "the pickles", f->t.error);
}

/* Reads a pickle; the previous one is freed. */
static bool read_pickle(legacy_file *f, unsigned part) {
    uint64_t begin = part_begins(f, part);
    tmi_pickle_free(&f->t.pickle);
    f->t.pickle_at = begin;
    return tmi_pickle_read(&f->t.pickle, raw_bytes(f) + begin, (size_t)(f->ends[part] - begin));
}

/* Finds where each pickle ends. */
static tenmap_status find_parts(legacy_file *f) {
    tenmap_status status = read_on(f, 1, PART_MAGIC);
    size_t at = 0;
    for (unsigned part = 0; part < PARTS && status == TENMAP_OK;) {
        uint64_t need;
        int scan = tmi_pickle_scan(raw_bytes(f), (size_t)f->raw.length, &at, &need);
        if (scan == TMI_SCAN_MORE) {
            status = read_on(f, need, part);
            continue;
        }
        f->ends[part] = scan == TMI_SCAN_END ? at : f->raw.length;
        if (scan == TMI_SCAN_BAD) { /* so it cannot be read */
            (void)read_pickle(f, part);
            status = tmi_torch_fail_pickle(&f->t);
        } else if (part++ == PART_MAGIC && !tmi_torch_is_legacy(raw_bytes(f), at)) {
            status = FAIL_LEGACY(f, FORMAT, FOREIGN, 0,
                                 "%s: this is a Python pickle that begins almost like a PyTorch "
                                 "checkpoint from before torch 1.6: it is damaged",
                                 LEGACY_PATH(f));
        }
    }
    if (status == TENMAP_OK && is_tar_too(raw_bytes(f), f->raw.length))
        status = FAIL_LEGACY(f, FORMAT, FOREIGN, 0,
                             "%s: this is a PyTorch checkpoint from before torch 1.6 and a tar "
                             "archive at the same time: torch would read the archive",
                             LEGACY_PATH(f));
    return status;
}

/* Reads one of the pickles around the values, which name nothing that Python would import. */
static tenmap_status read_plain_pickle(legacy_file *f, unsigned part) {
    const tmi_pickle *p = &f->t.pickle;
    if (!read_pickle(f, part))
        return tmi_torch_fail_pickle(&f->t);
    if (!p->first_global)
        return TENMAP_OK;
    uint64_t at = f->t.pickle_at + p->nodes.at[p->first_global + TMI_WORD_AT];
    return FAIL_LEGACY(f, FORMAT, ENTRY, at,
                       "%s: the pickle of the %s, byte %llu, names a class or a function: it "
                       "should be only data",
                       LEGACY_PATH(f), part_names[part], LEGACY_AT(f, at));
}

static tenmap_status check_version(legacy_file *f) {
    tenmap_status status = read_plain_pickle(f, PART_VERSION);
    uint64_t version = 0, at = f->t.pickle_at;
    if (status != TENMAP_OK ||
        (tmi_is_count(&f->t.pickle, f->t.pickle.root, &version) && version == LEGACY_VERSION))
        return status;
    return tmi_remedy(f->t.error, TENMAP_REMEDY_CONVERT,
                      FAIL_LEGACY(f, UNSUPPORTED, FOREIGN, at,
                                  "%s: the protocol's version (byte %llu) is not %d: save it again "
                                  "with a newer torch",
                                  LEGACY_PATH(f), LEGACY_AT(f, at), (int)LEGACY_VERSION));
}

/* Refuses files of big-endian machines. */
static tenmap_status check_system(legacy_file *f) {
    const tmi_pickle *p = &f->t.pickle;
    tenmap_status status = read_plain_pickle(f, PART_SYSTEM);
    uint64_t at = f->t.pickle_at;
    bool little = false;
    tmi_pickle_item item;
    if (status != TENMAP_OK)
        return status;
    if (!tmi_is_kind(p, p->root, TMI_PICKLE_DICT))
        return FAIL_LEGACY(f, FORMAT, ENTRY, at,
                           "%s: the pickle of the system, at byte %llu, is not a dict",
                           LEGACY_PATH(f), LEGACY_AT(f, at));
    tmi_pickle_cursor c = tmi_pickle_cursor_at(p, p->root, TMI_WALK_ITEMS);
    while (tmi_pickle_next(p, &c, &item)) /* as in Python, the last value counts */
        if (tmi_is_text(p, item.key, "little_endian")) {
            tmi_atom value = {.kind = TMI_ATOM_NONE};
            if (!tmi_is_node(item.value))
                value = tmi_atom_of(p, item.value);
            little = value.kind == TMI_ATOM_BOOL && value.number;
        }
    if (little)
        return TENMAP_OK;
    return tmi_remedy(
        f->t.error, TENMAP_REMEDY_CONVERT,
        FAIL_LEGACY(f, UNSUPPORTED, FOREIGN, at,
                    "%s: its byte order is not little (byte %llu): save it again on a "
                    "little-endian machine",
                    LEGACY_PATH(f), LEGACY_AT(f, at)));
}

/* The keys. */

static tenmap_status fail_key(legacy_file *f, tmi_ref key) {
    const tmi_pickle *p = &f->t.pickle;
    uint64_t at = f->t.pickle_at + (tmi_is_node(key) ? tmi_node(p, key)[TMI_WORD_AT] : key >> 1);
    if (!tmi_is_node(key) && tmi_atom_of(p, key).escaped)
        return tmi_remedy(
            f->t.error, TENMAP_REMEDY_CONVERT,
            FAIL_LEGACY(f, UNSUPPORTED, FOREIGN, at,
                        "%s: the key of a storage (byte %llu) is written as protocol 0 does, of "
                        "which torch cannot read tensors either: save it with another protocol",
                        LEGACY_PATH(f), LEGACY_AT(f, at)));
    return FAIL_LEGACY(f, FORMAT, ENTRY, at,
                       "%s: the key of a storage (byte %llu) is not a string of at most %d bytes",
                       LEGACY_PATH(f), LEGACY_AT(f, at), (int)TMI_TORCH_LONGEST_KEY);
}

/* A key as the pickle has it; NULL if the value is none. */
static const char *key_of(const tmi_pickle *p, tmi_ref ref, size_t *len) {
    if (ref == TMI_NO_REF || tmi_is_node(ref))
        return NULL;
    tmi_atom atom = tmi_atom_of(p, ref);
    *len = atom.len;
    return atom.kind == TMI_ATOM_TEXT && !atom.escaped && atom.len <= TMI_TORCH_LONGEST_KEY
               ? atom.text
               : NULL;
}

static size_t find_key(const tmi_names *names, const tmi_place *place, const char *key,
                       size_t len) {
    return tmi_names_find(names, key, len, tmi_hash(&place->key, key, len));
}

/* Fills in the keys of the storages, which are zeroed. */
static tenmap_status fill_keys(legacy_file *f) {
    const tmi_pickle *p = &f->t.pickle;
    const tmi_place *place = f->reader->place;
    tmi_pickle_cursor c = tmi_pickle_cursor_at(p, p->root, TMI_WALK_ITEMS);
    tmi_pickle_item item;
    for (size_t i = 0; i < f->count && tmi_pickle_next(p, &c, &item); i++) {
        legacy_storage *s = &f->storages[i];
        s->key = key_of(p, item.value, &s->key_len);
        if (!s->key)
            return fail_key(f, item.value);
        uint64_t hash = tmi_hash(&place->key, s->key, s->key_len);
        if (tmi_names_put(&f->keys, i, hash) != TMI_NONE)
            return FAIL_LEGACY(f, FORMAT, DUPLICATE_NAME, f->t.pickle_at,
                               "%s: the list of storages (byte %llu) has the key %s twice",
                               LEGACY_PATH(f), LEGACY_AT(f, f->t.pickle_at),
                               tmi_quote(s->key, s->key_len).text);
        f->keys_bytes += s->key_len;
    }
    return TENMAP_OK;
}

/*
 * A short list may repeat a key many times. Each storage has a count in the file, so the limit for
 * headers and the size of the file bound the table.
 */
static tenmap_status take_keys(legacy_file *f) {
    const tmi_place *place = f->reader->place;
    const tmi_pickle *p = &f->t.pickle;
    tenmap_status status = read_plain_pickle(f, PART_KEYS);
    tmi_pickle_item item;
    if (status != TENMAP_OK)
        return status;
    if (!tmi_is_kind(p, p->root, TMI_PICKLE_LIST))
        return FAIL_LEGACY(f, FORMAT, ENTRY, f->t.pickle_at,
                           "%s: the pickle of the storages' keys, at byte %llu, is not a list",
                           LEGACY_PATH(f), LEGACY_AT(f, f->t.pickle_at));
    tmi_pickle_cursor c = tmi_pickle_cursor_at(p, p->root, TMI_WALK_ITEMS);
    while (tmi_pickle_next(p, &c, &item))
        f->listed++;
    uint64_t end = f->ends[PART_KEYS], most = (place->size - end) / LEGACY_COUNT_BYTES + 1;
    if (f->listed > (f->reader->limit - end) / LEGACY_COUNT_BYTES)
        return tmi_fail_header_limit(f->reader, end, f->t.error);
    f->count = f->listed < most ? f->listed : (size_t)most;
    if (!tmi_block_alloc(&f->block, (f->count + 1) * sizeof *f->storages))
        return tmi_fail_memory(f->t.error, f->count * sizeof *f->storages, "the storages");
    f->storages = f->block.bytes;
    if (!tmi_names_init(&f->keys, &place->key, f->storages, sizeof *f->storages, f->count))
        return tmi_fail_memory(f->t.error, (uint64_t)f->count * 16, "the storages");
    return fill_keys(f);
}

/* What the values say about the storages. */

/* ("storage", type, key, location, number of elements[, view]) */
typedef struct legacy_reference {
    const tmi_pickle_global *type;
    legacy_storage *storage;
    uint64_t elements;
    tmi_ref id, view; /* the view is TMI_NO_REF or None, if it refers to a whole storage */
} legacy_reference;

/* The number of the storage that the key belongs to, however it is written; TMI_NONE if none. */
static size_t find_storage_of(const legacy_file *f, tmi_ref key) {
    char text[2 * TMI_TORCH_LONGEST_KEY];
    if (tmi_is_node(key))
        return TMI_NONE;
    tmi_atom atom = tmi_atom_of(&f->t.pickle, key);
    if (atom.kind != TMI_ATOM_TEXT || atom.len > TMI_TORCH_LONGEST_KEY)
        return TMI_NONE;
    size_t len = tmi_atom_text(&atom, text, sizeof text);
    return len == SIZE_MAX ? TMI_NONE : find_key(&f->keys, f->reader->place, text, len);
}

/* The next reference to a storage of the file; false after the last one. */
static bool next_reference(const legacy_file *f, uint32_t *at, legacy_reference *out) {
    enum { IS = 0, TYPE = 1, KEY = 2, ELEMENTS = 4, VIEW = 5 };
    const tmi_pickle *p = &f->t.pickle;
    while (*at) {
        tmi_ref id = p->nodes.at[*at + TMI_WORD_ID];
        uint32_t count = tmi_tuple_count(p, id);
        *at = p->nodes.at[*at + TMI_WORD_FOLLOWING];
        if (count <= ELEMENTS || !tmi_is_text(p, tmi_tuple_item(p, id, IS), "storage"))
            continue;
        size_t i = find_storage_of(f, tmi_tuple_item(p, id, KEY));
        if (i == TMI_NONE)
            continue;
        out->type = tmi_pickle_global_of(p, tmi_tuple_item(p, id, TYPE));
        out->storage = &f->storages[i];
        out->id = id;
        out->view = count > VIEW ? tmi_tuple_item(p, id, VIEW) : TMI_NO_REF;
        if (out->type->which == TMI_GLOBAL_STORAGE &&
            tmi_is_count(p, tmi_tuple_item(p, id, ELEMENTS), &out->elements))
            return true;
    }
    return false;
}

static tenmap_status take_types(legacy_file *f) {
    uint32_t at = f->t.pickle.first_persistent;
    legacy_reference r;
    while (next_reference(f, &at, &r)) {
        legacy_storage *s = r.storage;
        if (s->type && (s->type->dtype != r.type->dtype || s->type->bytes != r.type->bytes ||
                        s->elements != r.elements))
            return FAIL_LEGACY(f, FORMAT, ENTRY, f->t.pickle_at,
                               "%s: storage %s has %llu elements of %s in one place of the pickle, "
                               "and %llu of %s in another",
                               LEGACY_PATH(f), tmi_quote(s->key, s->key_len).text, (ull)s->elements,
                               s->type->what, (ull)r.elements, r.type->what);
        s->type = r.type;
        s->elements = r.elements;
    }
    return TENMAP_OK;
}

/* Enters a view, or compares it with an earlier one of the same key. */
static tenmap_status take_legacy_view(legacy_file *f, const legacy_reference *r, tmi_names *names,
                                      legacy_view *views, size_t *count) {
    enum { KEY = 0, FIRST = 1, ELEMENTS = 2, VIEW_PARTS = 3 };
    const tmi_pickle *p = &f->t.pickle;
    const tmi_place *place = f->reader->place;
    legacy_view *view = &views[*count];
    *view = (legacy_view){.of = r->storage};
    if (tmi_tuple_count(p, r->view) != VIEW_PARTS)
        return TENMAP_OK; /* a tensor that uses it is refused */
    view->key = key_of(p, tmi_tuple_item(p, r->view, KEY), &view->key_len);
    if (!view->key)
        return fail_key(f, tmi_tuple_item(p, r->view, KEY));
    (void)tmi_is_count(p, tmi_tuple_item(p, r->view, FIRST), &view->first);
    (void)tmi_is_count(p, tmi_tuple_item(p, r->view, ELEMENTS), &view->elements);
    size_t twin = tmi_names_put(names, *count, tmi_hash(&place->key, view->key, view->key_len));
    bool same =
        twin == TMI_NONE || (views[twin].of == view->of && views[twin].first == view->first &&
                             views[twin].elements == view->elements);
    if (!same || find_key(&f->keys, place, view->key, view->key_len) != TMI_NONE)
        return FAIL_LEGACY(f, FORMAT, ENTRY, f->t.pickle_at,
                           "%s: the key %s belongs to two different storages, or views of storages",
                           LEGACY_PATH(f), tmi_quote(view->key, view->key_len).text);
    *count += twin == TMI_NONE;
    return TENMAP_OK;
}

/* Whether it refers to a view, and is seen for the first time; `mark` is for this walk. */
static bool is_new_view(tmi_pickle *p, const legacy_reference *r, uint32_t mark) {
    if (!tmi_is_node(r->view))
        return false;
    uint32_t *kind = &tmi_node(p, r->id)[TMI_WORD_KIND];
    bool seen = *kind & mark;
    *kind |= mark;
    return !seen;
}

/*
 * Each view has a key of its own, and torch takes what the first reference with that key says. So a
 * key must always mean the same.
 */
static tenmap_status check_views(legacy_file *f) {
    tmi_pickle *p = &f->t.pickle;
    uint32_t at = p->first_persistent;
    legacy_reference r;
    size_t most = 0, count = 0;
    tenmap_status status = TENMAP_OK;
    while (next_reference(f, &at, &r))
        most += is_new_view(p, &r, TMI_MARK_SEEN);
    if (most == 0)
        return TENMAP_OK;
    tmi_names names = {.mask = 0};
    tmi_block block;
    if (!tmi_block_alloc(&block, (most + 1) * sizeof(legacy_view)))
        return tmi_fail_memory(f->t.error, most * sizeof(legacy_view), "the views of storages");
    if (!tmi_names_init(&names, &f->reader->place->key, block.bytes, sizeof(legacy_view), most))
        status = tmi_fail_memory(f->t.error, (uint64_t)most * 16, "the views of storages");
    at = p->first_persistent;
    while (status == TENMAP_OK && next_reference(f, &at, &r))
        if (is_new_view(p, &r, TMI_MARK_ON_PATH))
            status = take_legacy_view(f, &r, &names, block.bytes, &count);
    tmi_names_free(&names);
    tmi_block_free(&block);
    return status;
}

/* The storages. */

/* Reads the number of elements in front of a storage. */
static tenmap_status read_count(legacy_file *f, uint64_t at, uint64_t *elements) {
    tmi_header_reader *reader = f->reader;
    unsigned char bytes[LEGACY_COUNT_BYTES];
    tenmap_status status = TENMAP_OK;
    if (at > f->raw.length || f->raw.length - at < LEGACY_COUNT_BYTES) {
        status = tmi_header_read(reader, at, bytes, LEGACY_COUNT_BYTES, "the size of a storage",
                                 f->t.error);
    } else {
        memcpy(bytes, raw_bytes(f) + at, LEGACY_COUNT_BYTES);
        reader->taken += LEGACY_COUNT_BYTES; /* take_keys has compared the sum with the limit */
    }
    if (status == TENMAP_OK)
        *elements = tmi_file_u64(bytes);
    return status;
}

static tenmap_status place_storage(legacy_file *f, size_t i, uint64_t *at) {
    legacy_storage *s = &f->storages[i];
    uint64_t size = f->reader->place->size, left = size - *at, elements;
    tmi_quoted key = tmi_quote(s->key, s->key_len);
    if (!s->type)
        return FAIL_LEGACY(f, FORMAT, ENTRY, *at,
                           "%s: storage %s (byte %llu): the pickle does not name it with a known "
                           "type, so nothing says how long its elements are",
                           LEGACY_PATH(f), key.text, LEGACY_AT(f, *at));
    if (!tmi_multiply(s->elements, s->type->bytes, &s->bytes) || s->bytes > INT64_MAX)
        return FAIL_LEGACY(f, FORMAT, SIZE, *at,
                           "%s: storage %s (byte %llu): %llu elements of %s are more than 64 bits "
                           "can count",
                           LEGACY_PATH(f), key.text, LEGACY_AT(f, *at), (ull)s->elements,
                           s->type->what);
    if (left >= LEGACY_COUNT_BYTES) {
        tenmap_status status = read_count(f, *at, &elements);
        if (status != TENMAP_OK)
            return status;
        if (elements != s->elements)
            return FAIL_LEGACY(f, FORMAT, SIZE, *at,
                               "%s: storage %s (byte %llu) has %llu elements, but the pickle says "
                               "%llu",
                               LEGACY_PATH(f), key.text, LEGACY_AT(f, *at), (ull)elements,
                               (ull)s->elements);
    }
    if (left < LEGACY_COUNT_BYTES || s->bytes > left - LEGACY_COUNT_BYTES)
        return tmi_remedy(
            f->t.error, TENMAP_REMEDY_FETCH_AGAIN,
            FAIL_LEGACY(f, FORMAT, TRUNCATED, size,
                        "%s: storage %s, number %llu of %llu: expected %llu bytes from byte %llu "
                        "on, but the file ends after %llu of them: it is truncated",
                        LEGACY_PATH(f), key.text, (ull)i + 1, (ull)f->listed,
                        (ull)(s->bytes + LEGACY_COUNT_BYTES), LEGACY_AT(f, *at), (ull)left));
    s->at = *at + LEGACY_COUNT_BYTES;
    *at = s->at + s->bytes;
    return TENMAP_OK;
}

static tenmap_status check_behind(legacy_file *f, uint64_t end) {
    const tmi_place *place = f->reader->place;
    bool allowed = tmi_allows(place->flags, TENMAP_OPEN_TRAILING) && !place->report;
    if (end == place->size || allowed)
        return TENMAP_OK;
    tmi_fail_at(f->t.error, TENMAP_ERR_FORMAT, place->shard, place->offset + end,
                "%s: %llu bytes follow the last storage, at byte %llu (a lenient open takes the "
                "file as it is)",
                LEGACY_PATH(f), (ull)(place->size - end), LEGACY_AT(f, end));
    f->t.error->remedy = TENMAP_REMEDY_ALLOW_LENIENT;
    (void)tmi_torch_failed(&f->t, TENMAP_ERR_FORMAT, TENMAP_FOUND_TRAILING, NULL);
    return TMI_REPORTS(place->report) ? TENMAP_OK : TENMAP_ERR_FORMAT;
}

/* What was read past the pickles is not of the header, but each count is. */
static tenmap_status place_storages(legacy_file *f) {
    uint64_t at = f->ends[PART_KEYS];
    tenmap_status status = TENMAP_OK;
    f->reader->taken = at;
    for (size_t i = 0; i < f->count && status == TENMAP_OK; i++)
        status = place_storage(f, i, &at);
    return status == TENMAP_OK ? check_behind(f, at) : status;
}

/* The text of the header. */

static tenmap_status make_text(legacy_file *f, tmi_header_text *text) {
    uint64_t begin = part_begins(f, PART_VALUES), at = 0;
    tmi_torch_head head = {.rows = f->count,
                           .keys_bytes = f->keys_bytes,
                           .pickle_at = begin,
                           .pickle_bytes = f->ends[PART_VALUES] - begin,
                           .views = true};
    tmi_torch_text parts;
    if (!tmi_torch_text_make(&head, text, &parts))
        return tmi_fail_memory(f->t.error, text->length, "the header");
    for (size_t i = 0; i < f->count; i++) {
        const legacy_storage *s = &f->storages[i];
        parts.rows[i] = (tmi_torch_row){at, s->key_len, s->at, s->bytes};
        memcpy(parts.keys + at, s->key, s->key_len);
        at += s->key_len;
    }
    memcpy(parts.pickle, raw_bytes(f) + begin, (size_t)head.pickle_bytes);
    return TENMAP_OK;
}

/* A check names the code in every pickle, even if the file is not parsed. */
static void report_all_code(legacy_file *f) {
    for (unsigned part = PART_VERSION; part < PARTS && f->ends[part]; part++) {
        (void)read_pickle(f, part);
        tmi_torch_report_code(&f->t);
    }
}

static tenmap_status read_values(legacy_file *f) {
    if (!read_pickle(f, PART_VALUES))
        return tmi_torch_fail_pickle(&f->t);
    tenmap_status status = take_types(f);
    return status == TENMAP_OK ? check_views(f) : status;
}

tenmap_status tmi_torch_find_legacy(tmi_header_reader *reader, tmi_header_text *text,
                                    tenmap_error *error) {
    tenmap_error unused;
    legacy_file f = {.reader = reader,
                     .t = {.place = reader->place, .error = error ? error : &unused}};
    tenmap_status status = find_parts(&f);
    if (status == TENMAP_OK)
        status = check_version(&f);
    if (status == TENMAP_OK)
        status = check_system(&f);
    if (status == TENMAP_OK)
        status = take_keys(&f);
    if (status == TENMAP_OK)
        status = read_values(&f);
    if (status == TENMAP_OK)
        status = place_storages(&f);
    if (status != TENMAP_OK && TMI_REPORTS(reader->place->report))
        report_all_code(&f);
    tmi_pickle_free(&f.t.pickle);
    if (status == TENMAP_OK)
        status = make_text(&f, text);
    tmi_names_free(&f.keys);
    tmi_block_free(&f.block);
    tmi_block_free(&f.raw.block);
    return status;
}
