"""Every fault that can be injected: refused for its cause with what to do, or harmless and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodeprep.accept.between.figures import GroupFigures
from nodeprep.lab import hostfaults
from nodeprep.lab.sim.faults import CATALOGUE
from nodeprep.lab.sim.models import MODELS
from nodeprep.model.profile import Gate
from nodeprep.model.verdict import Outcome
from tests.unit.accept.between.fleet import fleet, verdicts
from tests.unit.accept.fault_table import CASES, OUTSIDE, Case, Outside
from tests.unit.accept.nodes import ROOT, profile
from tests.unit.accept.simulated import inject, judged, passed, red, server

BOARDS = sorted(set(MODELS) - {"nas"})


def named(case: Case) -> str:
    return "-".join((case.fault, *(f"{key}={value}" for key, value in case.args.items())))


def test_the_table_is_whole() -> None:
    """Who adds a fault says here what comes of it."""
    cases, outside = {case.fault for case in CASES}, {case.fault for case in OUTSIDE}
    assert cases | outside == {*CATALOGUE, *hostfaults.CATALOGUE}
    assert not cases & outside
    assert len({named(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", OUTSIDE, ids=lambda case: case.fault)
def test_what_one_board_does_not_show_is_proven_elsewhere(case: object) -> None:
    text = (ROOT / case.test).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert case.fault in text  # type: ignore[attr-defined]


def reduced(*slow: tuple[str, str]) -> tuple[GroupFigures, ...]:
    ring = (("gpu1", "gpu2"), ("gpu2", "gpu3"), ("gpu3", "gpu4"), ("gpu4", "gpu1"))
    return tuple(GroupFigures(group=p, busbw=0.1 if p in slow else 1.1) for p in ring)


# What is measured of four nodes with the fault, as tests/integration/test_between.py has seen it.
BETWEEN = {
    "slow_network": replace(fleet(4), groups=reduced(("gpu2", "gpu3"), ("gpu3", "gpu4"))),
    "slow_path": replace(fleet(4), groups=reduced(("gpu1", "gpu2"))),
    "slow_link": fleet(4, nodes={"gpu3": {"tcp": (0.05, 0.05)}}),
    "bad_pair": fleet(4, pairs={("gpu1", "gpu2"): {"tcp": (0.05, 0.05)}}),
    "mtu_blackhole": fleet(4, nodes={"gpu4": {"path_mtu": 1400, "tcp": (None, None)}}),
    "udp_loss": fleet(4, nodes={"gpu2": {"loss": (0.0, 10.0)}}),
}
GUILTY = {"slow_network": ["gpu3"], "slow_link": ["gpu3"], "mtu_blackhole": ["gpu4"],
          "udp_loss": ["gpu2"]}  # fmt: skip


@pytest.mark.parametrize("one", [one for one in OUTSIDE if one.proof], ids=lambda one: one.fault)
def test_a_fault_between_nodes_is_refused_in_these_words(one: Outside) -> None:
    found = BETWEEN[one.fault]
    inter = Gate(fail=1.0, unit="GB/s", source="10 GbE")
    gates = {n: {**g, "nccl.all_reduce.inter_node.busbw": inter} for n, g in found.gates.items()}
    blocked = {
        name: verdict
        for name, verdict in verdicts(replace(found, gates=gates), one.proof).items()
        if verdict.verdict.blocks
    }
    assert sorted(blocked) == GUILTY.get(one.fault, ["gpu1", "gpu2"])
    for verdict in blocked.values():
        assert one.verdict in verdict.reason
        assert one.action in verdict.action


@pytest.mark.parametrize("case", [case for case in CASES if case.red], ids=named)
def test_a_fault_is_refused_for_its_cause(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = server(tmp_path / "node", case.model)
    inject(one, case.fault, **case.args)
    outcomes = judged(one, profile(case.model), monkeypatch, level=case.level)
    found = red(outcomes)
    assert not outcomes.done["accepted"]
    for name, cause in case.red.items():
        assert name in found, sorted(found)
        said = f"{found[name].reason} {found[name].read}"
        assert cause in said, said
    first = found[next(iter(case.red))]
    assert first.action, first
    assert case.action in first.action, first.action
    for verdict in found.values():
        assert verdict.reason, verdict


@pytest.mark.parametrize("case", [case for case in CASES if case.harmless], ids=named)
def test_what_is_harmless_is_accepted(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = server(tmp_path / "node", case.model)
    inject(one, case.fault, **case.args)
    outcomes = judged(one, profile(case.model), monkeypatch)
    assert {name: v.reason for name, v in red(outcomes).items()} == {}
    assert outcomes.done["accepted"]


# Versions of the tools, of one time each.
VERSIONS = {
    "470": {"driver": "470.256.02", "nccl-tests": "2.11.0", "nvbandwidth": "0.2"},
    "525": {"driver": "525.147.05", "nccl-tests": "2.13.9", "nvbandwidth": "0.2"},
    "535": {"driver": "535.183.06", "nccl-tests": "2.13.10", "nvbandwidth": "0.4"},
    "550": {"driver": "550.127.08", "nccl-tests": "2.14.1", "nvbandwidth": "0.5"},
    "560": {"driver": "560.35.03", "nccl-tests": "2.15.2", "nvbandwidth": "0.6"},
    "570": {"driver": "570.133.20", "nccl-tests": "2.16.9", "nvbandwidth": "0.7"},
    "580": {"driver": "580.95.05", "nccl-tests": "2.17.6", "nvbandwidth": "0.8"},
}


@pytest.mark.parametrize("model", BOARDS)
@pytest.mark.parametrize("branch", VERSIONS)
def test_a_healthy_board_is_accepted_whatever_the_versions_of_its_tools(
    model: str, branch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = VERSIONS[branch]
    one = server(tmp_path / "node", model, versions)
    outcomes = judged(one, profile(model), monkeypatch, versions["driver"])
    blocked = {name: v.reason for name, v in red(outcomes).items()}
    assert blocked == {}
    assert "nvidia_driver/proof:gpu.ecc" in passed(outcomes)


@pytest.mark.parametrize("branch", VERSIONS)
@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("ecc_volatile_uncorrectable", "gpu.ecc"),
        ("ecc_sram_aggregate", "gpu.ecc"),
        ("hw_slowdown", "gpu.throttle"),
        ("power_cap", "gpu.power_limit"),
        ("remap_pending", "gpu.memory_repair"),
        ("nvlink_down", "gpu.nvlink"),
        ("zombie_process", "gpu.unused"),
    ],
)
def test_a_fault_is_seen_whatever_the_version(
    branch: str, fault: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = VERSIONS[branch]
    one = server(tmp_path / "node", versions=versions)
    inject(one, fault)
    outcomes = judged(
        one, profile("a100-sxm4-40g-x4"), monkeypatch, versions["driver"], ("nvidia_driver",)
    )
    assert red(outcomes)[name].verdict is Outcome.FAIL
