"""The operators of Tensors and of Expressions, which make Expressions."""

from numbers import Real


def _is_term(value):
    return isinstance(value, Operators)


class Operators:
    """Sums, differences, factors and products. Nothing is computed: the results are Expressions."""

    __slots__ = ()

    def _refused(self, other):
        """The result of an operator with something else: its own operator decides. numpy's computes."""
        return NotImplemented

    def __add__(self, other):
        if isinstance(other, Real) and other == 0:  # as sum() begins
            return _derive().expr(self)
        return _derive().added(self, other, 1.0) if _is_term(other) else self._refused(other)

    __radd__ = __add__

    def __sub__(self, other):
        return _derive().added(self, other, -1.0) if _is_term(other) else self._refused(other)

    def __neg__(self):
        return _derive().scaled(self, -1.0)

    def __pos__(self):
        return _derive().expr(self)

    def __mul__(self, factor):
        return _derive().scaled(self, float(factor)) if isinstance(factor, Real) else self._refused(factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor):
        return _derive().scaled(self, 1 / float(divisor)) if isinstance(divisor, Real) else self._refused(divisor)

    def __matmul__(self, other):
        return _derive().product(self, other) if _is_term(other) else self._refused(other)


def _derive():
    """The module that makes Expressions, which imports this one."""
    from . import _derive

    return _derive
