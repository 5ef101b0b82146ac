"""Faults of GPUs and of what joins them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from . import board as boards
from .fault import Fault, the_gpu, the_gpus

if TYPE_CHECKING:
    from .board import Board, Gpu

XIDS = (13, 31, 48, 63, 64, 74, 79, 94, 95, 119)


def _cut(board: Board, gpu: Gpu) -> None:
    """A GPU that is gone takes its end of every NVLink with it."""
    for link in gpu["nvlinks"]:
        link["active"] = False
    for other in board["gpus"]:
        for link in other["nvlinks"]:
            if link["peer"] == gpu["address"]:
                link["active"] = False


def _log(board: Board, gpu: Gpu, code: int, age_s: float = 60.0) -> None:
    board["xids"].append({"address": gpu["address"], "code": code, "at": time.time() - age_s})


def _missing(board: Board, gpu: Any = 1) -> None:
    found = the_gpu(board, gpu)
    found["state"] = "missing"
    _cut(board, found)


def _off_bus(board: Board, gpu: Any = 1) -> None:
    found = the_gpu(board, gpu)
    found["state"] = "off_bus"
    _cut(board, found)
    _log(board, found, 79)


def _lost(board: Board, gpu: Any = 1) -> None:
    found = the_gpu(board, gpu)
    found["state"] = "lost"
    _cut(board, found)


def _peers(board: Board, gpu: Gpu, link: dict[str, Any]) -> list[dict[str, Any]]:
    """The other end of a link, where that is a GPU."""
    for other in board["gpus"]:
        if other["address"] == link["peer"]:
            same = [end for end in gpu["nvlinks"] if end["peer"] == link["peer"]]
            ends = [end for end in other["nvlinks"] if end["peer"] == gpu["address"]]
            return [ends[same.index(link)]]
    return []


def _link(gpu: Gpu, link: Any) -> dict[str, Any]:
    links: list[dict[str, Any]] = gpu["nvlinks"]
    if not 0 <= int(link) < len(links):
        raise ValueError("there is no link %s: a GPU has %d" % (link, len(links)))
    return links[int(link)]


def _link_down(board: Board, gpu: Any = 0, link: Any = 3) -> None:
    found = the_gpu(board, gpu)
    end = _link(found, link)
    for side in [end, *_peers(board, found, end)]:
        side["active"] = False


def _links_half(board: Board, gpu: Any = 0) -> None:
    """Every second link of one GPU, so that each of its pairs has half."""
    found = the_gpu(board, gpu)
    for number in range(1, len(found["nvlinks"]), 2):
        _link_down(board, gpu, number)


def _link_errors(board: Board, gpu: Any = 0, link: Any = 0, count: Any = 4711) -> None:
    _link(the_gpu(board, gpu), link).update(crc=int(count), replay=int(count) // 10)


def _p2p_off(board: Board) -> None:
    the_gpus(board, "all")
    board["p2p"] = False


def _slow_pair(board: Board, gpu: Any = 0, peer: Any = 1, factor: Any = 0.3) -> None:
    pair = sorted((the_gpu(board, gpu)["address"], the_gpu(board, peer)["address"]))
    board["performance"].setdefault("pairs", {})[" ".join(pair)] = float(factor)


def _pcie_generation(board: Board, gpu: Any = 2, gen: Any = 1) -> None:
    the_gpu(board, gpu)["pcie"]["gen"] = int(gen)


def _pcie_width(board: Board, gpu: Any = 2, width: Any = 8) -> None:
    the_gpu(board, gpu)["pcie"]["width"] = int(width)


def _pcie_replays(board: Board, gpu: Any = 2, count: Any = 9000) -> None:
    the_gpu(board, gpu)["pcie"]["replays"] = int(count)


def _ecc_volatile(board: Board, gpu: Any = 0, count: Any = 1) -> None:
    found = the_gpu(board, gpu)
    for span in ("volatile", "aggregate"):
        found["ecc"][span]["dram_uncorrectable"] += int(count)
    _log(board, found, 48)


def _ecc_corrected(board: Board, gpu: Any = 0, count: Any = 3) -> None:
    for span in ("volatile", "aggregate"):
        the_gpu(board, gpu)["ecc"][span]["dram_correctable"] += int(count)


def _ecc_sram(board: Board, gpu: Any = 0, count: Any = 5) -> None:
    the_gpu(board, gpu)["ecc"]["aggregate"]["sram_uncorrectable"] += int(count)


def _ecc_off(board: Board, gpu: Any = "all") -> None:
    for found in the_gpus(board, gpu):
        found["ecc"].update(mode=False, pending=False)


def _remap_pending(board: Board, gpu: Any = 0) -> None:
    found = the_gpu(board, gpu)
    found["remap"].update(pending=True, uncorrectable=found["remap"]["uncorrectable"] + 1)
    _log(board, found, 63)


def _remap_failed(board: Board, gpu: Any = 0) -> None:
    found = the_gpu(board, gpu)
    found["remap"].update(failure=True, degraded_banks=1)
    _log(board, found, 64)


def _remapped(board: Board, gpu: Any = 0, count: Any = 2) -> None:
    the_gpu(board, gpu)["remap"]["correctable"] = int(count)


def _retired(board: Board, gpu: Any = 0, count: Any = 12) -> None:
    the_gpu(board, gpu)["retired"] = {"single": 0, "double": int(count), "pending": False}


def _xid(board: Board, code: Any, gpu: Any = 0, age_s: Any = 600) -> None:
    _log(board, the_gpu(board, gpu), int(code), float(age_s))


def _xid_fault(code: int) -> Fault:
    def change(board: Board, gpu: Any = 0, age_s: Any = 600) -> None:
        _xid(board, code, gpu, age_s)

    return Fault("xid_%d" % code, "XID %d in the kernel's log (gpu, age_s)" % code, change)


def _throttle(*reasons: str, heat: int = 0) -> Any:
    def change(board: Board, gpu: Any = 3) -> None:
        found = the_gpu(board, gpu)
        found["throttle"] = sorted({*found["throttle"], *reasons})
        found["temps"]["gpu"] = max(found["temps"]["gpu"], heat)

    return change


def _power_cap(board: Board, gpu: Any = "all", watts: Any = 0) -> None:
    kind = boards.spec(board) if board["gpus"] else {}
    for found in the_gpus(board, gpu):
        found["power"]["limit"] = float(watts) or kind["power"] * 0.625
        found["throttle"] = sorted({*found["throttle"], "sw_power_cap"})


def _clocks_locked(board: Board, gpu: Any = "all", mhz: Any = 765) -> None:
    for found in the_gpus(board, gpu):
        found["locked_clocks"] = [int(mhz), int(mhz)]


def _mig(board: Board, gpu: Any = 0) -> None:
    for found in the_gpus(board, gpu):
        found["mig"] = {"current": True, "pending": True}


def _persistence_off(board: Board, gpu: Any = "all") -> None:
    for found in the_gpus(board, gpu):
        found["persistence"] = False


def _vbios(board: Board, gpu: Any = 3, version: str = "92.00.19.00.10") -> None:
    the_gpu(board, gpu)["vbios"] = version


def _exclusive(board: Board, gpu: Any = "all") -> None:
    for found in the_gpus(board, gpu):
        found["compute_mode"] = "Exclusive_Process"


def _zombie(board: Board, gpu: Any = 0, pid: Any = 41213, mib: Any = 30500) -> None:
    process = {"pid": int(pid), "name": "python3", "mib": int(mib)}
    the_gpu(board, gpu)["processes"].append(process)


def _swapped(board: Board, gpu: Any = 1) -> None:
    """Another GPU of the same kind in the slot: other UUID, other serial."""
    found, dice = the_gpu(board, gpu), boards.Dice(board["seed"] + "/other")
    found["serial"] = "13" + str(dice.number("serial", 10**10, 10**11 - 1))
    found["uuid"] = "GPU-" + dice.hex("uuid", 8) + found["uuid"][12:]


def _compute_slow(board: Board, gpu: Any = 1, factor: Any = 0.7) -> None:
    the_gpu(board, gpu)["compute_factor"] = float(factor)


def _computes_wrongly(board: Board, gpu: Any = 1) -> None:
    the_gpu(board, gpu)["computes_wrongly"] = True


def _memory_slow(board: Board, gpu: Any = 1, factor: Any = 0.7) -> None:
    the_gpu(board, gpu)["memory_factor"] = float(factor)


FAULTS = (
    Fault("gpu_missing", "one GPU is not on the bus (gpu)", _missing),
    Fault("gpu_off_bus", "a GPU fell off the bus: rev ff, XID 79, nvidia-smi ends (gpu)", _off_bus),
    Fault("gpu_lost", "nvidia-smi says that a GPU is lost; the others answer (gpu)", _lost),
    Fault("gpu_swapped", "another GPU of the kind stands in a slot (gpu)", _swapped),
    Fault("nvlink_down", "one NVLink is inactive, at both ends (gpu, link)", _link_down),
    Fault("nvlink_half", "half of one GPU's NVLinks are inactive (gpu)", _links_half),
    Fault("nvlink_errors", "an NVLink counts CRC errors and replays (gpu, link, count)",
          _link_errors),
    Fault("p2p_off", "no peer-to-peer access: IOMMU or ACS in the way", _p2p_off),
    Fault("slow_pair", "one pair is slow although all links are up (gpu, peer, factor)",
          _slow_pair),
    Fault("pcie_gen1", "a GPU's PCIe link trained down (gpu, gen)", _pcie_generation),
    Fault("pcie_x8", "a GPU's PCIe link is narrow (gpu, width)", _pcie_width),
    Fault("pcie_replays", "a GPU's PCIe link replays (gpu, count)", _pcie_replays),
    Fault("ecc_volatile_uncorrectable", "uncorrectable ECC errors since boot (gpu, count)",
          _ecc_volatile),
    Fault("ecc_corrected", "corrected ECC errors, which are no failure (gpu, count)",
          _ecc_corrected),
    Fault("ecc_sram_aggregate", "uncorrectable SRAM errors in the GPU's life (gpu, count)",
          _ecc_sram),
    Fault("ecc_disabled", "ECC is off (gpu, or all)", _ecc_off),
    Fault("remap_pending", "a row waits for a reset to be remapped; XID 63 (gpu)", _remap_pending),
    Fault("remap_failed", "row remapping failed; XID 64 (gpu)", _remap_failed),
    Fault("remapped_rows", "rows were remapped, which is no failure (gpu, count)", _remapped),
    Fault("retired_pages", "retired pages, as before Ampere (gpu, count)", _retired),
    Fault("xid", "any XID in the kernel's log (code, gpu, age_s)", _xid),
    *(_xid_fault(code) for code in XIDS),
    Fault("thermal_throttle", "a GPU is too hot and slows down (gpu)",
          _throttle("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", heat=90)),
    Fault("hw_slowdown", "the hardware slows a GPU down (gpu)", _throttle("hw_slowdown")),
    Fault("power_brake", "the power supply's brake slows a GPU down (gpu)",
          _throttle("hw_slowdown", "hw_power_brake_slowdown")),
    Fault("power_cap", "a power limit below the default (gpu or all, watts)", _power_cap),
    Fault("clocks_locked", "clocks were locked low and never unlocked (gpu or all, mhz)",
          _clocks_locked),
    Fault("gpu_computes_slowly", "a GPU multiplies slower, at full clocks (gpu, factor)",
          _compute_slow),
    Fault("gpu_computes_wrongly", "a GPU computes wrongly now and then; nothing else tells (gpu)",
          _computes_wrongly),
    Fault("gpu_memory_slow", "a GPU's memory is slow (gpu, factor)", _memory_slow),
    Fault("mig_enabled", "a GPU is in MIG mode (gpu, or all)", _mig),
    Fault("persistence_off", "persistence mode is off (gpu, or all)", _persistence_off),
    Fault("mixed_vbios", "one GPU has another VBIOS (gpu, version)", _vbios),
    Fault("compute_exclusive", "compute mode is Exclusive_Process (gpu, or all)", _exclusive),
    Fault("zombie_process", "a process that nobody knows holds GPU memory (gpu, pid, mib)",
          _zombie),
)  # fmt: skip
