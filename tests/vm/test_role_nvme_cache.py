"""The cache of a virtual machine: RAID 0 over the two clean NVMe disks of four, and no other byte.

The tests are one story, in order, on a node that was provisioned; the last leave it with an array
that somebody made anew.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.site import Site, unmet
from tests.vm.conftest import digest, reboot

pytestmark = pytest.mark.vm

ARRAY = "nvme_cache/array:cache"


def untouched(site: Site, foreign: dict[int, str]) -> None:
    """Byte for byte what it was before the first command."""
    assert {number: digest(site.rack, number) for number in foreign} == foreign
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


def test_the_array_is_of_the_clean_disks_and_mounted(
    provisioned: Site, foreign: dict[int, str]
) -> None:
    uuid, serials = array(provisioned)
    assert serials == {"NVME-GPU1-1", "NVME-GPU1-2"}
    line = provisioned.rack.run("gpu1", "findmnt", "-no", "FSTYPE,OPTIONS", "/cache")
    assert line.startswith("xfs")
    assert "noatime" in line
    assert uuid in provisioned.rack.run("gpu1", "cat", "/etc/mdadm/mdadm.conf")
    assert ours(provisioned)[0] == set()
    untouched(provisioned, foreign)


def test_after_a_reboot_it_is_the_same_array(provisioned: Site, foreign: dict[int, str]) -> None:
    provisioned.rack.run("gpu1", "sh", "-c", "echo kept > /cache/shard && sync")
    before = array(provisioned)
    reboot(provisioned.rack, "gpu1")
    assert array(provisioned) == before
    assert provisioned.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"
    assert ours(provisioned)[0] == set()
    untouched(provisioned, foreign)


def test_a_configuration_that_lost_it_is_mended(provisioned: Site) -> None:
    provisioned.rack.run("gpu1", "sed", "-i", "/^ARRAY/d", "/etc/mdadm/mdadm.conf")
    found, _ = ours(provisioned)
    assert {c for c in found if "line of /dev/md/cache" in c}
    assert ours(provisioned, "provision", "--yes", "--only", "nvme_cache")[0] == set()
    assert provisioned.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"


def test_an_array_that_was_stopped_is_started_and_keeps_its_data(provisioned: Site) -> None:
    stop = "systemctl stop cache.mount && mdadm --stop /dev/md/cache"
    provisioned.rack.run("gpu1", "sh", "-c", stop)
    found, node = ours(provisioned, "plan")
    assert ARRAY in found
    assert not any("NVME-GPU1" in disk for disk in node["plan"]["disks"])
    assert ours(provisioned, "provision", "--yes", "--only", "nvme_cache")[0] == set()
    assert provisioned.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"


def test_one_that_somebody_made_anew_is_drift_and_is_left_alone(
    provisioned: Site, foreign: dict[int, str]
) -> None:
    again = (
        "systemctl stop cache.mount && mdadm --stop /dev/md/cache && "
        "mdadm --create /dev/md/cache --run --level=0 --raid-devices=2 --homehost=any "
        "/dev/disk/by-id/nvme-*NVME-GPU1-[12] && udevadm settle"
    )
    provisioned.rack.run("gpu1", "sh", "-c", again)
    made = array(provisioned)
    found, node = ours(provisioned)
    assert ARRAY in found  # the data may still be where it was
    (verdict,) = [v for v in node["verdicts"] if v["claim"] == ARRAY]
    assert "another array has its name" in verdict["reason"]
    found, node = ours(provisioned, "provision", "--yes", "--only", "nvme_cache")
    assert node["fault"]
    assert array(provisioned) == made
    untouched(provisioned, foreign)
