"""Reads tensors that `tenmap get -o` exports back with numpy: python3 npy_numpy.py TENMAP
FIXTURES."""
import io
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("SKIPPED: numpy is not installed")
    sys.exit(77)

tool, fixtures = map(os.path.abspath, sys.argv[1:3])


def export(*arguments):
    """Returns what the tool writes to stdout, and the same through a file."""
    piped = subprocess.run([tool, "get", *arguments, "-o", "-"], check=True, capture_output=True).stdout
    subprocess.run([tool, "get", *arguments, "-f", "-o", "x.npy"], check=True)
    with open("x.npy", "rb") as file:
        assert file.read() == piped, arguments
    return numpy.load(io.BytesIO(piped))


def stored(path, name):
    """Reads a tensor by hand: F32, F64, I64, F16, BOOL, U8, and BF16 widened through its bits."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])[name]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    types = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "F16": "<f2", "BOOL": "?", "U8": "u1", "BF16": "<u2"}
    array = numpy.frombuffer(data[begin:end], types[entry["dtype"]])
    if entry["dtype"] == "BF16":
        array = (array.astype("<u4") << 16).view("<f4")
    return array.reshape(entry["shape"])


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run([fixtures, folder], check=True)
    model = "small.safetensors"
    for name in ["embed.weight", "layer.0.weight", "layer.0.bias", "layer.0.wide", "ids", "mask", "bytes",
                 "temperature"]:
        expected = stored(model, name)
        got = export(model, name)
        assert got.shape == expected.shape and got.dtype == expected.dtype.newbyteorder("="), name
        assert numpy.array_equal(got, expected), name
    array = stored(model, "embed.weight")
    slices = {"[0:2, :4]": array[0:2, :4], "-1": array[-1], "..., 0": array[..., 0], "[1:100, -2:]": array[1:100, -2:],
              "[4:2]": array[4:2], "[2, 3]": array[2, 3], ":-4": array[:-4], "[...]": array[...]}
    for text, expected in slices.items():
        got = export(model, "embed.weight", text)
        assert got.shape == expected.shape and numpy.array_equal(got, expected), text
        lines = subprocess.run([tool, "get", model, "embed.weight", text, "--raw-values"], check=True,
                               capture_output=True, text=True).stdout.split()
        assert numpy.array_equal(numpy.array(lines, "f4"), expected.ravel()), text
    assert export(model, "embed.weight", "--as", "f64").dtype == numpy.float64
    assert numpy.array_equal(export(model, "embed.weight", "--as", "f16"), array.astype("f2"))
    bits = export(model, "layer.0.weight", "--raw")
    assert bits.dtype == numpy.uint16
    assert numpy.array_equal((bits.astype("u4") << 16).view("f4"), stored(model, "layer.0.weight"))
    assert export(model, "layer.0.scale", "--raw").dtype == numpy.uint8
    assert export(model, "layer.0.scale").dtype == numpy.float32
print("numpy reads what get exports")
