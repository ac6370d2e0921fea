/* Shared by the files of the GGUF container: metadata values and how to walk over them. */
#ifndef TENMAP_GGUF_H
#define TENMAP_GGUF_H

#include "format.h"

/* How deep arrays may be nested. */
enum { TMI_GGUF_DEPTH = 8 };
/* Bytes that hold the text of any number. */
enum { TMI_NUMBER_ROOM = 32 };

/* Why a walk stopped. */
enum {
    TMI_GGUF_GOOD,
    TMI_GGUF_MORE,   /* bytes up to `number` are needed, and the file has them */
    TMI_GGUF_ENDS,   /* the file ends before the `number` bytes that belong here */
    TMI_GGUF_STRING, /* a string of `number` bytes does not fit */
    TMI_GGUF_COUNT,  /* an array of `number` elements does not fit */
    TMI_GGUF_TYPE,   /* there is no type `number` */
    TMI_GGUF_NESTED, /* arrays are nested deeper than TMI_GGUF_DEPTH */
    TMI_GGUF_BOOL,   /* a BOOL has the value `number` */
    TMI_GGUF_MAGIC,  /* this and the following are about the fixed part and the items */
    TMI_GGUF_VERSION,
    TMI_GGUF_PAIRS,
    TMI_GGUF_TENSORS,
    TMI_GGUF_RANK,
    TMI_GGUF_UTF8 /* a key or a name is not UTF-8 */
};

/* A walk over the bytes of a header: `have` of them are in memory, `size` are in the file. */
typedef struct tmi_gguf_walk {
    const unsigned char *bytes;
    uint64_t at, have, size;
    int problem; /* TMI_GGUF_*, found at `at` */
    uint64_t number;
} tmi_gguf_walk;

/* Whether `count` bytes are in memory; sets a problem if not. */
bool tmi_gguf_want(tmi_gguf_walk *walk, uint64_t count);
/* These read a value and step over it; they return false and set a problem if it is not there. */
bool tmi_gguf_u32(tmi_gguf_walk *walk, uint32_t *out);
bool tmi_gguf_u64(tmi_gguf_walk *walk, uint64_t *out);
bool tmi_gguf_string(tmi_gguf_walk *walk, const char **text, uint64_t *len);
/* Reads one value. out->raw_bytes excludes a string's length and an array's type and count. */
bool tmi_gguf_value(tmi_gguf_walk *walk, uint32_t type, tenmap_value *out);

/*
 * Whether a value that no header was read for is complete: its bytes are those of its type, and an
 * array's elements take all of them, nested ones included.
 */
bool tmi_gguf_is_whole(const tenmap_value *value);

/* Writes the text of a number or a BOOL, NUL-terminated, and returns its length. */
size_t tmi_number_text(char out[TMI_NUMBER_ROOM], uint32_t type, const void *raw);

/* gguf_read.c: reads the items of a header one by one, and writes error messages for bad ones. */

typedef struct tmi_gguf_reader {
    tmi_gguf_walk walk;
    const tmi_place *place;
    tenmap_error *error;
    uint64_t tensors, pairs; /* as the header states them */
    const char *item;        /* the name of the item being read, or NULL */
    size_t item_len;
    bool in_tensors;
} tmi_gguf_reader;

/* A row of the tensor table; its dimensions are in GGUF's order, innermost first. */
typedef struct tmi_gguf_row {
    const char *name;
    size_t name_len;
    uint32_t rank, type;
    uint64_t dims[4];
    uint64_t offset; /* counted from the start of the data */
} tmi_gguf_row;

/* Reads magic, version and counts. Returns false and sets walk.problem if they are not valid. */
bool tmi_gguf_begin(tmi_gguf_reader *r);
/* Reads the next pair or the next row. Returns false in the same way. */
bool tmi_gguf_pair(tmi_gguf_reader *r, const char **key, size_t *key_len, tenmap_value *value);
bool tmi_gguf_take_row(tmi_gguf_reader *r, tmi_gguf_row *row);
/* Writes the error message for what made one of them return false; a check also reports it. */
tenmap_status tmi_gguf_failed(tmi_gguf_reader *r);

/* gguf_header.c: behaves as tmi_header_parse. */
tenmap_status tmi_gguf_parse(tmi_header *header, const tmi_place *place, tmi_block text,
                             size_t length, tenmap_error *error);

#endif
