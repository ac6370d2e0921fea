"""What safetensors 0.9 added: get_tensor_meta, and prefetch, whose loader runs here on a stub device.
The stub copies late: a piece of pinned memory that is read into again too early shows."""

import gc
import threading

import numpy
import pytest

import tenmap
import tenmap.safetensors as safetensors
from tenmap.safetensors import SafetensorError, safe_open
from tenmap.safetensors import _prefetch

torch = pytest.importorskip("torch")


class Device:
    """A device whose copies happen when somebody waits for them."""

    def __init__(self):
        self.pending, self.lock = [], threading.Lock()

    def pinned(self, size):
        return torch.full((size,), 0xEE, dtype=torch.uint8)

    def empty(self, size):
        return torch.full((size,), 0xAA, dtype=torch.uint8)

    def copy(self, into, piece):
        event = threading.Event()
        with self.lock:
            self.pending.append((event, into, piece))
        return event

    def wait(self, event):
        with self.lock:
            while not event.is_set():
                done, into, piece = self.pending.pop(0)
                into.copy_(piece)
                done.set()

    def hand_out(self, data, event):
        if event is not None:
            self.wait(event)


@pytest.fixture
def tensors():
    generator = numpy.random.default_rng(3)
    return {
        "a.weight": torch.from_numpy(generator.random((64, 48), "float32")),
        "b.weight": torch.from_numpy(generator.random((100, 7), "float32")).bfloat16(),
        "empty": torch.empty(0, 4),
        "long": torch.arange(5000, dtype=torch.int64),
        "scalar": torch.tensor(3.5),
        "wide": torch.from_numpy(generator.integers(0, 255, (3, 4000), "uint8")),
    }


@pytest.fixture
def path(tensors, tmp_path):
    from tenmap.safetensors.torch import save_file

    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def start(path, plan=None, device=None, threads=2):
    model = tenmap.open(path)
    return _prefetch.PrefetchLoader._start(_prefetch.spans_of(model, plan), device or Device(), threads)


@pytest.fixture(params=[64, 1000, 1 << 20])
def piece_bytes(request, monkeypatch):
    monkeypatch.setattr(_prefetch, "PIECE_BYTES", request.param)
    return request.param


def test_every_tensor_comes_once_whatever_the_size_of_pieces(path, tensors, piece_bytes):
    with start(path) as loader:
        assert loader.names() == list(tenmap.open(path)) and len(loader) == len(tensors)
        first = loader.take("b.weight")
        rest = dict(loader)
        assert dict(loader) == {}
    assert set(rest) == set(tensors) - {"b.weight"}
    for name, tensor in (rest | {"b.weight": first}).items():
        assert tensor.dtype == tensors[name].dtype and torch.equal(tensor, tensors[name]), name


def test_rows_of_a_plan(path, tensors, piece_bytes):
    plan = {"a.weight": slice(10, 50), "b.weight": slice(-3, None), "long": None, "wide": slice(2, 2)}
    with start(path, plan) as loader:
        loaded = dict(loader)
    assert set(loaded) == set(plan)
    for name, rows in plan.items():
        assert torch.equal(loaded[name], tensors[name] if rows is None else tensors[name][rows]), name


def test_a_tensor_is_taken_once(path):
    with start(path) as loader:
        loader.take("a.weight")
        with pytest.raises(SafetensorError, match="a.weight: tensor already delivered"):
            loader.take("a.weight")
        with pytest.raises(SafetensorError, match="not in the prefetch plan"):
            loader.take("absent")
        stream = iter(loader)
        taken, _ = next(stream)
        left = next(name for name in loader.names() if name not in ("a.weight", taken))
    with pytest.raises(SafetensorError, match="closed"):
        next(stream)
    with pytest.raises(SafetensorError, match=f"{left}: prefetch loader closed"):
        loader.take(left)


def test_tensors_outlive_their_loader_and_its_file(path, tensors):
    loader = start(path)
    loaded = dict(loader)
    loader.close()
    del loader
    gc.collect()
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


