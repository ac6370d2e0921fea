"""Malicious checkpoints open as data or are refused, call nothing, and check names their code.

    pytorch_malicious.py LIBRARY TENMAP [SDIST [MUTATIONS]]

tests the files of pytorch_payloads.py, and MUTATIONS (20,000 by default) of their pickles with
other opcodes. Four parts:

1. an unpickler that only records shows that each file would call its payload;
2. each file and each mutation is opened in memory and read completely, under seccomp: any system
   call beyond those for memory kills the process. A control must be killed;
3. tenmap_open and tenmap_check of each path, and `tenmap check` of one file per global, under
   strace: they start no program, make no socket, and open no file that they would not open for a
   harmless checkpoint;
4. the findings name each global that is not data, with the offset of its opcode. The tool says that
   it is code and exits with 1, or with 2 if it refuses the file.

Exits with 77 if picklescan or fickling is missing. Parts that cannot run here are reported.
"""
import collections
import ctypes
import os
import platform
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import pytorch_payloads
from pytorch_library import FOUND, FOUND_CODE, Library, Refused

# Globals that the scanners call suspicious and the library data: mappings, and texts as bytes.
DATA = (("__builtin__", "dict"), ("collections", "Counter"), ("_codecs", "encode"), ("torch._utils", "_rebuild_tensor"))

# The containers of payloads in the values; the others have them in the pickles around the values.
CHECKPOINTS = ("zip", "main")

# The system calls with which a process computes, prints and ends, on x86_64; others are fatal:
# read, write, close, fstat, lseek, mmap, mprotect, munmap, brk, rt_sigaction, rt_sigprocmask,
# rt_sigreturn, pread64, sched_yield, mremap, madvise, getpid, exit, gettid, futex, clock_gettime,
# exit_group, getrandom.
HARMLESS = (0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 17, 24, 25, 28, 39, 60, 186, 202, 228, 231, 318)


