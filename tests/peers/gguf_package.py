"""Compares GGUF files with the package gguf: gguf_package.py LIBTENMAP.so [CASES [SEED]]

Makes three comparisons: the values of every type that the package dequantizes, bit by bit in F32;
metadata of every type and nesting with its GGUFReader; and CASES (20,000) randomly mutated headers.
Both must see the same in a header that both accept; where their verdicts differ, the rule is
printed. The package runs under a time limit, because some files make it count to 2^63. Types that
it lacks are compared with a second implementation in this file. Exits with 77 and says why if gguf
or numpy is missing.
"""
import collections
import ctypes
import os
import random
import re
import signal
import struct
import sys
import tempfile

import peer

peer.hand_over()
try:
    import gguf
    import numpy as np
    from gguf.constants import GGML_QUANT_SIZES
    from gguf.quants import dequantize
except ImportError as error:
    print(f"skipped: {error}; pip install gguf, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

np.seterr(all="ignore")
TYPES = gguf.GGMLQuantizationType
PLAIN = {0: 18, 1: 14, 24: 6, 25: 12, 26: 16, 27: 21, 28: 20, 30: 15}  # ggml's number: our dtype
F32, Q8_1 = 18, 9
LIB = ctypes.CDLL(sys.argv[1])
CASES = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
TIME_LIMIT = 0.2  # seconds of processor time, so that load does not matter
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("os_error", ctypes.c_int32), ("shard", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("offset", ctypes.c_uint64), ("index", ctypes.c_uint64),
                ("message", ctypes.c_char * 480)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.POINTER(ctypes.c_char)), ("name_len", ctypes.c_size_t),
                ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("shape", ctypes.POINTER(ctypes.c_uint64)), ("data", ctypes.c_void_p),
                ("nbytes", ctypes.c_uint64), ("nelems", ctypes.c_uint64), ("file_offset", ctypes.c_uint64)]


class Value(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("element_type", ctypes.c_uint32), ("count", ctypes.c_uint64),
                ("raw", ctypes.c_void_p), ("raw_bytes", ctypes.c_uint64)]


class Pair(ctypes.Structure):
    _fields_ = [("key", ctypes.POINTER(ctypes.c_char)), ("key_len", ctypes.c_size_t),
                ("value", ctypes.POINTER(ctypes.c_char)), ("value_len", ctypes.c_size_t),
                ("shard", ctypes.c_uint32)]


LIB.tenmap_at.restype = ctypes.POINTER(Tensor)
LIB.tenmap_metadata_at.restype = ctypes.POINTER(Pair)
LIB.tenmap_count.restype = LIB.tenmap_metadata_count.restype = ctypes.c_size_t
for name in ("tenmap_at", "tenmap_metadata_at"):
    getattr(LIB, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for name in ("tenmap_count", "tenmap_metadata_count", "tenmap_close"):
    getattr(LIB, name).argtypes = [ctypes.c_void_p]
LIB.tenmap_open_memory.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p,
                                   ctypes.c_void_p]
LIB.tenmap_read.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32,
                            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p]

# The numpy type of each type of value, by GGUF's number; 8 is a string, 9 an array.
NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8",
           12: "<f8"}


def raw_of(value):
    """Returns the bytes of all numbers and strings in a value, concatenated."""
    if value.type != 9 or value.element_type in NUMBERS:
        return ctypes.string_at(value.raw, value.raw_bytes)
    out, element = b"", Value()
    while LIB.tenmap_value_next(ctypes.byref(value), ctypes.byref(element)):
        out += raw_of(element)
    return out


def contents(value):
    """Returns a value as the package does; it keeps no types of nested arrays, so their bytes."""
    if value.type != 9 and value.type != 8:
        return np.frombuffer(ctypes.string_at(value.raw, value.raw_bytes), NUMBERS[value.type])[0].item()
    if value.type == 8 or value.element_type == 9:
        return raw_of(value)
    if value.element_type in NUMBERS:
        return np.frombuffer(ctypes.string_at(value.raw, value.raw_bytes), NUMBERS[value.element_type]).tolist()
    out, element = [], Value()
    while LIB.tenmap_value_next(ctypes.byref(value), ctypes.byref(element)):
        out.append(raw_of(element))
    return out


