/* Writes a tensor or a slice of it to a file, as .npy or as bare bytes. */
#include "output/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "output/atomic_file.h"
#include "view/print.h"
#include "view/progress.h"
#include "remote/remote.h"
#include "parallel_for.h"

enum { BLOCK_ELEMENTS = 1 << 20, BLOCK_BYTES = BLOCK_ELEMENTS * 8, HEADER_ALIGN = 64 };
/* For remote models: bytes per request, and bytes that all threads read together. */
enum { FAR_PIECE = 4 << 20, FAR_BLOCK = 32 << 20 };

/*
 * numpy's letter and size for each dtype that it has; narrower floats are converted to F32 first.
 */
static const char *const npy_types[] = {
    [TENMAP_BOOL] = "b1", [TENMAP_U8] = "u1",  [TENMAP_I8] = "i1",  [TENMAP_I16] = "i2",
    [TENMAP_U16] = "u2",  [TENMAP_F16] = "f2", [TENMAP_I32] = "i4", [TENMAP_U32] = "u4",
    [TENMAP_F32] = "f4",  [TENMAP_C64] = "c8", [TENMAP_F64] = "f8", [TENMAP_I64] = "i8",
    [TENMAP_U64] = "u8",
};

static const char *npy_type(tenmap_dtype dtype) {
    return dtype < sizeof npy_types / sizeof npy_types[0] ? npy_types[dtype] : NULL;
}

static bool little_endian(void) {
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

/*
 * Writes the magic, a length field, and a Python dict padded so that the data starts at a multiple
 * of 64.
 */
static void add_npy_header(text *out, const char *type, const slice *s) {
    text dict = {0};
    char order = type[1] == '1' ? '|' : little_endian() ? '<' : '>';
    text_addf(&dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, type);
    for (uint32_t d = 0; d < s->out_rank; d++)
        text_addf(&dict, d ? ", %" PRIu64 : "%" PRIu64, s->out_shape[d]);
    text_addf(&dict, "%s), }", s->out_rank == 1 ? "," : "");
    size_t prefix = dict.len + HEADER_ALIGN + 10 <= 0xffff ? 10 : 12;
    while ((prefix + dict.len + 1) % HEADER_ALIGN)
        text_add(&dict, " ", 1);
    text_add(&dict, "\n", 1);
    text_add(out, "\x93NUMPY", 6);
    text_add(out, prefix == 10 ? "\1\0" : "\2\0", 2);
    for (size_t i = 0; i < prefix - 8; i++) {
        char byte = (char)(dict.len >> 8 * i & 0xff);
        text_add(out, &byte, 1);
    }
    text_add(out, dict.bytes, dict.len);
    text_free(&dict);
}

/*
 * Converts big-endian elements of `size` bytes to little-endian. A C64 is two elements of four
 * bytes.
 */
static void swap_elements(unsigned char *bytes, size_t count, size_t size) {
    for (size_t i = 0; i + size <= count; i += size) {
        for (size_t k = 0; k < size / 2; k++) {
            unsigned char kept = bytes[i + k];
            bytes[i + k] = bytes[i + size - 1 - k];
            bytes[i + size - 1 - k] = kept;
        }
    }
}

static size_t swapped_size(tenmap_dtype dtype) {
    uint64_t bytes = 1;
    (void)tenmap_dtype_bytes(dtype, 1, &bytes);
    return dtype == TENMAP_C64 ? 4 : (size_t)bytes;
}

/* How a tensor is read: blocks of this many bytes, each by this many threads. */
typedef struct reading {
    const tenmap_tensor *tensor;
    unsigned threads;
    size_t block_bytes;
    unsigned char *block;
    /* The bytes being read now. */
    uint64_t at;
    size_t size;
    tenmap_error *errors; /* one per piece */
} reading;

static reading begin_reading(const tenmap_tensor *tensor, const export_form *form) {
    reading r = {.tensor = tensor, .threads = 1, .block_bytes = BLOCK_BYTES};
    if (is_address(tenmap_path(tensor->model)) && form->threads > 1) {
        r.threads = form->threads;
        r.block_bytes = FAR_BLOCK;
    }
    r.block = need(r.block_bytes, 1);
    r.errors = need(r.block_bytes / FAR_PIECE, sizeof *r.errors);
    return r;
}

static void end_reading(reading *r) {
    free(r->block);
    free(r->errors);
}

static tenmap_status read_elements(const reading *r, const slice_walk *walk, tenmap_dtype dtype,
                                   tenmap_error *error) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_request request = {.tensor = r->tensor, .begin = walk->begin, .end = walk->end};
    if (r->threads == 1)
        return tenmap_read_slice(r->tensor, walk->begin, walk->end, dtype, r->block, r->block_bytes,
                                 0, error);
    options.threads = r->threads;
    request.as = dtype;
    request.dst = r->block;
    request.dst_bytes = r->block_bytes;
    return tenmap_load(r->tensor->model, &request, 1, &options, error);
}

/*
 * Writes blocks of converted elements. Blocks of sub-byte elements are whole bytes, except the
 * last.
 */
static int write_elements(atomic_file *f, reading *r, const slice *s, tenmap_dtype dtype,
                          bool file_order) {
    tenmap_error error;
    slice_walk walk;
    int status = EXIT_FINE;
    slice_walk_begin(&walk, s, r->block_bytes / 8);
    while (!status && slice_walk_next(&walk)) {
        uint64_t bytes = 0;
        (void)tenmap_dtype_bytes(dtype, walk.count, &bytes);
        if (read_elements(r, &walk, dtype, &error) != TENMAP_OK) {
            status = fail_error(&error);
            break;
        }
        if (file_order && !little_endian())
            swap_elements(r->block, (size_t)bytes, swapped_size(dtype));
        status = atomic_file_write(f, r->block, (size_t)bytes);
        progress_add(walk.count);
    }
    slice_walk_end(&walk);
    return status;
}

