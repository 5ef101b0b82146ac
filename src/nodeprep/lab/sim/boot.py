"""What a reboot does to the hardware: counters cleared, volatile settings lost, pending ones in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import board as boards
from . import installed

if TYPE_CHECKING:
    from .board import Board

_OF_THE_DRIVER = ("rings", "channels", "coalesce", "features", "pause")  # it forgets them


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
    fresh = {nic["name"]: nic for nic in boards.nics(boards.Dice(board["seed"]))}
    for nic in board["nics"]:
        nic.update({key: fresh[nic["name"]][key] for key in _OF_THE_DRIVER if nic["name"] in fresh})
    for gpu in board["gpus"]:
        gpu["persistence"] = False
        gpu["locked_clocks"] = None
        gpu["application_clocks"] = None
        gpu["reset_required"] = False
        gpu["processes"] = []
        gpu["remap"]["pending"] = False
        gpu["ecc"]["mode"] = gpu["ecc"]["pending"]
        gpu["ecc"]["volatile"] = dict.fromkeys(boards.COUNTERS, 0)
        gpu["mig"]["current"] = gpu["mig"]["pending"]
        gpu["mig"]["instances"] = []
    installed.booted()
