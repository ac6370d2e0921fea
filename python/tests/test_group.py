"""A load over a process group: what every rank gets is what it would load alone, and each byte is
read once. group_ranks.py has the cases."""

import os
import pathlib
import shutil
import struct
import subprocess
import sys

import numpy
import pytest

import tenmap
from conftest import random_array

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

RANKS = pathlib.Path(__file__).with_name("group_ranks.py")


@pytest.fixture
def folder(tmp_path):
    model = {
        "q.weight": random_array("BF16", (24, 48)), "o.weight": random_array("F32", (32, 40), 1),
        "odd": random_array("F16", (7, 5)), "large": random_array("I8", (1500, 1000), 2),
        "scalar": numpy.array(3.5, "float32"), "empty": numpy.empty((0, 4), "float32"),
    }  # fmt: skip
    tenmap.save_file(model, tmp_path / "model.safetensors")
    tenmap.save_file(model | {"odd": model["large"][:7]}, tmp_path / "other.safetensors")
    generator = numpy.random.default_rng(5)
    module = {"q.weight": (24, 48), "q.bias": (24,), "o.weight": (32, 48), "tied.weight": (32, 48)}
    tenmap.save_file({name: generator.random(shape, "float32") for name, shape in module.items()},
                     tmp_path / "module.safetensors")  # fmt: skip
    blocks = b"".join(b"\x00\x3c" + generator.integers(0, 255, 32, "uint8").tobytes() for _ in range(64))
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"w" + struct.pack("<IQQIQ", 2, 64, 32, 8, 0)
    (tmp_path / "m.gguf").write_bytes(head + bytes(-len(head) % 32) + blocks)
    return tmp_path


def together(folder, commands):
    """Starts one process for each command, and returns when all have said that they are good."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(command, env=environment | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command, more in commands
    ]
    said = []
    try:
        for rank in ranks:
            said.append(rank.communicate(timeout=600)[0])
    finally:
        for rank in ranks:
            rank.kill()
    assert all(text.endswith("good\n") for text in said), "\n".join(said)


@pytest.mark.parametrize("world", [2, 4, 8])
def test_every_rank_gets_what_it_would_load_alone(folder, world):
    """Slices, conversions, GGUF's values, modules; and if one rank fails, all do."""
    cases = "slices,quantized,into,failures"
    loopback = {"GLOO_SOCKET_IFNAME": "lo"}
    together(folder, [([sys.executable, RANKS, cases, folder, str(rank), str(world)], loopback) for rank in range(world)])


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def namespaces():
    """Two network namespaces that reach each other over a bridge, as two hosts do."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    names = [f"tenmap{os.getpid()}{letter}" for letter in "ab"]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "tmv0", "netns", names[0], "type", "veth", "peer", "name", "tmv1", "netns", names[1])
            for number, name in enumerate(names):
                ip("-n", name, "addr", "add", f"10.213.7.{number + 1}/24", "dev", f"tmv{number}")
                ip("-n", name, "link", "set", f"tmv{number}", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def test_network_namespaces_are_hosts(folder, namespaces):
    commands = []
    for rank in range(4):
        host = rank // 2
        command = ["ip", "netns", "exec", namespaces[host], sys.executable, RANKS, "hosts,slices", folder, str(rank), "4"]
        commands.append(([*command, "10.213.7.1"], {"GLOO_SOCKET_IFNAME": f"tmv{host}"}))
    together(folder, commands)


def test_a_group_must_be_there(folder):
    with tenmap.open(folder / "model.safetensors") as model, pytest.raises(ValueError, match="not initialized"):
        model.load(group=object())
