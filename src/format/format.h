/*
 * Parses the bytes of a file header into a table of tensors. Nothing here does I/O: callers pass in
 * the bytes.
 */
#ifndef TENMAP_FORMAT_H
#define TENMAP_FORMAT_H

#include "../io/bytes.h"

/* other_formats.c: recognizes files of other formats. */

/* A range of bytes at the start of a file, and what would help against the file. */
typedef struct tmi_shown {
    size_t at, len;
    uint32_t remedy; /* TENMAP_REMEDY_* */
} tmi_shown;

/*
 * Says what a file that is not SafeTensors is and what to do about it, as a clause of an error
 * message ("this is a Git LFS pointer ..."). Returns NULL if the first bytes are not recognized.
 * `size` is the size of the whole file. *shown is the range that is worth showing to the user; its
 * length is 0 if there is none. shown->remedy is set in any case.
 */
const char *tmi_other_format(const unsigned char *start, size_t len, uint64_t size,
                             tmi_shown *shown);

/* The same for files whose bytes say nothing, by the path; NULL if it says nothing either. */
const char *tmi_other_by_name(const char *path);

/* Whether a name is that of an index of a format that no container reads. */
bool tmi_is_other_index(const char *name);

/* Clauses of the same kind for an index, which is recognized by its JSON. */
#define TMI_SERVER_ERROR                                                                           \
    "this is the error message of a server, saved in place of the file: fetch the file again"
#define TMI_ONLY_BLANKS                                                                            \
    "the file contains only line ends and spaces: the download returned an empty response, or "    \
    "nothing was written"

/*
 * A flag of tmi_place.flags beside TENMAP_OPEN_*: a pickle's values are kept in tmi_header.values,
 * and no tensors are listed. Callers of the API cannot set it.
 */
#define TMI_OPEN_VALUES (UINT32_C(1) << 31)

/* Whether options.flags allow this relaxation, by its own flag or by TENMAP_OPEN_LENIENT. */
static inline bool tmi_allows(uint32_t flags, uint32_t relaxation) {
    return flags & (relaxation | TENMAP_OPEN_LENIENT);
}

/* findings.c: collects what a check finds. */

enum { TMI_FOUND_COUNT = TENMAP_FOUND_CODE + 1, TMI_SEVERITY_COUNT = 4 };

/*
 * Passes findings on to the caller of tenmap_check: a limited number of each kind one by one, the
 * rest only as a count. For one thread.
 */
typedef struct tmi_report {
    void (*found)(void *ctx, const tenmap_finding *finding);
    void *ctx;
    uint32_t flags;  /* TENMAP_OPEN_*: what a lenient or partial open allows is not an error */
    uint64_t errors; /* so far */
    uint64_t counts[TMI_SEVERITY_COUNT][TMI_FOUND_COUNT];
} tmi_report;

#ifndef TENMAP_NO_CHECK

/* Whether a check is running. In a build without tenmap_check this is false at compile time. */
#define TMI_REPORTS(report) ((report) != NULL)
/* Whether enough findings of this kind have been reported already; if so, this one is counted. */
bool tmi_report_full(tmi_report *report, uint32_t severity, uint32_t code);
/* Passes on one finding; its message and offset come from *said. */
void tmi_report_add(tmi_report *report, uint32_t severity, uint32_t code, uint32_t shard,
                    const char *tensor, const tenmap_error *said);
/* Passes on TENMAP_FOUND_CODE: `global` is the full name of what Python would import. */
void tmi_report_code(tmi_report *report, uint32_t shard, const char *global, bool called,
                     const tenmap_error *said);
/* Reports a failure that keeps a model from being opened, unless report->flags allow it. */
void tmi_report_failure(tmi_report *report, uint32_t code, uint32_t shard, const char *tensor,
                        const tenmap_error *error);
/* Reports how many more findings of each kind there were. */
void tmi_report_end(tmi_report *report);

/* The default severity of a finding of this kind: TENMAP_FINDING_*. */
uint32_t tmi_found_severity(uint32_t code);

