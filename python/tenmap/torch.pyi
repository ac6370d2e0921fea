from os import PathLike
from typing import Any, BinaryIO

from torch import device as _device  # type: ignore[import-not-found, unused-ignore]

__all__ = ["Inert", "load"]

class Inert:
    name: str
    called: bool
    args: Any
    state: Any
    items: list[Any]
    pairs: list[tuple[Any, Any]]
    def __init__(self, name: str, called: bool = False, args: Any = (), state: Any = None) -> None: ...

def load(
    path: str | PathLike[str] | bytes | bytearray | memoryview | BinaryIO,
    map_location: str | _device | None = None,
    *,
    weights_only: bool = True,
    mmap: bool = True,
    inert: bool = False,
    max_header_bytes: int = 0,
) -> Any: ...
