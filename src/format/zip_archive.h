/*
 * The directory of a zip archive whose entries are stored, not compressed, so that their bytes can
 * be used where they lie: PyTorch checkpoints and .npz files.
 */
#ifndef TENMAP_ZIP_ARCHIVE_H
#define TENMAP_ZIP_ARCHIVE_H

#include "format.h"

#include <string.h>

/* One entry. It begins with its name, so that tmi_names can find it. */
typedef struct tmi_zip_entry {
    const char *name; /* not NUL-terminated */
    size_t name_len;
    uint64_t name_at;   /* of the name in the directory's bytes */
    uint64_t header_at; /* its local header, counted from the archive's first byte, as is `at` */
    uint64_t at, bytes; /* its data */
    bool utf8;          /* the archive says that the name is UTF-8 */
} tmi_zip_entry;

typedef struct tmi_zip {
    tmi_block directory; /* the bytes of the central directory; holds the names */
    uint64_t directory_bytes;
    tmi_block entries; /* tmi_zip_entry[count], in the order of the directory */
    size_t count;
} tmi_zip;

/*
 * Reads the directory and the local header of every entry, and checks all rules of docs/format.md:
 * after it, the data of each entry lies inside the archive, and no two entries overlap. UNSUPPORTED
 * if an entry is compressed or encrypted. On failure *zip is empty and a check got a finding.
 */
tenmap_status tmi_zip_read(tmi_header_reader *reader, tmi_zip *zip, tenmap_error *error);
void tmi_zip_free(tmi_zip *zip);

static inline bool tmi_zip_is_named(const tmi_zip_entry *entry, const char *name, size_t len) {
    return entry->name_len == len && memcmp(entry->name, name, len) == 0;
}

static inline bool tmi_zip_ends_in(const tmi_zip_entry *entry, const char *ending) {
    size_t len = strlen(ending);
    return entry->name_len >= len && memcmp(entry->name + entry->name_len - len, ending, len) == 0;
}

/* torch finds entries by names in which small and capital letters of ASCII are the same. */

static inline char tmi_zip_small_letter(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline bool tmi_zip_same_letters(const char *a, const char *b, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (tmi_zip_small_letter(a[i]) != tmi_zip_small_letter(b[i]))
            return false;
    return true;
}

static inline bool tmi_zip_ends_in_letters(const tmi_zip_entry *entry, const char *ending) {
    size_t len = strlen(ending);
    return entry->name_len >= len &&
           tmi_zip_same_letters(entry->name + entry->name_len - len, ending, len);
}

#endif
