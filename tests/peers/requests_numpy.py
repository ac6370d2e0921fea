"""Compares tenmap_read_as and tenmap_load with numpy: bytes viewed as other dtypes, blocks, strided
rows.

    requests_numpy.py LIBRARY [REQUESTS [SEED]]

Tests every pair of numpy dtypes of equal or dividing width, and U8 as F4 and F6 unpacked by hand.
Then random requests (100,000 by default): a tensor, the dtype that its bytes are viewed as, a block
of up to four dimensions, a dtype to convert to, a stride, on the mapped and on the read backend,
many to a load, of two models at once. Each must equal numpy's view, slice, astype and strided
assignment. Exits with 77 if numpy or ml_dtypes is missing.
"""
import ctypes
import json
import os
import struct
import sys
import tempfile

import peer

peer.hand_over()
try:
    import ml_dtypes
    import numpy
except ImportError as missing:
    print("skipped: %s; pip install numpy ml_dtypes, or set TENMAP_PEERS_PYTHON" % missing)
    sys.exit(peer.SKIP)

c = ctypes
VALUE = peer.dtype_values(c.CDLL(sys.argv[1]))
NUMPY = {"U8": "<u1", "I8": "<i1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
         "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8", "BF16": ml_dtypes.bfloat16,
         "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3": ml_dtypes.float8_e4m3fn}
NUMPY = {name: numpy.dtype(kind) for name, kind in NUMPY.items()}
INTEGERS = [name for name in NUMPY if name[0] in "UI"]
FLOATS = [name for name in NUMPY if name[0] in "FB"]


class Request(c.Structure):
    _fields_ = [("tensor", c.c_void_p), ("begin", c.POINTER(c.c_uint64)), ("end", c.POINTER(c.c_uint64)),
                ("as_", c.c_uint32), ("flags", c.c_uint32), ("dst", c.c_void_p), ("dst_bytes", c.c_size_t),
                ("stored_as", c.c_uint32), ("reserved", c.c_uint32), ("dst_stride", c.c_uint64)]


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("backend", c.c_uint32), ("flags", c.c_uint32),
                ("threads", c.c_uint32), ("reserved", c.c_uint32), ("max_header_bytes", c.c_uint64),
                ("offset", c.c_uint64), ("length", c.c_uint64), ("io", c.c_void_p)]


class Error(c.Structure):
    _fields_ = [("head", c.c_uint8 * 32), ("message", c.c_char * 480)]


def library(path):
    lib = c.CDLL(path)
    lib.tenmap_find.restype = c.c_void_p
    lib.tenmap_find.argtypes = [c.c_void_p, c.c_char_p]
    lib.tenmap_open.argtypes = [c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p]
    lib.tenmap_load.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p]
    lib.tenmap_read_as.argtypes = [c.c_void_p, c.c_uint32, c.c_uint64, c.c_uint64, c.c_uint32, c.c_void_p,
                                   c.c_size_t, c.c_uint32, c.c_void_p]
    return lib


