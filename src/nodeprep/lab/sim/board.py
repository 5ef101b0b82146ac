"""The board: one whole server as plain JSON, the only state of the simulator.

Every tool reads it and nothing else, so that a link which is down is down everywhere. On a node it
lies in /var/lib/nodeprep-sim/board.json; NODEPREP_SIM_BOARD names another place.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Board = dict[str, Any]
    Gpu = dict[str, Any]

STATE = "/var/lib/nodeprep-sim/board.json"
COUNTERS = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable")


class Dice:
    """Values that follow from a seed, the same ones on every machine and Python."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def hex(self, name: str, digits: int) -> str:
        return hashlib.sha256((self._seed + "/" + name).encode()).hexdigest()[:digits]

    def number(self, name: str, low: int, high: int) -> int:
        return low + int(self.hex(name, 12), 16) % (high - low + 1)

    def jitter(self, name: str, value: float, share: float = 0.006) -> float:
        return value * (1 + share * (self.number(name, 0, 2000) - 1000) / 1000)


def new(model: str = models.DEFAULT, seed: str = "node") -> Board:
    """A healthy server of `model` (a key of `models.MODELS`); KeyError for another."""
    spec = models.MODELS[model]
    dice = Dice(seed)
    board: Board = {
        "schema": 1,
        "model": model,
        "seed": seed,
        "host": _host(spec, dice),
        "cpus": copy.deepcopy(spec["cpus"]),
        "dimms": _dimms(spec["dimms"], dice),
        "disks": _disks(spec["disks"], dice),
        "nics": nics(dice),
        "kind": spec["kind"],
        "gpu_spec": spec["gpu"],
        "gpus": [],
        "nvswitches": [{"address": _address(bus), "id": spec["nvswitch_id"]}
                       for bus in spec["nvswitches"]],
        "performance": {
            "busbw": round(dice.jitter("busbw", spec["busbw"]), 2),
            "p2p": round(dice.jitter("p2p", spec["p2p"]), 2),
            "h2d": round(dice.jitter("h2d", spec["h2d"]), 2),
            "factors": {},
        },
        "p2p": True,
        "nccl": {"wrong": 0, "validation": True, "interface": ""},
        "fabric_manager": {"running": "", "version": ""},
        "driver": {},
        "xids": [],
        "tools": {},
        "faults": [],
        "boot_id": "",
        "load_until": 0.0,
    }  # fmt: skip
    board["gpus"] = [_gpu(spec, dice, index) for index in range(len(spec["addresses"]))]
    _wire(board)
    return board


def _address(bus: str) -> str:
    return "0000:" + bus + ":00.0"


def _host(spec: dict[str, Any], dice: Dice) -> dict[str, Any]:
    digits = dice.hex("system-uuid", 32)
    return {
        "vendor": spec["host"]["vendor"],
        "product": spec["host"]["product"],
        "serial": "S" + str(dice.number("system", 10**9, 10**10 - 1)),
        "uuid": "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])),
        "board": spec["host"]["board"],
        "board_serial": "UM" + dice.hex("baseboard", 10).upper(),
        "bios_vendor": "American Megatrends International, LLC.",
        "bios_version": "1.4a",
        "bios_date": "08/04/2023",
    }


