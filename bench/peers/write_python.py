"""Times safetensors' save_file on a model in memory: write_python.py MODEL OUT ROUNDS

Prints one line: name, bytes, nanoseconds (the minimum over the rounds, with an fsync of the file at
the end, as in the other programs). Exits with 77 and says why if the package is missing.
"""
import os
import sys
import time

try:
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

model, out, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
tensors = load_file(model)
least = None
for _ in range(rounds):
    if os.path.exists(out):
        os.unlink(out)
    start = time.monotonic_ns()
    save_file(tensors, out)
    with open(out, "rb") as file:
        os.fsync(file.fileno())
    took = time.monotonic_ns() - start
    least = took if least is None else min(least, took)
print(f"write python\t{sum(t.nbytes for t in tensors.values())}\t{least}")
os.unlink(out)
