"""Counts the requests of every command that reads values of a remote model:

    requests.py TENMAP

Serves models of a few dozen MiB on loopback, with a delay for each response as a real network has,
and runs each command once. A command joins its reads into ranges of MiBs, so that it needs few
requests; it transfers little more than the values that it reads; and it keeps several connections
busy. The output is compared with that for the local file.
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL = os.path.realpath(sys.argv[1])
MIB = 1 << 20
DELAY = .02   # seconds before each response
AT_ONCE = 4   # connections that a command keeps busy
PATIENCE = 20  # seconds that a response waits for others, so that a busy machine changes nothing


class Traffic:
    """What the server has sent since the last reset."""

    def __init__(self):
        self.lock = threading.Condition()
        self.reset(False)

    def reset(self, gathers):
        """Until the first time that AT_ONCE requests are open, long responses wait for that if `gathers`."""
        with self.lock:
            self.gathers = gathers
            self.requests = self.bytes = self.open = self.peak = 0
            self.busy, self.since = 0.0, time.monotonic()

    def step(self, opened):
        """Called when a request begins (1) and ends (-1)."""
        with self.lock:
            now = time.monotonic()
            self.busy += self.open * (now - self.since)
            self.since = now
            self.open += opened
            self.peak = max(self.peak, self.open)
            self.lock.notify_all()

    def gather(self):
        with self.lock:
            if self.gathers and not self.lock.wait_for(lambda: self.peak >= AT_ONCE, PATIENCE):
                self.gathers = False


traffic = Traffic()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        traffic.step(1)
        try:
            self.answer()
        finally:
            traffic.step(-1)

    def answer(self):
        time.sleep(DELAY)
        path = os.path.join(self.server.folder, os.path.basename(self.path))
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        size = os.path.getsize(path)
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last), size - 1)
        with open(path, "rb") as file:
            file.seek(first)
            body = file.read(last + 1 - first)
        if len(body) >= MIB:
            traffic.gather()
        with traffic.lock:
            traffic.requests += 1
            traffic.bytes += len(body)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"v1"')
        self.end_headers()
        self.wfile.write(body)


# Models.

def write_model(path, tensors):
    """Writes [(name, dtype, shape, data)]."""
    entries, at = {}, 0
    for name, dtype, shape, data in tensors:
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for *_, data in tensors:
            out.write(data)


def bf16(dice, count):
    """Returns finite values between 2^-7 and 2^-6, of both signs."""
    pattern = b"".join(struct.pack("<H", dice.choice((0x3C00, 0xBC00)) | dice.randrange(128)) for _ in range(4099))
    return (pattern * (count // 4099 + 1))[:2 * count]


def write_models(folder):
    """Layers as models have them: large matrices, smaller ones, and vectors between them."""
    dice, tensors, changed = random.Random(3), [], []
    for layer in range(6):
        for name, shape in (("input_layernorm", [4096]), ("mlp.down_proj", [768, 4096]),
                            ("post_attention_layernorm", [4096]), ("self_attn.k_proj", [128, 4096]),
                            ("self_attn.q_proj", [256, 4096]), ("self_attn.q_norm", [64])):
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            data = bf16(dice, count)
            tensors.append((f"model.layers.{layer}.{name}.weight", "BF16", shape, data))
            changed.append((*tensors[-1][:3], data[:-2] + b"\0\x3d"))
    write_model(os.path.join(folder, "plain.safetensors"), tensors)
    write_model(os.path.join(folder, "changed.safetensors"), changed)
    small = [(f"blocks.{i}.lora_A.weight", "F32", [16, 128], dice.randbytes(4) * 2048) for i in range(3000)]
    write_model(os.path.join(folder, "small.safetensors"), small)
    for scheme in ("fp8-block", "fp8-channel"):
        subprocess.run([TOOL, "convert", "plain.safetensors", "--quantize", scheme, "-o", scheme + ".safetensors"],
                       cwd=folder, check=True, stdout=subprocess.DEVNULL)


# Commands. OTHER is a local model with other values, OUT the output.

PLAIN = ["diff OTHER MODEL", "diff MODEL plain.safetensors", "diff MODEL MODEL", "stats MODEL",
         "stats --details MODEL", "check --values MODEL",
         "hash --model MODEL", "hash --tensors MODEL", "convert MODEL --to f16 -o OUT",
         "convert MODEL --to f32 --strict -o OUT", "convert MODEL --quantize fp8-block -o OUT",
         "extract MODEL * -o OUT",
         "split MODEL --max-shard-size 8MB -o OUT/", "rename MODEL s/^/x/ -o OUT", "drop MODEL layers.5. -o OUT",
         "realign MODEL -o OUT", "merge --union MODEL small.safetensors -o OUT", "report MODEL -o OUT",
         "report MODEL --compare OTHER -o OUT"]
SMALL = ["diff small.safetensors MODEL", "stats MODEL", "check --values MODEL", "hash --model MODEL",
         "convert MODEL --to f16 -o OUT", "extract MODEL * -o OUT", "report MODEL -o OUT"]
QUANTIZED = ["diff --dequantize OTHER MODEL", "stats --dequantize MODEL", "check --values MODEL",
             "convert --dequantize MODEL --to bf16 -o OUT", "report --dequantize MODEL -o OUT"]
WEIGHT = "model.layers.2.mlp.down_proj.weight"
CASES = {"plain": PLAIN, "small": SMALL, "fp8-block": QUANTIZED, "fp8-channel": QUANTIZED}
# Commands that read a part of the model: (line, most requests, most MiB).
PARTS = [(f"get MODEL {WEIGHT}", 12, 1), (f"get MODEL {WEIGHT} -o OUT.npy", 4, 6.3),
         (f"get MODEL {WEIGHT}[:64] --raw-values", 4, 1), (f"get MODEL {WEIGHT}[:,3] --raw-values", 4, 6.3),
         ("extract MODEL layers.1. -o OUT", 6, 9.3), ("stats MODEL norm", 16, 1)]
TWICE = ("diff OTHER", "diff --dequantize", "--strict", "--quantize", "--compare")  # the values are needed twice


def run(folder, line, model):
    """Returns what the command prints, and the contents of all files that it writes."""
    out = "out" if "OUT/" in line else "out.html" if "report" in line else "out.safetensors"
    words = [w.replace("MODEL", model).replace("OTHER", "changed.safetensors").replace("OUT", out)
             for w in line.split()]
    done = subprocess.run([TOOL, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    written = {}
    for at, _, names in sorted(os.walk(folder)):
        for name in names:
            path = os.path.join(at, name)
            if "out" in os.path.relpath(path, folder):
                with open(path, "rb") as file:
                    written[os.path.relpath(path, folder)] = file.read().replace(model.encode(), b"MODEL")
                os.unlink(path)
    said = done.stdout.replace(model.encode(), b"MODEL").replace(os.path.basename(model).encode(), b"MODEL")
    return (done.returncode, said, written)


def check(folder, base, line, model, most):
    """Runs a command on the file and on its address; most: (requests, MiB). Returns 1 if it is wrong."""
    name = model + ".safetensors"
    here = run(folder, line, name)
    traffic.reset(most[1] > 20)
    begun = time.monotonic()
    there = run(folder, line, base + name)
    took = time.monotonic() - begun
    wrong = []
    # The report is compressed, with the address inside; and advice about config.json is not the same.
    compared = here[0] if "report" in line else here[::2] if "--quantize" in line else here
    if compared != (there[0] if "report" in line else there[::2] if "--quantize" in line else there):
        wrong.append(f"another result: {here[:2]} and {there[:2]}")
    if there[0] not in (0, 1):
        wrong.append(there[1].decode(errors="replace"))
    if traffic.requests > most[0] or traffic.bytes > most[1] * MIB:
        wrong.append(f"more than {most[0]} requests or {most[1]:.1f} MiB")
    if traffic.bytes > 20 * MIB and traffic.peak < AT_ONCE:
        wrong.append(f"fewer than {AT_ONCE} connections busy")
    print(f"{model:12} {line:52} {traffic.requests:5} requests {traffic.bytes / MIB:7.1f} MiB {took:5.1f} s "
          f"{traffic.peak:2} at a time{' WRONG: ' if wrong else ''}{'; '.join(wrong)}", flush=True)
    return 1 if wrong else 0


def main():
    folder = tempfile.mkdtemp()
    try:
        write_models(folder)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.folder = folder
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base, failed = f"http://127.0.0.1:{server.server_port}/", 0
        for model, lines in CASES.items():
            size = os.path.getsize(os.path.join(folder, model + ".safetensors")) / MIB
            for line in lines:
                times = 2 if any(word in line for word in TWICE) else 1
                failed += check(folder, base, line, model, (6 + times * size / 2, .5 + times * size * 1.05))
        for line, requests, mib in PARTS:
            failed += check(folder, base, line, "plain", (requests, mib))
    finally:
        shutil.rmtree(folder)
    print(f"{failed} failed")
    return 1 if failed else 0


sys.exit(main())
