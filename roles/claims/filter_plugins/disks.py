"""Filters of the role claims: what is to be done to disks. Pure; when in doubt, nothing.

The rules are those of `nodeprep.judge.choice` and `nodeprep.judge.writes`, for where nodeprep is
not installed; a test holds the two together over generated nodes.
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
ERASABLE = ("signature ", "partition table ", "part ")
CONTENT = ("lvm-pv-", "md-", "dm-")
SYSTEM = frozenset(f"mounted at {p}" for p in ("/", "/boot", "/boot/efi", "/usr", "/var", "/home"))
WHOLE = ("clean", "active", "active-idle", "write-pending", "read-auto")


def disk_steps(
    claims: list[Data], role: str, found: Data, planned: Any = None, check: bool = False
) -> list[Data]:
    """A step for each array or filesystem that is not there: what disks.py is told to do.

    found    what `disks.py look` printed
    planned  by claim, what nodeprep decided and the operator confirmed; None: decide here
    check    in check mode an array that would be made is not there yet

    A step with `refused` says why nothing is done.
    """
    free = list(found["disks"])
    steps = []
    for claim in claims:
        make = _array if claim["kind"] == "array" else _filesystem
        step = make(claim, found, free, check)
        if step is None:
            continue
        key = f"{role}/{claim['kind']}:{claim['name']}"
        if planned is not None and not step.get("refused"):
            step = _planned(claim, planned.get(key), step)
        taken = [disk["id"] for disk in step.get("disks", ())]
        free = [disk for disk in free if stable_id(disk) not in taken]
        told = {k: claim[k] for k in ("name", "uuid", "level", "chunk_kib", "array", "wipe")
                if claim.get(k) is not None}  # fmt: skip
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


def _filesystem(claim: Data, found: Data, free: list[Data], check: bool) -> Data | None:
    there = [one for one in found["devices"] if _same(one["uuid"], claim["uuid"])]
    on = claim.get("array")
    array = next((a for a in found["arrays"] if on in a["names"]), None) if on else None
    if there:
        right = len(there) == 1 and there[0]["fstype"] == claim.get("fstype", "xfs")
        if right and (not on or (array and there[0]["name"] == array["device"])):
            return None
        seen = ", ".join(f"{one['fstype']} on {one['name']}" for one in there)
        return {"refused": f"its UUID is there, and not as claimed: {seen}"}
    if not on:
        return _choice("format", claim, free)
    if array is None and not check:
        return {"refused": f"array {on} is not there"}
    if array is not None and array["in_use"]:
        return {"refused": f"array {on} carries {', '.join(array['in_use'])}"}
    return {"action": "format", "disks": []}


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
    if transport in (None, "usb") or wanted not in ("any", transport):
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