/* Reads one piece of the block; runs on any thread. */
static int read_piece(void *ctx, size_t i) {
    reading *r = ctx;
    size_t at = i * FAR_PIECE, left = r->size - at, size = left < FAR_PIECE ? left : FAR_PIECE;
    r->errors[i].status = TENMAP_OK;
    progress_add(size);
    return tenmap_read_bytes(r->tensor, r->at + at, size, r->block + at, &r->errors[i]) !=
           TENMAP_OK;
}

static int fail_piece(const reading *r, size_t pieces) {
    for (size_t i = 0; i < pieces; i++)
        if (r->errors[i].status != TENMAP_OK)
            return fail_error(&r->errors[i]);
    return EXIT_FAILED;
}

static int write_bytes(atomic_file *f, reading *r) {
    int status = EXIT_FINE;
    for (r->at = 0; r->at < r->tensor->nbytes && !status; r->at += r->size) {
        uint64_t left = r->tensor->nbytes - r->at;
        r->size = left < r->block_bytes ? (size_t)left : r->block_bytes;
        size_t pieces = (r->size - 1) / FAR_PIECE + 1;
        memset(r->errors, 0, pieces * sizeof *r->errors);
        if (parallel_for(r->threads, pieces, read_piece, r))
            status = fail_piece(r, pieces);
        else
            status = atomic_file_write(f, r->block, r->size);
    }
    return status;
}

/* Chooses the dtype to write and numpy's name for it. Returns 0 or an exit code. */
static int choose_type(const tenmap_tensor *tensor, const export_form *form, tenmap_dtype *dtype,
                       const char **type) {
    bool known = tenmap_dtype_kind(tensor->dtype) != TENMAP_KIND_NONE;
    uint32_t bits;
    *dtype = form->as ? form->as : tensor->dtype;
    *type = NULL;
    if (form->bytes && (!known || !form->as))
        return EXIT_FINE;
    if (!known)
        return fail(EXIT_FAILED, "the dtype is unknown: only --bytes can export it");
    if (form->bytes)
        return EXIT_FINE;
    *type = npy_type(*dtype);
    if (!*type && form->raw) {
        bits = tenmap_dtype_bits(*dtype);
        *type = bits == 16 ? "u2" : bits == 8 ? "u1" : NULL;
        if (!*type)
            return fail(EXIT_USAGE,
                        "elements of %s are not whole bytes, so --raw cannot export them; leave it "
                        "out for float32, or use --bytes",
                        tenmap_dtype_name(*dtype));
    } else if (!*type && form->as) {
        return fail(EXIT_USAGE, "numpy has no %s; add --raw for its bits, or choose f16, f32, f64",
                    tenmap_dtype_name(*dtype));
    } else if (!*type) {
        *dtype = TENMAP_F32;
        *type = npy_type(TENMAP_F32);
    }
    return EXIT_FINE;
}

/*
 * Refuses slices and conversions that packed, block and unknown dtypes do not allow. Packed
 * elements would need padding inside the file wherever a block ends within a byte.
 */
static int refuse_packed(const tenmap_tensor *tensor, const slice *s, const export_form *form) {
    tenmap_dtype target = form->as ? form->as : tensor->dtype;
    if (form->bytes && tenmap_dtype_bits(target) && tenmap_dtype_bits(target) < 8 &&
        (form->as || !s->whole))
        return fail(EXIT_USAGE, "%s is packed, so only whole tensors can be exported as bytes",
                    tenmap_dtype_name(target));
    if (tenmap_dtype_kind(tensor->dtype) == TENMAP_KIND_NONE && !s->whole)
        return fail(EXIT_USAGE, "the dtype is unknown: only the whole tensor can be exported");
    if (form->bytes && !form->as && !tenmap_dtype_bits(target) && !s->whole)
        return fail(EXIT_USAGE,
                    "%s is stored in blocks, so only whole tensors can be exported as bytes",
                    tenmap_dtype_name(target));
    return EXIT_FINE;
}

int export_tensor(const tenmap_model *model, const tenmap_tensor *tensor, const slice *s,
                  const export_form *form, const char *path) {
    tenmap_dtype dtype;
    const char *type;
    atomic_file f;
    text header = {0};
    int status = refuse_packed(tensor, s, form);
    if (!status)
        status = choose_type(tensor, form, &dtype, &type);
    if (!status)
        status = atomic_file_check(path, form->force, &model, 1);
    if (!status)
        status = atomic_file_open(&f, path, form->force);
    if (status)
        return status;
    bool as_they_are = form->bytes && s->whole && !form->as;
    progress_begin("exporting", as_they_are ? tensor->nbytes : s->count);
    if (type) {
        add_npy_header(&header, type, s);
        status = atomic_file_write(&f, header.bytes, header.len);
    }
    if (!status) {
        reading r = begin_reading(tensor, form);
        status = as_they_are ? write_bytes(&f, &r) : write_elements(&f, &r, s, dtype, form->bytes);
        end_reading(&r);
    }
    progress_end();
    text_free(&header);
    if (!status)
        return atomic_file_commit(&f);
    atomic_file_abort(&f);
    return status;
}
