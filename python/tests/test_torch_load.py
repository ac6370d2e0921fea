"""tenmap.torch.load: what torch.load(weights_only=True) returns, on the mapped file, without running it."""

import collections
import io
import itertools
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import warnings
import zipfile

import pytest

import tenmap

PEERS = pathlib.Path(__file__).parents[2] / "tests" / "peers"
pytestmark = pytest.mark.filterwarnings("ignore")

try:
    import torch
except ImportError:
    pytest.skip("torch is not installed: tenmap.torch.load is not tested", allow_module_level=True)

import tenmap.torch  # noqa: E402

sys.path.insert(0, str(PEERS))
import pytorch_checkpoints  # noqa: E402
import pytorch_payloads  # noqa: E402

Inert = tenmap.torch.Inert


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def legacy_is_read():
    try:
        tenmap.torch.load(saved({"w": torch.ones(2)}, _use_new_zipfile_serialization=False))
    except tenmap.Error as error:
        assert "old PyTorch checkpoint" in str(error)
        return False
    return True


def archive(pickled, storage=b"\0" * 16):
    """A checkpoint of this pickle, with one storage."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in (("data.pkl", pickled), ("data/0", storage), ("version", b"3\n")):
            made.writestr(zipfile.ZipInfo("archive/" + name), data)
    return file.getvalue()


# Equality


class Comparison:
    """Compares structures, and which values and storages are one and the same."""

    def __init__(self):
        self.twins, self.storages, self.tensors = {}, {}, 0

    def is_new(self, table, ours, theirs, where):
        """Whether neither was met before; if they were, then together."""
        known = ours in table, ("other", theirs) in table
        assert known[0] == known[1] and (not known[0] or table[ours] == theirs), f"{where}: shared otherwise"
        table[ours], table["other", theirs] = theirs, ours
        return not known[0]

    def compare(self, ours, theirs, where="root"):
        assert type(ours) is type(theirs), f"{where}: {type(ours)} and {type(theirs)}"
        if isinstance(ours, torch.Tensor):
            self.compare_tensors(ours, theirs, where)
        elif isinstance(ours, torch.storage.TypedStorage):
            assert ours.dtype == theirs.dtype
            self.compare_storages(ours._untyped_storage, theirs._untyped_storage, where)
        elif isinstance(ours, (dict, list, set)):
            if self.is_new(self.twins, id(ours), id(theirs), where):
                self.compare_containers(ours, theirs, where)
        elif type(ours) is tuple:
            assert len(ours) == len(theirs), where
            for i, (a, b) in enumerate(zip(ours, theirs)):
                self.compare(a, b, f"{where}[{i}]")
        else:
            assert ours == theirs, f"{where}: {ours!r} and {theirs!r}"

    def compare_containers(self, ours, theirs, where):
        assert len(ours) == len(theirs), where
        if isinstance(ours, set):
            assert ours == theirs, where
        elif isinstance(ours, list):
            for i, (a, b) in enumerate(zip(ours, theirs)):
                self.compare(a, b, f"{where}[{i}]")
        else:
            for (key, a), (other, b) in zip(ours.items(), theirs.items()):
                self.compare(key, other, f"{where}, key {key!r}")
                self.compare(a, b, f"{where}[{key!r}]")
            if hasattr(ours, "__dict__"):
                self.compare(vars(ours), vars(theirs), f"{where}.__dict__")

    def compare_tensors(self, ours, theirs, where):
        self.tensors += 1
        for attribute in ("dtype", "shape", "requires_grad", "is_leaf", "device"):
            assert getattr(ours, attribute) == getattr(theirs, attribute), f"{where}.{attribute}"
        for method in ("stride", "storage_offset", "is_conj", "is_neg"):
            assert getattr(ours, method)() == getattr(theirs, method)(), f"{where}.{method}()"
        if self.is_new(self.twins, id(ours), id(theirs), where):
            self.compare_storages(ours.untyped_storage(), theirs.untyped_storage(), where)
            self.compare(vars(ours), vars(theirs), f"{where}.__dict__")

    def compare_storages(self, ours, theirs, where):
        assert ours.nbytes() == theirs.nbytes(), where
        if ours.nbytes() and self.is_new(self.storages, ours.data_ptr(), theirs.data_ptr(), where):
            assert bytes(ours) == bytes(theirs), where


def load_as_strictly_as_possible(path, form, root):
    """What torch returns, and whether weights_only let it. It refuses protocols from 4 on. If torch
    cannot read what it wrote, such as storages without a type in the legacy form, what was saved."""
    try:
        return torch.load(path, weights_only=True, mmap=form != "legacy", map_location="cpu"), True
    except (pickle.UnpicklingError, AttributeError):
        try:
            return torch.load(path, weights_only=False, mmap=form != "legacy", map_location="cpu"), False
        except AttributeError:
            assert form == "legacy", path
            return root, False


def count_tensors(value, seen):
    if id(value) in seen:
        return 0
    seen[id(value)] = value
    if isinstance(value, torch.Tensor):
        return 1
    inside = []
    if isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, (list, tuple)):
        inside = value
    elif isinstance(value, Inert):
        inside = [value.args, value.state, value.items, value.pairs]
    return sum(count_tensors(each, seen) for each in inside)


def test_generated_checkpoints_are_those_of_torch(tmp_path):
    """300 checkpoints: layouts of trainers and hubs, dtypes, strides, sharing, protocols 1 to 5, and zip
    archives of other writers. Where torch refuses to load only weights, so does tenmap, unless only
    the protocol is why."""
    legacy, tally = legacy_is_read(), collections.Counter()
    for path, way, root in pytorch_checkpoints.checkpoints(torch, tmp_path, 450, 33):
        form = way.split(",")[0]
        if form == "legacy" and not legacy:
            with pytest.raises(tenmap.Error):
                tenmap.torch.load(path)
            tally["legacy"] += 1
            os.unlink(path)
            continue
        expected, strictly = load_as_strictly_as_possible(path, form, root)
        comparison = Comparison()
        try:
            comparison.compare(tenmap.torch.load(path), expected)
            tally["equal"] += 1
            tally["tensors"] += comparison.tensors
        except tenmap.Error as error:
            assert not strictly and "names code" in str(error), f"{path}: {error}"
            assert count_tensors(tenmap.torch.load(path, inert=True), {}), path
            tally["refused by both"] += 1
        except AssertionError as error:
            raise AssertionError(f"{path} ({way}): {error}") from None
        os.unlink(path)
    print(dict(tally))
    assert tally["equal"] + tally["refused by both"] >= 300 and tally["equal"] >= 220, tally


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values(tmp_path, protocol):
    shared = [1]
    value = {
        "none": None, "bools": [True, False], "ints": [0, -1, 255, 65536, -(1 << 31), 1 << 63, -(1 << 63), 1 << 400],
        "floats": [0.5, float("inf"), -0.0], "texts": ["", "grün \U0001f600", "\0", "x" * 300, "\ud800"],
        "bytes": [b"", b"\0\xff", b"x" * 300], "array": bytearray(b"\x80a"), "complex": 1 - 2j, "set": {1, "a", (2, 3)},
        "frozen": frozenset([1, (2,)]), "tuple": ((), (1,), (1, 2), (1, 2, 3, 4)), "size": torch.Size([2, 0, 3]),
        "device": [torch.device("cpu"), torch.device("cuda", 1)], "dtype": [torch.float16, torch.bool, torch.uint4],
        "layout": torch.strided, "counter": collections.Counter("abca"), "shared": [shared, shared],
        7: {(1, "b"): 2, None: 3, 1.5: 4}, "ordered": collections.OrderedDict([("b", 1), ("a", shared)]),
    }  # fmt: skip
    value["itself"] = value
    loaded = tenmap.torch.load(saved(value, pickle_protocol=protocol))
    assert loaded.pop("itself") is loaded and value.pop("itself") is value
    Comparison().compare(loaded, value)


def test_tensors_with_more_than_elements(tmp_path):
    values = torch.arange(6.0).view(2, 3)
    tagged = torch.nn.Parameter(values.clone())
    tagged.tag = {"a": [1]}
    plain = values.clone()
    plain.tag = "mine"
    value = {
        "conj": torch.complex(values, values).conj(), "neg": torch.complex(values, values).conj().imag,
        "double": torch.complex(values.double(), values.double()), "parameter": tagged, "tensor": plain,
        "frozen": torch.nn.Parameter(torch.arange(3), requires_grad=False), "grad": values.clone().requires_grad_(),
    }  # fmt: skip
    (tmp_path / "a.pt").write_bytes(saved(value))
    Comparison().compare(tenmap.torch.load(tmp_path / "a.pt"), torch.load(tmp_path / "a.pt", weights_only=True))


def test_kinds_of_tensors_that_are_not_made():
    """Sparse, quantized and meta tensors are refused by name; placeholders may stand for them."""
    values, odd = torch.arange(6.0).view(2, 3), pytorch_checkpoints.odd_ones(torch)
    for name in ("sparse_coo", "sparse_csr", "quantized", "meta", "nested"):
        data = saved({"odd": odd[name](), "plain": values})
        with pytest.raises(tenmap.Error, match="sparse|quantized|meta|nested|names code"):
            tenmap.torch.load(data)
        loaded = tenmap.torch.load(data, inert=True)
        assert isinstance(loaded["odd"], Inert) and loaded["plain"].equal(values), name


def test_the_examples_of_the_documentation(tmp_path, monkeypatch, capsys):
    import argparse

    monkeypatch.chdir(tmp_path)
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    state = {"layer.weight": layer.weight.detach()}
    torch.save({"state_dict": state, "optimizer": optimizer.state_dict()}, "checkpoint.pt")
    torch.save({"hparams": argparse.Namespace(lr=0.25)}, "trainer.ckpt")
    text = (pathlib.Path(__file__).parents[2] / "docs" / "python.md").read_text()
    examples = [block.partition("```")[0] for block in text.split("```python\n") if "tenmap.torch.load(" in block.partition("```")[0]]
    assert len(examples) == 2
    names = {"tenmap": tenmap}
    for example in examples:
        exec(example, names)
    assert names["rate"] == 0.5 and names["weight"].equal(layer.weight)
    assert capsys.readouterr().out == "<inert argparse.Namespace(...)>\n0.25\n"


# Memory


def test_tensors_are_on_one_copy_on_write_mapping(tmp_path):
    """Views of one storage share memory; writes change neither the file nor other loads."""
    base = torch.arange(12.0)
    path = tmp_path / "a.pt"
    torch.save({"whole": base, "part": base[4:8], "turned": base.view(3, 4).t()}, path)
    before = path.read_bytes()
    first, second = tenmap.torch.load(path), tenmap.torch.load(path)
    first["part"].fill_(-1)
    assert first["whole"].tolist() == [0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11]
    assert first["turned"].stride() == (1, 4) and first["turned"][0, 1] == -1
    assert second["whole"].equal(base) and path.read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="the mappings of a process are listed on Linux")
def test_nothing_is_copied(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"w": torch.zeros(1 << 20), "v": torch.ones(3)}, path)
    loaded = tenmap.torch.load(path)
    ranges = []
    with open("/proc/self/maps") as file:
        for line in file:
            if str(path) in line:
                ranges.append([int(end, 16) for end in line.split()[0].split("-")])
    assert len(ranges) == 1  # the library's own mapping is gone
    for tensor in loaded.values():
        assert ranges[0][0] <= tensor.data_ptr() < ranges[0][1]
    del loaded, tensor
    assert str(path) not in open("/proc/self/maps").read()


def test_a_deleted_file_stays_readable(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"w": torch.arange(5000)}, path)
    loaded = tenmap.torch.load(path)
    path.unlink()
    assert loaded["w"].sum() == 4999 * 2500


def test_bytes_and_file_objects(tmp_path):
    data = saved({"w": torch.arange(3), "again": torch.arange(9.0).view(3, 3).t()})
    for source in (data, bytearray(data), memoryview(data), io.BytesIO(data)):
        loaded = tenmap.torch.load(source)
        loaded["w"][0] = 7
        assert loaded["w"].tolist() == [7, 1, 2] and loaded["again"][0].tolist() == [0, 3, 6]
    assert tenmap.torch.load(data)["w"].tolist() == [0, 1, 2]


def test_many_threads(tmp_path):
    path, wrong = tmp_path / "a.pt", []
    torch.save({"layers": [torch.full((64,), float(i)) for i in range(50)]}, path)

    def work():
        for _ in range(20):
            loaded = tenmap.torch.load(path)["layers"]
            if any(float(tensor.sum()) != 64 * i for i, tensor in enumerate(loaded)):
                wrong.append(loaded)
            loaded[0].add_(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Arguments


def test_arguments(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"w": torch.ones(2)}, path)
    for options in ({}, {"map_location": "cpu"}, {"map_location": torch.device("cpu")}, {"weights_only": True, "mmap": True}):
        assert tenmap.torch.load(path, **options)["w"].tolist() == [1, 1]
    for options in ({"map_location": "cuda"}, {"map_location": {}}, {"weights_only": False}):
        with pytest.raises(ValueError, match='"cpu"|weights_only=False'):
            tenmap.torch.load(path, **options)
    with pytest.raises(FileNotFoundError):
        tenmap.torch.load(tmp_path / "missing.pt")
    with pytest.raises(tenmap.Error) as caught:
        tenmap.torch.load(path, max_header_bytes=10)
    assert caught.value.status == tenmap.Status.LIMIT
    tenmap.save_file({}, tmp_path / "b.safetensors")
    with pytest.raises(tenmap.Error, match="no PyTorch checkpoint"):
        tenmap.torch.load(tmp_path / "b.safetensors")


def test_without_torch_the_module_says_what_it_needs(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('none here')")
    done = subprocess.run([sys.executable, "-c", "import tenmap\nimport tenmap.torch"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"})  # fmt: skip
    assert "tenmap.torch needs torch" in done.stderr


# Hostile files

GLOBALS = [
    ("os", "system"), ("posix", "system"), ("nt", "system"), ("builtins", "eval"), ("builtins", "exec"),
    ("builtins", "getattr"), ("builtins", "__import__"), ("__builtin__", "eval"), ("builtins", "open"),
    ("subprocess", "Popen"), ("subprocess", "check_output"), ("runpy", "_run_code"), ("importlib", "import_module"),
    ("pickle", "loads"), ("_pickle", "loads"), ("operator", "attrgetter"), ("functools", "partial"),
    ("socket", "create_connection"), ("ctypes", "CDLL"), ("torch", "load"), ("torch.serialization", "load"),
    ("torch.jit", "load"), ("numpy.testing._private.utils", "runstring"), ("webbrowser", "open"),
]  # fmt: skip

HARMLESS_EVENTS = ("object.__", "sys._getframe", "gc.", "cpython.", "code.__new__", "marshal.")


def watched(work):
    """Runs work(add) in this process and returns the audit events of Python meanwhile, without those
    of the interpreter itself."""
    events, on = [], [True]

    def hook(event, arguments):
        if on[0] and not event.startswith(HARMLESS_EVENTS):
            events.append((event, repr(arguments)[:200]))

    sys.addaudithook(hook)
    try:
        work()
    finally:
        on[0] = False
    return events


def watch_payloads():
    """In a process of its own: an audit hook stays forever."""
    harmless = pytorch_payloads.benign()["zip"]
    tenmap.torch.load(harmless)
    every = [each for each in pytorch_payloads.payloads(GLOBALS + pytorch_payloads.NEAR_MISSES)]
    tally = collections.Counter()

    def load_all():
        for payload, inert in itertools.product(every, (False, True)):
            try:
                tenmap.torch.load(payload.data, inert=inert)
                tally["opened", inert] += 1
            except tenmap.Error as error:
                tally["refused", inert] += 1
                assert error.status in (4, 5, 6), str(error)
                if not inert and payload.container == "zip" and payload.way != "INST":
                    assert "names code" in str(error) or "pickle, byte" in str(error), f"{payload}: {error}"

    loaded = watched(load_all)
    assert loaded == [], loaded[:3]
    control = watched(lambda: pickle.loads(pickle.dumps(os.getcwd)))
    assert any(event == "pickle.find_class" for event, _ in control), control
    assert not tally["opened", False], "a malicious file was loaded"
    assert tally["opened", True] > 100, tally
    print(len(every), dict(tally))


def test_malicious_pickles_call_nothing():
    """Each name by REDUCE, INST, OBJ, NEWOBJ, STACK_GLOBAL and BUILD, at all places in a file: the
    interpreter imports, opens, compiles, unpickles and starts nothing."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_code_is_refused_by_name_and_place():
    data = archive(b"\x80\x02" + b"cposix\nsystem\n" + b"X\x02\0\0\0id\x85R.")
    with pytest.raises(tenmap.Error, match='"system" of module "posix"') as caught:
        tenmap.torch.load(data)
    assert data[caught.value.offset :].startswith(b"cposix") and caught.value.status == tenmap.Status.UNSUPPORTED
    loaded = tenmap.torch.load(data, inert=True)
    assert loaded.name == "posix.system" and loaded.called and loaded.args == ("id",)
    assert repr(loaded) == "<inert posix.system(...)>" and not callable(loaded)


