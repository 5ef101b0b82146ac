"""Where a disk may be measured, and fio on a scratch file there that is gone afterwards.

Never a raw device: what is read is a file of our own in a folder of our own, on a filesystem that
is mounted already and has room for it.
"""

from __future__ import annotations

import re
import shlex

from nodeprep.accept.parsers.fio import FioJob, parse_fio
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.claim import Mount
from nodeprep.model.hardware import Disk
from nodeprep.model.node import Document
from nodeprep.model.profile import DiskPart
from nodeprep.model.reading import NodeReading

OWN_DISK = "/var/tmp"  # noqa: S108 - kept on disk by every distribution, unlike /tmp
SIZE = 4 << 30  # bytes: more than a disk's own cache holds
ROOM = 2  # times the file that must be free, so that nobody else runs out of space
_NO_DISK = re.compile(
    r"^(nfs|cifs|smb|tmpfs|ramfs|overlay|squashfs|fuse(?!blk)|ceph|lustre|gpfs|beegfs|9p|virtiofs"
    r"|wekafs|panfs|dvs|cvfs|glusterfs|orangefs|pvfs2|afs|autofs)"
)
# Removed by the trap however it ends, but for KILL: the node sends TERM first when time is over.
SCRIPT = """\
d=$(mktemp -d {folder}) || exit 3
trap 'kill $job 2>/dev/null; rm -rf "$d"' EXIT
trap 'exit 143' HUP INT TERM
fio --output-format=json --directory="$d" --filename=scratch --size={size} \
 --ioengine=libaio --direct=1 --group_reporting --runtime=20 --time_based --randrepeat=0 \
 --name=sequential --rw=read --bs=1M --iodepth=32 \
 --name=random --stonewall --new_group --rw=randread --norandommap --bs=4k --iodepth=64 \
 --numjobs=4 & job=$!
wait $job
"""


def place(document: Document, reading: NodeReading) -> str:
    """A folder on the cache disk, or on the node's own where none was rented.

    Unknown when a cache disk was rented and nothing of it is mounted: another disk's figures would
    say nothing about it.
    """
    local = [
        claim.name
        for claim in document.claims
        if isinstance(claim, Mount) and claim.applies and not _NO_DISK.match(claim.fstype)
    ]
    cache = next((p for p in document.node.profile.parts.disks if p.use == "cache"), None)
    if local:
        return next((name for name in local if "cache" in name), local[0])
    if cache is None:
        return OWN_DISK
    hardware = reading.hardware
    disks = (hardware.disks if hardware else None) or ()
    mounted = [point for disk in disks if _is(cache, disk) for point in _points(disk)]
    if not mounted:
        raise Unknown(
            "the cache disk that was rented is mounted nowhere, so it was not measured",
            action="mount it, or claim its mount in a role; then accept again",
        )
    return mounted[0]


def measure(proof: Proof, where: str, timeout_s: float) -> dict[str, FioJob]:
    """Jobs `sequential` (1 MiB reads) and `random` (4 KiB reads), both past the page cache."""
    # Of what is mounted over an automount the last is on top.
    kind = proof.run(["findmnt", "-n", "-o", "FSTYPE", "-T", where]).split()[-1]
    if _NO_DISK.match(kind):
        raise Unknown(f"{where} is {kind}, which is no disk of the node's own")
    free = proof.run(["df", "-B1", "--output=avail", where]).split()[-1]
    if not free.isdecimal() or int(free) < ROOM * SIZE:
        raise Unknown(
            f"{where} has {free} bytes free, {ROOM * SIZE} are needed", action="make room"
        )
    folder = shlex.quote(f"{where}/.nodeprep-fio.XXXXXX")
    text = proof.run(SCRIPT.format(folder=folder, size=SIZE), timeout_s=timeout_s, once=True)
    jobs = {job.name: job for job in parse_fio(text)}
    if jobs.keys() != {"sequential", "random"}:
        raise Unknown(f"fio measured {', '.join(sorted(jobs)) or 'nothing'}")
    return jobs


def _is(part: DiskPart, disk: Disk) -> bool:
    if part.transport not in ("any", disk.transport) or disk.size_bytes is None:
        return False
    return abs(disk.size_bytes / 1e9 - part.size_gb) <= part.tolerance * part.size_gb


def _points(disk: Disk) -> list[str]:
    """Mount points; the root only when there is no other, for the OS may share the disk."""
    points = [
        use.removeprefix("mounted at ") for use in disk.in_use if use.startswith("mounted at ")
    ]
    return sorted((point for point in points if not point.startswith("/boot")), reverse=True)
