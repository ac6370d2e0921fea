/*
 * tenmap: versions, status codes, element types, metadata types, errors. tenmap.h says what holds
 * for all of them.
 */
#ifndef TENMAP_INCLUDE_TYPES_H
#define TENMAP_INCLUDE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define TENMAP_VERSION_MAJOR 0
#define TENMAP_VERSION_MINOR 1
#define TENMAP_VERSION_PATCH 0
/* The suffix of a pre-release, such as "rc1"; "" for a release. */
#define TENMAP_VERSION_SUFFIX "rc1"
/* The version of this header, in the form that tenmap_version() gives for the library. */
#define TENMAP_VERSION                                                                             \
    (TENMAP_VERSION_MAJOR * 1000000u + TENMAP_VERSION_MINOR * 1000u + TENMAP_VERSION_PATCH)
/* The version of this header as text: "1.2.3", or "1.2.3rc1" for a pre-release. */
#define TENMAP_VERSION_TEXT                                                                        \
    TENMAP_VERSION_QUOTED(TENMAP_VERSION_MAJOR, TENMAP_VERSION_MINOR, TENMAP_VERSION_PATCH)        \
    TENMAP_VERSION_SUFFIX
/* Helpers for TENMAP_VERSION_TEXT: the first expands its arguments, the second quotes them. */
#define TENMAP_VERSION_QUOTED(major, minor, patch) TENMAP_VERSION_QUOTED_(major, minor, patch)
#define TENMAP_VERSION_QUOTED_(major, minor, patch) #major "." #minor "." #patch

/*
 * Linkage of every public function. Define it before including this header to override it, for
 * example as `static` to include the two-file form in one of your own files. With TENMAP_HIDDEN the
 * names stay inside the shared object that they are compiled into. docs/embedding.md shows both.
 */
#ifndef TENMAP_API
#if defined(TENMAP_HIDDEN) && (!defined(__GNUC__) || defined(_WIN32))
#define TENMAP_API
#elif defined(TENMAP_HIDDEN)
#define TENMAP_API __attribute__((visibility("hidden")))
#elif defined(_WIN32) && defined(TENMAP_BUILD_SHARED)
#define TENMAP_API __declspec(dllexport)
#elif defined(_WIN32) && defined(TENMAP_USE_SHARED)
#define TENMAP_API __declspec(dllimport)
#elif defined(__GNUC__)
#define TENMAP_API __attribute__((visibility("default")))
#else
#define TENMAP_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenmap_model tenmap_model;
typedef int32_t tenmap_status;
typedef uint32_t tenmap_dtype;

/* As a length: the string is NUL-terminated. */
#define TENMAP_CSTR ((size_t)-1)

/* What went wrong, for programs. tenmap_error has the message for people. */
enum {
    TENMAP_OK = 0,
    TENMAP_ERR_ARGUMENT = 1,    /* NULL, unknown flag, bad struct_size */
    TENMAP_ERR_MEMORY = 2,      /* an allocation failed */
    TENMAP_ERR_IO = 3,          /* the system refused (os_error), or the file changed */
    TENMAP_ERR_FORMAT = 4,      /* the bytes break a rule */
    TENMAP_ERR_LIMIT = 5,       /* a limit of the library or the process */
    TENMAP_ERR_UNSUPPORTED = 6, /* this pair of dtypes, this host, this backend */
    TENMAP_ERR_NOT_FOUND = 7,   /* file, shard, tensor */
    TENMAP_ERR_DTYPE = 8,       /* tenmap_view: the tensor has another dtype */
    TENMAP_ERR_ALIGNMENT = 9,   /* tenmap_view: the data is not aligned for its element */
    TENMAP_ERR_RANGE = 10,    /* outside the tensor, the file (options.offset), an integer dtype */
    TENMAP_ERR_BUFFER = 11,   /* destination too small */
    TENMAP_ERR_NO_SPACE = 12, /* disk full, quota used up */
    TENMAP_ERR_CANCELLED = 13
};

