"""What lies between nodes is proven before anybody is let in, and refuses who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.unit.accept.between.fleet import figures
from tests.unit.inventory import site
from tests.unit.pipeline.world import Feed, World

from nodeprep import pipeline, workers
from nodeprep.accept.between.search import search
from nodeprep.errors import ToolFailure
from nodeprep.inventory import profiles
from nodeprep.inventory import roles as role_files
from nodeprep.model.event import Event, What
from nodeprep.model.profile import Profile
from nodeprep.model.run import RunResult
from nodeprep.pipeline import Options
from nodeprep.pipeline.between import udp_mbps

PROFILE = """
name: fast
gates:
  network.tcp: {fail: 9.0, unit: Gbit/s, source: a test}
  network.udp.loss: {fail: 0.1, unit: "%", better: lower, source: a test}
  network.path_mtu: {fail: 1500, unit: bytes, source: a test}
  network.clock.offset: {fail: 10, unit: ms, better: lower, source: a test}
"""
GPUS = """
  nccl.all_reduce.inter_node.busbw: {fail: 1.0, unit: GB/s, source: a test}
parts:
  gpus: {count: 4, model: A100, pci_id: "10de:20b0", memory_mib: 40960, power_limit_w: 400,
         board: mesh}
"""
MODULE = "nodeprep.accept.between.worker"
Provision = Callable[..., RunResult]


class Cabled(World):
    """A world whose nodes have cables: `slow` pairs, for so many looks; `lost` nodes."""

    def __init__(self) -> None:
        super().__init__(fresh={"gpu1", "gpu2", "gpu3", "gpu4", "nas1"})
        self.slow: dict[frozenset[str], int] = {}
        self.lost: set[str] = set()
        self.broken_off = False
        self.looks: list[list[tuple[str, str]]] = []
        self.busy: set[str] = set()
        self.members: list[dict[str, Any]] = []
        self.slow_rings: set[str] = set()  # nodes that make a collective slow
        self.rings: list[tuple[str, ...]] = []

    def run(self, module: str, job: Mapping[str, Any], feed: Feed, *, log: Path) -> None:
        if module != MODULE:
            super().run(module, job, feed, log=log)
            return
        self.members += job["members"]
        for member in job["members"]:
            if member["standing"] and member["name"] in self.busy:
                data = {"aside": member["name"], "why": "at work: 4 processes on its GPUs"}
                feed(Event(what=What.DONE, data=data))
        if "collective" in job:
            self.collective(job["collective"], feed)
            return
        pairs = [tuple(pair) for one in job["rounds"] for pair in one]
        self.looks.append(pairs)
        for name in self.lost:
            data = {"type": "Unreachable", "message": f"no route to {name}", "hint": ""}
            feed(Event(what=What.ERROR, node=name, data=data))
        if self.broken_off:
            raise ToolFailure("the worker died")
        for member in job["members"]:
            clock = {"node": member["name"], "source_ms": 0.1}
            feed(Event(what=What.DONE, data={"clock": clock}))
        for a, b in pairs:
            if {a, b} & (self.lost | self.busy):
                continue
            left = self.slow.get(frozenset((a, b)), 0)
            self.slow[frozenset((a, b))] = left - 1
            found = figures(a, b, **({"tcp": (0.5, 0.5)} if left > 0 else {}))
            feed(Event(what=What.DONE, data={"pair": found.model_dump(mode="json")}))
        feed(Event(what=What.DONE, data={"ended": True}))

    def collective(self, wanted: Mapping[str, Any], feed: Feed) -> None:
        asking = search(wanted["names"], wanted["new"])
        answers = None
        while True:
            try:
                step = next(asking) if answers is None else asking.send(answers)
            except StopIteration:
                break
            answers = {}
            for group in step:
                self.rings.append(group)
                busbw = 0.2 if set(group) & self.slow_rings else 1.1
                answers[group] = busbw >= wanted["least"]
                feed(Event(what=What.DONE, data={"group": {"group": group, "busbw": busbw}}))
        feed(Event(what=What.DONE, data={"ended": True}))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cabled:
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODEPREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NODEPREP_BOOTSTRAP_PASSWORD", "hunter22")
    role_files.role.cache_clear()
    profiles.profile.cache_clear()
    world = Cabled()
    monkeypatch.setattr(workers, "run", world.run)
    monkeypatch.setattr(workers, "run_each", world.run_each)
    return world


@pytest.fixture
def provision(world: World, tmp_path: Path) -> Provision:
    """A site of four nodes with cables, and a NAS whose profile asks nothing of its own."""
    return site_of(tmp_path)


@pytest.fixture
def with_gpus(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provision:
    """The same, where the profile tells of GPUs and how fast they speak to those of others."""
    monkeypatch.setattr("nodeprep.judge.hardware.compare", lambda *_, **__: ())
    return site_of(tmp_path, GPUS)


def site_of(tmp_path: Path, extra: str = "") -> Provision:
    path = site.write(tmp_path)
    text = path.read_text().replace("gpu[1:2]:", "gpu[1:4]:")
    text = text.replace("      vars:\n", "      vars:\n        nodeprep_profile: fast\n", 1)
    path.write_text(text)
    (path.parent / "profiles" / "fast.yaml").write_text(PROFILE + extra)
    folder = tmp_path / "state" / "sites" / "small"
    folder.mkdir(parents=True)
    (folder / "id_ed25519").touch()

    def call(**changes: object) -> RunResult:
        chosen = Options(**{"inventory": path, **changes})  # type: ignore[arg-type]
        return pipeline.provision(chosen, lambda _: None, lambda: None, lambda _: True)

    return call


def states(result: RunResult) -> dict[str, str]:
    return {node.name: node.state.value for node in result.nodes}


def claims(result: RunResult, name: str) -> dict[str, str]:
    node = next(node for node in result.nodes if node.name == name)
    return {v.claim: v.verdict.value for v in node.verdicts if v.role == "network"}


def of(*nodes: str) -> list[frozenset[str]]:
    gpus = ["gpu1", "gpu2", "gpu3", "gpu4"]
    return [frozenset(pair) for pair in combinations(gpus, 2) if set(pair) & set(nodes)]


def test_all_pairs_of_new_nodes_are_measured_and_they_join(
    provision: Provision, world: Cabled
) -> None:
    result = provision()
    assert set(states(result).values()) == {"joined"}
    assert [len(pairs) for pairs in world.looks] == [6]
    found = claims(result, "gpu1")
    assert found.pop("network/proof:nccl.all_reduce") == "not_applicable"  # no GPUs were rented
    assert set(found.values()) == {"pass"}
    assert len(found) == 4


def test_a_node_whose_profile_asks_nothing_is_left_out_and_it_is_said(
    provision: Provision,
) -> None:
    assert set(claims(provision(), "nas1").values()) == {"not_applicable"}


def test_the_node_at_the_bad_cable_is_kept_out_alone(provision: Provision, world: Cabled) -> None:
    world.slow = dict.fromkeys(of("gpu3"), 9)
    result = provision()
    assert {name for name, state in states(result).items() if state != "joined"} == {"gpu3"}
    assert states(result)["gpu3"] == "quarantined"
    assert result.exit_code == 2
    assert "network/proof:tcp.pairs" in result.nodes[2].why


def test_a_bad_link_keeps_both_ends_out(provision: Provision, world: Cabled) -> None:
    world.slow = {frozenset(("gpu1", "gpu4")): 9}
    found = states(provision())
    assert {name for name, state in found.items() if state != "joined"} == {"gpu1", "gpu4"}


def test_bad_pairs_get_a_second_look_and_no_other(provision: Provision, world: Cabled) -> None:
    world.slow = {frozenset(("gpu1", "gpu4")): 1}
    result = provision()
    assert set(states(result).values()) == {"joined"}
    assert [{frozenset(pair) for pair in pairs} for pairs in world.looks[1:]] == [
        {frozenset(("gpu1", "gpu4"))}
    ]


def test_who_is_in_already_is_measured_with_newcomers_alone(
    provision: Provision, world: Cabled
) -> None:
    world.stubborn = {"greet/package:greet"}
    world.fresh -= {"gpu1", "gpu2", "gpu3"}
    provision()
    assert [len(pairs) for pairs in world.looks] == [3]
    world.stubborn = set()
    result = provision()
    assert states(result)["gpu4"] == "joined"
    assert {frozenset(pair) for pair in world.looks[-1]} == set(of("gpu4"))
    assert claims(result, "gpu1") == {}


class TestAlone:
    """--limit to a single node lets nobody in unmeasured."""

    @pytest.fixture
    def joined(self, provision: Provision, world: Cabled) -> Provision:
        """gpu2 to gpu4 are in; gpu1 was held back."""
        world.stubborn = {"greet/package:greet"}
        world.fresh = {"gpu1"}
        assert states(provision())["gpu1"] != "joined"
        world.stubborn, world.looks, world.members = set(), [], []
        return provision

    def test_it_is_measured_with_nodes_outside_the_run(
        self, joined: Provision, world: Cabled
    ) -> None:
        result = joined(limit="gpu1")
        assert states(result) == {"gpu1": "joined"}
        assert [{frozenset(pair) for pair in pairs} for pairs in world.looks] == [set(of("gpu1"))]
        assert {m["name"]: (m["standing"], m["spare"]) for m in world.members} == {
            "gpu1": (False, False),
            **dict.fromkeys(("gpu2", "gpu3", "gpu4"), (True, True)),
        }

    def test_its_bad_cable_keeps_it_out_and_the_others_as_they_were(
        self, joined: Provision, world: Cabled
    ) -> None:
        world.slow = dict.fromkeys(of("gpu1"), 9)
        result = joined(limit="gpu1")
        assert states(result) == {"gpu1": "quarantined"}
        (verdict,) = (v for v in result.nodes[0].verdicts if v.claim == "network/proof:tcp.pairs")
        assert verdict.verdict.value == "fail"
        assert "it is this node" in verdict.reason

    def test_nodes_at_work_are_left_alone(self, joined: Provision, world: Cabled) -> None:
        world.busy = {"gpu2", "gpu4"}
        assert states(joined(limit="gpu1")) == {"gpu1": "joined"}

    def test_it_waits_until_one_of_them_is_idle(self, joined: Provision, world: Cabled) -> None:
        world.busy = {"gpu2", "gpu3", "gpu4"}
        result = joined(limit="gpu1")
        assert states(result) == {"gpu1": "quarantined"}
        (verdict,) = (v for v in result.nodes[0].verdicts if v.claim == "network/proof:tcp.pairs")
        assert verdict.verdict.value == "unknown"
        assert "no node that is in already was free" in verdict.reason
        assert "gpu3: at work" in verdict.reason
        assert "drain it" in verdict.action
        world.busy = set()
        assert states(joined(limit="gpu1")) == {"gpu1": "joined"}

    def test_one_outside_the_run_that_does_not_answer_is_no_fault_of_the_run(
        self, joined: Provision, world: Cabled
    ) -> None:
        world.lost = {"gpu2"}
        result = joined(limit="gpu1")
        assert (result.exit_code, states(result)) == (0, {"gpu1": "joined"})

    def test_the_first_of_several_is_not_let_in_unmeasured(self, provision: Provision) -> None:
        result = provision(limit="gpu1")
        assert states(result) == {"gpu1": "quarantined"}
        assert result.exit_code == 2
        verdicts = [v for v in result.nodes[0].verdicts if v.role == "network"]
        assert {v.verdict.value for v in verdicts} == {"unknown"}
        assert "none is accepted yet" in verdicts[0].reason
        assert "together with another" in verdicts[0].action

    def test_the_only_node_of_a_site_has_nobody_to_be_measured_with(
        self, provision: Provision, tmp_path: Path
    ) -> None:
        (path,) = (p for p in tmp_path.rglob("*.y*ml") if "gpu[1:4]:" in p.read_text())
        path.write_text(path.read_text().replace("gpu[1:4]:", "gpu1:"))
        result = provision()
        assert states(result)["gpu1"] == "joined"
        assert set(claims(result, "gpu1").values()) == {"not_applicable"}


class TestCollectives:
    def test_pairs_then_all_of_them_run_and_pass(self, with_gpus: Provision, world: Cabled) -> None:
        result = with_gpus()
        assert claims(result, "gpu2")["network/proof:nccl.all_reduce"] == "pass"
        assert world.rings[-1] == ("gpu1", "gpu2", "gpu3", "gpu4")
        assert set(states(result).values()) == {"joined"}

    def test_the_node_that_makes_them_slow_is_kept_out_alone(
        self, with_gpus: Provision, world: Cabled
    ) -> None:
        world.slow_rings = {"gpu3"}
        found = states(with_gpus())
        assert {name for name, state in found.items() if state != "joined"} == {"gpu3"}

    def test_who_has_a_bad_cable_is_not_tried_and_slows_nobody(
        self, with_gpus: Provision, world: Cabled
    ) -> None:
        world.slow = dict.fromkeys(of("gpu4"), 9)
        result = with_gpus()
        assert claims(result, "gpu4")["network/proof:nccl.all_reduce"] == "unknown"
        assert claims(result, "gpu1")["network/proof:nccl.all_reduce"] == "pass"
        assert all("gpu4" not in ring for ring in world.rings)


def test_a_node_that_gets_lost_takes_nobody_along(provision: Provision, world: Cabled) -> None:
    world.lost = {"gpu2"}
    result = provision()
    assert {name for name, state in states(result).items() if state != "joined"} == {"gpu2"}
    assert result.exit_code == 3


def test_a_measurement_that_breaks_off_lets_nobody_in(provision: Provision, world: Cabled) -> None:
    world.broken_off = True
    found = states(provision())
    assert {name for name, state in found.items() if state == "joined"} == {"nas1"}


@pytest.mark.parametrize(
    ("parts", "mbps"),
    [
        ({"nics": [{"name": "ens5f0", "speed_mbps": 10000}]}, 5000),
        ({"nics": [{"name": "ens5f0", "speed_mbps": 100000}]}, 5000),
        ({"nics": [{"name": "ens5f0", "speed_mbps": 1000}]}, 500),
        ({}, 50),
    ],
)
def test_udp_is_offered_at_half_the_line_and_no_faster_than_a_receiver_takes(
    parts: dict[str, Any], mbps: float
) -> None:
    assert udp_mbps(Profile.model_validate({"name": "x", "parts": parts})) == mbps


def test_the_profile_may_say_how_much_udp_a_node_must_receive() -> None:
    gate = {"fail": 0.01, "unit": "Gbit/s", "source": "a test"}
    profile = Profile.model_validate({"name": "x", "gates": {"network.udp.rate": gate}})
    assert udp_mbps(profile) == 10
