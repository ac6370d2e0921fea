/*
 * Zip archives: if the directory is accepted, every entry lies inside the archive and before the
 * directory, no two entries share a byte or a name, and the local header of each is where its
 * offset says. Also opens the archive as a PyTorch checkpoint.
 */
#include "format/zip_archive.h"
#include "torch.h"

typedef struct whole_file {
    const uint8_t *bytes;
    size_t size;
} whole_file;

static tenmap_status read_whole(const void *ctx, uint64_t offset, void *dst, size_t size,
                                const char *what, tenmap_error *error) {
    const whole_file *file = ctx;
    (void)what, (void)error;
    CHECK(offset <= file->size && size <= file->size - offset);
    memcpy(dst, file->bytes + offset, size);
    return TENMAP_OK;
}

static void check_entries(const tmi_zip *zip, const whole_file *file) {
    enum { LOCAL_HEADER = 30 };
    const tmi_zip_entry *entries = zip->entries.bytes;
    for (size_t i = 0; i < zip->count; i++) {
        const tmi_zip_entry *a = &entries[i];
        CHECK(a->header_at + LOCAL_HEADER + a->name_len <= a->at);
        CHECK(a->at <= file->size && a->bytes <= file->size - a->at);
        CHECK(a->at + a->bytes + zip->directory_bytes <= file->size);
        CHECK(memcmp(file->bytes + a->header_at, "PK\3\4", 4) == 0);
        CHECK(memcmp(file->bytes + a->header_at + LOCAL_HEADER, a->name, a->name_len) == 0);
        for (size_t k = 0; k < i; k++) {
            const tmi_zip_entry *b = &entries[k];
            CHECK(!tmi_zip_is_named(b, a->name, a->name_len));
            CHECK(a->at + a->bytes <= b->header_at || b->at + b->bytes <= a->header_at);
        }
    }
}

static void read_directory(const uint8_t *data, size_t size, uint64_t limit) {
    whole_file file = {data, size};
    tmi_place place = {.path = "memory", .size = size, .key = tmi_hash_key_new()};
    tmi_header_reader reader = {.place = &place,
                                .start = data,
                                .len = size,
                                .limit = limit,
                                .read = read_whole,
                                .ctx = &file};
    tmi_zip zip;
    tenmap_error error;
    fuzz_error_arm(&error);
    tenmap_status status = tmi_zip_read(&reader, &zip, &error);
    fuzz_error_check(&error, status);
    CHECK(reader.taken <= limit);
    if (status == TENMAP_OK)
        check_entries(&zip, &file);
    else
        CHECK(zip.count == 0 && !zip.entries.bytes && !zip.directory.bytes);
    tmi_zip_free(&zip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_directory(data, size, UINT32_MAX);
    read_directory(data, size, size);
    if (size >= 4 && memcmp(data, "PK\3\4", 4) == 0)
        check_torch(data, size);
    return 0;
}
