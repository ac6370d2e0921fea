/*
 * Saves a sharded model so that the folder holds one complete model at every moment: writes new
 * shards under unused names, renames the index (or the only file) into place, then removes the old
 * files.
 */
#include "../format/json.h"
#include "../model/computed.h"
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char index_name[] = "model.safetensors.index.json";
enum { SHARD_NAME_ROOM = 96, MOST_GGUF_PARTS = UINT16_MAX };

/* The names of the files of one format. */
typedef struct saved_names {
    const char *single; /* a model in one file */
    const char *ending; /* of every file */
    bool (*is_saved)(const char *name);
} saved_names;

typedef struct saving {
    const char *path; /* of the folder, for error messages */
    tmi_folder folder;
    const tenmap_source *sources;
    size_t count;
    tenmap_save_options options;
    tenmap_copy_options copy;
    tenmap_writer *dry; /* knows each tensor's size */
    size_t *shard_of;   /* shard number of each source */
    size_t shard_count;
    size_t placed;    /* shards already in place under their names */
    tmi_buffer index; /* text of the index, if there are several shards */
    uint64_t total;   /* bytes of tensors */
    /* Bytes of the sources, before conversion; `copied` is how many of them are done. */
    uint64_t to_copy;
    uint64_t copied;
    char stamp[10];    /* "" or 8 hex digits and a dash, to make names new */
    bool over_old;     /* the folder holds a model or part of one */
    bool single_there; /* model.safetensors exists */
    char **old;        /* files that the new model does not need */
    size_t old_count, old_capacity;
    bool lacks_room; /* memory ran out in a callback */
    /* The name of a model file that is not a regular file; "" if there is none. */
    char special[TMI_NAME_BYTES];
    const saved_names *names;
    bool gguf;         /* a split set: no index, and its first part is put in place last */
    bool other_format; /* the folder holds a SafeTensors model, which would hide a GGUF file */
    tenmap_error *error;
} saving;

#define FAIL_SAVE(s, status, format, ...)                                                          \
    tmi_fail((s)->error, status, "%s: " format, tmi_quote_path((s)->path).text, __VA_ARGS__)

/* The path of a file in the folder, for error messages. */
static char *save_path(const saving *s, const char *name) {
    return tmi_join_path(s->path, strlen(s->path), name, strlen(name));
}

static void name_saved_shard(const saving *s, size_t shard, char out[SHARD_NAME_ROOM]) {
    if (s->shard_count == 1)
        snprintf(out, SHARD_NAME_ROOM, "%s", s->names->single);
    else
        snprintf(out, SHARD_NAME_ROOM, "model-%s%05llu-of-%05llu%s", s->stamp, (ull)shard + 1,
                 (ull)s->shard_count, s->names->ending);
}

/* The shard that is put in place as number `i`: the first part of a split set comes last. */
static size_t shard_in_turn(const saving *s, size_t i) {
    return s->gguf ? (i + 1) % s->shard_count : i;
}

/* Existing files. */

static size_t digits_at(const char *text, const char *allowed) {
    return strspn(text, allowed);
}

/* model-[<8 hex>-]<digits>-of-<digits><ending> */
static bool is_shard_of(const char *name, const char *ending) {
    static const char decimal[] = "0123456789";
    if (strncmp(name, "model-", 6) != 0)
        return false;
    name += 6;
    if (digits_at(name, "0123456789abcdef") == 8 && name[8] == '-' &&
        digits_at(name + 9, decimal) >= 5)
        name += 9;
    size_t n = digits_at(name, decimal);
    if (n < 5 || strncmp(name + n, "-of-", 4) != 0)
        return false;
    name += n + 4;
    n = digits_at(name, decimal);
    return n >= 5 && strcmp(name + n, ending) == 0;
}

static bool is_saved_safetensors(const char *name) {
    return is_shard_of(name, ".safetensors") || strcmp(name, "model.safetensors") == 0 ||
           strcmp(name, index_name) == 0;
}

static bool is_saved_gguf(const char *name) {
    return is_shard_of(name, ".gguf") || strcmp(name, "model.gguf") == 0;
}

static const saved_names names_of_formats[] = {
    [TENMAP_FORMAT_SAFETENSORS] = {"model.safetensors", ".safetensors", is_saved_safetensors},
    [TENMAP_FORMAT_GGUF] = {"model.gguf", ".gguf", is_saved_gguf}};

