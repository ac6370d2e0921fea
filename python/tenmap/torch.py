"""PyTorch checkpoints with their structure, like torch.load(path, weights_only=True, mmap=True).

    import tenmap.torch

    checkpoint = tenmap.torch.load("checkpoint.pt")
    checkpoint["state_dict"]["layer.weight"]         # a torch tensor on the mapped file
    checkpoint["optimizer"]["param_groups"][0]["lr"]

The library reads the pickle as data, in C. The objects are made here, from a fixed list of names.
Nothing that the file names is imported or called.
"""

import collections as _collections
import functools as _functools
import os as _os

try:
    import torch as _torch
except ImportError as _missing:
    raise ImportError("tenmap.torch needs torch: install it with pip install torch") from _missing

from . import _core
from ._dtypes import LITTLE as _LITTLE
from ._errors import Error, Status
from ._model import Model as _Model

__all__ = ["Inert", "load"]

_VALUE, _KIND, _PLACE, _FIRST = range(4)  # the items of a record (python/src/checkpoint.c)
_MOST_DIMENSIONS = 64
_MOST_ARGUMENTS = 16
_DEEPEST_KEY = 100
_MOST_ELEMENTS = 1 << 62
_UNSET = object()  # in a record: its object is not made yet


class Inert:
    """What stands for an object that is not made: of a class or by a function that is not in the
    fixed list, or a tensor of a kind that is not read. It holds what the file says, and does
    nothing.

    name    of the class or function: "posix.system"
    called  whether Python would call it; False: the file only names it
    args    what it would be called with
    state   what the object would be restored from; None: nothing
    items, pairs  what would be appended to the object, and assigned to its keys
    """

    __slots__ = ("name", "called", "args", "state", "items", "pairs")

    def __init__(self, name, called=False, args=(), state=None):
        self.name, self.called, self.args, self.state = name, called, args, state
        self.items, self.pairs = [], []

    def __repr__(self):
        return f"<inert {self.name}{'(...)' if self.called else ''}>"


class _NotMade(Exception):
    """A value that is valid, but of a kind that is not made here."""


class _Malformed(Exception):
    """A value that breaks a rule."""


class _TooMuch(_Malformed):
    """A value over a limit."""


# What the functions below raise, or Python and torch, which they call with values of the file.
_FAILURES = (_Malformed, TypeError, ValueError, OverflowError, RuntimeError)


class _StorageType:
    """A type of storage: what a file calls torch.FloatStorage."""

    __slots__ = ("dtype", "name")

    def __init__(self, dtype, name):
        self.dtype, self.name = dtype, name


def _expect(condition, message):
    if not condition:
        raise _Malformed(message)


@_functools.lru_cache(None)
def _element_bytes(dtype):
    return _torch.empty(0, dtype=dtype, device="cpu").element_size()


def _is_count(value):
    return type(value) is int and 0 <= value < 1 << 63


# Plain values. Each function gets the loader and the arguments that the file has.


def _pairs_of(loader, items):
    if type(items) is dict:
        items = items.items()
    else:
        _expect(type(items) in (list, tuple), "its items are not a list")
        _expect(all(type(pair) in (list, tuple) and len(pair) == 2 for pair in items), "its items are not pairs")
    loader.spend(len(items))
    hashes = {}
    for key, value in items:
        loader.check_key(key, hashes)
        yield key, value


def _ordered_dict(loader, items=()):
    return _collections.OrderedDict(_pairs_of(loader, items))


def _counter(loader, items=None):
    made = _collections.Counter()
    for key, count in _pairs_of(loader, {} if items is None else items):
        made[key] = count
    return made


def _members(loader, items):
    _expect(type(items) in (list, tuple), "its items are not a list")
    loader.spend(len(items))
    hashes = {}
    for item in items:
        loader.check_key(item, hashes)
        yield item


def _set(loader, items=()):
    return set(_members(loader, items))


def _frozenset(loader, items=()):
    return frozenset(_members(loader, items))


def _encode(loader, text, encoding):
    """How protocols before 3 write bytes."""
    _expect(type(text) is str and encoding in ("latin1", "latin-1"), "it is no text in latin1")
    loader.spend(len(text))
    return text.encode("latin-1")


