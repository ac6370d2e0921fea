"""Models and tensors: the part that users meet first."""

import os
import sys
from collections import namedtuple
from collections.abc import ItemsView, KeysView, Mapping, ValuesView

from . import _core
from ._arrays import COPY, VIEW, WRITABLE, destination_of, halved, numpy_array, torch_tensor
from ._dtypes import BITS, CODES, name_of, numpy_dtype, torch_dtype
from ._errors import missing
from ._operators import Operators
from ._plan import dtype_for, is_index, read_alone, selections

Shard = namedtuple("Shard", "path size header_bytes data_offset first_tensor tensor_count metadata format branch other_tensors")
Shard.__doc__ = """One file of a model; its tensors are [first_tensor, first_tensor + tensor_count) in order.

branch is the key of a PyTorch checkpoint under which the tensors lie ("state_dict"), or None;
other_tensors counts those of its other branches, which open(path, branches=True) lists. Of a
derived model, first_tensor and tensor_count are about the model that the file belongs to."""
Part = namedtuple("Part", "role tensor")
Part.__doc__ = """A part of a dequantized weight: what it is for ("values", "scales", "zeros", ...), and its Tensor.
Of a derived tensor: "term", and the Tensor."""
Shard.__module__ = Part.__module__ = "tenmap"

_BACKENDS = {"map": False, "read": True}


def open(path, dequantize=False, backend="map", lenient=False, partial=False, *, threads=0,
         max_header_bytes=0, offset=0, length=0, branches=False):  # fmt: skip
    """Opens a model and returns a Model, a mapping of names to Tensors. Reads only the header.

    path        a .safetensors, GGUF or PyTorch file, an index or a folder (str or PathLike); a list
                of .safetensors files, which are one model; an address: hf://ORG/NAME[/FILE],
                https://..., s3://BUCKET/..., or one of fsspec's; the bytes of a file; or a file
                object, which is read through seek() and read()
    dequantize  quantized weights, with separate scales or in blocks, appear as dequantized values
    backend     "map": tensors are views into the mapped file. "read": every access is a checked
                read, for files that may shrink while they are open
    lenient     also open files that are odd but harmless: holes, unknown dtypes, bytes at the end
    partial     open a model even if shards are missing: their tensors are absent
    threads     for opening many shards; 0: the library decides
    offset, length  a model inside a larger file
    branches    list all tensors of a PyTorch checkpoint by their full names: the model's, and the
                optimizer's and other branches

    Raises tenmap.Error, which is a FileNotFoundError if the file does not exist.
    """
    if backend not in _BACKENDS:
        raise ValueError(f'the backend is "map" or "read", not {backend!r}')
    if isinstance(path, (list, tuple)):
        from ._bytes import open_shards

        paths, options = list(path), (dequantize, backend, lenient, partial, threads, max_header_bytes, offset, length, branches)
        model = open_shards(paths, lambda place: _reopen(place, options))
        model._source = paths if len(paths) > 1 else paths[0]
        return model
    model, source = Model.__new__(Model), path
    if isinstance(path, str) and "://" in path:
        from ._remote import file_of, is_address, opened_by_core

        if is_address(path) and not opened_by_core(path):
            source = file_of(path)
    model._open(source, dequantize, _BACKENDS[backend], lenient, partial, threads, max_header_bytes,
                offset, length, branches)  # fmt: skip
    model._source = path
    model._options = (dequantize, backend, lenient, partial, threads, max_header_bytes, offset, length, branches)
    _log("opened %r", model)
    return model


def _reopen(path, options):
    *first, threads, max_header_bytes, offset, length, branches = options
    return open(path, *first, threads=threads, max_header_bytes=max_header_bytes, offset=offset,
                length=length, branches=branches)  # fmt: skip


class _Names(KeysView):
    def __iter__(self):
        return iter(self._mapping._names())

    def __repr__(self):
        names = self._mapping._names()
        return f"<{len(names)} names of a tenmap.Model: {_short_list(names)}>"


class _Tensors(ValuesView):
    def __iter__(self):
        return iter(self._mapping._tensors())

    def __contains__(self, value):
        return any(value is tensor for tensor in self)

    def __repr__(self):
        tensors = self._mapping._tensors()
        return f"<{len(tensors)} Tensors of a tenmap.Model: {_short_list(tensors, 4)}>"


class _Pairs(ItemsView):
    def __iter__(self):
        return zip(self._mapping._names(), self._mapping._tensors())

    def __repr__(self):
        return f"<{len(self._mapping)} names and Tensors of a tenmap.Model>"


