"""The library through ctypes, for the comparisons with PyTorch: what a file opens as, or why not."""
import ctypes

import peer

c = ctypes
OPEN_BRANCHES = 128
REFUSALS = {4: "FORMAT", 5: "LIMIT", 6: "UNSUPPORTED"}  # the only ones that a file may cause
FOUND_CODE = 39
VALUE_TYPES = {0: "U8", 1: "I8", 2: "U16", 3: "I16", 4: "U32", 5: "I32", 6: "F32", 7: "BOOL", 8: "STRING",
               9: "ARRAY", 10: "U64", 11: "I64", 12: "F64"}


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("backend", c.c_uint32), ("flags", c.c_uint32),
                ("threads", c.c_uint32), ("reserved", c.c_uint32), ("max_header_bytes", c.c_uint64),
                ("offset", c.c_uint64), ("length", c.c_uint64), ("io", c.c_void_p)]


class Error(c.Structure):
    _fields_ = [("status", c.c_int32), ("os_error", c.c_int32), ("shard", c.c_uint32),
                ("remedy", c.c_uint32), ("offset", c.c_uint64), ("index", c.c_uint64),
                ("message", c.c_char * 480)]


class TensorView(c.Structure):
    _fields_ = [("name", c.c_void_p), ("name_len", c.c_size_t), ("dtype", c.c_uint32), ("rank", c.c_uint32),
                ("shape", c.POINTER(c.c_uint64)), ("data", c.c_void_p), ("nbytes", c.c_uint64),
                ("nelems", c.c_uint64), ("file_offset", c.c_uint64), ("shard", c.c_uint32),
                ("flags", c.c_uint32), ("model", c.c_void_p), ("header_position", c.c_uint64)]


class PairView(c.Structure):
    _fields_ = [("key", c.c_void_p), ("key_len", c.c_size_t), ("value", c.c_void_p), ("value_len", c.c_size_t),
                ("shard", c.c_uint32), ("type", c.c_uint32), ("element_type", c.c_uint32),
                ("reserved", c.c_uint32), ("count", c.c_uint64), ("raw", c.c_void_p), ("raw_bytes", c.c_uint64)]


class ShardView(c.Structure):
    _fields_ = [("path", c.c_char_p), ("fd", c.c_int), ("flags", c.c_uint32), ("base", c.c_void_p),
                ("size", c.c_uint64), ("header_bytes", c.c_uint64), ("data_offset", c.c_uint64),
                ("first_tensor", c.c_size_t), ("tensor_count", c.c_size_t), ("offset", c.c_uint64),
                ("format", c.c_char_p)]


class FindingView(c.Structure):
    _fields_ = [("severity", c.c_uint32), ("code", c.c_uint32), ("shard", c.c_uint32), ("remedy", c.c_uint32),
                ("offset", c.c_uint64), ("tensor", c.c_char_p), ("message", c.c_char_p), ("count", c.c_uint64)]


FOUND = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(FindingView))


class Refused(Exception):
    """What the library says about a file that it does not open."""

    def __init__(self, error):
        Exception.__init__(self, error.message.decode("utf-8", "replace"))
        self.status, self.offset = error.status, error.offset
        assert self.status in REFUSALS, "a file caused status %d: %s" % (self.status, self)
        assert error.message, "an error without a message"


class Tensor:
    def __init__(self, name, dtype, shape, data, view):
        self.name, self.dtype, self.shape, self.data = name, dtype, shape, data
        self.flags, self.offset = view.flags, view.file_offset


class Library:
    def __init__(self, path):
        lib = self.lib = c.CDLL(path)
        self.dtypes = {value: name for name, value in peer.dtype_values(lib).items()}
        lib.tenmap_open.argtypes = [c.c_char_p, c.c_void_p, c.c_void_p, c.c_void_p]
        lib.tenmap_open_memory.argtypes = [c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p, c.c_void_p]
        lib.tenmap_close.argtypes = lib.tenmap_count.argtypes = lib.tenmap_metadata_count.argtypes = [c.c_void_p]
        lib.tenmap_close.restype = None
        lib.tenmap_count.restype = lib.tenmap_metadata_count.restype = c.c_size_t
        lib.tenmap_at_written.argtypes = lib.tenmap_metadata_at.argtypes = [c.c_void_p, c.c_size_t]
        lib.tenmap_at_written.restype = c.POINTER(TensorView)
        lib.tenmap_metadata_at.restype = c.POINTER(PairView)
        lib.tenmap_shard_at.argtypes = [c.c_void_p, c.c_size_t]
        lib.tenmap_shard_at.restype = c.POINTER(ShardView)
        lib.tenmap_read.argtypes = [c.POINTER(TensorView), c.c_uint64, c.c_uint64, c.c_uint32, c.c_void_p,
                                    c.c_size_t, c.c_uint32, c.c_void_p]
        lib.tenmap_check.argtypes = [c.c_char_p, c.c_void_p, FOUND, c.c_void_p, c.c_void_p]

    @staticmethod
    def options(flags=0, backend=0):
        return Options(c.sizeof(Options), backend, flags)

    def open(self, source, flags=0, backend=0):
        """Opens a path or bytes, which must outlive the model. Raises Refused."""
        model, error, options = c.c_void_p(), Error(), self.options(flags, backend)
        if isinstance(source, str):
            status = self.lib.tenmap_open(source.encode(), c.byref(options), c.byref(model), c.byref(error))
        else:
            status = self.lib.tenmap_open_memory(source, len(source), c.byref(options), c.byref(model),
                                                 c.byref(error))
        if status:
            raise Refused(error)
        return model

    def close(self, model):
        self.lib.tenmap_close(model)

    def format_of(self, model):
        return self.lib.tenmap_shard_at(model, 0).contents.format.decode()

    def read(self, view, values):
        """All elements of a tensor as they are stored."""
        if not values:
            return None
        data, error = c.create_string_buffer(max(1, view.nbytes)), Error()
        status = self.lib.tenmap_read(c.byref(view), 0, view.nelems, 0, data, view.nbytes, 0, c.byref(error))
        assert status == 0, error.message
        return data.raw[:view.nbytes]

    def tensors(self, model, values=True):
        """The tensors in the order in which the file has them."""
        result = []
        for i in range(self.lib.tenmap_count(model)):
            view = self.lib.tenmap_at_written(model, i).contents
            name = c.string_at(view.name, view.name_len)
            shape = tuple(view.shape[k] for k in range(view.rank))
            result.append(Tensor(name, self.dtypes.get(view.dtype, view.dtype), shape,
                                 self.read(view, values), view))
        return result

    def metadata(self, model):
        """{key: (type, text)}; both as bytes except the type."""
        pairs = {}
        for i in range(self.lib.tenmap_metadata_count(model)):
            view = self.lib.tenmap_metadata_at(model, i).contents
            key = c.string_at(view.key, view.key_len)
            assert key not in pairs, key
            pairs[key] = (VALUE_TYPES[view.type], c.string_at(view.value, view.value_len))
        return pairs

    def check(self, path, flags=0):
        """[(severity, code, offset, message)]"""
        findings, error, options = [], Error(), self.options(flags)

        def found(_, finding):
            it = finding.contents
            findings.append((it.severity, it.code, it.offset, it.message.decode("utf-8", "replace")))

        status = self.lib.tenmap_check(path.encode(), c.byref(options), FOUND(found), None, c.byref(error))
        if status:
            raise Refused(error)
        return findings
