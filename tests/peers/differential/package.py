"""Prints the Python package's verdict on each file of a stream, in lines like those of judge.c:

        A Tname:dtype:dims:bytes ... Mkey=value ...    tensors by name; metadata if it was asked for
    R

With FOLDER, package.py opens every fourth accepted file a second time, from FOLDER, since the
package returns metadata only then. The line of such a file begins with "A+".
"""
import os
import sys

from safetensors import SafetensorError, deserialize, safe_open

PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def shown(text):
    return "".join(chr(c) if c in PLAIN else "%%%02x" % c for c in text.encode())


def tensor_words(tensors):
    for name, info in sorted(tensors, key=lambda pair: pair[0].encode()):
        dims = ",".join(map(str, info["shape"]))
        yield " T%s:%s:%s:%d" % (shown(name), info["dtype"], dims, len(info["data"]))


def metadata_words(path, file):
    with open(path, "wb") as out:
        out.write(file)
    with safe_open(path, "np") as model:
        pairs = model.metadata() or {}
    for key, value in sorted(pairs.items(), key=lambda pair: pair[0].encode()):
        yield " M%s=%s" % (shown(key), shown(value))


def main():
    path = os.path.join(sys.argv[1], "package.safetensors")
    source = sys.stdin.buffer
    accepted = 0
    while frame := source.read(4):
        file = source.read(int.from_bytes(frame, "little"))
        try:
            words = list(tensor_words(deserialize(file)))
        except SafetensorError:
            print("R")
            continue
        accepted += 1
        if accepted % 4 == 0:
            words = ["+"] + words + list(metadata_words(path, file))
        print("A" + "".join(words))


if __name__ == "__main__":
    main()
