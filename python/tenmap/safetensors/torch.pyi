from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Literal

import torch  # type: ignore[import-not-found, unused-ignore]

from . import TensorSpec as TensorSpec
from . import deserialize as deserialize
from . import safe_open as safe_open
from . import serialize as serialize
from . import serialize_file as serialize_file

def storage_ptr(tensor: torch.Tensor) -> int: ...
def storage_size(tensor: torch.Tensor) -> int: ...
def save(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> bytes: ...
def save_file(
    tensors: Mapping[str, torch.Tensor], filename: str | PathLike[str], metadata: Mapping[str, str] | None = None
) -> None: ...
def load(data: bytes) -> dict[str, torch.Tensor]: ...
def load_file(
    filename: str | PathLike[str],
    device: str | int | torch.device = "cpu",
    *,
    backend: Literal["mmap", "pread"] = "mmap",
) -> dict[str, torch.Tensor]: ...
def save_model(
    model: torch.nn.Module,
    filename: str | PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None: ...
def load_model(
    model: torch.nn.Module,
    filename: str | PathLike[str],
    strict: bool = True,
    device: str | int | torch.device = "cpu",
    *,
    backend: Literal["mmap", "pread"] = "mmap",
) -> tuple[Iterable[str], Iterable[str]]: ...
