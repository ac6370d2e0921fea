/* Arenas: the memory of tenmap_take, from the library or from the caller's allocator. */
#include "values.h"

#include <stdlib.h>

/* One allocation. An arena is a list of them, which its first one stands for. */
struct tenmap_arena {
    void *memory;
    size_t bytes;
    void (*dealloc)(void *alloc_ctx, void *memory, size_t bytes); /* NULL: the library's memory */
    void *alloc_ctx;
    tenmap_arena *next;
};

static void free_piece(tenmap_arena *piece) {
    if (piece->dealloc)
        piece->dealloc(piece->alloc_ctx, piece->memory, piece->bytes);
    else
        tmi_aligned_free(piece->memory);
    free(piece);
}

tenmap_status tmi_arena_create(tenmap_arena **out, const tenmap_load_options *options,
                               uint64_t bytes, size_t alignment, tenmap_error *error) {
    tenmap_arena *piece = tmi_calloc(1, sizeof *piece);
    if (!piece)
        return tmi_fail_memory(error, sizeof *piece, "an arena");
    piece->bytes = bytes ? (size_t)bytes : 1;
    piece->dealloc = options->dealloc;
    piece->alloc_ctx = options->alloc_ctx;
    piece->memory = options->alloc ? options->alloc(options->alloc_ctx, piece->bytes, alignment)
                                   : tmi_aligned_alloc(piece->bytes);
    if (!piece->memory) {
        free(piece);
        return tmi_fail_memory(error, bytes, "weights");
    }
    if ((uintptr_t)piece->memory % alignment != 0) {
        free_piece(piece);
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.alloc returned memory that is not aligned to %llu bytes",
                        (ull)alignment);
    }
    *out = piece;
    return TENMAP_OK;
}

unsigned char *tmi_arena_memory(const tenmap_arena *arena) {
    return arena->memory;
}

void tmi_arena_append(tenmap_arena *arena, tenmap_arena *more) {
    more->next = arena->next;
    arena->next = more;
}

void tenmap_arena_free(tenmap_arena *arena) {
    while (arena) {
        tenmap_arena *next = arena->next;
        free_piece(arena);
        arena = next;
    }
}
