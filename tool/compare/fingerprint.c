/*
 * Fingerprints with XXH3: pieces of tensors are hashed on threads, then one digest covers the
 * pieces.
 */
#include "compare/digest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command.h"
#include "model/dequantized_weights.h"
#include "view/print.h"
#include "view/progress.h"
#include "output/output_plan.h"
#include "parallel_for.h"

#ifdef TOOL_HAVE_XXHASH
#include <xxhash.h>

bool fingerprint_there(void) {
    return true;
}

typedef struct part {
    uint32_t tensor, number;
} part;

typedef struct printing {
    const tenmap_model *model;
    const part *parts;
    fingerprint *digests; /* one per piece */
} printing;

static fingerprint digest(const void *bytes, size_t size) {
    XXH128_canonical_t canonical;
    fingerprint out;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(out.bytes, canonical.digest, sizeof out.bytes);
    return out;
}

/*
 * Maps the pages before they are touched, which is several times cheaper than page faults. Also
 * detects a file that was truncated since it was opened.
 */
static int bring_in(const tenmap_tensor *t, const char *bytes, size_t size) {
#ifdef MADV_POPULATE_READ
    enum { WORTH_A_CALL = 256 << 10 };
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)bytes;
    uintptr_t begin = at & ~(page - 1), end = (at + size + page - 1) & ~(page - 1);
    if (size >= WORTH_A_CALL && madvise((void *)begin, end - begin, MADV_POPULATE_READ) != 0 &&
        errno == EFAULT) {
        text name = {0}; /* local, since threads run this */
        text_add_safe(&name, t->name, t->name_len < 200 ? t->name_len : 200);
        int status =
            fail(EXIT_FAILED, "tensor '%s': its bytes cannot be read any more", name.bytes);
        text_free(&name);
        return status;
    }
#else
    (void)t, (void)bytes, (void)size;
#endif
    return EXIT_FINE;
}

/* Releases the piece from memory, not from the page cache, before the next one. */
static void let_go(const char *bytes, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)bytes;
    uintptr_t begin = (at + page - 1) & ~(page - 1), end = (at + size) & ~(page - 1);
    if (size >= FINGERPRINT_PART && end > begin)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static int print_mapped(const tenmap_tensor *t, uint64_t begin, size_t size, fingerprint *out) {
    const char *bytes = (const char *)t->data + begin;
    int status = bring_in(t, bytes, size);
    if (status)
        return status;
    *out = digest(bytes, size);
    let_go(bytes, size);
    return EXIT_FINE;
}

static int print_read(const tenmap_tensor *t, uint64_t begin, size_t size, fingerprint *out) {
    tenmap_error error;
    int status = EXIT_FINE;
    char *bytes = need(size, 1);
    if (tenmap_read_bytes(t, begin, size, bytes, &error) == TENMAP_OK)
        *out = digest(bytes, size);
    else
        status = fail_error(&error);
    free(bytes);
    return status;
}

/*
 * Fingerprints a tensor that has no bytes of its own: the bytes that a plain tensor of its dtype
 * would hold, in file byte order.
 */
static int print_values(const tenmap_tensor *t, uint64_t begin, size_t size, fingerprint *out) {
    const uint16_t one = 1;
    size_t width = (size_t)(t->nbytes / t->nelems);
    size_t swapped = t->dtype == TENMAP_C64 ? width / 2 : width; /* two numbers each */
    char *bytes = need(size, 1);
    tenmap_error error;
    tenmap_status status =
        tenmap_read(t, begin / width, size / width, TENMAP_AS_STORED, bytes, size, 0, &error);
    for (size_t i = 0; !*(const char *)&one && i < size; i += swapped)
        for (size_t k = 0; k < swapped / 2; k++) {
            char kept = bytes[i + k];
            bytes[i + k] = bytes[i + swapped - 1 - k];
            bytes[i + swapped - 1 - k] = kept;
        }
    if (status == TENMAP_OK)
        *out = digest(bytes, size);
    free(bytes);
    return status == TENMAP_OK ? EXIT_FINE : fail_error(&error);
}

