/*
 * Loads plug-ins that each contain a copy of tenmap into one namespace of symbols, and lets each
 * read a model:
 *     host PLUGIN FUNCTION VERSION...
 * Each must work beside the others, and use its own version of tenmap.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned plugin(const void *bytes, size_t size, float *dst, char *said, size_t said_bytes);

static const char text[] = "{\"w\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}} ";

static int fails(const char *path, plugin *run, unsigned version) {
    unsigned char file[8 + sizeof text - 1 + 4] = {sizeof text - 1};
    char said[256] = "";
    float w[2] = {0, 0};
    memcpy(file + 8, text, sizeof text - 1);
    memcpy(file + 8 + sizeof text - 1, "\x80\x3f\x00\x40", 4);
    unsigned found = run(file, sizeof file, w, said, sizeof said);
    int good = found == version && w[0] == 1 && w[1] == 2;
    file[0] = 0xff; /* a header that is longer than the file */
    good &= run(file, sizeof file, w, said, sizeof said) == 0 && strlen(said) > 0;
    printf("%s: version %u, w is %g, %g; a broken file: %s\n", path, found, (double)w[0],
           (double)w[1], said);
    return !good;
}

int main(int argc, char **argv) {
    plugin *run[8];
    int failed = argc < 4 || argc % 3 != 1 || argc > 25;
    for (int i = 1; !failed && i + 2 < argc; i += 3) {
        void *object = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);
        void *name = object ? dlsym(object, argv[i + 1]) : NULL;
        if (!name)
            return fprintf(stderr, "%s\n", dlerror()), 1;
        memcpy(&run[i / 3], &name, sizeof name);
    }
    for (int i = 1; !failed && i + 2 < argc; i += 3)
        failed = fails(argv[i], run[i / 3], (unsigned)strtoul(argv[i + 2], NULL, 10));
    return failed;
}
