"""LoRA adapters as derived models. Which key of an adapter belongs to which tensor of its base is
what the command `tenmap lora` says: there is no second implementation."""

import os
import tempfile

from ._command import _fail, _path, run
from ._derive import derive, expr
from ._errors import Status
from ._model import Model, open


def _named(model, name, what):
    if name in model:
        return model[name]
    raise ValueError(f"the {what} {model!r} has no tensor {name!r}, which tenmap lora names: was its file opened otherwise "
                     "(part of a file, branches, without dequantize=True), or did it change?")  # fmt: skip


def _matrix(tensor, transposed):
    """A factor: its first axis by all others."""
    factor = expr(tensor)
    if factor.ndim > 2:
        factor = factor.reshape(factor.shape[0], -1)
    return factor.T if transposed else factor


def _step(x, step, adapter):
    """An Expression after one step of the plan."""
    terms = [_named(adapter, name, "adapter") for name in step["terms"]]
    if step["op"] in ("replace", "add"):
        return expr(terms[0])
    if step["op"] == "sum":
        return x + step["factor"] * terms[0]
    if step["op"] == "low_rank":
        product = _matrix(terms[0], step["transposed"]) @ _matrix(terms[1], step["transposed"])
        return x + step["factor"] * product.reshape(x.shape)
    if step["op"] == "dora":
        _fail(Status.UNSUPPORTED, f"the adapter is a DoRA: each row of {step['name']!r} is scaled to a norm, for which its "
                                  "values must be read first: write the merged model with the command tenmap lora")  # fmt: skip
    return _fail(Status.UNSUPPORTED, f"this command's plan has the step {step['op']!r} for {step['name']!r}, which this package "
                                     "does not know: install the same version of both")  # fmt: skip


def apply_lora(model, adapter, scale=1.0, *, options=()):
    """A model with a LoRA adapter applied to it: derived, so that nothing is computed before values
    are asked for. Returns a Model.

        base = tenmap.open("base", dequantize=True)
        merged = tenmap.apply_lora(base, "adapter")
        tenmap.save_sharded(merged, "merged", metadata=merged.metadata)

    model    the base: a path, an address, or a Model that was opened from one. If weights of it are
             quantized, with dequantize=True
    adapter  the adapter: the same; of PEFT its folder, with adapter_config.json
    scale    a factor for all of it
    options  more options of `tenmap lora`: ["--component", "unet"]

    The command `tenmap lora --dry-run` reads both and says which key is applied to which tensor, in
    every dialect that it knows. Tensors keep the dtypes of the base. Raises tenmap.Error with the
    command's message if it refuses the adapter, and for DoRA, which only the command applies.
    """
    base = model if isinstance(model, Model) else open(model, dequantize=True)
    source = adapter if isinstance(adapter, Model) else open(adapter)
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "merged")
        plan = run("lora", "--dry-run", "--output", output, "--scale", repr(float(scale)), *options, _path(base), _path(source))
    tensors = dict(base)
    dtypes = dict.fromkeys(tensors)  # of all: a name that is not in it would be taken for one that patterns may fit
    for step in plan["adapted"]:
        name = step["name"]
        dtypes.setdefault(name)
        if step["op"] != "add":
            before = _named(base, name, "base")
            if before.family is not None:
                raise ValueError(f"{name!r} has the codes of a quantized weight: open the base with dequantize=True")
            if before.itemsize > 1:
                dtypes[name] = before.dtype
        tensors[name] = _step(None if step["op"] == "add" else expr(tensors[name]), step, source)
    return derive(tensors, dtypes)


apply_lora.__module__ = "tenmap"
