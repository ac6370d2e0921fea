/* A private folder of the process, in memory if the system has such a file system. */
#ifndef TENMAP_FUZZ_SCRATCH_H
#define TENMAP_FUZZ_SCRATCH_H

#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_folder[64], scratch_path[96];

static inline size_t scratch_files(bool remove_them) {
    size_t count = 0;
    DIR *dir = opendir(scratch_folder);
    CHECK(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[512];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", scratch_folder, e->d_name);
        if (remove_them)
            unlink(path);
        count++;
    }
    closedir(dir);
    return count;
}

static inline void scratch_remove(void) {
    scratch_files(true);
    rmdir(scratch_folder);
}

/* Makes the folder on the first call. Targets use the file scratch_path. */
static inline void scratch_begin(void) {
    if (scratch_folder[0])
        return;
    snprintf(scratch_folder, sizeof scratch_folder, "%s/tenmap-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(scratch_folder));
    snprintf(scratch_path, sizeof scratch_path, "%s/m.safetensors", scratch_folder);
    atexit(scratch_remove);
}

static inline void scratch_write(const uint8_t *bytes, size_t size) {
    FILE *file = fopen(scratch_path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

/* The whole file; the caller frees it. NULL if there is none. */
static inline uint8_t *scratch_read(size_t *size) {
    FILE *file = fopen(scratch_path, "rb");
    if (!file)
        return NULL;
    struct stat st;
    CHECK(fstat(fileno(file), &st) == 0);
    *size = (size_t)st.st_size;
    uint8_t *bytes = malloc(*size + 1);
    CHECK(fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

#endif
