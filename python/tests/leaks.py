"""Opens, views and closes in a loop, to find leaks: leaks.py [TURNS], 100,000 by default.

Run it with PYTHONMALLOC=malloc, so that every object is a malloc block. What is allocated after the
last turn must equal what was allocated after the first ones, except for what Python keeps once
(some 40 KB). The references of the module's shared objects, the descriptors and the mappings are
counted too. A sample is 10,000 turns.
"""

import ctypes
import gc
import os
import sys
import tempfile

import tenmap

WARM = 500
PER_TURN = 8  # bytes: a quarter of malloc's smallest block


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]  # fmt: skip


def allocated():
    """Returns the bytes that malloc has allocated, large blocks included."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    info = mallinfo()
    return info.uordblks + info.hblkhd


def refused(call, *kinds):
    try:
        call()
    except kinds:
        return
    raise SystemExit("something that is wrong was not refused")


def derive(model):
    tensor, b = model["w"], model["b"]
    x = tenmap.concat([2 * b[1:3] - b[:2], tenmap.expr(b).reshape(2, 2).T[0]])
    derived = tenmap.derive({"x": x, "y": x + x, "w": tensor, "p": 0.5 * (tenmap.expr(b).reshape(4, 1) @ tenmap.expr(b).reshape(1, 4))})
    [each.tolist() for each in derived.values()], derived["y"].parts, derived["w"].bytes
    again = tenmap.derive({"again": 2 * derived["y"]})
    derived.close()
    again["again"].tolist()
    refused(lambda: tenmap.derive({"x": 0 * b}), tenmap.Error)
    refused(lambda: tenmap.derive({"x": b, "y": b + tensor[0, :4]}), tenmap.Error)
    refused(lambda: tenmap.derive({"x\0": b}), ValueError)


def turn(path, data, file):
    with tenmap.open(path) as model:
        tensor = model["w"]
        tensor.buffer, tensor.bytes, tensor[1:, ::2].bytes, tensor[0].tolist(), repr(tensor)
        tensor.shape, tensor.name, tensor.dtype, tensor.scheme, model.metadata, model.shards, list(model.items())
        tensor.__dlpack__(max_version=(1, 0)), model["b"]._data(tenmap._core.dtype_code("F32"), 2)
        model._take([("w", 0, None, 0), ("b", tenmap._core.dtype_code("F64"), [4], 0), ("none", 0, None, 1)], 1, None)
        model._take([("w", tenmap._core.dtype_code("F64"), None, 0, ([1, 0], [2, 8]))], 1, None)
        u8, into = tenmap._core.dtype_code("U8"), bytearray(512)
        tenmap._core.load([(tensor[1:, ::2], u8, into), (tensor[:2], u8, bytearray(512))], 1, 0, None)
        tensor[1]._box(), tensor._box(), tensor[::2]._box()
        tenmap.keep_memory(1 << 22), tenmap._core.memory(1 << 21), tenmap._core.memory(1 << 21), tenmap.keep_memory(0)
        refused(lambda: tenmap._core.load([(tensor[1:, ::2], u8, bytearray(9))], 1, 0, None), ValueError)
        model._table(), model.get("absent"), "w" in model
        refused(lambda: tensor[9], IndexError)
        refused(lambda: model["absent"], KeyError)
        refused(lambda: tensor._data(tenmap._core.dtype_code("I8"), 2), tenmap.Error)
        refused(lambda: model.take(["absent"]), KeyError)
        derive(model)
    refused(lambda: model["w"], ValueError)
    tensor.buffer[0, 0]
    tenmap.open(data)["w"][1, 2].item()
    tenmap.open(file)["b"].tolist()
    refused(lambda: tenmap.open(b"nothing"), tenmap.Error)
    refused(lambda: tenmap.open(path + ".absent"), FileNotFoundError)


def counted():
    """Returns the counts that each turn must leave unchanged."""
    gc.collect()
    shared = (tenmap.Tensor, tenmap.Model, tenmap._core.Handle, tenmap._core.Memory, tenmap._core, None, True)
    with open("/proc/self/maps") as maps:
        mapped = sum(1 for line in maps if "leaks.safetensors" in line)
    return [sys.getrefcount(each) for each in shared] + [len(os.listdir("/proc/self/fd")), mapped, len(gc.get_objects())]


def main(turns):
    if os.environ.get("PYTHONMALLOC") != "malloc" or not hasattr(ctypes.CDLL(None), "mallinfo2"):
        raise SystemExit("run this with PYTHONMALLOC=malloc, on glibc 2.33 or later")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "leaks.safetensors")
        rows = memoryview(bytes(range(256)) * 4).cast("B", (4, 256))
        tenmap.save_file({"w": rows, "b": memoryview(bytes(16)).cast("f")}, path, {"format": "np"})
        with open(path, "rb") as file:
            data = file.read()
            for _ in range(WARM):
                turn(path, data, file)
            counts = counted()
            before = allocated()
            for _ in range(turns):
                turn(path, data, file)
            after_counts = counted()
            after = allocated()
    drift = [b - a for a, b in zip(counts, after_counts)]
    print(f"{turns} turns: {after - before} bytes more are allocated; references, descriptors, mappings: {drift}")
    if after - before > PER_TURN * turns or any(abs(each) > turns / 20 for each in drift):
        raise SystemExit("something leaks")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
