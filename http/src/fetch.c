/*
 * Fetches bytes of a file, in spite of redirects, responses that break off, busy servers, addresses
 * that expire, and files that change.
 *
 * An errand is one range (or one page of a listing). It consists of attempts. An attempt starts at
 * the address that redirects led to before, or at the first hop, and follows redirects. The bytes
 * of a body that arrived are kept: the next attempt requests the rest.
 */
#include "http.h"

#include "curl_functions.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_HOPS = 10, MOST_EXPIRED = 2 };
enum { LONGEST_PAUSE = 10000, FIRST_PAUSE = 200 }; /* milliseconds */
enum { PROGRESS = 16 << 10 };                      /* bytes that reset the count of failures */

typedef enum outcome { DONE, TRY_AGAIN, RESOLVE_AGAIN, FAILED } outcome;

typedef struct errand {
    tmh_file *file;
    uint64_t first;
    size_t count, done; /* bytes; done: how many are in dst */
    unsigned char *dst;
    tmh_text *text;        /* for a listing, which has no range */
    const char *list_next; /* for a listing: what the previous page gave, or NULL */
    uint64_t deadline;     /* of all attempts */
    bool opening;
    bool linked;   /* the hub named the object in one of the attempts */
    tmh_pins pins; /* as they were when this attempt began */
    /* State of this attempt. */
    char *first_hop, *url;
    bool redirects; /* the first hop is known to redirect */
    bool cached;    /* starts at the target of an earlier attempt */
    unsigned hops;
    tmh_tag linked_tag, place; /* place: of the url, after redirects */
    bool has_linked_size;
    uint64_t linked_size;
    tmh_request request;
    tmh_wrong wrong;
    uint64_t wait_ms; /* how long the server asks to wait */
    tenmap_error *error;
} errand;

/* Checking a response's headers. */

/*
 * A hub names the object that it serves. All hops of an attempt must name the same one, which must
 * be the pinned one. What hosts other than the hub name is ignored.
 */
static bool take_link(errand *e, const tmh_answer *a) {
    if (!a->linked_tag.len || !tmh_same_origin(e->first_hop, e->url))
        return true;
    if (e->linked_tag.len && !tmh_tag_equal(&e->linked_tag, &a->linked_tag))
        return false;
    e->linked = true;
    e->linked_tag = a->linked_tag;
    e->has_linked_size = a->has_linked_size;
    e->linked_size = a->linked_size;
    return !e->pins.linked || tmh_tag_equal(&e->pins.linked_tag, &a->linked_tag);
}

/*
 * Whether the response is for the object that was pinned. If the hub names the same object, a new
 * place is accepted, though its tags may differ. If the hub named an object only then or only now,
 * that proves nothing: tag and date must be equal, and at least one of them must exist.
 */
static bool is_same(const errand *e, const tmh_answer *a) {
    const tmh_pins *p = &e->pins;
    if (!p->set)
        return true;
    if (a->total != p->size)
        return false;
    bool marked = tmh_tag_equal(&p->tag, &a->tag) && tmh_tag_equal(&p->modified, &a->modified);
    bool said = e->linked_tag.len > 0;
    if (e->cached)
        return marked;
    if (said != p->linked)
        return marked && (a->tag.len || a->modified.len);
    return marked || (said && e->hops > 0 && !tmh_tag_equal(&p->place, &e->place));
}

static tmh_wrong judge_part(const errand *e, const tmh_answer *a) {
    uint64_t asked = e->first + e->done, last = e->first + e->count - 1;
    if (a->encoded)
        return TMH_COMPRESSED;
    if (!a->has_range || a->unsatisfied)
        return TMH_OTHER_RANGE;
    if (!is_same(e, a) || (e->has_linked_size && e->linked_size != a->total))
        return TMH_CHANGED; /* checked before the range, which a file that shrank cannot satisfy */
    if (last >= a->total)
        last = a->total - 1;
    if (a->first != asked || a->last != last)
        return TMH_OTHER_RANGE;
    if (a->has_length && a->length != a->last - a->first + 1)
        return TMH_OTHER_LENGTH;
    return TMH_FINE;
}

static tmh_wrong judge_whole(const errand *e, const tmh_answer *a) {
    if (e->has_linked_size && a->has_length && e->linked_size != a->length)
        return TMH_CHANGED;
    if (!e->opening || e->pins.set || (a->has_length && a->length > e->count))
        return TMH_WHOLE;
    if (!a->has_length && !a->framed)
        return TMH_OPEN_ENDED; /* if the connection broke, the file would look shorter */
    return a->encoded ? TMH_COMPRESSED : TMH_FINE;
}

