"""Derived models: expressions over the tensors of open models, as a model.

An Expression is a tree of moves (slice, reshape, transpose, concat, stack) and linear combinations
over Tensors. derive() splits it into operations of the library: what does not fit into one
operation becomes a tensor of an intermediate model, which the derived one keeps alive.
"""

import operator
from collections.abc import Mapping

from . import _core
from ._arrays import source_of
from ._dtypes import CODES, NAMES, code_of
from ._model import Model, Tensor
from ._operators import Operators
from ._plan import dtype_for

_TENSOR, _SLICE, _RESHAPE, _ORDER, _LINEAR, _CONCAT, _STACK = range(7)
_WIDE = {CODES[name] for name in ("F64", "F32", "F16", "BF16")}


class Expression(Operators):
    """A tensor that tenmap.derive computes from others, later. Operators on Tensors make it, and so
    do tenmap.expr, tenmap.concat and tenmap.stack. It never changes, and holds the models of its
    Tensors open.

        x + y, x - y, -x, 0.5 * x, x / 2     linear combinations, in 64-bit floating point
        b @ a                                a product of matrices, alone or as a part of those
        x[8:16, ..., 0]                      a part: integers, slices without steps, and `...`
        x.reshape(8, -1), x.T, x.transpose(2, 0, 1)

    Nothing broadcasts: the terms of a sum have one shape.
    """

    __slots__ = ("_shape", "_dtype", "_code", "_kind", "_of", "_with")
    __array_ufunc__ = None  # so that numpy's numbers leave their operators to this class

    def __init__(self, *args, **keywords):
        raise TypeError("expressions are made from Tensors: tenmap.expr(tensor)")

    def __setattr__(self, name, value):
        raise AttributeError("expressions do not change")

    @property
    def shape(self):
        """Its dimensions, as a tuple."""
        return self._shape

    @property
    def dtype(self):
        """Its element type, unless derive() is asked for another one: "BF16"."""
        return self._dtype

    @property
    def ndim(self):
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def size(self):
        """How many elements it has."""
        return _count(self.shape)

    @property
    def T(self):
        """All axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes):
        """The axes in another order: axis i of the result is axis axes[i], as in numpy. Without
        arguments: in reverse order."""
        if len(axes) == 1 and not hasattr(axes[0], "__index__"):
            axes = tuple(axes[0]) if axes[0] is not None else ()
        order = [_axis(axis, self.ndim) for axis in axes] if axes else list(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"axes {tuple(axes)} are no permutation of those of shape {self.shape}")
        return _ordered(self, tuple(order))

    def reshape(self, *shape):
        """The same elements, in their row-major order, as another shape. One dimension may be -1:
        it is calculated."""
        if len(shape) == 1 and not hasattr(shape[0], "__index__"):
            shape = tuple(shape[0])
        return _reshaped(self, _complete(tuple(map(operator.index, shape)), self.shape))

    def _refused(self, other):
        if hasattr(other, "__array__"):
            raise TypeError("an array is no term of an expression: tenmap.expr(array) makes one of it")
        return NotImplemented

    def __getitem__(self, index):
        return _sliced(self, index)

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of an expression without dimensions")
        return self.shape[0]

    def __bool__(self):
        raise TypeError("the truth of an expression is ambiguous")

    def __array__(self, dtype=None, copy=None):
        raise TypeError('an expression has no values yet: tenmap.derive({"x": expression})["x"].numpy() computes them')

    def __reduce__(self):
        raise TypeError("expressions cannot be pickled: they hold open models")

    def __repr__(self):
        return f"<tenmap.Expression: {self.dtype} {list(self.shape)}>"


def _node(kind, of, given, shape, like):
    """An Expression; `like` has its dtype: another one, a Tensor, or the name of a dtype."""
    made = Expression.__new__(Expression)
    name, code = (like, CODES[like]) if isinstance(like, str) else (like.dtype, like._code)
    fields = {"_shape": tuple(shape), "_dtype": name, "_code": code, "_kind": kind, "_of": of, "_with": given}
    for field, value in fields.items():
        object.__setattr__(made, field, value)
    return made


def _count(shape):
    count = 1
    for n in shape:
        count *= n
    return count


def expr(value):
    """A Tensor as an Expression, so that .T, slices, reshape and transpose are computed later:

        tenmap.derive({"w": base["w"] + 0.5 * (b @ tenmap.expr(a).T)})

    An array, which is copied, becomes one too. A slice of a Tensor must not have steps."""
    if isinstance(value, Expression):
        return value
    if not isinstance(value, Tensor):
        from ._write import in_memory

        value = in_memory(source_of(value))
    box = value._box()
    if box is None:
        raise ValueError(f"a slice of {value.name!r} with a step cannot be derived: take it without steps")
    whole = _node(_TENSOR, value, None, box[1], value)
    object.__setattr__(whole, "_code", value._stored)
    if value._whole:
        return whole
    begin, end = map(tuple, box)
    extents = [n - m for m, n in zip(begin, end)]
    return _reshaped(_node(_SLICE, whole, (begin, end), extents, whole), value.shape)


def _term(value):
    if isinstance(value, Operators):
        return expr(value)
    raise TypeError(f"expected a Tensor or an Expression, not {type(value)!r}: tenmap.expr(array) makes one of an array, "
                    "and tenmap.expr(tensor).T is computed later than tensor.T, which is an array")  # fmt: skip


# Moves. Their nodes are kept in an order that operations of the library have: a reshape of a
# permutation of a slice.


def _axis(axis, ndim):
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"there is no axis {axis} of {ndim}")
    return axis % ndim


def _complete(shape, before):
    """A shape with at most one -1, which must have as many elements as the one before."""
    count, known = _count(before), _count([n for n in shape if n != -1])
    if shape.count(-1) == 1 and known and count % known == 0:
        shape = tuple(count // known if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or _count(shape) != count:
        raise ValueError(f"shape {before} cannot become {shape}: the numbers of elements differ")
    return shape


def _reshaped(x, shape):
    if x._kind == _RESHAPE:
        x = x._of
    return x if x.shape == shape else _node(_RESHAPE, x, None, shape, x)


def _ordered(x, order):
    if x._kind == _ORDER:
        x, order = x._of, tuple(x._with[axis] for axis in order)
    if order == tuple(range(len(order))):
        return x
    return _node(_ORDER, x, order, [x.shape[axis] for axis in order], x)


def _sliced(x, index):
    index = index if isinstance(index, tuple) else (index,)
    given = sum(each is not Ellipsis for each in index)
    if sum(each is Ellipsis for each in index) > 1 or given > x.ndim:
        raise IndexError(f"too many indices, or more than one ellipsis, for shape {x.shape}")
    if Ellipsis not in [each for each in index if each is Ellipsis]:
        index += (Ellipsis,)
    begin, end, kept = [], [], []
    for each in index:
        if each is Ellipsis:
            for n in x.shape[len(begin) : len(begin) + x.ndim - given]:
                begin.append(0), end.append(n), kept.append(n)
            continue
        first, last, keep = _range(each, x.shape[len(begin)], len(begin))
        begin.append(first), end.append(last)
        if keep:
            kept.append(last - first)
    return _reshaped(_boxed(x, begin, end), tuple(kept))


def _range(index, extent, axis):
    """(begin, end, whether the axis stays) of an index."""
    if isinstance(index, slice):
        first, last, step = index.indices(extent)
        if step != 1:
            raise ValueError(f"a slice with the step {step} cannot be derived: take it without a step")
        return first, max(first, last), True
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError(f"expressions are indexed by integers, slices and ..., not by {type(index)!r}")
    place = operator.index(index)
    if not -extent <= place < extent:
        raise IndexError(f"index {place} is out of bounds for axis {axis} with size {extent}")
    return place % extent, place % extent + 1, False


def _boxed(x, begin, end):
    if all(m == 0 and n == extent for m, n, extent in zip(begin, end, x.shape)):
        return x
    if x._kind == _ORDER:
        inner = [None] * x.ndim
        for axis, pair in zip(x._with, zip(begin, end)):
            inner[axis] = pair
        return _ordered(_boxed(x._of, *zip(*inner)), x._with)
    extents = [n - m for m, n in zip(begin, end)]
    if x._kind == _SLICE:
        begin, end = ([n + first for n, first in zip(given, x._with[0])] for given in (begin, end))
        x = x._of
    return _node(_SLICE, x, (tuple(begin), tuple(end)), extents, x)


def _joined(kind, what, tensors, axis):
    parts = tuple(map(_term, list(tensors)))
    if not parts:
        raise ValueError(f"{what} of no tensors")
    axis = _axis(axis, parts[0].ndim + (kind == _STACK))
    except_at = axis if kind == _CONCAT else None
    for part in parts[1:]:
        if part.ndim != parts[0].ndim or any(
            m != n and i != except_at for i, (m, n) in enumerate(zip(part.shape, parts[0].shape))
        ):
            raise ValueError(f"{what} of shapes {parts[0].shape} and {part.shape}: nothing broadcasts")
    shape = list(parts[0].shape)
    if kind == _CONCAT:
        shape[axis] = sum(part.shape[axis] for part in parts)
    else:
        shape.insert(axis, len(parts))
    return _node(kind, parts, axis, shape, parts[0])


def concat(tensors, axis=0):
    """An Expression: Tensors and Expressions one after the other along an axis. Their other
    dimensions are equal, and so are their dtypes: elements are moved bit for bit."""
    return _joined(_CONCAT, "concat", tensors, axis)


def stack(tensors, axis=0):
    """An Expression: Tensors and Expressions of one shape and dtype as the indexes of a new
    axis."""
    return _joined(_STACK, "stack", tensors, axis)


# Linear combinations: the terms (factor, Expression), from left to right, then the products
# (factor, B, A).


def _combination(x):
    """The terms and the products of an Expression."""
    if x._kind == _LINEAR:
        return x._of, x._with
    # A product that has the shape of a weight with more than two axes, as the LoRA of a convolution.
    if x._kind == _RESHAPE and x._of._kind == _LINEAR and not x._of._of:
        if x.ndim > 2 and x.shape[0] == x._of._with[0][1].shape[0]:
            return (), x._of._with
    return ((1.0, x),), ()


def _linear(terms, products, shape):
    first = terms[0][1] if terms else None
    return _node(_LINEAR, terms, products, shape, NAMES[first._code] if first is not None and first._code in _WIDE else "F32")


def scaled(x, factor):
    """factor * x"""
    x = _term(x)
    terms, products = _combination(x)
    return _linear(tuple((factor * f, t) for f, t in terms), tuple((factor * f, b, a) for f, b, a in products), x.shape)


def added(x, y, factor):
    """x + factor * y"""
    x, y = _term(x), _term(y)
    if x.shape != y.shape:
        raise ValueError(f"shapes {x.shape} and {y.shape} cannot be added: nothing broadcasts")
    terms, products = _combination(x)
    more, further = _combination(scaled(y, factor))
    return _linear(terms + more, products + further, x.shape)


def _without_factor(x):
    """(factor, Expression) of a matrix, whose factor becomes that of the product."""
    if x._kind == _LINEAR and len(x._of) == 1 and not x._with:
        return x._of[0]
    return 1.0, x


def product(b, a):
    """b @ a"""
    b, a = _term(b), _term(a)
    if b.ndim != 2 or a.ndim != 2 or b.shape[1] != a.shape[0]:
        raise ValueError(f"shapes {b.shape} and {a.shape} cannot be multiplied: two matrices can, n x r and r x m")
    left, b = _without_factor(b)
    right, a = _without_factor(a)
    return _linear((), ((left * right, b, a),), (b.shape[0], a.shape[1]))


# From expressions to the library's operations.


class _Operation:
    """One derived tensor: an operation on terms (factor, Expression or None), then an order of axes,
    then a shape. None stands for the library's zeros."""

    __slots__ = ("op", "axis", "terms", "order", "shape")

    def __init__(self, x):
        self.shape = self.order = None
        self.axis = 0
        if x._kind == _RESHAPE:
            self.shape, x = x.shape, x._of
        if x._kind == _ORDER:
            self.order, x = x._with, x._of
        if x._kind in (_CONCAT, _STACK):
            self.op = _core.DERIVE_CONCAT if x._kind == _CONCAT else _core.DERIVE_STACK
            self.axis, self.terms = x._with, [(0.0, part) for part in x._of]
        elif x._kind != _LINEAR or (self.order and len(x.shape) != 2 and not x._of):
            self.op, self.terms = _core.DERIVE_RENAME, [(0.0, x)]
        elif not x._with:
            self.op, self.terms = _core.DERIVE_SUM, list(x._of)
        else:
            self._add_products(x)

    def _add_products(self, x):
        self.op = _core.DERIVE_LOW_RANK
        if len(x._of) > 1:
            self.terms = [(1.0, _linear(x._of, (), x.shape))]
        else:
            self.terms = [x._of[0] if x._of else (0.0, None)]
        for factor, b, a in x._with:
            self.terms += [(factor, b), (0.0, a)]
        if not x._of and len(x.shape) != 2 and self.shape is None:
            self.shape = x.shape


