"""Compares `tenmap fit` with the buffers that llama.cpp allocates: fit_llama.py TENMAP

Writes tiny GGUF models with random weights, opens each in llama.cpp, creates a context, and reads
the sizes of the model buffer and of the KV cache from its log. fit_llama.sh provides llama.cpp.

Weights and parameters must equal what llama.cpp's API says. What the log says must be the same text
when the expected bytes are printed as llama.cpp prints them: MiB with two decimals. The log has the
tokens ("cells") and layers of a cache as integers, which must be equal too.

llama.cpp differs from `fit` by these rules, which are applied to what `fit` says:

- The model buffer is the file from the first tensor to the end of the last one, so the padding
  between tensors is in it.
- A cache for sliding windows has room for the window and the tokens that are computed at a time
  (n_ubatch), but for no more than the context; and it is a multiple of 256 tokens.
- The windows of Phi-3 are turned off: every layer keeps the whole context.
- With swa_full, every layer of any model keeps the whole context.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np

TENMAP = sys.argv[1]
TYPES = gguf.GGMLQuantizationType
HIDDEN, INNER, VOCABULARY, HEADS, KV_HEADS, HEAD, EXPERTS = 256, 512, 512, 4, 2, 64, 8
PAGE = 256  # tokens; llama.cpp rounds up to this
WINDOW = 512


def attention(query=HEADS * HEAD, kv=KV_HEADS * HEAD):
    return {"attn_norm": [HIDDEN], "attn_q": [query, HIDDEN], "attn_k": [kv, HIDDEN], "attn_v": [kv, HIDDEN],
            "attn_output": [HIDDEN, query]}


MLP = {"ffn_norm": [HIDDEN], "ffn_gate": [INNER, HIDDEN], "ffn_up": [INNER, HIDDEN], "ffn_down": [HIDDEN, INNER]}
EXPERT_MLP = {"ffn_gate_inp": [EXPERTS, HIDDEN], "ffn_gate_exps": [EXPERTS, INNER, HIDDEN],
              "ffn_up_exps": [EXPERTS, INNER, HIDDEN], "ffn_down_exps": [EXPERTS, HIDDEN, INNER]}
HEAD_NORMS = {"attn_q_norm": [HEAD], "attn_k_norm": [HEAD]}
POST_NORMS = {"post_attention_norm": [HIDDEN], "post_ffw_norm": [HIDDEN]}
GPT_OSS_BIASES = {"attn_q.bias": [HEADS * HEAD], "attn_k.bias": [KV_HEADS * HEAD], "attn_v.bias": [KV_HEADS * HEAD],
                  "attn_output.bias": [HIDDEN], "attn_sinks.weight": [HEADS], "ffn_gate_inp.bias": [EXPERTS],
                  "ffn_gate_exps.bias": [EXPERTS, INNER], "ffn_up_exps.bias": [EXPERTS, INNER],
                  "ffn_down_exps.bias": [EXPERTS, HIDDEN]}
EXPERT_KEYS = {"expert_count": EXPERTS, "expert_used_count": 2}
HEAD_KEYS = {"attention.key_length": HEAD, "attention.value_length": HEAD}
WINDOW_KEYS = {"attention.sliding_window": WINDOW}
# DeepSeek: the ranks of queries and of keys and values, and the parts of a head with and without
# positions.
Q_RANK, KV_RANK, ROPE, NOPE = 128, 192, 64, 64
LATENT = {"attn_norm": [HIDDEN], "attn_q_a": [Q_RANK, HIDDEN], "attn_q_a_norm": [Q_RANK],
          "attn_q_b": [HEADS * (NOPE + ROPE), Q_RANK], "attn_kv_a_mqa": [KV_RANK + ROPE, HIDDEN],
          "attn_kv_a_norm": [KV_RANK], "attn_k_b": [HEADS, KV_RANK, NOPE], "attn_v_b": [HEADS, HEAD, KV_RANK],
          "attn_output": [HIDDEN, HEADS * HEAD]}
LATENT_KEYS = {"attention.head_count_kv": 1, "attention.key_length": KV_RANK + ROPE,
               "attention.value_length": KV_RANK, "attention.key_length_mla": NOPE + ROPE,
               "attention.value_length_mla": HEAD, "attention.q_lora_rank": Q_RANK,
               "attention.kv_lora_rank": KV_RANK, "rope.dimension_count": ROPE, "leading_dense_block_count": 4,
               "expert_feed_forward_length": INNER, "expert_shared_count": 1, **EXPERT_KEYS}


class Model:
    """`runs` are settings for `fit` and for llama.cpp: tokens of a sequence, and optionally `batch`,
    `ubatch`, `cache` (a dtype) and `swa_full`. `layers` are those that have a cache; `keys` may
    override the number that the file says."""

    def __init__(self, label, architecture, layers, tensors, runs, keys=(), kind=TYPES.F16, tied=False):
        self.label, self.architecture, self.layers, self.tensors = label, architecture, layers, tensors
        self.runs, self.keys, self.kind, self.tied = runs, dict(keys), kind, tied


WINDOW_RUNS = [dict(tokens=256), dict(tokens=WINDOW), dict(tokens=4096, ubatch=1), dict(tokens=4096, ubatch=512),
               dict(tokens=768, ubatch=512), dict(tokens=4096, batch=3, ubatch=256),
               dict(tokens=4096, swa_full=True)]
MODELS = [
    Model("Llama", "llama", 4, {**attention(), **MLP},
          [dict(tokens=4096), dict(tokens=8192, batch=4), dict(tokens=1024, cache="f32")]),
    Model("Qwen 3, heads of another size", "qwen3", 4, {**attention(HEADS * 128, KV_HEADS * 128), **MLP,
                                                      "attn_q_norm": [128], "attn_k_norm": [128]},
          [dict(tokens=4096), dict(tokens=4096, cache="q8_0"), dict(tokens=4096, cache="q4_0")],
          {"attention.key_length": 128, "attention.value_length": 128}, TYPES.BF16),
    Model("Mixtral", "llama", 3, {**attention(), **EXPERT_MLP, "ffn_norm": [HIDDEN]},
          [dict(tokens=4096), dict(tokens=4096, batch=2)], EXPERT_KEYS, TYPES.Q8_0),
    Model("Gemma 3, windows in 10 of 12 layers", "gemma3", 12, {**attention(), **MLP, **HEAD_NORMS, **POST_NORMS},
          WINDOW_RUNS, {**HEAD_KEYS, **WINDOW_KEYS}, tied=True),
    Model("gpt-oss, windows in 2 of 4 layers", "gpt-oss", 4,
          {**attention(), **EXPERT_MLP, "post_attention_norm": [HIDDEN], **GPT_OSS_BIASES}, WINDOW_RUNS,
          {**HEAD_KEYS, **WINDOW_KEYS, **EXPERT_KEYS, "expert_feed_forward_length": INNER}, TYPES.MXFP4),
    Model("OLMo 3, windows as the file lists them", "olmo2", 4,
          {**{k: v for k, v in {**attention(), **MLP}.items() if k not in ("attn_norm", "ffn_norm")},
           "attn_q_norm": [HEADS * HEAD], "attn_k_norm": [KV_HEADS * HEAD], **POST_NORMS}, WINDOW_RUNS,
          {**WINDOW_KEYS, "attention.sliding_window_pattern": [True, False, False, True]}),
    Model("Phi-3, windows in all layers", "phi3", 4,
          {"attn_norm": [HIDDEN], "attn_qkv": [(HEADS + 2 * KV_HEADS) * HEAD, HIDDEN], "attn_output": [HIDDEN, HIDDEN],
           "ffn_norm": [HIDDEN], "ffn_up": [2 * INNER, HIDDEN], "ffn_down": [HIDDEN, INNER]},
          [dict(tokens=WINDOW), dict(tokens=4096)], WINDOW_KEYS, TYPES.Q8_0),
    Model("DeepSeek, and a layer for further tokens", "deepseek2", 4, {**LATENT, **MLP},
          [dict(tokens=4096), dict(tokens=8192, batch=2)],
          {**LATENT_KEYS, "block_count": 5, "nextn_predict_layers": 1}),
]
CACHE_TYPES = {"f16": TYPES.F16, "f32": TYPES.F32, "q8_0": TYPES.Q8_0, "q4_0": TYPES.Q4_0}


def tensors_of(model):
    """Yields name, shape and type. Only experts are in MXFP4, as in gpt-oss."""
    outer = {"token_embd": [VOCABULARY, HIDDEN], "output_norm": [HIDDEN]}
    if not model.tied:
        outer["output"] = [VOCABULARY, HIDDEN]
    blocks = {f"blk.{i}.{name}": shape for i in range(model.layers) for name, shape in model.tensors.items()}
    for name, shape in {**outer, **blocks}.items():
        kind = model.kind if len(shape) > 1 and "ffn_gate_inp" not in name and "bias" not in name else TYPES.F32
        if kind == TYPES.MXFP4 and "_exps" not in name:
            kind = TYPES.BF16
        yield name if name.endswith((".bias", ".weight")) else name + ".weight", shape, kind


def add_key(writer, key, value):
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def write_model(model, path):
    writer = gguf.GGUFWriter(path, model.architecture)
    keys = {"context_length": 32768, "embedding_length": HIDDEN, "block_count": model.layers,
            "feed_forward_length": INNER, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
            "attention.layer_norm_rms_epsilon": 1e-5, "vocab_size": VOCABULARY, **model.keys}
    for key, value in keys.items():
        add_key(writer, f"{model.architecture}.{key}", value)
    writer.add_tokenizer_model("no_vocab")
    rng = np.random.default_rng(1)
    for name, shape, kind in tensors_of(model):
        values = rng.normal(0, 0.02, shape).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


LOG = []


@llama_cpp.llama_log_callback
def keep_log(_level, line, _data):
    LOG.append(line.decode(errors="replace"))


def logged(pattern):
    return re.findall(pattern, "".join(LOG))


def ask_llama(path, run):
    """Returns what llama.cpp's API and its log say about a model and one context."""
    LOG.clear()
    settings = llama_cpp.llama_model_default_params()
    settings.use_extra_bufts = False  # no second copy of weights in another order
    model = llama_cpp.llama_model_load_from_file(path.encode(), settings)
    if not model:
        raise SystemExit("".join(LOG) + f"{path}: llama.cpp does not load it")
    context = llama_cpp.llama_context_default_params()
    batch, kind = run.get("batch", 1), CACHE_TYPES[run.get("cache", "f16")]
    context.n_ctx, context.n_seq_max, context.kv_unified = run["tokens"] * batch, batch, False
    context.n_ubatch, context.swa_full = run.get("ubatch", 512), run.get("swa_full", False)
    context.type_k = context.type_v = int(kind)
    # Without it, values cannot be quantized.
    context.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
    made = llama_cpp.llama_init_from_model(model, context)
    if not made:
        raise SystemExit("".join(LOG) + f"{path}: llama.cpp makes no context")
    answer = {"weights": llama_cpp.llama_model_size(model), "params": llama_cpp.llama_model_n_params(model),
              "buffers": logged(r"model buffer size = +([\d.]+) MiB"),
              "caches": logged(r"kv_cache: size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers")}
    llama_cpp.llama_free(made)
    llama_cpp.llama_model_free(model)
    return answer


