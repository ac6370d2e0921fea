"""Names of tensors: their natural order, patterns, near misses, and tables of them."""

import fnmatch
import re
import weakref

_NUMBER = re.compile(r"(\d+)")


def natural_key(name):
    """Sorts numbers in names as numbers: layers.2 before layers.10."""
    parts = _NUMBER.split(name)
    parts[1::2] = [(len(number.lstrip("0")), number.lstrip("0"), number) for number in parts[1::2]]
    return parts


def select(names, patterns):
    """The names that match one of the patterns (*, ?, [...]), in natural order."""
    matches = [re.compile(fnmatch.translate(pattern)).match for pattern in patterns]
    return sorted((name for name in names if any(match(name) for match in matches)), key=natural_key)


def close_matches(name, names):
    """At most three names that are almost `name`. Takes milliseconds for any number of names,
    because it compares only names of about the same length that begin or end alike."""
    import difflib

    near = [other for other in names if abs(len(other) - len(name)) <= max(4, len(name) // 3)]
    if len(near) > 500:
        near = [other for other in near if other[:3] == name[:3] and other[-6:] == name[-6:]][:500] or near[:500]
    return difflib.get_close_matches(name[:1000], near, 3, 0.7)


class MissingTensor(KeyError):
    """No tensor has this name. Its only argument is the name, as of every KeyError; as text, it
    also says which names are close."""

    def __init__(self, name, model=None, close=()):
        super().__init__(name)
        self._model = None if model is None else weakref.ref(model)
        self._close = close

    def _near(self):
        model = None if self._model is None else self._model()
        if model is not None and not model.closed:
            self._close = close_matches(self.args[0], model._names())
        return self._close

    def __str__(self):
        close = self._near()
        hint = f": did you mean {' or '.join(map(repr, close))}?" if close else ""
        return f"no tensor is named {self.args[0]!r}{hint}"

    def __reduce__(self):
        return _missing_again, (self.args[0], self._near())


MissingTensor.__name__ = MissingTensor.__qualname__ = "KeyError"
MissingTensor.__module__ = "builtins"


def _missing_again(name, close):
    return MissingTensor(name, None, close)


def shown(name):
    """A name for people: without control characters, which files may have in names."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in name)


def fold(rows):
    """Joins rows (name, dtype, shape, bytes) whose names differ only in numbers. Returns a list of
    (name with ranges of numbers, dtype, shape, count, bytes), in natural order."""
    groups = {}
    for name, dtype, shape, size in rows:
        parts = _NUMBER.split(name)
        key = (*parts[::2], dtype, tuple(shape))
        found = groups.setdefault(key, [parts[::2], [set() for _ in parts[1::2]], dtype, tuple(shape), 0, 0])
        for numbers, number in zip(found[1], parts[1::2]):
            numbers.add(number)
        found[4] += 1
        found[5] += size
    result = []
    for texts, numbers, dtype, shape, count, size in groups.values():
        name = texts[0]
        for values, text in zip(numbers, texts[1:]):
            name += _range(values) + text
        result.append((name, dtype, shape, count, size))
    return sorted(result, key=lambda row: natural_key(row[0].replace("{", "").replace("}", "")))


def _range(numbers):
    ordered = sorted(numbers, key=lambda number: (len(number), number))
    if len(ordered) == 1:
        return ordered[0]
    whole = len(ordered[-1]) < 10 and int(ordered[-1]) - int(ordered[0]) + 1 == len(ordered)
    if whole or len(ordered) > 6:
        return f"{{{ordered[0]}..{ordered[-1]}}}"
    return f"{{{','.join(ordered)}}}"
