"""The same steps as bench/open.c, with the Python package `safetensors`:

    open_python.py time FILE MILLISECONDS
    open_python.py memory FILE WARM_FILE

prints the same lines, which begin with `python` here. get_slice is the lookup that reads the
header's entry and no data.
"""

import gc
import sys
import time

from safetensors import safe_open

REPEATS_AT_LEAST = 3


def shuffled_names(path):
    """All names, in the order that bench/timing.c shuffles them into."""
    with safe_open(path, framework="np") as model:
        names = sorted(model.keys())
    state = 1
    for i in range(len(names), 1, -1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        j = (state >> 33) % i
        names[i - 1], names[j] = names[j], names[i - 1]
    # Copied, so that they lie in memory in this order, as in bench/open.c.
    return [name.encode().decode() for name in names]


def time_once(path, names):
    """One round: the nanoseconds of open, find, close and all."""
    start = time.perf_counter_ns()
    model = safe_open(path, framework="np")
    model.__enter__()
    opened = time.perf_counter_ns()
    for name in names:
        model.get_slice(name)
    looked = time.perf_counter_ns()
    model.__exit__(None, None, None)
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
    """A line of /proc/self/status in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak():
    """Lets the peak start again from what is resident now, where the kernel allows it."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def print_memory(path, warm_path):
    """A small model is opened first, so that the program's own pages are not counted."""
    with safe_open(warm_path, framework="np"):
        status_bytes("VmRSS")
    reset_peak()
    before = status_bytes("VmRSS")
    with safe_open(path, framework="np"):
        after, peak = status_bytes("VmRSS"), status_bytes("VmHWM")
    print("python", path, "memory", max(0, after - before), max(0, peak - before))


def main(words):
    if len(words) == 3 and words[0] == "time":
        print_time(words[1], int(words[2]))
    elif len(words) == 3 and words[0] == "memory":
        print_memory(words[1], words[2])
    else:
        sys.exit("usage: open_python.py time FILE MILLISECONDS | memory FILE WARM_FILE")


main(sys.argv[1:])
