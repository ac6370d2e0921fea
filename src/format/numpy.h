/* Shared by the files of the NumPy containers: .npy files, and .npz archives of them. */
#ifndef TENMAP_NUMPY_H
#define TENMAP_NUMPY_H

#include "zip_archive.h"

/* npy_header.c: what the bytes before the elements of an array say. */

enum {
    TMI_NPY_MOST_RANK = 64, /* as numpy since 2.0 */
    TMI_NPY_FIRST = 12,     /* the bytes by which the length of any header is known */
    TMI_NPY_LEAST = 10      /* those of the versions 1.x, whose length field is shorter */
};

typedef struct tmi_npy_header {
    tenmap_dtype dtype;
    bool fortran; /* the first axis is the one whose elements lie together */
    uint32_t rank;
    uint64_t shape[TMI_NPY_MOST_RANK];
} tmi_npy_header;

/* Why an array cannot be opened. */
typedef struct tmi_npy_problem {
    char text[320];
    tenmap_status status;
    uint32_t code;   /* TENMAP_FOUND_* */
    uint32_t remedy; /* TENMAP_REMEDY_* */
    uint64_t at;     /* the byte, counted from the array's first one */
} tmi_npy_problem;

bool tmi_npy_is_magic(const unsigned char *start, uint64_t len);
/*
 * Sets *length to the bytes of the header: from the magic to the first element. `start` has the
 * array's first `len` bytes, and TMI_NPY_FIRST of them if the array has that many.
 */
bool tmi_npy_measure(const unsigned char *start, uint64_t len, uint64_t *length,
                     tmi_npy_problem *problem);
/* Parses the header, whose length tmi_npy_measure gave. */
bool tmi_npy_parse(const unsigned char *header, size_t length, tmi_npy_header *npy,
                   tmi_npy_problem *problem);

/* npy_arrays.c: turns headers of arrays into the tables of a header. */

/* An array of the file. It begins with its name, so that tmi_names can find it. */
typedef struct tmi_npy_array {
    const char *name; /* NUL-terminated */
    size_t name_len;
    uint64_t at, bytes;         /* of the array with its header, counted from the model's start */
    const unsigned char *start; /* its header */
    size_t length;              /* of the header */
} tmi_npy_array;

/*
 * Fills the header, which is zeroed except for its text, with one tensor for each array. On failure
 * the header may be filled in part.
 */
tenmap_status tmi_npy_fill(tmi_header *header, const tmi_place *place, const tmi_npy_array *arrays,
                           size_t count, tenmap_error *error);
/* Fails because of an array; a check gets a finding and goes on. `name` may be NULL. */
tenmap_status tmi_npy_failed(const tmi_place *place, const char *name, uint64_t at,
                             const tmi_npy_problem *problem, tenmap_error *error);

/* npz.c: archives of arrays. */

/* Whether the entries are those of a .npz archive, and not of a PyTorch checkpoint. */
bool tmi_is_npz(const tmi_zip *zip);
/* Reads the headers of all arrays. Sets text->container. */
tenmap_status tmi_npz_find_text(tmi_header_reader *reader, const tmi_zip *zip,
                                tmi_header_text *text, tenmap_error *error);

#endif
