"""`nvidia-smi topo` and `nvidia-smi nvlink`: how the GPUs are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from . import driver, lscpu, smi_formats
from .result import Result, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board, Gpu

# nvidia-smi underlines the header with escape codes, into a pipe too.
_ON, _OFF = "\x1b[4m", "\x1b[0m"
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""  # noqa: E501
_P2P_LEGEND = """
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
"""


def topo(args: list[str], board: Board) -> Result:
    """`-m`, `-mp` and `-p2p r|w|n|a|p`."""
    option = args[0] if args else ""
    if option in ("-m", "--matrix"):
        return Result(out=_matrix(board, _connection) + _LEGEND)
    if option in ("-mp", "--matrix_pci"):
        return Result(out=_matrix(board, _by_pcie) + _LEGEND)
    if option in ("-p2p", "--p2pstatus") and args[1:2] and args[1] in "rwnap":
        return Result(out=_p2p(board, args[1]) + _P2P_LEGEND)
    return Result(1, "Invalid topo command. Please run 'nvidia-smi topo -h' for help.\n\n")


def _told(board: Board) -> int:
    return smi_formats.branch(driver.version(board))


def _connection(board: Board, one: Gpu, other: Gpu) -> str:
    count = boards.links_between(board, one, other)
    return "NV%d" % count if count else _by_pcie(board, one, other)


def _by_pcie(board: Board, one: Gpu, other: Gpu) -> str:
    return "NODE" if one["numa"] == other["numa"] else "SYS"


def _matrix(board: Board, cell: Callable[[Board, Gpu, Gpu], str]) -> str:
    gpus = boards.enumerated(board)
    heads = ["GPU%d" % index for index in range(len(gpus))]
    told = _told(board) >= 530  # the GPU's own NUMA node came late
    heads += ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"][: 3 if told else 2]
    rows = ["\t" + _ON + "\t".join(heads) + _OFF]
    for index, one in enumerate(gpus):
        cells = [" X " if one is other else cell(board, one, other) for other in gpus]
        numa = min(one["numa"], board["cpus"]["sockets"] - 1)
        cells += [lscpu.ranges(board, numa), str(numa), *(("", "N/A") if told else ())]
        rows.append("GPU%d\t" % index + "\t".join(cells))
    return lines(rows)


def _p2p(board: Board, what: str) -> str:
    gpus = boards.enumerated(board)
    rows = [" \t" + "".join("GPU%d\t" % index for index in range(len(gpus)))]
    for index, one in enumerate(gpus):
        cells = ["X" if one is other else _p2p_status(board, one, other, what) for other in gpus]
        rows.append(" GPU%d\t" % index + "".join(cell + "\t" for cell in cells))
    return lines(rows)


def _p2p_status(board: Board, one: Gpu, other: Gpu, what: str) -> str:
    if not board["p2p"]:
        return "CNS"
    joined = boards.links_between(board, one, other) > 0
    if what in "na" and not joined:  # NVLink only, and atomics, which PCIe does not carry
        return "NS"
    return "OK"


def nvlink(args: list[str], board: Board) -> Result:
    """`-s` (status) and `-e` (error counters), all GPUs or `-i ID`."""
    ids = args[args.index("-i") + 1] if "-i" in args[:-1] else ""
    gpus = boards.enumerated(board)
    if ids:
        gpus = [gpu for index, gpu in enumerate(gpus) if ids in (str(index), gpu["uuid"])]
        if not gpus:
            return Result(6, "No devices were found\n")
    if "-s" in args or "--status" in args:
        return Result(out=lines([row for gpu in gpus for row in _status(board, gpu)]))
    if "-e" in args or "--errorcounters" in args:
        return Result(out=lines([row for gpu in gpus for row in _counters(board, gpu)]))
    return Result(1, "Invalid nvlink command. Please run 'nvidia-smi nvlink -h' for help.\n\n")


def _title(board: Board, gpu: Gpu) -> str:
    index = boards.enumerated(board).index(gpu)
    return "GPU %d: %s (UUID: %s)" % (index, boards.spec(board)["name"], gpu["uuid"])


def _status(board: Board, gpu: Gpu) -> list[str]:
    rows = [_title(board, gpu)]
    if gpu["state"] == "lost":
        return [*rows, "Unable to retrieve NVLink information as all links are inActive"]
    if not any(link["active"] for link in gpu["nvlinks"]):
        return [*rows, "Unable to retrieve NVLink information as all links are inActive"]
    speed = boards.spec(board)["link_text"]
    if speed == "25 GB/s" and _told(board) < 510:
        speed = "25.781 GB/s"  # older drivers counted the line's rate
    return rows + ["\t Link %d: %s" % (number, speed if link["active"] else "<inactive>")
                   for number, link in enumerate(gpu["nvlinks"])]  # fmt: skip


def _counters(board: Board, gpu: Gpu) -> list[str]:
    rows = [_title(board, gpu)]
    for number, link in enumerate(gpu["nvlinks"]):
        if link["active"]:
            rows += ["\t Link %d: %s Errors: %d" % (number, name, link[key]) for name, key in
                     (("Replay", "replay"), ("Recovery", "recovery"), ("CRC", "crc"))]  # fmt: skip
            rows.append("")
    return rows
