"""Blends models with `tenmap blend` and with mergekit, and compares every value.

    blend_mergekit.py TENMAP [CASES]

Each case is a recipe of a random method, with random weights, filters, lists over layers and
slices, for tiny Llamas in F32, BF16 or F16 that are written here. mergekit's own planner runs the
same recipe text, in F32 or (for methods that are sums) in F64.

Masks are injected on both sides: for ties and dare, mergekit's `sparsify` gets the masks that
docs/blend.md defines, computed here by numpy. For ties they are checked to be masks of the largest
magnitudes.

Bounds: let S be the largest magnitude in any model, times one more than the number of models. Against
mergekit in F64, linear, slerp, task_arithmetic and passthrough differ by at most half an ulp of the
output's dtype, plus 1e-14 S. Against mergekit in F32, all methods differ by at most half an ulp, plus
8 * 2^-24 S.
Exits with 77 if mergekit 0.1.5 cannot be imported.
"""
import json
import logging
import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import yaml
    from safetensors import safe_open
    from safetensors.torch import save_file
    import mergekit.merge_methods.generalized_task_arithmetic as task_arithmetic
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions
    from mergekit.sparsify import rescaled_masked_tensor
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

tenmap = os.path.realpath(sys.argv[1])
cases = int(sys.argv[2]) if len(sys.argv) > 2 else 60
HIDDEN, INTER, VOCAB, LAYERS = 16, 24, 40, 5
METHODS = ["linear", "slerp", "task_arithmetic", "ties", "dare_linear", "dare_ties", "passthrough"]
SUMS = {"linear", "slerp", "task_arithmetic", "passthrough"}
HALF_ULP = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
TINY = {torch.float64: 0.0, torch.float32: 2.0**-149, torch.bfloat16: 2.0**-133, torch.float16: 2.0**-24}

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
          "intermediate_size": INTER, "num_hidden_layers": LAYERS, "num_attention_heads": 2,
          "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
          "tie_word_embeddings": False}


def shapes():
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for part in "qkvo":
            yield f"{at}self_attn.{part}_proj.weight", (HIDDEN, HIDDEN)
        for part, shape in (("gate", (INTER, HIDDEN)), ("up", (INTER, HIDDEN)), ("down", (HIDDEN, INTER))):
            yield f"{at}mlp.{part}_proj.weight", shape
        for part in ("input", "post_attention"):
            yield f"{at}{part}_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCAB, HIDDEN)


def write_model(folder, seed, base, dtype):
    """Writes a base, or a fine-tune of a base: most deltas are small, some are zero."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes():
        noise = torch.randn(shape, generator=generator)
        value = noise * 0.05 if base is None else base[name].float() + noise * 0.02
        tensors[name] = value.to(dtype)
        if base is not None:
            same = torch.rand(shape, generator=generator) < 0.1
            tensors[name] = torch.where(same, base[name], tensors[name])
    os.makedirs(folder)
    save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
    with open(f"{folder}/config.json", "w") as out:
        json.dump({**CONFIG, "torch_dtype": str(dtype).split(".")[1]}, out)
    return tensors


def read_model(folder):
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with safe_open(f"{folder}/{name}", "pt") as file:
                tensors.update({key: file.get_tensor(key) for key in file.keys()})
    return tensors


# The generator of docs/blend.md.
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def random_mask(seed, name, model, density, count):
    digest = 0xCBF29CE484222325
    for byte in name.encode():
        digest = (digest ^ byte) * 0x100000001B3 & MASK
    key = mix(mix(mix(seed + GOLDEN & MASK) ^ digest) ^ model)
    with numpy.errstate(over="ignore"):
        x = numpy.uint64(key) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(GOLDEN)
        x = (x ^ x >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
        x = x ^ x >> numpy.uint64(31)
    return (x >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53 < density


def magnitude_mask(delta, density):
    """The k largest magnitudes; of equal ones the first."""
    magnitudes = numpy.abs(delta)
    k = max(1, int(density * magnitudes.size))
    order = numpy.lexsort((numpy.arange(magnitudes.size), -magnitudes.astype(numpy.float64)))
    mask = numpy.zeros(magnitudes.size, dtype=bool)
    mask[order[:k]] = True
    assert mask.sum() == k and magnitudes[mask].min() >= magnitudes[~mask].max(initial=0)
    return mask


class Masks:
    """Replaces mergekit's sparsify, which knows neither the tensor nor the model."""

    def __init__(self, seed):
        self.seed, self.name, self.model = seed, None, 0

    def sparsify(self, tensor, density, method, gamma=0, epsilon=0, rescale_norm=None):
        number = self.model
        self.model += 1
        if density >= 1:
            return tensor
        if density <= 0:
            return torch.zeros_like(tensor)
        flat = tensor.float().reshape(-1).numpy()
        if str(method.value) == "magnitude":
            mask = magnitude_mask(flat, density)
        else:
            mask = random_mask(self.seed, self.name, number, density, flat.size)
        mask = torch.from_numpy(mask.astype(numpy.float32)).reshape(tensor.shape).to(tensor.dtype)
        return rescaled_masked_tensor(tensor, mask, rescale_norm)


