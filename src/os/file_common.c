/* Files and mappings: the portable part. */
#include "os.h"

#include <errno.h>
#include <string.h>

/* The most that one read requests: Linux stops a little under 2 GiB, macOS refuses more. */
enum { READ_AT_MOST = 1 << 30 };

void tmi_file_memory(tmi_file *file, const void *bytes, size_t size) {
    *file = (tmi_file){.fd = -1, .kind = TMI_FILE_REGULAR, .memory = bytes, .size = size};
}

/* The file offset behind the last byte in memory: of all of the file, or of what was mapped. */
static uint64_t memory_end(const tmi_file *file) {
    uint64_t mapped = file->map_offset + file->map_size;
    return file->map && mapped < file->size ? mapped : file->size;
}

int tmi_file_read(const tmi_file *file, uint64_t offset, void *dst, size_t size, size_t *got) {
    *got = 0;
    if (file->memory) {
        uint64_t end = memory_end(file);
        if (offset < file->memory_at)
            return EFAULT;
        if (offset < end) {
            *got = end - offset < size ? (size_t)(end - offset) : size;
            memcpy(dst, file->memory + (offset - file->memory_at), *got);
        }
        return 0;
    }
    while (*got < size) {
        size_t part = size - *got < READ_AT_MOST ? size - *got : READ_AT_MOST, n;
        if (offset > (uint64_t)INT64_MAX - *got)
            return EOVERFLOW;
        int failed = tmi_fd_read(file->fd, offset + *got, (char *)dst + *got, part, &n);
        if (failed || n == 0)
            return failed;
        *got += n;
    }
    return 0;
}

int tmi_file_read_direct(int fd, uint64_t offset, void *dst, size_t size, size_t *got) {
    *got = 0;
    if (offset > (uint64_t)INT64_MAX - size)
        return EOVERFLOW;
    return tmi_fd_read(fd, offset, dst, size, got);
}

/* Reads the bytes first to find out whether they exist: touching a page that is gone is fatal. */
static int touch_pages(const tmi_file *file, uint64_t begin, uint64_t end) {
    unsigned char scratch[16 << 10];
    uint64_t last = file->map_offset + file->map_size;
    if (end > last)
        end = last;
    for (uint64_t at = begin; at < end;) {
        size_t got, want = end - at < sizeof scratch ? (size_t)(end - at) : sizeof scratch;
        int failed = tmi_file_read(file, at, scratch, want, &got);
        if (failed || got < want)
            return EFAULT;
        at += want;
    }
    const volatile char *byte = tmi_map_address(file, begin);
    for (uint64_t at = 0; at < end - begin; at += tmi_page_size())
        (void)byte[at];
    return 0;
}

int tmi_map_populate(const tmi_file *file, uint64_t begin, uint64_t end) {
    int failed = tmi_map_populate_at_once(file, begin, end);
    return failed == ENOTSUP ? touch_pages(file, begin, end) : failed;
}
