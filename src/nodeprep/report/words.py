"""The words of a result: short texts that the screen and the page share. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from nodeprep.model.hardware import Hardware
from nodeprep.model.lifecycle import State
from nodeprep.model.profile import Parts
from nodeprep.model.run import NodeResult
from nodeprep.model.verdict import Outcome, Verdict

GOOD_STATES = (State.ACCEPTED, State.JOINED)
BAD_STATES = (State.QUARANTINED, State.DRIFTED)
_KERNELS_SHARE = 0.9  # of the memory plugged in; less than this is worth a word


def headline(nodes: Sequence[NodeResult]) -> str:
    """The run in two sentences: who may work, and who may not."""
    good = [node for node in nodes if node.state in GOOD_STATES and not node.fault]
    out = [node.name for node in nodes if node.state in BAD_STATES or node.fault]
    if not nodes:
        return ""
    word = "joined" if all(node.state is State.JOINED for node in good) else "accepted"
    if len(good) == len(nodes):
        return f"All {len(nodes)} nodes are {word}." if len(nodes) > 1 else f"The node is {word}."
    text = f"{len(good)} of {len(nodes)} nodes {'is' if len(good) == 1 else 'are'} {word}."
    if not out:
        return text
    shown = ", ".join(out[:6]) + (f" and {len(out) - 6} more" if len(out) > 6 else "")
    return f"{text} Kept out: {shown}."


def is_gate(verdict: Verdict) -> bool:
    """Whether the verdict judges a measurement against a figure."""
    return verdict.gate is not None or verdict.value is not None


def gates(node: NodeResult) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in node.verdicts if is_gate(verdict))


def checks(verdicts: tuple[Verdict, ...]) -> str:
    """`57 of 58`, with what did not pass: `2 fail`, `1 unknown`."""
    if not verdicts:
        return "none"
    passed = sum(not verdict.verdict.blocks for verdict in verdicts)
    words = [f"{passed} of {len(verdicts)}"]
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WAIVED):
        count = sum(verdict.verdict is outcome for verdict in verdicts)
        if count:
            words.append(f"{count} {outcome}")
    return ", ".join(words)


def changed_roles(node: NodeResult) -> tuple[str, ...]:
    """Roles that changed something, in the order in which they did."""
    return tuple(dict.fromkeys(entry.split(":", 1)[0].strip() for entry in node.changed))


def why(node: NodeResult) -> str:
    """Why it is not further: the fault, the ledger's reason, or the first blocking verdict."""
    if node.fault is not None:
        return node.fault.message
    if node.why and node.state not in GOOD_STATES:
        return node.why
    if node.blocking:
        first, others = node.blocking[0], len(node.blocking) - 1
        return f"{first.claim}: {short(first)}" + (f" (and {others} more)" if others else "")
    return node.why


def short(verdict: Verdict) -> str:
    """Why a verdict is not a pass, in one line."""
    if verdict.reason:
        return verdict.reason
    return f"wanted {verdict.wanted or '?'}, read {verdict.read or 'nothing'}"


def figure(value: float | None, unit: str) -> str:
    """A measured figure: three to four significant digits and its unit."""
    if value is None:
        return "not measured"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    text = f"{value:,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {unit}".rstrip()


def margin(verdict: Verdict) -> str:
    """How far from the gate: `+11.4 %`, where lower is better `61.6 % under`; or empty."""
    if verdict.margin is None:
        return ""
    if verdict.detail.get("better") == "lower":
        return f"{abs(verdict.margin) * 100:.1f} % {'over' if verdict.margin > 0 else 'under'}"
    return f"{verdict.margin * 100:+.1f} %"


def notes(verdict: Verdict) -> tuple[str, ...]:
    """What a passed gate wants to be known all the same: past the warning, worse than before."""
    found = verdict.detail.get("notes", ())
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


def slow(verdict: Verdict) -> str:
    """How far a figure is behind those of the node's sisters; empty when it is not."""
    return str(verdict.detail.get("slow", ""))


def beside(verdict: Verdict) -> str:
    """What a figure can be compared with besides its gate: its sisters, its own past."""
    fleet, baseline = verdict.detail.get("fleet"), verdict.detail.get("baseline")
    said = []
    if isinstance(fleet, dict) and isinstance(fleet.get("median"), int | float):
        spread = fleet.get("mad")
        known = isinstance(spread, int | float)
        said.append(
            f"{fleet.get('nodes', '?')} sisters: median {figure(fleet['median'], verdict.unit)}"
            + (f", deviation {figure(spread, '')}" if known else "")
        )
    if isinstance(baseline, int | float):
        said.append(f"when last accepted {figure(baseline, verdict.unit)}")
    seconds = verdict.detail.get("seconds")
    if isinstance(seconds, int | float) and seconds >= 1:
        said.append(f"measured in {lasted(seconds)}")
    return "; ".join(said)


