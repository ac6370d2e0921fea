"""A checkpoint, and the time that torch takes to its first tensor.

    pytorch_torch.py make FILE TENSORS BYTES
    pytorch_torch.py first FILE ROUNDS

`make` writes a checkpoint as torch.save does, without torch: TENSORS vectors of F32 with BYTES in
all. `first` prints lines of NAME NANOSECONDS, the least of all rounds, of torch.load(mmap=True,
weights_only=True) and one element, without the import of torch; and of that import.
"""

import os
import struct
import sys
import time
import zipfile


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def tensor(key, count):
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(count) + b"tQ"
    hooks = b"ccollections\nOrderedDict\n)R"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + number(count) + b"\x85K\x01\x85\x89" +
            hooks + b"tR")


def make(path, tensors, total):
    count = total // tensors // 4
    pickled = b"\x80\x02}("
    for i in range(tensors):
        pickled += text("model.layers.%d.weight" % i) + tensor(str(i), count)
    entries = [("data.pkl", pickled + b"u."), ("byteorder", b"little")]
    entries += [("data/%d" % i, None) for i in range(tensors)] + [("version", b"3\n")]
    block = os.urandom(min(4 * count, 1 << 20))
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in entries:
            info = zipfile.ZipInfo("archive/" + name)
            before = file.tell() + 30 + len(info.filename)
            padding = -(before + 4) % 64
            info.extra = struct.pack("<2s H", b"FB", padding) + b"Z" * padding
            with archive.open(info, "w") as entry:
                left = 4 * count if data is None else 0
                entry.write(data or b"")
                while left:
                    left -= entry.write(block[:left])


def first(path, rounds):
    begun = time.perf_counter_ns()
    import torch
    print("torch-import", time.perf_counter_ns() - begun)
    torch.set_num_threads(2)
    times = []
    for _ in range(rounds):
        begun = time.perf_counter_ns()
        loaded = torch.load(path, mmap=True, weights_only=True, map_location="cpu")
        next(iter(loaded.values())).view(-1)[0].item()
        times.append(time.perf_counter_ns() - begun)
        del loaded
    print("torch-first", min(times))


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    first(sys.argv[2], int(sys.argv[3]))
