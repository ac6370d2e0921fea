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
static tmi_mlock_spans *lock_record(const tenmap_model *model) {
    tmi_mlock_spans *record = &((tenmap_model *)(uintptr_t)model)->locked;
    tmi_rwlock_write(&record->lock);
    if (record->process != tmi_process())
        record->spans.count = 0;
    record->process = tmi_process();
    return record;
}

static bool put_span(tmi_spans *spans, tmi_span span) {
    tmi_span *list = tmi_grow(spans->list, spans->count, &spans->capacity, sizeof *list);
    if (!list)
        return false;
    spans->list = list;
    list[spans->count++] = span;
    return true;
}

/*
 * Removes the pages from all spans; what lies before and after them stays. Returns false if out of
 * memory: then a span that would have to be split stays whole.
 */
static bool remove_pages(tmi_spans *spans, tmi_span pages) {
    bool done = true;
    for (size_t i = spans->count; i-- > 0;) {
        tmi_span span = spans->list[i];
        if (span.shard != pages.shard || span.end <= pages.begin || span.begin >= pages.end)
            continue;
        tmi_span behind = {span.shard, pages.end, span.end};
        if (span.end > pages.end && span.begin < pages.begin && !put_span(spans, behind)) {
            done = false;
            continue;
        }
        if (span.begin < pages.begin)
            spans->list[i].end = pages.begin;
        else if (span.end > pages.end)
            spans->list[i].begin = pages.end;
        else
            spans->list[i] = spans->list[--spans->count];
    }
    return done;
}

bool tmi_mlock_spans_add(const tenmap_model *model, tmi_span pages, tmi_spans *added) {
    tmi_mlock_spans *record = lock_record(model);
    tmi_spans *known = &record->spans;
    size_t before = known->count;
    *added = (tmi_spans){.list = NULL};
    bool done = put_span(added, pages);
    for (size_t i = 0; done && i < before; i++)
        done = remove_pages(added, known->list[i]);
    for (size_t i = 0; done && i < added->count; i++)
        done = put_span(known, added->list[i]);
    if (!done)
        known->count = before;
    tmi_rwlock_write_end(&record->lock);
    return done;
}

void tmi_mlock_spans_remove(const tenmap_model *model, tmi_span pages) {
    tmi_mlock_spans *record = lock_record(model);
    (void)remove_pages(&record->spans, pages);
    tmi_rwlock_write_end(&record->lock);
}

int tmi_mlock_spans_relock(const tenmap_model *model, tmi_span pages) {
    tmi_mlock_spans *record = lock_record(model);
    int failed = 0;
    for (size_t i = 0; i < record->spans.count && !failed; i++) {
        tmi_span span = record->spans.list[i];
        uint64_t begin = span.begin > pages.begin ? span.begin : pages.begin;
        uint64_t end = span.end < pages.end ? span.end : pages.end;
        if (span.shard == pages.shard && begin < end)
            failed = tmi_map_lock(&span.shard->bytes.file, begin, end);
    }
    tmi_rwlock_write_end(&record->lock);
    return failed;
}
