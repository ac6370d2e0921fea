/*
 * Connections, and single requests on them.
 *
 * There is a fixed number of handles. Each is used by one thread at a time and keeps its
 * connections; a thread that finds none free waits. Redirects are not followed here: fetch.c
 * decides about each of them.
 */
#include "http.h"

#include "curl_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* How many bytes of a failure's body are kept, and how many are received at most. */
enum { SAID_KEPT = 8 << 10, SAID_TAKEN = 64 << 10 };
/* Connections that a handle keeps open, and its sockets that we keep track of. */
enum { KEPT_OPEN = 4, KNOWN_SOCKETS = 16 };

typedef struct handle {
    void *easy;
    bool busy;
    int sockets[KNOWN_SOCKETS]; /* TMH_CURL_SOCKET_BAD where there is none */
    char problem[TMH_CURL_ERROR_SIZE];
} handle;

struct tmh_client {
    const tmh_curl_functions *curl;
    const tmh_settings *settings;
    _Atomic(long) owner; /* the process whose connections these are; 0 while a child takes over */
    pthread_mutex_t lock, known; /* of the handles; of what is learned about files */
    pthread_cond_t freed;
    handle *handles;
    uint64_t random;
    atomic_ullong requests, bytes, retries, redirects;
};

/* A request in progress. */
typedef struct transfer {
    tmh_client *client;
    tmh_request *request;
    tmh_verdict verdict;
    bool decided, failed;
    size_t said, head; /* bytes: of a failure's body, of header lines */
} transfer;

/* Fork: what a child inherits belongs to the parent. */

static void no_sockets(handle *h) {
    for (size_t i = 0; i < KNOWN_SOCKETS; i++)
        h->sockets[i] = TMH_CURL_SOCKET_BAD;
}

static void start_locks(tmh_client *client) {
    pthread_mutex_init(&client->lock, NULL);
    pthread_mutex_init(&client->known, NULL);
    pthread_cond_init(&client->freed, NULL);
}

/*
 * A child inherits the parent's sockets, and locks of threads that do not exist in it. It closes
 * the sockets without sending anything, because the parent still uses the connections, and leaves
 * curl's handles alone, because curl would end the connections properly.
 */
static void take_over(tmh_client *client) {
    start_locks(client);
    for (uint32_t i = 0; i < client->settings->connections; i++) {
        handle *h = &client->handles[i];
        for (size_t s = 0; s < KNOWN_SOCKETS; s++)
            if (h->sockets[s] != TMH_CURL_SOCKET_BAD)
                close(h->sockets[s]);
        no_sockets(h);
        h->easy = NULL;
        h->busy = false;
    }
}

static void enter(tmh_client *client) {
    long self = (long)getpid(), owner = atomic_load(&client->owner);
    while (owner != self) {
        if (owner != 0 && atomic_compare_exchange_weak(&client->owner, &owner, 0)) {
            take_over(client);
            atomic_store(&client->owner, self);
        }
        sched_yield();
        owner = atomic_load(&client->owner);
    }
}

void tmh_lock(tmh_client *client) {
    enter(client);
    pthread_mutex_lock(&client->known);
}

void tmh_unlock(tmh_client *client) {
    pthread_mutex_unlock(&client->known);
}

/* Signals: a connection that breaks while OpenSSL writes to it would raise SIGPIPE. */

typedef struct quiet {
    sigset_t before;
    bool pending;
} quiet;

static void begin_quiet(quiet *q) {
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    q->pending = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &q->before);
}

/* Discards a SIGPIPE that is blocked and pending, if there is one. */
static void discard_pipe(const sigset_t *pipe) {
#ifdef __APPLE__ /* which has no sigtimedwait; a broken connection's signal is for its own thread */
    sigset_t pending;
    int taken;
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1)
        (void)sigwait(pipe, &taken);
#else
    struct timespec now = {0, 0};
    while (sigtimedwait(pipe, NULL, &now) < 0 && errno == EINTR)
        continue;
#endif
}

static void end_quiet(const quiet *q) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!q->pending) /* a signal that was pending before is the caller's */
        discard_pipe(&pipe);
    pthread_sigmask(SIG_SETMASK, &q->before, NULL);
}

/* Callbacks. */

