/* Reads the parts of a quantized tensor, from memory or through a window for each part. */
#include "dequantize.h"

/*
 * Windows on parts that are not in memory: the values are read in order; the others are small, or
 * read again and again.
 */
enum { VALUES_WINDOW = 256 << 10, SMALL_WINDOW = 32 << 10 };
/*
 * If groups are listed (g_idx), rows of scales are needed in any order: parts up to this size are
 * read once, as a whole. The limit is higher for objects of a tenmap_io, each read of which may be
 * a network request.
 */
enum { LISTED_WINDOW = 1 << 20, LISTED_OBJECT = 4 << 20 };

size_t tmi_quant_window(const tmi_dequantizer *s, unsigned which) {
    const tenmap_tensor *t = s->parts[which].tensor;
    size_t wanted = SMALL_WINDOW;
    if (which == TMI_PART_VALUES)
        wanted = tmi_bytes_window_size(&tmi_shard_of(t)->bytes, VALUES_WINDOW);
    else if (s->parts[TMI_PART_GROUP_INDEX].tensor &&
             t->nbytes <= (tmi_shard_of(t)->bytes.io ? LISTED_OBJECT : LISTED_WINDOW))
        wanted = (size_t)t->nbytes;
    return wanted < SMALL_WINDOW ? SMALL_WINDOW : wanted;
}

tenmap_status tmi_quant_bytes(tmi_dequantizer *s, unsigned which, uint64_t offset, size_t size,
                              const unsigned char **bytes, tenmap_error *error) {
    tmi_part_reader *part = &s->parts[which];
    const tenmap_tensor *t = part->tensor;
    if (offset > t->nbytes || size > t->nbytes - offset)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_FORMAT, t,
                               "bytes %llu to %llu are needed, but it has only %llu", (ull)offset,
                               (ull)(offset + size), (ull)t->nbytes);
    if (part->base) {
        *bytes = part->base + offset;
        return TENMAP_OK;
    }
    tenmap_status status = TENMAP_OK;
    if (!part->window.bytes)
        status = tmi_part_open(part, tmi_quant_window(s, which), which != TMI_PART_VALUES, error);
    if (status == TENMAP_OK) {
        uint64_t at = t->file_offset + offset;
        if (which == TMI_PART_VALUES) /* codes after those of this run are not worth a request */
            part->window.last = at + size > s->values_end ? at + size : s->values_end;
        status = tmi_window_bytes(&part->window, at, size, t, bytes, error);
    }
    return status;
}

tenmap_status tmi_quant_floats(tmi_dequantizer *s, const tmi_part_run *run, float *out,
                               tenmap_error *error) {
    const unsigned char *bytes = NULL;
    size_t width = tmi_dtype_width(run->as);
    tenmap_status status =
        tmi_quant_bytes(s, run->part, run->first * width, run->count * width, &bytes, error);
    if (status == TENMAP_OK)
        tmi_convert_file((tmi_packed){TENMAP_F32, 0}, out, (tmi_packed){run->as, 0}, bytes,
                         run->count, TENMAP_CONVERT_NO_STREAM);
    return status;
}