def when(at: dt.datetime | None) -> str:
    """A time for people, in UTC, to the minute."""
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC" if at else ""


def lasted(seconds: float) -> str:
    """`8 s`, `4 min 12 s`, `1 h 3 min`."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def size(count: int | None) -> str:
    """Bytes in the decimal units of disk vendors."""
    if count is None:
        return "?"
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


# Which line of the hardware table a claim `hardware/<kind>:<name>` is about.
HARDWARE_LINES = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disks",
    "nic": "NICs",
    "gpu": "GPUs",
    "nvswitch": "NVSwitches",
}


def wrong_parts(node: NodeResult) -> dict[str, Outcome]:
    """The lines of the hardware table that are not as rented, or not known to be; fail wins."""
    wrong: dict[str, Outcome] = {}
    for verdict in node.blocking:
        room, _, rest = verdict.claim.partition("/")
        line = HARDWARE_LINES.get(rest.partition(":")[0])
        if room == "hardware" and line and wrong.get(line) is not Outcome.FAIL:
            wrong[line] = verdict.verdict
    return wrong


def rented(parts: Parts) -> dict[str, str]:
    """What the profile says was rented, a line a part."""
    lines: dict[str, str] = {}
    if parts.cpu:
        cpu = parts.cpu
        lines["CPU"] = f"{cpu.sockets} x {cpu.cores_per_socket} cores {cpu.model}".rstrip()
    if parts.memory:
        dimms = f" in {parts.memory.dimms} DIMMs" if parts.memory.dimms else ""
        lines["memory"] = f"{parts.memory.total_gib:g} GiB{dimms}"
    if parts.disks:
        lines["disks"] = ", ".join(
            f"{d.count} x {d.size_gb:g} GB {d.transport} ({d.use})" for d in parts.disks
        )
    if parts.nics:
        lines["NICs"] = ", ".join(f"{n.name} {n.speed_mbps / 1000:g} Gb/s" for n in parts.nics)
    if parts.gpus:
        gpus = parts.gpus
        lines["GPUs"] = f"{gpus.count} x {gpus.model}"
        lines["NVSwitches"] = str(gpus.nvswitches)
    return lines


def standing(hardware: Hardware) -> dict[str, str]:
    """What stands in the node, a line a part; `not read` where no tool said."""
    cpu = hardware.cpu
    lines = {
        "CPU": f"{_or(cpu.sockets)} x {_or(cpu.cores_per_socket)} cores {cpu.model or ''}".rstrip()
        if cpu
        else _unread(hardware, "cpu"),
        "memory": _memory(hardware),
        "disks": ", ".join(
            f"{d.name} {size(d.size_bytes)} {d.transport or '?'}" for d in hardware.disks
        )
        if hardware.disks is not None
        else _unread(hardware, "disks"),
        "NICs": ", ".join(
            f"{n.name} {f'{n.speed_mbps / 1000:g} Gb/s' if n.speed_mbps else 'speed unknown'}"
            for n in hardware.nics
        )
        if hardware.nics is not None
        else _unread(hardware, "nics"),
        "GPUs": _gpus(hardware),
        "NVSwitches": str(len(hardware.nvswitches))
        if hardware.nvswitches is not None
        else _unread(hardware, "nvswitches"),
        "board": " ".join(
            filter(None, (hardware.board_vendor, hardware.board_model, hardware.board_serial))
        )
        or _unread(hardware, "board"),
        "BIOS": hardware.bios_version or _unread(hardware, "bios"),
    }
    return {part: line or "none" for part, line in lines.items()}


def _memory(hardware: Hardware) -> str:
    """The sum of the modules where they are known, else what the kernel has.

    The kernel keeps some percent for itself. Where it has much less than what is plugged in,
    both are told, unless the modules are a stand-in's.
    """
    sizes = [dimm.size_mib for dimm in hardware.dimms or () if dimm.size_mib]
    kernel = hardware.memory_kib / 1024**2 if hardware.memory_kib else None
    if not sizes:
        return f"{kernel:.0f} GiB" if kernel else _unread(hardware, "memory")
    plugged = sum(sizes) / 1024
    text = f"{plugged:g} GiB in {len(sizes)} DIMMs"
    if kernel and kernel < _KERNELS_SHARE * plugged and "dimms" not in hardware.simulated:
        text += f", the kernel has {kernel:.0f} GiB"
    return text


def _gpus(hardware: Hardware) -> str:
    if hardware.gpus is None:
        return _unread(hardware, "gpus")
    models: dict[str, int] = {}
    for gpu in hardware.gpus:
        name = gpu.model or gpu.pci_id or "?"
        models[name] = models.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in models.items())


def _unread(hardware: Hardware, part: str) -> str:
    error = hardware.errors.get(part, "")
    return "not read" + (f": {error}" if error else "")


def _or(value: object) -> str:
    return "?" if value is None else str(value)
