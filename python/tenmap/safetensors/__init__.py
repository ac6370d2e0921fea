"""A stand-in for the package safetensors, version 0.8: the same names, signatures and results.

`import tenmap.safetensors as safetensors`, or tenmap.install() to have every import of safetensors
mean this. What is better here: slices as numpy has them, every dtype in numpy, folders and indexes in
one handle, names that are there twice are refused, files that appear whole or not at all.
"""

from ._open import _safe_open_handle, safe_open
from ._spec import SafetensorError, TensorSpec, deserialize, serialize, serialize_file

__version__ = "0.8.0"

__all__ = ["SafetensorError", "TensorSpec", "deserialize", "safe_open", "serialize", "serialize_file"]
