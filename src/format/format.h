/*
 * From the bytes of a header to a table of tensors. No I/O: what is read comes from the layers around.
 */
#ifndef TENMAP_FORMAT_H
#define TENMAP_FORMAT_H

#include "../io/bytes.h"

/* other_formats.c: files that are something else. */

/* Bytes of a file's beginning. */
typedef struct tmi_shown {
    size_t at, len;
} tmi_shown;

/*
 * What a file that is not SafeTensors is, and what to do about it, as a part of a sentence ("this
 * is a Git LFS pointer ..."); NULL if its first bytes are not known. `size` is the whole file's.
 * *shown is the part of it that a reader would want to see; of length 0 if there is none.
 */
const char *tmi_other_format(const unsigned char *start, size_t len, uint64_t size,
                             tmi_shown *shown);

/* Such parts of sentences for an index, which is known by its JSON. */
#define TMI_SERVER_ERROR                                                                           \
    "this is the error message of a server, saved in place of the file: fetch the file again"
#define TMI_ONLY_BLANKS                                                                            \
    "the file holds nothing but line ends and spaces: the download brought an empty answer, or "   \
    "nothing was written"

/* Whether options.flags allow this: by its own flag, or by the one that stands for all of them. */
static inline bool tmi_allows(uint32_t flags, uint32_t relaxation) {
    return flags & (relaxation | TENMAP_OPEN_LENIENT);
}

/* findings.c: what a check finds. */

enum { TMI_FOUND_COUNT = TENMAP_FOUND_PARTS + 1, TMI_SEVERITY_COUNT = 4 };

/*
 * Findings on their way to the caller of tenmap_check: so many of a kind as they are, the rest
 * counted. For one thread.
 */
typedef struct tmi_report {
    void (*found)(void *ctx, const tenmap_finding *finding);
    void *ctx;
    uint32_t flags;  /* TENMAP_OPEN_*: what a lenient or partial open allows is no error */
    uint64_t errors; /* so far */
    uint64_t counts[TMI_SEVERITY_COUNT][TMI_FOUND_COUNT];
} tmi_report;

#ifndef TENMAP_NO_CHECK

/* Whether a check wants to know. In a build without tenmap_check that is known before it runs. */
#define TMI_REPORTS(report) ((report) != NULL)
/* Whether there were enough of this kind before this one, which is then counted. */
bool tmi_report_full(tmi_report *report, uint32_t severity, uint32_t code);
/* Hands on one finding; the sentence and the offset are those of *said. */
void tmi_report_say(tmi_report *report, uint32_t severity, uint32_t code, uint32_t shard,
                    const char *tensor, const tenmap_error *said);
/* A failure that keeps a model from being opened, unless report->flags allow it. */
void tmi_report_failure(tmi_report *report, uint32_t code, uint32_t shard, const char *tensor,
                        const tenmap_error *error);
/* Says how many more there were of each kind. */
void tmi_report_end(tmi_report *report);

/* What a finding of this kind is where nothing else is said: TENMAP_FINDING_*. */
uint32_t tmi_found_severity(uint32_t code);

