/*
 * Reads the directory of a zip archive, whose end is found from the end of the file. Then compares
 * every local header with its entry in the directory, because programs that read archives from the
 * start would believe the local headers. Refuses anything that two readers could understand
 * differently.
 */
#include "zip_archive.h"

#include <stdio.h>

enum {
    END_BYTES = 22,
    MOST_COMMENT = 0xffff,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    RECORD_BYTES = 46,
    LOCAL_BYTES = 30,
    /* Read after the name of a local header: an extra field with both sizes in 64 bits fits. */
    LOCAL_EXTRA = 32,
    MOST_NAME = 0xffff
};

#define SATURATED UINT64_C(0xffffffff)

/* Bits of an entry's flags. */
enum {
    FLAG_ENCRYPTED = 1 << 0,
    FLAG_DESCRIPTOR =
        1 << 3, /* the sizes follow the data, so the local header need not have them */
    FLAG_PATCH = 1 << 5,
    FLAG_STRONG = 1 << 6,
    FLAG_UTF8 = 1 << 11,
    FLAG_MASKED = 1 << 13
};

/* The archive while it is read. */
typedef struct zip_reader {
    tmi_header_reader *file;
    tmi_zip *zip;
    tenmap_error *error;
    tmi_block tail; /* the last bytes of the file */
    uint64_t tail_at, tail_bytes;
    uint64_t end_at; /* of the record that the directory ends at: of 64 bits, if there is one */
    uint64_t count, bytes, at; /* of the directory */
} zip_reader;

static uint32_t zip_u16(const unsigned char *at) {
    return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t zip_u32(const unsigned char *at) {
    return zip_u16(at) | zip_u16(at + 2) << 16;
}

/* Fails at a byte of the archive; a check reports it as `code`. */
#define FAIL_ZIP(z, status, code, at, ...)                                                         \
    (tmi_fail_at((z)->error, status, (z)->file->place->shard, (z)->file->place->offset + (at),     \
                 __VA_ARGS__),                                                                     \
     report_zip(z, code, status))
#define ZIP_PATH(z) tmi_quote_path((z)->file->place->path).text

static tenmap_status report_zip(zip_reader *z, uint32_t code, tenmap_status status) {
    const tmi_place *place = z->file->place;
    if (TMI_REPORTS(place->report) && z->error)
        tmi_report_failure(place->report, code, place->shard, NULL, z->error);
    return status;
}

/* Reads a range of the archive. Uses the tail if the range lies in it. */
static tenmap_status read_zip(zip_reader *z, uint64_t at, void *dst, uint64_t size,
                              const char *what) {
    if (at >= z->tail_at && at - z->tail_at <= z->tail_bytes &&
        size <= z->tail_bytes - (at - z->tail_at)) {
        memcpy(dst, (const char *)z->tail.bytes + (at - z->tail_at), (size_t)size);
        return TENMAP_OK;
    }
    return tmi_header_read(z->file, at, dst, size, what, z->error);
}

/* The end of the directory. */

static tenmap_status read_tail(zip_reader *z) {
    uint64_t size = z->file->place->size;
    z->tail_bytes = size < END_BYTES + MOST_COMMENT ? size : END_BYTES + MOST_COMMENT;
    z->tail_at = size - z->tail_bytes;
    if (!tmi_block_alloc_dirty(&z->tail, (size_t)z->tail_bytes + 1))
        return tmi_fail_memory(z->error, z->tail_bytes, "the end of the archive");
    uint64_t at = z->tail_at;
    z->tail_at = UINT64_MAX; /* nothing is there yet */
    tenmap_status status = tmi_header_read(z->file, at, z->tail.bytes, z->tail_bytes,
                                           "the end of the archive", z->error);
    z->tail_at = at;
    return status;
}

/* What the archive is, by the name of its first entry. */
static const char *name_archive(zip_reader *z) {
    enum { SHOWN = 128 };
    static const char *const kinds[][2] = {{"data.pkl", "a PyTorch checkpoint (a zip archive)"},
                                           {".npy", "a NumPy archive (.npz)"}};
    char start[SHOWN];
    uint64_t len = z->file->place->size < SHOWN ? z->file->place->size : SHOWN;
    if (z->file->read(z->file->ctx, z->file->place->offset, start, (size_t)len, "", NULL) ==
        TENMAP_OK)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            for (size_t i = LOCAL_BYTES, size = strlen(kinds[k][0]); i + size <= len; i++)
                if (memcmp(start + i, kinds[k][0], size) == 0)
                    return kinds[k][1];
    return "a zip archive";
}

/*
 * Finds the record at the end of the archive: its comment must reach exactly to the end of the
 * file, and only one place may look like that.
 */
static tenmap_status find_end(zip_reader *z, uint64_t *found) {
    const unsigned char *tail = z->tail.bytes;
    bool any = false;
    for (uint64_t i = z->tail_bytes < END_BYTES ? 0 : z->tail_bytes - END_BYTES + 1; i-- > 0;) {
        if (memcmp(tail + i, "PK\5\6", 4) != 0 ||
            zip_u16(tail + i + 20) != z->tail_bytes - i - END_BYTES)
            continue;
        if (any)
            return FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, z->tail_at + i,
                            "%s: two places look like the end of the zip archive, at byte %llu and "
                            "%llu: its comment holds one of them",
                            ZIP_PATH(z), (ull)(z->tail_at + i), (ull)*found);
        any = true;
        *found = z->tail_at + i;
    }
    if (any)
        return TENMAP_OK;
    const char *kind = name_archive(z);
    return tmi_remedy(
        z->error, TENMAP_REMEDY_FETCH_AGAIN,
        FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_TRUNCATED, z->file->place->size,
                 "%s: this is %s without its end, where the directory is: the file has %llu bytes "
                 "and is truncated, or damaged: fetch it again",
                 ZIP_PATH(z), kind, (ull)z->file->place->size));
}

