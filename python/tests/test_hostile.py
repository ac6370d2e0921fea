"""Callers whose code closes, clears, resizes, raises, forks or calls again while a call of theirs runs.

None of this may read or write freed memory: this file is for AddressSanitizer. Each call ends as if
the caller had done nothing, or with an exception that says what the caller did.
"""

import array
import gc
import os
import threading
import time

import numpy
import pytest

import hostile
import tenmap
from conftest import unsanitized


@pytest.fixture
def tensors():
    return {f"w{i}": numpy.arange(i, i + 64, dtype="float32").reshape(8, 8) for i in range(20)}


@pytest.fixture
def file(tensors, tmp_path):
    path = tmp_path / "m.safetensors"
    tenmap.save_file(tensors, path, {"a": "b"})
    return path


@pytest.fixture
def opened(file):
    return tenmap.open(file)


# References are taken before the caller's code runs.


def test_a_dimension_that_closes_the_model(opened, tensors):
    taken = opened.take({"w0": [hostile.Index(8, opened.close), 8]}, dtype="bfloat16")
    assert opened.closed and numpy.array_equal(taken["w0"].astype("float32"), tensors["w0"])


CALLS = {
    "take": lambda m, evil: m.take(["w0"], threads=evil),
    "take a shape": lambda m, evil: m.take({"w0": hostile.Items([8, 8], evil.action)}),
    "load": lambda m, evil: m.load(["w0"], threads=evil),
    "measure": lambda m, evil: tenmap.measure(m, threads=evil),
    "bins": lambda m, evil: tenmap.measure(m["w0"], bins=evil),
    "index": lambda m, evil: m["w0"][evil, evil:, ...],
    "slice": lambda m, evil: m["w0"][evil:evil:evil].bytes,
    "private": lambda m, evil: m._private(evil),
    "advise": lambda m, evil: m._advise(evil, "w0"),
    "data": lambda m, evil: m["w0"]._data(evil, evil),
    "a derived slice": lambda m, evil: tenmap.derive({"x": tenmap.expr(m["w0"])[evil, evil:] * 2, "y": m["w1"]}).load(),
    "a derived shape": lambda m, evil: tenmap.expr(m["w0"]).reshape(evil, 64),
    "a derived order": lambda m, evil: tenmap.expr(m["w0"]).transpose(evil, 0),
    "a derived axis": lambda m, evil: tenmap.derive({"x": tenmap.stack([m["w0"], m["w1"]], evil)}).load(),
    "derive": lambda m, evil: derive_alone(m["w0"], evil, 1),
    "derive's numbers": lambda m, evil: derive_alone(m["w0"], 0, evil),
}


def derive_alone(tensor, number, one):
    """Describes a derived tensor to the extension directly: a slice of w0, transposed, as a shape."""
    model = tenmap.Model.__new__(tenmap.Model)
    term = (tensor, one - one if isinstance(one, int) else 0.0, [one, 64], [0, number], [one, 64], number)
    model._derive([("x", number, 1, number, (term,), (1, number), (64, one))])
    assert model._tensors()[0].shape == (64, 1)


@pytest.mark.parametrize("name", CALLS)
def test_an_integer_that_closes_the_model(opened, name):
    try:
        CALLS[name](opened, hostile.Index(1, opened.close))
    except (ValueError, TypeError, IndexError, tenmap.Error):
        pass
    assert opened.closed


LISTS = ["_names", "_tensors", "_shards", "_table", "_residency", "__iter__"]


@pytest.mark.parametrize("every", [1, 2, 5, 12])
@pytest.mark.parametrize("name", LISTS)
def test_a_collection_that_closes_the_model(opened, name, every):
    call = getattr(opened, name)
    with hostile.collecting(opened.close, every):
        try:
            call()
        except ValueError as error:
            assert "closed" in str(error)


@pytest.mark.parametrize("every", [1, 3, 9])
def test_a_collection_that_closes_the_model_under_what_it_has(opened, every):
    with hostile.collecting(opened.close, every):
        for ask in (lambda: opened.metadata, lambda: opened.missing, lambda: opened["w3"], lambda: repr(opened)):
            try:
                ask()
            except ValueError as error:
                assert "closed" in str(error)


