"""Zip archives that two readers would read differently, each with its verdict.

    pytorch_zips.py LIBRARY [FOLDER]

This script writes a checkpoint of one tensor record by record, with one thing wrong or unusual. A
file in which another reader would see other entries, or other bytes in them, must be refused. A
file that opens must have exactly the tensor. Each file is opened from its path, from memory, and
cut off at its middle. FOLDER keeps the files, which are the same in every run.
"""
import os
import struct
import sys
import tempfile
import zlib

from pytorch_library import Library, Refused
from pytorch_payloads import STORAGE, a_tensor, text

PICKLE = b"\x80\x02}" + text("w") + a_tensor(False) + b"s."
OTHER = PICKLE.replace(text("w"), text("v"))
ENTRIES = [("archive/data.pkl", PICKLE), ("archive/byteorder", b"little"), ("archive/data/0", STORAGE),
           ("archive/version", b"3\n")]


class Entry:
    """One entry. Each field of its records can be changed alone; None means the true value."""

    def __init__(self, name, data):
        self.name, self.data = name.encode(), data
        self.local_name = self.at = self.size = self.packed = self.local_size = self.local_packed = None
        self.method = self.flags = 0
        self.local_method = self.local_flags = None
        self.extra, self.local_extra, self.descriptor, self.gap, self.crc = b"", b"", None, b"", None
        self.left_out = self.no_local = False  # of the directory; shares the local header before it

    def write_local(self, file):
        if self.no_local:
            return
        size = len(self.data) if self.local_size is None else self.local_size
        packed = size if self.local_packed is None else self.local_packed
        name = self.name if self.local_name is None else self.local_name
        flags = self.flags if self.local_flags is None else self.local_flags
        method = self.method if self.local_method is None else self.local_method
        file += self.gap
        if self.at is None:
            self.at = len(file)
        file += struct.pack("<4s5H3I2H", b"PK\3\4", 45, flags, method, 0, 33, self.crc_of(), packed, size, len(name),
                            len(self.local_extra))
        file += name + self.local_extra + self.data + (self.descriptor or b"")

    def crc_of(self):
        return zlib.crc32(self.data) if self.crc is None else self.crc

    def directory(self):
        size = len(self.data) if self.size is None else self.size
        packed = size if self.packed is None else self.packed
        return struct.pack("<4s6H3I5H2I", b"PK\1\2", 45, 45, self.flags, self.method, 0, 33, self.crc_of(), packed, size,
                           len(self.name), len(self.extra), 0, 0, 0, 0, self.at) + self.name + self.extra


class Archive:
    def __init__(self):
        self.entries = [Entry(name, data) for name, data in ENTRIES]
        self.prefix = self.before_directory = self.comment = self.after = b""
        self.count = self.count_here = self.directory_bytes = self.directory_at = self.comment_bytes = None
        self.disk = 0
        self.zip64 = None  # (count, bytes, at) of its record, each None for what is true
        self.locator_at = None

    def __getitem__(self, name):
        return next(entry for entry in self.entries if entry.name.endswith(name.encode()))

    def add(self, name, data):
        self.entries.append(Entry(name, data))
        return self.entries[-1]

    def bytes(self):
        file = bytearray(self.prefix)
        for entry in self.entries:
            entry.write_local(file)
        file += self.before_directory
        begin = len(file)
        listed = [entry for entry in self.entries if not entry.left_out]
        for entry in listed:
            file += entry.directory()
        end = len(file)

        def either(wrong, right):
            return right if wrong is None else wrong

        if self.zip64 is not None:
            count, size, at = self.zip64
            file += struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, either(count, len(listed)),
                                either(count, len(listed)), either(size, end - begin), either(at, begin))
            file += struct.pack("<4sIQI", b"PK\6\7", 0, either(self.locator_at, end), 1)
        far = self.zip64 is not None
        file += struct.pack("<4s4H2IH", b"PK\5\6", self.disk, self.disk,
                            either(self.count_here, 0xFFFF if far else len(listed)),
                            either(self.count, 0xFFFF if far else len(listed)),
                            either(self.directory_bytes, 0xFFFFFFFF if far else end - begin),
                            either(self.directory_at, 0xFFFFFFFF if far else begin),
                            either(self.comment_bytes, len(self.comment)))
        return bytes(file + self.comment + self.after)


