/*
 * tenmap_http: a tenmap_io over libcurl for models on the network: http://, https://, hf:// and
 * s3://. tenmap_http_create loads libcurl 7.74 or newer with dlopen, unless the library was built
 * to be linked with it.
 *
 *     tenmap_io io = TENMAP_IO_INIT;
 *     tenmap_http_create(NULL, &io, &error);
 *     tenmap_options options = TENMAP_OPTIONS_INIT;
 *     options.io = &io;
 *     tenmap_open("hf://ORG/MODEL", &options, &model, &error);
 *     ...
 *     tenmap_close(model);
 *     tenmap_http_destroy(&io);
 *
 * Addresses:
 *
 *   https://HOST[:PORT]/PATH[?QUERY]   one file, no folders. Characters that addresses may not hold
 *   http://...                         are percent-encoded; what is encoded already stays so.
 *   hf://ORG/MODEL[@REVISION][/PATH]   on a hub. REVISION is a branch, a tag or a commit (default:
 *                                      main). Slashes in it are written %2F, except in refs/pr/N
 *                                      and refs/convert/N. Folders are listed.
 *   s3://BUCKET/KEY                    KEY as it is, nothing in it is encoded. Folders are listed.
 *
 * What can be relied upon:
 *
 * - Bytes are fetched when they are read, by GET requests with a range. Opening fetches the first
 *   128 KiB, which hold most headers. Nothing is kept on disk.
 * - Every response is compared with the first one: entity tag, date and length. An object that has
 *   changed is TENMAP_ERR_IO, never a mix of two versions.
 * - Temporary failures are retried. Every call ends within time limits (see the options).
 * - Certificates are verified. No redirect leads from https to http. A token or a signature is sent
 *   only to the host that it is for, and never appears in an error.
 * - Only tenmap_http_create reads the environment: HF_ENDPOINT, HF_TOKEN, HUGGING_FACE_HUB_TOKEN,
 *   HF_TOKEN_PATH, HF_HOME, XDG_CACHE_HOME and HOME (for the hub's token file), AWS_ACCESS_KEY_ID,
 *   AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3,
 *   AWS_ENDPOINT_URL, CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR. libcurl handles proxies and
 *   reads its own variables for them (https_proxy, no_proxy, ...).
 * - Trusted certificates are those of CURL_CA_BUNDLE, SSL_CERT_FILE or SSL_CERT_DIR. Without these
 *   variables, libcurl uses its own file; if that does not exist, the library gives it the first
 *   bundle that it finds in a usual place.
 * - Any number of threads may read at the same time. A connection that breaks raises no signal.
 *   After fork the child opens its own connections.
 *
 * Not promised: if a server sends neither entity tags nor dates, a file that changes but keeps its
 * length is not noticed.
 */
#ifndef TENMAP_HTTP_H
#define TENMAP_HTTP_H

#include <tenmap.h>

#ifndef TENMAP_HTTP_API
#if defined(__GNUC__)
#define TENMAP_HTTP_API __attribute__((visibility("default")))
#else
#define TENMAP_HTTP_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Zero is the default for every field. Start from TENMAP_HTTP_OPTIONS_INIT. Strings are copied. */
typedef struct tenmap_http_options {
    size_t struct_size; /* sizeof(tenmap_http_options): lets the struct grow */
    /*
     * Sent as a bearer token to the hub and to the hosts of https:// and http:// addresses that are
     * opened, not to hosts that they redirect to. NULL: the environment's token, for the hub only;
     * "": none.
     */
    const char *token;
    /*
     * The hub, or the S3 server (path-style addresses), instead of the environment's:
     * "https://HOST".
     */
    const char *endpoint;
    const char *user_agent; /* NULL: "tenmap/VERSION" */
    uint32_t connections;   /* at most this many at a time; 0: 8; values over 64 count as 64 */
    uint32_t retries;       /* of one request that makes no progress; 0: 5 */
    /*
     * How long connecting may take, and how long a connection may then be silent; 0: 30,000. A
     * request may take twice that, and one second more per 4 KiB. A call, redirects included, may
     * take as long as retries + 1 requests. The pauses between retries begin at a fiftieth of it,
     * at most 200 ms.
     */
    uint32_t timeout_ms;
    uint32_t flags; /* 0 */
    /*
     * May be NULL. Called on the thread of the call: about once a second while that waits, often
     * while bytes arrive, and before each request, so it should return quickly. A nonzero return
     * ends the call with TENMAP_ERR_CANCELLED.
     */
    int (*stop)(void *ctx);
    void *ctx; /* passed to stop */
} tenmap_http_options;

#define TENMAP_HTTP_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_http_options), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Fills *out, with which any number of models may be opened, also at the same time. Makes no
 * connection. The first call in the process loads libcurl, which stays loaded.
 * TENMAP_ERR_UNSUPPORTED if there is no libcurl, or only one older than 7.74; the message says what
 * to install. On failure *out is zeroed.
 */
TENMAP_HTTP_API tenmap_status tenmap_http_create(const tenmap_http_options *options, tenmap_io *out,
                                                 tenmap_error *error);
/* Close all models that use it first. NULL and a zeroed io are allowed. */
TENMAP_HTTP_API void tenmap_http_destroy(tenmap_io *io);

/* The traffic since tenmap_http_create. */
typedef struct tenmap_http_traffic {
    uint64_t requests;  /* sent, including those that were redirected or failed */
    uint64_t bytes;     /* received, of response bodies */
    uint64_t retries;   /* requests that were sent again */
    uint64_t redirects; /* followed */
} tenmap_http_traffic;

/* `io` must have been filled by tenmap_http_create. Any thread may call this. */
TENMAP_HTTP_API tenmap_http_traffic tenmap_http_moved(const tenmap_io *io);

/*
 * Returns 1 and sets digits to the SHA-256 that a hub states for an open file (X-Linked-ETag): 64
 * lowercase hexadecimal digits and a NUL. Returns 0 and sets digits to "" if no SHA-256 was stated:
 * hubs state none for small files, and other servers state none at all. `file` is what the open
 * function of the io returned.
 */
TENMAP_HTTP_API int tenmap_http_sha256(const tenmap_io *io, const void *file, char digits[65]);

/*
 * 1 if `path` begins with one of the four schemes, in upper or lower case; else 0. Nothing else is
 * checked.
 */
TENMAP_HTTP_API int tenmap_http_takes(const char *path);

/*
 * Loads libcurl as tenmap_http_create does, and returns its version, such as "7.88.1". NULL if no
 * libcurl can be used; *error says why (error may be NULL). The text is valid until the process
 * ends. Any thread may call this.
 */
TENMAP_HTTP_API const char *tenmap_http_curl_version(tenmap_error *error);

#ifdef __cplusplus
}
#endif

#endif
