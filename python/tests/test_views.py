"""Zero-copy is real: where views point, what they cost, what they allow."""

import ctypes
import gc
import weakref
import zipfile

import numpy
import pytest

import tenmap
from conftest import DTYPES, SUB_BYTE, needs, resident_bytes, same, unsanitized


def _mappings(path):
    with open("/proc/self/maps") as file:
        for line in file:
            if line.rstrip().endswith(str(path)):
                yield tuple(int(end, 16) for end in line.split()[0].split("-"))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    tenmap.save_file({"w": numpy.ones((64, 1 << 20), "float32")}, path)  # 256 MiB
    return path


@unsanitized
def test_a_view_is_inside_the_mapping_and_takes_no_memory(large):
    before = resident_bytes()
    array = tenmap.open(large)["w"].numpy()
    begin, end = next(_mappings(large))
    assert begin <= array.ctypes.data < array.ctypes.data + array.nbytes <= end
    part = tenmap.open(large)["w"][::2, 100:200].numpy()
    assert part.base is not None and part.strides == (2 << 22, 4)
    writable = tenmap.open(large)["w"].numpy(writable=True)
    writable[0, 0] = 5
    assert resident_bytes() - before < 8 << 20
    assert array[0, 0] == 1


def test_the_mapping_goes_with_the_last_view(large):
    model = tenmap.open(large)
    array = model["w"].numpy()
    memory = model["w"].buffer
    model.close()
    del model
    gc.collect()
    assert len(list(_mappings(large))) == 1
    row = array[3]
    del array
    memory.release()
    gc.collect()
    assert row[0] == 1 and len(list(_mappings(large))) == 1
    del row
    gc.collect()
    assert not list(_mappings(large))


def test_views_are_read_only(model):
    array = model["F32"].numpy()
    assert not array.flags.writeable
    with pytest.raises(ValueError):
        array[0] = 1
    with pytest.raises(ValueError):
        array.flags.writeable = True
    with pytest.raises(TypeError):
        model["F32"].buffer[0, 0, 0] = 1
    with pytest.raises(TypeError, match="not writable|read-write"):
        ctypes.c_char.from_buffer(model["U8"].buffer)


def test_buffers(model, arrays):
    for name in ("BOOL", "U8", "I8", "U16", "I16", "F16", "U32", "I32", "F32", "F64", "I64", "U64"):
        view = model[name][1:, ::2, ::-1].buffer
        assert same(numpy.asarray(view), arrays[name][1:, ::2, ::-1])
        assert view.tobytes() == arrays[name][1:, ::2, ::-1].tobytes()
        assert bytes(model[name].buffer) == arrays[name].tobytes()
    for name in ("BF16", "F8_E4M3", "F4", "F8_E8M0"):
        with pytest.raises(BufferError, match=".bytes"):
            model[name].buffer
    assert b"".join([model["U8"][2].buffer]) == arrays["U8"][2].tobytes()


def test_misaligned_data_is_copied(tmp_path):
    header = b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    data = len(header).to_bytes(8, "little") + header + b"\0" + numpy.array([1.5, 2.5], "<f4").tobytes()
    (tmp_path / "m").write_bytes(data)
    tensor = tenmap.open(tmp_path / "m")["x"]
    assert tensor.offset % 4 != 0 and not tensor.mapped
    assert tensor.numpy().tolist() == [1.5, 2.5] and tensor.numpy().flags.aligned


def test_dlpack(model, arrays):
    tensor = model["F32"]
    assert tensor.__dlpack_device__() == (1, 0)
    array = numpy.from_dlpack(tensor)
    assert same(array, arrays["F32"]) and array.flags.writeable
    array[...] = 0  # neither the file nor another view changes
    assert same(tensor.numpy(), arrays["F32"]) and same(numpy.from_dlpack(tensor), arrays["F32"])
    part = numpy.from_dlpack(tensor[::2, :, 3])
    assert same(part, arrays["F32"][::2, :, 3])
    with pytest.raises(BufferError, match="device"):
        tensor.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
    with pytest.raises(BufferError, match="no layout"):
        model["F6_E2M3"].__dlpack__(max_version=(1, 0))
    for capsule in (tensor.__dlpack__(copy=True), tensor.__dlpack__(max_version=(1, 0)), tensor.__dlpack__()):
        del capsule  # nothing consumed it


def test_every_dtype_of_whole_bytes_has_a_dlpack_layout(model):
    for name in DTYPES.keys() - SUB_BYTE.keys():
        model[name].__dlpack__(max_version=(1, 0))


def test_dlpack_without_a_copy_is_refused_where_there_is_no_mapping(path):
    for model in (tenmap.open(path, backend="read"), tenmap.open(path.read_bytes())):
        with pytest.raises(BufferError, match="without a copy"):
            model["F32"].__dlpack__(max_version=(1, 0), copy=False)
        assert numpy.from_dlpack(model["F32"]).flags.writeable
    mapped = tenmap.open(path)["F32"]
    kept = [numpy.from_dlpack(_Unversioned(mapped, copy=False)) for _ in range(3)]
    places = {array.ctypes.data for array in kept}  # each has bytes of its own
    assert len(places) == 3 and all(any(begin <= place < end for begin, end in _mappings(path)) for place in places)


