"""A typed program for mypy --strict: the stub must allow what users write. It is not run."""

from pathlib import Path
from typing import Any, assert_type

import numpy
from numpy.typing import NDArray

import tenmap
import tenmap.safetensors.numpy
import tenmap.torch
from tenmap.safetensors import safe_open


def names(path: Path) -> list[str]:
    with tenmap.open(path, backend="read") as model:
        return [name for name in model if model[name].ndim == 2]


def first_row(model: tenmap.Model, name: str) -> list[float]:
    tensor: tenmap.Tensor = model[name][0, ..., ::2]
    missing: tenmap.Tensor | None = model.get("absent")
    assert missing is None
    values: list[float] = tensor.tolist()
    return values


def largest(model: tenmap.Model) -> float:
    stats: dict[str, tenmap.Stats] = tenmap.measure(model)
    return max(each.max for each in stats.values())


def problems(path: str) -> list[str]:
    try:
        return [finding.message for finding in tenmap.check(path) if finding.severity == "error"]
    except tenmap.Error as error:
        return [f"{error.path}: {error.message}", error.status.name]


def copy(model: tenmap.Model, path: Path) -> None:
    model.take({"w": (None, 4)}, dtype="float32", optional=["b"])
    model.load(["w"], "bfloat16", framework="torch")
    model.load({"w": (slice(None), slice(0, 2)), "b": None}, {"*.w": "float32"}, device="cpu")
    model.take({"w": slice(0, 2), "b": (4,)})
    model.load(tenmap.shard_plan(model, {"*.w": 0, "layers.*.q_proj": "colwise"}, 0, 2))
    missing: list[str] = tenmap.load_into(object(), model, plan={"w": slice(0, 2)}, strict=False).missing_keys
    assert not missing
    tenmap.save_file(model, path, {"format": "pt"}, dtype="float16")
    with tenmap.Writer(path) as writer:
        writer.add("w", "F32", [2, 2])
        writer.write("w", bytes(16))


def checkpoint(path: Path) -> list[str]:
    loaded = tenmap.torch.load(path, "cpu", weights_only=True, inert=True)
    code: list[tenmap.torch.Inert] = [value for value in loaded.values() if isinstance(value, tenmap.torch.Inert)]
    return [each.name for each in code if each.called]


def drop_in(path: Path) -> list[int]:
    tenmap.install(version="0.9.0rc1")
    array = tenmap.safetensors.numpy.load_file(path)["w"]
    with safe_open(path, framework="np") as file:
        begin, end = file.get_tensor_meta("w").data_offsets
        return [array.size, begin, end, *file.get_slice("w").get_shape()]


def arrays(model: tenmap.Model, name: str, out: dict[str, NDArray[numpy.float32]]) -> NDArray[Any]:
    tensor = model[name]
    assert_type(tensor.numpy(writable=True), NDArray[Any])
    assert_type(tensor.astype("bf16"), NDArray[Any])
    assert_type(tensor.T, NDArray[Any])
    assert_type(model.load(), dict[str, NDArray[Any]])
    assert_type(model.load(["w"], out=out), dict[str, NDArray[numpy.float32]])
    assert_type(model.take("w"), dict[str, NDArray[Any]])
    assert_type(tenmap.convert(tensor, "bf16"), NDArray[Any])
    assert_type(tensor.buffer, memoryview)
    roles: list[str] = [part.role for part in tensor.parts]
    edges: list[float] | None = tenmap.measure(tensor, bins=4).edges
    sizes: list[int] = [each.nbytes for each in model.select("*.weight").values()]
    print(roles, edges, sizes, model.nbytes, f"{tensor}", tensor.numel(), tensor.itemsize)
    return tensor.copy()


def derived(base: tenmap.Model, lora: tenmap.Model) -> tenmap.Model:
    b, a = lora["b"], tenmap.expr(lora["a"])
    weight: tenmap.Expression = base["w"] + 0.8 * (b @ a.T) - base["v"] / 3
    assert_type(-base["w"], tenmap.Expression)
    assert_type(tenmap.concat([weight, base["w"]], axis=1)[0, ..., 2:], tenmap.Expression)
    made = {**base, "w": weight.reshape(2, -1).transpose(1, 0), "s": tenmap.stack(base.values())}
    assert_type(tenmap.derive(made, dtype={"*.w": "bf16"})["w"], tenmap.Tensor)
    return tenmap.apply_lora(base, "adapter", 0.5)


def commands(path: Path, model: tenmap.Model) -> str:
    change = tenmap.diff(path, model, options=["--atol", "1e-6"])
    assert_type(change.values, list[tenmap.TensorDiff])
    assert_type(tenmap.hash(path), list[tenmap.FileHash])
    assert_type(tenmap.hash(path, "tensors"), tenmap.ModelHash)
    assert_type(tenmap.save({"w": model["w"]}, {"format": "pt"}), bytes)
    tenmap.open([path, "more.safetensors"]).close()
    tenmap.open("hf://org/name").close()
    return tenmap.quantize_model(path, "out", "fp8-channel", keep="*.norm.*").output
