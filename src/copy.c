/* Tensors of an open model into a writer: inside the kernel, by way of a buffer, or converted. */
#include "write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Buffers small enough to stay in the cache between the conversion and the write. */
enum { COPY_BUFFER = 1 << 20, CONVERT_ELEMENTS = 64 << 10 };

typedef struct copying {
    tenmap_writer *writer;
    size_t id;
    const tenmap_tensor *from;
    tenmap_dtype to;
    uint32_t flags;
    uint64_t at; /* where the next byte goes in the file */
    tenmap_error *error;
} copying;

static const tmi_shard *copied_shard(const copying *c) {
    return &c->from->model->shards[c->from->shard];
}

/* Writes and moves on. */
static tenmap_status put_bytes(copying *c, const void *bytes, size_t size) {
    int failed = tmi_fd_write(tmi_writer_fd(c->writer), c->at, bytes, size);
    c->at += size;
    return failed ? tmi_writer_spoil(c->writer, c->id, failed, c->error) : TENMAP_OK;
}

/* Bytes of the source into a buffer. Checked reads, so a file that shrinks gives an error. */
static tenmap_status get_bytes(copying *c, uint64_t offset, void *dst, size_t size) {
    tenmap_error why;
    tenmap_status status =
        tmi_shard_read(copied_shard(c), c->from->file_offset + offset, dst, size, c->from, &why);
    return status == TENMAP_OK ? status : tmi_writer_spoil_with(c->writer, &why, c->error);
}

static tenmap_status copy_buffered(copying *c, uint64_t done) {
    char *buffer = malloc(COPY_BUFFER);
    tenmap_error why;
    if (!buffer) {
        tmi_fail_memory(&why, COPY_BUFFER, "copying");
        return tmi_writer_spoil_with(c->writer, &why, c->error);
    }
    tenmap_status status = TENMAP_OK;
    while (status == TENMAP_OK && done < c->from->nbytes) {
        uint64_t left = c->from->nbytes - done;
        size_t size = left < COPY_BUFFER ? (size_t)left : COPY_BUFFER;
        status = get_bytes(c, done, buffer, size);
        if (status == TENMAP_OK)
            status = put_bytes(c, buffer, size);
        done += size;
    }
    free(buffer);
    return status;
}

static tenmap_status copy_same_dtype(copying *c) {
    const tmi_shard *shard = copied_shard(c);
    uint64_t done = 0;
    if (shard->file.memory)
        return put_bytes(c, c->from->data, (size_t)c->from->nbytes);
    int failed = tmi_fd_copy(shard->file.fd, c->from->file_offset, tmi_writer_fd(c->writer), c->at,
                             c->from->nbytes, &done);
    if (failed && failed != EOPNOTSUPP)
        return tmi_writer_spoil(c->writer, c->id, failed, c->error);
    c->at += done;
    return done == c->from->nbytes ? TENMAP_OK : copy_buffered(c, done);
}

/* Conversions give the host's order; the file's is little-endian. */
static void to_file_order(char *elements, size_t width, size_t count) {
    for (size_t i = 0; width > 1 && i < count; i++, elements += width)
        for (size_t k = 0; k < width / 2; k++) {
            char kept = elements[k];
            elements[k] = elements[width - 1 - k];
            elements[width - 1 - k] = kept;
        }
}

/* Elements come in multiples of eight but at the end, so every part starts on a byte. */
static tenmap_status copy_converted(copying *c) {
    tenmap_status status = TENMAP_OK;
    const tenmap_tensor *t = c->from;
    uint64_t from_bits = tmi_dtypes[t->dtype].bits, to_bits = tmi_dtypes[c->to].bits;
    size_t from_room = (size_t)(CONVERT_ELEMENTS * from_bits / 8);
    size_t to_room = (size_t)(CONVERT_ELEMENTS * to_bits / 8);
    char *buffer = malloc(from_room + to_room);
    tenmap_error why;
    if (!buffer) {
        tmi_fail_memory(&why, from_room + to_room, "converting");
        return tmi_writer_spoil_with(c->writer, &why, c->error);
    }
    for (uint64_t first = 0; status == TENMAP_OK && first < t->nelems; first += CONVERT_ELEMENTS) {
        uint64_t left = t->nelems - first;
        uint64_t count = left < CONVERT_ELEMENTS ? left : CONVERT_ELEMENTS;
        status = get_bytes(c, first * from_bits / 8, buffer, (size_t)((count * from_bits + 7) / 8));
        if (status != TENMAP_OK)
            break;
        tmi_convert_file(c->to, buffer + from_room, 0, t->dtype, buffer, 0, count,
                         (c->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM);
        if (TMI_BIG_ENDIAN)
            to_file_order(buffer + from_room, (size_t)to_bits / 8, (size_t)count);
        status = put_bytes(c, buffer + from_room, (size_t)((count * to_bits + 7) / 8));
    }
    free(buffer);
    return status;
}

/* Everything that can be refused before a byte is claimed. */
static tenmap_status check_copy(const copying *c, const tmi_planned *t) {
    if (c->from->dtype == TENMAP_OPAQUE)
        return tmi_fail(c->error, TENMAP_ERR_UNSUPPORTED,
                        "%s: tensor %s: the source's dtype is unknown here, so it cannot be "
                        "written under a known one",
                        tmi_writer_shown(c->writer).text, tmi_quote(t->name, t->name_len).text);
    if (c->from->nelems != t->nelems)
        return tmi_fail(c->error, TENMAP_ERR_RANGE,
                        "%s: tensor %s: it has %llu elements, but the source %s has %llu",
                        tmi_writer_shown(c->writer).text, tmi_quote(t->name, t->name_len).text,
                        (ull)t->nelems, tmi_quote(c->from->name, c->from->name_len).text,
                        (ull)c->from->nelems);
    return tmi_convert_check(c->to, c->from->dtype, c->flags, c->error);
}

tenmap_status tmi_copy_check(tenmap_writer *writer, size_t id, const tenmap_tensor *tensor,
                             uint32_t flags, tenmap_error *error) {
    tmi_planned planned;
    if (!tmi_writer_tensor(writer, id, &planned))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: there is no tensor number %llu",
                        tmi_writer_shown(writer).text, (ull)id);
    copying c = {writer, id, tensor, planned.dtype, flags, 0, error};
    return check_copy(&c, &planned);
}

tenmap_status tenmap_writer_copy(tenmap_writer *writer, size_t id, const tenmap_tensor *tensor,
                                 uint32_t flags, tenmap_error *error) {
    tmi_planned planned;
    if (!writer || !tensor)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s is NULL",
                        writer ? "tensor to copy" : "writer");
    tenmap_status status = tmi_copy_check(writer, id, tensor, flags, error);
    if (status != TENMAP_OK)
        return status;
    (void)tmi_writer_tensor(writer, id, &planned);
    copying c = {writer, id, tensor, planned.dtype, flags, 0, error};
    status = tmi_writer_claim(writer, id, 0, planned.nbytes, &c.at, error);
    if (status != TENMAP_OK || planned.nbytes == 0)
        return status;
    return c.to == tensor->dtype ? copy_same_dtype(&c) : copy_converted(&c);
}
