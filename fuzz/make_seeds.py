#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small files, each named after the rule that it tests. Also
writes the dtypes into header.dict, and the endings of the names of quantized weights into
quantized.dict.

Usage: fuzz/make_seeds.py [--check], from anywhere. The files are committed, so that tests need no
Python. With --check it writes nothing, and fails if a committed file is not what it would write.
"""
import os
import re
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
made = {}  # the content of each file, by its path


def write(target, name, data):
    made[os.path.join(HERE, "seeds", target, name)] = data


def entry(name, dtype, shape, begin, end, more=""):
    return '"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]%s}' % (
        name, dtype, str(shape).replace(" ", ""), begin, end, more)


def header(name, text, data=b"", length=None):
    raw = text if isinstance(text, bytes) else text.encode()
    length = len(raw) if length is None else length
    write("header", name, struct.pack("<Q", length) + raw + data)


def dtypes():
    """Returns the bits of every dtype, by name, from the library's table."""
    with open(os.path.join(HERE, "../src/base/dtype_table.h")) as table:
        rows = re.findall(r"^    X\((\w+), ([1-9]\d*),", table.read(), re.M)
    return {name: int(bits) for name, bits in rows}


BITS = dtypes()


def endings():
    """Returns how the names of quantized weights' parts end, from the library's table."""
    with open(os.path.join(HERE, "../src/model/quantized_families.c")) as source:
        rows = re.search(r"quant_family families\[\] = \{\n(.*?)^\};", source.read(), re.M | re.S)[1]
    parts = re.sub(r'^    \{"[^"]*"', "", rows, flags=re.M)  # without the names of the families
    found = [ending for ending in dict.fromkeys(re.findall(r'"([^"]*)"', parts)) if ending]
    assert found, "quantized_families.c has no endings"
    return found


def dictionary(name, first, tokens):
    """Replaces the paragraph after the comment that begins with `first`."""
    path = os.path.join(HERE, name)
    with open(path) as file:
        text = file.read()
    lines = "".join('"%s"\n' % token for token in tokens)
    text, found = re.subn(r"(# %s[^\n]*\n).*?\n\n" % first, lambda m: m[1] + lines + "\n", text, flags=re.S)
    assert found == 1, "%s has no paragraph: %s" % (name, first)
    made[path] = text.encode()


