"""The exceptions: tenmap.Error, and subclasses that are also Python's own exceptions."""

from enum import IntEnum


class Status(IntEnum):
    """What went wrong, for programs: the library's TENMAP_ERR_* numbers."""

    ARGUMENT = 1
    MEMORY = 2
    IO = 3
    FORMAT = 4
    LIMIT = 5
    UNSUPPORTED = 6
    NOT_FOUND = 7
    DTYPE = 8
    ALIGNMENT = 9
    RANGE = 10
    BUFFER = 11
    NO_SPACE = 12
    CANCELLED = 13


class Remedy(IntEnum):
    """What would help, for programs: the library's TENMAP_REMEDY_* numbers. NONE is false."""

    NONE = 0
    ALLOW_PARTIAL = 1
    ALLOW_LENIENT = 2
    DEQUANTIZE = 3
    BACKEND_READ = 4
    RAISE_HEADER_LIMIT = 5
    FETCH_AGAIN = 6
    REPAIR = 7
    AS_STORED = 8
    LATER_WINS = 9
    OPEN_AGAIN = 10
    TRY_AGAIN = 11
    CONVERT = 12
    RAISE_PROCESS_LIMIT = 13
    READ = 14
    PARTS = 15
    OPEN_ONE = 16
    DOWNLOAD = 17
    CREDENTIALS = 18


class Error(Exception):
    """A failure of the library: `status` and `remedy` are for programs, `message` for people.

    `path`, `tensor` and `offset` (in bytes, in that file) say where; None if it does not apply. An
    error about a missing file is also a FileNotFoundError, about a missing tensor a KeyError, from
    the system an OSError (with errno), about memory a MemoryError.
    """

    status: Status
    message: str
    remedy = Remedy.NONE
    path = None
    tensor = None
    offset = None
    index = 0

    def __init__(self, message="", status=Status.ARGUMENT, path=None, tensor=None, offset=None):
        super().__init__(message)
        self.message = message
        self.status = status
        self.path = path
        self.tensor = tensor
        self.offset = offset

    def __str__(self):
        return self.message

    def __reduce__(self):
        errno = getattr(self, "errno", None) or 0
        place = (self.offset, self.index, self.path, self.tensor)
        return make, (int(self.status), self.message, errno, int(self.remedy), *place)


class _System(Error, OSError):
    pass


class _NotFound(Error, FileNotFoundError):
    pass


class _NoTensor(Error, KeyError):
    def __reduce__(self):
        return missing, (self.message, int(self.remedy), self.index, self.path, self.tensor)


class _Denied(Error, PermissionError):
    pass


class _Memory(Error, MemoryError):
    pass


for _kind in (_System, _NotFound, _NoTensor, _Denied, _Memory):
    _kind.__name__ = _kind.__qualname__ = "Error"
    _kind.__module__ = "tenmap"
Error.__module__ = Status.__module__ = Remedy.__module__ = "tenmap"

_kinds = {
    Status.MEMORY: _Memory,
    Status.IO: _System,
    Status.NOT_FOUND: _NotFound,
    Status.NO_SPACE: _System,
}


def make(status, message, os_error, remedy, offset, index, path, tensor):
    """Called by the extension module: makes the exception for an error of the library."""
    kind = _kinds.get(status, Error)
    if os_error in (1, 13) and issubclass(kind, OSError):  # EPERM, EACCES
        kind = _Denied
    error = kind.__new__(kind)  # not through OSError's arguments, which mean something else
    Error.__init__(error, message, Status(status), path or None, tensor, offset or None)
    if os_error and isinstance(error, OSError):
        error.errno = os_error
    elif isinstance(error, FileNotFoundError):
        error.errno = 2
    error.remedy = Remedy(remedy)
    error.index = index
    return error


def missing(message, remedy, index, path, tensor):
    """The exception for a missing tensor: a KeyError."""
    error = _NoTensor(message, Status.NOT_FOUND, path, tensor)
    error.remedy = Remedy(remedy)
    error.index = index
    return error
