"""The role nic_tuning on a node of the lab: set, kept over a boot, and taken back when it kills."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.site import Site, unmet

if TYPE_CHECKING:
    from tests.conftest import Rack

pytestmark = pytest.mark.lab
NODE = "gpu1"
ONLY = ("--only=access", "--only=base", "--only=nic_tuning")


def ring(rack: Rack) -> str:
    text = rack.run(NODE, "ethtool", "-g", "ens5f0").partition("Current")[2]
    found = re.search(r"^RX:\s+(\d+)", text, re.MULTILINE)
    return found.group(1) if found else text


class Tuned:
    """The node, provisioned with one size of the receive ring."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.plain = site.inventory.read_text()

    def wants(self, size: int) -> None:
        values = f"    nic_tuning_rings: {{rx: {size}}}\n    nccl_socket_ifname:"
        self.site.inventory.write_text(self.plain.replace("    nccl_socket_ifname:", values))

    def provision(self) -> str:
        done = self.site.run("provision", "--yes", "--limit", NODE, *ONLY)
        return done.stdout + done.stderr

    def drift(self) -> dict[str, str]:
        """What does not hold of the role, and what was read."""
        _, nodes = self.site.document("drift", "--limit", NODE)
        red = unmet(nodes[NODE])
        read = {v["claim"]: v["read"] for v in nodes[NODE]["verdicts"]}
        return {claim: read[claim] for claim in red if claim.startswith("nic_tuning/")}


@pytest.fixture(scope="module")
def tuned(rack: Rack, tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    return Tuned(Site(rack, tmp_path_factory.mktemp("site")))


@pytest.fixture(autouse=True)
def _healed(rack: Rack) -> Iterator[None]:
    yield
    if rack.status(NODE).faults:
        rack.clear(NODE)


def test_settings_are_set_and_shown_with_the_values_before(rack: Rack, tuned: Tuned) -> None:
    tuned.wants(1024)
    said = tuned.provision()
    assert "channels.combined 63 -> " in said
    assert "rings.rx 512 -> 1024" in said
    assert ring(rack) == "1024"
    assert tuned.drift() == {}


def test_a_second_run_changes_nothing(tuned: Tuned) -> None:
    assert ": changed" not in tuned.provision()


def test_what_somebody_else_changed_is_seen_and_mended(rack: Rack, tuned: Tuned) -> None:
    rack.run(NODE, "ethtool", "-G", "ens5f0", "rx", "256")
    rack.run(NODE, "systemctl", "disable", "nodeprep-nic@ens5f0.service")
    found = tuned.drift()
    assert found.keys() == {
        "nic_tuning/nic:ens5f0",
        "nic_tuning/service:nodeprep-nic@ens5f0.service",
    }
    assert "ring rx 256 of 4096" in found["nic_tuning/nic:ens5f0"]
    tuned.provision()
    assert ring(rack) == "1024"
    assert tuned.drift() == {}


def test_a_setting_that_kills_the_link_is_taken_back_and_reported(rack: Rack, tuned: Tuned) -> None:
    rack.inject(NODE, "nic_setting_kills_link")
    tuned.wants(2048)
    said = tuned.provision()
    assert re.search(r"reverted \(rings\.rx 1024 -> 2048\)", said), said
    assert ring(rack) == "1024"
    assert rack.run(NODE, "cat", "/sys/class/net/ens5f0/carrier").strip() == "1"
    assert rack.run(NODE, "ls", "/etc/nodeprep/nic").split() == ["ens5f0.json.reverted"]
    rack.clear(NODE)
    tuned.wants(1024)
    tuned.provision()
    assert tuned.drift() == {}


def test_a_boot_brings_the_settings_back(rack: Rack, tuned: Tuned) -> None:
    before = rack.run(NODE, "cat", "/proc/sys/kernel/random/boot_id")
    rack.run(NODE, "systemctl", "reboot", check=False)
    _until(lambda: before != rack.run(NODE, "cat", "/proc/sys/kernel/random/boot_id", check=False))
    _until(lambda: ring(rack) == "1024")
    assert tuned.drift() == {}


def _until(what: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(1)
