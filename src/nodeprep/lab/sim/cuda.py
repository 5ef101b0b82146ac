"""`nvcc --version`, and what the stand-ins of CUDA's libraries ask of the board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from . import driver, physics
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board


def nvcc(args: list[str], _: Board) -> Result:
    """It compiles nothing: a source file is refused, so that nobody takes it for a compiler."""
    if "--version" in args or "-V" in args:
        return Result(out=lines([
            "nvcc: NVIDIA (R) Cuda compiler driver",
            "Copyright (c) 2005-2023 NVIDIA Corporation",
            "Built on Mon_Apr__3_17:16:06_PDT_2023",
            "Cuda compilation tools, release 12.1, V12.1.105",
            "Build cuda_12.1.r12.1/compiler.32688072_0",
        ]))  # fmt: skip
    if not args:
        return Result(1, err="nvcc fatal   : No input files specified; use option --help for more "
                             "information\n")  # fmt: skip
    return Result(1, err="nvcc fatal   : this is the lab's stand-in, which compiles nothing\n")


def cublas(_: list[str], board: Board) -> Result:
    """For `native/cudart.c`: TFLOPS of each GPU in TF32, and whether its products are wrong."""
    problem = driver.cuda_problem(board)
    if problem:
        return Result(out="problem %s\n" % problem)
    physics.put_under_load(board)
    return Result(out=lines([
        "gpu %.3f %d" % (physics.gemm_tf32(board, gpu), bool(gpu.get("computes_wrongly")))
        for gpu in boards.usable(board)
    ]))  # fmt: skip
