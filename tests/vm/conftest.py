"""Virtual machines: one GPU node and a NAS, brought up once and provisioned once.

NODEPREP_TEST_VM_LAB=name uses a lab that is up already, as it stands, and leaves it up. Everything
is emulated, so a step that takes a second on a real node takes ten here.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import pytest
from tests.conftest import Rack, standing
from tests.site import Site

from nodeprep.errors import NodeprepError
from nodeprep.lab import rack as racks
from nodeprep.lab.names import NodeName
from nodeprep.lab.state import LabDir

VM_LAB = "testvm"
_REBOOT_TIMEOUT_S = 600


@pytest.fixture(scope="session")
def vms() -> Iterator[Rack]:
    with standing(VM_LAB, gpus=1, nas=1, tier="vm", instead="NODEPREP_TEST_VM_LAB") as found:
        yield found


@pytest.fixture(scope="session")
def site(vms: Rack, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(vms, tmp_path_factory.mktemp("vm-site"), timeout_s=3600)


@pytest.fixture(scope="session")
def foreign(site: Site) -> dict[int, str]:
    """Digests of the two NVMe disks that carry something, taken before anything was done."""
    return {number: digest(site.rack, number) for number in (3, 4)}


@pytest.fixture(scope="session")
def provisioned(site: Site, foreign: dict[int, str]) -> Site:
    """The site after `nodeprep provision --yes`: every node joined."""
    code, nodes = site.document("provision", "--yes")
    why = {name: node["fault"] or node["why"] for name, node in nodes.items()}
    assert code == 0, why
    assert {node["state"] for node in nodes.values()} == {"joined"}, why
    return site


def digest(rack: Rack, number: int) -> str:
    """Of all bytes of the file behind NVMe disk `number` of gpu1."""
    rack.run("gpu1", "sync")
    image = LabDir(rack.name).node(NodeName(kind="gpu", number=1)) / f"nvme{number}"
    with image.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def power_on(rack: Rack) -> None:
    """Start what was switched off, as a person would at the power button."""
    racks.up(rack.name, gpus=1, nas=1, tier="vm")


def boot_id(rack: Rack, node: str) -> str:
    return rack.run(node, "cat", "/proc/sys/kernel/random/boot_id").strip()


def reboot(rack: Rack, node: str) -> float:
    """Reboot a node from within; seconds until it answers again and has finished to boot."""
    before, started = boot_id(rack, node), time.monotonic()
    rack.execute(
        node,
        [
            "systemd-run",
            "--on-active=1",
            "--timer-property=AccuracySec=100ms",
            "systemctl",
            "reboot",
        ],
    )
    return _until_up(rack, node, before, started)


def _until_up(rack: Rack, node: str, before: str, started: float) -> float:
    while time.monotonic() - started < _REBOOT_TIMEOUT_S:
        time.sleep(2)
        try:
            if boot_id(rack, node) != before:
                rack.execute(node, ["systemctl", "is-system-running", "--wait"])
                return time.monotonic() - started
        except (NodeprepError, AssertionError):  # it is on its way
            continue
    raise AssertionError(f"{node} did not come back within {_REBOOT_TIMEOUT_S} s")
