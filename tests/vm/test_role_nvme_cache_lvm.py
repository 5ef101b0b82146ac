"""An LVM cache on a virtual machine of its own: one NVMe disk is the origin, another its cache.

The tests are one story, in order; the last takes the cache's disk out of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import Rack, standing
from tests.site import Site, unmet
from tests.vm.conftest import digest, reboot

pytestmark = pytest.mark.vm

LAB = "testlvm"
CLAIM = "nvme_cache/cached_volume:cache"
ARRAY = "            level: 0\n            disks: {count: 2, transport: nvme, size_gb: 1.07}\n"
CACHED = (
    "            disks: {ids: [NVME-GPU1-1]}\n            cache: {disks: {ids: [NVME-GPU1-2]}}\n"
)


@pytest.fixture(scope="module")
def machine() -> Iterator[Rack]:
    with standing(LAB, gpus=1, nas=1, tier="vm", instead="NODEPREP_TEST_LVM_LAB") as found:
        yield found


@pytest.fixture(scope="module")
def foreign(machine: Rack) -> dict[int, str]:
    return {number: digest(machine, number) for number in (3, 4)}


@pytest.fixture(scope="module")
def cached(
    machine: Rack, foreign: dict[int, str], tmp_path_factory: pytest.TempPathFactory
) -> Site:
    """A site whose cache is a cached volume, after the first provision of its disks."""
    site = Site(machine, tmp_path_factory.mktemp("lvm-site"), timeout_s=3600)
    text = site.inventory.read_text()
    assert ARRAY in text
    site.inventory.write_text(text.replace(ARRAY, CACHED))
    assert ours(site, "provision", "--yes", "--only", "nvme_cache")[0] == {}
    return site


def ours(site: Site, verb: str = "drift", *more: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Reasons of the role's claims that do not hold, and the node."""
    _, nodes = site.document(verb, "--limit", "gpu1", *more)
    node = nodes["gpu1"]
    assert node["verdicts"], node["fault"] or node["why"]
    reasons = {v["claim"]: v["reason"] for v in node["verdicts"]}
    return {c: reasons[c] for c in unmet(node) if c.startswith("nvme_cache/")}, node


def volume(site: Site) -> list[str]:
    """Type and mode of /dev/cache/data, and the serials under it."""
    told = site.rack.run("gpu1", "lvs", "--noheadings", "-o", "segtype,cache_mode", "cache/data")
    disks = site.rack.run("gpu1", "pvs", "--noheadings", "-o", "pv_name", "-S", "vg_name=cache")
    serials = site.rack.run("gpu1", "lsblk", "-dno", "SERIAL", *disks.split()).split()
    return told.split() + sorted(serials)  # the kernel's names move between boots


def test_it_is_made_of_the_two_disks_and_mounted(cached: Site, foreign: dict[int, str]) -> None:
    kind, mode, *serials = volume(cached)
    assert (kind, mode) == ("cache", "writethrough")
    assert set(serials) == {"NVME-GPU1-1", "NVME-GPU1-2"}
    line = cached.rack.run("gpu1", "findmnt", "-no", "SOURCE,FSTYPE", "/cache")
    assert line.split() == ["/dev/mapper/cache-data", "xfs"]
    assert ours(cached)[0] == {}
    assert {number: digest(cached.rack, number) for number in foreign} == foreign


def test_after_a_reboot_it_is_the_same_volume(cached: Site) -> None:
    cached.rack.run("gpu1", "sh", "-c", "echo kept > /cache/shard && sync")
    before = volume(cached)
    reboot(cached.rack, "gpu1")
    assert volume(cached) == before
    assert cached.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"
    assert ours(cached)[0] == {}


def test_one_that_was_deactivated_is_started_and_keeps_its_data(cached: Site) -> None:
    cached.rack.run("gpu1", "sh", "-c", "systemctl stop cache.mount && vgchange -an cache")
    found, node = ours(cached, "plan")
    assert found[CLAIM] == "it is not active"
    assert not any("NVME-GPU1" in disk for disk in node["plan"]["disks"])
    assert ours(cached, "provision", "--yes", "--only", "nvme_cache")[0] == {}
    assert cached.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"


def test_a_lost_cache_is_told_and_loses_nothing(cached: Site, foreign: dict[int, str]) -> None:
    lose = (
        "systemctl stop cache.mount && vgchange -an cache &&"
        " d=$(readlink -e /dev/disk/by-id/nvme-*NVME-GPU1-2) &&"
        " echo 1 > /sys/block/${d##*/}/device/device/remove"
    )
    cached.rack.run("gpu1", "sh", "-c", lose)
    assert "its cache disk is missing" in ours(cached)[0][CLAIM]
    _, node = ours(cached, "provision", "--yes", "--only", "nvme_cache")
    assert node["changed"] == []  # a disk is missing: not the machine that was rented
    uncache = (
        "lvconvert --yes --uncache cache/data && vgchange -ay cache && systemctl start cache.mount"
    )
    cached.rack.run("gpu1", "sh", "-c", uncache)
    assert cached.rack.run("gpu1", "cat", "/cache/shard") == "kept\n"
    assert {number: digest(cached.rack, number) for number in foreign} == foreign
