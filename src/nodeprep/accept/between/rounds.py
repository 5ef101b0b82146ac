"""Who is measured with whom, and when. Pure.

Pairs of one round run side by side, so that a node must not be in two of them: its link would be
shared, and the figure of each pair would be half of what the link carries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Pair = tuple[str, str]
Round = tuple[Pair, ...]


def rounds(names: Sequence[str]) -> tuple[Round, ...]:
    """Every pair once: n-1 rounds of n/2 pairs for an even n, n rounds with one node idle for odd.

    The circle method: one stays, the others move on by a place each round.
    """
    if len(names) < 2:
        return ()
    seats: list[str | None] = [*names]
    if len(set(names)) != len(names):
        raise ValueError("a name is there twice")
    if len(seats) % 2:
        seats.append(None)
    found: list[Round] = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        found.append(tuple((a, b) for a, b in facing if a is not None and b is not None))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return tuple(found)


def involving(plan: Sequence[Round], names: Collection[str]) -> tuple[Round, ...]:
    """Only the pairs with at least one of `names`; rounds that are left empty fall away."""
    return only(plan, {pair for pairs in plan for pair in pairs if set(pair) & set(names)})


def only(plan: Sequence[Round], pairs: Collection[Pair]) -> tuple[Round, ...]:
    """Only these pairs, in the rounds where they were."""
    kept = (tuple(pair for pair in one if pair in pairs) for one in plan)
    return tuple(one for one in kept if one)
