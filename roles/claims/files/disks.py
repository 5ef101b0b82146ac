"""Runs on a node, as root: looks at its disks, or writes to them what was decided. Stands alone.

    python3 -I - look KIND                prints what is there, as JSON, for claims of a kind
    python3 -I - write '{"action": …}'    one step of `claims_disk_steps`; prints what was done

Before it writes it looks again, by other ways than whoever decided (sysfs, the mount table, an
exclusive open, open files), and refuses with exit status 3 whatever is not as it was decided. Disks
are found by their names under /dev/disk/by-id. mdadm, LVM and mkfs.xfs are never forced: they
refuse by themselves what carries something, or ask, and get no answer.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import subprocess
import sys
from typing import Any, Callable, Dict, List, NoReturn, Optional

Data = Dict[str, Any]
BY_ID = "/dev/disk/by-id/"
TABLES = ("gpt", "dos", "PMBR", "atari")
FIRST_EXTENT = 1 << 20  # where LVM puts the first byte of a volume, in bytes
PVS = "pv_uuid,pv_name,vg_name,pv_missing"
LVS = (
    "vg_name,lv_name,segtype,cache_mode,lv_attr,lv_health_status,lv_check_needed,origin,pool_lv,"
    "devices"
)
COLUMNS = "NAME,TYPE,SIZE,SERIAL,WWN,MODEL,TRAN,FSTYPE,UUID,PTTYPE,MOUNTPOINT"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "HOME": "/var/backups",  # wipefs keeps there what it erases
}


class Failed(Exception):
    """A tool did not do its work; the text says which and why."""


class Missing(Failed):
    """The tool is not here."""


def refuse(why: str) -> NoReturn:
    sys.stderr.write("refused, nothing was written: %s\n" % why)
    sys.exit(3)


def run(argv: List[str], timeout: float = 20, fine: int = 0) -> str:
    """What a command prints. It may end with exit status 0, or `fine`."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=ENVIRONMENT, timeout=timeout, check=False, universal_newlines=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise Missing("%s: not found" % argv[0]) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed("%s: %s" % (argv[0], error)) from None
    if done.returncode not in (0, fine):
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise Failed("%s: exit status %d: %s" % (argv[0], done.returncode, said))
    return done.stdout


