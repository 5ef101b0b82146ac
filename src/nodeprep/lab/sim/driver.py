"""Whether the driver answers: what every NVIDIA tool meets before it can say anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from . import installed, physics
from .result import Result

if TYPE_CHECKING:
    from .board import Board

# CUDA version that a driver branch announces.
_CUDA = {"470": "11.4", "525": "12.0", "530": "12.1", "535": "12.2", "550": "12.4",
         "560": "12.6", "570": "12.8", "580": "13.0"}  # fmt: skip
_ABSENT = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n\n"
)
LOST = (
    "Unable to determine the device handle for GPU%s: GPU is lost.  Reboot the system to recover "
    "this GPU\n"
)


def version(board: Board) -> str:
    return installed.loaded(board)


def cuda_version(board: Board) -> str:
    return _CUDA.get(version(board).partition(".")[0], "12.2")


def problem(board: Board) -> Result | None:
    """What nvidia-smi answers when it cannot work at all; None when it can."""
    kernel, library = installed.loaded(board), installed.library(board)
    if not kernel or not library:
        return Result(9, _ABSENT)
    if kernel != library:
        text = "Failed to initialize NVML: Driver/library version mismatch\n"
        return Result(18, text + "NVML library version: %s\n" % library.rpartition(".")[0])
    fallen = [gpu for gpu in boards.enumerated(board) if gpu["state"] == "off_bus"]
    if fallen:
        return Result(15, LOST % _short(fallen[0]["address"]))
    return None


def _short(address: str) -> str:
    return address.upper()


def fabric_running(board: Board) -> bool:
    return bool(board["fabric_manager"]["running"])


def cuda_problem(board: Board) -> str:
    """Why no CUDA program can start, in CUDA's words; empty when one can."""
    kernel, library = installed.loaded(board), installed.library(board)
    if not library:
        return "CUDA driver version is insufficient for CUDA runtime version"
    if not kernel:
        return "no CUDA-capable device is detected"
    if kernel != library:
        return "system has unsupported display driver / cuda driver combination"
    return physics.cuda_problem(board, fabric_running(board))
