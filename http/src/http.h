/*
 * Internal declarations of libtenmap-http, which uses only the public header of tenmap. Each
 * section is one file, and each file uses only those before it.
 *
 * Names with external linkage begin with tmh_; everything else is static.
 */
#ifndef TENMAP_HTTP_INTERNAL_H
#define TENMAP_HTTP_INTERNAL_H

#include "../tenmap_http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TMH_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define TMH_PRINTF(at, first)
#endif

typedef unsigned long long ull;

/* say.c: error messages, and text that grows. */

/* Fills *error, which is never NULL here, and returns status. */
tenmap_status tmh_fail(tenmap_error *error, tenmap_status status, const char *format, ...)
    TMH_PRINTF(3, 4);
tenmap_status tmh_fail_memory(tenmap_error *error, const char *what);
/* Sets what would help, TENMAP_REMEDY_*, in an error that is already filled; returns status. */
tenmap_status tmh_remedy(tenmap_error *error, uint32_t remedy, tenmap_status status);

/*
 * An address as errors show it: without user, password and query, which may hold a signature;
 * printable ASCII, shortened in the middle.
 */
typedef struct tmh_shown {
    char text[176];
} tmh_shown;

tmh_shown tmh_show(const char *address);

/*
 * Text that grows; starts zeroed. Once memory runs out, `failed` stays set and additions are
 * ignored.
 */
typedef struct tmh_text {
    char *bytes; /* NUL-terminated if there are any */
    size_t len, room;
    bool failed;
} tmh_text;

void tmh_add(tmh_text *text, const char *bytes, size_t len);
void tmh_adds(tmh_text *text, const char *bytes);
void tmh_addf(tmh_text *text, const char *format, ...) TMH_PRINTF(2, 3);
/* The text, which the caller frees; NULL if memory ran out. */
char *tmh_take(tmh_text *text);
/* A copy of these bytes, followed by NUL; NULL if memory runs out. */
char *tmh_copy(const char *bytes, size_t len);

/* address.c: parses addresses. */

typedef enum tmh_scheme { TMH_HTTP, TMH_HTTPS, TMH_HF, TMH_S3 } tmh_scheme;

typedef struct tmh_address {
    tmh_scheme scheme;
    char *host;     /* with its port; hf: ORG/MODEL; s3: the bucket */
    char *path;     /* http: encoded, from its '/' on; else as given, without a leading '/' */
    char *query;    /* http: encoded, without the '?'; NULL: none */
    char *revision; /* hf: as given; NULL: none */
} tmh_address;

/*
 * TENMAP_ERR_ARGUMENT with a message if the text is not an address of ours. Free it in either case.
 */
tenmap_status tmh_address_read(tmh_address *address, const char *text, tenmap_error *error);
void tmh_address_free(tmh_address *address);
/* Adds `bytes`, percent-encoding all except letters, digits, -._~, and '/' with keep_slash. */
void tmh_encode(tmh_text *text, const char *bytes, size_t len, bool keep_slash);
/* Whether a query holds a signature, which is valid for one address only. */
bool tmh_is_signed(const char *query);
/* Whether both addresses have the same scheme, host and port. */
bool tmh_same_origin(const char *a, const char *b);
/* Adds the host as the header Host has it: without the scheme's default port. */
void tmh_add_host(tmh_text *text, const char *url);
/* Length of a leading "http://" or "https://", in upper or lower case; 0 if there is neither. */
size_t tmh_web_scheme(const char *text);

/* http_date.c: dates in header lines. */

/* Seconds since 1970 of a date in one of HTTP's three forms; false if it is none of them. */
bool tmh_http_date(const char *text, int64_t *seconds);

/* answer.c: parses the header lines of responses. */

/*
 * What distinguishes versions: an entity tag or a date. One that is too long or cannot be sent has
 * only a digest.
 */
typedef struct tmh_tag {
    char text[256];           /* a tag with its quotes, and W/ if it is weak */
    size_t len;               /* in full; 0 if there is none */
    unsigned char digest[32]; /* SHA-256 of all of it if `text` is "" */
} tmh_tag;

