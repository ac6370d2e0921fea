/* What libtenmap-http parses and signs: addresses, header lines, listings, Signature Version 4. */
#include "http.h"

#include "curl_functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static tmh_address must_read(const char *text) {
    tmh_address a;
    tenmap_error error;
    if (tmh_address_read(&a, text, &error) != TENMAP_OK)
        fail_msg("%s: %s", text, error.message);
    return a;
}

static void must_refuse(const char *text, const char *fragment, const char *secret) {
    tmh_address a;
    tenmap_error error;
    assert_int_equal(tmh_address_read(&a, text, &error), TENMAP_ERR_ARGUMENT);
    if (!strstr(error.message, fragment))
        fail_msg("%s: \"%s\" lacks \"%s\"", text, error.message, fragment);
    if (secret)
        assert_null(strstr(error.message, secret));
    for (const char *c = error.message; *c; c++)
        assert_true(*c >= ' ' && *c <= '~');
    tmh_address_free(&a);
}

static void test_web_addresses(void **state) {
    (void)state;
    tmh_address a = must_read("https://example.org:8443/a b/c%20d?x=1 2");
    assert_int_equal(a.scheme, TMH_HTTPS);
    assert_string_equal(a.host, "example.org:8443");
    assert_string_equal(a.path, "/a%20b/c%20d");
    assert_string_equal(a.query, "x=1%202");
    tmh_address_free(&a);
    a = must_read("HTTP://h"); /* schemes in any case; a path is never empty */
    assert_int_equal(a.scheme, TMH_HTTP);
    assert_string_equal(a.path, "/");
    assert_null(a.query);
    tmh_address_free(&a);
    a = must_read("http://[::1]:80/%zz#1\xc3\xa9"); /* a % that encodes nothing, a #, UTF-8 */
    assert_string_equal(a.host, "[::1]:80");
    assert_string_equal(a.path, "/%25zz%231%C3%A9");
    tmh_address_free(&a);
}

static void test_hub_addresses(void **state) {
    (void)state;
    static const struct {
        const char *text, *repo, *revision, *path;
    } rows[] = {
        {"hf://org/model", "org/model", NULL, ""},
        {"hf://org/model/", "org/model", NULL, ""},
        {"hf://org/mo-d.el_1/sub/a b?.safetensors", "org/mo-d.el_1", NULL, "sub/a b?.safetensors"},
        {"hf://org/model@v1.0/x", "org/model", "v1.0", "x"},
        {"hf://org/model@refs/pr/3/x", "org/model", "refs/pr/3", "x"},
        {"hf://org/model@refs/convert/parquet", "org/model", "refs/convert/parquet", ""},
        {"hf://org/model@feature%2Fone/x", "org/model", "feature/one", "x"},
        {"hf://org/model@50%/x", "org/model", "50%", "x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tmh_address a = must_read(rows[i].text);
        assert_string_equal(a.host, rows[i].repo);
        assert_string_equal(a.path, rows[i].path);
        assert_int_equal(a.revision != NULL, rows[i].revision != NULL);
        if (rows[i].revision)
            assert_string_equal(a.revision, rows[i].revision);
        tmh_address_free(&a);
    }
    must_refuse("hf://org", "hf://ORG/MODEL", NULL);
    must_refuse("hf:///model", "hf://ORG/MODEL", NULL);
    must_refuse("hf://org/", "hf://ORG/MODEL", NULL);
    must_refuse("hf://org/../x", "hf://ORG/MODEL", NULL);
    must_refuse("hf://org/model@/x", "no revision", NULL);
}

static void test_s3_addresses(void **state) {
    (void)state;
    tmh_address a = must_read("s3://my.bucket/a/b c+d%20?#\xc3\xa9");
    assert_string_equal(a.host, "my.bucket");
    assert_string_equal(a.path, "a/b c+d%20?#\xc3\xa9"); /* as it is */
    tmh_address_free(&a);
    a = must_read("s3://bucket");
    assert_string_equal(a.path, "");
    tmh_address_free(&a);
    must_refuse("s3:///key", "no bucket", NULL);
    must_refuse("s3://user:secret@h/key", "no bucket", NULL);
}

static void test_bad_addresses(void **state) {
    (void)state;
    must_refuse("https://user:hunter2@host/x", "user name or a password", "hunter2");
    must_refuse("https://user:hun@ter2@host/x", "user name or a password", "ter2");
    must_refuse("http:///x", "names no host", NULL);
    must_refuse("http://ho st/x", "must be a host", NULL);
    must_refuse("http://host:0/x", "must be a host", NULL);
    must_refuse("http://host:99999/x", "must be a host", NULL);
    must_refuse("http://host:/x", "must be a host", NULL);
    must_refuse("http://[::1/x", "must be a host", NULL);
    must_refuse("http://host/a\nb", "control character", NULL);
    must_refuse("http://host/a\r\nX: y", "control character", NULL);
    must_refuse("http://host/\x7f?token=hunter2", "control character", "hunter2");
    must_refuse("file:///etc/passwd", "begin with http://", NULL);
    must_refuse("ftp://host/x", "begin with http://", NULL);
    must_refuse("", "begin with http://", NULL);
    must_refuse("http:/x", "begin with http://", NULL);
    assert_true(tenmap_http_takes("HF://x"));
    assert_false(tenmap_http_takes("model.safetensors"));
    assert_false(tenmap_http_takes("httpx://"));
    assert_false(tenmap_http_takes(NULL));
}

/* Errors show neither user, password nor signature. */
static void test_shown(void **state) {
    (void)state;
    assert_string_equal(tmh_show("https://u:p@h/a?X-Amz-Signature=1").text, "\"https://h/a?...\"");
    assert_string_equal(tmh_show("hf://o/m@main/a b").text, "\"hf://o/m@main/a%20b\"");
    char longer[600];
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "https://h/", 10);
    memcpy(longer + sizeof longer - 6, "/tail", 6);
    tmh_shown shown = tmh_show(longer);
    assert_true(strlen(shown.text) <= 150);
    assert_non_null(strstr(shown.text, "..."));
    assert_non_null(strstr(shown.text, "/tail\""));
}

