/*
 * PyTorch checkpoints. Since 1.6, torch.save writes a zip archive with the entries FOLDER/data.pkl,
 * a pickle, and FOLDER/data/KEY, the storages. This file builds the text of the header: a table of
 * the storages, their keys, and the pickle. pytorch_legacy.c does so for older files.
 */
#include "numpy.h"
#include "pytorch.h"

#include <stdlib.h>

/*
 * If four zeros follow the magic, the first 8 bytes may be the length of a SafeTensors header. Its
 * next byte is a brace; that of a stored entry of a zip is a zero.
 */
static bool is_torch_zip(const unsigned char *start, size_t len) {
    enum { METHOD_AT = 8 };
    if (len < METHOD_AT || memcmp(start, "PK\3\4", 4) != 0)
        return false;
    return memcmp(start + 4, "\0\0\0", 4) != 0 || (len > METHOD_AT && start[METHOD_AT] != '{');
}

static bool is_torch(const unsigned char *start, size_t len, uint64_t size, uint64_t limit) {
    (void)size, (void)limit;
    return is_torch_zip(start, len) || tmi_torch_is_legacy(start, len);
}

/* The archive's entries. */

static const tmi_zip_entry *zip_entry(const tmi_zip *zip, size_t i) {
    return (const tmi_zip_entry *)zip->entries.bytes + i;
}

/* Whether the name is FOLDER/`rest`, where the folder has `len` bytes. As torch, ignores case. */
static bool is_in_folder(const tmi_zip_entry *entry, const char *folder, size_t len,
                         const char *rest) {
    return entry->name_len == len + 1 + strlen(rest) && entry->name[len] == '/' &&
           tmi_zip_same_letters(entry->name, folder, len) &&
           tmi_zip_same_letters(entry->name + len + 1, rest, strlen(rest));
}

static const tmi_zip_entry *find_in_folder(const tmi_zip *zip, const tmi_zip_entry *pickle,
                                           const char *rest) {
    size_t len = pickle->name_len - strlen("/data.pkl");
    for (size_t i = 0; i < zip->count; i++)
        if (is_in_folder(zip_entry(zip, i), pickle->name, len, rest))
            return zip_entry(zip, i);
    return NULL;
}

static tenmap_status fail_archive(tmi_header_reader *reader, tenmap_status status, uint64_t at,
                                  const char *why, tenmap_error *error) {
    const tmi_place *place = reader->place;
    tenmap_error unused, *said = error ? error : &unused;
    tmi_fail_at(said, status, place->shard, place->offset + at, "%s: %s",
                tmi_quote_path(place->path).text, why);
    said->remedy = TENMAP_REMEDY_CONVERT;
    if (TMI_REPORTS(place->report))
        tmi_report_failure(place->report, TENMAP_FOUND_FOREIGN, place->shard, NULL, said);
    return status;
}

/* What an archive without FOLDER/data.pkl is. */
static const char *name_other_archive(const tmi_zip *zip) {
    static const struct {
        const char *ending, *text;
    } kinds[] = {
        {"model.weights.h5",
         "this is a Keras archive (.keras): save the model's weights as SafeTensors first"},
        {"archive_format",
         "this is a program of torch.export (.pt2): save the model's state_dict instead"},
    };
    for (size_t i = 0; i < zip->count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            const tmi_zip_entry *entry = zip_entry(zip, i);
            size_t len = strlen(kinds[k].ending);
            if (entry->name_len >= len &&
                memcmp(entry->name + entry->name_len - len, kinds[k].ending, len) == 0)
                return kinds[k].text;
        }
    return "this is a zip archive without FOLDER/data.pkl, so it is no PyTorch checkpoint: unpack "
           "it first";
}

/* Finds the pickle, the only entry FOLDER/data.pkl. */
static tenmap_status find_pickle(tmi_header_reader *reader, const tmi_zip *zip,
                                 const tmi_zip_entry **pickle, tenmap_error *error) {
    static const char ending[] = "/data.pkl";
    size_t len = sizeof ending - 1;
    *pickle = NULL;
    for (size_t i = 0; i < zip->count; i++) {
        const tmi_zip_entry *entry = zip_entry(zip, i);
        if (entry->name_len <= len || !tmi_zip_ends_in_letters(entry, ending) ||
            memchr(entry->name, '/', entry->name_len - len))
            continue;
        if (*pickle)
            return fail_archive(reader, TENMAP_ERR_FORMAT, entry->header_at,
                                "the zip archive has two entries FOLDER/data.pkl; whether letters "
                                "are small or capital makes no difference to torch",
                                error);
        if (!tmi_zip_ends_in(entry, ending))
            return fail_archive(reader, TENMAP_ERR_FORMAT, entry->header_at,
                                "the zip archive's FOLDER/data.pkl is written with capital letters",
                                error);
        *pickle = entry;
    }
    return *pickle ? TENMAP_OK
                   : fail_archive(reader, TENMAP_ERR_FORMAT, 0, name_other_archive(zip), error);
}

