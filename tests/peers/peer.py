"""What the comparisons with Python packages share."""
import ctypes
import os
import runpy
import sys

SKIP = 77  # the exit code if a package is missing


def hand_over():
    """Runs this script with the interpreter that TENMAP_PEERS_PYTHON names, if it names one."""
    other = os.environ.pop("TENMAP_PEERS_PYTHON", None)
    if other:
        os.execv(other, [other] + sys.argv)


def dtype_values(library):
    """Returns the value of every dtype that a loaded library has, by name, with AS_STORED's."""
    library.tenmap_dtype_name.restype = ctypes.c_char_p
    values, value = {"AS_STORED": 0}, 1
    while library.tenmap_dtype_bits(value):
        values[library.tenmap_dtype_name(value).decode()] = value
        value += 1
    return values


def numpy_names():
    """Returns what numpy or ml_dtypes calls every dtype, from the Python package's table."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    table = runpy.run_path(os.path.join(root, "python/tenmap/_dtype_names.py"))["TABLE"]
    return {name: names[0] for name, names in table.items()}
