"""From a root password to the cluster on machines with a kernel of their own.

The tests are one story, in order: each starts where the one before it ended.
"""

from __future__ import annotations

import json

import pytest
from tests.conftest import Rack
from tests.site import Site, unmet
from tests.vm.conftest import power_on, reboot

pytestmark = pytest.mark.vm
MOUNT = "nfs_client/mount:/data/training"


def test_the_plan_tells_of_the_reboot_and_of_the_disks(site: Site, foreign: dict[int, str]) -> None:
    assert foreign  # before anything is done
    code, nodes = site.document("plan", "--limit", "gpu1")
    plan = nodes["gpu1"]["plan"]
    assert code == 0, nodes["gpu1"]["fault"]
    assert plan["reboot"]
    assert any("NVME-GPU1-1" in disk for disk in plan["disks"])
    assert not any("NVME-GPU1-3" in disk or "NVME-GPU1-4" in disk for disk in plan["disks"])


def test_provision_reboots_once_and_takes_every_node_in(site: Site) -> None:
    before = boots(site)
    code, nodes = site.document("provision", "--yes")
    why = {name: node["fault"] or node["why"] for name, node in nodes.items()}
    assert code == 0, why
    assert {node["state"] for node in nodes.values()} == {"joined"}, why
    assert len(boots(site) - before) == 1


def boots(site: Site) -> set[str]:
    """The ids of gpu1's boots, as far back as its journal goes; this one's at the least."""
    listed = site.rack.run("gpu1", "journalctl", "--list-boots", "--no-pager", "--output=json")
    return {one["boot_id"] for one in json.loads(listed)}


def test_then_there_is_no_drift(provisioned: Site) -> None:
    code, nodes = provisioned.document("drift")
    assert [unmet(node) for node in nodes.values()] == [set()] * len(nodes)
    assert code == 0


def test_the_nas_is_mounted(provisioned: Site) -> None:
    rack = provisioned.rack
    assert len(rack.run("gpu1", "cat", "/data/training/shard-0000", check=False)) > 0
    assert "nconnect=" in rack.run("gpu1", "grep", "/data/training", "/proc/self/mountinfo")


def test_a_reboot_changes_nothing(provisioned: Site) -> None:
    reboot(provisioned.rack, "gpu1")
    code, nodes = provisioned.document("drift", "--limit", "gpu1")
    assert unmet(nodes["gpu1"]) == set()
    assert code == 0


def test_a_dead_nas_hangs_neither_a_boot_nor_the_reader(provisioned: Site) -> None:
    rack = provisioned.rack
    normal, login = reboot(rack, "gpu1"), login_after(rack)
    rack.execute("nas1", ["poweroff"])
    try:
        late = reboot(rack, "gpu1")
        assert login_after(rack) < login + 30
        # To unmount and to mount are each given up after their own 30 s, which nobody waits for;
        # the rest is the emulation's own spread.
        assert late < normal + 60 + 0.5 * normal
        code, nodes = provisioned.document("drift", "--limit", "gpu1")
    finally:
        power_on(rack)
    assert code == 2
    assert unmet(nodes["gpu1"]) == {MOUNT}
    (verdict,) = [v for v in nodes["gpu1"]["verdicts"] if v["claim"] == MOUNT]
    assert verdict["verdict"] == "unknown", verdict


def login_after(rack: Rack) -> float:
    """Seconds from the kernel's start until users may log in over SSH."""
    units = ("ssh.service", "systemd-user-sessions.service")
    since = rack.run("gpu1", "systemctl", "show", "-P", "ActiveEnterTimestampMonotonic", *units)
    return max(int(when) for when in since.split()) / 1e6


def test_when_the_nas_is_back_its_first_use_mounts_it(provisioned: Site) -> None:
    assert provisioned.rack.run("gpu1", "timeout", "120", "ls", "/data/training")
    code, nodes = provisioned.document("drift")
    assert [unmet(node) for node in nodes.values()] == [set()] * len(nodes)
    assert code == 0
