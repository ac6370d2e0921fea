"""Times the work of bench_quantized in eager torch, in numpy, and with bitsandbytes' native code
if it has any.

    quantized_python.py TABLE ROWS COLUMNS

TABLE is the output of bench_quantized. Each formula is that of the scheme's own library. It runs on
whole arrays, on one thread, and the minimum of several times counts. Prints one row per scheme and
dtype, with how many times faster tenmap was. Exits with 77 and says why if torch is missing.
"""
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)
try:
    import bitsandbytes.functional as bnb
except Exception as error:  # noqa: BLE001  (it fails in many ways where it is half installed)
    bnb = None
    print(f"bitsandbytes is left out: {error}", file=sys.stderr)

torch.set_num_threads(1)
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E2M1 += [-x for x in E2M1]
AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


class Torch:
    f32 = torch.float32
    bf16 = torch.bfloat16

    def codes(self, *shape, dtype="uint8"):
        return torch.randint(0, 100, shape, dtype=torch.int32).to(getattr(torch, dtype))

    def scales(self, *shape):
        return torch.rand(shape)

    def table(self, values):
        return torch.tensor(values, dtype=torch.float32)

    def shifts(self, values, dtype):
        return torch.tensor(values, dtype=getattr(torch, dtype))

    def spread(self, x, n, axis):
        return x.repeat_interleave(n, dim=axis)

    def take(self, table, index):
        return table[index.long()]

    def stack(self, parts):
        return torch.stack(parts, dim=-1)

    def f8(self, codes):
        return codes.view(torch.float8_e4m3fn)

    def to(self, x, dtype):
        return x.to(dtype)

    def power(self, exponents):
        return torch.ldexp(torch.ones(exponents.shape), exponents.to(torch.int32) - 127)

    def turn(self, x):
        return x.t().contiguous()


class Numpy(Torch):
    f32 = np.float32
    bf16 = None  # set if ml_dtypes is installed

    def codes(self, *shape, dtype="uint8"):
        return np.random.default_rng(1).integers(0, 100, shape).astype(dtype)

    def scales(self, *shape):
        return np.random.default_rng(1).random(shape, dtype=np.float32)

    def table(self, values):
        return np.array(values, dtype=np.float32)

    def shifts(self, values, dtype):
        return np.array(values, dtype=dtype)

    def spread(self, x, n, axis):
        return np.repeat(x, n, axis=axis)

    def take(self, table, index):
        return table[index]

    def stack(self, parts):
        return np.stack(parts, axis=-1)

    def f8(self, codes):
        return codes.view(ml_dtypes.float8_e4m3fn)

    def to(self, x, dtype):
        return x.astype(dtype)

    def power(self, exponents):
        return np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)

    def turn(self, x):
        return np.ascontiguousarray(x.T)


try:
    import ml_dtypes

    Numpy.bf16 = ml_dtypes.bfloat16
except ImportError:
    Numpy = None
    print("numpy is left out: it needs ml_dtypes", file=sys.stderr)


def pairs(x, codes):
    """Returns the two halves of each byte, the low one first."""
    return x.stack([codes & 15, codes >> 4]).reshape(codes.shape[0], -1)


def fields(x, words):
    """Returns the eight codes of each word, the lowest first, along a new last axis."""
    return (words[..., None] >> x.shifts(list(range(0, 32, 4)), "int32")) & 15