/* An oddity: a sentence of its own, made only if it is wanted. */
#define TMI_REPORT(report, code, shard, offset, tensor, ...)                                       \
    TMI_REPORT_AS(report, tmi_found_severity(TENMAP_FOUND_##code), code, shard, offset, tensor,    \
                  __VA_ARGS__)
/* One that is more or less here than as a rule. */
#define TMI_REPORT_AS(report, severity, code, shard, offset, tensor, ...)                          \
    do {                                                                                           \
        tenmap_error said_;                                                                        \
        if (!tmi_report_full(report, severity, TENMAP_FOUND_##code)) {                             \
            tmi_fail_at(&said_, TENMAP_OK, shard, offset, __VA_ARGS__);                            \
            tmi_report_say(report, severity, TENMAP_FOUND_##code, shard, tensor, &said_);          \
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
static inline void tmi_report_failure(tmi_report *report, uint32_t code, uint32_t shard,
                                      const char *tensor, const tenmap_error *error) {
    (void)report, (void)code, (void)shard, (void)tensor, (void)error;
}

#endif

/* safetensors_header.c: the bytes before the tensors. No I/O. */

/* A part of a table that several headers fill, each with as many tensors as are expected of it. */
typedef struct tmi_room {
    tenmap_tensor *tensors;
    uint64_t *hashes; /* of their names */
    size_t count;
} tmi_room;

/* What a thread that parses many headers quickly keeps from one to the next; starts zeroed. */
typedef struct tmi_scratch {
    char *window;
    tmi_block names; /* a block for the names of headers; it begins with the one before it */
    size_t used, block_bytes;
    size_t least_bytes; /* of a block: what all names may need */
} tmi_scratch;

/* Frees the window; the names are the headers'. */
void tmi_scratch_end(tmi_scratch *scratch);
void tmi_scratch_free(tmi_scratch *scratch);

/* What a header is parsed for: where it lies, for errors and for the addresses of its tensors. */
typedef struct tmi_place {
    const char *path; /* as shown in errors */
    uint32_t shard;
    uint32_t flags;            /* TENMAP_OPEN_* */
    uint64_t offset;           /* where the model starts in its file */
    uint64_t size;             /* the model's length from there */
    const unsigned char *base; /* the model's first byte in memory, or NULL */
    const tenmap_model *model;
    tmi_hash_key key;
    tmi_report *report; /* a check: takes the rules that are broken, and the parse goes on */
    /* For the tensors and names of a quick pass, if it finds no more than expected; or NULL, both. */
    const tmi_room *room;
    tmi_scratch *scratch;
} tmi_place;

enum { TMI_DIM_BLOCKS = 40 };

/* A dtype that is unknown here, as its header writes it. */
typedef struct tmi_opaque {
    const char *name; /* the very pointer that its tensor has */
    const char *text;
} tmi_opaque;

/* What a file says of itself as a part of a model in several files; all 0: it is none. */
typedef struct tmi_split {
    uint64_t number; /* from 0 on */
    uint64_t count;
    bool counts_tensors;
    uint64_t tensors; /* of all parts together, where it counts them */
} tmi_split;

typedef struct tmi_header {
    tmi_block text;    /* names and metadata: the JSON, unescaped in place, or those alone */
    tmi_block tensors; /* tenmap_tensor[count], in file order */
    size_t count;
    tmi_names names;                /* over the tensors, unless they are in a room */
    bool in_room;                   /* the tensors are not the header's own */
    tmi_block dims[TMI_DIM_BLOCKS]; /* what the tensors' shapes point to */
    unsigned dim_blocks;
    tenmap_metadata *metadata;
    size_t metadata_count, metadata_capacity;
    tmi_opaque *opaque; /* by the addresses of the names */
    size_t opaque_count, opaque_capacity;
    tmi_block numbers; /* the texts of metadata that is not text in the file */
    tmi_split split;
    uint64_t data_at; /* where tensors may begin, from the model's first byte on */
    bool reordered;   /* the tensors are not written in file order */
} tmi_header;

/* A pair of strings, as all of SafeTensors' are. */
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
 * What every parser does last with a tensor: where it lies, from the model's first byte on. Its
 * header_position it has before tensors are put in order.
 */
static TMI_INLINE void tmi_tensor_settle(tenmap_tensor *t, const tmi_place *place, uint64_t within,
                                         bool there, uintptr_t align_mask) {
    t->file_offset = place->offset + within;
    t->data = place->base && there ? place->base + within : NULL;
    uintptr_t address = t->data ? (uintptr_t)t->data : (uintptr_t)t->file_offset;
    t->flags = (address & align_mask) == 0 ? TENMAP_TENSOR_ALIGNED : 0;
    t->shard = place->shard;
    t->model = place->model;
}

/* Bytes before the text of a SafeTensors header, which say how long it is. */
enum { TMI_LENGTH_FIELD = 8 };

/*
 * Rules 4 to 10. `text` holds `length` bytes of JSON and at least TMI_JSON_PAD zero bytes behind
 * them; the header takes it over in either case. On failure the header is empty.
 */
tenmap_status tmi_header_parse(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error);
/* The text of a TENMAP_OPAQUE tensor's dtype. */
const char *tmi_header_opaque(const tmi_header *header, const tenmap_tensor *t);
/* Frees the tensors, where they are the header's own, and the names over them. */
void tmi_header_drop_tensors(tmi_header *header);
void tmi_header_free(tmi_header *header);

/* lint_header.c: what is allowed in a header, and seldom meant. For place->report. */

/* White space outside of strings: in front of the JSON, inside it, behind it. */
typedef struct tmi_blanks {
    size_t before, inside, behind;
    bool other_than_spaces; /* behind it: the format pads with spaces */
} tmi_blanks;

#ifndef TENMAP_NO_CHECK
tmi_blanks tmi_check_blanks(const char *text, size_t length);
void tmi_check_field(const tmi_place *place, const tenmap_tensor *t, const char *key,
                     size_t key_len, uint64_t offset);
/* A header of `length` bytes whose JSON is good; the tensors have their final fields. */
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

/* safetensors_quick.c: the header of a file that is written as most are, in one quick pass. */

/* Puts [offset, offset+size) of the file at dst; false, without a word, if it cannot be had. */
typedef bool tmi_refill(void *ctx, uint64_t offset, void *dst, size_t size);

/*
 * Reads the `length` bytes of a header through `refill`. If it is written in the usual way and
 * breaks no rule, *done is true and the header is as tmi_header_parse makes it; else the header is
 * empty and tmi_header_parse has to judge it. Fails for want of memory only.
 *
 * Tensors that go to place->room are not compared by name: who fills it looks for names that are
 * there twice.
 */
tenmap_status tmi_safetensors_quick(tmi_header *header, const tmi_place *place, size_t length,
                                    tmi_refill *refill, void *ctx, bool *done, tenmap_error *error);

/* tensor_order.c */

/*
 * Sorts by file_offset, then nbytes, whatever they mean at that moment; equal ones keep their order.
 * False, and nothing changed, without memory.
 */
bool tmi_order_tensors(tmi_block *tensors, size_t count);

/* container.c: formats of files. */

/* Where the text of a header lies, from the model's first byte on. */
typedef struct tmi_extent {
    uint64_t at, length;
    /*
     * Where only the text itself tells its length: so many of the model's first bytes are wanted to
     * say it, and find_text is asked again with them. 0: it is said.
     */
    uint64_t more;
} tmi_extent;

/* One format. shard.c knows no other. */
typedef struct tmi_container {
    const char *name; /* tenmap_shard.format */
    /* Whether a file of `size` bytes that starts so, with `len` of them at hand, is one. */
    bool (*recognise)(const unsigned char *start, size_t len, uint64_t size, uint64_t limit);
    /* Where the header is, at most `limit` bytes long; or what is wrong with the beginning. */
    tenmap_status (*find_text)(const tmi_place *place, const unsigned char *start, size_t len,
                               uint64_t limit, tmi_extent *text, tenmap_error *error);
    /* May be NULL. As tmi_safetensors_quick. */
    tenmap_status (*quick)(tmi_header *header, const tmi_place *place, size_t length,
                           tmi_refill *refill, void *ctx, bool *done, tenmap_error *error);
    /* As tmi_header_parse: takes over `text`, which has TMI_JSON_PAD zero bytes behind it. */
    tenmap_status (*parse)(tmi_header *header, const tmi_place *place, tmi_block text,
                           size_t length, tenmap_error *error);
} tmi_container;

extern const tmi_container tmi_safetensors;
extern const tmi_container tmi_gguf; /* gguf.c */
#ifdef TENMAP_TOY_CONTAINER
extern const tmi_container tmi_toy_container;
#endif

/* The first that recognises the file, or NULL. */
const tmi_container *tmi_container_of(const unsigned char *start, size_t len, uint64_t size,
                                      uint64_t limit);
/* The one that says what is wrong with a file that nobody recognises. */
const tmi_container *tmi_container_for_errors(void);

/* shard_index.c: model.safetensors.index.json. */

/* More shards than this are an attack on memory, not a model: each costs about 1.5 KB to try. */
enum { TMI_MOST_SHARDS = 100000 };
/* Nor is a folder with more names that are kept: two full sets of shards. */
enum { TMI_MOST_LISTED = 2 * TMI_MOST_SHARDS };

typedef struct tmi_listing { /* one line of weight_map */
    const char *name;
    size_t name_len;
    size_t file; /* which of the index's files */
    bool seen;
} tmi_listing;

typedef struct tmi_listed_file {
    const char *name;
    size_t name_len;
} tmi_listed_file;

typedef struct tmi_index {
    tmi_block text; /* its own copy of the JSON, unescaped in place */
    tmi_listing *listings;
    size_t listing_count, listing_capacity;
    tmi_listed_file *files; /* the distinct shards, by file name */
    size_t file_count;
    tmi_names names; /* over the listings */
    /*
     * Where the listings and the model's tensors are the same: of each listing, the number of its
     * tensor. The listings, files and names above are not there then.
     */
    uint32_t *tensors;
    /* The strings of its metadata, with TENMAP_OPEN_ALIASES. */
    tenmap_metadata *pairs;
    size_t pair_count, pair_capacity;
    bool has_total_size;
    uint64_t total_size; /* as metadata says it, where that is a plain integer */
} tmi_index;

/* Whether a file of `size` bytes that starts so is JSON text, and so can only be an index. */
bool tmi_index_recognise(const unsigned char *start, size_t len, uint64_t size);
/* As tmi_header_parse; place->path is the index's. */
tenmap_status tmi_index_parse(tmi_index *index, const tmi_place *place, tmi_block text,
                              size_t length, tenmap_error *error);
void tmi_index_free(tmi_index *index);
/* Whether a file of this name lies beside the index, or inside its folder where the flags allow it. */
bool tmi_index_safe_name(const char *name, size_t len, uint32_t flags);
/* For qsort and bsearch, of records that begin with a tmi_listed_file. */
int tmi_by_file_name(const void *a, const void *b);

/* shard_index_quick.c: the lines of an index that is written as most are, as they stand in its text. */

typedef struct tmi_line {
    const char *name; /* no NUL behind it */
    uint32_t name_len;
    uint32_t file; /* in the order in which they are first named: place_of has its place */
} tmi_line;

typedef struct tmi_outlined_file {
    tmi_listed_file listed; /* no NUL behind its name */
    size_t lines;           /* that name it */
    uint32_t number;        /* in the order in which they are first named */
} tmi_outlined_file;

typedef struct tmi_outline {
    tmi_block block; /* of the lines */
    tmi_line *lines;
    size_t count;
    tmi_outlined_file *files; /* the distinct shards, by file name */
    size_t file_count;
    uint32_t *place_of; /* of each file by its number: which of `files` it is */
} tmi_outline;

/*
 * If the index is written in the usual way and breaks no rule but perhaps that a name is listed once,
 * *done is true; else the outline is empty and tmi_index_parse has to judge it. `text` has
 * TMI_JSON_PAD zero bytes behind it, and must outlive the outline. Fails for want of memory only.
 */
tenmap_status tmi_index_quick(tmi_outline *outline, const tmi_place *place, const char *text,
                              size_t length, bool *done, tenmap_error *error);
void tmi_outline_free(tmi_outline *outline);

#endif
