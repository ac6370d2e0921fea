/*
 * The model layer: opens shards, folders and indexes as one handle, checks them, and controls which
 * of their bytes are in memory.
 */
#ifndef TENMAP_MODEL_H
#define TENMAP_MODEL_H

#include "../format/format.h"
#include "../io/job.h"

/* folder.c: chooses the model in a folder. */

typedef struct tmi_folder_choice {
    char **names; /* one model or index, or all files of a numbered set, missing ones included */
    size_t count;
    bool is_set;
} tmi_folder_choice;

tenmap_status tmi_folder_choose(tmi_folder_choice *choice, const tenmap_io *io, const char *path,
                                tenmap_error *error);
void tmi_folder_choice_free(tmi_folder_choice *choice);
/*
 * hub_cache.c: the folder in which a hub's cache keeps a model, with blobs, refs and snapshots.
 *
 * If `folder` is such a folder, *snapshot is the path of the snapshot that refs/main names, or of
 * the only snapshot; the caller frees it. If neither rule selects a snapshot, the result is
 * TENMAP_ERR_NOT_FOUND with an error message. If `folder` is not such a folder, the result is
 * TENMAP_ERR_NOT_FOUND and *error is unchanged.
 */
tenmap_status tmi_hub_cache_choose(char **snapshot, const tenmap_io *io, const char *folder,
                                   tenmap_error *error);
/*
 * Whether this is the name of a file of a numbered set, name-00001-of-00005.safetensors, of a
 * format whose files an index lists. If `like` is the name of a file of a known format, it must be
 * of that format.
 */
bool tmi_is_numbered_name(const char *name, const char *like);

/* shard.c: one file of a model. */

/* options.max_header_bytes, or the default, which is that of the reference implementation. */
uint64_t tmi_header_limit(const tenmap_options *options);
/* As many of a file's first bytes as are needed to recognize its format. */
enum { TMI_START = 512 };
typedef struct tmi_start {
    size_t len;
    unsigned char bytes[TMI_START];
} tmi_start;

typedef struct tmi_detached tmi_detached; /* detached_chunks.c */

typedef struct tmi_shard {
    tenmap_shard view; /* what callers see */
    uint32_t number;   /* among the files that the index or the set names, missing ones included */
    tmi_bytes bytes;   /* also has the path to show in errors */
    const tmi_container *container; /* its format; set when it is parsed */
    tmi_header header;
    char *path;            /* owned; NULL means "" */
    char *name;            /* owned: the name in the index or the set; NULL for a single file */
    uint64_t size;         /* length of the model in the file, from options.offset on */
    uint64_t header_limit; /* tmi_header_limit of the options that it was opened with */
    bool edited_here;      /* the caller itself holds the edit lock */
    _Atomic(tmi_detached *) detached; /* which chunks are detached; NULL: none */
    unsigned tries;                   /* how often the file changed while it was being opened */
} tmi_shard;

/*
 * Opening takes three steps: fill shard->bytes (tmi_bytes_open, tmi_file_dup or _memory); call
 * tmi_shard_start, which reads the first bytes; call tmi_shard_parse. On failure the caller still
 * closes the shard.
 */
tenmap_status tmi_shard_start(tmi_shard *shard, const tenmap_options *options, tmi_start *start,
                              tenmap_error *error);
/* Which shard of which model a file is, and where a quick pass puts its tensors (tmi_place). */
typedef struct tmi_membership {
    const tenmap_model *model;
    uint32_t number;
    const tmi_table_slice *slice;
    tmi_scratch *scratch;
} tmi_membership;
/*
 * Both functions wait a fraction of a second for an in-place metadata edit to end. The parsed bytes
 * are consistent: if another program changes the file during the read, the read starts over.
 */
tenmap_status tmi_shard_parse(tmi_shard *shard, const tenmap_options *options,
                              const tmi_membership *of, const tmi_start *start,
                              tenmap_error *error);
/*
 * Call this if the file changed while it was read. It waits briefly and refreshes the file's state
 * for another try. TENMAP_ERR_IO after too many tries.
 */
tenmap_status tmi_shard_again(tmi_shard *shard, tenmap_error *error);
/*
 * Reads `length` bytes of text into a block and pads it as parsers require. `what` names the text
 * in errors.
 */
