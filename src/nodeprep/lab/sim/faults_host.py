"""Faults of the server around the GPUs: memory, processors, disks, network, identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import board as boards
from .fault import Fault, named

if TYPE_CHECKING:
    from .board import Board


def _populated(board: Board, slot: str) -> dict[str, Any]:
    full = [dimm for dimm in board["dimms"] if dimm["size_mib"]]
    return named(full, "slot", slot) if slot else full[-1]


def _dimm_missing(board: Board, slot: str = "") -> None:
    _populated(board, slot)["size_mib"] = 0


def _dimm_small(board: Board, slot: str = "", gib: Any = 16) -> None:
    _populated(board, slot)["size_mib"] = int(gib) * 1024


def _dimm_slow(board: Board, mts: Any = 2666) -> None:
    for dimm in board["dimms"]:
        dimm["mts"] = int(mts)


def _socket_missing(board: Board) -> None:
    board["cpus"]["sockets"] -= 1


def _other_cpu(board: Board, model: str = "Intel(R) Xeon(R) Gold 6326 CPU @ 2.90GHz",
               cores: Any = 16) -> None:  # fmt: skip
    board["cpus"].update(model=model, cores=int(cores))


def _disk(board: Board, name: str) -> dict[str, Any]:
    return named(board["disks"], "name", name)


def _disk_missing(board: Board, name: str = "nvme0n1") -> None:
    board["disks"].remove(_disk(board, name))


def _disk_small(board: Board, name: str = "nvme0n1", bytes: Any = 960197124096) -> None:
    _disk(board, name)["size"] = int(bytes)


def _disk_replaced(board: Board, name: str = "nvme0n1") -> None:
    disk, dice = _disk(board, name), boards.Dice(board["seed"] + "/other")
    disk["serial"] = disk["serial"][:8] + dice.hex("serial", 6).upper()
    disk["wwn"] = disk["wwn"][:-8] + dice.hex("wwn", 8)


def _disk_used(board: Board, name: str = "nvme0n1", fstype: str = "xfs") -> None:
    uuid = "3f7c2c1e-95b5-4c4f-8d39-" + boards.Dice(board["seed"]).hex("used", 12)
    _disk(board, name)["children"] = [
        {"name": name + ("p1" if name[-1].isdigit() else "1"), "size": _disk(board, name)["size"],
         "fstype": fstype, "uuid": uuid}
    ]  # fmt: skip


def _disks_renumbered(board: Board, one: str = "sda", other: str = "sdb") -> None:
    first, second = _disk(board, one), _disk(board, other)
    for disk, old, name in ((first, one, other), (second, other, one)):
        disk["name"] = name
        for child in disk["children"]:
            child["name"] = name + child["name"][len(old) :]
    board["disks"].sort(key=lambda disk: str(disk["name"]))


def _nic(board: Board, name: str) -> dict[str, Any]:
    nics: list[dict[str, Any]] = board["nics"]
    return named(nics, "name", name) if name else nics[0]


def _nic_speed(board: Board, name: str = "", mbps: Any = 1000) -> None:
    _nic(board, name)["speed"] = int(mbps)


def _nic_half(board: Board, name: str = "") -> None:
    _nic(board, name)["duplex"] = "Half"


def _nic_drops(board: Board, name: str = "", count: Any = 1284331) -> None:
    stats = _nic(board, name)["stats"]
    stats.update(rx_dropped=int(count), rx_missed_errors=int(count))


def _nic_errors(board: Board, name: str = "", count: Any = 5521) -> None:
    _nic(board, name)["stats"].update(rx_crc_errors=int(count), rx_errors=int(count))


def _nic_down(board: Board, name: str = "") -> None:
    _nic(board, name)["link"] = False


def _nic_missing(board: Board, name: str = "") -> None:
    board["nics"].remove(_nic(board, name))


def _nic_driver(board: Board, name: str = "", driver: str = "igb") -> None:
    _nic(board, name)["driver"] = driver


def _module_dark(board: Board, name: str = "", dbm: Any = -21.5) -> None:
    _nic(board, name)["module"]["rx_dbm"] = float(dbm)


def _network_slow(board: Board, factor: Any = 0.5) -> None:
    board["performance"]["factors"]["network"] = float(factor)


def _path_slow(board: Board, peer: str = "gpu2", factor: Any = 0.05) -> None:
    board["performance"].setdefault("peers", {})[peer] = float(factor)


def _board_swapped(board: Board) -> None:
    dice = boards.Dice(board["seed"] + "/other")
    board["host"].update(serial="S" + str(dice.number("system", 10**9, 10**10 - 1)),
                         board_serial="UM" + dice.hex("baseboard", 10).upper())  # fmt: skip


def _bios_old(board: Board, version: str = "1.1") -> None:
    board["host"].update(bios_version=version, bios_date="03/02/2021")


FAULTS = (
    Fault("dimm_missing", "a memory module is missing (slot)", _dimm_missing),
    Fault("dimm_small", "a memory module is smaller (slot, gib)", _dimm_small),
    Fault("dimm_slow", "memory runs slower (mts)", _dimm_slow),
    Fault("cpu_socket_missing", "one processor is missing", _socket_missing),
    Fault("cpu_other_model", "other processors than were rented (model, cores)", _other_cpu),
    Fault("disk_missing", "a disk is missing (name)", _disk_missing),
    Fault("disk_small", "a disk is too small (name, bytes)", _disk_small),
    Fault("disk_replaced", "another disk of the kind: other serial and WWN (name)", _disk_replaced),
    Fault("disk_used", "a disk carries a partition with a filesystem (name, fstype)", _disk_used),
    Fault("disks_renumbered", "two disks changed their names (one, other)", _disks_renumbered),
    Fault("nic_1g", "the NIC runs at 1 Gb/s (name, mbps)", _nic_speed),
    Fault("nic_half_duplex", "the NIC runs at half duplex (name)", _nic_half),
    Fault("nic_drops", "the NIC drops what it receives (name, count)", _nic_drops),
    Fault("nic_errors", "the NIC counts CRC errors (name, count)", _nic_errors),
    Fault("nic_link_down", "the NIC has no link (name)", _nic_down),
    Fault("nic_missing", "the NIC is missing (name)", _nic_missing),
    Fault("nic_other_driver", "the NIC has another driver (name, driver)", _nic_driver),
    Fault(
        "module_rx_power_low", "too little light reaches the NIC's module (name, dbm)", _module_dark
    ),
    Fault("slow_network", "collectives between nodes are slow (factor)", _network_slow),
    Fault(
        "slow_path",
        "collectives over the hop to one other node are slow (peer, factor)",
        _path_slow,
    ),
    Fault("board_swapped", "another chassis and main board: other serials", _board_swapped),
    Fault("bios_old", "an old BIOS (version)", _bios_old),
)
