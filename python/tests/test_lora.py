"""Adapters that are applied to derived models, against what the command writes, to the bit."""

import json
import subprocess

import numpy
import pytest

import tenmap
from conftest import ml_dtypes, same
from tenmap import __main__ as command

TOOL = command.find_tool()


def has_lora():
    return TOOL is not None and subprocess.run([TOOL, "help", "lora"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not has_lora(), reason="this build of the package has no command, or that has no lora")
AT = "base_model.model."


@pytest.fixture
def random():
    generator = numpy.random.default_rng(3)
    return lambda *shape, dtype="float32": generator.standard_normal(shape).astype(dtype)


@pytest.fixture
def base(random, tmp_path):
    tenmap.save_file({
        "layers.0.q.weight": random(8, 6, dtype=ml_dtypes.bfloat16), "layers.0.q.bias": random(8), "head.weight": random(4, 6),
        "conv.weight": random(8, 4, 3, 3, dtype="float16"), "embed.weight": random(16, 6), "ids": numpy.arange(3),
    }, tmp_path / "base.safetensors", {"format": "pt"})  # fmt: skip
    return tmp_path / "base.safetensors"


def peft(folder, tensors, **settings):
    folder.mkdir()
    tenmap.save_file({AT + name: array for name, array in tensors.items()}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 3, **settings}))
    return folder


@pytest.fixture
def adapter(random, tmp_path):
    return peft(tmp_path / "adapter", {
        "layers.0.q.lora_A.weight": random(2, 6), "layers.0.q.lora_B.weight": random(8, 2),
        "conv.lora_A.weight": random(2, 4, 3, 3), "conv.lora_B.weight": random(8, 2, 1, 1),
        "embed.lora_embedding_A": random(2, 16), "embed.lora_embedding_B": random(6, 2),
        "head.modules_to_save.default.weight": random(4, 6, dtype="float16"), "layers.0.q.bias": random(8), "score.weight": random(2, 6),
    }, modules_to_save=["head", "score"], use_rslora=True)  # fmt: skip


def written(base, adapter, tmp_path, *options):
    out = tmp_path / "by the command.safetensors"
    subprocess.run([TOOL, "lora", base, adapter, "-o", out, *options], check=True, capture_output=True)
    return tenmap.open(out)


def test_names_are_no_patterns(random, tmp_path):
    """The dtype of a tensor that is called like a pattern is not that of others."""
    tenmap.save_file({"q*.weight": random(4, 6, dtype="float16"), "qx.weight": random(4, 6)}, tmp_path / "base")
    adapter = peft(tmp_path / "adapter", {"q*.lora_A.weight": random(2, 6), "q*.lora_B.weight": random(4, 2)})
    merged = tenmap.apply_lora(tmp_path / "base", adapter)
    assert {name: tensor.dtype for name, tensor in merged.items()} == {"q*.weight": "F16", "qx.weight": "F32"}


def test_equals_what_the_command_writes(base, adapter, tmp_path):
    for scale in (1.0, 0.3):
        expected = written(base, adapter, tmp_path, "--scale", str(scale), "--force")
        with tenmap.open(base) as model, tenmap.open(adapter) as lora:
            ways = [tenmap.apply_lora(model, lora, scale), tenmap.apply_lora(str(base), adapter, scale)]
        for merged in ways:
            assert set(merged) == set(expected) and "score.weight" in merged
            for name in expected:
                assert merged[name].dtype == expected[name].dtype and same(merged[name].numpy(), expected[name].numpy()), name
    assert len(merged["conv.weight"].parts) == 3


def test_kohya_and_its_alpha(base, random, tmp_path):
    tenmap.save_file({
        "lora_unet_layers_0_q.lora_down.weight": random(2, 6), "lora_unet_layers_0_q.lora_up.weight": random(8, 2),
        "lora_unet_layers_0_q.alpha": numpy.float32(1), "lora_unet_head.diff": random(4, 6),
    }, tmp_path / "kohya.safetensors")  # fmt: skip
    expected = written(base, tmp_path / "kohya.safetensors", tmp_path)
    merged = tenmap.apply_lora(base, tmp_path / "kohya.safetensors")
    assert all(same(merged[name].numpy(), expected[name].numpy()) for name in expected)


def test_a_quantized_base(random, tmp_path):
    codes = random(8, 6).astype(ml_dtypes.float8_e4m3fn)
    path = tmp_path / "fp8.safetensors"
    tenmap.save_file({"q.weight": codes, "q.weight_scale": numpy.float32(0.5)}, path)
    lora = peft(tmp_path / "a", {"q.lora_A.weight": random(2, 6), "q.lora_B.weight": random(8, 2)})
    expected = written(path, lora, tmp_path)
    assert same(tenmap.apply_lora(path, lora)["q.weight"].numpy(), expected["q.weight"].numpy())
    with pytest.raises(ValueError, match="dequantize=True"):
        tenmap.apply_lora(tenmap.open(path), lora)


def test_refused(base, adapter, random, tmp_path):
    other = peft(tmp_path / "other", {"none.lora_A.weight": random(2, 6), "none.lora_B.weight": random(8, 2)})
    with pytest.raises(tenmap.Error, match="none"):
        tenmap.apply_lora(base, other)
    dora = peft(tmp_path / "dora", {
        "layers.0.q.lora_A.weight": random(2, 6), "layers.0.q.lora_B.weight": random(8, 2),
        "layers.0.q.lora_magnitude_vector.weight": random(8),
    }, use_dora=True)  # fmt: skip
    with pytest.raises(tenmap.Error, match="DoRA.*tenmap lora") as caught:
        tenmap.apply_lora(base, dora)
    assert caught.value.status == tenmap.Status.UNSUPPORTED
    with pytest.raises(TypeError, match="reads files"):
        tenmap.apply_lora(tenmap.open(base.read_bytes()), adapter)
    with pytest.raises(tenmap.Error, match="scale"):
        tenmap.apply_lora(base, adapter, 0)
