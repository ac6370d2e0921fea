"""The command that the package installs, and python -m tenmap, which runs it."""

import os
import subprocess
import sys

import pytest

import tenmap
from tenmap import __main__ as command

TOOL = command.find_tool()
needs_tool = pytest.mark.skipif(TOOL is None, reason="this build of the package has no command")


def run(*arguments, **variables):
    return subprocess.run(
        [sys.executable, "-m", "tenmap", *arguments],
        capture_output=True, text=True, env={**os.environ, **variables},
    )  # fmt: skip


@needs_tool
def test_the_command_is_a_program_and_no_script():
    with open(TOOL, "rb") as file:
        assert file.read(2) != b"#!"
    said = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[:2] == ["tenmap", tenmap.__version__]


@needs_tool
def test_the_module_runs_the_command_with_its_arguments_and_exit_code():
    assert run("--version").stdout.split()[:2] == ["tenmap", tenmap.__version__]
    missing = run("info", "no such model.safetensors")
    assert missing.returncode != 0
    assert "no such model.safetensors" in missing.stderr


@needs_tool
def test_a_command_elsewhere_on_the_path_is_not_taken(tmp_path):
    other = tmp_path / "tenmap"
    other.write_text("#!/bin/sh\necho other\n")
    other.chmod(0o755)
    said = run("--version", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}").stdout
    assert "other" not in said and tenmap.__version__ in said


@pytest.mark.skipif(os.name == "nt", reason="the tool of this test is a shell script")
def test_a_tool_that_the_environment_names_gets_the_arguments(tmp_path):
    tool = tmp_path / "tenmap"
    tool.write_text('#!/bin/sh\necho "tool $*"\n')
    tool.chmod(0o755)
    assert run("ls", "x", TENMAP_TOOL=str(tool)).stdout == "tool ls x\n"


def test_without_the_command_the_message_says_where_it_was_looked_for(tmp_path):
    said = run("info", TENMAP_TOOL=str(tmp_path / "tenmap"))
    assert said.returncode == 1
    assert str(tmp_path / "tenmap") in said.stderr and "pip install --force-reinstall" in said.stderr