tenmap_status tmi_read_text(const tmi_bytes *bytes, uint64_t offset, uint64_t length,
                            const char *what, tmi_block *text, tenmap_error *error);
/*
 * Reads the text of the header of an open model's i-th shard again: its first view.header_bytes
 * bytes are those that were parsed. Free it with tmi_block_free. TENMAP_ERR_IO if the file has
 * changed since then.
 */
tenmap_status tmi_shard_read_header(const tenmap_model *model, size_t i, tmi_block *text,
                                    tenmap_error *error);
void tmi_shard_close(tmi_shard *shard);

/* interrupted_edit.c: detects a metadata edit that is in progress or was interrupted. */

/* The name of the undo record that lies beside a file of this name. */
void tmi_journal_name(char out[TMI_NAME_BYTES], const char *file);
/* Whether these first bytes show a header that an in-place edit has closed. */
bool tmi_edit_closed(const unsigned char *start, size_t len);
/*
 * Extends the error of a file that fails to open if the undo record of an edit lies beside it,
 * unless that edit is still in progress.
 */
void tmi_edit_explain(const tmi_shard *shard, tenmap_error *error);
#ifndef TENMAP_NO_CHECK
/* For a check: reports an undo record beside the file, whether or not the file opens. */
void tmi_edit_check(const tmi_shard *shard, tmi_report *report, uint32_t number);
#else
static inline void tmi_edit_check(const tmi_shard *shard, tmi_report *report, uint32_t number) {
    (void)shard, (void)report, (void)number;
}
#endif

/* open.c */

#ifndef TENMAP_NO_CHECK
/* tenmap_open for tenmap_check: reports what is broken and checks the rest. */
tenmap_status tmi_open_reporting(const char *path, const tenmap_options *options,
                                 tmi_report *report, tenmap_error *error);
#endif

/*
 * tenmap_open for tenmap_edit_metadata, which holds the lock of the file. `file` is as
 * tmi_file_open left it; `path` is its path.
 */
tenmap_status tmi_open_edited(const tmi_file *file, const char *path, const tenmap_options *options,
                              tenmap_model **out, tenmap_error *error);

/*
 * The steps of opening. tmi_open_begin takes the arguments and creates an empty model, or none
 * (NULL); tmi_open_path fills it; tmi_open_end finishes it and stores it in *out, or closes it if
 * `status` or a finishing step is a failure.
 */
tenmap_status tmi_open_begin(const tenmap_options *given, tenmap_options *options,
                             tenmap_model **model, tenmap_model **out, tenmap_error *error);
/* *absent is true if it failed because nothing is at the path. */
tenmap_status tmi_open_path(tenmap_model *model, const char *path, const tenmap_options *options,
                            bool *absent, tenmap_error *error);
tenmap_status tmi_open_end(tenmap_model *model, const tenmap_options *options, tenmap_status status,
                           tenmap_model **out, tenmap_error *error);
/* An empty model with room for one shard; NULL if out of memory. */
tenmap_model *tmi_model_new(void);

/* read_index.c: the index of a model in several files. */

/* Reads the whole text of the file, consistently, into model->index_text. */
tenmap_status tmi_read_index(tenmap_model *model, tmi_shard *file, const tenmap_options *options,
                             tenmap_error *error);
/*
 * Extracts the lines of the index if nothing else is needed and the quick parser accepts it.
 * Otherwise the outline is empty.
 */
tenmap_status tmi_outline_index(const tenmap_model *model, const char *path,
                                const tenmap_options *options, tmi_outline *outline,
                                tenmap_error *error);
/* Parses all of the index, under all rules, into model->indexes. */
tenmap_status tmi_parse_index(tenmap_model *model, const char *path, const tenmap_options *options,
                              tenmap_error *error);

/* open_shards.c: opens the files of a model that has several. */

/* The names of the shards, and the path that they are relative to. */
typedef struct tmi_shard_names {
    size_t count;
    char *const *names;         /* of a numbered set; NULL: the index has them */
    const tmi_outline *outline; /* of the index; NULL: the index is in model->indexes */
    const char *path;           /* of the index, or of the set's folder */
    bool path_is_member; /* `path` is that of a file in the set; names are spelled as in `path` */
} tmi_shard_names;

