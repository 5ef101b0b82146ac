"""Real iperf3, ping, chrony and mpirun between lab nodes, and faults that are found and named.

A lab of its own: four nodes, with the tools on them and nothing else of what roles bring.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from tests.conftest import standing
from tests.unit.accept import nodes
from tests.unit.accept.fault_table import outside

from nodeprep import workers
from nodeprep.accept.between.figures import ClockFigures, GroupFigures, PairFigures
from nodeprep.accept.between.rounds import rounds
from nodeprep.accept.between.verdicts import Fleet, is_collective, judge
from nodeprep.lab import faults
from nodeprep.lab import rack as racks
from nodeprep.model.claim import File
from nodeprep.model.event import Event, What
from nodeprep.model.node import Document
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
    " openmpi-bin >/dev/null && echo 'server 10.77.0.1 iburst' > /etc/chrony/conf.d/lab.conf"
    " && systemctl restart chrony && chronyc waitsync 60 0 0 0.5 >/dev/null"
    # The stand-in of all_reduce_perf, and what it believes to be installed.
    " && ln -sf /usr/lib/nodeprep-sim/run /usr/bin/all_reduce_perf"
    " && for part in library kernel nccl; do"
    "      /usr/lib/nodeprep-sim/run installed $part 535.183.06; done"
)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, object]]]:
    """The nodes of a job, reachable as root by a key that they trust."""
    with standing(LAB, gpus=COUNT, nas=0):
        folder, nodes = tmp_path_factory.getbasetemp(), racks.status(LAB).nodes
        key = folder / "between_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        with ThreadPoolExecutor(4) as pool:  # they wait for their time sources, mostly
            yield list(pool.map(lambda node: _member(node, folder), nodes))


def _member(node: racks.NodeStatus, folder: Path) -> dict[str, object]:
    key, known = folder / "between_key", folder / "between_known_hosts"
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
    return {
        "name": node.name, "address": node.address, "connection": connection, "udp_mbps": 1,
        "gpus": 4,
    }  # fmt: skip


def measure(members: list[dict[str, object]], folder: Path) -> tuple[Fleet, list[str]]:
    """What the worker measured, and the rounds that it told."""
    work = {"rounds": rounds(NAMES), "seconds": {"tcp": 1, "udp": 1}}
    return worked(members, folder, work)


def worked(
    members: list[dict[str, object]], folder: Path, work: Mapping[str, object]
) -> tuple[Fleet, list[str]]:
    pairs: list[PairFigures] = []
    clocks: list[ClockFigures] = []
    groups: list[GroupFigures] = []
    told: list[str] = []

    def feed(event: Event) -> None:
        assert event.what is not What.ERROR, event.data
        if event.what is What.NOTE:
            told.append(str(event.data["text"]))
        elif "pair" in event.data:
            pairs.append(PairFigures.model_validate(event.data["pair"]))
        elif "clock" in event.data:
            clocks.append(ClockFigures.model_validate(event.data["clock"]))
        elif "group" in event.data:
            groups.append(GroupFigures.model_validate(event.data["group"]))

    job = {"members": members, **work}
    workers.run("nodeprep.accept.between.worker", job, feed, log=folder / "worker.log")
    gates = dict.fromkeys(NAMES, PROFILE.gates)
    return Fleet(gates=gates, pairs=pairs, clocks=clocks, groups=groups), told


def in_its_words(fault: str, verdict: Verdict) -> None:
    """As docs/faults.md has them."""
    one = outside(fault)
    assert verdict.claim == f"network/proof:{one.proof}"
    assert one.verdict in verdict.reason
    assert one.action in verdict.action


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
    verdicts = [v for all_ in judge(fleet, NAMES).values() for v in all_ if not is_collective(v)]
    assert [(v.claim, v.reason) for v in verdicts if v.verdict != "pass"] == []
    assert len(verdicts) == 4 * COUNT


def faulty(
    members: list[dict[str, object]], folder: Path, **broken: tuple[str, dict[str, str]]
) -> Fleet:
    """What is measured while these nodes have these faults."""
    injected = []
    try:
        for name, (fault, args) in broken.items():
            injected.append(name)
            faults.inject(LAB, name, fault, args)
        return measure(members, folder)[0]
    finally:
        for name in injected:
            faults.clear(LAB, name)


def test_a_slow_link_and_a_lossy_one_are_each_found_by_what_they_do(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    fleet = faulty(members, tmp_path, gpu3=("slow_link", {}), gpu2=("udp_loss", {"percent": "20"}))
    slow, lossy = refused(fleet, "tcp.pairs"), refused(fleet, "udp.loss")
    assert list(slow) == ["gpu3"]
    assert (slow["gpu3"].value or 0) < 0.06  # 50 Mb/s, and what the queue held
    in_its_words("slow_link", slow["gpu3"])
    assert list(lossy) == ["gpu2"]
    in_its_words("udp_loss", lossy["gpu2"])
    assert 5 < (lossy["gpu2"].value or 0) < 50
    assert "to it" in lossy["gpu2"].reason


def test_a_bad_pair_is_a_link_and_a_port_that_swallows_full_packets_is_a_node(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    fleet = faulty(
        members, tmp_path, gpu1=("bad_pair", {"peer": "gpu2"}), gpu4=("mtu_blackhole", {})
    )
    slow, short = refused(fleet, "tcp.pairs"), refused(fleet, "path_mtu")
    assert set(slow) == {"gpu1", "gpu2", "gpu4"}  # no full segment gets through a black hole
    assert list(short) == ["gpu4"], {name: v.reason for name, v in short.items()}
    assert "the link between gpu1 and gpu2" in slow["gpu1"].reason == slow["gpu2"].reason
    in_its_words("bad_pair", slow["gpu1"])
    assert "waiver" in slow["gpu1"].action
    in_its_words("mtu_blackhole", short["gpu4"])


def collective(members: list[dict[str, object]], folder: Path) -> Fleet:
    """Real mpirun, over the worker's own connections; figures of the stand-in's boards."""
    wanted = {"names": NAMES, "new": NAMES, "least": 1.0}
    return worked(members, folder, {"collective": wanted})[0]


def test_a_collective_over_pairs_and_over_all_passes(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    fleet = collective(members, tmp_path)
    assert [group.trouble for group in fleet.groups if group.trouble] == []
    assert fleet.groups[-1].group == tuple(NAMES)
    assert refused(fleet, "nccl.all_reduce") == {}


def test_the_node_and_the_hop_that_make_a_collective_slow_are_found(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    for node, fault, args in (
        ("gpu3", "slow_network", {}),
        ("gpu1", "slow_path", {"peer": "gpu2"}),
    ):
        faults.inject(LAB, node, fault, args)
        try:
            found = refused(collective(members, tmp_path), "nccl.all_reduce")
        finally:
            faults.clear(LAB, node)
        if fault == "slow_network":
            assert list(found) == ["gpu3"]
            in_its_words(fault, found["gpu3"])
        else:
            assert list(found) == ["gpu1", "gpu2"]
            in_its_words(fault, found["gpu1"])
            in_its_words(fault, found["gpu2"])


def test_the_way_to_a_chosen_endpoint_is_told_as_it_is(
    members: list[dict[str, object]], tmp_path: Path
) -> None:
    """gpu2 stands for an endpoint far away, behind a link of 50 Mb/s."""
    folder = tmp_path / "roles" / "base" / "acceptance"
    folder.mkdir(parents=True)
    (folder / "test_wan.py").symlink_to(nodes.ROLES / "base" / "acceptance" / "test_wan.py")
    chosen = File(role="base", name="/etc/nodeprep/wan-endpoints", content="10.77.0.12 5299\n")
    wanted = nodes.document("base", claims=[chosen]).model_dump(mode="json")
    wanted["node"]["connection"] = members[0]["connection"]
    job = nodes.job(Document.model_validate(wanted), folder.parents[1], level="stress")
    told: list[Event] = []
    serve = ["iperf3", "--server", "--daemon", "--port", "5299", "--pidfile", "/run/wan.pid"]
    faults.inject(LAB, "gpu2", "slow_link", {})
    try:
        assert racks.execute(LAB, "gpu2", serve).returncode == 0
        worker = "nodeprep.accept.worker"
        workers.run(worker, job.model_dump(mode="json"), told.append, log=tmp_path / "log")
    finally:
        racks.execute(LAB, "gpu2", ["sh", "-c", "kill $(cat /run/wan.pid)"])
        faults.clear(LAB, "gpu2")
    found = nodes.Outcomes(told).proof("wan.paths")
    assert found.verdict == "pass"  # no gate asks for anything
    rate, rtt = (
        float(re.findall(what, found.read)[0])
        for what in (r"cubic ([\d.]+) Gbit/s", r"([\d.]+) ms")
    )
    assert 0.03 < rate < 0.06
    assert rtt < 100
    assert ", 0 % lost" in found.read


def test_nothing_of_it_is_left_on_the_nodes(members: list[dict[str, object]]) -> None:
    for name in NAMES:
        look = "ls -d /tmp/nodeprep-mpi.* 2>/dev/null; pgrep -a 'orted|mpirun|all_reduce'"
        assert racks.execute(LAB, name, ["sh", "-c", look]).stdout == ""


def test_a_node_that_is_reset_has_a_good_cable_again(members: list[dict[str, object]]) -> None:
    faults.inject(LAB, "gpu4", "mtu_blackhole", {})
    racks.reset(LAB, ["gpu4"])
    ping = ["ping", "-c", "3", "-i", "0.2", "-W", "1", "-M", "do", "-s", "1472", "10.77.0.14"]
    assert racks.execute(LAB, "gpu1", ping).returncode == 0
