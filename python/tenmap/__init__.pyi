from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from enum import IntEnum
from os import PathLike
from types import EllipsisType
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, overload

from numpy.typing import NDArray
from torch import Tensor as _Torch  # type: ignore[import-not-found, unused-ignore]

__version__: str
__all__: list[str]

_T = TypeVar("_T")
_Out = TypeVar("_Out", bound=Mapping[str, Any])

_Path = str | PathLike[str]
_Source = _Path | bytes | bytearray | memoryview | BinaryIO
_Progress = Callable[[int, int], Any] | Any  # or a tqdm bar, tqdm itself, or rich's Progress
_Dtype = Any  # "BF16", "bfloat16", numpy's, ml_dtypes' or torch's
_Array = NDArray[Any]
_TorchTensor = TypeVar("_TorchTensor", bound=_Torch)
_Index = int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]

class Status(IntEnum):
    ARGUMENT = 1
    MEMORY = 2
    IO = 3
    FORMAT = 4
    LIMIT = 5
    UNSUPPORTED = 6
    NOT_FOUND = 7
    DTYPE = 8
    ALIGNMENT = 9
    RANGE = 10
    BUFFER = 11
    NO_SPACE = 12
    CANCELLED = 13

class Remedy(IntEnum):
    NONE = 0
    ALLOW_PARTIAL = 1
    ALLOW_LENIENT = 2
    DEQUANTIZE = 3
    BACKEND_READ = 4
    RAISE_HEADER_LIMIT = 5
    FETCH_AGAIN = 6
    REPAIR = 7
    AS_STORED = 8
    LATER_WINS = 9
    OPEN_AGAIN = 10
    TRY_AGAIN = 11
    CONVERT = 12
    RAISE_PROCESS_LIMIT = 13
    READ = 14
    PARTS = 15
    OPEN_ONE = 16
    DOWNLOAD = 17
    CREDENTIALS = 18

class Error(Exception):
    status: Status
    remedy: Remedy
    message: str
    path: str | None
    tensor: str | None
    offset: int | None
    index: int
    def __init__(
        self,
        message: str = "",
        status: Status = ...,
        path: str | None = None,
        tensor: str | None = None,
        offset: int | None = None,
    ) -> None: ...

@dataclass
class TensorDiff:
    name: str
    count: int
    different: int = 0
    beyond_tolerance: int = 0
    nonfinite_mismatches: int = 0
    max_abs: float | None = None
    mean_abs: float | None = None
    max_rel: float | None = None
    mean_rel: float | None = None
    relative_change: float | None = None
    cosine: float | None = None
    json: dict[str, Any] = ...

@dataclass
class Diff:
    equal: bool
    in_both: int = 0
    only_in_a: list[str] = ...
    only_in_b: list[str] = ...
    dtypes: list[dict[str, Any]] = ...
    shapes: list[dict[str, Any]] = ...
    metadata: list[dict[str, Any]] = ...
    values: list[TensorDiff] = ...
    notes: list[str] = ...
    chosen_options: list[str] = ...
    json: dict[str, Any] = ...

@dataclass
class FileHash:
    file: str
    size: int
    sha256: str
    json: dict[str, Any] = ...

@dataclass
class TensorHash:
    name: str
    dtype: str
    shape: list[int]
    fingerprint: str
    json: dict[str, Any] = ...

@dataclass
class ModelHash:
    model: str
    fingerprint: str
    tensors: list[TensorHash] = ...
    json: dict[str, Any] = ...

@dataclass
class Written:
    output: str
    written: bool
    files: int = 0
    tensors: int = 0
    converted: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    changes: list[dict[str, Any]] = ...
    losses: dict[str, int] = ...
    json: dict[str, Any] = ...

class Shard(NamedTuple):
    path: str
    size: int
    header_bytes: int
    data_offset: int
    first_tensor: int
    tensor_count: int
    metadata: dict[str, Any]
    format: str
    branch: str | None
    other_tensors: int

