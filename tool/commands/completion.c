/*
 * completion: generates shell scripts from the option tables. The shell completes file names
 * itself; tensor names come from `tenmap ls --tsv` at completion time.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"

/* What an operand may be. */
typedef enum { OPERAND_FILES, OPERAND_NAMES, OPERAND_WORDS } operand_sort;

static operand_sort later_operands(const command *c) {
    if (strncmp(c->operands, "MODEL [NAME", 11) == 0 || strncmp(c->operands, "MODEL NAME", 10) == 0)
        return OPERAND_NAMES;
    return c->second_words ? OPERAND_WORDS : OPERAND_FILES;
}

static bool takes_file(const option *o) {
    return o->value && (strstr(o->value, "FILE") || strstr(o->value, "FOLDER") ||
                        strstr(o->value, "PATH") || strstr(o->value, "MODEL"));
}

static void put_words(const char *words) {
    for (; *words; words++)
        putchar(*words == '|' ? ' ' : *words);
}

/* Conversion targets are floating-point dtypes; filters accept every dtype. */
static void put_dtypes(bool floats) {
    const char *between = "";
    for (tenmap_dtype d = TENMAP_BOOL; d <= TENMAP_U64; d++) {
        if (floats && tenmap_dtype_kind(d) != TENMAP_KIND_FLOAT)
            continue;
        printf("%s", between);
        for (const char *name = tenmap_dtype_name(d); *name; name++)
            putchar(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
        between = " ";
    }
}

/* Prints the values of an option that has a fixed set. Returns whether it has one. */
static bool put_values(const option *o) {
    if (o->kind == OPTION_CHOICE)
        put_words(o->value);
    else if (o->value && strcmp(o->value, "DTYPE") == 0)
        put_dtypes(o->kind == OPTION_DTYPE);
    else
        return false;
    return true;
}

static bool has_values(const option *o) {
    return o->kind == OPTION_CHOICE || (o->value && strcmp(o->value, "DTYPE") == 0);
}

/* Calls `each` for the command's own options, then for the common ones. */
static void for_options(const command *c, void (*each)(const command *, const option *)) {
    const option *tables[] = {c->options, common_options};
    for (size_t t = 0; t < 2; t++)
        for (const option *o = tables[t]; o && o->name; o++)
            each(c, o);
}

static void for_commands(void (*each)(const command *)) {
    for (const command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            each(*c);
}

static void put_name(const command *c) {
    printf("%s ", c->name);
}

/* bash */

static void bash_option(const command *c, const option *o) {
    (void)c;
    if (o->letter)
        printf("-%c ", o->letter);
    printf("--%s ", o->name);
}

static void bash_valued(const command *c, const option *o) {
    (void)c;
    if (o->value && o->letter)
        printf("-%c ", o->letter);
    if (o->value)
        printf("--%s ", o->name);
}

static void bash_choice(const command *c, const option *o) {
    (void)c;
    if (!has_values(o))
        return;
    printf("        ");
    if (o->letter)
        printf("-%c | ", o->letter);
    printf("--%s) values=\"", o->name);
    put_values(o);
    printf("\" ;;\n");
}

static void bash_command(const command *c) {
    printf("    %s)\n        options=\"", c->name);
    for_options(c, bash_option);
    printf("--help\"\n        valued=\" ");
    for_options(c, bash_valued);
    printf("\"\n");
    if (c->first_words) {
        printf("        first=\"");
        put_words(c->first_words);
        printf("\"\n");
    }
    if (c->second_words) {
        printf("        second=\"");
        put_words(c->second_words);
        printf("\"\n");
    }
    if (later_operands(c) == OPERAND_NAMES)
        printf("        names=yes\n");
    printf("        case $prev in\n");
    for_options(c, bash_choice);
    printf("        esac\n        ;;\n");
}

static void complete_bash(void) {
    printf("# bash completion for tenmap, made by 'tenmap completion bash'.\n\n"
           "_tenmap() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local options= valued= values= first= second= names= model= operands=0 i word\n"
           "    COMPREPLY=()\n"
           "    # --option=value comes as three words.\n"
           "    if [[ $cur == = ]]; then\n"
           "        cur=\n"
           "    elif [[ $prev == = ]]; then\n"
           "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
           "    fi\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        COMPREPLY=($(compgen -W \"");
    for_commands(put_name);
    printf("help --help --version\" -- \"$cur\"))\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]} in\n"
           "    help) first=\"");
    for_commands(put_name);
    printf("\" ;;\n");
    for_commands(bash_command);
    printf("    esac\n"
           "    if [[ -n $values ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
           "        return\n"
           "    fi\n"
           "    [[ $valued == *\" $prev \"* ]] && return\n"
           "    if [[ $cur == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
           "        return\n"
           "    fi\n"
           "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
           "        word=${COMP_WORDS[i]}\n"
           "        if [[ $word == -* ]]; then\n"
           "            [[ $valued == *\" $word \"* ]] && ((i++))\n"
           "            continue\n"
           "        fi\n"
           "        ((operands++ == 0)) && model=${word/#\\~\\//${HOME-}/}\n"
           "    done\n"
           "    if ((operands == 0)) && [[ -n $first ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$first\" -- \"$cur\"))\n"
           "    elif ((operands == 1)) && [[ -n $second ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$second\" -- \"$cur\"))\n"
           "    elif ((operands >= 1)) && [[ -n $names && -e $model ]]; then\n"
           "        COMPREPLY=($(tenmap ls --tsv \"$model\" 2>/dev/null | awk -F '\\t' -v "
           "cur=\"$cur\" \\\n"
           "            'NR > 1 && index($1, cur) == 1 && $1 !~ /[^A-Za-z0-9_.-]/ { print $1 }'))\n"
           "    fi\n"
           "}\n\n"
           "# Where nothing is offered, bash completes file names.\n"
           "complete -o default -F _tenmap tenmap\n");
}

/* zsh */

/* Text inside single quotes and square brackets of an _arguments specification. */
static void zsh_quoted(const char *s) {
    for (; *s; s++) {
        if (*s == '\'')
            printf("'\\''");
        else if (strchr("[]:\\", *s))
            printf("\\%c", *s);
        else
            putchar(*s);
    }
}

static void zsh_value(const option *o) {
    if (!o->value)
        return;
    printf(":value:");
    if (takes_file(o)) {
        printf("_files");
    } else if (has_values(o)) {
        putchar('(');
        put_values(o);
        putchar(')');
    } else {
        putchar(' ');
    }
}

static void zsh_spec(const option *o, bool letter) {
    printf(" \\\n            '%s", o->kind == OPTION_LIST ? "*" : "");
    if (letter)
        printf("-%c%s[", o->letter, o->value ? "+" : "");
    else
        printf("--%s%s[", o->name, o->value ? "=" : "");
    zsh_quoted(o->help);
    printf("]");
    zsh_value(o);
    printf("'");
}

static void zsh_option(const command *c, const option *o) {
    (void)c;
    if (o->letter)
        zsh_spec(o, true);
    zsh_spec(o, false);
}

static void zsh_words(int place, const char *words) {
    printf(" \\\n            '%d:word:(", place);
    put_words(words);
    printf(")'");
}

static void zsh_command(const command *c) {
    printf("    %s)\n        _arguments -s -S", c->name);
    for_options(c, zsh_option);
    printf(" \\\n            '(- *)--help[Show help]'");
    if (c->first_words)
        zsh_words(1, c->first_words);
    else
        printf(" \\\n            '1:model:_files'");
    if (c->second_words)
        zsh_words(2, c->second_words);
    printf(" \\\n            '*:%s'\n        ;;\n",
           later_operands(c) == OPERAND_NAMES ? "name:_tenmap_names" : "file:_files");
}

static void zsh_summary(const command *c) {
    printf("        '%s:", c->name);
    zsh_quoted(c->summary);
    printf("'\n");
}

static void complete_zsh(void) {
    printf("#compdef tenmap\n"
           "# zsh completion for tenmap, made by 'tenmap completion zsh'.\n\n"
           "_tenmap_names() {\n"
           "    local -a names\n"
           "    local model=${(Q)${words[(r)*(/|.safetensors|.json)]}}\n"
           "    [[ -e $model ]] || model=${(Q)words[2]}\n"
           "    [[ -e $model ]] || return 1\n"
           "    names=(${${(f)\"$(tenmap ls --tsv $model 2>/dev/null)\"}[2,-1]%%%%$'\\t'*})\n"
           "    compadd -a names\n"
           "}\n\n"
           "_tenmap() {\n"
           "    local -a commands\n"
           "    commands=(\n");
    for_commands(zsh_summary);
    printf("        'help:Show the help of a command'\n"
           "    )\n"
           "    if ((CURRENT == 2)); then\n"
           "        _describe command commands\n"
           "        return\n"
           "    fi\n"
           "    shift words\n"
           "    ((CURRENT--))\n"
           "    case $words[1] in\n"
           "    help) _describe command commands ;;\n");
    for_commands(zsh_command);
    printf("    esac\n"
           "}\n\n"
           "if [[ $funcstack[1] == _tenmap ]]; then\n"
           "    _tenmap \"$@\"\n"
           "else\n"
           "    compdef _tenmap tenmap\n"
           "fi\n");
}

/* fish */

static void fish_quoted(const char *s) {
    putchar('\'');
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            putchar('\\');
        putchar(*s);
    }
    putchar('\'');
}

static void fish_option(const command *c, const option *o) {
    printf("complete -c tenmap -n '__tenmap_using %s'", c->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    printf(" -l %s", o->name);
    if (o->value && takes_file(o)) {
        printf(" -r -F");
    } else if (has_values(o)) {
        printf(" -x -a '");
        put_values(o);
        printf("'");
    } else if (o->value) {
        printf(" -x");
    }
    printf(" -d ");
    fish_quoted(o->help);
    printf("\n");
}

static void fish_words(const command *c, int operands, const char *words) {
    printf("complete -c tenmap -f -n '__tenmap_using %s; and __tenmap_operands %d' -a '", c->name,
           operands);
    put_words(words);
    printf("'\n");
}

static void fish_command(const command *c) {
    printf("complete -c tenmap -f -n __tenmap_first -a %s -d ", c->name);
    fish_quoted(c->summary);
    printf("\n");
    for_options(c, fish_option);
    if (c->first_words)
        fish_words(c, 0, c->first_words);
    if (c->second_words)
        fish_words(c, 1, c->second_words);
    if (later_operands(c) == OPERAND_NAMES)
        printf("complete -c tenmap -f -n '__tenmap_using %s; and not __tenmap_operands 0' "
               "-a '(__tenmap_names)'\n",
               c->name);
}

static void complete_fish(void) {
    printf("# fish completion for tenmap, made by 'tenmap completion fish'.\n\n"
           "function __tenmap_first\n"
           "    test (count (commandline -opc)) -eq 1\n"
           "end\n\n"
           "function __tenmap_using\n"
           "    set -l words (commandline -opc)\n"
           "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
           "end\n\n"
           "# Operands before the cursor; the value of an option may be counted as one.\n"
           "function __tenmap_operands\n"
           "    set -l words (commandline -opc)\n"
           "    test (count (string match -v -- '-*' $words[3..-1])) -eq $argv[1]\n"
           "end\n\n"
           "function __tenmap_names\n"
           "    for word in (commandline -opc)[3..-1]\n"
           "        if test -e $word\n"
           "            tenmap ls --tsv $word 2>/dev/null | tail -n +2 | cut -f 1\n"
           "            return\n"
           "        end\n"
           "    end\n"
           "end\n\n"
           "complete -c tenmap -f -n __tenmap_first -a help -d 'Show the help of a command'\n");
    for_commands(fish_command);
}

static const struct shell {
    const char *name;
    void (*print)(void);
} shells[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};

static int completion_run(const invocation *call) {
    const char *shell = call->operands[0];
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print();
            return EXIT_FINE;
        }
    }
    return fail(EXIT_USAGE, "'%s': completion is there for bash, zsh and fish", shell);
}

static const option no_options[] = {{0, NULL, NULL, OPTION_SWITCH, 0, NULL}};

static const example completion_examples[] = {
    {"eval \"$(tenmap completion bash)\"", "for this shell, and the same line in ~/.bashrc"},
    {"tenmap completion zsh >~/.zfunc/_tenmap", "a folder that $fpath names before compinit"},
    {"tenmap completion fish >~/.config/fish/completions/tenmap.fish", "for every fish"},
    {NULL, NULL},
};

const command cmd_completion = {
    .name = "completion",
    .summary = "Print the completion script of a shell",
    .operands = "bash|zsh|fish",
    .min_operands = 1,
    .max_operands = 1,
    .options = no_options,
    .details = "An installed tenmap brings these scripts along; this is for other places.",
    .examples = completion_examples,
    .settings_size = 1,
    .run = completion_run,
    .first_words = "bash|zsh|fish",
};
