"""One fault: its name, what it looks like, and what it does to a board."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board, Gpu


@dataclass(frozen=True)
class Fault:
    """`change` edits a board in place; its keyword arguments are the fault's."""

    name: str
    summary: str
    change: Callable[..., None]

    def apply(self, board: Board, **args: Any) -> Board:
        """A copy of `board` with the fault in it, noted under `faults`.

        Values may be text, as a command line gives them. ValueError when an argument is unknown
        or names a part that this board does not have.
        """
        faulty = copy.deepcopy(board)
        try:
            self.change(faulty, **args)
        except TypeError as error:
            raise ValueError("%s: %s" % (self.name, error)) from None
        faulty["faults"].append({"name": self.name, "args": args})
        return faulty


def the_gpu(board: Board, gpu: Any) -> Gpu:
    """By index or PCI address."""
    gpus: list[Gpu] = board["gpus"]
    for index, candidate in enumerate(gpus):
        if str(gpu) in (str(index), candidate["address"]):
            return candidate
    raise ValueError("there is no GPU %s: this board has %d" % (gpu, len(gpus)))


def the_gpus(board: Board, gpu: Any) -> list[Gpu]:
    """One GPU, or every one for `all`."""
    if str(gpu) != "all":
        return [the_gpu(board, gpu)]
    if not board["gpus"]:
        raise ValueError("this board has no GPUs")
    return list(board["gpus"])


def named(parts: list[dict[str, Any]], key: str, value: str) -> dict[str, Any]:
    for part in parts:
        if part[key] == value:
            return part
    raise ValueError("there is no %s: %s" % (value, ", ".join(str(part[key]) for part in parts)))