/* Element types. Values never change; new ones are appended. */
enum {
    TENMAP_AS_STORED = 0, /* as an argument: the tensor's own dtype */
    TENMAP_BOOL = 1,
    TENMAP_F4 = 2,      /* E2M1, two per byte, low nibble first */
    TENMAP_F6_E2M3 = 3, /* 6 bits: element i at bits 6i..6i+5 of a little-endian stream */
    TENMAP_F6_E3M2 = 4, /* likewise */
    TENMAP_U8 = 5,
    TENMAP_I8 = 6,
    TENMAP_F8_E5M2 = 7,
    TENMAP_F8_E4M3 = 8,
    TENMAP_F8_E8M0 = 9,
    TENMAP_F8_E4M3FNUZ = 10,
    TENMAP_F8_E5M2FNUZ = 11,
    TENMAP_I16 = 12,
    TENMAP_U16 = 13,
    TENMAP_F16 = 14,
    TENMAP_BF16 = 15,
    TENMAP_I32 = 16,
    TENMAP_U32 = 17,
    TENMAP_F32 = 18,
    TENMAP_C64 = 19, /* two F32: real, imaginary */
    TENMAP_F64 = 20,
    TENMAP_I64 = 21,
    TENMAP_U64 = 22,
    /*
     * Block dtypes of GGUF files: a fixed number of elements shares scales and lies together in a
     * fixed number of bytes (tenmap_dtype_block). The values are 62 + the type's number in ggml.
     */
    TENMAP_Q4_0 = 64,
    TENMAP_Q4_1 = 65,
    TENMAP_Q5_0 = 68,
    TENMAP_Q5_1 = 69,
    TENMAP_Q8_0 = 70,
    TENMAP_Q8_1 = 71,
    TENMAP_Q2_K = 72,
    TENMAP_Q3_K = 73,
    TENMAP_Q4_K = 74,
    TENMAP_Q5_K = 75,
    TENMAP_Q6_K = 76,
    TENMAP_Q8_K = 77,
    TENMAP_IQ2_XXS = 78,
    TENMAP_IQ2_XS = 79,
    TENMAP_IQ3_XXS = 80,
    TENMAP_IQ1_S = 81,
    TENMAP_IQ4_NL = 82,
    TENMAP_IQ3_S = 83,
    TENMAP_IQ2_S = 84,
    TENMAP_IQ4_XS = 85,
    TENMAP_IQ1_M = 91,
    TENMAP_TQ1_0 = 96,
    TENMAP_TQ2_0 = 97,
    TENMAP_MXFP4 = 101,
    TENMAP_NVFP4 = 102,
    TENMAP_Q1_0 = 103,
    TENMAP_OPAQUE = 255 /* an unknown dtype in a lenient open: bytes only */
};

/* The type of a metadata value: tenmap_metadata.type, tenmap_value.type. The numbers are GGUF's. */
enum {
    TENMAP_VALUE_U8 = 0,
    TENMAP_VALUE_I8 = 1,
    TENMAP_VALUE_U16 = 2,
    TENMAP_VALUE_I16 = 3,
    TENMAP_VALUE_U32 = 4,
    TENMAP_VALUE_I32 = 5,
    TENMAP_VALUE_F32 = 6,
    TENMAP_VALUE_BOOL = 7,
    TENMAP_VALUE_STRING = 8, /* the only type that SafeTensors has */
    TENMAP_VALUE_ARRAY = 9,
    TENMAP_VALUE_U64 = 10,
    TENMAP_VALUE_I64 = 11,
    TENMAP_VALUE_F64 = 12
};

/*
 * tenmap_error.remedy: what would help, for programs. The message says the same in words. Values
 * never change; new ones are appended.
 */
enum {
    TENMAP_REMEDY_NONE = 0,
    TENMAP_REMEDY_ALLOW_PARTIAL = 1,      /* TENMAP_OPEN_PARTIAL, to go without the missing files */
    TENMAP_REMEDY_ALLOW_LENIENT = 2,      /* TENMAP_OPEN_LENIENT, to take the file as it is */
    TENMAP_REMEDY_DEQUANTIZE = 3,         /* TENMAP_OPEN_DEQUANTIZE: the weight is quantized */
    TENMAP_REMEDY_BACKEND_READ = 4,       /* options.backend = TENMAP_BACKEND_READ */
    TENMAP_REMEDY_RAISE_HEADER_LIMIT = 5, /* a higher options.max_header_bytes */
    TENMAP_REMEDY_FETCH_AGAIN = 6,        /* the file is not what it should be, or not complete */
    TENMAP_REMEDY_REPAIR = 7,             /* tenmap_repair_metadata */
    TENMAP_REMEDY_AS_STORED = 8,          /* to open without TENMAP_OPEN_DEQUANTIZE */
    TENMAP_REMEDY_LATER_WINS = 9,         /* TENMAP_OPEN_LATER_WINS */
    TENMAP_REMEDY_OPEN_AGAIN = 10,        /* the file has changed: close the model, open it again */
    TENMAP_REMEDY_TRY_AGAIN = 11,         /* the same call, later: a program or server is busy */
    TENMAP_REMEDY_CONVERT = 12,           /* another program converts or unpacks the file */
    TENMAP_REMEDY_RAISE_PROCESS_LIMIT =
        13,                        /* a limit of the process: files, memory, locked pages */
    TENMAP_REMEDY_READ = 14,       /* tenmap_read or tenmap_read_as, not a view or bytes */
    TENMAP_REMEDY_PARTS = 15,      /* tenmap_part_at gives tensors that have bytes */
    TENMAP_REMEDY_OPEN_ONE = 16,   /* the path of one of the files or folders that it holds */
    TENMAP_REMEDY_DOWNLOAD = 17,   /* the server does not serve parts of files: fetch it whole */
    TENMAP_REMEDY_CREDENTIALS = 18 /* a token or keys that the server accepts */
};

