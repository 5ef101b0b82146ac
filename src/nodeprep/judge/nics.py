"""Judges of network interfaces: their settings, and where their queues interrupt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from nodeprep.judge import text
from nodeprep.judge.finding import Finding, unknown
from nodeprep.judge.shapes import InterruptsData, NicData, NicSetting, QueueInterrupt
from nodeprep.model.claim import Interrupts, Nic

Value = bool | int

# --- settings ------------------------------------------------------------------------------------


def wanted_nic(claim: Nic) -> str:
    return ", ".join(f"{_called(name)} {text.switch(v)}" for name, v in claim.settings.items())


def _called(name: str) -> str:
    """`ring rx` of `rings.rx`; features and the rest speak for themselves."""
    group, _, word = name.partition(".")
    return {"channels": f"{word} queues", "rings": f"ring {word}", "pause": f"pause {word}"}.get(
        group, word or name
    )


@dataclass(frozen=True)
class _Compared:
    """What became of one setting: `read` in words, and why it does not hold, is not known, …"""

    read: str
    problem: str = ""
    unknown: str = ""
    not_offered: str = ""


def judge_nic(claim: Nic, data: NicData) -> Finding:
    if not data.exists:
        return Finding("no such interface", (f"there is no interface {claim.name}",))
    compared = [_compare(name, wanted, data) for name, wanted in claim.settings.items()]
    read = ", ".join(one.read for one in compared)
    problems = [one.problem for one in compared if one.problem]
    unsaid = [one.unknown for one in compared if one.unknown]
    missing = [one.not_offered for one in compared if one.not_offered]
    if missing and not claim.where_offered:
        problems += missing
    if problems:
        return Finding(read, tuple(problems))
    if unsaid:
        return unknown("; ".join(unsaid), read=read)
    if len(missing) == len(compared):
        return unknown(
            f"nothing of it can be set: {'; '.join(missing)}",
            read=read,
            action="take out of nic_tuning's variables what this class of machine cannot do",
        )
    return Finding(read)


def _compare(name: str, wanted: Value | str, data: NicData) -> _Compared:
    called, group = _called(name), name.partition(".")[0]
    driver = data.driver or "the driver"
    if group in data.errors:
        return _Compared(f"{called} ?", unknown=f"{called}: {data.errors[group]}")
    if group in data.not_supported:
        lack = f"{driver} does not offer {called} (operation not supported)"
        return _Compared(f"{called} cannot be set by {driver}", not_offered=lack)
    setting = data.settings.get(name)
    if setting is None:
        return _Compared(f"{called} ?", unknown=f"ethtool does not tell of {called}")
    if not setting.offered:
        shown = "n/a" if setting.now is None else f"fixed {text.switch(setting.now)}"
        if _is(setting.now, wanted):
            return _Compared(f"{called} {shown}")
        lack = f"{driver} does not offer {called} ({shown})"
        return _Compared(f"{called} {shown}, cannot be set by {driver}", not_offered=lack)
    return _value(called, wanted, setting, data)


def _value(called: str, wanted: Value | str, setting: NicSetting, data: NicData) -> _Compared:
    most = "" if setting.max is None else f" of {setting.max}"
    if setting.now is None:
        return _Compared(f"{called} ?", unknown=f"{called} shows no value")
    read = f"{called} {text.switch(setting.now)}{most}"
    aim = _aim(called, wanted, setting, data)
    if aim is None:
        return _Compared(read, unknown=f"{called}: how many are offered is not told")
    if isinstance(aim, bool) is not isinstance(setting.now, bool):
        return _Compared(read, unknown=f"{called} is {setting.now!r}, where {aim!r} was claimed")
    if setting.max is not None and aim > setting.max:
        return _Compared(read, f"{called}: {aim} is claimed, the driver offers {setting.max}")
    if setting.now != aim:
        said = text.switch(aim) + (" (max)" if wanted == "max" else "")
        return _Compared(read, f"{called}: {text.switch(setting.now)}, not {said}")
    return _Compared(read)


def _aim(called: str, wanted: Value | str, setting: NicSetting, data: NicData) -> Value | None:
    """`max` as a number: what the driver offers; of queues one for each local core at most."""
    if not isinstance(wanted, str):
        return wanted
    if not called.endswith(" queues"):
        return setting.max
    if setting.max is None or not data.cores or data.cores < 1:
        return None
    return min(setting.max, data.cores)


def _is(now: Value | None, wanted: Value | str) -> bool:
    return now is not None and type(now) is type(wanted) and now == wanted


# --- interrupts ----------------------------------------------------------------------------------


def wanted_interrupts(claim: Interrupts) -> str:
    xps = ", XPS likewise" if claim.xps else ""
    return f"each queue on a core of its own NUMA node, spread evenly{xps}"


def judge_interrupts(claim: Interrupts, data: InterruptsData) -> Finding:
    if not data.exists:
        return Finding("no such interface", (f"there is no interface {claim.name}",))
    if not data.queues:
        names = text.listed(data.others) or "none"
        return unknown(f"no interrupt is known as a queue's (interrupts: {names})")
    core_of = {cpu: number for number, core in enumerate(data.cores) for cpu in core}
    if not core_of:
        return unknown("the CPUs of its NUMA node are not known")
    problems = [why for one in data.queues if (why := _misplaced(one, core_of, data.numa_node))]
    if not problems:
        problems = _uneven(data.queues, core_of, len(data.cores))
    unsaid = ""
    if claim.xps and not problems:
        problems, unsaid = _xps(data)
    read = _placed(data)
    if unsaid and not problems:
        return unknown(unsaid, read=read)
    return Finding(read, tuple(problems))


def _misplaced(one: QueueInterrupt, core_of: dict[int, int], node: int | None) -> str:
    called = f"interrupt {one.irq} ({one.name})"
    if not one.cpus:
        return f"{called} has no CPU"
    if len(one.cpus) > 1:
        return f"{called} may go to {text.plural(len(one.cpus), 'CPU')}"
    if one.cpus[0] not in core_of:
        where = "the machine's CPUs" if node is None else f"NUMA node {node}"
        return f"{called} goes to CPU {one.cpus[0]}, outside {where}"
    return ""


def _uneven(queues: list[QueueInterrupt], core_of: dict[int, int], cores: int) -> list[str]:
    """Queues of one direction: no core has two more than another."""
    for way in ("rx", "tx", "both"):
        counts = Counter(core_of[one.cpus[0]] for one in queues if one.way == way)
        if not counts:
            continue
        least = 0 if len(counts) < cores else min(counts.values())
        if max(counts.values()) - least > 1:
            return [f"one core has {max(counts.values())} of its queues, another {least}"]
    return []


def _xps(data: InterruptsData) -> tuple[list[str], str]:
    """What is wrong with XPS, or why it cannot be told."""
    placed = {one.index: one.cpus[0] for one in data.queues if one.way != "tx"}
    placed.update({one.index: one.cpus[0] for one in data.queues if one.way != "rx"})
    order = [placed[index] for index in sorted(placed)]
    if data.xps in ([None], []):
        return [], "" if data.xps else "no queue to send from is shown"
    problems = []
    for number, cpus in enumerate(data.xps):
        if cpus is None:
            return [], f"XPS of queue {number} cannot be read"
        aim = order[number % len(order)]
        if cpus != [aim]:
            shown = ",".join(map(str, cpus)) or "none"
            problems.append(f"XPS of queue {number} is CPU {shown}, its interrupt's is {aim}")
    return problems, ""


def _placed(data: InterruptsData) -> str:
    where = ", ".join(
        f"{one.name} on {','.join(map(str, one.cpus)) or 'none'}" for one in data.queues[:8]
    )
    more = f" and {len(data.queues) - 8} more" if len(data.queues) > 8 else ""
    node = "" if data.numa_node is None else f", NUMA node {data.numa_node}"
    xps = ", no XPS: one queue" if data.xps == [None] else ""
    return f"{where}{more}{node}{xps}"
