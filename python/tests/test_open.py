"""What can be opened, from which sources, and what the exceptions say."""

import contextlib
import errno
import io
import os
import pathlib

import numpy
import pytest

import tenmap
from conftest import random_array, same

CORPUS = pathlib.Path(os.environ.get("TENMAP_CORPUS") or pathlib.Path(__file__).parents[3] / "shared" / "corpus")


def test_from_everything(path, arrays):
    data = path.read_bytes()
    for source in (path, str(path), data, bytearray(data), memoryview(data), numpy.frombuffer(data, "uint8"),
                   io.BytesIO(data), open(path, "rb"), open(path, "rb", buffering=0)):  # fmt: skip
        model = tenmap.open(source)
        assert same(model["BF16"].numpy(), arrays["BF16"])
        assert (model.path is None) == (not isinstance(source, (str, pathlib.Path)))
    for source in (None, 5, object(), {"x"}):
        with pytest.raises(TypeError, match="a model is opened from"):
            tenmap.open(source)
    with pytest.raises(ValueError):
        tenmap.open("a\0b")
    with pytest.raises(ValueError, match='"map" or "read"'):
        tenmap.open(path, backend="mmap")


def test_a_buffer_is_kept(path, arrays):
    data = bytearray(path.read_bytes())
    array = tenmap.open(data)["F32"].numpy()
    with pytest.raises(BufferError):
        data.append(0)
    assert same(array, arrays["F32"])
    del array
    data.append(0)


def test_exceptions_of_a_file_object_come_back_as_they_were_raised(path):
    class Moody(io.BytesIO):
        mood = None

        def read(self, *arguments):
            if self.mood:
                raise self.mood
            return super().read(*arguments)

    file = Moody(path.read_bytes())
    model = tenmap.open(file)
    file.mood = mood = ZeroDivisionError("no")
    for use in (model["F32"].numpy, lambda: model["F32"].bytes, model.load, lambda: tenmap.measure(model)):
        with pytest.raises(ZeroDivisionError) as caught:
            use()
        assert caught.value is mood
    with pytest.raises(ZeroDivisionError):
        tenmap.open(file)
    file.mood = None
    model["F32"].numpy()
    with pytest.raises(TypeError, match="binary mode"):
        tenmap.open(io.StringIO("text of some length"))


def test_a_file_object_that_ends_early(path):
    file = io.BytesIO(path.read_bytes())
    model = tenmap.open(file)
    file.truncate(1200)
    with pytest.raises(EOFError, match="early"):
        model.load()