def _bytes_text(n):
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}" if unit != "B" else f"{n} B"
        n /= 1000
    return f"{n:.4g} TB"


def _short_list(items, most=6):
    """The reprs of the first and last of these."""
    if len(items) <= most:
        return ", ".join(map(repr, items))
    return ", ".join([*map(repr, items[: most - 2]), "...", repr(items[-1])])


def _log(text, *arguments):
    """Logs to "tenmap" at level DEBUG if the program has imported logging."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("tenmap").debug(text, *arguments)


class Model(_core.Model):
    """An open model: a mapping of names to Tensors, in file order. tenmap.open returns one, and
    tenmap.derive.

    Any number of threads may use it. Close it with close() or a with statement, or leave that to
    the garbage collector. Tensors and arrays from it stay valid after that.
    """

    __slots__ = ("_source", "_options", "__weakref__")

    def __init__(self, *args, **keywords):
        raise TypeError("models are opened: tenmap.open(path)")

    @property
    def path(self):
        """The path that it was opened from, as a str; None for bytes, file objects and derived
        models."""
        if isinstance(self._source, (str, os.PathLike)) and not isinstance(self._source, memoryview):
            return os.fsdecode(self._source)
        return None

    @property
    def shards(self):
        """The files of the model, as a list of Shard."""
        shards = [Shard(*each) for each in self._shards()]
        if isinstance(self._source, list):  # which was opened through links
            shards = [shard._replace(path=os.fsdecode(path)) for shard, path in zip(shards, self._source)]
        return shards

    @property
    def nbytes(self):
        """Bytes of all tensors together, as stored."""
        return sum(row[5] for row in self._table())

    def _missing(self, name):
        """Raises the KeyError for this name, which also says which names are close."""
        from ._names import MissingTensor

        raise MissingTensor(name, self)

    def natural_names(self):
        """The names in natural order: layers.2 before layers.10."""
        from ._names import natural_key

        return sorted(self._names(), key=natural_key)

    def select(self, *patterns):
        """The Tensors whose names match one of the patterns (*, ?, [...]), by name, in natural order:

        model.select("*.q_proj.*", "lm_head.*")
        """
        from ._names import select

        return {name: self[name] for name in select(self._names(), patterns)}

    def _ipython_key_completions_(self):
        return self.natural_names()

    def _repr_html_(self):
        from ._html import model_html

        return model_html(self)

    def keys(self):
        """The names, in file order."""
        return _Names(self)

    def values(self):
        """The Tensors, in file order."""
        return _Tensors(self)

    def items(self):
        """Names with their Tensors, in file order."""
        return _Pairs(self)

    def get(self, name, default=None):
        """The Tensor of that name, or the default."""
        return self[name] if name in self else default

    def load(self, names=None, dtype=None, threads=0, out=None, progress=None, *, framework=None,
             device=None, direct=False, group=None):  # fmt: skip
        """Loads tensors into memory, on several threads, and returns them as a dict of arrays.

        names      which ones; None: all. A mapping of names to indexes loads slices, which are cut
                   while they are read: {"w": numpy.s_[:, 64:128]}; the index None: all of it
        dtype      to convert to while loading; None: each as it is stored. Or a mapping of names
                   and patterns of names to dtypes
        threads    0: the library decides
        out        a mapping of names to numpy arrays or torch tensors to fill and return
        progress   called with (bytes done, total bytes); or a tqdm bar, tqdm itself, or a
                   rich.progress.Progress
        framework  "numpy" or "torch": the kind of arrays; None: numpy, with a device torch
        device     where torch's tensors go after they were loaded
        direct     bypass the page cache and leave its contents alone
        group      a process group of torch.distributed. All its ranks make this call, each with
                   its own names and slices. One rank reads each byte of the files and sends it
                   to the ranks that want it. If one fails, all raise
        """
        result = {}
        arguments = (names, dtype, out, framework or ("numpy" if device is None else "torch"), device)
        flags = _core.LOAD_DIRECT if direct else 0
        if group is not None:
            from ._group import load_over

            load_over(self, group, lambda: self._requests(result, *arguments), (threads, flags, 0), progress)
        else:
            requests = self._requests(result, *arguments)
            _log("loading %d tensors of %r", len(requests), self)
            with _Progress(progress) as report:
                _core.load(requests, threads, flags, report)
        if device is not None:
            result = {name: array.to(device) for name, array in result.items()}
        return result if out is None else out

    def _requests(self, result, names, dtype, out, framework, device):
        """What a load asks the library for; adds new arrays to `result`."""
        if framework not in ("numpy", "torch"):
            raise ValueError(f'the framework is "numpy" or "torch", not {framework!r}')
        if device is not None and (framework != "torch" or out is not None):
            raise ValueError("a device is for new torch tensors: not for numpy's, and not with out=")
        requests = []
        for name, tensor in selections(self, names):
            wanted = dtype_for(dtype, name)
            kind = tensor.dtype if wanted is None else name_of(wanted)
            if out is not None:
                into = destination_of(out[name], kind, tensor.shape)
            elif BITS.get(kind, 8) < 8:
                result[name] = read_alone(tensor, kind, framework)
                continue
            else:
                into, result[name] = fresh(tensor, kind, framework)
            requests.append((tensor, CODES[kind], into))
        return requests

    def take(self, wants=None, dtype=None, *, optional=(), threads=0, progress=None):
        """Returns all tensors that a program wants of a model, in one call, as a dict of read-only
        numpy arrays. Tensors that are stored as wanted are used in place; the others are converted,
        on several threads, into one allocation. The arrays may outlive the model.

        wants      names; or a mapping of names to required shapes, where None stands for any
                   extent, or for any shape, or to indexes with a slice or `...` (numpy.s_[:, 8:16]);
                   None: all tensors
        dtype      for all of them, or a mapping of names and patterns to dtypes; None: each as it
                   is stored
        optional   names that may be missing: the result does not have those
        threads, progress   as in load()

        One Error names everything that is missing or has another shape. It is a KeyError if the
        first of those is missing.
        """
        wants = self._names() if wants is None else [wants] if isinstance(wants, str) else wants
        shapes = wants if isinstance(wants, Mapping) and not isinstance(wants, Model) else dict.fromkeys(wants)
        optional, alone, requests = set(optional), {}, []
        shapes = dict(shapes)  # the caller's may change during the call
        found = {}
        for name, shape in shapes.items():
            kind = self._kind(name, dtype_for(dtype, name))
            tensor = self.get(name)
            if tensor is not None and is_index(shape):
                tensor = tensor[shape]
            unpacked = BITS.get(kind, 8) < 8  # those and steps are read below
            box = None if tensor is None or tensor._whole else tensor._box()
            if tensor is not None and (unpacked or (box is None and not tensor._whole)):
                alone[name] = tensor, kind
                if not tensor._whole:
                    continue
            found[name] = tensor, kind
            extents = None if is_index(shape) else _extents(shape)
            code = 0 if kind is None or unpacked else CODES[kind]
            requests.append((name, code, extents, _core.WANT_OPTIONAL if name in optional else 0, box))
        try:
            with _Progress(progress) as report:
                taken = self._take(requests, threads, report)
        except FileNotFoundError as error:
            raise missing(error.message, error.remedy, error.index, error.path, error.tensor) from None
        memories = {request[0]: each[1] for request, each in zip(requests, taken) if each is not None}
        result = {}
        for name in shapes:
            if name in alone:
                tensor, kind = alone[name]
                result[name] = tensor.numpy(kind)
            elif name in memories:
                tensor, kind = found[name]
                result[name] = numpy_array(memories[name], 0, kind, tensor.shape)
        return result

    def _kind(self, name, dtype):
        """The checked dtype of this tensor's array; None if there is no such tensor."""
        tensor = self.get(name)
        if tensor is None:
            return None
        kind = tensor.dtype if dtype is None else name_of(dtype)
        numpy_dtype(kind)  # raises, before anything is read
        return kind

    def advise(self, advice, name=None):
        """Controls which tensors are in memory: "populate", "prefetch" (in the background),
        "release", "lock" or "unlock", for one tensor or for all."""
        known = ("populate", "prefetch", "release", "lock", "unlock")
        if advice not in known:
            raise ValueError(f"the advice is one of {', '.join(known)}, not {advice!r}")
        self._advise(known.index(advice) + 1, name)

    def residency(self):
        """(bytes of tensors mapped in this process, bytes of them in the page cache)"""
        return self._residency()

    def __enter__(self):
        if self.closed:
            raise ValueError("the model is closed")
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        what = repr(self.path) if self.path is not None else f"of {type(self._source).__name__}"
        if self._source is None:
            what = "of derived tensors"
        if self.closed:
            return f"<tenmap.Model {what}, closed>"
        if self._source is None:
            return f"<tenmap.Model {what}: {len(self)} tensors, {_bytes_text(self.nbytes)}>"
        shards = self._shard_count
        files = f" in {shards} files" if shards != 1 else ""
        return f"<tenmap.Model {what}: {len(self)} tensors, {_bytes_text(self.file_size)}{files}>"

    def __reduce__(self):
        if self.path is None:
            raise TypeError("only models that were opened from a path can be pickled")
        if self.closed:
            raise TypeError("a closed model cannot be pickled")
        path = self.path if "://" in self.path else os.path.abspath(self.path)
        return _reopen, (path, self._options)


