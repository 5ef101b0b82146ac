"""Proofs of the GPUs themselves: all of them answer, are alike, and are in good health."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

from nodeprep.accept.parsers.kernel_log import KernelLog, Xid, parse_kernel_log
from nodeprep.accept.parsers.smi import HARDWARE_REASONS, GpuHealth, parse_smi
from nodeprep.accept.parsers.text import ParseError
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart
from nodeprep.model.reading import NodeReading

T = TypeVar("T")
SMI = ["nvidia-smi", "-q", "-x"]
XID_WINDOW_S = 2 * 3600.0
RETIRED_PAGES = 10  # more is a failing memory, mostly before Ampere
SRAM_AGGREGATE = 4  # more over its life: the vendor replaces the GPU
MEMORY_TOLERANCE = 0.03  # drivers before 510 count less: 40536 of 40960 MiB
NOBODYS_MIB = 1024  # held although no process is shown; contexts of daemons take some hundred
# Corrected errors and remapped rows are the memory's own repair at work: noted, no failure.
# XIDs that refuse a node when younger than the window; what to do about each.
REMOUNT = "power the node off and on; then reseat; then RMA"
FATAL_XIDS = {
    **dict.fromkeys((48, 63, 64, 92), "drain the GPU and reset it; if it comes back, RMA"),
    **dict.fromkeys((56, 57, 58, 62, 65, 68, 69, 73, 80, 81), "reset the GPU; then RMA"),
    **dict.fromkeys((95, 140), "reboot, or drain and reset the GPU; if it comes back, RMA"),
    64: "RMA: a row could not be remapped",
    74: "check the NVLinks or bridges; reset; then reseat or RMA",
    79: REMOUNT,
    **dict.fromkeys((119, 120), "reboot; if it comes back, change the driver or RMA"),
    154: "do what the driver asks for: reset the GPU, or reboot; if it comes back, RMA",
}


@pytest.fixture
def health(proof: Proof) -> tuple[GpuHealth, ...]:
    return parse_smi(proof.run(SMI, timeout_s=60, once=True))


@pytest.mark.proof("gpu.answer", timeout_s=90)
def test_every_gpu_answers(
    proof: Proof, gpus: GpuPart, reading: NodeReading, health: tuple[GpuHealth, ...]
) -> None:
    answering = {_slot(gpu.bus) for gpu in health}
    on_bus = {_slot(gpu.pci_address) for gpu in (reading.hardware and reading.hardware.gpus) or ()}
    silent = sorted(({_slot(slot) for slot in gpus.pci_addresses} | on_bus) - answering)
    proof.holds(
        len(health) == gpus.count and not silent,
        wanted=f"{gpus.count} GPUs answer",
        read=f"{len(health)} of {gpus.count} answer"
        + (f"; none at {', '.join(silent)}" if silent else ""),
        source="the profile",
        action=REMOUNT,
    )


@pytest.mark.proof("gpu.alike", timeout_s=90)
def test_gpus_are_of_one_kind(proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]) -> None:
    proof.equals(
        "models", sorted({gpu.model for gpu in health}), [gpus.model], source="the profile"
    )
    memory = _told(health, lambda gpu: gpu.memory_mib)
    proof.holds(
        all(abs(size - gpus.memory_mib) <= MEMORY_TOLERANCE * gpus.memory_mib for size in memory),
        wanted=f"{gpus.memory_mib} MiB each, within {MEMORY_TOLERANCE:.0%}",
        read=f"{', '.join(map(str, sorted(set(memory))))} MiB",
        source="the profile",
    )
    versions = sorted(set(_told(health, lambda gpu: gpu.vbios)))
    proof.holds(
        len(versions) == 1,
        wanted="one VBIOS on all GPUs",
        read=", ".join(versions),
        action="have the provider flash one VBIOS",
    )


@pytest.mark.proof("gpu.ecc", timeout_s=90)
def test_memory_has_no_uncorrectable_errors(
    proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]
) -> None:
    off = [gpu.bus for gpu, on in _pairs(health, lambda gpu: gpu.ecc_on) if not on]
    proof.holds(
        not off,
        wanted="ECC on",
        read=f"off at {', '.join(off)}" if off else "on everywhere",
        action="nvidia-smi -e 1, then reboot",
    )
    counts = dict(_pairs(health, lambda gpu: gpu.ecc_uncorrectable))
    proof.holds(
        not any(counts.values()),
        wanted="no uncorrectable error since the driver was loaded",
        read=_by_gpu({gpu.bus: count for gpu, count in counts.items()}),
        action="drain and reset the GPU; if it comes back, RMA",
    )
    lifetime = {gpu.bus: gpu.sram_aggregate for gpu in health if gpu.sram_aggregate is not None}
    exceeded = {gpu.bus for gpu in health if gpu.sram_exceeded}
    if exceeded or any(count > SRAM_AGGREGATE for count in lifetime.values()):
        proof.holds(
            False,
            wanted=f"at most {SRAM_AGGREGATE} uncorrectable SRAM errors in the GPU's life",
            read=_by_gpu(lifetime) or f"threshold exceeded at {', '.join(sorted(exceeded))}",
            action="RMA",
        )
    if corrected := {gpu.bus: gpu.ecc_corrected for gpu in health if gpu.ecc_corrected}:
        proof.note(f"corrected errors since the driver was loaded: {_by_gpu(corrected)}")


@pytest.mark.proof("gpu.memory_repair", timeout_s=90)
def test_no_row_or_page_is_being_given_up(
    proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]
) -> None:
    for gpu in health:
        remaps = gpu.remap_pending is not None and gpu.remap_failure is not None
        if not remaps and gpu.retired is None:
            raise Unknown(f"{gpu.bus} tells neither of remapped rows nor of retired pages")
        retired = gpu.retired or 0
        state = {
            "remap failed": gpu.remap_failure,
            "remap pending": gpu.remap_pending,
            f"{retired} pages retired": retired > RETIRED_PAGES,
            "retirement pending": gpu.retired_pending,
        }
        bad = [name for name, so in state.items() if so]
        bad += [f"the driver asks for {repair}" for repair in gpu.repairs]
        proof.holds(
            not bad,
            wanted="no remap failed or pending, few pages retired",
            read=f"{gpu.bus}: {', '.join(bad) or 'good'}",
            action="RMA" if gpu.remap_failure or retired > RETIRED_PAGES
            else "reset the GPU or reboot once, then accept again",
        )  # fmt: skip


@pytest.mark.proof("gpu.unused", timeout_s=90)
def test_nobody_works_on_the_gpus(
    proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]
) -> None:
    holders = {
        gpu.bus: ", ".join(
            f"{one.name} (pid {one.pid}) holds {one.memory_mib or '?'} MiB"
            for one in gpu.processes
            if one.kind != "G"  # a screen's server does no harm
        )
        for gpu in health
    }
    used = dict(_pairs(health, lambda gpu: gpu.memory_used_mib))
    for gpu, mib in used.items():
        if mib > NOBODYS_MIB and not gpu.processes:
            holders[gpu.bus] = f"{mib} MiB are held, and no process is shown"
    bad = {bus: who for bus, who in holders.items() if who}
    proof.holds(
        not bad,
        wanted="no process on any GPU",
        read=_by_gpu(bad) or f"none on {len(health)} GPUs",
        action="drain the node, end the process; if memory stays held, reset the GPU or reboot",
    )


@pytest.mark.proof("gpu.compute_mode", timeout_s=90)
def test_gpus_may_be_shared(proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]) -> None:
    modes = {gpu.bus: mode for gpu, mode in _pairs(health, lambda gpu: gpu.compute_mode)}
    bad = {bus: mode for bus, mode in modes.items() if mode != "Default"}
    proof.holds(
        not bad,
        wanted="compute mode Default",
        read=_by_gpu(bad) or f"Default on {len(health)} GPUs",
        action="nvidia-smi -c 0; find out what set it",
    )


@pytest.mark.proof("gpu.pcie_replays", timeout_s=90)
def test_pcie_links_replay_little(
    proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]
) -> None:
    worst, value = max(_pairs(health, lambda gpu: gpu.replays), key=lambda pair: pair[1])
    proof.measured(
        "gpu.pcie_replays",
        value,
        at=f"at {worst.bus}",
        action="reset the GPU, which clears the counter, and accept again; "
        "if it counts on, reseat the GPU or its riser",
    )


@pytest.mark.proof("gpu.throttle", timeout_s=90)
def test_no_gpu_is_slowed_down_by_its_hardware(
    proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]
) -> None:
    reasons = _pairs(health, lambda gpu: gpu.reasons)
    slowed = {
        gpu.bus: [why for why in active if why in HARDWARE_REASONS] for gpu, active in reasons
    }
    bad = {bus: ", ".join(why) for bus, why in slowed.items() if why}
    proof.holds(
        not bad,
        wanted="no hardware slowdown",
        read=_by_gpu(bad) or f"none on {len(health)} GPUs",
        action="check power and cooling; then reseat or RMA",
    )


@pytest.mark.proof("gpu.power_limit", timeout_s=90)
def test_no_gpu_is_kept_below_its_power(
    proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]
) -> None:
    limits = {gpu.bus: watts for gpu, watts in _pairs(health, lambda gpu: gpu.power_limit)}
    proof.holds(
        all(watts >= gpus.power_limit_w for watts in limits.values()),
        wanted=f"{gpus.power_limit_w:g} W each",
        read=_by_gpu({bus: f"{watts:g} W" for bus, watts in limits.items()}),
        source="the profile",
        action="nvidia-smi -pl with the default limit; find out what lowered it",
    )


@pytest.mark.proof("gpu.temperature_max", timeout_s=90)
def test_gpus_are_cool_enough(proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]) -> None:
    hottest, value = max(_pairs(health, lambda gpu: gpu.temperature), key=lambda pair: pair[1])
    action = "check the airflow and the fans; then RMA"
    proof.measured("gpu.temperature_max", value, at=f"at {hottest.bus}", action=action)


@pytest.mark.proof("gpu.xid", timeout_s=90)
def test_the_driver_reported_no_fatal_error_lately(
    proof: Proof, gpus: GpuPart, reading: NodeReading
) -> None:
    if not reading.host.clock:
        raise Unknown("the node's clock was not read")
    log, start = _kernel_log(proof), reading.host.clock - XID_WINDOW_S
    recent, switches = log.since(start), log.switches_since(start)
    fatal = [xid for xid in recent if xid.code in FATAL_XIDS and not _no_longer(xid)]
    if not fatal:
        # A log without XIDs says nothing where no driver is there to report any.
        proof.run(SMI, timeout_s=60, once=True)
    proof.holds(
        not fatal,
        wanted="no fatal XID within 2 h",
        read="; ".join(f"XID {xid.code} at {xid.bus}: {xid.text[:80]}" for xid in fatal) or "none",
        action="; ".join(dict.fromkeys(FATAL_XIDS[xid.code] for xid in fatal)),
    )
    if switches:
        proof.holds(
            False,
            wanted="no fatal SXid within 2 h",
            read="; ".join(
                f"SXid {sxid.code} at {sxid.bus}: {sxid.text[:80]}" for sxid in switches
            ),
            action="restart the fabric manager; reboot; if it comes back, RMA of the baseboard",
        )
    for xid in recent:
        if xid not in fatal:
            hint = ": restart the application" if xid.code == 94 else ""
            proof.note(f"XID {xid.code} at {xid.bus}{hint}")


@pytest.mark.proof("gpu.pcie", timeout_s=90)
def test_pcie_links_are_whole(proof: Proof, gpus: GpuPart, health: tuple[GpuHealth, ...]) -> None:
    widths = {gpu.bus: width for gpu, width in _pairs(health, lambda gpu: gpu.pcie_width)}
    most = {gpu.bus: gen for gpu, gen in _pairs(health, lambda gpu: gpu.pcie_gen_max)}
    action = "reseat the GPU or its riser; check the BIOS's setting of the slot"
    for name, read, wanted in (
        ("width", widths, gpus.pcie_width),
        ("generation at most", most, gpus.pcie_gen),
    ):
        proof.holds(
            all(value >= wanted for value in read.values()),
            wanted=f"PCIe {name} {wanted}",
            read=_by_gpu(read),
            source="the profile",
            action=action,
        )
    idle = [gpu.bus for gpu in health if (gpu.pcie_gen or 0) < gpus.pcie_gen]
    if idle:
        proof.note(f"below Gen{gpus.pcie_gen} while idle, which is normal: {', '.join(idle)}")


def _kernel_log(proof: Proof) -> KernelLog:
    """The journal's last lines; where it holds none of the kernel's, the ring buffer."""
    journal = "journalctl -k -q --no-pager -o short-unix -n 20000"
    try:
        return parse_kernel_log(proof.run(journal))
    except (Unknown, ParseError):
        return parse_kernel_log(proof.run(["dmesg", "--time-format", "iso"]))


def _no_longer(xid: Xid) -> bool:
    """154 tells each change of what the driver asks for, the last one to nothing too."""
    return xid.code == 154 and xid.text.endswith("(None)")


def _pairs(
    health: tuple[GpuHealth, ...], field: Callable[[GpuHealth], T | None]
) -> list[tuple[GpuHealth, T]]:
    """Each GPU with one of its fields; unknown when any GPU does not tell it."""
    found = [(gpu, value) for gpu in health if (value := field(gpu)) is not None]
    if len(found) != len(health):
        mute = [gpu.bus for gpu in health if field(gpu) is None]
        raise Unknown(f"nvidia-smi does not tell it of {', '.join(mute)}")
    return found


def _told(health: tuple[GpuHealth, ...], field: Callable[[GpuHealth], T | None]) -> list[T]:
    return [value for _, value in _pairs(health, field)]


def _by_gpu(values: Mapping[str, object]) -> str:
    return ", ".join(f"{bus} {value}" for bus, value in sorted(values.items()))


def _slot(address: str) -> str:
    """Bus addresses without the width of their domain: 00000000:17:00.0 is 0000:17:00.0."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"
