"""Malicious checkpoints: every global that scanners of pickles call unsafe, in every way to call it.

    python3 pytorch_payloads.py FOLDER [SDIST]

writes one file for each. The globals are those in the tables of the interpreter's picklescan and
fickling. SDIST is the unpacked source package of picklescan, whose test suite names more. Each
payload is only a call with one short text, and no real unpickler ever gets these files. `called_by`
uses an unpickler that records instead of calling; it shows that each pickle would call its payload.
"""
import ast
import io
import os
import pickle
import struct
import sys
import zipfile

ARGUMENT = "echo tenmap"
# Names that look like those of data and are not. The scanners may not know them, or they do not
# exist.
NEAR_MISSES = [("collections", "OrderedDict.fromkeys"), ("collections", "ordereddict"), ("Collections", "OrderedDict"),
               ("collections ", "OrderedDict"), ("collections", "OrderedDict\0"), ("collections.", "OrderedDict"),
               ("collections.abc", "OrderedDict"), ("collections\0os", "OrderedDict"), ("", "OrderedDict"),
               ("collections", ""), ("", ""), ("os\nsystem", "x"), ("torch", "FloatStorage.from_file"), ("torch", "load"), ("torch", "Float"),
               ("torch", "FloatStorag"), ("torch", "FloatStorageX"), ("torch._utils", "_rebuild_tensor_v2.__globals__"),
               ("torch._utils", "_rebuild_tensor_v2\t"), ("torch._utils._rebuild_tensor_v2", "__call__"),
               ("torch.storage", "_load_from_bytes"), ("torch.hub", "load"), ("torch", "_utils._rebuild_tensor_v2"),
               ("builtins", "set.__class__"), ("builtins", "__import__"), ("copyreg", "__newobj__"),
               ("copyreg", "_reconstructor.__globals__"), ("types", "SimpleNamespace.__init__"),
               ("argparse", "Namespace.__class__"), ("numpy", "load"), ("numpy.core.multiarray", "fromfile"),
               ("codecs", "open"), ("_codecs", "encodes"), ("os", "OrderedDict"), ("posix", "FloatStorage"),
               ("nt", "_rebuild_tensor_v2"), ("m" * 300, "n" * 300), ("\u00f6s", "syst\u00e9m"), ("os", "\u0455ystem"),
               ("antigravity", "geohash"), ("torch.nn.modules.linear", "Linear"), ("my_model", "Net")]


def names_of(entry):
    if entry == "*":
        return ["system", "run", "main", "*"]
    return [entry] if isinstance(entry, str) else sorted(entry)


def scanner_globals(sdist=None):
    """[(module, name)] of picklescan, fickling and picklescan's tests, without repetition."""
    import fickling.analysis
    import fickling.fickle
    import picklescan.scanner
    found = {}
    for module, entry in picklescan.scanner._unsafe_globals.items():
        found.update(((module, name), "picklescan") for name in names_of(entry))
    for module in sorted(fickling.fickle.UNSAFE_IMPORTS):
        found.update(((module, name), "fickling") for name in ("system", "run"))
    machine_learning = fickling.analysis.UnsafeImportsML
    for module in sorted(machine_learning.UNSAFE_MODULES):
        found[module, "run"] = "fickling"
    for module, names in machine_learning.UNSAFE_IMPORTS.items():
        found.update(((module, name), "fickling") for name in sorted(names))
    if sdist:
        with open(os.path.join(sdist, "tests/test_scanner.py"), encoding="utf-8") as file:
            for node in ast.walk(ast.parse(file.read())):
                arguments = node.args if getattr(getattr(node, "func", None), "id", "") == "Global" else []
                given = [it.value if isinstance(it, ast.Constant) else getattr(it, "attr", "") for it in arguments]
                if len(given) == 3 and "Innocuous" not in given and isinstance(arguments[0], ast.Constant):
                    found[given[0], given[1]] = "picklescan's tests"
    assert len(found) > 150, "the tables of the scanners are not where they were"
    return list(found)