def word(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def links(folder: str) -> Dict[str, List[str]]:
    """Names of the links in a folder, by the kernel's name of what they lead to."""
    found: Dict[str, List[str]] = {}
    for name in names(folder):
        path = os.path.join(folder, name)
        if os.path.islink(path):
            found.setdefault(os.path.basename(os.readlink(path)), []).append(name)
    return found


# --- look ----------------------------------------------------------------------------------------


def lsblk() -> List[Data]:
    try:
        text = run(["lsblk", "-J", "-b", "-o", COLUMNS + "S"])
    except Failed as error:
        if "unknown column" not in str(error):  # util-linux before 2.37
            raise
        text = run(["lsblk", "-J", "-b", "-o", COLUMNS])
    found = json.loads(text)["blockdevices"]
    if not isinstance(found, list):
        raise Failed("lsblk: lists no block devices")
    return found


def signatures(device: str) -> List[Data]:
    text = run(["wipefs", "--no-act", "-J", "/dev/" + device])
    return list(json.loads(text)["signatures"]) if text.strip() else []


def uses_of(device: str) -> List[str]:
    """Holders and signatures of a device; what cannot be read counts as a use."""
    uses = ["holder %s" % name for name in names("/sys/block/%s/holders" % device)]
    try:
        types = [str(one.get("type")) for one in signatures(device)]
    except (Failed, ValueError, KeyError, TypeError, AttributeError) as error:
        return [*uses, "content that could not be read: %s" % error]
    return uses + [
        ("partition table %s" if one in TABLES else "signature %s") % one for one in types
    ]


def parse(entries: List[Data], ids: Dict[str, List[str]]) -> List[Data]:
    """Whole disks as lsblk tells of them, each with why it must not be written."""
    disks = []
    for entry in entries:
        name, size = str(entry.get("name")), str(entry.get("size"))
        passing = re.match(r"zram|ram|nbd|loop|fd", name)
        if entry.get("type") != "disk" or passing or not size.isdigit() or not int(size):
            continue
        by_name = "nvme" if name.startswith("nvme") else "virtio" if name[:2] == "vd" else None
        disk = {
            "name": name,
            "ids": ids.get(name, []),
            "size_bytes": int(size),
            "transport": entry.get("tran") or by_name,
            "in_use": list(dict.fromkeys(_uses(entry, top=True))),
            "arrays": [],
            "physical_volumes": [],
        }
        disk["model"] = (entry.get("model") or "").strip() or None
        for key in ("serial", "wwn"):
            disk[key] = name_of_its_own(entry.get(key))
        disks.append(disk)
    return disks


def name_of_its_own(value: Any) -> Optional[str]:
    """A serial or a WWN; zeros are none, as to nodeprep's reader."""
    text = str(value or "").strip()
    return None if re.match(r"(0x|eui\.|naa\.|uuid\.)?[0-]*$", text) else text


def way(name: str, told: Optional[str]) -> Optional[str]:
    """How a disk is reached, as nodeprep's reader tells it."""
    device = "/sys/block/%s/device" % name
    if told in (None, "sas") and word(device + "/vendor") == "ATA":
        return "sata"
    if told != "nvme":
        return told
    below = [device + "/" + one for one in names(device) if re.match(r"nvme\d+$", one)]
    ways = [word(folder + "/transport") or "pcie" for folder in [device, *below]]
    return next((one for one in ways if one != "pcie"), told)


def _uses(entry: Data, top: bool = False) -> List[str]:
    uses = [] if top else ["%s %s" % (entry.get("type") or "holder", entry.get("name"))]
    if top and entry.get("pttype"):
        uses.append("partition table %s" % entry["pttype"])
    if entry.get("fstype"):
        uses.append("signature %s" % entry["fstype"])
    points = [*(entry.get("mountpoints") or []), entry.get("mountpoint")]
    uses += ["in use as swap" if p == "[SWAP]" else "mounted at %s" % p for p in points if p]
    for child in entry.get("children") or []:
        uses += _uses(child)
    return uses


def flat(entries: List[Data]) -> List[Data]:
    found: Dict[str, Data] = {}
    for entry in entries:
        for one in [entry, *flat(entry.get("children") or [])]:
            found.setdefault(str(one.get("name")), one)
    return list(found.values())


def md_uuid(device: str) -> str:
    uuid = word("/sys/block/%s/md/uuid" % device)
    uuid = "" if set(uuid) <= set("0-:") else uuid  # zeros: it does not run
    for name in links(BY_ID).get(device, []):
        if not uuid and name.startswith("md-uuid-"):
            uuid = name[len("md-uuid-") :]
    if not uuid:
        told = run(["mdadm", "--detail", "--export", "/dev/" + device])
        uuid = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)["MD_UUID"]
    return digits(uuid)


def digits(uuid: Optional[str]) -> str:
    return (uuid or "").replace(":", "").replace("-", "").lower()


def arrays() -> List[Data]:
    known = links("/dev/md")
    found = []
    for device in names("/sys/block"):
        folder = "/sys/block/%s/md/" % device
        if not os.path.isdir(folder) or word(folder + "array_state") == "clear":
            continue
        found.append(
            {
                "device": device,
                "uuid": md_uuid(device),
                "names": known.get(device, []),
                "level": word(folder + "level"),
                "chunk_kib": int(word(folder + "chunk_size") or 0) // 1024,
                "raid_disks": int(word(folder + "raid_disks") or 0),
                "state": word(folder + "array_state"),
                "degraded": int(word(folder + "degraded") or 0),
                "in_use": uses_of(device),
            }
        )
    return found


def report(name: str, part: str, fields: str, *more: str) -> List[Data]:
    argv = [name, *more, "--nolocking", "--reportformat", "json", "-o", fields]
    return list(json.loads(run(argv))["report"][0][part])


def lvm() -> Data:
    """Every physical and logical volume, in the words of nodeprep's reader."""
    try:
        physical = report("pvs", "pv", PVS, "--all")  # copies of a disk, too
    except Missing:
        return {"installed": False, "physical": [], "logical": []}
    return {
        "installed": True,
        "physical": [
            {
                "uuid": row["pv_uuid"],
                "device": None if row["pv_missing"] else row["pv_name"],
                "group": row["vg_name"],
                "missing": bool(row["pv_missing"]),
            }
            for row in physical
            if row["pv_uuid"]
        ],
        "logical": [_logical(row) for row in report("lvs", "lv", LVS, "--all")],
    }


def _logical(row: Data) -> Data:
    devices = [re.sub(r"\(\d+\)$", "", one) for one in row["devices"].split(",") if one]
    return {
        "group": row["vg_name"],
        "name": row["lv_name"].strip("[]"),  # hidden ones are in brackets
        "segtype": row["segtype"],
        "mode": row["cache_mode"],
        "attr": row["lv_attr"],
        "health": row["lv_health_status"],
        "check": row["lv_check_needed"],
        "origin": row["origin"].strip("[]"),
        "cache": row["pool_lv"].strip("[]"),
        "devices": devices,
    }


