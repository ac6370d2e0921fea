// Package tenmap opens model weights in the SafeTensors, GGUF and PyTorch formats, memory-mapped.
//
// A model is one file, an index with its shards, or a folder. Opening reads the header and no
// tensor data. Tensors are views into the mapping, or are converted into Go's slices. The C library
// is compiled into the program by cgo: its two files, tenmap.c and tenmap.h, lie in this folder of
// a released package; scripts/bindings-tree.sh puts them there.
//
// # Lifetimes
//
// [Tensor.Bytes] and [View] return slices of the mapping, which is not Go's memory. They are valid
// until [Model.Close]; touching them afterwards is a fault. Everything else is copied. A model that
// is not closed stays open as long as the process runs: the collector cannot see slices of its
// mapping.
//
// # Threads
//
// A model cannot change once it is open, and any number of goroutines may use it. Close waits for
// calls that are running; calls after it return [ErrClosed]. It does not know about slices that are
// still in use.
//
// # Files that change
//
// If another process truncates a mapped file, or its storage fails, touching a lost page of a slice
// raises SIGBUS, which ends the program. Where that may happen (network folders, downloads in
// progress), open with [WithReads]: there are no views, and every access is a checked read, which
// is an error of the status [IO].
package tenmap
