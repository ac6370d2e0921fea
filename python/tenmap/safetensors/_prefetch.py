"""safe_open.prefetch: the tensors of a file, loaded to a CUDA device in the background, and
get_tensor_meta.

One thread for each loader reads pieces of tensors into pinned memory, on several threads of the
library, and copies them to the device on a stream of its own. Everything that touches the device is
in the class Cuda, which a test replaces.
"""

import threading

from .. import _core
from .._dtypes import BITS, CODES, TABLE, torch_dtype
from ._spec import SafetensorError

PIECE_BYTES = 16 << 20
PIECES = 3  # pinned buffers: one is read while others are copied
_DELIVERED = "tensor already delivered (prefetch hands each tensor out once, via take or iteration)"
_CLOSED = "prefetch loader closed"


class TensorMeta:
    """A tensor's entry in the header, as the file has it: dtype, shape, and where its bytes begin and
    end in the file's data."""

    __slots__ = ("_dtype", "_shape", "_data_offsets")

    def __new__(cls, *arguments, **keywords):
        raise TypeError("cannot create 'TensorMeta' instances: safe_open.get_tensor_meta(name) returns them")

    @classmethod
    def _of(cls, dtype, shape, begin, end):
        self = object.__new__(cls)
        self._dtype, self._shape, self._data_offsets = dtype, list(shape), (begin, end)
        return self

    @property
    def dtype(self):
        """The name of the dtype in files: "F32"."""
        return self._dtype

    @property
    def shape(self):
        """The dimensions."""
        return list(self._shape)

    @property
    def data_offsets(self):
        """Where the bytes begin and end in the file's data."""
        return self._data_offsets

    def __repr__(self):
        return f'TensorMeta {{ dtype: "{self.dtype}", shape: {self.shape}, data_offsets: {self.data_offsets} }}'


class Cuda:
    """What a loader needs of a CUDA device, by torch's API."""

    def __init__(self, index):
        import torch

        if not torch.cuda.is_available():
            raise SafetensorError(
                "no CUDA runtime is loaded in this process; import a CUDA-enabled framework (torch) before calling prefetch()"
            )
        if index >= torch.cuda.device_count():
            raise SafetensorError(f"device index {index} is out of range (0..{torch.cuda.device_count()})")
        self.torch, self.device = torch, torch.device("cuda", index)
        self.stream = torch.cuda.Stream(self.device)

    def pinned(self, size):
        """Bytes in pinned memory of the host."""
        return self.torch.empty(size, dtype=self.torch.uint8, pin_memory=True)

    def empty(self, size):
        """Bytes on the device, for the loader's stream."""
        with self.torch.cuda.stream(self.stream):
            return self.torch.empty(size, dtype=self.torch.uint8, device=self.device)

    def copy(self, into, piece):
        """Copies pinned bytes to the device. Returns an event that happens when that is done."""
        with self.torch.cuda.stream(self.stream):
            into.copy_(piece, non_blocking=True)
            event = self.torch.cuda.Event()
            event.record(self.stream)
        return event

    def wait(self, event):
        """Blocks the host thread until the event has happened."""
        event.synchronize()

    def hand_out(self, data, event):
        """Makes the caller's current stream wait for the bytes, and own them."""
        current = self.torch.cuda.current_stream(self.device)
        if event is not None:
            current.wait_event(event)
        data.record_stream(current)


class _Span:
    """What one name of a loader stands for: a tensor of the model, or rows of it."""

    __slots__ = ("name", "dtype", "shape", "tensor", "nbytes", "data", "event", "state")

    def __init__(self, name, tensor, nbytes):
        self.name, self.tensor, self.nbytes = name, tensor, nbytes
        self.dtype, self.shape = tensor.dtype, tensor.shape
        self.data = self.event = None
        self.state = "waiting"  # then "ready", then "delivered"


def _rows(name, tensor, rows):
    """The rows that a plan's slice selects; the slice is checked as in the reference."""
    if not isinstance(rows, slice):
        raise SafetensorError(f"prefetch plan values must be None or a slice, got {type(rows)} for {name}")
    if tensor.ndim == 0:
        raise SafetensorError(f"cannot slice rows of the 0-d tensor {name}")
    count = tensor.shape[0]
    for attribute in ("start", "stop"):
        bound = getattr(rows, attribute)
        if bound is None:
            continue
        try:
            bound = bound.__index__()
        except AttributeError:
            raise SafetensorError(f"prefetch plan slice bounds for {name} must be integers or None") from None
        if not -count <= bound <= count:
            raise SafetensorError(
                f"prefetch plan slice {attribute} {bound} for {name} is out of range for {count} rows"
            )
    try:
        start, stop, step = rows.indices(count)
    except (TypeError, ValueError) as error:
        raise SafetensorError(f"invalid prefetch plan slice for {name}: {type(error).__name__}: {error}") from None
    if step != 1:
        raise SafetensorError(f"prefetch plan slices must have step 1, got {step} for {name}")
    if count and tensor.nbytes % count:
        raise SafetensorError(f"cannot slice rows of {name}: a row is not a whole number of bytes")
    return tensor[start : max(start, stop)]


