"""Checkpoints opened by tenmap and by torch: the same names, shapes, dtypes, bytes and plain values.

    pytorch_torch.py LIBRARY [COUNT [SEED [FOLDER]]]

The interpreter's torch writes COUNT checkpoints (pytorch_checkpoints.py; 500 by default) and reads
them back with torch.load(weights_only=True, mmap=True). If torch refuses a class, protocol or form
with these options, it reads the file without weights_only or mmap. FOLDER has checkpoints that
another version of torch wrote; they are compared too. This script computes the names a second time
from the rules in docs/pytorch.md: keys joined by '.', lists by number, a well-known wrapper left
out. Prints the differences between the two, by rule. Exits with 77 if torch is missing.
"""
import collections
import ctypes
import io
import os
import pickle
import struct
import sys
import tempfile
import warnings
import zipfile

import peer

peer.hand_over()
try:
    import torch
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(peer.SKIP)
import pytorch_checkpoints
import pytorch_payloads
from pytorch_library import FOUND_CODE, OPEN_BRANCHES, Library, Refused

WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "params_ema", "params", "ema")
OF_MODULES = ("_parameters", "_buffers", "_modules")


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def children(value):
    """The (name, value) pairs inside; None for a name that is left out of the path."""
    if isinstance(value, collections.abc.Mapping):
        for key, inner in value.items():
            yield str(key), inner
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield str(i), inner
    elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.dtype)) and not is_tensor(value):
        for key, inner in vars(value).items():
            yield (None if key in OF_MODULES else key), inner


def walk(value, path=()):
    """(path, leaf) for everything in a checkpoint, in its order."""
    inside = list(children(value))
    if is_tensor(value) or not inside:
        yield path, value
        return
    for name, inner in inside:
        yield from walk(inner, path if name is None else path + (name,))


def holds_tensors(value):
    return any(is_tensor(leaf) for _, leaf in walk(value))


def wrapper_of(root):
    """The key of the branch that a checkpoint opens as, or None."""
    if not isinstance(root, collections.abc.Mapping) or any(is_tensor(value) for value in root.values()):
        return None
    return next((key for key in WRAPPERS if key in root and holds_tensors(root[key])), None)


def tensors_of(root, branches):
    wrapper = None if branches else wrapper_of(root)
    if is_tensor(root):
        return [(b"tensor", root)]
    return [(".".join(path).encode("utf-8", "surrogatepass"), leaf)
            for path, leaf in walk(root if wrapper is None else root[wrapper]) if is_tensor(leaf)]


def bytes_of(tensor):
    """The elements one after the other, as the library gives them."""
    tensor = tensor.detach()
    tensor = tensor.resolve_conj().resolve_neg() if hasattr(tensor, "resolve_conj") else tensor
    tensor = tensor.contiguous()
    count = tensor.numel() * tensor.element_size()
    return ctypes.string_at(tensor.data_ptr(), count) if count else b""


def dtype_of(tensor):
    return pytorch_checkpoints.DTYPES.get(str(tensor.dtype).replace("torch.", ""), str(tensor.dtype))


def load(path, saved, tally):
    """torch.load, as strict as torch can be with this file. `saved` is what it was made from."""
    ways = ({"weights_only": True, "mmap": True}, {"weights_only": True}, {"weights_only": False})
    for way in ways:
        try:
            loaded = torch.load(path, map_location="cpu", **way)
            tally["torch.load(%s)" % ", ".join("%s=%s" % pair for pair in way.items())] += 1
            return loaded
        except (RuntimeError, pickle.UnpicklingError, TypeError, ValueError, AssertionError, AttributeError,
                KeyError, IndexError) as error:
            failure = error
    if saved is None:
        raise failure
    tally["not read by the torch that wrote it: compared with what it saved"] += 1
    return saved


