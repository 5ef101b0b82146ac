"""Whose fault it is: a node that is bad with most of the others is; one bad pair is a link."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.accept.between.attribution import Blame, blame, slow_nodes, slow_pairs
from nodeprep.accept.between.rounds import Pair

EIGHT = [f"gpu{n}" for n in range(1, 9)]


def pairs(names: list[str]) -> list[Pair]:
    return list(combinations(names, 2))


def of(names: list[str], *nodes: str) -> list[Pair]:
    """All pairs of these nodes."""
    return [pair for pair in pairs(names) if set(pair) & set(nodes)]


def test_nothing_bad_nobody_to_blame() -> None:
    assert blame(pairs(EIGHT), []) == Blame()


def test_the_node_that_all_bad_pairs_have_in_common_is_named_alone() -> None:
    assert blame(pairs(EIGHT), of(EIGHT, "gpu5")) == Blame(nodes=("gpu5",))


def test_two_bad_nodes_are_both_found() -> None:
    assert blame(pairs(EIGHT), of(EIGHT, "gpu5", "gpu2")) == Blame(nodes=("gpu2", "gpu5"))


def test_most_of_its_pairs_are_enough() -> None:
    bad = of(EIGHT, "gpu5")[:5]
    assert blame(pairs(EIGHT), bad).nodes == ("gpu5",)


def test_a_node_bad_with_a_few_only_is_not_it() -> None:
    bad = of(EIGHT, "gpu5")[:2]
    assert blame(pairs(EIGHT), bad) == Blame(links=tuple(bad))


def test_one_bad_pair_is_the_link_between_both() -> None:
    found = blame(pairs(EIGHT), [("gpu2", "gpu7")])
    assert found == Blame(links=(("gpu2", "gpu7"),))
    assert found.of("gpu7") == (("gpu2", "gpu7"),)
    assert found.of("gpu1") == ()


def test_a_bad_node_and_a_bad_link_elsewhere_are_told_apart() -> None:
    bad = [*of(EIGHT, "gpu5"), ("gpu1", "gpu2")]
    assert blame(pairs(EIGHT), bad) == Blame(nodes=("gpu5",), links=(("gpu1", "gpu2"),))


def test_of_three_nodes_the_one_in_both_bad_pairs_is_it() -> None:
    names = ["a", "b", "c"]
    assert blame(pairs(names), of(names, "b")) == Blame(nodes=("b",))


def test_between_two_nodes_it_cannot_be_told() -> None:
    assert blame([("a", "b")], [("a", "b")]) == Blame(links=(("a", "b"),))


def test_a_fabric_that_is_bad_throughout_is_nobodys_alone() -> None:
    assert blame(pairs(EIGHT), pairs(EIGHT)).nodes == tuple(EIGHT)


def test_pairs_of_a_node_known_to_be_bad_say_nothing_of_its_peers() -> None:
    names = ["a", "b"]
    assert blame(pairs(names), pairs(names), known=["b"]) == Blame(nodes=("b",))


@given(st.integers(4, 16), st.data())
def test_any_single_bad_node_is_found_and_nobody_else(count: int, data: st.DataObject) -> None:
    names = [f"n{n:02}" for n in range(count)]
    culprit = data.draw(st.sampled_from(names))
    assert blame(pairs(names), of(names, culprit)) == Blame(nodes=(culprit,))


@given(st.integers(2, 9), st.data())
def test_every_bad_pair_is_explained(count: int, data: st.DataObject) -> None:
    measured = pairs([f"n{n}" for n in range(count)])
    bad = data.draw(st.lists(st.sampled_from(measured), unique=True))
    found = blame(measured, bad)
    assert all(set(pair) & set(found.nodes) or pair in found.links for pair in bad)
    assert all(pair in bad for pair in found.links)


def figures(names: list[str], value: float, **slow: float) -> dict[Pair, float]:
    return {
        pair: min([value, *(speed for name, speed in slow.items() if name in pair)])
        for pair in pairs(names)
    }


def test_a_node_a_tenth_behind_its_sisters_is_named() -> None:
    found = slow_nodes(figures(EIGHT, 9.4, gpu5=8.3))
    assert list(found) == ["gpu5"]
    assert round(found["gpu5"].share, 3) == -0.117


def test_a_node_just_short_of_a_tenth_behind_is_not() -> None:
    assert slow_nodes(figures(EIGHT, 9.4, gpu5=8.47)) == {}


def test_noise_names_nobody() -> None:
    noisy = {pair: 9.0 + n % 7 for n, pair in enumerate(pairs(EIGHT))}
    assert slow_nodes(noisy) == {}
    assert slow_pairs(noisy) == {}


def test_a_slow_pair_is_named_and_its_nodes_are_not() -> None:
    values = {**figures(EIGHT, 9.4), ("gpu2", "gpu7"): 4.0}
    assert list(slow_pairs(values)) == [("gpu2", "gpu7")]
    assert slow_nodes(values) == {}


def test_three_nodes_are_too_few_to_be_compared() -> None:
    assert slow_nodes(figures(["a", "b", "c"], 9.4, b=1.0)) == {}
