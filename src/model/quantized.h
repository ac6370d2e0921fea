/*
 * Quantized weights: which tensors are the parts of one weight, what shape the weight has, and how
 * its values are dequantized. The search runs when a model is opened with TENMAP_OPEN_DEQUANTIZE;
 * docs/quantized.md has the table of schemes.
 */
#ifndef TENMAP_QUANTIZED_H
#define TENMAP_QUANTIZED_H

#include "../format/json.h"
#include "computed.h"

/* The role of a part. The values come first, so that they are part 0 for callers too. */
enum {
    TMI_PART_VALUES,
    TMI_PART_SCALES,
    TMI_PART_ZEROS,         /* zero points, or offsets to add */
    TMI_PART_GLOBAL_SCALE,  /* scales the scales */
    TMI_PART_GROUP_INDEX,   /* the group of each row or column: g_idx */
    TMI_PART_TABLE,         /* the value of each code */
    TMI_PART_NESTED_SCALES, /* if the scales are quantized too */
    TMI_PART_NESTED_TABLE,
    TMI_PART_SHAPE,      /* the weight's shape, stored as a tensor */
    TMI_PART_ANNOTATION, /* a tensor that describes the weight, often in JSON */
    TMI_PART_COUNT
};

/* How codes are packed in the values part. Rows are those of the matrix as it is stored. */
enum {
    TMI_CODES_DTYPE,  /* elements of a dtype, which may differ from the part's own */
    TMI_CODES_STREAM, /* unsigned, a bit stream from the lowest bit up; each row is whole bytes */
    TMI_CODES_WORDS,  /* unsigned, as many per 32-bit word as fit; no code crosses words */
    TMI_CODES_DOWN,   /* unsigned, a bit stream down each column of words */
    TMI_CODES_AWQ,    /* 4 bits, eight per word, in the order 0 4 1 5 2 6 3 7 */
    TMI_CODES_TABLE   /* 4-bit indexes into a table, the high half of a byte first */
};

/*
 * How a code becomes a value: (code - zero) * scale, or code * scale + zero with TMI_ZEROS_ADDED.
 */
enum {
    TMI_ZEROS_NONE,
    TMI_ZEROS_DTYPE, /* elements, one per scale */
    TMI_ZEROS_ALONG, /* packed along their rows, as TMI_CODES_STREAM or TMI_CODES_AWQ packs codes */
    TMI_ZEROS_DOWN,  /* packed down their columns */
    TMI_ZEROS_ADDED  /* elements, one per scale */
};

/* How a scale is computed. Each operation is rounded to F32. */
enum {
    TMI_SCALE_ALONE,
    TMI_SCALE_TIMES,   /* scale * global scale */
    TMI_SCALE_DIVIDED, /* scale / global scale */
    TMI_SCALE_127,     /* scale * (1/127) */
    TMI_SCALE_NESTED   /* table[code] * nested scale + offset */
};

/*
 * How the values of one tensor are dequantized. Rows and columns are those of the matrix as it is
 * stored; `transposed` says that the tensor's last two axes are columns and rows instead. Leading
 * axes count matrices.
 */
typedef struct tmi_quant_layout {
    uint8_t codes, bits, zeros, scale; /* TMI_CODES_*, TMI_ZEROS_*, TMI_SCALE_* */
    bool transposed;
    bool zero_plus_one;       /* zeros are stored minus one, modulo 2^bits */
    int32_t code_bias;        /* subtracted from every code and packed zero, exact in F32 */
    tenmap_dtype code_dtype;  /* for TMI_CODES_DTYPE */
    tenmap_dtype scale_dtype; /* the dtype as which the scales' bytes are read */
    uint64_t rows, columns;   /* of a matrix */
    uint64_t row_bytes;       /* stride between rows of the values part */
    uint64_t matrix_bytes;    /* size of one matrix in the values part */
    uint64_t group_rows, group_columns; /* rows and columns that share a scale; never 0 */
    uint64_t scale_rows, scale_columns; /* of a matrix */
    bool scale_shared;                  /* all matrices use the same scales */
    uint64_t nested_block;              /* scales per nested scale */
    float offset;                       /* added to every scale with TMI_SCALE_NESTED */
} tmi_quant_layout;

/*
 * The most groups that g_idx may name. It may name them in any order, so a whole row of their
 * scales is kept while values of that row are dequantized.
 */
enum { TMI_MOST_GROUPS = 4096 };

