"""Which disk is which rented one: each disk counts once, whatever the order of their names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeprep.judge import text

if TYPE_CHECKING:
    from nodeprep.model.hardware import Disk
    from nodeprep.model.profile import DiskPart

NETWORK = frozenset({"iscsi", "fc", "fcoe", "tcp", "rdma", "loop"})  # not in the machine


@dataclass(frozen=True)
class DiskLine:
    name: str
    wanted: str
    read: str = ""
    problem: str = ""
    unknown: bool = False


def compare(parts: tuple[DiskPart, ...], disks: tuple[Disk, ...] | None) -> tuple[DiskLine, ...]:
    """One line per part of the profile, in its order."""
    names = _names(parts)
    if disks is None:
        return tuple(
            DiskLine(name, _wanted(part), unknown=True)
            for name, part in zip(names, parts, strict=True)
        )
    disks = _once(disks)
    sure = assign(parts, disks)
    maybe = assign(parts, disks, guess=True)
    taken = {number for numbers in sure for number in numbers}
    spare = [disks[number] for number in range(len(disks)) if number not in taken]
    return tuple(
        _line(name, part, [disks[n] for n in sure[i]], len(maybe[i]), spare)
        for i, (name, part) in enumerate(zip(names, parts, strict=True))
    )


def _once(disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    """A disk that is reached by two paths is one: both tell its serial and its WWN."""
    found: dict[object, Disk] = {}
    for number, disk in enumerate(disks):
        found.setdefault((disk.serial, disk.wwn) if disk.serial and disk.wwn else number, disk)
    return tuple(found.values())


def _names(parts: tuple[DiskPart, ...]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for part in parts:
        seen[part.use] += 1
        names.append(part.use if seen[part.use] == 1 else f"{part.use}-{seen[part.use]}")
    return names


def _line(
    name: str, part: DiskPart, found: list[Disk], possible: int, spare: list[Disk]
) -> DiskLine:
    read = text.listed([_words(disk) for disk in found]) or "none"
    if len(found) >= part.count:
        return DiskLine(name, _wanted(part), read)
    if possible >= part.count:
        why = "size or transport of a disk could not be read"
        return DiskLine(name, _wanted(part), read, why, unknown=True)
    others = f"; others there: {text.listed([_words(disk) for disk in spare])}" if spare else ""
    problem = f"{len(found)} of {_wanted(part)}{others}"
    return DiskLine(name, _wanted(part), read, problem)


def assign(
    parts: tuple[DiskPart, ...], disks: tuple[Disk, ...], *, guess: bool = False
) -> list[list[int]]:
    """The numbers of the disks that serve each part: as many as can be, by augmenting paths.

    `guess`: what could not be read of a disk is taken to fit.
    """
    slots = [i for i, part in enumerate(parts) for _ in range(part.count)]
    owner: dict[int, int] = {}  # disk -> slot

    def place(slot: int, tried: set[int]) -> bool:
        for number, disk in enumerate(disks):
            if number in tried or not _fits(parts[slots[slot]], disk, guess):
                continue
            tried.add(number)
            if number not in owner or place(owner[number], tried):
                owner[number] = slot
                return True
        return False

    for slot in range(len(slots)):
        place(slot, set())
    found: list[list[int]] = [[] for _ in parts]
    for number, slot in sorted(owner.items()):
        found[slots[slot]].append(number)
    return found


def _fits(part: DiskPart, disk: Disk, guess: bool) -> bool:
    if disk.transport is None and part.transport != "any":
        if not guess:
            return False
    elif part.transport not in ("any", disk.transport) or disk.transport in NETWORK:
        return False
    if disk.size_bytes is None:
        return guess
    wanted = part.size_gb * 1e9
    return abs(disk.size_bytes - wanted) <= wanted * part.tolerance


def _wanted(part: DiskPart) -> str:
    kind = "" if part.transport == "any" else f" {part.transport}"
    return f"{part.count}x {part.size_gb:g} GB{kind}"


def _words(disk: Disk) -> str:
    size = "?" if disk.size_bytes is None else f"{disk.size_bytes / 1e9:.0f}"
    serial = f", serial {disk.serial}" if disk.serial else ""
    return f"{disk.name} ({size} GB {disk.transport or '?'}{serial})"
