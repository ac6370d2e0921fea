package tenmap

// #include "tenmap.h"
import "C"

// Dtype is the type of a tensor's elements. The numbers are those of the C API.
type Dtype uint32

// The dtypes with a fixed number of bits. Block dtypes of GGUF files have a name and a size only:
// [DtypeNamed], [Dtype.Size].
const (
	Bool       Dtype = C.TENMAP_BOOL
	F4         Dtype = C.TENMAP_F4
	F6E2M3     Dtype = C.TENMAP_F6_E2M3
	F6E3M2     Dtype = C.TENMAP_F6_E3M2
	U8         Dtype = C.TENMAP_U8
	I8         Dtype = C.TENMAP_I8
	F8E5M2     Dtype = C.TENMAP_F8_E5M2
	F8E4M3     Dtype = C.TENMAP_F8_E4M3
	F8E8M0     Dtype = C.TENMAP_F8_E8M0
	F8E4M3FNUZ Dtype = C.TENMAP_F8_E4M3FNUZ
	F8E5M2FNUZ Dtype = C.TENMAP_F8_E5M2FNUZ
	I16        Dtype = C.TENMAP_I16
	U16        Dtype = C.TENMAP_U16
	F16        Dtype = C.TENMAP_F16
	BF16       Dtype = C.TENMAP_BF16
	I32        Dtype = C.TENMAP_I32
	U32        Dtype = C.TENMAP_U32
	F32        Dtype = C.TENMAP_F32
	C64        Dtype = C.TENMAP_C64
	F64        Dtype = C.TENMAP_F64
	I64        Dtype = C.TENMAP_I64
	U64        Dtype = C.TENMAP_U64
	Opaque     Dtype = C.TENMAP_OPAQUE // a dtype that the library does not know: bytes only
)

// String returns the name as headers write it: "BF16"; as ggml does for block dtypes: "Q4_K".
func (d Dtype) String() string { return C.GoString(C.tenmap_dtype_name(C.tenmap_dtype(d))) }

// Bits returns the bits of an element; 0 for block dtypes and Opaque.
func (d Dtype) Bits() int { return int(C.tenmap_dtype_bits(C.tenmap_dtype(d))) }

// Size returns the bytes that so many elements take, and false where there is no such size: Opaque,
// a number that ends inside a block, more than 64 bits.
func (d Dtype) Size(elements uint64) (uint64, bool) {
	var size C.uint64_t
	known := C.tenmap_dtype_bytes(C.tenmap_dtype(d), C.uint64_t(elements), &size)
	return uint64(size), known != 0
}

// DtypeNamed returns the dtype of exactly this name, and whether there is one.
func DtypeNamed(name string) (Dtype, bool) {
	text := cText(name)
	defer freeText(text)
	var dtype C.tenmap_dtype
	known := C.tenmap_dtype_from_name(text, &dtype)
	return Dtype(dtype), known != 0
}

// Half is the bits of an F16 number.
type Half uint16

// Brain is the bits of a BF16 number: the upper half of a float32.
type Brain uint16

// Element is a type that tensors can be viewed and read as.
type Element interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | Half | Brain
}

func dtypeOf[T Element]() Dtype {
	var zero T
	switch any(zero).(type) {
	case uint8:
		return U8
	case int8:
		return I8
	case uint16:
		return U16
	case int16:
		return I16
	case uint32:
		return U32
	case int32:
		return I32
	case uint64:
		return U64
	case int64:
		return I64
	case float32:
		return F32
	case float64:
		return F64
	case Half:
		return F16
	default:
		return BF16
	}
}
