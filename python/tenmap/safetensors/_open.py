"""safe_open: one file (or a folder), tensor by tensor, in the caller's framework."""

import os
import re

from .. import _core
from .._arrays import COPY, numpy_array, torch_tensor
from .._dtypes import BITS, CODES
from .._errors import Error
from .._model import fresh
from .._model import open as open_model
from ._frameworks import FRAMEWORKS, from_numpy
from . import _prefetch
from ._spec import SafetensorError, _typed

_BACKENDS = {"mmap": "map", "pread": "read"}
_NAME, _DTYPE, _SHAPE, _SHARD, _OFFSET, _NBYTES, _READY = range(7)  # the columns of Model._table()
_DEVICE = re.compile(r"(cpu|cuda|mps|npu|xpu|xla|mlu|musa|hpu)(?::(\d+))?")


def _framework(name):
    known = FRAMEWORKS.get(_typed(name, str, "framework"))
    if known is None:
        raise SafetensorError(f"framework {name} is invalid")
    return known


def _device(device, framework):
    """torch's name of the device; None for the CPU."""
    if device is None or device == "cpu":
        return None
    if isinstance(device, int) and device >= 0:
        found = int(device)  # True counts as 1
    elif isinstance(device, str) and _DEVICE.fullmatch(device):
        found = None if device.startswith("cpu") else device
    elif type(device).__module__ == "torch":
        found = None if device.type == "cpu" else device
    else:
        raise SafetensorError(f"device {device!r} is invalid")
    if found is not None and framework not in ("torch", "paddle"):
        raise SafetensorError(f"Device {device} is not supported for framework {framework}")
    return found


def _open(source, shown, backend):
    try:
        return open_model(source, backend=backend)
    except FileNotFoundError as error:
        if isinstance(shown, (str, os.PathLike)) and os.path.exists(shown):  # a folder without a model
            raise
        raise FileNotFoundError(f"No such file or directory: {shown}") from error
    except MemoryError:
        raise
    except Error as error:
        if isinstance(error, OSError):
            raise
        raise SafetensorError(f"Error while deserializing header: {error}") from None


class Reader:
    """Tensors of an open model as arrays of a framework. As in the reference, those of torch are on
    one copy-on-write mapping of the file if possible, and all others own their bytes: another
    program may then overwrite or truncate the file."""

    __slots__ = ("model", "framework", "device", "table", "mappings")

    def __init__(self, model, framework, device):
        self.model, self.framework, self.device = model, framework, device
        self.table = None
        self.mappings = {}

    def entry(self, name):
        if self.table is None:
            self.table = {row[_NAME]: row for row in self.model._table()}
        found = self.table.get(name)
        if found is None:
            raise SafetensorError(f"File does not contain tensor {name}")
        return found

    def names(self):
        if self.table is None:
            self.table = {row[_NAME]: row for row in self.model._table()}
        return list(self.table)

    def _mapping(self, shard):
        if shard not in self.mappings:
            self.mappings[shard] = self.model._private(shard)
        return self.mappings[shard]

    def _torch(self, name):
        """The tensor on the CPU, writable."""
        _, dtype, shape, shard, place, nbytes, ready = self.entry(name)
        memory = self._mapping(shard) if ready and nbytes else None
        if memory is not None:
            return torch_tensor(memory, place, dtype, shape)
        return self.model[name].torch()

    def _owned(self, names):
        """The tensors as numpy arrays in memory of their own, read on several threads. The file is
        read, not mapped: that takes half of the time, and a file that shrinks is an error."""
        result, requests = {}, []
        for name in names:
            dtype, tensor = self.entry(name)[_DTYPE], self.model[name]
            if BITS.get(dtype, 8) < 8:
                result[name] = tensor.numpy(writable=True)  # unpacked
            else:
                memory, result[name] = fresh(tensor, dtype, "numpy")
                requests.append((tensor, CODES[dtype], memory))
        _core.load(requests, 0, _core.LOAD_READ, None)
        return result

    def get(self, name):
        if self.framework == "torch":
            return self._finish(self._torch(name))
        return self._finish(self._owned([name])[name])

    def get_all(self):
        """All tensors, as a dict, in the order of their data."""
        names = self.names()
        if self.framework == "torch":
            return {name: self.get(name) for name in names}
        arrays = self._owned(names)
        if self.framework != "numpy":
            for name in names:  # each replaces its array, so that there are not two of every tensor
                arrays[name] = self._finish(arrays[name])
        return arrays

    def _finish(self, array):
        if self.framework == "torch":
            return array if self.device is None else array.to(self.device)
        return from_numpy(self.framework, array, self.device)

    def part(self, name, key):
        """What `key` selects of a tensor; reads only that."""
        if self.framework == "torch":
            entry = self.entry(name)
            if entry[_READY] or entry[_NBYTES] == 0:
                return self._finish(self._torch(name)[key])
            try:
                return self._finish(self.model[name][key].torch())
            except TypeError:  # an index that only torch supports
                return self._finish(self._torch(name)[key])
        shape = self.entry(name)[_SHAPE]
        if isinstance(key, list):
            if key:
                raise SafetensorError("Non empty lists are not implemented")
            key = slice(0, 0)
        key = tuple(int(index) if isinstance(index, bool) else index for index in _as_tuple(key))
        _check_key(key, shape)
        part = self.model[name][key]
        memory, offset, strides = part._data(CODES[part.dtype], COPY)
        return self._finish(numpy_array(memory, offset, part.dtype, part.shape, strides))


