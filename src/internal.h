/*
 * What the modules of the library know of each other. Dependencies point one way:
 *
 *     model -> shard -> canonical, header -> json -> utf8
 *     model -> folder, index -> json
 *     read, load -> transfer -> convert -> kernels, cpu, dtype
 *     transfer -> shard; load -> parallel
 *     residency -> prefetch -> shard
 *     writer, copy, edit, save -> layout, record -> file_write (see write.h)
 *     check -> model, header, index -> oddities -> report (only where a report is wanted)
 *     measure -> transfer, parallel, kernels
 *     all   -> error, memory, file
 *
 * Names with external linkage start with tmi_; everything else is static. No two files use the same
 * static name, so that they can be joined into one.
 */
#ifndef TENMAP_INTERNAL_H
#define TENMAP_INTERNAL_H

#include "../include/tenmap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TMI_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define TMI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TMI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TMI_NOINLINE __attribute__((noinline))
#define TMI_INLINE inline __attribute__((always_inline))
#else
#define TMI_PRINTF(at, first)
#define TMI_LIKELY(x) (x)
#define TMI_UNLIKELY(x) (x)
#define TMI_NOINLINE
#define TMI_INLINE inline
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TMI_BIG_ENDIAN 1
#else
#define TMI_BIG_ENDIAN 0
#endif

/* What printf's %llu takes. */
typedef unsigned long long ull;

/* error.c: sentences for people. */

/* Text that came from outside, made fit to print: quoted, escaped, shortened in the middle. */
typedef struct tmi_quoted {
    char text[164];
} tmi_quoted;

/*
 * Use inside the argument list of tmi_fail only: tmi_quote(name, len).text. The limit is on what is
 * shown: 96 bytes for a name, 144 for a path.
 */
tmi_quoted tmi_quote(const char *bytes, size_t len);
tmi_quoted tmi_quote_path(const char *path);
/* "1 byte", "16 bytes". */
tmi_quoted tmi_count(uint64_t n, const char *noun);

/* The first few of many names, for a sentence: "a", "b" and 3 more. Starts zeroed. */
typedef struct tmi_list {
    char text[260];
    size_t used, shown, count;
} tmi_list;

void tmi_list_add(tmi_list *list, const char *name, size_t len);
const char *tmi_list_end(tmi_list *list);

/* Fills *error if there is one, and returns status so that callers can `return tmi_fail(...)`. */
tenmap_status tmi_fail(tenmap_error *error, tenmap_status status, const char *format, ...)
    TMI_PRINTF(3, 4);
/* The same, for a place in a file. */
tenmap_status tmi_fail_at(tenmap_error *error, tenmap_status status, uint32_t shard,
                          uint64_t offset, const char *format, ...) TMI_PRINTF(5, 6);
/* A refusal of the system: picks the status for os_error and appends its text. */
tenmap_status tmi_fail_os(tenmap_error *error, int os_error, const char *format, ...)
    TMI_PRINTF(3, 4);
/* TENMAP_ERR_MEMORY with what the bytes were for. */
tenmap_status tmi_fail_memory(tenmap_error *error, uint64_t bytes, const char *what);
/* Adds to the message of an error that was filled before; does nothing without one. */
void tmi_fail_more(tenmap_error *error, const char *format, ...) TMI_PRINTF(2, 3);

/* options.c: structs of options that grow. */

/* One of them: a struct whose first field is size_t struct_size. */
typedef struct tmi_options_kind {
    const char *name, *init; /* the struct and the macro that starts it */
    size_t size;             /* as this library knows it */
    size_t first_size;       /* as the first version had it: the least that is taken */
} tmi_options_kind;

/* Fills *out with what was given, zeros where it is NULL or shorter; refuses an unknown tail. */
tenmap_status tmi_options_take(const tmi_options_kind *kind, const void *given, void *out,
                               tenmap_error *error);

/*
 * file.c, or file_win32.c: the operating system. The file*.c alone know which one it is; what does
 * not depend on it is in file_common.c.
 */

enum { TMI_FILE_REGULAR, TMI_FILE_FOLDER, TMI_FILE_OTHER };

