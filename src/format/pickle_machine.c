/*
 * The opcodes of pickles, protocols 0 to 5. Each opcode has a row that says what follows it and
 * what it does with the stack. Nothing recurses, each byte is read a bounded number of times, and
 * all memory counts against a budget.
 */
#include "pickle.h"

#include <stdlib.h>
#include <string.h>

enum { BUDGET_WORDS = 16384, BUDGET_PER_BYTE = 2 /* words: 8 bytes for each byte */ };
enum { FIRST_WORDS = 64, HIGHEST_PROTOCOL = 5 };
/* References have 31 bits for an offset or an index. */
#define MOST_PLACES ((size_t)INT32_MAX)

/* One opcode and what follows it. */
typedef struct pickle_step {
    unsigned char opcode;
    unsigned char detail; /* of its row */
    uint64_t number;      /* of a fixed operand, or the length of a counted one */
    const unsigned char *text;
    size_t len; /* of a line, without its end */
} pickle_step;

static bool stop_pickle(tmi_pickle *p, tenmap_status status, const char *problem) {
    p->problem = problem;
    p->status = status;
    return false;
}

static bool bad_pickle(tmi_pickle *p, const char *problem) {
    return stop_pickle(p, TENMAP_ERR_FORMAT, problem);
}

/* Makes room for more words. Grows by half, or by half of what the budget leaves. */
static bool make_room(tmi_pickle *p, tmi_words *a, size_t more) {
    size_t spare = p->budget - p->taken, need = a->used + more;
    if (need <= a->capacity)
        return true;
    if (more > spare || need - a->capacity > spare || need > MOST_PLACES)
        return stop_pickle(p, TENMAP_ERR_LIMIT,
                           "its values take more than 8 times as much memory as the pickle");
    size_t extra = a->capacity < spare ? a->capacity / 2 : spare / 2;
    extra = extra > FIRST_WORDS ? extra : FIRST_WORDS;
    extra = extra < spare ? extra : spare;
    extra = extra < MOST_PLACES - a->capacity ? extra : MOST_PLACES - a->capacity;
    extra = extra > need - a->capacity ? extra : need - a->capacity;
    if (extra > SIZE_MAX / sizeof(uint32_t) - a->capacity)
        return stop_pickle(p, TENMAP_ERR_MEMORY, "out of memory");
    uint32_t *longer = realloc(a->at, (a->capacity + extra) * sizeof *longer);
    if (!longer)
        return stop_pickle(p, TENMAP_ERR_MEMORY, "out of memory");
    a->at = longer;
    a->capacity += extra;
    p->taken += extra;
    return true;
}

static bool add_word(tmi_pickle *p, tmi_words *a, uint32_t word) {
    if (!make_room(p, a, 1))
        return false;
    a->at[a->used++] = word;
    return true;
}

/* The stack. */

static bool pickle_push(tmi_pickle *p, tmi_ref ref) {
    return add_word(p, &p->stack, ref);
}

/* How many values lie above the last mark. */
static size_t above_mark(const tmi_pickle *p) {
    return p->stack.used - (p->marks.used ? p->marks.at[p->marks.used - 1] : 0);
}

static bool pickle_pop(tmi_pickle *p, tmi_ref *ref) {
    if (above_mark(p) == 0)
        return bad_pickle(p, "the stack is empty");
    *ref = p->stack.at[--p->stack.used];
    return true;
}

static bool pickle_top(tmi_pickle *p, tmi_ref *ref) {
    if (above_mark(p) == 0)
        return bad_pickle(p, "the stack is empty");
    *ref = p->stack.at[p->stack.used - 1];
    return true;
}

/* Removes the last mark; *from is the place of the first value above it. */
static bool pop_mark(tmi_pickle *p, size_t *from) {
    if (p->marks.used == 0)
        return bad_pickle(p, "there is no mark on the stack");
    *from = p->marks.at[--p->marks.used];
    return true;
}

/* Nodes. */

/* Makes a node of `words` words; *ref is its value. Pushes nothing. */
static bool new_node(tmi_pickle *p, unsigned kind, size_t words, tmi_ref *ref) {
    if (!make_room(p, &p->nodes, words))
        return false;
    size_t at = p->nodes.used;
    memset(p->nodes.at + at, 0, words * sizeof *p->nodes.at);
    p->nodes.used += words;
    p->nodes.at[at + TMI_WORD_KIND] = kind;
    p->nodes.at[at + TMI_WORD_AT] = (uint32_t)p->problem_at;
    *ref = (tmi_ref)(at << 1 | 1);
    return true;
}

