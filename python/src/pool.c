/*
 * Memory that a program has freed, kept for later loads. The system clears fresh pages one by one,
 * which costs several times as much as filling them; kept pages cost nothing. Off by default,
 * because kept memory is memory that other programs lack. The module locks the pool.
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

static void *pool_take(tpy_pool *pool, size_t size, size_t *base_size) {
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

void *tpy_pool_take(tpy_state *state, size_t size, size_t *base_size) {
    void *found;
    TPY_LOCK(state->module);
    found = pool_take(state->pool, size, base_size);
    TPY_UNLOCK();
    return found;
}

static int pool_give(tpy_pool *pool, void *base, size_t size) {
    if (pool == NULL || pool->count == MOST_BLOCKS || size > pool->limit - pool->bytes)
        return 0;
    pool->blocks[pool->count++] = (block){base, size};
    pool->bytes += size;
    return 1;
}

int tpy_pool_give(tpy_state *state, void *base, size_t size) {
    int is_kept;
    TPY_LOCK(state->module);
    is_kept = pool_give(state->pool, base, size);
    TPY_UNLOCK();
    return is_kept;
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

/* The bytes that are kept with the new limit; -1 if there is no memory for the pool itself. */
static Py_ssize_t set_limit(tpy_state *state, size_t limit) {
    if (state->pool == NULL && limit == 0)
        return 0;
    if (state->pool == NULL)
        state->pool = calloc(1, sizeof *state->pool);
    if (state->pool == NULL)
        return -1;
    pool_shrink(state->pool, limit);
    return (Py_ssize_t)state->pool->bytes;
}

/* keep_memory(limit) -> the bytes that are kept now. */
PyObject *tpy_keep_memory(PyObject *module, PyObject *args) {
    tpy_number limit = {"bytes", PY_SSIZE_T_MAX, 0};
    Py_ssize_t kept;
    if (!PyArg_ParseTuple(args, "O&:keep_memory", tpy_number_of, &limit))
        return NULL;
    TPY_LOCK(module);
    kept = set_limit(PyModule_GetState(module), (size_t)limit.value);
    TPY_UNLOCK();
    return kept < 0 ? PyErr_NoMemory() : PyLong_FromSsize_t(kept);
}