def fit(path, run, tokens=None):
    """Returns what `tenmap fit` says, as a dictionary."""
    command = [TENMAP, "fit", "--json", "--as", "stored", "--context", str(tokens or run["tokens"]),
               "--batch", str(run.get("batch", 1)), "--cache-dtype", run.get("cache", "f16"), path]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def expected_caches(model, path, run, said):
    """Returns (bytes, tokens, layers) of each cache that llama.cpp should allocate, and the sum. It
    is by the sizes that `fit` gives, for other numbers of tokens where the windows are longer."""
    cache, tokens = said["cache"], run["tokens"]
    layers, windowed, window = cache["layers"], cache["window_layers"], cache["window"]
    token = fit(path, run, 1)["cache"]["bytes"]  # in all layers
    if not windowed:
        return [(cache["bytes"], tokens, layers)]
    full = fit(path, run, window + 1)["cache"]["bytes"] - fit(path, run, window)["cache"]["bytes"]
    if model.architecture == "phi3":
        return [(token * tokens, tokens, layers + windowed)]
    kept = min(tokens, window + run.get("ubatch", 512))
    kept = tokens if run.get("swa_full") else (kept + PAGE - 1) // PAGE * PAGE
    longer = (kept - min(tokens, window)) * (token - full)
    return [(full * tokens, tokens, layers), (cache["bytes"] - full * tokens + longer, kept, windowed)]