static int print_part(void *ctx, size_t i) {
    const printing *all = ctx;
    const tenmap_tensor *t = tenmap_at(all->model, all->parts[i].tensor);
    uint64_t begin = (uint64_t)all->parts[i].number * FINGERPRINT_PART;
    uint64_t left = t->nbytes - begin;
    size_t size = left < FINGERPRINT_PART ? (size_t)left : FINGERPRINT_PART;
    int status = has_no_bytes(t) ? print_values(t, begin, size, &all->digests[i])
                 : t->data       ? print_mapped(t, begin, size, &all->digests[i])
                                 : print_read(t, begin, size, &all->digests[i]);
    if (status)
        return status;
    progress_add(size);
    return EXIT_FINE;
}

static void add_number(text *to, uint64_t number, size_t width) {
    char bytes[8];
    for (size_t i = 0; i < width; i++)
        bytes[i] = (char)(number >> (8 * i));
    text_add(to, bytes, width);
}

static fingerprint print_tensor(const tenmap_tensor *t, const fingerprint *parts, size_t count,
                                text *room) {
    const char *dtype = tenmap_dtype_text(t);
    text_clear(room);
    text_add(room, "tenmap tensor 1", 16);
    add_number(room, strlen(dtype), 4);
    text_add(room, dtype, strlen(dtype));
    add_number(room, t->rank, 4);
    for (uint32_t d = 0; d < t->rank; d++)
        add_number(room, t->shape[d], 8);
    add_number(room, t->nbytes, 8);
    text_add(room, (const char *)parts, count * sizeof *parts);
    return digest(room->bytes, room->len);
}

static size_t parts_of(const tenmap_tensor *t) {
    return (size_t)(t->nbytes / FINGERPRINT_PART + (t->nbytes % FINGERPRINT_PART != 0));
}

void fingerprint_tensor(const tenmap_tensor *t, fingerprint *out) {
    size_t count = parts_of(t);
    fingerprint *parts = need(count, sizeof *parts);
    text room = {0};
    for (size_t i = 0; i < count && !interrupted(); i++) {
        uint64_t begin = (uint64_t)i * FINGERPRINT_PART, left = t->nbytes - begin;
        size_t size = left < FINGERPRINT_PART ? (size_t)left : FINGERPRINT_PART;
        parts[i] = digest((const char *)t->data + begin, size);
        let_go((const char *)t->data + begin, size);
    }
    *out = print_tensor(t, parts, count, &room);
    text_free(&room);
    free(parts);
}

int fingerprint_tensors(const tenmap_model *model, unsigned threads, fingerprint *out) {
    size_t count = tenmap_count(model), total = 0, next = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts_of(tenmap_at(model, i));
        bytes += tenmap_at(model, i)->nbytes;
    }
    part *parts = need(total, sizeof *parts);
    printing all = {model, parts, need(total, sizeof *all.digests)};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < parts_of(tenmap_at(model, i)); k++)
            parts[next++] = (part){(uint32_t)i, (uint32_t)k};
    progress_begin("fingerprints", bytes);
    int status = parallel_for(threads, total, print_part, &all);
    progress_end();
    text room = {0};
    next = 0;
    for (size_t i = 0; !status && i < count; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        out[i] = print_tensor(t, all.digests + next, parts_of(t), &room);
        next += parts_of(t);
    }
    text_free(&room);
    free(parts);
    free(all.digests);
    return status;
}

void fingerprint_model(const tenmap_model *model, const fingerprint *tensors, fingerprint *out) {
    size_t count = tenmap_count(model);
    named *names = need(count, sizeof *names);
    text all = {0};
    for (size_t i = 0; i < count; i++)
        names[i] = (named){tenmap_at(model, i)->name, tenmap_at(model, i)->name_len, i};
    sort_named(names, count);
    text_add(&all, "tenmap model 1\0", 16);
    add_number(&all, count, 8);
    for (size_t i = 0; i < count; i++) {
        add_number(&all, names[i].len, 8);
        text_add(&all, names[i].name, names[i].len);
        text_add(&all, (const char *)tensors[names[i].at].bytes, FINGERPRINT_BYTES);
    }
    *out = digest(all.bytes, all.len);
    text_free(&all);
    free(names);
}

#else

bool fingerprint_there(void) {
    return false;
}

void fingerprint_tensor(const tenmap_tensor *t, fingerprint *out) {
    (void)t, (void)out;
}

int fingerprint_tensors(const tenmap_model *model, unsigned threads, fingerprint *out) {
    (void)model, (void)threads, (void)out;
    return EXIT_FAILED;
}

void fingerprint_model(const tenmap_model *model, const fingerprint *tensors, fingerprint *out) {
    (void)model, (void)tensors, (void)out;
}

#endif
