/*
 * Memory that a program has freed, kept for later loads. The system clears fresh pages one by one,
 * which costs several times as much as filling them; kept pages cost nothing. Off by default,
 * because kept memory is memory that other programs lack. Everything here runs with the GIL.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* The most blocks: a limit on the search for one. */
#define MOST_BLOCKS 4096

typedef struct block {
    void *base;
    size_t size;
} block;

struct tpy_pool {
    block blocks[MOST_BLOCKS]; /* the oldest first */
    size_t count, bytes, limit;
};

/* Removes a block from the list. */
static block pool_remove(tpy_pool *pool, size_t i) {
    block found = pool->blocks[i];
    pool->count--;
    pool->bytes -= found.size;
    memmove(&pool->blocks[i], &pool->blocks[i + 1], (pool->count - i) * sizeof found);
    return found;
}

/* A kept block for `size` bytes, of which it wastes a fifth at most; NULL if there is none. */
void *tpy_pool_take(tpy_pool *pool, size_t size, size_t *base_size) {
    size_t best = MOST_BLOCKS;
    for (size_t i = 0; pool != NULL && i < pool->count; i++) {
        size_t has = pool->blocks[i].size;
        if (has >= size && has - size <= size / 4 &&
            (best == MOST_BLOCKS || has < pool->blocks[best].size))
            best = i;
    }
    if (best == MOST_BLOCKS)
        return NULL;
    block found = pool_remove(pool, best);
    *base_size = found.size;
    return found.base;
}

int tpy_pool_give(tpy_pool *pool, void *base, size_t size) {
    if (pool == NULL || pool->count == MOST_BLOCKS || size > pool->limit - pool->bytes)
        return 0;
    pool->blocks[pool->count++] = (block){base, size};
    pool->bytes += size;
    return 1;
}

/* Frees the oldest blocks until the limit is kept. */
static void pool_shrink(tpy_pool *pool, size_t limit) {
    pool->limit = limit;
    while (pool->bytes > limit)
        tenmap_free(pool_remove(pool, 0).base);
}

void tpy_pool_free(tpy_pool *pool) {
    if (pool != NULL)
        pool_shrink(pool, 0);
    free(pool);
}

/* keep_memory(limit) -> the bytes that are kept now. */
PyObject *tpy_keep_memory(PyObject *module, PyObject *args) {
    tpy_state *state = PyModule_GetState(module);
    tpy_number limit = {"bytes", PY_SSIZE_T_MAX, 0};
    if (!PyArg_ParseTuple(args, "O&:keep_memory", tpy_number_of, &limit))
        return NULL;
    if (state->pool == NULL && limit.value > 0) {
        state->pool = calloc(1, sizeof *state->pool);
        if (state->pool == NULL)
            return PyErr_NoMemory();
    }
    if (state->pool == NULL)
        return PyLong_FromLong(0);
    pool_shrink(state->pool, (size_t)limit.value);
    return PyLong_FromSize_t(state->pool->bytes);
}