/*
 * Whether the value is the name of an attribute that sets elements, if a tensor gets it. Looks at
 * no more bytes than the longest form of such a name has.
 */
static bool names_elements(const tmi_pickle *p, tmi_ref ref) {
    enum { LONGEST = 48 };
    if (ref == TMI_NO_REF || tmi_is_node(ref))
        return false;
    size_t at = ref >> 1, left = p->len - at;
    if (strchr("SV", p->bytes[at]) && !memchr(p->bytes + at, '\n', left < LONGEST ? left : LONGEST))
        return false;
    return tmi_is_text(p, ref, "data") || tmi_is_text(p, ref, "real") ||
           tmi_is_text(p, ref, "imag");
}

/* Appends `count` words from the stack, from place `from` on, to the items of a node. */
static bool append_items(tmi_pickle *p, tmi_ref to, size_t from, size_t count, uint32_t pairs) {
    enum { SEGMENT_WORDS = 2 };
    tmi_words *nodes = &p->nodes;
    uint32_t last = tmi_node(p, to)[TMI_WORD_LAST];
    if (count == 0)
        return true;
    if (tmi_node(p, to)[TMI_WORD_KIND] & TMI_MARK_TAKEN)
        return bad_pickle(p, "items are added to a value that a call has copied before, so that it "
                             "did not see them");
    if (!make_room(p, nodes, count + SEGMENT_WORDS))
        return false;
    uint32_t *node = tmi_node(p, to), *words = nodes->at;
    uint32_t size = last ? words[last + 1] & ~TMI_SEGMENT_PAIRS : 0;
    bool extends = last && (words[last + 1] & TMI_SEGMENT_PAIRS) == pairs &&
                   last + SEGMENT_WORDS + size == nodes->used;
    if (extends) {
        words[last + 1] += (uint32_t)count;
    } else {
        uint32_t segment = (uint32_t)nodes->used;
        words[segment] = 0;
        words[segment + 1] = (uint32_t)count | pairs;
        if (last)
            words[last] = segment;
        else
            node[TMI_WORD_FIRST] = segment;
        node[TMI_WORD_LAST] = segment;
        nodes->used += SEGMENT_WORDS;
    }
    memcpy(words + nodes->used, p->stack.at + from, count * sizeof *words);
    nodes->used += count;
    for (size_t i = 0; pairs && i < count; i += 2)
        if (names_elements(p, p->stack.at[from + i]))
            node[TMI_WORD_KIND] |= TMI_MARK_SETS_ELEMENTS;
    return true;
}

/* Replaces the stack from place `from` on by a tuple of the values there. */
static bool make_tuple(tmi_pickle *p, size_t from) {
    size_t count = p->stack.used - from;
    tmi_ref ref;
    if (!new_node(p, TMI_PICKLE_TUPLE, TMI_TUPLE_WORDS + count, &ref))
        return false;
    uint32_t *node = tmi_node(p, ref);
    node[TMI_WORD_COUNT] = (uint32_t)count;
    if (count)
        memcpy(node + TMI_TUPLE_WORDS, p->stack.at + from, count * sizeof *node);
    p->stack.used = from;
    return pickle_push(p, ref);
}

/* Replaces the stack from place `from` on by a list or a dict of the values there. */
static bool make_container(tmi_pickle *p, unsigned kind, size_t from) {
    size_t count = p->stack.used - from;
    tmi_ref ref;
    if (kind == TMI_PICKLE_DICT && count % 2)
        return bad_pickle(p, "a dict has a key without a value");
    if (!new_node(p, kind, TMI_LIST_WORDS, &ref) ||
        !append_items(p, ref, from, count, kind == TMI_PICKLE_DICT ? TMI_SEGMENT_PAIRS : 0))
        return false;
    p->stack.used = from;
    return pickle_push(p, ref);
}

static bool is_tuple(const tmi_pickle *p, tmi_ref ref) {
    return tmi_is_kind(p, ref, TMI_PICKLE_TUPLE) ||
           (!tmi_is_node(ref) && p->bytes[ref >> 1] == ')');
}

/* Whether these attributes of a tensor would set its elements, or might. */
static bool sets_elements(const tmi_pickle *p, tmi_ref attributes) {
    if (!tmi_is_node(attributes))
        return false;
    const uint32_t *node = tmi_node(p, attributes);
    return node[TMI_WORD_KIND] & TMI_MARK_SETS_ELEMENTS ||
           (tmi_is_kind(p, attributes, TMI_PICKLE_OBJECT) &&
            tmi_tuple_count(p, node[TMI_WORD_ARGS]) > 0);
}

