"""What converging would write to disks, and why it may not: decided before a node is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodeprep.judge import arrays, text, volumes
from nodeprep.judge.choice import Choice, choose, choose_pair, reference, words
from nodeprep.judge.shapes import ArrayData, CachedVolumeData, FilesystemData
from nodeprep.model.claim import Array, CachedVolume, Filesystem
from nodeprep.model.plan import DiskWrite
from nodeprep.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodeprep.model.hardware import Disk
    from nodeprep.model.node import Document
    from nodeprep.model.reading import NodeReading
    from nodeprep.model.verdict import Verdict

_OnDisks = Array | CachedVolume | Filesystem


@dataclass
class Writes:
    """`lines` are `todo` in words, a line a disk; `refusals` stop the node as a whole."""

    todo: list[DiskWrite] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def writes(document: Document, verdicts: Iterable[Verdict], reading: NodeReading) -> Writes:
    """Of every array, cached volume and filesystem that is claimed and not there.

    One that is there and not as claimed is left alone: its verdict says so, its role refuses it.
    """
    outcomes = {verdict.claim: verdict.verdict for verdict in verdicts}
    hardware = reading.hardware
    free = hardware.disks if hardware else None
    plan = Writes()
    for claim in document.claims:
        if not isinstance(claim, _OnDisks):
            continue
        outcome = outcomes.get(claim.id, Outcome.UNKNOWN)
        if not outcome.blocks:
            continue
        if outcome is Outcome.UNKNOWN:
            plan.refusals.append(
                f"{_called(claim)}: whether it is there could not be told, so nothing is written"
            )
        elif isinstance(claim, Array):
            free = _array(plan, claim, reading, free)
        elif isinstance(claim, CachedVolume):
            free = _volume(plan, claim, reading, free)
        else:
            free = _filesystem(plan, claim, reading, free)
    return plan


def _called(claim: _OnDisks) -> str:
    return f"{claim.kind.replace('_', ' ')} {claim.name}"


def _array(
    plan: Writes, claim: Array, reading: NodeReading, free: tuple[Disk, ...] | None
) -> tuple[Disk, ...] | None:
    data = ArrayData.model_validate(reading.readings[claim.id].data)
    if arrays.find(claim, data) or any(claim.name in one.names for one in data.arrays):
        return free
    choice = choose(claim.disks, claim.wipe, free, uuid=claim.uuid)
    write = DiskWrite(claim=claim.id, action="assemble" if choice.present else "create")
    return _take(plan, claim, choice, free, write)


def _volume(
    plan: Writes, claim: CachedVolume, reading: NodeReading, free: tuple[Disk, ...] | None
) -> tuple[Disk, ...] | None:
    data = CachedVolumeData.model_validate(reading.readings[claim.id].data)
    asleep = volumes.is_asleep(claim, data)
    if volumes.is_known(claim, data) and not asleep:
        return free
    choice = choose_pair(claim, free)
    if asleep and not choice.present:
        choice = Choice(refusals=("LVM knows it, and its two disks were not found",))
    write = DiskWrite(claim=claim.id, action="activate" if choice.present else "cache")
    return _take(plan, claim, choice, free, write)


def _filesystem(
    plan: Writes, claim: Filesystem, reading: NodeReading, free: tuple[Disk, ...] | None
) -> tuple[Disk, ...] | None:
    data = FilesystemData.model_validate(reading.readings[claim.id].data)
    if data.devices:
        return free
    write = DiskWrite(claim=claim.id, action="format")
    if claim.disks is not None:
        return _take(plan, claim, choose(claim.disks, claim.wipe, free), free, write)
    if data.below is None and not any(_is_of(claim, other) for other in plan.todo):
        _refuse(plan, claim, f"{claim.below} is not there, and is not made either")
    elif data.below_in_use:
        on_it = text.listed(data.below_in_use)
        _refuse(plan, claim, f"{claim.below} carries what provision did not make: {on_it}")
    else:
        plan.todo.append(write)
        plan.lines.append(f"{claim.below}: {claim.fstype} for {claim.name}, where none is")
    return free


def _is_of(claim: Filesystem, write: DiskWrite) -> bool:
    return write.claim.endswith((f"/array:{claim.array}", f"/cached_volume:{claim.volume}"))


def _take(
    plan: Writes,
    claim: _OnDisks,
    choice: Choice,
    free: tuple[Disk, ...] | None,
    write: DiskWrite,
) -> tuple[Disk, ...] | None:
    """Note the choice; what is left of the free disks."""
    if choice.refusals:
        _refuse(plan, claim, "; ".join(choice.refusals))
        return free
    refs = tuple(reference(disk) for disk in choice.disks)
    plan.todo.append(write.model_copy(update={"disks": refs}))
    if not choice.present:
        plan.lines += [_line(claim, disk, n) for n, disk in enumerate(choice.disks)]
    return tuple(disk for disk in free or () if disk not in choice.disks)


def _line(claim: _OnDisks, disk: Disk, number: int) -> str:
    of = f"xfs of {claim.name}"
    if isinstance(claim, Array):
        of = f"raid{claim.level} {claim.name}"
    elif isinstance(claim, CachedVolume):
        of = f"{claim.mode} cache of volume {claim.name}" if number else f"volume {claim.name}"
    erased = f", ERASING {text.listed(list(disk.in_use))}" if disk.in_use else ""
    return f"{words(disk)} for {of}{erased}"


def _refuse(plan: Writes, claim: _OnDisks, why: str) -> None:
    plan.refusals.append(f"{_called(claim)}: {why}")
