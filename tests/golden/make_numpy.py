#!/usr/bin/env python3
"""Writes the golden NumPy files: tests/golden/make_numpy.py. make.py writes the others."""
import os
import struct

from make_pytorch import archive

HERE = os.path.dirname(os.path.abspath(__file__))


def dict_of(descr="'<f4'", order="False", shape="(2, 3)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)


def npy(text=dict_of(), data=bytes(range(24)), version=1, length=None):
    """An array as numpy writes it: the header ends at a multiple of 64 bytes, with a line end."""
    before = 10 if version == 1 else 12
    text += " " * (-(before + len(text) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def write(folder, name, data):
    with open(os.path.join(HERE, folder, name), "wb") as out:
        out.write(data)


def good():
    write("good", "numpy-version-1.npy", npy())
    write("good", "numpy-version-2.npy", npy(version=2))
    write("good", "numpy-version-3.npy", npy(version=3))
    write("good", "numpy-python-2.npy", npy(dict_of(shape="(2L, 3L)")))
    write("good", "numpy-scalar.npy", npy(dict_of("'|b1'", "True", "()"), b"\1"))
    write("good", "numpy-vector-fortran.npy", npy(dict_of("'<f8'", "True", "(3,)")))
    write("good", "numpy-archive.npz", archive([
        ("weight.npy", npy()), ("layer/bias.npy", npy(dict_of("'<i2'", shape="(12,)"), version=2)),
        ("bare", npy(dict_of("'|u1'", shape="(24,)"))), ("notes.txt", b"no array at all")]))


def bad():
    for name, data in {
            "big-endian": npy(dict_of("'>f4'")), "object": npy(dict_of("'|O'")), "raw-bytes": npy(dict_of("'<V2'")),
            "string": npy(dict_of("'<U1'")), "records": npy(dict_of("[('a', '<f4')]")),
            "complex-128": npy(dict_of("'<c16'")), "no-byte-order": npy(dict_of("'f4'")),
            "unknown-dtype": npy(dict_of("'<i3'")), "version-4": npy(version=4),
            "key-twice": npy("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}"),
            "key-unknown": npy("{'dtype': '<f4', 'fortran_order': False, 'shape': (2, 3)}"),
            "key-missing": npy("{'descr': '<f4', 'shape': (2, 3)}"),
            "code": npy("__import__('os').system('true')"), "negative": npy(dict_of(shape="(-2, 3)")),
            "number-for-a-tuple": npy(dict_of(shape="(3)")), "overflow": npy(dict_of(shape="(4294967296, 4294967296)")),
            "after-the-dict": npy(dict_of() + "{}"), "truncated": npy(data=bytes(23)), "trailing": npy(data=bytes(25)),
            "length": npy(version=2, length=0xffffffff)}.items():
        write("bad", "numpy-%s.npy" % name, data)
    for name, files in {
            "same-name": [("a.npy", npy()), ("a", npy())], "not-an-array": [("a.npy", b"text for an array")],
            "entry-truncated": [("a.npy", npy()), ("b.npy", npy(data=bytes(20)))],
            "entry-too-short": [("a.npy", npy()[:80])]}.items():
        write("bad", "numpy-%s.npz" % name, archive(files))
    write("bad", "numpy-compressed.npz", archive([("a.npy", npy())], method=8))


if __name__ == "__main__":
    good()
    bad()