/* A name in small letters. It begins with its text, so that tmi_names can find it. */
typedef struct small_name {
    const char *text;
    size_t len;
} small_name;

/* torch takes one of several entries whose names differ only in case; nobody knows which. */
static tenmap_status check_letters(tmi_header_reader *reader, const tmi_zip *zip,
                                   tenmap_error *error) {
    const tmi_hash_key *key = &reader->place->key;
    size_t count = zip->count, size = count * sizeof(small_name);
    tmi_block block;
    tmi_names names = {.mask = 0};
    for (size_t i = 0; i < count; i++) /* the names lie in memory, so the sum fits */
        size += zip_entry(zip, i)->name_len;
    if (!tmi_block_alloc_dirty(&block, size + 1))
        return tmi_fail_memory(error, size, "the names of the zip entries");
    small_name *list = block.bytes;
    char *text = (char *)(list + count);
    tenmap_status status = TENMAP_OK;
    if (!tmi_names_init(&names, key, list, sizeof *list, count))
        status = tmi_fail_memory(error, (uint64_t)count * 16, "the names of the zip entries");
    for (size_t i = 0; i < count && status == TENMAP_OK; i++) {
        const tmi_zip_entry *entry = zip_entry(zip, i);
        list[i] = (small_name){text, entry->name_len};
        for (size_t k = 0; k < entry->name_len; k++)
            *text++ = tmi_zip_small_letter(entry->name[k]);
        if (tmi_names_put(&names, i, tmi_hash(key, list[i].text, list[i].len)) != TMI_NONE)
            status = fail_archive(reader, TENMAP_ERR_FORMAT, entry->header_at,
                                  "the names of two entries of the zip archive differ only in "
                                  "small and capital letters, which torch takes for the same",
                                  error);
    }
    tmi_names_free(&names);
    tmi_block_free(&block);
    return status;
}

/* Refuses TorchScript archives, and byte orders other than little. */
static tenmap_status check_kind(tmi_header_reader *reader, const tmi_zip *zip,
                                const tmi_zip_entry *pickle, tenmap_error *error) {
    char order[8] = "";
    const tmi_zip_entry *entry = find_in_folder(zip, pickle, "constants.pkl");
    if (entry)
        return fail_archive(reader, TENMAP_ERR_UNSUPPORTED, entry->header_at,
                            "this is a TorchScript archive, a program with its weights: save the "
                            "model's state_dict with torch.save, or as SafeTensors",
                            error);
    entry = find_in_folder(zip, pickle, "byteorder");
    if (!entry)
        return TENMAP_OK;
    uint64_t len = entry->bytes < sizeof order ? entry->bytes : sizeof order;
    tenmap_status status = tmi_header_read(reader, entry->at, order, len, "the byte order", error);
    if (status == TENMAP_OK && (entry->bytes != 6 || memcmp(order, "little", 6) != 0))
        status = fail_archive(reader, TENMAP_ERR_UNSUPPORTED, entry->header_at,
                              "its byte order is not little: save it again on a little-endian "
                              "machine",
                              error);
    return status;
}

/* The text. */

/* The key of an entry that is a storage; NULL if it is not a storage. */
static const char *key_of_entry(const tmi_zip_entry *entry, const tmi_zip_entry *pickle,
                                size_t *len) {
    size_t folder = pickle->name_len - strlen("data.pkl"), data = folder + strlen("data/");
    if (entry->name_len <= data || memcmp(entry->name, pickle->name, folder) != 0 ||
        memcmp(entry->name + folder, "data/", data - folder) != 0)
        return NULL;
    *len = entry->name_len - data;
    return entry->name + data;
}

/* Writes the table of storages and their keys. */
static void write_rows(const tmi_zip *zip, const tmi_zip_entry *pickle, tmi_torch_row *rows,
                       char *keys) {
    uint64_t at = 0;
    for (size_t i = 0; i < zip->count; i++) {
        const tmi_zip_entry *entry = zip_entry(zip, i);
        size_t len;
        const char *key = key_of_entry(entry, pickle, &len);
        if (!key)
            continue;
        *rows++ = (tmi_torch_row){at, len, entry->at, entry->bytes};
        memcpy(keys + at, key, len);
        at += len;
    }
}