def test_a_finalizer_that_closes_the_model(opened, tensors):
    class Last:
        def __del__(self):
            opened.close()

    def progress(done, total):
        loop = Last()
        loop.itself = loop
        del loop
        gc.collect()

    loaded = opened.load(progress=progress, threads=1)
    assert opened.closed and all(numpy.array_equal(loaded[name], tensors[name]) for name in tensors)


def test_a_name_that_closes_the_model(opened):
    name = hostile.Name("w0")
    name.action = opened.close
    for call in (lambda: opened.load([name]), lambda: opened.take([name]), lambda: name in opened):
        try:
            call()
        except ValueError as error:
            assert "closed" in str(error)


@pytest.mark.parametrize("call", ["load", "take"])
def test_a_progress_function_that_closes_the_model(opened, tensors, call):
    got = getattr(opened, call)(dtype="float64", progress=lambda done, total: opened.close())
    assert opened.closed and all(numpy.array_equal(got[name], tensors[name]) for name in tensors)


def test_a_mapping_that_changes_while_it_is_taken(opened, tensors):
    wants = {"w0": (8, 8), "w1": None}
    assert set(opened.take(wants, progress=lambda *done: wants.clear())) == {"w0", "w1"}
    wants = {"w0": (hostile.Index(8, lambda: wants.clear()), 8), "w1": None}
    assert set(opened.take(wants)) == {"w0", "w1"}


def test_a_model_that_is_closed_while_it_is_measured(opened, tensors):
    stats = tenmap.measure(opened, progress=lambda *done: opened.close())
    assert {name: each.max for name, each in stats.items()} == {name: each.max() for name, each in tensors.items()}


def test_a_writer_that_ends_while_its_arguments_are_read(tmp_path):
    for number, give in enumerate([
        lambda w, evil: w.write("w", bytes(16), offset=evil),
        lambda w, evil: w.add("x", "F32", [evil]),
        lambda w, evil: w.add("x", "F32", hostile.Items([4], evil.action)),
    ]):  # fmt: skip
        writer = tenmap.Writer(tmp_path / f"{number}")
        writer.add("w", "F32", [4])
        with pytest.raises(ValueError, match="the writer has ended"):
            give(writer, hostile.Index(0, writer.abort))
    assert os.listdir(tmp_path) == []


def test_a_writer_is_created_once(tmp_path):
    writer = tenmap.Writer.__new__(tenmap.Writer)
    inner = hostile.Path(tmp_path / "outer", lambda: writer._create(tmp_path / "inner", 0, 0, 0))
    with pytest.raises(TypeError, match="once"):
        writer._create(inner, 0, 0, 0)
    writer.abort()
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hostile.HAS_BUFFER_METHOD, reason="Python 3.12 and later have __buffer__")
def test_a_buffer_that_ends_what_it_is_given_to(opened, file, tmp_path):
    writer = tenmap.Writer(tmp_path / "o")
    writer.add("w", "F32", [4])
    with pytest.raises(ValueError, match="the writer has ended"):
        writer._write(0, 0, hostile.Buffer(bytes(16), writer.abort))
    parts = [hostile.Buffer(b"1", lambda: parts.clear()), b"2"]
    assert tenmap._core.assemble(parts) == b"12"
    requests = [(opened["w0"], 0, hostile.Buffer(bytearray(256), lambda: requests.clear()))] * 2
    tenmap._core.load(requests, 1, 0, None)
    model = None
    buffer = hostile.Buffer(file.read_bytes(), lambda: model is not None and model.close())
    model = tenmap.open(buffer)
    assert model["w0"].shape == (8, 8)
    model.close()


class Factor(float):
    """A factor whose arithmetic does something first."""

    action = staticmethod(lambda: None)

    def __float__(self):
        self.action()
        return float.__float__(self)

    def __rmul__(self, other):
        self.action()
        return float.__rmul__(self, other)


