/*
 * A tenmap_io over another that asks for nothing twice: what one command has opened, listed or not found
 * stays known until the command ends. A second look at the same model (a check, then an open) costs no
 * request, and sees the same version of every file.
 */
#ifndef TOOL_KEPT_H
#define TOOL_KEPT_H

#include <stdbool.h>

#include <tenmap.h>

/* `under` must live until kept_free. */
tenmap_io kept_io(const tenmap_io *under);
/* Closes all that is open. One that is zeroed is fine. */
void kept_free(tenmap_io *io);
/* Whether what is read is kept as well: while models are opened, so that headers are. */
void kept_reads(const tenmap_io *io, bool keep);

#endif
