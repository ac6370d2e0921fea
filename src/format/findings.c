/* Passes the findings of a check on to the caller, in order and limited in number. */
#include "format.h"

#ifndef TENMAP_NO_CHECK

/* How many findings of each kind and severity are passed on; further ones are only counted. */
enum { MOST_OF_A_KIND = 32 };

/*
 * One row for each kind: its machine-readable name, its default severity, and the flags of
 * tenmap_open that turn it from an error into a warning.
 */
#define LENIENT_OR(flag) (TENMAP_OPEN_LENIENT | TENMAP_OPEN_##flag)
#define FINDINGS(X)                                                                                \
    X(UNREADABLE, "unreadable", ERROR, 0)                                                          \
    X(MISSING_SHARD, "missing-shard", ERROR, TENMAP_OPEN_PARTIAL)                                  \
    X(FOREIGN, "foreign", ERROR, 0)                                                                \
    X(LIMIT, "limit", ERROR, 0)                                                                    \
    X(TRUNCATED, "truncated", ERROR, 0)                                                            \
    X(JSON, "json", ERROR, 0)                                                                      \
    X(ENTRY, "entry", ERROR, 0)                                                                    \
    X(METADATA, "metadata", ERROR, 0)                                                              \
    X(DTYPE, "dtype", ERROR, LENIENT_OR(UNKNOWN_DTYPES))                                           \
    X(DUPLICATE_NAME, "duplicate-name", ERROR, 0)                                                  \
    X(DUPLICATE_KEY, "duplicate-key", ERROR, 0)                                                    \
    X(OFFSETS, "offsets", ERROR, 0)                                                                \
    X(OVERLAP, "overlap", ERROR, 0)                                                                \
    X(HOLE, "hole", ERROR, LENIENT_OR(HOLES))                                                      \
    X(OVERFLOW, "overflow", ERROR, 0)                                                              \
    X(PART_OF_BYTE, "part-of-byte", ERROR, 0)                                                      \
    X(SIZE, "size", ERROR, 0)                                                                      \
    X(TRAILING, "trailing", ERROR, LENIENT_OR(TRAILING))                                           \
    X(INCOMPLETE, "incomplete", ERROR, 0)                                                          \
    X(INDEX, "index", ERROR, 0)                                                                    \
    X(SHARD_NAME, "shard-name", ERROR, 0)                                                          \
    X(NOT_IN_SHARD, "not-in-shard", ERROR, LENIENT_OR(STALE_INDEX))                                \
    X(NOT_LISTED, "not-listed", WARNING, 0)                                                        \
    X(IN_TWO_SHARDS, "in-two-shards", ERROR, 0)                                                    \
    X(EXTRA_SHARD, "extra-shard", WARNING, 0)                                                      \
    X(TOTAL_SIZE, "total-size", WARNING, 0)                                                        \
    X(MISALIGNED, "misaligned", WARNING, 0)                                                        \
    X(DATA_START, "data-start", WARNING, 0)                                                        \
    X(WHITE_SPACE, "white-space", NOTE, 0)                                                         \
    X(SLACK, "slack", NOTE, 0)                                                                     \
    X(ORDER, "order", NOTE, 0)                                                                     \
    X(UNKNOWN_FIELD, "unknown-field", NOTE, 0)                                                     \
    X(NO_FORMAT, "no-format", NOTE, 0)                                                             \
    X(EMPTY_TENSOR, "empty-tensor", NOTE, 0)                                                       \
    X(NO_TENSORS, "no-tensors", NOTE, 0)                                                           \
    X(NAME, "name", NOTE, 0)                                                                       \
    X(INTERRUPTED_EDIT, "interrupted-edit", WARNING, 0)                                            \
    X(PARTS, "quantized-weight", ERROR, 0)                                                         \
    X(CODE, "code", WARNING, 0)

static const struct {
    const char *name;
    uint8_t severity;
    uint16_t allowed_by;
} findings[TMI_FOUND_COUNT] = {
#define FINDING_ROW(code, name, severity, flag)                                                    \
    [TENMAP_FOUND_##code] = {name, TENMAP_FINDING_##severity, flag},
    FINDINGS(FINDING_ROW)};

const char *tenmap_found_name(uint32_t code) {
    return code > 0 && code < TMI_FOUND_COUNT ? findings[code].name : "unknown";
}

uint32_t tmi_found_severity(uint32_t code) {
    return findings[code].severity;
}

bool tmi_report_full(tmi_report *report, uint32_t severity, uint32_t code) {
    if (report->counts[severity][code] < MOST_OF_A_KIND)
        return false;
    report->counts[severity][code]++;
    report->errors += severity == TENMAP_FINDING_ERROR;
    return true;
}

static void pass_on(tmi_report *report, const tenmap_finding *finding) {
    if (tmi_report_full(report, finding->severity, finding->code))
        return;
    report->counts[finding->severity][finding->code]++;
    report->errors += finding->severity == TENMAP_FINDING_ERROR;
    report->found(report->ctx, finding);
}

void tmi_report_add(tmi_report *report, uint32_t severity, uint32_t code, uint32_t shard,
                    const char *tensor, const tenmap_error *said) {
    tenmap_finding finding = {.severity = severity,
                              .code = code,
                              .shard = shard,
                              .remedy = said->remedy,
                              .offset = said->offset,
                              .tensor = tensor,
                              .message = said->message,
                              .count = 1};
    pass_on(report, &finding);
}

void tmi_report_code(tmi_report *report, uint32_t shard, const char *global, bool called,
                     const tenmap_error *said) {
    tenmap_finding finding = {.severity = tmi_found_severity(TENMAP_FOUND_CODE),
                              .code = TENMAP_FOUND_CODE,
                              .shard = shard,
                              .offset = said->offset,
                              .message = said->message,
                              .count = 1,
                              .global = global,
                              .called = called};
    pass_on(report, &finding);
}

void tmi_report_failure(tmi_report *report, uint32_t code, uint32_t shard, const char *tensor,
                        const tenmap_error *error) {
    bool allowed = report->flags & findings[code].allowed_by;
    tenmap_error said = *error;
    if (allowed)
        said.remedy = TENMAP_REMEDY_NONE;
    tmi_report_add(report, allowed ? TENMAP_FINDING_WARNING : TENMAP_FINDING_ERROR, code, shard,
                   tensor, &said);
}

void tmi_report_end(tmi_report *report) {
    for (uint32_t severity = TENMAP_FINDING_ERROR; severity >= TENMAP_FINDING_NOTE; severity--)
        for (uint32_t code = 1; code < TMI_FOUND_COUNT; code++) {
            uint64_t more = report->counts[severity][code];
            if (more <= MOST_OF_A_KIND)
                continue;
            tenmap_error said;
            tmi_fail(&said, TENMAP_OK, "and %llu more of this kind (%s)",
                     (ull)(more - MOST_OF_A_KIND), findings[code].name);
            tenmap_finding finding = {.severity = severity,
                                      .code = code,
                                      .shard = TENMAP_NO_SHARD,
                                      .message = said.message,
                                      .count = more - MOST_OF_A_KIND};
            report->found(report->ctx, &finding);
        }
}

#endif
