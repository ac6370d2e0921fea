/*
 * File names: the parts of a path, the names of the library's own files beside a model, and names
 * that some system does not treat as a plain file.
 */
#include "os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* File names are at most 255 bytes on all known systems; our suffixes take up to 40. */
enum { LONGEST_STEM = 200 };

static const char temp_mark[] = ".tenmap-";
static const char temp_end[] = ".tmp";
enum { TEMP_DIGITS = 16 };

/* Paths. */

bool tmi_is_separator(char c) {
#ifdef _WIN32
    return c == '/' || c == '\\' || c == ':'; /* "C:name" is a name in a folder too */
#else
    return c == '/';
#endif
}

size_t tmi_folder_part(const char *path) {
    size_t len = strlen(path);
    while (len > 0 && !tmi_is_separator(path[len - 1]))
        len--;
    return len;
}

char *tmi_folder_of(const char *path) {
    size_t len = tmi_folder_part(path);
    return len ? tmi_copy_text(path, len) : tmi_copy_text(".", 1);
}

char *tmi_join_path(const char *folder, size_t folder_len, const char *name, size_t name_len) {
    if (folder_len > SIZE_MAX / 2 || name_len > SIZE_MAX / 2 - 2)
        return NULL;
    bool slash = folder_len > 0 && !tmi_is_separator(folder[folder_len - 1]);
    char *path = malloc(folder_len + slash + name_len + 1);
    if (!path)
        return NULL;
    memcpy(path, folder, folder_len);
    if (slash)
        path[folder_len] = '/';
    memcpy(path + folder_len + slash, name, name_len);
    path[folder_len + slash + name_len] = '\0';
    return path;
}

/* Names that Windows does not treat as a plain file. */

static bool equals_ignoring_case(const char *name, size_t len, const char *word) {
    if (len != strlen(word))
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
        if (c != word[i])
            return false;
    }
    return true;
}

/* CON, NUL, COM1 and similar names are devices in every folder, with any extension. */
static bool is_device_name(const char *name, size_t len) {
    static const char *const devices[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"};
    size_t stem = 0;
    while (stem < len && name[stem] != '.')
        stem++;
    while (stem > 0 && name[stem - 1] == ' ')
        stem--;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (equals_ignoring_case(name, stem, devices[i]))
            return true;
    if (stem < 4 ||
        (!equals_ignoring_case(name, 3, "COM") && !equals_ignoring_case(name, 3, "LPT")))
        return false;
    /* A digit, or superscript 1, 2 or 3: U+00B9, U+00B2, U+00B3. */
    const unsigned char *number = (const unsigned char *)name + 3;
    return (stem == 4 && number[0] >= '0' && number[0] <= '9') ||
           (stem == 5 && number[0] == 0xc2 &&
            (number[1] == 0xb9 || number[1] == 0xb2 || number[1] == 0xb3));
}

bool tmi_is_windows_reserved(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || strchr("<>:\"|?*\\/", name[i]))
            return true;
    if (len == 0 || name[len - 1] == '.' || name[len - 1] == ' ')
        return true;
    return is_device_name(name, len);
}

bool tmi_is_plain_name(const char *name, size_t len) {
#ifdef _WIN32
    return !tmi_is_windows_reserved(name, len);
#else
    (void)name, (void)len;
    return true;
#endif
}

/* The library's own files beside a model. */

void tmi_sibling_name(char *out, size_t size, const char *path, const char *suffix) {
    const char *name = path + tmi_folder_part(path);
    size_t len = strlen(name);
    if (len <= LONGEST_STEM) {
        snprintf(out, size, ".%s%s", name, suffix);
        return;
    }
    uint64_t hash = tmi_fnv((const unsigned char *)name, len);
    size_t kept = LONGEST_STEM - 20;
    while (kept > 0 && ((unsigned char)name[kept] & 0xc0) == 0x80)
        kept--;
    snprintf(out, size, ".%.*s-%016llx%s", (int)kept, name, (ull)hash, suffix);
}

char *tmi_sibling_path(const char *path, const char *suffix) {
    char name[TMI_NAME_BYTES];
    tmi_sibling_name(name, sizeof name, path, suffix);
    return tmi_join_path(path, tmi_folder_part(path), name, strlen(name));
}

void tmi_temp_name(char *out, size_t size, const char *path) {
    uint64_t number = 0;
    char suffix[48];
    tmi_random(&number, sizeof number);
    snprintf(suffix, sizeof suffix, "%s%016llx%s", temp_mark, (ull)number, temp_end);
    tmi_sibling_name(out, size, path, suffix);
}

static bool is_temporary(const char *name, const char *start) {
    size_t len = strlen(start);
    if (strncmp(name, start, len) != 0)
        return false;
    name += len;
    if (strspn(name, "0123456789abcdef") != TEMP_DIGITS)
        return false;
    return strcmp(name + TEMP_DIGITS, temp_end) == 0;
}

bool tmi_is_temp_of(const char *name, bool (*is_ours)(const char *name)) {
    char file[TMI_NAME_BYTES];
    const char *mark = strstr(name, temp_mark);
    if (name[0] != '.' || !mark || mark - name >= TMI_NAME_BYTES || !is_temporary(mark, temp_mark))
        return false;
    snprintf(file, sizeof file, "%.*s", (int)(mark - name - 1), name + 1);
    return is_ours(file);
}

typedef struct temp_search {
    const tmi_folder *folder;
    void (*found)(const tmi_folder *folder, const char *name);
    char start[TMI_NAME_BYTES]; /* the common start of the path's temporary file names */
} temp_search;

static bool look_at_name(void *ctx, const char *name) {
    const temp_search *search = ctx;
    if (is_temporary(name, search->start))
        search->found(search->folder, name);
    return true;
}

void tmi_each_temp(const tmi_folder *folder, const char *file,
                   void (*found)(const tmi_folder *folder, const char *name)) {
    temp_search search = {.folder = folder, .found = found};
    tmi_sibling_name(search.start, sizeof search.start, file, temp_mark);
    (void)tmi_folder_list_in(folder, look_at_name, &search);
}
