"""The records of a checkpoint's pickle, from which tenmap.torch makes objects. They need no torch."""

import collections
import io
import pickle
import random
import zipfile

import pytest

import tenmap
from tenmap import _core


class Checkpoint(_core.Model):
    """A file that is opened with the values of its pickle."""

    path = None

    def __init__(self, source, limit=0):
        self._open_values(source, limit)


def archive(pickled, storage=b"\0" * 16):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in (("data.pkl", pickled), ("data/0", storage), ("data/k", b""), ("version", b"3\n")):
            made.writestr(zipfile.ZipInfo("archive/" + name), data)
    return file.getvalue()


def values_of(pickled):
    return Checkpoint(archive(pickled))._values()


def plain(item):
    """The value of a record that holds only plain values."""
    if type(item) is not list:
        return item
    _, kind, _, items = item
    items = [plain(each) for each in items]
    if kind == "dict":
        return dict(zip(items[::2], items[1::2]))
    return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](items)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_are_those_of_pickle(protocol):
    value = [None, True, False, 0, -1, 255, 256, 65535, 65536, -(1 << 31), 1 << 31, 1 << 63, -(1 << 63), 1 << 900, 0.5,
             -0.0, float("inf"), 1e300, "", "a", "grün \U0001f600\n\\u0041", "x" * 300, (), (1,), (1, 2), (1, 2, 3),
             tuple(range(9)), [], [[]], {}, {"a": {"b": [1]}, 1: 2, None: (3,)}]  # fmt: skip
    if protocol > 0:
        value.append("\0")
    if protocol >= 3:
        value += [b"", b"\0\xff", b"x" * 300]
    if protocol >= 4:
        value += [{1, 2, "c"}, frozenset([3, (4, 5)])]
    if protocol == 5:
        value.append(bytearray(b"\x80\xff"))
    pickled = pickle.dumps(value, protocol)
    root, records, names, storages, size = values_of(pickled)
    assert plain(root) == pickle.loads(pickled) == value
    assert repr(plain(root)) == repr(value)  # types and zeros too
    assert names == {} and size == len(pickled) and set(storages) == {"0", "k"}
    assert all(record[0] is None for record in records)


def test_shared_values_are_one_record():
    """Also atoms, so a long string that is used a million times is one object."""
    inner, text = [1], "long text" * 9
    root, records, *_ = values_of(pickle.dumps([inner, inner, text, text, {"x": inner}], 2))
    first, second, a, b, pairs = root[3]
    assert first is second is pairs[3][1] and a is b and len(records) == 3


def test_values_that_contain_themselves():
    value = []
    value.append((value, {"again": value}))
    root, *_ = values_of(pickle.dumps(value))
    assert root[3][0][3][0] is root


def test_globals_calls_and_references():
    """What a real unpickler would import and call is text here, with the place of its opcode."""
    pickled = (b"\x80\x02cdropped\nname\n0(cposix\nsystem\nX\x02\0\0\0id\x85R}X\x01\0\0\0aK\x01sb"
               b"X\x03\0\0\0keyQccollections\nOrderedDict\n)RK\x05K\x06sK\x07ae.")  # fmt: skip
    pickled = pickled.replace(b"0(c", b"0](c", 1)
    data = archive(pickled)
    root, records, names, _, _ = Checkpoint(data)._values()
    begin = data.index(pickled)
    assert names == {("dropped", "name"): begin + 2, ("posix", "system"): begin + pickled.index(b"cposix"),
                     ("collections", "OrderedDict"): begin + pickled.index(b"ccollections")}  # fmt: skip
    call, reference, made = root[3]
    _, kind, place, callable, args, state, items, pairs = call
    assert kind == "object" and data[place : place + 1] == b"R"
    assert callable[1:] == ["global", begin + pickled.index(b"cposix"), "posix", "system"]
    assert args[3] == ("id",) and plain(state[0]) == {"a": 1} and items == pairs == ()
    assert reference[1] == "persistent" and reference[3] == "key"
    assert made[3][3:] == ["collections", "OrderedDict"] and made[4:] == [(), (), (7,), (5, 6)]
    assert not any(record[1] == "global" and record[3] == "dropped" for record in records)


def test_atoms_that_are_not_what_they_say():
    for pickled in (b"I12x\n.", b"I010\n.", b"Lx\n.", b"Fx\n.", b"I" + b"1" * 5000 + b"\n.", b"Vx\\ud800\n.", b"S'a\n.",
                    b"U\x01\xff.", b"X\x01\0\0\0\xff."):  # fmt: skip
        with pytest.raises(tenmap.Error, match="pickle, byte") as caught:
            values_of(pickled)
        assert caught.value.status == tenmap.Status.FORMAT and caught.value.offset
    assert plain(values_of(b"(U\x02\xc3\xbcI12\nL13L\nF0.5\nI01\nS'a'\nl.")[0]) == ["ü", 12, 13, 0.5, True, "a"]


def test_storages_are_where_the_file_has_them():
    data = archive(b"N.", b"0123456789abcdef")
    model = Checkpoint(data)
    root, records, _, storages, _ = model._values()
    assert root is None and records == []
    at, size = storages["0"]
    assert data[at : at + size] == b"0123456789abcdef" == bytes(model._bytes(at, size))
    assert storages["k"][1] == 0
    for place, count in ((len(data), 1), (0, len(data) + 1), ((1 << 64) - 1, 1)):
        with pytest.raises(IndexError):
            model._bytes(place, count)
    model.close()
    for use in (model._values, lambda: model._bytes(0, 1)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_other_files_have_no_values(path):
    assert Checkpoint(str(path))._values() is None
    assert len(Checkpoint(archive(b"N."))) == 0
    with tenmap.open(path) as model:
        assert model._values() is None
    with pytest.raises(tenmap.Error):
        Checkpoint(archive(b"N."), 10)


def test_mutated_pickles_have_records_or_are_refused():
    """Every record has the fields of its kind, and refers only to records and atoms."""
    pick = random.Random(33)
    fields = {"list": 4, "set": 4, "tuple": 4, "frozenset": 4, "dict": 4, "global": 5, "object": 8, "persistent": 4}
    values = {"a": [1, 2.5, (None, b"x")], "b": {1, 2}, "c": collections.OrderedDict(x=1), 5: frozenset([1 << 80])}
    sources = [pickle.dumps(values, protocol) for protocol in range(6)]
    tally = collections.Counter()
    for i in range(6000):
        data = bytearray(sources[i % 6])
        for _ in range(pick.randint(1, 4)):
            data[pick.randrange(len(data))] = pick.choice([pick.randrange(256), *b"(.0RQ\x81ba}]\x85\x93tsu"])
        try:
            _, records, *_ = values_of(bytes(data))
        except tenmap.Error:
            tally["refused"] += 1
            continue
        tally["read"] += 1
        known = set(map(id, records))
        for record in records:
            assert len(record) == fields[record[1]]
            waiting = list(record[3:])
            while waiting:
                each = waiting.pop()
                if type(each) is tuple:
                    waiting.extend(each)
                assert type(each) is not list or id(each) in known
    assert min(tally.values()) > 300, tally