static tmh_verdict look_at(void *ctx, const tmh_answer *a) {
    errand *e = ctx;
    e->request.room = e->text ? TMH_LONGEST_PAGE : e->count - e->done;
    if (e->text && a->status == 200) {
        e->wrong = tmh_learn_commit(e->file, e->url, a) ? TMH_FINE : TMH_CHANGED;
        return e->wrong == TMH_FINE ? TMH_BODY : TMH_CUT_OFF;
    }
    if (e->text || (a->status != 200 && a->status != 206))
        return TMH_SAID;
    e->wrong = !take_link(e, a) || !tmh_learn_commit(e->file, e->url, a) ? TMH_CHANGED
               : a->status == 206                                        ? judge_part(e, a)
                                                                         : judge_whole(e, a);
    if (e->wrong != TMH_FINE)
        return TMH_CUT_OFF;
    if (a->status == 206)
        e->request.room = (size_t)(a->last - a->first + 1);
    return TMH_BODY;
}

/* What a good response tells. */

static void set_pins(errand *e, uint64_t size) {
    const tmh_answer *a = &e->request.answer;
    tmh_file *file = e->file;
    char *target = e->hops > 0 ? tmh_copy(e->url, strlen(e->url)) : NULL, *before = NULL;
    if (e->linked_tag.len || !e->pins.set) { /* a tag that is missing now never matches again */
        e->pins.linked = e->linked || e->pins.linked;
        e->pins.linked_tag = e->linked_tag;
    }
    e->pins.set = true;
    e->pins.size = size;
    e->pins.tag = a->tag;
    e->pins.modified = a->modified;
    e->pins.place = e->place;
    tmh_lock(file->io->client);
    if (!e->cached) { /* a known target has its pins; another thread may have found a new one */
        file->pins = e->pins;
        before = file->target;
        file->target = target;
        file->redirects = e->hops > 0;
        target = NULL;
    }
    tmh_unlock(file->io->client);
    free(before);
    free(target);
}

/* The target of redirects no longer works: the next attempt begins at the first hop. */
static void forget_target(errand *e) {
    char *before = NULL;
    tmh_lock(e->file->io->client);
    if (e->cached && e->file->target && strcmp(e->file->target, e->url) == 0) {
        before = e->file->target;
        e->file->target = NULL;
    }
    tmh_unlock(e->file->io->client);
    free(before);
}

/* One request. */

static bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Never If-Range: if the file changed, that makes the server send all of it. */
static void add_validators(const errand *e, tmh_headers *headers) {
    const tmh_pins *p = &e->pins;
    bool at_target = e->cached || e->hops > 0;
    if (!p->set || (e->redirects && !at_target) || (p->linked && !e->cached && e->hops > 0))
        return;
    if (tmh_tag_is_strong(&p->tag))
        tmh_header_add(headers, "If-Match: %s", p->tag.text);
    else if (p->modified.text[0])
        tmh_header_add(headers, "If-Unmodified-Since: %s", p->modified.text);
}

static bool ask(errand *e) {
    tmh_headers headers = {.count = 0};
    tmh_text range = {.bytes = NULL};
    tmh_addf(&range, "bytes=%llu-%llu", (ull)e->first + e->done, (ull)e->first + e->count - 1);
    const char *range_text = e->text ? NULL : range.bytes;
    if (range.failed)
        return false;
    if (range_text) {
        tmh_header_add(&headers, "Range: %s", range_text);
        add_validators(e, &headers);
    }
    tmh_header_add(&headers, "Accept-Encoding: identity");
    tmh_header_add(&headers, "Accept: */*");
    tmh_add_credentials(e->file, &headers, e->first_hop, e->url, range_text);
    e->wrong = TMH_FINE;
    if (e->text)
        e->text->len = 0;
    e->request.url = e->url;
    e->request.headers = (const char *const *)headers.lines;
    e->request.expected = e->text ? 0 : e->count - e->done;
    e->request.deadline = e->deadline;
    e->request.dst = e->text ? NULL : e->dst + e->done;
    e->request.text = e->text;
    e->request.look = look_at;
    e->request.ctx = e;
    bool fine = !headers.failed && tmh_perform(e->file->io->client, &e->request);
    e->request.headers = NULL;
    tmh_headers_free(&headers);
    free(range.bytes);
    return fine;
}

/* What a response means. */

static outcome stop(errand *e, tenmap_status status) {
    (void)status; /* the message is in e->error */
    (void)e;
    return FAILED;
}

