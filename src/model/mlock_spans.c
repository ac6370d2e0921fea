/*
 * Records which pages of a model tenmap_advise locked in memory, because memory that replaces a
 * mapping does not inherit its locks. Spans do not overlap and are not sorted.
 */
#include "model.h"

#include <stdlib.h>

/*
 * Returns the record with its lock held for writing. Clears it in a child of fork, which does not
 * inherit the parent's locked pages.
 */
static tmi_mlock_spans *take_record(const tenmap_model *model) {
    tmi_mlock_spans *record = &((tenmap_model *)(uintptr_t)model)->locked;
    tmi_rwlock_write(&record->gate);
    if (record->process != tmi_process())
        record->count = 0;
    record->process = tmi_process();
    return record;
}

static bool put_span(tmi_mlock_spans *record, tmi_span span) {
    tmi_span *spans = tmi_grow(record->spans, record->count, &record->capacity, sizeof *spans);
    if (!spans)
        return false;
    record->spans = spans;
    spans[record->count++] = span;
    return true;
}

/*
 * Removes the pages from all spans; what lies before and after them stays. If out of memory, a span
 * that would have to be split stays whole.
 */
static void cut_out(tmi_mlock_spans *record, tmi_span pages) {
    for (size_t i = record->count; i-- > 0;) {
        tmi_span span = record->spans[i];
        if (span.shard != pages.shard || span.end <= pages.begin || span.begin >= pages.end)
            continue;
        tmi_span behind = {span.shard, pages.end, span.end};
        if (span.end > pages.end && span.begin < pages.begin && !put_span(record, behind))
            continue;
        if (span.begin < pages.begin)
            record->spans[i].end = pages.begin;
        else if (span.end > pages.end)
            record->spans[i].begin = pages.end;
        else
            record->spans[i] = record->spans[--record->count];
    }
}

bool tmi_mlock_spans_add(const tenmap_model *model, tmi_span pages) {
    tmi_mlock_spans *record = take_record(model);
    cut_out(record, pages);
    bool added = put_span(record, pages);
    tmi_rwlock_write_end(&record->gate);
    return added;
}

void tmi_mlock_spans_remove(const tenmap_model *model, tmi_span pages) {
    tmi_mlock_spans *record = take_record(model);
    cut_out(record, pages);
    tmi_rwlock_write_end(&record->gate);
}

int tmi_mlock_spans_relock(const tenmap_model *model, tmi_span pages) {
    tmi_mlock_spans *record = take_record(model);
    int failed = 0;
    for (size_t i = 0; i < record->count && !failed; i++) {
        tmi_span span = record->spans[i];
        uint64_t begin = span.begin > pages.begin ? span.begin : pages.begin;
        uint64_t end = span.end < pages.end ? span.end : pages.end;
        if (span.shard == pages.shard && begin < end)
            failed = tmi_map_lock(&span.shard->bytes.file, begin, end);
    }
    tmi_rwlock_write_end(&record->gate);
    return failed;
}