/* The value of a field that is 32 or 16 bits wide in the old record and 64 in the new one. */
static bool agrees64(uint64_t narrow, uint64_t most, uint64_t wide) {
    return narrow == wide || narrow == most;
}

/* Reads the 64-bit end record. `locator` lies right before the end record and points to it. */
static tenmap_status read_end64(zip_reader *z, uint64_t locator_at, const unsigned char *locator) {
    unsigned char end[END64_BYTES];
    uint64_t at = tmi_file_u64(locator + 8);
    if (zip_u32(locator + 4) != 0 || zip_u32(locator + 16) > 1 || at > locator_at ||
        locator_at - at < END64_BYTES)
        return FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, locator_at,
                        "%s: the zip archive's 64-bit record should be at byte %llu of disk %u, "
                        "which is not before byte %llu",
                        ZIP_PATH(z), (ull)at, (unsigned)zip_u32(locator + 4), (ull)locator_at);
    tenmap_status status = read_zip(z, at, end, sizeof end, "the zip archive's 64-bit record");
    if (status != TENMAP_OK)
        return status;
    uint64_t here = tmi_file_u64(end + 24), count = tmi_file_u64(end + 32),
             bytes = tmi_file_u64(end + 40), from = tmi_file_u64(end + 48);
    if (memcmp(end, "PK\6\6", 4) != 0 || tmi_file_u64(end + 4) != locator_at - at - 12 ||
        zip_u32(end + 16) || zip_u32(end + 20) || here != count ||
        !agrees64(z->count, 0xffff, count) || !agrees64(z->bytes, SATURATED, bytes) ||
        !agrees64(z->at, SATURATED, from))
        return FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, at,
                        "%s: the zip archive's 64-bit record (%llu entries, directory of %llu "
                        "bytes at %llu) is damaged, or disagrees with the one at the end of the "
                        "file (%llu, %llu, %llu)",
                        ZIP_PATH(z), (ull)count, (ull)bytes, (ull)from, (ull)z->count,
                        (ull)z->bytes, (ull)z->at);
    z->end_at = at;
    z->count = count;
    z->bytes = bytes;
    z->at = from;
    return TENMAP_OK;
}

