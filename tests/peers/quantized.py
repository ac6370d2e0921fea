"""Compares quantized weights with the libraries that write them: quantized.py LIBTENMAP.so
[SOURCES]

Each library quantizes random weights of several shapes and dequantizes them itself. The tensors are
written as that library stores them, opened with TENMAP_OPEN_DEQUANTIZE, and compared bit by bit:
all values in F32 if the library computes in F32, otherwise in the dtype that it computes in, and
random slices. SOURCES is a folder with the unpacked sources of gptqmodel and autoawq, of which only
the files with their formulas are loaded; quantized_models.py uses the packages. What is missing is
reported as skipped. Exits with 77 if nothing is left.
"""
import ctypes
import glob
import importlib.util
import json
import os
import random
import sys
import tempfile
import types
import warnings

import peer

peer.hand_over()
try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}; pip install torch safetensors, or set TENMAP_PEERS_PYTHON")
    sys.exit(peer.SKIP)

warnings.filterwarnings("ignore")
DEQUANTIZE = 4
DTYPES = {torch.float32: (18, torch.int32), torch.bfloat16: (15, torch.int16), torch.float16: (14, torch.int16)}
F32 = torch.float32
SLICES = 10
SHAPES = [(256, 384), (130, 288), (67, 1056)]
RAGGED = [(33, 65), (129, 257)]
LIB = ctypes.CDLL(os.path.abspath(sys.argv[1]))
SOURCES = sys.argv[2] if len(sys.argv) > 2 else ""
checked = 0
random.seed(1)
torch.manual_seed(1)


class Error(ctypes.Structure):
    _fields_ = [("head", ctypes.c_uint8 * 32), ("message", ctypes.c_char * 480)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.POINTER(ctypes.c_char)), ("name_len", ctypes.c_size_t),
                ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("shape", ctypes.POINTER(ctypes.c_uint64))]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("threads", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("max_header_bytes", ctypes.c_uint64),
                ("offset", ctypes.c_uint64), ("length", ctypes.c_uint64), ("io", ctypes.c_void_p)]


LIB.tenmap_find.restype = ctypes.POINTER(Tensor)


def same(got, wanted, label, ulps=0):
    """Requires the same bits, or at most `ulps` units in the last place; 0 and -0 are equal."""
    kind = DTYPES[wanted.dtype][1]
    apart = (got.contiguous().view(kind).long() - wanted.contiguous().view(kind).long()).abs()
    bad = (apart > ulps) & ~(got.isnan() & wanted.isnan()) & ~((got == 0) & (wanted == 0))
    if bad.any():
        at = tuple(bad.nonzero()[0].tolist())
        sys.exit(f"{label}: element {list(at)} is {got[at].item()!r}, not {wanted[at].item()!r}; "
                 f"{bad.sum().item()} of {bad.numel()} differ")


def read(t, shape, dtype, label, block=None):
    got, error = torch.empty(shape, dtype=dtype), Error()
    where = (ctypes.c_uint64(0), ctypes.c_uint64(got.numel()))
    if block:
        dims = ctypes.c_uint64 * len(shape)
        where = (dims(*block[0]), dims(*block[1]))
    call = LIB.tenmap_read_slice if block else LIB.tenmap_read
    if call(t, *where, DTYPES[dtype][0], ctypes.c_void_p(got.data_ptr()),
            ctypes.c_size_t(got.numel() * got.element_size()), 0, ctypes.byref(error)):
        sys.exit(f"{label}: {error.message.decode()}")
    return got


def compare(t, wanted, label, ulps):
    shape = [t.contents.shape[d] for d in range(t.contents.rank)]
    if shape != list(wanted.shape):
        sys.exit(f"{label}: {shape} instead of {list(wanted.shape)}")
    whole = read(t, shape, wanted.dtype, label)
    same(whole, wanted, label, ulps)
    for _ in range(SLICES):
        begin = [random.randrange(n) for n in shape]
        end = [random.randrange(b + 1, n + 1) for b, n in zip(begin, shape)]
        cut = read(t, [e - b for b, e in zip(begin, end)], wanted.dtype, label, (begin, end))
        same(cut, whole[tuple(slice(b, e) for b, e in zip(begin, end))].contiguous(), label + ", a slice")


