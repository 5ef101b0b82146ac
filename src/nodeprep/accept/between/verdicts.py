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
from nodeprep.accept.between.figures import ClockFigures, PairFigures, Trouble
from nodeprep.accept.between.measurements import ALL, Gates, Line, Measurement, bad
from nodeprep.accept.between.rounds import Pair
from nodeprep.accept.findings import Finding, judge_measured, merge
from nodeprep.model.verdict import Outcome, Verdict

ROLE = "network"
_SHOWN = 4  # peers named in a reason
_STARVED = (f"{ROLE}/proof:tcp.pairs",)


def claim(measurement: Measurement) -> str:
    return f"{ROLE}/proof:{measurement.proof}"


def not_applicable(why: str) -> tuple[Verdict, ...]:
    """Each proof between nodes, for a node that has nobody to be measured with."""
    return tuple(
        Verdict(claim=claim(one), role=ROLE, verdict=Outcome.NOT_APPLICABLE, reason=why)
        for one in ALL
    )


@dataclass(frozen=True)
class Fleet:
    """All that was measured. `lost`: nodes that could not be spoken to, and why.

    `baselines`: what a node measured when it was last accepted, by node and claim.
    """

    gates: Gates
    pairs: Sequence[PairFigures] = ()
    clocks: Sequence[ClockFigures] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


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
        for view in (_View(one, fleet) for one in ALL if one.proof != "clock.offset")
        for line in view.lines.values()
        if line.pair in view.bad or line.value is None
    }


class _View:
    """One measurement over the whole fleet."""

    def __init__(self, measurement: Measurement, fleet: Fleet) -> None:
        self.one = measurement
        self.fleet = fleet
        self.claim = claim(measurement)
        self.lines = {line.pair: line for line in measurement.lines(fleet.pairs, fleet.clocks)}
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
        finding = self._finding(name)
        return merge([finding], claim=self.claim, role=ROLE, simulated=False)

    def _finding(self, name: str) -> Finding:
        own = [pair for pair in self.lines if name in pair]
        if self.one.gate not in self.fleet.gates.get(name, {}):
            return judge_measured(self.one.gate, self._worst(own)[0], None)
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
            action="is iperf3 installed and its port free, and no firewall between the nodes?",
            detail=self._matrix(name),
        )

    def _passed(self, name: str, own: Sequence[Pair]) -> Finding:
        others = {*self.failed.nodes, *self.silent.nodes}
        counted = [pair for pair in own if _peer(pair, name) not in others]
        aside = sorted({_peer(pair, name) for pair in own} & others)
        if not counted:
            left = ", ".join(aside) or "none was"
            return Finding(
                outcome=Outcome.UNKNOWN,
                wanted=self._wanted(name),
                reason=f"{self.one.what}: no node is left to be measured with ({left})",
                action="bring the other node in order, or run again without it",
            )
        found = self._measured(name, *self._worst(counted))
        notes = [*found.detail.get("notes", []), *self._notes(name, counted)]
        notes += [f"not counted: {', '.join(aside)}, which is bad itself"] if aside else []
        detail = found.detail | ({"notes": notes} if notes else {})
        if behind := self.slow_nodes.get(name):
            detail["slow"] = f"{_behind(behind, self._unit())} of the rest of the fleet"
        return found.model_copy(update={"detail": detail})

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