def _bytes(loader):
    return b""


def _bytearray(loader, data=b"", encoding=None):
    if encoding is not None:
        data = _encode(loader, data, encoding)
    _expect(type(data) in (bytes, bytearray), "it is not made of bytes")
    loader.spend(len(data))
    return bytearray(data)


def _complex(loader, real, imaginary):
    _expect({type(real), type(imaginary)} <= {float, int}, "its parts are not numbers")
    return complex(real, imaginary)


def _size(loader, extents=()):
    _expect(type(extents) in (tuple, list, _torch.Size), "its extents are not a tuple")
    loader.spend(len(extents))
    _expect(all(type(n) is int and abs(n) < 1 << 63 for n in extents), "its extents are not whole numbers")
    return _torch.Size(extents)


def _device(loader, kind, index=None):
    _expect(type(kind) is str and len(kind) < 64, "its name is no text")
    _expect(index is None or (_is_count(index) and index < 1 << 15), "its index is no whole number")
    return _torch.device(kind) if index is None else _torch.device(kind, index)


def _layout(loader, name):
    made = _LAYOUTS.get(name) if type(name) is str else None
    _expect(made is not None, "there is no such layout")
    return made


# Tensors.


def _numbers(numbers, what):
    _expect(type(numbers) in (tuple, list, _torch.Size) and len(numbers) <= _MOST_DIMENSIONS, f"its {what} is no short tuple")
    numbers = tuple(numbers)
    _expect(all(map(_is_count, numbers)), f"its {what} is not made of whole numbers from 0 on")
    return numbers


def _view(storage, dtype, offset, shape, strides):
    """A tensor on a storage, all of whose elements lie in it."""
    _expect(type(storage) is _torch.storage.TypedStorage, "it has no storage")
    shape, strides = _numbers(shape, "shape"), _numbers(strides, "strides")
    _expect(_is_count(offset), "its offset is not a whole number from 0 on")
    _expect(len(shape) == len(strides), "its shape and its strides do not have the same length")
    untyped, size, last, count = storage._untyped_storage, _element_bytes(dtype), offset, 1
    for extent, stride in zip(shape, strides):
        last += (extent - 1) * stride
        count *= extent
    room = untyped.nbytes() // size
    if count:
        _expect(last < room, "its last element lies outside of its storage")
    else:
        count = 1
        for extent in shape:
            count *= max(extent, 1)
        _expect(offset < 1 << 59, "its offset is too large")
        offset = min(offset, room)
    _expect(count * size < _MOST_ELEMENTS and all(n < 1 << 59 for n in strides), "it has too many elements")
    return _torch.empty(0, dtype=dtype, device="cpu").set_(untyped, offset, shape, strides)


def _changed(tensor, requires_grad, metadata):
    """What torch keeps beside the elements."""
    if metadata is not None:
        _expect(type(metadata) is dict and len(metadata) <= _MOST_ARGUMENTS, "its metadata is no short dict")
        for key, value in metadata.items():
            _expect(type(value) is bool, "its metadata is not true or false")
            if value and key == "conj":
                tensor = tensor.conj()
            elif value and key == "neg":
                tensor = _torch._neg_view(tensor)
            elif value:
                raise _NotMade(f"a tensor with the property {key!r}")
    _expect(type(requires_grad) is bool, "requires_grad is not true or false")
    if requires_grad:
        tensor.requires_grad_()
    return tensor


def _tensor(loader, storage, offset, shape, strides, requires_grad=False, hooks=None, metadata=None):
    dtype = storage.dtype if type(storage) is _torch.storage.TypedStorage else None
    return _changed(_view(storage, dtype, offset, shape, strides), requires_grad, metadata)


def _tensor_v3(loader, storage, offset, shape, strides, requires_grad, hooks, dtype, metadata=None):
    _expect(type(dtype) is _torch.dtype, "its dtype is unknown")
    return _changed(_view(storage, dtype, offset, shape, strides), requires_grad, metadata)


def _parameter(loader, data, requires_grad, hooks=None):
    _expect(isinstance(data, _torch.Tensor), "it has no tensor")
    _expect(type(requires_grad) is bool, "requires_grad is not true or false")
    return _torch.nn.Parameter(data, requires_grad)


