"""What a reboot does to the hardware: counters cleared, volatile settings lost, pending ones in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import board as boards
from . import installed

if TYPE_CHECKING:
    from .board import Board


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def settle(board: Board) -> None:
    """Once per boot; does nothing when this boot has been seen."""
    now = _boot_id()
    before, board["boot_id"] = board["boot_id"], now
    if before in ("", now):
        return
    board["xids"] = []
    for upgraded in ("library", "kernel"):
        board["driver"].pop(upgraded, None)
    board["fabric_manager"]["running"] = ""
    for gpu in board["gpus"]:
        gpu["persistence"] = False
        gpu["locked_clocks"] = None
        gpu["reset_required"] = False
        gpu["processes"] = []
        gpu["remap"]["pending"] = False
        gpu["ecc"]["mode"] = gpu["ecc"]["pending"]
        gpu["ecc"]["volatile"] = dict.fromkeys(boards.COUNTERS, 0)
        gpu["mig"]["current"] = gpu["mig"]["pending"]
    installed.booted()