/* Finds where the directory lies. It must end where the records after it begin. */
static tenmap_status find_directory(zip_reader *z) {
    unsigned char end[END_BYTES], locator[LOCATOR_BYTES];
    uint64_t end_at = 0;
    tenmap_status status = find_end(z, &end_at);
    if (status == TENMAP_OK)
        status = read_zip(z, end_at, end, sizeof end, "the end of the archive");
    if (status != TENMAP_OK)
        return status;
    z->end_at = end_at;
    z->count = zip_u16(end + 10);
    z->bytes = zip_u32(end + 12);
    z->at = zip_u32(end + 16);
    if (zip_u16(end + 4) || zip_u16(end + 6) || zip_u16(end + 8) != z->count)
        return FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, end_at,
                        "%s: the zip archive says that it is one of several disks", ZIP_PATH(z));
    if (end_at >= LOCATOR_BYTES) {
        status =
            read_zip(z, end_at - LOCATOR_BYTES, locator, sizeof locator, "the end of the archive");
        if (status == TENMAP_OK && memcmp(locator, "PK\6\7", 4) == 0)
            status = read_end64(z, end_at - LOCATOR_BYTES, locator);
        if (status != TENMAP_OK)
            return status;
    }
    if (z->at > z->end_at || z->bytes != z->end_at - z->at || z->count > z->bytes / RECORD_BYTES)
        return FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, end_at,
                        "%s: the zip archive's directory (%llu entries, %llu bytes at %llu) should "
                        "end at byte %llu: bytes were put before or into the archive, or it is "
                        "damaged",
                        ZIP_PATH(z), (ull)z->count, (ull)z->bytes, (ull)z->at, (ull)z->end_at);
    return TENMAP_OK;
}

/* The entries of the directory. */

/* What the directory says about an entry and tmi_zip_entry does not keep. */
typedef struct zip_record {
    const unsigned char *bytes;
    uint32_t flags, method, crc;
    uint64_t at; /* in the file, for errors */
} zip_record;

#define FAIL_ENTRY(z, status, code, entry, where, format, ...)                                     \
    FAIL_ZIP(z, status, code, where, "%s: zip entry %s (byte %llu): " format, ZIP_PATH(z),         \
             tmi_quote((entry)->name, (entry)->name_len).text,                                     \
             (ull)((z)->file->place->offset + (where)), __VA_ARGS__)

/*
 * Finds the extra field with numbers of 64 bits. Returns its bytes and sets *len; NULL if there is
 * none. *good is false if the fields do not fill the bytes exactly, or there are two.
 */
static const unsigned char *find_extra64(const unsigned char *extra, size_t bytes, size_t *len,
                                         bool *good) {
    const unsigned char *found = NULL;
    size_t at = 0;
    *good = true;
    *len = 0;
    while (bytes - at >= 4) {
        size_t size = zip_u16(extra + at + 2);
        if (size > bytes - at - 4) {
            *good = false;
            return found;
        }
        if (zip_u16(extra + at) == 1) {
            *good = !found;
            found = extra + at + 4;
            *len = size;
        }
        at += 4 + size;
    }
    *good = *good && at == bytes;
    return found;
}

/* Replaces *field by the next number of the extra field, if it is saturated. */
static bool take_extra64(uint64_t *field, const unsigned char **extra, size_t *left) {
    if (*field != SATURATED)
        return true;
    if (!*extra || *left < 8)
        return false;
    *field = tmi_file_u64(*extra);
    *extra += 8;
    *left -= 8;
    return true;
}

