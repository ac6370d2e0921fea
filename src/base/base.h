/*
 * The lowest layer: error messages, versioned option structs, memory, the name index, UTF-8 and
 * element types. The only system services used here are memory and random numbers (pages.c).
 *
 * The library is built in layers, one folder each: base, kernels, os, io, format, model, values,
 * write. A file includes only headers of its own layer and of layers before it in this list;
 * kernels include only base, and only values includes kernels. scripts/layers.sh checks both rules;
 * docs/architecture.md describes the layers.
 *
 * Names with external linkage start with tmi_; everything else is static. No two files use the same
 * static name, so that all files can be combined into one.
 */
#ifndef TENMAP_BASE_H
#define TENMAP_BASE_H

#if defined(__cplusplus)
#error "tenmap's sources are C, not C++: C++ compiles tenmap.h and tenmap.hpp"
#elif !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#error "tenmap's sources are C11: compile them with -std=c11 or -std=gnu11 (tenmap.h alone is C99)"
#endif

#include "../../include/tenmap.h"

#include "dtype_table.h"

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

/* The argument type of printf's %llu. */
typedef unsigned long long ull;

/* Stores the product in *out. Returns false if it overflows; *out is then not the product. */
static TMI_INLINE bool tmi_multiply(uint64_t a, uint64_t b, uint64_t *out) {
#if defined(__GNUC__)
    return !__builtin_mul_overflow(a, b, out);
#else
    *out = a * b;
    return a == 0 || b <= UINT64_MAX / a;
#endif
}