Model.__module__ = "tenmap"
open.__module__ = "tenmap"
Mapping.register(Model)


def _extents(shape):
    """A shape for _take: None stands for any shape or any extent."""
    return None if shape is None else [_ANY_EXTENT if n is None else n for n in shape]


_ANY_EXTENT = 2**64 - 1


def fresh(tensor, kind, framework):
    """New memory for a tensor, and the array on it."""
    if kind not in BITS:
        raise TypeError(f'no array has the dtype {kind!r} of {tensor.name!r}: ask for another one, as in dtype="float32"')
    memory = _core.memory(_core.dtype_bytes(CODES[kind], tensor.size))
    make = numpy_array if framework == "numpy" else torch_tensor
    return memory, make(memory, 0, kind, tensor.shape)


class _Progress:
    """progress= as a function of (done, total), or None: a callable, a tqdm bar, tqdm itself, or a
    rich.progress.Progress, which gets a task."""

    def __init__(self, progress):
        self.bar = self.close = None
        self.done = 0
        self.report = progress
        if isinstance(progress, type) and hasattr(progress, "update"):
            self.bar = progress(total=0, unit="B", unit_scale=True)
            self.close = self.bar.close
        elif hasattr(progress, "add_task"):
            self._begin_task(progress)
        elif hasattr(progress, "update"):
            self.bar = progress
        elif progress is not None and not callable(progress):
            raise TypeError(f"progress is a callable, a tqdm bar or rich's Progress, not {type(progress)!r}")

    def _begin_task(self, progress):
        """A task of rich's; its display is started, and stopped at the end, unless it already is."""
        task = progress.add_task("tenmap", total=None)
        self.report = lambda done, total: progress.update(task, completed=done, total=total)
        if not progress.live.is_started:
            progress.start()
            self.close = progress.stop

    def _move(self, done, total):
        if self.bar.total != total:
            self.bar.total = total
        self.bar.update(done - self.done)
        self.done = done

    def __enter__(self):
        return self._move if self.bar is not None else self.report

    def __exit__(self, *exception):
        if self.close is not None:
            self.close()


