"""Writing: whole files, shards, a streaming writer, edits of metadata."""

import os
from collections.abc import Mapping

from . import _core
from ._arrays import Source, numpy_array, source_of, torch_tensor, is_torch
from ._dtypes import BITS, CODES, LITTLE, TABLE, code_of, name_of
from ._model import Tensor, _Progress, open


def _writer_flags(keep_order, follow_links):
    return (_core.WRITER_KEEP_ORDER if keep_order else 0) | (_core.WRITER_FOLLOW_LINKS if follow_links else 0)


def _pairs(tensors):
    if isinstance(tensors, Mapping) or hasattr(tensors, "items"):
        return list(tensors.items())
    raise TypeError(f"expected a mapping of names to arrays, not {type(tensors)!r}")


def _sources(tensors, dtype=None):
    result = []
    for name, value in _pairs(tensors):
        try:
            source = _source(value, dtype)
        except (TypeError, ValueError) as refused:
            # Not the exception's own class, which may need other arguments than a message.
            kind = TypeError if isinstance(refused, TypeError) else ValueError
            raise kind(f"{name!r}: {refused}") from None
        result.append((name, source.code, source.shape, source.data))
    return result


def _source(value, dtype):
    """The Source for a value; floating-point values get that dtype, if one is given."""
    wanted = None if dtype is None else name_of(dtype)
    if wanted is not None and isinstance(value, _core.Tensor) and _is_float(value.dtype):
        if value._whole:  # converted while it is written
            return Source(wanted, value.shape, value)
        return source_of(value.numpy(wanted))
    source = source_of(value)
    if wanted is None or wanted == source.name or not _is_float(source.name):
        return source
    return source_of(convert(value, wanted))


def _is_float(name):
    return name not in TABLE or (name[0] in "FB" and name != "BOOL")


def _strings(metadata):
    """The caller's dict, which the extension copies before any other code runs, or a mapping as
    one."""
    if metadata is None or isinstance(metadata, dict):
        return metadata
    if isinstance(metadata, Mapping):
        return dict(metadata)
    raise TypeError(f"metadata must be a dict of strings, not {type(metadata)!r}")


def save_file(tensors, path, metadata=None, *, dtype=None, alignment=0, slack=0, keep_order=False,
              follow_links=False, threads=0, progress=None):  # fmt: skip
    """Writes a mapping of names to arrays (numpy, torch, Tensors, buffers) to one file.

    dtype converts floating-point tensors while they are written, block dtypes included; other
    tensors stay as they are.

    The file appears whole or not at all: after any failure the old one is still there. The layout
    is the reference's, byte for byte, unless alignment (of the data), slack (spare bytes for later
    edits of metadata) or keep_order change it.
    """
    flags = _writer_flags(keep_order, follow_links)
    with _Progress(progress) as report:
        _core.save(path, _sources(tensors, dtype), _strings(metadata), (alignment, slack, flags), 0, threads, report)


def save_sharded(tensors, folder, max_shard_bytes=5_000_000_000, metadata=None, *, dtype=None, alignment=0,
                 slack=0, keep_order=False, keep_old=False, threads=0, progress=None):  # fmt: skip
    """Writes a mapping of names to arrays to a folder: shards and their index, or model.safetensors
    if everything fits into one file. dtype is as in save_file. An existing model is replaced by one
    rename."""
    flags = (_core.SAVE_KEEP_OLD if keep_old else 0) | (_core.SAVE_KEEP_ORDER if keep_order else 0)
    sources = _sources(tensors, dtype)
    os.makedirs(folder, exist_ok=True)
    with _Progress(progress) as report:
        _core.save_sharded(folder, sources, _strings(metadata), max_shard_bytes,
                           (alignment, slack, flags), 0, threads, report)  # fmt: skip


_HOW = {
    0: "unchanged",
    _core.EDIT_IN_PLACE: "in place",
    _core.EDIT_CLONED: "cloned",
    _core.EDIT_COPIED: "copied",
}


def _edit_flags(in_place, clone, copy, follow_links):
    return (
        (0 if in_place else _core.EDIT_NO_IN_PLACE)
        | (0 if clone else _core.EDIT_NO_CLONE)
        | (0 if copy else _core.EDIT_NO_COPY)
        | (_core.EDIT_FOLLOW_LINKS if follow_links else 0)
    )


def edit_metadata(path, changes, *, in_place=True, clone=True, copy=True, follow_links=False):
    """Sets keys of a file's metadata; a value of None removes the key. All changes are made or
    none.

    Returns how it was done: "in place" in the header, or as a new file that is "cloned" (shares the
    old one's blocks) or "copied". in_place, clone and copy say which of these are allowed.
    """
    flags = _edit_flags(in_place, clone, copy, follow_links)
    return _HOW[_core.rename(path, None, _strings(changes), flags)]


def rename(path, names, metadata=None, *, in_place=True, clone=True, copy=True, follow_links=False):
    """Renames tensors of a file, {old: new}, without rewriting their data if the names fit.

    All names change at once or none does, so two tensors can swap names. `metadata` is edited in
    the same step, as by edit_metadata. Returns how it was done, like edit_metadata. Refuses shards.
    """
    flags = _edit_flags(in_place, clone, copy, follow_links)
    return _HOW[_core.rename(path, dict(names), _strings(metadata), flags)]


