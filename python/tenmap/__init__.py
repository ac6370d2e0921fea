"""Model weights in the SafeTensors format, memory-mapped.

    import tenmap

    with tenmap.open("model.safetensors") as model:     # a file, an index or a folder; header only
        for name, tensor in model.items():
            print(name, tensor.dtype, tensor.shape)
        rows = model["lm_head.weight"][:16].numpy()      # in place, read-only
        weights = model.load(dtype="float32")            # all of them, converted, on all cores

    tenmap.save_file({"w": rows}, "out.safetensors")

tenmap.install() makes `import safetensors` mean tenmap.safetensors.
"""

from . import _core
from ._errors import Error, Status
from ._inspect import Finding, Stats, check, measure
from ._model import Model, Shard, Tensor, open
from ._write import Writer, convert, edit_metadata, rename, save_file, save_sharded

__version__ = _core.version

__all__ = [
    "Error", "Finding", "Model", "Shard", "Stats", "Status", "Tensor", "Writer", "check", "convert",
    "edit_metadata", "install", "measure", "open", "rename", "save_file", "save_sharded", "uninstall",
]  # fmt: skip


def install():
    """From now on `import safetensors` and its submodules give tenmap.safetensors, in this process and
    in those that it starts. Refused with an ImportError if safetensors was imported before."""
    from ._install import install

    install()


def uninstall():
    """Takes install() back: modules that were imported meanwhile are forgotten, not changed."""
    from ._install import uninstall

    uninstall()