/* Reads a 64-bit number from a file's bytes: files are little-endian. */
static inline uint64_t tmi_file_u64(const unsigned char *bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* Turns values of `width` bytes from the host's byte order into that of files, or back. */
static inline void tmi_to_file_order(void *values, size_t width, size_t count) {
    unsigned char *at = (unsigned char *)values;
    for (size_t i = 0; TMI_BIG_ENDIAN && i < count; i++, at += width)
        for (size_t k = 0; k < width / 2; k++) {
            unsigned char first = at[k];
            at[k] = at[width - 1 - k];
            at[width - 1 - k] = first;
        }
}

/* The FNV-1a hash: the same on every host, and no protection against deliberate collisions. */
static inline uint64_t tmi_fnv(const unsigned char *bytes, size_t len) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* error.c: error messages. */

/* Untrusted text made safe to print: quoted, escaped, and shortened in the middle. */
typedef struct tmi_quoted {
    char text[164];
} tmi_quoted;

/*
 * Use only inside the argument list of tmi_fail: tmi_quote(name, len).text. The text shown between
 * the quotes is limited to 96 bytes for a name and 144 for a path.
 */
tmi_quoted tmi_quote(const char *bytes, size_t len);
tmi_quoted tmi_quote_path(const char *path);
/* "1 byte", "16 bytes". */
tmi_quoted tmi_count(uint64_t n, const char *noun);
/* "92.4%", rounded down, so that only the whole is "100.0%". */
tmi_quoted tmi_share(uint64_t part, uint64_t whole);

/* The first few of many names, for an error message: "a", "b" and 3 more. Starts zeroed. */
typedef struct tmi_list {
    char text[260];
    size_t used, shown, count;
} tmi_list;

void tmi_list_add(tmi_list *list, const char *name, size_t len);
const char *tmi_list_end(tmi_list *list);

/*
 * Fills *error unless error is NULL, and returns status so that callers can `return tmi_fail(...)`.
 */
tenmap_status tmi_fail(tenmap_error *error, tenmap_status status, const char *format, ...)
    TMI_PRINTF(3, 4);
/* Like tmi_fail, and sets the error's shard and offset. */
tenmap_status tmi_fail_at(tenmap_error *error, tenmap_status status, uint32_t shard,
                          uint64_t offset, const char *format, ...) TMI_PRINTF(5, 6);
/*
 * For an error from the operating system: picks the status for os_error (an errno) and appends a
 * description of it.
 */
tenmap_status tmi_fail_os(tenmap_error *error, int os_error, const char *format, ...)
    TMI_PRINTF(3, 4);
/* Returns TENMAP_ERR_MEMORY; `what` names what the bytes were for. */
tenmap_status tmi_fail_memory(tenmap_error *error, uint64_t bytes, const char *what);
/*
 * Sets the remedy of an error that is already filled, unless error is NULL. Returns status, so that
 * callers can `return tmi_remedy(error, TENMAP_REMEDY_X, tmi_fail(error, ...))`.
 */
tenmap_status tmi_remedy(tenmap_error *error, uint32_t remedy, tenmap_status status);
/* Appends to the message of an error that is already filled; does nothing if error is NULL. */
void tmi_fail_more(tenmap_error *error, const char *format, ...) TMI_PRINTF(2, 3);

/* options.c: option structs that can gain fields in later versions. */

/* Describes one kind of option struct. The struct's first field is size_t struct_size. */
typedef struct tmi_options_kind {
    const char *name, *init; /* the struct, and the macro that initializes it */
    size_t size;             /* of the struct in this version of the library */
    size_t first_size;       /* of the first version: the smallest accepted */
    size_t flags;            /* offset of its uint32_t flags field; 0: it has none */
    uint32_t known;          /* all valid flags */
    size_t reserved;         /* offset of a uint32_t that must be 0; 0: it has none */
} tmi_options_kind;

/*
 * Copies *given to *out. Fields are zero where `given` is NULL or shorter than this version's
 * struct. Rejects a nonzero tail that this version does not know, unknown flags, and a nonzero
 * reserved field.
 */
tenmap_status tmi_options_copy(const tmi_options_kind *kind, const void *given, void *out,
                               tenmap_error *error);

/* pages.c, or pages_win32.c: memory and random numbers from the system. */

size_t tmi_page_size(void);
/* Zeroed pages from the system, huge pages where available; NULL if the system refuses. */
void *tmi_pages_alloc(size_t size);
void tmi_pages_free(void *pages, size_t size);
/*
 * Like tmi_pages_alloc, but aligned to 2 MiB. What tmi_aligned_free needs is stored in front of it.
 */
void *tmi_aligned_alloc(size_t size);
void tmi_aligned_free(void *pages);
/*
 * Returns the whole pages after the first `used` bytes to the system and lowers *size accordingly.
 */
void tmi_pages_trim(void *pages, size_t *size, size_t used);
void tmi_random(void *dst, size_t size);

/* memory.c: allocation with checked sizes. */

/* Allocates count * size zeroed bytes; NULL if the product overflows or memory runs out. */
void *tmi_calloc(size_t count, size_t size);
/*
 * Makes room for one more record in a growing array. Returns the array, which may have moved, and
 * raises *capacity. Returns NULL if memory runs out; the old array is then still valid.
 */
void *tmi_grow(void *array, size_t used, size_t *capacity, size_t size);
/* A NUL-terminated copy of the text, to be freed with free(); NULL if memory runs out. */
char *tmi_copy_text(const char *text, size_t len);

/*
 * An allocation that may be large: small ones come from malloc, large ones directly from the
 * system.
 */
typedef struct tmi_block {
    void *bytes;   /* NULL: nothing is allocated */
    size_t mapped; /* the length to return to the system; 0: it came from malloc */
} tmi_block;

bool tmi_block_alloc(tmi_block *block, size_t size);
/* Like tmi_block_alloc, but the bytes need not be zeroed. */
bool tmi_block_alloc_dirty(tmi_block *block, size_t size);
/* Releases the memory after the first `used` bytes where possible. The block may move. */
void tmi_block_trim(tmi_block *block, size_t used);
/* Like tmi_block_trim, but the block does not move. */
void tmi_block_trim_pages(tmi_block *block, size_t used);
void tmi_block_free(tmi_block *block);

/* name_index.c: a hash index over records that begin with {const char *name; size_t name_len}. */

typedef struct tmi_hash_key {
    uint64_t k[2];
} tmi_hash_key;

/*
 * Holds everything that a lookup compares, so that it need not load the record to reach the name.
 */
typedef struct tmi_slot {
    uint32_t record; /* the record's number + 1; 0: the slot is free */
    uint16_t tag;    /* the upper 16 bits of the hash */
    uint16_t len;    /* length of the name; UINT16_MAX: that long or longer */
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
/* Returns false if memory runs out or there are more than 2^32 - 3 records. */
bool tmi_names_init(tmi_names *names, const tmi_hash_key *key, const void *records, size_t stride,
                    size_t count);
/*
 * Doubles the table after `count` records were entered. Returns false, with nothing changed, if
 * memory runs out.
 */
bool tmi_names_double(tmi_names *names, size_t count);
void tmi_names_free(tmi_names *names);
/* Prefetches the slot of this hash, for a put that follows soon. */
static inline void tmi_names_prefetch(const tmi_names *names, uint64_t hash) {
#if defined(__GNUC__)
    __builtin_prefetch(&names->slots[hash & names->mask], 1);
#else
    (void)names, (void)hash;
#endif
}
/* Whether the table must be doubled before another record is added to these `count`. */
static inline bool tmi_names_full(const tmi_names *names, size_t count) {
    return count > names->mask / 2;
}
/*
 * Enters record i if its first slot is free and its name is shorter than UINT16_MAX. Returns false
 * otherwise; the caller then uses tmi_names_put.
 */
static inline bool tmi_names_put_first(tmi_names *names, size_t i, uint64_t hash, const char *name,
                                       size_t len) {
    tmi_slot *slot = &names->slots[hash & names->mask];
    if (TMI_UNLIKELY(slot->record || len >= UINT16_MAX))
        return false;
    *slot = tmi_slot_of((uint32_t)(i + 1), hash, name, len);
    return true;
}
/*
 * Enters record i and returns TMI_NONE. If an earlier record has the same name, returns that
 * record's number and enters nothing.
 */
size_t tmi_names_put(tmi_names *names, size_t i, uint64_t hash);
size_t tmi_names_find(const tmi_names *names, const char *name, size_t len, uint64_t hash);

/* utf8.c */

/* The length in bytes (1 to 4) of the valid character at s, or 0 if there is none. */
size_t tmi_utf8_char(const unsigned char *s, size_t left);
/* The offset of the first byte that is not valid UTF-8; len if all bytes are valid. */
size_t tmi_utf8_valid(const char *bytes, size_t len);

/* dtype.c: reads the table of element types, dtype_table.h. */

typedef struct tmi_dtype_info {
    const char *name;
    uint8_t name_len;
    uint8_t bits;  /* per element; 0 for the entry of TENMAP_AS_STORED */
    uint8_t align; /* alignment in bytes of a C object of this type; 1 if smaller than a byte */
    uint8_t kind;  /* TENMAP_KIND_* */
    bool infinity; /* the type can represent infinity */
} tmi_dtype_info;

extern const tmi_dtype_info tmi_dtypes[TMI_DTYPE_COUNT];

/* A dtype whose elements are stored in blocks. Block dtypes are not in tmi_dtypes. */
typedef struct tmi_block_dtype {
    const char *name;  /* NULL: no dtype has this number */
    uint16_t elements; /* per block */
    uint16_t bytes;    /* per block */
    uint8_t align;     /* alignment in bytes of a C struct of the block */
    tenmap_scheme scheme;
} tmi_block_dtype;

/* The row of a block dtype; NULL for any other dtype. */
const tmi_block_dtype *tmi_dtype_blocks(tenmap_dtype dtype);

/* The dtype with this SafeTensors name of `len` bytes, or TENMAP_AS_STORED if there is none. */
tenmap_dtype tmi_dtype_find(const char *name, size_t len);

/* The alignment in bytes of a C object that holds one element, or one block, of the dtype. */
unsigned tmi_dtype_align(tenmap_dtype dtype);

/*
 * The bytes that `count` elements of any dtype take; block dtypes take whole blocks. Returns false
 * and sets *bytes to UINT64_MAX if the size overflows: the bits of plain dtypes, or the bytes of
 * blocks, must fit into 64 bits.
 */
bool tmi_dtype_bytes(tenmap_dtype dtype, uint64_t count, uint64_t *bytes);
/* Like tmi_dtype_bytes, for callers that know that the size fits. */
uint64_t tmi_bytes_of(tenmap_dtype dtype, uint64_t count);
/*
 * For dtypes without blocks, where the elements must fill whole bytes. Returns TMI_BYTES_WHOLE and
 * sets *bytes; returns TMI_BYTES_OVERFLOW if the number of bits overflows, and TMI_BYTES_PART if
 * the last byte would be partly filled.
 */
enum { TMI_BYTES_WHOLE, TMI_BYTES_OVERFLOW, TMI_BYTES_PART };
int tmi_whole_bytes(tenmap_dtype dtype, uint64_t count, uint64_t *bytes);
/* How many elements fit into `room` bytes: a multiple of 8, and whole blocks of block dtypes. */
uint64_t tmi_elements_in(tenmap_dtype dtype, size_t room);
/* The bytes of one element; 0 if it is smaller than a byte or stored in a block. */
size_t tmi_dtype_width(tenmap_dtype dtype);
/* The bytes that `count` elements of `bits` bits each take, rounded up to whole bytes. */
uint64_t tmi_packed_bytes(uint64_t count, unsigned bits);
/*
 * The byte offset of element `i`, counted from element 0. *within is the element's first bit in
 * that byte. For block dtypes the offset is that of the block, and *within is the element's index
 * in it.
 */
uint64_t tmi_byte_of(tenmap_dtype dtype, uint64_t i, unsigned *within);

#endif
