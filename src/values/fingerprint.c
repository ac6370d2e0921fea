/*
 * Fingerprints of tensors and models: XXH3 of pieces of tensors, on threads; of the pieces' digests
 * and what the tensor is; and of all tensors and their names. include/tenmap/fingerprint.h has the
 * definition, which never changes.
 */
#include "../model/computed.h"
#include "values.h"
#include "xxh3.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 16 << 20, MOST_FINGERPRINT_THREADS = 16 };
/* What a piece of blocks may have before and behind it. */
enum { BLOCK_ROOM = 1 << 10 };

typedef struct piece_digest {
    uint8_t bytes[TMI_XXH3_BYTES];
} piece_digest;

typedef struct fingerprint_job {
    const tenmap_tensor *const *tensors;
    size_t count;
    size_t *first; /* the number of each tensor's first piece, and the number of all pieces */
    piece_digest *digests;
    tmi_block first_block, digest_block;
    tmi_job run;
} fingerprint_job;

/* The state of one thread: room for a piece that is not in memory, allocated when needed. */
typedef struct piece_reader {
    tmi_block buffer;
} piece_reader;

static void free_piece_reader(void *state) {
    tmi_block_free(&((piece_reader *)state)->buffer);
}

static uint64_t pieces_of(const tenmap_tensor *t) {
    return t->nbytes / PIECE_BYTES + (t->nbytes % PIECE_BYTES != 0);
}

/*
 * Reads elements that are computed, and gives them the byte order that a file would have. Those of
 * a private mapping are computed from the file. Elements and blocks are read whole, so the piece
 * may begin behind the begin of the buffer, which has room for that.
 */
static tenmap_status read_computed(const tenmap_tensor *t, uint64_t begin, size_t size,
                                   unsigned char *buffer, const void **piece, tenmap_error *error) {
    uint32_t together = 1, each = 1;
    (void)tenmap_dtype_block(t->dtype, &together, &each);
    uint64_t first = begin / each, behind = (begin + size + each - 1) / each;
    size_t width = tmi_dtype_width(t->dtype); /* 0: in blocks, which are the same on every host */
    size_t number = t->dtype == TENMAP_C64 ? width / 2 : width; /* C64 has two numbers */
    tmi_source *source = NULL;
    tmi_values_wanted wanted = {.tensor = t,
                                .first = first * together,
                                .count = (behind - first) * together,
                                .dst = buffer,
                                .dst_bytes = (size_t)(behind - first) * each,
                                .checked = tmi_reads_private(t)};
    tenmap_status status = tmi_values_read(&source, &wanted, error);
    tmi_source_free(source);
    if (status == TENMAP_OK && number > 1)
        tmi_to_file_order(buffer, number, wanted.dst_bytes / number);
    *piece = buffer + begin % each;
    return status;
}

/* *bytes points to a piece of the tensor, in memory or read into the thread's buffer. */
static tenmap_status find_piece(piece_reader *own, const tenmap_tensor *t, uint64_t begin,
                                size_t size, const void **bytes, tenmap_error *error) {
    const tmi_computed *computed = tmi_computed_of(t);
    uint64_t at = t->file_offset + begin;
    if (t->data && !computed && !tmi_shard_of(t)->bytes.file.copy_on_write) {
        *bytes = (const unsigned char *)t->data + begin;
        return tmi_populate_span((tmi_span){tmi_shard_of(t), at, at + size}, t, error);
    }
    if (!own->buffer.bytes && !tmi_block_alloc_dirty(&own->buffer, PIECE_BYTES + BLOCK_ROOM))
        return tmi_fail_memory(error, PIECE_BYTES, "fingerprints");
    *bytes = own->buffer.bytes;
    return computed ? read_computed(t, begin, size, own->buffer.bytes, bytes, error)
                    : tmi_bytes_read(&tmi_shard_of(t)->bytes, at, own->buffer.bytes, size,
                                     (tmi_wanted){NULL, t}, error);
}