/* Marks a value whose items a call copies. */
static void mark_taken(tmi_pickle *p, tmi_ref ref) {
    if (tmi_is_kind(p, ref, TMI_PICKLE_LIST) || tmi_is_kind(p, ref, TMI_PICKLE_DICT) ||
        tmi_is_kind(p, ref, TMI_PICKLE_SET) || tmi_is_kind(p, ref, TMI_PICKLE_OBJECT))
        tmi_node(p, ref)[TMI_WORD_KIND] |= TMI_MARK_TAKEN;
}

/* Marks lists of items or of numbers. No known callable has them further behind. */
static void mark_taken_items(tmi_pickle *p, tmi_ref args) {
    enum { LOOKED_AT = 4 };
    uint32_t count = tmi_tuple_count(p, args);
    for (uint32_t i = 0; i < count && i < LOOKED_AT; i++)
        mark_taken(p, tmi_tuple_item(p, args, i));
}

/* Whether the attributes among the arguments would set elements. */
static bool arguments_set_elements(const tmi_pickle *p, tmi_ref args) {
    enum { ATTRIBUTES = 3 };
    if (tmi_tuple_count(p, args) <= ATTRIBUTES)
        return false;
    tmi_ref state = tmi_tuple_item(p, args, ATTRIBUTES);
    uint32_t parts = tmi_tuple_count(p, state); /* of two dicts; more are an error for torch */
    return sets_elements(p, state) ||
           (parts > 0 && sets_elements(p, tmi_tuple_item(p, state, 0))) ||
           (parts > 1 && sets_elements(p, tmi_tuple_item(p, state, 1)));
}

/*
 * Takes the arguments of a known callable. A tensor of a subclass has those of another one inside.
 * Fails if attributes set elements of a storage, which other tensors may use, too.
 */
static bool take_call_arguments(tmi_pickle *p, tmi_ref callable, tmi_ref args) {
    enum { FUNCTION = 0, ARGUMENTS = 2, MOST_INSIDE = 8 };
    const tmi_pickle_global *global = tmi_pickle_global_of(p, callable);
    for (unsigned i = 0; global->which != TMI_GLOBAL_UNKNOWN; i++) {
        bool is_subclass = global->which == TMI_GLOBAL_SUBCLASS;
        mark_taken_items(p, args);
        if ((is_subclass || global->which == TMI_GLOBAL_WRAPPED) && arguments_set_elements(p, args))
            return bad_pickle(p, "a tensor gets an attribute that sets its elements, which other "
                                 "tensors may use");
        if (!is_subclass || tmi_tuple_count(p, args) <= ARGUMENTS)
            return true;
        if (i == MOST_INSIDE)
            return stop_pickle(p, TENMAP_ERR_LIMIT,
                               "it makes a tensor of a subclass of a subclass, more than 8 times");
        global = tmi_pickle_global_of(p, tmi_tuple_item(p, args, FUNCTION));
        args = tmi_tuple_item(p, args, ARGUMENTS);
    }
    return true;
}

/* Pushes the object that a real unpickler would get from this call. Nothing is called here. */
static bool make_object(tmi_pickle *p, tmi_ref callable, tmi_ref args, bool called) {
    tmi_ref ref;
    if (!is_tuple(p, args))
        return bad_pickle(p, "the arguments of a call are not a tuple");
    if (!tmi_is_node(callable))
        return bad_pickle(p, "what is called is a string or a number");
    if (!take_call_arguments(p, callable, args))
        return false;
    if (!new_node(p, TMI_PICKLE_OBJECT, TMI_OBJECT_WORDS, &ref))
        return false;
    uint32_t *node = tmi_node(p, ref);
    node[TMI_WORD_KIND] |= called ? TMI_MARK_CALLED : 0;
    node[TMI_WORD_CALLABLE] = callable;
    node[TMI_WORD_ARGS] = args;
    node[TMI_WORD_STATE] = TMI_NO_REF;
    if (tmi_is_kind(p, callable, TMI_PICKLE_GLOBAL))
        tmi_node(p, callable)[TMI_WORD_KIND] |= TMI_MARK_CALLED;
    return pickle_push(p, ref);
}

/* Makes the node of a global and enters it into the list of all. */
static bool make_global(tmi_pickle *p, tmi_ref module, tmi_ref name, uint32_t which, tmi_ref *ref) {
    if (!new_node(p, TMI_PICKLE_GLOBAL, TMI_GLOBAL_WORDS, ref))
        return false;
    uint32_t *node = tmi_node(p, *ref), at = *ref >> 1;
    node[TMI_WORD_MODULE] = module;
    node[TMI_WORD_NAME] = name;
    node[TMI_WORD_WHICH] = which;
    if (p->last_global)
        p->nodes.at[p->last_global + TMI_WORD_NEXT] = at;
    else
        p->first_global = at;
    p->last_global = at;
    return true;
}

