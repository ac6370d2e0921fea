/*
 * tenmap_advise, tenmap_resident, tenmap_cached, and the same for ranges: control and query which
 * bytes of a model are in memory.
 */
#include "computed.h"
#include "derived.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The bytes that a call is about, as merged spans: the whole model, or a list of tensors. */
typedef struct span_list {
    tmi_span one; /* avoids an allocation for a single span */
    tmi_span *spans;
    size_t count;
} span_list;

static tmi_span shard_span(const tmi_shard *shard) {
    return (tmi_span){shard, shard->view.data_offset, shard->view.offset + shard->view.size};
}

static int compare_spans(const void *left, const void *right) {
    const tmi_span *a = left, *b = right;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* Merges spans that touch, so that a page shared by two neighbors in the list is included. */
static void merge_spans(span_list *list) {
    size_t kept = 0;
    qsort(list->spans, list->count, sizeof *list->spans, compare_spans);
    for (size_t i = 0; i < list->count; i++) {
        tmi_span *last = kept ? &list->spans[kept - 1] : NULL, next = list->spans[i];
        if (last && last->shard == next.shard && next.begin <= last->end) {
            if (next.end > last->end)
                last->end = next.end;
        } else if (next.begin < next.end) {
            list->spans[kept++] = next;
        }
    }
    list->count = kept;
}

static tenmap_status check_tensor(const tenmap_model *model, const tenmap_tensor *t, size_t i,
                                  tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    if (!t)
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "tensor %llu of the list is NULL", (ull)i);
    else if (t->model != model)
        status =
            TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, t,
                            "it is tensor %llu of the list, but belongs to another model", (ull)i);
    if (status != TENMAP_OK && error)
        error->index = i;
    return status;
}

/* Counts the spans of tensors, then adds them to a list that has room for so many. */
static void count_leaf(void *ctx, const tenmap_tensor *leaf) {
    (void)leaf;
    ++*(size_t *)ctx;
}

static void add_leaf(void *ctx, const tenmap_tensor *leaf) {
    span_list *list = ctx;
    list->spans[list->count++] = tmi_stored_span(leaf);
}

/* Takes the whole shards, or what the tensors of a derived model are computed from. */
static void take_model(span_list *list, const tenmap_model *model, tmi_leaf_visit *visit,
                       void *ctx) {
    for (size_t i = 0; model->derivation && i < model->tensor_count; i++)
        tmi_each_leaf(&model->tensors[i], visit, ctx);
    for (size_t i = 0; list && !model->derivation && i < model->shard_count; i++)
        list->spans[list->count++] = shard_span(&model->shards[i]);
}

/* If `tensors` is NULL, takes the whole model. Call free_spans whether or not it succeeds. */
static tenmap_status collect_spans(span_list *list, const tenmap_model *model,
                                   const tenmap_tensor *const *tensors, size_t count,
                                   tenmap_error *error) {
    *list = (span_list){.spans = NULL};
    if (!model)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the model is NULL");
    size_t room = model->derivation ? 0 : model->shard_count;
    if (tensors)
        room = 0;
    else
        take_model(NULL, model, count_leaf, &room);
    for (size_t i = 0; tensors && i < count; i++) {
        tenmap_status status = check_tensor(model, tensors[i], i, error);
        if (status != TENMAP_OK)
            return status;
        tmi_each_leaf(tensors[i], count_leaf, &room);
    }
    list->spans = room > 1 ? tmi_calloc(room, sizeof *list->spans) : &list->one;
    if (!list->spans)
        return tmi_fail_memory(error, room * sizeof *list->spans, "the list of tensors");
    if (!tensors)
        take_model(list, model, add_leaf, list);
    for (size_t i = 0; tensors && i < count; i++)
        tmi_each_leaf(tensors[i], add_leaf, list);
    merge_spans(list);
    return TENMAP_OK;
}