static bool note_old(saving *s, const char *name, size_t len) {
    char **grown = tmi_grow(s->old, s->old_count, &s->old_capacity, sizeof *grown);
    if (grown)
        s->old = grown;
    char *copy = grown ? tmi_copy_text(name, len) : NULL;
    if (!copy) {
        s->lacks_room = true;
        return false;
    }
    s->old[s->old_count++] = copy;
    return true;
}

static bool note_entry(void *ctx, const char *name) {
    saving *s = ctx;
    if (tmi_is_temp_of(name, s->names->is_saved))
        tmi_remove_if_stale(&s->folder, name);
    if (s->names->is_saved(name) && tmi_is_special(&s->folder, name)) {
        snprintf(s->special, sizeof s->special, "%s", name);
        return false;
    }
    if (strcmp(name, s->names->single) == 0)
        s->single_there = s->over_old = true;
    else if (strcmp(name, index_name) == 0)
        s->over_old = s->over_old || !s->gguf;
    s->other_format = s->other_format || (s->gguf && is_saved_safetensors(name));
    if (!is_shard_of(name, s->names->ending))
        return true;
    s->over_old = true;
    return note_old(s, name, strlen(name));
}

/*
 * Anyone may have written the index: a file that it names is removed only if it is named like a
 * model file.
 */
static bool is_old_shard(const tmi_listed_file *file) {
    static const char ending[] = ".safetensors";
    const size_t len = sizeof ending - 1;
    return file->name_len > len && memcmp(file->name + file->name_len - len, ending, len) == 0 &&
           !is_saved_safetensors(file->name);
}

/* Lists the files that the old index names; none if the index cannot be read. */
static void note_old_index(saving *s) {
    tmi_bytes bytes = TMI_NO_BYTES;
    tmi_place place = {.path = index_name, .key = tmi_hash_key_new()};
    tmi_index index;
    tmi_block text;
    bytes.shown = index_name;
    bool there = tmi_file_open_in(&bytes.file, &s->folder, index_name) == 0 && bytes.file.fd >= 0 &&
                 bytes.file.size > 0 && bytes.file.size <= TMI_WRITTEN_HEADER_LIMIT;
    size_t length = there ? (size_t)bytes.file.size : 0;
    place.size = length;
    if (there && tmi_read_text(&bytes, 0, length, "the index", &text, NULL) == TENMAP_OK &&
        tmi_index_parse(&index, &place, text, length, NULL) == TENMAP_OK) {
        for (size_t i = 0; i < index.file_count; i++)
            if (is_old_shard(&index.files[i]) && !tmi_is_special(&s->folder, index.files[i].name))
                (void)note_old(s, index.files[i].name, index.files[i].name_len);
        tmi_index_free(&index);
    }
    tmi_bytes_close(&bytes);
}

static tenmap_status scan_folder(saving *s) {
    int failed = tmi_folder_open(&s->folder, s->path);
    if (!failed)
        failed = tmi_folder_lock(&s->folder);
    if (failed == EWOULDBLOCK)
        return FAIL_SAVE(s, TENMAP_ERR_IO, "%s", "another program is saving into it right now");
    if (!failed)
        failed = tmi_folder_list_in(&s->folder, note_entry, s);
    if (failed)
        return tmi_fail_os(s->error, failed, "%s: cannot save into it",
                           tmi_quote_path(s->path).text);
    if (*s->special)
        return FAIL_SAVE(s, TENMAP_ERR_ARGUMENT,
                         "%s there is not a regular file but a device, a pipe or a socket, so it "
                         "is not replaced",
                         tmi_quote_path(s->special).text);
    if (s->other_format)
        return FAIL_SAVE(s, TENMAP_ERR_ARGUMENT, "%s",
                         "it holds a SafeTensors model, which readers would open instead of the "
                         "GGUF files: save into another folder");
    if (!s->gguf)
        note_old_index(s);
    return s->lacks_room ? tmi_fail_memory(s->error, s->old_count, "the list of old files")
                         : TENMAP_OK;
}

/* The plan. */

static tenmap_status declare(tenmap_writer *writer, const tenmap_source *source, size_t *id,
                             tenmap_error *error) {
    const tenmap_tensor *t = source->tensor;
    bool own_name = t && !source->name, own_shape = t && !source->shape;
    return tenmap_writer_add(
        writer, own_name ? t->name : source->name, own_name ? t->name_len : source->name_len,
        t && source->dtype == TENMAP_AS_STORED ? t->dtype : source->dtype,
        own_shape ? t->shape : source->shape, own_shape ? t->rank : source->rank, id, error);
}

