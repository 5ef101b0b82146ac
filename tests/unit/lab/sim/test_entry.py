"""The entry as a node has it: links to `run`, another Python, daemons, tools that misbehave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodeprep.lab.sim import main
from tests.unit.lab.sim.conftest import Node

SIM = Path(main.__file__).parent
OLD_PYTHON = next(
    (str(path) for path in Path.home().glob(".pyenv/versions/3.8.*/bin/python")),
    "/usr/bin/python3.8" if Path("/usr/bin/python3.8").exists() else None,
)


@pytest.fixture
def tools(node: Node) -> Path:
    """A copy of the simulator under a name that is no Python name, and links to it."""
    copy = node.folder / "nodeprep-sim"
    shutil.copytree(SIM, copy, ignore=shutil.ignore_patterns("__pycache__"))
    folder = node.folder / "bin"
    folder.mkdir()
    for name in (*main.HARDWARE, *main.PACKAGED, *main.DAEMONS):
        (folder / name).symlink_to(copy / "run")
    return folder


def _call(
    tools: Path, *argv: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NODEPREP_SIM_RUN": str(tools.parent), "NODEPREP_SIM_LOG": str(tools)}
    command = [python, "-IS", str(tools / argv[0]), *argv[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)


def test_a_link_answers_as_the_tool_it_is_named_after(node: Node, tools: Path) -> None:
    assert _call(tools, "nvidia-smi", "-L").stdout == node.out("nvidia-smi -L")
    assert _call(tools, "lsblk").stdout == node.out("lsblk")


@pytest.mark.skipif(OLD_PYTHON is None, reason="no Python 3.8 here")
@pytest.mark.parametrize(
    "command",
    ["lscpu -J", "lspci -vv", "dmidecode", "lsblk -J", "ethtool ens5f0", "nvidia-smi -q -x",
     "nvidia-smi topo -m", "nvidia-smi --query-gpu=name --format=csv", "nvbandwidth",
     "all_reduce_perf -g 4", "dcgmi diag -r 1 -j", "gdrcopy_sanity", "dmesg", "nvcc --version"],
)  # fmt: skip
def test_every_tool_runs_on_the_oldest_python_of_a_node(tools: Path, command: str) -> None:
    done = _call(tools, *command.split(), python=str(OLD_PYTHON))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_name_that_is_no_tool(tools: Path) -> None:
    (tools / "nonsense").symlink_to(tools / "lscpu")
    assert _call(tools, "nonsense").returncode == 127


def test_a_node_without_a_board_says_so(node: Node, tools: Path) -> None:
    (node.folder / "board.json").unlink()
    done = _call(tools, "lscpu")
    assert done.returncode == 1
    assert "there is no board in" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_tool_that_dies(node: Node, tools: Path) -> None:
    node.inject("tool_dies", tool="lspci")
    assert _call(tools, "lspci").returncode == -signal.SIGSEGV


def test_a_tool_that_hangs(node: Node, tools: Path) -> None:
    node.inject("tool_hangs", tool="lspci")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-IS", tools / "lspci"], timeout=1, check=False)


def test_packages_record_what_they_installed(node: Node, tools: Path) -> None:
    run = tools.parent / "nodeprep-sim/run"
    subprocess.run([sys.executable, "-IS", run, "installed", "library", "1.2"], check=True)
    assert node.run("nvidia-smi").rc == 18
    subprocess.run([sys.executable, "-IS", run, "installed", "library", "-"], check=True)
    assert node.run("nvidia-smi").rc == 9


def _stop(pid_file: Path) -> None:
    os.kill(int(pid_file.read_text()), signal.SIGTERM)
    for _ in range(500):
        if not pid_file.exists():
            return
        time.sleep(0.02)
    raise AssertionError("the daemon does not end")


def _persistence(node: Node) -> set[bool]:
    return {gpu["persistence"] for gpu in node.board["gpus"]}


def test_the_persistence_daemon_holds_the_mode_while_it_runs(node: Node, tools: Path) -> None:
    assert _call(tools, "nvidia-persistenced", "--verbose").returncode == 0
    pid_file = tools.parent / "nvidia-persistenced/nvidia-persistenced.pid"
    try:
        assert _persistence(node) == {True}
    finally:
        _stop(pid_file)
    assert _persistence(node) == {False}


def test_ubuntu_starts_it_without_the_mode(node: Node, tools: Path) -> None:
    _call(tools, "nvidia-persistenced", "--no-persistence-mode", "--verbose")
    pid_file = tools.parent / "nvidia-persistenced/nvidia-persistenced.pid"
    try:
        assert _persistence(node) == {False}
        node.out("nvidia-smi -pm 1")
    finally:
        _stop(pid_file)
    assert _persistence(node) == {True}, "set by hand, it stays"


def test_the_persistence_daemon_needs_a_driver(node: Node, tools: Path) -> None:
    node.inject("driver_not_loaded")
    assert _call(tools, "nvidia-persistenced", "--verbose").returncode == 1


def test_the_fabric_manager_has_nothing_to_do_without_nvswitch(tools: Path) -> None:
    done = _call(tools, "nv-fabricmanager", "-c", "x")
    assert done.returncode == 1
    assert "NV_WARN_NOTHING_TO_DO" in done.stderr
    assert "NV_WARN_NOTHING_TO_DO" in (tools / "fabricmanager.log").read_text()


def test_the_fabric_manager_opens_the_fabric(node: Node, tools: Path) -> None:
    node.become("h100-sxm5-80g-x8")
    assert _call(tools, "nv-fabricmanager", "-c", "x").returncode == 0
    pid_file = tools.parent / "nvidia-fabricmanager/nv-fabricmanager.pid"
    try:
        assert node.run("all_reduce_perf -g 8").rc == 0
    finally:
        _stop(pid_file)
    assert node.run("all_reduce_perf -g 8").rc == 2


def test_the_fabric_manager_must_be_of_the_drivers_version(node: Node, tools: Path) -> None:
    node.become("a100-sxm4-80g-x8").inject("fabric_manager_mismatch")
    done = _call(tools, "nv-fabricmanager", "-c", "x")
    assert done.returncode == 1
    assert "version 535.161.08 don't match with driver version 535.183.01" in done.stderr