CASES = {}


def case(verdict):
    """"opens", "refused", or "either": two readers agree about it, and it opens right or not."""
    def named(function):
        CASES[function.__name__.replace("_", "-")] = (function, verdict)
        return function
    return named


@case("opens")
def plain(a):
    """as torch.save writes it"""


@case("refused")
def two_entries_of_one_name(a):
    """two pickles: readers take the first or the last"""
    a.add("archive/data.pkl", OTHER)


@case("refused")
def two_storages_of_one_name(a):
    """two storages"""
    a.add("archive/data/0", bytes(12))


@case("refused")
def local_name_differs(a):
    """the local header names another entry"""
    a["data.pkl"].local_name = b"archive/data.pkx"


@case("refused")
def local_names_exchanged(a):
    """each of two local headers has the other's name"""
    a["data/0"].local_name, a["version"].local_name = b"archive/version", b"archive/data/0"


@case("refused")
def local_size_differs(a):
    """the local header says another size"""
    a["data.pkl"].local_size = len(PICKLE) - 1


@case("refused")
def local_method_differs(a):
    """the local header says deflated, the directory stored"""
    a["data.pkl"].local_method = 8


@case("refused")
def directory_method_differs(a):
    """the directory says deflated, the local header stored"""
    a["data/0"].method, a["data/0"].local_method = 8, 0


@case("refused")
def local_says_encrypted(a):
    """only the local header says encrypted"""
    a["data/0"].local_flags = 1


@case("refused")
def deflated(a):
    """a compressed pickle"""
    packed = zlib.compress(PICKLE)[2:-4]
    a["data.pkl"].size = a["data.pkl"].local_size = len(PICKLE)
    a["data.pkl"].packed = a["data.pkl"].local_packed = len(packed)
    a["data.pkl"].data, a["data.pkl"].method = packed, 8


@case("refused")
def encrypted(a):
    """an encrypted storage"""
    a["data/0"].flags = 1


@case("refused")
def stored_sizes_differ(a):
    """stored, but packed and unpacked sizes differ"""
    a["data/0"].packed = a["data/0"].local_packed = 4


@case("refused")
def overlap(a):
    """a storage whose bytes are those of the next entry too"""
    a["data/0"].size = a["data/0"].local_size = 60


@case("refused")
def two_names_for_one_entry(a):
    """two entries of the directory point to one local header"""
    more = a.add("archive/data/1", STORAGE)
    more.no_local, more.at = True, 0


@case("refused")
def inside_another(a):
    """a whole entry inside the bytes of another"""
    outer = a["version"]
    inner = bytearray()
    hidden = Entry("archive/data/9", STORAGE)
    hidden.write_local(inner)
    outer.data = bytes(inner)
    more = a.add("archive/data/9", STORAGE)
    more.no_local = True
    more.at = sum(30 + len(e.name) + len(e.data) for e in a.entries[:3]) + 30 + len(outer.name)


@case("refused")
def over_the_directory(a):
    """the last entry goes on into the directory"""
    a["version"].size = a["version"].local_size = 40


@case("refused")
def outside_of_the_file(a):
    """a local header beyond the end"""
    a["data/0"].at = 1 << 20


@case("refused")
def size_beyond_the_file(a):
    """a size that the file does not have"""
    a["data/0"].size = a["data/0"].local_size = 1 << 30


@case("refused")
def no_local_header(a):
    """the offset points into the middle of an entry"""
    a["data/0"].at = 7


@case("opens")
def zip64_entry(a):
    """sizes and offset in the zip64 field, as they are for large entries"""
    entry = a["data/0"]
    entry.size = entry.packed = 0xFFFFFFFF
    entry.local_size = entry.local_packed = 0xFFFFFFFF
    entry.extra = entry.local_extra = struct.pack("<2H2Q", 1, 16, 12, 12)


@case("opens")
def zip64_directory(a):
    """the end of the directory in its zip64 form"""
    a.zip64 = (None, None, None)


@case("refused")
def zip64_size_lie(a):
    """a zip64 size that overflows 64 bits when the offset is added"""
    zip64_entry(a)
    a["data/0"].extra = struct.pack("<2H2Q", 1, 16, (1 << 64) - 20, (1 << 64) - 20)