def header_seeds():
    # Valid files.
    header("good_empty", "{}")
    header("good_white_space", " \t\r\n{ \n} ")
    header("good_scalar", "{" + entry("s", "F32", [], 0, 4) + "}", b"\0\0\x80\x3f")
    parts, at = [], 0
    for dtype, bits in BITS.items():
        size = 8 * bits // 8
        parts.append(entry(dtype, dtype, [2, 4], at, at + size))
        at += size
    header("good_every_dtype", "{" + ",".join(parts) + "}", bytes(i * 37 & 255 for i in range(at)))
    header("good_misaligned", "{" + entry("a", "U8", [1], 0, 1) + "," +
           entry("b", "F64", [2], 1, 17) + "}", bytes(range(17)))
    header("good_out_of_order", "{" + entry("c", "U8", [3], 3, 6) + "," +
           entry("e", "F16", [0], 3, 3) + "," + entry("a", "I8", [3], 0, 3) + "}", b"abcdef")
    header("good_empty_tensors_at_one_offset", "{" + ",".join(
        entry("e%d" % i, "U16", [0, 5], 0, 0) for i in range(4)) + "}")
    header("good_metadata", '{"__metadata__":{"format":"pt","":"","k\\n":"v\\u0000v"},' +
           entry("a", "BF16", [2, 2], 0, 8) + "}", bytes(8))
    header("good_metadata_null_last", "{" + entry("a", "U8", [], 0, 1) + ',"__metadata__":null}', b"x")
    header("good_names", "{" + ",".join(
        entry(n, "U8", [1], i, i + 1) for i, n in enumerate(
            ["", "__x__", "\\u0000", "a\\u0000b", "\x7f", "\u00e9", "\U0001f600", "\\ud83d\\ude01",
             "\\\"\\\\\\/\\b\\f\\n\\r\\t", "n" * 70])) + "}", bytes(10))
    header("good_unknown_fields", "{" + entry(
        "a", "U8", [2], 0, 2,
        ',"x":{"a":[1,-0,1.5e3,true,false,null,"\\u0041"],"a":{}},"x":[],"y":1e308') + "}", b"ab")
    header("good_depth_127", '{"a":{"x":' + "[" * 125 + "]" * 125 +
           ',"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')
    header("good_escaped_keys", '{"a":{"dt\\u0079pe":"\\u00558","sh\\u0061pe":[1],'
           '"data\\u005foffsets":[0,1]}}', b"z")
    header("good_many_dims", "{" + entry("a", "U8", [1] * 300, 0, 1) + "}", b"d")
    header("good_zero_dim_after_large", "{" + entry("a", "U8", [2**64 - 1, 1, 0], 0, 0) + "}")
    header("good_many_tensors", "{" + ",".join(
        entry("layers.%d.w" % i, "U8", [1], i, i + 1) for i in range(60)) + "}", bytes(60))
    # Valid for a lenient open only.
    header("lenient_hole", "{" + entry("a", "U8", [2], 0, 2) + "," + entry("b", "U8", [2], 4, 6) + "}",
           b"ab--cd")
    header("lenient_trailing_bytes", "{" + entry("a", "U8", [2], 0, 2) + "}", b"ab and more")
    header("lenient_unknown_dtype", "{" + entry("a", "F2", [3, 5], 0, 4) + "," +
           entry("b", "\\u0007\\n", [], 4, 5) + "," + entry("c", "U8", [1], 5, 6) + "}", b"abcdef")
    header("lenient_end_at_2_64", "{" + entry("a", "Q", [], 0, 2**64 - 1) + "}", b"abc")
    # Rules 1 to 4.
    write("header", "rule_1_no_bytes", b"")
    write("header", "rule_1_seven_bytes", b"\2\0\0\0\0\0\0")
    header("rule_2_over_the_limit", "{}", length=2**62)
    header("rule_3_longer_than_the_file", "{}", length=30)
    header("rule_3_length_that_spells_gzip", "{" + entry("a", "U8", [1], 0, 1), length=0x8b1f)
    header("rule_4_not_utf8", b'{"\xff":null}')
    header("rule_4_surrogate", b'{"\xed\xa0\x80":null}')
    header("rule_5_no_header", "", b"abc")
    # Rule 5.
    one = entry("a", "U8", [1], 0, 1)
    for name, text in {
            "bom": "\ufeff{" + one + "}", "comment": "{/**/" + one + "}",
            "trailing_comma": "{" + one + ",}", "second_value": "{" + one + "}{}",
            "unclosed": "{" + one, "unclosed_string": '{"a', "nul": "{" + one + "}\0",
            "control_character": '{"a\n":{}}', "bad_escape": '{"\\x":{}}',
            "lone_low_surrogate": '{"\\udc00":{}}', "lone_high_surrogate": '{"\\ud800\\u0041":{}}',
            "name_twice": "{" + one + "," + entry("\\u0061", "U8", [1], 1, 2) + "}",
            "metadata_twice": '{"__metadata__":null,"__metadat\\u0061__":{}}',
            "metadata_key_twice": '{"__metadata__":{"a":"","\\u0061":""}}',
            "metadata_number": '{"__metadata__":{"a":1}}', "metadata_array": '{"__metadata__":[]}',
            "entry_array": '{"a":["U8",[1],[0,1]]}', "entry_null": '{"a":null}',
            "dtype_object": '{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}',
            "dtype_unknown": "{" + entry("a", "\\u001bQ", [1], 0, 1) + "}",
            "dtype_missing": '{"a":{"shape":[1],"data_offsets":[0,1]}}',
            "shape_missing": '{"a":{"dtype":"U8","data_offsets":[0,1]}}',
            "shape_twice": '{"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}}',
            "offsets_missing": '{"a":{"dtype":"U8","shape":[1]}}',
            "offsets_one": '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}',
            "offsets_three": '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}',
            "shape_fraction": '{"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,1]}}',
            "shape_exponent": '{"a":{"dtype":"U8","shape":[2e0],"data_offsets":[0,1]}}',
            "shape_minus_zero": '{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,1]}}',
            "shape_leading_zero": '{"a":{"dtype":"U8","shape":[02],"data_offsets":[0,1]}}',
            "shape_over_64_bits":
                '{"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}}',
            "depth_128": '{"a":{"x":' + "[" * 126 + "]" * 126 + "}}",
            "number_over_double": '{"a":{"x":1.8e308}}',
            "number_overflow_long": '{"a":{"x":' + "9" * 320 + "}}",
            "number_bad": '{"a":{"x":-}}', "number_bad_exponent": '{"a":{"x":1e}}',
            "number_bad_fraction": '{"a":{"x":1.}}', "word_bad": '{"a":{"x":nul}}'}.items():
        header("rule_5_" + name, text, b"x")
    # Rules 6 to 10.
    header("rule_6_hole_at_the_start", "{" + entry("a", "U8", [1], 1, 2) + "}", b"ab")
    header("rule_6_overlap", "{" + entry("a", "U8", [2], 0, 2) + "," + entry("b", "U8", [2], 1, 3) + "}",
           b"abc")
    header("rule_6_end_before_begin", "{" + entry("a", "U8", [1], 1, 0) + "}", b"a")
    header("rule_7_product_overflows", "{" + entry("a", "U8", [2**63, 2, 0], 0, 0) + "}")
    header("rule_7_bits_overflow", "{" + entry("a", "U64", [2**58], 0, 0) + "}")
    header("rule_8_half_a_byte", "{" + entry("a", "F4", [3], 0, 1) + "}", b"a")
    header("rule_9_size", "{" + entry("a", "F32", [3], 0, 8) + "}", bytes(8))
    header("rule_10_truncated", "{" + entry("a", "F32", [3], 0, 12) + "}", bytes(8))
    header("rule_10_no_tensors_but_data", "{}", b"data")
    # Files of other formats.
    for name, start in {"git_lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
                        "html": b"\n<!DOCTYPE html><html>", "zip": b"PK\3\4\0\0\0\0archive/data.pkl",
                        "pickle": b"\x80\2}q\0X\1\0\0\0aq", "gguf": b"GGUF\3\0\0\0\0\0\0\0",
                        "gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\3aaa", "text": b"Access denied\r\n",
                        "json": b'{"weight_map":{}}', "zeros": bytes(16), "xml": b"<?xml version=",
                        "control_text": b"\x0b\x0cnot found\x0b"}.items():
        write("header", "foreign_" + name, start)


