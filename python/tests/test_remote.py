"""Addresses: opened by the extension through libcurl, by fsspec, or refused with what to install."""

import pathlib
import pickle
import subprocess
import sys

import numpy
import pytest

import tenmap
from conftest import needs, same
from tenmap import _core, _remote
from tenmap.safetensors import safe_open

SERVER = pathlib.Path(__file__).parents[2] / "http" / "tests" / "server.py"
no_curl = _core.http_missing()

CLIENT = """
import os, sys, numpy, pickle, tenmap
address, folder = sys.argv[1:3]
os.environ["HF_ENDPOINT"] = address
weights = {f"layers.{i}.w": numpy.full((50, 100), i, "float32") for i in range(20)}
tenmap.save_file(weights, folder + "/model.safetensors")
for path in (address + "/files/model.safetensors", "hf://demo/model"):
    model = tenmap.open(path)
    assert model.path == path and len(model) == 20 and not model["layers.3.w"].mapped
    assert model["layers.7.w"][3:5, ::50].tolist() == [[7, 7], [7, 7]]
    assert all((array == weights[name]).all() for name, array in model.load().items())
    assert pickle.loads(pickle.dumps(model))["layers.3.w"][0, 0].item() == 3
    model["layers.1.w"].numpy(writable=True)[...] = 0
    assert "20 tensors" in repr(model)
    model.close()
absent = address + "/files/absent.safetensors"
try: model = tenmap.open(absent)
except tenmap.Error as error: assert absent in str(error), error
else: raise AssertionError(model)
print("done")
"""


@pytest.mark.skipif(no_curl is not None or not SERVER.exists(), reason=f"no addresses: {no_curl}")
def test_addresses_are_opened_through_libcurl(tmp_path):
    client = tmp_path / "client.py"
    client.write_text(f"#!{sys.executable}\n{CLIENT}")
    client.chmod(0o755)
    done = subprocess.run([sys.executable, str(SERVER), str(client)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(no_curl is not None, reason=f"no addresses: {no_curl}")
def test_a_server_that_is_not_there_is_an_error():
    with pytest.raises(tenmap.Error, match="127.0.0.1"):
        tenmap.open("http://127.0.0.1:9/model.safetensors")


@needs("fsspec")
def test_other_addresses_are_opened_by_fsspec(arrays, path, monkeypatch):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/org/name/model.safetensors", path.read_bytes())
    memory.pipe("/org/name/README.md", b"#")
    for address in ("memory://org/name/model.safetensors", "memory://org/name"):
        model = tenmap.open(address)
        assert same(model["F32"].numpy(), arrays["F32"]) and model.path == address
        with safe_open(address, "np") as file:
            assert same(file.get_tensor("BF16"), arrays["BF16"])
        assert same(pickle.loads(pickle.dumps(model))["I8"].numpy(), arrays["I8"])
    memory.pipe("/org/name/second.safetensors", path.read_bytes())
    with pytest.raises(tenmap.Error, match="2 files of models.*name one of them"):
        tenmap.open("memory://org/name")
    with pytest.raises(FileNotFoundError):
        tenmap.open("memory://org/absent.safetensors")


def test_without_either_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(_core, "http_missing", lambda: "no libcurl here")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for address, words in (("hf://org/name", "libcurl.*pip install huggingface_hub"), ("s3://bucket/key", "libcurl.*s3fs"),
                           ("gs://bucket/key", "pip install gcsfs"), ("odd://x", "for odd")):  # fmt: skip
        with pytest.raises(tenmap.Error, match=words) as caught:
            tenmap.open(address)
        assert caught.value.status == tenmap.Status.UNSUPPORTED and not isinstance(caught.value, OSError)
        with pytest.raises(Exception, match="is an address"):
            safe_open(address, "np")
    assert not _remote.is_address("a/b.safetensors") and not _remote.is_address(b"hf://x")
