"""Compares files with those of the reference, byte for byte: write_python.py LIBTENMAP.so

Generates models (names with every kind of character, all dtypes that numpy has, scalars, empty
tensors, at most one metadata entry), writes each with the Python package and with tenmap, with the
tensors declared in another order, and compares the bytes. Exits with 77 and says why if the package
is missing.
"""
import ctypes
import os
import random
import sys
import tempfile

import peer

MODELS = 400
peer.hand_over()
try:
    import numpy as np
    import safetensors
    from safetensors.numpy import save
except ImportError as error:
    print(f"skipped: {error}; pip install numpy safetensors, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

DTYPES = {"BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
          "F16": np.float16, "I32": np.int32, "U32": np.uint32, "F32": np.float32,
          "F64": np.float64, "I64": np.int64, "U64": np.uint64}
try:
    save({"t": np.zeros(1, np.complex64)})
    DTYPES["C64"] = np.complex64
except Exception:  # older releases have no complex numbers
    pass
LETTERS = ([chr(c) for c in range(128)] + list("äöüß€𝄞漢字\u2028\u00a0\ufeff") +
           list("abcdefghijklmnop.0123456789_") * 4)


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("os_error", ctypes.c_int32), ("shard", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("offset", ctypes.c_uint64),
                ("index", ctypes.c_uint64), ("message", ctypes.c_char * 480)]


LIB = ctypes.CDLL(sys.argv[1])
IDS = peer.dtype_values(LIB)
LIB.tenmap_writer_write.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64,
                                    ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]


def check(status, error):
    if status:
        sys.exit(f"refused: {error.message.decode()}")


def write(path, tensors, metadata, order):
    error, writer = Error(), ctypes.c_void_p()
    check(LIB.tenmap_writer_create(path.encode(), None, ctypes.byref(writer), ctypes.byref(error)),
          error)
    for key, value in (metadata or {}).items():
        k, v = key.encode(), value.encode()
        check(LIB.tenmap_writer_metadata(writer, k, ctypes.c_size_t(len(k)), v,
                                         ctypes.c_size_t(len(v)), ctypes.byref(error)), error)
    ids = {}
    for name in order:
        dtype, array = tensors[name]
        raw, number = name.encode(), ctypes.c_size_t()
        shape = (ctypes.c_uint64 * max(1, array.ndim))(*array.shape)
        check(LIB.tenmap_writer_add(writer, raw, ctypes.c_size_t(len(raw)), IDS[dtype], shape,
                                    array.ndim, ctypes.byref(number), ctypes.byref(error)), error)
        ids[name] = number.value
    for name in reversed(order):
        data = tensors[name][1].tobytes()
        check(LIB.tenmap_writer_write(writer, ids[name], 0, data, len(data), ctypes.byref(error)),
              error)
    check(LIB.tenmap_writer_commit(writer, ctypes.byref(error)), error)


def main():
    rng = random.Random(5)
    tensor_count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.safetensors")
        for number in range(MODELS):
            tensors = {}
            for _ in range(rng.randrange(0, 12)):
                name = "".join(rng.choice(LETTERS) for _ in range(rng.randrange(0, 20)))
                dtype = rng.choice(list(DTYPES))
                shape = [rng.randrange(0, 6) for _ in range(rng.randrange(0, 4))]
                size = int(np.prod(shape)) * np.dtype(DTYPES[dtype]).itemsize
                raw = bytes(rng.randrange(2 if dtype == "BOOL" else 256) for _ in range(size))
                tensors[name] = (dtype, np.frombuffer(raw, DTYPES[dtype]).reshape(shape))
            metadata = None
            if rng.random() < 0.5:
                text = lambda: "".join(rng.choice(LETTERS) for _ in range(rng.randrange(0, 30)))
                metadata = {text(): text()}
            order = list(tensors)
            rng.shuffle(order)
            expected = save({name: array for name, (_, array) in tensors.items()}, metadata)
            write(path, tensors, metadata, order)
            with open(path, "rb") as file:
                got = file.read()
            if got != expected:
                sys.exit(f"model {number} differs:\n{expected!r}\n{got!r}")
            tensor_count += len(tensors)
    print(f"{MODELS} models with {tensor_count} tensors: every byte as safetensors "
          f"{safetensors.__version__} writes it")


main()
