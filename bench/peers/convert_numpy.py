"""Times numpy + ml_dtypes on the pairs of bench_convert. Prints lines of: numpy PAIR BYTES SECONDS.

Converts into an existing array (np.copyto), which is the fastest that numpy offers. Exits with 77
and says why if a package is missing.
"""
import sys
import time

try:
    import ml_dtypes
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

TYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "F64": np.float64,
         "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
         "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "I8": np.int8, "U8": np.uint8, "I64": np.int64}
PAIRS = ("BF16-F32 F16-F32 F8_E4M3-F32 F8_E5M2-F32 F64-F32 I8-F32 U8-F32 F32-BF16 F32-F16 "
         "F32-F8_E4M3 F32-F8_E5M2 BF16-F16 F16-BF16 F8_E4M3-BF16 F8_E4M3-F16 F64-BF16 I64-F16 "
         "F8_E4M3FNUZ-F32 BF16-F8_E4M3").split()
SIZES = (64 << 10, 1 << 20, 16 << 20, 1 << 30)

weights = (np.random.default_rng(1).random(1 << 18, dtype=np.float32) - 0.5) * 0.06
for pair in PAIRS:
    source, target = (TYPES[name] for name in pair.split("-"))
    for size in SIZES:
        count = size // np.dtype(target).itemsize
        src = np.resize(weights * (1000 if np.dtype(source).kind in "iu" else 1), count)
        src = src.astype(np.int32).astype(source) if np.dtype(source).kind in "iu" else src.astype(source)
        dst = np.zeros(count, dtype=target)
        best, began = float("inf"), time.monotonic()
        while time.monotonic() - began < (2 if size >= 1 << 30 else 0.3) or best == float("inf"):
            start = time.perf_counter()
            np.copyto(dst, src, casting="unsafe")
            best = min(best, time.perf_counter() - start)
        print(f"numpy\t{pair}\t{size}\t{best:.9f}", flush=True)
