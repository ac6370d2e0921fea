/*
 * Weights that are stored in parts: which tensors belong together, what shape they make, and how a
 * value comes of them. Found when a model is opened with TENMAP_OPEN_DEQUANTIZE; docs/quantized.md
 * has the table of schemes.
 */
#ifndef TENMAP_QUANTIZED_H
#define TENMAP_QUANTIZED_H

#include "../format/json.h"
#include "model.h"

/* What a part is for. The values come first, so that they are part 0 for callers too. */
enum {
    TMI_PART_VALUES,
    TMI_PART_SCALES,
    TMI_PART_ZEROS,         /* zero points, or what is added */
    TMI_PART_GLOBAL_SCALE,  /* a scale of the scales */
    TMI_PART_GROUP_INDEX,   /* the group of each row or column: g_idx */
    TMI_PART_TABLE,         /* what each code stands for */
    TMI_PART_NESTED_SCALES, /* where the scales are quantised too */
    TMI_PART_NESTED_TABLE,
    TMI_PART_SHAPE,      /* the shape as a tensor */
    TMI_PART_ANNOTATION, /* JSON in a tensor */
    TMI_PART_COUNT
};

/* How codes lie in the values part. A row is one of the matrix as it is stored. */
enum {
    TMI_CODES_DTYPE,  /* elements of a dtype, which may be another than the part's own */
    TMI_CODES_STREAM, /* unsigned, a stream of bits from the lowest on, each row whole bytes */
    TMI_CODES_WORDS,  /* unsigned, as many as fit whole into each word of 32 bits */
    TMI_CODES_DOWN,   /* unsigned, a stream down each column of words */
    TMI_CODES_AWQ,    /* 4 bits, eight in a word, in the order 0 4 1 5 2 6 3 7 */
    TMI_CODES_TABLE   /* 4 bits, the high half of a byte first, numbers of a table */
};

/* What becomes of a code: (code - zero) * scale, or code * scale + zero with TMI_ZEROS_ADDED. */
enum {
    TMI_ZEROS_NONE,
    TMI_ZEROS_DTYPE, /* elements beside the scales */
    TMI_ZEROS_ALONG, /* packed along their rows, as the codes would be in TMI_CODES_STREAM or _MIXED */
    TMI_ZEROS_DOWN, /* packed down their columns */
    TMI_ZEROS_ADDED /* elements beside the scales */
};

/* Where a scale comes from: each is one operation, rounded to F32. */
enum {
    TMI_SCALE_ALONE,
    TMI_SCALE_TIMES,   /* scale * second */
    TMI_SCALE_DIVIDED, /* scale / second */
    TMI_SCALE_127,     /* scale * (1/127) */
    TMI_SCALE_NESTED   /* table[code] * nested scale + offset */
};

/*
 * How the values of one tensor are made. Rows and columns are those of the matrix as it is stored;
 * `transposed` says that the tensor's last two axes are its columns and rows. Leading axes count
 * matrices.
 */
typedef struct tmi_quant_layout {
    uint8_t codes, bits, zeros, scale; /* TMI_CODES_*, TMI_ZEROS_*, TMI_SCALE_* */
    bool transposed;
    bool zero_plus_one;                 /* zeros are stored less one, in as many bits */
    int32_t less;                       /* subtracted from every code, exact in F32 */
    tenmap_dtype code_dtype;            /* for TMI_CODES_DTYPE */
    tenmap_dtype scale_dtype;           /* what the bytes of the scales are taken for */
    uint64_t rows, columns;             /* of a matrix */
    uint64_t row_bytes;                 /* from one row of the values part to the next */
    uint64_t matrix_bytes;              /* of one matrix in the values part */
    uint64_t group_rows, group_columns; /* that share a scale; never 0 */
    uint64_t scale_rows, scale_columns; /* of a matrix */
    bool scale_shared;                  /* all matrices have the same scales */
    uint64_t nested_block;              /* scales per nested scale */
    float offset;                       /* added to nested scales */
} tmi_quant_layout;

enum { TMI_COMPUTED_RANK = 4 };
/*
 * The most groups that a list (g_idx) may name: a row of their scales is kept while values of the row are made, since
 * the list may name them in any order.
 */
enum { TMI_MOST_GROUPS = 4096 };

/* One tensor that is computed from parts. */
typedef struct tmi_computed {
    tenmap_scheme scheme; /* what callers see */
    tmi_quant_layout layout;
    const tenmap_tensor *parts[TMI_PART_COUNT]; /* NULL where the scheme has none */
    uint64_t part_bytes;                        /* of all of them */
    tenmap_dtype dtype;
    uint32_t rank;
    const uint64_t *same_shape;        /* the part's own where that is it; else: */
    uint64_t shape[TMI_COMPUTED_RANK]; /* of the tensor */
    const char *name;                  /* once it is settled */
    size_t cut;                        /* bytes to take from the end of the values part's name, */
    const char *ending;                /* and what to put there */
} tmi_computed;

/* quantized_config.c: what config.json says. */

typedef struct tmi_quantized_config {
    char method[32];    /* quant_method, or "mlx"; "" where there is none */
    char format[40];    /* compressed-tensors' and GPTQ's formats, MLX's mode */
    tenmap_dtype dtype; /* that the model computes in; TENMAP_AS_STORED: not said */
    uint64_t bits;      /* 0: not said, or not the same everywhere */
    uint64_t group;     /* columns that share a scale; likewise */
    uint64_t block[2];  /* rows and columns of an FP8 block; 0: not said */
    unsigned groups;    /* of compressed-tensors' config_groups */
    bool varies;        /* some layers have a width and groups of their own */
} tmi_quantized_config;

