/* What `tenmap --version` prints. */
#ifndef TENMAP_TOOL_VERSION_H
#define TENMAP_TOOL_VERSION_H

/*
 * Prints "tenmap X.Y.Z", then a line for each of: the commit, if the tool was built from git; the
 * compiler; the instruction set that conversions use on this machine; libcurl's version, or why
 * there is none.
 */
void print_version(void);

#endif