static tenmap_status declare_pair(const saving *s, tenmap_writer *writer, const tenmap_edit *m) {
    static const char split[] = "split.";
    size_t len = m->key && m->key_len == TENMAP_CSTR ? strlen(m->key) : m->key_len;
    if (s->gguf && m->key && len >= sizeof split - 1 &&
        memcmp(m->key, split, sizeof split - 1) == 0)
        return FAIL_SAVE(s, TENMAP_ERR_ARGUMENT,
                         "metadata key %s: a save sets the keys of split.* itself",
                         tmi_quote(m->key, len).text);
    if (m->value && m->typed)
        return FAIL_SAVE(s, TENMAP_ERR_ARGUMENT, "metadata key %s: both value and typed are given",
                         tmi_quote(m->key ? m->key : "", m->key ? len : 0).text);
    return m->typed ? tenmap_writer_value(writer, m->key, m->key_len, m->typed, s->error)
                    : tenmap_writer_metadata(writer, m->key, m->key_len, m->value, m->value_len,
                                             s->error);
}

static tenmap_status declare_split_key(const saving *s, tenmap_writer *writer, const char *key,
                                       uint32_t type, uint64_t number) {
    unsigned char raw[8];
    tmi_layout_length(raw, number);
    tenmap_value value = {type, type, 1, raw, type == TENMAP_VALUE_U16 ? 2 : 4};
    return tenmap_writer_value(writer, key, TENMAP_CSTR, &value, s->error);
}

/* What llama.cpp wants in every part of a split set, in the types that it uses. */
static tenmap_status declare_split(const saving *s, tenmap_writer *writer, size_t part) {
    tenmap_status status = declare_split_key(s, writer, "split.no", TENMAP_VALUE_U16, part);
    if (status == TENMAP_OK)
        status = declare_split_key(s, writer, "split.count", TENMAP_VALUE_U16, s->shard_count);
    if (status == TENMAP_OK)
        status = declare_split_key(s, writer, "split.tensors.count", TENMAP_VALUE_I32, s->count);
    return status;
}

/* The caller's pairs: in every SafeTensors shard, but only in the first part of a split set. */
static tenmap_status declare_metadata(const saving *s, tenmap_writer *writer, size_t shard) {
    tenmap_status status = TENMAP_OK;
    size_t count = s->gguf && shard > 0 ? 0 : s->options.metadata_count;
    for (size_t i = 0; status == TENMAP_OK && i < count; i++)
        status = declare_pair(s, writer, &s->options.metadata[i]);
    if (status == TENMAP_OK && s->gguf && s->shard_count > 1)
        status = declare_split(s, writer, shard);
    return status;
}

static void writer_options(const saving *s, tenmap_writer_options *out) {
    *out = (tenmap_writer_options)TENMAP_WRITER_OPTIONS_INIT;
    out->data_alignment = s->options.data_alignment;
    out->header_slack = s->options.header_slack;
    out->format = s->options.format;
    if (s->options.flags & TENMAP_SAVE_KEEP_ORDER)
        out->flags = TENMAP_WRITER_KEEP_ORDER;
}

/* Checks everything that a writer would refuse, before a byte is written. */
static tenmap_status check_sources(saving *s) {
    tenmap_writer_options options;
    writer_options(s, &options);
    s->dry = tmi_writer_dry(s->path, &options, s->error);
    if (!s->dry)
        return s->error->status;
    tenmap_status status = declare_metadata(s, s->dry, 0);
    for (size_t i = 0; status == TENMAP_OK && i < s->count; i++) {
        const tenmap_source *source = &s->sources[i];
        tmi_planned planned;
        status = declare(s->dry, source, NULL, s->error);
        if (status == TENMAP_OK && source->tensor)
            status = tmi_copy_check(s->dry, i, source->tensor, source->flags, s->error);
        else if (status == TENMAP_OK && tmi_writer_tensor(s->dry, i, &planned) &&
                 (!source->data && planned.nbytes))
            status = FAIL_SAVE(s, TENMAP_ERR_ARGUMENT, "source %llu has neither a tensor nor data",
                               (ull)i);
        if (status != TENMAP_OK)
            s->error->index = i;
    }
    return status;
}