@case("refused")
def zip64_sizes_disagree(a):
    """the zip64 fields of the directory and of the local header disagree"""
    zip64_entry(a)
    a["data/0"].local_extra = struct.pack("<2H2Q", 1, 16, 8, 8)


@case("refused")
def zip64_field_missing(a):
    """a size of FFFFFFFF without a zip64 field"""
    zip64_entry(a)
    a["data/0"].extra = b""


@case("refused")
def zip64_field_short(a):
    """a zip64 field that lacks the second size"""
    zip64_entry(a)
    a["data/0"].extra = struct.pack("<2HQ", 1, 8, 12)


@case("refused")
def zip64_field_twice(a):
    """two zip64 fields: readers take the first or the last"""
    zip64_entry(a)
    a["data/0"].extra += struct.pack("<2H2Q", 1, 16, 4, 4)


@case("refused")
def extra_field_too_long(a):
    """an extra field that is longer than its room"""
    a["data/0"].extra = struct.pack("<2H", 0x1234, 400)


@case("refused")
def zip64_count_lie(a):
    """the zip64 record counts more entries than there are"""
    a.zip64 = (1 << 40, None, None)


@case("refused")
def zip64_directory_lie(a):
    """the zip64 record puts the directory outside of the file"""
    a.zip64 = (None, None, 1 << 60)


@case("refused")
def zip64_directory_bytes_lie(a):
    """the zip64 record gives the directory a size that overflows"""
    a.zip64 = (None, (1 << 64) - 1, None)


@case("refused")
def zip64_locator_lie(a):
    """the locator of the zip64 record points outside of the file"""
    a.zip64, a.locator_at = (None, None, None), 1 << 62


@case("refused")
def zip64_and_plain_disagree(a):
    """the zip64 record and the plain one both have a number of entries, and not the same"""
    a.zip64, a.count, a.count_here = (None, None, None), 2, 2


@case("refused")
def count_too_small(a):
    """the directory has more entries than the end record counts"""
    a.count = a.count_here = 3


@case("refused")
def count_too_large(a):
    """the end record counts more entries than there are"""
    a.count = a.count_here = 9


@case("refused")
def directory_offset_lie(a):
    """the end record points to another place"""
    a.directory_at = 4


@case("refused")
def directory_bytes_lie(a):
    """the directory is shorter than the end record says"""
    a.directory_bytes = 10


@case("refused")
def several_disks(a):
    """an archive in several files"""
    a.disk = 1


@case("refused")
def prefix(a):
    """bytes before the archive, offsets counted from their end"""
    data = Archive().bytes()
    return b"#!/bin/sh\nexit 0\n" + data


@case("refused")
def prefix_that_offsets_count(a):
    """bytes before the archive, offsets counted from the file's first byte"""
    a.prefix = b"#!/bin/sh\nexit 0\n"


@case("refused")
def archive_in_archive(a):
    """a whole archive before another: a reader from the front sees the first"""
    return Archive().bytes() + _other_archive(len(Archive().bytes()))


def _other_archive(at):
    other = Archive()
    other["data.pkl"].data = OTHER
    other.prefix = bytes(at)
    return other.bytes()[at:]


@case("refused")
def unlisted_entry_in_front(a):
    """an entry that the directory does not list lies before the others"""
    hidden = Entry("archive/data.pkl", OTHER)
    hidden.left_out = True
    a.entries.insert(0, hidden)


@case("refused")
def comment_with_an_end_record(a):
    """the comment is an end record whose own comment is empty: two ends fit"""
    a.comment = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)


@case("refused")
def comment_with_a_directory(a):
    """the comment has a directory and an end record for it, with another pickle's name"""
    body = Archive().bytes()
    fake = Entry("archive/data.pkl", OTHER)
    fake.at = 0
    directory = fake.directory()
    a.comment = directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(directory), len(body), 0)


@case("either")
def comment_with_a_signature(a):
    """a comment with four bytes that begin an end record, which does not fit"""
    a.comment = b"see PK\5\6 and more text than an end record has"


@case("either")
def comment(a):
    """a plain comment"""
    a.comment = b"made by a program"


@case("refused")
def comment_longer_than_the_file(a):
    """a comment that ends after the file"""
    a.comment_bytes = 40


@case("refused")
def bytes_after_the_end(a):
    """bytes after the end record that no comment accounts for"""
    a.after = b"more"


