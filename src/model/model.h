/*
 * Files into one handle: shards, folders, indexes, what a check finds, and what of it is in memory.
 */
#ifndef TENMAP_MODEL_H
#define TENMAP_MODEL_H

#include "../format/format.h"
#include "../io/job.h"

/* folder.c: which model is in a folder. */

typedef struct tmi_folder_choice {
    char **names; /* a model or an index, or all files of a numbered set, those missing included */
    size_t count;
    bool is_set;
} tmi_folder_choice;

tenmap_status tmi_folder_choose(tmi_folder_choice *choice, const tenmap_io *io, const char *path,
                                tenmap_error *error);
void tmi_folder_choice_free(tmi_folder_choice *choice);
/*
 * hub_cache.c: the folder that a hub's cache keeps a model in, with blobs, refs and snapshots.
 *
 * If `folder` is one, *snapshot is the path, to be freed, of the snapshot that refs/main names, or
 * of the only one; TENMAP_ERR_NOT_FOUND with a sentence if that does not tell which. Else it is
 * TENMAP_ERR_NOT_FOUND and *error as it was.
 */
tenmap_status tmi_hub_cache_choose(char **snapshot, const tenmap_io *io, const char *folder,
                                   tenmap_error *error);
/* Whether this is the name of a part of a numbered set: name-00001-of-00005.safetensors. */
bool tmi_is_numbered_name(const char *name);

/* gguf_split_set.c: a model in several GGUF files. */

/* Whether a file with these keys is the first of several, which are opened with it. */
bool tmi_split_is_first(const tmi_split *split);
/* The names of all parts, by that of the first. */
tenmap_status tmi_split_names(tmi_folder_choice *choice, const tenmap_io *io, const char *path,
                              const tmi_split *split, tenmap_error *error);

/* shard.c: one file of a model. */

/* options.max_header_bytes, or its default, the reference's. */
uint64_t tmi_header_limit(const tenmap_options *options);
/* Enough of a file's beginning to know what it is. */
enum { TMI_START = 512 };

typedef struct tmi_detached tmi_detached; /* detached_chunks.c */

typedef struct tmi_shard {
    tenmap_shard view; /* what callers see */
    uint32_t number;   /* among those that the index or the set names, missing ones included */
    tmi_bytes bytes;   /* its path for errors is there */
    const tmi_container *container; /* of what kind it is, once it is parsed */
    tmi_header header;
    char *path;       /* owned; NULL stands for "" */
    char *name;       /* owned: as the index or the set has it; NULL for a single file */
    uint64_t size;    /* the model's length in the file, from options.offset on */
    bool edited_here; /* the lock of an edit is the caller's own */
    _Atomic(tmi_detached *) moved; /* which of its pieces are memory by now; NULL: none */
    unsigned tries;                /* how often it was found changed while it was opened */
} tmi_shard;

/*
 * Opening goes in steps: fill shard->bytes (tmi_bytes_open, tmi_file_dup or _memory), then
 * tmi_shard_start, which reads the first bytes into start[TMI_START], then tmi_shard_parse. On
 * failure the caller still closes the shard.
 */
tenmap_status tmi_shard_start(tmi_shard *shard, const tenmap_options *options, unsigned char *start,
                              size_t *len, tenmap_error *error);
/*
 * Both wait, for a small part of a second, for an edit of the metadata in place to end. What is
 * parsed has been read in one piece: another program's changes in the middle start it anew.
 */
tenmap_status tmi_shard_parse(tmi_shard *shard, const tenmap_options *options,
                              const tenmap_model *model, uint32_t number, const tmi_room *room,
                              tmi_scratch *scratch, const unsigned char *start, size_t len,
                              tenmap_error *error);
/*
 * What was read is in pieces, since the file changed meanwhile: waits a little and looks at it anew
 * for another try. TENMAP_ERR_IO if there were enough of them.
 */
tenmap_status tmi_shard_again(tmi_shard *shard, tenmap_error *error);
/* Reads `length` bytes of text, which `what` is, into a block, padded as parsers want it. */
tenmap_status tmi_read_text(const tmi_bytes *bytes, uint64_t offset, uint64_t length,
                            const char *what, tmi_block *text, tenmap_error *error);
void tmi_shard_close(tmi_shard *shard);

