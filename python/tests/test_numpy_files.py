"""Files that numpy writes open as models, with the arrays that numpy reads."""

import numpy
import pytest

import tenmap
from conftest import same

_ARRAYS = {
    "weight": numpy.arange(12, dtype="float32").reshape(3, 4),
    "layer/fortran": numpy.asfortranarray(numpy.arange(24, dtype="int16").reshape(2, 3, 4)),
    "scalar": numpy.float64(1.5),
    "überall": numpy.zeros((0, 5), "bool"),
}


def test_an_archive_opens_with_the_arrays_of_numpy(tmp_path):
    path = tmp_path / "weights.npz"
    numpy.savez(path, **_ARRAYS)
    model = tenmap.open(path)
    assert sorted(model) == sorted(_ARRAYS)
    for name, array in _ARRAYS.items():
        assert same(model[name].numpy(), numpy.asarray(array))


def test_an_array_is_named_array(tmp_path):
    path = tmp_path / "x.npy"
    numpy.save(path, _ARRAYS["layer/fortran"])
    model = tenmap.open(path)
    assert list(model) == ["array"]
    assert same(model["array"].numpy(), _ARRAYS["layer/fortran"])


def test_a_file_of_numpy_becomes_safetensors(tmp_path):
    numpy.savez(tmp_path / "weights.npz", **_ARRAYS)
    tenmap.save_file(tenmap.open(tmp_path / "weights.npz"), tmp_path / "weights.safetensors")
    model = tenmap.open(tmp_path / "weights.safetensors")
    for name, array in _ARRAYS.items():
        assert same(model[name].numpy(), numpy.asarray(array))


def test_compressed_archives_and_objects_are_refused_with_advice(tmp_path):
    numpy.savez_compressed(tmp_path / "packed.npz", a=_ARRAYS["weight"])
    numpy.save(tmp_path / "objects.npy", numpy.array([None]), allow_pickle=True)
    with pytest.raises(tenmap.Error, match="numpy.savez instead of numpy.savez_compressed"):
        tenmap.open(tmp_path / "packed.npz")
    with pytest.raises(tenmap.Error, match="only running a pickle"):
        tenmap.open(tmp_path / "objects.npy")
