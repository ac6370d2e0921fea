"""safetensors.tensorflow: dicts of TensorFlow arrays, saved and loaded by way of numpy."""

from . import numpy, safe_open  # noqa: F401
from ._frameworks import from_numpy, to_numpy
from ._open import load_all, load_bytes


def _np2tf(numpy_dict):
    return {name: from_numpy("tensorflow", array) for name, array in numpy_dict.items()}


def _tf2np(tf_dict):
    return {name: to_numpy("tensorflow", tensor) for name, tensor in tf_dict.items()}


def save(tensors, metadata=None):
    """The bytes of a file with these arrays."""
    return numpy.save(_tf2np(tensors), metadata=metadata)


def save_file(tensors, filename, metadata=None):
    """Writes these arrays to a file, which appears whole or not at all."""
    numpy.save_file(_tf2np(tensors), filename, metadata=metadata)


def load(data):
    """The arrays of a file that is given as bytes."""
    return load_bytes(data, "tensorflow")


def load_file(filename, *, backend="mmap"):
    """The arrays of a file."""
    return load_all(filename, "tensorflow", backend=backend)