def _set_attributes(loader, target, state):
    """Enters a dict into an object's attributes. No setter is called."""
    if type(state) is tuple and len(state) == 2 and not state[1]:
        state = state[0]
    if state is None:
        return
    _expect(type(state) is dict, "its attributes are no dict")
    loader.spend(len(state))
    _expect(all(type(key) is str and not key.startswith("__") for key in state), "its attributes have no plain names")
    vars(target).update(state)


def _parameter_with_state(loader, data, requires_grad, hooks, state):
    made = _parameter(loader, data, requires_grad)
    _set_attributes(loader, made, state)
    return made


def _from_type(loader, function, kind, args, state=None):
    """A tensor with attributes, or of a subclass."""
    _expect(isinstance(function, Inert) and not function.called and type(args) is tuple, "it is no tensor of a subclass")
    make = _TENSORS.get(function.name)
    if make is None or isinstance(kind, Inert):
        raise _NotMade(f"a tensor of the class {kind.name if isinstance(kind, Inert) else function.name}")
    _expect(kind is _torch.Tensor or kind is _torch.nn.Parameter, "its class is no class")
    _expect(len(args) <= _MOST_ARGUMENTS, "it has too many arguments")
    made = make(loader, *args)
    _expect(type(made) is kind, "it is of another class than it says")
    _set_attributes(loader, made, state)
    return made


def _other_tensor(kind):
    def refuse(loader, *args):
        raise _NotMade(f"{kind}, which is not read")

    return refuse


_LAYOUTS = {str(each): each for each in (
    getattr(_torch, name, None) for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
) if each is not None}  # fmt: skip

_TENSORS = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
}

_CALLS = {
    **_TENSORS,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "builtins.set": _set,
    "builtins.frozenset": _frozenset,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "_codecs.encode": _encode,
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
    **{f"torch._utils._rebuild_{name}": _other_tensor(kind) for name, kind in {
        "qtensor": "a quantized tensor of torch",
        "sparse_tensor": "a sparse tensor",
        "sparse_csr_tensor": "a sparse tensor",
        "nested_tensor": "a nested tensor",
        "meta_tensor_no_storage": "a meta tensor",
        "wrapper_subclass": "a tensor that keeps its elements elsewhere",
        "device_tensor_from_numpy": "a tensor of another device",
        "device_tensor_from_cpu_tensor": "a tensor of another device",
    }.items()},
}  # fmt: skip

_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}


def _make_constants():
    """What a name stands for that is not called: dtypes, types of storages, classes."""
    found = {f"torch.{name}": value for name, value in vars(_torch).items() if type(value) is _torch.dtype}
    found |= {f"torch.{name}": value for name, value in vars(_torch).items() if type(value) is _torch.qscheme}
    for name, dtype in {
        "BFloat16": "bfloat16", "Bool": "bool", "Byte": "uint8", "Char": "int8", "ComplexDouble": "complex128",
        "ComplexFloat": "complex64", "Double": "float64", "Float": "float32", "Half": "float16", "Int": "int32",
        "Long": "int64", "Short": "int16",
    }.items():  # fmt: skip
        found[f"torch.{name}Storage"] = _StorageType(getattr(_torch, dtype), f"{name}Storage")
    for name in ("torch.UntypedStorage", "torch.storage.UntypedStorage", "torch.storage._UntypedStorage"):
        found[name] = _StorageType(_torch.uint8, "UntypedStorage")
    found["torch.Tensor"] = _torch.Tensor
    found["torch.nn.parameter.Parameter"] = _torch.nn.Parameter
    return found


_CONSTANTS = _make_constants()


def _name_of(module, name):
    """The full name. A name with dots of its own must not look like that of another module."""
    return f"{_PYTHON_2.get(module, module)}{'.' if name.isidentifier() else ':'}{name}"