/* Reports an oddity with its own message, which is formatted only if it will be reported. */
#define TMI_REPORT(report, code, shard, offset, tensor, ...)                                       \
    TMI_REPORT_AS(report, tmi_found_severity(TENMAP_FOUND_##code), code, shard, offset, tensor,    \
                  __VA_ARGS__)
/* The same, with a severity other than the default. */
#define TMI_REPORT_AS(report, severity, code, shard, offset, tensor, ...)                          \
    do {                                                                                           \
        tenmap_error said_;                                                                        \
        if (!tmi_report_full(report, severity, TENMAP_FOUND_##code)) {                             \
            tmi_fail_at(&said_, TENMAP_OK, shard, offset, __VA_ARGS__);                            \
            tmi_report_add(report, severity, TENMAP_FOUND_##code, shard, tensor, &said_);          \
        }                                                                                          \
    } while (0)

#else

#define TMI_REPORTS(report) ((void)(report), false)
#define TMI_REPORT(report, code, shard, offset, tensor, ...)                                       \
    do {                                                                                           \
        if (TMI_REPORTS(report) && (tensor) != NULL)                                               \
            tmi_fail_at(NULL, TENMAP_OK, shard, offset, __VA_ARGS__);                              \
    } while (0)
static inline bool tmi_report_full(tmi_report *report, uint32_t severity, uint32_t code) {
    return (void)report, (void)severity, (void)code, true;
}
static inline void tmi_report_code(tmi_report *report, uint32_t shard, const char *global,
                                   bool called, const tenmap_error *said) {
    (void)report, (void)shard, (void)global, (void)called, (void)said;
}
static inline void tmi_report_failure(tmi_report *report, uint32_t code, uint32_t shard,
                                      const char *tensor, const tenmap_error *error) {
    (void)report, (void)code, (void)shard, (void)tensor, (void)error;
}

#endif

/* safetensors_header.c: parses the bytes before the tensors. No I/O. */

/* A header's slice of a table that several headers fill, sized for the tensors it should have. */
typedef struct tmi_table_slice {
    tenmap_tensor *tensors;
    uint64_t *hashes; /* of their names */
    size_t count;
} tmi_table_slice;

/* State that a thread keeps between headers while it parses many of them quickly; starts zeroed. */
typedef struct tmi_scratch {
    char *window;
    /* The current block for names of headers; it begins with the tmi_block of the previous one. */
    tmi_block names;
    size_t used, block_bytes;
    size_t least_bytes; /* the least size of a new block: room for the names of many headers */
} tmi_scratch;

/* Frees the window and keeps the names, which belong to the headers. */
void tmi_scratch_end(tmi_scratch *scratch);
void tmi_scratch_free(tmi_scratch *scratch);

/* Where a header lies and how to parse it: for errors and for the addresses of its tensors. */
typedef struct tmi_place {
    const char *path; /* as shown in errors */
    uint32_t shard;
    uint32_t flags;            /* TENMAP_OPEN_* */
    uint64_t offset;           /* where the model starts in its file */
    uint64_t size;             /* the model's length from there */
    const unsigned char *base; /* the model's first byte in memory, or NULL */
    const tenmap_model *model;
    tmi_hash_key key;
    tmi_report *report; /* not NULL in a check: receives the broken rules, and the parse goes on */
    /* Where a quick pass puts tensors and names, if there are no more than expected; or NULL. */
    const tmi_table_slice *slice;
    tmi_scratch *scratch;
} tmi_place;

enum { TMI_DIM_BLOCKS = 40 };

/* A dtype that this library does not know, as the header spells it. */
typedef struct tmi_opaque {
    const char *name; /* the same pointer as its tensor's name */
    const char *text;
} tmi_opaque;

/* What a file says about its place in a model of several files; all 0 if it says nothing. */
typedef struct tmi_split {
    uint64_t number; /* counted from 0 */
    uint64_t count;
    bool counts_tensors;
    uint64_t tensors; /* in all parts together, if counts_tensors */
} tmi_split;

/* What a container declared about a tensor whose elements lie in a storage with strides. */
typedef struct tmi_strided {
    uint64_t position;       /* the tensor's header_position */
    const uint64_t *strides; /* in elements, one for each axis */
    uint64_t elements;       /* of the storage, from the tensor's first to its last */
} tmi_strided;

typedef struct tmi_header {
    /* Names and metadata: the whole JSON, unescaped in place, or only those strings. */
    tmi_block text;
    tmi_block tensors; /* tenmap_tensor[count], in file order */
    size_t count;
    tmi_names names;                /* over the tensors, unless they are in a slice */
    bool in_shared_table;           /* the tensors do not belong to the header */
    tmi_block dims[TMI_DIM_BLOCKS]; /* what the tensors' shapes point to */
    unsigned dim_blocks;
    tenmap_metadata *metadata;
    size_t metadata_count, metadata_capacity;
    tmi_opaque *opaque; /* sorted by the address of `name` */
    size_t opaque_count, opaque_capacity;
    tmi_strided *strided; /* by position */
    size_t strided_count, strided_capacity;
    uint64_t declared_bytes; /* of all tensors that tmi_declare_strided saw */
    tmi_block numbers;       /* the texts of metadata values that are not strings in the file */
    tmi_split split;
    void *values; /* what TMI_OPEN_VALUES keeps, of the container's own type; NULL: nothing */
    void (*free_values)(void *values);
    uint64_t data_at;   /* where tensor data may begin, counted from the model's first byte */
    bool reordered;     /* the header did not list the tensors in file order */
    const char *branch; /* tenmap_shard.branch: a constant, or NULL */
    uint64_t other_tensors;
} tmi_header;

/* A pair of strings; all SafeTensors metadata is of this form. */
static inline tenmap_metadata tmi_metadata_text(const tmi_place *place, const char *key,
                                                size_t key_len, const char *value,
                                                size_t value_len) {
    return (tenmap_metadata){.key = key,
                             .key_len = key_len,
                             .value = value,
                             .value_len = value_len,
                             .shard = place->shard,
                             .type = TENMAP_VALUE_STRING,
                             .element_type = TENMAP_VALUE_STRING,
                             .count = 1,
                             .raw = value,
                             .raw_bytes = value_len};
}

/*
 * The last step of every parser for a tensor: sets its location, `within` bytes from the model's
 * first byte. header_position is set earlier, before the tensors are sorted.
 */
static TMI_INLINE void tmi_tensor_set_location(tenmap_tensor *t, const tmi_place *place,
                                               uint64_t within, bool there, uintptr_t align_mask) {
    t->file_offset = place->offset + within;
    t->data = place->base && there ? place->base + within : NULL;
    uintptr_t address = t->data ? (uintptr_t)t->data : (uintptr_t)t->file_offset;
    t->flags = (address & align_mask) == 0 ? TENMAP_TENSOR_ALIGNED : 0;
    t->shard = place->shard;
    t->model = place->model;
}

/* The length field in front of a SafeTensors header's text, in bytes. */
enum { TMI_LENGTH_FIELD = 8 };

/*
 * Checks rules 4 to 10. `text` holds `length` bytes of JSON followed by at least TMI_JSON_PAD zero
 * bytes; the header takes ownership of it, also on failure. On failure the header is empty.
 */
tenmap_status tmi_header_parse(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error);
/* The spelling of a TENMAP_OPAQUE tensor's dtype. */
const char *tmi_header_opaque(const tmi_header *header, const tenmap_tensor *t);
/* Frees the tensors, if they belong to the header, and the index of their names. */
void tmi_header_drop_tensors(tmi_header *header);
void tmi_header_free(tmi_header *header);

/* lint_header.c: reports what a header may contain but rarely should. For place->report. */

/* White space outside of strings: before, inside and after the JSON. */
typedef struct tmi_blanks {
    size_t before, inside, behind;
    bool other_than_spaces; /* after the JSON, where the format pads with spaces */
} tmi_blanks;

#ifndef TENMAP_NO_CHECK
tmi_blanks tmi_check_blanks(const char *text, size_t length);
void tmi_check_field(const tmi_place *place, const tenmap_tensor *t, const char *key,
                     size_t key_len, uint64_t offset);
/* For a header of `length` bytes with valid JSON; the tensors have their final fields. */
void tmi_check_header(const tmi_place *place, const tmi_header *header, size_t length,
                      const tmi_blanks *blanks, bool in_order);
#else
static inline tmi_blanks tmi_check_blanks(const char *text, size_t length) {
    return (void)text, (void)length, (tmi_blanks){0, 0, 0, false};
}
static inline void tmi_check_field(const tmi_place *place, const tenmap_tensor *t, const char *key,
                                   size_t key_len, uint64_t offset) {
    (void)place, (void)t, (void)key, (void)key_len, (void)offset;
}
static inline void tmi_check_header(const tmi_place *place, const tmi_header *header, size_t length,
                                    const tmi_blanks *blanks, bool in_order) {
    (void)place, (void)header, (void)length, (void)blanks, (void)in_order;
}
#endif

/* safetensors_quick.c: parses a header that is written in the usual way, in one fast pass. */

/*
 * Where a header is read from. `refill` copies [offset, offset+size) of the file to dst; it returns
 * false, without an error, on failure.
 */
typedef struct tmi_header_source {
    bool (*refill)(void *ctx, uint64_t offset, void *dst, size_t size);
    void *ctx;
} tmi_header_source;

/*
 * Reads the `length` bytes of a header from `source`. If it is written in the usual way and
 * breaks no rule, *done is true and the header is the same as from tmi_header_parse. Otherwise the
 * header is empty and tmi_header_parse has to decide. Fails only if memory runs out.
 *
 * The names of tensors in place->slice are not checked for duplicates: whoever fills the slice does
 * that.
 */
tenmap_status tmi_safetensors_quick(tmi_header *header, const tmi_place *place, size_t length,
                                    tmi_header_source source, bool *done, tenmap_error *error);

/* strided.c: tensors that see a storage with strides. */

/* How a tensor sees a storage, which other tensors may see too. */
typedef struct tmi_storage {
    uint64_t at, bytes;      /* of the storage, `at` counted from the model's first byte */
    uint64_t offset;         /* of the tensor's first element, in elements of its dtype */
    const uint64_t *strides; /* one for each axis, in elements; 0 repeats an axis. Must outlive the
                                header */
} tmi_storage;

/*
 * Gives a tensor its count, size and location. Its name, dtype, rank, shape and header_position are
 * set; tensors are declared in the order of header_position. If its elements lie one after the
 * other, it becomes a plain tensor; otherwise it gets TENMAP_TENSOR_COMPUTED. FORMAT if the dtype
 * has no whole bytes, or an element lies outside of the storage, or the storage outside of the
 * file; LIMIT if repeated axes make it larger than both 1 GiB and the file, or all tensors so far
 * are together larger than 16 GiB and 16 times the file.
 */
tenmap_status tmi_declare_strided(tmi_header *header, const tmi_place *place, tenmap_tensor *t,
                                  const tmi_storage *storage, tenmap_error *error);

/* tensor_order.c: what comes first in a file. */

/* A range of a file, and the number of what it belongs to. */
typedef struct tmi_sort_key {
    uint64_t begin, end;
    size_t from;
} tmi_sort_key;

/*
 * Sorts by begin, then end, in O(n log n) for any input; equal keys keep their order. Returns the
 * array that holds the result: `keys`, or `scratch`, which has the same size.
 */
tmi_sort_key *tmi_sort_keys(tmi_sort_key *keys, tmi_sort_key *scratch, size_t count);

/*
 * Sorts by file_offset, then nbytes, whatever those fields hold at the moment; the sort is stable.
 * Returns false and changes nothing if memory runs out.
 */
bool tmi_order_tensors(tmi_block *tensors, size_t count);

/* header_reader.c: what a container reads of a file before it parses the header. */

/* Reads [offset, offset+size) of the file into *dst; `what` it is, for errors: "the header". */
typedef tenmap_status tmi_range_read(const void *ctx, uint64_t offset, void *dst, size_t size,
                                     const char *what, tenmap_error *error);

/* A file whose header is being read. Containers read through it and do no I/O themselves. */
typedef struct tmi_header_reader {
    const tmi_place *place;
    const unsigned char *start; /* the model's first bytes, by which it was recognized */
    size_t len;
    uint64_t limit; /* options.max_header_bytes: for all ranges together */
    uint64_t taken; /* bytes of the ranges that were read so far */
    tmi_range_read *read;
    const void *ctx; /* of `read` */
} tmi_header_reader;

/* The text of a header: all bytes that its container parses. */
typedef struct tmi_header_text {
    uint64_t length;
    uint64_t at; /* where it lies, counted from the model's first byte, if `block` is empty */
    /*
     * The text, if the container has read it already, from one range or from several. Otherwise it
     * lies together at `at`, and shard.c reads it.
     */
    tmi_block block;
    size_t room; /* of the block: at least length + TMI_JSON_PAD */
    /* Another container, if the file turned out to be its: several formats are zip archives. */
    const struct tmi_container *container;
} tmi_header_text;

/*
 * Reads [at, at+size) of the model, counted from its first byte. FORMAT if the model ends before;
 * LIMIT if the ranges that were read would have more bytes than the limit.
 */
tenmap_status tmi_header_read(tmi_header_reader *reader, uint64_t at, void *dst, uint64_t size,
                              const char *what, tenmap_error *error);
/* Reads a range like tmi_header_read and appends it to the text, which begins zeroed. */
tenmap_status tmi_text_append(tmi_header_reader *reader, tmi_header_text *text, uint64_t at,
                              uint64_t size, const char *what, tenmap_error *error);
/* Fails because the header, of which the byte at `at` was read last, is over the limit. */
tenmap_status tmi_fail_header_limit(const tmi_header_reader *reader, uint64_t at,
                                    tenmap_error *error);

/* container.c: the file formats. */

/* By which names folder.c finds the files of a format. Lists end with NULL. */
typedef struct tmi_folder_names {
    const char *const *endings; /* of file names: ".safetensors" */
    bool has_index;             /* NAME.ENDING.index.json lists the files of a model */
    const char *const
        *first;              /* whole names that are taken before all others, best first; or NULL */
    const char *const *last; /* files with these words are taken if there are no others; or NULL */
    /*
     * How names of models begin, before a dot or a hyphen; other files with these endings are not
     * looked at, since other programs use the endings too. NULL: every file counts.
     */
    const char *const *stems;
} tmi_folder_names;

/* How the files of a format say which part of a model they are (tmi_split). */
typedef struct tmi_split_names {
    const char *ending;                   /* of file names, after -00001-of-00003 */
    const char *number, *count, *tensors; /* the keys of the metadata, for errors */
} tmi_split_names;

/*
 * One file format. Nothing outside of src/format/ knows formats by name, except for what writes or
 * edits one.
 */
typedef struct tmi_container {
    const char *name; /* tenmap_shard.format */
    /*
     * Whether a file of `size` bytes, whose first `len` bytes are at `start`, has this format. NULL
     * if only the text shows it: then another container names this one in tmi_header_text.
     */
    bool (*recognize)(const unsigned char *start, size_t len, uint64_t size, uint64_t limit);
    /*
     * Finds the header: sets text->at and text->length, or reads the text, from any ranges. Reports
     * what is wrong with the file if it cannot. The caller frees the text, also on failure.
     */
    tenmap_status (*find_text)(tmi_header_reader *reader, tmi_header_text *text,
                               tenmap_error *error);
    /* Optional (may be NULL). Behaves as tmi_safetensors_quick. */
    tenmap_status (*quick)(tmi_header *header, const tmi_place *place, size_t length,
                           tmi_header_source source, bool *done, tenmap_error *error);
    /*
     * As tmi_header_parse: takes ownership of `text`; TMI_JSON_PAD zero bytes follow the text. All
     * of the text was read before, and the file did not change meanwhile.
     */
    tenmap_status (*parse)(tmi_header *header, const tmi_place *place, tmi_block text,
                           size_t length, tenmap_error *error);
    const tmi_folder_names *folder; /* NULL: not looked for in folders */
    const tmi_split_names *split;   /* NULL: its files do not say that they are parts */
} tmi_container;

extern const tmi_container tmi_safetensors;
extern const tmi_container tmi_gguf;    /* gguf.c */
extern const tmi_container tmi_pytorch; /* pytorch.c */
extern const tmi_container tmi_npy;     /* npy.c */
extern const tmi_container tmi_npz;     /* npz.c; tmi_pytorch recognizes its files, as archives */
#ifdef TENMAP_TOY_CONTAINER
extern const tmi_container tmi_toy_container;
#endif

/* The first container that recognizes the file, or NULL. */
const tmi_container *tmi_container_of(const unsigned char *start, size_t len, uint64_t size,
                                      uint64_t limit);
/* The container that explains what is wrong with a file that none recognizes. */
const tmi_container *tmi_container_for_errors(void);
/*
 * Containers number 0, 1, and so on, of those that have names in folders; NULL after the last. If a
 * folder has files of several containers, only those of the first one count.
 */
const tmi_container *tmi_container_at(size_t i);

/* shard_index.c: model.safetensors.index.json. */

/* More shards than this are an attack on memory, not a model: opening each costs about 1.5 KB. */
enum { TMI_MOST_SHARDS = 100000 };
/* The same limit for the names kept from a folder: two full sets of shards. */
enum { TMI_MOST_LISTED = 2 * TMI_MOST_SHARDS };

typedef struct tmi_listing { /* one entry of weight_map */
    const char *name;
    size_t name_len;
    size_t file; /* index into tmi_index.files */
    bool seen;
} tmi_listing;

typedef struct tmi_listed_file {
    const char *name;
    size_t name_len;
} tmi_listed_file;

typedef struct tmi_index {
    tmi_block text; /* the index's own copy of the JSON, unescaped in place */
    tmi_listing *listings;
    size_t listing_count, listing_capacity;
    tmi_listed_file *files; /* the distinct shards, sorted by file name */
    size_t file_count;
    tmi_names names; /* over the listings */
    /*
     * Set if the listings and the model's tensors are the same: the number of each listing's
     * tensor. The listings, files and names above are then absent.
     */
    uint32_t *tensors;
    /* The string pairs of its metadata, kept with TENMAP_OPEN_ALIASES. */
    tenmap_metadata *pairs;
    size_t pair_count, pair_capacity;
    bool has_total_size;
    uint64_t total_size; /* as metadata states it, if that is a plain integer */
} tmi_index;

/* Whether a file of `size` bytes with this start is JSON text, which can only be an index. */
bool tmi_index_recognize(const unsigned char *start, size_t len, uint64_t size);
/* As tmi_header_parse; place->path is the index's path. */
tenmap_status tmi_index_parse(tmi_index *index, const tmi_place *place, tmi_block text,
                              size_t length, tenmap_error *error);
void tmi_index_free(tmi_index *index);
/* Whether the name stays in the index's folder; subfolders only if the flags allow them. */
bool tmi_index_safe_name(const char *name, size_t len, uint32_t flags);
/* For qsort and bsearch over records that begin with a tmi_listed_file. */
int tmi_by_file_name(const void *a, const void *b);

/*
 * shard_index_quick.c: the lines of an index written in the usual way, left in place in its text.
 */

typedef struct tmi_line {
    const char *name; /* not NUL-terminated */
    uint32_t name_len;
    uint32_t file; /* in order of first mention; place_of maps it to its place in `files` */
} tmi_line;

typedef struct tmi_outlined_file {
    tmi_listed_file listed; /* its name is not NUL-terminated */
    size_t lines;           /* how many lines name it */
    uint32_t number;        /* in order of first mention */
} tmi_outlined_file;

typedef struct tmi_outline {
    tmi_block block; /* holds the lines */
    tmi_line *lines;
    size_t count;
    tmi_outlined_file *files; /* the distinct shards, sorted by file name */
    size_t file_count;
    uint32_t *place_of; /* by a file's number: its place in `files` */
} tmi_outline;

/*
 * If the index is written in the usual way and breaks no rule, except that a name may be listed
 * twice, *done is true. Otherwise the outline is empty and tmi_index_parse has to decide. `text` is
 * followed by TMI_JSON_PAD zero bytes and must outlive the outline. Fails only if memory runs out.
 */
tenmap_status tmi_index_quick(tmi_outline *outline, const tmi_place *place, const char *text,
                              size_t length, bool *done, tenmap_error *error);
void tmi_outline_free(tmi_outline *outline);

#endif