def _planned(model, plan):
    """The tensors that a plan selects, by name."""
    if not isinstance(plan, dict):
        raise TypeError(f"argument 'plan': {type(plan).__name__!r} object is not an instance of 'dict'")
    chosen = {}
    for name, rows in plan.items():
        if not isinstance(name, str):
            raise SafetensorError("prefetch plan keys must be tensor names")
        tensor = model.get(name)
        if tensor is None:
            raise SafetensorError(f"File does not contain tensor {name}")
        chosen[name] = tensor if rows is None else _rows(name, tensor, rows)
    return chosen


def _cuda_index(device):
    """The number of a CUDA device, given as torch's or as the number itself."""
    if isinstance(device, int):
        return device
    kind, _, index = str("cpu" if device is None else device).partition(":")
    if kind != "cuda":
        raise SafetensorError(f"prefetch loads to cuda devices, not {kind if not index else device}")
    return int(index or 0)


def spans_of(model, plan):
    """The _Spans of a plan, in file order."""
    chosen = dict(model.items()) if plan is None else _planned(model, plan)
    spans = []
    for name in model:
        if name not in chosen:
            continue
        tensor = chosen[name]
        whole = model[name]
        known = TABLE.get(tensor.dtype)
        try:
            if known is None:
                raise TypeError
            torch_dtype(tensor.dtype)
        except TypeError:
            raise SafetensorError(f"prefetch cannot hand out dtype {tensor.dtype}: torch has no matching dtype") from None
        rows = whole.shape[0] if whole.ndim else 1
        nbytes = whole.nbytes if tensor._whole else whole.nbytes // max(rows, 1) * tensor.shape[0]
        spans.append(_Span(name, tensor, nbytes))
    if plan is not None and not spans:
        raise SafetensorError("prefetch plan selects no tensors")
    return spans


