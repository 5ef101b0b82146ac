"""Which disks a claim may take. Pure; when in doubt it takes none and says why.

A disk is taken only when it is told apart from every other one, nothing is on it and nobody has it
open; what lies on it may be erased only where the inventory lists its serial, and never when it is
mounted, swapped to, or part of something. `roles/claims/filter_plugins/disks.py` has the same
rules for plain ansible-playbook; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeprep.judge import text
from nodeprep.judge.arrays import rule as in_words
from nodeprep.judge.arrays import same_uuid
from nodeprep.judge.disks import NETWORK
from nodeprep.model.plan import DiskRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodeprep.model.claim import CachedVolume, DiskRule
    from nodeprep.model.hardware import Disk

# All that may be erased where the inventory says so. Whatever else is said of a disk keeps it.
ERASABLE = ("signature ", "partition table ", "part ")
# Links of udev that follow a disk's content, not the disk.
_CONTENT = ("lvm-pv-", "md-", "dm-")
# Not told, plugged in by somebody, or lent by another machine, which may lend it to others too.
_OTHERS = NETWORK | {None, "usb"}
_SYSTEM = frozenset(f"mounted at {p}" for p in ("/", "/boot", "/boot/efi", "/usr", "/var", "/home"))


@dataclass(frozen=True)
class Choice:
    """`disks` that may be written, or the `refusals`, one for each disk or rule that forbids it.

    present  the disks carry this very array or volume already: nothing is to be written
    """

    disks: tuple[Disk, ...] = ()
    refusals: tuple[str, ...] = ()
    present: bool = False


def choose(
    rule: DiskRule, wipe: Sequence[str], disks: Sequence[Disk] | None, *, uuid: str = ""
) -> Choice:
    """The disks for `rule` among all of the node's `disks`.

    uuid  of the array that is wanted, or of the physical volume
    """
    if disks is None:
        return Choice(refusals=("the disks could not be read",))
    members = [disk for disk in disks if _carries(disk, uuid)]
    if members:
        return _members(rule, members, disks)
    if rule.ids:
        return _named(rule, wipe, disks)
    fitting = [disk for disk in disks if _fits(rule, disk)]
    objections = [(disk, objection(disk, disks, wipe)) for disk in fitting]
    free = [disk for disk, why in objections if not why]
    if len(free) < rule.count:
        unclear = [(d, "its size or transport was not read") for d in disks if _may_fit(rule, d)]
        said = [f"{words(disk)}: {why}" for disk, why in (*objections, *unclear) if why]
        head = f"{len(free)} of {in_words(rule)} may be written"
        return Choice(refusals=(head, *said))
    if len(free) > rule.count and len({(disk.model, disk.size_bytes) for disk in free}) > 1:
        head = f"{len(free)} disks fit {in_words(rule)} and are not alike: list the `ids`"
        return Choice(refusals=(head, *map(words, free)))
    free.sort(key=lambda disk: (bool(disk.in_use), stable_id(disk)))
    return Choice(disks=tuple(free[: rule.count]))


def choose_pair(claim: CachedVolume, disks: Sequence[Disk] | None) -> Choice:
    """The disks of a cached volume: the origin's, then the cache's, which is another one."""
    uuids = (claim.origin_uuid, claim.cache_uuid)
    here = [disk for disk in disks or () if any(_carries(disk, uuid) for uuid in uuids)]
    origin = choose(claim.origin, claim.wipe, disks, uuid=claim.origin_uuid)
    rest = disks and [disk for disk in disks if disk not in origin.disks]
    cache = choose(claim.cache, claim.wipe, rest, uuid=claim.cache_uuid)
    if here and not (origin.present and cache.present):
        head = f"{len(here)} of its 2 disks are here, and they are no whole volume"
        return Choice(refusals=(head, *map(words, here)))
    refusals = dict.fromkeys((*origin.refusals, *cache.refusals))
    if refusals:
        return Choice(refusals=tuple(refusals))
    return Choice(disks=(*origin.disks, *cache.disks), present=origin.present)


def _carries(disk: Disk, uuid: str) -> bool:
    return any(same_uuid(uuid, one) for one in (*disk.arrays, *disk.physical_volumes))


def _members(rule: DiskRule, members: list[Disk], disks: Sequence[Disk]) -> Choice:
    told_apart = not any(_unclear(disk, disks) for disk in members)
    if len(members) == rule.count and told_apart:
        return Choice(disks=tuple(sorted(members, key=stable_id)), present=True)
    head = f"{len(members)} of its {rule.count} members are here, and it does not run"
    return Choice(refusals=(head, *map(words, members)))


def _named(rule: DiskRule, wipe: Sequence[str], disks: Sequence[Disk]) -> Choice:
    found: list[Disk] = []
    refusals = []
    for name in rule.ids:
        behind = [disk for disk in disks if name in (*disk.ids, disk.serial, disk.wwn)]
        if len(behind) != 1:
            several = text.listed([disk.name for disk in behind])
            refusals.append(f"{name} names {several}" if behind else f"no disk is named {name}")
            continue
        disk = behind[0]
        why = "named twice" if disk in found else objection(disk, disks, wipe)
        if not why and rule.size_gb is not None and not _fits(rule, disk):
            why = f"not {rule.size_gb:g} GB {rule.transport}"
        found.append(disk)
        if why:
            refusals.append(f"{words(disk)}: {why}")
    return Choice(refusals=tuple(refusals)) if refusals else Choice(disks=tuple(found))


def objection(disk: Disk, others: Sequence[Disk], wipe: Sequence[str]) -> str:
    """Why `disk` must not be written; empty when it may be."""
    unclear = _unclear(disk, others)
    if unclear:
        return unclear
    if not disk.size_bytes:
        return "its size was not read"
    if _SYSTEM & set(disk.in_use):
        return f"the operating system is on it ({text.listed(list(disk.in_use))})"
    kept = [use for use in disk.in_use if not use.startswith(ERASABLE)]
    if kept:
        return text.listed(kept)
    listed = disk.serial is not None and disk.serial in wipe
    return "" if listed else text.listed(list(disk.in_use))


def _unclear(disk: Disk, others: Sequence[Disk]) -> str:
    """Why it cannot be told from every other disk, wherever it is plugged in."""
    if not stable_id(disk):
        return "it has no name under /dev/disk/by-id"
    if not disk.serial and not disk.wwn:
        return "it has neither serial nor WWN"
    twin = next((other for other in others if other is not disk and _alike(disk, other)), None)
    if twin is not None:
        return f"{twin.name} has the same serial, WWN or id"
    return ""


def _alike(disk: Disk, other: Disk) -> bool:
    return bool(
        (disk.serial and disk.serial == other.serial)
        or (disk.wwn and disk.wwn == other.wwn)
        or set(disk.ids) & set(other.ids)
    )


def _fits(rule: DiskRule, disk: Disk) -> bool:
    right = rule.transport in ("any", disk.transport)
    return right and disk.transport not in _OTHERS and _right_size(rule, disk)


def _right_size(rule: DiskRule, disk: Disk) -> bool:
    if rule.size_gb is None or not disk.size_bytes:
        return False
    wanted = rule.size_gb * 1e9
    return abs(disk.size_bytes - wanted) <= wanted * rule.tolerance


def _may_fit(rule: DiskRule, disk: Disk) -> bool:
    """What was not read of it might fit."""
    if disk.transport is not None and rule.transport not in ("any", disk.transport):
        return False
    unread = disk.transport is None or not disk.size_bytes
    return unread and (not disk.size_bytes or _right_size(rule, disk))


def stable_id(disk: Disk) -> str:
    """Its name under /dev/disk/by-id, one with the serial before others; empty: it has none."""
    names = [name for name in disk.ids if not name.startswith(_CONTENT)]
    return min(names, key=lambda name: ((disk.serial or "\0") not in name, name), default="")


def reference(disk: Disk) -> DiskRef:
    """How Ansible is told of a disk that may be written."""
    return DiskRef(
        id=stable_id(disk), serial=disk.serial, wwn=disk.wwn, size_bytes=disk.size_bytes or 0
    )


def words(disk: Disk) -> str:
    size = f"{disk.size_bytes / 1e9:.4g} GB" if disk.size_bytes else "size unknown"
    name = stable_id(disk) or disk.name
    serial = f", serial {disk.serial}" if disk.serial else ""
    return f"{name} ({disk.name}, {size}{serial})"