def _as_tuple(key):
    return key if isinstance(key, tuple) else (key,)


def _shown(key):
    def part(index):
        if isinstance(index, slice):
            ends = ["" if end is None else str(end) for end in (index.start, index.stop)]
            return ":".join(ends) + ("" if index.step is None else f":{index.step}")
        return "..." if index is Ellipsis else str(index)

    return f"[{', '.join(map(part, key))}]"


def _check_key(key, shape):
    """Refuses indexes beyond the size, because callers rely on that for numpy."""
    known = lambda index: isinstance(index, slice) or index is Ellipsis or hasattr(index, "__index__")  # noqa: E731
    for position, index in enumerate(key):
        if not known(index):
            raise SafetensorError(f"Unsupported slice index at position {position}: expected slice, int, or ellipsis")
    if sum(index is Ellipsis for index in key) > 1:
        raise SafetensorError("Only one ellipsis (...) is allowed in slice index")
    around = f"Error during slicing {_shown(key)} with shape {list(shape)}: "
    given = [index for index in key if index is not Ellipsis]
    if len(given) > len(shape):
        raise SafetensorError(around + "more slicing indexes than dimensions in tensor")
    dimensions = list(range(len(given)))
    if Ellipsis in key:
        after = len(key) - key.index(Ellipsis) - 1
        dimensions[len(given) - after :] = range(len(shape) - after, len(shape))
    for dimension, index in zip(dimensions, given):
        size = shape[dimension]
        if isinstance(index, slice):
            start, stop = index.start or 0, index.stop
            if stop is not None and stop > size and 0 <= start < stop and (index.step or 1) > 0:
                beyond = start if start >= size else stop - 1
                raise SafetensorError(
                    around + f"index {beyond} out of bounds for tensor dimension #{dimension} of size {size}"
                )
        elif index.__index__() < -size:
            raise SafetensorError(f"Invalid index {index} for dimension {dimension} of size {size}")
        elif index.__index__() >= size:
            raise SafetensorError(
                around + f"index {index} out of bounds for tensor dimension #{dimension} of size {size}"
            )