static outcome finish_part(errand *e) {
    const tmh_request *r = &e->request;
    set_pins(e, r->answer.total);
    if (e->opening && e->count > r->answer.total)
        e->count = (size_t)r->answer.total;
    e->done += r->got;
    return e->done == e->count ? DONE : TRY_AGAIN;
}

/* The server sent a short file whole instead of a range, or nothing because the file is empty. */
static outcome finish_whole(errand *e, size_t size) {
    if (e->has_linked_size && e->linked_size != size)
        return stop(e, tmh_fail_wrong(e->file, &e->request, TMH_CHANGED, e->error));
    set_pins(e, size);
    e->count = e->done = size;
    return DONE;
}

static bool is_page(const errand *e) {
    size_t at = 0;
    while (at < e->done && strchr(" \t\r\n", e->dst[at]) && e->dst[at])
        at++;
    return e->request.answer.is_page && at < e->done && e->dst[at] == '<';
}

/* Some servers name the bucket's region only in the body of an error. */
static void take_region(tmh_request *request) {
    tmh_answer *a = &request->answer;
    char *region = a->status == 400 && !a->region[0] && request->said.bytes
                       ? tmh_xml_text(request->said.bytes, request->said.len, "Region")
                       : NULL;
    if (region)
        tmh_answer_region(a, region);
    free(region);
}

static outcome judge_status(errand *e) {
    const tmh_answer *a = &e->request.answer;
    bool sent = tmh_same_origin(e->first_hop, e->url), redirected = e->cached || e->hops > 0;
    if (e->opening && !e->pins.set && a->status == 416 && (!a->has_range || a->total == 0))
        return finish_whole(e, 0);
    take_region(&e->request);
    tmh_fail_status(e->file, &e->request, sent, e->error);
    tmh_learn_commit(e->file, e->url, a);
    if (tmh_learn_region(e->file, e->first_hop, e->url, a))
        return RESOLVE_AGAIN;
    if (a->status == 408 || a->status == 429 ||
        (a->status >= 500 && a->status != 501 && a->status != 505)) {
        e->wait_ms = a->has_retry_after && a->retry_after < 86400 ? a->retry_after * 1000
                     : a->has_retry_after                         ? UINT64_C(86400000)
                                                                  : 0;
        return TRY_AGAIN;
    }
    if (redirected && (a->status == 400 || a->status == 401 || a->status == 403 ||
                       a->status == 404 || a->status == 410)) {
        forget_target(e);
        return RESOLVE_AGAIN;
    }
    return FAILED;
}

/* Which failures of a connection are temporary: all except those that are about the address. */
static bool passes(const errand *e) {
    switch (e->request.code) {
    case TMH_CURLE_OK:
    case TMH_CURLE_OPERATION_TIMEDOUT:
    case TMH_CURLE_PARTIAL_FILE:
    case TMH_CURLE_RECV_ERROR:
    case TMH_CURLE_SEND_ERROR:
    case TMH_CURLE_GOT_NOTHING:
    case TMH_CURLE_HTTP2:
    case TMH_CURLE_HTTP2_STREAM:
    case TMH_CURLE_WEIRD_SERVER_REPLY:
    case TMH_CURLE_SSL_CONNECT_ERROR:
        return true;
    case TMH_CURLE_COULDNT_CONNECT:
    case TMH_CURLE_COULDNT_RESOLVE_HOST:
        return e->pins.set; /* it existed before */
    default:
        return false;
    }
}

static outcome judge_answer(errand *e) {
    tmh_request *r = &e->request;
    int status = r->answer.status;
    if (r->cut)
        return stop(e, tmh_fail_wrong(e->file, r, e->wrong, e->error));
    if (r->overflow)
        return stop(e, tmh_fail_wrong(e->file, r,
                                      e->text         ? TMH_LONG_PAGE
                                      : status == 200 ? TMH_WHOLE
                                                      : TMH_OTHER_LENGTH,
                                      e->error));
    if (r->headed && status != 200 && status != 206)
        return judge_status(e);
    if (r->headed && status == 206 && !e->text && finish_part(e) == DONE)
        return DONE;
    tmh_fail_transfer(e->file, r, e->error);
    if (r->code != TMH_CURLE_OK)
        return passes(e) ? TRY_AGAIN : FAILED;
    if (status == 200)
        return e->text ? DONE : finish_whole(e, r->got);
    return TRY_AGAIN; /* a response that ended properly, but too early */
}

/* Attempts. */

