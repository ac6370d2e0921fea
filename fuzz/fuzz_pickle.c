/*
 * Pickles of PyTorch checkpoints: each is opened in a zip archive and in a file from before torch
 * 1.6, so that mutations need not get these right. The scan, in one piece or byte by byte, finds
 * the same end of the pickle as the reader.
 */
#include "format/pickle.h"
#include "torch.h"

#include <stdbool.h>

enum { STORAGE = 96, FLOATS = STORAGE / 4, MOST_PICKLE = 1 << 16 };

static void put_storage(torch_file *f) {
    for (size_t i = 0; i < STORAGE; i++)
        torch_number(f, i, 1);
}

/* The records of the directory are collected while the entries are written. */
static void put_entry(torch_file *f, torch_file *directory, const char *name, const void *data,
                      size_t size) {
    size_t at = f->size, len = strlen(name);
    TORCH_LITERAL(f, "PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0");
    torch_number(f, size, 4);
    torch_number(f, size, 4);
    torch_number(f, len, 4);
    torch_put(f, name, len);
    torch_put(f, data, size);
    TORCH_LITERAL(directory, "PK\1\2\0\0\24\0\0\0\0\0\0\0\0\0\0\0\0\0");
    torch_number(directory, size, 4);
    torch_number(directory, size, 4);
    torch_number(directory, len, 8);
    torch_number(directory, 0, 6);
    torch_number(directory, at, 4);
    torch_put(directory, name, len);
}

static void wrap_in_zip(torch_file *f, const uint8_t *pickle, size_t size) {
    static torch_file directory, storage;
    f->size = directory.size = storage.size = 0;
    put_storage(&storage);
    put_entry(f, &directory, "m/data.pkl", pickle, size);
    put_entry(f, &directory, "m/data/0", storage.at, storage.size);
    put_entry(f, &directory, "m/data/1", storage.at, storage.size);
    size_t at = f->size;
    torch_put(f, directory.at, directory.size);
    TORCH_LITERAL(f, "PK\5\6\0\0\0\0\3\0\3\0");
    torch_number(f, directory.size, 4);
    torch_number(f, at, 4);
    torch_number(f, 0, 2);
}

/* The keys are those that the pickle may name: none, or one or two storages of floats. */
static void wrap_in_legacy(torch_file *f, const uint8_t *pickle, size_t size, unsigned storages) {
    static const char *const keys[] = {"\x80\2].", "\x80\2]U\0010a.", "\x80\2](U\0010U\0011e."};
    static const size_t lens[] = {4, 8, 12};
    f->size = 0;
    TORCH_LITERAL(f, TORCH_MAGIC "\x80\2M\xe9\3.}U\rlittle_endian\x88s.");
    torch_put(f, pickle, size);
    torch_put(f, keys[storages], lens[storages]);
    for (unsigned i = 0; i < storages; i++) {
        torch_number(f, FLOATS, 8);
        put_storage(f);
    }
}

static void check_scan(const uint8_t *data, size_t size) {
    size_t at = 0, again = 0, len = 0;
    uint64_t need = 0;
    tmi_pickle p;
    int scan = tmi_pickle_scan(data, size, &at, &need), slow = TMI_SCAN_MORE;
    bool good = tmi_pickle_read(&p, data, size);
    CHECK(scan == TMI_SCAN_END || !good);
    CHECK(!good || p.end == at);
    CHECK(scan != TMI_SCAN_MORE || (need > size && at <= size));
    while (slow == TMI_SCAN_MORE && len < size) {
        slow = tmi_pickle_scan(data, ++len, &again, &need);
        CHECK(slow != TMI_SCAN_MORE || need > len);
    }
    CHECK(size == 0 || (slow == scan && again == at));
    CHECK(p.taken <= p.budget);
    tmi_pickle_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static torch_file file;
    if (size > MOST_PICKLE)
        return 0;
    check_scan(data, size);
    wrap_in_zip(&file, data, size);
    check_torch(file.at, file.size);
    for (unsigned storages = 0; storages <= 2; storages++) {
        wrap_in_legacy(&file, data, size, storages);
        check_torch(file.at, file.size);
    }
    return 0;
}
