"""load_into: a model's weights, straight into the parameters of a torch module."""

from collections import namedtuple
from collections.abc import Mapping

from . import _core
from ._arrays import destination_of, torch_tensor
from ._dtypes import CODES, name_of
from ._model import Model, _Progress, open
from ._plan import dtype_for

IncompatibleKeys = namedtuple("IncompatibleKeys", "missing_keys unexpected_keys")
IncompatibleKeys.__doc__ = "The names that load_into found in the module only, and in the model only."
IncompatibleKeys.__module__ = "tenmap"


class _Job:
    """Which tensor of the model goes where."""

    def __init__(self, module, model, options):
        self.module, self.model = module, model
        self.dtype, self.plan, self.names, self.strict = options
        self.found = self.requests = None
        self.fresh = []  # (keys, tensor): new tensors, which replace the module's or are copied to it

    def _source(self, key):
        if self.names is None:
            return key
        return self.names.get(key, key) if isinstance(self.names, Mapping) else self.names(key)

    def prepare(self):
        """The requests of the load."""
        places = {}  # tied parameters have several keys
        for key, tensor in self.module.state_dict(keep_vars=True).items():
            places.setdefault(id(tensor), ([], tensor))[0].append(key)
        self.requests, used, missing, wrong = [], set(), [], []
        for keys, tensor in places.values():
            sources = [name for name in map(self._source, keys) if name in self.model]
            used.update(sources)
            if not sources:
                missing += keys
                continue
            stored = self.model[sources[0]]
            index = None if self.plan is None else self.plan.get(sources[0], self.plan.get(keys[0]))
            stored = stored if index is None else stored[index]
            if stored.shape != tuple(tensor.shape):
                wrong.append(f"{keys[0]}: the model has {list(stored.shape)}, the module {list(tensor.shape)}")
                continue
            self._request(keys, tensor, stored)
        unexpected = [name for name in self.model if name not in used]
        if self.strict and missing:
            wrong.append(f"missing in the model: {', '.join(sorted(missing)[:5])} ({len(missing)} in all)")
        if self.strict and unexpected:
            wrong.append(f"not in the module: {', '.join(sorted(unexpected)[:5])} ({len(unexpected)} in all)")
        if wrong:
            raise RuntimeError("the model does not fit the module:\n  " + "\n  ".join(wrong))
        self.found = IncompatibleKeys(sorted(missing), sorted(unexpected))
        return self.requests

    def _request(self, keys, tensor, stored):
        wanted = dtype_for(self.dtype, keys[0]) if tensor.is_floating_point() else None
        kind = name_of(tensor.dtype if wanted is None else wanted)
        in_place = tensor.device.type == "cpu" and tensor.is_contiguous() and name_of(tensor.dtype) == kind
        if in_place:
            into = destination_of(tensor.detach(), kind, stored.shape)
        else:
            into = _core.memory(_core.dtype_bytes(CODES[kind], stored.size))
            self.fresh.append((keys, tensor, torch_tensor(into, 0, kind, stored.shape)))
        self.requests.append((stored, CODES[kind], into))

    def finish(self):
        """Puts the new tensors where they belong."""
        import torch

        for keys, old, new in self.fresh:
            if old.device.type != "meta" and old.dtype == new.dtype:
                with torch.no_grad():
                    old.copy_(new)
                continue
            if old.device.type != "meta":
                new = new.to(old.device)
            if isinstance(old, torch.nn.Parameter):
                new = torch.nn.Parameter(new, old.requires_grad)
            for key in keys:
                owner, _, name = key.rpartition(".")
                owner = self.module.get_submodule(owner)
                (owner._parameters if name in owner._parameters else owner._buffers)[name] = new


def load_into(module, source, *, dtype=None, group=None, plan=None, names=None, strict=True, threads=0,
              progress=None):  # fmt: skip
    """Loads a model into the parameters and buffers of a torch module, on several threads. Values go
    straight into the module's memory if that is on the CPU and has the dtype.

    source    what tenmap.open takes, or an open Model. Quantized weights and GGUF's blocks become
              their values; open the model yourself if they should stay as they are
    dtype     of floating-point parameters, or a mapping of names and patterns to dtypes; None: the
              dtype that each has in the module. Parameters of another dtype, and those on the meta
              device, are replaced
    group     a process group of torch.distributed, as in Model.load
    plan      slices of the model's tensors, as from shard_plan, for modules that hold a rank's part
    names     the name in the model of each name in the module: a mapping or a function
    strict    raise RuntimeError if a name is only in the module or only in the model. Shapes that
              differ always raise it. If it is raised, nothing is loaded
    threads, progress   as in Model.load

    Returns IncompatibleKeys.
    """
    opened = not isinstance(source, Model)
    model, job = None, None

    def prepare():
        nonlocal job
        job = _Job(module, model, (dtype, plan, names, strict))
        return job.prepare()

    try:
        if group is None:
            model = open(source, dequantize=True) if opened else source
            requests = prepare()
            with _Progress(progress) as report:
                _core.load(requests, threads, 0, report)
        else:
            from ._group import load_over

            def opening():
                nonlocal model
                model = open(source, dequantize=True) if opened else source
                return model

            load_over(opening, group, prepare, (threads, 0, 0), progress)
        job.finish()
    finally:
        if opened and model is not None:
            model.close()
    return job.found


load_into.__module__ = "tenmap"
