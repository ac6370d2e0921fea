#!/usr/bin/env python3
"""Compares .npy files and .npz archives with what numpy reads from them.

    numpy_arrays.py LIBTENMAP [COUNT [SEED]]

COUNT arrays and archives (2,000) of every dtype, order, version and rank from 0 to 8 must open with
the names, shapes and elements that numpy.load gives, or be refused because of a dtype that this
library does not have. COUNT damaged ones must open only as numpy reads them. Where one of both
refuses and the other does not, the difference must be one of RULES. Prints how often each occurs.
Exits with 77 if numpy is missing.
"""
import ast
import collections
import io
import random
import struct
import sys
import warnings
import zipfile

import peer
from pytorch_library import Library, Refused

peer.hand_over()
try:
    import numpy
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(peer.SKIP)

DTYPES = {"|b1": "BOOL", "|i1": "I8", "|u1": "U8", "<i2": "I16", "<u2": "U16", "<i4": "I32", "<u4": "U32",
          "<i8": "I64", "<u8": "U64", "<f2": "F16", "<f4": "F32", "<f8": "F64", "<c8": "C64"}
FOREIGN = [">f4", ">i2", ">u8", ">c8", "<c16", "<f16", "|S3", "<U2", "|V4", "<M8[ns]", "<m8[D]",
           [("a", "<f4"), ("b", "<i2")], ("<f4", (2,))]

# What the message of a refusal says: the rule, for files that numpy reads.
RULES = [
    ("bytes follow its elements", "bytes after the elements"),
    ("1 byte follows its elements", "bytes after the elements"),
    ("big-endian", "a dtype without a counterpart"), ("strings", "a dtype without a counterpart"),
    ("raw bytes", "a dtype without a counterpart"), ("dates", "a dtype without a counterpart"),
    ("spans of time", "a dtype without a counterpart"), ("of that size", "a dtype without a counterpart"),
    ("structured array", "a dtype without a counterpart"),
    ("array of another dtype", "a dtype without a counterpart"),
    ("Python objects", "a dtype without a counterpart"),
    ("does not say in which order", "a dtype without its byte order"),
    ("unknown dtype", "a dtype in another spelling"),
    ("appears twice", "a field that is there twice"),
    ("expected", "other syntax of Python"),
    ("does not begin with", "an entry NAME.npy that is no array"),
    ("only ", "an entry NAME.npy that is no array"),
    ("the same name", "two entries of one name"),
]
# What numpy says when it refuses what opens here.
NUMPY_RULES = [
    ("too large", "an empty array whose other dimensions overflow"),
    ("big", "an empty array whose other dimensions overflow"),
    ("OverflowError", "an empty array whose other dimensions overflow"),
    ("Maximum allowed dimension", "an empty array whose other dimensions overflow"),
    ("cannot reshape array of size 0", "an empty array whose other dimensions overflow"),
    ("Bad CRC-32", "an entry with another checksum"),
    ("zip file version", "an entry that needs a later version of zip"),
]


