"""A slow collective leads to its culprit, whatever is broken, in few steps."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.accept.between.search import Group, Known, apart, neighbours, out, search, to_blame
from tests.unit.accept.between.fleet import names

EVERY = settings(max_examples=40)


class Fabric:
    """Slow nodes, slow links, and a switch that carries so many nodes at once."""

    def __init__(
        self, nodes: Collection[str] = (), links: Collection[frozenset[str]] = (), most: int = 999
    ) -> None:
        self.nodes, self.links, self.most = set(nodes), set(links), most
        self.steps: list[tuple[Group, ...]] = []

    def good(self, group: Group) -> bool:
        hops = {frozenset(hop) for hop in neighbours(group)}
        return not set(group) & self.nodes and not hops & self.links and len(group) <= self.most

    def searched(self, members: list[str], new: Collection[str] | None = None) -> Known:
        known: dict[Group, bool | None] = {}
        asking = search(members, members if new is None else new)
        answers: dict[Group, bool | None] | None = None
        while True:
            try:
                step = next(asking) if answers is None else asking.send(answers)
            except StopIteration:
                return known
            answers = {group: self.good(group) for group in step}
            self.steps.append(step)
            known |= answers


def link(*ends: str) -> frozenset[str]:
    return frozenset(ends)


@pytest.mark.parametrize("count", [2, 3, 4, 8, 13, 64])
def test_a_healthy_fleet_takes_its_pairs_and_the_whole(count: int) -> None:
    fabric = Fabric()
    known = fabric.searched(names(count))
    assert out(known) == set()
    assert len(fabric.steps) == (1 if count == 2 else 3 + count % 2)
    assert max(map(len, known)) == count


@EVERY
@given(count=st.integers(4, 64), which=st.integers(0, 63))
def test_one_slow_node_is_found_and_nobody_else(count: int, which: int) -> None:
    members = names(count)
    guilty = members[which % count]
    fabric = Fabric([guilty])
    known = fabric.searched(members)
    assert to_blame(known).nodes == (guilty,)
    assert to_blame(known).links == ()
    rest = tuple(name for name in members if name != guilty)
    assert known[rest] is True
    assert len(fabric.steps) <= 8


@EVERY
@given(count=st.integers(4, 64), which=st.integers(0, 63))
def test_one_slow_hop_is_found_as_a_link(count: int, which: int) -> None:
    members = names(count)
    hop = neighbours(members)[which % count]
    known = Fabric(links=[frozenset(hop)]).searched(members)
    assert to_blame(known).nodes == ()
    assert to_blame(known).links == (hop,)


@EVERY
@given(data=st.data(), count=st.integers(3, 64))
def test_every_slow_node_of_a_mostly_good_fleet_is_found(data: st.DataObject, count: int) -> None:
    members = names(count)
    few = st.lists(st.sampled_from(members), max_size=(count - 1) // 3, unique=True)
    guilty = data.draw(few)
    known = Fabric(guilty).searched(members)
    assert set(to_blame(known).nodes) == set(guilty)
    assert to_blame(known).links == ()


@EVERY
@given(data=st.data(), count=st.integers(2, 64))
def test_whatever_is_broken_the_groups_that_pass_are_good_and_who_is_blamed_is_at_fault(
    data: st.DataObject, count: int
) -> None:
    members = names(count)
    some = st.sampled_from(members)
    nodes = data.draw(st.lists(some, max_size=count, unique=True))
    ends = st.lists(some, min_size=2, max_size=2, unique=True).map(frozenset)
    links = data.draw(st.lists(ends, max_size=6, unique=True))
    most = data.draw(st.sampled_from([999, 2, 5, 17]))
    fabric = Fabric(nodes, links, most)
    known = fabric.searched(members)
    kept = [name for name in members if name not in out(known)]
    # Of those that are kept, whatever was measured is good, but for what a switch holds back.
    for group, good in known.items():
        if set(group) <= set(kept):
            assert good or len(group) > most or _hidden(fabric, group, known)
    for hop in neighbours(members):
        assert fabric.good(hop) or set(hop) & out(known)
    for name in to_blame(known).nodes:
        bad = [pair for pair, good in known.items() if len(pair) == 2 and name in pair and not good]
        assert len(bad) >= 2


def _hidden(fabric: Fabric, group: Group, known: Known) -> bool:
    """A slow group whose own slow hop was measured, and is then laid at the door of a link."""
    return any(not fabric.good(hop) for hop in neighbours(group))


@EVERY
@given(data=st.data(), count=st.integers(2, 64))
def test_it_ends_and_no_step_uses_a_node_twice(data: st.DataObject, count: int) -> None:
    members = names(count)
    fabric = Fabric(
        data.draw(st.lists(st.sampled_from(members), unique=True)),
        most=data.draw(st.integers(1, 64)),
    )
    fabric.searched(members)
    for step in fabric.steps:
        used = [name for group in step for name in group]
        assert len(used) == len(set(used))
    # Halving is logarithmic, and each halving may be followed by the hops between.
    assert len(fabric.steps) <= 12 + count + 6 * math.ceil(math.log2(count))


def test_an_overbooked_switch_is_nobodys_fault_and_is_narrowed_down() -> None:
    known = Fabric(most=5).searched(names(16))
    assert out(known) == set()
    slow = [group for group, good in known.items() if not good]
    assert min(map(len, slow)) == 8
    assert {len(group) for group, good in known.items() if good} == {2, 4}


def test_who_is_in_already_is_asked_only_with_newcomers() -> None:
    members = names(6)
    fabric = Fabric()
    fabric.searched(members, new=["gpu1"])
    pairs = [group for step in fabric.steps for group in step if len(group) == 2]
    assert all("gpu1" in pair for pair in pairs)
    assert fabric.steps[-1] == (tuple(members),)


def test_what_was_not_measured_is_not_good() -> None:
    asking = search(names(4), names(4))
    step = next(asking)
    step = asking.send(dict.fromkeys(step))
    step = asking.send(dict.fromkeys(step, True))
    assert set(step) == {("gpu1", "gpu2"), ("gpu3", "gpu4")}


def test_groups_that_share_a_node_come_one_after_the_other() -> None:
    assert apart([("a", "b"), ("b", "c"), ("c", "d")]) == [
        (("a", "b"), ("c", "d")),
        (("b", "c"),),
    ]
