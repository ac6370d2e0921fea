"""Loads every tensor of a model with the Python package `safetensors`:

    load_python.py FILE ROUNDS

prints lines of NAME NANOSECONDS, the minimum over all rounds. NumPy has no BF16 of its own, and the
package cannot load it there. So without torch, the model is one whose header says U16.
"""

import sys
import time

import numpy as np

try:
    import torch
    from safetensors.torch import load_file
except ImportError:
    torch = None
    from safetensors.numpy import load_file


def load(path):
    """Loads the tensors as stored. torch maps the file, so a copy brings the values into memory."""
    tensors = load_file(path)
    if torch:
        return {name: tensor.clone() for name, tensor in tensors.items()}
    return tensors


def load_f32(path):
    tensors = load_file(path)
    if torch:
        return {name: tensor.float() for name, tensor in tensors.items()}
    return {
        name: (tensor.astype(np.uint32) << 16).view(np.float32)
        for name, tensor in tensors.items()
    }


def least(step, path, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        tensors = step(path)
        times.append(time.perf_counter_ns() - start)
        del tensors
    return min(times)


def main(words):
    if len(words) != 2 or not words[1].isdigit():
        sys.exit("usage: load_python.py FILE ROUNDS")
    if torch:
        torch.set_num_threads(2)
    print("python-bf16", least(load, words[0], int(words[1])))
    print("python-f32", least(load_f32, words[0], int(words[1])))


main(sys.argv[1:])