def inject(masks):
    """Makes mergekit use these masks. The name of the tensor comes from its group."""
    task_arithmetic.sparsify = masks.sparsify
    merge = task_arithmetic.GeneralizedTaskArithmeticMerge.merge_group

    def with_name(self, group, /, **parameters):
        masks.name, masks.model = group.metadata.name, 0
        return original(self, group, **parameters)

    original = getattr(merge, "original", merge)
    with_name.original = original
    task_arithmetic.GeneralizedTaskArithmeticMerge.merge_group = with_name


def number(rng, low, high):
    """A value, a list over layers, or values with filters."""
    kind = rng.randrange(4)
    if kind < 2:
        return round(rng.uniform(low, high), 3)
    values = [round(rng.uniform(low, high), 3) for _ in range(rng.randint(2, 4))]
    if kind == 2:
        return values
    return [{"filter": rng.choice(["self_attn", "mlp", "lm_head", "layers.3"]), "value": values[0]},
            {"filter": rng.choice(["norm", "q_proj"]), "value": values}, {"value": values[-1]}]


def make_recipe(rng, method, paths):
    base, tuned = paths[0], list(paths[1:])
    count = 2 if method == "slerp" else 1 if method == "passthrough" else rng.randint(1, 3)
    recipe = {"merge_method": method}
    chosen = rng.sample(tuned, 1 if method == "slerp" else count)
    models = [base] + chosen if method != "linear" else chosen
    if method == "passthrough":
        models = chosen
    if method not in ("linear", "passthrough"):
        recipe["base_model"] = base

    def source(path):
        entry, parameters = {"model": path}, {}
        if method != "slerp" and method != "passthrough" and path != base:
            parameters["weight"] = number(rng, -0.3 if rng.random() < 0.2 else 0.1, 1.2)
        if method in ("ties", "dare_linear", "dare_ties") and path != base:
            parameters["density"] = number(rng, 0.05, 1)
        if method == "passthrough" and rng.random() < 0.5:
            parameters["scale"] = number(rng, 0.5, 1.5)
        if parameters:
            entry["parameters"] = parameters
        return entry

    top = {}
    if method == "slerp":
        top["t"] = number(rng, 0, 1)
    if method not in ("slerp", "passthrough") and rng.random() < 0.4:
        top["normalize"] = rng.random() < 0.5
    if method not in ("linear", "slerp", "passthrough") and rng.random() < 0.4:
        top["lambda"] = round(rng.uniform(0.3, 1.5), 3)
    if method.startswith("dare") and rng.random() < 0.4:
        top["rescale"] = rng.random() < 0.5
    if top:
        recipe["parameters"] = top
    if method == "passthrough" or rng.random() < 0.3:
        recipe["slices"] = []
        for _ in range(rng.randint(1, 3)):
            models = [rng.choice(tuned)] if method == "passthrough" else models
            length = rng.randint(1, LAYERS)
            sources = []
            for path in models:
                first = rng.randint(0, LAYERS - length)
                sources.append({**source(path), "layer_range": [first, first + length]})
            recipe["slices"].append({"sources": sources})
    else:
        recipe["models"] = [source(path) for path in models]
    return recipe


