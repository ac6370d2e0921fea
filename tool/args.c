/* Parses command lines by option table, and prints help from the same tables. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "view/print.h"
#include "remote/remote.h"
#include "suggest.h"

common_settings common;

#define COMMON(field) offsetof(common_settings, field)
const option common_options[] = {
    {0, "lenient", NULL, OPTION_SWITCH, COMMON(lenient),
     "Also open files with trailing bytes, holes or unknown dtypes"},
    {0, "partial", NULL, OPTION_SWITCH, COMMON(partial),
     "Open models with missing shards, without the tensors in them; ls lists truncated files"},
    {0, "branches", NULL, OPTION_SWITCH, COMMON(branches),
     "Take all branches of a PyTorch checkpoint, such as optimizer states, by their full names"},
    {0, "max-header", "SIZE", OPTION_SIZE, COMMON(max_header),
     "Accept headers up to this size (100MB)"},
    {0, "color", "auto|always|never", OPTION_CHOICE, COMMON(color),
     "Use colors: always, never, or on a terminal (auto); NO_COLOR is respected"},
    {0, "token", "TOKEN", OPTION_TEXT, COMMON(token),
     "Send this token to the hosts of addresses; HF_TOKEN is the better place for it"},
    {0, "revision", "REVISION", OPTION_TEXT, COMMON(revision),
     "The branch, tag or commit of hf:// addresses (main)"},
    {0, "traffic", NULL, OPTION_SWITCH, COMMON(traffic),
     "Print at the end how many bytes and requests addresses took"},
    {'q', "quiet", NULL, OPTION_SWITCH, COMMON(quiet), "Show no progress bar"},
    {0, NULL, NULL, OPTION_SWITCH, 0, NULL},
};

bool parse_size(const char *given, uint64_t *out) {
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1},       {"B", 1},         {"K", 1e3},      {"KB", 1e3},    {"M", 1e6},
                 {"MB", 1e6},   {"G", 1e9},       {"GB", 1e9},     {"T", 1e12},    {"TB", 1e12},
                 {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end;
    if (*given < '0' || *given > '9')
        return false;
    double number = strtod(given, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(end, units[i].suffix) != 0)
            continue;
        if (number * units[i].factor >= 0x1p63)
            return false;
        *out = (uint64_t)(number * units[i].factor + 0.5);
        return true;
    }
    return false;
}

static bool parse_count(const char *given, uint64_t *out) {
    char *end;
    errno = 0;
    if (*given < '0' || *given > '9')
        return false;
    *out = strtoull(given, &end, 10);
    return !*end && !errno;
}

static bool parse_real(const char *given, double *out) {
    char *end;
    *out = strtod(given, &end);
    return *given && !*end;
}

/* How other programs begin the names of dtypes, and how files do. */
static const struct {
    const char *theirs, *ours;
} dtype_prefixes[] = {{"bfloat", "BF"}, {"float", "F"}, {"fp", "F"},
                      {"uint", "U"},    {"int", "I"},   {"complex", "C"}};

/* Other names that programs have for dtypes. For an ambiguous name, the candidates. */
static const struct dtype_alias {
    const char *name;
    tenmap_dtype dtype; /* TENMAP_AS_STORED: ambiguous */
    const char *meant;
} dtype_aliases[] = {
    {"half", TENMAP_F16, NULL},
    {"double", TENMAP_F64, NULL},
    {"float8_e4m3fn", TENMAP_F8_E4M3, NULL},
    {"float8_e8m0fnu", TENMAP_F8_E8M0, NULL},
    {"float", TENMAP_AS_STORED, "f32, f16 or bf16"},
    {"f8", TENMAP_AS_STORED, "f8_e4m3 or f8_e5m2"},
    {"fp8", TENMAP_AS_STORED, "f8_e4m3 or f8_e5m2"},
    {"float8", TENMAP_AS_STORED, "f8_e4m3 or f8_e5m2"},
    {"f6", TENMAP_AS_STORED, "f6_e2m3 or f6_e3m2"},
    {"fp6", TENMAP_AS_STORED, "f6_e2m3 or f6_e3m2"},
    {"int", TENMAP_AS_STORED, "i32 or i64"},
};

