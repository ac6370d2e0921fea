/* Finds out which SHA-256 a file should have. */
#include "remote/expected_digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "model/model_files.h"
#include "remote/remote.h"
#include "view/print.h"

enum { DIGITS = 64, MOST_SUMS = 64 << 20 };

/* Copies 64 digits in lower case; false: these are not 64 digits and then something else. */
static bool copy_digest(const char *from, char out[DIGITS + 1]) {
    if (strspn(from, "0123456789abcdefABCDEF") != DIGITS)
        return false;
    for (size_t i = 0; i < DIGITS; i++)
        out[i] = (char)(from[i] >= 'A' && from[i] <= 'F' ? from[i] - 'A' + 'a' : from[i]);
    out[DIGITS] = '\0';
    return true;
}

static bool is_digest(const char *where) {
    char digits[DIGITS + 1];
    return strlen(where) == DIGITS && copy_digest(where, digits);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A link in a hub's cache leads to a file whose name is its digest, as the file itself has. */
static int expect_cache_name(const char *file, lfs_pointer *out) {
    char *target = realpath(file, NULL);
    const char *name = base_name(target ? target : file);
    size_t digits = strspn(name, "0123456789abcdef");
    int status = EXIT_FINE;
    if (strlen(name) == DIGITS && digits == DIGITS)
        (void)copy_digest(name, out->sha256);
    else if (digits == 40 && !name[digits])
        status =
            fail(EXIT_FAILED,
                 "'%s' is named by Git's SHA-1 in the hub's cache, which is not a SHA-256", file);
    else
        status = fail(EXIT_FAILED, "'%s' has no name of a hub's cache, which is a SHA-256", file);
    free(target);
    return status;
}

/* On a hub: the address of the file, or of the folder that it lies in. */
static int expect_from_hub(const char *where, const char *file, lfs_pointer *out) {
    text address = {0};
    if (strcmp(base_name(where), base_name(file)) == 0)
        text_add(&address, where, strlen(where));
    else
        text_add_named(&address, where, base_name(file));
    int status = remote_digest(address.bytes, out->sha256, &out->size);
    text_free(&address);
    return status;
}

/* How well the rest of a line, after the digest, names the file: 2 by its path, 1 by its name. */
static int names_file(const char *rest, size_t len, const char *file) {
    const char *last = base_name(file);
    size_t last_len = strlen(last);
    if (len < 3 || rest[0] != ' ' || (rest[1] != ' ' && rest[1] != '*'))
        return 0;
    rest += 2;
    len -= 2;
    if (len == strlen(file) && memcmp(rest, file, len) == 0)
        return 2;
    bool ends = len >= last_len && memcmp(rest + len - last_len, last, last_len) == 0;
    return ends && (len == last_len || rest[len - last_len - 1] == '/');
}

/* Returns how many lines name the file: one if its path is among them. */
static size_t find_sum(const char *sums, const char *file, lfs_pointer *out) {
    size_t found = 0;
    for (const char *line = sums; *line;) {
        size_t len = strcspn(line, "\r\n");
        int named = len > DIGITS ? names_file(line + DIGITS, len - DIGITS, file) : 0;
        if (named && copy_digest(line, out->sha256))
            found++;
        if (named == 2)
            return 1;
        line += len;
        line += strspn(line, "\r\n");
    }
    return found;
}

/* A Git LFS pointer, or sums. */
static int expect_from_file(const char *where, const char *file, lfs_pointer *out) {
    int fd, status = open_regular(where, &fd);
    struct stat s;
    FILE *in = status ? NULL : fdopen(fd, "rb");
    if (!in)
        return status ? status : fail(EXIT_FAILED, "'%s' cannot be read", where);
    size_t size =
        fstat(fd, &s) == 0 && s.st_size > 0 && s.st_size <= MOST_SUMS ? (size_t)s.st_size : 0;
    char *sums = need(size + 1, 1);
    sums[fread(sums, 1, size, in)] = '\0';
    fclose(in);
    bool digest = size > DIGITS && strspn(sums, "0123456789abcdefABCDEF") == DIGITS;
    if (!digest)
        status = read_lfs_pointer(where, file, out);
    else {
        size_t found = find_sum(sums, file, out);
        if (found != 1)
            status = fail(EXIT_FAILED, "'%s' has %s for '%s'", where,
                          found ? "several lines" : "no line", base_name(file));
    }
    free(sums);
    return status;
}

bool expects_several(const char *where) {
    char first[8] = "";
    struct stat s;
    if (is_digest(where) || is_address(where) || stat(where, &s) != 0 || !S_ISREG(s.st_mode))
        return !is_digest(where);
    FILE *in = fopen(where, "rb");
    size_t got = in ? fread(first, 1, sizeof first, in) : 0;
    if (in)
        fclose(in);
    return got < sizeof first || memcmp(first, "version ", sizeof first) != 0;
}

int read_expected(const char *where, const char *file, lfs_pointer *out) {
    struct stat s;
    out->size = ANY_SIZE;
    if (is_digest(where)) {
        (void)copy_digest(where, out->sha256);
        return EXIT_FINE;
    }
    if (strcmp(where, "cache") == 0)
        return expect_cache_name(file, out);
    if (is_address(where))
        return expect_from_hub(where, file, out);
    if (stat(where, &s) == 0 && S_ISREG(s.st_mode))
        return expect_from_file(where, file, out);
    return read_lfs_pointer(where, file, out);
}
