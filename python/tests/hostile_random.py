"""Random calls by hostile callers: hostile_random.py [OPERATIONS] [SEED]; 2,000 of seed 1 by
default.

Each operation calls the package with arguments whose code closes, clears, resizes, raises, forks or
calls again, on models that several operations share, sometimes on two threads at once. Any
exception is allowed; a sanitizer report or a crash is a failure. Returned values are compared if
nothing was raised.
"""

import array
import faulthandler
import gc
import os
import random
import sys
import tempfile
import threading
import time

import numpy

import hostile
import tenmap

DTYPES = ["float32", "float16", "uint8", "int64", "float64"]
FORK_EVERY = 2000  # operations: forking a large process takes a while


class Caller:
    """Models, writers, dicts and buffers, and the random things that happen to them."""

    def __init__(self, seed, folder):
        self.random = random.Random(seed)
        self.folder = folder
        self.depth = 0
        self.running = 0  # callbacks of calls that have begun
        self.calls = 0
        self.raised = {}
        self.arrays = {}
        for i in range(12):
            shape = [self.random.choice((0, 1, 3, 8)) for _ in range(i % 4)]
            count = int(numpy.prod(shape))
            self.arrays[f"w{i}"] = numpy.arange(count).astype(self.random.choice(DTYPES)).reshape(shape)
        self.arrays["large"] = numpy.arange(1 << 14, dtype="float32")
        self.path = os.path.join(folder, "m.safetensors")
        self.shards = os.path.join(folder, "shards")
        tenmap.save_file(self.arrays, self.path, {f"key {i}": "value" * i for i in range(9)})
        tenmap.save_sharded(self.arrays, self.shards, 20_000, {"a": "b"})
        with open(self.path, "rb") as file:
            self.data = file.read()
        self.models, self.tensors, self.writers, self.views, self.derived = [], [], [], [], []
        self.dict = {}
        self.list = []
        self.bytes = bytearray(256)
        self.storages = []

    # What happens while a call runs.

    def act(self, *unused):
        """Does one random thing, not too deep: the arguments of inner calls are hostile too."""
        if self.depth > 2 or self.random.random() < 0.4:
            return None
        self.depth += 1
        try:
            kind = self.random.choice(self.ACTIONS)
            getattr(self, kind)()
        finally:
            self.depth -= 1
        return None

    def close(self):
        if self.models:
            self.random.choice(self.models + self.derived).close()

    def forget(self):
        for each in (self.models, self.tensors, self.views, self.writers):
            if each and self.random.random() < 0.5:
                each.pop(self.random.randrange(len(each)))

    def clear(self):
        self.dict.clear()
        self.list.clear()

    def refill(self):
        self.dict.update({f"key {self.random.random()}" * 9: "value" * 9 for _ in range(3)})

    def resize(self):
        try:
            if self.random.random() < 0.5:
                self.bytes.clear()
            self.bytes.extend(bytes(self.random.randrange(999)))
        except BufferError:
            pass

    def resize_storage(self):
        """Resizes before and between calls, and while arguments are read: later, the documentation
        forbids it."""
        if self.storages and self.running == 0:
            self.random.choice(self.storages).resize_(self.random.choice((0, 4, 4096)))

    def end(self):
        if self.writers:
            try:
                self.random.choice(self.writers)._abort()
            except RuntimeError:
                pass

    def collect(self):
        gc.collect(0)

    def fail(self):
        raise ZeroDivisionError("hostile")

    def again(self):
        self.operation()

    ACTIONS = ["close", "forget", "clear", "refill", "resize", "resize_storage", "end", "collect", "fail", "again"]

    def act_meanwhile(self, *unused):
        """Does the same while the library may be working: it has the address of every storage it
        was given."""
        self.running += 1
        try:
            return self.act()
        finally:
            self.running -= 1

    def progress(self):
        return self.random.choice((None, self.act_meanwhile))

    # Arguments.

    def number(self, *values):
        value = self.random.choice(values)
        odd = self.random.random()
        if odd < 0.5:
            return hostile.Index(value, self.act)
        return value if odd < 0.95 else self.random.choice((-1, 2**32, 2**64, 2**64 + 4, 1.5, "1", None))

    def name(self):
        name = self.random.choice(list(self.arrays))
        if self.random.random() < 0.3:
            name = hostile.Name(name)
            name.action = self.act
        return name if self.random.random() < 0.95 else "absent"

    def file(self, path):
        return hostile.Path(path, self.act) if self.random.random() < 0.5 else path

    def source(self):
        kind = self.random.randrange(6)
        if kind == 0:
            return self.data
        if kind == 1:
            return bytearray(self.data)
        if kind == 2:
            return hostile.File(self.data, self.act_meanwhile)
        if kind == 3 and hostile.HAS_BUFFER_METHOD:
            return hostile.Buffer(self.data, self.act)
        return self.file(self.random.choice((self.path, self.shards)))

    def value(self):
        kind = self.random.randrange(7)
        if kind == 0:
            return self.bytes
        if kind == 1:
            return array.array("f", range(9))
        if kind == 2 and self.tensors:
            return self.random.choice(self.tensors)
        if kind == 3:
            tensor = hostile.TorchTensor(numpy.arange(64, dtype="float32"))
            self.storages.append(tensor.storage)
            del self.storages[:-5]
            return tensor
        if kind == 4 and hostile.HAS_BUFFER_METHOD:
            return hostile.Buffer(bytes(16), self.act)
        return self.random.choice(list(self.arrays.values()))

    def model(self):
        """Returns a model, rarely a closed one: what matters is closing it during the call."""
        if self.random.random() < 0.9:
            self.models[:] = [each for each in self.models if not each.closed]
        if not self.models:
            self.open()
        return self.random.choice(self.models)

    def tensor(self):
        if not self.tensors:
            self.find()
        return self.random.choice(self.tensors)

    # Operations.

    def open(self):
        self.models.append(tenmap.open(self.source(), backend=self.random.choice(("map", "read")), threads=self.number(0, 1, 3)))
        del self.models[:-4]

    def find(self):
        self.tensors.append(self.model()[self.name()])
        del self.tensors[:-6]

    def look(self):
        model = self.model()
        what = self.random.randrange(9)
        if what == 0:
            repr(model), model.shards
        elif what == 1:
            model.metadata, model.missing
        elif what == 2:
            list(model), list(model.values())
        elif what == 3:
            self.tensors += list(dict(model.items()).values())[:3]
        elif what == 4:
            model._table(), model._private(self.number(0, 1, 5))
        elif what == 5:
            model.advise(self.random.choice(("populate", "prefetch", "release")), self.random.choice((None, self.name())))
        elif what == 6:
            model.residency(), model.file_size, model.path, len(model)
        elif what == 7:
            self.name() in model, model.get(self.name())
        else:
            tenmap.check(self.file(self.path), max_header_bytes=self.number(0, 1 << 20))

    def index(self):
        tensor = self.tensor()
        keys = [
            self.number(0, 1, -1), ...,
            slice(self.number(0, 1, -1), self.number(1, 5, -1), self.number(1, 2, -1, 1 << 40)),
        ]  # fmt: skip
        self.tensors.append(tensor[tuple(self.random.choices(keys, k=self.random.randrange(3)))])

    def read(self):
        tensor = self.tensor()
        what = self.random.randrange(7)
        if what == 0:
            self.views.append(tensor.bytes)
        elif what == 1:
            self.views.append(tensor.buffer)
        elif what == 2:
            self.views.append(tensor.numpy(writable=self.random.random() < 0.5))
        elif what == 3:
            self.views.append(numpy.from_dlpack(tensor))
        elif what == 4:
            tensor.__dlpack__(max_version=(1, 0), copy=self.random.choice((None, True)))
        elif what == 5:
            tensor.tolist(), repr(tensor)
        else:
            tensor._data(self.number(0, 1, 12), self.number(0, 1, 2))
        del self.views[:-6]
        for view in self.views:
            bytes(view)

    def load(self):
        names = [self.name() for _ in range(self.random.randrange(4))]
        given = hostile.Items(names, self.act) if self.random.random() < 0.5 else names
        dtype = self.random.choice((None, "float32", "float64"))
        loaded = self.model().load(given, dtype, self.number(0, 1, 3), progress=self.progress())
        for name, values in loaded.items():
            assert numpy.array_equal(values, self.arrays[name].astype(values.dtype)), name

    def fill(self):
        name = self.name()
        into = numpy.zeros_like(self.arrays[name])
        self.model().load([name], threads=self.number(0, 1), out={name: into}, progress=self.progress())
        assert numpy.array_equal(into, self.arrays[name])

    def fill_storage(self):
        tensor = hostile.TorchTensor(numpy.zeros(1 << 14, "float32"))
        self.storages.append(tensor.storage)
        self.model().load(["large"], threads=self.number(0, 1), out={"large": tensor}, progress=self.progress())

    def take(self):
        wants = {}
        for name in [self.name() for _ in range(3)]:
            shape = list(self.arrays[name].shape) if name in self.arrays else []
            wants[name] = self.random.choice((None, hostile.Items([self.number(n) for n in shape], self.act)))
        taken = self.model().take(wants, self.random.choice((None, "float64")), optional=["absent"],
                                  threads=self.number(0, 1, 3), progress=self.progress())  # fmt: skip
        for name, values in taken.items():
            assert numpy.array_equal(values, self.arrays[name].astype(values.dtype)), name

    def slices(self):
        cut = lambda: slice(self.number(0, 1), self.number(0, 2, 5), self.random.choice((None, self.number(1, 2))))  # noqa: E731
        wants = {self.name(): self.random.choice((None, cut(), (cut(), ...))) for _ in range(3)}
        call = self.random.choice((self.model().load, self.model().take))
        loaded = call(wants, self.random.choice((None, "float64")), threads=self.number(0, 1), progress=self.progress())
        for name, values in loaded.items():
            expected = self.arrays[name] if wants[name] is None else self.arrays[name][wants[name]]
            assert numpy.array_equal(values, expected.astype(values.dtype)), name

    def keep(self):
        tenmap.keep_memory(self.random.choice((0, 1 << 16, self.number(1 << 21), 1 << 24)))

    def take_list(self):
        items = [(self.name(), self.number(0), None, 0, self.random.choice((None, ([0], [self.number(1)])))) for _ in range(4)]
        self.list[:] = items
        self.model()._take(self.list, self.number(1), self.progress())

    def measure(self):
        what = self.model() if self.random.random() < 0.5 else self.tensor()
        tenmap.measure(what, bins=self.number(0, 7), threads=self.number(0, 1), progress=self.progress())

    def convert(self):
        tenmap.convert(self.value(), self.random.choice(DTYPES))

    def save(self):
        tensors = {f"t{i}": self.value() for i in range(self.random.randrange(4))}
        tensors["name" * 40] = self.value()
        self.refill()
        options = {"alignment": self.number(0, 64), "slack": self.number(0, 100), "threads": self.number(0, 1),
                   "progress": self.progress()}  # fmt: skip
        place = os.path.join(self.folder, f"o{self.random.randrange(3)}")
        if self.random.random() < 0.5:
            tenmap.save_file(tensors, self.file(place), self.dict, **options)
        else:
            tenmap.save_sharded(tensors, self.file(place + ".s"), self.number(100, 1 << 20), self.dict, **options)

    def edit(self):
        self.refill()
        changes = {key: None for key in self.dict} if self.random.random() < 0.5 else self.dict
        place = self.file(os.path.join(self.folder, f"o{self.random.randrange(3)}"))
        if self.random.random() < 0.5:
            tenmap.edit_metadata(place, changes)
        else:
            names = {"t0": "other" * self.random.randrange(9)}
            tenmap.rename(place, names, changes)

    def write(self):
        if not self.writers or self.random.random() < 0.3:
            place = os.path.join(self.folder, f"w{self.random.randrange(3)}")
            self.writers.append(tenmap.Writer(self.file(place), self.dict, alignment=self.number(0, 64)))
            del self.writers[:-3]
        writer = self.random.choice(self.writers)
        what = self.random.randrange(5)
        if what == 0:
            writer.add(f"t{self.random.randrange(9)}", "F32", hostile.Items([self.number(4)], self.act))
        elif what == 1:
            writer[f"s{self.random.randrange(9)}"] = self.value()
        elif what == 2:
            writer.write(f"t{self.random.randrange(9)}", self.value(), offset=self.number(0, 4))
        elif what == 3:
            writer.commit()
        else:
            writer.abort()

    def expression(self):
        """(Tensor or Expression, its values): moves and sums of tensors of several models."""
        name = self.name()
        x, values = self.model()[name], self.arrays.get(name)
        if values.dtype.kind != "f" or self.random.random() < 0.4:
            return tenmap.expr(x), values.astype("float64")
        number = self.random.choice((2, 0.5, -4.0))
        other = self.model()[name]
        x, values = number * x - tenmap.expr(other), number * values.astype("float64") - values
        if x.ndim and self.random.random() < 0.5:
            cut = self.random.randrange(x.shape[0] + 1)
            x, values = x[hostile.Index(0, self.act) : hostile.Index(cut, self.act)], values[:cut]
        return (x.T, values.T) if self.random.random() < 0.5 else (x, values)

    def derive(self):
        made = {}
        for _ in range(self.random.randrange(1, 4)):
            name = self.name()
            made[name] = self.expression()
        pairs = {name: x for name, (x, _) in made.items()}
        derived = tenmap.derive(pairs, self.random.choice((None, None, "float64")))
        if self.random.random() < 0.3:
            derived = tenmap.derive({name: tenmap.expr(derived[name]) for name in pairs})
        self.derived.append(derived)
        del self.derived[:-4]
        self.tensors += derived._tensors()[:1]
        loaded = derived.load(dtype="float64", threads=self.number(0, 1, 3), progress=self.progress())
        for name, (_, values) in made.items():
            assert numpy.array_equal(loaded[name], values), name

    def serialize(self):
        from tenmap.safetensors import numpy as drop_in

        drop_in.load(drop_in.save(dict(list(self.arrays.items())[:4]), {"a": "b"}))

    OPERATIONS = ["open", "find", "look", "index", "read", "load", "fill", "fill_storage", "take", "slices", "keep", "take_list",
                  "measure", "convert", "save", "edit", "write", "serialize", "derive", "derive"]  # fmt: skip

    def operation(self):
        """Makes one call, whatever its result."""
        kind = self.random.choice(self.OPERATIONS)
        self.calls += 1
        try:
            getattr(self, kind)()
        except AssertionError:
            raise
        except Exception as error:
            word = f"{kind}: {type(error).__name__}"
            self.raised[word] = self.raised.get(word, 0) + 1

    def turn(self, number):
        if number % FORK_EVERY == 0:
            tenmap.open(self.path).load(threads=1, progress=lambda *done: hostile.fork())
        elif number % 7 == 0:
            with hostile.collecting(self.act_meanwhile, self.random.randrange(1, 40)):
                self.operation()
        elif number % 50 == 0:
            self.running += 1
            threads = [threading.Thread(target=self.operation) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.running -= 1
        else:
            self.operation()


def main(operations, seed):
    faulthandler.enable()
    sys.unraisablehook = lambda unraisable: None  # raised by the callback of a collection
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, hostile.stand_in_for_torch():
        caller, turn = Caller(seed, folder), 0
        while caller.calls < operations:
            turn += 1
            caller.turn(turn)
    finished = caller.calls - sum(caller.raised.values())
    print(f"seed {seed}: {caller.calls} operations, {finished} of them without an exception, in "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    main(*given, *(2000, 1)[len(given) :])
