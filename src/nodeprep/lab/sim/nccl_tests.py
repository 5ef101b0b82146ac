"""nccl-tests 2.10 to 2.17: all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf.

One process with `-g N`, or under mpirun (Open MPI's variables): then the first rank prints for all,
and those on other nodes tell it of their boards (`ranks`), or are taken to have one like it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import board as boards
from . import driver, installed, nccl, physics, ranks
from .result import Result, Usage, lines

if TYPE_CHECKING:
    from .board import Board, Gpu

_OPTIONS = {
    "-t": "threads", "--nthreads": "threads", "-g": "gpus", "--ngpus": "gpus",
    "-b": "low", "--minbytes": "low", "-e": "high", "--maxbytes": "high",
    "-i": "step", "--stepbytes": "step", "-f": "factor", "--stepfactor": "factor",
    "-n": "iters", "--iters": "iters", "-w": "warmup", "--warmup_iters": "warmup",
    "-m": "agg", "--agg_iters": "agg", "-c": "check", "--check": "check",
    "-o": "op", "--op": "op", "-d": "type", "--datatype": "type", "-r": "root", "--root": "root",
    "-z": "blocking", "--blocking": "blocking", "-G": "graph", "--cudagraph": "graph",
    "-p": "parallel", "-y": "stream_null", "-T": "timeout", "--timeout": "timeout",
    "-a": "average", "--average": "average", "-C": "cputime", "-R": "local_register",
}  # fmt: skip
_DEFAULTS = {"threads": "1", "gpus": "1", "low": "32M", "high": "32M", "step": "1M", "factor": "",
             "iters": "20", "warmup": "5", "agg": "1", "check": "1", "graph": "0"}  # fmt: skip
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ELEMENT = 4
# Minor versions: from the first on wrong values are counted (before: the size of the error) and
# the root is told; from the second on the test names itself and the whole PCI address.
COUNTING, NEW = 13, 16
_REDUCES = ("all_reduce", "reduce_scatter")


def run(args: list[str], board: Board) -> Result:
    op = os.environ.get("NODEPREP_SIM_TOOL", "all_reduce_perf").replace("_perf", "")
    options = _parse(args)
    version = installed.load().get("nccl", "")
    if not version:
        text = "libnccl.so.2: cannot open shared object file: No such file or directory"
        return Result(127, err="%s_perf: error while loading shared libraries: %s\n" % (op, text))
    here, world, rank = _ranks(int(options["gpus"]) * int(options["threads"]))
    trouble = driver.cuda_problem(board)
    if trouble:
        return _failure(op, "CUDA", trouble, 2)
    gpus = _visible(board)
    if here > len(gpus):
        return Result(1, "Invalid number of GPUs: %d requested but only %d were found.\n"
                      "Please check the number of processes and GPUs per process.\n"
                      % (here, len(gpus)))  # fmt: skip
    others = ranks.gather(board, world // here) if ranks.spread() and world > here else None
    if rank:
        return Result()
    gpus = gpus[:here]
    physics.put_under_load(board)
    chosen = nccl.settings()
    # The environment may forbid what the board allows.
    board = dict(board, p2p=board["p2p"] and chosen.get("NCCL_P2P_DISABLE", "0") != "1")
    said, broken = nccl.log(board, gpus, version, chosen, world // here)
    head = _head(board, op, options, gpus, world)
    if broken:
        failure = _failure(op, "NCCL", broken, 3)
        return Result(failure.rc, lines(head + said) + failure.out)
    if others == []:
        failure = _failure(op, "NCCL", "unhandled system error", 3)
        return Result(failure.rc, lines(head + said) + failure.out)
    return _measure(board, op, options, gpus, world, head + said, others)


def _parse(args: list[str]) -> dict[str, str]:
    options = dict(_DEFAULTS)
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if name not in _OPTIONS:
            text = "USAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] \n\t[-g,--ngpus <gpus"
            raise Usage(Result(1, "invalid option '%s'\n%s per thread>] \n" % (arg, text)))
        options[_OPTIONS[name]] = value if equals else next(rest, "")
    return options


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 1)
    digits = text if unit == 1 else text[:-1]
    try:
        return int(float(digits) * unit)
    except ValueError:
        raise Usage(Result(1, "invalid size specified for 'minbytes'\n")) from None


def _ranks(per_process: int) -> tuple[int, int, int]:
    """GPUs on this node, GPUs in all, this process's rank."""
    processes = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", str(processes)))
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    return per_process * local, per_process * processes, rank


def _visible(board: Board) -> list[Gpu]:
    gpus = boards.usable(board)
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is not None:
        numbers = [int(word) for word in wanted.split(",") if word.strip().isdigit()]
        gpus = [gpus[number] for number in numbers if number < len(gpus)]
    # With MIG on, CUDA shows a process one instance and nothing else.
    return gpus[:1] if any(gpu["mig"]["current"] for gpu in gpus) else gpus


def _failure(op: str, whose: str, what: str, rc: int) -> Result:
    host, pid = os.uname().nodename, os.getpid()
    text = "%s: Test %s failure common.cu:958 '%s'\n .. %s pid %d: Test failure common.cu:842\n"
    return Result(rc, text % (host, whose, what, host, pid))


def _release() -> int:
    """17 of 2.17.6."""
    return int(installed.load().get("nccl-tests", "2.13").split(".")[1])


