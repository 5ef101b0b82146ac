"""`nvidia-smi` without options: the table, in the layout of branch 535."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import board as boards
from . import driver, physics
from .result import lines
from .smi_tree import bus_id

if TYPE_CHECKING:
    from .board import Board, Gpu

_RULE = "+" + "-" * 41 + "+" + "-" * 22 + "+" + "-" * 22 + "+"
_WIDE = "+" + "-" * 87 + "+"


def versions(board: Board) -> str:
    version = driver.version(board)
    return lines(["NVIDIA-SMI version  : " + version, "NVML version        : " + version[:7],
                  "DRIVER version      : " + version,
                  "CUDA Version        : " + driver.cuda_version(board)])  # fmt: skip


def table(board: Board, gpus: list[Gpu]) -> str:
    version = driver.version(board)
    title = "NVIDIA-SMI %-21sDriver Version: %-13sCUDA Version: %-8s" % (
        version, version, driver.cuda_version(board))  # fmt: skip
    rows = [
        time.strftime("%a %b %e %H:%M:%S %Y") + "       ",
        _WIDE,
        "| " + title.ljust(86) + "|",
        _RULE.replace("+", "|", 1),
        "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                      |               MIG M. |",
        "|=========================================+======================+======================|",
    ]
    for gpu in gpus:
        rows += _rows(board, gpu)
    return lines([*rows, " " * 89, *_processes(board, gpus)])


def _rows(board: Board, gpu: Gpu) -> list[str]:
    kind = boards.spec(board)
    index = boards.enumerated(board).index(gpu)
    lost = gpu["state"] == "lost"
    used = 1 + sum(process["mib"] for process in gpu["processes"])
    errors = gpu["ecc"]["volatile"]
    uncorrected = errors["sram_uncorrectable"] + errors["dram_uncorrectable"]
    power = "%dW / %dW" % (physics.power_draw(board, gpu), gpu["power"]["limit"])
    memory = "%dMiB / %dMiB" % (used, kind["memory"])
    busy = "N/A" if gpu["mig"]["current"] else "98%" if physics.loaded(board) else "0%"
    return [
        "| %3d  %-30s %3s | %16s %-3s | %20s |"
        % (index, kind["name"][:30], "ERR!" if lost else "On" if gpu["persistence"] else "Off",
           bus_id(gpu), "Off", "ERR!" if lost else uncorrected if gpu["ecc"]["mode"] else "Off"),
        "| N/A  %4s    P0    %20s | %20s | %7s  %11s |"
        % ("ERR!" if lost else "%dC" % physics.temperature(board, gpu),
           "ERR! / ERR!" if lost else power, "ERR!" if lost else memory, busy,
           gpu["compute_mode"][:11]),
        "| %39s | %20s | %20s |"
        % ("", "", "Enabled" if gpu["mig"]["current"] else "Disabled"),
        "+-----------------------------------------+----------------------+" + "-" * 22 + "+",
    ]  # fmt: skip


def _processes(board: Board, gpus: list[Gpu]) -> list[str]:
    rows = [
        _WIDE,
        "| Processes:".ljust(88) + "|",
        "|  GPU   GI   CI        PID   Type   Process name".ljust(77) + "GPU Memory |",
        "|        ID   ID".ljust(77) + "Usage      |",
        "|" + "=" * 87 + "|",
    ]
    found = [
        "|  %3d   N/A  N/A %10d      C   %-38s %8dMiB |"
        % (boards.enumerated(board).index(gpu), process["pid"], process["name"][:38],
           process["mib"])
        for gpu in gpus for process in gpu["processes"]
    ]  # fmt: skip
    return [*rows, *(found or ["|  No running processes found".ljust(88) + "|"]), _WIDE]
