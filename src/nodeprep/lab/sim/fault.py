"""One fault: its name, what it looks like, and what it does to a board."""

from __future__ import annotations

import copy
import inspect
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

    def takes(self) -> dict[str, str | None]:
        """Its arguments and their defaults, as text; None for one that must be given."""
        _, *rest = inspect.signature(self.change).parameters.values()
        return {one.name: None if one.default is one.empty else str(one.default) for one in rest}

    def apply(self, board: Board, **args: Any) -> Board:
        """A copy of `board` with the fault in it, noted under `faults`.

        Values may be text, as a command line gives them. ValueError when an argument is unknown
        or names a part that this board does not have.
        """
        self._check(args)
        faulty = copy.deepcopy(board)
        try:
            self.change(faulty, **args)
        except ValueError as error:
            # int() and float() say what they could not read, but not what was wanted.
            word = str(error).rpartition(": ")[2]
            number = str(error).startswith(("invalid literal", "could not convert"))
            raise ValueError("%s is no number" % word if number else str(error)) from None
        faulty["faults"].append({"name": self.name, "args": args})
        return faulty

    def _check(self, args: dict[str, Any]) -> None:
        takes = self.takes()
        words = [name if default is None else "%s=%s" % (name, default or "''")
                 for name, default in takes.items()]  # fmt: skip
        offer = "%s takes %s" % (self.name, ", ".join(words) or "no arguments")
        for name in args:
            if name not in takes:
                raise ValueError("there is no argument %s: %s" % (name, offer))
        for name, default in takes.items():
            if default is None and name not in args:
                raise ValueError("the argument %s is missing: %s" % (name, offer))


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
