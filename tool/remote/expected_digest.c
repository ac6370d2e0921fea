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

/* The digits of "sha256:DIGITS", as registries write digests, or those that are given alone. */
static const char *digits_of(const char *where) {
    static const char prefix[] = "sha256:";
    return strncmp(where, prefix, sizeof prefix - 1) == 0 ? where + sizeof prefix - 1 : where;
}

static bool is_digest(const char *where) {
    char digits[DIGITS + 1];
    where = digits_of(where);
    return strlen(where) == DIGITS && copy_digest(where, digits);
}

/* Whether it is meant to be a digest, but has too many digits, too few, or others. */
static bool is_bad_digest(const char *where) {
    enum { MD5_DIGITS = 32 };
    const char *digits = digits_of(where);
    size_t count = strspn(digits, "0123456789abcdefABCDEF");
    struct stat s;
    return digits != where || (count >= MD5_DIGITS && !digits[count] && stat(where, &s) != 0);
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

/* Adds a name that sha256sum has escaped, without its escapes. */
static void add_unescaped(text *out, const char *name, size_t len) {
    for (size_t i = 0; i < len; i++) {
        bool escaped = name[i] == '\\' && i + 1 < len;
        i += escaped;
        text_add(out,
                 escaped && name[i] == 'n'   ? "\n"
                 : escaped && name[i] == 'r' ? "\r"
                                             : name + i,
                 1);
    }
}

/* A line of sha256sum: the digest and the name. A backslash before them says that the name is
 * escaped. Returns false if the line is not one. */
static bool parse_sum(const char *line, size_t len, char digest[DIGITS + 1], text *name) {
    bool escaped = *line == '\\';
    line += escaped;
    len -= escaped;
    text_clear(name);
    if (len < DIGITS + 3 || !copy_digest(line, digest))
        return false;
    line += DIGITS;
    len -= DIGITS;
    if (line[0] != ' ' || (line[1] != ' ' && line[1] != '*'))
        return false;
    if (escaped)
        add_unescaped(name, line + 2, len - 2);
    else
        text_add(name, line + 2, len - 2);
    return true;
}

/* Whether the name is the last part of the path, or the reverse. */
static bool has_same_name(const char *a, const char *b) {
    return strcmp(base_name(a), base_name(b)) == 0;
}

/* Returns how many lines name the file: one if its path is among them. */
static size_t find_sum(const char *sums, const char *file, lfs_pointer *out) {
    size_t found = 0;
    char digest[DIGITS + 1];
    text name = {0};
    for (const char *line = sums; *line;) {
        size_t len = strcspn(line, "\r\n");
        if (parse_sum(line, len, digest, &name) && has_same_name(name.bytes, file)) {
            bool exact = strcmp(name.bytes, file) == 0;
            memcpy(out->sha256, digest, sizeof digest);
            found = exact ? 1 : found + 1;
            if (exact)
                break;
        }
        line += len;
        line += strspn(line, "\r\n");
    }
    text_free(&name);
    return found;
}

/* Reads a file that is small enough to be a list; NULL after an error was printed. */
static char *read_list(const char *where) {
    int fd, status = open_regular(where, &fd);
    struct stat s;
    FILE *in = status ? NULL : fdopen(fd, "rb");
    if (!in) {
        if (!status)
            (void)fail(EXIT_FAILED, "'%s' cannot be read", where);
        return NULL;
    }
    size_t size =
        fstat(fd, &s) == 0 && s.st_size > 0 && s.st_size <= MOST_SUMS ? (size_t)s.st_size : 0;
    char *list = need(size + 1, 1);
    list[fread(list, 1, size, in)] = '\0';
    fclose(in);
    return list;
}

static bool is_sums(const char *list) {
    const char *digits = list + (*list == '\\');
    return strspn(digits, "0123456789abcdefABCDEF") == DIGITS && digits[DIGITS] == ' ';
}

/* A Git LFS pointer, or sums. */
static int expect_from_file(const char *where, const char *file, lfs_pointer *out) {
    int status = EXIT_FINE;
    char *list = read_list(where);
    if (!list)
        return EXIT_FAILED;
    if (is_sums(list)) {
        size_t found = find_sum(list, file, out);
        if (found != 1)
            status = fail(EXIT_FAILED, "'%s' has %s for '%s'", where,
                          found ? "several lines" : "no line", base_name(file));
    } else if (strncmp(list, "version ", 8) == 0) {
        status = read_lfs_pointer(where, file, out);
    } else {
        status = fail(EXIT_FAILED,
                      "'%s' is neither a list that sha256sum wrote nor a Git LFS pointer", where);
    }
    free(list);
    return status;
}

int read_sums(const char *where, expected_file **files, size_t *count) {
    expected_file one = {.want.size = ANY_SIZE};
    char *list = read_list(where);
    text name = {0};
    *files = NULL;
    *count = 0;
    if (!list)
        return EXIT_FAILED;
    int status = is_sums(list) ? EXIT_FINE
                               : fail(EXIT_USAGE,
                                      "'%s' is not a list that sha256sum wrote, so the files to "
                                      "compare with it must be named too",
                                      where);
    for (const char *line = list; !status && *line;) {
        size_t len = strcspn(line, "\r\n");
        if (parse_sum(line, len, one.want.sha256, &name)) {
            one.name = need_copy(name.bytes, name.len);
            *files = need_next(*files, *count, sizeof **files);
            (*files)[(*count)++] = one;
        }
        line += len;
        line += strspn(line, "\r\n");
    }
    text_free(&name);
    free(list);
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
        (void)copy_digest(digits_of(where), out->sha256);
        return EXIT_FINE;
    }
    if (is_bad_digest(where))
        return fail(EXIT_USAGE, "'%s' is no SHA-256, which has 64 hexadecimal digits", where);
    if (strcmp(where, "cache") == 0)
        return expect_cache_name(file, out);
    if (is_address(where))
        return expect_from_hub(where, file, out);
    if (stat(where, &s) == 0 && S_ISREG(s.st_mode))
        return expect_from_file(where, file, out);
    return read_lfs_pointer(where, file, out);
}
