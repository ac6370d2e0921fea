"""Compares examples/llama with a forward pass in plain Python, in float64; see llama.sh.

    llama_float64.py LLAMA FOLDER

FOLDER is the output of examples/random.c: a small Qwen2. Its config.json is varied: ropes, windows,
heads. Logits must be within 1e-4 of the largest, and the id must be that of the largest logit.
"""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
WINDOW = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
VARIED = [{}, {"rope_scaling": LLAMA3}, {"rope_parameters": dict(LLAMA3, rope_theta=5000.0)},
          {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 10000.0}, WINDOW,
          dict(WINDOW, layer_types=["sliding_attention", "full_attention"])]
PROMPTS = [[7], [1, 2, 3, 250, 0, 9, 9]]


def weights(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    result = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        halves = struct.unpack("<%dH" % ((end - begin) // 2), data[begin:end])
        values = struct.unpack("<%df" % len(halves), struct.pack("<%dI" % len(halves), *(h << 16 for h in halves)))
        columns = entry["shape"][-1]
        rows = [values[i:i + columns] for i in range(0, len(values), columns)]
        result[name] = rows if len(entry["shape"]) == 2 else rows[0]
    return result


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def norm(x, gain, epsilon):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + epsilon)
    return [v * scale * g for v, g in zip(x, gain)]


def frequencies(config, size):
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = rope.get("rope_theta", config["rope_theta"])
    kind = rope.get("rope_type", rope.get("type", "default"))
    for i in range(size // 2):
        f = theta ** (-2 * i / size)
        if kind == "linear":
            f /= rope["factor"]
        elif kind == "llama3":
            length, low, high = 2 * math.pi / f, rope["low_freq_factor"], rope["high_freq_factor"]
            original = rope["original_max_position_embeddings"]
            smooth = (original / length - low) / (high - low)
            if length > original / low:
                f /= rope["factor"]
            elif length >= original / high:
                f = (1 - smooth) * f / rope["factor"] + smooth * f
        yield f


def turned(x, size, position, config):
    out = list(x)
    for start in range(0, len(x), size):
        for i, f in enumerate(frequencies(config, size)):
            a, b, angle = x[start + i], x[start + i + size // 2], position * f
            out[start + i] = a * math.cos(angle) - b * math.sin(angle)
            out[start + i + size // 2] = b * math.cos(angle) + a * math.sin(angle)
    return out


def sees(config, layer, position):
    types = config.get("layer_types")
    sliding = config.get("use_sliding_window") and (
        types[layer] == "sliding_attention" if types else layer >= config["max_window_layers"])
    return range(max(0, position + 1 - config["sliding_window"]) if sliding else 0, position + 1)


def logits(w, config, ids):
    """Returns the logits of what follows the last id."""
    heads, epsilon = config["num_attention_heads"], config["rms_norm_eps"]
    size, share = config["hidden_size"] // heads, heads // config["num_key_value_heads"]
    xs = [list(w["model.embed_tokens.weight"][i]) for i in ids]
    for layer in range(config["num_hidden_layers"]):
        part = lambda name: w["model.layers.%d.%s" % (layer, name)]
        dense = lambda x, name: [dot(row, x) for row in part(name + ".weight")]
        biased = lambda x, name: [v + b for v, b in zip(dense(x, name), part(name + ".bias"))]
        normed = [norm(x, part("input_layernorm.weight"), epsilon) for x in xs]
        q, k = ([turned(biased(x, "self_attn." + name), size, p, config) for p, x in enumerate(normed)]
                for name in ("q_proj", "k_proj"))
        v = [biased(x, "self_attn.v_proj") for x in normed]
        for p, x in enumerate(xs):
            mixed = []
            for h in range(heads):
                at, kv = h * size, h // share * size
                scores = {s: math.exp(dot(q[p][at:at + size], k[s][kv:kv + size]) / math.sqrt(size))
                          for s in sees(config, layer, p)}
                mixed += [sum(scores[s] * v[s][kv + i] for s in scores) / sum(scores.values()) for i in range(size)]
            x = [a + b for a, b in zip(x, dense(mixed, "self_attn.o_proj"))]
            y = norm(x, part("post_attention_layernorm.weight"), epsilon)
            inner = [g / (1 + math.exp(-g)) * u for g, u in zip(dense(y, "mlp.gate_proj"), dense(y, "mlp.up_proj"))]
            xs[p] = [a + b for a, b in zip(x, dense(inner, "mlp.down_proj"))]
    last = norm(xs[-1], w["model.norm.weight"], epsilon)
    return [dot(row, last) for row in w["model.embed_tokens.weight"]]


def main():
    llama, folder = sys.argv[1:]
    w = weights(folder + "/model.safetensors")
    with open(folder + "/config.json") as file:
        plain = json.load(file)
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(folder + "/model.safetensors", work)
        for varied in VARIED:
            config = dict(plain, **varied)
            with open(work + "/config.json", "w") as file:
                json.dump(config, file)
            for ids in PROMPTS:
                out = os.path.join(work, "logits")
                got = subprocess.run([llama, work, "--ids", ",".join(map(str, ids)), "-n", "1", "--logits", out],
                                     check=True, capture_output=True).stdout
                with open(out, "rb") as file:
                    own = struct.unpack("=%df" % config["vocab_size"], file.read())
                expected = logits(w, config, ids)
                most = max(map(abs, expected))
                error = max(abs(a - b) for a, b in zip(own, expected)) / most
                print("%-70s %3d ids: %.1e" % (varied, len(ids), error))
                if not error <= 1e-4 or int(got) != max(range(len(own)), key=own.__getitem__):
                    raise SystemExit("FAILED")


if __name__ == "__main__":
    main()
