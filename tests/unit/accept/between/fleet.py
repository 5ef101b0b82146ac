"""Fleets as the worker would have measured them, healthy but for what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from nodeprep.accept.between.figures import ClockFigures, PairFigures, Trouble
from nodeprep.accept.between.verdicts import Fleet, judge
from nodeprep.model.profile import Gate
from nodeprep.model.verdict import Verdict

GATES: Mapping[str, Gate] = {
    "network.tcp": Gate(fail=9.0, warn=9.3, unit="Gbit/s", source="10 GbE at MTU 1500"),
    "network.udp.loss": Gate(fail=0.1, unit="%", better="lower", source="a switched LAN"),
    "network.path_mtu": Gate(fail=1500, unit="bytes", source="public interfaces"),
    "network.clock.offset": Gate(fail=10, unit="ms", better="lower", source="one LAN"),
}
LINE = 9.41


def names(count: int) -> list[str]:
    return [f"gpu{n}" for n in range(1, count + 1)]


def figures(a: str, b: str, **found: object) -> PairFigures:
    healthy: dict[str, object] = {
        "tcp": (LINE, LINE), "loss": (0.0, 0.0), "jitter": (0.01, 0.01), "offered": 5.0,
        "mtu": (1500, 1500), "path_mtu": 1500,
    }  # fmt: skip
    return PairFigures.model_validate({"a": a, "b": b, **healthy, **found})


def fleet(
    count: int,
    *,
    nodes: Mapping[str, Mapping[str, object]] | None = None,
    pairs: Mapping[tuple[str, str], Mapping[str, object]] | None = None,
    clocks: Mapping[str, Mapping[str, object]] | None = None,
    lost: Mapping[str, str] | None = None,
    gates: Mapping[str, Mapping[str, Gate]] | None = None,
) -> Fleet:
    """`nodes`: what all pairs of a node measured instead; `pairs`: one pair; `clocks`: a node."""
    members = names(count)
    measured = []
    for a, b in combinations(members, 2):
        changed: dict[str, object] = {}
        for name in (a, b):
            changed |= (nodes or {}).get(name, {})
        changed |= (pairs or {}).get((a, b), {})
        measured.append(figures(a, b, **changed))
    told = [
        ClockFigures.model_validate(
            {"node": name, "source_ms": 0.02, "here_ms": 0.5, "error_ms": 2.0}
            | dict((clocks or {}).get(name, {}))
        )
        for name in members
    ]
    by_node = {name: (gates or {}).get(name, GATES) for name in members}
    return Fleet(gates=by_node, pairs=measured, clocks=told, lost=lost or {})


def verdicts(found: Fleet, proof: str = "tcp.pairs") -> dict[str, Verdict]:
    """One proof's verdict by node."""
    judged = judge(found, list(found.gates))
    claim = f"network/proof:{proof}"
    return {name: next(v for v in all_ if v.claim == claim) for name, all_ in judged.items()}


def unmeasured(key: str, why: str, node: str = "") -> dict[str, object]:
    blank = {"tcp": (None, None), "loss": (None, None), "path_mtu": None}[key]
    return {key: blank, "troubles": {key: Trouble(why=why, node=node)}}