static const struct dtype_alias *find_alias(const char *given) {
    for (size_t i = 0; i < sizeof dtype_aliases / sizeof dtype_aliases[0]; i++)
        if (strcasecmp(dtype_aliases[i].name, given) == 0)
            return &dtype_aliases[i];
    return NULL;
}

/* The name in files of what is given: "F8_E5M2" for f8_e5m2, float8_e5m2 and fp8_e5m2. */
static bool name_in_files(const char *given, char *name, size_t room) {
    const char *prefix = "";
    for (size_t i = 0; i < sizeof dtype_prefixes / sizeof dtype_prefixes[0] && !*prefix; i++) {
        size_t n = strlen(dtype_prefixes[i].theirs);
        if (strncasecmp(given, dtype_prefixes[i].theirs, n) == 0) {
            prefix = dtype_prefixes[i].ours;
            given += n;
        }
    }
    int len = snprintf(name, room, "%s%s", prefix, given);
    for (char *c = name; *c; c++)
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    return len >= 0 && (size_t)len < room;
}

bool parse_dtype(const char *given, tenmap_dtype *out) {
    char name[32];
    const struct dtype_alias *alias = find_alias(given);
    if (alias && alias->dtype) {
        *out = alias->dtype;
        return true;
    }
    return name_in_files(given, name, sizeof name) && tenmap_dtype_from_name(name, out) != 0;
}

const char *dtype_hint(const char *given) {
    static char nearest[32];
    const struct dtype_alias *alias = find_alias(given);
    char lower[32];
    suggestion best = {0};
    if (alias)
        return alias->meant;
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++) {
        const char *name = tenmap_dtype_name(d);
        size_t n = 0;
        for (; name[n] && n + 1 < sizeof lower; n++)
            lower[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] - 'A' + 'a' : name[n]);
        lower[n] = '\0';
        suggestion before = best;
        suggest(&best, given, strlen(given), lower, n);
        if (best.word != before.word || best.distance != before.distance) {
            memcpy(nearest, lower, n + 1);
            best.word = nearest;
        }
    }
    return best.word ? nearest : NULL;
}

static bool parse_choice(const char *words, const char *given, unsigned *out) {
    size_t len = strlen(given);
    for (unsigned i = 0; *words; i++) {
        size_t word = strcspn(words, "|");
        if (word == len && memcmp(words, given, len) == 0) {
            *out = i;
            return true;
        }
        words += word + (words[word] == '|');
    }
    return false;
}

static void append_text(texts *list, const char *given) {
    list->items = need_next(list->items, list->count, sizeof *list->items);
    list->items[list->count++] = given;
}

static bool store(const option *o, void *settings, const char *given) {
    void *field = (char *)settings + o->at;
    switch (o->kind) {
    case OPTION_SWITCH:
        *(bool *)field = true;
        return true;
    case OPTION_TEXT:
        *(const char **)field = given;
        return true;
    case OPTION_LIST:
        append_text(field, given);
        return true;
    case OPTION_SIZE:
        return parse_size(given, field);
    case OPTION_COUNT:
        return parse_count(given, field);
    case OPTION_REAL:
        return parse_real(given, field);
    case OPTION_DTYPE:
        return parse_dtype(given, field);
    case OPTION_CHOICE:
        return parse_choice(o->value, given, field);
    }
    return false;
}

static const char *kind_hint(const option *o) {
    static const char *const hints[] = {
        [OPTION_SIZE] = "a size such as 64KB, 5GB or 2GiB",
        [OPTION_COUNT] = "a whole number",
        [OPTION_REAL] = "a number",
        [OPTION_DTYPE] = "a dtype such as bf16, f16, f32 or f8_e4m3",
    };
    return o->kind == OPTION_CHOICE ? o->value : hints[o->kind];
}