/*
 * Filled on failure, left unchanged on success. Owned by the caller. NULL is accepted wherever a
 * pointer to one is taken. This struct is frozen at 512 bytes.
 */
typedef struct tenmap_error {
    tenmap_status status;
    int32_t os_error; /* errno, where the system refused; else 0 */
    uint32_t shard;   /* which shard, where one applies; else 0 */
    uint32_t remedy;  /* TENMAP_REMEDY_*: what would help; NONE with TENMAP_ERR_ARGUMENT */
    uint64_t offset;  /* byte offset in that file, where one applies; else 0 */
    uint64_t index;   /* which request, edit or tensor (in file order), where one applies; else 0 */
    /*
     * NUL-terminated UTF-8, one or two sentences, no control characters. A message about a file
     * begins with its path in double quotes, in which a backslash escapes a quote, then ": ". It is
     * written for the person who has the model and says what would help in words.
     * Only TENMAP_ERR_ARGUMENT, which is for the programmer, names macros.
     */
    char message[480];
} tenmap_error;

/*
 * Bits per element; 0 for a block dtype, an unknown one, TENMAP_AS_STORED and TENMAP_OPAQUE. Dtypes
 * with bits are numbered from TENMAP_BOOL on without a gap, so this loop visits all of them: for
 * (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++).
 */
TENMAP_API uint32_t tenmap_dtype_bits(tenmap_dtype dtype);
/*
 * The smallest number of elements that takes whole bytes, and those bytes: 32 and 18 for
 * TENMAP_Q4_0, 4 and 3 for TENMAP_F6_E2M3, 1 and 4 for TENMAP_F32. Returns 1 and sets *elements and
 * *bytes (each may be NULL). Returns 0 and sets nothing for an unknown dtype, TENMAP_AS_STORED and
 * TENMAP_OPAQUE.
 */
TENMAP_API int tenmap_dtype_block(tenmap_dtype dtype, uint32_t *elements, uint32_t *bytes);
/*
 * The bytes that `elements` elements take, next to each other, in a file or a buffer. 4- and 6-bit
 * elements that end inside a byte take the whole byte. Returns 1 and sets *bytes (may be NULL).
 * Returns 0 and sets nothing for a dtype without a size (as tenmap_dtype_block), for a number of
 * elements that ends inside a block, and where the bits, or a block dtype's bytes, exceed 64 bits.
 */
TENMAP_API int tenmap_dtype_bytes(tenmap_dtype dtype, uint64_t elements, uint64_t *bytes);
enum {
    TENMAP_KIND_NONE = 0, /* of an unknown dtype, TENMAP_AS_STORED and TENMAP_OPAQUE */
    TENMAP_KIND_BOOL = 1,
    TENMAP_KIND_UINT = 2,
    TENMAP_KIND_INT = 3,
    TENMAP_KIND_FLOAT = 4,
    TENMAP_KIND_COMPLEX = 5
};
/* What kind of number an element is: TENMAP_KIND_*; those of block dtypes are floating-point. */
TENMAP_API uint32_t tenmap_dtype_kind(tenmap_dtype dtype);
/* "BF16", as headers write it; "Q4_K", as ggml does; "UNKNOWN" for an unknown dtype. Static. */
TENMAP_API const char *tenmap_dtype_name(tenmap_dtype dtype);
/* Returns 1 and sets *out (may be NULL) if `name` is exactly a dtype's name as above; else 0. */
TENMAP_API int tenmap_dtype_from_name(const char *name, tenmap_dtype *out);
/*
 * Returns the dtype for ggml's number of a tensor type (GGML_TYPE_*, as in GGUF files), or
 * TENMAP_AS_STORED if the library has no such dtype. Opening a GGUF file gives its tensors the same
 * dtypes.
 */
TENMAP_API tenmap_dtype tenmap_dtype_from_ggml(uint32_t type);
/* Returns 1 and sets *type (may be NULL) to ggml's number for the dtype; 0 if ggml has none. */
TENMAP_API int tenmap_dtype_to_ggml(tenmap_dtype dtype, uint32_t *type);
/* "TENMAP_ERR_FORMAT"; "TENMAP_ERR_UNKNOWN" for an unknown value. Static. */
TENMAP_API const char *tenmap_status_name(tenmap_status status);
/* "repair" for TENMAP_REMEDY_REPAIR, for programs; "unknown" for an unknown value. Static. */
TENMAP_API const char *tenmap_remedy_name(uint32_t remedy);
/* The instruction set that conversions use on this machine: "avx2", "neon" or "scalar". Static. */
TENMAP_API const char *tenmap_cpu_path(void);
/*
 * The version of the library at run time: major * 1,000,000 + minor * 1,000 + patch. A pre-release
 * has the number of the release that it precedes.
 */
TENMAP_API uint32_t tenmap_version(void);

#ifdef __cplusplus
}
#endif

#endif
