"""Runs examples/archive.c on archives that zipfile writes: archive_example.py ARCHIVE FIXTURES
TENMAP"""
import os
import subprocess
import sys
import tempfile
import zipfile

ARCHIVE, FIXTURES, TOOL = map(os.path.realpath, sys.argv[1:4])


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    subprocess.run([FIXTURES, "."], check=True)
    with zipfile.ZipFile("m.zip", "w", zipfile.ZIP_STORED) as made:
        made.comment = b"a comment of some length"
        made.write("small.safetensors", "deep/er/small.safetensors")
        made.write("small.safetensors", "packed.safetensors", compress_type=zipfile.ZIP_DEFLATED)
        for name in os.listdir("sharded"):
            with made.open(zipfile.ZipInfo("x/" + name), "w", force_zip64=True) as out, \
                    open("sharded/" + name, "rb") as file:
                out.write(file.read())
    for member, path in (("deep/er/small.safetensors", "small.safetensors"),
                         ("x/model.safetensors.index.json", "sharded")):
        listing = run(TOOL, "ls", "--tsv", "--sort", "file", path)[1]
        wanted = [line.split("\t")[0] for line in listing.splitlines()[1:]]
        code, listed, said = run(ARCHIVE, "m.zip", member)
        assert code == 0 and [line.split()[0] for line in listed.splitlines()] == wanted, (member, listed, said)
    assert "compressed" in run(ARCHIVE, "m.zip", "packed.safetensors")[2]
    assert "no such member" in run(ARCHIVE, "m.zip", "none")[2]
    assert run(ARCHIVE, "small.safetensors", "x")[0] == 1
print("members of an archive open as files do")
