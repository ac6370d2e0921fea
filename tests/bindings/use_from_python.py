"""Uses the library through ctypes: the public structs, as fixed-width types, from Python."""
import ctypes as c
import os
import struct
import sys
import tempfile


class Error(c.Structure):
    _fields_ = [("status", c.c_int32), ("os_error", c.c_int32), ("shard", c.c_uint32),
                ("reserved", c.c_uint32), ("offset", c.c_uint64), ("index", c.c_uint64),
                ("message", c.c_char * 480)]


class Tensor(c.Structure):
    _fields_ = [("name", c.POINTER(c.c_char)), ("name_len", c.c_size_t), ("dtype", c.c_uint32),
                ("rank", c.c_uint32), ("shape", c.POINTER(c.c_uint64)), ("data", c.c_void_p),
                ("nbytes", c.c_uint64), ("nelems", c.c_uint64), ("file_offset", c.c_uint64),
                ("shard", c.c_uint32), ("flags", c.c_uint32), ("model", c.c_void_p)]


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("backend", c.c_uint32), ("flags", c.c_uint32),
                ("threads", c.c_uint32), ("reserved", c.c_uint32),
                ("max_header_bytes", c.c_uint64), ("offset", c.c_uint64), ("length", c.c_uint64)]


F32 = 18


def load(path):
    lib = c.CDLL(path)
    lib.tenmap_open.argtypes = [c.c_char_p, c.POINTER(Options), c.POINTER(c.c_void_p), c.POINTER(Error)]
    lib.tenmap_close.argtypes = [c.c_void_p]
    lib.tenmap_count.argtypes = [c.c_void_p]
    lib.tenmap_count.restype = c.c_size_t
    lib.tenmap_find.argtypes = [c.c_void_p, c.c_char_p]
    lib.tenmap_find.restype = c.POINTER(Tensor)
    lib.tenmap_read.argtypes = [c.POINTER(Tensor), c.c_uint64, c.c_uint64, c.c_uint32, c.c_void_p,
                                c.c_size_t, c.c_uint32, c.POINTER(Error)]
    lib.tenmap_dtype_name.restype = c.c_char_p
    return lib


def main():
    lib = load(sys.argv[1])
    assert c.sizeof(Error) == 512
    header = b'{"w":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}}'
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.safetensors").encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + struct.pack("<3e", 1.5, -2, 0.25))
        model, error = c.c_void_p(), Error()
        options = Options(struct_size=c.sizeof(Options))
        status = lib.tenmap_open(path, options, model, error)
        assert status == 0, error.message
        assert lib.tenmap_count(model) == 1
        w = lib.tenmap_find(model, b"w").contents
        assert c.string_at(w.name, w.name_len) == b"w" and w.nelems == 3 and w.shape[0] == 3
        assert lib.tenmap_dtype_name(w.dtype) == b"F16"
        assert c.string_at(w.data, 2) == struct.pack("<e", 1.5)
        values = (c.c_float * 3)()
        assert lib.tenmap_read(w, 0, 3, F32, values, c.sizeof(values), 0, error) == 0
        assert list(values) == [1.5, -2, 0.25]
        lib.tenmap_close(model)
        with open(path, "r+b") as f:
            f.truncate(10)
        assert lib.tenmap_open(path, None, model, error) == 4 and not model.value
        assert b"truncated" in error.message
    print("ok")


main()
