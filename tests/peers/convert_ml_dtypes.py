"""Compares conversions with numpy and ml_dtypes: convert_ml_dtypes.py LIBTENMAP.so

Converts all inputs of 8 and 16 bits, and a sample of F32 and F64, between every pair of dtypes that
both support. Any NaN equals any NaN. Exits with 77 and says why if numpy or ml_dtypes is missing.
"""
import ctypes
import sys

import peer

peer.hand_over()
try:
    import ml_dtypes
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; pip install numpy ml_dtypes, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

np.seterr(all="ignore")  # the test casts signaling NaNs on purpose

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.tenmap_convert.restype = ctypes.c_int32
IDS = peer.dtype_values(LIBRARY)


def numpy_type(name):
    """Returns numpy's type, or ml_dtypes'; None if this version of ml_dtypes does not have it."""
    try:
        return np.dtype(name).type
    except TypeError:
        return getattr(ml_dtypes, name, None)


# By dtype; complex numbers are not converted.
TYPES = {name: numpy_type(theirs) for name, theirs in peer.numpy_names().items() if name != "C64"}
FLOATS = {name: kind for name, kind in TYPES.items() if kind and name[0] in "FB" and name != "BOOL"}
INTEGERS = {name: kind for name, kind in TYPES.items() if name[0] in "IU" or name == "BOOL"}
BITS = {name: LIBRARY.tenmap_dtype_bits(value) for name, value in IDS.items()}
BITS = {name: bits for name, bits in BITS.items() if 0 < bits < 8}


def pack(codes, bits):
    """Packs one code per byte into a little-endian bit stream."""
    if bits == 8:
        return codes
    spread = (codes[:, None] >> np.arange(bits, dtype=np.uint8)) & 1
    return np.packbits(spread.astype(np.uint8).ravel(), bitorder="little")


def unpack(stream, bits, count):
    if bits == 8:
        return stream
    spread = np.unpackbits(stream, count=count * bits, bitorder="little").reshape(count, bits)
    return (spread << np.arange(bits, dtype=np.uint8)).sum(axis=1).astype(np.uint8)


def source(name, dtype):
    size = np.dtype(dtype).itemsize
    bits = BITS.get(name, size * 8)
    if bits <= 8:
        codes = np.tile(np.arange(1 << bits, dtype=np.uint8), 9)
        return codes % 2 == 1 if dtype is np.bool_ else codes.view(dtype)
    if bits == 16:
        return np.arange(65536, dtype=np.uint16).view(dtype)
    rng = np.random.default_rng(7)
    whole = rng.integers(0, 1 << bits, 200000, dtype=np.uint64)
    whole >>= rng.integers(0, bits, 200000, dtype=np.uint64) if name in INTEGERS else np.uint64(0)
    values = whole.astype(f"u{size}").view(dtype)
    if name in INTEGERS:
        return values
    near = (rng.standard_normal(200000) * np.exp2(rng.integers(-30, 20, 200000))).astype(dtype)
    ties = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)
    with np.errstate(all="ignore"):
        ties = (ties * (1 + 2.0 ** -9)).astype(dtype)
    return np.concatenate([values, near, ties])


def convert(to, to_dtype, name, values):
    count = len(values)
    bits = BITS.get(to, np.dtype(to_dtype).itemsize * 8)
    data = values.view(np.uint8)
    if name in BITS:
        data = pack(data, BITS[name])
    data = np.ascontiguousarray(data)
    out = np.zeros((count * bits + 7) // 8, dtype=np.uint8)
    status = LIBRARY.tenmap_convert(
        ctypes.c_uint32(IDS[to]), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(out.nbytes),
        ctypes.c_uint32(IDS[name]), data.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(count),
        ctypes.c_uint32(0), None)
    if status != 0:
        sys.exit(f"{name} to {to}: status {status}")
    return unpack(out, bits, count).view(to_dtype) if to in BITS else out.view(to_dtype)


def cast(values, to_dtype):
    """Returns numpy's conversion; if it has none between two small floats, exactly, through F32."""
    try:
        return values.astype(to_dtype)
    except TypeError:
        return values.astype(np.float32).astype(to_dtype)


def is_special(to, name, values, theirs):
    """Returns where the two differ on purpose; docs/format.md has our rule."""
    wide = values.astype(np.float64)
    skip = np.isnan(wide)
    if to in BITS:  # the target has no NaN; infinities are clamped here
        skip |= np.isinf(wide)
    if to == "F8_E8M0":  # zero and negatives become NaN here, subnormals round
        skip |= ~(wide >= 2.0 ** -126)
    if name == "U64" or name == "I64":
        # numpy converts these through F64 or F32, so only values that those hold exactly can be
        # compared.
        skip |= np.abs(wide) >= 2.0 ** 24
    elif name in ("I32", "U32", "F64") and np.dtype(theirs.dtype).itemsize < 4:
        # ml_dtypes rounds these to F32 first: compares only the values that F32 holds.
        with np.errstate(all="ignore"):
            skip |= wide.astype(np.float32).astype(np.float64) != wide
    return skip


def main():
    pairs = compared = 0
    for name, dtype in {**FLOATS, **INTEGERS}.items():
        values = source(name, dtype)
        for to, to_dtype in FLOATS.items():
            if to == name:
                continue
            ours = convert(to, to_dtype, name, values)
            with np.errstate(all="ignore"):
                theirs = cast(values, to_dtype)
                skip = is_special(to, name, values, theirs)
            a, b = ours[~skip], theirs[~skip]
            nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
            same = nan | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}"))
            if not same.all():
                at = int(np.flatnonzero(~same)[0])
                sys.exit(f"{name} to {to}: {(~same).sum()} differ, first {values[~skip][at]!r}: "
                         f"{a[at]!r}, not {b[at]!r}")
            nans = values.astype(np.float64)
            if to not in BITS and np.isnan(nans).any():
                assert np.isnan(ours[np.isnan(nans)].astype(np.float64)).all(), f"{name} to {to}"
            pairs += 1
            compared += len(a)
    print(f"{pairs} pairs, {compared} elements equal those of ml_dtypes {ml_dtypes.__version__}")


main()