def index_seeds():
    two = '"a.weight":"m-1-of-2.safetensors","b.weight":"m-2-of-2.safetensors"'
    for name, text in {
            "good_two_shards": '{"metadata":{"total_size":12},"weight_map":{%s}}' % two,
            "good_unordered": '{"weight_map":{"z":"b","y":"a","x":"b","w":"\u00e9"},"more":[1,{}]}',
            "good_white_space": '\n{ "weight_map" : { "a" : "b" } }\n',
            "good_escapes": '{"weight\\u005fmap":{"\\u0000":"\\u0061","":"...","\\ud83d\\ude00":"a"}}',
            "lenient_subfolder": '{"weight_map":{"a":"sub/b","c":"d"}}',
            "unsafe_parent": '{"weight_map":{"a":".."}}',
            "unsafe_parent_inside": '{"weight_map":{"a":"sub/../../b"}}',
            "unsafe_absolute": '{"weight_map":{"a":"/etc/passwd"}}',
            "unsafe_backslash": '{"weight_map":{"a":"..\\\\b"}}',
            "unsafe_nul": '{"weight_map":{"a":"b\\u0000c"}}',
            "unsafe_empty": '{"weight_map":{"a":""}}',
            "unsafe_escaped_slash": '{"weight_map":{"a":"x\\u002fy"}}',
            "unsafe_double_slash": '{"weight_map":{"a":"x//y"}}',
            "name_twice": '{"weight_map":{"a":"b","\\u0061":"c"}}',
            "map_twice": '{"weight_map":{%s},"weight_map":{}}' % two,
            "map_missing": '{"metadata":{}}', "map_empty": '{"weight_map":{}}',
            "map_array": '{"weight_map":["a"]}', "map_null": '{"weight_map":null}',
            "file_number": '{"weight_map":{"a":1}}', "trailing_comma": '{"weight_map":{"a":"b",}}',
            "unclosed": '{"weight_map":{"a":"b"', "second_value": '{"weight_map":{"a":"b"}} 1',
            "key_number": '{1:{}}', "missing_colon": '{"weight_map" {}}',
            "not_an_object": '["weight_map"]', "control_character": '{"weight_map":{"a":"b\x01"}}',
            "deep": '{"x":' + "[" * 127 + "]" * 127 + "}",
            "number_over_double": '{"metadata":1e309}', "no_bytes": ""}.items():
        write("index", name, text.encode())
    write("index", "not_utf8", b'{"weight_map":{"a":"\xc3"}}')


