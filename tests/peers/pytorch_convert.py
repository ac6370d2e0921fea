"""Checkpoints with shared tensors: tenmap convert beside safetensors.torch.save_model.

    pytorch_convert.py TENMAP [COUNT [SEED]]

Saves COUNT random modules whose parameters are shared (100 by default) with torch.save, converts
them with `tenmap convert`, and compares with the file that save_model writes: the same tensors under
the same names, and the same pairs LEFT OUT: KEPT in the metadata. load_model has to load both.
Exits with 77 if torch or safetensors is missing.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import peer

peer.hand_over()
try:
    import torch
    from safetensors.torch import load_model, save_model
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(peer.SKIP)


def read(path):
    """The tensors (dtype, shape, bytes) and the metadata of a SafeTensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    pairs = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = entry["dtype"], entry["shape"], data[begin:end]
    return tensors, pairs


def module(chance):
    """A module with some parameters that are the same under several names."""
    root = torch.nn.Module()
    kept = []
    for i in range(chance.randint(1, 12)):
        name = chance.choice(["lm_head", "embed", "Wq", "é", "z", "a"]) + "_%d" % i
        inner = torch.nn.Module()
        dtype = chance.choice([torch.float32, torch.bfloat16, torch.float16])
        shape = [chance.randint(1, 5) for _ in range(chance.randint(1, 3))]
        if kept and chance.random() < 0.5:
            inner.weight = chance.choice(kept)
        else:
            inner.weight = torch.nn.Parameter(torch.randn(shape).to(dtype))
            kept.append(inner.weight)
        if chance.random() < 0.2:
            inner.register_buffer("mask", torch.zeros(0))
        root.add_module(name, inner)
    return root


def compare(tenmap, folder, made, wrapped):
    saved, ours, theirs = (os.path.join(folder, name) for name in ("model.bin", "ours.safetensors", "theirs.safetensors"))
    torch.save({"state_dict": made.state_dict(), "epoch": 3} if wrapped else made.state_dict(), saved)
    subprocess.run([tenmap, "convert", "-q", "--force", saved, "-o", ours], check=True, stdout=subprocess.DEVNULL)
    save_model(made, theirs)
    tensors, pairs = read(ours)
    expected, names = read(theirs)
    assert pairs.pop("format") == "pt" and (not wrapped or pairs.pop("epoch") == "3"), pairs
    assert pairs == names, (pairs, names)
    assert tensors == expected, (sorted(tensors), sorted(expected))
    before = {name: value.clone() for name, value in made.state_dict().items()}
    for value in made.parameters():
        torch.nn.init.zeros_(value)
    load_model(made, ours)
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
    return len(names)


def main():
    tenmap = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    torch.manual_seed(1)
    left_out = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            left_out += compare(tenmap, folder, module(chance), i % 2)
    assert left_out > count / 4, "hardly any tensor is shared"
    print("%d modules are as save_model writes them; %d names were left out" % (count, left_out))


main()
