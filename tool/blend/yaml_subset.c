/* Reads a subset of YAML by recursive descent, with bounds on size, depth and count. */
#include "blend/yaml_subset.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

typedef struct yaml_reader {
    const char *at, *end;
    const char *line_begin;
    size_t line, depth, nodes;
    bool started; /* behind the line "---", if there is one */
    text *why;
} yaml_reader;

static bool refuse_at(yaml_reader *r, size_t line, const char *message) {
    if (!r->why->len)
        text_addf(r->why, "line %zu: %s", line, message);
    return false;
}

static bool refuse(yaml_reader *r, const char *message) {
    return refuse_at(r, r->line, message);
}

/* The byte `ahead` bytes on; 0 at the end. The text has no NUL (check_text). */
static char peek(const yaml_reader *r, size_t ahead) {
    return (size_t)(r->end - r->at) > ahead ? r->at[ahead] : '\0';
}

static bool is_break(char c) {
    return c == '\n' || c == '\r' || c == '\0';
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* What ends a key or begins an item: a blank or the end of the line behind : and -. */
static bool ends_token(char c) {
    return is_blank(c) || is_break(c);
}

static size_t indentation(const yaml_reader *r) {
    return (size_t)(r->at - r->line_begin);
}

static void skip_blanks(yaml_reader *r) {
    while (is_blank(peek(r, 0)))
        r->at++;
}

/* Skips a comment, whose # is at the start of the line or behind a blank. */
static void skip_comment(yaml_reader *r) {
    if (peek(r, 0) == '#' && (r->at == r->line_begin || is_blank(r->at[-1])))
        while (!is_break(peek(r, 0)))
            r->at++;
}

/* At the end of a line: goes to the start of the next. */
static bool take_break(yaml_reader *r) {
    if (peek(r, 0) == '\r')
        r->at++;
    if (peek(r, 0) != '\n')
        return false;
    r->at++;
    r->line++;
    r->line_begin = r->at;
    return true;
}

/* Skips blanks, comments and line ends up to the next token. Returns false at the end. */
static bool skip_to_token(yaml_reader *r) {
    do {
        skip_blanks(r);
        skip_comment(r);
    } while (take_break(r));
    return r->at < r->end;
}

/* At "---" or "...", which begin and end documents. */
static bool at_document(const yaml_reader *r) {
    return indentation(r) == 0 && r->end - r->at >= 3 && ends_token(peek(r, 3)) &&
           (memcmp(r->at, "---", 3) == 0 || memcmp(r->at, "...", 3) == 0);
}

/* As skip_to_token, where the column counts: no tabs may lie before the token. */
static bool skip_to_line(yaml_reader *r, bool *found) {
    *found = skip_to_token(r);
    if (*found && r->started && at_document(r))
        return refuse(r, "only one document is read");
    if (*found && memchr(r->line_begin, '\t', indentation(r)))
        return refuse(r, "a tab before the text: indent with spaces");
    return true;
}

/* Nodes. */

static yaml_node *new_node(yaml_reader *r, yaml_kind kind) {
    if (r->nodes == YAML_MAX_NODES) {
        refuse(r, "more than 65,536 values");
        return NULL;
    }
    r->nodes++;
    yaml_node *node = need(1, sizeof *node);
    node->kind = kind;
    node->line = r->line;
    return node;
}

/* The depth is bounded by YAML_MAX_DEPTH. */
void yaml_free(yaml_node *node) {
    while (node) {
        yaml_node *next = node->next;
        yaml_free(node->first);
        free(node->text);
        free(node->key);
        free(node);
        node = next;
    }
}

static void add_child(yaml_node *parent, yaml_node *child) {
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

const yaml_node *yaml_find(const yaml_node *map, const char *key) {
    const yaml_node *n = map && map->kind == YAML_MAP ? map->first : NULL;
    while (n && strcmp(n->key, key) != 0)
        n = n->next;
    return n;
}

/* Texts in quotes. */

static bool add_point(yaml_reader *r, text *out, uint32_t point) {
    char bytes[4];
    size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (!point || (point >= 0xd800 && point < 0xe000))
        return refuse(r, "\\u must be a character, and not \\u0000");
    for (size_t i = len; i-- > 1; point >>= 6)
        bytes[i] = (char)(0x80 | (point & 0x3f));
    bytes[0] = (char)(leads[len] | point);
    text_add(out, bytes, len);
    return true;
}

static bool take_hex(yaml_reader *r, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = peek(r, 0) ? strchr(digits, peek(r, 0)) : NULL;
        if (!digit)
            return refuse(r, "\\u takes four hexadecimal digits");
        *out = *out << 4 | (uint32_t)((digit - digits) % 16);
    }
    return true;
}

/* Decodes what follows "\u": one code unit, or a surrogate pair. */
static bool take_unicode(yaml_reader *r, text *out) {
    uint32_t point, low;
    if (!take_hex(r, &point))
        return false;
    if (point >= 0xd800 && point < 0xdc00 && peek(r, 0) == '\\' && peek(r, 1) == 'u') {
        r->at += 2;
        if (!take_hex(r, &low))
            return false;
        point = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00)
                                              : 0xd800;
    }
    return add_point(r, out, point);
}