static void test_origins(void **state) {
    (void)state;
    assert_true(tmh_same_origin("https://a/x", "https://A:443/y"));
    assert_true(tmh_same_origin("http://a:80", "http://a/"));
    assert_false(tmh_same_origin("https://a/x", "http://a/x"));
    assert_false(tmh_same_origin("https://a/x", "https://a:8443/x"));
    assert_false(tmh_same_origin("https://a/x", "https://b/x"));
    assert_false(tmh_same_origin("https://a.evil/x", "https://a/x"));
    assert_false(tmh_same_origin("nothing", "nothing"));
    assert_true(tmh_is_signed("a=1&X-Amz-Signature=ff"));
    assert_true(tmh_is_signed("Signature=ff"));
    assert_true(tmh_is_signed("sv=1&sig=ff"));
    assert_false(tmh_is_signed("download=true&design=1"));
}

static void test_redirect(void **state) {
    (void)state;
    char given[] = "https://h/a?Signature=hunter2";
    tmh_file file = {.given = given};
    tenmap_error error;
    char *next;
    static const struct {
        const char *from, *location, *next, *fragment;
    } rows[] = {
        {"https://h/a/b", "c?d=%2F", "https://h/a/c?d=%2F", NULL},
        {"https://h/a/b", "/c#part", "https://h/c", NULL},
        {"https://h/a", "//other/c", "https://other/c", NULL},
        {"http://h/a", "https://h/a", "https://h/a", NULL},
        {"https://h/a", "http://h/a", NULL, "from https:// to http://"},
        {"https://h/a", "HTTP://h/a", NULL, "from https:// to http://"},
        {"https://h/a", "file:///etc/passwd", NULL, "neither http"},
        {"https://h/a", "ftp://h/a", NULL, "neither http"},
        {"https://h/a", "https://u:p@h/a", NULL, "user name"},
        {"https://h/a", "https://", NULL, "not an address"},
    };
    if (tmh_find_curl(&error) != TENMAP_OK) {
        print_message("SKIPPED: %s\n", error.message);
        skip();
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tenmap_status status = tmh_redirect(&file, rows[i].from, rows[i].location, &next, &error);
        if (rows[i].next) {
            assert_int_equal(status, TENMAP_OK);
            assert_string_equal(next, rows[i].next);
        } else {
            assert_int_equal(status, TENMAP_ERR_IO);
            assert_null(next);
            if (!strstr(error.message, rows[i].fragment) || strstr(error.message, "hunter2"))
                fail_msg("%s: %s", rows[i].location, error.message);
        }
        free(next);
    }
}