/* interrupted_edit.c: what an edit of the metadata, under way or interrupted, leaves for readers. */

/* The name, beside a file of this name, of its undo record. */
void tmi_journal_name(char out[TMI_NAME_ROOM], const char *file);
/* Whether the first bytes are those of a header that an edit in place has closed. */
bool tmi_edit_closed(const unsigned char *start, size_t len);
/*
 * Adds to the error of a file that does not open if the record of an edit lies beside it, unless
 * that edit is still under way.
 */
void tmi_edit_explain(const tmi_shard *shard, tenmap_error *error);
#ifndef TENMAP_NO_CHECK
/* For a check: whether one lies beside the file, opened or not. */
void tmi_edit_check(const tmi_shard *shard, tmi_report *report, uint32_t number);
#else
static inline void tmi_edit_check(const tmi_shard *shard, tmi_report *report, uint32_t number) {
    (void)shard, (void)report, (void)number;
}
#endif

/* open.c */

#ifndef TENMAP_NO_CHECK
/* tenmap_open for tenmap_check: what is broken goes to the report, and the rest is looked at. */
tenmap_status tmi_open_reporting(const char *path, const tenmap_options *options,
                                 tmi_report *report, tenmap_error *error);
#endif

/*
 * tenmap_open for tenmap_edit_metadata, which holds the lock of the file: `file`, as tmi_file_open
 * left it. The path is what it is called.
 */
tenmap_status tmi_open_edited(const tmi_file *file, const char *path, const tenmap_options *options,
                              tenmap_model **out, tenmap_error *error);

/*
 * The steps of opening. tmi_open_begin takes the arguments and makes an empty model, or none (NULL);
 * tmi_open_path fills it; tmi_open_end makes it *out, or closes it if status or what it does last
 * fails.
 */
tenmap_status tmi_open_begin(const tenmap_options *given, tenmap_options *options,
                             tenmap_model **model, tenmap_model **out, tenmap_error *error);
/* *absent: it failed because there is nothing at the path. */
tenmap_status tmi_open_path(tenmap_model *model, const char *path, const tenmap_options *options,
                            bool *absent, tenmap_error *error);
tenmap_status tmi_open_end(tenmap_model *model, const tenmap_options *options, tenmap_status status,
                           tenmap_model **out, tenmap_error *error);
/* An empty model with room for one shard; NULL without memory. */
tenmap_model *tmi_model_new(void);

/* open_index.c: the index of a model with several files. */

/* The text of the file, of one piece, into model->index_text. */
tenmap_status tmi_open_index_read(tenmap_model *model, tmi_shard *file,
                                  const tenmap_options *options, tenmap_error *error);
/* Its lines, if they are all that is wanted and can be had quickly; none otherwise. */
tenmap_status tmi_open_index_outline(const tenmap_model *model, const char *path,
                                     const tenmap_options *options, tmi_outline *outline,
                                     tenmap_error *error);
/* All of it, by all rules, into model->indexes. */
tenmap_status tmi_open_index_parse(tenmap_model *model, const char *path,
                                   const tenmap_options *options, tenmap_error *error);

/* open_shards.c: the files of a model that has several. */

/* The names of the shards, and what they lie beside or in. */
typedef struct tmi_shard_names {
    size_t count;
    char *const *names;         /* of a numbered set; NULL: those of the index */
    const tmi_outline *outline; /* of the index; NULL: it is in model->indexes */
    const char *path;           /* of the index, or of the folder of the set */
    bool beside; /* the path is that of one of the set, and the names are written as there */
} tmi_shard_names;

tenmap_status tmi_open_shards(tenmap_model *model, const tmi_shard_names *from,
                              const tenmap_options *options, tenmap_error *error);
enum { TMI_OPEN_THREADS = 8 }; /* the most that are not asked for */
/* How many threads so many files are worth: of the system, or behind an io. */
unsigned tmi_open_threads(size_t files, const tenmap_io *io);

typedef struct tmi_prefetch tmi_prefetch; /* prefetch.c */

/* Another name for a tensor. */
typedef struct tmi_alias {
    const char *name;
    size_t name_len;
    size_t tensor; /* its number */
} tmi_alias;

