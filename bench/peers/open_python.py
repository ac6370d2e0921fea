"""Runs the same steps as bench/open.c, with the Python package `safetensors`:

    open_python.py time FILE MILLISECONDS
    open_python.py memory FILE WARM_FILE

prints the same lines, which begin with `python` here. get_slice is the lookup that reads the
header's entry but no data. For a sharded model, it parses the index and opens each shard in turn,
as users of the package do.
"""

import gc
import json
import os
import sys
import time

from safetensors import safe_open

REPEATS_AT_LEAST = 3


class Model:
    """An open file, or the open shards of an index."""

    def __init__(self, path):
        self.shards = {}
        if path.endswith(".json"):
            with open(path) as index:
                self.files = json.load(index)["weight_map"]
            for file in set(self.files.values()):
                self.shards[file] = self.open_file(os.path.join(os.path.dirname(path), file))
        else:
            self.files = None
            self.only = self.shards[""] = self.open_file(path)

    @staticmethod
    def open_file(path):
        shard = safe_open(path, framework="np")
        shard.__enter__()
        return shard

    def keys(self):
        return self.only.keys() if self.files is None else self.files.keys()

    def find(self, names):
        if self.files is None:
            for name in names:
                self.only.get_slice(name)
        else:
            for name in names:
                self.shards[self.files[name]].get_slice(name)

    def close(self):
        for shard in self.shards.values():
            shard.__exit__(None, None, None)


def shuffled_names(path):
    """Returns all names, in the order into which bench/timing.c shuffles them."""
    model = Model(path)
    names = sorted(model.keys())
    model.close()
    state = 1
    for i in range(len(names), 1, -1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        j = (state >> 33) % i
        names[i - 1], names[j] = names[j], names[i - 1]
    # Copies the names so that they lie in memory in this order, as in bench/open.c.
    return [name.encode().decode() for name in names]


def time_once(path, names):
    """Runs one round; returns the nanoseconds of open, find, close and all."""
    start = time.perf_counter_ns()
    model = Model(path)
    opened = time.perf_counter_ns()
    model.find(names)
    looked = time.perf_counter_ns()
    model.close()
    del model
    closed = time.perf_counter_ns()
    return opened - start, looked - opened, closed - looked, closed - start


def print_time(path, milliseconds):
    names = shuffled_names(path)
    rounds = []
    gc.disable()
    until = time.perf_counter_ns() + milliseconds * 1_000_000
    while time.perf_counter_ns() < until or len(rounds) < REPEATS_AT_LEAST:
        rounds.append(time_once(path, names))
    words = ["python", path, "time", len(rounds)]
    for times in zip(*rounds):
        times = sorted(times)
        words += [times[0], times[len(times) // 2]]
    print(*words)


def status_bytes(field):
    """Returns a field of /proc/self/status in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak():
    """Resets the peak to the current resident size, if the kernel allows it."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def print_memory(path, warm_path):
    """Opens a small model first, so that the program's own pages are not counted."""
    Model(warm_path).close()
    status_bytes("VmRSS")
    reset_peak()
    before = status_bytes("VmRSS")
    model = Model(path)
    after, peak = status_bytes("VmRSS"), status_bytes("VmHWM")
    model.close()
    print("python", path, "memory", max(0, after - before), max(0, peak - before))


def main(words):
    if len(words) == 3 and words[0] == "time":
        print_time(words[1], int(words[2]))
    elif len(words) == 3 and words[0] == "memory":
        print_memory(words[1], words[2])
    else:
        sys.exit("usage: open_python.py time FILE MILLISECONDS | memory FILE WARM_FILE")


main(sys.argv[1:])
