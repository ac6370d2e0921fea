"""Compares tenmap with the reference: compare.py FOLDER CASES SEED [PYTHON]

FOLDER holds the programs generate, judge and reference. PYTHON is an interpreter with the package
safetensors, which is compared too if it is given. Prints the counts. A disagreement is shrunk,
printed and left in tests/golden/found/, and makes the exit status 1.

What counts as agreement, for a file:
- both accept it, and see the same names, dtypes, shapes, offsets and metadata;
- both refuse it, for the same rule (1 to 3 count as one);
- it contains something that tenmap rejects on purpose, as the reference's program found by
  walking the JSON, and tenmap rejects it with the error message for that;
- it begins like a file of another format that tenmap opens (GGUF, PyTorch, NumPy): the reference
  refuses it, and tenmap judges it by other rules.
The reference returns tensors at the same offsets in any order, and reports any of the rules that
they break first. So a different rule counts only if 400 tries do not produce tenmap's.
"""
import collections
import json
import os
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FOUND = os.path.join(HERE, "..", "..", "golden", "found")
BATCH = 50000
TRIES = 400
INTENT = {"n": b"the name appears twice", "m": b"appears twice in __metadata__",
          "a": b"expected an object with dtype", "d": b"expected the dtype as a string"}

# GGUF; a zip archive; an array; a pickle of protocol 2 to 5; torch's magic number in protocol 0.
OTHER_FORMATS = (b"GGUF", b"PK\3\4", b"\x93NUMPY", b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5",
                 b"L119547037146038801333356L")


def agree(mine, theirs):
    """Returns whether a line of judge and a line of reference agree."""
    if mine[:1] == b"A":
        return mine == theirs
    if theirs[:1] == b"S":
        kinds = theirs.split()[1].decode()
        return mine[:4] == b"R 05" and any(INTENT.get(kind, b"\0") in mine for kind in kinds)
    return theirs[:1] == b"R" and mine[:4] == theirs[:4]


class Peers:
    def __init__(self, folder, python=None):
        self.programs = {name: os.path.join(folder, name) for name in ("generate", "judge", "reference")}
        self.judges = {"judge": [self.programs["judge"]], "reference": [self.programs["reference"]]}
        if python:
            self.judges["package"] = [python, os.path.join(HERE, "package.py"), folder]

    def generate(self, seed, first, count):
        command = [self.programs["generate"], str(seed), str(first), str(count)]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    def lines(self, seed, first, count):
        """Returns the lines of all judges for each case."""
        running = []
        for command in self.judges.values():
            source = self.generate(seed, first, count)
            running.append((source, subprocess.Popen(command, stdin=source.stdout,
                                                     stdout=subprocess.PIPE)))
            source.stdout.close()
        got = 0
        for case in zip(*(judge.stdout for _, judge in running)):
            yield case
            got += 1
        for source, judge in running:
            if judge.stdout.read(1) or judge.wait() or source.wait():
                raise SystemExit("a program of the differential tests failed")
        if got != count:
            raise SystemExit(f"{count} cases were made, but {got} judged")

    def judge(self, name, files, *words):
        """Returns the lines of one judge for these files."""
        stream = b"".join(struct.pack("<I", len(file)) + file for file in files)
        run = subprocess.run(self.judges[name] + list(words), input=stream, stdout=subprocess.PIPE,
                             check=True)
        return run.stdout.splitlines(keepends=True)

    def case(self, seed, number):
        source = self.generate(seed, number, 1)
        return source.communicate()[0][4:]

    def disagrees(self, files):
        """Returns, for each file, what the two say if they disagree, or None."""
        out = []
        for file, mine, theirs in zip(files, self.judge("judge", files),
                                      self.judge("reference", files)):
            same = agree(mine, theirs) or (file.startswith(OTHER_FORMATS) and theirs[:1] == b"R")
            if not same and mine[:1] == theirs[:1] == b"R":
                ties = self.judge("reference", [file], str(TRIES))[0].strip().split(b"|")
                same = mine[:4] in ties
            out.append(None if same else (mine, theirs))
        return out