def random_array(rng, descr):
    """An array with random bytes, in C or Fortran order, or a slice of one."""
    shape = tuple(rng.choice([0, 1, 1, 2, 3, 4, 5]) if rng.random() < 0.9 else 7
                  for _ in range(rng.randrange(9)))
    dtype = numpy.dtype(descr)
    count = int(numpy.prod(shape, dtype="i8")) * dtype.itemsize
    data = bytes(rng.randrange(2) for _ in range(count)) if descr == "|b1" else rng.randbytes(count)
    array = numpy.frombuffer(bytearray(data) + bytes(dtype.itemsize), dtype)[:count // dtype.itemsize or 0]
    array = array[:int(numpy.prod(shape, dtype="i8"))].reshape(shape)
    if rng.random() < 0.4:
        array = numpy.asfortranarray(array) if shape else array
    if shape and rng.random() < 0.2:
        array = array[::-1]
    return array.T if rng.random() < 0.2 else array


def npy_of(rng, array):
    out = io.BytesIO()
    version = rng.choice([(1, 0), (2, 0), (3, 0), None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numpy.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def npz_of(rng, entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            with archive.open(info, "w", force_zip64=rng.random() < 0.5) as entry:
                entry.write(data)
    return out.getvalue()


def random_name(rng):
    parts = ["w", "layer", "0", "é", "重み", "bias", "a b", ".", "/", "-", "npy"]
    return "".join(rng.choice(parts) for _ in range(1 + rng.randrange(4)))


def numpy_reads(data):
    """{name: array}, or the error as text. Entries that are no arrays are left out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = numpy.load(io.BytesIO(data), allow_pickle=False)
            if isinstance(loaded, numpy.ndarray):
                return {"array": loaded}
            entries = set(loaded.zip.namelist())  # numpy takes "a.npy" for this entry, if "a.npy.npy" is there too
            arrays = {name: loaded[name + ".npy" if name + ".npy" in entries else name] for name in loaded.files}
        return {name: array for name, array in arrays.items() if isinstance(array, numpy.ndarray)}
    except Exception as refused:  # whatever damaged files cause in numpy, zipfile and the literals' parser
        return "%s: %s" % (type(refused).__name__, refused)


def tenmap_reads(library, data):
    """{name: (dtype, shape, bytes)}, or the error."""
    try:
        model = library.open(data)
    except Refused as refused:
        return refused
    got = {t.name.decode(): (t.dtype, tuple(t.shape), t.data) for t in library.tensors(model)}
    library.close(model)
    return got


def rule_of(rules, said):
    if said.startswith("ValueError: Cannot parse header: "):
        try:
            ast.literal_eval(ast.literal_eval(said.partition(": ")[2].partition(": ")[2]).strip())
            return "white space around the dict that Python takes for indentation"
        except (SyntaxError, ValueError):
            return None
    return next((rule for words, rule in rules if words in said), None)


def differs(got, wanted, counts):
    """Why both disagree about a file; None if they agree, or the difference is one of the rules."""
    if isinstance(wanted, str) and isinstance(got, Refused):
        counts["refused by both"] += 1
        return None
    if isinstance(got, Refused):
        rule = rule_of(RULES, str(got))
        counts["only numpy reads: %s" % rule] += 1
        return None if rule else "only numpy reads it: %s" % got
    if isinstance(wanted, str):
        rule = rule_of(NUMPY_RULES, wanted)
        counts["only tenmap reads: %s" % rule] += 1
        return None if rule else "only tenmap reads it: %s" % wanted
    if set(got) != set(wanted):
        return "names: %s and %s" % (sorted(got), sorted(wanted))
    for name, array in wanted.items():
        right = (DTYPES.get(array.dtype.str), array.shape, numpy.ascontiguousarray(array).tobytes())
        if got[name] != right:
            return "array %r: %s, numpy has %s %s" % (name, got[name][:2], array.dtype.str, array.shape)
    counts["the same"] += 1
    return None


def valid_file(rng):
    """A file of arrays with counterparts."""
    arrays = [random_array(rng, rng.choice(list(DTYPES))) for _ in range(1 + rng.randrange(4))]
    if rng.random() < 0.5:
        return npy_of(rng, arrays[0])
    names = {random_name(rng) for _ in arrays}
    entries = [(name + ".npy", npy_of(rng, array)) for name, array in zip(sorted(names), arrays)]
    if rng.random() < 0.2:
        entries.append(("readme.txt", b"text" * rng.randrange(9)))
    if rng.random() < 0.1:
        entries.append(("bare", npy_of(rng, arrays[0])))
    return npz_of(rng, entries)


def foreign_file(rng):
    shape = rng.choice([(), (2,), (3, 2)])
    array = numpy.zeros(shape, numpy.dtype(rng.choice(FOREIGN)))
    data = npy_of(rng, array)
    return data if rng.random() < 0.5 else npz_of(rng, [("x.npy", data)])


TOKENS = ["'", '"', "(", ")", "{", "}", "[", "]", ",", ":", " ", "\n", "\t", "\r", "\f", "#x\n", "0", "1", "-1", "+1", "L",
          "0x2", "1_0", "1e3", "True", "False", "None", "u", "b", "r", "\\", "\\x3c", "'descr'", "'shape'",
          "'fortran_order'", "'<f4'", "'>f4'", "'f4'", "'float32'", "'|O'", "'=f4'", "'<i3'", "'<V2'", "(3,)",
          "()", "(2, 3)", "2**62", "9223372036854775808", "18446744073709551616", "0, 9223372036854775807", "\0",
          "é", "'a' 'b'", "1+1", "(1)", "__import__('os')"]


def damaged_literal(rng):
    """An array whose dict is put together anew, or changed."""
    descr = rng.choice(list(DTYPES))
    shape, count = rng.choice([("()", 1), ("(3,)", 3), ("(2, 3)", 6), ("(2, 3, )", 6), ("(0, 5)", 0), ("(1, 1, 4)", 4)])
    fields = {"descr": repr(descr), "fortran_order": rng.choice(["True", "False"]), "shape": shape}
    pairs = ["%s%s:%s%s" % (rng.choice(["'%s'", '"%s"']) % key, rng.choice(["", " "]), rng.choice(["", " "]), value)
             for key, value in fields.items()]
    rng.shuffle(pairs)
    text = "{" + ", ".join(pairs) + rng.choice(["}", ", }", ",}"]) + rng.choice(["", "   ", "  \n", "\n\n"])
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text) + 1)
        gone = rng.choice([0, 0, 1, 2, 5])
        text = text[:at] + rng.choice(TOKENS + [""]) + text[at + gone:]
    raw = text.encode("utf-8")
    version = rng.choice([1, 1, 2, 3, 3]) if rng.random() < 0.98 else rng.randrange(6)
    length = struct.pack("<H" if version == 1 else "<I", len(raw))
    values = bytes(rng.choice([0, 3, 6, 12, 24, 48]) if rng.random() < 0.1 else count * int(descr[2]))
    data = b"\x93NUMPY" + bytes([version, 0]) + length + raw + values
    return data if rng.random() < 0.7 else npz_of(rng, [("x.npy", data)])


def damaged_bytes(rng):
    data = bytearray(valid_file(rng))
    for _ in range(1 + rng.randrange(2)):
        at = rng.randrange(min(len(data), 200)) if rng.random() < 0.7 else rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at + 1] = rng.choice(TOKENS).encode()
        elif kind == 2:
            del data[at:at + 1 + rng.randrange(3)]
        else:
            del data[len(data) - rng.randrange(len(data)):]
        if not data:
            return b"\x93NUMPY"
    return bytes(data)


def main():
    library = Library(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 33)
    wrong = 0
    for kind, makers in {"as numpy writes them": [valid_file] * 8 + [foreign_file],
                         "damaged": [damaged_literal, damaged_literal, damaged_bytes]}.items():
        counts = collections.Counter()
        for number in range(count):
            data = rng.choice(makers)(rng)
            wanted, got = numpy_reads(data), tenmap_reads(library, data)
            if kind == "damaged" and data[:4] == b"PK\3\4" and isinstance(got, Refused) and isinstance(wanted, dict) \
                    and ("zip" in str(got) or "archive" in str(got)):
                counts["only numpy reads: a rule for zip archives"] += 1  # pytorch_zips.py has these
                continue
            if isinstance(wanted, dict) and not wanted and isinstance(got, Refused):
                counts["only numpy reads: nothing"] += 1
                continue
            why = differs(got, wanted, counts)
            if why:
                wrong += 1
                print("file %d: %s\n    %r" % (number, why, data[:300]))
        if kind != "damaged" and counts["the same"] < count // 2:
            wrong += 1
            print("too few files are read by both")
        print("%d files %s:" % (count, kind))
        for what, times in sorted(counts.items()):
            print("%8d %s" % (times, what))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
