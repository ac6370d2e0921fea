#!/usr/bin/env python3
"""Checks that no function has more than six parameters. What a chain of functions passes on belongs
into a struct. Exempt are functions of the public headers and those that a program passes to them,
whose signatures are fixed, and functions of MPI, which a test replaces.

    scripts/parameters.py [SOURCE]
"""
import glob
import os
import re
import sys

MOST = 6
FOLDERS = ["src/*", "tool", "tool/*", "http", "http/*", "sha256", "mpi", "mpi/*", "python/src", "examples", "examples/*"]
PUBLIC = ["include/*.h", "include/tenmap/*.h", "http/*.h", "mpi/tenmap_mpi.h"]
DEFINITION = re.compile(r"^[A-Za-z_][\w \t*]*?[\s*]([A-Za-z_]\w*)\(([^;{}]*?)\)\s*\{", re.M)

os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))


def files(patterns):
    return sorted({path for pattern in patterns for path in glob.glob(pattern)})


def code(path):
    """Returns a file's text; comments are replaced by their line breaks."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)


def count(parameters):
    """Counts parameters. Those of a function pointer's type are inside of parentheses."""
    while True:
        outer = re.sub(r"\([^()]*\)", "", parameters)
        if outer == parameters:
            return outer.count(",") + 1
        parameters = outer


def plain(parameters):
    return " ".join(parameters.split())


# The parameters of function pointers, such as tenmap_derived.call.
CALLBACK = re.compile(r"\(\*\w+\)\(([^;{}]*?)\);")
callbacks = {plain(parameters) for path in files(PUBLIC) for parameters in CALLBACK.findall(code(path))}
public = set(re.findall(r"\b((?:tenmap|TENMAP)\w*)\(", "".join(code(path) for path in files(PUBLIC))))
functions = found = 0
for path in files(f"{folder}/*.[ch]" for folder in FOLDERS):
    text = code(path)
    for match in DEFINITION.finditer(text):
        name, parameters = match[1], count(match[2])
        functions += 1
        fixed = name in public or plain(match[2]) in callbacks
        if parameters > MOST and not fixed and not name.startswith("MPI_"):
            line = text.count("\n", 0, match.start(1)) + 1
            print(f"{path}:{line}: {name} has {parameters} parameters, at most {MOST} are allowed")
            found += 1
if functions < 1000 or not glob.glob("src/*/*.c"):
    print(f"there are only {functions} functions")
    sys.exit(1)
if found:
    sys.exit(1)
print(f"{functions} functions have at most {MOST} parameters, except for public ones")