def kind(lines):
    """Returns what identifies a disagreement: the verdicts, without names and numbers."""
    return tuple(line[:4] if line[:1] != b"A" else b"A" for line in lines)


def dump(value):
    """Returns the JSON of what json.loads returns with objects as pairs: a tuple of (key,
    value)."""
    if isinstance(value, tuple):
        return "{" + ",".join(f"{json.dumps(k)}:{dump(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


def without_members(text, data):
    """Yields the file without one member, its bytes removed and later offsets moved."""
    try:
        members = json.loads(text, object_pairs_hook=tuple)
        spans = [dict(entry).get("data_offsets") if isinstance(entry, tuple) else None
                 for _, entry in members]
    except (ValueError, TypeError):
        return
    for out, span in enumerate(spans):
        begin, end = span if isinstance(span, list) and len(span) == 2 else (0, 0)
        if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end <= len(data)):
            continue

        def moved(pair):
            good = pair[0] == "data_offsets" and isinstance(pair[1], list)
            return (pair[0], [at - (end - begin) if isinstance(at, int) and at >= end else at
                              for at in pair[1]]) if good else pair

        kept = tuple((name, tuple(map(moved, entry)) if isinstance(entry, tuple) else entry)
                     for i, (name, entry) in enumerate(members) if i != out)
        less = dump(kept).encode()
        yield struct.pack("<Q", len(less)) + less + data[:begin] + data[end:]


