/*
 * Models that are not here: addresses (https://, hf://, s3://) wherever a MODEL is taken. It needs
 * libtenmap-http, which the tool may have been built without; what opens an address says so then.
 */
#ifndef TOOL_REMOTE_H
#define TOOL_REMOTE_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

#include "command.h"
#include "view/print.h"

/* Threads that a command uses for a remote model without -j: they wait, they do not compute. */
enum { REMOTE_THREADS = 8 };

/* Whether it begins with a scheme, known or not ("ftp://"), and names nothing that is here. */
bool is_address(const char *path);

/* Sets options->io if the path is an address. 0, or an exit code, and it has told. */
int remote_options(const char *path, tenmap_options *options);
/* After what was opened with these: what is read from now on is not for another look at headers. */
void remote_opened(void);

/*
 * What the options of a command line mean to addresses on it, before the command runs: --token is hidden
 * from those who list processes, --revision becomes part of the operands, and the command's --threads
 * are as many as connections, if no number was given. `settings` is what `options` fills. 0 or an exit
 * code.
 */
int remote_prepare(const option *options, void *settings, const char **operands, size_t count);

/* Where the query of an address begins, with its '?'; its end if it has none. */
const char *address_query(const char *address);
/* Adds the path of a file in a folder, which may be an address: the name is written as it is there. */
void text_add_named(text *out, const char *folder, const char *name);

/*
 * The path as it is shown: an address without its query, where signatures are. The path itself, or one
 * of the last eight of these. Not for threads.
 */
const char *shown_path(const char *path);
/* Adds a sentence, in which no address has a query. */
void text_add_shown(text *out, const char *sentence, size_t len);

/*
 * A small file, to be freed: at most `most` bytes. Says nothing: *out is NULL, and *len 0, where it is not
 * there, or larger, or cannot be read. Returns the size that it has: 0 if it is not there, UINT64_MAX if that
 * cannot be told.
 */
uint64_t remote_read(const char *address, size_t most, char **out, size_t *len);

/* Calls with each name in a folder, in no order. 0 or an exit code. */
int remote_list(const char *folder, int (*entry)(void *ctx, const char *name), void *ctx);

/* Ends all connections, and says what was moved if --traffic asks for it. */
void remote_end(void);

#endif
