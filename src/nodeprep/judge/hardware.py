"""What was rented against what stands there: the profile's parts, one line each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodeprep.judge import disks, text
from nodeprep.model.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from nodeprep.model.hardware import Cpu, Dimm, Gpu, Hardware, Nic
    from nodeprep.model.profile import CpuPart, GpuPart, MemoryPart, NicPart, Profile

_MEMORY_TOLERANCE = 0.01  # of the modules' total: sizes of modules are exact
# The kernel shows this share of the modules at the least, but for what it keeps on any machine.
_KERNEL_SHARE = 0.95
_KERNEL_KEEPS_GIB = 0.125
_LOOK = "look for XID lines in the kernel's log; power the node off and on"
_WAKE = (
    "see which CPUs are off (lscpu: Off-line CPU(s) list) and why (dmesg); CPU 255 needs x2APIC"
    " in the BIOS; else settle it with the provider"
)
_GPU_MEMORY_TOLERANCE = 0.03  # drivers differ in what they count: 40536 or 40960 MiB of 40 GiB


@dataclass(frozen=True)
class Line:
    """One comparison. `part` is the part of `Hardware` that it was read from."""

    name: str
    part: str
    wanted: str
    read: str = ""
    problem: str = ""
    unknown: bool = False
    action: str = ""


def compare(
    profile: Profile,
    hardware: Hardware | None,
    simulated: bool = False,
    *,
    driver: bool = False,
) -> tuple[Verdict, ...]:
    """Verdicts with claims `hardware/<part>:<name>`, as many as the profile has parts to compare.

    Before the driver is installed only what the bus tells of a GPU is compared. `driver`: it must
    be there by now, and what it tells is compared too; that it does not answer is unknown.
    """
    parts = profile.parts
    lines: list[Line] = []
    if parts.cpu:
        lines += _cpu(parts.cpu, hardware)
    if parts.memory:
        lines += _memory(parts.memory, hardware)
    lines += [
        Line(f"disk:{found.name}", "disks", found.wanted, found.read, found.problem, found.unknown)
        for found in disks.compare(parts.disks, hardware.disks if hardware else None)
    ]
    lines += [_nic(part, hardware.nics if hardware else None) for part in parts.nics]
    if parts.gpus:
        lines += _gpus(parts.gpus, hardware)
        lines += _driver(parts.gpus, hardware) if driver else ()
    return tuple(_verdict(line, profile, hardware, simulated) for line in lines)


def swapped(changes: Sequence[tuple[str, str, str]]) -> tuple[Verdict, ...]:
    """Verdicts that fail, one a part: (part, what was accepted, what stands there now).

    For drift: the gates of `accept` and `provision` measure whatever stands there anew.
    """
    found: dict[str, list[str]] = {}
    for part, was, now in changes:
        found.setdefault(part, []).append(f"{now} stands where {was} was accepted")
    return tuple(
        Verdict(
            claim=f"hardware/identity:{part}",
            role="hardware",
            verdict=Outcome.FAIL,
            wanted=f"the {part} that was accepted",
            read=text.listed(said),
            source="the ledger, when the node was last accepted",
            reason=f"it is not the machine that was accepted: {text.listed(said)}",
            action="if it was replaced on purpose, `nodeprep provision` measures it anew and takes "
            "it; else ask the provider",
        )
        for part, said in found.items()
    )


def _verdict(line: Line, profile: Profile, hardware: Hardware | None, simulated: bool) -> Verdict:
    outcome = Outcome.FAIL if line.problem else Outcome.PASS
    action = "settle it with the provider, or put the node under the profile that it fits"
    reason = line.problem
    if line.unknown:
        outcome = Outcome.UNKNOWN
        action = "install the missing tool on the node, or read it there by hand"
        errors = hardware.errors if hardware else {}
        said = errors.get("gpu_driver" if line.part == "driver" else line.part, "")
        reason = ": ".join(filter(None, (reason or "it could not be read", said)))
    part = "gpus" if line.part == "driver" else line.part
    return Verdict(
        claim=f"hardware/{line.name}",
        role="hardware",
        verdict=outcome,
        wanted=text.line(line.wanted),
        read=text.line(line.read),
        source=f"profile {profile.name}",
        reason=text.line(reason),
        action=(line.action or action) if outcome.blocks else "",
        simulated=simulated or (hardware is not None and part in hardware.simulated),
    )


def _number(name: str, part: str, wanted: int, read: int | None, noun: str) -> Line:
    line = Line(name, part, text.plural(wanted, noun))
    if read is None:
        return replace(line, unknown=True)
    problem = "" if read == wanted else f"{text.plural(read, noun)}, rented: {wanted}"
    return replace(line, read=text.plural(read, noun), problem=problem)


# --- CPU and memory ------------------------------------------------------------------------------


def _cpu(part: CpuPart, hardware: Hardware | None) -> Iterator[Line]:
    cpu = hardware.cpu if hardware else None
    yield _number("cpu:sockets", "cpu", part.sockets, cpu.sockets if cpu else None, "socket")
    cores = cpu.cores_per_socket if cpu else None
    line = _number("cpu:cores", "cpu", part.cores_per_socket, cores, "core a socket")
    why = _offline(cpu) if cpu and not (line.problem or line.unknown) else ""
    yield replace(line, problem=why, action=_WAKE) if why else line
    if part.model:
        line = Line("cpu:model", "cpu", part.model)
        model = cpu.model if cpu else None
        if not model:
            yield replace(line, unknown=True)
        elif _matches(part.model, model):
            yield replace(line, read=model)
        else:
            yield replace(line, read=model, problem=f"it is another CPU: {model}")


def _offline(cpu: Cpu) -> str:
    """Of cores that all run, each has as many threads as another: one without SMT, two with it."""
    if not cpu.cores or not cpu.online or cpu.online % cpu.cores == 0:
        return ""
    return f"{cpu.online} CPUs run on {cpu.cores} cores: not all of them do"


def _matches(pattern: str, model: str) -> bool:
    try:
        return re.search(pattern, model) is not None
    except re.error:
        return pattern in model


def _shown_at_least(total_gib: float) -> float:
    return total_gib * _KERNEL_SHARE - _KERNEL_KEEPS_GIB


def _memory(part: MemoryPart, hardware: Hardware | None) -> Iterator[Line]:
    dimms = hardware.dimms if hardware else None
    if part.dimms:
        yield _dimms(part, dimms)
    line = Line("memory:total", "dimms", f"{part.total_gib:g} GiB")
    kernel = hardware.memory_kib if hardware else None
    if not dimms and not part.dimms and kernel:
        share = kernel / 1024**2
        line = replace(line, part="memory", read=f"{share:.0f} GiB, as the kernel counts")
        less = share < _shown_at_least(part.total_gib)
        yield replace(line, problem=f"{share:.0f} GiB, less than rented") if less else line
        return
    sizes = [dimm.size_mib for dimm in dimms or ()]
    if not sizes or None in sizes:
        yield replace(line, unknown=True)
        return
    total = sum(size or 0 for size in sizes) / 1024
    line = replace(line, read=f"{total:g} GiB")
    if total < part.total_gib * (1 - _MEMORY_TOLERANCE):
        yield replace(line, problem=f"{total:g} GiB, rented: {part.total_gib:g} GiB")
        return
    real = hardware is not None and "dimms" not in hardware.simulated
    if real and kernel and kernel / 1024**2 < _shown_at_least(total):
        problem = f"modules of {total:g} GiB, of which the kernel sees {kernel / 1024**2:.0f}"
        yield replace(line, problem=problem, action="look for a module that the BIOS mapped out")
        return
    yield line


def _dimms(part: MemoryPart, dimms: tuple[Dimm, ...] | None) -> Line:
    line = Line("memory:dimms", "dimms", text.plural(part.dimms, "memory module"))
    if not dimms:
        return replace(line, unknown=True)
    filled = [dimm for dimm in dimms if dimm.size_mib != 0]
    empty = _suspects(filled, [dimm for dimm in dimms if dimm.size_mib == 0])
    line = replace(line, read=text.plural(len(filled), "memory module"))
    if len(filled) >= part.dimms:
        return line
    slots = f"; empty: {text.listed(empty)}" if empty else ""
    count = part.dimms - len(filled)
    problem = f"{len(filled)} of {text.plural(part.dimms, 'memory module')}{slots}"
    action = f"have the provider seat or replace {text.plural(count, 'memory module')}"
    return replace(line, problem=problem, action=action)


def _suspects(filled: list[Dimm], empty: list[Dimm]) -> list[str]:
    """The empty slots whose likes (A1, B1, …) are filled; all of them when that tells nothing."""
    likes = {dimm.slot[-1:] for dimm in filled}
    slots = [dimm.slot for dimm in empty]
    return [slot for slot in slots if slot[-1:] in likes] or slots


# --- network -------------------------------------------------------------------------------------


def _nic(part: NicPart, nics: tuple[Nic, ...] | None) -> Line:
    driver = f", driver {part.driver}" if part.driver else ""
    line = Line(f"nic:{part.name}", "nics", f"{part.speed_mbps} Mb/s{driver}")
    if nics is None:
        return replace(line, unknown=True)
    nic = next((nic for nic in nics if nic.name == part.name), None)
    if nic is None:
        there = text.listed([nic.name for nic in nics]) or "none"
        return replace(line, read=f"NICs: {there}", problem=f"no NIC {part.name}; there: {there}")
    speed = f"{nic.speed_mbps} Mb/s" if nic.speed_mbps is not None else "speed not known"
    line = replace(line, read=f"{speed}, driver {nic.driver or 'not known'}")
    if nic.link is False:
        return replace(line, problem="it has no link", action="check cable and switch port")
    if nic.speed_mbps is not None and nic.speed_mbps < part.speed_mbps:
        problem = f"runs at {nic.speed_mbps} Mb/s, rented: {part.speed_mbps} Mb/s"
        return replace(line, problem=problem, action="check cable, module and switch port")
    if nic.duplex == "half":
        return replace(line, problem="runs at half duplex", action="check the switch port")
    if part.driver and nic.driver is not None and nic.driver != part.driver:
        return replace(line, problem=f"its driver is {nic.driver}, not {part.driver}")
    if nic.speed_mbps is None or (part.driver and nic.driver is None):
        return replace(line, problem="its speed or driver could not be read", unknown=True)
    return line


# --- GPUs ----------------------------------------------------------------------------------------


def _gpus(part: GpuPart, hardware: Hardware | None) -> Iterator[Line]:
    """What the bus tells: enough before there is a driver."""
    gpus = hardware.gpus if hardware else None
    line = Line("gpu:count", "gpus", f"{part.count}x {part.model} ({part.pci_id})")
    errors = hardware.errors if hardware else {}
    fallen = [key.removeprefix("gpu ") for key in sorted(errors) if key.startswith("gpu ")]
    yield replace(line, unknown=True) if gpus is None else _count(part, gpus, line, fallen)
    switches = hardware.nvswitches if hardware else None
    count = None if switches is None else len(switches)
    yield _number("nvswitch:count", "nvswitches", part.nvswitches, count, "NVSwitch")


def _count(part: GpuPart, gpus: tuple[Gpu, ...], line: Line, fallen: list[str]) -> Line:
    right = [gpu for gpu in gpus if gpu.pci_id == part.pci_id]
    others = [gpu for gpu in gpus if gpu.pci_id != part.pci_id]
    line = replace(line, read=f"{text.plural(len(right), 'GPU')} {part.pci_id}")
    other = text.listed([f"{gpu.pci_id or 'unknown'} at {gpu.pci_address}" for gpu in others])
    if len(right) == part.count and not others:
        return line
    if len(right) > part.count:
        return replace(line, problem=f"{len(right)} GPUs, rented: {part.count}")
    there = {gpu.pci_address for gpu in right}
    missing = [at for at in part.pci_addresses if at not in there and at not in fallen]
    problem = f"{len(right)} of {text.plural(part.count, 'GPU')} on the bus"
    if fallen:
        problem += f"; fell off the bus: {text.listed(fallen)}"
    if missing:
        problem += f"; missing: slot {text.listed(missing)}"
    if other:
        problem += f"; of another kind: {other}"
    if right and not missing and not other and not fallen:
        problem += f"; there: {text.listed(sorted(there))}"
    return replace(
        line, problem=problem, action="power the node off and on; if it stays, have it replaced"
    )


def _driver(part: GpuPart, hardware: Hardware | None) -> Iterator[Line]:
    """What only the driver tells, once it must be there."""
    gpus = (hardware.gpus if hardware else None) or ()
    wanted: list[tuple[str, str, Sequence[object]]] = [
        ("gpu:model", part.model, [gpu.model for gpu in gpus]),
        ("gpu:memory", f"{part.memory_mib} MiB", [gpu.memory_mib for gpu in gpus]),
        ("gpu:pcie", f"Gen{part.pcie_gen} x{part.pcie_width}", [_link(gpu) for gpu in gpus]),
    ]
    silent = [gpu.pci_address for gpu in gpus if gpu.uuid is None]
    line = Line("gpu:driver", "driver", "the driver answers for every GPU")
    if not gpus or len(silent) == len(gpus):
        action = "load the driver, or install it; reboot if its version changed"
        yield replace(line, unknown=True, problem="the driver did not answer", action=action)
    elif silent:
        problem = f"the driver does not see the GPU at {text.listed(silent)}"
        action = _LOOK
        yield replace(line, read=f"{len(gpus) - len(silent)} of {len(gpus)}", problem=problem,
                      action=action)  # fmt: skip
    else:
        yield replace(line, read=f"{len(gpus)} of {len(gpus)}")
    for name, words, values in wanted:
        yield _each(Line(name, "driver", words), part, gpus, values)


def _link(gpu: Gpu) -> tuple[int, int, int] | None:
    """(generation that is possible, width that is possible, width now): idle links slow down."""
    if gpu.pcie_gen_max is None or gpu.pcie_width_max is None or gpu.pcie_width is None:
        return None
    return gpu.pcie_gen_max, gpu.pcie_width_max, gpu.pcie_width


def _each(line: Line, part: GpuPart, gpus: tuple[Gpu, ...], values: Sequence[object]) -> Line:
    said = [(gpu.pci_address, value) for gpu, value in zip(gpus, values, strict=True)]
    wrong = [(at, value) for at, value in said if value is not None and not _right(part, value)]
    line = replace(line, read=text.listed(sorted({_words(value) for _, value in said})))
    if wrong:
        shown = text.listed([f"{_words(value)} at {at}" for at, value in wrong])
        return replace(line, problem=f"{shown}; rented: {line.wanted}")
    unsaid = [at for at, value in said if value is None]
    if unsaid or not said:
        where = f" of {text.listed(unsaid)}" if unsaid else ""
        problem = f"the driver does not tell it{where}"
        return replace(line, unknown=True, problem=problem, action=_LOOK)
    return line


def _right(part: GpuPart, value: object) -> bool:
    if isinstance(value, tuple):
        generation, width_max, width = value
        return bool(generation >= part.pcie_gen and min(width_max, width) >= part.pcie_width)
    if isinstance(value, int):
        return abs(value - part.memory_mib) <= part.memory_mib * _GPU_MEMORY_TOLERANCE
    return value == part.model


def _words(value: object) -> str:
    if value is None:
        return "not told"
    if isinstance(value, tuple):
        return f"Gen{value[0]} x{min(value[1:])}"
    return f"{value} MiB" if isinstance(value, int) else str(value)
