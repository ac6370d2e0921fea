"""safetensors.numpy: dicts of numpy arrays, saved and loaded."""

import numpy as np

from .._arrays import source_of
from .._dtypes import TABLE, numpy_dtype
from . import TensorSpec, deserialize, safe_open, serialize, serialize_file  # noqa: F401
from ._open import load_all, load_bytes

# Those that numpy, and ml_dtypes if it is installed, have.
_TYPES = {}
for _name in TABLE:
    try:
        _TYPES[_name] = numpy_dtype(_name).type
    except (ImportError, TypeError):
        pass


def _getdtype(dtype_str):
    return _TYPES[dtype_str]


def _is_little_endian(tensor):
    return np.dtype(tensor.dtype).newbyteorder("<") == tensor.dtype


def _flatten(tensor_dict, keep_alive_buffer):
    """{name: TensorSpec} of arrays; the memory that they point to is appended to
    keep_alive_buffer."""
    specs = {}
    for name, tensor in tensor_dict.items():
        dtype = np.dtype(tensor.dtype)
        TensorSpec(dtype=dtype.name, shape=[], data_ptr=0, data_len=0)  # raises and names the dtype
        data = source_of(np.asarray(tensor)).data
        keep_alive_buffer.append(data)
        specs[name] = TensorSpec._of(dtype.name, np.shape(tensor), data, data.ctypes.data, data.nbytes)
    return specs


def save(tensor_dict, metadata=None):
    """The bytes of a file with these arrays."""
    kept = []
    return serialize(_flatten(tensor_dict, kept), metadata=metadata)


def save_file(tensor_dict, filename, metadata=None):
    """Writes these arrays to a file, which appears whole or not at all."""
    kept = []
    serialize_file(_flatten(tensor_dict, kept), filename, metadata=metadata)


def load(data):
    """The writable arrays of a file that is given as bytes."""
    return load_bytes(data, "numpy")


def load_file(filename, *, backend="mmap"):
    """The writable arrays of a file. They own their bytes, as those of the reference do: the file
    may be overwritten afterwards. tenmap.open(filename)[name].numpy() maps them instead."""
    return load_all(filename, "numpy", backend=backend)


def _view2np(safeview):
    return {
        name: np.frombuffer(entry["data"], dtype=_getdtype(entry["dtype"])).reshape(entry["shape"])
        for name, entry in safeview
    }
