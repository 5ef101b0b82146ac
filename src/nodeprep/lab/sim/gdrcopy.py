"""`gdrcopy_sanity` and `gdrcopy_copybw` of GDRCopy 2.4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from . import driver, installed, physics
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board

_NAMES = (
    "basic", "basic_with_tokens", "basic_unaligned_mapping", "basic_small_buffers_mapping",
    "data_validation", "invalidation_access_after_free", "invalidation_access_after_gdr_close",
    "invalidation_fork_access_after_free", "invalidation_fork_after_gdr_map",
    "invalidation_fork_child_gdr_map_parent", "invalidation_two_mappings",
    "invalidation_unix_sock_shared_fd_gdr_map", "invalidation_unix_sock_shared_fd_gdr_pin_buffers",
    "basic_child_thread_pins_buffer",
)  # fmt: skip


def _problem(board: Board) -> str:
    trouble = driver.cuda_problem(board)
    if trouble:
        return "CUDA error: " + trouble
    there = installed.in_kernel if installed.own_kernel() else installed.load().get
    if not there("gdrdrv"):
        return "gdr_open error: Is gdrdrv driver installed and loaded?"
    return ""


def sanity(_: list[str], board: Board) -> Result:
    """28 tests in this version; the ones of `gdrcopy_failed` on the board fail."""
    problem = _problem(board)
    if problem:
        return Result(1, err=problem + "\n")
    names = sorted(name + "_" + way for name in _NAMES for way in ("cumemalloc", "vmmalloc"))
    failed = names[: board.get("gdrcopy_failed", 0)]
    passed = [name for name in names if name not in failed]
    rows = ["Total: %d, Passed: %d, Failed: %d, Waived: 0"
            % (len(names), len(passed), len(failed)), "", "List of passed tests:"]  # fmt: skip
    rows += ["    " + name for name in passed]
    if failed:
        rows += ["", "List of failed tests:"] + ["    " + name for name in failed]
    return Result(1 if failed else 0, lines(rows))


def copybw(args: list[str], board: Board) -> Result:
    problem = _problem(board)
    if problem:
        return Result(1, err=problem + "\n")
    chosen = int(args[args.index("-d") + 1]) if "-d" in args[:-1] else 0
    gpus = boards.enumerated(board)
    if chosen >= len(gpus):
        return Result(1, err="invalid device ordinal\n")
    link = physics.host_link(board, gpus[chosen])
    rows = ["GPU id:%d; name: %s; Bus id: %s" % (index, boards.spec(board)["name"],
                                                gpu["address"].rpartition(".")[0])
            for index, gpu in enumerate(gpus)]  # fmt: skip
    rows += [
        "selecting device %d" % chosen, "testing size: 131072", "rounded size: 131072",
        "gpu alloc fn: cuMemAlloc", "device ptr: 7f1153a00000", "map_d_ptr: 0x7f1172257000",
        "info.va: 7f1153a00000", "info.mapped_size: 131072", "info.page_size: 65536",
        "info.mapped: 1", "info.wc_mapping: 1", "page offset: 0",
        "user-space pointer:0x7f1172257000",
        "writing test, size=131072 offset=0 num_iters=10000",
        "write BW: %.2fMB/s" % (link * 369.3),
        "reading test, size=131072 offset=0 num_iters=100",
        "read BW: %.3fMB/s" % (link * 20.31),
        "unmapping buffer", "unpinning buffer", "closing gdrdrv",
    ]  # fmt: skip
    return Result(out=lines(rows))