class Finding(NamedTuple):
    severity: Literal["error", "warning", "note"]
    code: str
    shard: int | None
    offset: int
    tensor: str | None
    message: str
    remedy: Remedy

class Stats(NamedTuple):
    count: int  # type: ignore[assignment]  # as tuple.count is at run time too
    zeros: int
    subnormals: int
    nans: int
    infinities: int
    min: float
    max: float
    mean: float
    std: float
    norm: float
    histogram: list[int] | None
    edges: list[float] | None

class Part(NamedTuple):
    role: str
    tensor: Tensor

class _Operators:  # Tensors and Expressions
    def __add__(self, other: _Operators | Literal[0], /) -> Expression: ...
    def __radd__(self, other: Literal[0], /) -> Expression: ...  # as sum() begins
    def __sub__(self, other: _Operators, /) -> Expression: ...
    def __neg__(self) -> Expression: ...
    def __pos__(self) -> Expression: ...
    def __mul__(self, factor: float, /) -> Expression: ...
    def __rmul__(self, factor: float, /) -> Expression: ...
    def __truediv__(self, divisor: float, /) -> Expression: ...
    def __matmul__(self, other: _Operators, /) -> Expression: ...

class Expression(_Operators):
    __array_ufunc__: None
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def T(self) -> Expression: ...
    def __init__(self, *args: Any, **keywords: Any) -> None: ...  # raises: tenmap.expr makes them
    def transpose(self, *axes: int | Sequence[int] | None) -> Expression: ...
    def reshape(self, *shape: int | Sequence[int]) -> Expression: ...
    def __getitem__(self, index: _Index, /) -> Expression: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...

class Tensor(_Operators):
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def shard(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def scheme(self) -> str: ...
    @property
    def family(self) -> str | None: ...
    @property
    def mapped(self) -> bool: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def T(self) -> _Array: ...
    @property
    def parts(self) -> list[Part]: ...
    @property
    def bytes(self) -> memoryview: ...
    @property
    def buffer(self) -> memoryview: ...
    def numpy(self, dtype: _Dtype | None = None, *, writable: bool = False) -> _Array: ...
    def torch(self, dtype: _Dtype | None = None) -> _Torch: ...
    def astype(self, dtype: _Dtype) -> _Array: ...
    def to(self, *args: Any, **keywords: Any) -> _Torch: ...
    def copy(self, dtype: _Dtype | None = None) -> _Array: ...
    def numel(self) -> int: ...
    def item(self) -> int | float | bool | complex: ...
    def tolist(self) -> Any: ...
    def __getitem__(self, index: _Index, /) -> Tensor: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __float__(self) -> float: ...
    def __format__(self, spec: str) -> str: ...
    def __int__(self) -> int: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _Array: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Model(Mapping[str, Tensor]):
    @property
    def path(self) -> str | None: ...
    @property
    def metadata(self) -> dict[str, Any]: ...  # str; of GGUF also int, float, bool and lists
    @property
    def shards(self) -> list[Shard]: ...
    @property
    def missing(self) -> list[str]: ...
    @property
    def file_size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def __init__(self, *args: Any, **keywords: Any) -> None: ...  # raises: tenmap.open makes them
    def __getitem__(self, name: str, /) -> Tensor: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def select(self, *patterns: str) -> dict[str, Tensor]: ...
    def natural_names(self) -> list[str]: ...
    def keys(self) -> KeysView[str]: ...
    def values(self) -> ValuesView[Tensor]: ...
    def items(self) -> ItemsView[str, Tensor]: ...
    @overload
    def get(self, name: str, default: None = None) -> Tensor | None: ...
    @overload
    def get(self, name: str, default: Tensor | _T) -> Tensor | _T: ...
    @overload
    def load(
        self,
        names: str | Iterable[str] | Mapping[str, _Index | None] | None = None,
        dtype: _Dtype | Mapping[str, _Dtype] | None = None,
        threads: int = 0,
        out: None = None,
        progress: _Progress | None = None,
        *,
        framework: Literal["numpy"] | None = None,
        direct: bool = False,
        group: Any = None,  # torch.distributed's ProcessGroup
    ) -> dict[str, _Array]: ...
    @overload
    def load(
        self,
        names: str | Iterable[str] | Mapping[str, _Index | None] | None = None,
        dtype: _Dtype | Mapping[str, _Dtype] | None = None,
        threads: int = 0,
        out: None = None,
        progress: _Progress | None = None,
        *,
        framework: Literal["torch"],
        device: Any = None,  # torch's
        direct: bool = False,
        group: Any = None,  # torch.distributed's ProcessGroup
    ) -> dict[str, _Torch]: ...
    @overload
    def load(
        self,
        names: str | Iterable[str] | Mapping[str, _Index | None] | None = None,
        dtype: _Dtype | Mapping[str, _Dtype] | None = None,
        threads: int = 0,
        out: None = None,
        progress: _Progress | None = None,
        *,
        framework: None = None,
        device: Any,  # torch's; means torch
        direct: bool = False,
        group: Any = None,  # torch.distributed's ProcessGroup
    ) -> dict[str, _Torch]: ...
    @overload
    def load(
        self,
        names: str | Iterable[str] | Mapping[str, _Index | None] | None = None,
        dtype: _Dtype | Mapping[str, _Dtype] | None = None,
        threads: int = 0,
        *,
        out: _Out,
        progress: _Progress | None = None,
        framework: Literal["numpy", "torch"] | None = None,
        direct: bool = False,
        group: Any = None,  # torch.distributed's ProcessGroup
    ) -> _Out: ...
    def take(
        self,
        wants: str | Iterable[str] | Mapping[str, Sequence[int | None] | _Index | None] | None = None,
        dtype: _Dtype | Mapping[str, _Dtype] | None = None,
        *,
        optional: Iterable[str] = (),
        threads: int = 0,
        progress: _Progress | None = None,
    ) -> dict[str, _Array]: ...
    def advise(
        self, advice: Literal["populate", "prefetch", "release", "lock", "unlock"], name: str | None = None
    ) -> None: ...
    def residency(self) -> tuple[int, int]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *exception: Any) -> None: ...