class PySafeSlice:
    """A tensor that is read when it is indexed, and only what the index selects."""

    __slots__ = ("_reader", "_name")

    def __new__(cls, *arguments, **keywords):
        raise TypeError("cannot create 'PySafeSlice' instances: safe_open.get_slice(name) returns them")

    @classmethod
    def _of(cls, reader, name):
        reader.entry(name)
        self = object.__new__(cls)
        self._reader, self._name = reader, name
        return self

    def get_shape(self):
        """The tensor's dimensions."""
        return list(self._reader.entry(self._name)[_SHAPE])

    def get_dtype(self):
        """The tensor's dtype, as files write it: "F32"."""
        return self._reader.entry(self._name)[_DTYPE]

    def __getitem__(self, key):
        return self._reader.part(self._name, key)


class safe_open:
    """A file, an index or a folder, opened lazily. Tensors are returned in the given framework.

        with safe_open("model.safetensors", framework="pt") as f:
            for name in f.keys():
                tensor = f.get_tensor(name)
    """

    __slots__ = ("_reader",)

    def __init__(self, filename, framework, device="cpu", *, backend="mmap"):
        if not isinstance(filename, (str, os.PathLike)):
            raise TypeError(f"argument 'filename': expected str or os.PathLike object, not {type(filename).__name__}")
        self._start(filename, filename, framework, device, backend)

    def _start(self, source, shown, framework, device, backend):
        if backend not in _BACKENDS:
            raise SafetensorError(f'backend "{backend}" is invalid (expected one of: "mmap", "pread")')
        framework = _framework(framework)
        device = _device(device, framework)
        self._reader = Reader(_open(source, shown, _BACKENDS[backend]), framework, device)

    def _open_reader(self):
        if self._reader is None:
            raise SafetensorError("File is closed")
        return self._reader

    def keys(self):
        """The names of the tensors, sorted."""
        return sorted(self._open_reader().model._names())

    def offset_keys(self):
        """The names of the tensors, in the order of their data."""
        return self._open_reader().model._names()

    def metadata(self):
        """The file's metadata, a dict of strings; None if it has none."""
        return self._open_reader().model.metadata or None

    def get_tensor(self, name):
        """One tensor, whole."""
        return self._open_reader().get(name)

    def get_tensors(self):
        """All tensors, as a dict, in the order of their data."""
        return self._open_reader().get_all()

    def get_slice(self, name):
        """A tensor to be indexed. Nothing is read before that."""
        return PySafeSlice._of(self._open_reader(), name)

    def get_tensor_meta(self, name):
        """A tensor's entry in the header. Reads no data."""
        return _prefetch.tensor_meta(self._open_reader(), name)

    def prefetch(self, plan=None, *, device=None, threads=8):
        """Starts to load tensors to a CUDA device in the background, for framework="pt". Returns a
        PrefetchLoader, which hands each of them out once.

        plan     names, each with None or a slice of the first dimension; None: all tensors
        device   default: that of this file
        threads  that read
        """
        reader = self._open_reader()
        chosen = reader.device if device is None else _device(device, reader.framework)
        return _prefetch.prefetch(reader, plan, chosen, threads)

    def __enter__(self):
        return self

    def __exit__(self, _exc_type, _exc_value, _traceback):
        self._reader = None


class _safe_open_handle(safe_open):
    """safe_open of a file object."""

    __slots__ = ()

    def __init__(self, f, framework, device="cpu", *, backend="mmap"):
        binary = getattr(f, "buffer", f)  # for a file that was opened as text
        if not hasattr(binary, "read"):
            raise AttributeError(f"{type(f).__name__!r} object has no attribute 'read'")
        self._start(binary, "<file object>", framework, device, backend)


for _each in (safe_open, _safe_open_handle, PySafeSlice):
    _each.__module__ = "tenmap.safetensors"


def load_all(filename, framework, device="cpu", backend="mmap"):
    """All tensors of a file, for load_file."""
    with safe_open(filename, framework, device, backend=backend) as file:
        return file.get_tensors()


def load_bytes(data, framework):
    """All tensors of a file that is given as bytes, in new memory, for load."""
    _typed(data, bytes, "bytes")
    try:
        model = open_model(data)  # of which every array is a copy
    except Error as error:
        raise SafetensorError(f"Error while deserializing: {error}") from None
    return Reader(model, framework, None).get_all()
