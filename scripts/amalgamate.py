#!/usr/bin/env python3
"""Joins the library into two files, tenmap.c and tenmap.h, for projects that want no more than that:

    scripts/amalgamate.py FOLDER

The result depends on the sources alone: the same sources give the same bytes, wherever and whenever.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')

# The names that files of the library share: functions and tables with their own prefix. In one
# file, nothing else needs them. A function that was declared static is static where it is defined,
# too; a table's definition must repeat it.
DECLARED = re.compile(r"(?!(?:static|typedef|extern|return|struct|enum|union|else)\b)[A-Za-z_][\w *]*?\btmi_\w+[\[(;, ]")
EXTERN = re.compile(r"extern\b")
TABLE = re.compile(r"const \w+ \**tmi_\w+(?:\[\w*\])* = ")

# The feature macros of single files must be defined before the first system header here.
HEAD = """\
/*
 * tenmap {version}, as one file: compile it with your program, or as a library of its own,
 *
 *     cc -O2 -c tenmap.c        (and link with -lpthread)
 *
 * and include tenmap.h, which lies beside it. All names that begin with tmi_ are static here. Those of
 * tenmap.h stay inside the shared object that this is linked into with -DTENMAP_HIDDEN, and inside one
 * file of yours with
 *
 *     #define TENMAP_API static
 *     #include "tenmap.c"
 *
 * Made by scripts/amalgamate.py: changes belong into the files that it is made of.
 *
{license}
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "tenmap.h"

/* Not all that is here is used in every build, least of all where the API is static. */
#if defined(__GNUC__)
#define TMI_LOCAL static __attribute__((unused))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#else
#define TMI_LOCAL static
#endif
"""
TAIL = """
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
"""


def sources():
    """Returns all sources by name, Windows's last: its headers define words that others use."""
    files = sorted(ROOT.glob("src/*/*.c"))
    if not files:
        sys.exit("no sources of the library: src/*/*.c")
    print(f"{len(files)} sources of the library", file=sys.stderr)
    return sorted(files, key=lambda file: "win32" in file.name)


def local(line, header):
    """Returns the line, as a static declaration if it declares a name that files share."""
    if header and EXTERN.match(line):
        return EXTERN.sub("TMI_LOCAL", line, count=1)
    if (header and DECLARED.match(line)) or TABLE.match(line):
        return "TMI_LOCAL " + line
    return line


def expand(file, seen, out):
    """Appends the file's lines, with each of our headers where it is first included."""
    out.append(f"\n/* {file.relative_to(ROOT).as_posix()} */\n\n")
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        include = INCLUDE.match(line)
        if not include:
            out.append(local(line, file.suffix == ".h"))
            continue
        header = (file.parent / include.group(1)).resolve()
        if header != ROOT / "include/tenmap.h" and header not in seen:
            seen.add(header)
            expand(header, seen, out)


def public_header():
    """Returns tenmap.h with each header that it includes in its place, once."""
    seen = set()

    def lines(file):
        for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
            include = INCLUDE.match(line)
            if not include:
                yield line
                continue
            header = (file.parent / include.group(1)).resolve()
            if header not in seen:
                seen.add(header)
                yield from lines(header)

    return "".join(lines(ROOT / "include/tenmap.h"))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    header = public_header()
    version = ".".join(re.findall(r"#define TENMAP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    version += re.search(r'#define TENMAP_VERSION_SUFFIX "(.*)"', header)[1]
    license = (ROOT / "LICENSE").read_text(encoding="utf-8").rstrip().splitlines()
    text = "\n".join((" * " + line).rstrip() for line in license)
    out = [HEAD.format(version=version, license=text)]
    seen = set()
    for file in sources():
        expand(file, seen, out)
    out.append(TAIL)
    for name, content in (("tenmap.c", "".join(out)), ("tenmap.h", header)):
        (folder / name).write_text(content, encoding="utf-8", newline="\n")


main()
