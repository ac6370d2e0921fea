#!/usr/bin/env python3
"""Writes the golden PyTorch checkpoints: tests/golden/make_pytorch.py. make.py writes the others."""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
PICKLE = (b"}(X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
          b"U\0010U\3cpuK\4tQK\0(K\2K\2t(K\2K\1t\x89ccollections\nOrderedDict\n)RtRX\5\0\0\0epochK\3u.")
FILES = [("m/data.pkl", PICKLE), ("m/byteorder", b"little"), ("m/data/0", bytes(range(16)))]


def local(name, data, flags=0, method=0, size=None, extra=b""):
    size = len(data) if size is None else size
    return (b"PK\3\4" + struct.pack("<5HIIIHH", 20, flags, method, 0, 0, 0, size, size, len(name),
                                    len(extra)) + name.encode() + extra + data)


def record(name, size, at, flags=0, method=0, extra=b""):
    return (b"PK\1\2" + struct.pack("<6HIIIHHHHHII", 20, 20, flags, method, 0, 0, 0, size, size, len(name),
                                    len(extra), 0, 0, 0, 0, at) + name.encode() + extra)


def end(count, size, at, comment=b""):
    return b"PK\5\6" + struct.pack("<4HIIH", 0, 0, count, count, size, at, len(comment)) + comment


def end64(count, size, at, place):
    return (b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, at) + b"PK\6\7" +
            struct.pack("<IQI", 0, place, 1))


def archive(files=FILES, prefix=b"", comment=b"", records=None, wide=None, **lies):
    """The entries one after the other, and their directory, unless `records` says another one."""
    body, directory = prefix, b""
    for name, data in files:
        directory += record(name, len(data), len(body), lies.get("flags", 0), lies.get("method", 0))
        body += local(lies.get("local_name", name), data, lies.get("flags", 0), lies.get("method", 0),
                      lies.get("local_size"))
    count = len(files)
    if records is not None:
        directory, count = b"".join(records), len(records)
    tail = b""
    if wide is not None:
        tail = end64(count + wide, len(directory), len(body), len(body) + len(directory))
    return body + directory + tail + end(count, len(directory), len(body), comment)


def changed(*words):
    """The archive with another pickle: each of the odd words is replaced by the one behind it."""
    pickled = PICKLE
    for before, after in zip(words[::2], words[1::2]):
        assert pickled.count(before) == 1
        pickled = pickled.replace(before, after)
    return archive([("m/data.pkl", pickled)] + FILES[1:])


SYSTEM = b"\x80\2}(X\x10\0\0\0protocol_versionM\xe9\3X\r\0\0\0little_endian\x88u."
VALUES = b"\x80\2" + PICKLE.replace(b"K\4tQ", b"K\4NtQ")
STORAGE = struct.pack("<Q", 4) + bytes(range(16))


def legacy(version=b"M\xe9\3", system=SYSTEM, values=VALUES, keys=b"]X\1\0\0\0000a.", behind=STORAGE):
    """A checkpoint as torch wrote them before 1.6: five pickles, then the storages."""
    magic = b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
    return magic + b"\x80\2" + version + b"." + system + values + b"\x80\2" + keys + behind


def tar_header(name, size):
    block = bytearray(512)
    block[:len(name)] = name
    block[100:136] = b"0000644\0000000000\0000000000\0%011o\0" % size
    block[257:265] = b"ustar\00000"
    return bytes(block)


def write(folder, name, data):
    with open(os.path.join(HERE, folder, name + ".pt"), "wb") as out:
        out.write(data)


def good():
    write("good", "torch-plain", archive())
    write("good", "torch-comment", archive(comment=b"a comment"))
    write("good", "torch-64-bits", archive(wide=0))
    write("good", "legacy-plain", legacy())
    # Two elements of the storage's four, from the third one on.
    view = VALUES.replace(b"K\4NtQK\0(K\2K\2t(K\2K\1t", b"K\4(U\1vK\2K\2ttQK\0(K\2t(K\1t")
    write("good", "legacy-view", legacy(values=view))


