"""The judge of cached volumes: LVM on a slow disk with a fast one before it, known by UUID."""

from __future__ import annotations

from nodeprep.judge import text
from nodeprep.judge.arrays import MADE_ONCE, rule, same_uuid
from nodeprep.judge.finding import Finding, unknown
from nodeprep.judge.shapes import CachedVolumeData, LogicalVolume, PhysicalVolume
from nodeprep.model.claim import CachedVolume

LOGICAL = "data"  # the volume's name in its group
INACTIVE = "it is not active"


def wanted_cached_volume(claim: CachedVolume) -> str:
    return (
        f"/dev/{claim.name}/{LOGICAL}: {rule(claim.origin)} ({claim.origin_uuid}), {claim.mode}"
        f" cache {rule(claim.cache)} ({claim.cache_uuid})"
    )


def judge_cached_volume(claim: CachedVolume, data: CachedVolumeData) -> Finding:
    if not data.installed:
        return Finding("no LVM", ("LVM is not installed, so no volume is active",))
    if not is_known(claim, data):
        groups = sorted({one.group for one in data.physical if one.group})
        problem = f"no physical volume is {claim.origin_uuid} or {claim.cache_uuid}"
        return Finding(text.listed(groups) or "no volume group", (problem,))
    volume = _named(data, LOGICAL)
    read = _words(claim, data, volume)
    if volume is not None and (_state(volume) == "X" or _check_unread(volume)):
        return unknown("device-mapper did not tell its state", read=read)
    problems = problems_of(claim, data)
    return Finding(read, tuple(problems), action=_action(claim, data, problems))


def is_known(claim: CachedVolume, data: CachedVolumeData) -> bool:
    """Whether anything of it is there: a physical volume, or a group of its name."""
    return any(_ours(claim, one) or one.group == claim.name for one in data.physical)


def is_asleep(claim: CachedVolume, data: CachedVolumeData) -> bool:
    """Whether it is there as claimed, and only not active."""
    return data.installed and problems_of(claim, data) == [INACTIVE]


def problems_of(claim: CachedVolume, data: CachedVolumeData) -> list[str]:
    """Of one that is known."""
    if not any(_ours(claim, one) for one in data.physical):
        return [f"another volume group has its name: {claim.name}"]
    volume = _named(data, LOGICAL)
    problems = _physical(claim, data)
    if volume is None:
        return [*problems, f"{claim.name} has no volume {LOGICAL}: it was left half made"]
    return [*problems, *_shape(claim, data, volume), *_health(volume)]


def _ours(claim: CachedVolume, one: PhysicalVolume) -> bool:
    return same_uuid(one.uuid, claim.origin_uuid) or same_uuid(one.uuid, claim.cache_uuid)


def _of(uuid: str, data: CachedVolumeData) -> PhysicalVolume | None:
    return next((one for one in data.physical if same_uuid(one.uuid, uuid)), None)


def _named(data: CachedVolumeData, name: str) -> LogicalVolume | None:
    return next((one for one in data.logical if one.name == name), None)


def _state(volume: LogicalVolume) -> str:
    return volume.attr[4:5]


def _check_unread(volume: LogicalVolume) -> bool:
    return _state(volume) == "a" and volume.check == "unknown"


def _physical(claim: CachedVolume, data: CachedVolumeData) -> list[str]:
    problems = []
    for what, uuid in (("origin", claim.origin_uuid), ("cache", claim.cache_uuid)):
        one = _of(uuid, data)
        same = [other.device or "" for other in data.physical if same_uuid(other.uuid, uuid)]
        if len(same) > 1:
            names = text.listed(sorted(same))
            problems.append(f"{names} are one {what} disk to LVM: which is used is left to chance")
        elif one is None or one.missing:
            problems.append(f"its {what} disk is missing (physical volume {uuid})")
        elif one.group != claim.name:
            group = f"volume group {one.group}" if one.group else "no volume group"
            problems.append(f"its {what} disk {one.device} is of {group}, not of {claim.name}")
    return problems


def _shape(claim: CachedVolume, data: CachedVolumeData, volume: LogicalVolume) -> list[str]:
    if volume.segtype != "cache":
        return [f"it is {volume.segtype}, without a cache"]
    problems = []
    if volume.mode != claim.mode:
        problems.append(f"its mode is {volume.mode}, not {claim.mode}")
    layers = (
        ("origin", volume.origin, claim.origin_uuid),
        ("cache", volume.cache, claim.cache_uuid),
    )
    for what, name, uuid in layers:
        layer, disk = _named(data, name), _of(uuid, data)
        if disk is None or disk.missing:
            continue  # that was said
        if layer is None or layer.devices != [disk.device]:
            on = text.listed(layer.devices) if layer else "nothing that was read"
            problems.append(f"its {what} lies on {on}, not on physical volume {uuid}")
    return problems


def _health(volume: LogicalVolume) -> list[str]:
    problems = []
    if volume.check == "check needed" or _state(volume) in ("c", "C"):
        problems.append("the cache's metadata needs a check")
    elif _state(volume) != "a":
        inactive = _state(volume) == "-"
        problems.append(INACTIVE if inactive else f"its state is {volume.attr or 'not told'}")
    if volume.health or volume.attr[8:9] != "-":
        problems.append(f"its health is {volume.health or volume.attr or 'not told'}")
    return problems


def _action(claim: CachedVolume, data: CachedVolumeData, problems: list[str]) -> str:
    if not problems or problems == [INACTIVE]:
        return ""
    cache, origin = _of(claim.cache_uuid, data), _of(claim.origin_uuid, data)
    lost = (cache is None or cache.missing) and origin is not None and not origin.missing
    if lost and claim.mode == "writethrough":
        return (
            f"the origin has all data: `lvconvert --uncache {claim.name}/{LOGICAL}`, then a new"
            " cache as the README of role nvme_cache says"
        )
    return (
        f"look at `lvs -a -o +devices {claim.name}` and the kernel's log, then repair it by hand;"
        f" {MADE_ONCE}"
    )


def _words(claim: CachedVolume, data: CachedVolumeData, volume: LogicalVolume | None) -> str:
    disks = [one for one in data.physical if _ours(claim, one) or one.group == claim.name]
    on = text.listed([one.device or f"missing {one.uuid}" for one in disks])
    if volume is None:
        return f"{on}: no volume {LOGICAL}"
    mode = f" ({volume.mode})" if volume.mode else ""
    return f"{claim.name}/{LOGICAL} on {on}: {volume.segtype}{mode}, {volume.attr}"
