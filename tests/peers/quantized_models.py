"""Each library quantizes a tiny Llama, and the tool dequantizes it: quantized_models.py TENMAP

Random weights are quantized and saved as the library does it. `tenmap convert --dequantize` makes a
plain model from that folder, transformers loads it, and its logits must equal those of the
library's own dequantized model. gptqmodel and autoawq have separate environments, whose
interpreters TENMAP_GPTQMODEL_PYTHON and TENMAP_AUTOAWQ_PYTHON name. What is not installed, or
cannot quantize here, is reported as skipped. Exits with 77 if nothing is left.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import peer

peer.hand_over()
try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
except ImportError as error:
    print(f"skipped: {error}; pip install torch transformers safetensors, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
TOOL = os.path.abspath(sys.argv[1])
F32 = torch.float32
torch.manual_seed(1)
CONFIG = LlamaConfig(vocab_size=320, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False, dtype=F32)
MODEL = LlamaForCausalLM(CONFIG).eval()
TOKENS = torch.arange(24).reshape(2, 12) * 13 % 320
NEAR = {"f16": 2e-3, "bf16": 2e-2}  # allowed difference of logits from those in F32
ELSEWHERE_SECONDS = 300  # after this, a library counts as unable to quantize


def logits(model):
    with torch.no_grad():
        return model.eval()(TOKENS).logits.float()


def linears(model):
    return [name + ".weight" for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and name != "lm_head"]


def compare(label, folder, wanted, tolerance=0.0, options=()):
    """The tool's output for the folder, loaded by transformers, has these logits; returns them."""
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([TOOL, "convert", folder, "--dequantize", *options, "--copy-config", "-o",
                        os.path.join(work, "model.safetensors")], check=True, stdout=subprocess.DEVNULL)
        model, info = AutoModelForCausalLM.from_pretrained(work, output_loading_info=True, dtype=F32)
        if info["missing_keys"] or info["unexpected_keys"] or getattr(model.config, "quantization_config", None):
            sys.exit(f"{label}: the plain model is not whole: {info}")
        got = logits(model)
    apart = (got - wanted).abs().max().item()
    if not apart <= tolerance:
        sys.exit(f"{label}: logits are up to {apart} apart")
    if apart == 0 and torch.equal(wanted, logits(MODEL)):
        sys.exit(f"{label}: nothing was quantized")
    print(f"{label}: the same logits" if apart == 0 else f"{label}: logits within {apart:.1e}", flush=True)
    return got


def by_weight(label, quantize, config, narrow=False):
    """quantize(weight) returns the tensors that the library stores, by their suffixes, and their
    dequantized values. narrow: in BF16, to which all weights are then converted."""
    state, plain = {}, LlamaForCausalLM(CONFIG)
    plain.load_state_dict(MODEL.state_dict())
    chosen = set(linears(MODEL))
    for name, value in MODEL.state_dict().items():
        if name not in chosen:
            state[name] = value
            continue
        parts, dequantized = quantize(value)
        state.update({name[:-len("weight")] + ending: part for ending, part in parts.items()})
        plain.get_parameter(name).data.copy_(dequantized)
    with tempfile.TemporaryDirectory() as folder:
        saved = LlamaConfig(**CONFIG.to_dict())
        saved.quantization_config = config
        saved.architectures = ["LlamaForCausalLM"]
        saved.save_pretrained(folder)
        save_file({k: v.detach().contiguous() for k, v in state.items()},
                  os.path.join(folder, "model.safetensors"), {"format": "pt"})
        for parameter in plain.parameters() if narrow else ():
            parameter.data = parameter.data.bfloat16().float()
        compare(label, folder, logits(plain), options=("--to", "bf16") if narrow else ())


def compressed_tensors():
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    for kind, settings in (
            ("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=32, symmetric=True)),
            ("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=32, symmetric=False)),
            ("float-quantized", dict(num_bits=8, type="float", strategy="channel", symmetric=True)),
            ("mxfp4-pack-quantized", dict(num_bits=4, type="float", strategy="group", group_size=32,
                                          symmetric=True, scale_dtype=torch.uint8)),
            ("nvfp4-pack-quantized", dict(num_bits=4, type="float", strategy="tensor_group", group_size=16,
                                          symmetric=True, scale_dtype=torch.float8_e4m3fn))):
        args = QuantizationArgs(**settings)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor = BaseCompressor.get_value_from_registry(kind)

        def quantize(w):
            groups = w.reshape(w.shape[0], -1, args.group_size or w.shape[1])
            total = generate_gparam(w.amin(), w.amax()) if kind.startswith("nvfp4") else None
            scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), args, global_scale=total)
            state = {"weight": w, "weight_scale": scale, "weight_zero_point": zero}
            if total is not None:
                state["weight_global_scale"] = total.reshape(1)
            stored = compressor.compress(state, scheme)
            return stored, compressor.decompress(stored, scheme)["weight"]

        by_weight(f"compressed-tensors {kind} {'symmetric' if args.symmetric else 'with zero points'}", quantize,
                  {"quant_method": "compressed-tensors", "format": kind, "ignore": ["lm_head"],
                   "config_groups": {"group_0": {"targets": ["Linear"], "weights": args.model_dump(mode="json")}}},
                  narrow=kind.startswith("nvfp4"))  # its decompressor returns BF16


