"""What people see and type at prompts and in notebooks."""

import copy
import inspect
import logging
import pickle

import numpy
import pytest

import tenmap
import tenmap.safetensors
from conftest import DTYPES, needs, same


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    path = tmp_path_factory.mktemp("layers") / "layers.safetensors"
    weights = {f"model.layers.{i}.self_attn.{p}_proj.weight": numpy.full((8, 4), i, "float32") for i in range(12) for p in "qkv"}
    weights["lm_head.weight"] = numpy.random.default_rng(0).normal(size=(40, 8)).astype("float16")
    weights["<script>\x1b[31m\u202e&"] = numpy.zeros(3, "int8")
    tenmap.save_file(weights, path)
    return tenmap.open(path)


def test_html_folds_layers_and_escapes_names(layers):
    text = layers._repr_html_()
    assert "model.layers.{0..11}.self_attn.q_proj.weight" in text and text.count("<tr>") == 6
    assert "<script>" not in text and "\x1b" not in text and "\u202e" not in text and "&lt;script&gt;\\x1b[31m\\u202e&amp;" in text
    assert "38 tensors" in text and layers.nbytes == 12 * 3 * 128 + 640 + 3
    assert sum(tensor.nbytes for tensor in layers.values()) == layers.nbytes
    model = tenmap.open(layers.path)
    model.close()
    assert "closed" in model._repr_html_()


def test_html_of_a_tensor_has_a_histogram(layers, model):
    text = layers["lm_head.weight"]._repr_html_()
    assert text.count("<rect") > 20 and "std 1.0" in text.replace("0.99", "1.0").replace("0.98", "1.0")
    assert "<rect" in layers["lm_head.weight"][3]._repr_html_()
    for tensor in model.values():  # every dtype
        assert tensor.name in tensor._repr_html_()
    gone = tenmap.open(b"\x3e\0\0\0\0\0\0\0" + b'{"e":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}'.ljust(62))
    assert "0 &times; 3" in gone["e"]._repr_html_()


def test_names_in_natural_order_and_by_pattern(layers):
    names = layers.natural_names()
    assert names.index("model.layers.2.self_attn.q_proj.weight") < names.index("model.layers.10.self_attn.q_proj.weight")
    assert sorted(names) == sorted(layers) and layers._ipython_key_completions_() == names
    found = layers.select("*.q_proj.*", "lm_head.*")
    assert list(found)[:2] == ["lm_head.weight", "model.layers.0.self_attn.q_proj.weight"] and len(found) == 13
    assert list(found)[-1] == "model.layers.11.self_attn.q_proj.weight" and layers.select("absent*") == {}
    assert found["lm_head.weight"].shape == (40, 8)


def test_a_missing_name_is_told_its_close_matches(layers):
    with pytest.raises(KeyError) as caught:
        layers["lm_heda.weight"]
    assert caught.value.args == ("lm_heda.weight",) and "did you mean 'lm_head.weight'?" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and isinstance(again, KeyError) and again.args == caught.value.args
    with pytest.raises(KeyError, match="no tensor is named 'zzzzzz'$"):
        layers["zzzzzz"]
    with pytest.raises(KeyError) as caught:
        layers["\ud800"]
    assert "no tensor" in str(caught.value)


def test_reprs_are_short(layers):
    assert len(repr(layers.keys())) < 300 and "38 names" in repr(layers.keys())
    assert len(repr(layers.values())) < 600 and len(repr(layers.items())) < 100


def test_what_arrays_have(model, arrays):
    tensor, array = model["F32"], arrays["F32"]
    assert same(tensor.T, array.T) and tensor.itemsize == 4 and tensor.numel() == 240
    own = tensor.copy()
    own[...] = 1
    assert own.flags.owndata or own.flags.writeable
    assert same(tensor.numpy(), array) and same(tensor[::2, 1].copy(), array[::2, 1])
    with numpy.errstate(all="ignore"):
        assert same(model["I32"].astype("float64"), arrays["I32"].astype("float64"))
        assert same(model["I32"].astype("int64"), arrays["I32"].astype("int64"))
        assert same(model["F16"].astype("bf16"), tenmap.convert(arrays["F16"], "BF16"))
    assert model["BOOL"].astype(bool).flags.writeable
    assert tenmap._dtypes.name_of("fp16") == "F16" and tenmap._dtypes.name_of("fp32") == "F32"
    assert f"{tensor}" == repr(tensor) and f"{model['I64'][0, 0, 0]:d}" == str(arrays["I64"][0, 0, 0])
    with pytest.raises(ValueError, match="240 elements"):
        format(tensor, ".3f")
    assert tensor.parts == [] and [model[name].itemsize for name in DTYPES] == [DTYPES[name].itemsize for name in DTYPES]
    with pytest.raises(TypeError):
        copy.copy(tensor)


def test_parts_of_a_dequantized_weight(tmp_path):
    weights = {"w.weight": tenmap.convert(numpy.ones((128, 128), "float32"), "F8_E4M3"),
               "w.weight_scale_inv": numpy.full((1, 1), 2, "float32")}  # fmt: skip
    tenmap.save_file(weights, tmp_path / "w.safetensors")
    tensor = tenmap.open(tmp_path / "w.safetensors", dequantize=True)["w.weight"]
    roles = {part.role: part.tensor for part in tensor.parts}
    assert tensor.scheme != "none" and set(roles) == {"values", "scales"}
    assert roles["scales"].numpy().tolist() == [[2]] and roles["values"].dtype == "F8_E4M3"
    assert roles["scales"].numpy(writable=True).flags.writeable and "stored as" in tensor._repr_html_()


@needs("torch")
def test_to_is_torchs(model):
    import torch

    assert model["BF16"].to(torch.float32).dtype == torch.float32 == model["I8"].to("cpu", torch.float32).dtype
    assert model["I8"].to(device="cpu").dtype == torch.int8 and model["I8"].to(torch.int64).dtype == torch.int64


def test_edges_are_those_of_numpy(arrays):
    values = arrays["I16"].astype("float32")
    stats = tenmap.measure(values, bins=7)
    counts, edges = numpy.histogram(values, 7)
    assert stats.histogram == counts.tolist() and numpy.allclose(stats.edges, edges) and len(stats.edges) == 8
    assert tenmap.measure(values, bins=2, range=(0, 1)).edges == [0, 0.5, 1] and tenmap.measure(values).edges is None


def test_the_logger_says_what_is_opened_and_loaded(path, caplog):
    with caplog.at_level(logging.DEBUG, "tenmap"):
        tenmap.open(path).load(["F32"])
    assert [record.name for record in caplog.records] == ["tenmap"] * 2 and str(path) in caplog.text


def _members(owner):
    for name, member in vars(owner).items():
        if not name.startswith("_"):
            yield f"{owner.__name__}.{name}", member


def test_help_has_a_text_for_everything():
    missing = []
    for module in (tenmap, tenmap.safetensors):
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.getdoc(thing):
                missing.append(name)
            for base in (thing, *getattr(thing, "__bases__", ())) if inspect.isclass(thing) else ():
                if base.__module__.startswith("tenmap") and not issubclass(base, (int, tuple)):
                    missing += [name for name, member in _members(base)
                                if (callable(member) or hasattr(member, "__get__")) and not inspect.getdoc(member)]  # fmt: skip
    assert missing == []
