"""Compares tenmap_measure with exact arithmetic and numpy.histogram:
measure_exact.py LIBTENMAP.so [ROUNDS]

Generates tensors of many distributions, including hostile ones: values whose squares overflow or
underflow F64, a spread of a few units in the last place of the mean, outliers where blocks begin.
Mean, deviation and norm are computed with integers of arbitrary precision. Exits with 77 and says
why if numpy is missing.
"""
import ctypes
import json
import math
import sys

import peer

peer.hand_over()
try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; pip install numpy, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
DIGITS = 1e-12  # what the header promises
BLOCK = 4096
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": None, "I8": np.int8,
          "U16": np.uint16, "I16": np.int16, "I32": np.int32, "U32": np.uint32, "I64": np.int64,
          "U64": np.uint64}
BINS = [1, 2, 3, 7, 8, 10, 64, 100, 1000]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("os_error", ctypes.c_int32), ("shard", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("offset", ctypes.c_uint64),
                ("index", ctypes.c_uint64), ("message", ctypes.c_char * 480)]


class Stats(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_uint64) for name in "count zeros subnormals nans infinities".split()] +
                [(name, ctypes.c_double) for name in "min max mean std norm".split()] +
                [("reserved", ctypes.c_uint64 * 4)])


class StatsOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("threads", ctypes.c_uint32),
                ("flags", ctypes.c_uint32), ("bins", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("low", ctypes.c_double), ("high", ctypes.c_double), ("histogram", ctypes.c_void_p),
                ("progress", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]


LIB = ctypes.CDLL(sys.argv[1])
LIB.tenmap_open_memory.argtypes = [ctypes.c_char_p, ctypes.c_size_t] + [ctypes.c_void_p] * 3
LIB.tenmap_find.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
LIB.tenmap_find.restype = ctypes.c_void_p
LIB.tenmap_measure.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_void_p] * 3
LIB.tenmap_close.argtypes = [ctypes.c_void_p]