def bad():
    one = FILES[:1]
    write("bad", "zip-name-twice", archive(FILES + [("m/data/0", b"x")]))
    write("bad", "zip-local-name", archive(local_name="m/other"))
    write("bad", "zip-local-size", archive(local_size=5))
    inner = local("m/in", b"data")
    write("bad", "zip-overlap", archive([("m/out", inner)], records=[
        record("m/out", len(inner), 0), record("m/in", 4, len(local("m/out", b"")))]))
    write("bad", "zip-outside", archive(one, local_size=5000, records=[
        record("m/data.pkl", 5000, 0)]))
    write("bad", "zip-64-bit-lie", archive(wide=1))
    write("bad", "zip-64-bit-missing", archive(one, records=[record("m/data.pkl", 2**32 - 1, 0)]))
    write("bad", "zip-prefix", archive(prefix=b"PK\3\4 a program that unpacks itself"))
    write("bad", "zip-comment-is-an-end", archive(comment=end(0, 0, 0)))
    write("bad", "zip-compressed", archive(method=8))
    write("bad", "zip-encrypted", archive(flags=1))
    write("bad", "pickle-two-values", archive([("m/data.pkl", b"NN.")]))
    write("bad", "pickle-trailing", archive([("m/data.pkl", b"}.N.")]))
    write("bad", "pickle-key-twice", changed(b"X\5\0\0\0epoch", b"X\1\0\0\0a"))
    write("bad", "pickle-sets-elements", changed(
        b"ctorch._utils\n_rebuild_tensor_v2", b"ctorch._utils\n_rebuild_parameter_with_state\n("
        b"ctorch._utils\n_rebuild_tensor_v2", b"tRX\5", b"tR\x89N}X\4\0\0\0realK\1stRX\5"))
    write("bad", "pickle-sets-items", changed(b"tRX\5", b"tRK\0K\1sX\5"))
    write("bad", "pickle-memo", archive([("m/data.pkl", b"Nr\xff\xff\xff\xff.")]))
    write("bad", "torch-big-endian", archive([("m/data.pkl", b"}."), ("m/byteorder", b"big")]))
    write("bad", "torch-no-storage", archive(FILES[:2]))
    write("bad", "legacy-version", legacy(version=b"M\xea\3"))
    write("bad", "legacy-big-endian", legacy(system=SYSTEM.replace(b"\x88", b"\x89")))
    write("bad", "legacy-code-in-the-keys", legacy(keys=b"cos\nsystem\n)R."))
    write("bad", "legacy-key-twice", legacy(keys=b"](X\1\0\0\0000X\1\0\0\0000e."))
    write("bad", "legacy-key-without-a-tensor", legacy(keys=b"](X\1\0\0\0000X\1\0\0\0001e."))
    write("bad", "legacy-no-storage", legacy(keys=b"].", behind=b""))
    write("bad", "legacy-two-types", legacy(values=VALUES.replace(
        b"u.", b"X\1\0\0\0b(X\7\0\0\0storagectorch\nHalfStorage\nU\0010U\3cpuK\4NtQu.")))
    write("bad", "legacy-count", legacy(behind=struct.pack("<Q", 5) + bytes(20)))
    write("bad", "legacy-pickle-truncated", legacy()[:200])
    write("bad", "legacy-storage-truncated", legacy()[:-1])
    write("bad", "legacy-trailing", legacy() + b"more")
    view = VALUES.replace(b"K\4NtQ", b"K\4(U\1vK\3K\2ttQ")
    write("bad", "legacy-view-outside", legacy(values=view))
    write("bad", "legacy-view-of-its-own-key", legacy(values=view.replace(b"U\1v", b"U\0010")))
    write("bad", "legacy-magic", legacy()[:10] + b"?" + legacy()[11:])
    write("bad", "torch-tar", tar_header(b"sys_info", 0) + bytes(1024))


if __name__ == "__main__":
    good()
    bad()