class Model:
    """What tenmap sees in the bytes of a file; .error is the error message if it rejects them."""

    def __init__(self, data):
        self.data, self.handle, error = data, ctypes.c_void_p(), Error()
        status = LIB.tenmap_open_memory(data, len(data), None, ctypes.byref(self.handle), ctypes.byref(error))
        self.error = error.message.decode() if status else None

    def close(self):
        LIB.tenmap_close(self.handle)

    def tensors(self):
        for i in range(LIB.tenmap_count(self.handle)):
            yield LIB.tenmap_at(self.handle, i).contents

    def metadata(self):
        out = {}
        for i in range(LIB.tenmap_metadata_count(self.handle)):
            pair, value = LIB.tenmap_metadata_at(self.handle, i), Value()
            LIB.tenmap_metadata_value(pair, ctypes.byref(value))
            key = ctypes.string_at(pair.contents.key, pair.contents.key_len).decode()
            out[key] = (value.type, contents(value))
        return out

    def floats(self, tensor):
        out = np.empty(tensor.nelems, np.float32)
        error = Error()
        if LIB.tenmap_read(ctypes.byref(tensor), 0, tensor.nelems, F32, out.ctypes.data, out.nbytes, 0,
                           ctypes.byref(error)):
            raise SystemExit(error.message.decode())
        return out


def name_of(tensor):
    return ctypes.string_at(tensor.name, tensor.name_len).decode()


def seen(model):
    """Returns the tensors as (name, ggml's type, shape, file offset, bytes), by offset."""
    back = {ours: theirs for theirs, ours in PLAIN.items()}
    return sorted((name_of(t), back.get(t.dtype, t.dtype - 62), tuple(t.shape[:t.rank]), t.file_offset, t.nbytes)
                  for t in model.tensors())


def package_field(field):
    kind = int(field.types[0])
    if kind == 8:
        return kind, field.parts[field.data[0]].tobytes()
    if kind != 9:
        return kind, field.parts[field.data[0]].tolist()[0]
    if int(field.parts[3][0]) == 9:
        return kind, b"".join(field.parts[i].tobytes() for i in field.data)
    if int(field.parts[3][0]) == 8:
        return kind, [field.parts[i].tobytes() for i in field.data]
    return kind, [number for i in field.data for number in field.parts[i].tolist()]


def package_bytes(tensor):
    """Blocks of Q8_1 have 40 bytes in the package, but 36 in ggml, which is right."""
    return int(tensor.n_bytes) // 40 * 36 if int(tensor.tensor_type) == Q8_1 else int(tensor.n_bytes)


def package_sees(path):
    reader = gguf.GGUFReader(path)
    tensors = sorted((t.name, int(t.tensor_type), tuple(int(d) for d in reversed(t.shape.tolist())),
                      int(t.data_offset), package_bytes(t)) for t in reader.tensors)
    fields = {name: package_field(f) for name, f in reader.fields.items() if not name.startswith("GGUF.")}
    return tensors, fields


# Types that the package does not dequantize: a second implementation of the format's description.

def plain_q8_1(blocks):
    return blocks[:, :2].copy().view(np.float16).astype(np.float32) * blocks[:, 4:].view(np.int8).astype(np.float32)


def plain_q8_k(blocks):
    return blocks[:, :4].copy().view(np.float32) * blocks[:, 4:260].view(np.int8).astype(np.float32)


def plain_q1_0(blocks):
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return np.where(np.unpackbits(blocks[:, 2:], axis=1, bitorder="little") == 1, d, -d)


LACKING = {9: ("Q8_1", 32, 36, plain_q8_1), 15: ("Q8_K", 256, 292, plain_q8_k), 41: ("Q1_0", 128, 18, plain_q1_0)}


def block_types():
    for kind in TYPES:
        if int(kind) in LACKING or int(kind) in PLAIN or kind not in GGML_QUANT_SIZES:
            continue
        elements, size = GGML_QUANT_SIZES[kind]
        yield int(kind), kind.name, elements, size, lambda b, kind=kind: dequantize(b, kind).astype(np.float32)
    for kind, (label, elements, size, unpack) in LACKING.items():
        yield kind, label, elements, size, unpack


def text(raw):
    return struct.pack("<Q", len(raw)) + raw


def one_tensor(kind, columns, rows, data):
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(b"t") + struct.pack("<IQQIQ", 2, columns, rows, kind, 0)
    return head + bytes(-len(head) % 32) + data


