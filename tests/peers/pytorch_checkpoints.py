"""Generated checkpoints: every dtype, layout, sharing, nesting and protocol, as torch.save writes them.

    python3 pytorch_checkpoints.py FOLDER [COUNT [SEED]]

writes COUNT checkpoints (500 by default) with the interpreter's torch, so that each version of
torch can have its own. The layouts are those of transformers, diffusers, timm, optimizers, and
trainers that save whole modules or many branches.
"""
import argparse
import collections
import enum
import os
import random
import sys
import types
import zipfile

# torch's dtypes and tenmap's names of them. Other dtypes are in ODD.
DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "uint8": "U8", "int8": "I8",
          "int16": "I16", "int32": "I32", "int64": "I64", "bool": "BOOL", "complex64": "C64",
          "uint16": "U16", "uint32": "U32", "uint64": "U64", "float8_e4m3fn": "F8_E4M3",
          "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
          "float8_e8m0fnu": "F8_E8M0"}


def foreign(module, name, base=object, body=None):
    """A class that pickles say is in a module of that name, which need not exist."""
    for end in range(len(module.split("."))):
        part = ".".join(module.split(".")[:end + 1])
        if part not in sys.modules:
            sys.modules[part] = types.ModuleType(part)
    home = sys.modules[module]
    if not hasattr(home, name):
        made = type(base)(name, (base,), dict(body or {}, __module__=module, __qualname__=name))
        setattr(home, name, made)
    return getattr(home, name)


