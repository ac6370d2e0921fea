"""Compares `tenmap layout` with transformers, on tiny random models of each architecture.

    layout_transformers.py TENMAP FOLDER

For each architecture with experts: what the tool stacks is what transformers holds in memory, name
by name and bit for bit; stacking and splitting give the same files back; and transformers gives the
same logits for every arrangement that it loads. For fused rows: Llama's, Mistral's and Qwen's
projections become those of Phi-3 and back.
"""

import os
import subprocess
import sys

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

os.environ["TOKENIZERS_PARALLELISM"] = "false"
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
TENMAP, WORK = sys.argv[1], sys.argv[2]

COMMON = dict(
    vocab_size=64, hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, head_dim=12, tie_word_embeddings=False,
    pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
MLA = dict(q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=12,
           num_key_value_heads=4, head_dim=4, n_routed_experts=6, num_experts_per_tok=2,
           moe_intermediate_size=24, n_shared_experts=1, first_k_dense_replace=1, n_group=2,
           topk_group=1)
EXPERTS = {
    "mixtral": dict(num_local_experts=5, num_experts_per_tok=2),
    "qwen2_moe": dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                      shared_expert_intermediate_size=32),
    "qwen3_moe": dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24),
    "deepseek_v2": dict(MLA, topk_method="greedy"),
    "deepseek_v3": MLA,
    "gpt_oss": dict(num_local_experts=5, num_experts_per_tok=2, sliding_window=16,
                    layer_types=["sliding_attention", "full_attention"]),
    "llama4_text": dict(num_local_experts=4, num_experts_per_tok=1, intermediate_size_mlp=56,
                        interleave_moe_layer_step=1, attention_chunk_size=32),
}
# Their hub files have the experts stacked: nothing else is on the hub.
ALWAYS_STACKED = {"gpt_oss", "llama4_text"}
FUSED = ["llama", "mistral", "qwen2", "qwen3"]


def tenmap(*words):
    done = subprocess.run([TENMAP, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def layout(source, out, *rules):
    tenmap("layout", source, *rules, "-o", out, "-q")
    return out


def file_of(folder):
    return os.path.join(folder, "model.safetensors")


def tensors_of(folder):
    return load_file(file_of(folder))


def same_bytes(a, b):
    with open(file_of(a), "rb") as x, open(file_of(b), "rb") as y:
        assert x.read() == y.read(), f"{a} and {b} differ"


def bits(t):
    return t.contiguous().view(torch.uint8)


def same_tensors(a, b):
    assert a.keys() == b.keys(), f"only in one: {sorted(a.keys() ^ b.keys())[:6]}"
    for name in a:
        assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, name
        assert torch.equal(bits(a[name]), bits(b[name])), name


def make(kind, folder, dtype, **more):
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**COMMON, **more})
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    for parameter in model.parameters():  # norms and biases too
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model.eval()


def logits(model):
    ids = torch.arange(3, 15).reshape(1, -1)
    with torch.no_grad():
        return model(ids).logits.float()


def load(folder, dtype, cls=AutoModelForCausalLM):
    model, info = cls.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info.get(key), f"{folder}: {key} {info[key]}"
    # The last bits of products may depend on where a weight lies in memory: at the same alignment.
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model.eval()


def check_experts(kind, more, dtype):
    folder = os.path.join(WORK, f"{kind}-{str(dtype)[6:]}")
    model = make(kind, f"{folder}-hub", dtype, **more)
    model.save_pretrained(f"{folder}-held", save_original_format=False)
    expected = logits(load(f"{folder}-hub", dtype))
    held = tensors_of(f"{folder}-held")

    # From what transformers holds to one expert after the other, and back.
    split = layout(f"{folder}-held", f"{folder}-split", "--split-experts")
    same_tensors(tensors_of(layout(split, f"{folder}-again", "--stack-experts")), held)
    same_bytes(layout(f"{folder}-again", f"{folder}-split2", "--split-experts"), split)
    same_bytes(layout(f"{folder}-split2", f"{folder}-again2", "--stack-experts"), f"{folder}-again")
    if kind in ALWAYS_STACKED:
        check_matrices(tensors_of(split), held, interleaved=kind == "gpt_oss")
        same_bytes(f"{folder}-again", f"{folder}-hub")
    else:
        same_tensors(tensors_of(split), tensors_of(f"{folder}-hub"))
        stacked = layout(f"{folder}-hub", f"{folder}-stacked", "--stack-experts")
        same_tensors(tensors_of(stacked), held)
        same_bytes(layout(stacked, f"{folder}-back", "--split-experts"), f"{folder}-hub")
        assert torch.equal(logits(load(stacked, dtype)), expected), kind
        assert torch.equal(logits(load(split, dtype)), expected), kind
    assert torch.equal(logits(load(f"{folder}-again", dtype)), expected), kind
    print(f"{kind}, {str(dtype)[6:]}: {len(held)} tensors stacked, {len(tensors_of(split))} split; "
          "files, names and logits are equal")


