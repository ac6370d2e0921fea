"""The output of the command-line tool as dataclasses. Each function runs the wheel's own command
with --json, so there is no second implementation."""

import dataclasses
import json
import os
import subprocess

from ._errors import Status, make
from ._model import Model


def _known(kind, found):
    """A dataclass from a JSON object; keys without a field are in `json`."""
    fields = {field.name for field in dataclasses.fields(kind)} - {"json"}
    return kind(**{key: value for key, value in found.items() if key in fields}, json=found)


@dataclasses.dataclass
class TensorDiff:
    """How the values of a tensor differ: number, maximum and mean of the differences."""

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
    json: dict = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass
class Diff:
    """How two models differ. `json` is everything that the command printed."""

    equal: bool
    in_both: int = 0
    only_in_a: list = dataclasses.field(default_factory=list)
    only_in_b: list = dataclasses.field(default_factory=list)
    dtypes: list = dataclasses.field(default_factory=list)
    shapes: list = dataclasses.field(default_factory=list)
    metadata: list = dataclasses.field(default_factory=list)
    values: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    chosen_options: list = dataclasses.field(default_factory=list)
    json: dict = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass
class FileHash:
    """The SHA-256 of a file."""

    file: str
    size: int
    sha256: str
    json: dict = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass
class TensorHash:
    """The fingerprint of a tensor: of its dtype, shape and bytes."""

    name: str
    dtype: str
    shape: list
    fingerprint: str
    json: dict = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass
class ModelHash:
    """The fingerprint of a model, and those of its tensors if they were asked for."""

    model: str
    fingerprint: str
    tensors: list = dataclasses.field(default_factory=list)
    json: dict = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass
class Written:
    """What a command wrote, and what was lost: values that overflowed or became zero."""

    output: str
    written: bool
    files: int = 0
    tensors: int = 0
    converted: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    changes: list = dataclasses.field(default_factory=list)
    losses: dict = dataclasses.field(default_factory=dict)
    json: dict = dataclasses.field(default_factory=dict, repr=False)


_STATUS = {2: Status.FORMAT, 3: Status.IO, 64: Status.ARGUMENT}


def _fail(status, message):
    raise make(status, message, 0, 0, 0, 0, None, None)


def _path(model):
    """The path that the command opens: a path as it is, or that of an open Model."""
    if isinstance(model, Model):
        if model.path is None:
            raise TypeError("the command reads files: this model was opened from memory or a file object, or derived")
        model = model.path
    path = os.fspath(model)
    return "./" + path if isinstance(path, str) and path.startswith("-") else path


def run(command, *arguments):
    """What `tenmap COMMAND ARGUMENTS --json` prints, as Python objects."""
    from .__main__ import find_tool

    tool = find_tool()
    if tool is None:
        _fail(Status.NOT_FOUND, f"tenmap.{command} runs the command tenmap, which is not installed beside this Python: "
                                "reinstall the package, or set TENMAP_TOOL to its path")  # fmt: skip
    done = subprocess.run([tool, command, *arguments, "--json"], capture_output=True)
    text = done.stderr.decode(errors="replace").strip().removeprefix(f"tenmap {command}: ")
    if done.returncode not in (0, 1):
        _fail(_STATUS.get(done.returncode, Status.IO), text or f"the command ended with {done.returncode}")
    try:
        return json.loads(done.stdout.decode(errors="surrogateescape"))
    except ValueError:
        _fail(Status.UNSUPPORTED, f"the command printed no JSON: {text or done.stdout[:200]!r}")


def diff(a, b, *, options=()):
    """Compares two models (paths, addresses or open Models), headers and values. Returns a Diff.

    options   more options of `tenmap diff`, as a list: ["--atol", "1e-6"]
    """
    found = _known(Diff, run("diff", *options, _path(a), _path(b)))
    found.values = [_known(TensorDiff, each) for each in found.values]
    return found


def hash(model, what="files", *, options=()):
    """Hashes a model.

    what      "files": the SHA-256 of each file, as a list of FileHash. "model": one fingerprint of
              all tensors, whatever their order and shards, as a ModelHash. "tensors": also one of
              each tensor
    options   more options of `tenmap hash`
    """
    if what not in ("files", "model", "tensors"):
        raise ValueError(f'what is "files", "model" or "tensors", not {what!r}')
    found = run("hash", *([] if what == "files" else [f"--{what}"]), *options, _path(model))
    if what == "files":
        return [_known(FileHash, each) for each in found]
    result = _known(ModelHash, found)
    result.tensors = [_known(TensorHash, each) for each in result.tensors]
    return result


def quantize_model(model, output, scheme, *, keep=(), force=False, options=()):
    """Quantizes a model: "fp8-block", "fp8-channel", "int8-channel" or "mxfp4". Returns a
    Written, which says what was lost.

    keep      patterns of names to leave as they are
    force     replace an existing output, in one step
    options   more options of `tenmap convert`
    """
    return _convert(model, output, ["--quantize", scheme], keep, force, options)


def convert_model(model, output, dtype=None, *, dequantize=False, keep=(), force=False, options=()):
    """Writes a model with floating-point tensors converted to a dtype, or with quantized weights as
    plain tensors. Returns a Written, which says what was lost.

    keep, force, options   as in quantize_model
    """
    from ._dtypes import name_of

    arguments = [] if dtype is None else ["--to", name_of(dtype).lower()]
    return _convert(model, output, [*arguments, *["--dequantize"] * bool(dequantize)], keep, force, options)


def _convert(model, output, arguments, keep, force, options):
    kept = [word for name in ([keep] if isinstance(keep, str) else keep) for word in ("--keep", name)]
    return _known(Written, run("convert", *arguments, *kept, *["--force"] * bool(force), *options, "--output",
                               _path(output), _path(model)))  # fmt: skip


for _each in (TensorDiff, Diff, FileHash, TensorHash, ModelHash, Written, diff, hash, quantize_model, convert_model):
    _each.__module__ = "tenmap"