/* Chooses a stamp that no file in the folder has, so that no old file is overwritten. */
static void choose_stamp(saving *s) {
    bool taken = true;
    while (taken) {
        uint32_t number = 0;
        tmi_random(&number, sizeof number);
        snprintf(s->stamp, sizeof s->stamp, "%08x-", (unsigned)number);
        taken = false;
        for (size_t i = 0; i < s->old_count; i++)
            taken = taken || (is_shard_of(s->old[i], s->names->ending) &&
                              strncmp(s->old[i] + 6, s->stamp, 9) == 0);
    }
}

static uint64_t copied_bytes(const saving *s, size_t i) {
    tmi_planned planned;
    if (s->sources[i].tensor)
        return tmi_stored_bytes(s->sources[i].tensor, s->sources[i].tensor->dtype, 0,
                                s->sources[i].tensor->nelems);
    return tmi_writer_tensor(s->dry, i, &planned) ? planned.nbytes : 0;
}

static tenmap_status plan_shards(saving *s) {
    uint64_t most = s->options.max_shard_bytes ? s->options.max_shard_bytes : 5000000000u;
    uint64_t used = 0;
    s->shard_of = tmi_calloc(s->count, sizeof *s->shard_of);
    if (!s->shard_of)
        return tmi_fail_memory(s->error, s->count * sizeof *s->shard_of, "the plan");
    s->shard_count = 1;
    for (size_t i = 0; i < s->count; i++) {
        tmi_planned planned;
        (void)tmi_writer_tensor(s->dry, i, &planned);
        if (used > 0 && (planned.nbytes > most || used > most - planned.nbytes)) {
            s->shard_count++;
            used = 0;
        }
        s->shard_of[i] = s->shard_count - 1;
        used += planned.nbytes;
        s->total += planned.nbytes;
        s->to_copy += copied_bytes(s, i);
    }
    if (s->shard_count > TMI_MOST_SHARDS)
        return FAIL_SAVE(s, TENMAP_ERR_LIMIT, "%llu shards are more than the %d that readers open",
                         (ull)s->shard_count, (int)TMI_MOST_SHARDS);
    if (s->gguf && s->shard_count > MOST_GGUF_PARTS)
        return FAIL_SAVE(s, TENMAP_ERR_LIMIT,
                         "%llu parts are more than the %d that split.count can say",
                         (ull)s->shard_count, (int)MOST_GGUF_PARTS);
    if (s->gguf && s->over_old && (s->options.flags & TENMAP_SAVE_KEEP_OLD))
        return FAIL_SAVE(s, TENMAP_ERR_ARGUMENT, "%s",
                         "it holds a GGUF model already, and readers would not know which of the "
                         "two to open, so the old one cannot be kept");
    if (s->shard_count > 1 && s->single_there && (s->options.flags & TENMAP_SAVE_KEEP_OLD))
        return FAIL_SAVE(s, TENMAP_ERR_ARGUMENT,
                         "\"%s\" already exists and would hide the new index, so it cannot be kept",
                         s->names->single);
    if (s->over_old)
        choose_stamp(s);
    return TENMAP_OK;
}

typedef struct index_line {
    const char *name;
    size_t len, shard;
} index_line;

static int by_line_name(const void *a, const void *b) {
    const index_line *x = a, *y = b;
    size_t shorter = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->name, y->name, shorter);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static bool index_text(const saving *s, tmi_buffer *text) {
    char file[SHARD_NAME_ROOM];
    index_line *lines = tmi_calloc(s->count, sizeof *lines);
    if (!lines)
        return false;
    for (size_t i = 0; i < s->count; i++) {
        tmi_planned planned;
        (void)tmi_writer_tensor(s->dry, i, &planned);
        lines[i] = (index_line){planned.name, planned.name_len, s->shard_of[i]};
    }
    qsort(lines, s->count, sizeof *lines, by_line_name);
    tmi_buffer_text(text, "{\n  \"metadata\": {\n    \"total_size\": ");
    tmi_buffer_number(text, s->total);
    tmi_buffer_text(text, "\n  },\n  \"weight_map\": {");
    for (size_t i = 0; i < s->count; i++) {
        tmi_buffer_text(text, i ? ",\n    " : "\n    ");
        tmi_buffer_json(text, lines[i].name, lines[i].len);
        tmi_buffer_text(text, ": ");
        name_saved_shard(s, lines[i].shard, file);
        tmi_buffer_json(text, file, strlen(file));
    }
    tmi_buffer_text(text, "\n  }\n}\n");
    free(lines);
    return !text->failed;
}

