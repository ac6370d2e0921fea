/* What several tests need: files in a temporary folder, models built from their JSON, checks. */
#ifndef TENMAP_TESTS_SUPPORT_H
#define TENMAP_TESTS_SUPPORT_H

#include "cmocka_all.h"
#include "tenmap.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For tests that need real files, in programs that also run behind a tenmap_io. */
#ifdef TENMAP_TEST_IO
#define NEEDS_FILES() skip()
#else
#define NEEDS_FILES() (void)0
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The last of the dtypes that have bits of their own. */
static inline tenmap_dtype last_dtype(void) {
    tenmap_dtype d = TENMAP_BOOL;
    while (tenmap_dtype_bits(d + 1))
        d++;
    return d;
}

/* A file's bytes in memory; free with free(). */
typedef struct bytes {
    unsigned char *at;
    size_t size;
} bytes;

/* A file with a length field, this JSON, and `data` bytes of a fixed pattern (see pattern_byte). */
bytes make_model(const char *json, size_t data);
bytes make_model_n(const char *json, size_t json_len, size_t data);
unsigned char pattern_byte(size_t i);

/* A fresh folder under $TMPDIR; group setup and teardown for cmocka: *state is its path. */
int make_folder(void **state);
int remove_folder(void **state);
/* Removes everything inside; the folder stays. A test's setup. */
int empty_folder(void **state);

/* How many files and folders lie in it. */
size_t count_names(const char *folder);

/* The file's inode, which changes if the file is replaced. */
uint64_t inode_of(const char *path);

/* "folder/name" in a buffer that the fourth call after this one overwrites. */
const char *in_folder(void **state, const char *name);
void write_file(const char *path, const void *data, size_t size);
/* A model file from its JSON. */
void write_model(const char *path, const char *json, size_t data);
/* The same with `slack` spaces after the JSON. */
void write_model_slack(const char *path, const char *json, size_t slack, size_t data);
void write_text(const char *path, const char *text);
bytes read_whole(const char *path);
/* Modifies a file in place like another program: its last byte and its modification time. */
void modify_data(const char *path);

/* Opens a model; the test fails if that fails. */
tenmap_model *must_open(const char *path, const tenmap_options *options);
tenmap_model *must_open_memory(bytes file, const tenmap_options *options);
/*
 * Opening must fail with this status, this fragment in the message, *out NULL, and a clean error.
 */
void must_fail(const char *path, const tenmap_options *options, tenmap_status status,
               const char *fragment);
void must_fail_memory(bytes file, const tenmap_options *options, tenmap_status status,
                      const char *fragment);
/* The call must have failed with this status, this fragment in the message, and a clean error. */
void check_refused(tenmap_status got, const tenmap_error *error, tenmap_status status,
                   const char *fragment);
/* tenmap_check must agree with tenmap_open about the path. */
void check_agrees(const char *path, const tenmap_options *options, tenmap_status opened,
                  const tenmap_error *error);
/*
 * Checks the promises about every error: terminated, valid UTF-8, no control characters, not empty,
 * no macro names unless the status is TENMAP_ERR_ARGUMENT, which is for the programmer, and the
 * remedy that the message tells.
 */
void check_error(const tenmap_error *error, tenmap_status status);

#endif
