"""Real iperf3, ping and chrony between lab nodes, and faults of cables that are found and named.

A lab of its own: four nodes, with the tools on them and nothing else of what roles bring.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from nodeprep import workers
from nodeprep.accept.between.figures import ClockFigures, PairFigures
from nodeprep.accept.between.rounds import rounds
from nodeprep.accept.between.verdicts import Fleet, judge
from nodeprep.errors import LabUnavailable
from nodeprep.lab import faults
from nodeprep.lab import rack as racks
from nodeprep.model.event import Event, What
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Verdict
from nodeprep.resources import data_dir

pytestmark = pytest.mark.lab
LAB = "between"
COUNT = int(os.environ.get("NODEPREP_TEST_BETWEEN", "4"))
NAMES = [f"gpu{n}" for n in range(1, COUNT + 1)]
PROFILE = Profile.model_validate(
    yaml.safe_load((data_dir() / "inventory/profiles/lab-a100-sxm4-40g-x4.yaml").read_text())
)
TOOLS = (
    "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y iperf3 chrony"
    " >/dev/null && echo 'server 10.77.0.1 iburst' > /etc/chrony/conf.d/lab.conf"
    " && systemctl restart chrony && chronyc waitsync 60 0 0 0.5 >/dev/null"
)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, object]]]:
    """The nodes of a job, reachable as root by a key that they trust."""
    try:
        racks.down(LAB)  # of a session that was killed
        racks.up(LAB, gpus=COUNT, nas=0)
    except LabUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"the lab cannot start: {reason}")
        pytest.skip(f"the lab cannot start: {reason}")
    try:
        yield [_member(node, tmp_path_factory.getbasetemp()) for node in racks.status(LAB).nodes]
    finally:
        racks.down(LAB)


def _member(node: racks.NodeStatus, folder: Path) -> dict[str, object]:
    key, known = folder / "between_key", folder / "between_known_hosts"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text()
    script = f"mkdir -p /root/.ssh && echo '{public}' > /root/.ssh/authorized_keys && {TOOLS}"
    done = racks.execute(LAB, node.name, ["sh", "-c", script], timeout_s=300)
    assert done.returncode == 0, done.stderr
    host_key = racks.execute(LAB, node.name, ["cat", "/etc/ssh/ssh_host_ed25519_key.pub"]).stdout
    with known.open("a") as file:
        file.write(f"[{node.host}]:{node.port} {host_key}")
    connection = {
        "host": node.host, "port": node.port, "user": "root", "key_file": str(key),
        "known_hosts": str(known),
    }  # fmt: skip
    return {"name": node.name, "address": node.address, "connection": connection, "udp_mbps": 10}


def measure(members: list[dict[str, object]], folder: Path) -> tuple[Fleet, list[str]]:
    """What the worker measured, and the rounds that it told."""
    pairs: list[PairFigures] = []
    clocks: list[ClockFigures] = []
    told: list[str] = []

    def feed(event: Event) -> None:
        assert event.what is not What.ERROR, event.data
        if event.what is What.NOTE:
            told.append(str(event.data["text"]))
        elif "pair" in event.data:
            pairs.append(PairFigures.model_validate(event.data["pair"]))
        elif "clock" in event.data:
            clocks.append(ClockFigures.model_validate(event.data["clock"]))

    job = {"members": members, "rounds": rounds(NAMES), "seconds": {"tcp": 1, "udp": 1}}
    workers.run("nodeprep.accept.between.worker", job, feed, log=folder / "worker.log")
    gates = dict.fromkeys(NAMES, PROFILE.gates)
    return Fleet(gates=gates, pairs=pairs, clocks=clocks), told


def refused(fleet: Fleet, proof: str) -> dict[str, Verdict]:
    found = [(name, v) for name, all_ in judge(fleet, NAMES).items() for v in all_]
    return {n: v for n, v in found if v.claim == f"network/proof:{proof}" and v.verdict.blocks}


def test_every_pair_of_a_healthy_rack_is_measured_and_passes(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    fleet, told = measure(members, tmp_path)
    assert len(told) == COUNT - 1
    assert {frozenset(p.pair) for p in fleet.pairs} == set(map(frozenset, combinations(NAMES, 2)))
    assert [p.troubles for p in fleet.pairs if p.troubles] == []
    assert {p.path_mtu for p in fleet.pairs} == {1500}
    verdicts = [v for all_ in judge(fleet, NAMES).values() for v in all_]
    assert [(v.claim, v.reason) for v in verdicts if v.verdict != "pass"] == []
    assert len(verdicts) == 4 * COUNT


def test_cables_that_are_slow_short_and_lossy_are_each_found_by_what_they_do(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    broken = {"gpu3": ("slow_link", {}), "gpu4": ("mtu_blackhole", {}),
              "gpu2": ("udp_loss", {"percent": "20"})}  # fmt: skip
    for name, (fault, args) in broken.items():
        faults.inject(LAB, name, fault, args)
    try:
        fleet, _ = measure(members, tmp_path)
    finally:
        for name in broken:
            faults.clear(LAB, name)
    slow, short, lossy = (refused(fleet, proof) for proof in ("tcp.pairs", "path_mtu", "udp.loss"))
    assert list(slow) == ["gpu3"]
    assert (slow["gpu3"].value or 0) < 0.06
    assert "it is this node" in slow["gpu3"].reason
    assert list(short) == ["gpu4"]
    assert "the interfaces say 1500, the path carries 1400" in short["gpu4"].reason
    assert list(lossy) == ["gpu2"]
    assert 5 < (lossy["gpu2"].value or 0) < 40


def test_a_bad_pair_is_the_link_between_both(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    faults.inject(LAB, "gpu1", "bad_pair", {"peer": "gpu2"})
    try:
        fleet, _ = measure(members, tmp_path)
    finally:
        faults.clear(LAB, "gpu1")
    found = refused(fleet, "tcp.pairs")
    assert list(found) == ["gpu1", "gpu2"]
    assert all("the link between gpu1 and gpu2" in v.reason for v in found.values())
    assert "waiver" in found["gpu1"].action


def test_a_node_that_is_reset_has_a_good_cable_again(members: list[dict[str, object]]) -> None:
    faults.inject(LAB, "gpu4", "mtu_blackhole", {})
    racks.reset(LAB, ["gpu4"])
    ping = ["ping", "-c", "3", "-i", "0.2", "-W", "1", "-M", "do", "-s", "1472", "10.77.0.14"]
    assert racks.execute(LAB, "gpu1", ping).returncode == 0
