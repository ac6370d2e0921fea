/* A model that is split into several files, each of which stores its own part number. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for the end of such a file name: -00001-of-00003.gguf. */
enum { SPLIT_TAIL = 32 };

/* Writes it and returns its length, which depends on the container alone. */
static size_t split_tail(char out[SPLIT_TAIL], const tmi_split_names *names, uint64_t number,
                         uint64_t count) {
    snprintf(out, SPLIT_TAIL, "-%05u-of-%05u%s", (unsigned)number + 1, (unsigned)count,
             names->ending);
    return strlen(out);
}

/* Position and length of the file name in a path. For a tenmap_io, the name ends before any '?'. */
static size_t name_in_path(const tenmap_io *io, const char *path, size_t *len) {
    size_t end = tmi_path_without_query(io, path), at = end;
    while (at > 0 && (io ? path[at - 1] != '/' : !tmi_is_separator(path[at - 1])))
        at--;
    *len = end - at;
    return at;
}

bool tmi_split_is_first(const tmi_shard *shard) {
    const tmi_split *split = &shard->header.split;
    return shard->container->split && split->count > 1 && split->number == 0;
}

tenmap_status tmi_split_choose(tmi_folder_choice *choice, const tenmap_io *io, const char *path,
                               const tmi_shard *first, tenmap_error *error) {
    const tmi_split *split = &first->header.split;
    const tmi_split_names *names = first->container->split;
    *choice = (tmi_folder_choice){.is_set = true};
    if (split->count >= TMI_MOST_SHARDS)
        return tmi_fail(error, TENMAP_ERR_LIMIT,
                        "%s: it says that the model has %llu parts (%s), over the limit of %d",
                        tmi_quote_path(path).text, (ull)split->count, names->count,
                        (int)TMI_MOST_SHARDS - 1);
    char tail[SPLIT_TAIL];
    size_t tail_len = split_tail(tail, names, 0, split->count);
    size_t len, at = name_in_path(io, path, &len);
    const char *name = path + at;
    if (len < tail_len || memcmp(name + len - tail_len, tail, tail_len) != 0)
        return tmi_remedy(
            error, TENMAP_REMEDY_ALLOW_PARTIAL,
            tmi_fail(error, TENMAP_ERR_NOT_FOUND,
                     "%s: this is the first of %llu parts (%s), but its name does not end in "
                     "%s, so the others cannot be found; open it with missing shards allowed "
                     "to open this part alone",
                     tmi_quote_path(path).text, (ull)split->count, names->count, tail));
    choice->names = tmi_calloc((size_t)split->count, sizeof *choice->names);
    while (choice->names && choice->count < split->count) {
        char *copy = tmi_copy_text(name, len);
        if (!copy)
            break;
        (void)split_tail(tail, names, choice->count, split->count);
        memcpy(copy + len - tail_len, tail, tail_len);
        choice->names[choice->count++] = copy;
    }
    if (choice->names && choice->count == split->count)
        return TENMAP_OK;
    tmi_folder_choice_free(choice);
    return tmi_fail_memory(error, split->count, "the names of parts");
}

/* Compares what a part says about itself with the number under which it was opened. */
static tenmap_status check_part(const tmi_shard *shard, size_t shards, tenmap_error *error) {
    const tmi_split *split = &shard->header.split;
    const tmi_split_names *names = shard->container->split;
    if (!names || split->count == 0 || (split->number == shard->number && split->count == shards))
        return TENMAP_OK;
    return tmi_fail_at(error, TENMAP_ERR_FORMAT, shard->number, 0,
                       "%s: it says that it is part %llu of %llu (%s, %s), but its name says part "
                       "%llu of %llu",
                       tmi_quote_path(shard->path).text, (ull)split->number + 1, (ull)split->count,
                       names->number, names->count, (ull)shard->number + 1, (ull)shards);
}

tenmap_status tmi_split_check(const tenmap_model *model, tenmap_error *error) {
    size_t shards = model->shard_count + model->missing_count;
    tenmap_status status = TENMAP_OK;
    if (model->shard_count == 0)
        return TENMAP_OK;
    const tmi_shard *first = &model->shards[0];
    const tmi_split_names *names = first->container->split;
    for (size_t i = 0; i < model->shard_count && status == TENMAP_OK; i++)
        status = check_part(&model->shards[i], shards, error);
    if (status == TENMAP_OK && names && first->header.split.counts_tensors &&
        model->missing_count == 0 && first->header.split.tensors != model->tensor_count)
        status = tmi_fail(error, TENMAP_ERR_FORMAT,
                          "%s: its parts hold %llu tensors in total, but the first says that there "
                          "are %llu (%s)",
                          tmi_quote_path(model->path).text, (ull)model->tensor_count,
                          (ull)first->header.split.tensors, names->tensors);
    if (status == TENMAP_OK || !model->report)
        return status;
    tmi_report_failure(model->report, TENMAP_FOUND_METADATA, TENMAP_NO_SHARD, NULL, error);
    return TENMAP_OK;
}
