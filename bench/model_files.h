/*
 * Model files for benchmarks: the header as the reference writes it, followed by a hole. They are
 * sparse, so that a model of hundreds of gigabytes takes no more disk space than its header.
 */
#ifndef BENCH_MODEL_FILES_H
#define BENCH_MODEL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum model_family {
    MODEL_LLAMA3_8B, /* 291 tensors, BF16 */
    MODEL_DEEPSEEK   /* any number of tensors: F8_E4M3 experts, each with an F32 scale */
};

enum { MODEL_LLAMA3_8B_TENSORS = 291 };

/*
 * Writes a model with the family's first `tensors` tensors to a new file and sets *header_bytes to
 * the length of its JSON. On failure says why on stderr, removes the file and returns false.
 */
bool model_file_write(const char *path, enum model_family family, size_t tensors,
                      uint64_t *header_bytes);
/*
 * Writes the same model in this many shards, with their index at `path`, as transformers writes it
 * (sorted, indented). The shards are beside it under the names of model_shard_name. *header_bytes
 * is the length of all headers and the index. On failure the files that were written stay.
 */
bool model_set_write(const char *path, enum model_family family, size_t tensors, size_t shards,
                     uint64_t *header_bytes);
/* The name of a shard, counted from 0, of an index of this name. */
enum { MODEL_SHARD_NAME = 64 };
void model_shard_name(char out[MODEL_SHARD_NAME], const char *index, size_t shard, size_t shards);

#endif
