/* What the files of the GGUF container know of each other: values, and walking over them. */
#ifndef TENMAP_GGUF_H
#define TENMAP_GGUF_H

#include "format.h"

/* Arrays may hold arrays, so many deep. */
enum { TMI_GGUF_DEPTH = 8 };
/* Room for the text of any number. */
enum { TMI_NUMBER_ROOM = 32 };

/* Why a walk stopped. */
enum {
    TMI_GGUF_GOOD,
    TMI_GGUF_MORE,   /* bytes are wanted up to `number`, which the file has */
    TMI_GGUF_ENDS,   /* the file ends before the `number` bytes that belong here */
    TMI_GGUF_STRING, /* a string of `number` bytes */
    TMI_GGUF_COUNT,  /* an array of `number` elements */
    TMI_GGUF_TYPE,   /* the type `number` */
    TMI_GGUF_NESTED, /* arrays in arrays, deeper than TMI_GGUF_DEPTH */
    TMI_GGUF_BOOL,   /* a BOOL that is `number` */
    TMI_GGUF_MAGIC,  /* these are about the beginning and the items */
    TMI_GGUF_VERSION,
    TMI_GGUF_PAIRS,
    TMI_GGUF_TENSORS,
    TMI_GGUF_RANK,
    TMI_GGUF_UTF8 /* a key or a name */
};

/* A walk over the bytes of a header, of which `have` are at hand and `size` are in the file. */
typedef struct tmi_gguf_walk {
    const unsigned char *bytes;
    uint64_t at, have, size;
    int problem; /* TMI_GGUF_*; `at` is where */
    uint64_t number;
} tmi_gguf_walk;

/* Whether `count` bytes are at hand; a problem if not. */
bool tmi_gguf_want(tmi_gguf_walk *walk, uint64_t count);
/* These step over what they take; false and a problem if it is not there. */
bool tmi_gguf_u32(tmi_gguf_walk *walk, uint32_t *out);
bool tmi_gguf_u64(tmi_gguf_walk *walk, uint64_t *out);
bool tmi_gguf_string(tmi_gguf_walk *walk, const char **text, uint64_t *len);
/* One value; out->raw_bytes are its bytes but for a string's length and an array's type and count. */
bool tmi_gguf_value(tmi_gguf_walk *walk, uint32_t type, tenmap_value *out);

/* The text of a number or a BOOL, NUL-terminated; its length. */
size_t tmi_number_text(char out[TMI_NUMBER_ROOM], uint32_t type, const void *raw);

/* gguf_read.c: the items of a header, one after the other, and the sentences for what is no item. */

typedef struct tmi_gguf_reader {
    tmi_gguf_walk walk;
    const tmi_place *place;
    tenmap_error *error;
    uint64_t tensors, pairs; /* as the header counts them */
    const char *item;        /* the name of the one that is being read, or NULL */
    size_t item_len;
    bool in_tensors;
} tmi_gguf_reader;

/* A row of the table of tensors; the dimensions as GGUF has them, innermost first. */
typedef struct tmi_gguf_row {
    const char *name;
    size_t name_len;
    uint32_t rank, type;
    uint64_t dims[4];
    uint64_t offset; /* from where the data begins */
} tmi_gguf_row;

/* Magic, version and counts. False, and walk.problem or a sentence, if they are not as they must be. */
bool tmi_gguf_begin(tmi_gguf_reader *r);
/* The next pair, the next row. Likewise. */
bool tmi_gguf_pair(tmi_gguf_reader *r, const char **key, size_t *key_len, tenmap_value *value);
bool tmi_gguf_take_row(tmi_gguf_reader *r, tmi_gguf_row *row);
/* What made one of them return false: the sentence is in r->error, and with a check reported. */
tenmap_status tmi_gguf_failed(tmi_gguf_reader *r);

/* gguf_tensors.c: as tmi_header_parse. */
tenmap_status tmi_gguf_parse(tmi_header *header, const tmi_place *place, tmi_block text,
                             size_t length, tenmap_error *error);

#endif