def json_seeds():
    for name, text in {
            "integer": "0", "eight_digits": "12345678", "sixteen_digits": "1234567812345678",
            "largest_u64": "18446744073709551615", "over_u64": "18446744073709551616",
            "leading_zero": "00000001", "minus_zero": "-0", "fraction": "12345678.5e-3",
            "largest_double": "1.7976931348623157e308", "over_double": "1.7976931348623159e308",
            "long_integer": "1" + "0" * 308, "long_integer_scaled": "9" * 400 + ".9e-200",
            "zero_large_exponent": "0e999999999999", "small_exponent": "1e-999999999999",
            "fraction_after_dropped": "184467440737095516160.5e287",
            "string": '"a\\u0041\\ud83d\\ude00\\n\\"\u00e9"', "lone_surrogate": '"\\ud800"',
            "control": '"a\x1f"', "unclosed": '"abc', "object": '{"a":[1,2,{"b":null}],"a":true}',
            "array": "[[],[[]],{}, false ]", "depth_127": "[" * 127 + "]" * 127,
            "depth_128": "[" * 128 + "]" * 128, "trailing_comma": "[1,]", "missing_colon": '{"a" 1}',
            "long_string": '"' + "x" * 40 + "\\t" + "y" * 40 + '"'}.items():
        write("json", name, text.encode())


def good_files():
    """Yields the seeds of the header target that open, by name."""
    folder = os.path.join(HERE, "seeds", "header")
    for name in sorted(os.listdir(folder)):
        if name.startswith(("good_", "lenient_")):
            with open(os.path.join(folder, name), "rb") as file:
                yield name, file.read()


def open_seeds():
    """Each seed is 16 bytes that choose flags, ranges, blocks and dtypes, then a file."""
    for i, (name, data) in enumerate(good_files()):
        program = bytes((i * 31 + k * 17) & 255 for k in range(1, 16))
        write("open", name, bytes([name.startswith("lenient_")]) + program + data)


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return bytes([len(raw)]) + raw


def edit_seeds():
    """Each seed is 64 bytes, then a file. The bytes are flags, the number of edits, and for each
    edit: remove or set, key, value; and changes of an undo record's new header, if the flags have
    0x40."""
    def program(flags, *edits):
        out = bytes([flags, len(edits)])
        for key, value in edits:
            out += bytes([3]) + text(key) if value is None else bytes([0]) + text(key) + value
        assert len(out) <= 64
        return out.ljust(64, b"\0")

    def short(value):
        return bytes([0]) + text(value)

    programs = {
        "nothing": program(0), "add": program(0, ("k", short("v"))),
        "add_long": program(0, ("k", bytes([7]))), "remove": program(0, ("format", None)),
        "replace": program(0, ("format", short("x"))),
        "new_file": program(1, ("format", short("tf")), ("a", short(""))),
        "no_copy": program(9, ("k", short("v"))), "not_utf8": program(0, ("k", short(b"\xff"))),
        "escapes": program(0, ("\n\"\\", short("\0\x7f"))),
        "same_key_twice": program(0, ("k", short("1")), ("k", short("2")), ("k", None))}
    files = dict(good_files())
    for name, start in programs.items():
        for file in ("good_metadata", "good_metadata_null_last", "good_white_space", "good_misaligned"):
            write("edit", name + "_" + file, start + files[file])
    write("edit", "does_not_open", programs["add"] + b"no model")
    spare = ('{"__metadata__":{"format":"pt"},' + entry("a", "U8", [2], 0, 2) + "}").ljust(400).encode()
    for name, start in programs.items():
        write("edit", name + "_spare_room", start + struct.pack("<Q", 400) + spare + b"ab")
    # An undo record whose new header has other bytes at these places.
    for name, places in (("metadata", [(spare.index(b"pt"), b"q")]), ("dtype", [(spare.index(b"U8"), b"I")]),
                         ("name", [(spare.index(b'"a"') + 1, b"b")]), ("not_json", [(0, b"[")]), ("same", [])):
        changes = b"".join(struct.pack("<H", at) + byte for at, byte in places)
        start = bytes([0x40, 0, len(places)]) + changes
        write("edit", "record_" + name, start.ljust(64, b"\0") + struct.pack("<Q", 400) + spare + b"ab")


