"""Generated nodes: disks with what may stand on them, as lsblk and wipefs tell of them.

What must never be written is known from how a layout was made, not from what the judge makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from nodeprep.model.hardware import Disk
from nodeprep.probe import reader

GB = 10**9
OURS = "6f9619ff-8b86-5d01-b42d-00cf4fc964ff"
FOREIGN = "11111111-2222-3333-4444-555555555555"
ORIGIN = "8f9619-ff8b-865d-01b4-2d00-cf4f-c964ff"
CACHE = "7f9619-ff8b-865d-01b4-2d00-cf4f-c964ff"


@dataclass(frozen=True)
class Content:
    """What stands on a disk. `erasable`: it may go where the inventory lists the serial."""

    erasable: bool
    lsblk: dict[str, Any] = field(default_factory=dict)
    children: tuple[dict[str, Any], ...] = ()
    wipefs: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    uuid: str = ""  # of an array's superblock, or of a physical volume
    unreadable: bool = False


def child(kind: str, name: str, **other: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, **other}


MD = "linux_raid_member"
LVM = "LVM2_member"
CONTENTS: dict[str, Content] = {
    "nothing": Content(True),
    "xfs": Content(True, {"fstype": "xfs"}, wipefs=("xfs",)),
    "xfs, mounted": Content(False, {"fstype": "xfs", "mountpoints": ["/data"]}, wipefs=("xfs",)),
    "xfs, mounted by an older lsblk": Content(False, {"fstype": "xfs", "mountpoint": "/data"}),
    "ext4 that udev missed": Content(True, wipefs=("ext4",)),
    "two signatures, so that lsblk shows none": Content(True, wipefs=("ext4", MD)),
    "empty table": Content(True, {"pttype": "gpt"}, wipefs=("gpt", "gpt", "PMBR")),
    "partition": Content(
        True, {"pttype": "gpt"}, (child("part", "p1", fstype="ntfs"),), ("gpt", "PMBR")
    ),
    "the system": Content(
        False,
        {"pttype": "gpt"},
        (child("part", "p1", fstype="vfat", mountpoints=["/boot/efi"]),
         child("part", "p2", fstype="ext4", mountpoints=["/"])),
        ("gpt", "PMBR"),
    ),
    "the system, on the whole disk": Content(False, {"fstype": "ext4", "mountpoints": ["/"]}),
    "half of the system's mirror": Content(
        False,
        {"pttype": "gpt"},
        (child("part", "p1", fstype=MD, children=[
            child("raid1", "md0", fstype="ext4", mountpoints=["/"])]),),
        ("gpt", "PMBR"),
    ),
    "swap": Content(False, {"fstype": "swap", "mountpoints": ["[SWAP]"]}, wipefs=("swap",)),
    "swap on a partition": Content(
        False, {"pttype": "dos"}, (child("part", "p1", fstype="swap", mountpoints=["[SWAP]"]),)
    ),
    "volume group": Content(
        False, {"fstype": LVM}, (child("lvm", "vg-lv", fstype="xfs"),), (LVM,)
    ),
    "volume of no group": Content(True, {"fstype": LVM}, wipefs=(LVM,)),
    "our origin": Content(True, {"fstype": LVM}, wipefs=(LVM,), uuid=ORIGIN),
    "our cache": Content(True, {"fstype": LVM}, wipefs=(LVM,), uuid=CACHE),
    "our volume, active": Content(
        False, {"fstype": LVM}, (child("lvm", "v-data_corig"),), (LVM,), uuid=ORIGIN
    ),
    "opened LUKS": Content(
        False, {"fstype": "crypto_LUKS"}, (child("crypt", "secret"),), ("crypto_LUKS",)
    ),
    "array that runs": Content(
        False, {"fstype": MD}, (child("raid0", "md127"),), (MD,), uuid=FOREIGN
    ),
    "array that lsblk does not show": Content(False, holders=("md127",)),
    "foreign superblock": Content(True, {"fstype": MD}, wipefs=(MD,), uuid=FOREIGN),
    "our superblock": Content(True, {"fstype": MD}, wipefs=(MD,), uuid=OURS),
    "zfs": Content(
        True,
        {"pttype": "gpt"},
        (child("part", "p1", fstype="zfs_member"), child("part", "p9")),
        ("gpt", "PMBR"),
    ),
    "multipath": Content(False, {"fstype": "mpath_member"}, (child("mpath", "mpatha"),)),
    "unreadable": Content(False, unreadable=True),
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """One disk as it is."""

    content: str
    serial: str | None
    wwn: str | None
    model: str
    size_gb: float | None
    transport: str | None
    named: bool  # udev made links of it


SERIALS = st.sampled_from([f"S{number}" for number in range(12)])  # few: some are alike
LAYOUTS = st.builds(
    Layout,
    content=st.sampled_from(sorted(CONTENTS)) | st.just("nothing"),
    serial=SERIALS | st.none(),
    wwn=st.sampled_from(["0x1", "0x2", "eui.3", "eui.4"]) | st.none() | st.none(),
    model=st.sampled_from(["A", "A", "B"]),
    size_gb=st.sampled_from([1920.4, 1920.4, 1920.4, 4000.8, None]),
    transport=st.sampled_from(["nvme", "nvme", "nvme", "sata", "usb", "virtio", "fc", None]),
    named=st.sampled_from([True, True, True, False]),
)
NODES = st.lists(LAYOUTS, min_size=1, max_size=9)


def read(layouts: list[Layout], order: list[int] | None = None) -> tuple[Disk, ...]:
    """What the reader makes of these disks, when the kernel found them in `order`."""
    order = order or list(range(len(layouts)))
    disks = []
    for position, number in enumerate(order):
        disks += _read(layouts[number], f"nvme{position}n1", number)
    return tuple(disks)


def _read(layout: Layout, name: str, number: int) -> list[Disk]:
    content = CONTENTS[layout.content]
    size = None if layout.size_gb is None else int(layout.size_gb * GB)
    entry = {
        "name": name, "type": "disk", "size": size or 1, "serial": layout.serial,
        "wwn": layout.wwn, "model": layout.model, "tran": layout.transport, "mountpoints": [None],
        **content.lsblk, "children": list(content.children),
    }  # fmt: skip
    ids = [f"nvme-{layout.model}_{layout.serial}", f"lvm-pv-uuid-{number}"]
    links = {name: ids if layout.named and layout.serial else ids[1:]}
    (disk,) = reader.parse_lsblk({"blockdevices": [entry]}, links)
    uses, known = reader.parse_wipefs(
        [
            {"type": kind, "uuid": content.uuid if kind in (MD, LVM) else None}
            for kind in content.wipefs
        ]
    )
    if content.unreadable:
        uses = ["content that could not be read: wipefs: exit status 1"]
    held = [f"holder {one}" for one in content.holders]
    disk["in_use"] = list(dict.fromkeys([*disk["in_use"], *held, *uses]))
    disk.update(known)
    if size is None:
        disk["size_bytes"] = None
    if layout.transport is None:  # the name must not tell
        disk["transport"] = None
    return [Disk.model_validate(disk)]


OUR_ARRAY = ("our superblock",)
OUR_VOLUME = ("our origin", "our cache", "our volume, active")


def forbidden(
    layouts: list[Layout], number: int, wipe: list[str], ours: tuple[str, ...] = OUR_ARRAY
) -> bool:
    """Whether a disk must never be written, whatever a rule says; `ours`: what is never erased."""
    layout = layouts[number]
    others = [other for i, other in enumerate(layouts) if i != number]
    if layout.serial is None and layout.wwn is None:
        return True
    if layout.serial and layout.serial in [other.serial for other in others]:
        return True
    if layout.wwn and layout.wwn in [other.wwn for other in others]:
        return True
    if layout.size_gb is None or not layout.named:
        return True
    if layout.content == "nothing":
        return False
    kept = layout.content in ours or not CONTENTS[layout.content].erasable
    return kept or layout.serial not in wipe
