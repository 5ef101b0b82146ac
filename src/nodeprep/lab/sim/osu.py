"""`osu_bw` of the OSU micro-benchmarks 7.2, for CUDA: `-d cuda D D` between two ranks of a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import board as boards
from . import driver, physics
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board


def bandwidth(args: list[str], board: Board) -> Result:
    """The first rank prints; the second is the next GPU that CUDA_VISIBLE_DEVICES shows."""
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        return Result()
    problem = driver.cuda_problem(board)
    if problem:
        return Result(1, err="Could not get device count: %s\n" % problem)
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
    gpus = boards.usable(board)
    indices = [int(word) for word in wanted if word.isdigit() and int(word) < len(gpus)]
    if len(indices) < 2:
        return Result(1, err="Less than two devices are visible\n")
    peak = physics.peer_link(board, gpus[indices[0]], gpus[indices[1]]) * 0.93
    if board["performance"]["factors"].get("mpi"):
        peak *= board["performance"]["factors"]["mpi"]
    physics.put_under_load(board)
    rows = [
        "", "# OSU MPI-CUDA Bandwidth Test v7.2",
        "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)",
        "# Size      Bandwidth (MB/s)", "# Datatype: MPI_CHAR.",
    ]  # fmt: skip
    for power in range(23):
        size = 2**power
        rows.append("%-10d%18.2f" % (size, 1000 * peak * size / (size + 300_000)))
    return Result(out=lines(rows))