def compare_values():
    random_bytes = np.random.default_rng(SEED)
    for kind, label, elements, size, unpack in block_types():
        count, wrong = 4096, 0
        blocks = random_bytes.integers(0, 256, (count, size), dtype=np.uint8)
        model = Model(one_tensor(kind, elements * 4, count // 4, blocks.tobytes()))
        if model.error:
            raise SystemExit(f"{label}: {model.error}")
        got = model.floats(next(model.tensors()))
        want = unpack(blocks).reshape(-1)
        same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
        wrong = int((~same).sum())
        print(f"values: {label:8} {got.size:8} elements, {wrong} differ")
        if wrong:
            raise SystemExit(1)
        model.close()


def write_and_compare_quantized(folder):
    """Compares files of the package's own writer, with realistic weights that it quantizes."""
    path = os.path.join(folder, "written.gguf")
    weights = np.random.default_rng(SEED).normal(0, 0.02, (16, 512)).astype(np.float32)
    writer = gguf.GGUFWriter(path, "llama")
    written = {}
    for kind in TYPES:
        try:
            data = gguf.quants.quantize(weights, kind)
        except NotImplementedError:
            continue
        if kind in (TYPES.F32, TYPES.F16):
            writer.add_tensor(kind.name, weights.astype(np.float16 if kind == TYPES.F16 else np.float32))
            written[kind.name] = weights.astype(np.float16).astype(np.float32) if kind == TYPES.F16 else weights
        else:
            writer.add_tensor(kind.name, data, raw_dtype=kind)
            written[kind.name] = dequantize(data, kind).astype(np.float32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = Model(open(path, "rb").read())
    if model.error:
        raise SystemExit(model.error)
    for tensor in model.tensors():
        if tuple(tensor.shape[:2]) != (16, 512) or not np.array_equal(
                model.floats(tensor).view(np.uint32), written[name_of(tensor)].reshape(-1).view(np.uint32)):
            raise SystemExit(f"{name_of(tensor)} differs")
    print(f"written by the package: {len(written)} tensors, all values equal")
    model.close()


# Metadata.

def random_value(rng, depth=0):
    """Returns (type, bytes of the value); arrays may be nested."""
    kind = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] if depth < 3 else [4, 8])
    return kind, value_bytes(rng, kind, depth)


def value_bytes(rng, kind, depth):
    if kind == 8:
        return text(rng.choice(["", "a", "zwei", "\u00fc\u4e2d", "x" * 300]).encode())
    if kind == 7:
        return bytes([rng.randrange(2)])
    if kind == 6:
        return struct.pack("<f", rng.choice([0.0, 1e-5, -3.5, 3e38]))
    if kind == 12:
        return struct.pack("<d", rng.choice([0.0, 0.1, -1e300]))
    if kind != 9:
        return rng.randbytes(np.dtype(NUMBERS[kind]).itemsize)
    inner = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12] + ([9] if depth < 2 else []))
    count = rng.randrange(1, 5)
    return struct.pack("<IQ", inner, count) + b"".join(value_bytes(rng, inner, depth + 1) for _ in range(count))


def nested(rng, kind, depth, count):
    """Returns `depth` nested arrays of `count` values of this type; with depth 0, one value."""
    if depth == 0:
        return value_bytes(rng, kind, 3)
    inner = kind if depth == 1 else 9
    return struct.pack("<IQ", inner, count) + b"".join(nested(rng, kind, depth - 1, count) for _ in range(count))


def compare_metadata(folder):
    """Compares every type alone, in an array, and in nested arrays, of 0, 1 and more elements."""
    rng, path = random.Random(SEED), os.path.join(folder, "metadata.gguf")
    pairs = []
    for kind in [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]:
        for depth in range(4):
            for count in (0, 1, 3) if depth else (1,):
                key = text(b"type.%d.depth.%d.count.%d" % (kind, depth, count))
                pairs.append(key + struct.pack("<I", 9 if depth else kind) + nested(rng, kind, depth, count))
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)
    data += bytes(-len(data) % 32)
    with open(path, "wb") as out:
        out.write(data)
    model, theirs = Model(data), package_sees(path)[1]
    if model.error:
        raise SystemExit(model.error)
    ours = model.metadata()
    for key in theirs.keys() | ours.keys():
        if not equal_fields(ours.get(key), theirs.get(key)):
            raise SystemExit(f"{key}: {ours.get(key)} here, {theirs.get(key)} there")
    print(f"metadata: {len(ours)} pairs of every type, up to three arrays deep, all equal")
    model.close()


