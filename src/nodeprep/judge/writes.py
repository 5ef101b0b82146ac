"""What converging would write to disks, and why it may not: decided before a node is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodeprep.judge import arrays, text
from nodeprep.judge.choice import Choice, choose, reference, words
from nodeprep.judge.shapes import ArrayData, FilesystemData
from nodeprep.model.claim import Array, Filesystem
from nodeprep.model.plan import DiskWrite
from nodeprep.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodeprep.model.hardware import Disk
    from nodeprep.model.node import Document
    from nodeprep.model.reading import NodeReading
    from nodeprep.model.verdict import Verdict


@dataclass
class Writes:
    """`lines` are `todo` in words, a line a disk; `refusals` stop the node as a whole."""

    todo: list[DiskWrite] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def writes(document: Document, verdicts: Iterable[Verdict], reading: NodeReading) -> Writes:
    """Of every array and filesystem that is claimed and not there.

    One that is there and not as claimed is left alone: its verdict says so, its role refuses it.
    """
    outcomes = {verdict.claim: verdict.verdict for verdict in verdicts}
    hardware = reading.hardware
    free = hardware.disks if hardware else None
    plan = Writes()
    for claim in document.claims:
        if not isinstance(claim, Array | Filesystem):
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
        else:
            free = _filesystem(plan, claim, reading, free)
    return plan


def _called(claim: Array | Filesystem) -> str:
    return f"{claim.kind} {claim.name}"


def _array(
    plan: Writes, claim: Array, reading: NodeReading, free: tuple[Disk, ...] | None
) -> tuple[Disk, ...] | None:
    data = ArrayData.model_validate(reading.readings[claim.id].data)
    if arrays.find(claim, data) or any(claim.name in one.names for one in data.arrays):
        return free
    choice = choose(claim.disks, claim.wipe, free, uuid=claim.uuid)
    write = DiskWrite(claim=claim.id, action="assemble" if choice.present else "create")
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
    if data.array is None and not any(_is_of(claim, other) for other in plan.todo):
        _refuse(plan, claim, f"array {claim.array} is not there, and is not made either")
    elif data.array_in_use:
        on_it = text.listed(data.array_in_use)
        _refuse(plan, claim, f"array {claim.array} carries what provision did not make: {on_it}")
    else:
        plan.todo.append(write)
        plan.lines.append(f"array {claim.array}: {claim.fstype} for {claim.name}, where none is")
    return free


def _is_of(claim: Filesystem, write: DiskWrite) -> bool:
    return write.claim.endswith(f"/array:{claim.array}")


def _take(
    plan: Writes,
    claim: Array | Filesystem,
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
        plan.lines += [_line(claim, disk) for disk in choice.disks]
    return tuple(disk for disk in free or () if disk not in choice.disks)


def _line(claim: Array | Filesystem, disk: Disk) -> str:
    of = f"raid{claim.level} {claim.name}" if isinstance(claim, Array) else f"xfs of {claim.name}"
    erased = f", ERASING {text.listed(list(disk.in_use))}" if disk.in_use else ""
    return f"{words(disk)} for {of}{erased}"


def _refuse(plan: Writes, claim: Array | Filesystem, why: str) -> None:
    plan.refusals.append(f"{_called(claim)}: {why}")