def test_factors_and_names_that_close_the_models_of_an_expression(opened, file, tensors):
    other = tenmap.open(file)
    factor, name = Factor(2.0), hostile.Name("x")
    factor.action = opened.close
    name.action = other.close
    x, y = opened["w0"], other["w1"]
    derived = tenmap.derive({name: factor * x + y * factor, "y": x @ y})
    assert opened.closed and numpy.array_equal(derived["x"].numpy(), 2 * tensors["w0"] + 2 * tensors["w1"])


def test_mappings_that_change_and_close_while_they_are_derived(opened, tensors):
    class Pairs(dict):
        def items(self):
            pairs = list(dict.items(self))
            opened.close(), self.clear()
            return pairs

    pairs = Pairs({name: opened[name] + opened["w1"] for name in tensors})
    derived = tenmap.derive(pairs)
    assert opened.closed and not pairs
    assert all(numpy.array_equal(derived[name].numpy(), tensors[name] + tensors["w1"]) for name in tensors)
    terms = [(derived["w0"], hostile.Index(0, derived.close), None, None, None, 0)]
    with pytest.raises(TypeError):
        tenmap.Model.__new__(tenmap.Model)._derive([("x", 0, 1, 0, terms, None, None)])  # a list may change


@pytest.mark.parametrize("every", [1, 2, 5, 12])
def test_a_collection_that_closes_the_models_of_an_expression(opened, tensors, every):
    x = tenmap.concat([opened[name] for name in ("w0", "w1")]) @ opened["w2"]
    models = [opened]

    def close():
        for model in models:
            model.close()

    with hostile.collecting(close, every):
        models.append(tenmap.derive({"x": x, "y": x[:3] + x[3:6]}))
        try:
            models[1].load()
        except ValueError as error:
            assert "closed" in str(error)
    got = tenmap.derive({"x": x})["x"].numpy()
    assert numpy.array_equal(got, numpy.concatenate([tensors["w0"], tensors["w1"]]) @ tensors["w2"])


def test_a_progress_function_that_closes_a_derived_model_and_its_sources(opened, tensors):
    derived = tenmap.derive({name: 2 * opened[name] for name in tensors})
    got = derived.load(dtype="float64", progress=lambda *done: (derived.close(), opened.close()), threads=2)
    assert derived.closed and all(numpy.array_equal(got[name], 2 * tensors[name]) for name in tensors)


def test_orders_and_blocks_have_the_length_that_the_library_reads(opened):
    tensor = opened["w0"]
    for term, order in [((tensor, 0.0, None, [0], [8], 0), None), ((tensor, 0.0, None, [0, 0], [8], 0), None),
                        ((tensor, 0.0, None, None, None, 0), [0]), ((tensor, 0.0, [64], None, None, 0), [1, 0])]:  # fmt: skip
        with pytest.raises(ValueError, match="axes|axis"):
            tenmap.Model.__new__(tenmap.Model)._derive([("x", 0, 1, 0, (term,), order, None)])


@pytest.mark.parametrize("name", ["_take", "load", "measure", "save"])
def test_a_list_that_is_cleared_while_it_is_read(opened, tmp_path, name):
    items = []
    evil = hostile.Index(0, items.clear)
    if name == "_take":
        items += [("w0", evil, None, 0), ("w1", 0, [8, 8], 0)] * 5
        assert len(opened._take(items, 1, None)) == 10
    elif name == "load":
        items += [(opened["w0"], evil, bytearray(256)), (opened["w1"], 0, bytearray(256))]
        tenmap._core.load(items, 1, 0, lambda *done: items.clear())
    elif name == "measure":
        items += [opened["w0"], opened["w1"]]
        assert len(tenmap._core.measure(items, 0, 0, 0, evil, lambda *done: items.clear())) == 0
    else:
        code = tenmap._core.dtype_code("U8")
        items += [(f"name {i}" * 9, code, hostile.Items([4], items.clear), bytearray(4)) for i in range(9)]
        tenmap._core.save(tmp_path / "o", items, None, (0, 0, 0), 0, 0, None)
        assert len(tenmap.open(tmp_path / "o")) == 9


# Objects that are used without the GIL are copied or held.


def long_metadata():
    """Returns strings that nothing else references."""
    return {f"key {i} " * 20: f"value {i} " * 20 for i in range(20)}


