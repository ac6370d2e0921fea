"""A replacement for the package safetensors, version 0.8: the same names, signatures and results.

Use `import tenmap.safetensors as safetensors`, or tenmap.install(), which redirects every import of
safetensors. Improvements: numpy's slices, every dtype in numpy, folders and indexes in one handle,
duplicate names are refused, files appear whole or not at all.
"""

from ._open import _safe_open_handle, safe_open
from ._spec import SafetensorError, TensorSpec, deserialize, serialize, serialize_file
from . import _safetensors_rust  # noqa: F401  # programs use it as an attribute

__version__ = "0.8.0"

__all__ = ["SafetensorError", "TensorSpec", "deserialize", "safe_open", "serialize", "serialize_file"]
