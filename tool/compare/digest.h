/* Digests: SHA-256 of files, and fingerprints of tensors and models. */
#ifndef TOOL_DIGEST_H
#define TOOL_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/* sha256_file.c */
enum { SHA256_BYTES = 32 };
/*
 * Hashes the whole file. Returns 0, or an exit code after printing an error. Counts the bytes as
 * progress. May be called from any thread.
 */
int sha256_file(const char *path, unsigned char out[SHA256_BYTES]);

/* fingerprint.c: the library's fingerprints, with a progress bar. docs/tool.md defines them. */
enum { FINGERPRINT_BYTES = TENMAP_FINGERPRINT_BYTES };

typedef struct fingerprint {
    unsigned char bytes[FINGERPRINT_BYTES];
} fingerprint;

/*
 * out[i] is for tensors[i]. Uses `threads` threads (0: the library decides). Returns 0, or an exit
 * code after printing an error.
 */
int fingerprint_tensors(const tenmap_tensor *const *tensors, size_t count, unsigned threads,
                        fingerprint *out);
/* The same for all tensors of a model in the order of tenmap_at, and for the model itself. */
int fingerprint_model(const tenmap_model *model, unsigned threads, fingerprint *tensors,
                      fingerprint *out);

/* Writes lowercase hexadecimal digits and a NUL. */
void hex_digits(const unsigned char *bytes, size_t count, char *out);

#endif
