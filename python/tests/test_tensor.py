"""Values: every dtype, every kind of index, every way to read them, against numpy and ml_dtypes."""

import io

import numpy
import pytest

import tenmap
from conftest import DTYPES, SUB_BYTE, needs, random_array, same


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("backend", ["map", "read", "bytes", "file"])
def test_every_dtype_on_every_backend(path, arrays, name, backend):
    sources = {"bytes": lambda: path.read_bytes(), "file": lambda: open(path, "rb")}
    model = tenmap.open(sources[backend]()) if backend in sources else tenmap.open(path, backend=backend)
    tensor, array = model[name], arrays[name]
    assert same(tensor.numpy(), array)
    assert same(tensor[1:4, ::-2, 2].numpy(), array[1:4, ::-2, 2])
    assert same(tensor.numpy(writable=True), array)
    assert same(numpy.asarray(tensor), array)
    assert bytes(tensor.bytes) == bytes(model[name].bytes) and tensor.bytes.nbytes == tensor.nbytes
    if name not in ("C64", "F8_E8M0"):
        with numpy.errstate(all="ignore"):
            assert numpy.array_equal(tensor.numpy("float64"), array.astype("float64"), equal_nan=True)


def _random_part(generator, length):
    if generator.integers(4) == 0 and length:
        return int(generator.integers(-length, length))
    start, stop = (
        None if generator.integers(3) == 0 else int(generator.integers(-length - 3, length + 4)) for _ in range(2)
    )
    return slice(start, stop, [None, 1, 2, 3, -1, -2, -5, 1000][generator.integers(8)])


def _random_index(generator, shape):
    first = int(generator.integers(len(shape) + 1))
    index = [_random_part(generator, length) for length in shape[:first]]
    if generator.integers(3) == 0:
        last = int(generator.integers(len(shape) - first + 1))
        index += [..., *(_random_part(generator, length) for length in shape[len(shape) - last :])]
    return index[0] if len(index) == 1 and generator.integers(2) else tuple(index)


@pytest.mark.parametrize("backend,count", [("map", 90_000), ("read", 10_000)])
def test_random_slices_are_those_of_numpy(tmp_path, backend, count):
    """100,000 random indexes of random tensors of every dtype, equal to the bit."""
    generator = numpy.random.default_rng(5)
    shapes = [(), (7,), (3, 4), (5, 2, 8), (2, 3, 4, 2), (4, 0, 3), (1, 9), (2, 2, 2, 2, 4)]
    arrays = {f"{name}/{i}": random_array(name, shape, i)
              for name in DTYPES for i, shape in enumerate(shapes)
              if name not in SUB_BYTE or numpy.prod(shape) % 4 == 0}  # fmt: skip
    tenmap.save_file(arrays, tmp_path / "m.safetensors")
    model = tenmap.open(tmp_path / "m.safetensors", backend=backend)
    names = list(arrays)
    for i in range(count):
        name = names[generator.integers(len(names))]
        index = _random_index(generator, arrays[name].shape)
        expected = arrays[name][index]
        found = model[name][index]
        assert found.shape == expected.shape, (name, index)
        assert same(found.numpy(), numpy.asarray(expected)), (name, index)
        if i % 5 == 0 and found.ndim:  # an index of an index
            again = _random_index(generator, found.shape)
            assert same(found[again].numpy(), numpy.asarray(numpy.asarray(expected)[again])), (name, index, again)


def test_indexes_that_are_refused_say_why(model):
    tensor = model["F32"]
    with pytest.raises(TypeError, match="new axis"):
        tensor[None]
    with pytest.raises(TypeError, match="new axis"):
        tensor[..., None]
    for bad in ([0, 1], "a", 1.5, True, numpy.array([0, 1])):
        with pytest.raises(TypeError, match="integers, slices"):
            tensor[bad]
    for bad in (6, -7, (0, 5), (0, 0, 8), 2**70):
        with pytest.raises(IndexError):
            tensor[bad]
    with pytest.raises(IndexError, match="too many indices"):
        tensor[0, 0, 0, 0]
    with pytest.raises(IndexError, match="single ellipsis"):
        tensor[..., ...]
    with pytest.raises(ValueError, match="zero"):
        tensor[::0]


def test_length_iteration_items_and_truth(model, arrays):
    tensor = model["I16"]
    assert len(tensor) == 6 and len(tensor[0]) == 5
    assert [same(row.numpy(), array) for row, array in zip(tensor, arrays["I16"])] == [True] * 6
    assert tensor[1, 2, 3].item() == int(tensor[1, 2, 3]) == arrays["I16"][1, 2, 3]
    assert float(model["BF16"][0, 0, 0]) == pytest.approx(float(arrays["BF16"][0, 0, 0]), nan_ok=True)
    assert tensor.tolist() == arrays["I16"].tolist()
    assert model["F16"][:0].tolist() == [] and model["BOOL"].tolist() == arrays["BOOL"].tolist()
    with pytest.raises(TypeError, match="without dimensions"):
        len(tensor[0, 0, 0])
    with pytest.raises(ValueError, match="240 elements"):
        tensor.item()
    with pytest.raises(TypeError, match="ambiguous"):
        bool(tensor)


