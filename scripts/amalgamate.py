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
SYSTEM = re.compile(r"\s*#\s*include\s+<")

# What a file of its own asks of the system's headers must be asked before the first of them here.
HEAD = """\
/*
 * tenmap {version}, as one file: compile it with your program, or as a library of its own,
 *
 *     cc -O2 -c tenmap.c        (and link with -lpthread)
 *
 * and include tenmap.h, which lies beside it. Made by scripts/amalgamate.py: changes belong into the
 * files that it is made of.
 *
{licence}
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "tenmap.h"

/* What the parts of the library know of each other stays inside it; the system's headers do not. */
#if defined(__GNUC__) && !defined(_WIN32)
#define TMI_SYSTEM_BEGIN _Pragma("GCC visibility push(default)")
#define TMI_SYSTEM_END _Pragma("GCC visibility pop")
_Pragma("GCC visibility push(hidden)")
#else
#define TMI_SYSTEM_BEGIN
#define TMI_SYSTEM_END
#endif
"""
TAIL = """
#if defined(__GNUC__) && !defined(_WIN32)
_Pragma("GCC visibility pop")
#endif
"""


def sources():
    """All of them by name, Windows's last: its headers define words that the others use."""
    files = sorted(ROOT.glob("src/*.c")) + sorted(ROOT.glob("src/kernels/*.c"))
    return sorted(files, key=lambda file: "win32" in file.name)


def expand(file, seen, out):
    """The file's lines, with every header of ours where it is first included."""
    out.append(f"\n/* {file.relative_to(ROOT).as_posix()} */\n\n")
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        include = INCLUDE.match(line)
        if SYSTEM.match(line):
            out.append(f"TMI_SYSTEM_BEGIN\n{line}TMI_SYSTEM_END\n")
            continue
        if not include:
            out.append(line)
            continue
        header = (file.parent / include.group(1)).resolve()
        if header.name != "tenmap.h" and header not in seen:
            seen.add(header)
            expand(header, seen, out)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    header = (ROOT / "include/tenmap.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"#define TENMAP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8").rstrip().splitlines()
    text = "\n".join((" * " + line).rstrip() for line in licence)
    out = [HEAD.format(version=version, licence=text)]
    seen = set()
    for file in sources():
        expand(file, seen, out)
    out.append(TAIL)
    for name, content in (("tenmap.c", "".join(out)), ("tenmap.h", header)):
        (folder / name).write_text(content, encoding="utf-8", newline="\n")


main()