def write_model(path, random):
    """Writes tensors of every dtype and of one to four dimensions, the last of 96 bytes; returns
    their bytes by name."""
    header, data, tensors = {}, b"", {}
    for name, kind in NUMPY.items():
        for rank in range(1, 5):
            shape = [int(random.integers(1, 6)) for _ in range(rank - 1)] + [96 // kind.itemsize]
            raw = random.integers(0, 256, int(numpy.prod(shape)) * kind.itemsize, "u1")
            if name in FLOATS + ["C64"]:  # small numbers: NaN has its own rules and its own test
                values = random.standard_normal(int(numpy.prod(shape)) * (2 if name == "C64" else 1))
                raw = values.astype("f4" if name == "C64" else kind).view("u1")
            header["%s.%d" % (name, rank)] = {"dtype": name, "shape": shape,
                                              "data_offsets": [len(data), len(data) + raw.size]}
            tensors["%s.%d" % (name, rank)] = (name, raw.reshape(shape[:-1] + [96]))
            data += raw.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return tensors


def open_model(lib, path, backend):
    model, error, options = c.c_void_p(), Error(), Options(c.sizeof(Options), backend)
    assert lib.tenmap_open(path.encode(), c.byref(options), c.byref(model), c.byref(error)) == 0, error.message
    return model


def plain_bytes(raw, name):
    """Returns the bytes as an array; bytes that are viewed as floats are compared only by bits."""
    return numpy.ascontiguousarray(raw).view(NUMPY[name])


def same(got, expected):
    return got.tobytes() == numpy.ascontiguousarray(expected).tobytes()


def every_pair(lib, models, tensors):
    count = 0
    for key, (name, raw) in tensors.items():
        for stored in NUMPY:
            expected = plain_bytes(raw, stored)
            for model in models:
                got = numpy.empty(expected.shape, expected.dtype)
                status = lib.tenmap_read_as(lib.tenmap_find(model, key.encode()), VALUE[stored], 0, expected.size,
                                            0, got.ctypes.data, got.nbytes, 0, None)
                assert status == 0 and same(got, expected), (key, stored)
                count += 1
    return count


def packed_floats(lib, models, tensors):
    """F4 and F6 in bytes of U8: element i is at bit i * width of a little-endian stream."""
    kinds = {"F4": (4, ml_dtypes.float4_e2m1fn), "F6_E2M3": (6, ml_dtypes.float6_e2m3fn),
             "F6_E3M2": (6, ml_dtypes.float6_e3m2fn)}
    for key, (name, raw) in tensors.items():
        for stored, (width, kind) in kinds.items():
            bits = numpy.unpackbits(raw.reshape(-1), bitorder="little").reshape(-1, width)
            codes = (bits << numpy.arange(width, dtype="u1")).sum(1).astype("u1")
            expected = codes.view(kind).astype("<f4")
            for model in models:
                got = numpy.empty(expected.size, "<f4")
                assert lib.tenmap_read_as(lib.tenmap_find(model, key.encode()), VALUE[stored], 0, got.size,
                                          VALUE["F32"], got.ctypes.data, got.nbytes, 0, None) == 0
                assert same(got, expected), (key, stored)


def random_request(lib, models, tensors, random):
    """Returns a request, the expected destination, and the objects to keep alive."""
    key = str(random.choice(list(tensors)))
    name, raw = tensors[key]
    own = random.random() < 0.4
    stored = name if own else str(random.choice(list(NUMPY)))
    values = plain_bytes(raw, stored)
    # Numbers are converted only as numbers; bytes viewed as floats are compared by their bits.
    target = stored
    if own and name in FLOATS and random.random() < 0.7:
        target = str(random.choice(["F32", "F64"]))
    elif stored in INTEGERS and random.random() < 0.5:
        wider = [n for n in INTEGERS if NUMPY[n].itemsize > NUMPY[stored].itemsize and (n[0] == "I" or stored[0] == "U")]
        target = str(random.choice(wider)) if wider else stored
    whole = random.random() < 0.2
    begin = [int(random.integers(0, n)) for n in values.shape]
    end = [int(random.integers(b, n + 1)) for b, n in zip(begin, values.shape)]
    block = values if whole else values[tuple(slice(b, e) for b, e in zip(begin, end))]
    block = block.astype(NUMPY[target])
    row = block.shape[-1] * NUMPY[target].itemsize
    rows = block.size // block.shape[-1] if block.size else 0
    stride = 0 if random.random() < 0.3 else row + int(random.integers(0, 64))
    need = ((rows - 1) * (stride or row) + row) if rows else 0
    expected = random.integers(0, 256, need + 16, "u1")
    dst = expected.copy()
    for i, line in enumerate(block.reshape(rows, block.shape[-1]) if rows else []):
        at = i * (stride or row)
        expected[at:at + row] = line.view("u1")
    bounds = ((c.c_uint64 * len(begin))(*begin), (c.c_uint64 * len(end))(*end))
    model = models[int(random.integers(0, len(models)))]
    request = Request(lib.tenmap_find(model, key.encode()), None if whole else bounds[0], None if whole else bounds[1],
                      VALUE[target], 0, dst.ctypes.data, need, 0 if own else VALUE[stored], 0, stride)
    return request, dst, expected, bounds, (key, stored, target, begin, end, stride)


def main():
    lib, requests = library(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    random = numpy.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 14)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.safetensors")
        tensors = write_model(path, random)
        models = [open_model(lib, path, backend) for backend in (0, 1)]
        pairs = every_pair(lib, models, tensors)
        packed_floats(lib, models, tensors)
        done = 0
        while done < requests:
            batch = [random_request(lib, models, tensors, random) for _ in range(min(250, requests - done))]
            error = Error()
            status = lib.tenmap_load(None, (Request * len(batch))(*[b[0] for b in batch]), len(batch), None,
                                     c.byref(error))
            assert status == 0, error.message
            for _, dst, expected, _, what in batch:
                assert dst.tobytes() == expected.tobytes(), what
            done += len(batch)
    print("%d reads of one dtype as another and %d random requests are numpy's" % (pairs, done))


if __name__ == "__main__":
    main()