/* An open file, or bytes in memory that stand for one. Close with tmi_file_close. */
typedef struct tmi_file {
    int fd;                      /* -1 for memory */
    int kind;                    /* TMI_FILE_* */
    const unsigned char *memory; /* borrowed; NULL for a real file */
    uint64_t size;               /* of the whole file, when it was opened */
    int64_t modified[2];         /* its time of modification then: seconds, nanoseconds */
    void *map;                   /* what tmi_file_map took, or NULL */
    size_t map_size;
    uint64_t map_offset; /* where the mapping starts in the file, a multiple of the page size */
} tmi_file;

/* These return 0 or an errno. A folder opens as TMI_FILE_FOLDER with no descriptor kept. */
int tmi_file_open(tmi_file *file, const char *path);
int tmi_file_dup(tmi_file *file, int fd);
void tmi_file_memory(tmi_file *file, const void *bytes, size_t size);
void tmi_file_close(tmi_file *file);
/* Reads until `size` bytes or the end of the file; *got says how many came. */
int tmi_file_read(const tmi_file *file, uint64_t offset, void *dst, size_t size, size_t *got);
/* One read of a descriptor, as much as the system gives; *got is 0 at the end of the file. */
int tmi_fd_read(int fd, uint64_t offset, void *dst, size_t size, size_t *got);
/* Maps [offset, offset+size) for reading; *base is the address of the byte at offset. */
int tmi_file_map(tmi_file *file, uint64_t offset, uint64_t size, const unsigned char **base);

/*
 * Whether the file has another size or time of modification than when it was opened, and which size
 * (may be NULL). Both are set before other bytes can be read, so bytes that were read before this
 * says no are those of the file as it was opened.
 */
bool tmi_file_changed(const tmi_file *file, uint64_t *size_now);

/*
 * A second descriptor of the same open file that reads around the page cache, or -1; its owner
 * closes it with tmi_direct_close. Offset, address and size of such reads are multiples of
 * TMI_DIRECT_ALIGN.
 */
enum { TMI_DIRECT_ALIGN = 4096 };
int tmi_direct_open(const tmi_file *file);
void tmi_direct_close(int fd);
int tmi_file_read_direct(int fd, uint64_t offset, void *dst, size_t size, size_t *got);

/*
 * The pages of a mapping. [begin, end) are offsets in the file, multiples of the page size, inside
 * the mapping. These return 0 or an errno.
 */
size_t tmi_page_size(void);
void *tmi_map_address(const tmi_file *file, uint64_t offset);
/* Brings them in; EFAULT if the file has no such bytes any more, or its storage cannot be read. */
int tmi_map_populate(const tmi_file *file, uint64_t begin, uint64_t end);
/* The same with nothing but reads. */
int tmi_map_touch(const tmi_file *file, uint64_t begin, uint64_t end);
int tmi_map_release(const tmi_file *file, uint64_t begin, uint64_t end);
int tmi_map_lock(const tmi_file *file, uint64_t begin, uint64_t end);
int tmi_map_unlock(const tmi_file *file, uint64_t begin, uint64_t end);
/* How much a process may lock; UINT64_MAX if that is not limited. *remedy: how to raise it. */
uint64_t tmi_lock_limit(const char **remedy);
/* How much of the page at `at`, `page` bytes long, is inside [begin, end). */
uint64_t tmi_page_overlap(uint64_t at, uint64_t page, uint64_t begin, uint64_t end);
/* How many of these bytes of memory are mapped to pages now. ENOTSUP where nothing tells. */
int tmi_memory_mapped(const void *at, size_t size, uint64_t *bytes);
/* How many bytes [begin, end) of the file, not page-aligned, the page cache has. */
int tmi_file_cached(const tmi_file *file, uint64_t begin, uint64_t end, uint64_t *bytes);

/* Calls `entry` with each name in a folder but "." and ".."; stops early if it returns false. */
int tmi_folder_list(const char *path, bool (*entry)(void *ctx, const char *name), void *ctx);
/* Whether the path is there and is a folder. */
bool tmi_is_folder(const char *path);

/* Zeroed pages from the system, on huge pages where it has them; NULL if it refuses. */
void *tmi_pages_take(size_t size);
void tmi_pages_give(void *pages, size_t size);
/* Likewise, aligned to 2 MiB, and with its size noted in front of it for tmi_aligned_give. */
void *tmi_aligned_take(size_t size);
void tmi_aligned_give(void *pages);
/* Gives back the whole pages behind the first `used` bytes and lowers *size to what is left. */
void tmi_pages_trim(void *pages, size_t *size, size_t used);
void tmi_random(void *dst, size_t size);
unsigned tmi_cpu_count(void);