# Opcodes

def text(value):
    data = value.encode("utf-8")
    return b"X" + struct.pack("<I", len(data)) + data


def as_global(module, name):
    return b"c%s\n%s\n" % (module.encode(), name.encode())


def as_stack_global(module, name):
    return text(module) + text(name) + b"\x93"


# Each gives the opcodes, and where among them the one is that names the global.
def by_reduce(module, name):
    return as_global(module, name) + text(ARGUMENT) + b"\x85R", 0


def by_inst(module, name):
    before = b"(" + text(ARGUMENT)
    return before + b"i%s\n%s\n" % (module.encode(), name.encode()), len(before)


def by_obj(module, name):
    return b"(" + as_global(module, name) + text(ARGUMENT) + b"o", 1


def by_newobj(module, name):
    return as_global(module, name) + text(ARGUMENT) + b"\x85\x81", 0


def by_newobj_ex(module, name):
    return as_global(module, name) + text(ARGUMENT) + b"\x85}\x92", 0


def by_stack_global(module, name):
    named = as_stack_global(module, name)
    return named + text(ARGUMENT) + b"\x85R", len(named) - 1


def by_import(module, name):
    return as_global(module, name), 0


def by_build(module, name):
    return as_global(module, name) + b")R}" + text("a") + text("b") + b"sb", 0


def by_memo(module, name):
    return as_global(module, name) + b"r\x40\x00\x00\x000j\x40\x00\x00\x00" + text(ARGUMENT) + b"\x85R", 0


def by_default_factory(module, name):
    before = as_global("collections", "defaultdict")
    return before + as_global(module, name) + b"\x85R", len(before)


WAYS = {"REDUCE": by_reduce, "INST": by_inst, "OBJ": by_obj, "NEWOBJ": by_newobj, "NEWOBJ_EX": by_newobj_ex,
        "STACK_GLOBAL": by_stack_global, "import": by_import, "BUILD": by_build, "memo": by_memo,
        "default_factory": by_default_factory}


def storage_of_floats(elements, view=b""):
    """A reference to storage '0'; `view` is what follows the number of its elements."""
    return (b"(" + text("storage") + as_global("torch", "FloatStorage") + text("0") + text("cpu") + b"K" +
            bytes([elements]) + view + b"tQ")


def a_vector(storage, elements):
    return (as_global("torch._utils", "_rebuild_tensor_v2") + b"(" + storage + b"K\x00K" + bytes([elements]) +
            b"\x85K\x01\x85\x89" + as_global("collections", "OrderedDict") + b")RtR")


def a_tensor(legacy):
    """A vector of three F32 in storage '0'."""
    return a_vector(storage_of_floats(3, b"N" if legacy else b""), 3)


def place(where, payload, legacy):
    """A whole pickle, and where the payload begins in it."""
    tensor, begin = a_tensor(legacy), b"\x80\x02"
    if where == "value":
        before, after = begin + b"}" + text("w") + tensor + b"s" + text("evil"), b"s."
    elif where == "dropped":
        before, after = begin, b"0}" + text("w") + tensor + b"s."
    elif where == "replaced":
        before, after = begin + b"}" + text("w"), b"s" + text("w") + tensor + b"s."
    elif where == "key":
        before, after = begin + b"}" + text("w") + tensor + b"s", b"Ns."
    elif where == "hooks":
        before, after = begin + b"}" + text("w") + tensor[:-len(as_global("collections", "OrderedDict")) - 4], b"tRs."
    elif where == "attribute":
        before = begin + as_global("collections", "OrderedDict") + b")R" + text("w") + tensor + b"s}" + text("_metadata")
        after = b"sb."
    else:  # the root
        before, after = begin, b"."
    return before + payload + after, len(before)


PLACES = ("value", "root", "dropped", "replaced", "key", "hooks", "attribute")
STORAGE = struct.pack("<3f", 1, 2, 3)


