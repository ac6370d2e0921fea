/*
 * Fuzzes everything that libtenmap-http parses: header lines, listings of hubs and of S3,
 * addresses. The first byte chooses. Results must keep the promises of http.h.
 */
#include "http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) ((condition) ? (void)0 : fail_check(#condition, __LINE__))

static void fail_check(const char *condition, int line) {
    fprintf(stderr, "fuzz_http.c:%d: %s\n", line, condition);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_printable(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static void header_lines(const char *text, size_t size) {
    tmh_answer a = {.status = 0};
    while (size) {
        const char *end = memchr(text, '\n', size);
        size_t len = end ? (size_t)(end - text) + 1 : size;
        tmh_answer_line(&a, text, len);
        text += len;
        size -= len;
    }
    CHECK(a.status >= 0 && a.status < 1000);
    CHECK(!(a.has_range && a.bad_range));
    CHECK(!a.has_range || a.unsatisfied || (a.first <= a.last && a.last < a.total));
    CHECK(is_printable(a.tag.text) && is_printable(a.linked_tag.text) &&
          is_printable(a.modified.text));
    CHECK(strspn(a.commit, "/ \t") == 0 && !strchr(a.commit, '/') && a.commit[0] != '.' &&
          !strchr(a.region, '/'));
    tmh_answer_free(&a);
}

static int check_name(void *ctx, const char *name) {
    size_t *left = ctx;
    CHECK(*name && !strchr(name, '/'));
    return (*left)-- == 0;
}

static void address(const char *text, size_t size) {
    char *own = tmh_copy(text, size);
    tmh_address a;
    tenmap_error error = {.status = TENMAP_OK};
    if (tmh_address_read(&a, own, &error) == TENMAP_OK) {
        CHECK(a.host && *a.host && a.path);
        CHECK(is_printable(a.host));
        if (a.scheme == TMH_HTTP || a.scheme == TMH_HTTPS) {
            CHECK(a.path[0] == '/' && is_printable(a.path) && !strchr(a.path, ' '));
            CHECK(!strchr(a.host, '@') && !strchr(a.path, '#'));
        }
    } else {
        CHECK(error.message[0] && is_printable(error.message));
    }
    tmh_address_free(&a);
    free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t left = data[1];
    char *text = malloc(size - 1), *next = NULL; /* of its own, so that a byte too many is found */
    bool stopped;
    tmh_naming names = {data[1] & 1 ? "sub/" : "", check_name, &left, false};
    memcpy(text, data + 1, size - 1);
    switch (data[0] & 3) {
    case 0:
        header_lines(text, size - 1);
        break;
    case 1:
        tmh_hub_names(text, size - 1, data[1] & 1 ? "sub" : "", check_name, &left, &stopped);
        break;
    case 2:
        tmh_s3_names(text, size - 1, &names, &next);
        free(next);
        break;
    default:
        address(text, size - 1);
    }
    free(text);
    return 0;
}
