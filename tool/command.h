/*
 * Declares what a subcommand is and what all subcommands share: option tables, error reporting,
 * exit codes, checked memory. A subcommand is one file in commands/ with one `command`; main.c
 * lists them. The tool uses only the library's public header.
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

/* Exit codes. Every subcommand uses these and no others. */
enum {
    EXIT_FINE = 0,
    EXIT_DIFFERENT = 1,    /* the answer is no: warnings, differences */
    EXIT_REJECTED = 2,     /* the model breaks a rule of its format */
    EXIT_FAILED = 3,       /* something could not be read, written or found */
    EXIT_USAGE = 64,       /* the command line is invalid */
    EXIT_INTERRUPTED = 130 /* by SIGINT, SIGTERM or SIGHUP */
};

/* A list of strings that point into the command line. */
typedef struct texts {
    const char **items;
    size_t count;
} texts;

/* How an option's value is parsed, and the type of the settings field that receives it. */
typedef enum option_kind {
    OPTION_SWITCH, /* bool; takes no value */
    OPTION_TEXT,   /* const char * */
    OPTION_LIST,   /* texts: may be given more than once */
    OPTION_SIZE,   /* uint64_t, bytes: 100, 64KB, 5GB, 2GiB */
    OPTION_COUNT,  /* uint64_t */
    OPTION_REAL,   /* double */
    OPTION_DTYPE,  /* tenmap_dtype: bf16 or BF16 */
    OPTION_CHOICE  /* unsigned: index into the words of `value`, "name|size|file" */
} option_kind;

typedef struct option {
    char letter;       /* -x, or 0 */
    const char *name;  /* --name; NULL ends the table */
    const char *value; /* the value's name in --help; NULL for a switch */
    option_kind kind;
    size_t at;        /* offsetof the field in the command's settings */
    const char *help; /* one sentence without the period */
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
    size_t min_operands, max_operands; /* max: SIZE_MAX for no limit */
    const option *options;
    const char *details;     /* paragraphs for --help; lines of at most 78 columns */
    const example *examples; /* for --help and the manual */
    size_t settings_size;
    const void *defaults;               /* a settings struct; NULL: all zero */
    int (*run)(const invocation *call); /* returns an exit code */
    /*
     * For completion: the words allowed as operand 1 ("bash|zsh|fish") or as operand 2 ("get|set").
     * If both are NULL, and for all other operands, completion offers files.
     */
    const char *first_words, *second_words;
    bool hidden; /* hidden from the list of commands, the manual and completion */
} command;

/* Options that every command takes, parsed before it runs. */
typedef struct common_settings {
    bool dequantize; /* set by the commands that take DEQUANTIZE_OPTION */
    bool unmapped;   /* set by commands that read a whole model and must use little memory */
    bool lenient, partial, branches, quiet;
    unsigned color; /* auto, always, never */
    uint64_t max_header;
    const char *token, *revision; /* for addresses; NULL: not given */
    bool traffic;
    uint64_t threads; /* the command's own --threads; 0: not given */
} common_settings;

/*
 * Entry for the option table of a command that shows values; `at` is the offset of a bool in its
 * settings.
 */
#define DEQUANTIZE_OPTION(at)                                                                      \
    { 0, "dequantize", NULL, OPTION_SWITCH, at, "Show quantized weights as dequantized tensors" }

extern const option common_options[];
extern common_settings common;
extern const command *const commands[]; /* in main.c; ends with NULL */

/* A job that people come with. It has the commands from `first` to the next job's. */
typedef struct help_job {
    const char *title; /* NULL ends the list */
    const command *first;
} help_job;
extern const help_job jobs[]; /* in main.c */

/*
 * args.c: fills the settings and calls the command, or answers --help. argv[0] is the command's
 * name.
 */
int run_command(const command *self, int argc, char **argv);
void print_help(const command *self);
void print_overview(void);

/* Parses "5GB", "2GiB" or "100" into bytes. */
bool parse_size(const char *text, uint64_t *out);
/* Parses "bf16" or "BF16", and names that other programs use, such as "bfloat16". */
bool parse_dtype(const char *text, tenmap_dtype *out);
/*
 * Suggests what a text that is not a dtype may have meant, such as "f8_e4m3 or f8_e5m2". NULL if
 * nothing is close.
 */
const char *dtype_hint(const char *text);

/*
 * fail.c: prints one error message to stderr after "tenmap NAME: ". Returns the code, so that a
 * command can `return fail(...)`.
 */
int fail(int code, const char *format, ...) TOOL_PRINTF(2, 3);
/* Prints the library's error message and returns the exit code for its status. */
int fail_error(const tenmap_error *error);
int fail_memory(void);
/* Prints a warning to stderr. */
void warn(const char *format, ...) TOOL_PRINTF(1, 2);
void set_command_name(const char *name);
/* Describes an errno, with a remedy if there is one. */
const char *os_error_text(int code);

/*
 * Adds a library message as it is, and the tool's option for its remedy (TENMAP_REMEDY_*) if there
 * is one. (`text` is declared in print.h.)
 */
struct text;
void text_add_error(struct text *out, const char *message, uint32_t remedy);
/*
 * Library messages about a file begin with its path in quotes, then a colon and a space
 * (tenmap_error). Returns the closing quote, or NULL for a message that begins otherwise.
 */
const char *end_of_path(const char *message);

/*
 * Commands that write call this first. SIGINT, SIGTERM and SIGHUP then only set a flag, so that the
 * command can undo what it began. A second SIGINT kills the tool.
 */
void catch_interrupts(void);
bool interrupted(void);
/* Makes a write beyond the file size limit (ulimit -f) fail instead of ending the tool. */
void survive_file_limit(void);

/* Checked allocation: never returns NULL; ends the tool with EXIT_FAILED if there is no memory. */
void *need(size_t count, size_t size);
void *need_more(void *old, size_t count, size_t size);
/*
 * Makes room for one item after `count` items. Grows the list by doubling, so the list must be
 * grown only by this function.
 */
void *need_next(void *items, size_t count, size_t size);
char *need_copy(const char *bytes, size_t len); /* adds a NUL; the caller frees it */

#endif
