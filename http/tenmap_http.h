/*
 * tenmap_http: models that are not here. http://, https://, hf:// and s3:// as a tenmap_io, on libcurl.
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
 *   https://HOST[:PORT]/PATH[?QUERY]   one file; what is not allowed in an address is percent-encoded,
 *   http://...                         and what is encoded already stays so. No folders.
 *   hf://ORG/MODEL[@REVISION][/PATH]   on a hub. REVISION is a branch, a tag or a commit ("main"
 *                                      without one); slashes in it are written %2F, but in refs/pr/N
 *                                      and refs/convert/N. Folders are listed.
 *   s3://BUCKET/KEY                    KEY as it is, nothing in it is encoded. Folders are listed.
 *
 * What can be relied upon:
 *
 *  - Bytes move when they are asked for, by GET with a range; opening takes the first 128 KiB, which
 *    hold most headers. Nothing is kept on disk.
 *  - Every answer is compared with the first one: entity tag, date and length. An object that has
 *    changed is TENMAP_ERR_IO, never a mix of two.
 *  - What fails for a while is tried again; every call ends within limits (see the options).
 *  - Certificates are verified. Nothing goes from https to http. A token or a signature goes to the
 *    host that it is for and to no other, and is never part of an error.
 *  - The environment is read in tenmap_http_create, and only there: HF_ENDPOINT, HF_TOKEN,
 *    HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HOME, XDG_CACHE_HOME and HOME (for the hub's token
 *    file), AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION,
 *    AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, CURL_CA_BUNDLE, SSL_CERT_FILE and
 *    SSL_CERT_DIR. Proxies are libcurl's, which reads its own variables (https_proxy, no_proxy, ...).
 *  - Any number of threads may read at the same time. No signal is raised by a connection that
 *    breaks. After fork the child makes connections of its own.
 *
 * Not promised: that a server which has neither entity tags nor dates is found out when it changes a
 * file but not its length.
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

/* Zero is the default for every field. Start from TENMAP_HTTP_OPTIONS_INIT. Texts are copied. */
typedef struct tenmap_http_options {
    size_t struct_size; /* sizeof(tenmap_http_options): lets the struct grow */
    /*
     * Sent as a bearer token to the hub, and to the hosts of https:// and http:// addresses that are
     * opened, not to those that they redirect to. NULL: for the hub the environment's; "": none.
     */
    const char *token;
    /* The hub, or the S3 server (in path style), instead of the environment's: "https://HOST". */
    const char *endpoint;
    const char *user_agent; /* NULL: "tenmap/VERSION" */
    uint32_t connections;   /* that are used at the same time; 0: 8; at most 64 are used */
    uint32_t retries;       /* of one request, without progress; 0: 5 */
    /*
     * How long a connection may take to be made, and then be silent; 0: 30,000. One request is given
     * twice that, and a second for each 4 KiB; one call, redirects included, what retries + 1
     * requests are given. The pauses between retries begin at a fiftieth of it, at most 200 ms.
     */
    uint32_t timeout_ms;
    uint32_t flags; /* 0 */
    /*
     * May be NULL. Asked about once a second while a call waits, often while bytes come, and before
     * each request, on the thread of the call: what it returns is kept short. Anything but 0 ends the
     * call with TENMAP_ERR_CANCELLED.
     */
    int (*stop)(void *ctx);
    void *ctx; /* handed to stop */
} tenmap_http_options;

#define TENMAP_HTTP_OPTIONS_INIT                                                                   \
    { sizeof(tenmap_http_options), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Fills *out, which any number of models may be opened with, at the same time too. No connection is
 * made here. On failure *out is zeroed.
 */
TENMAP_HTTP_API tenmap_status tenmap_http_create(const tenmap_http_options *options, tenmap_io *out,
                                                 tenmap_error *error);
/* After the models on it are closed. NULL, and one that is zeroed, are fine. */
TENMAP_HTTP_API void tenmap_http_destroy(tenmap_io *io);

/* What has moved since tenmap_http_create. */
typedef struct tenmap_http_traffic {
    uint64_t requests;  /* sent, those that were redirected or failed included */
    uint64_t bytes;     /* of bodies, received */
    uint64_t retries;   /* requests that were sent again */
    uint64_t redirects; /* followed */
} tenmap_http_traffic;

/* Of an io that tenmap_http_create has filled. From any thread. */
TENMAP_HTTP_API tenmap_http_traffic tenmap_http_moved(const tenmap_io *io);

/* 1 if `path` begins with one of the four schemes, in any case; 0 if not. Nothing else is checked. */
TENMAP_HTTP_API int tenmap_http_takes(const char *path);

#ifdef __cplusplus
}
#endif

#endif
