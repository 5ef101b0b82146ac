"""The role nic_tuning on a node of the lab: set, kept over a boot, and taken back when it kills."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Rack

pytestmark = pytest.mark.lab
NODE = "gpu1"
ROLES = ("access", "base", "nic_tuning")
Run = Callable[..., str]


def ring(rack: Rack) -> str:
    text = rack.run(NODE, "ethtool", "-g", "ens5f0").partition("Current")[2]
    found = re.search(r"^RX:\s+(\d+)", text, re.MULTILINE)
    return found.group(1) if found else text


@pytest.fixture(scope="module")
def provision(rack: Rack, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Provisions the node with one size of the receive ring, and gives what was said."""
    plain = rack.inventory(tmp_path_factory.mktemp("site")).read_text()

    def run(size: int, verb: str = "provision") -> str:
        values = f"    nccl_socket_ifname: ens5f0\n    nic_tuning_rings: {{rx: {size}}}\n"
        site = tmp_path_factory.mktemp("site") / "site.yaml"
        site.write_text(plain.replace("    nccl_socket_ifname: ens5f0\n", values))
        only = [f"--only={role}" for role in ROLES] if verb == "provision" else []
        argv = [str(Path(sys.executable).parent / "nodeprep"), verb, str(site), "--limit", NODE]
        done = subprocess.run(
            [*argv, *only, *(["--yes"] if only else [])],
            env={
                "NODEPREP_BOOTSTRAP_PASSWORD": rack.password,
                "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
                "HOME": str(Path.home()),
                "COLUMNS": "400",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        return done.stdout + done.stderr

    return run


@pytest.fixture(autouse=True)
def _healed(rack: Rack) -> Iterator[None]:
    yield
    if rack.status(NODE).faults:
        rack.clear(NODE)


def test_settings_are_set_and_shown_with_the_values_before(rack: Rack, provision: Run) -> None:
    said = provision(1024)
    assert "channels.combined 63 -> " in said
    assert "rings.rx 512 -> 1024" in said
    assert ring(rack) == "1024"
    assert "nic_tuning/" not in provision(1024, "drift")


def test_a_second_run_changes_nothing(rack: Rack, provision: Run) -> None:
    said = provision(1024)
    assert "converge done" not in said or "nic_tuning:" not in said


def test_what_somebody_else_changed_is_seen_and_mended(rack: Rack, provision: Run) -> None:
    rack.run(NODE, "ethtool", "-G", "ens5f0", "rx", "256")
    rack.run(NODE, "systemctl", "disable", "nodeprep-nic@ens5f0.service")
    said = provision(1024, "drift")
    assert "ring rx 256 of 4096" in said
    assert "nic_tuning/service:nodeprep-nic@ens5f0.service" in said
    provision(1024)
    assert ring(rack) == "1024"


def test_a_setting_that_kills_the_link_is_taken_back_and_reported(
    rack: Rack, provision: Run
) -> None:
    rack.inject(NODE, "nic_setting_kills_link")
    said = provision(2048)
    assert re.search(r"reverted \(rings\.rx 1024 -> 2048\)", said), said
    assert ring(rack) == "1024"
    assert rack.run(NODE, "cat", "/sys/class/net/ens5f0/carrier").strip() == "1"
    assert rack.run(NODE, "sh", "-c", "ls /etc/nodeprep/nic").split() == ["ens5f0.json.reverted"]
    rack.clear(NODE)


def test_a_boot_brings_the_settings_back(rack: Rack, provision: Run) -> None:
    provision(1024)
    before = rack.run(NODE, "cat", "/proc/sys/kernel/random/boot_id")
    rack.run(NODE, "systemctl", "reboot", check=False)
    _until(lambda: before != rack.run(NODE, "cat", "/proc/sys/kernel/random/boot_id", check=False))
    _until(lambda: ring(rack) == "1024")
    assert "nic_tuning/" not in provision(1024, "drift")


def _until(what: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(1)
