package tenmap

// #include "tenmap.h"
import "C"

import (
	"math"
	"math/bits"
	"runtime"
	"unsafe"
)

// Tensor is one tensor of a model. It may be used until the model is closed.
type Tensor struct {
	model    *Model
	c        *C.tenmap_tensor
	name     string
	dtype    Dtype
	shape    []uint64
	elements uint64
	bytes    uint64
	computed bool
}

func newTensor(m *Model, c *C.tenmap_tensor) *Tensor {
	t := &Tensor{model: m, c: c, name: goText(c.name, c.name_len), dtype: Dtype(c.dtype),
		elements: uint64(c.nelems), bytes: uint64(c.nbytes),
		computed: c.flags&C.TENMAP_TENSOR_COMPUTED != 0}
	t.shape = make([]uint64, int(c.rank))
	copy(t.shape, unsafe.Slice((*uint64)(unsafe.Pointer(c.shape)), len(t.shape)))
	return t
}

// Name returns the name.
func (t *Tensor) Name() string { return t.name }

// Dtype returns the type of the elements; of a dequantized weight, the one that the model computes
// in.
func (t *Tensor) Dtype() Dtype { return t.dtype }

// Shape returns a copy of the extents; none for a scalar.
func (t *Tensor) Shape() []uint64 { return append([]uint64(nil), t.shape...) }

// Len returns the number of elements.
func (t *Tensor) Len() uint64 { return t.elements }

// Size returns the bytes that the elements take in the tensor's own dtype.
func (t *Tensor) Size() uint64 { return t.bytes }

// Computed tells whether the values are computed when they are read: a quantized weight of a model
// that was opened with Dequantized. There is no view then.
func (t *Tensor) Computed() bool { return t.computed }

// Bytes returns the bytes in the mapping, little-endian, as the file has them, or an error if they
// are not mapped (WithReads), or computed. They must not be written to, and are valid until
// [Model.Close].
func (t *Tensor) Bytes() ([]byte, error) {
	var view []byte
	err := t.model.use(func() error {
		if t.c.data == nil && t.bytes > 0 {
			return failed(Unsupported, "%q: tensor %q is not mapped: read it", t.model.path, t.name)
		}
		if t.bytes > math.MaxInt {
			return failed(Limit, "%q: tensor %q is too large for a slice", t.model.path, t.name)
		}
		view = unsafe.Slice((*byte)(t.c.data), int(t.bytes))
		return nil
	})
	return view, err
}

// View returns the elements in the mapping, without a copy. The tensor must have the dtype of T, be
// aligned for it, and be mapped; otherwise the error says which of these fails, and Read works. The
// elements must not be written to, and are valid until [Model.Close].
func View[T Element](t *Tensor) ([]T, error) {
	var view []T
	err := t.model.use(func() error {
		var e C.tenmap_error
		data := C.tenmap_view(t.c, C.tenmap_dtype(dtypeOf[T]()), &e)
		if e.status != C.TENMAP_OK {
			return fromC(&e)
		}
		if t.elements > 0 {
			view = unsafe.Slice((*T)(data), int(t.elements))
		}
		return nil
	})
	return view, err
}

// Read converts all elements to T.
func Read[T Element](t *Tensor) ([]T, error) {
	var zero T
	high, bytes := bits.Mul64(t.elements, uint64(unsafe.Sizeof(zero)))
	if high > 0 || bytes > math.MaxInt {
		return nil, failed(Memory, "%q: tensor %q is too large for a slice", t.model.path, t.name)
	}
	all := make([]T, t.elements)
	return all, ReadInto(t, 0, all)
}

// ReadInto converts the elements from first on into dst, as many as it has.
func ReadInto[T Element](t *Tensor, first uint64, dst []T) error {
	return t.model.use(func() error {
		var zero T
		var e C.tenmap_error
		bytes := C.size_t(uintptr(len(dst)) * unsafe.Sizeof(zero))
		// dst holds no pointers and C does not keep its address, so it may be passed.
		status := C.tenmap_read(t.c, C.uint64_t(first), C.uint64_t(len(dst)),
			C.tenmap_dtype(dtypeOf[T]()), unsafe.Pointer(unsafe.SliceData(dst)), bytes, 0, &e)
		runtime.KeepAlive(dst)
		if status != C.TENMAP_OK {
			return fromC(&e)
		}
		return nil
	})
}

// ReadF32 converts elements into dst, from the first on, as many as it has.
func (t *Tensor) ReadF32(dst []float32) error { return ReadInto(t, 0, dst) }

// ReadSlice converts the block begin[d] <= i[d] < end[d], in row-major order, to T.
func ReadSlice[T Element](t *Tensor, begin, end []uint64) ([]T, error) {
	if len(begin) != len(t.shape) || len(end) != len(t.shape) {
		return nil, failed(Argument, "%q: tensor %q has %d dimensions, not %d and %d", t.model.path,
			t.name, len(t.shape), len(begin), len(end))
	}
	count := uint64(1)
	for d, extent := range t.shape {
		if begin[d] > end[d] || end[d] > extent {
			return nil, failed(Range, "%q: %v to %v is outside of tensor %q, which has the shape %v",
				t.model.path, begin, end, t.name, t.shape)
		}
		count *= end[d] - begin[d] // at most the elements of the tensor
	}
	dst := make([]T, count)
	err := t.model.use(func() error {
		var zero T
		var e C.tenmap_error
		status := C.tenmap_read_slice(t.c, (*C.uint64_t)(unsafe.SliceData(begin)),
			(*C.uint64_t)(unsafe.SliceData(end)), C.tenmap_dtype(dtypeOf[T]()),
			unsafe.Pointer(unsafe.SliceData(dst)), C.size_t(uintptr(count)*unsafe.Sizeof(zero)), 0, &e)
		runtime.KeepAlive(dst)
		if status != C.TENMAP_OK {
			return fromC(&e)
		}
		return nil
	})
	return dst, err
}

// ReadBytes returns a copy of the bytes of the file, on any backend.
func (t *Tensor) ReadBytes() ([]byte, error) {
	if t.bytes > math.MaxInt {
		return nil, failed(Memory, "%q: tensor %q is too large for a slice", t.model.path, t.name)
	}
	dst := make([]byte, t.bytes)
	err := t.model.use(func() error {
		var e C.tenmap_error
		place := unsafe.Pointer(unsafe.SliceData(dst))
		status := C.tenmap_read_bytes(t.c, 0, C.size_t(len(dst)), place, &e)
		runtime.KeepAlive(dst)
		if status != C.TENMAP_OK {
			return fromC(&e)
		}
		return nil
	})
	return dst, err
}