def in_mib(count):
    return f"{count / 2**20:.2f}"


def padding(path):
    """Returns the bytes between the tensors of a file."""
    tensors = gguf.GGUFReader(path).tensors
    end = max(t.data_offset + t.n_bytes for t in tensors)
    return int(end - min(t.data_offset for t in tensors) - sum(t.n_bytes for t in tensors))


def compare_run(model, path, run):
    """Prints a row, and what differs; returns how many numbers differ."""
    said, there = fit(path, run), ask_llama(path, run)
    caches = expected_caches(model, path, run, said)
    pairs = {"weights": (said["sizes"][0]["weight_bytes"], there["weights"]),
             "parameters": (said["params"], there["params"]),
             "model buffer": ([in_mib(said["sizes"][0]["weight_bytes"] + padding(path))], there["buffers"]),
             "KV cache": ([(in_mib(size), str(tokens), str(layers)) for size, tokens, layers in caches],
                          there["caches"])}
    wrong = [f"  {what}: {ours} by fit, {theirs} in llama.cpp" for what, (ours, theirs) in pairs.items()
             if ours != theirs]
    options = " ".join(f"{k}={v}" for k, v in run.items())
    buffers = " + ".join(there["buffers"])
    parts = " + ".join(f"{size} MiB ({cells} tokens, {layers} layers)" for size, cells, layers in there["caches"])
    print(f"  {options:31} cache {said['cache']['bytes']:8}, by the rules {sum(c[0] for c in caches):8}; "
          f"llama.cpp: weights {buffers} MiB, cache {parts}")
    for line in wrong:
        print(line)
    return len(wrong)


def main():
    llama_cpp.llama_log_set(keep_log, None)
    llama_cpp.llama_backend_init()
    wrong, runs = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            path = os.path.join(folder, "model.gguf")
            write_model(model, path)
            weights = fit(path, model.runs[0])["sizes"][0]["weight_bytes"]
            print(f"{model.label}: weights {weights}, padding {padding(path)} bytes")
            for run in model.runs:
                wrong, runs = wrong + compare_run(model, path, run), runs + 1
    print(f"fit and llama.cpp: {len(MODELS)} models, {runs} contexts, {wrong} differences")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
