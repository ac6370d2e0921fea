"""Threads that share models, writers and files without the GIL's help; on a Python with the GIL too."""

import io
import subprocess
import sys
import sysconfig
import threading

import numpy
import pytest

import tenmap
import tenmap.safetensors.numpy
from conftest import same

THREADS = 8
TURNS = 30
MIB = 1 << 20


def together(*works):
    """Runs these functions at once, each on a thread of its own; raises what one of them raised."""
    barrier, raised = threading.Barrier(len(works)), []

    def run(work):
        barrier.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def each(work, count=THREADS):
    """Runs work(0) ... work(count - 1) at once."""
    together(*(lambda number=number: work(number) for number in range(count)))


@pytest.fixture(scope="module")
def tensors():
    generator = numpy.random.default_rng(8)
    small = {f"layer.{i}": generator.random((16, 8), "float32") for i in range(20)}
    return {**small, "large": generator.random((512, 600), "float32")}


@pytest.fixture
def file(tensors, tmp_path):
    path = tmp_path / "m.safetensors"
    tenmap.save_file(tensors, path, {"format": "np"})
    return path


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_the_extension_leaves_the_gil_off():
    """A module that does not declare Py_mod_gil makes Python warn and enable the GIL."""
    program = "import tenmap, sys; raise SystemExit(sys._is_gil_enabled())"
    subprocess.run([sys.executable, "-Werror", "-X", "gil=0", "-c", program], check=True)
    program = "import tenmap._core, sys; raise SystemExit(sys._is_gil_enabled())"
    subprocess.run([sys.executable, "-Werror", "-c", program], check=True)


def test_views_reads_and_loads_of_one_model(file, tensors):
    model = tenmap.open(file)

    def work(number):
        for turn in range(TURNS):
            for name in list(model)[number % 3 :: 3]:
                assert same(model[name].numpy(), tensors[name])
                assert same(model[name][3:9:2].numpy("float64"), tensors[name][3:9:2].astype("float64"))
                assert bytes(model[name].bytes) == tensors[name].tobytes()
            assert same(model.take(["large"])["large"], tensors["large"])
            assert same(model.load({"large": numpy.s_[:, 5:9]}, threads=2)["large"], tensors["large"][:, 5:9])
            assert model.metadata == {"format": "np"} and len(model.items()) == len(tensors)

    each(work)


def test_writable_views_never_share_a_byte(file, tensors):
    """Each view of the same bytes gets a mapping of its own, or a copy."""
    for turn in range(TURNS):
        model, views = tenmap.open(file), [None] * THREADS

        def work(number):
            mine = views[number] = [model[name].numpy(writable=True) for name in tensors]
            for array, name in zip(mine, tensors):
                assert same(array, tensors[name])
                array[...] = number

        each(work)
        for number, mine in enumerate(views):
            assert all((array == number).all() for array in mine)
        assert same(model["large"].numpy(), tensors["large"])


def test_dlpack_never_shares_a_byte(file, tensors):
    for turn in range(TURNS):
        model, views = tenmap.open(file), [None] * THREADS

        def work(number):
            views[number] = numpy.from_dlpack(model["large"])
            if views[number].flags.writeable:
                views[number][...] = number

        each(work)
        addresses = sorted(view.ctypes.data for view in views)
        assert all(b - a >= tensors["large"].nbytes for a, b in zip(addresses, addresses[1:]))
        assert all((view == number).all() for number, view in enumerate(views) if view.flags.writeable)


def test_models_that_are_closed_while_others_use_them(file, tensors):
    for turn in range(TURNS):
        model = tenmap.open(file)

        def work(number):
            try:
                for name in tensors:
                    assert same(model[name].numpy(writable=number % 2 == 0), tensors[name])
                    assert model.load([name], dtype="float64")[name].dtype == "float64"
            except ValueError as error:
                assert "closed" in str(error)
            if number == 0:
                model.close()

        each(work)
        assert model.closed