static tmh_verdict decide(transfer *t) {
    if (!t->decided) {
        t->decided = true;
        t->verdict = t->request->look(t->request->ctx, &t->request->answer);
        t->request->cut = t->verdict == TMH_CUT_OFF;
    }
    return t->verdict;
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx) {
    transfer *t = ctx;
    size_t len = size * count;
    tmh_answer *answer = &t->request->answer;
    bool ends = len == 0 || line[0] == '\r' || line[0] == '\n';
    t->head += len;
    if (t->head > TMH_LONGEST_HEAD) { /* libcurl keeps all lines, some versions without a limit */
        t->request->long_head = true;
        return 0;
    }
    if (t->decided)
        return len; /* trailers */
    if (!ends) {
        tmh_answer_line(answer, line, len);
        return answer->out_of_memory ? 0 : len;
    }
    if (answer->status < 200) /* an interim response */
        return len;
    t->request->headed = true;
    return decide(t) == TMH_CUT_OFF ? 0 : len;
}

static size_t take_body(transfer *t, const char *bytes, size_t len) {
    tmh_request *r = t->request;
    if (len > r->room - r->got) {
        r->overflow = true;
        return 0;
    }
    if (r->text) {
        tmh_add(r->text, bytes, len);
        if (r->text->failed) {
            t->failed = true;
            return 0;
        }
    } else {
        memcpy(r->dst + r->got, bytes, len);
    }
    r->got += len;
    return len;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx) {
    transfer *t = ctx;
    size_t len = size * count;
    atomic_fetch_add(&t->client->bytes, len);
    switch (decide(t)) {
    case TMH_BODY:
        return take_body(t, bytes, len);
    case TMH_SAID:
        if (t->request->said.len < SAID_KEPT)
            tmh_add(&t->request->said, bytes,
                    len < SAID_KEPT - t->request->said.len ? len
                                                           : SAID_KEPT - t->request->said.len);
        t->said += len;
        return t->said > SAID_TAKEN ? 0 : len;
    default:
        return 0;
    }
}

/* A socket that programs started by this one do not inherit, and that raises no SIGPIPE. */
static int quiet_socket(const tmh_curl_sockaddr *a) {
#ifdef SOCK_CLOEXEC
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
#else
    int fd = socket(a->family, a->socktype, a->protocol), on = 1;
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
        (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
        (void)on;
    }
    return fd;
#endif
}

static int open_socket(void *ctx, int purpose, tmh_curl_sockaddr *address) {
    handle *h = ctx;
    (void)purpose;
    int fd = quiet_socket(address);
    for (size_t i = 0; fd != TMH_CURL_SOCKET_BAD && i < KNOWN_SOCKETS; i++)
        if (h->sockets[i] == TMH_CURL_SOCKET_BAD) {
            h->sockets[i] = fd;
            break;
        }
    return fd;
}

static int close_socket(void *ctx, int fd) {
    handle *h = ctx;
    for (size_t i = 0; i < KNOWN_SOCKETS; i++)
        if (h->sockets[i] == fd)
            h->sockets[i] = TMH_CURL_SOCKET_BAD;
    return close(fd);
}

bool tmh_stops(const tmh_client *client) {
    const tmh_settings *s = client->settings;
    return s->stop && s->stop(s->stop_ctx) != 0;
}

static int on_progress(void *ctx, int64_t total, int64_t now, int64_t up_total, int64_t up_now) {
    (void)total, (void)now, (void)up_total, (void)up_now;
    return tmh_stops(ctx) ? 1 : 0;
}

/* Handles. */

/* The file of trusted certificates that libcurl lacks; NULL if it has its own. */
static const char *missing_ca_file(const tmh_client *client, void *easy) {
    char *file = NULL, *folder = NULL;
    if (client->curl->easy_getinfo(easy, TMH_CURLINFO_CAINFO, &file) != TMH_CURLE_OK ||
        client->curl->easy_getinfo(easy, TMH_CURLINFO_CAPATH, &folder) != TMH_CURLE_OK)
        return NULL;
    return tmh_ca_bundle(file, folder, NULL);
}

/* Refuses every other protocol. CURLOPT_PROTOCOLS_STR appeared in libcurl 7.85. */
static int allow_http_only(const tmh_client *client, void *easy) {
    int code = client->curl->easy_setopt(easy, TMH_CURLOPT_PROTOCOLS_STR, "http,https");
    if (code != TMH_CURLE_UNKNOWN_OPTION)
        return code;
    return client->curl->easy_setopt(easy, TMH_CURLOPT_PROTOCOLS,
                                     (long)(TMH_CURLPROTO_HTTP | TMH_CURLPROTO_HTTPS));
}