@case("opens")
def descriptors(a):
    """sizes after the data, as torch.save writes them; 0 in the local headers"""
    for entry in a.entries:
        entry.flags, entry.local_size = 8, 0
        entry.descriptor = struct.pack("<4s3I", b"PK\7\x08", entry.crc_of(), len(entry.data), len(entry.data))


@case("opens")
def padding(a):
    """the extra field that torch.save pads with, so that storages are aligned"""
    entry = a["data/0"]
    entry.local_extra = b"FB" + struct.pack("<H", 30) + b"Z" * 30


@case("opens")
def other_top_folder(a):
    """another name for the folder that holds all entries"""
    for entry in a.entries:
        entry.name = entry.name.replace(b"archive/", b"my model/")


@case("refused")
def two_top_folders(a):
    """a second checkpoint in another folder"""
    for name, data in ENTRIES:
        a.add(name.replace("archive", "other"), OTHER if name.endswith("pkl") else data)


@case("refused")
def storage_in_another_folder(a):
    """the storage is in a folder that is not the pickle's"""
    a["data/0"].name = b"other/data/0"


@case("refused")
def no_pickle(a):
    """data.pkl is missing"""
    a["data.pkl"].name = b"archive/data.pkx"


@case("refused")
def storage_too_short(a):
    """the storage has fewer bytes than its tensor needs"""
    a["data/0"].data = STORAGE[:8]


@case("refused")
def big_endian(a):
    """a checkpoint of a big-endian machine"""
    a["byteorder"].data = b"big"


@case("refused")
def unknown_byte_order(a):
    """a byte order that there is not"""
    a["byteorder"].data = b"middle"


@case("opens")
def without_byte_order(a):
    """as torch before 2.1 wrote it"""
    del a.entries[1]


@case("either")
def wrong_checksum(a):
    """a pickle whose checksum is wrong; those of storages are never computed"""
    a["data.pkl"].crc = 1


@case("either")
def gap(a):
    """bytes between two entries that belong to none"""
    a["data/0"].gap = bytes(64)


@case("either")
def names_that_climb(a):
    """more entries, with names that an unpacker should not follow"""
    for name in ("../../etc/passwd", "/etc/passwd", "archive\\data\\0", "archive/data/0/", "archive/./data/0", ""):
        a.add(name, b"")


@case("refused")
def empty_archive(a):
    """a directory without entries"""
    a.entries = []


def judge(library, source, flags=0):
    """"opens" with the one tensor, "refused", or what else it opened as."""
    try:
        model = library.open(source, flags)
    except Refused as refused:
        return "refused", str(refused)
    got = [(t.name, t.dtype, t.shape, t.data) for t in library.tensors(model)]
    library.close(model)
    right = [(b"w", "F32", (3,), STORAGE)]
    return ("opens" if got == right else "opens as something else"), str(got)


def judge_case(library, path, data, verdict):
    """The verdict, why it is wrong or None, and the message."""
    got, said = judge(library, path)
    in_memory, _ = judge(library, data)
    checked = any(finding[0] == 3 for finding in library.check(path))
    halves = [judge(library, data[:cut])[0] for cut in (len(data) // 2, len(data) - 1)]
    if got not in ("opens", "refused") or verdict not in ("either", got):
        return got, "%s, wanted %s" % (got, verdict), said
    if in_memory != got or checked != (got == "refused"):
        return got, "from memory %s, check finds %s error" % (in_memory, "an" if checked else "no"), said
    if "opens as something else" in halves:
        return got, "cut off, it opens as something else", said
    return got, None, said


def main():
    library, wrong = Library(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as work:
        folder = sys.argv[2] if len(sys.argv) > 2 else work
        for name, (change, verdict) in CASES.items():
            archive = Archive()
            data = change(archive) or archive.bytes()
            path = os.path.join(folder, name + ".pt")
            with open(path, "wb") as file:
                file.write(data)
            got, why, said = judge_case(library, path, data, verdict)
            said = said.replace('"%s": ' % path, "") if got != "opens" else ""
            print("%-7s %-28s %s" % ("FAILED" if why else got, name, why or said))
            if why:
                print("        %s: %s" % (change.__doc__, said[:300]))
            wrong += why is not None
    print("%d zip archives: %d wrong verdicts" % (len(CASES), wrong))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
