"""Compares `tenmap lora` with peft's merge_and_unload and with diffusers' fuse_lora:

    lora_peft.py TENMAP FOLDER

The reference is the other library's own merge of the same files in F64. The tool's result has to be
within one unit in the last place of it, in the dtype that is written, and no element may be farther
from it than that of the other library's merge in this dtype. A merged language model has to give
the logits of the model with the adapter attached.
"""
import os
import subprocess
import sys
import warnings

import peer

import torch
from safetensors.torch import load_file, save_file

warnings.filterwarnings("ignore")
import peft
import transformers
from peft import LoraConfig, PeftModel, get_peft_model

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
TENMAP, FOLDER = sys.argv[1:3]
# Of the significand, and the least exponent of a normal number.
FORMATS = {torch.float32: (24, -125), torch.bfloat16: (8, -125), torch.float16: (11, -13)}
failures = 0


def path(*names):
    return os.path.join(FOLDER, *names)


def run(*arguments):
    done = subprocess.run([TENMAP, "lora", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit("tenmap lora %s: %s" % (" ".join(arguments), done.stderr))
    return done.stdout


def units(values, dtype):
    """The distance between neighbors in this dtype around each value."""
    digits, least = FORMATS[dtype]
    exponents = torch.frexp(values).exponent.clamp(min=least)
    return torch.ldexp(torch.ones_like(values), exponents - digits)


def compare(what, got, exact, theirs, changed, double_rounding=False):
    """Checks tensors by name, and prints a line of figures."""
    global failures
    worst = elements = closer = 0
    slack = 2.0**-22 if double_rounding else 2.0**-45  # of rounding to F32 first, and of F64 itself
    for name, reference in exact.items():
        mine = got[name]
        if name not in changed:
            if not torch.equal(mine, theirs[name]):
                print("FAILED: %s: %s changed" % (what, name))
                failures += 1
            continue
        off = (mine.double() - reference).abs()
        theirs_off = (theirs[name].double() - reference).abs()
        farther = off > theirs_off + slack * reference.abs()
        most = float((off / units(reference, mine.dtype)).max())
        worst = max(worst, most)
        elements += off.numel()
        closer += int((off < theirs_off).sum())
        if most > 1 or bool(farther.any()):
            print("FAILED: %s: %s: %.3f ulp, %d elements farther than theirs" % (what, name, most, int(farther.sum())))
            failures += 1
    missing = set(changed) - set(exact)
    if missing or not elements:
        print("FAILED: %s: not compared: %s" % (what, sorted(missing)))
        failures += 1
    print("%-30s %7d elements, at most %.3f ulp off, %5d closer than theirs" % (what, elements, worst, closer))


def randomize(model, seed):
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "lora_magnitude_vector" in name:
            parameter.data = parameter.data * (0.5 + torch.rand_like(parameter))
        elif "lora_" in name or "modules_to_save" in name:
            parameter.data = torch.randn_like(parameter) * 0.05


def merged(load, adapters, dtype):
    """What peft makes of these files in this dtype."""
    base = load(dtype)
    model = PeftModel.from_pretrained(base, adapters[0], adapter_name="a0", autocast_adapter_dtype=dtype != torch.float64)
    for i, adapter in enumerate(adapters[1:], 1):
        model.load_adapter(adapter, adapter_name="a%d" % i, autocast_adapter_dtype=dtype != torch.float64)
    names = ["a%d" % i for i in range(len(adapters))]
    return model.merge_and_unload(adapter_names=names).state_dict()


def changed_names(before, after):
    return [name for name in after if name in before and not torch.equal(before[name].double(), after[name].double())]


def language_model(what, config, dtype, lora, more=None):
    folder = path(what.replace(" ", "-"))
    torch.manual_seed(1)
    base = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    base.save_pretrained(folder + "/base")
    adapters = []
    for i, settings in enumerate([lora] + ([more] if more else [])):
        fresh = transformers.AutoModelForCausalLM.from_pretrained(folder + "/base", dtype=dtype)
        model = get_peft_model(fresh, LoraConfig(**settings))
        randomize(model, 2 + i)
        adapters.append("%s/adapter%d" % (folder, i))
        model.save_pretrained(adapters[-1])

    def load(wanted):
        return transformers.AutoModelForCausalLM.from_pretrained(folder + "/base", dtype=wanted)

    run(folder + "/base", *adapters, "-o", folder + "/out", "-q")
    exact = merged(load, adapters, torch.float64)
    theirs = merged(load, adapters, dtype)
    before = load(dtype).state_dict()
    got = transformers.AutoModelForCausalLM.from_pretrained(folder + "/out", dtype=dtype).state_dict()
    dora = any(s.get("use_dora") for s in (lora, more or {}))
    compare(what, got, exact, theirs, changed_names(before, exact), dora and dtype != torch.float32)
    logits(what, folder, load, adapters)


def logits(what, folder, load, adapters):
    """The merged model, in F64, against the model with the adapter attached."""
    global failures
    if len(adapters) > 1:
        return
    wide = torch.float32 if "MoE" in what else torch.float64  # torch has no grouped products of F64
    attached = PeftModel.from_pretrained(load(wide), adapters[0], autocast_adapter_dtype=False).eval()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder + "/out", dtype=wide).eval()
    stored = next(iter(load_file(folder + "/out/model.safetensors").values())).dtype
    ids = torch.arange(24).reshape(2, 12) % 61
    with torch.no_grad():
        a, b = attached(ids).logits, model(ids).logits
    off = float((a - b).abs().max() / a.abs().max())
    bound = {torch.float32: 1e-6, torch.float16: 5e-3, torch.bfloat16: 5e-2}[stored]
    print("%-30s logits differ by %.1e of the largest (bound %.0e)" % ("", off, bound))
    if not off <= bound:
        print("FAILED: %s: logits" % what)
        failures += 1


class Layers(torch.nn.Module):
    """What language models lack: convolutions."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(40, 24)
        self.conv3 = torch.nn.Conv2d(8, 12, 3)
        self.conv1 = torch.nn.Conv2d(12, 16, 1)
        self.line = torch.nn.Conv1d(6, 10, 5)
        self.cube = torch.nn.Conv3d(4, 6, (1, 2, 3))
        self.linear = torch.nn.Linear(24, 40)

    def forward(self, x):
        return self.linear(self.embed(x))


def layers(what, dtype, **settings):
    folder = path(what.replace(" ", "-"))
    os.makedirs(folder)
    torch.manual_seed(1)
    weights = Layers().to(dtype).state_dict()
    save_file(weights, folder + "/base.safetensors")

    def load(wanted):
        model = Layers().to(wanted)
        model.load_state_dict({k: v.to(wanted) for k, v in weights.items()})
        return model

    model = get_peft_model(load(dtype), LoraConfig(**settings))
    randomize(model, 3)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name.endswith(".bias"):
            parameter.data = torch.randn_like(parameter)
    model.save_pretrained(folder + "/adapter")
    run(folder + "/base.safetensors", folder + "/adapter", "-o", folder + "/out.safetensors", "-q")
    exact = merged(load, [folder + "/adapter"], torch.float64)
    theirs = merged(load, [folder + "/adapter"], dtype)
    dora = settings.get("use_dora", False) and dtype != torch.float32
    compare(what, load_file(folder + "/out.safetensors"), exact, theirs, changed_names(weights, exact), dora)


def small(kind, **more):
    return kind(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, vocab_size=96, max_position_embeddings=64, **more)


def with_peft():
    llama, mistral = small(transformers.LlamaConfig), small(transformers.MistralConfig, head_dim=16)
    moe = small(transformers.Qwen3MoeConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, head_dim=16)
    gpt2 = transformers.GPT2Config(n_embd=48, n_layer=2, n_head=4, vocab_size=96, n_positions=64)
    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    plain = dict(r=8, lora_alpha=16, target_modules=attention)
    everything = dict(r=4, lora_alpha=8, target_modules="all-linear")
    for dtype in torch.float32, torch.bfloat16, torch.float16:
        language_model("Llama %s" % str(dtype)[6:], llama, dtype, dict(plain, use_rslora=True))
    language_model("Llama saved whole", llama, torch.bfloat16, dict(plain, modules_to_save=["lm_head", "norm"]))
    language_model("Llama embeddings", llama, torch.bfloat16, dict(plain, target_modules=["embed_tokens", "lm_head"]))
    language_model("Mistral patterns", mistral, torch.bfloat16,
                   dict(everything, rank_pattern={"q_proj": 6, "layers.0.mlp.up_proj": 3},
                        alpha_pattern={"^model.layers.1.self_attn.v_proj": 32, "down_proj": 2}))
    language_model("Qwen3-MoE", moe, torch.bfloat16, plain)
    language_model("GPT-2 fan_in_fan_out", gpt2, torch.float16,
                   dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True))
    language_model("Llama two adapters", llama, torch.bfloat16, plain, dict(everything, use_rslora=True))
    for dtype in torch.float32, torch.bfloat16:
        language_model("Llama DoRA %s" % str(dtype)[6:], llama, dtype, dict(everything, use_dora=True))
    language_model("Llama DoRA and LoRA", llama, torch.bfloat16, dict(plain, use_dora=True), everything)
    language_model("Llama two DoRAs", llama, torch.bfloat16, dict(plain, use_dora=True), dict(everything, use_dora=True))
    language_model("GPT-2 DoRA", gpt2, torch.float32,
                   dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, use_dora=True))
    names = ["embed", "conv3", "conv1", "line", "cube", "linear"]
    for dtype in torch.float32, torch.bfloat16:
        layers("layers %s" % str(dtype)[6:], dtype, r=4, lora_alpha=6, target_modules=names, bias="lora_only")
        layers("layers DoRA %s" % str(dtype)[6:], dtype, r=4, lora_alpha=6, target_modules=names, use_dora=True)
    layers("layers with biases", torch.float32, r=4, lora_alpha=6, target_modules=["conv3", "linear"], lora_bias=True)


def main():
    print("peft %s, transformers %s, torch %s" % (peft.__version__, transformers.__version__, torch.__version__))
    with_peft()
    try:
        import diffusers
    except ImportError:
        print("skipped: diffusers is not here")
    else:
        import lora_diffusers
        lora_diffusers.compare_all(sys.modules["__main__"], diffusers)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