/* Why an entry cannot be used where it lies; NULL if it can. */
static const char *why_packed(const zip_record *record) {
    if (record->flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
        return "it is encrypted";
    if (record->flags & FLAG_PATCH)
        return "it is a patch";
    return record->method != 0 ? "it is compressed" : NULL;
}

/* What to do about a compressed entry. */
static const char *how_to_unpack(const tmi_zip_entry *entry) {
    return tmi_zip_ends_in(entry, ".npy")
               ? "save the archive again with numpy.savez instead of numpy.savez_compressed"
               : "pack the archive again without it (zip -0)";
}

/* Takes the record at `at` of the directory, and sets *size to its size. */
static tenmap_status take_record(zip_reader *z, uint64_t at, tmi_zip_entry *entry,
                                 zip_record *record, uint64_t *size) {
    const unsigned char *r = (const unsigned char *)z->zip->directory.bytes + at;
    uint64_t left = z->bytes - at;
    *record = (zip_record){.bytes = r, .at = z->at + at};
    if (left < RECORD_BYTES || memcmp(r, "PK\1\2", 4) != 0)
        return FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, record->at,
                        "%s: expected an entry of the zip archive's directory at byte %llu",
                        ZIP_PATH(z), (ull)(z->file->place->offset + record->at));
    size_t name_len = zip_u16(r + 28), extra_len = zip_u16(r + 30), comment = zip_u16(r + 32);
    *size = RECORD_BYTES + (uint64_t)name_len + extra_len + comment;
    if (*size > left)
        return FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, record->at,
                        "%s: the entry at byte %llu of the zip archive's directory is longer than "
                        "the directory",
                        ZIP_PATH(z), (ull)(z->file->place->offset + record->at));
    record->flags = zip_u16(r + 8);
    record->method = zip_u16(r + 10);
    record->crc = zip_u32(r + 16);
    uint64_t packed = zip_u32(r + 20), extra_left;
    *entry = (tmi_zip_entry){.name = (const char *)r + RECORD_BYTES,
                             .name_len = name_len,
                             .name_at = at + RECORD_BYTES,
                             .bytes = zip_u32(r + 24),
                             .utf8 = record->flags & FLAG_UTF8,
                             .header_at = zip_u32(r + 42)};
    size_t len;
    bool good;
    const unsigned char *extra = find_extra64(r + RECORD_BYTES + name_len, extra_len, &len, &good);
    extra_left = len;
    size_t rest = (size_t)extra_left;
    if (!good || !take_extra64(&entry->bytes, &extra, &rest) ||
        !take_extra64(&packed, &extra, &rest) || !take_extra64(&entry->header_at, &extra, &rest))
        return FAIL_ENTRY(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, entry, record->at, "%s",
                          "its 64-bit sizes are missing or damaged");
    if (why_packed(record))
        return tmi_remedy(
            z->error, TENMAP_REMEDY_CONVERT,
            FAIL_ENTRY(z, TENMAP_ERR_UNSUPPORTED, TENMAP_FOUND_FOREIGN, entry, record->at,
                       "%s (flags 0x%x, method %u), so its bytes cannot be used where they lie: %s",
                       why_packed(record), (unsigned)record->flags, (unsigned)record->method,
                       how_to_unpack(entry)));
    if (packed != entry->bytes || zip_u16(r + 34))
        return FAIL_ENTRY(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_SIZE, entry, record->at,
                          "it is stored, but has %llu bytes packed and %llu unpacked, on disk %u",
                          (ull)packed, (ull)entry->bytes, (unsigned)zip_u16(r + 34));
    return TENMAP_OK;
}

/* Whether a size in a local header agrees. It may be 0 if a descriptor has it. */
static bool local_size_agrees(uint64_t local, const zip_record *record, uint64_t size) {
    return local == size || (local == 0 && record->flags & FLAG_DESCRIPTOR);
}

