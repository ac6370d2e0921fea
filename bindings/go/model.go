package tenmap

// #include "tenmap.h"
import "C"

import (
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Model is an open model. Any number of goroutines may use it.
type Model struct {
	lock sync.RWMutex // held for reading during calls, for writing by Close
	c    *C.tenmap_model
	path string
}

// An Option says how a model is opened.
type Option func(*C.tenmap_options)

// WithReads opens without a mapping: there are no views, and every access is a checked read, which
// fails with the status IO if the file changed.
func WithReads() Option {
	return func(o *C.tenmap_options) { o.backend = C.TENMAP_BACKEND_READ }
}

// Dequantized shows each quantized weight (codes, scales, zero points) as one tensor, whose values
// are computed when it is read.
func Dequantized() Option { return withFlag(C.TENMAP_OPEN_DEQUANTIZE) }

// Lenient also opens files that a strict reader refuses. Tensors that overlap or lie out of bounds
// are never allowed.
func Lenient() Option { return withFlag(C.TENMAP_OPEN_LENIENT) }

// Partial allows shards to be missing; their tensors are absent.
func Partial() Option { return withFlag(C.TENMAP_OPEN_PARTIAL) }

// Aliases makes [Model.Tensor] accept names that a writer left out because another tensor has their
// data.
func Aliases() Option { return withFlag(C.TENMAP_OPEN_ALIASES) }

// MaxHeader is the largest header in bytes; the default is 100,000,000.
func MaxHeader(bytes uint64) Option {
	return func(o *C.tenmap_options) { o.max_header_bytes = C.uint64_t(bytes) }
}

func withFlag(flag C.uint32_t) Option {
	return func(o *C.tenmap_options) { o.flags |= flag }
}

// Open opens a file, an index or a folder. Close the model when nothing uses it any more.
func Open(path string, options ...Option) (*Model, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, failed(Argument, "%q cannot be a path: it holds NUL", path)
	}
	var o C.tenmap_options
	o.struct_size = C.size_t(unsafe.Sizeof(o))
	for _, option := range options {
		option(&o)
	}
	text := cText(path)
	defer freeText(text)
	var c *C.tenmap_model
	var e C.tenmap_error
	if C.tenmap_open(text, &o, &c, &e) != C.TENMAP_OK {
		return nil, fromC(&e)
	}
	return &Model{c: c, path: path}, nil
}

// Close closes the model, once calls that are running have ended. All slices of its mapping become
// invalid. Closing it again does nothing.
func (m *Model) Close() error {
	m.lock.Lock()
	defer m.lock.Unlock()
	C.tenmap_close(m.c)
	m.c = nil
	return nil
}

// use runs a call while the model is open.
func (m *Model) use(call func() error) error {
	m.lock.RLock()
	defer m.lock.RUnlock()
	if m.c == nil {
		return ErrClosed
	}
	err := call()
	runtime.KeepAlive(m)
	return err
}

// Path returns the path as it was given to Open.
func (m *Model) Path() string { return m.path }

// Len returns the number of tensors; 0 for a closed model.
func (m *Model) Len() int {
	count := 0
	m.use(func() error { count = int(C.tenmap_count(m.c)); return nil })
	return count
}

// Tensors returns all tensors in file order.
func (m *Model) Tensors() ([]*Tensor, error) {
	var tensors []*Tensor
	err := m.use(func() error {
		count := C.tenmap_count(m.c)
		tensors = make([]*Tensor, 0, int(count))
		for i := C.size_t(0); i < count; i++ {
			tensors = append(tensors, newTensor(m, C.tenmap_at(m.c, i)))
		}
		return nil
	})
	return tensors, err
}

// Tensor returns the tensor of exactly this name, or an error of the status NotFound.
func (m *Model) Tensor(name string) (*Tensor, error) {
	var tensor *Tensor
	err := m.use(func() error {
		text := cText(name) // the length counts, so that names may hold NUL
		defer freeText(text)
		c := C.tenmap_find_n(m.c, text, C.size_t(len(name)))
		if c == nil {
			return failed(NotFound, "%q: there is no tensor %q", m.path, name)
		}
		tensor = newTensor(m, c)
		return nil
	})
	return tensor, err
}

// Metadata returns the metadata of all shards as text. A GGUF array is "". Of a key that several
// shards have, the first value counts.
func (m *Model) Metadata() (map[string]string, error) {
	found := map[string]string{}
	err := m.use(func() error {
		count := C.tenmap_metadata_count(m.c)
		for i := C.size_t(0); i < count; i++ {
			pair := C.tenmap_metadata_at(m.c, i)
			key := goText(pair.key, pair.key_len)
			if _, known := found[key]; !known {
				found[key] = goText(pair.value, pair.value_len)
			}
		}
		return nil
	})
	return found, err
}

// Missing returns the shards that Partial found missing, as the index names them.
func (m *Model) Missing() ([]string, error) {
	var names []string
	err := m.use(func() error {
		count := C.tenmap_missing_count(m.c)
		for i := C.size_t(0); i < count; i++ {
			names = append(names, C.GoString(C.tenmap_missing_at(m.c, i)))
		}
		return nil
	})
	return names, err
}

func goText(text *C.char, length C.size_t) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(length)))
}
