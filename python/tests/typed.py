"""A typed program for mypy --strict: the stub must allow what users write. It is not run."""

from pathlib import Path

import tenmap


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
    tenmap.save_file(model, path, {"format": "pt"}, dtype="float16")
    with tenmap.Writer(path) as writer:
        writer.add("w", "F32", [2, 2])
        writer.write("w", bytes(16))
