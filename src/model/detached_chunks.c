/* Records which chunks of a shard's mapping have been replaced with the process's own memory. */
#include "model.h"

#include <stdlib.h>

/* Chunks end at addresses that are multiples of this, so that no huge page is split. */
enum { CHUNK_BYTES = 16 << 20 };

struct tmi_detached {
    size_t chunk_count;
    atomic_bool detached[];
};

static uint64_t first_address(const tmi_file *file) {
    return (uint64_t)(uintptr_t)file->map;
}

static size_t count_chunks(const tmi_file *file) {
    uint64_t first = first_address(file);
    return (size_t)((first + file->map_size - 1) / CHUNK_BYTES - first / CHUNK_BYTES + 1);
}

static size_t chunk_at(const tmi_file *file, uint64_t offset) {
    uint64_t first = first_address(file);
    return (size_t)((first + (offset - file->map_offset)) / CHUNK_BYTES - first / CHUNK_BYTES);
}

size_t tmi_detached_begin(tmi_shard *shard) {
    tmi_detached *detached = atomic_load(&shard->detached);
    size_t chunk_count = count_chunks(&shard->bytes.file);
    if (detached)
        return detached->chunk_count;
    if (chunk_count > (SIZE_MAX - sizeof *detached) / sizeof detached->detached[0])
        return 0;
    detached = tmi_calloc(1, sizeof *detached + chunk_count * sizeof detached->detached[0]);
    if (!detached)
        return 0;
    detached->chunk_count = chunk_count;
    atomic_store(&shard->detached, detached);
    return chunk_count;
}

void tmi_detached_end(tmi_shard *shard) {
    free(atomic_exchange(&shard->detached, NULL));
}

tmi_span tmi_detached_chunk(const tmi_shard *shard, size_t chunk) {
    const tmi_file *file = &shard->bytes.file;
    uint64_t first = first_address(file), page = tmi_page_size();
    uint64_t before = first % CHUNK_BYTES, last = file->map_offset + file->map_size;
    tmi_span span = {shard, file->map_offset, file->map_offset};
    if (chunk > 0)
        span.begin += chunk * (uint64_t)CHUNK_BYTES - before;
    span.end += (chunk + 1) * (uint64_t)CHUNK_BYTES - before;
    last += (page - last % page) % page;
    if (span.end > last)
        span.end = last;
    return span;
}

void tmi_detached_set(tmi_shard *shard, size_t chunk) {
    atomic_store(&atomic_load(&shard->detached)->detached[chunk], true);
}

bool tmi_is_detached(const tmi_shard *shard, size_t chunk) {
    const tmi_detached *detached = atomic_load(&((tmi_shard *)(uintptr_t)shard)->detached);
    return detached && atomic_load(&((tmi_detached *)(uintptr_t)detached)->detached[chunk]);
}

bool tmi_next_mapped(tmi_span *rest, tmi_span *run) {
    const tmi_shard *shard = rest->shard;
    *run = *rest;
    if (!atomic_load(&((tmi_shard *)(uintptr_t)shard)->detached)) {
        rest->begin = rest->end;
        return run->begin < run->end;
    }
    while (rest->begin < rest->end &&
           tmi_is_detached(shard, chunk_at(&shard->bytes.file, rest->begin)))
        rest->begin = tmi_detached_chunk(shard, chunk_at(&shard->bytes.file, rest->begin)).end;
    run->begin = rest->begin;
    while (rest->begin < rest->end &&
           !tmi_is_detached(shard, chunk_at(&shard->bytes.file, rest->begin)))
        rest->begin = tmi_detached_chunk(shard, chunk_at(&shard->bytes.file, rest->begin)).end;
    run->end = rest->begin < rest->end ? rest->begin : rest->end;
    return run->begin < run->end;
}