/* The global that two lines name. */
static bool global_of_lines(tmi_pickle *p, const pickle_step *step, tmi_ref *ref) {
    const char *module = (const char *)step->text, *end = memchr(module, '\n', step->len);
    size_t len = (size_t)(end - module);
    uint32_t which = tmi_pickle_find_global(module, len, end + 1, step->len - len - 1);
    return make_global(p, TMI_NO_REF, TMI_NO_REF, which, ref);
}

/* What opcodes do. */

static bool do_nothing(tmi_pickle *p, const pickle_step *step) {
    (void)p, (void)step;
    return true;
}

static bool do_protocol(tmi_pickle *p, const pickle_step *step) {
    return step->number <= HIGHEST_PROTOCOL || bad_pickle(p, "its protocol is unknown");
}

static bool do_frame(tmi_pickle *p, const pickle_step *step) {
    size_t left = p->len - (size_t)(step->text - p->bytes);
    return step->number <= left || bad_pickle(p, "a frame is longer than the pickle");
}

static bool do_atom(tmi_pickle *p, const pickle_step *step) {
    (void)step;
    return pickle_push(p, (tmi_ref)(p->problem_at << 1));
}

static bool do_mark(tmi_pickle *p, const pickle_step *step) {
    (void)step;
    return add_word(p, &p->marks, (uint32_t)p->stack.used);
}

static bool do_pop(tmi_pickle *p, const pickle_step *step) {
    tmi_ref unused;
    size_t from;
    (void)step;
    return above_mark(p) || !p->marks.used ? pickle_pop(p, &unused) : pop_mark(p, &from);
}

static bool do_pop_mark(tmi_pickle *p, const pickle_step *step) {
    size_t from;
    (void)step;
    if (!pop_mark(p, &from))
        return false;
    p->stack.used = from;
    return true;
}

static bool do_dup(tmi_pickle *p, const pickle_step *step) {
    tmi_ref ref;
    (void)step;
    return pickle_top(p, &ref) && pickle_push(p, ref);
}

/* An empty list, dict or set. */
static bool do_empty(tmi_pickle *p, const pickle_step *step) {
    return make_container(p, step->detail, p->stack.used);
}

/* A list, a dict or a frozen set of what lies above the mark. */
static bool do_from_mark(tmi_pickle *p, const pickle_step *step) {
    size_t from;
    if (!pop_mark(p, &from))
        return false;
    return step->detail == TMI_PICKLE_TUPLE ? make_tuple(p, from)
                                            : make_container(p, step->detail, from);
}

static bool do_short_tuple(tmi_pickle *p, const pickle_step *step) {
    if (above_mark(p) < step->detail)
        return bad_pickle(p, "the stack is empty");
    return make_tuple(p, p->stack.used - step->detail);
}

/* Whether items of this form may be added to the value. */
static bool takes_items(const tmi_pickle *p, tmi_ref ref, unsigned kind) {
    return tmi_is_kind(p, ref, kind) || tmi_is_kind(p, ref, TMI_PICKLE_OBJECT);
}

/* Whether it is an object of a known class without items: a tensor, or an array. */
static bool has_elements(const tmi_pickle *p, tmi_ref ref) {
    if (!tmi_is_kind(p, ref, TMI_PICKLE_OBJECT))
        return false;
    unsigned which = tmi_object_global(p, ref)->which;
    return which != TMI_GLOBAL_UNKNOWN && which != TMI_GLOBAL_DICT &&
           which != TMI_GLOBAL_DEFAULTDICT;
}

/* Adds the values from place `from` on to the one below them. */
static bool add_pickle_items(tmi_pickle *p, unsigned kind, size_t from) {
    size_t count = p->stack.used - from;
    tmi_ref to;
    p->stack.used = from;
    if (!pickle_top(p, &to))
        return false;
    if (!takes_items(p, to, kind))
        return bad_pickle(p, "items are added to a value of another kind");
    if (kind == TMI_PICKLE_DICT && has_elements(p, to))
        return bad_pickle(p, "items are set in a value that is no dict: it could be a tensor, "
                             "whose elements would change");
    if (kind == TMI_PICKLE_DICT && count % 2)
        return bad_pickle(p, "a dict has a key without a value");
    return append_items(p, to, from, count, kind == TMI_PICKLE_DICT ? TMI_SEGMENT_PAIRS : 0);
}