/* quantized.c: the tensors of a model whose weights are stored in parts, put together. */
typedef struct tmi_quantized {
    struct tmi_computed *computed; /* NULL where there are none */
    uint32_t *numbers;             /* of each tensor that is listed: its number there + 1, or 0 */
    tmi_block tensors;             /* what is listed: tenmap_tensor[shown] */
    size_t shown;
    tmi_names finder;
    char *names; /* that no part has */
} tmi_quantized;

/* A part of a shard's file, in bytes from the file's beginning. */
typedef struct tmi_span {
    const tmi_shard *shard;
    uint64_t begin, end;
} tmi_span;

/* mlock_spans.c: pages that advice locked in memory. */
typedef struct tmi_mlock_spans {
    tmi_rwlock gate;
    long process;
    tmi_span *spans;
    size_t count, capacity;
} tmi_mlock_spans;

struct tenmap_model {
    char *path, *folder;
    tenmap_io io; /* the caller's, as it was at open; all zeros: the system's files */
    tmi_shard *shards;
    size_t shard_count;
    tenmap_tensor *tensors;
    size_t tensor_count;
    tmi_block tensor_block;  /* of a model with several shards; else the shard's header owns them */
    tmi_names names;         /* likewise */
    const tmi_names *finder; /* where tenmap_find looks: `names`, or the only shard's */
    tenmap_metadata *metadata;
    size_t metadata_count;
    bool owns_metadata; /* likewise */
    tmi_hash_key key;
    tmi_block index_text; /* as read; of several indexes the first one's */
    size_t index_len;
    tmi_scratch *scratches; /* where names are of shards that an index lists; of each thread one */
    size_t scratch_count;
    bool in_list;       /* a part of a list: its index will stand beside others */
    tmi_index *indexes; /* by path, for tenmap_shard_listed */
    size_t index_count;
    uint32_t *written; /* which tensor is written i-th; NULL: the i-th */
    tmi_alias *aliases;
    tmi_names alias_names; /* over them */
    char **missing;
    size_t missing_count;
    size_t unlisted; /* of a list of paths: how many of them no index tells anything of */
    uint64_t file_size;
    tmi_report *report; /* only inside tenmap_check */
    tmi_quantized quantized;
    /* What changes after opening. */
    _Atomic(tmi_prefetch *) prefetch; /* made when it is first wanted */
    tmi_rwlock advice; /* who advises is inside; who puts memory in the place of mappings, alone */
    tmi_mlock_spans locked;
};

/* The shard that a tensor of an open model is in. */
static inline const tmi_shard *tmi_shard_of(const tenmap_tensor *t) {
    return &t->model->shards[t->shard];
}

/* "path": tensor "name", as errors about a tensor begin. */
#define TMI_FAIL_TENSOR(error, status, t, format, ...)                                             \
    tmi_fail_at(error, status, (t)->shard, (t)->file_offset, "%s: tensor %s: " format,             \
                tmi_quote_path(tmi_shard_of(t)->bytes.shown).text,                                 \
                tmi_quote((t)->name, (t)->name_len).text, __VA_ARGS__)

/* combine_shards.c: several shards as one model. */

/*
 * Brings the tensors, names and metadata of model->shards together; `index` (or NULL for a numbered
 * set) says which shard a tensor is taken from, `file_shard` where each of its files is among the
 * shards, TMI_NONE for one that is missing.
 */
tenmap_status tmi_combine_shards(tenmap_model *model, tmi_index *index, const size_t *file_shard,
                                 uint32_t flags, tenmap_error *error);
/* A part of it: the metadata. */
tenmap_status tmi_combine_metadata(tenmap_model *model, tenmap_error *error);
/* Frees what only joining needed of each shard's header. */
void tmi_combine_drop(tenmap_model *model);

/* combine_listed.c: the same where the shards have what the index lists, and nothing else. */

/* One table for the tensors of all shards: of each, as many as the index lists in it. */
typedef struct tmi_rooms {
    tmi_block tensors, hashes;
    tmi_room *rooms; /* NULL: there are none */
} tmi_rooms;

tenmap_status tmi_rooms_alloc(tmi_rooms *rooms, const tmi_outline *outline, tenmap_error *error);
void tmi_rooms_free(tmi_rooms *rooms);
/*
 * Makes the tensors in the rooms, which are full, the model's, if each line of the index has found
 * one of its own in the shard that it names: *joined. Else nothing is changed. The shards are not the
 * model's yet.
 */
