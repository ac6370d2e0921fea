/*
 * Remote models: addresses (https://, hf://, s3://) are accepted wherever a MODEL is. This needs
 * libtenmap-http, which the tool may have been built without; opening an address then reports that.
 */
#ifndef TOOL_REMOTE_H
#define TOOL_REMOTE_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

#include "command.h"
#include "view/print.h"

/* Default number of threads for a remote model without -j. They mostly wait. */
enum { REMOTE_THREADS = 8 };

/* Whether the path begins with a scheme, known or not ("ftp://"), and no such file exists. */
bool is_address(const char *path);

/*
 * Sets options->io if the path is an address. Returns 0, or an exit code after printing an error.
 */
int remote_options(const char *path, tenmap_options *options);
/* Call after opening a model with these options: later reads are no longer cached as headers. */
void remote_opened(void);

/*
 * Announces that all bytes of these tensors will be read, in this order: those of remote models are
 * then read in ranges of MiBs, over several connections, ahead of the reads that need them.
 * Replaces what was announced before. Call it before each job that reads values.
 */
void remote_will_read(const tenmap_tensor *const *tensors, size_t count);

/*
 * Applies the options to the addresses on a command line before the command runs. It hides --token
 * from process listings, adds --revision to the operands, and, if an operand is an address and no
 * number was given, sets the command's --threads to REMOTE_THREADS. `settings` is the struct that
 * `options` fills. Returns 0 or an exit code.
 */
int remote_prepare(const option *options, void *settings, const char **operands, size_t count);

/* Points to the query of an address, with its '?', or to the end if there is none. */
const char *address_query(const char *address);
/*
 * Adds the path of a file in a folder, which may be an address. In an http or https address the
 * name's %, ? and # are percent-encoded.
 */
void text_add_named(text *out, const char *folder, const char *name);
/* The folder that a local path lies in: "." if it names none. The caller frees it. */
char *folder_of(const char *path);

/*
 * The path as shown to the user: an address loses its query, which may contain signatures. Returns
 * the path itself or a new string; the last eight such strings stay valid. Not thread-safe.
 */
const char *shown_path(const char *path);
/* Adds a message with the queries of all addresses removed. */
void text_add_shown(text *out, const char *message, size_t len);

/*
 * Reads a small file of at most `most` bytes; the caller frees it. Prints nothing: *out is NULL and
 * *len 0 if the file does not exist, is larger, or cannot be read. Returns the file's size: 0 if it
 * does not exist, UINT64_MAX if the size is unknown.
 */
uint64_t remote_read(const char *address, size_t most, char **out, size_t *len);

/*
 * Asks a hub which SHA-256 (64 digits) and size a file has. Returns 0, or an exit code after
 * printing an error.
 */
int remote_digest(const char *address, char sha256[65], uint64_t *size);

/* Calls `entry` with each name in a folder, in no particular order. Returns 0 or an exit code. */
int remote_list(const char *folder, int (*entry)(void *ctx, const char *name), void *ctx);

/* Closes all connections, and prints the traffic if --traffic is given. */
void remote_end(void);

#endif
