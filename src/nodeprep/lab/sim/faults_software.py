"""Faults of driver, libraries and tools: what answers wrongly, slowly or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fault import Fault, the_gpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board


def _library(board: Board, version: str = "535.216.01") -> None:
    board["driver"]["library"] = version


def _not_loaded(board: Board) -> None:
    board["driver"]["not_loaded"] = True


def _fabric(how: str) -> Callable[..., None]:
    def change(board: Board, version: str = "535.161.08") -> None:
        if not board["nvswitches"]:
            raise ValueError("this board has no NVSwitch")
        board["fabric_manager"].update(running="", broken=how)
        if how == "mismatch":
            board["fabric_manager"]["version"] = version

    return change


def _interface(board: Board, name: str = "cni0") -> None:
    board["nccl"]["interface"] = name


def _slow(board: Board, factor: Any = 0.5, op: str = "*") -> None:
    the_gpus(board, "all")
    board["performance"]["factors"][op] = float(factor)


def _slow_host(board: Board, factor: Any = 0.5) -> None:
    the_gpus(board, "all")
    board["performance"]["factors"]["host"] = float(factor)


def _wrong(board: Board, count: Any = 24) -> None:
    board["nccl"]["wrong"] = int(count)


def _unchecked(board: Board) -> None:
    board["nccl"]["validation"] = False


def _gdrcopy(board: Board, count: Any = 2) -> None:
    board["gdrcopy_failed"] = int(count)


def _silent(board: Board, tool: str = "nvidia-smi", rc: Any = 0) -> None:
    board["tools"][tool] = {"mode": "silent", "rc": int(rc)}


def _hangs(board: Board, tool: str = "nvidia-smi") -> None:
    board["tools"][tool] = {"mode": "hangs"}


def _dies(board: Board, tool: str = "nvidia-smi", signal: str = "SIGSEGV") -> None:
    board["tools"][tool] = {"mode": "dies", "signal": signal}


def _warns(board: Board, tool: str = "nvidia-smi", text: str = "", rc: Any = 14) -> None:
    gpus = board["gpus"]
    place = gpus[0]["address"] if gpus else "0000:00:00.0"
    text = text or "WARNING: infoROM is corrupted at gpu " + place.upper()
    board["tools"][tool] = {"mode": "warns", "text": text, "rc": int(rc)}


FAULTS = (
    Fault("driver_library_mismatch", "the library was upgraded under the running module, until a "
          "reboot (version)", _library),
    Fault("driver_not_loaded", "the kernel module is not loaded", _not_loaded),
    Fault("fabric_manager_missing", "no fabric manager on an NVSwitch board: CUDA error 802",
          _fabric("missing")),
    Fault("fabric_manager_mismatch", "a fabric manager of another version (version)",
          _fabric("mismatch")),
    Fault("nccl_wrong_interface", "NCCL uses another interface (name)", _interface),
    Fault("slow_busbw", "collectives are slow without any visible reason (factor, op)", _slow),
    Fault("slow_host_link", "copies to and from the host are slow (factor)", _slow_host),
    Fault("nccl_wrong_values", "collectives compute wrong values (count)", _wrong),
    Fault("nccl_validation_off", "nccl-tests was built or run without validation", _unchecked),
    Fault("gdrcopy_fails", "tests of gdrcopy_sanity fail (count)", _gdrcopy),
    Fault("tool_silent", "a tool prints nothing (tool, rc)", _silent),
    Fault("tool_hangs", "a tool never ends (tool)", _hangs),
    Fault("tool_dies", "a tool crashes (tool, signal)", _dies),
    Fault("tool_warns", "a tool warns beside its output (tool, text, rc)", _warns),
)  # fmt: skip
