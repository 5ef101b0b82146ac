"""The multi-call entry: finds the tool by its name, lets a faulty one misbehave, saves changes."""

from __future__ import annotations

import copy
import importlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from . import board as boards
from . import boot, installed
from .result import Result, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board

    Tool = Callable[[list[str], Board], Result]

# Tools that come with the node, and those that packages bring. Module and function of each.
HARDWARE = {
    "lscpu": "lscpu.run",
    "lsblk": "lsblk.run",
    "lspci": "lspci.run",
    "dmidecode": "dmidecode.run",
    "ethtool": "ethtool.run",
    "dmesg": "kernel_log.dmesg",
    "journalctl": "kernel_log.journalctl",
}
PACKAGED = {
    "nvidia-smi": "smi.run",
    "nvcc": "cuda.nvcc",
    "all_reduce_perf": "nccl_tests.run",
    "all_gather_perf": "nccl_tests.run",
    "reduce_scatter_perf": "nccl_tests.run",
    "alltoall_perf": "nccl_tests.run",
    "nvbandwidth": "nvbandwidth.run",
    "dcgmi": "dcgmi.run",
    "osu_bw": "osu.bandwidth",
    "dcgmproftester12": "proftester.run",
    "gdrcopy_sanity": "gdrcopy.sanity",
    "gdrcopy_copybw": "gdrcopy.copybw",
    "nvidia-ctk": "container_toolkit.ctk",
}
# No commands: libraries of packages ask these.
LIBRARIES = {"cublas": "cuda.cublas"}
_ANSWERING = {**HARDWARE, **PACKAGED, **LIBRARIES}
# These fork, wait for signals and write the state themselves.
DAEMONS = {
    "nvidia-persistenced": "daemons.persistenced",
    "nv-fabricmanager": "daemons.fabric_manager",
    "nv-hostengine": "daemons.host_engine",
}
DENIED = Result(4, "Unable to change the setting: Insufficient Permissions\n")


def main(argv: list[str]) -> int:
    """Runs the tool that argv names and returns its exit status."""
    name, args = os.path.basename(argv[0]), argv[1:]  # noqa: PTH119
    if name in ("run", "__main__.py", "main.py"):
        name, args = (args[0] if args else ""), args[1:]
    if name == "installed":
        return installed.record(args)
    if not boards.path().exists():
        sys.stderr.write("nodeprep-sim: there is no board in %s\n" % boards.path())
        return 1
    if name in DAEMONS:
        spoilt = _misbehave(boards.load()["tools"].get(name, {}))
        return _show(spoilt) if spoilt else int(_function(DAEMONS[name])(args))
    if name not in _ANSWERING:
        sys.stderr.write("nodeprep-sim: no tool is called %r\n" % name)
        return 127
    return _show(answer(name, args))


def answer(name: str, args: list[str]) -> Result:
    """What the tool `name` answers on this board; settings that it changes are kept."""
    os.environ["NODEPREP_SIM_TOOL"] = name
    tool: Tool = _function(_ANSWERING[name])
    before = boards.load()
    behaviour = before["tools"].get(name, {})
    spoilt = _misbehave(behaviour)
    if spoilt:
        return spoilt
    result = _apply(tool, args, before)
    if behaviour.get("mode") == "warns":
        text = behaviour.get("text", "WARNING: infoROM is corrupted at gpu 0000:17:00.0") + "\n"
        return Result(behaviour.get("rc", result.rc), result.out + text, result.err)
    return result


def _function(where: str) -> Callable[..., Any]:
    """Imported only when called: a tool that runs in a loop pays for itself alone."""
    module, _, function = where.partition(".")
    imported = importlib.import_module("." + module, __package__)
    return getattr(imported, function)  # type: ignore[no-any-return]


def _show(result: Result) -> int:
    try:
        sys.stdout.write(result.out)
        sys.stdout.flush()
        sys.stderr.write(result.err)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return result.rc


def _misbehave(behaviour: dict[str, Any]) -> Result | None:
    """A tool that prints nothing, never ends or crashes; None: it works, or almost, or in time."""
    mode = behaviour.get("mode", "")
    if mode == "takes":
        time.sleep(behaviour.get("seconds", 0))
    if mode == "silent":
        return Result(behaviour.get("rc", 0))
    if mode == "dies":
        os.kill(os.getpid(), getattr(signal, behaviour.get("signal", "SIGSEGV")))
    while mode == "hangs":
        time.sleep(3600)
    return None


def _apply(tool: Tool, args: list[str], before: Board) -> Result:
    """Runs a tool on a copy; when it changed the board, runs it again alone and saves."""
    after = copy.deepcopy(before)
    result = _call(tool, args, after)
    if after == before:
        return result
    answers = []

    def again(board: Board) -> None:
        answers.append(_call(tool, args, board))

    try:
        boards.update(again)
    except OSError:  # not root, or nothing can be written
        return result if _asked_for_nothing(before, after) else DENIED
    return answers[0]


def _asked_for_nothing(before: Board, after: Board) -> bool:
    """Whether only a reboot and the load of a test changed the board: anyone may cause that."""
    expected = copy.deepcopy(before)
    boot.settle(expected)
    return dict(after, load_until=0) == dict(expected, load_until=0)


def _call(tool: Tool, args: list[str], board: Board) -> Result:
    boot.settle(board)
    try:
        return tool(args, board)
    except Usage as usage:
        return usage.result