tenmap_status tmi_open_shards(tenmap_model *model, const tmi_shard_names *from,
                              const tenmap_options *options, tenmap_error *error);
enum { TMI_OPEN_THREADS = 8 }; /* the most threads used by default */
/*
 * How many threads are worth starting to open this many files, from the system or through `io`. May
 * be 0.
 */
unsigned tmi_open_threads(size_t files, const tenmap_io *io);

typedef struct tmi_prefetch tmi_prefetch; /* prefetch.c */

/* Another name for a tensor, by the tensor's number. */
typedef struct tmi_alias {
    const char *name;
    size_t name_len;
    size_t tensor;
} tmi_alias;

/* Room for shapes that no header has, in blocks that never move. */
typedef struct tmi_shapes {
    tmi_block block;      /* the last one; it begins with the tmi_block of the one before it */
    size_t block_size;    /* in extents */
    uint64_t *next, *end; /* what is free of it */
} tmi_shapes;

/* quantized.c: the listed tensors of a model that was opened with TENMAP_OPEN_DEQUANTIZE. */
typedef struct tmi_quantized {
    struct tmi_quant_weight *weights; /* NULL if there are none */
    tmi_shapes shapes;
    tmi_block tensors; /* the listed tensors: tenmap_tensor[shown] */
    size_t shown;
    tmi_names finder;
    char *names; /* of weights that are not named like their values part */
} tmi_quantized;

/* A range of a shard's file, in bytes from the start of the file. */
typedef struct tmi_span {
    const tmi_shard *shard;
    uint64_t begin, end;
} tmi_span;

typedef struct tmi_spans {
    tmi_span *list; /* free with free() */
    size_t count, capacity;
} tmi_spans;

/* mlock_spans.c: the pages that tenmap_advise locked in memory. */
typedef struct tmi_mlock_spans {
    tmi_rwlock lock;
    long process;
    tmi_spans spans;
} tmi_mlock_spans;

struct tenmap_model {
    char *path, *folder;
    tenmap_io io; /* a copy of the caller's, made at open; all zeros: the system's files */
    tmi_shard *shards;
    const tmi_shard **borrowed; /* of a derived model, in place of `shards`; otherwise NULL */
    size_t shard_count;
    tenmap_tensor *tensors;
    size_t tensor_count;
    tmi_block tensor_block;  /* only with several shards; else the shard's header owns them */
    tmi_names names;         /* likewise */
    const tmi_names *finder; /* for tenmap_find: `names`, the only shard's, or quantized.finder */
    tenmap_metadata *metadata;
    size_t metadata_count;
    bool owns_metadata; /* false: the only shard's header owns it */
    tmi_hash_key key;
    tmi_block index_text; /* as read; if there are several indexes, that of the first */
    size_t index_len;
    tmi_scratch *scratches; /* one per thread: the names of shards that an index lists */
    size_t scratch_count;
    bool in_list;       /* opened as part of a list: its index will be one of several */
    tmi_index *indexes; /* in the order of their paths, for tenmap_shard_listed */
    size_t index_count;
    uint32_t *written; /* number of the tensor that is written i-th; NULL: i itself */
    tmi_alias *aliases;
    tmi_names alias_names; /* over the aliases */
    char **missing;
    size_t missing_count;
    size_t unlisted; /* opened as a list: missing files whose tensors no index lists */
    uint64_t file_size;
    tmi_report *report; /* set only inside tenmap_check */
    tmi_quantized quantized;
    /*
     * For each tensor whose elements a maker gives (computed.h), its maker's state; NULL for
     * others, and for all if there are none.
     */
    const struct tmi_computed **computed;
    tmi_block strided_block;           /* tmi_strided_tensor of those that containers declared */
    struct tmi_derivation *derivation; /* of tenmap_derive (derived.h); otherwise NULL */
    /* Everything below changes after opening. */
    _Atomic(tmi_prefetch *) prefetch; /* created on first use */
    tmi_rwlock advice;                /* advice holds it for reading; tenmap_detach, for writing */
    tmi_mlock_spans locked;
};

/*
 * quantized_families.c: whether the model stores the parts of a weight of this name, which
 * TENMAP_OPEN_DEQUANTIZE would list.
 */