/* Which process this is: another one after fork. */
long tmi_process(void);

/* A thread of the library: it blocks all signals. Returns 0 or an errno; join with pthread_join. */
int tmi_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

/* file_names.c: names of files. */

/* Whether a path can end its folder part with this character. */
bool tmi_is_separator(char c);
/* The length of the path's folder part, separator included; 0 if it has none. */
size_t tmi_folder_part(const char *path);
/* The folder that the path is in, "." where it names none; NULL without memory. */
char *tmi_folder_of(const char *path);
/* `name` in the folder, which is empty (the current one) or a path. */
char *tmi_join_path(const char *folder, size_t folder_len, const char *name, size_t name_len);
/* Whether Windows takes a name for a device, a stream, a pattern or another name. */
bool tmi_windows_reserves(const char *name, size_t len);
/* Whether this system takes a name without separators for that of a file. */
bool tmi_names_a_file(const char *name, size_t len);

/* memory.c: allocation with checked sizes. */

/* count * size bytes, zeroed; NULL if the product overflows or memory is out. */
void *tmi_calloc(size_t count, size_t size);
/*
 * Makes room for one more record in a growing array: returns it, moved if need be, with *capacity
 * raised; NULL (and the old array still valid) if memory is out.
 */
void *tmi_grow(void *array, size_t used, size_t *capacity, size_t size);
/* A copy of the text with a NUL behind it. */
char *tmi_copy_text(const char *text, size_t len);

/* A large zeroed allocation: small ones from malloc, large ones straight from the system. */
typedef struct tmi_block {
    void *bytes;   /* NULL when there is none */
    size_t mapped; /* the length to give back to the system; 0: malloc's */
} tmi_block;

bool tmi_block_take(tmi_block *block, size_t size);
/* The same, not zeroed. */
bool tmi_block_take_dirty(tmi_block *block, size_t size);
/* Gives back what lies behind the first `used` bytes, where that can be done. */
void tmi_block_trim(tmi_block *block, size_t used);
/* The same, for a block that must stay where it is. */
void tmi_block_trim_pages(tmi_block *block, size_t used);
void tmi_block_free(tmi_block *block);

/* names.c: a hash index over records that begin with {const char *name; size_t name_len}. */

typedef struct tmi_hash_key {
    uint64_t k[2];
} tmi_hash_key;

/* Holds what a lookup compares, so that it need not wait for the record on its way to the name. */
typedef struct tmi_slot {
    uint32_t record; /* its number + 1; 0 is free */
    uint16_t tag;    /* of the hash */
    uint16_t len;    /* of the name; UINT16_MAX: that or more */
    const char *name;
} tmi_slot;

static inline tmi_slot tmi_slot_of(uint32_t record, uint64_t hash, const char *name, size_t len) {
    uint16_t shown = len < UINT16_MAX ? (uint16_t)len : UINT16_MAX;
    return (tmi_slot){record, (uint16_t)(hash >> 48), shown, name};
}

typedef struct tmi_names {
    tmi_block block;
    tmi_slot *slots;
    size_t mask;
    const char *records;
    size_t stride;
    tmi_hash_key key;
} tmi_names;

#define TMI_NONE ((size_t)-1)

tmi_hash_key tmi_hash_key_new(void);
uint64_t tmi_hash(const tmi_hash_key *key, const char *name, size_t len);
/* False if memory is out. At most 2^32 - 2 records. */
bool tmi_names_init(tmi_names *names, const tmi_hash_key *key, const void *records, size_t stride,
                    size_t count);
/* Doubles the room after `count` records were entered; false, and nothing changed, without memory.
 */
bool tmi_names_double(tmi_names *names, size_t count);
void tmi_names_free(tmi_names *names);
/* Brings the place where this hash belongs into the cache, for a put that follows soon. */
static inline void tmi_names_prefetch(const tmi_names *names, uint64_t hash) {
#if defined(__GNUC__)
    __builtin_prefetch(&names->slots[hash & names->mask], 1);
#else
    (void)names, (void)hash;
#endif
}
/* Enters record i; returns the number of an earlier one with the same name instead, or TMI_NONE. */
size_t tmi_names_put(tmi_names *names, size_t i, uint64_t hash);
size_t tmi_names_find(const tmi_names *names, const char *name, size_t len, uint64_t hash);

/* utf8.c */

