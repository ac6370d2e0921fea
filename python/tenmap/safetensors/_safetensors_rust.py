"""The names that some programs import from the reference's compiled module."""

from . import (
    PrefetchLoader,
    PySafeSlice,
    SafetensorError,
    TensorMeta,
    TensorSpec,
    __version__,
    _safe_open_handle,
    deserialize,
    safe_open,
    serialize,
    serialize_file,
)
from ._prefetch import TensorStream

__all__ = [
    "PrefetchLoader", "PySafeSlice", "SafetensorError", "TensorMeta", "TensorSpec", "TensorStream", "__version__",
    "_safe_open_handle", "deserialize", "safe_open", "serialize", "serialize_file",
]  # fmt: skip
