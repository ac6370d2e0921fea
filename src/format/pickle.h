/*
 * Python pickles, read as data: the opcodes of protocols 0 to 5 build a graph of values, and
 * nothing is imported or called. Strings and numbers are not copied: a value is the offset of its
 * opcode.
 */
#ifndef TENMAP_PICKLE_H
#define TENMAP_PICKLE_H

#include "format.h"

/*
 * A value. An even number is an atom (a string, a number, None, the empty tuple): twice the offset
 * of the opcode that makes it. An odd number is a node: twice the index of its first word, plus 1.
 */
typedef uint32_t tmi_ref;
#define TMI_NO_REF UINT32_MAX

static inline bool tmi_is_node(tmi_ref ref) {
    return ref != TMI_NO_REF && (ref & 1);
}

/* The kinds of nodes; word 0 of a node holds its kind and its marks. */
enum {
    TMI_PICKLE_LIST,
    TMI_PICKLE_DICT,
    TMI_PICKLE_SET,
    TMI_PICKLE_TUPLE, /* frozen sets too */
    TMI_PICKLE_GLOBAL,
    TMI_PICKLE_OBJECT,    /* what calling a global, or making an instance of it, would give */
    TMI_PICKLE_PERSISTENT /* a reference to something outside of the pickle */
};

enum {
    TMI_MARK_CALLED = 0x100,  /* an object by a call; a global that is called */
    TMI_MARK_SEEN = 0x200,    /* this and all below are for walks over the graph */
    TMI_MARK_HOLDS = 0x400,   /* it holds tensors */
    TMI_MARK_ON_PATH = 0x800, /* the walk is inside of it */
    TMI_MARK_SEEN_AS_PAIRS = 0x1000,
    TMI_MARK_SETS_ELEMENTS = 0x2000, /* a dict whose keys name attributes that set elements */
    TMI_MARK_TAKEN = 0x4000,         /* a call has copied its items, so no more may follow */
    TMI_KIND_MASK = 0xff
};

/* Words of a node. Items lie in a chain of segments: next, number of words, then the words. */
enum {
    TMI_WORD_KIND,
    TMI_WORD_AT, /* the offset of its opcode */
    TMI_WORD_FIRST,
    TMI_WORD_LAST, /* its first and last segment; 0: none. An empty list ends here */
    TMI_LIST_WORDS,
    TMI_WORD_CALLABLE = TMI_LIST_WORDS,
    TMI_WORD_ARGS,  /* a tuple */
    TMI_WORD_STATE, /* what BUILD gave it, or TMI_NO_REF */
    TMI_OBJECT_WORDS,
    TMI_WORD_COUNT = TMI_WORD_FIRST, /* of a tuple, whose items follow */
    TMI_TUPLE_WORDS,
    TMI_WORD_MODULE =
        TMI_WORD_FIRST, /* of a global: two strings, or TMI_NO_REF if it is in lines */
    TMI_WORD_NAME,
    TMI_WORD_WHICH, /* its row among the known globals, plus 1; 0: unknown */
    TMI_WORD_NEXT,  /* the next global in the file; 0: none */
    TMI_GLOBAL_WORDS,
    TMI_WORD_ID = TMI_WORD_FIRST, /* of a persistent reference */
    TMI_WORD_FOLLOWING,           /* the next one in the file; 0: none */
    TMI_PERSISTENT_WORDS
};

/* In the second word of a segment: its words are keys and values by turns. */
#define TMI_SEGMENT_PAIRS UINT32_C(0x80000000)

/* A growing array of 32-bit words. */
typedef struct tmi_words {
    uint32_t *at;
    size_t used, capacity;
} tmi_words;

typedef struct tmi_pickle {
    const unsigned char *bytes;
    size_t len;
    size_t end; /* after STOP */
    tmi_ref root;
    tmi_words nodes, stack, marks, memo;
    size_t memo_count;     /* values that were given a number */
    size_t budget, taken;  /* words that all arrays may take together, and those that they take */
    uint32_t first_global; /* the nodes of globals, in file order; 0: none */
    uint32_t last_global;
    uint32_t first_persistent; /* the nodes of persistent references, in file order; 0: none */
    uint32_t last_persistent;
    const char *problem;  /* why reading stopped; NULL: nothing is wrong */
    size_t problem_at;    /* the offset of the opcode */
    tenmap_status status; /* FORMAT, LIMIT or MEMORY */
} tmi_pickle;

/*
 * Reads the pickle that begins at `bytes`, up to STOP; `len` bytes may follow. Takes time linear in
 * them, and memory of at most 8 times as many bytes and 64 KiB. Returns false, with the problem
 * set, if the pickle breaks a rule. The bytes must outlive it; tmi_pickle_free is due in any case.
 */
bool tmi_pickle_read(tmi_pickle *p, const unsigned char *bytes, size_t len);
void tmi_pickle_free(tmi_pickle *p);

enum {
    TMI_SCAN_END,  /* *at is the offset after STOP */
    TMI_SCAN_MORE, /* the opcode at *at is not complete before byte *need */
    TMI_SCAN_BAD   /* tmi_pickle_read would stop at *at, or before */
};

/*
 * Looks for the end of a pickle, whose length nothing else tells. Goes from opcode to opcode, and
 * looks only at their lengths. *at is the offset of an opcode; with more bytes, the caller goes on
 * from there.
 */
int tmi_pickle_scan(const unsigned char *bytes, size_t len, size_t *at, uint64_t *need);

/* The node at `ref`, valid until the next node is made; word 0 holds its kind and marks. */
static inline uint32_t *tmi_node(const tmi_pickle *p, tmi_ref ref) {
    return p->nodes.at + (ref >> 1);
}