/* Compares the local header with the directory. `local` has `have` bytes. */
static const char *compare_local(const unsigned char *local, size_t have, const zip_record *record,
                                 const tmi_zip_entry *entry) {
    uint64_t packed = zip_u32(local + 18), bytes = zip_u32(local + 22);
    size_t name_len = zip_u16(local + 26), extra_len = zip_u16(local + 28), len = 0;
    if (memcmp(local, "PK\3\4", 4) != 0)
        return "there is no local header";
    if (name_len != entry->name_len ||
        memcmp(local + LOCAL_BYTES, entry->name, entry->name_len) != 0)
        return "the local header has another name";
    if (zip_u16(local + 6) != record->flags || zip_u16(local + 8) != record->method)
        return "the local header has other flags, or another method";
    if (packed == SATURATED || bytes == SATURATED) {
        size_t begin = LOCAL_BYTES + name_len;
        bool good;
        size_t there = have - begin < extra_len ? have - begin : extra_len;
        const unsigned char *extra = find_extra64(local + begin, there, &len, &good);
        if (!take_extra64(&bytes, &extra, &len) || !take_extra64(&packed, &extra, &len))
            return "the 64-bit sizes of the local header are missing";
    }
    if (!local_size_agrees(packed, record, entry->bytes) ||
        !local_size_agrees(bytes, record, entry->bytes))
        return "the local header has another size";
    uint32_t crc = zip_u32(local + 14);
    if (crc != record->crc && !(crc == 0 && record->flags & FLAG_DESCRIPTOR))
        return "the local header has another checksum";
    return NULL;
}

/* Reads the local header, which says where the data begins. */
static tenmap_status take_local(zip_reader *z, tmi_zip_entry *entry, const zip_record *record,
                                unsigned char *room) {
    uint64_t left = z->at - (entry->header_at < z->at ? entry->header_at : z->at);
    uint64_t least = LOCAL_BYTES + (uint64_t)entry->name_len;
    uint64_t want = least + LOCAL_EXTRA;
    if (left < least)
        return FAIL_ENTRY(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, entry, record->at,
                          "its local header should be at byte %llu, but the archive's data ends at "
                          "%llu",
                          (ull)entry->header_at, (ull)z->at);
    want = want < left ? want : left;
    tenmap_status status =
        read_zip(z, entry->header_at, room, want, "the local header of a zip entry");
    if (status != TENMAP_OK)
        return status;
    const char *differs = compare_local(room, (size_t)want, record, entry);
    if (differs)
        return FAIL_ENTRY(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, entry, record->at,
                          "%s at byte %llu: the directory and the entry disagree", differs,
                          (ull)entry->header_at);
    uint64_t header = least + zip_u16(room + 28);
    if (header > left || entry->bytes > left - header)
        return FAIL_ENTRY(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_TRUNCATED, entry, record->at,
                          "its %llu bytes from byte %llu on are not inside the archive, whose data "
                          "ends at %llu",
                          (ull)entry->bytes, (ull)(entry->header_at + header), (ull)z->at);
    entry->at = entry->header_at + header;
    return TENMAP_OK;
}

static tenmap_status take_entries(zip_reader *z) {
    tmi_zip *zip = z->zip;
    tmi_zip_entry *entries = zip->entries.bytes;
    tmi_block room;
    uint64_t at = 0, size = 0;
    tenmap_status status = TENMAP_OK;
    if (!tmi_block_alloc_dirty(&room, LOCAL_BYTES + MOST_NAME + LOCAL_EXTRA))
        return tmi_fail_memory(z->error, MOST_NAME, "a zip entry");
    for (; zip->count < z->count && status == TENMAP_OK; zip->count++, at += size) {
        zip_record record;
        status = take_record(z, at, &entries[zip->count], &record, &size);
        if (status == TENMAP_OK)
            status = take_local(z, &entries[zip->count], &record, room.bytes);
    }
    tmi_block_free(&room);
    if (status == TENMAP_OK && at != z->bytes)
        status = FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, z->at + at,
                          "%s: the zip archive's directory has %llu bytes after its %llu entries",
                          ZIP_PATH(z), (ull)(z->bytes - at), (ull)z->count);
    return status;
}

