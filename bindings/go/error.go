package tenmap

// #include "tenmap.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrClosed is returned by calls on a model that is closed.
var ErrClosed = errors.New("tenmap: the model is closed")

// Status is what went wrong, for programs.
type Status int32

// The statuses of errors. The numbers are those of the C API.
const (
	Argument    Status = C.TENMAP_ERR_ARGUMENT    // a mistake in the calling program
	Memory      Status = C.TENMAP_ERR_MEMORY      // an allocation failed
	IO          Status = C.TENMAP_ERR_IO          // the system refused, or the file changed
	Format      Status = C.TENMAP_ERR_FORMAT      // the bytes break a rule
	Limit       Status = C.TENMAP_ERR_LIMIT       // a limit of the library or the process
	Unsupported Status = C.TENMAP_ERR_UNSUPPORTED // this pair of dtypes, this host, this backend
	NotFound    Status = C.TENMAP_ERR_NOT_FOUND   // file, shard, tensor
	WrongDtype  Status = C.TENMAP_ERR_DTYPE       // a view: the tensor has another dtype
	Alignment   Status = C.TENMAP_ERR_ALIGNMENT   // a view: the data is not aligned
	Range       Status = C.TENMAP_ERR_RANGE       // outside the tensor, or of an integer dtype
	Buffer      Status = C.TENMAP_ERR_BUFFER      // the destination is too small
	NoSpace     Status = C.TENMAP_ERR_NO_SPACE    // the disk is full
	Cancelled   Status = C.TENMAP_ERR_CANCELLED   // a callback asked to stop
)

// String returns the name in the C API: "TENMAP_ERR_FORMAT".
func (s Status) String() string { return C.GoString(C.tenmap_status_name(C.tenmap_status(s))) }

// Remedy is what would help, for programs: "allow-partial", "dequantize", "none" and so on. The
// message of the error says the same in words; docs/errors.md lists all of them.
type Remedy string

// Error is what went wrong. Message is for the person who has the model: it names the file, what
// was found and what would help.
type Error struct {
	Status  Status
	Message string
	Remedy  Remedy
	OSError int    // errno, where the system refused; else 0
	Shard   int    // which shard, where one applies; else 0
	Offset  uint64 // byte offset in that file, where one applies; else 0
	Index   uint64 // which request or tensor, where one applies; else 0
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is makes errors.Is(err, fs.ErrNotExist) true for files and tensors that do not exist.
func (e *Error) Is(target error) bool { return target == fs.ErrNotExist && e.Status == NotFound }

func fromC(e *C.tenmap_error) error {
	return &Error{
		Status:  Status(e.status),
		Message: C.GoString(&e.message[0]),
		Remedy:  Remedy(C.GoString(C.tenmap_remedy_name(e.remedy))),
		OSError: int(e.os_error),
		Shard:   int(e.shard),
		Offset:  uint64(e.offset),
		Index:   uint64(e.index),
	}
}

func failed(status Status, format string, arguments ...any) error {
	return &Error{Status: status, Message: fmt.Sprintf(format, arguments...), Remedy: "none"}
}