def test_kept_memory_goes_to_one_load_at_a_time(file, tensors):
    model = tenmap.open(file)

    def work(number):
        for turn in range(TURNS):
            array = model.load(["large"], dtype="float64", threads=1)["large"]
            assert same(array, tensors["large"].astype("float64"))
            array[...] = number
            if turn % 7 == number % 7:
                tenmap.keep_memory((turn % 3) * 8 * MIB)
            assert (array == number).all()
            del array

    tenmap.keep_memory(32 * MIB)
    each(work)
    assert tenmap.keep_memory(0) == 0


def test_a_writer_that_all_threads_fill(tensors, tmp_path):
    for turn in range(TURNS // 3):
        path, rows = tmp_path / f"w{turn}.safetensors", tensors["large"].shape[0] // THREADS
        with tenmap.Writer(path) as writer:

            def declare(number):
                for i in range(20):
                    writer.add(f"{number}.{i}", "F32", [number + 1])

            def fill(number):
                for i in range(20):
                    writer.write(f"{number}.{i}", numpy.full(number + 1, i, "float32"))
                part = tensors["large"][number * rows : (number + 1) * rows]
                writer.write("large", part, number * part.nbytes)

            each(declare)
            writer.add("large", "F32", tensors["large"].shape)
            each(fill)
        written = tenmap.open(path)
        assert len(written) == 20 * THREADS + 1 and same(written["large"].numpy(), tensors["large"])
        for number in range(THREADS):
            for i in range(20):
                assert written[f"{number}.{i}"].tolist() == [i] * (number + 1)


def test_a_writer_that_ends_while_others_write(tensors, tmp_path):
    """A file appears only if all bytes were written; every other call says why it failed."""
    for turn in range(TURNS):
        path = tmp_path / f"e{turn}.safetensors"
        writer = tenmap.Writer(path)
        for number in range(THREADS):
            writer.add(str(number), "F32", [1000])

        def work(number):
            try:
                writer.write(str(number), numpy.full(1000, number, "float32"))
                writer.commit()
            except ValueError as error:
                assert "ended" in str(error)
            except RuntimeError as error:  # another thread is writing
                assert isinstance(error, tenmap.Error) or "still writing" in str(error)
            except tenmap.Error:  # bytes are missing, which ends the writer
                pass

        each(work)
        writer.abort()
        assert writer.ended
        if path.exists():
            model = tenmap.open(path)
            assert all((model[name].numpy() == int(name)).all() for name in model)


class Failing(io.BytesIO):
    """Raises in each read by a thread, an exception that names the thread."""

    fail = False

    def read(self, *size):
        if self.fail:
            raise LookupError(threading.get_ident())
        return super().read(*size)


def test_each_thread_gets_its_own_exception(file):
    source = Failing(file.read_bytes())
    model = tenmap.open(source)
    source.fail = True

    def work(number):
        for turn in range(TURNS):
            with pytest.raises(LookupError) as caught:
                model["layer.3"].tolist()
            assert caught.value.args == (threading.get_ident(),)
            with pytest.raises(FileNotFoundError):
                tenmap.open(f"/nowhere/{number}")

    each(work)


def test_the_first_failures_of_a_process_may_be_on_many_threads():
    program = """if True:
        import threading, tenmap
        barrier, kinds = threading.Barrier(8), []
        def work():
            barrier.wait()
            try: tenmap.open("/nowhere")
            except Exception as error: kinds.append(isinstance(error, tenmap.Error) and isinstance(error, FileNotFoundError))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert kinds == [True] * 8, kinds"""
    for turn in range(3):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_threads_open_save_and_load_the_same_files(file, tensors, tmp_path):
    def work(number):
        for turn in range(TURNS // 3):
            loaded = tenmap.safetensors.numpy.load_file(file)
            assert all(same(loaded[name], tensors[name]) for name in tensors)
            tenmap.save_file(loaded, tmp_path / "o.safetensors", threads=2)
            with tenmap.safetensors.safe_open(tmp_path / "o.safetensors", "numpy") as opened:
                assert same(opened.get_slice("large")[3:5], tensors["large"][3:5])
            assert tenmap.measure(tenmap.open(file), bins=4)["large"].count == tensors["large"].size

    each(work)
