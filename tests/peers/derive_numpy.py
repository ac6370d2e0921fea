"""Derived tensors against numpy: random expressions, nested up to eight deep.

    derive_numpy.py LIBRARY [EXPRESSIONS [SEED]]

LIBRARY has the toy container of the tests, whose strided tensors are terms too. Expressions are
random (10,000 by default): every op, terms that are stored, strided or derived, mapped or read, with
shapes, blocks, transposed, `order` and `shape`. Each tensor is read whole, and in random blocks with
rows that lie apart, as its own dtype and as others. Moves must be numpy's bit for bit; sums and
products those of numpy's F64 in the documented order, rounded once. Exits with 77 if numpy or
ml_dtypes is missing.
"""
import ctypes
import json
import os
import struct
import sys
import tempfile

import requests_numpy as base  # exits with 77 without numpy or ml_dtypes
import strided_numpy
from requests_numpy import numpy

c = ctypes
NUMPY, VALUE = base.NUMPY, base.VALUE
FLOATS = ["F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"]
RENAME, CONCAT, STACK, SUM, LOW_RANK, CALL = range(1, 7)
MODEL_TENSORS, DEEPEST, POOL = 10, 8, 120


class Term(c.Structure):
    _fields_ = [("tensor", c.c_void_p), ("factor", c.c_double), ("shape", c.c_void_p), ("begin", c.c_void_p),
                ("end", c.c_void_p), ("rank", c.c_uint32), ("flags", c.c_uint32), ("reserved", c.c_uint64 * 2)]


CALLBACK = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_uint64, c.c_uint64, c.c_uint64, c.c_size_t,
                       c.POINTER(c.POINTER(c.c_float)), c.POINTER(c.c_float), c.c_void_p)


class Derived(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_uint32), ("op", c.c_uint32), ("axis", c.c_uint32),
                ("n", c.c_uint32), ("rank", c.c_uint32), ("terms", c.POINTER(Term)), ("order", c.c_void_p),
                ("shape", c.c_void_p), ("call", CALLBACK), ("ctx", c.c_void_p), ("reserved", c.c_uint64 * 4)]


class Tensor:
    """A tensor and what numpy has for it: elements, or values that are not rounded yet (F64)."""

    def __init__(self, handle, dtype, array, depth=0, values=False, finite=True):
        self.handle, self.dtype, self.array = handle, dtype, array
        self.depth, self.values, self.finite = depth, values, finite


def words(numbers):
    return (c.c_uint64 * max(1, len(numbers)))(*numbers)


def round_once(values, dtype):
    """F64 to a dtype with one rounding; numpy goes through F32 for some."""
    if dtype in ("F64", "F32", "F16"):
        return values.astype(NUMPY[dtype])
    near = values.astype("<f4")
    wrong = near.astype("<f8") != values
    up = wrong & (numpy.abs(near.astype("<f8")) > numpy.abs(values))
    bits = near.view("<u4") - up.astype("<u4")  # towards zero, then odd
    return (bits | wrong.astype("<u4")).view("<f4").astype(NUMPY[dtype])


def as_f64(t):
    return t.array if t.values else t.array.astype("<f8")


def random_shape(random, count, most_rank=4):
    """A shape of `count` elements."""
    shape = []
    while count > 1 and len(shape) < most_rank - 1 and random.random() < 0.8:
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        shape.append(int(random.choice(divisors)))
        count //= shape[-1]
    shape.insert(int(random.integers(0, len(shape) + 1)), count)
    return shape