static bool take_escape(yaml_reader *r, text *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = peek(r, 0);
    const char *known = c ? strchr(from, c) : NULL;
    r->at += c != '\0';
    if (c == 'u')
        return take_unicode(r, out);
    if (!known)
        return refuse(r, "a backslash must be written \\\\, or begin one of \\\" \\n \\t \\u");
    text_add(out, &to[known - from], 1);
    return true;
}

static bool take_quoted(yaml_reader *r, text *out) {
    char quote = *r->at++;
    text_clear(out);
    text_add(out, "", 0);
    for (;;) {
        char c = peek(r, 0);
        if (is_break(c))
            return refuse(r, "a quote is missing at the end of the line (a text over several lines "
                             "is not read)");
        r->at++;
        if (c == quote && quote == '\'' && peek(r, 0) == '\'')
            text_add(out, r->at++, 1);
        else if (c == quote)
            return true;
        else if (c == '\\' && quote == '"') {
            if (!take_escape(r, out))
                return false;
        } else
            text_add(out, &c, 1);
    }
}

/* Texts without quotes. */

/* What the first byte of a text without quotes would mean in YAML and is not read here. */
static const char *refused_start(const yaml_reader *r) {
    switch (peek(r, 0)) {
    case '&':
    case '*':
        return "anchors and aliases (& and *) are not read: write the value out, or quote it";
    case '!':
        return "tags (!) are not read: leave the tag out, or quote the text";
    case '|':
    case '>':
        return "texts over several lines (| and >) are not read";
    case '%':
    case '@':
    case '`':
    case ',':
    case ']':
    case '}':
        return "a text that begins with % @ ` , ] or } must be in quotes";
    case '?':
        return ends_token(peek(r, 1)) ? "keys that begin with ? are not read" : NULL;
    default:
        return NULL;
    }
}

/* Whether the text ends before the byte at r->at. */
static bool ends_plain(const yaml_reader *r, bool flow) {
    char c = peek(r, 0);
    if (is_break(c) || (c == '#' && is_blank(r->at[-1])))
        return true;
    if (flow && strchr(",[]{}", c))
        return true;
    return c == ':' && (ends_token(peek(r, 1)) || (flow && strchr(",[]{}", peek(r, 1))));
}

static bool take_plain(yaml_reader *r, bool flow, text *out) {
    const char *refused = refused_start(r), *begin = r->at;
    if (refused)
        return refuse(r, refused);
    text_clear(out);
    while (!ends_plain(r, flow))
        r->at++;
    const char *end = r->at;
    while (end > begin && is_blank(end[-1]))
        end--;
    if (end == begin)
        return refuse(r, "a value is missing here");
    text_add(out, begin, (size_t)(end - begin));
    return true;
}

static bool is_quote(char c) {
    return c == '"' || c == '\'';
}

static bool take_scalar(yaml_reader *r, bool flow, text *out) {
    return is_quote(peek(r, 0)) ? take_quoted(r, out) : take_plain(r, flow, out);
}

