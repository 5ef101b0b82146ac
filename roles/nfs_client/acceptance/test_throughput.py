"""Proof of the NAS: it is read fast enough, past this node's own cache."""

from __future__ import annotations

import shlex

import pytest

from nodeprep.accept.parsers.fio import parse_fio
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.accept.wanted import mounts
from nodeprep.model.claim import Mount
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile

ROLE = "nfs_client"
# A file that is there already is only read. Where there is none yet, one of our own of 1 GiB is
# written and removed. Eight readers, as many as the mount has connections.
SCRIPT = """\
f=$(timeout 60 find {mount} -xdev -type f -size +256M -print -quit 2>/dev/null)
if [ -z "$f" ]; then
    d=$(mktemp -d {folder}) || exit 3
    trap 'kill $job 2>/dev/null; rm -rf "$d"' EXIT
    trap 'exit 143' HUP INT TERM
    f=$d/scratch
    dd if=/dev/zero of="$f" bs=1M count=1024 conv=fsync status=none || exit 4
fi
name=$(printf %s "$f" | sed 's/:/\\\\:/g')
fio --output-format=json --readonly --name=nfs --filename="$name" --rw=read --bs=1M \
 --direct=1 --ioengine=psync --numjobs=8 --offset_increment=12% --runtime=20 --time_based \
 --group_reporting & job=$!
wait $job
"""


@pytest.fixture
def claimed(proof: Proof, profile: Profile, document: Document) -> tuple[Mount, ...]:
    found = mounts(document, ROLE)
    if found and not profile.platform.nfs_mount:
        proof.not_applicable(profile.platform.why, profile="platform.nfs_mount")
    return found


@pytest.mark.proof("nfs.read_throughput", level="stress", timeout_s=300)
def test_it_reads_fast_enough(proof: Proof, claimed: tuple[Mount, ...]) -> None:
    if not claimed:
        proof.holds(True, wanted="every claimed mount", read="no mount is claimed")
        return
    rates = {mount.name: _rate(proof, mount) for mount in claimed}
    slowest = min(rates, key=lambda name: rates[name])
    proof.measured(
        "nfs.read_throughput",
        rates[slowest],
        at=f"from {slowest}",
        action="compare network.tcp to the NAS; check nconnect, rsize and the NAS's own disks",
    )


def _rate(proof: Proof, mount: Mount) -> float:
    """GB/s."""
    kind = proof.run(["stat", "-f", "-c", "%T", mount.name], timeout_s=40).strip()
    if not kind.startswith("nfs"):
        raise Unknown(f"{mount.name} is {kind}, not NFS")
    places = {"mount": mount.name, "folder": f"{mount.name}/.nodeprep-fio.XXXXXX"}
    script = SCRIPT.format(**{name: shlex.quote(place) for name, place in places.items()})
    jobs = parse_fio(proof.run(script, timeout_s=200))
    return jobs[0].read.bytes_per_second / 1e9