def _dimms(spec: dict[str, Any], dice: Dice) -> list[dict[str, Any]]:
    """All slots, the populated ones first in each channel; `size_mib` 0 is an empty slot."""
    per_channel = 2
    dimms = []
    for number in range(spec["slots"]):
        cpu, rest = divmod(number, spec["slots"] // 2)
        channel, position = divmod(rest, per_channel)
        full = spec["count"] == spec["slots"] or position == 0
        slot = "P%d-DIMM%s%d" % (cpu + 1, "ABCDEFGH"[channel], position + 1)
        dimms.append({
            "slot": slot,
            "bank": "P%d_Node%d_Channel%d_Dimm%d" % (cpu, cpu, channel, position),
            "size_mib": spec["gib"] * 1024 if full else 0,
            "type": spec["type"],
            "mts": spec["mts"],
            "manufacturer": "Samsung",
            "part": "M393A4K40EB3-CWE" if spec["type"] == "DDR4" else "M321R8GA0BB0-CQK",
            "serial": dice.hex("dimm-" + slot, 8).upper(),
        })  # fmt: skip
    return dimms


def _disks(specs: tuple[dict[str, Any], ...], dice: Dice) -> list[dict[str, Any]]:
    disks = []
    for spec in specs:
        name = spec["name"]
        tail = dice.hex("disk-" + name, 16)
        disk = dict(
            spec,
            serial=(spec["serial"] + str(int(tail[:8], 16)))[:14],
            wwn=spec["wwn"] + (tail if spec["tran"] == "nvme" else tail[:8]),
            rota=spec.get("rota", False),
            rev="GDC5602Q" if spec["tran"] == "nvme" else "TN02",
            children=[],
        )
        if spec["use"] == "os":
            disk["children"] = _partitions(name, spec["size"], dice)
        disks.append(disk)
    return disks


def _partitions(name: str, size: int, dice: Dice) -> list[dict[str, Any]]:
    """What an installer leaves on the OS disk: an EFI partition and the root filesystem."""
    efi = 1127219200
    root = dice.hex("root", 32)
    uuid = "-".join((root[:8], root[8:12], root[12:16], root[16:20], root[20:]))
    return [
        {"name": name + "1", "size": efi, "fstype": "vfat", "mountpoint": "/boot/efi",
         "uuid": dice.hex("efi", 4).upper() + "-" + dice.hex("efi2", 4).upper()},
        {"name": name + "2", "size": size - efi - 2 * 2**20, "fstype": "ext4", "mountpoint": "/",
         "uuid": uuid},
    ]  # fmt: skip


def nics(dice: Dice) -> list[dict[str, Any]]:
    """As their driver sets them up."""
    mac = dice.hex("mac", 6)
    return [{
        "name": "ens5f0",
        "driver": "ixgbe",
        "driver_version": "5.15.0-113-generic",
        "firmware": "0x800011e7, 1.1824.0",
        "address": "0000:05:00.0",
        "device": "10fb",
        "lspci": "82599ES 10-Gigabit SFI/SFP+ Network Connection",
        "numa": 0,
        "mac": "3c:ec:ef:" + ":".join(mac[i : i + 2] for i in (0, 2, 4)),
        "speed": 10000,
        "max_speed": 10000,
        "duplex": "Full",
        "link": True,
        "mtu": 1500,
        "rings": {"rx": 512, "tx": 512, "max": 4096},
        "channels": {"combined": 63, "max": 63},
        "coalesce": {"adaptive-rx": False, "adaptive-tx": False, "rx-usecs": 1, "tx-usecs": 0},
        "features": {},
        "pause": {"autoneg": False, "rx": True, "tx": True},


        "module": {"rx_dbm": -2.7, "tx_dbm": -2.3, "celsius": 36.0},
        "stats": {"rx_dropped": 0, "rx_missed_errors": 0, "rx_crc_errors": 0, "rx_errors": 0},
    }]  # fmt: skip


def _gpu(spec: dict[str, Any], dice: Dice, index: int) -> Gpu:
    kind = models.GPUS[spec["gpu"]]
    bus = spec["addresses"][index]
    tag = "gpu-%d-" % index
    digits = dice.hex(tag + "uuid", 32)
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return {
        "address": _address(bus),
        "state": "ok",  # ok, missing (not on the bus), off_bus, lost
        "numa": 0 if index < len(spec["addresses"]) / 2 else 1,
        "minor": index,
        "uuid": "GPU-" + uuid,
        "serial": "13" + str(dice.number(tag + "serial", 10**10, 10**11 - 1)),
        "vbios": kind["vbios"],
        "ecc": {"mode": True, "pending": True, "volatile": dict.fromkeys(COUNTERS, 0),
                "aggregate": dict.fromkeys(COUNTERS, 0)},
        "remap": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False,
                  "degraded_banks": 0},
        "retired": None,  # row remapping took its place from Ampere on; a fault fills it
        "locked_clocks": None,
        "application_clocks": None,  # memory and graphics in MHz, or the board's own
        "throttle": [],
        "temps": {"gpu": dice.number(tag + "temp", 28, 34), "memory": 36 + index % 4},
        "power": {"draw": round(dice.jitter(tag + "draw", 52.0, 0.08), 2), "limit": kind["power"]},
        "pcie": {"gen": kind["gen"], "width": 16, "replays": 0},
        "mig": {"current": False, "pending": False, "instances": []},
        "persistence": False,
        "compute_mode": "Default",
        "reset_required": False,
        "processes": [],
        "nvlinks": [{"active": True, "peer": "", "replay": 0, "recovery": 0, "crc": 0}
                    for _ in range(kind["links"])],
    }  # fmt: skip


def _wire(board: Board) -> None:
    """Fills in where each NVLink ends: another GPU's address, or a switch's."""
    gpus = board["gpus"]
    for index, gpu in enumerate(gpus):
        if board["kind"] == "mesh":
            others = [other["address"] for other in gpus if other is not gpu]
            ends = [others[link // 4] for link in range(len(gpu["nvlinks"]))]
        elif board["kind"] == "bridge":
            ends = [gpus[index ^ 1]["address"]] * len(gpu["nvlinks"])
        else:
            switches = board["nvswitches"]
            ends = [switches[n % len(switches)]["address"] for n in range(len(gpu["nvlinks"]))]
        for link, end in zip(gpu["nvlinks"], ends):
            link["peer"] = end


def spec(board: Board) -> dict[str, Any]:
    """The figures of this board's kind of GPU."""
    return models.GPUS[board["gpu_spec"]]


def on_bus(board: Board) -> list[Gpu]:
    """The GPUs that lspci shows, one that fell off the bus included."""
    return [gpu for gpu in board["gpus"] if gpu["state"] != "missing"]


def enumerated(board: Board) -> list[Gpu]:
    """The GPUs that the driver counts, in the order of their index."""
    return on_bus(board)


def usable(board: Board) -> list[Gpu]:
    return [gpu for gpu in board["gpus"] if gpu["state"] == "ok"]


def links_between(board: Board, one: Gpu, other: Gpu) -> int:
    """Active NVLinks that join two GPUs, through switches where there are some."""
    if board["kind"] == "nvswitch":
        return min(sum(bool(link["active"]) for link in gpu["nvlinks"]) for gpu in (one, other))
    ends: list[str] = [link["peer"] for link in one["nvlinks"] if link["active"]]
    return ends.count(other["address"])


def path() -> Path:
    return Path(os.environ.get("NODEPREP_SIM_BOARD") or STATE)


def load() -> Board:
    """The board of this node; FileNotFoundError where there is none."""
    board: Board = json.loads(path().read_text(encoding="utf-8"))
    return board


def save(board: Board) -> None:
    """Replaces the state in one step, so that a reader never sees half of it."""
    target = path()
    draft = target.with_name(target.name + ".%d" % os.getpid())
    draft.write_text(json.dumps(board, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    draft.replace(target)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    with path().with_name("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def update(change: Callable[[Board], None]) -> Board:
    """Applies `change` to the state, one writer at a time."""
    with _alone():
        board = load()
        change(board)
        save(board)
    return board
