/*
 * For any bytes, tenmap_check finds an error if and only if tenmap_open refuses them, its first
 * error is tenmap_open's, and its findings are bounded and clean.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST_FINDINGS = 40 * 3 * 33 };

typedef struct verdict {
    size_t findings, errors;
    char first[sizeof((tenmap_error *)0)->message];
} verdict;

static void take_finding(void *ctx, const tenmap_finding *f) {
    verdict *v = ctx;
    size_t len = strlen(f->message);
    CHECK(f->severity >= TENMAP_FINDING_NOTE && f->severity <= TENMAP_FINDING_ERROR);
    CHECK(strcmp(tenmap_found_name(f->code), "unknown") != 0);
    CHECK(f->remedy <= TENMAP_REMEDY_CREDENTIALS && len > 0 && len < sizeof v->first);
    CHECK(fuzz_utf8(f->message, len) == len);
    for (size_t i = 0; i < len; i++)
        CHECK((unsigned char)f->message[i] >= 0x20 && f->message[i] != 0x7f);
    if (f->tensor)
        CHECK(fuzz_utf8(f->tensor, strlen(f->tensor)) == strlen(f->tensor));
    CHECK(++v->findings <= MOST_FINDINGS);
    if (f->severity == TENMAP_FINDING_ERROR && v->errors++ == 0)
        memcpy(v->first, f->message, len + 1);
}

static void check_verdict(const char *path, uint32_t flags) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error, check_error;
    verdict v = {0, 0, ""};
    options.flags = flags;
    options.max_header_bytes = 1 << 20;
    tenmap_status opened = tenmap_open(path, &options, &model, &error);
    tenmap_close(model);
    fuzz_error_arm(&check_error);
    tenmap_status checked = tenmap_check(path, &options, take_finding, &v, &check_error);
    fuzz_error_check(&check_error, checked);
    if (checked != TENMAP_OK) {
        CHECK(checked == opened && strcmp(error.message, check_error.message) == 0);
        return;
    }
    CHECK((opened == TENMAP_OK) == (v.errors == 0));
    if (opened != TENMAP_OK)
        CHECK(strncmp(error.message, v.first, strlen(v.first)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int file = -1;
    char path[64];
    if (file < 0)
        file = memfd_create("model", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    check_verdict(path, 0);
    check_verdict(path, TENMAP_OPEN_LENIENT | TENMAP_OPEN_PARTIAL);
    return 0;
}
