"""Compares `tenmap stats --details` with numpy: python3 details_numpy.py TENMAP

Percentiles, positions of extreme values and of the first NaN, dead rows and columns, and outliers
by row and column, for dtypes that take one to four passes, for shapes of one to five axes, for
tensors of more than one piece, and for a dequantized weight.
"""
import json
import os
import subprocess
import sys
import tempfile

import peer

peer.hand_over()
try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; pip install numpy, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

TOOL = os.path.abspath(sys.argv[1])
STDS, WORST = 6, 3
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U16": "<u2", "I8": "i1",
         "BOOL": "?"}


def write(path, tensors):
    """Writes {name: (dtype, array)}; BF16 and F8_E4M3 arrays hold codes."""
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        bytes_ = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def bf16(array):
    """Returns the codes of values cut to BF16, and the values."""
    codes = (array.astype("<f4").view("<u4") >> 16).astype("<u2")
    return codes, (codes.astype("<u4") << 16).view("<f4").reshape(array.shape)


def lines_of(x, far, name):
    """Returns what a survey says about the rows of a matrix."""
    dead = (x == x[:, :1]).all(axis=1) & np.isfinite(x[:, 0])
    zero = dead & (x[:, 0] == 0)
    outliers = far.sum(axis=1)
    order = sorted(range(len(x)), key=lambda i: (-outliers[i], i))
    expected = {"count": x.shape[0], "length": x.shape[1], "zero": int(zero.sum()),
                "constant": int((dead & ~zero).sum()),
                "most_outliers": [{"index": i, "outliers": int(outliers[i])} for i in order[:WORST]
                                  if outliers[i]]}
    if dead.any():
        expected["first_dead"] = int(np.argmax(dead))
    return expected


def compare(name, array, got):
    """Compares one tensor's details with what numpy computes from float64."""
    x = np.asarray(array).astype(np.float64)
    finite = np.isfinite(x)
    values = x[finite]
    for percent, value in got["percentiles"].items():
        if values.size == 0:
            assert value is None, name
            continue
        expected = np.percentile(values, float(percent))
        spread = max(abs(expected), np.abs(values).max() * 1e-3)
        assert abs(value - expected) <= 1e-12 * spread, (name, percent, value, expected)
    places = {"min_at": np.where(finite, x, np.inf), "max_at": np.where(finite, -x, np.inf),
              "first_nan": np.where(np.isnan(x), 0, 1), "first_infinity": np.where(np.isinf(x), 0, 1)}
    for key, keyed in places.items():
        there = values.size if key.endswith("at") else (keyed == 0).any()
        expected = [int(i) for i in np.unravel_index(np.argmin(keyed), x.shape)] if there else None
        assert got.get(key) == expected, (name, key, got.get(key), expected)
    mean, std = (values.mean(), values.std()) if values.size else (0, 0)
    far = finite & (np.abs(np.where(finite, x, mean) - mean) > STDS * std)
    assert got["outliers"] == far.sum(), (name, got["outliers"], far.sum())
    if x.ndim < 2:
        assert "rows" not in got and "columns" not in got, name
        return
    shape = (x.shape[0], -1) if x.ndim > 3 else (-1, x.shape[-1])
    matrix, far = x.reshape(shape), far.reshape(shape)
    if min(matrix.shape) < 2:
        assert "rows" not in got and "columns" not in got, name
        return
    assert got["rows"] == lines_of(matrix, far, name), (name, got["rows"])
    assert got["columns"] == lines_of(matrix.T, far.T, name), (name, got["columns"])


def planted(random, shape):
    """Returns normal values with dead rows and columns, and outliers that gather in one of each."""
    x = random.standard_normal(shape)
    if x.ndim == 2 and min(shape) > 8:
        x[3, ::2] *= 40
        x[::3, 5] += 30
        x[6] = 0
        x[7] = -0.25
        x[:, 1] = 0
        x[:, 2] = x[0, 2]
        x[7, 1:3] = -0.25
    return x


def models(random):
    """Yields the tensors as stored, and as numpy sees them."""
    stored, seen = {}, {}

    def add(name, dtype, array, values=None):
        stored[name] = (dtype, array)
        seen[name] = array if values is None else values

    for shape in [(1,), (2,), (1001,), (9, 9), (40, 50), (5, 6, 7), (4, 3, 3, 3), (3, 2, 2, 2, 2), (9, 1),
                  (1, 9), (1500, 1000), (3, 700000)]:
        x = planted(random, shape)
        label = "x".join(map(str, shape))
        for dtype in ("F64", "F32", "F16"):
            add(f"{dtype} {label}", dtype, x.astype(TYPES[dtype]))
        codes, values = bf16(x)
        add(f"BF16 {label}", "BF16", codes, values)
        for dtype in ("I64", "I32", "U16", "I8"):
            scaled = np.clip(np.abs(x) * 20, 0, 100).astype(TYPES[dtype])
            add(f"{dtype} {label}", dtype, scaled)
    odd = planted(random, (30, 20)).astype("<f4")
    odd[2, 3], odd[4, 0], odd[9] = np.nan, -np.inf, np.nan
    odd[12, :] = np.inf
    add("odd", "F32", odd)
    add("only NaN", "F32", np.full((3, 4), np.nan, "<f4"))
    add("zeros", "F32", np.array([[0.0, -0.0], [-0.0, 0.0]], "<f4"))
    add("signs", "F64", np.array([-0.0, 0.0, 5e-324, -5e-324, 1e150, -1e150], "<f8"))
    add("large", "I64", random.integers(-2**62, 2**62, (50, 40)))
    add("mask", "BOOL", random.random((20, 10)) < 0.5)
    return stored, seen


def details(*arguments):
    """Returns the details by name."""
    text = subprocess.run([TOOL, "stats", "--details", "--json", *arguments], check=True,
                          capture_output=True).stdout
    return {tensor["name"]: tensor["details"] for tensor in json.loads(text)["tensors"]}


def main():
    random = np.random.default_rng(14)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        stored, seen = models(random)
        write("m.safetensors", stored)
        got = details("m.safetensors")
        assert got == details("-j", "1", "m.safetensors")
        for name, array in seen.items():
            compare(name, array, got[name])
        codes = random.integers(0, 0x7F, (256, 256)).astype("u1")
        codes[17] = 0
        write("q.safetensors", {"x.weight": ("F8_E4M3", codes), "x.weight_scale_inv":
                                ("F32", np.array([[0.5, 2], [1, 0.25]], "<f4"))})
        subprocess.run([TOOL, "get", "--dequantize", "q.safetensors", "x.weight", "-o", "x.npy"], check=True)
        compare("dequantized", np.load("x.npy"), details("--dequantize", "q.safetensors")["x.weight"])
    print(f"{len(seen) + 1} tensors agree with numpy")


main()
