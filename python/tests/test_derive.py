"""Derived models: every expression against numpy in 64-bit floating point with one rounding, to the
bit; what is refused; what keeps what alive."""

import io
import itertools
import random

import numpy
import pytest

import tenmap
from conftest import DTYPES, ml_dtypes, random_array, same
from test_gguf import BLOCKS, VALUES, path as gguf_path  # noqa: F401 - a fixture

FLOATS = ["F64", "F32", "F16", "BF16", "F8_E4M3"]
WIDE = FLOATS[:4]


def rounded(values, dtype):
    """Rounds F64 once, to nearest, ties to even. (ml_dtypes rounds BF16 twice, first to F32.)"""
    if dtype != "BF16":
        return values.astype(DTYPES[dtype])
    exponent = numpy.maximum(numpy.frexp(values)[1] - 1, -126)
    unit = numpy.ldexp(1.0, exponent - 7)
    return (numpy.rint(values / unit) * unit).astype("float32").astype(ml_dtypes.bfloat16)


def matmul(b, a):
    """B @ A with one rounding per step, the columns of B in order."""
    total = numpy.zeros((b.shape[0], a.shape[1]))
    for k in range(b.shape[1]):
        total = total + b[:, k : k + 1] * a[k : k + 1]
    return total


class Model:
    """A second definition of what expressions are: values in F64, or a linear combination of such."""

    def __init__(self, values=None, dtype=None, terms=None, products=()):
        self.terms = [(1.0, values, dtype)] if terms is None else terms
        self.products = list(products)
        self.moved = terms is None
        self.before = self.change = None  # of a reshape or permutation
        self.dtype = dtype
        if not self.moved:
            first = self.terms[0][2] if self.terms else None
            self.dtype = first if first in WIDE else "F32"

    @property
    def values(self):
        if self.moved:
            return self.terms[0][1]
        total = self.terms[0][0] * self.terms[0][1] if self.terms else 0.0
        for factor, values, _ in self.terms[1:]:
            total = total + factor * values
        for factor, b, a, shape in self.products:
            total = total + factor * matmul(b, a).reshape(shape)
        return total

    def scaled(self, by):
        return Model(terms=[(by * f, v, d) for f, v, d in self.terms], products=[(by * f, *rest) for f, *rest in self.products])

    def plus(self, other, by):
        other = other.scaled(by)
        return Model(terms=self.terms + other.terms, products=self.products + other.products)

    def move(self, change):
        return Model(change(self.values), self.dtype)

    def reshaped(self, shape):
        """Reshapes undo each other. A product that takes the shape of a weight with more axes stays one."""
        before = self.before if self.change == "reshape" else self
        if shape == before.shape:
            return before
        if not before.terms and len(shape) > 2 and shape[0] == before.shape[0]:
            made = Model(terms=[], products=[(f, b, a, shape) for f, b, a, _ in before.products])
        else:
            made = before.move(lambda v: v.reshape(shape))
        made.before, made.change = before, "reshape"
        return made

    def transposed(self, order):
        """Permutations undo each other."""
        before = self
        if isinstance(self.change, list):
            before, order = self.before, [self.change[axis] for axis in order]
        if order == sorted(order):
            return before
        made = before.move(lambda v: v.transpose(order))
        made.before, made.change = before, order
        return made

    @property
    def shape(self):
        return self.terms[0][1].shape if self.terms else self.products[0][3]

    def operand(self):
        """(factor, values) as an operand of @: the factor of one term becomes the product's."""
        if not self.moved and len(self.terms) == 1 and not self.products:
            return self.terms[0][0], self.terms[0][1]
        return 1.0, self.values