/* Reads what lies beside the model. Nothing there is no error. */
tenmap_status tmi_quantized_config_read(const tenmap_model *model, const tenmap_options *options,
                                        tmi_quantized_config *config, tenmap_error *error);
/* One member of a JSON object, whose value is next in json: takes it all, or fails. */
typedef bool tmi_json_member(tmi_json *json, tmi_text key, void *ctx);
/* All members of the object that comes next, `depth` deep; a value of another kind is read over. */
bool tmi_json_members(tmi_json *json, unsigned depth, tmi_json_member *member, void *ctx);
/* A string, number or word; empty for what is none. The text of a number has no NUL behind it. */
bool tmi_json_scalar(tmi_json *json, unsigned depth, tmi_text *text);
bool tmi_text_is(tmi_text text, const char *word);
/* Keeps what fits, with a NUL; a longer word is none that anybody knows. */
void tmi_text_keep(char *out, size_t room, tmi_text text);
/* The number, or 0 for what is no plain positive integer below 2^32. */
uint64_t tmi_text_number(tmi_text text);
/* "bfloat16", "torch.float16" and so on; TENMAP_AS_STORED for anything else. */
tenmap_dtype tmi_text_dtype(tmi_text text);

/* quantized_find_parts.c: looking for parts, and saying what is wrong with them. */

typedef struct tmi_part_finder {
    const tenmap_model *model; /* its tables are those of what is stored */
    uint32_t flags;            /* TENMAP_OPEN_* */
    const tmi_quantized_config *config;
    char *name; /* room for names to look for */
    size_t name_capacity;
    size_t notes;       /* how many tensors were read so far */
    tmi_names metadata; /* the model's keys, once they were asked for */
    bool metadata_known;
    const tenmap_io *io; /* NULL: the system's files */
    tenmap_error *error;
    tenmap_status status; /* what stopped the search */
    tenmap_error why;     /* room for a part of its sentence */
    bool incomplete;      /* the tensor that is looked at lacks a part, and may */
} tmi_part_finder;

bool tmi_ends_with(const tenmap_tensor *t, const char *ending);
/*
 * The tensor called as t without its last `cut` bytes and with `ending` instead; or NULL. What the index lists
 * and no shard has is missing, whether or not weights do without such a part.
 */
const tenmap_tensor *tmi_find_part(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                                   const char *ending);
/* That name, until the next one is made; NULL, and f->status, without memory. */
const char *tmi_part_name(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                          const char *ending);
/*
 * A weight that cannot be put together. All return false. With TENMAP_OPEN_PARTIAL a part that is
 * missing stops nothing: the weight is absent.
 */
bool tmi_part_missing(tmi_part_finder *f, const tenmap_tensor *t, size_t cut, const char *ending,
                      const char *scheme);
bool tmi_part_refuse(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part);
#define TMI_PART_WRONG(f, t, part, ...)                                                            \
    (tmi_fail(&(f)->why, TENMAP_OK, __VA_ARGS__), tmi_part_refuse(f, t, part))
/* A shape for a sentence: [4096, 128]. */
tmi_quoted tmi_shape_text(const uint64_t *shape, uint32_t rank);
/* Up to `size` first bytes of a small tensor, as they are in the file. */
bool tmi_part_read(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part, void *dst,
                   size_t size);
/*
 * Where a scale for each group of rows x columns is expected: part must be of `rank` with the
 * leading axes of the weight. Fills the recipe's scale fields; false with a sentence.
 */
bool tmi_take_scales(tmi_part_finder *f, const tenmap_tensor *t, tmi_computed *c,
                     const tenmap_tensor *scales, tenmap_dtype as);
/* Product of all axes but the last two. */
uint64_t tmi_matrices(const uint64_t *shape, uint32_t rank);

/*
 * A scheme: looks at a tensor that may be the values of a weight. True if *c is filled; false if it
 * is none of this scheme's, or f->status says what is wrong. Where the values have another name than
 * the weight, *c says so before a part is looked for.
 */
typedef bool tmi_scheme_find(tmi_part_finder *f, const tenmap_tensor *t, tmi_computed *c);

typedef struct tmi_scheme_row {
    const char *family; /* as docs/quantized.md has it */
    tmi_scheme_find *find;
} tmi_scheme_row;

/* "int4-group": integers of so many bits; 0 for a scale per tensor, 1 per row, 2 per group. */
const char *tmi_integer_scheme(unsigned bits, unsigned kind);

/* quantized_8bit.c, _integer.c, _pairs.c, _bnb.c, _mlx.c, _gguf.c */
tmi_scheme_find tmi_find_scaled, tmi_find_packed, tmi_find_gptq, tmi_find_blocks, tmi_find_pairs;
tmi_scheme_find tmi_find_bnb4, tmi_find_mlx, tmi_find_nvfp4_scale;

/* quantized_annotations.c: what is said in JSON beside a weight. */

/* One JSON object of `length` bytes, with TMI_JSON_PAD zeros behind it, and nothing else. */
bool tmi_annotation_parse(tmi_block text, size_t length, tmi_json_member *member, void *ctx);
/* Whether ComfyUI's note is about values such as t's; false with a sentence. */
bool tmi_check_comfy(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part);
/*
 * Whether torchao's metadata, where there is some, is about plain values such as t's with the scales that
 * *c has; takes dtype and block from it. False with a sentence, or without one if it is another layout.
 */
bool tmi_check_torchao(tmi_part_finder *f, const tenmap_tensor *t, tmi_computed *c);

/* quantized.c: the search, and the table of tensors that comes of it. */

tenmap_status tmi_quantized_find(tenmap_model *model, const tenmap_options *options,
                                 tenmap_error *error);
/* What a TENMAP_TENSOR_COMPUTED tensor is made from. */
const tmi_computed *tmi_computed_of(const tenmap_tensor *t);

#endif
