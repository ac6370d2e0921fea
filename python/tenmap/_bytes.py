"""A file as bytes, and models from a list of files."""

import os

from . import _core
from ._errors import Error


def save(tensors, metadata=None, *, dtype=None):
    """The bytes of a file with these arrays: what save_file writes."""
    from ._arrays import Source
    from ._write import _pairs, _source, _strings, header

    sources = {}
    for name, value in _pairs(tensors):
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"no tensor is called {name!r}")
        source = _source(value, dtype)
        if isinstance(source.data, _core.Tensor):
            whole = source.data.bytes if source.data.dtype == source.name else source.data.numpy(source.name)
            source = Source(source.name, source.shape, whole) if source.data.dtype == source.name else _source(whole, None)
        sources[name] = source
    strings = _strings(metadata)
    for text in (*(strings or {}), *(strings or {}).values()):
        if not isinstance(text, str):
            raise TypeError(f"metadata must be strings, not {type(text)!r}")
    found = list(sources.values())
    entries = [(name, each.name, each.shape, _nbytes(each)) for name, each in sources.items()]
    text, order = header(entries, strings)
    return _core.assemble([text, *(found[i].data for i in order)])


def _nbytes(source):
    count = 1
    for n in source.shape:
        count *= n
    return _core.dtype_bytes(source.code, count)


def open_shards(paths, open_one):
    """Opens these files, in this order, as one model: open_one opens a folder of links to them."""
    paths = [os.path.abspath(os.fsdecode(path)) for path in paths]
    if not paths:
        raise ValueError("a list of no files has no model")
    if len(paths) == 1:
        return open_one(paths[0])
    for path in paths:
        os.stat(path)  # FileNotFoundError
        if not path.endswith(".safetensors"):
            raise ValueError(f"{path!r}: a list of files has names that end in .safetensors; of split GGUF files, open the first")
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="tenmap-shards-")
    links = [os.path.join(folder, f"model-{i + 1:05}-of-{len(paths):05}.safetensors") for i in range(len(paths))]
    try:
        for path, link in zip(paths, links):
            os.symlink(path, link)
        return open_one(folder)
    except Error as error:
        for path, link in zip(paths, links):  # the error is about the files, not about the links
            error.message = error.message.replace(link, path).replace(os.path.basename(link), path)
            error.path = path if error.path == link else error.path
        error.message = error.message.replace(f'"{folder}": ', "")
        error.args = (error.message,)
        raise
    finally:  # an open model has its files, whatever becomes of their names
        shutil.rmtree(folder, ignore_errors=True)


save.__module__ = "tenmap"