bool tmi_stored_in_parts(const tenmap_model *model, const char *name, size_t len);

/*
 * The shard of this number. Those of a derived model belong to other models, which `borrowed` names
 * instead of `shards`.
 */
static inline const tmi_shard *tmi_shard_at(const tenmap_model *model, size_t i) {
    return model->borrowed ? model->borrowed[i] : &model->shards[i];
}
/* The shard that holds a tensor of an open model. */
static inline const tmi_shard *tmi_shard_of(const tenmap_tensor *t) {
    return tmi_shard_at(t->model, t->shard);
}

/* Fails with a message that begins with "path": tensor "name". */
#define TMI_FAIL_TENSOR(error, status, t, format, ...)                                             \
    tmi_fail_at(error, status, (t)->shard, (t)->file_offset, "%s: tensor %s: " format,             \
                tmi_quote_path(tmi_shard_of(t)->bytes.shown).text,                                 \
                tmi_quote((t)->name, (t)->name_len).text, __VA_ARGS__)

/* combine_shards.c: combines several shards into one model. */

/*
 * Combines the tensors, names and metadata of model->shards. `index` says which shard each tensor
 * is taken from; it is NULL for a numbered set. `file_shard` maps each file of the index to its
 * shard, or to TMI_NONE if the file is missing.
 */
tenmap_status tmi_combine_shards(tenmap_model *model, tmi_index *index, const size_t *file_shard,
                                 uint32_t flags, tenmap_error *error);
/* One step of tmi_combine_shards: the metadata. */
tenmap_status tmi_combine_metadata(tenmap_model *model, tenmap_error *error);
/* Frees the parts of each shard's header that only combining needs. */
void tmi_combine_free_headers(tenmap_model *model);

/* combine_by_index.c: the same for shards that have exactly the tensors that the index lists. */

/*
 * One table for the tensors of all shards, with as many entries for each shard as the index lists.
 */
typedef struct tmi_shared_table {
    tmi_block tensors, hashes;
    tmi_table_slice *slices; /* one per shard; NULL: there are none */
} tmi_shared_table;

tenmap_status tmi_shared_table_alloc(tmi_shared_table *table, const tmi_outline *outline,
                                     tenmap_error *error);
void tmi_shared_table_free(tmi_shared_table *table);
/*
 * Requires that all slices are full. If every line of the index matches a tensor of its own in the
 * shard that it names, gives the tensors in the slices to the model and sets *combined to true.
 * Otherwise changes nothing. Does not move the shards into the model.
 */
tenmap_status tmi_combine_by_index(tenmap_model *model, const tmi_outline *outline,
                                   tmi_shared_table *table, unsigned threads, bool *combined,
                                   tenmap_error *error);

/* order_and_aliases.c: lookup tables that are built when all tensors are known. */

/*
 * Builds the order in which the tensors are written, if it differs from the order in the table,
 * and, with TENMAP_OPEN_ALIASES, their other names. The shards' views must already have their final
 * ranges of tensors.
 */
tenmap_status tmi_lookup_make(tenmap_model *model, uint32_t flags, tenmap_error *error);
void tmi_lookup_free(tenmap_model *model);
/* The tensor that an alias stands for, or TMI_NONE. Call it only for a name that no tensor has. */
size_t tmi_alias_find(const tenmap_model *model, const char *name, size_t len, uint64_t hash);

/* model.c: tenmap_shard_listed for names that may contain NUL. */
const char *tmi_shard_listed(const tenmap_model *model, const char *name, size_t len);
/* Whether files are missing whose tensors no index lists. */
bool tmi_misses_unlisted(const tenmap_model *model);

/* split_set.c: a model in files that say which part of it they are. */

/* Whether the file is the first of several, all of which are opened with it. */
bool tmi_split_is_first(const tmi_shard *shard);
/* Derives the names of all parts from the path of the first. */
tenmap_status tmi_split_choose(tmi_folder_choice *choice, const tenmap_io *io, const char *path,
                               const tmi_shard *first, tenmap_error *error);
/*
 * Checks a combined model against what its shards say about their part numbers and tensor count, if
 * they say anything.
 */
tenmap_status tmi_split_check(const tenmap_model *model, tenmap_error *error);

/* check_index.c: reports disagreements between the index and its shards to model->report. */

