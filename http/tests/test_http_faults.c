/*
 * libtenmap-http against a server that misbehaves (server.py, which runs this program and has the
 * cases): every case ends within its time, with the right bytes or with one clear error message.
 *
 *     server.py test_http_faults [SEEDS]
 */
#include "../tenmap_http.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIZE = 1000003 };
/*
 * Time limits in milliseconds: a short one for servers that are silent on purpose, and one for all
 * others that even a busy machine meets.
 */
enum { SHORT = 2000, LONG = 20000 };
static const char *base;
static unsigned seeds = 30;

static unsigned char pattern(uint64_t i) {
    return (unsigned char)(i * 131 + (i >> 8) * 17 + (i >> 16));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static tenmap_io must_create(const char *token, uint32_t timeout_ms) {
    tenmap_io io;
    tenmap_error error;
    tenmap_http_options options = TENMAP_HTTP_OPTIONS_INIT;
    options.token = token;
    options.endpoint = base;
    options.retries = 4;
    options.timeout_ms = timeout_ms;
    if (tenmap_http_create(&options, &io, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return io;
}

static uint32_t limit_of(const char *name) {
    return strncmp(name, "stall", 5) == 0 ? SHORT : LONG;
}

static const char *address_of(const char *name) {
    static _Thread_local char text[256];
    bool whole = strstr(name, "://") != NULL;
    snprintf(text, sizeof text, "%s%s%s%s", whole ? "" : base, whole ? "" : "/", name,
             whole || strchr(name, '/') ? "" : "/x");
    return text;
}

/* What a message tells people to do, the remedy tells programs. */
static void check_remedy(const tenmap_error *error) {
    static const struct {
        const char *words;
        uint32_t remedy;
    } told[] = {{"no permission", TENMAP_REMEDY_CREDENTIALS},
                {"download", TENMAP_REMEDY_DOWNLOAD},
                {"open it again", TENMAP_REMEDY_OPEN_AGAIN},
                {"try again later", TENMAP_REMEDY_TRY_AGAIN},
                {"open a file of the folder", TENMAP_REMEDY_OPEN_ONE},
                {"give the address of a file", TENMAP_REMEDY_OPEN_ONE},
                {"", TENMAP_REMEDY_NONE}};
    size_t i = 0;
    while (!strstr(error->message, told[i].words))
        i++;
    if (error->remedy != told[i].remedy)
        fail_msg("the remedy is %s, the message: %s", tenmap_remedy_name(error->remedy),
                 error->message);
}

/* Every error message must exist, be printable and hold no secret. */
static void check_message(const tenmap_error *error, tenmap_status status) {
    assert_int_equal(error->status, status);
    assert_true(strlen(error->message) > 20);
    for (const char *c = error->message; *c; c++)
        assert_true(*c >= ' ' && *c <= '~');
    assert_null(strstr(error->message, "hunter2"));
    check_remedy(error);
}

static tenmap_status read_part(const tenmap_io *io, void *file, uint64_t at, size_t bytes,
                               tenmap_error *error) {
    unsigned char *room = malloc(bytes ? bytes : 1);
    memset(error, 0, sizeof *error);
    tenmap_status status = io->read(io->ctx, file, at, room, bytes, error);
    for (size_t i = 0; status == TENMAP_OK && i < bytes; i++)
        if (room[i] != pattern(at + i))
            fail_msg("byte %llu is wrong", (unsigned long long)(at + i));
    free(room);
    return status;
}

/*
 * Reads the whole file in a few pieces: within the first window, across its end, large and small
 * ones.
 */
static void check_file(const tenmap_io *io, void *file, uint64_t size) {
    static const struct {
        uint64_t at;
        size_t bytes;
    } pieces[] = {{0, 8},   {131000, 200},  {131072, 600000}, {731072, 268931}, {999000, 1003},
                  {500, 0}, {300000, 1000}, {301000, 1000},   {302500, 1000},   {100000, 900003}};
    tenmap_error error;
    if (size < SIZE) {
        if (read_part(io, file, 0, (size_t)size, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        return;
    }
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        if (read_part(io, file, pieces[i].at, pieces[i].bytes, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
    assert_int_equal(io->read(io->ctx, file, size, &error, 1, &error), TENMAP_ERR_RANGE);
}

static void must_be_right(const char *name, uint64_t expected) {
    tenmap_io io = must_create("hunter2", limit_of(name));
    tenmap_error error = {.status = 0};
    void *file = NULL;
    uint64_t size = 0;
    if (io.open(io.ctx, address_of(name), &file, &size, &error) != TENMAP_OK)
        fail_msg("%s: %s", name, error.message);
    assert_int_equal(size, expected);
    check_file(&io, file, size);
    io.close(io.ctx, file);
    tenmap_http_destroy(&io);
}

static void must_not_open(const char *token, const char *name, tenmap_status status,
                          const char *fragment) {
    tenmap_io io = must_create(token, limit_of(name));
    tenmap_error error = {.status = 0};
    void *file = NULL;
    uint64_t size = 0;
    double begun = now();
    tenmap_status got = io.open(io.ctx, address_of(name), &file, &size, &error);
    if (got != status || !strstr(error.message, fragment))
        fail_msg("%s: %d: %s", name, (int)got, error.message);
    check_message(&error, status);
    assert_true(now() - begun < 120);
    tenmap_http_destroy(&io);
}

/* Opens, and fails in one of the reads that follow. */
static void must_break(const char *name, const char *fragment) {
    tenmap_io io = must_create("hunter2", limit_of(name));
    tenmap_error error = {.status = 0};
    void *file = NULL;
    uint64_t size = 0;
    if (io.open(io.ctx, address_of(name), &file, &size, &error) != TENMAP_OK)
        fail_msg("%s: %s", name, error.message);
    tenmap_status status = TENMAP_OK;
    double begun = now();
    for (int i = 0; i < 6 && status == TENMAP_OK; i++)
        status = read_part(&io, file, 200000 + 100000 * (uint64_t)i, 100000, &error);
    if (status == TENMAP_OK || !strstr(error.message, fragment))
        fail_msg("%s: %d: %s", name, (int)status, error.message);
    check_message(&error, status);
    assert_true(now() - begun < 120);
    io.close(io.ctx, file);
    tenmap_http_destroy(&io);
}

static void test_right_servers(void **state) {
    (void)state;
    static const char *const names[] = {"plain", "chunked", "weak", "bare", "must-match"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        must_be_right(names[i], SIZE);
    must_be_right("odd-name/a b%#\xc3\xa9", SIZE);
    must_be_right("small", 1000);
    must_be_right("small-chunked", 1000);
    must_be_right("empty", 0);
    must_be_right("empty-bare", 0);
}

/*
 * A header costs one request, adjacent reads are joined, an isolated read fetches only its own
 * bytes.
 */
static void test_traffic(void **state) {
    (void)state;
    tenmap_io io = must_create(NULL, LONG);
    tenmap_error error = {.status = 0};
    void *file = NULL;
    uint64_t size;
    assert_int_equal(io.open(io.ctx, address_of("plain"), &file, &size, &error), TENMAP_OK);
    for (uint64_t at = 0; at + 1000 < 131072; at += 1000)
        assert_int_equal(read_part(&io, file, at, 1000, &error), TENMAP_OK);
    assert_int_equal(tenmap_http_moved(&io).requests, 1);
    assert_int_equal(tenmap_http_moved(&io).bytes, 131072);
    assert_int_equal(read_part(&io, file, 500000, 1000, &error), TENMAP_OK);
    assert_int_equal(tenmap_http_moved(&io).requests, 2);
    assert_int_equal(tenmap_http_moved(&io).bytes, 132072);
    for (uint64_t at = 501000; at < 601000; at += 1000)
        assert_int_equal(read_part(&io, file, at, 1000, &error), TENMAP_OK);
    assert_int_equal(tenmap_http_moved(&io).requests, 3);
    assert_int_equal(tenmap_http_moved(&io).retries, 0);
    io.close(io.ctx, file);
    tenmap_http_destroy(&io);
}

static void test_faults_that_pass(void **state) {
    (void)state;
    static const char *const names[] = {"reset", "cut",  "reset-first", "short",
                                        "stall", "busy", "failing"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        must_be_right(names[i], SIZE);
}

static void test_faults_that_stay(void **state) {
    (void)state;
    must_break("reset-ever", "trying again did not help");
    must_not_open(NULL, "stall-ever", TENMAP_ERR_IO, "too long");
    must_not_open(NULL, "busy-ever", TENMAP_ERR_IO, "3600 seconds");
    must_not_open(NULL, "failing-ever", TENMAP_ERR_IO, "answered 500");
}

static void test_wrong_answers(void **state) {
    (void)state;
    must_not_open(NULL, "whole", TENMAP_ERR_UNSUPPORTED, "the whole file");
    must_not_open(NULL, "whole-chunked", TENMAP_ERR_UNSUPPORTED, "the whole file");
    must_break("whole-later", "the whole file");
    must_not_open(NULL, "shifted", TENMAP_ERR_IO, "bytes 1 to 131072 of 1000003");
    must_not_open(NULL, "unsaid", TENMAP_ERR_IO, "does not say which bytes");
    must_not_open(NULL, "long", TENMAP_ERR_IO, "longer or shorter");
    must_not_open(NULL, "long-length", TENMAP_ERR_IO, "longer or shorter");
    must_not_open(NULL, "gzip", TENMAP_ERR_IO, "compresses");
    must_not_open(NULL, "page", TENMAP_ERR_FORMAT, "web page");
    must_not_open(NULL, "open-ended", TENMAP_ERR_IO, "mistaken for the whole file");
    must_not_open(NULL, "nothing-here", TENMAP_ERR_NOT_FOUND, "no such file");
    must_not_open(NULL, "plain/", TENMAP_ERR_NOT_FOUND, "folder");
}

static void test_changes(void **state) {
    (void)state;
    static const char *const names[] = {"changed-tag", "changed-412", "changed-weak",
                                        "changed-date", "changed-size"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        must_break(names[i], "has changed");
    must_not_open(NULL, "changed-midway", TENMAP_ERR_IO, "has changed");
}

static void test_redirects(void **state) {
    (void)state;
    must_be_right("relative", SIZE);
    must_be_right("guarded", SIZE);
    must_be_right("away", SIZE); /* the other host refuses the token, if it gets it */
    must_be_right("expiring", SIZE);
    must_be_right("moving-on", SIZE);
    must_not_open(NULL, "loop", TENMAP_ERR_IO, "more than 10 times");
    must_not_open(NULL, "endless", TENMAP_ERR_IO, "more than 10 times");
    must_not_open(NULL, "nowhere", TENMAP_ERR_IO, "where to");
    must_not_open(NULL, "to-file", TENMAP_ERR_IO, "neither http:// nor https://");
    must_not_open(NULL, "to-user", TENMAP_ERR_IO, "user name");
    must_not_open(NULL, "guarded", TENMAP_ERR_IO, "401 to a request without a token");
    must_not_open("hunter2x", "guarded", TENMAP_ERR_IO, "with the token that was given");
    must_not_open("hunter2", "forbidden", TENMAP_ERR_IO, "403 GatedRepo");
}

/* Returns the remedy of the error that opening it gives. */
static uint32_t remedy_of(const char *name) {
    tenmap_io io = must_create(NULL, limit_of(name));
    tenmap_error error = {.status = 0};
    void *file = NULL;
    uint64_t size = 0;
    assert_int_not_equal(io.open(io.ctx, address_of(name), &file, &size, &error), TENMAP_OK);
    tenmap_http_destroy(&io);
    return error.remedy;
}

static void errors_tell_programs_what_would_help(void **state) {
    (void)state;
    assert_int_equal(remedy_of("guarded"), TENMAP_REMEDY_CREDENTIALS);
    assert_int_equal(remedy_of("whole"), TENMAP_REMEDY_DOWNLOAD);
    assert_int_equal(remedy_of("plain/"), TENMAP_REMEDY_OPEN_ONE);
    assert_int_equal(remedy_of("busy-ever"), TENMAP_REMEDY_TRY_AGAIN);
    assert_int_equal(remedy_of("nothing-here"), TENMAP_REMEDY_NONE);
}

static void test_hosts(void **state) {
    (void)state;
    must_not_open(NULL, "http://no-such-host.invalid/x", TENMAP_ERR_IO, "cannot be resolved");
    must_not_open(NULL, "http://127.0.0.1:1/x", TENMAP_ERR_IO, "cannot connect");
    must_not_open(NULL, "ftp://127.0.0.1/x", TENMAP_ERR_ARGUMENT, "begin with http://");
}

/* A file beside a signed address is refused without a request. */
static void test_signed_siblings(void **state) {
    (void)state;
    tenmap_io io = must_create(NULL, LONG);
    tenmap_error error = {.status = 0};
    void *file = NULL, *other = NULL;
    uint64_t size;
    assert_int_equal(
        io.open(io.ctx, address_of("plain/index.json?Signature=hunter2"), &file, &size, &error),
        TENMAP_OK);
    uint64_t requests = tenmap_http_moved(&io).requests;
    assert_int_equal(
        io.open(io.ctx, address_of("plain/a.safetensors?Signature=hunter2"), &other, &size, &error),
        TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "signed for one file"));
    check_message(&error, TENMAP_ERR_IO);
    assert_int_equal(
        io.open(io.ctx, address_of("plain/config.json?Signature=hunter2"), &other, &size, &error),
        TENMAP_ERR_NOT_FOUND);
    assert_int_equal(tenmap_http_moved(&io).requests, requests);
    io.close(io.ctx, file);
    tenmap_http_destroy(&io);
}

static int add_name(void *ctx, const char *name) {
    strcat(ctx, name);
    strcat(ctx, "|");
    return 0;
}

static void must_list(const char *path, const char *expected, const char *fragment) {
    tenmap_io io = must_create("hunter2", strstr(path, "slow") ? 1000 : LONG);
    tenmap_error error = {.status = 0};
    char names[100] = "";
    tenmap_status status = io.list(io.ctx, path, add_name, names, &error);
    if ((status == TENMAP_OK) != (expected != NULL))
        fail_msg("%s: %s", path, error.message);
    if (expected)
        assert_string_equal(names, expected);
    else if (!strstr(error.message, fragment))
        fail_msg("%s: %s", path, error.message);
    tenmap_http_destroy(&io);
}

/* Keys and a region, as the environment has them; no session without one. */
static void set_keys(const char *session) {
    setenv("AWS_ACCESS_KEY_ID", "tester", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "hunter2+/secret", 1);
    setenv("AWS_REGION", "eu-test-1", 1);
    if (session)
        setenv("AWS_SESSION_TOKEN", session, 1);
}

static void unset_keys(void) {
    static const char *const names[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION",
                                        "AWS_SESSION_TOKEN"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

#define ODD_KEY "m/a b+c=d&e?f#g%20\xc3\xa9~'(x)"

/*
 * Signatures are verified by the server, with session tokens and in the region that a bucket names.
 */
static void test_s3(void **state) {
    (void)state;
    static const char *const far[] = {"s3-far-301", "s3-far-307", "s3-far-400"};
    char path[128];
    set_keys("hunter2/session+token==");
    must_be_right("s3://s3-session/" ODD_KEY, SIZE);
    must_list("s3://s3-session/m", "a|", NULL);
    unset_keys();
    set_keys(NULL);
    must_not_open(NULL, "s3://s3-session/" ODD_KEY, TENMAP_ERR_IO,
                  "signed with the key of AWS_ACCESS_KEY_ID");
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        snprintf(path, sizeof path, "s3://%s/%s", far[i], ODD_KEY);
        must_be_right(path, SIZE);
        snprintf(path, sizeof path, "s3://%s/m", far[i]);
        must_list(path, "a|", NULL);
    }
    must_not_open(NULL, "s3://s3-wandering/x", TENMAP_ERR_IO, "did not help");
    must_not_open(NULL, "s3://s3-away/x", TENMAP_ERR_IO, "without a signature");
    must_list("s3://s3-broken/m", NULL, "cannot be understood");
    unset_keys();
    must_be_right("s3://s3-public/" ODD_KEY, SIZE);
    must_list("s3://s3-public/m", "a|", NULL);
    must_not_open(NULL, "s3://s3-session/" ODD_KEY, TENMAP_ERR_IO, "not signed");
}

/* Control characters in a server's text do not reach the terminal. */
static void test_evil(void **state) {
    (void)state;
    must_not_open(NULL, "evil-error", TENMAP_ERR_IO, "answered 403");
    must_not_open(NULL, "evil-status", TENMAP_ERR_IO, "answered 418");
    must_not_open(NULL, "evil-redirect", TENMAP_ERR_IO, "");
    must_not_open(NULL, "evil-host", TENMAP_ERR_IO, "");
    must_not_open(NULL, "evil-range", TENMAP_ERR_IO, "does not say which bytes");
}

static void test_hub(void **state) {
    (void)state;
    tenmap_io io = must_create("hunter2", LONG);
    tenmap_error error = {.status = 0};
    char names[100] = "";
    void *file = NULL;
    uint64_t size;
    assert_int_equal(io.open(io.ctx, "hf://org/model", &file, &size, &error), TENMAP_ERR_NOT_FOUND);
    if (io.list(io.ctx, "hf://org/model", add_name, names, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_string_equal(names, "a.bin|sub|");
    names[0] = '\0';
    assert_int_equal(io.list(io.ctx, "hf://org/model/sub", add_name, names, &error), TENMAP_OK);
    assert_string_equal(names, "b c.bin|");
    assert_int_equal(io.list(io.ctx, "hf://org/model/no", add_name, names, &error),
                     TENMAP_ERR_NOT_FOUND);
    uint64_t before = tenmap_http_moved(&io).requests;
    if (io.open(io.ctx, "hf://org/model/a.bin", &file, &size, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(tenmap_http_moved(&io).requests - before, 2); /* the hub, and its target */
    assert_int_equal(size, SIZE);
    check_file(&io, file, size); /* over several targets, each with a tag of its own */
    io.close(io.ctx, file);
    if (io.open(io.ctx, "hf://org/model/sub/b c.bin", &file, &size, &error) != TENMAP_OK)
        fail_msg("%s", error.message); /* asked for by the commit, or the server refuses */
    io.close(io.ctx, file);
    assert_int_equal(io.open(io.ctx, "hf://org/model/no.bin", &file, &size, &error),
                     TENMAP_ERR_NOT_FOUND);
    tenmap_http_destroy(&io);
    must_list("hf://org/relative", "a|sub|", NULL); /* the second page by a path */
    must_list("hf://org/slow", NULL, "too long");   /* not that it redirects too often */
    must_list("hf://org/leaky", NULL, "at another host, which is not asked");
    must_break("hf://org/moving/a.bin", "has changed");
    must_not_open("hunter2", "hf://org/lying/a.bin", TENMAP_ERR_IO, "has changed");
    must_not_open("", "hf://org/model/a.bin", TENMAP_ERR_IO, "private");
}

static int count_name(void *ctx, const char *name) {
    (void)name;
    ++*(size_t *)ctx;
    return 0;
}

/* A listing fails at one of its limits, and the message says at which. */
static void must_not_list(const char *path, uint32_t timeout_ms, tenmap_status expected,
                          const char *fragment) {
    tenmap_io io = must_create("hunter2", timeout_ms);
    tenmap_error error = {.status = 0};
    size_t count = 0;
    double begun = now();
    tenmap_status status = io.list(io.ctx, path, count_name, &count, &error);
    if (status != expected || !strstr(error.message, fragment))
        fail_msg("%s: %d after %.1f s: %s", path, (int)status, now() - begun, error.message);
    check_message(&error, status);
    tenmap_http_destroy(&io);
}

static void listings_have_bounds(void **state) {
    (void)state;
    must_not_list("hf://org/crowd", LONG, TENMAP_ERR_LIMIT, "more than 1000000 names");
    must_not_list("hf://org/bulky", LONG, TENMAP_ERR_LIMIT, "page of the listing has more than");
    must_not_list("hf://org/heavy", LONG, TENMAP_ERR_LIMIT, "more than 134217728 bytes");
    must_not_list("hf://org/endless-pages", LONG, TENMAP_ERR_LIMIT, "more than 1000 pages");
    set_keys(NULL);
    must_not_list("s3://s3-token/m", LONG, TENMAP_ERR_LIMIT, "bytes in its continuation token");
    unset_keys();
}

/* 60 pages, each within its time limit, but together beyond that of the call. */
static void a_listing_ends_in_the_time_of_one_call(void **state) {
    (void)state;
    double begun = now();
    must_not_list("hf://org/slow-pages", 200, TENMAP_ERR_IO, "too long");
    assert_true(now() - begun < 6);
}

static void a_call_that_succeeds_leaves_no_error(void **state) {
    (void)state;
    tenmap_io io = must_create("hunter2", LONG);
    tenmap_error error = {.status = TENMAP_OK};
    size_t count = 0;
    void *file = NULL;
    uint64_t size;
    assert_int_equal(io.list(io.ctx, "hf://org/relative", count_name, &count, &error), TENMAP_OK);
    assert_int_equal(error.status, TENMAP_OK);
    assert_string_equal(error.message, "");
    assert_int_equal(io.open(io.ctx, address_of("failing"), &file, &size, &error), TENMAP_OK);
    assert_string_equal(error.message, ""); /* though it was tried again */
    io.close(io.ctx, file);
    tenmap_http_destroy(&io);
}

static void what_is_not_http_is_named(void **state) {
    (void)state;
    must_not_open(NULL, "no-http", TENMAP_ERR_IO, "is not HTTP");
    must_not_open(NULL, "long-line", TENMAP_ERR_IO, "longer than");
    must_not_open(NULL, "many-lines", TENMAP_ERR_IO, "have more than 262144 bytes");
    must_not_open(NULL, "no-number", TENMAP_ERR_IO, "cannot be understood");
}

/*
 * Opens both, the second with what the hub said about the first; returns the status of the second.
 */
static tenmap_status open_two(const char *model, const char *second, tenmap_error *error) {
    char path[64];
    tenmap_io io = must_create("hunter2", LONG);
    void *file = NULL;
    uint64_t size;
    snprintf(path, sizeof path, "hf://odd/%s/a.bin", model);
    if (io.open(io.ctx, path, &file, &size, error) != TENMAP_OK)
        fail_msg("%s: %s", path, error->message);
    io.close(io.ctx, file);
    snprintf(path, sizeof path, "hf://odd/%s/%s", model, second);
    tenmap_status status = io.open(io.ctx, path, &file, &size, error);
    if (status == TENMAP_OK)
        io.close(io.ctx, file);
    tenmap_http_destroy(&io);
    return status;
}

static void a_commit_is_the_hubs_own_word(void **state) {
    (void)state;
    static const char *const models[] = {"plain", "dots", "foreign"};
    tenmap_error error;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (open_two(models[i], "b.bin", &error) != TENMAP_OK)
            fail_msg("%s: %s", models[i], error.message);
    assert_int_equal(open_two("other", "a.bin", &error), TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "has changed"));
}

typedef struct worker {
    const tenmap_io *io;
    void *file;
    unsigned number;
    tenmap_status status;
} worker;

static void *work(void *ctx) {
    worker *w = ctx;
    tenmap_error error;
    for (unsigned i = 0; i < 20 && w->status == TENMAP_OK; i++) {
        uint64_t at = (w->number * 7919 + i * 104729) % 900000;
        w->status = read_part(w->io, w->file, at, 100000, &error);
    }
    return NULL;
}

/* More threads than connections, on a server that breaks off now and then. */
static void test_threads(void **state) {
    (void)state;
    enum { THREADS = 12 };
    static const char *const names[] = {"plain", "reset", "hf://org/shared/a.bin", "expiring"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        tenmap_io io = must_create("hunter2", LONG);
        tenmap_error error = {.status = 0};
        pthread_t threads[THREADS];
        worker workers[THREADS];
        void *file;
        uint64_t size;
        assert_int_equal(io.open(io.ctx, address_of(names[n]), &file, &size, &error), TENMAP_OK);
        for (unsigned i = 0; i < THREADS; i++) {
            workers[i] = (worker){&io, file, i, TENMAP_OK};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            if (n < 3) /* an address that works twice may run out for many at once */
                assert_int_equal(workers[i].status, TENMAP_OK);
        }
        io.close(io.ctx, file);
        tenmap_http_destroy(&io);
    }
}

static void *open_slowly(void *ctx) {
    worker *w = ctx;
    tenmap_error error = {.status = 0};
    void *file = NULL;
    uint64_t size;
    w->status = w->io->open(w->io->ctx, address_of("dribble"), &file, &size, &error);
    if (w->status == TENMAP_OK)
        w->io->close(w->io->ctx, file);
    return NULL;
}

/*
 * A call with a long limit has the only connection; a call with a short limit does not wait for it
 * to end.
 */
static void waiting_for_a_connection_is_part_of_the_call(void **state) {
    (void)state;
    tenmap_http_options options = TENMAP_HTTP_OPTIONS_INIT;
    tenmap_error error = {.status = 0};
    tenmap_io io;
    pthread_t thread;
    size_t count = 0;
    options.token = "hunter2";
    options.endpoint = base;
    options.connections = 1;
    options.retries = 1;
    options.timeout_ms = 1000; /* 4 s for a listing, a minute for the first bytes of a file */
    assert_int_equal(tenmap_http_create(&options, &io, &error), TENMAP_OK);
    worker slow = {&io, NULL, 0, TENMAP_OK};
    assert_int_equal(pthread_create(&thread, NULL, open_slowly, &slow), 0);
    while (tenmap_http_moved(&io).bytes == 0)
        usleep(10000);
    tenmap_status status = io.list(io.ctx, "hf://org/relative", count_name, &count, &error);
    pthread_join(thread, NULL);
    if (status != TENMAP_ERR_IO || !strstr(error.message, "all connections were in use"))
        fail_msg("%d: %s", (int)status, error.message); /* it got the connection in the end */
    tenmap_http_destroy(&io);
}

/* A child makes connections of its own; the parent's go on. */
static void test_fork(void **state) {
    (void)state;
    tenmap_io io = must_create(NULL, LONG);
    tenmap_error error = {.status = 0};
    void *file;
    uint64_t size;
    assert_int_equal(io.open(io.ctx, address_of("plain"), &file, &size, &error), TENMAP_OK);
    pid_t child = fork();
    if (child == 0) {
        tenmap_status status = read_part(&io, file, 400000, 200000, &error);
        io.close(io.ctx, file);
        tenmap_http_destroy(&io);
        _exit(status == TENMAP_OK ? 0 : 1);
    }
    int ended;
    assert_int_equal(read_part(&io, file, 200000, 200000, &error), TENMAP_OK);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_int_equal(read_part(&io, file, 600000, 200000, &error), TENMAP_OK);
    assert_int_equal(tenmap_http_moved(&io).retries, 0);
    io.close(io.ctx, file);
    tenmap_http_destroy(&io);
}

/* Random schedules of faults: the right bytes or one error message, in time. */
static void test_schedules(void **state) {
    (void)state;
    unsigned right = 0;
    for (unsigned seed = 0; seed < seeds; seed++) {
        char name[64];
        tenmap_io io = must_create(NULL, 5000);
        tenmap_error error = {.status = 0};
        void *file = NULL;
        uint64_t size;
        double begun = now();
        snprintf(name, sizeof name, "random/%u", seed);
        tenmap_status status = io.open(io.ctx, address_of(name), &file, &size, &error);
        bool opened = status == TENMAP_OK;
        for (uint64_t i = 0; i < 4 && status == TENMAP_OK; i++)
            status = read_part(&io, file, i * 250000, 250000, &error);
        right += status == TENMAP_OK;
        if (status != TENMAP_OK)
            check_message(&error, status);
        assert_true(now() - begun < 120);
        if (opened)
            io.close(io.ctx, file);
        tenmap_http_destroy(&io);
    }
    print_message("%u schedules of faults: %u ended in the right bytes, %u in an error message\n",
                  seeds, right, seeds - right);
    assert_true(right > seeds / 4); /* temporary faults are survived */
}

static int stop_after(void *ctx) {
    double *until = ctx;
    return now() > *until;
}

/* A call that waits, for bytes or for the next attempt, ends soon after the caller wants it to. */
static void test_stopping(void **state) {
    (void)state;
    static const char *const names[] = {"stall-ever", "busy-ever", "plain"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        double begun = now(), until = begun + (i < 2 ? 0.3 : -1);
        tenmap_http_options options = TENMAP_HTTP_OPTIONS_INIT;
        tenmap_io io;
        tenmap_error error = {.status = 0};
        void *file;
        uint64_t size;
        options.timeout_ms = 1000000; /* so that an hour would be waited */
        options.stop = stop_after;
        options.ctx = &until;
        assert_int_equal(tenmap_http_create(&options, &io, &error), TENMAP_OK);
        assert_int_equal(io.open(io.ctx, address_of(names[i]), &file, &size, &error),
                         TENMAP_ERR_CANCELLED);
        check_message(&error, TENMAP_ERR_CANCELLED);
        assert_true(now() - begun < 120);
        tenmap_http_destroy(&io);
    }
}

static void test_options(void **state) {
    (void)state;
    tenmap_io io;
    tenmap_error error;
    tenmap_http_options options = TENMAP_HTTP_OPTIONS_INIT;
    options.flags = 1;
    assert_int_equal(tenmap_http_create(&options, &io, &error), TENMAP_ERR_ARGUMENT);
    assert_null(io.ctx);
    options = (tenmap_http_options)TENMAP_HTTP_OPTIONS_INIT;
    options.struct_size = 8;
    assert_int_equal(tenmap_http_create(&options, &io, &error), TENMAP_ERR_ARGUMENT);
    options = (tenmap_http_options)TENMAP_HTTP_OPTIONS_INIT;
    options.token = "hunter2\r\nX: y";
    assert_int_equal(tenmap_http_create(&options, &io, &error), TENMAP_ERR_ARGUMENT);
    check_message(&error, TENMAP_ERR_ARGUMENT);
    options = (tenmap_http_options)TENMAP_HTTP_OPTIONS_INIT;
    options.endpoint = "https://u:hunter2@h";
    assert_int_equal(tenmap_http_create(&options, &io, &error), TENMAP_ERR_ARGUMENT);
    check_message(&error, TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_http_create(NULL, NULL, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_http_create(NULL, &io, NULL), TENMAP_OK);
    tenmap_http_destroy(&io);
    tenmap_http_destroy(&io);
    tenmap_http_destroy(NULL);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_right_servers),
        cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_faults_that_pass),
        cmocka_unit_test(test_faults_that_stay),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_redirects),
        cmocka_unit_test(errors_tell_programs_what_would_help),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_signed_siblings),
        cmocka_unit_test(test_hub),
        cmocka_unit_test(listings_have_bounds),
        cmocka_unit_test(a_listing_ends_in_the_time_of_one_call),
        cmocka_unit_test(a_call_that_succeeds_leaves_no_error),
        cmocka_unit_test(what_is_not_http_is_named),
        cmocka_unit_test(a_commit_is_the_hubs_own_word),
        cmocka_unit_test(test_s3),
        cmocka_unit_test(test_evil),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(waiting_for_a_connection_is_part_of_the_call),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_stopping),
        cmocka_unit_test(test_schedules),
    };
    if (argc < 2)
        return 1;
    base = argv[1];
    if (argc > 3)
        seeds = (unsigned)strtoul(argv[3], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