def measure(dtype, data, count, bins=0, low=0.0, high=0.0):
    """Returns the statistics and the histogram of one tensor of these bytes."""
    header = json.dumps({"t": {"dtype": dtype, "shape": [count],
                               "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    file = len(header).to_bytes(8, "little") + header + data
    error, model, stats = Error(), ctypes.c_void_p(), Stats()
    if LIB.tenmap_open_memory(file, len(file), None, ctypes.byref(model), ctypes.byref(error)):
        sys.exit(f"refused: {error.message.decode()}")
    tensors = (ctypes.c_void_p * 1)(LIB.tenmap_find(model, b"t"))
    counts = np.zeros(max(bins, 1), np.uint64)
    options = StatsOptions(ctypes.sizeof(StatsOptions), 2, 0, bins, 0, low, high,
                           counts.ctypes.data if bins else None, None, None)
    if LIB.tenmap_measure(tensors, 1, ctypes.byref(options), ctypes.byref(stats), ctypes.byref(error)):
        sys.exit(f"refused: {error.message.decode()}")
    LIB.tenmap_close(model)
    return stats, counts[:bins]


def root(numerator, denominator):
    """Returns the root of a fraction as (integer, power of two), to more than 60 digits."""
    if numerator == 0:
        return 0, 0
    shift = max(0, 420 + denominator.bit_length() - numerator.bit_length())
    shift += shift % 2
    return math.isqrt((numerator << shift) // denominator), -(shift // 2)


def apart(got, integer, power, reference):
    """Returns |got - exact| relative to the exact reference, computed with integers."""
    if math.isnan(got) or math.isinf(got):
        return math.inf
    mantissa, exponent = math.frexp(got)
    ours, at = int(math.ldexp(mantissa, 53)), exponent - 53
    least = min(at, power, reference[1])
    difference = abs((ours << (at - least)) - (integer << (power - least)))
    whole = reference[0] << (reference[1] - least)
    if difference == 0 or difference > whole * 10**6:
        return math.inf if difference else 0.0
    return float(difference * 10**30 // whole) / 1e30


def exact(values):
    """Returns mean, deviation and norm of doubles, each as (integer, power of two)."""
    mantissas, exponents = np.frexp(values)
    shifts = exponents.astype(int) - 53 + 1127  # makes every one an integer
    whole = [int(m) << s for m, s in zip((mantissas * 2.0**53).tolist(), shifts.tolist())]
    n, total, squares = len(whole), sum(whole), sum(x * x for x in whole)
    mean = (total << 420) // n, -420 - 1127
    spread, power = root(n * squares - total * total, n * n)
    norm, norm_power = root(squares, 1)
    return mean, (spread, power - 1127), (norm, norm_power - 1127)


def larger(a, b):
    least = min(a[1], b[1])
    return a if abs(a[0]) << (a[1] - least) > abs(b[0]) << (b[1] - least) else b


def check(name, dtype, values, data, worst):
    stats, _ = measure(dtype, data, len(values))
    if stats.min != values.min() or stats.max != values.max():
        sys.exit(f"{name} of {dtype}: from {stats.min} to {stats.max}")
    mean, std, norm = exact(values)
    of_mean = larger((abs(mean[0]), mean[1]), std)
    # A subnormal result has fewer digits than others, so half a unit in its last place is allowed.
    for what, got, want, reference in (("mean", stats.mean, mean, of_mean), ("std", stats.std, std, std),
                                       ("norm", stats.norm, norm, norm)):
        if math.isinf(got) and want[0].bit_length() + want[1] > 1024:
            continue
        error = apart(got, *want, reference)
        if error > DIGITS and apart(got, *want, (1, -1074)) > 0.500001:
            print(f"{what} of {name} as {dtype} is {got!r}: off by {error:.3g} of it")
            worst["failed"] = worst.get("failed", 0) + 1
        elif error <= DIGITS:
            worst[what] = max(worst.get(what, (0, "")), (error, f"{name} as {dtype}"))


def check_bins(name, dtype, values, data, rng, worst):
    bins = int(rng.choice(BINS))
    low = high = 0.0
    if rng.random() < 0.5:
        low, high = sorted(float(x) for x in rng.choice(values, 2))
    if values.min() == values.max():
        return
    ends = (low, high) if low < high else (float(values.min()), float(values.max()))
    try:
        with np.errstate(all="raise", under="ignore"):
            edges = np.linspace(*ends, bins + 1)
            want, _ = np.histogram(values, edges)
            # With a number of bins, numpy starts from a guess, which is wrong for subnormal widths.
            if (ends[1] - ends[0]) / bins > 1e-290 and (want != np.histogram(values, bins, ends)[0]).any():
                sys.exit(f"numpy does not agree with itself on {name}, {bins} bins of {ends}")
    except (ValueError, FloatingPointError):  # more bins than numbers between the ends, or overflow
        return
    _, got = measure(dtype, data, len(values), bins, low, high)
    if (got != want).any():
        print(f"histogram of {name} as {dtype}, {bins} bins from {ends[0]!r} to {ends[1]!r}: "
              f"{got.tolist()[:12]}, not {want.tolist()[:12]}")
        worst["failed"] = worst.get("failed", 0) + 1
    worst["histograms"] = worst.get("histograms", 0) + 1


def distributions(rng):
    """Yields a name and float64 values, which the dtypes may clip and round."""
    n = int(rng.choice([1, 2, 5, 100, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7, 20000]))
    normal, where = rng.standard_normal(n), np.arange(n)
    yield "a normal distribution", normal
    yield "weights", normal * 0.02
    yield "a layer norm's", 1 + normal * 0.01
    yield "a uniform distribution", rng.random(n)
    yield "a heavy tail", rng.standard_cauchy(n)
    yield "all magnitudes", normal * 2.0**rng.integers(-1000, 1000, n)
    yield "magnitudes of F32", normal * 2.0**rng.integers(-140, 120, n)
    yield "random bits", np.nan_to_num(np.frombuffer(rng.bytes(8 * n)), nan=0, posinf=0, neginf=0)
    yield "one value", np.full(n, rng.standard_normal())
    yield "zeros", np.zeros(n)
    yield "whole numbers", np.round(normal * 1000)
    yield "halves", np.round(normal * 20) / 2
    for mean, spread in ((1e15, 1), (1e15, 1e3), (1e9, 1e-6), (-1e9, 1), (1e4, 1e-3), (1e2, 1),
                         (1e300, 1e285), (1e-300, 1e-315), (3.5, 1e-15), (1e18, 1e9)):
        yield f"{spread:g} around {mean:g}", mean + spread * normal
        yield f"a slope of {spread:g} at {mean:g}", mean + spread * (where / n * 50)
        yield f"levels of {spread:g} at {mean:g}", mean + spread * np.floor(where / 1000)
    for scale in (1e-320, 1e-310, 1e-300, 1e-170, 1e-155, 1e-110, 1e-105, 1e105, 1e110, 1e150, 1e160, 1e300, 1e307):
        yield f"the scale of {scale:g}", scale * normal
        yield f"positive, the scale of {scale:g}", scale * (1 + rng.random(n))
        yield f"few of the scale of {scale:g}", scale * normal * (rng.random(n) < 0.01)
        yield f"a block at {scale:g} after zeros", scale * normal * (where >= BLOCK)
        yield f"1 in blocks, and {scale:g}", np.where(where // BLOCK % 2, 1.0, scale * normal)
        yield f"about 1, and {scale:g} in blocks", np.where(where // BLOCK % 2, scale * normal, 1 + normal)
    for size in (1e2, 1e4, 1e7, 1e12, 1e30):
        first = np.where(where % BLOCK == 0, size, 1.0)
        yield f"{size:g} first in each block", first * normal
        yield f"{size:g} first in each block, spread at 1", np.where(where % BLOCK, 1 + normal, size)
        yield f"{size:g} last in each block", np.where(where % BLOCK == BLOCK - 1, size, normal)
    yield "the largest numbers", np.where(where % 2, 1, -1) * np.finfo(np.float64).max * rng.random(n)


def as_dtype(dtype, values):
    """Returns the values in this dtype, as float64 and as bytes."""
    if dtype == "BF16":
        with np.errstate(over="ignore"):
            bits = values.astype(np.float32).view(np.uint32) >> 16
        values = (bits << 16).astype(np.uint32).view(np.float32).astype(np.float64)
        values = np.where(np.isfinite(values), values, 0)
        return values, ((values.astype(np.float32).view(np.uint32)) >> 16).astype("<u2").tobytes()
    kind = np.dtype(DTYPES[dtype])
    with np.errstate(over="ignore"):
        if kind.kind == "f":
            stored = values.astype(kind)
            stored = np.where(np.isfinite(stored), stored, kind.type(0))
        else:
            ends = np.iinfo(kind)
            inside = (values >= ends.min) & (values < float(ends.max))
            stored = np.where(inside, values, 7).astype(kind)
    return stored.astype(np.float64), stored.astype(kind.newbyteorder("<")).tobytes()


def main():
    worst = {}
    whole = np.arange(-100, 97)
    got, want = measure("I64", whole.astype("<i8").tobytes(), 197, 8)[1], np.histogram(whole, 8)[0]
    if (got != want).any():
        print(f"histogram of -100 to 96 in 8 bins: {got.tolist()}, not {want.tolist()}")
        worst["failed"] = 1
    cases = 0
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        for name, values in distributions(rng):
            for dtype in DTYPES if seed % 3 == 0 else ["F64", "F32", "BF16"]:
                with np.errstate(all="ignore"):
                    have, data = as_dtype(dtype, np.asarray(values))
                check(name, dtype, have, data, worst)
                check_bins(name, dtype, have, data, rng, worst)
                cases += 1
    for what in ("mean", "std", "norm"):
        print(f"{what}: at most {worst[what][0]:.2g} off ({worst[what][1]})")
    print(f"{cases} tensors, {worst['histograms']} histograms, {worst.get('failed', 0)} wrong")
    sys.exit(1 if worst.get("failed") else 0)


main()
