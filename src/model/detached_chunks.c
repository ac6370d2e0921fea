/* Records which chunks of a shard's mapping have been replaced with the process's own memory. */
#include "model.h"

#include <stdlib.h>

/* Chunks end at addresses that are multiples of this, so that no huge page is split. */
enum { MOVED_PIECE = 16 << 20 };

struct tmi_detached {
    size_t pieces;
    atomic_bool moved[];
};

static uint64_t first_address(const tmi_file *file) {
    return (uint64_t)(uintptr_t)file->map;
}

static size_t piece_count(const tmi_file *file) {
    uint64_t first = first_address(file);
    return (size_t)((first + file->map_size - 1) / MOVED_PIECE - first / MOVED_PIECE + 1);
}

static size_t piece_at(const tmi_file *file, uint64_t offset) {
    uint64_t first = first_address(file);
    return (size_t)((first + (offset - file->map_offset)) / MOVED_PIECE - first / MOVED_PIECE);
}

size_t tmi_detached_begin(tmi_shard *shard) {
    tmi_detached *moved = atomic_load(&shard->moved);
    size_t pieces = piece_count(&shard->bytes.file);
    if (moved)
        return moved->pieces;
    if (pieces > (SIZE_MAX - sizeof *moved) / sizeof moved->moved[0])
        return 0;
    moved = tmi_calloc(1, sizeof *moved + pieces * sizeof moved->moved[0]);
    if (!moved)
        return 0;
    moved->pieces = pieces;
    atomic_store(&shard->moved, moved);
    return pieces;
}

void tmi_detached_end(tmi_shard *shard) {
    free(atomic_exchange(&shard->moved, NULL));
}

tmi_span tmi_detached_chunk(const tmi_shard *shard, size_t piece) {
    const tmi_file *file = &shard->bytes.file;
    uint64_t first = first_address(file), page = tmi_page_size();
    uint64_t before = first % MOVED_PIECE, last = file->map_offset + file->map_size;
    tmi_span span = {shard, file->map_offset, file->map_offset};
    if (piece > 0)
        span.begin += piece * (uint64_t)MOVED_PIECE - before;
    span.end += (piece + 1) * (uint64_t)MOVED_PIECE - before;
    last += (page - last % page) % page;
    if (span.end > last)
        span.end = last;
    return span;
}

void tmi_detached_set(tmi_shard *shard, size_t piece) {
    atomic_store(&atomic_load(&shard->moved)->moved[piece], true);
}

bool tmi_is_detached(const tmi_shard *shard, size_t piece) {
    const tmi_detached *moved = atomic_load(&((tmi_shard *)(uintptr_t)shard)->moved);
    return moved && atomic_load(&((tmi_detached *)(uintptr_t)moved)->moved[piece]);
}

bool tmi_next_mapped(tmi_span *rest, tmi_span *run) {
    const tmi_shard *shard = rest->shard;
    *run = *rest;
    if (!atomic_load(&((tmi_shard *)(uintptr_t)shard)->moved)) {
        rest->begin = rest->end;
        return run->begin < run->end;
    }
    while (rest->begin < rest->end &&
           tmi_is_detached(shard, piece_at(&shard->bytes.file, rest->begin)))
        rest->begin = tmi_detached_chunk(shard, piece_at(&shard->bytes.file, rest->begin)).end;
    run->begin = rest->begin;
    while (rest->begin < rest->end &&
           !tmi_is_detached(shard, piece_at(&shard->bytes.file, rest->begin)))
        rest->begin = tmi_detached_chunk(shard, piece_at(&shard->bytes.file, rest->begin)).end;
    run->end = rest->begin < rest->end ? rest->begin : rest->end;
    return run->begin < run->end;
}
