/*
 * What everything else stands on: sentences, options that grow, memory, names and their index, text,
 * element types. Of the system only memory and random numbers are asked for here (pages.c).
 *
 * The library is a house of layers, one header each: base, os, job, bytes, format, model, values,
 * write. A header includes only those before it in this list, a .c file the header of its own layer,
 * and scripts/layers.sh proves both; docs/architecture.md shows the house.
 *
 * Names with external linkage start with tmi_; everything else is static. No two files use the same
 * static name, so that they can be joined into one.
 */
#ifndef TENMAP_BASE_H
#define TENMAP_BASE_H

#if defined(__cplusplus)
#error "tenmap's sources are C, not C++: C++ compiles tenmap.h and tenmap.hpp"
#elif !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#error "tenmap's sources are C11: compile them with -std=c11 or -std=gnu11 (tenmap.h alone is C99)"
#endif

#include "../../include/tenmap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TMI_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define TMI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TMI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TMI_NOINLINE __attribute__((noinline))
#define TMI_INLINE inline __attribute__((always_inline))
#else
#define TMI_PRINTF(at, first)
#define TMI_LIKELY(x) (x)
#define TMI_UNLIKELY(x) (x)
#define TMI_NOINLINE
#define TMI_INLINE inline
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TMI_BIG_ENDIAN 1
#else
#define TMI_BIG_ENDIAN 0
#endif

/* What printf's %llu takes. */
typedef unsigned long long ull;

/* The product, or false if it overflows. */
static TMI_INLINE bool tmi_multiply(uint64_t a, uint64_t b, uint64_t *out) {
#if defined(__GNUC__)
    return !__builtin_mul_overflow(a, b, out);
#else
    *out = a * b;
    return a == 0 || b <= UINT64_MAX / a;
#endif
}