class Writer(_core.Writer):
    """Writes a file piece by piece, in a with statement: declare all tensors, then write their
    bytes.

        with tenmap.Writer("out.safetensors", metadata={"format": "pt"}) as writer:
            writer.add("w", "F32", [1024, 1024])
            writer["b"] = numpy.zeros(1024)      # declared now, written at the end
            writer.write("w", rows, offset=0)    # any part, in any order, from any thread

    Leaving the block commits: the file appears, complete. After an exception the old file is still
    there.
    """

    __slots__ = ("_path", "_ids", "_later")

    def __init__(self, path, metadata=None, *, alignment=0, slack=0, keep_order=False, follow_links=False):
        flags = _writer_flags(keep_order, follow_links)
        self._create(path, alignment, slack, flags)
        self._path = path
        self._ids = {}
        self._later = {}
        if metadata is not None:
            self._metadata(_strings(metadata))

    def add(self, name, dtype, shape):
        """Declares a tensor. All tensors must be declared before the first bytes are written."""
        code = code_of(dtype)
        self._ids[name] = (self._add(name, code, shape), name_of(dtype))

    def __setitem__(self, name, value):
        source = source_of(value)
        self.add(name, source.name, source.shape)
        self._later[name] = source

    def _id(self, name):
        try:
            return self._ids[name]
        except KeyError:
            raise KeyError(f"{name!r} was not declared: add it first") from None

    def write(self, name, data, offset=0):
        """Writes bytes of a tensor as the file will hold them, or an array of its dtype, starting
        at this byte offset in the tensor. No byte may be written twice."""
        number, dtype = self._id(name)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            source = source_of(data)
            if source.name != dtype and source.name != "U8":
                raise ValueError(f"{name!r} is {dtype}, not {source.name}: convert it first")
            data = source.data.bytes if isinstance(source.data, _core.Tensor) else source.data
        self._write(number, offset, data)

    def copy(self, name, tensor, saturate=False):
        """Copies a whole Tensor of an open model, converted if the dtypes differ."""
        if not tensor._whole:
            raise ValueError("whole tensors are copied: write() takes slices")
        self._copy(self._id(name)[0], tensor, _core.CONVERT_SATURATE if saturate else 0)

    def commit(self):
        """Finishes the file, which then appears, complete. Refused while bytes are missing."""
        for name, source in self._later.items():
            if isinstance(source.data, _core.Tensor):
                self.copy(name, source.data)
            else:
                self._write(self._id(name)[0], 0, source.data)
        self._later = {}
        self._commit()

    def abort(self):
        """Ends the writer and leaves no trace."""
        self._abort()

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, traceback):
        if self.ended:
            return
        if kind is not None:
            self._abort()
            return
        try:
            self.commit()
        finally:
            self._abort()

    def __repr__(self):
        return f"<tenmap.Writer {os.fspath(self._path)!r}: {len(self._ids)} tensors{', ended' if self.ended else ''}>"


for _each in (save_file, save_sharded, edit_metadata, rename, Writer):
    _each.__module__ = "tenmap"


def header(entries, metadata=None):
    """The length field and the JSON text of a file with these (name, dtype, shape, bytes), in the
    order and with the padding that the reference writes; and that order."""
    import json

    order = sorted(range(len(entries)), key=lambda i: (-CODES[entries[i][1]], entries[i][0]))
    text = {}
    if metadata is not None:
        text["__metadata__"] = dict(sorted(metadata.items()))
    place = 0
    for i in order:
        name, dtype, shape, size = entries[i]
        text[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    body = json.dumps(text, ensure_ascii=False, separators=(",", ":")).encode()
    body += b" " * (-len(body) % 8)
    return len(body).to_bytes(8, "little") + body, order


def in_memory(source):
    """An array as the only Tensor of a model in memory."""
    data = source.data.bytes if isinstance(source.data, _core.Tensor) else source.data
    text, _ = header([("", source.name, source.shape, memoryview(data).nbytes)])
    return open(_core.assemble([text, data]))[""]


def convert(array, dtype, *, saturate=False):
    """Converts an array to another dtype, correctly rounded: every floating-point dtype to every
    other, integers and booleans to floating point. The result for numpy arrays and Tensors is a
    numpy array, for torch tensors a torch tensor.

    saturate=True makes values that overflow the largest finite value instead of infinity.
    """
    source, name = source_of(array), name_of(dtype)
    data = source.data.bytes if isinstance(source.data, _core.Tensor) else source.data
    if not LITTLE:
        if saturate:
            raise ValueError("saturate works only on little-endian machines")
        return in_memory(source).numpy(name, writable=True)
    count = 1
    for n in source.shape:
        count *= n
    memory = _core.convert(source.code, CODES[name], count, _core.CONVERT_SATURATE if saturate else 0, data)
    if is_torch(array):
        return torch_tensor(memory, 0, name, source.shape)
    if BITS[name] < 8:
        return in_memory(Source(name, source.shape, memory)).numpy(writable=True)
    return numpy_array(memory, 0, name, source.shape)


convert.__module__ = "tenmap"
