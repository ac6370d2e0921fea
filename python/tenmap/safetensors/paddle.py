"""safetensors.paddle: dicts of Paddle arrays, saved and loaded by way of numpy."""

from . import numpy as _numpy
from ._frameworks import to_numpy
from ._open import load_all, load_bytes


def _arrays(tensors):
    return {name: to_numpy("paddle", tensor) for name, tensor in tensors.items()}


def save(tensors, metadata=None):
    """The bytes of a file with these arrays."""
    return _numpy.save(_arrays(tensors), metadata=metadata)


def save_file(tensors, filename, metadata=None):
    """Writes these arrays to a file, which appears whole or not at all."""
    _numpy.save_file(_arrays(tensors), filename, metadata=metadata)


def load(data):
    """The arrays of a file that is given as bytes."""
    return load_bytes(data, "paddle")


def load_file(filename, device="cpu", *, backend="mmap"):
    """The arrays of a file."""
    return load_all(filename, "paddle", device, backend)
