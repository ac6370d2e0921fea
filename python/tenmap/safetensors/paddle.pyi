from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal

from . import TensorSpec as TensorSpec
from . import deserialize as deserialize
from . import numpy as numpy
from . import safe_open as safe_open
from . import serialize as serialize
from . import serialize_file as serialize_file

def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes: ...
def save_file(
    tensors: Mapping[str, Any], filename: str | PathLike[str], metadata: Mapping[str, str] | None = None
) -> None: ...
def load(data: bytes, device: str | int = "cpu") -> dict[str, Any]: ...
def load_file(
    filename: str | PathLike[str], device: str | int = "cpu", *, backend: Literal["mmap", "pread"] = "mmap"
) -> dict[str, Any]: ...
