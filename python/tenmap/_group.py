"""Loading over a process group of torch.distributed: one rank reads each byte of the files and
sends it to the ranks that want it.

mpi/ has the plan, the schedule and the delivery (group.c compiles them). This file sends their
messages. They are in the host's memory, so they go over gloo: over the group itself if it has gloo
for the CPU, otherwise over a gloo group of the same ranks, which is made once.
"""

import os
import queue
import socket
import threading

from . import _core

_sides = {}  # gloo groups that stand for groups of another backend


def _gloo(group):
    """The group itself, or a group of the same ranks that can send the host's memory."""
    import torch
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise ValueError("torch.distributed is not initialized: call torch.distributed.init_process_group first")
    if dist.get_rank(group) < 0:
        raise ValueError("this process is not in the group")
    try:
        if group._get_backend(torch.device("cpu")).name() == "gloo":
            return group
    except RuntimeError:  # no backend for the CPU
        pass
    if group not in _sides:
        ranks = dist.get_process_group_ranks(group)
        _sides[group] = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
    return _sides[group]


def _host():
    """What the ranks of one host have in common, and others do not: its name, its boot, and its
    network, because containers and network namespaces reach each other over the network only."""
    words = [socket.gethostname()]
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            words.append(file.read().strip())
        words.append(os.readlink("/proc/self/ns/net"))
    except OSError:
        pass
    return tuple(words)


class Engine:
    """The messages of one load. Requests are numbers; `done` has those that are done, until group.c
    takes them out. Threads wait for the works, because gloo's cannot be polled: they wait in the
    order in which requests were made, sends, receives and collectives each by themselves."""

    def __init__(self, group):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.group = torch, dist, _gloo(group)
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.ranks = dist.get_process_group_ranks(self.group)
        hosts = [None] * self.size
        dist.all_gather_object(hosts, _host(), self.group)
        self.lowest = hosts.index(hosts[self.rank])
        self.done, self.failed, self.last = set(), [], 0
        self.queues = {}

    def _wait(self, works):
        while True:
            number, work, tensor = works.get()
            if number is None:
                return
            try:
                work.wait()
            except BaseException as error:
                self.failed.append(str(error))
            del work, tensor
            self.done.add(number)

    def _queue(self, kind, work, tensor):
        if kind not in self.queues:
            self.queues[kind] = queue.SimpleQueue()
            threading.Thread(target=self._wait, args=(self.queues[kind],), name=f"tenmap {kind}", daemon=True).start()
        self.last += 1
        self.queues[kind].put((self.last, work, tensor))
        return self.last

    def _tensor(self, memory, dtype=None):
        return self.torch.frombuffer(memory, dtype=dtype or self.torch.uint8)

    # Called by group.c. Each returns the number of its request.

    def send(self, memory, rank, tag):
        tensor = self._tensor(memory)
        return self._queue("send", self.dist.isend(tensor, self.ranks[rank], self.group, tag), tensor)

    def receive(self, memory, rank, tag):
        tensor = self._tensor(memory)
        return self._queue("receive", self.dist.irecv(tensor, self.ranks[rank], self.group, tag), tensor)

    def broadcast(self, memory, rank, tag):
        tensor = self._tensor(memory)
        return self._queue("collective", self.dist.broadcast(tensor, self.ranks[rank], self.group, async_op=True), tensor)

    def reduce(self, memory, size, maximum):
        tensor = self._tensor(memory, self.torch.int64 if size == 8 else self.torch.int32)
        op = self.dist.ReduceOp.MAX if maximum else self.dist.ReduceOp.MIN
        return self._queue("collective", self.dist.all_reduce(tensor, op, self.group, async_op=True), tensor)

    def close(self):
        """Ends the threads after their pending works."""
        for works in self.queues.values():
            works.put((None, None, None))


def load_over(model, group, prepare, options, progress):
    """Loads what prepare() returns, [(Tensor, dtype, destination), ...], over the group. `model` is one
    or opens one. If either raises, all ranks raise. Returns the counts of group_load."""
    from ._model import _Progress

    engine = Engine(group)
    try:
        try:
            progress = _Progress(progress)
            opened = model() if callable(model) else model
            requests = prepare()
            for tensor, _, _ in requests:
                if not tensor._whole and tensor._box() is None:
                    raise ValueError(f"{tensor.name!r}: slices with a step are not loaded over a group")
            any_tensor = next(iter(opened.values()), None)
        except BaseException:
            _core.group_load([], None, engine, options, None)
            raise
        with progress as report:
            return _core.group_load(requests, any_tensor, engine, options, report)
    finally:
        engine.close()