def check_matrices(split, held, interleaved):
    """Matrices of one expert are outputs by inputs: the halves, or every other column, transposed."""
    seen = 0
    for name, whole in held.items():
        if ".experts." not in name:
            continue
        module, leaf = name.split(".experts.")
        bias = leaf.endswith("_bias")
        end = ".bias" if bias else ".weight"
        for e in range(whole.shape[0]):
            one = whole[e] if bias else whole[e].T
            base = f"{module}.experts.{e}."
            if leaf.startswith("down"):
                parts = {"down_proj": one}
            elif interleaved:
                parts = {"gate_proj": one[0::2], "up_proj": one[1::2]}
            else:
                parts = dict(zip(("gate_proj", "up_proj"), one.chunk(2)))
            for part, value in parts.items():
                assert torch.equal(split[base + part + end], value), base + part
                seen += 1
    assert seen


def check_fused(kind, dtype):
    """Llama's projections as Phi-3's, which is the same model with fused rows."""
    folder = os.path.join(WORK, f"{kind}-{str(dtype)[6:]}")
    model = make(kind, folder, dtype)
    fused = layout(folder, f"{folder}-fused", "--fuse", "qkv", "--fuse", "gate_up")
    same_bytes(layout(fused, f"{folder}-back", "--split", "gate_up", "--split", "qkv"), folder)
    original, joined = tensors_of(folder), tensors_of(fused)
    for name, value in joined.items():
        for whole, parts in (("qkv_proj", ("q_proj", "k_proj", "v_proj")),
                             ("gate_up_proj", ("gate_proj", "up_proj"))):
            if f".{whole}." in name:
                rows = [original[name.replace(whole, part)] for part in parts]
                assert torch.equal(value, torch.cat(rows)), name
    print(f"{kind}, {str(dtype)[6:]}: {len(original)} tensors, {len(joined)} fused, and back")
    return model, folder


def check_phi3():
    dtype = torch.float32
    model = make("phi3", f"{WORK}/phi3", dtype, sliding_window=None)
    split = layout(f"{WORK}/phi3", f"{WORK}/phi3-split", "--split", "qkv", "--split", "gate_up")
    same_bytes(layout(split, f"{WORK}/phi3-back", "--fuse", "qkv", "--fuse", "gate_up"), f"{WORK}/phi3")
    # The same weights as a Llama: other kernels, so the last bits differ.
    config = AutoConfig.for_model("llama", **COMMON, rope_parameters=model.config.rope_parameters,
                                  rms_norm_eps=model.config.rms_norm_eps)
    config.save_pretrained(split)
    other = logits(load(split, dtype))
    distance = (other - logits(model)).abs().max().item()
    assert distance < 1e-4 * logits(model).abs().max().item(), distance
    print(f"phi3, float32: split, loaded as llama; logits differ by at most {distance:.1e}")


def check_transpose():
    before = tensors_of(f"{WORK}/llama-bfloat16")
    out = layout(f"{WORK}/llama-bfloat16", f"{WORK}/transposed", "--transpose", "*.mlp.*")
    after = tensors_of(out)
    for name, value in before.items():
        assert torch.equal(after[name], value.T if ".mlp." in name else value), name
    same_bytes(layout(out, f"{WORK}/straight", "--transpose", "*.mlp.*"), f"{WORK}/llama-bfloat16")
    print("llama, bfloat16: transposed, and back")


for architecture, options in EXPERTS.items():
    for number in (torch.float32, torch.bfloat16):
        check_experts(architecture, options, number)
for architecture in FUSED:
    check_fused(architecture, torch.bfloat16)
check_phi3()
check_transpose()