static yaml_node *scalar_node(yaml_reader *r, bool flow) {
    static const char *const nothing[] = {"~", "null", "Null", "NULL"};
    text value = {0};
    bool quoted = is_quote(peek(r, 0));
    yaml_node *node = take_scalar(r, flow, &value) ? new_node(r, YAML_TEXT) : NULL;
    if (node) {
        node->quoted = quoted;
        node->text = need_copy(value.bytes, value.len);
        for (size_t i = 0; !quoted && i < sizeof nothing / sizeof nothing[0]; i++)
            if (strcmp(node->text, nothing[i]) == 0)
                node->kind = YAML_NULL;
    }
    text_free(&value);
    return node;
}

/* Takes the key at r->at with its colon. */
static bool take_key(yaml_reader *r, const yaml_node *map, bool flow, text *key, size_t *line) {
    bool quoted = is_quote(peek(r, 0));
    *line = r->line;
    if (!take_scalar(r, flow, key))
        return false;
    skip_blanks(r);
    if (peek(r, 0) != ':' || (!quoted && !flow && !ends_token(peek(r, 1))))
        return refuse(r, "a colon and a blank are missing after the key");
    r->at++;
    if (!quoted && strcmp(key->bytes, "<<") == 0)
        return refuse(r, "merged maps (<<) are not read: write the keys out");
    if (yaml_find(map, key->bytes))
        return refuse(r, "this key appears twice");
    if (map->count == YAML_MAX_KEYS)
        return refuse(r, "more than 256 keys in one map");
    return true;
}

static void add_pair(yaml_node *map, const text *key, size_t line, yaml_node *value) {
    value->key = need_copy(key->bytes, key->len);
    value->key_line = line;
    add_child(map, value);
}

/* Maps and lists in brackets. */

static yaml_node *take_flow(yaml_reader *r);

static yaml_node *flow_value(yaml_reader *r) {
    char c = peek(r, 0);
    if (c == '[' || c == '{')
        return take_flow(r);
    if (c && strchr(",]}", c))
        return new_node(r, YAML_NULL);
    return scalar_node(r, true);
}

static bool flow_item(yaml_reader *r, yaml_node *node) {
    text key = {0};
    size_t line = 0;
    bool map = node->kind == YAML_MAP;
    bool good = !map || take_key(r, node, true, &key, &line);
    yaml_node *value = NULL;
    if (good && skip_to_token(r))
        value = flow_value(r);
    else if (good)
        refuse(r, "a bracket is not closed");
    if (value && map)
        add_pair(node, &key, line, value);
    else if (value)
        add_child(node, value);
    text_free(&key);
    return value != NULL;
}

static bool flow_items(yaml_reader *r, yaml_node *node) {
    char close = node->kind == YAML_MAP ? '}' : ']';
    for (;;) {
        if (!skip_to_token(r))
            return refuse_at(r, node->line, "a bracket is not closed");
        if (peek(r, 0) == close)
            break;
        if (peek(r, 0) == ',')
            return refuse(r, "a value is missing before the comma");
        if (!flow_item(r, node))
            return false;
        if (!skip_to_token(r))
            return refuse_at(r, node->line, "a bracket is not closed");
        if (peek(r, 0) == ',')
            r->at++;
        else if (peek(r, 0) != close)
            return refuse(r, close == '}' ? "a comma or } is missing here"
                                          : "a comma or ] is missing here");
    }
    r->at++;
    return true;
}

static bool go_deeper(yaml_reader *r) {
    if (r->depth == YAML_MAX_DEPTH)
        return refuse(r, "more than 32 levels of maps and lists");
    r->depth++;
    return true;
}

static yaml_node *take_flow(yaml_reader *r) {
    if (!go_deeper(r))
        return NULL;
    yaml_node *node = new_node(r, *r->at == '{' ? YAML_MAP : YAML_LIST);
    r->at++;
    if (node && !flow_items(r, node)) {
        yaml_free(node);
        node = NULL;
    }
    r->depth--;
    return node;
}