#ifndef TENMAP_NO_CHECK
/* Called for each tensor of model->shards[shard] as the shards are combined. */
void tmi_check_combined(const tenmap_model *model, const tmi_index *index, const size_t *file_shard,
                        size_t shard, const tenmap_tensor *t, uint64_t hash);
/* Called when all shards are combined. */
void tmi_check_listings(const tenmap_model *model, const tmi_index *index,
                        const size_t *file_shard);
void tmi_check_index(const tenmap_model *model, const tmi_index *index, const tenmap_io *io,
                     const char *path);
#else
static inline void tmi_check_combined(const tenmap_model *model, const tmi_index *index,
                                      const size_t *file_shard, size_t shard,
                                      const tenmap_tensor *t, uint64_t hash) {
    (void)model, (void)index, (void)file_shard, (void)shard, (void)t, (void)hash;
}
static inline void tmi_check_listings(const tenmap_model *model, const tmi_index *index,
                                      const size_t *file_shard) {
    (void)model, (void)index, (void)file_shard;
}
static inline void tmi_check_index(const tenmap_model *model, const tmi_index *index,
                                   const tenmap_io *io, const char *path) {
    (void)model, (void)index, (void)io, (void)path;
}
#endif

/*
 * detached_chunks.c: divides a shard's mapping into chunks, each of which is replaced with the
 * process's own memory as a whole.
 */

/* Returns the number of chunks, or 0 if out of memory. May be called again. */
size_t tmi_detached_begin(tmi_shard *shard);
void tmi_detached_end(tmi_shard *shard);
/* In whole pages; the last chunk may extend past the end of the file. */
tmi_span tmi_detached_chunk(const tmi_shard *shard, size_t chunk);
void tmi_detached_set(tmi_shard *shard, size_t chunk);
bool tmi_is_detached(const tmi_shard *shard, size_t chunk);
/*
 * Sets *run to the next part of *rest that is still mapped, and *rest to what follows it. False if
 * no mapped part is left.
 */
bool tmi_next_mapped(tmi_span *rest, tmi_span *run);

/* mlock_spans.c: records which pages tenmap_advise locked. Spans are whole pages. */

/*
 * Records the pages as locked. *added receives those that were not before; the caller frees its
 * list in any case. False if out of memory: then the record is unchanged.
 */
bool tmi_mlock_spans_add(const tenmap_model *model, tmi_span pages, tmi_spans *added);
void tmi_mlock_spans_remove(const tenmap_model *model, tmi_span pages);
/* Locks again the pages that were locked before memory replaced their mapping. 0 or an errno. */
int tmi_mlock_spans_relock(const tenmap_model *model, tmi_span pages);

/* prefetch.c: populates pages in windows, at once or on a background thread of the model. */

/*
 * The span rounded to whole pages: outward to all pages that hold one of its bytes, or inward to
 * those that hold no byte of another tensor.
 */
tmi_span tmi_span_outward(tmi_span span);
tmi_span tmi_span_inward(tmi_span span);

/*
 * Populates the pages that hold the span, except those already detached. Returns 0 or an errno; *at
 * is where it stopped.
 */
int tmi_populate(tmi_span span, uint64_t *at);

/*
 * Populates a span of a mapped model at once. This costs a fraction of single page faults if the
 * span is in the page cache, and reads megabytes at a time if it is not. If the file was truncated,
 * this is an error about the tensor instead of a later signal. Other failures are ignored: page
 * faults will bring in the bytes.
 */
tenmap_status tmi_populate_span(tmi_span span, const tenmap_tensor *t, tenmap_error *error);

/* Appends the span to the queue, and starts the thread if it is not running. */
tenmap_status tmi_prefetch_add(const tenmap_model *model, tmi_span span, tenmap_error *error);
/* Removes the queued spans that lie inside `span`. */
void tmi_prefetch_drop(const tenmap_model *model, tmi_span span);
/*
 * If bytes of the span are queued, prefetches the span next and waits for it. Also waits for a
 * window in progress that overlaps the span.
 */
void tmi_prefetch_wait(const tenmap_model *model, tmi_span span);
/* Stops after the window in progress and joins the thread. Called when the model is closed. */
void tmi_prefetch_end(tenmap_model *model);

#endif
