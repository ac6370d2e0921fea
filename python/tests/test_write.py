"""Writing: files are read back whole, or not written at all."""

import os
import pickle
import signal
import threading

import numpy
import pytest

import tenmap
from conftest import SUB_BYTE, needs, random_array, same


def test_round_trip_of_every_dtype(path, arrays):
    model = tenmap.open(path)
    for name, array in arrays.items():
        assert same(model[name].numpy(), array)


def test_what_is_written_from_a_model_is_the_same_file(path, tmp_path):
    model = tenmap.open(path)
    tenmap.save_file(model, tmp_path / "again", model.metadata)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_arrays_of_any_layout(tmp_path):
    base = numpy.arange(24, dtype="int32").reshape(4, 6)
    swapped = base.astype(">i4")
    frozen = base.copy()
    frozen.flags.writeable = False
    given = {"t": base.T, "step": base[::-1, ::2], "swapped": swapped, "frozen": frozen,
             "scalar": numpy.float64(2.5), "buffer": memoryview(b"abc"), "none": base[:0]}  # fmt: skip
    tenmap.save_file(given, tmp_path / "m")
    model = tenmap.open(tmp_path / "m")
    for name, array in given.items():
        assert numpy.array_equal(model[name].numpy(), numpy.asarray(array)), name
    assert model["scalar"].shape == () and model["none"].shape == (0, 6)
    tenmap.save_file({"part": model["t"][1:, ::-1]}, tmp_path / "part")
    assert numpy.array_equal(tenmap.open(tmp_path / "part")["part"].numpy(), base.T[1:, ::-1])


@pytest.mark.parametrize(
    "tensors,metadata,kind,words",
    [
        ({"a": "text"}, None, TypeError, "'a': expected an array"),
        ({"a": [1, 2]}, None, TypeError, "expected an array"),
        ({"a": numpy.array(["x"])}, None, TypeError, "not a dtype"),
        ({"a": numpy.zeros(2, "complex128")}, None, TypeError, "not a dtype"),
        ({"a": numpy.zeros(2, [("x", "i4")])}, None, TypeError, "not a dtype"),
        ({1: numpy.zeros(2)}, None, TypeError, "must be a str"),
        ({"\ud800": numpy.zeros(2)}, None, UnicodeError, "surrogates"),
        ({"__metadata__": numpy.zeros(2)}, None, tenmap.Error, "__metadata__"),
        ({"a": numpy.zeros(2)}, {"k": 1}, TypeError, "must be a str"),
        ({"a": numpy.zeros(2)}, ["k"], TypeError, "dict of strings"),
        ("text", None, TypeError, "a mapping of names"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, tensors, metadata, kind, words):
    with pytest.raises(kind, match=words):
        tenmap.save_file(tensors, tmp_path / "m", metadata)
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_the_old_file(path, tmp_path):
    target = tmp_path / "m"
    target.write_bytes(path.read_bytes())

    def stop(done, total):
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        tenmap.save_file({"w": numpy.zeros(1 << 22)}, target, progress=stop)
    assert target.read_bytes() == path.read_bytes() and os.listdir(tmp_path) == ["m"]
    with pytest.raises(FileNotFoundError):
        tenmap.save_file({}, tmp_path / "absent" / "m")


def test_a_file_may_be_replaced_by_what_is_read_from_it(path, tmp_path, arrays):
    target = tmp_path / "m"
    target.write_bytes(path.read_bytes())
    model = tenmap.open(target)
    tenmap.save_file({"only": model["F32"]}, target)
    assert same(model["F32"].numpy(), arrays["F32"]) and list(tenmap.open(target)) == ["only"]


def test_writer_streams(tmp_path, model):
    target = tmp_path / "m"
    rows = random_array("F32", (10, 100))
    with tenmap.Writer(target, {"format": "np"}) as writer:
        writer.add("w", "float32", (10, 100))
        writer.add("copy", "F64", model["F32"].shape)
        writer["later"] = rows[0]
        writer.write("w", rows[5:], offset=5 * 400)
        writer.write("w", rows[:5].tobytes())
        writer.copy("copy", model["F32"])
        assert not target.exists()
    found = tenmap.open(target)
    assert same(found["w"].numpy(), rows) and same(found["later"].numpy(), rows[0])
    assert found["copy"].dtype == "F64" and writer.ended


def test_writer_that_fails_leaves_the_old_file(tmp_path):
    target = tmp_path / "m"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError):
        with tenmap.Writer(target) as writer:
            writer["w"] = numpy.zeros(10)
            1 / 0
    with pytest.raises(tenmap.Error, match="missing|not written|bytes"):
        with tenmap.Writer(target) as writer:
            writer.add("w", "F32", [4])
    with pytest.raises(ValueError, match="convert it first"):
        with tenmap.Writer(target) as writer:
            writer.add("w", "F32", [4])
            writer.write("w", numpy.zeros(4))
    with pytest.raises(KeyError, match="not declared"):
        with tenmap.Writer(target) as writer:
            writer.write("w", b"")
    with pytest.raises(ValueError, match="ended"):
        writer.add("w", "F32", [4])
    for shape in ([-1], [1.5], 3, [2**70]):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            with tenmap.Writer(target) as writer:
                writer.add("w", "F32", shape)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["m"]


def test_edit_metadata(tmp_path, path):
    target = tmp_path / "m"
    tenmap.save_file(tenmap.open(path), target, {"a": "1", "b": "2"}, slack=200)
    assert tenmap.edit_metadata(target, {"a": "one", "b": None, "c": "3"}) == "in place"
    assert tenmap.open(target).metadata == {"a": "one", "c": "3"}
    assert tenmap.edit_metadata(target, {"long": "x" * 500}) in ("cloned", "copied")
    with pytest.raises(TypeError, match="str"):
        tenmap.edit_metadata(target, {"a": 1})
    assert tenmap.open(target).metadata["long"] == "x" * 500


def test_rename(tmp_path, path):
    target = tmp_path / "m"
    tenmap.save_file(tenmap.open(path), target, {"a": "1"}, slack=200)
    first, second, *others = list(tenmap.open(target))
    before = {name: bytes(tensor.bytes) for name, tensor in tenmap.open(target).items()}
    assert tenmap.rename(target, {first: second, second: first}, {"a": "2"}) == "in place"
    after = tenmap.open(target)
    assert bytes(after[first].bytes) == before[second] and bytes(after[second].bytes) == before[first]
    assert after.metadata == {"a": "2"} and set(after) == set(before)
    assert tenmap.rename(target, {first: "n" * 3000}) in ("cloned", "copied")
    with pytest.raises(tenmap.Error, match="there is no tensor"):
        tenmap.rename(target, {first: "x"})
    with pytest.raises(tenmap.Error, match="would both be called"):
        tenmap.rename(target, {second: "n" * 3000})
    with pytest.raises(TypeError, match="str"):
        tenmap.rename(target, {second: 1})
    assert set(tenmap.open(target)) == {second, "n" * 3000, *others}


def test_load(model, arrays, path):
    loaded = model.load()
    assert list(loaded) == list(model)
    for name, array in arrays.items():
        assert same(loaded[name], array), name
        assert loaded[name].flags.writeable
    assert list(model.load(["I8", "BF16"], "float32")) == ["I8", "BF16"]
    out = {"F32": numpy.empty((6, 5, 8), "float32"), "BF16": numpy.empty((6, 5, 8), "float32")}
    assert model.load(list(out), "float32", out=out) is out
    assert same(out["F32"], arrays["F32"])
    with pytest.raises(KeyError):
        model.load(["absent"])
    for bad in (numpy.empty((6, 5, 9), "float32"), numpy.empty((6, 5, 8), "float64"),
                numpy.empty((6, 5, 16), "float32")[..., ::2], model["F32"].numpy(), [1.0], None):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match="expected"):
            model.load(["F32"], out={"F32": bad})
    direct = tenmap.open(path).load(["F32"], direct=True, threads=2)
    assert same(direct["F32"], arrays["F32"])