def compare_tensors(library, model, root, branches, tally):
    got, expected = library.tensors(model), tensors_of(root, branches)
    names = [name for name, _ in expected]
    assert [t.name for t in got] == names, "names\n  tenmap %s\n  torch  %s" % ([t.name for t in got], names)
    for ours, (name, tensor) in zip(got, expected):
        assert ours.shape == tuple(tensor.shape), (name, ours.shape, tensor.shape)
        assert ours.dtype == dtype_of(tensor), (name, ours.dtype, tensor.dtype)
        assert ours.data == bytes_of(tensor), (name, ours.shape, tensor.stride())
        tally["tensors"] += 1
        tally["tensors that are not contiguous"] += not tensor.is_contiguous()


def plain_values(root):
    """{name: (type, text)} of everything that metadata can hold."""
    values = {}
    for path, leaf in walk(root):
        name = ".".join(path).encode("utf-8", "surrogatepass")
        if type(leaf) is bool:
            values[name] = ("BOOL", leaf)
        elif type(leaf) is int and -1 << 63 <= leaf < 1 << 63:
            values[name] = ("I64", leaf)
        elif type(leaf) is float:
            values[name] = ("F64", leaf)
        elif type(leaf) is str:
            values[name] = ("STRING", leaf)
    return values


def same_value(kind, text, value):
    if kind == "BOOL":
        return text == (b"true" if value else b"false")
    if kind == "STRING":
        return text == value.encode("utf-8", "surrogatepass")
    return float(text) == value if kind == "F64" else int(text) == value


def compare_metadata(library, model, root, tally):
    got, expected = library.metadata(model), plain_values(root)
    for name, (kind, value) in expected.items():
        if name not in got:
            tally["plain values that are not in the metadata"] += 1
            assert not isinstance(root, dict) or name.decode("utf-8", "replace") not in root, "no %s" % name
            continue
        assert got[name][0] == kind and same_value(kind, got[name][1], value), (name, got[name], kind, value)
        tally["plain values"] += 1
    # Attributes of mappings, which torch's own OrderedDicts have, are no keys of them.
    more = [name for name in got if name not in expected]
    tally["metadata beyond the plain values"] += len(more)


def compare_file(library, path, saved, tally):
    root = load(path, saved, tally)
    tally["checkpoints, legacy" if not zipfile.is_zipfile(path) else "checkpoints, zip"] += 1
    for branches in (0, OPEN_BRANCHES):
        names = [name for name, _ in tensors_of(root, branches)]
        if len(set(names)) < len(names):
            tally["refused: two tensors of one name"] += 1
            try:
                library.close(library.open(path, branches))
            except Refused:
                continue
            raise AssertionError("two tensors of one name, and it opens")
        model = library.open(path, branches, backend=len(names) % 2)
        assert library.format_of(model) == "pytorch"
        compare_tensors(library, model, root, branches, tally)
        compare_metadata(library, model, root, tally)
        library.close(model)


def compare_all(library, files, failures, tally):
    for path, what, saved in files:
        try:
            tally["checkpoints"] += 1
            compare_file(library, path, saved, tally)
        except (AssertionError, Refused) as error:
            kept = os.environ.get("TENMAP_KEEP")
            if kept:
                with open(path, "rb") as file, open(os.path.join(kept, os.path.basename(path)), "wb") as copy:
                    copy.write(file.read())
            failures.append("%s (%s): %s: %s" % (os.path.basename(path), what, type(error).__name__, error))


def odd_one(library, folder, name, value, form):
    """What tenmap makes of a tensor that is more than elements and strides."""
    path = os.path.join(folder, "odd-%s.pt" % name)
    root = {"before": torch.ones(2), "odd": value, "after": torch.zeros(3)}
    torch.save(root, path, _use_new_zipfile_serialization=form == "zip")
    value = load(path, root, collections.Counter())["odd"]  # some versions lose what they save
    try:
        model = library.open(path)
    except Refused as refused:
        assert "odd" in str(refused).replace("odd-%s.pt" % name, ""), "refused without its name: %s" % refused
        return "refused: " + str(refused)[len(path) + 4:]
    got = {t.name: t for t in library.tensors(model)}
    library.close(model)
    assert got[b"before"].data == bytes_of(root["before"]) and got[b"after"].data == bytes_of(root["after"])
    if b"odd" not in got:
        said = [message for _, code, _, message in library.check(path)
                if code == FOUND_CODE or "odd" in message.replace(path, "")]
        assert said or not is_tensor(value), "left out, and nobody says so"
        return "left out: " + (said[0][len(path) + 4:] if said else "it is no tensor")
    odd = got[b"odd"]
    if not is_tensor(value):  # a storage by itself
        assert odd.data == bytes_of(torch.arange(6.0)), "other bytes than torch's"
        return "opens as a vector, %s" % odd.dtype
    assert odd.shape == tuple(value.shape), (odd.shape, value.shape)
    assert odd.data == bytes_of(value), "other bytes than torch's"
    return "the same as torch's, %s" % odd.dtype


