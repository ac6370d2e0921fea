"""safetensors.torch: dicts of torch tensors and whole models, saved and loaded."""

import os  # noqa: F401
from collections import defaultdict

import torch

from .._arrays import source_of
from .._dtypes import TABLE, torch_dtype
from . import TensorSpec, deserialize, safe_open, serialize, serialize_file  # noqa: F401
from ._open import load_all, load_bytes

# Those that this version of torch has.
_TYPES = {}
for _name in TABLE:
    try:
        _TYPES[_name] = torch_dtype(_name)
    except TypeError:
        pass
_SIZE = {dtype: torch.empty(0, dtype=dtype).element_size() for dtype in _TYPES.values()}


_float8_e4m3fn = getattr(torch, "float8_e4m3fn", None)
_float8_e4m3fnuz = getattr(torch, "float8_e4m3fnuz", None)
_float8_e5m2 = getattr(torch, "float8_e5m2", None)
_float8_e5m2fnuz = getattr(torch, "float8_e5m2fnuz", None)
_float8_e8m0 = getattr(torch, "float8_e8m0fnu", None)
_float4_e2m1_x2 = getattr(torch, "float4_e2m1fn_x2", None)


def _getdtype(dtype_str):
    return _TYPES[dtype_str]


def storage_ptr(tensor):
    """The address of a tensor's storage, which is the same for tensors that share memory."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def storage_size(tensor):
    """The size of a tensor's storage in bytes."""
    try:
        return tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):
        return tensor.nelement() * _SIZE[tensor.dtype]


def _end_ptr(tensor):
    """The address after a tensor's last element."""
    if not tensor.nelement():
        return tensor.data_ptr()
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr() + (last + 1) * _SIZE[tensor.dtype]


def _is_complete(tensor):
    """Whether a tensor covers its whole storage."""
    return tensor.data_ptr() == storage_ptr(tensor) and tensor.nelement() * _SIZE[tensor.dtype] == storage_size(tensor)


def _filter_shared_not_shared(tensors, state_dict):
    """Splits groups of names that share a storage into those whose bytes overlap."""
    result = []
    for names in tensors:
        spans = sorted((state_dict[name].data_ptr(), _end_ptr(state_dict[name]), name) for name in names)
        end = None
        for begin, stop, name in spans:
            if end is None or begin >= end:
                result.append({name})
                end = stop
            else:
                result[-1].add(name)
                end = max(end, stop)
    return result


def _find_shared_tensors(state_dict):
    """The names of tensors that have memory, as sets of names that overlap."""
    groups = defaultdict(set)
    for name, tensor in state_dict.items():
        if tensor.device.type != "meta" and storage_ptr(tensor) != 0 and storage_size(tensor) != 0:
            groups[tensor.device, storage_ptr(tensor), storage_size(tensor)].add(name)
    return _filter_shared_not_shared(list(groups.values()), state_dict)


def _remove_duplicate_names(state_dict, *, preferred_names=None, discard_names=None):
    """{name to keep: [names that it stands for]} of tensors that share memory."""
    preferred, discarded = set(preferred_names or ()), set(discard_names or ())
    removed = defaultdict(list)
    for shared in _find_shared_tensors(state_dict):
        complete = {name for name in shared if _is_complete(state_dict[name])}
        if not complete:
            raise RuntimeError(
                f"The tensors {sorted(shared)} share memory, and none of them has all of it: storing one "
                "of them would store much more than itself. Make copies of them with .clone(), or save them by hand"
            )
        kept = min(complete & preferred or complete - discarded or complete)
        for name in sorted(shared - {kept}):
            removed[kept].append(name)
    return removed


def _evaluate_tensors_for_save(tensors):
    """Raises if tensors cannot be saved as they are."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    sparse = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != torch.strided:
            sparse.append(name)
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make "
            "it a dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than "
            "needed."
        )
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"These tensors share memory: {[sorted(names) for names in shared]}. A file would store it several times, "
            "and the loaded tensors would no longer share memory: use save_model, which handles this, or "
            ".clone() them"
        )


def _to_ndarray(tensor):
    """The bytes of a tensor as a numpy array, and the tensor that holds them."""
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous")
    tensor = tensor.to("cpu") if tensor.device.type != "cpu" else tensor
    return tensor.detach().reshape(-1).view(torch.uint8).numpy(), tensor


def _flatten_as_ptr(tensors, keep_alive_buffer):
    """{name: TensorSpec} of tensors; the memory that they point to is appended to
    keep_alive_buffer."""
    _evaluate_tensors_for_save(tensors)
    specs = {}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"The tensor `{name}` is not contiguous, and would have to be copied to be saved: call .contiguous() "
                "on it, or save the tensor that it is a part of"
            )
        if tensor.device.type != "cpu":
            tensor = tensor.to("cpu")  # raises a clear error for the meta device
        keep_alive_buffer.append((tensor, source_of(tensor).data))
        data = keep_alive_buffer[-1][1]
        specs[name] = TensorSpec._of(str(tensor.dtype).rpartition(".")[2], tensor.shape, data, data.address, len(data))
    return specs


def save(tensors, metadata=None):
    """The bytes of a file with these tensors."""
    kept = []
    return serialize(_flatten_as_ptr(tensors, kept), metadata=metadata)


def save_file(tensors, filename, metadata=None):
    """Writes these tensors to a file, which appears whole or not at all."""
    kept = []
    serialize_file(_flatten_as_ptr(tensors, kept), filename, metadata=metadata)


def load(data):
    """The tensors of a file that is given as bytes."""
    return load_bytes(data, "torch")


def load_file(filename, device="cpu", *, backend="mmap"):
    """The tensors of a file. On the CPU they are on a copy-on-write mapping: the file never
    changes."""
    return load_all(filename, "torch", device, backend)


def save_model(model, filename, metadata=None, force_contiguous=True):
    """Saves a module. Of tensors that share memory, one is stored; the metadata lists the
    others."""
    tensors = model.state_dict()
    metadata = dict(metadata or {})
    for kept, names in _remove_duplicate_names(tensors).items():
        for name in names:
            metadata.setdefault(name, kept)
            del tensors[name]
    if force_contiguous:
        tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    try:
        save_file(dict(tensors), filename, metadata=metadata or None)
    except ValueError as error:
        raise ValueError(f"{error}; or use save_model(..., force_contiguous=True)") from None


def _complaint(model, missing, unexpected):
    lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
    for word, names in (("Missing", missing), ("Unexpected", unexpected)):
        if names:
            lines.append(f"    {word} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names))
    return "\n".join(lines)


def load_model(model, filename, strict=True, device="cpu", *, backend="mmap"):
    """Loads what save_model saved into a module. Returns the missing names as a set and the
    unexpected names as a list."""
    loaded = load_file(filename, device=device, backend=backend)
    shared = _remove_duplicate_names(model.state_dict(), preferred_names=loaded.keys())
    missing, unexpected = model.load_state_dict(loaded, strict=False)
    missing = set(missing)
    for name in (name for names in shared.values() for name in names):
        if name in missing:  # loaded with the one that it shares memory with
            missing.remove(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        raise RuntimeError(_complaint(model, sorted(missing), sorted(unexpected)))
    return missing, unexpected


def _view2torch(safeview):
    return {
        name: torch.frombuffer(entry["data"], dtype=_getdtype(entry["dtype"])).reshape(entry["shape"])
        if entry["data"]
        else torch.empty(entry["shape"], dtype=_getdtype(entry["dtype"]))
        for name, entry in safeview
    }
