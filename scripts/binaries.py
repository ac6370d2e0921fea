#!/usr/bin/env python3
"""Checks what the programs and modules in wheels and archives ask of the system that they run on.

    scripts/binaries.py FILE...          wheels (.whl) and archives (.tar.gz)

Linux: they may need libc, libm, libpthread, libdl and the loader, and no symbol version of glibc
above 2.17; they load at any address, or are static. macOS: they may need libSystem, and at most
macOS 11; arm64 runs only what is signed. Windows: they may need libraries that Windows has, and
python3.dll. Prints a line for each binary. Fails if one asks for more, or if a file has none.
"""

import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

LINUX = re.compile(r"(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|libc\.musl-\w+\.so\.1|ld-linux[\w.-]*)$")
MACOS = re.compile(r"/usr/lib/libSystem\.B\.dylib$")
ET_DYN = 3
WINDOWS = re.compile(r"(python3|kernel32|ntdll|advapi32|bcrypt|ws2_32|ucrtbase|msvcrt|api-ms-win-[\w-]+)\.dll$", re.I)


def binaries(path):
    """Yields the name and the bytes of every file in an archive that is a binary."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            files = [(name, archive.read(name)) for name in archive.namelist()]
    else:
        with tarfile.open(path) as archive:
            files = [(m.name, archive.extractfile(m).read()) for m in archive if m.isfile()]
    for name, content in files:
        if content[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe") or content[:2] == b"MZ":
            yield name, content


def elf(content):
    """Returns the libraries that an ELF file needs, and the newest glibc that it names."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        said = subprocess.run(["readelf", "-dVW", file.name], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said)
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", said)]
    newest = max(versions, default=(0,))
    return needed, ".".join(map(str, newest)) if versions else "none", newest <= (2, 17)


def mach_o(content):
    """The same for a 64-bit Mach-O file, and the oldest macOS that loads it."""
    count, at = struct.unpack_from("<I", content, 16)[0], 32
    needed, oldest, signed = [], (0, 0), struct.unpack_from("<I", content, 4)[0] != 0x100000C  # arm64
    for _ in range(count):
        command, size = struct.unpack_from("<II", content, at)
        if command in (0xC, 0x80000018, 0x8000001F):  # LC_LOAD_DYLIB, weak, re-exported
            start = at + struct.unpack_from("<I", content, at + 8)[0]
            needed.append(content[start : at + size].split(b"\0")[0].decode())
        if command == 0x32:  # LC_BUILD_VERSION
            version = struct.unpack_from("<I", content, at + 12)[0]
            oldest = version >> 16, version >> 8 & 255
        signed |= command == 0x1D  # LC_CODE_SIGNATURE
        at += size
    system = ".".join(map(str, oldest)) + ("" if signed else ", not signed")
    return needed, system, signed and (0, 0) < oldest <= (11, 0)


def pe(content):
    """The libraries that a 64-bit PE file imports."""
    start = struct.unpack_from("<I", content, 0x3C)[0]
    sections, optional = struct.unpack_from("<H", content, start + 6)[0], start + 24
    size = struct.unpack_from("<H", content, start + 20)[0]
    table = [struct.unpack_from("<IIII", content, optional + size + 40 * i + 8) for i in range(sections)]

    def offset(address):
        return next(address - rva + raw for _, rva, length, raw in table if rva <= address < rva + length)

    at, needed = offset(struct.unpack_from("<I", content, optional + 112 + 8)[0]), []
    while name := struct.unpack_from("<I", content, at + 12)[0]:
        needed.append(content[offset(name) :].split(b"\0", 1)[0].decode())
        at += 20
    return needed


def check(path, name, content):
    """Prints what a binary asks for, and returns whether that is allowed."""
    if content[:4] == b"\x7fELF":
        needed, newest, fine = elf(content)
        allowed, system = LINUX, f"glibc {newest}"
        if needed and content[16] != ET_DYN:
            system, fine = system + ", at a fixed address", False
    elif content[:2] == b"MZ":
        needed, fine, allowed, system = pe(content), True, WINDOWS, "Windows"
    else:
        needed, oldest, fine = mach_o(content)
        allowed, system = MACOS, f"macOS {oldest}"
    own = pathlib.PurePosixPath(name).name
    excess = [library for library in needed if not allowed.match(library) and own not in library]
    verdict = "ok"
    if excess or not fine:
        verdict = "FAILED: " + ("asks for too much: " + " ".join(excess) if excess else system)
    print(f"{path.name}: {name}: {len(content)} bytes; {system}; {' '.join(needed) or 'static'}: {verdict}")
    return fine and not excess


def main():
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    if not paths:
        sys.exit(__doc__)
    failed = 0
    for path in paths:
        results = [check(path, name, content) for name, content in binaries(path)]
        if not results:
            print(f"{path.name}: FAILED: has no binaries")
        failed += not results or not all(results)
    sys.exit(failed > 0)


main()
