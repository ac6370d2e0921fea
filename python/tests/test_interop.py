"""What other packages get of tensors, and names that programs expect."""

import os
import subprocess
import sys

import numpy
import pytest

import tenmap
from conftest import DTYPES, needs, same
from tenmap.safetensors import safe_open


@needs("torch")
def test_torch_keeps_shape_and_dtype(model, arrays):
    """torch.asarray prefers a buffer, which it flattens, to DLPack: a Tensor must not be one."""
    import torch

    for name in ("F32", "BF16", "I64", "BOOL", "F16"):
        for make in (torch.asarray, torch.tensor, torch.as_tensor):
            tensor = make(model[name])
            assert tuple(tensor.shape) == (6, 5, 8) and str(tensor.dtype) == str(model[name].torch().dtype)
            assert tensor.view(torch.uint8).numpy().tobytes() == arrays[name].tobytes()


def test_a_tensor_is_no_buffer_but_has_one(model, arrays):
    with pytest.raises(TypeError):
        memoryview(model["F32"])
    assert same(numpy.asarray(model["F32"].buffer), arrays["F32"])
    for name in DTYPES:
        assert same(numpy.array(model[name]), arrays[name])


@needs("torch")
def test_load_model_returns_what_the_reference_returns(tmp_path):
    import torch

    from tenmap.safetensors.torch import load_model, save_file

    save_file({"weight": torch.ones(2, 2), "more": torch.ones(1)}, tmp_path / "w")
    missing, unexpected = load_model(torch.nn.Linear(2, 2), tmp_path / "w", strict=False)
    assert (missing, unexpected) == ({"bias"}, ["more"])


def test_a_folder_without_a_model_is_not_called_absent(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        safe_open(tmp_path, "np")
    assert "No such file" not in str(caught.value) and str(tmp_path) in str(caught.value)


@needs("rich")
def test_progress_of_rich(path):
    import io

    from rich.console import Console
    from rich.progress import Progress

    def display():
        return Progress(console=Console(file=io.StringIO()))

    progress = display()
    tenmap.open(path).load(progress=progress)
    (task,) = progress.tasks
    assert task.finished and task.completed == task.total > 0 and not progress.live.is_started
    with display() as progress:
        tenmap.open(path).load(progress=progress)
        tenmap.measure(tenmap.open(path)["F32"], progress=progress)
        assert progress.live.is_started and len(progress.tasks) == 2


def test_submodules_are_attributes():
    code = "import tenmap; print(tenmap.safetensors.__name__); tenmap.install(); import safetensors; "
    code += "print(safetensors._safetensors_rust.safe_open is tenmap.safetensors.safe_open, hasattr(tenmap, 'nothing'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.split() == ["tenmap.safetensors", "True", "False"]
