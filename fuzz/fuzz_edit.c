/*
 * Metadata edits and renamings of any file: in place, or by a new file. Input: PROGRAM bytes, which
 * choose options and edits, then the file. After an edit the tensors and all other members of the
 * header must be unchanged, and their names and the metadata must be what a simple model of the
 * edits predicts. After a refusal no byte may have changed. In either case no other file may be
 * left beside it. Some inputs first plant a record of an interrupted edit, with the file's header
 * and one that differs in a few bytes: a repair changes metadata, and names if the record says so,
 * or nothing.
 */
#if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1 /* mkdtemp */
#endif
#include "input.h"
#include "scratch.h"

enum { PROGRAM = 64, MOST_EDITS = 6, MOST_PAIRS = 256, MOST_NAMES = 3, MOST_RENAMED = 256 };

typedef struct pair {
    const char *key, *value;
    size_t key_len, value_len;
} pair;

typedef struct edited {
    input in;
    tenmap_edit edits[MOST_EDITS];
    size_t edit_count;
    tenmap_renaming names[MOST_NAMES];
    size_t name_count;
    tenmap_edit_options options;
    tenmap_model *before; /* opened from the input's bytes; NULL: they do not open */
    pair pairs[MOST_PAIRS + MOST_EDITS];
    size_t pair_count;
    bool good;    /* every edit is valid */
    bool planted; /* a planted record is tried first */
    bool renames; /* the edit is a renaming; the record says that it is one */
} edited;

