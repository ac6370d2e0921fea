"""Callers whose code misbehaves whenever Python runs it: for test_hostile.py and
hostile_random.py."""

import contextlib
import gc
import io
import os
import sys
import types

HAS_BUFFER_METHOD = sys.version_info >= (3, 12)


class Index:
    """An integer whose __index__ does something first."""

    def __init__(self, value, action):
        self.value, self.action = value, action

    def __index__(self):
        self.action()
        return self.value


class Items:
    """A sequence whose __iter__ and __len__ do something first."""

    def __init__(self, items, action):
        self.items, self.action = items, action

    def __iter__(self):
        self.action()
        return iter(self.items)

    def __len__(self):
        self.action()
        return len(self.items)


class Name(str):
    """A name whose comparisons and hash do something first."""

    action = staticmethod(lambda: None)

    def __hash__(self):
        self.action()
        return str.__hash__(self)

    def __eq__(self, other):
        self.action()
        return str.__eq__(self, other)


class Path(os.PathLike):
    """A path whose __fspath__ does something first."""

    def __init__(self, path, action):
        self.path, self.action = path, action

    def __fspath__(self):
        self.action()
        return os.fspath(self.path)


class Buffer:
    """Bytes whose __buffer__ does something first: from Python 3.12 on."""

    def __init__(self, data, action):
        self.data, self.action = data, action

    def __buffer__(self, flags):
        self.action()
        return memoryview(self.data)

    def __release_buffer__(self, view):
        self.action()
        view.release()


class File(io.BytesIO):
    """A file whose read() and seek() do something first, with the requested offset and length."""

    def __init__(self, data, action):
        super().__init__(data)
        self.action = action

    def read(self, size=-1):
        answer = self.action(self.tell(), size)
        return super().read(size) if answer is None else answer


class Storage:
    """A substitute for torch.UntypedStorage, on a bytearray that may be replaced."""

    def __init__(self, data):
        self.data = data

    def data_ptr(self):
        import numpy

        return numpy.frombuffer(self.data, "uint8").ctypes.data if self.data else 0

    def nbytes(self):
        return len(self.data)

    def resize_(self, size):
        self.data = bytearray(size)


class Device:
    type = "cpu"


class TorchTensor:
    """The part of a torch tensor that tenmap uses: F32, contiguous, on a Storage."""

    layout, device = "strided", Device()

    def __init__(self, array):
        self.dtype, self.shape = array.dtype, array.shape
        self.storage = Storage(bytearray(array.tobytes()))

    def __getattr__(self, name):
        if name in ("detach", "contiguous", "resolve_conj", "resolve_neg"):
            return lambda: self
        raise AttributeError(name)

    def numel(self):
        count = 1
        for n in self.shape:
            count *= n
        return count

    def element_size(self):
        return 4

    def is_contiguous(self):
        return True

    def data_ptr(self):
        return self.storage.data_ptr()

    def untyped_storage(self):
        return self.storage


@contextlib.contextmanager
def stand_in_for_torch():
    """Makes `torch` a module whose tensors can be resized in every way, with or without torch."""
    before = sys.modules.get("torch")
    torch = types.ModuleType("torch")
    torch.Tensor, torch.strided = TorchTensor, "strided"
    sys.modules["torch"] = torch
    try:
        yield torch
    finally:
        del sys.modules["torch"]
        if before is not None:
            sys.modules["torch"] = before


@contextlib.contextmanager
def collecting(action, every=1):
    """Each garbage collection, one per `every` allocations, does something."""

    def callback(phase, info):
        if phase == "start":
            action()

    before = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(gc.get_count()[0] + every)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)


def fork():
    """Forks a child that exits at once, as it must if there are threads, and waits for it."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
