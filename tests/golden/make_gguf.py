#!/usr/bin/env python3
"""Writes the golden GGUF files: tests/golden/make_gguf.py. make.py writes those of SafeTensors."""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def array(kind, count, values):
    return struct.pack("<IQ", kind, count) + values


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n)


def row(name, dims, kind, offset, rank=None):
    return (text(name) + struct.pack("<I", len(dims) if rank is None else rank) +
            b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, offset))


def header(pairs=(), rows=(), version=3, magic=b"GGUF", tensors=None, keys=None):
    return (magic + struct.pack("<IQQ", version, len(rows) if tensors is None else tensors,
                                len(pairs) if keys is None else keys) + b"".join(pairs) + b"".join(rows))


def with_data(head, data=b"", alignment=32):
    return head + bytes(-len(head) % alignment) + data


def write(folder, name, data):
    with open(os.path.join(HERE, folder, name + ".gguf"), "wb") as out:
        out.write(data)


ONE = [row("a", [4], 0, 0)]  # F32
DATA = bytes(16)


def good():
    write("good", "gguf-empty", header())
    write("good", "gguf-version-2", with_data(header(rows=ONE, version=2), DATA))
    numbers = [pair("u8", U8, b"\xff"), pair("i8", I8, b"\x80"), pair("u16", U16, b"\xff\xff"),
               pair("i16", I16, b"\x00\x80"), pair("u32", U32, b"\xff" * 4), pair("i32", I32, b"\0\0\0\x80"),
               pair("f32", F32, struct.pack("<f", 1e-5)), pair("yes", BOOL, b"\1"), pair("no", BOOL, b"\0"),
               pair("text", STRING, text("two\nlines")), pair("u64", U64, b"\xff" * 8),
               pair("i64", I64, b"\0" * 7 + b"\x80"), pair("f64", F64, struct.pack("<d", 0.1)),
               pair("array", ARRAY, array(STRING, 2, text("a") + text(""))),
               pair("nested", ARRAY, array(ARRAY, 2, array(U8, 1, b"x") + array(BOOL, 0, b""))),
               pair("last", STRING, text("end"))]
    write("good", "gguf-metadata", header(numbers))
    types = [(2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (9, 32, 36), (10, 256, 84),
             (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (15, 256, 292), (16, 256, 66),
             (17, 256, 74), (18, 256, 98), (19, 256, 50), (20, 32, 18), (21, 256, 110), (22, 256, 82),
             (23, 256, 136), (29, 256, 56), (34, 256, 54), (35, 256, 66), (39, 32, 17), (40, 64, 36),
             (41, 128, 18), (0, 1, 4), (1, 1, 2), (24, 1, 1), (25, 1, 2), (26, 1, 4), (27, 1, 8), (28, 1, 8),
             (30, 1, 2)]
    rows, data = [], b""
    for kind, elements, size in types:
        rows.append(row("t%d" % kind, [elements], kind, len(data)))
        data += bytes(size) + bytes(-size % 32)
    write("good", "gguf-every-type", with_data(header(rows=rows), data))
    write("good", "gguf-shapes", with_data(header(rows=[
        row("scalar", [], 0, 0), row("four", [2, 3, 1, 2], 0, 32), row("none", [0, 5], 0, 96),
        row("rows", [32, 2], 2, 96)]), bytes(96 + 36)))
    write("good", "gguf-alignment-8", with_data(header([pair("general.alignment", U32, u32(8))], [
        row("a", [3], 24, 0), row("b", [1], 0, 8)]), bytes(12), 8))
    write("good", "gguf-out-of-order", with_data(header(rows=[row("b", [1], 0, 32), row("a", [1], 0, 0)]),
                                                 bytes(64)))
    write("good", "gguf-no-padding-behind", with_data(header(rows=ONE), DATA))
    write("good", "gguf-padding-behind", with_data(header(rows=ONE), bytes(32)))


def bad():
    def put(name, head, data=b"", alignment=32):
        write("bad", "gguf-" + name, with_data(head, data, alignment) if data else head)

    put("magic-only", b"GGUF")
    put("version-1", header(version=1))
    put("version-4", header(version=4))
    put("big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    put("too-many-tensors", header(tensors=2**60))
    put("too-many-keys", header(keys=2**60))
    put("key-length", header(keys=1) + u64(2**63) + bytes(16))
    put("key-utf8", header([pair(b"k\xff", U8, b"\0")]))
    put("key-twice", header([pair("k", U8, b"\0"), pair("k", U8, b"\1")]))
    put("value-type", header([pair("k", 13, b"\0\0\0\0")]))
    put("value-cut", header([pair("k", U64, b"\0\0\0\0")]))
    put("string-length", header([pair("k", STRING, u64(100) + b"short")]))
    put("bool", header([pair("k", BOOL, b"\2")]))
    put("bool-in-array", header([pair("k", ARRAY, array(BOOL, 3, b"\0\1\3"))]))
    put("array-type", header([pair("k", ARRAY, array(99, 1, b"\0"))]))
    put("array-of-2-to-63", header([pair("k", ARRAY, array(U8, 2**63, b""))]))
    put("array-count", header([pair("k", ARRAY, array(U32, 3, bytes(8)))]))
    put("array-string", header([pair("k", ARRAY, array(STRING, 2, text("a") + u64(2**40)))]))
    deep = array(U8, 0, b"")
    for _ in range(8):
        deep = array(ARRAY, 1, deep)
    put("array-depth", header([pair("k", ARRAY, deep)]))
    put("name-utf8", with_data(header(rows=[row(b"\xc3(", [4], 0, 0)]), DATA))
    put("name-twice", with_data(header(rows=ONE + [row("a", [4], 0, 32)]), bytes(48)))
    put("rank-5", with_data(header(rows=[row("a", [1] * 5, 0, 0)]), DATA))
    put("tensor-type", with_data(header(rows=[row("a", [4], 4, 0)]), DATA))
    put("tensor-type-large", with_data(header(rows=[row("a", [4], 2**32 - 1, 0)]), DATA))
    put("dimension-negative", with_data(header(rows=[row("a", [2**63, 0], 0, 0)]), DATA))
    put("product", with_data(header(rows=[row("a", [2**32, 2**32], 0, 0)]), DATA))
    put("product-bytes", with_data(header(rows=[row("a", [2**61], 0, 0)]), DATA))
    put("part-of-block", with_data(header(rows=[row("a", [48, 2], 2, 0)]), bytes(64)))
    put("scalar-of-blocks", with_data(header(rows=[row("a", [], 2, 0)]), bytes(32)))
    put("alignment-0", header([pair("general.alignment", U32, u32(0))]))
    put("alignment-24", header([pair("general.alignment", U32, u32(24))]))
    put("alignment-type", header([pair("general.alignment", U64, u64(32))]))
    put("split-count", header([pair("split.count", STRING, text("three"))]))
    put("offset-unaligned", with_data(header(rows=[row("a", [4], 0, 16)]), bytes(32)))
    put("overlap", with_data(header(rows=[row("a", [16], 0, 0), row("b", [4], 0, 32)]), bytes(64)))
    put("hole", with_data(header(rows=ONE + [row("b", [4], 0, 64)]), bytes(80)))
    put("truncated", with_data(header(rows=[row("a", [16], 0, 0)]), bytes(60)))
    put("truncated-in-padding", header(rows=ONE))
    put("offset-past-the-end", with_data(header(rows=[row("a", [0], 0, 2**63)]), DATA))
    put("trailing", with_data(header(rows=ONE), bytes(33)))
    put("trailing-without-tensors", header() + bytes(9))


if __name__ == "__main__":
    good()
    bad()