def bitsandbytes():
    """transformers quantizes, saves and dequantizes with bitsandbytes."""
    import bitsandbytes
    from transformers import BitsAndBytesConfig
    configs = {"nf4, nested": BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                                 bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=F32),
               "fp4": BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="fp4", bnb_4bit_compute_dtype=F32),
               "int8": BitsAndBytesConfig(load_in_8bit=True)}
    with tempfile.TemporaryDirectory() as plain:
        MODEL.save_pretrained(plain)
        for label, config in configs.items():
            with tempfile.TemporaryDirectory() as folder:
                model = AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=F32)
                model.save_pretrained(folder)
                # Its int8 code multiplies in another order than its backward pass.
                compare(f"bitsandbytes {label} {bitsandbytes.__version__}", folder, logits(model.dequantize(dtype=F32)),
                        1e-5 if label == "int8" else 0.0)


def transformers_fp8():
    """Fine-grained FP8, which transformers itself quantizes and dequantizes."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    op = Fp8Dequantize(None)

    def quantize(w):
        blocks = w.reshape(w.shape[0] // 64, 64, w.shape[1] // 64, 64)
        scale = blocks.abs().amax((1, 3)) / 448
        codes = (blocks / scale[:, None, :, None]).reshape(w.shape).to(torch.float8_e4m3fn)
        return {"weight": codes, "weight_scale_inv": scale}, op._dequantize_one(codes, scale, F32)

    by_weight("transformers fp8", quantize,
              {"quant_method": "fp8", "weight_block_size": [64, 64], "activation_scheme": "dynamic"})


def torchao():
    """torchao quantizes, flattens for safetensors and dequantizes."""
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerGroup,
                                      quantize_)
    for label, config in {"int8": Int8WeightOnlyConfig(version=2), "float8": Float8WeightOnlyConfig(),
                          "intx 4 bits": IntxWeightOnlyConfig(weight_dtype=torch.int4,
                                                              granularity=PerGroup(32))}.items():
        quantized, plain = LlamaForCausalLM(CONFIG), LlamaForCausalLM(CONFIG)
        for model in (quantized, plain):
            model.load_state_dict(MODEL.state_dict())
        quantize_(quantized.model, config)
        for name in linears(MODEL):
            plain.get_parameter(name).data.copy_(quantized.get_parameter(name).dequantize())
        state, metadata = flatten_tensor_state_dict({k: v.data for k, v in quantized.state_dict().items()})
        with tempfile.TemporaryDirectory() as folder:
            saved = LlamaConfig(**CONFIG.to_dict())
            saved.quantization_config = {"quant_method": "torchao"}
            saved.architectures = ["LlamaForCausalLM"]
            saved.save_pretrained(folder)
            save_file({k: v.detach().contiguous() for k, v in state.items()},
                      os.path.join(folder, "model.safetensors"), {"format": "pt", **metadata})
            compare(f"torchao {label}", folder, logits(plain))


def mlx():
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.cpu)
    to_torch = lambda a: torch.from_numpy(np.array(a)).clone()

    def quantize(w):
        parts = mx.quantize(mx.array(w.detach().numpy()), group_size=64, bits=4)
        values = mx.dequantize(*parts, group_size=64, bits=4)
        return dict(zip(("weight", "scales", "biases"), map(to_torch, parts))), to_torch(values)

    by_weight("mlx 4 bits", quantize, {"group_size": 64, "bits": 4, "mode": "affine"})


def elsewhere(library):
    """quantize_llama.py quantizes MODEL in the library's environment. The weights that the
    library's layers dequantize equal the tool's, bit for bit. The logits that it computes with them
    in 16 bits are near ours, and MODEL's are not."""
    variable = f"TENMAP_{library.upper()}_PYTHON"
    python = os.environ.get(variable)
    if not python:
        raise ImportError(f"{variable} names no interpreter that has it")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quantize_llama.py")
    with tempfile.TemporaryDirectory() as work:
        plain, tokens, out = (os.path.join(work, name) for name in ("plain", "tokens.pt", "out"))
        MODEL.save_pretrained(plain)
        torch.save(TOKENS, tokens)
        os.mkdir(out)
        try:
            subprocess.run([python, script, library, plain, tokens, out], check=True, timeout=ELSEWHERE_SECONDS,
                           cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except (OSError, subprocess.SubprocessError) as error:  # the tool has not run yet
            print((getattr(error, "output", None) or b"").decode(errors="replace")[-2000:])
            raise ImportError(f"it cannot quantize here: {error}") from error
        for own in sorted(name for name in os.listdir(out) if name.endswith(".pt")):
            own = torch.load(os.path.join(out, own))
            label = f"{library} {own['label']}"
            model = LlamaForCausalLM(CONFIG)
            model.load_state_dict(own["weights"])
            got = compare(label, os.path.join(out, own["label"]), logits(model), options=("--to", own["dtype"]))
            near, far = ((other - got).abs().max().item() for other in (own["logits"], logits(MODEL)))
            if not near <= NEAR[own["dtype"]] < far:
                sys.exit(f"{label}: {near} from what it computes itself, {far} from the original")
            print(f"{label}: {near:.1e} from what it computes itself, {far:.1e} from the original", flush=True)


def gptqmodel():
    elsewhere("gptqmodel")


def autoawq():
    elsewhere("autoawq")


def main():
    ran = skipped = 0
    for peer in (compressed_tensors, bitsandbytes, transformers_fp8, mlx, torchao, gptqmodel, autoawq):
        try:
            peer()
            ran += 1
        except ImportError as error:
            print(f"{peer.__name__}: skipped: {error}", flush=True)
            skipped += 1
    print(f"{ran} libraries, {skipped} skipped")
    sys.exit(0 if ran else peer.SKIP)


main()
