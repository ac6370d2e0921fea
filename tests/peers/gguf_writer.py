"""Compares GGUF files that tenmap writes and edits with the package gguf:
gguf_writer.py LIBTENMAP.so [MODELS [EDITS [SEED]]]

Writes MODELS (200) generated models with both, which must give the same bytes: metadata of every
type, nested arrays excepted, since the package does not write them; tensors of every dtype that it
writes; several alignments. Then makes EDITS (1,000) random edits of metadata and names, in place and
by new files. After each, GGUFReader must see the edited pairs in their order, and the tensors
unchanged. Exits with 77 and says why if gguf or numpy is missing.
"""
import ctypes
import os
import random
import struct
import sys
import tempfile

import peer

peer.hand_over()
try:
    import gguf
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; pip install gguf, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

LIB = ctypes.CDLL(sys.argv[1])
MODELS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
EDITS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
CSTR = ctypes.c_size_t(-1)
VALUE = gguf.GGUFValueType
FORMATS = {VALUE.UINT8: "<B", VALUE.INT8: "<b", VALUE.UINT16: "<H", VALUE.INT16: "<h",
           VALUE.UINT32: "<I", VALUE.INT32: "<i", VALUE.FLOAT32: "<f", VALUE.BOOL: "<?",
           VALUE.UINT64: "<Q", VALUE.INT64: "<q", VALUE.FLOAT64: "<d"}
PLAIN = {"F32": (18, np.float32), "F16": (14, np.float16), "F64": (20, np.float64), "I8": (6, np.int8),
         "I16": (12, np.int16), "I32": (16, np.int32), "I64": (21, np.int64)}
BLOCKS = [gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0,
          gguf.GGMLQuantizationType.Q6_K, gguf.GGMLQuantizationType.IQ4_XS]
TO_BLOCKS = 62  # ggml's number of a block type plus this is our dtype


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("os_error", ctypes.c_int32), ("shard", ctypes.c_uint32),
                ("remedy", ctypes.c_uint32), ("offset", ctypes.c_uint64), ("index", ctypes.c_uint64),
                ("message", ctypes.c_char * 480)]


class Value(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("element_type", ctypes.c_uint32), ("count", ctypes.c_uint64),
                ("raw", ctypes.c_char_p), ("raw_bytes", ctypes.c_uint64)]


class WriterOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("data_alignment", ctypes.c_uint32),
                ("header_slack", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("format", ctypes.c_uint32)]


class Edit(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("key_len", ctypes.c_size_t), ("value", ctypes.c_char_p),
                ("value_len", ctypes.c_size_t), ("typed", ctypes.POINTER(Value))]


class EditOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class Renaming(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("name_len", ctypes.c_size_t), ("new_name", ctypes.c_char_p),
                ("new_name_len", ctypes.c_size_t)]


LIB.tenmap_writer_write.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_char_p,
                                    ctypes.c_size_t, ctypes.c_void_p]
LIB.tenmap_edit_metadata.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                     ctypes.c_void_p, ctypes.c_void_p]
LIB.tenmap_rename.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                              ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]


def check(status, error):
    if status:
        sys.exit(f"refused: {error.message.decode()}")


def value_of(kind, content):
    """A tenmap_value; for an array, `content` is (element type, list)."""
    if kind == VALUE.STRING:
        raw = content.encode()
        return Value(kind, kind, 1, raw, len(raw))
    if kind == VALUE.ARRAY:
        element, items = content
        raw = b"".join(struct.pack("<Q", len(i.encode())) + i.encode() if element == VALUE.STRING
                       else struct.pack(FORMATS[element], i) for i in items)
        return Value(kind, element, len(items), raw, len(raw))
    raw = struct.pack(FORMATS[kind], content)
    return Value(kind, kind, 1, raw, len(raw))


def random_scalar(rng, kind):
    if kind == VALUE.STRING:
        return "".join(rng.choice("aä€𝄞 \n\"b") for _ in range(rng.randrange(12)))
    if kind == VALUE.BOOL:
        return rng.random() < 0.5
    if kind in (VALUE.FLOAT32, VALUE.FLOAT64):
        return struct.unpack("<f", struct.pack("<f", rng.uniform(-9, 9)))[0]
    size = struct.calcsize(FORMATS[kind])
    return struct.unpack(FORMATS[kind], rng.randbytes(size))[0]


