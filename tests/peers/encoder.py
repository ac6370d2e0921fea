"""Compares the embedding of examples/encoder.c with a forward pass in numpy with float64; see
encoder.sh.

    encoder.py ENCODER MODEL BF16 F16

Each file has two bounds, both on the largest difference of a component of the embedding, whose norm
is 1: from the pass on the weights of that file, and from the pass on the published F32 weights.
"""
import json
import math
import struct
import subprocess
import sys

import numpy

LAYERS, HEADS = 6, 12
# Token ids of all-MiniLM-L6-v2, with [CLS] and [SEP] around each sentence.
SENTENCES = [
    [101, 7592, 2088, 102],  # hello world
    [101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102],
    [101, 102],
    [101] + [1000 + 37 * i % 29000 for i in range(126)] + [102],
]
# The bounds from the weights of the file, and from the published ones.
BOUNDS = {"F32": (1e-6, 1e-6), "BF16": (1e-6, 6e-3), "F16": (1e-6, 6e-4)}


def weights(folder):
    with open(folder + "/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    result = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] == "I64":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = numpy.frombuffer(data[begin:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        result[name] = values.astype(numpy.float64).reshape(entry["shape"])
    return result


def norm(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * w[name + ".weight"] + w[name + ".bias"]


def embedding(w, ids):
    erf = numpy.vectorize(math.erf)
    dense = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], w, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = "encoder.layer.%d." % layer
        q, k, v = (dense(x, at + "attention.self." + part).reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
                   for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(x + dense(mixed, at + "attention.output.dense"), w, at + "attention.output.LayerNorm")
        inner = dense(x, at + "intermediate.dense")
        inner = 0.5 * inner * (1 + erf(inner / math.sqrt(2)))
        x = norm(x + dense(inner, at + "output.dense"), w, at + "output.LayerNorm")
    mean = x.mean(0)
    return mean / numpy.linalg.norm(mean)


def main():
    encoder, folders = sys.argv[1], dict(zip(("F32", "BF16", "F16"), sys.argv[2:5]))
    published, failed = weights(folders["F32"]), 0
    for dtype, folder in folders.items():
        own, worst = weights(folder), [0.0, 0.0]
        for ids in SENTENCES:
            command = [encoder, folder, str(LAYERS), str(HEADS)] + [str(i) for i in ids]
            got = numpy.array(subprocess.run(command, check=True, capture_output=True).stdout.split(), float)
            for i, expected in enumerate((embedding(own, ids), embedding(published, ids))):
                worst[i] = max(worst[i], float(numpy.abs(got - expected).max()))
        good = all(a <= b for a, b in zip(worst, BOUNDS[dtype]))
        failed += not good
        print("%-4s %s: %.1e from float64 on its weights (at most %.0e), %.1e on those as published (at most %.0e)"
              % (dtype, "ok" if good else "FAILED", worst[0], BOUNDS[dtype][0], worst[1], BOUNDS[dtype][1]))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