static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len) {
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* Texts of two lengths: most are short, some are longer than any header's padding. */
static const char *choose_text(input *in, size_t *len) {
    static char long_text[700];
    memset(long_text, 'x', sizeof long_text);
    if (input_byte(in) % 8 == 7) {
        *len = sizeof long_text;
        return long_text;
    }
    return input_text(in, len);
}

static void choose_edits(edited *e) {
    uint8_t flags = input_byte(&e->in);
    e->options = (tenmap_edit_options)TENMAP_EDIT_OPTIONS_INIT;
    e->options.flags = flags & (TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE |
                                TENMAP_EDIT_FOLLOW_LINKS | TENMAP_EDIT_NO_COPY);
    e->planted = flags & 0x40;
    e->renames = flags & 0x80;
    e->edit_count = input_below(&e->in, MOST_EDITS + 1);
    for (size_t i = 0; i < e->edit_count; i++) {
        tenmap_edit *edit = &e->edits[i];
        bool removes = input_byte(&e->in) % 4 == 3;
        edit->key = input_text(&e->in, &edit->key_len);
        edit->value = removes ? NULL : choose_text(&e->in, &edit->value_len);
    }
}

/* Chooses tensors, now and then one that does not exist, and their new names. */
static void choose_names(edited *e) {
    size_t count = tenmap_count(e->before);
    e->name_count = count > MOST_RENAMED ? 0 : input_below(&e->in, MOST_NAMES + 1);
    for (size_t i = 0; i < e->name_count; i++) {
        tenmap_renaming *r = &e->names[i];
        size_t at = input_below(&e->in, (unsigned)count + 1);
        const tenmap_tensor *t = at < count ? tenmap_at(e->before, at) : NULL;
        r->name = t ? t->name : "no such tensor";
        r->name_len = t ? t->name_len : 14;
        r->new_name = choose_text(&e->in, &r->new_name_len);
    }
}

/* The name of a tensor after the edit. */
static pair name_after(const edited *e, const tenmap_tensor *t) {
    for (size_t i = 0; i < e->name_count; i++)
        if (same_text(e->names[i].name, e->names[i].name_len, t->name, t->name_len))
            return (pair){e->names[i].new_name, NULL, e->names[i].new_name_len, 0};
    return (pair){t->name, NULL, t->name_len, 0};
}

/* Whether the renamings are valid, by comparing everything with everything. */
static bool names_are_good(const edited *e) {
    size_t count = tenmap_count(e->before);
    for (size_t i = 0; i < e->name_count; i++) {
        const tenmap_renaming *r = &e->names[i];
        if (!tenmap_find_n(e->before, r->name, r->name_len) ||
            fuzz_utf8(r->new_name, r->new_name_len) != r->new_name_len ||
            same_text(r->new_name, r->new_name_len, "__metadata__", 12))
            return false;
        for (size_t k = 0; k < i; k++)
            if (same_text(r->name, r->name_len, e->names[k].name, e->names[k].name_len))
                return false;
    }
    for (size_t i = 0; e->name_count && i < count; i++)
        for (size_t k = 0; k < i; k++) {
            pair a = name_after(e, tenmap_at(e->before, i));
            pair b = name_after(e, tenmap_at(e->before, k));
            if (same_text(a.key, a.key_len, b.key, b.key_len))
                return false;
        }
    return true;
}

/* Computes the metadata after the edit. */
static void apply(edited *e) {
    e->good = true;
    for (size_t i = 0; i < tenmap_metadata_count(e->before); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(e->before, i);
        e->pairs[e->pair_count++] = (pair){m->key, m->value, m->key_len, m->value_len};
    }
    for (size_t i = 0; i < e->edit_count; i++) {
        const tenmap_edit *edit = &e->edits[i];
        size_t at = 0;
        while (at < e->pair_count &&
               !same_text(e->pairs[at].key, e->pairs[at].key_len, edit->key, edit->key_len))
            at++;
        if (!edit->value) {
            if (at < e->pair_count)
                memmove(&e->pairs[at], &e->pairs[at + 1], (--e->pair_count - at) * sizeof(pair));
            continue;
        }
        e->good = e->good && fuzz_utf8(edit->key, edit->key_len) == edit->key_len &&
                  fuzz_utf8(edit->value, edit->value_len) == edit->value_len;
        e->pairs[at] = (pair){edit->key, edit->value, edit->key_len, edit->value_len};
        e->pair_count += at == e->pair_count;
    }
    if (e->renames)
        choose_names(e);
    e->good = e->good && names_are_good(e);
}

/* The tensors must be unchanged, under their expected names. */
static void check_tensors(const edited *e, const tenmap_model *after, const uint8_t *file,
                          bool any_names) {
    CHECK(tenmap_count(after) == tenmap_count(e->before));
    for (size_t i = 0; i < tenmap_count(after); i++) {
        const tenmap_tensor *a = tenmap_at(e->before, i), *b = tenmap_at(after, i);
        pair due = name_after(e, a);
        CHECK(any_names || same_text(due.key, due.key_len, b->name, b->name_len));
        CHECK(a->dtype == b->dtype && a->rank == b->rank && a->nbytes == b->nbytes);
        for (uint32_t d = 0; d < a->rank; d++)
            CHECK(a->shape[d] == b->shape[d]);
        CHECK(memcmp(file + a->file_offset, b->data, (size_t)a->nbytes) == 0);
    }
}

static void check_after(const edited *e, const uint8_t *file) {
    tenmap_model *after;
    CHECK(tenmap_open(scratch_path, NULL, &after, NULL) == TENMAP_OK);
    CHECK(tenmap_metadata_count(after) == e->pair_count);
    for (size_t i = 0; i < e->pair_count; i++) {
        const tenmap_metadata *m = tenmap_metadata_at(after, i);
        CHECK(same_text(m->key, m->key_len, e->pairs[i].key, e->pairs[i].key_len));
        CHECK(same_text(m->value, m->value_len, e->pairs[i].value, e->pairs[i].value_len));
    }
    check_tensors(e, after, file, false);
    tenmap_close(after);
}

static void put_number(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/*
 * Plants a record with the file's header and a changed one. False if the file is too short for a
 * header.
 */
static bool plant_record(edited *e, const char *path, const uint8_t *file, size_t size) {
    struct stat st;
    uint64_t n = 0, hash = UINT64_C(14695981039346656037);
    for (int i = 7; size >= 8 && i >= 0; i--)
        n = n << 8 | file[i];
    if (size < 8 || n == 0 || n > size - 8 || stat(scratch_path, &st) != 0)
        return false;
    size_t len = (size_t)n, total = 40 + 2 * len + 8;
    uint8_t *record = calloc(1, total), *text = record + 40 + len;
    memcpy(record, e->renames ? "TENMAPU2" : "TENMAPU1", 8);
    put_number(record + 16, (uint64_t)st.st_ino);
    put_number(record + 24, size);
    put_number(record + 32, n);
    memcpy(record + 40, file + 8, len);
    memcpy(text, file + 8, len);
    for (unsigned changes = input_below(&e->in, 4); changes > 0; changes--) {
        size_t at = input_below(&e->in, len < 65536 ? (unsigned)len : 65536);
        text[at] = input_byte(&e->in);
    }
    for (size_t i = 0; i < total - 8; i++)
        hash = (hash ^ record[i]) * UINT64_C(1099511628211);
    put_number(record + total - 8, hash);
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(record, 1, total, out) == total && fclose(out) == 0);
    free(record);
    return true;
}

static void repair_and_check(edited *e, const uint8_t *file, size_t size) {
    char path[128];
    tenmap_error error;
    tenmap_model *after;
    size_t new_size = 0;
    snprintf(path, sizeof path, "%s/.m.safetensors.tenmap-undo", scratch_folder);
    if (!plant_record(e, path, file, size))
        return;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_repair_metadata(scratch_path, 0, NULL, &error);
    fuzz_error_check(&error, status);
    uint8_t *bytes = scratch_read(&new_size);
    CHECK(bytes && new_size == size);
    if (status == TENMAP_OK) {
        CHECK(e->before && scratch_files(false) == 1);
        CHECK(tenmap_open(scratch_path, NULL, &after, NULL) == TENMAP_OK);
        size_t names = e->name_count;
        e->name_count = 0; /* the record's names apply */
        check_tensors(e, after, file, e->renames);
        e->name_count = names;
        tenmap_close(after);
    } else {
        CHECK(memcmp(bytes, file, size) == 0);
    }
    free(bytes);
    (void)unlink(path);
    scratch_write(file, size);
}

static void edit_and_check(edited *e, const uint8_t *file, size_t size) {
    struct stat old, now;
    tenmap_error error;
    uint32_t how = 77;
    size_t new_size = 0;
    CHECK(stat(scratch_path, &old) == 0);
    fuzz_error_arm(&error);
    tenmap_status status = e->renames
                               ? tenmap_rename(scratch_path, e->names, e->name_count, e->edits,
                                               e->edit_count, &e->options, &how, &error)
                               : tenmap_edit_metadata(scratch_path, e->edits, e->edit_count,
                                                      &e->options, &how, &error);
    fuzz_error_check(&error, status);
    CHECK(scratch_files(false) == 1 && stat(scratch_path, &now) == 0);
    uint8_t *bytes = scratch_read(&new_size);
    if (status != TENMAP_OK) {
        bool refused = status == TENMAP_ERR_UNSUPPORTED && (e->options.flags & TENMAP_EDIT_NO_COPY);
        CHECK(!e->before || !e->good || refused);
        CHECK(how == 77 && new_size == size && memcmp(bytes, file, size) == 0);
    } else {
        CHECK(e->before && e->good);
        check_after(e, file);
        if (how == TENMAP_EDIT_IN_PLACE)
            CHECK(new_size == size && now.st_ino == old.st_ino &&
                  !(e->options.flags & TENMAP_EDIT_NO_IN_PLACE));
        else
            CHECK(now.st_ino != old.st_ino &&
                  (how == TENMAP_EDIT_CLONED || how == TENMAP_EDIT_COPIED));
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static edited e;
    if (size < PROGRAM)
        return 0;
    memset(&e, 0, sizeof e);
    e.in = (input){data, data + PROGRAM, NULL};
    choose_edits(&e);
    size_t left = size - PROGRAM;
    uint8_t *file = malloc(left ? left : 1);
    memcpy(file, data + PROGRAM, left);
    scratch_begin();
    if (tenmap_open_memory(file, left, NULL, &e.before, NULL) == TENMAP_OK &&
        tenmap_metadata_count(e.before) <= MOST_PAIRS) {
        apply(&e);
    } else if (e.before) {
        tenmap_close(e.before);
        free(file);
        return 0;
    }
    scratch_write(file, left);
    if (e.planted)
        repair_and_check(&e, file, left);
    edit_and_check(&e, file, left);
    scratch_files(true);
    tenmap_close(e.before);
    free(file);
    return 0;
}
