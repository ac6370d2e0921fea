"""Compares the names and signatures of the reference's modules with ours:
    compare_names.py dump FILE                 of the package safetensors that is imported
    compare_names.py compare REFERENCE OURS    two such files

Run the first command once with the reference, and once as `python -m tenmap.safetensors
compare_names.py dump FILE`. Frameworks that are not installed are replaced, so that every module is
compared. A name that we lack, or whose parameters differ, fails unless it is listed below; so does
an entry of the list that nothing needs.
"""

import importlib
import inspect
import json
import sys
import types
from unittest.mock import MagicMock

MODULES = ["", ".numpy", ".torch", ".flax", ".mlx", ".tensorflow", ".paddle", "._safetensors_rust"]
FRAMEWORKS = ["torch", "jax", "jax.numpy", "mlx", "mlx.core", "tensorflow", "paddle"]

# What the reference has and we do not, by module and name, with the reason.
ALLOWED = {
    "flax.jnp": "our modules load a framework when they need it",
    "flax.Array": "likewise",
    "mlx.mx": "likewise",
    "tensorflow.tf": "likewise",
    "paddle.paddle": "likewise",
    "paddle._SIZE": "a table for its own way to save; ours goes by way of numpy",
    "paddle._TYPES": "likewise",
    "paddle.NPDTYPES": "likewise",
    "paddle._getdtype": "likewise",
    "paddle._view2paddle": "likewise",
    "paddle._to_ndarray": "likewise",
    "paddle._flatten": "likewise",
}
# Frameworks and their names: they count as differences only where a stand-in replaces the framework.
OF_FRAMEWORKS = {"flax.jnp", "flax.Array", "mlx.mx", "tensorflow.tf", "paddle.paddle"}
# Imports from the standard library and typing, which are no names of the package.
IGNORED = {"os", "sys", "defaultdict", "Any", "Dict", "List", "Optional", "Set", "Tuple", "Union", "annotations"}


def signature(value):
    """The parameters without annotations, as [name, kind, default]; None if there are none to be
    seen. Compiled code shows no defaults (Ellipsis), and `self` as a parameter without a name."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    parameters = list(found.parameters.values())
    return [[each.name, each.kind.name.replace("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD"),
             "..." if each.default is Ellipsis else repr(each.default)] for each in parameters]  # fmt: skip


def same_signature(theirs, mine):
    """Whether every call that the reference accepts is accepted. An unknown default is any."""
    if theirs is None or mine is None:
        return theirs is None
    return len(theirs) == len(mine) and all(
        a[:2] == b[:2] and (a[2] == b[2] or (a[2] == "..." and b[2] != repr(inspect.Parameter.empty)))
        for a, b in zip(theirs, mine)
    )


DUNDERS = ("__enter__", "__exit__", "__getitem__", "__len__", "__iter__", "__next__")


def described(value):
    """What a name stands for: its kind, its signature, and the methods of a class."""
    if isinstance(value, types.ModuleType):
        return {"kind": "module"}
    if isinstance(value, type):
        ours = {name: each for base in value.__mro__[:-1] if base is not Exception for name, each in vars(base).items()}
        methods = {
            name: signature(each) if name not in ("__getitem__",) else None
            for name, each in ours.items()
            if not name.startswith("_") or name in DUNDERS
        }
        return {"kind": "class", "signature": signature(value), "methods": methods}
    if callable(value) and hasattr(value, "__name__"):
        return {"kind": "function", "signature": signature(value)}
    return {"kind": "value"}


def dump():
    for name in FRAMEWORKS:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = MagicMock()
    result = {}
    for name in MODULES:
        module = importlib.import_module("safetensors" + name)
        result[name.lstrip(".")] = {
            each: described(getattr(module, each))
            for each in dir(module)
            if not each.startswith("__") and each not in IGNORED or each == "__version__"
        }
    return result


def differences(reference, ours):
    """(place, what) for everything that the reference has and we lack or have otherwise."""
    for module, names in reference.items():
        for name, theirs in names.items():
            place = f"{module}.{name}".lstrip(".")
            mine = ours[module].get(name)
            if mine is None:
                if theirs["kind"] != "module":
                    yield place, "is missing"
                continue
            if theirs["kind"] == "value" or theirs["kind"] == "module":
                continue
            if theirs.get("signature") and not same_signature(theirs["signature"], mine.get("signature")):
                yield place, f"takes {mine.get('signature')} instead of {theirs['signature']}"
            for method, parameters in theirs.get("methods", {}).items():
                if method not in mine.get("methods", {}):
                    yield f"{place}.{method}", "is missing"
                elif not same_signature(parameters, mine["methods"][method]):
                    yield f"{place}.{method}", f"takes {mine['methods'][method]} instead of {parameters}"


def compare(reference, ours):
    found = list(differences(reference, ours))
    wrong = [f"{place} {what}" for place, what in found if place not in ALLOWED]
    places = {place for place, _ in found}
    unused = ALLOWED.keys() - places - OF_FRAMEWORKS
    wrong += [f"{place} is in the list of differences, and does not differ" for place in sorted(unused)]
    count = sum(len(names) for names in reference.values())
    print(f"{count} names of {len(reference)} modules; {len(found)} differ, {len(places & set(ALLOWED))} of them are allowed")
    print("\n".join(wrong))
    return 1 if wrong or count < 100 else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["dump"]:
        text = json.dumps(dump())
        with open(sys.argv[2], "w") as file:
            file.write(text)
    else:
        read = [json.load(open(path)) for path in sys.argv[2:4]]
        sys.exit(compare(*read))