static bool do_add_one(tmi_pickle *p, const pickle_step *step) {
    size_t count = step->detail == TMI_PICKLE_DICT ? 2 : 1;
    if (above_mark(p) < count)
        return bad_pickle(p, "the stack is empty");
    return add_pickle_items(p, step->detail, p->stack.used - count);
}

static bool do_add_many(tmi_pickle *p, const pickle_step *step) {
    size_t from;
    return pop_mark(p, &from) && add_pickle_items(p, step->detail, from);
}

/* The memo: numbered values. */

static bool pickle_put(tmi_pickle *p, uint64_t number) {
    tmi_ref ref;
    if (!pickle_top(p, &ref))
        return false;
    if (number >= p->len)
        return stop_pickle(p, TENMAP_ERR_LIMIT, "a value's number is larger than the pickle");
    if (number >= p->memo.used) {
        size_t more = (size_t)number + 1 - p->memo.used;
        if (!make_room(p, &p->memo, more))
            return false;
        memset(p->memo.at + p->memo.used, 0xff, more * sizeof *p->memo.at);
        p->memo.used += more;
    }
    p->memo_count += p->memo.at[number] == TMI_NO_REF;
    p->memo.at[number] = ref;
    return true;
}

static bool pickle_get(tmi_pickle *p, uint64_t number) {
    if (number >= p->memo.used || p->memo.at[number] == TMI_NO_REF)
        return bad_pickle(p, "it gets a value that was never put");
    return pickle_push(p, p->memo.at[number]);
}

