/*
 * Every departure from the format and every oddity. A check is an open that does not end at the
 * first broken rule: it goes the same way through the same code, which hands what it finds to a
 * report. So the two agree, and the first error is the one that tenmap_open gives. What concerns
 * single headers is in safetensors_header.c and lint_header.c; check_index.c has the index with
 * its shards; here is the whole.
 */
#include "model.h"

#ifndef TENMAP_NO_CHECK

tenmap_status tenmap_check(const char *path, const tenmap_options *options,
                           void (*found)(void *ctx, const tenmap_finding *finding), void *ctx,
                           tenmap_error *error) {
    tmi_report report = {.found = found, .ctx = ctx};
    tenmap_error failure;
    if (!found)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the function that takes findings is NULL");
    tenmap_status status = tmi_open_reporting(path, options, &report, &failure);
    bool broken =
        status == TENMAP_ERR_FORMAT || (status == TENMAP_ERR_LIMIT && failure.os_error == 0);
    if (broken && report.errors == 0)
        tmi_report_failure(&report,
                           status == TENMAP_ERR_LIMIT ? TENMAP_FOUND_LIMIT : TENMAP_FOUND_INDEX,
                           TENMAP_NO_SHARD, NULL, &failure);
    tmi_report_end(&report);
    if (status == TENMAP_OK || broken)
        return TENMAP_OK;
    if (error)
        *error = failure;
    return status;
}

#endif
