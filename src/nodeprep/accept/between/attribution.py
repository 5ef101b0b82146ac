"""Whose fault bad pairs are. Pure; docs/adr/0004 says why so."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nodeprep.accept.between.rounds import Pair

WORSE = 0.10  # so much below its sisters a figure is named, even when it clears the gate
_MAD_TO_SIGMA = 1.4826  # the median absolute deviation of a normal distribution, as a deviation
_NOISE = 3.0  # deviations


@dataclass(frozen=True)
class Blame:
    """`nodes`: each is why its own pairs are bad. `links`: bad pairs that no node explains."""

    nodes: tuple[str, ...] = ()
    links: tuple[Pair, ...] = ()

    def of(self, node: str) -> tuple[Pair, ...]:
        """The links that end at this node."""
        return tuple(pair for pair in self.links if node in pair)


def blame(measured: Collection[Pair], bad: Collection[Pair], known: Iterable[str] = ()) -> Blame:
    """A node that is bad with most of the others, at least two of them, is the reason, not they.

    The worst is taken out first, then the rest is looked at again; equals go together. `known`:
    nodes that are to blame for another reason; no pair of theirs says anything about the peer.
    """
    guilty = list(dict.fromkeys(known))
    while True:
        left = [pair for pair in measured if not set(pair) & set(guilty)]
        wrong = [pair for pair in left if pair in bad]
        counts = {name: _count(wrong, name) for pair in wrong for name in pair}
        most = max(counts.values(), default=0)
        found = [
            name
            for name, count in counts.items()
            if count == most and count >= 2 and 2 * count > _count(left, name)
        ]
        if not found:
            return Blame(tuple(sorted(guilty)), tuple(wrong))
        guilty += found


def _count(pairs: Iterable[Pair], name: str) -> int:
    return sum(name in pair for pair in pairs)


@dataclass(frozen=True)
class Behind:
    """A node, or a pair, that is worse than the rest of the fleet, both in the unit measured."""

    value: float
    others: float

    @property
    def share(self) -> float:
        return (self.value - self.others) / self.others


def slow_nodes(values: Mapping[Pair, float]) -> dict[str, Behind]:
    """Nodes whose median pair is more than a tenth below the median of the pairs without them.

    And beyond the noise: three deviations, by the median absolute deviation of those pairs. Two
    pairs without the node are the least that can be called a fleet.
    """
    found: dict[str, Behind] = {}
    for name in sorted({name for pair in values for name in pair}):
        own = [value for pair, value in values.items() if name in pair]
        rest = [value for pair, value in values.items() if name not in pair]
        if len(rest) >= 2 and (behind := _behind(statistics.median(own), rest)):
            found[name] = behind
    return found


def slow_pairs(values: Mapping[Pair, float]) -> dict[Pair, Behind]:
    """Pairs that are as far below all the others."""
    found: dict[Pair, Behind] = {}
    for pair, value in values.items():
        rest = [other for name, other in values.items() if name != pair]
        if len(rest) >= 2 and (behind := _behind(value, rest)):
            found[pair] = behind
    return found


def _behind(value: float, rest: list[float]) -> Behind | None:
    middle = statistics.median(rest)
    noise = _MAD_TO_SIGMA * statistics.median(abs(other - middle) for other in rest)
    missing = middle - value
    if middle > 0 and missing > WORSE * middle and missing > _NOISE * noise:
        return Behind(value, middle)
    return None