static bool begin_attempt(errand *e) {
    tmh_file *file = e->file;
    free(e->first_hop);
    free(e->url);
    e->first_hop = e->text ? tmh_list_hop(file, e->list_next) : tmh_first_hop(file);
    e->hops = 0;
    e->wait_ms = 0;
    e->linked_tag = e->place = (tmh_tag){.len = 0};
    e->has_linked_size = false;
    tmh_lock(file->io->client);
    e->pins = file->pins;
    e->redirects = file->redirects;
    e->cached = !e->text && file->target;
    const char *url = e->cached ? file->target : e->first_hop;
    e->url = url ? tmh_copy(url, strlen(url)) : NULL;
    tmh_unlock(file->io->client);
    return e->first_hop && e->url;
}

static outcome follow(errand *e) {
    char *next;
    const tmh_answer *a = &e->request.answer;
    if (!take_link(e, a) || !tmh_learn_commit(e->file, e->url, a))
        return stop(e, tmh_fail_wrong(e->file, &e->request, TMH_CHANGED, e->error));
    if (tmh_learn_region(e->file, e->first_hop, e->url, a)) {
        tmh_fail(e->error, TENMAP_ERR_IO, "%s: the server says that the bucket is in region %s",
                 tmh_show(e->file->given).text, a->region);
        return RESOLVE_AGAIN;
    }
    if (++e->hops > MOST_HOPS)
        return stop(e,
                    tmh_fail(e->error, TENMAP_ERR_IO, "%s: the server redirects more than %d times",
                             tmh_show(e->file->given).text, (int)MOST_HOPS));
    if (!a->location)
        return stop(e, tmh_fail(e->error, TENMAP_ERR_IO,
                                "%s: the server redirects, but does not say where to",
                                tmh_show(e->file->given).text));
    if (tmh_redirect(e->file, e->url, a->location, &next, e->error) != TENMAP_OK)
        return FAILED;
    free(e->url);
    e->url = next;
    if (!tmh_tag_set(&e->place, next, strcspn(next, "?")))
        return stop(e, tmh_fail_memory(e->error, "a request"));
    tmh_count(e->file->io->client, TMH_REDIRECT);
    return DONE;
}

static outcome fail_stopped(errand *e) {
    return stop(e, tmh_fail(e->error, TENMAP_ERR_CANCELLED, "%s: stopped by the caller",
                            tmh_show(e->file->given).text));
}

static outcome attempt(errand *e) {
    if (!begin_attempt(e))
        return stop(e, tmh_fail_memory(e->error, "a request"));
    for (;;) {
        if (tmh_stops(e->file->io->client))
            return fail_stopped(e);
        if (!ask(e))
            return stop(e, tmh_fail_memory(e->error, "a request"));
        if (e->request.code == TMH_CURLE_ABORTED_BY_CALLBACK)
            return fail_stopped(e);
        if (!e->request.headed || !is_redirect(e->request.answer.status))
            return judge_answer(e);
        if (e->cached) { /* a target that now redirects is no longer valid */
            tmh_fail(e->error, TENMAP_ERR_IO,
                     "%s: the address that the server redirected to redirects again",
                     tmh_show(e->file->given).text);
            forget_target(e);
            return RESOLVE_AGAIN;
        }
        outcome followed = follow(e);
        if (followed != DONE)
            return followed;
    }
}

/* Ends early if the caller's `stop` says so. */
static void pause_for(const tmh_client *client, uint64_t ms) {
    enum { STEP = 100 };
    while (ms > 0 && !tmh_stops(client)) {
        uint64_t step = ms < STEP ? ms : STEP;
        struct timespec left = {0, (long)step * 1000000};
        while (nanosleep(&left, &left) != 0)
            continue;
        ms -= step;
    }
}

/*
 * Back-off with jitter: between half and all of a pause that doubles. After a connection that
 * delivered bytes before it broke, the next attempt follows almost at once.
 */
static uint64_t pause_after(const errand *e, unsigned failures, bool progressed) {
    const tmh_settings *s = &e->file->io->settings;
    uint64_t pause = s->timeout_ms / 50 < FIRST_PAUSE ? s->timeout_ms / 50 : FIRST_PAUSE;
    pause = (pause ? pause : 1) << (failures < 10 ? failures - 1 : 9);
    if (pause > LONGEST_PAUSE)
        pause = LONGEST_PAUSE;
    pause = progressed ? pause / 8 : pause;
    pause = pause / 2 + tmh_random(e->file->io->client, pause / 2 + 1);
    return e->wait_ms > pause ? e->wait_ms : pause;
}

/*
 * A failed errand always returns a failure and a message: otherwise the caller would use bytes that
 * never arrived.
 */