def _head(board: Board, op: str, options: dict[str, str], gpus: list[Gpu], world: int) -> list[str]:
    step = "%s(factor)" % options["factor"] if options["factor"] else "%d(bytes)" % _size(
        options["step"])  # fmt: skip
    rows = (
        []
        if _release() < NEW
        else [
            "# nccl-tests version 2.%d.6 nccl-headers=21605 nccl-library=21605" % _release(),
            "# Collective test starting: %s_perf" % op,
        ]
    )
    rows += [
        "# nThread %s nGpus %s minBytes %d maxBytes %d step: %s warmup iters: %s iters: %s "
        "agg iters: %s validation: %s graph: %s" % (
            options["threads"], options["gpus"], _size(options["low"]), _size(options["high"]),
            step, options["warmup"], options["iters"], options["agg"], options["check"],
            options["graph"]),
        "#", "# Using devices",
    ]  # fmt: skip
    host, pid, name = os.uname().nodename, os.getpid(), boards.spec(board)["name"]
    for rank in range(world):
        gpu = gpus[rank % len(gpus)]
        place = host if rank < len(gpus) else "%s+%d" % (host, rank // len(gpus))
        bus = "0x" + gpu["address"][5:7] if _release() < NEW else gpu["address"][:10]
        group = " Group  0" if _release() >= COUNTING else ""
        rows.append("#  Rank %2d%s Pid %6d on %10s device %2d [%s] %s" % (
            rank, group, pid, place, rank % len(gpus), bus, name))  # fmt: skip
    return [*rows, "#"]


def _measure(
    board: Board, op: str, options: dict[str, str], gpus: list[Gpu], world: int, head: list[str],
    others: list[dict[str, Any]] | None,
) -> Result:  # fmt: skip
    check = options["check"] != "0" and board["nccl"]["validation"]
    wrong = int(board["nccl"]["wrong"])
    peak = reachable(board, op, gpus, world, others)
    rows = [*head, *_titles()]
    found = []
    for size in _sizes(options):
        slow, fast = (_time(op, size, peak, world, share) for share in (1.0, 1.004))
        bad = "N/A" if not check else str(wrong) if _release() >= COUNTING else "2e-07"
        left, busy = _side(op, size, slow, world, bad)
        # In-place results of alltoall are never checked.
        right, busy_too = _side(op, size, fast, world, "N/A" if op == "alltoall" else bad)
        count = size // _ELEMENT // (1 if op == "all_reduce" else world)
        redop = "sum" if op in _REDUCES else "none"
        root = "  %6d" % -1 if _release() >= COUNTING else ""
        rows.append("%12d  %12d  %8s  %6s" % (size, count, "float", redop) + root + left + right)
        found += [busy, busy_too]
    total = wrong * len(found) if check else 0
    rows.append("# Out of bounds values : %d %s" % (total, "FAILED" if total else "OK"))
    rows.append("# Avg bus bandwidth    : %g " % round(sum(found) / len(found), 4))
    rows += ["#", "# Collective test concluded: %s_perf" % op] if _release() >= NEW else ["#"]
    return Result(1 if total else 0, lines([*rows, ""]))


def _titles() -> list[str]:
    counts = _release() >= COUNTING
    left = "# %10s  %12s  %8s  %6s" + ("  %6s" if counts else "%.0s")
    side = "  %7s  %6s  %6s %6s"
    places = "           out-of-place                       in-place          "
    names = ("time", "algbw", "busbw", "#wrong" if counts else "error")
    units = ("(us)", "(GB/s)", "(GB/s)", "")
    return [
        "#",
        left % ("", "", "", "", "") + places,
        left % ("size", "count", "type", "redop", "root") + 2 * (side % names),
        left % ("(B)", "(elements)", "", "", "") + 2 * (side % units),
    ]


def _sizes(options: dict[str, str]) -> list[int]:
    size, high = _size(options["low"]), _size(options["high"])
    found: list[int] = []
    while size <= high and len(found) < 200:
        found.append(size)
        size = size * int(options["factor"]) if options["factor"] else size + _size(options["step"])
    return found or [size]


def _share(op: str, world: int) -> float:
    """Bus bandwidth by algorithm bandwidth."""
    once = (world - 1) / world if world > 1 else 1.0
    return 2 * once if op == "all_reduce" else once


def reachable(
    board: Board, op: str, gpus: list[Gpu], world: int, nodes: list[dict[str, Any]] | None = None
) -> float:
    """Bus bandwidth, GB/s, of large messages; between nodes the slowest NIC or hop decides."""
    if world == 1:
        return float(boards.spec(board)["hbm_gb_s"]) / 2
    inside = physics.bus_bandwidth(board, op, gpus) if len(gpus) > 1 else 1e9
    if world == len(gpus):
        return inside
    # Two nodes: a tree needs half the traffic of a ring, and looks faster than the line.
    tree = 1.3 if world == 2 * len(gpus) and os.environ.get("NCCL_ALGO", "") != "Ring" else 1.0
    between = ranks.slowest(nodes) if nodes else ranks.line_rate(board)
    return float(min(inside, between * tree))


def _time(op: str, size: int, peak: float, world: int, share: float) -> float:
    """Microseconds: a start-up time, and the bytes at the bandwidth that is left."""
    latency = 11.0 + 3.0 * world
    return latency + size * _share(op, world) / (peak * share * 1e3)


def _side(op: str, size: int, time_us: float, world: int, wrong: str) -> tuple[str, float]:
    algorithm = size / time_us / 1e3
    bus = algorithm * _share(op, world)
    if time_us >= 1e4:
        text = "%7.0f" % time_us
    else:
        text = "%7.1f" % time_us if time_us >= 100 else "%7.2f" % time_us
    return "  %s  %6.2f  %6.2f  %5s" % (text, algorithm, bus, wrong), bus
