"""safetensors.flax: dicts of Flax arrays, saved and loaded by way of numpy."""

from . import numpy, safe_open  # noqa: F401
from ._frameworks import from_numpy, to_numpy
from ._open import load_all, load_bytes


def _np2jnp(numpy_dict):
    return {name: from_numpy("flax", array) for name, array in numpy_dict.items()}


def _jnp2np(jnp_dict):
    return {name: to_numpy("flax", tensor) for name, tensor in jnp_dict.items()}


def save(tensors, metadata=None):
    """The bytes of a file with these arrays."""
    return numpy.save(_jnp2np(tensors), metadata=metadata)


def save_file(tensors, filename, metadata=None):
    """Writes these arrays to a file, which appears whole or not at all."""
    numpy.save_file(_jnp2np(tensors), filename, metadata=metadata)


def load(data):
    """The arrays of a file that is given as bytes."""
    return load_bytes(data, "flax")


def load_file(filename, *, backend="mmap"):
    """The arrays of a file."""
    return load_all(filename, "flax", backend=backend)