def test_errors_say_what_and_where(path, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        tenmap.open(tmp_path / "absent")
    error = caught.value
    assert isinstance(error, tenmap.Error) and error.status == tenmap.Status.NOT_FOUND
    assert error.remedy is tenmap.Remedy.NONE and not error.remedy
    assert error.path == str(tmp_path / "absent") and error.errno == errno.ENOENT and "absent" in str(error)
    data = path.read_bytes()
    (tmp_path / "short").write_bytes(data[:-1])
    with pytest.raises(tenmap.Error, match=f"truncated: .*, {len(data) - 1} of {len(data)} bytes") as caught:
        tenmap.open(tmp_path / "short")
    assert caught.value.status == tenmap.Status.FORMAT and not isinstance(caught.value, OSError)
    assert caught.value.remedy is tenmap.Remedy.FETCH_AGAIN
    assert tenmap.check(tmp_path / "short")[0].remedy is tenmap.Remedy.FETCH_AGAIN
    assert [f.code for f in tenmap.check(tmp_path / "short") if f.severity == "error"] == ["truncated", "incomplete"]
    if os.geteuid() != 0:
        (tmp_path / "secret").write_bytes(data)
        os.chmod(tmp_path / "secret", 0)
        with pytest.raises(PermissionError):
            tenmap.open(tmp_path / "secret")


def test_errors_pickle(tmp_path):
    import pickle

    with pytest.raises(tenmap.Error) as caught:
        tenmap.open(tmp_path / "absent")
    caught.value.remedy = tenmap.Remedy.TRY_AGAIN
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.remedy is tenmap.Remedy.TRY_AGAIN
    assert (again.status, again.message, again.path) == (caught.value.status, caught.value.message, caught.value.path)


def test_a_file_that_changes_is_an_exception_with_the_read_backend(path, tmp_path):
    target = tmp_path / "m"
    target.write_bytes(path.read_bytes())
    model = tenmap.open(target, backend="read")
    mapped = tenmap.open(target)
    with open(target, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(OSError) as caught:
        model["F32"].numpy()
    assert isinstance(caught.value, tenmap.Error) and caught.value.status == tenmap.Status.IO
    assert caught.value.tensor == "F32" and caught.value.path == str(target)
    with pytest.raises(OSError, match="shrunk"):
        mapped._private(0)


def test_dequantize(tmp_path):
    """Codes times scales, as one tensor, however it is read; codes and scales are not listed."""
    codes = random_array("F8_E4M3", (256, 256))
    codes = numpy.where(numpy.isnan(codes.astype("float32")), codes.dtype.type(1), codes)
    scales = numpy.array([[0.5, 2.0], [1.5, 0.25]], "float32")
    values = codes.astype("float32") * numpy.kron(scales, numpy.ones((128, 128), "float32"))
    path = tmp_path / "m.safetensors"
    tenmap.save_file({"a.weight": codes, "a.weight_scale_inv": scales, "b": scales}, path)
    stored = tenmap.open(path)
    assert len(stored) == 3 and stored["a.weight"].family == "block scales, as in DeepSeek's FP8"
    assert stored["b"].family is None and stored["a.weight_scale_inv"].family is None
    for source, backend in ((path, "map"), (path, "read"), (path.read_bytes(), "map"), (open(path, "rb"), "map")):
        model = tenmap.open(source, dequantize=True, backend=backend)
        tensor = model["a.weight"]
        assert sorted(model) == ["a.weight", "b"] and tensor.shape == (256, 256) and not tensor.mapped
        assert tensor.scheme == "fp8-block" and model["b"].scheme == "none" and tensor.family is None
        assert tensor.dtype == "F32" and same(tensor.numpy(), values)
        assert same(tensor[3:200:7, ::-2].numpy(), values[3:200:7, ::-2])
        assert bytes(tensor.bytes) == values.tobytes() and bytes(tensor[5].bytes) == values[5].tobytes()
        assert same(model.load(["a.weight"])["a.weight"], values)
        assert tenmap.measure(tensor).max == values.max()
        tenmap.save_file(model, tmp_path / "plain.safetensors")
        assert same(tenmap.open(tmp_path / "plain.safetensors")["a.weight"].numpy(), values)


def test_a_file_object_has_no_shards(tmp_path, arrays):
    tenmap.save_sharded(arrays, tmp_path, max_shard_bytes=3000)
    with pytest.raises(FileNotFoundError):
        tenmap.open(open(tmp_path / "model.safetensors.index.json", "rb"))


def test_duplicate_names_are_refused():
    entry = b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    header = b"{" + entry + b"," + entry + b"}"
    with pytest.raises(tenmap.Error, match="twice|more than once|duplicate"):
        tenmap.open(len(header).to_bytes(8, "little") + header + b"1")


def test_names_may_hold_anything():
    names = ["", "a\\u0000b", "\\n", "\u00e9", "\\ud83d\\ude00"]
    entries = ",".join(f'"{n}":{{"dtype":"U8","shape":[],"data_offsets":[{i},{i + 1}]}}' for i, n in enumerate(names))
    header = ("{" + entries + "}").encode()
    model = tenmap.open(len(header).to_bytes(8, "little") + header + b"01234")
    assert list(model) == ["", "a\0b", "\n", "\u00e9", "\U0001f600"]
    for i, name in enumerate(model):
        assert model[name].item() == ord("0") + i and model[name].name == name


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of hostile files is not here")
def test_every_hostile_file_gets_its_verdict():
    lines = (CORPUS / "EXPECTED.tsv").read_text().splitlines()[1:]
    assert len(lines) > 100
    for line in lines:
        file, expected, tensors, _ = line.split("\t")
        for source in (CORPUS / file, (CORPUS / file).read_bytes(), open(CORPUS / file, "rb")):
            try:
                model = tenmap.open(source)
            except tenmap.Error as error:
                assert expected == "reject", (file, error)
                continue
            assert expected == "accept" and len(model) == int(tensors), file
            for tensor in model.values():
                tensor.bytes, tensor.shape, repr(tensor)
                if len(tensor.shape) <= 64 and tensor.dtype != "F4":
                    with contextlib.suppress(ValueError):  # shapes that numpy does not support
                        tensor.numpy()