static tmi_torch_head measure_text(const tmi_zip *zip, const tmi_zip_entry *pickle) {
    tmi_torch_head head = {.pickle_at = pickle->at, .pickle_bytes = pickle->bytes};
    for (size_t i = 0; i < zip->count; i++) {
        size_t len;
        if (!key_of_entry(zip_entry(zip, i), pickle, &len))
            continue;
        head.rows++;
        head.keys_bytes += len;
    }
    return head;
}

static tenmap_status build_text(tmi_header_reader *reader, const tmi_zip *zip,
                                const tmi_zip_entry *pickle, tmi_header_text *text,
                                tenmap_error *error) {
    tmi_torch_head head = measure_text(zip, pickle);
    if (head.pickle_bytes > reader->limit)
        return tmi_fail_header_limit(reader, head.pickle_at, error);
    tmi_torch_text parts;
    if (!tmi_torch_text_make(&head, text, &parts))
        return tmi_fail_memory(error, text->length, "the header");
    write_rows(zip, pickle, parts.rows, parts.keys);
    return tmi_header_read(reader, head.pickle_at, parts.pickle, head.pickle_bytes, "the pickle",
                           error);
}

static tenmap_status find_torch_text(tmi_header_reader *reader, tmi_header_text *text,
                                     tenmap_error *error) {
    tmi_zip zip;
    const tmi_zip_entry *pickle = NULL;
    if (tmi_torch_is_legacy(reader->start, reader->len))
        return tmi_torch_find_legacy(reader, text, error);
    tenmap_status status = tmi_zip_read(reader, &zip, error);
    if (status == TENMAP_OK && tmi_is_npz(&zip)) {
        status = tmi_npz_find_text(reader, &zip, text, error);
        tmi_zip_free(&zip);
        return status;
    }
    if (status == TENMAP_OK)
        status = find_pickle(reader, &zip, &pickle, error);
    if (status == TENMAP_OK)
        status = check_letters(reader, &zip, error);
    if (status == TENMAP_OK)
        status = check_kind(reader, &zip, pickle, error);
    if (status == TENMAP_OK)
        status = build_text(reader, &zip, pickle, text, error);
    tmi_zip_free(&zip);
    return status;
}

static tenmap_status parse_torch(tmi_header *header, const tmi_place *place, tmi_block text,
                                 size_t length, tenmap_error *error) {
    *header = (tmi_header){.count = 0};
    const char *bytes = text.bytes;
    tmi_torch_head head;
    memcpy(&head, bytes, sizeof head);
    const tmi_torch_row *rows = (const tmi_torch_row *)(const void *)(bytes + sizeof head);
    const char *keys = (const char *)(rows + head.rows);
    size_t count = (size_t)head.rows;
    tmi_torch t = {.place = place,
                   .error = error,
                   .header = header,
                   .pickle_at = head.pickle_at,
                   .views = head.views,
                   .storages = tmi_calloc(count + 1, sizeof *t.storages),
                   .storage_count = count};
    tenmap_status status = TENMAP_OK;
    if (!t.storages)
        status = tmi_fail_memory(error, count * sizeof *t.storages, "the storages");
    for (size_t i = 0; t.storages && i < count; i++)
        t.storages[i] = (tmi_torch_storage){.key = keys + rows[i].key_at,
                                            .key_len = (size_t)rows[i].key_len,
                                            .at = rows[i].at,
                                            .bytes = rows[i].bytes};
    size_t before = (size_t)(keys - bytes) + (size_t)head.keys_bytes;
    if (status == TENMAP_OK)
        status = tmi_torch_fill(&t, (const unsigned char *)bytes + before, length - before);
    free(t.storages);
    if (header->values)
        ((tmi_torch_values *)header->values)->text = text;
    else
        tmi_block_free(&text);
    if (status != TENMAP_OK)
        tmi_header_free(header);
    return status;
}

static const char *const torch_endings[] = {".bin", ".pt", ".pth", ".ckpt", NULL};
static const char *const torch_first[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                          "diffusion_pytorch_model.bin",
                                          "diffusion_pytorch_model.bin.index.json", NULL};
/* Trainers write optimizers, schedulers and arguments with the same endings. */
static const char *const torch_stems[] = {"pytorch_model",
                                          "diffusion_pytorch_model",
                                          "open_clip_pytorch_model",
                                          "pytorch_lora_weights",
                                          "adapter_model",
                                          "consolidated",
                                          NULL};
static const tmi_folder_names torch_folder = {
    .endings = torch_endings, .has_index = true, .first = torch_first, .stems = torch_stems};

const tmi_container tmi_pytorch = {.name = "pytorch",
                                   .recognize = is_torch,
                                   .find_text = find_torch_text,
                                   .parse = parse_torch,
                                   .folder = &torch_folder};