/* Takes some bytes of one tensor. Nothing needs to be freed. */
static tenmap_status collect_range(span_list *list, const tenmap_tensor *t, uint64_t first,
                                   uint64_t bytes, tenmap_error *error) {
    *list = (span_list){.spans = &list->one};
    if (!t)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the tensor is NULL");
    const tmi_computed *computed = tmi_computed_of(t);
    if (computed)
        return tmi_remedy(
            error, TENMAP_REMEDY_PARTS,
            TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                            "%s (%s), so it has no bytes of its own (tenmap_part_at gives them)",
                            tmi_why_computed(computed), computed->scheme.name));
    if (first > t->nbytes || bytes > t->nbytes - first)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_RANGE, t,
                               "it has %llu bytes; %llu bytes from %llu on are out of range",
                               (ull)t->nbytes, (ull)bytes, (ull)first);
    list->one = tmi_stored_span(t);
    list->one.begin += first;
    list->one.end = list->one.begin + bytes;
    list->count = bytes > 0;
    return TENMAP_OK;
}

static void free_spans(span_list *list) {
    if (list->spans != &list->one)
        free(list->spans);
}

/*
 * The subject of an error: "path": tensor "name", for the tensor that holds byte `at` of the file.
 */
typedef struct advice_subject {
    char text[2 * sizeof(tmi_quoted) + 16];
    uint32_t shard;
    uint64_t offset;
} advice_subject;

/* A byte of a file, and whether it belongs to one of the leaves that were visited. */
typedef struct wanted_byte {
    const tmi_shard *shard;
    uint64_t offset;
    bool found;
} wanted_byte;

static void look_for_byte(void *ctx, const tenmap_tensor *leaf) {
    wanted_byte *byte = ctx;
    tmi_span span = tmi_stored_span(leaf);
    byte->found = byte->found || (span.shard == byte->shard && span.begin <= byte->offset &&
                                  byte->offset < span.end);
}

static bool holds_byte(const tenmap_tensor *t, const tmi_shard *shard, uint64_t offset) {
    wanted_byte byte = {shard, offset, false};
    tmi_each_leaf(t, look_for_byte, &byte);
    return byte.found;
}

static advice_subject subject_at(const tenmap_model *model, const tmi_span *span, uint64_t at) {
    advice_subject out = {.shard = (uint32_t)(span->shard - model->shards)};
    out.offset = at > span->begin ? at : span->begin; /* pages begin before their tensor */
    tmi_quoted path = tmi_quote_path(span->shard->bytes.shown);
    snprintf(out.text, sizeof out.text, "%s", path.text);
    for (size_t i = 0; i < model->tensor_count; i++)
        if (holds_byte(&model->tensors[i], span->shard, out.offset))
            snprintf(out.text, sizeof out.text, "%s: tensor %s", path.text,
                     tmi_quote(model->tensors[i].name, model->tensors[i].name_len).text);
    return out;
}

/* The file is now shorter than the mapping, or its storage cannot be read. */
static tenmap_status fail_gone(const tenmap_model *model, const tmi_span *span, uint64_t at,
                               tenmap_error *error) {
    const tmi_file *file = &span->shard->bytes.file;
    uint64_t now = file->size;
    bool truncated = tmi_bytes_changed(&span->shard->bytes, &now) && now < span->end;
    advice_subject about = subject_at(model, span, truncated && now > at ? now : at);
    tmi_fail_at(error, TENMAP_ERR_IO, about.shard, about.offset,
                "%s: cannot read bytes %llu to %llu into memory, stopped at byte %llu: %s (it had "
                "%llu bytes when it was opened, %llu now)",
                about.text, (ull)span->begin, (ull)span->end, (ull)about.offset,
                truncated ? "another program has truncated the file"
                          : "the file's storage could not be read",
                (ull)file->size, (ull)now);
    if (error)
        error->os_error = EFAULT;
    return TENMAP_ERR_IO;
}

