"""Filters of the role nvme_cache: the claims of a volume. Pure, for Ansible and nodeprep."""

from __future__ import annotations

import itertools
import re
import uuid
from typing import Any

Data = dict[str, Any]
KEYS = {"path", "use", "disks", "level", "array", "cache", "group", "wipe"}
CACHE_KEYS = {"use", "disks", "mode"}
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "nodeprep")

# Wanted by the device too: one that comes after the boot gave up on it is mounted all the same.
MOUNT = """\
# Written by Ansible, role nvme_cache.
[Unit]
Description=Training data on local disks, at {path}

[Mount]
What=/dev/disk/by-uuid/{uuid}
Where={path}
Type=xfs
Options={options}

[Install]
WantedBy=local-fs.target {device}
"""
# What fstab's x-systemd.device-timeout does: a boot goes on without a disk that is not there.
DEVICE = """\
# Written by Ansible, role nvme_cache.
[Unit]
JobRunningTimeoutSec={timeout_s}
"""


def planned(volumes: list[Data], profile: Data, host: str, site: str) -> list[Data]:
    """The volumes with their disks and UUIDs: path, level, array, array_uuid, uuid, disks, wipe.

    Of one with a cache also group, cache (its disk), mode, origin_uuid and cache_uuid. UUIDs follow
    from site, node and place alone, so that they are known before anything is made: an array or a
    filesystem that somebody made anew has another one.
    """
    found = [_planned(volume, profile, f"{site}/{host}") for volume in volumes]
    for what, words in (("array", "array"), ("group", "volume group")):
        names = [volume[what] for volume in found if volume[what]]
        if len(set(names)) < len(names):
            raise ValueError(f"two volumes have one {words}: {', '.join(names)}")
    return found


def _planned(volume: Data, profile: Data, owner: str) -> Data:
    unknown = set(volume) - KEYS
    path = str(volume.get("path", ""))
    if unknown or not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", path):
        raise ValueError(f"volume {path or '?'}: keys are {', '.join(sorted(KEYS))}; path is one")
    disks = _disks(volume, profile)
    level = volume.get("level")
    if level is None and disks["count"] != 1:
        raise ValueError(f"volume {path}: {disks['count']} disks need a level")
    last = path.rsplit("/", 1)[-1]
    array = None if level is None else _name(volume.get("array") or last)
    return {
        "path": path,
        "level": level,
        "array": array,
        "array_uuid": str(uuid.uuid5(NAMESPACE, f"{owner}/array/{array}")) if array else None,
        "uuid": str(uuid.uuid5(NAMESPACE, f"{owner}/filesystem{path}")),
        "disks": disks,
        "wipe": list(volume.get("wipe", [])),
        **_cached(volume, profile, owner, _name(volume.get("group") or last)),
    }


def _cached(volume: Data, profile: Data, owner: str, group: str) -> Data:
    """What a volume with a cache has beside the others."""
    if "cache" not in volume:
        if "group" in volume:
            raise ValueError(f"volume {volume['path']}: `group` is of one with a `cache`")
        return {"group": None}
    cache = volume["cache"]
    if not isinstance(cache, dict) or set(cache) - CACHE_KEYS or volume.get("level") is not None:
        said = f"`cache` has {', '.join(sorted(CACHE_KEYS))}, and no `level` beside it"
        raise ValueError(f"volume {volume['path']}: {said}")
    mode = cache.get("mode", "writethrough")
    if mode not in ("writethrough", "writeback"):
        raise ValueError(f"volume {volume['path']}: mode is writethrough or writeback, not {mode}")
    disks = _disks({"path": f"{volume['path']} (its cache)", **cache}, profile)
    if disks["count"] != 1:
        raise ValueError(f"volume {volume['path']}: its cache is one disk, not {disks['count']}")
    return {
        "group": group,
        "cache": disks,
        "mode": mode,
        "origin_uuid": _lvm_uuid(f"{owner}/volume/{group}/origin"),
        "cache_uuid": _lvm_uuid(f"{owner}/volume/{group}/cache"),
    }


