/* SHA-256 over mapped windows of a file, without copying. */
#include "compare/digest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "model/model_files.h"
#include "sha256.h"
#include "view/progress.h"

void hex_digits(const unsigned char *bytes, size_t count, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

enum { MAP_WINDOW = 16 << 20, READ_WINDOW = 256 << 10, UPDATE_BYTES = 1 << 20 };

static void update(tmi_sha256 *state, const unsigned char *bytes, size_t size) {
    for (size_t at = 0; at < size; at += UPDATE_BYTES) {
        size_t n = size - at < UPDATE_BYTES ? size - at : UPDATE_BYTES;
        tmi_sha256_add(state, bytes + at, n);
        progress_add(n);
    }
}

/*
 * Hashes one window through a mapping, if the system can populate it in advance. Then the bytes are
 * present, and a file that another program truncates causes an error instead of a signal. Returns 0
 * or an errno.
 */
static int hash_mapped(tmi_sha256 *state, int fd, off_t at, size_t size) {
#ifdef MADV_POPULATE_READ
    void *window = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, at);
    if (window == MAP_FAILED)
        return errno;
    int failed = madvise(window, size, MADV_POPULATE_READ) == 0 ? 0 : errno;
    if (!failed)
        update(state, window, size);
    munmap(window, size);
    return failed;
#else
    (void)state, (void)fd, (void)at, (void)size;
    return EINVAL;
#endif
}

/* Hashes from `at` to the end of the file, wherever that is. */
static int hash_read(tmi_sha256 *state, int fd, off_t at) {
    unsigned char *buffer = need(READ_WINDOW, 1);
    int failed = 0;
    for (ssize_t n = 1; !failed && n > 0; at += n) {
        n = pread(fd, buffer, READ_WINDOW, at);
        if (n < 0)
            failed = errno;
        else
            update(state, buffer, (size_t)n);
    }
    free(buffer);
    return failed;
}

static int hash_open_file(tmi_sha256 *state, int fd) {
    struct stat s;
    off_t at = 0;
    int failed = fstat(fd, &s) == 0 ? 0 : errno;
    while (!failed && at < s.st_size) {
        off_t left = s.st_size - at;
        size_t size = left < MAP_WINDOW ? (size_t)left : MAP_WINDOW;
        failed = hash_mapped(state, fd, at, size);
        at += failed ? 0 : (off_t)size;
    }
    if (failed == EFAULT)
        return EIO;
    return at < s.st_size || !failed ? hash_read(state, fd, at) : failed;
}

int sha256_file(const char *path, unsigned char out[SHA256_BYTES]) {
    tmi_sha256 state;
    int fd;
    int status = open_regular(path, &fd);
    if (status)
        return status;
    tmi_sha256_begin(&state);
    int failed = hash_open_file(&state, fd);
    if (!tmi_sha256_end(&state, out) && !failed)
        failed = EIO;
    close(fd);
    return failed ? fail(EXIT_FAILED, "'%s': cannot read it: %s", path, os_error_text(failed))
                  : EXIT_FINE;
}