/* Maps and lists by indentation. */

static yaml_node *take_block(yaml_reader *r);

static bool at_item(const yaml_reader *r) {
    return peek(r, 0) == '-' && ends_token(peek(r, 1));
}

/* Whether a key begins here: a text and a colon on the same line. Does not move. */
static bool at_key(const yaml_reader *r) {
    yaml_reader ahead = *r;
    text ignored = {0}, why = {0};
    ahead.why = &why;
    bool bracket = peek(r, 0) == '[' || peek(r, 0) == '{';
    bool good = !bracket && take_scalar(&ahead, false, &ignored);
    bool quoted = is_quote(peek(r, 0));
    skip_blanks(&ahead);
    good = good && peek(&ahead, 0) == ':' && (quoted || ends_token(peek(&ahead, 1)));
    text_free(&ignored);
    text_free(&why);
    return good;
}

/* After a value on its line, only a comment may follow. */
static bool end_line(yaml_reader *r) {
    skip_blanks(r);
    skip_comment(r);
    char c = peek(r, 0);
    if (c == ':')
        return refuse(r, "a second colon on the line: put the text in quotes");
    if (r->at < r->end && !take_break(r))
        return refuse(r, "there is more text after the value");
    return true;
}

/* A value that ends on the line that it begins on, or a bracket. */
static yaml_node *inline_value(yaml_reader *r) {
    char c = peek(r, 0);
    if (at_item(r)) {
        refuse(r, "a list begins on a line of its own");
        return NULL;
    }
    yaml_node *node = c == '[' || c == '{' ? take_flow(r) : scalar_node(r, false);
    if (node && !end_line(r)) {
        yaml_free(node);
        node = NULL;
    }
    return node;
}

/* The value after "key:", whose key has the column `indent`. */
static yaml_node *value_of_key(yaml_reader *r, size_t indent) {
    size_t line = r->line;
    bool found;
    skip_blanks(r);
    skip_comment(r);
    if (!is_break(peek(r, 0)))
        return inline_value(r);
    if (!skip_to_line(r, &found))
        return NULL;
    if (found && (indentation(r) > indent || (indentation(r) == indent && at_item(r))))
        return take_block(r);
    yaml_node *node = new_node(r, YAML_NULL);
    if (node)
        node->line = line;
    return node;
}

/* The value after "-", which has the column `indent`. It may begin on the same line. */
static yaml_node *value_of_item(yaml_reader *r, size_t indent) {
    size_t line = r->line;
    bool found;
    skip_blanks(r);
    skip_comment(r);
    if (!is_break(peek(r, 0)))
        return memchr(r->line_begin, '\t', indentation(r))
                   ? (refuse(r, "a tab before the text: indent with spaces"), NULL)
                   : take_block(r);
    if (!skip_to_line(r, &found))
        return NULL;
    if (found && indentation(r) > indent)
        return take_block(r);
    yaml_node *node = new_node(r, YAML_NULL);
    if (node)
        node->line = line;
    return node;
}

static bool block_pair(yaml_reader *r, yaml_node *map, size_t indent) {
    text key = {0};
    size_t line;
    yaml_node *value = NULL;
    if (take_key(r, map, false, &key, &line))
        value = value_of_key(r, indent);
    if (value)
        add_pair(map, &key, line, value);
    text_free(&key);
    return value != NULL;
}

/* All items or pairs that begin in the column `indent`. */
static bool block_members(yaml_reader *r, yaml_node *node, size_t indent) {
    bool found = true;
    while (found && indentation(r) == indent) {
        bool list = node->kind == YAML_LIST;
        yaml_node *value = NULL;
        if (list && at_item(r)) {
            r->at++;
            value = value_of_item(r, indent);
            if (value)
                add_child(node, value);
        } else if (list) {
            break; /* a key of the map around a list that is not indented */
        } else if (at_item(r)) {
            return refuse(r, "an item of a list between the keys of a map");
        } else {
            value = block_pair(r, node, indent) ? node : NULL;
        }
        if (!value || !skip_to_line(r, &found))
            return false;
    }
    if (found && indentation(r) > indent)
        return refuse(r, "this line is indented more than the one above, and belongs to nothing (a "
                         "text over several lines is not read)");
    return true;
}