def test_a_device_that_fails_fails_every_call(path):
    class Broken(Device):
        def copy(self, into, piece):
            raise RuntimeError("out of memory on the device")

    with start(path, device=Broken()) as loader:
        with pytest.raises(SafetensorError, match="out of memory on the device"):
            loader.take("a.weight")
        with pytest.raises(SafetensorError, match="out of memory on the device"):
            dict(loader)


def test_close_ends_the_thread(path):
    before = threading.active_count()
    for _ in range(20):
        start(path).close()
    assert threading.active_count() <= before  # the thread of an earlier test may have ended meanwhile


def test_plans_that_are_wrong_are_refused_before_any_device_is_used(path):
    with safe_open(path, framework="pt", device="cuda:0") as file:
        for plan, words in (
            ({"nope": None}, "does not contain"), ({"a.weight": slice(0, 3, 2)}, "step 1"),
            ({"scalar": slice(0, 1)}, "0-d"), ({"a.weight": 3}, "None or a slice"), ({1: None}, "tensor names"),
            ({"a.weight": slice(0, 65)}, "stop 65 for a.weight is out of range for 64 rows"), ({}, "no tensors"),
            ({"a.weight": slice(0, 1, 0)}, "invalid prefetch plan slice"), ({"a.weight": slice("x", 1)}, "integers"),
        ):  # fmt: skip
            with pytest.raises(SafetensorError, match=words):
                file.prefetch(plan)
        with pytest.raises(TypeError, match="dict"):
            file.prefetch([])
        with pytest.raises(OverflowError):
            file.prefetch(threads=-1)
        for device in ("cpu", "mps", "xpu:1"):
            with pytest.raises(SafetensorError, match="cuda devices, not"):
                file.prefetch(device=device)
    with pytest.raises(SafetensorError, match="closed"):
        file.prefetch()
    with safe_open(path, framework="np") as file, pytest.raises(SafetensorError, match='framework="pt"'):
        file.prefetch()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("device", ["cuda:0", 0, True, "cuda"])
def test_without_cuda_the_error_says_so(path, device):
    with safe_open(path, framework="pt", device=device) as file, pytest.raises(SafetensorError, match="CUDA runtime"):
        file.prefetch()


def test_get_tensor_meta_is_the_header_s(path, tensors):
    import json
    import struct

    data = path.read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    with safe_open(path, framework="np") as file, open(path, "rb") as opened:
        for source in (file, safetensors._safe_open_handle(opened, framework="np")):
            for name in tensors:
                meta = source.get_tensor_meta(name)
                assert {"dtype": meta.dtype, "shape": meta.shape, "data_offsets": list(meta.data_offsets)} == header[name]
            with pytest.raises(SafetensorError, match="does not contain"):
                source.get_tensor_meta("absent")
            with pytest.raises(TypeError):
                source.get_tensor_meta(3)
    assert repr(meta).startswith("TensorMeta { dtype: ")
    with pytest.raises(AttributeError):
        meta.dtype = "F32"
    for kind in (safetensors.TensorMeta, safetensors.PySafeSlice, safetensors.PrefetchLoader):
        with pytest.raises(TypeError, match="cannot create"):
            kind()


def test_the_reported_version_can_be_set():
    from test_safetensors import run

    code = """if True:
        import importlib.metadata, os, subprocess, sys, tenmap
        tenmap.install(version="0.9.0rc1")
        import safetensors
        assert safetensors.__version__ == importlib.metadata.version("safetensors") == "0.9.0rc1"
        child = "import safetensors, importlib.metadata as m; print(safetensors.__version__, m.version('safetensors'))"
        print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.split())
        tenmap.uninstall()
        assert "TENMAP_SAFETENSORS_VERSION" not in os.environ
        for wrong in ("", "1\\nName: x", "x", 8):
            try: tenmap.install(version=wrong)
            except ValueError: continue
            raise SystemExit(wrong)
    """
    assert run(code) in ("['0.9.0rc1', '0.9.0rc1']", "[]")