typedef struct tmh_answer {
    int status; /* 0: no response */
    /*
     * Content-Range: "bytes first-last/total", or "bytes * /total" (without the space), which sets
     * `unsatisfied`.
     */
    bool has_range, bad_range, unsatisfied;
    uint64_t first, last, total;
    bool has_length;
    uint64_t length;
    tmh_tag tag;
    tmh_tag modified; /* Last-Modified, as received */
    tmh_tag linked_tag;
    bool has_linked_size;
    uint64_t linked_size;
    char commit[72];     /* X-Repo-Commit */
    char error_code[48]; /* X-Error-Code */
    char region[48];     /* x-amz-bucket-region */
    char *location;      /* owned */
    char *next;          /* Link with rel="next"; owned */
    bool has_retry_after;
    uint64_t retry_after; /* seconds */
    bool framed;          /* a body that breaks off differs from one that ends: chunks, or HTTP/2 */
    bool encoded;         /* Content-Encoding is not identity */
    bool is_page;         /* Content-Type is text/html */
    bool out_of_memory;
} tmh_answer;

/* Parses one line, with or without its line end. A status line begins a new response. */
void tmh_answer_line(tmh_answer *answer, const char *line, size_t len);
void tmh_answer_free(tmh_answer *answer);
/* Takes the region if it can be a part of a host's name. */
void tmh_answer_region(tmh_answer *answer, const char *region);
/* False if memory runs out. */
bool tmh_tag_set(tmh_tag *tag, const char *bytes, size_t len);
/* Whether it is a strong tag that can be sent back as it was received. */
bool tmh_tag_is_strong(const tmh_tag *tag);
/* Whether they are equal, at any length. */
bool tmh_tag_equal(const tmh_tag *a, const tmh_tag *b);

/* hub_json.c: the listing of a folder on a hub. */

/*
 * Calls `entry` with the last part of each path in the folder. If that returns nonzero, stops
 * early, sets *stopped and succeeds. False if the text is not such a listing, or memory runs out.
 */
bool tmh_hub_names(const char *json, size_t len, const char *folder,
                   int (*entry)(void *ctx, const char *name), void *ctx, bool *stopped);

/* s3_sign.c: Signature Version 4. */

typedef struct tmh_keys {
    char *id, *secret, *session; /* session may be NULL; id NULL: requests are not signed */
} tmh_keys;

typedef struct tmh_signed {
    const char *host, *path, *query; /* encoded, as sent; the query sorted, "" for none */
    const char *range;               /* the header's value, or NULL */
    const char *region;
    const char *date; /* 20130524T000000Z */
} tmh_signed;

/* Adds the value of the header Authorization for a GET; false if memory runs out. */
bool tmh_sign(const tmh_keys *keys, const tmh_signed *request, tmh_text *authorization);
/* SHA-256 of an empty body, for x-amz-content-sha256. */
extern const char tmh_empty_hash[];

/* s3_list.c: the response to ListObjectsV2. */

/* Who gets the names of a listing, and which. */
typedef struct tmh_naming {
    const char *prefix; /* names are those of keys and prefixes below it, without it */
    int (*entry)(void *ctx, const char *name);
    void *ctx;
    bool stopped; /* set if `entry` returned a nonzero number, which ends the listing */
} tmh_naming;

/*
 * Like tmh_hub_names. *next is the continuation token, which the caller frees, or NULL. False if
 * the text is not such a listing, or memory runs out.
 */
bool tmh_s3_names(const char *xml, size_t len, tmh_naming *n, char **next);
/* The text between the first <name> and </name>, with entities replaced; NULL if there is none. */
char *tmh_xml_text(const char *xml, size_t len, const char *name);

/* settings.c: options and environment. */

typedef struct tmh_settings {
    char *token;            /* the option's; NULL: none */
    char *hub_token;        /* the option's or the environment's; NULL: none */
    const char *hub_source; /* where it came from, for errors */
    char *hub;              /* its address, without a trailing '/' */
    char *s3;               /* likewise; NULL: Amazon's */
    char *region;
    tmh_keys keys;
    char *user_agent, *ca_file, *ca_folder; /* the last two may be NULL */
    uint32_t connections, retries, timeout_ms;
    int (*stop)(void *ctx); /* the option's; NULL: nothing stops a call */
    void *stop_ctx;
} tmh_settings;

tenmap_status tmh_settings_read(tmh_settings *settings, const tenmap_http_options *options,
                                tenmap_error *error);
void tmh_settings_free(tmh_settings *settings);

/* find_curl.c: libcurl's functions. curl_functions.h declares them. */

/* ca_bundle.c: trusted certificates. */

/*
 * The file that should replace libcurl's own choice; NULL if that is fine, or there is no better
 * one. own_file and own_folder are what libcurl was built with, or NULL. `bundles` are the files to
 * look for, with NULL at the end; NULL stands for the usual places.
 */
