"""Filters of the role claims: what is to be done to disks. Pure; when in doubt, nothing.

The rules are those of `nodeprep.judge.choice` and `nodeprep.judge.writes`, for where nodeprep is
not installed; a test holds the two together over generated nodes.
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
ERASABLE = ("signature ", "partition table ", "part ")
CONTENT = ("lvm-pv-", "md-", "dm-")
OTHERS = frozenset({None, "usb", "iscsi", "fc", "fcoe", "tcp", "rdma", "loop"})
SYSTEM = frozenset(f"mounted at {p}" for p in ("/", "/boot", "/boot/efi", "/usr", "/var", "/home"))
WHOLE = ("clean", "active", "active-idle", "write-pending", "read-auto")
INACTIVE = "it is not active"
TOLD = (
    "name", "uuid", "level", "chunk_kib", "array", "volume", "origin_uuid", "cache_uuid", "mode",
    "wipe",
)  # fmt: skip


def disk_steps(
    claims: list[Data], role: str, found: Data, planned: Any = None, check: bool = False
) -> list[Data]:
    """A step for each array, volume or filesystem that is not there: what disks.py is told to do.

    found    what `disks.py look` printed
    planned  by claim, what nodeprep decided and the operator confirmed; None: decide here
    check    in check mode an array or a volume that would be made is not there yet

    A step with `refused` says why nothing is done.
    """
    free = list(found["disks"])
    steps = []
    for claim in claims:
        step = MAKERS[claim["kind"]](claim, found, free, check)
        if step is None:
            continue
        key = f"{role}/{claim['kind']}:{claim['name']}"
        if planned is not None and not step.get("refused"):
            step = _planned(claim, planned.get(key), step)
        taken = [disk["id"] for disk in step.get("disks", ())]
        free = [disk for disk in free if stable_id(disk) not in taken]
        told = {key: claim[key] for key in TOLD if claim.get(key) is not None}
        steps.append({**told, "claim": key, "notify": claim["notify"], "refused": "", **step})
    return steps


def _planned(claim: Data, plan: Any, step: Data) -> Data:
    if plan is None:
        return {"refused": "it was there when the plan was made, or was not to be made"}
    if plan["action"] != step["action"]:
        return {"refused": f"the plan was to {plan['action']} it, and now {step['action']} fits"}
    return {"action": plan["action"], "disks": plan["disks"]}


def _array(claim: Data, found: Data, free: list[Data], check: bool) -> Data | None:
    ours = next((a for a in found["arrays"] if _same(a["uuid"], claim["uuid"])), None)
    named = next((a for a in found["arrays"] if claim["name"] in a["names"]), None)
    if ours is not None:
        wrong = _differs(claim, ours, named)
        return {"refused": wrong} if wrong else None
    if named is not None:
        return {"refused": f"another array has its name: {named['device']}, {named['uuid']}"}
    members = [d for d in free if any(_same(u, claim["uuid"]) for u in d["arrays"])]
    if members:
        told_apart = not any(_unclear(disk, free) for disk in members)
        whole = told_apart and len(members) == claim["disks"]["count"]
        if whole:
            refs = [_reference(disk) for disk in sorted(members, key=stable_id)]
            return {"action": "assemble", "disks": refs}
        return {"refused": f"{len(members)} of its members are here, and it does not run"}
    return _choice("create", claim, free)


def _differs(claim: Data, ours: Data, named: Data | None) -> str:
    if named is not ours:
        return (
            f"it runs as {ours['device']} and not as /dev/md/{claim['name']}: the name comes back"
            " at the next boot, once mdadm's configuration and the initramfs have it"
        )
    wanted = (f"raid{claim['level']}", claim.get("chunk_kib") or 0, claim["disks"]["count"])
    read = (ours["level"], ours["chunk_kib"], ours["raid_disks"])
    if wanted != read or ours["degraded"] or ours["state"] not in WHOLE:
        return (
            f"wanted {wanted}, found {read}, state {ours['state']}, {ours['degraded']} members"
            " missing: repair it by hand; it is never made again, for there may be data on it"
        )
    return ""


def _cached_volume(claim: Data, found: Data, free: list[Data], check: bool) -> Data | None:
    lvm = found["lvm"]
    ours = [one for one in lvm["physical"] if _is_of(claim, one["uuid"])]
    wrong = _volume_differs(claim, lvm) if ours else ""
    if not ours and any(one["group"] == claim["name"] for one in lvm["physical"]):
        return {"refused": f"another volume group has its name: {claim['name']}"}
    if ours and not wrong:
        return None
    if wrong and wrong != INACTIVE:
        return {"refused": f"{wrong}: repair it by hand; it is never made again, for there may be"
                           " data on it"}  # fmt: skip
    step = _pair(claim, free)
    if wrong and step.get("action") != "activate":
        return {"refused": "LVM knows it, and its two disks were not found"}
    return step


def _is_of(claim: Data, uuid: Any) -> bool:
    return _same(uuid, claim["origin_uuid"]) or _same(uuid, claim["cache_uuid"])


def _pair(claim: Data, free: list[Data]) -> Data:
    """The disk of the origin and another one for the cache."""
    here = [d for d in free if any(_is_of(claim, uuid) for uuid in d["physical_volumes"])]
    if here:
        pair = [
            [disk for disk in here if any(_same(uuid, one) for one in disk["physical_volumes"])]
            for uuid in (claim["origin_uuid"], claim["cache_uuid"])
        ]
        whole = [len(some) for some in pair] == [1, 1] and pair[0] != pair[1]
        if whole and not any(_unclear(disk, free) for disk in here):
            return {"action": "activate", "disks": [_reference(some[0]) for some in pair]}
        return {"refused": f"{len(here)} of its 2 disks are here, and they are no whole volume"}
    wipe = claim.get("wipe", [])
    origin, why = choose(claim["origin"], wipe, free)
    rest = [disk for disk in free if disk not in origin]
    cache, why_not = choose(claim["cache"], wipe, rest)
    if why or why_not:
        return {"refused": "; ".join(one for one in (why, why_not) if one)}
    return {"action": "cache", "disks": list(map(_reference, origin + cache))}


def _volume_differs(claim: Data, lvm: Data) -> str:
    """What is not as claimed of a volume whose disks are there; empty: nothing."""
    name = claim["name"]
    by_uuid = {what: next((one for one in lvm["physical"] if _same(one["uuid"], claim[what])), {})
               for what in ("origin_uuid", "cache_uuid")}  # fmt: skip
    ours = [one["uuid"] for one in lvm["physical"] if _is_of(claim, one["uuid"])]
    if len(ours) > len(set(ours)):
        return "a disk of it is there twice, one of them a copy"
    absent = [what[:-5] for what, one in by_uuid.items() if not one or one["missing"]]
    strays = [one["device"] for one in by_uuid.values() if one and one["group"] != name]
    if absent or strays:
        return f"missing: {absent}, not of volume group {name}: {strays}"
    parts = {one["name"]: one for one in lvm["logical"] if one["group"] == name}
    data = parts.get("data")
    if data is None:
        return f"{name} has no volume data: it was left half made"
    lies = [parts.get(data[what[:-5]], {}).get("devices") for what in by_uuid]
    read = (data["segtype"], data["mode"], *lies)
    mode = claim.get("mode", "writethrough")
    wanted = ("cache", mode, *([one["device"]] for one in by_uuid.values()))
    if read != wanted:
        return f"wanted {wanted}, found {read}"
    attr = data["attr"]
    if attr[4:5] not in ("a", "-") or attr[8:9] != "-" or data["health"]:
        return f"its state is {attr}, {data['health'] or 'no health told'}"
    if attr[4:5] == "-":
        return INACTIVE
    return f"check: {data['check']}" if data["check"] else ""


def _filesystem(claim: Data, found: Data, free: list[Data], check: bool) -> Data | None:
    there = [one for one in found["devices"] if _same(one["uuid"], claim["uuid"])]
    on, below = _below(claim, found)
    if there:
        right = len(there) == 1 and there[0]["fstype"] == claim.get("fstype", "xfs")
        if right and (not on or (below and there[0]["name"] == below["device"])):
            return None
        seen = ", ".join(f"{one['fstype']} on {one['name']}" for one in there)
        return {"refused": f"its UUID is there, and not as claimed: {seen}"}
    if not on:
        return _choice("format", claim, free)
    if below is None and not check:
        return {"refused": f"{on} is not there"}
    if below is not None and below["in_use"]:
        return {"refused": f"{on} carries {', '.join(below['in_use'])}"}
    return {"action": "format", "disks": []}


def _below(claim: Data, found: Data) -> tuple[str, Data | None]:
    """What a filesystem is claimed on, in words, and as it was found; empty: a disk."""
    array, volume = claim.get("array"), claim.get("volume")
    if array:
        return f"array {array}", next((a for a in found["arrays"] if array in a["names"]), None)
    if volume:
        known = (one for one in found["volumes"] if one["device"] == f"{volume}-data")
        return f"volume {volume}", next(known, None)
    return "", None


MAKERS = {"array": _array, "cached_volume": _cached_volume, "filesystem": _filesystem}


def _choice(action: str, claim: Data, free: list[Data]) -> Data:
    chosen, why = choose(claim["disks"], claim.get("wipe", []), free)
    return {"refused": why} if why else {"action": action, "disks": list(map(_reference, chosen))}


def choose(rule: Data, wipe: list[str], disks: list[Data]) -> tuple[list[Data], str]:
    """The disks for a rule, or why there are none."""
    if rule.get("ids"):
        return _named(rule, wipe, disks)
    fitting = [disk for disk in disks if _fits(rule, disk)]
    free = [disk for disk in fitting if not objection(disk, disks, wipe)]
    if len(free) < rule["count"]:
        said = [f"{d['name']}: {objection(d, disks, wipe)}" for d in fitting if d not in free]
        head = f"{len(free)} of the {rule['count']} disks that are wanted may be written"
        return [], "; ".join([head, *said])
    if len(free) > rule["count"] and len({(d["model"], d["size_bytes"]) for d in free}) > 1:
        names = ", ".join(disk["name"] for disk in free)
        return [], f"{names} fit and are not alike: list the `ids`"
    free.sort(key=lambda disk: (bool(disk["in_use"]), stable_id(disk)))
    return free[: rule["count"]], ""


def _named(rule: Data, wipe: list[str], disks: list[Data]) -> tuple[list[Data], str]:
    found: list[Data] = []
    for name in rule["ids"]:
        behind = [d for d in disks if name in (*d["ids"], d["serial"], d["wwn"])]
        if len(behind) != 1:
            return [], f"{name} names {len(behind)} disks"
        why = "named twice" if behind[0] in found else objection(behind[0], disks, wipe)
        if not why and rule.get("size_gb") is not None and not _fits(rule, behind[0]):
            why = f"not {rule['size_gb']} GB"
        if why:
            return [], f"{name} ({behind[0]['name']}): {why}"
        found.append(behind[0])
    if len(found) != rule["count"]:
        return [], f"{len(found)} ids for {rule['count']} disks"
    return found, ""


def objection(disk: Data, others: list[Data], wipe: list[str]) -> str:
    """Why a disk must not be written; empty when it may be."""
    unclear = _unclear(disk, others)
    if unclear:
        return unclear
    if not disk["size_bytes"]:
        return "its size was not read"
    uses = ", ".join(disk["in_use"])
    if SYSTEM & set(disk["in_use"]):
        return f"the operating system is on it ({uses})"
    if any(not use.startswith(ERASABLE) for use in disk["in_use"]):
        return uses
    return "" if disk["serial"] and disk["serial"] in wipe else uses


def _unclear(disk: Data, others: list[Data]) -> str:
    """Why it cannot be told from every other disk, wherever it is plugged in."""
    if not stable_id(disk):
        return "it has no name under /dev/disk/by-id"
    if not disk["serial"] and not disk["wwn"]:
        return "it has neither serial nor WWN"
    for other in others:
        if other is not disk and _alike(disk, other):
            return f"{other['name']} has the same serial, WWN or id"
    return ""


def _alike(disk: Data, other: Data) -> bool:
    return bool(
        (disk["serial"] and disk["serial"] == other["serial"])
        or (disk["wwn"] and disk["wwn"] == other["wwn"])
        or set(disk["ids"]) & set(other["ids"])
    )


def _fits(rule: Data, disk: Data) -> bool:
    transport, size = disk["transport"], disk["size_bytes"]
    wanted = rule.get("transport", "any")
    if transport in OTHERS or wanted not in ("any", transport):
        return False
    if rule.get("size_gb") is None or not size:
        return False
    return bool(
        abs(size - rule["size_gb"] * 1e9) <= rule["size_gb"] * 1e9 * rule.get("tolerance", 0.07)
    )


def stable_id(disk: Data) -> str:
    """Its name under /dev/disk/by-id, one with the serial before others; empty: it has none."""
    names = [name for name in disk["ids"] if not name.startswith(CONTENT)]
    return min(names, key=lambda name: ((disk["serial"] or "\0") not in name, name), default="")


def _reference(disk: Data) -> Data:
    return {"id": stable_id(disk), **{k: disk[k] for k in ("serial", "wwn", "size_bytes")}}


def _same(one: Any, other: Any) -> bool:
    return bool(one and other) and _digits(one) == _digits(other)


def _digits(uuid: str) -> str:
    return uuid.replace(":", "").replace("-", "").lower()


class FilterModule:
    """What Ansible finds here."""

    def filters(self) -> dict[str, Any]:
        return {"claims_disk_steps": disk_steps}