/* One weight that is dequantized from its parts: the state of TMI_MAKER_DEQUANTIZE. */
typedef struct tmi_quant_weight {
    tmi_computed computed; /* comes first: see computed.h */
    tmi_quant_layout layout;
    const tenmap_tensor *parts[TMI_PART_COUNT]; /* NULL if the scheme has none */
    tenmap_dtype dtype;
    uint32_t rank;
    const uint64_t *shape;  /* the weight's: that of a part, or from tmi_shape_room */
    const char *name;       /* set when the search is over */
    size_t cut;             /* bytes to remove from the end of the values part's name, */
    const char *ending;     /* and the text to append instead */
    tenmap_packing packing; /* the layout as callers see it; bits 0: not packed codes */
} tmi_quant_weight;

static inline const tmi_quant_weight *tmi_quant_weight_of(const tmi_computed *computed) {
    return (const tmi_quant_weight *)(const void *)computed;
}

/* packing.c: fills c->packing from the layout and the parts. */
void tmi_packing_describe(tmi_quant_weight *c);

/* quantized_config.c: reads the quantization settings from config.json. */

typedef struct tmi_quantized_config {
    char method[32];    /* quant_method, or "mlx"; "" if there is none */
    char format[40];    /* the format of compressed-tensors or GPTQ, or the mode of MLX */
    tenmap_dtype dtype; /* that the model computes in; TENMAP_AS_STORED: not given */
    uint64_t bits;      /* 0: not given, or not the same everywhere */
    uint64_t group;     /* columns that share a scale; likewise */
    uint64_t block[2];  /* rows and columns of an FP8 block; 0: not given */
    unsigned groups;    /* how many config_groups compressed-tensors has */
    bool varies;        /* some layers have bits and groups of their own */
} tmi_quantized_config;

/* Reads the files beside the model. It is not an error if there are none. */
tenmap_status tmi_quantized_config_read(const tenmap_model *model, const tenmap_options *options,
                                        tmi_quantized_config *config, tenmap_error *error);
/*
 * Handles one member of a JSON object. Its value comes next in json; the function must consume all
 * of it, or fail.
 */
typedef bool tmi_json_member(tmi_json *json, tmi_text key, void *ctx);
/*
 * Calls `member` for each member of the next object, which is `depth` levels deep. Skips a value
 * that is not an object.
 */
bool tmi_json_members(tmi_json *json, unsigned depth, tmi_json_member *member, void *ctx);
/*
 * Reads a string, number or literal. Any other value is skipped and gives an empty text. The text
 * of a number is not NUL-terminated.
 */
bool tmi_json_scalar(tmi_json *json, unsigned depth, tmi_text *text);
bool tmi_text_is(tmi_text text, const char *word);
/* Copies the text with a NUL, or "" if it does not fit or contains a NUL: no known word does. */
void tmi_text_copy(char *out, size_t room, tmi_text text);
/* The number, or 0 if the text is not a plain positive integer below 2^32. */
uint64_t tmi_text_number(tmi_text text);
/* "bfloat16", "torch.float16" and so on; TENMAP_AS_STORED for anything else. */
tenmap_dtype tmi_text_dtype(tmi_text text);

/* quantized_find_parts.c: finds the parts of a weight and explains what is wrong with them. */

/* The bytes of small tensors that lie together, which one read of an object brought in. */
typedef struct tmi_annotation_run {
    const tmi_shard *shard; /* NULL: none */
    uint64_t begin, end;    /* in its file */
    tmi_block buffer;
} tmi_annotation_run;

typedef struct tmi_part_finder {
    const tenmap_model *model; /* its tables list the stored tensors */
    tmi_shapes *shapes;        /* the model's */
    uint32_t flags;            /* TENMAP_OPEN_* */
    const tmi_quantized_config *config;
    char *name; /* buffer for the names to look up */
    size_t name_capacity;
    size_t parts_read;      /* how many tensors were read so far */
    tmi_annotation_run run; /* free its buffer at the end */
    tmi_names metadata;     /* the keys of the model's metadata, once they are needed */
    bool metadata_known;
    const tenmap_io *io; /* NULL: the system's files */
    tenmap_error *error;
    tenmap_status status; /* why the search stopped */
    tenmap_error why;     /* buffer for a part of the error message */
    bool incomplete;      /* the current tensor lacks a part; allowed if status is TENMAP_OK */
} tmi_part_finder;

bool tmi_ends_with(const tenmap_tensor *t, const char *ending);
/*
 * The tensor whose name is that of t with the last `cut` bytes replaced by `ending`, or NULL. If
 * the index lists that name but no shard has it, the part is missing (tmi_part_missing), even if
 * weights may do without such a part.
 */
