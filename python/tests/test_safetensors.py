"""The drop-in: names and results of safetensors 0.8, and tenmap.install()."""

import os
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

import tenmap
import tenmap.safetensors as safetensors
from conftest import SUB_BYTE, needs, same, unsanitized
from tenmap.safetensors import SafetensorError, TensorSpec, safe_open, serialize
from tenmap.safetensors import numpy as st_numpy

CORPUS = pathlib.Path(os.environ.get("TENMAP_CORPUS") or pathlib.Path(__file__).parents[3] / "shared" / "corpus")


def run(code, *arguments, **environment):
    """Returns what a separate Python process prints."""
    done = subprocess.run(
        [sys.executable, *arguments, *(["-c", code] if code else [])],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_every_dtype_in_numpy_and_writable(path, arrays, backend):
    before = path.read_bytes()
    loaded = st_numpy.load_file(path, backend=backend)
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert same(loaded[name], array), name
        loaded[name][...] = 0
    assert path.read_bytes() == before
    for name, array in st_numpy.load(before).items():
        assert same(array, arrays[name]) and array.flags.writeable


@pytest.mark.parametrize("what", [
    "load_file(path)", "{k: f.get_tensor(k) for k in f.keys()}", "f.get_tensors()", "{k: f.get_slice(k)[:] for k in f.keys()}",
])  # fmt: skip
def test_arrays_outlive_the_contents_of_the_file(tmp_path, what):
    """As in the reference, numpy arrays own their bytes: overwriting the file kills nobody. In a
    process of its own, which SIGBUS would end."""
    weights = {"large": numpy.arange(1 << 18, dtype="float32"), "small": numpy.arange(9), "none": numpy.ones((0, 3))}
    st_numpy.save_file(weights, tmp_path / "w")
    assert run(f"""if True:
        import numpy, tenmap
        from tenmap.safetensors.numpy import load_file, safe_open, save
        path = {str(tmp_path / "w")!r}
        with safe_open(path, "np") as f:
            arrays = {what}
        open(path, "wb").write(save({{"other": numpy.zeros(3)}}))
        assert arrays["large"].sum() == sum(range(1 << 18)) and arrays["small"].tolist() == list(range(9))
        for array in arrays.values():
            array += 1
            assert array.flags.writeable and array.flags.aligned
        print(list(tenmap.open(path)))
    """) == "['other']"  # fmt: skip


@needs("jax")
def test_flax_arrays_outlive_the_contents_of_the_file(tmp_path):
    st_numpy.save_file({"w": numpy.arange(1 << 18, dtype="float32")}, tmp_path / "w")
    assert run(f"""if True:
        from tenmap.safetensors.flax import load_file
        arrays = load_file({str(tmp_path / "w")!r})
        open({str(tmp_path / "w")!r}, "wb").close()
        print(float(arrays["w"][-1]))
    """) == str(float((1 << 18) - 1))  # fmt: skip


def test_slices_as_numpy_has_them(path, arrays):
    with safe_open(path, framework="np") as file:
        part, array = file.get_slice("F32"), arrays["F32"]
        assert part.get_shape() == [6, 5, 8] and part.get_dtype() == "F32"
        for index in (slice(-2, None), slice(5, 2), slice(6, 6), slice(None, -1), slice(None, None, -1), (0, 1, 2),
                      (..., slice(1, 3)), 3, -1, (), slice(9, None), True):  # fmt: skip
            assert same(part[index], numpy.asarray(array[int(index) if index is True else index])), index
        for index, words in ((slice(None, 20), "index 19 out of bounds"), (9, "index 9 out of bounds"),
                             (None, "position 0"), ((0, 0, 0, 0), "more slicing indexes"), ([1], "lists")):  # fmt: skip
            with pytest.raises(SafetensorError, match=words):
                part[index]
    with pytest.raises(SafetensorError, match="closed"):
        file.keys()


def test_bytes_are_those_of_the_writer(path, arrays, tmp_path):
    whole = {name: array for name, array in arrays.items() if name not in SUB_BYTE}
    st_numpy.save_file(whole, tmp_path / "a", {"b": "2"})
    assert (tmp_path / "a").read_bytes() == st_numpy.save(whole, {"b": "2"})
    tenmap.save_file(whole, tmp_path / "b", {"b": "2"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    odd = {'q"\\\n\x01\x7f': numpy.zeros(1), "\u00e9\U0001f600": numpy.zeros(1)}
    st_numpy.save_file(odd, tmp_path / "c", {"\t": "\u20ac"})
    assert (tmp_path / "c").read_bytes() == st_numpy.save(odd, {"\t": "\u20ac"})


def test_wrong_arguments():
    spec = TensorSpec(dtype="float32", shape=[2], data_ptr=0, data_len=8)
    for bad in ([], {1: spec}, {"a": b""}):
        with pytest.raises(TypeError):
            serialize(bad)
    with pytest.raises(ValueError, match="address of 0"):
        serialize({"a": spec})
    with pytest.raises(SafetensorError, match="takes 8 bytes"):
        serialize({"a": TensorSpec(dtype="float32", shape=[2], data_ptr=64, data_len=4)})
    with pytest.raises(SafetensorError, match="Unknown dtype"):
        TensorSpec(dtype="nonsense", shape=[], data_ptr=0, data_len=0)
    with pytest.raises(OverflowError):
        TensorSpec(dtype="uint8", shape=[-1], data_ptr=0, data_len=0)
    with pytest.raises(FileNotFoundError, match="^No such file or directory: absent$"):
        safe_open("absent", "np")
    for arguments, words in ((("x", "zzz"), "framework zzz"), (("x", "np", "cuda"), "not supported"),
                             (("x", "pt", "zzz"), "is invalid")):  # fmt: skip
        with pytest.raises(SafetensorError, match=words):
            safe_open(*arguments)
    with pytest.raises(TypeError):
        safe_open(b"x", "np")
    with pytest.raises(TypeError):
        safetensors.deserialize(bytearray(8))


def test_a_folder_is_one_handle(tmp_path, arrays):
    tenmap.save_sharded(arrays, tmp_path, max_shard_bytes=3000)
    with safe_open(tmp_path, "np") as file:
        assert file.keys() == sorted(arrays)
        for name, tensor in file.get_tensors().items():
            assert same(tensor, arrays[name])


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of hostile files is not here")
def test_every_hostile_file_gets_its_verdict():
    for line in (CORPUS / "EXPECTED.tsv").read_text().splitlines()[1:]:
        file, expected, tensors, _ = line.split("\t")
        for use in (lambda: safe_open(CORPUS / file, "np").keys(),
                    lambda: safetensors.deserialize((CORPUS / file).read_bytes())):  # fmt: skip
            try:
                found = len(use())
            except SafetensorError:
                found = None
            assert found == (int(tensors) if expected == "accept" else None), file


@needs("torch")
def test_torch_round_trip(tmp_path, path, arrays):
    import torch

    from tenmap._dtypes import TABLE
    from tenmap.safetensors import torch as st_torch

    before = path.read_bytes()
    with safe_open(path, "pt") as file:
        for name in file.keys():
            if TABLE[name][1] is None:
                with pytest.raises(TypeError, match="torch has no dtype"):
                    file.get_tensor(name)
                continue
            tensor = file.get_tensor(name)
            kept = arrays[name].tobytes() if name != "F4" else bytes(tenmap.open(path)[name].bytes)
            assert tensor.view(torch.uint8).numpy().tobytes() == kept
            tensor.view(torch.uint8).zero_()
    assert path.read_bytes() == before
    tensors = {"w": torch.randn(5, 3), "b": torch.zeros(3, dtype=torch.bfloat16)}
    st_torch.save_file(tensors, tmp_path / "m", {"format": "pt"})
    loaded = st_torch.load_file(tmp_path / "m")
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


def test_install_gives_the_same_objects():
    assert run("""if True:
        import tenmap; tenmap.install(); tenmap.install()
        import safetensors, safetensors.numpy, importlib.metadata, importlib.util
        import tenmap.safetensors.numpy, tenmap.safetensors
        from safetensors._safetensors_rust import safe_open
        assert safetensors is tenmap.safetensors and safetensors.numpy is tenmap.safetensors.numpy
        assert safe_open is safetensors.safe_open is tenmap.safetensors.safe_open
        assert importlib.metadata.version("safetensors") == "0.8.0" == safetensors.__version__
        assert importlib.util.find_spec("safetensors").origin.endswith("__init__.py")
        assert importlib.util.find_spec("safetensors.torch") and importlib.util.find_spec("safetensors.no") is None
        import sys; assert "torch" not in sys.modules
        try: import safetensors.absent
        except ModuleNotFoundError as error: print(error)
    """) == "No module named 'safetensors.absent'"  # fmt: skip


def test_install_is_refused_once_it_is_too_late(tmp_path):
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").write_text("who = 'another'")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport tenmap\n"
    assert run(code + """if True:
        import safetensors
        try: tenmap.install()
        except ImportError as error: print(str(error)[:49])
    """) == "safetensors was imported before tenmap.install():"  # fmt: skip
    assert run(code + """if True:
        tenmap.install(); import safetensors as ours; tenmap.uninstall(); tenmap.uninstall()
        import safetensors; print(safetensors.who, ours.__name__)
    """) == "another tenmap.safetensors"  # fmt: skip


def test_children_have_it_too(tmp_path):
    code = "import safetensors; print(safetensors.__file__.split('/')[-3])"
    assert run(code, TENMAP_SAFETENSORS="1") == "tenmap"
    script = tmp_path / "script.py"
    script.write_text(f"import subprocess, sys\n{code}\nsubprocess.run([sys.executable, '-c', {code!r}], check=True)\n")
    assert run("", "-m", "tenmap.safetensors", str(script)) == "tenmap\ntenmap"


def test_the_example_runs(tmp_path):
    example = pathlib.Path(__file__).parents[1] / "examples" / "tour.py"
    assert "safetensors: (2, 32)" in run("", str(example), str(tmp_path))


def test_the_sample_of_the_readme_runs(tmp_path, monkeypatch):
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (sample,) = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    weight = tenmap.convert(numpy.ones((128, 32), "float32"), "BF16")
    tenmap.save_file({"model.embed_tokens.weight": weight}, tmp_path / "demo.safetensors")
    monkeypatch.chdir(tmp_path)
    code = "import safetensors; print(safetensors.__file__.split('/')[-3], rows.shape)"
    assert run(sample + code) == "tenmap (16, 32)"
    assert list(tenmap.open("rows.safetensors")) == ["rows"]


@unsanitized
def test_import_is_quick_and_needs_nothing():
    """Under 20 ms, without numpy. Measured in processor time, because other programs run too."""
    code = """if True:
        import time, sys; begin = time.process_time(); import tenmap
        print(time.process_time() - begin); assert not {"numpy", "torch", "ml_dtypes"} & set(sys.modules)
    """
    assert min(float(run(code)) for _ in range(10)) < 0.020
