"""A model is a mapping of names to tensors, and closing it never takes a view away."""

import copy
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Mapping

import numpy
import pytest

import tenmap
from conftest import DTYPES, same


def test_is_a_mapping_in_file_order(model):
    assert isinstance(model, Mapping)
    assert len(model) == len(DTYPES)
    assert list(model) == list(model.keys()) == [t.name for t in model.values()]
    assert [name for name, tensor in model.items() if tensor.name == name] == list(model)
    offsets = [tensor.offset for tensor in model.values()]
    assert offsets == sorted(offsets)
    assert "F32" in model and "absent" not in model and 5 not in model
    assert model.get("absent") is None and model.get("F32").name == "F32"
    assert model.keys() & {"F32", "absent"} == {"F32"}
    assert dict(model)["BF16"].dtype == "BF16"


def test_says_what_it_is(model, path):
    assert model.path == str(path)
    assert model.metadata == {"format": "np", "greeting": "hello"}
    assert "22 tensors" in repr(model)
    [shard] = model.shards
    assert shard.path == str(path) and shard.size == os.path.getsize(path) == model.file_size
    assert shard.tensor_count == 22 and shard.metadata == model.metadata
    tensor = model["BF16"]
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.ndim) == ("BF16", "BF16", (6, 5, 8), 3)
    assert (tensor.size, tensor.nbytes, tensor.shard) == (240, 480, 0)
    assert repr(tensor) == "<tenmap.Tensor 'BF16': BF16 [6, 5, 8], 480 B>"


def test_missing_names_and_wrong_keys(model):
    with pytest.raises(KeyError, match="absent"):
        model["absent"]
    with pytest.raises(KeyError):
        model["a\0b"]
    with pytest.raises(KeyError):
        model["\ud800"]
    with pytest.raises(TypeError, match="by name"):
        model[0]
    with pytest.raises(TypeError, match="opened"):
        tenmap.Model(1)
    with pytest.raises(TypeError, match="come from a model"):
        tenmap.Tensor()


def test_a_closed_model_is_closed_to_use_and_its_views_are_not(path, arrays):
    model = tenmap.open(path)
    tensor, array = model["F64"], model["F64"].numpy()
    model.close()
    model.close()
    assert model.closed and "closed" in repr(model)
    for use in (lambda: model["F64"], lambda: len(model), lambda: list(model), lambda: model.metadata,
                lambda: "F64" in model, model.__enter__, model.load, lambda: model.shards):  # fmt: skip
        with pytest.raises(ValueError, match="closed"):
            use()
    assert same(array, arrays["F64"]) and same(tensor.numpy(), arrays["F64"])
    del model, tensor
    assert same(array, arrays["F64"])


def test_a_view_leaves_a_with_statement(path, arrays):
    def read():
        with tenmap.open(path) as model:
            return model["I32"].numpy()

    assert same(read(), arrays["I32"])


def test_pickles_by_its_path(path, arrays):
    with tenmap.open(path, backend="read") as model:
        for again in (pickle.loads(pickle.dumps(model)), copy.copy(model)):
            assert list(again) == list(model) and not again["F32"].mapped
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(model["F32"])
    with pytest.raises(TypeError, match="path"):
        pickle.dumps(tenmap.open(path.read_bytes()))
    with pytest.raises(TypeError, match="closed"):
        pickle.dumps(model)


def _norm(arguments):
    model, name = arguments
    return model[name].numpy().astype("float64").sum()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(path, arrays, method):
    model = tenmap.open(path)
    expected = [arrays[name].astype("float64").sum() for name in ("I8", "U8", "I16")]
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(_norm, [(model, name) for name in ("I8", "U8", "I16")])
    assert found == expected


def test_after_fork_the_child_goes_on_reading(path, arrays):
    model = tenmap.open(path)
    child = os.fork()
    if child == 0:
        os._exit(0 if same(model["BF16"].numpy(), arrays["BF16"]) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_share_a_model_while_it_is_closed(path, arrays):
    failures = []
    with numpy.errstate(invalid="ignore"):
        expected = arrays["F32"].astype("float64")

    def work():
        for _ in range(200):
            try:
                tensor = model["F32"]
            except ValueError:
                return
            if not same(tensor.numpy("float64"), expected):
                failures.append(1)

    for _ in range(5):
        model = tenmap.open(path)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        model.close()
        for thread in threads:
            thread.join()
    assert not failures


def test_a_folder_is_one_handle(tmp_path, arrays):
    tenmap.save_sharded(arrays, tmp_path / "model", max_shard_bytes=2000, metadata={"format": "np"})
    model = tenmap.open(tmp_path / "model")
    assert len(model.shards) > 2 and set(model) == set(arrays)
    for name, array in arrays.items():
        assert same(model[name].numpy(), array)
    lost = model.shards[1]
    os.remove(lost.path)
    with pytest.raises(FileNotFoundError):
        tenmap.open(tmp_path / "model")
    partial = tenmap.open(tmp_path / "model", partial=True)
    assert partial.missing == [os.path.basename(lost.path)]
    assert len(partial) == len(arrays) - lost.tensor_count


def test_advice_and_residency(model):
    model.advise("populate")
    resident, cached = model.residency()
    assert resident > 0 and cached > 0
    model.advise("prefetch", "F32")
    model.advise("release")
    with pytest.raises(ValueError, match="advice"):
        model.advise("forget")
    with pytest.raises(KeyError):
        model.advise("populate", "absent")


def test_a_model_inside_a_larger_file(path, arrays, tmp_path):
    outer = tmp_path / "archive"
    outer.write_bytes(b"x" * 64 + path.read_bytes() + b"y" * 10)
    model = tenmap.open(outer, offset=64, length=path.stat().st_size)
    assert same(model["I64"].numpy(), arrays["I64"])
    if numpy.little_endian:
        assert model["I64"].numpy(writable=True).flags.writeable


def test_sub_interpreters(path):
    """Each has its own module; file objects are read by the interpreter that they belong to."""
    interpreters = pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    code = f"""if True:
        import tenmap
        for source in ({str(path)!r}, open({str(path)!r}, "rb")):
            model = tenmap.open(source)
            assert len(model) == 22 and len(model["BF16"][1:3, ::2].tolist()) == 2
            try: model["absent"]
            except KeyError: pass
            try: tenmap.open(b"nothing")
            except tenmap.Error: pass
            else: raise AssertionError
            try: model["F32"].__dlpack__(max_version=(1, 0))
            except BufferError: pass
            else: raise AssertionError
            assert model["F32"].buffer.shape == (6, 5, 8)
        class Moody:
            def seek(self, *arguments): raise ZeroDivisionError
            read = seek
        try: tenmap.open(Moody())
        except ZeroDivisionError: pass
        else: raise AssertionError
    """
    for _ in range(3):
        one = interpreters.create()
        raised = interpreters.run_string(one, code)
        interpreters.destroy(one)
        assert raised is None, raised
    assert len(tenmap.open(path)) == 22