static tenmap_status fail_lock(const tenmap_model *model, const tmi_span *span, int os_error,
                               tenmap_error *error) {
    const char *remedy;
    uint64_t now = 0, limit = tmi_lock_limit(&remedy);
    if (tmi_bytes_changed(&span->shard->bytes, &now) && now < span->end)
        return fail_gone(model, span, now, error);
    if (limit == UINT64_MAX)
        return tmi_fail_os(error, os_error, "%s: cannot lock %llu bytes in memory",
                           subject_at(model, span, 0).text, (ull)(span->end - span->begin));
    tmi_fail_at(error, TENMAP_ERR_LIMIT, (uint32_t)(span->shard - model->shards), span->begin,
                "%s: cannot lock %llu bytes: this process may lock %llu in all %s",
                subject_at(model, span, 0).text, (ull)(span->end - span->begin), (ull)limit,
                remedy);
    if (error)
        error->os_error = os_error;
    return tmi_remedy(error, TENMAP_REMEDY_RAISE_PROCESS_LIMIT, TENMAP_ERR_LIMIT);
}

/* Applies the advice to one mapped span. */
typedef tenmap_status advice_act(const tenmap_model *model, tmi_span span, tenmap_error *error);

static tenmap_status advise_populate(const tenmap_model *model, tmi_span span,
                                     tenmap_error *error) {
    uint64_t at;
    tmi_prefetch_wait(model, span);
    int failed = tmi_populate(span, &at);
    if (failed == EFAULT)
        return fail_gone(model, &span, at, error);
    if (failed)
        return tmi_fail_os(error, failed, "%s: cannot read %llu bytes into memory",
                           subject_at(model, &span, at).text, (ull)(span.end - span.begin));
    return TENMAP_OK;
}

static tenmap_status advise_prefetch(const tenmap_model *model, tmi_span span,
                                     tenmap_error *error) {
    tmi_span rest = span, run;
    return tmi_next_mapped(&rest, &run) ? tmi_prefetch_add(model, span, error) : TENMAP_OK;
}

/*
 * Detached chunks and private mappings are not released: their bytes, or what was written to them,
 * would be lost.
 */
static tenmap_status advise_release(const tenmap_model *model, tmi_span span, tenmap_error *error) {
    tmi_span pages = tmi_span_inward(span), run;
    int failed = 0;
    if (span.shard->bytes.file.copy_on_write)
        return TENMAP_OK;
    tmi_prefetch_drop(model, span);
    while (!failed && pages.begin < pages.end && tmi_next_mapped(&pages, &run))
        failed = tmi_map_release(&pages.shard->bytes.file, run.begin, run.end);
    if (failed == EINVAL)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: cannot release pages that are locked; use TENMAP_ADVISE_UNLOCK before "
                        "TENMAP_ADVISE_RELEASE",
                        subject_at(model, &span, 0).text);
    if (failed)
        return tmi_fail_os(error, failed, "%s: cannot release %llu bytes",
                           subject_at(model, &span, 0).text, (ull)(span.end - span.begin));
    return TENMAP_OK;
}

static tenmap_status advise_unlock(const tenmap_model *model, tmi_span span, tenmap_error *error) {
    tmi_span pages = tmi_span_inward(span);
    int failed = pages.begin < pages.end
                     ? tmi_map_unlock(&pages.shard->bytes.file, pages.begin, pages.end)
                     : 0;
    if (!failed && pages.begin < pages.end)
        tmi_mlock_spans_remove(model, pages);
    return failed ? tmi_fail_os(error, failed, "%s: cannot unlock %llu bytes",
                                subject_at(model, &span, 0).text, (ull)(span.end - span.begin))
                  : TENMAP_OK;
}

/* Undoes a lock that failed, except for pages that were locked before. */
static void undo_lock(const tenmap_model *model, const tmi_spans *added) {
    for (size_t i = 0; i < added->count; i++) {
        tmi_span pages = added->list[i];
        (void)tmi_map_unlock(&pages.shard->bytes.file, pages.begin, pages.end);
        tmi_mlock_spans_remove(model, pages);
    }
}

/* Locks before populating, so that nothing is read if the span is over the limit. */
static tenmap_status advise_lock(const tenmap_model *model, tmi_span span, tenmap_error *error) {
    tmi_span pages = tmi_span_outward(span);
    tmi_spans added;
    tenmap_status status;
    if (!tmi_mlock_spans_add(model, pages, &added)) {
        status = tmi_fail_memory(error, sizeof span, "the list of what is locked");
    } else {
        int failed = tmi_map_lock(&pages.shard->bytes.file, pages.begin, pages.end);
        status =
            failed ? fail_lock(model, &span, failed, error) : advise_populate(model, span, error);
        if (status != TENMAP_OK)
            undo_lock(model, &added);
    }
    free(added.list);
    return status;
}