/* The end of the shard that begins with this source. */
static size_t shard_end(const saving *s, size_t shard, size_t first) {
    while (first < s->count && s->shard_of[first] == shard)
        first++;
    return first;
}

/*
 * Checks that readers will accept the headers and the index, before anything is written or removed.
 */
static tenmap_status check_sizes(saving *s) {
    bool split = s->gguf && s->shard_count > 1;
    tenmap_status status = split ? declare_split(s, s->dry, 0) : TENMAP_OK;
    size_t first = 0;
    for (size_t shard = 0; status == TENMAP_OK && shard < s->shard_count; shard++) {
        size_t end = shard_end(s, shard, first);
        size_t first_pair = split && shard > 0 ? s->options.metadata_count : 0;
        const tmi_head_items items = {first, end - first, first_pair};
        status = tmi_writer_check_head(s->dry, items, s->error);
        if (status != TENMAP_OK)
            s->error->shard = (uint32_t)shard;
        first = end;
    }
    if (status != TENMAP_OK || s->shard_count == 1 || s->gguf)
        return status;
    if (!index_text(s, &s->index))
        return tmi_fail_memory(s->error, s->index.len, "the index");
    if (s->index.len > TMI_WRITTEN_HEADER_LIMIT)
        return FAIL_SAVE(s, TENMAP_ERR_LIMIT,
                         "the index would have %llu bytes, over the %llu that readers accept",
                         (ull)s->index.len, (ull)TMI_WRITTEN_HEADER_LIMIT);
    return TENMAP_OK;
}

/* Writing. */

/* Writes sources [first, end) as one file, complete and synced. */
static tenmap_status save_shard(saving *s, size_t shard, size_t first, size_t end) {
    tenmap_writer_options options;
    tenmap_writer *writer;
    char name[SHARD_NAME_ROOM];
    name_saved_shard(s, shard, name);
    char *path = save_path(s, name);
    if (!path)
        return tmi_fail_memory(s->error, strlen(s->path), "the path");
    writer_options(s, &options);
    tenmap_status status =
        tmi_writer_create_in(&s->folder, name, path, &options, &writer, s->error);
    free(path);
    if (status != TENMAP_OK)
        return status;
    status = declare_metadata(s, writer, shard);
    for (size_t i = first; status == TENMAP_OK && i < end; i++)
        status = declare(writer, &s->sources[i], NULL, s->error);
    if (status == TENMAP_OK && end > first) {
        tenmap_copy_options copy = s->copy;
        copy.losses = copy.losses ? copy.losses + first : NULL;
        status = tmi_copy_sources(writer, s->sources + first, end - first, &copy,
                                  (tmi_copied){s->copied, s->to_copy}, s->error);
    }
    for (size_t i = first; i < end; i++)
        s->copied += copied_bytes(s, i);
    if (status != TENMAP_OK) {
        tenmap_writer_abort(writer);
        return status;
    }
    bool there;
    status = tmi_writer_commit(writer, &there, s->error);
    s->placed += there;
    return status;
}

static tenmap_status save_shards(saving *s) {
    tenmap_status status = TENMAP_OK;
    size_t first = s->gguf ? shard_end(s, 0, 0) : 0;
    for (size_t i = 0; status == TENMAP_OK && i < s->shard_count; i++) {
        size_t shard = shard_in_turn(s, i);
        first = shard == 0 ? 0 : first;
        size_t end = shard_end(s, shard, first);
        status = save_shard(s, shard, first, end);
        if (status != TENMAP_OK)
            s->error->shard = (uint32_t)shard;
        first = end;
    }
    return status;
}

/* The commit point of a model with several shards. */
static tenmap_status save_index(const saving *s, bool *replaced) {
    tmi_atomic_file target;
    int failed = tmi_atomic_file_begin_in(&target, &s->folder, index_name, index_name, -1);
    if (!failed) {
        failed = tmi_fd_write(target.fd, 0, s->index.bytes, s->index.len);
        if (failed)
            tmi_atomic_file_discard(&target);
        else
            failed = tmi_atomic_file_commit(&target, replaced);
    }
    if (!failed)
        return TENMAP_OK;
    return tmi_fail_os(s->error, failed, "%s: %s", tmi_quote_path(s->path).text,
                       *replaced ? "replaced, durability unknown: the folder could not be synced"
                                 : "cannot write the index");
}

