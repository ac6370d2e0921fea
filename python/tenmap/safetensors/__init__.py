"""A replacement for the package safetensors, versions 0.8 and 0.9: the same names, signatures and
results.

Use `import tenmap.safetensors as safetensors`, or tenmap.install(), which redirects every import of
safetensors. Improvements: numpy's slices, every dtype in numpy, folders and indexes in one handle,
duplicate names are refused, files appear whole or not at all.
"""

from .._version import reported
from ._open import PySafeSlice, _safe_open_handle, safe_open
from ._prefetch import PrefetchLoader, TensorMeta
from ._spec import SafetensorError, TensorSpec, deserialize, serialize, serialize_file

__version__ = reported()

__all__ = [
    "PrefetchLoader", "PySafeSlice", "SafetensorError", "TensorMeta", "TensorSpec", "deserialize", "safe_open",
    "serialize", "serialize_file",
]  # fmt: skip

# Programs use it as an attribute. It imports the names above.
from . import _safetensors_rust  # noqa: E402, F401
