/*
 * What the modules of the library know of each other. Dependencies point one way:
 *
 *     model -> shard -> header -> json -> utf8
 *     model -> folder, index -> json
 *     read  -> convert -> kernels, cpu, dtype
 *     all   -> error, memory, file
 *
 * Names with external linkage start with tmi_; everything else is static. No two files use the same
 * static name, so that they can be joined into one.
 */
#ifndef TENMAP_INTERNAL_H
#define TENMAP_INTERNAL_H

#include "../include/tenmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TMI_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define TMI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TMI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TMI_NOINLINE __attribute__((noinline))
#else
#define TMI_PRINTF(at, first)
#define TMI_LIKELY(x) (x)
#define TMI_UNLIKELY(x) (x)
#define TMI_NOINLINE
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TMI_BIG_ENDIAN 1
#else
#define TMI_BIG_ENDIAN 0
#endif

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

/* utf8.c */

/* The length (1 to 4) of the valid character at s, or 0. */
size_t tmi_utf8_char(const unsigned char *s, size_t left);
/* The offset of the first byte that is not valid UTF-8; len if all is. */
size_t tmi_utf8_valid(const char *bytes, size_t len);

/* dtype.c: the one table of element types. */

enum { TMI_DTYPE_COUNT = TENMAP_U64 + 1 };
enum { TMI_KIND_NONE, TMI_KIND_BOOL, TMI_KIND_UINT, TMI_KIND_INT, TMI_KIND_FLOAT, TMI_KIND_COMPLEX };

typedef struct tmi_dtype_info {
    const char *name;
    uint8_t name_len;
    uint8_t bits;  /* per element; 0 for the entry of TENMAP_AS_STORED */
    uint8_t align; /* bytes that a C object of this type wants; 1 below a byte */
    uint8_t kind;  /* TMI_KIND_* */
} tmi_dtype_info;

extern const tmi_dtype_info tmi_dtypes[TMI_DTYPE_COUNT];

/* The dtype of a name of `len` bytes, or TENMAP_AS_STORED if it is unknown. */
tenmap_dtype tmi_dtype_find(const char *name, size_t len);

/* convert.c: numbers. */

/*
 * Whether elements of `from` can become `to` under these TENMAP_CONVERT_* flags. UNSUPPORTED or
 * ARGUMENT with a sentence otherwise. Neither dtype may be TENMAP_AS_STORED.
 */
tenmap_status tmi_convert_check(tenmap_dtype to, tenmap_dtype from, uint32_t flags,
                                tenmap_error *error);

/*
 * Converts `count` elements of a pair that passed the check. The source is in file order
 * (little-endian) and starts at bit src_bit (0..7, for 4- and 6-bit dtypes) of *src; the result is in
 * host order and starts at bit dst_bit of *dst. Bits of *dst before dst_bit are kept; spare bits
 * after the last element of the last byte become 0. Any alignment; no overlap.
 */
void tmi_convert_file(tenmap_dtype to, void *dst, unsigned dst_bit, tenmap_dtype from,
                      const void *src, unsigned src_bit, uint64_t count, uint32_t flags);

/* parallel.c: work split over threads. */

enum { TMI_MOST_THREADS = 64 };

typedef void tmi_work(void *ctx, size_t part);

/*
 * Calls work(ctx, part) once for each part below `parts`, on up to `threads` threads, the caller's
 * among them, and returns when all are done. Parts are handed out in order, one at a time, so a
 * thread that falls behind takes fewer. Threads that the system refuses are done without; those
 * that it grants block all signals and are joined before the return.
 */
void tmi_parallel(unsigned threads, size_t parts, tmi_work *work, void *ctx);

#endif
