/*
 * The fixed list of globals that stand for data in checkpoints. A global that is not in the list is
 * code, and every check reports it as a finding. Nothing in the list is called either; a row only
 * says what the file describes with it.
 */
#include "pickle.h"

#include <string.h>

#define GLOBAL(name, module, which)                                                                \
    { #name, module, TMI_GLOBAL_##which, TENMAP_AS_STORED, 0, NULL }
#define DTYPE(name, dtype)                                                                         \
    { #name, "torch", TMI_GLOBAL_DTYPE, TENMAP_##dtype, 0, #name }
#define STORAGE(name, module, dtype, bytes, what)                                                  \
    { #name, module, TMI_GLOBAL_STORAGE, TENMAP_##dtype, bytes, what }
#define OTHER_TENSOR(name, what)                                                                   \
    { #name, "torch._utils", TMI_GLOBAL_NOT_A_TENSOR, TENMAP_AS_STORED, 0, what }

/* Sorted by name, then module: binary search. */
static const tmi_pickle_global globals[] = {
    STORAGE(BFloat16Storage, "torch", BF16, 2, "BFloat16Storage"),
    GLOBAL(BoolDType, "numpy.dtypes", DATA),
    STORAGE(BoolStorage, "torch", BOOL, 1, "BoolStorage"),
    GLOBAL(Buffer, "torch.nn.parameter", WRAPPED),
    STORAGE(ByteStorage, "torch", U8, 1, "ByteStorage"),
    GLOBAL(BytesDType, "numpy.dtypes", DATA),
    STORAGE(CharStorage, "torch", I8, 1, "CharStorage"),
    GLOBAL(Complex128DType, "numpy.dtypes", DATA),
    GLOBAL(Complex64DType, "numpy.dtypes", DATA),
    STORAGE(ComplexDoubleStorage, "torch", AS_STORED, 16, "complex128"),
    STORAGE(ComplexFloatStorage, "torch", C64, 8, "ComplexFloatStorage"),
    GLOBAL(Counter, "collections", DICT),
    GLOBAL(Decimal, "decimal", DATA),
    STORAGE(DoubleStorage, "torch", F64, 8, "DoubleStorage"),
    GLOBAL(Float16DType, "numpy.dtypes", DATA),
    GLOBAL(Float32DType, "numpy.dtypes", DATA),
    GLOBAL(Float64DType, "numpy.dtypes", DATA),
    STORAGE(FloatStorage, "torch", F32, 4, "FloatStorage"),
    GLOBAL(Fraction, "fractions", DATA),
    STORAGE(HalfStorage, "torch", F16, 2, "HalfStorage"),
    GLOBAL(Int16DType, "numpy.dtypes", DATA),
    GLOBAL(Int32DType, "numpy.dtypes", DATA),
    GLOBAL(Int64DType, "numpy.dtypes", DATA),
    GLOBAL(Int8DType, "numpy.dtypes", DATA),
    STORAGE(IntStorage, "torch", I32, 4, "IntStorage"),
    STORAGE(LongStorage, "torch", I64, 8, "LongStorage"),
    GLOBAL(Namespace, "argparse", NAMESPACE),
    GLOBAL(ObjectDType, "numpy.dtypes", DATA),
    GLOBAL(OrderedDict, "collections", DICT),
    GLOBAL(Parameter, "torch.nn.parameter", WRAPPED),
    GLOBAL(Path, "pathlib", DATA),
    GLOBAL(Path, "pathlib._local", DATA),
    GLOBAL(PosixPath, "pathlib", DATA),
    GLOBAL(PosixPath, "pathlib._local", DATA),
    GLOBAL(PurePath, "pathlib", DATA),
    GLOBAL(PurePath, "pathlib._local", DATA),
    GLOBAL(PurePosixPath, "pathlib", DATA),
    GLOBAL(PurePosixPath, "pathlib._local", DATA),
    GLOBAL(PureWindowsPath, "pathlib", DATA),
    GLOBAL(PureWindowsPath, "pathlib._local", DATA),
    STORAGE(QInt32Storage, "torch", AS_STORED, 4, "QInt32Storage"),
    STORAGE(QInt8Storage, "torch", AS_STORED, 1, "QInt8Storage"),
    STORAGE(QUInt2x4Storage, "torch", AS_STORED, 1, "QUInt2x4Storage"),
    STORAGE(QUInt4x2Storage, "torch", AS_STORED, 1, "QUInt4x2Storage"),
    STORAGE(QUInt8Storage, "torch", AS_STORED, 1, "QUInt8Storage"),
    STORAGE(ShortStorage, "torch", I16, 2, "ShortStorage"),
    GLOBAL(SimpleNamespace, "types", NAMESPACE),
    GLOBAL(Size, "torch", SIZE),
    GLOBAL(StrDType, "numpy.dtypes", DATA),
    {"Tensor", "torch", TMI_GLOBAL_NOT_A_TENSOR, TENMAP_AS_STORED, 0,
     "a tensor whose elements the pickle itself gives"},
    GLOBAL(TypedStorage, "torch.storage", DATA),
    GLOBAL(UInt16DType, "numpy.dtypes", DATA),
    GLOBAL(UInt32DType, "numpy.dtypes", DATA),
    GLOBAL(UInt64DType, "numpy.dtypes", DATA),
    GLOBAL(UInt8DType, "numpy.dtypes", DATA),
    GLOBAL(UUID, "uuid", DATA),
    STORAGE(UntypedStorage, "torch", U8, 1, "UntypedStorage"),
    STORAGE(UntypedStorage, "torch.storage", U8, 1, "UntypedStorage"),
    GLOBAL(WindowsPath, "pathlib", DATA),
    GLOBAL(WindowsPath, "pathlib._local", DATA),
    GLOBAL(_TypedStorage, "torch.storage", DATA),
    STORAGE(_UntypedStorage, "torch", U8, 1, "_UntypedStorage"),
    STORAGE(_UntypedStorage, "torch.storage", U8, 1, "_UntypedStorage"),
    GLOBAL(_frombuffer, "numpy._core.numeric", DATA),
    GLOBAL(_frombuffer, "numpy.core.numeric", DATA),
    GLOBAL(_get_layout, "torch._utils", DATA),
    GLOBAL(_get_layout, "torch.serialization", DATA),
    OTHER_TENSOR(_rebuild_device_tensor_from_cpu_tensor, "a tensor of another device"),
    OTHER_TENSOR(_rebuild_device_tensor_from_numpy,
                 "a tensor of another device, kept as a NumPy array"),
    GLOBAL(_rebuild_from_type, "torch._tensor", SUBCLASS),
    GLOBAL(_rebuild_from_type, "torch.tensor", SUBCLASS),
    GLOBAL(_rebuild_from_type_v2, "torch._tensor", SUBCLASS),
    OTHER_TENSOR(_rebuild_meta_tensor_no_storage, "a meta tensor, which has no elements"),
    OTHER_TENSOR(_rebuild_nested_tensor, "a nested tensor"),
    GLOBAL(_rebuild_parameter, "torch._utils", WRAPPED),
    GLOBAL(_rebuild_parameter_with_state, "torch._utils", WRAPPED),
    OTHER_TENSOR(_rebuild_qtensor, "a quantized tensor of torch"),
    OTHER_TENSOR(_rebuild_sparse_csr_tensor, "a sparse tensor"),
    OTHER_TENSOR(_rebuild_sparse_tensor, "a sparse tensor"),
    GLOBAL(_rebuild_tensor, "torch._utils", TENSOR),
    GLOBAL(_rebuild_tensor_v2, "torch._utils", TENSOR),
    GLOBAL(_rebuild_tensor_v3, "torch._utils", TENSOR_V3),
    OTHER_TENSOR(_rebuild_wrapper_subclass,
                 "a tensor of a subclass that keeps its elements elsewhere"),
    OTHER_TENSOR(_rebuild_xla_tensor, "a tensor of another device, kept as a NumPy array"),
    GLOBAL(_reconstruct, "numpy._core.multiarray", DATA),
    GLOBAL(_reconstruct, "numpy.core.multiarray", DATA),
    GLOBAL(_reconstructor, "copy_reg", DATA),
    GLOBAL(_reconstructor, "copyreg", DATA),
    DTYPE(bfloat16, BF16),
    DTYPE(bits16, AS_STORED),
    DTYPE(bits1x8, AS_STORED),
    DTYPE(bits2x4, AS_STORED),
    DTYPE(bits4x2, AS_STORED),
    DTYPE(bits8, AS_STORED),
    GLOBAL(bool, "__builtin__", DATA),
    GLOBAL(bool, "builtins", DATA),
    DTYPE(bool, BOOL),
    GLOBAL(bytearray, "__builtin__", DATA),
    GLOBAL(bytearray, "builtins", DATA),
    GLOBAL(bytes, "__builtin__", DATA),
    GLOBAL(bytes, "builtins", DATA),
    DTYPE(cdouble, AS_STORED),
    DTYPE(cfloat, C64),
    DTYPE(chalf, AS_STORED),
    GLOBAL(channels_last, "torch", DATA),
    GLOBAL(channels_last_3d, "torch", DATA),
    GLOBAL(complex, "__builtin__", DATA),
    GLOBAL(complex, "builtins", DATA),
    DTYPE(complex128, AS_STORED),
    DTYPE(complex32, AS_STORED),
    DTYPE(complex64, C64),
    GLOBAL(contiguous_format, "torch", DATA),
    GLOBAL(date, "datetime", DATA),
    GLOBAL(datetime, "datetime", DATA),
    GLOBAL(defaultdict, "collections", DEFAULTDICT),
    GLOBAL(deque, "collections", SEQUENCE),
    GLOBAL(device, "torch", DATA),
    GLOBAL(dict, "__builtin__", DICT),
    GLOBAL(dict, "builtins", DICT),
    DTYPE(double, F64),
    GLOBAL(dtype, "numpy", DATA),
    GLOBAL(encode, "_codecs", DATA),
    GLOBAL(float, "__builtin__", DATA),
    GLOBAL(float, "builtins", DATA),
    DTYPE(float, F32),
    DTYPE(float16, F16),
    DTYPE(float32, F32),
    DTYPE(float4_e2m1fn_x2, AS_STORED),
    DTYPE(float64, F64),
    DTYPE(float8_e4m3fn, F8_E4M3),
    DTYPE(float8_e4m3fnuz, F8_E4M3FNUZ),
    DTYPE(float8_e5m2, F8_E5M2),
    DTYPE(float8_e5m2fnuz, F8_E5M2FNUZ),
    DTYPE(float8_e8m0fnu, F8_E8M0),
    GLOBAL(frozenset, "__builtin__", SEQUENCE),
    GLOBAL(frozenset, "builtins", SEQUENCE),
    DTYPE(half, F16),
    GLOBAL(int, "__builtin__", DATA),
    GLOBAL(int, "builtins", DATA),
    DTYPE(int, I32),
    DTYPE(int1, AS_STORED),
    DTYPE(int16, I16),
    DTYPE(int2, AS_STORED),
    DTYPE(int3, AS_STORED),
    DTYPE(int32, I32),
    DTYPE(int4, AS_STORED),
    DTYPE(int5, AS_STORED),
    DTYPE(int6, AS_STORED),
    DTYPE(int64, I64),
    DTYPE(int7, AS_STORED),
    DTYPE(int8, I8),
    GLOBAL(list, "__builtin__", SEQUENCE),
    GLOBAL(list, "builtins", SEQUENCE),
    GLOBAL(long, "__builtin__", DATA),
    DTYPE(long, I64),
    GLOBAL(ndarray, "numpy", DATA),
    GLOBAL(object, "__builtin__", DATA),
    GLOBAL(object, "builtins", DATA),
    GLOBAL(per_channel_affine, "torch", DATA),
    GLOBAL(per_channel_affine_float_qparams, "torch", DATA),
    GLOBAL(per_channel_symmetric, "torch", DATA),
    GLOBAL(per_tensor_affine, "torch", DATA),
    GLOBAL(per_tensor_symmetric, "torch", DATA),
    GLOBAL(preserve_format, "torch", DATA),
    DTYPE(qint32, AS_STORED),
    DTYPE(qint8, AS_STORED),
    DTYPE(quint2x4, AS_STORED),
    DTYPE(quint4x2, AS_STORED),
    DTYPE(quint8, AS_STORED),
    GLOBAL(range, "__builtin__", DATA),
    GLOBAL(range, "builtins", DATA),
    GLOBAL(scalar, "numpy._core.multiarray", DATA),
    GLOBAL(scalar, "numpy.core.multiarray", DATA),
    GLOBAL(set, "__builtin__", SEQUENCE),
    GLOBAL(set, "builtins", SEQUENCE),
    DTYPE(short, I16),
    GLOBAL(slice, "__builtin__", DATA),
    GLOBAL(slice, "builtins", DATA),
    GLOBAL(sparse_bsc, "torch", DATA),
    GLOBAL(sparse_bsr, "torch", DATA),
    GLOBAL(sparse_coo, "torch", DATA),
    GLOBAL(sparse_csc, "torch", DATA),
    GLOBAL(sparse_csr, "torch", DATA),
    GLOBAL(str, "__builtin__", DATA),
    GLOBAL(str, "builtins", DATA),
    GLOBAL(strided, "torch", DATA),
    GLOBAL(time, "datetime", DATA),
    GLOBAL(timedelta, "datetime", DATA),
    GLOBAL(timezone, "datetime", DATA),
    GLOBAL(tuple, "__builtin__", SEQUENCE),
    GLOBAL(tuple, "builtins", SEQUENCE),
    DTYPE(uint1, AS_STORED),
    DTYPE(uint16, U16),
    DTYPE(uint2, AS_STORED),
    DTYPE(uint3, AS_STORED),
    DTYPE(uint32, U32),
    DTYPE(uint4, AS_STORED),
    DTYPE(uint5, AS_STORED),
    DTYPE(uint6, AS_STORED),
    DTYPE(uint64, U64),
    DTYPE(uint7, AS_STORED),
    DTYPE(uint8, U8),
    GLOBAL(unicode, "__builtin__", DATA),
    GLOBAL(xrange, "__builtin__", DATA),
};

enum { GLOBALS = sizeof globals / sizeof globals[0] };

static const tmi_pickle_global unknown_global = {"", "",  TMI_GLOBAL_UNKNOWN, TENMAP_AS_STORED,
                                                 0,  NULL};

/* As strcmp, of a text that is not NUL-terminated. */
static int compare_name(const char *text, size_t len, const char *name) {
    size_t size = strlen(name);
    int order = memcmp(text, name, len < size ? len : size);
    return order ? order : len < size ? -1 : len > size;
}

uint32_t tmi_pickle_find_global(const char *module, size_t module_len, const char *name,
                                size_t name_len) {
    size_t first = 0, behind = GLOBALS;
    while (first < behind) {
        size_t middle = first + (behind - first) / 2;
        int order = compare_name(name, name_len, globals[middle].name);
        if (order == 0)
            order = compare_name(module, module_len, globals[middle].module);
        if (order == 0)
            return (uint32_t)middle + 1;
        if (order > 0)
            first = middle + 1;
        else
            behind = middle;
    }
    return 0;
}

const tmi_pickle_global *tmi_pickle_global_of(const tmi_pickle *p, tmi_ref ref) {
    uint32_t row = tmi_is_kind(p, ref, TMI_PICKLE_GLOBAL) ? tmi_node(p, ref)[TMI_WORD_WHICH] : 0;
    return row ? &globals[row - 1] : &unknown_global;
}

const tmi_pickle_global *tmi_pickle_global_at(size_t i) {
    return i < GLOBALS ? &globals[i] : NULL;
}