def random_pair(rng):
    kind = rng.choice(list(VALUE))
    if kind != VALUE.ARRAY:
        return kind, random_scalar(rng, kind)
    element = rng.choice([k for k in VALUE if k != VALUE.ARRAY])
    return kind, (element, [random_scalar(rng, element) for _ in range(rng.randrange(1, 40))])


def random_tensor(rng):
    """The dtype, ggml's type, the shape and the bytes."""
    shape = [rng.randrange(1, 5) for _ in range(rng.randrange(1, 5))]
    if rng.random() < 0.3:
        kind = rng.choice(BLOCKS)
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        shape[-1] *= elements
        count = int(np.prod(shape))
        return TO_BLOCKS + int(kind), kind, shape, rng.randbytes(count // elements * size)
    name = rng.choice(list(PLAIN))
    dtype, numpy_type = PLAIN[name]
    return dtype, gguf.GGMLQuantizationType[name], shape, rng.randbytes(
        int(np.prod(shape)) * np.dtype(numpy_type).itemsize)


def random_model(rng):
    pairs = {"general.architecture": (VALUE.STRING, "llama")}
    for i in range(rng.randrange(8)):
        pairs[f"key.{i}"] = random_pair(rng)
    tensors = {f"blk.{i}.w": random_tensor(rng) for i in range(rng.randrange(1, 6))}
    return pairs, tensors, rng.choice([0, 0, 8, 32, 64, 4096])


def write_ours(path, model, slack=0):
    pairs, tensors, alignment = model
    error, writer = Error(), ctypes.c_void_p()
    options = WriterOptions(ctypes.sizeof(WriterOptions), alignment, slack, 0, 1)
    check(LIB.tenmap_writer_create(path.encode(), ctypes.byref(options), ctypes.byref(writer),
                                   ctypes.byref(error)), error)
    for key, (kind, content) in pairs.items():
        value = value_of(kind, content)
        if kind == VALUE.ARRAY and content[0] == VALUE.STRING:
            texts = [t.encode() for t in content[1]]
            check(LIB.tenmap_writer_strings(
                writer, key.encode(), CSTR, (ctypes.c_char_p * len(texts))(*texts),
                (ctypes.c_size_t * len(texts))(*map(len, texts)), ctypes.c_uint64(len(texts)),
                ctypes.byref(error)), error)
        else:
            check(LIB.tenmap_writer_value(writer, key.encode(), CSTR, ctypes.byref(value),
                                          ctypes.byref(error)), error)
    if alignment not in (0, 32):
        value = value_of(VALUE.UINT32, alignment)
        check(LIB.tenmap_writer_value(writer, b"general.alignment", CSTR, ctypes.byref(value),
                                      ctypes.byref(error)), error)
    ids = []
    for name, (dtype, _, shape, _) in tensors.items():
        number = ctypes.c_size_t()
        check(LIB.tenmap_writer_add(writer, name.encode(), CSTR, dtype,
                                    (ctypes.c_uint64 * len(shape))(*shape), len(shape),
                                    ctypes.byref(number), ctypes.byref(error)), error)
        ids.append(number.value)
    for number, (_, _, _, data) in zip(ids, tensors.values()):
        check(LIB.tenmap_writer_write(writer, number, 0, data, len(data), ctypes.byref(error)), error)
    check(LIB.tenmap_writer_commit(writer, ctypes.byref(error)), error)


def write_theirs(path, model):
    pairs, tensors, alignment = model
    writer = gguf.GGUFWriter(path, "llama")
    for key, (kind, content) in pairs.items():
        if key == "general.architecture":
            continue
        if kind == VALUE.ARRAY:
            writer.add_key_value(key, content[1], kind, sub_type=content[0])
        else:
            writer.add_key_value(key, content, kind)
    if alignment not in (0, 32):
        writer.add_custom_alignment(alignment)
    for name, (_, kind, shape, data) in tensors.items():
        flat = np.frombuffer(data, np.uint8)
        if kind.name in PLAIN:
            writer.add_tensor(name, flat.view(PLAIN[kind.name][1]).reshape(shape))
        else:
            writer.add_tensor(name, flat.reshape([*shape[:-1], -1]), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def compare_files(folder, rng):
    for number in range(MODELS):
        model = random_model(rng)
        ours, theirs = os.path.join(folder, "ours.gguf"), os.path.join(folder, "theirs.gguf")
        write_ours(ours, model)
        write_theirs(theirs, model)
        if bytes_of(ours) != bytes_of(theirs):
            sys.exit(f"seed {SEED}, model {number}: the files differ")
    print(f"{MODELS} models: the same bytes as the package writes")


def seen_by_reader(path):
    """Pairs with their parts, and tensors with their bytes, as GGUFReader has them."""
    reader = gguf.GGUFReader(path)
    pairs = {}
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "tenmap.padding":
            continue
        pairs[name] = ([int(t) for t in field.types], field.contents())
    return pairs, {t.name: (int(t.tensor_type), [int(n) for n in t.shape], t.data.tobytes())
                   for t in reader.tensors}


def expected(pairs, alignment):
    out = {}
    for key, (kind, content) in pairs.items():
        if kind == VALUE.ARRAY:
            out[key] = ([int(kind), int(content[0])], content[1])
        else:
            out[key] = ([int(kind)], content)
    if alignment not in (0, 32):
        out["general.alignment"] = ([int(VALUE.UINT32)], alignment)
    return out


def one_edit(path, rng, pairs, tensors, ways):
    """Makes one random edit of the file and of what describes it."""
    error, how = Error(), ctypes.c_uint32()
    edits, kept = [], []
    for _ in range(rng.randrange(1, 4)):
        key = rng.choice([f"key.{i}" for i in range(10)])
        if rng.random() < 0.3:
            edits.append(Edit(key.encode(), CSTR, None, 0, None))
            pairs.pop(key, None)
            continue
        kind, content = random_pair(rng)
        kept.append(value_of(kind, content))
        edits.append(Edit(key.encode(), CSTR, None, 0, ctypes.pointer(kept[-1])))
        pairs[key] = (kind, content)
    array = (Edit * len(edits))(*edits)
    options = EditOptions(ctypes.sizeof(EditOptions), rng.choice([0, 0, 0, 1, 3]), 0)
    rest = [len(array), ctypes.byref(options), ctypes.byref(how), ctypes.byref(error)]
    if rng.random() < 0.3:
        old = rng.choice(list(tensors))
        new = "blk." + "x" * rng.randrange(1, 50)
        if new in tensors and new != old:
            new = old
        renaming = Renaming(old.encode(), CSTR, new.encode(), CSTR)
        check(LIB.tenmap_rename(path.encode(), ctypes.byref(renaming), 1, array, *rest), error)
        for name in list(tensors):  # the order stays
            tensors[new if name == old else name] = tensors.pop(name)
    else:
        check(LIB.tenmap_edit_metadata(path.encode(), array, *rest), error)
    ways[how.value] += 1


def compare_edits(folder, rng):
    path, ways, made = os.path.join(folder, "edited.gguf"), {1: 0, 2: 0, 3: 0}, 0
    while made < EDITS:
        pairs, tensors, alignment = model = random_model(rng)
        write_ours(path, model, slack=rng.choice([0, 1, 500]))
        before = seen_by_reader(path)[1]
        for _ in range(20):
            one_edit(path, rng, pairs, before, ways)
            made += 1
            seen, after = seen_by_reader(path)
            wanted = expected(pairs, alignment)
            if seen != wanted or after != before:
                print(wanted, seen, sep="\n")
                sys.exit(f"seed {SEED}, edit {made}: the reader sees something else")
            if [k for k in seen if k != "general.alignment"] != list(pairs):
                sys.exit(f"seed {SEED}, edit {made}: the pairs have another order")
    print(f"{made} edits: {ways[1]} in place, {ways[2]} cloned, {ways[3]} copied; "
          "the package's reader sees each")


with tempfile.TemporaryDirectory() as scratch:
    compare_files(scratch, random.Random(SEED))
    compare_edits(scratch, random.Random(SEED + 1))