static tmh_answer answer_of(const char *const *lines) {
    tmh_answer a = {.status = 0};
    for (; *lines; lines++) { /* an allocation of its own, so that a byte too many is found */
        char *line = tmh_copy(*lines, strlen(*lines));
        tmh_answer_line(&a, line, strlen(line));
        free(line);
    }
    return a;
}

static void test_answer(void **state) {
    (void)state;
    static const char *const lines[] = {"HTTP/1.1 100 Continue\r\n",
                                        "Location: /gone\r\n",
                                        "\r\n",
                                        "HTTP/2 206 \r\n",
                                        "content-range: bytes 5-9/100\r\n",
                                        "Content-Length: 5\r\n",
                                        "ETag: \"abc\"\r\n",
                                        "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n",
                                        "X-Linked-ETag: W/\"def\"\r\n",
                                        "X-Linked-Size: 123\r\n",
                                        "X-Repo-Commit: 0123abc\r\n",
                                        "Retry-After: 7\r\n",
                                        "Content-Encoding: gzip\r\n",
                                        "Content-Type: text/html; charset=utf-8\r\n",
                                        "Link: </a>; rel=\"prev\", </b?c=1>; rel=\"next\"\r\n",
                                        NULL};
    tmh_answer a = answer_of(lines);
    assert_int_equal(a.status, 206);
    assert_null(a.location); /* that was the interim answer's */
    assert_true(a.has_range && !a.bad_range && !a.unsatisfied);
    assert_int_equal(a.first, 5);
    assert_int_equal(a.last, 9);
    assert_int_equal(a.total, 100);
    assert_true(a.has_length && a.length == 5);
    assert_string_equal(a.tag.text, "\"abc\"");
    assert_true(tmh_tag_is_strong(&a.tag));
    assert_false(tmh_tag_is_strong(&a.linked_tag));
    assert_string_equal(a.modified.text, "Wed, 21 Oct 2015 07:28:00 GMT");
    assert_true(a.has_linked_size && a.linked_size == 123);
    assert_string_equal(a.commit, "0123abc");
    assert_true(a.has_retry_after && a.retry_after == 7);
    assert_true(a.encoded && a.is_page);
    assert_string_equal(a.next, "/b?c=1");
    tmh_answer_free(&a);
}