/* The length (1 to 4) of the valid character at s, or 0. */
size_t tmi_utf8_char(const unsigned char *s, size_t left);
/* The offset of the first byte that is not valid UTF-8; len if all is. */
size_t tmi_utf8_valid(const char *bytes, size_t len);

/* dtype.c: the one table of element types. */

enum { TMI_DTYPE_COUNT = TENMAP_U64 + 1 };
enum {
    TMI_KIND_NONE,
    TMI_KIND_BOOL,
    TMI_KIND_UINT,
    TMI_KIND_INT,
    TMI_KIND_FLOAT,
    TMI_KIND_COMPLEX
};

typedef struct tmi_dtype_info {
    const char *name;
    uint8_t name_len;
    uint8_t bits;  /* per element; 0 for the entry of TENMAP_AS_STORED */
    uint8_t align; /* bytes that a C object of this type wants; 1 below a byte */
    uint8_t kind;  /* TMI_KIND_* */
} tmi_dtype_info;

extern const tmi_dtype_info tmi_dtypes[TMI_DTYPE_COUNT];

/* The dtype of a name of `len` bytes, or TENMAP_AS_STORED if it is unknown. */
tenmap_dtype tmi_dtype_find(const char *name, size_t len);

/* foreign.c: files that are something else. */

/*
 * What a file that is not SafeTensors is, and what to do about it, as a part of a sentence ("this
 * is a Git LFS pointer ..."); NULL if its first bytes are not known. `size` is the whole file's.
 * *show says whether a reader would want to see how it begins.
 */
const char *tmi_foreign(const unsigned char *start, size_t len, uint64_t size, bool *show);

/* report.c: what a check finds. */

enum { TMI_FOUND_COUNT = TENMAP_FOUND_INTERRUPTED_EDIT + 1, TMI_SEVERITY_COUNT = 4 };

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

/* An oddity: a sentence of its own, made only if it is wanted. */
#define TMI_REPORT(report, severity, code, shard, offset, tensor, ...)                             \
    do {                                                                                           \
        tenmap_error said_;                                                                        \
        if (!tmi_report_full(report, TENMAP_FINDING_##severity, TENMAP_FOUND_##code)) {            \
            tmi_fail_at(&said_, TENMAP_OK, shard, offset, __VA_ARGS__);                            \
            tmi_report_say(report, TENMAP_FINDING_##severity, TENMAP_FOUND_##code, shard, tensor,  \
                           &said_);                                                                \
        }                                                                                          \
    } while (0)

/* header.c: the bytes before the tensors. No I/O. */

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
} tmi_place;

enum { TMI_DIM_BLOCKS = 40 };

typedef struct tmi_header {
    tmi_block text;    /* names and metadata: the JSON, unescaped in place, or those alone */
    tmi_block tensors; /* tenmap_tensor[count], in file order */
    size_t count;
    tmi_names names;                /* over the tensors */
    tmi_block dims[TMI_DIM_BLOCKS]; /* what the tensors' shapes point to */
    unsigned dim_blocks;
    tenmap_metadata *metadata;
    size_t metadata_count, metadata_capacity;
} tmi_header;

/* Whether the length field, the first 8 bytes of a file of `size`, passes rules 1 to 3. */
bool tmi_header_plausible(const unsigned char *start, size_t len, uint64_t size, uint64_t limit);
/*
 * Rules 1 to 3: the length of the JSON text, from the first bytes of a file of place->size bytes
 * (`len` of them, at least 8 where the file has them; more help to recognise foreign files).
 */
tenmap_status tmi_header_length(const tmi_place *place, const unsigned char *start, size_t len,
                                uint64_t limit, uint64_t *length, tenmap_error *error);
/*
 * Rules 4 to 10. `text` holds `length` bytes of JSON and at least TMI_JSON_PAD zero bytes behind
 * them; the header takes it over in either case. On failure the header is empty.
 */
tenmap_status tmi_header_parse(tmi_header *header, const tmi_place *place, tmi_block text,
                               size_t length, tenmap_error *error);
void tmi_header_free(tmi_header *header);

/* oddities.c: what is allowed in a header, and seldom meant. For place->report. */

/* White space outside of strings: in front of the JSON, inside it, behind it. */
typedef struct tmi_blanks {
    size_t before, inside, behind;
    bool other_than_spaces; /* behind it: the format pads with spaces */
} tmi_blanks;

