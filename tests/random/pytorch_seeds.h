/* Random PyTorch checkpoints that obey the rules, or nearly, for random_pytorch.c. */
#ifndef TENMAP_TESTS_PYTORCH_SEEDS_H
#define TENMAP_TESTS_PYTORCH_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Random numbers: the same ones for the same seed. */
void roll_begin(uint64_t seed);
/* A number below `limit`, which is not 0. */
uint64_t roll(uint64_t limit);
/* A number of any size: small, around a power of two, or near the largest. */
uint64_t roll_size(void);

/* A growing buffer of bytes. */
typedef struct seed_bytes {
    unsigned char *at;
    size_t size, capacity;
} seed_bytes;

void put_bytes(seed_bytes *out, const void *bytes, size_t size);
/* The lowest `size` bytes of a number, little-endian. */
void put_number(seed_bytes *out, uint64_t number, unsigned size);

enum { SEED_STORAGES = 4 };

/* A random pickle of tensors that see the storages "0" to "3", as torch.save writes them. */
void put_pickle(seed_bytes *out, bool legacy);
/* A checkpoint around a pickle: a zip archive, or the form from before torch 1.6. */
void put_zip(seed_bytes *out, const seed_bytes *pickle);
void put_legacy(seed_bytes *out, const seed_bytes *pickle);

#endif
