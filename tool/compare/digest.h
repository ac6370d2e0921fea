/*
 * Digests: SHA-256 of files, and fingerprints of tensors and models. Each needs a library that the
 * tool may have been built without; the commands report that.
 */
#ifndef TOOL_DIGEST_H
#define TOOL_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/* sha256.c */
enum { SHA256_BYTES = 32 };
bool sha256_there(void); /* false: built without OpenSSL's libcrypto */
/*
 * Hashes the whole file. Returns 0, or an exit code after printing an error. Counts the bytes as
 * progress. May be called from any thread.
 */
int sha256_file(const char *path, unsigned char out[SHA256_BYTES]);

/*
 * fingerprint.c: 128 bits of XXH3, which is fast but not cryptographic: it distinguishes models
 * that were not crafted to collide. All numbers are little-endian; digests are in XXH3's canonical
 * (big-endian) form.
 *
 * A tensor's fingerprint is XXH3 over: "tenmap tensor 1" and NUL; the length (4 bytes) and text of
 * its dtype; its rank (4); its dimensions (8 each); its size in bytes (8); and the XXH3 of each 16
 * MiB of its bytes as stored in the file (the last piece may be shorter). The name is not included.
 *
 * A model's fingerprint is XXH3 over: "tenmap model 1", NUL, NUL; the number of tensors (8); and
 * for each tensor, sorted by the bytes of the names: the length of the name (8), the name, and the
 * fingerprint (16). Order, shards, alignment and metadata therefore do not change it.
 */
enum { FINGERPRINT_BYTES = 16, FINGERPRINT_PART = 16 << 20 };

typedef struct fingerprint {
    unsigned char bytes[FINGERPRINT_BYTES];
} fingerprint;

bool fingerprint_there(void); /* false: built without libxxhash */
/*
 * out[i] is for tenmap_at(i). Uses `threads` threads (0: one per processor). Returns 0 or an exit
 * code.
 */
int fingerprint_tensors(const tenmap_model *model, unsigned threads, fingerprint *out);
/*
 * Fingerprints one mapped tensor on the calling thread. Once interrupted() is true the result
 * covers only part of the tensor.
 */
void fingerprint_tensor(const tenmap_tensor *tensor, fingerprint *out);
void fingerprint_model(const tenmap_model *model, const fingerprint *tensors, fingerprint *out);

/* Writes lowercase hexadecimal digits and a NUL. */
void hex_digits(const unsigned char *bytes, size_t count, char *out);

#endif
