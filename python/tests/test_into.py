"""load_into: weights go into the parameters of a module, which fit or are refused."""

import numpy
import pytest

import tenmap

torch = pytest.importorskip("torch")


class Module(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.first = torch.nn.Linear(6, 4, **options)
        self.norm = torch.nn.BatchNorm1d(4, **options)
        self.last = torch.nn.Linear(6, 4, bias=False, **options)
        self.last.weight = self.first.weight


@pytest.fixture
def path(tmp_path):
    module = Module()
    with torch.no_grad():
        module.norm.running_mean.copy_(torch.arange(4))
        module.norm.num_batches_tracked.fill_(7)
    tenmap.save_file({n: t for n, t in module.state_dict().items() if n != "last.weight"}, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors", module.state_dict()


def same(module, state, dtype=torch.float32):
    for name, tensor in module.state_dict().items():
        expected = state[name].to(dtype) if state[name].is_floating_point() else state[name]
        assert tensor.dtype == expected.dtype and torch.equal(tensor, expected), name
    assert module.last.weight is module.first.weight


def test_values_go_into_the_module_s_own_memory(path):
    path, state = path
    module = Module()
    places = [tensor.data_ptr() for tensor in module.state_dict().values()]
    assert tenmap.load_into(module, path) == ([], [])
    assert places == [tensor.data_ptr() for tensor in module.state_dict().values()]
    same(module, state)


def test_a_dtype_and_the_meta_device_replace_parameters(path):
    path, state = path
    module = Module(device="meta")
    tenmap.load_into(module, path)
    same(module, state)
    module = Module()
    module.first.weight.requires_grad_(False)
    tenmap.load_into(module, path, dtype="bfloat16")
    same(module, state, torch.bfloat16)
    assert not module.first.weight.requires_grad and module.first.bias.requires_grad
    module = Module()
    tenmap.load_into(module, path, dtype={"first.*": torch.float64})
    assert module.first.weight.dtype == torch.float64 and module.norm.weight.dtype == torch.float32


def test_memory_that_is_not_contiguous_is_copied_to(path):
    path, state = path
    module = Module()
    module.first.weight = module.last.weight = torch.nn.Parameter(torch.empty(6, 4).T)
    tenmap.load_into(module, path)
    same(module, state)
    assert not module.first.weight.is_contiguous()


def test_what_does_not_fit_is_refused_before_anything_changes(path, tmp_path):
    path, state = path
    module = Module()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    tenmap.save_file({"first.weight": numpy.zeros((4, 7), "float32"), "more": numpy.zeros(3)}, tmp_path / "other")
    with pytest.raises(RuntimeError, match=r"\[4, 7\], the module \[4, 6\]") as caught:
        tenmap.load_into(module, tmp_path / "other")
    assert "missing in the model: first.bias" in str(caught.value) and "not in the module: more" in str(caught.value)
    with pytest.raises(FileNotFoundError):
        tenmap.load_into(module, tmp_path / "absent")
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_names_plans_and_open_models(path, tmp_path):
    path, state = path
    renamed = {f"model.{name}": tensor for name, tensor in state.items() if name != "last.weight"}
    tenmap.save_file(renamed | {"more": torch.zeros(2)}, tmp_path / "renamed")
    module = Module()
    found = tenmap.load_into(module, tmp_path / "renamed", names="model.{}".format, strict=False)
    assert found == ([], ["more"]) and found.unexpected_keys == ["more"]
    same(module, state)
    part = torch.nn.Linear(6, 2)
    with tenmap.open(path) as model:
        plan = tenmap.shard_plan(model, {"first.*": 0}, 1, 2)
        names = {"weight": "first.weight", "bias": "first.bias"}
        tenmap.load_into(part, model, plan=plan, names=names, strict=False)
        assert not model.closed
    assert torch.equal(part.weight, state["first.weight"][2:]) and torch.equal(part.bias, state["first.bias"][2:])