def volumes() -> List[Data]:
    """LVM's volumes that are active and called `data`: as lsblk and as the kernel name them."""
    found = []
    for kernel in names("/sys/block"):
        name = word("/sys/block/%s/dm/name" % kernel)
        if word("/sys/block/%s/dm/uuid" % kernel).startswith("LVM-") and name.endswith("-data"):
            found.append({"device": name, "kernel": kernel, "in_use": uses_of(kernel)})
    return found


def look(kind: str = "") -> Data:
    # While udev is at work, as after a boot, disks lack names and lsblk their signatures.
    if os.path.exists("/run/udev/queue"):
        try:
            settle()
        except Failed:
            pass  # a disk without a name is refused
    entries = lsblk()
    ids = links(BY_ID)
    disks = parse(entries, ids)
    for disk in disks:
        disk["transport"] = way(disk["name"], disk["transport"])
        disk["in_use"] = list(dict.fromkeys(disk["in_use"] + uses_of(disk["name"])))
        try:
            disk["arrays"] = superblocks(disk["name"], "linux_raid_member")
            disk["physical_volumes"] = superblocks(disk["name"], "LVM2_member")
        except (Failed, ValueError, KeyError):
            pass  # `in_use` says so
    devices = [
        {key: one.get(key) for key in ("name", "type", "fstype", "uuid")}
        for one in flat(entries)
        if one.get("uuid")
    ]
    return {
        "disks": disks,
        "arrays": arrays(),
        "lvm": lvm() if kind == "cached_volume" else None,
        "volumes": volumes(),
        "devices": devices,
    }


def superblocks(device: str, kind: str) -> List[str]:
    """UUIDs of a disk's signatures of one kind."""
    found = [one for one in signatures(device) if one.get("type") == kind]
    return [digits(one["uuid"]) for one in found if one.get("uuid")]


# --- write ---------------------------------------------------------------------------------------


def found(disk: Data) -> str:
    """The kernel's name of the disk that was decided on; refused when something else is there."""
    path = BY_ID + disk["id"]
    if "/" in disk["id"] or not os.path.islink(path):
        refuse("%s is not there" % path)
    name = os.path.basename(os.path.realpath(path))
    device = "/dev/" + name
    if not os.path.isdir("/sys/block/" + name) or not stat.S_ISBLK(os.stat(device).st_mode):
        refuse("%s leads to %s, which is no whole disk" % (path, device))
    size = int(word("/sys/block/%s/size" % name) or 0) * 512
    if size != disk["size_bytes"]:
        refuse("%s is %d bytes, not %d" % (path, size, disk["size_bytes"]))
    (entry,) = json.loads(run(["lsblk", "-J", "-d", "-o", "SERIAL,WWN", device]))["blockdevices"]
    for key in ("serial", "wwn"):
        now = name_of_its_own(entry.get(key))
        if now != disk.get(key):
            refuse("%s has the %s %s, not %s" % (path, key, now, disk.get(key)))
    if not disk.get("serial") and not disk.get("wwn"):
        refuse("%s has neither serial nor WWN" % path)
    return name


def table(path: str) -> List[List[str]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.split() for line in file if line.strip()]


def parts(name: str) -> List[str]:
    folder = "/sys/block/" + name
    return [one for one in names(folder) if os.path.exists("%s/%s/partition" % (folder, one))]


def busy(name: str) -> str:
    """Who uses a device or a part of it, whatever may be erased; empty: nobody."""
    devices = [name, *parts(name)]
    for one in devices:
        folder = "/sys/block/%s/%s" % (name, "" if one == name else one)
        held = names(os.path.join(folder, "holders"))
        if held:
            return "%s is part of %s" % (one, ", ".join(held))
        number = word(os.path.join(folder, "dev"))
        for fields in table("/proc/self/mountinfo"):
            if fields[2] == number or "/dev/" + one in fields:
                return "%s is mounted at %s" % (one, fields[4])
        if ["/dev/" + one] in [fields[:1] for fields in table("/proc/swaps")]:
            return "%s is swapped to" % one
    return exclusively("/dev/" + name) or opened(devices)


