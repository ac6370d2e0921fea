/*
 * What the files of libtenmap-http share. It stands on the public header of tenmap only. Each section
 * is one file; each uses those before it.
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

/* say.c: sentences, and text that grows. */

/* Fills *error, which is never NULL here, and returns status. */
tenmap_status tmh_fail(tenmap_error *error, tenmap_status status, const char *format, ...)
    TMH_PRINTF(3, 4);
tenmap_status tmh_fail_memory(tenmap_error *error, const char *what);

/*
 * An address as errors show it: no user, no password, nothing behind a '?', since signatures stand
 * there; printable ASCII, shortened in the middle.
 */
typedef struct tmh_shown {
    char text[176];
} tmh_shown;

tmh_shown tmh_show(const char *address);

/* Text that grows; starts zeroed. Once memory is out, `failed` stays set and all is ignored. */
typedef struct tmh_text {
    char *bytes; /* NUL-terminated if there are any */
    size_t len, room;
    bool failed;
} tmh_text;

void tmh_add(tmh_text *text, const char *bytes, size_t len);
void tmh_adds(tmh_text *text, const char *bytes);
void tmh_addf(tmh_text *text, const char *format, ...) TMH_PRINTF(2, 3);
/* The text, which the caller frees; NULL if memory was out. */
char *tmh_take(tmh_text *text);
/* A copy of these bytes with a NUL behind them; NULL without memory. */
char *tmh_copy(const char *bytes, size_t len);

/* address.c: what an address says. */

typedef enum tmh_scheme { TMH_HTTP, TMH_HTTPS, TMH_HF, TMH_S3 } tmh_scheme;

typedef struct tmh_address {
    tmh_scheme scheme;
    char *host;     /* with its port; for hf ORG/MODEL, for s3 the bucket */
    char *path;     /* http: encoded, from its '/' on; else as it is, without a '/' in front */
    char *query;    /* http: encoded, without the '?'; NULL if there is none */
    char *revision; /* hf: as it is; NULL if none is given */
} tmh_address;

/* TENMAP_ERR_ARGUMENT with a sentence for what is no address of ours. Free it in either case. */
tenmap_status tmh_address_read(tmh_address *address, const char *text, tenmap_error *error);
void tmh_address_free(tmh_address *address);
/* Adds `bytes` with all percent-encoded but letters, digits and -._~, and '/' if it is kept. */
void tmh_encode(tmh_text *text, const char *bytes, size_t len, bool keep_slash);
/* Whether a query holds a signature, which is for one address only. */
bool tmh_is_signed(const char *query);
/* Whether both addresses have the same scheme, host and port. */
bool tmh_same_origin(const char *a, const char *b);
/* Adds the host as the header Host has it: without the port that goes without saying. */
void tmh_add_host(tmh_text *text, const char *url);
/* Length of "http://" or "https://" at its beginning, in any case; 0 if there is neither. */
size_t tmh_web_scheme(const char *text);

/* answer.c: what a server's header lines say. */

/* What tells versions apart: a tag, a date. What is too long or cannot be sent has a digest only. */
typedef struct tmh_tag {
    char text[256];           /* of a tag with its quotes, and W/ if it is weak */
    size_t len;               /* of all of it; 0 if there is none */
    unsigned char digest[32]; /* SHA-256 of all of it where `text` is "" */
} tmh_tag;

typedef struct tmh_answer {
    int status; /* 0: nothing came */
    /* Content-Range: bytes first-last/total, or bytes * /total, which is `unsatisfied`. */
    bool has_range, bad_range, unsatisfied;
    uint64_t first, last, total;
    bool has_length;
    uint64_t length;
    tmh_tag tag;
    tmh_tag modified; /* Last-Modified, as it came */
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
    bool framed;          /* a body that breaks off is told from one that ends: chunks, or HTTP/2 */
    bool encoded;         /* Content-Encoding is not identity */
    bool is_page;         /* Content-Type is text/html */
    bool out_of_memory;
} tmh_answer;

/* One line, with or without its line end. A status line begins a new answer. */
void tmh_answer_line(tmh_answer *answer, const char *line, size_t len);
void tmh_answer_free(tmh_answer *answer);
/* Takes it if it can be a part of a host's name. */
void tmh_answer_region(tmh_answer *answer, const char *region);
/* False without memory. */
bool tmh_tag_set(tmh_tag *tag, const char *bytes, size_t len);
/* A strong tag that can be sent as it came. */
bool tmh_tag_is_strong(const tmh_tag *tag);
/* Whether they are the same, however long. */
bool tmh_tag_equal(const tmh_tag *a, const tmh_tag *b);

/* hub_json.c: the listing of a folder on a hub. */

/*
 * Calls `entry` with the last part of each path in the folder; stops early, well, if it returns other
 * than 0 (*stopped). False if the text is no such listing, or memory is out.
 */
bool tmh_hub_names(const char *json, size_t len, const char *folder,
                   int (*entry)(void *ctx, const char *name), void *ctx, bool *stopped);

/* s3_sign.c: Signature Version 4. */

