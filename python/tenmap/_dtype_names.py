"""What numpy, ml_dtypes and torch call each dtype. tests/peers/ reads this file too, so it imports
nothing."""

# The name in files: the name in numpy or ml_dtypes, the name in torch (None: torch has none).
TABLE = {
    "BOOL": ("bool", "bool"),
    "F4": ("float4_e2m1fn", "float4_e2m1fn_x2"),
    "F6_E2M3": ("float6_e2m3fn", None),
    "F6_E3M2": ("float6_e3m2fn", None),
    "U8": ("uint8", "uint8"),
    "I8": ("int8", "int8"),
    "F8_E5M2": ("float8_e5m2", "float8_e5m2"),
    "F8_E4M3": ("float8_e4m3fn", "float8_e4m3fn"),
    "F8_E8M0": ("float8_e8m0fnu", "float8_e8m0fnu"),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", "float8_e5m2fnuz"),
    "I16": ("int16", "int16"),
    "U16": ("uint16", "uint16"),
    "F16": ("float16", "float16"),
    "BF16": ("bfloat16", "bfloat16"),
    "I32": ("int32", "int32"),
    "U32": ("uint32", "uint32"),
    "F32": ("float32", "float32"),
    "C64": ("complex64", "complex64"),
    "F64": ("float64", "float64"),
    "I64": ("int64", "int64"),
    "U64": ("uint64", "uint64"),
}
