package tenmap

// #cgo CFLAGS: -std=gnu11 -DTENMAP_HIDDEN
// #cgo linux LDFLAGS: -lpthread
// #include <stdlib.h>
// #include "tenmap.h"
import "C"

import "unsafe"

// headerVersion is for the tests, which cannot use cgo.
const headerVersion = C.TENMAP_VERSION

// Version returns the version of the C library inside: major, minor, patch.
func Version() (major, minor, patch int) {
	n := int(C.tenmap_version())
	return n / 1000000, n / 1000 % 1000, n % 1000
}

// cText returns a copy of the text for C, to be freed by the caller.
func cText(text string) *C.char { return C.CString(text) }

func freeText(text *C.char) { C.free(unsafe.Pointer(text)) }
