/* Reads Git LFS pointer files. */
#include "remote/lfs_pointer.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "model/model_files.h"
#include "view/print.h"

enum { DIGITS = 64 };

static bool parse_lfs_pointer(const char *given, lfs_pointer *out) {
    const char *oid = strstr(given, "\noid sha256:"), *size = strstr(given, "\nsize ");
    if (strncmp(given, "version https://git-lfs", 23) != 0 || !oid || !size)
        return false;
    oid += strlen("\noid sha256:");
    if (strspn(oid, "0123456789abcdef") != DIGITS)
        return false;
    memcpy(out->sha256, oid, DIGITS);
    out->sha256[DIGITS] = '\0';
    return sscanf(size, "\nsize %" SCNu64, &out->size) == 1;
}

int read_lfs_pointer(const char *where, const char *file, lfs_pointer *out) {
    char content[1024];
    struct stat s;
    text path = {0};
    const char *slash = strrchr(file, '/');
    text_add(&path, where, strlen(where));
    if (stat(where, &s) == 0 && S_ISDIR(s.st_mode))
        text_addf(&path, "/%s", slash ? slash + 1 : file);
    int fd, status = open_regular(path.bytes, &fd);
    FILE *in = status ? NULL : fdopen(fd, "rb");
    size_t n = in ? fread(content, 1, sizeof content - 1, in) : 0;
    content[n] = '\0';
    if (!status && (!in || n == sizeof content - 1 || !parse_lfs_pointer(content, out)))
        status = fail(EXIT_FAILED, "'%s' is not a Git LFS pointer", path.bytes);
    if (in)
        fclose(in);
    text_free(&path);
    return status;
}
