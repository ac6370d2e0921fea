#!/usr/bin/env python3
"""Packs files into archives whose bytes depend on nothing but the files.

    scripts/pack.py tar FOLDER OUT.tar.gz       FOLDER's name is the top folder of the archive
    scripts/pack.py zip FOLDER OUT.zip
    scripts/pack.py wheel STAGE SDIST TAG OUT   writes tenmap-VERSION-cp311-abi3-TAG.whl into OUT

STAGE has what `cmake --install` of python/ installed: tenmap/ with the extension module, and
scripts/ and data/ if there is a command. The Python files, the metadata and the license come from
the SDIST, so that every wheel has those of a wheel that pip builds. TAG may have several platforms,
separated by dots. Entries are sorted; each has the time SOURCE_DATE_EPOCH (or 1980), the owner root,
and the mode 755 or 644.
"""

import base64
import gzip
import hashlib
import io
import os
import pathlib
import sys
import tarfile
import time
import zipfile

EPOCH = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800)


def files_of(folder):
    """Yields the files below a folder in the order of their names, as (name, bytes, executable)."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    if not paths:
        sys.exit(f"scripts/pack.py: {folder} has no files")
    for path in sorted(paths, key=lambda path: path.relative_to(folder).as_posix()):
        executable = bool(path.stat().st_mode & 0o100)
        yield path.relative_to(folder).as_posix(), path.read_bytes(), executable


def write_tar(folder, out):
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=EPOCH) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, content, executable in files_of(folder):
                entry = tarfile.TarInfo(f"{folder.name}/{name}")
                entry.size, entry.mtime, entry.mode = len(content), EPOCH, 0o755 if executable else 0o644
                entry.uname = entry.gname = "root"
                archive.addfile(entry, io.BytesIO(content))


def write_zip(entries, out):
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, executable in entries:
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, content)


def read_sdist(path):
    """Returns the files of the sdist by their names below its top folder."""
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {m.name.split("/", 1)[1]: archive.extractfile(m).read() for m in members}


def write_wheel(stage, sdist, tag, out):
    sources = read_sdist(sdist)
    metadata = sources["PKG-INFO"]
    version = next(line[9:] for line in metadata.decode().splitlines() if line.startswith("Version: "))
    entries = {}
    for name, content in sources.items():
        if name.startswith("python/tenmap/"):
            entries[name.removeprefix("python/")] = content, False
    for name, content, executable in files_of(stage):
        if name.startswith(("scripts/", "data/")):
            name = f"tenmap-{version}.data/{name}"
        entries[name] = content, executable
    info = f"tenmap-{version}.dist-info"
    tags = "".join(f"Tag: cp311-abi3-{platform}\n" for platform in tag.split("."))
    head = "Wheel-Version: 1.0\nGenerator: tenmap scripts/pack.py\nRoot-Is-Purelib: false\n"
    entries[f"{info}/METADATA"] = metadata, False
    entries[f"{info}/WHEEL"] = (head + tags).encode(), False
    entries[f"{info}/licenses/LICENSE"] = sources["LICENSE"], False
    ordered = sorted(entries.items(), key=lambda entry: (entry[0].startswith(info), entry[0]))
    record = ""
    for name, (content, _) in ordered:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    record += f"{info}/RECORD,,\n"
    ordered.append((f"{info}/RECORD", (record.encode(), False)))
    path = out / f"tenmap-{version}-cp311-abi3-{tag}.whl"
    write_zip(((name, *entry) for name, entry in ordered), path)
    print(path.name)


def main():
    match sys.argv[1:]:
        case ["tar", folder, out]:
            write_tar(pathlib.Path(folder), out)
        case ["zip", folder, out]:
            folder = pathlib.Path(folder)
            write_zip(((f"{folder.name}/{name}", *rest) for name, *rest in files_of(folder)), out)
        case ["wheel", stage, sdist, tag, out]:
            write_wheel(pathlib.Path(stage), sdist, tag, pathlib.Path(out))
        case _:
            sys.exit(__doc__)


main()
