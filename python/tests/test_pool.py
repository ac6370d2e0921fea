"""keep_memory: memory that was freed is used again by later loads, within a limit."""

import subprocess
import sys

import numpy
import pytest

import tenmap
from conftest import same

MIB = 1 << 20


@pytest.fixture
def model(tmp_path):
    generator = numpy.random.default_rng(4)
    arrays = {name: generator.random(size, "float32") for name, size in (("a", 2 * MIB), ("b", MIB), ("c", MIB // 2))}
    tenmap.save_file(arrays, tmp_path / "m.safetensors")
    with tenmap.open(tmp_path / "m.safetensors") as model:
        yield model, arrays
    assert tenmap.keep_memory(0) == 0


def load(model, names=None):
    loaded = model.load(names)
    return {name: array.ctypes.data for name, array in loaded.items()}, loaded


def test_nothing_is_kept_by_default(model):
    model, _ = model
    del model.load()["a"]
    assert tenmap.keep_memory(0) == 0


def test_freed_memory_is_used_again(model):
    model, arrays = model
    assert tenmap.keep_memory(64 * MIB) == 0
    places, loaded = load(model)
    loaded["a"][...] = 7
    del loaded
    assert tenmap.keep_memory(64 * MIB) == 14 * MIB
    again, loaded = load(model)
    assert again == places and all(same(loaded[name], arrays[name]) for name in arrays)
    assert tenmap.keep_memory(64 * MIB) == 0
    part = loaded["a"][5:9]  # a view keeps the memory in use
    del loaded
    assert tenmap.keep_memory(64 * MIB) == 6 * MIB
    assert same(part, arrays["a"][5:9])


def test_the_limit_holds_and_lowering_it_frees(model):
    model, _ = model
    tenmap.keep_memory(9 * MIB)
    load(model)
    assert tenmap.keep_memory(9 * MIB) <= 9 * MIB
    load(model, ["b"])
    assert tenmap.keep_memory(3 * MIB) <= 3 * MIB
    assert tenmap.keep_memory(0) == 0


def test_a_block_that_is_much_larger_is_not_used(model):
    model, arrays = model
    tenmap.keep_memory(64 * MIB)
    load(model, ["a"])
    _, loaded = load(model, ["c"])
    assert tenmap.keep_memory(64 * MIB) == 8 * MIB and same(loaded["c"], arrays["c"])


def test_wrong_limits():
    for wrong, kind in ((-1, OverflowError), (1 << 80, OverflowError), ("1", TypeError)):
        with pytest.raises(kind):
            tenmap.keep_memory(wrong)


def test_the_end_of_the_process_with_arrays_and_kept_memory(tmp_path):
    code = """if True:
        import sys, numpy, tenmap
        tenmap.save_file({"a": numpy.zeros(1 << 20, "float32"), "b": numpy.zeros(1 << 20, "float32")}, sys.argv[1])
        tenmap.keep_memory(1 << 30)
        held = tenmap.open(sys.argv[1]).load()
        del held["a"]
        sys.held = held
    """
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m"], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
