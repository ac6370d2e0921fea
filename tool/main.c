/* tenmap: looks into, checks, compares and reshapes model files. One file per subcommand. */
#include <stdio.h>
#include <string.h>

#include "command.h"

extern const command cmd_ls;

const command *const commands[] = {
    &cmd_ls,
    NULL,
};

static const command *find_command(const char *name) {
    for (const command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

static int help(int argc, char **argv) {
    const command *c = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !c)
        return fail(EXIT_USAGE, "there is no command '%s'; 'tenmap --help' lists them", argv[2]);
    if (c)
        print_help(c);
    else
        print_overview();
    return EXIT_FINE;
}

static int print_version(void) {
    uint32_t v = tenmap_version();
    printf("tenmap %u.%u.%u (%s)\n", (unsigned)(v / 1000000), (unsigned)(v / 1000 % 1000),
           (unsigned)(v % 1000), tenmap_cpu_path());
    return EXIT_FINE;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_overview();
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    const command *c = find_command(argv[1]);
    if (!c)
        return fail(EXIT_USAGE, "there is no command '%s'; 'tenmap --help' lists them", argv[1]);
    return run_command(c, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    int status = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) &&
        (status == EXIT_FINE || status == EXIT_DIFFERENT))
        return fail(EXIT_FAILED, "could not write the output");
    return status;
}
