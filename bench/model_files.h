/*
 * Model files for benchmarks: the header as the reference writes it, and behind it a hole. They are
 * sparse, so that a model of hundreds of gigabytes takes no more of the disk than its header.
 */
#ifndef BENCH_MODEL_FILES_H
#define BENCH_MODEL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum model_family {
    MODEL_LLAMA3_8B, /* 291 tensors, BF16 */
    MODEL_DEEPSEEK   /* as many as asked for: F8_E4M3 experts, each with an F32 scale */
};

enum { MODEL_LLAMA3_8B_TENSORS = 291 };

/*
 * Writes a model with the family's first `tensors` tensors to a new file and sets *header_bytes to
 * the length of its JSON. On failure says why on stderr, removes the file and returns false.
 */
bool model_file_write(const char *path, enum model_family family, size_t tensors,
                      uint64_t *header_bytes);

#endif
