from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np

from . import TensorSpec as TensorSpec
from . import deserialize as deserialize
from . import safe_open as safe_open
from . import serialize as serialize
from . import serialize_file as serialize_file

def save(tensor_dict: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str] | None = None) -> bytes: ...
def save_file(
    tensor_dict: Mapping[str, np.ndarray[Any, Any]], filename: str | PathLike[str], metadata: Mapping[str, str] | None = None
) -> None: ...
def load(data: bytes) -> dict[str, np.ndarray[Any, Any]]: ...
def load_file(filename: str | PathLike[str], *, backend: Literal["mmap", "pread"] = "mmap") -> dict[str, np.ndarray[Any, Any]]: ...