def _split(x):
    """A term as the library takes it: (Expression, shape, begin, end, flags). The Expression is a
    Tensor, or becomes an intermediate one."""
    flags, shape, begin, end = 0, None, None, None
    if x._kind == _ORDER and len(x.shape) == 2:
        flags, x = _core.TERM_TRANSPOSED, x._of
    if x._kind == _SLICE:
        (begin, end), x = x._with, x._of
    if x._kind == _RESHAPE:
        shape, x = x.shape, x._of
    return x, shape, begin, end, flags


class _Plan:
    """The intermediate tensors, by level: those of one level need only Tensors and those of lower
    levels."""

    def __init__(self):
        self.levels, self.level, self.operations, self.made = [], {}, {}, {}
        self.names, self.kept = {}, []

    def add(self, x, name):
        """Notes everything that this Expression needs first, and returns how many levels."""
        if id(x) in self.operations:
            operation = self.operations[id(x)]
        else:
            operation = self.operations[id(x)] = _Operation(x)
            self.kept.append(x)
        highest = 0
        for _, term in operation.terms:
            base = None if term is None else _split(term)[0]
            if base is not None and base._kind != _TENSOR:
                highest = max(highest, self._place(base, name))
        return highest

    def _place(self, base, name):
        known = self.level.get(id(base))
        if known is not None:
            return known
        level = self.level[id(base)] = self.add(base, name) + 1
        while len(self.levels) < level:
            self.levels.append([])
        self.levels[level - 1].append(base)
        self.names[id(base)] = f"{name} ({len(self.names) + 1})"
        return level

    def described(self, x, name, dtype=0):
        """What the extension's _derive takes for one tensor."""
        operation, terms = self.operations[id(x)], []
        for factor, term in operation.terms:
            if term is None:
                terms.append((None, factor, None, None, None, 0))
                continue
            base, shape, begin, end, flags = _split(term)
            tensor = base._of if base._kind == _TENSOR else self.made[id(base)]
            terms.append((tensor, factor, shape, begin, end, flags))
        return name, dtype, operation.op, operation.axis, tuple(terms), operation.order, operation.shape

    def make_intermediates(self):
        for level in self.levels:
            model = _model([self.described(x, self.names[id(x)]) for x in level])
            self.made.update(zip(map(id, level), model._tensors()))