static tenmap_status end_failed(errand *e) {
    if (e->error->status == TENMAP_OK)
        tmh_fail(e->error, TENMAP_ERR_IO, "%s: the request failed", tmh_show(e->file->given).text);
    return e->error->status;
}

static tenmap_status give_up(errand *e, unsigned failures) {
    end_failed(e);
    size_t used = strlen(e->error->message), left = sizeof e->error->message - used;
    static const char more[] = "; trying again did not help";
    if (failures > 1 && left > sizeof more)
        memcpy(e->error->message + used, more, sizeof more);
    return e->error->status;
}

/*
 * Whether many bytes arrived, or a large share of those that were missing. Either can happen only a
 * limited number of times.
 */
static bool has_progressed(const errand *e, size_t before) {
    size_t came = e->done - before, left = e->count - before;
    return came >= PROGRESS || (came > 0 && came >= left / 4);
}

uint64_t tmh_deadline(const tmh_io *io, uint64_t bytes) {
    uint64_t each = 2 * (uint64_t)io->settings.timeout_ms + bytes / 4;
    return tmh_now() + each * (io->settings.retries + 1);
}

static tenmap_status make_attempts(errand *e) {
    const tmh_settings *s = &e->file->io->settings;
    unsigned failures = 0, expired = 0;
    for (;;) {
        size_t before = e->done;
        outcome o = attempt(e);
        if (o == DONE)
            return TENMAP_OK;
        if (o == FAILED)
            return end_failed(e);
        bool progressed = has_progressed(e, before);
        if (progressed)
            failures = expired = 0;
        if (o == RESOLVE_AGAIN) {
            if (++expired > MOST_EXPIRED || tmh_now() >= e->deadline)
                return give_up(e, expired);
            tmh_count(e->file->io->client, TMH_RETRY);
            continue;
        }
        if (++failures > s->retries)
            return give_up(e, failures);
        if (failures > 1)
            forget_target(e); /* perhaps only that host is out of order */
        uint64_t wait = pause_after(e, failures, progressed);
        if (tmh_now() + wait >= e->deadline)
            return give_up(e, failures);
        pause_for(e->file->io->client, wait);
        tmh_count(e->file->io->client, TMH_RETRY);
    }
}

/* The caller does not see failures that a later attempt made good. */
static tenmap_status run_errand(errand *e) {
    tenmap_error *shown = e->error, own = {.status = TENMAP_OK};
    e->error = &own;
    tenmap_status status = make_attempts(e);
    e->error = shown;
    if (status != TENMAP_OK)
        *shown = own;
    return status;
}

static void end_errand(errand *e) {
    free(e->first_hop);
    free(e->url);
    free(e->request.said.bytes);
    tmh_answer_free(&e->request.answer);
}

tenmap_status tmh_fetch(tmh_file *file, uint64_t first, size_t count, unsigned char *dst,
                        size_t *got, tenmap_error *error) {
    errand e = {.file = file, .first = first, .count = count, .dst = dst, .error = error};
    e.opening = got != NULL;
    e.deadline = tmh_deadline(file->io, count);
    tenmap_status status = run_errand(&e);
    if (status == TENMAP_OK && e.opening && is_page(&e))
        status = tmh_fail(error, TENMAP_ERR_FORMAT,
                          "%s: the server answers with a web page, not with a model; a model on a "
                          "hub is opened as hf://ORG/MODEL",
                          tmh_show(file->given).text);
    if (got)
        *got = e.done;
    end_errand(&e);
    return status;
}

/*
 * The address of the next page, which must be on the hub itself, because the request carries a
 * token.
 */
static tenmap_status take_next(errand *e, char **next) {
    const char *link = e->request.answer.next;
    *next = NULL;
    if (!link || e->file->address.scheme != TMH_HF)
        return TENMAP_OK;
    tenmap_status status = tmh_redirect(e->file, e->url, link, next, e->error);
    if (status == TENMAP_OK && !tmh_same_origin(*next, e->file->io->settings.hub)) {
        free(*next);
        *next = NULL;
        status = tmh_fail(e->error, TENMAP_ERR_IO,
                          "%s: the listing continues at another host, which is not asked",
                          tmh_show(e->file->given).text);
    }
    return status;
}

tenmap_status tmh_fetch_text(tmh_file *file, const char *from, uint64_t deadline, tmh_text *text,
                             char **next, tenmap_error *error) {
    errand e = {
        .file = file, .text = text, .list_next = from, .deadline = deadline, .error = error};
    *next = NULL;
    tenmap_status status = run_errand(&e);
    if (status == TENMAP_OK)
        status = take_next(&e, next);
    end_errand(&e);
    return status;
}