def check(label, name, tensors, wanted, config=None, ulps=0, metadata=None):
    """The weight `name` of a model of these tensors, or of what tensors(path) writes, has the
    values `wanted`."""
    global checked
    checked += 1
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        if callable(tensors):
            tensors(path)
        else:
            save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
        if config:
            with open(os.path.join(folder, "config.json"), "w") as out:
                json.dump(config, out)
        options = Options(ctypes.sizeof(Options), 0, DEQUANTIZE, 0, 0, 0, 0, 0, None)
        model, error = ctypes.c_void_p(), Error()
        if LIB.tenmap_open(path.encode(), ctypes.byref(options), ctypes.byref(model), ctypes.byref(error)):
            sys.exit(f"{label}: {error.message.decode()}")
        t = LIB.tenmap_find(model, name.encode())
        if not t:
            sys.exit(f"{label}: {name} is not there")
        compare(t, wanted, label, ulps)
        LIB.tenmap_close(model)


def compressed_tensors():
    """Each format with its own compressor. With F32 scales it computes in F32, with BF16 scales in
    BF16."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    def extremes(w, args):
        rows, columns = w.shape
        if args.strategy == "tensor":
            return w.amin().reshape(1), w.amax().reshape(1)
        if args.strategy == "block":
            high, wide = args.block_structure
            w = torch.nn.functional.pad(w, (0, -columns % wide, 0, -rows % high))
            blocks = w.reshape(w.shape[0] // high, high, w.shape[1] // wide, wide)
            return blocks.amin((1, 3)), blocks.amax((1, 3))
        groups = w.reshape(rows, -1, columns if args.strategy == "channel" else args.group_size)
        return groups.amin(-1), groups.amax(-1)

    def one(kind, w, dtype=F32, **settings):
        args = QuantizationArgs(**settings)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor = BaseCompressor.get_value_from_registry(kind)
        total = generate_gparam(w.amin(), w.amax()) if kind.startswith("nvfp4") else None
        scale, zero = calculate_qparams(*extremes(w, args), args, global_scale=total)
        state = {"weight": w.to(dtype), "weight_scale": scale if total is not None else scale.to(dtype),
                 "weight_zero_point": zero}
        if total is not None:
            state["weight_global_scale"] = total.reshape(1)
        stored = compressor.compress(state, scheme)
        wanted = compressor.decompress(stored, scheme)["weight"]
        label = f"compressed-tensors {kind} {settings} {tuple(w.shape)} {dtype}"
        config = {"quantization_config": {
            "quant_method": "compressed-tensors", "format": kind,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": args.model_dump(mode="json")}}}}
        parts = {"m." + k: v for k, v in stored.items()}
        check(label, "m.weight", parts, wanted, config)
        check(label + ", without config.json", "m.weight", parts, wanted)

    for rows, columns in SHAPES:
        w = torch.randn(rows, columns)
        for dtype in (F32, torch.bfloat16, torch.float16):
            for bits, group, symmetric in ((4, 32, True), (4, 32, False), (8, 96, True), (8, 96, False)):
                one("pack-quantized", w, dtype, num_bits=bits, type="int", strategy="group", group_size=group,
                    symmetric=symmetric)
        for bits in (2, 3, 5, 6, 7):
            for symmetric in (True, False):
                one("pack-quantized", w, num_bits=bits, type="int", strategy="group", group_size=32,
                    symmetric=symmetric)
        one("int-quantized", w, num_bits=8, type="int", strategy="group", group_size=32, symmetric=False)
        one("float-quantized", w, num_bits=8, type="float", strategy="group", group_size=32, symmetric=True)
        one("nvfp4-pack-quantized", w, num_bits=4, type="float", strategy="tensor_group", group_size=16,
            symmetric=True, scale_dtype=torch.float8_e4m3fn)
        for kind, bits in (("mxfp4-pack", 4), ("mxfp6-pack", 6), ("mxfp8", 8)):
            one(kind + "-quantized", w, num_bits=bits, type="float", strategy="group", group_size=32,
                symmetric=True, scale_dtype=torch.uint8)
    for rows, columns in SHAPES + RAGGED:
        w = torch.randn(rows, columns)
        for dtype in (F32, torch.bfloat16):
            for strategy in ("tensor", "channel"):
                one("float-quantized", w, dtype, num_bits=8, type="float", strategy=strategy, symmetric=True)
                one("int-quantized", w, dtype, num_bits=8, type="int", strategy=strategy, symmetric=True)
                one("int-quantized", w, dtype, num_bits=8, type="int", strategy=strategy, symmetric=False)
            one("float-quantized", w, dtype, num_bits=8, type="float", strategy="block",
                block_structure=[128, 128], symmetric=True)
            for symmetric in (True, False):
                one("pack-quantized", w, dtype, num_bits=4, type="int", strategy="channel",
                    symmetric=symmetric)


def bitsandbytes():
    import bitsandbytes.functional as bnb
    for rows, columns in SHAPES + RAGGED:
        for kind in ("nf4", "fp4"):
            for nested in (False, True):
                for dtype in DTYPES:
                    w = torch.randn(rows, columns).to(dtype)
                    packed, state = bnb.quantize_4bit(w, blocksize=64, quant_type=kind,
                                                      compress_statistics=nested)
                    parts = {"m.weight": packed}
                    parts.update({"m.weight." + k: v for k, v in state.as_dict(packed=True).items()})
                    label = f"bitsandbytes {kind}{' nested' if nested else ''} {rows}x{columns} {dtype}"
                    # As one row: with AVX-512, version 0.50 starts a new block with each row, which
                    # it did not do when it quantized them. Then its error is larger than that of
                    # quantizing.
                    state.shape = torch.Size([rows * columns])
                    wanted = bnb.dequantize_4bit(packed, state).to(dtype).reshape(rows, columns)
                    check(label, "m.weight", parts, wanted)
        w = torch.randn(rows, columns).half()
        codes, scb, _ = bnb.int8_vectorwise_quant(w)
        parts = {"m.weight": codes, "m.SCB": scb, "m.weight_format": torch.tensor(0, dtype=torch.uint8)}
        # As its backward pass computes it; its own function multiplies in another order.
        check(f"bitsandbytes int8 {rows}x{columns}", "m.weight", parts,
              codes.to(F32).mul(scb.unsqueeze(1).mul(1.0 / 127.0)))
        check(f"bitsandbytes int8_vectorwise_dequant {rows}x{columns}", "m.weight", parts,
              bnb.int8_vectorwise_dequant(codes, scb), ulps=2)


def mlx():
    import mlx.core as mx
    import numpy as np
    mx.set_default_device(mx.cpu)

    def one(rows, columns, group, bits, mode, dtype):
        w = mx.array(torch.randn(rows, columns).numpy()).astype(dtype)
        parts = mx.quantize(w, group_size=group, bits=bits, mode=mode)
        names = ["m.weight", "m.scales", "m.biases"][:len(parts)]
        values = mx.dequantize(*parts, group_size=group, bits=bits, mode=mode).astype(mx.float32)
        wanted = torch.from_numpy(np.array(values)).clone()
        check(f"mlx {mode} {bits} bits, groups of {group}, {rows}x{columns} {dtype}", "m.weight",
              lambda path: mx.save_safetensors(path, dict(zip(names, parts))), wanted,
              {"quantization": {"group_size": group, "bits": bits, "mode": mode}})

    for rows, columns in [(256, 384), (130, 256), (67, 1152)]:
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                one(rows, columns, group, bits, "affine", mx.float32)
        one(rows, columns, 32, 4, "mxfp4", mx.bfloat16)
        one(rows, columns, 16, 4, "nvfp4", mx.bfloat16)
        one(rows, columns, 32, 8, "mxfp8", mx.bfloat16)


def transformers():
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    for experts, rows, groups in ((2, 70, 3), (1, 8, 1), (3, 257, 5)):
        blocks = torch.randint(0, 256, (experts, rows, groups, 16), dtype=torch.uint8)
        scales = torch.randint(100, 150, (experts, rows, groups), dtype=torch.uint8)
        for dtype in (F32, torch.bfloat16):
            check(f"transformers mxfp4 {experts}x{rows}x{groups} {dtype}", "m",
                  {"m_blocks": blocks, "m_scales": scales},
                  convert_moe_packed_tensors(blocks.clone(), scales.clone(), dtype=dtype))
    op = Fp8Dequantize(None)
    config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    for rows, columns in [(256, 384), (128, 1152), (512, 128)]:
        w = (torch.randn(rows, columns) * 50).to(torch.float8_e4m3fn)
        scale = torch.rand(rows // 128, columns // 128)
        for kind in (F32, torch.bfloat16, torch.float8_e8m0fnu):
            held = scale.to(kind)
            for dtype in (F32, torch.bfloat16):
                check(f"transformers fp8 {rows}x{columns} scales {kind} as {dtype}", "m.weight",
                      {"m.weight": w, "m.weight_scale_inv": held}, op._dequantize_one(w, held, dtype), config)
        exponents = torch.randint(100, 140, (rows, columns // 32), dtype=torch.uint8)
        check(f"transformers mxfp8 {rows}x{columns}", "m.weight", {"m.weight": w, "m.weight_scale": exponents},
              op._dequantize_one(w, exponents, F32))
        pairs = torch.randint(-128, 128, (rows, columns // 2), dtype=torch.int8)
        held = exponents.view(torch.float8_e8m0fnu)
        check(f"transformers fp4 pairs {rows}x{columns}", "m.weight", {"m.weight": pairs, "m.scale": held},
              op._dequantize_one(pairs, held, F32))


def torchao():
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig,
                                      PerAxis, PerGroup, quantize_)
    kinds = {"int8": Int8WeightOnlyConfig(version=2), "float8": Float8WeightOnlyConfig(),
             "intx 4 bits, groups": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
             "intx 6 bits, rows": IntxWeightOnlyConfig(weight_dtype=torch.int6, granularity=PerAxis(0))}
    for rows, columns in SHAPES:
        for label, config in kinds.items():
            for dtype in (F32, torch.bfloat16):
                layer = torch.nn.Sequential(torch.nn.Linear(columns, rows, bias=False)).to(dtype)
                quantize_(layer, config)
                w = layer[0].weight
                parts, metadata = flatten_tensor_state_dict({"0.weight": w.data})
                # In BF16 it subtracts, then multiplies, and rounds after each step; tenmap rounds
                # once.
                check(f"torchao {label} {rows}x{columns} {dtype}", "0.weight", parts, w.dequantize(),
                      ulps=0 if dtype == F32 else 1, metadata=metadata)


def source(pattern, name):
    """Loads a file from a package's sources as a module."""
    found = sorted(glob.glob(os.path.join(SOURCES, pattern))) if SOURCES else []
    if not found:
        raise ImportError(f"{pattern} is not among the sources")
    spec = importlib.util.spec_from_file_location(name, found[-1])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def words(*shape):
    return torch.randint(-2 ** 31, 2 ** 31, shape, dtype=torch.int64).to(torch.int32)


