"""numpy arrays and torch tensors on a Memory, and the memory of array-like objects."""

import sys

from . import _core
from ._dtypes import BITS, CODES, LITTLE, TABLE, name_of, numpy_dtype, torch_dtype

VIEW, WRITABLE, COPY = _core.VIEW, _core.WRITABLE, _core.COPY
_MOST_DIMENSIONS = 64  # of numpy and torch


def _refuse_dimensions(shape):
    raise ValueError(f"a tensor of {len(shape)} dimensions: numpy and torch have at most {_MOST_DIMENSIONS}")


def numpy_array(memory, offset, name, shape, strides=None):
    """A numpy array on a Memory; strides in elements. Elements of 4 and 6 bits take a byte each."""
    import numpy

    if len(shape) > _MOST_DIMENSIONS:
        _refuse_dimensions(shape)
    dtype = numpy_dtype(name)
    if 0 in shape:
        return numpy.empty(shape, dtype)
    if strides is not None:
        strides = tuple(s * dtype.itemsize for s in strides)
    return numpy.ndarray(shape, dtype, memory, offset, strides)


def torch_tensor(memory, offset, name, shape, strides=None):
    """A torch tensor on a writable Memory. torch packs F4, two elements in one."""
    import torch

    dtype = torch_dtype(name)
    if len(shape) > _MOST_DIMENSIONS:
        _refuse_dimensions(shape)
    if name == "F4":
        shape = halved(shape)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype, device="cpu")
    count = 1
    for n in shape:
        count *= n
    stored = torch.uint8 if name == "F4" else dtype
    if strides is None:
        flat = torch.frombuffer(memory, dtype=stored, count=count, offset=offset)
        if name == "F4":
            flat = flat.view(dtype)
        return flat.view(shape)
    return torch.frombuffer(memory, dtype=stored, offset=offset).as_strided(shape, strides)


def halved(shape):
    """The shape that an F4 tensor has in torch, which packs two elements in one."""
    if not shape or shape[-1] % 2:
        raise ValueError(f"torch has F4 in pairs: a tensor of shape {tuple(shape)} has half a pair")
    return (*shape[:-1], shape[-1] // 2)


def is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


class Source:
    """An array-like object as a file stores it: dtype, shape, and bytes (or a model's tensor)."""

    __slots__ = ("name", "shape", "data")

    def __init__(self, name, shape, data):
        self.name, self.shape, self.data = name, tuple(shape), data

    @property
    def code(self):
        return CODES[self.name]


def _torch_memory(value, writable=False):
    """The bytes of a contiguous tensor on the CPU. Its storage is kept alive, and before each use
    it is asked whether they are still there."""
    size = value.numel() * value.element_size()
    return _core.borrow(value.data_ptr() if size else 0, size, value.untyped_storage(), writable, True)


def _of_torch(value):
    import torch

    name = name_of(value.dtype)
    if value.layout != torch.strided:
        raise ValueError("a sparse tensor cannot be stored: make it dense with .to_dense()")
    if value.device.type == "meta":
        raise ValueError("a tensor on the meta device has no values to store")
    value = value.detach()
    if value.device.type != "cpu":
        value = value.cpu()
    value = value.resolve_conj().resolve_neg().contiguous()
    shape = tuple(value.shape)
    if name == "F4":
        if not shape:
            raise ValueError("torch has F4 in pairs: a scalar of it has no shape in a file")
        shape = (*shape[:-1], 2 * shape[-1])
    if not LITTLE and value.element_size() > 1:
        raise ValueError("torch tensors are stored on little-endian machines only: pass .numpy()")
    return Source(name, shape, _torch_memory(value))


def _of_numpy(value):
    import numpy

    name = name_of(value.dtype)
    shape = value.shape
    value = numpy.ascontiguousarray(value)
    if BITS[name] >= 16 and (value.dtype.byteorder == ">" or (not LITTLE and value.dtype.byteorder == "=")):
        value = value.byteswap()
    value = value.reshape(-1).view(numpy.uint8) if value.size else numpy.empty(0, numpy.uint8)
    if BITS[name] < 8:
        value = _core.pack(BITS[name], value)
    return Source(name, shape, value)


_FORMATS = {
    "?": "BOOL", "b": "I8", "B": "U8", "h": "I16", "H": "U16", "i": "I32", "I": "U32",
    "q": "I64", "Q": "U64", "l": "I64", "L": "U64", "e": "F16", "f": "F32", "d": "F64",
}  # fmt: skip


def _of_buffer(value):
    view = memoryview(value)
    name = _FORMATS.get(view.format.lstrip("@=<" if LITTLE else "@="))
    if name is None or view.itemsize * 8 != BITS[name]:
        raise TypeError(f"a buffer of format {view.format!r} has no dtype in files")
    if not LITTLE and view.itemsize > 1:
        raise ValueError("buffers are stored on little-endian machines only: pass a numpy array")
    return Source(name, view.shape, view if view.c_contiguous else view.tobytes())


def source_of(value):
    """The Source for a numpy array, a torch tensor, a Tensor, or anything that numpy can
    convert."""
    if isinstance(value, Source):
        return value
    if isinstance(value, _core.Tensor):
        if value.dtype not in TABLE:
            raise TypeError(f'{value.dtype!r} of {value.name!r} is not a dtype of SafeTensors: block dtypes are written '
                            'as values, as with save_file(..., dtype="bfloat16"), and unknown dtypes not at all')  # fmt: skip
        return Source(value.dtype, value.shape, value if value._whole else value.bytes)
    if is_torch(value):
        return _of_torch(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _of_numpy(numpy.asarray(value))
    if isinstance(value, (str, bytes, dict, list, tuple, int, float, type(None))):
        raise TypeError(f"expected an array, not {type(value)!r}")
    try:
        return _of_buffer(value)
    except (TypeError, BufferError) as refused:
        if not hasattr(value, "__array__") and not hasattr(value, "__dlpack__"):
            raise TypeError(f"expected an array, not {type(value)!r}: {refused}") from None
    import numpy

    return _of_numpy(numpy.asarray(value))


def destination_of(value, name, shape):
    """The bytes of the caller's array to fill; it must be writable, contiguous, of this shape."""
    wanted = f"an array of {name} and shape {tuple(shape)}, writable and contiguous"
    if is_torch(value):
        if name_of(value.dtype) != name or tuple(value.shape) != tuple(shape if name != "F4" else halved(shape)):
            raise ValueError(f"expected {wanted}, not {name_of(value.dtype)} of shape {tuple(value.shape)}")
        if not value.is_contiguous() or value.device.type != "cpu":
            raise ValueError(f"expected {wanted}: this one is not contiguous, or not on the CPU")
        return _torch_memory(value, True)
    import numpy

    if not isinstance(value, numpy.ndarray):
        raise TypeError(f"expected {wanted}, not {type(value)!r}")
    if name_of(value.dtype) != name or value.shape != tuple(shape) or value.dtype.byteorder == ">":
        raise ValueError(f"expected {wanted}, not {value.dtype} of shape {value.shape}")
    if not value.flags.c_contiguous or not value.flags.writeable:
        raise ValueError(f"expected {wanted}: this one is read-only or not contiguous")
    if BITS[name] < 8:
        raise ValueError(f"{name} cannot be loaded into a given array: it is packed in files")
    return value.reshape(-1).view(numpy.uint8) if value.size else numpy.empty(0, numpy.uint8)
