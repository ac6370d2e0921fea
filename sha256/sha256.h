/*
 * SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for the tool and for libtenmap-http. Both
 * compile these files in. The library itself does not use them.
 *
 * A stream is hashed by the first of these engines that suits it: the processor's instructions for
 * SHA-256, the system's libcrypto, and plain C. All give the same digest. libcrypto is loaded when
 * it is first needed, by the names of its versions 3 and 1.1; nothing depends on it. Two macros
 * change that: TENMAP_LINK_LIBCRYPTO uses a libcrypto that the program is linked with, for
 * everything, and TENMAP_NO_DLOPEN never looks for one.
 *
 * Streams are independent: each may be used on any thread, by one thread at a time.
 */
#ifndef TENMAP_SHA256_H
#define TENMAP_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TMI_SHA256_BYTES = 32, TMI_SHA256_BLOCK = 64 };

/* Engines. Callers leave the choice to tmi_sha256_begin; tests and benchmarks name one. */
typedef enum tmi_sha256_engine {
    TMI_SHA256_PLAIN,
    TMI_SHA256_INSTRUCTIONS,
    TMI_SHA256_LIBCRYPTO
} tmi_sha256_engine;

/* The state of a stream, without secrets once it has ended. Its fields are private. */
typedef struct tmi_sha256 {
    uint32_t words[8];
    unsigned char block[TMI_SHA256_BLOCK]; /* the last total % 64 bytes */
    uint64_t total;                        /* in bytes */
    void (*compress)(uint32_t words[8], const unsigned char *blocks, size_t count);
    void *libcrypto; /* NULL: hashed here */
    bool chosen, failed;
} tmi_sha256;

/* Starts a stream. Each stream that was started must be ended, since it may own memory. */
void tmi_sha256_begin(tmi_sha256 *stream);
/* Starts a stream with one engine. Returns false if the machine does not have it. */
bool tmi_sha256_begin_with(tmi_sha256 *stream, tmi_sha256_engine engine);
void tmi_sha256_add(tmi_sha256 *stream, const void *bytes, size_t size);
/* Ends the stream. Returns false, without a digest, only if libcrypto failed. */
bool tmi_sha256_end(tmi_sha256 *stream, unsigned char out[TMI_SHA256_BYTES]);

/* The digest of bytes that are all there. Returns false as tmi_sha256_end does. */
bool tmi_sha256_of(const void *bytes, size_t size, unsigned char out[TMI_SHA256_BYTES]);
/* The authentication code of `bytes` under `key`. `out` may be `key`. Returns false likewise. */
bool tmi_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                     unsigned char out[TMI_SHA256_BYTES]);

/* Overwrites a secret with zeros; the compiler does not remove this call. */
void tmi_wipe(void *secret, size_t size);

/* sha256_cpu.c: the instructions, or NULL if this processor or compiler does not have them. */
typedef void (*tmi_sha256_compress)(uint32_t words[8], const unsigned char *blocks, size_t count);
tmi_sha256_compress tmi_sha256_instructions(void);
extern const uint32_t tmi_sha256_constants[64];

/*
 * libcrypto.c: a stream in libcrypto, or NULL if there is none or it fails. Ending a stream frees
 * it, also with `out` NULL, which gives no digest.
 */
void *tmi_libcrypto_begin(void);
bool tmi_libcrypto_add(void *stream, const void *bytes, size_t size);
bool tmi_libcrypto_end(void *stream, unsigned char out[TMI_SHA256_BYTES]);

#endif