static bool start_handle(tmh_client *client, handle *h) {
    const tmh_settings *s = client->settings;
    if (h->easy)
        return true;
    void *easy = h->easy = client->curl->easy_init();
    if (!easy)
        return false;
    long connect = s->timeout_ms, silent = (long)(s->timeout_ms + 999) / 1000;
    int code = allow_http_only(client, easy);
#define SET(option, value)                                                                         \
    if (code == TMH_CURLE_OK)                                                                      \
    code = client->curl->easy_setopt(easy, TMH_CURLOPT_##option, value)
    SET(NOSIGNAL, 1L);
    SET(FOLLOWLOCATION, 0L);
    SET(NETRC, (long)TMH_CURL_NETRC_IGNORED);
    SET(SSL_VERIFYPEER, 1L);
    SET(SSL_VERIFYHOST, 2L);
    SET(PATH_AS_IS, 1L); /* keys may hold .., and signatures cover the path as it is */
    SET(ERRORBUFFER, h->problem);
    SET(USERAGENT, s->user_agent);
    SET(CONNECTTIMEOUT_MS, connect);
    SET(LOW_SPEED_LIMIT, 1L);
    SET(LOW_SPEED_TIME, silent);
    SET(BUFFERSIZE, 256L << 10);
    SET(MAXCONNECTS, (long)KEPT_OPEN);
    SET(SUPPRESS_CONNECT_HEADERS, 1L);
    SET(HEADERFUNCTION, on_header);
    SET(WRITEFUNCTION, on_body);
    SET(OPENSOCKETFUNCTION, open_socket);
    SET(OPENSOCKETDATA, h);
    SET(CLOSESOCKETFUNCTION, close_socket);
    SET(CLOSESOCKETDATA, h);
    if (s->stop) {
        SET(NOPROGRESS, 0L);
        SET(XFERINFOFUNCTION, on_progress);
        SET(XFERINFODATA, client);
    }
    const char *ca_file = s->ca_file || s->ca_folder ? s->ca_file : missing_ca_file(client, easy);
    if (ca_file)
        SET(CAINFO, ca_file);
    if (s->ca_folder)
        SET(CAPATH, s->ca_folder);
    if (code == TMH_CURLE_OK) /* if curl was built without HTTP/2, it uses HTTP/1.1 */
        client->curl->easy_setopt(easy, TMH_CURLOPT_HTTP_VERSION, (long)TMH_CURL_HTTP_VERSION_2TLS);
#undef SET
    return code == TMH_CURLE_OK;
}

/* A free handle, or NULL. The caller holds the lock. */
static handle *take_free(tmh_client *client) {
    for (uint32_t i = 0; i < client->settings->connections; i++)
        if (!client->handles[i].busy) {
            client->handles[i].busy = true;
            return &client->handles[i];
        }
    return NULL;
}

/* Waits a tenth of a second, or until a handle is free. The caller holds the lock. */
static void wait_a_little(tmh_client *client) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&client->freed, &client->lock, &until);
}

/* NULL if the request's time is over or the caller's `stop` ends it: request->code says which. */
static handle *borrow(tmh_client *client, tmh_request *request) {
    enter(client);
    request->code = TMH_CURLE_OK;
    pthread_mutex_lock(&client->lock);
    handle *h = take_free(client);
    while (!h && request->code == TMH_CURLE_OK) {
        wait_a_little(client);
        h = take_free(client);
        if (!h && request->deadline && tmh_now() >= request->deadline)
            request->code = TMH_CURLE_OPERATION_TIMEDOUT;
        pthread_mutex_unlock(&client->lock); /* the caller's function runs without the lock */
        if (!h && tmh_stops(client))
            request->code = TMH_CURLE_ABORTED_BY_CALLBACK;
        pthread_mutex_lock(&client->lock);
    }
    pthread_mutex_unlock(&client->lock);
    return h;
}

static void give_back(tmh_client *client, handle *h) {
    pthread_mutex_lock(&client->lock);
    h->busy = false;
    pthread_cond_signal(&client->freed);
    pthread_mutex_unlock(&client->lock);
}

static void *list_headers(const tmh_client *client, const char *const *headers, bool *fine) {
    void *list = NULL;
    for (*fine = true; *fine && headers && *headers; headers++) {
        void *longer = client->curl->slist_append(list, *headers);
        *fine = longer != NULL;
        list = longer ? longer : list;
    }
    return list;
}

