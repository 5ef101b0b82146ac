"""`dcgmproftester12` of DCGM 3.3: `-t 1004`, matrix products on the tensor cores, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from . import driver, physics
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board

_SKIPPING = "Skipping %s() since DCGM validation is disabled"


def run(args: list[str], board: Board) -> Result:
    problem = driver.cuda_problem(board)
    if problem:
        return Result(1, err="Error: cuInit returned %s\n" % problem)
    if "1004" not in args:
        return Result(1, err="Error: the field is not supported by this tool\n")
    seconds = int(args[args.index("-d") + 1]) if "-d" in args[:-1] else 15
    physics.put_under_load(board)
    rows = [_SKIPPING % "CreateDcgmGroups", _SKIPPING % "WatchFields"]
    for second in range(seconds):
        for index, gpu in enumerate(boards.usable(board)):
            rate = physics.gemm(board, gpu) * (0.97 if second < 2 else 1.0)
            rate *= 1 + (second * 5 % 7 - 3) * 0.001
            rows.append("Worker %d:0[1004]: TensorEngineActive: generated ???, dcgm 0.000 "
                        "(%.1f gflops)" % (index, 1000 * rate))  # fmt: skip
    return Result(out=lines([*rows, _SKIPPING % "UnwatchFields"]))