const char *tmh_ca_bundle(const char *own_file, const char *own_folder, const char *const *bundles);

/* client.c: connections, and single requests on them. */

typedef struct tmh_client tmh_client;

/* Bytes of all header lines of the responses to one request, interim ones included. */
enum { TMH_LONGEST_HEAD = 256 << 10 };
/*
 * Limits of a listing: bytes of one page, of all pages, of the token of the next page; pages;
 * names.
 */
enum { TMH_LONGEST_PAGE = 64 << 20, TMH_LONGEST_LISTING = 128 << 20, TMH_LONGEST_NEXT = 8 << 10 };
enum { TMH_MOST_PAGES = 1000, TMH_MOST_NAMES = 1000000 };
/* Bytes of a name, the limit of tenmap_io.list. */
enum { TMH_LONGEST_NAME = 1024 };

/* Decided after the header lines, before any byte of the body is taken. */
typedef enum tmh_verdict {
    TMH_BODY,   /* into dst: at most `room` bytes */
    TMH_SAID,   /* a failure's own text: the beginning of it is kept in `said` */
    TMH_CUT_OFF /* the response is cut off here */
} tmh_verdict;

typedef struct tmh_request {
    const char *url;
    const char *const *headers; /* "Name: value", NULL at the end */
    uint64_t expected;          /* bytes, for the time limit */
    uint64_t deadline;          /* as tmh_now counts, on top of all other limits; 0: none */
    tmh_verdict (*look)(void *ctx, const tmh_answer *answer);
    void *ctx;
    /* Where the body goes: into memory, or into text that grows; at most `room` bytes. */
    unsigned char *dst;
    tmh_text *text;
    size_t room;
    /* Results. */
    tmh_answer answer; /* to be freed by tmh_answer_free */
    tmh_text said;     /* to be freed; at most 8 KiB */
    size_t got;        /* bytes of the body that were taken */
    bool overflow;     /* the body was longer than the room */
    bool long_head;    /* the header lines were longer than TMH_LONGEST_HEAD, all together */
    bool cut;          /* by TMH_CUT_OFF */
    bool headed;       /* all header lines were received */
    int code;          /* TMH_CURLE_* */
    char problem[256]; /* curl's message */
} tmh_request;

tmh_client *tmh_client_new(const tmh_settings *settings, tenmap_error *error);
void tmh_client_free(tmh_client *client);
/* Waits for a free connection and performs the request. False if memory runs out. */
bool tmh_perform(tmh_client *client, tmh_request *request);
/* The lock for what was learned about files. It is free in a child after fork. */
void tmh_lock(tmh_client *client);
void tmh_unlock(tmh_client *client);
/* Whether the caller's `stop` asks to end the call. */
bool tmh_stops(const tmh_client *client);
/* Milliseconds of a monotonic clock. */
uint64_t tmh_now(void);
/* A random number below `limit`, or 0; for pauses, not for secrets. */
uint64_t tmh_random(tmh_client *client, uint64_t limit);
typedef enum tmh_event { TMH_RETRY, TMH_REDIRECT } tmh_event;
void tmh_count(tmh_client *client, tmh_event event);
tenmap_http_traffic tmh_traffic(tmh_client *client);

/* place.c: which address to request a file from, and with which credentials. */

typedef struct tmh_pins {
    bool set;
    uint64_t size;
    tmh_tag tag, modified;
    tmh_tag place;      /* the address that redirects led to, without its query */
    tmh_tag linked_tag; /* from the hub's own hops */
    bool linked;        /* those hops have named the object */
} tmh_pins;

/* What was learned about a repository or a bucket, for all its files. Guarded by tmh_lock. */
typedef struct tmh_learnt {
    struct tmh_learnt *next;
    const char *what;  /* "ORG/MODEL@REVISION", the bucket */
    const char *value; /* the commit, the region */
    char text[];       /* storage for both */
} tmh_learnt;

/* The whole io. */
typedef struct tmh_io {
    tmh_settings settings;
    tmh_client *client;
    tmh_learnt *learnt;
    tmh_learnt *signed_for; /* the query of a signed address, and that address */
} tmh_io;