class _Loader:
    """Makes the objects of one file.

    The records come in the order in which the pickle makes its values, so what a tuple or a call
    needs is there. Lists, dicts and sets are made empty, and filled before a call that copies them,
    or at the end. So nothing here recurses, and values may contain themselves.
    """

    def __init__(self, model, shown, inert):
        self.model, self.shown, self.inert = model, shown, inert
        values = model._values()
        if values is None:
            raise self.error("this is no PyTorch checkpoint of one file: tenmap.open opens models in other formats")
        self.root, self.records, self.globals, self.storages, pickle_bytes = values
        self.left = 4 * pickle_bytes + 65536
        self.mapping, self.made = _UNSET, {}

    def error(self, message, place=None, status=Status.UNSUPPORTED):
        where = "" if place is None else f"pickle, byte {place}: "
        return Error(f"{self.shown}: {where}{message}", status, self.model.path, None, place)

    def failure(self, reason, record):
        """The error for what kept the object of a record from being made."""
        message = str(reason) if isinstance(reason, _Malformed) else f"the value cannot be made: {reason}"
        return self.error(message, record[_PLACE], Status.LIMIT if isinstance(reason, _TooMuch) else Status.FORMAT)

    # Limits

    def spend(self, count):
        """Counts what is copied or hashed. The file could otherwise have that done again and again."""
        self.left -= count
        if self.left < 0:
            raise _TooMuch("values are copied again and again, far more than the pickle has")

    def check_key(self, key, hashes):
        """Refuses keys that take long to hash, and many keys of one hash, which Python compares with
        each other. `hashes` counts those of the dict or set that the key is for.

        Python hashes a tuple anew each time, recursively. The hashes of numbers and tuples are known
        in advance; those of strings are not, and no two small integers but -1 and -2 have the same."""
        if not isinstance(key, (int, float, complex, tuple, frozenset)):
            return
        if isinstance(key, int) and key.bit_length() <= 60:
            return
        self.check_cost(key)
        hashed = hash(key)
        same = hashes.get(hashed, 0)
        self.spend(same)
        hashes[hashed] = same + 1

    def check_cost(self, key):
        """Refuses keys that take long to hash."""
        if not isinstance(key, (int, tuple, frozenset)):
            return
        level = [key]
        for _ in range(_DEEPEST_KEY):
            self.spend(sum(key.bit_length() >> 6 if isinstance(key, int) else len(key) + 1 for key in level))
            level = [item for each in level if not isinstance(each, int)
                     for item in each if isinstance(item, (int, tuple, frozenset))]  # fmt: skip
            if not level:
                return
        raise _TooMuch("a key is nested too deep")

    # Records

    def value(self, item):
        return item[_VALUE] if type(item) is list else item

    def values(self, items):
        return [item[_VALUE] if type(item) is list else item for item in items]

    def load(self):
        records = self.records
        try:
            self.refuse_code()
            for record in records:
                record[_VALUE] = _UNSET
            for record in records:
                self.make(record)
            for record in records:
                self.fill(record)
            return self.value(self.root)
        finally:
            for record in records:  # they refer to each other
                record.clear()

    def refuse_code(self):
        """Refuses a file that names what is not in the fixed list, unless placeholders may stand for it."""
        code = [(place, pair) for pair, place in self.globals.items()
                if not (_name_of(*pair) in _CALLS or _name_of(*pair) in _CONSTANTS)]  # fmt: skip
        if self.inert or not code:
            return
        code.sort()
        names = ", ".join(f'"{_shorten(name)}" of module "{_shorten(module)}" (byte {place})'
                          for place, (module, name) in code[:8])  # fmt: skip
        more = f", and {len(code) - 8} more" if len(code) > 8 else ""
        raise self.error(f"the file names code, or classes that are not made here: {names}{more}. Nothing of it was "
                         "imported or called; with inert=True, placeholders stand for it", code[0][0])  # fmt: skip

    def make(self, record):
        """Makes the object of a record; containers are empty."""
        kind = record[_KIND]
        try:
            if kind == "list":
                record[_VALUE] = []
            elif kind == "dict":
                record[_VALUE] = {}
            elif kind == "set":
                record[_VALUE] = set()
            elif kind == "global":
                record[_VALUE] = self.name(*record[_FIRST:])
            else:
                if kind == "object":
                    made = self.call(*record[_FIRST : _FIRST + 2])
                elif kind == "persistent":
                    made = self.storage(self.value(record[_FIRST]))
                else:  # its items were made before it
                    made = self.values(record[_FIRST])
                    made = tuple(made) if kind == "tuple" else _frozenset(self, made)
                record[_VALUE] = made
        except _NotMade as reason:
            if not self.inert:
                raise self.error(f"the value is {reason}", record[_PLACE]) from None
            record[_VALUE] = self.stand_in(record)
        except _FAILURES as reason:
            raise self.failure(reason, record) from None

    def name(self, module, name):
        """The class or dtype that a name stands for. What is a function is only named."""
        full = _name_of(module, name)
        return _CONSTANTS[full] if full in _CONSTANTS else Inert(full)

    def call(self, callable, arguments):
        """What a call, or making an instance, gives."""
        args = self.value(arguments)
        function = self.value(callable)
        if function is _UNSET or args is _UNSET:
            raise _Malformed("a call needs its own result")
        make = _CALLS.get(function.name) if type(function) is Inert and not function.called else None
        if make is None:
            raise _NotMade(f"made by {_describe(function)}, which is not called")
        if type(args) is not tuple or len(args) > _MOST_ARGUMENTS:
            raise _Malformed("the call has too many arguments")
        self.complete(arguments)
        return make(self, *args)

    def stand_in(self, record):
        if record[_KIND] != "object":
            return Inert("storage", True, (self.value(record[_FIRST]),))
        function, args = self.values(record[_FIRST : _FIRST + 2])
        name = function.name if type(function) is Inert and not function.called else _describe(function)
        return Inert(name, True, args)

    def complete(self, value):
        """Fills the lists and dicts that a call gets before it copies them."""
        waiting = [value]
        while waiting:
            record = waiting.pop()
            if type(record) is not list or record[_KIND] not in ("list", "dict", "set", "tuple", "frozenset"):
                continue
            items = record[_FIRST]
            if record[_KIND] in ("tuple", "frozenset"):
                record[_KIND] = "complete"
            else:
                self.fill(record)
            waiting.extend(item for item in items if type(item) is list)

    def fill(self, record):
        """Puts the items into a container, and the state into an object, once."""
        kind = record[_KIND]
        if kind not in ("list", "dict", "set", "object"):
            return
        made = record[_VALUE]
        record[_KIND] = "complete"
        try:
            if kind == "object":
                self.fill_object(made, *record[_FIRST + 2 :])
                return
            items = self.values(record[_FIRST])
            if any(each is _UNSET for each in items):
                raise _Malformed("a call needs its own result")
            if kind == "list":
                made.extend(items)
            elif kind == "set":
                made.update(_members(self, items))
            else:
                self.assign(made, items)
        except _FAILURES as reason:
            raise self.failure(reason, record) from None

    def assign(self, made, items):
        hashes = {}
        for key, value in zip(items[::2], items[1::2]):
            self.check_key(key, hashes)
            made[key] = value

    def fill_object(self, made, state, items, pairs):
        if type(made) is Inert:
            made.items = self.values(items)
            made.pairs = list(zip(*[iter(self.values(pairs))] * 2))
            made.state = self.value(state[0]) if state else None
            return
        is_dict = type(made) in (_collections.OrderedDict, _collections.Counter)
        if not is_dict and (state or items or pairs):
            raise _Malformed(f"a {type(made).__name__} is given items or a state")
        if items:
            raise _Malformed("a dict is given items without keys, or a call arguments by keyword")
        if pairs:
            self.assign(made, self.values(pairs))
        if state:
            self.complete(state[0])
            _set_attributes(self, made, self.value(state[0]))

    # Storages

    def storage(self, id):
        """("storage", type, key, location, number of elements[, view])"""
        if type(id) is not tuple or not 5 <= len(id) <= 6 or type(id[0]) is not str or id[0] != "storage":
            raise _NotMade("a reference to something that is no storage")
        _, kind, key, _, elements, *view = id
        if type(kind) is not _StorageType:
            raise _NotMade(f"a storage of the type {_describe(kind)}")
        if type(key) is not str or key not in self.storages:
            raise _Malformed(f"the storage {_shorten(repr(key))} is not in the file")
        at, size = self.storages[key]
        if not _is_count(elements) or elements * _element_bytes(kind.dtype) != size:
            raise _Malformed(f"the storage {_shorten(repr(key))} has {size} bytes, not the number of elements of "
                             f"{kind.name} that the pickle says")  # fmt: skip
        made = self.made.get(key)
        if made is None:
            made = self.made[key] = _typed(self.untyped(at, size, _element_bytes(kind.dtype)), kind.dtype)
        if made.dtype != kind.dtype:
            raise _Malformed(f"the storage {_shorten(repr(key))} holds {kind.dtype} here and {made.dtype} elsewhere")
        return self.part(made, key, view[0]) if view and view[0] is not None else made

    def part(self, whole, key, view):
        """(key, offset, number of elements): a part of a storage, as files from before torch 1.6 have it."""
        _expect(type(view) is tuple and len(view) == 3 and type(view[0]) is str, "a part of a storage has no key")
        begin, end = view[1], view[1] + view[2] if _is_count(view[1]) and _is_count(view[2]) else -1
        size = _element_bytes(whole.dtype)
        _expect(0 <= end <= whole._untyped_storage.nbytes() // size, "a part of a storage lies outside of it")
        made = self.made.get((key, view))
        if made is None:
            made = self.made[key, view] = _typed(whole._untyped_storage[begin * size : end * size], whole.dtype)
        return made

    def untyped(self, at, size, alignment):
        """The bytes as a storage: on a copy-on-write mapping of the file, or copied where there is none."""
        if size == 0:
            return _torch.UntypedStorage(0)
        if self.mapping is _UNSET:
            self.mapping = self.model._private(0)
        memory = self.mapping
        if memory is None or (memory.address + at) % alignment:
            view = self.model._bytes(at, size)
            if view is None:
                raise self.error("its tensors are on a server, or cannot be mapped: fetch the file first")
            memory, at = _core.memory(size), 0
            memoryview(memory)[:] = memoryview(view)
        return _torch.frombuffer(memory, dtype=_torch.uint8, count=size, offset=at).untyped_storage()


def _typed(storage, dtype):
    return _torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _shorten(text):
    return text if len(text) <= 60 else text[:57] + "..."


def _describe(function):
    if type(function) is Inert:
        return _shorten(function.name) + ("(...)" if function.called else "")
    return _shorten(f"{getattr(function, '__module__', 'torch')}.{getattr(function, '__name__', function)}")


def load(path, map_location=None, *, weights_only=True, mmap=True, inert=False, max_header_bytes=0):
    """Returns what torch.load(path, weights_only=True, mmap=True) would return: dicts, lists, tuples,
    numbers and strings, with torch tensors in them.

    Every tensor is on one copy-on-write mapping of the file: nothing is read before it is used, and
    writing to a tensor changes neither the file nor other loads. Tensors that share a storage in the
    file share memory, and strides are kept.

    path              a checkpoint of torch.save (str or PathLike); its bytes; or a binary file
                      object, which is read completely
    map_location      None or "cpu": all tensors are on the CPU, wherever they were saved
    weights_only, mmap  are there so that calls of torch.load need no change; weights_only=False is
                      refused
    inert             Inert placeholders stand for what would need code of the file's choosing. Without
                      it, a file that names such code is refused
    max_header_bytes  the most bytes of the pickle and the zip directory; 0: 100,000,000

    Raises tenmap.Error. docs/python.md lists what differs from torch.load.
    """
    if not weights_only:
        raise ValueError("tenmap.torch.load never runs what a file names: weights_only=False is not possible. With "
                         "inert=True, placeholders stand for objects of other classes")  # fmt: skip
    if map_location is not None and (
        not isinstance(map_location, (str, _torch.device)) or _torch.device(map_location).type != "cpu"
    ):
        raise ValueError(f'map_location is None or "cpu", not {map_location!r}: load, then call .to(device) on the tensors')
    if not _LITTLE:
        raise NotImplementedError("tenmap.torch.load maps little-endian files, which this machine cannot use in place")
    model, source = _Model.__new__(_Model), path
    if not isinstance(path, (str, _os.PathLike)) and hasattr(path, "read"):
        source = path.read()
    model._open_values(source, max_header_bytes)
    model._source = source
    try:
        return _Loader(model, f'"{model.path or "memory"}"', bool(inert)).load()
    finally:
        model.close()
