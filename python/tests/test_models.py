"""Bytes of files, models of listed files, and the commands that return dataclasses."""

import dataclasses
import hashlib

import numpy
import pytest

import tenmap
from conftest import same
from tenmap.__main__ import find_tool

needs_tool = pytest.mark.skipif(find_tool() is None, reason="the command is not installed")


def test_save_gives_the_bytes_of_save_file(arrays, path, model, tmp_path):
    assert tenmap.save(arrays, {"format": "np", "greeting": "hello"}) == path.read_bytes()
    assert tenmap.save(model, model.metadata) == path.read_bytes()
    floats = {name: model[name] for name in ("F32", "BF16", "I8", "F4")} | {"part": model["F16"][1:, ::2], "none": numpy.ones((0, 2))}
    tenmap.save_file(floats, tmp_path / "half", dtype="bf16")
    assert tenmap.save(floats, dtype="bf16") == (tmp_path / "half").read_bytes()
    assert tenmap.open(tenmap.save({}))._names() == []
    for bad in ({"__metadata__": numpy.ones(1)}, {1: numpy.ones(1)}):
        with pytest.raises(ValueError):
            tenmap.save(bad)
    with pytest.raises(TypeError):
        tenmap.save({}, {"a": 1})


def test_listed_files_are_one_model(tmp_path, arrays):
    tenmap.save_file({"a": arrays["F32"]}, tmp_path / "z.safetensors")
    tenmap.save_file({"b": arrays["I8"], "c": arrays["BF16"]}, tmp_path / "a.safetensors")
    paths = [tmp_path / "z.safetensors", str(tmp_path / "a.safetensors")]
    model = tenmap.open(paths)
    assert sorted(model) == ["a", "b", "c"] and [shard.path for shard in model.shards] == [str(path) for path in paths]
    assert same(model["a"].numpy(), arrays["F32"]) and same(model.load()["c"], arrays["BF16"])
    assert same(model.load(direct=True)["b"], arrays["I8"]) and model["c"].numpy(writable=True).flags.writeable
    assert list(tenmap.open(paths[:1])) == ["a"] and tenmap.open(tuple(paths), backend="read")["b"].shape == (6, 5, 8)
    with pytest.raises(tenmap.Error, match='"a" is in') as caught:
        tenmap.open([paths[0], paths[0]])
    assert caught.value.message.count(str(paths[0])) == 2 and "shards" not in caught.value.message
    with pytest.raises(FileNotFoundError):
        tenmap.open([paths[0], tmp_path / "absent.safetensors"])
    for bad in ([], [paths[0], "model.gguf"]):
        with pytest.raises((ValueError, FileNotFoundError)):
            tenmap.open(bad)


@needs_tool
def test_diff_hash_and_quantize_run_the_command(tmp_path):
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    weights = {"w.weight": numpy.ones((128, 128), "float32"), "b": numpy.ones(3, "float32")}
    tenmap.save_file(weights, one)
    weights["w.weight"][0, 0] = 2
    tenmap.save_file({**weights, "c": numpy.ones(1)}, two)
    found = tenmap.diff(one, tenmap.open(two))
    assert not found.equal and found.only_in_b == ["c"] and found.in_both == 2 and found.json["equal"] is False
    (change,) = found.values
    assert (change.name, change.different, change.max_abs) == ("w.weight", 1, 1) and dataclasses.is_dataclass(change)
    assert tenmap.diff(one, one).equal
    (file,) = tenmap.hash(one)
    assert file.sha256 == hashlib.sha256(one.read_bytes()).hexdigest() and file.size == one.stat().st_size
    both = tenmap.hash(one, "model").fingerprint, tenmap.hash(one, "tensors")
    assert both[0] == both[1].fingerprint and [each.name for each in both[1].tensors] == ["b", "w.weight"]
    written = tenmap.quantize_model(one, tmp_path / "small.safetensors", "fp8-channel")
    assert written.written and written.bytes_after < written.bytes_before
    again = tenmap.open(tmp_path / "small.safetensors")
    assert again["w.weight"].dtype == "F8_E4M3"
    with pytest.raises(tenmap.Error, match="no weight to quantize"):
        tenmap.quantize_model(one, tmp_path / "kept.safetensors", "fp8-channel", keep="w.*", force=True)
    assert tenmap.convert_model(one, tmp_path / "half.safetensors", "bfloat16").converted == 2
    assert tenmap.open(tmp_path / "half.safetensors")["b"].dtype == "BF16"


@needs_tool
def test_what_the_command_refuses_is_an_error(tmp_path):
    one = tmp_path / "-one.safetensors"
    tenmap.save_file({"b": numpy.ones(3, "float32")}, one)
    with pytest.raises(tenmap.Error, match="absent") as caught:
        tenmap.diff(one, tmp_path / "absent")
    assert caught.value.status == tenmap.Status.IO
    (tmp_path / "bad.safetensors").write_bytes(b"x" * 20)
    with pytest.raises(tenmap.Error) as caught:
        tenmap.hash(tmp_path / "bad.safetensors", "model")
    assert caught.value.status == tenmap.Status.FORMAT
    with pytest.raises(tenmap.Error, match="--quantize takes") as caught:
        tenmap.quantize_model(one, tmp_path / "out.safetensors", "nonsense")
    assert caught.value.status == tenmap.Status.ARGUMENT and not (tmp_path / "out.safetensors").exists()
    with pytest.raises(ValueError, match="what"):
        tenmap.hash(one, "nonsense")
    with pytest.raises(TypeError, match="memory"):
        tenmap.diff(tenmap.open(one.read_bytes()), one)


def test_without_the_command_the_error_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TENMAP_TOOL", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="TENMAP_TOOL"):
        tenmap.hash("x")
