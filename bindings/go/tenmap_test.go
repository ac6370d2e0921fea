package tenmap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// write writes a SafeTensors file with this header and these bytes, and returns its path.
func write(folder, header string, data []byte) string {
	path := filepath.Join(folder, "model.safetensors")
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(append(file, header...), data...)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		panic(err)
	}
	return path
}

// sample writes a model: "ramp", 0 to 5 as F32 [2, 3], "half", 1 and -2 as BF16, and "odd", which
// is misaligned.
func sample(folder string) string {
	header := `{"__metadata__":{"format":"pt"},` +
		`"ramp":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},` +
		`"half":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},` +
		`"byte":{"dtype":"I8","shape":[1],"data_offsets":[28,29]},` +
		`"odd":{"dtype":"F32","shape":[1],"data_offsets":[29,33]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	var data []byte
	for i := 0; i < 6; i++ {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i)))
	}
	data = append(data, 0x80, 0x3f, 0x00, 0xc0, 0xfb)
	return write(folder, header, binary.LittleEndian.AppendUint32(data, math.Float32bits(0.5)))
}

func open(t *testing.T, options ...Option) *Model {
	t.Helper()
	model, err := Open(sample(t.TempDir()), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	return model
}

func tensor(t *testing.T, model *Model, name string) *Tensor {
	t.Helper()
	found, err := model.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantStatus(t *testing.T, err error, status Status) *Error {
	t.Helper()
	var found *Error
	if !errors.As(err, &found) || found.Status != status {
		t.Fatalf("%v, want the status %v", err, status)
	}
	return found
}

func wantEqual[T comparable](t *testing.T, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

func TestViewsCheckDtypeAndAlignmentAndReadsConvert(t *testing.T) {
	model := open(t)
	ramp := tensor(t, model, "ramp")
	view, err := View[float32](ramp)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, view, 0, 1, 2, 3, 4, 5)
	wantEqual(t, ramp.Shape(), 2, 3)
	bytes, err := ramp.Bytes()
	if err != nil || len(bytes) != 24 || bytes[7] != 0x3f {
		t.Fatal(bytes, err)
	}
	copied, err := ramp.ReadBytes()
	if err != nil || string(copied) != string(bytes) {
		t.Fatal(copied, err)
	}
	_, err = View[float64](ramp)
	wantStatus(t, err, WrongDtype)
	_, err = View[float32](tensor(t, model, "odd"))
	wantStatus(t, err, Alignment)

	wide, err := Read[float64](ramp)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, wide, 0, 1, 2, 3, 4, 5)
	half := tensor(t, model, "half")
	var values [2]float32
	if err := half.ReadF32(values[:]); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, values[:], 1, -2)
	bits, err := View[Brain](half)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, bits, 0x3f80, 0xc000)
	block, err := ReadSlice[float32](ramp, []uint64{0, 1}, []uint64{2, 2})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, block, 1, 4)
	_, err = Read[uint8](tensor(t, model, "byte"))
	wantStatus(t, err, Range)
	_, err = Read[int32](ramp)
	wantStatus(t, err, Unsupported)
}

func TestRangesAreChecked(t *testing.T) {
	ramp := tensor(t, open(t), "ramp")
	wantStatus(t, ReadInto(ramp, 4, make([]float32, 3)), Range)
	_, err := ReadSlice[float32](ramp, []uint64{0, 0}, []uint64{2, 4})
	wantStatus(t, err, Range)
	_, err = ReadSlice[float32](ramp, []uint64{0}, []uint64{2})
	wantStatus(t, err, Argument)
	if err := ReadInto(ramp, 6, []float32{}); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsHaveStatusMessageAndRemedy(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	found := wantStatus(t, err, NotFound)
	if !strings.Contains(found.Message, "no such file") || found.Remedy != "none" {
		t.Fatalf("%+v", found)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("not fs.ErrNotExist")
	}
	_, err = Open("a\x00b")
	wantStatus(t, err, Argument)
	_, err = open(t).Tensor("none")
	wantStatus(t, err, NotFound)

	path := sample(t.TempDir())
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	file.Write([]byte{1, 2, 3})
	file.Close()
	_, err = Open(path)
	if found := wantStatus(t, err, Format); found.Remedy != "allow-lenient" || found.Offset == 0 {
		t.Fatalf("%+v", found)
	}
	model, err := Open(path, Lenient())
	if err != nil || model.Len() != 4 {
		t.Fatal(model, err)
	}
	model.Close()
}

func TestWithoutAMappingThereAreNoViewsAndChangesAreErrors(t *testing.T) {
	path := sample(t.TempDir())
	model, err := Open(path, WithReads())
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	ramp := tensor(t, model, "ramp")
	_, err = ramp.Bytes()
	wantStatus(t, err, Unsupported)
	if values, err := Read[float32](ramp); err != nil || values[5] != 5 {
		t.Fatal(values, err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	_, err = Read[float32](ramp)
	wantStatus(t, err, IO)
}

func TestAClosedModelIsAnError(t *testing.T) {
	model := open(t)
	ramp := tensor(t, model, "ramp")
	model.Close()
	model.Close()
	if _, err := ramp.Bytes(); err != ErrClosed {
		t.Fatal(err)
	}
	if _, err := model.Tensor("ramp"); err != ErrClosed {
		t.Fatal(err)
	}
	if err := model.Load(0, To(ramp, make([]float32, 6))); err != ErrClosed {
		t.Fatal(err)
	}
	if ramp.Name() != "ramp" || model.Len() != 0 {
		t.Fatal(ramp.Name(), model.Len())
	}
}

func TestLoadsFillSlicesAndNameWhatFailed(t *testing.T) {
	model := open(t)
	ramp, half := make([]float64, 6), make([]float32, 2)
	err := model.Load(2, To(tensor(t, model, "ramp"), ramp), To(tensor(t, model, "half"), half))
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, ramp, 0, 1, 2, 3, 4, 5)
	wantEqual(t, half, 1, -2)
	err = model.Load(0, To(tensor(t, model, "half"), half), To(tensor(t, model, "ramp"), half))
	found := wantStatus(t, err, Buffer)
	if found.Index != 1 || !strings.Contains(found.Message, "ramp") {
		t.Fatalf("%+v", found)
	}
	err = model.Load(0, To(tensor(t, open(t), "half"), half))
	wantStatus(t, err, Argument)
	if err := model.Load(0); err != nil {
		t.Fatal(err)
	}
}

func TestGoroutinesShareAModel(t *testing.T) {
	model := open(t)
	var group sync.WaitGroup
	for i := 0; i < 16; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				ramp, err := model.Tensor("ramp")
				if err == ErrClosed {
					return
				}
				values := make([]float32, 6)
				if err := model.Load(2, To(ramp, values)); err == nil && values[5] != 5 {
					t.Error(values)
				}
			}
		}()
	}
	for i := 0; i < 50; i++ {
		model.Len()
	}
	model.Close()
	group.Wait()
}

func TestQuantizedWeightsAreOneTensorIfAsked(t *testing.T) {
	header := `{"l.weight":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},` +
		`"l.weight_scale_inv":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}`
	path := write(t.TempDir(), header, []byte{0x38, 0x40, 0x44, 0xb8, 0, 0, 0, 0x3f})
	model, err := Open(path, Dequantized())
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	tensors, err := model.Tensors()
	if err != nil || len(tensors) != 1 || !tensors[0].Computed() {
		t.Fatal(tensors, err)
	}
	values, err := Read[float32](tensors[0])
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, values, 0.5, 1, 1.5, -0.5)
	_, err = tensors[0].Bytes()
	wantStatus(t, err, Unsupported)
}

func TestPartialModelsTellWhatIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors.index.json")
	index := `{"weight_map": {"a": "none.safetensors"}}`
	if err := os.WriteFile(path, []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	var found *Error
	if !errors.As(err, &found) || found.Remedy != "allow-partial" {
		t.Fatal(err)
	}
	model, err := Open(path, Partial())
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	missing, err := model.Missing()
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, missing, "none.safetensors")
}

func TestDtypesAndVersionAreTheLibrarys(t *testing.T) {
	seen := 0
	for d := Bool; d.Bits() > 0; d++ {
		named, known := DtypeNamed(d.String())
		if !known || named != d {
			t.Fatal(d, named)
		}
		seen++
	}
	if seen < 22 {
		t.Fatal(seen)
	}
	q4, known := DtypeNamed("Q4_0")
	size, whole := q4.Size(64)
	if !known || !whole || size != 36 {
		t.Fatal(q4, size)
	}
	if _, whole := q4.Size(33); whole {
		t.Fatal("a part of a block has a size")
	}
	if major, minor, patch := Version(); major*1000000+minor*1000+patch != headerVersion {
		t.Fatal(major, minor, patch)
	}
}

func ExampleOpen() {
	folder, err := os.MkdirTemp("", "tenmap")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	model, err := Open(sample(folder))
	if err != nil {
		panic(err)
	}
	defer model.Close()
	metadata, _ := model.Metadata()
	tensors, _ := model.Tensors()
	for _, tensor := range tensors {
		fmt.Println(tensor.Name(), tensor.Dtype(), tensor.Shape())
	}
	half, err := tensors[1].Bytes() // a view, valid until Close
	fmt.Println(metadata["format"], len(half), err)
	// Output:
	// ramp F32 [2 3]
	// half BF16 [2]
	// byte I8 [1]
	// odd F32 [1]
	// pt 4 <nil>
}