class PrefetchLoader:
    """The tensors of a file, loaded to a CUDA device in the background; safe_open.prefetch returns
    one. Each tensor is handed out once, by take() or by iterating."""

    __slots__ = ("_spans", "_by_name", "_device", "_threads", "_condition", "_closed", "_failure", "_worker")

    def __new__(cls, *arguments, **keywords):
        raise TypeError("cannot create 'PrefetchLoader' instances: safe_open.prefetch() returns them")

    @classmethod
    def _start(cls, spans, device, threads):
        self = object.__new__(cls)
        self._spans, self._by_name = spans, {span.name: span for span in spans}
        self._device, self._threads = device, max(1, min(threads, 64))
        self._condition = threading.Condition()
        self._closed, self._failure = False, None
        self._worker = threading.Thread(target=self._work, name="tenmap prefetch", daemon=True)
        self._worker.start()
        return self

    # The background thread.

    def _work(self):
        try:
            largest = max((span.nbytes for span in self._spans), default=0)
            size = max(1, min(PIECE_BYTES, largest))
            pieces = [[self._device.pinned(size), None] for _ in range(PIECES)]
            turn = 0
            for span in self._spans:
                if self._closed:
                    break
                turn = self._load(span, pieces, turn)
            for _, event in pieces:  # their memory is freed when this returns
                if event is not None:
                    self._device.wait(event)
        except BaseException as error:  # every call waits for it
            with self._condition:
                self._failure = error
                self._condition.notify_all()

    def _load(self, span, pieces, turn):
        """Reads one span piece by piece, and makes it ready."""
        data, event = self._device.empty(span.nbytes), None
        for selection, begin, end in _cut(span, pieces[0][0].numel()):
            if self._closed:
                return turn
            piece = pieces[turn % len(pieces)]
            if piece[1] is not None:
                self._device.wait(piece[1])
            if end - begin > piece[0].numel():  # one row that is longer than a piece
                piece[0] = self._device.pinned(end - begin)
            host = piece[0][: end - begin]
            memory = _core.borrow(host.data_ptr(), end - begin, host.untyped_storage(), True, True)
            _core.load([(selection, CODES[span.dtype], memory)], self._threads, 0, None)
            piece[1] = event = self._device.copy(data[begin:end], host)
            turn += 1
        with self._condition:
            if not self._closed:
                span.data, span.event, span.state = data, event, "ready"
            self._condition.notify_all()
        return turn

    # The caller's side.

    def _check(self):
        """Under the lock: raises if nothing more will become ready."""
        if self._closed:
            raise SafetensorError(_CLOSED)
        if self._failure is not None:
            raise SafetensorError(str(self._failure)) from self._failure

    def _deliver(self, span):
        """Under the lock: hands out the tensor of a ready span and forgets it."""
        data, event = span.data, span.event
        span.data = span.event = None
        span.state = "delivered"
        self._device.hand_out(data, event)
        dtype = torch_dtype(span.dtype)
        shape = span.shape
        if BITS[span.dtype] < 8:
            shape = (*shape[:-1], shape[-1] // 2)
        return data.view(dtype).view(shape)

    def names(self):
        """The names that this loader hands out, in file order."""
        return [span.name for span in self._spans]

    def __len__(self):
        return len(self._spans)

    def take(self, name):
        """The tensor of that name; waits until it is on the device. A second call raises."""
        span = self._by_name.get(name)
        if span is None:
            raise SafetensorError(f"tensor {name} is not in the prefetch plan")
        with self._condition:
            while True:
                try:
                    if span.state == "delivered":
                        raise SafetensorError(_DELIVERED)
                    if span.state == "ready" and not self._closed:
                        return self._deliver(span)
                    self._check()
                except SafetensorError as error:
                    raise SafetensorError(f"{name}: {error}") from error.__cause__
                self._condition.wait()

    def __iter__(self):
        return TensorStream._of(self)

    def _next(self):
        with self._condition:
            while True:
                if self._closed:
                    self._check()
                for span in self._spans:
                    if span.state == "ready":
                        return span.name, self._deliver(span)
                if all(span.state == "delivered" for span in self._spans):
                    raise StopIteration
                self._check()
                self._condition.wait()

    def close(self):
        """Ends the load and releases every tensor that was not taken. Others keep their memory."""
        with self._condition:
            self._closed = True
            for span in self._spans:
                span.data = span.event = None
            self._condition.notify_all()
        self._worker.join()

    def __enter__(self):
        return self

    def __exit__(self, _exc_type, _exc_value, _traceback):
        self.close()


def _cut(span, size):
    """(selection of the tensor, first byte, last byte) of pieces of a span, each of at most `size`
    bytes or one row."""
    tensor = span.tensor
    if span.nbytes == 0:
        return
    if tensor.ndim == 0 or span.nbytes <= size:
        yield tensor, 0, span.nbytes
        return
    rows, row_bytes = tensor.shape[0], span.nbytes // tensor.shape[0]
    if span.nbytes % rows:  # elements of 4 bits, whose rows are no whole bytes
        yield tensor, 0, span.nbytes
        return
    step = max(1, size // row_bytes)
    for begin in range(0, rows, step):
        end = min(rows, begin + step)
        yield tensor[begin:end], begin * row_bytes, end * row_bytes


class TensorStream:
    """(name, tensor) pairs of a PrefetchLoader, as they become ready."""

    __slots__ = ("_loader",)

    def __new__(cls, *arguments, **keywords):
        raise TypeError("cannot create 'TensorStream' instances: iterate a PrefetchLoader")

    @classmethod
    def _of(cls, loader):
        self = object.__new__(cls)
        self._loader = loader
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self._loader._next()


def prefetch(reader, plan, device, threads):
    """See safe_open.prefetch. `device`: torch's name or number, None for the CPU."""
    threads = threads.__index__()
    if threads < 0:
        raise OverflowError("can't convert negative int to unsigned")
    if reader.framework != "torch":
        raise SafetensorError('prefetch is only compatible with framework="pt"')
    index = _cuda_index(device)
    spans = spans_of(reader.model, plan)
    return PrefetchLoader._start(spans, Cuda(index), threads)


def tensor_meta(reader, name):
    """See safe_open.get_tensor_meta."""
    if not isinstance(name, str):
        raise TypeError(f"argument 'name': {type(name).__name__!r} object is not an instance of 'str'")
    tensor = reader.model.get(name)
    if tensor is None:
        raise SafetensorError(f"File does not contain tensor {name}")
    begin = tensor.offset - reader.model.shards[tensor.shard].data_offset
    return TensorMeta._of(tensor.dtype, tensor.shape, begin, begin + tensor.nbytes)


for _each in (TensorMeta, PrefetchLoader, TensorStream):
    _each.__module__ = "tenmap.safetensors"
