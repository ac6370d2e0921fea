/*
 * tenmap_check: reports every violation of the format and every oddity. A check is an open that
 * does not stop at the first broken rule: it runs the same code, which passes what it finds to a
 * report. So the two agree, and the first error of a check is the one that tenmap_open gives.
 * safetensors_header.c and lint_header.c check single headers, check_index.c compares the index
 * with its shards, and this file runs the whole check.
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
        status == TENMAP_ERR_FORMAT || (status == TENMAP_ERR_LIMIT && failure.os_error == 0) ||
        (status == TENMAP_ERR_UNSUPPORTED && report.errors); /* a file of a kind that is refused */
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
