"""The main job as a user runs it, on a rack of nodes known by address and root password alone.

The tests of a class are one story, in order: each starts where the one before it ended.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import Rack
from tests.site import Site, unmet

from nodeprep.resources import site_dir

pytestmark = pytest.mark.lab
BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
GPU_NODES = ["gpu1", "gpu2", "gpu3"]


@pytest.fixture(scope="module")
def site(rack: Rack, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(rack, tmp_path_factory.mktemp("site"))


class TestFromRootPasswordToTheCluster:
    def test_a_plan_of_new_nodes_changes_nothing(self, site: Site) -> None:
        code, nodes = site.document("plan", "--limit", "gpu1")
        assert code == 0
        assert "nccl/package:libnccl2" in nodes["gpu1"]["plan"]["unmet"]
        assert "libnccl2" not in site.rack.run("gpu1", "dpkg-query", "-f", "${Package}\n", "-W")
        assert not site.rack.run("gpu1", "sh", "-c", "getent passwd nodeprep || true")

    def test_provision_takes_every_node_in(self, site: Site) -> None:
        code, nodes = site.document("provision")
        faults = {name: node["fault"] or node["why"] for name, node in nodes.items()}
        assert code == 0, faults
        assert {node["state"] for node in nodes.values()} == {"joined"}
        for name in GPU_NODES:
            proofs = [v for v in nodes[name]["verdicts"] if "/proof:" in v["claim"]]
            assert any(v["verdict"] == "pass" and v["value"] for v in proofs), name
            assert nodes[name]["simulated"], "what a stand-in printed is labelled"

    def test_then_there_is_no_drift(self, site: Site) -> None:
        code, nodes = site.document("drift")
        assert [unmet(node) for node in nodes.values()] == [set()] * len(nodes)
        assert code == 0

    def test_provision_again_runs_no_role(self, site: Site) -> None:
        code, nodes = site.document("provision")
        assert code == 0
        assert all(node["changed"] == [] for node in nodes.values())
        assert {node["state"] for node in nodes.values()} == {"joined"}

    def test_the_accepted_nodes_are_in_the_hostfile(self, site: Site) -> None:
        text = (state(site) / "hostfile").read_text()
        assert re.findall(r"^(\S+) slots=(\d+)", text, re.MULTILINE) == [
            (name, "4") for name in GPU_NODES
        ]

    def test_status_knows_it_offline(self, site: Site) -> None:
        code, nodes = site.document("status")
        assert code == 0
        assert {n: node["state"] for n, node in nodes.items()} == dict.fromkeys(nodes, "joined")

    def test_the_gates_alone_log_in_once_a_node(self, site: Site) -> None:
        before = logins(site)
        code, nodes = site.document("accept")
        assert code == 0, {name: node["why"] for name, node in nodes.items()}
        assert logins(site) == {name: number + 1 for name, number in before.items()}

    def test_what_passes_the_quick_proofs_passes_under_stress(self, site: Site) -> None:
        code, nodes = site.document("accept", "--level", "stress", "--limit", "gpu3")
        assert unmet(nodes["gpu3"]) == set()
        assert (code, nodes["gpu3"]["state"]) == (0, "joined")
        proofs = {v["claim"].partition("proof:")[2] for v in nodes["gpu3"]["verdicts"]}
        assert proofs >= {"gpu.gemm_tf32", "gpu.memory_bandwidth", "nccl.alltoall.busbw"}

    def test_plain_ansible_finds_nothing_to_change(self, site: Site) -> None:
        for mode in (["--check"], []):
            told = site.ansible("--limit", "gpu2,nas1", *mode)
            assert set(re.findall(r"changed=(\d+)", told)) == {"0"}, told
            assert set(re.findall(r"failed=(\d+)", told)) == {"0"}

    def test_the_password_is_nowhere(self, site: Site) -> None:
        secret = site.rack.password.encode()
        files = [path for path in state(site).rglob("*") if path.is_file()]
        assert len(files) > 10
        assert [path for path in files if secret in path.read_bytes()] == []


def logins(site: Site) -> dict[str, int]:
    return {node: site.rack.logins(node) for node in (*GPU_NODES, "nas1")}


def state(site: Site) -> Path:
    return site_dir(site.rack.name)


# One claim of every kind that a lab node can have: how it is broken, and what drift must name.
SABOTAGE = {
    "nvidia_driver/gpu:persistence_mode": "nvidia-smi -pm 0",
    "gpu_tools/package:nvbandwidth": "dpkg --force-hold --purge nvbandwidth",
    "nccl/package:libnccl-dev": "apt-mark unhold libnccl-dev",
    "nccl/file:/etc/nccl.conf": "echo NCCL_SOCKET_IFNAME=docker0 > /etc/nccl.conf",
    "base/directory:/etc/nodeprep": "chmod 0777 /etc/nodeprep",
    "cuda/link:/usr/local/cuda": "ln -sfn /opt /usr/local/cuda",
    "base/sysctl:net.ipv4.tcp_mtu_probing": "sysctl -qw net.ipv4.tcp_mtu_probing=0",
    "nic_tuning/nic:ens5f0": "ethtool -K ens5f0 tso off",
    "base/service:chrony.service": "systemctl -q disable --now chrony",
    "base/output:default limits of services": (
        "cd /etc/systemd/system.conf.d && mv 60-nodeprep-limits.conf /root/ && "
        "systemctl daemon-reexec && mv /root/60-nodeprep-limits.conf ."
    ),
}


APT_STUCK = """
set -e
dpkg --remove nvme-cli
dpkg --remove --force-depends libpopt0
touch /var/lib/dpkg/updates/0001
"""


class TestDrift:
    def test_it_names_exactly_what_was_broken(self, site: Site) -> None:
        for command in SABOTAGE.values():
            site.rack.run("gpu1", "sh", "-c", command)
        code, nodes = site.document("drift")
        expected = set(SABOTAGE)
        if "cuda/output:release of nvcc" in unmet(nodes["gpu1"]):
            expected.add("cuda/output:release of nvcc")  # asked through the broken link
        assert unmet(nodes["gpu1"]) == expected
        assert [unmet(nodes[name]) for name in ("gpu2", "gpu3", "nas1")] == [set()] * 3
        assert nodes["gpu1"]["state"] == "drifted"
        assert code == 2

    def test_it_says_what_was_wanted_and_what_was_read(self, site: Site) -> None:
        told = site.run("drift", "--limit", "gpu1")
        assert told.returncode == 2
        assert "base/sysctl:net.ipv4.tcp_mtu_probing" in told.stdout
        assert "docker0" in site.run("drift", "--limit", "gpu1", "--json").stdout

    def test_fix_mends_exactly_that(self, site: Site) -> None:
        code, nodes = site.document("drift", "--fix")
        assert code == 0, nodes["gpu1"]["fault"]
        assert nodes["gpu1"]["state"] == "joined"
        touched = {line.split(":")[0] for line in nodes["gpu1"]["changed"]}
        assert touched <= {claim.split("/")[0] for claim in SABOTAGE}
        assert all(nodes[name]["changed"] == [] for name in ("gpu2", "gpu3", "nas1"))
        assert site.document("drift")[0] == 0

    def test_a_version_that_is_gone_is_told_with_those_there_are(self, site: Site) -> None:
        """An archive drops a version when the next one comes: inventories outlive their pins."""
        pinned = site.inventory.parent / "host_vars" / "gpu2.yml"
        pinned.parent.mkdir()
        pinned.write_text("nccl_version: 2.16.9-1+cuda12.0\n")
        _, nodes = site.document("provision", "--limit", "gpu2", "--only", "nccl")
        pinned.unlink()
        fault = nodes["gpu2"]["fault"]
        assert fault["type"] == "NodeFault"
        assert "libnccl2=2.16.9-1+cuda12.0 (there: 2.21.5-1+cuda12.4" in fault["message"]
        assert "set a version that is there" in fault["hint"]
        code, nodes = site.document("provision", "--limit", "gpu2")
        assert (code, nodes["gpu2"]["state"]) == (0, "joined")

    def test_what_keeps_apt_from_working_is_mended(self, site: Site) -> None:
        """A dpkg that lost its power, and a library that somebody took away from rsync."""
        site.rack.run("gpu2", "sh", "-c", APT_STUCK)
        assert "base/package:nvme-cli" in unmet(site.document("drift")[1]["gpu2"])
        site.run("drift", "--fix", "--yes", "--limit", "gpu2")
        assert "ii  libpopt0" in site.rack.run("gpu2", "dpkg", "--list", "libpopt0")
        code, nodes = site.document("provision", "--limit", "gpu2")
        assert (code, nodes["gpu2"]["state"]) == (0, "joined")

    def test_an_unreachable_node_is_no_drift(self, site: Site) -> None:
        site.rack.inject("gpu3", "port_refused")
        try:
            code, nodes = site.document("drift")
            assert code == 3
            assert nodes["gpu3"]["fault"]["type"] == "Unreachable"
            assert unmet(nodes["gpu1"]) == set()
        finally:
            site.rack.clear("gpu3")


class TestWhatWasRentedAgainstWhatStandsThere:
    FAULTS = {"gpu1": "gpu_missing", "gpu2": "dimm_missing", "gpu3": "nic_1g"}
    CLAIMS = {"gpu1": "hardware/gpu:count", "gpu2": "hardware/memory:dimms",
              "gpu3": "hardware/nic:ens5f0"}  # fmt: skip

    def test_a_node_that_is_not_what_was_rented_is_stopped_untouched(self, site: Site) -> None:
        site.run("retire", *GPU_NODES)
        site.rack.fresh(*GPU_NODES)
        for node, fault in self.FAULTS.items():
            site.rack.inject(node, fault)
        before = {node: packages(site, node) for node in GPU_NODES}
        code, nodes = site.document("provision")
        assert code == 2
        for node in GPU_NODES:
            assert self.CLAIMS[node] in unmet(nodes[node])
            assert nodes[node]["state"] == "quarantined"
            assert "\n" not in nodes[node]["why"]
            assert packages(site, node) == before[node]
        assert nodes["nas1"]["state"] == "joined"


def packages(site: Site, node: str) -> str:
    return site.rack.run(node, "dpkg-query", "-f", "${Package} ${Version}\n", "-W")


class TestGoingOn:
    def test_ctrl_c_leaves_a_last_word_and_the_next_run_goes_on(self, site: Site) -> None:
        site.rack.clear("gpu1")
        with subprocess.Popen(
            site.command("provision", "--limit", "gpu1"),
            env=site.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as running:  # fmt: skip
            assert running.stdout is not None
            told = ""
            for line in running.stdout:
                told += line
                if "Install packages: changed" in line:
                    running.send_signal(signal.SIGINT)
                    break
            told += running.stdout.read()
        assert running.returncode == 130, told
        assert "stopped by Ctrl-C in stage converge" in told
        assert "Traceback" not in told
        assert leftovers(site) == []
        code, nodes = site.document("provision", "--limit", "gpu1")
        # It converges and passes all of its own; alone among nodes of which none is accepted, it
        # is not let in with its cable unmeasured.
        assert code == 2, nodes["gpu1"]["fault"]
        blocking = unmet(nodes["gpu1"])
        assert blocking
        assert {claim for claim in blocking if not claim.startswith("network/")} == set()
        assert "none is accepted yet" in str(nodes["gpu1"]["verdicts"])

    def test_plain_ansible_reaches_the_same_state(self, site: Site) -> None:
        site.rack.clear("gpu2")
        assert site.run("provision", "--limit", "gpu2", "--to", "reach").returncode == 0
        site.ansible("--limit", "gpu2")
        code, nodes = site.document("drift", "--limit", "gpu2")
        assert unmet(nodes["gpu2"]) == set()
        assert code == 0


def leftovers(site: Site) -> list[str]:
    """Worker processes that a stopped run left behind."""
    for _ in range(50):
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(site.inventory) in line or "nodeprep.converge.worker" in line:
                found.append(line)
        if not found:
            return []
        time.sleep(0.1)
    return found
