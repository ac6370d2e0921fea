/*
 * What a subcommand is, and what all of them share: their option tables, how they fail, the exit
 * codes. A subcommand is one file, cmd_NAME.c, with one `command`; main.c lists them. The tool uses
 * the library's public header only.
 */
#ifndef TOOL_COMMAND_H
#define TOOL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#if defined(__GNUC__)
#define TOOL_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define TOOL_PRINTF(at, first)
#endif

/* What the tool says to the shell. Every subcommand uses these and no others. */
enum {
    EXIT_FINE = 0,
    EXIT_DIFFERENT = 1,    /* the answer is no: warnings, differences */
    EXIT_REJECTED = 2,     /* the model breaks a rule of the format */
    EXIT_FAILED = 3,       /* it could not be read, written or found */
    EXIT_USAGE = 64,       /* the command line makes no sense */
    EXIT_INTERRUPTED = 130 /* by SIGINT, SIGTERM or SIGHUP */
};

/* A list of texts that belong to the command line. */
typedef struct texts {
    const char **items;
    size_t count;
} texts;

/* How an option's value is read, and the type of the settings field that it goes to. */
typedef enum option_kind {
    OPTION_SWITCH, /* bool; takes no value */
    OPTION_TEXT,   /* const char * */
    OPTION_LIST,   /* texts: may be given several times */
    OPTION_SIZE,   /* uint64_t, bytes: 100, 64KB, 5GB, 2GiB */
    OPTION_COUNT,  /* uint64_t */
    OPTION_REAL,   /* double */
    OPTION_DTYPE,  /* tenmap_dtype: bf16 or BF16 */
    OPTION_CHOICE  /* unsigned: which of the words in `value`, "name|size|file" */
} option_kind;

typedef struct option {
    char letter;       /* -x, or 0 */
    const char *name;  /* --name; NULL ends the table */
    const char *value; /* what help calls the value; NULL for a switch */
    option_kind kind;
    size_t at;        /* offsetof the field in the command's settings */
    const char *help; /* one sentence without its period */
} option;

typedef struct example {
    const char *line; /* a command line; NULL ends the list */
    const char *what; /* what it does, in a few words */
} example;

typedef struct invocation {
    const void *settings; /* the command's own struct, filled from its option table */
    const char **operands;
    size_t operand_count;
} invocation;

typedef struct command {
    const char *name;
    const char *summary;               /* one line, for the list of commands */
    const char *operands;              /* "MODEL [NAME...]" */
    size_t min_operands, max_operands; /* max: SIZE_MAX for any number */
    const option *options;
    const char *details;     /* paragraphs for --help; lines of at most 78 columns */
    const example *examples; /* for --help and the manual */
    size_t settings_size;
    const void *defaults;               /* a settings struct; NULL: all zero */
    int (*run)(const invocation *call); /* returns an exit code */
    /*
     * For completion, what operands may be: words of operand 1 ("bash|zsh|fish") or of operand 2
     * ("get|set"); where both are NULL and in all other places, files.
     */
    const char *first_words, *second_words;
    bool hidden; /* from the list of commands, the manual and completion */
} command;

/* Options that every command takes, parsed before it runs. */
typedef struct common_settings {
    bool dequantize; /* set by the commands that take DEQUANTIZE_OPTION */
    bool unmapped;   /* set by those that read a whole model and must stay small */
    bool lenient, partial, quiet;
    unsigned color; /* auto, always, never */
    uint64_t max_header;
    const char *token, *revision; /* of addresses; NULL: not given */
    bool traffic;
    uint64_t threads; /* the command's own --threads; 0: not given */
} common_settings;

/* For the option table of a command that shows values; `at` is a bool of its settings. */
#define DEQUANTIZE_OPTION(at)                                                                      \
    {                                                                                              \
        0, "dequantize", NULL, OPTION_SWITCH, at,                                                  \
            "Show quantised weights as what they stand for, codes and scales put together"         \
    }

extern const option common_options[];
extern common_settings common;
extern const command *const commands[]; /* in main.c, ends with NULL */

/*
 * args.c: fills the settings and calls the command. Answers --help. argv[0] is the command's name.
 */
int run_command(const command *self, int argc, char **argv);
void print_help(const command *self);
void print_overview(void);

/* "5GB", "2GiB", "100": bytes. */
bool parse_size(const char *text, uint64_t *out);
/* "bf16" or "BF16", and what other programs call it: "bfloat16". */
bool parse_dtype(const char *text, tenmap_dtype *out);
/* What may have been meant by a text that is no dtype: "f8_e4m3 or f8_e5m2"; NULL: who knows. */
const char *dtype_hint(const char *text);

/*
 * fail.c: one sentence on stderr, after "tenmap NAME: "; returns the code, so that a command can
 * `return fail(...)`.
 */
int fail(int code, const char *format, ...) TOOL_PRINTF(2, 3);
/* The library's sentence, and the exit code that its status means. */
int fail_error(const tenmap_error *error);
int fail_memory(void);
/* A sentence on stderr that is no failure. */
void warn(const char *format, ...) TOOL_PRINTF(1, 2);
void set_command_name(const char *name);
/* What an errno means, and what to do about it where something can be done. */
const char *os_words(int code);

/* The library's sentences name its own switches; people here have options. (`text` is print.h's.) */
struct text;
void text_add_message(struct text *out, const char *message);

/* What the common options mean to the library; remote_options adds what an address needs. */
tenmap_options open_options(void);
/* Opens a path or an address with the common options. 0, or the exit code of a failure that has been told. */
int open_model(const char *path, tenmap_model **out);

/*
 * Commands that write call this first: SIGINT, SIGTERM and SIGHUP then only raise a flag, so that
 * the command can take back what it began; a second SIGINT kills.
 */
void catch_interrupts(void);
bool interrupted(void);
/* A write beyond the size that files may have here (ulimit -f) fails, instead of ending the tool. */
void survive_file_limit(void);

/* Checked memory: never NULL, ends the tool with EXIT_FAILED where there is none. */
void *need(size_t count, size_t size);
void *need_more(void *old, size_t count, size_t size);
/* Room for one more item behind `count`, in a list that only this lets grow: doubled now and then. */
void *need_next(void *items, size_t count, size_t size);
char *need_copy(const char *bytes, size_t len); /* with a NUL behind it; to be freed */

#endif