/* Removing. */

/*
 * Removes the shards that this failed save put in place; other files with such names are not ours.
 */
static void undo_shards(const saving *s) {
    char name[SHARD_NAME_ROOM];
    for (size_t i = 0; s->shard_count > 1 && i < s->placed; i++) {
        name_saved_shard(s, shard_in_turn(s, i), name);
        (void)tmi_unlink(&s->folder, name);
    }
}

/*
 * Removes durably what refers to the old shards, then the shards themselves. The list of old files
 * was made before the new files, which have different names.
 */
static tenmap_status remove_old(const saving *s) {
    if (!s->over_old || (s->options.flags & TENMAP_SAVE_KEEP_OLD))
        return TENMAP_OK;
    const char *name = s->shard_count > 1 ? s->names->single : index_name;
    int failed = s->gguf && s->shard_count == 1 ? 0 : tmi_remove(&s->folder, name);
    /* Readers prefer the single file over the index, but a split set over a single GGUF file. */
    bool hides = failed && s->shard_count > 1 && !s->gguf;
    for (size_t i = 0; !failed && i < s->old_count; i++) {
        name = s->old[i];
        failed = tmi_unlink(&s->folder, name);
    }
    if (failed)
        return tmi_fail_os(s->error, failed,
                           "%s: saved, but the old file %s could not be removed%s",
                           tmi_quote_path(s->path).text, tmi_quote_path(name).text,
                           hides ? ", so the folder still opens as the old model" : "");
    return TENMAP_OK;
}

static tenmap_status save_run(saving *s) {
    bool replaced = false;
    tenmap_status status = check_sources(s);
    if (status == TENMAP_OK)
        status = scan_folder(s);
    if (status == TENMAP_OK)
        status = plan_shards(s);
    if (status == TENMAP_OK)
        status = check_sizes(s);
    if (status != TENMAP_OK)
        return status;
    status = save_shards(s);
    if (status == TENMAP_OK && s->shard_count > 1 && !s->gguf)
        status = save_index(s, &replaced);
    if (status != TENMAP_OK) {
        if (!replaced)
            undo_shards(s);
        return status;
    }
    return remove_old(s);
}

tenmap_status tenmap_save_sharded(const char *folder, const tenmap_source *sources, size_t n,
                                  const tenmap_save_options *given, tenmap_error *error) {
    static const tmi_options_kind kind = {"tenmap_save_options",
                                          "TENMAP_SAVE_OPTIONS_INIT",
                                          sizeof(tenmap_save_options),
                                          offsetof(tenmap_save_options, copy),
                                          offsetof(tenmap_save_options, flags),
                                          TENMAP_SAVE_KEEP_OLD | TENMAP_SAVE_KEEP_ORDER,
                                          0};
    tenmap_error own = {.status = TENMAP_OK};
    if (!folder || (n && !sources))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s NULL",
                        folder ? "sources are" : "folder is");
    saving s = {.path = folder, .folder = TMI_NO_FOLDER, .sources = sources, .count = n};
    s.error = error ? error : &own;
    tenmap_status status = tmi_options_copy(&kind, given, &s.options, error);
    if (status == TENMAP_OK && s.options.format > TENMAP_FORMAT_GGUF)
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT,
                          "options.format is %u; it must be TENMAP_FORMAT_SAFETENSORS (0) or "
                          "TENMAP_FORMAT_GGUF (1)",
                          (unsigned)s.options.format);
    s.gguf = s.options.format == TENMAP_FORMAT_GGUF;
    s.names = &names_of_formats[s.gguf ? TENMAP_FORMAT_GGUF : TENMAP_FORMAT_SAFETENSORS];
    if (status == TENMAP_OK && s.options.metadata_count && !s.options.metadata)
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "options.metadata is NULL");
    if (status == TENMAP_OK)
        status = tmi_init_copy_options(s.options.copy, &s.copy, error);
    if (status == TENMAP_OK)
        status = save_run(&s);
    for (size_t i = 0; i < s.old_count; i++)
        free(s.old[i]);
    free(s.old);
    free(s.shard_of);
    free(s.index.bytes);
    tenmap_writer_abort(s.dry);
    tmi_folder_close(&s.folder);
    return status;
}

#endif