def test_metadata_that_is_cleared_by_progress(tensors, tmp_path):
    given, wanted = long_metadata(), long_metadata()
    tenmap.save_sharded(tensors, tmp_path / "s", 1000, given, progress=lambda *done: given.clear(), threads=1)
    assert not given and tenmap.open(tmp_path / "s").metadata == wanted
    given = long_metadata()
    tenmap.save_file(tensors, tmp_path / "f", given, progress=lambda *done: given.clear())
    assert not given and tenmap.open(tmp_path / "f").metadata == wanted


def test_metadata_that_is_cleared_by_the_path(file):
    changes = long_metadata()
    tenmap.edit_metadata(hostile.Path(file, changes.clear), changes)
    names, changes = {"w0": "x" * 300}, long_metadata()
    tenmap.rename(hostile.Path(file, lambda: (names.clear(), changes.clear())), names, changes)
    assert len(tenmap.open(file)) == 20


def test_metadata_that_another_thread_clears(file, tensors, tmp_path):
    changes, stop = {}, threading.Event()

    def change():
        while not stop.is_set():
            changes.update(long_metadata())
            changes.clear()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for turn in range(20):
            tenmap.edit_metadata(file, changes)
            tenmap.rename(file, {f"w{turn}": f"v{turn}"}, changes)
            tenmap.save_file(tensors, tmp_path / "o", changes)
            tenmap.save_sharded(tensors, tmp_path / "s", 1 << 20, changes)
    finally:
        stop.set()
        thread.join()
    assert tenmap.open(tmp_path / "o").keys() == tensors.keys()


@pytest.mark.parametrize("make", [lambda: bytearray(1 << 20), lambda: array.array("f", bytes(1 << 20))])
def test_buffers_cannot_be_resized_while_they_are_saved(make, tmp_path):
    data, refused = make(), []

    def grow(*done):
        with pytest.raises(BufferError):
            data.extend(data[:1])
        refused.append(done)

    tenmap.save_file({"w": data}, tmp_path / "f", progress=grow, threads=1)
    tenmap.save_sharded({"w": data}, tmp_path / "s", progress=grow, threads=1)
    with tenmap.Writer(tmp_path / "w") as writer:
        writer["w"] = data
        grow()
    assert len(refused) >= 3
    data.extend(data[:1])  # nothing holds it any more


def test_the_bytes_of_an_open_model_cannot_be_resized(file):
    data = bytearray(file.read_bytes())
    model = tenmap.open(data)
    with pytest.raises(BufferError):
        data.clear()
    view = model["w0"].bytes
    model.close()
    with pytest.raises(BufferError):
        data.clear()
    del model, view
    data.clear()


def test_an_array_in_the_bytes_of_the_model_is_not_filled(file):
    data = bytearray(file.read_bytes())
    model = tenmap.open(data)
    inside = numpy.frombuffer(data, "float32", 64, len(data) - 512 + 4).reshape(8, 8)
    with pytest.raises(ValueError, match="the bytes that the model was opened from"):
        model.load(["w0"], out={"w0": inside})


def test_a_storage_that_was_resized_is_refused(opened, tensors, tmp_path):
    with hostile.stand_in_for_torch():
        tensor = hostile.TorchTensor(tensors["w0"])
        tenmap.save_file({"w": tensor}, tmp_path / "o")
        assert numpy.array_equal(tenmap.open(tmp_path / "o")["w"].numpy(), tensors["w0"])
        writer = tenmap.Writer(tmp_path / "w")
        writer["w"] = tensor
        tensor.storage.resize_(0)
        with pytest.raises(BufferError, match="resized or moved"):
            writer.commit()
        writer.abort()
        for save in (tenmap.save_file, tenmap.save_sharded):
            tensor = hostile.TorchTensor(tensors["w0"])
            resize = hostile.Path(tmp_path / save.__name__, lambda: tensor.storage.resize_(4096))
            with pytest.raises(BufferError, match="resized or moved"):
                save({"w": tensor}, resize)
        liar = hostile.TorchTensor(tensors["w0"])
        liar.data_ptr = lambda: 4096
        with pytest.raises(BufferError, match="resized or moved"):
            tenmap.save_file({"w": liar}, tmp_path / "o")