static bool read_decimal(const pickle_step *step, uint64_t *out) {
    enum { MOST_DIGITS = 18 };
    *out = 0;
    if (step->len == 0 || step->len > MOST_DIGITS)
        return false;
    for (size_t i = 0; i < step->len; i++) {
        if (step->text[i] < '0' || step->text[i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(step->text[i] - '0');
    }
    return true;
}

static bool do_put(tmi_pickle *p, const pickle_step *step) {
    return pickle_put(p, step->number);
}

static bool do_get(tmi_pickle *p, const pickle_step *step) {
    return pickle_get(p, step->number);
}

static bool do_put_line(tmi_pickle *p, const pickle_step *step) {
    uint64_t number;
    return read_decimal(step, &number) ? pickle_put(p, number)
                                       : bad_pickle(p, "a number is expected");
}

static bool do_get_line(tmi_pickle *p, const pickle_step *step) {
    uint64_t number;
    return read_decimal(step, &number) ? pickle_get(p, number)
                                       : bad_pickle(p, "a number is expected");
}

static bool do_memoize(tmi_pickle *p, const pickle_step *step) {
    (void)step;
    return pickle_put(p, p->memo_count);
}

/* Globals and what is made with them. */

static bool do_global(tmi_pickle *p, const pickle_step *step) {
    tmi_ref ref;
    return global_of_lines(p, step, &ref) && pickle_push(p, ref);
}

/* Whether the value is a string that one of these opcodes makes. */
static bool is_text_of(const tmi_pickle *p, tmi_ref ref, const char *opcodes) {
    return !tmi_is_node(ref) && p->bytes[ref >> 1] && strchr(opcodes, p->bytes[ref >> 1]);
}

/*
 * Picklers write names only in these forms. With a string of another form the global is unknown:
 * looking for the end of such a string would take more time than the bytes of the opcode allow.
 */
static bool do_stack_global(tmi_pickle *p, const pickle_step *step) {
    static const char texts[] = "X\x8c\x8dUTSV", plain[] = "X\x8c\x8d";
    tmi_ref module, name, ref;
    uint32_t which = 0;
    (void)step;
    if (!pickle_pop(p, &name) || !pickle_pop(p, &module))
        return false;
    if (!is_text_of(p, module, texts) || !is_text_of(p, name, texts))
        return bad_pickle(p, "the name of a global is no string");
    if (is_text_of(p, module, plain) && is_text_of(p, name, plain)) {
        tmi_atom in = tmi_atom_of(p, module), is = tmi_atom_of(p, name);
        which = tmi_pickle_find_global(in.text, in.len, is.text, is.len);
    }
    return make_global(p, module, name, which, &ref) && pickle_push(p, ref);
}

/* An extension is a global that the unpickling program registered under a number. */
static bool do_extension(tmi_pickle *p, const pickle_step *step) {
    tmi_ref ref;
    (void)step;
    return make_global(p, TMI_NO_REF, TMI_NO_REF, 0, &ref) && pickle_push(p, ref);
}

static bool do_persistent(tmi_pickle *p, const pickle_step *step) {
    tmi_ref id = TMI_NO_REF, ref;
    if (step->opcode == 'Q' && !pickle_pop(p, &id))
        return false;
    if (!new_node(p, TMI_PICKLE_PERSISTENT, TMI_PERSISTENT_WORDS, &ref))
        return false;
    tmi_node(p, ref)[TMI_WORD_ID] = id;
    if (p->last_persistent)
        p->nodes.at[p->last_persistent + TMI_WORD_FOLLOWING] = ref >> 1;
    else
        p->first_persistent = ref >> 1;
    p->last_persistent = ref >> 1;
    return pickle_push(p, ref);
}

/*
 * REDUCE, NEWOBJ and NEWOBJ_EX; the detail says whether a function is called. Arguments by keyword
 * count as an item of the object, so that no tensor in them is left out.
 */
static bool do_call(tmi_pickle *p, const pickle_step *step) {
    tmi_ref callable, args, keywords = TMI_NO_REF;
    if (step->opcode == 0x92 && !pickle_pop(p, &keywords))
        return false;
    if (!pickle_pop(p, &args) || !pickle_pop(p, &callable) ||
        !make_object(p, callable, args, step->detail))
        return false;
    return !tmi_is_node(keywords) ||
           (pickle_push(p, keywords) && add_pickle_items(p, TMI_PICKLE_LIST, p->stack.used - 1));
}

/* INST and OBJ: a class, and the arguments above the mark. */
static bool do_instance(tmi_pickle *p, const pickle_step *step) {
    tmi_ref callable = TMI_NO_REF, args;
    size_t from;
    if (!pop_mark(p, &from))
        return false;
    if (step->opcode == 'o') {
        if (p->stack.used == from)
            return bad_pickle(p, "the stack is empty");
        callable = p->stack.at[from];
        from++;
    }
    if (!make_tuple(p, from) || !pickle_pop(p, &args))
        return false;
    if (step->opcode == 'o')
        p->stack.used--;
    else if (!global_of_lines(p, step, &callable))
        return false;
    return make_object(p, callable, args, true);
}

static bool do_build(tmi_pickle *p, const pickle_step *step) {
    tmi_ref state, to;
    (void)step;
    if (!pickle_pop(p, &state) || !pickle_top(p, &to))
        return false;
    if (tmi_is_kind(p, to, TMI_PICKLE_GLOBAL)) /* what is not known is reported as code already */
        return !tmi_node(p, to)[TMI_WORD_WHICH] ||
               bad_pickle(p, "a class that stands for data is given attributes, which would change "
                             "it for the whole program");
    if (tmi_is_kind(p, to, TMI_PICKLE_PERSISTENT))
        return bad_pickle(p, "a storage is given a state, which could replace its elements");
    if (!tmi_is_kind(p, to, TMI_PICKLE_OBJECT))
        return bad_pickle(p, "a value that is no object is given a state");
    if (tmi_node(p, to)[TMI_WORD_STATE] != TMI_NO_REF)
        return bad_pickle(p, "an object is given a state twice");
    tmi_node(p, to)[TMI_WORD_STATE] = state;
    if (tmi_object_global(p, to)->which != TMI_GLOBAL_UNKNOWN)
        mark_taken(p, state);
    return true;
}

static bool do_buffer(tmi_pickle *p, const pickle_step *step) {
    (void)step;
    return bad_pickle(p, "it needs a buffer that lies outside of the pickle");
}

/* What follows an opcode: that many bytes, or one of these. */
enum {
    OPERAND_LINE = 16,
    OPERAND_TWO_LINES,
    OPERAND_COUNTED_1,
    OPERAND_COUNTED_4,
    OPERAND_COUNTED_4_SIGNED,
    OPERAND_COUNTED_8
};

typedef struct pickle_opcode {
    unsigned char operand, detail;
    bool (*act)(tmi_pickle *p, const pickle_step *step); /* NULL: there is no such opcode */
} pickle_opcode;

static const pickle_opcode pickle_opcodes[256] = {
    ['('] = {0, 0, do_mark},
    ['0'] = {0, 0, do_pop},
    ['1'] = {0, 0, do_pop_mark},
    ['2'] = {0, 0, do_dup},
    ['F'] = {OPERAND_LINE, 0, do_atom},
    ['I'] = {OPERAND_LINE, 0, do_atom},
    ['L'] = {OPERAND_LINE, 0, do_atom},
    ['S'] = {OPERAND_LINE, 0, do_atom},
    ['V'] = {OPERAND_LINE, 0, do_atom},
    ['J'] = {4, 0, do_atom},
    ['K'] = {1, 0, do_atom},
    ['M'] = {2, 0, do_atom},
    ['G'] = {8, 0, do_atom},
    ['N'] = {0, 0, do_atom},
    [')'] = {0, 0, do_atom},
    ['T'] = {OPERAND_COUNTED_4_SIGNED, 0, do_atom},
    ['U'] = {OPERAND_COUNTED_1, 0, do_atom},
    ['X'] = {OPERAND_COUNTED_4, 0, do_atom},
    ['B'] = {OPERAND_COUNTED_4, 0, do_atom},
    ['C'] = {OPERAND_COUNTED_1, 0, do_atom},
    ['P'] = {OPERAND_LINE, 0, do_persistent},
    ['Q'] = {0, 0, do_persistent},
    ['R'] = {0, true, do_call},
    ['a'] = {0, TMI_PICKLE_LIST, do_add_one},
    ['s'] = {0, TMI_PICKLE_DICT, do_add_one},
    ['e'] = {0, TMI_PICKLE_LIST, do_add_many},
    ['u'] = {0, TMI_PICKLE_DICT, do_add_many},
    ['b'] = {0, 0, do_build},
    ['c'] = {OPERAND_TWO_LINES, 0, do_global},
    ['i'] = {OPERAND_TWO_LINES, 0, do_instance},
    ['o'] = {0, 0, do_instance},
    ['d'] = {0, TMI_PICKLE_DICT, do_from_mark},
    ['l'] = {0, TMI_PICKLE_LIST, do_from_mark},
    ['t'] = {0, TMI_PICKLE_TUPLE, do_from_mark},
    ['}'] = {0, TMI_PICKLE_DICT, do_empty},
    [']'] = {0, TMI_PICKLE_LIST, do_empty},
    ['g'] = {OPERAND_LINE, 0, do_get_line},
    ['h'] = {1, 0, do_get},
    ['j'] = {4, 0, do_get},
    ['p'] = {OPERAND_LINE, 0, do_put_line},
    ['q'] = {1, 0, do_put},
    ['r'] = {4, 0, do_put},
    [0x80] = {1, 0, do_protocol},
    [0x81] = {0, false, do_call},
    [0x82] = {1, 0, do_extension},
    [0x83] = {2, 0, do_extension},
    [0x84] = {4, 0, do_extension},
    [0x85] = {0, 1, do_short_tuple},
    [0x86] = {0, 2, do_short_tuple},
    [0x87] = {0, 3, do_short_tuple},
    [0x88] = {0, 0, do_atom},
    [0x89] = {0, 0, do_atom},
    [0x8a] = {OPERAND_COUNTED_1, 0, do_atom},
    [0x8b] = {OPERAND_COUNTED_4_SIGNED, 0, do_atom},
    [0x8c] = {OPERAND_COUNTED_1, 0, do_atom},
    [0x8d] = {OPERAND_COUNTED_8, 0, do_atom},
    [0x8e] = {OPERAND_COUNTED_8, 0, do_atom},
    [0x8f] = {0, TMI_PICKLE_SET, do_empty},
    [0x90] = {0, TMI_PICKLE_SET, do_add_many},
    [0x91] = {0, TMI_PICKLE_TUPLE, do_from_mark},
    [0x92] = {0, false, do_call},
    [0x93] = {0, 0, do_stack_global},
    [0x94] = {0, 0, do_memoize},
    [0x95] = {8, 0, do_frame},
    [0x96] = {OPERAND_COUNTED_8, 0, do_atom},
    [0x97] = {0, 0, do_buffer},
    [0x98] = {0, 0, do_nothing},
};

/* Reading operands. */

static bool take_lines(tmi_pickle *p, size_t *at, unsigned lines, pickle_step *step) {
    size_t begin = *at;
    for (; lines; lines--) {
        const unsigned char *end = memchr(p->bytes + *at, '\n', p->len - *at);
        if (!end)
            return bad_pickle(p, "a line does not end");
        *at = (size_t)(end - p->bytes) + 1;
    }
    step->text = p->bytes + begin;
    step->len = *at - 1 - begin;
    return true;
}

/* Reads a number of `width` bytes. */
static bool take_operand_number(tmi_pickle *p, size_t *at, unsigned width, uint64_t *number) {
    if (p->len - *at < width)
        return bad_pickle(p, "it ends inside an opcode");
    *number = 0;
    for (unsigned i = width; i-- > 0;)
        *number = *number << 8 | p->bytes[*at + i];
    *at += width;
    return true;
}

/* The bytes of a fixed operand, or of the length in front of a counted one. */
static unsigned operand_width(unsigned operand) {
    static const unsigned char widths[] = {[OPERAND_COUNTED_1] = 1,
                                           [OPERAND_COUNTED_4] = 4,
                                           [OPERAND_COUNTED_4_SIGNED] = 4,
                                           [OPERAND_COUNTED_8] = 8};
    return operand < OPERAND_LINE ? operand : widths[operand];
}

static bool take_operand(tmi_pickle *p, unsigned operand, size_t *at, pickle_step *step) {
    if (operand == OPERAND_LINE || operand == OPERAND_TWO_LINES)
        return take_lines(p, at, operand == OPERAND_LINE ? 1 : 2, step);
    if (!take_operand_number(p, at, operand_width(operand), &step->number))
        return false;
    step->text = p->bytes + *at;
    if (operand < OPERAND_LINE)
        return true;
    if (operand == OPERAND_COUNTED_4_SIGNED && step->number > INT32_MAX)
        return bad_pickle(p, "the length of a value is negative");
    if (step->number > p->len - *at)
        return bad_pickle(p, "a value is longer than the pickle");
    *at += (size_t)step->number;
    return true;
}

static bool run_pickle(tmi_pickle *p) {
    for (size_t at = 0; at < p->len;) {
        pickle_step step = {.opcode = p->bytes[at]};
        const pickle_opcode *row = &pickle_opcodes[step.opcode];
        p->problem_at = at++;
        if (step.opcode == '.') {
            p->end = at;
            if (p->marks.used || p->stack.used != 1)
                return bad_pickle(p, "it ends with another number of values than one");
            p->root = p->stack.at[0];
            return true;
        }
        if (!row->act)
            return bad_pickle(p, "there is no such opcode");
        step.detail = row->detail;
        if (!take_operand(p, row->operand, &at, &step) || !row->act(p, &step))
            return false;
    }
    p->problem_at = p->len;
    return bad_pickle(p, "it ends without STOP");
}

bool tmi_pickle_read(tmi_pickle *p, const unsigned char *bytes, size_t len) {
    *p = (tmi_pickle){.bytes = bytes, .len = len, .root = TMI_NO_REF};
    if (len > MOST_PLACES)
        return stop_pickle(p, TENMAP_ERR_LIMIT, "it has more than 2 GiB");
    p->budget = len > (SIZE_MAX - BUDGET_WORDS) / BUDGET_PER_BYTE
                    ? SIZE_MAX
                    : BUDGET_PER_BYTE * len + BUDGET_WORDS;
    if (!add_word(p, &p->nodes, 0)) /* no node has index 0 */
        return false;
    return run_pickle(p);
}

void tmi_pickle_free(tmi_pickle *p) {
    free(p->nodes.at);
    free(p->stack.at);
    free(p->marks.at);
    free(p->memo.at);
    p->nodes = p->stack = p->marks = p->memo = (tmi_words){NULL, 0, 0};
}

/* Where the pickle ends. */

/* The offset after the operand at `at`; more than `len` if so many bytes are needed to tell it. */
static uint64_t end_of_operand(const unsigned char *bytes, size_t len, size_t at,
                               unsigned operand) {
    unsigned width = operand_width(operand);
    uint64_t number = 0;
    if (operand == OPERAND_LINE || operand == OPERAND_TWO_LINES) {
        for (unsigned lines = operand == OPERAND_LINE ? 1 : 2; lines; lines--) {
            const unsigned char *end = memchr(bytes + at, '\n', len - at);
            if (!end)
                return (uint64_t)len + 1;
            at = (size_t)(end - bytes) + 1;
        }
        return at;
    }
    if (operand < OPERAND_LINE || len - at < width)
        return (uint64_t)at + width;
    for (unsigned i = width; i-- > 0;)
        number = number << 8 | bytes[at + i];
    if (number > INT64_MAX || (operand == OPERAND_COUNTED_4_SIGNED && number > INT32_MAX))
        return UINT64_MAX;
    return (uint64_t)at + width + number;
}

int tmi_pickle_scan(const unsigned char *bytes, size_t len, size_t *at, uint64_t *need) {
    while (*at < len) {
        unsigned char opcode = bytes[*at];
        if (opcode == '.') {
            ++*at;
            return TMI_SCAN_END;
        }
        if (!pickle_opcodes[opcode].act)
            return TMI_SCAN_BAD;
        uint64_t end = end_of_operand(bytes, len, *at + 1, pickle_opcodes[opcode].operand);
        if (end == UINT64_MAX)
            return TMI_SCAN_BAD;
        *need = end;
        if (end > len)
            return TMI_SCAN_MORE;
        *at = (size_t)end;
    }
    *need = (uint64_t)len + 1;
    return TMI_SCAN_MORE;
}