def test_conversions_and_dtypes_by_every_name(model, arrays):
    for dtype in ("F32", "float32", numpy.float32, numpy.dtype("float32")):
        found = model["BF16"].numpy(dtype)
        assert numpy.array_equal(found, arrays["BF16"].astype("float32"), equal_nan=True)
    assert model["F32"].numpy("bfloat16").dtype == DTYPES["BF16"]
    with pytest.raises(TypeError, match="not a dtype that models have"):
        model["F32"].numpy("float128")
    with pytest.raises(TypeError, match="not a dtype that models have"):
        model["F32"].numpy(object)
    with pytest.raises(tenmap.Error) as caught:
        model["F32"].numpy("int32")
    assert caught.value.status == tenmap.Status.UNSUPPORTED and caught.value.tensor == "F32"


def test_array_protocol(model, arrays):
    tensor = model["F32"]
    with numpy.errstate(invalid="ignore"):
        assert numpy.asarray(tensor, "float64").dtype == "float64"
    assert numpy.asarray(model["I64"], "int32").dtype == "int32"
    assert (tensor[0] == arrays["F32"][0]).sum() + numpy.isnan(arrays["F32"][0]).sum() == 40
    array = numpy.array(tensor, copy=True)
    array[:] = 0
    assert same(tensor.numpy(), arrays["F32"])
    with pytest.raises(ValueError, match="copy"):
        numpy.asarray(tensor, "float64", copy=False)
    assert numpy.asarray(tensor, copy=False).ctypes.data == tensor.numpy().ctypes.data


def test_steps_read_no_more_than_they_need(tmp_path):
    """Rows that are stepped over are never read: tested with a file object that counts."""

    class Counting(io.BytesIO):
        count = 0

        def read(self, n=-1):
            got = super().read(n)
            self.count += len(got)
            return got

    tenmap.save_file({"w": numpy.zeros((100, 100_000), "uint8")}, tmp_path / "w.safetensors")
    file = Counting((tmp_path / "w.safetensors").read_bytes())
    model = tenmap.open(file)
    file.count = 0
    model["w"][::50].numpy()
    assert 200_000 <= file.count < 1_500_000
    file.count = 0
    model["w"][5, 1000:1010].numpy()
    assert file.count < 1_100_000


def test_opaque_tensors_have_bytes_only(tmp_path):
    header = b'{"x":{"dtype":"Q7","shape":[3],"data_offsets":[0,5]}}'
    (tmp_path / "q").write_bytes(len(header).to_bytes(8, "little") + header + b"12345")
    tensor = tenmap.open(tmp_path / "q", lenient=True)["x"]
    assert tensor.dtype == "Q7" and bytes(tensor.bytes) == b"12345"
    for use in (tensor.numpy, tensor.tolist, lambda: tensor.buffer, lambda: tensor[1:].bytes):
        with pytest.raises((TypeError, BufferError, tenmap.Error)):
            use()


def test_shapes_that_no_array_has(tmp_path):
    for shape in ([0, 2**63], [1] * 70, [0] * 70):
        count = 0 if 0 in shape else 1
        header = b'{"x":{"dtype":"U8","shape":%s,"data_offsets":[0,%d]}}' % (str(shape).encode(), count)
        data = len(header).to_bytes(8, "little") + header + b"1" * count
        tensor = tenmap.open(data)["x"]
        assert tensor.shape == tuple(shape)
        for use in (tensor.numpy, lambda: tensor[..., ::-1].numpy(), lambda: tensor.buffer):
            with pytest.raises((ValueError, OverflowError, BufferError)):
                use()


@needs("torch")
@pytest.mark.parametrize("name", DTYPES)
def test_torch(model, arrays, name):
    import torch

    from tenmap._dtypes import TABLE

    if TABLE[name][1] is None or not hasattr(torch, TABLE[name][1]):
        with pytest.raises(TypeError, match="torch"):
            model[name].torch()
        return
    tensor = model[name].torch()
    if name == "F4":
        assert tuple(tensor.shape) == (6, 5, 4)
        assert tensor.view(torch.uint8).numpy().tobytes() == bytes(model[name].bytes)
        return
    assert tensor.contiguous().view(torch.uint8).numpy().tobytes() == arrays[name].tobytes()
    part = model[name][::2, 1, ::-1].torch()
    assert part.contiguous().view(torch.uint8).numpy().tobytes() == arrays[name][::2, 1, ::-1].tobytes()


@needs("torch")
def test_torch_may_be_written_to_and_the_file_never_changes(tmp_path):
    import torch

    path = tmp_path / "w.safetensors"
    tenmap.save_file({"large": torch.ones(300, 1000), "small": torch.ones(3), "none": torch.ones(0, 4)}, path)
    before = path.read_bytes()
    with tenmap.open(path) as model:
        for name in model:
            tensor = model[name].torch()
            tensor *= 2
            assert tensor.sum().item() == 2 * tensor.numel()
            assert numpy.all(model[name].numpy() == 1)  # each is a separate copy
            assert torch.all(model[name].torch() == 1)
        part = model["large"][::2, 5:].torch()
        part += 1
        assert part.shape == (150, 995) and torch.all(part == 2)
        assert model["large"].torch(torch.bfloat16).dtype == torch.bfloat16
    assert path.read_bytes() == before
