/* manual: writes the manual page: the option tables of each command inside a hand-written frame. */
#include <stdio.h>
#include <string.h>

#include "command.h"

static const char head[] =
    ".\\\" Made by 'tenmap manual'; see docs/tool.md for how to make it anew.\n"
    ".TH TENMAP 1 2026-11-16 \"tenmap %u.%u.%u\" \"User Commands\"\n"
    ".SH NAME\n"
    "tenmap \\- look into, check, compare and reshape SafeTensors models\n"
    ".SH SYNOPSIS\n"
    ".B tenmap\n"
    ".I COMMAND\n"
    ".RI [ OPTION .\\|.\\|.]\\&\n"
    ".IR MODEL .\\|.\\|.\n"
    ".SH DESCRIPTION\n"
    "A\n"
    ".I MODEL\n"
    "is a .safetensors file, an index of shards, or a folder that holds either.\n"
    "Opening reads headers only, so that models of any size are listed at once.\n"
    "Names select tensors: one with *, ? or [.\\|.\\|.] is a glob over whole names, where * "
    "crosses\n"
    "dots; one without selects the tensor of that name or, where there is none, all tensors whose\n"
    "names contain it.\n"
    ".PP\n"
    "Text that comes from a file is printed so that no terminal can obey it.\n"
    "Where the output is no terminal, there are no colors, and nothing is shortened.\n"
    "The formats of \\-\\-json and \\-\\-tsv are stable.\n";

static const char tail[] =
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nAll is fine.\n"
    ".TP\n.B 1\nThe answer is no: there are warnings, or differences.\n"
    ".TP\n.B 2\nThe model breaks a rule of the format.\n"
    ".TP\n.B 3\nSomething could not be read, written or found.\n"
    ".TP\n.B 64\nThe command line makes no sense.\n"
    ".TP\n.B 130\nInterrupted; nothing was left half written.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B NO_COLOR\nIf it is set to anything, no colors are used unless \\-\\-color says so.\n"
    ".TP\n.B COLUMNS\nThe width of a terminal that does not tell it.\n"
    ".TP\n.BR VISUAL , \" EDITOR\"\nThe editor of \\(oqtenmap meta MODEL edit\\(cq.\n"
    ".TP\n.B TMPDIR\nWhere the text for that editor goes; else /tmp.\n"
    ".SH SEE ALSO\n"
    ".BR git\\-lfs (1),\n"
    ".BR sha256sum (1)\n";

/* Writes text literally: nothing in it becomes a request, an escape or a typographic quote. */
static void roff(const char *s, size_t len) {
    static const struct {
        char c;
        const char *to;
    } special[] = {{'\\', "\\e"},  {'\t', "\\t"},  {'-', "\\-"},  {'\'', "\\(aq"},
                   {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
    if (len && (*s == '.' || *s == '\''))
        printf("\\&");
    for (size_t i = 0; i < len; i++) {
        size_t k = 0;
        while (k < sizeof special / sizeof special[0] && special[k].c != s[i])
            k++;
        if (k < sizeof special / sizeof special[0])
            printf("%s", special[k].to);
        else
            putchar(s[i]);
    }
}

static void roff_line(const char *s) {
    roff(s, strlen(s));
    putchar('\n');
}

static void put_options(const option *o) {
    for (; o && o->name; o++) {
        printf(".TP\n");
        if (o->letter)
            printf("\\fB\\-%c\\fR, ", o->letter);
        printf("\\fB\\-\\-");
        roff(o->name, strlen(o->name));
        printf("\\fR");
        if (o->value) {
            printf(" \\fI");
            roff(o->value, strlen(o->value));
            printf("\\fR");
        }
        printf("\n");
        roff(o->help, strlen(o->help));
        printf(".\n");
    }
}

/* Writes paragraphs; lines that begin with a space keep their layout. */
static void put_details(const char *s) {
    bool kept = false, begun = false;
    while (*s) {
        size_t len = strcspn(s, "\n");
        bool keep = len && *s == ' ';
        if (kept && !keep)
            printf(".fi\n");
        if (!len || !begun)
            printf(".PP\n");
        if (keep && !kept)
            printf(".nf\n");
        if (len) {
            roff(s, len);
            putchar('\n');
        }
        begun = true;
        kept = keep;
        s += len + (s[len] == '\n');
    }
    if (kept)
        printf(".fi\n");
}

static void put_command(const command *c) {
    printf(".SS tenmap %s\n.B tenmap %s\n", c->name, c->name);
    if (c->options && c->options->name)
        printf(".RI [ OPTION .\\|.\\|.]\\&\n");
    roff_line(c->operands);
    printf(".PP\n");
    roff(c->summary, strlen(c->summary));
    printf(".\n");
    if (c->details)
        put_details(c->details);
    put_options(c->options);
    for (const example *e = c->examples; e && e->line; e++) {
        if (e == c->examples)
            printf(".PP\nExamples:\n");
        printf(".TP\n\\fB");
        roff(e->line, strlen(e->line));
        printf("\\fR\n");
        roff_line(e->what);
    }
}

static int manual_run(const invocation *call) {
    (void)call;
    uint32_t v = tenmap_version();
    printf(head, (unsigned)(v / 1000000), (unsigned)(v / 1000 % 1000), (unsigned)(v % 1000));
    printf(".SH COMMANDS\n");
    for (const command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            put_command(*c);
    printf(".SH OPTIONS OF EVERY COMMAND\n");
    put_options(common_options);
    printf(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nShow the command's options and examples.\n");
    printf("%s", tail);
    return EXIT_FINE;
}

const command cmd_manual = {
    .name = "manual",
    .summary = "Print the manual page",
    .operands = "",
    .max_operands = 0,
    .settings_size = 1,
    .run = manual_run,
    .hidden = true,
};
