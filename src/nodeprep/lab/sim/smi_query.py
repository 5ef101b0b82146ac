"""`nvidia-smi --query-gpu`, `--query-compute-apps`, `--query-remapped-rows` as CSV."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from . import board as boards
from . import driver, physics
from .result import Result, Usage, lines
from .smi_tree import able, bus_id, fabric_state, yes

if TYPE_CHECKING:
    from .board import Board, Gpu

    Field = tuple[Any, str]  # a value and its unit

NA = "[N/A]"
_REASONS = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
            "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown",
            "sync_boost")  # fmt: skip
# Bits of clocks_event_reasons.active, as NVML numbers them.
_BITS = {"gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4,
         "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
         "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80}  # fmt: skip
_ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id",
            "gpu_serial": "serial", "temperature.gpu.current": "temperature.gpu",
            "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
            "pcie.link.gen.gpumax": "pcie.link.gen.max",
            "clocks.gr": "clocks.current.graphics", "clocks.sm": "clocks.current.sm",
            "clocks.mem": "clocks.current.memory", "clocks.video": "clocks.current.video",
            "clocks.max.gr": "clocks.max.graphics", "clocks.max.mem": "clocks.max.memory",
            "enforced.power.limit": "power.limit", "ecc.mode": "ecc.mode.current"}  # fmt: skip


def run(board: Board, gpus: list[Gpu], what: str, columns: str, form: str) -> Result:
    words = form.split(",")
    if "csv" not in words:
        return Result(
            1,
            "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n"
            if not form
            else 'Value for "--format=" is not valid: %s\n' % form,
        )
    names = [name.strip() for name in columns.split(",")]
    records = [record for gpu in gpus for record in _records(board, gpu, what)]
    known = _records(board, gpus[0], what, sample=True)[0]
    for name in names:
        if _plain(name) not in known:
            raise Usage(Result(2, 'Field "%s" is not a valid field to query.\n\n' % name))
    rows = [] if "noheader" in words else [", ".join(
        name + _unit(known[_plain(name)], words) for name in names)]  # fmt: skip
    rows += [", ".join(_cell(record[_plain(name)], words) for name in names)
             for record in records]  # fmt: skip
    return Result(out=lines(rows))


def _plain(name: str) -> str:
    name = name.replace("clocks_throttle_reasons", "clocks_event_reasons")
    return _ALIASES.get(name, name)


def _unit(field: Field, words: list[str]) -> str:
    return " [%s]" % field[1] if field[1] else ""


def _cell(field: Field, words: list[str]) -> str:
    value, unit = field
    if unit and "nounits" not in words and value not in (NA, "[GPU is lost]"):
        return "%s %s" % (value, unit)
    return str(value)


def _records(board: Board, gpu: Gpu, what: str, sample: bool = False) -> list[dict[str, Field]]:
    if what == "gpu":
        fields = gpu_fields(board, gpu)
        if gpu["state"] == "lost" and not sample:
            kept = ("name", "index", "uuid", "serial", "pci.bus_id", "count", "timestamp")
            fields = {name: field if name in kept else ("[GPU is lost]", field[1])
                      for name, field in fields.items()}  # fmt: skip
        return [fields]
    base: dict[str, Field] = {"gpu_bus_id": (bus_id(gpu), ""), "pci.bus_id": (bus_id(gpu), ""),
                              "uuid": (gpu["uuid"], ""), "gpu_uuid": (gpu["uuid"], ""),
                              "serial": (gpu["serial"], ""),
                              "name": (boards.spec(board)["name"], "")}  # fmt: skip
    if what == "rows":
        remap = gpu["remap"]
        return [dict(base, **{
            "remapped_rows.correctable": (remap["correctable"], ""),
            "remapped_rows.uncorrectable": (remap["uncorrectable"], ""),
            "remapped_rows.pending": (yes(remap["pending"]), ""),
            "remapped_rows.failure": (yes(remap["failure"]), ""),
        })]  # fmt: skip
    processes = gpu["processes"] or ([{"pid": 0, "name": "", "mib": 0}] if sample else [])
    return [dict(base, pid=(process["pid"], ""), process_name=(process["name"], ""),
                 name=(process["name"], ""), used_gpu_memory=(process["mib"], "MiB"),
                 used_memory=(process["mib"], "MiB")) for process in processes]  # fmt: skip


def gpu_fields(board: Board, gpu: Gpu) -> dict[str, Field]:
    """Every field of --query-gpu that is known, with its unit."""
    kind = boards.spec(board)
    used = 1 + sum(process["mib"] for process in gpu["processes"])
    clocks, full = physics.clocks(board, gpu), kind["clocks"]
    busy = 98 if physics.loaded(board) else 0
    active = physics.reasons(board, gpu)
    fields: dict[str, Field] = {
        "timestamp": (time.strftime("%Y/%m/%d %H:%M:%S.000"), ""),
        "driver_version": (driver.version(board), ""),
        "count": (len(boards.enumerated(board)), ""),
        "index": (boards.enumerated(board).index(gpu), ""),
        "name": (kind["name"], ""),
        "serial": (gpu["serial"], ""),
        "uuid": (gpu["uuid"], ""),
        "pci.bus_id": (bus_id(gpu), ""),
        "pci.domain": ("0x0000", ""),
        "pci.bus": ("0x" + gpu["address"][5:7].upper(), ""),
        "pci.device": ("0x00", ""),
        "pci.device_id": ("0x" + (kind["device"] + "10de").upper(), ""),
        "pci.sub_device_id": ("0x" + kind["subsystem"].upper(), ""),
        "pcie.link.gen.current": (physics.pcie_generation(board, gpu), ""),
        "pcie.link.gen.max": (kind["gen"], ""),
        "pcie.link.gen.hostmax": (kind["gen"], ""),
        "pcie.link.width.current": (gpu["pcie"]["width"], ""),
        "pcie.link.width.max": (16, ""),
        "display_mode": ("Enabled", ""),
        "display_active": ("Disabled", ""),
        "persistence_mode": (able(gpu["persistence"]), ""),
        "accounting.mode": ("Disabled", ""),
        "vbios_version": (gpu["vbios"], ""),
        "inforom.img": (kind["image"], ""),
        "inforom.ecc": ("6.16", ""),
        "gom.current": (NA, ""),
        "fan.speed": (NA, "%"),
        "pstate": ("P0", ""),
        "clocks_event_reasons.active": ("0x%016X" % sum(_BITS[name] for name in active), ""),
        "clocks_event_reasons.supported": ("0x00000000000001FF", ""),
        "memory.total": (kind["memory"], "MiB"),
        "memory.reserved": (kind["reserved"], "MiB"),
        "memory.used": (used, "MiB"),
        "memory.free": (kind["memory"] - kind["reserved"] - used, "MiB"),
        "compute_mode": (gpu["compute_mode"], ""),
        "compute_cap": (kind["arch_cc"], ""),
        "utilization.gpu": (NA if gpu["mig"]["current"] else busy, "%"),
        "utilization.memory": (NA if gpu["mig"]["current"] else 0, "%"),
        "ecc.mode.current": (able(gpu["ecc"]["mode"]), ""),
        "ecc.mode.pending": (able(gpu["ecc"]["pending"]), ""),
        "mig.mode.current": (able(gpu["mig"]["current"]), ""),
        "mig.mode.pending": (able(gpu["mig"]["pending"]), ""),
        "gsp.mode.current": (NA, ""),
        "temperature.gpu": (physics.temperature(board, gpu), ""),
        "temperature.memory": (gpu["temps"]["memory"], ""),
        "power.management": ("Enabled", ""),
        "power.draw": ("%.2f" % physics.power_draw(board, gpu), "W"),
        "power.draw.instant": ("%.2f" % physics.power_draw(board, gpu), "W"),
        "power.draw.average": ("%.2f" % physics.power_draw(board, gpu), "W"),
        "power.limit": ("%.2f" % gpu["power"]["limit"], "W"),
        "power.default_limit": ("%.2f" % kind["power"], "W"),
        "power.min_limit": ("%.2f" % kind["power_min"], "W"),
        "power.max_limit": ("%.2f" % kind["power"], "W"),
        "fabric.state": (fabric_state(board)[0].replace("N/A", NA), ""),
        "fabric.status": (fabric_state(board)[1].replace("N/A", NA), ""),
    }
    for reason in _REASONS:
        word = "Active" if reason in active else "Not Active"
        fields["clocks_event_reasons." + reason] = (word, "")
    for name, key in (("graphics", "graphics"), ("sm", "sm"), ("memory", "mem"),
                      ("video", "video")):  # fmt: skip
        fields["clocks.current." + name] = (clocks[key], "MHz")
        fields["clocks.max." + name] = (full.get(key, kind["mem_clock"]), "MHz")
    for name in ("graphics", "memory"):
        fields["clocks.applications." + name] = fields["clocks.max." + name]
        fields["clocks.default_applications." + name] = fields["clocks.max." + name]
    fields["clocks.applications.graphics"] = (physics.application_clock(board, gpu), "MHz")
    fields.update(_errors(gpu))
    return fields


def _errors(gpu: Gpu) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for span in ("volatile", "aggregate"):
        counts = gpu["ecc"][span]
        for kind in ("corrected", "uncorrected"):
            suffix = "correctable" if kind == "corrected" else "uncorrectable"
            dram, sram = counts["dram_" + suffix], counts["sram_" + suffix]
            values = {"dram": dram, "device_memory": dram, "sram": sram, "total": dram + sram}
            for place, count in values.items():
                value = count if gpu["ecc"]["mode"] else NA
                fields["ecc.errors.%s.%s.%s" % (kind, span, place)] = (value, "")
    retired = gpu["retired"]
    fields["retired_pages.single_bit_ecc.count"] = (retired["single"] if retired else NA, "")
    fields["retired_pages.double_bit.count"] = (retired["double"] if retired else NA, "")
    fields["retired_pages.pending"] = (yes(retired["pending"]) if retired else NA, "")
    return fields