typedef struct tmh_file {
    tmh_io *io;
    char *given; /* the path, for errors */
    tmh_address address;
    /* Guarded by tmh_lock. */
    char *target; /* where redirects led; NULL: start at the first hop */
    bool redirects;
    tmh_pins pins;
    unsigned char *window; /* the file's first bytes */
    size_t window_size;
    unsigned char *ahead; /* read ahead for consecutive small reads */
    uint64_t ahead_at, small_end;
    size_t ahead_size;
    uint64_t size;
} tmh_file;

/* The address of the first hop, which the caller frees; NULL if memory runs out. */
char *tmh_first_hop(tmh_file *file);
/* The address of a page of the folder's listing; `next` is the previous page's, or NULL. */
char *tmh_list_hop(tmh_file *file, const char *next);
/* The headers of a request, which are owned and freed together. */
typedef struct tmh_headers {
    char *lines[12];
    size_t count;
    bool failed;
} tmh_headers;

void tmh_header_add(tmh_headers *headers, const char *format, ...) TMH_PRINTF(2, 3);
void tmh_headers_free(tmh_headers *headers);
/*
 * Adds credentials if `url` and `first` are on the same host. `range` is the header's value, or
 * NULL.
 */
void tmh_add_credentials(tmh_file *file, tmh_headers *headers, const char *first, const char *url,
                         const char *range);
/*
 * Notes the commit that a hub names; false if an earlier response named another, or memory runs
 * out.
 */
bool tmh_learn_commit(tmh_file *file, const char *url, const tmh_answer *answer);
/* Notes the bucket's region that an S3 server names; true if the request should be sent again. */
bool tmh_learn_region(tmh_file *file, const char *first, const char *url, const tmh_answer *answer);
/* Which credentials were used, for a message: "with the token of HF_TOKEN". */
const char *tmh_credentials_said(const tmh_file *file, bool sent);
/* A copy of the value that was learned; NULL if there is none, or memory runs out. */
char *tmh_learnt_copy(tmh_io *io, tmh_learnt **list, const char *what);
/*
 * Stores the value; if one is known, replaces it only with `instead`. False if another value is
 * known and stays, or memory runs out.
 */
bool tmh_learnt_put(tmh_io *io, tmh_learnt **list, const char *what, const char *value,
                    bool instead);

/* fail.c: error messages for failed requests. */

/* Why a response was cut off. */
typedef enum tmh_wrong {
    TMH_FINE,
    TMH_WHOLE,        /* the whole file instead of a range */
    TMH_COMPRESSED,   /* although only identity was accepted */
    TMH_OTHER_RANGE,  /* no range, or not the requested one */
    TMH_OTHER_LENGTH, /* a body that is longer or shorter than its range */
    TMH_OPEN_ENDED,   /* a body of unknown length that ends with the connection */
    TMH_LONG_PAGE,    /* of a listing */
    TMH_CHANGED       /* not the object that was opened */
} tmh_wrong;

tenmap_status tmh_fail_wrong(const tmh_file *file, const tmh_request *request, tmh_wrong wrong,
                             tenmap_error *error);
/* For a status that is a failure; `sent`: credentials, if any, were sent. */
tenmap_status tmh_fail_status(const tmh_file *file, const tmh_request *request, bool sent,
                              tenmap_error *error);
/* For a connection that failed. */
tenmap_status tmh_fail_transfer(const tmh_file *file, const tmh_request *request,
                                tenmap_error *error);

/* redirect.c: where a redirect leads. */

/* Sets *next, which the caller frees; fails with a message if the redirect is not allowed. */
tenmap_status tmh_redirect(const tmh_file *file, const char *url, const char *location, char **next,
                           tenmap_error *error);

/* fetch.c: fetches bytes of a file, with redirects and retries. */

/*
 * Fetches exactly [first, first + count) into dst. If the file is not pinned yet: at most count
 * bytes from 0 on, their number in *got, and sets the pins. `got` may be NULL if the file is
 * pinned.
 */
tenmap_status tmh_fetch(tmh_file *file, uint64_t first, size_t count, unsigned char *dst,
                        size_t *got, tenmap_error *error);
/* When a call that begins now and reads `bytes` must end, as tmh_now counts. */
uint64_t tmh_deadline(const tmh_io *io, uint64_t bytes);
/*
 * Fetches a page of a listing: the first, or the one that `from` names as in tmh_list_hop. *next is
 * the address that a hub gives for the next page, which the caller frees, or NULL.
 */
tenmap_status tmh_fetch_text(tmh_file *file, const char *from, uint64_t deadline, tmh_text *text,
                             char **next, tenmap_error *error);

#endif
