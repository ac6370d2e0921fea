"""Element types: their numbers, their bits, and the dtypes of numpy, ml_dtypes and torch."""

import sys

from . import _core
from ._dtype_names import TABLE

CODES = {name: _core.dtype_code(name) for name in TABLE}
NAMES = {code: name for name, code in CODES.items()}
BITS = {name: _core.dtype_bits(code) for name, code in CODES.items()}

_by_other_name = {numpy_name: name for name, (numpy_name, _) in TABLE.items()}
_by_other_name |= {
    "bool_": "BOOL",
    "float4_e2m1fn_x2": "F4",
    "half": "F16",
    "bf16": "BF16",
    "fp16": "F16",
    "fp32": "F32",
    "fp64": "F64",
    "float": "F64",
    "double": "F64",
    "int": "I64",
    "long": "I64",
}


def name_of(dtype):
    """The name in files of a dtype: "BF16", "bfloat16", or an object of numpy, ml_dtypes or
    torch."""
    if isinstance(dtype, str):
        given = dtype
    elif isinstance(dtype, type):
        given = dtype.__name__
    else:
        given = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    if given in TABLE:
        return given
    name = _by_other_name.get(given)
    if name is None:
        raise TypeError(f"{dtype!r} is not a dtype that models have; these are {', '.join(TABLE)}")
    return name


def code_of(dtype):
    return CODES[name_of(dtype)]


_numpy_dtypes = {}


def numpy_dtype(name):
    """numpy's dtype, or ml_dtypes' if numpy has none. Raises ImportError or TypeError, which says
    what to do."""
    found = _numpy_dtypes.get(name)
    if found is not None:
        return found
    import numpy

    entry = TABLE.get(name)
    if entry is None:
        raise TypeError(f'no array has the dtype {name!r}: ask for another one, as in .numpy(dtype="float32"), or take .bytes')
    try:
        found = numpy.dtype(entry[0])
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError(
                f"numpy itself has no {name}: install ml_dtypes, or ask for another dtype, as in "
                '.numpy(dtype="float32")'
            ) from None
        kind = getattr(ml_dtypes, entry[0], None)
        if kind is None:
            raise TypeError(
                f"this ml_dtypes has no {entry[0]}: update it, or ask for another dtype, as in "
                '.numpy(dtype="float32")'
            ) from None
        found = numpy.dtype(kind)
    _numpy_dtypes[name] = found
    return found


_torch_dtypes = {}


def torch_dtype(name):
    """torch's dtype; raises TypeError if torch has none."""
    found = _torch_dtypes.get(name)
    if found is None:
        import torch

        entry = TABLE.get(name)
        found = getattr(torch, entry[1], None) if entry and entry[1] else None
        if found is None:
            raise TypeError(
                f"torch has no dtype for {name}: ask for another one, as in "
                ".torch(dtype=torch.float32)"
            )
        _torch_dtypes[name] = found
    return found


LITTLE = sys.byteorder == "little"
