"""GGUF files: metadata as Python values, blocks as bytes, and as the values they stand for."""

import math
import struct

import numpy
import pytest

import tenmap
from conftest import needs, same

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY, Q8_0, F32 = 8, 9, 8, 0


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


def value(kind, content):
    if kind == STRING:
        return text(content)
    if kind == ARRAY:
        inner, elements = content
        return struct.pack("<IQ", inner, len(elements)) + b"".join(value(inner, each) for each in elements)
    return struct.pack("<" + NUMBERS[kind], content)


CODES = numpy.arange(-32, 32, dtype="int8").reshape(2, 32)
BLOCKS = b"".join(numpy.float16(scale).tobytes() + row.tobytes() for scale, row in zip((0.5, 2.0), CODES))
VALUES = CODES.astype("float32") * numpy.array([[0.5], [2.0]], "float32")
PLAIN = numpy.arange(6, dtype="float32").reshape(2, 3)
# The key, its type, the stored value, the value in Python.
METADATA = [
    ("u8", 0, 200, 200), ("i8", 1, -128, -128), ("u16", 2, 60000, 60000), ("i16", 3, -32768, -32768),
    ("u32", 4, 2**32 - 1, 2**32 - 1), ("i32", 5, -(2**31), -(2**31)), ("u64", 10, 2**64 - 1, 2**64 - 1),
    ("i64", 11, -(2**63), -(2**63)), ("i64.one", 11, -1, -1), ("f32", 6, 0.1, float(numpy.float32(0.1))),
    ("f64", 12, 0.1, 0.1), ("yes", 7, True, True), ("no", 7, False, False), ("name", STRING, "t\u00e9st", "t\u00e9st"),
    ("bytes", STRING, b"\xff\xe9", "\udcff\udce9"), ("infinite", 6, math.inf, math.inf),
    ("tokens", ARRAY, (STRING, ["<s>", "a", "", b"\x80"]), ["<s>", "a", "", "\udc80"]),
    ("scores", ARRAY, (6, [0.0, -1.5]), [0.0, -1.5]), ("flags", ARRAY, (7, [True, False]), [True, False]),
    ("none", ARRAY, (4, []), []), ("nested", ARRAY, (ARRAY, [(1, [-1, 2]), (STRING, ["x"])]), [[-1, 2], ["x"]]),
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, len(METADATA))
    head += b"".join(text(key) + struct.pack("<I", kind) + value(kind, stored) for key, kind, stored, _ in METADATA)
    head += text("w") + struct.pack("<IQQIQ", 2, 32, 2, Q8_0, 0)
    head += text("p") + struct.pack("<IQQIQ", 2, 3, 2, F32, 96)
    path = tmp_path / "m.gguf"
    path.write_bytes(head + bytes(-len(head) % 32) + BLOCKS + bytes(-len(BLOCKS) % 32) + PLAIN.tobytes())
    return path


def test_values_of_metadata_are_python_s(path):
    expected = {key: found for key, _, _, found in METADATA}
    for source in (path, path.read_bytes()):
        found = tenmap.open(source).metadata
        assert found == expected and list(found) == list(expected)
        assert all(type(found[key]) is type(expected[key]) for key in expected)
    assert tenmap.open(path).shards[0].metadata == expected


@pytest.mark.parametrize("backend", ["map", "read"])
def test_blocks_have_bytes_and_no_array_of_their_own(path, tmp_path, backend):
    model = tenmap.open(path, backend=backend)
    tensor = model["w"]
    assert (tensor.dtype, tensor.scheme, tensor.shape, tensor.nbytes) == ("Q8_0", "Q8_0", (2, 32), 68)
    assert bytes(tensor.bytes) == BLOCKS and same(model["p"].numpy(), PLAIN) and model["p"].scheme == "none"
    for use in (tensor.numpy, model.load, model.take, lambda: tensor.buffer, lambda: tensor[0].bytes,
                lambda: tensor[0].nbytes, lambda: tensor.__dlpack__(max_version=(1, 0)),
                lambda: tenmap.save_file({"w": tensor}, tmp_path / "no")):  # fmt: skip
        with pytest.raises((TypeError, BufferError), match="Q8_0"):
            use()
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("backend", ["map", "read"])
def test_blocks_are_read_as_any_floating_point_dtype(path, backend):
    model = tenmap.open(path, backend=backend)
    assert same(model["w"].numpy("float32"), VALUES)
    assert same(model["w"][1, 30:2:-3].numpy("float64"), VALUES[1, 30:2:-3].astype("float64"))
    assert same(model.load(dtype="float32")["w"], VALUES) and model["w"].tolist() == VALUES.tolist()
    assert same(model.take(dtype={"w": "float16"} | {"p": "float32"})["w"], VALUES.astype("float16"))
    assert tenmap.measure(model)["w"].max == VALUES.max()


@pytest.mark.parametrize("backend", ["map", "read"])
def test_dequantize_makes_blocks_appear_as_their_values(path, tmp_path, backend):
    model = tenmap.open(path, dequantize=True, backend=backend)
    tensor = model["w"]
    assert (tensor.dtype, tensor.scheme, tensor.nbytes, tensor.mapped) == ("F32", "Q8_0", 256, False)
    assert tensor[1, ::2].nbytes == 64 and bytes(tensor[1].bytes) == VALUES[1].tobytes()
    assert same(tensor.numpy(), VALUES) and same(tensor[:, ::-1].numpy(), VALUES[:, ::-1])
    assert bytes(tensor.bytes) == VALUES.tobytes() and tensor.buffer.tolist() == VALUES.tolist()
    assert same(numpy.from_dlpack(tensor), VALUES) and same(numpy.asarray(tensor), VALUES)
    assert same(model.load()["w"], VALUES) and same(model.take()["w"], VALUES)
    tenmap.save_file(model, tmp_path / "plain")
    assert same(tenmap.open(tmp_path / "plain")["w"].numpy(), VALUES)


def test_blocks_are_written_as_values(path, tmp_path):
    tenmap.save_file(tenmap.open(path), tmp_path / "half", dtype="float16")
    found = tenmap.open(tmp_path / "half")
    assert {name: tensor.dtype for name, tensor in found.items()} == {"w": "F16", "p": "F16"}
    assert same(found["w"].numpy(), VALUES.astype("float16"))
    tenmap.save_sharded(tenmap.open(path), tmp_path / "folder", dtype="BF16")
    assert tenmap.open(tmp_path / "folder")["w"].dtype == "BF16"


@needs("torch")
def test_blocks_in_torch(path):
    import torch

    assert torch.equal(tenmap.open(path)["w"].torch(torch.float32), torch.from_numpy(VALUES))
    assert torch.equal(tenmap.open(path, dequantize=True)["w"].torch(), torch.from_numpy(VALUES))
