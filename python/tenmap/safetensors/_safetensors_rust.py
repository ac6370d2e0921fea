"""The names that some programs import from the reference's compiled module."""

from . import SafetensorError, TensorSpec, _safe_open_handle, deserialize, safe_open, serialize, serialize_file

__all__ = [
    "SafetensorError", "TensorSpec", "_safe_open_handle", "deserialize", "safe_open", "serialize", "serialize_file",
]  # fmt: skip
