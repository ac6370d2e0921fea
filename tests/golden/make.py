#!/usr/bin/env python3
"""Writes the golden files: tests/golden/make.py. They are committed, so that tests need no Python.

good/ has files that must open, and good.txt lists what must be seen in them, in the lines that
tests/support/dump.h explains. bad/ has one malformed file per rule, and bad.txt lists the status
and some words of the error message for each. Both lists are maintained by hand.
"""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def write(folder, name, header, data=b"", length=None):
    raw = header if isinstance(header, bytes) else header.encode()
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    with open(os.path.join(HERE, folder, name + ".safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(raw) if length is None else length) + raw + data)


def whole(folder, name, data):
    with open(os.path.join(HERE, folder, name + ".safetensors"), "wb") as out:
        out.write(data)


def entry(name, dtype, shape, begin, end, more=""):
    return '"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]%s}' % (
        name, dtype, str(shape).replace(" ", ""), begin, end, more)


ONE = entry("a", "U8", [1], 0, 1)


def good():
    def put(name, header, data=b""):
        write("good", name, header, data)

    put("empty", "{}")
    put("white-space", ' \t\r\n{ "a" : { "dtype" : "U8" , "shape" : [ 1 ] , "data_offsets" : [ 0 , 1 ] } } ', b"x")
    put("scalar", "{" + entry("s", "F32", [], 0, 4) + "}", bytes(4))
    put("field-order", '{"a":{"data_offsets":[0,2],"shape":[1],"dtype":"BF16"}}', b"ab")
    put("escaped-keys", '{"\\u0061":{"dt\\u0079pe":"U\\u0038","sh\\u0061pe":[1],"data\\u005Foffsets":[0,1]}}', b"x")
    put("names", "{" + ",".join(entry(n, "U8", [1], i, i + 1) for i, n in enumerate(
        ["", "__x__", "\\u0000", "\x7f", "\u00e9", "\\ud83d\\ude00", "\\\"\\\\\\/\\b\\f\\n\\r\\t"])) + "}",
        bytes(7))
    put("metadata-first", '{"__metadata__":{"format":"pt","":"","k\\n":"v\\u0000"},' + ONE + "}", b"x")
    put("metadata-last", "{" + ONE + ',"__metadata__":{"format":"pt"}}', b"x")
    put("metadata-null", '{"__metadata__":null,' + ONE + "}", b"x")
    put("metadata-escaped-key", '{"__metadat\\u0061__":{"a":"b"}}')
    put("unknown-fields", "{" + entry("a", "U8", [1], 0, 1,
        ',"x":{"x":1,"x":[-0,1e308,"\\ud83d\\ude00",null,true,false,{}]},"x":-0.5E-400') + "}", b"x")
    put("depth-127", "{" + entry("a", "U8", [1], 0, 1, ',"x":' + "[" * 125 + "]" * 125) + "}", b"x")
    put("number-0e999", "{" + entry("a", "U8", [1], 0, 1, ',"x":0e999') + "}", b"x")
    put("number-long", "{" + entry("a", "U8", [1], 0, 1, ',"x":' + "1" * 308) + "}", b"x")
    put("out-of-order", "{" + entry("c", "U8", [3], 3, 6) + "," + entry("a", "I8", [3], 0, 3) + "}", b"abcdef")
    put("empty-at-one-offset", "{" + entry("b", "U16", [0], 0, 0) + "," + entry("a", "F4", [0, 3], 0, 0) + "}")
    put("sub-byte", "{" + entry("a", "F4", [2], 0, 1) + "," + entry("b", "F6_E2M3", [4], 1, 4) + "," +
        entry("c", "F6_E3M2", [2, 2], 4, 7) + "}", bytes(7))
    put("misaligned", "{" + entry("a", "U8", [1], 0, 1) + "," + entry("b", "F64", [1], 1, 9) + "}", bytes(9))
    put("zero-after-large", "{" + entry("a", "U64", [2**64 - 1, 1, 0], 0, 0) + "}")
    put("many-dims", "{" + entry("a", "U8", [1] * 200, 0, 1) + "}", b"x")


def bad():
    def put(name, header, data=b"", length=None):
        write("bad", name, header, data, length)

    def field(name, text):
        put(name, '{"a":{%s}}' % text, b"x")

    whole("bad", "01-no-bytes", b"")
    whole("bad", "01-seven-bytes", b"\x02\0\0\0\0\0\0")
    put("02-over-the-limit", "{}" + " " * 30, b"", 100000001)
    put("03-longer-than-the-file", "{}", b"", 3)
    put("04-not-utf8", b'{"\xc3":{}}')
    put("04-overlong", b'{"\xc0\xaf":{}}')
    put("04-surrogate", b'{"\xed\xa0\x80":{}}')
    put("04-before-json", b"[\xff")
    put("05-no-header", "", b"abcd")
    put("05-bom", "\ufeff{}")
    put("05-comment", "{/**/}")
    put("05-trailing-comma", "{" + ONE + ",}", b"x")
    put("05-second-value", "{}{}")
    put("05-array", "[]")
    put("05-unclosed", "{" + ONE, b"x")
    put("05-zero-behind", "{}\0")
    put("05-control-character", '{"a\n":{}}')
    put("05-bad-escape", '{"\\x":{}}')
    put("05-lone-high-surrogate", '{"\\ud800":{}}')
    put("05-lone-low-surrogate", '{"\\udc00":{}}')
    put("05-surrogate-in-unknown-field", '{"a":{"x":"\\ud800"}}')
    put("05-metadata-twice", '{"__metadata__":null,"__metadat\\u0061__":{}}')
    put("05-metadata-number", '{"__metadata__":{"a":1}}')
    put("05-metadata-array", '{"__metadata__":[]}')
    put("05-metadata-like-a-tensor", "{" + ONE + "," + entry("__metadata__", "U8", [1], 1, 2) + "}", b"xy")
    put("05-entry-null", '{"a":null}')
    field("05-dtype-unknown", '"dtype":"Q4","shape":[1],"data_offsets":[0,1]')
    field("05-dtype-case", '"dtype":"u8","shape":[1],"data_offsets":[0,1]')
    field("05-dtype-missing", '"shape":[1],"data_offsets":[0,1]')
    field("05-shape-missing", '"dtype":"U8","data_offsets":[0,1]')
    field("05-offsets-missing", '"dtype":"U8","shape":[1]')
    field("05-dtype-twice", '"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]')
    field("05-shape-twice", '"dtype":"U8","shape":[1],"sh\\u0061pe":[1],"data_offsets":[0,1]')
    field("05-offsets-twice", '"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offsets":[0,1]')
    field("05-offsets-one", '"dtype":"U8","shape":[1],"data_offsets":[0]')
    field("05-offsets-three", '"dtype":"U8","shape":[1],"data_offsets":[0,1,2]')
    for name, number in (("fraction", "1.0"), ("exponent", "1e0"), ("minus-zero", "-0"), ("zero-first", "01"),
                         ("plus", "+1"), ("over-64-bits", "18446744073709551616"), ("string", '"1"')):
        field("05-shape-" + name, '"dtype":"U8","shape":[%s],"data_offsets":[0,1]' % number)
    field("05-depth-128", '"x":' + "[" * 126 + "]" * 126)
    field("05-number-over-double", '"x":1.8e308')
    field("05-number-exponent-309", '"x":1e309')
    field("05-number-no-digits", '"x":-')
    field("05-word", '"x":nul')
    put("05-intent-name-twice", "{" + ONE + "," + entry("\\u0061", "U8", [1], 1, 2) + "}", b"xy")
    put("05-intent-metadata-key-twice", '{"__metadata__":{"a":"1","\\u0061":"2"}}')
    put("05-intent-entry-array", '{"a":["U8",[1],[0,1]]}', b"x")
    field("05-intent-dtype-object", '"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]')
    put("06-hole-at-the-start", "{" + entry("a", "U8", [1], 1, 2) + "}", b"xy")
    put("06-hole", "{" + ONE + "," + entry("b", "U8", [1], 2, 3) + "}", b"xyz")
    put("06-overlap", "{" + entry("a", "U8", [2], 0, 2) + "," + entry("b", "U8", [2], 1, 3) + "}", b"xyz")
    put("06-end-before-begin", "{" + entry("a", "U8", [1], 0, 1) + "," + entry("b", "U8", [1], 1, 0) + "}", b"x")
    put("07-product-overflows", "{" + entry("a", "U8", [2**63, 2, 0], 0, 0) + "}")
    put("07-bits-overflow", "{" + entry("a", "U64", [2**58], 0, 0) + "}")
    put("08-half-a-byte", "{" + entry("a", "F4", [3], 0, 1) + "}", b"x")
    put("09-size", "{" + entry("a", "F32", [3], 0, 8) + "}", bytes(8))
    put("10-truncated", "{" + entry("a", "F32", [3], 0, 12) + "}", bytes(8))
    put("10-bytes-behind", "{" + ONE + "}", b"xyz")
    put("10-no-tensors-but-data", "{}", b"data")
    for name, start in (("git-lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
                        ("html", b"\n<!DOCTYPE html><html>"),
                        ("torch-zip", b"PK\3\4" + bytes(26) + b"archive/data.pkl"),
                        ("pickle", b"\x80\2}q\0X\1\0\0\0aq"), ("gzip", b"\x1f\x8b\x08" + bytes(10)),
                        ("text", b"Access denied\r\n"), ("zeros", bytes(16))):
        whole("bad", "foreign-" + name, start)


if __name__ == "__main__":
    good()
    bad()
