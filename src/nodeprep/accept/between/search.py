"""Which groups of nodes run a collective, so that a slow whole leads to its culprit. Pure.

A collective over a ring is as slow as the worst node, or the worst hop, in it. Groups of one step
share no node and run side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence

from nodeprep.accept.between.attribution import Blame, blame
from nodeprep.accept.between.rounds import Pair

Group = tuple[str, ...]  # in the order of the ring
Known = Mapping[Group, bool | None]  # good or not; None: not measured
Search = Generator[tuple[Group, ...], Known, None]
_RING = 3  # nodes; of fewer the pair is the whole


def search(names: Sequence[str], new: Collection[str]) -> Search:
    """Yields steps, is sent what came of each, and ends when the rest is good or blame is found.

    Every pair of neighbours with a `new` node; the bad ones once more; whoever had no good pair
    with one who had; then all together without those who are to blame. While that is slow, its
    halves, and what joins them.
    """
    known: dict[Group, bool | None] = {}
    hops = [pair for pair in neighbours(names) if set(pair) & set(new)]
    yield from _steps(hops, known)
    yield from _steps([pair for pair in hops if not known.get(pair)], known)
    yield from _confirm(names, known)
    ring = _without(names, known)
    while len(ring) >= _RING:
        yield from _steps([ring], known)
        if not known.get(ring):
            yield from _steps([ring], known)
        if known.get(ring):
            return
        yield from _halve(ring, known)
        rest = _without(ring, known)
        if rest == ring:
            return  # nobody among them: it is what they share
        ring = rest


def neighbours(names: Sequence[str]) -> list[Pair]:
    """The hops of the ring."""
    if len(names) < 2:
        return []
    hops = list(zip(names, [*names[1:], names[0]], strict=True))
    return hops if len(names) >= _RING else hops[:1]


def apart(groups: Iterable[Group]) -> list[tuple[Group, ...]]:
    """Steps in which no node is twice, each group as early as it fits."""
    steps: list[list[Group]] = []
    for group in groups:
        fitting = (s for s in steps if not set(group) & {name for other in s for name in other})
        step = next(fitting, None)
        if step is None:
            steps.append([group])
        else:
            step.append(group)
    return [tuple(step) for step in steps]


def to_blame(known: Known) -> Blame:
    """By the pairs alone: nodes, and links that no node explains. Unmeasured is no better."""
    pairs = {pair: good for pair, good in known.items() if len(pair) == 2}
    return blame(list(pairs), [pair for pair, good in pairs.items() if not good])


def out(known: Known) -> set[str]:
    """Nodes that no group that is to be good may hold."""
    found = to_blame(known)
    return {*found.nodes, *(name for link in found.links for name in link)}


def _without(names: Sequence[str], known: Known) -> Group:
    guilty = out(known)
    return tuple(name for name in names if name not in guilty)


def _steps(groups: Iterable[Group], known: dict[Group, bool | None]) -> Search:
    for step in apart(groups):
        answers = yield step
        known.update({group: answers.get(group) for group in step})


def _confirm(names: Sequence[str], known: dict[Group, bool | None]) -> Search:
    """A good pair clears both of its nodes. Who has none is tried with one who has.

    Where nobody has, others are tried with each other, ever farther apart on the ring.
    """
    away = 2
    while not _clear(known) and away <= len(names) // 2:
        pairs = zip(names, [*names[away:], *names[:away]], strict=True)
        yield from _steps(apart(p for p in pairs if not {p, p[::-1]} & known.keys())[0], known)
        away *= 2
    spare = _clear(known)
    doubtful = [n for n in names if n not in spare and any(n in pair for pair in known)]
    while chosen := _matched(doubtful, spare, known):
        yield from _steps(chosen, known)
        doubtful = [name for name in doubtful if name not in {pair[1] for pair in chosen}]
        # Once is enough: a good node with many bad partners would look like the bad one.
        spare = [p for p in spare if p not in {pair[0] for pair in chosen if not known[pair]}]


def _matched(doubtful: Sequence[str], spare: Sequence[str], known: Known) -> list[Pair]:
    """Each doubtful node with one of its own, while there are some, that it was not tried with."""
    free = list(spare)
    found: list[Pair] = []
    for name in doubtful:
        partner = next((p for p in free if not {(p, name), (name, p)} & known.keys()), None)
        if partner is not None:
            free.remove(partner)
            found.append((partner, name))
    return found


def _clear(known: Known) -> list[str]:
    return sorted({name for pair, good in known.items() if good for name in pair})


def _halve(ring: Group, known: dict[Group, bool | None]) -> Search:
    """Down to the pairs: each slow group's halves, and where they are good the hops between."""
    slow = [ring]
    while slow:
        parts = {group: _parts(group) for group in slow}
        yield from _steps([part for both in parts.values() for part in both], known)
        whole = [both for both in parts.values() if all(known.get(part) for part in both)]
        hops = [hop for both in whole if len(both) == 2 for hop in _between(*both)]
        yield from _steps([h for h in hops if not {h, h[::-1]} & known.keys()], known)
        slow = [
            part
            for both in parts.values()
            for part in both
            if len(part) > 2 and not known.get(part)
        ]


def _parts(group: Group) -> tuple[Group, ...]:
    if len(group) == _RING:
        return tuple(neighbours(group))
    middle = len(group) // 2
    return group[:middle], group[middle:]


def _between(one: Group, other: Group) -> tuple[Pair, Pair]:
    return (one[-1], other[0]), (other[-1], one[0])