/* A map, a list or a value that begins at r->at; its column is its indentation. */
static yaml_node *take_block(yaml_reader *r) {
    bool list = at_item(r), map = !list && at_key(r);
    if (!list && !map)
        return inline_value(r);
    if (!go_deeper(r))
        return NULL;
    yaml_node *node = new_node(r, list ? YAML_LIST : YAML_MAP);
    if (node && !block_members(r, node, indentation(r))) {
        yaml_free(node);
        node = NULL;
    }
    r->depth--;
    return node;
}

/* The whole text. */

/* Refuses what is not UTF-8, and control characters. */
static bool check_text(yaml_reader *r) {
    size_t line = 1;
    for (const char *at = r->at; at < r->end;) {
        uint32_t point;
        size_t n = decode_point((const unsigned char *)at, (size_t)(r->end - at), &point);
        if (!n)
            return refuse_at(r, line, "this is not UTF-8");
        if ((point < 0x20 && !strchr("\t\n\r", (int)point)) || point == 0 || point == 0x7f)
            return refuse_at(r, line, "a control character");
        if (point == '\r' && (at + 1 == r->end || at[1] != '\n'))
            return refuse_at(r, line, "a carriage return that does not end a line");
        line += point == '\n';
        at += n;
    }
    return true;
}

/* Takes the line "---" if there is one. */
static bool take_start(yaml_reader *r, bool *found) {
    if (!skip_to_line(r, found))
        return false;
    if (*found && peek(r, 0) == '%')
        return refuse(r, "directives (%) are not read");
    r->started = true;
    if (!*found || !at_document(r) || peek(r, 0) != '-')
        return true;
    r->at += 3;
    return end_line(r) && skip_to_line(r, found);
}

bool yaml_read(const char *bytes, size_t len, yaml_node **out, text *why) {
    yaml_reader r = {.at = bytes, .end = bytes + len, .line_begin = bytes, .line = 1, .why = why};
    bool found = false;
    *out = NULL;
    if (len > YAML_MAX_BYTES)
        return refuse(&r, "the text is larger than 1 MiB");
    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        r.line_begin = r.at += 3;
    if (!check_text(&r) || !take_start(&r, &found))
        return false;
    if (!found)
        return refuse(&r, "there is nothing here");
    yaml_node *root = take_block(&r);
    bool good = root && skip_to_line(&r, &found);
    if (good && found)
        good = refuse(&r, "this line belongs to nothing: look at its indentation");
    if (good)
        *out = root;
    else
        yaml_free(root);
    return good;
}

/* Values. */

bool yaml_number(const yaml_node *node, double *out) {
    const char *t = node->kind == YAML_TEXT && !node->quoted ? node->text : "";
    const char *digits = t + (*t == '-' || *t == '+');
    char *end;
    if (!*digits || strspn(digits, "0123456789.eE+-") != strlen(digits) ||
        !strpbrk(t, "0123456789"))
        return false;
    *out = strtod(t, &end);
    return *end == '\0' && isfinite(*out);
}

bool yaml_whole(const yaml_node *node, size_t *out) {
    const char *t = node->kind == YAML_TEXT && !node->quoted ? node->text : "";
    size_t len = strlen(t);
    if (!len || len > 9 || strspn(t, "0123456789") != len)
        return false;
    *out = (size_t)strtoul(t, NULL, 10);
    return true;
}

bool yaml_bool(const yaml_node *node, bool *out) {
    static const char *const words[] = {"true", "True", "TRUE", "yes",   "Yes",   "YES",
                                        "on",   "On",   "ON",   "false", "False", "FALSE",
                                        "no",   "No",   "NO",   "off",   "Off",   "OFF"};
    for (size_t i = 0; node->kind == YAML_TEXT && !node->quoted && i < 18; i++)
        if (strcmp(node->text, words[i]) == 0) {
            *out = i < 9;
            return true;
        }
    return false;
}