static advice_act *const advice_acts[] = {[TENMAP_ADVISE_POPULATE] = advise_populate,
                                          [TENMAP_ADVISE_PREFETCH] = advise_prefetch,
                                          [TENMAP_ADVISE_RELEASE] = advise_release,
                                          [TENMAP_ADVISE_LOCK] = advise_lock,
                                          [TENMAP_ADVISE_UNLOCK] = advise_unlock};

/* NULL, with an error, if the advice is not known. */
static advice_act *find_act(uint32_t advice, tenmap_error *error) {
    advice_act *act =
        advice < sizeof advice_acts / sizeof advice_acts[0] ? advice_acts[advice] : NULL;
    if (!act)
        (void)tmi_fail(error, TENMAP_ERR_ARGUMENT,
                       "the advice is %u; TENMAP_ADVISE_POPULATE (1) to _UNLOCK (5) are known",
                       (unsigned)advice);
    return act;
}

/* The model that the span's shard was opened with. */
static const tenmap_model *owner_of(const tenmap_model *model, const tmi_span *span) {
    size_t i = 0;
    while (model->derivation && model->borrowed[i] != span->shard)
        i++;
    return tmi_shard_owner(model, i);
}

/* Each span under the lock of its own model, in which detaching it would happen. */
static tenmap_status advise_spans(const tenmap_model *model, const span_list *list, advice_act *act,
                                  tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; status == TENMAP_OK && i < list->count;) {
        const tenmap_model *owner = owner_of(model, &list->spans[i]);
        const tmi_shard *shard = list->spans[i].shard;
        tmi_rwlock *advice_lock = &((tenmap_model *)(uintptr_t)owner)->advice;
        tmi_rwlock_read(advice_lock);
        for (; status == TENMAP_OK && i < list->count &&
               (owner == model || list->spans[i].shard == shard);
             i++)
            if (list->spans[i].shard->bytes.file.map) /* otherwise the library maps nothing */
                status = act(owner, list->spans[i], error);
        tmi_rwlock_read_end(advice_lock);
    }
    return status;
}

static tenmap_status advise(const tenmap_model *model, const tenmap_tensor *const *tensors,
                            size_t count, uint32_t advice, tenmap_error *error) {
    span_list list;
    advice_act *act = find_act(advice, error);
    if (!act)
        return TENMAP_ERR_ARGUMENT;
    tenmap_status status = collect_spans(&list, model, tensors, count, error);
    if (status == TENMAP_OK)
        status = advise_spans(model, &list, act, error);
    free_spans(&list);
    return status;
}

tenmap_status tenmap_advise_range(const tenmap_tensor *tensor, uint64_t first_byte, uint64_t bytes,
                                  uint32_t advice, tenmap_error *error) {
    span_list list;
    advice_act *act = find_act(advice, error);
    if (!act)
        return TENMAP_ERR_ARGUMENT;
    tenmap_status status = collect_range(&list, tensor, first_byte, bytes, error);
    return status == TENMAP_OK ? advise_spans(tensor->model, &list, act, error) : status;
}

tenmap_status tenmap_advise(const tenmap_model *model, const tenmap_tensor *tensor, uint32_t advice,
                            tenmap_error *error) {
    return advise(model, tensor ? &tensor : NULL, 1, advice, error);
}

static tenmap_status check_list(const tenmap_tensor *const *tensors, size_t count,
                                tenmap_error *error) {
    if (tensors || count == 0)
        return TENMAP_OK;
    return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the list of %llu tensors is NULL", (ull)count);
}

tenmap_status tenmap_advise_list(const tenmap_model *model, const tenmap_tensor *const *tensors,
                                 size_t count, uint32_t advice, tenmap_error *error) {
    static const tenmap_tensor *const none[1] = {NULL};
    tenmap_status status = check_list(tensors, count, error);
    return status != TENMAP_OK ? status
                               : advise(model, count ? tensors : none, count, advice, error);
}

