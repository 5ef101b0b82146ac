"""Who is refused for what was measured between nodes, and in which words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.accept.between.figures import GroupFigures, Trouble
from nodeprep.accept.between.verdicts import Fleet, judge, not_applicable, suspicious
from nodeprep.model.profile import Gate
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.accept.between.fleet import GATES, LINE, fleet, names, unmeasured, verdicts

SLOW = {"tcp": (0.94, 0.94)}  # a link that came up at 1 Gb/s
PROOFS = ("tcp.pairs", "udp.loss", "path_mtu", "clock.offset")


def outcomes(found: dict[str, Verdict]) -> dict[str, str]:
    return {name: verdict.verdict.value for name, verdict in found.items()}


def refused(found: dict[str, Verdict]) -> list[str]:
    return [name for name, verdict in found.items() if verdict.verdict.blocks]


@pytest.mark.parametrize("proof", PROOFS)
def test_a_healthy_fleet_passes(proof: str) -> None:
    found = verdicts(fleet(8), proof)
    assert set(outcomes(found).values()) == {"pass"}
    assert suspicious(fleet(8)) == set()


def test_a_pass_tells_the_worst_peer_its_gate_and_the_matrix() -> None:
    found = verdicts(fleet(4, pairs={("gpu1", "gpu3"): {"tcp": (9.31, LINE)}}))["gpu1"]
    assert (found.value, found.gate, found.unit) == (9.31, 9.0, "Gbit/s")
    assert "with gpu3" in found.read
    assert found.detail["matrix"] == {
        "rows": ["to the peer", "from the peer"],
        "cols": ["gpu2", "gpu3", "gpu4"],
        "values": [[LINE, 9.31, LINE], [LINE, LINE, LINE]],
        "unit": "Gbit/s",
    }


def test_the_matrix_of_the_other_end_is_turned_round() -> None:
    found = verdicts(fleet(4, pairs={("gpu1", "gpu3"): {"tcp": (9.31, LINE)}}))["gpu3"]
    assert found.detail["matrix"]["values"] == [[LINE, LINE, LINE], [9.31, LINE, LINE]]


def test_only_the_slow_node_is_refused_and_told_that_it_is_the_one() -> None:
    found = verdicts(fleet(8, nodes={"gpu5": SLOW}))
    assert refused(found) == ["gpu5"]
    assert "bad with 7 of 7 nodes" in found["gpu5"].reason
    assert "it is this node" in found["gpu5"].reason
    assert "ethtool" in found["gpu5"].action
    assert found["gpu5"].value == 0.94
    assert found["gpu1"].value == LINE
    assert found["gpu1"].detail["notes"] == ["not counted: gpu5, which is bad itself"]


def test_a_bad_link_refuses_both_ends_and_names_the_link() -> None:
    found = verdicts(fleet(8, pairs={("gpu2", "gpu7"): SLOW}))
    assert refused(found) == ["gpu2", "gpu7"]
    for name in ("gpu2", "gpu7"):
        assert "the link between gpu2 and gpu7 0.94 Gbit/s" in found[name].reason
        assert "both are good with others" in found[name].reason
        assert "waiver of network/proof:tcp.pairs" in found[name].action


def test_with_two_nodes_it_is_said_that_nothing_tells_which() -> None:
    found = verdicts(fleet(2, nodes={"gpu2": SLOW}))
    assert refused(found) == ["gpu1", "gpu2"]
    assert "nothing tells which" in found["gpu1"].reason


def test_a_fabric_that_is_slow_throughout_points_at_the_network() -> None:
    found = verdicts(fleet(4, nodes=dict.fromkeys(names(4), SLOW)))
    assert refused(found) == names(4)
    assert "the network they share" in found["gpu1"].reason


def test_one_way_is_enough_and_is_told() -> None:
    found = verdicts(fleet(4, pairs={("gpu1", "gpu2"): {"tcp": (LINE, 0.5)}}))
    assert refused(found) == ["gpu1", "gpu2"]
    assert "(9.41 to it, 0.5 from it)" in found["gpu1"].reason
    assert "(0.5 to it, 9.41 from it)" in found["gpu2"].reason


def test_a_newcomer_is_judged_and_who_stands_is_not() -> None:
    found = judge(fleet(4, nodes={"gpu4": SLOW}), ["gpu4"])
    assert list(found) == ["gpu4"]
    assert found["gpu4"][0].verdict is Outcome.FAIL


def test_a_node_behind_its_sisters_is_named_though_it_clears_the_gate() -> None:
    gates = {name: {**GATES, "network.tcp": GATES["network.tcp"].model_copy(
        update={"fail": 5.0, "warn": None})} for name in names(8)}  # fmt: skip
    found = verdicts(fleet(8, nodes={"gpu5": {"tcp": (8.2, 8.2)}}, gates=gates))
    assert refused(found) == []
    assert "of the rest of the fleet" in found["gpu5"].detail["notes"][0]
    assert "-13%" in found["gpu5"].detail["notes"][0]
    assert found["gpu5"].detail["slow"] == found["gpu5"].detail["notes"][0]
    assert "notes" not in found["gpu1"].detail


def test_a_node_slower_than_when_it_was_accepted_is_named_and_its_clock_is_not() -> None:
    before = {"network/proof:tcp.pairs": 12.0, "network/proof:clock.offset": 0.001}
    found = replace(fleet(3, clocks={"gpu1": {"source_ms": 0.9}}), baselines={"gpu1": before})
    assert any("when last accepted" in n for n in verdicts(found)["gpu1"].detail["notes"])
    assert "notes" not in verdicts(found, "clock.offset")["gpu1"].detail


@pytest.mark.parametrize(
    ("proof", "bad", "word"),
    [
        ("udp.loss", {"loss": (3.1, 0.0)}, "3.1 %"),
        ("path_mtu", {"path_mtu": 1400}, "the interfaces say 1500, the path carries 1400"),
        ("path_mtu", {"path_mtu": 1500, "mtu": (9000, 9000)}, "the path carries 1500"),
    ],
)
def test_what_else_a_bad_node_shows(proof: str, bad: dict[str, object], word: str) -> None:
    found = verdicts(fleet(4, nodes={"gpu2": bad}), proof)
    assert refused(found) == ["gpu2"]
    assert word in found["gpu2"].reason


def test_rate_jitter_and_ceiling_of_udp_are_told_beside_its_loss() -> None:
    found = verdicts(fleet(3, nodes={"gpu2": {"ceiling": (7.5, 9.1)}}), "udp.loss")["gpu2"]
    told = {key: found.detail.get(key) for key in ("sent at", "jitter", "ceiling")}
    assert told == {
        "sent at": "5 Gbit/s",
        "jitter": "0.01 ms at most",
        "ceiling": "7.5 to 9.1 Gbit/s arrived of all that fits",
    }


def test_a_path_that_starves_tcp_is_to_be_mended_first() -> None:
    found = fleet(4, nodes={"gpu2": {"path_mtu": 1400, **SLOW}})
    assert "first mend the path MTU" in verdicts(found)["gpu2"].action
    assert "one MTU on every hop" in verdicts(found, "path_mtu")["gpu2"].action
    assert verdicts(found)["gpu1"].action == ""


def test_the_clock_that_is_another_is_found() -> None:
    found = verdicts(fleet(4, clocks={"gpu3": {"source_ms": -80.0}}), "clock.offset")
    assert refused(found) == ["gpu3"]
    assert "chronyc" in found["gpu3"].action


def test_a_clock_that_chrony_calls_right_is_wrong_when_it_was_seen_to_be() -> None:
    found = verdicts(fleet(4, clocks={"gpu3": {"here_ms": 900.0}}), "clock.offset")
    assert refused(found) == ["gpu3"]


def test_a_clock_seen_through_a_slow_connection_is_not_called_wrong() -> None:
    late = {"here_ms": 40.0, "error_ms": 60.0}
    assert refused(verdicts(fleet(4, clocks={"gpu3": late}), "clock.offset")) == []


class TestUnknown:
    """What was not measured has not passed."""

    @pytest.mark.parametrize("key", ["tcp", "loss", "path_mtu"])
    def test_a_node_without_the_tool_is_unknown_and_its_peers_are_not(self, key: str) -> None:
        proof = {"tcp": "tcp.pairs", "loss": "udp.loss"}.get(key, key)
        missing = unmeasured(key, "iperf3 is missing", "gpu2")
        found = verdicts(fleet(4, nodes={"gpu2": missing}), proof)
        assert outcomes(found)["gpu2"] == "unknown"
        assert refused(found) == ["gpu2"]
        assert "iperf3 is missing" in found["gpu2"].reason

    def test_one_way_alone_is_no_measurement(self) -> None:
        found = verdicts(fleet(2, pairs={("gpu1", "gpu2"): {"tcp": (LINE, None)}}))
        assert set(outcomes(found).values()) == {"unknown"}

    def test_a_pair_that_timed_out_is_unknown_at_both_ends(self) -> None:
        found = verdicts(fleet(4, pairs={("gpu1", "gpu2"): unmeasured("tcp", "did not end")}))
        assert outcomes(found) == {
            "gpu1": "unknown", "gpu2": "unknown", "gpu3": "pass", "gpu4": "pass"
        }  # fmt: skip
        assert "not measured with gpu2: did not end" in found["gpu1"].reason

    def test_a_lost_node_takes_nobody_along(self) -> None:
        gone = unmeasured("tcp", "not measured")
        found = verdicts(fleet(3, nodes={"gpu3": gone}, lost={"gpu3": "no route to gpu3"}))
        assert outcomes(found) == {"gpu1": "pass", "gpu2": "pass", "gpu3": "unknown"}
        assert "no route to gpu3" in found["gpu3"].reason

    def test_what_a_bad_node_did_not_answer_is_not_its_peers_fault(self) -> None:
        pairs = {("gpu1", "gpu3"): unmeasured("tcp", "did not end")}
        found = verdicts(fleet(4, nodes={"gpu3": SLOW}, pairs=pairs))
        assert outcomes(found) == {
            "gpu1": "pass", "gpu2": "pass", "gpu3": "fail", "gpu4": "pass"
        }  # fmt: skip

    def test_whose_only_peer_was_lost_has_shown_nothing(self) -> None:
        gone = unmeasured("tcp", "not measured")
        found = verdicts(fleet(2, nodes={"gpu2": gone}, lost={"gpu2": "no route"}))
        assert outcomes(found)["gpu1"] == "unknown"

    def test_a_gate_that_the_profile_lacks(self) -> None:
        lesser = {name: gate for name, gate in GATES.items() if name != "network.udp.loss"}
        found = verdicts(fleet(3, gates=dict.fromkeys(names(3), lesser)), "udp.loss")
        assert set(outcomes(found).values()) == {"unknown"}
        assert "gates.network.udp.loss" in found["gpu1"].action

    def test_a_clock_without_a_source(self) -> None:
        silent = {"source_ms": None, "trouble": "no source is followed"}
        found = verdicts(fleet(4, clocks={"gpu3": silent}), "clock.offset")
        assert refused(found) == ["gpu3"]
        assert "no source is followed" in found["gpu3"].reason

    def test_nothing_measured_at_all(self) -> None:
        empty = Fleet(gates=dict.fromkeys(names(3), GATES))
        assert {v.verdict for all_ in judge(empty, names(3)).values() for v in all_} == {
            Outcome.UNKNOWN
        }


def test_unlike_nodes_owe_each_other_what_the_lesser_one_owes() -> None:
    fast = {**GATES, "network.tcp": GATES["network.tcp"].model_copy(
        update={"fail": 90.0, "warn": None})}  # fmt: skip
    assert refused(verdicts(fleet(3, gates={"gpu1": fast}))) == []


def test_a_node_alone_is_not_judged_and_the_reason_said() -> None:
    found = not_applicable("nobody to measure with")
    every = [*PROOFS, "nccl.all_reduce"]
    assert [v.claim for v in found] == [f"network/proof:{proof}" for proof in every]
    assert {(v.verdict, v.reason) for v in found} == {
        (Outcome.NOT_APPLICABLE, "nobody to measure with")
    }


def test_bad_and_unknown_pairs_get_a_second_look() -> None:
    pairs: dict[tuple[str, str], dict[str, object]]
    pairs = {("gpu1", "gpu2"): {**SLOW}, ("gpu3", "gpu4"): unmeasured("loss", "did not end")}
    assert suspicious(fleet(4, pairs=pairs)) == set(pairs)


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 20), st.none() | st.floats(0, 20)), min_size=6,
             max_size=6),
)  # fmt: skip
def test_nobody_passes_who_has_a_pair_that_is_bad_and_no_one_elses_fault(
    tcp: list[tuple[float | None, float | None]],
) -> None:
    found_pairs = {pair: {"tcp": ways} for pair, ways in zip(PAIRS_OF_FOUR, tcp, strict=True)}
    found = verdicts(fleet(4, pairs=found_pairs))
    for (a, b), ways in zip(PAIRS_OF_FOUR, tcp, strict=True):
        good = None not in ways and min(w for w in ways if w is not None) >= 9.0
        if not good:
            assert found[a].verdict.blocks or found[b].verdict.blocks


PAIRS_OF_FOUR = [(a, b) for n, a in enumerate(names(4)) for b in names(4)[n + 1 :]]


class TestTogether:
    """all_reduce: by pairs, and by the ring of all."""

    def test_pairs_and_the_whole_pass(self) -> None:
        pairs = [reduced(pair) for pair in (("gpu1", "gpu2"), ("gpu2", "gpu3"), ("gpu3", "gpu1"))]
        found = together(*pairs, reduced(names(3)))
        assert found["gpu1"].verdict is Outcome.PASS
        assert "over 3 nodes together" in found["gpu1"].read

    def test_a_node_whose_pairs_are_all_slow_is_the_reason(self) -> None:
        slow = [reduced(("gpu1", "gpu2"), 0.2), reduced(("gpu2", "gpu3"), 0.2)]
        found = together(*slow, reduced(("gpu3", "gpu1")))
        assert {name for name, v in found.items() if v.verdict.blocks} == {"gpu2"}
        assert "it is this node" in found["gpu2"].reason
        assert "nccl.conf" in found["gpu2"].action

    def test_one_slow_pair_is_a_link(self) -> None:
        good = [reduced(("gpu2", "gpu3")), reduced(("gpu3", "gpu1"))]
        found = together(reduced(("gpu1", "gpu2"), 0.2), *good)
        assert {name for name, v in found.items() if v.verdict.blocks} == {"gpu1", "gpu2"}
        assert "the link between gpu1 and gpu2" in found["gpu1"].reason

    def test_the_second_look_counts(self) -> None:
        found = together(reduced(("gpu1", "gpu2"), 0.2), reduced(("gpu1", "gpu2")), count=2)
        assert not found["gpu1"].verdict.blocks

    def test_a_slow_whole_of_good_pairs_is_what_they_share(self) -> None:
        good = [reduced(pair) for pair in (("gpu1", "gpu2"), ("gpu2", "gpu3"), ("gpu3", "gpu1"))]
        found = together(*good, reduced(names(3), 0.4))
        assert {v.verdict for v in found.values()} == {Outcome.FAIL}
        assert "it is what they share" in found["gpu1"].reason
        assert "uplinks" in found["gpu1"].action

    def test_a_slow_whole_is_not_held_against_those_who_are_good_without_the_culprit(self) -> None:
        slow = [reduced(("gpu1", "gpu2"), 0.2), reduced(("gpu2", "gpu3"), 0.2)]
        good = [reduced(("gpu3", "gpu4")), reduced(("gpu4", "gpu1"))]
        rings = [reduced(names(4), 0.2), reduced(("gpu1", "gpu3", "gpu4"))]
        found = together(*slow, *good, *rings, count=4)
        assert {name for name, v in found.items() if v.verdict.blocks} == {"gpu2"}

    def test_wrong_values_are_no_pass_however_fast(self) -> None:
        found = together(reduced(("gpu1", "gpu2"), wrong=3), count=2)
        assert found["gpu1"].verdict is Outcome.FAIL
        assert "3 wrong values" in found["gpu1"].reason

    @pytest.mark.parametrize("group", [("gpu1", "gpu2"), ("gpu1", "gpu2", "gpu3")])
    def test_what_was_not_measured_has_not_passed(self, group: tuple[str, ...]) -> None:
        trouble = Trouble(why="mpirun is missing", node="gpu1")
        pairs = [reduced(("gpu2", "gpu3")), reduced(("gpu3", "gpu1"))]
        found = together(*pairs, GroupFigures(group=group, trouble=trouble))
        assert found["gpu1"].verdict is Outcome.UNKNOWN or len(group) == 2
        if len(group) == 3:
            assert "mpirun is missing" in found["gpu1"].reason
            assert "MPI=1" in found["gpu1"].action

    def test_nothing_at_all_is_unknown(self) -> None:
        assert {v.verdict for v in together().values()} == {Outcome.UNKNOWN}

    def test_who_has_no_gpus_runs_none(self) -> None:
        found = together(gpuless=["gpu1"])
        assert found["gpu1"].verdict is Outcome.NOT_APPLICABLE

    def test_figures_of_stand_ins_say_so(self) -> None:
        found = together(reduced(("gpu1", "gpu2")), count=2, simulated=["gpu1"])
        assert (found["gpu1"].simulated, found["gpu2"].simulated) == (True, False)


def reduced(group: object, busbw: float = 1.1, wrong: int = 0) -> GroupFigures:
    return GroupFigures.model_validate({"group": group, "busbw": busbw, "wrong": wrong})


def together(*groups: GroupFigures, count: int = 3, **more: object) -> dict[str, Verdict]:
    gate = Gate(fail=1.0, unit="GB/s", source="10 GbE")
    gates = {name: {"nccl.all_reduce.inter_node.busbw": gate} for name in names(count)}
    return verdicts(
        Fleet(gates=gates, groups=groups, **more),  # type: ignore[arg-type]
        "nccl.all_reduce",
    )
