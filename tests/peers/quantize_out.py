"""Reads the output of `tenmap convert --quantize` as other programs do:
python3 quantize_out.py TENMAP CLI_QUANTIZED.

compressed-tensors reads its own section of config.json and decompresses each weight; DeepSeek's
formula is written out in torch. Both must give the same bits as `convert --dequantize --to f32`.
Codes must be the nearest, and scales must follow from the largest value of their row, block or
group.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)
try:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig
except ImportError as missing:
    print(f"SKIPPED: {missing}; only DeepSeek's layout would be left")
    sys.exit(77)

tool, fixtures = map(os.path.abspath, sys.argv[1:3])


def run(*arguments):
    subprocess.run([tool, *arguments], check=True, capture_output=True)


def deepseek(parts, module):
    """Returns weight * weight_scale_inv of its 128x128 block; blocks at the edges are smaller."""
    weight, scale = parts[module + ".weight"], parts[module + ".weight_scale_inv"]
    rows, columns = weight.shape
    spread = scale.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
    return weight.to(torch.float32) * spread


def compressed(parts, module, config):
    scheme = next(iter(QuantizationConfig.model_validate(config).config_groups.values()))
    own = {name[len(module) + 1:]: t for name, t in parts.items() if name.startswith(module + ".")}
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    return compressor.decompress(own, scheme)["weight"].to(torch.float32)


def largest(x, scheme):
    """Returns, for each element, the largest magnitude among those that share its scale."""
    rows, columns = x.shape
    if scheme == "fp8-block":
        out = torch.empty_like(x)
        for r in range(0, rows, 128):
            for c in range(0, columns, 128):
                out[r:r + 128, c:c + 128] = x[r:r + 128, c:c + 128].abs().max()
        return out
    if scheme == "mxfp4":
        return x.reshape(rows, -1, 32).abs().amax(2, keepdim=True).expand(-1, -1, 32).reshape(rows, columns)
    return x.abs().amax(1, keepdim=True).expand(-1, columns)


def check_error(x, y, scheme, name):
    """The error is at most half a step of the codes; the largest value becomes 448, 127, or 3.5 to
    7."""
    top = largest(x, scheme)
    if scheme.startswith("fp8"):  # 3 bits of mantissa, or the subnormals' steps of 2^-9
        bound = torch.maximum(x.abs() / 16, top / 448 * 2 ** -10)
    elif scheme == "int8-channel":
        bound = top / 127 / 2
    else:  # E2M1 ends in 4, 6: steps of 2, and 7 is as near to 6 as to 8
        bound = top / 3.5
    worst = ((x - y).abs() - bound * 1.0001).max()
    assert worst <= 0, (scheme, name, float(worst))


def check(folder, original, scheme):
    out = f"{folder}-{scheme}"
    # Without a rule, fp8-block keeps weights that are not of whole blocks.
    rules = ["--rule", "*_proj.weight=quantize", "--rule", "*.more.*=quantize"] if scheme == "fp8-block" else []
    run("convert", folder, "--quantize", scheme, *rules, "-o", out + "/")
    run("convert", out, "--dequantize", "--to", "f32", "-o", out + "-f32/")
    parts, plain = load_file(out + "/model.safetensors"), load_file(out + "-f32/model.safetensors")
    with open(out + "/config.json") as file:
        config = json.load(file)
    assert config["hidden_size"] == 160, "keys that were there stay"
    with open(out + "-f32/config.json") as file:
        assert "quantization_config" not in json.load(file)
    assert set(plain) == set(original)
    count = 0
    for name, x in original.items():
        if name in parts and parts[name].dtype == x.dtype:
            assert torch.equal(parts[name], x), name
            continue
        module = name[:-len(".weight")]
        theirs = deepseek(parts, module) if scheme == "fp8-block" else \
            compressed(parts, module, config["quantization_config"])
        assert theirs.shape == x.shape
        assert torch.equal(theirs.view(torch.int32), plain[name].to(torch.float32).view(torch.int32)), (scheme, name)
        check_error(x.to(torch.float32), theirs, scheme, name)
        count += 1
    ignored = config["quantization_config"].get("ignore", config["quantization_config"].get("modules_to_not_convert"))
    assert "lm_head" in ignored
    print(f"{scheme}: {count} weights, as others read them")
    return count


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([fixtures, "."], check=True)
        original = load_file("plain/model.safetensors")
        shapes = [(1, 1), (3, 129), (257, 31), (128, 4096), (300, 96)]
        torch.manual_seed(7)
        for i, shape in enumerate(shapes):
            for kind, dtype in enumerate((torch.float32, torch.bfloat16, torch.float16)):
                x = torch.randn(shape) * 10.0 ** (i - 3)
                x[0, 0] = 0
                original[f"model.layers.{2 + i}.more.{kind}.weight"] = x.to(dtype)
        save_file(original, "plain/model.safetensors")
        counts = [check("plain", original, s) for s in ("fp8-block", "fp8-channel", "int8-channel", "mxfp4")]
        assert counts == [20, 20, 20, 9], counts


main()
