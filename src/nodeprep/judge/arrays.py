"""The judges of arrays and of filesystems: known by UUID, whole, as they were made."""

from __future__ import annotations

from nodeprep.judge import text
from nodeprep.judge.finding import Finding
from nodeprep.judge.shapes import ArrayData, FilesystemData, MdArray
from nodeprep.model.claim import Array, DiskRule, Filesystem

_WHOLE = frozenset({"clean", "active", "active-idle", "write-pending", "read-auto"})
MADE_ONCE = "provision never makes it again, for there may be data on it"


def same_uuid(one: str | None, other: str | None) -> bool:
    """Whether two spellings are one UUID: mdadm puts colons where blkid puts dashes."""
    return bool(one and other) and _digits(one) == _digits(other)


def _digits(uuid: str | None) -> str:
    return (uuid or "").replace(":", "").replace("-", "").lower()


def wanted_array(claim: Array) -> str:
    chunk = f", chunks of {claim.chunk_kib} KiB" if claim.chunk_kib else ""
    return f"/dev/md/{claim.name}: raid{claim.level} of {rule(claim.disks)}{chunk}, {claim.uuid}"


def rule(disks: DiskRule) -> str:
    """A rule in words."""
    if disks.ids:
        return text.listed(list(disks.ids))
    kind = "" if disks.transport == "any" else f" {disks.transport}"
    return f"{disks.count}x {disks.size_gb:g} GB{kind}"


def find(claim: Array, data: ArrayData) -> MdArray | None:
    """The claim's array, whatever its name is at the moment."""
    return next((one for one in data.arrays if same_uuid(one.uuid, claim.uuid)), None)


def judge_array(claim: Array, data: ArrayData) -> Finding:
    ours = find(claim, data)
    named = next((one for one in data.arrays if claim.name in one.names), None)
    if ours is None:
        return _not_there(claim, named, data)
    problems = [*_shape(claim, ours), *_health(ours)]
    if named is not ours:
        problems.append(f"it runs as {ours.device}, /dev/md/{claim.name} is not it")
    return Finding(_words(ours), tuple(problems), action=_action(problems))


def _not_there(claim: Array, named: MdArray | None, data: ArrayData) -> Finding:
    unread = [one.device for one in data.arrays if one.uuid is None]
    if unread:
        reason = f"the UUID of {text.listed(unread)} could not be read"
        return Finding(text.listed(unread), (reason,), unknown=True)
    if named is not None:
        problem = f"another array has its name: {named.device}, UUID {named.uuid}"
        action = f"somebody made it anew: {MADE_ONCE}; save its data, then stop and wipe it"
        return Finding(_words(named), (problem,), action=action)
    others = text.listed([_words(one) for one in data.arrays])
    return Finding(others or "no array", (f"there is no array of UUID {claim.uuid}",))


def _shape(claim: Array, ours: MdArray) -> list[str]:
    compared = (
        ("its level", ours.level, f"raid{claim.level}"),
        ("its number of members", ours.raid_disks, claim.disks.count),
        ("its chunk in KiB", ours.chunk_kib or None, claim.chunk_kib),
    )
    return [f"{what} is {read}, not {want}" for what, read, want in compared if read != want]


def _health(ours: MdArray) -> list[str]:
    problems = []
    if ours.faulty:
        problems.append(f"failed: {text.listed(ours.faulty)}")
    if ours.degraded:
        problems.append(f"degraded: {text.plural(ours.degraded, 'member')} missing")
    if ours.sync in ("recover", "reshape"):
        problems.append(f"a {ours.sync} is under way")
    if ours.state not in _WHOLE:
        problems.append(f"its state is {ours.state or 'not told'}")
    return problems


def _action(problems: list[str]) -> str:
    if not problems:
        return ""
    return (
        f"look at /proc/mdstat and the kernel's log, then repair it by hand; {MADE_ONCE}, and a"
        " name that was lost comes back at the next boot"
    )


def _words(array: MdArray) -> str:
    names = ", ".join(array.names) or "no name"
    parts = [f"{array.device} ({names}): {array.level} of {text.listed(array.members)}"]
    if array.chunk_kib:
        parts.append(f"chunks of {array.chunk_kib} KiB")
    parts += [part for part in (array.state, array.sync) if part and part != "idle"]
    return ", ".join(parts)


def wanted_filesystem(claim: Filesystem) -> str:
    place = claim.below if claim.disks is None else rule(claim.disks)
    return f"{claim.fstype} of UUID {claim.uuid} on {place}"


def judge_filesystem(claim: Filesystem, data: FilesystemData) -> Finding:
    read = text.listed([f"{one.fstype} on {one.name}" for one in data.devices])
    if not data.devices:
        return Finding("none", (f"no device carries a filesystem of UUID {claim.uuid}",))
    if len(data.devices) > 1:
        names = text.listed([one.name for one in data.devices])
        problem = f"{names} carry one UUID: which of them is mounted is left to chance"
        return Finding(read, (problem,), action="take the copy out, or give it a UUID of its own")
    device = data.devices[0]
    problems = []
    if device.fstype != claim.fstype:
        problems.append(f"it is {device.fstype}, not {claim.fstype}")
    if claim.disks is None and device.name != data.below:
        problems.append(f"it lies on {device.name}, not on {claim.below}")
    if claim.disks is not None and device.type != "disk":
        problems.append(f"it lies on {device.name}, which is a {device.type}, not a whole disk")
    named = claim.disks.ids if claim.disks is not None else ()
    if named and not set(named) & set(device.ids):
        problems.append(f"it lies on {device.name}, which is not {text.listed(list(named))}")
    return Finding(read, tuple(problems), action=MADE_ONCE.capitalize() if problems else "")