tenmap_status tmi_combine_listed(tenmap_model *model, const tmi_outline *outline, tmi_rooms *rooms,
                                 unsigned threads, bool *joined, tenmap_error *error);

/* lookup.c: ways to a tensor that are made when all are known. */

/*
 * The order in which the tensors are written, where it is another than theirs, and with
 * TENMAP_OPEN_ALIASES their other names. The shards' views have their final ranges of tensors.
 */
tenmap_status tmi_lookup_make(tenmap_model *model, uint32_t flags, tenmap_error *error);
void tmi_lookup_free(tenmap_model *model);
/* The tensor that this name, which is the name of none, stands for; or TMI_NONE. */
size_t tmi_alias_find(const tenmap_model *model, const char *name, size_t len, uint64_t hash);

/* model.c: as tenmap_shard_listed, of names that may hold NUL. */
const char *tmi_shard_listed(const tenmap_model *model, const char *name, size_t len);
/* Whether files are missing of which no index tells what is in them. */
bool tmi_lacks_unknown(const tenmap_model *model);

/* gguf_split_set.c: whether the shards of a joined model say that they are its parts, if they say anything. */
tenmap_status tmi_split_check(const tenmap_model *model, tenmap_error *error);

/* check_index.c: where the index and its shards do not agree. For model->report. */

#ifndef TENMAP_NO_CHECK
/* A tensor of model->shards[shard], as it is joined. */
void tmi_check_combined(const tenmap_model *model, const tmi_index *index, const size_t *file_shard,
                        size_t shard, const tenmap_tensor *t, uint64_t hash);
/* When all shards are joined. */
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
 * detached_chunks.c: a shard's mapping in pieces, each of which becomes memory of this process's own as a whole.
 */

/* For the first time or again: how many pieces there are; 0 without memory. */
size_t tmi_detached_begin(tmi_shard *shard);
void tmi_detached_end(tmi_shard *shard);
/* Whole pages; the last piece may end behind the file. */
tmi_span tmi_detached_chunk(const tmi_shard *shard, size_t piece);
void tmi_detached_set(tmi_shard *shard, size_t piece);
bool tmi_is_detached(const tmi_shard *shard, size_t piece);
/* The next part of *rest that is still mapped, which *rest then begins behind. False: none is left. */
bool tmi_next_mapped(tmi_span *rest, tmi_span *run);

/* mlock_spans.c. Whole pages; the record is of what advice did, and adding can be out of memory. */

bool tmi_mlock_spans_add(const tenmap_model *model, tmi_span pages);
void tmi_mlock_spans_remove(const tenmap_model *model, tmi_span pages);
/* Locks those pages again that were locked before memory took their place. 0 or an errno. */
int tmi_mlock_spans_relock(const tenmap_model *model, tmi_span pages);

/* prefetch.c: bringing pages in, in windows, now or on a thread of the model's own. */

/* Whole pages: all that hold a byte of the span, or only those that hold no other tensor's. */
tmi_span tmi_span_outward(tmi_span span);
tmi_span tmi_span_inward(tmi_span span);

/* Maps the pages that hold the span, but for those that are memory by now. Returns 0 or an errno, with *at where it stopped. */
int tmi_populate(tmi_span span, uint64_t *at);

/*
 * Maps a mapped model's span at once: a fraction of the cost of one fault after the other when it is
 * in the page cache, and reads of megabytes when it is not. A file that was truncated is an error
 * about the tensor here and not a signal later. Refusals of another kind leave it to the faults.
 */
tenmap_status tmi_populate_span(tmi_span span, const tenmap_tensor *t, tenmap_error *error);

/* Puts the span behind those that wait, and starts the thread if there is none. */
tenmap_status tmi_prefetch_add(const tenmap_model *model, tmi_span span, tenmap_error *error);
/* Forgets those that wait and lie inside the span. */
void tmi_prefetch_drop(const tenmap_model *model, tmi_span span);
/* If bytes of the span are to be prefetched, has them prefetched first, and waits until they are.
 */
void tmi_prefetch_wait(const tenmap_model *model, tmi_span span);
/* Stops after the window under way and joins the thread. Part of closing. */
void tmi_prefetch_end(tenmap_model *model);

#endif