/* The option that `given` (`len` bytes, without dashes) names, and the settings that it fills. */
static const option *find_option(const command *self, const char *given, size_t len, bool letter,
                                 void **settings) {
    const option *tables[] = {self->options, common_options};
    void *const targets[] = {*settings, &common};
    for (size_t t = 0; t < 2; t++) {
        for (const option *o = tables[t]; o && o->name; o++) {
            bool same = letter ? o->letter == *given
                               : strlen(o->name) == len && memcmp(o->name, given, len) == 0;
            if (same) {
                *settings = targets[t];
                return o;
            }
        }
    }
    return NULL;
}

typedef struct scan {
    const command *self;
    void *settings;
    int argc;
    char **argv;
    int at;
    invocation call;
} scan;

/* "; did you mean --depth?", or where the options are listed. */
static int unknown_option(const command *self, const char *given, size_t len) {
    const option *tables[] = {self->options, common_options};
    suggestion best = {0};
    for (size_t t = 0; t < 2; t++)
        for (const option *o = tables[t]; o && o->name; o++)
            suggest(&best, given, len, o->name, strlen(o->name));
    suggest(&best, given, len, "help", 4);
    if (best.word)
        return fail(EXIT_USAGE, "there is no option --%.*s; did you mean --%s?", (int)len, given,
                    best.word);
    return fail(EXIT_USAGE, "there is no option --%.*s; 'tenmap %s --help' lists them", (int)len,
                given, self->name);
}

static int take_value(scan *s, const option *o, void *settings, const char *value) {
    if (o->kind != OPTION_SWITCH && !value) {
        if (s->at + 1 >= s->argc)
            return fail(EXIT_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->value);
        value = s->argv[++s->at];
    }
    if (store(o, settings, value))
        return EXIT_FINE;
    if (o->kind == OPTION_DTYPE && dtype_hint(value))
        return fail(EXIT_USAGE, "--%s takes a dtype, not '%s'; did you mean %s?", o->name, value,
                    dtype_hint(value));
    return fail(EXIT_USAGE, "--%s takes %s, not '%s'", o->name, kind_hint(o), value);
}

static int take_long(scan *s, const char *given) {
    size_t len = strcspn(given, "=");
    void *settings = s->settings;
    const option *o = find_option(s->self, given, len, false, &settings);
    if (!o)
        return unknown_option(s->self, given, len);
    if (o->kind == OPTION_SWITCH && given[len])
        return fail(EXIT_USAGE, "--%s takes no value", o->name);
    return take_value(s, o, settings, given[len] ? given + len + 1 : NULL);
}

static int take_letters(scan *s, const char *given) {
    for (; *given; given++) {
        void *settings = s->settings;
        const option *o = find_option(s->self, given, 1, true, &settings);
        if (!o)
            return fail(EXIT_USAGE, "there is no option -%c; 'tenmap %s --help' lists them", *given,
                        s->self->name);
        if (o->kind != OPTION_SWITCH)
            return take_value(s, o, settings, given[1] ? given + 1 : NULL);
        *(bool *)((char *)settings + o->at) = true;
    }
    return EXIT_FINE;
}

