/*
 * libcurl as this library calls it: its functions in a table, and the few types that they take.
 * find_curl.c fills the table, by dlopen or, with TENMAP_LINK_SYSTEM_LIBRARIES, from the libcurl
 * that the program is linked with.
 */
#ifndef TENMAP_HTTP_CURL_FUNCTIONS_H
#define TENMAP_HTTP_CURL_FUNCTIONS_H

#include <stdint.h>
#include <sys/socket.h>
#include <tenmap.h>

#include "curl_constants.h"

/* struct curl_sockaddr. */
typedef struct tmh_curl_sockaddr {
    int family;
    int socktype;
    int protocol;
    unsigned int addrlen;
    struct sockaddr addr;
} tmh_curl_sockaddr;

/* The first fields of curl_version_info_data. */
typedef struct tmh_curl_version {
    int age;
    const char *version; /* "7.88.1" */
    unsigned int number; /* 0x075801 */
} tmh_curl_version;

/*
 * curl_global_init and so on. Handles and lists are void * here, and enumerations are int.
 * easy_setopt and easy_getinfo must be declared as variadic: some systems pass variadic arguments
 * in other places than declared ones (Apple's arm64).
 */
typedef struct tmh_curl_functions {
    int (*global_init)(long flags);
    void (*global_cleanup)(void);
    const tmh_curl_version *(*version_info)(int age);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *easy, int option, ...);
    int (*easy_getinfo)(void *easy, int info, ...);
    int (*easy_perform)(void *easy);
    void (*easy_cleanup)(void *easy);
    const char *(*easy_strerror)(int code);
    void *(*slist_append)(void *list, const char *text);
    void (*slist_free_all)(void *list);
    void *(*url)(void);
    int (*url_set)(void *url, int part, const char *text, unsigned int flags);
    int (*url_get)(const void *url, int part, char **text, unsigned int flags);
    void (*url_cleanup)(void *url);
    void (*free)(void *memory);
} tmh_curl_functions;

/* X(NAME) for each field, in this order. */
#define TMH_CURL_FUNCTIONS(X)                                                                      \
    X(global_init)                                                                                 \
    X(global_cleanup)                                                                              \
    X(version_info)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_perform)                                                                                \
    X(easy_cleanup)                                                                                \
    X(easy_strerror)                                                                               \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(url)                                                                                         \
    X(url_set)                                                                                     \
    X(url_get)                                                                                     \
    X(url_cleanup)                                                                                 \
    X(free)

/* The oldest libcurl that was tried, which is Debian 11's. */
enum { TMH_CURL_OLDEST = 0x074a00 };
#define TMH_CURL_OLDEST_TEXT "7.74.0"

/*
 * Finds libcurl, once for the whole process. Any thread may call it. TENMAP_ERR_UNSUPPORTED with a
 * message that says what to install if there is none, or none that is new enough; then the next
 * call looks again. It is never unloaded, because libraries that it uses stay registered with the
 * process.
 */
tenmap_status tmh_find_curl(tenmap_error *error);
/* The functions. Call it only after tmh_find_curl has succeeded. */
const tmh_curl_functions *tmh_curl(void);
/*
 * Loads the first library of `names`, which ends with NULL, that has all functions and is new
 * enough. On failure *out is undefined and nothing stays loaded. For tmh_find_curl and its tests.
 */
tenmap_status tmh_load_curl(const char *const *names, tmh_curl_functions *out, void **library,
                            tenmap_error *error);

#endif