class Maker:
    """Random tensors and checkpoints from one seed."""

    def __init__(self, torch, seed):
        self.torch, self.random = torch, random.Random(seed)
        self.dtypes = [name for name in DTYPES if hasattr(torch, name) and self.can_save(name)]
        self.pool, self.turn = [], 0

    def can_save(self, name):
        import io
        try:
            kept = io.BytesIO()
            self.torch.save(self.flat(name, 3), kept)
            kept.seek(0)
            return len(self.torch.load(kept)) == 3
        except (RuntimeError, AttributeError, KeyError, NotImplementedError, TypeError):
            return False

    def flat(self, name, count):
        """A vector of `count` elements with random bits, signalling NaNs among them."""
        torch, dtype = self.torch, getattr(self.torch, name)
        size = torch.empty(0, dtype=dtype).element_size()
        if not count:
            return torch.empty(0, dtype=dtype)
        bits = bytearray(self.random.getrandbits(8) for _ in range(size * count))
        if name == "bool":
            bits = bytearray(bit & 1 for bit in bits)
        return torch.frombuffer(bits, dtype=torch.uint8).clone().view(dtype)

    def shape(self, rank, most=400):
        shape = []
        for _ in range(rank):
            shape.append(self.random.randint(1, max(1, min(most, 40 if rank < 3 else 6))))
            most //= shape[-1]
        return shape

    def view(self, flat, kind):
        """A tensor that sees the vector in one of the ways that people save."""
        pick, count = self.random, len(flat)
        if kind == "scalar" or count < 12:
            return flat[pick.randrange(count)] if count else flat
        if kind == "empty":
            return flat[:0].view([0] + self.shape(pick.randint(0, 2)))
        if kind == "slice":
            begin = pick.randrange(count)
            return flat[begin:pick.randint(begin + 1, count)]
        if kind == "steps":
            return flat[pick.randrange(3)::pick.randint(2, 5)]
        if kind == "expanded":
            return flat[:3].view(3, 1).expand(3, pick.randint(2, 50))
        if kind == "strided":  # any strides, which may repeat and overlap
            shape, strides, room = self.shape(pick.randint(1, 4), 60), [], count // 2
            for extent in shape:
                strides.append(pick.randint(0, room // (extent - 1)) if extent > 1 else pick.randint(0, 9))
                room -= (extent - 1) * strides[-1]
            return flat.as_strided(shape, strides, pick.randrange(count // 2))
        rows = pick.randint(2, 6)
        matrix = flat[:count // rows * rows].view(rows, -1)
        if kind == "transposed":
            return matrix.t()
        if kind == "columns":
            return matrix[:, 1:matrix.shape[1]]
        if kind == "channels_last" and count >= 2 * 3 * 2 * 2:
            channels = flat[:count // 12 * 12].view(-1, 2, 2, 3).permute(0, 3, 1, 2)
            return channels
        return matrix if pick.random() < 0.7 else flat

    KINDS = ("plain", "plain", "plain", "scalar", "empty", "slice", "steps", "expanded", "strided", "transposed",
             "columns", "channels_last")

    def tensor(self, name=None):
        """Usually a new storage; sometimes one that is there already, or the very same tensor."""
        pick = self.random
        if name is None:
            name = self.dtypes[self.turn % len(self.dtypes)]
            self.turn += 1
        chance = pick.random()
        if self.pool and chance < 0.1:
            return pick.choice(self.pool)[1]
        if self.pool and chance < 0.25:
            flat, _ = pick.choice(self.pool)
        else:
            flat = self.flat(name, pick.choice([0, 1, 7, 48, 48, 144, 300]))
        made = self.view(flat, pick.choice(self.KINDS))
        floating = made.is_floating_point() or made.is_complex()
        if floating and made.element_size() > 1 and pick.random() < 0.3:
            made = self.torch.nn.Parameter(made, requires_grad=pick.random() < 0.5)
        self.pool.append((flat, made))
        return made

    def begin(self):
        self.pool = []

    # Layouts

    def plain_value(self):
        pick = self.random
        return pick.choice([
            lambda: pick.randint(-300, 300), lambda: pick.getrandbits(40), lambda: -pick.getrandbits(62),
            lambda: pick.getrandbits(90), lambda: pick.uniform(-1, 1), lambda: float("inf"), lambda: "text",
            lambda: "grün \u4e2d \U0001f600 \0", lambda: "x" * 300, lambda: True, lambda: False, lambda: None,
            lambda: 1 << 63, lambda: -(1 << 63), lambda: (1 << 63) - 1, lambda: ""])()

    def tree(self, depth):
        pick = self.random
        kind = pick.choice(["dict", "ordered", "list", "tuple", "numbers"])
        values = []
        for _ in range(pick.randint(1, 4)):
            chance = pick.random()
            if depth and chance < 0.35:
                values.append(self.tree(depth - 1))
            else:
                values.append(self.tensor() if chance < 0.85 else self.plain_value())
        if kind in ("list", "tuple"):
            return values if kind == "list" else tuple(values)
        if kind == "numbers":
            return {pick.randint(0, 9) * 10 + i: value for i, value in enumerate(values)}
        keys = ["%s%d" % (pick.choice(["w", "layer", "über", "with space", "", "A"]), i) for i in range(len(values))]
        made = collections.OrderedDict() if kind == "ordered" else {}
        made.update(zip(keys, values))
        return made

    def nested(self):
        root = self.tree(self.random.randint(1, 5))
        return root if isinstance(root, dict) else {"root": root}

    def with_metadata(self, pairs):
        """What nn.Module.state_dict returns: an OrderedDict with an attribute."""
        state = collections.OrderedDict(pairs)
        state._metadata = collections.OrderedDict([("", {"version": 1}), ("layer", {"version": 2})])
        return state

    def transformers(self):
        embedding = self.torch.nn.Parameter(self.flat("float32", 64).view(8, 8))
        pairs = [("model.embed_tokens.weight", embedding)]
        for layer in range(self.random.randint(1, 4)):
            for part in ("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"):
                pairs.append(("model.layers.%d.%s.weight" % (layer, part), self.tensor("bfloat16")))
        pairs += [("model.norm.weight", self.tensor("float16")), ("lm_head.weight", embedding)]
        return self.with_metadata(pairs)

    def diffusers(self):
        pairs = []
        for block in range(self.random.randint(1, 4)):
            weight = self.flat("float16", 144).view(4, 4, 3, 3)
            weight = weight.to(memory_format=self.torch.channels_last) if block % 2 else weight
            pairs += [("down_blocks.%d.resnets.0.conv1.weight" % block, weight),
                      ("down_blocks.%d.resnets.0.conv1.bias" % block, weight[:, 0, 0, 0])]
        return collections.OrderedDict(pairs)

    def optimizer(self):
        parameters = [self.torch.nn.Parameter(self.flat("float32", 12).view(3, 4)) for _ in range(3)]
        made = self.torch.optim.AdamW(parameters, lr=0.001)
        for parameter in parameters:
            parameter.grad = self.torch.ones_like(parameter)
        with self.torch.no_grad():
            for parameter in parameters:
                parameter.zero_()
        made.step()
        return made.state_dict()

    def timm(self):
        return {"epoch": 7, "arch": "resnet50", "state_dict": self.transformers(), "optimizer": self.optimizer(),
                "version": 2, "metric": 79.5, "amp_scaler": {"scale": 65536.0, "growth_interval": 2000},
                "args": argparse.Namespace(lr=0.1, model="resnet50", mean=(0.4, 0.5), opt_eps=None),
                "state_dict_ema": self.diffusers()}

    def lightning(self):
        return {"epoch": 3, "global_step": 1200, "pytorch-lightning_version": "2.1.0",
                "state_dict": self.transformers(), "loops": {"fit_loop": {"state_dict": {}, "batches": [1, 2]}},
                "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": self.tensor("float32"),
                                                                   "dirpath": "/x"}},
                "optimizer_states": [self.optimizer()], "lr_schedulers": [{"base_lrs": [0.1], "last_epoch": 3}],
                "hparams_name": "kwargs", "hyper_parameters": {"lr": 0.001, "layers": [1, 2], "name": "net"}}

    def module(self):
        nn = self.torch.nn
        body = {"__init__": lambda self: nn.Module.__init__(self)}
        net = foreign("yolo_like.nn.tasks", "DetectionModel", nn.Module, body)()
        net.model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Linear(4, 2, bias=False))
        net.stride = self.torch.tensor([8., 16., 32.])  # a plain attribute
        net.names = {0: "person", 1: "car"}
        net.register_buffer("anchors", self.flat("float32", 6).view(2, 3))
        net.register_buffer("left_out", self.flat("float16", 2), persistent=False)
        return net

    def whole_modules(self):
        return {"epoch": -1, "best_fitness": None, "model": self.module(), "ema": None, "updates": 3,
                "train_args": {"task": "detect", "lr0": 0.01}, "date": "2024-01-01"}

    def ema_only(self):
        return {"epoch": -1, "model": None, "ema": self.module(), "updates": 3}

    def root_module(self):
        return self.module()

    def upscaler(self):
        keys = self.random.sample(["params", "params_ema"], self.random.randint(1, 2))
        return {key: self.diffusers() for key in keys}

    def wrapped(self):
        wrapper = self.random.choice(["state_dict", "model_state_dict", "model", "module", "net", "params_ema",
                                      "params", "ema", "generator", "weights"])
        root = {"epoch": 1, "optimizer": self.optimizer(), wrapper: self.transformers()}
        if self.random.random() < 0.3:
            root = {"model": {"config": {"dim": 3}}, **root}  # holds no tensor
        return root

    def twice_wrapped(self):
        return {"model": {"state_dict": self.diffusers(), "version": 1}, "net": {"x": self.tensor()}}

    def many_types(self):
        counts = collections.defaultdict(list)
        counts["a"].append(1)
        return {"size": self.torch.Size([2, 3]), "dtype": self.torch.float16, "device": self.torch.device("cpu"),
                "set": {1}, "frozen": frozenset([2]), "bytes": b"\x00\xff", "array": bytearray(b"12"),
                "complex": 1j, "counts": counts, "counter": collections.Counter("abca"),
                "simple": types.SimpleNamespace(a=1), "weight": self.tensor(), "more": {"bias": self.tensor()}}

    def numpy_values(self):
        import numpy
        return {"score": numpy.float64(0.25), "steps": numpy.int64(9), "mean": numpy.arange(6.0).reshape(2, 3),
                "state_dict": self.diffusers()}

    def classes(self):
        """Objects of classes that nobody else has."""
        Config = foreign("some_trainer.config", "TrainConfig")
        config = Config()
        config.lr, config.weight = 0.1, self.tensor()
        Stage = enum.Enum("Stage", "FIT TEST", module="some_trainer.config")
        sys.modules["some_trainer.config"].Stage = Stage
        return {"config": config, "stage": Stage.FIT, "state_dict": self.transformers()}

    def sequence(self):
        values = [self.tensor(), {"a": self.tensor()}, 3]
        return values if self.random.random() < 0.5 else tuple(values)

    def one_tensor(self):
        return self.tensor()

    def many(self):
        """More entries than one byte counts, so that memos and numbers of all widths appear."""
        return {"layers.%d.weight" % i: self.flat("float16", 2) for i in range(300)}

    LAYOUTS = ("nested", "transformers", "nested", "diffusers", "nested", "optimizer", "nested", "timm", "nested",
               "lightning", "nested", "whole_modules", "nested", "upscaler", "nested", "wrapped", "nested",
               "many_types", "nested", "classes", "nested", "sequence", "nested", "one_tensor", "nested",
               "twice_wrapped", "nested", "numpy_values", "nested", "ema_only", "nested", "root_module", "nested",
               "wrapped", "nested", "many")


# How a checkpoint is written: torch's own forms, and zip archives that others write.
FORMS = ("zip", "legacy", "zip", "legacy", "zip", "zip", "top", "zip64", "descriptors", "loose", "comment")


def rewrite_zip(path, form, pick):
    """The same entries, stored, as another program might write them."""
    with zipfile.ZipFile(path) as archive:
        entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    top = entries[0][0].split("/")[0]
    other = pick.choice(["archive", "a b", "pytorch_model", "m\u00fcnchen", "0", "data", "x" * 200]) if form == "top" else top

    class Pipe:  # nobody can seek in it, so zipfile writes data descriptors
        def __init__(self, file):
            self.write, self.flush = file.write, file.flush

    with open(path, "wb") as file:
        with zipfile.ZipFile(Pipe(file) if form == "descriptors" else file, "w") as archive:
            for name, data in entries:
                info = zipfile.ZipInfo(other + name[len(top):])
                if form == "loose":  # with an extra field of its own, at any offset
                    info.extra = b"\x34\x12" + bytes([pick.randrange(9), 0]) + bytes(9)
                    info.extra = info.extra[:4 + info.extra[2]]
                with archive.open(info, "w", force_zip64=form == "zip64") as entry:
                    entry.write(data)
            if form == "comment":
                archive.comment = b"PK\x03\x04 a comment"


def checkpoints(torch, folder, count, seed):
    """Writes `count` files and yields (path, how it is written, what it holds) after each."""
    maker = Maker(torch, seed)
    pick = maker.random
    for i in range(count):
        maker.begin()
        layout = maker.LAYOUTS[i % len(maker.LAYOUTS)]
        form = FORMS[(i // 2) % len(FORMS)]
        protocol = 2 if i % 3 else pick.choice([1, 3, 4, 5])
        root = getattr(maker, layout)()
        path = os.path.join(folder, "%03d-%s.%s" % (i, layout, pick.choice(["pt", "pth", "bin", "ckpt"])))
        try:
            torch.save(root, path, pickle_protocol=protocol, _use_new_zipfile_serialization=form != "legacy")
        except RuntimeError as error:  # views of one storage in two dtypes
            assert "view" in str(error), error
            continue
        if form not in ("zip", "legacy"):
            rewrite_zip(path, form, pick)
        yield path, "%s, protocol %d" % (form, protocol), root


def odd_ones(torch):
    """{name: a function that makes the value}: tensors that are more than elements and strides."""
    values = torch.arange(6.0).view(2, 3)

    def attributes():
        parameter = torch.nn.Parameter(values)
        parameter.tag = "mine"
        return parameter

    def hooked():
        made = values.clone().requires_grad_()
        made.register_hook(print)
        return made

    def named():
        return values.clone().rename("rows", "columns")

    makers = {
        "sparse_coo": lambda: values.to_sparse(),
        "sparse_csr": lambda: values.to_sparse_csr(),
        "quantized": lambda: torch.quantize_per_tensor(values, 0.5, 3, torch.quint8),
        "quantized_channels": lambda: torch.quantize_per_channel(values, torch.tensor([.5, .25]), torch.tensor([0, 1]), 0,
                                                                torch.qint8),
        "meta": lambda: torch.empty(2, 3, device="meta"),
        "complex128": lambda: torch.complex(values.double(), values.double()),
        "complex32": lambda: torch.complex(values, values).to(torch.complex32),
        "conjugated": lambda: torch.complex(values, values).conj(),
        "negated": lambda: torch.complex(values, values).conj().imag,
        "nested": lambda: torch.nested.nested_tensor([values, values[:1]]),
        "subclass": lambda: values.as_subclass(foreign("some_trainer.tensors", "Tagged", torch.Tensor)),
        "attributes": attributes,
        "hooked": hooked,
        "named": named,
        "buffer": lambda: torch.nn.Buffer(values),
        "uninitialized": lambda: torch.nn.parameter.UninitializedParameter(),
        "float4": lambda: torch.arange(6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
        "bits8": lambda: torch.arange(6, dtype=torch.uint8).view(torch.bits8),
        "uint4": lambda: torch.arange(6, dtype=torch.uint8).view(torch.uint4),
        "storage": lambda: values.untyped_storage() if hasattr(values, "untyped_storage") else values.storage(),
        "typed_storage": lambda: values.storage(),
    }
    return makers


def main():
    import torch
    folder = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    written = list(checkpoints(torch, folder, count, seed))
    print("%d checkpoints by torch %s" % (len(written), torch.__version__))


if __name__ == "__main__":
    main()
