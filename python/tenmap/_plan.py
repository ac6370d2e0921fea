"""Plans: which part of each tensor a load takes, and to which dtype it converts it."""

from collections.abc import Mapping

_CHARACTERS = "*?["


def _like(name, pattern):
    from fnmatch import fnmatchcase  # not with the package: that would take a third of its import

    return fnmatchcase(name, pattern)


def is_index(value):
    """Whether this is an index with a slice, as opposed to a shape."""
    return isinstance(value, slice) or value is Ellipsis or (
        isinstance(value, tuple) and any(isinstance(each, slice) or each is Ellipsis for each in value)
    )  # fmt: skip


def selections(model, names):
    """(name, Tensor) of everything that `names` asks for: names, or a mapping of names to indexes;
    None: all. Nothing is read."""
    if names is None:
        return list(model.items())
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Mapping) or hasattr(names, "_names"):  # a model asks for its names
        return [(name, model[name]) for name in list(names)]
    return [(name, model[name] if index is None else model[name][index]) for name, index in dict(names).items()]


def dtype_for(dtype, name):
    """The dtype for a tensor of this name: `dtype` itself, or that of the name in a mapping, else
    that of the first pattern in it that matches; None: as it is stored."""
    if not isinstance(dtype, Mapping):
        return dtype
    if name in dtype:
        return dtype[name]
    for pattern, found in dtype.items():
        if any(character in pattern for character in _CHARACTERS) and _like(name, pattern):
            return found
    return None


def read_alone(tensor, kind, framework):
    """An array of elements of 4 or 6 bits; reading unpacks them."""
    if framework == "numpy":
        return tensor.numpy(kind, writable=True)
    return tensor.torch(kind)


# How transformers' tp_plan names what happens to the weight and to the bias of a layer: the axis
# that is divided, or None. Names that start with "local_" only leave the result where it is.
_STYLES = {
    "colwise": (0, 0),
    "colwise_rep": (0, 0),
    "colwise_gather_output": (0, 0),
    "rowwise": (-1, None),
    "rowwise_rep": (-1, None),
    "rowwise_split_input": (-1, None),
    "embedding_rowwise": (0, None),
    "grouped_gemm": (0, 0),
    "sequence_parallel": (None, None),
    "replicate": (None, None),
    "replicated": (None, None),
    "replicated_with_grad_allreduce": (None, None),
    "gather": (None, None),
    "all_reduce": (None, None),
    "local": (None, None),
}


def _style_axis(style, parameter):
    known = _STYLES.get(style) or _STYLES.get(style.removeprefix("local_"))
    if known is None:
        raise ValueError(
            f"the style {style!r} of a plan does not divide a weight along one axis, or is not known: "
            "give the axis, or load the tensor whole (None)"
        )
    return known[parameter == "bias"]


def _matches(pattern, style, name):
    if not isinstance(style, str):
        return _like(name, pattern)
    # transformers names modules, from below the model's own prefix on.
    for named in (name, name.rpartition(".")[0]):
        if _like(named, pattern) or _like(named, "*." + pattern):
            return True
    return False


def _cut(tensor, axis, rank, world):
    """The index of one rank's part: pieces of equal size, rounded up; the last ones are smaller,
    and may be empty."""
    if not -tensor.ndim <= axis < tensor.ndim:
        raise ValueError(f"{tensor.name!r} of shape {tensor.shape} has no axis {axis}")
    axis %= tensor.ndim
    extent = tensor.shape[axis]
    piece = -(-extent // world)
    begin = min(rank * piece, extent)
    return (slice(None),) * axis + (slice(begin, min(begin + piece, extent)),)


def shard_plan(model, plan, rank, world):
    """What one rank of a tensor-parallel group loads of a model: a mapping of every name to an
    index, for Model.load. None stands for the whole tensor.

    plan   patterns of names, as in fnmatch, with the axis that is divided; None: not divided. Or
           transformers' tp_plan: patterns of modules with "colwise", "rowwise" and so on. The first
           pattern that matches counts. A tensor that none matches is not divided
    rank   0 to world - 1

    An axis is divided as by torch.chunk and DTensor: into pieces of ceil(extent / world). If world
    does not divide the extent, the last pieces are smaller or empty.

    Raises KeyError if a pattern with an axis matches no tensor, and ValueError for axes that a
    tensor does not have and for styles that are no cut along one axis.
    """
    rank, world = rank.__index__(), world.__index__()
    if world < 1 or not 0 <= rank < world:
        raise ValueError(f"there is no rank {rank} of {world}")
    plan = dict(plan)
    unused = {pattern for pattern, axis in plan.items() if not isinstance(axis, str)}
    result = {}
    for name, tensor in model.items():
        result[name] = None
        for pattern, axis in plan.items():
            if not _matches(pattern, axis, name):
                continue
            unused.discard(pattern)
            if isinstance(axis, str):
                axis = _style_axis(axis, name.rpartition(".")[2])
            if axis is not None and (tensor.ndim > 0 or not isinstance(plan[pattern], str)):
                result[name] = _cut(tensor, axis.__index__(), rank, world)
            break
    if unused:
        raise KeyError(f"no tensor of the model matches {sorted(unused)[0]!r}")
    return result


shard_plan.__module__ = "tenmap"