def convert_seeds():
    """Target, source, flags, alignments, first bit, repeats; then the elements."""
    ids = {name: i for i, name in enumerate(BITS)}
    words = struct.pack("<12f", 0.0, -0.0, 1.0, -1.5, 448.0, 464.0, 65504.0, 65520.0, 3.4e38,
                        float("inf"), float("nan"), 1e-40)
    doubles = struct.pack("<8d", 1.0, 1e300, 5e-324, 2.0 ** -127, 1.0000000596046448, -0.0,
                          float("inf"), float("nan"))
    integers = struct.pack("<6Q", 0, 1, 2 ** 24 + 1, 2 ** 53 + 1, 2 ** 63, 2 ** 64 - 1)
    sources = {"F32": words, "F64": doubles, "U64": integers, "I64": integers, "I32": integers,
               "U32": integers, "F16": bytes(range(256)), "BF16": bytes(range(256))}
    targets = ("F32", "BF16", "F16", "F8_E4M3", "F4", "F6_E2M3", "F8_E8M0")
    for source in BITS:
        elements = sources.get(source, bytes(i * 37 & 255 for i in range(64)))
        for i in range(3):
            target = targets[(ids[source] + i * 3) % len(targets)]
            write("convert", source + "_to_" + target,
                  bytes([ids[target], ids[source], ids[source] % 6, i * 9, i * 5, i, i * 15]) +
                  elements)
    for source, flags in (("F32", 1), ("F16", 5), ("F8_E5M2", 1)):  # infinities, saturated
        write("convert", source + "_to_F64_saturated",
              bytes([ids["F64"], ids[source], flags, 0, 0, 0, 31]) + sources.get(source, bytes(range(256))))
    write("convert", "F4_from_the_middle_of_a_byte", bytes([ids["F32"], ids["F4"], 0, 0, 0, 1, 31]) +
          bytes(i * 37 & 255 for i in range(64)))


def writer_seeds():
    """Alignment, slack (two bytes), flags, number of calls; then the calls and the ending."""
    def pair(key, value):
        return bytes([0]) + text(key) + text(value)

    def add(name, dtype, shape):
        return bytes([1]) + text(name) + bytes([1 + list(BITS).index(dtype), len(shape)] + shape)

    def put(tensor, offset, size):
        return bytes([3, tensor]) + struct.pack("<HHB", offset, size, 7)

    def copy(tensor, source):
        return bytes([4, tensor, source, 0])

    def calls(*parts, alignment=0, slack=0, flags=0, ending=0):
        return bytes([alignment, slack & 255, slack >> 8, flags, len(parts)]) + b"".join(parts) + \
            bytes([ending])

    two = (add("b", "F32", [2, 2]), add("a", "U8", [3]))
    every = tuple(add(name, name, [8]) for name in list(BITS)[:12])
    for name, data in {
            "empty": calls(), "two": calls(*two), "two_in_order": calls(*two, flags=1),
            "aligned": calls(*two, alignment=7, slack=100), "bad_alignment": calls(alignment=8),
            "pairs": calls(pair("format", "pt"), pair("\n\"\\\0\x7f", "\u00e9"), *two),
            "pair_twice": calls(pair("k", "1"), pair("k", "2")),
            "not_utf8": calls(pair(b"\xc3", "v"), add(b"\xff", "U8", [1])),
            "name_twice": calls(add("a", "U8", [1]), add("a", "I8", [1])),
            "reserved_name": calls(add("__metadata__", "U8", [1])),
            "half_a_byte": calls(add("a", "F4", [3])), "overflow": calls(add("a", "U8", [250, 250])),
            "every_dtype": calls(*every), "writes": calls(*two, put(0, 0, 8), put(0, 8, 8), put(1, 1, 1)),
            "write_twice": calls(*two, put(0, 0, 8), put(0, 7, 8)),
            "write_outside": calls(*two, put(0, 9, 8), put(5, 0, 1)),
            "add_after_write": calls(*two, put(0, 0, 1), add("c", "U8", [1]), pair("k", "v")),
            "copies": calls(add("x", "BF16", [4]), add("y", "F4", [4]), add("z", "F32", [2]),
                            copy(0, 0), copy(1, 1), copy(2, 2), copy(0, 3)),
            "incomplete": calls(*two, ending=12), "aborted": calls(*two, put(0, 0, 4), ending=15),
    }.items():
        write("writer", name, data)


def torch_storage(key, count, kind="FloatStorage"):
    return (b"(X\7\0\0\0storagectorch\n" + kind.encode() + b"\nU" + bytes([len(key)]) + key.encode() +
            b"U\3cpuK" + bytes([count]) + b"tQ")


def torch_tensor(key, count, offset, shape, strides, kind="FloatStorage"):
    numbers = lambda values: b"(" + b"".join(b"K" + bytes([v]) for v in values) + b"t"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + torch_storage(key, count, kind) + b"K" +
            bytes([offset]) + numbers(shape) + numbers(strides) +
            b"\x89ccollections\nOrderedDict\n)RtR")


def golden_files(kind, beginning):
    """The golden PyTorch checkpoints whose names begin so."""
    folder = os.path.join(HERE, "..", "tests", "golden", kind)
    for name in sorted(os.listdir(folder)):
        if name.startswith(beginning) and name.endswith(".pt"):
            with open(os.path.join(folder, name), "rb") as file:
                yield "%s_%s" % (kind, name[:-3]), file.read()