static void test_ranges(void **state) {
    (void)state;
    static const struct {
        const char *value;
        bool good, unsatisfied;
    } rows[] = {
        {"bytes 0-0/1", true, false},
        {"Bytes  0-9/10", true, false},
        {"bytes */0", true, true},
        {"bytes 0-18446744073709551614/18446744073709551615", true, false},
        {"bytes 0-9/*", false, false},
        {"bytes 9-0/10", false, false},
        {"bytes 0-10/10", false, false},
        {"bytes 0-9/18446744073709551616", false, false},
        {"bytes 0-9", false, false},
        {"bytes=0-9/10", false, false},
        {"bytes -1-9/10", false, false},
        {"bytes 0 - 9/10", false, false},
        {"bytes 0-9/10x", false, false},
        {"items 0-9/10", false, false},
        {"bytes", false, false},
        {"", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[128] = "Content-Range: ";
        strcat(line, rows[i].value);
        const char *const lines[] = {"HTTP/1.1 206 Partial Content", line, NULL};
        tmh_answer a = answer_of(lines);
        if (a.has_range != rows[i].good || a.bad_range == rows[i].good)
            fail_msg("\"%s\" was taken for %s", rows[i].value, a.has_range ? "good" : "bad");
        if (rows[i].good)
            assert_int_equal(a.unsatisfied, rows[i].unsatisfied);
        tmh_answer_free(&a);
    }
    static const char *const twice[] = {"HTTP/1.1 206 x", "Content-Range: bytes 0-9/10",
                                        "Content-Range: bytes 0-9/10", NULL};
    tmh_answer a = answer_of(twice);
    assert_true(a.bad_range && !a.has_range);
    tmh_answer_free(&a);
}

/* Hostile lines: nothing in them can end a header line of ours. */
static void test_hostile_lines(void **state) {
    (void)state;
    char tag[600] = "ETag: \"";
    memset(tag + 7, 'x', 500);
    strcpy(tag + 507, "\"");
    const char *const lines[] = {"HTTP/1.1 200 OK",
                                 tag,
                                 "X-Repo-Commit: ../../etc",
                                 "X-Error-Code: a\tb",
                                 "no colon",
                                 ":",
                                 "",
                                 "Retry-After: never",
                                 "Link: <",
                                 "Link: <a>; rel=\"next",
                                 NULL};
    tmh_answer a = answer_of(lines);
    assert_int_equal(a.tag.len, 502);
    assert_false(tmh_tag_is_strong(&a.tag)); /* compared, and not sent */
    assert_string_equal(a.commit, "");
    assert_string_equal(a.error_code, "");
    assert_null(a.next);
    assert_false(a.has_retry_after);
    tmh_answer_free(&a);
    static const char *const control[] = {"HTTP/1.1 200 OK", "ETag: \"a\rb\"", NULL};
    a = answer_of(control);
    assert_int_equal(a.tag.len, 5); /* compared, and not sent */
    assert_string_equal(a.tag.text, "");
    tmh_answer_free(&a);
}

/* At any length, and with any contents. */
static void tags_and_dates_are_compared_whole(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 2, 63, 64, 254, 255, 256, 257, 300, 5000};
    static const char *const fields[] = {"ETag: ", "X-Linked-ETag: ", "Last-Modified: "};
    char line[6000];
    for (size_t f = 0; f < 3; f++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            for (size_t odd = 0; odd < 2; odd++) {
                tmh_tag tags[2];
                size_t at = strlen(fields[f]), len = lengths[i] + odd;
                strcpy(line, fields[f]);
                memset(line + at, odd ? 1 : 'x', len);
                for (size_t v = 0; v < 2; v++) {
                    tmh_answer a = {.status = 0};
                    line[at + len - 1] = (char)('1' + v);
                    tmh_answer_line(&a, line, at + len);
                    tags[v] = f == 0 ? a.tag : f == 1 ? a.linked_tag : a.modified;
                    assert_int_equal(tags[v].len, len);
                    assert_true(tmh_tag_equal(&tags[v], &tags[v]));
                    tmh_answer_free(&a);
                }
                assert_false(tmh_tag_equal(&tags[0], &tags[1]));
            }
}

static void a_commit_is_a_plain_name(void **state) {
    (void)state;
    static const char *const bad[] = {"..", ".", "-x", "a/b", "", "a b", "_"};
    char line[64];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tmh_answer a = {.status = 0};
        strcpy(line, "X-Repo-Commit: ");
        strcat(line, bad[i]);
        tmh_answer_line(&a, line, strlen(line));
        assert_string_equal(a.commit, "");
        tmh_answer_free(&a);
    }
}

typedef struct names {
    char text[256];
    int stop_at, count;
} names;

static int add_name(void *ctx, const char *name) {
    names *n = ctx;
    strcat(n->text, name);
    strcat(n->text, "|");
    return ++n->count == n->stop_at;
}

static void hub_case(const char *json, const char *folder, const char *expected) {
    names n = {.count = 0};
    bool stopped;
    size_t len = strlen(json);
    char *own = malloc(len ? len : 1); /* without a NUL behind it */
    memcpy(own, json, len);
    bool fine = tmh_hub_names(own, len, folder, add_name, &n, &stopped);
    free(own);
    if (fine != (expected != NULL))
        fail_msg("%s: was %s", json, fine ? "taken" : "refused");
    if (expected)
        assert_string_equal(n.text, expected);
}

