/*
 * tenmap's verdict on each file of a stream (see generate.c), one line per file:
 *
 *     A ...                      it opens; dump.h explains the rest
 *     R rule status message      it does not; 03 stands for rules 1 to 3
 *
 * The reference's program prints lines of the same kind.
 */
#include "../../support/dump.h"

/* Which rule a message is about. The first match counts. */
static int rule_of(const tenmap_error *error) {
    static const struct {
        const char *words;
        int rule;
    } rules[] = {{"begins with only zeros", 5}, /* a header of no bytes */
                 {"not valid UTF-8", 4},        {"data_offsets end at", 6},
                 {"it begins at", 6},           {"overflows 64 bits at", 7},
                 {"bits overflow 64", 7},       {"are not a whole number of bytes", 8},
                 {"data_offsets span", 9},      {"is the first that is not complete", 10},
                 {"no tensor claims", 10},      {": header, byte", 5},
                 {"(header, byte", 5}};
    if (error->status != TENMAP_ERR_FORMAT)
        return error->status == TENMAP_ERR_LIMIT ? 3 : 0;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strstr(error->message, rules[i].words))
            return rules[i].rule;
    return 3;
}

int main(void) {
    unsigned char frame[4];
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    while (fread(frame, 1, sizeof frame, stdin) == sizeof frame) {
        size_t size =
            frame[0] | (size_t)frame[1] << 8 | (size_t)frame[2] << 16 | (size_t)frame[3] << 24;
        /* Exactly this size, so that sanitizers detect a read past its end. */
        unsigned char *file = malloc(size ? size : 1);
        tenmap_model *model = NULL;
        tenmap_error error;
        if (!file || fread(file, 1, size, stdin) != size)
            return 2;
        if (tenmap_open_memory(file, size, NULL, &model, &error) == TENMAP_OK) {
            dump_model(stdout, model);
            putchar('\n');
        } else {
            printf("R %02d %s %s\n", rule_of(&error), tenmap_status_name(error.status),
                   error.message);
        }
        tenmap_close(model);
        free(file);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