/* The tensor that has this piece: the last one whose first piece is not after it. */
static size_t tensor_of_piece(const fingerprint_job *job, size_t piece) {
    size_t low = 0, high = job->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (job->first[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static tenmap_status hash_piece(void *ctx, void *state, size_t piece, tenmap_error *error) {
    fingerprint_job *job = ctx;
    size_t number = tensor_of_piece(job, piece);
    const tenmap_tensor *t = job->tensors[number];
    uint64_t begin = (uint64_t)(piece - job->first[number]) * PIECE_BYTES;
    size_t size = t->nbytes - begin < PIECE_BYTES ? (size_t)(t->nbytes - begin) : PIECE_BYTES;
    const void *bytes = NULL;
    tmi_xxh3 stream;
    tenmap_status status = find_piece(state, t, begin, size, &bytes, error);
    if (status != TENMAP_OK) {
        error->index = number;
        return status;
    }
    tmi_xxh3_begin(&stream);
    tmi_xxh3_add(&stream, bytes, size);
    tmi_xxh3_end(&stream, job->digests[piece].bytes);
    tmi_job_add(&job->run, size);
    return TENMAP_OK;
}

static void add_dtype_and_shape(tmi_xxh3 *stream, const tenmap_tensor *t) {
    const char *dtype = tenmap_dtype_text(t);
    tmi_xxh3_add_number(stream, strlen(dtype), 4);
    tmi_xxh3_add(stream, dtype, strlen(dtype));
    tmi_xxh3_add_number(stream, t->rank, 4);
    for (uint32_t d = 0; d < t->rank; d++)
        tmi_xxh3_add_number(stream, t->shape[d], 8);
    tmi_xxh3_add_number(stream, t->nbytes, 8);
}

static void hash_tensor(const fingerprint_job *job, size_t i, uint8_t out[TMI_XXH3_BYTES]) {
    tmi_xxh3 stream;
    tmi_xxh3_begin(&stream);
    tmi_xxh3_add(&stream, "tenmap tensor 1", 16);
    add_dtype_and_shape(&stream, job->tensors[i]);
    tmi_xxh3_add(&stream, job->digests + job->first[i],
                 (job->first[i + 1] - job->first[i]) * sizeof *job->digests);
    tmi_xxh3_end(&stream, out);
}

/* Counts the pieces and allocates their digests. */
static tenmap_status plan_pieces(fingerprint_job *job, tenmap_error *error) {
    uint64_t pieces = 0, size;
    if (!tmi_multiply(job->count + 1, sizeof *job->first, &size) || size > SIZE_MAX ||
        !tmi_block_alloc(&job->first_block, (size_t)size)) {
        (void)tmi_fail_memory(error, (size_t)size, "fingerprints");
        return TENMAP_ERR_MEMORY;
    }
    job->first = job->first_block.bytes;
    for (size_t i = 0; i < job->count; i++) {
        if (!job->tensors[i]) {
            tmi_fail(error, TENMAP_ERR_ARGUMENT,
                     "tensor %llu is NULL (was no tensor of that name found?)", (ull)i);
            if (error)
                error->index = i;
            return TENMAP_ERR_ARGUMENT;
        }
        job->first[i] = (size_t)pieces;
        pieces += pieces_of(job->tensors[i]);
        job->run.total += job->tensors[i]->nbytes;
    }
    job->first[job->count] = (size_t)pieces;
    if (!tmi_multiply(pieces, sizeof *job->digests, &size) || size > SIZE_MAX ||
        !tmi_block_alloc_dirty(&job->digest_block, (size_t)size)) {
        (void)tmi_fail_memory(error, (size_t)size, "fingerprints");
        return TENMAP_ERR_MEMORY;
    }
    job->digests = job->digest_block.bytes;
    return TENMAP_OK;
}

static tenmap_status copy_fingerprint_options(const tenmap_fingerprint_options *given,
                                              tenmap_fingerprint_options *out,
                                              tenmap_error *error) {
    static const tmi_options_kind kind = {"tenmap_fingerprint_options",
                                          "TENMAP_FINGERPRINT_OPTIONS_INIT",
                                          sizeof(tenmap_fingerprint_options),
                                          sizeof(tenmap_fingerprint_options),
                                          offsetof(tenmap_fingerprint_options, flags),
                                          0,
                                          0};
    return tmi_options_copy(&kind, given, out, error);
}

tenmap_status tenmap_fingerprint_tensors(const tenmap_tensor *const *tensors, size_t n,
                                         const tenmap_fingerprint_options *given, uint8_t *out,
                                         tenmap_error *error) {
    tenmap_fingerprint_options options;
    fingerprint_job job = {.tensors = tensors, .count = n};
    tenmap_status status = copy_fingerprint_options(given, &options, error);
    if (status != TENMAP_OK)
        return status;
    if (n == 0)
        return TENMAP_OK;
    if (!tensors || !out)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the list of %s is NULL",
                        tensors ? "fingerprints" : "tensors");
    job.run.threads = tmi_job_threads(options.threads, MOST_FINGERPRINT_THREADS);
    job.run.unit = hash_piece;
    job.run.ctx = &job;
    job.run.state_bytes = sizeof(piece_reader);
    job.run.release = free_piece_reader;
    job.run.what = "fingerprints";
    job.run.progress = options.progress;
    job.run.progress_ctx = options.ctx;
    job.run.cancelled = "the fingerprints were cancelled by their progress function";
    status = plan_pieces(&job, error);
    if (status == TENMAP_OK) {
        tmi_job_run(&job.run, job.first[n]);
        status = tmi_job_end(&job.run, error);
    }
    for (size_t i = 0; status == TENMAP_OK && i < n; i++)
        hash_tensor(&job, i, out + i * TENMAP_FINGERPRINT_BYTES);
    tmi_block_free(&job.first_block);
    tmi_block_free(&job.digest_block);
    return status;
}

/* A tensor's name and number, to sort by the bytes of the names. */
typedef struct numbered_name {
    const char *name;
    size_t len, number;
} numbered_name;

static int by_name_bytes(const void *a, const void *b) {
    const numbered_name *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void add_text(tmi_xxh3 *stream, const void *text, size_t len) {
    tmi_xxh3_add_number(stream, len, 8);
    tmi_xxh3_add(stream, text, len);
}

tenmap_status tenmap_fingerprint_combine(const tenmap_model *model, const uint8_t *tensors,
                                         uint8_t *out, tenmap_error *error) {
    size_t count = model ? tenmap_count(model) : 0;
    tmi_block block = {NULL, 0};
    if (!model || !out || (!tensors && count > 0))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s is NULL",
                        !model ? "model"
                        : out  ? "list of fingerprints"
                               : "result");
    if (count > SIZE_MAX / sizeof(numbered_name) ||
        !tmi_block_alloc_dirty(&block, count * sizeof(numbered_name)))
        return tmi_fail_memory(error, count * sizeof(numbered_name), "fingerprints");
    numbered_name *names = block.bytes;
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        names[i] = (numbered_name){t->name, t->name_len, i};
    }
    if (count > 0)
        qsort(names, count, sizeof *names, by_name_bytes);
    tmi_xxh3 stream;
    tmi_xxh3_begin(&stream);
    tmi_xxh3_add(&stream, "tenmap model 1\0", 16);
    tmi_xxh3_add_number(&stream, count, 8);
    for (size_t i = 0; i < count; i++) {
        add_text(&stream, names[i].name, names[i].len);
        tmi_xxh3_add(&stream, tensors + names[i].number * TENMAP_FINGERPRINT_BYTES,
                     TENMAP_FINGERPRINT_BYTES);
    }
    tmi_xxh3_end(&stream, out);
    tmi_block_free(&block);
    return TENMAP_OK;
}

static void add_numbers(tmi_xxh3 *stream, const uint64_t *numbers, size_t n) {
    for (size_t i = 0; i < n; i++)
        tmi_xxh3_add_number(stream, numbers[i], 8);
}

static tenmap_status fingerprint_values(const tenmap_model *model, uint8_t *out,
                                        tenmap_error *error) {
    size_t count = tenmap_count(model);
    tmi_block list = {NULL, 0}, digests = {NULL, 0};
    tenmap_status status = TENMAP_OK;
    if (count > SIZE_MAX / TENMAP_FINGERPRINT_BYTES ||
        !tmi_block_alloc(&list, count * sizeof(const tenmap_tensor *)) ||
        !tmi_block_alloc(&digests, count * TENMAP_FINGERPRINT_BYTES)) {
        (void)tmi_fail_memory(error, count * TENMAP_FINGERPRINT_BYTES, "fingerprints");
        status = TENMAP_ERR_MEMORY;
    }
    const tenmap_tensor **tensors = list.bytes;
    for (size_t i = 0; status == TENMAP_OK && i < count; i++)
        tensors[i] = tenmap_at(model, i);
    if (status == TENMAP_OK)
        status = tenmap_fingerprint_tensors(tensors, count, NULL, digests.bytes, error);
    if (status == TENMAP_OK)
        status = tenmap_fingerprint_combine(model, digests.bytes, out, error);
    tmi_block_free(&list);
    tmi_block_free(&digests);
    return status;
}

/* What opening learned about a file, without its path, and the text of its header. */
static tenmap_status add_file(tmi_xxh3 *stream, const tenmap_model *model, size_t i,
                              tenmap_error *error) {
    const tmi_shard *shard = &model->shards[i];
    const tmi_file *file = &shard->bytes.file;
    bool io = shard->bytes.io, memory = file->memory && !file->map;
    tmi_block text = {NULL, 0};
    if (io || memory)
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "%s: %s, which has no time of modification: fingerprint its values instead",
                        tmi_quote_path(shard->bytes.shown).text,
                        io ? "its bytes come from a tenmap_io" : "it lies in memory");
    const uint64_t facts[] = {file->size,
                              shard->view.offset,
                              shard->view.size,
                              shard->view.data_offset,
                              (uint64_t)file->mtime[0],
                              (uint64_t)file->mtime[1]};
    add_numbers(stream, facts, sizeof facts / sizeof facts[0]);
    tenmap_status status = tmi_shard_read_header(model, i, &text, error);
    if (status == TENMAP_OK)
        add_text(stream, text.bytes, (size_t)shard->view.header_bytes);
    tmi_block_free(&text);
    return status;
}

