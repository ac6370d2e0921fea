"""Compares the engine of examples/llama with transformers, in F32 on the CPU; see llama.sh.

    llama.py LLAMA FOLDER

save_pretrained writes each architecture as BF16, F16 and F32, in one file and in shards, with a
separate and a tied head, and with other options of its config.json. For each of 8 prompts, 32
greedy ids must equal those of generate(), up to where its two best logits differ by less than 1e-4.
All logits must be within 1e-4 of the largest in a pass over the same ids.
"""
import os
import subprocess
import sys

import torch
import transformers
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

NEW, TIE, BOUND = 32, 1e-4, 1e-4
LENGTHS = [1, 2, 3, 7, 31, 32, 33, 70]  # of prompts; the engine takes 32 ids at a time
SIZES = dict(vocab_size=203, hidden_size=48, intermediate_size=88, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=512, eos_token_id=None, bos_token_id=None,
             pad_token_id=None)
CONFIGS = {"llama": LlamaConfig, "mistral": MistralConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
WINDOWED = dict(use_sliding_window=True, sliding_window=9, max_window_layers=1)
# What is tested beyond dtypes, shards and heads. transformers 5 calls rope_scaling rope_parameters.
FURTHER = [("llama", dict(rope_scaling=LLAMA3)),
           ("llama", dict(rope_scaling={"rope_type": "linear", "factor": 4.0})),
           ("llama", dict(attention_bias=True, mlp_bias=True)),
           ("llama", dict(head_dim=12, num_key_value_heads=6)),
           ("llama", dict(num_key_value_heads=1)),
           ("mistral", dict(sliding_window=9)),
           ("mistral", dict(sliding_window=None, head_dim=20)),
           ("qwen2", WINDOWED),
           ("qwen3", dict(WINDOWED, head_dim=16)),
           ("qwen3", dict(attention_bias=True))]


def variants():
    for kind in CONFIGS:
        for dtype in ("float32", "bfloat16", "float16"):
            for sharded in (False, True):
                for tied in (False, True):
                    yield kind, dtype, sharded, dict(tie_word_embeddings=tied)
    for number, (kind, options) in enumerate(FURTHER):
        yield kind, ("float32", "bfloat16", "float16")[number % 3], number % 2 == 1, options


def config_of(kind, options):
    options = dict(SIZES, **options)
    if kind == "qwen3":
        options.setdefault("head_dim", 8)
    rope = options.pop("rope_scaling", None)
    if rope and int(transformers.__version__.split(".")[0]) >= 5:
        options["rope_parameters"] = dict(rope, rope_theta=10000.0)
    elif rope:
        options["rope_scaling"] = rope
    return CONFIGS[kind](**options)


def make(folder, kind, dtype, sharded, options, seed):
    """Writes a model with values in every weight as `dtype`."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config_of(kind, options))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in name else 0.0, 0.2 if weight.dim() == 2 else 0.3)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size="40KB" if sharded else "1GB")
    assert os.path.exists(os.path.join(folder, "model.safetensors.index.json")) == sharded


def run(llama, folder, ids, *options):
    return subprocess.run([llama, folder, "--ids", ",".join(map(str, ids)), *options], capture_output=True, text=True)


def near(model, ids):
    """Returns the difference of the two best logits that follow these ids."""
    best = model(torch.tensor([ids])).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


def compare(llama, folder, model, prompt, threads):
    """Returns the largest difference of a logit, relative to the largest logit of its step; raises
    on a wrong id."""
    logits_file = os.path.join(folder, "logits")
    done = run(llama, folder, prompt, "-n", str(NEW), "--threads", str(threads), "--logits", logits_file)
    if done.returncode or done.stdout.count("\n") != 1:
        raise SystemExit("exit %d: %s" % (done.returncode, done.stderr))
    got = [int(word) for word in done.stdout.split(" ")]
    expected = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                              max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)[0, len(prompt):].tolist()
    for step in range(NEW):
        if got[step] != expected[step]:
            gap = near(model, prompt + expected[:step])
            if len(got) != NEW or gap >= TIE:
                raise SystemExit("id %d is %d and should be %d, by %g" % (step, got[step], expected[step], gap))
            break
    with open(logits_file, "rb") as file:
        own = torch.frombuffer(bytearray(file.read()), dtype=torch.float32).reshape(NEW, -1)
    theirs = model(torch.tensor([prompt + got[:-1]])).logits[0, len(prompt) - 1:]
    return float(((own - theirs).abs().max(1).values / theirs.abs().max(1).values).max())


@torch.no_grad()
def compare_all(llama, work):
    worst, count = 0.0, 0
    for number, (kind, dtype, sharded, options) in enumerate(variants()):
        folder = os.path.join(work, "model-%d" % number)
        make(folder, kind, dtype, sharded, options, number)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                                  attn_implementation="eager").eval()
        generator = torch.Generator().manual_seed(number)
        errors = []
        for i, length in enumerate(LENGTHS):
            prompt = torch.randint(SIZES["vocab_size"], (length,), generator=generator).tolist()
            try:
                errors.append(compare(llama, folder, model, prompt, 1 + i % 3))
            except SystemExit as error:
                raise SystemExit("FAILED: %s %s %s, prompt %s: %s" % (kind, dtype, options, prompt, error))
        worst, count = max(worst, *errors), count + len(errors)
        print("%-7s %-8s %-7s %-60s %.1e" % (kind, dtype, "shards" if sharded else "", options, max(errors)))
        if max(errors) > BOUND:
            raise SystemExit("FAILED: logits differ by more than %g" % BOUND)
    print("%d runs of %d ids as transformers %s; logits to %.1e of the largest" %
          (count, NEW, transformers.__version__, worst))


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    compare_all(sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    main()
