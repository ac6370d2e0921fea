"""Checks of files, and statistics of tensors."""

from collections import namedtuple

from . import _core
from ._arrays import source_of
from ._errors import Remedy
from ._model import Model, Tensor, _Progress

Finding = namedtuple("Finding", "severity code shard offset tensor message remedy")
Finding.__doc__ = """One thing that is wrong or odd about a model.

severity is "error" (tenmap.open refuses it), "warning" or "note"; code is a word for programs, such
as "hole"; shard, offset and tensor say where; message is for people; remedy, a Remedy, for programs."""

Stats = namedtuple("Stats", "count zeros subnormals nans infinities min max mean std norm histogram edges")
Stats.__doc__ = """Statistics of a tensor's values. NaN and infinities are counted and otherwise
ignored; std is the population's; histogram is a list of counts, or None, and edges are the ends of its bins,
one more than there are bins: numpy.histogram's."""

Finding.__module__ = Stats.__module__ = "tenmap"

_SEVERITIES = {_core.FINDING_NOTE: "note", _core.FINDING_WARNING: "warning", _core.FINDING_ERROR: "error"}


def check(path, *, lenient=False, partial=False, max_header_bytes=0):
    """Everything that is wrong or odd about a file, an index or a folder, as a list of Finding.

    A model opens if and only if there is no finding whose severity is "error". Reads headers only.
    """
    flags = (_core.OPEN_LENIENT if lenient else 0) | (_core.OPEN_PARTIAL if partial else 0)
    found = _core.check(path, flags, max_header_bytes)
    return [Finding(_SEVERITIES[severity], *rest, Remedy(remedy)) for severity, *rest, remedy in found]


def measure(what, *, bins=0, range=None, threads=0, progress=None):
    """Counts, minimum, maximum, mean, standard deviation and norm, in one pass at memory speed.

    what   a Tensor or an array: returns Stats. A Model: a dict of Stats by name. A list: a list.
    bins   of a histogram over `range` (low, high), or over each tensor's own range
    """
    low, high = range if range is not None else (0.0, 0.0)
    if isinstance(what, Model):
        names, tensors = zip(*what.items()) if len(what) else ((), ())
    elif isinstance(what, Tensor):
        tensors = [what]
    elif isinstance(what, (list, tuple)):
        tensors = list(what)
    else:
        from ._write import in_memory

        tensors = [in_memory(source_of(what))]
    tensors = [_whole(tensor) for tensor in tensors]
    with _Progress(progress) as report:
        found = [_stats(each, bins, low, high) for each in _core.measure(tensors, bins, low, high, threads, report)]
    if isinstance(what, Model):
        return dict(zip(names, found))
    return found if isinstance(what, (list, tuple)) else found[0]


def _stats(each, bins, low, high):
    stats = Stats(*each, None)
    if not bins:
        return stats
    if low == high:  # each tensor's own range
        low, high = stats.min, stats.max
    step = (high - low) / bins
    return stats._replace(edges=[*(low + i * step for i in range(bins)), high])


def _whole(tensor):
    """The tensor itself; for a slice, a copy of its elements."""
    if not isinstance(tensor, Tensor) or tensor._whole:
        return tensor
    from ._write import in_memory

    return in_memory(source_of(tensor))


check.__module__ = measure.__module__ = "tenmap"