def pytorch_seeds():
    """Pickles, which the target wraps; archives; and what follows the magic number of old files."""
    key = lambda name: b"X" + struct.pack("<I", len(name)) + name.encode()
    whole = torch_tensor("0", 24, 0, [4, 6], [6, 1])
    pickles = {
        "good_dict": b"\x80\2}q\0(" + key("a") + whole + key("b") +
                     torch_tensor("1", 24, 0, [6, 4], [1, 6])[:-2] + b"tRu.",
        "good_wrapper": b"}(" + key("model") + b"}" + key("w") + whole + b"s" + key("epoch") + b"K\3" +
                        key("lr") + b"G?\xf8\0\0\0\0\0\0" + key("name") + key("x") + b"u.",
        "good_expanded": b"}" + key("e") + torch_tensor("0", 24, 0, [3, 5], [0, 1]) + b"s.",
        "good_half": b"}" + key("h") + torch_tensor("0", 48, 0, [48], [1], "HalfStorage") + b"s.",
        "good_untyped": b"}" + key("u") + b"ctorch._utils\n_rebuild_tensor_v3\n(" +
                        torch_storage("0", 96, "UntypedStorage") +
                        b"K\0K\x60\x85K\1\x85\x89}ctorch\nfloat8_e4m3fn\ntRs.",
        "good_list": b"](" + whole + torch_storage("1", 24) + b"e.",
        "good_module": b"cnet\nM\n)\x81}" + key("_parameters") + b"}" + key("w") + whole + b"ssb.",
        "good_parameter": b"}" + key("p") + b"ctorch._utils\n_rebuild_parameter\n(" + whole +
                          b"\x88ccollections\nOrderedDict\n)RtRs.",
        "good_proto_4": b"\x80\4\x95\x10\0\0\0\0\0\0\0}\x94\x8c\1a\x94\x8c\2ab\x94s.",
        "good_pairs": b"ccollections\nOrderedDict\n(](](" + key("a") + whole + b"eetR.",
        "code_reduce": b"cos\nsystem\n(S'true'\ntR.", "code_inst": b"(S'true'\nios\nsystem\n.",
        "code_stack": b"\x8c\2os\x8c\6system\x93\x8c\4true\x85R.",
        "code_obj": b"(cos\nsystem\nS'true'\no.",
        "bad_cycle": b"]q\0(h\0" + whole + b"h\0e.",
        "bad_bomb": b"](" + whole + b"e" + b"".join(b"q%c0](h%ch%ce" % (i, i, i) for i in range(40)) +
                    b".",
        "bad_memo": b"Nr\xff\xff\xff\xff.", "bad_length": b"X\xff\xff\xff\xffa.", "bad_stop": b"NN."}
    for name, pickle in pickles.items():
        write("pickle", name, pickle)
    for kind in ("good", "bad"):
        for name, data in golden_files(kind, ("torch-", "zip-")):
            write("zip", name, data)
        for name, data in golden_files(kind, "legacy-"):
            write("legacy", name, data[15:])
    system = b"\x80\2M\xe9\3.}U\rlittle_endian\x88s."
    write("legacy", "good_two", system + pickles["good_dict"] + b"](U\0010U\0011e." +
          2 * (struct.pack("<Q", 24) + bytes(96)))
    write("legacy", "good_module", system + pickles["good_module"] + b"]U\0010a." +
          struct.pack("<Q", 24) + bytes(96))
    write("legacy", "good_empty", b"I1001\n.(dV" + b"little_endian\nI01\ns.(dp0\n.(lp0\n.")
    write("zip", "good_archive",
          zip_of({"m/data.pkl": pickles["good_dict"], "m/data/0": bytes(96), "m/data/1": bytes(96),
                  "m/byteorder": b"little"}))


def zip_of(files):
    """A zip archive with stored entries."""
    entries, directory = b"", b""
    for name, data in files.items():
        fields = struct.pack("<5HIIIHH", 20, 0, 0, 0, 0, 0, len(data), len(data), len(name), 0)
        directory += (b"PK\1\2\0\0" + fields + bytes(10) +
                      struct.pack("<I", len(entries)) + name.encode())
        entries += b"PK\3\4" + fields + name.encode() + data
    return entries + directory + b"PK\5\6\0\0\0\0" + struct.pack(
        "<HHIIH", len(files), len(files), len(directory), len(entries), 0)


