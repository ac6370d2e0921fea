/*
 * Digests: SHA-256 of files, and fingerprints of tensors and models. Each needs a library that the tool
 * may have been built without; the commands say so then.
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
/* The whole file. 0, or an exit code after a sentence. Counts its bytes as progress. Any thread. */
int sha256_file(const char *path, unsigned char out[SHA256_BYTES]);

/*
 * fingerprint.c: 128 bits of XXH3, fast and not cryptographic: they tell models apart that were not made
 * to deceive. All numbers are little-endian, digests in XXH3's canonical (big-endian) form.
 *
 * A tensor's is XXH3 over: "tenmap tensor 1" and NUL; the length (4 bytes) and text of its dtype; its
 * rank (4); its dimensions (8 each); its size in bytes (8); and for each 16 MiB of its bytes as they are
 * in the file, the last part shorter, the XXH3 of that part. Its name is not in it.
 *
 * A model's is XXH3 over: "tenmap model 1", NUL, NUL; the number of tensors (8); and for each tensor,
 * sorted by the bytes of the names: length of the name (8), name, fingerprint (16). So neither order,
 * shards, alignment nor metadata change it.
 */
enum { FINGERPRINT_BYTES = 16, FINGERPRINT_PART = 16 << 20 };

typedef struct fingerprint {
    unsigned char bytes[FINGERPRINT_BYTES];
} fingerprint;

bool fingerprint_there(void); /* false: built without libxxhash */
/* out[i] of tenmap_at(i), on `threads` threads (0: as many as processors). 0 or an exit code. */
int fingerprint_tensors(const tenmap_model *model, unsigned threads, fingerprint *out);
/* Of one tensor that is mapped, on this thread; once interrupted() says so, of some of it. */
void fingerprint_tensor(const tenmap_tensor *tensor, fingerprint *out);
void fingerprint_model(const tenmap_model *model, const fingerprint *tensors, fingerprint *out);

/* Lower-case hexadecimal digits and a NUL. */
void hex_digits(const unsigned char *bytes, size_t count, char *out);

#endif
