/*
 * tenmap: check a model. tenmap_check gives tenmap_open's verdict with all reasons, and everything
 * that is merely odd. The opening comment of tenmap.h says what holds for all calls.
 */
#ifndef TENMAP_INCLUDE_CHECK_H
#define TENMAP_INCLUDE_CHECK_H

#include "read.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tenmap_finding.severity */
enum {
    TENMAP_FINDING_NOTE = 1,    /* allowed, and worth knowing */
    TENMAP_FINDING_WARNING = 2, /* opens, but something is probably not as intended */
    TENMAP_FINDING_ERROR = 3    /* tenmap_open refuses the model with these options */
};

/*
 * tenmap_finding.code: the kind of finding. Values never change; new ones are appended. These are
 * errors, except those that options.flags allow, which are then warnings:
 */
enum {
    TENMAP_FOUND_UNREADABLE = 1,      /* a shard that the system refuses to read */
    TENMAP_FOUND_MISSING_SHARD = 2,   /* one finding for all together, then one for each */
    TENMAP_FOUND_FOREIGN = 3,         /* not a SafeTensors file: a Git LFS pointer, a zip, ... */
    TENMAP_FOUND_LIMIT = 4,           /* max_header_bytes, the most shards, the most tensors */
    TENMAP_FOUND_TRUNCATED = 5,       /* the file is shorter than its header says */
    TENMAP_FOUND_JSON = 6,            /* not UTF-8, not JSON; ends the check of that header */
    TENMAP_FOUND_ENTRY = 7,           /* an entry that is not dtype, shape and data_offsets */
    TENMAP_FOUND_METADATA = 8,        /* not an object of strings, or present twice */
    TENMAP_FOUND_DTYPE = 9,           /* an unknown one */
    TENMAP_FOUND_DUPLICATE_NAME = 10, /* of a tensor, in a header or in the index */
    TENMAP_FOUND_DUPLICATE_KEY = 11,  /* in __metadata__ */
    TENMAP_FOUND_OFFSETS = 12,        /* data_offsets that end before they begin */
    TENMAP_FOUND_OVERLAP = 13,
    TENMAP_FOUND_HOLE = 14,
    TENMAP_FOUND_OVERFLOW = 15,     /* a size that 64 bits do not hold */
    TENMAP_FOUND_PART_OF_BYTE = 16, /* 4- or 6-bit elements that end inside a byte */
    TENMAP_FOUND_SIZE = 17,         /* data_offsets and shape do not agree */
    TENMAP_FOUND_TRAILING = 18,     /* bytes after the last tensor */
    TENMAP_FOUND_INCOMPLETE = 19,   /* a tensor that a truncated file lacks in part or whole */
    TENMAP_FOUND_INDEX = 20,        /* not JSON, or no weight_map */
    TENMAP_FOUND_SHARD_NAME = 21,   /* a shard that would lie outside of the index's folder */
    /* Listed in a shard that lacks it (an error); in another shard than listed (a warning). */
    TENMAP_FOUND_NOT_IN_SHARD = 22,
    /* Oddities: warnings, or notes where they are harmless. */
    TENMAP_FOUND_NOT_LISTED = 23,    /* in a shard, but not in the index */
    TENMAP_FOUND_IN_TWO_SHARDS = 24, /* an error where no index says which one to take */
    TENMAP_FOUND_EXTRA_SHARD = 25,   /* a numbered file beside the index that it does not name */
    TENMAP_FOUND_TOTAL_SIZE = 26,    /* the index's: missing (a note), or wrong */
    TENMAP_FOUND_MISALIGNED = 27,    /* a tensor that cannot be used in place */
    TENMAP_FOUND_DATA_START = 28,    /* the data does not begin at a multiple of 8 */
    TENMAP_FOUND_WHITE_SPACE = 29,   /* around or inside the header's JSON */
    TENMAP_FOUND_SLACK = 30,         /* a header that is longer than necessary */
    TENMAP_FOUND_ORDER = 31,         /* the header's order is not that of the data */
    TENMAP_FOUND_UNKNOWN_FIELD = 32, /* in a tensor's entry */
    TENMAP_FOUND_NO_FORMAT = 33,     /* no "format" in the metadata */
    TENMAP_FOUND_EMPTY_TENSOR = 34,
    TENMAP_FOUND_NO_TENSORS = 35,
    TENMAP_FOUND_NAME = 36,             /* empty, a control character, outer spaces, __x__ */
    TENMAP_FOUND_INTERRUPTED_EDIT = 37, /* its record lies beside the file */
    /* With TENMAP_OPEN_DEQUANTIZE: parts of a weight, or config.json, do not fit (an error). */
    TENMAP_FOUND_PARTS = 38,
    /*
     * A PyTorch file's pickle names a class or a function outside of the fixed list of those that
     * stand for data (a warning): Python would import it, and perhaps call it. It is not run here,
     * and the model opens; `tenmap check` exits with 1.
     */
    TENMAP_FOUND_CODE = 39
};

/* tenmap_finding.shard of a finding about the index, the folder or the model as a whole. */
#define TENMAP_NO_SHARD ((uint32_t)-1)

/* One finding. It and its strings live until the callback returns. */
typedef struct tenmap_finding {
    uint32_t severity;   /* TENMAP_FINDING_* */
    uint32_t code;       /* TENMAP_FOUND_* */
    uint32_t shard;      /* by file name, missing ones counted; 0 for a single file */
    uint32_t remedy;     /* TENMAP_REMEDY_*; NONE where options.flags allow it already */
    uint64_t offset;     /* in that file, where one applies; else 0 */
    const char *tensor;  /* its name, NUL-terminated, where one applies; else NULL */
    const char *message; /* as in tenmap_error: it names the file and the tensor */
    uint64_t count;      /* how many findings it stands for: 1, or the rest of its kind */
    /* Of TENMAP_FOUND_CODE, where count is 1: what Python would import ("posix.system", escaped and
       shortened as in messages), and whether it would call it too. Otherwise NULL and 0. */
    const char *global;
    uint32_t called;
    uint32_t reserved; /* 0 */
} tenmap_finding;

#ifndef TENMAP_NO_CHECK
/*
 * Calls `found` with everything that is wrong or odd about what `path` holds, on the caller's
 * thread, in the order in which it is found. If tenmap_open refuses the model with these options,
 * there is at least one error, and the first is tenmap_open's; if it opens, there is none. (Limits
 * of the process, its descriptors and its address space, are not checked: shards are opened one at
 * a time, and none is mapped.) After a broken rule the check continues with the next tensor and the
 * next shard; only text that is not JSON ends it for that file. Of each code and severity the first
 * 32 are reported one by one. If there are more, a last finding has their number in `count`.
 *
 * TENMAP_OK if the check could be carried out, whatever it found. Otherwise, as with a path that
 * does not exist or a folder that does not hold one model, the error says why; findings may have
 * come before it. Reads headers only, no tensor data. Time and memory are linear in them (except
 * for a sort where tensors are out of order). options.backend and threads are ignored.
 */
TENMAP_API tenmap_status tenmap_check(const char *path, const tenmap_options *options,
                                      void (*found)(void *ctx, const tenmap_finding *finding),
                                      void *ctx, tenmap_error *error);

/* "hole" for TENMAP_FOUND_HOLE, for programs; "unknown" for an unknown value. Static. */
TENMAP_API const char *tenmap_found_name(uint32_t code);
#endif

#ifdef __cplusplus
}
#endif

#endif