def _model(described):
    model = Model.__new__(Model)
    model._derive(described)
    model._source = model._options = None
    return model


def _is_float(x):
    return x.dtype not in CODES or (x.dtype[0] in "FB" and x.dtype != "BOOL")


def _as_dtype(x, name, dtype):
    """The Expression for a tensor that is to have this dtype, and the number of that dtype."""
    wanted = dtype_for(dtype, name)
    if wanted is None:
        return x, 0
    code = code_of(wanted)
    exact = isinstance(dtype, Mapping) and name in dtype
    if code == x._code or not (exact or _is_float(x)):
        return x, 0
    computed = _Operation(x).op in (_core.DERIVE_SUM, _core.DERIVE_LOW_RANK)
    return (x if computed else scaled(x, 1.0)), code


def derive(tensors, dtype=None):
    """A model that is computed from tensors of other open models. Returns a Model, which reads,
    loads, converts and saves as others do. Nothing is computed before values are asked for, and
    nothing is kept: save it if you read it often.

        base, lora = tenmap.open("base"), tenmap.open("adapter_model.safetensors")
        b, a = lora["q_proj.lora_B.weight"], lora["q_proj.lora_A.weight"]
        merged = tenmap.derive({**base, "q_proj.weight": base["q_proj.weight"] + 0.8 * (b @ a)})
        tenmap.save_sharded(merged, "merged")

    tensors  a mapping of names to Tensors, which are renamed, and Expressions
    dtype    of floating-point tensors, or a mapping of names and patterns of names to dtypes; None:
             that of a sum's or product's first term if it is F64, F32, F16 or BF16, else F32; moves
             keep theirs

    Sums and products are computed in F64 and rounded once, to the dtype that the values are asked
    for in. A linear combination is one sum: factors are multiplied out, terms are added from left
    to right, then the products. docs/derived.md has the formulas.

    The model holds the models of its tensors open, whether or not they are closed meanwhile. Raises
    tenmap.Error, with the name of the tensor, for what the library cannot compute.
    """
    if not isinstance(tensors, Mapping) and not hasattr(tensors, "items"):
        raise TypeError(f"expected a mapping of names to Tensors and Expressions, not {type(tensors)!r}")
    plan, listed = _Plan(), []
    for name, value in list(tensors.items()):
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor must be a str, not {type(name)!r}")
        if not isinstance(value, Operators):
            raise TypeError(f"{name!r}: expected a Tensor or an Expression, not {type(value)!r}: tenmap.expr(array) makes "
                            "one of an array, and tenmap.expr(tensor).T is computed later than tensor.T, which is an array")  # fmt: skip
        x, code = _as_dtype(expr(value), name, dtype)
        plan.add(x, name)
        listed.append((x, name, code))
    plan.make_intermediates()
    return _model([plan.described(*each) for each in listed])


for _each in (Expression, expr, concat, stack, derive):
    _each.__module__ = "tenmap"
