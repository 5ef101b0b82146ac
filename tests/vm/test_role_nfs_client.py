"""What is read of the NAS is kept on the NVMe cache, where the site says so (FS-Cache).

In order: each test starts where the one before it ended; the last leaves the node as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Rack
from tests.site import Site, unmet
from tests.vm.conftest import reboot

pytestmark = pytest.mark.vm

CACHE = "/cache/fscache"
SETTINGS = f"    nfs_client_fscache: true\n    nfs_client_fscache_dir: {CACHE}\n"
SERVICE = "nfs_client/service:nodeprep-fscache.service"
MOUNT = "nfs_client/mount:/data/training"
SHARD = "/data/training/shard-0000"
SIZE = 4 << 20
# The pages that the kernel itself keeps are dropped, so that a read goes to a disk or to the NAS.
READ = f"sync; echo 3 >/proc/sys/vm/drop_caches; cat {SHARD} | sha256sum"
# Bytes that came over the network: the sixth figure of the mount's line, as read(2) asked the NAS.
FETCHED = "awk '/mounted on \\/data\\/training /{on=1} on && /bytes:/{print $6; exit}'"


@pytest.fixture(scope="module")
def caching(provisioned: Site) -> Iterator[Site]:
    """The site with the cache asked for; its inventory is put back afterwards."""
    plain, marker = provisioned.inventory.read_text(), "    nccl_socket_ifname:"
    assert marker in plain
    provisioned.inventory.write_text(plain.replace(marker, f"{SETTINGS}{marker}", 1))
    yield provisioned
    withdraw(provisioned)


def withdraw(site: Site) -> None:
    site.inventory.write_text(site.inventory.read_text().replace(SETTINGS, ""))


def ours(site: Site, verb: str, *more: str) -> set[str]:
    _, nodes = site.document(verb, "--limit", "gpu1", *more)
    assert not nodes["gpu1"]["fault"], nodes["gpu1"]["fault"]
    return {claim for claim in unmet(nodes["gpu1"]) if claim.startswith("nfs_client/")}


def fetched(rack: Rack) -> int:
    """Bytes that the NAS was asked for since it was mounted."""
    return int(rack.run("gpu1", "sh", "-c", f"{FETCHED} /proc/self/mountstats"))


def read(rack: Rack) -> tuple[str, int]:
    """Digest of the shard, and how many bytes of it came from the NAS."""
    before = fetched(rack)
    digest = rack.run("gpu1", "sh", "-c", READ)
    return digest, fetched(rack) - before


def test_without_a_cache_each_read_goes_to_the_nas(provisioned: Site) -> None:
    first, second = read(provisioned.rack), read(provisioned.rack)
    assert first[0] == second[0]
    assert min(first[1], second[1]) >= SIZE


def test_to_ask_for_it_is_drift_and_provision_makes_it(caching: Site) -> None:
    assert {SERVICE, MOUNT} <= ours(caching, "drift")
    assert ours(caching, "provision", "--yes", "--only", "nfs_client") == set()
    assert ours(caching, "drift") == set()


def test_what_was_read_once_comes_from_the_local_disk(caching: Site) -> None:
    first = read(caching.rack)
    assert first[1] >= SIZE
    second = read(caching.rack)
    assert second[0] == first[0]
    assert second[1] < SIZE / 10
    assert int(caching.rack.run("gpu1", "du", "-s", "-B1", CACHE).split()[0]) >= SIZE


def test_a_reboot_keeps_it(caching: Site) -> None:
    before = read(caching.rack)[0]
    reboot(caching.rack, "gpu1")
    assert ours(caching, "drift") == set()
    digest, from_nas = read(caching.rack)
    assert digest == before
    assert from_nas < SIZE / 10


def test_a_cache_that_is_switched_off_is_drift_and_mended(caching: Site) -> None:
    caching.rack.run("gpu1", "systemctl", "disable", "--now", "nodeprep-fscache.service")
    assert ours(caching, "drift") == {SERVICE}
    assert ours(caching, "drift", "--fix", "--yes") == set()


def test_it_is_taken_out_again(caching: Site) -> None:
    rack = caching.rack
    withdraw(caching)
    assert ours(caching, "drift") == {"nfs_client/file:/etc/systemd/system/data-training.mount"}
    assert ours(caching, "provision", "--yes", "--only", "nfs_client") == set()
    rack.run("gpu1", "systemctl", "restart", "data-training.mount")
    assert ",fsc," not in rack.run("gpu1", "grep", "/data/training", "/proc/self/mountinfo")
    rack.run("gpu1", "systemctl", "disable", "--now", "nodeprep-fscache.service")
    assert ours(caching, "drift") == set()
