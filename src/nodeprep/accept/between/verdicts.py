"""Verdicts of every node on what was measured between it and the others. Pure.

A node is refused for what it causes itself, and for a bad link at its end that no node explains:
then nothing shows which of the two is good. Not for what a peer causes.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodeprep.accept.between import measurements
from nodeprep.accept.between.attribution import Behind, blame, slow_nodes, slow_pairs
from nodeprep.accept.between.figures import ClockFigures, GroupFigures, PairFigures, Trouble
from nodeprep.accept.between.measurements import ALL, Gates, Line, Measurement, bad
from nodeprep.accept.between.rounds import Pair
from nodeprep.accept.findings import Finding, judge_measured, merge
from nodeprep.model.verdict import Outcome, Verdict

ROLE = "network"
_SHOWN = 4  # peers named in a reason
_TOGETHER = "nccl.all_reduce"
_NOT_OF_PAIRS = ("clock.offset", _TOGETHER)  # the latter looks twice by itself
_STARVED = (f"{ROLE}/proof:tcp.pairs",)


def claim(measurement: Measurement) -> str:
    return f"{ROLE}/proof:{measurement.proof}"


def not_applicable(why: str) -> tuple[Verdict, ...]:
    """Each proof between nodes, for a node that there is nobody to measure with at all."""
    return tuple(
        Verdict(claim=claim(one), role=ROLE, verdict=Outcome.NOT_APPLICABLE, reason=why)
        for one in ALL
    )


def unknown(why: str, action: str) -> tuple[Verdict, ...]:
    """Each proof between nodes, for a node that should have been measured and was not."""
    return tuple(
        Verdict(claim=claim(one), role=ROLE, verdict=Outcome.UNKNOWN, reason=why, action=action)
        for one in ALL
    )


def is_collective(verdict: Verdict) -> bool:
    return verdict.claim == f"{ROLE}/proof:{_TOGETHER}"


@dataclass(frozen=True)
class Fleet:
    """All that was measured. `lost`: nodes that could not be spoken to, and why.

    `baselines`: what a node measured when it was last accepted, by node and claim.
    `aside`: nodes that are in already and took no part, and why.
    `held`: nodes that were kept out of the collectives, and why.
    `gpuless`: nodes that have nothing to run a collective on; `simulated`: or only stand-ins.
    """

    gates: Gates
    pairs: Sequence[PairFigures] = ()
    clocks: Sequence[ClockFigures] = ()
    groups: Sequence[GroupFigures] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    aside: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    gpuless: Collection[str] = ()
    simulated: Collection[str] = ()


def judge(fleet: Fleet, judged: Collection[str]) -> dict[str, tuple[Verdict, ...]]:
    """The verdicts of the nodes `judged`, by name, one a measurement."""
    views = [_View(one, fleet) for one in ALL]
    return {name: _causes_first([view.verdict(name) for view in views]) for name in judged}


def _causes_first(found: list[Verdict]) -> tuple[Verdict, ...]:
    """A path that swallows full packets starves TCP: then the cable is not what to look at."""
    if any(v.claim.endswith("path_mtu") and v.verdict is Outcome.FAIL for v in found):
        first = {"action": "first mend the path MTU, which starves TCP; then measure again"}
        found = [v.model_copy(update=first) if v.claim in _STARVED and v.verdict is Outcome.FAIL
                 else v for v in found]  # fmt: skip
    return tuple(found)


def suspicious(fleet: Fleet) -> set[Pair]:
    """Pairs that are bad or unknown by anything that iperf3 or ping measured."""
    return {
        line.pair
        for view in (_View(one, fleet) for one in ALL if one.proof not in _NOT_OF_PAIRS)
        for line in view.lines.values()
        if line.pair in view.bad or line.value is None
    }


class _View:
    """One measurement over the whole fleet."""

    def __init__(self, measurement: Measurement, fleet: Fleet) -> None:
        self.one = measurement
        self.fleet = fleet
        self.claim = claim(measurement)
        self.lines = {line.pair: line for line in measurement.lines(fleet)}
        self.gates = {pair: measurement.gate_of(pair, fleet.gates) for pair in self.lines}
        self.bad = {pair for pair, line in self.lines.items() if bad(line, self.gates[pair])}
        known = [pair for pair, line in self.lines.items() if line.value is not None]
        unknown = [pair for pair in self.lines if pair not in known]
        told = [line.trouble.node for pair in unknown if (line := self.lines[pair]).trouble.node]
        self.failed = blame(known, self.bad)
        # What a bad node did not even answer is no more its peers' fault than what it did.
        self.silent = blame(
            list(self.lines), unknown, known=[*fleet.lost, *told, *self.failed.nodes]
        )
        values = {pair: line.value for pair, line in self.lines.items() if line.value is not None}
        # Of losses and clocks the good ones differ by noise alone, and from one day to the next.
        self.compared = measurement.proof == "tcp.pairs"
        compared = values if self.compared else {}
        self.slow_nodes, self.slow_pairs = slow_nodes(compared), slow_pairs(compared)

    def verdict(self, name: str) -> Verdict:
        if self.one.proof == _TOGETHER and name in self.fleet.gpuless:
            why = "no GPUs were rented, so no collective runs (profile: parts.gpus)"
            return Verdict(claim=self.claim, role=ROLE, verdict=Outcome.NOT_APPLICABLE, reason=why)
        findings = [self._finding(name), *self._together(name)]
        simulated = self.one.proof == _TOGETHER and name in self.fleet.simulated
        return merge(findings, claim=self.claim, role=ROLE, simulated=simulated)

    def _finding(self, name: str) -> Finding:
        own = [pair for pair in self.lines if name in pair]
        if self.one.gate not in self.fleet.gates.get(name, {}):
            return judge_measured(self.one.gate, self._worst(own)[0], None)
        if why := self.fleet.held.get(name) if self.one.proof == _TOGETHER else None:
            return self._not_measured(name, why, "mend that first; then measure again")
        if name in self.failed.nodes:
            return self._failed(name, [pair for pair in own if pair in self.bad], self._culprit)
        if links := self.failed.of(name):
            return self._failed(name, links, self._link)
        if name in self.silent.nodes or (links := self.silent.of(name)):
            return self._unknown(name, links or own)
        return self._passed(name, own)

    def _failed(self, name: str, pairs: Sequence[Pair], why: Any) -> Finding:
        value, pair = self._worst(pairs)
        found = self._measured(name, value, pair)
        reason, action = why(name, pairs)
        return found.model_copy(
            update={"outcome": Outcome.FAIL, "reason": reason, "action": action}
        )

    def _culprit(self, name: str, pairs: Sequence[Pair]) -> tuple[str, str]:
        measured = [p for p in self.lines if name in p and self.lines[p].value is not None]
        peers = f"with {len(pairs)} of {len(measured)} nodes"
        told = f"{self.one.what}: bad {peers}: {self._told(name, pairs)}"
        nodes = {node for pair in self.lines for node in pair}
        if 2 * len(self.failed.nodes) > len(nodes):
            rest = f"so are {len(self.failed.nodes) - 1} others: look at the network they share"
            return f"{told}; {rest}", f"the switch, its uplinks, then {self.one.node_action}"
        return f"{told}; the others are good among each other: it is this node", (
            self.one.node_action
        )

    def _link(self, name: str, pairs: Sequence[Pair]) -> tuple[str, str]:
        told = f"{self.one.what}: the link between {self._told(name, pairs)}"
        if len({node for pair in self.lines for node in pair}) == 2:
            return f"{told}; with two nodes nothing tells which of them it is", (
                f"{self.one.node_action}; the same on the other node"
            )
        return f"{told}; both are good with others", (
            f"{self.one.link_action}; {measurements.waive(self.claim)}"
        )

    def _unknown(self, name: str, pairs: Sequence[Pair]) -> Finding:
        lines = [self.lines[pair] for pair in pairs if self.lines[pair].value is None]
        own = [line.trouble for line in lines if line.trouble.node in ("", name)]
        lost = self.fleet.lost.get(name)
        whys = [lost] if lost else [_said(trouble) for trouble in own[:_SHOWN]]
        peers = ", ".join(_peer(line.pair, name) for line in lines[:_SHOWN])
        return Finding(
            outcome=Outcome.UNKNOWN,
            wanted=self._wanted(name),
            reason=f"{self.one.what}: not measured with {peers or 'anybody'}: "
            + "; ".join(dict.fromkeys(whys)),
            action=self.one.needs,
            detail=self._matrix(name),
        )

    def _passed(self, name: str, own: Sequence[Pair]) -> Finding:
        others = {*self.failed.nodes, *self.silent.nodes}
        counted = [pair for pair in own if _peer(pair, name) not in others]
        aside = sorted({_peer(pair, name) for pair in own} & others)
        if not counted:
            return self._not_measured(name, *self._nobody(aside))
        found = self._measured(name, *self._worst(counted))
        notes = [*found.detail.get("notes", []), *self._notes(name, counted)]
        notes += [f"not counted: {', '.join(aside)}, which is bad itself"] if aside else []
        detail = found.detail | ({"notes": notes} if notes else {})
        if behind := self.slow_nodes.get(name):
            detail["slow"] = f"{_behind(behind, self._unit())} of the rest of the fleet"
        return found.model_copy(update={"detail": detail})

    def _nobody(self, aside: Sequence[str]) -> tuple[str, str]:
        """Why there was nobody to be measured with, and what to do."""
        if aside or not self.fleet.aside:
            held = sorted(self.fleet.held) if self.one.proof == _TOGETHER else []
            left = ", ".join([*aside, *held]) or "none was"
            return f"no node is left to be measured with ({left})", (
                "bring the other node in order, or run again without it"
            )
        busy = "; ".join(f"{name}: {why}" for name, why in self.fleet.aside.items())
        return f"no node that is in already was free ({busy})", (
            "run again when one of them is idle (drain it for some minutes), or together with "
            "another new node"
        )

    def _not_measured(self, name: str, why: str, action: str) -> Finding:
        return Finding(
            outcome=Outcome.UNKNOWN,
            wanted=self._wanted(name),
            reason=f"{self.one.what}: {why}",
            action=action,
        )

    def _together(self, name: str) -> list[Finding]:
        """What the groups of more than two say of a node that no pair explains."""
        if self.one.proof != _TOGETHER or name in self.fleet.held:
            return []
        gone = {*self.failed.nodes, *self.silent.nodes}
        gone |= {node for link in (*self.failed.links, *self.silent.links) for node in link}
        last = {g.group: g for g in self.fleet.groups if len(g.group) > 2 and name in g.group}
        own = [g for g in last.values() if not set(g.group) & gone]
        if name in gone or not own:
            return []
        slow = [g for g in own if not self._good(g, name)]
        if slow:
            return [self._slow_together(min(slow, key=lambda g: len(g.group)), name)]
        whole = max(own, key=lambda g: len(g.group))
        told = f"over {len(whole.group)} nodes together"
        gate = self.fleet.gates[name].get(self.one.gate)
        return [judge_measured(self.one.gate, whole.busbw, gate, at=told)]

    def _good(self, found: GroupFigures, name: str) -> bool:
        gate = self.fleet.gates[name].get(self.one.gate)
        reached = found.busbw is not None and gate is not None and found.busbw >= gate.fail
        return reached and not found.wrong

    def _slow_together(self, found: GroupFigures, name: str) -> Finding:
        gate = self.fleet.gates[name].get(self.one.gate)
        who = f"{len(found.group)} nodes together ({', '.join(found.group)})"
        if found.trouble is not None:
            return self._not_measured(name, f"{who}: {_said(found.trouble)}", self.one.needs)
        judged = judge_measured(self.one.gate, found.busbw, gate, at=f"over {who}")
        wrong = measurements.wrong_values(found)
        return judged.model_copy(
            update={
                "outcome": Outcome.FAIL,
                "reason": f"{self.one.what}: {wrong or judged.read} over {who}, "
                "though its parts are good: it is what they share",
                "action": "look at the switch between them and its uplinks: together they ask "
                "for more than it carries",
            }
        )

    def _measured(self, name: str, value: float | None, pair: Pair | None) -> Finding:
        gate = self.gates[pair] if pair else None
        known = [v for p, line in self.lines.items() if name in p and (v := line.value) is not None]
        middle = f"median of {len(known)} pairs {statistics.median(known):.4g}" if known else ""
        before = self.fleet.baselines.get(name, {}) if self.compared else {}
        at = f"with {_peer(pair, name)}" if pair else ""
        baseline = before.get(self.claim)
        found = judge_measured(self.one.gate, value, gate, at=at, read=middle, baseline=baseline)
        beside = {}
        if self.one.proof == "udp.loss":
            mine = [figures for figures in self.fleet.pairs if name in figures.pair]
            beside = measurements.beside_loss(mine)
        detail = {**found.detail, **beside, **self._matrix(name)}
        return found.model_copy(update={"detail": detail})

    def _worst(self, pairs: Sequence[Pair]) -> tuple[float | None, Pair | None]:
        known = [(line.value, p) for p in pairs if (line := self.lines[p]).value is not None]
        if not known:
            return None, None
        lower = any(gate.better == "lower" for gate in self.gates.values() if gate)
        return (max if lower else min)(known, key=lambda item: float(item[0] or 0.0))

    def _notes(self, name: str, counted: Sequence[Pair]) -> list[str]:
        unit = self._unit()
        if behind := self.slow_nodes.get(name):
            return [f"{_behind(behind, unit)} of the rest of the fleet"]
        return [
            f"with {_peer(pair, name)}: {_behind(behind, unit)} of the other pairs"
            for pair in counted
            if (behind := self.slow_pairs.get(pair)) and not set(pair) & self.slow_nodes.keys()
        ]

    def _told(self, name: str, pairs: Sequence[Pair]) -> str:
        """`gpu1 0.05 Gbit/s, gpu3 …`; of links both ends: `gpu2 and gpu7 0.05 Gbit/s`."""
        unit = self._unit()
        texts = []
        for pair in pairs[:_SHOWN]:
            line = self.lines[pair]
            who = " and ".join(pair) if pair in self.failed.links else _peer(pair, name)
            wrong = f" ({line.wrong})" if line.wrong else ""
            texts.append(f"{who} {line.value:.4g} {unit}{_ways(line, name)}{wrong}")
        more = len(pairs) - _SHOWN
        return ", ".join(texts) + (f" and {more} more" if more > 0 else "")

    def _unit(self) -> str:
        return next((gate.unit for gate in self.gates.values() if gate), "")

    def _wanted(self, name: str) -> str:
        gate = self.fleet.gates[name][self.one.gate]
        return f"{'>=' if gate.better == 'higher' else '<='} {gate.fail:.6g} {gate.unit}"

    def _matrix(self, name: str) -> dict[str, Any]:
        """The node's rows of the fleet's matrix, one each way where the ways differ."""
        peers = sorted({_peer(pair, name) for pair in self.lines if name in pair})
        if not peers:
            return {}
        mine = {_peer(pair, name): line for pair, line in self.lines.items() if name in pair}
        if any(way is not None for line in mine.values() for way in line.ways):
            rows = ["to the peer", "from the peer"]
            values = [[_way(mine[peer], name, back) for peer in peers] for back in (False, True)]
        else:
            rows, values = [name], [[mine[peer].value for peer in peers]]
        matrix = {"rows": rows, "cols": peers, "values": values, "unit": self._unit()}
        return {"matrix": matrix}


def _peer(pair: Pair | None, name: str) -> str:
    return "" if pair is None else pair[1] if pair[0] == name else pair[0]


def _way(line: Line, name: str, back: bool) -> float | None:
    """`back`: from the peer to the node."""
    return line.ways[int((line.pair[0] == name) is back)]


def _ways(line: Line, name: str) -> str:
    """Said only when the two ways differ by a half: then it is one way that is bad."""
    to, back = _way(line, name, False), _way(line, name, True)
    if to is None or back is None or min(to, back) > max(to, back) / 2:
        return ""
    return f" ({to:.4g} to it, {back:.4g} from it)"


def _behind(behind: Behind, unit: str) -> str:
    return f"{behind.value:.4g} {unit} is {behind.share:+.0%} against the {behind.others:.4g}"


def _said(trouble: Trouble) -> str:
    return f"{trouble.node}: {trouble.why}" if trouble.node else trouble.why