typedef struct tmh_keys {
    char *id, *secret, *session; /* session may be NULL; id NULL: requests are not signed */
} tmh_keys;

typedef struct tmh_signed {
    const char *host, *path, *query; /* as sent: encoded; the query sorted, "" for none */
    const char *range;               /* the header's value, or NULL */
    const char *region;
    const char *date; /* 20130524T000000Z */
} tmh_signed;

/* The value of the header Authorization for a GET, or false without memory. */
bool tmh_sign(const tmh_keys *keys, const tmh_signed *request, tmh_text *authorization);
/* SHA-256 of no bytes, as x-amz-content-sha256 has it. */
extern const char tmh_empty_hash[];

/* s3_list.c: the answer of ListObjectsV2. */

/*
 * Likewise for keys and prefixes behind `prefix`. *next is the continuation token, which the caller
 * frees, or NULL. False if the text is no such listing, or memory is out.
 */
bool tmh_s3_names(const char *xml, size_t len, const char *prefix,
                  int (*entry)(void *ctx, const char *name), void *ctx, bool *stopped, char **next);
/* What stands between the first <name> and </name>, without its entities; NULL if nothing does. */
char *tmh_xml_text(const char *xml, size_t len, const char *name);

/* settings.c: options and environment. */

typedef struct tmh_settings {
    char *token;            /* the option's; NULL: none */
    char *hub_token;        /* the option's or the environment's; NULL: none */
    const char *hub_source; /* where it is from, for errors */
    char *hub;              /* its address, without a '/' at the end */
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

/* client.c: connections, and one request on one of them. */

typedef struct tmh_client tmh_client;

/* Bytes of all header lines of a request's answers, interim ones included. */
enum { TMH_LONGEST_HEAD = 256 << 10 };
/* What a listing may have: bytes of a page, of all pages, of what says where it goes on; pages; names. */
enum { TMH_LONGEST_PAGE = 64 << 20, TMH_LONGEST_LISTING = 128 << 20, TMH_LONGEST_NEXT = 8 << 10 };
enum { TMH_MOST_PAGES = 1000, TMH_MOST_NAMES = 1000000 };
/* Bytes of a name, as tenmap_io.list allows them. */
enum { TMH_LONGEST_NAME = 1024 };

/* Said when the header lines are there, before any byte of a body is taken. */
typedef enum tmh_verdict {
    TMH_BODY,   /* into dst: at most `room` bytes */
    TMH_SAID,   /* what a server says of a failure: a little of it is kept, in `said` */
    TMH_CUT_OFF /* the answer is cut off here */
} tmh_verdict;

typedef struct tmh_request {
    const char *url;
    const char *const *headers; /* "Name: value", NULL at the end */
    uint64_t expected;          /* bytes, for the time limit */
    uint64_t deadline;          /* of tmh_now, whatever else is allowed; 0: none */
    tmh_verdict (*look)(void *ctx, const tmh_answer *answer);
    void *ctx;
    /* Where the body goes: room in memory, or text that grows up to `room`. */
    unsigned char *dst;
    tmh_text *text;
    size_t room;
    /* Out. */
    tmh_answer answer; /* to be freed by tmh_answer_free */
    tmh_text said;     /* to be freed; at most 8 KiB */
    size_t got;        /* bytes of the body that were taken */
    bool overflow;     /* the body was longer than the room */
    bool long_head;    /* the header lines were longer than TMH_LONGEST_HEAD, all together */
    bool cut;          /* by TMH_CUT_OFF */
    bool headed;       /* all header lines came */
    int code;          /* a CURLcode */
    char problem[256]; /* curl's sentence */
} tmh_request;

tmh_client *tmh_client_new(const tmh_settings *settings, tenmap_error *error);
void tmh_client_free(tmh_client *client);
/* Waits for a connection that is free and performs the request. False without memory. */
bool tmh_perform(tmh_client *client, tmh_request *request);
/* Guards what is learnt about files; a child after fork has it free. */
void tmh_lock(tmh_client *client);
void tmh_unlock(tmh_client *client);
/* Whether the caller wants it all to end. */
bool tmh_stops(const tmh_client *client);
/* Milliseconds of a clock that never goes back. */
uint64_t tmh_now(void);
/* A random number below `limit`, or 0; for pauses, not for secrets. */
uint64_t tmh_random(tmh_client *client, uint64_t limit);
typedef enum tmh_event { TMH_RETRY, TMH_REDIRECT } tmh_event;
void tmh_count(tmh_client *client, tmh_event event);
tenmap_http_traffic tmh_traffic(tmh_client *client);

/* place.c: where a file is asked for, and with which credentials. */

typedef struct tmh_pins {
    bool set;
    uint64_t size;
    tmh_tag tag, modified;
    tmh_tag place;      /* the address that redirects led to, without its query */
    tmh_tag linked_tag; /* of a hub's own hops */
    bool linked;        /* they have said which object it is */
} tmh_pins;

/* What was learnt of a repository or a bucket, for all its files. Guarded by tmh_lock. */
typedef struct tmh_learnt {
    struct tmh_learnt *next;
    const char *what;  /* "ORG/MODEL@REVISION", the bucket */
    const char *value; /* the commit, the region */
    char text[];       /* both of them */
} tmh_learnt;

/* The whole io. */
typedef struct tmh_io {
    tmh_settings settings;
    tmh_client *client;
    tmh_learnt *learnt;
    tmh_learnt *signed_for; /* the query of a signed address, and the address that it is for */
} tmh_io;

typedef struct tmh_file {
    tmh_io *io;
    char *given; /* the path, for errors */
    tmh_address address;
    /* Guarded by tmh_lock. */
    char *target; /* where redirects led; NULL: the first hop is asked */
    bool redirects;
    tmh_pins pins;
    unsigned char *window; /* the first bytes */
    size_t window_size;
    unsigned char *ahead; /* read ahead of small reads that follow each other */
    uint64_t ahead_at, small_end;
    size_t ahead_size;
    uint64_t size;
} tmh_file;

/* The address of the first hop, to be freed; NULL without memory. */
char *tmh_first_hop(tmh_file *file);
/* The address of a page of the folder's listing; `next` is what the page before said, or NULL. */
char *tmh_list_hop(tmh_file *file, const char *next);
/* The headers that go with a request: texts of its own, freed together. */
typedef struct tmh_headers {
    char *lines[12];
    size_t count;
    bool failed;
} tmh_headers;

void tmh_header_add(tmh_headers *headers, const char *format, ...) TMH_PRINTF(2, 3);
void tmh_headers_free(tmh_headers *headers);
/* Adds credentials if `url` is on the host that `first` is on. `range` is its value, or NULL. */
void tmh_add_credentials(tmh_file *file, tmh_headers *headers, const char *first, const char *url,
                         const char *range);
/* Takes a hub's word for the commit; false if it is another one than all before, or without memory. */
bool tmh_learn_commit(tmh_file *file, const char *url, const tmh_answer *answer);
/* Takes the word of an S3 server for the bucket's region; true if that asks to try again. */
bool tmh_learn_region(tmh_file *file, const char *first, const char *url, const tmh_answer *answer);
/* Which credentials were used, for a sentence: "with the token of HF_TOKEN". */
const char *tmh_credentials_said(const tmh_file *file, bool sent);
/* The value that was learnt, copied; NULL if there is none, or no memory. */
char *tmh_learnt_copy(tmh_io *io, tmh_learnt **list, const char *what);
/*
 * Puts it where nothing is known yet, or in the place of what is. False if another value is known and
 * stays, or without memory.
 */
bool tmh_learnt_put(tmh_io *io, tmh_learnt **list, const char *what, const char *value,
                    bool instead);

/* fail.c: sentences for what is not an answer. */

/* Why an answer was cut off. */
typedef enum tmh_wrong {
    TMH_FINE,
    TMH_WHOLE,        /* the whole file instead of a range */
    TMH_COMPRESSED,   /* though nothing but identity was asked for */
    TMH_OTHER_RANGE,  /* no range, or not the one that was asked for */
    TMH_OTHER_LENGTH, /* a body that is longer or shorter than its range */
    TMH_OPEN_ENDED,   /* a body of no known length, that ends with the connection */
    TMH_LONG_PAGE,    /* of a listing */
    TMH_CHANGED       /* another object than the one that was opened */
} tmh_wrong;

tenmap_status tmh_fail_wrong(const tmh_file *file, const tmh_request *request, tmh_wrong wrong,
                             tenmap_error *error);
/* A status that is a failure; `sent`: with credentials, if there are any. */
tenmap_status tmh_fail_status(const tmh_file *file, const tmh_request *request, bool sent,
                              tenmap_error *error);
/* A connection that failed. */
tenmap_status tmh_fail_transfer(const tmh_file *file, const tmh_request *request,
                                tenmap_error *error);

/* redirect.c: where a redirect leads. */

/* *next, which the caller frees; refused with a sentence where it may not lead. */
tenmap_status tmh_redirect(const tmh_file *file, const char *url, const char *location, char **next,
                           tenmap_error *error);

/* fetch.c: bytes of a file, whatever happens on the way. */

/*
 * Exactly [first, first + count) into dst. While the file is not pinned yet: at most count bytes from
 * 0, *got of them, and the pins are set. `got` may be NULL where it is pinned.
 */
tenmap_status tmh_fetch(tmh_file *file, uint64_t first, size_t count, unsigned char *dst,
                        size_t *got, tenmap_error *error);
/* When a call that begins now and reads `bytes` ends at the latest, as tmh_now counts. */
uint64_t tmh_deadline(const tmh_io *io, uint64_t bytes);
/*
 * A page of a listing, the first or the one that `from` names as in tmh_list_hop. *next is the address
 * that a hub says is behind it, to be freed, or NULL.
 */
tenmap_status tmh_fetch_text(tmh_file *file, const char *from, uint64_t deadline, tmh_text *text,
                             char **next, tenmap_error *error);

#endif