class Random:
    """Random expressions of a given shape, each with its Model."""

    def __init__(self, seed, folder):
        self.random = random.Random(seed)
        generator = numpy.random.default_rng(seed)
        self.arrays = {}
        shapes = [(4, 6), (6, 4), (4, 4), (6, 6), (24,), (2, 3, 4), (8, 12), (12, 8), (1000,)]
        for dtype, shape in itertools.product(FLOATS, shapes):
            self.arrays[f"{dtype} {shape}"] = generator.standard_normal(shape).astype(DTYPES[dtype])
        half = list(self.arrays)[::2]
        tenmap.save_file({name: self.arrays[name] for name in half}, folder / "a.safetensors")
        tenmap.save_file({n: v for n, v in self.arrays.items() if n not in half}, folder / "b.safetensors")
        models = tenmap.open(folder / "a.safetensors"), tenmap.open(folder / "b.safetensors", backend="read")
        self.tensors = {**models[0], **models[1]}

    def make(self, shape, depth, dtype=None):
        """(Tensor or Expression, Model); of `dtype` if that is given."""
        kinds = [self.reshaped, self.transposed, self.sum, self.sum, self.factor, self.sliced, self.concat, self.stack,
                 self.product, self.low_rank]  # fmt: skip
        for _ in range(5):
            made = self.random.choice(kinds)(shape, depth - 1, dtype) if depth > 0 and shape else None
            if made is not None and dtype in (None, made[1].dtype):
                return made
        return self.part(shape, dtype)

    def part(self, shape, dtype):
        """A tensor, or a part of one."""
        fits = [n for n, array in self.arrays.items() if (dtype is None or n.startswith(dtype + " "))
                and array.ndim == len(shape) and all(m >= n for m, n in zip(array.shape, shape))]  # fmt: skip
        if not fits:
            name = self.random.choice([n for n in self.arrays if n.endswith("(1000,)") and n.startswith(dtype or "F32")])
            count = int(numpy.prod(shape))
            part = tenmap.expr(self.tensors[name][:count]).reshape(shape)
            return part, Model(self.arrays[name].astype("float64")[:count].reshape(shape), name.split()[0])
        name = self.random.choice(fits)
        array, tensor = self.arrays[name], self.tensors[name]
        index = ()
        if array.shape != shape:
            begins = [self.random.randrange(m - n + 1) for m, n in zip(array.shape, shape)]
            index = tuple(slice(b, b + n) for b, n in zip(begins, shape))
        elif self.random.random() < 0.3:
            tensor = tenmap.expr(tensor)
        return (tensor[index] if index else tensor), Model(array.astype("float64")[index], name.split()[0])

    def reshaped(self, shape, depth, dtype):
        count = int(numpy.prod(shape))
        others = [each for each in [(4, 6), (6, 4), (24,), (2, 3, 4), (3, 8), (count,), (2, count // 2)]
                  if int(numpy.prod(each)) == count and each != shape]  # fmt: skip
        if not others:
            return None
        x, model = self.make(self.random.choice(others), depth, dtype)
        return tenmap.expr(x).reshape(shape), model.reshaped(shape)

    def transposed(self, shape, depth, dtype):
        order = list(range(len(shape)))
        self.random.shuffle(order)
        before = [0] * len(shape)
        for axis, extent in zip(order, shape):
            before[axis] = extent
        x, model = self.make(tuple(before), depth, dtype)
        x = tenmap.expr(x)
        return (x.T if order == [1, 0] else x.transpose(order)), model.transposed(order)

    def sliced(self, shape, depth, dtype):
        if int(numpy.prod(shape)) > 48:
            return None
        wider = tuple(n + self.random.randrange(3) for n in shape)
        x, model = self.make(wider, depth, dtype)
        begins = [self.random.randrange(m - n + 1) for m, n in zip(wider, shape)]
        index = tuple(slice(b, b + n) for b, n in zip(begins, shape))
        return tenmap.expr(x)[index], model if wider == shape else model.move(lambda v: v[index])

    def concat(self, shape, depth, dtype):
        axis = self.random.randrange(len(shape))
        if shape[axis] < 2:
            return None
        dtype = dtype or self.random.choice(WIDE)
        cut = self.random.randrange(1, shape[axis])
        parts = [self.make((*shape[:axis], n, *shape[axis + 1 :]), depth, dtype) for n in (cut, shape[axis] - cut)]
        joined = Model(numpy.concatenate([model.values for _, model in parts], axis), dtype)
        return tenmap.concat([x for x, _ in parts], axis - len(shape) * self.random.randrange(2)), joined

    def stack(self, shape, depth, dtype):
        axis = self.random.randrange(len(shape))
        if shape[axis] > 4:
            return None
        dtype = dtype or self.random.choice(WIDE)
        parts = [self.make(shape[:axis] + shape[axis + 1 :], depth, dtype) for _ in range(shape[axis])]
        return tenmap.stack((x for x, _ in parts), axis), Model(numpy.stack([m.values for _, m in parts], axis), dtype)

    def number(self):
        return self.random.choice([0.5, -1.0, 0.8, 1 / 3, 2, numpy.float32(0.1), 1e-3, -7])

    def factor(self, shape, depth, dtype):
        x, model = self.make(shape, depth, dtype)
        if dtype not in (None, *WIDE):
            return None
        number, how = self.number(), self.random.randrange(4)
        if how == 0:
            return -tenmap.expr(x), model.scaled(-1.0)
        if how == 1:
            return x / number, model.scaled(1 / float(number))
        return (x * number if how == 2 else float(number) * x), model.scaled(float(number))

    def sum(self, shape, depth, dtype):
        if dtype not in (None, *WIDE):
            return None
        (x, first), (y, second) = self.make(shape, depth, dtype), self.make(shape, depth)
        how = self.random.randrange(3)
        if how == 0:
            return x + y, first.plus(second, 1.0)
        if how == 1:
            return x - y, first.plus(second, -1.0)
        number = self.number()
        return x + float(number) * y, first.plus(second.scaled(float(number)), 1.0)

    def product(self, shape, depth, dtype):
        if len(shape) != 2 or dtype not in (None, "F32"):
            return None
        inner = self.random.choice([1, 2, 4])
        (b, left), (a, right) = self.make((shape[0], inner), depth), self.make((inner, shape[1]), depth)
        (f, b_values), (g, a_values) = left.operand(), right.operand()
        return b @ a, Model(terms=[], products=[(f * g, b_values, a_values, shape)])

    def low_rank(self, shape, depth, dtype):
        """A weight and a product, which may have more than two axes."""
        matrix = (shape[0], int(numpy.prod(shape[1:])))
        made = self.product(matrix, depth, None)
        x, model = self.make(shape, depth, dtype)
        if len(shape) < 2 or made is None or dtype not in (None, *WIDE):
            return None
        y, by = made[0].reshape(shape), made[1].reshaped(shape)
        number = self.number()
        if self.random.random() < 0.5:
            return x + float(number) * y, model.plus(by.scaled(float(number)), 1.0)
        return x - y, model.plus(by, -1.0)


SHAPES = [(4, 6), (6, 4), (4, 4), (24,), (2, 3, 4), (3, 2), (2, 2, 2), (8, 12)]


def check(tensor, model, choices):
    """The tensor, a slice of it, and both as other dtypes."""
    expected = model.values
    assert tensor.shape == expected.shape
    if tensor.scheme == "derived" or model.dtype in WIDE:
        assert tensor.dtype == model.dtype
    assert same(tensor.numpy(), rounded(expected, tensor.dtype))
    dtype = choices.choice(["F64", "F32", "BF16"])
    begin = choices.randrange(expected.shape[0])
    assert same(tensor[begin:].numpy(dtype), rounded(expected[begin:], dtype))


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_equal_numpy(seed, tmp_path):
    """2,000 of them, in 50 models."""
    maker = Random(seed, tmp_path)
    checked = 0
    for turn in range(5):
        made = {f"t{i}": maker.make(maker.random.choice(SHAPES), maker.random.randrange(4)) for i in range(40)}
        derived = tenmap.derive({name: x for name, (x, _) in made.items()})
        loaded = derived.load()
        for name, (_, model) in made.items():
            check(derived[name], model, maker.random)
            assert same(loaded[name], derived[name].numpy())
            checked += 1
    assert checked == 200


@pytest.fixture
def arrays():
    generator = numpy.random.default_rng(7)
    shapes = {"w": (8, 6), "b": (8, 2), "a": (2, 6), "v": (8, 6), "t": (6, 8), "conv": (8, 2, 3, 3), "up": (8, 4, 1, 1), "down": (4, 2, 3, 3)}
    made = {name: generator.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    made["half"] = made["w"].astype(ml_dtypes.bfloat16)
    made["n"] = numpy.arange(48).reshape(8, 6)
    return made


@pytest.fixture
def path(arrays, tmp_path):
    tenmap.save_file(arrays, tmp_path / "base.safetensors", {"who": "base"})
    return tmp_path / "base.safetensors"


@pytest.fixture
def base(path):
    return tenmap.open(path)


def f64(array):
    return array.astype("float64")


def lora(arrays, factor):
    return f64(arrays["w"]) + factor * matmul(f64(arrays["b"]), f64(arrays["a"]))


def test_a_lora_is_one_operation(base, arrays, tmp_path):
    merged = tenmap.derive({**base, "w": base["w"] + 0.8 * (base["b"] @ base["a"])})
    assert list(merged) == list(base) and merged["w"].scheme == "derived"
    assert [(part.role, part.tensor.name) for part in merged["w"].parts] == [("term", "w"), ("term", "b"), ("term", "a")]
    assert same(merged["w"].numpy(), rounded(lora(arrays, 0.8), "F32"))
    tenmap.save_file(merged, tmp_path / "merged.safetensors", merged.metadata)
    saved = tenmap.open(tmp_path / "merged.safetensors")
    assert saved.metadata == {"who": "base"} and all(same(saved[name].numpy(), merged[name].numpy()) for name in base)
    assert tenmap.save({"w": merged["w"]}).endswith(rounded(lora(arrays, 0.8), "F32").tobytes())
    assert tenmap.measure(merged)["w"].max == rounded(lora(arrays, 0.8), "F32").max()


def test_factors_are_multiplied_out(base, arrays):
    b, a = base["b"], base["a"]
    ways = [base["w"] + 0.8 * b @ a, base["w"] + (b @ a) * 0.8, 0.8 * (b @ a) + base["w"], base["w"] - (-0.8 * b) @ a]
    derived = tenmap.derive({str(i): x for i, x in enumerate(ways)})
    for tensor in derived.values():
        assert len(tensor.parts) == 3 and same(tensor.numpy("F64"), lora(arrays, 0.8))


def test_the_mean_of_models_begins_with_zero_as_sum_does(base, arrays):
    mean = tenmap.derive({"x": sum([base["w"], base["v"], base["half"]]) / 3})["x"]
    third = 1 / 3
    expected = third * f64(arrays["w"]) + third * f64(arrays["v"]) + third * f64(arrays["half"])
    assert len(mean.parts) == 3 and same(mean.numpy("F64"), expected)


def test_the_lora_of_a_convolution_is_one_operation(base, arrays):
    up, down = tenmap.expr(base["up"]).reshape(8, 4), tenmap.expr(base["down"]).reshape(4, -1)
    merged = tenmap.derive({"conv": base["conv"] + 0.5 * (up @ down).reshape(8, 2, 3, 3)})["conv"]
    product = matmul(f64(arrays["up"]).reshape(8, 4), f64(arrays["down"]).reshape(4, 18)).reshape(8, 2, 3, 3)
    assert len(merged.parts) == 3 and same(merged.numpy("F64"), f64(arrays["conv"]) + 0.5 * product)


def test_a_product_alone_has_the_shape_that_it_is_given(base, arrays):
    x = (tenmap.expr(base["up"]).reshape(8, 4) @ tenmap.expr(base["down"]).reshape(4, -1)).reshape(8, 2, 3, 3)
    product = matmul(f64(arrays["up"]).reshape(8, 4), f64(arrays["down"]).reshape(4, 18)).reshape(8, 2, 3, 3)
    derived = tenmap.derive({"x": x, "2x": 2 * x, "moved": (2 * x).transpose(3, 1, 0, 2), "part": (2 * x)[3, :, 1:]})
    assert same(derived["x"].numpy("F64"), product) and same(derived["2x"].numpy("F64"), 2 * product)
    assert same(derived["moved"].numpy("F64"), 2 * product.transpose(3, 1, 0, 2))
    assert same(derived["part"].numpy("F64"), 2 * product[3, :, 1:])


def test_parts_are_those_of_numpy(base, arrays):
    indexes = [numpy.s_[3], numpy.s_[-1], numpy.s_[2:5], numpy.s_[..., 1], numpy.s_[1:3, ..., 2:], numpy.s_[5:2],
               numpy.s_[:, 1, :2], numpy.s_[0, 1, 2, 0], numpy.s_[...], numpy.s_[-3:-1, 1:]]  # fmt: skip
    made = {}
    for i, index in enumerate(indexes):
        made[f"tensor {i}"] = base["conv"][index]
        made[f"expression {i}"] = tenmap.expr(base["conv"])[index]
        made[f"twice {i}"] = tenmap.expr(base["conv"][1:])[...].transpose(0, 2, 3, 1)[index]
        made[f"sum {i}"] = (base["conv"] + base["conv"])[index]
    derived = tenmap.derive(made)
    for i, index in enumerate(indexes):
        array = arrays["conv"]
        assert same(derived[f"tensor {i}"].numpy(), array[index]) and same(derived[f"expression {i}"].numpy(), array[index])
        assert same(derived[f"twice {i}"].numpy(), array[1:].transpose(0, 2, 3, 1)[index])
        assert same(derived[f"sum {i}"].numpy(), 2 * array[index])


def test_experts_are_stacked_and_taken_apart_bit_for_bit(tmp_path):
    for dtype in ("F32", "BF16", "F8_E4M3", "I64", "BOOL", "U8"):
        experts = {f"expert.{i}": random_array(dtype, (4, 6), i) for i in range(3)}
        tenmap.save_file(experts, tmp_path / dtype)
        model = tenmap.open(tmp_path / dtype)
        stacked = tenmap.derive({"experts": tenmap.stack(model.values()), "rows": tenmap.concat(model.values(), -1)})
        assert stacked["experts"].dtype == dtype and same(stacked["experts"].numpy(), numpy.stack(list(experts.values())))
        assert same(stacked["rows"].numpy(), numpy.concatenate(list(experts.values()), 1))
        apart = tenmap.derive({f"expert.{i}": stacked["experts"][i] for i in range(3)})
        assert all(same(apart[name].numpy(), experts[name]) for name in experts)


def test_a_rename_is_a_view(base, arrays):
    derived = tenmap.derive({"new": base["w"], "rows": base["w"][2:5], "row": base["w"][3], "turned": tenmap.expr(base["w"]).reshape(6, 8)})
    for name, part in {"new": numpy.s_[:], "rows": numpy.s_[2:5], "row": numpy.s_[3]}.items():
        assert derived[name].mapped and derived[name].scheme == "none"
        assert numpy.shares_memory(derived[name].numpy(), base["w"].numpy())
        assert same(derived[name].numpy(), arrays["w"][part]) and derived[name].bytes == arrays["w"][part].tobytes()
    assert same(derived["turned"].numpy(), arrays["w"].reshape(6, 8))


def test_writable_views_of_one_tensor_have_bytes_of_their_own(tmp_path):
    """Also if the tensors are not in the order of their bytes."""
    arrays = {name: numpy.zeros(1 << 16, "float32") for name in "abc"}
    tenmap.save_file(arrays, tmp_path / "m.safetensors")
    base = tenmap.open(tmp_path / "m.safetensors")
    derived = tenmap.derive({"1": base["c"], "2": base["a"], "3": base["c"], "4": base["c"][1000:], "5": base["b"], "6": base["a"],
                             "7": base["c"] + base["c"], "8": base["c"][:2000]})  # fmt: skip
    views = {name: derived[name].numpy(writable=True) for name in derived}
    for number, view in enumerate(views.values()):
        view += number + 1
    for number, view in enumerate(views.values()):
        assert (view == number + 1).all()
    assert not base["c"].numpy().any()


def test_dtypes_are_those_asked_for(base, arrays):
    made = {**base, "sum": base["half"] + base["w"], "moved": tenmap.expr(base["w"]).T}
    derived = tenmap.derive(made, "bfloat16")
    assert {name: tensor.dtype for name, tensor in derived.items()} == {**dict.fromkeys(made, "BF16"), "n": "I64"}
    for name in ("w", "conv"):
        assert same(derived[name].numpy(), rounded(f64(arrays[name]), "BF16"))
    assert same(derived["moved"].numpy(), rounded(f64(arrays["w"]).T, "BF16"))
    derived = tenmap.derive(made, {"sum": "float32", "*ov*": "F16"})
    assert [derived[name].dtype for name in ("w", "sum", "moved", "half")] == ["F32", "F32", "F16", "BF16"]
    with pytest.raises(tenmap.Error, match='"n": term 0 is I64; only floating-point'):
        tenmap.derive(made, {"n": "float32"})
    with pytest.raises(TypeError, match="not a dtype"):
        tenmap.derive(made, "no dtype")


def test_a_sum_is_not_rounded_within_another(base, arrays):
    inner = tenmap.concat([base["half"] + base["v"], 1 * base["half"]])
    derived = tenmap.derive({"x": inner[:8] - base["half"]})["x"]
    exact = (f64(arrays["half"]) + f64(arrays["v"])) - f64(arrays["half"])
    assert derived.dtype == "BF16" and same(derived.numpy("F64"), exact)


def test_what_is_named_twice_is_one_intermediate(base):
    inner = tenmap.concat([base["w"], base["v"]])
    derived = tenmap.derive({"a": inner + inner, "b": 2 * inner, "c": inner})
    terms = [part.tensor.name for name in "ab" for part in derived[name].parts]
    assert terms == ["a (1)"] * 3
    assert [part.tensor.name for part in derived["a"].parts[0].tensor.parts] == ["w", "v"]


# Lifetime.


def test_the_sources_may_be_closed(path, arrays):
    with tenmap.open(path) as base, tenmap.open(path.read_bytes()) as second, tenmap.open(io.BytesIO(path.read_bytes())) as third:
        x = tenmap.concat([base["w"], second["v"]])[4:12] + third["half"]
        derived = tenmap.derive({"x": x, "w": base["w"], "of memory": second["v"], "of a file object": third["v"]})
    assert base.closed and second.closed and third.closed
    expected = f64(numpy.concatenate([arrays["w"], arrays["v"]])[4:12]) + f64(arrays["half"])
    del base, second, third, x
    assert same(derived["x"].numpy("F64"), expected)
    tensor, view = derived["x"], derived["w"].numpy()
    again = tenmap.derive({"y": 2 * derived["x"], "w": derived["w"]})
    derived.close()
    assert derived.closed and same(again["y"].numpy("F64"), 2 * expected) and same(view, arrays["w"])
    assert same(tensor.numpy("F64"), expected) and "closed" in repr(derived)
    parts = tensor.parts
    del again, derived, tensor
    assert same(parts[1].tensor.numpy(), arrays["half"])
    with pytest.raises(ValueError, match="closed"):
        tenmap.open(path).close() or closed(path)["w"]


def closed(path):
    model = tenmap.open(path)
    model.close()
    return model


def test_an_expression_holds_its_models(path, arrays):
    x = tenmap.open(path)["w"] + tenmap.open(path)["v"]
    assert same(tenmap.derive({"x": x})["x"].numpy("F64"), f64(arrays["w"]) + f64(arrays["v"]))


def test_long_chains_of_models_end(base, arrays):
    model = base
    for _ in range(100):
        model = tenmap.derive({"w": model["w"]})
    assert numpy.shares_memory(model["w"].numpy(), base["w"].numpy())
    with pytest.raises(ValueError, match="101 deep: at most 100"):
        tenmap.derive({"w": model["w"]})
    del model


def test_what_a_derived_model_has(base, path, tmp_path):
    derived = tenmap.derive({"x": base["w"] + base["v"], "y": base["n"]})
    assert derived.metadata == {"who": "base"} and [shard.path for shard in derived.shards] == [str(path)]
    assert derived.path is None and derived.missing == [] and derived.nbytes == 192 + 384
    assert repr(derived) == "<tenmap.Model of derived tensors: 2 tensors, 576 B>"
    assert "of derived tensors" in derived._repr_html_() and derived.shards[derived["y"].shard].path == str(path)
    assert derived.residency()[0] >= 0 and derived.advise("populate") is None
    with pytest.raises(TypeError, match="opened from a path can be pickled"):
        derived.__reduce__()
    with pytest.raises(TypeError, match="reads files.*or derived"):
        tenmap.diff(derived, path)
    taken = derived.take({"x": (8, 6)}, "float64")["x"]
    derived.close()
    assert taken.shape == (8, 6)


# Sources whose reads fail or call again.


class File(io.BytesIO):
    """A file whose read() does something first."""

    action = staticmethod(lambda: None)

    def read(self, size=-1):
        self.action()
        return super().read(size)


def test_an_exception_of_a_source_is_raised_as_it_was(path, tmp_path):
    files = [File(path.read_bytes()) for _ in range(3)]
    models = [tenmap.open(file) for file in files]
    derived = tenmap.derive({"x": models[0]["w"] + models[1]["v"], "y": models[2]["w"]})

    def fail(number):
        raise ZeroDivisionError(number)

    for number, file in enumerate(files):  # each has had one exception when the last one has
        file.action = lambda: fail(number)
        for call in (lambda: derived.load(threads=2), lambda: derived["xxy"[number]].numpy(),
                     lambda: tenmap.measure([derived["xxy"[number]]])):  # fmt: skip
            with pytest.raises(ZeroDivisionError, match=str(number)):
                call()
        file.action = lambda: None
    assert derived.load()["x"].shape == (8, 6)


def test_a_source_must_not_read_what_is_derived_from_it(path):
    file = File(path.read_bytes())
    derived = tenmap.derive({"x": tenmap.expr(tenmap.open(file)["w"]).T})
    again = tenmap.derive({"y": 2 * derived["x"]})
    for call in (lambda: again["y"].numpy(), lambda: again.load(), lambda: again.take(["y"])):
        file.action = call
        with pytest.raises(RuntimeError, match="uses the model that is being read"):
            again["y"].numpy()


def test_a_destination_must_not_lie_in_a_source(path):
    data = bytearray(path.read_bytes())
    derived = tenmap.derive({"x": tenmap.expr(tenmap.open(data)["w"]).T})
    again = tenmap.derive({"y": 2 * derived["x"]})
    into = numpy.frombuffer(data, "float32", 48, offset=len(data) - 192).reshape(6, 8)
    with pytest.raises(ValueError, match="lies in the bytes that the model was opened from"):
        again.load(out={"y": into})


def test_a_file_that_shrinks_is_an_error(path):
    derived = tenmap.derive({"x": 2 * tenmap.open(path, backend="read")["w"]})
    with open(path, "r+b") as file:
        file.truncate(200)
    with pytest.raises(tenmap.Error, match="base.safetensors"):
        derived["x"].numpy()


# What is refused.

REFUSED = {
    "a shape": (ValueError, "cannot be added: nothing broadcasts", lambda m: m["w"] + m["a"]),
    "a row": (ValueError, "nothing broadcasts", lambda m: m["w"] + m["w"][0]),
    "a product's shape": (ValueError, "cannot be multiplied", lambda m: m["w"] @ m["v"]),
    "a product of four axes": (ValueError, "cannot be multiplied", lambda m: m["up"] @ m["down"]),
    "a number": (TypeError, "unsupported operand", lambda m: m["w"] + 1),
    "a number on the left": (TypeError, "unsupported operand", lambda m: 1 - m["w"]),
    "an array": (TypeError, "tenmap.expr", lambda m: (m["w"] + m["v"]) + numpy.ones((8, 6))),
    "an array on the left": (TypeError, "tenmap.expr", lambda m: numpy.ones((8, 6)) + (m["w"] + m["v"])),
    "a factor tensor": (TypeError, "unsupported operand", lambda m: m["w"] * m["v"]),
    "a step": (ValueError, "with a step cannot be derived", lambda m: m["w"][::2] + m["w"][::2]),
    "a step of an expression": (ValueError, "the step 2 cannot", lambda m: tenmap.expr(m["w"])[::2]),
    "a new axis": (TypeError, "indexed by integers", lambda m: tenmap.expr(m["w"])[None]),
    "an index": (IndexError, "out of bounds for axis 1 with size 6", lambda m: tenmap.expr(m["w"])[0, 6]),
    "indexes": (IndexError, "too many indices", lambda m: tenmap.expr(m["w"])[0, 0, 0]),
    "ellipses": (IndexError, "more than one ellipsis", lambda m: tenmap.expr(m["w"])[..., ...]),
    "a reshape": (ValueError, "numbers of elements differ", lambda m: tenmap.expr(m["w"]).reshape(7, -1)),
    "two unknowns": (ValueError, "numbers of elements differ", lambda m: tenmap.expr(m["w"]).reshape(-1, -1)),
    "axes": (ValueError, "no permutation", lambda m: tenmap.expr(m["w"]).transpose(0, 0)),
    "an axis": (ValueError, "no axis 2 of 2", lambda m: tenmap.expr(m["w"]).transpose(0, 2)),
    "concat of none": (ValueError, "of no tensors", lambda m: tenmap.concat([])),
    "concat's shapes": (ValueError, "nothing broadcasts", lambda m: tenmap.concat([m["w"], m["v"][:, 1:]])),
    "stack's shapes": (ValueError, "nothing broadcasts", lambda m: tenmap.stack([m["w"], m["v"][1:]])),
    "a stack's axis": (ValueError, "no axis 3 of 3", lambda m: tenmap.stack([m["w"]], 3)),
    "values of an expression": (TypeError, "has no values yet", lambda m: numpy.asarray(m["w"] + m["v"])),
    "an assignment": (AttributeError, "do not change", lambda m: setattr(m["w"] + m["v"], "shape", ())),
    "a truth": (TypeError, "ambiguous", lambda m: bool(m["w"] + m["v"])),
    "an Expression": (TypeError, "tenmap.expr", lambda m: tenmap.Expression()),
    "no mapping": (TypeError, "a mapping of names", lambda m: tenmap.derive([m["w"]])),
    "an eager transposition": (TypeError, r"tenmap\.expr\(tensor\)\.T is computed later", lambda m: tenmap.derive({"x": m["w"].T})),
    "a name": (TypeError, "must be a str", lambda m: tenmap.derive({1: m["w"]})),
    "a null character": (ValueError, "null character", lambda m: tenmap.derive({"a\0b": m["w"]})),
    "a surrogate": (UnicodeEncodeError, "surrogates", lambda m: tenmap.derive({"\ud800": m["w"]})),
    "no tensors": (tenmap.Error, "no tensor to derive", lambda m: tenmap.derive({})),
    "a factor of 0": (tenmap.Error, '"x": term 0: its factor is 0', lambda m: tenmap.derive({"x": 0 * m["w"]})),
    "an infinite factor": (tenmap.Error, "inf, is not finite", lambda m: tenmap.derive({"x": 1e300 * (1e300 * m["w"])})),
    "integers": (tenmap.Error, "term 1 is I64; only floating-point", lambda m: tenmap.derive({"x": m["w"] + m["n"]})),
    "dtypes": (tenmap.Error, "moved as they are", lambda m: tenmap.derive({"x": tenmap.concat([m["w"], m["n"]])})),
    "65 terms": (tenmap.Error, "at most 64", lambda m: tenmap.derive({"x": sum([m["w"]] * 65)})),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused(base, what):
    kind, message, call = REFUSED[what]
    with pytest.raises(kind, match=message):
        call(base)


def test_an_error_names_the_tensor(base):
    with pytest.raises(tenmap.Error) as caught:
        tenmap.derive({"good": base["w"], "bad": base["w"] * float("nan")})
    assert caught.value.tensor == "bad" and caught.value.status == tenmap.Status.ARGUMENT


def test_expressions_are_at_most_8_deep(base, arrays):
    x = base["w"]
    for depth in range(1, 10):
        x = tenmap.concat([x, x])[4:12] * 2
        if depth <= 4:  # the concat and the sum count
            assert same(tenmap.derive({"x": x})["x"].numpy(), numpy.roll(arrays["w"], -4 * depth, 0) * 2**depth)
    with pytest.raises(tenmap.Error, match="9 deep; at most 8"):
        tenmap.derive({"x": x})


def test_arrays_with_tensors_are_computed_at_once_as_before(base, arrays):
    ones = numpy.ones((8, 6), "float32")
    for got, expected in [(base["w"] + ones, arrays["w"] + ones), (ones - base["w"], ones - arrays["w"]),
                          (base["b"] @ arrays["a"], arrays["b"] @ arrays["a"]), (base["w"] * ones, arrays["w"])]:  # fmt: skip
        assert isinstance(got, numpy.ndarray) and numpy.allclose(got, expected)


def test_an_array_becomes_a_term(base, arrays):
    ones = numpy.ones((8, 6), ml_dtypes.bfloat16)
    derived = tenmap.derive({"x": base["w"] + tenmap.expr(ones), "n": tenmap.expr(numpy.arange(5))})
    ones[:] = 7  # it was copied
    assert same(derived["x"].numpy("F64"), f64(arrays["w"]) + 1) and derived["n"].tolist() == [0, 1, 2, 3, 4]


def test_expressions_say_what_they_are(base):
    x = tenmap.stack([base["half"], base["half"]])
    assert (x.shape, x.dtype, x.ndim, x.size, len(x)) == ((2, 8, 6), "BF16", 3, 96, 2)
    assert repr(x) == "<tenmap.Expression: BF16 [2, 8, 6]>" and (x + x).dtype == "BF16"
    assert (base["n"] + base["w"]).dtype == "F32" and [row.shape for row in x] == [(8, 6)] * 2
    assert x.T.shape == (6, 8, 2) and x.transpose((0, 2, 1)).shape == (2, 6, 8) and x.reshape((4, -1)).shape == (4, 24)


# Quantized terms.


def test_blocks_are_moved_as_they_are_or_computed_with_as_values(gguf_path):
    with tenmap.open(gguf_path, dequantize=True) as values, tenmap.open(gguf_path) as blocks:
        made = {"same": values["w"], "rows": tenmap.concat([values["w"][1:], values["w"]]), "sum": values["w"] + blocks["w"],
                "turned": (1 * values["w"]).T, "part": values["w"][:, 3:7] * 2}  # fmt: skip
        derived = tenmap.derive(made)
        stored = tenmap.derive({"same": blocks["w"], "rows": tenmap.concat([blocks["w"][1:], blocks["w"]])})
        wide = tenmap.derive(made, "float64")
    assert [derived[name].dtype for name in made] == ["F32"] * 5 and [derived[n].scheme for n in ("same", "sum")] == ["Q8_0", "derived"]
    expected = {"same": VALUES, "rows": numpy.concatenate([VALUES[1:], VALUES]), "sum": 2 * VALUES, "turned": VALUES.T,
                "part": 2 * VALUES[:, 3:7]}  # fmt: skip
    for name, array in expected.items():
        assert same(derived[name].numpy(), array) and same(wide[name].numpy(), f64(array))
    assert stored["same"].dtype == "Q8_0" and bytes(stored["same"].bytes) == BLOCKS and stored["same"].mapped
    assert stored["rows"].dtype == "Q8_0" and same(stored["rows"].numpy("F32"), expected["rows"])


def test_quantized_weights_are_terms(tmp_path):
    codes = random_array("F8_E4M3", (128, 128)).astype("float32")
    codes = numpy.where(numpy.isnan(codes), 1, codes).astype(DTYPES["F8_E4M3"])
    scales = numpy.array([[0.5]], "float32")
    tenmap.save_file({"l.weight": codes, "l.weight_scale_inv": scales, "b": codes[:, :2].astype("float32")}, tmp_path / "q.safetensors")
    with tenmap.open(tmp_path / "q.safetensors", dequantize=True) as model:
        weight, b = model["l.weight"], model["b"]
        assert weight.scheme == "fp8-tensor"
        derived = tenmap.derive({"renamed": weight, "lora": weight + 2 * (b @ tenmap.expr(b).T), "rows": weight[3:5]})
    values = 0.5 * f64(codes)
    assert derived["renamed"].scheme == "fp8-tensor" and [part.role for part in derived["renamed"].parts] == ["values", "scales"]
    assert same(derived["renamed"].parts[0].tensor.numpy(), codes) and same(derived["renamed"].numpy("F64"), values)
    assert same(derived["rows"].numpy("F64"), values[3:5])
    b = f64(codes[:, :2])
    assert same(derived["lora"].numpy("F64"), values + 2 * matmul(b, b.T))