def numpy_seeds():
    """Dicts, which the target makes arrays of, arrays, and one archive."""
    def dict_of(descr, order, shape):
        return b"{'descr': %s, 'fortran_order': %s, 'shape': %s, }   \n" % (descr, order, shape)

    def array(version, text, data):
        return b"\x93NUMPY" + struct.pack("<BB", version, 0) + struct.pack(
            "<H" if version == 1 else "<I", len(text)) + text + data

    plain = dict_of(b"'<f4'", b"False", b"(2, 3)")
    fortran = dict_of(b"'<i2'", b"True", b"(2, 3, 8)")
    for name, data in {
            "good_dict": dict_of(b"'<f4'", b"False", b"(24,)"), "good_fortran": fortran,
            "good_scalars": b'{"shape":(),"descr":"|b1","fortran_order":True}',
            "good_python_2": dict_of(b"'<c8'", b"False", b"(3L, 4L)"),
            "good_empty": dict_of(b"'<u8'", b"True", b"(0, 9223372036854775808)"),
            "good_version_1": array(1, plain, bytes(24)), "good_version_2": array(2, plain, bytes(24)),
            "good_version_3": array(3, fortran, bytes(96)),
            "bad_object": dict_of(b"'|O'", b"False", b"(1,)"),
            "bad_records": dict_of(b"[('a', '<f4')]", b"False", b"(1,)"),
            "bad_big_endian": dict_of(b"'>f4'", b"False", b"(24,)"),
            "bad_overflow": dict_of(b"'<f8'", b"True", b"(4294967296, 4294967296)"),
            "bad_negative": dict_of(b"'<f4'", b"False", b"(-1,)"),
            "bad_length": b"\x93NUMPY\2\0\xff\xff\xff\xff{}", "bad_version": array(9, plain, b"")}.items():
        write("numpy", name, data)
    write("numpy", "good_archive", zip_of({"w.npy": array(1, plain, bytes(24)), "notes": b"some notes",
                                           "layer/f.npy": array(2, fortran, bytes(96))}))


def gguf_seeds():
    """Copies the golden files, one for each rule."""
    for kind in ("good", "bad"):
        folder = os.path.join(HERE, "..", "tests", "golden", kind)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".gguf"):
                with open(os.path.join(folder, name), "rb") as file:
                    write("gguf", kind + "_" + name[5:-5].replace("-", "_"), file.read())


def quantized(name, tensors, config=""):
    """Writes a model of tensors (name, dtype, shape[, bytes]) after its config.json."""
    at, entries, data = 0, [], b""
    for i, (tensor, dtype, shape, *raw) in enumerate(tensors):
        count = 1
        for extent in shape:
            count *= extent
        size = count * BITS[dtype] // 8
        entries.append(entry(tensor, dtype, list(shape), at, at + size))
        data += raw[0] if raw else bytes((37 * k + 11 * i) % 64 + 32 for k in range(size))
        at += size
    text_ = ("{" + ",".join(entries) + "}").encode()
    raw_config = config.encode()
    write("quantized", name, struct.pack("<H", len(raw_config)) + raw_config +
          struct.pack("<Q", len(text_)) + text_ + data)