/* Several indexes have no text, so what they list is added. */
static void add_indexes(tmi_xxh3 *stream, const tenmap_model *model) {
    size_t count = model->index_count > 1 ? tenmap_listed_count(model) : 0;
    add_text(stream, model->index_text.bytes, model->index_len);
    tmi_xxh3_add_number(stream, count, 8);
    for (size_t i = 0; i < count; i++) {
        const char *name = tenmap_listed_at(model, i), *file = tenmap_shard_listed(model, name);
        add_text(stream, name, strlen(name));
        add_text(stream, file, file ? strlen(file) : 0);
    }
}

/* Which bytes a tensor has. */
static void add_place(tmi_xxh3 *stream, const tenmap_tensor *t) {
    add_dtype_and_shape(stream, t);
    tmi_xxh3_add_number(stream, t->shard, 8);
    tmi_xxh3_add_number(stream, t->file_offset, 8);
}

/* How values are computed: config.json has a say in it, which is not a part of any header. */
static void add_computed(tmi_xxh3 *stream, const tenmap_tensor *t) {
    const tenmap_scheme *scheme = tenmap_scheme_of(t);
    const tenmap_packing *p = tenmap_packing_of(t);
    add_text(stream, scheme->name, strlen(scheme->name));
    tmi_xxh3_add_number(stream, scheme->part_count, 4);
    for (uint32_t i = 0; i < scheme->part_count; i++) {
        tmi_xxh3_add_number(stream, tenmap_part_role(t, i), 4);
        add_place(stream, tenmap_part_at(t, i));
    }
    if (!p)
        return;
    uint32_t nested_offset;
    memcpy(&nested_offset, &p->nested_offset, sizeof nested_offset);
    const uint64_t facts[] = {
        p->bits,           p->word_bits,     p->per_word,   p->down,          p->transposed,
        p->code,           p->scale,         p->scale_op,   p->zeros,         p->zero_plus_one,
        p->rows,           p->columns,       p->row_bytes,  p->matrix_bytes,  p->group_rows,
        p->scale_rows,     p->group_columns, nested_offset, p->scale_columns, p->scales_shared,
        (uint32_t)p->bias, p->nested_block};
    add_numbers(stream, facts, sizeof facts / sizeof facts[0]);
    tmi_xxh3_add(stream, p->order, sizeof p->order);
}