tmi_blanks tmi_check_blanks(const char *text, size_t length);
void tmi_check_field(const tmi_place *place, const tenmap_tensor *t, const char *key,
                     size_t key_len, uint64_t offset);
/* A header of `length` bytes whose JSON is good; the tensors have their final fields. */
void tmi_check_header(const tmi_place *place, const tmi_header *header, size_t length,
                      const tmi_blanks *blanks, bool in_order);

/* canonical.c: the header of a file that is written as most are, in one quick pass. */

/*
 * Reads the header's `length` bytes at place->offset + 8. If it is written in the usual way and
 * breaks no rule, *done is true and the header is as tmi_header_parse makes it; else the header is
 * empty and tmi_header_parse has to judge it. Fails for want of memory only.
 */
tenmap_status tmi_canonical_parse(tmi_header *header, const tmi_place *place, const tmi_file *file,
                                  size_t length, bool *done, tenmap_error *error);

/* index.c: model.safetensors.index.json. No I/O. */

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
    bool has_total_size;
    uint64_t total_size; /* as metadata says it, where that is a plain integer */
} tmi_index;

/* Whether a file that starts so is JSON text, and so can only be an index. */
bool tmi_index_recognise(const unsigned char *start, size_t len);
/* As tmi_header_parse; place->path is the index's. */
tenmap_status tmi_index_parse(tmi_index *index, const tmi_place *place, tmi_block text,
                              size_t length, tenmap_error *error);
void tmi_index_free(tmi_index *index);

/* folder.c: which model is in a folder. */

typedef struct tmi_choice {
    char **names; /* a model or an index, or all files of a numbered set, those missing included */
    size_t count;
    bool is_set;
} tmi_choice;

tenmap_status tmi_folder_choose(tmi_choice *choice, const char *path, tenmap_error *error);
void tmi_choice_free(tmi_choice *choice);
/* Whether this is the name of a part of a numbered set: name-00001-of-00005.safetensors. */
bool tmi_is_numbered_name(const char *name);

/* shard.c: one file of a model. */

/* options.max_header_bytes, or its default, the reference's. */
uint64_t tmi_header_limit(const tenmap_options *options);
/* More shards than this are an attack on memory, not a model: each costs about 1.5 KB to try. */
enum { TMI_MOST_SHARDS = 100000 };
/* Enough of a file's beginning to know what it is. */
enum { TMI_START = 512 };

typedef struct tmi_shard {
    tenmap_shard view; /* what callers see */
    uint32_t number;   /* among those that the index or the set names, missing ones included */
    tmi_file file;
    tmi_header header;
    char *path;        /* owned; NULL stands for "" */
    const char *name;  /* the part of the path that the index or the set gives */
    uint64_t size;     /* the model's length in the file, from options.offset on */
    const char *shown; /* the path for errors */
} tmi_shard;

/*
 * Opening goes in steps: fill shard->file (tmi_file_open, _dup or _memory) and shown, then
 * tmi_shard_start, which reads the first bytes into start[TMI_START], then tmi_shard_parse. On
 * failure the caller still closes the shard.
 */
tenmap_status tmi_shard_start(tmi_shard *shard, const tenmap_options *options, unsigned char *start,
                              size_t *len, tenmap_error *error);
tenmap_status tmi_shard_parse(tmi_shard *shard, const tenmap_options *options,
                              const tenmap_model *model, const tmi_hash_key *key, uint32_t number,
                              const unsigned char *start, size_t len, tenmap_error *error);
/* Reads exactly [offset, offset+size) of the file; TENMAP_ERR_IO with the numbers if it is shorter.
 */
tenmap_status tmi_shard_read(const tmi_shard *shard, uint64_t offset, void *dst, size_t size,
                             const tenmap_tensor *tensor, tenmap_error *error);
/* Reads `length` bytes of JSON at `offset` into a block, padded as the JSON reader wants it. */
tenmap_status tmi_shard_read_text(const tmi_shard *shard, uint64_t offset, size_t length,
                                  tmi_block *text, tenmap_error *error);
void tmi_shard_close(tmi_shard *shard);

/* record.c: what an interrupted metadata edit leaves. */

/* Adds to the error of a file that does not open if the record of an edit lies beside it. */
void tmi_record_note(const char *path, tenmap_error *error);
/* For a check: whether one lies beside the file, opened or not. */
void tmi_record_check(const char *path, tmi_report *report, uint32_t shard);