const tenmap_tensor *tmi_find_part(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                                   const char *ending);
/*
 * That name. It is valid until the next call that builds a name. NULL, and f->status is set, if out
 * of memory.
 */
const char *tmi_part_name(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                          const char *ending);
/*
 * Report a weight that cannot be dequantized. All return false. With TENMAP_OPEN_PARTIAL a missing
 * part is not an error: the weight is absent.
 */
bool tmi_part_missing(tmi_part_finder *f, const tenmap_tensor *t, size_t cut, const char *ending,
                      const char *scheme);
bool tmi_part_refuse(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part);
#define TMI_PART_WRONG(f, t, part, ...)                                                            \
    (tmi_fail(&(f)->why, TENMAP_OK, __VA_ARGS__), tmi_part_refuse(f, t, part))
/* A shape for an error message: [4096, 128]. */
tmi_quoted tmi_shape_text(const uint64_t *shape, uint32_t rank);
/* Reads the first `size` bytes of a small tensor, as they are in the file. */
bool tmi_part_read(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part, void *dst,
                   size_t size);
/*
 * Fills the layout's scale fields from `scales`, read as dtype `as`: one scale, or one per group of
 * rows x columns. A part of more than one scale must have the weight's rank and leading axes, or,
 * for a matrix, be one-dimensional, with a scale per group of rows. Returns false with an error
 * message if it does not fit.
 */
bool tmi_set_scales(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c,
                    const tenmap_tensor *scales, tenmap_dtype as);
/*
 * Room for a shape of `rank` extents, which lives as long as the model. NULL, and f->status is set,
 * if out of memory.
 */
uint64_t *tmi_shape_room(tmi_part_finder *f, uint32_t rank);
/*
 * Gives the weight the shape of its values part, except for the last extent. False if out of
 * memory.
 */
bool tmi_set_last_extent(tmi_part_finder *f, const tenmap_tensor *t, uint64_t last,
                         tmi_quant_weight *c);
/* Product of all axes except the last two. */
uint64_t tmi_matrices(const uint64_t *shape, uint32_t rank);

/*
 * A scheme: examines a tensor that may be the values of a weight. Returns true if it has filled *c.
 * Returns false if the tensor is not of this scheme, or if f->status is an error. If the values are
 * not named like the weight, the scheme sets c->cut and c->ending before it looks for a part.
 */
typedef bool tmi_scheme_find(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c);

/*
 * The scheme name for integers of `bits` bits, such as "int4-group". `kind` is 0 for one scale per
 * tensor, 1 for one per row, 2 for one per group.
 */
const char *tmi_integer_scheme(unsigned bits, unsigned kind);

/* quantized_8bit.c, _packed_int.c, _fp4.c, _bnb.c, _mlx.c, _gguf.c */
tmi_scheme_find tmi_find_8bit, tmi_find_packed, tmi_find_gptq, tmi_find_mxfp4_blocks,
    tmi_find_fp4_bytes;
tmi_scheme_find tmi_find_bnb4, tmi_find_mlx, tmi_find_nvfp4_scale;

/*
 * quantized_families.c: the schemes in the order in which they are tried. The last is that of block
 * dtypes, which no other scheme accepts.
 */
enum { TMI_SCHEME_FINDERS = 8 };
typedef tmi_scheme_find *tmi_scheme_finder;
extern const tmi_scheme_finder tmi_scheme_finders[TMI_SCHEME_FINDERS];

/* quantized_annotations.c: reads JSON annotations of a weight. */

/*
 * Parses a text that must be exactly one JSON object of `length` bytes, followed by TMI_JSON_PAD
 * zeros.
 */
bool tmi_annotation_parse(tmi_block text, size_t length, tmi_json_member *member, void *ctx);
/*
 * Whether ComfyUI's annotation describes values like those of t. Returns false with an error
 * message if not.
 */
bool tmi_check_comfy(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part);
/*
 * Whether torchao's metadata, if there is any, describes plain values like those of t with the
 * scales that *c has. Takes the dtype and block size from it. Returns false with an error message
 * if it does not fit, or without one if it describes another layout.
 */
bool tmi_check_torchao(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c);

/* quantized.c: searches for quantized weights and builds the table of listed tensors. */

tenmap_status tmi_quantized_find(tenmap_model *model, const tenmap_options *options,
                                 tenmap_error *error);

#endif