def zip_file(pickled):
    """The bytes of a checkpoint, and where its pickle begins."""
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w") as archive:
        for name, data in (("data.pkl", pickled), ("byteorder", b"little"), ("data/0", STORAGE), ("version", b"3\n")):
            archive.writestr(zipfile.ZipInfo("archive/" + name), data)
    return kept.getvalue(), kept.getvalue().index(pickled)


LEGACY = {"magic": pickle.dumps(0x1950a86a20f9469cfc6c, 2), "protocol": pickle.dumps(1001, 2),
          "system": pickle.dumps({"protocol_version": 1001, "little_endian": True,
                                  "type_sizes": {"short": 2, "int": 4, "long": 4}}, 2)}


def legacy_file(pickled, part="main", storage=STORAGE):
    parts = dict(LEGACY, main=place("root", a_tensor(True), True)[0], keys=pickle.dumps(["0"], 2))
    parts[part] = pickled
    at = sum(len(parts[name]) for name in list(parts)[:list(parts).index(part)])
    return b"".join(parts.values()) + struct.pack("<q", len(storage) // 4) + storage, at


def benign():
    """The same two containers without a payload: what the others are compared with."""
    zipped = zip_file(b"\x80\x02}" + text("w") + a_tensor(False) + b"s.")[0]
    return {"zip": zipped, "main": legacy_file(b"\x80\x02}" + text("w") + a_tensor(True) + b"s.")[0]}


class Payload:
    """One file. `at` is where the opcode is that names the global, counted from its first byte."""

    def __init__(self, module, name, way, where, container):
        self.module, self.name, self.way, self.where, self.container = module, name, way, where, container
        opcodes, inside = WAYS[way](module, name)
        legacy = container != "zip"
        if container in ("zip", "main"):
            self.pickled, before = place(where, opcodes, legacy)
        else:
            self.pickled, before = b"\x80\x02" + opcodes + b".", 2
        data, begin = legacy_file(self.pickled, container) if legacy else zip_file(self.pickled)
        self.data, self.at = data, begin + before + inside

    def __str__(self):
        return "%r.%r by %s as %s in %s" % (self.module, self.name, self.way, self.where, self.container)



def can_write(way, module, name):
    """Opcodes that name a global in lines cannot say every name."""
    if way == "STACK_GLOBAL":
        return True
    in_lines = module and name and "\n" not in module + name
    return in_lines and (way != "INST" or (module + name).isascii())


def payloads(every):
    """Each global in all ways, and by turns in all places and containers."""
    turn = 0
    for module, name in every:
        for way in WAYS:
            if not can_write(way, module, name):
                continue
            for container in ("zip", "main"):
                yield Payload(module, name, way, PLACES[turn % len(PLACES)], container)
                turn += 1
        if turn % 3 == 0 and can_write("REDUCE", module, name):  # in the pickles around the checkpoint itself
            for part in ("magic", "protocol", "system", "keys"):
                yield Payload(module, name, "REDUCE", "root", part)


def called_by(payload):
    """(what the pickle would import, what it would call), by an unpickler that does neither."""
    imported, called = [], []

    class Recorder(pickle.Unpickler):
        def find_class(self, module, name):
            imported.append((module, name))

            def new(cls, *args, **kwargs):
                called.append((module, name))
                return object.__new__(cls)

            methods = {"__new__": new, "__setitem__": lambda *_: None, "__setstate__": lambda *_: None}
            return type("Recorded", (), methods)

        def persistent_load(self, _):
            return None

    try:
        Recorder(io.BytesIO(payload.pickled)).load()
    except (TypeError, AttributeError):  # after the payload: a key that cannot be hashed
        pass
    return imported, called


def main():
    folder, sdist = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    count = 0
    for i, payload in enumerate(payloads(scanner_globals(sdist) + NEAR_MISSES)):
        with open(os.path.join(folder, "%05d.%s" % (i, "pt" if payload.container == "zip" else "pth")), "wb") as file:
            file.write(payload.data)
        count += 1
    print("%d malicious checkpoints" % count)


if __name__ == "__main__":
    main()