def compare_odd_ones(library, folder, failures):
    for name, make in pytorch_checkpoints.odd_ones(torch).items():
        try:
            value = make()
            torch.save({"odd": value}, io.BytesIO())
        except (AttributeError, KeyError, RuntimeError, NotImplementedError, TypeError, pickle.PicklingError):
            print("  %-18s torch %s does not save it" % (name, torch.__version__))
            continue
        for form in ("zip", "legacy"):
            try:
                print("  %-18s %-6s %s" % (name, form, odd_one(library, folder, name, value, form)))
            except AssertionError as error:
                failures.append("%s, %s: %s" % (name, form, error))
            except (AttributeError, KeyError, RuntimeError, NotImplementedError, TypeError) as error:
                print("  %-18s %-6s torch does not save it: %s" % (name, form, error))


def compare_views(library, folder, failures):
    """Storages that are parts of others: torch 0.1.10 to 0.3 wrote them, newer ones only read them."""

    def vector(elements, view):
        return pytorch_payloads.a_vector(pytorch_payloads.storage_of_floats(6, view), elements)

    name = pytorch_payloads.text
    view = b"(" + name("v") + b"K\x02K\x03t"  # three elements from the third one on
    other = b"(" + name("w") + b"K\x01K\x05t"
    pickled = (b"\x80\2}" + name("whole") + vector(6, b"N") + b"s" + name("part") + vector(3, view) + b"s" +
               name("again") + vector(2, view) + b"s" + name("overlaps") + vector(5, other) + b"s.")
    path = os.path.join(folder, "views.pt")
    with open(path, "wb") as file:
        file.write(pytorch_payloads.legacy_file(pickled, storage=struct.pack("<6f", *range(6)))[0])
    root, model = load(path, None, collections.Counter()), library.open(path)
    try:
        compare_tensors(library, model, root, 0, collections.Counter())
        assert root["part"].tolist() == [2.0, 3.0, 4.0] and root["overlaps"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        print("views of storages: the same as torch's")
    except AssertionError as error:
        failures.append("views: %s" % error)
    library.close(model)


def main():
    library = Library(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    warnings.simplefilter("ignore")
    tally, failures = collections.Counter(), []
    # The classes of whole modules, so that torch can read what another torch wrote.
    pytorch_checkpoints.Maker(torch, seed).module()
    pytorch_checkpoints.foreign("some_trainer.config", "TrainConfig")
    with tempfile.TemporaryDirectory() as folder:
        compare_all(library, pytorch_checkpoints.checkpoints(torch, folder, count, seed), failures, tally)
        if len(sys.argv) > 4:
            others = sorted(os.listdir(sys.argv[4]))
            compare_all(library, ((os.path.join(sys.argv[4], name), "given", None) for name in others), failures,
                        tally)
        print("tensors that are more than elements and strides:")
        compare_odd_ones(library, folder, failures)
        compare_views(library, folder, failures)
    for what, number in sorted(tally.items()):
        print("  %6d %s" % (number, what))
    for failure in failures:
        print("FAILED %s" % failure)
    assert tally["checkpoints"] >= count * 9 // 10 and tally["tensors"] > 5 * count, "too few of them"
    print("%d checkpoints of torch %s: %d differ" % (tally["checkpoints"], torch.__version__, len(failures)))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