def base_file(rng):
    """Returns a small valid file: a few keys, a few tensors of several types."""
    pairs = [text(b"key.%d" % i) + struct.pack("<I", kind) + raw
             for i, (kind, raw) in enumerate(random_value(rng) for _ in range(rng.randrange(5)))]
    alignment = 32
    if rng.random() < 0.3:
        alignment = rng.choice([8, 16, 64])
        pairs.append(text(b"general.alignment") + struct.pack("<II", 4, alignment))
    rows, data = [], b""
    for i in range(rng.randrange(4)):
        kind, elements, size = rng.choice([(0, 1, 4), (1, 1, 2), (2, 32, 18), (8, 32, 34), (14, 256, 210), (24, 1, 1)])
        dims = [elements * rng.randrange(1, 3)] + [rng.randrange(1, 3) for _ in range(rng.randrange(3))]
        rows.append(text(b"t.%d" % i) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims) +
                    struct.pack("<IQ", kind, len(data)))
        raw = int(np.prod(dims)) // elements * size
        data += bytes(raw) + bytes(-raw % alignment)
    head = b"GGUF" + struct.pack("<IQQ", rng.choice([2, 3]), len(rows), len(pairs)) + b"".join(pairs + rows)
    return head, bytes(-len(head) % alignment) + data


NUMBERS_THAT_HURT = [0, 1, 2, 4, 5, 7, 8, 9, 12, 13, 31, 32, 33, 255, 2**16, 2**31, 2**32 - 1, 2**32, 2**62, 2**63,
                     2**64 - 1]


def mutate(rng, head):
    head = bytearray(head)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        at = rng.randrange(4, len(head))
        how = rng.randrange(5)
        if how == 0:
            head[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            head[at] = rng.choice([0, 1, 2, 8, 9, 0x7f, 0x80, 0xff])
        elif how == 2:
            width = rng.choice([4, 8])
            head[at:at + width] = (rng.choice(NUMBERS_THAT_HURT) & (256**width - 1)).to_bytes(width, "little")
        elif how == 3:
            del head[at:at + rng.randrange(1, 9)]
        else:
            head[at:at] = rng.randbytes(rng.randrange(1, 9))
        if len(head) <= 8:
            break
    return bytes(head)


class TooLong(Exception):
    pass


def stop(*_):
    raise TooLong()


def ask_package(path, data):
    """Returns what the package sees; an exception that it raises is its verdict."""
    with open(path, "wb") as out:
        out.write(data)
    try:
        signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
        try:
            return package_sees(path), None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except TooLong:
        return None, "takes too long"
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def rule(message):
    """Returns an error message without what is specific to the file."""
    message = re.sub(r'^memory: |"(\\.|[^"\\])*"|at offset.*', "", message)
    return re.sub(r"\d+|0x[0-9a-f]+", "N", message).strip()[:90]


def equal_fields(ours, theirs):
    return repr(ours) == repr(theirs)  # so that NaN equals NaN


def compare_headers(folder):
    rng = random.Random(SEED)
    path = os.path.join(folder, "case.gguf")
    verdicts, only_we, only_they = collections.Counter(), collections.Counter(), collections.Counter()
    signal.signal(signal.SIGPROF, stop)
    for case in range(CASES):
        head, data = base_file(rng)
        whole = case % 20 == 0  # these are not mutated
        file = (head if whole else mutate(rng, head)) + data
        model = Model(file)
        theirs, why = ask_package(path, file)
        verdicts[(model.error is None, theirs is not None)] += 1
        if model.error is None and theirs:
            if seen(model) != theirs[0] or not equal_fields(model.metadata(), theirs[1]):
                print(f"case {case}: contents differ\n{seen(model)}\n{theirs[0]}\n{model.metadata()}\n{theirs[1]}")
                raise SystemExit(1)
        elif model.error is None:
            only_we[rule(why)] += 1
        elif theirs:
            only_they[rule(model.error)] += 1
        if whole and (model.error or not theirs):
            raise SystemExit(f"case {case}: a good file is refused: {model.error} / {why}")
        if model.error is None:
            model.close()
    print(f"headers: {CASES} cases; both take {verdicts[True, True]}, both refuse {verdicts[False, False]}, "
          f"only tenmap takes {verdicts[True, False]}, only the package takes {verdicts[False, True]}")
    for label, names in (("refused by the package alone", only_we), ("refused by tenmap alone", only_they)):
        for name, count in names.most_common():
            print(f"  {label}: {count:6}  {name}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        if os.environ.get("TENMAP_GGUF_HEADERS_ONLY") != "1":
            compare_values()
            write_and_compare_quantized(work)
            compare_metadata(work)
        compare_headers(work)
