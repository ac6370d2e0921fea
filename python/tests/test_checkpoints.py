"""PyTorch checkpoints: files, indexes and folders open like SafeTensors files."""

import io
import json
import pickle
import sys
import types
import zipfile

import numpy
import pytest

import tenmap
from conftest import needs


class Storage:
    """Stands for a storage of torch; its persistent id names the entry with its elements."""

    def __init__(self, key, values):
        self.key, self.values = key, values


@pytest.fixture
def torch_names(monkeypatch):
    """Modules with the names that pickles of torch have, if torch is not installed."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch", "__qualname__": "FloatStorage"})

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    torch._utils = utils
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)
    return torch


class Tensor:
    def __init__(self, torch, storage):
        self.torch, self.storage = torch, storage

    def __reduce__(self):
        shape = self.storage.values.shape
        strides = tuple(size // 4 for size in self.storage.values.strides)
        return self.torch._utils._rebuild_tensor_v2, (self.storage, 0, shape, strides, False, {})


def save(torch, path, arrays, around=lambda tensors: tensors):
    """Writes what torch.save writes for a dict of F32 tensors, or for what `around` makes of that
    dict. Equal arrays share a storage."""
    storages = {}
    out = io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if isinstance(value, Storage):
                return "storage", torch.FloatStorage, value.key, "cpu", value.values.size

    for array in arrays.values():
        storages.setdefault(id(array), Storage(str(len(storages)), array))
    Pickler(out, 2).dump(around({name: Tensor(torch, storages[id(array)]) for name, array in arrays.items()}))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", out.getvalue())
        for storage in storages.values():
            archive.writestr(f"model/data/{storage.key}", storage.values.tobytes())
    return path


A = numpy.arange(6, dtype="float32").reshape(2, 3)
B = numpy.arange(4, dtype="float32") - 1.5


def check(model, names):
    assert sorted(model) == sorted(names)
    for name, array in names.items():
        assert numpy.array_equal(model[name].numpy(), array)


def test_a_folder_opens_by_the_usual_names(torch_names, tmp_path):
    save(torch_names, tmp_path / "pytorch_model.bin", {"a": A, "b": B, "tied": A})
    save(torch_names, tmp_path / "optimizer.pt", {"c": A})
    check(tenmap.open(tmp_path), {"a": A, "b": B, "tied": A})
    check(tenmap.open(tmp_path / "optimizer.pt"), {"c": A})
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "training_args.bin")
    with pytest.raises(tenmap.Error, match="opens by its own path"):
        tenmap.open(tmp_path)


def test_an_index_opens_with_its_shards(torch_names, tmp_path):
    first, second = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"
    save(torch_names, tmp_path / first, {"a": A})
    save(torch_names, tmp_path / second, {"b": B})
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 40}, "weight_map": {"a": first, "b": second}}))
    for path in index, tmp_path:
        with tenmap.open(path) as model:
            check(model, {"a": A, "b": B})
            assert len(model.shards) == 2
    index.unlink()
    check(tenmap.open(tmp_path), {"a": A, "b": B})


@needs("fsspec")
def test_fsspec_finds_the_model_of_a_folder(torch_names, tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    data = save(torch_names, tmp_path / "x.bin", {"a": A}).read_bytes()
    for name in "pytorch_model.bin", "training_args.bin":
        with memory.open(f"/checkpoints/{name}", "wb") as out:
            out.write(data)
    check(tenmap.open("memory://checkpoints"), {"a": A})
    check(tenmap.open("memory://checkpoints/training_args.bin"), {"a": A})


def test_branches_lists_all_tensors_by_their_full_names(torch_names, tmp_path):
    path = save(torch_names, tmp_path / "last.ckpt", {"a": A, "b": B}, lambda tensors: {
        "epoch": 3, "state_dict": {"w": tensors["a"]}, "optimizer": {"state": {0: tensors["b"]}}})  # fmt: skip
    with tenmap.open(path) as model:
        check(model, {"w": A})
        (shard,) = model.shards
        assert (shard.format, shard.branch, shard.other_tensors) == ("pytorch", "state_dict", 1)
    with tenmap.open(path, branches=True) as model:
        check(model, {"state_dict.w": A, "optimizer.state.0": B})
        assert model.shards[0].branch is None and model.shards[0].other_tensors == 0
        check(pickle.loads(pickle.dumps(model)), {"state_dict.w": A, "optimizer.state.0": B})


def test_shards_of_other_formats_have_no_branch(tmp_path):
    tenmap.save_file({"a": A}, tmp_path / "a.safetensors")
    (shard,) = tenmap.open(tmp_path / "a.safetensors").shards
    assert (shard.format, shard.branch, shard.other_tensors) == ("safetensors", None, 0)
