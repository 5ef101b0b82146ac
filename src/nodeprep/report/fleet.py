"""The fleet as a whole, laid out: every measurement on every node, links, curves. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import charts, curves, words


@dataclass(frozen=True)
class Cell:
    """One node's figure. `heat` -1..1: worse to better than the median; empty text: none."""

    text: str
    heat: float = 0.0
    outcome: Outcome | None = None
    slow: str = ""


@dataclass(frozen=True)
class Row:
    """One measurement over the fleet's nodes, in their order."""

    name: str
    profile: str
    unit: str
    gate: str
    median: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Fleet:
    """`nodes`: those that measured what a sister measured too."""

    nodes: tuple[str, ...]
    rows: tuple[Row, ...]
    links: tuple[tuple[Verdict, charts.Heatmap], ...]
    curves: tuple[tuple[str, curves.Drawing], ...]

    def __bool__(self) -> bool:
        return bool(self.rows or self.links or self.curves)


def lay_out(result: RunResult) -> Fleet:
    """What can be seen only across nodes."""
    groups: dict[tuple[str, str], dict[str, Verdict]] = {}  # by profile and claim
    for node in result.nodes:
        for verdict in node.verdicts:
            groups.setdefault((_profile(node), verdict.claim), {})[node.name] = verdict
    shared = {
        key: found
        for key, found in groups.items()
        if sum(verdict.value is not None for verdict in found.values()) > 1
    }
    names = {name for found in shared.values() for name in found}
    nodes = tuple(node.name for node in result.nodes if node.name in names)
    several = len({profile for profile, _ in shared}) > 1
    return Fleet(
        nodes=nodes,
        rows=tuple(
            _row(claim, profile if several else "", found, nodes)
            for (profile, claim), found in shared.items()
        ),
        links=tuple(_links(result)),
        curves=tuple(_curves(result)),
    )


def _profile(node: NodeResult) -> str:
    return node.profile.name if node.profile else ""


def _row(claim: str, profile: str, found: dict[str, Verdict], nodes: tuple[str, ...]) -> Row:
    values = [v.value for v in found.values() if v.value is not None and math.isfinite(v.value)]
    middle = median(values) if len(values) >= charts.FEWEST else None
    gates = {verdict.gate for verdict in found.values() if verdict.value is not None}
    gate = gates.pop() if len(gates) == 1 else None
    return Row(
        name=claim.rpartition("/proof:")[2],
        profile=profile,
        unit=next(verdict.unit for verdict in found.values() if verdict.value is not None),
        gate=words.figure(gate, "") if gate is not None else "",
        median=words.figure(middle, "") if middle is not None else "",
        cells=tuple(_cell(found.get(name), middle) for name in nodes),
    )


def _cell(verdict: Verdict | None, middle: float | None) -> Cell:
    if verdict is None:
        return Cell("")
    if verdict.value is None or not math.isfinite(verdict.value):
        return Cell(str(verdict.verdict).replace("_", " "), outcome=verdict.verdict)
    heat = charts.shade(verdict, verdict.value, middle)
    return Cell(words.figure(verdict.value, ""), heat, verdict.verdict, words.slow(verdict))


def _links(result: RunResult) -> Iterator[tuple[Verdict, charts.Heatmap]]:
    """Each matrix between nodes once: as a whole, or put together of what each node tells."""
    names = [node.name for node in result.nodes]
    whole: dict[str, Verdict] = {}
    parts: dict[tuple[str, str], _Parts] = {}  # by profile and claim
    for node in result.nodes:
        for verdict in node.verdicts:
            if charts.is_between(verdict, names):
                whole.setdefault(
                    json.dumps(verdict.detail["matrix"], sort_keys=True, default=str), verdict
                )
            elif links := charts.links_of(verdict, node.name, names):
                key = (_profile(node), verdict.claim)
                parts.setdefault(key, _Parts()).add(verdict, links)
    for verdict in (*whole.values(), *(part.verdict(names) for part in parts.values())):
        if found := charts.heatmap(verdict):
            yield verdict, found


@dataclass
class _Parts:
    """What several nodes tell of the same sort of link."""

    verdicts: list[Verdict] = field(default_factory=list)
    links: dict[tuple[str, str], float | None] = field(default_factory=dict)

    def add(self, verdict: Verdict, links: dict[tuple[str, str], float | None]) -> None:
        self.verdicts.append(verdict)
        self.links |= {pair: v for pair, v in links.items() if self.links.get(pair) is None}

    def verdict(self, names: list[str]) -> Verdict:
        """The worst of them, with the matrix of all."""
        known = [name for name in names if any(name in pair for pair in self.links)]
        values = [[self.links.get((one, other)) for other in known] for one in known]
        worst = next((v for v in self.verdicts if v.verdict.blocks), self.verdicts[0])
        unit = worst.detail["matrix"].get("unit", "")
        matrix = {"rows": known, "cols": known, "values": values, "unit": unit}
        reasons = dict.fromkeys(v.reason for v in self.verdicts if v.verdict.blocks and v.reason)
        gates = [v.gate for v in self.verdicts if v.gate is not None]
        return worst.model_copy(
            update={
                "detail": {"matrix": matrix, "better": _better(self.verdicts)},
                "gate": gates[0] if gates else None,
                "reason": "; ".join(list(reasons)[:3]),
            }
        )


def _better(verdicts: list[Verdict]) -> str:
    lower = any(verdict.detail.get("better") == "lower" for verdict in verdicts)
    return "lower" if lower else "higher"


def _curves(result: RunResult) -> Iterator[tuple[str, curves.Drawing]]:
    """The curves that several nodes of a profile drew."""
    groups: dict[tuple[str, str], list[tuple[str, Verdict]]] = {}
    for node in result.nodes:
        for verdict in node.verdicts:
            if "curve" in verdict.detail:
                key = (_profile(node), verdict.claim)
                groups.setdefault(key, []).append((node.name, verdict))
    for (_, claim), verdicts in groups.items():
        drawn = curves.overlay(verdicts)
        if drawn:
            yield claim, drawn