def _lvm_uuid(text: str) -> str:
    """A UUID as LVM spells it: 32 characters, of which hexadecimal digits are some."""
    digits = uuid.uuid5(NAMESPACE, text).hex
    cuts = (0, 6, 10, 14, 18, 22, 26, 32)
    return "-".join(digits[start:end] for start, end in itertools.pairwise(cuts))


def _disks(volume: Data, profile: Data) -> Data:
    """The rule: the volume's own, or the profile's for its use."""
    path = volume["path"]
    if ("use" in volume) == ("disks" in volume):
        raise ValueError(f"volume {path}: give `use`, a part of the profile, or `disks`")
    if "disks" in volume:
        rule = dict(volume["disks"])
        return {"count": len(rule.get("ids", [])) or 1, **rule}
    parts = [one for one in profile["parts"]["disks"] if one["use"] == volume["use"]]
    if len(parts) != 1:
        said = f"{len(parts)} parts of the profile have the use {volume['use']}"
        raise ValueError(f"volume {path}: {said}; give `disks`")
    keys = ("count", "transport", "size_gb", "tolerance")
    return {key: parts[0][key] for key in keys if key in parts[0]}


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def arrays(volumes: list[Data], chunk_kib: int) -> list[Data]:
    """Claims on arrays."""
    return [
        {
            "name": one["array"],
            "uuid": one["array_uuid"],
            "level": one["level"],
            "chunk_kib": None if one["level"] == 1 else chunk_kib,
            "disks": one["disks"],
            "wipe": one["wipe"],
        }
        for one in volumes
        if one["array"]
    ]


def cached(volumes: list[Data]) -> list[Data]:
    """Claims on volumes with a cache."""
    keys = ("cache", "origin_uuid", "cache_uuid", "mode", "wipe")
    return [
        {"name": one["group"], "origin": one["disks"], **{key: one[key] for key in keys}}
        for one in volumes
        if one["group"]
    ]


def filesystems(volumes: list[Data]) -> list[Data]:
    """Claims on filesystems: on the volume's array or its cached volume, or on its disk."""
    return [{"name": one["path"], "uuid": one["uuid"], **_below(one)} for one in volumes]


def _below(one: Data) -> Data:
    if one["array"]:
        return {"array": one["array"]}
    if one["group"]:
        return {"volume": one["group"]}
    return {"disks": one["disks"], "wipe": one["wipe"]}


def lines(volumes: list[Data]) -> list[Data]:
    """The lines of mdadm.conf: device, and the UUID as mdadm spells it."""
    return [
        {"device": f"/dev/md/{one['array']}", "uuid": _colons(one["array_uuid"])}
        for one in volumes
        if one["array"]
    ]


def _colons(text: str) -> str:
    digits = text.replace("-", "")
    return ":".join(digits[start : start + 8] for start in range(0, 32, 8))


def configured(volumes: list[Data]) -> list[Data]:
    """Claims on the lines of mdadm.conf: each there once."""
    return [
        {
            "name": f"line of {one['device']} in mdadm.conf",
            "argv": ["grep", "-iE", f"^ARRAY.*{one['uuid']}", "/etc/mdadm/mdadm.conf"],
            "expect": rf"\AARRAY {one['device']} UUID={one['uuid']}\n?\Z",
        }
        for one in lines(volumes)
    ]


def uuids(volumes: list[Data]) -> list[str]:
    """Every UUID that udev's rules name."""
    keys = ("array_uuid", "origin_uuid", "cache_uuid", "uuid")
    return [one[key] for one in volumes for key in keys if one.get(key)]


def unit_files(volumes: list[Data], options: list[str], timeout_s: int) -> list[Data]:
    """Claims on files: of each volume its mount, and how long a boot waits for its device."""
    found = []
    for one in volumes:
        device = f"dev-disk-by\\x2duuid-{_escaped(one['uuid'])}.device"
        joined = ",".join([*options, "nofail"])
        text = MOUNT.format(**one, options=joined, device=device)
        found.append({"name": f"/etc/systemd/system/{unit(one['path'])}", "content": text})
        place = f"/etc/systemd/system/{device}.d/60-nodeprep.conf"
        found.append({"name": place, "content": DEVICE.format(timeout_s=timeout_s)})
    return found


