/*
 * A tenmap_io over another one that caches results: whatever a command has opened, listed or not
 * found is remembered until the command ends. A second look at the same model (a check, then an
 * open) costs no request and sees the same version of every file.
 */
#ifndef TOOL_KEPT_H
#define TOOL_KEPT_H

#include <stdbool.h>

#include <tenmap.h>

/* `under` must stay valid until kept_free. */
tenmap_io kept_io(const tenmap_io *under);
/* Closes everything that is open. A zeroed tenmap_io is allowed. */
void kept_free(tenmap_io *io);
/*
 * Sets whether data that is read is cached too. It is on while models are opened, so that headers
 * are cached.
 */
void kept_reads(const tenmap_io *io, bool keep);

#endif