class _Unversioned:
    """What consumers of DLPack before 1.0 see of a tensor."""

    def __init__(self, tensor, **arguments):
        self.tensor, self.arguments = tensor, arguments

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(**self.arguments)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_a_model_of_many_tensors_has_one_writable_mapping(tmp_path):
    """A process may have 65,530 mappings by default, and a model more tensors than that."""
    path = tmp_path / "many"
    with tenmap.Writer(path) as writer:
        for i in range(70_000):
            writer[f"w{i}"] = numpy.full(4, i, "int32")
        writer["large"] = numpy.ones((256, 256), "float32")
    model = tenmap.open(path)
    arrays = {name: tensor.numpy(writable=True) for name, tensor in model.items()}
    assert len(list(_mappings(path))) == 2
    for array in arrays.values():
        array += 1
    assert arrays["w69999"].tolist() == [70_000] * 4 and model["w69999"].tolist() == [69_999] * 4
    again = {name: tensor.numpy(writable=True) for name, tensor in model.items()}
    assert again["w5"].tolist() == [5] * 4 and again["large"].sum() == 65536
    assert len(list(_mappings(path))) == 3
    rows = [model["large"][i].numpy(writable=True) for i in range(256)]
    rows[7] += 1
    assert rows[6].sum() == rows[8].sum() == rows[7].sum() / 2 == 256
    model.close()
    del model, arrays, again, rows, array
    gc.collect()
    assert not list(_mappings(path))


def _shared_checkpoint(path, elements):
    """A PyTorch file whose tensors "a" and "b" are the same storage of floats."""
    text = lambda s: b"X" + len(s).to_bytes(4, "little") + s.encode()  # noqa: E731
    count = b"J" + elements.to_bytes(4, "little")
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + count + b"tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + count + b"\x85K\1\x85\x89NtR"
    pickle = b"\x80\2}(" + text("a") + tensor + text("b") + tensor + b"u."
    with zipfile.ZipFile(path, "w") as archive:
        data = zipfile.ZipInfo("m/data/0")
        data.extra = b"FB\x16\0" + bytes(22)  # the data begins at byte 64
        archive.writestr(data, bytes(4 * elements))
        archive.writestr("m/data.pkl", pickle)
        archive.writestr("m/byteorder", "little")


def test_writable_views_of_one_storage_share_no_byte(tmp_path):
    _shared_checkpoint(tmp_path / "tied.pt", 1 << 16)
    model = tenmap.open(tmp_path / "tied.pt")
    a, b = (model[name].numpy(writable=True) for name in "ab")
    a += 1
    assert b.sum() == 0 and a.sum() == 1 << 16 and model["a"].numpy().sum() == 0


@needs("torch")
def test_dlpack_to_torch_may_be_written_to(tmp_path):
    """torch ignores DLPack's mark of read-only memory."""
    import torch

    tenmap.save_file({"w": torch.ones(300, 1000), "b": torch.ones(3)}, tmp_path / "w")
    for source in (tmp_path / "w", (tmp_path / "w").read_bytes()):
        model = tenmap.open(source)
        for name in model:
            tensor = torch.from_dlpack(model[name])
            tensor.add_(1)
            assert torch.all(tensor == 2) and numpy.all(model[name].numpy() == 1)
    assert numpy.all(tenmap.open(tmp_path / "w")["w"].numpy() == 1)


@needs("torch")
def test_torch_tensors_share_one_mapping(path, tmp_path):
    import torch

    tenmap.save_file({f"w{i}": torch.full((300, 300), i) for i in range(50)}, tmp_path / "w")
    model = tenmap.open(tmp_path / "w")
    tensors = {name: tensor.torch() for name, tensor in model.items()}
    tensors |= {(name, 1): torch.from_dlpack(tensor) for name, tensor in model.items()}
    assert len(list(_mappings(tmp_path / "w"))) == 3 and torch.all(tensors["w7", 1] == 7)


@needs("jax")
def test_dlpack_to_jax(model, arrays):
    import jax.dlpack

    assert same(numpy.asarray(jax.dlpack.from_dlpack(model["F32"])), arrays["F32"])
    assert same(numpy.asarray(jax.dlpack.from_dlpack(model["BF16"])), arrays["BF16"])


@needs("torch")
def test_dlpack_to_torch(path, arrays):
    import torch

    tensor = torch.from_dlpack(tenmap.open(path)["BF16"])
    gc.collect()
    assert tensor.view(torch.uint8).numpy().tobytes() == arrays["BF16"].tobytes()


def test_models_and_arrays_go_when_they_should(path):
    model = tenmap.open(path)
    gone = weakref.ref(model)
    del model
    assert gone() is None


@unsanitized
def test_nothing_leaks(path):
    """Opens, views, slices, loads, buffers, capsules, errors and closes, to find leaks."""

    def turn():
        with tenmap.open(path) as model:
            tensor = model["F32"]
            tensor.numpy(), tensor[1:, ::2].numpy("float64"), tensor.numpy(writable=True), tensor.bytes
            tensor[0].buffer, tensor.__dlpack__(max_version=(1, 0)), model.metadata, list(model.items())
            model["BF16"][::2].numpy("float32"), model["F4"][0].numpy(), model.shards
            for bad in (lambda: tensor[9], lambda: model["absent"], lambda: tensor.numpy("int8")):
                try:
                    bad()
                except (IndexError, KeyError, tenmap.Error):
                    pass
        try:
            tenmap.open(b"nothing")
        except tenmap.Error:
            pass

    for _ in range(300):
        turn()
    gc.collect()
    objects, before = len(gc.get_objects()), resident_bytes()
    for _ in range(3000):
        turn()
    gc.collect()
    assert len(gc.get_objects()) - objects < 50
    assert resident_bytes() - before < 3 << 20


@unsanitized
def test_100_000_opens_views_and_closes_leak_nothing(path):
    for i in range(101_000):
        model = tenmap.open(path)
        array = model["U8"].numpy()
        model.close()
        del model, array
        if i == 1000:
            before = resident_bytes()
    assert resident_bytes() - before < 2 << 20
    assert not list(_mappings(path))