def smaller(text, data):
    """Yields smaller files: without members, then without pieces of the text, large ones first,
    then of the data."""
    yield from without_members(text, data)
    size = len(text)
    while size > 0:
        for at in range(0, len(text), size):
            less = text[:at] + text[at + size:]
            yield struct.pack("<Q", len(less)) + less + data
        size //= 2
    for keep in (0, len(data) // 2, len(data) - 1):
        if 0 <= keep < len(data):
            yield struct.pack("<Q", len(text)) + text + data[:keep]


def shrink(peers, file):
    """Returns the file without everything that the disagreement does not need."""
    before = peers.disagrees([file])[0]
    wanted = kind(before)
    for _ in range(2000):
        length = struct.unpack("<Q", file[:8])[0] if len(file) >= 8 else None
        if length is None or 8 + length > len(file):
            return file
        tries = list(smaller(file[8:8 + length], file[8 + length:]))
        found = None
        for at in range(0, len(tries), 64):
            part = tries[at:at + 64]
            hits = [f for f, lines in zip(part, peers.disagrees(part)) if lines and kind(lines) == wanted]
            if hits:
                found = hits[0]
                break
        if found is None:
            return file
        file = found
    return file


def report(peers, seed, number, file):
    small = shrink(peers, file)
    mine, theirs = peers.disagrees([small])[0]
    os.makedirs(FOUND, exist_ok=True)
    path = os.path.join(FOUND, f"{seed}-{number}.safetensors")
    with open(path, "wb") as out:
        out.write(small)
    print(f"case {number} of seed {seed}, shrunk from {len(file)} to {len(small)} bytes in "
          f"{os.path.relpath(path)}:\n  {small!r}\n  tenmap:    {mine!r}\n  reference: {theirs!r}")


def package_view(mine):
    """Returns a line of judge as the package's program prints it: sizes, not offsets, by name."""
    words = mine.decode().split()
    tensors, pairs = [], []
    for word in words[1:]:
        if word[0] == "M":
            pairs.append(" " + word)
            continue
        name, dtype, dims, begin, end = word[1:].split(":")
        tensors.append(f" T{name}:{dtype}:{dims}:{int(end) - int(begin)}")
    return sorted(tensors), pairs


def package_agrees(mine, theirs, package):
    """The package reports less: whether it opens, the tensors, and for some files the metadata."""
    opens = theirs[:1] == b"A" or (theirs[:1] == b"S" and theirs.split()[2] == b"A")
    if package[:1] != (b"A" if opens else b"R"):
        return False
    if mine[:1] != b"A":
        return True
    words = package.decode().split()
    tensors, pairs = package_view(mine)
    got = [" " + word for word in words[1:]]
    if sorted(word for word in got if word[1] == "T") != tensors:
        return False
    return words[0] == "A" or [word for word in got if word[1] == "M"] == pairs


def run(peers, cases, seed):
    counts, failures, started = collections.Counter(), 0, time.monotonic()
    for first in range(0, cases, BATCH):
        size = min(BATCH, cases - first)
        unsure = []
        for number, (mine, theirs, *package) in enumerate(peers.lines(seed, first, size), first):
            counts[mine[:1] if mine[:1] == b"A" else mine[:4]] += 1
            if theirs[:1] == b"S":
                counts["by intent"] += 1
                counts["of them taken by the reference"] += theirs.split()[2] == b"A"
            if not agree(mine, theirs):
                unsure.append(number)
            elif package and not package_agrees(mine, theirs, package[0]):
                print(f"case {number} of seed {seed}: tenmap {mine!r}, package {package[0]!r}")
                failures += 1
        for number in unsure:
            file = peers.case(seed, number)
            if peers.disagrees([file])[0]:
                failures += 1
                if failures <= 10:
                    report(peers, seed, number, file)
            else:
                counts["refused by both, rule by the order of a tie"] += 1
    seconds = time.monotonic() - started
    print(f"{cases} cases of seed {seed} in {seconds:.0f} s, {cases / seconds:.0f} a second, "
          f"by {', '.join(peers.judges)}")
    print(f"  {counts.pop(b'A', 0)} opened; " + "; ".join(
        f"{counts[key]} {'refused, rule ' + key[2:].decode() if isinstance(key, bytes) else key}"
        for key in sorted(counts, key=str)))
    print(f"  {failures} disagreements")
    return failures


def golden(peers):
    """Judges the golden files: tenmap must open the good ones and reject the bad ones, and the
    reference must agree, except where they differ on purpose."""
    failures = files = 0
    for verdict, folder in (("A", "good"), ("R", "bad")):
        top = os.path.join(HERE, "..", "..", "golden", folder)
        for name in sorted(os.listdir(top)):
            with open(os.path.join(top, name), "rb") as source:
                file = source.read()
            files += 1
            mine = peers.judge("judge", [file])[0]
            if peers.disagrees([file])[0] or mine[:1] != verdict.encode():
                print(f"{folder}/{name}: {peers.disagrees([file])}")
                failures += 1
    print(f"{files} golden files, {failures} disagreements")
    return failures


def self_test(peers):
    """A judge with a planted fault must be caught, and the case shrunk to little more."""
    faulty = Peers(os.path.dirname(peers.programs["judge"]))
    faulty.judges["judge"] = ["sh", "-c", f'"{peers.programs["judge"]}" | sed s/:F6_E3M2:/:F6_E2M3:/']
    found = [number for number, (mine, theirs) in enumerate(faulty.lines(1, 0, 2000))
             if mine[:1] == theirs[:1] == b"A" and not agree(mine, theirs)]
    if not found:
        raise SystemExit("a planted fault was not found")
    small = shrink(faulty, faulty.case(1, found[0]))
    if b"F6_E3M2" not in small or len(small) > 80:
        raise SystemExit(f"a planted fault was not shrunk: {small!r}")
    print(f"a planted fault was found {len(found)} times and shrunk to {len(small)} bytes")


def main():
    folder, cases, seed, *python = sys.argv[1:]
    peers = Peers(folder, *python)
    self_test(peers)
    failures = golden(peers) + run(peers, int(cases), int(seed))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