class Writer:
    ended: bool
    def __init__(
        self,
        path: _Path,
        metadata: Mapping[str, str] | None = None,
        *,
        alignment: int = 0,
        slack: int = 0,
        keep_order: bool = False,
        follow_links: bool = False,
    ) -> None: ...
    def add(self, name: str, dtype: _Dtype, shape: Sequence[int]) -> None: ...
    def __setitem__(self, name: str, value: Any) -> None: ...
    def write(self, name: str, data: Any, offset: int = 0) -> None: ...
    def copy(self, name: str, tensor: Tensor, saturate: bool = False) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Writer: ...
    def __exit__(self, kind: Any, exception: Any, traceback: Any) -> None: ...

def diff(a: _Path | Model, b: _Path | Model, *, options: Sequence[str] = ()) -> Diff: ...
@overload
def hash(model: _Path | Model, what: Literal["files"] = "files", *, options: Sequence[str] = ()) -> list[FileHash]: ...
@overload
def hash(model: _Path | Model, what: Literal["model", "tensors"], *, options: Sequence[str] = ()) -> ModelHash: ...
def quantize_model(
    model: _Path | Model,
    output: _Path,
    scheme: Literal["fp8-block", "fp8-channel", "int8-channel", "mxfp4"],
    *,
    keep: str | Sequence[str] = (),
    force: bool = False,
    options: Sequence[str] = (),
) -> Written: ...
def convert_model(
    model: _Path | Model,
    output: _Path,
    dtype: _Dtype | None = None,
    *,
    dequantize: bool = False,
    keep: str | Sequence[str] = (),
    force: bool = False,
    options: Sequence[str] = (),
) -> Written: ...
def derive(
    tensors: Mapping[str, _Operators], dtype: _Dtype | Mapping[str, _Dtype] | None = None
) -> Model: ...
def apply_lora(
    model: _Path | Model, adapter: _Path | Model, scale: float = 1.0, *, options: Sequence[str] = ()
) -> Model: ...
def expr(value: Any) -> Expression: ...
def concat(tensors: Iterable[_Operators], axis: int = 0) -> Expression: ...
def stack(tensors: Iterable[_Operators], axis: int = 0) -> Expression: ...
def save(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, dtype: _Dtype | None = None
) -> bytes: ...
def open(
    path: _Source | Sequence[_Path],
    dequantize: bool = False,
    backend: Literal["map", "read"] = "map",
    lenient: bool = False,
    partial: bool = False,
    *,
    threads: int = 0,
    max_header_bytes: int = 0,
    offset: int = 0,
    length: int = 0,
    branches: bool = False,
) -> Model: ...
def save_file(
    tensors: Mapping[str, Any],
    path: _Path,
    metadata: Mapping[str, str] | None = None,
    *,
    dtype: _Dtype | None = None,
    alignment: int = 0,
    slack: int = 0,
    keep_order: bool = False,
    follow_links: bool = False,
    threads: int = 0,
    progress: _Progress | None = None,
) -> None: ...
def save_sharded(
    tensors: Mapping[str, Any],
    folder: _Path,
    max_shard_bytes: int = 5_000_000_000,
    metadata: Mapping[str, str] | None = None,
    *,
    dtype: _Dtype | None = None,
    alignment: int = 0,
    slack: int = 0,
    keep_order: bool = False,
    keep_old: bool = False,
    threads: int = 0,
    progress: _Progress | None = None,
) -> None: ...
def edit_metadata(
    path: _Path,
    changes: Mapping[str, str | None],
    *,
    in_place: bool = True,
    clone: bool = True,
    copy: bool = True,
    follow_links: bool = False,
) -> Literal["unchanged", "in place", "cloned", "copied"]: ...
def rename(
    path: _Path,
    names: Mapping[str, str],
    metadata: Mapping[str, str | None] | None = None,
    *,
    in_place: bool = True,
    clone: bool = True,
    copy: bool = True,
    follow_links: bool = False,
) -> Literal["unchanged", "in place", "cloned", "copied"]: ...
class IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

