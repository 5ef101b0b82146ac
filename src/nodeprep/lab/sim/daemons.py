"""`nvidia-persistenced`, `nv-fabricmanager`, `nv-hostengine`: they fork, as their units expect."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import board as boards
from . import boot, driver, installed

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board

    Change = Callable[[Board], None]

_RUN = os.environ.get("NODEPREP_SIM_RUN", "/run")
_LOG = os.environ.get("NODEPREP_SIM_LOG", "/var/log")


def _serve(pid_file: Path | None, started: Change, stopped: Change, foreground: bool) -> int:
    """Applies `started`, waits for SIGTERM, applies `stopped`. The parent returns once it runs."""
    if not foreground:
        ready, done = os.pipe()
        if os.fork():
            os.close(done)
            return 0 if os.read(ready, 1) else 1
        os.close(ready)
        os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    boards.update(started)
    if pid_file:
        pid_file.parent.mkdir(parents=True, exist_ok=True)
        pid_file.write_text("%d\n" % os.getpid(), encoding="ascii")
    if not foreground:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.write(done, b"1")
        os.close(done)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    boards.update(stopped)
    if pid_file:
        pid_file.unlink(missing_ok=True)
    # After a fork, what the parent had set up is not to be torn down twice.
    os._exit(0)


def persistenced(args: list[str]) -> int:
    """Turns persistence mode on while it runs, unless it is started with --no-persistence-mode."""
    if driver.problem(boards.update(boot.settle)):
        sys.stderr.write(
            "nvidia-persistenced failed to initialize. Check syslog for more details.\n"
        )
        return 1
    hold = "--no-persistence-mode" not in args

    def started(board: Board) -> None:
        for gpu in board["gpus"]:
            gpu["persistence"] = hold or gpu["persistence"]

    def stopped(board: Board) -> None:
        for gpu in board["gpus"]:
            gpu["persistence"] = gpu["persistence"] and not hold

    pid_file = Path(_RUN, "nvidia-persistenced", "nvidia-persistenced.pid")
    return _serve(pid_file, started, stopped, foreground=False)


def _fabric_problem(board: Board) -> str:
    loaded = installed.loaded(board)
    own = board["fabric_manager"]["version"] or installed.load().get("fabricmanager", "")
    if not loaded:
        return "failed to initialize the NVIDIA driver: driver not loaded"
    if not board["nvswitches"]:
        return ("request to query NVSwitch device information from NVSwitch driver failed with "
                "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]")  # fmt: skip
    if own != loaded:
        return (
            "fabric manager NVIDIA GPU driver interface version %s don't match with driver "
            "version %s. Please update with matching NVIDIA driver package." % (own, loaded)
        )
    if board["fabric_manager"].get("broken"):
        return "failed to find all the NVSwitches of the platform"
    return ""


def fabric_manager(args: list[str]) -> int:
    """Runs where there are NVSwitches and its version is the driver's; elsewhere it gives up."""
    board = boards.update(boot.settle)
    own = installed.load().get("fabricmanager", "unknown")
    if "-v" in args or "--version" in args:
        sys.stdout.write("Fabric Manager version is : %s\n" % own)
        return 0
    problem = _fabric_problem(board)
    if problem:
        sys.stderr.write(problem + "\n")
        _log(problem)
        return 1

    def started(board: Board) -> None:
        board["fabric_manager"]["running"] = own

    def stopped(board: Board) -> None:
        board["fabric_manager"]["running"] = ""

    _log("Successfully configured all the available NVSwitches to route GPU NVLink traffic.")
    pid_file = Path(_RUN, "nvidia-fabricmanager", "nv-fabricmanager.pid")
    return _serve(pid_file, started, stopped, foreground=False)


def _log(text: str) -> None:
    try:
        with Path(_LOG, "fabricmanager.log").open("a", encoding="utf-8") as log:
            log.write(text + "\n")
    except OSError:
        return


def host_engine(args: list[str]) -> int:
    def nothing(board: Board) -> None:
        boot.settle(board)

    return _serve(None, nothing, nothing, foreground="-n" in args)