def test_extensions_of_the_program_are_not_used():
    import copyreg

    copyreg.add_extension("os", "getcwd", 77)
    try:
        pickle.loads(b"\x80\x02\x82\x4d)R.")  # now it is in pickle's own cache
        with pytest.raises(tenmap.Error, match="names code"):
            tenmap.torch.load(archive(b"\x80\x02\x82\x4d)R."))
        assert isinstance(tenmap.torch.load(archive(b"\x80\x02\x82\x4d)R."), inert=True), Inert)
    finally:
        copyreg.remove_extension("os", "getcwd", 77)


def test_attributes_are_data():
    """BUILD enters attributes without calling a setter, and no special method."""
    before = b"\x80\x02ccollections\nOrderedDict\n)R"
    loaded = tenmap.torch.load(archive(before + b"}X\x04\0\0\0moveX\x01\0\0\0xsb."))
    assert type(loaded) is collections.OrderedDict and vars(loaded) == {"move": "x"}
    for state in (b"}X\x09\0\0\0__class__Nsb.", b"}K\x01Nsb.", b"K\x01b.", b"N}X\x01\0\0\0aNs\x86b."):
        with pytest.raises(tenmap.Error):
            tenmap.torch.load(archive(before + state))
    for target in (b"ctorch\nfloat16\n", b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n"):
        name = "move_to_end"
        with pytest.raises(tenmap.Error, match="is given attributes"):
            tenmap.torch.load(archive(b"\x80\x02" + target + b"}X\x0b\0\0\0move_to_endNsb."))
        assert callable(getattr(collections.OrderedDict, name))


def a_tensor(*, offset=b"K\x00", shape=b"K\x03\x85", strides=b"K\x01\x85", elements=b"K\x04", key=b"0", kind=b"FloatStorage",
             hooks=b"ccollections\nOrderedDict\n)R", more=b""):  # fmt: skip
    storage = b"(X\x07\0\0\0storagectorch\n%s\nX%c\0\0\0%sX\x03\0\0\0cpu%st" % (kind, len(key), key, elements)
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"Q" + offset + shape + strides + b"\x89" + hooks + more + b"tR."


def long1(number):
    data = number.to_bytes(20, "little", signed=True)
    return b"\x8a\x14" + data


def test_tensors_lie_in_their_storages():
    assert tenmap.torch.load(archive(a_tensor())).tolist() == [0, 0, 0]
    huge = long1(1 << 62)
    bad = [
        {"offset": b"K\x02"}, {"offset": b"J\xff\xff\xff\xff"}, {"offset": huge}, {"shape": b"K\x05\x85"},
        {"shape": huge + b"\x85"}, {"strides": b"K\x02\x85"}, {"strides": b"J\xff\xff\xff\xff\x85"},
        {"strides": huge + b"\x85"}, {"shape": b"K\x01\x85", "strides": long1(1 << 70) + b"\x85"},
        {"shape": b"J\xff\xff\xff\xff\x85"}, {"shape": b"N"}, {"shape": b"K\x03K\x03\x86"}, {"offset": b"N"},
        {"elements": b"K\x05"}, {"elements": huge}, {"key": b"1"}, {"key": b"../0"}, {"kind": b"DoubleStorage"},
        {"shape": huge + huge + b"K\x03\x87", "strides": b"K\x00K\x00K\x01\x87"},
        {"shape": b"K\x00" + huge + huge + b"\x87", "strides": b"K\x01K\x01K\x01\x87"},
        {"shape": b"K\x00\x85", "offset": huge}, {"more": b"}X\x04\0\0\0conjK\x01s"}, {"more": b"}X\x04\0\0\0evil\x88s"},
        {"shape": b"(" + b"K\x01" * 65 + b"t", "strides": b"(" + b"K\x01" * 65 + b"t"}, {"more": b"K\x01K\x02K\x03"},
    ]  # fmt: skip
    for changes in bad:
        with pytest.raises(tenmap.Error) as caught:
            tenmap.torch.load(archive(a_tensor(**changes)))
        assert caught.value.status in (tenmap.Status.FORMAT, tenmap.Status.UNSUPPORTED), changes
        assert "pickle, byte" in str(caught.value), changes


COPIED, HASHED = "values are copied again and again", "a key is nested too deep"
def test_parts_of_storages():
    """As files from before torch 1.6 have them: the part shares memory, and is one storage wherever it is used."""
    data = archive(b"\x80\x02}(K\x01" + a_tensor(elements=b"K\x04N")[2:-1] + (b"K\x02" + a_tensor(
        shape=b"K\x02\x85", elements=b"K\x04(X\1\0\0\0pK\1K\2t")[2:-1]) + (b"K\x03" + a_tensor(
            shape=b"K\x01\x85", elements=b"K\x04(X\1\0\0\0pK\1K\2t")[2:-1]) + b"u.")  # fmt: skip
    loaded = tenmap.torch.load(data)
    loaded[2].fill_(5)
    assert loaded[1].tolist() == [0, 5, 5] and loaded[2].untyped_storage().nbytes() == 8 and loaded[3].tolist() == [5]
    assert loaded[2].untyped_storage().data_ptr() == loaded[3].untyped_storage().data_ptr()
    for view in (b"(X\1\0\0\0pK\3K\2t", b"(X\1\0\0\0pJ\xff\xff\xff\xffK\2t", b"(K\1K\1K\1t", b"K\1", b"(X\1\0\0\0pNNt"):
        with pytest.raises(tenmap.Error, match="part of a storage"):
            tenmap.torch.load(archive(a_tensor(elements=b"K\x04" + view)))


BOMBS = {
    "a set that is copied": (COPIED, b"\x80\x02]q\0(" + b"K\x01" * 60000 + b"e0(" + b"cbuiltins\nset\nh\0\x85R" * 3000 + b"l."),
    "bytes that are copied": (COPIED, b"\x80\x02X\0\0\x01\0" + b"x" * 65536 + b"q\x000X\x06\0\0\0latin1q\x010("
                              + b"c_codecs\nencode\nh\0h\x01\x86R" * 9000 + b"l."),
    "tuples of tuples as keys": (COPIED, b"\x80\x02)q\0" + b"".join(b"0h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
                                 + b"0}h\x3cNs."),
    "a deep key": (HASHED, b"\x80\x02}(" + b")" + b"\x85" * 2000 + b"Nu."),
    "a long number as keys": (COPIED, b"\x80\x02}q\0" + b"\x8b\0\0\x01\0" + b"\x7f" * 65536 + b"q\x01Ns" + b"h\x01Ns" * 100000 + b"."),
    "a long size as keys": (COPIED, b"\x80\x02ctorch\nSize\n(" + b"K\x01" * 5000 + b"t\x85Rq\x000}(" + b"h\0N" * 5000 + b"u."),
    "long numbers in keys": (COPIED, b"\x80\x02\x8b\0\0\x01\0" + b"\x7f" * 65536 + b"q\x010}(" + b"h\x01\x85N" * 9000 + b"u."),
    "numbers of one hash as keys": (COPIED, b"\x80\x02}(" + b"".join(long1(i * ((1 << 61) - 1)) + b"N" for i in range(20000)) + b"u."),
    "tuples of one hash in a set": (COPIED, b"\x80\x02\x8f(" + b"".join(long1(i * ((1 << 61) - 1)) + b"\x85" for i in range(20000))
                                    + b"\x90."),
    "bytes of a size": ("not made of bytes", b"\x80\x02cbuiltins\nbytearray\n" + long1(1 << 60) + b"\x85R."),
    "a call of its own result": ("that a call has copied before", b"\x80\x02cbuiltins\nset\n]q\0\x85Rq\x01h\0h\x01a0."),
    "a call of its own result in a tuple": ("its own result",
                                            b"\x80\x02cbuiltins\nset\n]q\0\x85\x85Rq\x01h\0h\x01a0."),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(name):
    sentence, pickled = BOMBS[name]
    with pytest.raises(tenmap.Error, match=sentence) as caught:
        tenmap.torch.load(archive(pickled))
    assert caught.value.status == (tenmap.Status.LIMIT if sentence in (COPIED, HASHED) else tenmap.Status.FORMAT)


def test_many_keys_of_any_kind_load():
    keys = {kind: [kind(i) for i in range(3000)] for kind in (int, float, complex, lambda i: (i, i), lambda i: 1 << 62 | i)}
    value = [dict.fromkeys(each) for each in keys.values()] + [set(each) for each in keys.values()]
    assert tenmap.torch.load(archive(pickle.dumps(value, 4))) == value


def test_deep_nesting_needs_no_stack():
    """Lists and tuples 100,000 deep are made and freed without recursion."""
    room = b"X" + (1 << 20).to_bytes(4, "little") + bytes(1 << 20) + b"0"  # memory grows with the pickle
    for opcodes in (b"]" * 100000 + b"a" * 99999, b")" + b"\x85" * 100000):
        loaded, depth = tenmap.torch.load(archive(b"\x80\x02" + room + opcodes + b".")), 0
        while loaded:
            loaded, depth = loaded[0], depth + 1
        assert depth >= 99999


def test_mutations_load_or_are_refused():
    """Other opcodes in real pickles give values or a tenmap.Error, never another exception."""
    import random

    pick = random.Random(33)
    values = {"w": torch.arange(4.0), "p": torch.nn.Parameter(torch.ones(2, 2).t()), "o": collections.OrderedDict(a=1),
              "s": {1, 2}, "z": torch.Size([2]), "l": [b"x", (1, 2.5, None)], "d": torch.float16}  # fmt: skip
    sources = []
    for protocol in (2, 4):
        with zipfile.ZipFile(io.BytesIO(saved(values, pickle_protocol=protocol))) as made:
            names = {name.partition("/")[2]: made.read(name) for name in made.namelist()}
            sources.append(names)
    tally = collections.Counter()
    opcodes = b"(.012FIJKLMNPQRSTUVXabcdeghijlopqrstu})]\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8c\x8f\x90\x91\x92\x93\x94\x95\x96"
    for i in range(6000):
        names = dict(sources[i % 2])
        data = bytearray(names["data.pkl"])
        for _ in range(pick.randint(1, 3)):
            at = pick.randrange(len(data))
            if pick.random() < 0.5:
                data[at] = pick.choice(opcodes)
            else:
                data[at] ^= 1 << pick.randrange(8)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as made:
            for name, content in names.items():
                made.writestr(zipfile.ZipInfo("a/" + name), bytes(data) if name == "data.pkl" else content)
        try:
            tenmap.torch.load(file.getvalue(), inert=i % 4 > 1)
            tally["loaded"] += 1
        except tenmap.Error:
            tally["refused"] += 1
    assert tally["loaded"] > 100 and tally["refused"] > 1000, tally


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    watch_payloads()