def exclusively(device: str) -> str:
    """The kernel's own word for it: only one may hold a disk, whatever its mount table shows."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return "%s cannot be opened alone: %s" % (device, error.strerror)
    return ""


def opened(devices: List[str]) -> str:
    paths = {"/dev/" + one for one in devices}
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target in paths:
            process = link.split("/")[2]
            return "%s is open in process %s (%s)" % (
                target, process, word("/proc/%s/comm" % process),
            )  # fmt: skip
    return ""


def content(name: str) -> List[str]:
    """What lies on a disk: signatures, tables, partitions."""
    return ["partition %s" % one for one in parts(name)] + [
        str(one.get("type")) for one in signatures(name)
    ]


def check(step: Data) -> List[str]:
    """The kernel's names of the step's disks, every one of them fit to be written."""
    settle()  # udev's own look at a disk is no use of it
    chosen = [found(disk) for disk in step["disks"]]
    if len(set(chosen)) != len(chosen):
        refuse("two of the names lead to one disk: %s" % ", ".join(chosen))
    for name, disk in zip(chosen, step["disks"]):  # noqa: B905
        used = busy(name)
        if used:
            refuse(used)
        lies = content(name)
        if lies and not listed(step, disk):
            refuse("%s (/dev/%s) carries %s" % (disk["id"], name, ", ".join(lies)))
    return chosen


def listed(step: Data, disk: Data) -> bool:
    """Whether the inventory says that its content may be erased."""
    return bool(disk.get("serial")) and disk["serial"] in (step.get("wipe") or [])


def settle() -> None:
    run(["udevadm", "settle", "--timeout=30"], 40)


def erase(name: str) -> None:
    """What was listed under `wipe`. wipefs is not forced: it opens the disk alone, or fails."""
    if not content(name):
        return
    for one in [*parts(name), name]:
        run(["wipefs", "--all", "--backup", "/dev/" + one])
    run(["blockdev", "--rereadpt", "/dev/" + name])
    settle()
    left = content(name)
    if left:
        raise Failed("%s still carries %s" % (name, ", ".join(left)))


def create(step: Data) -> str:
    absent(step)
    chosen = check(step)
    for name in chosen:
        erase(name)
    device = "/dev/md/" + step["name"]
    argv = ["mdadm", "--create", device, "--metadata=1.2", "--name=" + step["name"],
            "--homehost=any", "--uuid=" + step["uuid"], "--level=%d" % step["level"]]  # fmt: skip
    if step.get("chunk_kib"):
        argv.append("--chunk=%d" % step["chunk_kib"])
    if step["level"] == 5:
        argv.append("--force")  # else it is made degraded and rebuilt, which would be no start
    if step["level"] in (1, 5, 10):
        argv.append("--bitmap=internal")
    argv.append("--raid-devices=%d" % len(chosen))
    run(argv + ["/dev/" + name for name in chosen], 120)
    settle()
    if md_uuid(os.path.basename(os.path.realpath(device))) != digits(step["uuid"]):
        raise Failed("%s was made and has another UUID" % device)
    return "made %s (raid%d) of %s" % (device, step["level"], ", ".join(chosen))


def absent(step: Data) -> None:
    for one in arrays():
        if one["uuid"] == digits(step["uuid"]) or step["name"] in one["names"]:
            refuse("array %s runs already, as %s" % (step["name"], one["device"]))


def assemble(step: Data) -> str:
    """Start an array that lies on these disks already; writes no data."""
    absent(step)
    chosen = [found(disk) for disk in step["disks"]]
    for name in chosen:
        if digits(step["uuid"]) not in superblocks(name, "linux_raid_member"):
            refuse("%s is no member of %s" % (name, step["uuid"]))
    devices = ["/dev/" + name for name in chosen]
    device = "/dev/md/" + step["name"]
    run(["mdadm", "--assemble", device, "--uuid=" + step["uuid"], *devices], 60)
    settle()
    return "started %s of %s" % (device, ", ".join(chosen))


def cache(step: Data) -> str:
    """A volume on the first disk, cached by the second."""
    unclaimed(step)
    run(["modprobe", "--all", "dm-cache", "dm-cache-smq"])  # missing: fail before a byte is written
    chosen = emptied(step)
    origin, fast = ("/dev/" + name for name in chosen)
    group, volume = step["name"], step["name"] + "/data"
    for device, uuid in ((origin, step["origin_uuid"]), (fast, step["cache_uuid"])):
        run(["pvcreate", "--norestorefile", "--uuid", uuid, device], 60)
    run(["vgcreate", group, origin, fast], 60)
    for name, device in (("data", origin), ("cache", fast)):
        run(["lvcreate", "--wipesignatures", "y", "--zero", "y", "--name", name,
             "--extents", "100%PVS", group, device], 60)  # fmt: skip
    # It asks whether to erase the volume `cache`, made a line above: --yes is for that alone.
    run(["lvconvert", "--yes", "--type", "cache", "--cachevol", "cache",
         "--cachemode", step["mode"], volume], 300)  # fmt: skip
    settle()
    return "made /dev/%s on %s, cached by %s (%s)" % (volume, *chosen, step["mode"])


def emptied(step: Data) -> List[str]:
    """The step's disks, fit to be written and empty, also where LVM would look half way."""
    chosen = check(step)
    blocks = {word("/sys/block/%s/queue/logical_block_size" % name) for name in chosen}
    if len(blocks) > 1:
        refuse("blocks of %s bytes do not go into one volume group" % " and ".join(sorted(blocks)))
    for name, disk in zip(chosen, step["disks"]):  # noqa: B905
        lies = beneath(name)
        if lies and not listed(step, disk):
            refuse("%s (/dev/%s) carries %s at 1 MiB, of a partition whose table was lost"
                   % (disk["id"], name, lies))  # fmt: skip
    for name in chosen:
        erase(name)
        if beneath(name):
            raise Failed("%s still carries %s at 1 MiB" % (name, beneath(name)))
    return chosen