/* A question about the bytes of spans: how many are mapped, or in the page cache. */
typedef struct span_question {
    const char *what; /* for error messages */
    /* Counts the bytes of a span. Returns 0 or an errno. */
    int (*count)(tmi_span span, uint64_t *bytes);
} span_question;

static int ask_resident(tmi_span span, uint64_t *bytes) {
    const tenmap_shard *view = &span.shard->view;
    *bytes = 0;
    if (!view->base)
        return 0;
    return tmi_memory_mapped((const char *)view->base + (span.begin - view->offset),
                             (size_t)(span.end - span.begin), bytes);
}

static int ask_cached(tmi_span span, uint64_t *bytes) {
    tmi_span run;
    uint64_t part;
    int failed = 0;
    *bytes = 0;
    if (span.shard->bytes.io)
        return 0; /* its caching is not known here */
    tmi_bytes_lock(&span.shard->bytes);
    while (!failed && !span.shard->bytes.file.memory && tmi_next_mapped(&span, &run)) {
        failed = tmi_file_cached(&span.shard->bytes.file, run.begin, run.end, &part);
        *bytes += part;
    }
    tmi_bytes_unlock(&span.shard->bytes);
    return failed;
}

static const span_question which_resident = {"which pages a process has mapped", ask_resident};
static const span_question which_cached = {"which pages of a file are in memory", ask_cached};

static tenmap_status ask_spans(const span_question *question, const tenmap_model *model,
                               const span_list *list, uint64_t *bytes, tenmap_error *error) {
    uint64_t sum = 0, part = 0;
    for (size_t i = 0; i < list->count; i++) {
        int failed = question->count(list->spans[i], &part);
        if (failed == ENOTSUP)
            return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                            "this system does not tell %s (on Linux, /proc must be mounted)",
                            question->what);
        if (failed)
            return tmi_fail_os(
                error, failed, "%s: cannot find out %s",
                subject_at(owner_of(model, &list->spans[i]), &list->spans[i], 0).text,
                question->what);
        sum += part;
    }
    *bytes = sum;
    return TENMAP_OK;
}

static tenmap_status fail_no_answer(tenmap_error *error) {
    return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the address for the answer (bytes) is NULL");
}

static tenmap_status ask(const span_question *question, const tenmap_model *model,
                         const tenmap_tensor *tensor, uint64_t *bytes, tenmap_error *error) {
    span_list list;
    if (!bytes)
        return fail_no_answer(error);
    tenmap_status status = collect_spans(&list, model, tensor ? &tensor : NULL, 1, error);
    if (status == TENMAP_OK)
        status = ask_spans(question, model, &list, bytes, error);
    free_spans(&list);
    return status;
}

tenmap_status tenmap_resident(const tenmap_model *model, const tenmap_tensor *tensor,
                              uint64_t *bytes, tenmap_error *error) {
    return ask(&which_resident, model, tensor, bytes, error);
}

tenmap_status tenmap_cached(const tenmap_model *model, const tenmap_tensor *tensor, uint64_t *bytes,
                            tenmap_error *error) {
    return ask(&which_cached, model, tensor, bytes, error);
}

tenmap_status tenmap_resident_range(const tenmap_tensor *tensor, uint64_t first_byte,
                                    uint64_t bytes, uint64_t *resident, tenmap_error *error) {
    span_list list;
    if (!resident)
        return fail_no_answer(error);
    tenmap_status status = collect_range(&list, tensor, first_byte, bytes, error);
    return status == TENMAP_OK ? ask_spans(&which_resident, tensor->model, &list, resident, error)
                               : status;
}

tenmap_status tenmap_cached_range(const tenmap_tensor *tensor, uint64_t first_byte, uint64_t bytes,
                                  uint64_t *cached, tenmap_error *error) {
    span_list list;
    if (!cached)
        return fail_no_answer(error);
    tenmap_status status = collect_range(&list, tensor, first_byte, bytes, error);
    return status == TENMAP_OK ? ask_spans(&which_cached, tensor->model, &list, cached, error)
                               : status;
}
