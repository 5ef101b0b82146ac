"""The cache of a virtual machine: RAID 0 over the two clean NVMe disks of four, and no other byte.

The tests are one story, in order, on a node that was provisioned; the last leave it with an array
that somebody made anew.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from tests.site import Site, unmet
from tests.vm.conftest import reboot

from nodeprep.lab.names import NodeName
from nodeprep.lab.state import LabDir

pytestmark = pytest.mark.vm

ARRAY = "nvme_cache/array:cache"


def image(site: Site, number: int) -> Path:
    """The file behind NVMe disk `number` of gpu1."""
    return LabDir(site.rack.name).node(NodeName(kind="gpu", number=1)) / f"nvme{number}"


def digest(site: Site, number: int) -> str:
    site.rack.run("gpu1", "sync")
    with image(site, number).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.fixture(scope="module")
def others(site: Site) -> dict[int, str]:
    """The two disks that carry something, before anything of this file."""
    return {number: digest(site, number) for number in (3, 4)}


@pytest.fixture
def cache(provisioned: Site, others: dict[int, str]) -> Site:
    return provisioned


def untouched(site: Site, others: dict[int, str]) -> None:
    assert {number: digest(site, number) for number in others} == others
    on_disks = site.rack.run("gpu1", "sh", "-c", "wipefs -n /dev/disk/by-id/nvme-*NVME-GPU1-[34]")
    assert {"ext4", "linux_raid_member"} <= set(on_disks.split())


def ours(site: Site, verb: str = "drift", *more: str) -> tuple[set[str], dict[str, Any]]:
    """Claims of the role that do not hold, and the node."""
    _, nodes = site.document(verb, "--limit", "gpu1", *more)
    return {c for c in unmet(nodes["gpu1"]) if c.startswith("nvme_cache/")}, nodes["gpu1"]


def array(site: Site) -> tuple[str, set[str]]:
    """UUID and members' serials of what stands at /dev/md/cache."""
    told = site.rack.run("gpu1", "mdadm", "--detail", "/dev/md/cache")
    uuid = re.search(r"UUID : (\S+)", told)
    assert uuid
    assert "raid0" in told
    names = re.findall(r"/dev/(nvme\d+n\d+)", told)
    serials = site.rack.run("gpu1", "lsblk", "-dno", "SERIAL", *[f"/dev/{n}" for n in names])
    return uuid[1], set(serials.split())


def test_the_array_is_of_the_clean_disks_and_mounted(cache: Site, others: dict[int, str]) -> None:
    uuid, serials = array(cache)
    assert serials == {"NVME-GPU1-1", "NVME-GPU1-2"}
    line = cache.rack.run("gpu1", "findmnt", "-no", "FSTYPE,OPTIONS", "/cache")
    assert line.startswith("xfs")
    assert "noatime" in line
    assert uuid in cache.rack.run("gpu1", "cat", "/etc/mdadm/mdadm.conf")
    assert ours(cache)[0] == set()
    untouched(cache, others)


def test_after_a_reboot_it_is_the_same_array(cache: Site, others: dict[int, str]) -> None:
    cache.rack.run("gpu1", "sh", "-c", "echo kept > /cache/shard && sync")
    before = array(cache)
    reboot(cache.rack, "gpu1")
    assert array(cache) == before
    assert cache.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"
    assert ours(cache)[0] == set()
    untouched(cache, others)


def test_a_configuration_that_lost_it_is_mended(cache: Site) -> None:
    cache.rack.run("gpu1", "sed", "-i", "/^ARRAY/d", "/etc/mdadm/mdadm.conf")
    found, _ = ours(cache)
    assert {c for c in found if "line of /dev/md/cache" in c}
    assert ours(cache, "provision", "--yes", "--only", "nvme_cache")[0] == set()
    assert cache.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"


def test_an_array_that_was_stopped_is_started_and_keeps_its_data(cache: Site) -> None:
    stop = "systemctl stop cache.mount && mdadm --stop /dev/md/cache"
    cache.rack.run("gpu1", "sh", "-c", stop)
    found, node = ours(cache, "plan")
    assert ARRAY in found
    assert not any("NVME-GPU1" in disk for disk in node["plan"]["disks"])
    assert ours(cache, "provision", "--yes", "--only", "nvme_cache")[0] == set()
    assert cache.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"


def test_one_that_somebody_made_anew_is_drift_and_is_left_alone(
    cache: Site, others: dict[int, str]
) -> None:
    again = (
        "systemctl stop cache.mount && mdadm --stop /dev/md/cache && "
        "mdadm --create /dev/md/cache --run --level=0 --raid-devices=2 --homehost=any "
        "/dev/disk/by-id/nvme-*NVME-GPU1-[12] && udevadm settle"
    )
    cache.rack.run("gpu1", "sh", "-c", again)
    made = array(cache)
    found, node = ours(cache)
    assert ARRAY in found  # the data may still be where it was
    (verdict,) = [v for v in node["verdicts"] if v["claim"] == ARRAY]
    assert "another array has its name" in verdict["reason"]
    found, node = ours(cache, "provision", "--yes", "--only", "nvme_cache")
    assert node["fault"]
    assert array(cache) == made
    untouched(cache, others)
