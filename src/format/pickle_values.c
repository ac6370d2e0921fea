/* What the values of a pickle are: strings and numbers, and what lists, dicts and objects hold. */
#include "pickle.h"

#include <string.h>

/*
 * A string of protocol 0 ends with its line, and every use looks for the end of the line. So only
 * strings up to this length count as strings. No name is longer.
 */
enum { LONGEST_LINE = 4096 };

static uint64_t operand_number(const unsigned char *at, unsigned width) {
    uint64_t number = 0;
    for (unsigned i = width; i-- > 0;)
        number = number << 8 | at[i];
    return number;
}

/* The line after the opcode at `at`; false if it is too long. */
static bool line_of(const tmi_pickle *p, size_t at, tmi_atom *atom) {
    size_t left = p->len - at - 1;
    const char *line = (const char *)p->bytes + at + 1;
    const char *end = memchr(line, '\n', left < LONGEST_LINE ? left : LONGEST_LINE);
    if (!end)
        return false;
    atom->text = line;
    atom->len = (size_t)(end - line);
    return true;
}

/*
 * Reads a whole number in decimal, as protocol 0 has it; false if it needs more than 64 bits, or
 * begins with a zero, as octal and hexadecimal numbers do for Python.
 */
static bool decimal_of(const tmi_atom *line, int64_t *out) {
    enum { MOST_DIGITS = 19 }; /* which fit into 64 bits without the sign */
    size_t i = line->len && line->text[0] == '-', len = line->len;
    uint64_t value = 0;
    if (len > i && line->text[len - 1] == 'L')
        len--;
    if (len == i || len - i > MOST_DIGITS || (line->text[i] == '0' && len - i > 1))
        return false;
    bool negative = i;
    for (; i < len; i++) {
        if (line->text[i] < '0' || line->text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(line->text[i] - '0');
    }
    *out = (int64_t)(negative ? 0 - value : value);
    return value <= (uint64_t)INT64_MAX + negative;
}

static void read_int_line(const tmi_pickle *p, size_t at, tmi_atom *atom) {
    tmi_atom line = {.kind = TMI_ATOM_BIG};
    atom->kind = TMI_ATOM_BIG;
    if (!line_of(p, at, &line))
        return;
    bool is_false = line.len == 2 && memcmp(line.text, "00", 2) == 0;
    bool is_true = line.len == 2 && memcmp(line.text, "01", 2) == 0;
    if (atom->opcode == 'I' && (is_false || is_true)) {
        atom->kind = TMI_ATOM_BOOL;
        atom->number = is_true;
    } else if (decimal_of(&line, &atom->number)) {
        atom->kind = TMI_ATOM_INT;
    }
}

/* LONG1 and LONG4: a signed number of any length. */
static void read_long(const unsigned char *bytes, uint64_t len, tmi_atom *atom) {
    atom->kind = len > 8 ? TMI_ATOM_BIG : TMI_ATOM_INT;
    if (len == 0 || len > 8)
        return;
    uint64_t number = operand_number(bytes, (unsigned)len);
    if (len < 8 && bytes[len - 1] & 0x80)
        number |= UINT64_MAX << (8 * len);
    atom->number = (int64_t)number;
}

static void read_text_line(const tmi_pickle *p, size_t at, tmi_atom *atom) {
    atom->kind = TMI_ATOM_BIG;
    if (!line_of(p, at, atom))
        return;
    if (atom->opcode == 'S') { /* in quotes */
        char quote = atom->len ? atom->text[0] : 0;
        if (atom->len < 2 || (quote != '\'' && quote != '"') || atom->text[atom->len - 1] != quote)
            return;
        atom->text++;
        atom->len -= 2;
    }
    atom->kind = TMI_ATOM_TEXT;
    atom->escaped = true;
}

static void read_counted(const unsigned char *operand, unsigned width, unsigned kind,
                         tmi_atom *atom) {
    atom->kind = kind;
    atom->len = (size_t)operand_number(operand, width);
    atom->text = (const char *)operand + width;
}

static double big_endian_double(const unsigned char *at) {
    uint64_t bits = 0;
    double real;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | at[i];
    memcpy(&real, &bits, sizeof real);
    return real;
}

/* The machine has checked that the operand is inside the pickle. */
tmi_atom tmi_atom_of(const tmi_pickle *p, tmi_ref ref) {
    size_t at = ref >> 1;
    const unsigned char *operand = p->bytes + at + 1;
    tmi_atom atom = {.kind = TMI_ATOM_NONE, .opcode = p->bytes[at]};
    switch (atom.opcode) {
    case ')':
        atom.kind = TMI_ATOM_TUPLE;
        break;
    case 0x88:
    case 0x89:
        atom.kind = TMI_ATOM_BOOL;
        atom.number = atom.opcode == 0x88;
        break;
    case 'K':
    case 'M':
        atom.kind = TMI_ATOM_INT;
        atom.number = (int64_t)operand_number(operand, atom.opcode == 'K' ? 1 : 2);
        break;
    case 'J':
        read_long(operand, 4, &atom);
        break;
    case 0x8a:
        read_long(operand + 1, operand[0], &atom);
        break;
    case 0x8b:
        read_long(operand + 4, operand_number(operand, 4), &atom);
        break;
    case 'I':
    case 'L':
        read_int_line(p, at, &atom);
        break;
    case 'F':
        atom.kind = TMI_ATOM_BIG;
        break;
    case 'G':
        atom.kind = TMI_ATOM_FLOAT;
        atom.real = big_endian_double(operand);
        break;
    case 'S':
    case 'V':
        read_text_line(p, at, &atom);
        break;
    case 'U':
    case 0x8c:
        read_counted(operand, 1, TMI_ATOM_TEXT, &atom);
        break;
    case 'T':
    case 'X':
        read_counted(operand, 4, TMI_ATOM_TEXT, &atom);
        break;
    case 0x8d:
        read_counted(operand, 8, TMI_ATOM_TEXT, &atom);
        break;
    case 'C':
        read_counted(operand, 1, TMI_ATOM_BYTES, &atom);
        break;
    case 'B':
        read_counted(operand, 4, TMI_ATOM_BYTES, &atom);
        break;
    case 0x8e:
    case 0x96:
        read_counted(operand, 8, TMI_ATOM_BYTES, &atom);
        break;
    default: /* None */
        break;
    }
    return atom;
}

/* Strings with escapes. */

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Reads `digits` hexadecimal digits; false if they are not there. */
static bool hex_number(const char *at, size_t left, unsigned digits, uint32_t *out) {
    *out = 0;
    if (left < digits)
        return false;
    for (unsigned i = 0; i < digits; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static size_t utf8_of(uint32_t c, char out[4]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[size] | c);
    return size;
}

/* Reads up to three octal digits; returns how many there are. Python keeps the low 8 bits. */
static size_t octal_number(const char *at, size_t left, uint32_t *out) {
    enum { MOST_OCTAL = 3 };
    size_t digits = 0;
    *out = 0;
    for (; digits < left && digits < MOST_OCTAL && at[digits] >= '0' && at[digits] <= '7'; digits++)
        *out = *out << 3 | (uint32_t)(at[digits] - '0');
    *out &= 0xff;
    return digits;
}

/* One byte of a quoted string; returns how many bytes it takes there, 0 if it is not valid. */
static size_t take_quoted(const char *text, size_t left, uint32_t *c) {
    static const char letters[] = "\\'\"ntrbfva", meanings[] = "\\'\"\n\t\r\b\f\v\a";
    *c = (unsigned char)*text;
    if (*text != '\\')
        return 1;
    if (left < 2)
        return 0;
    if (text[1] == 'x')
        return hex_number(text + 2, left - 2, 2, c) ? 4 : 0;
    size_t digits = octal_number(text + 1, left - 1, c);
    if (digits)
        return 1 + digits;
    const char *letter = text[1] ? strchr(letters, text[1]) : NULL;
    *c = letter ? (unsigned char)meanings[letter - letters] : '\\';
    return letter ? 2 : 1;
}

/*
 * One character of a line of Unicode; returns how many bytes it takes there, 0 if it is not valid.
 * *plain: this character follows a backslash that begins no escape, and begins none either.
 */
static size_t take_unicode(const char *text, size_t left, bool *plain, uint32_t *c) {
    bool escape = *text == '\\' && !*plain && left >= 2;
    *plain = false;
    *c = (unsigned char)*text;
    if (!escape)
        return 1;
    if (text[1] == 'u')
        return hex_number(text + 2, left - 2, 4, c) ? 6 : 0;
    if (text[1] == 'U')
        return hex_number(text + 2, left - 2, 8, c) && *c < 0x110000 ? 10 : 0;
    *plain = true;
    return 1;
}

/* As tmi_atom_text, of a line: Unicode, or bytes in quotes, which must be UTF-8. */
static size_t line_text(const tmi_atom *atom, char *out, size_t room) {
    size_t used = 0;
    bool quoted = atom->opcode == 'S', plain = false;
    for (size_t at = 0; at < atom->len;) {
        uint32_t c;
        char piece[4];
        const char *text = atom->text + at;
        size_t left = atom->len - at;
        size_t taken = quoted ? take_quoted(text, left, &c) : take_unicode(text, left, &plain, &c);
        bool surrogate = c >= 0xd800 && c < 0xe000;
        if (taken == 0 || surrogate)
            return SIZE_MAX;
        size_t size = quoted ? 1 : utf8_of(c, piece);
        if (quoted)
            piece[0] = (char)c;
        if (size > room - used)
            return used;
        memcpy(out + used, piece, size);
        used += size;
        at += taken;
    }
    return tmi_utf8_valid(out, used) == used ? used : SIZE_MAX;
}

size_t tmi_atom_text(const tmi_atom *atom, char *out, size_t room) {
    if (atom->escaped)
        return line_text(atom, out, room);
    size_t len = atom->len < room ? atom->len : room;
    if (len)
        memcpy(out, atom->text, len);
    return tmi_utf8_valid(out, len) == len || len < atom->len ? len : SIZE_MAX;
}

bool tmi_is_text(const tmi_pickle *p, tmi_ref ref, const char *text) {
    enum { LONGEST_COMPARED = 64 };
    char decoded[LONGEST_COMPARED];
    size_t len = strlen(text);
    if (ref == TMI_NO_REF || tmi_is_node(ref))
        return false;
    tmi_atom atom = tmi_atom_of(p, ref);
    if (atom.kind != TMI_ATOM_TEXT)
        return false;
    if (!atom.escaped)
        return atom.len == len && memcmp(atom.text, text, len) == 0;
    return len < sizeof decoded && tmi_atom_text(&atom, decoded, sizeof decoded) == len &&
           memcmp(decoded, text, len) == 0;
}

bool tmi_is_count(const tmi_pickle *p, tmi_ref ref, uint64_t *out) {
    if (ref == TMI_NO_REF || tmi_is_node(ref))
        return false;
    tmi_atom atom = tmi_atom_of(p, ref);
    *out = (uint64_t)atom.number;
    return atom.kind == TMI_ATOM_INT && atom.number >= 0;
}

/* Nodes. */

uint32_t tmi_tuple_count(const tmi_pickle *p, tmi_ref ref) {
    return tmi_is_kind(p, ref, TMI_PICKLE_TUPLE) ? tmi_node(p, ref)[TMI_WORD_COUNT] : 0;
}

tmi_ref tmi_tuple_item(const tmi_pickle *p, tmi_ref ref, uint32_t i) {
    return tmi_node(p, ref)[TMI_TUPLE_WORDS + i];
}

void tmi_global_text(const tmi_pickle *p, tmi_ref global, tmi_atom *module, tmi_atom *name) {
    const uint32_t *node = tmi_node(p, global);
    static const char extension[] = "extension";
    *module = *name = (tmi_atom){.kind = TMI_ATOM_TEXT, .text = "?", .len = 1};
    if (node[TMI_WORD_MODULE] != TMI_NO_REF) {
        *module = tmi_atom_of(p, node[TMI_WORD_MODULE]);
        *name = tmi_atom_of(p, node[TMI_WORD_NAME]);
    } else if (p->bytes[node[TMI_WORD_AT]] == 'c' || p->bytes[node[TMI_WORD_AT]] == 'i') {
        if (line_of(p, node[TMI_WORD_AT], module))
            (void)line_of(p, node[TMI_WORD_AT] + module->len + 1, name);
    } else {
        *module = (tmi_atom){.kind = TMI_ATOM_TEXT, .text = extension, .len = strlen(extension)};
    }
    if (module->kind != TMI_ATOM_TEXT)
        *module = (tmi_atom){.kind = TMI_ATOM_TEXT, .text = "?", .len = 1};
    if (name->kind != TMI_ATOM_TEXT)
        *name = (tmi_atom){.kind = TMI_ATOM_TEXT, .text = "?", .len = 1};
}

/* copyreg._reconstructor(class, base, state) makes an instance of its first argument. */
const tmi_pickle_global *tmi_object_global(const tmi_pickle *p, tmi_ref object) {
    const uint32_t *node = tmi_node(p, object);
    const tmi_pickle_global *global = tmi_pickle_global_of(p, node[TMI_WORD_CALLABLE]);
    if (strcmp(global->name, "_reconstructor") == 0 && tmi_tuple_count(p, node[TMI_WORD_ARGS]) > 0)
        return tmi_pickle_global_of(p, tmi_tuple_item(p, node[TMI_WORD_ARGS], 0));
    return global;
}

/* What a value holds. */

/* A source lists its items. The steps of an object are: its arguments, its own items, its state. */
enum { STEP_ARGUMENTS, STEP_ITEMS, STEP_STATE, STEP_END };

tmi_pickle_cursor tmi_pickle_cursor_at(const tmi_pickle *p, tmi_ref ref, unsigned mode) {
    tmi_pickle_cursor c = {.of = ref, .mode = (uint8_t)mode, .step = STEP_ITEMS};
    if (tmi_is_kind(p, ref, TMI_PICKLE_OBJECT))
        c.step = STEP_ARGUMENTS;
    else if (tmi_is_kind(p, ref, TMI_PICKLE_GLOBAL) || tmi_is_kind(p, ref, TMI_PICKLE_PERSISTENT))
        c.step = STEP_END;
    else if (!tmi_is_kind(p, ref, TMI_PICKLE_TUPLE))
        c.segment = tmi_node(p, ref)[TMI_WORD_FIRST];
    return c;
}

/*
 * The argument that has the items of a dict or a sequence; -1: none has, and callers look at all
 * arguments. copyreg._reconstructor(class, base, state) has the items in the state.
 */
static int argument_of_items(const tmi_pickle *p, tmi_ref object) {
    enum { RECONSTRUCTED_STATE = 2 };
    unsigned which = tmi_object_global(p, object)->which;
    if (which != TMI_GLOBAL_DICT && which != TMI_GLOBAL_DEFAULTDICT && which != TMI_GLOBAL_SEQUENCE)
        return -1;
    if (tmi_object_global(p, object) !=
        tmi_pickle_global_of(p, tmi_node(p, object)[TMI_WORD_CALLABLE]))
        return RECONSTRUCTED_STATE;
    return which == TMI_GLOBAL_DEFAULTDICT;
}

/*
 * What an object's constructor got. For a dict: its items, as a dict or as a list of pairs. For a
 * sequence: its items. For anything else: all arguments, so that no tensor in them is lost.
 */
static bool take_arguments(const tmi_pickle *p, tmi_pickle_cursor *c, tmi_pickle_item *item) {
    const uint32_t *node = tmi_node(p, c->of);
    tmi_ref args = node[TMI_WORD_ARGS];
    uint32_t count = tmi_tuple_count(p, args);
    int number = argument_of_items(p, c->of);
    c->step = STEP_ITEMS;
    c->segment = node[TMI_WORD_FIRST];
    item->whole = true;
    if (number < 0) {
        item->value = args;
        return count > 0;
    }
    if (count <= (uint32_t)number)
        return false;
    item->value = tmi_tuple_item(p, args, (uint32_t)number);
    if (tmi_object_global(p, c->of)->which != TMI_GLOBAL_SEQUENCE)
        item->mode = TMI_WALK_PAIRS;
    return true;
}

static bool take_state(const tmi_pickle *p, tmi_pickle_cursor *c, tmi_pickle_item *item) {
    unsigned which = tmi_object_global(p, c->of)->which;
    c->step = STEP_END;
    item->whole = true;
    item->mode = TMI_WALK_ATTRIBUTES;
    item->value = tmi_node(p, c->of)[TMI_WORD_STATE];
    return which != TMI_GLOBAL_DICT && which != TMI_GLOBAL_DEFAULTDICT && tmi_is_node(item->value);
}

/* Takes the next words of a chain: one item, or a key and its value. */
static bool take_of_chain(const tmi_pickle *p, tmi_pickle_cursor *c, tmi_pickle_item *item) {
    enum { SEGMENT_WORDS = 2 };
    const uint32_t *words = p->nodes.at;
    if (c->segment && c->i >= (words[c->segment + 1] & ~TMI_SEGMENT_PAIRS)) {
        c->segment = words[c->segment];
        c->i = 0;
    }
    if (!c->segment)
        return false;
    const uint32_t *at = words + c->segment + SEGMENT_WORDS + c->i;
    bool pair = words[c->segment + 1] & TMI_SEGMENT_PAIRS;
    item->key = pair ? at[0] : TMI_NO_REF;
    item->value = pair ? at[1] : at[0];
    c->i += pair ? 2 : 1;
    return true;
}

static bool take_of_tuple(const tmi_pickle *p, tmi_pickle_cursor *c, tmi_pickle_item *item) {
    if (c->i >= tmi_tuple_count(p, c->of))
        return false;
    item->value = tmi_tuple_item(p, c->of, c->i++);
    return true;
}

/* Replaces an item that is a pair by its key and value. Any other item holds nothing. */
static void split_pair(const tmi_pickle *p, tmi_pickle_item *item) {
    tmi_ref pair = item->value, found[2] = {TMI_NO_REF, TMI_NO_REF};
    if (tmi_tuple_count(p, pair) == 2) {
        found[0] = tmi_tuple_item(p, pair, 0);
        found[1] = tmi_tuple_item(p, pair, 1);
    } else if (tmi_is_kind(p, pair, TMI_PICKLE_LIST)) {
        tmi_pickle_cursor inside = tmi_pickle_cursor_at(p, pair, TMI_WALK_ITEMS);
        tmi_pickle_item key, value;
        if (take_of_chain(p, &inside, &key) && take_of_chain(p, &inside, &value)) {
            found[0] = key.value;
            found[1] = value.value;
        }
    }
    item->key = found[0];
    item->value = found[1];
}

static bool take_item(const tmi_pickle *p, tmi_pickle_cursor *c, tmi_pickle_item *item) {
    bool in_tuple = tmi_is_kind(p, c->of, TMI_PICKLE_TUPLE);
    if (!(in_tuple ? take_of_tuple(p, c, item) : take_of_chain(p, c, item)))
        return false;
    item->index = c->index++;
    item->attribute = c->mode == TMI_WALK_ATTRIBUTES;
    if (item->key == TMI_NO_REF && c->mode == TMI_WALK_PAIRS)
        split_pair(p, item);
    if (in_tuple && c->mode == TMI_WALK_ATTRIBUTES) { /* attributes in a dict, and in slots */
        item->whole = true;
        item->mode = TMI_WALK_ATTRIBUTES;
    }
    return true;
}

bool tmi_pickle_next(const tmi_pickle *p, tmi_pickle_cursor *c, tmi_pickle_item *item) {
    for (;;) {
        *item = (tmi_pickle_item){.key = TMI_NO_REF, .value = TMI_NO_REF};
        if (c->step == STEP_ITEMS) {
            if (take_item(p, c, item))
                return true;
            c->step = tmi_is_kind(p, c->of, TMI_PICKLE_OBJECT) ? STEP_STATE : STEP_END;
        } else if (c->step == STEP_ARGUMENTS) {
            if (take_arguments(p, c, item))
                return true;
        } else if (c->step == STEP_END) {
            return false;
        } else if (take_state(p, c, item)) {
            return true;
        }
    }
}
