"""The low-level functions: tensors by address, whole files as bytes."""

import os

from .. import _core
from .._dtypes import BITS, CODES, TABLE
from .._errors import Error
from .._model import open as open_model
from .._write import header


class SafetensorError(Exception):
    """Raised wherever safetensors raises it. The message is tenmap's."""


SafetensorError.__module__ = "tenmap.safetensors"

# The names that constructors accept: numpy's, and torch's for packed pairs.
_BY_NAME = {numpy_name: name for name, (numpy_name, _) in TABLE.items() if BITS[name] >= 8}
_BY_NAME["float4_e2m1fn_x2"] = "F4"
_SUPPORTED = ", ".join(sorted(_BY_NAME))
_REFERENCE_LAYOUT = (0, 0, 0)  # alignment, slack and flags: as the reference writes


def _typed(value, kind, argument):
    if not isinstance(value, kind):
        raise TypeError(f"argument '{argument}': {type(value).__name__!r} object is not an instance of {kind.__name__!r}")
    return value


class TensorSpec:
    """A tensor to be written, by address. The memory is the caller's and must stay valid until
    then."""

    __slots__ = ("_dtype", "_shape", "_data_ptr", "_data_len", "_data")

    def __init__(self, *, dtype, shape, data_ptr, data_len):
        name = _BY_NAME.get(_typed(dtype, str, "dtype"))
        if name is None:
            raise SafetensorError(f'Unknown dtype "{dtype}". Supported dtypes: {_SUPPORTED}')
        self._dtype = name
        self._shape = [n.__index__() for n in shape]
        if any(n < 0 for n in self._shape):
            raise OverflowError("a dimension cannot be negative")
        if name == "F4" and self._shape:  # given in pairs, stored in elements
            self._shape[-1] *= 2
        self._data_ptr = data_ptr.__index__()
        self._data_len = data_len.__index__()
        self._data = None

    @property
    def dtype(self):
        """The dtype as files write it: "F32"."""
        return self._dtype

    @property
    def shape(self):
        """The shape in elements, as files write it."""
        return list(self._shape)

    @property
    def data_ptr(self):
        """The address of its bytes."""
        return self._data_ptr

    @property
    def data_len(self):
        """The number of its bytes."""
        return self._data_len

    def __repr__(self):
        return (f"TensorSpec(dtype={self.dtype!r}, shape={self.shape!r}, data_ptr={self.data_ptr!r}, "
                f"data_len={self.data_len!r})")  # fmt: skip

    def _bits(self):
        bits = BITS[self._dtype]
        for n in self._shape:
            bits *= n
        return bits

    @classmethod
    def _of(cls, dtype, shape, data, address, size):
        """A TensorSpec with an object that keeps its bytes alive, or refuses if they are gone."""
        spec = cls(dtype=dtype, shape=shape, data_ptr=address, data_len=size)
        spec._data = data
        return spec

    def _memory(self):
        if self._bits() != 8 * self._data_len:
            raise SafetensorError(
                f"Error while serializing: {self._dtype} of shape {self._shape} takes {self._bits() / 8:g} bytes, "
                f"but data_len is {self._data_len}"
            )
        if self._data is not None:
            return self._data
        return _core.borrow(self._data_ptr if self._data_len else 0, self._data_len, self)


TensorSpec.__module__ = "tenmap.safetensors"


def _copies(tensor_dict, metadata):
    """Checked copies of both dicts, because the caller's may change at any time."""
    tensor_dict = dict(_typed(tensor_dict, dict, "tensor_dict"))
    for name, spec in tensor_dict.items():
        _typed(name, str, "tensor_dict")
        _typed(spec, TensorSpec, "tensor_dict")
    if metadata is not None:
        metadata = dict(_typed(metadata, dict, "metadata"))
        for key, value in metadata.items():
            _typed(key, str, "metadata")
            _typed(value, str, "metadata")
    return tensor_dict, metadata


def serialize(tensor_dict, metadata=None):
    """The bytes of a file with these {name: TensorSpec}."""
    tensor_dict, metadata = _copies(tensor_dict, metadata)
    entries = [(name, spec.dtype, spec.shape, spec.data_len) for name, spec in tensor_dict.items()]
    if "__metadata__" in tensor_dict:
        raise SafetensorError("Error while serializing: no tensor is called __metadata__")
    memories = [spec._memory() for spec in tensor_dict.values()]
    try:
        text, order = header(entries, metadata)
    except UnicodeEncodeError as error:
        raise SafetensorError(f"Error while serializing: {error}") from None
    return _core.assemble([text, *(memories[i] for i in order)])


def serialize_file(tensor_dict, filename, metadata=None):
    """Writes a file with these {name: TensorSpec}. It appears whole or not at all."""
    tensor_dict, metadata = _copies(tensor_dict, metadata)
    sources = [(name, CODES[spec.dtype], spec.shape, spec._memory()) for name, spec in tensor_dict.items()]
    try:
        _core.save(os.fspath(filename), sources, metadata, _REFERENCE_LAYOUT, 0, 0, None)
    except (Error, UnicodeError) as error:
        raise SafetensorError(f"Error while serializing: {error}") from None


def deserialize(bytes):
    """[(name, {"shape", "dtype", "data"}), ...] of the bytes of a file."""
    _typed(bytes, type(b""), "bytes")
    try:
        model = open_model(bytes)
    except Error as error:
        raise SafetensorError(f"Error while deserializing: {error}") from None
    return [
        (tensor.name, {"shape": list(tensor.shape), "dtype": tensor.dtype, "data": bytearray(tensor.bytes)})
        for tensor in model.values()
    ]