static void test_hub_listing(void **state) {
    (void)state;
    hub_case("[]", "", "");
    hub_case(" [ {\"type\":\"file\",\"oid\":\"x\",\"size\":1,\"path\":\"a.json\"} ,\n"
             "{\"path\":\"sub\",\"type\":\"directory\",\"lfs\":{\"path\":\"no\",\"a\":[1,{}]}}]",
             "", "a.json|sub|");
    hub_case("[{\"path\":\"sub/x\"},{\"path\":\"other\"},{\"path\":\"sub/y/z\"}]", "sub/", "x|");
    hub_case("[{\"path\":\"\\u00e9\\ud83d\\ude00\\/\"},{\"path\":\"a\\\"b\\\\\"}]", "", "a\"b\\|");
    hub_case("[{\"path\":\"\\u00e9\\ud83d\\ude00\"}]", "", "\xc3\xa9\xf0\x9f\x98\x80|");
    hub_case("[{}]", "", "");
    static const char *const bad[] = {"",
                                      "[",
                                      "[{",
                                      "[{\"path\"",
                                      "[{\"path\":",
                                      "[{\"path\":\"a",
                                      "[{\"path\":\"a\"}",
                                      "[{\"path\":\"a\"},]",
                                      "{\"error\":1}",
                                      "[{\"path\":\"\\ud800\"}]",
                                      "[{\"path\":\"\\u0000\"}]",
                                      "[{\"path\":1}]",
                                      "[] x",
                                      "<html>",
                                      "[{\"a\":}]",
                                      "[{\"path\":\"\\x\"}]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        hub_case(bad[i], "", NULL);
    names n = {.stop_at = 1};
    bool stopped;
    static const char two[] = "[{\"path\":\"a\"},{\"path\":\"b\"}]";
    assert_true(tmh_hub_names(two, sizeof two - 1, "", add_name, &n, &stopped));
    assert_true(stopped);
    assert_string_equal(n.text, "a|");
}

static void test_s3_listing(void **state) {
    (void)state;
    static const char xml[] =
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><Prefix>m/</Prefix>"
        "<NextContinuationToken>a&amp;b=</NextContinuationToken>"
        "<Contents><Key>m/</Key></Contents>"
        "<Contents><Key>m/a&lt;&#x e9;&#233;&quot;.safetensors</Key><Size>1</Size></Contents>"
        "<Contents><Key>other/b</Key></Contents>"
        "<CommonPrefixes><Prefix>m/sub/</Prefix></CommonPrefixes></ListBucketResult>";
    names n = {.count = 0};
    tmh_naming below = {"m/", add_name, &n, false}, all = {"", add_name, &n, false};
    char *next = NULL;
    assert_true(tmh_s3_names(xml, sizeof xml - 1, &below, &next));
    assert_string_equal(n.text, "a<&#x e9;\xc3\xa9\".safetensors|sub|");
    assert_string_equal(next, "a&b=");
    free(next);
    assert_false(tmh_s3_names("<html>", 6, &all, &next));
    assert_null(next);
    static const char broken[] = "<ListBucketResult><Contents><Key>x</Contents></ListBucketResult>";
    assert_false(tmh_s3_names(broken, sizeof broken - 1, &all, &next));
    static const char cut[] = "<ListBucketResult><Contents><Key>x</Key></Contents>";
    assert_false(tmh_s3_names(cut, sizeof cut - 1, &all, &next));
}

/* A listing of 8 MiB that consists of '&' takes no longer than another. */
static void test_hostile_listing(void **state) {
    (void)state;
    enum { LENGTH = 8 << 20 };
    char *xml = malloc(LENGTH + 1);
    memset(xml, '&', LENGTH);
    xml[LENGTH] = '\0';
    memcpy(xml, "<Code>", 6);
    memcpy(xml + LENGTH - 7, "</Code>", 7);
    clock_t begun = clock();
    char *text = tmh_xml_text(xml, LENGTH, "Code");
    assert_int_equal(strlen(text), LENGTH - 13);
    assert_true(clock() - begun < 10 * CLOCKS_PER_SEC);
    free(text);
    free(xml);
}

static void must_lead(tenmap_io *io, const char *text, const char *region, const char *object,
                      const char *listing) {
    tmh_file file = {.io = io->ctx, .address = must_read(text)};
    if (region)
        tmh_learnt_put(file.io, &file.io->learnt, file.address.host, region, true);
    char *url = tmh_first_hop(&file), *list = tmh_list_hop(&file, NULL);
    assert_string_equal(url, object);
    assert_string_equal(list, listing);
    free(url);
    free(list);
    tmh_address_free(&file.address);
}

/* Where Amazon has buckets: by the region that one said it is in, its listing too. */
static void test_s3_places(void **state) {
    (void)state;
    tenmap_io io;
    tenmap_error error;
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ENDPOINT_URL_S3");
    setenv("AWS_REGION", "us-west-2", 1);
    assert_int_equal(tenmap_http_create(NULL, &io, &error), TENMAP_OK);
    must_lead(&io, "s3://one/a b?", NULL, "https://one.s3.us-west-2.amazonaws.com/a%20b%3F",
              "https://one.s3.us-west-2.amazonaws.com/"
              "?delimiter=%2F&list-type=2&prefix=a%20b%3F%2F");
    must_lead(&io, "s3://one/a", "eu-west-1", "https://one.s3.eu-west-1.amazonaws.com/a",
              "https://one.s3.eu-west-1.amazonaws.com/?delimiter=%2F&list-type=2&prefix=a%2F");
    must_lead(&io, "s3://t.wo/a", "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn/t.wo/a",
              "https://s3.cn-north-1.amazonaws.com.cn/t.wo/"
              "?delimiter=%2F&list-type=2&prefix=a%2F");
    tenmap_http_destroy(&io);
    unsetenv("AWS_REGION");
}

/* The examples that Amazon publishes for GET requests to S3. */
static void test_signatures(void **state) {
    (void)state;
    char id[] = "AKIAIOSFODNN7EXAMPLE", secret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    tmh_keys keys = {id, secret, NULL};
    static const struct {
        const char *path, *query, *range, *headers, *signature;
    } rows[] = {
        {"/test.txt", "", "bytes=0-9", "host;range;x-amz-content-sha256;x-amz-date",
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"/", "lifecycle=", NULL, "host;x-amz-content-sha256;x-amz-date",
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"/", "max-keys=2&prefix=J", NULL, "host;x-amz-content-sha256;x-amz-date",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tmh_signed request = {"examplebucket.s3.amazonaws.com",
                              rows[i].path,
                              rows[i].query,
                              rows[i].range,
                              "us-east-1",
                              "20130524T000000Z"};
        tmh_text got = {.bytes = NULL}, expected = {.bytes = NULL};
        tmh_adds(&expected, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/"
                            "s3/aws4_request,SignedHeaders=");
        tmh_adds(&expected, rows[i].headers);
        tmh_adds(&expected, ",Signature=");
        tmh_adds(&expected, rows[i].signature);
        assert_true(tmh_sign(&keys, &request, &got));
        assert_string_equal(got.bytes, expected.bytes);
        free(got.bytes);
        free(expected.bytes);
    }
}

static void dates_have_one_of_three_forms(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds; /* -1: not a date */
    } rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Thu, 29 Feb 2024 23:59:60 GMT", 1709251200},
        {"Wed, 01 Mar 2000 00:00:00 GMT", 951868800},
        {"Fri, 31 Dec 9999 23:59:59 GMT", 253402300799},
        {"Sunday, 06-Nov-38 00:00:00 GMT", 2172614400},
        {"Sun, 06 Nov 1994 08:49:37", -1},
        {"Sun, 06 Nov 1994 08:49:37 GMT+1", -1},
        {"Sun, 06 Nov 1994 08:49:37 CET", -1},
        {"Sun, 06 Nof 1994 08:49:37 GMT", -1},
        {"Sun, 06 No 1994 08:49:37 GMT", -1},
        {"Sun, 00 Nov 1994 08:49:37 GMT", -1},
        {"Sun, 06 Nov 1994 24:49:37 GMT", -1},
        {"Sun, 06 Nov 1994 -8:49:37 GMT", -1},
        {"Sun, 06 Nov 1969 08:49:37 GMT", -1},
        {"never", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t seconds = -1;
        bool is_date = tmh_http_date(rows[i].text, &seconds);
        if (is_date != (rows[i].seconds >= 0) || seconds != rows[i].seconds)
            fail_msg("%s: %lld", rows[i].text, (long long)seconds);
    }
}

static void a_server_may_ask_to_wait_until_a_date(void **state) {
    (void)state;
    char line[64];
    time_t then = time(NULL) + 100;
    struct tm utc;
    assert_non_null(gmtime_r(&then, &utc));
    assert_true(strftime(line, sizeof line, "Retry-After: %a, %d %b %Y %H:%M:%S GMT", &utc) > 0);
    const char *const lines[] = {"HTTP/1.1 503 Busy", line, NULL};
    tmh_answer a = answer_of(lines);
    assert_true(a.has_retry_after && a.retry_after > 90 && a.retry_after <= 100);
    tmh_answer_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_web_addresses),
        cmocka_unit_test(test_hub_addresses),
        cmocka_unit_test(test_s3_addresses),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_shown),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_redirect),
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_hostile_lines),
        cmocka_unit_test(test_hub_listing),
        cmocka_unit_test(test_s3_listing),
        cmocka_unit_test(test_hostile_listing),
        cmocka_unit_test(test_s3_places),
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(tags_and_dates_are_compared_whole),
        cmocka_unit_test(a_commit_is_a_plain_name),
        cmocka_unit_test(dates_have_one_of_three_forms),
        cmocka_unit_test(a_server_may_ask_to_wait_until_a_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