def load_into(
    module: Any,  # torch.nn.Module
    source: _Source | Model,
    *,
    dtype: _Dtype | Mapping[str, _Dtype] | None = None,
    group: Any = None,
    plan: Mapping[str, _Index | None] | None = None,
    names: Mapping[str, str] | Callable[[str], str] | None = None,
    strict: bool = True,
    threads: int = 0,
    progress: _Progress | None = None,
) -> IncompatibleKeys: ...
def shard_plan(
    model: Mapping[str, Tensor], plan: Mapping[str, int | str | None], rank: int, world: int
) -> dict[str, tuple[slice, ...] | None]: ...
def check(
    path: _Path, *, lenient: bool = False, partial: bool = False, max_header_bytes: int = 0
) -> list[Finding]: ...
@overload
def measure(
    what: Model,
    *,
    bins: int = 0,
    range: tuple[float, float] | None = None,
    threads: int = 0,
    progress: _Progress | None = None,
) -> dict[str, Stats]: ...
@overload
def measure(
    what: list[Tensor] | tuple[Tensor, ...],
    *,
    bins: int = 0,
    range: tuple[float, float] | None = None,
    threads: int = 0,
    progress: _Progress | None = None,
) -> list[Stats]: ...
@overload
def measure(
    what: Any,
    *,
    bins: int = 0,
    range: tuple[float, float] | None = None,
    threads: int = 0,
    progress: _Progress | None = None,
) -> Stats: ...
@overload
def convert(array: Tensor | _Array, dtype: _Dtype, *, saturate: bool = False) -> _Array: ...
@overload
def convert(array: _TorchTensor, dtype: _Dtype, *, saturate: bool = False) -> _TorchTensor: ...
def keep_memory(limit: int) -> int: ...
def install(version: str | None = None) -> None: ...
def uninstall() -> None: ...