def quantized_seeds():
    words = lambda *numbers: struct.pack("<%di" % len(numbers), *numbers)
    quantized("fp8_block", [("m.weight", "F8_E4M3", (10, 14)), ("m.weight_scale_inv", "F32", (3, 4))],
              '{"torch_dtype":"bfloat16","quantization_config":{"quant_method":"fp8",'
              '"weight_block_size":[4,4]}}')
    quantized("fp8_channel", [("m.weight", "F8_E4M3", (3, 40)), ("m.weight_scale", "BF16", (3, 1))])
    quantized("mxfp8", [("m.weight", "F8_E4M3", (3, 64)), ("m.weight_scale", "U8", (3, 2))])
    quantized("int8_scb", [("m.weight", "I8", (3, 20)), ("m.SCB", "F32", (3,))])
    packed = [("m.weight_packed", "I32", (3, 8)), ("m.weight_scale", "BF16", (3, 2)),
              ("m.weight_shape", "I64", (2,), struct.pack("<qq", 3, 64))]
    quantized("packed", packed, '{"quantization_config":{"quant_method":"compressed-tensors",'
              '"config_groups":{"g":{"weights":{"num_bits":4,"group_size":32}}}}}')
    quantized("packed_zeros", packed + [("m.weight_zero_point", "I32", (1, 2))])
    quantized("packed_listed", packed + [("m.weight_g_idx", "I32", (64,), words(*([0, 1] * 32)))])
    gptq = [("m.qweight", "I32", (8, 16)), ("m.qzeros", "I32", (2, 2)), ("m.scales", "F16", (2, 16))]
    quantized("gptq", gptq + [("m.g_idx", "I32", (64,), words(*([0] * 32 + [1] * 32)))])
    quantized("gptq_order", gptq + [("m.g_idx", "I32", (64,), words(*([1, 0] * 32)))])
    quantized("gptq_bad_group", gptq + [("m.g_idx", "I32", (64,), words(*([2] * 64)))])
    quantized("gptq_v2", gptq, '{"quantization_config":{"quant_method":"gptq","bits":4,'
              '"group_size":32,"checkpoint_format":"gptq_v2"}}')
    quantized("awq", [("m.qweight", "I32", (64, 2)), ("m.qzeros", "I32", (2, 2)),
                      ("m.scales", "F16", (2, 16))])
    quantized("gpt_oss", [("m_blocks", "U8", (2, 5, 2, 16)), ("m_scales", "U8", (2, 5, 2))])
    quantized("mxfp4", [("m.weight_packed", "U8", (3, 32)), ("m.weight_scale", "U8", (3, 2))])
    quantized("mxfp6", [("m.weight_packed", "U8", (3, 24)), ("m.weight_scale", "U8", (3, 1))])
    quantized("nvfp4", [("m.weight", "U8", (3, 16)), ("m.weight_scale", "F8_E4M3", (3, 2)),
                        ("m.weight_scale_2", "F32", (1,))])
    quantized("nvfp4_packed", [("m.weight_packed", "U8", (3, 16)), ("m.weight_scale", "F8_E4M3", (3, 2)),
                               ("m.weight_global_scale", "F32", (1,))])
    quantized("mxfp4_pairs", [("m.weight", "I8", (3, 32)), ("m.scale", "F8_E8M0", (3, 2))])
    quantized("torchao", [("m._weight_qdata", "I8", (3, 32)), ("m._weight_scale", "F32", (3, 1)),
                          ("m._weight_zero_point", "I8", (3, 1))])
    quantized("comfy", [("m.weight", "F8_E4M3", (3, 8)), ("m.weight_scale", "F32", ()),
                        ("m.comfy_quant", "U8", (27,), b'{"format": "float8_e4m3fn"}')])
    quantized("mlx_mxfp4", [("m.weight", "U32", (3, 8)), ("m.scales", "U8", (3, 2))],
              '{"quantization":{"group_size":32,"bits":4,"mode":"mxfp4"}}')
    quantized("mlx", [("m.weight", "U32", (3, 8)), ("m.scales", "BF16", (3, 1)),
                      ("m.biases", "BF16", (3, 1))], '{"quantization":{"group_size":64,"bits":4}}')
    state = b'{"blocksize":64,"dtype":"float16","shape":[4,40],"nested_blocksize":2,' \
            b'"nested_offset":0.25}'
    nf4 = [("m.weight", "U8", (80, 1)), ("m.weight.quant_map", "F32", (16,)),
           ("m.weight.quant_state.bitsandbytes__nf4", "U8", (len(state),), state)]
    quantized("nf4", nf4 + [("m.weight.absmax", "F32", (3,))])
    quantized("nf4_nested", nf4 + [("m.weight.absmax", "U8", (3,)),
                                   ("m.weight.nested_absmax", "F32", (2,)),
                                   ("m.weight.nested_quant_map", "F32", (256,))])
    quantized("absmax_too_short", nf4 + [("m.weight.absmax", "F32", (2,))])
    quantized("scales_missing", [("m.weight", "F8_E4M3", (3, 4))],
              '{"quantization_config":{"quant_method":"fp8"}}')
    quantized("config_no_json", [("m.weight", "F32", (1,))], "{")


def write_files():
    for path, data in made.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)


def content(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def check_files():
    seeds = {os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(HERE, "seeds")) for name in names}
    wrong = [path for path in sorted(seeds | made.keys()) if content(path) != made.get(path)]
    for path in wrong:
        print("%s is not what fuzz/make_seeds.py writes: run it" % os.path.relpath(path, HERE))
    print("%d files, %d outdated" % (len(made), len(wrong)))
    return len(wrong) > 0


if __name__ == "__main__":
    header_seeds()
    index_seeds()
    json_seeds()
    open_seeds()
    edit_seeds()
    convert_seeds()
    writer_seeds()
    gguf_seeds()
    pytorch_seeds()
    numpy_seeds()
    quantized_seeds()
    dictionary("header.dict", "Dtypes, ", ('\\"%s\\"' % name for name in BITS))
    dictionary("quantized.dict", "Endings of names, ", endings())
    sys.exit(check_files() if sys.argv[1:] == ["--check"] else write_files())
