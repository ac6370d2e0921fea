"""One rank of a load over a gloo group, which test_group.py starts several times:
    group_ranks.py CASES FOLDER RANK WORLD [ADDRESS]

Of several CASES, separated by commas, each compares what the group loads with what a load of this rank alone gives, bit for bit.
"""

import os
import sys

import numpy
import torch
import torch.distributed as dist

import tenmap
from tenmap import _core, _group


class Parallel(torch.nn.Module):
    """A rank's part of two layers, with a tied weight."""

    def __init__(self, hidden, dtype, device=None):
        super().__init__()
        self.q = torch.nn.Linear(48, hidden, dtype=dtype, device=device)
        self.o = torch.nn.Linear(48, 32, bias=False, dtype=dtype, device=device)
        self.tied = torch.nn.Linear(48, 32, bias=False, dtype=dtype, device=device)
        self.tied.weight = self.o.weight


counts = []  # what group_load returned: bytes read by this rank, wanted by all, and so on
_load = _core.group_load


def counted(*arguments):
    result = _load(*arguments)
    counts.append(result)
    return result


_core.group_load = counted


def same(loaded, expected):
    assert list(loaded) == list(expected)
    for name, array in expected.items():
        mine = loaded[name]
        assert mine.shape == array.shape and mine.dtype == array.dtype, name
        assert mine.tobytes() == array.tobytes(), name


def total(read):
    everything = torch.tensor([read], dtype=torch.int64)
    dist.all_reduce(everything)
    return int(everything)


def case_slices(folder, rank, world):
    """Each rank wants another part; some want all; dtypes differ; every wanted byte is read once."""
    with tenmap.open(os.path.join(folder, "model.safetensors")) as model:
        plan = tenmap.shard_plan(model, {"q.weight": 0, "o.weight": 1, "odd": 1}, rank, world)
        for wants, dtype in ((plan, None), (plan, "float32"), (None, None), (None, {"q*": "float64"}),
                             ({"q.weight": None} if rank == 0 else {}, None),
                             ({"odd": (slice(rank, 7), slice(1, 3)), "large": None}, "bfloat16" if rank else None)):  # fmt: skip
            loaded = model.load(wants, dtype, group=dist.group.WORLD)
            same(loaded, model.load(wants, dtype))
            read, wanted = counts[-1][:2]
            assert total(read) == wanted, (total(read), wanted)
        model.load(plan, group=dist.group.WORLD)
        assert counts[-1][1] == sum(model[name].nbytes for name in model), "a plan covers the model once"
        out = {name: numpy.empty(array.shape, array.dtype) for name, array in model.load(plan).items()}
        done = []
        assert model.load(plan, out=out, group=dist.group.WORLD, progress=lambda *each: done.append(each)) is out
        same(out, model.load(plan))
        assert done[0][0] == 0 and done[-1][0] == done[-1][1] == counts[-1][1]


def case_quantized(folder, rank, world):
    for path, kind in (("m.gguf", "float32"), ("m.gguf", "bfloat16")):
        with tenmap.open(os.path.join(folder, path), dequantize=True) as model:
            wants = tenmap.shard_plan(model, {"w": 0}, rank, world)
            for tensor, alone in zip(model.load(wants, kind, framework="torch", group=dist.group.WORLD).values(),
                                     model.load(wants, kind, framework="torch").values()):  # fmt: skip
                assert torch.equal(tensor, alone)


def case_into(folder, rank, world):
    path = os.path.join(folder, "module.safetensors")
    hidden = -(-24 // world)
    hidden = max(0, min(hidden, 24 - rank * hidden))
    for dtype, device in ((torch.float32, None), (torch.bfloat16, None), (torch.float32, "meta")):
        module, alone = Parallel(hidden, dtype, device), Parallel(hidden, dtype)
        with tenmap.open(path) as model:
            plan = tenmap.shard_plan(model, {"q.*": 0}, rank, world)
        found = tenmap.load_into(module, path, plan=plan, group=dist.group.WORLD)
        assert found == ([], [])
        tenmap.load_into(alone, path, plan=plan)
        assert module.tied.weight is module.o.weight and module.q.weight.device.type == "cpu"
        for mine, expected in zip(module.parameters(), alone.parameters()):
            assert torch.equal(mine, expected) and mine.dtype == expected.dtype


def case_failures(folder, rank, world):
    """If one rank fails, all do, and the group can be used again."""
    with tenmap.open(os.path.join(folder, "model.safetensors")) as model:
        last = rank == world - 1

        def cancelled(done, size):
            raise KeyboardInterrupt

        for wants, progress, mine, others in (
            (["absent"] if last else None, None, KeyError, tenmap.Error),
            ({"large": slice(0, 9, 2)} if last else None, None, ValueError, tenmap.Error),
            (None, cancelled if last else None, KeyboardInterrupt, tenmap.Error),
            (None, 5 if last else None, TypeError, tenmap.Error),
        ):
            try:
                model.load(wants, progress=progress, group=dist.group.WORLD)
            except mine if last else others as error:
                assert last or f"rank {world - 1}" in str(error), error
            else:
                raise AssertionError("it did not fail")
            same(model.load(["large"], group=dist.group.WORLD), model.load(["large"]))
        other = "other.safetensors" if last else "model.safetensors"
    with tenmap.open(os.path.join(folder, other)) as model:
        try:
            model.load(group=dist.group.WORLD)
        except tenmap.Error as error:
            assert "not the model that rank 0 has" in str(error), error
        else:
            raise AssertionError("models that differ were loaded")


def case_hosts(folder, rank, world):
    """Ranks of network namespaces count as hosts of their own."""
    with tenmap.open(os.path.join(folder, "model.safetensors")) as model:
        engine = _group.Engine(dist.group.WORLD)
        assert engine.lowest == rank // 2 * 2, (rank, engine.lowest)
        same(model.load(group=dist.group.WORLD), model.load())


def main(cases, folder, rank, world, address=None):
    rank, world = int(rank), int(world)
    meeting = f"file://{folder}/meeting" if address is None else f"tcp://{address}:29555"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    for case in cases.split(","):
        globals()[f"case_{case}"](folder, rank, world)
        dist.barrier()
    dist.destroy_process_group()
    print("good")


if __name__ == "__main__":
    main(*sys.argv[1:])