static void run(tmh_client *client, handle *h, transfer *t) {
    tmh_request *r = t->request;
    uint64_t limit = 2 * (uint64_t)client->settings->timeout_ms + r->expected / 4;
    uint64_t now = tmh_now(), left = r->deadline > now ? r->deadline - now : 1;
    quiet q;
    if (r->deadline && left < limit)
        limit = left;
    h->problem[0] = '\0';
    client->curl->easy_setopt(h->easy, TMH_CURLOPT_TIMEOUT_MS,
                              limit < INT32_MAX ? (long)limit : INT32_MAX);
    client->curl->easy_setopt(h->easy, TMH_CURLOPT_HEADERDATA, t);
    client->curl->easy_setopt(h->easy, TMH_CURLOPT_WRITEDATA, t);
    begin_quiet(&q);
    r->code = client->curl->easy_perform(h->easy);
    end_quiet(&q);
    if (r->code == TMH_CURLE_OK && !t->decided)
        decide(t);
    snprintf(r->problem, sizeof r->problem, "%s",
             h->problem[0] ? h->problem : client->curl->easy_strerror(r->code));
}

bool tmh_perform(tmh_client *client, tmh_request *request) {
    transfer t = {.client = client, .request = request};
    bool fine;
    void *headers = list_headers(client, request->headers, &fine);
    tmh_answer_free(&request->answer);
    request->got = 0;
    request->said.len = 0;
    request->overflow = request->cut = request->headed = request->long_head = false;
    memset(request->problem, 0, sizeof request->problem);
    handle *h = fine ? borrow(client, request) : NULL;
    if (fine && !h)
        snprintf(request->problem, sizeof request->problem, "all connections were in use");
    if (h) {
        fine = start_handle(client, h) &&
               client->curl->easy_setopt(h->easy, TMH_CURLOPT_URL, request->url) == TMH_CURLE_OK &&
               client->curl->easy_setopt(h->easy, TMH_CURLOPT_HTTPHEADER, headers) == TMH_CURLE_OK;
        if (fine) {
            atomic_fetch_add(&client->requests, 1);
            run(client, h, &t);
            client->curl->easy_setopt(h->easy, TMH_CURLOPT_HTTPHEADER,
                                      NULL); /* they are freed below */
        }
        give_back(client, h);
    }
    client->curl->slist_free_all(headers);
    return fine && !t.failed && !request->answer.out_of_memory;
}

/* The rest. */

tmh_client *tmh_client_new(const tmh_settings *settings, tenmap_error *error) {
    if (tmh_find_curl(error) != TENMAP_OK)
        return NULL;
    const tmh_curl_functions *curl = tmh_curl();
    if (curl->global_init(TMH_CURL_GLOBAL_DEFAULT) != TMH_CURLE_OK) {
        tmh_fail(error, TENMAP_ERR_UNSUPPORTED, "libcurl cannot be started on this system");
        return NULL;
    }
    tmh_client *client = calloc(1, sizeof *client);
    if (client)
        client->handles = calloc(settings->connections, sizeof *client->handles);
    if (!client || !client->handles) {
        free(client);
        curl->global_cleanup();
        tmh_fail_memory(error, "the connections");
        return NULL;
    }
    for (uint32_t i = 0; i < settings->connections; i++)
        no_sockets(&client->handles[i]);
    client->curl = curl;
    client->settings = settings;
    client->random = tmh_now() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)client;
    atomic_init(&client->owner, (long)getpid());
    start_locks(client);
    return client;
}

void tmh_client_free(tmh_client *client) {
    if (!client)
        return;
    enter(client);
    quiet q;
    begin_quiet(&q);
    for (uint32_t i = 0; i < client->settings->connections; i++)
        client->curl->easy_cleanup(client->handles[i].easy);
    end_quiet(&q);
    pthread_mutex_destroy(&client->lock);
    pthread_mutex_destroy(&client->known);
    pthread_cond_destroy(&client->freed);
    client->curl->global_cleanup();
    free(client->handles);
    free(client);
}

uint64_t tmh_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t tmh_random(tmh_client *client, uint64_t limit) {
    tmh_lock(client);
    client->random = client->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t value = client->random >> 33;
    tmh_unlock(client);
    return limit ? value % limit : 0;
}

void tmh_count(tmh_client *client, tmh_event event) {
    atomic_fetch_add(event == TMH_RETRY ? &client->retries : &client->redirects, 1);
}

tenmap_http_traffic tmh_traffic(tmh_client *client) {
    return (tenmap_http_traffic){
        .requests = atomic_load(&client->requests),
        .bytes = atomic_load(&client->bytes),
        .retries = atomic_load(&client->retries),
        .redirects = atomic_load(&client->redirects),
    };
}
