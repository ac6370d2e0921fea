/* What a check finds, on its way to the caller: in order, and bounded. */
#include "format.h"

/* Of each kind and severity so many are handed on as they are; what follows is counted. */
enum { MOST_OF_A_KIND = 32 };

static const char *const found_names[TMI_FOUND_COUNT] = {
    [TENMAP_FOUND_UNREADABLE] = "unreadable",
    [TENMAP_FOUND_MISSING_SHARD] = "missing-shard",
    [TENMAP_FOUND_FOREIGN] = "foreign",
    [TENMAP_FOUND_LIMIT] = "limit",
    [TENMAP_FOUND_TRUNCATED] = "truncated",
    [TENMAP_FOUND_JSON] = "json",
    [TENMAP_FOUND_ENTRY] = "entry",
    [TENMAP_FOUND_METADATA] = "metadata",
    [TENMAP_FOUND_DTYPE] = "dtype",
    [TENMAP_FOUND_DUPLICATE_NAME] = "duplicate-name",
    [TENMAP_FOUND_DUPLICATE_KEY] = "duplicate-key",
    [TENMAP_FOUND_OFFSETS] = "offsets",
    [TENMAP_FOUND_OVERLAP] = "overlap",
    [TENMAP_FOUND_HOLE] = "hole",
    [TENMAP_FOUND_OVERFLOW] = "overflow",
    [TENMAP_FOUND_PART_OF_BYTE] = "part-of-byte",
    [TENMAP_FOUND_SIZE] = "size",
    [TENMAP_FOUND_TRAILING] = "trailing",
    [TENMAP_FOUND_INCOMPLETE] = "incomplete",
    [TENMAP_FOUND_INDEX] = "index",
    [TENMAP_FOUND_SHARD_NAME] = "shard-name",
    [TENMAP_FOUND_NOT_IN_SHARD] = "not-in-shard",
    [TENMAP_FOUND_NOT_LISTED] = "not-listed",
    [TENMAP_FOUND_IN_TWO_SHARDS] = "in-two-shards",
    [TENMAP_FOUND_EXTRA_SHARD] = "extra-shard",
    [TENMAP_FOUND_TOTAL_SIZE] = "total-size",
    [TENMAP_FOUND_MISALIGNED] = "misaligned",
    [TENMAP_FOUND_DATA_START] = "data-start",
    [TENMAP_FOUND_WHITE_SPACE] = "white-space",
    [TENMAP_FOUND_SLACK] = "slack",
    [TENMAP_FOUND_ORDER] = "order",
    [TENMAP_FOUND_UNKNOWN_FIELD] = "unknown-field",
    [TENMAP_FOUND_NO_FORMAT] = "no-format",
    [TENMAP_FOUND_EMPTY_TENSOR] = "empty-tensor",
    [TENMAP_FOUND_NO_TENSORS] = "no-tensors",
    [TENMAP_FOUND_NAME] = "name",
    [TENMAP_FOUND_INTERRUPTED_EDIT] = "interrupted-edit",
};

const char *tenmap_found_name(uint32_t code) {
    return code > 0 && code < TMI_FOUND_COUNT ? found_names[code] : "unknown";
}

bool tmi_report_full(tmi_report *report, uint32_t severity, uint32_t code) {
    if (report->counts[severity][code] < MOST_OF_A_KIND)
        return false;
    report->counts[severity][code]++;
    return true;
}

void tmi_report_say(tmi_report *report, uint32_t severity, uint32_t code, uint32_t shard,
                    const char *tensor, const tenmap_error *said) {
    tenmap_finding finding = {.severity = severity,
                              .code = code,
                              .shard = shard,
                              .offset = said->offset,
                              .tensor = tensor,
                              .message = said->message};
    if (severity == TENMAP_FINDING_ERROR)
        report->errors++;
    if (tmi_report_full(report, severity, code))
        return;
    report->counts[severity][code]++;
    report->found(report->ctx, &finding);
}

/* What options.flags of tenmap_open allow, in a model that is odd then and not broken. */
static bool is_allowed(const tmi_report *report, uint32_t code) {
    if (code == TENMAP_FOUND_MISSING_SHARD)
        return report->flags & TENMAP_OPEN_PARTIAL;
    return (report->flags & TENMAP_OPEN_LENIENT) &&
           (code == TENMAP_FOUND_HOLE || code == TENMAP_FOUND_TRAILING ||
            code == TENMAP_FOUND_DTYPE || code == TENMAP_FOUND_NOT_IN_SHARD);
}

void tmi_report_failure(tmi_report *report, uint32_t code, uint32_t shard, const char *tensor,
                        const tenmap_error *error) {
    uint32_t severity = is_allowed(report, code) ? TENMAP_FINDING_WARNING : TENMAP_FINDING_ERROR;
    tmi_report_say(report, severity, code, shard, tensor, error);
}

void tmi_report_end(tmi_report *report) {
    for (uint32_t severity = TENMAP_FINDING_ERROR; severity >= TENMAP_FINDING_NOTE; severity--)
        for (uint32_t code = 1; code < TMI_FOUND_COUNT; code++) {
            uint64_t more = report->counts[severity][code];
            if (more <= MOST_OF_A_KIND)
                continue;
            tenmap_error said;
            tmi_fail(&said, TENMAP_OK, "and %llu more of this kind (%s)",
                     (ull)(more - MOST_OF_A_KIND), found_names[code]);
            tenmap_finding finding = {.severity = severity,
                                      .code = code,
                                      .shard = TENMAP_NO_SHARD,
                                      .message = said.message};
            report->found(report->ctx, &finding);
        }
}
