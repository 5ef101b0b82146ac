"""Proofs of the local disks: they give back what was written; an array keeps its members busy."""

from __future__ import annotations

import shlex

import pytest

from nodeprep.accept import scratch
from nodeprep.accept.proof import Proof
from nodeprep.model.claim import Array, Filesystem
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile
from nodeprep.model.reading import NodeReading

ROLE = "nvme_cache"
TIME_S = 300
# Written past the page cache, read past it, and gone afterwards.
SCRIPT = """\
d=$(mktemp -d {folder}) || exit 3
trap 'rm -rf "$d"' EXIT
trap 'exit 143' HUP INT TERM
dd if=/dev/urandom of="$d/data" bs=1M count=16 oflag=direct status=none || exit 4
written=$(sha256sum < "$d/data")
sync "$d/data"
read=$(dd if="$d/data" bs=1M iflag=direct status=none | sha256sum)
[ "$written" = "$read" ] && echo same || echo differs
"""


@pytest.fixture
def filesystems(proof: Proof, profile: Profile, document: Document) -> tuple[Filesystem, ...]:
    """A site without local volumes claims none: then all of none hold."""
    found = tuple(c for c in document.claims_of(ROLE) if isinstance(c, Filesystem))
    if found and not profile.platform.own_disks:
        proof.not_applicable(profile.platform.why, profile="platform.own_disks")
    if not found:
        proof.holds(True, wanted="every claimed volume", read="no volume is claimed")
    return found


@pytest.mark.proof("cache.write", timeout_s=120)
def test_what_is_written_is_read_again(proof: Proof, filesystems: tuple[Filesystem, ...]) -> None:
    for claim in filesystems:
        kind = proof.run(["findmnt", "-n", "-o", "FSTYPE", "-M", claim.name]).strip()
        folder = shlex.quote(f"{claim.name}/.nodeprep.XXXXXX")
        said = proof.run(SCRIPT.format(folder=folder), timeout_s=60).strip()
        proof.holds(
            kind == "xfs" and said == "same",
            wanted=f"{claim.name} is xfs and gives back what was written",
            read=f"{claim.name} is {kind}, what is read {said}",
            source="the claimed filesystems",
            action="read the kernel's log, then the disk's health (smartctl -a)",
        )


@pytest.mark.proof("cache.scaling", level="stress", timeout_s=TIME_S)
def test_an_array_is_as_fast_as_its_members(
    proof: Proof,
    document: Document,
    reading: NodeReading,
    filesystems: tuple[Filesystem, ...],
) -> None:
    arrays = {c.name: c for c in document.claims_of(ROLE) if isinstance(c, Array)}
    where = scratch.place(document, reading) if filesystems else ""
    claim = next((one for one in filesystems if one.name == where), None)
    array = arrays.get(claim.array or "") if claim else None
    if array is None:
        if filesystems:
            proof.holds(True, wanted="every claimed array", read="the cache is no array")
        return
    jobs = scratch.measure(proof, where, TIME_S - 10)
    proof.measured(
        "storage.random_read_iops_per_member",
        jobs["random"].read.iops / array.disks.count,
        at=f"of {array.disks.count} at {where}",
        action="look at each member's PCIe link (nvme list, lspci -vv) and at the IRQs' spread",
    )
