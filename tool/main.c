/*
 * tenmap: inspects, checks, compares, converts and rewrites model files. Each subcommand has a file
 * in commands/.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "suggest.h"
#include "version.h"

/* In the order of help and manual, by job. */
#define COMMANDS(X)                                                                                \
    X(info)                                                                                        \
    X(ls)                                                                                          \
    X(fit)                                                                                         \
    X(stats)                                                                                       \
    X(get)                                                                                         \
    X(report)                                                                                      \
    X(check)                                                                                       \
    X(hash)                                                                                        \
    X(inventory)                                                                                   \
    X(diff)                                                                                        \
    X(convert)                                                                                     \
    X(extract)                                                                                     \
    X(drop)                                                                                        \
    X(lora)                                                                                        \
    X(merge)                                                                                       \
    X(blend)                                                                                       \
    X(split)                                                                                       \
    X(layout)                                                                                      \
    X(meta)                                                                                        \
    X(rename)                                                                                      \
    X(realign)                                                                                     \
    X(bench)                                                                                       \
    X(completion)                                                                                  \
    X(manual)

#define DECLARE(name) extern const command cmd_##name;
COMMANDS(DECLARE)
#define ADDRESS(name) &cmd_##name,
const command *const commands[] = {COMMANDS(ADDRESS) NULL};
const help_job jobs[] = {{"What is this model?", &cmd_info},
                         {"Is it whole, and is it the right one?", &cmd_check},
                         {"What changed?", &cmd_diff},
                         {"Write another model, such as a smaller one", &cmd_convert},
                         {"Change names, metadata and layout, in place if possible", &cmd_meta},
                         {"This machine and this tool", &cmd_bench},
                         {NULL, NULL}};

static const command *find_command(const char *name) {
    for (const command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

static int unknown_command(const char *given) {
    suggestion best = {0};
    for (const command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            suggest(&best, given, strlen(given), (*c)->name, strlen((*c)->name));
    if (best.word)
        return fail(EXIT_USAGE, "there is no command '%s'; did you mean '%s'?", given, best.word);
    if (*given == '-')
        return fail(EXIT_USAGE, "options come after the command: tenmap COMMAND %s", given);
    if (strchr(given, '.') || strchr(given, '/'))
        return fail(EXIT_USAGE, "'%s' is not a command; to look into a model: tenmap info %s",
                    given, given);
    return fail(EXIT_USAGE, "there is no command '%s'; 'tenmap --help' lists them", given);
}

static int help(int argc, char **argv) {
    const command *c = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !c)
        return unknown_command(argv[2]);
    if (c)
        print_help(c);
    else
        print_overview();
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
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        print_version();
        return EXIT_FINE;
    }
    const command *c = find_command(argv[1]);
    if (!c)
        return unknown_command(argv[1]);
    return run_command(c, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    survive_file_limit();
    int status = dispatch(argc, argv);
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && (status == EXIT_FINE || status == EXIT_DIFFERENT))
        return fail(EXIT_FAILED, "could not write the output%s%s", errno ? ": " : "",
                    errno ? os_error_text(errno) : "");
    return status;
}
