/* Opens windows on the parts of tensors that are not in memory. */
#include "part_reader.h"

/* Reads that bypass the page cache need whole pages, and few of them. */
enum { DIRECT_ROOM = 4 << 20 };

tenmap_status tmi_part_open(tmi_part_reader *part, size_t size, bool whole, tenmap_error *error) {
    const tenmap_tensor *t = part->tensor;
    if (part->window.bytes)
        return TENMAP_OK;
    if (part->window.direct_fd >= 0)
        size = DIRECT_ROOM;
    if (!part->buffer.bytes || part->window.size < size) {
        tmi_block_free(&part->buffer);
        if (!tmi_block_alloc_dirty(&part->buffer, size))
            return tmi_fail_memory(error, size, "reading");
        part->window.size = size;
    }
    part->window.bytes = &tmi_shard_of(t)->bytes;
    part->window.buffer = part->buffer.bytes;
    part->window.at = part->window.end = 0;
    part->window.last = t->file_offset + t->nbytes;
    if (!whole || size < t->nbytes || !t->nbytes)
        return TENMAP_OK;
    const unsigned char *first;
    return tmi_window_bytes(&part->window, t->file_offset, (size_t)t->nbytes, t, &first, error);
}

void tmi_part_close(tmi_part_reader *part) {
    tmi_block_free(&part->buffer);
}