static int take_all(scan *s) {
    bool operands_only = false;
    for (s->at = 1; s->at < s->argc; s->at++) {
        char *given = s->argv[s->at];
        int status = EXIT_FINE;
        bool number = given[0] == '-' && given[1] >= '0' && given[1] <= '9';
        if (operands_only || number || given[0] != '-' || !given[1])
            s->call.operands[s->call.operand_count++] = given;
        else if (strcmp(given, "--") == 0)
            operands_only = true;
        else
            status = given[1] == '-' ? take_long(s, given + 2) : take_letters(s, given + 1);
        if (status)
            return status;
    }
    return EXIT_FINE;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int run_command(const command *self, int argc, char **argv) {
    set_command_name(self->name);
    if (asks_for_help(argc, argv)) {
        print_help(self);
        return EXIT_FINE;
    }
    scan s = {self, need(1, self->settings_size), argc, argv, 0, {0}};
    if (self->defaults)
        memcpy(s.settings, self->defaults, self->settings_size);
    s.call.settings = s.settings;
    s.call.operands = need((size_t)argc, sizeof *s.call.operands);
    int status = take_all(&s);
    size_t n = s.call.operand_count;
    if (!status && (n < self->min_operands || n > self->max_operands))
        status =
            fail(EXIT_USAGE, "usage: tenmap %s %s; --help says more", self->name, self->operands);
    if (!status)
        status = remote_prepare(self->options, s.settings, s.call.operands, n);
    if (!status) {
        print_setup();
        status = self->run(&s.call);
        remote_end();
    }
    for (const option *o = self->options; o && o->name; o++)
        if (o->kind == OPTION_LIST)
            free(((texts *)(void *)((char *)s.settings + o->at))->items);
    free(s.settings);
    free(s.call.operands);
    return status;
}

static void print_options(const option *o) {
    text left = {0};
    for (; o && o->name; o++) {
        text_clear(&left);
        text_addf(&left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                  o->letter ? ", " : "  ", o->name, o->value ? " " : "", o->value ? o->value : "");
        if (left.len < 28)
            printf("  %-28s", left.bytes);
        else
            printf("  %s\n  %28s", left.bytes, "");
        print_wrapped(o->help, 30, 78);
    }
    text_free(&left);
}

/* Refills paragraphs, so that no table has to count columns. Indented lines stay as they are. */
static void print_details(const char *s) {
    text paragraph = {0};
    while (*s) {
        size_t len = strcspn(s, "\n");
        const char *next = s + len + (s[len] == '\n');
        if (len == 0 || *s == ' ') {
            printf("%.*s\n", (int)len, s);
        } else {
            text_add(&paragraph, s, len);
            text_add(&paragraph, " ", 1);
            if (!*next || *next == '\n' || *next == ' ') {
                print_wrapped(paragraph.bytes, 0, 78);
                text_clear(&paragraph);
            }
        }
        s = next;
    }
    text_free(&paragraph);
}

void print_help(const command *self) {
    printf("Usage: tenmap %s [OPTION...] %s\n\n%s.\n", self->name, self->operands, self->summary);
    if (self->details) {
        putchar('\n');
        print_details(self->details);
    }
    if (self->options && self->options->name)
        printf("\nOptions:\n");
    print_options(self->options);
    printf("\nOptions of every command:\n");
    print_options(common_options);
    printf("  -h, --help                  This text\n");
    if (self->examples && self->examples->line)
        printf("\nExamples:\n");
    for (const example *e = self->examples; e && e->line; e++)
        printf("  %s\n      %s\n", e->line, e->what);
}

/* One example for each job, with GGUF and addresses among them. */
static const example overview_examples[] = {
    {"tenmap info model.gguf", "what it is, on one screen"},
    {"tenmap fit --memory 24GB llama/", "whether it fits, and how small it must be"},
    {"tenmap check llama/", "whether the download is whole"},
    {"tenmap diff llama/ llama-Q4_K_M.gguf", "what the quantization lost"},
    {"tenmap convert llama/ --to f16 -o llama-f16/", "half the size of F32"},
    {"tenmap report tuned/ --compare base/", "an HTML report on what a fine-tune changed"},
    {"tenmap info hf://ORG/NAME", "what a model on a hub is, without downloading it"},
    {NULL, NULL}};

void print_overview(void) {
    const help_job *next = jobs;
    printf("Usage: tenmap COMMAND [OPTION...] MODEL...\n\n"
           "Inspects, checks, compares, converts and rewrites model weights without\n"
           "loading them. MODEL is a .safetensors, .gguf, .pt or .bin file, an index of\n"
           "shards, a folder, or the address of one (https://, hf://, s3://). Nothing in\n"
           "the pickle of a .pt or .bin file is run.\n");
    for (const command *const *c = commands; *c; c++) {
        if ((*c)->hidden)
            continue;
        if (next->title && next->first == *c)
            printf("\n%s\n", next++->title);
        printf("  %-11s %s\n", (*c)->name, (*c)->summary);
    }
    printf("\nExamples:\n");
    for (const example *e = overview_examples; e->line; e++)
        printf("  %s\n      %s\n", e->line, e->what);
    printf("\n'tenmap COMMAND --help' shows the options and examples of one command.\n"
           "Exit codes: 0 fine, 1 differences or warnings, 2 the model was rejected,\n"
           "3 it could not be read or written, 64 wrong usage.\n");
}
