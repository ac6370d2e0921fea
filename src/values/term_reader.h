/*
 * Reads the terms of derived tensors, of every kind, as any dtype that they can be read as. A
 * thread has one reader for each level of terms that are derived themselves.
 */
#ifndef TENMAP_TERM_READER_H
#define TENMAP_TERM_READER_H

#include "part_reader.h"
#include "value_source.h"

/* Stored tensors that are not in memory and are read in turns keep a window each, up to so many. */
enum { TMI_TERM_WINDOWS = 4, TMI_TRANSPOSED_BYTES = 64 << 10 };

typedef struct tmi_term_reader {
    const tmi_nested_calls *nested;
    tmi_source *source; /* of the last term that is not stored as it is */
    tmi_part_reader stored[TMI_TERM_WINDOWS];
    unsigned next; /* the window that is given up next */
    bool reading;  /* what is in memory is read too */
    int direct_fd; /* for reads of the file `direct_of` that bypass the page cache, or -1 */
    const tmi_bytes *direct_of;
    unsigned char transposed[TMI_TRANSPOSED_BYTES]; /* a tile that is transposed next */
} tmi_term_reader;

void tmi_term_reader_begin(tmi_term_reader *r, const tmi_nested_calls *nested);
void tmi_term_reader_end(tmi_term_reader *r);
/* Takes up how a transfer reads: `w` is as tmi_maker.run gets it. */
void tmi_term_reader_switch(tmi_term_reader *r, const tmi_window *w);

/* How elements become those of the result. `as` has no elements of less than a byte. */
typedef struct tmi_term_target {
    tenmap_dtype as;
    uint32_t flags; /* TENMAP_CONVERT_* */
    unsigned char *dst;
    size_t line; /* bytes from one row of the result to the next */
} tmi_term_target;

/* Rows of elements of a tensor, counted from element 0; the columns lie together in the result. */
typedef struct tmi_piece {
    const tenmap_tensor *tensor;
    uint64_t at;
    tmi_walk row, column;
} tmi_piece;

tenmap_status tmi_read_piece(tmi_term_reader *r, const tmi_piece *piece,
                             const tmi_term_target *target, tenmap_error *error);

#endif
