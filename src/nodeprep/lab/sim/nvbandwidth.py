"""`nvbandwidth` 0.2 to 0.8: copies between host and GPUs, between GPUs, and within one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from . import driver, installed, physics
from .result import Result, Usage, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board, Gpu

    Cell = Callable[[Board, Gpu, Gpu], float]


def _host(share: float) -> Cell:
    return lambda board, one, _: physics.host_link(board, one) * share


def _peer(share: float) -> Cell:
    return lambda board, one, other: physics.peer_link(board, one, other) * share


# Test, its title, whether it is a matrix of GPUs, and what a cell is.
_HOST = (
    ("host_to_device_memcpy_ce", "memcpy CE CPU(row) -> GPU(column)", 1.0),
    ("device_to_host_memcpy_ce", "memcpy CE CPU(row) <- GPU(column)", 1.012),
    ("host_to_device_bidirectional_memcpy_ce", "memcpy CE CPU(row) <-> GPU(column)", 0.72),
    ("device_to_host_bidirectional_memcpy_ce", "memcpy CE CPU(row) <-> GPU(column)", 0.72),
    ("host_to_device_memcpy_sm", "memcpy SM CPU(row) -> GPU(column)", 0.99),
    ("device_to_host_memcpy_sm", "memcpy SM CPU(row) <- GPU(column)", 1.0),
)
_LOCAL = "device_local_copy"
_PEER = (
    ("device_to_device_memcpy_read_ce", "memcpy CE GPU(row) -> GPU(column)", 1.0),
    ("device_to_device_memcpy_write_ce", "memcpy CE GPU(row) <- GPU(column)", 1.003),
    ("device_to_device_bidirectional_memcpy_read_ce", "memcpy CE GPU(row) <-> GPU(column)", 1.94),
    ("device_to_device_bidirectional_memcpy_write_ce", "memcpy CE GPU(row) <-> GPU(column)", 1.95),
    ("device_to_device_memcpy_read_sm", "memcpy SM GPU(row) -> GPU(column)", 0.97),
    ("device_to_device_memcpy_write_sm", "memcpy SM GPU(row) <- GPU(column)", 0.98),
)
_TESTS = [name for name, _, _ in (*_HOST, *_PEER)] + [_LOCAL]


def run(args: list[str], board: Board) -> Result:
    """-l lists the tests, -t NAME (or its number) picks, -p PREFIX picks by prefix."""
    if "-l" in args or "--list" in args:
        return Result(out=lines(["Index, Name:", "\tDescription", "=" * 23] + [
            "%d, %s:" % pair for pair in enumerate(_TESTS)]))  # fmt: skip
    wanted = _wanted(args)
    head = ["nvbandwidth Version: v%d.%d" % _version(), "Built from Git version: v%d.%d" %
            _version(), "", *(_NOTE if _version() < (0, 5) else ())]  # fmt: skip
    problem = driver.cuda_problem(board)
    if problem:
        return Result(1, lines(head), "[cuInit(0)] ERROR: %s\n" % problem)
    physics.put_under_load(board)
    code = driver.cuda_version(board).replace(".", "0") + "0"
    head += ["CUDA Runtime Version: 12010", "CUDA Driver Version: " + code,
             "Driver Version: " + driver.version(board), ""]  # fmt: skip
    head += ["Device %d: %s%s" % (index, boards.spec(board)["name"], _place(gpu))
             for index, gpu in enumerate(boards.usable(board))]  # fmt: skip
    rows = [row for name in wanted for row in _test(board, name)]
    rows += _CAVEAT if _version() >= (0, 5) else []
    return Result(out=lines([*head, "", *rows]))


_NOTE = (
    "NOTE: This tool reports current measured bandwidth on your system.",
    "Additional system-specific tuning may be required to achieve maximal peak bandwidth.",
    "",
)
_CAVEAT = [
    "NOTE: The reported results may not reflect the full capabilities of the platform.",
    "Performance can vary with software drivers, hardware clocks, and system topology.",
    "",
]


def _version() -> tuple[int, int]:
    major, minor, *_ = [*installed.load().get("nvbandwidth", "0.4").split("."), "0"]
    return int(major), int(minor)


def _place(gpu: Gpu) -> str:
    return " (0000%s)" % gpu["address"].rpartition(".")[0] if _version() >= (0, 6) else ""


def _wanted(args: list[str]) -> list[str]:
    chosen: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg in ("-t", "--testcase"):
            name = next(rest, "")
            name = _TESTS[int(name)] if name.isdigit() and int(name) < len(_TESTS) else name
            if name not in _TESTS or (name == _LOCAL and _version() < (0, 5)):
                raise Usage(Result(1, err="ERROR: Testcase %s not found!\n" % name))
            chosen.append(name)
        elif arg in ("-p", "--testcasePrefixes"):
            prefix = next(rest, "")
            chosen += [name for name in _TESTS if name.startswith(prefix)]
        elif arg in ("-b", "-i", "--bufferSize", "--testSamples"):
            next(rest, "")
        elif arg not in ("-v", "-s", "-d", "--verbose", "--skipVerification", "--disableAffinity"):
            raise Usage(Result(1, err="ERROR: unrecognised option '%s'\n" % arg))
    return chosen or [name for name in _TESTS if name != _LOCAL or _version() >= (0, 5)]


def _test(board: Board, name: str) -> list[str]:
    gpus = boards.usable(board)
    if name == _LOCAL:
        rates: list[float | None] = [physics.local_copy(board, gpu) for gpu in gpus]
        return _rows(name, "memcpy local GPU(column)", [rates])
    for test, title, share in _HOST:
        if test == name:
            return _rows(name, title, [[_host(share)(board, gpu, gpu) for gpu in gpus]])
    title, cell = next((title, _peer(share)) for test, title, share in _PEER if test == name)
    if len(gpus) < 2 or not board["p2p"]:
        return ["Waived: "]
    matrix = [[None if one is other else cell(board, one, other) for other in gpus]
              for one in gpus]  # fmt: skip
    return _rows(name, title, matrix)


def _rows(name: str, title: str, matrix: list[list[float | None]]) -> list[str]:
    rows = ["Running %s." % name, title + " bandwidth (GB/s)"]
    rows.append("  " + "".join("%10d" % column for column in range(len(matrix[0]))))
    total = 0.0
    for index, row in enumerate(matrix):
        cells = []
        for column, value in enumerate(row):
            figure = None if value is None else value * _wobble(index, column)
            absent = "N/A" if _version() >= (0, 3) else "0.00"
            cells.append("%10s" % (absent if figure is None else "%.2f" % figure))
            total += figure or 0.0
        rows.append("%2d" % index + "".join(cells))
    return [*rows, "", "SUM %s %.2f" % (name, total), ""]


def _wobble(row: int, column: int) -> float:
    return 1 + ((row * 7 + column * 3) % 5 - 2) * 0.0007