def test_a_storage_that_was_resized_is_not_written_to(opened, tensors):
    with hostile.stand_in_for_torch():
        first, second = (hostile.TorchTensor(tensors["w0"]) for _ in range(2))

        class Out(dict):
            def __getitem__(self, name):
                if name == "w1":
                    first.storage.resize_(0)
                return super().__getitem__(name)

        with pytest.raises(BufferError, match="resized or moved"):
            opened.load(["w0", "w1"], out=Out(w0=first, w1=second))
        first = hostile.TorchTensor(tensors["w0"])
        opened.load(["w1"], out={"w1": first})
        assert first.storage.data == tensors["w1"].tobytes()


# Files whose read() misbehaves.


def test_a_file_that_closes_the_model(file, tensors):
    model = None
    source = hostile.File(file.read_bytes(), lambda *asked: model.close() if model is not None else None)
    model = tenmap.open(source)
    loaded = model.load()
    assert model.closed and all(numpy.array_equal(loaded[name], tensors[name]) for name in tensors)


def test_a_file_that_reads_from_its_own_model(file):
    model = None
    source = hostile.File(file.read_bytes(), lambda place, size: model and model["w1"].tolist() and None)
    model = tenmap.open(source)
    with pytest.raises(RuntimeError, match=r"must not do"):
        model["w0"].tolist()
    with pytest.raises(RuntimeError, match=r"must not do"):
        model.load(dtype="float64")


READS = {
    "load": lambda model, path: model.load(threads=4),
    "take": lambda model, path: model.take(threads=4),
    "measure": lambda model, path: tenmap.measure(model, threads=4),
    "save": lambda model, path: tenmap.save_file(model, path, threads=4),
    "save_sharded": lambda model, path: tenmap.save_sharded(model, path, 1000, threads=4),
    "bytes": lambda model, path: model["w1"].bytes,
    "numpy": lambda model, path: model["w1"][::2].numpy(),
    "advise": lambda model, path: model.advise("populate"),
}


@pytest.mark.parametrize("name", READS)
def test_a_file_that_reads_on_other_threads(file, tmp_path, name):
    """They would wait for the lock that the file's own thread holds, and that thread for them."""
    model = None
    source = hostile.File(file.read_bytes(), lambda *asked: READS[name](model, tmp_path / "o") and None if model else None)
    model = tenmap.open(source)
    with pytest.raises(RuntimeError, match=r"must not do"):
        model["w0"].tolist()


def test_a_file_that_raises_on_many_threads_keeps_few_exceptions(file):
    failing = []

    def action(place, size):
        if failing:
            raise ZeroDivisionError("enough")

    model = tenmap.open(hostile.File(file.read_bytes(), action))
    failing.append(True)
    for _ in range(100):
        with pytest.raises(ZeroDivisionError, match="enough"):
            model.load(threads=4)
    failing.clear()
    assert model["w0"].shape == (8, 8) and model["w0"].tolist()


