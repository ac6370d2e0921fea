/* SHA-256 of the system's libcrypto, which is loaded when it is first needed, or linked. */
#include "sha256.h"

#ifdef TENMAP_LINK_LIBCRYPTO
#include <openssl/evp.h>

void *tmi_libcrypto_begin(void) {
    EVP_MD_CTX *stream = EVP_MD_CTX_new();
    if (stream && EVP_DigestInit_ex(stream, EVP_sha256(), NULL) == 1)
        return stream;
    EVP_MD_CTX_free(stream);
    return NULL;
}

bool tmi_libcrypto_add(void *stream, const void *bytes, size_t size) {
    return EVP_DigestUpdate(stream, bytes, size) == 1;
}

bool tmi_libcrypto_end(void *stream, unsigned char out[TMI_SHA256_BYTES]) {
    bool good = out && EVP_DigestFinal_ex(stream, out, NULL) == 1;
    EVP_MD_CTX_free(stream);
    return good;
}

#elif defined(TENMAP_NO_DLOPEN) || defined(_WIN32)

void *tmi_libcrypto_begin(void) {
    return NULL;
}

bool tmi_libcrypto_add(void *stream, const void *bytes, size_t size) {
    (void)stream, (void)bytes, (void)size;
    return false;
}

bool tmi_libcrypto_end(void *stream, unsigned char out[TMI_SHA256_BYTES]) {
    (void)stream, (void)out;
    return false;
}

#else
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* The functions of libcrypto that are used, with the names and types that it documents. */
static struct {
    void *(*EVP_MD_CTX_new)(void);
    void (*EVP_MD_CTX_free)(void *stream);
    const void *(*EVP_sha256)(void);
    int (*EVP_DigestInit_ex)(void *stream, const void *type, void *engine);
    int (*EVP_DigestUpdate)(void *stream, const void *bytes, size_t size);
    int (*EVP_DigestFinal_ex)(void *stream, unsigned char *out, unsigned *size);
} libcrypto;

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static bool loaded;

/* Finds a function. ISO C has no conversion from an object pointer, so its bytes are copied. */
static bool find(void *library, const char *name, void *function, size_t size) {
    void *found = dlsym(library, name);
    if (found)
        memcpy(function, &found, size);
    return found != NULL;
}

static bool find_all(void *library) {
#define FIND(name) find(library, #name, &libcrypto.name, sizeof libcrypto.name)
    return FIND(EVP_MD_CTX_new) && FIND(EVP_MD_CTX_free) && FIND(EVP_sha256) &&
           FIND(EVP_DigestInit_ex) && FIND(EVP_DigestUpdate) && FIND(EVP_DigestFinal_ex);
#undef FIND
}

/*
 * The library stays loaded until the process ends, as if it had been linked. On macOS only names
 * with a version are tried: loading the system's libcrypto.dylib ends the process.
 */
static void look(void) {
#ifdef __APPLE__
    static const char *const names[] = {"libcrypto.3.dylib", "libcrypto.1.1.dylib"};
#else
    static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1"};
#endif
    for (size_t i = 0; !loaded && i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        loaded = library && find_all(library);
        if (library && !loaded)
            dlclose(library);
    }
}

void *tmi_libcrypto_begin(void) {
    if (pthread_once(&looked, look) != 0 || !loaded)
        return NULL;
    void *stream = libcrypto.EVP_MD_CTX_new();
    if (stream && libcrypto.EVP_DigestInit_ex(stream, libcrypto.EVP_sha256(), NULL) == 1)
        return stream;
    libcrypto.EVP_MD_CTX_free(stream);
    return NULL;
}

bool tmi_libcrypto_add(void *stream, const void *bytes, size_t size) {
    return libcrypto.EVP_DigestUpdate(stream, bytes, size) == 1;
}

bool tmi_libcrypto_end(void *stream, unsigned char out[TMI_SHA256_BYTES]) {
    bool good = out && libcrypto.EVP_DigestFinal_ex(stream, out, NULL) == 1;
    libcrypto.EVP_MD_CTX_free(stream);
    return good;
}

#endif