/* Eight bytes of a file as a number: files are little-endian. */
static inline uint64_t tmi_file_u64(const unsigned char *bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* FNV-1a: the same on every host, and no defence against anybody. */
static inline uint64_t tmi_fnv(const unsigned char *bytes, size_t len) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* error.c: sentences for people. */

/* Text that came from outside, made fit to print: quoted, escaped, shortened in the middle. */
typedef struct tmi_quoted {
    char text[164];
} tmi_quoted;

/*
 * Use inside the argument list of tmi_fail only: tmi_quote(name, len).text. The limit is on what is
 * shown: 96 bytes for a name, 144 for a path.
 */
tmi_quoted tmi_quote(const char *bytes, size_t len);
tmi_quoted tmi_quote_path(const char *path);
/* "1 byte", "16 bytes". */
tmi_quoted tmi_count(uint64_t n, const char *noun);

/* The first few of many names, for a sentence: "a", "b" and 3 more. Starts zeroed. */
typedef struct tmi_list {
    char text[260];
    size_t used, shown, count;
} tmi_list;

void tmi_list_add(tmi_list *list, const char *name, size_t len);
const char *tmi_list_end(tmi_list *list);

/* Fills *error if there is one, and returns status so that callers can `return tmi_fail(...)`. */
tenmap_status tmi_fail(tenmap_error *error, tenmap_status status, const char *format, ...)
    TMI_PRINTF(3, 4);
/* The same, for a place in a file. */
tenmap_status tmi_fail_at(tenmap_error *error, tenmap_status status, uint32_t shard,
                          uint64_t offset, const char *format, ...) TMI_PRINTF(5, 6);
/* A refusal of the system: picks the status for os_error and appends its text. */
tenmap_status tmi_fail_os(tenmap_error *error, int os_error, const char *format, ...)
    TMI_PRINTF(3, 4);
/* TENMAP_ERR_MEMORY with what the bytes were for. */
tenmap_status tmi_fail_memory(tenmap_error *error, uint64_t bytes, const char *what);
/* Adds to the message of an error that was filled before; does nothing without one. */
void tmi_fail_more(tenmap_error *error, const char *format, ...) TMI_PRINTF(2, 3);

/* options.c: structs of options that grow. */

/* One of them: a struct whose first field is size_t struct_size. */
typedef struct tmi_options_kind {
    const char *name, *init; /* the struct and the macro that starts it */
    size_t size;             /* as this library knows it */
    size_t first_size;       /* as the first version had it: the least that is taken */
    size_t flags;            /* where its uint32_t of that name is, in bytes; 0: it has none */
    uint32_t known;          /* the flags that there are */
    size_t reserved;         /* where a uint32_t is that must be 0; 0: it has none */
} tmi_options_kind;

/*
 * Fills *out with what was given, zeros where it is NULL or shorter; refuses an unknown tail, unknown
 * flags, and what is reserved.
 */
tenmap_status tmi_options_take(const tmi_options_kind *kind, const void *given, void *out,
                               tenmap_error *error);

/* pages.c, or pages_win32.c: memory and random numbers from the system. */

size_t tmi_page_size(void);
/* Zeroed pages from the system, on huge pages where it has them; NULL if it refuses. */
void *tmi_pages_alloc(size_t size);
void tmi_pages_free(void *pages, size_t size);
/* Likewise, aligned to 2 MiB, and with its size noted in front of it for tmi_aligned_free. */
void *tmi_aligned_alloc(size_t size);
void tmi_aligned_free(void *pages);
/* Gives back the whole pages behind the first `used` bytes and lowers *size to what is left. */
void tmi_pages_trim(void *pages, size_t *size, size_t used);
void tmi_random(void *dst, size_t size);

/* memory.c: allocation with checked sizes. */

/* count * size bytes, zeroed; NULL if the product overflows or memory is out. */
void *tmi_calloc(size_t count, size_t size);
/*
 * Makes room for one more record in a growing array: returns it, moved if need be, with *capacity
 * raised; NULL (and the old array still valid) if memory is out.
 */
void *tmi_grow(void *array, size_t used, size_t *capacity, size_t size);
/* A copy of the text with a NUL behind it. */
char *tmi_copy_text(const char *text, size_t len);

/* A large zeroed allocation: small ones from malloc, large ones straight from the system. */
typedef struct tmi_block {
    void *bytes;   /* NULL when there is none */
    size_t mapped; /* the length to give back to the system; 0: malloc's */
} tmi_block;

bool tmi_block_alloc(tmi_block *block, size_t size);
/* The same, not zeroed. */
bool tmi_block_alloc_dirty(tmi_block *block, size_t size);
/* Gives back what lies behind the first `used` bytes, where that can be done. */
void tmi_block_trim(tmi_block *block, size_t used);
/* The same, for a block that must stay where it is. */
void tmi_block_trim_pages(tmi_block *block, size_t used);
void tmi_block_free(tmi_block *block);

/* name_index.c: a hash index over records that begin with {const char *name; size_t name_len}. */

typedef struct tmi_hash_key {
    uint64_t k[2];
} tmi_hash_key;

/* Holds what a lookup compares, so that it need not wait for the record on its way to the name. */
typedef struct tmi_slot {
    uint32_t record; /* its number + 1; 0 is free */
    uint16_t tag;    /* of the hash */
    uint16_t len;    /* of the name; UINT16_MAX: that or more */
    const char *name;
} tmi_slot;

static inline tmi_slot tmi_slot_of(uint32_t record, uint64_t hash, const char *name, size_t len) {
    uint16_t shown = len < UINT16_MAX ? (uint16_t)len : UINT16_MAX;
    return (tmi_slot){record, (uint16_t)(hash >> 48), shown, name};
}

typedef struct tmi_names {
    tmi_block block;
    tmi_slot *slots;
    size_t mask;
    const char *records;
    size_t stride;
    tmi_hash_key key;
} tmi_names;

#define TMI_NONE ((size_t)-1)

tmi_hash_key tmi_hash_key_new(void);
uint64_t tmi_hash(const tmi_hash_key *key, const char *name, size_t len);
/* False if memory is out. At most 2^32 - 2 records. */
bool tmi_names_init(tmi_names *names, const tmi_hash_key *key, const void *records, size_t stride,
                    size_t count);
/* Doubles the room after `count` records were entered; false, and nothing changed, without memory.
 */
bool tmi_names_double(tmi_names *names, size_t count);
void tmi_names_free(tmi_names *names);
/* Brings the place where this hash belongs into the cache, for a put that follows soon. */
static inline void tmi_names_prefetch(const tmi_names *names, uint64_t hash) {
#if defined(__GNUC__)
    __builtin_prefetch(&names->slots[hash & names->mask], 1);
#else
    (void)names, (void)hash;
#endif
}
/* Whether the table must be doubled before one more than these `count` records is entered. */
static inline bool tmi_names_full(const tmi_names *names, size_t count) {
    return count > names->mask / 2;
}
/* Enters record i if its place is free and its name not too long; else tmi_names_put does it. */
static inline bool tmi_names_put_first(tmi_names *names, size_t i, uint64_t hash, const char *name,
                                       size_t len) {
    tmi_slot *slot = &names->slots[hash & names->mask];
    if (TMI_UNLIKELY(slot->record || len >= UINT16_MAX))
        return false;
    *slot = tmi_slot_of((uint32_t)(i + 1), hash, name, len);
    return true;
}
/* Enters record i; returns the number of an earlier one with the same name instead, or TMI_NONE. */
size_t tmi_names_put(tmi_names *names, size_t i, uint64_t hash);
size_t tmi_names_find(const tmi_names *names, const char *name, size_t len, uint64_t hash);

/* utf8.c */

/* The length (1 to 4) of the valid character at s, or 0. */
size_t tmi_utf8_char(const unsigned char *s, size_t left);
/* The offset of the first byte that is not valid UTF-8; len if all is. */
size_t tmi_utf8_valid(const char *bytes, size_t len);

/* dtype.c: the one table of element types. */

enum { TMI_DTYPE_COUNT = TENMAP_U64 + 1 };

typedef struct tmi_dtype_info {
    const char *name;
    uint8_t name_len;
    uint8_t bits;  /* per element; 0 for the entry of TENMAP_AS_STORED */
    uint8_t align; /* bytes that a C object of this type wants; 1 below a byte */
    uint8_t kind;  /* TENMAP_KIND_* */
    bool infinity; /* some code of it is infinite */
} tmi_dtype_info;

extern const tmi_dtype_info tmi_dtypes[TMI_DTYPE_COUNT];

/* One of the dtypes whose elements lie in blocks. They are not in tmi_dtypes. */
typedef struct tmi_block_dtype {
    const char *name;  /* NULL for a number that is no dtype */
    uint16_t elements; /* per block */
    uint16_t bytes;    /* per block */
    uint8_t align;     /* bytes that a C struct of the block would want */
    tenmap_scheme scheme;
} tmi_block_dtype;

enum { TMI_BLOCK_ROWS = TENMAP_Q1_0 + 1 - TENMAP_Q4_0 };

/* The row of a block dtype, or NULL if it is none. */
const tmi_block_dtype *tmi_dtype_blocks(tenmap_dtype dtype);

/* The dtype of a name that SafeTensors uses, of `len` bytes, or TENMAP_AS_STORED if it is none. */
tenmap_dtype tmi_dtype_find(const char *name, size_t len);

/* The bytes that a C object of the dtype's element, or block, wants to be aligned to. */
unsigned tmi_dtype_align(tenmap_dtype dtype);

/*
 * The bytes that `count` elements of any dtype take, whole blocks of those that have them; false, and
 * UINT64_MAX, if their bits are more than 64 bits can count.
 */
bool tmi_dtype_bytes(tenmap_dtype dtype, uint64_t count, uint64_t *bytes);
/* The same where the caller knows that they fit. */
uint64_t tmi_bytes_of(tenmap_dtype dtype, uint64_t count);
/*
 * Where elements must end with a byte, of dtypes without blocks: TMI_BYTES_WHOLE and their number, or
 * what is wrong.
 */
enum { TMI_BYTES_WHOLE, TMI_BYTES_OVERFLOW, TMI_BYTES_PART };
int tmi_whole_bytes(tenmap_dtype dtype, uint64_t count, uint64_t *bytes);
/* How many elements fit into `room` bytes, a multiple of 8; whole blocks of those that have them. */
uint64_t tmi_elements_in(tenmap_dtype dtype, size_t room);
/* The bytes of one element; 0 if it is smaller than one, or lies in a block. */
size_t tmi_dtype_width(tenmap_dtype dtype);
/* Likewise by the width of an element, of dtypes that have one. */
uint64_t tmi_packed_bytes(uint64_t count, unsigned bits);
/*
 * The byte that element number `i` of many begins in, counted from the first. *within is the bit in
 * it; for block dtypes the byte is its block's first, and *within its number in the block.
 */
uint64_t tmi_byte_of(tenmap_dtype dtype, uint64_t i, unsigned *within);

#endif