static inline bool tmi_is_kind(const tmi_pickle *p, tmi_ref ref, unsigned kind) {
    return tmi_is_node(ref) && (tmi_node(p, ref)[TMI_WORD_KIND] & TMI_KIND_MASK) == kind;
}

/* pickle_globals.c: the globals that stand for data. */

enum {
    TMI_GLOBAL_UNKNOWN,  /* code that a real unpickler would import and perhaps call */
    TMI_GLOBAL_DATA,     /* makes a value that nothing here needs */
    TMI_GLOBAL_SEQUENCE, /* its argument holds the items */
    TMI_GLOBAL_DICT,
    TMI_GLOBAL_DEFAULTDICT, /* a dict whose first argument is no item */
    TMI_GLOBAL_NAMESPACE,   /* its attributes are data */
    TMI_GLOBAL_SIZE,        /* torch.Size: its argument is a tuple */
    TMI_GLOBAL_DTYPE,
    TMI_GLOBAL_STORAGE,     /* a type of storage, and of its elements */
    TMI_GLOBAL_TENSOR,      /* from here on: gives a tensor, if it is called */
    TMI_GLOBAL_TENSOR_V3,   /* its dtype is an argument, not the storage's */
    TMI_GLOBAL_WRAPPED,     /* its first argument is the tensor, the fourth has attributes */
    TMI_GLOBAL_SUBCLASS,    /* the same; its first is the global, the third its arguments */
    TMI_GLOBAL_NOT_A_TENSOR /* of a kind that has no elements in one storage: `name` says which */
};

typedef struct tmi_pickle_global {
    const char *name, *module;
    uint8_t which;      /* TMI_GLOBAL_* */
    tenmap_dtype dtype; /* of DTYPE and STORAGE; TENMAP_AS_STORED: not known here */
    uint8_t bytes;      /* per element of a STORAGE */
    const char *what;   /* for error messages: what it is called there */
} tmi_pickle_global;

/* The row of a global plus 1; 0 if it is not in the list. */
uint32_t tmi_pickle_find_global(const char *module, size_t module_len, const char *name,
                                size_t name_len);
/* The row of a global's node, never NULL: an unknown one has which TMI_GLOBAL_UNKNOWN. */
const tmi_pickle_global *tmi_pickle_global_of(const tmi_pickle *p, tmi_ref ref);
/* Row i of the list, which is sorted by name and module; NULL past the end. */
const tmi_pickle_global *tmi_pickle_global_at(size_t i);

/* pickle_values.c: what values are. */

enum {
    TMI_ATOM_NONE,
    TMI_ATOM_BOOL,
    TMI_ATOM_INT, /* fits into 64 bits */
    TMI_ATOM_BIG, /* an integer that does not, or a number that is written as text */
    TMI_ATOM_FLOAT,
    TMI_ATOM_TEXT,
    TMI_ATOM_BYTES,
    TMI_ATOM_TUPLE /* the empty one */
};

typedef struct tmi_atom {
    unsigned kind;
    bool escaped; /* the text is written with escapes; tmi_atom_text undoes them */
    unsigned char opcode;
    int64_t number; /* of BOOL and INT */
    double real;
    const char *text; /* TEXT and BYTES: as the pickle has it */
    size_t len;
} tmi_atom;

tmi_atom tmi_atom_of(const tmi_pickle *p, tmi_ref atom);
/*
 * Writes the characters of a TEXT to `out` as UTF-8, without a NUL, and returns their number; stops
 * before `room` would be exceeded. At most 2 * atom->len bytes. SIZE_MAX if it is not valid.
 */
size_t tmi_atom_text(const tmi_atom *atom, char *out, size_t room);
/* Whether the value is this text. */
bool tmi_is_text(const tmi_pickle *p, tmi_ref ref, const char *text);
/* Whether the value is an integer that is not negative. */
bool tmi_is_count(const tmi_pickle *p, tmi_ref ref, uint64_t *out);

/* The number of items of a tuple; of any other value, 0. */
uint32_t tmi_tuple_count(const tmi_pickle *p, tmi_ref ref);
/* Item i of a tuple, which has more. */
tmi_ref tmi_tuple_item(const tmi_pickle *p, tmi_ref ref, uint32_t i);
/* The module and the name of a global, as the file has them. */
void tmi_global_text(const tmi_pickle *p, tmi_ref global, tmi_atom *module, tmi_atom *name);
/* The row of the global that an object is made by, whether by a call or as an instance. */
const tmi_pickle_global *tmi_object_global(const tmi_pickle *p, tmi_ref object);

/* How a value is walked over. */
enum {
    TMI_WALK_ITEMS,
    TMI_WALK_ATTRIBUTES, /* it is the state of an object */
    TMI_WALK_PAIRS       /* it lists keys and values */
};

/* One value inside of another. */
typedef struct tmi_pickle_item {
    tmi_ref key; /* TMI_NO_REF: it is item `index` of a sequence */
    tmi_ref value;
    uint32_t index;
    uint8_t mode;   /* how to walk over the value: TMI_WALK_* */
    bool whole;     /* what the value holds is named as if the value around it held it */
    bool attribute; /* of an object */
} tmi_pickle_item;

/*
 * Walks over what a value holds. Values may share arguments and states. Each of these comes as one
 * item, so that a caller that marks nodes looks at everything once.
 */
typedef struct tmi_pickle_cursor {
    tmi_ref of;
    uint8_t mode, step;
    uint32_t segment, i, index;
} tmi_pickle_cursor;

tmi_pickle_cursor tmi_pickle_cursor_at(const tmi_pickle *p, tmi_ref ref, unsigned mode);
bool tmi_pickle_next(const tmi_pickle *p, tmi_pickle_cursor *c, tmi_pickle_item *item);

#endif
