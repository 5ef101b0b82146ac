"""What changed since the last run: states, checks that turned, figures that moved."""

from __future__ import annotations

from typing import Any

from tests.unit.report import sample

from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report.changes import NodeChange, changes


def verdict(claim: str = "a/file:b", outcome: Outcome = Outcome.PASS, **other: Any) -> Verdict:
    return Verdict(claim=claim, role="a", verdict=outcome, **other)


def figure(value: float | None, **detail: Any) -> Verdict:
    return verdict("a/proof:speed", value=value, unit="GB/s", detail=detail)


def node(*verdicts: Verdict, state: State = State.JOINED, **other: Any) -> NodeResult:
    return NodeResult(name="n", state=state, verdicts=verdicts, **other)


def changed(then: NodeResult, now: NodeResult) -> NodeChange | None:
    found = changes(sample.run("drift", now), sample.run("drift", then))
    assert found is not None
    return found.nodes[0] if found.nodes else None


def test_the_same_run_twice_is_no_change() -> None:
    found = changes(sample.run(), sample.run())
    assert found is not None
    assert not found


def test_without_an_earlier_run_nothing_is_said() -> None:
    assert changes(sample.run(), None) is None
    assert changes(sample.run("drift", node()), sample.run("drift", sample.nas())) is None


def test_a_state_that_changed() -> None:
    found = changed(node(), node(state=State.DRIFTED))
    assert found is not None
    assert found.state == (State.JOINED, State.DRIFTED)


def test_checks_that_turned_red_and_green() -> None:
    bad, good = verdict(outcome=Outcome.FAIL), verdict()
    red, green = changed(node(good), node(bad)), changed(node(bad), node(good))
    assert red is not None
    assert green is not None
    assert (red.red, red.green) == ((bad,), ())
    assert (green.red, green.green) == ((), (good,))


def test_what_is_still_red_did_not_turn() -> None:
    assert changed(node(verdict(outcome=Outcome.UNKNOWN)), node(verdict(outcome=Outcome.FAIL))) is (
        None
    )


def test_a_new_check_that_fails_turned_red_but_not_after_a_run_that_judged_nothing() -> None:
    bad = verdict(outcome=Outcome.FAIL)
    found = changed(node(verdict("a/file:other")), node(verdict("a/file:other"), bad))
    assert found is not None
    assert found.red == (bad,)
    assert changed(node(), node(bad)) is None


def test_figures_that_moved_by_more_than_five_percent() -> None:
    assert changed(node(figure(100)), node(figure(95))) is None
    found = changed(node(figure(100, better="higher")), node(figure(94, better="higher")))
    assert found is not None
    assert [str(moved) for moved in found.moved] == [
        "a/proof:speed: 100 GB/s, now 94 GB/s (-6.0 %)"
    ]
    assert found.moved[0].worse


def test_better_figures_and_figures_without_a_direction_are_not_worse() -> None:
    for before, after, better in ((100, 120, "higher"), (100, 80, "lower"), (100, 80, None)):
        found = changed(node(figure(before)), node(figure(after, better=better)))
        assert found is not None
        assert not found.moved[0].worse


def test_a_figure_that_is_gone_or_was_nothing_did_not_move() -> None:
    assert changed(node(figure(100)), node(figure(None))) is None
    assert changed(node(figure(0)), node(figure(5))) is None


def test_a_node_that_stopped_and_one_that_goes_on() -> None:
    fault = sample.silent().fault
    stopped, back = changed(node(), node(fault=fault)), changed(node(fault=fault), node())
    assert stopped is not None
    assert back is not None
    assert stopped.fault.startswith("stopped: 10.77.0.13")
    assert back.fault.startswith("stopped no more by: 10.77.0.13")


def test_nodes_that_were_not_in_the_earlier_run_are_named() -> None:
    found = changes(sample.run(), sample.run("provision", sample.joined()))
    assert found is not None
    assert found.strangers == ("gpu2", "gpu3", "nas1")