static tenmap_status fingerprint_headers(const tenmap_model *model, uint8_t *out,
                                         tenmap_error *error) {
    tmi_xxh3 stream;
    tenmap_status status = TENMAP_OK;
    if (model->derivation)
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "the model is derived and has no headers: fingerprint its values instead");
    tmi_xxh3_begin(&stream);
    tmi_xxh3_add(&stream, "tenmap headers 2", 16);
    tmi_xxh3_add_number(&stream, model->shard_count, 8);
    for (size_t i = 0; status == TENMAP_OK && i < model->shard_count; i++)
        status = add_file(&stream, model, i, error);
    if (status != TENMAP_OK)
        return status;
    add_indexes(&stream, model);
    size_t count = tenmap_count(model);
    tmi_xxh3_add_number(&stream, count, 8);
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        add_text(&stream, t->name, t->name_len);
        add_place(&stream, t);
        if (tmi_computed_of(t))
            add_computed(&stream, t);
    }
    tmi_xxh3_end(&stream, out);
    return TENMAP_OK;
}

tenmap_status tenmap_fingerprint(const tenmap_model *model, uint32_t flags, uint8_t out[32],
                                 tenmap_error *error) {
    uint8_t digest[TENMAP_FINGERPRINT_BYTES];
    if (!model || !out)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s is NULL", model ? "result" : "model");
    if (flags & ~(uint32_t)TENMAP_FINGERPRINT_VALUES)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "unknown flags 0x%x", (unsigned)flags);
    tenmap_status status = flags & TENMAP_FINGERPRINT_VALUES
                               ? fingerprint_values(model, digest, error)
                               : fingerprint_headers(model, digest, error);
    if (status == TENMAP_OK) {
        memset(out, 0, 32);
        memcpy(out, digest, sizeof digest);
    }
    return status;
}
