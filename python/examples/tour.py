"""A tour of tenmap in Python: python tour.py [FOLDER]. Needs numpy and ml_dtypes."""

import os
import sys
import tempfile

import numpy

import tenmap


def write_a_model(path):
    """Writes arrays into one file, which appears whole or not at all."""
    generator = numpy.random.default_rng(1)
    weights = {
        f"layers.{i}.weight": tenmap.convert(generator.standard_normal((64, 32)), "BF16") for i in range(4)
    }
    tenmap.save_file(weights, path, metadata={"format": "np"})


def look_into(path):
    """Opening reads only the header, whatever the size of the file."""
    with tenmap.open(path) as model:
        print(f"{len(model)} tensors, metadata {model.metadata}")
        for name, tensor in model.items():
            print(f"  {name}: {tensor.dtype} {list(tensor.shape)} at byte {tensor.offset}")


def read_values(path):
    """Returns views if possible, and converts if asked. Views outlive the model."""
    with tenmap.open(path) as model:
        view = model["layers.0.weight"].numpy()  # BF16, in place, read-only
        rows = model["layers.1.weight"][::16, :4].numpy("float32")  # reads 4 x 4 elements
        weights = model.load(dtype="float32")  # all of them, on all cores
    print(f"view {view.dtype} {view.shape}, writable: {view.flags.writeable}")
    print(f"rows {rows.dtype} {rows.shape}, {len(weights)} loaded as {weights['layers.0.weight'].dtype}")
    assert numpy.array_equal(view.astype("float32"), weights["layers.0.weight"])


def measure(path):
    with tenmap.open(path) as model:
        for name, stats in tenmap.measure(model).items():
            assert abs(stats.mean) < 0.1 and 0.9 < stats.std < 1.1, name
    print("values: mean near 0, deviation near 1")


def write_piece_by_piece(path, out):
    """Writes a file that need not fit into memory. An exception would leave the old file."""
    with tenmap.open(path) as model, tenmap.Writer(out) as writer:
        for name, tensor in model.items():
            writer.add(name, "F16", tensor.shape)
        for name, tensor in model.items():
            writer.copy(name, tensor)  # converts while copying
    print(f"copied as {tenmap.open(out)['layers.3.weight'].dtype}")


def stand_in_for_safetensors(path):
    tenmap.install()
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        print(f"safetensors: {file.get_slice('layers.2.weight')[-2:].shape}")
    tenmap.uninstall()


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    path = os.path.join(folder, "demo.safetensors")
    write_a_model(path)
    look_into(path)
    read_values(path)
    measure(path)
    write_piece_by_piece(path, os.path.join(folder, "half.safetensors"))
    stand_in_for_safetensors(path)


if __name__ == "__main__":
    main()
