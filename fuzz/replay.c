/*
 * Runs a fuzz target over the given files and folders, without libFuzzer: for the test suite, and
 * for a single crash in a debugger. If it is built by afl-clang-fast and gets no arguments, it
 * takes inputs from AFL++ one after the other in one process; fuzz/afl.sh uses that.
 */
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

static size_t files_run;

static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    size_t size = 0, capacity = 1 << 16, got;
    uint8_t *bytes = malloc(capacity);
    while (bytes && (got = fread(bytes + size, 1, capacity - size, file)) > 0) {
        size += got;
        if (size == capacity)
            bytes = realloc(bytes, capacity *= 2);
    }
    /* A copy of the exact size, so that AddressSanitizer detects a read past its end. */
    uint8_t *exact = bytes ? malloc(size ? size : 1) : NULL;
    if (!exact || ferror(file)) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    memcpy(exact, bytes, size);
    free(bytes);
    fclose(file);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    files_run++;
}

static void run_path(const char *path) {
    struct stat st;
    DIR *dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    if (!dir) {
        run_file(path);
        return;
    }
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        size_t room = strlen(path) + strlen(e->d_name) + 2;
        char *inside = malloc(room);
        if (!inside)
            exit(2);
        snprintf(inside, room, "%s/%s", path, e->d_name);
        run_path(inside);
        free(inside);
    }
    closedir(dir);
}

#ifdef __AFL_FUZZ_TESTCASE_LEN
#include <unistd.h>

__AFL_FUZZ_INIT()

static int run_afl(void) {
    __AFL_INIT();
    const uint8_t *shared = __AFL_FUZZ_TESTCASE_BUF;
    while (__AFL_LOOP(5000)) {
        size_t size = (size_t)__AFL_FUZZ_TESTCASE_LEN;
        uint8_t *exact = malloc(size ? size : 1);
        if (!exact)
            exit(2);
        memcpy(exact, shared, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    return 0;
}
#else
static int run_afl(void) {
    return 2;
}
#endif

int main(int argc, char **argv) {
    if (argc == 1)
        return run_afl();
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    printf("%zu files\n", files_run);
    return files_run ? 0 : 2;
}