class Maker:
    def __init__(self, random, pool):
        self.random, self.pool, self.keep = random, pool, []

    def hold(self, numbers):
        array = words(numbers)
        self.keep.append(array)
        return c.cast(array, c.c_void_p)

    def term(self, accepts, target=None, matrix=False):
        """A random term: what tenmap gets, and a function of an array that gives numpy's."""
        random = self.random
        for _ in range(60):
            t = self.pool[int(random.integers(0, len(self.pool)))]
            if not accepts(t):
                continue
            term, shape = Term(tensor=t.handle), list(t.array.shape)
            if random.random() < 0.4 or (target is not None and len(shape) != len(target)):
                shape = random_shape(random, t.array.size)
                term.shape, term.rank = self.hold(shape), len(shape)
            turned = len(shape) == 2 and random.random() < 0.4
            if matrix and len(shape) < 2:
                continue
            wanted = target[::-1] if target is not None and turned else target
            if wanted is not None and (len(wanted) != len(shape) or
                                       any(w is not None and w > n for w, n in zip(wanted, shape))):
                continue
            begin, end = [0] * len(shape), list(shape)
            cut = [random.random() < 0.3 for _ in shape]
            for i, n in enumerate(shape):
                if wanted is not None and wanted[i] is not None:
                    begin[i] = int(random.integers(0, n - wanted[i] + 1))
                    end[i] = begin[i] + wanted[i]
                elif cut[i]:
                    begin[i] = int(random.integers(0, n))
                    end[i] = int(random.integers(begin[i] + 1, n + 1))
            if end != shape or begin != [0] * len(shape) or random.random() < 0.1:
                term.begin, term.end = self.hold(begin), self.hold(end)
            term.flags = int(turned)
            block = tuple(slice(b, e) for b, e in zip(begin, end))

            def view(array, shape=shape, block=block, turned=turned):
                out = array.reshape(shape)[block]
                return out.T if turned else out
            return t, term, view
        return None

    def moved(self, op):
        """Returns the terms, the result and the dtype of a move, or None."""
        random = self.random
        first = self.term(lambda t: t.depth < DEEPEST)
        if not first:
            return None
        dtype, shape = first[0].dtype, list(first[2](first[0].array).shape)
        axis = 0
        if op == CONCAT:
            if not shape:
                return None
            axis = int(random.integers(0, len(shape)))
            shape[axis] = None
        elif op == STACK:
            axis = int(random.integers(0, len(shape) + 1))
        found = [first]
        for _ in range(0 if op == RENAME else int(random.integers(0, 6))):
            more = self.term(lambda t: t.depth < DEEPEST and t.dtype == dtype, shape)
            if more:
                found.append(more)
        values = any(t.values for t, _, _ in found)
        if values and not all(t.finite for t, _, _ in found):
            return None  # numpy makes signalling NaNs quiet on the way to F64
        arrays = [view(as_f64(t) if values else t.array) for t, _, view in found]
        result = (arrays[0] if op == RENAME else
                  numpy.concatenate(arrays, axis) if op == CONCAT else numpy.stack(arrays, axis))
        return found, axis, result, dtype, values

    def summed(self):
        random = self.random
        accepts = lambda t: t.depth < DEEPEST and t.finite and t.dtype in FLOATS  # noqa: E731
        found = [self.term(accepts)]
        if not found[0]:
            return None
        shape = list(found[0][2](found[0][0].array).shape)
        for _ in range(int(random.integers(0, 5))):
            more = self.term(accepts, shape)
            if more:
                found.append(more)
        total = None
        for t, term, view in found:
            term.factor = float(random.choice([1.0, -1.0, 0.5, 1 / 3, float(random.standard_normal())]))
            part = term.factor * view(as_f64(t))
            total = part if total is None else total + part
        return found, 0, total, None, True

    def low_rank(self):
        random = self.random
        accepts = lambda t: t.depth < DEEPEST and t.finite and t.dtype in FLOATS  # noqa: E731
        w = self.term(accepts, matrix=True)
        if not w:
            return None
        shape = w[2](w[0].array).shape
        rows, columns = shape[0], int(numpy.prod(shape[1:]))
        zeros = random.random() < 0.2
        found, total = [w], None
        w[1].factor = float(random.standard_normal())
        total = numpy.zeros((rows, columns)) if zeros else w[1].factor * w[2](as_f64(w[0])).reshape(rows, columns)
        for _ in range(int(random.integers(1, 3))):
            rank = int(random.integers(1, 6))
            b, a = self.term(accepts, [rows, rank]), self.term(accepts, [rank, columns])
            if not a or not b:
                continue
            found += [b, a]
            b[1].factor = float(random.standard_normal())
            left, right = b[2](as_f64(b[0])), a[2](as_f64(a[0]))
            s = numpy.zeros((rows, columns))
            for k in range(rank):
                s = s + left[:, k:k + 1] * right[k:k + 1, :]
            total = total + b[1].factor * s
        if len(found) < 3:
            return None
        if zeros:
            w[1].tensor, w[1].shape, w[1].begin, w[1].end, w[1].rank, w[1].flags = [None] * 4 + [0, 0]
            w[1].factor = 0
        return found, 0, total if zeros else total.reshape(shape), "F32" if zeros else None, True

    def called(self):
        """A function of the position and of the values, which Python computes with F32 too."""
        summed = self.summed()
        if not summed:
            return None
        found = summed[0]
        for _, term, _ in found:
            term.factor = 0
        arrays = [view(as_f64(t)).astype("<f4") for t, _, view in found]
        shape = arrays[0].shape
        columns, rows = shape[-1] if shape else 1, shape[-2] if len(shape) > 1 else 1
        at = numpy.arange(arrays[0].size, dtype="<u8")
        where = (at // columns // rows * 7 + at // columns % rows * 3 + at % columns).astype("<f4")
        total = where.reshape(shape)
        for k, array in enumerate(arrays):
            total = total + array * numpy.float32(k + 1)

        def call(_, matrix, row, column, count, terms, out, error):
            sum_ = (matrix * 7 + row * 3 + column + numpy.arange(count)).astype("<f4")
            for k in range(len(arrays)):
                sum_ = sum_ + numpy.ctypeslib.as_array(terms[k], (count,)) * numpy.float32(k + 1)
            numpy.ctypeslib.as_array(out, (count,))[:] = sum_
            return 0
        callback = CALLBACK(call)
        self.keep.append(callback)
        return found, 0, total.astype("<f8"), None, True, callback

    def expression(self, number):
        """One tensor of a model: what tenmap gets and what numpy has."""
        random = self.random
        op = int(random.choice([RENAME, CONCAT, STACK, SUM, SUM, LOW_RANK, LOW_RANK, CALL],
                               p=[.18, .18, .18, .14, .14, .07, .07, .04]))
        made = (self.moved(op) if op <= STACK else self.summed() if op == SUM else
                self.low_rank() if op == LOW_RANK else self.called())
        if not made or made[2].size > 4000:
            return None
        found, axis, result, dtype, values = made[:5]
        d = Derived(name=b"t%d" % number, op=op, axis=axis, n=len(found))
        terms = (Term * len(found))(*[term for _, term, _ in found])
        self.keep.append(terms)
        d.terms = c.cast(terms, c.POINTER(Term))
        if len(made) > 5:
            d.call = made[5]
        if op > STACK:
            dtype = dtype or (found[0][0].dtype if found[0][0].dtype in ("F64", "F32", "F16", "BF16") else "F32")
            if random.random() < 0.3:
                dtype = str(random.choice(FLOATS))
                d.dtype = VALUE[dtype]
        if random.random() < 0.4:
            order = [int(i) for i in random.permutation(result.ndim)]
            held = (c.c_uint32 * max(1, len(order)))(*order)
            self.keep.append(held)
            d.order, result = c.cast(held, c.c_void_p), result.transpose(order)
        if random.random() < 0.3:
            shape = random_shape(random, result.size)
            d.shape, d.rank, result = self.hold(shape), len(shape), result.reshape(shape)
        depth = 1 + max(t.depth for t, term, _ in found if term.tensor)
        finite = all(t.finite for t, _, _ in found)
        result = numpy.ascontiguousarray(result).reshape(result.shape)
        if values:
            with numpy.errstate(all="ignore"):
                small = numpy.abs(result).max() < 100
                finite = finite and bool(small) and bool(numpy.isfinite(round_once(result, dtype).astype("<f8")).all())
        return d, Tensor(None, dtype, result, depth, values, finite)


def expected_as(t, target):
    if t.values:
        return round_once(t.array, target)
    return t.array if target == t.dtype else t.array.astype(NUMPY[target])


def check(lib, t, random, what):
    """Reads the tensor whole and in blocks."""
    targets = [t.dtype]
    if t.values:
        targets += ["F64", str(random.choice(FLOATS))]
    elif t.dtype in base.INTEGERS:
        targets.append(strided_numpy.random_target(random, t.dtype))
    elif t.finite and t.dtype in ("F16", "BF16"):
        targets.append("F32")
    for target in targets:
        with numpy.errstate(all="ignore"):
            whole = numpy.ascontiguousarray(expected_as(t, target)).reshape(t.array.shape)
        begin = [int(random.integers(0, n)) for n in whole.shape]
        end = [int(random.integers(b + 1, n + 1)) for b, n in zip(begin, whole.shape)]
        cut = random.random() < 0.5
        block = whole[tuple(slice(b, e) for b, e in zip(begin, end))] if cut else whole
        block = numpy.ascontiguousarray(block).reshape(block.shape)
        width = NUMPY[target].itemsize
        columns = block.shape[-1] if block.ndim else 1
        row, rows = columns * width, block.size // columns
        stride = 0 if random.random() < 0.6 else row + int(random.integers(0, 32))
        need = (rows - 1) * (stride or row) + row
        expected = random.integers(0, 256, need + 16, "u1")
        dst = expected.copy()
        for i, line in enumerate(block.reshape(rows, columns)):
            expected[i * (stride or row):i * (stride or row) + row] = line.view("u1")
        bounds = words(begin), words(end)
        request = base.Request(t.handle, bounds[0] if cut else None, bounds[1] if cut else None, VALUE[target],
                               0, dst.ctypes.data, need, 0, 0, stride)
        options = (c.c_uint64 * 16)()
        error = base.Error()
        status = lib.tenmap_load(None, c.byref(request), 1, None, c.byref(error))
        assert status == 0, (error.message, what)
        assert dst.tobytes() == expected.tobytes(), (what, t.dtype, target, cut, begin, end, stride, whole.shape)
        del options


def write_model(path, random):
    header, data, tensors = {}, b"", {}
    for name, kind in NUMPY.items():
        for i in range(6):
            shape = [int(random.choice([1, 2, 3, 4, 6, 8, 12])) for _ in range(int(random.integers(0, 4)))]
            count = int(numpy.prod(shape)) if shape else 1
            if name in FLOATS:
                array = (random.standard_normal(count) * 0.7).astype(kind)
            elif name == "C64":
                array = random.standard_normal(2 * count).astype("<f4").view(kind)
            else:
                array = random.integers(0, 256, count * kind.itemsize, "u1").view(kind)
            key = "%s.%d" % (name, i)
            header[key] = {"dtype": name, "shape": shape,
                           "data_offsets": [len(data), len(data) + array.nbytes]}
            tensors[key] = (name, array.reshape(shape), name in FLOATS)
            data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return tensors


def leaves(lib, folder, number, random):
    """Models on files, and their tensors."""
    plain, toy = os.path.join(folder, "%d.safetensors" % number), os.path.join(folder, "%d.toy" % number)
    stored = write_model(plain, random)
    strided = {key: (name, array, False) for key, (name, array) in strided_numpy.write_toy(toy, random).items()}
    models, pool = [], []
    for path, tensors in ((plain, stored), (toy, strided)):
        for backend in (0, 1):
            model = base.open_model(lib, path, backend)
            models.append(model)
            for key, (name, array, finite) in tensors.items():
                if random.random() < (0.9 if finite else 0.15):
                    pool.append(Tensor(lib.tenmap_find(model, key.encode()), name, array, finite=finite))
    return models, pool


def run(lib, folder, number, wanted, random):
    """Expressions over the tensors of a few files, and over those that were made before."""
    models, pool = leaves(lib, folder, number, random)
    stored, done, deepest, keep = list(pool), 0, 0, []
    while done < wanted:
        derived = pool[len(stored):]
        if len(derived) > POOL:
            pool = stored + [derived[int(i)] for i in random.choice(len(derived), POOL, replace=False)]
        maker, made = Maker(random, pool), []
        for i in range(MODEL_TENSORS):
            one = maker.expression(i)
            if one:
                made.append(one)
        if not made:
            continue
        model, error = c.c_void_p(), base.Error()
        described = (Derived * len(made))(*[d for d, _ in made])
        status = lib.tenmap_derive(described, len(made), None, c.byref(model), c.byref(error))
        assert status == 0, error.message
        for i, (d, t) in enumerate(made):
            t.handle = lib.tenmap_at(model, i)
            what = (number, done + i, d.op, d.axis, d.n, bool(d.order), bool(d.shape), t.depth)
            check(lib, t, random, what)
            deepest = max(deepest, t.depth)
            pool.append(t)
        keep.append(maker.keep)
        models.append(model)
        done += len(made)
    for model in reversed(models):
        lib.tenmap_close(model)
    return done, deepest


def main():
    lib, wanted = base.library(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    random = numpy.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 34)
    lib.tenmap_at.restype = c.c_void_p
    lib.tenmap_at.argtypes = [c.c_void_p, c.c_size_t]
    lib.tenmap_derive.argtypes = [c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p, c.c_void_p]
    done = deepest = number = 0
    with tempfile.TemporaryDirectory() as folder:
        while done < wanted:
            more, deep = run(lib, folder, number, min(500, wanted - done), random)
            done, deepest, number = done + more, max(deepest, deep), number + 1
    print("%d random expressions, up to %d deep, are numpy's" % (done, deepest))


if __name__ == "__main__":
    main()