def test_load_reports_progress_and_stops(tmp_path):
    tenmap.save_file({"w": numpy.zeros(3 << 20)}, tmp_path / "m")
    model, seen = tenmap.open(tmp_path / "m"), []
    model.load(progress=lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 0 and seen[-1] == (24 << 20, 24 << 20)

    class Bar:
        total = n = 0

        def update(self, more):
            self.n += more

    bar = Bar()
    model.load(progress=bar)
    assert (bar.total, bar.n) == (24 << 20, 24 << 20)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.load(progress=interrupt)
    with pytest.raises(TypeError, match="tqdm"):
        model.load(progress=3)


def test_ctrl_c_stops_a_load_and_the_model_goes_on(tmp_path):
    """A signal arrives while the library works without the GIL."""
    array = numpy.arange(4 << 20, dtype="float32")
    tenmap.save_file({"w": array}, tmp_path / "m")
    model, begun = tenmap.open(tmp_path / "m"), threading.Event()

    def interrupt():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    killer = threading.Thread(target=interrupt)
    killer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(1000):
                model.load(dtype="float64", progress=lambda done, total: begun.set())
    finally:
        killer.join()
        signal.signal(signal.SIGINT, before)
    assert same(model["w"].numpy(), array)


def test_floating_point_is_converted_while_it_is_saved(tmp_path, model):
    given = {"t": model["F32"], "part": model["F32"][1:, ::2], "a": numpy.float32([1.5, 2.5]), "i": numpy.arange(3)}
    tenmap.save_file(given, tmp_path / "m", dtype="bfloat16")
    found = tenmap.open(tmp_path / "m")
    assert {name: tensor.dtype for name, tensor in found.items()} == {"t": "BF16", "part": "BF16", "a": "BF16", "i": "I64"}
    assert same(found["t"].numpy(), model["F32"].numpy("bfloat16"))
    assert same(found["part"].numpy(), model["F32"][1:, ::2].numpy("bfloat16"))
    assert found["a"].tolist() == [1.5, 2.5]
    with pytest.raises(tenmap.Error, match="not supported|cannot|no conversion|UNSUPPORTED|convert"):
        tenmap.save_file({"t": model["F32"]}, tmp_path / "n", dtype="int8")
    assert not (tmp_path / "n").exists()


def test_take(model, path, arrays):
    """Returns views of tensors that are stored as requested, one allocation for the rest;
    read-only, and valid after closing."""
    taken = model.take()
    assert list(taken) == list(model)
    for name, array in arrays.items():
        assert same(taken[name], array) and (not taken[name].flags.writeable or name in SUB_BYTE), name
    assert taken["F32"].ctypes.data == model["F32"].numpy().ctypes.data
    with numpy.errstate(all="ignore"):
        some = tenmap.open(path).take({"F32": (6, None, 8), "BF16": None}, {"F32": "float64"})
    assert some["F32"].dtype == "float64" and same(some["BF16"], arrays["BF16"])
    assert not some["F32"].flags.writeable
    assert list(model.take(["absent", "I8"], optional=["absent"])) == ["I8"] and list(model.take("I8")) == ["I8"]
    assert model.take([]) == {}
    copies = tenmap.open(path, backend="read").take(["F32", "U8"])
    assert same(copies["F32"], arrays["F32"]) and same(copies["U8"], arrays["U8"])


def test_take_says_all_that_is_wrong(model):
    with pytest.raises(KeyError) as caught:
        model.take(["one", "two", "I8"])
    assert isinstance(caught.value, tenmap.Error) and "one" in str(caught.value) and "two" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message
    with pytest.raises(tenmap.Error, match="F32") as caught:
        model.take({"F32": (6, 5, 9)})
    assert caught.value.status == tenmap.Status.RANGE and caught.value.tensor == "F32"
    with pytest.raises(tenmap.Error):
        model.take(["F32"], "int8")
    for wants, kind in (([1], TypeError), ({"F32": 3}, TypeError), ({"F32": [-1]}, (ValueError, OverflowError)),
                        (["a\0b"], ValueError)):  # fmt: skip
        with pytest.raises(kind):
            model.take(wants)
    model.close()
    with pytest.raises(ValueError, match="closed"):
        model.take()


@needs("torch")
def test_torch_is_written_and_loaded(tmp_path):
    import torch

    given = {"w": torch.randn(10, 20).T, "b": torch.randn(7).to(torch.bfloat16), "f": torch.zeros(8, dtype=torch.float8_e4m3fn),
             "p": torch.nn.Parameter(torch.ones(3)), "e": torch.empty(0, 3)}  # fmt: skip
    tenmap.save_file(given, tmp_path / "m")
    loaded = tenmap.open(tmp_path / "m").load(framework="torch")
    for name, tensor in given.items():
        assert torch.equal(loaded[name].view(torch.uint8), tensor.detach().contiguous().view(torch.uint8)), name
    out = {"w": torch.empty(20, 10, dtype=torch.float64)}
    tenmap.open(tmp_path / "m").load(["w"], torch.float64, out=out)
    assert torch.equal(out["w"], given["w"].double())
    with pytest.raises(ValueError, match="meta"):
        tenmap.save_file({"m": torch.zeros(3, device="meta")}, tmp_path / "n")
    with pytest.raises(ValueError, match="dense"):
        tenmap.save_file({"m": torch.zeros(3).to_sparse()}, tmp_path / "n")


def test_convert(arrays):
    found = tenmap.convert(arrays["F32"], "bfloat16")
    with numpy.errstate(all="ignore"):
        expected = arrays["F32"].astype(found.dtype)
    assert numpy.array_equal(found.astype("float32"), expected.astype("float32"), equal_nan=True)
    assert tenmap.convert(numpy.array([1e9]), "F16")[0] == numpy.inf
    assert tenmap.convert(numpy.array([1e9]), "F16", saturate=True)[0] == 65504
    assert tenmap.convert(numpy.array([1.0, 6.0, 0.5, 2.0]), "F4").astype("float32").tolist() == [1, 6, 0.5, 2]
    with pytest.raises(tenmap.Error):
        tenmap.convert(numpy.array([1.5]), "I8")


def test_measure_and_check(model, path, arrays):
    array = arrays["I16"]
    stats = tenmap.measure(model["I16"], bins=10, range=(-32768, 32768))
    assert (stats.count, stats.min, stats.max) == (240, array.min(), array.max())
    assert stats.mean == pytest.approx(array.mean()) and stats.std == pytest.approx(array.std())
    assert stats.histogram == numpy.histogram(array, 10, (-32768, 32768))[0].tolist()
    assert tenmap.measure(array).mean == stats.mean
    assert tenmap.measure(model["I16"][1:, ::2]).count == array[1:, ::2].size
    assert set(tenmap.measure(model)) == set(model)
    assert [s.count for s in tenmap.measure([model["I8"], model["U8"]])] == [240, 240]
    assert not [f for f in tenmap.check(path) if f.severity == "error"]
    with pytest.raises(TypeError):
        tenmap.measure(["text"])
