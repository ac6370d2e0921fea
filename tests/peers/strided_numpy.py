"""Strided tensors against numpy's as_strided: storages seen with offsets, shapes and strides.

    strided_numpy.py LIBRARY [REQUESTS [SEED]]

LIBRARY has the toy container of the tests (tests/support/toy_container.c), which declares strided
tensors. The tensors are random: every dtype that numpy has, rank 1 to 8, storages that several
tensors share, strides of 0 and overlaps included. The requests are random too (100,000 by default):
a tensor, a block of it, rows that lie apart in the destination, a dtype to convert to, the mapped
or the read backend. Storages hold random bytes, signalling NaNs among them. Elements that are not
converted are compared bit for bit. Exits with 77 if numpy or ml_dtypes is missing.
"""
import ctypes
import os
import struct
import sys
import tempfile

import requests_numpy as base  # exits with 77 without numpy or ml_dtypes
from requests_numpy import numpy

c = ctypes
NUMPY, VALUE = base.NUMPY, base.VALUE
INTEGERS = base.INTEGERS
TENSORS, STORAGES, STORAGE_BYTES = 200, 3, 40000


def random_shape(random, rank):
    left, shape = 3000, []
    for _ in range(rank):
        shape.append(int(random.integers(1, max(2, min(left + 1, 60 if rank < 3 else 9)))))
        left //= shape[-1]
    return shape


def random_strides(random, shape, room):
    """Strides that stay inside `room` elements: transposes, steps, expanded axes, overlaps."""
    kind = random.integers(0, 4)
    if kind == 0:  # a permutation of the axes of a contiguous array
        order = random.permutation(len(shape))
        strides, step = [0] * len(shape), 1
        for axis in order:
            strides[axis] = step
            step *= shape[axis]
        if step <= room:
            return strides
    strides, reach = [], room - 1
    for extent in shape:
        most = reach // (extent - 1) if extent > 1 else reach
        stride = int(random.integers(0, min(most, 1 + 40 ** int(random.integers(0, 3))) + 1))
        strides.append(stride)
        reach -= (extent - 1) * stride
    return strides


def write_toy(path, random):
    """The file, and each tensor as a view of its storage by numpy."""
    storages = [random.integers(0, 256, STORAGE_BYTES, "u1") for _ in range(STORAGES)]
    f4 = storages[0].view("<u4")
    f4[::7] = (f4[::7] & 0x803fffff) | 0x7f800001  # signalling NaNs of F32, and of C64
    f8 = storages[1].view("<u8")
    f8[::5] = (f8[::5] & 0x8007ffffffffffff) | 0x7ff0000000000001
    entries, tensors = b"", {}
    names = list(NUMPY)
    for i in range(TENSORS):
        name, which = names[i % len(names)], int(random.integers(0, STORAGES))
        kind = NUMPY[name]
        shape = random_shape(random, 1 + i % 8)
        room = STORAGE_BYTES // kind.itemsize
        offset = int(random.integers(0, 50))
        strides = random_strides(random, shape, room - offset)
        key = "%s.%d" % (name, i)
        entries += struct.pack("B", len(key)) + key.encode()
        entries += struct.pack("BB", VALUE[name] | 0x80, len(shape))
        entries += struct.pack("<%dQ" % len(shape), *shape)
        entries += struct.pack("<3Q", which * STORAGE_BYTES, STORAGE_BYTES, offset)
        entries += struct.pack("<%dQ" % len(shape), *strides)
        bits = storages[which].view("<u%d" % kind.itemsize)[offset:]
        seen = numpy.lib.stride_tricks.as_strided(bits, shape, [s * kind.itemsize for s in strides])
        tensors[key] = (name, seen.view(kind))
    with open(path, "wb") as file:
        directory = struct.pack("<I", TENSORS) + entries
        at = 8 + STORAGES * STORAGE_BYTES
        file.write(b"TOYTENS1" + b"".join(s.tobytes() for s in storages) + directory)
        file.write(struct.pack("<QQQQ", at, len(directory), at + len(directory), 1) + b"TOYENDS1")
    return tensors


def random_target(random, name):
    """A dtype that numpy converts to the same bits. Floats are compared as they are."""
    if name in INTEGERS and random.random() < 0.5:
        wider = [n for n in INTEGERS if NUMPY[n].itemsize > NUMPY[name].itemsize and
                 (n[0] == "I" or name[0] == "U")] + ["F64"]
        if NUMPY[name].itemsize < 8:
            return str(random.choice(wider))
    return name


def random_request(lib, models, tensors, random):
    key = str(random.choice(list(tensors)))
    name, values = tensors[key]
    target = random_target(random, name)
    whole = random.random() < 0.4
    begin = [int(random.integers(0, n)) for n in values.shape]
    end = [int(random.integers(b, n + 1)) for b, n in zip(begin, values.shape)]
    block = values if whole else values[tuple(slice(b, e) for b, e in zip(begin, end))]
    block = numpy.ascontiguousarray(block if target == name else block.astype(NUMPY[target]))
    row = block.shape[-1] * NUMPY[target].itemsize
    rows = block.size // block.shape[-1] if block.size else 0
    stride = 0 if random.random() < 0.5 else row + int(random.integers(0, 64))
    need = ((rows - 1) * (stride or row) + row) if rows else 0
    expected = random.integers(0, 256, need + 16, "u1")
    dst = expected.copy()
    for i, line in enumerate(block.reshape(rows, block.shape[-1]) if rows else []):
        at = i * (stride or row)
        expected[at:at + row] = line.view("u1")
    bounds = ((c.c_uint64 * len(begin))(*begin), (c.c_uint64 * len(end))(*end))
    model = models[int(random.integers(0, len(models)))]
    request = base.Request(lib.tenmap_find(model, key.encode()), None if whole else bounds[0],
                           None if whole else bounds[1], VALUE[target], 0, dst.ctypes.data, need,
                           0, 0, stride)
    what = (key, target, begin, end, stride, values.shape, values.strides)
    return request, dst, expected, bounds, what


def main():
    lib, requests = base.library(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    random = numpy.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 14)
    with tempfile.TemporaryDirectory() as folder:
        done, files = 0, 0
        while done < requests:
            path = os.path.join(folder, "m%d.toy" % files)
            tensors = write_toy(path, random)
            models = [base.open_model(lib, path, backend) for backend in (0, 1)]
            until = min(requests, done + 10000)
            while done < until:
                batch = [random_request(lib, models, tensors, random)
                         for _ in range(min(250, until - done))]
                error = base.Error()
                wanted = (base.Request * len(batch))(*[b[0] for b in batch])
                status = lib.tenmap_load(None, wanted, len(batch), None, c.byref(error))
                assert status == 0, error.message
                for _, dst, expected, _, what in batch:
                    assert dst.tobytes() == expected.tobytes(), what
                done += len(batch)
            for model in models:
                lib.tenmap_close(model)
            files += 1
    print("%d random requests of %d strided tensors are numpy's" % (done, files * TENSORS))


if __name__ == "__main__":
    main()