def run_mergekit(text, dtype, out, masks):
    inject(masks)
    recipe = yaml.safe_load(text)
    recipe["dtype"] = dtype
    options = MergeOptions(copy_tokenizer=False, quiet=True, write_model_card=False, cuda=False)
    # mergekit makes tensors of the weights in torch's default dtype, whatever it computes in.
    torch.set_default_dtype(torch.float64 if dtype == "float64" else torch.float32)
    run_merge(MergeConfiguration.model_validate(recipe), out, options=options)
    torch.set_default_dtype(torch.float32)
    return read_model(out)


def spread_of(recipe, models):
    """S: what rounding in F32 is relative to."""
    count = max(len(s["sources"]) for s in recipe["slices"]) if "slices" in recipe else len(recipe["models"])
    largest = max(float(t.abs().max()) for m in models.values() for t in m.values())
    return (count + 1) * largest


def compare(case, recipe, ours, theirs, spread, exact):
    worst = 0.0
    assert ours.keys() == theirs.keys(), (case, sorted(ours.keys() ^ theirs.keys()))
    for name, a in ours.items():
        b = theirs[name].double()
        half = a.double().abs().clamp_min(b.abs()) * HALF_ULP[a.dtype] * (1 + 2.0**-8) + TINY[a.dtype]
        bound = half + spread * (1e-14 if exact else 8 * 2.0**-24)
        off = (a.double() - b).abs()
        assert bool((off <= bound).all()), (case, name, float((off / bound).max()), yaml.dump(recipe))
        worst = max(worst, float((off / bound).max()))
    return worst


def cancels(ours):
    """Weights that nearly cancel make any rounding large: such a case says nothing."""
    return any(not bool(torch.isfinite(t).all()) or float(t.abs().max()) > 4 for t in ours.values())


def one_case(case, work, worst, counts):
    rng = random.Random(case)
    dtype = rng.choice([torch.float32, torch.bfloat16, torch.float16])
    os.makedirs(work)
    paths = [f"{work}/{name}" for name in ("base", "a", "b", "c")]
    models = {paths[0]: write_model(paths[0], 100 + case, None, dtype)}
    for i, path in enumerate(paths[1:]):
        models[path] = write_model(path, 1000 * i + case, models[paths[0]], dtype)
    method = METHODS[case % len(METHODS)]
    recipe = make_recipe(rng, method, paths)
    as_json = rng.random() < 0.3
    path = f"{work}/recipe.{'json' if as_json else 'yml'}"
    text = json.dumps(recipe, indent=rng.choice([None, 2])) if as_json else yaml.safe_dump(
        recipe, default_flow_style=rng.choice([None, False, True]), sort_keys=rng.random() < 0.5)
    with open(path, "w") as out:
        out.write(text)
    seed = rng.randrange(1 << 32)
    to = rng.choice([None, "f32", "bf16"])
    said = subprocess.run([tenmap, "blend", path, "-o", f"{work}/ours", "--seed", str(seed)] + (["--to", to] if to else []),
                          capture_output=True, text=True)
    assert said.returncode == 0, (case, said.stderr, text)
    ours = read_model(f"{work}/ours")
    with open(f"{work}/ours/config.json") as file:
        config = json.load(file)
    if cancels(ours):
        counts["left out"] = counts.get("left out", 0) + 1
        return
    spread = spread_of(recipe, models)
    for precision in ("float64", "float32") if method in SUMS else ("float32",):
        masks = Masks(seed)
        theirs = run_mergekit(text, precision, f"{work}/{precision}", masks)
        off = compare(case, recipe, ours, theirs, spread, precision == "float64")
        worst[method, precision] = max(worst.get((method, precision), 0), off)
    with open(f"{work}/float32/config.json") as file:
        layers = json.load(file)["num_hidden_layers"]
    assert config["num_hidden_layers"] == layers, (case, config["num_hidden_layers"], layers)
    counts[method] = counts.get(method, 0) + 1


def main():
    os.environ["HF_HUB_OFFLINE"] = "1"
    worst, counts = {}, {}
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        for case in range(cases):
            one_case(case, f"{folder}/{case}", worst, counts)
    for (method, precision), off in sorted(worst.items()):
        print(f"{method}: {counts.get(method, 0)} recipes, at most {off:.3f} of the bound from mergekit in {precision}")
    if counts.get("left out"):
        print(f"{counts['left out']} recipes left out, whose weights nearly cancel")
    assert all(counts.get(m, 0) >= cases // len(METHODS) // 2 for m in METHODS), counts


main()
