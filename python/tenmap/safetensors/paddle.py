"""safetensors.paddle: dicts of Paddle arrays, saved and loaded by way of numpy."""

from . import TensorSpec, deserialize, numpy, safe_open, serialize, serialize_file  # noqa: F401
from ._frameworks import from_numpy, to_numpy
from ._open import load_all, load_bytes


def _np2paddle(numpy_dict, device="cpu"):
    return {name: from_numpy("paddle", array, None if device == 'cpu' else device) for name, array in numpy_dict.items()}


def _paddle2np(paddle_dict):
    return {name: to_numpy("paddle", tensor) for name, tensor in paddle_dict.items()}


def save(tensors, metadata=None):
    """The bytes of a file with these arrays."""
    return numpy.save(_paddle2np(tensors), metadata=metadata)


def save_file(tensors, filename, metadata=None):
    """Writes these arrays to a file, which appears whole or not at all."""
    numpy.save_file(_paddle2np(tensors), filename, metadata=metadata)


def load(data, device="cpu"):
    """The arrays of a file that is given as bytes."""
    loaded = load_bytes(data, "paddle")
    return loaded if device == "cpu" else _np2paddle(_paddle2np(loaded), device)


def load_file(filename, device="cpu", *, backend="mmap"):
    """The arrays of a file."""
    return load_all(filename, "paddle", device, backend)