ANSWERS = {
    "too much": lambda place, size: bytes(size + 1),
    "nothing": lambda place, size: b"",
    "text": lambda place, size: "text",
    "none": lambda place, size: [],
    "one byte": lambda place, size: b"\xff",
    "other bytes": lambda place, size: b"\xff" * size,
    "an array": lambda place, size: array.array("B", b"\x7f" * size),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_file_that_answers_otherwise_than_before(file, name):
    lying = []
    source = hostile.File(file.read_bytes(), lambda place, size: ANSWERS[name](place, size) if lying else None)
    model = tenmap.open(source)
    lying.append(True)
    for call in (lambda: model.load(), lambda: model["w0"].numpy(), lambda: tenmap.open(source)):
        try:
            call()
        except (tenmap.Error, TypeError, ValueError, EOFError):
            pass
    lying.clear()
    assert model["w0"].tolist()


@pytest.mark.parametrize("size", [-1, 2**63, 2**64 - 1, 2**64, "much", None])
def test_a_file_that_lies_about_its_size(file, size):
    class Liar(hostile.File):
        def tell(self):
            return size

    with pytest.raises((tenmap.Error, OverflowError, TypeError, EOFError)):
        tenmap.open(Liar(file.read_bytes(), lambda place, size: None))


# Callbacks that raise, fork and call again.


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_progress_function_that_raises(opened, tmp_path, at):
    def calls():
        yield lambda progress: opened.load(progress=progress, threads=2)
        yield lambda progress: opened.take(dtype="float64", progress=progress, threads=2)
        yield lambda progress: tenmap.measure(opened, progress=progress, threads=2)
        yield lambda progress: tenmap.save_file(opened, tmp_path / "o", progress=progress)
        yield lambda progress: tenmap.save_sharded(opened, tmp_path / "s", 1000, progress=progress)

    for call in calls():
        reports = []

        def progress(done, total):
            reports.append(done)
            if len(reports) > at:
                raise ZeroDivisionError("enough")

        try:
            call(progress)
        except ZeroDivisionError:
            assert len(reports) == at + 1  # it is not called again


def test_callbacks_that_fork(opened, file, tmp_path):
    opened.load(progress=lambda *done: hostile.fork(), threads=1)
    tenmap.save_file(opened, tmp_path / "o", progress=lambda *done: hostile.fork(), threads=1)
    forks = []

    def action(place, size):
        if len(forks) < 3:
            forks.append(place)
            hostile.fork()

    model = tenmap.open(hostile.File(file.read_bytes(), action))
    model.load(threads=1)
    with hostile.collecting(hostile.fork, 300):
        opened.take({name: hostile.Items([8, 8], hostile.fork) for name in ("w0", "w1")}, threads=1)
    assert len(forks) == 3 and tenmap.open(tmp_path / "o").keys() == opened.keys()


def test_callbacks_that_call_again(opened, tensors, tmp_path):
    depth = []

    def progress(done, total):
        if len(depth) < 4:
            depth.append(done)
            loaded = opened.load(progress=progress, threads=2)
            tenmap.save_file(loaded, tmp_path / "o", progress=progress)
            tenmap.measure(opened, progress=progress)
            opened["w0"][:: hostile.Index(2, lambda: opened.take(["w1"], progress=progress))].numpy()

    loaded = opened.load(progress=progress)
    assert len(depth) == 4 and all(numpy.array_equal(loaded[name], tensors[name]) for name in tensors)


def test_threads_that_close_what_others_read(file, tensors):
    for _ in range(20):
        model = tenmap.open(file)
        barrier, failures = threading.Barrier(4), []

        def read():
            barrier.wait()
            try:
                for name in tensors:
                    assert numpy.array_equal(model.load([name])[name], tensors[name])
                    model.shards, model.metadata, list(model.items())
            except ValueError as error:
                if "closed" not in str(error):
                    failures.append(error)

        def close():
            barrier.wait()
            model.close()

        threads = [threading.Thread(target=each) for each in (read, read, read, close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures and model.closed


# Integers are used exactly, or refused with the name of their argument.

NUMBERS = {
    "open threads": ("threads", 32, lambda p, n: tenmap.open(p, threads=n)),
    "open max_header_bytes": ("max_header_bytes", 64, lambda p, n: tenmap.open(p, max_header_bytes=n)),
    "open offset": ("offset", 64, lambda p, n: tenmap.open(p, offset=n)),
    "open length": ("length", 64, lambda p, n: tenmap.open(p, length=n)),
    "check max_header_bytes": ("max_header_bytes", 64, lambda p, n: tenmap.check(p, max_header_bytes=n)),
    "load threads": ("threads", 32, lambda p, n: tenmap.open(p).load(threads=n)),
    "take threads": ("threads", 32, lambda p, n: tenmap.open(p).take(threads=n)),
    "take shape": ("a dimension of a shape", 64, lambda p, n: tenmap.open(p).take({"w0": [n, 8]})),
    "measure threads": ("threads", 32, lambda p, n: tenmap.measure(tenmap.open(p), threads=n)),
    "measure bins": ("bins", 32, lambda p, n: tenmap.measure(tenmap.open(p), bins=n)),
    "save threads": ("threads", 32, lambda p, n: tenmap.save_file({}, f"{p}.o", threads=n)),
    "save alignment": ("alignment", 32, lambda p, n: tenmap.save_file({}, f"{p}.o", alignment=n)),
    "save slack": ("slack", 32, lambda p, n: tenmap.save_file({}, f"{p}.o", slack=n)),
    "shard threads": ("threads", 32, lambda p, n: tenmap.save_sharded({}, f"{p}.s", threads=n)),
    "shard alignment": ("alignment", 32, lambda p, n: tenmap.save_sharded({}, f"{p}.s", alignment=n)),
    "shard slack": ("slack", 32, lambda p, n: tenmap.save_sharded({}, f"{p}.s", slack=n)),
    "max_shard_bytes": ("max_shard_bytes", 64, lambda p, n: tenmap.save_sharded({}, f"{p}.s", n)),
    "writer alignment": ("alignment", 32, lambda p, n: tenmap.Writer(f"{p}.w", alignment=n)),
    "writer slack": ("slack", 32, lambda p, n: tenmap.Writer(f"{p}.w", slack=n)),
    "writer shape": ("a dimension of a shape", 64, lambda p, n: tenmap.Writer(f"{p}.w").add("w", "F32", [n])),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_integers_do_not_wrap(file, case):
    name, bits, call = NUMBERS[case]
    for number in (-1, -(2**63), -(2**64), -(2**200), 2**bits, 2**bits + 1, 2**64 + 4, 10**5000):
        with pytest.raises(OverflowError, match=f"{name} must be an integer from 0 to {2**bits - 1}"):
            call(file, number)
    for other in (1.0, "1"):
        with pytest.raises(TypeError, match=f"{name} must be an integer"):
            call(file, other)


def test_an_offset_does_not_wrap(tmp_path):
    writer = tenmap.Writer(tmp_path / "w")
    writer.add("w", "F32", [4])
    for offset in (2**64, 2**64 + 4, -1, -(2**64) + 4):
        with pytest.raises(OverflowError, match="offset must be an integer from 0 to 18446744073709551615"):
            writer.write("w", bytes(4), offset=offset)
    writer.write("w", bytes(range(16)), offset=numpy.int64(0))
    writer.commit()
    assert tenmap.open(tmp_path / "w")["w"].bytes == bytes(range(16))


def test_an_address_does_not_wrap():
    for address, size in ((2**64 + 8, 4), (-1, 4), (8, -1), (8, 2**64)):
        with pytest.raises(OverflowError, match="address|size"):
            tenmap._core.borrow(address, size, None)
    with pytest.raises(ValueError, match="no 8 bytes|has no"):
        tenmap._core.borrow(2**64 - 4, 8, None)


# Sizes that a file declares.


def test_extents_of_tensors_without_elements_do_not_overflow():
    import json

    shape = [0, 1 << 62, 8]
    text = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
    text += b" " * (-len(text) % 8)
    tensor = tenmap.open(len(text).to_bytes(8, "little") + text)["w"]
    assert tensor.buffer.shape == tuple(shape) and tensor[:, ::2].buffer.nbytes == 0
    tensor.__dlpack__(max_version=(1, 0)), tensor[:, 1:].__dlpack__(max_version=(1, 0))


def time_of(call):
    best = 1e9
    for _ in range(3):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


@unsanitized
def test_shards_are_listed_in_linear_time(tmp_path):
    """Eight times the shards take about eight times as long, not 64; repr takes almost no time."""
    metadata = {f"key {i}": "value" for i in range(20)}
    times = []
    for count in (40, 320):
        folder = tmp_path / str(count)
        tenmap.save_sharded({f"w{i}": numpy.zeros(16, "uint8") for i in range(count)}, folder, 16, metadata)
        model = tenmap.open(folder)
        assert [shard.metadata for shard in model.shards] == [metadata] * count
        assert f"in {count} files" in repr(model)
        times.append(time_of(lambda: model.shards))
    assert times[1] < 20 * times[0]
    assert time_of(lambda: repr(model)) < times[1] / 10