def unit(path: str) -> str:
    """The mount unit of a path, as `systemd-escape --path --suffix=mount` names it."""
    parts = [_escaped(part) for part in path.split("/") if part]
    return "-".join(parts) + ".mount"


def _escaped(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9:_.]", lambda char: f"\\x{ord(char[0]):02x}", text)


def services(volumes: list[Data]) -> list[Data]:
    """Claims on the mount units."""
    return [{"name": unit(one["path"])} for one in volumes]


def mounts(volumes: list[Data]) -> list[Data]:
    """Claims on what is mounted. The mount table has LVM's own name of a volume, never another."""
    return [
        {
            "name": one["path"],
            "device": f"/dev/mapper/{one['group']}-data" if one["group"] else f"UUID={one['uuid']}",
        }
        for one in volumes
    ]


# The kernel's name of what a UUID is on.
_BEHIND = "d=$(readlink -e /dev/disk/by-uuid/{uuid}) && d=/sys/class/block/${{d##*/}} && "
_PHYSICAL = (
    "d=$(readlink -e /dev/disk/by-id/lvm-pv-uuid-{uuid}) &&"
    " cat /sys/class/block/${{d##*/}}/queue/scheduler"
)


def settings(volumes: list[Data], scheduler: str, read_ahead_kib: int) -> list[Data]:
    """Claims on what udev's rules set: read-ahead of each volume, scheduler of its NVMe disks."""
    found = []
    for one in volumes:
        behind = _BEHIND.format(uuid=one["uuid"])
        found.append({
            "name": f"read-ahead of {one['path']}",
            "argv": ["sh", "-c", f"{behind}cat $d/queue/read_ahead_kb"],
            "expect": f"^{read_ahead_kib}$",
        })  # fmt: skip
        if one["group"]:
            found += _members_scheduler(one, scheduler)
        elif one["disks"].get("transport") == "nvme":
            each = "$d/slaves/*" if one["array"] else "$d"
            script = f"{behind}for each in {each}; do cat $each/queue/scheduler; done | sort -u"
            found.append(_scheduler(one["path"], script, scheduler))
    return found


def _members_scheduler(one: Data, scheduler: str) -> list[Data]:
    """Of the NVMe disks under a cached volume, each by its physical volume."""
    disks = (("origin", one["disks"]), ("cache", one["cache"]))
    return [
        _scheduler(f"{one['path']} ({what})", _PHYSICAL.format(uuid=one[f"{what}_uuid"]), scheduler)
        for what, rule in disks
        if rule.get("transport") == "nvme"
    ]


def _scheduler(what: str, script: str, scheduler: str) -> Data:
    return {
        "name": f"scheduler of {what}",
        "argv": ["sh", "-c", script],
        "expect": rf"\A((\S+ )*\[{scheduler}\]( \S+)*|{scheduler})\s*\Z",
    }


def geometry(volumes: list[Data], chunk_kib: int) -> list[Data]:
    """Claims on the stripes that xfs knows of, in blocks of 4 KiB."""
    striped = {0: lambda count: count, 5: lambda count: count - 1, 10: lambda count: count // 2}
    return [
        {
            "name": f"stripes of {one['path']}",
            "argv": ["xfs_info", one["path"]],
            "expect": (
                rf"bsize=4096[^\n]*\n[^\n]*sunit={chunk_kib // 4}\s+"
                rf"swidth={chunk_kib // 4 * striped[one['level']](one['disks']['count'])} blks"
            ),
        }
        for one in volumes
        if one["level"] in striped
    ]


class FilterModule:
    """What Ansible finds here."""

    def filters(self) -> dict[str, Any]:
        names = (
            planned, arrays, cached, filesystems, lines, configured, uuids, unit_files, services,
            mounts, settings, geometry,
        )  # fmt: skip
        return {f"nvme_cache_{function.__name__}": function for function in names}
