"""The plan of rounds: every pair once, nobody twice at a time, and no more rounds than needed."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.accept.between.rounds import involving, only, rounds

NAMES = st.integers(0, 40).map(lambda count: [f"gpu{n + 1}" for n in range(count)])


@given(NAMES)
def test_each_pair_is_measured_exactly_once(names: list[str]) -> None:
    found = [frozenset(pair) for one in rounds(names) for pair in one]
    assert len(found) == len(set(found))
    assert set(found) == {frozenset(pair) for pair in combinations(names, 2)}


@given(NAMES)
def test_no_node_is_in_two_pairs_of_a_round(names: list[str]) -> None:
    for one in rounds(names):
        busy = [name for pair in one for name in pair]
        assert len(busy) == len(set(busy))


@given(NAMES)
def test_there_are_as_few_rounds_as_can_be(names: list[str]) -> None:
    count = len(names)
    assert len(rounds(names)) == (0 if count < 2 else count - 1 if count % 2 == 0 else count)


def test_eight_nodes_take_seven_rounds_of_four_pairs() -> None:
    assert [len(one) for one in rounds([f"gpu{n}" for n in range(8)])] == [4] * 7


def test_a_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        rounds(["gpu1", "gpu1"])


@given(NAMES, st.integers(0, 5))
def test_newcomers_are_measured_with_everybody_and_the_others_left_alone(
    names: list[str], count: int
) -> None:
    new = set(names[:count])
    found = [pair for one in involving(rounds(names), new) for pair in one]
    assert all(set(pair) & new for pair in found)
    wanted = [pair for pair in combinations(names, 2) if set(pair) & new]
    assert len(found) == len(wanted)


def test_a_second_look_keeps_pairs_in_their_rounds() -> None:
    plan = rounds(["a", "b", "c", "d"])
    chosen = [pair for one in plan for pair in one if "a" in pair]
    assert len(only(plan, chosen)) == 3
    assert only(plan, ()) == ()
