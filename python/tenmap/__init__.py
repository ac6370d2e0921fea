"""Model weights in SafeTensors, GGUF, PyTorch and NumPy files, memory-mapped.

    import tenmap

    with tenmap.open("model.safetensors") as model:     # a file, an index or a folder; header only
        for name, tensor in model.items():
            print(name, tensor.dtype, tensor.shape)
        rows = model["lm_head.weight"][:16].numpy()      # a view, read-only
        weights = model.load(dtype="float32")            # all of them, converted, on all cores

    tenmap.save_file({"w": rows}, "out.safetensors")
    merged = tenmap.derive({**base, "w": base["w"] + 0.8 * (b @ a)})    # a model, computed when read

tenmap.install() makes `import safetensors` mean tenmap.safetensors.
"""

from . import _core
from ._bytes import save
from ._errors import Error, Remedy, Status
from ._inspect import Finding, Stats, check, measure
from ._into import IncompatibleKeys, load_into
from ._model import Model, Part, Shard, Tensor, open
from ._plan import shard_plan
from ._write import Writer, convert, edit_metadata, rename, save_file, save_sharded

__version__ = _core.version

__all__ = [
    "Diff", "Error", "Expression", "FileHash", "Finding", "IncompatibleKeys", "Model", "ModelHash", "Part", "Remedy",
    "Shard", "Stats", "Status", "Tensor", "TensorDiff", "TensorHash", "Writer", "Written", "apply_lora", "check", "concat",
    "convert", "convert_model", "derive", "diff", "edit_metadata", "expr", "hash", "install", "keep_memory", "load_into", "measure",
    "open", "quantize_model", "rename", "save", "save_file", "save_sharded", "shard_plan", "stack", "uninstall",
]  # fmt: skip


_IN_COMMAND = {
    "Diff", "FileHash", "ModelHash", "TensorDiff", "TensorHash", "Written", "convert_model", "diff", "hash",
    "quantize_model",
}  # fmt: skip
_IN_DERIVE = {"Expression", "concat", "derive", "expr", "stack"}


def __getattr__(name):
    """Imports rarely used modules on first use."""
    if name in ("safetensors", "torch"):
        import importlib

        return importlib.import_module(f"tenmap.{name}")
    if name in _IN_COMMAND:
        from . import _command

        return getattr(_command, name)
    if name == "apply_lora":
        from ._lora import apply_lora

        return apply_lora
    if name in _IN_DERIVE:
        from . import _derive

        return getattr(_derive, name)
    raise AttributeError(f"module 'tenmap' has no attribute {name!r}")


def keep_memory(limit):
    """Keeps up to `limit` bytes of memory that load, numpy and torch gave to arrays and that was freed,
    for later loads: fresh memory takes several times as long to fill. 0, as at the start: none.

    Returns the bytes that are kept now. Lowering the limit frees memory at once."""
    return _core.keep_memory(limit)


def install(version=None):
    """Makes `import safetensors` and imports of its submodules return tenmap.safetensors, in this
    process and in those that it starts. Raises ImportError if safetensors was imported before.

    version: of safetensors, which is then reported to programs that ask; None: "0.8.0"."""
    from ._install import install

    install(version)


def uninstall():
    """Undoes install(). Modules that were imported meanwhile leave sys.modules and do not
    change."""
    from ._install import uninstall

    uninstall()