/* Checks that no two entries share bytes, and that the first one begins with the file. */
static tenmap_status check_spans(zip_reader *z) {
    const tmi_zip_entry *entries = z->zip->entries.bytes;
    size_t count = z->zip->count;
    tmi_block block;
    if (!tmi_block_alloc(&block, 2 * count * sizeof(tmi_sort_key) + 1))
        return tmi_fail_memory(z->error, count * sizeof(tmi_sort_key), "the zip entries' order");
    tmi_sort_key *keys = block.bytes;
    for (size_t i = 0; i < count; i++)
        keys[i] = (tmi_sort_key){entries[i].header_at, entries[i].at + entries[i].bytes, i};
    keys = tmi_sort_keys(keys, keys + count, count);
    tenmap_status status = TENMAP_OK;
    if (count && keys[0].begin != 0)
        status = FAIL_ZIP(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_ENTRY, 0,
                          "%s: %llu bytes come before the first entry of the zip archive",
                          ZIP_PATH(z), (ull)keys[0].begin);
    for (size_t i = 1; i < count && status == TENMAP_OK; i++) {
        const tmi_zip_entry *entry = &entries[keys[i].from], *before = &entries[keys[i - 1].from];
        if (keys[i].begin < keys[i - 1].end)
            status =
                FAIL_ENTRY(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_OVERLAP, entry, entry->header_at,
                           "it begins inside of entry %s, which ends at %llu",
                           tmi_quote(before->name, before->name_len).text, (ull)keys[i - 1].end);
    }
    tmi_block_free(&block);
    return status;
}

static tenmap_status check_entry_names(zip_reader *z) {
    const tmi_zip_entry *entries = z->zip->entries.bytes;
    const tmi_hash_key *key = &z->file->place->key;
    tmi_names names;
    tenmap_status status = TENMAP_OK;
    if (!tmi_names_init(&names, key, entries, sizeof *entries, z->zip->count))
        return tmi_fail_memory(z->error, (uint64_t)z->zip->count * 16, "the zip entries' names");
    for (size_t i = 0; i < z->zip->count && status == TENMAP_OK; i++) {
        const tmi_zip_entry *entry = &entries[i];
        size_t twin = tmi_names_put(&names, i, tmi_hash(key, entry->name, entry->name_len));
        if (twin != TMI_NONE)
            status = FAIL_ENTRY(z, TENMAP_ERR_FORMAT, TENMAP_FOUND_DUPLICATE_NAME, entry,
                                entry->header_at, "another entry, at byte %llu, has the same name",
                                (ull)entries[twin].header_at);
    }
    tmi_names_free(&names);
    return status;
}

static tenmap_status read_directory(zip_reader *z) {
    tmi_zip *zip = z->zip;
    if (z->bytes > z->file->limit)
        return tmi_fail_header_limit(z->file, z->at, z->error);
    if (z->count > SIZE_MAX / 2 / sizeof(tmi_zip_entry) ||
        !tmi_block_alloc_dirty(&zip->directory, (size_t)z->bytes + 1) ||
        !tmi_block_alloc(&zip->entries, (size_t)z->count * sizeof(tmi_zip_entry) + 1))
        return tmi_fail_memory(z->error, z->bytes, "the zip archive's directory");
    zip->directory_bytes = z->bytes;
    return read_zip(z, z->at, zip->directory.bytes, z->bytes, "the zip archive's directory");
}

tenmap_status tmi_zip_read(tmi_header_reader *reader, tmi_zip *zip, tenmap_error *error) {
    tenmap_error unused;
    zip_reader z = {.file = reader, .zip = zip, .error = error ? error : &unused};
    *zip = (tmi_zip){.count = 0};
    tenmap_status status = read_tail(&z);
    if (status == TENMAP_OK)
        status = find_directory(&z);
    if (status == TENMAP_OK)
        status = read_directory(&z);
    if (status == TENMAP_OK)
        status = take_entries(&z);
    if (status == TENMAP_OK)
        status = check_spans(&z);
    if (status == TENMAP_OK)
        status = check_entry_names(&z);
    tmi_block_free(&z.tail);
    if (status != TENMAP_OK)
        tmi_zip_free(zip);
    return status;
}

void tmi_zip_free(tmi_zip *zip) {
    tmi_block_free(&zip->directory);
    tmi_block_free(&zip->entries);
    zip->count = 0;
}
