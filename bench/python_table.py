"""Makes the measurements of bench/python.sh: python_table.py FOLDER GIGABYTES ROUNDS."""

import gc
import json
import os
import statistics
import subprocess
import sys
import time

LAYERS = 291


def make_files(folder, gigabytes):
    """Writes a BF16 model of this size, and two headers with hardly any data."""
    import torch
    from safetensors.torch import save_file

    columns = 4096
    rows = max(1, int(gigabytes * 1e9 / 2 / columns / LAYERS))
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(rows, columns, generator=generator).to(torch.bfloat16)
    model = {f"model.layers.{i}.mlp.down_proj.weight": base + i for i in range(LAYERS)}
    save_file(model, os.path.join(folder, "large.safetensors"))
    for count in (291, 100_000):
        names = {f"model.layers.{i}.self_attn.q_proj.weight": torch.zeros(1, dtype=torch.bfloat16) for i in range(count)}
        save_file(names, os.path.join(folder, f"names-{count}.safetensors"))


def touch_torch(tensors):
    for tensor in tensors.values():
        tensor.view(-1)[:1].sum()


# Each function returns the seconds that its work took.
def open_names(who, folder, count):
    path = os.path.join(folder, f"names-{count}.safetensors")
    if who == "tenmap":
        import tenmap

        def turn():
            with tenmap.open(path) as model:
                for name in model.keys():
                    pass
    else:
        from safetensors import safe_open

        def turn():
            with safe_open(path, framework="np") as file:
                for name in file.keys():
                    pass

    turn()
    times = []
    for _ in range(200 if count < 1000 else 9):
        begin = time.perf_counter()
        turn()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def load_file(who, folder, framework):
    path = os.path.join(folder, "large.safetensors")
    if who == "tenmap":
        import tenmap.safetensors as package
    else:
        import safetensors as package
    import importlib

    import ml_dtypes  # noqa: F401  (with it the reference has BF16 in numpy)

    load = importlib.import_module(f"{package.__name__}.{framework}").load_file
    gc.collect()
    begin = time.perf_counter()
    loaded = load(path)
    seconds = time.perf_counter() - begin
    assert len(loaded) == LAYERS
    return seconds


def load_and_sum(who, folder):
    """Calls load_file, and reads every element once."""
    path = os.path.join(folder, "large.safetensors")
    if who == "tenmap":
        from tenmap.safetensors.torch import load_file as load
    else:
        from safetensors.torch import load_file as load
    import torch

    begin = time.perf_counter()
    for tensor in load(path).values():
        tensor.view(torch.int16).max()
    return time.perf_counter() - begin


def use_memory(path, times):
    """Fills as much memory as will be needed, and frees it. A machine that lends free memory to a
    host takes long to get it back, and the package that runs first would pay for both."""
    filled = b"\1" * (os.path.getsize(path) * times)
    del filled


def copy_fresh(who, folder):
    """Copies into new memory: load() in tenmap, load_file(backend="pread") in safetensors."""
    path = os.path.join(folder, "large.safetensors")
    import torch  # noqa: F401

    if who == "tenmap":
        import tenmap

        use_memory(path, 1)
        begin = time.perf_counter()
        loaded = tenmap.open(path).load(framework="torch")
    else:
        from safetensors.torch import load_file as load

        use_memory(path, 1)
        begin = time.perf_counter()
        loaded = load(path, backend="pread")
    seconds = time.perf_counter() - begin
    assert len(loaded) == LAYERS
    return seconds


def copy_reused(who, folder):
    """Copies into arrays that were used before: out= in tenmap, copy_ in safetensors."""
    path = os.path.join(folder, "large.safetensors")
    import torch

    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        out = {name: torch.ones(file.get_slice(name).get_shape(), dtype=torch.bfloat16) for name in file.keys()}
    if who == "tenmap":
        import tenmap

        turn = lambda: tenmap.open(path).load(out=out)  # noqa: E731
    else:

        def turn():
            with safe_open(path, "pt") as file:
                for name, tensor in out.items():
                    tensor.copy_(file.get_tensor(name))

    turn()
    begin = time.perf_counter()
    turn()
    return time.perf_counter() - begin


