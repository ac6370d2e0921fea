"""python -m tenmap.safetensors SCRIPT [ARGUMENT ...], or -m MODULE: runs it with tenmap in place of
safetensors."""

import os
import runpy
import sys

import tenmap


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        sys.exit("usage: python -m tenmap.safetensors SCRIPT [ARGUMENT ...]\n       python -m tenmap.safetensors -m MODULE ...")
    tenmap.install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