def unclaimed(step: Data) -> None:
    ours = {digits(step["origin_uuid"]), digits(step["cache_uuid"])}
    for one in lvm()["physical"]:
        if digits(one["uuid"]) in ours or one["group"] == step["name"]:
            refuse("volume group %s, or a disk of it, is there already: %s"
                   % (step["name"], one["device"] or one["uuid"]))  # fmt: skip
    if os.path.lexists("/dev/" + step["name"]):
        refuse("/dev/%s is there, so no volume group can have that name" % step["name"])


def beneath(name: str) -> str:
    """What lies where a volume would begin: LVM would ask whether to wipe it, half way."""
    argv = ["blkid", "--probe", "--offset", str(FIRST_EXTENT), "--output", "value",
            "--match-tag", "TYPE", "--match-tag", "PTTYPE", "/dev/" + name]  # fmt: skip
    return " ".join(run(argv, fine=2).split())  # 2: nothing


def activate(step: Data) -> str:
    """Start a volume that lies on these disks already; writes no data."""
    chosen = [found(disk) for disk in step["disks"]]
    uuids = [digits(step["origin_uuid"]), digits(step["cache_uuid"])]
    for name, uuid in zip(chosen, uuids):  # noqa: B905
        if uuid not in superblocks(name, "LVM2_member"):
            refuse("%s is not the physical volume %s" % (name, uuid))
    groups = {one["group"] for one in lvm()["physical"] if digits(one["uuid"]) in uuids}
    if groups != {step["name"]}:
        refuse("its disks are of %s, not of volume group %s" % (sorted(groups), step["name"]))
    run(["vgchange", "--activate", "y", step["name"]], 120)  # ends well also when it starts none
    settle()
    if step["name"] + "-data" not in [one["device"] for one in volumes()]:
        raise Failed("vgchange started no volume data of %s" % step["name"])
    return "started /dev/%s/data of %s" % (step["name"], ", ".join(chosen))


def make_filesystem(step: Data) -> str:
    for one in flat(lsblk()):
        if digits(one.get("uuid")) == digits(step["uuid"]):
            refuse("%s carries that UUID already" % one.get("name"))
    if step.get("array") or step.get("volume"):
        name = _array(step["array"]) if step.get("array") else _volume(step["volume"])
        used = busy(name) or ", ".join(content(name))
        if used:
            refuse("%s (/dev/%s): %s" % (step.get("array") or step["volume"], name, used))
    else:
        (name,) = check(step)
        erase(name)
    run(["mkfs.xfs", "-q", "-m", "uuid=" + step["uuid"], "/dev/" + name], 300)
    settle()
    return "made xfs on /dev/%s" % name


def _array(wanted: str) -> str:
    for one in arrays():
        if wanted in one["names"]:
            return str(one["device"])
    refuse("array %s is not there" % wanted)


def _volume(wanted: str) -> str:
    for one in volumes():
        if one["device"] == wanted + "-data":
            return str(one["kernel"])
    refuse("volume %s is not there" % wanted)


ACTIONS: Dict[str, Callable[[Data], str]] = {
    "create": create,
    "assemble": assemble,
    "cache": cache,
    "activate": activate,
    "format": make_filesystem,
}


def main(arguments: List[str]) -> None:
    try:
        if arguments[0] == "look":
            print(json.dumps(look(*arguments[1:2])))
        else:
            step = json.loads(arguments[1])
            print(ACTIONS[step["action"]](step))
    except (Failed, OSError, ValueError, KeyError) as error:
        sys.stderr.write("%s: %s\n" % (type(error).__name__, error))
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