def forbid_system_calls():
    """Loads a seccomp filter: a system call that is not harmless kills the process with SIGSYS."""
    instructions = [(0x20, 0, 0, 4), (0x15, 1, 0, 0xC000003E), (0x06, 0, 0, 0x80000000), (0x20, 0, 0, 0)]
    for number in HARMLESS:
        instructions += [(0x15, 0, 1, number), (0x06, 0, 0, 0x7FFF0000)]
    instructions.append((0x06, 0, 0, 0x80000000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    unused = [ctypes.c_ulong(0)] * 3
    if libc.prctl(38, ctypes.c_ulong(1), *unused) or libc.prctl(22, ctypes.c_ulong(2), program):
        raise OSError(ctypes.get_errno(), "prctl")


def open_all(library, data, flags=0):
    """Opens bytes and reads every tensor: "opened" or "refused"."""
    try:
        model = library.open(data, flags)
    except Refused:
        return "refused"
    library.tensors(model)
    library.metadata(model)
    library.close(model)
    return "opened"


def mutate(pick, data):
    """Other opcodes, other arguments, pieces of the same file elsewhere."""
    data = bytearray(data)
    for _ in range(pick.randint(1, 4)):
        at, kind = pick.randrange(len(data)), pick.randrange(6)
        if kind == 0:
            data[at] = pick.choice(b"(.012FIJKLMNPQRSTUVXabcdeghijlopqrstu})]\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a"
                                   b"\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98BCG")
        elif kind == 1:
            data[at] ^= 1 << pick.randrange(8)
        elif kind == 2:
            data[at:at] = pick.choice([b"0", b"2", b"(", b"t", b"R", b"\x93", b"b", b"s", b"u", b"e", b"\x81", b"N."])
        elif kind == 3:
            del data[at:at + pick.randint(1, 9)]
        elif kind == 4:
            begin = pick.randrange(len(data))
            data[at:at] = data[begin:begin + pick.randint(1, 60)]
        else:
            data[at:at + 4] = pick.choice([b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\0\0\0\0"])
        data = data or bytearray(b".")
    return bytes(data)


def in_container(payload, pickled):
    if payload.container == "zip":
        return pytorch_payloads.zip_file(pickled)[0]
    return pytorch_payloads.legacy_file(pickled, payload.container)[0]


def in_child(work):
    """Runs work() in a process of its own and returns how that ended, as os.waitpid does."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        except BaseException as error:
            print("%s: %s" % (type(error).__name__, error))
            sys.stdout.flush()
            os._exit(1)
    return os.waitpid(child, 0)[1]


def under_seccomp(library, every, mutations):
    if sys.platform != "linux" or platform.machine() != "x86_64":
        print("skipped: the list of system calls is that of Linux on x86_64")
        return
    pick = random.Random(33)
    chosen = [pick.choice(every) for _ in range(mutations)]
    mutated = [in_container(payload, mutate(pick, payload.pickled)) for payload in chosen]

    def control():
        forbid_system_calls()
        os.open("/dev/null", os.O_RDONLY)

    def work():
        tally = collections.Counter()
        open_all(library, pytorch_payloads.benign()["zip"])  # what Python and the library do once
        forbid_system_calls()
        for payload in every:
            tally["files " + open_all(library, payload.data)] += 1
            open_all(library, payload.data, 128)
        for data in mutated:
            tally["mutations " + open_all(library, data)] += 1
        print("under seccomp: " + ", ".join("%d %s" % (n, what) for what, n in sorted(tally.items())))

    status = in_child(control)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS, "the control was not killed: %d" % status
    status = in_child(work)
    assert status == 0, "a malicious file made the process end with %d" % status


TRACED = "execve,execveat,fork,vfork,clone,clone3,%network,%file"
BEGIN, END = "/tenmap-begin", "/tenmap-end"


def can_trace():
    works = shutil.which("strace") and subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True)
    if not works or works.returncode:
        print("skipped: there is no strace, or it may not trace")
        return False
    return True


def trace(arguments, log):
    command = ["strace", "-f", "-qq", "-s", "4096", "-e", "trace=" + TRACED, "-o", log] + arguments
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    with open(log, encoding="utf-8", errors="replace") as file:
        return done, [re.sub(r"^\d+ +", "", line).strip() for line in file]


def paths_child(path_library, folder):
    """What part 3 traces: every file of a folder is opened and checked by its path."""
    library = Library(path_library)
    FOUND(lambda *_: None)  # libffi looks at the system once
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        os.path.exists(BEGIN)
        try:
            model = library.open(path)
            library.tensors(model)
            library.close(model)
        except Refused:
            pass
        library.check(path)
    os.path.exists(END)


def paths_under_strace(library_path, folder, log):
    done, lines = trace([sys.executable, __file__, "--paths", library_path, folder], log)
    assert done.returncode == 0, done.stdout + done.stderr
    begin = next(i for i, line in enumerate(lines) if BEGIN in line)
    end = next(i for i, line in enumerate(lines) if END in line)
    inside = [line for line in lines[begin:end] if BEGIN not in line]
    assert len(inside) >= 2 * len(os.listdir(folder)) - 10, "strace saw too little"
    wrong = [line for line in inside if not line.startswith(("open", "newfstatat", "stat", "lstat", "readlink", "access",
                                                             "faccessat", "statx", "getcwd", "fstat"))
             or (folder not in line and not re.match(r'newfstatat\(\d+, ""', line)
                 and not (line.startswith("readlink") and folder.startswith(line.split('"')[1])))
             or re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", line)]
    assert not wrong, "beyond the file: " + "\n".join(wrong[:5])
    print("under strace: %d calls for %d paths, all of them reads of the file or questions about its folder" %
          (len(inside), len(os.listdir(folder))))


def calls_of_tool(tool, path, log):
    """What `tenmap check` does with a file, without the file's name and addresses."""
    done, lines = trace([tool, "check", path], log)
    kept = [re.sub(r"0x[0-9a-f]+|= .*|\d+", "", line.replace(path, "FILE").replace(os.path.basename(path), "FILE"))
            for line in lines]
    return done, sorted(set(kept))


def tool_under_strace(tool, folder, chosen, log):
    usual, failures = {}, []
    for container in {payload.container for payload in chosen}:
        data = pytorch_payloads.benign()[container]
        path = os.path.join(folder, "harmless." + container)
        with open(path, "wb") as file:
            file.write(data)
        done, usual[container] = calls_of_tool(tool, path, log)
        if done.returncode:
            failures.append("`tenmap check` of a harmless checkpoint exits with %d: %s" % (done.returncode, done.stdout))
    for payload in chosen:
        path = os.path.join(folder, "one.pt")
        with open(path, "wb") as file:
            file.write(payload.data)
        done, calls = calls_of_tool(tool, path, log)
        more = [call for call in calls if call not in usual[payload.container] and not call.startswith("+++")]
        if more:
            failures.append("%s: the tool also calls %s" % (payload, more[:3]))
        said = done.stdout + done.stderr
        refused = done.returncode == 2 and "rejected" in said  # for another reason, too
        if (done.returncode != 1 and not refused) or not re.search("wants code|code, not data", said):
            failures.append("%s: exit code %d, %s" % (payload, done.returncode, said[-300:]))
    print("`tenmap check`, under strace: it says of %d of %d files that they name code" %
          (len(chosen) - len(failures), len(chosen)))
    return failures


def judge_findings(library, payload, path):
    """None, or why the findings are not those that are wanted."""
    findings = library.check(path)
    codes = [(offset, message) for _, code, offset, message in findings if code == FOUND_CODE]
    errors = any(severity == 3 for severity, _, _, _ in findings)
    if payload.container == "magic":  # without the magic number it is no checkpoint
        return None if errors else "no finding"
    if payload.container not in CHECKPOINTS and not errors:
        return "code in a pickle around the values is no error"
    if not any(offset == payload.at for offset, _ in codes):
        return "no finding of code at byte %d: %s" % (payload.at, [f[1:] for f in findings][:4])
    said = [message for offset, message in codes if offset == payload.at]
    shown = payload.name[:20]
    if shown.isascii() and shown.isprintable() and not any(shown in message for message in said):
        return "the finding does not name it: %s" % said
    return None


def check_findings(library, folder, every):
    failures = []
    every = [payload for payload in every if (payload.module, payload.name) not in DATA]
    for payload in every:
        path = os.path.join(folder, "checked.pt")
        with open(path, "wb") as file:
            file.write(payload.data)
        try:
            why = judge_findings(library, payload, path)
        except Refused as refused:
            why = "check itself fails: %s" % refused
        if why:
            failures.append("%s: %s" % (payload, why))
    for container in CHECKPOINTS:
        with open(path, "wb") as file:
            file.write(pytorch_payloads.benign()[container])
        loud = [f for f in library.check(path) if f[0] > 1]
        if loud:
            failures.append("a harmless checkpoint (%s) has findings: %s" % (container, loud))
    print("findings: %d of %d files name their global where it is" % (len(every) - len(failures), len(every)))
    return failures


def show_that_they_call(every):
    for payload in every:
        imported, called = pytorch_payloads.called_by(payload)
        wanted = (payload.module, payload.name)
        assert wanted in (imported if payload.way in ("import", "default_factory") else called), str(payload)


def main():
    library, tool = Library(sys.argv[1]), sys.argv[2]
    sdist = sys.argv[3] if len(sys.argv) > 3 and sys.argv[3] else None
    mutations = int(sys.argv[4]) if len(sys.argv) > 4 else 20000
    try:
        every_global = pytorch_payloads.scanner_globals(sdist)
    except ImportError as missing:
        print("skipped: %s" % missing)
        sys.exit(77)
    every = list(pytorch_payloads.payloads(every_global + pytorch_payloads.NEAR_MISSES))
    print("%d globals of picklescan, fickling and its tests, %d that look like data: %d files" %
          (len(every_global), len(pytorch_payloads.NEAR_MISSES), len(every)))
    show_that_they_call(every)
    under_seccomp(library, every, mutations)
    with tempfile.TemporaryDirectory() as work:
        folder, log = os.path.join(work, "files"), os.path.join(work, "log")
        os.mkdir(folder)
        failures = check_findings(library, work, every)
        step = 11  # every global is among them: each has 10 files or more in zip archives
        chosen = [payload for payload in every if payload.container in CHECKPOINTS and
                  (payload.module, payload.name) not in DATA][::step]
        for i, payload in enumerate(chosen):
            with open(os.path.join(folder, "%06d.pt" % (i + 1)), "wb") as file:
                file.write(payload.data)
        if can_trace():
            paths_under_strace(sys.argv[1], folder, log)
            failures += tool_under_strace(tool, work, chosen, log)
    for failure in failures[:60]:
        print("FAILED %s" % failure)
    print("%d malicious checkpoints: %d wrong verdicts" % (len(every), len(failures)))
    sys.exit(bool(failures))


if __name__ == "__main__":
    if sys.argv[1] == "--paths":
        paths_child(*sys.argv[2:4])
    else:
        main()
