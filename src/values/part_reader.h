/* Reads the bytes of one part of a tensor, from memory or through a window. */
#ifndef TENMAP_PART_READER_H
#define TENMAP_PART_READER_H

#include "values.h"

typedef struct tmi_part_reader {
    const tenmap_tensor *tensor; /* NULL: the tensor has no such part */
    const unsigned char *base;   /* its bytes in memory; NULL: it is read through the window */
    tmi_window window;
    tmi_block buffer;
} tmi_part_reader;

/* Prepares a reader. Everything else is set when it is switched to a part, or opened. */
static inline void tmi_part_begin(tmi_part_reader *part) {
    part->tensor = NULL;
    part->buffer = (tmi_block){NULL, 0};
    part->window.coarse = false;
}
/* Points the reader at a part, or at none. With `reading`, bytes in memory are not used. */
static inline void tmi_part_switch(tmi_part_reader *part, const tenmap_tensor *tensor,
                                   bool reading) {
    part->tensor = tensor;
    part->base = tensor && !reading ? tensor->data : NULL;
    part->window.bytes = NULL;
    part->window.ahead = true;
    part->window.direct_fd = -1;
}
/*
 * Opens the window if it is not open, with at least `size` bytes. With `whole`, a part that fits is
 * read from its beginning, so that no byte of it is read twice.
 */
tenmap_status tmi_part_open(tmi_part_reader *part, size_t size, bool whole, tenmap_error *error);
void tmi_part_close(tmi_part_reader *part);

#endif
