"""Compares tenmap_quantize with the package gguf, byte for byte: gguf_quantize.py LIBTENMAP.so

Values of many distributions and magnitudes, zeros, constants, powers of two and their neighbors,
ties between codes. Exits with 77 and says why if gguf or numpy is missing.
"""
import ctypes
import sys

import peer

peer.hand_over()
try:
    import gguf
    import numpy as np
    from gguf.quants import quantize
except ImportError as error:
    print(f"skipped: {error}; pip install gguf, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

np.seterr(all="ignore")
LIB = ctypes.CDLL(sys.argv[1])
TO_BLOCKS = 62  # ggml's number of a block type plus this is our dtype
NAMES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]
LIB.tenmap_quantize.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32,
                                ctypes.c_void_p]


def ours(kind, values):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    values = np.ascontiguousarray(values)
    out = np.empty(values.size // elements * size, np.uint8)
    status = LIB.tenmap_quantize(TO_BLOCKS + int(kind), out.ctypes.data, out.size, values.ctypes.data,
                                 values.shape[0], values.shape[1], None, 0, None)
    return out if status == 0 else sys.exit(f"{kind.name}: status {status}")


def matrices(rng):
    """Names and matrices of rows of 512 elements."""
    shape = (64, 512)
    normal = rng.standard_normal(shape)
    yield "normal", normal * 0.02
    yield "heavy tails", rng.standard_t(2, shape) * 0.01
    for power in (-20, -12, -6, 4, 10, 13):
        yield f"times 2^{power}", normal * 2.0**power
    yield "positive", np.abs(normal) + 0.5
    yield "zeros", np.zeros(shape)
    yield "constant", np.full(shape, 0.37)
    yield "whole numbers", rng.integers(-127, 128, shape)
    yield "halves", rng.integers(-16, 17, shape) / 2
    yield "few levels", rng.choice([-1.0, -0.5, 0.5, 1.0, 3.0], shape)
    sparse = normal.copy()
    sparse[rng.random(shape) < 0.95] = 0
    yield "sparse", sparse


def near_powers(rng):
    """Rows of one power of two, a few steps of F32 around it, and smaller values."""
    rows = []
    for power in range(-14, 15):
        for steps in range(-8, 9):
            bits = np.float32(2.0**power).view(np.int32) + np.int32(steps)
            row = rng.uniform(-1, 1, 256).astype(np.float32) * np.float32(2.0**power) / 2
            row[::32] = bits.view(np.float32)
            rows.append(row)
    return np.array(rows)


generator = np.random.default_rng(1)
compared = 0
cases = [(name, m.astype(np.float32)) for _ in range(4) for name, m in matrices(generator)]
cases.append(("near powers of two", near_powers(generator)))
for name in NAMES:
    kind = gguf.GGMLQuantizationType[name]
    for what, values in cases:
        theirs = quantize(values, kind).ravel()
        if not np.array_equal(ours(kind, values), theirs):
            sys.exit(f"{name}, {what}: the bytes differ")
        compared += values.size
print(f"{compared} values of {len(NAMES)} dtypes: the bytes of the package gguf")