/* model.c */

/* tenmap_open for tenmap_check: what is broken goes to the report, and the rest is looked at. */
tenmap_status tmi_open_reporting(const char *path, const tenmap_options *options,
                                 tmi_report *report, tenmap_error *error);

typedef struct tmi_prefetch tmi_prefetch; /* prefetch.c */

struct tenmap_model {
    char *path;
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
    char *index_json;
    size_t index_len;
    char **missing;
    size_t missing_count;
    uint64_t file_size;
    tmi_report *report; /* only inside tenmap_check */
    /* The one part that changes after opening; made when it is first wanted. */
    _Atomic(tmi_prefetch *) prefetch;
};

/* join.c: several shards as one model. */

/*
 * Brings the tensors, names and metadata of model->shards together; `index` (or NULL for a numbered
 * set) says which shard a tensor is taken from, `file_shard` where each of its files is among the
 * shards, TMI_NONE for one that is missing.
 */
tenmap_status tmi_join(tenmap_model *model, tmi_index *index, const size_t *file_shard,
                       uint32_t flags, tenmap_error *error);

/* check.c: where the index and its shards do not agree. For model->report. */

/* A tensor of model->shards[shard], as it is joined. */
void tmi_check_joined(const tenmap_model *model, const tmi_index *index, const size_t *file_shard,
                      size_t shard, const tenmap_tensor *t, uint64_t hash);
/* When all shards are joined. */
void tmi_check_listings(const tenmap_model *model, const tmi_index *index,
                        const size_t *file_shard);
void tmi_check_index(const tenmap_model *model, const tmi_index *index, const char *path);

/* transfer.c: elements of a tensor, selected, converted and put where the caller wants them. */

/* "path": tensor "name", as errors about a tensor begin. */
#define TMI_FAIL_TENSOR(error, status, t, format, ...)                                             \
    tmi_fail_at(error, status, (t)->shard, (t)->file_offset, "%s: tensor %s: " format,             \
                tmi_quote_path(tmi_shard_of(t)->shown).text,                                       \
                tmi_quote((t)->name, (t)->name_len).text, __VA_ARGS__)

const tmi_shard *tmi_shard_of(const tenmap_tensor *tensor);
/* The dtype as the file has it, which may be any text at all. */
tmi_quoted tmi_stored_dtype(const tenmap_tensor *tensor);

/*
 * A block of a tensor. The trailing dimensions that are taken whole make one contiguous run with
 * the first that is not; what is left are the dimensions to walk. Those of one index only add to
 * the start, and there are at most 63 others, since each at least doubles a count that fits in 64
 * bits. A range of elements is a block of one run.
 */
enum { TMI_MOST_WALKED = 64 };

typedef struct tmi_transfer {
    const tenmap_tensor *tensor;
    tenmap_dtype as;
    uint32_t flags; /* TENMAP_CONVERT_* */
    unsigned from_bits, to_bits;
    unsigned char *dst;
    uint64_t start; /* of the first run, in elements */
    uint64_t run;   /* elements per run */
    uint64_t count; /* elements in all; 0: the fields above and below mean nothing */
    unsigned walked;
    uint64_t extent[TMI_MOST_WALKED], stride[TMI_MOST_WALKED]; /* innermost first */
} tmi_transfer;

/* Checking, in this order: the tensor and its dtypes; a range or a block (NULL, NULL: all of it);
 * the destination. */
tenmap_status tmi_transfer_begin(tmi_transfer *x, const tenmap_tensor *t, tenmap_dtype as,
                                 uint32_t flags, tenmap_error *error);
tenmap_status tmi_transfer_range(tmi_transfer *x, uint64_t first, uint64_t count,
                                 tenmap_error *error);
tenmap_status tmi_transfer_block(tmi_transfer *x, const uint64_t *begin, const uint64_t *end,
                                 tenmap_error *error);
tenmap_status tmi_transfer_target(tmi_transfer *x, void *dst, size_t dst_bytes,
                                  tenmap_error *error);
/*
 * Decides, unless the caller did, whether results go around the cache; `bytes` is the size of all
 * of them together. tmi_transfer_target decides by the transfer's own size.
 */
void tmi_transfer_stream(tmi_transfer *x, uint64_t bytes);

/* The bytes that `count` elements of this many bits take. */
uint64_t tmi_packed_bytes(uint64_t count, unsigned bits);
/*
 * The bytes of the file from the first to the last that elements [first, first+count) of the
 * transfer, at least one, are in.
 */
