"""Quantizes a model as a library does, for quantized_models.py:
quantize_llama.py LIBRARY MODEL TOKENS OUT

Runs in the environment of gptqmodel or autoawq, which differ from those of the other libraries; it
does not use the tool. For each way to quantize, OUT gets a folder as the library saves it, and a
file beside it with the weights as the library's own layers dequantize them, and the logits that it
computes with those.
"""
import os
import sys

# By default, gptqmodel starts half as many threads as there are processors; with two processors, it
# then reports too few.
os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch

LIBRARY, MODEL, TOKENS, OUT = sys.argv[1:]
VOCABULARY, SAMPLES, LENGTH = 320, 8, 32
torch.manual_seed(1)
CALIBRATION = torch.randint(0, VOCABULARY, (SAMPLES, LENGTH)).tolist()


def keep(label, dtype, model, dequantize):
    """Saves the weights of `model` outside its quantized layers, dequantize(layer) as [in, out] for
    each of those, and the logits."""
    layers = {name: layer for name, layer in model.named_modules() if hasattr(layer, "qweight")}
    weights = {name: value for name, value in model.state_dict().items() if name.rpartition(".")[0] not in layers}
    with torch.no_grad():
        for name, layer in layers.items():
            weights[name + ".weight"] = dequantize(layer).t().contiguous()
        logits = model.eval()(torch.load(TOKENS)).logits.float()
    torch.save({"label": label, "dtype": dtype, "weights": weights, "logits": logits},
               os.path.join(OUT, label + ".pt"))


def add_tokenizer():
    """gptqmodel requires a tokenizer, although it gets ids."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({str(i): i for i in range(VOCABULARY)}, unk_token="0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="0", bos_token="1", eos_token="2",
                            pad_token="0").save_pretrained(MODEL)


def gptqmodel():
    """Its quantized layers are those of the torch backend, which loads the folder that it saved.
    Its utils/model_dequant.py is in quantized.py; that file supports only one width for all layers,
    and not AWQ's order."""
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
    add_tokenizer()
    calibration = [{"input_ids": ids, "attention_mask": [1] * LENGTH} for ids in CALIBRATION]
    gptq = dict(bits=4, group_size=32, format="gptq", desc_act=False)
    awq = dict(bits=4, group_size=32, format="gemm", method="awq")
    for label, dtype, settings in (
            ("gptq", "f16", gptq),
            ("gptq with zero points, desc_act", "f16", dict(gptq, sym=False, desc_act=True)),
            ("gptq_v2 in groups of 128, with zero points, desc_act", "f16",
             dict(gptq, group_size=128, format="gptq_v2", sym=False, desc_act=True)),
            ("gptq of 3 bits", "f16", dict(gptq, bits=3)),
            ("gptq with dynamic rules and lm_head", "f16",
             dict(gptq, lm_head=True, dynamic={r".*\.down_proj": {"bits": 8, "group_size": 64}, r"-:.*\.q_proj": {}})),
            ("awq", "f16", awq),
            ("awq in groups of 128, with zero points, of bf16", "bf16", dict(awq, group_size=128, sym=False))):
        as_torch = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
        folder = os.path.join(OUT, label)
        # Another way of packing would be compiled first, for half a minute.
        model = GPTQModel.load(MODEL, QuantizeConfig(pack_impl="original", **settings), device="cpu", dtype=as_torch)
        model.quantize(calibration, batch_size=1, calibration_data_min_length=1)
        model.save(folder)
        model = GPTQModel.load(folder, device="cpu", backend=BACKEND.TORCH, dtype=as_torch).model
        if settings.get("desc_act") and settings["group_size"] == 32 and all(
                torch.equal(layer.g_idx, layer.g_idx.sort().values)
                for layer in model.modules() if hasattr(layer, "g_idx")):
            sys.exit(f"{label}: all groups are in order")
        keep(label, dtype, model, lambda layer: layer.dequantize_weight() if "method" not in settings else
             dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, layer.bits, layer.group_size))


def autoawq():
    import awq.modules.linear.gemm
    from awq import AutoAWQForCausalLM
    from awq.utils.packing_utils import dequantize_gemm
    awq.modules.linear.gemm.TRITON_AVAILABLE = False  # Triton computes on a GPU
    model = AutoAWQForCausalLM.from_pretrained(MODEL, device_map="cpu", torch_dtype=torch.float16)
    model.quantize(None, calib_data=CALIBRATION, max_calib_samples=SAMPLES, max_calib_seq_len=LENGTH,
                   quant_config={"zero_point": True, "q_group_size": 32, "w_bit": 4, "version": "GEMM"})
    model.save_quantized(os.path.join(OUT, "awq"))
    keep("awq", "f16", model.model, lambda layer: dequantize_gemm(layer.qweight, layer.qzeros, layer.scales,
                                                                  layer.w_bit, layer.group_size))


{"gptqmodel": gptqmodel, "autoawq": autoawq}[LIBRARY]()
