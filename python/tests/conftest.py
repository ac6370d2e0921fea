"""Models that the tests share, and which of numpy's packages are installed."""

import importlib.util
import os
import sys

import numpy
import pytest

import tenmap
from tenmap import _core
from tenmap._dtypes import numpy_dtype

ml_dtypes = pytest.importorskip("ml_dtypes")



def library_bits():
    """Returns the bits of every dtype that the library has, by name."""
    bits, code = {}, 1
    while _core.dtype_bits(code):
        bits[_core.dtype_name(code)] = _core.dtype_bits(code)
        code += 1
    return bits


# Every dtype, by its numpy or ml_dtypes type.
DTYPES = {name: numpy_dtype(name) for name in library_bits()}
SUB_BYTE = {name: bits for name, bits in library_bits().items() if bits < 8}


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
