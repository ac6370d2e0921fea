package tenmap

// #include <stdlib.h>
// #include "tenmap.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Request is one tensor and where its elements go: [To].
type Request struct {
	tensor *Tensor
	dtype  Dtype
	dst    unsafe.Pointer
	bytes  uintptr
}

// To requests all elements of the tensor, converted to T, into dst, which must have room for them.
func To[T Element](tensor *Tensor, dst []T) Request {
	var zero T
	return Request{tensor: tensor, dtype: dtypeOf[T](), dst: unsafe.Pointer(unsafe.SliceData(dst)),
		bytes: uintptr(len(dst)) * unsafe.Sizeof(zero)}
}

// Load converts many tensors of the model into Go's slices, on so many threads (0: the library
// decides), in file order. An error's Index is the number of the request that failed; the contents
// of all destinations are undefined then.
func (m *Model) Load(threads int, requests ...Request) error {
	if len(requests) == 0 {
		return nil
	}
	return m.use(func() error {
		// C's memory may not hold pointers to Go's unless these are pinned.
		var pinner runtime.Pinner
		defer pinner.Unpin()
		list := (*C.tenmap_request)(C.calloc(C.size_t(len(requests)), C.sizeof_tenmap_request))
		if list == nil {
			return failed(Memory, "there is no memory for %d requests", len(requests))
		}
		defer C.free(unsafe.Pointer(list))
		all := unsafe.Slice(list, len(requests))
		for i, r := range requests {
			if r.tensor.model != m {
				return failed(Argument, "request %d is for a tensor of another model", i)
			}
			c := &all[i]
			if r.dst != nil && r.bytes > 0 {
				pinner.Pin(r.dst)
				c.dst = r.dst
			}
			c.tensor, c.as, c.dst_bytes = r.tensor.c, C.tenmap_dtype(r.dtype), C.size_t(r.bytes)
		}
		var o C.tenmap_load_options
		o.struct_size, o.threads = C.size_t(unsafe.Sizeof(o)), C.uint32_t(threads)
		var e C.tenmap_error
		if C.tenmap_load(m.c, list, C.size_t(len(requests)), &o, &e) != C.TENMAP_OK {
			return fromC(&e)
		}
		return nil
	})
}
