"""What the board's parts add up to: bandwidths, clocks and power, as its links and faults allow.

GB/s are decimal. Figures of healthy boards are in `models`; here they only get worse.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import board as boards

if TYPE_CHECKING:
    from .board import Board, Gpu

# Share of all_reduce's bus bandwidth that the other collectives reach on one node.
_SHARES = {"all_reduce": 1.0, "all_gather": 0.985, "reduce_scatter": 0.985, "alltoall": 0.86}
_STAGED = 0.55  # of the host link, when peers must copy through host memory
_SLOW_CLOCK = 0.55
LOAD_SECONDS = 15.0  # how long after a bandwidth test the GPUs still look busy


def loaded(board: Board) -> bool:
    return float(board["load_until"]) > time.time()


def put_under_load(board: Board) -> None:
    board["load_until"] = time.time() + LOAD_SECONDS


def throttled(gpu: Gpu) -> bool:
    return any(reason.startswith(("hw_", "sw_thermal")) for reason in gpu["throttle"])


def clock_factor(board: Board, gpu: Gpu) -> float:
    """Share of the full SM clock at which a GPU would work."""
    full = boards.spec(board)["clocks"]["sm"]
    locked = (gpu["locked_clocks"] or [0, application_clock(board, gpu)])[1] / full
    capped = min(1.0, (gpu["power"]["limit"] / boards.spec(board)["power"]) ** 0.5)
    return float(min(locked, capped, _SLOW_CLOCK if throttled(gpu) else 1.0))


def host_link(board: Board, gpu: Gpu) -> float:
    """GB/s between a GPU and host memory, one way."""
    kind, pcie = boards.spec(board), gpu["pcie"]
    lanes = pcie["width"] / 16
    generation = 2.0 ** (pcie["gen"] - kind["gen"])
    slowed = board["performance"]["factors"].get("host", 1.0)
    return float(board["performance"]["h2d"] * lanes * generation * slowed)


def gemm(board: Board, gpu: Gpu) -> float:
    """TFLOPS of FP16 matrix products: of what the tensor cores could, large ones reach four fifths.

    DCGM's own example of an A100 shows 250 of 312.
    """
    share = gpu.get("compute_factor", 1.0) * clock_factor(board, gpu)
    return float(boards.spec(board)["fp16_tflops"] * 0.805 * share)


def gemm_tf32(board: Board, gpu: Gpu) -> float:
    """TFLOPS in TF32: the tensor cores are half as fast as in FP16."""
    return gemm(board, gpu) / 2


def local_copy(board: Board, gpu: Gpu) -> float:
    """GB/s copied within a GPU's memory: each byte is read and written; 1519 of an H100's 3350."""
    return float(boards.spec(board)["hbm_gb_s"] / 2 * 0.907 * gpu.get("memory_factor", 1.0))


def peer_path(board: Board, one: Gpu, other: Gpu) -> str:
    """`nvlink`, `pcie` or `staged` (through host memory)."""
    if not board["p2p"]:
        return "staged"
    return "nvlink" if boards.links_between(board, one, other) else "pcie"


def peer_link(board: Board, one: Gpu, other: Gpu) -> float:
    """GB/s from one GPU to another, one way."""
    slower = min(host_link(board, one), host_link(board, other))
    slower *= pair_factor(board, one, other)
    way = peer_path(board, one, other)
    if way == "nvlink":
        full = {"mesh": 4}.get(board["kind"], boards.spec(board)["links"])
        share = boards.links_between(board, one, other) / full
        return float(board["performance"]["p2p"] * share * pair_factor(board, one, other))
    return slower * (_STAGED if way == "staged" else 0.8)


def pair_factor(board: Board, one: Gpu, other: Gpu) -> float:
    """Share of its bandwidth that a pair reaches although its links look whole; usually 1."""
    pair = " ".join(sorted((one["address"], other["address"])))
    return float(board["performance"].get("pairs", {}).get(pair, 1.0))


def bus_bandwidth(board: Board, op: str, gpus: list[Gpu]) -> float:
    """GB/s of bus bandwidth that a collective over `gpus` reaches with large messages."""
    if len(gpus) < 2:
        return 0.0
    pairs = [(a, b) for a in gpus for b in gpus if a is not b]
    slowest_host = min(host_link(board, gpu) for gpu in gpus)
    best = float(board["performance"]["busbw"])
    if not board["p2p"]:
        reached = slowest_host * _STAGED
    elif board["kind"] == "bridge":
        bridged = min(boards.links_between(board, gpu, board["gpus"][board["gpus"].index(gpu) ^ 1])
                      for gpu in gpus)  # fmt: skip
        reached = best * slowest_host / board["performance"]["h2d"]
        reached *= 1.0 if bridged else 0.7
    else:
        full = {"mesh": 4}.get(board["kind"], boards.spec(board)["links"])
        fewest = min(boards.links_between(board, a, b) for a, b in pairs)
        reached = best * fewest / full if fewest else slowest_host * 0.8
        if board["kind"] == "mesh":
            reached *= (len(gpus) - 1) / 3
    reached *= min(clock_factor(board, gpu) for gpu in gpus) ** 0.5
    reached *= _SHARES.get(op, 1.0) * min(pair_factor(board, a, b) for a, b in pairs)
    factors = board["performance"]["factors"]
    return float(reached * factors.get(op, factors.get("*", 1.0)))


def application_clock(board: Board, gpu: Gpu) -> int:
    """MHz of the SMs that applications ask for: all there is, unless it was set lower."""
    chosen = gpu.get("application_clocks") or [0, boards.spec(board)["clocks"]["graphics"]]
    return int(chosen[1])


def clocks(board: Board, gpu: Gpu) -> dict[str, int]:
    """MHz now: idle, or as far up as throttling and locks allow."""
    kind = boards.spec(board)
    full = kind["clocks"]
    if gpu["locked_clocks"]:
        sm = gpu["locked_clocks"][1]
    elif loaded(board) or gpu["processes"]:
        sm = int(full["sm"] * clock_factor(board, gpu)) // 15 * 15
    else:
        sm = kind["idle_clock"]
    video = max(585, full["video"] * sm // full["sm"])
    return {"graphics": sm, "sm": sm, "mem": kind["mem_clock"], "video": video}


def power_draw(board: Board, gpu: Gpu) -> float:
    if loaded(board):
        return float(min(gpu["power"]["limit"], boards.spec(board)["power"] * 0.93))
    return float(gpu["power"]["draw"])


def temperature(board: Board, gpu: Gpu) -> int:
    return int(gpu["temps"]["gpu"]) + (24 if loaded(board) else 0)


def pcie_generation(board: Board, gpu: Gpu) -> int:
    """Generation now: PCIe cards save power at idle and report 1; modules stay trained."""
    resting = board["kind"] == "bridge" and not loaded(board)
    return 1 if resting else int(gpu["pcie"]["gen"])


def reasons(board: Board, gpu: Gpu) -> set[str]:
    """Throttle reasons that are active now."""
    active = set(gpu["throttle"])
    if not active and not loaded(board) and not gpu["processes"]:
        active.add("gpu_idle")
    return active


def cuda_problem(board: Board, fabric_running: bool) -> str:
    """Why no CUDA program can start, in CUDA's words; empty when one can."""
    gpus = boards.enumerated(board)
    if not gpus:
        return "no CUDA-capable device is detected"
    if any(gpu["state"] != "ok" for gpu in gpus):
        return "unknown error"
    if board["kind"] == "nvswitch" and not fabric_running:
        return "system not yet initialized"
    return ""
