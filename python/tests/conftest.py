"""Models that the tests share, and which of numpy's packages are installed."""

import importlib.util
import os
import sys

import numpy
import pytest

import tenmap

ml_dtypes = pytest.importorskip("ml_dtypes")

# Every dtype of the format, by its numpy or ml_dtypes type.
DTYPES = {
    "BOOL": numpy.dtype(bool),
    "F4": numpy.dtype(ml_dtypes.float4_e2m1fn),
    "F6_E2M3": numpy.dtype(ml_dtypes.float6_e2m3fn),
    "F6_E3M2": numpy.dtype(ml_dtypes.float6_e3m2fn),
    "U8": numpy.dtype("uint8"),
    "I8": numpy.dtype("int8"),
    "F8_E5M2": numpy.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": numpy.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E8M0": numpy.dtype(ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": numpy.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": numpy.dtype(ml_dtypes.float8_e5m2fnuz),
    "I16": numpy.dtype("int16"),
    "U16": numpy.dtype("uint16"),
    "F16": numpy.dtype("float16"),
    "BF16": numpy.dtype(ml_dtypes.bfloat16),
    "I32": numpy.dtype("int32"),
    "U32": numpy.dtype("uint32"),
    "F32": numpy.dtype("float32"),
    "C64": numpy.dtype("complex64"),
    "F64": numpy.dtype("float64"),
    "I64": numpy.dtype("int64"),
    "U64": numpy.dtype("uint64"),
}

SUB_BYTE = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


def random_array(name, shape, seed=0):
    """Returns random bits of a dtype that are valid for its elements."""
    generator = numpy.random.default_rng([seed, len(name), *map(ord, name)])
    dtype, count = DTYPES[name], int(numpy.prod(shape, dtype=numpy.int64))
    bits = generator.integers(0, 256, count * dtype.itemsize, dtype=numpy.uint8)
    if name == "BOOL":
        bits &= 1
    if name in SUB_BYTE:
        bits &= (1 << SUB_BYTE[name]) - 1
    return bits.view(dtype).reshape(shape)


def same(a, b):
    """Returns whether two arrays are equal to the bit, NaN included."""
    a, b = numpy.ascontiguousarray(a), numpy.ascontiguousarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.fixture(scope="session")
def arrays():
    return {name: random_array(name, (6, 5, 8)) for name in DTYPES}


@pytest.fixture(scope="session")
def path(arrays, tmp_path_factory):
    """One file with a tensor of every dtype, named after it."""
    path = tmp_path_factory.mktemp("model") / "all.safetensors"
    tenmap.save_file(arrays, path, {"format": "np", "greeting": "hello"})
    return path


@pytest.fixture
def model(path):
    with tenmap.open(path) as model:
        yield model


def needs(module):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


def resident_bytes():
    """Returns the resident size without the pages of libraries, which the system drops and reloads
    at any time."""
    with open("/proc/self/smaps") as file:
        total, library = 0, False
        for words in map(str.split, file):
            if not words[0].endswith(":"):  # a new mapping
                library = len(words) > 5 and (".so" in words[5] or words[5] == os.path.realpath(sys.executable))
            elif words[0] == ("Anonymous:" if library else "Rss:"):
                total += int(words[1]) * 1024
    return total


# A sanitizer delays the reuse of freed memory, and is slow.
unsanitized = pytest.mark.skipif("TENMAP_TEST_SANITIZED" in os.environ, reason="measures memory or time, which a sanitizer changes")
