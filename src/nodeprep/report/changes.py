"""What changed between two runs of the same verb, node by node. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Verdict
from nodeprep.report import words

MOVED = 0.05  # of the earlier value; a measurement that moved by more is told


@dataclass(frozen=True)
class Moved:
    """A measurement that moved; `worse` only where the verdict says which way is better."""

    verdict: Verdict
    before: float
    share: float  # (now - before) / before
    worse: bool

    def __str__(self) -> str:
        was, now = (words.figure(v, self.verdict.unit) for v in (self.before, self.verdict.value))
        return f"{self.verdict.claim}: {was}, now {now} ({self.share * 100:+.1f} %)"


@dataclass(frozen=True)
class NodeChange:
    """One node's changes. `state`: before and now; `fault`: how one came or went, in words."""

    name: str
    state: tuple[State, State] | None
    fault: str
    red: tuple[Verdict, ...]
    green: tuple[Verdict, ...]
    moved: tuple[Moved, ...]

    def __bool__(self) -> bool:
        return bool(self.state or self.fault or self.red or self.green or self.moved)


@dataclass(frozen=True)
class Changes:
    """`since`: the earlier run. `nodes`: those that changed; `strangers`: not in that run."""

    since: RunResult
    nodes: tuple[NodeChange, ...]
    strangers: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.nodes)


def changes(result: RunResult, previous: RunResult | None) -> Changes | None:
    """None without an earlier run, or one that shares no node with this."""
    if previous is None:
        return None
    before = {node.name: node for node in previous.nodes}
    known = [node for node in result.nodes if node.name in before]
    if not known:
        return None
    found = (_node(node, before[node.name]) for node in known)
    strangers = tuple(node.name for node in result.nodes if node.name not in before)
    return Changes(previous, tuple(change for change in found if change), strangers)


def _node(now: NodeResult, then: NodeResult) -> NodeChange:
    was = {verdict.claim: verdict for verdict in then.verdicts}
    # A run that stopped early judged nothing: that makes nothing red, and nothing green.
    red = tuple(
        v for v in now.verdicts
        if v.verdict.blocks and was and (v.claim not in was or not was[v.claim].verdict.blocks)
    )  # fmt: skip
    green = tuple(
        v for v in now.verdicts
        if not v.verdict.blocks and v.claim in was and was[v.claim].verdict.blocks
    )  # fmt: skip
    return NodeChange(
        name=now.name,
        state=(then.state, now.state) if then.state is not now.state else None,
        fault=_fault(now, then),
        red=red,
        green=green,
        moved=tuple(_moved(now, was)),
    )


def _fault(now: NodeResult, then: NodeResult) -> str:
    if now.fault and not then.fault:
        return f"stopped: {now.fault.message}"
    if then.fault and not now.fault:
        return f"stopped no more by: {then.fault.message}"
    return ""


def _moved(now: NodeResult, was: Mapping[str, Verdict]) -> Iterator[Moved]:
    for verdict in now.verdicts:
        before = was[verdict.claim].value if verdict.claim in was else None
        if verdict.value is None or not before or verdict.unit != was[verdict.claim].unit:
            continue
        share = (verdict.value - before) / abs(before)
        if math.isfinite(share) and abs(share) > MOVED:
            better = verdict.detail.get("better")
            worse = (better == "higher" and share < 0) or (better == "lower" and share > 0)
            yield Moved(verdict, before, share, worse)