def convert(who, folder):
    """Converts everything to F32, in arrays that were used before."""
    path = os.path.join(folder, "large.safetensors")
    import torch

    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        out = {name: torch.ones(file.get_slice(name).get_shape()) for name in file.keys()}
    if who == "tenmap":
        import tenmap

        turn = lambda: tenmap.open(path).load(dtype="F32", out=out)  # noqa: E731
    else:

        def turn():
            with safe_open(path, "pt") as file:
                for name, tensor in out.items():
                    tensor.copy_(file.get_tensor(name))

    turn()
    begin = time.perf_counter()
    turn()
    return time.perf_counter() - begin


def convert_fresh(who, folder):
    """Converts everything to F32, in new memory."""
    path = os.path.join(folder, "large.safetensors")
    import torch

    if who == "tenmap":
        import tenmap

        use_memory(path, 2)
        begin = time.perf_counter()
        loaded = tenmap.open(path).load(dtype="F32", framework="torch")
    else:
        from safetensors.torch import load_file as load

        use_memory(path, 2)
        begin = time.perf_counter()
        loaded = {name: tensor.to(torch.float32) for name, tensor in load(path).items()}
    seconds = time.perf_counter() - begin
    assert len(loaded) == LAYERS
    return seconds


def save(who, folder):
    path, target = os.path.join(folder, "large.safetensors"), os.path.join(folder, f"saved-{who}")
    if who == "tenmap":
        from tenmap.safetensors.torch import load_file as load
        from tenmap.safetensors.torch import save_file as write
    else:
        from safetensors.torch import load_file as load
        from safetensors.torch import save_file as write
    tensors = load(path)
    os.sync()
    begin = time.perf_counter()
    write(tensors, target)
    written = time.perf_counter() - begin
    os.sync()  # both pay for writes that a package leaves to the system
    seconds = time.perf_counter() - begin
    os.remove(target)
    return seconds if "--synced" in sys.argv else written


ROWS = {
    "open 291 tensors, all names": (open_names, 291),
    "open 100,000 tensors, all names": (open_names, 100_000),
    "load_file, torch": (load_file, "torch"),
    "load_file, numpy": (load_file, "numpy"),
    "load_file, torch, and read all": (load_and_sum,),
    "copies in fresh memory": (copy_fresh,),
    "copies in reused memory (out=)": (copy_reused,),
    "as F32 in reused memory (out=)": (convert,),
    "as F32 in fresh memory": (convert_fresh,),
    "save_file, to the disk": (save,),
}


def shown(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def once(who, folder, row):
    arguments = [sys.executable, __file__, "once", who, folder, row]
    if row.startswith("save"):
        arguments.append("--synced")
    return json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def main(folder, gigabytes, rounds, only):
    make_files(folder, gigabytes)
    print(f"{gigabytes} GB of BF16 in {LAYERS} tensors, warm; median of {rounds}")
    print(f"{'':36}{'tenmap':>12}{'safetensors':>14}{'times faster':>14}")
    for row in ROWS:
        if only and only not in row:
            continue
        times = {"tenmap": [], "safetensors": []}
        for turn in range(rounds):
            # The second package finds caches that the first has filled, so they take turns being
            # first.
            for who in sorted(times, reverse=turn % 2 == 0):
                times[who].append(once(who, folder, row))
        ours, theirs = (statistics.median(times[who]) for who in times)
        print(f"{row:36}{shown(ours):>12}{shown(theirs):>14}{theirs / ours:>14.1f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "once":
        function, *rest = ROWS[sys.argv[4]]
        print(json.dumps(function(sys.argv[2], sys.argv[3], *rest)))
    else:
        main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