void tmi_transfer_extent(const tmi_transfer *x, uint64_t first, uint64_t count, uint64_t *begin,
                         uint64_t *end);
/* Whether the runs lie so close together that reading through the gaps is cheap. */
bool tmi_transfer_is_dense(const tmi_transfer *x);

/* Where a shard's bytes come from: the mapping, or a window of the file that moves forward. */
typedef struct tmi_source {
    const tmi_shard *shard;
    int direct_fd;         /* reads around the page cache, where it is not -1 */
    unsigned char *window; /* NULL: what is in memory is used where it lies */
    size_t window_size;
    uint64_t at, end; /* which bytes of the file the window holds */
    uint64_t last;    /* no byte of the file at or behind this one will be wanted */
    bool ahead;       /* what lies behind the bytes that are wanted is worth reading with them */
} tmi_source;

/*
 * Elements [first, first+count) of the transfer, to their place in dst. With 4- and 6-bit
 * destinations `first` is a multiple of 8, so that two such calls never share a byte.
 */
tenmap_status tmi_transfer_run(const tmi_transfer *x, tmi_source *source, uint64_t first,
                               uint64_t count, tenmap_error *error);

/* prefetch.c: bringing pages in, in windows, now or on a thread of the model's own. */

/* A part of a shard's file, in bytes from the file's beginning. */
typedef struct tmi_span {
    const tmi_shard *shard;
    uint64_t begin, end;
} tmi_span;

/* Whole pages: all that hold a byte of the span, or only those that hold no other tensor's. */
tmi_span tmi_span_outward(tmi_span span);
tmi_span tmi_span_inward(tmi_span span);

/* Maps the pages that hold the span. Returns 0 or an errno, with *at where it stopped. */
int tmi_populate(tmi_span span, uint64_t *at);

/*
 * Maps a mapped model's span at once: a fraction of the cost of one fault after the other when it is
 * in the page cache, and reads of megabytes when it is not. A file that was truncated is an error
 * about the tensor here and not a signal later. Refusals of another kind leave it to the faults.
 */
tenmap_status tmi_bring_in(tmi_span span, const tenmap_tensor *t, tenmap_error *error);

/* Puts the span behind those that wait, and starts the thread if there is none. */
tenmap_status tmi_prefetch_add(const tenmap_model *model, tmi_span span, tenmap_error *error);
/* Forgets those that wait and lie inside the span. */
void tmi_prefetch_drop(const tenmap_model *model, tmi_span span);
/* If bytes of the span are to be prefetched, has them prefetched first, and waits until they are.
 */
void tmi_prefetch_wait(const tenmap_model *model, tmi_span span);
/* Stops after the window under way and joins the thread. Part of closing. */
void tmi_prefetch_end(tenmap_model *model);

/* convert.c: numbers. */

/*
 * Whether elements of `from` can become `to` under these TENMAP_CONVERT_* flags. UNSUPPORTED or
 * ARGUMENT with a sentence otherwise. Neither dtype may be TENMAP_AS_STORED.
 */
tenmap_status tmi_convert_check(tenmap_dtype to, tenmap_dtype from, uint32_t flags,
                                tenmap_error *error);

/*
 * Converts `count` elements of a pair that passed the check. The source is in file order
 * (little-endian) and starts at bit src_bit (0..7, for 4- and 6-bit dtypes) of *src; the result is
 * in host order and starts at bit dst_bit of *dst. Bits of *dst before dst_bit are kept; spare bits
 * after the last element of the last byte become 0. Any alignment; no overlap.
 */
void tmi_convert_file(tenmap_dtype to, void *dst, unsigned dst_bit, tenmap_dtype from,
                      const void *src, unsigned src_bit, uint64_t count, uint32_t flags);

/* parallel.c: work split over threads. */

enum { TMI_MOST_THREADS = 64 };

typedef void tmi_work(void *ctx, size_t part);

/*
 * Calls work(ctx, part) once for each part below `parts`, on up to `threads` threads, the caller's
 * among them, and returns when all are done. Parts are handed out in order, one at a time, so a
 * thread that falls behind takes fewer. Threads that the system refuses are done without; those
 * that it grants block all signals and are joined before the return.
 */
void tmi_parallel(unsigned threads, size_t parts, tmi_work *work, void *ctx);

#endif
