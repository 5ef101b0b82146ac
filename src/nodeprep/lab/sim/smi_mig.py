"""`nvidia-smi mig`: GPU instances, made and destroyed. They do not outlive a reboot."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from . import board as boards
from .result import Result, Usage

if TYPE_CHECKING:
    from .board import Board, Gpu

# Slices of compute -> slices of memory, of which a GPU has seven and eight.
_MEMORY = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
_IDS = {1: 19, 2: 14, 3: 9, 4: 5, 7: 0}


def run(args: list[str], board: Board, gpus: list[Gpu]) -> Result:
    """`-cgi PROFILES -C`, `-dci`, `-dgi`, `-lgi`, on GPUs that are in MIG mode."""
    if not args or args[0] not in ("-cgi", "-dci", "-dgi", "-lgi"):
        raise Usage(Result(1, "Invalid combination of input arguments.\n"))
    if not any(gpu["mig"]["current"] for gpu in gpus):
        return Result(6, "No MIG-enabled devices found.\n")
    if args[0] == "-cgi":
        return _create(board, gpus, args[1].split(",") if len(args) > 1 else [])
    if not any(gpu["mig"].get("instances") for gpu in gpus):
        kind = "compute" if args[0] == "-dci" else "GPU"
        return Result(6, "No %s instances found: Not Found\n" % kind)
    text = ""
    for gpu in gpus:
        for number, profile in enumerate(gpu["mig"].get("instances", ())):
            text += _LINES[args[0]] % {"id": number, "gpu": gpu["minor"], "profile": profile}
        if args[0] == "-dgi":
            gpu["mig"]["instances"] = []
    return Result(out=text)


_LINES = {
    "-dci": "Successfully destroyed compute instance ID  0 from GPU  %(gpu)d "
            "GPU instance ID %(id)2d\n",
    "-dgi": "Successfully destroyed GPU instance ID %(id)2d from GPU  %(gpu)d\n",
    "-lgi": "|   %(gpu)d  MIG %(profile)s  %(id)2d |\n",
}  # fmt: skip
_NO_ROOM = (
    "Unable to create a GPU instance on GPU %2d using profile %s: Insufficient Resources\n"
    "Failed to create GPU instances: Insufficient Resources\n"
)
_MADE = "Successfully created GPU instance ID %2d on GPU %2d using profile MIG %s (ID %2d)\n"


def _create(board: Board, gpus: list[Gpu], profiles: list[str]) -> Result:
    text = ""
    for gpu in gpus:
        for profile in profiles:
            made = [*gpu["mig"].get("instances", ()), profile]
            if not _fits(board, made):
                return Result(19, text + _NO_ROOM % (gpu["minor"], profile))
            gpu["mig"]["instances"] = made
            what = (len(made) - 1, gpu["minor"], profile, _IDS[_slices(profile)])
            text += _MADE % what
    return Result(out=text)


def _fits(board: Board, profiles: list[str]) -> bool:
    share = boards.spec(board)["memory"] // 8192
    slices = [_slices(profile) for profile in profiles]
    right = ["%dg.%dgb" % (n, _MEMORY.get(n, 0) * share) for n in slices] == profiles
    return right and sum(slices) <= 7 and sum(_MEMORY[n] for n in slices) <= 8


def _slices(profile: str) -> int:
    found = re.match(r"([1-7])g\.", profile)
    return int(found.group(1)) if found else 0


def listed(gpu: Gpu) -> str:
    """The lines of `nvidia-smi -L` below a GPU."""
    text = ""
    for number, profile in enumerate(gpu["mig"].get("instances", ())):
        digits = hashlib.sha256(("%s/%d" % (gpu["uuid"], number)).encode()).hexdigest()
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
        text += "  MIG %-12s Device %2d: (UUID: MIG-%s)\n" % (profile, number, uuid)
    return text