# Each returns what is to be timed: a function of the dtype.
def fp8_block(x, r, c):
    codes, scales = x.codes(r, c), x.scales(r // 128, c // 128)
    return lambda to: x.to(x.to(x.f8(codes), x.f32) * x.spread(x.spread(scales, 128, 0), 128, 1), to)


def int4_group(x, r, c):
    words, scales = x.codes(r, c // 8, dtype="int32"), x.scales(r, c // 32)
    return lambda to: x.to(
        (x.to(fields(x, words).reshape(r, c), x.f32) - 8) * x.spread(scales, 32, 1), to)


def mxfp4(x, r, c):
    codes, scales, table = x.codes(r, c // 2), x.codes(r, c // 32), x.table(E2M1)
    return lambda to: x.to(x.take(table, pairs(x, codes)) * x.spread(x.power(scales), 32, 1), to)


def nvfp4(x, r, c):
    codes, scales, table = x.codes(r, c // 2), x.codes(r, c // 16), x.table(E2M1)
    return lambda to: x.to(
        x.take(table, pairs(x, codes)) * x.spread(x.to(x.f8(scales), x.f32) * 0.25, 16, 1), to)


def nf4(x, r, c):
    codes, scales, table = x.codes(r, c // 2), x.scales(r, c // 64), x.table(list(range(16)))
    return lambda to: x.to(x.take(table, pairs(x, codes)) * x.spread(scales, 64, 1), to)


def mlx(x, r, c):
    words, scales, biases = x.codes(r, c // 8, dtype="int32"), x.scales(r, c // 64), x.scales(r, c // 64)
    return lambda to: x.to(x.to(fields(x, words).reshape(r, c), x.f32) * x.spread(scales, 64, 1)
                           + x.spread(biases, 64, 1), to)


def gptq(x, r, c):
    words, zeros = x.codes(c // 8, r, dtype="int32"), x.codes(c // 128, r // 8, dtype="int32")
    scales = x.scales(c // 128, r)

    def run(to):
        codes = x.stack([(words >> (4 * i)) & 15 for i in range(8)])  # in / 8, out, 8
        codes = (codes.swapaxes(1, 2) if x is not TORCH else codes.transpose(1, 2)).reshape(c, r)
        zero = x.spread((fields(x, zeros).reshape(c // 128, r) + 1) & 15, 128, 0)
        return x.turn(x.to(x.to(codes - zero, x.f32) * x.spread(scales, 128, 0), to))
    return run


def awq(x, r, c):
    words, zeros = x.codes(c, r // 8, dtype="int32"), x.codes(c // 128, r // 8, dtype="int32")
    scales = x.scales(c // 128, r)

    def run(to):
        codes = fields(x, words)[..., AWQ_ORDER].reshape(c, r)
        zero = x.spread(fields(x, zeros)[..., AWQ_ORDER].reshape(c // 128, r), 128, 0)
        return x.turn(x.to(x.to(codes - zero, x.f32) * x.spread(scales, 128, 0), to))
    return run


def gpt_oss(x, r, c):
    made = mxfp4(x, r, c)
    return lambda to: x.turn(made(to))


FORMULAS = {"FP8 block": fp8_block, "INT4 group": int4_group, "MXFP4": mxfp4, "NVFP4": nvfp4, "NF4": nf4,
            "MLX 4 bits": mlx, "GPTQ (transposed)": gptq, "AWQ (transposed)": awq, "gpt-oss (transposed)": gpt_oss}
TORCH = Torch()
NUMPY = Numpy() if Numpy else None


def least(run, times=3):
    best = float("inf")
    for _ in range(times):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    return best


def native(scheme, into, r, c):
    """Returns the seconds that bitsandbytes' own CPU code takes."""
    if bnb is None or scheme != "NF4":
        return None
    dtype = torch.bfloat16 if into == "BF16" else torch.float32
    packed, state = bnb.quantize_4bit(torch.randn(r, c, dtype=dtype), quant_type="nf4", blocksize=64)
    return least(lambda: bnb.dequantize_4bit(packed, state), 9)


def cell(ours, seconds):
    return f"{seconds * 1e3:8.0f} ms | {seconds / ours:6.1f} " if seconds else f"{'':11} | {'':6} "


def main(table, r, c):
    print(f"\n{r} x {c} values, one thread: milliseconds, and times as long as tenmap")
    print("| scheme | into | tenmap | torch | times | numpy | times | bitsandbytes | times |\n" + "|---" * 9 + "|")
    for line in open(table):
        columns = [column.strip() for column in line.split("|")]
        if len(columns) < 4 or columns[1] not in FORMULAS:
            continue
        scheme, into, rate = columns[1], columns[2], float(columns[3])
        ours = r * c * (2 if into == "BF16" else 4) / rate / 1e9
        row = f"| {scheme:20} | {into:4} | {ours * 1e3:6.1f} ms "
        for x in (TORCH, NUMPY):
            seconds = None
            if x is not None:
                run = FORMULAS[scheme](x, r, c)
                seconds = least(lambda: run(x.bf16 if into == "BF16" else x.f32))
            row += "| " + cell(ours, seconds)
        print(row + "| " + cell(ours, native(scheme, into, r, c)) + "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