def gptqmodel():
    """Uses its utils/model_dequant.py, loaded without the package and its dependencies."""
    for name in ("gptqmodel", "gptqmodel.utils", "gptqmodel.quantization"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    logger = types.ModuleType("gptqmodel.utils.logger")
    logger.setup_logger = lambda *_: __import__("logging").getLogger("gptqmodel")
    sys.modules["gptqmodel.utils.logger"] = logger
    device = types.ModuleType("gptqmodel.utils.torch")
    device.HAS_NPU = False
    sys.modules["gptqmodel.utils.torch"] = device
    source("gptqmodel-*/gptqmodel/quantization/dtype.py", "gptqmodel.quantization.dtype")
    source("gptqmodel-*/gptqmodel/utils/planar_packing.py", "gptqmodel.utils.planar_packing")
    peer = source("gptqmodel-*/gptqmodel/utils/model_dequant.py", "gptqmodel.utils.model_dequant")
    for inputs, outputs in ((256, 96), (160, 288), (1056, 64)):
        for bits in (2, 3, 4, 8):
            for kind in ("gptq", "gptq_v2"):
                for ordered in (True, False):
                    groups = inputs // 32
                    listed = torch.arange(inputs) // 32 if ordered else torch.randint(0, groups, (inputs,))
                    parts = {"m.qweight": words(inputs * bits // 32, outputs),
                             "m.qzeros": words(groups, outputs * bits // 32),
                             "m.scales": torch.rand(groups, outputs).half(), "m.g_idx": listed.int()}
                    config = {"bits": bits, "group_size": 32, "quant_method": "gptq", "checkpoint_format": kind}
                    with tempfile.TemporaryDirectory() as folder:
                        path = os.path.join(folder, "m.safetensors")
                        save_file(parts, path)
                        wanted = peer.convert_gptq_file(path, F32, config, "cpu")["m.weight"]
                    check(f"gptqmodel {kind} {bits} bits {inputs}x{outputs}", "m.weight", parts, wanted,
                          {"quantization_config": config})


def autoawq():
    peer = source("autoawq-*/awq/utils/packing_utils.py", "awq_packing_utils")
    for inputs, outputs in ((256, 96), (160, 288), (1056, 64)):
        for group in (32, inputs):
            parts = {"m.qweight": words(inputs, outputs // 8), "m.qzeros": words(inputs // group, outputs // 8),
                     "m.scales": torch.rand(inputs // group, outputs).half()}
            wanted = peer.dequantize_gemm(parts["m.qweight"], parts["m.qzeros"], parts["m.scales"].float(), 4, group)
            check(f"autoawq {inputs}x{outputs}, groups of {group}", "m.weight", parts, wanted.t().contiguous(),
                  {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": group}})


def main():
    peers = [compressed_tensors, bitsandbytes, mlx, transformers, torchao, gptqmodel, autoawq]
    chosen = os.environ.get("TENMAP_PEERS")
    ran = skipped = 0
    for peer in peers:
        if chosen and peer.__name__ not in chosen.split():
            continue
        before = checked
        try:
            peer()
            print(f"{peer.__name__}: {checked - before} weights, each as it says", flush=True)
            ran += 1
        except ImportError as error:
            print(f"{peer.__name__}: skipped: {error}", flush=True)
            skipped += 1
    print(f"{ran} libraries, {skipped} skipped")
    sys.exit(0 if ran else peer.SKIP)


main()