class Tensor(Operators, _core.Tensor):
    """A tensor of a model, or a selection of it by indexing. Nothing is read until values are
    needed.

    Indexes are numpy's: integers, slices with any step, and `...`. The result is again a Tensor.

    Sums and differences of Tensors, products with numbers, and b @ a are Expressions, which
    tenmap.derive computes later. With a numpy array, an operator computes at once, as numpy does.
    """

    __slots__ = ()

    def numpy(self, dtype=None, *, writable=False):
        """The values as a numpy array. If the tensor is mapped, aligned and has the requested
        dtype, this is a read-only view; otherwise the values are converted or unpacked into new
        memory.

        writable=True returns an array that may be changed: it is on a copy-on-write mapping of the
        file if possible, else in new memory. Each call returns bytes of its own, and the file never
        changes.
        """
        name = self.dtype if dtype is None else name_of(dtype)
        numpy_dtype(name)  # raises, before anything is read
        memory, offset, strides = self._data(CODES[name], WRITABLE if writable else VIEW)
        return numpy_array(memory, offset, name, self.shape, strides)

    def torch(self, dtype=None):
        """The values as a torch tensor, which may be written to: it is on a copy-on-write mapping
        of the file if possible, else in new memory. Each call returns bytes of its own, and the file
        never changes. All tensors of a file share one mapping."""
        name = self.dtype if dtype is None else name_of(dtype)
        torch_dtype(name)
        if name == "F4":
            halved(self.shape)
            packed = self.bytes if self.dtype == "F4" else _core.pack(4, self._data(CODES["F4"], COPY)[0])
            return torch_tensor(bytearray(packed), 0, name, self.shape)
        memory, offset, strides = self._data(CODES[name], WRITABLE)
        if strides is not None and min(strides, default=0) < 0:  # torch supports none such
            memory, offset, strides = self._data(CODES[name], COPY)
        return torch_tensor(memory, offset, name, self.shape, strides)

    def astype(self, dtype):
        """The values as a new, writable numpy array of that dtype. The library converts to floating
        point, numpy to all other dtypes."""
        name = name_of(dtype)
        if name[0] == "F" or name in ("BF16", self.dtype):
            return self.copy(name)
        kind = numpy_dtype(name)
        return self.copy(None if self.dtype in BITS else "F32").astype(kind)

    def copy(self, dtype=None):
        """The values in new memory, as a writable numpy array, which neither the file nor the model
        affects any more."""
        name = self.dtype if dtype is None else name_of(dtype)
        numpy_dtype(name)
        memory, offset, strides = self._data(CODES[name], COPY)
        return numpy_array(memory, offset, name, self.shape, strides)

    def to(self, *args, **keywords):
        """The values as a torch tensor on a device, of a dtype, or both: the arguments of
        torch.Tensor.to. The library converts to floating point, torch to all other dtypes."""
        import torch

        kinds = [each for each in (*args, *keywords.values()) if isinstance(each, torch.dtype)]
        by_library = kinds and kinds[0].is_floating_point and self.dtype != "C64"
        return self.torch(kinds[0] if by_library else None).to(*args, **keywords)

    @property
    def itemsize(self):
        """Bytes of one element of its array: 1 for elements of 4 and 6 bits; 0 for block dtypes."""
        return (BITS.get(self.dtype, 0) + 7) // 8

    @property
    def T(self):
        """The transposed values, as a numpy array: all axes in reverse order, in place if the tensor
        is mapped. In an expression that is computed later, write tenmap.expr(tensor).T."""
        return self.numpy().T

    @property
    def parts(self):
        """The tensors that a dequantized weight is stored in (dequantize=True), or that a derived
        one is computed from, as a list of Part; empty for others."""
        return [Part(_ROLES.get(role, "other"), tensor) for role, tensor in self._parts()]

    def numel(self):
        """How many elements it has: its size, under torch's name."""
        return self.size

    def item(self):
        """The value of a tensor with one element, as a Python number."""
        if self.size != 1:
            raise ValueError(f"item() of a tensor with {self.size} elements")
        value = self.tolist()
        while isinstance(value, list):
            value = value[0]
        return value

    def tolist(self):
        """The values as nested lists of Python numbers."""
        if self.size == 0 or self.dtype == "C64":
            return self.numpy().tolist()
        if self.dtype in _PLAIN:
            return self.buffer.tolist()
        memory = self._data(CODES["F32"], COPY)[0]  # buffers have no format for the others
        return memoryview(memory).cast("f", self.shape).tolist()

    def __array__(self, dtype=None, copy=None):
        import numpy

        if copy:
            numpy_dtype(self.dtype)
            array = numpy_array(*self._data(CODES[self.dtype], COPY)[:2], self.dtype, self.shape)
            return array if dtype is None else array.astype(dtype)
        array = self.numpy()
        if copy is False and (not self.mapped or (dtype is not None and array.dtype != dtype)):
            raise ValueError(f"{self.name!r} cannot be an array without a copy")
        return array if dtype is None else array.astype(numpy.dtype(dtype), copy=False)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError("the tensor is in this computer's memory: device (1, 0)")
        if stream is not None:
            raise BufferError("the tensor is in this computer's memory, where there are no streams")
        return self._dlpack(max_version is not None and max_version[0] >= 1, copy)

    def __dlpack_device__(self):
        return (1, 0)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __format__(self, spec):
        if not spec:
            return str(self)
        return format(self.item(), spec)

    def _repr_html_(self):
        from ._html import tensor_html

        return tensor_html(self)

    def __repr__(self):
        return f"<tenmap.Tensor {self.name!r}: {self.dtype} {list(self.shape)}, {_bytes_text(self.nbytes)}>"

    def __reduce__(self):
        raise TypeError("tensors of a model cannot be pickled: pickle the model, or .numpy()")


Tensor.__module__ = "tenmap"
_core.set_tensor_class(Tensor)

_ROLES = {
    1: "values", 2: "scales", 3: "zeros", 4: "group_index", 5: "global_scale", 6: "table", 7: "other", 8: "biases",
    9: "nested_scales", 10: "nested_table", 11: "term",
}  # fmt: skip

# The dtypes that a memoryview can unpack.
_PLAIN = {"BOOL", "U8", "I8", "U16", "I16", "F16", "U32", "I32", "F32", "F64", "U64", "I64"}
